"""What tabular agents share: they count, release by schedule, and plan from what was released.

An agent sees no environment: it is told what happened (`TabularAgent.observe`), and its policy is
computed from released tables alone. What distinguishes agents is how they plan.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from operator import index as as_int
from typing import Any, NamedTuple, Self, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from privrl._checks import check_count, check_rng
from privrl._typing import BoolArray, FloatArray, IntArray
from privrl.accounting.rdp import BudgetExceeded, RdpAccountant
from privrl.agents.rewards import RewardModel
from privrl.agents.schedules import EveryEpisode, Schedule, check_schedule
from privrl.costs.base import BatchCost, Cost, NoPrivacy
from privrl.costs.relations import Relation, ReplaceEpisode
from privrl.envs.planning import plan, plan_support
from privrl.envs.support import Support
from privrl.samplers.base import Posterior, Sampler, check_table, check_total, draw

_STEPS_AT_ONCE = 2**12  # steps kept one by one between episodes; more are counted, while in cache


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

    counts: FloatArray
    rewards: FloatArray
    steps: list[tuple[int, int, float, int, bool]]  # not yet counted


class TabularAgent(ABC):
    """Count transitions and rewards, release them when the schedule says, follow a policy.

    Parameters
    ----------
    n_states, n_actions, horizon : int
        Public facts of the task.
    sampler : Sampler
        Releases the transition counts. The agent works on a fresh copy.
    rewards : RewardModel
        Releases the rewards, or knows them. The agent works on a fresh copy.
    rng : numpy.random.Generator
        All of the agent's randomness.
    schedule : Schedule
        Before which episodes to draw.
    accountant : RdpAccountant, optional
        Is told of every draw before it is made, and holds the budget. By default one without
        a budget.
    batch_shape : tuple of int
        Leading axes of independent runs, each with data of its own (two runs on the same data
        would spend twice) and its own policy; the samplers' axes come first among them.
    terminates : bool
        Whether an episode can end before the horizon. If so, every row of the transition table
        has one more cell, "the episode is over", worth nothing from there on.
    support : Support, optional
        Which next states are possible, a public fact. Tables then have a cell for each of
        those only: fewer cells to learn, and less noise.
    known_rows : array, shape (S, A, K), optional
        Transition probabilities that are public, over the K cells of a row; NaN in rows that
        are to be learned.

    Raises
    ------
    ValueError
        If a size is not a whole number of at least 1, or another argument of the wrong kind; if
        the samplers state what they cost for another table, or for shorter episodes; or if the
        support or the known rows are of another size or no probabilities.

    Notes
    -----
    An agent that has observed or drawn anything is not copied: a copy would go on with what one
    has paid for, and enter its records once more. A copy of an unused one has samplers, an
    accountant and random numbers of its own. None is pickled: two that are loaded from one file
    would have the same noise, and what noise hides, their difference would show.
    """

    def __init__(
        self,
        n_states: int,
        n_actions: int,
        horizon: int,
        *,
        sampler: Sampler,
        rewards: RewardModel,
        rng: np.random.Generator,
        schedule: Schedule | None = None,
        accountant: RdpAccountant | None = None,
        batch_shape: tuple[int, ...] = (),
        terminates: bool = False,
        support: Support | None = None,
        known_rows: ArrayLike | None = None,
    ) -> None:
        self.n_states = check_count("n_states", n_states)
        self.n_actions = check_count("n_actions", n_actions)
        self.horizon = check_count("horizon", horizon)
        self.batch_shape = tuple(check_count("batch_shape", size) for size in batch_shape)
        if not isinstance(terminates, bool):
            raise ValueError(f"terminates must be True or False, got {terminates!r}.")
        check_rng(rng)
        self.terminates = terminates
        self.support = support
        self.schedule = check_schedule("schedule", EveryEpisode() if schedule is None else schedule)
        self.accountant = RdpAccountant() if accountant is None else accountant
        check_table("sampler", sampler, "transitions")
        self._sampler = sampler.fresh()
        self._rewards = rewards.fresh()
        # Remembered now: what is paid for once tells no cost later on.
        costs = self._sampler.cost, self._rewards.cost
        self._check_relation(*costs)
        self._uncovered = _without_arrival(costs[1])
        self._rng = rng
        self._draws = 0
        self._step, self._here, self._ended = 0, -1, False  # of the episode; -1 before its start
        self._policy: IntArray | None = None
        self._actions: list[list[int]] | None = None  # the policy once more, quicker to look up
        table = (*self.batch_shape, n_states, n_actions)
        cells = n_states + terminates if support is None else self._check_support(support)
        self._damped = self._check_loops(sampler)
        self._known_rows = None if known_rows is None else self._check_rows(known_rows, cells)
        self._new = _New(np.zeros((*table, cells)), np.zeros((*table, self._rewards.width)), [])

    @property
    def sampler(self) -> Sampler:
        """A sampler of the transitions with the agent's settings that has seen nothing."""
        return self._sampler.fresh()

    @property
    def draws(self) -> int:
        """How often the agent has drawn."""
        return self._draws

    @property
    def covers_arrival(self) -> bool:
        """Whether its guarantee, if it makes one, holds for rewards that are paid on arrival."""
        return self._uncovered is None

    @property
    def policy(self) -> IntArray:
        """Actions by step and state, shape (..., H, S); post-processing of released tables."""
        if self._policy is None:
            raise ValueError("policy does not exist yet; call begin_episode(0) first.")
        return self._policy

    def begin_episode(self, episode: int) -> None:
        """Draw a new model and plan, if the schedule says so for this episode (the first is 0).

        Raises
        ------
        BudgetExceeded
            If the draw would exceed the accountant's budget; nothing is drawn or spent, and
            the policy stays as it was.
        ValueError
            If a reward observed since the last draw lies outside its declared range; likewise.
        """
        self._step, self._here, self._ended = 0, -1, False
        due = self.schedule.is_due(episode) or self._policy is None
        if due or len(self._new.steps) > _STEPS_AT_ONCE:
            self._count_steps()
        if not due:
            self._between_draws(episode)
            return
        new = self._new
        # Handed over for good: whatever goes wrong in a draw, no count is released twice.
        self._new = self._nothing()
        try:
            transition, reward = draw(
                self.accountant,
                [(self._sampler, new.counts), (self._rewards, new.rewards)],
                self._rng,
            )
        except BudgetExceeded:  # nothing was drawn, so they wait for a larger budget
            self._new = new
            raise
        self._draws += 1
        self._follow(self._plan(transition, reward))

    def act(self, state: int, step: int) -> int:
        """Return the action for a state at a step of the episode (the first is 0).

        Raises
        ------
        ValueError
            If the agent is a batch, or no episode has begun.
        """
        if self._actions is None:
            if self.batch_shape:
                raise ValueError(
                    f"act is for a single run, this agent has batch_shape={self.batch_shape}; "
                    "look its actions up in policy."
                )
            self._actions = self.policy.tolist()
        return self._actions[step][state]

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

    def observe_counts(self, counts: IntArray, reward: FloatArray) -> None:
        """Remember many transitions at once.

        Parameters
        ----------
        counts : array of int, shape (..., S, A, S), or (..., S, A, W) under a support
            How often each transition was made, in each run: sums over whole episodes, each one
            chain of states.
        reward : array, shape (S, A, S) or (S, A, 1), or (S, A, W) under a support
            What such a transition paid.

        Raises
        ------
        ValueError
            If the shapes are others, a count is negative or not whole, they sum to more than
            floats hold exactly, a reward lies outside its declared range, or rewards depend on
            the next state and the relation does not say what that means for them. Then none of
            it is remembered.
        """
        old, table = self._new, self._new.counts.shape
        if counts.shape != table:
            raise ValueError(
                f"counts must have shape {table}, got {counts.shape}; each run has its own data."
            )
        if not np.issubdtype(counts.dtype, np.integer) or counts.min() < 0:
            raise ValueError("counts must be whole numbers >= 0; check what was counted.")
        if reward.shape[-1] > 1:
            self.check_covers_arrival()
        floats = counts.astype(np.float64)
        encoded = self._rewards.encode_counts(floats, reward, self._rng)
        new = old._replace(counts=old.counts + floats, rewards=old.rewards + encoded)
        check_total(new.counts.max())
        self._new = new

    def check_covers_arrival(self) -> None:
        """Check that rewards may depend on the next state.

        `privrl.experiments.training.loop.train` does so where an environment's public tables say
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
        arrays = state, action, next_state, reward, observed, terminated
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
                _check_index(name, index.min(), size)
                _check_index(name, index.max(), size)
        following = np.where(terminated[observed] & self.terminates, self.n_states, following)
        if self.support is not None:
            following = self.support.columns(state, action, following)
        encoded = self._rewards.encode(reward[observed].astype(np.float64), self._rng)
        row = (run * self.n_states + state) * self.n_actions + action
        cells = row[:, None] * encoded.shape[-1] + np.arange(encoded.shape[-1])
        counts, rewards = self._new.counts.copy(), self._new.rewards.copy()
        np.add.at(counts.reshape(-1), row * counts.shape[-1] + following, 1.0)
        np.add.at(rewards.reshape(-1), cells.ravel(), encoded.ravel())
        self._new = self._new._replace(counts=counts, rewards=rewards)

    def starts(self, episodes: int) -> Sequence[int]:
        """Return the episodes, of a run of so many, before which the policy may change."""
        return self.schedule.starts(episodes)

    @abstractmethod
    def _plan(self, transition: Posterior, reward: Posterior) -> IntArray:
        """Return a policy, shape (..., H, S), from what was released."""

    def _follow(self, policy: IntArray) -> None:
        self._policy, self._actions = policy, None

    def _between_draws(self, episode: int) -> None:
        """Change the policy before an episode without a draw, if the agent does such things."""
        del episode  # by default it stays

    def _with_public_facts(self, rows: FloatArray) -> FloatArray:
        """Give sampled rows, shape (..., S, A, K), what is public: zeros, and whole rows."""
        if self.support is not None:
            valid = self.support.valid
            rows = np.where(valid, rows, 0.0)
            total = rows.sum(axis=-1, keepdims=True)
            # A draw may have put all its mass, to rounding, on cells that stand for nothing.
            rows = np.where(total > 0, rows, valid)
            rows /= rows.sum(axis=-1, keepdims=True)
        if self._known_rows is not None:
            rows = np.where(np.isnan(self._known_rows), rows, self._known_rows)
        return rows

    def _best_policy(self, rows: FloatArray, reward: FloatArray) -> IntArray:
        """Return the best policy for one sample of the released posteriors."""
        rows = self._with_public_facts(rows)
        if self.support is not None:
            return plan_support(rows, self.support, reward, self.horizon)[0]
        # Without its last cell, "over", a row sums to less than 1: what is lost is worth nothing.
        return plan(rows[..., : self.n_states], reward, self.horizon)[0]

    def _check_rows(self, known_rows: ArrayLike, cells: int) -> FloatArray:
        rows = np.array(known_rows, np.float64)
        shape = (self.n_states, self.n_actions, cells)
        if rows.shape != shape:
            raise ValueError(f"known_rows must have shape {shape}, got {rows.shape}.")
        known = rows[~np.isnan(rows).any(axis=-1)]
        whole = np.isnan(rows).any(axis=-1) == np.isnan(rows).all(axis=-1)
        if not whole.all() or not ((known >= 0).all() and np.allclose(known.sum(-1), 1, atol=1e-9)):
            raise ValueError(
                "known_rows must be probabilities that sum to 1, or NaN in the whole row; "
                "normalise them."
            )
        return rows

    def _check_loops(self, sampler: Sampler) -> bool:
        """Return whether a sampler damps self-loops, if it has them right.

        Its guarantee rests on them.
        """
        loops = getattr(sampler, "loops", None)
        if loops is None:
            return False
        mine = self_loops(
            self.n_states, self.n_actions, terminates=self.terminates, support=self.support
        )
        if not np.array_equal(loops, mine):
            raise ValueError(
                "sampler must have the loops of the agent's own transition table; make them with "
                "privrl.agents.self_loops."
            )
        return True

    def _check_support(self, support: Support) -> int:
        """Return the cells of a row, if the support fits the agent."""
        sizes = (*support.next_states.shape[:2], support.n_next)
        wanted = (self.n_states, self.n_actions, self.n_states + self.terminates)
        if sizes != wanted:
            raise ValueError(
                f"support must be for the agent's states, actions and next states, {wanted}, got "
                f"{sizes}."
            )
        return support.width

    def _check_relation(self, *costs: Cost | None) -> None:
        """Check that a relation about whole episodes is about episodes as long as these."""
        for cost in costs:
            relation = None if cost is None else cost.relation
            if isinstance(relation, ReplaceEpisode) and relation.horizon < self.horizon:
                raise ValueError(
                    f"relation must be about episodes of at least {self.horizon} steps, got "
                    f"{str(relation)!r}; use ReplaceEpisode({self.horizon})."
                )

    def _count_steps(self) -> None:
        """Enter the remembered steps into the tables, all of them or, on an error, none."""
        old = self._new
        if not old.steps:
            return
        state, action, paid, following, terminated = map(np.asarray, zip(*old.steps, strict=True))
        following = np.where(terminated & self.terminates, self.n_states, following)
        encoded = self._rewards.encode(paid, self._rng)
        if self.support is not None:
            following = self.support.columns(state, action, following)
        counts, rewards = old.counts.copy(), old.rewards.copy()
        np.add.at(counts, (state, action, following), 1.0)
        np.add.at(rewards, (state, action), encoded)
        self._new = _New(counts, rewards, [])

    def _nothing(self) -> _New:
        return _New(np.zeros_like(self._new.counts), np.zeros_like(self._new.rewards), [])

    def __copy__(self) -> Self:
        """Return an unused agent like this one, with random numbers of its own."""
        new = self._new
        if self._draws or self._step or new.steps or new.counts.any() or new.rewards.any():
            raise ValueError(
                "agent must not be copied once it has observed or drawn anything: its records "
                "would be released twice and paid for once. Make another one, which pays anew."
            )
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._sampler, other._rewards = self._sampler.fresh(), self._rewards.fresh()
        other.accountant, other._rng = copy(self.accountant), self._rng.spawn(1)[0]
        other._new = self._nothing()
        return other

    def __deepcopy__(self, memo: object) -> Self:
        return self.__copy__()

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        raise ValueError(
            "agent must not be pickled: all that are loaded from one file would have the same "
            "noise, and their difference would show what it hides. Make it where it is used."
        )


def _without_arrival(cost: Cost | None) -> Relation | None:
    """Return the relation of a reward model that makes a claim, if not for rewards on arrival."""
    rows = cost.rows if isinstance(cost, BatchCost) else (cost,)
    for row in rows:
        if not (row is None or isinstance(row, NoPrivacy) or row.relation.covers_arrival):
            return row.relation
    return None


def self_loops(
    n_states: int, n_actions: int, *, terminates: bool = False, support: Support | None = None
) -> BoolArray:
    """Return in which cells of a transition table a state follows itself, shape (S, A, K)."""
    if support is not None:
        return support.next_states == np.arange(n_states)[:, None, None]
    same = np.eye(n_states, n_states + terminates, dtype=np.bool_)
    return np.repeat(same[:, None], n_actions, axis=1)


def _plain(seen: Transition) -> Transition:
    """Return a step in plain numbers: arrays could be written to later, and would broadcast."""
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


def _check_index(name: str, index: int, size: int) -> None:
    if not 0 <= index < size:
        raise _no_such(name, size)


def _no_such(name: str, size: int) -> ValueError:
    return ValueError(f"{name} must be in 0..{size - 1}; number states and actions from 0.")
