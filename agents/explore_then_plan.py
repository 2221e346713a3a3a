"""Explore, release once, plan: the least that an agent's last policy has to be worth."""

from collections.abc import Sequence

import numpy as np

from privrl.agents.from_counts import CountsAgent
from privrl.agents.schedules import Once, Schedule
from privrl.numerics.typing import IntArray
from privrl.samplers.base import Posterior
from privrl.samplers.noisy_counts import NoisyPosterior


class ExploreThenPlan(CountsAgent):
    """Act uniformly at random until the first draw; then plan for what was seen, and nothing else.

    The whole budget buys one release, with the least noise there can be, of as many episodes as
    there are. What reward-free exploration, with theory, does better is where to go: uniform
    actions learn what they reach, and no more.

    Parameters
    ----------
    setup : TabularSetup
        See `CountsAgent`. Its schedule is usually `Once`, before the last episode: the policy is
        then made from all others.

    Notes
    -----
    A next state is taken for possible if its noisy count is above `NOISE_ENDS` deviations, and
    the counts of those that are, divided by their sum, are their probabilities. Rows without one
    are unknown, and are planned for at their worst: the least reward in all steps that are left.
    So the plan leads where counts show that it does, or nowhere.
    """

    look = ("#D55E00", "X", "-")
    has_own_schedule = True

    @classmethod
    def schedule_of(cls, name: str, episodes: int, *, private: bool) -> Schedule:
        """Return the schedule that draws before the last episode, whatever is named."""
        del name, private
        return Once(episodes - 1)

    def starts(self, episodes: int) -> Sequence[int]:
        """Return the episodes, of a run of so many, before which the policy may change."""
        return sorted({0, *self.schedule.starts(episodes)})

    def _plan(self, transition: Posterior, reward: Posterior) -> IntArray:
        assert isinstance(transition, NoisyPosterior)
        rows = self._seen(transition)
        visits = rows.sum(axis=-1)
        rows /= np.where(visits > 0, visits, 1.0)[..., None]
        seen = visits > 0
        if self._known_rows is not None:
            rows = self._with_public_facts(rows)
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
