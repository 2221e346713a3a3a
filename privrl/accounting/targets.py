"""Privacy targets: limits on releases, in each of the usual definitions.

Each class carries its own rules, so calibration and accountants need not know which one they have.
`RenyiDP` and `ApproxDP` limit the sum of Rényi divergences (`privrl.accounting.filters` proves
that their budgets hold). `PureDP` and `ZeroConcentratedDP` add one exact number for each release,
its pure epsilon or its rho, as a `Fraction`.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, Final, Self, cast

import numpy as np

from privrl.costs.base import Cost, curve_of, delta_of, pure_ratio, zcdp_rho
from privrl.costs.conversion import (
    DEFAULT_ORDERS,
    epsilon_by_order,
    log_delta_by_order,
    rdp_to_log_delta,
)
from privrl.files.shown import shown
from privrl.numerics.checks import check_between, check_positive
from privrl.numerics.scipy_lazily import special
from privrl.numerics.special import FloatArray
from privrl.numerics.upwards import product_up, quotient_up

#: The delta of every statement for which the user chose none.
DEFAULT_DELTA: Final = 1e-5
UNDECIDED: Final = -1  # the index of an order that is not fixed yet

_STRICTER: Final = 1 - 1e-12  # factor that keeps sums of calibrated costs below their target
_ROUNDING: Final = 1e-9  # relative, of how often a calibrated release just fits
_TINY: Final = 1e-300  # numbers near it over- or underflow
_UNIT: Final = 1 << 1074  # the smallest float is one over this
_LONGEST: Final = 4096  # bits of a denominator, beyond which a rational is rounded up


class Target(ABC):
    """A limit on the joint cost of releases."""

    #: Rényi orders that an accountant has to keep for this target.
    orders: tuple[float, ...] = ()

    @property
    def stated_delta(self) -> float:
        """The delta at which statements give epsilon."""
        return DEFAULT_DELTA

    @abstractmethod
    def excess(self, cost: Cost, count: int = 1) -> float:
        """Return how far ``count`` releases are above the target (> 0) or below, in logarithms."""

    def smooth_excess(self, cost: Cost, count: int) -> float:
        """Return a number of the same sign as `excess`, on a scale that suits a root search."""
        return self.excess(cost, count)

    @abstractmethod
    def strict(self) -> Self:
        """Return the target a little smaller, so that rounded sums still meet the original."""

    def missing(self, cost: Cost) -> str:
        """Return why no amount of noise lets such a cost meet the target; empty if some may."""
        return ""

    @abstractmethod
    def gaussian_sigma(self, norm: float) -> float:
        """Return an approximate sigma of Gaussian noise that hides a norm > 0, in counts."""

    @abstractmethod
    def laplace_scale(self, total: float, cells: int) -> float:
        """Return an approximate scale of Laplace noise that hides a total change > 0, in counts.

        ``cells`` is the number of changed cells; all numbers above 2 count as 2.
        """

    @abstractmethod
    def deciding_order(self, orders: FloatArray, rdp: FloatArray) -> int:
        """Return the index of the order at which the budget is kept, for a planned curve."""


class CurveTarget(Target):
    """A limit on Rényi divergences: as a budget it is kept at one order."""

    epsilon: float

    def strict(self) -> Self:
        """Return the target with a slightly smaller epsilon."""
        return replace(self, epsilon=self.epsilon * _STRICTER)  # type: ignore[type-var] # they are

    @abstractmethod
    def allowed(self, orders: FloatArray) -> FloatArray:
        """Return the divergence at each order that by itself keeps the budget; <= 0 if none."""

    @abstractmethod
    def keeps(self, order: float, rdp: float) -> bool:
        """Whether a Rényi divergence at the deciding order is within the budget."""

    def keeps_alone(self, first: Cost, row: int = 0) -> bool:
        """Whether the first release is within the budget by its own privacy profile."""
        return False

    @abstractmethod
    def spent_at(self, order: float, rdp: float) -> float:
        """Return the epsilon that a divergence at the deciding order implies."""


class SumTarget(Target):
    """A limit on an exact sum: each release adds one rational number."""

    unit: str  # the name of the number
    _named: ClassVar[str]  # the field with the limit

    def __post_init__(self) -> None:
        limit = check_positive(self._named, self._size, "smaller means more privacy")
        object.__setattr__(self, self._named, limit)

    @property
    def _size(self) -> float:
        return cast("float", getattr(self, self._named))

    @property
    def limit(self) -> Fraction:
        """The largest sum, as the decimal number that it prints as."""
        return Fraction(repr(self._size))

    def strict(self) -> Self:
        """Return the target with a slightly smaller limit."""
        return replace(self, **{self._named: self._size * _STRICTER})  # type: ignore[type-var] # it is

    @staticmethod
    @abstractmethod
    def amount(cost: Cost) -> Fraction | None:
        """Return the number that a cost adds; None if no such number is proven."""

    def excess(self, cost: Cost, count: int = 1) -> float:
        """Return how far ``count`` releases are above the target (> 0) or below, in logarithms."""
        amount = self.amount(cost)
        if amount is None:
            return math.inf
        return math.log(float_up(count * amount / self.limit)) if amount > 0 else -math.inf

    def missing(self, cost: Cost) -> str:
        """Return that a cost lacks such a number."""
        if self.amount(cost) is not None:
            return ""
        return f"{type(cost).__name__} has no {self.unit}. {self._instead}"

    _instead: str

    def deciding_order(self, orders: FloatArray, rdp: FloatArray) -> int:
        """Return `UNDECIDED`: no order decides."""
        return UNDECIDED


@dataclass(frozen=True)
class RenyiDP(CurveTarget):
    """Rényi divergence of one order, at most ``epsilon`` (nats).

    Raises
    ------
    ValueError
        If ``order`` is not > 1 and finite, or ``epsilon`` not > 0 and finite.
    """

    order: float
    epsilon: float

    def __post_init__(self) -> None:
        order = check_between("order", self.order, 1, np.inf, "2 is usual")
        epsilon = check_positive("epsilon", self.epsilon, "smaller means more privacy")
        object.__setattr__(self, "order", order)
        object.__setattr__(self, "epsilon", epsilon)

    @property
    def orders(self) -> tuple[float, ...]:  # type: ignore[override] # read-only here
        """The order itself."""
        return (self.order,)

    def excess(self, cost: Cost, count: int = 1) -> float:
        """Return how far ``count`` releases are above the target (> 0) or below, in logarithms."""
        spent = product_up(count, curve_of(cost, self.order))
        return math.log(float(quotient_up(spent, self.epsilon))) if spent > 0 else -math.inf

    def gaussian_sigma(self, norm: float) -> float:
        """Return the sigma: ``order norm² / (2 sigma²)`` is epsilon."""
        return norm * math.sqrt(self.order / 2 / self.epsilon)

    def laplace_scale(self, total: float, cells: int) -> float:
        """Return an approximate scale."""
        # A sum of small losses is like a Gaussian's, of large ones like the largest of them.
        return total * max(math.sqrt(self.order / self.epsilon) / 2, 1 / self.epsilon)

    def allowed(self, orders: FloatArray) -> FloatArray:
        """Return epsilon at the target's order, and 0 at others."""
        return np.where(orders == self.order, self.epsilon, 0.0)

    def deciding_order(self, orders: FloatArray, rdp: FloatArray) -> int:
        """Return the index of the target's order."""
        return int(np.searchsorted(orders, self.order))

    def keeps(self, order: float, rdp: float) -> bool:
        """Whether a Rényi divergence, at the order that decides, is within the budget."""
        return rdp <= self.epsilon

    def spent_at(self, order: float, rdp: float) -> float:
        """Return the divergence."""
        return rdp


@dataclass(frozen=True)
class ApproxDP(CurveTarget):
    """(epsilon, delta)-differential privacy, epsilon in nats.

    Raises
    ------
    ValueError
        If ``epsilon`` is not > 0 and finite, or ``delta`` not strictly between 0 and 1.
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        epsilon = check_positive("epsilon", self.epsilon, "smaller means more privacy")
        delta = check_between("delta", self.delta, 0, 1, "1e-5 or less is usual")
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", delta)

    @property
    def stated_delta(self) -> float:
        """The target's own delta."""
        return self.delta

    def excess(self, cost: Cost, count: int = 1) -> float:
        """Return how far ``count`` releases are above the target (> 0) or below, in logarithms.

        One release is accounted for by its own profile, several by Rényi's sum.
        """
        if count == 1:
            with np.errstate(divide="ignore"):
                log_delta = float(np.log(cost.delta(self.epsilon)))
        else:
            curve = product_up(count, curve_of(cost, DEFAULT_ORDERS))
            log_delta = float(rdp_to_log_delta(DEFAULT_ORDERS, curve, self.epsilon))
        return log_delta - math.log(self.delta)

    def smooth_excess(self, cost: Cost, count: int) -> float:
        """Return an excess of log delta as one of the logarithm of log delta, of the same sign.

        Log delta falls like a power of the noise, so this is nearly linear in the parameter's
        logarithm: a root search takes half as many steps.
        """
        excess, log_delta = self.excess(cost, count), math.log(self.delta)
        share = 1 + excess / log_delta  # of the wanted log delta, which is negative
        if not 0 < share < math.inf:
            return math.inf if share <= 0 else -math.inf
        # Near the root log1p keeps the sign.
        return -math.log1p(excess / log_delta)

    def gaussian_sigma(self, norm: float) -> float:
        """Return an approximate sigma, by the exact profile (Balle and Wang, 2018)."""
        epsilon, log_delta = min(max(self.epsilon, _TINY), 1 / _TINY), math.log(self.delta)

        def excess(shift: float) -> float:
            """Return the excess of delta over the target's, in logarithms."""
            ahead = float(special.log_ndtr(shift / 2 - epsilon / shift))
            gap = epsilon + float(special.log_ndtr(-shift / 2 - epsilon / shift)) - ahead
            return ahead + math.log(-math.expm1(gap)) - log_delta if gap < 0 else -math.inf

        tail = math.sqrt(-2 * log_delta)
        shift = 2 * epsilon / (tail + math.sqrt(tail**2 + 2 * epsilon))  # by Chernoff's bound
        while excess(2 * shift) <= 0:
            shift *= 2
        return norm / _root(excess, shift, 2 * shift)

    def laplace_scale(self, total: float, cells: int) -> float:
        """Return an approximate scale, by the exact profile of one or two cells."""
        delta = max(self.delta, _TINY)
        least = -math.log1p(-delta)  # half of what the largest loss is above epsilon

        def excess(half: float) -> float:
            return -math.expm1(-half) - half / 2 * math.exp(-half) - delta

        half = least if cells == 1 else _root(excess, least, 4 * least)
        return total / (self.epsilon + 2 * half)

    def allowed(self, orders: FloatArray) -> FloatArray:
        """Return the divergence at each order that by itself keeps the budget; <= 0 if none."""
        free = log_delta_by_order(orders, np.zeros_like(orders), self.epsilon)
        return (math.log(self.delta) - free) / (orders - 1)

    def deciding_order(self, orders: FloatArray, rdp: FloatArray) -> int:
        """Return the index of an order that admits a curve as often as any order does.

        Among those it is the one nearest to the best for Gaussian noise, which leaves most for
        other releases. `UNDECIDED` where the curve is zero.
        """
        if not rdp.any():
            return UNDECIDED
        limits = self.allowed(orders)
        with np.errstate(divide="ignore"):
            times = np.where(limits > 0, limits / rdp, 0.0)
        most = float(times.max())
        whole = max(math.floor(most * (1 + _ROUNDING)), 1) if most < math.inf else math.inf
        gaussian = orders[(limits / orders).argmax()]
        off = np.abs(np.log((orders - 1) / (gaussian - 1)))
        return int(np.where(times >= min(whole, most), off, np.inf).argmin())

    def keeps(self, order: float, rdp: float) -> bool:
        """Whether a Rényi divergence, at the order that decides, is within the budget."""
        # Compared as deltas, like calibration does.
        log_delta = log_delta_by_order(np.array([order]), np.array([rdp]), self.epsilon)
        return bool(log_delta[0] <= math.log(self.delta))

    def keeps_alone(self, first: Cost, row: int = 0) -> bool:
        """Whether the first release is within the budget by its own privacy profile."""
        return bool(delta_of(first, self.epsilon).ravel()[row] <= self.delta)

    def spent_at(self, order: float, rdp: float) -> float:
        """Return the epsilon that one order implies at the target's delta."""
        return max(float(epsilon_by_order(np.array([order]), np.array([rdp]), self.delta)[0]), 0.0)


@dataclass(frozen=True)
class PureDP(SumTarget):
    """Pure differential privacy, ``delta = 0``, epsilon in nats.

    Epsilons of pure costs add up exactly. A cost without one, such as that of Gaussian noise, is
    refused.

    Raises
    ------
    ValueError
        If ``epsilon`` is not > 0 and finite.
    """

    epsilon: float

    unit = "pure epsilon"
    amount = staticmethod(pure_ratio)
    _instead = "Add Laplace noise, or give an ApproxDP target."
    _named = "epsilon"

    @property
    def stated_delta(self) -> float:
        """Zero."""
        return 0.0

    def gaussian_sigma(self, norm: float) -> float:
        """Return a start for a search; Gaussian noise has no pure epsilon."""
        return norm / self.epsilon

    def laplace_scale(self, total: float, cells: int) -> float:
        """Return the scale: ``total / scale`` is epsilon."""
        return total / self.epsilon


@dataclass(frozen=True)
class ZeroConcentratedDP(SumTarget):
    """Zero-concentrated differential privacy: at each order a > 1, at most ``rho * a`` (nats).

    Bun and Steinke (2016), Definition 1.1. The rhos of costs add up exactly (Lemma 1.7). A cost
    needs a proof over all orders: Gaussian noise has a known rho, a pure epsilon gives
    ``epsilon² / 2`` (Proposition 1.4), and other costs are refused. A ``rho`` that is not > 0 and
    finite raises a ValueError.
    """

    rho: float

    unit = "rho"
    amount = staticmethod(zcdp_rho)
    _instead = "Add Gaussian or Laplace noise, or give an ApproxDP target."
    _named = "rho"

    def gaussian_sigma(self, norm: float) -> float:
        """Return the sigma: ``norm² / (2 sigma²)`` is rho."""
        return norm / math.sqrt(2) / math.sqrt(self.rho)

    def laplace_scale(self, total: float, cells: int) -> float:
        """Return the scale: ``(total / scale)² / 2`` is rho."""
        return total / math.sqrt(2) / math.sqrt(self.rho)


def target_of(
    epsilon: float, delta: float = DEFAULT_DELTA, renyi_order: float | None = None
) -> Target:
    """Return the target with the given parameters.

    Parameters
    ----------
    epsilon : float
        > 0, in nats.
    delta : float
        >= 0 and < 1; 0 means pure privacy.
    renyi_order : float, optional
        In place of ``delta``: the Rényi order > 1 that ``epsilon`` bounds.

    Raises
    ------
    ValueError
        If a number is out of range.
    """
    if renyi_order is not None:
        return RenyiDP(renyi_order, epsilon)
    return PureDP(epsilon) if delta == 0 else ApproxDP(epsilon, delta)


def check_target(target: object, otherwise: str = "") -> None:
    """Check that an argument is a target; the message shows how to write one.

    Raises
    ------
    ValueError
        If it is not; the message ends with ``otherwise``.
    """
    if not isinstance(target, Target):
        raise wrong_target(
            target, ApproxDP, PureDP, RenyiDP, ZeroConcentratedDP, otherwise=otherwise
        )


def wrong_target(target: object, *kinds: type[Target], otherwise: str = "") -> ValueError:
    """Return the error for a target of the wrong kind."""
    hint = ""
    if isinstance(target, int | float) and not isinstance(target, bool) and target > 0:
        hint = f"; write ApproxDP({target!r}, 1e-5), with a delta, or RenyiDP(2, {target!r})"
    names = [f"{kind.__name__}(...)" for kind in kinds]
    said = repr(target) if isinstance(target, Target) else shown(target)
    return ValueError(
        f"target must be {', '.join(names[:-1])} or {names[-1]}, got {said}{hint}{otherwise}."
    )


def float_up(value: Fraction) -> float:
    """Return the smallest float that is at least a rational."""
    try:
        nearest = float(value)
    except OverflowError:
        return math.inf
    return nearest if nearest >= value else math.nextafter(nearest, math.inf)


def short(value: Fraction) -> Fraction:
    """Return a rational, rounded up by less than 2^-1074 if it has very many digits."""
    if value.denominator.bit_length() <= _LONGEST:
        return value
    return Fraction(math.ceil(value * _UNIT), _UNIT)


def _root(excess: Callable[[float], float], low: float, high: float) -> float:
    """Return the root of a rising excess between two numbers > 0, by bisection."""
    while high > low * (1 + 1e-14):
        middle = (low + high) / 2
        low, high = (low, middle) if excess(middle) > 0 else (middle, high)
    return high
