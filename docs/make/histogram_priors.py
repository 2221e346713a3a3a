"""Rivals of the library's histograms with other priors: gamma laws, and trees of splits.

`gammas` takes counts of cells as drawn from a mixture of a zero, of gamma laws of shape 2 and of
the exponential law of all histograms alike; its weights are fitted by expectation and maximisation.
`splits` shares the records out from the top of a tree of halves, each share a beta law about
the even one of a strength that is fitted by levels of the tree (a Polya tree).
"""

import math
from collections.abc import Callable

import numpy as np
from scipy.special import betaln, gammainc, logsumexp

from privrl.numerics.typing import FloatArray, IntArray

#: Sums of the cells from `low` to `high` that noisy counts make, and the variances of their noise.
Sums = Callable[[IntArray, IntArray], tuple[FloatArray, FloatArray]]

_SHAPE = 2.0
_PRIOR, _ALIKE = 0.2, 2.0  # cells that all laws together are worth beforehand, and the last one
_FITS = 60  # rounds
_REACH = {"gaussian": 9.0, "laplace": 16.0}  # sizes of the noise that are looked at
_STRENGTHS = np.geomspace(1, 4**9, 10)
_LEVEL_PRIOR, _LEVEL_FITS = 0.3, 12
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(32)
_POINTS, _LOG_WEIGHTS = (_NODES + 1) / 2, np.log(_WEIGHTS / 2)
_PLACES = (0.5, 0.38, 0.62)  # where trees are split that are averaged


def gammas(z: FloatArray, n: float, size: float, kind: str) -> tuple[FloatArray, float]:
    """Return probabilities from noisy counts of a size of noise, and their log-evidence."""
    deviation = size * (1 if kind == "gaussian" else math.sqrt(2))
    step = max(1.0, math.ceil(deviation / 6))
    reach = math.ceil(_REACH[kind] * size / step) + 1
    values, rows, numbers = np.unique(z, return_inverse=True, return_counts=True)
    at = np.maximum(np.rint(values / step).astype(int), 0)[:, None] + np.arange(-reach, reach + 1)
    x = step * at
    error = np.abs(values[:, None] - x) / size
    log = np.where(at >= 0, -error if kind == "laplace" else -(error**2) / 2, -np.inf)
    best = log.max(axis=1)
    likely = np.exp(log - best[:, None])

    wide = min(z.size, 4096)
    means = n / z.size * np.geomspace(1 / 64, wide, 1 + int(math.log2(64 * wide)))
    means = means[(means > 0.02) | (means >= n / z.size)]
    grid = step * np.maximum(np.arange(at.max() + 2) - 0.5, 0)
    masses = [np.diff(gammainc(_SHAPE, _SHAPE * grid / mean)) for mean in means]
    masses = [np.eye(1, grid.size - 1)[0], *masses, -np.diff(np.exp(-grid * z.size / n))]
    moments = []
    for mass in masses:
        each = likely * mass[np.maximum(at, 0)]
        moments.append([(each * x**power).sum(axis=1) for power in (0, 1, 2)])
    evidence, first, second = np.array(moments).swapaxes(0, 1) + 1e-290  # (laws, values)
    prior = np.full(len(masses), _PRIOR / len(masses))
    prior[-1] += _ALIKE
    weights = np.full(len(masses), 1 / len(masses))
    for _ in range(_FITS):
        weights = (weights[:, None] * evidence / (weights @ evidence)) @ numbers + prior
        weights /= weights.sum()
    total = weights @ evidence
    mean = weights @ first / total
    variance = np.maximum(weights @ second / total - mean**2, 1e-12)
    size_of = math.log(2 * size if kind == "laplace" else size * math.sqrt(2 * math.pi))
    found = float(numbers @ (np.log(total) + best - size_of))
    # Both the evidence and the means are given the sum, as if it were normal.
    middle, spread = (
        np.array([0, *means, n / z.size]),
        np.array([0, *means**2 / 2, (n / z.size) ** 2]),
    )
    before = weights @ middle
    found += _log_normal(n - numbers @ mean, numbers @ variance)
    found -= _log_normal(
        n - z.size * before, z.size * float(weights @ (spread + middle**2) - before**2)
    )
    counts = mean + (n - numbers @ mean) * variance / (numbers @ variance)
    counts = np.maximum(np.maximum(counts, 0.3 * mean), 1e-300)[rows]
    return counts / counts.sum(), found


def averaged_splits(z: FloatArray, n: float, deviation: float) -> tuple[FloatArray, float]:
    """Return the mean of `splits` of trees at three places, and the log-evidence."""
    sums = sums_of(z, np.full(z.size, deviation**2))
    each, evidences = zip(*(splits(z.size, n, sums, place) for place in _PLACES), strict=True)
    root = _log_normal(z.sum() - n, z.size * deviation**2) + math.log(z.size) / 2
    return np.mean(each, axis=0), float(logsumexp(evidences) - math.log(len(_PLACES)) + root)


def sums_of(z: FloatArray, variances: FloatArray) -> Sums:
    """Return what makes sums of cells' noisy counts of these variances."""
    upto, spread = np.append(0.0, z.cumsum()), np.append(0.0, variances.cumsum())
    return lambda low, high: (upto[high] - upto[low], spread[high] - spread[low])


def splits(
    n_cells: int, n: float, sums: Sums, place: float = 0.5, widths: tuple[int, ...] = ()
) -> tuple[FloatArray, float]:
    """Return probabilities, and log-evidence, of a tree split at a place, or at ends of blocks."""
    low, high, total = np.array([0]), np.array([n_cells]), np.array([n])
    found, evidence = np.zeros(n_cells), 0.0
    while low.size:
        single = high - low == 1
        found[low[single]] = total[single]
        low, high, total = low[~single], high[~single], total[~single]
        middle = _middles(low, high, place, widths)
        share, more = _shares(
            total, (middle - low) / (high - low), sums(low, middle), sums(middle, high)
        )
        evidence += more
        total = np.concatenate([total * share, total * (1 - share)])
        low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
    found = np.maximum(found, 1e-300)
    return found / found.sum(), evidence


def _middles(low: IntArray, high: IntArray, place: float, widths: tuple[int, ...]) -> IntArray:
    width = high - low
    middle = low + np.clip(np.rint(width * place).astype(int), 1, width - 1)
    left = np.ones(low.size, bool)
    for block in sorted(widths, reverse=True):  # the largest that fits more than once
        at = np.rint(middle / block).astype(int) * block
        middle = np.where(left & (width > block) & (low < at) & (at < high), at, middle)
        left &= width <= block
    return np.asarray(middle)


def _shares(
    total: FloatArray,
    even: FloatArray,
    left: tuple[FloatArray, FloatArray],
    right: tuple[FloatArray, FloatArray],
) -> tuple[FloatArray, float]:
    """Return the left's shares of totals, (N,), and the log-evidence of all."""
    if not total.size:
        return total, 0.0
    both = left[1] + right[1]
    t = np.maximum(total, 1e-9)[:, None]
    centre = ((left[0] * right[1] + (total - right[0]) * left[1]) / both)[:, None] / t
    deviation = np.sqrt(left[1] * right[1] / both)[:, None] / t
    even = even[:, None]
    strength = 1 / (1 / _STRENGTHS + 1 / np.maximum(t, 1))  # (N, S)
    a, b = strength * even, strength * (1 - even)
    spread = 9 * np.sqrt(even * (1 - even) / (strength + 1))
    sharp = strength > 50
    ends = (
        np.maximum(centre - 7 * deviation, np.where(sharp, np.maximum(even - spread, 0), 0)),
        np.minimum(centre + 7 * deviation, np.where(sharp, np.minimum(even + spread, 1), 1)),
    )
    start, end = np.clip(np.minimum(*ends), 0, 1), np.clip(np.maximum(*ends), 0, 1)
    width = np.maximum(end - start, 1e-9)[..., None]
    theta = np.clip(start[..., None] + width * _POINTS, 1e-12, 1 - 1e-12)
    log = (
        (a[..., None] - 1) * np.log(theta)
        + (b[..., None] - 1) * np.log1p(-theta)
        - ((theta - centre[..., None]) / deviation[..., None]) ** 2 / 2
        + _LOG_WEIGHTS
    )
    most = log.max(axis=2, keepdims=True)
    mass = np.exp(log - most)
    known = mass.sum(axis=2)
    share = (mass * theta).sum(axis=2) / known
    evidence = np.log(known * width[..., 0]) + most[..., 0] - betaln(a, b)
    evidence -= np.log(2 * math.pi * both)[:, None] / 2
    best = evidence.max(axis=1, keepdims=True)
    likely = np.exp(evidence - best)
    weights = np.full(_STRENGTHS.size, 1 / _STRENGTHS.size)
    for _ in range(_LEVEL_FITS):
        weights = (likely * weights / (likely @ weights)[:, None]).sum(axis=0) + (
            _LEVEL_PRIOR / _STRENGTHS.size
        )
        weights /= weights.sum()
    posterior = likely * weights
    sums = posterior.sum(axis=1)
    return (posterior * share).sum(axis=1) / sums, float((np.log(sums) + best[:, 0]).sum())


def _log_normal(error: float, variance: float) -> float:
    variance = max(variance, 0.1)
    return -(error**2) / variance / 2 - math.log(2 * math.pi * variance) / 2
