"""The papers' bounds: each reproduces its paper, and none is below the exact value."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from scipy.integrate import quad
from scipy.special import betainc, gammaln, polygamma, psi
from scipy.stats import beta

from privrl.accounting.rdp import RdpAccountant
from privrl.accounting.targets import ApproxDP, RenyiDP
from privrl.costs import relations
from privrl.costs.base import Together
from privrl.costs.conversion import rdp_to_epsilon
from privrl.costs.curves import BOUNDS, dkl_rdp, dps_rdp, geumlek_rdp
from privrl.costs.dirichlet import Bound, DirichletCost
from privrl.costs.simplex import SimplexCost, probability_some_below
from privrl.mechanisms.dirichlet import DirichletMechanism
from privrl.mechanisms.papers import dkl_algorithm_1, dkl_approximate_dp, dps_prior
from privrl.samplers.dirichlet import Diffuse

RECORD = relations.ReplaceRecord()
RELATIONS = [
    RECORD,
    relations.AddRemoveRecord(),
    relations.ReplaceStep(),
    relations.ReplaceEpisode(3),
]
NAMES = sorted(BOUNDS)
PAIR = (1.0, -1.0)
ROUNDING = 1e-12  # relative: what a bound may seem to be below the exact value

each_name = pytest.mark.parametrize("name", NAMES)
each_relation = pytest.mark.parametrize("relation", RELATIONS, ids=str)


def cost(bound: Bound, weight: float, alpha: float, relation: relations.Relation) -> DirichletCost:
    return DirichletCost(weight=weight, alpha=alpha, relation=relation, bound=bound)


def one(curve, vector, weight: float, alpha: float, order: float) -> float:
    return float(curve(vector, weight, alpha, np.array(order)))


# The three curves -------------------------------------------------------------------------------


def test_every_curve_has_its_name() -> None:
    assert {"exact", *BOUNDS} == set(get_args(Bound))
    assert (BOUNDS["dps"], BOUNDS["dkl"], BOUNDS["geumlek"]) == (dps_rdp, dkl_rdp, geumlek_rdp)


@pytest.mark.parametrize(
    ("vector", "squares", "largest"),
    [(PAIR, 2, 1), ((1.0,), 1, 1), ((-2.0, 1.0, 1.0), 6, 2), ((0.5, -1.5), 2.5, 1.5)],
)
@pytest.mark.parametrize("parameters", [(1, 6, 2), (0.2, 10, 9.5), (3, 40, 1.01)])
def test_curves_are_the_formulas_of_the_papers(vector, squares, largest, parameters) -> None:
    weight, alpha, order = parameters
    with mp.workdps(40):
        argument = mpf(alpha) - (mpf(order) - 1) * mpf(weight) * largest
        dps = mpf(order) / 2 * mpf(weight) ** 2 * squares * mp.psi(1, argument)
    assert one(dps_rdp, vector, weight, alpha, order) == pytest.approx(float(dps), rel=1e-13)
    assert one(dkl_rdp, vector, weight, alpha, order) == pytest.approx(float(dps), rel=1e-13)
    assert one(geumlek_rdp, vector, weight, alpha, order) == pytest.approx(
        float(2 * dps), rel=1e-13
    )


@pytest.mark.few(12)
@each_name
@each_relation
@settings(max_examples=25)
@given(
    log_weight=st.floats(-7, 4),
    log_alpha=st.floats(math.log(0.5), 12),
    log_order=st.floats(-9, 6),
)
def test_curves_dominate_the_exact_divergence(
    name, relation: relations.Relation, log_weight: float, log_alpha: float, log_order: float
) -> None:
    order, weight, alpha = 1 + math.exp(log_order), math.exp(log_weight), math.exp(log_alpha)
    exact, before = cost("exact", weight, alpha, relation).rdp([order, order * (1 - 1e-6)])
    assume(exact < math.inf or before == math.inf)  # just below the limit it counts as infinite
    bound = float(cost(name, weight, alpha, relation).rdp(order))
    assert bound >= exact * (1 - ROUNDING)


@pytest.mark.few(18)
@each_name
@each_relation
@pytest.mark.parametrize(("weight", "alpha"), [(0.2, 10.0), (1.0, 5.0), (0.05, 1.5)])
def test_deltas_dominate_the_exact_ones(
    name, relation: relations.Relation, weight: float, alpha: float
) -> None:
    epsilons = np.array([0.01, 0.3, 1.0, 5.0])
    exact = cost("exact", weight, alpha, relation).delta(epsilons)
    assert np.all(cost(name, weight, alpha, relation).delta(epsilons) >= exact * (1 - ROUNDING))


@pytest.mark.parametrize(("name", "factor"), [("dps", 1), ("dkl", 1), ("geumlek", 2)])
def test_curves_are_tight_for_little_data(name, factor: float) -> None:
    """As the weight vanishes, the divergence is half its second derivative: no constant is lost."""
    exact = cost("exact", 1e-7, 3.0, RECORD).rdp([1.5, 2.0, 30.0])
    bound = cost(name, 1e-7, 3.0, RECORD).rdp([1.5, 2.0, 30.0])
    np.testing.assert_allclose(bound, factor * exact, rtol=1e-5)


@pytest.mark.parametrize("vector", [PAIR, (2.0, -1.0, -1.0)])
@pytest.mark.parametrize(("weight", "alpha"), [(1.0, 3.0), (0.1, 12.0)])
def test_curves_are_infinite_outside_their_range(vector, weight: float, alpha: float) -> None:
    widest = weight * max(vector)
    last = 1 + alpha / widest
    for curve in (dps_rdp, geumlek_rdp):
        assert math.isfinite(one(curve, vector, weight, alpha, last * (1 - 1e-9)))
        assert one(curve, vector, weight, alpha, last) == math.inf
        assert one(curve, vector, weight, alpha, 10 * last) == math.inf
    last = 1 + (alpha - 1) / widest
    assert math.isfinite(one(dkl_rdp, vector, weight, alpha, last))
    assert one(dkl_rdp, vector, weight, alpha, last * (1 + 1e-9)) == math.inf
    assert one(dkl_rdp, vector, weight, 0.999, 1 + 1e-9) == math.inf


@each_name
def test_curves_rise_with_order_and_weight_and_fall_with_the_prior(name) -> None:
    orders = np.linspace(1.01, 4.9, 30)
    base = cost(name, 1.0, 5.0, RECORD).rdp(orders)
    finite = np.isfinite(base[:-1])
    assert np.all(base[1:][finite] > base[:-1][finite])
    assert np.all(cost(name, 1.1, 5.0, RECORD).rdp(orders)[:-1][finite] > base[:-1][finite])
    assert np.all(cost(name, 1.0, 5.1, RECORD).rdp(orders)[:-1][finite] < base[:-1][finite])


@each_name
def test_releases_with_a_bound_go_everywhere(name) -> None:
    """Calibrated, composed and drawn from under its name; never at less cost than it has."""
    alpha = DirichletMechanism.calibrated(
        RenyiDP(2, 1), weight=1, relation=RECORD, bound=name
    ).alpha
    weight = DirichletMechanism.calibrated(
        RenyiDP(2, 1), alpha=4, relation=RECORD, count=10, bound=name
    ).weight
    assert 1 - 1e-9 <= float(cost(name, 1, alpha, RECORD).rdp(2)) <= 1 or name == "dkl"
    sampler = Diffuse(weight=weight, alpha=4, relation=RECORD, bound=name)
    accountant = RdpAccountant()
    accountant.compose(sampler.cost, count=10)
    assert 1 - 1e-9 <= float(accountant.spent(2)) <= 1
    assert float(accountant.epsilon(1e-6)) > float(cost("exact", weight, 4, RECORD).epsilon(1e-6))


# Geumlek's supremum -----------------------------------------------------------------------------


def hessian_norm(cells: np.ndarray) -> float:
    """Spectral norm of the Hessian of log B at the cells."""
    return float(np.linalg.norm(np.diag(polygamma(1, cells)) - polygamma(1, cells.sum()), 2))


def test_hessian_is_that_of_log_b() -> None:
    cells, h = np.array([0.7, 2.0, 5.0]), 1e-4

    def log_b(u: np.ndarray) -> float:
        return float(gammaln(u).sum() - gammaln(u.sum()))

    steps = h * np.eye(3)
    numeric = np.array(
        [
            [
                log_b(cells + p + q)
                - log_b(cells + p - q)
                - log_b(cells - p + q)
                + log_b(cells - p - q)
                for p in steps
            ]
            for q in steps
        ]
    ) / (4 * h * h)
    assert np.linalg.norm(numeric, 2) == pytest.approx(hessian_norm(cells), rel=1e-5)


@pytest.mark.slow
def test_the_supremum_is_approached_and_never_exceeded() -> None:
    weight, alpha, order = 0.5, 3.0, 4.0
    implied = one(geumlek_rdp, PAIR, weight, alpha, order) / (order * weight**2 * 2)
    rng = np.random.default_rng(5)
    largest = 0.0
    for _ in range(500):
        counts = rng.exponential(10.0 ** rng.uniform(-2, 4), 4)
        change = np.zeros(4)
        change[rng.choice(4, 2, replace=False)] = PAIR
        counts = np.maximum(counts, -change)  # both data sets have counts
        way = rng.uniform(-1, order - 1) if rng.random() < 0.5 else order - 1
        end = weight * counts + alpha - way * weight * change
        if np.all(weight * (counts + change) + alpha >= alpha):
            largest = max(largest, hessian_norm(end))
    assert largest <= implied
    at_the_end = np.array([alpha - (order - 1) * weight, 1e7, 1e7])
    assert hessian_norm(at_the_end) == pytest.approx(implied, rel=1e-6)


def test_equation_6_over_the_data_alone_is_no_bound() -> None:
    """With the supremum over counts >= 0 it would be λ Δ₂² ψ'(alpha): too small."""
    order, alpha = 6 - 1e-9, 5.0
    as_printed = order * 2 * float(polygamma(1, alpha))
    assert float(cost("exact", 1, alpha, RECORD).rdp(order)) > 2 * as_printed
    assert float(cost("exact", 1, alpha, RECORD).rdp(6.0)) == math.inf


# DPS --------------------------------------------------------------------------------------------


def test_dps_histogram_example() -> None:
    """Section 3.3: a prior of 3.46 for order 2, epsilon 1; and 4 by (9)."""
    assert float(cost("dps", 1, 3.46, RECORD).rdp(2.0)) == pytest.approx(0.99998, abs=5e-6)
    assert dps_prior(RenyiDP(2, 1), relation=RECORD) == 4
    needed = DirichletMechanism.calibrated(
        RenyiDP(2, 1), weight=1, relation=RECORD, bound="dps"
    ).alpha
    assert 3.455 < needed < 3.46


def test_dps_theorem_4_at_its_best_order() -> None:
    assert float(cost("dps", 1, 5, RECORD).epsilon(1e-5)) == pytest.approx(5.46, abs=5e-3)


def test_dps_65_releases() -> None:
    orders = 1 + np.geomspace(1e-2, 49, 20_000)
    curve = 65 * cost("dps", 0.2, 10, RECORD).rdp(orders)
    assert rdp_to_epsilon(orders, curve, 1e-5) == pytest.approx(3.59, abs=5e-3)
    two = np.array([2.0])
    curve = 65 * cost("dps", 0.2, 10, RECORD).rdp(two)
    assert rdp_to_epsilon(two, curve, 1e-5) == pytest.approx(10.7, abs=5e-2)


@pytest.mark.parametrize(
    ("relation", "squares", "largest"),
    [
        (RECORD, 2, 1),
        (relations.AddRemoveRecord(), 1, 1),
        (relations.ReplaceStep(), 6, 2),
        (relations.ReplaceEpisode(5), 50, 5),
    ],
    ids=str,
)
@pytest.mark.parametrize("parameters", [(2, 1, 1), (9.5, 0.03, 0.2), (1.1, 40, 3)])
def test_dps_prior_is_equation_9_and_meets_the_target(
    relation: relations.Relation,
    squares: float,
    largest: float,
    parameters: tuple[float, float, float],
) -> None:
    order, epsilon, weight = parameters
    alpha = dps_prior(RenyiDP(order, epsilon), relation=relation, weight=weight)
    by_hand = order * (weight**2 * squares) / (2 * epsilon) + (order - 1) * weight * largest + 1
    assert alpha == pytest.approx(by_hand, rel=1e-14)
    assert float(cost("dps", weight, alpha, relation).rdp(order)) < epsilon
    least = DirichletMechanism.calibrated(
        RenyiDP(order, epsilon), weight=weight, relation=relation, bound="dps"
    ).alpha
    assert least < alpha < least + 1  # ψ'(x) lies between 1/x and 1/(x − 1)


def test_dps_prior_names_what_is_wrong() -> None:
    with pytest.raises(ValueError, match="weight must be a number > 0"):
        dps_prior(RenyiDP(2, 1), relation=RECORD, weight=0.0)
    with pytest.raises(ValueError, match="never changes the table 'rewards'"):
        dps_prior(RenyiDP(2, 1), relation=relations.ReplaceTransition(), table="rewards")
    with pytest.raises(ValueError, match="table must be one of"):
        dps_prior(RenyiDP(2, 1), relation=RECORD, table="records")


# DKL --------------------------------------------------------------------------------------------


@each_relation
@pytest.mark.parametrize("order", [1.01, 2.0, 5.0, 20.0, 200.0])
@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 100.0])
def test_algorithm_1_spends_what_it_may(
    relation: relations.Relation, order: float, epsilon: float
) -> None:
    vector = max(relation.changes(), key=lambda v: sum(m * m for m in v))
    squares, largest = sum(m * m for m in vector), max(abs(m) for m in vector)
    weight, alpha, made = dkl_algorithm_1(RenyiDP(order, epsilon), relation=relation)
    with mp.workdps(30):
        argument = 1 + 3 * (mpf(order) - 1) * weight * largest
        line_1 = mpf(order) / 2 * mpf(weight) ** 2 * squares * mp.psi(1, argument)
    assert float(line_1) == pytest.approx(epsilon, rel=1e-12)
    assert alpha == pytest.approx(1 + 4 * (order - 1) * weight * largest, rel=1e-14)
    assert made == cost("dkl", weight, alpha, relation)
    assert epsilon * (1 - 1e-12) <= float(made.rdp(order)) <= epsilon
    assert float(replace(made, bound="exact").rdp(order)) < epsilon


def test_remark_1_without_g_needs_no_root_finding() -> None:
    for order, epsilon in [(2.0, 1.0), (5.0, 0.01), (20.0, 3.0)]:
        weight, alpha, made = dkl_algorithm_1(
            RenyiDP(order, epsilon), relation=RECORD, g=lambda r: 0
        )
        closed = math.sqrt(2 * epsilon / (order * 2 * (math.pi**2 / 6)))
        assert weight == pytest.approx(closed, rel=1e-14)
        assert alpha == pytest.approx(1 + (order - 1) * closed, rel=1e-14)
        assert epsilon * (1 - 1e-12) <= float(made.rdp(order)) <= epsilon


@pytest.mark.parametrize("g", [math.sqrt, lambda r: 7.0, lambda r: r**1.9])
def test_remark_1_any_g_spends_the_same(g) -> None:
    weight, alpha, cost = dkl_algorithm_1(RenyiDP(3, 0.5), relation=RECORD, g=g)
    assert alpha == pytest.approx(1 + g(weight) + 2 * weight, rel=1e-14)
    assert 0.5 * (1 - 1e-12) <= float(cost.rdp(3)) <= 0.5
    assert 1.5 * 2 * weight**2 * polygamma(1, 1 + g(weight)) == pytest.approx(0.5, rel=1e-12)


def test_remark_2_a_lower_bound_on_the_counts_is_a_prior() -> None:
    target, least = RenyiDP(5, 0.2), 40.0
    plain = dkl_algorithm_1(target, relation=RECORD)
    weight, alpha, cost = dkl_algorithm_1(target, relation=RECORD, lower_bound=least)
    assert weight > 1.5 * plain.weight  # "this leads to a larger value of r"
    by_hand = 2.5 * weight**2 * 2 * polygamma(1, 1 + weight * least + 3 * 4 * weight)
    assert by_hand == pytest.approx(0.2, rel=1e-12)
    assert alpha == pytest.approx(1 + 4 * 4 * weight, rel=1e-14)
    assert cost.alpha == pytest.approx(alpha + weight * least, rel=1e-14)
    assert 0.2 * (1 - 1e-12) <= float(cost.rdp(5)) <= 0.2
    # Two neighbours whose counts are at least 40, drawn with the prior of the algorithm:
    u = weight * np.array([41.0, 40.0, 300.0]) + alpha
    v = weight * np.array([40.0, 41.0, 300.0]) + alpha
    assert dirichlet_divergence(u, v, 5) <= float(replace(cost, bound="exact").rdp(5)) < 0.2


def dirichlet_divergence(u: Sequence[float], v: Sequence[float], order: float) -> float:
    """Rényi divergence of Dirichlet(u) from Dirichlet(v), from the normalising constants."""
    with mp.workdps(50):
        u, v, lam = [mpf(x) for x in u], [mpf(x) for x in v], mpf(order)

        def log_b(w) -> mpf:
            return sum(mp.loggamma(x) for x in w) - mp.loggamma(sum(w))

        mixed = [lam * x - (lam - 1) * y for x, y in zip(u, v, strict=True)]
        return float((log_b(mixed) - lam * log_b(u) + (lam - 1) * log_b(v)) / (lam - 1))


@pytest.mark.parametrize("order", [2.0, 20.0, 200.0])
@pytest.mark.parametrize("epsilon", [1e-5, 1e-2, 1.0])
def test_figure_3_claims_are_close_to_the_divergence(order: float, epsilon: float) -> None:
    """The histograms of the authors' code; in print the last cells, 0 and 1, are exchanged."""
    x, y = np.array([11, 8, 65, 25, 38, 0]), np.array([11, 7, 65, 25, 38, 1])
    weight, alpha, _ = dkl_algorithm_1(RenyiDP(order, epsilon), relation=RECORD)
    true = max(
        dirichlet_divergence(weight * x + alpha, weight * y + alpha, order),
        dirichlet_divergence(weight * y + alpha, weight * x + alpha, order),
    )
    assert 0.3 * epsilon < true < epsilon


def test_settings_are_what_a_sampler_takes() -> None:
    weight, alpha, cost = dkl_algorithm_1(RenyiDP(2, 1), relation=RECORD)
    assert Diffuse(weight=weight, alpha=alpha, relation=RECORD, bound="dkl").cost == cost
    assert DirichletMechanism(weight=weight, alpha=alpha, bound="dkl").cost == cost
    steps = dkl_algorithm_1(RenyiDP(2, 1), relation=relations.ReplaceStep(), table="rewards")
    assert steps.cost.table == "rewards"
    assert steps.weight == dkl_algorithm_1(RenyiDP(2, 1), relation=RECORD).weight


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"g": lambda r: -1e-9}, r"g must be >= 0 and finite, got g\(.*\) = -1e-09"),
        ({"g": lambda r: math.nan}, "g must be >= 0"),
        ({"g": lambda r: math.inf}, "g must be >= 0"),
        ({"g": lambda r: 100 * r**3}, "g grows so fast"),
        ({"lower_bound": -1.0}, "lower_bound must be >= 0"),
        ({"lower_bound": math.nan}, "lower_bound must be >= 0"),
        ({"lower_bound": math.inf}, "lower_bound must be >= 0"),
        (
            {"relation": relations.ReplaceTransition(), "table": "rewards"},
            "never changes the table",
        ),
    ],
)
def test_algorithm_1_names_what_is_wrong(arguments, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dkl_algorithm_1(RenyiDP(2, 1), **{"relation": RECORD, **arguments})


@pytest.mark.parametrize("order", [20.0, 200.0])
@pytest.mark.parametrize("target", [ApproxDP(1.0, 1e-5), ApproxDP(10.0, 1e-8)], ids=repr)
def test_equation_13_at_the_orders_of_the_paper(order: float, target: ApproxDP) -> None:
    weight, alpha, cost = dkl_approximate_dp(target, relation=RECORD, order=order)
    line_1 = order / 2 * weight**2 * 2 * polygamma(1, 1 + 3 * (order - 1) * weight)
    converted = line_1 + math.log(order - 1)
    converted -= (math.log(target.delta) + order * math.log(order)) / (order - 1)
    assert converted == pytest.approx(target.epsilon, rel=1e-11)
    assert alpha == pytest.approx(1 + 4 * (order - 1) * weight, rel=1e-14)
    assert float(cost.delta(target.epsilon)) <= target.delta * (1 + 1e-9)
    assert float(replace(cost, bound="exact").delta(target.epsilon)) < target.delta


@pytest.mark.slow
def test_equation_13_at_its_best_order_has_the_lightest_prior() -> None:
    target = ApproxDP(1.0, 1e-5)
    best = dkl_approximate_dp(target, relation=RECORD)
    assert best.alpha / best.weight == pytest.approx(40.15, abs=0.02)
    for order in (11.0, 12.5, 14.0, 17.0, 20.0, 60.0, 200.0):
        other = dkl_approximate_dp(target, relation=RECORD, order=order)
        assert other.alpha / other.weight >= best.alpha / best.weight * (1 - 1e-3)
    with_bound = dkl_approximate_dp(target, relation=RECORD, lower_bound=20.0)
    assert with_bound.alpha / with_bound.weight < best.alpha / best.weight
    assert with_bound.cost.alpha == with_bound.alpha + 20 * with_bound.weight


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (2.0, "order must leave something to spend of epsilon = 1 at delta = 1e-05, got 2.0"),
        (1.0, "order must be a number > 1"),
        (math.nan, "order must be a number > 1"),
        (math.inf, "order must be a number > 1"),
    ],
)
def test_equation_13_names_what_is_wrong(order: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dkl_approximate_dp(ApproxDP(1.0, 1e-5), relation=RECORD, order=order)


# SIM: the probability ---------------------------------------------------------------------------


def some_below_of_two(gamma: float, a: float, b: float, rest: float) -> float:
    """P[one of two components < gamma] with any concentrations, one stick after the other."""

    def density(y: float) -> float:
        x = math.exp(y)
        return x * beta.pdf(x, a, b + rest) * betainc(b, rest, gamma / (1 - x))

    low, high = math.log(gamma), math.log1p(-gamma)
    inner = quad(density, low, high, epsabs=0, epsrel=1e-11, limit=200, points=[high - 1])[0]
    return float(betainc(a, b + rest, gamma) + inner + betainc(b + rest, a, gamma))


def some_below_by_laplace(gamma: float, alphas: Sequence[float], total: float, digits: int) -> mpf:
    """The same by inverting a Laplace transform: of t^(total − 1) P[some component < gamma / t]."""
    with mp.workdps(digits):

        def transform(s: mpf) -> mpf:
            none = mp.fprod(mp.gammainc(mpf(a), gamma * s, regularized=True) for a in alphas)
            return (1 - none) * s ** (-mpf(total))

        return mp.gamma(mpf(total)) * mp.invertlaplace(transform, 1, method="talbot")


@pytest.mark.few(6)
@pytest.mark.parametrize(
    ("gamma", "alpha", "n", "total"),
    [(0.00226, 1.2, 2, 24.0), (0.3, 1.2, 2, 3.6), (0.02, 3.0, 20, 80.0), (0.02, 0.3, 3, 5.0)],
)
def test_probability_against_a_laplace_transform(
    gamma: float, alpha: float, n: int, total: float
) -> None:
    expected = some_below_by_laplace(gamma, [alpha] * n, total, digits=30)
    found = probability_some_below(gamma, alpha=alpha, n=n, total=total)
    assert float(found / expected) == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize(
    ("gamma", "alpha", "n", "total", "expected"),
    [  # by the same transform at 150 digits and more, which takes longer
        (0.1, 40.0, 3, 200.0, 4.51505983513459e-05),
        (0.19, 40.0, 3, 200.0, 0.8224824073963386),
        (1e-3, 4.88, 2, 171.87, 3.0311025719440675e-06),
    ],
)
def test_probability_against_many_digits(
    gamma: float, alpha: float, n: int, total: float, expected: float
) -> None:
    found = probability_some_below(gamma, alpha=alpha, n=n, total=total)
    assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("n", [1, 2, 5, 20])
@pytest.mark.parametrize("total", [21.0, 25.5, 1e4])
@pytest.mark.parametrize("share", [1e-300, 1e-100, 1e-8, 1e-3, 0.1, 0.5, 0.9, 0.999])
def test_probability_has_a_closed_form_for_unit_concentrations(
    n: int, total: float, share: float
) -> None:
    expected = -math.expm1((total - 1) * math.log1p(-share))
    found = probability_some_below(share / n, alpha=1.0, n=n, total=total)
    assert found == pytest.approx(expected, rel=3e-10)


def test_probability_at_the_ends() -> None:
    assert probability_some_below(0.0, alpha=2.0, n=3, total=9.0) == 0
    assert probability_some_below(1 / 3, alpha=2.0, n=3, total=9.0) == 1
    assert probability_some_below(0.9, alpha=2.0, n=3, total=9.0) == 1
    assert probability_some_below(5e-324, alpha=2.0, n=3, total=9.0) == 0


@pytest.mark.parametrize(("alpha", "total"), [(5000.0, 1e5), (1e5, 1e9)])
def test_probability_far_above_a_narrow_law_is_one(alpha: float, total: float) -> None:
    found = probability_some_below(0.4, alpha=alpha, n=2, total=total)
    assert found == pytest.approx(1, abs=1e-9)


def test_probability_for_tiny_gamma_is_the_sum_of_single_ones() -> None:
    found = probability_some_below(1e-60, alpha=4.88, n=7, total=171.87)
    assert found == pytest.approx(7 * float(betainc(4.88, 171.87 - 4.88, 1e-60)), rel=1e-13)
    assert 1e-290 < found < 1e-280


@pytest.mark.slow
def test_probability_by_simulation() -> None:
    """400,000 draws; six standard errors."""
    rng = np.random.default_rng(11)
    draws = rng.dirichlet([1.5] * 6 + [11.0], 400_000)[:, :6].min(1)
    for gamma in (0.003, 0.01, 0.03):
        p = probability_some_below(gamma, alpha=1.5, n=6, total=20.0)
        assert (draws < gamma).mean() == pytest.approx(p, abs=6 * math.sqrt(p * (1 - p) / 4e5))


@pytest.mark.slow
@pytest.mark.parametrize("limits", [(24, 0.05, 0.05), (40, 0.1, 0.4), (6, 0.05, 0.2)])
@pytest.mark.parametrize("gamma", [1e-9, 1e-3, 0.05])
def test_the_worst_input_has_both_components_at_eta(
    limits: tuple[float, float, float], gamma: float
) -> None:
    """Among the vertices of the paper's set and within it; weight * eta may be below 1."""
    weight, eta, eta_bar = limits
    worst = probability_some_below(gamma, alpha=weight * eta, n=2, total=weight)

    def at(p: float, q: float) -> float:
        return some_below_of_two(gamma, weight * p, weight * q, weight * (1 - p - q))

    assert at(eta, eta) == pytest.approx(worst, rel=1e-9)
    room = 1 - eta_bar - 2 * eta
    inside = eta + room * np.random.default_rng(2).dirichlet(np.ones(3), 5)[:, :2]
    for p, q in [(eta, eta + room), (eta + room, eta), (eta + room / 2, eta + room / 2), *inside]:
        assert at(p, q) < worst


@pytest.mark.few(2)
@pytest.mark.parametrize("p", [(0.05, 0.05, 0.85), (0.05, 0.1, 0.2)])
def test_the_worst_input_of_three_components(p: tuple[float, float, float]) -> None:
    other = some_below_by_laplace(0.01, [24 * x for x in p], 24.0, digits=25)
    assert float(other) < 0.9 * probability_some_below(0.01, alpha=1.2, n=3, total=24.0)


# SIM: the release -------------------------------------------------------------------------------

EXAMPLE = SimplexCost(weight=24, eta=0.05, eta_bar=0.05, n_vectors=100)
SIMPLEX = [
    EXAMPLE,
    SimplexCost(weight=24, eta=0.05, eta_bar=0.05),
    SimplexCost(weight=300, eta=0.02, eta_bar=0.1, n_components=20, distance=0.1),
    SimplexCost(weight=4, eta=0.25, eta_bar=0.25, distance=0.5),
    SimplexCost(weight=50, eta=0.2, eta_bar=0.1, n_components=3, distance=0.6, n_vectors=7),
]
each_simplex = pytest.mark.parametrize("simplex", SIMPLEX, ids=repr)


def test_sim_example() -> None:
    """Section VI: 100 opinions, k = 24; (1.18, 0.05) in print, with a gamma not the best."""
    epsilon = float(EXAMPLE.epsilon(0.05))
    assert epsilon == pytest.approx(1.122, abs=5e-4)
    assert float(EXAMPLE.gamma(epsilon)) == pytest.approx(0.00226, abs=5e-6)
    assert float(EXAMPLE.delta(1.18)) == pytest.approx(0.0282, abs=5e-4)
    assert float(EXAMPLE.exact.epsilon(0.05)) == pytest.approx(0.0508, abs=5e-5)
    assert float(EXAMPLE.exact.delta(1.18)) == pytest.approx(9.3e-7, rel=5e-3)


def test_sim_has_no_precision_floor() -> None:
    """DKL's Figure 2, whose curve ends at 2.1e-4; in the authors' code W has two elements."""
    weight = 147 * 0.97 + 6 * 4.88
    assert weight == pytest.approx(171.87)
    eta = 4.88 / weight
    assert eta == pytest.approx(0.0284, abs=5e-5)
    assert 4 * eta == pytest.approx(0.1136, abs=5e-5)  # eta_bar: four cells are not in W
    deltas = [
        probability_some_below(gamma, alpha=4.88, n=2, total=weight)
        for gamma in (10**-2.7, 1e-3, 1e-5, 1e-30, 1e-62)
    ]
    np.testing.assert_allclose(deltas[:4], [7.70e-5, 3.03e-6, 6.04e-16, 6.04e-138], rtol=2e-3)
    assert 1e-300 < deltas[-1] < 1e-290
    one_record = SimplexCost(weight=weight, eta=eta, eta_bar=4 * eta, distance=2 * 0.97 / weight)
    assert float(one_record.epsilon(1e-5)) == pytest.approx(9.757, abs=5e-4)  # missing in Figure 3
    assert float(one_record.exact.epsilon(1e-5)) < 3.5


@pytest.mark.few(3)
@each_simplex
def test_sim_epsilon_is_theorem_1_or_2(simplex: SimplexCost) -> None:
    h = simplex.distance / (2 * simplex.n_vectors)
    k, eta, c = simplex.weight, simplex.eta, 1 - simplex.eta_bar
    for epsilon in float(simplex.epsilon(1e-3)) * np.array([1, 1.5, 3.0]):
        gamma = float(simplex.gamma(epsilon))
        with mp.workdps(30):
            ratio = mp.beta(k * eta, k * (c - eta)) / mp.beta(k * (eta + h), k * (c - eta - h))
            odds = (1 - (simplex.n_components - 1) * mpf(gamma)) / gamma
            theorem = mp.log(ratio) + k * h * mp.log(odds)
        assert float(theorem) == pytest.approx(epsilon, rel=1e-11)
        delta = probability_some_below(gamma, alpha=k * eta, n=simplex.n_components, total=k)
        assert float(simplex.delta(epsilon)) == pytest.approx(delta, rel=1e-12)


@pytest.mark.slow
@each_simplex
def test_sim_dominates_the_exact_release(simplex: SimplexCost) -> None:
    epsilons = np.concatenate([[0.0], np.geomspace(1e-2, 300, 12)])
    exact = simplex.exact.delta(epsilons)
    assert np.all(simplex.delta(epsilons) >= np.where(exact < 1e-307, 0, exact * (1 - 1e-9)))
    for delta in (0.3, 1e-5, 1e-100, 1e-300):
        epsilon = float(simplex.epsilon(delta))
        assert epsilon > float(simplex.exact.epsilon(delta))
        assert delta * (1 - 1e-8) < float(simplex.delta(epsilon)) <= delta or (
            float(simplex.delta(epsilon * (1 - 1e-9))) == 1
        )


@each_simplex
def test_sim_delta_falls_and_rdp_is_infinite(simplex: SimplexCost) -> None:
    deltas = simplex.delta(np.linspace(0, 40, 60).reshape(6, 10))
    assert deltas.shape == (6, 10)
    assert deltas.flat[0] == 1
    assert np.all(np.diff(deltas.ravel()) <= 0)
    assert simplex.delta(3.0).shape == ()
    assert np.all(simplex.rdp([[1.5, 2.0], [3.0, 4.0]]) == np.full((2, 2), np.inf))
    assert float(simplex.delta(1e6)) == 0  # below 1e-308


@pytest.mark.few(2)
@pytest.mark.parametrize("n_components", [2, 3])
def test_sim_loss_is_bounded_wherever_a_guarantee_is_given(n_components: int) -> None:
    """Lemma 4 by enumeration: inputs on a grid, components of the draw at their extremes."""
    k, eta, eta_bar, b = 30.0, 0.05, 0.05, 1.0
    simplex = SimplexCost(weight=k, eta=eta, eta_bar=eta_bar, n_components=n_components, distance=b)
    most = 1 - eta_bar - (n_components - 2) * eta
    p, q, c = np.meshgrid(*[np.linspace(0, 1, 61)] * 3)
    c = 2 * eta + (most - 2 * eta) * c
    p, q = eta + (c - 2 * eta) * p, eta + (c - 2 * eta) * q
    near = np.abs(p - q) <= b / 2
    ratio = gammaln(k * q) + gammaln(k * (c - q)) - gammaln(k * p) - gammaln(k * (c - p))
    guaranteed = 0
    for epsilon in np.linspace(0.5, 40, 80):
        gamma = float(simplex.gamma(epsilon))
        if gamma < 1:
            widest = math.log((1 - (n_components - 1) * gamma) / gamma)
            loss = ratio + k * np.abs(p - q) * widest
            assert loss[near].max() <= epsilon * (1 + 1e-12)
            guaranteed += 1
    assert 40 < guaranteed < 80


def test_sim_lemma_4_overlooks_a_maximum_where_no_guarantee_is_given() -> None:
    """At gamma = 0.45 a smaller change loses more than Theorem 1 says of the largest one."""
    k, eta, eta_bar, h, gamma = 24.0, 0.05, 0.05, 0.5, 0.45
    steps = np.linspace(0, h, 101)

    def log_beta(x: np.ndarray) -> np.ndarray:
        return gammaln(k * x) + gammaln(k * (1 - eta_bar - x))

    losses = log_beta(np.array(eta)) - log_beta(eta + steps)
    losses += k * steps * math.log((1 - gamma) / gamma)
    theorem = float(losses[-1])
    assert losses.max() > theorem + 0.01
    assert math.log((1 - gamma) / gamma) < psi(k * 0.55) - psi(k * 0.4)
    simplex = SimplexCost(weight=k, eta=eta, eta_bar=eta_bar)
    assert float(simplex.gamma(theorem)) == 1
    assert float(simplex.delta(theorem)) == 1


def test_sim_relation_and_exact_counterpart() -> None:
    ((gain, loss),) = EXAMPLE.relation.changes("counts")
    assert gain == -loss == math.nextafter(0.005 + 2.0**-50, 1)  # with what rounding may add
    assert EXAMPLE.relation == replace(EXAMPLE, weight=30).relation  # so that they compose
    assert str(EXAMPLE.relation) == "move 0.5 between two sensitive components of one vector of 100"
    assert str(SIMPLEX[3].relation) == "move 0.25 between two sensitive components of one vector"
    assert EXAMPLE.exact == cost("exact", 24.0, 24 * 0.05, EXAMPLE.relation)
    both = Together([EXAMPLE, EXAMPLE.exact])
    assert float(both.rdp(2.0)) == math.inf
    assert float(both.delta(1.0)) == 1


@pytest.mark.slow
def test_sim_smaller_changes_and_better_known_inputs_cost_less() -> None:
    def cost(**changes: float) -> float:
        return float(replace(SIMPLEX[1], **changes).epsilon(1e-4))

    assert cost(distance=0.5) < cost()
    assert cost(n_vectors=2) == pytest.approx(cost(distance=0.5), rel=1e-12)
    assert cost(eta=0.1) < cost() < cost(n_components=3) < cost(n_components=4)
    assert cost(eta_bar=0.1) < cost()
    assert cost(weight=48, eta=0.025) > cost()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weight": 0.0}, "weight must be a number > 0"),
        ({"weight": math.inf}, "weight must be a number > 0"),
        ({"eta": 0.0}, "eta must be a number > 0 and < 1"),
        ({"eta": math.nan}, "eta must be a number > 0 and < 1"),
        ({"eta_bar": 1.0}, "eta_bar must be a number > 0 and < 1"),
        ({"n_components": 1}, "n_components must be a whole number >= 2"),
        ({"n_components": 2.5}, "n_components must be a whole number >= 2"),
        ({"distance": 0.0}, "distance must be a number > 0"),
        ({"n_vectors": 0}, "n_vectors must be a whole number >= 1"),
        ({"eta": 0.04}, r"weight \* eta must be >= 1, which the theorem assumes, got 0.96"),
        ({"eta_bar": 0.04}, r"weight \* eta_bar must be >= 1"),
        ({"distance": 1.71}, r"distance must be <= .* = 1.7, got 1.71"),
        ({"n_components": 19}, r"n_components \* eta \+ eta_bar must be < 1, got 1;"),
        ({"eta": 0.3, "n_components": 3, "eta_bar": 0.2}, "must be < 1, got 1.1"),
    ],
)
def test_sim_names_what_is_wrong(changes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(SIMPLEX[1], **changes)


def test_sim_checks_its_arguments() -> None:
    with pytest.raises(ValueError, match="epsilon must be >= 0"):
        EXAMPLE.delta(-1e-9)
    with pytest.raises(ValueError, match="epsilon must be >= 0"):
        EXAMPLE.gamma(math.nan)
    with pytest.raises(ValueError, match="delta must be a number > 0"):
        EXAMPLE.epsilon(0.0)
    with pytest.raises(ValueError, match="orders must be > 1"):
        EXAMPLE.rdp([2.0, 1.0])
