"""RLSVI: the law of its noise, what it plans, what it learns, and a claim that is not ours."""

import math

import numpy as np
import pytest
from made import agent_of

from privrl.agents import RLSVI, BetaRewards, Geometric, KnownRewards, NoisyRewards
from privrl.agents.rlsvi import rlsvi_claimed_epsilon as claimed
from privrl.agents.training import learn_counts
from privrl.envs import riverswim
from privrl.envs.exploration import deep_sea
from privrl.samplers.dirichlet import Diffuse
from privrl.samplers.noisy_counts import NoisyCounts, NonPrivate


def agent(sizes, rewards=None, **options) -> RLSVI:
    return agent_of(
         RLSVI, *sizes,
        **{
            "sampler": NonPrivate(), "rng": np.random.default_rng(0),
            "rewards": NoisyRewards(NonPrivate()) if rewards is None else rewards, **options,
        },
    )  # fmt: skip


def test_the_noise_has_russos_variance() -> None:
    """Of two actions that pay 0.4 and 0.6, the worse is taken as often as Gaussians cross.

    One state, one step: 40,000 runs, within 5 standard errors.
    """
    learner = agent((1, 2, 1), KnownRewards([[0.4, 0.6]]), batch_shape=(40_000,))
    learner.observe_counts(np.full((40_000, 1, 2, 1), 50), np.zeros((1, 2, 1)))
    learner.begin_episode(0)
    beta = 0.5 * 1 * 1 * math.log(2 * 1 * 1 * 2 * 1)
    deviation = 0.2 * math.sqrt(2 * beta / 51)
    chance = 0.5 * math.erfc(0.2 / deviation / math.sqrt(2))
    error = math.sqrt(chance * (1 - chance) / 40_000)
    assert abs((learner.behaviour == 0).mean() - chance) < 5 * error
    assert learner.variance_scale == 1


def test_noise_shrinks_with_visits_and_grows_with_the_scale() -> None:
    wrong = []
    for visits, scale in ((5, 1.0), (50, 1.0), (5000, 1.0), (50, 1e-2)):
        learner = agent(
            (1, 2, 3), KnownRewards([[0.0, 1.0]]), batch_shape=(4000,), variance_scale=scale
        )
        learner.observe_counts(np.full((4000, 1, 2, 1), visits), np.zeros((1, 2, 1)))
        learner.begin_episode(0)
        wrong.append((learner.behaviour[:, 0] == 0).mean())
    assert wrong[0] > wrong[1] + 0.03 > wrong[2] + 0.05
    assert wrong[3] < wrong[1] / 2


def test_what_was_never_seen_is_worth_the_most() -> None:
    learner = agent((2, 2, 4), BetaRewards(NonPrivate(), low=-3.0, high=-1.0))
    counts = np.zeros((2, 2, 2), np.int64)
    counts[:, 0, 0] = 10_000
    learner.observe_counts(counts, np.full((2, 2, 1), -2.0))
    learner.begin_episode(0)
    assert (learner.behaviour == 1).all()


def test_public_rows_and_rewards_leave_noise_alone() -> None:
    """With all of it known and next to no noise the policy is the best one."""
    mdp = riverswim(n_states=4, horizon=6)
    learner = agent(
        (4, 2, 6), KnownRewards(mdp.expected_reward),
        known_rows=mdp.transition, variance_scale=1e-12,
    )  # fmt: skip
    learner.begin_episode(0)
    assert float(mdp.policy_value(learner.behaviour)) == pytest.approx(mdp.optimal_value())


@pytest.mark.slow
def test_it_explores_deeply_and_theory_does_so_for_ever() -> None:
    """20 runs of 1000 episodes; what pays is six right actions away, and found by all but two."""
    sea, shares = deep_sea(6), []
    low, high = sea.reward_range
    for scale in (None, 1.0):
        learner = agent(
            (sea.n_states, sea.n_actions, sea.horizon),
            NoisyRewards(NonPrivate(), low=low, high=high),
            batch_shape=(20,), schedule=Geometric(1.05), variance_scale=scale,
        )  # fmt: skip
        learn_counts(learner, sea, 1000, np.random.default_rng(1))
        shares.append(sea.policy_value(learner.behaviour).mean() / sea.optimal_value())
    assert shares[0] > 0.85
    assert shares[1] < 0.4


def test_private_counts_make_it_private() -> None:
    river = riverswim()
    tables = (NoisyCounts(sigma=5.0, updates=155, table=t) for t in ("transitions", "rewards"))
    learner = agent(
        (6, 2, 30), sampler=next(tables), rewards=NoisyRewards(next(tables)),
        batch_shape=(20,), schedule=Geometric(1.05),
    )  # fmt: skip
    learn_counts(learner, river, 2000, np.random.default_rng(1))
    assert 0 < float(learner.accountant.spent(2.0)) < np.inf
    assert river.policy_value(learner.behaviour).mean() > 0.9 * river.optimal_value()


def test_the_papers_claim() -> None:
    """The number that its formula gives for a river of 6 states, and that it grows with time."""
    assert claimed(6, 2, 20, episodes=20_000, delta=1e-5) == pytest.approx(71, abs=0.5)
    x = 2 * 2 * 20_000 / (400 * math.log(2 * 20 * 6 * 2))
    assert claimed(6, 2, 20, episodes=20_000, delta=math.exp(-x)) == pytest.approx(3 * x)
    assert claimed(6, 2, 20, episodes=80_000, delta=1e-5) > 2 * 71


def test_what_it_refuses() -> None:
    for bad in (0, -1.0, np.nan, True):
        with pytest.raises(ValueError, match="variance_scale must be a number > 0"):
            agent((2, 2, 3), variance_scale=bad)
    with pytest.raises(ValueError, match=r"as NoisyCounts and NonPrivate.*Diffuse"):
        agent((2, 2, 3), sampler=Diffuse(weight=0.1))
    with pytest.raises(ValueError, match="delta must be"):
        claimed(6, 2, 20, episodes=1, delta=0.0)
    with pytest.raises(ValueError, match="episodes must be"):
        claimed(6, 2, 20, episodes=0, delta=0.1)
