"""Priors of columns whose values are farther apart than their bins: lattices of filled cells.

Ages in steps of five years fill every fifth bin of one year. A lattice is an arithmetic sequence of
such cells: ``floor(first + i period)`` for i = 0, 1, ... . Its sites have levels of one gamma law,
which may leave half of them empty. The other cells are empty or share a few records; a few of them
may hold any number. There are some hundred lattices, but far more sets of equally many cells. So
noisy counts in which no single cell stands out may still show the lattice.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product

import numpy as np

from privrl.models.estimates.levels import gamma_law
from privrl.numerics.typing import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class _Tuned:
    """Which lattices are possible, and how likely they are.

    On which data they were chosen, docs/results/histograms.md says.
    """

    least: float = 1.5  # cells: the shortest period
    sites: int = 3  # at least
    fine: float = 0.5  # cells, by which the last sites of neighbouring periods differ
    filled: tuple[float, ...] = (1.0, 0.5)  # shares of sites with records
    shapes: tuple[float, ...] = (0.4, 2.0)  # of the gamma law of their levels
    rests: tuple[float, ...] = (0.0, 0.1)  # shares of records at other cells
    astray: float = 0.02  # chance of another cell to have records like any
    chance: float = 0.5  # of all lattices, to that of all laws that know no order
    tiny: float = 1e-9  # least chance of a level


_TUNED = _Tuned()
LogNormal = Callable[[float | None, FloatArray, FloatArray], FloatArray]
#: Cells for which lattices are looked for: with fewer there is hardly one, with more too many.
FEWEST, MOST = 6, 100


@dataclass(frozen=True)
class Lattices:
    """Lattices, each with laws of its sites and of the other cells.

    Attributes
    ----------
    sites : array of bool, shape (S, K)
    laws : array of int, shape (S,)
        Which laws each has.
    at, off : array, shape (M, L)
        How likely each level is at a site, and at another cell.
    levels : array, shape (L,)
    """

    sites: BoolArray
    laws: IntArray
    at: FloatArray
    off: FloatArray
    levels: FloatArray

    @classmethod
    def over(cls, levels: FloatArray, n_records: float, n_cells: int) -> "Lattices":
        """Return all lattices over cells, each with all laws."""
        sites = _lattices(n_cells)
        numbers, which = np.unique(sites.sum(axis=1), return_inverse=True)
        mean = np.full((1, 1), n_records / n_cells)
        anywhere = _mixed(gamma_law(levels, 1.0, mean), 1.0)
        at, off = [], []
        for filled, shape, rest in product(_TUNED.filled, _TUNED.shapes, _TUNED.rests):
            own = (1 - rest) * n_records / (filled * numbers[:, None])
            others = np.maximum(rest * n_records / (n_cells - numbers[:, None]), _TUNED.tiny)
            at.append(_mixed(gamma_law(levels, shape, own), filled))
            other = _mixed(gamma_law(levels, 1.0, others), float(rest > 0))
            off.append((1 - _TUNED.astray) * other + _TUNED.astray * anywhere)
        laws = [which + numbers.size * k for k in range(len(at))]
        return cls(
            np.tile(sites, (len(at), 1)),
            np.concatenate(laws),
            np.concatenate(at),
            np.concatenate(off),
            levels,
        )

    def only(self, which: IntArray) -> "Lattices":
        """Return some of them."""
        return replace(self, sites=self.sites[which], laws=self.laws[which])

    def log_chances(self, total: float | None, log_normal: LogNormal) -> FloatArray:
        """Return how likely each is beforehand, to the density of the sum that it expects, (S,)."""
        numbers = self.sites.sum(axis=1)
        mean, variance = np.zeros(numbers.size), np.zeros(numbers.size)
        for each, law in ((numbers, self.at), (self.sites.shape[1] - numbers, self.off)):
            first = law @ self.levels
            mean += each * first[self.laws]
            variance += each * (law @ (self.levels**2 + self.levels) - first**2)[self.laws]
        return math.log(_TUNED.chance / numbers.size) - log_normal(total, mean, variance)

    def log_evidence(self, log: FloatArray) -> FloatArray:
        """Return how likely each makes what was released, (S,), by likelihoods (K, L)."""
        largest = log.max(axis=1, keepdims=True)
        likely = np.exp(log - largest).T
        at, off = np.log(self.at @ likely), np.log(self.off @ likely)
        others = off.sum(axis=1)[self.laws]
        found = np.einsum("sk,sk->s", self.sites, (at - off)[self.laws]) + others
        return np.asarray(found + largest.sum())

    def posterior(self, log: FloatArray) -> tuple[FloatArray, FloatArray]:
        """As that of `privrl.models.estimates.ordered.Chains`."""
        largest = log.max(axis=2, keepdims=True)
        laws = np.where(
            self.sites[..., None], self.at[self.laws][:, None], self.off[self.laws][:, None]
        )
        weights = np.exp(log - largest) * laws
        total = weights.sum(axis=2, keepdims=True)
        return (np.log(total) + largest)[..., 0].sum(axis=1), weights / total


def _mixed(law: FloatArray, filled: float) -> FloatArray:
    """Return the law of levels, zero included, where this share has levels above zero."""
    found = np.hstack([np.full((len(law), 1), 1 - filled), filled * law])
    found = np.maximum(found, _TUNED.tiny)
    return np.asarray(found / found.sum(axis=1, keepdims=True))


@lru_cache(maxsize=8)
def _lattices(n_cells: int) -> BoolArray:
    """Return the different lattices over cells, and their mirror images, shape (P, K)."""
    periods = [_TUNED.least]
    while periods[-1] * _TUNED.sites <= n_cells:
        periods.append(periods[-1] * (1 + _TUNED.fine / n_cells))
    found = []
    for period in periods[:-1]:
        first = np.arange(0, period, 0.5)
        places = np.floor(first[:, None] + period * np.arange(n_cells / period)).astype(np.int64)
        sites = np.zeros((len(first), n_cells + 1), bool)
        np.put_along_axis(sites, np.minimum(places, n_cells), True, axis=1)
        found += [sites[:, :-1], sites[:, -2::-1]]  # a mirrored histogram is as likely
    different = np.unique(np.concatenate([np.packbits(each, axis=1) for each in found]), axis=0)
    sites = np.unpackbits(different, axis=1, count=n_cells).astype(bool)
    return sites[sites.sum(axis=1) >= _TUNED.sites]
