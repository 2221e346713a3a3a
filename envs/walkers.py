"""Simulate episodes step by step, all of them side by side."""

import math
from bisect import bisect_right
from functools import reduce
from operator import iadd
from typing import NamedTuple, Self

import numpy as np

from privrl._typing import BoolArray, FloatArray, IntArray
from privrl.envs.rollouts import Rollouts
from privrl.envs.rows import TransitionRows
from privrl.envs.support import Support
from privrl.numerics.abreast import columns

_DRAWS_AT_ONCE = 2**20
"""Uniform draws held in memory at a time; more walkers go in several groups."""

_FEW = 4
"""Walkers that are moved one by one."""


class _Choices(NamedTuple):
    """Which actions are free in each place ``s * runs + run``, those first, and how many are."""

    actions: IntArray
    number: IntArray

    @classmethod
    def of(cls, free: BoolArray | None, n_actions: int, runs: int, n_states: int) -> Self:
        if free is None:
            free = np.ones((runs, n_states, n_actions), np.bool_)
        places = free.transpose(1, 0, 2).reshape(-1, n_actions)
        return cls(np.argsort(~places, axis=1, kind="stable"), places.sum(axis=1))

    def draw(self, place: IntArray, rng: np.random.Generator) -> IntArray:
        """Return one of the free actions for each place, uniformly."""
        return self.actions[place, rng.integers(self.number[place])]


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

    def go_abreast(self, policy: IntArray, episodes: int) -> bool:
        """Whether all walk in one group, and draw nothing but where they go."""
        return math.prod(policy.shape[:2]) * episodes <= _DRAWS_AT_ONCE and policy.min() >= 0

    def counts(
        self,
        policy: IntArray,
        episodes: int,
        rng: np.random.Generator,
        *,
        free: BoolArray | None = None,
    ) -> IntArray:
        """See `Rollouts.counts`."""
        runs, horizon, n_states = policy.shape
        first = self._first_row[:, None]
        # Runs last, as planning leaves them in memory: the other way round costs a transposition.
        rows = np.add(policy.transpose(1, 2, 0), first, dtype=np.float64, order="C")
        any_action = policy.transpose(1, 2, 0) < 0
        choices = None
        if any_action.any():
            rows[any_action] = -1
            choices = _Choices.of(free, self._shape[1], runs, n_states)
        rows = rows.reshape(horizon, n_states * runs)
        run_of_each = np.arange(runs * episodes) // episodes
        groups = max(1, math.ceil(run_of_each.size * horizon / _DRAWS_AT_ONCE))
        run_of_group = np.array_split(run_of_each, groups) if groups > 1 else [run_of_each]
        counts = reduce(
            iadd, (self._group_counts(rows, choices, run, runs, rng) for run in run_of_group)
        )
        return counts.reshape(runs, *self._shape)

    def _group_counts(
        self,
        rows: FloatArray,
        choices: "_Choices | None",
        run: IntArray,
        runs: int,
        rng: np.random.Generator,
    ) -> IntArray:
        """Return flat counts of all runs, from walkers that belong to the given runs."""
        entries = self._walk(rows, choices, run, runs, rng)
        size = math.prod(self._shape)
        cells = self._cell[entries] + run * size
        return np.bincount(cells.ravel(), minlength=runs * size)

    def _walk(
        self,
        rows: FloatArray,
        choices: "_Choices | None",
        run: IntArray,
        runs: int,
        rng: np.random.Generator,
    ) -> IntArray:
        """Return the table entry that each walker takes at each step, shape (H, n).

        ``rows[h, s * runs + run]`` is the row of a walker that is in state ``s`` at step ``h``,
        or -1 where any of its choices will do.
        """
        draws = columns(rng, (len(rows) + 1, len(run)))
        self._rows.keep_below_one(draws)
        if choices is None and 0 < len(run) <= _FEW:
            return self._walk_one_by_one(rows, run, runs, draws)
        entries = np.empty((len(rows), len(run)), dtype=np.intp)
        next_place = self._rows.next_state * runs
        place = next_place[self._rows.entries(self._rows.start_row + draws[-1])]
        for step, row in enumerate(rows):
            place += run
            here = row.take(place)
            if choices is not None:
                torn = np.flatnonzero(here < 0)
                at = place[torn]
                here[torn] = self._first_row[at // runs] + choices.draw(at, rng)
            entries[step] = entry = self._rows.entries(here + draws[step])
            place = next_place.take(entry)
        return entries

    def _walk_one_by_one(
        self, rows: FloatArray, run: IntArray, runs: int, draws: FloatArray
    ) -> IntArray:
        """Return what `_walk` does, of a few walkers: quicker than arrays are looked up."""
        (ends, next_state), row_of = self._rows.in_lists, rows.tolist()
        paths = []
        for own, (*steps, first) in zip(run.tolist(), draws.T.tolist(), strict=True):
            entry, path = bisect_right(ends, self._rows.start_row + first), []
            for row, draw in zip(row_of, steps, strict=True):
                entry = bisect_right(ends, row[next_state[entry] * runs + own] + draw)
                path.append(entry)
            paths.append(path)
        return np.array(paths).T
