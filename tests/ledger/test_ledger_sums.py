"""What entries amount to, what budgets let through, and which data they are about."""

import copy
import math
import pickle
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from privrl.accounting import ApproxDP, Budget, BudgetExceeded, Ledger, RdpAccountant
from privrl.accounting.amounts import Amount, curve_from_bytes, profile_of
from privrl.accounting.budgets import _filters
from privrl.accounting.ledger import DataSet, LedgerAccountant
from privrl.accounting.ledger_file import Transaction
from privrl.accounting.names import one_spelling
from privrl.agents import PSRL
from privrl.costs import (
    AddRemoveRecord,
    DirichletCost,
    GaussianCost,
    Relation,
    ReplaceEpisode,
    ReplaceRecord,
    ReplaceStep,
)
from privrl.costs.base import BatchCost, NoPrivacy, Together, pure_ratio
from privrl.costs.noise import LaplaceCost
from privrl.costs.relations import (
    NORMS,
    REPLACE_REWARD,
    SUMS,
    AddRemovePerson,
    ReplaceLoggedStep,
    ReplacePerson,
    relation_of_moments,
)
from privrl.data.schema import Bins, Categories, Schema
from privrl.experiments import train
from privrl.mechanisms import GaussianMechanism
from privrl.models import PrivateBayesNet, histogram
from privrl.numerics.special import FloatArray

UNIT = ReplaceRecord()
TINIEST = 5e-324


def laplace(epsilon: float) -> LaplaceCost:
    return LaplaceCost(scale=2 / epsilon, relation=UNIT)


def gaussian(sigma: float) -> GaussianCost:
    return GaussianCost(sigma=sigma, relation=UNIT)


@pytest.fixture
def book(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.sqlite")


def total(book: Ledger, name: str = "d", relation: Relation = UNIT) -> Amount:
    account = book.account(name, relation)
    assert account is not None
    return account.total


@given(st.lists(st.floats(0, 1e300, allow_subnormal=True), min_size=1, max_size=20))
def test_sums_are_exact(values: list[float]) -> None:
    orders = (2.0,)
    amount = Amount.nothing(orders)
    for value in values:
        curve = curve_from_bytes(np.array([value], "<f8").tobytes())
        amount += Amount(orders, curve, None, 1)
    exact = sum(map(Fraction, values))
    told = amount.rdp([0])[0]
    assert Fraction(told) >= exact
    assert told == 0 or Fraction(math.nextafter(told, 0)) < exact


def test_amounts_from_the_smallest_to_the_largest() -> None:
    for value in (TINIEST, 1e-12, 1e3, math.inf):
        curve = curve_from_bytes(np.array([value], "<f8").tobytes())
        assert Amount((2.0,), curve, None, 1).rdp([0])[0] == value
    curve = curve_from_bytes(np.array([TINIEST], "<f8").tobytes())
    assert Amount((2.0,), curve, None, 1).times(7).rdp([0])[0] == 7 * TINIEST


def test_ten_tenths_are_one(book: Ledger) -> None:
    book.set_budget("d", Budget(1.0))
    accountant = book.accountant("d")
    for _ in range(10):
        accountant.compose(laplace(0.1))
    assert total(book).pure == 1
    assert total(book).epsilon(None) == 1.0
    with pytest.raises(BudgetExceeded, match="from 100 %"):
        accountant.compose(laplace(1e-12))


@pytest.mark.parametrize(
    ("epsilon", "three"), [(1e-12, 3e-12), (1e-6, 3e-6), (0.3, 0.9), (1.0, 3.0), (1e3, 3e3)]
)
def test_budgets_of_every_size(book: Ledger, epsilon: float, three: float) -> None:
    book.set_budget("d", Budget(three))
    for _ in range(3):
        book.accountant("d").compose(laplace(epsilon))
    with pytest.raises(BudgetExceeded):
        book.accountant("d").compose(laplace(epsilon / 1000))


@pytest.mark.slow
def test_rationals_of_very_many_digits_are_rounded_up(book: Ledger) -> None:
    rng, exact = np.random.default_rng(0), Fraction(0)
    for scale in rng.uniform(1, 2, 100):
        book.accountant("d").compose(LaplaceCost(scale=scale, relation=UNIT))
        exact += 2 / Fraction(scale)
    found = total(book).pure
    assert found is not None
    assert exact <= found < exact + Fraction(1, 2**1000)
    assert found.denominator.bit_length() <= 4096 + 64


@pytest.mark.few(9)
@pytest.mark.parametrize(
    "costs",
    [
        [gaussian(20.0)] * 30,
        [gaussian(3.0), laplace(0.2), DirichletCost(weight=0.3, alpha=2.0, relation=UNIT)] * 4,
        [Together([gaussian(9.0), gaussian(9.0), laplace(0.1)])],
    ],
    ids=["one kind", "several", "parts"],
)
def test_what_rdp_accountants_add_up_to(book: Ledger, costs: list) -> None:
    theirs, ours = RdpAccountant(), book.accountant("d")
    for cost in costs:
        theirs.compose(cost)
        ours.compose(cost)
    theirs._only = None  # of Rényi divergences alone
    for delta in (1e-2, 1e-5, 1e-9):
        assert ours.epsilon(delta) == pytest.approx(float(theirs.epsilon(delta)), rel=1e-12)
    at_once = book.accountant("e")
    at_once.compose(costs[0], len(costs))
    assert total(book, "e").releases == len(costs)


def test_one_release_alone_is_told_by_its_own_profile(book: Ledger) -> None:
    target = ApproxDP(1.0, 1e-5)
    mechanism = GaussianMechanism.calibrated(target, relation=UNIT)
    book.set_budget("d", Budget(1.0, 1e-5))
    accountant = book.accountant("d", delta=1e-5)
    accountant.compose(mechanism.cost)
    assert 0.999 < accountant.epsilon(1e-5) <= 1.0
    assert accountant.epsilon(1e-6) > 1.0
    with pytest.raises(BudgetExceeded):
        accountant.compose(gaussian(1e6))
    assert accountant.epsilon(1e-5) <= 1.0
    free = book.accountant("e", delta=1e-5)
    for cost in (mechanism.cost, gaussian(1e6)):
        free.compose(cost)
    assert free.epsilon(1e-5) > 1.0


def test_a_run_alone_may_spend_a_whole_budget(book: Ledger) -> None:
    """Of two Gaussian parts, transitions and rewards: it was refused, at 127 % of the budget."""
    book.set_budget("d", Budget(1.0, 1e-5))
    accountant = book.accountant("d", delta=1e-5)
    first, second = (
        PSRL.private(gym.make("FrozenLake-v1"), epsilon=each, episodes=3, accountant=accountant)
        for each in (1, 0.01)
    )
    first.learn()
    assert 0.999 < accountant.epsilon(1e-5) <= 1.0
    with pytest.raises(BudgetExceeded):
        second.learn()


@pytest.mark.slow
def test_a_network_that_chooses_its_edges_alone_may_spend_a_whole_budget(book: Ledger) -> None:
    """Its tables and choices have a profile; of many parts of another kind it would take long."""
    frame = pd.DataFrame({name: [0, 1] * 200 for name in "abc"})
    schema = Schema({name: Categories((0, 1)) for name in frame})
    model = PrivateBayesNet(schema=schema, parents="private", target=ApproxDP(1.0, 1e-5))
    book.set_budget("d", Budget(1.0, 1e-5))
    accountant = book.accountant("d", UNIT, delta=1e-5)
    net = model.fit(frame, 5, accountant=accountant)
    assert isinstance(net.cost, Together)
    assert len(net.cost.parts) == 4  # tables, two parents and a pair
    assert 0.99 < accountant.epsilon(1e-5) <= 1.0
    with pytest.raises(BudgetExceeded):
        model.fit(frame, 6, accountant=accountant)
    several = Together([laplace(0.1), laplace(0.1), *net.cost.parts[1:]])
    assert profile_of(several) is None
    assert profile_of(Together([several])) is None


def test_a_budget_is_a_filter_of_fixed_orders() -> None:
    """Half of delta is the best order's, for Gaussian noise; all parts of delta sum to it."""
    orders = tuple(RdpAccountant().orders.tolist())
    for epsilon in (0.1, 1.0, 10.0):
        places, logs = _filters(orders, epsilon, 1e-5)
        assert len(places) == 9
        assert sum(map(math.exp, logs)) <= 1e-5 * (1 + 1e-12)
        # Close to the whole of what the best order alone would allow.
        low, high = 1e-3, 1e6
        for _ in range(60):
            sigma = math.sqrt(low * high)
            curve = curve_from_bytes(gaussian(sigma).rdp(np.array(orders)).astype("<f8").tobytes())
            fits = Budget(epsilon, 1e-5).admits(Amount(orders, curve, None, 2))
            low, high = (low, sigma) if fits else (sigma, high)
        accountant = RdpAccountant()
        accountant.compose(gaussian(high), 1)
        accountant._only = None
        assert 0.94 * epsilon < accountant.epsilon(1e-5) <= epsilon


def test_a_pure_budget_takes_pure_releases_only(book: Ledger) -> None:
    book.set_budget("d", Budget(10.0))
    with pytest.raises(BudgetExceeded, match="to ∞ %"):
        book.accountant("d").compose(gaussian(1e6))
    book.accountant("d").compose(laplace(1.0))


def test_no_privacy_is_entered_and_every_budget_refuses_it(book: Ledger) -> None:
    book.accountant("open").compose(NoPrivacy(UNIT))
    assert total(book, "open").epsilon(1e-5) == math.inf
    book.set_budget("d", Budget(1e3, 0.5))
    with pytest.raises(BudgetExceeded):
        book.accountant("d").compose(NoPrivacy(UNIT))


class Leaky(LaplaceCost):
    """Says nothing of itself, and costs more than what it is derived from."""

    def rdp(self, orders: ArrayLike) -> FloatArray:
        return 9 * super().rdp(orders)


class Own:
    """Of a user, who knows its pure epsilon as a float."""

    relation = UNIT
    pure_epsilon = 0.25

    def rdp(self, orders: ArrayLike) -> FloatArray:
        return np.full(np.shape(orders), 0.25)


def test_what_is_pure() -> None:
    part = laplace(0.1)
    assert pure_ratio(part) == Fraction(1, 10)
    assert pure_ratio(Together([part] * 3)) == Fraction(3, 10)
    assert pure_ratio(Together([part, gaussian(1.0)])) is None
    assert pure_ratio(gaussian(1.0)) is None
    assert pure_ratio(NoPrivacy(UNIT)) is None
    assert pure_ratio(Leaky(scale=1.0, relation=UNIT)) is None
    assert pure_ratio(Own()) == Fraction(1, 4)  # type: ignore[arg-type] # a cost of somebody's own


def test_relations_are_never_mixed(book: Ledger) -> None:
    other = AddRemoveRecord()
    book.accountant("d").compose(laplace(1.0))
    book.accountant("d").compose(LaplaceCost(scale=1.0, relation=other))
    assert total(book).pure == 1
    assert total(book, relation=other).pure == 1
    accountant = book.accountant("d", UNIT)
    with pytest.raises(ValueError, match="must be about the relation 'replace one record'"):
        accountant.compose(LaplaceCost(scale=1.0, relation=other))
    assert total(book).pure == total(book, relation=other).pure == 1


def test_before_its_relation_is_known_an_accountant_tells_the_most(book: Ledger) -> None:
    """It told 0 of whatever had been spent, until its own first cost."""
    assert book.accountant("d").epsilon(1e-5) == 0
    book.accountant("d").compose(laplace(1.0))
    book.accountant("d").compose(LaplaceCost(scale=0.5, relation=AddRemoveRecord()))
    book.accountant("other").compose(laplace(9.0))
    told = [book.accountant("d", each).epsilon(1e-5) for each in (UNIT, AddRemoveRecord())]
    assert 0 < told[0] < told[1]
    assert book.accountant("d").epsilon(1e-5) == told[1]
    assert f"epsilon {told[1]:.0f}" in repr(book.accountant("d"))


def test_what_is_no_cost_is_refused(book: Ledger) -> None:
    for accountant in (book.accountant("d"), book.accountant("d", UNIT)):
        with pytest.raises(ValueError, match="cost must be a cost"):
            accountant.compose(5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "named",
    [
        *(UNIT, AddRemoveRecord(), AddRemovePerson(), ReplaceStep(), ReplaceEpisode(7)),
        *(ReplaceLoggedStep(), REPLACE_REWARD, AddRemovePerson("visit"), ReplacePerson("A (b)")),
    ],
    ids=str,
)
def test_a_namesake_of_a_relation_of_the_library_is_not_entered(
    book: Ledger, named: Relation
) -> None:
    """It entered a thousandth of its cost into the budget of the relation that it claimed to be."""
    book.set_budget("d", Budget(1.0), named)
    for name in (str(named), str(named).title(), str(named).replace(" ", "\N{NO-BREAK SPACE}")):
        namesake = Relation(name, {"counts": [(1e-3, -1e-3)]})
        with pytest.raises(ValueError, match="relation must have a name of its own"):
            book.accountant("d").compose(LaplaceCost(scale=1.0, relation=namesake))
        with pytest.raises(ValueError, match="relation must have a name of its own"):
            book.spend(DataSet("d"), GaussianCost(sigma=1.0, relation=namesake))
        with pytest.raises(ValueError, match="relation must have a name of its own"):
            book.accountant("d", namesake)
        with pytest.raises(ValueError, match="relation must have a name of its own"):
            book.set_budget("d", Budget(9.0), namesake)
    assert not book.accounts()
    assert book.budgets() == {("d", str(named)): Budget(1.0)}


def test_a_relation_of_ones_own_has_one_definition_on_a_data_set(book: Ledger) -> None:
    """The second entered a thousandth of its cost into the budget of the first."""
    mine, other = (Relation("mine", {"counts": [(size,), (-size,)]}) for size in (1.0, 1e-3))
    book.set_budget("d", Budget(1.5), mine)
    book.accountant("d").compose(LaplaceCost(scale=1.0, relation=mine))
    with pytest.raises(ValueError, match="changes that 'mine' had before on d"):
        book.accountant("d").compose(LaplaceCost(scale=1.0, relation=other))
    book.accountant("d").compose(LaplaceCost(scale=2.0, relation=mine))
    book.accountant("e").compose(LaplaceCost(scale=1.0, relation=other))
    assert total(book, relation=mine).pure == Fraction(3, 2)


def test_agents_for_tables_and_for_numbers_share_a_budget(book: Ledger) -> None:
    """Both hide a replaced step, and each had spent the whole budget of it."""
    book.set_budget("d", Budget(1.5, 1e-5))
    numbers, table = gym.make("MountainCar-v0"), gym.make("FrozenLake-v1")
    first = PSRL.private(numbers, epsilon=1, episodes=20, accountant=book.accountant("d"))
    first.learn(2)
    second = PSRL.private(table, epsilon=1, episodes=20, accountant=book.accountant("d"))
    with pytest.raises(BudgetExceeded, match="'replace one step, rewards paid on arrival'"):
        second.learn()
    (account,) = book.accounts()
    assert account.total.releases == 1


def test_definitions_of_one_name_share_its_budget(book: Ledger) -> None:
    """A replaced step changes tables and moments: each definition had the whole budget."""
    step, moments = ReplaceStep(), relation_of_moments(ReplaceStep())
    of_tables = GaussianCost(sigma=10 * 6**0.5, relation=step)
    of_moments = GaussianCost(sigma=10 * 8**0.5, relation=moments, table=NORMS)
    book.set_budget("d", Budget(1.0, 1e-5), step)
    book.accountant("d").compose(of_moments)
    book.accountant("d").compose(of_tables, 2)
    with pytest.raises(BudgetExceeded):
        book.accountant("d").compose(of_tables, 3)
    (account,) = book.accounts()
    assert account.total.releases == 3
    assert book.account("d", step) == book.account("d", moments) == account


def test_a_relation_without_a_budget_is_no_way_around_another(book: Ledger) -> None:
    book.set_budget("d", Budget(1.0), UNIT)
    with pytest.raises(BudgetExceeded, match="must have a budget under 'add or remove one record'"):
        book.accountant("d").compose(LaplaceCost(scale=9.0, relation=AddRemoveRecord()))
    book.set_budget("d", Budget(0.2))  # for every other relation
    book.accountant("d").compose(LaplaceCost(scale=9.0, relation=AddRemoveRecord()))
    book.accountant("d").compose(laplace(1.0))
    with pytest.raises(BudgetExceeded):
        book.accountant("d").compose(LaplaceCost(scale=9.0, relation=AddRemoveRecord()))
    book.set_budget("d", Budget(2.0), UNIT)
    book.accountant("d").compose(laplace(1.0))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (AddRemovePerson("patient"), AddRemovePerson("visit")),
        (AddRemovePerson("patient"), AddRemovePerson()),
        (AddRemovePerson(), AddRemovePerson("patient")),
        (ReplaceEpisode(30), ReplaceEpisode(29)),
        (ReplaceStep(), ReplaceStep(arrival_rewards=True)),
    ],
    ids=str,
)
def test_a_budget_for_each_relation_is_for_one_of_a_kind(
    book: Ledger, first: Relation, second: Relation
) -> None:
    """Each had the whole budget, though the same persons may be behind both."""
    book.set_budget("d", Budget(1.0, 1e-5))
    table = NORMS if isinstance(first, AddRemovePerson) else None
    one, other = (GaussianCost(sigma=9e3, relation=each, table=table) for each in (first, second))
    for cost in (one, one):
        book.accountant("d").compose(cost)
    with pytest.raises(BudgetExceeded, match="d must have a budget for"):
        book.accountant("d").compose(other)
    book.accountant("d").compose(gaussian(9.0))  # of another kind
    book.set_budget("d", Budget(1.0, 1e-5), second)
    book.accountant("d").compose(other)
    book.accountant("other").compose(one)  # without a budget there are two accounts
    book.accountant("other").compose(other)


def test_entries_that_name_no_unit_count_for_each(book: Ledger) -> None:
    """Earlier versions entered persons of all columns so."""
    cost = LaplaceCost(scale=2.0, relation=AddRemovePerson(), table=SUMS)
    book.accountant("d").compose(cost)
    book.set_budget("d", Budget(0.9), "add or remove one person (visit)")
    with pytest.raises(BudgetExceeded, match=r"to 111\.2 %"):
        book.accountant("d").compose(replace(cost, relation=AddRemovePerson("visit")))


def test_units_are_told_apart() -> None:
    units = ["person", "Person", "a\\n", "a\n", "'a'", "", "visit)", "\N{ZERO WIDTH SPACE}visit)"]
    names = {str(AddRemovePerson(unit)) for unit in units}
    assert len(names) == len(units)
    assert all(name.isprintable() for name in names)


def test_an_account_has_its_budget(book: Ledger) -> None:
    book.accountant("d").compose(gaussian(9.0))
    book.set_budget("d", Budget(1.0, 1e-5))
    assert (book.account("d", UNIT),) == book.accounts()
    assert book.account("d", UNIT).budget == Budget(1.0, 1e-5)


def test_a_budget_counts_what_was_spent_before_it(book: Ledger) -> None:
    book.accountant("d").compose(laplace(1.0))
    book.set_budget("d", Budget(1.5))
    with pytest.raises(BudgetExceeded, match="66"):
        book.accountant("d").compose(laplace(1.0))


@pytest.mark.parametrize(
    ("cost", "words"),
    [
        (BatchCost([laplace(1.0)] * 2), "must be of one run"),
        (type("Bad", (), {"relation": UNIT, "rdp": lambda self, orders: -orders})(), "must give"),
    ],
)
def test_costs_that_are_refused(book: Ledger, cost: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        book.accountant("d").compose(cost)  # type: ignore[arg-type] # none
    assert not book.accounts()


@pytest.mark.parametrize("name", ["", " d", "a\nb", "\x1b[31m", "x" * 101, "data-0123456789abcdef"])
def test_names_that_are_refused(book: Ledger, name: str) -> None:
    with pytest.raises(ValueError, match="dataset must be"):
        book.accountant(name).compose(laplace(1.0))


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, None), (math.inf, None), (1.0, 1.0)])
def test_budgets_that_are_refused(epsilon: float, delta: float | None) -> None:
    with pytest.raises(ValueError, match="must be a number"):
        Budget(epsilon, delta)


# Which data -----------------------------------------------------------------------------------


def test_data_are_known_by_their_content(book: Ledger, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x\n1\n")
    (tmp_path / "copy.csv").write_text("x\n1\n")
    (tmp_path / "b.csv").write_text("x\n2\n")
    one, two, other = (book.dataset(tmp_path / f"{name}.csv") for name in ("a", "copy", "b"))
    assert one == two != other
    book.accountant(one).compose(laplace(1.0))
    (tmp_path / "a.csv").unlink()
    assert Ledger(book.path).dataset(tmp_path / "copy.csv") == one
    elsewhere = Ledger(tmp_path / "elsewhere.sqlite")
    assert elsewhere.dataset(tmp_path / "copy.csv").content != one.content


def test_data_have_one_name(book: Ledger, tmp_path: Path) -> None:
    data, more = tmp_path / "a.csv", tmp_path / "b.csv"
    data.write_text("x\n1\n")
    more.write_text("x\n1\n2\n")
    named = book.dataset(data, "visits")
    book.accountant(named).compose(laplace(1.0))
    assert book.dataset(data) == named
    with pytest.raises(ValueError, match="must be 'visits', the name of these data in the ledger"):
        book.dataset(data, "another")
    with pytest.raises(ValueError, match="must be 'visits'"):  # also where both were asked before
        book.accountant(DataSet("another", named.content)).compose(laplace(1.0))
    book.accountant(book.dataset(more, "visits")).compose(laplace(1.0))  # they have grown
    assert total(book, "visits").pure == 2


def test_what_is_not_read_makes_no_other_data(book: Ledger, tmp_path: Path) -> None:
    """A release that was written into the folder of its log began another account."""
    visits = tmp_path / "visits"
    visits.mkdir()
    for name in ("1.parquet", "2.pq"):
        (visits / name).write_bytes(b"PAR1")
    first = book.dataset(visits)
    (visits / "model").mkdir()
    for name in ("model/model.json", "_SUCCESS", ".1.parquet.crc", "_old.parquet", "notes.txt"):
        (visits / name).write_text("x")
    assert book.dataset(visits) == first
    (visits / "3.parquet").write_bytes(b"PAR1")
    assert book.dataset(visits) != first


def test_a_folder_of_one_file_is_the_file(book: Ledger, tmp_path: Path) -> None:
    """They had two accounts: `fit-policy visits` and `fit-policy visits/1.parquet`."""
    folder = tmp_path / "visits"
    folder.mkdir()
    (folder / "1.parquet").write_bytes(b"PAR1")
    book.accountant(book.dataset(folder)).compose(laplace(1.0))
    (file,) = folder.iterdir()
    assert total(book, book.dataset(file).name).pure == 1


def test_data_that_change_while_they_are_read_cost_nothing(book: Ledger, tmp_path: Path) -> None:
    """They were entered as what they had been: their next release counted as the first."""
    data = tmp_path / "a.csv"
    data.write_text("x\n1\n")
    spending = book.accountant(book.dataset(data), source=data)
    spending.compose(laplace(1.0))
    data.write_text("x\n2\n")
    with pytest.raises(ValueError, match=r"a\.csv did; nothing was charged"):
        spending.compose(laplace(1.0))
    assert [each.total.pure for each in book.accounts()] == [1]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_folder_is_known_by_its_files_and_not_by_their_names(
    book: Ledger, tmp_path: Path, ending: str
) -> None:
    """Renamed files had another account. No name need be in UTF-8."""
    held = {"a": ("1", "2"), "b": ("2", "1"), "c": ("1", "\udcff"), "d": ("1", "2", "3")}
    for folder, names in held.items():
        (tmp_path / folder).mkdir()
        for content, name in enumerate(names):
            (tmp_path / folder / f"{name}.{ending}").write_text(f"{content % 2}\n")
    a, b, c, d = (book.dataset(tmp_path / folder) for folder in held)
    assert a == b == c != d


# Where it goes ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_models_samplers_and_agents_take_it(book: Ledger) -> None:
    """Streams of persons do in test_ledger_cli.py."""
    rng, target = np.random.default_rng(0), ApproxDP(0.5, 1e-5)
    records = book.accountant("records")
    ages = rng.normal(size=99)
    histogram(ages, 4, (0, 1), target=target, rng=rng, accountant=records)
    schema = Schema({"x": Bins((0, 1, 2)), "y": Categories(("a", "b"))})
    frame = pd.DataFrame({"x": [0.5, 1.5] * 20, "y": ["a", "b"] * 20})
    plan = PrivateBayesNet(parents={"x": [], "y": ["x"]}, schema=schema, target=target)
    plan.fit(frame, rng, accountant=records)
    assert total(book, "records").releases == 2
    env = gym.make("privrl.envs:privrl/RiverSwim-v0")
    agent = PSRL.private(env, epsilon=1, episodes=30, accountant=book.accountant("users"))
    train(agent, env, 30, rng)
    (account,) = (each for each in book.accounts() if each.dataset == "users")
    assert account.total.releases == sum(each.count for each in agent.accountant.journal) > 0
    assert np.isfinite(agent.accountant.epsilon(1e-5))


def test_copies_spend_from_one_budget(book: Ledger) -> None:
    book.set_budget("d", Budget(1.0))
    one = book.accountant("d")
    one.compose(laplace(0.5))
    others = [copy.copy(one), pickle.loads(pickle.dumps(one))]
    for other in others:
        assert isinstance(other, LedgerAccountant)
        assert other.epsilon(1e-5) == one.epsilon(1e-5)
    others[0].compose(laplace(0.5))
    with pytest.raises(BudgetExceeded):
        others[1].compose(laplace(0.5))
    assert len(one.journal) == 1
    assert "epsilon 1.0" in repr(one)
    (account,) = book.accounts()
    assert "total=<Amount of 2 releases: epsilon 0.9999 at delta 1e-05>" in repr(account)


def test_what_an_accountant_entered_is_not_forgotten_by_it(book: Ledger) -> None:
    """Or a release of data that were erased from the ledger would have cost nothing."""
    accountant = book.accountant("d")
    accountant.compose(gaussian(1.0))
    spent = float(accountant.epsilon(1e-5))
    resumed, too_late = book.accountant("d"), book.accountant("d")
    resumed.resume(*accountant.charges())
    assert spent == resumed.epsilon(1e-5) > 4
    book.forget("d")
    too_late.resume(*accountant.charges())
    assert too_late.epsilon(1e-5) == math.inf
    assert accountant.epsilon(1e-5) == resumed.epsilon(1e-5) == spent
    book.accountant("d").compose(gaussian(50.0))
    assert too_late.epsilon(1e-5) == math.inf
    assert accountant.epsilon(1e-5) == resumed.epsilon(1e-5) == spent
    too_small = book.accountant("d")
    too_small.resume(*accountant.charges())  # what is entered now is not what was charged
    assert too_small.epsilon(1e-5) == math.inf
    accountant.compose(gaussian(50.0))
    assert accountant.epsilon(1e-5) > spent
    book.path.unlink()
    assert resumed.epsilon(1e-5) == spent
    assert book.accountant("d", UNIT).epsilon(1e-5) == 0


# One name, one budget ---------------------------------------------------------------------------

SPELLINGS = [
    ("visité", "visite\u0301"),  # composed and decomposed
    ("my data", "my\u00a0data"),  # a blank that does not break
    ("my data", "my\u2003 data"),
    ("file", "\ufb01le"),  # a ligature
    ("data1", "ｄａｔａ１"),  # full width
    ("ab", "a\u034fb"),  # an invisible mark
    ("ab", "a\u3164b"),  # an invisible letter
    ("ab", "a\ufe0fb"),
    ("ab", "ab\u2800"),  # Braille without dots
]


@pytest.mark.parametrize(("name", "other"), SPELLINGS)
def test_spellings_of_a_name_share_one_budget(
    book: Ledger, name: str, other: str, tmp_path: Path
) -> None:
    book.set_budget(name, Budget(1.5))
    book.accountant(other).compose(laplace(1.0))
    for each in (name, other, DataSet(other)):
        with pytest.raises(BudgetExceeded):
            book.accountant(each).compose(laplace(1.0))
        with pytest.raises(BudgetExceeded):
            book.spend(DataSet(name if each == other else other), laplace(1.0))
    (account,) = book.accounts()
    assert account.dataset == name
    assert book.account(other, UNIT) == book.account(name, UNIT)
    assert book.amounts(other) == book.amounts(name) != {}
    (path := tmp_path / "file").write_text("1")
    assert book.dataset(path, other).name == name
    assert book.verify(book.export())[0] == 2
    assert {entry["dataset"] for entry in book.entries() if entry} == {name}
    assert book.forget(other) == 2


@pytest.mark.slow
@given(st.text(max_size=12))
def test_the_spelling_of_a_spelling_is_itself(name: str) -> None:
    known = one_spelling(name)
    assert one_spelling(known) == known
    assert one_spelling(unicodedata.normalize("NFD", name)) == known


@pytest.mark.parametrize(
    "name", ["a\u200bb", "a\u00adb", "a\ufeffb", "a\u202eb", "\u3164", "ﷺ" * 9]
)
def test_marks_that_cannot_be_printed_are_refused(book: Ledger, name: str) -> None:
    for enter in (lambda: book.set_budget(name, Budget(1.0)), lambda: book.accountant(name)):
        with pytest.raises(ValueError, match="dataset must be a name of 1 to 100 characters"):
            enter()


def test_names_differ_in_more_than_upper_and_lower_case(book: Ledger) -> None:
    book.set_budget("Visits", Budget(1.0))
    with pytest.raises(ValueError, match="dataset must be 'Visits', which the ledger knows"):
        book.accountant("visits").compose(laplace(0.5))
    with pytest.raises(ValueError, match="got 'VISITS'"):
        book.set_budget("VISITS", Budget(9.0))
    assert not book.accounts()


def spelled(name: str) -> str:
    """Keep a name as it is, as earlier versions did."""
    return name


@pytest.fixture
def earlier(
    book: Ledger, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Callable[[Ledger], None]], None]:
    """Enter something as a version did that kept spellings apart."""

    def enter(something: Callable[[Ledger], None]) -> None:
        add = Transaction.add

        def unmarked(self, before, number, entry):
            return add(
                self, before, number, {k: v for k, v in entry.items() if k != "one_spelling"}
            )

        with monkeypatch.context() as patched:
            for module in ("ledger", "names"):
                patched.setattr(f"privrl.accounting.{module}.one_spelling", spelled)
            patched.setattr(Transaction, "add", unmarked)
            something(Ledger(book.path))

    return enter


def test_a_ledger_of_two_spellings_adds_them_up(book: Ledger, earlier) -> None:
    name, other = SPELLINGS[0]

    def enter(old: Ledger) -> None:
        for each, epsilon in ((name, 5.0), (other, 3.0)):
            old.set_budget(each, Budget(epsilon))
            old.accountant(each).compose(laplace(1.0))
        assert len(old.accounts()) == 2

    earlier(enter)
    (account,) = Ledger(book.path).accounts()
    assert (account.total.pure, account.total.releases) == (2, 2)
    assert account.budget == Budget(3.0)  # the strictest
    assert book.budgets() == {(name, None): Budget(3.0)}
    book.accountant(name).compose(laplace(1.0))
    with pytest.raises(BudgetExceeded):
        book.accountant(name).compose(laplace(1.0))
    book.set_budget(other, Budget(4.5))  # in place of both
    book.accountant(name).compose(laplace(1.0))
    with pytest.raises(BudgetExceeded):
        book.accountant(name).compose(laplace(1.0))
    assert book.verify()[0] == 7


def test_a_spelling_without_a_budget_for_a_relation_is_no_way_around_one(
    book: Ledger, earlier
) -> None:
    name, other = SPELLINGS[0]

    def enter(old: Ledger) -> None:
        old.set_budget(name, Budget(1.0, 1e-5))
        old.set_budget(other, Budget(5.0), UNIT)

    earlier(enter)
    book.accountant(name).compose(laplace(0.9))
    with pytest.raises(BudgetExceeded):  # of the other spelling
        book.accountant(name).compose(laplace(0.2))
    with pytest.raises(BudgetExceeded, match="must have a budget under 'add or remove one record'"):
        book.accountant(name).compose(LaplaceCost(scale=9.0, relation=AddRemoveRecord()))
