"""The exact privacy of a mechanism with finitely many inputs and outputs.

Such a mechanism is a matrix with a row of probabilities for each input, and its privacy need
not be argued: it is computed, as the worst over all pairs of neighbouring rows. That depends
on public settings only, so computing it costs no privacy.

The matrix may be too large to hold, and a divergence too slow to take of every pair, so bounds
decide which pairs can be the worst, and only these are computed in full. The mechanism bounds
each pair's largest loss ``|log P - log Q|``. For everything else one pass over the matrix puts
the losses of each pair into bins and moves what is in a bin to its two ends, the masses under P
and Q kept: this raises every divergence that is convex in ``P / Q`` (the "connecting dots" of
Doroshenko, Ghazi, Kamath, Kumar and Manurangsi, *Connect the dots*, 2022). No result is rounded
to a bin.
"""

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from privrl.numerics.special import FloatArray, expm1mx

IntArray = NDArray[np.intp]
Divergence = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]

BLOCK = 1 << 18  # entries of the matrix handled at once: what a processor's cache holds
_BINS = (64, 512)  # the fewest, and the most where there are few pairs
_AT_ONCE = 1 << 22  # entries of a table of bounds
_SLACK = 1 + 1e-9  # of a bound, for rounding
_TINY = 1e-300  # where a sum has underflowed
_TERMS = 21  # of the exponential's series: exact to 1e-19 up to 1


class FiniteMechanism(Protocol):
    """A matrix of probabilities, made row by row, and which rows are neighbours."""

    @property
    def n_outputs(self) -> int:
        """How many outputs there are."""

    @property
    def pairs(self) -> IntArray:
        """Neighbouring rows, shape (n_pairs, 2), each unordered pair once."""

    @property
    def margin(self) -> float:
        """By how much rounding may hide a loss (nats)."""

    def log_probs(self, rows: IntArray) -> FloatArray:
        """Return the logarithms of the probabilities of some rows, shape (n_rows, n_outputs)."""

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
        largest, losses = self.pure_epsilon, self._ends
        powers = orders.reshape(-1) - 1

        def upper(power: FloatArray) -> FloatArray:
            bounds = np.empty((len(self._dots), len(power)))
            near = power * largest <= 1
            bounds[:, near] = np.log1p(self._dots @ np.expm1(np.outer(losses, power[near])))
            scaled = np.exp(np.outer(losses - largest, power[~near]))
            total = np.maximum(self._dots @ scaled, _TINY)
            bounds[:, ~near] = np.log(total) + power[~near] * largest
            return bounds / power

        worst = self._worst_of(renyi_divergence, upper, powers)
        return np.minimum(worst, largest).reshape(orders.shape)

    def delta(self, epsilon: FloatArray) -> FloatArray:
        """Return delta at each epsilon >= 0 (nats); same shape as ``epsilon``."""

        def upper(epsilon: FloatArray) -> FloatArray:
            return self._dots @ -np.expm1(np.minimum(epsilon - self._ends[:, None], 0.0))

        worst = np.zeros(epsilon.size)
        inside = np.flatnonzero(epsilon.reshape(-1) < self.pure_epsilon)
        worst[inside] = self._worst_of(hockey_stick, upper, epsilon.reshape(-1)[inside])
        return np.minimum(worst, 1.0).reshape(epsilon.shape)

    @property
    def _at_once(self) -> int:
        return max(1, BLOCK // self._mechanism.n_outputs)

    def _blocks(self, pairs: IntArray) -> Iterator[IntArray]:
        for start in range(0, len(pairs), self._at_once):
            yield pairs[start : start + self._at_once]

    def _rows_of(self, pairs: IntArray) -> tuple[FloatArray, IntArray]:
        """Return the rows that some pairs are of, as logarithms, and which rows each takes."""
        rows, taken = np.unique(self._mechanism.pairs[pairs], return_inverse=True)
        return self._mechanism.log_probs(rows), taken.reshape(-1, 2)

    def _largest_loss(self, pairs: IntArray) -> tuple[float, int]:
        logs, taken = self._rows_of(pairs)
        losses = logs[taken[:, 0]]
        losses -= logs[taken[:, 1]]
        largest = np.maximum(losses.max(axis=1), -losses.min(axis=1))
        at = int(largest.argmax())
        return float(largest[at]), int(pairs[at])

    @cached_property
    def _ends(self) -> FloatArray:
        """The ends of the bins of losses, shape (n_bins + 1,)."""
        fewest, most = _BINS
        n_bins = min(max(_AT_ONCE // len(self._mechanism.pairs), fewest), most)
        return np.linspace(-self.pure_epsilon, self.pure_epsilon, n_bins + 1)

    @cached_property
    def _dots(self) -> FloatArray:
        """Mass under P at each loss of `_ends`, shape (2 n_pairs, n_bins + 1).

        In the second half the pairs are reversed.
        """
        n_pairs, n_bins = len(self._mechanism.pairs), len(self._ends) - 1
        dots = np.zeros((2 * n_pairs, n_bins + 1))
        for block in self._blocks(np.arange(n_pairs)):
            logs, taken = self._rows_of(block)
            probs = np.exp(logs)
            losses = logs[taken[:, 0]]
            losses -= logs[taken[:, 1]]
            losses += self.pure_epsilon
            losses *= n_bins / (2 * self.pure_epsilon)
            bins = np.clip(losses.astype(np.intp), 0, n_bins - 1)
            bins += n_bins * np.arange(len(block))[:, None]
            p, q = (
                np.bincount(
                    bins.ravel(), probs[taken[:, side]].ravel(), n_bins * len(block)
                ).reshape(-1, n_bins)
                for side in (0, 1)
            )
            dots[block] = self._connect(p, q)
            dots[n_pairs + block] = self._connect(q[:, ::-1], p[:, ::-1])
        return dots

    def _connect(self, p: NDArray[Any], q: NDArray[Any]) -> FloatArray:
        """Move the mass in each bin to the bin's ends, so that those of P and Q are kept."""
        width = self._ends[1] - self._ends[0]
        with np.errstate(divide="ignore"):
            q_at_left = np.exp(self._ends[:-1] + np.log(q))  # e^loss q, without overflow
        left = np.clip((q_at_left - np.exp(-width) * p) / -np.expm1(-width), 0.0, p)
        dots = np.zeros((len(p), len(self._ends)))
        dots[:, :-1] = left
        dots[:, 1:] += p - left
        return dots

    def _worst_of(
        self,
        divergence: Divergence,
        upper: Callable[[FloatArray], FloatArray],
        parameters: FloatArray,
    ) -> FloatArray:
        """Return the largest divergence over all ordered pairs, at each parameter."""
        worst = np.zeros(len(parameters))
        step = max(1, _AT_ONCE // max(len(self._dots), self._mechanism.n_outputs))
        for start in range(0, len(parameters), step):
            chunk = parameters[start : start + step]
            bounds = upper(chunk) * _SLACK
            best = worst[start : start + step]
            leaders = np.unique(bounds.argmax(axis=0))
            for pair in leaders.tolist():
                best[:] = np.maximum(best, divergence(*self._ordered(pair), chunk))
            for pair in np.flatnonzero((bounds > best).any(axis=1)).tolist():
                open_at = bounds[pair] > best
                if open_at.any():
                    value = divergence(*self._ordered(pair), chunk[open_at])
                    best[open_at] = np.maximum(best[open_at], value)
        return worst

    def _ordered(self, index: int) -> tuple[FloatArray, FloatArray]:
        """Return the two rows of a pair, numbered as in `_dots`, as logarithms."""
        pairs = self._mechanism.pairs
        log_p, log_q = self._mechanism.log_probs(pairs[index % len(pairs)])
        return (log_p, log_q) if index < len(pairs) else (log_q, log_p)


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
