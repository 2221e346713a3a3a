"""Exact samplers of discrete Laplace noise, and of choices by exponential noise.

After Canonne, Kamath and Steinke, *The discrete Gaussian for differential privacy* (2020),
Algorithms 1 and 2, for whole arrays at a time.

**Why this is exact.** Noise that is computed in floating point has holes and steps in its
distribution that distinguish neighbouring data (Mironov, 2012). Here each draw consists of whole
numbers and of decisions, each with exactly the probability that the algorithm states; the
parameters are floats and so exact fractions. A decision with probability ``p`` compares ``p`` with
a uniform number ``U`` of which 53 random bits are known at first: ``u <= U < u + 2^-53``. The float
that stands for ``p`` is off by less than 2^-45, as shown where it is computed. If that leaves no
doubt on which side of ``p`` the number ``U`` is, the decision is made. Otherwise, about once in
2^44 times, further bits of ``U`` are drawn until ``p`` itself, as a fraction, is outside the
interval. The outcome is that of comparing an infinitely precise ``U`` with ``p``, so floats decide
how fast an answer is found and never which.

Uniform whole numbers below a bound come from `numpy.random.Generator.integers`, which rejects
what would bias them, and 53 random bits from `numpy.random.Generator.random`, which divides such
a whole number by 2^53. The draws are as random as the generator: for noise that an adversary must
not predict, it should be a cryptographic one. How long a draw takes depends on its value.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privrl.files.shown import shown
from privrl.numerics.checks import check_count
from privrl.numerics.special import FloatArray

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool]
Exactly = Callable[[int], Fraction]
"""The exact value of the element of an array that has this index."""

SMALLEST = 1e-3
"""The least sigma and scale that can be drawn with."""
LARGEST = 2.0**40
"""The greatest."""

_SLACK = 2.0**-45  # by how much the float for a probability may be off, at the most
_BIT = 2.0**-53  # the last bit of Generator.random
_CHUNK = 1 << 18  # candidates drawn at once: so many stay in a processor's cache


def discrete_laplace(
    scale: float, shape: int | tuple[int, ...], rng: np.random.Generator
) -> IntArray:
    """Draw whole numbers ``x`` with probability proportional to ``exp(−|x| / scale)``.

    Parameters
    ----------
    scale : float
        From 1e-3 to 2**40. Large ones are nearly the standard deviation over the root of 2.
    shape : int or tuple of int
        Of the array to return.
    rng : numpy.random.Generator
        Where the randomness comes from.

    Returns
    -------
    array of int64
        Independent draws.

    Raises
    ------
    ValueError
        If ``scale`` is out of range, or a length is negative.

    Notes
    -----
    Algorithm 2, with the float ``scale`` as the fraction that it is.
    """
    t, s = check_drawable("scale", scale).as_integer_ratio()
    return _fill(shape, lambda size: _laplace(t, s, size, rng))


def permute_and_flip(
    scores: IntArray, allowed: BoolArray, scale: float, rng: np.random.Generator
) -> IntArray:
    """Choose one of the allowed options in each row, one of a large score more likely.

    Options are looked at in random order; one whose score is ``g`` below the best is taken with
    probability ``exp(−g / scale)``, and the first that is taken is the choice.

    Parameters
    ----------
    scores : array of int, shape (n, k)
        Less than 2^62 apart.
    allowed : array of bool, shape (n, k)
        At least one in each row.
    scale : float
        From 1e-3 to 2**40; larger is closer to a uniform choice.
    rng : numpy.random.Generator
        Where the randomness comes from.

    Returns
    -------
    array of int, shape (n,)
        The options chosen.

    Raises
    ------
    ValueError
        If ``scale`` is out of range.

    Notes
    -----
    The choice has the law of the largest score plus exponential noise of that scale (Ding, Kifer,
    Sayed, Steinke et al., *The permute-and-flip mechanism is identical to report-noisy-max with
    exponential noise*, 2021). If one score moves by ``m`` and the others stay, no choice becomes
    more or less likely by more than a factor ``exp(m / scale)``. Of the option that moves that is
    plain from the noise's tail. Of another, ``j``, with ``y`` its noisy score, ``G`` the law of the
    largest of all further ones and ``q`` the score that moves, in units of ``scale``,

        P(j) ∝ ∫ exp(−y) G(y) (1 − exp(q − y)) dy   over y > max(q, q_j),

    and ``d P(j) / dq >= −P(j)`` says that ``∫ exp(−y) G(y) (1 − 2 exp(q − y)) dy >= 0``: without
    ``G`` the integral is ``exp(−a) (1 − exp(q − a)) >= 0`` from ``a = max(q, q_j)`` on; its
    integrand is negative first and positive then, and ``G`` does not fall. Several scores move one
    after the other, so factors multiply: a change costs the sum of its sizes over the scale, half
    of what the same noise costs where all scores may move by as much at once.
    """
    t, s = check_drawable("scale", scale).as_integer_ratio()
    n, k = scores.shape
    lowest = np.iinfo(np.int64).min
    gap = np.where(allowed, scores, lowest).max(axis=1)[:, None] - np.where(allowed, scores, 0)
    # Shuffled by whole numbers: uniform, where sorting floats that tie is not.
    order = rng.permuted(np.tile(np.arange(k), (n, 1)), axis=1)
    chosen, undecided = np.zeros(n, np.int64), np.arange(n)
    for place in range(k):
        if not undecided.size:
            break
        option = order[undecided, place]
        there = allowed[undecided, option]
        rows, options = undecided[there], option[there]
        far = gap[rows, options]

        def exactly(i: int, far: IntArray = far) -> Fraction:
            return Fraction(int(far[i]) * s, t)

        heads = _bernoulli_exp(far / scale, exactly, rng)
        chosen[rows[heads]] = options[heads]
        undecided = np.setdiff1d(undecided, rows[heads], assume_unique=True)
    return chosen


def exponential_choice(scores: IntArray, scale: float, rng: np.random.Generator) -> IntArray:
    """Choose an option in each row, with probability proportional to ``exp(score / scale)``.

    An option is drawn evenly, and taken with probability ``exp(−g / scale)``, where ``g`` is how
    far its score is below the best of its row; otherwise another is drawn.

    Parameters
    ----------
    scores, scale, rng
        As for `permute_and_flip`, where all options are allowed.

    Returns
    -------
    array of int, shape (n,)
        The options chosen.
    """
    t, s = check_drawable("scale", scale).as_integer_ratio()
    gap = scores.max(axis=1)[:, None] - scores
    return _chosen(
        gap, lambda far: far / scale, lambda far: Fraction(int(far) * s, t), gap.shape[1], rng
    )


def choices_by_gap(gaps: FloatArray, size: int, rng: np.random.Generator) -> IntArray:
    """Choose options, each with probability proportional to ``exp(−gap)``.

    Parameters
    ----------
    gaps : array of float, shape (k,)
        Nats below the likeliest option, >= 0 and finite; one is 0. The floats are taken as exact.
    size : int
        Number of choices.
    rng : numpy.random.Generator
        Where the randomness comes from.

    Returns
    -------
    array of int, shape (size,)
        Independent choices.
    """
    tries = math.ceil(len(gaps) / float(np.exp(-gaps).sum()))  # of which one is taken, on average
    chosen = np.zeros(size, np.int64)
    for start in range(0, size, step := max(1, _CHUNK // tries)):
        part = chosen[start : start + step]
        rows = np.broadcast_to(gaps, (part.size, gaps.size))
        part[:] = _chosen(rows, np.asarray, lambda far: Fraction(float(far)), tries, rng)
    return chosen


def _chosen(
    gap: IntArray | FloatArray,
    nats: Callable[[IntArray | FloatArray], FloatArray],
    exactly: Callable[[int | float], Fraction],
    tries: int,
    rng: np.random.Generator,
) -> IntArray:
    """Draw options of each row evenly until one is taken, with probability ``exp(−nats(gap))``."""
    n, k = gap.shape
    chosen, undecided = np.zeros(n, np.int64), np.arange(n)
    while undecided.size:
        option = rng.integers(k, size=(undecided.size, tries))  # several at once, for speed
        far: Any = np.take_along_axis(gap[undecided], option, axis=1).ravel()

        def of(i: int, far: Any = far) -> Fraction:
            return exactly(far[i])

        taken = _bernoulli_exp(nats(far), of, rng).reshape(option.shape)
        decided = taken.any(axis=1)
        first = taken.argmax(axis=1)[:, None]
        chosen[undecided] = np.take_along_axis(option, first, axis=1)[:, 0]
        undecided = undecided[~decided]
    return chosen


def check_drawable(name: str, size: float) -> float:
    """Return the size of some discrete noise as a float if it can be drawn.

    Raises
    ------
    ValueError
        If it is not between 1e-3 and 2**40.
    """
    if isinstance(size, bool) or not isinstance(size, Real) or not SMALLEST <= size <= LARGEST:
        raise ValueError(
            f"{name} must be a number >= {SMALLEST:g} and <= 2**40, got {shown(size)}; noise on "
            "the real line has a wider range."
        )
    return float(size)


def _fill(shape: int | tuple[int, ...], candidates: Callable[[int], IntArray]) -> IntArray:
    """Draw candidates until enough of them are accepted."""
    lengths = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
    drawn = np.empty([check_count("each length in shape", n, 0) for n in lengths], np.int64)
    flat, done = drawn.reshape(-1), 0
    while done < flat.size:
        accepted = candidates(min(2 * (flat.size - done) + 16, _CHUNK))[: flat.size - done]
        flat[done : done + accepted.size] = accepted
        done += accepted.size
    return drawn


def _laplace(t: int, s: int, size: int, rng: np.random.Generator) -> IntArray:
    """Return those of ``size`` candidates for discrete Laplace of scale ``t/s`` that are accepted.

    Algorithm 2; ``t < 2^53`` and ``s <= 2^62`` as a float's numerator and denominator are.
    """
    u = rng.integers(t, size=size)
    u = u[_bernoulli_exp(u / t, lambda i: Fraction(int(u[i]), t), rng)]
    # At the sizes above 2^63 is not reached before v = 1024, that is, never.
    y = (u + t * _geometric(u.size, rng)) // s
    minus = rng.integers(2, size=y.size, dtype=np.int8) == 1
    return np.where(minus, -y, y)[~minus | (y > 0)]


def _geometric(size: int, rng: np.random.Generator) -> IntArray:
    """Count how many decisions of probability ``exp(−1)`` come true in a row."""
    counts = np.zeros(size, np.int64)
    going = np.arange(size)
    while going.size:
        going = going[_bernoulli_exp_part(np.ones(going.size), lambda _: Fraction(1), rng)]
        counts[going] += 1
    return counts


def _bernoulli_exp(g: FloatArray, exactly: Exactly, rng: np.random.Generator) -> BoolArray:
    """Decide with probability ``exp(−g)`` for every ``g >= 0``, given as floats and as fractions.

    Algorithm 1, in which ``g`` above 1 is cut into equal parts: ``exp(−g) = exp(−g/n)^n``. Their
    number ``n`` is taken from the float, as any ``n >= g`` will do.
    """
    parts = np.maximum(np.ceil(g * (1 + 1e-9)), 1.0)
    true = np.ones(g.shape, np.bool)
    left, made = np.arange(g.size), 0
    while left.size:
        made += 1
        over = parts[left]
        came = _bernoulli_exp_part(g[left] / over, _those(exactly, left, over), rng)
        true[left[~came]] = False
        left = left[came & (parts[left] > made)]
    return true


def _bernoulli_exp_part(g: FloatArray, exactly: Exactly, rng: np.random.Generator) -> BoolArray:
    """Decide with probability ``exp(−g)`` for ``0 <= g <= 1``.

    Decisions of probability ``g``, ``g/2``, ``g/3``, … are made until one comes out false: its
    number is odd with probability ``1 − g + g²/2! − …``.
    """
    odd = np.ones(g.shape, np.bool)
    left, k = np.arange(g.size), 1
    while left.size:
        left = left[_bernoulli(g[left] / k, _those(exactly, left, np.full(left.size, k)), rng)]
        odd[left] = k % 2 == 0  # the next one would be false
        k += 1
    return odd


def _those(exactly: Exactly, left: IntArray, over: FloatArray | IntArray) -> Exactly:
    """Return the fractions of the elements that are left, each over a whole number."""
    return lambda i: exactly(int(left[i])) / int(over[i])


def _bernoulli(p: FloatArray, exactly: Exactly, rng: np.random.Generator) -> BoolArray:
    """Decide with probability ``p``, given as floats within 2^-45 and as fractions."""
    u = rng.random(p.shape)
    below = u < p
    for i in np.flatnonzero(np.abs(u - p) < _SLACK + 2 * _BIT):
        below[i] = _is_below(u[i], exactly(int(i)), rng)
    return below


def _is_below(known: float, p: Fraction, rng: np.random.Generator) -> bool:
    """Return whether a uniform number with the 53 leading bits ``known`` is below ``p``."""
    bits, count = int(known * 2.0**53), 53
    while True:
        if bits + 1 <= p * 2**count:
            return True
        if bits >= p * 2**count:
            return False
        bits, count = bits << 32 | int(rng.integers(1 << 32)), count + 32
