"""UCBVI: optimism where released counts leave room for it, private when its samplers are."""

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
"""Chance, over a whole run, that theory's bonus leaves some best value out."""


class UCBVI(CountsAgent):
    """Add to the value of every action what its released counts leave open, and follow the best.

    Upper confidence bound value iteration (Azar, Osband and Munos, 2017), finite horizon,
    time-homogeneous model. The samplers decide whose agent it is: `NonPrivate` is the original
    without privacy; `NoisyCounts` the central model, joint differential privacy (Vietri, Balle,
    Krishnamurthy and Wu, 2020; Chowdhury and Zhou, 2022; Qiao and Wang, 2023), or with `LocalNoise`
    the local one (Garcelon, Perchet, Pike-Burke and Pirotta, 2021). The bonus is wider by what
    noise of the public size may have done.

    Parameters
    ----------
    setup : TabularSetup
        See `CountsAgent`.
    bonus : float, optional
        Multiplies every width of the confidence sets, > 0. With theory's constants, which are
        those of 1, all values are upper bounds with probability 0.95 over the whole run, and a
        private agent learns next to nothing in thousands of episodes. By default it is
        ``1 / H²``, theory's for bandits and less for all else; no theorem covers it.

    Raises
    ------
    ValueError
        If ``bonus`` is not positive, or a sampler releases something else than counts.

    Notes
    -----
    Let a row have n visits, counts N in its W cells, and be released as ``N + Z`` at draw k,
    with Z of standard deviation d in each cell. Let x be what is above `NOISE_ENDS` deviations,
    K cells that sum to m, and 0 in the others; the estimate is ``x / m``. (A row with none is
    unknown, and its value the most that there can be.) Let v be the best values of the next
    states, numbers that depend on no data and lie in a range of width D, and p the truth. Then

        (x/m − p)·v  =  Σ (x − N)(v − N·v/n) / m  +  (N/n − p)·v.

    In the K cells ``x − N`` is Z. For any fixed K cells Σ Z v and Σ Z are Gaussian, however the
    data depend on earlier noise, so with v counted from the middle of its range these cells add
    at most ``D d √(2 K L_K)`` to the sum, and with ``L_K = L(k) + K log W`` it is so for all sets
    of K cells. The others lose ``Σ N = n − Σ N`` over the K, at most
    ``Σ (N + Z)`` over the others, or 0 if that is less, plus ``d √(2 W L(k)) + d √(2 K L_K)``.
    The second term is at least ``−D √(L(n) / 2n)`` (Hoeffding). In place of n, which is private,
    stands ``max(1, Σ (N + Z) − d √(2 W L(k)))``, no more than n if there was a visit; if there was
    none, it is 1, and ``D √(L(1) / 2)`` covers whatever v can be. Rewards have rows of W = 2 cells
    that are kept whatever they hold: their estimate is ``y / M`` with ``y = max(N + Z, 0)``, what
    it lacks to 1 spread evenly, and the first term is at most ``|Z|₁ / M``, where
    ``|Z|₁ <= d (W √(2/π) + √(2 W L(k)))`` (Gaussian concentration).

    With ``L(i) = log(20 S A H i² / 0.05)`` everything holds at once, for transitions and rewards,
    all states, actions, steps, visits and draws, with probability 0.95: for each of them there are
    fewer than twelve ways to fail, of chance ``exp(−L)`` each (the sets of K cells, which are at
    most ``W^K / K!``, count as two), and ``12 Σ 1 / (20 i²) < 1``. So, with steps numbered from 1,

        Q_h = min(cap_h, y/M + b_r (high − low) + (x/m)·max Q_{h+1} + b (H − h) (high − low)),
        b   = bonus (√(L(n) / 2n) + (2 d √(2 K L_K) + d √(2 W L(k)) + lost) / m),
        b_r = bonus (√(L(n) / 2n) + d (2 √(2/π) + √(4 L(k))) / M)

    is at least the best value, by induction. ``lost`` is what the other cells hold in sum, at
    least 0; ``b_r`` is 0 where rewards are known; ``cap_h`` is what the steps left can pay. Where
    an episode can end, the range of what is ahead includes 0.

    Why ``1 / H²``: theory allows the values of all next states to differ by ``H − h`` rewards, at
    each of H steps, and so promises an episode ``H² / 2`` widths. At the default all steps together
    promise half a width, where a bandit's single step has one. A constant would be right for one
    horizon only.
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
        """Values of actions, bonuses included, shape (..., H, S, A); the policy takes the best."""
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
        """Return next states' probabilities, shape (..., S, A, K), and the b of each row."""
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
        """Return mean rewards, bonuses included, shape (..., S, A)."""
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
