"""Base class of agents that plan from released counts, not from posterior samples."""

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
"""Standard deviations above which a count is considered more than noise; 1 in 30,000 cells of pure
noise exceeds them. A spurious next state is worse than a missed one: it may appear to be the best
state, and no data can refute it."""


_HALF_A_VISIT = 0.5  # smaller counts are noise, whatever its scale


class CountsAgent(TabularAgent, ABC):
    """Plan from released noisy counts and the public scale of their noise.

    Parameters
    ----------
    setup : TabularSetup
        See `TabularAgent`. The sampler is `NoisyCounts` or `NonPrivate`; the
        rewards are `KnownRewards`, or `BetaRewards` or `NoisyRewards` with such a sampler.

    Raises
    ------
    ValueError
        If a sampler does not release counts.
    """

    needs_counts = True
    side_by_side = True

    def __init__(self, setup: TabularSetup) -> None:
        super().__init__(setup)
        self._known = isinstance(self._rewards, KnownRewards)
        throwaway = secret_rng()  # without data yet, to check the type of the release
        self._check_released(
            self._sampler.fresh().update(self._new.counts, throwaway),
            self._rewards.fresh().update(self._new.rewards, throwaway),
        )

    def _plan_to_deploy(self) -> IntArray:
        return self.behaviour

    @property
    def _valid(self) -> BoolArray:
        """True in the cells of the transition table that have a next state."""
        if self.support is not None:
            return self.support.valid
        return np.ones((1, 1, self.n_states + self.terminates), np.bool_)

    def _seen(self, transition: NoisyPosterior) -> FloatArray:
        """Return the counts above the noise, shape (..., S, A, K), and 0 elsewhere."""
        counts = transition.counts
        more = (counts > np.maximum(NOISE_ENDS * transition.deviation, _HALF_A_VISIT)) & self._valid
        return np.where(more, counts, 0.0)

    def _expected(self, rows: FloatArray, value: FloatArray) -> FloatArray:
        """Return the expected next value of each action, shape (..., S, A)."""
        if self.support is None:
            flat = rows.reshape(*rows.shape[:-3], -1, rows.shape[-1])
            return (flat @ value[..., None]).reshape(*value.shape[:-1], *rows.shape[-3:-1])
        # Cells without a next state have probability 0, so that their values do not matter.
        return np.einsum("...w,...w->...", rows, value[..., self.support.next_states])

    def _mean_reward(self, reward: Posterior, visits: FloatArray) -> FloatArray:
        """Return mean rewards, shape (..., S, A), given the numbers of visits.

        The two cells of a row sum (r, 1 − r) over the rewards. Only their difference is used,
        since the transitions give a better estimate of the number of visits than their sum.
        """
        if self._known:
            return reward.sample(self._rng)
        assert isinstance(reward, BetaPosterior)
        assert isinstance(reward.rows, NoisyPosterior)
        more = reward.rows.counts[..., 0] - reward.rows.counts[..., 1]
        mean = np.clip((1 + more / np.maximum(visits, 1.0)) / 2, 0.0, 1.0)
        return reward.low + (reward.high - reward.low) * mean

    def _reward_range(self, reward: Posterior) -> tuple[float, float]:
        """Return the public range of the rewards of a step."""
        if isinstance(reward, BetaPosterior):
            return reward.low, reward.high
        known = reward.sample(self._rng)
        return float(known.min()), float(known.max())

    def _range_ahead(self, low: float, high: float) -> tuple[float, float]:
        """Return the range of rewards of a future step; after the end of an episode it is 0."""
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
