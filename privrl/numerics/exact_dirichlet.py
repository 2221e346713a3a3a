"""Dirichlet rows whose privacy is that of ideal ones: logarithms of gammas, rounded exactly.

A Dirichlet row is a row of independent gammas over their sum, and what bounds its privacy is the
gammas' (docs/exact-accounting.md, Theorem 1). So what is drawn here is, for each cell, the
logarithm of a gamma, rounded to 30 bits after the point, or to 30 bits in all if it is above 1 in
size. Rows are computed from these: post-processing, in which floats may round and underflow.

**Why this is exact.** A candidate is a function of uniform numbers of which 53 random bits are
known at first. Its acceptance and its rounded value are computed in floats with a bound on their
error. Where that leaves a doubt, about once in 2^16 times, the same is computed from as many
further bits, with as many digits, as are needed; shapes are exact fractions. The outcome is that of
infinitely precise numbers, so floats decide how fast it is found and never which. How long a draw
takes depends on the shape and on its value.

The sampler is Cheng's (*The generation of gamma variables with non-integral shape parameter*,
1977, GB): for a shape ``A >= 1`` and ``λ = √(2A − 1)``, ``V = logit(U₁) / λ`` has a density that
is nowhere less than that of ``log(G / A)`` but for a constant, and the candidate ``log A + V`` is
accepted if

    −A (exp(V) − 1 − V) − log 4 >= log U₁ + log(1 − U₁) + log U₂.

For a shape ``a < 1`` it is that of ``A = a + 1`` and ``log(U₃) / a`` more. Whether it is one is
decided on the rounded shape: both samplers are right for a shape near 1, but a value that floats
leave in doubt must be of the same one. (Cheng's bound holds for ``1/2 < A < 1`` too: there ``λ <=
min(A, 1)``, so ``λ tanh(λ w / 2) <= A (1 − exp(−w))``, and both sides of the condition are closest
at V = 0.)
"""

import math
from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np

from privrl.numerics.compiled import Compiled
from privrl.numerics.dirichlet_rows import row_maxima, row_sums
from privrl.numerics.discrete_noise import BoolArray, IntArray
from privrl.numerics.randomness import by_row, generators
from privrl.numerics.special import FloatArray, expm1mx

BITS: Final = 30
_SLACK = 2.0**-47  # relative: more than floats are off
_KNOWN: Final = 2.0**-52  # twice what is not known of a uniform number
_CHUNK: Final = 1 << 14
_FEW: Final = 12  # candidates: so many are as quickly looked at one by one
_IN_CACHE: Final = 1 << 11  # and what a block needs is not given back to the system after each
_LEAST: Final = 2.0**-48  # uniform numbers below are not known well enough
_LARGE: Final = 2.0**30  # shapes
_LOG_4: Final = math.log(4)
_EXPONENT: Final = 0x7FF0000000000000  # of a float: the bits that say which power of two is below

Exactly = Callable[[int], Fraction]
"""The exact shape of the element of a flat array that has this index."""


def posterior_rows(
    counts: FloatArray, weight: FloatArray, alpha: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Draw each row from ``Dirichlet(weight * counts + alpha)``, as private as an ideal draw.

    Parameters
    ----------
    counts : array, shape (..., K)
        Numbers >= 0. Concentrations are exactly what they are written as, not rounded.
    weight, alpha : array
        Broadcast against counts; concentrations are from 1e-30 to 1e30.
    rng : numpy.random.Generator
        Source of randomness; the rows of a vectorised generator are the first axis.

    Returns
    -------
    array, shape (..., K)
        Probabilities; each row sums to 1 within rounding. One that is below all floats is 0.
    """

    def exactly(i: int) -> Fraction:
        weights, alphas = (np.broadcast_to(x, counts.shape).flat for x in (weight, alpha))
        return Fraction(weights[i]) * Fraction(counts.flat[i]) + Fraction(alphas[i])

    if counts.size > _CHUNK * len(generators(rng)) > _CHUNK:  # one after the other
        lead = (np.broadcast_to(x, counts.shape) for x in (weight, alpha))
        return by_row(posterior_rows, rng, counts, *lead)
    logs = rounded_log_gammas((weight * counts + alpha).reshape(-1), exactly, rng)
    logs = logs.reshape(counts.shape)
    rows = np.exp(logs - row_maxima(logs))
    rows /= row_sums(rows)
    return rows


def rounded_log_gammas(
    shapes: FloatArray, exactly: Exactly, rng: np.random.Generator
) -> FloatArray:
    """Draw logarithms of gammas of rate 1, rounded to 2^-30, or to 30 bits where above 1 in size.

    Parameters
    ----------
    shapes : array, shape (n,)
        From 1e-30 to 1e30, each within 2^-50 of the exact value.
    exactly : callable
        The exact value of each, by its index.
    rng : numpy.random.Generator
        Source of randomness; each row of a vectorised generator has as many shapes.

    Returns
    -------
    array, shape (n,)
        Independent draws.
    """
    each = generators(rng)
    own = max(1, len(shapes) // len(each))  # shapes of each generator

    def settled(some: IntArray, i: int, known: list[int]) -> float | None:
        at = int(some[i])
        return _outcome(exactly(at), known, each[at // own], small=bool(small[at]))

    drawn, left, small = np.empty(len(shapes)), np.arange(len(shapes)), shapes < 1
    while left.size:
        accepted, values = _round(shapes, left, each, own, settled)
        if left.size == len(drawn):
            drawn = values
        else:
            drawn[left] = values
        (rejected,) = (~accepted).nonzero()  # they are drawn once more
        left, shapes = left[rejected], shapes[rejected]
    return drawn


def _round(
    shapes: FloatArray,
    left: IntArray,
    each: Sequence[np.random.Generator],
    own: int,
    settled: Callable[[IntArray, int, list[int]], float | None],
) -> tuple[BoolArray, FloatArray]:
    """Return what `_candidates` does, of all shapes that are left."""
    at_once = _CHUNK if len(each) == 1 else len(shapes)
    parts = []
    for start in range(0, len(shapes), at_once):
        part = slice(start, start + at_once)
        uniform = _uniform(each, left[part], own)
        parts.append(_candidates(shapes[part], uniform, partial(settled, left[part])))
    if len(parts) == 1:
        return parts[0]
    accepted, values = (np.concatenate(each) for each in zip(*parts, strict=True))
    return accepted, values


def _uniform(each: Sequence[np.random.Generator], some: IntArray, own: int) -> FloatArray:
    """Return three uniform numbers for each of some shapes, of which so many are one's own."""
    if len(each) == 1:
        return each[0].random((3, some.size))
    ends = some.searchsorted(np.arange(len(each) + 1) * own).tolist()
    return np.concatenate(
        [
            rng.random((3, stop - at))
            for rng, (at, stop) in zip(each, pairwise(ends), strict=True)
            if at < stop
        ],
        axis=1,
    )


def _candidates(
    shapes: FloatArray, uniform: FloatArray, settled: Callable[[int, list[int]], float | None]
) -> tuple[BoolArray, FloatArray]:
    """Return which candidates are accepted, one for each shape, and their rounded values.

    ``settled`` is asked where floats are in doubt, with the 53 bits of uniform numbers.
    """
    accepted, values, doubts = _decided(shapes, uniform)
    for i in doubts.tolist():
        outcome = settled(i, [int(u * 2.0**53) for u in uniform[:, i]])
        accepted[i] = outcome is not None
        values[i] = 0.0 if outcome is None else outcome
    return accepted, values


def _by_numpy(shapes: FloatArray, uniform: FloatArray) -> tuple[BoolArray, FloatArray, IntArray]:
    """Return what `_in_floats` does, in the quicker of two ways, and in parts."""
    if len(shapes) <= _FEW and shapes.max() < _LARGE:
        return _one_by_one(shapes, uniform)
    starts = range(0, len(shapes), _IN_CACHE)
    parts = [
        _in_floats(shapes[start : start + _IN_CACHE], uniform[:, start : start + _IN_CACHE])
        for start in starts
    ]
    if len(parts) == 1:
        return parts[0]
    accepted, values, doubts = zip(*parts, strict=True)
    placed = [some + start for some, start in zip(doubts, starts, strict=True)]
    return np.concatenate(accepted), np.concatenate(values), np.concatenate(placed)


_decided = Compiled(_by_numpy, "candidates")


def _in_floats(shapes: FloatArray, uniform: FloatArray) -> tuple[BoolArray, FloatArray, IntArray]:
    """Return which candidates floats accept, what they round them to, and which are in doubt."""
    one, two, three = uniform
    lowest = float(shapes.min())
    small = None if lowest >= 1 else shapes < 1
    shape = shapes if small is None else np.where(small, shapes + 1, shapes)
    other = 1 - one
    spread = one * other
    logs = spread * two
    least = float(logs.min())
    if least == 0 or (small is not None and three.min() == 0):  # not known well enough
        return _in_floats(shapes, np.maximum(uniform, 2.0**-53))
    np.log(logs, out=logs)
    root = np.sqrt(2 * shape - 1)
    v = np.log(one / other)
    v /= root
    rise = np.expm1(v)
    largest = float(shape.max())
    direct = largest < _LARGE  # little is lost where this difference cancels
    bent = rise - v if direct else expm1mx(v)
    bent *= shape
    short = bent + logs  # of the margin: it is minus that
    short += _LOG_4
    centre = np.log(shape)
    value = centre + v
    more, tail = np.zeros(1), math.inf
    if small is not None:
        more = np.where(small, np.log(three) / shapes, 0.0)
        value += more
        tail = float(three.min()) * lowest
    power = np.maximum((value.view(np.int64) & _EXPONENT).view(np.float64), 0.5)
    far = power * (1.5 * 2.0 ** (53 - BITS))  # there floats are as far apart as a grain is wide
    values = (value + far) - far
    power *= 2.0**-BITS
    accepted, room = short < 0, power - np.abs(value - values)

    # The largest bound that any could have tells of nearly all that they are right.
    turn = -math.log(least) / math.sqrt(2 * max(lowest, 1.0) - 1)
    steep = largest * math.expm1(min(turn, 99.0))
    # Neither U₁ (1 − U₁) nor U₂ is less than their product.
    most = _margin_off(
        steep, turn, math.log(least), direct * steep, _unknown(steep, 1.0, least, least)
    )
    size = math.log(largest) + turn - float(more.min())
    unsure = (np.abs(short) <= most) | accepted & (room <= _value_off(root, spread, tail, size))
    some = np.flatnonzero(unsure) if least > _LEAST else np.arange(len(shapes))
    if some.size:
        turns, tails, added = np.abs(v[some]), np.full(some.size, np.inf), np.zeros(some.size)
        if small is not None:
            tails[small[some]], added = (shapes * three)[some][small[some]], more[some]
        steeps = shape[some] * np.abs(rise[some])
        unknown = _unknown(steeps, root[some], spread[some], two[some])
        margin_off = _margin_off(bent[some], turns, logs[some], direct * steeps, unknown)
        value_off = _value_off(root[some], spread[some], tails, centre[some] + turns - added)
        unclear = accepted[some] & (room[some] <= value_off)
        unsure = unclear | (np.abs(short[some]) <= margin_off)
        some = some[unsure | (uniform[:, some].min(axis=0) < _LEAST)]
    return accepted, values, some


def _one_by_one(shapes: FloatArray, uniform: FloatArray) -> tuple[BoolArray, FloatArray, IntArray]:
    """Return what `_in_floats` does, of a few: quicker than arrays are made."""
    accepted, values, doubts = [], [], []
    for i, (shape, one, two, three) in enumerate(
        zip(shapes.tolist(), *np.maximum(uniform, 2.0**-53).tolist(), strict=True)
    ):
        a = shape + 1 if shape < 1 else shape
        root, spread = math.sqrt(2 * a - 1), one * (1 - one)
        logs = math.log(spread * two)
        v = math.log(one / (1 - one)) / root
        rise = math.expm1(v)
        bent = a * (rise - v)
        short = bent + logs + _LOG_4
        more, tail = (math.log(three) / shape, shape * three) if shape < 1 else (0.0, math.inf)
        centre = math.log(a)
        value = centre + v + more
        grain = math.ldexp(1.0, max(math.frexp(value)[1], 0) - BITS)
        rounded = round(value / grain) * grain
        values.append(rounded)
        accepted.append(short < 0)
        turn, steep = abs(v), a * abs(rise)
        room = grain / 2 - abs(value - rounded)
        unclear = short < 0 and room <= _value_off(root, spread, tail, centre + turn - more)
        margin_off = _margin_off(bent, turn, logs, steep, _unknown(steep, root, spread, two))
        if unclear or abs(short) <= margin_off or min(one, two, three) < _LEAST:
            doubts.append(i)
    return np.array(accepted), np.array(values), np.array(doubts, np.intp)


def _margin_off(bent: Any, turn: Any, logs: Any, cancelled: Any, unknown: Any) -> Any:
    """Return by how much margins are off at the most.

    ``bent`` is A (exp(V) − 1 − V), ``turn`` |V|, ``logs`` of U₁ (1 − U₁) U₂, ``cancelled`` what was
    left to cancel in ``bent``, ``unknown`` what is not known of uniform numbers, see `_unknown`.
    """
    off = _SLACK * (bent * (3 + turn) - logs + 2 + cancelled)
    return off + _KNOWN * unknown


def _unknown(steep: Any, root: Any, spread: Any, two: Any) -> Any:
    """Return by how much the margin changes with uniform numbers at the most.

    ``steep`` is A |exp(V) − 1|, ``root`` √(2A − 1), ``spread`` U₁ (1 − U₁), and ``two`` U₂.
    """
    return (steep / root + 1) / spread + 1 / two


def _value_off(root: Any, spread: Any, tail: Any, size: Any) -> Any:
    """Return by how much values are off at the most.

    ``tail`` is the product of a small shape with U₃, else infinite; ``size`` that of the value's
    terms, added up.
    """
    return _KNOWN / (root * spread) + (_KNOWN / tail + _SLACK / 4 * (size + 1))


class _Candidate(NamedTuple):
    """What decides on a candidate, and how far both are off at the most."""

    margin: Fraction
    margin_off: Fraction
    value: Fraction
    value_off: Fraction


def _outcome(
    shape: Fraction, known: list[int], rng: np.random.Generator, *, small: bool
) -> float | None:
    """Return what a candidate is rounded to, or None if it is rejected, whatever it takes.

    ``known`` are the first 53 bits of its uniform numbers; ``small`` is whether the rounded shape
    is below 1.
    """
    count = 53
    while True:
        if all(8 <= bits < 2**count - 8 for bits in known):
            candidate = _evaluated(shape, known, count, small=small)
            if candidate.margin < -candidate.margin_off:
                return None
            low, high = (_rounded(candidate.value + sign * candidate.value_off) for sign in (-1, 1))
            if candidate.margin > candidate.margin_off and low == high:
                return float(low)
        known = [bits << 32 | int(rng.integers(1 << 32)) for bits in known]
        count += 32


def _evaluated(shape: Fraction, known: list[int], count: int, *, small: bool) -> _Candidate:
    """Evaluate a candidate in the middle of the interval of its uniform numbers."""
    a = shape + 1 if small else shape
    # Digits that cancel, or stand before the point, are added to those that are wanted.
    digits = math.ceil(count * math.log10(2)) + 30 + 2 * len(str(int(a))) + len(str(int(1 / shape)))
    c = Context(prec=digits, Emin=-(10**17), Emax=10**17, traps=[])

    def decimal(x: Fraction) -> Decimal:
        return c.divide(Decimal(x.numerator), Decimal(x.denominator))

    one, two, three = (Fraction(2 * bits + 1, 2 ** (count + 1)) for bits in known)
    root = c.sqrt(decimal(2 * a - 1))
    log, log_other, log_two = (c.ln(decimal(u)) for u in (one, 1 - one, two))
    v = c.divide(c.subtract(log, log_other), root)
    rise = Fraction(c.exp(v)) - 1
    margin = -a * (rise - Fraction(v)) - Fraction(c.ln(Decimal(4)))
    margin -= Fraction(log) + Fraction(log_other) + Fraction(log_two)
    value = Fraction(c.ln(decimal(a))) + Fraction(v)
    # Four times half of what is not known: slopes change by less than that, digits by far less.
    width, slope = Fraction(2, 2**count), 1 / (one * (1 - one))
    margin_off = width * ((a * abs(rise) / Fraction(root) + 1) * slope + 1 / two)
    value_off = width * slope / Fraction(root)
    if small:
        value += Fraction(c.ln(decimal(three))) / shape
        value_off += width / (three * shape)
    return _Candidate(margin, margin_off, value, value_off)


def _rounded(value: Fraction) -> Fraction:
    grain = Fraction(2) ** (int(abs(value)).bit_length() - BITS)
    return math.floor(value / grain + Fraction(1, 2)) * grain
