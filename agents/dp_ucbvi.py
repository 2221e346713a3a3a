"""DP-UCBVI: optimism with Bernstein bonuses on projected private counts."""

import math

import numpy as np

from privrl.agents.from_counts import CountsAgent
from privrl.agents.setup import TabularSetup, with_public_facts
from privrl.files.fixed import fixed
from privrl.numerics.checks import check_positive
from privrl.numerics.typing import BoolArray, FloatArray, IntArray
from privrl.samplers.base import Posterior
from privrl.samplers.noisy_counts import NoisyPosterior

_FAILURE = 0.05


class DPUCBVI(CountsAgent):
    """Optimism with Bernstein bonuses, which depend on the variance of the next states' values.

    Qiao and Wang, *Near-optimal differentially private reinforcement learning* (2022), with the
    best known regret bound under joint differential privacy, ``√(S A H² T) + S² A H³ / ε``. Noisy
    counts do not form a distribution with a variance. The counts of each row are therefore first
    projected to nonnegative counts with the right sum.

    Parameters
    ----------
    setup : TabularSetup
        See `CountsAgent`.
    bonus_scale : float, optional
        Multiplies every width, > 0. The paper's theorem holds for constants of at least 1, with
        which the agent learns nothing in thousands of episodes. The default is ``1 / (S H²)``, for
        which the last term below is that of a bandit; no theorem covers it.

    Raises
    ------
    ValueError
        If ``bonus_scale`` is not positive, or a sampler does not release counts.

    Notes
    -----
    With noise of deviation d in each of W cells, all counts and the sums of rows are within
    ``E / 4 = bonus_scale d √(2 W L)`` of the truth, ``L = log(30 S A H k² / 0.05)`` at draw k. The
    private counts minimise the largest difference to the noisy counts N among all ``x >= 0`` whose
    sum is within ``E / 4`` of the noisy sum (here ``max(N − u, 0)`` with the smallest possible u).
    Adding ``E / (2 W)`` to each cell ensures that no row loses counts. They sum to n. With ``P``
    their shares, R the range of rewards, and upper and lower bounds V and v of the values,

        γ = bonus_scale P·(V − v) / H,
        Γ = bonus_scale (√(Var_P((V + v) / 2) L / n) + R (H S E + H² S) L / n),
        Q = min(cap, r + P·V + γ + Γ),    q = max(floor, r + P·v − γ − Γ),

    which is the bonus of their later paper (*Differentially private reinforcement learning with
    self-play*, 2024) for one player, with the same bound and a single constant. The paper assumes
    known rewards; here they have a separate bonus ``bonus_scale R (√(L / n) + E / n)``. Other
    differences: one model serves all steps, instead of one per step; row sums are sums of cells,
    instead of separately released counts; and one charge covers a stream with Gaussian noise,
    instead of the binary mechanism with Laplace noise.
    """

    look = ("#999933", "h", "-")
    bonus_scale: float = fixed()

    def __init__(self, setup: TabularSetup, *, bonus_scale: float | None = None) -> None:
        super().__init__(setup)
        wanted = 1 / (self.n_states * self.horizon**2) if bonus_scale is None else bonus_scale
        self.bonus_scale = check_positive("bonus_scale", wanted, "1 is theory's")

    def _plan(self, transition: Posterior, reward: Posterior) -> IntArray:
        assert isinstance(transition, NoisyPosterior)
        scale, horizon = self.bonus_scale, self.horizon
        log = math.log(30 * self.n_states * self.n_actions * horizon / _FAILURE)
        log += 2 * math.log(self._draws)
        cells, deviation = self._valid.sum(axis=-1), transition.deviation.max(axis=-1)
        error = 4 * scale * deviation * np.sqrt(2 * cells * log)  # the E of the docstring
        counts = private_counts(transition.counts, error / 4, self._valid)
        counts += (error / (2 * cells))[..., None] * self._valid
        visits = counts.sum(axis=-1)
        unknown, n = visits <= 0, np.where(visits > 0, visits, 1.0)
        rows = counts / n[..., None]
        public: BoolArray = np.zeros(unknown.shape[-2:], np.bool_)
        if self._known_rows is not None:
            public = public | np.isfinite(self._known_rows).all(axis=-1)
            rows = with_public_facts(rows, self.support, self._known_rows)
            unknown = unknown & ~public
        low, high = self._reward_range(reward)
        least, most = self._range_ahead(low, high)
        spread = most - least
        mean = self._mean_reward(reward, visits)
        doubt = scale * (high - low) * (np.sqrt(log / n) + error / n) * (not self._known)
        second = spread * self.n_states * horizon * (error + horizon) * log / n
        shape = (*self.batch_shape, self.n_states + self.terminates)
        above, below = np.zeros(shape), np.zeros(shape)
        policy = np.empty((*self.batch_shape, horizon, self.n_states), np.intp)
        for step in reversed(range(horizon)):
            ahead = horizon - 1 - step
            upper, lower = self._expected(rows, above), self._expected(rows, below)
            middle = (above + below) / 2
            variance = self._expected(rows, middle**2) - ((upper + lower) / 2) ** 2
            bernstein = np.sqrt(np.maximum(variance, 0.0) * log / n)
            width = scale * np.where(public, 0.0, (upper - lower) / horizon + bernstein + second)
            width = np.where(ahead > 0, width, 0.0) + doubt
            cap, floor = high + ahead * most, low + ahead * least
            upper = np.where(unknown, cap, np.minimum(mean + upper + width, cap))
            lower = np.where(unknown, floor, np.maximum(mean + lower - width, floor))
            policy[..., step, :] = best = upper.argmax(axis=-1)
            above[..., : self.n_states] = upper.max(axis=-1)
            below[..., : self.n_states] = np.take_along_axis(lower, best[..., None], -1)[..., 0]
        return policy


def private_counts(noisy: FloatArray, slack: FloatArray, valid: BoolArray) -> FloatArray:
    """Return the nearest nonnegative counts to noisy ones, changing row sums by at most ``slack``.

    Parameters
    ----------
    noisy : array, shape (..., W)
        Noisy counts of rows.
    slack : array, shape (...)
        Largest change of the sum of a row.
    valid : array of bool, shape (..., W)
        True in existing cells; all others get 0.

    Returns
    -------
    array, shape (..., W)
        The nearest counts in the maximum norm: ``max(noisy − u, 0)`` with the smallest u >= 0 that
        the sum allows. All are 0 if the noisy sum is below ``−slack``.
    """
    cells = np.where(valid, noisy, -np.inf)
    allowed = np.maximum(np.where(valid, noisy, 0.0).sum(axis=-1) + slack, 0.0)
    # With the i largest cells positive, u is (their sum − allowed) / i.
    falling = -np.sort(-cells, axis=-1)
    sums = np.cumsum(np.where(np.isfinite(falling), falling, 0.0), axis=-1)
    levels = (sums - allowed[..., None]) / np.arange(1, noisy.shape[-1] + 1)
    level = np.max(levels, axis=-1, keepdims=True)
    return np.where(valid, np.maximum(cells - np.maximum(level, 0.0), 0.0), 0.0)
