"""Budgets of data sets: they hold for every adaptive choice of releases.

The next release may depend on earlier ones, so a budget has to be a privacy filter: all admitted
releases together stay within it although costs depend on earlier outcomes. Three rules are filters,
also side by side (`privrl.accounting.filters` has the proof of one order).

**Pure.** The epsilons of pure privacy sum to at most the budget's. Then the loss of all releases is
at most epsilon, along every path of outcomes.

**One order.** The Rényi divergences of one order, fixed in advance, sum to at most the value that
converts to (epsilon, d) (Feldman and Zrnic, *Individual privacy accounting via a Rényi filter*,
2021). The paths that end within this are those of a mechanism that stops there. So they add at most
``d`` to delta, whatever other paths do, and several orders are used with shares of delta that sum
to it. Half is for the order that is best for Gaussian noise that spends the whole budget; the rest
is for those around it, where Dirichlet draws and few large releases are cheaper. Paths of the first
rule add nothing.

**Alone.** A first release keeps the budget by its own privacy profile. If its Rényi divergences do
not, only the first rule can admit a second release, so this adds to delta only the part that the
second rule leaves unused.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, Self

import numpy as np

from privrl.accounting.amounts import Amount, profile_of
from privrl.accounting.targets import ApproxDP, PureDP, Target
from privrl.costs.base import Cost, delta_of
from privrl.costs.conversion import log_delta_by_order
from privrl.files.shown import shown
from privrl.numerics.checks import check_between, check_positive
from privrl.numerics.special import FloatArray

_AROUND: Final = tuple(2.0**k for k in (-4, -3, -2, -1, 1, 2, 3, 4))  # times the best order, less 1


@dataclass(frozen=True)
class Budget:
    """The joint limit on all releases of a data set, under one relation.

    Parameters
    ----------
    epsilon : float
        In nats, > 0 and finite; taken as the decimal number that it prints as.
    delta : float, optional
        In (0, 1); by default the budget is one of pure privacy.

    Raises
    ------
    ValueError
        If a number is out of range.
    """

    epsilon: float
    delta: float | None = None

    def __post_init__(self) -> None:
        epsilon = check_positive("epsilon", self.epsilon, "smaller means more privacy")
        object.__setattr__(self, "epsilon", epsilon)
        if self.delta is not None:
            delta = check_between("delta", self.delta, 0, 1, "1e-5 or less is usual")
            object.__setattr__(self, "delta", delta)

    def __str__(self) -> str:
        pair = f"epsilon {self.epsilon!r}"
        return pair if self.delta is None else f"{pair} at delta {self.delta!r}"

    def admits(self, total: Amount, only: Cost | None = None) -> bool:
        """Whether releases keep the budget; ``only`` is the cost of a first release."""
        if total.pure is not None and total.pure <= self._exact:
            return True
        if self.delta is None:
            return False
        orders, log_deltas = _filters(total.orders, self.epsilon, self.delta)
        rdp = total.rdp(orders)
        spent = log_delta_by_order(np.array(total.orders)[list(orders)], rdp, self.epsilon)
        if (spent <= log_deltas).any():
            return True
        profile = None if only is None else profile_of(only)
        return profile is not None and float(delta_of(profile, self.epsilon)) <= self.delta

    def share(self, total: Amount) -> float:
        """Return the spent share of the budget, by the rule with the smallest one; for display."""
        pure = math.inf if total.pure is None else float(total.pure / self._exact)
        if self.delta is None:
            return pure
        orders, log_deltas = _filters(total.orders, self.epsilon, self.delta)
        chosen = np.array(total.orders)[list(orders)]
        allowed = _allowed(chosen, self.epsilon, np.array(log_deltas))
        rdp = total.rdp(orders)
        usable = allowed > 0
        shares = np.where(usable, rdp / np.where(usable, allowed, 1.0), np.inf)
        own = math.inf
        if total.alone is not None and total.alone[0] <= self.delta:
            own = total.alone[1] / self.epsilon
        return min(pure, float(shares.min()), own)

    @classmethod
    def of(cls, target: object) -> Self:
        """Return a budget as it is, or the budget of a target.

        Raises
        ------
        ValueError
            If the target is neither `ApproxDP` nor `PureDP`.
        """
        if isinstance(target, cls):
            return target
        if not isinstance(target, ApproxDP | PureDP):
            said = repr(target) if isinstance(target, Target) else shown(target)
            raise ValueError(
                "budget must be a Budget, ApproxDP(...) or PureDP(...), got "
                f"{said}: a ledger keeps budgets of epsilon and delta."
            )
        return cls(target.epsilon, target.stated_delta or None)

    @property
    def _exact(self) -> Fraction:
        return Fraction(repr(self.epsilon))

    def to_plain(self) -> dict[str, float | None]:
        """Return it as plain data."""
        return {"epsilon": self.epsilon, "delta": self.delta}

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> Self:
        """Return the budget of plain data."""
        return cls(data["epsilon"], data["delta"])


def strictest(budgets: Sequence[Budget]) -> Budget:
    """Return a budget within each of the given ones: their least epsilon and least delta."""
    if len(budgets) == 1:
        return budgets[0]
    deltas = [each.delta for each in budgets if each.delta is not None]
    pure = len(deltas) < len(budgets)
    return Budget(min(each.epsilon for each in budgets), None if pure else min(deltas))


@lru_cache(maxsize=64)
def _filters(
    orders: tuple[float, ...], epsilon: float, delta: float
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Return the indices of the filtering orders, and the logarithm of each one's share of delta.

    They depend on the budget alone, so they are fixed before the first release.
    """
    each = np.array(orders)
    gaussian = _allowed(each, epsilon, np.log(np.asarray(delta / 2))) / each
    best = int(gaussian.argmax())
    wanted = 1 + (orders[best] - 1) * np.array(_AROUND)
    others = [int(np.abs(np.log((each - 1) / (order - 1))).argmin()) for order in wanted]
    log_other = math.log(delta / 2 / len(others))
    return (best, *others), (math.log(delta / 2), *(log_other for _ in others))


def _allowed(orders: FloatArray, epsilon: float, log_delta: FloatArray) -> FloatArray:
    """Return the Rényi divergence at each order that converts to exactly (epsilon, delta)."""
    free = log_delta_by_order(orders, np.zeros_like(orders), np.asarray(epsilon))
    return (log_delta - free) / (orders - 1)
