"""What agents share that plan from released counts themselves, not from samples of a posterior."""

from abc import ABC

import numpy as np

from privrl.agents.rewards import BetaPosterior, KnownRewards
from privrl.agents.setup import TabularSetup
from privrl.agents.tabular import TabularAgent
from privrl.files.shown import shown
from privrl.numerics.randomness import secret_rng
from privrl.numerics.typing import BoolArray, FloatArray, IntArray
from privrl.samplers.base import Posterior
from privrl.samplers.noisy_counts import NoisyPosterior

NOISE_ENDS = 4.0
"""Deviations above which a count is taken to be more than noise: one cell of pure noise in 30,000
is. A next state that noise invented costs more than one that is overlooked, for it may be the best
of all, and is never seen not to be."""


_HALF_A_VISIT = 0.5  # what is less is noise, however small that is


class CountsAgent(TabularAgent, ABC):
    """Plan from noisy counts and the size of their noise, both released.

    Parameters
    ----------
    setup : TabularSetup
        See `TabularAgent`. The sampler is `NoisyCounts` or `NonPrivate`; the
        rewards are `KnownRewards`, or `BetaRewards` or `NoisyRewards` with such a sampler.

    Raises
    ------
    ValueError
        If a sampler releases something else than counts.
    """

    needs_counts = True
    side_by_side = True

    def __init__(self, setup: TabularSetup) -> None:
        super().__init__(setup)
        self._known = isinstance(self._rewards, KnownRewards)
        throwaway = secret_rng()  # there are no data yet: this shows the kind only
        self._check_released(
            self._sampler.fresh().update(self._new.counts, throwaway),
            self._rewards.fresh().update(self._new.rewards, throwaway),
        )

    def _plan_to_deploy(self) -> IntArray:
        return self.behaviour

    @property
    def _valid(self) -> BoolArray:
        """Which cells of the transition table stand for a next state."""
        if self.support is not None:
            return self.support.valid
        return np.ones((1, 1, self.n_states + self.terminates), np.bool_)

    def _seen(self, transition: NoisyPosterior) -> FloatArray:
        """Return the counts that are more than noise, shape (..., S, A, K), and 0 elsewhere."""
        counts = transition.counts
        more = (counts > np.maximum(NOISE_ENDS * transition.deviation, _HALF_A_VISIT)) & self._valid
        return np.where(more, counts, 0.0)

    def _expected(self, rows: FloatArray, value: FloatArray) -> FloatArray:
        """Return the value expected after each action, shape (..., S, A)."""
        if self.support is None:
            flat = rows.reshape(*rows.shape[:-3], -1, rows.shape[-1])
            return (flat @ value[..., None]).reshape(*value.shape[:-1], *rows.shape[-3:-1])
        # Cells that stand for nothing have no probability, so any value will do.
        return np.einsum("...w,...w->...", rows, value[..., self.support.next_states])

    def _mean_reward(self, reward: Posterior, visits: FloatArray) -> FloatArray:
        """Return mean rewards, shape (..., S, A), where so many visits are known of.

        Of the two cells of a row, (r, 1 − r) for each reward, the difference is what is used: its
        noise is the least that n visits leave, and of n the transitions tell more.
        """
        if self._known:
            return reward.sample(self._rng)
        assert isinstance(reward, BetaPosterior)
        assert isinstance(reward.rows, NoisyPosterior)
        more = reward.rows.counts[..., 0] - reward.rows.counts[..., 1]
        mean = np.clip((1 + more / np.maximum(visits, 1.0)) / 2, 0.0, 1.0)
        return reward.low + (reward.high - reward.low) * mean

    def _reward_range(self, reward: Posterior) -> tuple[float, float]:
        """Return the least and the largest reward of a step, a public fact."""
        if isinstance(reward, BetaPosterior):
            return reward.low, reward.high
        known = reward.sample(self._rng)
        return float(known.min()), float(known.max())

    def _range_ahead(self, low: float, high: float) -> tuple[float, float]:
        """Return what a step that is still ahead can pay; an episode that is over pays nothing."""
        return (min(low, 0.0), max(high, 0.0)) if self.terminates else (low, high)

    def _check_released(self, transition: Posterior, reward: Posterior) -> None:
        if not isinstance(transition, NoisyPosterior):
            raise ValueError(
                "sampler must release counts and the size of their noise, as NoisyCounts "
                f"and NonPrivate do, got {shown(self._sampler)}."
            )
        ranged = isinstance(reward, BetaPosterior) and isinstance(reward.rows, NoisyPosterior)
        if not (self._known or ranged):
            raise ValueError(
                "rewards must be KnownRewards, or BetaRewards or NoisyRewards with NoisyCounts "
                f"or NonPrivate, got {type(self._rewards).__name__} without these."
            )
