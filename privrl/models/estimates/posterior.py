"""The posterior of a count with a gamma prior, given its noisy release.

The integrals are Gauss-Legendre sums over the range to which both the prior and the noise give
probability. For shapes below 1 the density of the prior is infinite at 0, so the sum is over a
power of the count, whose density is finite.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from privrl.numerics.scipy_lazily import special
from privrl.numerics.typing import FloatArray

#: Deviation of a count that is exact, and the least that is taken: it is a whole number.
LEAST_DEVIATION = 0.5

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_POINTS = (_NODES[:, None] + 1) / 2  # on (0, 1)
_LOG_POINTS, _SHARES = np.log(_POINTS), _WEIGHTS / 2


@dataclass(frozen=True)
class _Tuned:
    """How the integrals over a cell's rate are computed.

    Their errors are far below those of the noise: tests hold the integrals against adaptive
    quadrature. Sizes of blocks and chunks bound memory, and the smallest and largest numbers
    keep results within floats; none of these changes a result by more than rounding.
    """

    at_once: int = 1000  # numbers, which with their nodes fit in a processor's cache
    width: float = 6.0  # standard deviations of the noise that are looked at
    tail: float = 18.0  # -log of what is left out of a gamma law at either end


_TUNED = _Tuned()


_TINY = np.finfo(np.float64).tiny


def posterior_counts(
    noisy: FloatArray,
    deviation: ArrayLike,
    mean: FloatArray,
    shape: FloatArray,
    *,
    laplace: bool,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the posterior mean of every count, its mean square, and the log of its evidence.

    Parameters
    ----------
    noisy : array
        Released counts; they may be negative. All arrays are broadcast.
    deviation : array_like
        Standard deviation of their noise; at least `LEAST_DEVIATION` is taken.
    mean, shape : array
        The prior's, > 0; its variance is ``mean**2 / shape``.
    laplace : bool
        Whether the noise is Laplace's, not Gauss's.

    Returns
    -------
    mean, square, log_evidence : array
        The evidence is the density of the released number.
    """
    given = noisy, np.maximum(deviation, LEAST_DEVIATION), mean, shape
    whole = np.broadcast_shapes(*(np.shape(array) for array in given))
    numbers = np.empty((7, *whole))
    for row, array in zip(numbers[3:], given, strict=True):
        row[...] = array
    numbers = numbers.reshape(7, -1)
    low, high = _ends(*numbers[3:])
    power = np.where(low > 0, 1.0, np.maximum(1 / numbers[6], 1.0))
    numbers[:3] = low, high - low, power
    found = np.empty((3, low.size))
    # Powers take long, and most are none.
    for some in np.flatnonzero(power == 1), np.flatnonzero(power != 1):
        for start in range(0, some.size, _TUNED.at_once):
            part = some[start : start + _TUNED.at_once]
            each = _of_each(numbers.take(part, axis=1), laplace=laplace)
            for row, values in zip(found, each, strict=True):
                row[part] = values
    first, second, log_evidence = found.reshape(3, *whole)
    return first, second, log_evidence


def _ends(
    noisy: FloatArray, deviation: FloatArray, mean: FloatArray, shape: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return between which numbers both the prior and the noise leave some probability."""
    spread = np.sqrt(2 * _TUNED.tail / shape)
    window = _TUNED.width * deviation
    low = np.maximum(mean * np.maximum(1 - spread, 0), np.maximum(noisy - window, 0))
    high = np.minimum(mean * (1 + spread + _TUNED.tail / shape), np.maximum(noisy, 0) + window)
    # Where prior and noise contradict each other: between the two.
    low, high = np.minimum(low, high), np.maximum(low, high)
    return low, np.maximum(high, low * (1 + 1e-9) + _TINY)


def _of_each(numbers: FloatArray, *, laplace: bool) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return what `posterior_counts` does, for numbers of shape (7, n); nodes are before n."""
    low, width, power, noisy, deviation, mean, shape = numbers
    is_plain, rate = bool((power == 1).all()), shape / mean
    x: FloatArray = width * (_POINTS if is_plain else _POINTS**power)
    x += low
    np.maximum(x, _TINY, out=x)
    log_density = np.log(x)
    log_density *= shape - 1
    error = rate * x
    log_density -= error
    if not is_plain:
        log_density += (power - 1) * _LOG_POINTS
    # On a scale on which the noise's logarithm is minus its size, or the square of that.
    scale = (math.sqrt(2) if laplace else 1 / math.sqrt(2)) / deviation
    np.multiply(x, scale, out=error)
    error -= noisy * scale
    if laplace:
        noise = np.log(math.sqrt(2) * deviation)
        np.abs(error, out=error)
    else:
        noise = np.log(math.sqrt(2 * math.pi) * deviation)
        error *= error
    log_density -= error
    largest = log_density.max(axis=0)
    log_density -= largest
    density = np.exp(log_density, out=log_density)
    total = _SHARES @ density
    density *= x
    first = _SHARES @ density
    density *= x
    largest += np.log(power * width) + shape * np.log(rate) - special.gammaln(shape) - noise
    return first / total, _SHARES @ density / total, largest + np.log(total)
