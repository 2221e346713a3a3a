"""Reward models: the contract that agents rely on, and the law of each."""

import numpy as np
import pytest
from scipy import stats

from privrl.accounting.rdp import RdpAccountant
from privrl.agents import BetaRewards, HatRewards, KnownRewards, NoisyRewards
from privrl.agents.rewards import HatPosterior, RewardModel, reward_loops
from privrl.agents.sparse_model import SparseModel
from privrl.costs.relations import (
    DAMPED_REWARDS,
    PaperStep,
    PaperStepWarning,
    Relation,
    ReplaceEpisode,
    ReplaceStep,
    ReplaceTransition,
)
from privrl.samplers.base import draw
from privrl.samplers.dirichlet import Diffuse
from privrl.samplers.noisy_counts import NoisyCounts, NoisyPosterior, NonPrivate

ALL_MODELS = [
    KnownRewards(np.arange(6.0).reshape(3, 2) / 6),
    BetaRewards(NonPrivate(alpha=1.0)),
    BetaRewards(Diffuse(weight=0.1, alpha=1.0, table="rewards"), low=-2, high=3),
]
ARRIVAL = ReplaceStep(arrival_rewards=True)


def damped(relation: Relation = ARRIVAL, points: int = 3) -> NoisyCounts:
    """A sampler of rewards with self-loops apart."""
    loops = np.arange(2 * points) >= points
    return NoisyCounts(sigma=1.0, updates=3, relation=relation, table="rewards", loops=loops)


ALL_MODELS += [HatRewards(NonPrivate(), low=-1), HatRewards(damped(), points=3)]
each_model = pytest.mark.parametrize("model", ALL_MODELS, ids=lambda m: type(m).__name__)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def encoded(model: RewardModel, reward: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """What steps from state 0 to state 1 add that pay so much."""
    return model.encode(reward, np.zeros(reward.shape, np.bool_), rng)


@each_model
def test_shapes(model: RewardModel) -> None:
    assert encoded(model, np.array([0.0, 1.0]), rng()).shape == (2, model.width)
    counts = rng(1).integers(0, 5, (4, 3, 2, 3)).astype(float)
    table = model.encode_counts(counts, np.full((3, 2, 1), 0.5), np.arange(3), rng())
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
    at_once = model.encode_counts(many, reward, np.arange(1, 4), rng(2))[:, 0, 0]
    singles = np.repeat(reward.ravel(), counts.ravel().astype(int))
    one_by_one = encoded(model, np.tile(singles, (20_000, 1)), rng(3)).sum(1)
    error = 6 * np.hypot(at_once.std(0), one_by_one.std(0)) / np.sqrt(20_000)
    assert (np.abs(at_once.mean(0) - one_by_one.mean(0)) <= error + 1e-12).all()
    np.testing.assert_allclose(at_once.var(0), one_by_one.var(0), rtol=0.1, atol=1e-12)


@each_model
def test_fresh_has_seen_nothing(model: RewardModel) -> None:
    table = encoded(model, np.ones((3, 2)), rng())
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
                one, two = (encoded(model, np.array(each), rng(seed)) for each in (reward, other))
                change = one - two
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
        encoded(model, np.array([0.5, reward]), rng())
    with pytest.raises(ValueError, match="declared range"):
        model.encode_counts(np.ones((1, 1, 1)), np.full((1, 1, 1), reward), np.ones(1), rng())


def test_a_reward_that_is_never_paid_may_lie_outside_the_range() -> None:
    model = BetaRewards(NonPrivate(alpha=1.0))
    reward = np.array([[[0.5, 7.0]]])
    assert model.encode_counts(np.array([[[3.0, 0.0]]]), reward, np.arange(2), rng()).sum() == 3


def test_beta_rewards_want_the_rewards_table() -> None:
    with pytest.raises(ValueError, match='table="rewards"'):
        BetaRewards(Diffuse(weight=0.1))
    for low, high in ((1.0, 0.0), (0.0, 0.0), (np.nan, 1.0), (0.0, np.inf)):
        with pytest.raises(ValueError, match="low must be < high"):
            BetaRewards(NonPrivate(), low=low, high=high)


def test_noisy_rewards_want_noise_on_fractions() -> None:
    """What a Dirichlet draw costs is stated for whole counts."""
    with pytest.raises(
        ValueError, match="sampler must be NoisyCounts, got an object of type Diffuse"
    ):
        NoisyRewards(Diffuse(weight=0.1, table="rewards"))
    NoisyRewards(NonPrivate())  # claims nothing


def test_one_changed_reward_moves_no_more_than_one_success() -> None:
    """In either of two rows a squared norm of at most 1, whatever was paid there."""
    model = NoisyRewards(NoisyCounts(sigma=1.0, updates=1, table="rewards"), low=-2, high=3)
    rewards = np.linspace(-2, 3, 101)
    added = encoded(model, rewards, rng())
    assert (added >= 0).all()
    assert ((added**2).sum(axis=-1) <= 1).all()
    together = [
        model.encode_counts(np.ones((1, 1, 1)), np.full((1, 1, 1), reward), np.ones(1), rng())
        for reward in rewards
    ]
    np.testing.assert_allclose(np.ravel(together), added.ravel(), atol=1e-12)


def test_a_failed_draw_spoils_the_sampler_inside() -> None:
    model = BetaRewards(Diffuse(weight=0.1, alpha=1.0, table="rewards"))
    model.invalidate()
    with pytest.raises(ValueError, match="after a draw that failed midway"):
        model.check(np.zeros((2, 2, 2)))


def test_known_rewards_cost_nothing() -> None:
    assert KnownRewards([[1.0]]).cost is None
    for bad in ([1.0], [[np.nan]], [[[1.0]]]):
        with pytest.raises(ValueError, match="reward must be finite"):
            KnownRewards(bad)


# Rewards of steps that stay, apart -----------------------------------------------------------


def test_rewards_of_steps_that_stay_have_points_of_their_own() -> None:
    """By hand: a reward of 3/4 of the range is half of the second point and half of the third."""
    model = HatRewards(damped(), low=-1.0, high=3.0, points=3)
    assert model.width == 6
    np.testing.assert_array_equal(model.grid, [-1, 1, 3, -1, 1, 3])
    state, following = np.array([0, 0, 1, 1]), np.array([0, 1, 1, 2])
    reward = np.full(4, 2.0)
    moves, stays = [0, 0.5, 0.5, 0, 0, 0], [0, 0, 0, 0, 0.5, 0.5]
    by_steps = model.encode(reward, following == state, rng())
    np.testing.assert_array_equal(by_steps, [stays, moves, stays, moves])
    counts = np.zeros((2, 2, 1, 3))
    np.add.at(counts, (1, state, 0, following), [1, 2, 3, 4])
    wanted = np.zeros((2, 2, 1, 6))
    wanted[1, :, 0] = [[0, 1, 1, 0, 0.5, 0.5], [0, 2, 2, 0, 1.5, 1.5]]
    for paid in (np.full((2, 1, 1), 2.0), np.full((2, 1, 3), 2.0)):
        for cells in (np.arange(3), np.broadcast_to(np.arange(3), (2, 1, 3))):
            np.testing.assert_array_equal(model.encode_counts(counts, paid, cells, rng()), wanted)
    for fresh in (model.fresh(), model.fresh().fresh()):
        assert fresh.width == 6


def test_noise_is_louder_in_the_second_half() -> None:
    """10,000 runs of 4 rows: deviations within 3 % of what is stated, five standard errors."""
    posterior = damped().update(np.zeros((10_000, 2, 2, 6)), rng(5))
    stated = posterior.deviation[0, 0, 0]
    np.testing.assert_allclose(stated / stated[0], [1] * 3 + [np.sqrt(2)] * 3)
    np.testing.assert_allclose(posterior.counts.std(axis=(0, 1, 2)), stated, rtol=0.03)


def test_means_are_those_of_both_halves() -> None:
    """Little noise: three steps paid 1 and moved, one paid 0 and stayed."""
    sampler = NoisyCounts(
        sigma=1e-6, updates=1, alpha=1e-9, relation=ARRIVAL, table="rewards",
        loops=np.arange(4) >= 2,
    )  # fmt: skip
    model = HatRewards(sampler, points=2)
    table = model.encode_counts(
        np.array([[[1.0, 3.0]]]), np.array([[[0.0, 1.0]]]), np.arange(2), rng()
    )
    np.testing.assert_allclose(model.update(table, rng()).mean, 0.75, atol=1e-4)


@pytest.mark.parametrize("seed", range(5))
def test_what_is_planned_from_both_halves_is_what_their_sum_says(seed: int) -> None:
    """Exact counts, two runs; half of the rewards alone would have another policy."""
    generator, shape = rng(seed), (2, 5, 3)
    counts = generator.poisson(1.0, (*shape, 5)) + 1.0
    halves = generator.poisson(2.0, (*shape, 2, 4)).astype(float) + 1.0
    points = np.linspace(-1, 2, 4)

    def planned(paid: np.ndarray, grid: np.ndarray) -> np.ndarray:
        nothing, alpha = np.zeros((1,) * 4), np.ones((1,) * 4)
        rows = HatPosterior(NoisyPosterior(paid, nothing, alpha), grid)
        return SparseModel(NoisyPosterior(counts, nothing, alpha), rows, 6).mean_plan()

    together = planned(halves.sum(axis=-2), points)
    np.testing.assert_array_equal(planned(halves.reshape(*shape, 8), np.tile(points, 2)), together)
    assert (planned(halves[..., 0, :], points) != together).any()


@pytest.mark.parametrize(
    ("relation", "cheaper"),
    [
        (ARRIVAL, True),
        (ReplaceEpisode(4), True),
        (ReplaceStep(), False),
        (ReplaceTransition(arrival_rewards=True), False),
        (ReplaceTransition(), False),
        (Relation("mine", {"transitions": [(1, -1)], "rewards": [(1, -1)]}), False),
    ],
    ids=str,
)
def test_loops_of_rewards_are_for_who_gains_by_them(relation: Relation, cheaper: bool) -> None:
    loops = reward_loops(relation, points=3)
    assert (loops is not None) == cheaper
    if loops is not None:
        np.testing.assert_array_equal(loops, [False] * 3 + [True] * 3)
        made = NoisyCounts(sigma=1.0, updates=1, relation=relation, table="rewards", loops=loops)
        assert made.cost.table == DAMPED_REWARDS
        plain = NoisyCounts(sigma=1.0, updates=1, relation=relation, table="rewards")
        assert made.cost.rdp(2.0) < plain.cost.rdp(2.0)
        HatRewards(made, points=3)
    with pytest.warns(PaperStepWarning):
        assert reward_loops(PaperStep()) is None


def test_the_cost_of_damped_rewards_is_for_who_keeps_them_apart() -> None:
    """Also after the first draw, when a sampler tells no cost."""
    used = damped()
    draw(RdpAccountant(), [(used, np.zeros((2, 2, 6)))], rng())
    for sampler in (damped(), used):
        HatRewards(sampler, points=3)
        for model in (BetaRewards, NoisyRewards):
            with pytest.raises(ValueError, match=r"sampler must be made .* leave out its loops"):
                model(sampler)
        for points in (2, 4, 6, 11):
            with pytest.raises(ValueError, match=f"sampler must have the loops of {points} points"):
                HatRewards(sampler, points=points)


def test_loops_say_which_table_is_paid_for() -> None:
    """Noise for a squared norm of 4 where rewards in one table need 6."""

    class Undamped(NoisyCounts):
        loops = None

    class Plain(NoisyCounts):
        """Says that it has loops, and costs what rewards do that are not kept apart."""

        loops = np.arange(6) >= 3

    options = {"sigma": 1.0, "updates": 3, "relation": ARRIVAL, "table": "rewards"}
    with pytest.raises(ValueError, match="sampler must damp the self-loops"):
        HatRewards(Undamped(**options, loops=reward_loops(ARRIVAL)))
    with pytest.raises(ValueError, match="made for the relation's table 'rewards, self-loops"):
        HatRewards(Plain(**options), points=3)
    for table in ("rewards", DAMPED_REWARDS):
        made = NoisyCounts(**options | {"table": table}, loops=reward_loops(ARRIVAL))
        assert made.cost.table == DAMPED_REWARDS
    with pytest.raises(ValueError, match="needs loops, the cells that are damped"):
        NoisyCounts(**options | {"table": DAMPED_REWARDS})
    for wrong in ([True, False], [False, True, True], [[False, True]], [False, False], [True]):
        with pytest.raises(ValueError, match="loops of rewards must be the second half of a row"):
            NoisyCounts(**options, loops=wrong)


def test_points_that_are_paid_nowhere_are_told_from_those_that_are() -> None:
    """The same noisy count is more likely to be a reward where the point is paid elsewhere too."""
    generator = rng(1)
    paid = generator.normal(size=(1, 40, 2, 4))
    paid[0, 1:, :, 0] += 9.0  # but for one state, all actions pay the first point
    paid[0, 0, :, :] = 2.5
    ones, nothing = np.ones((1,) * 4), np.zeros((1, 40, 2, 40))
    rows = HatPosterior(NoisyPosterior(paid, ones, ones), np.linspace(0, 1, 4))
    model = SparseModel(NoisyPosterior(nothing, ones, ones), rows, 6)
    chance = model._chance_paid[:, 0, 0]  # of the first state
    assert (chance[:, 0] > 2 * chance[:, 1:].max(axis=-1)).all()


@pytest.mark.parametrize(
    ("paid", "low", "high"),
    [
        (np.float16(-1.2), -1.2, 1.0),
        (np.float32(-1.1), -1.1, 1.0),
        (np.float64(np.float32(-1.1)), -1.1, 1.0),  # as arrays of float64 hold it
        (np.float64(np.float32(-1000.4)), -1000.4, -999.4),
        (np.float32(0.3), -1.1, 0.3),
        (np.float64(0.1 * 3), 0.0, 0.3),
    ],
)
def test_a_reward_that_rounding_moved_out_of_the_range_counts_as_its_end(
    paid: np.floating, low: float, high: float
) -> None:
    """So one changed reward still moves at most one count."""
    assert not low <= float(paid) <= high
    sampler = NoisyCounts(sigma=1.0, updates=1, table="rewards")
    for model in (
        BetaRewards(NonPrivate(alpha=1.0), low=low, high=high),
        NoisyRewards(sampler, low=low, high=high),
        HatRewards(sampler, low=low, high=high, points=4),
    ):
        end = np.array([high if paid > 0 else low])
        wanted = encoded(model, end, rng())
        np.testing.assert_array_equal(encoded(model, np.array([paid]), rng()), wanted)
        for wrong in (end * 1.01, end * (1 + 1e-9)):
            with pytest.raises(ValueError, match="declared range"):
                encoded(model, wrong, rng())
