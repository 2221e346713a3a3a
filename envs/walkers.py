"""Simulate episodes step by step, all of them side by side."""

import math
from functools import reduce
from operator import iadd

import numpy as np

from privrl.envs.planning import FloatArray, IntArray
from privrl.envs.support import Support

_DRAWS_AT_ONCE = 2**20
"""Uniform draws held in memory at a time; more walkers go in several groups."""


class Walkers:
    """Count the transitions of independent episodes by walking through each.

    The cost grows with the number of walkers times the horizon.

    Parameters
    ----------
    transition : array, shape (S, A, S)
        Probabilities of the next state.
    start : array, shape (S,)
        Probabilities of the first state.
    support : Support, optional
        Makes counts compact, W cells to a row; by default there are S.

    Raises
    ------
    ValueError
        If a transition that can happen lies outside the support.

    Notes
    -----
    One binary search moves every walker at once. The nonzero probabilities of
    row ``r = s * A + a`` become the increasing numbers ``r + cumulative sum``
    in ``(r, r + 1]``, so that all rows form one sorted array, and a walker at
    row ``r`` with a uniform draw ``u`` looks up ``r + u``. The start
    distribution is one more row, the last.
    """

    def __init__(
        self, transition: FloatArray, start: FloatArray, support: Support | None = None
    ) -> None:
        n_states, n_actions, _ = transition.shape
        rows = np.vstack([transition.reshape(-1, n_states), start])
        row, self._next_state = np.nonzero(rows)
        cumulative = np.cumsum(rows, axis=1)
        cumulative /= cumulative[:, -1:]  # the last entry of a row is now exactly 1
        self._cdf = row + cumulative[row, self._next_state]
        width = n_states if support is None else support.width
        state, action, column = np.nonzero(transition)  # like the entries, but for the start's
        if support is not None:
            column = support.columns(state, action, column)
        self._cell = (state * n_actions + action) * width + column
        self._shape = (n_states, n_actions, width)
        self._first_row = np.arange(n_states)[:, None] * n_actions
        self._start_row = len(rows) - 1
        # The largest u for which row + u stays below row + 1 after rounding, in every row.
        self._largest_draw = np.nextafter(len(rows), 0) - self._start_row

    def counts(self, policy: IntArray, episodes: int, rng: np.random.Generator) -> IntArray:
        """Return the transition counts of each run, summed over its episodes.

        Parameters
        ----------
        policy : array of int, shape (B, H, S)
            Action of each run at each step and state.
        episodes : int
            Episodes per run, >= 1.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        array of int, shape (B, S, A, S), or (B, S, A, W) under a support
            Each run's counts sum to ``episodes * H``.
        """
        runs, horizon, n_states = policy.shape
        # Runs last, as planning leaves them in memory: the other way round costs a transposition.
        rows = np.add(policy.transpose(1, 2, 0), self._first_row, dtype=np.float64, order="C")
        rows = rows.reshape(horizon, n_states * runs)
        walker = np.arange(runs * episodes)
        groups = max(1, math.ceil(walker.size * horizon / _DRAWS_AT_ONCE))
        run_of_group = (group // episodes for group in np.array_split(walker, groups))
        counts = reduce(iadd, (self._group_counts(rows, run, runs, rng) for run in run_of_group))
        return counts.reshape(runs, *self._shape)

    def _group_counts(
        self, rows: FloatArray, run: IntArray, runs: int, rng: np.random.Generator
    ) -> IntArray:
        """Return flat counts of all runs, from walkers that belong to the given runs."""
        entries = self._walk(rows, run, runs, rng)
        size = math.prod(self._shape)
        cells = self._cell[entries] + run * size
        return np.bincount(cells.ravel(), minlength=runs * size)

    def _walk(
        self, rows: FloatArray, run: IntArray, runs: int, rng: np.random.Generator
    ) -> IntArray:
        """Return the table entry that each walker takes at each step, shape (H, n).

        ``rows[h, s * runs + run]`` is the row of a walker that is in state ``s`` at step ``h``.
        """
        draws = rng.random((len(rows) + 1, len(run)))
        np.minimum(draws, self._largest_draw, out=draws)
        entries = np.empty((len(rows), len(run)), dtype=np.intp)
        next_place = self._next_state * runs
        place = next_place[self._search(self._start_row + draws[-1])]
        for step, row in enumerate(rows):
            place += run
            entries[step] = entry = self._search(row.take(place) + draws[step])
            place = next_place.take(entry)
        return entries

    def _search(self, position: FloatArray) -> IntArray:
        return self._cdf.searchsorted(position, side="right")
