"""Exact sums of the costs in a ledger, for any number of entries of any size.

A float is a whole number of units of 2^-1074, the smallest float. Rényi divergences, which costs
round up, are added as such whole numbers. Only reading a sum rounds, upwards. Epsilons of pure
privacy are rationals: ten times 1/10 is 1.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Final, Self

import numpy as np

from privrl.accounting.targets import DEFAULT_DELTA, float_up, short
from privrl.costs.base import Cost, Together, curve_of, epsilon_of, pure_ratio
from privrl.costs.choice import ChoiceCost
from privrl.costs.conversion import rdp_to_epsilon
from privrl.costs.noise import GaussianCost
from privrl.numerics.printing import up
from privrl.numerics.special import FloatArray

_UNIT: Final = 1 << 1074

Curve = tuple[int | None, ...]


@dataclass(frozen=True)
class Amount:
    """The joint cost of releases of one data set, under one relation.

    Attributes
    ----------
    orders : tuple of float
        Rényi orders > 1.
    curve : tuple of int or None
        At each, the sum of their Rényi divergences (nats) in units of 2^-1074; None is infinite.
    pure : Fraction or None
        The sum of their epsilons of pure privacy (nats); None if a release lacks one.
    releases : int
        The number of releases.
    alone : (float, float) or None
        For a single release: a delta, and the epsilon there by its own privacy profile, which is
        tighter than the conversion of its Rényi divergences.
    """

    orders: tuple[float, ...]
    curve: Curve
    pure: Fraction | None
    releases: int
    alone: tuple[float, float] | None = None

    def __repr__(self) -> str:
        epsilon = up(self.epsilon(DEFAULT_DELTA))  # its curve would fill pages
        return f"<Amount of {self.releases} releases: epsilon {epsilon} at delta {DEFAULT_DELTA:g}>"

    @classmethod
    def nothing(cls, orders: tuple[float, ...]) -> Self:
        """Return the amount of no release."""
        return cls(orders, (0,) * len(orders), Fraction(0), 0)

    @classmethod
    def unknown(cls, orders: tuple[float, ...]) -> Self:
        """Return the amount of releases with unknown costs: infinity."""
        return cls(orders, (None,) * len(orders), None, 1)

    def covers(self, other: "Amount") -> bool:
        """Whether this amount is at least the other one at every order, on the same orders."""
        return self.releases >= other.releases and all(
            one is None or (more is not None and more <= one)
            for one, more in zip(self.curve, other.curve, strict=True)
        )

    def __add__(self, other: "Amount") -> "Amount":
        """Return the sum of two amounts, on the same orders."""
        curve = tuple(
            None if one is None or more is None else one + more
            for one, more in zip(self.curve, other.curve, strict=True)
        )
        pure = None
        if self.pure is not None and other.pure is not None:
            pure = short(self.pure + other.pure)
        alone = other.alone if self.releases == 0 else None
        return Amount(self.orders, curve, pure, self.releases + other.releases, alone)

    def times(self, count: int) -> "Amount":
        """Return the amount of ``count`` repetitions."""
        if count == 1:
            return self
        curve = tuple(None if one is None else count * one for one in self.curve)
        pure = None if self.pure is None else short(count * self.pure)
        return Amount(self.orders, curve, pure, count * self.releases)

    def rdp(self, places: Sequence[int]) -> FloatArray:
        """Return the Rényi divergence (nats) at the orders of some places, rounded up."""
        return np.array([_float_up(self.curve[place]) for place in places])

    def epsilon(self, delta: float | None) -> float:
        """Return the smallest known epsilon (nats) at a delta, never rounded down.

        A delta of None means pure privacy. Infinite if no bound is known.
        """
        pure = math.inf if self.pure is None else float_up(self.pure)
        if delta is None:
            return pure
        renyi = float(rdp_to_epsilon(np.array(self.orders), self._rdp, delta))
        own = math.inf
        if self.alone is not None and self.alone[0] <= delta:
            own = self.alone[1]
        return min(pure, renyi, own)

    @cached_property
    def _rdp(self) -> FloatArray:
        return self.rdp(range(len(self.orders)))


def curve_of_one(cost: Cost, orders: Sequence[float]) -> FloatArray:
    """Return a cost's Rényi divergences at some orders, checked before use.

    Raises
    ------
    ValueError
        As `curve_of`, or if the cost is that of several runs.
    """
    curve = curve_of(cost, orders)
    if curve.ndim > 1:
        raise ValueError(
            f"cost must be of one run, got {len(curve)}; the releases of one data set are entered "
            "one by one."
        )
    return curve


def pure_of(cost: Cost) -> Fraction | None:
    """Return a cost's epsilon of pure privacy, in the form of entries."""
    pure = pure_ratio(cost)
    return None if pure is None else short(pure)


def profile_of(cost: Cost) -> Cost | None:
    """Return the cost if its own privacy profile is fast to compute, else None.

    The profile of many parts is a convolution, which may take a minute. Choices, of two outcomes
    each, take no time: a network has tables and one choice for each column. Two Gaussian parts,
    such as an agent's transitions and rewards, take a tenth of a second.
    """
    if not isinstance(cost, Together):
        return cost
    if len(cost.parts) == 2 and all(isinstance(part, GaussianCost) for part in cost.parts):
        return cost
    slow = [part for part in cost.parts if not isinstance(part, ChoiceCost)]
    quick = not slow or (len(slow) == 1 and profile_of(slow[0]) is not None)
    return cost if quick else None


def alone_of(cost: Cost, count: int, delta: float | None) -> tuple[float, float] | None:
    """Return a delta, and epsilon there for a single release by its own privacy profile."""
    profile = profile_of(cost) if count == 1 and delta is not None else None
    if profile is None or delta is None:
        return None
    epsilon = float(epsilon_of(profile, delta))
    return (delta, epsilon) if epsilon < math.inf else None


def amount_of(cost: Cost, count: int, orders: tuple[float, ...], delta: float | None) -> Amount:
    """Return the amount of ``count`` uses of a cost, at the orders of a ledger."""
    curve = curve_from_bytes(curve_of_one(cost, orders).astype("<f8").tobytes())
    return Amount(orders, curve, pure_of(cost), 1, alone_of(cost, count, delta)).times(count)


@lru_cache(maxsize=256)
def curve_from_bytes(data: bytes) -> Curve:
    """Return a curve from the little-endian floats in the file."""
    return tuple(map(_units, np.frombuffer(data, "<f8").tolist()))


def _units(value: float) -> int | None:
    """Return a float as an exact whole number of units."""
    if value == math.inf:
        return None
    over, under = value.as_integer_ratio()
    return over * (_UNIT // under)


def _float_up(units: int | None) -> float:
    return math.inf if units is None else float_up(Fraction(units, _UNIT))
