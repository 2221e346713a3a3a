"""The contract of every sampler: a new one is one more line in ALL_SAMPLERS."""

import copy
import pickle
from collections import Counter
from itertools import count
from typing import NoReturn

import numpy as np
import pytest
from interrupts import Interrupter
from scipy import stats

from privrl.accounting import releases
from privrl.accounting.ledger import Ledger
from privrl.accounting.rdp import BudgetExceeded, RdpAccountant
from privrl.accounting.targets import ApproxDP, RenyiDP
from privrl.agents.rewards import BetaRewards
from privrl.agents.setup import self_loops
from privrl.audit import audit_replay
from privrl.costs.base import NoPrivacy
from privrl.costs.dirichlet import DirichletCost
from privrl.costs.noise import GaussianCost
from privrl.costs.relations import (
    DAMPED,
    DAMPED_REWARDS,
    ReplaceEpisode,
    ReplaceStep,
    ReplaceTransition,
)
from privrl.samplers.base import GRID, LARGEST_TOTAL, PaidSampler, Sampler, check_table, draw, stack
from privrl.samplers.dirichlet import Concentrated, Diffuse, DirichletSampler
from privrl.samplers.factorisations import LocalNoise, factorise
from privrl.samplers.noisy_counts import NoisyCounts, NonPrivate
from privrl.samplers.sparse_counts import SparseCounts

ALL_SAMPLERS = [
    Diffuse(weight=0.2, alpha=2.0),
    Diffuse(weight=0.5, alpha=1e-3, table="rewards"),
    Concentrated(alpha=30.0),
    Diffuse(weight=0.01, alpha=0.7, relation=ReplaceEpisode(30)),
    Diffuse(weight=0.2, alpha=2.0, window=3),
    Concentrated(alpha=30.0, window=2),
    NoisyCounts(sigma=2.0, updates=9),
    NoisyCounts(sigma=2.0, updates=9, factorisation="tree", table="rewards"),
    NoisyCounts(sigma=2.0, updates=9, factorisation="buffered"),
    NoisyCounts(
        sigma=2.0,
        updates=5,
        factorisation=LocalNoise((5, 1, 2, 3, 4)),
        relation=ReplaceEpisode(30),
    ),
    SparseCounts(sigma=2.0, releases=(1, 2, 8)),
    NonPrivate(),
]
each_sampler = pytest.mark.parametrize("sampler", ALL_SAMPLERS, ids=repr)
COUNTS = np.array([[0.0, 3.0, 1.0], [40.0, 0.0, 0.0]])


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@each_sampler
def test_update_returns_rows_of_probabilities(sampler: Sampler) -> None:
    posterior = sampler.fresh().update(COUNTS, rng())
    rows = posterior.sample(rng(1))
    assert rows.shape == COUNTS.shape
    assert (rows >= 0).all()
    np.testing.assert_allclose(rows.sum(-1), 1, rtol=1e-12)


@each_sampler
def test_batches_add_up(sampler: Sampler) -> None:
    at_once = sampler.fresh()
    at_once.update(np.zeros_like(COUNTS), rng(5))
    one_by_one = sampler.fresh()
    one_by_one.update(COUNTS, rng(5))
    total = at_once.update(3 * COUNTS, rng(6)).sample(rng())
    split = one_by_one.update(2 * COUNTS, rng(6)).sample(rng())
    np.testing.assert_array_equal(total, split)


@each_sampler
def test_fresh_has_seen_nothing(sampler: Sampler) -> None:
    used = sampler.fresh()
    used.update(COUNTS, rng())
    again = used.fresh().update(np.zeros_like(COUNTS), rng(3)).sample(rng())
    never = sampler.fresh().update(np.zeros_like(COUNTS), rng(3)).sample(rng())
    np.testing.assert_array_equal(again, never)


@each_sampler
def test_draw_tells_the_accountant(sampler: Sampler) -> None:
    accountant = RdpAccountant()
    draw(accountant, [(sampler.fresh(), COUNTS)], rng())
    assert sampler.cost is not None
    spent = sampler.cost.rdp(accountant.orders)
    np.testing.assert_allclose(accountant.rdp, spent, rtol=1e-14)


@each_sampler
def test_a_sampler_named_twice_is_refused_before_it_is_paid_for(sampler: Sampler) -> None:
    """Its first update may refuse the second one, when the accountant was charged for both."""
    accountant, used = RdpAccountant(), sampler.fresh()
    with pytest.raises(ValueError, match="updates must name each sampler once"):
        draw(accountant, [(used, COUNTS), (used, COUNTS)], rng())
    inside = Diffuse(alpha=2.0, table="rewards")
    twice = [(inside, np.ones((3, 2, 3))), (BetaRewards(inside), np.ones((3, 2, 2)))]
    with pytest.raises(ValueError, match="updates must name each sampler once"):
        draw(accountant, twice, rng())
    assert len(accountant.journal) == 0
    draw(accountant, [(used, COUNTS)], rng())  # it was not invalidated


@each_sampler
def test_a_refused_draw_leaves_sampler_and_accountant_alone(sampler: Sampler) -> None:
    accountant = RdpAccountant(budget=RenyiDP(2, 1e-9))
    used = sampler.fresh()
    with pytest.raises(BudgetExceeded, match="nothing was spent"):
        draw(accountant, [(used, COUNTS)], rng())
    assert (accountant.rdp == 0).all()
    again = used.update(np.zeros_like(COUNTS), rng(3)).sample(rng())
    never = sampler.fresh().update(np.zeros_like(COUNTS), rng(3)).sample(rng())
    np.testing.assert_array_equal(again, never)


@pytest.mark.parametrize("sampler", ALL_SAMPLERS[:-1], ids=repr)  # those with a finite cost
def test_one_table_too_dear_refuses_both(sampler: Sampler) -> None:
    """Two tables that fit the budget one by one, but not together."""
    assert sampler.cost is not None
    once = float(sampler.cost.rdp(1.001))
    accountant = RdpAccountant(budget=RenyiDP(1.001, 1.5 * once))
    with pytest.raises(BudgetExceeded):
        draw(accountant, [(sampler.fresh(), COUNTS), (sampler.fresh(), COUNTS)], rng())
    assert (accountant.rdp == 0).all()


@each_sampler
@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf, -np.inf])
def test_bad_counts_are_refused(sampler: Sampler, bad: float) -> None:
    with pytest.raises(ValueError, match="counts"):
        sampler.fresh().update(np.array([[1.0, bad, 0.0]]), rng())


@pytest.mark.parametrize("small", [0, 100])
@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf, GRID / 2, LARGEST_TOTAL])
def test_small_tables_are_checked_as_large_ones_are(
    small: int, bad: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large ones where they are filled alone; a sum with what was there before is checked too."""
    monkeypatch.setattr("privrl.samplers.base._SMALL", small)
    used = Diffuse(weight=0.1)
    used.update(np.array([[1.0, 5.0, 0.0]]), rng())
    used.check(np.array([[0.0, LARGEST_TOTAL - 6, 0.0]]))
    used.check(np.zeros((1, 3)))
    for counts in ([[1.0, bad, 0.0]], [[0.0, 0.0, bad]], [[0.0, LARGEST_TOTAL - 5, 0.0]]):
        with pytest.raises(ValueError, match="counts"):
            used.check(np.array(counts))


@pytest.mark.few(25)
@each_sampler
@pytest.mark.parametrize("place", [0, 2])
def test_one_record_changes_nothing_but_what_is_paid_for(sampler: Sampler, place: int) -> None:
    """Replayed with each change of its relation in one batch of three: same charges, same words."""
    cost = sampler.cost
    assert cost is not None
    table = getattr(cost, "table", None)
    batches = [np.full((2, 3), 40.0), np.arange(6.0).reshape(2, 3), np.full((2, 3), 40.0)]

    def pipeline(data: list[np.ndarray]) -> object:
        used, accountant, generator = sampler.fresh(), RdpAccountant(), rng()
        shown = []
        for batch in data:
            (posterior,) = draw(accountant, [(used, batch)], generator)
            shown.append((posterior.sample(generator), used.cost, repr(used)))
        return shown, accountant.rdp

    for vector in cost.relation.changes(table):
        other = [batch.copy() for batch in batches]
        other[place].ravel()[: len(vector)] += vector
        result = audit_replay(pipeline, batches, other)
        assert not result.violated, result.findings
        assert result.releases == 3


@each_sampler
def test_huge_counts_give_no_nan(sampler: Sampler) -> None:
    rows = sampler.fresh().update(np.array([[1e11, 0.0, 3.0]]), rng()).sample(rng())
    assert np.isfinite(rows).all()


# --- the law of a draw -------------------------------------------------------------------
# Kolmogorov-Smirnov on 100,000 draws of one cell's Beta marginal, false-alarm rate 1e-6.


def _p_value(sampler: DirichletSampler, weight: float, alpha: float) -> float:
    counts = np.tile([1.0, 12.0, 0.0], (100_000, 1))
    cell = sampler.fresh().update(counts, rng(11)).sample(rng())[:, 1]
    mine, all_cells = weight * 12 + alpha, weight * 13 + 3 * alpha
    return float(stats.kstest(cell, stats.beta(mine, all_cells - mine).cdf).pvalue)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sampler", "weight", "alpha"),
    [
        (Diffuse(weight=0.2, alpha=2.0), 0.2, 2.0),
        (Diffuse(weight=0.1, alpha=0.3), 0.1, 0.3),
        (Concentrated(alpha=30.0), 1.0, 30.0),
    ],
    ids=repr,
)
def test_marginals(sampler: DirichletSampler, weight: float, alpha: float) -> None:
    assert _p_value(sampler, weight, alpha) > 1e-6
    # Power: a weight a quarter larger with a prior a tenth smaller must be caught.
    assert _p_value(sampler, 1.25 * weight, 0.9 * alpha) < 1e-6


# --- stacks -----------------------------------------------------------------------------


def test_a_stack_is_its_rows_side_by_side() -> None:
    rows = [Diffuse(weight=0.1, alpha=1.0), Concentrated(alpha=7.0), Diffuse(alpha=3.0)]
    both = stack(rows)
    np.testing.assert_array_equal(both.weight, [0.1, 1.0, 1.0])
    np.testing.assert_array_equal(both.alpha, [1.0, 7.0, 3.0])
    assert both.cost.rdp([2.0, 3.0]).shape == (3, 2)
    np.testing.assert_allclose(both.cost.rdp([2.0])[1], rows[1].cost.rdp([2.0]), rtol=1e-14)
    counts = np.tile([5.0, 0.0], (3, 4, 2, 1))
    huge = both.update(counts * 1e9, rng()).sample(rng())
    assert huge.shape == counts.shape
    np.testing.assert_allclose(huge[..., 0], 1, atol=1e-6)


def test_budgets_of_a_stack_are_kept_row_by_row() -> None:
    rows = [Diffuse(weight=0.1), Diffuse(weight=0.2), Diffuse(weight=0.3)]
    cheap, dear = (float(row.cost.rdp(2.0)) for row in rows[:2])
    accountant = RdpAccountant(budget=[RenyiDP(2, 2 * cheap), RenyiDP(2, 1.5 * dear), None])
    sampler = stack(rows)
    counts = np.zeros((3, 2, 2))
    draw(accountant, [(sampler, counts)], rng())
    with pytest.raises(BudgetExceeded, match="row 1"):
        draw(accountant, [(sampler, counts)], rng())
    np.testing.assert_allclose(accountant.spent(2.0)[:2], [cheap, dear])


# --- calibration ------------------------------------------------------------------------


@pytest.mark.few(36)
@pytest.mark.parametrize("kind", [Diffuse, Concentrated])
@pytest.mark.parametrize(
    "target", [RenyiDP(2, 0.1), RenyiDP(8, 1.0), ApproxDP(1.0, 1e-6)], ids=repr
)
@pytest.mark.parametrize(
    "relation", [ReplaceTransition(), ReplaceStep(), ReplaceEpisode(10)], ids=str
)
@pytest.mark.parametrize("draws", [1, 40])
def test_calibrated_draws_fit_the_budget_and_not_one_more(kind, target, relation, draws) -> None:
    sampler = kind.calibrated(target, draws=draws, alpha=1.0, relation=relation)
    accountant = RdpAccountant(budget=target)
    for _ in range(draws):
        accountant.compose(sampler.cost)
    with pytest.raises(BudgetExceeded):
        accountant.compose(sampler.cost)


def test_a_large_budget_leaves_the_ordinary_posterior() -> None:
    generous = RenyiDP(2, 1e6)
    assert Diffuse.calibrated(generous, draws=1, alpha=10).weight == 1.0
    assert Concentrated.calibrated(generous, draws=1, alpha=10).alpha == 10.0


def test_a_table_that_no_neighbour_changes_is_left_alone() -> None:
    for kind in (Diffuse, Concentrated):
        sampler = kind.calibrated(
            RenyiDP(2, 1e-3), draws=5, alpha=2.0, relation=ReplaceTransition(), table="rewards"
        )
        assert (sampler.weight, sampler.alpha) == (1.0, 2.0)
        assert (sampler.cost.rdp([2.0, 50.0]) == 0).all()


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
def test_bad_parameters(bad: float) -> None:
    with pytest.raises(ValueError, match="weight must be"):
        Diffuse(weight=bad)
    with pytest.raises(ValueError, match="alpha must be"):
        Diffuse(weight=1.0, alpha=bad)
    with pytest.raises(ValueError, match="alpha must be"):
        Concentrated(alpha=bad)
    with pytest.raises(ValueError, match="alpha must be"):
        NonPrivate(alpha=bad)


def test_what_was_accounted_for_cannot_be_changed_afterwards() -> None:
    sampler = Diffuse(weight=0.1)
    with pytest.raises(AttributeError):
        sampler.weight = 10.0
    with pytest.raises(ValueError, match="read-only"):
        sampler.weight[...] = 10.0
    both = stack([sampler, Diffuse(weight=0.2)])
    with pytest.raises(ValueError, match="read-only"):
        both.weight[...] = 10.0


@pytest.mark.parametrize(
    "sampler",
    [*ALL_SAMPLERS, NoisyCounts(sigma=2.0, updates=2, loops=self_loops(2, 2))],
    ids=repr,
)
def test_nor_in_a_pickle(sampler: Sampler) -> None:
    """Workers get samplers so; arrays that can be written to would be other noise than is paid."""
    for again in (pickle.loads(pickle.dumps(sampler, protocol)) for protocol in (2, 4, 5)):
        for name in ("sigma", "weight", "alpha", "loops"):
            values = getattr(again, name, None)
            if isinstance(values, np.ndarray) and not isinstance(sampler, NonPrivate):
                with pytest.raises(ValueError, match="read-only"):
                    values[...] = 0
        again.update(np.ones((2, 2, 2)), np.random.default_rng(0))  # its own sums can be written to
    factors = pickle.loads(pickle.dumps(factorise("square-root", 4), 4))
    assert not factors.left.flags.writeable


class InPlace(Diffuse):
    """Adds up in an array that it makes before the first update."""

    def _forget(self) -> None:
        super()._forget()
        self._sums = np.zeros((2, 3))

    def update(self, counts, rng):
        self._sums += counts
        return super().update(counts, rng)


def test_what_changes_in_use_can_be_written_to_in_a_pickle() -> None:
    accountant, again = RdpAccountant(), pickle.loads(pickle.dumps(InPlace()))
    draw(accountant, [(again, np.ones((2, 3)))], np.random.default_rng(0))
    assert again._sums.all()


@pytest.mark.parametrize("kind", [Diffuse, Concentrated])
def test_what_is_drawn_is_what_is_paid_for(kind: type[DirichletSampler]) -> None:
    sampler = kind(weight=0.1, alpha=9.0, table="rewards")
    assert sampler.cost == DirichletCost(
        weight=float(sampler.weight), alpha=float(sampler.alpha), relation=ReplaceStep(),
        table="rewards",
    )  # fmt: skip
    assert (sampler.weight, sampler.alpha) == (0.1, 9.0)


def test_data_change_neither_support_nor_shape() -> None:
    """Cells that were never seen, and cells of a million: the output looks the same."""
    for counts in ([0.0, 0.0, 0.0], [0.0, 1e6, 1.0]):
        for sampler in ALL_SAMPLERS:
            rows = sampler.fresh().update(np.tile(counts, (50, 1)), rng(1)).sample(rng())
            assert rows.shape == (50, 3)
            if sampler.alpha >= 0.5:  # smaller priors may round to zero, whatever the counts
                assert (rows > 0).all()


# The window --------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [1, 2, 3, 7])
@pytest.mark.parametrize("sampler", [Diffuse, Concentrated])
def test_a_record_takes_part_in_a_window_of_updates(sampler, window: int, monkeypatch) -> None:
    """Brute force: batch j puts one record into cell j; see in which draws it is."""
    drawn = []
    monkeypatch.setattr(
        "privrl.samplers.dirichlet.posterior_rows",
        lambda total, weight, alpha, rng: drawn.append(weight * total + alpha) or total,
    )
    used = sampler(alpha=2.0, window=window, **({"weight": 0.5} if sampler is Diffuse else {}))
    accountant = RdpAccountant()
    for record in np.eye(12):
        draw(accountant, [(used, record)], rng())
    taken = np.array(drawn) > 2.0  # (updates, records)
    expected = [[t - window < record <= t for record in range(12)] for t in range(12)]
    np.testing.assert_array_equal(taken, expected)
    paid = accountant.rdp
    each = sampler(**({"weight": 0.5} if sampler is Diffuse else {}), alpha=2.0).cost
    np.testing.assert_allclose(paid, window * each.rdp(accountant.orders), rtol=1e-12)
    assert taken.sum(axis=0).max() == window  # what is paid for, and no more


@pytest.mark.parametrize("window", [None, 1, 4, 100])
def test_windowed_draws_meet_their_target(window: int | None) -> None:
    target, accountant = RenyiDP(2, 0.5), RdpAccountant(budget=RenyiDP(2, 0.5))
    sampler = Diffuse.calibrated(target, draws=20, alpha=3.0, window=window)
    for _ in range(20):
        draw(accountant, [(sampler, COUNTS)], rng())
    assert float(accountant.spent(2.0)) == pytest.approx(0.5, rel=1e-9)


def test_a_shorter_window_buys_a_larger_weight() -> None:
    weights = [
        float(Diffuse.calibrated(RenyiDP(2, 0.5), draws=50, window=window).weight)
        for window in (None, 16, 4, 1)
    ]
    assert weights == sorted(weights)
    assert weights[-1] > 5 * weights[0]


def test_stacks_share_one_window() -> None:
    pair = stack([Diffuse(weight=0.1, window=2), Concentrated(alpha=9.0, window=2)])
    assert pair.window == 2
    with pytest.raises(ValueError, match="with one window"):
        stack([Diffuse(weight=0.1, window=2), Diffuse(weight=0.1)])
    with pytest.raises(ValueError, match="window must be a whole number"):
        Diffuse(weight=0.1, window=0)


# Ownership -----------------------------------------------------------------------------------


@each_sampler
def test_a_buffer_that_is_used_again_counts_once(sampler: Sampler) -> None:
    buffer = COUNTS.copy()
    used, accountant = sampler.fresh(), RdpAccountant()
    draw(accountant, [(used, buffer)], rng(5))
    buffer[...] = 7.0
    seen = draw(accountant, [(used, np.zeros_like(COUNTS))], rng(6))[0].sample(rng())
    again, accountant = sampler.fresh(), RdpAccountant()
    draw(accountant, [(again, COUNTS)], rng(5))
    expected = draw(accountant, [(again, np.zeros_like(COUNTS))], rng(6))[0].sample(rng())
    np.testing.assert_array_equal(seen, expected)


def test_only_what_nobody_can_write_to_is_taken_as_it_is(monkeypatch) -> None:
    """Of a large table, a copy less; a read-only view of what is written to is copied."""
    own, base = COUNTS.copy(), COUNTS.copy()
    view = base[:]
    own.flags.writeable = view.flags.writeable = False
    for counts, same in ((own, True), (view, False), (base, False), (COUNTS.tolist(), False)):
        used, given = NonPrivate(), []
        monkeypatch.setattr(used, "check", given.append)
        draw(RdpAccountant(), [(used, counts)], rng())
        assert (given[0] is counts) == same
        np.testing.assert_array_equal(given[0], COUNTS)


@pytest.mark.parametrize("sampler", ALL_SAMPLERS[:-1], ids=repr)
def test_a_sampler_in_use_is_not_copied(sampler: Sampler) -> None:
    """A copy would go on with what one has paid for."""
    used = sampler.fresh()
    assert copy.copy(used).cost == used.cost
    used.update(COUNTS, rng())
    for copied in (copy.copy, copy.deepcopy):
        with pytest.raises(ValueError, match="must not be copied after its first update"):
            copied(used)
    with pytest.raises(ValueError, match="must not be pickled after its first update"):
        pickle.dumps(used)


@pytest.mark.parametrize("sampler", ALL_SAMPLERS[:-1], ids=repr)
def test_a_draw_that_fails_midway_invalidates_its_samplers(sampler: Sampler, monkeypatch) -> None:
    first, second = sampler.fresh(), Diffuse(weight=0.1)

    def broken(counts, rng):
        raise MemoryError

    monkeypatch.setattr(second, "update", broken)
    cost = first.cost
    assert cost is not None
    second._cost = NoPrivacy(cost.relation)
    with pytest.raises(MemoryError):
        draw(RdpAccountant(), [(first, COUNTS), (second, COUNTS)], rng())
    for invalid in (first, second):
        with pytest.raises(ValueError, match="after a draw that failed midway"):
            draw(RdpAccountant(), [(invalid, COUNTS)], rng())
    assert first.fresh().cost == cost


class Plain:
    """A sampler that derives from no class of the library."""

    cost, usable = GaussianCost(sigma=1.0, relation=ReplaceStep()), True

    def fresh(self) -> "Plain":
        return Plain()

    def check(self, counts: object) -> None:
        pass

    def update(self, counts: object, rng: object) -> NoReturn:
        raise MemoryError

    def invalidate(self) -> None:
        self.usable = False


def test_a_failed_draw_invalidates_samplers_of_any_class() -> None:
    sampler = Plain()
    with pytest.raises(MemoryError):
        draw(RdpAccountant(), [(sampler, COUNTS)], rng())
    assert not sampler.usable


@pytest.mark.slow
@pytest.mark.parametrize("second", ["_fail", "invalidate"])
def test_two_interrupts_leave_samplers_invalid_or_untouched(
    second: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first at each line of a draw, the second when the failure is handled."""

    def interrupted(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    owner = releases.Release if second == "_fail" else PaidSampler
    monkeypatch.setattr(owner, second, interrupted)
    ends = Counter[str]()
    for at in count(1):
        accountant = RdpAccountant(orders=[2.0, 8.0])
        pair = NoisyCounts(sigma=2.0, updates=2), Diffuse(weight=0.1, alpha=2.0)
        updates = [(sampler, COUNTS) for sampler in pair]
        interrupt = Interrupter(at, each=False)
        if interrupt(lambda: draw(accountant, updates, rng())) is None:  # noqa: B023
            break
        for sampler in pair:
            try:
                sampler.check(COUNTS)
            except ValueError:
                ends["invalid"] += 1
            else:
                ends[f"{sampler._done} updates, {len(accountant.journal)} charges"] += 1
    invalid, untouched = ends.pop("invalid"), ends.pop("0 updates, 0 charges")
    assert invalid > 200
    assert untouched > 20
    assert ends == {"1 updates, 1 charges": 4}  # both, at two lines that return a complete draw


def test_an_iterator_of_updates_is_as_safe_as_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was used up before the samplers were marked: of two interrupts none invalidated them."""

    def interrupted(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    sampler = Diffuse(weight=0.1, alpha=2.0)
    with monkeypatch.context() as patch:
        patch.setattr(releases.Release, "_fail", interrupted)
        patch.setattr("privrl.samplers.dirichlet.posterior_rows", interrupted)
        with pytest.raises(KeyboardInterrupt):
            draw(RdpAccountant(), zip([sampler], [COUNTS], strict=True), rng())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="after a draw that failed midway"):
        draw(RdpAccountant(), [(sampler, COUNTS)], rng())


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_interrupt_before_the_charge_invalidates(error: type[BaseException]) -> None:
    """Nobody knows what was charged; a refusal of the accountant's has done nothing."""

    class Interrupted(RdpAccountant):
        def compose(self, cost, count=1):
            raise now

    sampler, now = Diffuse(weight=0.1), BudgetExceeded("too much")
    with pytest.raises(BudgetExceeded):
        draw(Interrupted(), [(sampler, COUNTS)], rng())
    now = error()
    with pytest.raises(error) as raised:
        draw(Interrupted(), [(sampler, COUNTS)], rng())
    assert "may have been charged for this release, and nothing was" in raised.value.__notes__[0]
    with pytest.raises(ValueError, match="after a draw that failed midway"):
        draw(RdpAccountant(), [(sampler, COUNTS)], rng())


def test_samplers_in_use_are_not_stacked() -> None:
    """What was charged to one of them would be free to the stack."""
    used = Diffuse(weight=0.1, window=1)
    used.update(COUNTS, rng())
    with pytest.raises(ValueError, match="samplers must be at least one, unused"):
        stack([Diffuse(weight=0.1, window=1), used])


def test_batches_keep_their_shape() -> None:
    """A batch of another shape would be broadcast: each record counted many times."""
    for sampler in (Diffuse(weight=0.1), NoisyCounts(sigma=1.0, updates=3)):
        sampler.update(COUNTS, rng())
        with pytest.raises(ValueError, match="shape of the previous batches"):
            sampler.check(COUNTS[:1])


# Input ----------------------------------------------------------------------------------------

UGLY = {
    "text": ["Alice", "1"],
    "numeric text": [["1", "2"]],
    "ragged": [[1, 2], [3]],
    "dict": {"Alice": 3},
    "set": {3},
    "complex": np.array([1 + 2j, 3]),
    "truth values": np.array([True, False]),
    "dates": np.array(["2020-01-01", "2021-01-01"], "datetime64[D]"),
    "masked": np.ma.masked_array([5, 700], [False, True]),
    "huge": [10**400, 1],
    "objects": np.array([1, "Alice"], object),
}


@pytest.mark.parametrize("ugly", UGLY.values(), ids=UGLY)
def test_what_is_no_count_is_refused_unseen_and_unpaid(ugly) -> None:
    accountant = RdpAccountant()
    with pytest.raises(ValueError, match="counts must be an array of numbers") as caught:
        draw(accountant, [(NoisyCounts(sigma=1.0, updates=3), ugly)], rng())
    assert accountant.relation is None
    shown = f"{caught.value} {caught.value.__cause__} {caught.value.__context__}"
    assert "Alice" not in shown
    assert "700" not in shown


@pytest.mark.parametrize(
    "wrong",
    [-1, "0", np.random, np.random.RandomState(0)],
    ids=["negative", "text", "module", "legacy"],
)
def test_what_is_no_generator_costs_nothing(wrong) -> None:
    accountant = RdpAccountant()
    with pytest.raises(ValueError, match=r"rng must be a numpy\.random\.Generator"):
        draw(accountant, [(NoisyCounts(sigma=1.0, updates=3), COUNTS)], wrong)
    assert accountant.relation is None


def test_counts_beyond_what_floats_hold_are_refused() -> None:
    with pytest.raises(ValueError, match=r"less than 2\*\*37"):
        draw(RdpAccountant(), [(Diffuse(weight=0.1), np.full((2, 3), 1e300))], rng())


@each_sampler
def test_sums_that_floats_would_round_are_refused(sampler: Sampler) -> None:
    """Between two multiples of the grid, or too many of them; nothing is spent on either."""
    used, accountant = sampler.fresh(), RdpAccountant()
    draw(accountant, [(used, np.array([0.0, LARGEST_TOTAL - 1, 5.0]))], rng())
    spent = accountant.rdp
    for bad in (GRID / 2, 0.1, 3 + 2**-30):
        with pytest.raises(ValueError, match=r"counts must be multiples of 2\*\*-16"):
            draw(accountant, [(used, np.array([0.0, 0.0, bad]))], rng())
    if getattr(sampler, "window", None) != 1:
        for more in (1.0, 1 + GRID):  # the second sum is rounded to the first
            with pytest.raises(ValueError, match=r"counts must sum to less than 2\*\*37"):
                draw(accountant, [(used, np.array([0.0, more, 0.0]))], rng())
    np.testing.assert_array_equal(accountant.rdp, spent)
    draw(accountant, [(used, np.array([0.0, 1 - GRID, 0.0]))], rng())


def test_a_window_forgets_what_is_too_old_to_be_summed() -> None:
    sampler, accountant = Diffuse(weight=0.1, window=2), RdpAccountant()
    for counts in ([LARGEST_TOTAL - 1, 1.0], [0.0, 1.0], [LARGEST_TOTAL - 1, 1.0]):
        draw(accountant, [(sampler, np.array(counts))], rng())
    with pytest.raises(ValueError, match=r"counts must sum to less than 2\*\*37"):
        draw(accountant, [(sampler, np.array([1.0, 1.0]))], rng())


@pytest.mark.few(6)
@pytest.mark.parametrize("sampler", ALL_SAMPLERS[:-1], ids=repr)
def test_a_sampler_in_use_draws_under_the_accountant_that_paid(sampler: Sampler, tmp_path) -> None:
    """Its first draw may have paid for all, so under another one other data would be free."""
    ledger, used = Ledger(tmp_path / "ledger.sqlite"), sampler.fresh()
    draw(ledger.accountant("january"), [(used, COUNTS)], rng(1))
    entries = len(ledger.entries())
    for other in (ledger.accountant("february"), RdpAccountant(), None):
        with pytest.raises(ValueError, match="accountant must be that of the sampler's earlier"):
            draw(other, [(used, COUNTS)], rng(2))  # type: ignore[arg-type] # it is refused
    other_ledger = Ledger(tmp_path / "other.sqlite")
    with pytest.raises(ValueError, match="accountant must be that of the sampler's earlier"):
        draw(other_ledger.accountant("january"), [(used, COUNTS)], rng(2))
    assert len(ledger.entries()) == entries
    draw(ledger.accountant("january"), [(used, COUNTS)], rng(2))  # made anew, of the same account
    draw(RdpAccountant(), [(used.fresh(), COUNTS)], rng(3))


STACKED = [each for each in ALL_SAMPLERS[:-1] if each._goes_with(each)]  # type: ignore[attr-defined]


@pytest.mark.parametrize("sampler", STACKED, ids=repr)
def test_stacks_are_made_of_unused_samplers(sampler: Sampler) -> None:
    used = sampler.fresh()
    used.update(COUNTS, rng())
    with pytest.raises(ValueError, match="unused"):
        stack([sampler.fresh(), used])
    with pytest.raises(ValueError, match="none of them a stack"):
        stack([stack([sampler.fresh()])])


def test_stacks_are_of_one_kind() -> None:
    for rows in (
        [Diffuse(), NoisyCounts(sigma=1.0, updates=3)],
        [NoisyCounts(sigma=1.0, updates=3), Diffuse()],
    ):
        with pytest.raises(ValueError, match="samplers must be of one kind"):
            stack(rows)


def test_a_used_sampler_is_checked_by_what_its_stream_costs() -> None:
    """After its first update it tells no cost, and so no table."""
    for kind in (
        NoisyCounts(sigma=1.0, updates=3, table="rewards"),
        Diffuse(weight=0.1, table="rewards", window=1),
        NoisyCounts(sigma=1.0, updates=1, factorisation=LocalNoise((3,)), table="rewards"),
    ):
        used = kind.fresh()
        draw(RdpAccountant(), [(used, COUNTS)], rng())
        assert used.cost is None
        check_table("sampler", used, "rewards")
        with pytest.raises(ValueError, match="sampler must be made for the relation's table"):
            check_table("sampler", used, "transitions")


@pytest.mark.parametrize(
    ("damped", "table"), [(DAMPED, "transitions"), (DAMPED_REWARDS, DAMPED_REWARDS)]
)
def test_a_damped_cost_is_for_who_damps(damped: str, table: str) -> None:
    class Loud(Diffuse):
        """States the cost of damped counts, and damps none."""

        cost = GaussianCost(sigma=1.0, relation=ReplaceStep(), table=damped)

    with pytest.raises(ValueError, match=f"sampler must damp the self-loops.*'{damped}'"):
        check_table("sampler", Loud(weight=1.0), table)


def test_counts_of_few_bits_are_counts() -> None:
    """Limits and steps of counts are beyond what float16 holds."""
    sampler = Diffuse(weight=0.1, relation=ReplaceStep(), table="transitions")
    sampler.update(np.ones((2, 2, 2), np.float16), np.random.default_rng(0))


@pytest.mark.parametrize("sampler", [Diffuse(), Concentrated(window=2)], ids=repr)
def test_rows_without_cells_are_refused_before_they_are_paid_for(sampler: Sampler) -> None:
    accountant = RdpAccountant()
    with pytest.raises(ValueError, match=r"cells on the last axis, got shape \(3, 0\)"):
        draw(accountant, [(sampler.fresh(), np.zeros((3, 0)))], np.random.default_rng(0))
    assert not accountant.journal
