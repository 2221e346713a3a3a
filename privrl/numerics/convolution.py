"""The privacy profile of several independent pairs at once, by a convolution on the safe side.

Where a neighbour changes more than one pair of cells, the privacy loss is a sum of independent
losses and delta lacks a closed form. Each loss is put on a grid by *connecting the dots*
(Doroshenko, Ghazi, Kamath, Kumar and Manurangsi, 2022): the mass between two grid points is split
between them so that its weight under both distributions stays what it was. Merging it again is
post-processing, so the gridded pair dominates the true one, and so do sums of gridded losses:
whatever is computed from them is an upper bound on delta.

All terms are positive and are added without a Fourier transform, so that small deltas keep
their digits. The bound is too large by about ``(range of the losses in nats / 4096)² / 8`` of
delta and pair. In epsilon that is less than 3e-4 of it for epsilons below a hundred nats, and
about 2e-3 of it in the worst case found (prior 0.02, weight 0.5). The masses themselves are
integrals by Gauss's rule, good to about 1e-13, and raised by more than that.
"""

from collections import Counter
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from privrl.numerics.linear_losses import LEAST_LOG
from privrl.numerics.scipy_lazily import blas
from privrl.numerics.special import FloatArray
from privrl.numerics.upwards import LOG_DELTA, outward

POINTS = 4096
_FARTHEST = 1e8  # nats; beyond, floats do not tell losses from one another, and delta is 1
_MARGIN = 25.0  # nats below the smallest delta asked for, down to which a loss is resolved


class Pair(Protocol):
    """A pair of distributions that dominates one independent part of a release; hashable."""

    def rdp(self, orders: FloatArray) -> FloatArray:
        """Return the Rényi divergence (nats) at each order > 1."""

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """Return ``log delta`` at each epsilon >= 0; same shape."""

    def loss_range(self, level: float) -> tuple[float, float]:
        """Return losses beyond which all the mass is below ``exp(level)``."""

    def grid_masses(self, step: float, first: int, last: int) -> tuple[FloatArray, float]:
        """Put the loss on the points ``step * (first .. last)``, connecting the dots.

        Returns the masses there under the first distribution, and the mass beyond the last
        point, which counts as infinite. Mass below the first point moves up to it.
        """


class ProductProfile:
    """An upper bound on delta(epsilon) of independent pairs.

    Parameters
    ----------
    pairs : Counter of Pair
        The pairs with their multiplicities.
    log_level : float
        Logarithm of the smallest delta that will be asked for; below it the bound still holds
        but flattens out. So it does, at 1, where losses may be a hundred million nats.
    """

    def __init__(self, pairs: "Counter[Pair]", log_level: float, points: int = POINTS) -> None:
        level = log_level - _MARGIN
        with np.errstate(all="ignore"):
            ranges = [pair.loss_range(level) for pair in pairs]
        self._is_told = all(-_FARTHEST < low < high < _FARTHEST for low, high in ranges)
        if not self._is_told:
            return
        step = max(high - low for low, high in ranges) / points
        self._step = step
        self._lost = 0.0  # mass at infinite loss
        start, mass, one = 0, np.ones(1), np.ones(1)
        # The widest last, which is not convolved.
        wide = sorted(zip(ranges, pairs, strict=True), key=lambda each: each[0][1] - each[0][0])
        for (low, high), pair in wide:
            first, last = int(np.floor(low / step)), int(np.ceil(high / step))
            masses, beyond = pair.grid_masses(step, first, last)
            masses, beyond = outward(masses, LOG_DELTA), float(outward(beyond, LOG_DELTA))
            for _ in range(pairs[pair]):
                mass, one = np.convolve(mass, one), masses
                start += first
                self._lost += beyond
        # The last pair's masses are kept apart: few epsilons are asked for, and at one of them
        # a product of two vectors does what convolving does everywhere.
        self._one = one[::-1].copy()
        self._start = start
        # Mass of the others above each grid point, and delta there, by a recursion of positive
        # terms: delta(l) = (1 − e^−step) mass above l + e^−step delta(l + step).
        above = np.append(np.cumsum(mass[::-1])[::-1], 0.0)
        inward = -np.expm1(-step) * above[1:]
        delta = np.append(_recursion(inward[::-1], np.exp(-step))[::-1], 0.0)
        # Before the first point all the mass is above.
        before = step * np.arange(1.0 - len(one), 0.0)
        ahead = -np.expm1(before) * above[0] + np.exp(before) * delta[0]
        after = np.zeros(len(one))
        self._above = np.concatenate([np.full_like(before, above[0]), above, after])
        self._delta = np.concatenate([ahead, delta, after])

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """Return an upper bound on ``log delta`` at each epsilon; same shape."""
        if not self._is_told:
            return np.zeros(np.shape(epsilon))
        # The next grid point at or above each epsilon, and how far away it is.
        last = len(self._above) - len(self._one) - 1
        near = np.clip(np.ceil(np.asarray(epsilon, np.float64) / self._step) - self._start, 0, last)
        gap = np.minimum(epsilon - self._step * (near + self._start), 0.0)
        points, at = np.unique(near.astype(np.int64), return_inverse=True)
        above, delta = self._at(points)
        delta = -np.expm1(gap) * above[at] + np.exp(gap) * delta[at] + self._lost
        with np.errstate(divide="ignore"):
            return np.clip(np.log(delta), LEAST_LOG, 0.0)

    def _at(self, points: NDArray[np.int64]) -> tuple[FloatArray, FloatArray]:
        """Return the mass above some points of the grid, and delta there."""
        both = np.stack([self._above, self._delta])
        sums = np.array([both[:, i : i + len(self._one)] @ self._one for i in points]).reshape(
            -1, 2
        )
        return sums[:, 0], sums[:, 1]


def _recursion(inward: FloatArray, decay: float) -> FloatArray:
    """Return ``y[n] = inward[n] + decay y[n − 1]``: a triangular system with two diagonals."""
    diagonals = np.empty((2, len(inward)), order="F")
    diagonals[0], diagonals[1] = 1.0, -decay
    return blas.dtbsv(1, diagonals, inward, lower=1, diag=1)


@lru_cache(maxsize=64)
def product_profile(
    pairs: "frozenset[tuple[Pair, int]]", log_level: float, points: int
) -> ProductProfile:
    """Return the `ProductProfile` of pairs with multiplicities, made once."""
    return ProductProfile(Counter(dict(pairs)), log_level, points)
