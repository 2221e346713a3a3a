"""Accounting by privacy loss distributions: sound, tight, and clear about what it refuses."""

import math
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import count as numbered

import numpy as np
import pytest
from numpy.typing import ArrayLike

pytest.importorskip("dp_accounting", reason="no dp_accounting: pip install 'privrl[pld]'")

from forks import forked, needs_forks
from interrupts import Interrupter
from scipy.special import log_ndtr
from scipy.stats import binom

from privrl.accounting import pld
from privrl.accounting.pld import PldAccountant
from privrl.accounting.rdp import BudgetExceeded, RdpAccountant
from privrl.accounting.targets import ApproxDP, RenyiDP
from privrl.costs import relations
from privrl.costs.base import BatchCost, Cost, NoPrivacy, Together, smallest_epsilon
from privrl.costs.dirichlet import DirichletCost
from privrl.costs.noise import GaussianCost
from privrl.mechanisms.dirichlet import DirichletMechanism
from privrl.numerics.special import FloatArray

RECORD = relations.ReplaceRecord()
RELEASE = DirichletCost(weight=0.2, alpha=10, relation=RECORD)


def pair(weight: float, alpha: float) -> DirichletCost:
    return DirichletCost(weight=weight, alpha=alpha, relation=RECORD)


@dataclass(frozen=True)
class Gaussian:
    """A Gaussian mechanism whose means are ``mu`` standard deviations apart."""

    mu: float
    relation: relations.Relation = RECORD

    def rdp(self, orders):
        return np.asarray(orders) * self.mu**2 / 2

    def delta(self, epsilon):
        epsilon = np.asarray(epsilon, np.float64)
        log_p = log_ndtr(self.mu / 2 - epsilon / self.mu)
        log_q = log_ndtr(-self.mu / 2 - epsilon / self.mu)
        return -np.exp(log_p) * np.expm1(epsilon + log_q - log_p)

    def epsilon(self, delta):
        return smallest_epsilon(lambda e: np.log(self.delta(e)), delta)


@dataclass(frozen=True)
class RandomisedResponse:
    """A truthful bit with odds ``exp(log_odds)``, and no secret at all with ``failure``."""

    log_odds: float
    failure: float = 0.0
    relation: relations.Relation = RECORD

    def rdp(self, orders):
        return np.full(np.shape(orders), np.inf)  # claims nothing

    def delta(self, epsilon):
        gap = np.exp(self.log_odds) - np.exp(np.minimum(epsilon, self.log_odds))
        return self.failure + (1 - self.failure) * gap / (1 + np.exp(self.log_odds))

    def epsilon(self, delta):
        return smallest_epsilon(lambda e: np.log(self.delta(e)), delta)


def spend(*releases: Cost | tuple[Cost, int], **options) -> PldAccountant:
    accountant = PldAccountant(**options)
    for cost in releases:
        accountant.compose(*cost if isinstance(cost, tuple) else (cost,))
    return accountant


def renyi(*releases: tuple[Cost, int]) -> RdpAccountant:
    accountant = RdpAccountant()
    for cost, count in releases:
        accountant.compose(cost, count)
    return accountant


# How tight it is ------------------------------------------------------------------------------


def test_sixty_five_draws() -> None:
    assert float(spend((RELEASE, 65)).epsilon(1e-5)) == pytest.approx(3.08, abs=5e-3)
    assert float(renyi((RELEASE, 65)).epsilon(1e-5)) == pytest.approx(3.34, abs=5e-3)


@pytest.mark.parametrize(
    "relation", [RECORD, relations.AddRemoveRecord(), relations.ReplaceStep()], ids=str
)
def test_thousands_of_small_releases(relation: relations.Relation) -> None:
    cost = DirichletCost(weight=0.00608, alpha=10, relation=relation)
    by_losses = float(spend((cost, 3000)).epsilon(1e-5))
    by_order = float(renyi((cost, 3000)).epsilon(1e-5))
    assert 0.85 * by_order < by_losses < 0.97 * by_order


@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-8, 1e-10])
@pytest.mark.parametrize(("mu", "count"), [(0.1, 100), (1.0, 100), (0.01, 3000)])
def test_gaussians_compose_to_a_gaussian(mu: float, count: int, delta: float) -> None:
    exact = float(Gaussian(mu * math.sqrt(count)).epsilon(delta))
    assert exact <= float(spend((Gaussian(mu), count)).epsilon(delta)) <= 1.001 * exact


def test_different_gaussians_compose_to_a_gaussian() -> None:
    counts = {Gaussian(0.5): 3, Gaussian(0.05): 40, Gaussian(0.002): 500, Gaussian(1.0): 1}
    exact = Gaussian(math.sqrt(sum(n * each.mu**2 for each, n in counts.items())))
    accountant = spend(*counts.items())
    for delta in (1e-3, 1e-6, 1e-10):
        epsilon = float(exact.epsilon(delta))
        assert epsilon <= float(accountant.epsilon(delta)) <= 1.001 * epsilon
    for epsilon in (0.0, 1.0, 5.0):
        delta = float(exact.delta(epsilon))
        assert delta <= float(accountant.delta(epsilon)) <= 1.005 * delta


def test_a_hundred_different_releases() -> None:
    weights = 0.05 * 1.01 ** np.arange(100)
    exact = float(Gaussian(float(np.sqrt(np.sum(weights**2)))).epsilon(1e-5))
    epsilon = float(spend(*(Gaussian(float(mu)) for mu in weights)).epsilon(1e-5))
    assert exact <= epsilon <= 1.005 * exact


@pytest.mark.parametrize("failure", [0.0, 1e-4])
def test_bits_compose_to_a_binomial(failure: float) -> None:
    """Losses of a single size, and a release that has no Rényi curve."""
    count, log_odds = 20, 0.3
    share = 1 / (1 + math.exp(-log_odds))
    losses = log_odds * (2 * np.arange(count + 1) - count)
    masses = binom.pmf(np.arange(count + 1), count, share)
    accountant = spend((RandomisedResponse(log_odds, failure), count))
    for epsilon in (0.0, 0.5, 2.0, 4.0):
        kept = (1 - failure) ** count
        exact = 1 - kept + kept * float(masses @ np.maximum(-np.expm1(epsilon - losses), 0))
        assert exact <= float(accountant.delta(epsilon)) <= 1.005 * exact + 1e-11


@pytest.mark.parametrize(
    ("weight", "alpha"), [(0.2, 10.0), (1.0, 5.0), (0.05, 0.1), (1e-4, 3.0), (2.0, 1.0)]
)
def test_two_pairs_match_their_direct_convolution(weight: float, alpha: float) -> None:
    """Against `privrl.numerics.convolution`, which starts from densities and transforms nothing."""
    two_pairs = relations.Relation("replace two records", {"counts": [(1, -1, 1, -1)]})
    direct = DirichletCost(weight=weight, alpha=alpha, relation=two_pairs)
    accountant = spend((pair(weight, alpha), 2))
    for delta in (1e-5, 1e-9):
        assert float(accountant.epsilon(delta)) == pytest.approx(
            float(direct.epsilon(delta)), rel=1e-3
        )


@pytest.mark.few(4)
@pytest.mark.parametrize(
    "releases",
    [
        [(RELEASE, 65)],
        [(pair(5, 1), 3)],
        [(pair(1, 5), 1), (pair(0.01, 5), 300)],
        [(DirichletCost(weight=0.5, alpha=2, relation=relations.AddRemoveRecord()), 10)],
    ],
    ids=repr,
)
def test_two_grids_agree(releases: list[tuple[Cost, int]], monkeypatch: pytest.MonkeyPatch) -> None:
    coarse = spend(*releases)
    deltas = (1e-3, 1e-6, 1e-10)
    got = [float(coarse.epsilon(delta)) for delta in deltas]
    monkeypatch.setattr(pld, "_MOST_DOTS", 512)
    monkeypatch.setattr(pld, "_DOTS", 6400)
    monkeypatch.setattr(pld, "_STEP", 0.007)
    fine = [float(spend(*releases).epsilon(delta)) for delta in deltas]
    np.testing.assert_allclose(got, fine, rtol=2e-3)
    assert all(f <= g * (1 + 1e-5) for f, g in zip(fine, got, strict=True))


# That it is sound -----------------------------------------------------------------------------

SOUND: list[Cost] = [
    RELEASE,
    pair(1e-5, 100),
    pair(0.05, 0.1),
    pair(5, 1),
    pair(1, 0.01),
    DirichletCost(weight=1, alpha=5, relation=RECORD, bound="dps"),
    DirichletCost(weight=0.5, alpha=2, relation=relations.AddRemoveRecord()),
    DirichletCost(weight=3, alpha=0.5, relation=relations.AddRemoveRecord()),
    DirichletCost(weight=0.3, alpha=4, relation=relations.ReplaceStep()),
    DirichletCost(weight=0.02, alpha=3, relation=relations.ReplaceEpisode(10)),
    Gaussian(1e-3),
    RandomisedResponse(1.0, 1e-3),
]


# Curves that go through Rényi divergence are not convex in exp(epsilon); the hull is below them,
# and above the curve of what they bound.
BOUNDED = {
    SOUND[5]: pair(1, 5),
    SOUND[9]: DirichletCost(
        weight=0.02, alpha=3, relation=relations.Relation("ten at once", {"counts": [(10, -10)]})
    ),
}


@pytest.mark.parametrize("n_dots", [16, 64])
@pytest.mark.parametrize("cost", SOUND, ids=repr)
def test_one_loss_distribution_dominates(cost: Cost, n_dots: int) -> None:
    """Between the dots too, and on the negative side, where neighbours are swapped."""
    losses = pld._connect_dots(cost, n_dots)
    assert np.all(losses.masses >= 0)
    assert losses.masses.sum() + losses.infinite == pytest.approx(1, abs=1e-10)
    epsilons = float(losses.values.max()) * np.linspace(0, 1.1, 30) ** 2
    exact = BOUNDED.get(cost, cost).delta(epsilons)
    below_zero = -np.expm1(-epsilons) + np.exp(-epsilons) * exact
    for epsilon, delta in zip([*epsilons, *-epsilons], [*exact, *below_zero], strict=True):
        share = np.maximum(-np.expm1(np.minimum(epsilon - losses.values, 0)), 0)
        dominating = losses.infinite + losses.masses @ share
        assert dominating >= delta * (1 - 1e-13) - 1e-16


@pytest.mark.few(6)
@pytest.mark.parametrize("cost", SOUND, ids=repr)
def test_never_above_renyi(cost: Cost) -> None:
    by_losses, by_order = spend((cost, 30)), renyi((cost, 30))
    limit = float(by_order.epsilon(1e-6)) * (1 + 1e-12)
    assert float(by_losses.epsilon(1e-6)) <= limit
    for epsilon in (0.0, 1.0):
        limit = max(float(by_order.delta(epsilon)), 1e-12) * (1 + 1e-12)
        assert float(by_losses.delta(epsilon)) <= limit


def sampled_deltas(
    cost: DirichletCost, count: int, epsilons: list[float]
) -> list[tuple[float, float]]:
    """Estimate delta of the dominating pair, and its standard error, from 50,000 sums of losses.

    The loss of one release is ``s logit(b)`` for ``b ~ Beta(a + s, a)``.
    """
    rng = np.random.default_rng(20230417)
    a, s = cost.alpha, cost.weight
    sums = np.zeros(50_000)
    for _ in range(count):
        up, down = rng.standard_gamma(a + s, sums.size), rng.standard_gamma(a, sums.size)
        sums += s * np.log(up / down)
    kept = [np.maximum(-np.expm1(epsilon - sums), 0) for epsilon in epsilons]
    return [(float(k.mean()), float(k.std()) / math.sqrt(sums.size)) for k in kept]


def test_between_simulation_and_renyi() -> None:
    """Four estimates within 5.3 standard errors: a false alarm once in two million runs."""
    count, epsilons = 20, [0.0, 0.5, 1.0, 1.4]
    cost, by_order = RELEASE, renyi((RELEASE, 20))
    by_losses, fewer, more = (spend((cost, n)) for n in (count, count - 3, count + 3))
    sampled = sampled_deltas(cost, count, epsilons)
    for epsilon, (mean, error) in zip(epsilons, sampled, strict=True):
        assert mean - 5.3 * error <= float(by_losses.delta(epsilon)) <= mean + 5.3 * error
        assert float(by_losses.delta(epsilon)) < float(by_order.delta(epsilon))
    # Power: three releases forgotten, or three too many, are noticed.
    mean, error = sampled[1]
    assert float(fewer.delta(0.5)) < mean - 5.3 * error
    assert float(more.delta(0.5)) > mean + 5.3 * error


def test_curves_that_cross_make_a_convex_hull() -> None:
    """An upper bound that is not convex in exp(epsilon) still makes a distribution."""

    @dataclass(frozen=True)
    class Bumpy:
        relation: relations.Relation = RECORD

        def rdp(self, orders):
            return np.full(np.shape(orders), np.inf)

        def delta(self, epsilon):
            return Gaussian(0.5).delta(epsilon) * (2 + np.sin(40 * np.asarray(epsilon)))

        def epsilon(self, delta):
            raise NotImplementedError

    losses = pld._connect_dots(Bumpy(), 256)
    assert losses.masses.sum() + losses.infinite == pytest.approx(1, abs=1e-12)
    bumpy, smooth = spend((Bumpy(), 10)), spend((Gaussian(0.5), 10))
    for epsilon in (0.0, 1.0, 4.0):
        assert float(bumpy.delta(epsilon)) >= float(smooth.delta(epsilon)) * (1 - 1e-3)


def test_without_privacy() -> None:
    accountant = spend((RELEASE, 5), NoPrivacy(RECORD), (NoPrivacy(RECORD), 2))
    assert float(accountant.epsilon(1e-5)) == math.inf
    assert float(accountant.delta(10.0)) == 1
    heavy = spend((pair(1, 0.01), 4))  # losses of hundreds of nats
    assert float(heavy.epsilon(1e-5)) > 1000
    assert 0.9 < float(heavy.delta(1.0)) <= 1


@pytest.mark.slow
def test_a_table_that_never_changes_costs_nothing() -> None:
    relation = relations.Relation("replace one label", {"labels": [(1, -1)], "rewards": []})
    cost = DirichletCost(weight=1, alpha=1, relation=relation, table="rewards")
    accountant = spend((cost, 10))
    assert float(accountant.epsilon(1e-9)) == 0
    assert float(accountant.delta(0.0)) == 1e-12


def test_releases_made_together() -> None:
    step = relations.ReplaceStep()
    tables = [
        DirichletCost(weight=0.05, alpha=5, relation=step),
        DirichletCost(weight=0.05, alpha=5, relation=step, table="rewards"),
    ]
    together = float(spend((Together(tables), 10)).epsilon(1e-6))
    apart = float(spend(*((table, 10) for table in tables)).epsilon(1e-6))
    # Apart, the worst case of each release is taken by itself.
    assert together == pytest.approx(apart, rel=0.02)
    assert together <= apart * 1.001


# The same verbs as RdpAccountant --------------------------------------------------------------


def test_nothing_is_spent_at_first() -> None:
    accountant = PldAccountant()
    assert accountant.relation is None
    assert accountant.budget is None
    assert float(accountant.epsilon(1e-6)) == 0
    assert float(accountant.delta(0.0)) == 1e-12


@pytest.mark.few(9)
@pytest.mark.parametrize("cost", [RELEASE, Gaussian(0.3), SOUND[6]], ids=repr)
def test_count_means_repetition(cost: Cost) -> None:
    at_once, one_by_one = spend((cost, 7)), PldAccountant()
    for _ in range(7):
        one_by_one.compose(cost)
        one_by_one.epsilon(1e-6)  # asking changes nothing
    assert float(at_once.epsilon(1e-6)) == float(one_by_one.epsilon(1e-6))
    assert float(at_once.delta(0.5)) == float(one_by_one.delta(0.5))


def test_order_does_not_matter() -> None:
    releases = [(pair(0.1 * k, 5), k) for k in (1, 2, 3)]
    one, other = spend(*releases), spend(*releases[::-1])
    assert float(one.epsilon(1e-6)) == pytest.approx(float(other.epsilon(1e-6)), rel=1e-9)


def test_equal_releases_are_one_kind() -> None:
    accountant = spend(pair(0.2, 10), pair(0.2, 10), RELEASE)
    assert float(accountant.epsilon(1e-6)) == float(spend((RELEASE, 3)).epsilon(1e-6))


@pytest.mark.few(12)
@pytest.mark.parametrize("cost", SOUND, ids=repr)
def test_one_release_is_accounted_for_exactly(cost: Cost) -> None:
    accountant = spend(cost)
    assert float(accountant.epsilon(1e-3)) <= float(cost.epsilon(1e-3))
    assert float(accountant.delta(0.5)) <= max(float(cost.delta(0.5)), 1e-12)


@pytest.mark.few(9)
@pytest.mark.parametrize("cost", [RELEASE, pair(1, 5), pair(0.05, 0.1)], ids=repr)
def test_one_release_is_nearly_exact_by_its_losses_too(cost: Cost) -> None:
    """A second release that hardly costs anything keeps the exact answer from being used."""
    accountant = spend(cost, pair(1e-7, 1e3))
    for delta in (1e-3, 1e-5, 1e-8):
        exact = float(cost.epsilon(delta))
        assert exact <= float(accountant.epsilon(delta)) <= 1.001 * exact


@pytest.mark.few(9)
@pytest.mark.parametrize("releases", [[(RELEASE, 65)], [RELEASE], [(pair(5, 1), 3)]], ids=repr)
def test_epsilon_and_delta_are_inverse(releases) -> None:
    accountant = spend(*releases)
    for delta in (0.05, 1e-3, 1e-6, 1e-10):
        epsilon = float(accountant.epsilon(delta))
        back = float(accountant.delta(epsilon))
        assert back == pytest.approx(delta, rel=1e-6) or (epsilon == 0 and back < delta)
    epsilons = [float(accountant.epsilon(d)) for d in (1e-12, 1e-9, 1e-3, 0.3, 0.999)]
    assert epsilons == sorted(epsilons, reverse=True)


# Budgets --------------------------------------------------------------------------------------


def test_budget_is_spent_to_the_last_release() -> None:
    budget = ApproxDP(1.0, 1e-6)
    accountant = PldAccountant(budget=budget)
    assert accountant.budget == budget
    made = 0
    with suppress(BudgetExceeded):
        while made < 100:
            accountant.compose(RELEASE)
            made += 1
    assert float(accountant.epsilon(1e-6)) == float(spend((RELEASE, made)).epsilon(1e-6)) <= 1
    assert float(spend((RELEASE, made + 1)).epsilon(1e-6)) > 1
    with pytest.raises(BudgetExceeded, match=r"epsilon 1\.\d+, over the budget .* nothing was"):
        accountant.compose(RELEASE)
    with pytest.raises(BudgetExceeded):
        accountant.compose(RELEASE, 1000)
    with pytest.raises(BudgetExceeded, match="plan"):
        accountant.compose(pair(1e-6, 10))  # what is left would be enough, but nobody planned it


@pytest.mark.slow
def test_looking_ahead_spends_nothing() -> None:
    """Epsilon stays 0 for long and then rises steeply: guesses at what fits are wrong here."""
    accountant, made = PldAccountant(budget=ApproxDP(0.05, 0.2)), 0
    with suppress(BudgetExceeded):
        while made < 100:
            accountant.compose(Gaussian(0.1))
            made += 1
    fits = [n for n in range(1, 100) if Gaussian(0.1 * math.sqrt(n)).delta(0.05) <= 0.2]
    assert made == max(fits)


def test_budget_takes_few_convolutions(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr(pld, "_self_compose", counting(pld._self_compose, calls))
    accountant = PldAccountant(budget=ApproxDP(1.0, 1e-6))
    for _ in range(600):
        accountant.compose(pair(0.015, 10))
    assert len(calls) < 60


def test_a_plan_is_let_through_in_any_order_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    budget, one, other = ApproxDP(1.0, 1e-6), pair(0.02, 10), pair(0.01, 10)
    accountant = PldAccountant(budget=budget, plan=[(one, 3), (other, 2)])
    monkeypatch.setattr(pld, "_self_compose", None)  # all was worked out before
    for cost in (other, one, one, other):
        accountant.compose(cost)
    for cost, count in ((other, 1), (one, 2), (pair(1e-6, 10), 1)):
        with pytest.raises(BudgetExceeded, match=r"1 of 5 are left; nothing was spent"):
            accountant.compose(cost, count)
    accountant.compose(one)
    assert [entry.count for entry in accountant.journal] == [1, 2, 1, 1]


def test_a_plan_must_be_one_within_the_budget() -> None:
    budget, other = ApproxDP(1.0, 1e-6), relations.AddRemoveRecord()
    for plan, match in (
        ([(RELEASE, 10_000)], r"plan must be within the budget .* got one of epsilon [0-9]"),
        ([(RELEASE, 0)], "count in plan must be"),
        ([RELEASE], "plan must be a list of pairs of a cost and a count"),
        ([], "plan must be a list of pairs"),
        (
            [(RELEASE, 1), (replace(RELEASE, relation=other), 1)],
            "plan must be about one neighbouring relation",
        ),
    ):
        with pytest.raises(ValueError, match=match):
            PldAccountant(budget=budget, plan=plan)


def counting(function: Callable, calls: list) -> Callable:
    def counted(*args):
        calls.append(args)
        return function(*args)

    return counted


@pytest.mark.parametrize("budget", [RenyiDP(2, 1.0), 1.0, [ApproxDP(1, 1e-6)]])
def test_other_budgets_are_refused(budget) -> None:
    with pytest.raises(ValueError, match=r"budget must be an ApproxDP, got .* RdpAccountant"):
        PldAccountant(budget=budget)


def test_budget_below_the_smallest_delta_is_refused() -> None:
    with pytest.raises(ValueError, match="delta must be at least 1e-12"):
        PldAccountant(budget=ApproxDP(1.0, 1e-13))


# What is refused ------------------------------------------------------------------------------


@pytest.mark.slow
def test_small_deltas_are_refused_and_never_reported() -> None:
    accountant = spend((RELEASE, 65))
    accountant.epsilon(1e-12)
    with pytest.raises(ValueError, match=r"delta must be at least 1e-12 .*, got 9e-13.*Fourier"):
        accountant.epsilon(9e-13)
    assert float(accountant.delta(500.0)) == 1e-12
    many = spend((Gaussian(1e-4), 1_000_000))
    with pytest.raises(ValueError, match=r"delta must be at least 2.2e-10 with 1000000 releases"):
        many.epsilon(1e-10)
    assert float(many.delta(500.0)) == pytest.approx(2.2e-10, rel=0.01)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1.0, math.nan, "1e-5"])
def test_deltas_outside_are_refused(delta) -> None:
    with pytest.raises(ValueError, match="delta must be a number > 0 and < 1"):
        PldAccountant().epsilon(delta)


@pytest.mark.parametrize("epsilon", [-1.0, math.nan])
def test_epsilons_below_zero_are_refused(epsilon: float) -> None:
    with pytest.raises(ValueError, match="epsilon must be >= 0"):
        PldAccountant().delta(epsilon)


@pytest.mark.parametrize("count", [0, -1, 1.5, True])
def test_counts_are_whole(count) -> None:
    with pytest.raises(ValueError, match="count must be a whole number >= 1"):
        PldAccountant().compose(RELEASE, count)


def test_another_relation_is_refused() -> None:
    accountant = spend(RELEASE)
    assert accountant.relation == RECORD
    with pytest.raises(ValueError, match="relation 'replace one record' like those before"):
        accountant.compose(DirichletCost(weight=1, alpha=5, relation=relations.AddRemoveRecord()))
    assert float(accountant.epsilon(1e-6)) == float(spend(RELEASE).epsilon(1e-6))


@pytest.mark.parametrize("vectors", [[(1,)], [(-2, 1, 1)], [(1,), (-1,), (2, -1)]], ids=str)
def test_relations_without_a_way_back_are_refused(vectors) -> None:
    relation = relations.Relation("one way", {"counts": [(1, -1)], "others": vectors})
    cost = DirichletCost(weight=1, alpha=5, relation=relation)
    with pytest.raises(ValueError, match=r"can be swapped, got 'one way'.* list both"):
        PldAccountant().compose(cost)


def test_a_way_back_may_be_part_of_a_longer_vector() -> None:
    relation = relations.Relation("both ways", {"counts": [(1,), (1, -1)]})
    PldAccountant().compose(DirichletCost(weight=1, alpha=5, relation=relation))


def test_batches_are_refused() -> None:
    with pytest.raises(
        ValueError, match="cost must be of one run, got an object of type BatchCost"
    ):
        PldAccountant().compose(BatchCost([RELEASE, RELEASE]))


def test_releases_that_cannot_be_hashed_are_refused() -> None:
    class Changing(Gaussian):
        __hash__ = None

    with pytest.raises(ValueError, match="cost must be hashable, like a frozen dataclass"):
        PldAccountant().compose(Changing(1.0))


@pytest.mark.parametrize("wrong", [math.nan, -0.1, 1.1])
def test_deltas_that_are_no_probabilities_are_refused(wrong: float) -> None:
    @dataclass(frozen=True)
    class Wrong(Gaussian):
        def delta(self, epsilon):
            return np.full(np.shape(epsilon), wrong)

    with pytest.raises(ValueError, match="must give a number from 0 to 1 for each epsilon"):
        spend((Wrong(1.0), 2)).epsilon(1e-5)


def test_deltas_may_be_rounded_down_by_whoever_reports_them() -> None:
    """What is made of them allows for that: it is nowhere below the truth."""

    @dataclass(frozen=True)
    class RoundedDown(Gaussian):
        def delta(self, epsilon):
            return super().delta(epsilon) * (1 - 0.9 * pld._ROUNDING)

    epsilons = np.linspace(0, 5, 40)
    used = pld._checked_delta(RoundedDown(1.0), epsilons)
    assert (used >= Gaussian(1.0).delta(epsilons)).all()


def test_the_rounding_of_transforms_is_allowed_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative error of 2^-53 for each release, of masses that sum to 1."""
    asked: list[float] = []

    class Transformed:
        def get_delta_for_epsilon(self, epsilon: float) -> float:
            return 1e-9

        def get_epsilon_for_delta(self, delta: float) -> float:
            asked.append(delta)
            return 0.01

    monkeypatch.setattr(pld._Spent, "_losses", Transformed())
    accountant, noise = spend((RELEASE, 1000)), 1000 * 2.0**-53
    assert float(accountant.delta(0.1)) >= 1e-9 + noise
    assert float(accountant.epsilon(1e-9)) >= 0.01
    assert asked[0] <= 1e-9 - noise


# The optional package -------------------------------------------------------------------------


def test_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(
        ImportError, match=r'needs the dp-accounting .* pip install "privrl\[pld\]"'
    ):
        PldAccountant()


@pytest.mark.slow
def test_package_is_imported_late() -> None:
    code = "import sys, privrl.accounting.pld; sys.exit('dp_accounting' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_no_warnings() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        spend((RELEASE, 10), pair(1, 0.01)).epsilon(1e-5)


# --- calibration ------------------------------------------------------------------------


@pytest.mark.slow
def test_a_weight_calibrated_under_it_fits_its_budget_and_is_larger() -> None:
    target, relation = ApproxDP(1.0, 1e-5), relations.ReplaceRecord()
    weight = DirichletMechanism.calibrated(
        target, alpha=10, relation=relation, count=65, accountant=PldAccountant
    ).weight
    assert (
        weight
        > 1.05 * DirichletMechanism.calibrated(target, alpha=10, relation=relation, count=65).weight
    )
    cost = DirichletCost(weight=weight, alpha=10, relation=relation)
    PldAccountant(budget=target).compose(cost, 65)
    with pytest.raises(BudgetExceeded):
        PldAccountant(budget=target).compose(cost, 66)


def test_renyi_targets_need_no_accountant() -> None:
    with pytest.raises(ValueError, match="accountant is for ApproxDP targets"):
        DirichletMechanism.calibrated(
            RenyiDP(2, 1), weight=1, relation=relations.ReplaceRecord(), accountant=PldAccountant
        )


@needs_forks
def test_in_another_process_it_is_refused():
    accountant = PldAccountant()
    assert "in the process that made it" in str(forked(lambda: accountant.compose(RELEASE)))


class Changing:
    """A cost of a user's own that can be written to, and is hashed by its identity."""

    relation = relations.ReplaceRecord()

    def __init__(self, sigma: float) -> None:
        self.sigma = sigma

    @property
    def _now(self) -> GaussianCost:
        return GaussianCost(sigma=self.sigma, relation=self.relation)

    def rdp(self, orders: ArrayLike) -> FloatArray:
        return self._now.rdp(orders)

    def delta(self, epsilon: ArrayLike) -> FloatArray:
        return self._now.delta(epsilon)

    def epsilon(self, delta: float) -> FloatArray:
        return self._now.epsilon(delta)


@pytest.mark.parametrize("planned", [False, True])
def test_a_cost_that_was_changed_is_refused(planned: bool) -> None:
    cost, budget = Changing(30.0), ApproxDP(1.0, 1e-5)
    accountant = PldAccountant(budget=budget, plan=[(cost, 4)] if planned else None)
    accountant.compose(cost, 2)
    spent = float(accountant.epsilon(1e-5))
    cost.sigma = 0.5
    with pytest.raises(ValueError, match="after it was first charged"):
        accountant.compose(cost)
    assert float(accountant.epsilon(1e-5)) == spent
    anew = PldAccountant()
    anew.compose(cost, 2)
    assert float(anew.epsilon(1e-5)) > 10


def test_a_divergence_that_is_no_number_is_refused() -> None:
    cost, accountant = Changing(30.0), PldAccountant()
    cost.rdp = lambda orders: np.full(np.shape(orders), np.nan)  # type: ignore[method-assign]
    with pytest.raises(ValueError, match=">= 0"):
        accountant.compose(cost)


def test_no_budgets_for_no_rows() -> None:
    with pytest.raises(ValueError, match="empty list"):
        RdpAccountant(budget=[])


@pytest.mark.parametrize("fixed", [True, False])
def test_planned_costs_are_of_the_relation_that_is_charged(fixed: bool) -> None:
    """A plan makes a cost known; that must not let it in beside costs under another relation."""
    episode = GaussianCost(sigma=5, relation=relations.ReplaceEpisode(10))
    planned = GaussianCost(sigma=5, relation=relations.ReplaceStep()) if fixed else Gaussian(0.2)
    accountant = PldAccountant(plan=[(planned, 1)])
    accountant.compose(episode)
    with pytest.raises(ValueError, match="must be about the relation 'replace one episode of 10"):
        accountant.compose(planned)
    assert [entry.cost for entry in accountant.journal] == [episode]


# Interrupted -------------------------------------------------------------------------------------


_SERIALS = numbered(1)


def _live(
    budget: ApproxDP | None, planned: bool, which: int, interrupt: Interrupter, serial: int
) -> int:
    """Charge two costs and look, with one step interrupted; then charge all that is admitted.

    Return how many charges were not interrupted.
    """
    one, other = (
        GaussianCost(sigma=sigma + 1e-9 * serial, relation=RECORD) for sigma in (4.0, 3.0)
    )
    second = one if budget is not None and not planned else other
    plan = [(one, 2), (other, 1)] if planned else None
    accountant, truth = PldAccountant(budget=budget, plan=plan), PldAccountant()
    done = Counter[GaussianCost]()

    def charge(cost: GaussianCost) -> None:
        accountant.compose(cost)
        done[cost] += 1

    steps = [
        partial(charge, one),
        partial(charge, second),
        partial(accountant.epsilon, 1e-5),
        partial(charge, one),
        partial(accountant.delta, 1.0),
    ]
    for place, step in enumerate(steps):
        if place == which:
            interrupt(step)
        else:
            step()
    with pytest.raises(BudgetExceeded) if budget is not None else nullcontext():
        for _ in range(20 if budget is not None else 1):
            charge(one)
    for cost, times in done.items():
        truth.compose(cost, times)
    assert accountant.epsilon(1e-5) >= truth.epsilon(1e-5) * (1 - 1e-9)
    assert accountant.delta(1.0) >= truth.delta(1.0) * (1 - 1e-9)
    if budget is not None:
        assert truth.epsilon(budget.delta) <= budget.epsilon
    written = Counter[Cost]()
    for entry in accountant.journal:
        written[entry.cost] += entry.count
    assert done <= written
    return done.total()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("which", "fresh"),
    [(1, False), *(pytest.param(each, True, marks=pytest.mark.slow) for each in range(5))],
)
@pytest.mark.parametrize("planned", [False, True, None])
def test_an_interrupt_at_any_line_loses_no_charge(
    planned: bool | None, which: int, fresh: bool
) -> None:
    """Nor does a budget admit more; where costs are fresh, nothing is known of their losses."""
    budget = None if planned is None else ApproxDP(3.0, 1e-5)
    whole = Interrupter(None, each=False)

    def live(interrupt: Interrupter) -> int:
        return _live(budget, bool(planned), which, interrupt, next(_SERIALS) if fresh else 0)

    live(Interrupter(None))  # which leaves what is known
    most = live(whole)
    assert whole.seen > 10
    for at in range(1, whole.seen + 1):
        assert live(Interrupter(at, each=False)) <= most
