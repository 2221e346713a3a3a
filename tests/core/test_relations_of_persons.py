"""Relations that bound a sum or a norm: which noise they are for, and what spread changes cost."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privrl.accounting.pld import PldAccountant
from privrl.accounting.rdp import RdpAccountant
from privrl.audit.coverage import Change, changes_between, covers
from privrl.costs.dirichlet import DirichletCost
from privrl.costs.noise import DiscreteGaussianCost, DiscreteLaplaceCost, GaussianCost, LaplaceCost
from privrl.costs.relations import NORMS, SUMS, AddRemovePerson, Relation, ReplacePerson

ORDERS = np.array([1.01, 1.5, 2.0, 4.0, 8.0, 64.0])
RELATIONS = [AddRemovePerson(), ReplacePerson()]

of_each = pytest.mark.parametrize("relation", RELATIONS, ids=str)


@pytest.mark.few(6)
@of_each
@pytest.mark.parametrize("table", [SUMS, None])
def test_laplace_noise_is_for_sums(relation: Relation, table: str | None) -> None:
    cost = LaplaceCost(scale=2.0, relation=relation, table=table)
    assert cost.table == SUMS
    most = 2 if isinstance(relation, ReplacePerson) else 1
    assert cost.pure_epsilon == most / 2
    # Delta follows from Rényi divergences, and pure privacy caps epsilon.
    assert cost.dominating_pairs() is None
    assert 0 < cost.delta(most / 4) < 1
    assert cost.delta(most / 2) == 0
    assert cost.epsilon(1e-9) <= most / 2


@of_each
@pytest.mark.parametrize("table", [SUMS, NORMS])
def test_gaussian_noise_is_for_both(relation: Relation, table: str) -> None:
    cost = GaussianCost(sigma=2.0, relation=relation, table=table)
    most = 2 if isinstance(relation, ReplacePerson) else 1
    np.testing.assert_allclose(cost.rdp(ORDERS), ORDERS * most**2 / 8)


@of_each
@pytest.mark.parametrize(
    "make",
    [
        lambda **given: DirichletCost(weight=1.0, alpha=1.0, **given),
        lambda **given: DiscreteGaussianCost(sigma=1.0, **given),
    ],
    ids=["dirichlet", "discrete gaussian"],
)
def test_other_noise_is_refused(relation: Relation, make: Any) -> None:
    for table, what in ((SUMS, "sum"), (None, "sum"), (NORMS, "norm")):
        with pytest.raises(ValueError, match=f"bounds only the {what} of a change"):
            make(relation=relation, table=table)


def test_discrete_laplace_noise_is_for_whole_sums() -> None:
    """All in one cell is the dearest way, whatever the signs."""
    for most in (2, 5):
        relation = Relation("sums", {SUMS: [(most,)]}, sum_only=[SUMS])
        for scale in (0.3, 1.0, 9.0):
            listed = DiscreteLaplaceCost(scale=scale, relation=relation).rdp(ORDERS)
            for vector in ((1,) * most, (1,) * (most - 2) + (-2,), (most - 1, -1)):
                spread = Relation("spread", {"cells": [vector]})
                found = DiscreteLaplaceCost(scale=scale, relation=spread).rdp(ORDERS)
                assert (found <= listed * (1 + 1e-11)).all()


def test_a_sum_is_one_amount() -> None:
    """Of several, each was paid for by itself, while all of it may be in one cell."""
    for vector in ((1, -1), (1, 1, 1)):
        with pytest.raises(ValueError, match="which is in sum_only, must have one amount"):
            Relation("sums", {"counts": [vector]}, sum_only=["counts"])


@pytest.mark.parametrize("argument", ["norm_only", "sum_only"])
@pytest.mark.parametrize("names", ["counts", ["count"], [("counts",)]])
def test_bounds_are_of_tables_that_there_are(argument: str, names: Any) -> None:
    """One text was read as its letters: a bound on a norm was paid for cell by cell."""
    with pytest.raises(ValueError, match=f"{argument} must be a collection of names of tables"):
        Relation("bounded", {"counts": [(2,), (-2,)]}, **{argument: names})


def test_arrival_is_covered_or_not() -> None:
    with pytest.raises(ValueError, match="covers_arrival must be True or False"):
        Relation("some", {"counts": [(1,)]}, covers_arrival="no")  # type: ignore[arg-type]


@of_each
def test_laplace_noise_is_not_for_norms(relation: Relation) -> None:
    with pytest.raises(ValueError, match="the norm of a change; use Gaussian"):
        LaplaceCost(scale=1.0, relation=relation, table=NORMS)


@pytest.mark.slow
@given(
    amounts=st.lists(st.floats(-1, 1).filter(lambda a: abs(a) > 1e-6), min_size=1, max_size=6),
    scale=st.sampled_from([0.05, 0.3, 1.0, 20.0]),
    most=st.sampled_from([1, 2]),
)
def test_spread_changes_cost_no_more(amounts: list[float], scale: float, most: int) -> None:
    """Whatever the signs and however many cells, if sizes sum to what is listed."""
    total = sum(map(abs, amounts))
    spread = Relation("spread", {"cells": [tuple(most * a / total for a in amounts)]})
    listed = RELATIONS[most - 1]
    one = LaplaceCost(scale=scale, relation=spread)
    other = LaplaceCost(scale=scale, relation=listed)
    assert (one.rdp(ORDERS) <= other.rdp(ORDERS) * (1 + 1e-11)).all()
    assert one.pure_epsilon <= other.pure_epsilon * (1 + 1e-12)
    norms = GaussianCost(sigma=scale, relation=spread)
    of_sums = GaussianCost(sigma=scale, relation=listed, table=SUMS)
    assert (norms.rdp(ORDERS) <= of_sums.rdp(ORDERS) * (1 + 1e-11)).all()


@pytest.mark.parametrize("scale", [0.2, 1.0, 5.0])
def test_laplace_divergence_in_closed_form(scale: float) -> None:
    """Mironov (2017), table II, at the listed change."""
    shift = 1 / scale
    wanted = np.log(
        ORDERS / (2 * ORDERS - 1) * np.exp((ORDERS - 1) * shift)
        + (ORDERS - 1) / (2 * ORDERS - 1) * np.exp(-ORDERS * shift)
    ) / (ORDERS - 1)
    cost = LaplaceCost(scale=scale, relation=AddRemovePerson())
    np.testing.assert_allclose(cost.rdp(ORDERS), wanted, rtol=1e-9)


@of_each
@pytest.mark.parametrize("accountant", [RdpAccountant, PldAccountant])
def test_accountants_take_them(relation: Relation, accountant: Any) -> None:
    told = accountant()
    cost = LaplaceCost(scale=4.0, relation=relation)
    told.compose(cost)
    assert 0 < told.epsilon(1e-6) <= cost.pure_epsilon * (1 + 1e-6)


def changes(*amounts: float) -> list[Change]:
    return [Change(0, Fraction(amount), Fraction(amount) ** 2) for amount in amounts]


@of_each
def test_what_is_covered(relation: Relation) -> None:
    most = 2.0 if isinstance(relation, ReplacePerson) else 1.0
    sums = LaplaceCost(scale=1.0, relation=relation, table=SUMS)
    norms = GaussianCost(sigma=1.0, relation=relation, table=NORMS)
    for cost in (sums, norms):
        assert covers(cost, [])
        assert covers(cost, changes(most))
        assert covers(cost, changes(-most))
        assert covers(cost, changes(most / 2, -most / 2))
        assert not covers(cost, changes(most * 1.001))
        assert not covers(cost, changes(-most, 0.1 * most))
        assert not covers(cost, changes(*[most / 2] * 5))
    assert not covers(sums, changes(most / 2, -most / 2, most / 64))
    for quarters in ([most / 2] * 4, [most / 2, -most / 2] * 2):
        assert covers(norms, changes(*quarters))
        assert not covers(sums, changes(*quarters))


def test_changes_are_summed_exactly() -> None:
    """A grain more than a budget is seen where it is a grain of many."""
    cost = LaplaceCost(scale=1.0, relation=AddRemovePerson(), table=SUMS)
    grain = 2.0**-24
    table = np.zeros(2**10)
    full = np.full(2**10, 2.0**-10)
    assert covers(cost, list(changes_between(table, full)))
    full[3] += grain
    assert not covers(cost, list(changes_between(table, full)))


@of_each
def test_relations_are_equal_and_speak(relation: Relation) -> None:
    assert relation in (AddRemovePerson(), ReplacePerson())
    assert "one person" in str(relation)
    assert relation.sum_only == {SUMS}
    assert relation.norm_only == {NORMS}
