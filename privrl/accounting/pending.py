"""Lazy sums of Rényi divergences over many different costs.

Composed costs wait in lists, one for each kind (`privrl.costs.base.Bulk`): class, table and bound,
all under one relation. Reading an order's sum evaluates all waiting costs of a kind in one array.

**The best order without all orders.** Of every kind here the log-moment
``K(λ − 1) = (λ − 1) rdp(λ)`` is convex: the exact one is a logarithm of a mean of exponentials,
or the largest of such, and the papers' bounds are products of increasing convex functions. So are
their sums. ``K`` is zero at zero, and between two known values it is nowhere below the chords
that meet from either side. The conversion of these lower bounds to epsilon or delta excludes most
orders; `best` evaluates only the remaining ones.
"""

from array import array
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from privrl.costs.base import Bulk, InBulk, check_curve
from privrl.numerics.checks import LARGEST_WHOLE
from privrl.numerics.special import FloatArray
from privrl.numerics.upwards import product_up, sum_up, two_sum

Indices = NDArray[np.intp]

_BLOCK = 2**17  # divergences at once
_ROUNDING = 1e-14  # relative, of a sum of log-moments; several times the actual error
_SAMPLE = 200  # releases in the sample that starts a search


class Pending:
    """Sums of single costs of known kinds, at each of some orders.

    Parameters
    ----------
    orders : array, shape (n_orders,)
        Rényi orders > 1, ascending.
    """

    def __init__(self, orders: FloatArray) -> None:
        self._orders = orders
        self._lists: dict[tuple[object, ...], _List] = {}

    @property
    def waiting(self) -> int:
        """The number of costs that are not yet in the sum of every order."""
        return sum(map(len, self._filled))

    def add(self, cost: InBulk, count: int) -> None:
        """Add a cost ``count`` times to the list of its kind."""
        self._list(cost).add(cost, count)

    def at_most(self, cost: InBulk, order: float) -> float:
        """Return a quick upper bound on the divergence of a cost of known kind."""
        return self._list(cost).bulk.at_most(cost, order)

    def sums(self, at: Indices) -> tuple[FloatArray, FloatArray]:
        """Return the sums at the orders of some indices, and their rounding errors."""
        total, lost = np.zeros(len(at)), np.zeros(len(at))
        for each in self._filled:
            each.update(at)
            total, lost = two_sum(total, lost, each.total[at])
            lost = lost + each.lost[at]
        return total, lost

    def best(self, known: FloatArray, objective: Callable[[FloatArray], FloatArray]) -> Indices:
        """Return ascending indices of orders that include the best one.

        Parameters
        ----------
        known : array, shape (n_orders,)
            Other spends, in nats.
        objective : callable
            Maps divergences at all orders to the values to be minimised, both of shape (n_orders,);
            it must not fall at any order as the divergence rises.
        """
        above = self._orders - 1
        guess = int(objective(known + self._estimate()).argmin())
        at: Indices = np.arange(max(guess - 1, 0), min(guess + 2, len(above)))
        while True:
            spent = sum_up(*self.sums(at))
            least = _chords(above, at, spent * above[at]) / above
            least[at] = spent
            values = objective(known + least)
            better = values < values[at].min()
            if not better.any():
                return at
            # The most promising order between each two that are known.
            gaps = np.searchsorted(at, np.flatnonzero(better))
            split = np.split(np.flatnonzero(better), np.flatnonzero(np.diff(gaps)) + 1)
            at = np.union1d(at, [gap[values[gap].argmin()] for gap in split])

    def _estimate(self) -> FloatArray:
        """Return an estimate of the sum at every order."""
        return np.sum([each.estimate() for each in self._filled], axis=0)

    @property
    def _filled(self) -> "list[_List]":
        return [each for each in self._lists.values() if len(each)]

    def _list(self, cost: InBulk) -> "_List":
        key = (type(cost), *cost.bulk_key)
        if key not in self._lists:
            self._lists[key] = _List(cost.bulk(), self._orders)
        return self._lists[key]


class _List:
    """Costs of one kind, and at each order the sum over the first ones."""

    def __init__(self, bulk: Bulk, orders: FloatArray) -> None:
        self.bulk = bulk
        self._rows, self._width = array("d"), 1  # for each cost: its count and parameters
        self.total, self.lost = np.zeros_like(orders), np.zeros_like(orders)
        self._orders = orders
        self._summed: Indices = np.zeros(len(orders), np.intp)  # how many, at each order
        self._most_summed = 0
        self._last: InBulk | None = None

    def __len__(self) -> int:
        return len(self._rows) // self._width

    def add(self, cost: InBulk, count: int) -> None:
        """Append a cost ``count`` times; an equal last cost is merged."""
        waits = self._most_summed < len(self)
        if waits and (self._last is cost or self._last == cost):
            times = int(self._rows[-self._width]) + count
            if times <= LARGEST_WHOLE:
                self._rows[-self._width] = times
                return
        row = (count, *self.bulk.numbers(cost))
        self._last = None  # until it is this one: an interrupt may come after any line
        self._width = len(row)
        self._rows.extend(row)
        self._last = cost

    def update(self, at: Indices) -> None:
        """Update the sums at the orders of some indices."""
        n = len(self)
        # First: an interrupt may come after any line, and no cost may be merged into a summed one.
        self._most_summed = n
        counts, numbers = self._columns()
        for start in sorted(set(self._summed[at].tolist())):
            some = at[self._summed[at] == start]
            block = max(_BLOCK // len(some), 1)
            for first in range(start, n, block):
                part = slice(first, first + block)
                orders = self._orders[some]  # a copy: a bulk of one's own may change it
                costs = check_curve(self.bulk.rdp(numbers[part], orders), orders)
                if (counts[part] != 1).any():
                    costs = product_up(counts[part], costs)
                total, lost = _exact_sum(costs)
                self.total[some], more = two_sum(self.total[some], self.lost[some], total)
                self.lost[some] = more + lost
            self._summed[some] = n

    def estimate(self) -> FloatArray:
        """Estimate the sum at every order, from a sample."""
        counts, numbers = self._columns()
        sample = np.unique(np.linspace(0, len(self) - 1, _SAMPLE).astype(np.intp))
        weight = counts.sum() / counts[sample].sum()
        return weight * (counts[sample, 0] @ self.bulk.rdp(numbers[sample], self._orders.copy()))

    def _columns(self) -> tuple[FloatArray, FloatArray]:
        """Return the counts, shape (n, 1), and the parameters, shape (n, ...), of each cost."""
        rows = np.array(self._rows).reshape(-1, self._width)
        return rows[:, :1].copy(), rows[:, 1:].copy()


def _exact_sum(costs: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Add up along the first axis, by halves, and return the rounding error as well."""
    lost = np.zeros(costs.shape[1])
    while len(costs) > 1:
        half = len(costs) // 2
        added, errors = two_sum(costs[:half], np.zeros(()), costs[half : 2 * half])
        lost = lost + errors.sum(0)
        costs = np.concatenate([added, costs[2 * half :]])
    return costs[0], lost


def _chords(x: FloatArray, at: Indices, y: FloatArray) -> FloatArray:
    """Bound a convex function from below; it is zero at zero and nowhere negative.

    Its values ``y`` are known at ``x[at]``, perhaps infinite from some point on; the bound covers
    all ``x > 0``. The rounding error that the chords may contain is subtracted.
    """
    known = np.concatenate([[0.0], x[at]])
    height = np.concatenate([[0.0], y])
    with np.errstate(invalid="ignore"):
        slope = np.diff(height) / np.diff(known)
        noise = _ROUNDING * (height[1:] + height[:-1]) / np.diff(known)
    left = np.searchsorted(at, np.arange(len(x)), side="right")  # the known point before each x
    bounds = np.zeros_like(x)
    for corner, chord in ((left, left - 1), (left + 1, left + 1)):  # from before, from behind
        usable = (chord >= 0) & (chord < len(slope))
        start, line = np.where(usable, corner, 0), np.where(usable, chord, 0)
        ahead = x - known[start]
        with np.errstate(invalid="ignore"):
            bound = height[start] + slope[line] * ahead - noise[line] * np.abs(ahead)
            bound -= _ROUNDING * height[start]
        bounds = np.where(usable & np.isfinite(bound), np.maximum(bounds, bound), bounds)
    return np.where(np.isinf(height[left]), np.inf, bounds)
