"""Posterior sampling for reinforcement learning, private when its samplers are."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privrl._checks import check_count
from privrl.accounting import BudgetExceeded, RdpAccountant
from privrl.agents.rewards import RewardModel
from privrl.agents.schedules import EveryEpisode, Schedule
from privrl.envs.planning import plan
from privrl.relations import ReplaceEpisode
from privrl.releases import NoPrivacy
from privrl.samplers import Posterior, Sampler, check_table, draw
from privrl.special import FloatArray

IntArray = NDArray[np.intp]


class Transition(NamedTuple):
    """One step of an episode: what the agent saw, did, was paid and saw next."""

    state: int
    action: int
    reward: float
    next_state: int
    terminated: bool = False


class PSRL:
    """Draw a model from the posterior, follow its best policy, draw again when the schedule says.

    Finite horizon, time-homogeneous model (Osband, Russo and Van Roy, 2013). The agent sees no
    environment: it is told what happened (`observe`), and its policy is computed from released
    tables alone.

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

    Raises
    ------
    ValueError
        If a size is not a whole number of at least 1, or the samplers state what they cost for
        another table, or for shorter episodes.
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
    ) -> None:
        self.n_states = check_count("n_states", n_states)
        self.n_actions = check_count("n_actions", n_actions)
        self.horizon = check_count("horizon", horizon)
        self.batch_shape = tuple(check_count("batch_shape", size) for size in batch_shape)
        self.terminates = terminates
        self.schedule = EveryEpisode() if schedule is None else schedule
        self.accountant = RdpAccountant() if accountant is None else accountant
        check_table("sampler", sampler, "transitions")
        self._check_relation(sampler, rewards)
        self._sampler = sampler.fresh()
        self._rewards = rewards.fresh()
        self._rng = rng
        self._draws = 0
        self._step = 0
        self._policy: IntArray | None = None
        self._steps: list[Transition] = []
        table = (*self.batch_shape, n_states, n_actions)
        self._new_counts: FloatArray = np.zeros((*table, n_states + terminates))
        self._new_rewards: FloatArray = np.zeros((*table, self._rewards.width))

    @property
    def draws(self) -> int:
        """How often the agent has drawn."""
        return self._draws

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
        self._step = 0
        if not self.schedule.is_due(episode) and self._policy is not None:
            return
        self._count_steps()
        counts, rewards = self._new_counts, self._new_rewards
        # Handed over for good: whatever goes wrong in a draw, no count is released twice.
        self._new_counts, self._new_rewards = np.zeros_like(counts), np.zeros_like(rewards)
        try:
            transition, reward = draw(
                self.accountant, [(self._sampler, counts), (self._rewards, rewards)], self._rng
            )
        except BudgetExceeded:  # nothing was drawn, so they wait for a larger budget
            self._new_counts, self._new_rewards = counts, rewards
            raise
        self._draws += 1
        self._follow(transition, reward)

    def act(self, state: int, step: int) -> int:
        """Return the action for a state at a step of the episode (the first is 0)."""
        return int(self.policy[..., step, state])

    def observe(self, seen: Transition) -> None:
        """Remember one transition of a single run.

        Raises
        ------
        ValueError
            If the agent is a batch, the episode has had ``horizon`` steps already, or there is
            no such state or action.
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
        _check_index("state", seen.state, self.n_states)
        _check_index("action", seen.action, self.n_actions)
        _check_index("next_state", seen.next_state, self.n_states)
        self._step += 1
        self._steps.append(seen)

    def observe_counts(self, counts: NDArray[np.int64], reward: FloatArray) -> None:
        """Remember many transitions at once.

        Parameters
        ----------
        counts : array of int, shape (..., S, A, S)
            How often each transition was made, in each run.
        reward : array, shape (S, A, S) or (S, A, 1)
            What such a transition paid.

        Raises
        ------
        ValueError
            If the shapes are others, a count is negative or not whole, a reward lies outside
            its declared range, or rewards depend on the next state and the relation does not
            say what that means for them. Then none of it is remembered.
        """
        if counts.shape != self._new_counts.shape:
            raise ValueError(
                f"counts must have shape {self._new_counts.shape}, got {counts.shape}; each run "
                "has its own data."
            )
        if not np.issubdtype(counts.dtype, np.integer) or (counts < 0).any():
            raise ValueError("counts must be whole numbers >= 0; check what was counted.")
        cost = self._rewards.release
        if (
            reward.shape[-1] > 1
            and cost is not None
            and not isinstance(cost, NoPrivacy)
            and not cost.relation.covers_arrival
        ):
            raise ValueError(
                f"the relation {str(cost.relation)!r} does not cover rewards that depend on the "
                "next state; make it with arrival_rewards=True."
            )
        floats = counts.astype(np.float64)
        encoded = self._rewards.encode_counts(floats, reward, self._rng)
        self._new_counts += floats
        self._new_rewards += encoded

    def _follow(self, transition: Posterior, reward: Posterior) -> None:
        """Plan for one sample of the released posteriors."""
        # Without its last cell, "over", a row sums to less than 1: what is lost is worth nothing.
        rows = transition.sample(self._rng)[..., : self.n_states]
        self._policy, _ = plan(rows, reward.sample(self._rng), self.horizon)

    def _check_relation(self, *samplers: Sampler) -> None:
        """Check that a relation about whole episodes is about episodes as long as these."""
        for cost in (sampler.release for sampler in samplers):
            relation = None if cost is None else cost.relation
            if isinstance(relation, ReplaceEpisode) and relation.horizon < self.horizon:
                raise ValueError(
                    f"relation must be about episodes of at least {self.horizon} steps, got "
                    f"{str(relation)!r}; use ReplaceEpisode({self.horizon})."
                )

    def _count_steps(self) -> None:
        """Enter the remembered steps into the tables, all of them or, on an error, none."""
        if not self._steps:
            return
        state, action, paid, following, terminated = map(np.asarray, zip(*self._steps, strict=True))
        following = np.where(terminated & self.terminates, self.n_states, following)
        encoded = self._rewards.encode(paid.astype(np.float64), self._rng)
        np.add.at(self._new_counts, (state, action, following), 1.0)
        np.add.at(self._new_rewards, (state, action), encoded)
        self._steps.clear()


def _check_index(name: str, index: int, size: int) -> None:
    if not 0 <= index < size:
        raise ValueError(f"{name} must be in 0..{size - 1}, got {index!r}.")
