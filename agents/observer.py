"""What an agent is told: steps, whole episodes or counts, checked and kept until they are released.

No agent sees an environment. What it is told wrongly is refused before it is in any table: that an
episode is one chain of at most so many steps is what the cost of a release rests on.
"""

import math
from dataclasses import dataclass
from itertools import chain
from operator import index as as_int
from typing import ClassVar, NamedTuple, Self

import numpy as np

from privrl.agents.setup import TabularSetup
from privrl.costs.base import BatchCost, Cost, NoPrivacy, tables_released
from privrl.costs.relations import DAMPED_REWARDS, Relation
from privrl.envs.support import Support
from privrl.files.fixed import fixed
from privrl.numerics.checks import check_is, plain_array
from privrl.numerics.processes import this_process
from privrl.numerics.randomness import as_rng
from privrl.numerics.typing import BoolArray, FloatArray, IntArray
from privrl.samplers.base import check_total

Entries = tuple[IntArray, FloatArray]  # cells of a flat table, and what is added to each


@dataclass(frozen=True, eq=False)
class Tally:
    """A table, and beside it entries that are still to be added up: fewer than half its cells.

    It never changes: `plus` returns another one. So whoever holds it has all or nothing of what
    was added, whenever they are interrupted. An addition takes time in proportion to what is
    added (times the logarithm of what waits), not to the table.

    Parameters
    ----------
    shape : tuple of int
        Of the table.
    table : array, shape (...), optional
        Sums so far, read-only; by default zeros.
    waiting : tuple of (cells, amounts)
        Entries by the order in which they came, each run of them more than twice as long as the
        next.
    """

    shape: tuple[int, ...]
    table: FloatArray | None = None
    waiting: tuple[Entries, ...] = ()

    def plus(self, cells: IntArray, amounts: FloatArray) -> Self:
        """Return the tally with amounts added to flat cells, each as often as it is named."""
        waiting = list(self.waiting)
        while waiting and len(waiting[-1][0]) <= 2 * len(cells):
            before = waiting.pop()
            cells = np.concatenate([before[0], cells])
            amounts = np.concatenate([before[1], amounts])
        waiting.append((cells, amounts))
        more = type(self)(self.shape, self.table, tuple(waiting))
        if 2 * sum(len(each) for each, _ in waiting) < math.prod(self.shape):
            return more
        return type(self)(self.shape, more.total)

    def plus_table(self, amounts: FloatArray) -> Self:
        """Return the tally with a whole table added, in the time that takes."""
        return type(self)(self.shape, _frozen(self.total + amounts))

    @property
    def total(self) -> FloatArray:
        """The table with all that was added, read-only."""
        if self.table is not None and not self.waiting:
            return self.table
        table = np.zeros(self.shape) if self.table is None else self.table.copy()
        for cells, amounts in self.waiting:
            np.add.at(table.reshape(-1), cells, amounts)
        return _frozen(table)


def _frozen(table: FloatArray) -> FloatArray:
    table.flags.writeable = False
    return table


class Transition(NamedTuple):
    """One step of an episode: what the agent saw, did, was paid and saw next."""

    state: int
    action: int
    reward: float
    next_state: int
    terminated: bool = False


class _New(NamedTuple):
    """What was observed since the last draw. It is exchanged whole, by one assignment.

    An interrupt between two would leave a step both counted and kept, to be counted once more.
    """

    transitions: Tally
    paid: Tally
    steps: list[tuple[int, int, float, int, bool]]  # not yet counted

    @property
    def counts(self) -> FloatArray:
        """Transition counts, shape (..., S, A, K), without the steps; added up at each call."""
        return self.transitions.total

    @property
    def rewards(self) -> FloatArray:
        """The table of rewards, likewise."""
        return self.paid.total


def counted_types() -> tuple[type, ...]:
    """Return of which types an observer's memory is, for checkpoints."""
    return (_New, Tally)


class Observer:
    """Count transitions and rewards, of one run or of several side by side.

    Parameters
    ----------
    setup : TabularSetup
        The sizes, the reward model and the randomness.
    """

    n_states: int = fixed()
    n_actions: int = fixed()
    horizon: int = fixed()
    batch_shape: tuple[int, ...] = fixed()
    terminates: bool = fixed()
    support: Support | None = fixed()

    remembered: ClassVar[tuple[str, ...]] = (
        "_rng", "_rewards", "_step", "_here", "_ended", "_new",
    )  # fmt: skip

    def __init__(self, setup: TabularSetup) -> None:
        check_is("setup", setup, TabularSetup, hint="TabularSetup(n_states, n_actions, horizon)")
        self.n_states, self.n_actions = setup.n_states, setup.n_actions
        self.horizon, self.batch_shape = setup.horizon, setup.batch_shape
        self.terminates, self.support = setup.terminates, setup.support
        self._rng, self._made_in = as_rng(setup.rng), this_process()
        if setup.rewards is None:
            raise ValueError("rewards must be a reward model, such as HatRewards, got None.")
        self._rewards = setup.rewards.fresh()
        # Remembered now: a cost that is paid once is None afterwards.
        self._uncovered = _without_arrival(self._rewards.cost)
        # Whether self-loops are damped: then an episode has to be one chain.
        self._damped = setup.is_damped or _damps(self._rewards.cost)
        self._step, self._here, self._ended = 0, -1, False  # of the episode
        table = (*self.batch_shape, self.n_states, self.n_actions)
        self._new = _New(Tally((*table, setup.cells)), Tally((*table, self._rewards.width)), [])

    @property
    def covers_arrival(self) -> bool:
        """Whether its guarantee, if it makes one, holds for rewards that are paid on arrival."""
        return self._uncovered is None

    def observe(self, seen: Transition) -> None:
        """Remember one transition of a single run.

        Raises
        ------
        ValueError
            If the agent is a batch, the episode has had ``horizon`` steps already or has
            terminated, a value is no single number or a state or action not a whole one, there is
            no such state or action, or self-loops are damped and the step does not start where
            the one before it ended: that an episode is one chain is what its cost rests on.
        """
        if self.batch_shape:
            raise ValueError(
                f"observe is for a single run, this agent has batch_shape={self.batch_shape}; "
                "tell it with observe_counts."
            )
        if self._step >= self.horizon:
            raise ValueError(
                f"an episode has at most {self.horizon} steps, the horizon of the agent; call "
                "begin_episode first."
            )
        if self._ended:
            raise ValueError(
                "an episode has no step after the one that terminated it; call begin_episode first."
            )
        state, action, reward, next_state, terminated = seen
        if not (
            type(state) is type(action) is type(next_state) is int
            and type(reward) is float
            and type(terminated) is bool
        ):
            state, action, reward, next_state, terminated = _plain(seen)
        if not 0 <= state < self.n_states:
            raise _no_such("state", self.n_states)
        if not 0 <= action < self.n_actions:
            raise _no_such("action", self.n_actions)
        if not 0 <= next_state < self.n_states:
            raise _no_such("next_state", self.n_states)
        if self._damped and self._here not in (-1, state):
            raise ValueError(
                "state must be the next_state of the step before, in one episode; tell the agent "
                "of every step, and call begin_episode where another episode begins."
            )
        # Last what enters the data: an interrupt may lose a step, but not its place in the episode.
        self._step, self._here, self._ended = self._step + 1, next_state, terminated
        # A plain tuple: the garbage collector need not look at it again and again.
        self._new.steps.append((state, action, reward, next_state, terminated))

    def observe_counts(
        self, counts: IntArray, reward: FloatArray, *, ends: BoolArray | None = None
    ) -> None:
        """Remember many transitions at once.

        Parameters
        ----------
        counts : array of int, shape (..., S, A, S), or (..., S, A, W) under a support
            How often each transition was made, in each run: sums over whole episodes, each one
            chain of states.
        reward : array, shape (S, A, S) or (S, A, 1), or (S, A, W) under a support
            What such a transition paid.
        ends : array of bool, shape (S,), optional
            For an agent whose episodes can terminate: in which states they have. Arriving there
            is "the episode is over", and what follows never happened. The agent has no support.

        Raises
        ------
        ValueError
            If the shapes are others, a count is negative or not whole, they sum to more than
            floats hold exactly, a reward lies outside its declared range, or rewards depend on
            the next state and the relation does not say what that means for them. Then none of
            it is remembered.
        """
        counts, reward = plain_array("counts", counts), plain_array("reward", reward)
        ends = None if ends is None else plain_array("ends", ends)
        old, table = self._new, self._new.transitions.shape
        if ends is not None:
            fits = ends.shape == (self.n_states,) and ends.dtype == np.bool_
            if not (self.terminates and self.support is None and fits):
                raise ValueError(
                    "ends must be given for each state of an agent with terminates=True and "
                    f"without a support, as bool, got {ends.dtype} of shape {ends.shape}."
                )
            table = (*table[:-1], self.n_states)
        if counts.shape != table:
            raise ValueError(
                f"counts must have shape {table}, got {counts.shape}; each run has its own data."
            )
        if not np.issubdtype(counts.dtype, np.integer) or counts.min() < 0:
            raise ValueError("counts must be whole numbers >= 0; check what was counted.")
        pairs = (self.n_states, self.n_actions)
        if reward.shape not in ((*pairs, 1), (*pairs, counts.shape[-1])):
            raise ValueError(
                f"reward must have shape {(*pairs, 1)} or {(*pairs, counts.shape[-1])}, got "
                f"{reward.shape}; say what each transition paid."
            )
        if reward.shape[-1] > 1:
            self.check_covers_arrival()
        if ends is not None:
            counts = np.where(ends[:, None, None], 0, counts)
        floats = counts.astype(np.float64)
        columns = np.arange(counts.shape[-1])
        following = columns if self.support is None else self.support.next_states
        if ends is not None:
            following = np.where(ends, self.n_states, columns)
        encoded = self._rewards.encode_counts(floats, reward, following, self._rng)
        _check_units(encoded, floats.sum(axis=-1))
        if ends is not None:
            over = floats[..., ends].sum(axis=-1, keepdims=True)
            floats = np.concatenate([np.where(ends, 0.0, floats), over], axis=-1)
        transitions, paid = old.transitions.plus_table(floats), old.paid.plus_table(encoded)
        check_total(transitions.total.max())
        self._new = _New(transitions, paid, old.steps)

    def check_covers_arrival(self) -> None:
        """Check that rewards may depend on the next state.

        `privrl.experiments.train` does so where an environment's public tables say
        that they do. An agent that is told of steps one by one cannot see it.

        Raises
        ------
        ValueError
            If rewards are private, and the relation does not say how they change then.
        """
        if self._uncovered is not None:
            raise ValueError(
                f"the relation {str(self._uncovered)!r} does not cover rewards that depend on the "
                "next state; make it with arrival_rewards=True."
            )

    def observe_steps(
        self,
        state: IntArray,
        action: IntArray,
        reward: FloatArray,
        next_state: IntArray,
        *,
        observed: BoolArray,
        terminated: BoolArray,
    ) -> None:
        """Remember whole episodes that were played side by side.

        Parameters
        ----------
        state, action, next_state : array of int, shape (T, E, ...)
            The steps, at most as many as the horizon has, of E episodes in each run.
        reward : array of float, shape (T, E, ...)
            What each step paid.
        observed : array of bool, shape (T, E, ...)
            True until the episode ends, and False from then on: whether there was such a step.
            Where it is False, the other arrays may hold anything.
        terminated : array of bool, shape (T, E, ...)
            Whether the episode ended there by the rules of the task, not by a time limit.

        Raises
        ------
        ValueError
            If shapes or types are others, an episode has more steps than the horizon or goes on
            after its end, there is no such state or action, a reward lies outside its declared
            range, or self-loops are damped and a step does not start where the one before it
            ended. Then none of it is remembered.
        """
        state, action, next_state, reward, observed, terminated = arrays = [
            plain_array(name, values)
            for name, values in (
                ("state", state),
                ("action", action),
                ("next_state", next_state),
                ("reward", reward),
                ("observed", observed),
                ("terminated", terminated),
            )
        ]
        shape, kinds = observed.shape, "".join(array.dtype.kind for array in arrays)
        if {array.shape for array in arrays} != {shape} or shape[2:] != self.batch_shape:
            raise ValueError(
                f"arrays must have one shape {('T', 'E', *self.batch_shape)}, steps by episodes by "
                f"runs, got {[array.shape for array in arrays]}; each run has its own data."
            )
        if len(shape) < 2 or shape[0] > self.horizon:
            raise ValueError(
                f"an episode has at most {self.horizon} steps, the horizon of the agent, got "
                f"arrays of shape {shape}."
            )
        if kinds.replace("u", "i") not in ("iiifbb", "iiiibb"):
            raise ValueError(
                "state, action and next_state must be integers, reward numbers, observed and "
                f"terminated bool, got {[str(array.dtype) for array in arrays]}."
            )
        if (observed[1:] & (~observed | terminated)[:-1]).any():
            raise ValueError(
                "observed must be False from an episode's end on; tell of each episode in a column "
                "of its own."
            )
        if self._damped and ((state[1:] != next_state[:-1]) & observed[1:]).any():
            raise ValueError(
                "state must be the next_state of the step before, in one episode; tell the agent "
                "of every step, and of each episode in a column of its own."
            )
        runs = np.arange(math.prod(self.batch_shape)).reshape(self.batch_shape)
        run = np.broadcast_to(runs, shape)[observed]
        state, action, following = (
            each[observed].astype(np.intp) for each in (state, action, next_state)
        )
        for name, index, size in (
            ("state", state, self.n_states),
            ("action", action, self.n_actions),
            ("next_state", following, self.n_states),
        ):
            if index.size:
                check_index(name, index.min(), size)
                check_index(name, index.max(), size)
        following = np.where(terminated[observed] & self.terminates, self.n_states, following)
        paid = reward[observed].astype(np.float64)
        encoded = self._rewards.encode(state, action, paid, following, self._rng)
        if self.support is not None:
            following = self.support.columns(state, action, following)
        row = (run * self.n_states + state) * self.n_actions + action
        self._new = self._with_steps(row, following, encoded, self._new.steps)

    def _begin(self) -> None:
        """Take the next step for the first of an episode."""
        self._step, self._here, self._ended = 0, -1, False  # -1: the chain may begin anywhere

    def _count_steps(self) -> None:
        """Enter the remembered steps into the tables, all of them or, on an error, none."""
        old = self._new
        if not old.steps:
            return
        # Floats hold all of it, and one row of them is quicker made than five arrays.
        flat = np.fromiter(chain.from_iterable(old.steps), np.float64, 5 * len(old.steps))
        whole: IntArray = flat.reshape(-1, 5)[:, [0, 1, 3, 4]].T.astype(np.intp)
        (state, action, following, terminated), paid = whole, flat[2::5]
        following = np.where(terminated & self.terminates, self.n_states, following)
        encoded = self._rewards.encode(state, action, paid, following, self._rng)
        if self.support is not None:
            following = self.support.columns(state, action, following)
        self._new = self._with_steps(state * self.n_actions + action, following, encoded, [])

    def _with_steps(
        self,
        row: IntArray,
        following: IntArray,
        encoded: FloatArray,
        steps: list[tuple[int, int, float, int, bool]],
    ) -> _New:
        """Return what is new with more steps, each in a cell of a row of all runs' tables."""
        _check_units(encoded, 1.0)
        old = self._new
        width = encoded.shape[-1]
        place = np.flatnonzero(encoded)
        cells = row[place // width] * width + place % width if width else place
        return _New(
            old.transitions.plus(row * old.transitions.shape[-1] + following, np.ones(len(row))),
            old.paid.plus(cells, encoded.reshape(-1)[place]),
            steps,
        )

    def _nothing(self) -> _New:
        return _New(Tally(self._new.transitions.shape), Tally(self._new.paid.shape), [])


def _without_arrival(cost: Cost | None) -> Relation | None:
    """Return the relation of a reward model that makes a claim, if not for rewards on arrival."""
    rows = cost.rows if isinstance(cost, BatchCost) else (cost,)
    for row in rows:
        if not (row is None or isinstance(row, NoPrivacy) or row.relation.covers_arrival):
            return row.relation
    return None


def _check_units(encoded: FloatArray, steps: FloatArray | float) -> None:
    """Check that each step adds at most 1 to its row of rewards, as the cost assumes."""
    if not (np.abs(encoded).sum(axis=-1) <= steps + 1e-9 * np.maximum(steps, 1)).all():
        raise ValueError(
            "a reward model must add at most 1 in all to a row for each step, and this one adds "
            "more; divide what encode and encode_counts return."
        )


def _damps(cost: Cost | None) -> bool:
    """Return whether a reward model's cost is stated for self-loops that are damped."""
    return cost is not None and DAMPED_REWARDS in tables_released(cost)


def _plain(seen: Transition) -> Transition:
    """Return a step in plain numbers: arrays could be written to later, and would broadcast."""
    for name, value in zip(Transition._fields, seen, strict=True):
        plain_array(name, value)
    state, action, reward, next_state, terminated = seen
    try:
        whole = [as_int(each) for each in (state, action, next_state)]
    except TypeError:
        whole = []
    if not whole or any(isinstance(each, bool) for each in (state, action, next_state)):
        raise ValueError(
            "state, action and next_state must be whole numbers, and one that was observed is "
            "not; convert them with int()."
        )
    if np.ndim(reward) or np.asarray(reward).dtype.kind not in "fiub" or np.ndim(terminated):
        raise ValueError(
            "reward must be a number and terminated True or False, and one that was observed is "
            "not; tell of steps side by side with observe_steps."
        )
    return Transition(whole[0], whole[1], float(reward), whole[2], bool(terminated))


def check_index(name: str, index: int, size: int) -> None:
    """Check the number of a state or action, without showing it."""
    if not 0 <= index < size:
        raise _no_such(name, size)


def _no_such(name: str, size: int) -> ValueError:
    return ValueError(f"{name} must be in 0..{size - 1}; number states and actions from 0.")
