"""Histograms estimated by priors that fit: against sums in full, in their limits, by simulation."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from privrl.mechanisms import (
    DiscreteGaussianMechanism,
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    LaplaceMechanism,
)
from privrl.models.estimates.frequencies import frequencies
from privrl.models.estimates.lattices import Lattices, _lattices
from privrl.models.estimates.levels import Likelihoods, levels_of
from privrl.models.estimates.mixture import _shortest, families, fit, fitted
from privrl.models.estimates.ordered import Chains

KINDS = [GaussianMechanism, DiscreteGaussianMechanism, LaplaceMechanism, DiscreteLaplaceMechanism]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def noise_of(kind, size: float):
    return kind(**{"sigma" if "Gaussian" in kind.__name__ else "scale": size})


# Levels ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [0.3, 4.0, 15.0, 60.0, 1e4])
def test_levels_are_not_told_apart_by_noise_or_chance(kind, size: float) -> None:
    """Gaps are at most 0.7 of what blurs a level, up to ten variances of the noise; or 0.06."""
    deviation = noise_of(kind, size).deviation
    levels = levels_of(1e5, 100, deviation, 2e4)
    assert levels[0] == 0
    assert levels[1] <= 1000 / 8
    assert levels[-1] >= min(2e4, 1e5)
    gaps, below = np.diff(np.log(levels[1:])), levels[1:-1]
    assert (gaps <= 0.2501).all()
    near = below <= 10 * deviation**2
    blur = np.sqrt(deviation**2 + below) / below
    assert (gaps <= np.maximum(0.7 * blur, 0.06) + 1e-9)[near].all()


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("noise", "z"),
    [
        (DiscreteLaplaceMechanism(scale=2), 7),
        (DiscreteLaplaceMechanism(scale=0.3), 40),
        (GaussianMechanism(sigma=3), -4.5),
        (LaplaceMechanism(scale=12), 33.25),
    ],
    ids=repr,
)
@pytest.mark.parametrize("tilt", [0.0, 0.05])
def test_likelihoods_are_sums_over_whole_counts(noise, z: float, tilt: float) -> None:
    """Poisson counts where noise blurs levels, of gamma means where it does not: one by one."""
    levels = levels_of(500, 10, noise.deviation, 60)
    found = Likelihoods(np.array([z]), noise, levels)
    log, mean, variance = (part[0] for part in found(tilt))
    x = np.arange(4000)
    size = found.size
    gaussian = isinstance(noise, GaussianMechanism)
    error = (z - x) / size
    log_noise = -(error**2) / 2 if gaussian else -np.abs(error)
    for level, shape, *got in zip(levels, found._shapes, log, mean, variance, strict=True):
        if level == 0:
            prior = np.where(x == 0, 1.0, 0.0)
        elif math.isinf(shape):
            prior = stats.poisson(level).pmf(x)
        else:
            prior = stats.nbinom(shape, shape / (shape + level)).pmf(x)
        mass = prior * np.exp(log_noise - tilt * x)
        total = mass.sum()
        first = (mass * x).sum() / total
        expected = math.log(total), first, (mass * x**2).sum() / total - first**2
        if abs(level - z) < 4 * size:  # what is beyond is not looked at
            assert got == pytest.approx(expected, rel=2e-2, abs=2e-2)


# Laws and chains ---------------------------------------------------------------------------------


def test_families_have_the_mean_of_all_records() -> None:
    levels = levels_of(1e4, 50, 5.0, 4e4)
    laws, chances = families(levels, 1e4, 50)
    assert (laws > 0).all()
    np.testing.assert_allclose(laws.sum(axis=1), 1)
    np.testing.assert_allclose(np.exp(chances).sum(), 1)
    # All cells and half of them; the others' levels would be beyond all records now and then.
    shapes = laws.reshape(5, -1, levels.size)[:, :5]
    np.testing.assert_allclose(shapes @ levels, 200, rtol=0.05)
    full, empty, *others = np.moveaxis(shapes, 1, 0)[..., 0]
    np.testing.assert_allclose(empty, 0.5, atol=1e-6)
    assert np.max([full, *others]) < 1e-6
    assert np.isclose(laws[:, 0], 0.98, atol=0.01).any()  # one cell with all records


def test_a_fitted_law_is_the_more_likely_the_more_cells_there_are() -> None:
    """Half the cells at 30 records, half at 300: between is less than a tenth of the law."""
    noise, generator = DiscreteLaplaceMechanism(scale=2), rng(1)
    z = noise.release(generator.poisson(np.repeat([30, 300], 500)), generator)
    levels = levels_of(float(z.sum()), 1000, noise.deviation, z.max())
    log, *_ = Likelihoods(z.astype(float), noise, levels)()
    even = np.full(levels.size, 1 / levels.size)
    law = fitted(log, np.ones(1000), even)
    assert law.sum() == pytest.approx(1)
    assert law[(levels > 60) & (levels < 200)].sum() < 0.1 < even[(levels > 60)].sum()


def small_chains() -> tuple[np.ndarray, Chains]:
    levels = levels_of(60, 5, 8.0, 20.0)[::3]
    law = np.linspace(3, 1, levels.size)
    return levels, Chains.over(levels, law / law.sum(), 5)


@pytest.mark.parametrize("power", [0, 1, 30])
def test_chains_are_reversible_and_have_their_law(power: int) -> None:
    """However unlike the law is to what steps lead to."""
    levels, chains = small_chains()
    law = np.maximum(chains.law**power * (1 + np.arange(levels.size) % 3), 1e-9)
    chains = Chains.over(levels, law / law.sum(), 5)
    for kernel in chains.kernels:
        both = chains.law[:, None] * kernel
        np.testing.assert_allclose(both, both.T, atol=1e-9)
        np.testing.assert_allclose(chains.law @ kernel, chains.law, atol=1e-9)


def test_chains_agree_with_a_sum_over_all_paths() -> None:
    """Every path of levels over four cells."""
    _, chains = small_chains()
    chains = chains.only(np.array([1, 5, 8]))
    n = chains.law.size
    log = rng(3).normal(0, 2, (4, n))
    evidence, weights = chains.posterior(np.stack([log] * 3))
    np.testing.assert_allclose(evidence, chains.log_evidence(log), rtol=1e-9)
    for s, (kernel, jump) in enumerate(zip(chains.kernels, chains.jumps, strict=True)):
        step = (1 - jump) * kernel + jump * chains.law
        marginals = np.zeros((4, n))
        for path in itertools.product(range(n), repeat=4):
            chance = chains.law[path[0]] * math.prod(
                step[a, b] for a, b in itertools.pairwise(path)
            )
            chance *= math.exp(sum(log[i, at] for i, at in enumerate(path)))
            for i, at in enumerate(path):
                marginals[i, at] += chance
        total = marginals[0].sum()
        assert evidence[s] == pytest.approx(math.log(total), rel=1e-9)
        np.testing.assert_allclose(weights[s], marginals / total, atol=1e-7)


def test_the_variance_of_a_chain_s_sum() -> None:
    """Against powers of the chances, one by one."""
    levels, chains = small_chains()
    centred = levels - chains.law @ levels
    for kernel, jump, found in zip(chains.kernels, chains.jumps, chains.variances, strict=True):
        step = (1 - jump) * kernel + jump * chains.law
        expected = 5 * chains.law @ centred**2
        for k in range(1, 5):
            later = np.linalg.matrix_power(step, k) @ centred
            expected += 2 * (5 - k) * (chains.law * centred) @ later
        assert found == pytest.approx(expected, rel=1e-3)


# The estimate ------------------------------------------------------------------------------------


@st.composite
def releases(draw):
    """Noise of any size, counts of any; all records in a cell; what noise never does, too."""
    n, d = draw(st.sampled_from([1, 3, 300, 10**5, 10**9])), draw(st.integers(2, 30))
    kind, size = draw(st.sampled_from(KINDS)), draw(st.sampled_from([1e-3, 0.2, 2, 20, 2e3, 2e6]))
    generator = rng(draw(st.integers(0, 2**32)))
    shape = draw(st.sampled_from([0.02, 0.3, 1.0, 50.0]))
    true = generator.multinomial(n, generator.dirichlet(np.full(d, shape)))
    noise = noise_of(kind, size)
    z = noise.release(true, generator) + draw(st.sampled_from([0, 0, 0, -5000, 10**7]))
    return np.asarray(z, float), noise, draw(st.sampled_from([float(n), None]))


@pytest.mark.slow
@settings(max_examples=80, deadline=None, derandomize=True, database=None)
@given(releases(), st.sampled_from([0.01, 0.5, 0.95, 1 - 1e-9]))
def test_whatever_was_released_is_estimated(release, confidence: float) -> None:
    """Counts > 0 with the sum that is public, within their intervals."""
    z, noise, n = release
    found = fit(z, noise, n)
    assert np.isfinite(found.counts).all()
    assert (found.counts > 0).all()
    if n is not None:
        assert found.counts.sum() == pytest.approx(n, rel=1e-9)
    low, high = found.intervals(confidence).T
    assert (low >= 0).all()
    assert (low <= found.counts).all()
    assert (found.counts <= high).all()


@pytest.mark.slow
@settings(max_examples=25, deadline=None, derandomize=True, database=None)
@given(releases())
def test_a_mirrored_histogram_has_the_mirrored_estimate(release) -> None:
    z, noise, n = release
    found, mirrored = fit(z, noise, n).counts, fit(z[::-1], noise, n).counts[::-1]
    np.testing.assert_allclose(found, mirrored, rtol=1e-5, atol=1e-7 * found.sum())


def test_without_an_order_a_shuffled_histogram_has_the_shuffled_estimate(monkeypatch) -> None:
    """With one, what it says is not thrown away."""
    noise, generator = DiscreteLaplaceMechanism(scale=20), rng(4)
    true = np.rint(500 * np.exp(-(((np.arange(60) - 30) / 12) ** 2)))
    z = noise.release(true.astype(int), generator)
    order = generator.permutation(60)
    n = float(true.sum())
    assert np.abs(fit(z, noise, n).counts[order] - fit(z[order], noise, n).counts).max() > 1
    monkeypatch.setattr("privrl.models.estimates.mixture.ORDERED", 0)
    shuffled = fit(z[order], noise, n).counts
    np.testing.assert_allclose(fit(z, noise, n).counts[order], shuffled, rtol=1e-12)


def test_next_to_no_noise_is_believed() -> None:
    for kind in KINDS:
        true = np.array([0, 3, 1000, 0, 12, 0, 7])
        found = fit(true, noise_of(kind, 1e-3), 1022.0)
        np.testing.assert_allclose(found.counts, true, atol=1e-3)


def test_next_to_nothing_released_is_the_uniform_guess() -> None:
    found = fit(rng(2).normal(0, 1e6, 8), GaussianMechanism(sigma=1e6), 50.0)
    np.testing.assert_allclose(found.counts, 50 / 8, rtol=0.1)


SHAPES = {  # expected counts, scale of the noise, how much nearer to the truth at least
    "sparse": (np.where(np.arange(400) % 50 == 7, 500.0, 0.0), 20.0, 4.0),
    "smooth": (60 * (1.2 + np.sin(np.arange(400) / 60)), 20.0, 2.0),
    "steps": (np.repeat([5.0, 200.0, 40.0, 120.0], 100), 20.0, 2.5),
    "zipf": (rng(9).permutation(20_000 / np.arange(1.0, 401)), 20.0, 1.05),
}


@pytest.mark.few(4)
@pytest.mark.parametrize("shape", SHAPES)
def test_what_fits_beats_all_histograms_alike(shape: str) -> None:
    """Absolute errors over 4 releases, against the mean over all histograms as equally likely.

    Margins are two thirds of what is seen, or, for the last, a little less; seeds are fixed.
    """
    rates, scale, margin = SHAPES[shape]
    noise = DiscreteLaplaceMechanism(scale=scale)
    ours, alike = 0.0, 0.0
    for g in rng(5).spawn(4):
        true = g.poisson(rates)
        n = float(true.sum())
        z = noise.release(true, g)
        ours += np.abs(fit(z, noise, n).counts - true).sum()
        alike += np.abs(n * frequencies(z, noise, n) - true).sum()
    assert margin * ours < alike


@pytest.mark.slow
def test_few_records_in_many_cells_are_found_by_what_the_others_lack() -> None:
    """Beside one of 9,000 records 399 cells share 1,000, under noise of 280.

    None of them is seen; with all of them empty or none, the divergence is 1.1 in all.
    """
    noise, rates = DiscreteLaplaceMechanism(scale=200), np.append(9000, np.full(399, 1000 / 399))
    lost = 0.0
    for g in rng(8).spawn(4):
        true = g.multinomial(10_000, rates / rates.sum())
        found = fit(noise.release(true, g), noise, 1e4).counts
        lost += (special.xlogy(true, true) - special.xlogy(true, found)).sum() / 1e4
    assert lost < 0.4


@pytest.mark.parametrize("mass", [0.3, 0.8, 1.0])
def test_credible_intervals_are_the_shortest(mass: float) -> None:
    """Of all runs with enough of what is left; at 0 nothing is left out below, and all above."""
    for g in rng(12).spawn(20):
        values = np.sort(g.integers(0, 30, 12)).astype(float)
        masses = g.dirichlet(np.full(12, 0.5))
        low, high = _shortest(values, masses.cumsum(), mass)
        lengths = [
            values[j] - values[i]
            for i in range(12)
            for j in range(i, 12)
            if masses[i : j + 1].sum() >= mass - 1e-9
        ]
        assert masses[(low <= values) & (values <= high)].sum() >= mass - 1e-9
        assert high - low == min(lengths)
    falling = 0.5 ** np.arange(1, 60)
    assert _shortest(np.arange(59.0), falling.cumsum(), 0.9) == (0, 3)


@pytest.mark.slow
def test_credible_intervals_hold_counts_as_often_as_they_say() -> None:
    """Over histograms drawn as the priors are: 80 of 20 to 60 cells at 90 %, about 3,200 cells.

    Cells of a histogram go together; 0.87 and 0.96 are four times their spread off, and intervals
    of two thirds of the length hold less.
    """
    inside, shorter = [], []
    for number, g in enumerate(rng(6).spawn(80)):
        d = int(g.integers(20, 60))
        shape = [0.4, 1.0, 3.0][number % 3]
        filled = d if number % 2 else max(d // 4, 1)
        true = g.permutation(
            np.append(
                g.multinomial(2000, g.dirichlet(np.full(filled, shape))), np.zeros(d - filled, int)
            )
        )
        noise = noise_of(KINDS[number % 4], [2.0, 15.0, 40.0][number % 3])
        low, high = fit(noise.release(true, g), noise, 2000.0).intervals(0.9).T
        inside.extend((low <= true) & (true <= high))
        middle, half = (low + high) / 2, (high - low) / 3
        shorter.extend((np.abs(true - middle) <= half)[true > 0])
    assert 0.87 < np.mean(inside) < 0.96
    assert np.mean(shorter) < 0.87


# Lattices ---------------------------------------------------------------------------------------


def few_levels() -> np.ndarray:
    return levels_of(400.0, 9, 20.0, 150.0)


def test_lattices_are_different_mirrored_and_of_three_sites_or_more() -> None:
    """All with a whole period are there, from each first cell, and those of halves."""
    sites, numbers, ends = _lattices(17)
    assert len(np.unique(sites, axis=0)) == len(sites)
    known = {each.tobytes() for each in sites}
    assert all(each[::-1].copy().tobytes() in known for each in sites)
    assert (sites.sum(axis=1) == np.repeat(numbers, np.diff(ends))).all()
    assert numbers.min() >= 3
    for period in range(2, 6):
        for first in range(period):
            assert (np.arange(17) % period == first).tobytes() in known
    assert np.isin(np.arange(17), [0, 2, 5, 7, 10, 12, 15]).tobytes() in known


def test_lattices_agree_with_one_cell_after_another() -> None:
    """Evidence and posterior of each are products of what each cell has by its own law."""
    levels, random = few_levels(), rng(3)
    found = Lattices.over(levels, 400.0, 9)
    log = random.normal(size=(9, levels.size))
    which = random.integers(len(found.sites), size=20)
    rough = found.log_evidence(log)[which]
    evidence, weights = found.only(which).posterior(np.tile(log, (20, 1, 1)))
    assert rough == pytest.approx(evidence, rel=1e-9)
    for k, one in enumerate(which):
        total = 0.0
        for cell in range(9):
            law = (found.at if found.sites[one, cell] else found.off)[found.laws[one]]
            each = np.exp(log[cell]) * law
            total += math.log(each.sum())
            assert weights[k, cell] == pytest.approx(each / each.sum(), abs=1e-12)
        assert evidence[k] == pytest.approx(total, rel=1e-9)


def test_laws_of_lattices_have_the_mean_of_all_records() -> None:
    """Of all lattices and laws, on fine levels; strays may have up to a fiftieth more."""
    levels = np.append(0.0, np.exp(np.arange(-3, 9, 0.1)))
    found = Lattices.over(levels, 400.0, 9)
    assert found.at.sum(axis=1) == pytest.approx(np.ones(len(found.at)))
    assert found.off.sum(axis=1) == pytest.approx(np.ones(len(found.off)))
    numbers = found.sites.sum(axis=1)
    mean = numbers * (found.at @ levels)[found.laws]
    mean += (9 - numbers) * (found.off @ levels)[found.laws]
    assert mean.min() > 400
    assert mean.max() < 400 * 1.02


@pytest.mark.slow
def test_a_last_bin_off_the_lattice_keeps_its_records() -> None:
    """Where noise is next to nothing: in 20 releases, each within a record."""
    counts, random = np.zeros(45), rng(2)
    counts[1::3] = np.rint(120 * 0.6 ** np.arange(15))
    counts[44] = 3  # all larger values
    noise = DiscreteLaplaceMechanism(scale=0.2)
    for _ in range(20):
        z = np.asarray(noise.release(counts.astype(int), random), float)
        found = fit(z, noise, counts.sum()).counts
        assert found[44] == pytest.approx(z[44], abs=1)


@pytest.mark.slow
def test_steps_of_values_are_found_where_no_cell_stands_out() -> None:
    """Six ages in thirty bins: half of the loss of independent cells or less, of 40 releases.

    A lattice is found in nearly all; the ratio of the two sums is .2 to .35 in ten seeds.
    """
    counts = np.zeros(30)
    counts[2::5] = 139, 1800, 1931, 1069, 634, 793
    noise, random = LaplaceMechanism(scale=60.0), rng(11)
    losses = {True: 0.0, False: 0.0}
    for _ in range(40):
        z = noise.release(counts, random)
        for in_order in losses:
            shuffled = rng(5).permutation(30) if not in_order else np.arange(30)
            q = fit(np.asarray(z)[shuffled], noise, counts.sum()).counts / counts.sum()
            p = counts[shuffled] / counts.sum()
            losses[in_order] += float(special.xlogy(p, p / q).sum())
    assert losses[True] < losses[False] / 2, losses
