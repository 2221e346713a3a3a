"""The cost of releasing the best of a random number of private trials.

**What is done.** A trial draws one of several candidates, each with the same probability, runs it
with fresh randomness, and ends with a result and a score, both private. After each trial a die with
``m`` sides decides whether it was the last one. The result with the best score is released, with
its score; ties are broken at random. The number of trials and all other results stay secret.

The number of trials K is geometric with mean ``m``, and ``E s^K`` is the function
``f(s) = γ s / (1 − (1 − γ) s)`` with ``γ = 1/m``. Liu and Talwar proved that the release costs at
most three times the pure epsilon of a trial. Papernot and Steinke (Theorem 2, ``η = 1``) bound its
Rényi divergence. The bound here follows their proof up to its last step, which is made sharper:

**Derivation.** Let ``Q`` and ``Q'`` be the laws of a trial on neighbouring data sets. Outcomes are
ordered by score, then by a tie-break. Outcome y is released with probability
``f(Q(≤y)) − f(Q(<y)) = Q(y) E f'(X)``, where X is uniform on ``[Q(<y), Q(≤y)]``. The same uniform
number gives X' for ``Q'``, and ``(u, v) → u^λ v^(1−λ)`` is jointly convex. So by Jensen,

    exp((λ − 1) D_λ(released)) <= exp((λ − 1) D_λ(Q || Q')) sup f'(1 − p)^λ f'(1 − p')^(1 − λ)

over all randomised events, p being the probability of one under ``Q`` (an outcome above y) and p'
under ``Q'``. Here ``f'(1 − p) = m (γ / w(p))²`` with ``w(p) = γ + (1 − γ) p``, which makes the
supremum's logarithm

    log m + 2 sup_p {(λ − 1) log(w(p') / w(p)) + log(γ / w(p))}.

It rises with p', and no event has a larger p' than the trial's own privacy profile allows: for each
``t >= 0``, ``p' <= e^t p + δ(t)`` and ``1 − p <= e^t (1 − p') + δ(t)``. The least of these lines is
a concave function of p, on each piece of which the supremum is known in closed form. Theorem 2
replaces ``w(p') / w(p)`` by ``p' / p`` at ``p = γ``, where the common part γ is lost: for Gaussian
noise and ten trials its epsilon is about a third larger.

**Pure privacy.** Of pure trials, ``p' / p <= e^ε``, and ``w(p') / w(p)`` is at most
``(γ + e^ε) / (1 + γ e^ε)``, at ``p = 1 / (1 + e^ε)``. So the released result is private with
``ε + 2 log((γ + e^ε) / (1 + γ e^ε))``: less than 3ε, and ε for a single trial.

**All orders.** The bound is not monotone, whereas divergences are, and ``(λ − 1) D_λ`` is convex in
λ. So the least bound at a larger order holds as well, and between two orders the chord does.

References
----------
J. Liu and K. Talwar. *Private selection from private candidates* (2019).

N. Papernot and T. Steinke. *Hyperparameter tuning with Rényi differential privacy* (2022).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from privrl.costs.base import (
    BatchCost,
    Cost,
    PairsCost,
    check_cost,
    curve_of,
    delta_of,
    epsilon_of,
    is_fixed,
    pure_ratio,
)
from privrl.costs.conversion import DEFAULT_ORDERS, best_log_delta
from privrl.costs.relations import Relation, check_relation, one_way
from privrl.files.shown import shown
from privrl.numerics.checks import check_between, check_count, check_orders
from privrl.numerics.special import FloatArray
from privrl.numerics.upwards import DIVERGENCE, FEW, outward, product_up

_ORDERS: FloatArray = np.append(DEFAULT_ORDERS, [1e7, 1e8, 1e10, 1e15, 1e30, 1e60, 1e100])
#: Where lines touch the privacy profile, in units of an epsilon at a small delta.
_PLACES: FloatArray = np.append(0.0, np.geomspace(1e-4, 3, 100))
_SMALL_DELTA = 1e-6
_STEEPEST = 600.0  # nats, of which the exponential is a float
_DOMAIN, _SMALLER = (1e-30, 1e30), "smaller is more private"
_MOST = 10**9


@dataclass(frozen=True, kw_only=True)
class ConcentratedCost(PairsCost):
    """Whatever a budget of zero-concentrated privacy admits: ``rho * a`` nats at each order a.

    Parameters
    ----------
    rho : float
        From 1e-30 to 1e30.
    relation : Relation
        Which data sets are neighbours.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """

    rho: float
    relation: Relation

    fixed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", check_between("rho", self.rho, *_DOMAIN, _SMALLER))
        check_relation(self.relation)

    def rdp(self, orders: ArrayLike) -> FloatArray:
        """Return ``rho`` times each order > 1; same shape."""
        return product_up(check_orders(orders), self.rho)


@dataclass(frozen=True, kw_only=True)
class PureCost(PairsCost):
    """Whatever a budget of pure privacy admits: at worst randomised response.

    Parameters
    ----------
    epsilon_pure : float
        In nats; its range, and ``relation``, are as for `ConcentratedCost`.
    """

    epsilon_pure: float
    relation: Relation

    fixed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        pure = check_between("epsilon_pure", self.epsilon_pure, *_DOMAIN, _SMALLER)
        object.__setattr__(self, "epsilon_pure", pure)
        check_relation(self.relation)

    @property
    def pure_ratio(self) -> Fraction:
        """The epsilon (nats) of pure privacy, exactly."""
        return Fraction(self.epsilon_pure)

    def rdp(self, orders: ArrayLike) -> FloatArray:
        """Return the Rényi divergence (nats) of randomised response at each order > 1."""
        orders, pure = check_orders(orders), self.epsilon_pure
        more = orders - 1
        with np.errstate(over="ignore"):
            behind = np.log1p(np.exp(-pure)) - np.log1p(np.exp(-(orders + more) * pure))
            exact = outward(pure - behind / more, FEW) + FEW / more
            # Every pure mechanism is below this as well, which is precise where epsilon is small.
            return np.minimum(np.minimum(exact, pure), orders * outward(pure * pure / 2, FEW))

    def _log_delta(self, least: float = -np.inf) -> Callable[[FloatArray], FloatArray]:
        # (e^ε − e^t) / (e^ε + 1), seen from a little further
        end, rest = self.epsilon_pure * (1 + FEW), math.log1p(math.exp(-self.epsilon_pure))
        with_rounding = FEW - rest

        def log_delta(epsilon: FloatArray) -> FloatArray:
            with np.errstate(divide="ignore"):
                size = np.log(-np.expm1(np.minimum(epsilon - end, 0.0)))
            return size * (1 - FEW) + with_rounding

        return log_delta


@dataclass(frozen=True, kw_only=True)
class SelectionCost(PairsCost):
    """The best of a geometric number of trials, each of one cost.

    Parameters
    ----------
    trial : Cost
        The cost of any trial: of its result and its score together.
    trials : int
        The mean number of trials, from 1 to 1e9.

    Raises
    ------
    ValueError
        If the trial is no cost of one run, its relation lists a change without its reverse, which
        the derivation needs, or the number is out of range.
    """

    trial: Cost
    trials: int

    def __post_init__(self) -> None:
        check_cost(self.trial)
        if isinstance(self.trial, BatchCost):
            raise ValueError(f"trial must be the cost of one run, got {shown(self.trial)}.")
        _check_mutual(self.trial.relation)
        object.__setattr__(self, "trials", check_count("trials", self.trials, 1, _MOST))

    @property
    def relation(self) -> Relation:
        """The relation of the trial."""
        return self.trial.relation

    @property
    def fixed(self) -> bool:
        """Whether the trial's cost is fixed."""
        return is_fixed(self.trial)

    @property
    def pure_ratio(self) -> Fraction | float:
        """The epsilon (nats) of pure privacy, as above; infinite if a trial lacks one."""
        pure = pure_ratio(self.trial)
        if pure is None:
            return math.inf
        if self.trials == 1:
            return pure
        # log((γ + e^ε) / (1 + γ e^ε)), without an exponential that overflows
        epsilon, share = float(outward(float(pure), FEW)), 1 / self.trials
        excess = (1 - share) * -math.expm1(-epsilon) / (share + math.exp(-epsilon))
        return pure + 2 * Fraction(float(outward(math.log1p(excess), DIVERGENCE)))

    def rdp(self, orders: ArrayLike) -> FloatArray:
        """Return a bound on the Rényi divergence (nats) at each order > 1; same shape."""
        return self._curve()(check_orders(orders))

    def _log_delta(self, least: float = -np.inf) -> Callable[[FloatArray], FloatArray]:
        by_orders, end = partial(best_log_delta, self._curve()), self._end()
        return lambda epsilon: np.where(epsilon >= end, -np.inf, by_orders(epsilon))

    def _end(self) -> float:
        """Return the largest loss, never rounded down."""
        return float(outward(float(self.pure_ratio), FEW))

    def _curve(self) -> Callable[[FloatArray], FloatArray]:
        """Return the divergence as a function of orders; evaluates the trial's cost once."""
        if self.trials == 1:
            return partial(curve_of, self.trial)
        rdp = curve_of(self.trial, _ORDERS)
        more = _ORDERS - 1
        farthest = 2 * _farthest_apart(self.trial, 1 / self.trials, more)
        log_mean = math.log(self.trials)
        bound = rdp + (log_mean / more + farthest)
        bound = outward(bound, DIVERGENCE) + 16 * FEW * (1 + log_mean / more)
        least = np.minimum.accumulate(bound[::-1])[::-1]
        # Beyond the last order pure privacy alone is known.
        return partial(_between, np.append(np.minimum(least, self._end()), self._end()))


def _check_mutual(relation: Relation) -> None:
    """Check that a relation lists, or covers, the reverse of each of its changes."""
    if (lacks := one_way(relation)) is not None:
        table, vector = lacks
        raise ValueError(
            f"trial must have a relation that lists the reverse of each change, got "
            f"{shown(relation.name)}, whose table {shown(table)} lacks that of {shown(vector)}; "
            "add it."
        )


def _between(values: FloatArray, orders: FloatArray) -> FloatArray:
    """Return divergences at any orders from those at `_ORDERS` and beyond, by chords."""
    at = np.searchsorted(_ORDERS, orders)
    above, below = values[at], np.append(values[0], values)[at]
    low, high = np.append(0.0, _ORDERS - 1)[at], np.append(_ORDERS - 1, np.inf)[at]
    with np.errstate(invalid="ignore"):
        # Of the chord's values (λ − 1) D at both ends, the part of the lower one.
        part = (high - (orders - 1)) / (high - low) * (low / (orders - 1))
        chord = outward(above - part * (above - below), FEW)
    return np.where(np.isfinite(above) & (part > 0), np.minimum(chord, above), above)


def _farthest_apart(trial: Cost, share: float, more: FloatArray) -> FloatArray:
    """Return the supremum over events, divided by ``λ − 1``, for each ``more = λ − 1``."""
    # Any epsilons >= 0 give lines that hold; these are where they matter.
    losses = np.minimum(_PLACES * min(float(epsilon_of(trial, _SMALL_DELTA)), _STEEPEST), _STEEPEST)
    deltas = delta_of(trial, losses)
    ratios = np.exp(losses)
    # p' <= offset + slope * p, with slopes from large to small; the last one says p' <= 1.
    offsets = np.concatenate([deltas[::-1], -np.expm1(-losses) + deltas / ratios, [1.0]])
    slopes = np.concatenate([ratios[::-1], 1 / ratios, [0.0]])
    with np.errstate(divide="ignore", invalid="ignore"):
        meets = np.diff(offsets) / -np.diff(slopes)
    ends = np.unique(np.concatenate([[0.0, 1.0], meets[(meets > 0) & (meets < 1)]]))
    low, high = ends[:-1], ends[1:]
    middle = (low + high) / 2
    # Any of the lines bounds p'; here the least one in the middle of the piece.
    line = (offsets[:, None] + slopes[:, None] * middle).argmin(axis=0)
    offset, slope = offsets[line], slopes[line]
    rises = (1 - share) * slope
    start = share + (1 - share) * offset  # w(p') = start + rises * p
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        over = 1 + 1 / more[:, None]  # λ / (λ − 1)
        best = (rises * share - over * (1 - share) * start) / (rises * (1 - share) / more[:, None])
    at = np.clip(np.nan_to_num(best, nan=0.0, neginf=0.0), low, high)
    own = share + (1 - share) * at
    apart = np.log1p((1 - share) * (offset + (slope - 1) * at) / own)
    values = apart + np.log(share / own) / more[:, None]
    return np.maximum(values.max(axis=1), 0.0)
