"""Simulate episodes of a tabular MDP under given policies, and count their transitions."""

import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable
from typing import NamedTuple, Self

import numpy as np
from numpy.random import Generator

from privrl.envs.rows import TransitionRows
from privrl.envs.support import Support
from privrl.numerics.compiled import Compiled
from privrl.numerics.randomness import columns, generators
from privrl.numerics.typing import BoolArray, FloatArray, IntArray

_DRAWS_AT_ONCE = 2**20
"""Uniform draws held in memory at a time; more walkers go in several groups."""

_FEW = 4
"""Walkers that are moved one by one."""

_Shape = tuple[int, int, int]
_Free = BoolArray | None


class Simulator(ABC):
    """Count the transitions of independent episodes; how, is up to the subclass.

    All ways have exactly the same law.

    Parameters
    ----------
    transition : array, shape (S, A, S)
        Probabilities of the next state.
    start : array, shape (S,)
        Probabilities of the first state.
    support : Support, optional
        Makes counts compact, W cells to a row; the default is S cells.

    Raises
    ------
    ValueError
        If a transition that can happen lies outside the support.
    """

    def __init__(
        self, transition: FloatArray, start: FloatArray, support: Support | None = None
    ) -> None:
        n_states, n_actions = len(start), transition.shape[1]
        width = n_states if support is None else support.width
        self._shape = (n_states, n_actions, width)
        self._first_row = np.arange(n_states) * n_actions  # of each state: a row is s * A + a

    def counts(
        self, policy: IntArray, episodes: int, rng: Generator, *, free: BoolArray | None = None
    ) -> IntArray:
        """Return the transition counts of each run, summed over its episodes.

        Parameters
        ----------
        policy : array of int, shape (B, H, S)
            Action of each run at each step and state; -1 for any that is free, at random.
        episodes : int
            Episodes per run, >= 1.
        rng : numpy.random.Generator
            Source of randomness.
        free : array of bool, shape (B, S, A), optional
            Which actions -1 stands for, at least one wherever it is used; by default all.

        Returns
        -------
        array of int, shape (B, S, A, S), or (B, S, A, W) under a support
            Each run's counts sum to ``episodes * H``.
        """
        return self._counts(policy, episodes, rng, free)

    @abstractmethod
    def _counts(self, policy: IntArray, episodes: int, rng: Generator, free: _Free) -> IntArray:
        """Return what `counts` does."""

    def _cells(self, row: IntArray, next_state: IntArray, support: Support | None) -> IntArray:
        """Return where transitions are in a flat table of counts."""
        _, n_actions, width = self._shape
        if support is not None:
            next_state = support.columns(row // n_actions, row % n_actions, next_state)
        return row * width + next_state


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

    def draw(self, place: IntArray, rng: Generator) -> IntArray:
        """Return one of the free actions for each place, uniformly."""
        return self.actions[place, rng.integers(self.number[place])]


class StepSimulator(Simulator):
    """Count transitions by walking through each episode; see `Simulator`.

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

    def _counts(self, policy: IntArray, episodes: int, rng: Generator, free: _Free) -> IntArray:
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
        parts = (self._group_counts(rows, choices, run, runs, rng) for run in run_of_group)
        return np.asarray(sum(parts))

    def _draws(self, horizon: int, walkers: int, rng: Generator) -> FloatArray:
        """Return where in its row each walker goes at each step; and in the last row, begins."""
        draws = columns(rng, (horizon + 1, walkers))
        self._rows.keep_below_one(draws)
        return draws

    def _group_counts(
        self, rows: FloatArray, choices: "_Choices | None", run: IntArray, runs: int, rng: Generator
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


class CountSimulator(Simulator):
    """Count transitions without following any episode; see `Simulator`.

    While the policy is fixed, the ``n`` episodes that are in state ``s`` at
    step ``h`` move on together, by a draw from Multinomial(n, P[s, policy]).
    The counts have exactly the law of episodes simulated one by one, at a cost
    that does not depend on their number.

    Notes
    -----
    Only possible next states are kept. Shorter rows are padded *in front* with
    their last next state and probability 0: NumPy gives the last category
    whatever rounding has left over, so this one has to be possible.
    """

    def __init__(
        self, transition: FloatArray, start: FloatArray, support: Support | None = None
    ) -> None:
        super().__init__(transition, start, support)
        rows = transition.reshape(-1, len(start))
        longest = np.count_nonzero(rows, axis=1).max()
        following = np.argsort(rows > 0, axis=1, kind="stable")[:, len(start) - longest :]
        self._probability = _normalised(np.take_along_axis(rows, following, axis=1))
        self._next_state = np.where(self._probability > 0, following, following[:, -1:])
        self._cell = self._cells(np.arange(len(rows))[:, None], self._next_state, support)
        self._first_states = np.flatnonzero(start)
        self._start = _normalised(start[self._first_states])

    def _counts(self, policy: IntArray, episodes: int, rng: Generator, free: _Free) -> IntArray:
        runs, _, n_states = policy.shape
        counts = np.zeros((runs, *self._shape), dtype=np.int64)
        here = np.zeros((runs, n_states), dtype=np.int64)
        here[:, self._first_states] = rng.multinomial(episodes, self._start, size=runs)
        unset = policy.min(initial=0) < 0
        for chosen in np.moveaxis(policy, 1, 0):
            split, row = None, chosen + self._first_row
            if unset:
                torn = np.nonzero((chosen < 0) & (here > 0))
                split = self._split(torn, here, free, rng)
                here = np.where(chosen < 0, 0, here)
                row = np.maximum(row, self._first_row)
            moves = rng.multinomial(here, self._probability.take(row, axis=0))  # faster than [row]
            here = np.zeros_like(here)
            _enter(moves, row, self._cell, counts)
            _enter(moves, row, self._next_state, here)
            if split is not None:
                row = self._first_row[torn[1]][:, None] + np.arange(self._shape[1])
                moves = rng.multinomial(split, self._probability[row])
                where = torn[0][:, None, None]
                _add_at(counts, where * counts[0].size + self._cell[row], moves)
                _add_at(here, where * n_states + self._next_state[row], moves)
        return counts

    def _split(
        self, torn: tuple[IntArray, ...], here: IntArray, free: BoolArray | None, rng: Generator
    ) -> IntArray | None:
        """Return how many of those who take any free action take which, shape (places, A)."""
        if not torn[0].size:
            return None
        n_actions = self._shape[1]
        if free is None:
            return rng.multinomial(here[torn], np.full(n_actions, 1 / n_actions))
        # The free ones last: the last category gets what rounding has left over.
        order = np.argsort(free[torn], axis=1, kind="stable")
        chance = np.take_along_axis(free[torn], order, axis=1).astype(np.float64)
        moves = rng.multinomial(here[torn], chance / chance.sum(axis=1, keepdims=True))
        split = np.empty_like(moves)
        np.put_along_axis(split, order, moves, axis=1)
        return split


def _by_ufunc(moves: IntArray, row: IntArray, cells: IntArray, totals: IntArray) -> bool:
    """Add moves, shape (runs, S, W), to the cells of their rows in each run's table."""
    first = np.arange(len(totals))[:, None, None] * totals[0].size
    _add_at(totals, first + cells.take(row, axis=0), moves)
    return True


_enter = Compiled(_by_ufunc, "entered")


def _add_at(total: IntArray, cells: IntArray, amounts: IntArray) -> None:
    """Add amounts to flat cells of a contiguous array, each as often as it is named."""
    np.add.at(total.reshape(-1), cells.reshape(-1), amounts.reshape(-1))


def _normalised(rows: FloatArray) -> FloatArray:
    return rows / rows.sum(axis=-1, keepdims=True)


class AutomaticSimulator(Simulator):
    """Walk through a few episodes, and draw many as flows; see `Simulator`.

    Which way is taken does not depend on the support.
    """

    def __init__(
        self, transition: FloatArray, start: FloatArray, support: Support | None = None
    ) -> None:
        super().__init__(transition, start, support)
        self._walkers = StepSimulator(transition, start, support)
        self._flows = CountSimulator(transition, start, support)
        # Measured: an episode more costs walkers what three cells cost flows, which win
        # from 40 (6 states, 3 cells each) to 170 (20 states, 20 cells) and 200 (500, 1) on.
        self._break_even = 34 + np.count_nonzero(transition, axis=-1).max() * len(transition) / 3

    def _counts(self, policy: IntArray, episodes: int, rng: Generator, free: _Free) -> IntArray:
        each = generators(rng)
        runs = len(policy) // len(each)
        # A call to flows costs as much as 300 walkers more.
        few = runs * (episodes - self._break_even) <= 300
        way = self._walkers if few else self._flows
        if len(each) == 1 or (few and self._walkers.go_abreast(policy, episodes)):
            return way.counts(policy, episodes, rng, free=free)
        parts = [slice(first, first + runs) for first in range(0, len(policy), runs)]
        counts = [
            way.counts(policy[part], episodes, own, free=None if free is None else free[part])
            for part, own in zip(parts, each, strict=True)
        ]
        return np.concatenate(counts)
