"""Reward models: the contract that agents rely on, and the law of each."""

import numpy as np
import pytest
from scipy import stats

from privrl.agents import BetaRewards, KnownRewards, NoisyRewards, RewardModel
from privrl.samplers.dirichlet import Diffuse
from privrl.samplers.noisy_counts import NoisyCounts, NonPrivate

ALL_MODELS = [
    KnownRewards(np.arange(6.0).reshape(3, 2) / 6),
    BetaRewards(NonPrivate(alpha=1.0)),
    BetaRewards(Diffuse(weight=0.1, alpha=1.0, table="rewards"), low=-2, high=3),
]
each_model = pytest.mark.parametrize("model", ALL_MODELS, ids=lambda m: type(m).__name__)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@each_model
def test_shapes(model: RewardModel) -> None:
    assert model.encode(np.array([0.0, 1.0]), rng()).shape == (2, model.width)
    counts = rng(1).integers(0, 5, (4, 3, 2, 3)).astype(float)
    table = model.encode_counts(counts, np.full((3, 2, 1), 0.5), rng())
    assert table.shape == (4, 3, 2, model.width)
    means = model.fresh().update(table, rng()).sample(rng())
    assert means.shape == (4, 3, 2)
    assert np.isfinite(means).all()


@each_model
def test_counts_encode_like_single_rewards(model: RewardModel) -> None:
    """Means over 20,000 encodings agree within 6 standard errors (rewards on arrival)."""
    reward = np.array([0.0, 0.25, 1.0]).reshape(1, 1, 3)
    counts = np.array([2.0, 3.0, 1.0]).reshape(1, 1, 3)
    many = np.tile(counts, (20_000, 1, 1, 1))
    at_once = model.encode_counts(many, reward, rng(2))[:, 0, 0]
    singles = np.repeat(reward.ravel(), counts.ravel().astype(int))
    one_by_one = model.encode(np.tile(singles, (20_000, 1)), rng(3)).sum(1)
    error = 6 * np.hypot(at_once.std(0), one_by_one.std(0)) / np.sqrt(20_000)
    assert (np.abs(at_once.mean(0) - one_by_one.mean(0)) <= error + 1e-12).all()
    np.testing.assert_allclose(at_once.var(0), one_by_one.var(0), rtol=0.1, atol=1e-12)


@each_model
def test_fresh_has_seen_nothing(model: RewardModel) -> None:
    table = model.encode(np.ones((3, 2)), rng())
    used = model.fresh()
    used.update(table, rng())
    nothing = np.zeros_like(table)
    np.testing.assert_array_equal(
        used.fresh().update(nothing, rng(4)).sample(rng()),
        model.fresh().update(nothing, rng(4)).sample(rng()),
    )


def test_one_changed_reward_moves_one_count() -> None:
    """The sensitivity that ReplaceStep states for rewards: (+1, -1) in one two-cell row."""
    model = BetaRewards(NonPrivate(alpha=1.0))
    for reward in (0.0, 0.3, 1.0):
        for other in (0.0, 0.9, 1.0):
            for seed in range(20):  # the same coin decides both
                change = model.encode(np.array(reward), rng(seed)) - model.encode(
                    np.array(other), rng(seed)
                )
                assert sorted(change) in ([0, 0], [-1, 1])


def test_beta_posterior_is_conjugate() -> None:
    """Kolmogorov-Smirnov on 20,000 draws, false-alarm rate 1e-6; a wrong prior is caught."""
    model = BetaRewards(Diffuse(weight=0.5, alpha=2.0, table="rewards"), low=-1, high=3)
    table = np.tile([6.0, 2.0], (20_000, 1, 1, 1))
    drawn = model.fresh().update(table, rng(7)).sample(rng()).ravel()
    assert stats.kstest(drawn, stats.beta(5, 3, loc=-1, scale=4).cdf).pvalue > 1e-6
    assert stats.kstest(drawn, stats.beta(4.8, 3, loc=-1, scale=4).cdf).pvalue < 1e-6


@pytest.mark.parametrize("reward", [-0.1, 1.1, np.nan, np.inf])
def test_rewards_outside_the_declared_range_are_refused(reward: float) -> None:
    model = BetaRewards(NonPrivate(alpha=1.0))
    with pytest.raises(ValueError, match=r"declared range \[0, 1\]"):
        model.encode(np.array([0.5, reward]), rng())
    with pytest.raises(ValueError, match="declared range"):
        model.encode_counts(np.ones((1, 1, 1)), np.full((1, 1, 1), reward), rng())


def test_a_reward_that_is_never_paid_may_lie_outside_the_range() -> None:
    model = BetaRewards(NonPrivate(alpha=1.0))
    reward = np.array([[[0.5, 7.0]]])
    assert model.encode_counts(np.array([[[3.0, 0.0]]]), reward, rng()).sum() == 3


def test_beta_rewards_want_the_rewards_table() -> None:
    with pytest.raises(ValueError, match='table="rewards"'):
        BetaRewards(Diffuse(weight=0.1))
    for low, high in ((1.0, 0.0), (0.0, 0.0), (np.nan, 1.0), (0.0, np.inf)):
        with pytest.raises(ValueError, match="low must be < high"):
            BetaRewards(NonPrivate(), low=low, high=high)


def test_noisy_rewards_want_noise_on_fractions() -> None:
    """What a Dirichlet draw costs is stated for whole counts."""
    with pytest.raises(ValueError, match="sampler must be NoisyCounts, got Diffuse"):
        NoisyRewards(Diffuse(weight=0.1, table="rewards"))
    NoisyRewards(NonPrivate())  # claims nothing


def test_one_changed_reward_moves_no_more_than_one_success() -> None:
    """In either of two rows a squared norm of at most 1, whatever was paid there."""
    model = NoisyRewards(NoisyCounts(sigma=1.0, updates=1, table="rewards"), low=-2, high=3)
    rewards = np.linspace(-2, 3, 101)
    added = model.encode(rewards, rng())
    assert (added >= 0).all()
    assert ((added**2).sum(axis=-1) <= 1).all()
    together = [
        model.encode_counts(np.ones((1, 1, 1)), np.full((1, 1, 1), reward), rng())
        for reward in rewards
    ]
    np.testing.assert_allclose(np.ravel(together), added.ravel(), atol=1e-12)


def test_a_failed_draw_spoils_the_sampler_inside() -> None:
    model = BetaRewards(Diffuse(weight=0.1, alpha=1.0, table="rewards"))
    model.spoil()
    with pytest.raises(ValueError, match="after a draw that failed midway"):
        model.check(np.zeros((2, 2, 2)))


def test_known_rewards_cost_nothing() -> None:
    assert KnownRewards([[1.0]]).cost is None
    for bad in ([1.0], [[np.nan]], [[[1.0]]]):
        with pytest.raises(ValueError, match="reward must be finite"):
            KnownRewards(bad)
