"""Exact and quick samplers of discrete Gaussian noise, for whole arrays at a time.

A draw ``x`` has probability proportional to ``exp(−x² / (2 sigma²))`` on the whole numbers.
Its size is ``|x| = k L + u``, where L is a power of two of about ``sigma / 50``. First ``k`` is
drawn from a table of fractions of 2^53, each a little above its share of the law; then
``u < L`` and a sign, all of them uniform; the candidate is taken with the probability that is left,

    c 2^53 exp(−x² / (2 sigma²)) / table[k]  <=  1,

for a constant ``c`` (zero, which has two signs, only with one of them). Most candidates are taken:
all but a few percent without a look at that probability, since it is above a bound for their k.

**Why this is exact.** The table is of whole numbers and is compared with 53 random bits, so ``k``
has exactly the law of the table. A decision with probability ``p`` compares ``p`` with a uniform
``U`` of which 53 random bits are known at first. Where a float for ``p``, off by less than 2^-43,
leaves a doubt on which side ``U`` is, further bits are drawn until an enclosure of ``p`` is on one
side of it. So floats decide how fast an answer is found and never which. Beyond the table, where
less than ``exp(−60)`` is left, candidates come from blocks that are half as likely each.
"""

import math
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privrl.files.shown import shown
from privrl.numerics.checks import check_count
from privrl.numerics.discrete_noise import IntArray, check_drawable
from privrl.numerics.special import FloatArray

LARGEST_ON_GRID: Final = 2.0**46
"""The greatest sigma, in grains, that `gaussian_on_grid` can draw with."""
_SPARE: Final = math.sqrt(41)  # the root of 40, and more than rounding takes from it
_ONE: Final = 2**53
_SLACK = 2.0**-43  # by how much the float for a probability may be off, at the most
_CHUNK: Final = 1 << 14  # candidates drawn at once: so many stay in a processor's cache
_REACH: Final = 11  # of a table, in sigmas: beyond is less than exp(−60)
_GUIDES: Final = 1 << 12
_FEW: Final = 1000  # candidates, for which no guide is made


def discrete_gaussian(
    sigma: float, shape: int | tuple[int, ...], rng: np.random.Generator
) -> IntArray:
    """Draw whole numbers ``x`` with probability proportional to ``exp(−x² / (2 sigma²))``.

    Parameters
    ----------
    sigma : float
        From 1e-3 to 2**40. From about 1 on the standard deviation is ``sigma``.
    shape, rng
        As for `privrl.numerics.discrete_noise.discrete_laplace`.
    """
    sigma, drawn = check_drawable("sigma", sigma), _empty(shape, np.dtype(np.int64))
    _fill(drawn.reshape(-1), sigma, rng)
    return drawn


def gaussian_on_grid(
    sigma: float, shape: int | tuple[int, ...], rng: np.random.Generator
) -> FloatArray:
    """Draw whole numbers that hide whole shifts at least as well as Gaussian noise does.

    In Rényi divergence and in delta, for any number of cells and of releases that follow from
    those before, whatever their shifts.

    Parameters
    ----------
    sigma : float
        Standard deviation of that Gaussian noise, in grains of the grid, > 0 and at most 2**46.
    shape, rng
        As for `privrl.numerics.discrete_noise.discrete_laplace`.

    Returns
    -------
    array
        Independent draws, discrete Gaussian of variance ``sigma² + 40``; floats hold them.

    Raises
    ------
    ValueError
        If ``sigma`` is out of range, or a length is negative.

    Notes
    -----
    Let ``τ² = 40``. Given a draw ``y`` from ``N(m, sigma²)`` can make a whole number ``x`` with
    probability ``exp(−(x − y)² / 2τ²) / θ(y)``. Products of Gaussian densities give it the
    probability

        ``exp(−(x − m)² / (2 sigma² + 2τ²))`` times a constant, up to a factor ``exp(±η)``:

    θ has period one and by Poisson's summation is ``√(2π) τ`` up to a relative
    ``3 exp(−2π² τ²)``. So the draw here, moved by any whole ``m``, is post-processing of the
    Gaussian's, for all ``m`` alike, but for factors within ``exp(±η)`` of 1 where
    ``η < 7 exp(−2π² τ²) < 1e-341``. For N draws delta is at most ``exp(Nη) delta'(epsilon −
    2Nη)``, where ``delta'`` is the Gaussian's, and for fewer than 1e17 draws that is closer to
    it than the least float is to zero. Deltas are rounded up by more.
    """
    deviation, drawn = on_grid(sigma), _empty(shape, np.dtype(np.float64))
    _fill(drawn.reshape(-1), deviation, rng)
    return drawn


def on_grid(sigma: float) -> float:
    """Return the parameter of the discrete Gaussian of `gaussian_on_grid`, in grains.

    Raises
    ------
    ValueError
        If ``sigma`` is out of range.
    """
    if not 0 < sigma <= LARGEST_ON_GRID:
        raise ValueError(
            f"sigma must be > 0 and at most 2**46 grains, got {shown(sigma)}; a coarser grid has "
            "larger grains."
        )
    return math.nextafter(math.hypot(sigma, _SPARE), math.inf)


class _Table(NamedTuple):
    """How candidates for one sigma are drawn; for `_SLACK` as it was."""

    length: int  # L
    rest: int  # how many k in a block beyond the table
    constant: Fraction  # c
    shares: IntArray  # in 2^-53, shape (n,), each > 0
    ends: FloatArray  # sums of shares as fractions of 1, and what is beyond, shape (n + 1,)
    factors: FloatArray  # exp(−(kL)²/2 sigma²) 2^53 c / shares, shape (n,)
    surely: FloatArray  # what no probability is below, for each k


@lru_cache(maxsize=256)
def _table(sigma: float, slack: float) -> _Table:
    length = 2 ** max(0, math.frexp(sigma)[1] - 6)
    k = np.arange(math.ceil(_REACH * max(sigma / length, 1)))
    law = np.exp(-((k * (length / sigma)) ** 2) / 2)
    constant = (1 - 2.0**-30) / law.sum()
    shares = np.maximum(np.ceil(law * constant * (1 + 2.0**-40) * _ONE), 1).astype(np.int64)
    ends = np.cumsum(np.append(shares, 1)) / _ONE  # exact
    factors = law * constant * _ONE / shares
    least = factors * np.exp(-(2 * k + 1) / 2 * (length / sigma) ** 2) if length > 1 else factors
    return _Table(
        length,
        math.ceil(max(sigma / length, 1)),
        Fraction(float(constant)),
        shares,
        ends,
        factors,
        least - slack,
    )


@lru_cache(maxsize=64)
def _guide(sigma: float, slack: float) -> tuple[NDArray[np.int64], float]:
    """Return the first k whose end is above a multiple of 1/_GUIDES, for each of these.

    And below what no two ends are in one part of the guide.
    """
    ends = _table(sigma, slack).ends
    guide = np.searchsorted(ends, np.arange(_GUIDES) / _GUIDES, side="right")
    crowded = np.flatnonzero(np.diff(guide, append=len(ends)) > 1)
    return guide, float(crowded[0] / _GUIDES)


def _empty(shape: int | tuple[int, ...], kind: np.dtype[Any]) -> NDArray[Any]:
    lengths = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
    return np.empty([check_count("each length in shape", n, 0) for n in lengths], kind)


def _fill(flat: NDArray[Any], sigma: float, rng: np.random.Generator) -> None:
    """Draw candidates until enough of them are accepted."""
    table, done = _table(sigma, _SLACK), 0
    while done < flat.size:
        wanted = flat.size - done
        accepted = _candidates(sigma, table, min(wanted + wanted // 16 + 8, _CHUNK), rng)[:wanted]
        flat[done : done + accepted.size] = accepted
        done += accepted.size


def _candidates(sigma: float, table: _Table, size: int, rng: np.random.Generator) -> IntArray:
    """Draw this number of candidates and return the accepted ones."""
    where = rng.random(size)
    k = _places(sigma, table.ends, where)
    signed = rng.integers(2 * table.length, size=size)
    minus = (signed & 1).astype(np.bool)
    signed >>= 1
    known = rng.random(size)
    beyond = np.flatnonzero(k >= len(table.shares))
    last, k[beyond] = k[beyond], 0
    taken = known < table.surely[k]
    unsure = np.flatnonzero(~taken)
    start = k * table.length
    x = start + signed
    over = signed[unsure] / sigma * ((start[unsure] + x[unsure]) / sigma) / 2
    p = table.factors[k[unsure]] * np.exp(-over)
    taken[unsure] = known[unsure] < p
    for i in unsure[np.abs(known[unsure] - p) < _SLACK]:
        share = Fraction(int(table.shares[k[i]]), _ONE)
        taken[i] = is_below(int(x[i]), sigma, table.constant / share, known[i], rng)
    for i, place in zip(beyond, last, strict=True):
        taken[i] = False
        if place == len(table.shares):
            x[i], share = _from_beyond(table, int(signed[i]), rng)
            taken[i] = is_below(int(x[i]), sigma, table.constant / share, known[i], rng)
    np.negative(x, out=x, where=minus)
    taken &= ~minus | (x < 0)  # there is one zero
    return x[taken]


def _places(sigma: float, ends: FloatArray, where: FloatArray) -> IntArray:
    """Return for each number the first k whose end is above it."""
    if where.size < _FEW:
        return np.searchsorted(ends, where, side="right")
    guide, one_at_most = _guide(sigma, _SLACK)
    k = guide[(where * _GUIDES).astype(np.int64)]
    k += where >= ends[k]
    far = np.flatnonzero(where >= one_at_most)
    k[far] = np.searchsorted(ends, where[far], side="right")
    return k


def _from_beyond(table: _Table, u: int, rng: np.random.Generator) -> tuple[int, Fraction]:
    """Draw a size that is beyond the table; return it and the probability of its k."""
    block = 0
    while rng.integers(2):
        block += 1
    k = len(table.shares) + block * table.rest + int(rng.integers(table.rest))
    return k * table.length + u, Fraction(1, _ONE * table.rest << block + 1)


def is_below(
    x: int, sigma: float, factor: Fraction, known: float, rng: np.random.Generator
) -> bool:
    """Return whether a uniform number is below ``factor exp(−x² / (2 sigma²))``.

    ``known`` are its 53 leading bits; more are drawn until the decision is certain.
    """
    g = Fraction(x) ** 2 / (2 * Fraction(sigma) ** 2)
    bits, count = int(known * _ONE), 53
    while True:
        low, high = (factor * bound * 2**count for bound in exp_minus(g, count + 16))
        if bits + 1 <= low:
            return True
        if bits >= high:
            return False
        bits, count = bits << 32 | int(rng.integers(1 << 32)), count + 32


def exp_minus(g: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """Return fractions around ``exp(−g)`` for ``g >= 0`` that are ``2^-bits`` apart or less."""
    if g > bits:  # nats are more than bits
        return Fraction(0), Fraction(1, 2**bits)
    # The quotient and its exponential are rounded correctly (General Decimal Arithmetic).
    digits = math.ceil(bits * math.log10(2)) + len(str(int(g))) + 3
    context = Context(prec=digits, Emin=-(10**17), Emax=10**17, traps=[])
    power = context.exp(context.divide(Decimal(-g.numerator), Decimal(g.denominator)))
    off = Fraction(2, 10 ** (digits - 1)) * (g + 1)
    value = Fraction(power)
    return value * (1 - off), value * (1 + off)
