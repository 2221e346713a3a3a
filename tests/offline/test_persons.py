"""What leaves of persons: how much one of them changes, the law of noise, and the vote's."""

import copy
import math
import pickle
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import permutations, product
from typing import Any

import mpmath
import numpy as np
import pytest
from crowds import crowd, left_of, one_says, says
from forks import forked, needs_forks
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from privrl.accounting import releases
from privrl.accounting.rdp import BudgetExceeded, RdpAccountant
from privrl.accounting.targets import ApproxDP
from privrl.costs.base import NoPrivacy
from privrl.costs.noise import DiscreteLaplaceCost, GaussianCost, LaplaceCost
from privrl.costs.relations import (
    NORMS,
    SUMS,
    AddRemovePerson,
    Relation,
    ReplacePerson,
    ReplaceRecord,
)
from privrl.data.logs import Log
from privrl.numerics.discrete_noise import permute_and_flip
from privrl.numerics.randomness import secret_rng
from privrl.offline import persons
from privrl.offline.persons import PersonStream, person_cost

Array = np.ndarray
Added = Sequence[tuple[int, float]]  # what a person adds to a table: cells and amounts
GRAIN = 2.0**-24
FALSE_ALARM = 1e-6
LAPLACE = LaplaceCost(scale=1.0, relation=AddRemovePerson(), table=SUMS)
GAUSSIAN = GaussianCost(sigma=1.0, relation=AddRemovePerson(), table=NORMS)

both = pytest.mark.parametrize("cost", [LAPLACE, GAUSSIAN], ids=["sums", "norms"])


class Seen:
    """Stands at the gate: keeps what goes in, and says what comes out, or lets it be drawn."""

    def __init__(self, say: float | None = None) -> None:
        self.data: list[Array] = []
        self.costs: list[Any] = []
        self._say = say

    def charged(self, cost: Any) -> None:
        """Nothing is charged here."""

    def released(
        self, who: object, cost: Any, data: Array, rng: Any, draw: Callable[..., Any]
    ) -> Any:
        self.data.append(data.copy())
        self.costs.append(cost)
        return draw(data, rng) if self._say is None else np.full(data.shape, self._say)


def stream_of(n: int, cost: Any = LAPLACE, seed: int = 0, **more: Any) -> PersonStream:
    return PersonStream(crowd(n), cost, np.random.default_rng(seed), **more)


def flat(people: Sequence[Added]) -> tuple[Array, Array, Array]:
    person = np.repeat(np.arange(len(people)), [len(each) for each in people])
    cell = np.array([cell for each in people for cell, _ in each], np.intp)
    amount = np.array([amount for each in people for _, amount in each], np.float64)
    return person, cell, amount


def summed(people: Sequence[Added], n_cells: int, cost: Any = LAPLACE, **more: Any) -> Array:
    """What goes into one table, without its noise."""
    seen = Seen()
    with releases.watched_by(seen):
        stream_of(len(people), cost).update(says(*flat(people), **more), n_cells)
    return seen.data[0]


# How much one person changes --------------------------------------------------------------------


def adaptive(people: Sequence[Added], cost: Any, say: float) -> list[Array]:
    """What goes into three tables, the last a vote under sums, each as what left before says."""
    person, cell, amount = flat(people)
    stream, seen = stream_of(len(people), cost), Seen(say)
    with releases.watched_by(seen):
        first = stream.update(says(person, cell, amount, 0.4), 2)
        with np.errstate(over="ignore"):
            louder = amount * (0.7 + abs(first[0]))

        def with_room(part: Log, left: Array) -> persons.Added:
            room = np.maximum(left - 0.2, 0.05)  # of each person
            return persons.Added(person, 1 - cell, louder, room, room)

        stream.update(with_room, 2)
        if stream.sums:
            allowed, favour = np.ones((1, 2), np.bool_), np.array([[0.0, 1e12 * say]])
            stream.vote(says(person, cell, amount - say, 0.9), allowed, favour)
        else:
            stream.update(says(person, cell, amount - say, 0.9), 2)
        stream.update(says(person, cell, np.ones(len(person))), 2)  # what is left
    return seen.data


AMOUNTS = (-2.0, 0.3, 1.0, 1e-9, 1e-310, 1.7e308, math.inf, math.nan)
PEOPLE: list[Added] = [
    *([(0, a), (c, b)] for a, b, c in product(AMOUNTS, AMOUNTS, (0, 1))),
    [],
    [(0, 0.1)],
    [(1, 1e-3)] * 400,
    [(0, 0.51), (0, -0.5)] * 50,
]


def moved(one: list[Array], other: list[Array], cost: Any) -> Fraction:
    """By how much all inputs differ, exactly: in sum, or in squared norm."""
    changes = np.concatenate(one) - np.concatenate(other)
    assert np.isfinite(changes).all()
    power = 2 if isinstance(cost, GaussianCost) else 1
    return sum((abs(Fraction(float(c))) ** power for c in changes), Fraction(0))


@pytest.mark.slow
@both
@pytest.mark.parametrize("say", [0.0, -0.6, 3.0])
def test_a_person_changes_all_tables_by_one_budget(cost: Any, say: float) -> None:
    others: list[Added] = [[(0, 1.0)], [(1, -0.2), (0, 0.3)]]
    before, most = adaptive(others, cost, say), Fraction(0)
    for each in PEOPLE:
        for place in (0, 2):
            there = [*others[:place], each, *others[place:]]
            change = moved(adaptive(there, cost, say), before, cost)
            assert change <= 1, each
            most = max(most, change)
    assert most > 0.999  # it is what the noise is for


@both
def test_a_replaced_person_changes_two_budgets(cost: Any) -> None:
    few: list[Added] = [*PEOPLE[::5], [(0, 5.0)], [(0, -5.0)]]
    all_of_them = [adaptive([[(1, 0.4)], each], cost, -0.6) for each in few]
    allowed = 4 if cost is GAUSSIAN else 2  # the norm is 2
    most = max(moved(a, b, cost) for a in all_of_them for b in all_of_them)
    assert 0.99 * allowed < most <= allowed


def test_without_budgets_the_brute_force_sees_it(monkeypatch: pytest.MonkeyPatch) -> None:
    whole: Any = persons.pay

    def forgets(part: Log, left: Array, *given: Any) -> Any:
        return whole(part, persons.full(part, "sums"), *given)

    monkeypatch.setattr(persons, "pay", forgets)
    there, gone = ([[(0, 1.0)] * n] for n in (3, 0))
    assert moved(adaptive(there, LAPLACE, 0.0), adaptive(gone, LAPLACE, 0.0), LAPLACE) > 1.3


@pytest.mark.slow
@both
@given(data=st.data())
def test_budgets(cost: Any, data: st.DataObject) -> None:
    """They only get emptier, by what goes in, and by no more than the most that is said."""
    n = data.draw(st.integers(1, 4))
    amounts = st.floats(-3, 3) | st.sampled_from(AMOUNTS)
    added = st.lists(st.tuples(st.integers(0, 3), amounts), max_size=6)
    stream, seen = stream_of(n, cost), Seen(0.0)
    spent = np.zeros(n)
    with releases.watched_by(seen):
        for _ in range(data.draw(st.integers(1, 4))):
            people = [data.draw(added) for _ in range(n)]
            person, cell, amount = flat(people)
            most = np.array([data.draw(st.floats(0, 1)) for _ in range(n)])
            before = left_of(stream)
            stream.update(says(person, 4 * person + cell, amount, 0.8, most), 4 * n)
            inside = np.abs(seen.data[-1].reshape(n, 4))
            after = left_of(stream)
            paid = before - after
            assert (paid >= 0).all()
            assert (after >= 0).all()
            assert (paid <= most * (1 + 1e-12)).all()
            sizes = (inside**2 if cost is GAUSSIAN else inside).sum(axis=1)
            assert (sizes <= paid).all()  # equal, but for what cancels in a cell
            spent += sizes
    assert (spent <= 1).all()


@pytest.mark.slow
@given(
    people=st.lists(
        st.lists(st.tuples(st.integers(0, 2), st.floats(-2, 2)), max_size=4), max_size=6
    ),
    seed=st.integers(0, 9),
)
def test_sums_do_not_depend_on_order_or_parts(people: list[Added], seed: int) -> None:
    whole = summed(people, 3)
    order = np.random.default_rng(seed).permutation(len(people))
    np.testing.assert_array_equal(summed([people[i] for i in order], 3), whole)
    parts = [summed(part, 3) for part in (people[:seed], people[seed:])]
    np.testing.assert_array_equal(sum(parts), whole)
    np.testing.assert_array_equal(whole / GRAIN, np.rint(whole / GRAIN))


@both
def test_amounts_are_rounded_towards_zero(cost: Any) -> None:
    amounts = [1.9, -1.9, 0.99, -0.99, 3.0]
    people = [[(cell, amount * GRAIN)] for cell, amount in enumerate(amounts)]
    np.testing.assert_array_equal(summed(people, 5, cost) / GRAIN, [1, -1, 0, 0, 3])


@both
def test_who_would_pay_too_much_is_scaled_down(cost: Any) -> None:
    inside = summed([[(0, 30.0), (1, -40.0)]], 2, cost)
    expected = [3 / 7, -4 / 7] if cost is LAPLACE else [0.6, -0.8]
    np.testing.assert_allclose(inside, expected, atol=1e-6)


def test_a_share_is_of_the_budget() -> None:
    """Of squares under norms: so a quarter of a budget lets an amount of a half through."""
    for cost, through in ((LAPLACE, 0.25), (GAUSSIAN, 0.5)):
        np.testing.assert_allclose(summed([[(0, 1.0)]], 1, cost, most=0.25), through, atol=1e-6)


@pytest.mark.parametrize("size", ["sums", "norms"])
def test_part_of_a_log_pays_whatever_numpy_is_told_of_underflows(size: Any) -> None:
    """A worker of a cluster calls this by itself: a warning there would tell of amounts."""
    log = crowd(1)
    adds = says(np.zeros(1, np.intp), np.zeros(1, np.intp), np.array([1e300]), most=5e-324)
    with np.errstate(all="raise"):
        grains, left = persons.pay(log, persons.full(log, size), adds, 2, size)
    assert (grains == 0).all()
    assert (left > 0).all()


@both
@pytest.mark.parametrize("amount", [1.0, -1e300, math.nan, math.inf])
@pytest.mark.parametrize("unit", [1.0, -1.0, math.nan, math.inf, 5e-324])
@pytest.mark.parametrize("most", [-1.0, -math.inf, math.nan, math.inf, 0.0, -5e-324])
def test_no_most_or_unit_gives_more_than_a_budget(
    cost: Any, amount: float, unit: float, most: float
) -> None:
    """What was left was no number after a negative most, and all that came later was free."""
    stream, seen = stream_of(1, cost), Seen(0.0)
    nobody = np.zeros(1, np.intp)
    with releases.watched_by(seen):
        for cell, each in ((0, amount), (1, 7.0)):
            own = {"unit": unit, "most": most} if cell == 0 else {}
            stream.update(says(nobody, nobody + cell, np.array([each]), **own), 2)
    inside = np.abs(seen.data)
    assert (inside**2 if cost is GAUSSIAN else inside).sum() <= 1
    assert 0 <= left_of(stream)[0] <= 1


def test_each_has_their_own_unit() -> None:
    people = [[(0, 0.5)], [(1, 0.5)]]
    np.testing.assert_array_equal(summed(people, 2, unit=np.array([0.5, 0.25])), [0.25, 0.125])


def test_amounts_that_cancel_in_a_cell_leave_budgets_whole() -> None:
    """Rounded one by one they came to more than was asked for, and more than was left."""
    stream, seen = stream_of(1, GAUSSIAN), Seen(0.0)
    none, many = np.zeros(1, np.intp), np.zeros(12_000, np.intp)
    amount = np.tile([1.0, -0.9], 6000) * GRAIN
    with releases.watched_by(seen):
        stream.update(says(none, none, np.array([1 - GRAIN])), 1)
        stream.update(says(many, many, amount), 1)
    assert sum(Fraction(float(each[0])) ** 2 for each in seen.data) <= 1
    assert seen.data[1][0] == pytest.approx(600 * GRAIN, abs=2 * GRAIN)


@both
def test_narrow_integers_do_not_overflow(cost: Any) -> None:
    person: Any = np.array([0, 1, 2], np.int8)
    cell: Any = np.array([99, 98, 97], np.int8)
    seen = Seen(0.0)
    with releases.watched_by(seen):
        stream_of(3, cost).update(says(person, cell, np.array([0.5, 0.25, 1.0])), 100)
    np.testing.assert_array_equal(seen.data[0][97:], [1.0, 0.25, 0.5])


def test_a_grain_is_a_grain_beside_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is known of a vote may be larger than floats hold to the unit."""
    scores: list[Array] = []

    def kept(given: Array, *_: Any) -> Array:
        scores.append(given)
        return np.zeros(1, np.intp)

    monkeypatch.setattr(persons, "permute_and_flip", kept)
    allowed, favour = np.ones((1, 2), np.bool_), np.array([[2.0**31, 1e300]])
    for amount in (0.0, GRAIN, 3 * GRAIN):
        stream_of(1).vote(one_says(amount), allowed, favour)
    assert [int(each[0, 0] - scores[0][0, 0]) for each in scores] == [0, 1, 3]
    assert all(int(each[0, 1]) == 2**60 for each in scores)


# The law of what leaves -------------------------------------------------------------------------


@pytest.mark.few(6)
@pytest.mark.parametrize("scale", [0.5, 1.0, 300.0])
@pytest.mark.parametrize(("cost", "law"), [(LAPLACE, stats.laplace), (GAUSSIAN, stats.norm)])
def test_law_of_tables(cost: Any, law: Any, scale: float) -> None:
    """Kolmogorov and Smirnov on 120,000 cells; 5 % less or more noise is seen."""
    size = "scale" if cost is LAPLACE else "sigma"
    drawn = []
    for factor in (1.0, 0.95, 1.05):
        given = {"relation": cost.relation, "table": cost.table, size: scale * factor}
        stream = stream_of(1, type(cost)(**given), seed=3)
        n = 120_000
        table = stream.update(one_says(0.5, cell=7), n)
        np.testing.assert_array_equal(table / GRAIN, np.rint(table / GRAIN))
        table[7] -= 0.5
        drawn.append(table / scale)
        assert stream.noise == pytest.approx(law.std() * scale * factor)
    right, *wrong = [stats.kstest(each, law.cdf).pvalue for each in drawn]
    assert right > FALSE_ALARM
    assert max(wrong) < FALSE_ALARM


def test_a_grid_is_no_dearer_than_the_line() -> None:
    """One grain of a person, at a scale of t grains: the worst that can be seen of it.

    Its likelihoods move by ``±1/(t + 1/4)``. The Laplace pair that says as much is of a distance
    ``2 log((1 + e) / 2)`` with that ratio ``e``; it must not be more than ``1/t``.
    """
    with mpmath.workdps(60):
        for power in range(-20, 80):
            t = mpmath.mpf(2) ** (mpmath.mpf(power) / 2)
            on_grid, bare = (
                2 * mpmath.log((1 + mpmath.exp(1 / each)) / 2) for each in (t + 0.25, t)
            )
            assert on_grid <= 1 / t < bare


@pytest.mark.parametrize("t", [0.5, 1.0, 4.0, 100.0])
@pytest.mark.parametrize("amount", [1, 2, 7])
def test_divergences_of_the_grid_are_those_of_the_line_at_most(t: float, amount: int) -> None:
    relation = Relation("so many grains", {"grains": [(amount,)]})
    orders = np.array([1.01, 1.5, 2.0, 8.0, 100.0])
    line = LaplaceCost(scale=t, relation=relation).rdp(orders)
    drawn = DiscreteLaplaceCost(scale=t + 0.25, relation=relation).rdp(orders)
    assert (drawn <= line * (1 + 1e-11)).all()
    if t <= 4:
        bare = DiscreteLaplaceCost(scale=t, relation=relation).rdp(orders)
        assert (bare > line)[:3].all()


def test_tables_are_drawn_with_a_quarter_of_a_grain_more(monkeypatch: pytest.MonkeyPatch) -> None:
    scales = []

    def kept(scale: float, shape: Any, rng: Any) -> Array:
        scales.append(scale)
        return np.zeros(shape, np.int64)

    monkeypatch.setattr(persons, "discrete_laplace", kept)
    stream_of(1).update(one_says(), 1)
    assert scales == [2**24 + 0.25]


def chances(scores: Array) -> Array:
    """Chances of permute-and-flip at scale 1, for rows of scores; in order of the options."""
    heads = np.exp(scores - scores.max(axis=1, keepdims=True))
    k = scores.shape[1]
    found = np.empty(scores.shape)
    for j in range(k):
        others = np.delete(heads, j, axis=1)
        # ∫ ∏ (1 − u p) du over u from 0 to 1, the place of j: sums over who came before.
        total = np.zeros(len(scores))
        for chosen in product((0, 1), repeat=k - 1):
            size = sum(chosen)
            total += (-1) ** size * (others ** np.array(chosen)).prod(axis=1) / (size + 1)
        found[:, j] = heads[:, j] * total
    return found


def by_orders(scores: Sequence[float]) -> list[float]:
    """The same, order by order."""
    heads = [math.exp(score - max(scores)) for score in scores]
    found = [0.0] * len(scores)
    orders = list(permutations(range(len(scores))))
    for order in orders:
        left = 1.0
        for j in order:
            found[j] += left * heads[j] / len(orders)
            left *= 1 - heads[j]
    return found


def noisy_maxima(scores: Sequence[float]) -> list[float]:
    """The same, as the largest score plus exponential noise: by quadrature."""
    steps = sorted({*scores})

    def density(y: Any, j: int) -> Any:
        others = (1 - mpmath.exp(min(0, q - y)) for i, q in enumerate(scores) if i != j)
        return mpmath.exp(scores[j] - y) * mpmath.fprod(others)

    return [
        float(
            mpmath.quad(
                lambda y, j=j: density(y, j), [s for s in steps if s >= scores[j]] + [mpmath.inf]
            )
        )
        for j in range(len(scores))
    ]


@pytest.mark.parametrize("scores", [(0, 0), (2, 0), (0, 1, 1), (3, 1, 0), (0, 0.5, 0.5, 4)])
def test_permute_and_flip_is_the_largest_with_exponential_noise(scores: tuple[float, ...]) -> None:
    np.testing.assert_allclose(chances(np.array([scores]))[0], by_orders(scores), atol=1e-12)
    np.testing.assert_allclose(noisy_maxima(scores), by_orders(scores), atol=1e-9)


@pytest.mark.parametrize("scores", [(3, 1, 0), (0, 0, 0), (5, 5, 2, -4), (0, 7)])
def test_law_of_permute_and_flip(scores: tuple[int, ...]) -> None:
    """Chi-squared on 60,000 choices; a scale that is 8 % off is seen, but where all are equal."""
    scale, n = 2.5, 60_000
    rows = np.tile(np.array([*scores, 99]), (n, 1))
    allowed = np.ones(rows.shape, np.bool_)
    allowed[:, -1] = False
    expected = n * chances(np.array([scores]) / scale)[0]
    for factor in (1.0, 0.92, 1.08):
        rng = np.random.default_rng(5)
        chosen = permute_and_flip(rows, allowed, scale * factor, rng)
        assert chosen.max() < len(scores)
        seen = np.bincount(chosen, minlength=len(scores))
        p_value = stats.chisquare(seen, expected).pvalue
        is_right = factor == 1 or len(set(scores)) == 1
        assert (p_value > FALSE_ALARM) == is_right, (factor, p_value)


def test_law_of_a_vote() -> None:
    """Chi-squared on 60,000 rows, of sums and of what is known."""
    n, unit = 60_000, 0.5
    people: list[Added] = [[(1, 0.4), (2, 0.2)], [(0, -0.6)]]
    allowed = np.tile([True, True, True, False], (n, 1))
    favour = np.tile([1.0, 0.0, 0.3, 1e9], (n, 1))
    cost = LaplaceCost(scale=0.25, relation=AddRemovePerson(), table=SUMS)
    stream = stream_of(2, cost, seed=2)
    # The same votes in every row would cost a budget each: they are known in all but the first.
    favour[1:, :3] += [-0.6, 0.4, 0.2]
    chosen = stream.vote(says(*flat(people), unit), allowed, favour * unit)
    expected = n * chances(np.array([[0.4, 0.4, 0.5]]) * unit / 0.25)[0]
    assert stats.chisquare(np.bincount(chosen, minlength=3), expected).pvalue > FALSE_ALARM
    wrong = n * chances(np.array([[0.4, 0.4, 0.5]]) * unit / 0.125)[0]
    assert stats.chisquare(np.bincount(chosen, minlength=3), wrong).pvalue < FALSE_ALARM


def logs_of_chances(k: int) -> dict[tuple[int, ...], Array]:
    scores = np.array(list(product(range(5 if k < 4 else 4), repeat=k)), float) * 0.5
    return {
        tuple((2 * row).astype(int)): each
        for row, each in zip(scores, np.log(chances(scores)), strict=True)
    }


@pytest.mark.few(4)
@pytest.mark.parametrize("k", [2, 3, 4])
def test_a_vote_hides_a_change_by_its_sum(k: int) -> None:
    """Of any number of scores at once, with ties; by half of it would not do."""
    logs = logs_of_chances(k)
    worst = 0.0
    for one, before in logs.items():
        for other, after in logs.items():
            size = sum(abs(a - b) for a, b in zip(one, other, strict=True)) / 2
            if size:
                loss = np.abs(after - before).max()
                assert loss <= size + 1e-11, (one, other)
                worst = max(worst, loss / size)
    assert worst > 0.99


# What a stream is for, and what it refuses ------------------------------------------------------


def test_it_is_charged_once_before_anything_leaves() -> None:
    accountant, seen = RdpAccountant(), Seen()
    with releases.watched_by(seen):
        stream = stream_of(1, accountant=accountant)
        charged = accountant.rdp.copy()
        np.testing.assert_allclose(charged, LAPLACE.rdp(accountant.orders))
        for _ in range(3):
            stream.update(one_says(unit=0.2), 1)
        stream.vote(one_says(unit=0.2), np.ones((1, 2), np.bool_), np.zeros((1, 2)))
    np.testing.assert_array_equal(accountant.rdp, charged)
    assert seen.costs == [LAPLACE, None, None, None]


def test_a_refused_stream_is_none() -> None:
    accountant = RdpAccountant(budget=ApproxDP(0.1, 1e-6))
    for cost in (LAPLACE, NoPrivacy(AddRemovePerson())):
        with pytest.raises(BudgetExceeded):
            stream_of(1, cost, accountant=accountant)
    assert not accountant.rdp.any()


def test_it_cannot_be_copied_or_saved() -> None:
    stream = stream_of(1)
    for twice in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="two of them would spend one budget"):
            twice(stream)


def test_it_shows_nothing_private() -> None:
    assert repr(stream_of(17)) == f"PersonStream({LAPLACE!r})"


@pytest.mark.parametrize(
    ("cost", "match"),
    [
        (LaplaceCost(scale=1.0, relation=ReplaceRecord()), "of AddRemovePerson"),
        (GaussianCost(sigma=1.0, relation=AddRemovePerson(), table=SUMS), "the table NORMS"),
        (GaussianCost(sigma=1.0, relation=ReplaceRecord()), "of AddRemovePerson"),
        (
            LaplaceCost(scale=1.0, relation=Relation("mine", {SUMS: [(0.1,)]}), table=SUMS),
            "of AddRemovePerson",
        ),
        (DiscreteLaplaceCost(scale=1.0, relation=ReplaceRecord()), "must be a LaplaceCost"),
        (LaplaceCost(scale=2.0**16, relation=ReplacePerson(), table=SUMS), "from 2"),
        (GaussianCost(sigma=1e-7, relation=ReplacePerson(), table=NORMS), "from 2"),
    ],
)
def test_costs_of_something_else_are_refused_before_the_charge(cost: Any, match: str) -> None:
    accountant = RdpAccountant()
    with pytest.raises(ValueError, match=match):
        stream_of(1, cost, accountant=accountant)
    assert not accountant.rdp.any()


@pytest.mark.parametrize("scale", [2.0**-20, 2.0**15.5])
def test_the_ends_of_the_range_can_be_drawn(scale: float) -> None:
    laplace = LaplaceCost(scale=scale, relation=ReplacePerson(), table=SUMS)
    gaussian = GaussianCost(sigma=scale, relation=ReplacePerson(), table=NORMS)
    for cost in (laplace, gaussian):
        assert stream_of(1, cost).update(one_says(), 3).shape == (3,)
    stream_of(1, laplace).vote(one_says(), np.ones((1, 2), np.bool_), np.zeros((1, 2)))


def test_places_that_are_not_there_are_refused_and_cost_nothing() -> None:
    stream, one = stream_of(2), np.ones(1)
    for person, cell in ((2, 0), (-1, 0), (0, 3), (0, -1)):
        with pytest.raises(ValueError, match="must be a whole number from 0"):
            stream.update(says(np.array([person]), np.array([cell]), one), 3)
    np.testing.assert_array_equal(left_of(stream), 1.0)


def test_a_vote_wants_sums() -> None:
    one, stream = np.ones((1, 1)), stream_of(1, GAUSSIAN)
    with pytest.raises(ValueError, match="a vote must be paid by sums"):
        stream.vote(one_says(), one > 0, one)


@pytest.mark.parametrize("cost", [LAPLACE, GAUSSIAN, NoPrivacy(AddRemovePerson())], ids=repr)
def test_nobody(cost: Any) -> None:
    stream, none = stream_of(0, cost), np.empty(0, np.intp)
    assert stream.update(says(none, none, np.empty(0)), 4).shape == (4,)
    assert left_of(stream).shape == (0,)


def test_without_privacy_all_is_exact() -> None:
    stream = stream_of(2, NoPrivacy(AddRemovePerson()))
    person, cell = np.array([0, 0, 1]), np.array([1, 1, 0])
    amount = np.array([0.1, 7.0, -3.0])
    np.testing.assert_array_equal(stream.update(says(person, cell, amount), 3), [-3.0, 7.1, 0.0])
    assert stream.noise == 0
    allowed = np.array([[True, True], [True, False]])
    favour = np.array([[20.0, 0.0], [0.0, 99.0]])
    chosen = stream.vote(says(person, cell, amount), allowed, favour)
    np.testing.assert_array_equal(chosen, [0, 0])


# One process --------------------------------------------------------------------------------------


@pytest.mark.few(2)
@needs_forks
@pytest.mark.parametrize("make", [secret_rng, np.random.default_rng])
def test_a_stream_stays_in_its_process(make: Any) -> None:
    rng = make()
    stream = PersonStream(crowd(3), LAPLACE, rng)
    scores = np.ones((1, 1), bool), np.zeros((1, 1))
    for ask in (lambda: stream.update(one_says(), 1), lambda: stream.vote(one_says(), *scores)):
        assert "in the process that" in str(forked(ask))

    def begin() -> float:
        accountant = RdpAccountant()
        with pytest.raises(ValueError, match="in the process that"):
            PersonStream(crowd(3), LAPLACE, rng, accountant)
        return float(accountant.spent(2.0))

    assert forked(begin) == 0
    stream.update(one_says(), 1)


@needs_forks
def test_a_stream_stays_though_its_generator_is_replaced() -> None:
    stream = PersonStream(crowd(3), LAPLACE, secret_rng())

    def go_on() -> None:
        stream._rng = secret_rng()
        stream.update(one_says(), 1)

    assert "a stream about persons must" in str(forked(go_on))


@pytest.mark.parametrize("order", [None, 2.0])
def test_relations_with_changes_of_their_own_are_refused(order: float | None) -> None:
    """With a hundredth of the noise the same was stated: its name, and the epsilon."""

    class Hardly(AddRemovePerson):
        def __init__(self) -> None:
            changes = {SUMS: [(0.01,)], NORMS: [(0.01,)]}
            Relation.__init__(self, str(AddRemovePerson()), changes, norm_only=[NORMS])

    class Free(LaplaceCost):
        def rdp(self, orders: Any) -> Any:
            return np.zeros(np.shape(orders))

    with pytest.raises(ValueError, match=r"relation must be AddRemovePerson\(\)"):
        person_cost(1.0, Hardly(), order=order)
    with pytest.raises(ValueError, match="cost must be a LaplaceCost"):
        PersonStream(crowd(3), Free(scale=1.0, relation=AddRemovePerson(), table=SUMS))
    with pytest.raises(ValueError, match=r"of AddRemovePerson\(\) or ReplacePerson\(\)"):
        PersonStream(crowd(3), LaplaceCost(scale=0.01, relation=Hardly(), table=SUMS))
