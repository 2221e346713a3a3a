"""What else is made of a released histogram: rivals of the library's estimate, for the pages.

All return probabilities. Each that shows zeros is cut at a tenth of the noise's deviation.
"""

import math
from typing import Any

import numpy as np

from privrl._typing import FloatArray
from privrl.mechanisms import DiscreteLaplaceMechanism, ReleasedTable
from privrl.mechanisms.additive import AdditiveMechanism
from privrl.models.estimates import row_probabilities
from privrl.models.estimates.frequencies import frequencies, noise_deviation

_BLOCKS = 10  # cells to a block, and blocks to a block of blocks


def flat(z: FloatArray, noise: AdditiveMechanism[Any], n: float) -> dict[str, FloatArray]:
    """Return the estimates of rivals from noisy counts of all cells."""
    deviation = max(noise_deviation(noise), 0.5)
    penalty = 2 * deviation**2 * math.log(max(z.size, 3))
    laplace = isinstance(noise, DiscreteLaplaceMechanism)
    order = np.argsort(z)
    merged = np.empty(z.size)
    merged[order] = _merged(z[order], penalty)
    table = ReleasedTable(z[None], "laplace" if laplace else "gaussian", deviation)
    return {
        "cut at the deviation": _floored(z, deviation),
        "projected on the simplex": _floored(_projected(z, n), deviation / 10),
        "all histograms alike": frequencies(z, noise, n),
        "rows": row_probabilities(table, [n])[0],
        "neighbours merged": _floored(_merged(z, penalty), deviation / 10),
        "like cells merged": _floored(merged, deviation / 10),
    }


def tree(counts: FloatArray, epsilon: float, n: float, rng: np.random.Generator) -> FloatArray:
    """Return the consistent estimate (Hay et al., 2010) of sums of 1, 10 and 100 cells.

    Laplace noise, the budget in equal parts.
    """
    sizes = [size for size in (1, _BLOCKS, _BLOCKS**2) if size == 1 or counts.size > 2 * size]
    noise = DiscreteLaplaceMechanism(scale=2 * len(sizes) / epsilon)
    sums = [np.add.reduceat(counts, np.arange(0, counts.size, size)) for size in sizes]
    released = [noise.release(each.astype(int), rng).astype(float) for each in sums]
    variance = noise_deviation(noise) ** 2
    means, variances = [released[0]], [np.full(counts.size, variance)]
    for each in released[1:]:  # upwards: two estimates of each block's sum, weighed
        starts = np.arange(0, means[-1].size, _BLOCKS)
        below, spread = (np.add.reduceat(x, starts) for x in (means[-1], variances[-1]))
        means.append(below + (each - below) * spread / (spread + variance))
        variances.append(spread * variance / (spread + variance))
    total = np.array([n])
    for each in means[::-1]:  # downwards: what is missing is shared out evenly
        width = _BLOCKS if total.size > 1 else each.size
        starts = np.arange(0, each.size, width)
        lengths = np.diff(np.append(starts, each.size))
        total = each + np.repeat((total - np.add.reduceat(each, starts)) / lengths, lengths)
    return _floored(total, math.sqrt(variance) / 10)


def _floored(x: FloatArray, floor: float) -> FloatArray:
    x = np.maximum(x, floor)
    return x / x.sum()


def _projected(z: FloatArray, n: float) -> FloatArray:
    """Return the nearest counts >= 0 with the sum n."""
    largest = np.sort(z)[::-1]
    excess = (largest.cumsum() - n) / np.arange(1, z.size + 1)
    return np.maximum(z - excess[np.flatnonzero(largest > excess)[-1]], 0)


def _merged(z: FloatArray, penalty: float) -> FloatArray:
    """Return means of runs of cells; runs are few, as the penalty for each asks for."""
    first = np.append(0.0, z.cumsum())
    second = np.append(0.0, (z**2).cumsum())
    least, start = np.zeros(z.size + 1), np.zeros(z.size + 1, int)
    for end in range(1, z.size + 1):
        i = np.arange(end)
        cost = (
            least[:end] + second[end] - second[:end] - (first[end] - first[:end]) ** 2 / (end - i)
        )
        start[end] = cost.argmin()
        least[end] = cost[start[end]] + penalty
    found, end = np.empty(z.size), z.size
    while end > 0:
        begin = start[end]
        found[begin:end] = z[begin:end].mean()
        end = begin
    return found
