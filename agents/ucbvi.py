"""UCBVI: optimism where released counts leave room for it, private when its samplers are."""

import math
from typing import Any

import numpy as np

from privrl._checks import check_positive
from privrl._typing import BoolArray, FloatArray, IntArray
from privrl.agents.rewards import BetaPosterior, KnownRewards
from privrl.agents.tabular import TabularAgent
from privrl.samplers.base import Posterior
from privrl.samplers.noisy_counts import NoisyPosterior

_FAILURE = 0.05
"""Chance, over a whole run, that theory's bonus leaves some best value out."""


class UCBVI(TabularAgent):
    """Add to the value of every action what its released counts leave open, and follow the best.

    Upper confidence bound value iteration (Azar, Osband and Munos, 2017), finite horizon,
    time-homogeneous model. The samplers decide whose agent it is: `NonPrivate` is the original
    without privacy; `NoisyCounts` the central model, joint differential privacy (Vietri, Balle,
    Krishnamurthy and Wu, 2020; Chowdhury and Zhou, 2022; Qiao and Wang, 2023), or with `LocalNoise`
    the local one (Garcelon, Perchet, Pike-Burke and Pirotta, 2021). The bonus is wider by what
    noise of the public size may have done.

    Parameters
    ----------
    n_states, n_actions, horizon, **options
        See `TabularAgent`. The sampler is `NoisyCounts` or `NonPrivate`; the
        rewards are `KnownRewards`, or `BetaRewards` or `NoisyRewards` with such a sampler.
    bonus : float
        Multiplies every width of the confidence sets, > 0. With theory's constants, which are
        those of 1, all values are upper bounds with probability 0.95 over the whole run, and a
        private agent learns next to nothing in thousands of episodes. The default was tuned on
        RiverSwim; no theorem covers it.

    Raises
    ------
    ValueError
        If ``bonus`` is not positive, or a sampler releases something else than counts.

    Notes
    -----
    Let a row have n visits, counts N in its W cells, and be released as ``N + Z`` at draw k,
    with Z of standard deviation d in each cell. Its estimate is ``x / m``, where
    ``x = max(N + Z, 0)`` sums to m; what it lacks to 1 is spread evenly. Let v be the best
    values of the next states, numbers that depend on no data and lie in a range of width D, and
    p the truth. Then

        (x/m − p)·v  =  Σ (x − N)(v − N·v/n) / m  +  (N/n − p)·v.

    The first term is at most ``D |Z|₁ / m`` in size, however the data depend on earlier noise,
    and ``|Z|₁ <= d (W √(2/π) + √(2 W L(k)))`` (Gaussian concentration); the second is at least
    ``−D √(L(n) / 2n)`` (Hoeffding). In place of n, which is private, stands
    ``max(1, Σ (N + Z) − d √(2 W L(k)))``, no more than n if there was a visit; if there was none
    or something was spread, it is 1, and ``D √(L(1) / 2)`` covers whatever v can be. With
    ``L(i) = log(10 S A H i² / 0.05)`` everything holds at once, for transitions and rewards, all
    states, actions, steps, visits and draws, with probability 0.95: it fails with at most
    ``0.05 Σ 6 / (10 i²)``. So, with steps numbered from 1,

        Q_h = min(cap_h, x_r/m_r + b_r (high − low) + (x/m)·max Q_{h+1} + b (H − h) (high − low)),
        b   = bonus (√(L(n) / 2n) + d (W √(2/π) + √(2 W L(k))) / m)

    is at least the best value, by induction. ``b_r`` is the same for the rewards' row of W = 2
    cells, and 0 where they are known; ``cap_h`` is what the steps left can pay. Where an episode
    can end, the range of what is ahead includes 0.
    """

    def __init__(
        self, n_states: int, n_actions: int, horizon: int, *, bonus: float = 0.003, **options: Any
    ) -> None:
        super().__init__(n_states, n_actions, horizon, **options)
        self.bonus = check_positive("bonus", bonus, "1 is theory's, less explores less")
        self._upper_values: FloatArray | None = None
        self._known = isinstance(self._rewards, KnownRewards)
        throwaway = np.random.default_rng()  # there are no data yet: this shows the kind only
        self._check_released(
            self._sampler.fresh().update(self._new.counts, throwaway),
            self._rewards.fresh().update(self._new.rewards, throwaway),
        )

    @property
    def upper_values(self) -> FloatArray:
        """Values of actions, bonuses included, shape (..., H, S, A); the policy takes the best."""
        if self._upper_values is None:
            raise ValueError("upper_values do not exist yet; call begin_episode(0) first.")
        return self._upper_values

    def _plan(self, transition: Posterior, reward: Posterior) -> IntArray:
        assert isinstance(transition, NoisyPosterior)
        rows, width = self._estimate(transition, self._valid)
        if self._known_rows is not None:
            rows = self._with_public_facts(rows)
            width = np.where(np.isnan(self._known_rows).any(axis=-1), width, 0.0)
        gain, low, high = self._upper_reward(reward)
        # An episode that is over earns nothing more.
        least, most = (min(low, 0.0), max(high, 0.0)) if self.terminates else (low, high)
        values = np.empty((*self.batch_shape, self.horizon, self.n_states, self.n_actions))
        following = np.zeros((*self.batch_shape, self.n_states + self.terminates))
        for step in reversed(range(self.horizon)):
            ahead = self.horizon - 1 - step
            upper = gain + self._expected(rows, following) + ahead * (most - least) * width
            values[..., step, :, :] = np.minimum(upper, high + ahead * most)
            following[..., : self.n_states] = values[..., step, :, :].max(axis=-1)
        self._upper_values = values
        return values.argmax(axis=-1)

    @property
    def _valid(self) -> BoolArray:
        """Which cells of the transition table stand for a next state."""
        if self.support is not None:
            return self.support.valid
        return np.ones((1, 1, self.n_states + self.terminates), np.bool_)

    def _expected(self, rows: FloatArray, value: FloatArray) -> FloatArray:
        """Return the value expected after each action, shape (..., S, A)."""
        if self.support is None:
            return np.einsum("...sax,...x->...sa", rows, value)
        # Cells that stand for nothing have no probability, so any value will do.
        return np.einsum("...w,...w->...", rows, value[..., self.support.next_states])

    def _upper_reward(self, reward: Posterior) -> tuple[FloatArray, float, float]:
        """Return mean rewards, bonuses included, shape (..., S, A), and their range."""
        if self._known:
            known = reward.sample(self._rng)
            return known, float(known.min()), float(known.max())
        assert isinstance(reward, BetaPosterior)
        assert isinstance(reward.rows, NoisyPosterior)
        rows, width = self._estimate(reward.rows, np.ones(2, np.bool_))
        upper = reward.low + (reward.high - reward.low) * (rows[..., 0] + width)
        return upper, reward.low, reward.high

    def _estimate(
        self, released: NoisyPosterior, valid: BoolArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return probabilities, shape (..., S, A, K), and the b that goes with each row."""
        cells, deviation = valid.sum(axis=-1), released.deviation.max(axis=-1)
        counts = released.counts * valid
        positive = np.maximum(counts, 0.0)
        total = positive.sum(axis=-1)
        missing = np.maximum(1 - total, 0.0) / cells
        total = np.maximum(total, 1.0)
        rows = (positive + missing[..., None] * valid) / total[..., None]
        tail = np.sqrt(2 * cells * self._log(self._draws))
        visits = np.maximum(counts.sum(axis=-1) - self.bonus * deviation * tail, 1.0)
        sampling = np.sqrt(self._log(visits) / (2 * visits))
        noise = deviation * (cells * math.sqrt(2 / math.pi) + tail) / total
        return rows, self.bonus * (sampling + noise)

    def _log(self, times: FloatArray | float) -> FloatArray:
        sizes = self.n_states * self.n_actions * self.horizon
        return np.log(10 * sizes / _FAILURE) + 2 * np.log(times)

    def _check_released(self, transition: Posterior, reward: Posterior) -> None:
        if not isinstance(transition, NoisyPosterior):
            raise ValueError(
                "sampler must release counts and the size of their noise, as NoisyCounts "
                f"and NonPrivate do, got {self._sampler!r}."
            )
        ranged = isinstance(reward, BetaPosterior) and isinstance(reward.rows, NoisyPosterior)
        if not (self._known or ranged):
            raise ValueError(
                "rewards must be KnownRewards, or BetaRewards or NoisyRewards with NoisyCounts "
                f"or NonPrivate, got {type(self._rewards).__name__} without these."
            )
