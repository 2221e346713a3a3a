"""Running counts under correlated noise: what they cost, and the law of the noise."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2, kstest, norm

from privrl.accounting.rdp import BudgetExceeded, RdpAccountant
from privrl.accounting.targets import ApproxDP, RenyiDP
from privrl.costs.base import NoPrivacy
from privrl.costs.noise import GaussianCost
from privrl.costs.relations import ReplaceEpisode, ReplaceRecord, ReplaceStep
from privrl.samplers.base import draw, stack
from privrl.samplers.factorisations import LocalNoise, factorise
from privrl.samplers.noisy_counts import NoisyCounts, NoisyPosterior, NonPrivate

FALSE_ALARM = 1e-6
NAMES = ["square-root", "optimal", "tree", "independent", "buffered"]
SIZES = [1, 2, 3, 7, 8, 64, 114]
each_name = pytest.mark.parametrize("name", NAMES)


@pytest.mark.few(36)
@each_name
@pytest.mark.parametrize("n", SIZES)
def test_factors_multiply_to_running_sums(name: Any, n: int) -> None:
    factors = factorise(name, n)
    np.testing.assert_allclose(factors.left @ factors.right, np.tril(np.ones((n, n))), atol=1e-12)


@pytest.mark.few(36)
@each_name
@pytest.mark.parametrize("n", SIZES)
def test_factors_are_causal(name: Any, n: int) -> None:
    """Noise j enters with the row that first uses it, when all that C sums for it is there."""
    factors = factorise(name, n)
    first_used = [int(np.flatnonzero(column)[0]) for column in factors.left.T]
    last_summed = [int(np.flatnonzero(row)[-1]) for row in factors.right]
    assert all(used >= summed for used, summed in zip(first_used, last_summed, strict=True))
    assert first_used == sorted(first_used)


def test_norms_of_the_literature() -> None:
    """Independent: 1 and the root of n. Tree: the root of its levels. Square root: log n / π."""
    n = 1024
    independent, tree, root = (
        factorise(name, n) for name in ("independent", "tree", "square-root")
    )
    assert independent.column_norm == 1
    assert independent.deviations[-1] == pytest.approx(math.sqrt(n))
    assert tree.column_norm == pytest.approx(math.sqrt(11))
    # The sums of squares of binomial(2k, k) / 4^k, the square of either norm, grow like this.
    squares = (root.left**2).sum(1)
    assert squares[-2] == pytest.approx(root.column_norm**2, rel=1e-3)
    assert squares[-2] == pytest.approx((math.log(16 * n) + np.euler_gamma) / math.pi, rel=1e-3)
    assert 2 * root.deviations.max() < tree.deviations.max() < independent.deviations.max()


@pytest.mark.few(30)
@each_name
@pytest.mark.parametrize("n", [1, 3, 8, 50])
@pytest.mark.parametrize("relation", [ReplaceStep(), ReplaceRecord(), ReplaceEpisode(4)])
def test_cost_of_the_whole_stream_by_linear_algebra(name: Any, n: int, relation: Any) -> None:
    """All sums together are one Gaussian vector; a neighbour moves its mean.

    The Rényi divergence of Gaussians of one covariance is the order times half the squared
    Mahalanobis distance of their means: computed here without the factor C.
    """
    sampler = NoisyCounts(sigma=3.0, updates=n, relation=relation, factorisation=name)
    factors = factorise(name, n)
    covariance = (3.0 * factors.column_norm) ** 2 * factors.left @ factors.left.T
    worst = 0.0
    for batch in range(n):
        moved = (np.arange(n) >= batch).astype(float)  # the batch is in every later sum
        worst = max(worst, moved @ np.linalg.solve(covariance, moved))
    square = max(sum(m * m for m in vector) for vector in relation.changes())
    for order in (1.5, 2.0, 30.0):
        assert sampler.cost is not None
        claimed = float(sampler.cost.rdp(order))
        assert claimed == pytest.approx(order / 2 * worst * square, rel=1e-9)


@each_name
def test_noise_has_the_covariance_it_should_have(name: Any) -> None:
    """4000 cells, 6 updates; a Mahalanobis sum per cell is chi-square, and 3 % off is seen."""
    n, cells = 6, 4000
    sampler = NoisyCounts(sigma=20.0, updates=n, relation=ReplaceRecord(), factorisation=name)
    rng = np.random.default_rng(5)
    counts = [np.full(cells, 10.0 * t) for t in range(n)]
    seen = np.stack([sampler.update(each, rng).counts for each in counts])
    truth = np.cumsum(counts, axis=0)
    factors = factorise(name, n)
    covariance = (20.0 * factors.column_norm) ** 2 * factors.left @ factors.left.T
    noise = seen - truth
    distances = np.einsum("tc,ts,sc->c", noise, np.linalg.inv(covariance), noise)
    assert kstest(distances, chi2(n).cdf).pvalue > FALSE_ALARM
    total = distances.sum()
    assert chi2.sf(total, n * cells) > FALSE_ALARM
    assert chi2.sf(total * 1.03**2, n * cells) < FALSE_ALARM
    np.testing.assert_allclose(noise.std(1), sampler.deviations, rtol=0.06)


@pytest.mark.few(6)
@each_name
@pytest.mark.parametrize("damped", [False, True])
def test_noise_goes_on_from_one_block_of_updates_to_the_next(name: Any, damped: bool) -> None:
    """70 updates of 3000 cells, in three blocks: the noises behind the sums, found from them.

    With B the left factor the sums' noises are B z for standard normal z: a chi-square sum of all
    is within its false-alarm bounds. With noise of its own for every block, which has the same
    deviation in each sum, it is far outside.
    """
    n = 70
    loops = np.array([[True, False, False], [False, True, False]])
    sampler = NoisyCounts(
        sigma=20.0, updates=n, factorisation=name, loops=loops if damped else None
    )
    rng = np.random.default_rng(5)
    released = [sampler.update(np.zeros((500, 2, 3)), rng) for _ in range(n)]
    size = np.where(loops, np.sqrt(2), 1.0) if damped else 1.0
    noise = np.stack([each.counts / size for each in released]).reshape(n, -1)
    noise /= 20 * factorise(name, n).column_norm
    covariance = factorise(name, n).left @ factorise(name, n).left.T

    def p_value(seen: Any) -> float:
        total = np.einsum("tc,ts,sc->", seen, np.linalg.inv(covariance), seen)
        return 2 * min(chi2.sf(total, seen.size), chi2.cdf(total, seen.size))

    assert p_value(noise) > FALSE_ALARM
    afresh = noise.copy()
    afresh[32:] = np.roll(noise, 7, axis=1)[32:]  # the same law within a block, and no bond to it
    assert p_value(afresh) < FALSE_ALARM


@pytest.mark.parametrize("sigma", [0.7, 20.0, 3e5, 1e8])
def test_sums_lie_on_a_grid_far_finer_than_the_noise(sigma: float) -> None:
    """Every sum is a whole number of grains, as counts are: 2^-40 of the noise or less."""
    sampler = NoisyCounts(sigma=sigma, updates=40, relation=ReplaceRecord())
    rng, size = np.random.default_rng(8), sigma * factorise("square-root", 40).column_norm
    grain = min(2.0 ** (math.floor(math.log2(size)) - 40), 2.0**-16)
    for _ in range(40):
        grains = sampler.update(rng.integers(0, 3, 50).astype(float), rng).counts / grain
        np.testing.assert_array_equal(grains, np.rint(grains))
        assert (grains % 2 == 1).any()  # and none wider


def test_noise_depends_on_no_cell_but_its_own() -> None:
    """20,000 cells in rows and columns: means over either are as small as those of 141 draws."""
    sampler = NoisyCounts(sigma=1.0, updates=1, relation=ReplaceRecord())
    noise = sampler.update(np.zeros((141, 141)), np.random.default_rng(9)).counts
    for axis in (0, 1):
        assert abs(noise.mean(axis)).max() < 6 / math.sqrt(141)
    assert len(np.unique(noise)) == noise.size


@pytest.mark.few(9)
@pytest.mark.parametrize(("n", "share"), [(3, 0.99), (20, 0.955), (114, 0.95)])
def test_optimal_is_the_best_of_all(n: int, share: float) -> None:
    """No better than what any factorisation must have, and better than those that are known.

    The bound is that of Edmonds, Nikolov and Ullman (2020): the root mean square error of
    prefix sums is at least the nuclear norm of A over n.
    """
    sums = np.tril(np.ones((n, n)))
    errors = {name: float(np.sqrt((factorise(name, n).deviations ** 2).mean())) for name in NAMES}
    assert errors["optimal"] == min(errors.values())
    assert errors["optimal"] < share * errors["square-root"]
    assert errors["optimal"] >= np.linalg.norm(sums, "nuc") / n
    np.testing.assert_allclose((factorise("optimal", n).right ** 2).sum(0), 1, rtol=1e-8)


def test_long_streams_keep_no_noise_of_every_update() -> None:
    few, more = (NoisyCounts(sigma=1.0, updates=n) for n in (1000, 1001))
    np.testing.assert_array_equal(few.deviations, factorise("square-root", 1000).deviations)
    np.testing.assert_array_equal(more.deviations, factorise("buffered", 1001).deviations)
    # At a loss of less than 1 %, here where it changes.
    assert few.deviations.max() < more.deviations.max() < 1.003 * few.deviations.max()


def test_what_would_fill_the_memory_is_refused() -> None:
    with pytest.raises(ValueError, match="n must be at most 10,000, got 30,000"):
        factorise("square-root", 30_000)


def test_optimal_is_refused_where_it_takes_long() -> None:
    with pytest.raises(ValueError, match="n must be at most 1000"):
        factorise("optimal", 1001)


def test_paid_for_once_before_the_first_update() -> None:
    rng, accountant = np.random.default_rng(0), RdpAccountant(budget=RenyiDP(2, 1))
    sampler = NoisyCounts.calibrated(RenyiDP(2, 1), draws=5)
    assert sampler.cost == GaussianCost(sigma=float(sampler.sigma), relation=ReplaceStep())
    for _ in range(5):
        draw(accountant, [(sampler, np.ones((3, 4)))], rng)
        assert float(accountant.spent(2.0)) == pytest.approx(1, rel=1e-9)
        assert sampler.cost is None
    with pytest.raises(ValueError, match="updates must cover all that are made, got 5"):
        draw(accountant, [(sampler, np.ones((3, 4)))], rng)
    assert sampler.fresh().cost is not None


def test_a_poor_budget_refuses_the_stream_at_its_start() -> None:
    sampler = NoisyCounts(sigma=0.1, updates=3)
    accountant = RdpAccountant(budget=RenyiDP(2, 1))
    with pytest.raises(BudgetExceeded):
        draw(accountant, [(sampler, np.ones((3, 4)))], np.random.default_rng(0))
    assert sampler.cost is not None
    assert not accountant.rdp.any()


@pytest.mark.parametrize("target", [RenyiDP(2, 0.1), RenyiDP(10, 3.0), ApproxDP(1, 1e-5)])
def test_calibrated_meets_the_target_and_no_less_noise_does(target: Any) -> None:
    sampler = NoisyCounts.calibrated(target, draws=20)
    assert target.excess(sampler.cost) <= 0
    less = GaussianCost(sigma=0.999 * float(sampler.sigma), relation=ReplaceStep())
    assert target.excess(less) > 0


def test_more_updates_hardly_cost_noise() -> None:
    few, many = (NoisyCounts(sigma=1.0, updates=n).deviations[-1] for n in (30, 3000))
    assert many < 1.75 * few


def test_runs_side_by_side_are_the_runs_alone() -> None:
    """Each row of a stack has its own noise size; independent, and of the right deviation."""
    alone = [NoisyCounts(sigma=s, updates=4, alpha=a) for s, a in ((1.0, 0.5), (100.0, 2.0))]
    stacked = stack(alone)
    rng = np.random.default_rng(2)
    posterior = stacked.update(np.full((2, 5000, 3), 1000.0), rng)
    spread = (posterior.counts - 1000).std(axis=(1, 2))
    first = [float(each.deviations[0]) for each in alone]
    np.testing.assert_allclose(stacked.deviations[:, 0], first)
    np.testing.assert_allclose(spread, first, rtol=0.05)
    assert posterior.alpha.ravel().tolist() == [0.5, 2.0]
    unused = stacked.fresh().cost
    assert unused is not None
    assert unused.rdp([2.0]).shape == (2, 1)


def test_the_posterior_is_that_of_the_noisy_counts() -> None:
    posterior = NoisyPosterior(np.array([3.0, -2.0, 1.0]), np.ones(1), np.array([0.5]))
    np.testing.assert_allclose(posterior.mean, np.array([3.5, 0.5, 1.5]) / 5.5)
    soft = NoisyPosterior(np.array([3.0, -2.0, 1.0]), np.ones(1), np.array([0.5]), 1.5)
    np.testing.assert_allclose(soft.mean, np.array([2.0, 0.5, 0.5]) / 3.0)
    rng = np.random.default_rng(0)
    samples = np.array([posterior.sample(rng) for _ in range(4000)])
    np.testing.assert_allclose(samples.mean(0), posterior.mean, atol=0.02)
    assert len(np.unique(samples[:, 0])) == 4000  # fresh each time


def test_damped_self_loops_have_more_noise_and_the_rest_less() -> None:
    """20,000 runs: deviations within 3 % of what is stated, √2 apart; the sums unbiased."""
    loops = np.eye(3, dtype=bool)
    target = RenyiDP(2, 0.1)
    plain, damped = (NoisyCounts.calibrated(target, draws=4, loops=mask) for mask in (None, loops))
    assert float(damped.sigma) == pytest.approx(float(plain.sigma) * np.sqrt(4 / 6), rel=1e-9)
    rng, runs = np.random.default_rng(7), 20_000
    for t in range(4):
        posterior = damped.update(np.full((runs, 3, 3), 10.0), rng)
        noise = posterior.counts - 10 * (t + 1)
        stated = damped.deviations[t] * np.where(loops, np.sqrt(2), 1)
        np.testing.assert_allclose(noise.std(0), stated, rtol=0.03)
        np.testing.assert_allclose(posterior.deviation[0], stated)
        np.testing.assert_allclose(noise.mean(0), 0, atol=5 * stated.max() / np.sqrt(runs))
    with pytest.raises(ValueError, match="read-only"):
        damped.loops[0, 0] = False
    with pytest.raises(ValueError, match="counts must end with the axes of loops"):
        damped.fresh().check(np.ones((2, 3, 4)))
    with pytest.raises(ValueError, match="loops must be an array of bool"):
        NoisyCounts(sigma=1.0, updates=2, loops=[[1, 0]])
    with pytest.raises(ValueError, match="the same loops"):
        stack([NoisyCounts(sigma=1.0, updates=2, loops=mask) for mask in (loops, 0 * loops > 0)])
    with pytest.raises(ValueError, match="table must be one of"):
        NoisyCounts(sigma=1.0, updates=2, relation=ReplaceRecord(), loops=loops)


@pytest.mark.slow
def test_local_noise_adds_up_over_users() -> None:
    local = LocalNoise((0, 1, 3, 12))
    sampler = NoisyCounts(sigma=5.0, updates=4, factorisation=local, relation=ReplaceEpisode(3))
    np.testing.assert_allclose(sampler.deviations, 5 * np.sqrt([0, 1, 4, 16]))
    rng = np.random.default_rng(3)
    seen = [sampler.update(np.zeros(80_000), rng).counts for _ in range(4)]
    assert (seen[0] == 0).all()  # nobody has sent anything
    for t in (1, 2, 3):
        assert kstest(seen[t], norm(0, sampler.deviations[t]).cdf).pvalue > FALSE_ALARM
        assert kstest(seen[t], norm(0, 1.05 * sampler.deviations[t]).cdf).pvalue < FALSE_ALARM
    target = RenyiDP(2, 1.0)
    made = NoisyCounts.calibrated(
        target, draws=2, factorisation=LocalNoise((1, 1)), relation=ReplaceEpisode(3)
    )
    assert made.cost is not None
    assert target.excess(made.cost) <= 0


def test_data_where_no_users_were_planned_are_refused() -> None:
    """Their noise would be none."""
    accountant = RdpAccountant()
    sampler = NoisyCounts(sigma=5.0, updates=2, factorisation=LocalNoise((0, 2)))
    with pytest.raises(ValueError, match="counts must be 0 in a batch of no users"):
        draw(accountant, [(sampler, np.ones((2, 3)))], np.random.default_rng(0))
    assert accountant.relation is None
    draw(accountant, [(sampler, np.zeros((2, 3)))], np.random.default_rng(0))
    draw(accountant, [(sampler, np.ones((2, 3)))], np.random.default_rng(0))


@pytest.mark.parametrize("users", [(0,), (0, 0)])
def test_a_stream_without_users_needs_no_noise(users: tuple[int, ...]) -> None:
    accountant, rng = RdpAccountant(), np.random.default_rng(0)
    sampler = NoisyCounts(sigma=5.0, updates=len(users), factorisation=LocalNoise(users))
    for _ in users:
        with pytest.raises(ValueError, match="counts must be 0 in a batch of no users"):
            draw(accountant, [(sampler, np.ones((2, 3)))], rng)
        (posterior,) = draw(accountant, [(sampler, np.zeros((2, 3)))], rng)
        assert not posterior.counts.any()
        assert np.isfinite(posterior.sample(rng)).all()


@each_name
def test_shared_factors_cannot_be_changed(name: Any) -> None:
    factors = factorise(name, 10)
    for matrix in (factors.left, factors.right):
        with pytest.raises(ValueError, match="read-only"):
            matrix[...] = 0.0


def test_exact_counts_claim_nothing() -> None:
    sampler, rng = NonPrivate(alpha=2.0), np.random.default_rng(0)
    assert sampler.cost == NoPrivacy(ReplaceStep())
    sampler.update(np.array([1.0, 2.0]), rng)
    posterior = sampler.update(np.array([1.0, 2.0]), rng)
    assert posterior.counts.tolist() == [2, 4]
    assert posterior.deviation.tolist() == [0]
    with pytest.raises(BudgetExceeded):
        draw(RdpAccountant(budget=RenyiDP(2, 1e9)), [(sampler, np.ones(2))], rng)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"sigma": 0.0}, "sigma must be"),
        ({"sigma": math.nan}, "sigma must be"),
        ({"updates": 0}, "must be a whole number >= 1"),
        ({"updates": 10**9}, "n must be at most 1,000,000"),
        ({"updates": 2.5}, "must be a whole number >= 1"),
        ({"alpha": 0.0}, "alpha must be a number > 0"),
        ({"factorisation": LocalNoise((1, 2))}, "users must be planned for each of 3 updates"),
        ({"factorisation": "root"}, "factorisation must be one of 'auto'"),
        ({"table": "prices"}, "table must be one of"),
        ({"threshold": -1.0}, "threshold must be"),
        ({"threshold": math.nan}, "threshold must be"),
        ({"threshold": np.zeros((1, 1), np.float16)}, "threshold must be"),
        ({"threshold": 10**400}, "threshold must be"),
    ],
)
def test_bad_settings(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        NoisyCounts(**({"sigma": 1.0, "updates": 3} | settings))


def test_short_floats_are_thresholds() -> None:
    """They warned that the largest float is too large for them."""
    assert NoisyCounts(sigma=1.0, updates=3, threshold=np.float32(1.5))._threshold == 1.5


@pytest.mark.parametrize("counts", [[-1.0, 2.0], [np.nan, 1.0], [np.inf, 1.0], 3.0])
def test_bad_counts_cost_nothing(counts: Any) -> None:
    accountant, sampler = RdpAccountant(), NoisyCounts(sigma=1.0, updates=3)
    with pytest.raises(ValueError, match="counts must"):
        draw(accountant, [(sampler, counts)], np.random.default_rng(0))
    assert accountant.relation is None
    assert sampler.cost is not None


def test_bad_stacks() -> None:
    with pytest.raises(ValueError, match="samplers must be at least one"):
        stack([])
    with pytest.raises(ValueError, match="one number of updates"):
        stack([NoisyCounts(sigma=1.0, updates=n) for n in (2, 3)])
    with pytest.raises(ValueError, match="one table"):
        stack(
            [NoisyCounts(sigma=1.0, updates=2, table=name) for name in ("transitions", "rewards")]
        )
    with pytest.raises(ValueError, match="one factorisation"):
        stack(
            [
                NoisyCounts(sigma=1.0, updates=2, factorisation=name)
                for name in ("tree", LocalNoise((1, 1)))
            ]
        )
    used = NoisyCounts(sigma=1.0, updates=2)
    used.update(np.ones(2), np.random.default_rng(0))
    with pytest.raises(ValueError, match="samplers must be at least one"):
        stack([used])
    with pytest.raises(ValueError, match="counts must have leading axes"):
        stack([NoisyCounts(sigma=1.0, updates=2)] * 2).check(np.ones((3, 2)))
