"""Rényi divergence of a Dirichlet release against densities and 80 digits."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle_mpmath import (
    change_divergence,
    dps_divergence,
    gamma_divergence,
    gamma_divergence_by_integration,
    pair_divergence_by_integration,
    pair_kl,
    relation_divergence,
)

from privrl.costs.dirichlet import DirichletCost
from privrl.costs.relations import (
    AddRemoveRecord,
    Relation,
    ReplaceEpisode,
    ReplaceRecord,
    ReplaceStep,
    ReplaceTransition,
)

ALPHAS = [1e-3, 0.07, 0.5, 1.0, 3.46, 20.0, 1e3, 1e5, 1e7]
SCALES = [1e-6, 1e-3, 0.2, 1.0, 7.3, 1e3]
ORDERS = [1.0001, 1.01, 1.5, 2.0, 5.5, 32.0, 1e3, 1e5]
RELATIONS = [ReplaceRecord(), AddRemoveRecord(), ReplaceStep(), ReplaceEpisode(3)]


def steepest_fall(relation: Relation) -> float:
    return max(-m for change in relation.changes() for m in change)


# The oracle itself ---------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "other", "order"),
    [(3.0, 2.0, 2.5), (2.0, 3.0, 2.5), (0.02, 0.03, 2.5), (0.5, 7.0, 1.05), (40.0, 38.0, 9.0)],
)
def test_closed_form_of_the_oracle_is_the_integral_of_densities(
    shape: float, other: float, order: float
) -> None:
    integral = gamma_divergence_by_integration(shape, other, order, digits=25)
    assert float(integral / gamma_divergence(shape, other, order)) == pytest.approx(1, rel=1e-13)


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("order", "shift", "alpha"), [(2.0, 1.0, 3.46), (1.3, 2.0, 0.7), (6.0, 0.25, 11.0)]
)
def test_two_gammas_are_worth_one_beta_pair(order: float, shift: float, alpha: float) -> None:
    integral = pair_divergence_by_integration(order, shift=shift, alpha=alpha, digits=25)
    closed = change_divergence((1, -1), order, weight=shift, alpha=alpha)
    assert float(integral / closed) == pytest.approx(1, rel=1e-13)


# The library against the oracle -----------------------------------------------------------


ALLOWED = [(a, r) for a in ALPHAS for r in RELATIONS if a >= (r.convex_from or 0)]


@pytest.mark.few(12)
@pytest.mark.parametrize(("alpha", "relation"), ALLOWED, ids=repr)
def test_rdp_matches_eighty_digits(alpha: float, relation: Relation) -> None:
    changes = relation.changes()
    for weight in SCALES:
        limit = 1 + 0.999 * alpha / (weight * steepest_fall(relation))
        orders = [order for order in ORDERS if order < limit]
        if not orders:
            continue
        cost = DirichletCost(weight=weight, alpha=alpha, relation=relation)
        expected = [
            float(relation_divergence(changes, x, weight=weight, alpha=alpha)) for x in orders
        ]
        np.testing.assert_allclose(
            cost.rdp(np.array(orders)), expected, rtol=1e-10, atol=0, err_msg=f"{weight=}"
        )


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("alpha", [1e-3, 1.0, 1e4])
def test_gains_alone_are_finite_at_every_order(alpha: float, order: float) -> None:
    gain = Relation("add one record, never remove one", {"counts": [(1,)]})
    for weight in SCALES:
        cost = DirichletCost(weight=weight, alpha=alpha, relation=gain)
        expected = float(change_divergence((1,), order, weight=weight, alpha=alpha))
        assert float(cost.rdp(order)) == pytest.approx(expected, rel=1e-10, abs=0)


def test_change_vectors_of_the_users_own_relation() -> None:
    mine = Relation("half a record", {"counts": [(0.5, -0.25, -0.25), (-0.5, 0.25, 0.25)]})
    cost = DirichletCost(weight=0.7, alpha=2.2, relation=mine)
    expected = float(relation_divergence(mine.changes(), 3.0, weight=0.7, alpha=2.2))
    assert float(cost.rdp(3.0)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("alpha", [0.01, 1.0, 300.0])
def test_low_orders_approach_the_kl_divergence(alpha: float) -> None:
    cost = DirichletCost(weight=0.3, alpha=alpha, relation=ReplaceRecord())
    limit = float(pair_kl(shift=0.3, alpha=alpha))
    distances = np.abs(cost.rdp(np.array([1 + 1e-3, 1 + 1e-4, 1 + 1e-5])) / limit - 1)
    assert distances[2] < 2e-4
    np.testing.assert_allclose(distances[:2] / distances[1:], 10, rtol=0.15)


# Numbers printed in the design and in the papers ---------------------------------------------


def test_printed_numbers() -> None:
    exact = DirichletCost(weight=1, alpha=3.46, relation=ReplaceRecord())
    paper = DirichletCost(weight=1, alpha=3.46, relation=ReplaceRecord(), bound="dps")
    assert float(exact.rdp(2.0)) == pytest.approx(0.594987, abs=5e-7)
    assert float(paper.rdp(2.0)) == pytest.approx(0.99998, abs=5e-6)


# Where it is infinite -------------------------------------------------------------------------


@pytest.mark.parametrize(("alpha", "weight"), [(4.0, 2.0), (0.5, 1.0), (3.0, 0.25), (1024.0, 1.0)])
@pytest.mark.parametrize("bound", ["exact", "dps"])
@pytest.mark.parametrize("relation", RELATIONS, ids=repr)
def test_infinite_from_one_plus_alpha_over_shift(
    relation: Relation, bound: str, alpha: float, weight: float
) -> None:
    cost = DirichletCost(weight=weight, alpha=alpha, relation=relation, bound=bound)
    span = alpha / (weight * steepest_fall(relation))
    last = 1 + span
    orders = np.array([1 + span * (1 - 1e-6), last, np.nextafter(last, np.inf), last + 1, 1e9])
    if isinstance(relation, ReplaceEpisode):  # 1 + alpha / 3 is no binary fraction
        orders[1] = last * (1 + 1e-15)
    assert np.array_equal(np.isinf(cost.rdp(orders)), [False, True, True, True, True])


# Shape and order ------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (1,), (4,), (2, 3)])
@pytest.mark.parametrize("bound", ["exact", "dps"])
def test_shape_follows_orders(shape: tuple[int, ...], bound: str) -> None:
    cost = DirichletCost(weight=1, alpha=9, relation=ReplaceStep(), bound=bound)
    orders = np.linspace(1.1, 4, math.prod(shape)).reshape(shape)
    values = cost.rdp(orders)
    assert np.shape(values) == shape
    for got, order in zip(np.ravel(values), np.ravel(orders), strict=True):
        assert got == pytest.approx(float(cost.rdp(order)), rel=1e-14)


def test_the_relations_first_table_is_the_default() -> None:
    step = ReplaceStep()
    default = DirichletCost(weight=0.4, alpha=3, relation=step)
    named = DirichletCost(weight=0.4, alpha=3, relation=step, table="transitions")
    rewards = DirichletCost(weight=0.4, alpha=3, relation=step, table="rewards")
    assert float(default.rdp(2.0)) == float(named.rdp(2.0))
    record = DirichletCost(weight=0.4, alpha=3, relation=ReplaceRecord())
    assert float(rewards.rdp(2.0)) == float(record.rdp(2.0))


def test_a_table_that_no_neighbour_changes_costs_nothing() -> None:
    cost = DirichletCost(weight=1, alpha=1, relation=ReplaceTransition(), table="rewards")
    assert np.all(cost.rdp(np.array([1.5, 2.0, 1e6])) == 0)
    assert float(cost.delta(0.0)) == 0
    assert float(cost.epsilon(1e-9)) == 0


# Properties ---------------------------------------------------------------------------------

logs = st.floats(-5, 5).map(math.exp)
relations = st.sampled_from([ReplaceRecord(), AddRemoveRecord(), ReplaceStep(), ReplaceEpisode(4)])
examples = settings(max_examples=100)


@pytest.mark.slow
@examples
@given(relations, logs, logs, st.floats(1.001, 3), st.floats(0.01, 0.99))
def test_more_weight_costs_more_and_more_prior_less(
    relation: Relation, weight: float, alpha: float, growth: float, share: float
) -> None:
    alpha += 0.5
    order = 1 + share * alpha / (weight * steepest_fall(relation))
    for bound in ("exact", "dps"):
        base, louder, safer = (
            float(DirichletCost(weight=r, alpha=a, relation=relation, bound=bound).rdp(order))
            for r, a in ((weight, alpha), (weight * growth, alpha), (weight, alpha * growth))
        )
        assert safer < base < louder


@pytest.mark.slow
@examples
@given(relations, logs, logs, st.floats(0.001, 0.999))
def test_the_papers_bound_lies_above(
    relation: Relation, weight: float, alpha: float, share: float
) -> None:
    alpha += 0.5
    order = 1 + share * alpha / (weight * steepest_fall(relation))
    exact, paper = (
        float(DirichletCost(weight=weight, alpha=alpha, relation=relation, bound=b).rdp(order))
        for b in ("exact", "dps")
    )
    assert 0 < exact <= paper * (1 + 1e-12)


@pytest.mark.slow
@examples
@given(relations, logs, logs, st.floats(0.01, 0.9), st.floats(1e-4, 0.09))
def test_nondecreasing_in_order(
    relation: Relation, weight: float, alpha: float, share: float, more: float
) -> None:
    alpha += 0.5
    span = alpha / (weight * steepest_fall(relation))
    cost = DirichletCost(weight=weight, alpha=alpha, relation=relation)
    low, high = cost.rdp(np.array([1 + share * span, 1 + (share + more) * span]))
    assert low <= high


@pytest.mark.parametrize("relation", RELATIONS, ids=repr)
def test_the_papers_bound_matches_eighty_digits(relation: Relation) -> None:
    for weight, alpha, share in product((1e-3, 0.5, 4.0), (0.5, 3.46, 1e4), (0.01, 0.6, 0.99)):
        order = 1 + share * alpha / (weight * steepest_fall(relation))
        cost = DirichletCost(weight=weight, alpha=alpha, relation=relation, bound="dps")
        expected = dps_divergence(relation.changes(), order, weight=weight, alpha=alpha)
        assert float(cost.rdp(order)) == pytest.approx(float(expected), rel=1e-11)
