"""The cost of one choice by an exponential mechanism.

An option of score ``s`` is chosen with a probability proportional to ``exp(s / scale)``, and no
score changes between neighbours by more than a sensitivity. So the logarithms of two options'
weights move apart by at most the *spread*, ``η = 2 sensitivity / scale``. Weights are divided by
their sum, which is common to all options: the privacy losses of all outcomes are within one
interval of length η, whose position is arbitrary.

**The privacy profile.** Among pairs of distributions with losses in ``[t − η, t]`` those with two
outcomes, at the ends of the interval, have the largest delta (a mean of a convex function of the
likelihood ratio). For ``0 <= t <= η`` the first of them gives the loss ``t`` the probability
``(e^η − e^t) / (e^η − 1)``, and ``δ(ε)`` is that times ``1 − e^(ε − t)``. It is largest at
``t = (η + ε) / 2``:

    δ(ε) = (1 − e^((ε − η)/2))² / (1 − e^−η),    −η <= ε <= η.

It is convex in ``e^ε``, so it is the profile of a pair of distributions: the loss ``l`` has the
density ``e^(l/2) / (4 sinh(η/2))`` on ``[−η, η]`` under the first, ``e^(−l/2)`` over the same under
the second. That pair dominates every choice of this spread, whatever was chosen before.

**Rényi divergence.** With ``K(λ)`` the logarithm of the mean of ``e^(λ l)`` under the second
distribution, ``K(0) = K(1) = 0``. ``K''`` is the variance of a number in an interval of length η,
at most ``η²/4``. So ``K(λ) <= λ (λ − 1) η²/8``, and the divergence is at most ``λ η²/8``, and at
most η. The dominating pair's own would be nearly ``λ η²/6``, as ``t`` may differ for every epsilon:
for sums of many, Rényi divergence can be the better of the two, and the better one is used.

References
----------
F. McSherry and K. Talwar. *Mechanism design via differential privacy* (2007).

J. Dong, D. Durfee and R. Rogers. *Optimal differential privacy composition for exponential
mechanisms* (2020). Losses within an interval, and the two outcomes.

M. Cesar and R. Rogers. *Bounding, concentrating, and truncating: unifying privacy loss composition
for data analytics* (2021). ``λ η²/8``.
"""

import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from privrl.costs.base import PairsCost
from privrl.costs.noise_pairs import put_on_grid
from privrl.costs.relations import Relation, check_relation
from privrl.numerics.checks import check_between, check_orders
from privrl.numerics.convolution import Pair
from privrl.numerics.special import FloatArray
from privrl.numerics.upwards import FEW, outward, product_up, quotient_up

_DOMAIN = (1e-30, 1e30)


@dataclass(frozen=True, kw_only=True)
class ChoiceCost(PairsCost):
    """One choice, with probabilities proportional to ``exp(score / scale)``.

    Parameters
    ----------
    scale : float
        > 0; larger is closer to an even choice, and more private.
    sensitivity : float
        The largest change of any score between neighbours, > 0.
    relation : Relation
        Which data sets are neighbours.

    Raises
    ------
    ValueError
        If a number is not between 1e-30 and 1e30.
    """

    scale: float
    sensitivity: float
    relation: Relation

    fixed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name in ("scale", "sensitivity"):
            size = check_between(name, getattr(self, name), *_DOMAIN, "both are sizes of scores")
            object.__setattr__(self, name, size)
        check_relation(self.relation)

    @property
    def spread(self) -> float:
        """The largest change of the difference of two log-weights, η (nats), never rounded down."""
        return float(quotient_up(2 * self.sensitivity, self.scale))

    @property
    def pure_ratio(self) -> Fraction:
        """The epsilon (nats) of pure privacy, exactly: η, for 0 is among the losses."""
        return 2 * Fraction(self.sensitivity) / Fraction(self.scale)

    @property
    def rho(self) -> Fraction:
        """The rho (nats) of zero-concentrated privacy: ``η² / 8``, as above."""
        return self.pure_ratio**2 / 8

    def rdp(self, orders: ArrayLike) -> FloatArray:
        """Return a bound on the Rényi divergence (nats) at each order > 1; same shape."""
        slope = quotient_up(product_up(self.spread, self.spread), 8.0)
        return np.minimum(product_up(check_orders(orders), slope), self.spread)

    def dominating_pairs(self) -> "list[Counter[Pair]]":
        """Return the pair that dominates every choice of this spread."""
        return [Counter([ChoicePair(float(outward(self.spread, FEW)))])]


@dataclass(frozen=True)
class ChoicePair:
    """Densities in proportion to ``exp(l/2)`` and ``exp(−l/2)`` of losses in [−spread, spread]."""

    spread: float

    def rdp(self, orders: FloatArray) -> FloatArray:
        """Return the Rényi divergence at each order > 1, or a little more."""
        # log(sinh(a)/a) of a = (λ − 1/2)η less that of η/2 is at most a²/6 less (η/2)²/6.
        return np.minimum(orders * self.spread**2 / 6, self.spread)

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """Return ``log delta`` at each epsilon >= 0, minus infinity beyond the largest loss."""
        below = np.minimum(np.asarray(epsilon, np.float64) - self.spread, 0.0) / 2
        with np.errstate(divide="ignore"):
            return 2 * np.log(-np.expm1(below)) - math.log(-math.expm1(-self.spread))

    def loss_range(self, _: float) -> tuple[float, float]:
        """Return the ends of the losses: all losses between them are resolved at every level."""
        return -self.spread, self.spread

    def grid_masses(self, step: float, first: int, last: int) -> tuple[FloatArray, float]:
        """Connect the dots at the losses ``step * (first .. last)``.

        Between two grid points the losses have the masses that one loss in the middle would have
        under both distributions.
        """
        grid = np.clip(step * np.arange(first, last + 1), -self.spread, self.spread)
        edges = np.union1d(grid, [-self.spread, self.spread])
        low, high = edges[:-1], edges[1:]
        masses = np.exp((high - self.spread) / 2) * np.expm1((low - high) / 2)
        return put_on_grid((low + high) / 2, masses / math.expm1(-self.spread), (step, first, last))
