"""Rivals of the library's estimate of a released histogram.

All return probabilities, and none has a setting that depends on the column. Each that shows
zeros is cut at a tenth of the noise's deviation, at least at 0.05 records. `flat` are of
counts of all cells; `others` make separate releases.
"""

import math
from functools import cache
from typing import Any

import numpy as np
from histogram_priors import averaged_splits, gammas, splits, sums_of
from scipy.special import expit

from privrl.accounting import ApproxDP
from privrl.mechanisms import DiscreteGaussianMechanism, DiscreteLaplaceMechanism
from privrl.mechanisms.additive import AdditiveMechanism
from privrl.mechanisms.tables import ReleasedTable
from privrl.models.estimates.frequencies import frequencies
from privrl.models.estimates.tables import row_probabilities
from privrl.numerics.typing import FloatArray, IntArray

_BLOCKS = 10  # cells to a block, and blocks to a block of blocks
_TREES = 30  # cells from which on there are trees
_LARGER = {2: (0.25,), 3: (0.15, 0.1)}  # of a budget in unequal parts: of blocks, the small first


def flat(z: FloatArray, noise: AdditiveMechanism[Any], n: float) -> dict[str, FloatArray]:
    """Return the estimates of rivals from noisy counts of all cells."""
    deviation = max(noise.deviation, 0.5)
    penalty = 2 * deviation**2 * math.log(max(z.size, 3))
    laplace = isinstance(noise, DiscreteLaplaceMechanism)
    kind = "laplace" if laplace else "gaussian"
    order = np.argsort(z)
    merged = np.empty(z.size)
    merged[order] = _merged(z[order], penalty)
    return {
        "cut at the deviation": _floored(z, deviation),
        "projected on the simplex": _simplex(z, n, deviation),
        "all histograms alike": frequencies(z, noise, n),
        "rows": row_probabilities(ReleasedTable(z[None], kind, deviation), [n])[0],
        "neighbours merged": _floored(_merged(z, penalty), deviation / 10),
        "like cells merged": _floored(merged, deviation / 10),
        "gamma laws": gammas(z, n, noise.size, kind)[0],
        "splits": averaged_splits(z, n, noise.deviation)[0],
    }


def others(
    counts: FloatArray, target: ApproxDP, n: float, rng: np.random.Generator
) -> dict[str, FloatArray]:
    """Return the estimates of rivals that make separate releases."""
    gaussian = _gaussian(target)
    z = np.asarray(gaussian.release(counts, rng), np.float64)
    found = {"Gaussian, on the simplex": _simplex(z, n, gaussian.sigma)}
    if counts.size < _TREES:
        return found
    depth = len(_widths(counts.size))
    even = min(
        DiscreteLaplaceMechanism(scale=2 * depth / target.epsilon),
        DiscreteGaussianMechanism(sigma=gaussian.sigma * math.sqrt(depth)),
        key=lambda noise: noise.deviation,
    )
    larger = _LARGER[depth]
    parts = (1 - sum(larger), *larger)
    uneven = [DiscreteLaplaceMechanism(scale=2 / (target.epsilon * part)) for part in parts]
    found["tree, consistent"], found["tree of splits"], found["tree of splits, mixed"] = _trees(
        counts, [even] * depth, n, rng
    )
    found["uneven tree, mixed"] = _trees(counts, uneven, n, rng)[2]
    return found


@cache
def _gaussian(target: ApproxDP) -> DiscreteGaussianMechanism:
    return DiscreteGaussianMechanism.calibrated(target)


def _trees(
    counts: FloatArray, noises: list[AdditiveMechanism[Any]], n: float, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Release sums of 1, 10 and 100 cells; return three estimates.

    The consistent one (Hay et al., 2010); that of a tree of splits; and its mixture with that of
    gamma laws for the cells, weighed by how likely each makes the noisy counts of cells.
    """
    widths = _widths(counts.size)
    released = [
        noise.release(np.add.reduceat(counts, np.arange(0, counts.size, width)), rng).astype(float)
        for width, noise in zip(widths, noises, strict=True)
    ]
    spreads = [noise.deviation**2 for noise in noises]
    means, variances = [released[0]], [np.full(counts.size, spreads[0])]
    for each, variance in zip(released[1:], spreads[1:], strict=True):
        starts = np.arange(0, means[-1].size, _BLOCKS)  # upwards: two estimates, weighed
        below, spread = (np.add.reduceat(x, starts) for x in (means[-1], variances[-1]))
        means.append(below + (each - below) * spread / (spread + variance))
        variances.append(spread * variance / (spread + variance))
    consistent = np.array([n])
    for each in means[::-1]:  # downwards: what is missing is shared out evenly
        starts = np.arange(0, each.size, _BLOCKS if consistent.size > 1 else each.size)
        lengths = np.diff(np.append(starts, each.size))
        gaps = (consistent - np.add.reduceat(each, starts)) / lengths
        consistent = each + np.repeat(gaps, lengths)

    levels = [(w, sums_of(m, v)) for w, m, v in zip(widths, means, variances, strict=True)][::-1]

    def sums(low: IntArray, high: IntArray) -> tuple[FloatArray, FloatArray]:
        total, spread = levels[-1][1](low, high)
        done = np.zeros(low.size, bool)
        for width, of_blocks in levels:  # by the largest blocks that make them up
            fits = ~done & (low % width == 0) & ((high % width == 0) | (high == counts.size))
            at = of_blocks(low[fits] // width, -(-high[fits] // width))
            total[fits], spread[fits] = at
            done |= fits
        return total, spread

    tree = splits(counts.size, n, sums, widths=tuple(widths[1:]))[0]
    deviation = math.sqrt(spreads[0])
    apart = gammas(released[0], n, deviation / math.sqrt(2), "laplace")[0]
    unordered = gammas(released[0], n, max(deviation, 0.3), "gaussian")[1]
    ordered = averaged_splits(released[0], n, deviation)[1]
    share = expit(unordered - math.log(counts.size / 10) - ordered) if deviation > 1 else 1.0
    return (
        _floored(consistent, max(deviation / 10, 0.05)),
        tree,
        share * apart + (1 - share) * tree,
    )


def _widths(n_cells: int) -> list[int]:
    """Return how many cells make the blocks of a tree's levels."""
    return [width for width in (1, _BLOCKS, _BLOCKS**2) if width == 1 or n_cells > 2 * width]


def _simplex(z: FloatArray, n: float, deviation: float) -> FloatArray:
    return _floored(_projected(z, n), max(deviation / 10, 0.05))


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
