"""Calibration: the scale or the prior with which so many releases meet a target.

The returned value is re-checked on the safe side: with it the target is met, never exceeded
by rounding. That check is the one that the accountant makes.
"""

import math
from collections.abc import Callable
from dataclasses import replace

from scipy.optimize import brentq

from privrl._checks import check_count, check_positive
from privrl.relations import Relation
from privrl.releases import Bound, DirichletRelease
from privrl.targets import ApproxDP, Rdp, Target

__all__ = ["ApproxDP", "Rdp", "Target", "calibrate_alpha", "calibrate_scale"]


def calibrate_scale(
    target: Target,
    *,
    alpha: float,
    relation: Relation,
    count: int = 1,
    table: str | None = None,
    bound: Bound = "exact",
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
    return _last_that_fits(target, release, count, upwards=True)


def calibrate_alpha(
    target: Target,
    *,
    scale: float,
    relation: Relation,
    count: int = 1,
    table: str | None = None,
    bound: Bound = "exact",
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
    if least is not None and target.excess(release(least), count) <= 0:
        return least
    return _last_that_fits(target, release, count, upwards=False, least=least or 0.0)


def _last_that_fits(
    target: Target,
    release: Callable[[float], DirichletRelease],
    count: int,
    *,
    upwards: bool,
    least: float = 0.0,
) -> float:
    """Solve for the parameter at which the cost meets the target, in logarithms.

    The cost rises with the parameter if ``upwards``, falls otherwise.
    """
    if not isinstance(target, Rdp | ApproxDP):
        raise ValueError(f"target must be Rdp(...) or ApproxDP(...), got {target!r}.")

    def excess(log_value: float) -> float:
        # Clipped where the cost is nothing or infinite.
        return min(max(target.excess(release(math.exp(log_value)), count), -1e3), 1e3)

    sign = 1 if upwards else -1  # the direction in which the cost rises
    cheap = dear = math.log(max(1.0, least))
    step = 1.0
    while excess(cheap) > 0:
        cheap -= sign * step
        step *= 1.5
    step = 1.0
    while excess(dear) <= 0:
        dear += sign * step
        if not upwards and least > 0:
            dear = max(dear, math.log(least))
        step *= 1.5
    value = math.exp(brentq(excess, cheap, dear, xtol=1e-14, rtol=1e-14))
    margin = 1e-14
    # A little to spare, so that sums of such releases do not exceed the target by rounding.
    strict = replace(target, epsilon=target.epsilon * (1 - 1e-12))
    while strict.excess(release(value), count) > 0:
        value *= 1 - sign * margin
        margin *= 2
    return check_positive("the calibrated value", value)
