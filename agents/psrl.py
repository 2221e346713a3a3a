"""Posterior sampling for reinforcement learning, private when its samplers are."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privrl._checks import check_count
from privrl.accounting import RdpAccountant
from privrl.agents.rewards import RewardModel
from privrl.agents.schedules import EveryEpisode, Schedule
from privrl.envs.planning import plan
from privrl.samplers import Posterior, Sampler, draw
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
        Leading axes of independent runs, each with its own data and policy; the samplers'
        parameters broadcast against them.
    terminates : bool
        Whether an episode can end before the horizon. If so, every row of the transition table
        has one more cell, "the episode is over", worth nothing from there on.

    Raises
    ------
    ValueError
        If a size is not a whole number of at least 1.
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
        self._sampler = sampler.fresh()
        self._rewards = rewards.fresh()
        self._rng = rng
        self._draws = 0
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
        if not self.schedule.is_due(episode) and self._policy is not None:
            return
        self._count_steps()
        batches = [(self._sampler, self._new_counts), (self._rewards, self._new_rewards)]
        transition, reward = draw(self.accountant, batches, self._rng)
        self._new_counts = np.zeros_like(self._new_counts)
        self._new_rewards = np.zeros_like(self._new_rewards)
        self._draws += 1
        self._follow(transition, reward)

    def act(self, state: int, step: int) -> int:
        """Return the action for a state at a step of the episode (the first is 0)."""
        return int(self.policy[..., step, state])

    def observe(self, seen: Transition) -> None:
        """Remember one transition of a single run."""
        self._steps.append(seen)

    def observe_counts(self, counts: NDArray[np.int64], reward: FloatArray) -> None:
        """Remember many transitions at once.

        Parameters
        ----------
        counts : array of int, shape (..., S, A, S)
            How often each transition was made, in each run.
        reward : array, shape (S, A, S) or (S, A, 1)
            What such a transition paid.
        """
        self._new_counts += counts
        if self._rewards.width:
            self._new_rewards += self._rewards.encode_counts(
                counts.astype(np.float64), reward, self._rng
            )

    def _follow(self, transition: Posterior, reward: Posterior) -> None:
        """Plan for one sample of the released posteriors."""
        # Without its last cell, "over", a row sums to less than 1: what is lost is worth nothing.
        rows = transition.sample(self._rng)[..., : self.n_states]
        self._policy, _ = plan(rows, reward.sample(self._rng), self.horizon)

    def _count_steps(self) -> None:
        """Enter the remembered steps into the tables, all of them or, on an error, none."""
        if not self._steps:
            return
        state, action, paid, following, terminated = map(np.asarray, zip(*self._steps, strict=True))
        _check_index("state", state, self.n_states)
        _check_index("action", action, self.n_actions)
        _check_index("next_state", following, self.n_states)
        following = np.where(terminated & self.terminates, self.n_states, following)
        encoded = self._rewards.encode(paid.astype(np.float64), self._rng)
        np.add.at(self._new_counts, (state, action, following), 1.0)
        np.add.at(self._new_rewards, (state, action), encoded)
        self._steps.clear()


def _check_index(name: str, index: IntArray, size: int) -> None:
    wrong = index[(index < 0) | (index >= size)]
    if wrong.size:
        raise ValueError(f"{name} must be in 0..{size - 1}, got {wrong[0]}.")
