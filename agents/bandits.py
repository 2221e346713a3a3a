"""IMED and DP-IMED for bandits: one state, one step, and an exactly known regret constant."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from privrl.accounting.base import Accountant
from privrl.accounting.rdp import RdpAccountant
from privrl.accounting.releases import charge
from privrl.costs.base import Cost, NoPrivacy
from privrl.costs.relations import REPLACE_REWARD
from privrl.envs.tabular import TabularMDP
from privrl.files.shown import shown
from privrl.mechanisms import LaplaceMechanism
from privrl.numerics.checks import check_between, check_count, check_is, check_positive
from privrl.numerics.randomness import Rng, as_rng
from privrl.numerics.typing import FloatArray, IntArray
from privrl.samplers.base import LARGEST_TOTAL, PaidSampler, check_batch, draw
from privrl.samplers.dirichlet import SingleDraw

_EDGE = 1e-12  # minimal distance of means from 0 and 1, where divergences are infinite


def imed(
    mdp: TabularMDP,
    steps: Sequence[int],
    rng: Rng = None,
    *,
    runs: int,
    epsilon: float | None = None,
    ratio: float = 2.0,
    accountant: Accountant | None = None,
) -> FloatArray:
    """Play a Bernoulli bandit by indexed minimum empirical divergence, with privacy or without.

    Honda and Takemura (2015); with ``epsilon`` DP-IMED (Azize, Wu, Honda, Orabona, Ito and Basu,
    *Optimal regret of Bernoulli bandits under global differential privacy*, arXiv 2505.05613).

    Parameters
    ----------
    mdp : TabularMDP
        A bandit, with one state and one step. The expected reward of an action is the
        probability that it pays 1.
    steps : sequence of int
        Numbers of pulls at which to record, ascending; play ends at the last.
    rng : numpy.random.Generator, int or None
        Source of all randomness.
    runs : int
        Independent runs.
    epsilon : float, optional
        Pure differential privacy of the whole run, under `REPLACE_REWARD`. By default the run is
        not private.
    ratio : float
        Growth factor, > 1: a chosen arm is pulled until its number of pulls has grown by this
        factor, and at least once. Asymptotically the regret grows by at most this factor. But each
        batch adds noise, and with a ratio near 1 a few runs lose the best arm for a very long time.
    accountant : Accountant, optional
        Charged for the whole run before the first pull that depends on a reward. A budget refuses a
        run that is not private.

    Returns
    -------
    array, shape (len(steps), runs, A)
        Number of pulls of each arm. The product with `gaps` is the regret.

    Raises
    ------
    BudgetExceeded
        If the accountant's budget does not cover the run.
    ValueError
        If the task is not a bandit with means in [0, 1], or an argument is out of range.

    Notes
    -----
    The index of an arm with n pulls and estimated mean m is ``n d(m, M) + log n``, with M the
    largest estimated mean and d the `divergence`. The arm with the smallest index is pulled.
    Estimates use the arm's sum of rewards, to which each batch adds Laplace noise of scale
    ``1 / epsilon``. Each reward is in one batch, so that the whole stream costs as much as one
    release.
    """
    means = _means(mdp)
    ends = [check_count("steps", each) for each in steps]
    if not ends or ends != sorted(set(ends)):
        raise ValueError(f"steps must be ascending, got {shown(list(steps))}.")
    check_between("ratio", ratio, 1, math.inf, "2 is usual")
    largest = min(ends[-1], max(1, math.ceil((ratio - 1) * ends[-1])))  # batch
    if epsilon is not None and not largest < LARGEST_TOTAL:
        raise ValueError(
            f"steps must be fewer for a private run, got {ends[-1]} with ratio={ratio:g}: a batch "
            "must have less than 2**37 pulls, or its sum would be rounded."
        )
    shape = check_count("runs", runs), len(means)
    rng = as_rng(rng)
    sums = None if epsilon is None else _ArmSums(epsilon)
    accountant = RdpAccountant() if accountant is None else accountant
    if sums is None:
        charge(accountant, NoPrivacy(REPLACE_REWARD))
    pulls, paid = np.zeros(shape), np.zeros(shape)
    seen, row = np.zeros((len(ends), *shape)), np.arange(runs)
    now = np.zeros(runs)
    while now.min() < ends[-1]:
        arm = _choice(pulls, paid, epsilon)
        n = pulls[row, arm]
        batch = np.minimum(np.maximum(1, np.ceil((ratio - 1) * n)), ends[-1] - now)
        for i, end in enumerate(ends):
            inside = (now < end) & (end <= now + batch)
            seen[i, inside] = pulls[inside]
            seen[i, row[inside], arm[inside]] += (end - now)[inside]
        new = np.zeros(shape)
        new[row, arm] = rng.binomial(batch.astype(np.int64), means[arm])
        if sums is not None:
            (released,) = draw(accountant, [(sums, new)], rng)
            new = released.sample(rng)
        paid[row, arm] += new[row, arm]
        pulls[row, arm] += batch
        now += batch
    return seen


def divergence(mean: ArrayLike, best: ArrayLike, epsilon: float | None = None) -> FloatArray:
    """Return ``min ε (z − mean) + kl(z, best)`` over z between the two, ``mean <= best``.

    Parameters
    ----------
    mean, best : array, in [0, 1]
        Means of Bernoulli distributions, of shapes that broadcast.
    epsilon : float, optional
        Privacy of the bandit, > 0. By default the bandit is not private, and z is the mean.

    Returns
    -------
    array
        Nonnegative; how well an agent of this privacy can distinguish the two distributions. The
        minimum is where ``logit z = logit best − ε``.
    """
    low: FloatArray = np.clip(np.asarray(mean, np.float64), _EDGE, 1 - _EDGE)
    high: FloatArray = np.maximum(np.clip(np.asarray(best, np.float64), _EDGE, 1 - _EDGE), low)
    if epsilon is None:
        return _kl(low, high)
    odds = high / (1 - high) * math.exp(-check_positive("epsilon", epsilon))
    z: FloatArray = np.maximum(odds / (1 + odds), low)
    return epsilon * (z - low) + _kl(z, high)


def gaps(mdp: TabularMDP) -> FloatArray:
    """Return the gap between the best arm's mean reward and that of each arm, shape (A,)."""
    _means(mdp)
    arms = np.arange(mdp.n_actions).reshape(-1, 1, 1)
    lost: FloatArray = mdp.optimal_value() - np.asarray(mdp.policy_value(arms))
    return lost


def regret_constant(mdp: TabularMDP, epsilon: float | None = None) -> float:
    """Return the optimal asymptotic ratio of the regret to the logarithm of time.

    It is ``Σ gap / divergence`` over the suboptimal arms: Lai and Robbins (1985) without privacy,
    Azize et al. (2025) with privacy. Batches increase it at most by the factor ``ratio``, and by
    ``(ratio − 1) / log ratio`` on average.

    Raises
    ------
    ValueError
        If the task is not a bandit with means in [0, 1], or ``epsilon`` is not > 0.
    """
    means, lost = _means(mdp), gaps(mdp)
    worse = lost > 0
    with np.errstate(divide="ignore"):  # infinite for arms as good as the best in floats
        return float((lost[worse] / divergence(means[worse], means.max(), epsilon)).sum())


def _kl(z: FloatArray, best: FloatArray) -> FloatArray:
    kl: FloatArray = z * np.log(z / best) + (1 - z) * np.log((1 - z) / (1 - best))
    return np.maximum(kl, 0.0)


def _choice(pulls: FloatArray, paid: FloatArray, epsilon: float | None) -> IntArray:
    """Return the arm with the smallest index in each run; unpulled arms come first."""
    n = np.maximum(pulls, 1.0)
    means = np.clip(paid / n, 0.0, 1.0)
    index = n * divergence(means, means.max(axis=1, keepdims=True), epsilon) + np.log(n)
    return np.where(pulls > 0, index, -1.0).argmin(axis=1)


def _means(mdp: TabularMDP) -> FloatArray:
    check_is("mdp", mdp, TabularMDP)
    means = mdp.expected_reward[0]
    if (mdp.n_states, mdp.horizon) != (1, 1) or not ((means >= 0) & (means <= 1)).all():
        raise ValueError(
            "mdp must be a bandit, one state and one step with rewards in 0..1, got "
            f"{mdp.n_states} states and {mdp.horizon} steps; scale its rewards."
        )
    return means


class _ArmSums(PaidSampler):
    """Sums of rewards by batches, with Laplace noise; one charge covers the stream."""

    _numbers = ()

    def __init__(self, epsilon: float) -> None:
        self._noise = LaplaceMechanism.pure(epsilon, relation=REPLACE_REWARD, table="rewards")
        self._forget()

    @property
    def cost(self) -> Cost | None:
        """Cost of one batch before the first draw, then None: each reward is in one batch."""
        return None if self._done else self._noise.cost

    def check(self, counts: FloatArray) -> None:
        """Check a batch of sums, shape (runs, A)."""
        self.check_usable()
        check_batch(counts, (), None)

    def update(self, counts: FloatArray, rng: np.random.Generator) -> SingleDraw:
        """Return the noisy sums of one batch; call through `draw`."""
        self.check(counts)
        self._done += 1
        return SingleDraw(self._noise._draw(counts, rng))

    def _goes_with(self, other: PaidSampler) -> bool:
        return False
