"""Accounting by privacy loss distributions: tighter than Rényi sums, in the extra ``pld``.

Every cost is replaced by a pair of discrete distributions that is at least as easy to
distinguish, made from the cost's own ``delta(epsilon)`` by *connecting the dots* (Doroshenko,
Ghazi, Kamath, Kumar and Manurangsi, 2022). The privacy losses of independent pairs add up, so
their distributions are convolved, by the Fourier transforms of the dp-accounting package.

**Why this is an upper bound.** Write a cost's profile as a function of ``t = exp(epsilon)``:
``H(t)``, the largest hockey-stick divergence of order ``t`` over ordered neighbours. It is
convex, as a maximum of convex functions, and ``delta`` bounds it for ``t >= 1``. For ``t < 1``,

    H_t(P, Q) = ∫ max(P − tQ, 0) = 1 − t + t ∫ max(Q − P / t, 0) = 1 − t + t H_{1/t}(Q, P),

and where neighbours may be swapped ``delta`` also bounds the last term. So dots at ``t >= 1``
bound ``H`` from above everywhere, and the lower convex hull of all dots is between that bound
and ``H``. A convex piecewise linear function is the profile of a discrete pair. A pair whose
profile is nowhere below a cost's may replace it under composition (Zhu, Dong and Wang, 2022): a
composed profile is the mean of one part's profile, taken at ``t exp(−l)`` over the losses ``l``
of the others, so that parts can be replaced one by one.
"""

import importlib
import math
from collections import Counter
from collections.abc import Hashable
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np

from privrl.accounting.filters import Plan, check_plan
from privrl.accounting.journal import KeepsJournal, one_at_a_time
from privrl.accounting.rdp import BudgetExceeded
from privrl.accounting.targets import DEFAULT_DELTA, ApproxDP
from privrl.costs.base import (
    Cost,
    check_cost,
    check_delta,
    check_epsilons,
    curve_of,
    delta_of,
    epsilon_of,
    is_fixed,
)
from privrl.costs.conversion import DEFAULT_ORDERS, rdp_to_epsilon, rdp_to_log_delta
from privrl.costs.relations import Relation, one_way
from privrl.files.shown import shown
from privrl.numerics.checks import check_repeats
from privrl.numerics.printing import exact, up
from privrl.numerics.special import FloatArray
from privrl.numerics.upwards import product_up, sum_up, two_sum

SMALLEST_DELTA = 1e-12
_TAIL = 1e-18  # of one release's delta; losses beyond it count as infinite
_LARGEST_LOSS = 600.0  # nats; exp of it is still a float
_ROUNDING = 1e-10  # relative, of the deltas that costs report
_SUMS = 1e-14  # relative, of sums of many masses
_DOTS = 3200  # in all, for all kinds of costs together
_MOST_DOTS = 256  # for one kind
_STEP = 0.02  # of the grid, in root mean square deviations of a loss


class _Kind(Cost, Hashable, Protocol):
    """A cost that can be counted: equal ones are accounted for together."""


class PldAccountant(KeepsJournal):
    """Compose costs by convolving their privacy loss distributions.

    Parameters
    ----------
    budget : ApproxDP, optional
        The limit on the joint cost of all releases.
    plan : sequence of (Cost, int), optional
        The charges that the budget admits: each cost, and its largest count. By default only the
        first cost, as often as the budget allows.

    Raises
    ------
    ImportError
        If the dp-accounting package is not installed.
    ValueError
        If the budget is not an `ApproxDP`, or its delta is under 1e-12, or the plan exceeds it.

    Notes
    -----
    Every reported value is an upper bound, and never above the one of
    `privrl.accounting.RdpAccountant`. Where a cost's ``delta`` is exact, the slack
    in epsilon is about 0.02 % (0.2 % if each release costs several nats) for up to 12
    different releases, with any count of each. More different releases get fewer dots each: the
    slack is 0.3 % at 100. Deltas that go through Rényi divergence make loss distributions that are
    looser than Rényi sums; then the sums are reported.

    Deltas under 1e-12 are refused, since the rounding of Fourier transforms is of that size
    (1e-16 for each release, and added to every delta). From 4500 releases on the limit grows
    with their number; close to it the slack in epsilon comes to 1 %.

    Threads may share an accountant, like an `RdpAccountant`.

    Sums of loss distributions are not a privacy filter if outcomes choose the next cost. Therefore
    a budget admits only the plan, in any order and with outcomes deciding
    (`privrl.accounting.filters` has the proof). `RdpAccountant` also admits unplanned costs.
    `epsilon` and `delta` hold for the recorded costs if these and the number of releases (not the
    data) were fixed in advance. After adaptive choices, state the budget.
    """

    def __init__(self, *, budget: ApproxDP | None = None, plan: Plan | None = None) -> None:
        super().__init__()
        _pld_pmf()
        if budget is not None and not isinstance(budget, ApproxDP):
            raise ValueError(
                f"budget must be an ApproxDP, got {shown(budget)}; RdpAccountant keeps budgets of "
                "every kind."
            )
        self._budget = budget
        self._spent = _Spent(Counter())
        self._affordable: Counter[_Kind] = Counter()  # known to be within the budget
        self._curves: dict[_Kind, FloatArray] = {}  # for each kind, when it was first counted
        if budget is not None:
            self._spent.epsilon(budget.delta)
        self._plan = None if plan is None else check_plan(plan)
        for cost, count in self._plan or ():
            self._affordable[self._checked(cost)] += count
        if budget is not None and self._plan is not None:
            epsilon = _Spent(self._affordable).epsilon(budget.delta)
            if not epsilon <= budget.epsilon:
                raise ValueError(
                    f"plan must be within the budget {budget}, got one of epsilon "
                    f"{up(epsilon, 6)}; plan for fewer releases, or make each more private."
                )

    @property
    def settings(self) -> tuple[object, ...]:
        """The budget, and the plan if one was given."""
        return (self._budget,) if self._plan is None else (self._budget, self._plan)

    @property
    def budget(self) -> ApproxDP | None:
        """The limit on the joint cost of all releases."""
        return self._budget

    @property
    def relation(self) -> Relation | None:
        """As `KeepsJournal.relation`."""
        return next((cost.relation for cost in self._spent.counts), None)

    def unlimited(self) -> "PldAccountant":
        """Return an accountant by loss distributions, without charges or a budget."""
        return PldAccountant()

    @one_at_a_time
    def compose(self, cost: Cost, count: int = 1) -> None:
        """Record a cost ``count`` times; see `RdpAccountant.compose`.

        Raises
        ------
        ValueError
            Also if the cost's relation does not let neighbours be swapped, or the cost is that of
            several runs or cannot be hashed.
        """
        self._check_made_here()
        check_repeats("count", count)
        check_cost(cost)
        kind = self._checked(cost)
        counts = self._spent.counts.copy()  # adding counters would hash all costs once more
        counts[kind] += count
        spent = _Spent(counts)
        self._check_budget(spent)
        self._spent = spent
        self._book.add(cost, count)

    @one_at_a_time
    def epsilon(self, delta: float) -> FloatArray:
        """Return epsilon (nats) at ``delta``, shape (), never rounded down.

        Raises
        ------
        ValueError
            If ``delta`` is not in (0, 1), or under 1e-12, or under the limit for this number of
            releases.
        """
        return np.asarray(self._spent.epsilon(check_delta(delta)))

    @one_at_a_time
    def delta(self, epsilon: float) -> FloatArray:
        """Return delta at ``epsilon`` >= 0 (nats), shape (), at least 1e-12."""
        return np.asarray(self._spent.delta(float(check_epsilons(epsilon))))

    def _spent_in_words(self) -> str:
        delta = DEFAULT_DELTA if self._budget is None else self._budget.delta
        return f"epsilon {up(self._spent.epsilon(delta))} at delta {exact(delta)}"

    def _checked(self, cost: Cost) -> _Kind:
        """Return a hashable cost whose neighbours can be swapped."""
        if not isinstance(cost, Hashable):
            raise ValueError(
                f"cost must be hashable, like a frozen dataclass, got {shown(cost)}; equal costs "
                "are accounted for together."
            )
        # Known costs as well: a plan makes them known before anything is charged.
        relation = self._relation_of(cost)
        known = self._curves.get(cost)
        if known is not None and is_fixed(cost):
            return cost
        curve = _rdp(cost)
        if known is not None and not np.array_equal(curve, known):
            raise ValueError(
                f"cost must not change after it was first charged, got {shown(cost)}; make a "
                "new one instead."
            )
        if one_way(relation) is not None:
            raise ValueError(
                "cost must be about a relation whose neighbours can be swapped, got "
                f"{str(relation)!r}, which lists a change vector without its opposite; list "
                "both, or use RdpAccountant."
            )
        if curve.ndim > 1:
            raise ValueError(
                f"cost must be of one run, got {shown(cost)}; use one accountant for each run, or "
                "RdpAccountant."
            )
        self._curves[cost] = curve
        return cost

    def _check_budget(self, spent: "_Spent") -> None:
        if self._budget is None or spent.counts <= self._affordable:
            return
        wanted, delta = self._budget.epsilon, self._budget.delta
        if self._plan is not None or len(spent.counts) > 1:
            raise BudgetExceeded(
                f"the release is not among those for which the budget {self._budget} was planned: "
                f"{self._planned_in_words()}; nothing was spent. Loss distributions allow "
                "adaptive choices only within a plan: name every cost in plan= of a new "
                "accountant, or use RdpAccountant."
            )
        epsilon = spent.epsilon(delta)
        if not epsilon <= wanted:
            raise BudgetExceeded(
                f"the release would bring the cost to epsilon {up(epsilon, 6)}, over the budget "
                f"{self._budget}; nothing was spent. Plan for fewer releases, or make each more "
                "private."
            )
        # Look ahead, so that many single releases share one convolution.
        times = min(0.999 * wanted / epsilon, 4.0) if epsilon > 0 else 4.0
        more = _Spent(Counter({kind: int(n * times) for kind, n in spent.counts.items()}))
        ahead = more.counts > spent.counts and more.smallest_delta <= delta
        fits = ahead and more.epsilon(delta) <= 0.999 * wanted
        self._affordable = more.counts if fits else spent.counts

    def _planned_in_words(self) -> str:
        if self._plan is None:
            return "the first one, again"
        left = self._affordable - self._spent.counts
        return f"{left.total()} of {self._affordable.total()} are left"


class _Spent:
    """The joint cost of counted releases of each kind; computed on first use."""

    def __init__(self, counts: "Counter[_Kind]") -> None:
        self.counts = counts
        # A power of a Fourier transform has the relative error of its base times the exponent.
        self._noise = 2.0**-53 * counts.total() + 1e-15 * len(counts)
        self.smallest_delta = max(SMALLEST_DELTA, 2 * self._noise)

    def epsilon(self, delta: float) -> float:
        if not delta >= self.smallest_delta:
            raise ValueError(
                f"delta must be at least {self.smallest_delta:.2g} with {self.counts.total()} "
                f"releases, got {shown(delta)}: smaller ones are below the rounding errors of "
                "Fourier transforms. RdpAccountant does not have this limit."
            )
        if not self.counts:
            return 0.0
        by_order = float(rdp_to_epsilon(DEFAULT_ORDERS, self._rdp, delta))
        if self.counts.total() == 1:
            return min(by_order, *(float(epsilon_of(cost, delta)) for cost in self.counts))
        if self._losses is None:
            return by_order
        by_losses = float(self._losses.get_epsilon_for_delta(delta * (1 - _SUMS) - self._noise))
        return min(by_order, by_losses * (1 + 1e-12))

    def delta(self, epsilon: float) -> float:
        if not self.counts:
            return self.smallest_delta
        delta = math.exp(rdp_to_log_delta(DEFAULT_ORDERS, self._rdp, epsilon))
        if self.counts.total() == 1:
            delta = min(delta, *(float(delta_of(cost, epsilon)) for cost in self.counts))
        elif self._losses is not None:
            by_losses = float(self._losses.get_delta_for_epsilon(epsilon))
            delta = min(delta, by_losses * (1 + _SUMS) + self._noise)
        return max(delta, self.smallest_delta)

    @cached_property
    def _rdp(self) -> FloatArray:
        total = lost = np.zeros_like(DEFAULT_ORDERS)
        for cost, n in self.counts.items():
            total, lost = two_sum(total, lost, product_up(n, _rdp(cost)))
        return sum_up(total, lost)

    @cached_property
    def _losses(self) -> Any:
        """The PMF (of dp-accounting) of all losses' sum; None if it is infinite almost surely.

        Moving a loss to its two neighbours on a grid adds at most a quarter of the squared step
        to its variance. With a step of a fiftieth of the root mean square deviation that is at
        most 1e-4 of the sum's variance.
        """
        kinds = zip(self.counts.items(), self._share_dots(), strict=True)
        each = [(_dots_of(cost, n_dots), n) for (cost, n), n_dots in kinds]
        if sum(n * math.log1p(-losses.infinite) for losses, n in each) < math.log(1e-9):
            return None
        variance = sum(n * losses.variance for losses, n in each)
        largest = max(float(losses.values.max()) for losses, _ in each)
        step = max(_STEP * math.sqrt(variance / self.counts.total()), largest / 2**17, 1e-15)
        step = 2.0 ** math.floor(math.log2(step))  # its multiples are exact
        parts = [_self_compose(_on_grid(losses, step), n) for losses, n in each]
        while len(parts) > 1:
            pairs = zip(parts[::2], parts[1::2], strict=False)
            odd = parts[len(parts) // 2 * 2 :]
            parts = [one.compose(other, 1e-15) for one, other in pairs] + odd
        return parts[0]

    def _share_dots(self) -> list[int]:
        """Return the number of dots of each kind, a power of two lest caches overflow.

        The slack of a kind falls with the square of its dots. The sum of slacks is least if dots
        are shared by the cube roots of the variances, approximated by twice the Kullback-Leibler
        divergences.
        """
        cost = [n * _rdp(cost)[0] for cost, n in self.counts.items()]
        share = np.cbrt(np.clip(cost, 1e-300, 1e6))
        wanted = np.clip(_DOTS * share / share.sum(), 16, _MOST_DOTS)
        return [int(n) for n in 2 ** np.rint(np.log2(wanted))]


class _Losses(NamedTuple):
    """The privacy loss of one release as finitely many values, and mass at infinity."""

    values: FloatArray
    masses: FloatArray
    infinite: float

    @property
    def variance(self) -> float:
        mean = float(self.masses @ self.values)
        return float(self.masses @ (self.values - mean) ** 2)


def _rdp(cost: _Kind) -> FloatArray:
    """Return a cost's Rényi curve, cached only if the cost cannot change."""
    return _kept_rdp(cost) if is_fixed(cost) else curve_of(cost, DEFAULT_ORDERS)


@lru_cache(maxsize=1024)
def _kept_rdp(cost: _Kind) -> FloatArray:
    return curve_of(cost, DEFAULT_ORDERS)


def _dots_of(cost: _Kind, n_dots: int) -> _Losses:
    """Return the losses of a cost, cached only if the cost cannot change."""
    return _kept_dots(cost, n_dots) if is_fixed(cost) else _connect_dots(cost, n_dots)


def _connect_dots(cost: _Kind, n_dots: int) -> _Losses:
    """Return a pair's losses whose profile is nowhere below the cost's.

    Seen from ``u = exp(epsilon) − 1 >= 0``, the reflection at ``u = 0`` maps a line to itself
    if and only if it passes through ``(−2, 1)``. With this point added, the lower convex hull
    of the dots at ``u >= 0`` is that of all dots and their reflections. Where it bends by ``m``
    at ``u``, the pair has a loss ``epsilon`` with masses ``(1 + u) m`` and ``m``, and by
    symmetry a loss ``−epsilon`` with masses ``m`` and ``(1 + u) m``.
    """
    epsilons = _dots(cost, n_dots)
    deltas = np.minimum(np.minimum.accumulate(_checked_delta(cost, epsilons)), 1.0)
    # At 0 delta is the distance in total variation: by Pinsker's inequality at most this.
    there = min(math.sqrt(_rdp(cost)[0] / 2) * (1 + _ROUNDING), 1.0)
    u, h = _lower_hull(np.append([-2.0, 0.0], np.expm1(epsilons)), np.append([1.0, there], deltas))
    bends = np.diff(np.append(np.diff(h) / np.diff(u), 0.0))
    values = np.log1p(u[1:])
    return _Losses(
        np.concatenate([values, -values]),
        np.maximum(np.concatenate([(1 + u[1:]) * bends, bends]), 0.0),
        min(float(h[-1]), 1 - 2.0**-53),
    )


_kept_dots = lru_cache(maxsize=1024)(_connect_dots)


def _dots(cost: _Kind, n_dots: int) -> FloatArray:
    """Choose epsilons up to the point where delta vanishes, densest where losses are likely.

    With their opposites they are evenly spaced around 0, which is not one of them: there a change
    of several cells costs as much as its opposite, and both would have to be exact.
    """
    rdp = _rdp(cost)
    top = float(rdp_to_epsilon(DEFAULT_ORDERS, rdp, _TAIL))
    if not top < _LARGEST_LOSS:  # no useful Rényi curve, or unbounded losses
        scan = np.geomspace(1e-9, _LARGEST_LOSS, 120)
        deltas = _checked_delta(cost, scan)
        top = float(scan[np.argmax(deltas <= max(_TAIL, deltas[-1]))])
    # Twice the standard deviation of a loss so small that it is Gaussian.
    bulk = min(max(2 * math.sqrt(2 * rdp[0]), top / 1000), top)
    places = (np.arange(n_dots) + 0.5) / (n_dots - 0.5)
    return bulk * np.sinh(places * np.arcsinh(top / bulk))


def _checked_delta(cost: Cost, epsilons: FloatArray) -> FloatArray:
    return delta_of(cost, epsilons) * (1 + _ROUNDING)


def _lower_hull(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the vertices of the lower convex hull of points with ascending ``x``."""
    kept: list[int] = []
    for i in range(len(x)):
        while len(kept) > 1:
            j, k = kept[-2:]
            if (y[i] - y[k]) * (x[k] - x[j]) > (y[k] - y[j]) * (x[i] - x[k]):
                break
            kept.pop()
        kept.append(i)
    return x[kept], y[kept]


def _on_grid(losses: _Losses, step: float) -> Any:
    """Connect the dots at the multiples of ``step``: each loss moves to its two neighbours.

    The shares preserve the mass under both distributions.
    """
    cell = np.floor(losses.values / step).astype(np.int64)
    up = losses.masses * np.expm1(cell * step - losses.values) / np.expm1(-step)
    first = int(cell.min())
    size = int(cell.max()) - first + 2
    masses = np.bincount(cell - first, losses.masses - up, size)
    masses += np.bincount(cell - first + 1, up, size)
    return _pld_pmf().DensePLDPmf(step, first, np.maximum(masses, 0.0), losses.infinite, True)


def _self_compose(part: Any, count: int) -> Any:
    return part.self_compose(count, 1e-15) if count > 1 else part


def _pld_pmf() -> Any:
    try:
        importlib.import_module("dp_accounting")
        return importlib.import_module("dp_accounting.pld.pld_pmf")
    except ImportError as error:
        raise ImportError(
            "PldAccountant needs the dp-accounting package, which is not installed; install it: "
            'pip install "privrl[pld]".'
        ) from error
