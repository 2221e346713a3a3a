"""IMED and DP-IMED: bandits, one state and one step, whose regret's constant is known exactly."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from privrl.accounting.base import Accountant
from privrl.accounting.rdp import RdpAccountant
from privrl.costs.base import Cost
from privrl.costs.relations import Relation
from privrl.envs.tabular import TabularMDP
from privrl.files.shown import shown
from privrl.mechanisms import LaplaceMechanism
from privrl.numerics.checks import check_between, check_count, check_is, check_positive
from privrl.numerics.randomness import Rng, as_rng
from privrl.numerics.typing import FloatArray, IntArray
from privrl.samplers.base import PaidSampler, check_batch, draw
from privrl.samplers.dirichlet import SingleDraw

#: One reward in [0, 1] is replaced by any other: a sum of rewards changes by at most 1.
REPLACE_REWARD = Relation("replace one reward", {"rewards": [(1,), (-1,)]})
_EDGE = 1e-12  # means are kept so far from 0 and 1, where divergences are infinite


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
        Of one state and one step; an action pays 1 with its expected reward for probability.
    steps : sequence of int
        After how many pulls, ascending, to look; the last is where it ends.
    rng : numpy.random.Generator, int or None
        All randomness.
    runs : int
        Independent runs.
    epsilon : float, optional
        Pure differential privacy, under `REPLACE_REWARD`, of everything that a run does; by
        default there is none.
    ratio : float
        An arm that is chosen is pulled until its pulls have grown by so much, > 1, and at least
        once. Asymptotically it is the regret's factor at the most; but every batch brings noise of
        its own, and with a ratio near 1 rare runs lose sight of the best arm for longer than can
        be waited for.
    accountant : Accountant, optional
        Is charged for the whole stream before anything is drawn.

    Returns
    -------
    array, shape (len(steps), runs, A)
        How often each arm was pulled. Times `gaps` it is the regret.

    Raises
    ------
    ValueError
        If the task is no bandit with means in [0, 1], or an argument out of range.

    Notes
    -----
    Of an arm with n pulls and an estimated mean m, M the largest of them, the index is
    ``n d(m, M) + log n`` with `divergence` d, and the arm of the least is pulled. Estimates are
    of the arm's sum of rewards, to which each of its batches has added Laplace noise of scale
    ``1 / epsilon``. A reward is in one batch, so that the whole stream costs what one release
    does.
    """
    means = _means(mdp)
    ends = [check_count("steps", each) for each in steps]
    if not ends or ends != sorted(set(ends)):
        raise ValueError(f"steps must be ascending, got {shown(list(steps))}.")
    check_between("ratio", ratio, 1, math.inf, "2 is usual")
    shape = check_count("runs", runs), len(means)
    rng = as_rng(rng)
    sums = None if epsilon is None else _ArmSums(epsilon)
    accountant = RdpAccountant() if accountant is None else accountant
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
        Of Bernoulli distributions; they broadcast.
    epsilon : float, optional
        What a bandit's privacy is, > 0; by default there is none, and z is the mean.

    Returns
    -------
    array
        At least 0: how well who is that private can tell the one from the other. The derivative
        is 0 where ``logit z = logit best − ε``.
    """
    low: FloatArray = np.clip(np.asarray(mean, np.float64), _EDGE, 1 - _EDGE)
    high: FloatArray = np.maximum(np.clip(np.asarray(best, np.float64), _EDGE, 1 - _EDGE), low)
    if epsilon is None:
        return _kl(low, high)
    odds = high / (1 - high) * math.exp(-check_positive("epsilon", epsilon))
    z: FloatArray = np.maximum(odds / (1 + odds), low)
    return epsilon * (z - low) + _kl(z, high)


def gaps(mdp: TabularMDP) -> FloatArray:
    """Return what each arm earns less than the best, shape (A,): values of the task's policies."""
    _means(mdp)
    arms = np.arange(mdp.n_actions).reshape(-1, 1, 1)
    lost: FloatArray = mdp.optimal_value() - np.asarray(mdp.policy_value(arms))
    return lost


def regret_constant(mdp: TabularMDP, epsilon: float | None = None) -> float:
    """Return what the best agents' regret grows by as the logarithm of time does by 1.

    ``Σ gap / divergence`` over the arms that are not best: Lai and Robbins (1985) without privacy,
    Azize et al. (2025) with. Batches make it up to ``ratio`` times as much, and
    ``(ratio − 1) / log ratio`` on average.

    Raises
    ------
    ValueError
        If the task is no bandit with means in [0, 1], or ``epsilon`` not > 0.
    """
    means, lost = _means(mdp), gaps(mdp)
    worse = lost > 0
    with np.errstate(divide="ignore"):  # infinite where no float tells an arm from the best
        return float((lost[worse] / divergence(means[worse], means.max(), epsilon)).sum())


def _kl(z: FloatArray, best: FloatArray) -> FloatArray:
    kl: FloatArray = z * np.log(z / best) + (1 - z) * np.log((1 - z) / (1 - best))
    return np.maximum(kl, 0.0)


def _choice(pulls: FloatArray, paid: FloatArray, epsilon: float | None) -> IntArray:
    """Return the arm with the least index in each run; those never pulled come first."""
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
    """Sums of rewards, a batch at a time, each with Laplace noise; the stream is paid for once."""

    _numbers = ()

    def __init__(self, epsilon: float) -> None:
        self._noise = LaplaceMechanism.pure(epsilon, relation=REPLACE_REWARD, table="rewards")
        self._forget()

    @property
    def cost(self) -> Cost | None:
        """That of one batch before the first, None from then on: a reward is in one only."""
        return None if self._done else self._noise.cost

    def check(self, counts: FloatArray) -> None:
        """Check a batch of sums, shape (runs, A)."""
        self.check_usable()
        check_batch(counts, (), None)

    def update(self, counts: FloatArray, rng: np.random.Generator) -> SingleDraw:
        """Return the sums of one batch with their noise; call through `draw`."""
        self.check(counts)
        self._done += 1
        return SingleDraw(self._noise._draw(counts, rng))

    def _goes_with(self, other: PaidSampler) -> bool:
        return False
