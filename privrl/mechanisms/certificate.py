"""The exact privacy of a mechanism with finitely many inputs and outputs.

Such a mechanism is a matrix with a row of probabilities for each input, and its privacy need
not be argued: it is computed, as the worst over all pairs of neighbouring rows. That depends
on public settings only, so computing it costs no privacy.

The matrix may be too large to hold, and a divergence too slow to take of every pair, so bounds
decide which pairs can be the worst, and only these are computed in full. The mechanism bounds
each pair's largest loss ``|log P - log Q|``. For everything else one pass over the matrix puts
the losses of each pair into bins and moves what is in a bin to its two ends, the masses under P
and Q kept: this raises every divergence that is convex in ``P / Q`` (the "connecting dots" of
Doroshenko, Ghazi, Kamath, Kumar and Manurangsi, *Connect the dots*, 2022). Outputs at which the
rows hardly change share one wide bin, unseen: the mechanism says which. The few remaining pairs get
finer bins, and the rest is computed. No result is rounded to a bin.
"""

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from privrl.numerics.compiled import Compiled
from privrl.numerics.special import FloatArray, expm1mx

IntArray = NDArray[np.intp]
Outputs = IntArray | slice
Divergence = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]
#: From masses under P, shape (n_pairs, n_losses), at some losses, from the most that each pair
#: can lose, shape (n_pairs, 1), and from parameters.
Bound = Callable[[FloatArray, FloatArray, FloatArray, FloatArray], FloatArray]

ALL = slice(None)

BLOCK = 1 << 15  # entries of the matrix handled at once: what a processor's cache holds
_BINS = (64, 512)  # the fewest, and the most where there are few pairs
_FINE = 2048  # bins of the pairs that are left
_AT_ONCE = 1 << 22  # entries of a table of bounds
_SAMPLES = 8  # parameters that tell which pairs are computed first
_TOGETHER = 1.003  # share by which the worst rises where parameters are looked at together
_LEAST_FAR = 1e-3  # mass of outputs not looked at: less is what rounding leaves of it
_SLACK = 1 + 1e-9  # of a bound, for rounding
_MOVED = 4e-15  # nats that rounding takes where masses move: it matters where all losses are tiny
_TINY = 1e-300  # where a sum has underflowed
_TERMS = 21  # of the exponential's series: exact to 1e-19 up to 1


class FiniteMechanism(Protocol):
    """A matrix of probabilities, made row by row, and which rows are neighbours."""

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""

    @property
    def pairs(self) -> IntArray:
        """Neighbouring rows, shape (n_pairs, 2), each unordered pair once."""

    @property
    def margin(self) -> float:
        """By how much rounding may hide a loss (nats)."""

    def log_probs(self, rows: IntArray, outputs: Outputs = ALL) -> FloatArray:
        """Return the logarithms of the probabilities of some rows, shape (n_rows, n_outputs)."""

    def parts(self, pairs: IntArray, spread: float) -> Iterator[tuple[IntArray, Outputs]]:
        """Yield some of the pairs at a time, each once, and the outputs that matter to them.

        In each row of these pairs, the logarithm of the probability of an output that is left
        out is within ``spread`` (nats) of that of the last one that is not. Others are best in no
        order, for sums into the bin that was last added to wait for it.
        """

    def loss_bounds(self) -> FloatArray:
        """Return, for each of `pairs`, a number that its losses do not exceed (nats)."""


class Certificate:
    """What a finite mechanism costs: nothing is assumed, everything is computed when asked.

    Parameters
    ----------
    mechanism : FiniteMechanism
        Whose privacy is wanted.
    """

    def __init__(self, mechanism: FiniteMechanism) -> None:
        self._mechanism = mechanism

    @cached_property
    def worst(self) -> tuple[float, int]:
        """The largest loss ``|log P - log Q|`` (nats) with the margin, and the pair it is at."""
        bounds = self._mechanism.loss_bounds()
        largest, at = self._largest_loss(bounds.argsort()[: -1 - self._at_once : -1])
        for block in self._blocks(np.flatnonzero(bounds > largest)):
            # The bounds of a block are looked at again: they may be low by now.
            left = block[bounds[block] > largest]
            if left.size:
                candidate = self._largest_loss(left)
                largest, at = max((largest, at), candidate)
        return float(largest + self._mechanism.margin), at

    @property
    def pure_epsilon(self) -> float:
        """The smallest epsilon (nats) with delta = 0, never rounded down."""
        return self.worst[0]

    def rdp(self, orders: FloatArray) -> FloatArray:
        """Return the Rényi divergence (nats) at each order > 1; same shape as ``orders``."""
        largest, margin = self.pure_epsilon, self._mechanism.margin
        powers = orders.reshape(-1) - 1

        def upper(
            dots: FloatArray, losses: FloatArray, most: FloatArray, power: FloatArray
        ) -> FloatArray:
            bounds = np.empty((len(dots), len(power)))
            near = power * largest <= 1
            bounds[:, near] = np.log1p(dots @ np.expm1(np.outer(losses, power[near])))
            scaled = np.exp(np.outer(losses - largest, power[~near]))
            total = np.maximum(dots @ scaled, _TINY)
            bounds[:, ~near] = np.log(total) + power[~near] * largest
            return np.minimum(bounds / power + _MOVED, most)

        worst, rising = np.empty(len(powers)), powers.argsort()
        worst[rising] = self._worst_of(renyi_divergence, upper, powers[rising])
        # Rounding may hide the margin of each loss, and of each mass. Where exponents are small, a
        # divergence D changes with the mean of |loss|, which is at most D + √(2D) (Barron, 1986).
        hidden = 1 + 1 / powers
        least = np.minimum(hidden, 4 * (1 + powers) * (worst + np.sqrt(worst) + margin))
        worst += margin * np.where(powers * largest <= 1, least, hidden)
        return np.minimum(worst, largest).reshape(orders.shape)

    def delta(self, epsilon: FloatArray) -> FloatArray:
        """Return delta at each epsilon >= 0 (nats); same shape as ``epsilon``."""

        def upper(
            dots: FloatArray, losses: FloatArray, most: FloatArray, epsilon: FloatArray
        ) -> FloatArray:
            bounds = dots @ -np.expm1(np.minimum(epsilon - losses[:, None], 0.0))
            return np.where(epsilon < most, bounds, 0.0)

        # Seen from further down, by what rounding may hide of losses, and of masses.
        margin, worst = self._mechanism.margin, np.zeros(epsilon.size)
        flat = epsilon.reshape(-1) - margin
        rising = (-flat).argsort()
        rising = rising[epsilon.reshape(-1)[rising] < self.pure_epsilon]
        worst[rising] = self._worst_of(hockey_stick, upper, flat[rising]) * (1 + 2 * margin)
        return np.minimum(worst, 1.0).reshape(epsilon.shape)

    @property
    def _at_once(self) -> int:
        return max(1, BLOCK // self._mechanism.n_outputs)

    def _blocks(self, pairs: IntArray) -> Iterator[IntArray]:
        for start in range(0, len(pairs), self._at_once):
            yield pairs[start : start + self._at_once]

    def _rows_of(self, pairs: IntArray, outputs: Outputs = ALL) -> tuple[FloatArray, IntArray]:
        """Return the rows that some pairs are of, as logarithms, and which rows each takes."""
        rows, taken = np.unique(self._mechanism.pairs[pairs], return_inverse=True)
        return self._mechanism.log_probs(rows, outputs), taken.reshape(-1, 2)

    def _largest_loss(self, pairs: IntArray) -> tuple[float, int]:
        logs, taken = self._rows_of(pairs)
        losses = logs[taken[:, 0]]
        losses -= logs[taken[:, 1]]
        largest = np.maximum(losses.max(axis=1), -losses.min(axis=1))
        at = int(largest.argmax())
        return float(largest[at]), int(pairs[at])

    def _ends(self, n_bins: int) -> FloatArray:
        """Return the ends of some bins of losses, shape (n_bins + 1,)."""
        return np.linspace(-self.pure_epsilon, self.pure_epsilon, n_bins + 1)

    @cached_property
    def _coarse(self) -> FloatArray:
        """The `_dots` of all pairs."""
        n_pairs, (fewest, most) = len(self._mechanism.pairs), _BINS
        return self._dots(np.arange(n_pairs), min(max(_AT_ONCE // n_pairs, fewest), most))

    def _dots(self, pairs: IntArray, n_bins: int) -> FloatArray:
        """Return masses under P at the ends of bins of losses, shape (2 n_pairs, n_bins + 1).

        In the second half the pairs, which are given in ascending order, are reversed.
        """
        dots = np.zeros((2, len(pairs), n_bins + 1))
        for some, outputs in self._mechanism.parts(pairs, self.pure_epsilon / (2.5 * n_bins)):
            dots[:, np.searchsorted(pairs, some)] = self._connected(some, outputs, n_bins)
        return dots.reshape(-1, n_bins + 1)

    def _connected(
        self, pairs: IntArray, outputs: Outputs, n_bins: int
    ) -> tuple[FloatArray, FloatArray]:
        """Return masses at the ends of bins of some pairs, and of the same pairs reversed."""
        logs, taken = self._rows_of(pairs, outputs)
        probs = np.exp(logs)
        far = 1 - probs.sum(axis=1)
        if logs.shape[1] == self._mechanism.n_outputs:
            far[:] = 0.0
        elif far.min() < _LEAST_FAR:
            return self._connected(pairs, ALL, n_bins)
        logs *= n_bins / (2 * self.pure_epsilon)
        p, q = binned(logs, probs, taken, n_bins)
        last = logs[taken[:, 0], -1] - logs[taken[:, 1], -1] + n_bins / 2
        # Losses of the outputs not looked at are within .4 bins of the last one.
        wide = np.clip((last - 0.5).astype(np.intp), 0, n_bins - 2)
        p_far, q_far = far[taken.T]
        return (
            self._moved(p, q, wide, p_far, q_far),
            self._moved(q[:, ::-1], p[:, ::-1], n_bins - 2 - wide, q_far, p_far),
        )

    def _moved(
        self,
        p: NDArray[Any],
        q: NDArray[Any],
        wide: IntArray,
        p_wide: FloatArray,
        q_wide: FloatArray,
    ) -> FloatArray:
        """Move the mass in each bin, and in a bin of twice the width, to the bin's ends."""
        n_pairs, n_bins = p.shape
        ends, rows = self._ends(n_bins), np.arange(n_pairs)
        width = ends[1] - ends[0]
        dots = np.zeros((n_pairs, n_bins + 1))
        left = _left_of(p, q, ends[:-1], width)
        dots[:, :-1] = left
        dots[:, 1:] += p - left
        if p_wide.any():
            left = _left_of(p_wide, q_wide, ends[wide], 2 * width)
            dots[rows, wide] += left
            dots[rows, wide + 2] += p_wide - left
        return dots

    def _worst_of(self, divergence: Divergence, upper: Bound, parameters: FloatArray) -> FloatArray:
        """Return the largest divergence over all ordered pairs, at each parameter.

        With the parameters, as they are given, each pair's divergence rises.
        """
        n_pairs, worst = len(self._mechanism.pairs), np.zeros(len(parameters))
        if not worst.size:
            return worst
        most = np.tile(self._mechanism.loss_bounds() + self._mechanism.margin, 2)[:, None]

        def bounds(
            dots: FloatArray, ordered: IntArray, at: IntArray
        ) -> Iterator[tuple[FloatArray, slice]]:
            """Yield bounds on the divergences, at so many of the parameters at once."""
            losses = self._ends(dots.shape[1] - 1)
            step = max(1, _AT_ONCE // len(dots))
            for start in range(0, len(at), step):
                chunk = slice(start, start + step)
                yield upper(dots, losses, most[ordered], parameters[at[chunk]]) * _SLACK, chunk

        def compute(pair: int, at: IntArray) -> None:
            worst[at] = np.maximum(worst[at], divergence(*self._ordered(pair), parameters[at]))

        every, everything = np.arange(len(parameters)), np.arange(2 * n_pairs)
        # What leads somewhere is computed everywhere.
        some = np.unique(np.linspace(0, len(parameters) - 1, _SAMPLES).astype(np.intp))
        leaders = [b.argmax(axis=0) for b, _ in bounds(self._coarse, everything, some)]
        for pair in np.unique(np.concatenate(leaders)).tolist():
            compute(pair, every)
        # Of parameters between which the worst hardly rises, what is not above it at the first is
        # at none of them, if the bound at the last is not.
        firsts = [0]
        for at in every[1:].tolist():
            if worst[at] > worst[firsts[-1]] * _TOGETHER:
                firsts.append(at)
        lasts = np.array([*firsts[1:], len(parameters)]) - 1
        left = np.zeros(2 * n_pairs, np.bool)
        for found, chunk in bounds(self._coarse, everything, lasts):
            left |= (found > worst[firsts[chunk]]).any(axis=1)
        unordered = np.flatnonzero(left.reshape(2, -1).any(axis=0))
        step = max(1, _AT_ONCE // (2 * _FINE))
        for start in range(0, len(unordered), step):
            pairs = unordered[start : start + step]
            ordered = np.concatenate([pairs, n_pairs + pairs])
            for found, chunk in bounds(self._dots(pairs, _FINE), ordered, every):
                leader = found.argmax(axis=0)
                for pair in np.unique(leader).tolist():
                    compute(ordered[pair], every[chunk][leader == pair])
                for pair in np.flatnonzero((found > worst[chunk]).any(axis=1)).tolist():
                    compute(ordered[pair], every[chunk][found[pair] > worst[chunk]])
        return worst

    def _ordered(self, index: int) -> tuple[FloatArray, FloatArray]:
        """Return the two rows of a pair, numbered as in `_coarse`, as logarithms."""
        pairs = self._mechanism.pairs
        log_p, log_q = self._mechanism.log_probs(pairs[index % len(pairs)])
        return (log_p, log_q) if index < len(pairs) else (log_q, log_p)


def _bin_by_numpy(
    logs: FloatArray, probs: FloatArray, pairs: IntArray, n_bins: int
) -> tuple[FloatArray, FloatArray]:
    """Return the masses of pairs of rows in bins of their losses, each shape (n_pairs, n_bins).

    The logarithms, shape (n_rows, n_outputs), are in units of a bin.
    """
    p, q = np.empty((2, len(pairs), n_bins))
    for i, (first, second) in enumerate(pairs.tolist()):
        losses = logs[first] - logs[second]
        losses += n_bins / 2
        bins = losses.astype(np.intp)
        np.maximum(bins, 0, out=bins)
        np.minimum(bins, n_bins - 1, out=bins)
        p[i] = np.bincount(bins, probs[first], n_bins)
        q[i] = np.bincount(bins, probs[second], n_bins)
    return p, q


binned = Compiled(_bin_by_numpy, "binned")


def _left_of(p: FloatArray, q: FloatArray, end: FloatArray, width: FloatArray) -> FloatArray:
    """Return what of the masses p under P moves down to ``end``; the rest moves up by ``width``.

    The masses that this gives under Q are q.
    """
    with np.errstate(divide="ignore"):
        q_at_end = np.exp(end + np.log(q))  # e^loss q, without overflow
    return np.clip((q_at_end - np.exp(-width) * p) / -np.expm1(-width), 0.0, p)


def renyi_divergence(log_p: FloatArray, log_q: FloatArray, powers: FloatArray) -> FloatArray:
    """Return ``log(sum P (P / Q)^power) / power``, the Rényi divergence of order ``1 + power``.

    Parameters
    ----------
    log_p, log_q : array, shape (n_outputs,)
        Logarithms of probabilities, all finite.
    powers : array, shape (n_powers,)
        Orders less one, each > 0.

    Notes
    -----
    With losses ``l``, the sum less one is ``sum P (exp(power l) - 1 - power l)`` and ``power``
    times the divergence of Kullback and Leibler, ``sum Q (l exp(l) - exp(l) + 1)``. No term of
    either is negative, so that small losses and orders next to 1 keep their digits; where
    ``power l`` is at most 1 the first is a series in the moments of the loss.
    """
    losses, p = log_p - log_q, np.exp(log_p)
    result = np.empty(len(powers))
    near = powers * np.abs(losses).max() <= 1
    if near.any():
        small = np.clip(losses, -1.0, 1.0)
        relative = np.where(
            losses == small,
            np.exp(log_q) * (small * np.expm1(small) - expm1mx(small)),
            p * losses - p + np.exp(log_q),
        )
        moments, term = [], p * losses
        for k in range(2, _TERMS):
            term *= losses
            term /= k
            moments.append(term.sum())
        series = np.polynomial.polynomial.polyval(powers[near], [0.0, relative.sum(), *moments])
        result[near] = np.log1p(series) / powers[near]
    far, step = np.flatnonzero(~near), max(1, BLOCK // len(p))
    for start in range(0, len(far), step):
        some = far[start : start + step]
        exponents = powers[some, None] * losses
        exponents += log_p
        highest = exponents.max(axis=1)
        exponents -= highest[:, None]
        np.exp(exponents, out=exponents)
        result[some] = (highest + np.log(exponents.sum(axis=1))) / powers[some]
    return np.maximum(result, 0.0)


def hockey_stick(log_p: FloatArray, log_q: FloatArray, epsilons: FloatArray) -> FloatArray:
    """Return ``sum (P - exp(epsilon) Q)_+``, shape (n_epsilons,), of logarithms of P and Q."""
    order = np.argsort(log_p - log_q)
    losses, p = (log_p - log_q)[order], np.exp(log_p[order])
    first = np.searchsorted(losses, epsilons, side="right")
    return np.array(
        [p[at:] @ -np.expm1(e - losses[at:]) for e, at in zip(epsilons, first, strict=True)]
    )
