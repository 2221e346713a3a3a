"""Privacy profile delta(epsilon) of a Dirichlet release against densities and many digits."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle_mpmath import (
    converted_delta,
    converted_epsilon,
    down_delta,
    dps_divergence,
    gamma_delta_by_integration,
    pair_delta,
    pair_delta_by_integration,
    up_delta,
)
from scipy import special

from privrl.costs import relations
from privrl.costs.dirichlet import DirichletCost

EPSILONS = [0.0, 1e-4, 0.1, 1.0, 3.0, 20.0, 150.0, 699.0]
GAIN = relations.Relation("add one record, never remove one", {"counts": [(1,)]})
LOSS = relations.Relation("remove one record, never add one", {"counts": [(-1,)]})
PAIR = relations.ReplaceRecord()
SMALLEST = 1e-300


def pair(weight: float, alpha: float) -> DirichletCost:
    return DirichletCost(weight=weight, alpha=alpha, relation=PAIR)


# The oracle itself --------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "shift", "alpha"),
    [(0, 1, 5), (1, 1, 5), (3, 0.25, 10), (50, 1, 5), (700, 2, 2**-7), (0.5, 1, 100)],
)
def test_oracle_agrees_with_the_integral_of_densities(
    epsilon: float, shift: float, alpha: float
) -> None:
    def same(closed, integral) -> None:
        assert float(integral / closed) == pytest.approx(1, rel=1e-12)

    here = {"shift": shift, "alpha": alpha}
    same(pair_delta(epsilon, **here), pair_delta_by_integration(epsilon, **here, digits=20))
    lost = gamma_delta_by_integration(epsilon, shape=alpha, other=alpha + shift, digits=20)
    same(down_delta(epsilon, **here), lost)
    if epsilon / shift < 4:
        gained = gamma_delta_by_integration(epsilon, shape=alpha + shift, other=alpha, digits=20)
        same(up_delta(epsilon, **here), gained)


# The library against the oracle ----------------------------------------------------------------


@pytest.mark.few(32)
@pytest.mark.parametrize("alpha", [1e-3, 0.1, 1.0, 5.0, 60.0, 2e3])
@pytest.mark.parametrize("weight", [1e-3, 0.05, 1.0, 7.3, 100.0])
def test_pair_matches_many_digits(weight: float, alpha: float) -> None:
    exact = np.array([float(pair_delta(e, shift=weight, alpha=alpha, digits=35)) for e in EPSILONS])
    kept = exact >= SMALLEST
    got = pair(weight, alpha).delta(np.array(EPSILONS))
    np.testing.assert_allclose(got[kept], exact[kept], rtol=1e-10, atol=0)
    assert np.all(got[~kept] <= SMALLEST)


@pytest.mark.few(2)
@pytest.mark.parametrize(("epsilon", "weight", "alpha"), [(0.0, 3.0, 1e5), (0.3, 50.0, 1e6)])
def test_pair_matches_at_huge_priors(epsilon: float, weight: float, alpha: float) -> None:
    exact = float(pair_delta(epsilon, shift=weight, alpha=alpha, digits=30))
    assert float(pair(weight, alpha).delta(epsilon)) == pytest.approx(exact, rel=1e-10, abs=0)


@pytest.mark.few(9)
@pytest.mark.parametrize(
    ("weight", "alpha", "deltas"),
    [
        (1.0, 5.0, (1e-5, 1e-20, 1e-100, 1e-250, 1e-299)),
        (0.2, 10.0, (1e-5, 1e-60, 1e-299)),
        (3.0, 0.5, (1e-5, 1e-60, 1e-299)),
    ],
)
def test_deltas_down_to_the_smallest_floats(
    weight: float, alpha: float, deltas: tuple[float, ...]
) -> None:
    for delta in deltas:
        epsilon = float(pair(weight, alpha).epsilon(delta))
        exact = float(pair_delta(epsilon, shift=weight, alpha=alpha))
        assert exact == pytest.approx(delta, rel=1e-8, abs=0)
        assert float(pair(weight, alpha).delta(epsilon)) == pytest.approx(exact, rel=1e-10, abs=0)


@pytest.mark.few(12)
@pytest.mark.parametrize("alpha", [1e-3, 0.5, 5.0, 200.0])
@pytest.mark.parametrize("weight", [0.05, 1.0, 7.3])
def test_one_cell_matches_many_digits(weight: float, alpha: float) -> None:
    for relation, oracle in ((GAIN, up_delta), (LOSS, down_delta)):
        cost = DirichletCost(weight=weight, alpha=alpha, relation=relation)
        for epsilon in EPSILONS:
            exact = float(oracle(epsilon, shift=weight, alpha=alpha))
            got = float(cost.delta(epsilon))
            if exact >= SMALLEST:
                assert got == pytest.approx(exact, rel=1e-10, abs=0), (relation.name, epsilon)
            else:
                assert got <= SMALLEST


def test_a_gain_has_a_doubly_exponential_tail() -> None:
    cost = DirichletCost(weight=1, alpha=5, relation=GAIN)
    epsilons = np.array([1.5, 2.0, 3.0, 4.0, 4.8])
    exact = [float(up_delta(e, shift=1, alpha=5)) for e in epsilons]
    assert exact[-1] < 1e-200
    np.testing.assert_allclose(cost.delta(epsilons), exact, rtol=1e-10, atol=0)


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 2.0])
def test_add_remove_is_the_worse_of_gain_and_loss(epsilon: float) -> None:
    cost = DirichletCost(weight=0.7, alpha=1.3, relation=relations.AddRemoveRecord())
    worse = max(oracle(epsilon, shift=0.7, alpha=1.3) for oracle in (up_delta, down_delta))
    assert float(cost.delta(epsilon)) == pytest.approx(float(worse), rel=1e-11)


def test_delta_at_zero_is_the_total_variation_distance() -> None:
    mass = float(special.betainc(6, 5, 0.5))  # of Beta(a + s, a) below one half
    assert float(pair(1, 5).delta(0.0)) == pytest.approx(1 - 2 * mass, rel=1e-12)


# Printed numbers ---------------------------------------------------------------------------------


def test_printed_epsilons() -> None:
    paper = DirichletCost(weight=1, alpha=5, relation=PAIR, bound="dps")
    assert float(pair(1, 5).epsilon(1e-5)) == pytest.approx(2.97193, abs=5e-6)
    assert float(paper.epsilon(1e-5)) == pytest.approx(5.46, abs=5e-3)


def test_average_of_a_hundred_vectors() -> None:
    """k = 24, N = 100, eta = 0.05, b = 1: two cells move by k b / (2 N)."""
    k, n, eta = 24, 100, 0.05
    cost = DirichletCost(weight=k / (2 * n), alpha=k * eta, relation=PAIR)
    assert float(cost.epsilon(0.05)) == pytest.approx(0.0508, abs=5e-5)
    assert float(cost.delta(1.18)) == pytest.approx(9.3e-7, rel=0.01)


@pytest.mark.few(3)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_the_papers_delta_is_minimised_over_the_order(epsilon: float) -> None:
    cost = DirichletCost(weight=1, alpha=5, relation=PAIR, bound="dps")
    orders = np.linspace(1.001, 5.999, 4000)
    dense = min(
        float(converted_delta(rdp, order, epsilon, digits=20))
        for order, rdp in zip(orders, cost.rdp(orders), strict=True)
    )
    got = float(cost.delta(epsilon))
    assert got <= min(dense, 1) * (1 + 1e-9)
    assert got == pytest.approx(min(dense, 1), rel=1e-4)


@pytest.mark.slow
def test_the_papers_delta_uses_the_papers_divergence() -> None:
    cost = DirichletCost(weight=1, alpha=5, relation=PAIR, bound="dps")
    epsilon = float(cost.epsilon(1e-5))
    best = min(
        converted_epsilon(
            dps_divergence([(1, -1)], x, weight=1, alpha=5, digits=20), x, 1e-5, digits=20
        )
        for x in np.linspace(2, 5.9, 800)
    )
    assert epsilon == pytest.approx(float(best), rel=1e-5)


# Longer change vectors: an upper bound (see also test_delta_of_many_cells.py) ---------------


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0, 8.0])
@pytest.mark.parametrize(
    "relation", [relations.ReplaceStep(), relations.ReplaceEpisode(3)], ids=repr
)
def test_upper_bound_is_no_worse_than_any_order(
    relation: relations.Relation, epsilon: float
) -> None:
    cost = DirichletCost(weight=0.5, alpha=4, relation=relation)
    orders = np.linspace(1.02, 20, 2000)
    rdp = cost.rdp(orders)
    finite = np.isfinite(rdp)
    dense = min(
        float(converted_delta(*point, epsilon, digits=20))
        for point in zip(rdp[finite], orders[finite], strict=True)
    )
    assert float(cost.delta(epsilon)) <= min(1, dense) * (1 + 1e-9)


# Shape, order, inverse ---------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (3,), (2, 2)])
@pytest.mark.parametrize(
    "relation", [PAIR, relations.AddRemoveRecord(), relations.ReplaceStep()], ids=repr
)
def test_delta_keeps_the_shape_of_epsilon(
    relation: relations.Relation, shape: tuple[int, ...]
) -> None:
    cost = DirichletCost(weight=0.5, alpha=3, relation=relation)
    epsilons = np.linspace(0, 2, math.prod(shape)).reshape(shape)
    values = cost.delta(epsilons)
    assert np.shape(values) == shape
    for got, epsilon in zip(np.ravel(values), np.ravel(epsilons), strict=True):
        assert got == pytest.approx(float(cost.delta(epsilon)), rel=1e-12)


logs = st.floats(-4, 5).map(math.exp)
simple = st.sampled_from([PAIR, relations.AddRemoveRecord()])
examples = settings(max_examples=60)


@pytest.mark.slow
@examples
@given(simple, logs, logs, st.floats(0, 700), st.floats(0, 5))
def test_nonincreasing_in_epsilon(
    relation: relations.Relation, weight: float, alpha: float, epsilon: float, more: float
) -> None:
    cost = DirichletCost(weight=weight, alpha=alpha, relation=relation)
    first, second = cost.delta(np.array([epsilon, epsilon + more]))
    assert 0 <= second <= first * (1 + 1e-12) <= 1 + 1e-12


@pytest.mark.slow
@examples
@given(simple, logs, logs, st.floats(0, 20), st.floats(1.001, 3))
def test_more_weight_costs_more_and_more_prior_less(
    relation: relations.Relation, weight: float, alpha: float, epsilon: float, growth: float
) -> None:
    base, louder, safer = (
        float(DirichletCost(weight=r, alpha=a, relation=relation).delta(epsilon))
        for r, a in ((weight, alpha), (weight * growth, alpha), (weight, alpha * growth))
    )
    assert safer <= base * (1 + 1e-10)
    assert base <= louder * (1 + 1e-10)


@pytest.mark.slow
@settings(examples, max_examples=12)
@given(simple, logs, logs, st.floats(-600, -0.01).map(math.exp))
def test_epsilon_inverts_delta_on_the_safe_side(
    relation: relations.Relation, weight: float, alpha: float, delta: float
) -> None:
    cost = DirichletCost(weight=weight, alpha=alpha, relation=relation)
    epsilon = float(cost.epsilon(delta))
    assert float(cost.delta(epsilon)) <= delta
    if epsilon > 0:
        assert float(cost.delta(epsilon * (1 - 1e-7))) > delta * (1 - 1e-8)
