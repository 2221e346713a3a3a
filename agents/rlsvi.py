"""RLSVI: plan for rewards with noise that shrinks with visits, and what it is said to hide."""

import math

import numpy as np

from privrl.agents.from_counts import CountsAgent
from privrl.agents.setup import TabularSetup
from privrl.files.fixed import fixed
from privrl.numerics.checks import check_between, check_count, check_positive
from privrl.numerics.typing import IntArray
from privrl.samplers.base import Posterior
from privrl.samplers.noisy_counts import NoisyPosterior


class RLSVI(CountsAgent):
    """Add Gaussian noise to mean rewards, more where visits are few, and follow the best policy.

    Randomised least-squares value iteration for tables (Osband, Van Roy and Wen, 2016; Russo, 2019,
    whose noise it is), with rows that were never seen at the most there can be, and values clipped
    to it (Agrawal, Chen and Jiang, 2021). Its noise explores. That it hides as well is claimed
    elsewhere (`rlsvi_claimed_epsilon`); here an agent is as private as its samplers.

    Parameters
    ----------
    setup : TabularSetup
        See `CountsAgent`.
    variance_scale : float, optional
        Multiplies the noise's variance, > 0. The paper's is that of 1, with which nothing is
        learned in thousands of episodes. By default it is ``1 / (S H⁵)``: over H steps noise of
        one action adds up to that of a bandit's reward, as for `UCBVI`; no theorem covers it.

    Raises
    ------
    ValueError
        If ``variance_scale`` is not positive, or a sampler releases something else than counts.

    Notes
    -----
    With n visits of a state and action, as released, R the range of rewards, and at draw k, its
    mean reward gets noise of variance ``R² β / (n + 1)``, ``β = variance_scale S H³ log(2 H S A k)
    / 2``, the same at all steps: the model is one for all of them, where Russo has one for each.
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
            rows = self._with_public_facts(rows)
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
    """Return the (epsilon, delta) that a paper claims for RLSVI's own noise, for nothing.

    *Randomized least squares value iteration itself is joint differentially private* (arXiv
    2606.01952): ``x + 2 √(x log(1/δ))`` with ``x = 2 A K / (H² log(2 H S A))``, joint differential
    privacy of K episodes, each a person's, under noise of ``variance_scale=1``. It is the paper's
    claim, and not privrl's: no accountant here knows of it. It grows with the episodes: 6 states, 2
    actions and 20 steps have an epsilon of 71 after 20,000 of them, at ``delta=1e-5``.

    Parameters
    ----------
    n_states, n_actions, horizon, episodes : int
        S, A, H and K.
    delta : float
        In (0, 1).

    Returns
    -------
    float
        The epsilon that is claimed, in nats.

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
