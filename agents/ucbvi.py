"""UCBVI: optimism under uncertainty, private if its samplers are."""

import math

import numpy as np

from privrl.agents.from_counts import CountsAgent
from privrl.agents.rewards import BetaPosterior
from privrl.agents.setup import TabularSetup, with_public_facts
from privrl.files.fixed import fixed
from privrl.numerics.checks import check_positive
from privrl.numerics.typing import FloatArray, IntArray
from privrl.samplers.base import Posterior
from privrl.samplers.noisy_counts import NoisyPosterior

_FAILURE = 0.05
"""Failure probability of the confidence sets over a whole run, with theory's bonus."""


class UCBVI(CountsAgent):
    """Act greedily for upper confidence bounds of the values, computed from released counts.

    Upper confidence bound value iteration (Azar, Osband and Munos, 2017), finite horizon,
    time-homogeneous model. The samplers determine the model of privacy: `NonPrivate` gives the
    original algorithm; `NoisyCounts` gives joint differential privacy in the central model (Vietri,
    Balle, Krishnamurthy and Wu, 2020; Chowdhury and Zhou, 2022; Qiao and Wang, 2023), or with
    `LocalNoise` in the local model (Garcelon, Perchet, Pike-Burke and Pirotta, 2021). The bonus
    also covers noise of the public scale.

    Parameters
    ----------
    setup : TabularSetup
        See `CountsAgent`.
    bonus : float, optional
        Multiplies every width of the confidence sets, > 0. With 1, as in theory, all values are
        upper bounds with probability 0.95 over the whole run, but a private agent learns hardly
        anything in thousands of episodes. The default is ``1 / H²``: as in theory for bandits, and
        less for longer horizons. No theorem covers it.

    Raises
    ------
    ValueError
        If ``bonus`` is not positive, or a sampler does not release counts.

    Notes
    -----
    Let a row have n visits, counts N in its W cells, and be released as ``N + Z`` at draw k,
    with Z of standard deviation d in each cell. Let x equal the released counts in the K cells
    above `NOISE_ENDS` deviations, with sum m, and 0 in the others; the estimate is ``x / m``. (If K
    is 0, the row is unknown and has the largest possible value.) Let v be the optimal values of the
    next states, which do not depend on data and have a range of width D, and p the true
    probabilities. Then

        (x/m − p)·v  =  Σ (x − N)(v − N·v/n) / m  +  (N/n − p)·v.

    In the K cells ``x − N`` is Z. For any fixed K cells Σ Z v and Σ Z are Gaussian, however the
    data depend on earlier noise. With v centred in its range, these cells therefore add at most
    ``D d √(2 K L_K)`` to the sum; with ``L_K = L(k) + K log W`` this holds for all sets of K cells.
    The other cells lose ``Σ N``, that is n minus the sum over the K cells. It is at most the
    positive part of ``Σ (N + Z)`` over the other cells, plus ``d √(2 W L(k)) + d √(2 K L_K)``.
    The second term is at least ``−D √(L(n) / 2n)`` (Hoeffding). The private n is replaced by
    ``max(1, Σ (N + Z) − d √(2 W L(k)))``, which is at most n if n >= 1. If n is 0, it is 1, and
    ``D √(L(1) / 2)`` covers every possible v. Rewards have rows of W = 2 cells without a threshold:
    their estimate is ``y / M`` with ``y = max(N + Z, 0)``, with any deficit to 1 divided evenly.
    The first term is then at most ``|Z|₁ / M``, where ``|Z|₁ <= d (W √(2/π) + √(2 W L(k)))``
    (Gaussian concentration).

    With ``L(i) = log(20 S A H i² / 0.05)`` all bounds hold simultaneously with probability 0.95,
    for transitions and rewards, all states, actions, steps, visits and draws. Each combination has
    fewer than twelve failure events of probability ``exp(−L)`` (the at most ``W^K / K!`` sets of K
    cells count as two), and ``12 Σ 1 / (20 i²) < 1``. So, with steps numbered from 1,

        Q_h = min(cap_h, y/M + b_r (high − low) + (x/m)·max Q_{h+1} + b (H − h) (high − low)),
        b   = bonus (√(L(n) / 2n) + (2 d √(2 K L_K) + d √(2 W L(k)) + lost) / m),
        b_r = bonus (√(L(n) / 2n) + d (2 √(2/π) + √(4 L(k))) / M)

    is an upper bound of the optimal value, by induction. ``lost`` is the positive part of the sum
    of the other cells; ``b_r`` is 0 if rewards are known; ``cap_h`` is the largest sum of the
    remaining rewards. If episodes can terminate, the range of future rewards includes 0.

    Why ``1 / H²``: in theory the values of the next states may differ by ``H − h`` rewards at each
    of H steps, so that the bonuses of an episode sum to ``H² / 2`` widths. With the default they
    sum to half a width; the single step of a bandit has one width. A constant default would suit
    one horizon only.
    """

    look = ("#009E73", "P", "-")
    remembered = ("_upper_values",)
    bonus: float = fixed()

    def __init__(self, setup: TabularSetup, *, bonus: float | None = None) -> None:
        super().__init__(setup)
        wanted = 1 / self.horizon**2 if bonus is None else bonus
        self.bonus = check_positive("bonus", wanted, "1 is theory's, less explores less")
        self._upper_values: FloatArray | None = None

    @property
    def upper_values(self) -> FloatArray:
        """Upper bounds of the values of actions, shape (..., H, S, A)."""
        if self._upper_values is None:
            raise ValueError("upper_values do not exist yet; call begin_episode(0) first.")
        return self._upper_values

    def _plan(self, transition: Posterior, reward: Posterior) -> IntArray:
        assert isinstance(transition, NoisyPosterior)
        rows, width = self._rows(transition)
        unknown = rows.sum(axis=-1) == 0
        if self._known_rows is not None:
            known = ~np.isnan(self._known_rows).any(axis=-1)
            unknown, width = unknown & ~known, np.where(known, 0.0, width)
            rows = with_public_facts(rows, self.support, self._known_rows)
        gain = self._upper_reward(reward)
        low, high = self._reward_range(reward)
        least, most = self._range_ahead(low, high)
        values = np.empty((*self.batch_shape, self.horizon, self.n_states, self.n_actions))
        following = np.zeros((*self.batch_shape, self.n_states + self.terminates))
        for step in reversed(range(self.horizon)):
            ahead = self.horizon - 1 - step
            upper = gain + self._expected(rows, following) + ahead * (most - least) * width
            cap = high + ahead * most
            values[..., step, :, :] = np.where(unknown, cap, np.minimum(upper, cap))
            following[..., : self.n_states] = values[..., step, :, :].max(axis=-1)
        self._upper_values = values
        return values.argmax(axis=-1)

    def _rows(self, released: NoisyPosterior) -> tuple[FloatArray, FloatArray]:
        """Return transition probabilities, shape (..., S, A, K), and the bonus b of each row."""
        cells, deviation = self._valid.sum(axis=-1), released.deviation.max(axis=-1)
        seen = self._seen(released)
        all_cells = (released.counts * self._valid).sum(axis=-1)
        total, kept = seen.sum(axis=-1), (seen > 0).sum(axis=-1)
        lost = np.maximum(all_cells - total, 0.0)
        log = self._log(self._draws)
        tail = deviation * np.sqrt(2 * cells * log)
        noise = 2 * deviation * np.sqrt(2 * kept * (log + kept * np.log(cells)))
        visits = np.maximum(all_cells - self.bonus * tail, 1.0)
        total = np.where(kept > 0, total, 1.0)
        sampling = np.sqrt(self._log(visits) / (2 * visits))
        return seen / total[..., None], self.bonus * (sampling + (noise + tail + lost) / total)

    def _upper_reward(self, reward: Posterior) -> FloatArray:
        """Return mean rewards plus bonuses, shape (..., S, A)."""
        if self._known:
            return reward.sample(self._rng)
        assert isinstance(reward, BetaPosterior)
        assert isinstance(reward.rows, NoisyPosterior)
        counts, deviation = reward.rows.counts, reward.rows.deviation.max(axis=-1)
        positive = np.maximum(counts, 0.0)
        total = positive.sum(axis=-1)
        share = (positive[..., 0] + np.maximum(1 - total, 0.0) / 2) / np.maximum(total, 1.0)
        tail = math.sqrt(4 * float(self._log(self._draws)))
        visits = np.maximum(counts.sum(axis=-1) - self.bonus * deviation * tail, 1.0)
        sampling = np.sqrt(self._log(visits) / (2 * visits))
        noise = deviation * (2 * math.sqrt(2 / math.pi) + tail) / np.maximum(total, 1.0)
        return reward.low + (reward.high - reward.low) * (share + self.bonus * (sampling + noise))

    def _log(self, times: FloatArray | float) -> FloatArray:
        sizes = self.n_states * self.n_actions * self.horizon
        return np.log(20 * sizes / _FAILURE) + 2 * np.log(times)
