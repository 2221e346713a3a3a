"""Calibration: the scale or the prior with which so many releases meet a target.

The returned value is re-checked on the safe side: with it the target is met, never exceeded
by rounding. That check is the one that the accountant makes.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Protocol

from scipy.optimize import brentq

from privrl._checks import check_count, check_positive
from privrl.relations import Relation
from privrl.releases import Bound, DirichletRelease, Release
from privrl.special import FloatArray
from privrl.targets import ApproxDP, Rdp, Target

__all__ = ["ApproxDP", "Rdp", "Target", "calibrate_alpha", "calibrate_scale"]


class Accountant(Protocol):
    """What composes releases and converts them to epsilon."""

    def compose(self, release: Release, count: int = 1) -> None:
        """Record ``count`` releases."""

    def epsilon(self, delta: float) -> FloatArray:
        """Return epsilon (nats) at ``delta``."""


def calibrate_scale(
    target: Target,
    *,
    alpha: float,
    relation: Relation,
    count: int = 1,
    table: str | None = None,
    bound: Bound = "exact",
    accountant: Callable[[], Accountant] | None = None,
) -> float:
    """Return the largest scale with which ``count`` Dirichlet releases meet ``target``.

    Parameters
    ----------
    target : Rdp or ApproxDP
        What all the releases together may spend.
    alpha : float
        The smallest prior pseudo-count, > 0.
    relation, table, bound
        As for `DirichletRelease`.
    count : int
        How many releases, >= 1. For an `ApproxDP` target one release is accounted for
        exactly, several by the sum of their Rényi divergences.
    accountant : callable, optional
        Makes the accountant that an `ApproxDP` target is to be met under, if another:
        `privrl.pld.PldAccountant`.

    Returns
    -------
    float
        The scale, infinite if the relation never changes the table.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    check_count("count", count)

    def release(scale: float) -> DirichletRelease:
        return DirichletRelease(
            scale=scale, alpha=alpha, relation=relation, table=table, bound=bound
        )

    if not release(1.0).changes:
        return math.inf
    return _last_that_fits(_excess(target, count, accountant), release, upwards=True)


def calibrate_alpha(
    target: Target,
    *,
    scale: float,
    relation: Relation,
    count: int = 1,
    table: str | None = None,
    bound: Bound = "exact",
    accountant: Callable[[], Accountant] | None = None,
) -> float:
    """Return the smallest prior with which ``count`` Dirichlet releases meet ``target``.

    Parameters
    ----------
    target : Rdp or ApproxDP
        What all the releases together may spend.
    scale : float
        What the counts are multiplied by, > 0.
    relation, table, bound
        As for `DirichletRelease`.
    count : int
        How many releases, >= 1. For an `ApproxDP` target one release is accounted for
        exactly, several by the sum of their Rényi divergences.
    accountant : callable, optional
        Makes the accountant that an `ApproxDP` target is to be met under, if another:
        `privrl.pld.PldAccountant`.

    Returns
    -------
    float
        The prior pseudo-count of every cell, > 0.

    Raises
    ------
    ValueError
        If an argument is out of range, or the relation never changes the table.
    """
    check_count("count", count)
    least = relation.convex_from if isinstance(relation, Relation) else None

    def release(alpha: float) -> DirichletRelease:
        return DirichletRelease(
            scale=scale, alpha=alpha, relation=relation, table=table, bound=bound
        )

    if not release(max(1.0, least or 0)).changes:
        raise ValueError(
            f"relation {str(relation)!r} never changes the table {table!r}, so any prior is "
            "private: no smallest one exists. Keep the prior that you would use without privacy."
        )
    excess = _excess(target, count, accountant)
    if least is not None and excess(release(least)) <= 0:
        return least
    return _last_that_fits(excess, release, upwards=False, least=least or 0.0)


def _excess(
    target: Target, count: int, accountant: Callable[[], Accountant] | None
) -> Callable[[DirichletRelease], float]:
    """Return how far releases are above the target, made a little stricter, in logarithms.

    Stricter by 1e-12, so that sums of such releases do not exceed the target by rounding.
    """
    if not isinstance(target, Rdp | ApproxDP):
        raise ValueError(f"target must be Rdp(...) or ApproxDP(...), got {target!r}.")
    strict = replace(target, epsilon=target.epsilon * (1 - 1e-12))
    if accountant is None:
        return partial(strict.excess, count=count)
    if isinstance(strict, Rdp):
        raise ValueError("accountant is for ApproxDP targets; Rényi divergences simply add up.")

    def excess(release: DirichletRelease) -> float:
        ledger = accountant()
        ledger.compose(release, count)
        spent = float(ledger.epsilon(strict.delta))
        return math.log(spent / strict.epsilon) if spent > 0 else -math.inf

    return excess


def _last_that_fits(
    excess: Callable[[DirichletRelease], float],
    release: Callable[[float], DirichletRelease],
    *,
    upwards: bool,
    least: float = 0.0,
) -> float:
    """Solve for the parameter at which the excess is nothing, in logarithms.

    The excess rises with the parameter if ``upwards``, falls otherwise.
    """

    def clipped(log_value: float) -> float:
        # Clipped where the cost is nothing or infinite.
        return min(max(excess(release(math.exp(log_value))), -1e3), 1e3)

    sign = 1 if upwards else -1  # the direction in which the cost rises
    cheap = dear = math.log(max(1.0, least))
    step = 1.0
    while clipped(cheap) > 0:
        cheap -= sign * step
        step *= 1.5
    step = 1.0
    while clipped(dear) <= 0:
        dear += sign * step
        if not upwards and least > 0:
            dear = max(dear, math.log(least))
        step *= 1.5
    value = math.exp(brentq(clipped, cheap, dear, xtol=1e-14, rtol=1e-14))
    margin = 1e-14
    while excess(release(value)) > 0:
        value *= 1 - sign * margin
        margin *= 2
    return check_positive("the calibrated value", value)
