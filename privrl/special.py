"""Differences of log-gamma without cancellation: the one special function that privrl needs.

Every Rényi divergence between Dirichlet or gamma distributions is a short sum of

    G(a, t) = log Γ(a + t) − log Γ(a) − t ψ(a)  ≥ 0,

the Bregman divergence of log Γ. Written with ``gammaln`` it loses all its digits when
``t`` is small or ``a`` large, which is just where private releases live (a million
pseudo-observations, a scale of a thousandth). Here it is a sum of positive terms.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import digamma, gammaln

from privrl._checks import check_positive_array

FloatArray = NDArray[np.float64]

# Stirling: log Γ(z) = (z − 1/2) log z − z + log(2π)/2 + Σ_k B_2k / (2k (2k − 1) z^(2k − 1)).
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_SHIFT = 16  # from here on seven terms of Stirling's series are exact to 1e-18


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
    The recurrence ``Γ(z + 1) = z Γ(z)`` moves both arguments up by 16, at the price of terms
    ``−log1pmx(t / (a + j))``; there Stirling's series holds, and its differences are taken
    term by term in ``x = t / a``. All terms but the tiny Stirling corrections are
    non-negative, so nothing cancels.
    """
    a, t = np.broadcast_arrays(check_positive_array("a", a), np.asarray(t, np.float64))
    wrong = t[~((a + t > 0) & np.isfinite(t))]
    if wrong.size:
        raise ValueError(f"t must be > -a and finite everywhere, got {wrong.flat[0]!s}.")
    steps = np.arange(_SHIFT)
    moved = -log1pmx(t[..., None] / (a[..., None] + steps)).sum(-1)
    a = a + _SHIFT
    x = t / a
    excess = -log1pmx(x)  # x − log(1 + x)
    total = moved + a * _xlog1pmx(x) + excess / 2
    for k, coefficient in enumerate(_STIRLING):
        power = 2 * k + 1  # (1 + x)^−power − 1 + power x, again without cancellation
        bend = expm1mx(-power * np.log1p(x)) + power * excess
        total = total + coefficient * bend / a**power
    return total


def log1pmx(x: ArrayLike) -> FloatArray:
    """Return ``log(1 + x) − x`` for ``x > −1``, precise near zero (always ≤ 0)."""
    x = np.asarray(x, np.float64)
    near = np.abs(x) < 0.5
    small = np.where(near, x, 0.0)
    # log(1 + x) = 2 artanh(y) with y = x / (2 + x), and x = 2y + xy.
    y = small / (2 + small)
    square = y * y
    tail = np.zeros_like(y)
    for k in range(33, 1, -2):
        tail = tail * square + 1 / k
    series = 2 * y * square * tail - small * y
    return np.where(near, series, np.log1p(np.where(near, 0.0, x)) - x)


def expm1mx(x: ArrayLike) -> FloatArray:
    """Return ``exp(x) − 1 − x``, precise near zero (always ≥ 0)."""
    x = np.asarray(x, np.float64)
    near = np.abs(x) < 0.5
    small = np.where(near, x, 0.0)
    series = np.ones_like(small)
    for k in range(17, 2, -1):
        series = 1 + series * small / k
    with np.errstate(over="ignore"):
        return np.where(near, series * small**2 / 2, np.expm1(np.where(near, 0.0, x)) - x)


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
    series = np.log(2 * np.pi / large) / 2
    for k, coefficient in enumerate(_STIRLING):
        series = series + coefficient / large ** (2 * k + 1)
    little = np.minimum(a, _SHIFT)
    return np.where(a < _SHIFT, gammaln(little) - little * np.log(little) + little, series)


def digamma_excess(a: ArrayLike) -> FloatArray:
    """Return ``ψ(a) − log a`` for ``a > 0``, precise for large ``a`` (always < 0)."""
    a = np.asarray(a, np.float64)
    large = np.maximum(a, _SHIFT)
    series = -1 / (2 * large)
    for k, coefficient in enumerate(_STIRLING):
        series = series - (2 * k + 1) * coefficient / large ** (2 * k + 2)
    little = np.minimum(a, _SHIFT)
    return np.where(a < _SHIFT, digamma(little) - np.log(little), series)
