"""Audits: the bounds hold as often as they say, come close to exact claims, and catch cheats.

Seeds are fixed. A bound of confidence c is wrong with probability at most 1 − c, whichever
event was picked, and each test says what follows.
"""

import dataclasses
import math
import warnings

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

from privrl.audit import audit_dirichlet, audit_mechanism, audit_scores
from privrl.audit.black_box import AuditResult
from privrl.costs.dirichlet import DirichletCost
from privrl.costs.profiles import Factor, Shape, factor_log_delta
from privrl.costs.relations import (
    AddRemoveRecord,
    PaperStep,
    PaperStepWarning,
    Relation,
    ReplaceRecord,
    ReplaceStep,
    ReplaceTransition,
)
from privrl.samplers.base import stack
from privrl.samplers.dirichlet import Diffuse, SingleDraw
from privrl.samplers.noisy_counts import NonPrivate

Array = np.ndarray
Rng = np.random.Generator


def rng(seed: int = 0) -> Rng:
    return np.random.default_rng(seed)


# --- the statistics ----------------------------------------------------------------------


def test_the_bounds_are_those_of_clopper_and_pearson() -> None:
    """SciPy's exact intervals, on the four fifths of the draws that did not pick the event."""
    first, second = rng(1).random(1000) < 0.7, rng(2).random(1000) < 0.2
    result = audit_scores(first, second, delta=0.01, confidence=0.96)
    assert result.event == "score >= 1"
    likely, unlikely = (
        stats.binomtest(int(hits[200:].sum()), 800).proportion_ci(0.96) for hits in (first, second)
    )
    assert result.likely == pytest.approx(likely.low, rel=1e-9)
    assert result.unlikely == pytest.approx(unlikely.high, rel=1e-9)
    expected = math.log((likely.low - 0.01) / unlikely.high)
    assert result.epsilon_lower == pytest.approx(expected, rel=1e-9)


def misses(confidence: float, audits: int = 2000) -> tuple[int, int]:
    """How often each bound is wrong about randomised response, where the event is known."""
    generator, wrong = rng(3), np.zeros(2, int)
    for _ in range(audits):
        first, second = generator.random(500) < 0.75, generator.random(500) < 0.25
        result = audit_scores(first, second, confidence=confidence)
        wrong += (result.likely > 0.75, result.unlikely < 0.25)
    return int(wrong[0]), int(wrong[1])


@pytest.mark.slow
def test_each_bound_is_wrong_as_often_as_it_may_be_and_no_oftener() -> None:
    """Half of the error each; Binomial limits of false-alarm rate 1e-6, both ways."""
    most = stats.binom.isf(1e-6, 2000, 0.05)
    least = stats.binom.ppf(1e-6, 2000, 0.035)  # exact intervals give a little away
    assert all(least <= wrong <= most for wrong in misses(0.9))
    # the check has power: bounds of half the confidence fail it
    assert all(wrong > most for wrong in misses(0.45))


@pytest.mark.slow
def test_the_whole_curve_is_bounded_at_once() -> None:
    """Beta(3, 2) against Beta(2, 3): no delta at any epsilon is exceeded, nor epsilon.

    Of 1000 audits at confidence 0.8 at most 200 may be wrong; more than 263 has probability
    below 1e-6. The event is picked to look good, and the bounds withstand that.
    """
    epsilons = np.linspace(0, 6, 61)
    exact = np.exp(factor_log_delta(Factor(Shape.PAIR, 2.0, 1.0), epsilons))
    claim = float(DirichletCost(weight=1, alpha=2, relation=ReplaceRecord()).epsilon(0.01))
    generator, wrong, seen = rng(4), 0, 0
    for _ in range(1000):
        first, second = generator.beta(3, 2, size=2000), generator.beta(2, 3, size=2000)
        result = audit_scores(first, second, confidence=0.8, claimed=claim)
        wrong += bool((result.delta_lower(epsilons) > exact).any())
        seen += result.epsilon_lower > claim / 2
        assert result.violated <= bool((result.delta_lower(epsilons) > exact).any())
    assert wrong <= stats.binom.isf(1e-6, 1000, 0.2)
    assert seen > 900  # and they are not idle


@pytest.mark.slow
def test_picking_the_event_costs_no_confidence() -> None:
    """One law on both sides, and the luckiest of hundreds of events: wrong 1 time in 5 at most.

    More than 263 of 1000 has probability below 1e-6.
    """
    generator, wrong = rng(6), 0
    for _ in range(1000):
        first, second = generator.normal(size=(2, 1000))
        wrong += audit_scores(first, second, delta=1e-9, confidence=0.8).epsilon_lower > 0
    assert wrong <= stats.binom.isf(1e-6, 1000, 0.2)


def test_no_difference_no_epsilon() -> None:
    """Negative control: one law on both sides. Each audit errs with probability at most 1 %."""
    generator = rng(5)
    for _ in range(50):
        first, second = generator.normal(size=(2, 2000))
        result = audit_scores(first, second, claimed=0.0)
        assert result.epsilon_lower == 0
        assert not result.violated
    for mechanism in (laplace, lambda data, g: np.zeros(3)):
        assert (
            audit_mechanism(mechanism, [1, 0, 5], [1, 0, 5], rng(), draws=5000).epsilon_lower == 0
        )


def test_either_data_set_may_be_the_likelier() -> None:
    """An event that half of the outputs of one data set show, and none of the other's."""
    half, none = np.arange(1000) % 2, np.zeros(1000)
    by_first, by_second = audit_scores(half, none), audit_scores(none, -half)
    assert (by_first.event, by_second.event) == ("score >= 1", "score <= -1")
    assert by_first.epsilon_lower == by_second.epsilon_lower > 4


def test_violated_in_epsilon_is_violated_in_delta() -> None:
    result = AuditResult(
        event="", likely=0.5, unlikely=0.1, delta=0.01, confidence=0.99, draws=100, claimed=1.5
    )
    assert result.epsilon_lower == pytest.approx(math.log(4.9))
    assert result.violated
    assert result.delta_lower(1.5) > 0.01
    assert result.delta_lower(result.epsilon_lower) == pytest.approx(0.01)
    np.testing.assert_array_equal(result.delta_lower([2.0, 800.0]), [0, 0])
    honest = dataclasses.replace(result, claimed=1.6)
    assert not honest.violated
    assert not dataclasses.replace(result, claimed=None).violated
    assert not dataclasses.replace(result, claimed=math.inf).violated
    assert dataclasses.replace(result, likely=0.005).epsilon_lower == 0


# --- Dirichlet samplers ------------------------------------------------------------------


class Heavier(Diffuse):
    """Its weight is 20 % larger than it says."""

    def update(self, counts: Array, rng: Rng) -> SingleDraw:
        said, self._weight = self._weight, 1.2 * self._weight
        drawn = super().update(counts, rng)
        self._weight = said
        return drawn


class Careless(Diffuse):
    """Forgets the noise one time in fifty."""

    def update(self, counts: Array, rng: Rng) -> SingleDraw:
        drawn = super().update(counts, rng).probabilities
        bare = counts + self.alpha
        bare /= bare.sum(-1, keepdims=True)
        return SingleDraw(np.where(rng.random((*counts.shape[:-1], 1)) < 0.02, bare, drawn))


class Uneven(Diffuse):
    """Takes a cell's first record double."""

    def update(self, counts: Array, rng: Rng) -> SingleDraw:
        return super().update(counts + np.minimum(counts, 1), rng)


TWENTY = Relation("replace 20 records", {"counts": [(20, -20)]})
UNEVEN = Relation("unlike amounts", {"counts": [(10, -1, -9), (-10, 1, 9)]})
RELEASES = [
    (1.0, 5.0, ReplaceRecord()),
    (1.0, 20.0, ReplaceRecord()),
    (1.0, 3.46, AddRemoveRecord()),
    (1.0, 5.0, ReplaceStep()),
    (0.2, 10.0, TWENTY),
    (0.2, 10.0, UNEVEN),
]


@pytest.mark.slow
@pytest.mark.parametrize(("weight", "alpha", "relation"), RELEASES)
def test_honest_claims_stand_and_are_nearly_reached(weight, alpha, relation) -> None:
    """A million draws come within 10 % of the exact epsilon, and never above it.

    Each is above with probability at most 1 %. Over other seeds the ratio has mean 0.94 to
    0.97 and standard deviation 0.01, for the group of 20 records 0.03.
    """
    sampler = Diffuse(weight=weight, alpha=alpha, relation=relation)
    result = audit_dirichlet(sampler, rng(7))
    assert result.claimed == float(sampler.cost.epsilon(0.01))
    assert 0.9 * result.claimed <= result.epsilon_lower <= result.claimed
    assert not result.violated
    assert result.draws == 1_000_000


@pytest.mark.few(6)
@pytest.mark.parametrize(("weight", "alpha", "relation"), RELEASES)
def test_a_weight_20_percent_too_large_is_flagged(weight, alpha, relation) -> None:
    """At 400,000 draws: 20 audits of 20, with other seeds, for each release."""
    sampler = Heavier(weight=weight, alpha=alpha, relation=relation)
    assert audit_dirichlet(sampler, rng(8), draws=400_000).violated


def test_a_first_record_taken_double_is_flagged() -> None:
    honest, faulty = (
        kind(weight=1, alpha=5, relation=ReplaceRecord()) for kind in (Diffuse, Uneven)
    )
    assert not audit_dirichlet(honest, rng(9), draws=50_000).violated
    assert audit_dirichlet(faulty, rng(9), draws=50_000).violated


@pytest.mark.slow
def test_a_fault_that_is_not_of_the_dirichlet_kind_needs_the_search() -> None:
    """At 100,000 draws it shows in 6 audits of 6, with other seeds; at 20,000 in 5."""
    honest, faulty = (
        kind(weight=1, alpha=5, relation=ReplaceRecord()) for kind in (Diffuse, Careless)
    )
    for sampler in (honest, faulty):
        result = audit_mechanism(
            lambda data, g, sampler=sampler: sampler.fresh().update(data, g).sample(g),
            DATA,
            NEIGHBOUR,
            rng(9),
            claimed=float(sampler.cost.epsilon(0.01)),
            draws=100_000,
            batched=True,
        )
        assert result.violated == (sampler is faulty)
    assert not audit_dirichlet(faulty, rng(9), draws=20_000).violated  # its event does not see it


@pytest.mark.slow
@pytest.mark.parametrize(("weight", "alpha"), [(0.5, 1.0), (1.0, 5.0), (1.0, 20.0)])
def test_the_papers_sensitivity_is_refuted(weight: float, alpha: float) -> None:
    """Self-loops show at 100,000 draws: 20 audits of 20, with other seeds."""
    with pytest.warns(PaperStepWarning):
        sampler = Diffuse(weight=weight, alpha=alpha, relation=PaperStep())
    assert not audit_dirichlet(sampler, rng(10), draws=100_000).violated
    result = audit_dirichlet(sampler, rng(10), relation=ReplaceStep(), draws=100_000)
    assert result.violated
    assert result.event.startswith("change (+2, -1, -1): sum(m log y)")
    sound = Diffuse(weight=weight, alpha=alpha, relation=ReplaceStep())
    assert not audit_dirichlet(sound, rng(10), draws=100_000).violated


@pytest.mark.parametrize("alpha", [1e-3, 0.1])
def test_draws_that_underflow_are_audited_too(alpha: float) -> None:
    sampler = Diffuse(weight=0.1, alpha=alpha, relation=AddRemoveRecord())
    result = audit_dirichlet(sampler, rng(11), draws=20_000)
    assert 0 < result.epsilon_lower < result.claimed


def test_a_sampler_in_use_is_audited_afresh_and_left_alone() -> None:
    def audit(sampler: Diffuse) -> AuditResult:
        return audit_dirichlet(sampler, rng(12), draws=1000)

    used, untouched, never = (Diffuse(weight=1, alpha=5) for _ in range(3))
    for sampler in (used, untouched):
        sampler.update(np.array([[50.0, 0.0]]), rng())
    assert audit(used) == audit(never)
    after, expected = (
        sampler.update(np.zeros((1, 2)), rng()).sample(rng()) for sampler in (used, untouched)
    )
    np.testing.assert_array_equal(after, expected)


# --- any mechanism -----------------------------------------------------------------------

DATA, NEIGHBOUR = [1.0, 0.0, 5.0], [0.0, 1.0, 5.0]


def laplace(data: Array, rng: Rng) -> Array:
    """Epsilon 1 for a replaced record, which changes two counts by one."""
    return data + rng.laplace(scale=2.0, size=data.shape)


def halved(data: Array, rng: Rng) -> Array:
    return data + rng.laplace(scale=1.0, size=data.shape)


def same_seed(data: Array, rng: Rng) -> Array:
    return laplace(data, np.random.default_rng(0))


def one_for_all(data: Array, rng: Rng) -> Array:
    """One noise for all counts: each alone looks well, their differences are bare."""
    return data + rng.laplace(scale=2.0)


def bare_zeros(data: Array, rng: Rng) -> Array:
    return np.where(data > 0, laplace(data, rng), 0.0)


def sometimes_raw(data: Array, rng: Rng) -> Array:
    return data if rng.random() < 0.03 else laplace(data, rng)


def uneven_noise(data: Array, rng: Rng) -> Array:
    """Centred on the same numbers for all data sets; the width tells."""
    return (1 + data) * rng.laplace(scale=2.0, size=data.shape)


@pytest.mark.slow
def test_laplace_noise_stands() -> None:
    """Three audits of confidence 99 %. The search finds 0.87 to 0.92 of epsilon."""
    for seed in range(3):
        result = audit_mechanism(
            laplace, DATA, NEIGHBOUR, rng(seed), claimed=1.0, draws=200_000, batched=True
        )
        assert 0.8 < result.epsilon_lower <= 1.0


@pytest.mark.few(6)
@pytest.mark.parametrize(
    "mechanism", [halved, same_seed, one_for_all, bare_zeros, sometimes_raw, uneven_noise]
)
def test_faulty_mechanisms_are_flagged(mechanism) -> None:
    assert audit_mechanism(mechanism, DATA, NEIGHBOUR, rng(0), claimed=1.0, draws=20_000).violated


@pytest.mark.slow
def test_gaussian_noise_against_its_exact_curve() -> None:
    """Balle and Wang (2018), theorem 8; the search is not told that the noise is Gaussian."""
    shift = math.sqrt(2)

    def excess(epsilon: float) -> float:
        above = stats.norm.cdf(shift / 2 - epsilon / shift)
        return above - math.exp(epsilon) * stats.norm.cdf(-shift / 2 - epsilon / shift) - 0.01

    result = audit_mechanism(
        lambda data, g: data + g.normal(size=data.shape),
        DATA,
        NEIGHBOUR,
        rng(1),
        claimed=float(brentq(excess, 0, 20)),
        draws=300_000,
        batched=True,
    )
    assert 0.85 * result.claimed < result.epsilon_lower <= result.claimed


@pytest.mark.slow
def test_dirichlet_rows_without_the_optimal_event() -> None:
    sampler = Diffuse(weight=1, alpha=5, relation=ReplaceRecord())
    claim = float(sampler.cost.epsilon(0.01))
    result = audit_mechanism(
        lambda data, g: sampler.fresh().update(data, g).sample(g),
        DATA,
        NEIGHBOUR,
        rng(2),
        claimed=claim,
        draws=300_000,
        batched=True,
    )
    assert 0.85 * claim < result.epsilon_lower <= claim


@pytest.mark.slow
def test_one_cell_that_changes_among_many() -> None:
    data, neighbour = np.zeros((2, 10, 10))
    neighbour[3, 4] = 1
    result = audit_mechanism(
        halved, data, neighbour, rng(3), claimed=0.5, draws=20_000, batched=True
    )
    assert 0.75 < result.epsilon_lower <= 1  # epsilon is 1 for one count


def test_a_mechanism_may_spoil_its_input() -> None:
    def spoils(data: Array, rng: Rng) -> Array:
        data += rng.laplace(scale=2.0, size=data.shape)
        return data

    mine = np.array(DATA)
    result = audit_mechanism(spoils, mine, NEIGHBOUR, rng(), claimed=1.0, draws=5000)
    assert not result.violated
    np.testing.assert_array_equal(mine, DATA)


# --- what is refused ---------------------------------------------------------------------

SAMPLER = Diffuse(weight=1, alpha=5)


@pytest.mark.parametrize("bad", [0.0, 1.0, -1.0, math.nan])
def test_bad_delta_and_confidence(bad: float) -> None:
    scores = np.arange(100.0)
    for name in ("delta", "confidence"):
        with pytest.raises(ValueError, match=f"{name} must be"):
            audit_scores(scores, scores, **{name: bad})
        with pytest.raises(ValueError, match=f"{name} must be"):
            audit_dirichlet(SAMPLER, rng(), draws=100, **{name: bad})
        with pytest.raises(ValueError, match=f"{name} must be"):
            audit_mechanism(laplace, DATA, NEIGHBOUR, rng(), draws=100, **{name: bad})


@pytest.mark.parametrize("bad", [-1.0, math.nan])
def test_bad_claims(bad: float) -> None:
    with pytest.raises(ValueError, match="claimed must be >= 0"):
        audit_scores(np.arange(100.0), np.arange(100.0), claimed=bad)
    with pytest.raises(ValueError, match="claimed must be numbers that floats hold"):
        audit_scores(np.arange(100.0), np.arange(100.0), claimed=10**400)


@pytest.mark.parametrize("bad", [99, 1e3, True])
def test_bad_draws(bad: int) -> None:
    with pytest.raises(ValueError, match="draws must be"):
        audit_dirichlet(SAMPLER, rng(), draws=bad)
    with pytest.raises(ValueError, match="draws must be"):
        audit_mechanism(laplace, DATA, NEIGHBOUR, rng(), draws=bad)


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (np.zeros(99), np.zeros(99), "scores must be two arrays"),
        (np.zeros(100), np.zeros(101), "scores must be two arrays"),
        (np.zeros((100, 2)), np.zeros((100, 2)), "scores must be two arrays"),
        (np.zeros(100), np.full(100, np.nan), "got NaN"),
    ],
)
def test_bad_scores(first: Array, second: Array, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        audit_scores(first, second)


def test_samplers_that_claim_nothing_to_audit() -> None:
    for sampler in (NonPrivate(), stack([SAMPLER, SAMPLER])):
        with pytest.raises(ValueError, match="must claim a DirichletCost"):
            audit_dirichlet(sampler, rng())
    idle = Diffuse(weight=1, alpha=5, relation=ReplaceTransition(), table="rewards")
    with pytest.raises(ValueError, match="nothing to audit"):
        audit_dirichlet(idle, rng())
    with pytest.raises(ValueError, match="table must be one of"):
        audit_dirichlet(SAMPLER, rng(), relation=ReplaceRecord())


def test_bad_mechanisms() -> None:
    with pytest.raises(ValueError, match="neighbour must have the shape"):
        audit_mechanism(laplace, DATA, [1.0, 2.0], rng())
    with pytest.raises(ValueError, match="mechanism must return finite numbers"):
        audit_mechanism(lambda data, g: data * np.nan, DATA, NEIGHBOUR, rng(), draws=100)
    with pytest.raises(ValueError, match="mechanism must return finite numbers"):
        audit_mechanism(lambda data, g: data[0], DATA, NEIGHBOUR, rng(), draws=100, batched=True)


@pytest.mark.parametrize("largest", [1e300, 1.7e308])
def test_outputs_of_any_size_warn_of_nothing(largest: float) -> None:
    def noisy(data: Array, rng: np.random.Generator) -> Array:
        return data + rng.laplace(scale=1e290, size=data.shape)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = audit_mechanism(
            noisy, np.array([1e22]), np.array([largest]), rng=0, claimed=1.0, delta=0.01, draws=200
        )
    assert found.epsilon_lower > 1  # by the outputs' logarithms
