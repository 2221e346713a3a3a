"""Which cells of a released table are filled, and which hold noise alone.

Most of a transition table is empty. Of a cell's noisy count, in deviations of its noise, either
nothing but noise is known (the spike), or it is filled, by an amount of unknown order of
magnitude (the slab). How many cells are filled is learned from the released table itself, for
each class of cells: empirical Bayes, as Johnstone and Silverman (*Needles and straw in haystacks*,
2004) have it. All of it is post-processing.
"""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privrl.numerics.typing import FloatArray, IntArray

_LOW, _HIGH, _PER_DEVIATION = -6, 12, 8  # bins of noisy counts, in deviations
_N_BINS = (_HIGH - _LOW) * _PER_DEVIATION + 2
_LEAST = 0.5  # deviations: smaller amounts count as nothing
_PSEUDO_CELLS = 5.0  # of the whole table's kind, in every class


def chance_filled(
    noisy: FloatArray, classes: NDArray[Any] | None = None, n_classes: int = 1
) -> FloatArray:
    """Return the posterior probability that each cell is filled.

    Parameters
    ----------
    noisy : array, shape (...)
        Released counts, in deviations of their noise.
    classes : array of int, shape (...), optional
        Which class each cell is in, ``0 .. n_classes - 1``; cells of a class are filled equally
        often. By default all are in one.
    n_classes : int
        How many classes there are.

    Returns
    -------
    array, shape (...)
        Probabilities; 0 for what is negative.
    """
    place = (noisy - _LOW) * _PER_DEVIATION + 1
    bins = np.clip(place, 0, _N_BINS - 1).astype(np.int32)  # none that is too large for integers
    if classes is not None:
        bins += classes.astype(np.int32) * _N_BINS
    seen = np.bincount(bins.ravel(), minlength=n_classes * _N_BINS).reshape(n_classes, _N_BINS)
    spike, slab = _densities()
    slab = slab / np.log(1 + max(float(noisy.max(initial=0)), 4.0))  # up to the largest
    overall = _weights(seen.sum(axis=0, keepdims=True), spike, slab, 0.5, 0.1)
    weight = np.tile(overall, (n_classes, 1))
    some = seen.any(axis=1)
    weight[some] = _weights(seen[some], spike, slab, float(overall[0, 0]), _PSEUDO_CELLS)
    chance = weight * slab / (weight * slab + (1 - weight) * spike)
    chance[:, : -_LOW * _PER_DEVIATION + 1] = 0  # less than nothing
    chance[:, -1] = 1
    table: FloatArray = chance.astype(np.float32)
    return table.reshape(-1)[bins]


@lru_cache
def _densities() -> tuple[FloatArray, FloatArray]:
    """Return the spike's density in each bin, and the slab's but for its normaliser.

    Amounts are log-uniform, from half a deviation up.
    """
    middle = np.linspace(_LOW, _HIGH, _N_BINS - 1) - 0.5 / _PER_DEVIATION
    middle = np.append(middle, _HIGH)
    amount = np.arange(_LEAST, _HIGH + 4, 0.05)
    normal = np.exp(-0.5 * (middle[:, None] - amount) ** 2) / np.sqrt(2 * np.pi)
    spike = np.exp(-0.5 * middle**2) / np.sqrt(2 * np.pi)
    return spike, (normal / (amount + 1 - _LEAST)).sum(axis=1) * 0.05


def _weights(
    seen: IntArray, spike: FloatArray, slab: FloatArray, prior: float, pseudo: float
) -> FloatArray:
    """Return the likeliest part of filled cells in each class, shape (classes, 1).

    ``pseudo`` cells more, of which that part is filled, are taken to have been seen. The
    likelihood is concave: bisection, on a logarithmic scale.
    """
    least, most = np.full((len(seen), 1), 1e-8), np.full((len(seen), 1), 0.999)
    for _ in range(40):
        weight = np.sqrt(least * most)
        slope = (seen * ((slab - spike) / (weight * slab + (1 - weight) * spike))).sum(
            axis=1, keepdims=True
        )
        rises = slope + pseudo * (prior / weight - (1 - prior) / (1 - weight)) > 0
        least, most = np.where(rises, weight, least), np.where(rises, most, weight)
    return weight
