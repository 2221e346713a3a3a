"""The far ones among many draws of noise, without drawing the others.

Of a large table of noise only the cells above a threshold are wanted. The others are so many that
they do not fit in memory. Here time and memory grow with the number of cells above.

A cell is a *candidate* with probability ``2^-m``. The gaps between candidates are geometric, by
inversion of one uniform number each. A candidate proposes ``x = threshold + k L + u``, with ``u``
uniform below ``L``, a power of two, and ``k`` with probability ``2^-(k + 1)``. It is accepted with
probability

    2^(m + k + 1) L exp(−x² / (2 s²)) / (√(2π) s)  <=  1,

so a cell holds each ``x >= threshold`` with probability ``exp(−x² / (2 s²)) / (√(2π) s)``. The
bound holds for all x if it holds for the threshold, because ``exp(−x² / (2 s²))`` is at least
halved with every L: ``threshold L >= log(2) s²``.

**Why this is exact.** As in `privrl.numerics.discrete_gaussian`, floats decide how fast an answer
is found and never which. The root of ``2π`` has 400 digits, and ``√(2π) s`` is the sum of the
weights up to a relative ``3 exp(−2π² s²)``, so that all probabilities are within
``exp(±1e-341)`` times those of `gaussian_on_grid`.
"""

import math
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from privrl.files.shown import shown
from privrl.numerics.discrete_gaussian import is_below, on_grid
from privrl.numerics.discrete_noise import IntArray
from privrl.numerics.special import FloatArray

LEAST_THRESHOLD: Final = 1.0
"""Deviations below which there is no candidate for each accepted cell."""
_FARTHEST: Final = 35  # deviations: where floats hold all probabilities
_DIGITS: Final = 400
_ONE: Final = 2**53
_SLACK: Final = 2.0**-40  # by how much the float for a probability may be off, at the most
_NEAR: Final = 2.0**-48  # relative, by how much the float for a gap may be
_HALF: Final = Fraction(6932, 10_000)  # above the logarithm of 2


def far_cells(
    sigma: float, threshold: int, n_cells: int, rng: np.random.Generator
) -> tuple[IntArray, FloatArray]:
    """Return which of many draws of `gaussian_on_grid` are at least a threshold, and their values.

    Parameters
    ----------
    sigma : float
        As for `privrl.numerics.discrete_gaussian.gaussian_on_grid`, in grains.
    threshold : int
        In grains, at least one deviation.
    n_cells : int
        The number of draws.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    cells : array of int, shape (n,)
        Sorted numbers of draws, in ``0 .. n_cells - 1``.
    values : array, shape (n,)
        Their values, whole numbers.

    Raises
    ------
    ValueError
        If ``sigma`` or the threshold is out of range.
    """
    tail = _tail(sigma, threshold)
    cells = _places(tail.halvings, n_cells, rng)
    k, live = np.zeros(cells.size, np.int64), np.arange(cells.size)
    while live.size:
        live = live[rng.integers(2, size=live.size) == 0]
        k[live] += 1
    x = threshold + k * tail.length + rng.integers(tail.length, size=cells.size)
    # Of the threshold's probability, so that the numbers in the exponent are small.
    over = (x - threshold) / tail.sigma * ((x + threshold) / tail.sigma) / 2
    p = tail.chance * np.exp(k * math.log(2) - over)
    known = rng.random(cells.size)
    taken = known < p
    for i in np.flatnonzero(np.abs(known - p) < _SLACK):
        factor = tail.factor * 2 ** int(k[i])
        taken[i] = is_below(int(x[i]), tail.sigma, factor, float(known[i]), rng)
    return cells[taken], x[taken].astype(np.float64)


class _Tail(NamedTuple):
    """How candidates for one sigma and threshold are drawn."""

    sigma: float  # s
    length: int  # L
    halvings: int  # m
    factor: Fraction  # 2^(m + 1) L / (√(2π) s)
    chance: float  # of the threshold itself


@lru_cache(maxsize=64)
def _tail(sigma: float, threshold: int) -> _Tail:
    s = on_grid(sigma)
    if not threshold >= LEAST_THRESHOLD * s:
        raise ValueError(
            f"threshold must be at least {LEAST_THRESHOLD} deviations, {s:.6g}, got "
            f"{shown(threshold)}; draw all cells below."
        )
    length = 1
    while threshold * length < _HALF * Fraction(s) ** 2:
        length *= 2
    factor = 2 * length / (_root_of_two_pi() * Fraction(s))
    chance = float(factor) * math.exp(-((threshold / s) ** 2) / 2)
    if not chance > 0 or threshold > _FARTHEST * s:
        raise ValueError(
            f"threshold must be at most {_FARTHEST} deviations, {_FARTHEST * s:.6g}, got "
            f"{shown(threshold)}."
        )
    halvings = math.floor(-math.log2(chance) - 1e-9)
    return _Tail(s, length, halvings, factor * 2**halvings, chance * 2**halvings)


def _places(halvings: int, n_cells: int, rng: np.random.Generator) -> IntArray:
    """Return the cells that are candidates, each with probability ``2^-halvings``."""
    parts, last = [], -1
    while last < n_cells:
        left = (n_cells - last) * 2.0**-halvings
        parts.append(
            last + np.cumsum(1 + _gaps(halvings, int(left + 4 * math.sqrt(left)) + 4, rng))
        )
        last = int(parts[-1][-1])
    cells = np.concatenate(parts)
    return cells[cells < n_cells]


def _gaps(halvings: int, size: int, rng: np.random.Generator) -> IntArray:
    """Return numbers that are at least g with probability ``(1 − 2^-halvings)^g``."""
    if halvings == 0:
        return np.zeros(size, np.int64)
    known = rng.integers(_ONE, size=size)  # leading bits of a uniform number
    rate = -math.log1p(-(2.0**-halvings))
    with np.errstate(divide="ignore"):
        most = -np.log(known / _ONE) / rate * (1 + _NEAR)
    least = -np.log((known + 1) / _ONE) / rate * (1 - _NEAR)
    gaps: IntArray = np.floor(least).astype(np.int64)
    for i in np.flatnonzero(np.floor(most) != gaps):
        gaps[i] = _gap(int(known[i]), halvings, rng)
    return gaps


def _gap(bits: int, halvings: int, rng: np.random.Generator) -> int:
    """Return the gap of a uniform number of which 53 bits are known; more are drawn as needed."""
    count = 53
    while True:
        context = Context(prec=count + halvings + 40)  # each operation is rounded correctly

        def log(numerator: int, denominator: int, context: Context = context) -> Decimal:
            return context.ln(context.divide(Decimal(numerator), Decimal(denominator)))

        rate = log(2**halvings - 1, 2**halvings)
        off = Decimal(10) ** -(20 + count // 4)  # far more than rounding
        least, most = (
            math.floor(context.multiply(context.divide(log(each, 2**count), rate), 1 + sign * off))
            if each
            else math.inf
            for each, sign in ((bits + 1, -1), (bits, 1))
        )
        if least == most:
            return int(least)
        bits, count = bits << 32 | int(rng.integers(1 << 32)), count + 32


@lru_cache(maxsize=1)
def _root_of_two_pi() -> Fraction:
    """Return the root of 2π, to 400 digits: Machin's formula."""
    one = 10 ** (_DIGITS + 10)

    def arctan_of_inverse(n: int) -> int:
        term, total, odd = one // n, 0, 1
        while term:
            total += term // odd if odd % 4 == 1 else -(term // odd)
            term, odd = term // n**2, odd + 2
        return total

    pi = 4 * (4 * arctan_of_inverse(5) - arctan_of_inverse(239))
    return Fraction(math.isqrt(2 * pi * one), one)
