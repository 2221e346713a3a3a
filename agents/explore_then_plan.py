"""Explore at random, release once, then plan: a baseline for final policies."""

from collections.abc import Sequence

import numpy as np

from privrl.agents.from_counts import CountsAgent
from privrl.agents.schedules import Once, Schedule
from privrl.agents.setup import with_public_facts
from privrl.numerics.typing import IntArray
from privrl.samplers.base import Posterior
from privrl.samplers.noisy_counts import NoisyPosterior


class ExploreThenPlan(CountsAgent):
    """Act uniformly at random until the first draw, then plan for the observed transitions only.

    The whole budget is spent on one release of all episodes, which minimises the noise.
    Reward-free exploration chooses better where to explore: uniformly random actions learn only
    about the states that they reach.

    Parameters
    ----------
    setup : TabularSetup
        See `CountsAgent`. The schedule is usually `Once` before the last episode, so that the
        release covers all earlier episodes.

    Notes
    -----
    A next state is possible if its noisy count exceeds `NOISE_ENDS` standard deviations. The
    probabilities of possible states are their counts divided by the sum. Rows without possible
    states are unknown. The plan assumes the worst case for them: the least reward in all remaining
    steps. It therefore relies only on observed transitions.
    """

    look = ("#D55E00", "X", "-")
    has_own_schedule = True

    @classmethod
    def schedule_of(cls, name: str, episodes: int, *, private: bool) -> Schedule:
        """Return a schedule with one draw before the last episode; the name is ignored."""
        del name, private
        return Once(episodes - 1)

    def starts(self, episodes: int) -> Sequence[int]:
        """Return the episodes below ``episodes`` before which the policy may change, sorted."""
        return sorted({0, *self.schedule.starts(episodes)})

    def _plan(self, transition: Posterior, reward: Posterior) -> IntArray:
        assert isinstance(transition, NoisyPosterior)
        rows = self._seen(transition)
        visits = rows.sum(axis=-1)
        rows /= np.where(visits > 0, visits, 1.0)[..., None]
        seen = visits > 0
        if self._known_rows is not None:
            rows = with_public_facts(rows, self.support, self._known_rows)
            seen = seen | ~np.isnan(self._known_rows).any(axis=-1)
        gain = self._mean_reward(reward, visits)
        low, high = self._reward_range(reward)
        least, _ = self._range_ahead(low, high)
        policy = np.empty((*self.batch_shape, self.horizon, self.n_states), np.intp)
        following = np.zeros((*self.batch_shape, self.n_states + self.terminates))
        for step in reversed(range(self.horizon)):
            ahead = self.horizon - 1 - step
            value = np.where(seen, gain + self._expected(rows, following), low + ahead * least)
            policy[..., step, :] = value.argmax(axis=-1)
            following[..., : self.n_states] = value.max(axis=-1)
        return policy
