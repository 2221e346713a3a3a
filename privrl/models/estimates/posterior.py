"""What is left of a count when it has been released with noise, its prior being a gamma law.

Integrals over the count are Gauss-Legendre sums over where both the prior and the noise leave some
probability. For shapes below 1 the prior's density is infinite at 0, and the sum is over a power
of the count in which it is not.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from privrl._typing import FloatArray
from privrl.numerics.scipy_lazily import special

#: Deviation of a count that is exact, and the least that is taken: it is a whole number.
LEAST_DEVIATION = 0.5

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_POINTS, _LOG_WEIGHTS = (_NODES + 1) / 2, np.log(_WEIGHTS / 2)  # on (0, 1)
_WIDTH = 6.0  # standard deviations of the noise that are looked at
_TAIL = 18.0  # -log of what is left out of a gamma law at either end
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
    deviation = np.maximum(deviation, LEAST_DEVIATION)
    spread = np.sqrt(2 * _TAIL / shape)
    window = _WIDTH * deviation
    low = np.maximum(mean * np.maximum(1 - spread, 0), np.maximum(noisy - window, 0))
    high = np.minimum(mean * (1 + spread + _TAIL / shape), np.maximum(noisy, 0) + window)
    # Where prior and noise contradict each other: between the two.
    low, high = np.minimum(low, high), np.maximum(low, high)
    high = np.maximum(high, low * (1 + 1e-9) + _TINY)
    power = np.where(low > 0, 1.0, np.maximum(1 / shape, 1.0))[..., None]
    width = (high - low)[..., None]
    x = np.maximum(low[..., None] + width * _POINTS**power, _TINY)
    shape, rate, deviation = shape[..., None], (shape / mean)[..., None], deviation[..., None]
    log_density = (
        _LOG_WEIGHTS
        + np.log(power * width)
        + (power - 1) * np.log(_POINTS)
        + shape * np.log(rate)
        - special.gammaln(shape)
        + (shape - 1) * np.log(x)
        - rate * x
    )
    error = (noisy[..., None] - x) / deviation
    if laplace:
        log_density -= math.sqrt(2) * np.abs(error) + np.log(math.sqrt(2) * deviation)
    else:
        log_density -= error**2 / 2 + np.log(math.sqrt(2 * math.pi) * deviation)
    largest = log_density.max(axis=-1)
    density = np.exp(log_density - largest[..., None])
    total = density.sum(axis=-1)
    return (
        (density * x).sum(axis=-1) / total,
        (density * x**2).sum(axis=-1) / total,
        largest + np.log(total),
    )
