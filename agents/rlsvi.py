"""RLSVI: exploration by noisy rewards, and a published privacy claim for it."""

import math

import numpy as np

from privrl.agents.from_counts import CountsAgent
from privrl.agents.setup import TabularSetup, with_public_facts
from privrl.files.fixed import fixed
from privrl.numerics.checks import check_between, check_count, check_positive
from privrl.numerics.typing import IntArray
from privrl.samplers.base import Posterior
from privrl.samplers.noisy_counts import NoisyPosterior


class RLSVI(CountsAgent):
    """Add Gaussian noise to mean rewards, more for rarely visited rows, and plan.

    Tabular randomised least-squares value iteration (Osband, Van Roy and Wen, 2016), with the noise
    of Russo (2019). Unvisited rows have the largest possible value, and values are clipped to it
    (Agrawal, Chen and Jiang, 2021). The noise serves exploration. A paper claims that it also
    gives privacy (`rlsvi_claimed_epsilon`); here an agent is as private as its samplers.

    Parameters
    ----------
    setup : TabularSetup
        See `CountsAgent`.
    variance_scale : float, optional
        Multiplies the variance of the noise, > 0. The paper uses 1, with which the agent learns
        nothing in thousands of episodes. The default is ``1 / (S H⁵)``: over H steps the noise of
        one action then adds up to that of a bandit's reward, as in `UCBVI`. No theorem covers it.

    Raises
    ------
    ValueError
        If ``variance_scale`` is not positive, or a sampler does not release counts.

    Notes
    -----
    Let n be the released number of visits of a state and action, and R the range of rewards. At
    draw k the noise of the mean reward has variance ``R² β / (n + 1)``, with ``β = variance_scale
    S H³ log(2 H S A k) / 2``. One model serves all steps; Russo uses one per step.
    """

    look = ("#CC79A7", "p", "-")
    variance_scale: float = fixed()

    def __init__(self, setup: TabularSetup, *, variance_scale: float | None = None) -> None:
        super().__init__(setup)
        wanted = 1 / (self.n_states * self.horizon**5) if variance_scale is None else variance_scale
        self.variance_scale = check_positive("variance_scale", wanted, "1 is theory's")

    def _plan(self, transition: Posterior, reward: Posterior) -> IntArray:
        assert isinstance(transition, NoisyPosterior)
        rows = self._seen(transition)
        visits = rows.sum(axis=-1)
        unknown = visits == 0
        rows /= np.where(unknown, 1.0, visits)[..., None]
        if self._known_rows is not None:
            rows = with_public_facts(rows, self.support, self._known_rows)
            unknown = unknown & np.isnan(self._known_rows).any(axis=-1)
        low, high = self._reward_range(reward)
        least, most = self._range_ahead(low, high)
        sizes = self.n_states * self.n_actions * self.horizon
        beta = self.n_states * self.horizon**3 * math.log(2 * sizes * self._draws) / 2
        deviation = (high - low) * np.sqrt(self.variance_scale * beta / (visits + 1))
        gain = self._mean_reward(reward, visits)
        gain = gain + deviation * self._rng.standard_normal(visits.shape)
        policy = np.empty((*self.batch_shape, self.horizon, self.n_states), np.intp)
        following = np.zeros((*self.batch_shape, self.n_states + self.terminates))
        for step in reversed(range(self.horizon)):
            ahead = self.horizon - 1 - step
            cap, floor = high + ahead * most, low + ahead * least
            value = np.clip(gain + self._expected(rows, following), floor, cap)
            value = np.where(unknown, cap, value)
            policy[..., step, :] = value.argmax(axis=-1)
            following[..., : self.n_states] = value.max(axis=-1)
        return policy


def rlsvi_claimed_epsilon(
    n_states: int, n_actions: int, horizon: int, *, episodes: int, delta: float
) -> float:
    """Return the epsilon that a paper claims for the exploration noise of RLSVI.

    *Randomized least squares value iteration itself is joint differentially private* (arXiv
    2606.01952): ``x + 2 √(x log(1/δ))`` with ``x = 2 A K / (H² log(2 H S A))``, joint differential
    privacy of K episodes, one per person, with ``variance_scale=1``. This is the paper's claim;
    privrl's accountants do not use it. It grows with the number of episodes: 6 states, 2 actions
    and 20 steps have epsilon 71 after 20,000 episodes at ``delta=1e-5``.

    Parameters
    ----------
    n_states, n_actions, horizon, episodes : int
        S, A, H and K.
    delta : float
        In (0, 1).

    Returns
    -------
    float
        The claimed epsilon, in nats.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    check_between("delta", delta, 0, 1)
    S, A, H, K = (
        check_count(name, value)
        for name, value in (
            ("n_states", n_states), ("n_actions", n_actions),
            ("horizon", horizon), ("episodes", episodes),
        )
    )  # fmt: skip
    x = 2 * A * K / (H**2 * math.log(2 * H * S * A))
    return x + 2 * math.sqrt(x * math.log(1 / delta))
