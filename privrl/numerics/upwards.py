"""Rounding that never makes a privacy cost smaller.

A sum, a product or a quotient of two floats is rounded upwards exactly: what rounding took is
itself a float (Knuth; Dekker), whose sign says whether the next float is needed. Results that are
floats, as in textbook examples, stay unchanged, but for products and quotients near the least and
the largest floats. Results of special functions or integrals move outwards by an allowance, several
times the largest error that was found by holding random parameters against rigorous enclosures:
``python tests/core/enclosures.py``.
"""

import numpy as np
from numpy.typing import ArrayLike

from privrl.numerics.special import FloatArray

#: Relative, of a Rényi divergence that takes special functions.
DIVERGENCE = 1e-13
#: Of the logarithm of a delta that takes an integral or a long sum.
LOG_DELTA = 3e-12
#: Relative, of what a few operations in a row round away.
FEW = 2.0**-50
_SPLITTER = 2.0**27 + 1
_LEAST = 2.0**-960  # products from which on what rounding takes is a float


def outward(value: ArrayLike, allowance: float) -> FloatArray:
    """Return numbers >= 0 made larger by a relative allowance; zeros stay."""
    return np.asarray(value, np.float64) * (1 + allowance)


def two_sum(total: FloatArray, lost: FloatArray, more: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Add with the rounding error carried along (Knuth's two-sum)."""
    new = total + more
    with np.errstate(invalid="ignore"):
        back = new - total
        error = (total - (new - back)) + (more - back)
    return new, lost + np.where(np.isfinite(new), error, 0.0)


def sum_up(total: FloatArray, lost: FloatArray) -> FloatArray:
    """Return ``total + lost``, rounded upwards."""
    new, error = two_sum(total, np.zeros(()), lost)
    return np.where(error > 0, np.nextafter(new, np.inf), new)


def product_up(x: ArrayLike, y: ArrayLike) -> FloatArray:
    """Return ``x * y``, rounded upwards; both >= 0."""
    if type(x) is int and x == 1:  # one release, as most often
        return np.asarray(y, np.float64)
    product, error = _two_product(x, y)
    # Not a number where the error overflowed on the way, or is too small.
    return np.where(error <= 0, product, np.nextafter(product, np.inf))


def product_down(x: ArrayLike, y: ArrayLike) -> FloatArray:
    """Return ``x * y``, rounded downwards; both >= 0."""
    product, error = _two_product(x, y)
    return np.where(error >= 0, product, np.nextafter(product, 0.0))


def quotient_up(x: ArrayLike, y: ArrayLike) -> FloatArray:
    """Return ``x / y``, rounded upwards; ``x >= 0`` and ``y > 0``."""
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    quotient = x / y
    product, error = _two_product(quotient, y)
    with np.errstate(invalid="ignore"):
        left = (x - product) - error
    known = np.isfinite(error)  # not where it overflowed on the way
    return np.where(known & (left <= 0), quotient, np.nextafter(quotient, np.inf))


def exp_up(log: ArrayLike) -> FloatArray:
    """Return the exponential of logarithms of probabilities, rounded upwards, at most 1.

    Zero only for minus infinity: what is too small for a float becomes the smallest one.
    """
    log = np.asarray(log, np.float64)
    value = np.exp(log)
    up = np.minimum(np.nextafter(value * (1 + FEW), np.inf), 1.0)
    return np.where(np.isneginf(log), 0.0, up)


def _two_product(x: ArrayLike, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return a product and what rounding took from it (Dekker), or NaN where that underflows."""
    with np.errstate(over="ignore", invalid="ignore"):
        product = np.multiply(x, y)
        (x_high, x_low), (y_high, y_low) = _halves(x), _halves(y)
        rest = x_high * y_high - product
        error = ((rest + x_high * y_low) + x_low * y_high) + x_low * y_low
        unknown = (product < _LEAST) & (np.not_equal(x, 0) & np.not_equal(y, 0))
        return product, np.where(unknown, np.nan, error)


def _halves(x: ArrayLike) -> tuple[FloatArray, FloatArray]:
    x = np.asarray(x, np.float64)
    far = _SPLITTER * x
    high = far - (far - x)
    return high, x - high
