"""Calibrations as published, for comparison with the exact one.

`dps_prior` and `dkl_algorithm_1` choose parameters as Ponnoprat, *Differential privacy of Dirichlet
posterior sampling* (DPS below), and *Dirichlet mechanism for differentially private KL divergence
minimization* (DKL below) do; the Rényi curves behind them are in `privrl.costs.curves`, and are
`DirichletCost`'s by name.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from privrl.accounting.targets import ApproxDP, RenyiDP
from privrl.costs.conversion import DEFAULT_ORDERS
from privrl.costs.curves import sensitivities
from privrl.costs.dirichlet import DirichletCost
from privrl.costs.relations import Relation
from privrl.files.shown import shown
from privrl.numerics.checks import check_between, check_count, check_positive
from privrl.numerics.scipy_lazily import optimize, special


def dps_prior(
    target: RenyiDP, *, relation: Relation, weight: float = 1.0, table: str | None = None
) -> float:
    """Return DPS's closed-form prior (9): ``λ weight² Δ₂² / (2 ε) + (λ − 1) weight Δ∞ + 1``.

    Parameters
    ----------
    target : RenyiDP
        What one release may spend.
    relation, table
        As for `DirichletCost`.
    weight : float
        What the counts are multiplied by, > 0; (9) is printed for 1.

    Returns
    -------
    float
        A prior that meets the target. `privrl.mechanisms.DirichletMechanism.calibrated` with
        ``bound="dps"`` finds the least one under the same theorem, without it the least prior.
    """
    check_positive("weight", weight, "larger means less noise")
    squares, largest = _changes(relation, table)
    shift = (target.order - 1) * weight * largest
    return target.order * weight**2 * squares / (2 * target.epsilon) + shift + 1


class DklSetting(NamedTuple):
    """What Algorithm 1 chooses: draw ``Dirichlet(weight * counts + alpha)``, at this cost."""

    weight: float
    alpha: float
    cost: DirichletCost


def dkl_algorithm_1(
    target: RenyiDP,
    *,
    relation: Relation,
    table: str | None = None,
    g: Callable[[float], float] | None = None,
    lower_bound: float = 0.0,
) -> DklSetting:
    """Choose weight and prior for one release by DKL's Algorithm 1.

    The weight solves ``ε = λ/2 weight² Δ₂² ψ'(1 + g(weight) + weight * lower_bound)``, and the
    prior is ``1 + g(weight) + (λ − 1) weight Δ∞``.

    Parameters
    ----------
    target, relation, table
        As for `dps_prior`.
    g : callable, optional
        Remark 1: any function from the weight to a number >= 0. By default the paper's,
        ``3 (λ − 1) weight Δ∞``. With several solutions, one of them is found.
    lower_bound : float
        Remark 2: a public fact, that no cell's count is ever below this, >= 0.

    Returns
    -------
    DklSetting
        ``weight`` and ``alpha`` to draw with, as in ``DirichletMechanism(..., bound="dkl")``, and
        the ``cost``, whose bound is ``"dkl"``; ``dataclasses.replace(cost, bound="exact")`` is the
        truth about it. Public lower bounds of the counts act as a prior, so the prior of the cost
        is ``alpha + weight * lower_bound``, which is Remark 2: draw with ``DirichletMechanism(...,
        lower_bound=lower_bound)``, which sees to it.

    Raises
    ------
    ValueError
        If ``g`` is negative or not finite, or grows so fast that no weight spends as much; if
        ``lower_bound`` is negative; or if the relation never changes the table.
    """
    if not 0 <= lower_bound < math.inf:
        raise ValueError(
            f"lower_bound must be >= 0 and finite, got {shown(lower_bound)}; 0 is always true."
        )
    squares, largest = _changes(relation, table)
    order = target.order

    def gap(weight: float) -> float:
        return 3 * (order - 1) * weight * largest if g is None else _checked(g, weight)

    def spent(weight: float) -> float:
        argument = 1 + gap(weight) + weight * lower_bound
        return float(order / 2 * weight**2 * squares * special.polygamma(1, argument))

    def setting(weight: float) -> DklSetting:
        alpha = 1 + gap(weight) + (order - 1) * weight * largest
        effective = alpha + weight * lower_bound
        cost = DirichletCost(
            weight=weight, alpha=effective, relation=relation, table=table, bound="dkl"
        )
        return DklSetting(weight, alpha, cost)

    # At g = 0 and no lower bound the weight has a closed form (Remark 1), and is the least.
    high = math.sqrt(2 * target.epsilon / (order * squares * float(special.polygamma(1, 1))))
    low = high / 2
    while spent(high) < target.epsilon:
        low, high = high, 2 * high
        if high > 1e30:
            raise ValueError(
                f"g grows so fast that no weight up to 1e30 spends epsilon = {target.epsilon:g}; "
                "choose one that grows more slowly than the square of the weight."
            )
    weight = float(optimize.brentq(lambda r: spent(r) - target.epsilon, low, high, xtol=1e-300))
    margin = 1e-16
    while float(setting(weight).cost.rdp(order)) > target.epsilon:
        weight *= 1 - margin
        margin *= 2
    return setting(weight)


def dkl_approximate_dp(
    target: ApproxDP,
    *,
    relation: Relation,
    table: str | None = None,
    order: float | None = None,
    lower_bound: float = 0.0,
    count: int = 1,
) -> DklSetting:
    """Choose weight and prior by Algorithm 1 and DKL's conversion (13).

    At an order λ, Algorithm 1 is run for the Rényi divergence
    ``epsilon − log(λ − 1) + (log delta + λ log λ) / (λ − 1)``.

    Parameters
    ----------
    target : ApproxDP
        What all the releases may spend.
    order : float, optional
        The order λ > 1. The paper takes 2, 20 and 200 in turn; by default it is the one
        under which the prior weighs least in records, ``alpha / weight``.
    count : int
        How many such releases share the target: at each order, an equal part for each.
    relation, table, lower_bound
        As for `dkl_algorithm_1`, which says what is returned.

    Raises
    ------
    ValueError
        If nothing is left to spend at the order, or at any.
    """
    orders = (
        DEFAULT_ORDERS if order is None else np.array([check_between("order", order, 1, math.inf)])
    )
    log_delta = math.log(target.delta)
    parts = check_count("count", count) * (1 + 1e-12)
    left = target.epsilon - np.log(orders - 1)
    left += (log_delta + orders * np.log(orders)) / (orders - 1)
    settings = [
        dkl_algorithm_1(
            RenyiDP(float(at), float(epsilon) / parts),
            relation=relation,
            table=table,
            lower_bound=lower_bound,
        )
        for at, epsilon in zip(orders, left, strict=True)
        if epsilon > 0
    ]
    if not settings:
        raise ValueError(
            f"order must leave something to spend of epsilon = {target.epsilon:g} at "
            f"delta = {target.delta:g}, got {shown(order)}; larger orders leave more."
        )
    return min(settings, key=lambda setting: setting.alpha / setting.weight)


def _checked(g: Callable[[float], float], weight: float) -> float:
    value = g(weight)
    if not 0 <= value < math.inf:
        raise ValueError(f"g must be >= 0 and finite, got g({weight:g}) = {shown(value)}.")
    return value


def _changes(relation: Relation, table: str | None) -> tuple[float, float]:
    squares, largest = sensitivities(relation.changes(table))
    if not squares:
        raise ValueError(
            f"relation {str(relation)!r} never changes the table {shown(table)}, so any weight and "
            "any prior are private; use those that you would use without privacy."
        )
    return squares, largest
