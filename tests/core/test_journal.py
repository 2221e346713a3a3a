"""The journal of an accountant: what was charged, how often, when, and how it is shown."""

import copy
from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass
from datetime import UTC, datetime, timedelta
from time import process_time
from typing import Any

import numpy as np
import pytest

from privrl.accounting import (
    Accountant,
    ApproxDP,
    BudgetExceeded,
    Journal,
    PldAccountant,
    RdpAccountant,
    RenyiDP,
)
from privrl.accounting.journal import Entry
from privrl.costs import DirichletCost, GaussianCost, ReplaceRecord, ReplaceStep
from privrl.costs.base import BatchCost, Together
from privrl.costs.noise import LaplaceCost
from privrl.costs.relations import Relation
from privrl.mechanisms import GaussianMechanism
from privrl.numerics.printing import up
from privrl.samplers import Diffuse, draw

RECORD = ReplaceRecord()
ONE = DirichletCost(weight=0.01, alpha=2, relation=RECORD)
SAME = DirichletCost(weight=0.01, alpha=2, relation=ReplaceRecord())
OTHER = GaussianCost(sigma=50, relation=RECORD)
each_accountant = pytest.mark.parametrize("make", [RdpAccountant, PldAccountant])
Make = Callable[..., RdpAccountant | PldAccountant]


@dataclass
class Moody:
    """A user's own, which may cost something else each time."""

    price: float
    relation: Relation = RECORD

    def rdp(self, orders):
        return np.full(np.shape(orders), self.price)

    __hash__ = None

    def __eq__(self, other):
        raise AssertionError("nobody asked for it")


def charges(accountant: Accountant) -> list[tuple[object, int]]:
    return [(entry.cost, entry.count) for entry in accountant.journal]


@each_accountant
def test_what_was_charged_and_how_often(make: Make) -> None:
    accountant = make()
    assert len(accountant.journal) == 0
    for cost, count in [(ONE, 1), (ONE, 3), (SAME, 1), (OTHER, 2), (ONE, 1)]:
        accountant.compose(cost, count)
    assert charges(accountant) == [(ONE, 5), (OTHER, 2), (ONE, 1)]
    assert {str(entry.cost.relation) for entry in accountant.journal} == {"replace one record"}


@each_accountant
def test_times_are_when_it_was_charged(make: Make) -> None:
    accountant, before = make(), datetime.now(UTC)
    accountant.compose(ONE)
    between = datetime.now(UTC)
    accountant.compose(SAME)
    (entry,) = accountant.journal
    slack = timedelta(milliseconds=1)
    assert before - slack <= entry.first <= between + slack
    assert between - slack <= entry.last <= datetime.now(UTC) + slack
    assert entry.first.tzinfo is UTC


def test_what_can_change_is_not_joined_to_another() -> None:
    accountant = RdpAccountant()
    for price in (0.1, 0.1, 0.2):
        accountant.compose(Moody(price))
    assert [entry.cost.price for entry in accountant.journal] == [0.1, 0.1, 0.2]


def test_batches_and_parts_are_entries() -> None:
    for cost in (Together([ONE, OTHER]), BatchCost([ONE, OTHER])):
        accountant = RdpAccountant()
        accountant.compose(cost)
        assert charges(accountant) == [(cost, 1)]


@each_accountant
def test_what_is_refused_leaves_no_entry(make: Make) -> None:
    accountant = make(budget=ApproxDP(0.01, 1e-5))
    accountant.compose(GaussianCost(sigma=1e5, relation=RECORD))
    for refused, error in (
        (lambda: accountant.compose(DirichletCost(weight=1, alpha=1, relation=RECORD)), "budget"),
        (lambda: accountant.compose(OTHER, 0), "count"),
        (lambda: accountant.compose(Diffuse(weight=0.01).cost), "relation"),
    ):
        with pytest.raises(ValueError, match=error):
            refused()
    assert len(accountant.journal) == 1


@each_accountant
def test_copies_go_on_by_themselves(make: Make) -> None:
    first = make()
    first.compose(ONE)
    second = copy.copy(first)
    first.compose(ONE)
    second.compose(OTHER)
    assert charges(first) == [(ONE, 2)]
    assert charges(second) == [(ONE, 1), (OTHER, 1)]


def test_a_journal_is_of_its_moment_and_read_only() -> None:
    accountant = RdpAccountant()
    accountant.compose(ONE)
    journal = accountant.journal
    accountant.compose(OTHER)
    assert len(journal) == 1
    with pytest.raises(TypeError):
        journal[0] = None
    with pytest.raises(FrozenInstanceError):
        journal[0].count = 0
    with pytest.raises(AttributeError):
        accountant.journal = journal
    assert isinstance(accountant.journal[:1], Journal)
    assert next(reversed(accountant.journal)).cost == OTHER


def test_samplers_and_mechanisms_are_in_it() -> None:
    accountant, rng = PldAccountant(), np.random.default_rng(0)
    GaussianMechanism(sigma=50).release([1, 2], rng, accountant=accountant)
    assert charges(accountant) == [(OTHER, 1)]
    accountant = PldAccountant()  # any accountant will do for a sampler, too
    sampler = Diffuse(weight=0.01)
    for _ in range(2):
        draw(accountant, [(sampler, np.ones((2, 2)))], rng)
    assert charges(accountant) == [(sampler.cost, 2)]


# How it is shown -------------------------------------------------------------------------------


def journal(n: int, name: str = "replace one record") -> Journal:
    relation, start = Relation(name, {"counts": [(1, -1)]}), datetime(2026, 2, 3, tzinfo=UTC)
    return Journal(
        Entry(
            DirichletCost(weight=0.001 * (i + 1), alpha=10, relation=relation),
            10**i if i < 7 else 1,
            start + timedelta(hours=i),
            start + timedelta(hours=2 * i),
        )
        for i in range(n)
    )


def test_a_table_of_text() -> None:
    assert repr(journal(2)).splitlines() == [
        "Journal: 11 charges in 2 entries, replace one record",
        "count  first (UTC)          last      cost",
        "    1  2026-02-03 00:00:00  00:00:00  "
        "DirichletCost(weight=0.001, alpha=10, table='counts')",
        "   10  2026-02-03 01:00:00  02:00:00  "
        "DirichletCost(weight=0.002, alpha=10, table='counts')",
    ]
    later = repr(journal(14)).splitlines()[-1]
    assert "2026-02-03 13:00:00  2026-02-04 02:00:00  DirichletCost(weight=0.014, " in later
    assert later.endswith("…")
    assert repr(Journal()) == "Journal: nothing was charged."


@pytest.mark.parametrize("n", [1, 21, 22, 500])
def test_long_ones_are_cut_in_the_middle(n: int) -> None:
    lines = repr(journal(n, "a relation of many words, " * 9)).splitlines()
    assert max(map(len, lines)) <= 100
    assert len(lines) == 2 + min(n, 21)
    assert any("… 480 charges in 480 entries …" in line for line in lines) == (n == 500)
    assert "weight=0.001," in lines[2]


def test_costs_of_any_kind_have_one_line() -> None:
    class Poem:
        relation = RECORD

        def __repr__(self):
            return "roses\nare red"

    now = datetime.now(UTC)
    costs: list[Any] = [Poem(), Together([ONE, OTHER]), BatchCost([ONE] * 9), Moody(0.1)]
    shown = Journal(Entry(cost, 1, now, now) for cost in costs)
    assert len(repr(shown).splitlines()) == 2 + len(costs)
    assert "roses are red" in repr(shown)
    assert "+ Gaussian" in shown._repr_html_()


def test_html_is_escaped() -> None:
    shown = journal(3, "<b>one & two</b>")._repr_html_()
    assert "<b>" not in shown
    assert "&lt;b&gt;one &amp; two&lt;/b&gt;" in shown
    assert shown.count("<tr>") == 4
    accountant = RdpAccountant()
    accountant.compose(journal(1, "<b>")[0].cost)
    assert "&lt;b&gt;" in accountant._repr_html_()
    assert "<b>" not in accountant._repr_html_()


@each_accountant
def test_an_accountant_shows_what_is_spent_and_of_what(make: Make) -> None:
    accountant = make(budget=ApproxDP(1, 1e-6))
    accountant.compose(OTHER, 3)
    epsilon = float(accountant.epsilon(1e-6))
    text = repr(accountant)
    shown = float(text.split("spent: epsilon ")[1].split(" ")[0])
    assert epsilon <= shown <= epsilon * 1.001
    for words in (
        *(make.__name__, "at delta 1e-06", "budget: ApproxDP(epsilon=1.0, delta=1e-06)"),
        *("relation: replace one record", "journal: 3 charges in 1 entry"),
    ):
        assert words in text
    assert "3 charges in 1 entry" in accountant._repr_html_()


def test_unused_and_without_a_budget() -> None:
    assert repr(RdpAccountant()) == (
        "<RdpAccountant spent: epsilon 0 at delta 1e-05, relation: None, budget: None, "
        "journal: 0 charges in 0 entries>"
    )


@pytest.mark.slow
def test_looking_takes_no_time_and_changes_nothing() -> None:
    """A profile of many costs at once may take a minute; sums at every order are rounded anew."""
    parts = [LaplaceCost(scale=50 + i, relation=RECORD) for i in range(200)]
    seen, unseen = RdpAccountant(), RdpAccountant()
    for accountant in (seen, unseen):
        accountant.compose(Together(parts))
    start = process_time()
    assert "spent: epsilon at most " in repr(seen)
    assert process_time() - start < 1
    costs = [DirichletCost(weight=0.01 * 1.1**i, alpha=9, relation=RECORD) for i in range(40)]
    for cost in costs:
        for accountant in (seen, unseen):
            accountant.compose(cost)
        repr(seen)
    np.testing.assert_array_equal(seen.rdp, unseen.rdp)


def test_rows_with_budgets_of_their_own() -> None:
    relation = ReplaceStep()
    rows = [GaussianCost(sigma=sigma, relation=relation) for sigma in (1.0, 2.0)]
    accountant = RdpAccountant(budget=[RenyiDP(2, 9.0), RenyiDP(3, 9.0)])
    accountant.compose(BatchCost(rows))
    least, most = (up(float(row.epsilon(1e-5))) for row in rows[::-1])
    text = repr(accountant)
    assert text.startswith(f"<RdpAccountant spent: epsilon {least} to {most} in 2 rows at delta ")
    two, three = (float(row.rdp(order)) for row, order in zip(rows, (2.0, 3.0), strict=True))
    assert f"Rényi divergence {two:g} at order 2, Rényi divergence {three:g} at order 3" in text
    assert "budget: 2 targets" in repr(accountant)
    free = RdpAccountant(budget=[None, RenyiDP(2, 9.0)])
    free.compose(BatchCost(rows))
    assert "at delta 1e-05 (Rényi divergence" in repr(free)


def test_refused_words_are_of_the_accountant() -> None:
    accountant = RdpAccountant(budget=RenyiDP(2, 1e-9))
    with pytest.raises(BudgetExceeded):
        accountant.compose(OTHER)
    assert "0 charges" in repr(accountant)
