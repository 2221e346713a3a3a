"""Composition, conversion and budgets of `RdpAccountant`."""

import math
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pytest
from mpmath import mpf
from oracle_mpmath import converted_delta, converted_epsilon, relation_divergence

from privrl.accounting import Ledger
from privrl.accounting.pld import PldAccountant
from privrl.accounting.rdp import BudgetExceeded, RdpAccountant
from privrl.accounting.targets import ApproxDP, RenyiDP
from privrl.costs import relations, selection
from privrl.costs.base import BatchCost, NoPrivacy, Together
from privrl.costs.dirichlet import DirichletCost
from privrl.costs.noise import GaussianCost
from privrl.mechanisms.dirichlet import DirichletMechanism

RECORD = relations.ReplaceRecord()
RELEASE = DirichletCost(weight=0.2, alpha=10, relation=RECORD)


def spend(cost: DirichletCost, count: int, **options) -> RdpAccountant:
    accountant = RdpAccountant(**options)
    accountant.compose(cost, count)
    return accountant


# Sums -------------------------------------------------------------------------------------------


def test_nothing_is_spent_at_first() -> None:
    accountant = RdpAccountant()
    assert accountant.relation is None
    assert np.all(accountant.rdp == 0)
    assert accountant.rdp.shape == accountant.orders.shape
    assert float(accountant.epsilon(1e-6)) == 0
    assert float(accountant.spent(2.0)) == 0


def test_default_orders_ascend_from_one() -> None:
    orders = RdpAccountant().orders
    assert np.all(np.isfinite(orders))
    assert orders[0] > 1
    assert np.all(np.diff(orders) > 0)
    assert 2.0 in orders


def test_rdp_is_the_exact_sum() -> None:
    step = relations.ReplaceStep()
    releases = [
        (DirichletCost(weight=0.1, alpha=3, relation=step), 3, "transitions"),
        (DirichletCost(weight=0.2, alpha=1, relation=step, table="rewards"), 5, "rewards"),
    ]
    accountant = RdpAccountant(orders=[1.5, 2.0, 4.0])
    for cost, count, _ in releases:
        accountant.compose(cost, count)
    for order, total in zip(accountant.orders, accountant.rdp, strict=True):
        exact = sum(
            count * relation_divergence(step.changes(table), order, weight=r.weight, alpha=r.alpha)
            for r, count, table in releases
        )
        assert total == pytest.approx(float(exact), rel=1e-12)
        assert float(accountant.spent(order)) == pytest.approx(total, rel=1e-14)


def test_many_small_releases_do_not_drift() -> None:
    one_by_one = RdpAccountant(orders=[2.0, 7.0])
    for _ in range(10_000):
        one_by_one.compose(RELEASE)
    at_once = spend(RELEASE, 10_000, orders=[2.0, 7.0])
    np.testing.assert_allclose(one_by_one.rdp, at_once.rdp, rtol=1e-15)


def test_infinite_stays_infinite() -> None:
    accountant = spend(NoPrivacy(RECORD), 2)
    accountant.compose(RELEASE)
    assert np.all(np.isposinf(accountant.rdp))
    assert math.isinf(float(accountant.epsilon(1e-6)))
    assert float(accountant.delta(3.0)) == 1


def test_what_is_returned_cannot_change_the_sum() -> None:
    accountant = spend(RELEASE, 3)
    before = accountant.rdp.copy()
    with suppress(ValueError):  # read-only is as good as a copy
        accountant.rdp[:] = 0
    np.testing.assert_array_equal(accountant.rdp, before)


def test_orders_given_are_copied_and_sorted() -> None:
    given = np.array([8.0, 2.0, 4.0])
    accountant = RdpAccountant(orders=given)
    given[:] = 100
    np.testing.assert_array_equal(accountant.orders, [2, 4, 8])


class InPlace:
    """A cost of somebody's own that computes in the array of orders that it is given."""

    relation = relations.ReplaceRecord()

    def rdp(self, orders):
        orders *= 0.1
        return orders

    def delta(self, epsilon):
        return np.ones_like(epsilon)

    def epsilon(self, delta):
        return np.asarray(np.inf)


def test_no_cost_changes_the_orders() -> None:
    """All costs after it were added up at other orders than they were converted at."""
    accountant = RdpAccountant()
    before = accountant.orders
    with pytest.raises(ValueError, match="read-only"):
        accountant.compose(InPlace())
    np.testing.assert_array_equal(accountant.orders, before)
    assert not accountant.journal


def test_no_part_of_a_cost_moves_the_orders_of_the_next(tmp_path) -> None:
    """In a ledger the second part was entered at a tenth of the orders; trials all share theirs."""
    exact = GaussianCost(sigma=1.0, relation=InPlace.relation)
    book = Ledger(tmp_path / "ledger.sqlite")
    with pytest.raises(ValueError, match="read-only"):
        book.accountant("d").compose(Together([InPlace(), exact]))
    assert book.accounts() == ()
    before = exact.rdp(selection._ORDERS)
    with pytest.raises(ValueError, match="read-only"):
        selection.SelectionCost(trial=InPlace(), trials=3).rdp(2.0)
    np.testing.assert_array_equal(exact.rdp(selection._ORDERS), before)


class Negative(InPlace):
    """A cost of somebody's own that gains privacy."""

    def rdp(self, orders):
        return np.full(np.shape(orders), -5.0)


@pytest.mark.parametrize("made", [
    lambda cost: Together([cost, cost]),
    lambda cost: BatchCost([cost, cost]),
    lambda cost: selection.SelectionCost(trial=cost, trials=1),
])  # fmt: skip
def test_nothing_made_of_costs_lets_one_change_orders_or_state_less_than_none(made) -> None:
    """A selection of one trial stated an epsilon of 0; it and batches moved the caller's orders."""
    orders = np.array([2.0, 3.0])
    with pytest.raises(ValueError, match="read-only"):
        made(InPlace()).rdp(orders)
    np.testing.assert_array_equal(orders, [2, 3])
    with pytest.raises(ValueError, match="must give a Rényi divergence >= 0"):
        made(Negative()).rdp(orders)


class MovesLosses(InPlace):
    """Likewise, of epsilons."""

    def rdp(self, orders):
        return np.full(np.shape(orders), 0.01)

    def delta(self, epsilon):
        epsilon *= 10
        return np.exp(-epsilon)


@pytest.mark.needs("dp_accounting")
def test_no_cost_moves_the_dots_of_its_losses() -> None:
    accountant = PldAccountant()
    accountant.compose(MovesLosses(), 2)
    with pytest.raises(ValueError, match="read-only"):
        accountant.epsilon(1e-5)


def test_an_order_that_is_not_kept_is_refused() -> None:
    with pytest.raises(ValueError, match=r"order.*3\.25"):
        RdpAccountant(orders=[2.0, 4.0]).spent(3.25)


# Conversion ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [0.1, 1e-5, 1e-12])
@pytest.mark.parametrize("count", [2, 65, 3000])
def test_conversion_is_the_formula_at_the_best_order(count: int, delta: float) -> None:
    accountant = spend(RELEASE, count)
    points = [
        (float(rdp), float(order))
        for order, rdp in zip(accountant.orders, accountant.rdp, strict=True)
        if np.isfinite(rdp)
    ]
    best = max(mpf(0), min(converted_epsilon(*p, delta, digits=25) for p in points))
    epsilon = float(accountant.epsilon(delta))
    assert epsilon == pytest.approx(float(best), rel=1e-12)
    least = min(mpf(1), *(converted_delta(*p, epsilon, digits=25) for p in points))
    assert float(accountant.delta(epsilon)) == pytest.approx(float(least), rel=1e-10)
    if epsilon > 0:
        assert float(accountant.delta(epsilon)) == pytest.approx(delta, rel=1e-10)


@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-12])
@pytest.mark.parametrize("count", [2, 65, 3000])
@pytest.mark.parametrize(("weight", "alpha"), [(0.2, 10.0), (0.01, 1.0), (1e-4, 0.1)])
def test_default_orders_are_dense_enough(
    weight: float, alpha: float, count: int, delta: float
) -> None:
    cost = DirichletCost(weight=weight, alpha=alpha, relation=RECORD)
    orders = 1 + np.geomspace(1e-4, 0.9999999 * alpha / weight, 20_000)
    best = np.min(
        count * cost.rdp(orders)
        + np.log(orders - 1)
        - (math.log(delta) + orders * np.log(orders)) / (orders - 1)
    )
    epsilon = float(spend(cost, count).epsilon(delta))
    assert best * (1 - 1e-12) <= epsilon <= max(best * 1.01, 1e-9)


def test_one_release_is_converted_by_its_own_profile() -> None:
    accountant = spend(RELEASE, 1)
    assert float(accountant.epsilon(1e-5)) == pytest.approx(float(RELEASE.epsilon(1e-5)), rel=1e-14)
    assert float(accountant.delta(0.2)) == pytest.approx(float(RELEASE.delta(0.2)), rel=1e-14)
    accountant.compose(RELEASE)
    twice = spend(RELEASE, 2)
    assert float(accountant.epsilon(1e-5)) == pytest.approx(float(twice.epsilon(1e-5)), rel=1e-12)
    assert float(accountant.delta(0.2)) == pytest.approx(float(twice.delta(0.2)), rel=1e-12)


def test_printed_epsilon_of_sixty_five_releases() -> None:
    assert float(spend(RELEASE, 65).epsilon(1e-5)) == pytest.approx(3.34, abs=5e-3)
    paper = DirichletCost(weight=0.2, alpha=10, relation=RECORD, bound="dps")
    assert float(spend(paper, 65).epsilon(1e-5)) == pytest.approx(3.59, abs=5e-3)
    assert float(spend(paper, 65, orders=[2.0]).epsilon(1e-5)) == pytest.approx(10.7, abs=0.05)


def test_epsilon_is_never_negative_nor_delta_above_one() -> None:
    tiny = DirichletCost(weight=1e-9, alpha=1, relation=RECORD)
    assert float(spend(tiny, 1).epsilon(0.5)) == 0
    loud = DirichletCost(weight=100, alpha=1, relation=RECORD)
    assert float(spend(loud, 1000, orders=[1.001]).delta(0.0)) == 1


@pytest.mark.parametrize("count", [1, 10, 100])
def test_rdp_is_never_tighter_than_the_exact_profile(count: int) -> None:
    """Of one release; of many, than the profile of one alone."""
    accountant = spend(RELEASE, count)
    for epsilon in (0.0, 0.3, 1.0):
        assert float(accountant.delta(epsilon)) >= float(RELEASE.delta(epsilon)) * (1 - 1e-12)


# Refusals -----------------------------------------------------------------------------------------


def state(accountant: RdpAccountant) -> tuple[bytes, float, relations.Relation | None]:
    return accountant.rdp.tobytes(), float(accountant.epsilon(1e-6)), accountant.relation


@pytest.mark.parametrize(
    "other",
    [
        relations.AddRemoveRecord(),
        relations.ReplaceStep(),
        relations.ReplaceTransition(),
        relations.ReplaceEpisode(3),
    ],
    ids=repr,
)
def test_another_relation_is_refused(other: relations.Relation) -> None:
    accountant = spend(RELEASE, 2)
    before = state(accountant)
    with pytest.raises(ValueError, match="relation"):
        accountant.compose(DirichletCost(weight=0.1, alpha=3, relation=other))
    assert state(accountant) == before


def test_episodes_of_another_length_are_another_relation() -> None:
    accountant = spend(DirichletCost(weight=0.01, alpha=3, relation=relations.ReplaceEpisode(5)), 1)
    accountant.compose(DirichletCost(weight=0.02, alpha=3, relation=relations.ReplaceEpisode(5)))
    with pytest.raises(ValueError, match="relation"):
        accountant.compose(
            DirichletCost(weight=0.01, alpha=3, relation=relations.ReplaceEpisode(6))
        )


@pytest.mark.parametrize("count", [0, -1, 1.5, math.nan, math.inf, True, "2", 2**53 + 1])
def test_count_must_be_a_positive_whole_number(count: object) -> None:
    accountant = RdpAccountant()
    before = state(accountant)
    with pytest.raises(ValueError, match=f"count.*{count}"):
        accountant.compose(RELEASE, count)
    assert state(accountant) == before


def test_repeats_are_counted_beyond_what_one_float_holds() -> None:
    """Added to 2**53 in one float, single charges would be lost."""
    many = spend(RELEASE, 2**53)
    for _ in range(2):
        many.compose(RELEASE)
    assert sum(entry.count for entry in many.journal) == 2**53 + 2
    assert many.spent(2) > spend(RELEASE, 2**53).spent(2)


def test_count_may_be_a_numpy_integer() -> None:
    accountant = spend(RELEASE, np.int64(3))
    np.testing.assert_array_equal(accountant.rdp, spend(RELEASE, 3).rdp)


# Budgets ------------------------------------------------------------------------------------------

BUDGETS = [RenyiDP(2, 1), RenyiDP(8.5, 0.03), ApproxDP(1, 1e-5), ApproxDP(0.1, 1e-9)]


@pytest.mark.few(9)
@pytest.mark.parametrize(
    ("count", "relation"),
    [(1, RECORD), (7, relations.ReplaceStep()), (65, RECORD), (3000, relations.ReplaceStep())],
)
@pytest.mark.parametrize("budget", BUDGETS, ids=repr)
def test_exactly_the_affordable_number_is_accepted(
    budget: RenyiDP | ApproxDP, count: int, relation: relations.Relation
) -> None:
    weight = DirichletMechanism.calibrated(budget, alpha=3, relation=relation, count=count).weight
    cost = DirichletCost(weight=weight, alpha=3, relation=relation)
    one_by_one, at_once = RdpAccountant(budget=budget), RdpAccountant(budget=budget)
    for _ in range(count):
        one_by_one.compose(cost)
    at_once.compose(cost, count)
    for accountant in (one_by_one, at_once):
        before = state(accountant)
        with pytest.raises(BudgetExceeded):
            accountant.compose(cost)
        assert state(accountant) == before


@pytest.mark.parametrize("count", [7, 65])
@pytest.mark.parametrize("budget", BUDGETS, ids=repr)
def test_a_refused_lot_leaves_the_budget_whole(budget: RenyiDP | ApproxDP, count: int) -> None:
    alpha = DirichletMechanism.calibrated(budget, weight=0.05, relation=RECORD, count=count).alpha
    cost = DirichletCost(weight=0.05, alpha=alpha, relation=RECORD)
    accountant = RdpAccountant(budget=budget)
    before = state(accountant)
    with pytest.raises(BudgetExceeded):
        accountant.compose(cost, count + 1)
    assert state(accountant) == before
    accountant.compose(cost, count)


@pytest.mark.parametrize("count", [1, 13])
def test_a_budget_is_a_sharp_line(count: int) -> None:
    free = spend(RELEASE, count, orders=[2.0, 9.0])
    cost, loss = float(free.spent(2.0)), float(free.epsilon(1e-5))
    for enough, short in (
        (RenyiDP(2, cost), RenyiDP(2, cost * (1 - 1e-12))),
        (ApproxDP(loss * (1 + 1e-8), 1e-5), ApproxDP(loss * (1 - 1e-8), 1e-5)),
    ):
        spend(RELEASE, count, orders=[2.0, 9.0], budget=enough)
        with pytest.raises(BudgetExceeded):
            spend(RELEASE, count, orders=[2.0, 9.0], budget=short)


@pytest.mark.parametrize("budget", BUDGETS, ids=repr)
def test_no_privacy_is_refused(budget: RenyiDP | ApproxDP) -> None:
    with pytest.raises(BudgetExceeded):
        RdpAccountant(budget=budget).compose(NoPrivacy(RECORD))


def test_a_refusal_says_what_there_was() -> None:
    with pytest.raises(BudgetExceeded, match=r"0\.25"):
        RdpAccountant(budget=RenyiDP(2, 0.25)).compose(NoPrivacy(RECORD))
    assert issubclass(BudgetExceeded, ValueError)


def test_a_budget_at_an_order_of_its_own() -> None:
    accountant = RdpAccountant(orders=[2.0, 4.0], budget=RenyiDP(3.3, 1))
    assert 3.3 in accountant.orders
    accountant.compose(RELEASE)
    assert float(accountant.spent(3.3)) == pytest.approx(float(RELEASE.rdp(3.3)), rel=1e-15)


def test_each_row_of_a_batch_has_its_budget() -> None:
    budgets = [RenyiDP(2, 0.1), None, ApproxDP(1, 1e-5)]
    rows = [
        DirichletCost(
            weight=DirichletMechanism.calibrated(target, alpha=3, relation=RECORD, count=4).weight,
            alpha=3,
            relation=RECORD,
        )
        for target in (budgets[0], RenyiDP(2, 50), budgets[2])
    ]
    accountant = RdpAccountant(budget=budgets)
    accountant.compose(BatchCost(rows), 4)
    before = accountant.rdp.copy()
    with pytest.raises(BudgetExceeded):
        accountant.compose(BatchCost(rows))
    np.testing.assert_array_equal(accountant.rdp, before)


def test_rows_and_budgets_are_equally_many() -> None:
    accountant = RdpAccountant(budget=[RenyiDP(2, 10), RenyiDP(2, 0.001)])
    for rows in ([RELEASE], [RELEASE] * 3):
        with pytest.raises(ValueError, match=f"one for each of the {len(rows)} rows"):
            accountant.compose(BatchCost(rows))


def test_a_list_of_budgets_is_copied() -> None:
    budgets = [RenyiDP(2, 0.1), RenyiDP(2, 0.1)]
    accountant = RdpAccountant(budget=budgets)
    budgets[:] = [RenyiDP(2, 100.0), RenyiDP(2, 100.0)]
    assert list(accountant.budget) == [RenyiDP(2, 0.1), RenyiDP(2, 0.1)]
    with pytest.raises(BudgetExceeded):
        accountant.compose(BatchCost([DirichletCost(weight=9, alpha=3, relation=RECORD)] * 2))


@pytest.mark.parametrize("cost", [np.nan, -1.0])
def test_a_cost_that_is_none_is_refused(cost: float) -> None:
    class Wrong:
        relation = RECORD

        def rdp(self, orders):
            return np.full(np.shape(orders), cost)

    accountant = RdpAccountant(budget=RenyiDP(2, 1))
    exact = GaussianCost(sigma=0.5, relation=RECORD)
    for each in (Wrong(), Together([exact, Wrong()])):  # their sum is positive
        with pytest.raises(ValueError, match="must give a Rényi divergence >= 0"):
            accountant.compose(each)
    with pytest.raises(ValueError, match="must give a Rényi divergence >= 0"):
        selection.SelectionCost(trial=Wrong(), trials=3).rdp(2.0)
    assert not accountant.rdp.any()


@pytest.mark.parametrize("wrong", [-1.0, np.nan, 1j, "0.1", None])
def test_an_epsilon_or_delta_that_is_none_is_refused(wrong, tmp_path) -> None:
    """A budget admitted a cost of delta -1, and a ledger an epsilon of -1."""

    @dataclass(frozen=True)
    class Wrong:
        relation: relations.Relation = RECORD

        def rdp(self, orders):
            return np.full(np.shape(orders), 9.0)

        def epsilon(self, delta):
            return np.asarray(wrong)

        def delta(self, epsilon):
            return np.full(np.shape(epsilon), wrong)

    words = r"cost.* must (give a|be) number"
    for kind in (RdpAccountant, PldAccountant):
        with pytest.raises(ValueError, match=words):
            kind(budget=ApproxDP(1.0, 1e-5)).compose(Wrong())
        accountant = kind()
        accountant.compose(Wrong())
        with pytest.raises(ValueError, match=words):
            accountant.epsilon(1e-5)
        with pytest.raises(ValueError, match=words):
            accountant.delta(1.0)
    ledger = Ledger(tmp_path / "ledger.sqlite")
    with pytest.raises(ValueError, match=words):
        ledger.accountant("people", delta=1e-5).compose(Wrong())
    assert not ledger.is_there
    with pytest.raises(ValueError, match=words):
        selection.SelectionCost(trial=Wrong(), trials=3).rdp(2.0)


@pytest.mark.few(6)
@pytest.mark.parametrize(
    "curve",
    [
        lambda orders: np.full(orders.shape, 0.1 + 1j),
        lambda orders: np.full(orders.shape, "0.1"),
        lambda orders: np.ma.masked_array(np.full(orders.shape, 9.0), orders > 2),
        lambda orders: 0.1,
        lambda orders: np.full((1, len(orders)), 0.1)[:, :-1],
    ],
    ids=["complex", "text", "masked", "one", "few"],
)
def test_every_account_takes_the_same_curves(curve, tmp_path) -> None:
    """The ledger took the real part of complex ones, and what a mask hid."""

    class Odd(InPlace):
        def rdp(self, orders):
            return curve(np.asarray(orders))

    book = Ledger(tmp_path / "ledger.sqlite")
    for accountant in (RdpAccountant(), book.accountant("d")):
        with pytest.raises(ValueError, match=r"must give a Rényi|must be (numbers|a plain array)"):
            accountant.compose(Odd())
        assert not accountant.journal


@dataclass
class InLots:
    """A cost of one's own, of which many are evaluated at once."""

    size: float
    relation: relations.Relation = RECORD
    fixed = True
    bulk_key = ()

    def rdp(self, orders):
        return self.size * np.asarray(orders)

    def bulk(self):
        return Lots()


class Lots:
    def numbers(self, cost):
        return (cost.size,)

    def rdp(self, numbers, orders):
        return numbers * orders

    def at_most(self, cost, order):
        return cost.size * order


def test_costs_in_lots_are_checked_as_others_are() -> None:
    """One could move an accountant's orders, be negative, or change once it was compared."""

    class Moves(InLots):
        fixed, bulk = True, InLots.bulk

        def rdp(self, orders):
            curve = super().rdp(orders)
            orders -= (orders - 1) / 2
            return curve

    accountant = RdpAccountant(budget=ApproxDP(1.0, 1e-5))
    before = accountant.orders
    with pytest.raises(ValueError, match="read-only"):
        accountant.compose(Moves(1e-4))
    assert np.array_equal(accountant.orders, before)
    assert not accountant.journal

    class Negative(InLots):
        fixed, bulk = True, InLots.bulk

    with pytest.raises(ValueError, match="must give a Rényi divergence >= 0"):
        RdpAccountant(budget=RenyiDP(2, 1)).compose(Negative(-10.0))
    accountant = RdpAccountant()
    accountant.compose(Negative(-10.0))
    with pytest.raises(ValueError, match="must give a Rényi divergence >= 0"):
        accountant.epsilon(1e-5)

    class Changes(InLots):
        fixed, bulk = False, InLots.bulk

    accountant, cost = RdpAccountant(budget=RenyiDP(2, 1)), Changes(1e-3)
    accountant.compose(cost)
    cost.size = 100.0
    with pytest.raises(BudgetExceeded):
        accountant.compose(cost)
    assert accountant.spent(2) == 2e-3


# An honest refusal needs an honest sum: the oracle counts what was let through --------------


@pytest.mark.parametrize("count", [1, 65, 3000])
def test_what_was_accepted_is_truly_within_the_budget(count: int) -> None:
    weight = DirichletMechanism.calibrated(
        RenyiDP(2, 1), alpha=3, relation=RECORD, count=count
    ).weight
    spent = count * relation_divergence(RECORD.changes(), 2, weight=weight, alpha=3)
    assert 1 - 1e-9 < float(spent) < 1 + 1e-12
