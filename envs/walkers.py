"""Simulate episodes step by step, all of them side by side."""

import math
from bisect import bisect_right
from collections.abc import Callable
from functools import reduce
from operator import iadd
from typing import NamedTuple, Self

import numpy as np

from privrl.envs.rollouts import Rollouts
from privrl.envs.rows import TransitionRows
from privrl.envs.support import Support
from privrl.numerics.compiled import Compiled
from privrl.numerics.randomness import columns
from privrl.numerics.typing import BoolArray
from privrl.numerics.typing import FloatArray
from privrl.numerics.typing import IntArray

_DRAWS_AT_ONCE = 2**20
"""Uniform draws held in memory at a time; more walkers go in several groups."""

_FEW = 4
"""Walkers that are moved one by one."""

_Shape = tuple[int, int, int]


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
        return (
            0 < math.prod(policy.shape[:2]) * episodes <= _DRAWS_AT_ONCE
            and policy.min(initial=0) >= 0
        )

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
        if self.go_abreast(policy, episodes):
            draws = self._draws(horizon, runs * episodes, rng)
            return _counted(policy, draws, self._rows, self._cell, self._shape)
        rows = _in_order(policy, self._shape[1])
        choices = None
        if policy.min(initial=0) < 0:
            rows[policy.transpose(1, 2, 0).reshape(rows.shape) < 0] = -1
            choices = _Choices.of(free, self._shape[1], runs, n_states)
        run_of_each = np.arange(runs * episodes) // episodes
        groups = max(1, math.ceil(run_of_each.size * horizon / _DRAWS_AT_ONCE))
        run_of_group = np.array_split(run_of_each, groups) if groups > 1 else [run_of_each]
        return reduce(
            iadd, (self._group_counts(rows, choices, run, runs, rng) for run in run_of_group)
        )

    def _draws(self, horizon: int, walkers: int, rng: np.random.Generator) -> FloatArray:
        """Return where in its row each walker goes at each step; and in the last row, begins."""
        draws = columns(rng, (horizon + 1, walkers))
        self._rows.keep_below_one(draws)
        return draws

    def _group_counts(
        self,
        rows: FloatArray,
        choices: "_Choices | None",
        run: IntArray,
        runs: int,
        rng: np.random.Generator,
    ) -> IntArray:
        """Return counts of all runs, from walkers that belong to the given runs."""
        draws = self._draws(len(rows), len(run), rng)

        def chosen(at: IntArray) -> IntArray:
            assert choices is not None
            return self._first_row[at // runs] + choices.draw(at, rng)

        entries = _side_by_side(rows, run, runs, draws, self._rows, chosen=choices and chosen)
        return _tallied(entries, run, runs, self._cell, self._shape)


def _in_order(policy: IntArray, n_actions: int) -> FloatArray:
    """Return the row ``rows[h, s * runs + run]`` of whoever is in state ``s`` at step ``h``."""
    runs, horizon, n_states = policy.shape
    first = np.arange(n_states)[:, None] * n_actions
    # Runs last, as planning leaves them in memory: the other way round costs a transposition.
    rows = np.add(policy.transpose(1, 2, 0), first, dtype=np.float64, order="C")
    return rows.reshape(horizon, n_states * runs)


def _walked(
    policy: IntArray, draws: FloatArray, rows: TransitionRows, cell: IntArray, shape: _Shape
) -> IntArray:
    """Return the counts of as many walkers in each run, who all know what to do."""
    runs = len(policy)
    run = np.arange(draws.shape[1]) // (draws.shape[1] // runs)
    way = _one_by_one if len(run) <= _FEW else _side_by_side
    entries = way(_in_order(policy, shape[1]), run, runs, draws, rows)
    return _tallied(entries, run, runs, cell, shape)


_counted = Compiled(_walked, "walked")


def _tallied(
    entries: IntArray, run: IntArray, runs: int, cell: IntArray, shape: _Shape
) -> IntArray:
    """Return how often each cell of each run's table was entered."""
    size = math.prod(shape)
    cells = cell[entries] + run * size
    return np.bincount(cells.ravel(), minlength=runs * size).reshape(runs, *shape)


def _side_by_side(
    row_of: FloatArray,
    run: IntArray,
    runs: int,
    draws: FloatArray,
    rows: TransitionRows,
    *,
    chosen: Callable[[IntArray], IntArray] | None = None,
) -> IntArray:
    """Return the table entry that each walker takes at each step, shape (H, n).

    ``row_of`` is `_in_order`; where it holds -1, one is ``chosen``.
    """
    entries = np.empty((len(row_of), len(run)), dtype=np.intp)
    next_place = rows.next_state * runs
    place = next_place[rows.entries(rows.start_row + draws[-1])]
    for step, row in enumerate(row_of):
        place += run
        here = row.take(place)
        if chosen is not None:
            torn = np.flatnonzero(here < 0)
            here[torn] = chosen(place[torn])
        entries[step] = entry = rows.entries(here + draws[step])
        place = next_place.take(entry)
    return entries


def _one_by_one(
    row_of: FloatArray, run: IntArray, runs: int, draws: FloatArray, rows: TransitionRows
) -> IntArray:
    """Return what `_side_by_side` does, of a few walkers: quicker than arrays are looked up."""
    (ends, next_state), at_step = rows.in_lists, row_of.tolist()
    paths = []
    for own, (*steps, first) in zip(run.tolist(), draws.T.tolist(), strict=True):
        entry, path = bisect_right(ends, rows.start_row + first), []
        for row, draw in zip(at_step, steps, strict=True):
            entry = bisect_right(ends, row[next_state[entry] * runs + own] + draw)
            path.append(entry)
        paths.append(path)
    return np.array(paths).T
