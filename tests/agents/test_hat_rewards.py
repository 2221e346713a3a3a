"""Rewards split between evenly spaced points: what they add, and what is made of the sums."""

from copy import copy

import numpy as np
import pytest
from made import agent_of
from told import Told

from privrl.agents import DPUCBVI, RLSVI, UCBVI, ExploreThenPlan, HatRewards, NoisyRewards
from privrl.agents.schedules import Once
from privrl.samplers.base import GRID
from privrl.samplers.dirichlet import Concentrated, Diffuse
from privrl.samplers.noisy_counts import NoisyCounts, NonPrivate

RANGES = [(0.0, 1.0, 11), (-100.0, 0.0, 11), (-2.0, 3.0, 2), (1e-3, 7.5, 64)]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def model(low: float = 0.0, high: float = 1.0, points: int = 11) -> HatRewards:
    sampler = NoisyCounts(sigma=1.0, updates=1, table="rewards")
    return HatRewards(sampler, low=low, high=high, points=points)


def added(rewards: HatRewards, reward: np.ndarray) -> np.ndarray:
    """What each reward adds to the table; no coin is tossed, so no generator is asked."""
    amounts = np.asarray(reward, np.float64)
    return rewards.encode(amounts, np.ones(amounts.shape, np.bool_), rng())


def entered(rewards: HatRewards, counts: np.ndarray, reward: np.ndarray) -> np.ndarray:
    """What so many transitions add to the table, each of which paid ``reward``."""
    return rewards.encode_counts(counts, reward, np.arange(counts.shape[-1]), rng())


def paid(low: float, high: float, points: int) -> np.ndarray:
    """Rewards: the points, what is next to them, and anything between."""
    grid = np.linspace(low, high, points)
    return np.concatenate(
        [grid, np.nextafter(grid[1:], low), np.nextafter(grid[:-1], high),
         rng(1).uniform(low, high, 400)]
    )  # fmt: skip


@pytest.mark.parametrize(("low", "high", "points"), RANGES)
def test_a_reward_adds_one_in_all_and_itself_in_the_mean(low, high, points) -> None:
    rewards, amounts = model(low, high, points), paid(low, high, points)
    table = added(rewards, amounts)
    assert table.shape == (*amounts.shape, points)
    assert (table >= 0).all()
    assert (table.sum(axis=-1) == 1).all()  # exact: multiples of 2**-16
    np.testing.assert_array_equal(table / GRID, np.rint(table / GRID))
    step = (high - low) / (points - 1)
    assert np.abs(table @ rewards.grid - amounts).max() <= 0.51 * GRID * step + 1e-12
    filled = [np.flatnonzero(row) for row in table]
    assert all(len(cells) == 1 or cells[1] == cells[0] + 1 for cells in filled)
    assert max(map(len, filled)) == 2


@pytest.mark.few(12)
@pytest.mark.parametrize(("low", "high", "points"), RANGES)
def test_a_changed_reward_moves_no_more_than_a_changed_success(low, high, points) -> None:
    """In two rows a squared norm of at most 1 each, in one row of at most 2 for both."""
    table = added(model(low, high, points), paid(low, high, points))
    norms = (table**2).sum(axis=-1)
    assert norms.max() == 1
    changes = ((table[:, None] - table[None]) ** 2).sum(axis=-1)
    assert changes.max() == 2


def test_it_costs_what_noisy_rewards_cost() -> None:
    sampler = NoisyCounts(sigma=3.0, updates=9, table="rewards")
    assert HatRewards(sampler, points=64).cost == NoisyRewards(sampler).cost


@pytest.mark.parametrize("arrival", [False, True])
@pytest.mark.parametrize("batch", [(), (2, 3)])
def test_counts_add_what_single_rewards_add(arrival: bool, batch: tuple[int, ...]) -> None:
    """Exactly: sums of multiples of 2**-16."""
    rewards, numbers = model(-2.0, 3.0, 7), rng(2)
    reward = numbers.uniform(-2, 3, (3, 2, 4 if arrival else 1))
    counts = numbers.integers(0, 10**9, (*batch, 3, 2, 4)) * (
        numbers.random((*batch, 3, 2, 4)) < 0.6
    )
    one_by_one = added(rewards, np.broadcast_to(reward, (3, 2, 4)))  # (3, 2, 4, 7)
    wanted = (counts[..., None] * one_by_one).sum(axis=-2)
    table = entered(rewards, counts.astype(np.float64), reward)
    assert table.shape == (*batch, 3, 2, 7)
    np.testing.assert_array_equal(table, wanted)


@pytest.mark.parametrize("arrival", [False, True])
def test_what_never_happened_may_pay_anything(arrival: bool) -> None:
    counts = np.zeros((2, 3, 2, 3))
    counts[0, 1, 1, 2], counts[1, 2, 0, 0] = 5, 2
    reward = np.full((3, 2, 3 if arrival else 1), 99.0)
    reward[1, 1, -1], reward[2, 0, 0] = 0.25, 1.0
    table = entered(model(points=3), counts, reward)
    wanted = np.zeros((2, 3, 2, 3))
    wanted[0, 1, 1], wanted[1, 2, 0] = [2.5, 2.5, 0], [0, 0, 2]
    np.testing.assert_array_equal(table, wanted)
    nothing = entered(model(points=3), np.zeros((2, 3, 2, 3)), reward)
    np.testing.assert_array_equal(nothing, np.zeros((2, 3, 2, 3)))


@pytest.mark.parametrize("wrong", [-0.1, 1.1, np.nan, np.inf])
def test_rewards_outside_the_range_are_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match=r"declared range \[0, 1\], and one is not"):
        added(model(), np.array([0.5, wrong]))
    for width in (1, 2):
        with pytest.raises(ValueError, match="declared range"):
            entered(model(), np.ones((1, 1, 2)), np.full((1, 1, width), wrong))


@pytest.mark.parametrize("points", [1, 0, 2.5, True])
def test_too_few_points_are_refused(points) -> None:
    with pytest.raises(ValueError, match="points must be a whole number >= 2"):
        model(points=points)


def test_samplers_and_ranges_that_do_not_fit_are_refused() -> None:
    for kind in (Diffuse(weight=0.1, table="rewards"), Concentrated(alpha=9.0, table="rewards")):
        with pytest.raises(ValueError, match="sampler must be NoisyCounts"):
            HatRewards(kind)
    with pytest.raises(ValueError, match='table="rewards"'):
        HatRewards(NoisyCounts(sigma=1.0, updates=1))
    for low, high in ((1.0, 0.0), (0.0, 0.0), (np.nan, 1.0), (0.0, np.inf)):
        with pytest.raises(ValueError, match="low must be < high"):
            HatRewards(NonPrivate(), low=low, high=high)


@pytest.mark.parametrize("kind", [UCBVI, DPUCBVI, RLSVI, ExploreThenPlan])
def test_agents_that_read_two_cells_refuse_hats(kind) -> None:
    with pytest.raises(ValueError, match="rewards must be KnownRewards, or BetaRewards"):
        agent_of(
            kind, 3, 2, 4, sampler=NonPrivate(), rewards=HatRewards(NonPrivate()), rng=rng(),
            schedule=Once(0),
        )  # fmt: skip


def test_copies_have_the_same_points() -> None:
    rewards = model(-3.0, 2.0, 5)
    np.testing.assert_array_equal(rewards.grid, [-3, -1.75, -0.5, 0.75, 2])
    for other in (rewards.fresh(), copy(rewards)):
        assert other.width == 5
        np.testing.assert_array_equal(other.grid, rewards.grid)


@pytest.mark.slow
def test_the_posterior_is_of_the_mean_reward() -> None:
    """Dirichlet(2, 4, 3) over -2, 0, 2: mean 2/9 and variance of a linear function of it.

    20,000 draws; the mean within 6 standard errors, the variance within a tenth (14 of them).
    Another order of the points is caught.
    """
    told = Told([[[1.0, 3.0, 2.0]]], 0.0)
    posterior = HatRewards(told, low=-2.0, high=2.0, points=3).update(np.zeros((1, 1, 3)), rng())
    grid, chance = np.array([-2.0, 0.0, 2.0]), np.array([2, 4, 3]) / 9
    np.testing.assert_allclose(posterior.mean, [[2 / 9]], rtol=1e-12)
    variance = (chance @ grid**2 - (chance @ grid) ** 2) / 10
    drawn = rng(3)
    samples = np.array([posterior.sample(drawn) for _ in range(20_000)])
    assert samples.shape == (20_000, 1, 1)
    error = np.sqrt(variance / 20_000)
    assert abs(samples.mean() - 2 / 9) < 6 * error
    assert abs(samples.mean() + 2 / 9) > 6 * error
    assert abs(samples.var() / variance - 1) < 0.1


def test_without_noise_the_mean_is_that_of_what_was_paid() -> None:
    amounts = rng(4).uniform(-100, 0, 5000)
    rewards = HatRewards(NonPrivate(alpha=1e-9), low=-100.0, high=0.0)
    table = added(rewards, amounts).sum(axis=0)
    posterior = rewards.update(table[None, None], rng())
    assert float(posterior.mean[0, 0]) == pytest.approx(amounts.mean(), abs=1e-4)
