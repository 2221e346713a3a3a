"""Observations of agents: steps, episodes or counts, checked and stored until release.

Agents have no access to environments. Invalid observations are refused before they enter a table:
the cost of a release assumes that an episode is one chain of at most ``horizon`` steps.
"""

import math
from dataclasses import dataclass
from itertools import chain
from operator import index as as_int
from threading import RLock
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from privrl.agents.setup import TabularSetup
from privrl.costs.base import BatchCost, Cost, NoPrivacy, tables_released
from privrl.costs.relations import DAMPED_REWARDS, Relation
from privrl.envs.support import Support
from privrl.files.fixed import fixed
from privrl.numerics.cells import Cells
from privrl.numerics.checks import check_is, plain_array
from privrl.numerics.dirichlet_rows import row_sums
from privrl.numerics.processes import this_process
from privrl.numerics.randomness import as_rng, own_rng
from privrl.numerics.typing import BoolArray, FloatArray, IntArray
from privrl.samplers.base import check_total

Entries = tuple[IntArray, FloatArray]  # cells of a flat table, and the amounts to add


@dataclass(frozen=True, eq=False)
class Tally:
    """An immutable table with pending additions, fewer than half the number of its cells.

    `plus` returns a new tally, so that an interruption cannot leave an addition half done. The time
    of an addition is proportional to its size (times the logarithm of the number of pending
    entries), not to the size of the table.

    Parameters
    ----------
    shape : tuple of int
        Shape of the table.
    table : array, shape (...), optional
        Sums so far, read-only; by default zeros.
    waiting : tuple of (cells, amounts)
        Pending entries in order of arrival. Each block is more than twice as long as the next.
    """

    shape: tuple[int, ...]
    table: FloatArray | None = None
    waiting: tuple[Entries, ...] = ()

    def plus(self, cells: IntArray, amounts: FloatArray) -> Self:
        """Return the tally with amounts added to flat cells; cells may repeat."""
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
        """Return the tally with a whole table added."""
        return type(self)(self.shape, _frozen(self.total + amounts))

    @property
    def is_empty(self) -> bool:
        """Whether all sums are 0."""
        begun = self.table is not None and bool(self.table.any())
        return not begun and not any(amounts.any() for _, amounts in self.waiting)

    @property
    def filled(self) -> Cells:
        """The filled cells with all additions, without making the table."""
        nothing = Cells(self.shape, np.empty(0, np.intp), np.empty(0))
        cells = nothing if self.table is None else Cells.of(self.table)
        for places, amounts in self.waiting:
            cells = cells.plus(Cells.added(self.shape, places, amounts))
        return cells

    @property
    def total(self) -> FloatArray:
        """The table with all additions, read-only."""
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
    """One step of an episode: state, action, reward, next state and whether it terminated."""

    state: int
    action: int
    reward: float
    next_state: int
    terminated: bool = False


class _New(NamedTuple):
    """Observations since the last draw, replaced as a whole by one assignment.

    With several assignments, an interrupt between them could leave a step to be counted twice.
    """

    transitions: Tally
    paid: Tally
    steps: list[tuple[int, int, float, int, bool]]  # not yet counted

    @property
    def counts(self) -> FloatArray:
        """Transition counts, shape (..., S, A, K), without the steps; added up at each call."""
        return self.transitions.total

    @property
    def is_empty(self) -> bool:
        """Whether both tables are."""
        return self.transitions.is_empty and self.paid.is_empty

    @property
    def rewards(self) -> FloatArray:
        """The reward table, without the steps; added up at each call."""
        return self.paid.total


def counted_types() -> tuple[type, ...]:
    """Return the types of an observer's state, for checkpoints."""
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
        self._rng, self._made_in, self._lock = own_rng(as_rng(setup.rng)), this_process(), RLock()
        if setup.rewards is None:
            raise ValueError("rewards must be a reward model, such as HatRewards, got None.")
        self._rewards = setup.rewards.fresh()
        # Computed now: a cost that is charged only once is None afterwards.
        self._uncovered = _without_arrival(self._rewards.cost)
        # If self-loops are damped, an episode must be one chain.
        self._damped = setup.is_damped or _damps(self._rewards.cost)
        self._step, self._here, self._ended = 0, -1, False  # in the episode
        table = (*self.batch_shape, self.n_states, self.n_actions)
        self._new = _New(Tally((*table, setup.cells)), Tally((*table, self._rewards.width)), [])

    @property
    def covers_arrival(self) -> bool:
        """Whether the guarantee, if any, covers rewards that depend on the next state."""
        return self._uncovered is None

    def observe(self, seen: Transition) -> None:
        """Record one transition of a single run.

        Raises
        ------
        ValueError
            If the agent is a batch, the episode has terminated or already has ``horizon`` steps,
            or a value has the wrong type or is out of range. If self-loops are damped, also if the
            step does not start in the next state of the previous one, since the cost assumes that
            an episode is one chain.
        """
        if self.batch_shape:
            raise ValueError(
                f"observe is for a single run, this agent has batch_shape={self.batch_shape}; "
                "use observe_counts."
            )
        # All checks of the episode, and the change of it, come at once, after all conversions: what
        # runs in between, such as another thread, could record a step too many.
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
        with self._lock:
            if self._step >= self.horizon:
                raise ValueError(
                    f"an episode has at most {self.horizon} steps, the horizon of the agent; call "
                    "begin_episode first."
                )
            if self._ended:
                raise ValueError(
                    "an episode has no step after the one that terminated it; call begin_episode "
                    "first."
                )
            if self._damped and self._here not in (-1, state):
                raise ValueError(
                    "state must be the next_state of the step before in an episode; pass every "
                    "step to the agent, and call begin_episode at the start of each episode."
                )
            # The data come last: an interrupt may lose a step, but not its position.
            self._step, self._here, self._ended = self._step + 1, next_state, terminated
            # A plain tuple, which the garbage collector can untrack.
            self._new.steps.append((state, action, reward, next_state, terminated))

    def observe_counts(
        self, counts: IntArray, reward: FloatArray, *, ends: BoolArray | None = None
    ) -> None:
        """Record many transitions at once.

        Parameters
        ----------
        counts : array of int, shape (..., S, A, S), or (..., S, A, W) under a support
            Counts of each transition in each run, summed over whole episodes. Each episode is one
            chain of states.
        reward : array, shape (S, A, S) or (S, A, 1), or (S, A, W) under a support
            Reward of each transition.
        ends : array of bool, shape (S,), optional
            States in which episodes terminate, for an agent with ``terminates=True`` and without a
            support. Arriving there counts as "the episode is over", and later steps are ignored.

        Raises
        ------
        ValueError
            If a shape is wrong, a count is negative or not an integer, sums exceed the integers
            that floats represent exactly, a reward is outside its declared range, or rewards
            depend on the next state and the relation does not cover this. Nothing is recorded
            then.
        """
        counts, reward = plain_array("counts", counts), plain_array("reward", reward)
        ends = None if ends is None else plain_array("ends", ends)
        table = self._new.transitions.shape
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
        if reward.dtype.kind not in "biuf":  # an error of NumPy's would show one
            raise ValueError(f"reward must be an array of numbers, got {_kind(reward)}.")
        pairs = (self.n_states, self.n_actions)
        if reward.shape not in ((*pairs, 1), (*pairs, counts.shape[-1])):
            raise ValueError(
                f"reward must have shape {(*pairs, 1)} or {(*pairs, counts.shape[-1])}, got "
                f"{reward.shape}; pass the reward of each transition."
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
        _check_units(encoded, row_sums(floats)[..., 0])
        if ends is not None:
            over = floats[..., ends].sum(axis=-1, keepdims=True)
            floats = np.concatenate([np.where(ends, 0.0, floats), over], axis=-1)
        with self._lock:  # or a draw of another thread could release what is added to, twice
            old = self._new
            transitions, paid = old.transitions.plus_table(floats), old.paid.plus_table(encoded)
            check_total(transitions.total.max())
            self._new = _New(transitions, paid, old.steps)

    def check_covers_arrival(self) -> None:
        """Check that the guarantee covers rewards that depend on the next state.

        `privrl.experiments.train` calls it if an environment's public tables have such rewards.
        Single steps do not show whether they do.

        Raises
        ------
        ValueError
            If rewards are private and the relation does not cover such rewards.
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
        """Record whole episodes that were played side by side.

        Parameters
        ----------
        state, action, next_state : array of int, shape (T, E, ...)
            Up to ``horizon`` steps of E episodes in each run.
        reward : array of float, shape (T, E, ...)
            Reward of each step.
        observed : array of bool, shape (T, E, ...)
            True until the episode ends, then False. Where it is False, the values of the other
            arrays are ignored.
        terminated : array of bool, shape (T, E, ...)
            Whether the step ended the episode by the rules of the task, not by a time limit.

        Raises
        ------
        ValueError
            If a shape or type is wrong, an episode has more steps than the horizon or has steps
            after its end, a state or action is out of range, or a reward is outside its declared
            range. If self-loops are damped, also if a step does not start in the next state of the
            previous one. Nothing is recorded then.
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
                f"terminated bool, got {list(map(_kind, arrays))}."
            )
        if (observed[1:] & (~observed | terminated)[:-1]).any():
            raise ValueError(
                "observed must be False from an episode's end on; put each episode in a separate "
                "column."
            )
        if self._damped and ((state[1:] != next_state[:-1]) & observed[1:]).any():
            raise ValueError(
                "state must be the next_state of the step before in an episode; pass every step to "
                "the agent, and each episode in a separate column."
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
        with np.errstate(all="ignore"):  # a warning would tell of longer floats
            paid = reward[observed].astype(np.float64)
        encoded = self._rewards.encode(paid, following == state, self._rng)
        if self.support is not None:
            following = self.support.columns(state, action, following)
        row = (run * self.n_states + state) * self.n_actions + action
        with self._lock:  # as in observe_counts
            self._new = self._with_steps(row, following, encoded, self._new.steps)

    def _begin(self) -> None:
        """Start a new episode."""
        self._step, self._here, self._ended = 0, -1, False  # -1: the chain may begin anywhere

    def _count_steps(self) -> None:
        """Add the buffered steps to the tables; on an error, add none."""
        old = self._new
        if not old.steps:
            return
        # Floats represent all fields exactly; one array is faster than five.
        flat = np.fromiter(chain.from_iterable(old.steps), np.float64, 5 * len(old.steps))
        whole: IntArray = flat.reshape(-1, 5)[:, [0, 1, 3, 4]].T.astype(np.intp)
        (state, action, following, terminated), paid = whole, flat[2::5]
        following = np.where(terminated & self.terminates, self.n_states, following)
        encoded = self._rewards.encode(paid, following == state, self._rng)
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
        """Return the observations with more steps, given by rows and cells of all runs' tables."""
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
    """Return the relation of a private reward model that does not cover rewards on arrival."""
    rows = cost.rows if isinstance(cost, BatchCost) else (cost,)
    for row in rows:
        if not (row is None or isinstance(row, NoPrivacy) or row.relation.covers_arrival):
            return row.relation
    return None


def _check_units(encoded: FloatArray, steps: FloatArray | float) -> None:
    """Check that each step adds at most 1 to its row of rewards, as the cost assumes.

    And nothing below 0: amounts of both signs could move farther apart.
    """
    most = steps + 1e-9 * np.maximum(steps, 1)
    if not ((encoded >= 0).all() and (encoded.sum(axis=-1) <= most).all()):
        raise ValueError(
            "a reward model must add at most 1 in all to a row for each step, and no amount below "
            "0, and this one does otherwise; scale the results of encode and encode_counts."
        )


def _damps(cost: Cost | None) -> bool:
    """Return whether the cost of a reward model is for damped self-loops."""
    return cost is not None and DAMPED_REWARDS in tables_released(cost)


def _plain(seen: Transition) -> Transition:
    """Return a step as plain numbers, since arrays could change later or broadcast."""
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
    if any(np.ndim(each) or np.asarray(each).dtype.kind not in "fiub" for each in seen[2::2]):
        raise ValueError(
            "reward must be a number and terminated True or False, and one that was observed is "
            "not; use observe_steps for steps side by side."
        )
    return Transition(whole[0], whole[1], float(reward), whole[2], bool(terminated))


def _kind(array: NDArray[Any]) -> str:
    """Return the type of an array's entries without the length of its longest text."""
    return array.dtype.type.__name__


def check_index(name: str, index: int, size: int) -> None:
    """Check the index of a state or action; the error does not show it."""
    if not 0 <= index < size:
        raise _no_such(name, size)


def _no_such(name: str, size: int) -> ValueError:
    return ValueError(f"{name} must be in 0..{size - 1}; number states and actions from 0.")
