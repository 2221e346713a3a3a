"""Simulate episodes step by step, all of them side by side."""

import math
from functools import reduce
from operator import iadd

import numpy as np

from privrl._typing import FloatArray, IntArray
from privrl.envs.rollouts import Rollouts
from privrl.envs.rows import TransitionRows
from privrl.envs.support import Support

_DRAWS_AT_ONCE = 2**20
"""Uniform draws held in memory at a time; more walkers go in several groups."""


class Walkers(Rollouts):
    """Count transitions by walking through each episode; see `Rollouts`.

    The cost grows with the number of walkers times the horizon.
    """

    def __init__(
        self, transition: FloatArray, start: FloatArray, support: Support | None = None
    ) -> None:
        super().__init__(transition, start, support)
        self._rows = TransitionRows(transition, start)
        row, next_state = np.nonzero(transition.reshape(-1, len(start)))
        self._cell = self._cells(row, next_state, support)  # of each entry, but for the start's

    def counts(self, policy: IntArray, episodes: int, rng: np.random.Generator) -> IntArray:
        """See `Rollouts.counts`."""
        runs, horizon, n_states = policy.shape
        first = self._first_row[:, None]
        # Runs last, as planning leaves them in memory: the other way round costs a transposition.
        rows = np.add(policy.transpose(1, 2, 0), first, dtype=np.float64, order="C")
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
        self._rows.keep_below_one(draws)
        entries = np.empty((len(rows), len(run)), dtype=np.intp)
        next_place = self._rows.next_state * runs
        place = next_place[self._rows.entries(self._rows.start_row + draws[-1])]
        for step, row in enumerate(rows):
            place += run
            entries[step] = entry = self._rows.entries(row.take(place) + draws[step])
            place = next_place.take(entry)
        return entries
