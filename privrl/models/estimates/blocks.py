"""Sums of neighbouring cells that were released beside the counts.

A block is a run of cells. Its noisy sum y carries information about all of its cells together that
the noise of the single counts hides. Given all sums, the posterior of the counts is the one
without sums, with a density multiplied by ``exp(-t x)``. There is one tilt t for the cells of each
block and one more, t₀, for all cells, by which they sum to the public number n. With Z(t) for the
normaliser of the rest, the tilts minimise the convex

    F(t) = log Z(t) + t₀ n + Σ (t y + v t² / 2),  v the variance of a sum's noise.

At the minimum the mean of each block is y + v t. This is the first term of the saddle-point
expansion (Daniels, 1954), as in `privrl.models.estimates.mixture`. The log-evidence of the release
is F at the minimum, minus half the logarithm of the determinant of its second derivatives.

References
----------
H. E. Daniels. *Saddlepoint approximations in statistics* (1954).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from privrl.models.estimates.levels import Likelihoods
from privrl.numerics.typing import FloatArray, IntArray

#: From log-likelihoods (S, K, L) to log-evidences (S,) and weights of levels (S, K, L).
Weigh = Callable[[FloatArray], tuple[FloatArray, FloatArray]]


@dataclass(frozen=True)
class _Tuned:
    """How the tilts of blocks are searched for.

    On which data they were chosen, `privrl.models.estimates.mixture` says.
    """

    rounds: int = 16  # of the search for tilts
    fresh: int = 4  # rounds that second derivatives are good for
    halves: int = 5  # of a step that leads upwards, by three each
    near: float = 1e-2  # nats by which F may be above its least
    step: float = 0.1  # of a tilt, over the noise's size, for differences
    stride: float = 1.0  # of a tilt, over the noise's size
    far: float = 25.0  # squared deviations: beyond, sums are not normal
    exact: float = 1e-3  # variance of a sum that is none
    numbers: int = 4_000_000  # at once


_TUNED = _Tuned()


def block_starts(n_cells: int, n_blocks: int) -> IntArray:
    """Return the first cell of each block, (J,): as many cells in each as there can be."""
    return np.arange(n_blocks) * n_cells // n_blocks


@dataclass(frozen=True)
class Sums:
    """Released sums of blocks of cells.

    Parameters
    ----------
    values : array, shape (J,)
        With noise; they may be negative.
    variance : float
        Of the noise of each.
    n_cells : int
        The number of all cells.
    """

    values: FloatArray
    variance: float
    n_cells: int

    @cached_property
    def starts(self) -> IntArray:
        """The first cell of each block, (J,)."""
        return block_starts(self.n_cells, self.values.size)

    @cached_property
    def widths(self) -> IntArray:
        """How many cells each block has, (J,)."""
        return np.diff(self.starts, append=self.n_cells)

    @cached_property
    def block(self) -> IntArray:
        """The block that each cell is in, (K,)."""
        return np.repeat(np.arange(self.values.size), self.widths)

    def of(self, counts: FloatArray) -> FloatArray:
        """Return sums over blocks of the last axis."""
        return np.asarray(np.add.reduceat(counts, self.starts, axis=-1))

    def log_levels(self, levels: FloatArray) -> FloatArray:
        """Return each cell's log-likelihoods of levels, (K, L), if its block is level."""
        means = self.widths[:, None] * levels
        variances = self.variance + means
        log = -(np.log(variances) + (self.values[:, None] - means) ** 2 / variances) / 2
        return np.asarray((log / self.widths[:, None])[self.block])

    def roughly(self, means: FloatArray, variances: FloatArray, total: float) -> FloatArray:
        """Return log-evidences of the sums, and of all cells' then, (S,), all taken as normal.

        From means and variances of cells, (S, K), that are independent otherwise.
        """
        mean, spread = self.of(means), self.of(variances)
        both = spread + self.variance
        error = self.values - mean
        found = -(np.log(both) + error**2 / both).sum(axis=1) / 2
        left = (spread * self.variance / both).sum(axis=1) + _TUNED.exact
        gap = total - (mean + spread * error / both).sum(axis=1)
        return np.asarray(found - (np.log(left) + np.minimum(gap**2 / left, _TUNED.far)) / 2)


class Settled(NamedTuple):
    """The posterior of the counts under one prior."""

    log_evidence: float
    tilts: FloatArray  # (K,)
    means: FloatArray  # (K,)
    variances: FloatArray  # (K,)
    weights: FloatArray  # of levels, (K, L)


def settle(
    posterior: Weigh, likelihoods: Likelihoods, sums: Sums, total: float, *, apart: bool
) -> Settled:
    """Return the posterior of the counts under a prior, by Newton's method.

    Parameters
    ----------
    posterior : callable
        The prior's; it is asked with S of any size.
    likelihoods : Likelihoods
        Of each cell's own noisy count.
    sums : Sums
        Of blocks of these cells.
    total : float
        The public number of records.
    apart : bool
        Whether the cells are independent under the prior.
    """
    tilts = np.zeros(1 + sums.values.size)  # of all cells, and of each block
    now = _at(tilts, posterior, likelihoods, sums, total)
    fresh = 0
    for _ in range(_TUNED.rounds):
        if not fresh:
            second = _second(now, posterior, likelihoods, sums, apart=apart)
            fresh = _TUNED.fresh
        fresh -= 1
        step = np.linalg.solve(second, now.slope)
        above = float(now.slope @ step) / 2
        if above < _TUNED.near:
            break
        step = step * min(1.0, _TUNED.stride / likelihoods.size / np.abs(step).max())
        for _ in range(_TUNED.halves):
            new = _at(tilts + step, posterior, likelihoods, sums, total)
            if new.value <= now.value:
                break
            step, fresh = step / 3, 0
        tilts, now = tilts + step, new
    evidence = now.value - np.linalg.slogdet(second)[1] / 2 - min(above, _TUNED.far / 2)
    return Settled(float(evidence), now.tilts, now.means, now.variances, now.weights)


class _Point(NamedTuple):
    """The state at some tilts."""

    value: float  # of F
    slope: FloatArray  # of F, downwards
    tilts: FloatArray  # of each cell
    log: FloatArray  # likelihoods
    left: FloatArray  # means by cell and level
    means: FloatArray
    variances: FloatArray
    weights: FloatArray


def _at(
    tilts: FloatArray, posterior: Weigh, likelihoods: Likelihoods, sums: Sums, total: float
) -> _Point:
    each = tilts[0] + tilts[1:][sums.block]
    log, left, variance = likelihoods.tilted(each)()
    evidence, weights = (found[0] for found in posterior(log[None]))
    means = (weights * left).sum(axis=1)
    variances = np.maximum((weights * (variance + left**2)).sum(axis=1) - means**2, 0)
    value = evidence + tilts[0] * total + tilts[1:] @ sums.values
    value += sums.variance * (tilts[1:] ** 2).sum() / 2
    slope = sums.of(means) - sums.values - sums.variance * tilts[1:]
    slope = np.append(means.sum() - total, slope)
    return _Point(float(value), slope, each, log, left, means, variances, weights)


def _second(
    at: _Point, posterior: Weigh, likelihoods: Likelihoods, sums: Sums, *, apart: bool
) -> FloatArray:
    """Return the second derivatives of F, (1 + J, 1 + J)."""
    if apart:
        covariance = np.diag(sums.of(at.variances))
    else:
        step = _TUNED.step / likelihoods.size
        log, left, _ = likelihoods.tilted(at.tilts + step)()
        n_blocks, moved = sums.values.size, []
        n_once = max(1, _TUNED.numbers // log.size)
        for start in range(0, n_blocks, n_once):
            which = np.arange(start, min(start + n_once, n_blocks))
            there = (sums.block == which[:, None])[..., None]
            _, weights = posterior(np.where(there, log, at.log))
            moved.append(sums.of((weights * np.where(there, left, at.left)).sum(axis=2)))
        covariance = (sums.of(at.means) - np.concatenate(moved)) / step
        sizes, axes = np.linalg.eigh((covariance + covariance.T) / 2)
        covariance = axes * np.maximum(sizes, 0) @ axes.T
    second = np.empty((len(covariance) + 1,) * 2)
    second[0, 0] = covariance.sum() + _TUNED.exact
    second[0, 1:] = second[1:, 0] = covariance.sum(axis=0)
    second[1:, 1:] = covariance + sums.variance * np.eye(len(covariance))
    return second
