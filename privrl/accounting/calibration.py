"""Calibration: the parameter with which so many releases just meet a target.

The returned value is re-checked on the safe side: with it the target is met, never exceeded
by rounding. That check is the one that the accountant makes.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Literal, Protocol

from scipy.optimize import brentq

from privrl._checks import check_count, check_positive
from privrl.accounting.targets import ApproxDP, Rdp, Target
from privrl.costs.base import Cost
from privrl.costs.dirichlet import Bound, DirichletCost
from privrl.costs.relations import Relation
from privrl.numerics.special import FloatArray

__all__ = ["ApproxDP", "Rdp", "Target", "calibrate", "calibrate_alpha", "calibrate_weight"]


_EXTREME = math.log(1e30) * (1 - 1e-12)  # of the logarithm of a parameter


class Accountant(Protocol):
    """What composes releases and converts them to epsilon."""

    def compose(self, cost: Cost, count: int = 1) -> None:
        """Record ``count`` releases."""

    def epsilon(self, delta: float) -> FloatArray:
        """Return epsilon (nats) at ``delta``."""


def calibrate(
    target: Target,
    cost: Callable[[float], Cost],
    *,
    costs: Literal["rise", "fall"],
    count: int = 1,
    accountant: Callable[[], Accountant] | None = None,
    least: float = 0.0,
) -> float:
    """Return the last value of a parameter with which ``count`` releases meet ``target``.

    Parameters
    ----------
    target : Rdp or ApproxDP
        What all the releases together may spend.
    release : callable
        Makes the release from the parameter, which is > 0.
    costs : {"rise", "fall"}
        Whether they rise with the parameter, whose largest value is then returned, or fall,
        when it is the smallest: ``"fall"`` for the size of some noise.
    count : int
        How many releases, >= 1. For an `ApproxDP` target one release is accounted for
        exactly, several by the sum of their Rényi divergences.
    accountant : callable, optional
        Makes the accountant that an `ApproxDP` target is to be met under, if another:
        `privrl.accounting.pld.PldAccountant`.
    least : float
        The parameter is not made smaller than this.

    Raises
    ------
    ValueError
        If an argument is out of range, or no value from 1e-30 to 1e30 meets the target.
    """
    check_count("count", count)
    excess = _excess(target, count, accountant)
    if costs == "fall" and least > 0 and excess(cost(least)) <= 0:
        return least
    return _last_that_fits(excess, cost, target, upwards=costs == "rise", least=least)


def calibrate_weight(
    target: Target,
    *,
    alpha: float,
    relation: Relation,
    count: int = 1,
    table: str | None = None,
    bound: Bound = "exact",
    accountant: Callable[[], Accountant] | None = None,
) -> float:
    """Return the largest weight with which ``count`` Dirichlet releases meet ``target``.

    Parameters
    ----------
    target : Rdp or ApproxDP
        What all the releases together may spend.
    alpha : float
        The smallest prior pseudo-count, > 0.
    relation, table, bound
        As for `DirichletCost`.
    count : int
        How many releases, >= 1. For an `ApproxDP` target one release is accounted for
        exactly, several by the sum of their Rényi divergences.
    accountant : callable, optional
        Makes the accountant that an `ApproxDP` target is to be met under, if another:
        `privrl.accounting.pld.PldAccountant`.

    Returns
    -------
    float
        The weight, infinite if the relation never changes the table.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    check_count("count", count)

    def cost(weight: float) -> DirichletCost:
        return DirichletCost(
            weight=weight, alpha=alpha, relation=relation, table=table, bound=bound
        )

    if not cost(1.0).changes:
        return math.inf
    return calibrate(target, cost, costs="rise", count=count, accountant=accountant)


def calibrate_alpha(
    target: Target,
    *,
    weight: float,
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
    weight : float
        What the counts are multiplied by, > 0.
    relation, table, bound
        As for `DirichletCost`.
    count : int
        How many releases, >= 1. For an `ApproxDP` target one release is accounted for
        exactly, several by the sum of their Rényi divergences.
    accountant : callable, optional
        Makes the accountant that an `ApproxDP` target is to be met under, if another:
        `privrl.accounting.pld.PldAccountant`.

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

    def cost(alpha: float) -> DirichletCost:
        return DirichletCost(
            weight=weight, alpha=alpha, relation=relation, table=table, bound=bound
        )

    if not cost(max(1.0, least or 0)).changes:
        raise ValueError(
            f"relation {str(relation)!r} never changes the table {table!r}, so any prior is "
            "private: no smallest one exists. Keep the prior that you would use without privacy."
        )
    return calibrate(
        target, cost, costs="fall", count=count, accountant=accountant, least=least or 0.0
    )


def _excess(
    target: Target, count: int, accountant: Callable[[], Accountant] | None
) -> Callable[[Cost], float]:
    """Return how far releases are above the target, made a little stricter: a smooth scale.

    Stricter by 1e-12, so that sums of such releases do not exceed the target by rounding.
    """
    if not isinstance(target, Rdp | ApproxDP):
        raise ValueError(f"target must be Rdp(...) or ApproxDP(...), got {target!r}.")
    strict = replace(target, epsilon=target.epsilon * (1 - 1e-12))
    if accountant is None:
        if isinstance(strict, Rdp):
            return partial(strict.excess, count=count)
        return lambda cost: _straightened(strict.excess(cost, count), strict.delta)
    if isinstance(strict, Rdp):
        raise ValueError("accountant is for ApproxDP targets; Rényi divergences simply add up.")

    def excess(cost: Cost) -> float:
        ledger = accountant()
        ledger.compose(cost, count)
        spent = float(ledger.epsilon(strict.delta))
        return math.log(spent / strict.epsilon) if spent > 0 else -math.inf

    return excess


def _straightened(excess: float, delta: float) -> float:
    """Return an excess of log delta as one of the logarithm of log delta, of the same sign.

    Log delta falls like a power of the noise, so this is nearly linear in the parameter's
    logarithm: a root takes half as many steps.
    """
    share = 1 + excess / math.log(delta)  # of the wanted log delta, which is negative
    if not 0 < share < math.inf:
        return math.inf if share <= 0 else -math.inf
    # Near the root log1p keeps the sign.
    return -math.log1p(excess / math.log(delta))


def _last_that_fits(
    excess: Callable[[Cost], float],
    cost: Callable[[float], Cost],
    target: Target,
    *,
    upwards: bool,
    least: float = 0.0,
) -> float:
    """Solve for the parameter at which the excess is nothing, in logarithms.

    The excess rises with the parameter if ``upwards``, falls otherwise.
    """

    @cache
    def over(log_value: float) -> float:
        return excess(cost(math.exp(log_value)))

    def clipped(log_value: float) -> float:
        # Clipped where the cost is nothing or infinite.
        return min(max(over(log_value), -1e3), 1e3)

    sign = 1 if upwards else -1  # the direction in which the cost rises
    low, high = max(-_EXTREME, math.log(least) if least > 0 else -_EXTREME), _EXTREME
    start = min(max(0.0, low), high)
    cheap = _search(start, -sign, low, high, lambda at: clipped(at) <= 0)
    if cheap is None:
        end = math.exp(low if upwards else high)
        raise ValueError(
            f"target must be one that the release can meet, got {target}; it costs more even "
            f"with the {'smallest' if upwards else 'largest'} parameter, {end:.3g}. Allow more, or "
            "plan for fewer releases."
        )
    dear = _search(start, sign, low, high, lambda at: clipped(at) > 0)
    if dear is None:
        end = math.exp(high if upwards else low)
        raise ValueError(
            f"target must be one that binds, got {target}; it is met by every parameter from "
            f"{math.exp(start):.3g} to {end:.3g}. Choose the parameter yourself."
        )
    root = float(brentq(clipped, cheap, dear, xtol=1e-14, rtol=1e-14))
    value, margin = math.exp(root), 1e-14
    above = over(root)
    while above > 0:
        value = max(value * (1 - sign * margin), least)
        margin *= 2
        above = excess(cost(value))
    return check_positive("the calibrated value", value)


def _search(
    start: float, direction: int, low: float, high: float, holds: Callable[[float], bool]
) -> float | None:
    """Return the first point with ``holds``, by growing steps from ``start`` to an end."""
    at, step = start, 1.0
    while not holds(at):
        if at == (low if direction < 0 else high):
            return None
        at = min(max(at + direction * step, low), high)
        step *= 1.5
    return at
