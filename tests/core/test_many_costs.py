"""Many different releases in one `RdpAccountant`: quick, and the same as one by one."""

import math
import pickle
import warnings
from contextlib import suppress
from copy import copy, deepcopy
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privrl.accounting.pending import Pending
from privrl.accounting.rdp import BudgetExceeded, RdpAccountant
from privrl.accounting.targets import ApproxDP, RenyiDP
from privrl.costs import relations
from privrl.costs.base import BatchCost, Cost, PairsCost, Together, together
from privrl.costs.conversion import DEFAULT_ORDERS, rdp_to_epsilon, rdp_to_log_delta
from privrl.costs.dirichlet import DirichletCost
from privrl.costs.noise import GaussianCost, LaplaceCost
from privrl.numerics.printing import up

RELATIONS = [
    relations.ReplaceRecord(),
    relations.AddRemoveRecord(),
    relations.ReplaceStep(),
    relations.ReplaceEpisode(30),
]
BOUNDS = ["exact", "exact", "exact", "dps", "dkl", "geumlek"]
UNEVEN = np.concatenate([[1.5, 1.5 + 1e-12, 2.0, 2.0 + 1e-9], np.geomspace(3, 3e3, 40), [1e5]])


def mixed(
    seed: int, relation: relations.Relation, n: int, bounds: list[str]
) -> list[tuple[Cost, int]]:
    """Make releases of many sizes and kinds, some of them equal, with how many there are."""
    rng = np.random.default_rng(seed)
    level, spread = rng.uniform(-7, 1), rng.uniform(0, 3)

    def one() -> Cost:
        weight = math.exp(level + spread * rng.uniform(-1, 1))
        if rng.random() < 0.3:
            return GaussianCost(sigma=1 / weight, relation=relation)
        alpha = 0.5 + math.exp(rng.uniform(-3, 5))
        bound = bounds[rng.integers(len(bounds))]
        cost = DirichletCost(weight=weight, alpha=alpha, relation=relation, bound=bound)
        if rng.random() < 0.2:
            return Together([cost, GaussianCost(sigma=9 / weight, relation=relation)])
        return cost

    releases = [one() for _ in range(n)]
    again = [releases[i] for i in rng.integers(n, size=n // 2)]
    return [(cost, int(rng.integers(1, 4))) for cost in releases + again]


def added_up(spent: list[tuple[Cost, int]], orders: np.ndarray) -> np.ndarray:
    """Add up by `math.fsum`, which rounds once."""
    curves = np.array([count * cost.rdp(orders) for cost, count in spent])
    return np.array([math.fsum(costs) for costs in curves.T])


def composed(spent: list[tuple[Cost, int]], **options) -> RdpAccountant:
    accountant = RdpAccountant(**options)
    for cost, count in spent:
        accountant.compose(cost, count)
    return accountant


# The same as at every order ---------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=30)
@given(
    st.integers(0, 2**32),
    st.sampled_from(RELATIONS),
    st.floats(-30, -1).map(math.exp),
    st.floats(-6, 4).map(math.exp),
    st.sampled_from([DEFAULT_ORDERS, UNEVEN]),
)
def test_the_best_order_is_found(
    seed: int, relation: relations.Relation, delta: float, epsilon: float, orders: np.ndarray
) -> None:
    spent = mixed(seed, relation, 40, BOUNDS)
    accountant = composed(spent, orders=orders)
    kept = accountant.orders
    exact = added_up(spent, kept)
    best = float(rdp_to_epsilon(kept, exact, delta))
    found = float(accountant.epsilon(delta))
    assert found == pytest.approx(best, rel=1e-12, abs=0)
    assert found >= best * (1 - 1e-13)
    best = float(rdp_to_log_delta(kept, exact, epsilon))
    with np.errstate(divide="ignore"):
        found = float(np.log(accountant.delta(epsilon)))
    assert found == pytest.approx(best, rel=1e-11, abs=1e-11) or best < -700
    np.testing.assert_allclose(accountant.rdp, exact, rtol=1e-15)
    assert float(accountant.epsilon(delta)) == pytest.approx(
        float(rdp_to_epsilon(kept, exact, delta)), rel=1e-13, abs=0
    )


@dataclass
class Wavy:
    """A release of somebody else's, whose log-moment is not convex, and which can change."""

    size: float
    relation: relations.Relation

    def rdp(self, orders: np.ndarray) -> np.ndarray:
        return self.size * (1 + 0.9 * np.sin(5 * np.log(np.asarray(orders) - 1)))

    def delta(self, epsilon: np.ndarray) -> np.ndarray:
        return np.ones_like(epsilon)

    def epsilon(self, delta: float) -> np.ndarray:
        return np.asarray(math.inf)


@pytest.mark.few(24)
@pytest.mark.parametrize("seed", range(20))
def test_with_releases_of_which_nothing_is_known(seed: int) -> None:
    relation = relations.ReplaceRecord()
    spent = [*mixed(seed, relation, 40, ["exact"]), (Wavy(10.0 ** (seed % 5 - 2), relation), 3)]
    accountant = composed(spent)
    exact = added_up(spent, accountant.orders)
    for delta in (1e-2, 1e-5, 1e-9):
        best = float(rdp_to_epsilon(accountant.orders, exact, delta))
        assert float(accountant.epsilon(delta)) == pytest.approx(best, rel=1e-12)


@pytest.mark.slow
def test_a_wrong_guess_costs_time_only(monkeypatch: pytest.MonkeyPatch) -> None:
    spent = mixed(5, relations.ReplaceStep(), 60, ["exact"])
    right = float(composed(spent).epsilon(1e-5))
    for guess in (0.0, 1e-9 * DEFAULT_ORDERS, 1e9 * DEFAULT_ORDERS):
        monkeypatch.setattr(Pending, "_estimate", lambda _, guess=guess: guess)
        assert float(composed(spent).epsilon(1e-5)) == pytest.approx(right, rel=1e-13)


def test_bounds_that_promise_too_little_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds between orders that are too high end the search early: the test above sees it."""
    spent = mixed(5, relations.ReplaceStep(), 60, ["exact"])
    right = float(composed(spent).epsilon(1e-5))
    monkeypatch.setattr(Pending, "_estimate", lambda _: 1e9 * DEFAULT_ORDERS)
    monkeypatch.setattr(
        "privrl.accounting.pending._chords", lambda x, _at, _y: np.full_like(x, np.inf)
    )
    assert float(composed(spent).epsilon(1e-5)) > right * 1.01


def test_asking_early_changes_nothing() -> None:
    spent = mixed(7, relations.ReplaceRecord(), 80, BOUNDS)
    often = RdpAccountant()
    for i, (cost, count) in enumerate(spent):
        often.compose(cost, count)
        if i % 9 == 0:
            often.epsilon(1e-5)
            often.delta([0.1, 3.0])
            often.spent(2.0)
        if i == 77:
            assert often.rdp.shape == often.orders.shape
    once = composed(spent)
    assert float(often.epsilon(1e-6)) == pytest.approx(float(once.epsilon(1e-6)), rel=1e-14)
    assert float(often.spent(16.0)) == pytest.approx(float(once.spent(16.0)), rel=1e-15)
    np.testing.assert_allclose(often.rdp, once.rdp, rtol=1e-15)
    deltas = once.delta([[0.1, 1.0], [2.0, 30.0]])
    assert deltas.shape == (2, 2)
    assert deltas[1, 0] == pytest.approx(float(often.delta(2.0)), rel=1e-12)


@pytest.mark.slow
def test_sums_keep_twice_the_digits() -> None:
    """A large release, a hundred thousand small ones in turn: nothing of them is lost."""
    relation = relations.ReplaceRecord()
    small = [GaussianCost(sigma=s, relation=relation) for s in (1e6, 2e6)]
    spent = [(GaussianCost(sigma=1e-3, relation=relation), 1), *[(s, 1) for s in small] * 50_000]
    accountant = composed(spent, orders=[2.0])
    costs = [Fraction(float(cost.rdp(2.0))) for cost in (spent[0][0], *small)]
    exact = costs[0] + 50_000 * (costs[1] + costs[2])
    # The small ones are 6e-14 of the whole, and a float's last digit 1e-16 of it.
    assert float(accountant.spent(2.0)) == pytest.approx(float(exact), rel=4e-16)


def test_sums_of_other_releases_keep_twice_the_digits() -> None:
    """Of those that are added at once: each of the small ones is less than half a last digit."""
    relation = relations.ReplaceRecord()
    large, small = (LaplaceCost(scale=b, relation=relation) for b in (0.002, 1e7))
    accountant = composed([(large, 1), *[(small, 1)] * 3000], orders=[2.0])
    costs = [Fraction(float(cost.rdp(2.0))) for cost in (large, small)]
    assert 0 < costs[1] < costs[0] / 2**54
    exact = costs[0] + 3000 * costs[1]
    assert float(accountant.spent(2.0)) == pytest.approx(float(exact), rel=2e-16)
    assert exact > costs[0] * (1 + Fraction(1, 10**14))


def test_orders_beyond_the_last_finite_one() -> None:
    """Where one release has a short range, the search stays within it."""
    relation = relations.ReplaceRecord()
    short = DirichletCost(weight=1, alpha=0.7, relation=relation)
    spent = [(short, 1), *mixed(3, relation, 50, ["exact"])]
    accountant = composed(spent)
    exact = added_up(spent, accountant.orders)
    assert np.isinf(exact).sum() > 200
    best = float(rdp_to_epsilon(accountant.orders, exact, 1e-12))
    assert float(accountant.epsilon(1e-12)) == pytest.approx(best, rel=1e-13)


# What can change is worked out at once ----------------------------------------------------------


def test_a_release_that_changes_later_is_accounted_for_as_it_was() -> None:
    cost = Wavy(0.1, relations.ReplaceRecord())
    accountant = composed([(cost, 1)])
    before = accountant.rdp
    cost.size = 5.0
    np.testing.assert_array_equal(accountant.rdp, before)


class Changing(PairsCost):
    """A user's release, built on ours, that is written to; equal to itself all the same."""

    relation = relations.ReplaceRecord()

    def __init__(self, size: float) -> None:
        self.size = size

    def dominating_pairs(self) -> None:
        return None

    def rdp(self, orders: np.ndarray) -> np.ndarray:
        return self.size * np.asarray(orders)


@pytest.mark.parametrize(
    "around",
    [lambda r: r, lambda r: BatchCost([r]), lambda r: Together([r]), lambda r: together([r, r])],
    ids=["alone", "batch", "together", "twice"],
)
def test_a_release_that_changes_costs_what_it_says_each_time(around) -> None:
    """The curve of the last release is kept for the next only if it cannot have changed."""
    inner = Changing(0.01)
    accountant, expected = RdpAccountant(), 0.0
    for size in (0.01, 5.0, 0.5):
        inner.size = size
        cost = around(inner)
        for _ in range(2):
            accountant.compose(cost)
            expected = expected + cost.rdp(accountant.orders)
    changed = around(inner)
    accountant.compose(changed)
    expected = expected + changed.rdp(accountant.orders)
    inner.size = 7.0  # the same object
    accountant.compose(changed)
    expected = expected + changed.rdp(accountant.orders)
    np.testing.assert_allclose(accountant.rdp, expected, rtol=1e-12)


@pytest.mark.parametrize("copied", [copy, deepcopy, lambda a: pickle.loads(pickle.dumps(a))])
def test_a_copy_goes_on_by_itself(copied) -> None:
    """If they shared what is written to, one could let through what the other may not spend."""
    relation = relations.ReplaceRecord()
    small = GaussianCost(sigma=10, relation=relation)  # 0.02 of order 2
    large = LaplaceCost(scale=2, relation=relation)
    cost = {cost: float(cost.rdp(2.0)) for cost in (small, large)}
    accountant = RdpAccountant(budget=RenyiDP(2, 1.0))
    accountant.compose(small)
    other = copied(accountant)
    _ = accountant.rdp
    accountant.compose(large)
    other.compose(small)
    for each, spent in ((accountant, cost[small] + cost[large]), (other, 2 * cost[small])):
        assert float(each.spent(2)) == pytest.approx(spent, rel=1e-12)
        for _ in range(60):
            with suppress(BudgetExceeded):
                each.compose(small)
        assert 1.0 - cost[small] < each.spent(2) <= 1.0


def test_a_subclass_has_its_own_say() -> None:
    class Doubled(DirichletCost):
        def rdp(self, orders: np.ndarray) -> np.ndarray:
            return 2 * super().rdp(orders)

    plain = DirichletCost(weight=0.1, alpha=2, relation=relations.ReplaceRecord())
    doubled = Doubled(weight=0.1, alpha=2, relation=relations.ReplaceRecord())
    accountant = composed([(doubled, 1), (plain, 3)])
    np.testing.assert_allclose(accountant.rdp, 5 * plain.rdp(accountant.orders), rtol=1e-14)


def test_a_subclass_of_several_has_its_own_say() -> None:
    class Doubled(Together):
        def rdp(self, orders: np.ndarray) -> np.ndarray:
            return 2 * super().rdp(orders)

    plain = DirichletCost(weight=0.1, alpha=2, relation=relations.ReplaceRecord())
    accountant = composed([(Doubled([plain, plain]), 3)])
    np.testing.assert_allclose(accountant.rdp, 12 * plain.rdp(accountant.orders), rtol=1e-14)


def test_bounds_are_kept_apart() -> None:
    spent = [
        (DirichletCost(weight=0.1, alpha=a, relation=relations.ReplaceRecord(), bound=bound), 1)
        for a in np.linspace(1, 3, 30)
        for bound in ("exact", "dps", "geumlek")
    ]
    accountant = composed(spent)
    np.testing.assert_allclose(accountant.rdp, added_up(spent, accountant.orders), rtol=1e-14)


def test_tables_are_kept_apart() -> None:
    relation = relations.ReplaceStep()
    spent = [
        (DirichletCost(weight=0.1, alpha=a, relation=relation, table=t), 1)
        for a in np.linspace(1, 3, 30)
        for t in ("transitions", "rewards")
    ]
    accountant = composed(spent)
    np.testing.assert_allclose(accountant.rdp, added_up(spent, accountant.orders), rtol=1e-14)


@pytest.mark.parametrize("block", [1, 2**10, 2**12])
def test_blocks_are_added_up_to_all(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However few numbers are worked out at once."""
    monkeypatch.setattr("privrl.accounting.pending._BLOCK", block)
    spent = [
        (DirichletCost(weight=0.1, alpha=a, relation=relations.ReplaceRecord()), 2)
        for a in np.linspace(1, 3, 23)
    ]
    accountant = composed(spent)
    np.testing.assert_allclose(accountant.rdp, added_up(spent, accountant.orders), rtol=1e-14)


def test_a_table_that_never_changes_costs_nothing() -> None:
    free = {"relation": relations.ReplaceTransition(), "table": "rewards"}
    spent = [(DirichletCost(weight=1, alpha=a, **free), 1) for a in np.linspace(1, 2, 50)]
    accountant = composed(spent, budget=RenyiDP(2, 1e-9))
    assert float(accountant.epsilon(1e-5)) < 1e-4
    assert np.all(accountant.rdp == 0)


# Budgets ----------------------------------------------------------------------------------------


def most_often(cost: Cost, orders: np.ndarray, budget: ApproxDP) -> np.ndarray:
    """Return the index of the order at which a cost fits as often as anywhere, in an array.

    Of several it is the one nearest to the order that is best for Gaussian noise.
    """
    more = orders - 1
    own = np.log(more) - orders * np.log1p(-1 / orders)
    fits = budget.epsilon + (math.log(budget.delta) + own) / more
    with np.errstate(divide="ignore", invalid="ignore"):
        times = np.where(fits > 0, fits / cost.rdp(orders), 0)
    enough = times >= min(max(math.floor(times.max() * (1 + 1e-9)), 1), times.max())
    from_best = np.abs(np.log(more / more[(fits / orders).argmax()]))
    return np.array([np.where(enough, from_best, np.inf).argmin()])


@pytest.mark.slow
@settings(max_examples=40)
@given(
    st.integers(0, 2**32),
    st.sampled_from(RELATIONS),
    st.sampled_from([RenyiDP(2, 1), RenyiDP(7.5, 0.2), ApproxDP(1, 1e-5), ApproxDP(0.05, 1e-3)]),
)
def test_every_answer_is_that_of_the_exact_sum(
    seed: int, relation: relations.Relation, budget: RenyiDP | ApproxDP
) -> None:
    """Some fit and some do not; releases go on after a refusal, and nothing of it is kept.

    An (epsilon, delta) budget is kept at the order at which the first release fits most often.
    """
    accountant = RdpAccountant(budget=budget)
    orders = accountant.orders
    accepted: list[tuple[Cost, int]] = []
    rdp, decides = np.zeros_like(orders), None
    for cost, count in mixed(seed, relation, 30, BOUNDS):
        more = rdp + count * cost.rdp(orders)
        if isinstance(budget, RenyiDP):
            fits = float(more[orders == budget.order][0]) / budget.epsilon - 1
        else:
            at = most_often(cost, orders, budget) if decides is None else decides
            fits = float(rdp_to_log_delta(orders[at], more[at], budget.epsilon))
            fits -= math.log(budget.delta)
            if not accepted and count == 1:
                fits = min(fits, math.log(cost.delta(budget.epsilon) / budget.delta))
        if abs(fits) < 1e-9:
            return  # as close as rounding
        try:
            accountant.compose(cost, count)
        except BudgetExceeded:
            assert fits > 0
            continue
        assert fits < 0
        accepted.append((cost, count))
        rdp = more
        if decides is None and rdp.any() and isinstance(budget, ApproxDP):
            decides = at
    exact = added_up(accepted, orders) if accepted else rdp
    np.testing.assert_allclose(accountant.rdp, exact, rtol=1e-15)


@pytest.mark.parametrize("budget", [RenyiDP(2, 1), ApproxDP(1, 1e-5)], ids=repr)
def test_a_refusal_names_the_exact_cost(budget: RenyiDP | ApproxDP) -> None:
    relation = relations.ReplaceRecord()
    spent = [(DirichletCost(weight=0.01, alpha=a, relation=relation), 1) for a in range(1, 80)]
    accountant = composed(spent, budget=budget)
    loud = DirichletCost(weight=2, alpha=3, relation=relation)
    exact, orders = added_up([*spent, (loud, 1)], accountant.orders), accountant.orders
    if isinstance(budget, RenyiDP):
        cost = float(exact[orders == 2][0])
    else:
        at = most_often(spent[0][0], orders, budget)
        cost = float(rdp_to_epsilon(orders[at], exact[at], budget.delta))
    with pytest.raises(BudgetExceeded, match=f"epsilon {up(cost, 6)}, over"):
        accountant.compose(loud)
    assert float(accountant.spent(2.0)) == pytest.approx(
        float(added_up(spent, np.array([2.0]))[0]), rel=1e-15
    )


def test_other_releases_in_between_count_against_the_budget() -> None:
    relation = relations.ReplaceRecord()
    known = DirichletCost(weight=0.1, alpha=2, relation=relation)
    other = LaplaceCost(scale=3, relation=relation)
    costs = [float(cost.rdp(2.0)) for cost in (known, other)]
    accountant = RdpAccountant(budget=RenyiDP(2, 3 * costs[0] + 2 * costs[1] + 0.5 * min(costs)))
    for cost in (known, other, known, other, known):
        accountant.compose(cost)
    for cost in (known, other):
        with pytest.raises(BudgetExceeded):
            accountant.compose(cost)


@pytest.mark.slow
@settings(max_examples=200)
@given(
    st.floats(-20, 5).map(math.exp),
    st.floats(-5, 9).map(math.exp),
    st.floats(-9, 6).map(math.exp),
    st.sampled_from(RELATIONS),
    st.sampled_from(BOUNDS[2:]),
)
def test_quick_bounds_are_bounds(
    weight: float, alpha: float, above: float, relation: relations.Relation, bound: str
) -> None:
    alpha += 0.5
    pending, order = Pending(DEFAULT_ORDERS), 1 + above
    cost = DirichletCost(weight=weight, alpha=alpha, relation=relation, bound=bound)
    noise = GaussianCost(sigma=alpha, relation=relation)
    for each in (cost, noise):
        quick, exact = pending.at_most(each, order), float(each.rdp(order))
        assert quick * (1 + 1e-9) >= exact
    tiny = weight * max(order, 1) < 1e-3 * alpha
    if tiny and alpha > 1 and bound == "exact":
        assert quick <= 1.1 * exact  # else it would not be quick in the end


def test_no_warning_however_large_the_numbers() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        spent = [
            (DirichletCost(weight=s, alpha=a, relation=relations.ReplaceRecord()), 1)
            for s in np.geomspace(1e-29, 1e29, 9)
            for a in np.geomspace(1e-29, 1e29, 9)
        ]
        accountant = composed(spent)
        assert math.isinf(float(accountant.epsilon(1e-5)))
        assert np.isinf(accountant.rdp).all()
