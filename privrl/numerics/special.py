"""Differences of log-gamma without cancellation: the one special function that privrl needs.

Every Rényi divergence between Dirichlet or gamma distributions is a short sum of

    G(a, t) = log Γ(a + t) − log Γ(a) − t ψ(a)  ≥ 0,

the Bregman divergence of log Γ. Written with ``gammaln`` it loses all its digits when
``t`` is small or ``a`` large, which is just where private releases live (a million
pseudo-observations, a weight of a thousandth). Here it is a sum of positive terms.
"""

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privrl.numerics.checks import check_each, check_positive_array
from privrl.numerics.scipy_lazily import special

FloatArray = NDArray[np.float64]

# Stirling: log Γ(z) = (z − 1/2) log z − z + log(2π)/2 + Σ_k B_2k / (2k (2k − 1) z^(2k − 1)).
_STIRLING = (
    *(1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188),
    *(-691 / 360360, 1 / 156, -3617 / 122400, 43867 / 244188, -174611 / 125400),
)
_INVERSE_FACTORIALS = tuple(1 / math.factorial(k) for k in range(2, 15))
_SHIFT = 8  # from here on ten terms of Stirling's series are exact to 1e-17
_STEPS = np.arange(float(_SHIFT))[:, None]
_CHUNK = 4000  # numbers at once, whose arrays stay in a processor's cache
_lgamma = np.frompyfunc(math.lgamma, 1, 1)  # as precise as SciPy's, which is slow to import
_VAST = 1e50  # from here on the gamma function of the sum outweighs all else


def bregman_lgamma(a: ArrayLike, t: ArrayLike) -> FloatArray:
    """Return ``log Γ(a + t) − log Γ(a) − t ψ(a)`` to nearly full relative precision.

    Parameters
    ----------
    a, t : array_like
        Broadcast against each other; ``a > 0`` and ``a + t > 0``.

    Returns
    -------
    array
        Non-negative, zero only at ``t = 0``.

    Raises
    ------
    ValueError
        If an argument is out of range or not finite.

    Notes
    -----
    The recurrence ``Γ(z + 1) = z Γ(z)`` moves both arguments up by 8 where one of them is
    smaller, at the price of terms ``−log1pmx(t / (a + j))``. There Stirling's series holds, and
    its differences are taken term by term. All terms but the tiny Stirling corrections are
    non-negative, so nothing cancels.
    """
    a, t = np.broadcast_arrays(check_positive_array("a", a), np.asarray(t, np.float64))
    check_each("t", t, (a + t > 0) & np.isfinite(t), "> -a and finite everywhere")
    shape, a, t = a.shape, a.ravel(), t.ravel()
    low, vast = np.minimum(a, a + t) < _SHIFT, t > _VAST
    total = np.empty_like(a)
    for way, some in ((_bregman_low, low & ~vast), (_bregman_stirling, ~low & ~vast)):
        at = np.flatnonzero(some)
        for i in range(0, len(at), _CHUNK):
            part = at[i : i + _CHUNK]
            total[part] = way(a[part], t[part])
    if vast.any():
        total[vast] = (
            special.gammaln(a[vast] + t[vast])
            - special.gammaln(a[vast])
            - t[vast] * special.digamma(a[vast])
        )
    return total.reshape(shape)


def _bregman_low(a: FloatArray, t: FloatArray) -> FloatArray:
    return _bregman_moved(a, t) + _bregman_stirling(a + _SHIFT, t)


def _bregman_moved(a: FloatArray, t: FloatArray) -> FloatArray:
    """Return the sum of ``−log1pmx(t / (a + j))`` for j from 0 to 7.

    Four terms share one logarithm. With ``1 + p`` the product of four ``1 + x`` their sum is
    ``−log1pmx(p) − e``, where ``e > 0`` is the part of ``p`` beyond the sum of ``x``.
    """
    sums, beyond = np.empty((2, len(a))), np.empty((2, len(a)))
    for i, steps in enumerate((_STEPS[:4], _STEPS[4:])):
        x = t / (a + steps)
        one, other = x[0] + x[1], x[2] + x[3]
        beyond_one, beyond_other = x[0] * x[1], x[2] * x[3]
        sums[i] = one + other
        beyond[i] = (one + beyond_one) * (other + beyond_other) + beyond_one + beyond_other
    product = sums + beyond
    far = np.abs(product - 0.75) > 1.25  # outside of (-1/2, 2) the two parts cancel
    if not far.any():
        return (-log1pmx(product) - beyond).sum(0)
    ratio = ((a + t + _STEPS) / (a + _STEPS)).reshape(2, 4, -1)
    logs = np.log(ratio[:, 0]) + np.log(ratio[:, 1] * ratio[:, 2] * ratio[:, 3])
    near = -log1pmx(np.where(far, 0.0, product)) - beyond
    return np.where(far, sums - logs, near).sum(0)


def _bregman_stirling(a: FloatArray, t: FloatArray) -> FloatArray:
    """Return `bregman_lgamma` where both arguments are at least 8.

    Stirling's corrections are ``v g(v²)`` in ``v = 1/z``, a polynomial ``g``. Their differences
    are ``(t v)² u (h + u k)`` with ``u = 1 / (a + t)``, where ``h = g(v²) + 2 v² g'(v²)`` and
    ``k = (2 v + u) g[u², v²] + 2 v² (u + v) g[u², v², v²]`` in divided differences, which
    Horner's rule gives along with the value.
    """
    x = t / a
    total = a * _xlog1pmx(x) - log1pmx(x) / 2
    u, v = 1 / (a + t), 1 / a
    u_square, v_square = u * u, v * v
    g, first, second = np.full_like(a, _STIRLING[-1]), np.zeros_like(a), np.zeros_like(a)
    for coefficient in _STIRLING[-2::-1]:
        second = second * v_square + first
        first = first * v_square + g
        g = g * u_square + coefficient
    apart = v_square - u_square
    slope = g + apart * first + 2 * v_square * (first + apart * second)
    bend = (2 * v + u) * first + 2 * v_square * (u + v) * second
    return total + (t * v) ** 2 * u * (slope + u * bend)


def log1pmx(x: ArrayLike) -> FloatArray:
    """Return ``log(1 + x) − x`` for ``x > −1``, precise near zero (always ≤ 0)."""
    x = np.asarray(x, np.float64)
    near = np.abs(x) < 0.25
    if not near.any():
        return np.log1p(x) - x
    small = x if near.all() else np.where(near, x, 0.0)
    # log(1 + x) = 2 artanh(y) with y = x / (2 + x), and x = 2y + xy.
    y = small / (2 + small)
    square = y * y
    tail = np.full_like(y, 1 / 19)
    for k in range(17, 1, -2):
        tail *= square
        tail += 1 / k
    series = y * (2 * square * tail - small)
    return series if near.all() else np.where(near, series, np.log1p(x) - x)


@cache
def gauss(n: int) -> tuple[FloatArray, FloatArray]:
    """Return Gauss's n nodes and weights on (-1, 1); what they need of NumPy loads at first use."""
    return np.polynomial.legendre.leggauss(n)


def expm1mx(x: ArrayLike) -> FloatArray:
    """Return ``exp(x) − 1 − x``, precise near zero (always ≥ 0)."""
    x = np.asarray(x, np.float64)
    near = np.abs(x) < 0.25
    small = x if near.all() else x[near]
    series = np.full_like(small, _INVERSE_FACTORIALS[-1])
    for inverse in _INVERSE_FACTORIALS[-2::-1]:
        series *= small
        series += inverse
    series *= small**2
    if small is x:
        return series
    with np.errstate(over="ignore"):
        total = np.asarray(np.expm1(x) - x)
    total[near] = series
    return total


def _xlog1pmx(x: FloatArray) -> FloatArray:
    """Return ``(1 + x) log(1 + x) − x`` for ``x > −1``, precise near zero (always ≥ 0)."""
    near = np.abs(x) < 0.5
    small = np.where(near, x, 0.0)
    far = np.where(near, 1.0, x)
    return np.where(near, small**2 + (1 + small) * log1pmx(small), (1 + far) * np.log1p(far) - far)


def lgamma_excess(a: ArrayLike) -> FloatArray:
    """Return ``log Γ(a) − a log a + a`` for ``a > 0``: small and smooth for large ``a``."""
    a = np.asarray(a, np.float64)
    large = np.maximum(a, _SHIFT)
    with np.errstate(over="ignore"):  # in a denominator
        series = np.log(2 * np.pi / large) / 2 + _polynomial(_STIRLING, 1 / large**2) / large
    little = np.minimum(a, _SHIFT)
    logs = np.asarray(_lgamma(little), np.float64)
    return np.where(a < _SHIFT, logs - little * np.log(little) + little, series)


def digamma_excess(a: ArrayLike) -> FloatArray:
    """Return ``ψ(a) − log a`` for ``a > 0``, precise for large ``a`` (always < 0)."""
    a = np.asarray(a, np.float64)
    large = np.maximum(a, _SHIFT)
    slopes = [(2 * k + 1) * coefficient for k, coefficient in enumerate(_STIRLING)]
    with np.errstate(over="ignore"):  # in denominators
        series = -1 / (2 * large) - _polynomial(slopes, 1 / large**2) / large**2
    little = np.minimum(a, _SHIFT)
    return np.where(a < _SHIFT, special.digamma(little) - np.log(little), series)


def _polynomial(coefficients: Sequence[float], x: FloatArray) -> FloatArray:
    """Return ``coefficients[0] + coefficients[1] x + …``, by Horner's rule."""
    total = np.zeros_like(x)
    for coefficient in reversed(coefficients):
        total = total * x + coefficient
    return total
