"""Histograms with sums of blocks: what is paid, what the noise is, what is made of both."""

import itertools
import math
from functools import cache, partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from privrl.accounting.rdp import BudgetExceeded, RdpAccountant
from privrl.accounting.targets import ApproxDP, RenyiDP
from privrl.costs.relations import AddRemoveRecord, Relation, ReplaceRecord
from privrl.data.schema import Categories
from privrl.mechanisms import (
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    LaplaceMechanism,
    TablesMechanism,
)
from privrl.models.estimates.blocks import Sums, block_starts, settle
from privrl.models.estimates.levels import Likelihoods, levels_of
from privrl.models.estimates.mixture import fit
from privrl.models.estimates.ordered import Chains
from privrl.models.histograms.choice import choose_mechanism, mechanism_name
from privrl.models.histograms.release import histogram
from privrl.models.histograms.result import PrivateHistogram

TARGET = ApproxDP(0.1, 1e-6)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def faint(seed: int = 0, **options) -> PrivateHistogram:
    """One of 1,000 records in 300 cells: 3 in each, where the noise's deviation is 28."""
    values = rng(1).normal(50, 10, 1000)
    arguments = {"bins": 300, "range": (0, 100), "target": TARGET, "rng": rng(seed)} | options
    return histogram(values, **arguments)


@cache
def shown() -> PrivateHistogram:
    """What `faint` releases."""
    return faint()


# What is chosen, and paid -------------------------------------------------------------------------


def test_sums_are_chosen_by_public_facts() -> None:
    """For bins, many and faint, of a public number of records; nothing of the data decides."""
    facts = {"n_records": 1000, "n_cells": 300, "is_ordered": True}
    others = [
        {"is_ordered": False},
        {"n_cells": 199},
        {"n_cells": 5001},
        {"n_records": 10_000},
        {"n_records": 100},
        {"relation": AddRemoveRecord()},
        {"mechanism": "laplace"},
    ]
    assert mechanism_name(choose_mechanism(TARGET, **facts)) == "blocks"
    for other in others:
        assert mechanism_name(choose_mechanism(TARGET, **(facts | other))) != "blocks"
    assert mechanism_name(shown().mechanism) == "blocks"
    in_no_order = Categories(tuple(range(300)))
    codes = rng(1).integers(0, 300, 1000)
    found = histogram(codes, in_no_order, target=TARGET, rng=rng())
    assert mechanism_name(found.mechanism) == "laplace"
    with pytest.raises(ValueError, match="is_ordered must be True or False"):
        choose_mechanism(TARGET, n_records=9, n_cells=9, is_ordered=1)
    with pytest.raises(ValueError, match="40 cells or more, got 39"):
        choose_mechanism(TARGET, n_records=9, n_cells=39, mechanism="blocks")


@pytest.mark.few(9)
@pytest.mark.parametrize(
    "relation",
    [
        AddRemoveRecord(),
        Relation("two records", {"counts": [(1, -1), (1, 1, -1, -1)]}),
        Relation("a norm", {"counts": [(1, -1)]}, norm_only=["counts"]),
    ],
    ids=str,
)
def test_sums_are_for_relations_that_move_records(relation) -> None:
    """Two cells that gain one each may be in one block, which gains two: more than any cell."""
    with pytest.raises(ValueError, match="relation must move records"):
        choose_mechanism(TARGET, n_records=99, n_cells=300, mechanism="blocks", relation=relation)
    chosen = choose_mechanism(
        TARGET, n_records=99, n_cells=300, is_ordered=True, relation=relation
    ) if relation.norm_only == frozenset() else None  # fmt: skip
    assert chosen is None or mechanism_name(chosen) != "blocks"


@pytest.mark.parametrize("cells", [40, 47])
def test_one_record_moves_at_most_two_cells_and_two_blocks(cells: int) -> None:
    """All moves of one record: counts and sums each change by the relation's vector, or less."""
    starts = block_starts(cells, 20)
    counts = np.full(cells, 3)
    assert set(np.diff(starts, append=cells)) <= {cells // 20, -(-cells // 20)}
    for source, target in itertools.permutations(range(cells), 2):
        moved = counts.copy()
        moved[[source, target]] += [-1, 1]
        for table in (counts - moved, np.add.reduceat(counts - moved, starts)):
            assert sorted(table[table != 0]) in ([], [-1, 1])


@pytest.mark.few(6)
@pytest.mark.parametrize("target", [TARGET, RenyiDP(2, 0.5)], ids=repr)
@pytest.mark.parametrize(
    "relation", [ReplaceRecord(), Relation("two at once", {"counts": [(2, -2)]})], ids=str
)
def test_counts_and_sums_meet_the_target_together(target, relation) -> None:
    accountant = RdpAccountant(budget=target)
    found = faint(target=target, relation=relation, mechanism="blocks", accountant=accountant)
    again = RdpAccountant()
    again.compose(found.cost)
    np.testing.assert_array_equal(accountant.rdp, again.rdp)
    if isinstance(target, RenyiDP):
        assert 0.495 < again.spent(2) <= 0.5
    else:
        assert 0.099 < again.epsilon(1e-6) <= 0.1
    # One release that shows both costs what two do that show one each.
    parts = RdpAccountant()
    kind = LaplaceMechanism if found.mechanism.mechanism == "laplace" else GaussianMechanism
    name = "scale" if kind is LaplaceMechanism else "sigma"
    for size in found.mechanism.sizes:
        parts.compose(kind(**{name: size}, relation=relation).cost)
    np.testing.assert_allclose(again.rdp, parts.rdp, rtol=1e-9)


def test_over_budget_neither_counts_nor_sums_are_drawn() -> None:
    generator = rng()
    state = generator.bit_generator.state
    poor = RdpAccountant(budget=ApproxDP(0.05, 1e-6))
    with pytest.raises(BudgetExceeded):
        faint(rng=generator, accountant=poor)
    assert generator.bit_generator.state == state
    assert not poor.rdp.any()


def test_sums_have_the_noise_that_is_paid_for() -> None:
    """Sizes of noise of four releases, summed, follow a gamma law; false alarm 1e-6.

    Of 80 sums of blocks half of the noise is caught.
    """
    values = rng(1).normal(50, 10, 1000)
    true, _ = np.histogram(values, 300, (0, 100))
    blocks = np.add.reduceat(true, block_starts(300, 20))
    released = [
        histogram(values, 300, (0, 100), target=TARGET, rng=g, mechanism="blocks")
        for g in rng(2).spawn(4)
    ]
    scales = released[0].mechanism.sizes
    for shown, truth, scale in (("noisy", true, scales[0]), ("sums", blocks, scales[1])):
        noise = np.concatenate([getattr(each, shown) - truth for each in released])
        size, law = np.abs(noise).sum() / scale, stats.gamma(noise.size)
        assert law.ppf(5e-7) < size < law.isf(5e-7)
        assert size / 2 < law.ppf(5e-7)


# What is left of counts ---------------------------------------------------------------------------


def settled(z, sums, *, total: float, law, levels, noise, apart: bool = True):
    def posterior(log):
        likely = np.exp(log) * law
        mass = likely.sum(axis=2, keepdims=True)
        return np.log(mass)[..., 0].sum(axis=1), likely / mass

    return settle(posterior, Likelihoods(z, noise, levels), sums, total, apart=apart)


def test_what_is_left_agrees_with_a_sum_over_all_counts() -> None:
    """All ways in which 24 records are in four cells, of two blocks whose sums were released.

    The first term of an expansion: means within a record, sums of blocks within .3, where counts
    alone are off by 3 and more, and a law's evidence over another's within .3 nats.
    """
    noise, total = DiscreteLaplaceMechanism(scale=4), 24
    z = np.array([9.0, 1.0, 3.0, 2.0])
    sums = Sums(np.array([16.0, 5.0]), 4.0, 4)
    levels = levels_of(24, 4, 5.7, 12)
    counts = np.array([x for x in itertools.product(range(25), repeat=4) if sum(x) == total])
    seen = -np.abs(z - counts).sum(axis=1) / 4
    seen -= ((sums.values - sums.of(counts)) ** 2).sum(axis=1) / (2 * sums.variance)
    evidence, exact = [], []
    shapes = Likelihoods(z, noise, levels)._shapes
    assert np.isinf(shapes[1:]).all()  # so that counts are Poisson
    for steepness in (0.0, 1.5):
        law = np.exp(-steepness * np.abs(np.log((levels + 0.5) / 6)))
        law /= law.sum()
        found = settled(z, sums, total=24.0, law=law, levels=levels, noise=noise)
        prior = np.array([law @ stats.poisson(levels).pmf(x) for x in range(25)])
        log = np.log(prior[counts]).sum(axis=1) + seen
        chances = np.exp(log - special.logsumexp(log))
        np.testing.assert_allclose(found.means, chances @ counts, atol=1)
        np.testing.assert_allclose(sums.of(found.means), chances @ sums.of(counts), atol=0.3)
        assert found.means.sum() == pytest.approx(24, abs=0.3)
        evidence.append(found.log_evidence)
        exact.append(special.logsumexp(log))
    assert evidence[1] - evidence[0] == pytest.approx(exact[1] - exact[0], abs=0.3)
    assert abs(z[:2].sum() - 16) > 3


def test_second_derivatives_by_differences_are_those_of_cells_apart() -> None:
    noise, generator = LaplaceMechanism(scale=30), rng(3)
    z = noise.release(generator.poisson(20, 12), generator)
    sums = Sums(generator.normal(80, 20, 3), 400.0, 12)
    levels = levels_of(240, 12, 42, z.max())
    law = np.full(levels.size, 1 / levels.size)
    apart, together = (
        settled(z, sums, total=240.0, law=law, levels=levels, noise=noise, apart=apart)
        for apart in (True, False)
    )
    np.testing.assert_allclose(apart.means, together.means, rtol=5e-2)
    assert apart.log_evidence == pytest.approx(together.log_evidence, abs=0.3)


def test_a_chain_s_sums_are_drawn_to_what_was_released() -> None:
    """Newton's method ends where each block's mean is its sum's, moved by tilt and noise."""
    noise, generator = LaplaceMechanism(scale=100), rng(4)
    z = noise.release(generator.poisson(30, 60), generator)
    sums = Sums(np.array([900.0, 300, 300, 300]), 2500.0, 60)
    levels = levels_of(1800, 60, 141, z.max())
    law = np.full(levels.size, 1 / levels.size)
    chains = Chains.over(levels, law, 60)
    found = settle(
        lambda log: chains.only(np.full(len(log), 4)).posterior(log),
        Likelihoods(z, noise, levels), sums, 1800.0, apart=False,
    )  # fmt: skip
    assert found.means.sum() == pytest.approx(1800, rel=0.02)
    tilts = found.tilts[::15] - found.tilts[::15].mean()
    left = sums.of(found.means) - sums.values
    np.testing.assert_allclose(left - left.mean(), 2500 * tilts, atol=25)


@pytest.mark.slow
@settings(max_examples=20, deadline=None, derandomize=True, database=None)
@given(
    n=st.sampled_from([1, 300, 10**5]), cells=st.integers(4, 30),
    size=st.sampled_from([0.2, 20, 2e4]), shape=st.sampled_from([0.02, 1.0, 50.0]),
    astray=st.sampled_from([0, 0, 10**6]), seed=st.integers(0, 2**32),
)  # fmt: skip
def test_whatever_was_released_is_estimated(*, n, cells, size, shape, astray, seed) -> None:
    """Counts > 0 with the sum that is public, within their intervals."""
    generator, noise = rng(seed), LaplaceMechanism(scale=size)
    true = generator.multinomial(n, generator.dirichlet(np.full(cells, shape)))
    starts = block_starts(cells, 3)
    sums = noise.release(np.add.reduceat(true, starts), generator) + astray
    found = fit(noise.release(true, generator), noise, float(n), Sums(sums, 2 * size**2, cells))
    assert (found.counts > 0).all()
    assert found.counts.sum() == pytest.approx(n, rel=1e-9)
    low, high = found.intervals(0.9).T
    assert (low >= 0).all()
    assert (low <= found.counts).all()
    assert (found.counts <= high).all()


def smooth(cells: int) -> np.ndarray:
    t = (np.arange(cells) + 0.5) / cells
    return np.exp(-(((t - 0.4) / 0.12) ** 2)) + 0.3 * np.exp(-(((t - 0.8) / 0.06) ** 2)) + 0.02


@pytest.mark.slow
def test_sums_are_worth_their_half_of_the_budget() -> None:
    """20,000 records, smooth, in 300 cells; 3 releases: absolute errors at most 0.9 of without."""
    with_sums, without = 0.0, 0.0
    for g in rng(5).spawn(3):
        true = g.multinomial(20_000, smooth(300) / smooth(300).sum())
        values = np.repeat(np.arange(300) + 0.5, true)
        release = partial(histogram, values, range(301), target=ApproxDP(0.005, 1e-6), rng=g)
        found = release()
        assert mechanism_name(found.mechanism) == "blocks"
        with_sums += np.abs(found.counts - true).sum()
        without += np.abs(release(mechanism="laplace").counts - true).sum()
    assert with_sums < 0.9 * without


@pytest.mark.slow
def test_credible_intervals_hold_counts_as_often_as_they_say() -> None:
    """2 smooth and 2 sparse histograms of 200 cells at 90 %: 0.86 to 0.99 of cells; and not idle.

    Cells of a histogram go together. Of half the length hold less than 0.86.
    """
    inside, shorter = [], []
    for number, g in enumerate(rng(6).spawn(4)):
        rates = smooth(200) if number % 2 else np.where(g.random(200) < 0.1, 10.0, 1.0)
        true = g.multinomial(30_000, rates / rates.sum())
        values = np.repeat(np.arange(200) + 0.5, true)
        found = histogram(
            values, range(201), target=ApproxDP(0.005, 1e-6), rng=g, mechanism="blocks"
        )
        low, high = found.credible_intervals(0.9).T
        inside.extend((low <= true) & (true <= high))
        half = (high - low) / 4
        shorter.extend(np.abs(true - (low + high) / 2) <= half)
        assert np.diff(found.intervals(0.9)).mean() > (high - low).mean()
    assert 0.86 < np.mean(inside) < 0.99
    assert np.mean(shorter) < 0.86


@pytest.mark.slow
def test_intervals_of_the_noise_hold_counts_whatever_they_are() -> None:
    """Of 300 cells at 90 %: fewer than 0.8 once in 1e6 runs; those of half the length fail."""
    found = shown()
    true, _ = np.histogram(rng(1).normal(50, 10, 1000), 300, (0, 100))
    reach = -found.mechanism.sizes[0] * math.log(0.1)
    assert (np.abs(found.noisy - true) <= reach).mean() > 0.8
    assert (np.abs(found.noisy - true) <= reach / 2).mean() < 0.8
    np.testing.assert_allclose(
        found.intervals(0.9)[:, 1],
        np.maximum(np.clip(found.noisy + reach, 0, 1000), found.counts),
        rtol=1e-9,
    )
    assert 0 < found.typical_loss() < found.kl_error()
    assert found.l2_error() > 0


# Files --------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("target", [TARGET, RenyiDP(2, 0.01)], ids=repr)
def test_saved_and_loaded(target, tmp_path) -> None:
    found = faint(target=target, mechanism="blocks")
    found.save(tmp_path / "h.json")
    again = PrivateHistogram.load(tmp_path / "h.json")
    assert again.to_dict() == found.to_dict()
    assert again.mechanism == found.mechanism
    assert isinstance(again.mechanism, TablesMechanism)
    np.testing.assert_array_equal(again.sums, found.sums)
    np.testing.assert_array_equal(again.credible_intervals(), found.credible_intervals())
    assert "mechanism: blocks" in repr(again)


def test_a_file_of_blocks_that_is_none_is_refused() -> None:
    data = shown().to_dict()
    flat = faint(mechanism="laplace").to_dict()
    small = faint(bins=39)
    without = {name: value for name, value in data.items() if name != "noisy_sums"}
    for wrong, message in (
        (without, "noisy_sums must be there"),
        (flat | {"noisy_sums": data["noisy_sums"]}, "noisy_sums must be there"),
        (data | {"noisy_sums": [1.0]}, "noisy_sums must be 20 numbers"),
        (small.to_dict() | {"spent": data["spent"]}, "40 cells or more"),
        (data | {"spent": data["spent"] | {"sigma": 1.0}}, "settings"),
        (data | {"spent": data["spent"] | {"scale_of_sums": -1.0}}, "scale_of_sums must be"),
    ):
        with pytest.raises(ValueError, match=message):
            PrivateHistogram.from_dict(wrong)
