"""Several tables released together: costs by closed forms, and an audit of all of them at once."""

import copy
import math
import pickle

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import norm

from privrl.accounting.rdp import BudgetExceeded, RdpAccountant
from privrl.accounting.targets import ApproxDP, RenyiDP
from privrl.audit import audit_mechanism
from privrl.costs.dirichlet import DirichletCost
from privrl.costs.noise import LaplaceCost
from privrl.costs.relations import AddRemoveRecord
from privrl.mechanisms import DirichletMechanism, TablesMechanism
from privrl.mechanisms.tables import least_noise_shares

SHAPES = [(1, 2), (2, 3), (2, 10)]
DATA = [np.array([[3.0, 4]]), np.array([[1.0, 1, 1], [2, 2, 0]]), np.arange(20.0).reshape(2, 10)]
NAMES = ["dirichlet", "gaussian", "laplace"]
TARGETS = [RenyiDP(5, 0.1), RenyiDP(2, 8.0), ApproxDP(1.0, 1e-5)]


def calibrated(name="auto", target=TARGETS[0], **more):
    return TablesMechanism.calibrated(target, shapes=SHAPES, n_records=1000, mechanism=name, **more)


@pytest.mark.few(24)
@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("name", [*NAMES, "auto"])
@pytest.mark.parametrize("shares", [None, [1.0, 2.0, 5.0]], ids=["equal", "uneven"])
def test_the_target_is_met_and_never_exceeded(name, target, shares):
    mechanism = calibrated(name, target, shares=shares)
    if isinstance(target, RenyiDP):
        spent, allowed = float(mechanism.cost.rdp(target.order)), target.epsilon
    elif mechanism.mechanism in (
        "dirichlet",
        "laplace",
    ):  # calibrated by the sum of Rényi divergences
        accountant = RdpAccountant()
        for part in mechanism.cost.parts:
            accountant.compose(part)
        spent, allowed = float(accountant.epsilon(target.delta)), target.epsilon
    else:
        spent, allowed = float(mechanism.cost.delta(target.epsilon)), target.delta
    assert spent <= allowed
    assert spent == pytest.approx(allowed, rel=1e-6)
    RdpAccountant(budget=target).compose(mechanism.cost)


def test_gaussian_noise_by_the_closed_form():
    """λ/2 · 2/σ² for each table adds up to ε, and σ² is as one over the share."""
    shares = np.array([1.0, 2.0, 5.0])
    sizes = np.array(calibrated("gaussian", RenyiDP(5, 0.1), shares=shares).sizes)
    np.testing.assert_allclose((5 / sizes**2).sum(), 0.1, rtol=1e-9)
    np.testing.assert_allclose(5 / sizes**2, 0.1 * shares / shares.sum(), rtol=1e-9)


def test_gaussian_noise_meets_delta_exactly():
    """By the profile of one Gaussian of all tables (Balle and Wang, 2018)."""
    sizes = np.array(calibrated("gaussian", ApproxDP(1.0, 1e-5)).sizes)
    mu = math.sqrt((2 / sizes**2).sum())
    delta = norm.cdf(mu / 2 - 1 / mu) - math.e * norm.cdf(-mu / 2 - 1 / mu)
    assert delta == pytest.approx(1e-5, rel=1e-6)


def test_laplace_noise_by_the_closed_form():
    """Mironov (2017), Proposition 6, for two cells of each table."""
    sizes, order = np.array(calibrated("laplace", RenyiDP(5, 0.1)).sizes), 5.0
    moment = order / (2 * order - 1) * np.exp((order - 1) / sizes)
    moment += (order - 1) / (2 * order - 1) * np.exp(-order / sizes)
    assert (2 * np.log(moment) / (order - 1)).sum() == pytest.approx(0.1, rel=1e-9)


def test_a_drawn_table_costs_what_its_release_does():
    mechanism = calibrated("dirichlet", shares=[1.0, 2.0, 5.0])
    each = [
        DirichletCost(weight=size, alpha=mechanism.alpha, relation=mechanism.relation).rdp(5.0)
        for size in mechanism.sizes
    ]
    assert float(mechanism.cost.rdp(5.0)) == pytest.approx(sum(map(float, each)))


def test_a_given_prior_is_kept():
    mechanism = calibrated("dirichlet", alpha=3.0)
    assert mechanism.alpha == 3.0
    assert float(mechanism.cost.rdp(5.0)) == pytest.approx(0.1, rel=1e-9)


def test_the_designed_prior_is_about_the_best():
    """The expected divergence of neighbouring priors, by simulation of uniform histograms."""
    shapes = [(1, 5)] * 3

    def loss(mechanism):
        rng = np.random.default_rng(0)
        counts = rng.multinomial(100, rng.dirichlet(np.ones(5), 4000))
        truth = counts / 100
        draws = DirichletMechanism(weight=mechanism.sizes[0], alpha=mechanism.alpha).release(
            counts, rng
        )
        return -(truth * np.log(draws)).sum(1).mean()

    best, low, high = (
        TablesMechanism.calibrated(
            RenyiDP(2, 3.0), shapes=shapes, n_records=100, mechanism="dirichlet", alpha=alpha
        )
        for alpha in (None, 0.3, 30.0)
    )
    assert loss(best) < min(loss(low), loss(high)) - 0.02


def test_algorithm_1_is_the_paper_s_for_every_table():
    mechanism = TablesMechanism.algorithm_1(RenyiDP(5, 1.0), shapes=SHAPES)
    one = DirichletMechanism.algorithm_1(RenyiDP(5, 1.0), count=3)
    assert mechanism.sizes == (one.weight,) * 3
    assert mechanism.alpha == one.alpha == pytest.approx(1 + 4 * 4 * one.weight)
    assert float(mechanism.cost.rdp(5.0)) < 3 * float(one.cost.rdp(5.0)) <= 1.0


@pytest.mark.parametrize(
    "target", [RenyiDP(5, 0.1), RenyiDP(1.5, 50.0), ApproxDP(1.0, 1e-5)], ids=str
)
def test_auto_takes_the_noise_of_the_smaller_variance(target):
    auto, *both = (
        TablesMechanism.calibrated(target, shapes=[(1, 2)], n_records=10, mechanism=name)
        for name in ("auto", "gaussian", "laplace")
    )
    assert auto.deviations[0] == pytest.approx(min(noise.deviations[0] for noise in both))
    assert auto.mechanism == min(both, key=lambda noise: noise.deviations[0]).mechanism


@pytest.mark.few(2)
@pytest.mark.parametrize("target", [ApproxDP(1, 1e-9), ApproxDP(4, 1e-5)], ids=str)
def test_laplace_noise_is_left_out_where_it_is_larger_alone(target):
    """A look at one order of one table's noise decides as working out both does."""
    found = set()
    for many in (1, 2, 4, 6, 16):
        shapes, shares = [(1, 2)] * many, np.arange(1.0, many + 1)
        auto, *both = (
            TablesMechanism.calibrated(
                target, shapes=shapes, n_records=10, mechanism=name, shares=shares
            )
            for name in ("auto", "gaussian", "laplace")
        )
        assert auto.mechanism == min(both, key=lambda noise: noise.deviations[0]).mechanism
        found.add(auto.mechanism)
    assert found == {"gaussian", "laplace"}


def test_auto_takes_either():
    """A Laplace for one table and a large epsilon, a Gaussian for many."""
    few = TablesMechanism.calibrated(RenyiDP(1.5, 50.0), shapes=[(1, 2)], n_records=10)
    many = TablesMechanism.calibrated(RenyiDP(1.5, 50.0), shapes=[(1, 2)] * 100, n_records=10)
    assert (few.mechanism, many.mechanism) == ("laplace", "gaussian")


def test_shares_with_the_least_variance():
    """Against a numerical minimum of the sum over cells, at the same joint cost."""
    cells = np.array([2.0, 6, 20])

    def variance(logs):
        shares = np.exp(logs) / np.exp(logs).sum()
        return (cells / shares).sum()

    found = minimize(variance, np.zeros(3), tol=1e-12)
    best = np.exp(found.x) / np.exp(found.x).sum()
    np.testing.assert_allclose(least_noise_shares(SHAPES), best, rtol=1e-4)


@pytest.mark.few(12)
@pytest.mark.parametrize("name", [*NAMES, "none"])
def test_released_tables_have_the_declared_shapes(name):
    mechanism = calibrated(name)
    accountant = RdpAccountant()
    tables = mechanism.release(DATA, np.random.default_rng(0), accountant=accountant)
    assert [table.values.shape for table in tables] == SHAPES
    assert {table.mechanism for table in tables} == {name}
    np.testing.assert_allclose(accountant.rdp, mechanism.cost.rdp(accountant.orders), rtol=1e-14)
    if name == "dirichlet":
        for table in tables:
            np.testing.assert_allclose(table.values.sum(1), 1)
    if name == "none":
        np.testing.assert_array_equal(tables[2].values, DATA[2])
        assert np.isinf(accountant.rdp).all()


@pytest.mark.parametrize("name", ["gaussian", "laplace"])
def test_noise_has_the_stated_deviation(name):
    """20,000 cells of each table: within 5 standard errors, a false alarm once in a million."""
    mechanism = TablesMechanism(shapes=[(2000, 10)] * 2, mechanism=name, sizes=(1.0, 7.0))
    data = [np.full((2000, 10), 5.0)] * 2
    for table in mechanism.release(data, np.random.default_rng(0)):
        kurtosis = 3 if name == "gaussian" else 6
        error = table.deviation**2 * math.sqrt((kurtosis - 1) / 20_000)
        assert abs((table.values - 5).var() - table.deviation**2) < 5 * error


def test_parts_cost_together_what_the_whole_does():
    laplace = calibrated("laplace", shares=[1.0, 2.0, 5.0])
    parts = laplace.part(slice(1)), laplace.part(slice(1, None))
    assert [part.shapes for part in parts] == [((1, 2),), ((2, 3), (2, 10))]
    summed = sum(float(part.cost.rdp(3.0)) for part in parts)
    assert summed == pytest.approx(float(laplace.cost.rdp(3.0)))
    gaussian = calibrated("gaussian", shares=[1.0, 2.0, 5.0])
    halves = [gaussian.part(slice(2)).cost.sigma, gaussian.part(slice(2, None)).cost.sigma]
    assert sum(s**-2 for s in halves) == pytest.approx(gaussian.cost.sigma**-2)


def test_is_immutable_data():
    mechanism = calibrated("gaussian")
    assert copy.deepcopy(mechanism) == mechanism == pickle.loads(pickle.dumps(mechanism))
    assert hash(mechanism) == hash(copy.deepcopy(mechanism))


@pytest.mark.few(9)
@pytest.mark.parametrize("name", NAMES)
def test_same_seed_same_release_and_data_are_left_alone(name):
    before = [table.copy() for table in DATA]
    first, second, third = (
        calibrated(name).release(DATA, np.random.default_rng(seed)) for seed in (7, 7, 8)
    )
    for one, two, three in zip(first, second, third, strict=True):
        np.testing.assert_array_equal(one.values, two.values)
        assert not np.array_equal(one.values, three.values)
    for table, copied in zip(DATA, before, strict=True):
        np.testing.assert_array_equal(table, copied)


def test_a_text_is_no_generator():
    accountant = RdpAccountant()
    with pytest.raises(ValueError, match=r"rng must be a numpy\.random\.Generator, .* got '3'"):
        calibrated().release(DATA, "3", accountant=accountant)
    assert accountant.relation is None


@pytest.mark.few(9)
@pytest.mark.parametrize("name", NAMES)
def test_over_budget_nothing_is_drawn_or_spent(name):
    rng = np.random.default_rng(0)
    state = rng.bit_generator.state
    poor = RdpAccountant(budget=RenyiDP(5, 0.099))
    with pytest.raises(BudgetExceeded):
        calibrated(name).release(DATA, rng, accountant=poor)
    assert rng.bit_generator.state == state
    assert not poor.rdp.any()


def _spoiled(value):
    tables = [table.copy() for table in DATA]
    tables[1][0, 1] = value
    return tables


@pytest.mark.few(30)
@pytest.mark.parametrize("name", [*NAMES, "none"])
@pytest.mark.parametrize(
    "data",
    [_spoiled(np.nan), _spoiled(-1.0), _spoiled(np.inf), DATA[:2], 3, [*DATA[:2], DATA[1]], [DATA]],
    ids=["nan", "negative", "infinite", "too few", "number", "shape", "nested"],
)
def test_ugly_data_are_refused_and_cost_nothing(name, data):
    accountant = RdpAccountant()
    with pytest.raises(ValueError, match="data"):
        calibrated(name).release(data, np.random.default_rng(0), accountant=accountant)
    assert accountant.relation is None


@pytest.mark.parametrize("name", ["gaussian", "laplace"])
def test_counts_too_large_for_noise_are_refused_before_anything_is_spent(name):
    accountant = RdpAccountant()
    with pytest.raises(ValueError, match="2\\*\\*53") as caught:
        calibrated(name).release(_spoiled(1e17), np.random.default_rng(0), accountant=accountant)
    assert "1e+17" not in str(caught.value)
    assert accountant.relation is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shapes": []}, "at least one table"),
        ({"shapes": [(1, 1)]}, "shapes must be a whole number >= 2"),
        ({"shapes": [(0, 2)]}, "shapes must be a whole number >= 1"),
        ({"n_records": 0}, "n_records must be"),
        ({"mechanism": "exact"}, "mechanism must be one of"),
        ({"shares": [1.0]}, "shares must be 3 numbers"),
        ({"shares": [1.0, 0.0, 1.0]}, "shares must be 3 numbers"),
        ({"shares": [1.0, math.nan, 1.0]}, "shares must be 3 numbers"),
        ({"alpha": 1.0}, "alpha is the prior of Dirichlet draws"),
        ({"alpha": 0.0, "mechanism": "dirichlet"}, "alpha must be"),
        ({"target": 1.0}, "target must be"),
    ],
)
def test_bad_arguments_of_calibrated(change, message):
    arguments = {"target": RenyiDP(5, 0.1), "shapes": SHAPES, "n_records": 10} | change
    with pytest.raises(ValueError, match=message):
        TablesMechanism.calibrated(arguments.pop("target"), **arguments)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mechanism": "auto"}, "mechanism must be one of"),
        ({"sizes": (1.0,)}, "sizes must hold 3"),
        ({"sizes": (1.0, 1.0, -1.0)}, "sizes must be a number"),
        ({"mechanism": "none"}, "sizes must hold 0"),
    ],
)
def test_bad_fields(change, message):
    fields = {"shapes": SHAPES, "mechanism": "gaussian", "sizes": (1.0, 1.0, 1.0)} | change
    with pytest.raises(ValueError, match=message):
        TablesMechanism(**fields)


def test_other_relations():
    mechanism = calibrated("laplace", relation=AddRemoveRecord())
    assert mechanism.cost.relation == AddRemoveRecord()
    one = LaplaceCost(scale=mechanism.sizes[0], relation=AddRemoveRecord())
    assert 3 * float(one.rdp(5.0)) == pytest.approx(0.1, rel=1e-9)


@pytest.mark.few(6)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("broken", [False, True], ids=["sound", "paid for one table"])
def test_audit_of_two_tables(name, broken):
    """100,000 draws at delta 0.01, as so many rows; a false alarm once in 10,000 runs of each.

    The broken variant claims what a single one of the tables costs.
    """
    sizes = {"dirichlet": 1.0, "gaussian": 2.0, "laplace": 2.0}
    one = TablesMechanism(shapes=[(1, 2)] * 2, mechanism=name, sizes=(sizes[name],) * 2, alpha=5.0)
    claim = one.part(slice(1)).cost if broken else one.cost

    def run(data, rng):
        rows = [(len(data), 2)] * 2
        many = TablesMechanism(shapes=rows, mechanism=name, sizes=one.sizes, alpha=one.alpha)
        tables = many.release([data[:, :2], data[:, 2:]], rng)
        return np.hstack([table.values for table in tables])

    result = audit_mechanism(
        run,
        [1, 0, 0, 1],
        [0, 1, 1, 0],
        np.random.default_rng(1),
        claimed=float(claim.epsilon(0.01)),
        draws=100_000,
        confidence=0.9999,
        batched=True,
    )
    assert result.violated == broken
    assert result.epsilon_lower >= 0.7 * float(one.cost.epsilon(0.01))
