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
from itertools import pairwise, product

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
    all_sites : array of bool, shape (P, K)
        The sites of the different lattices, those with few sites first.
    which : array of int, shape (S,)
        For each pair of a lattice and laws, the lattice.
    laws : array of int, shape (S,)
        The laws.
    at, off : array, shape (M, L)
        How likely each level is at a site, and at another cell, by numbers of sites.
    levels : array, shape (L,)
    """

    all_sites: BoolArray
    which: IntArray
    laws: IntArray
    at: FloatArray
    off: FloatArray
    levels: FloatArray

    @classmethod
    def over(cls, levels: FloatArray, n_records: float, n_cells: int) -> "Lattices":
        """Return all lattices over cells, each with all laws."""
        sites, numbers, ends = _lattices(n_cells)
        mean = np.full((1, 1), n_records / n_cells)
        anywhere = _mixed(gamma_law(levels, 1.0, mean), 1.0)
        at, off = [], []
        for filled, shape, rest in product(_TUNED.filled, _TUNED.shapes, _TUNED.rests):
            own = (1 - rest) * n_records / (filled * numbers[:, None].astype(np.float64))
            others = np.maximum(rest * n_records / (n_cells - numbers[:, None]), _TUNED.tiny)
            at.append(_mixed(gamma_law(levels, shape, own), filled))
            other = _mixed(gamma_law(levels, 1.0, others), float(rest > 0))
            off.append((1 - _TUNED.astray) * other + _TUNED.astray * anywhere)
        each = np.arange(numbers.size * len(at)).reshape(len(at), -1)
        return cls(
            sites,
            np.tile(np.arange(len(sites)), len(at)),
            each.repeat(np.diff(ends), axis=1).ravel(),
            np.concatenate(at),
            np.concatenate(off),
            levels,
        )

    @property
    def sites(self) -> BoolArray:
        """Of each pair, shape (S, K)."""
        return self.all_sites[self.which]

    def only(self, which: IntArray) -> "Lattices":
        """Return some of them."""
        return replace(self, which=self.which[which], laws=self.laws[which])

    def log_chances(self, total: float | None, log_normal: LogNormal) -> FloatArray:
        """Return how likely each is beforehand, to the density of the sum that it expects, (S,).

        This and `log_evidence` are of all pairs.
        """
        n_cells = self.all_sites.shape[1]
        _, numbers, _ = _lattices(n_cells)
        numbers = np.tile(numbers, len(self.at) // numbers.size)
        mean, variance = np.zeros(len(self.at)), np.zeros(len(self.at))
        for each, law in ((numbers, self.at), (n_cells - numbers, self.off)):
            first = law @ self.levels
            mean += each * first
            variance += each * (law @ (self.levels**2 + self.levels) - first**2)
        found = math.log(_TUNED.chance / self.laws.size) - log_normal(total, mean, variance)
        return np.asarray(found[self.laws])

    def log_evidence(self, log: FloatArray) -> FloatArray:
        """Return how likely each makes what was released, (S,), by likelihoods (K, L)."""
        largest = log.max(axis=1, keepdims=True)
        likely = np.exp(log - largest).T
        at, off = np.log(self.at @ likely), np.log(self.off @ likely)
        _, numbers, ends = _lattices(len(log))
        apart = (at - off).reshape(-1, numbers.size, len(log))
        found = np.empty((len(apart), len(self.all_sites)))
        for k, (start, end) in enumerate(pairwise(ends)):  # products with few laws are quick
            found[:, start:end] = apart[:, k] @ self.all_sites[start:end].T
        return np.asarray(found.ravel() + off.sum(axis=1)[self.laws] + largest.sum())

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
def _lattices(n_cells: int) -> tuple[BoolArray, IntArray, IntArray]:
    """Return different lattices over cells, those with few sites first.

    Returns
    -------
    sites : array of bool, shape (P, K)
        With their mirror images.
    numbers : array of int, shape (N,)
        The numbers of sites that occur, increasing.
    ends : array of int, shape (N + 1,)
        Where the lattices with each begin, and P.
    """
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
    n_sites = sites.sum(axis=1)
    order = np.argsort(n_sites, kind="stable")
    sites = sites[order[n_sites[order] >= _TUNED.sites]]
    numbers, starts = np.unique(sites.sum(axis=1), return_index=True)
    return sites, numbers, np.append(starts, len(sites))
