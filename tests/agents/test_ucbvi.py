"""UCBVI: its bonus against the formula by hand, its upper bounds against the truth."""

import math
from itertools import pairwise

import numpy as np
import pytest
from made import agent_of
from told import Told

from privrl.accounting.rdp import RdpAccountant
from privrl.accounting.targets import RenyiDP
from privrl.agents import UCBVI, BetaRewards, Geometric, KnownRewards, NoisyRewards
from privrl.agents.baselines import RandomPolicy
from privrl.agents.training import learn_counts
from privrl.costs.relations import ReplaceEpisode
from privrl.envs import riverswim
from privrl.envs.planning import plan
from privrl.envs.support import Support
from privrl.samplers.base import stack
from privrl.samplers.dirichlet import Diffuse
from privrl.samplers.factorisations import LocalNoise
from privrl.samplers.noisy_counts import NoisyCounts, NonPrivate

MDP = riverswim(n_states=4, horizon=6)
SIZES = MDP.n_states, MDP.n_actions, MDP.horizon
RIVER = riverswim()


def ucbvi(sampler, rewards, sizes=SIZES, **options) -> UCBVI:
    options.setdefault("rng", np.random.default_rng(0))
    return agent_of(UCBVI, *sizes, sampler=sampler, rewards=rewards, **options)


def upper_values(learner: UCBVI) -> np.ndarray:
    learner.begin_episode(0)
    return learner.upper_values


def river_agent(sampler, rewards, episodes=3000, **options) -> tuple[UCBVI, float]:
    """Train 20 runs at once and return the agent and the mean share of the optimal reward."""
    sizes = RIVER.n_states, RIVER.n_actions, RIVER.horizon
    options = {"schedule": Geometric(1.05), "batch_shape": (20,)} | options
    learner = ucbvi(sampler, rewards, sizes, **options)
    _, paid = learn_counts(learner, RIVER, episodes, np.random.default_rng(1))
    return learner, float(paid.sum(axis=0).mean() / episodes / RIVER.optimal_value())


# --- the formula of the docstring, cell by cell ------------------------------------------


def log_by_hand(i, sizes) -> float:
    return math.log(20 * math.prod(sizes) * i**2 / 0.05)


def sampling_by_hand(visits, sizes) -> float:
    n = max(1.0, visits)
    return math.sqrt(log_by_hand(n, sizes) / (2 * n))


def row_by_hand(counts, cells, deviation, sizes, bonus) -> tuple[np.ndarray, float] | None:
    """The estimate of one row and its b, at the first draw; None if it is unknown."""
    W, L = len(cells), log_by_hand(1, sizes)
    kept = [w for w in cells if counts[w] > max(4 * deviation, 0.5)]
    K, m = len(kept), sum(counts[w] for w in kept)
    if not kept:
        return None
    tail = deviation * math.sqrt(2 * W * L)
    lost = max(0.0, sum(counts[w] for w in cells if w not in kept))
    noise = 2 * deviation * math.sqrt(2 * K * (L + K * math.log(W))) + tail + lost
    sampling = sampling_by_hand(sum(counts[w] for w in cells) - bonus * tail, sizes)
    p = [counts[w] / m if w in kept else 0.0 for w in range(len(counts))]
    return np.array(p), bonus * (sampling + noise / m)


def reward_by_hand(counts, deviation, sizes, bonus) -> float:
    """The estimate of one mean reward in [0, 1], with its bonus."""
    x = [max(each, 0.0) for each in counts]
    if sum(x) < 1:
        x = [each + (1 - sum(x)) / 2 for each in x]
    tail = math.sqrt(4 * log_by_hand(1, sizes))
    noise = deviation * (2 * math.sqrt(2 / math.pi) + tail) / sum(x)
    sampling = sampling_by_hand(sum(counts) - bonus * deviation * tail, sizes)
    return x[0] / sum(x) + bonus * (sampling + noise)


@pytest.mark.parametrize("bonus", [0.01, 1.0])
@pytest.mark.parametrize("terminates", [False, True])
@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-3.0, -1.0), (2.0, 5.0)])
def test_values_by_hand(bonus, terminates, narrow, low, high) -> None:
    rng = np.random.default_rng(2)
    sizes = S, A, H = 3, 2, 4
    mask = rng.random((S, A, S + terminates)) < 0.6
    mask[..., 1] = True
    support = Support.from_mask(mask) if narrow else None
    following = support.next_states if support else np.arange(S + terminates) + np.zeros((S, A, 1))
    following = following.astype(int)
    counts = rng.normal(30, 25, following.shape)
    paid = rng.normal(30, 25, (S, A, 2))
    counts[0, 0], paid[1, 1] = -5.0, -5.0  # nothing but noise
    counts[2, 1, :] = 0.1
    learner = ucbvi(
        Told(counts, 0.7),
        BetaRewards(Told(paid, 1.3), low=low, high=high),
        sizes,
        bonus=bonus,
        terminates=terminates,
        support=support,
    )
    got = upper_values(learner)
    value = np.zeros(S + 1)  # the last: over
    worst, best = (min(low, 0), max(high, 0)) if terminates else (low, high)
    for h in reversed(range(1, H + 1)):
        wanted = np.empty((S, A))
        for s in range(S):
            for a in range(A):
                cells = [w for w, to in enumerate(following[s, a]) if to >= 0]
                cap = high + (H - h) * best
                row = row_by_hand(counts[s, a], cells, 0.7, sizes, bonus)
                if row is None:
                    wanted[s, a] = cap
                    continue
                p, b = row
                gain = low + (high - low) * reward_by_hand(paid[s, a], 1.3, sizes, bonus)
                ahead = sum(p[w] * value[following[s, a, w]] for w in cells)
                wanted[s, a] = min(cap, gain + ahead + b * (H - h) * (best - worst))
        np.testing.assert_allclose(got[h - 1], wanted, rtol=1e-12)
        np.testing.assert_array_equal(learner.behaviour[h - 1], wanted.argmax(axis=1))
        value[:S] = wanted.max(axis=1)


def test_runs_do_not_mix() -> None:
    counts = np.random.default_rng(0).normal(50, 30, (2, 3, 4, 2, 4))
    rewards = KnownRewards(MDP.expected_reward)
    together = upper_values(ucbvi(Told(counts, 2.0), rewards, batch_shape=(2, 3)))
    for run in np.ndindex(2, 3):
        alone = upper_values(ucbvi(Told(counts[run], 2.0), rewards))
        np.testing.assert_allclose(together[run], alone, rtol=1e-12)


def test_what_stands_in_padding_is_ignored() -> None:
    support = MDP.support
    values = [
        upper_values(
            ucbvi(
                Told(np.where(support.valid, 9.0, junk), 1.0),
                KnownRewards(MDP.expected_reward),
                support=support,
            )
        )
        for junk in (0.0, 1e9, -1e9)
    ]
    np.testing.assert_array_equal(values[0], values[1])
    np.testing.assert_array_equal(values[0], values[2])


def test_more_noise_means_higher_values() -> None:
    counts = np.random.default_rng(0).uniform(1e5, 2e5, (4, 2, 4))
    at = [
        upper_values(ucbvi(Told(counts, d), KnownRewards(MDP.expected_reward)))
        for d in (0.0, 1e1, 1e2, 1e3)
    ]
    for less, more in pairwise(at):
        assert (less[:-1] < more[:-1]).all()  # nothing lies ahead of the last step


def test_the_default_falls_with_the_square_of_the_horizon() -> None:
    """A bandit has theory's bonus; what an episode is promised in all does not grow with it."""
    known = KnownRewards(np.eye(3, 2))
    for horizon in (1, 2, 10, 100):
        assert ucbvi(NonPrivate(), known, (3, 2, horizon)).bonus == 1 / horizon**2


def test_what_noise_alone_may_have_put_there_is_no_way() -> None:
    """Heaven is one cell of noise away: below four deviations nobody goes there."""
    counts = np.zeros((3, 2, 3))
    counts[0], counts[1, :, 1], counts[2, :, 2] = (500.0, 0.0, 0.0), 500.0, 500.0
    rewards = KnownRewards(np.array([[0.1, 0.0], [0.0, 0.0], [1.0, 1.0]]))
    for noise, action in ((3.9, 0), (4.1, 1)):
        counts[0, 1, 2] = noise
        learner = ucbvi(Told(counts, 1.0), rewards, (3, 2, 300), bonus=1e-9)
        learner.begin_episode(0)
        assert learner.behaviour[0, 0] == action


def test_without_noise_it_is_the_agent_without_privacy() -> None:
    counts = np.random.default_rng(3).integers(1, 500, (4, 2, 4))
    values = []
    for sampler in (
        NonPrivate(),
        NoisyCounts(sigma=1e-9, updates=2),
        NoisyCounts(sigma=1e-9, updates=2, factorisation=LocalNoise((10, 10))),
    ):
        paying = (
            NonPrivate()
            if isinstance(sampler, NonPrivate)
            else NoisyCounts(sigma=1e-9, updates=2, table="rewards")
        )
        learner = ucbvi(sampler, NoisyRewards(paying), bonus=0.1)
        learner.begin_episode(0)
        learner.observe_counts(counts, MDP.reward_table)
        learner.begin_episode(1)
        values.append(learner.upper_values)
    np.testing.assert_allclose(values[1], values[0], atol=1e-6)
    np.testing.assert_allclose(values[2], values[0], atol=1e-6)


# --- optimism ----------------------------------------------------------------------------


def best_values(mdp) -> np.ndarray:
    """The true value of each action at each step, shape (H, S, A)."""
    ahead = [np.zeros(mdp.n_states)] + [
        plan(mdp.transition, mdp.expected_reward, steps)[1] for steps in range(1, mdp.horizon)
    ]
    return np.stack([mdp.expected_reward + mdp.transition @ value for value in reversed(ahead)])


def shortfalls(sampler, rewards, bonus: float) -> tuple[int, int]:
    """How many of 200 runs are not optimistic somewhere at some draw; how many values can be."""
    learner = ucbvi(sampler, rewards, bonus=bonus, batch_shape=(200,), schedule=Geometric(2.0))
    rng, truth = np.random.default_rng(4), best_values(MDP)
    cap = np.arange(MDP.horizon, 0, -1.0)[:, None, None]
    failed, below = np.zeros(200, bool), 0
    for episode in learner.starts(20_000):
        learner.begin_episode(episode)
        upper = learner.upper_values
        failed |= (upper < truth - 1e-9).any(axis=(1, 2, 3))
        below = int((upper < cap - 1e-9).sum())
        anything = rng.integers(2, size=(200, 6, 4))  # every state and action is seen
        counts = MDP.rollout_counts(anything, max(1, episode), rng)
        learner.observe_counts(counts, MDP.reward_table)
    return int(failed.sum()), below


@pytest.mark.parametrize("sigma", [0.0, 3.0])
def test_theory_is_optimistic_and_no_bonus_is_not(sigma: float) -> None:
    """200 runs, 15 draws, all steps, states and actions.

    Each run may fail with probability 0.05, and by union bounds that are far from tight (none
    was seen to); more than 30 of 200 would then be a false alarm in 40 million. Next to no
    bonus fails in all.
    """

    def tables():
        if not sigma:
            return NonPrivate(), NoisyRewards(NonPrivate())
        noisy = (NoisyCounts(sigma=sigma, updates=15, table=t) for t in ("transitions", "rewards"))
        return next(noisy), NoisyRewards(next(noisy))

    failed, below = shortfalls(*tables(), bonus=1.0)
    assert failed <= 30
    assert below > 0  # so the caps are not all that there is to it
    failed, _ = shortfalls(*tables(), bonus=1e-6)
    assert failed > 190


# --- learning and spending ---------------------------------------------------------------


@pytest.mark.slow
def test_learns_by_far_better_than_chance() -> None:
    """20 runs of 3000 episodes; over seeds the standard deviation of the mean is below 0.005."""
    _, share = river_agent(NonPrivate(), BetaRewards(NonPrivate()))
    chance = agent_of(
        RandomPolicy,
        *(RIVER.n_states, RIVER.n_actions, RIVER.horizon),
        rng=np.random.default_rng(0),
        schedule=Geometric(1.05),
        batch_shape=(20,),
    )
    _, paid = learn_counts(chance, RIVER, 3000, np.random.default_rng(1))
    assert share > 0.97
    assert paid.sum(axis=0).mean() / 3000 / RIVER.optimal_value() < 0.1


@pytest.mark.few(2)
@pytest.mark.parametrize("support", [None, RIVER.support], ids=["dense", "support"])
def test_learns_within_its_budget(support) -> None:
    draws = len(Geometric(1.05).starts(3000))
    sampler = NoisyCounts.calibrated(RenyiDP(2, 0.8), draws=draws)
    paid = NoisyCounts.calibrated(RenyiDP(2, 0.2), draws=draws, table="rewards")
    learner, share = river_agent(
        sampler,
        NoisyRewards(paid),
        accountant=RdpAccountant(budget=RenyiDP(2, 1.0)),
        support=support,
    )
    assert 0.99 < learner.accountant.spent(2.0) <= 1.0
    assert share > 0.95


@pytest.mark.slow
def test_learns_from_local_counts() -> None:
    schedule = Geometric(1.05)
    starts = list(schedule.starts(3000))
    users = [0, *(int(n) for n in np.diff(starts))]
    local = NoisyCounts.calibrated(
        RenyiDP(2, 50.0),
        draws=len(users),
        factorisation=LocalNoise(users),
        relation=ReplaceEpisode(30),
    )
    rewards = KnownRewards(RIVER.expected_reward)
    learner, share = river_agent(
        local, rewards, schedule=schedule, accountant=RdpAccountant(budget=RenyiDP(2, 50.0))
    )
    assert 49.9 < learner.accountant.spent(2.0) <= 50.0
    assert share > 0.3


def test_every_run_can_have_noise_of_its_own() -> None:
    """Means of 1000 noisy runs: the least of them is ten standard errors above."""
    sampler = stack([NoisyCounts(sigma=s, updates=1) for s in (1e-9, 1e3)])
    learner = ucbvi(sampler, KnownRewards(MDP.expected_reward), batch_shape=(2, 1000), bonus=0.01)
    learner.observe_counts(np.full((2, 1000, 4, 2, 4), 30_000), np.zeros((4, 2, 1)))
    values = upper_values(learner)
    assert values.shape == (2, 1000, 6, 4, 2)
    np.testing.assert_allclose(values[0, 1:], values[0, :-1], atol=1e-6)
    assert (values[1].mean(axis=0)[:-1] > values[0, 0, :-1]).all()


# --- what it refuses ---------------------------------------------------------------------


def test_other_samplers_are_refused_before_anything_is_spent() -> None:
    known = KnownRewards(MDP.expected_reward)
    with pytest.raises(ValueError, match=r"as NoisyCounts and NonPrivate.*Diffuse"):
        ucbvi(Diffuse(weight=0.1), known)
    with pytest.raises(ValueError, match="must be KnownRewards, or BetaRewards or NoisyRewa"):
        ucbvi(NonPrivate(), BetaRewards(Diffuse(weight=0.1, table="rewards")))


@pytest.mark.parametrize("bonus", [0, -1.0, np.nan, np.inf, True, "1"])
def test_bad_bonus(bonus) -> None:
    with pytest.raises(ValueError, match="bonus must be a number > 0"):
        ucbvi(NonPrivate(), KnownRewards(MDP.expected_reward), bonus=bonus)


def test_no_values_before_the_first_episode() -> None:
    learner = ucbvi(NonPrivate(), KnownRewards(MDP.expected_reward))
    with pytest.raises(ValueError, match="begin_episode"):
        _ = learner.upper_values
