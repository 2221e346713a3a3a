"""Posterior sampling for reinforcement learning, private when its samplers are."""

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from privrl._typing import IntArray
from privrl.agents.private import private_agent
from privrl.agents.schedules import Schedule, check_schedule
from privrl.agents.sparse_psrl import SparsePSRL
from privrl.agents.tabular import TabularAgent
from privrl.costs.relations import Relation
from privrl.envs.support import Support
from privrl.envs.tabular import TabularMDP
from privrl.samplers.base import Posterior


class PSRL(TabularAgent):
    """Draw a model from the posterior, follow its best policy, draw again when the schedule says.

    Finite horizon, time-homogeneous model (Osband, Russo and Van Roy, 2013).

    Parameters
    ----------
    n_states, n_actions, horizon, **options
        See `TabularAgent`.
    resamples : Schedule, optional
        Before which episodes, beside those of a draw, to sample the released posterior again
        and plan afresh: free, and it changes something where the posterior is more than the one
        draw made of it, as that of `privrl.samplers.NoisyCounts` is.
    """

    def __init__(
        self,
        n_states: int,
        n_actions: int,
        horizon: int,
        *,
        resamples: Schedule | None = None,
        **options: Any,
    ) -> None:
        super().__init__(n_states, n_actions, horizon, **options)
        self.resamples = None if resamples is None else check_schedule("resamples", resamples)

    @staticmethod
    def private(
        env: gym.Env[Any, Any] | TabularMDP,
        *,
        epsilon: float,
        episodes: int,
        order: float = 2.0,
        relation: Relation | None = None,
        support: Support | None = None,
        rng: np.random.Generator | None = None,
    ) -> SparsePSRL:
        """Return the agent to start with: all that can be chosen is, from public facts alone.

        Parameters
        ----------
        env : gymnasium.Env or TabularMDP
            Is read for what is public of it: sizes, horizon, range of the rewards, whether they
            can depend on the next state (`privrl.envs.public_facts`). No step is taken.
        epsilon : float
            What the whole run may spend, in Rényi divergence of the order (nats), > 0: two thirds
            for transitions, one third for rewards.
        episodes : int
            How many there will be, a public number.
        order : float
            Of the Rényi divergence, > 1.
        relation : Relation, optional
            What is hidden; by default one step. `privrl.costs.ReplaceEpisode` is for a person's
            whole episode.
        support : Support, optional
            Which next states are possible, if that is public.
        rng : numpy.random.Generator, optional
            The agent's randomness; by default fresh.

        Returns
        -------
        SparsePSRL
            To be trained, with `privrl.experiments.train` or step by step.

        Raises
        ------
        ValueError
            If spaces are not Discrete (`privrl.envs.numbered` mends that), or a value is out of
            range.
        """
        return private_agent(
            env,
            epsilon=epsilon,
            episodes=episodes,
            order=order,
            relation=relation,
            support=support,
            rng=rng,
        )

    def starts(self, episodes: int) -> Sequence[int]:
        """Return the episodes, of a run of so many, before which the policy may change."""
        draws = self.schedule.starts(episodes)
        if self.resamples is None:
            return draws
        return sorted({*draws, *self.resamples.starts(episodes)})

    def _plan(self, transition: Posterior, reward: Posterior) -> IntArray:
        return self._best_policy(transition.sample(self._rng), reward.sample(self._rng))

    def _between_draws(self, episode: int) -> None:
        if self.resamples is not None and self.resamples.is_due(episode) and self._released:
            self._follow(self._plan(*self._released))
