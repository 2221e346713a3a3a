"""A network in two rounds: what is spent, what is kept, and that it follows from releases alone."""

import itertools
import math

import numpy as np
import pytest

pytest.importorskip("networkx", reason="no networkx: pip install 'privrl[models]'")
pytest.importorskip("opt_einsum", reason="no opt_einsum: pip install 'privrl[models]'")

from hypothesis import given, settings
from hypothesis import strategies as st

from privrl.accounting.rdp import BudgetExceeded, RdpAccountant
from privrl.accounting.targets import ApproxDP, RenyiDP
from privrl.audit import audit_replay
from privrl.data.schema import Categories, Schema
from privrl.mechanisms.tables import ReleasedTable, TablesMechanism
from privrl.models.bayes_net.backoff import conditional_rows, together
from privrl.models.bayes_net.budget import (
    _TUNED,
    _left,
    _level,
    _of_table,
    _slopes_alone,
    first_precisions,
    second_round,
)
from privrl.models.bayes_net.fit import PrivateBayesNet
from privrl.models.bayes_net.network import BayesNet
from privrl.models.bayes_net.structure import Structure

SIZES = {"a": 3, "b": 4, "c": 2}
PARENTS = {"a": (), "b": ("a",), "c": ("a", "b")}
STRUCTURE = Structure(PARENTS, SIZES)
SCHEMA = Schema({name: Categories(tuple(range(size))) for name, size in SIZES.items()})
MARGINS = [np.array([0.5, 0.3, 0.2]), np.array([0.6, 0.2, 0.15, 0.05]), np.array([0.9, 0.1])]
EMPTY = dict.fromkeys(PARENTS, ())


def records(n, rng, *, linked):
    """Records whose b follows a, and c both, or in which all are drawn on their own."""
    a = rng.integers(3, size=n)
    b = np.where(rng.random(n) < 0.7, a, rng.integers(4, size=n)) if linked else a[::-1]
    c = (a + b) % 2 if linked else rng.integers(2, size=n)
    return SCHEMA.decode(np.stack([a, rng.permutation(b) if not linked else b, c], axis=1))


# Sensitivity and cost


def test_one_record_moves_two_cells_of_each_table_whatever_edges_are_left():
    """All pairs of records, all sets of edges that may be left, both rounds together."""
    alone = Structure(EMPTY, SIZES)
    everyone = [np.array(r) for r in itertools.product(*map(range, SIZES.values()))]

    def counts(structure, record):
        cells = {name: record[i : i + 1] for i, name in enumerate(structure.nodes)}
        return [*alone.counts(cells), *structure.counts(cells)]

    largest = 0.0
    for kept in itertools.product((True, False), repeat=3):
        parents = {n: own if k else () for (n, own), k in zip(PARENTS.items(), kept, strict=True)}
        structure = Structure(parents, SIZES)
        for one, other in itertools.combinations(everyone, 2):
            changes = zip(counts(structure, one), counts(structure, other), strict=True)
            squares = [float(((x - y) ** 2).sum()) for x, y in changes]
            assert max(squares) <= 2
            largest = max(largest, sum(squares))
    assert largest == 2 * 6


@settings(max_examples=30, deadline=None)
@given(
    weights=st.lists(st.floats(1e-3, 1), min_size=9, max_size=9),
    n_records=st.floats(1, 1e7),
    log_precision=st.floats(-25, 8),
)
def test_the_second_round_spends_the_same_whatever_the_first_released(
    weights, n_records, log_precision
):
    precision = math.exp(log_precision)
    known = first_precisions(STRUCTURE, n_records, precision)
    assert (known > 0).all()
    assert known.sum() <= 0.2 * precision * (1 + 1e-12)
    margins = [np.array(w) / sum(w) for w in (weights[:3], weights[3:7], weights[7:])]
    left, found = second_round(STRUCTURE, margins, known, n_records, precision)
    assert (found > 0).all()
    assert found.sum() == pytest.approx(precision, rel=1e-13)
    assert all(left.parents[node] in ((), own) for node, own in PARENTS.items())


@pytest.mark.parametrize("target", [RenyiDP(5, 0.003), RenyiDP(5, 1), ApproxDP(0.1, 1e-5)])
@pytest.mark.parametrize("linked", [True, False])
def test_what_is_released_costs_what_was_charged(target, linked):
    rng = np.random.default_rng(3)
    accountant = RdpAccountant()
    spec = PrivateBayesNet(parents=PARENTS, schema=SCHEMA, target=target)
    fitted = spec.fit(records(800, rng, linked=linked), rng, accountant=accountant)
    assert len(fitted.mechanism.sizes) == 6
    assert float(fitted.cost.rdp(5.0)) <= accountant.spent(5.0)
    assert float(fitted.cost.rdp(5.0)) == pytest.approx(accountant.spent(5.0), rel=1e-12)
    by_hand = 5 * sum(size**-2 for size in fitted.mechanism.sizes)  # order / 2, times 2
    assert by_hand == pytest.approx(accountant.spent(5.0), rel=1e-12)


def test_where_no_edge_is_left_each_node_has_the_noise_that_the_empty_network_has():
    rng = np.random.default_rng(4)
    data, target = records(300, rng, linked=True), ApproxDP(0.05, 1e-5)
    two, one = (
        PrivateBayesNet(parents=parents, schema=SCHEMA, target=target).fit(data, rng).mechanism
        for parents in (PARENTS, EMPTY)
    )
    assert two.shapes == one.shapes * 2
    both = (np.array(two.sizes) ** -2).reshape(2, -1).sum(axis=0)
    np.testing.assert_allclose(both, np.array(one.sizes) ** -2, rtol=1e-12)


def test_over_the_budget_nothing_is_drawn():
    accountant = RdpAccountant(budget=RenyiDP(5, 0.9))
    rng, same = np.random.default_rng(3), np.random.default_rng(3)
    data = records(100, np.random.default_rng(1), linked=True)
    with pytest.raises(BudgetExceeded):
        PrivateBayesNet(parents=PARENTS, schema=SCHEMA, target=RenyiDP(5, 1)).fit(
            data, rng, accountant=accountant
        )
    assert rng.random() == same.random()
    assert accountant.rdp.max() == 0


@settings(max_examples=4, deadline=None)
@given(
    n=st.integers(20, 2000),
    to=st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 1)),
    target=st.sampled_from([RenyiDP(5, 0.01), RenyiDP(5, 0.2), RenyiDP(5, 2.0), ApproxDP(1, 1e-5)]),
)
def test_replayed_with_another_record(n, to, target):
    """Of enough records that edges are kept, and of so few that they are not."""
    data = records(n, np.random.default_rng(n), linked=True)
    other = data.copy()
    other.iloc[n // 2] = to
    spec = PrivateBayesNet(parents=PARENTS, schema=SCHEMA, target=target)

    def fit(frame):
        return spec.fit(frame, np.random.default_rng(1), accountant=RdpAccountant()).to_dict()

    result = audit_replay(fit, data, other)
    assert not result.violated, result.findings
    assert result.error is None
    assert result.releases == 6


@pytest.mark.parametrize(
    ("changes", "n_tables"),
    [
        ({}, 6),
        ({"parents": EMPTY}, 3),
        ({"shares": dict.fromkeys(PARENTS, 1.0)}, 3),
        ({"target": RenyiDP(5000, 1)}, 3),  # Laplace noise
        ({"mechanism": "gaussian"}, 3),
    ],
)
def test_there_is_one_round_where_nothing_is_to_be_decided(changes, n_tables):
    rng = np.random.default_rng(0)
    spec = PrivateBayesNet(
        **{"parents": PARENTS, "schema": SCHEMA, "target": RenyiDP(5, 1)} | changes
    )
    fitted = spec.fit(records(300, rng, linked=True), rng)
    assert len(fitted.mechanism.shapes) == n_tables
    again = BayesNet.from_dict(fitted.to_dict())
    assert again.mechanism == fitted.mechanism
    assert dict(again.parents) == dict(fitted.parents)


@pytest.mark.slow
def test_edges_are_kept_by_what_was_released_and_nothing_else(monkeypatch):
    """Records all alike would keep edges at some of these budgets at which others lose them."""

    def draw(self, data, rng):
        return tuple(
            ReleasedTable(np.full(shape, 600 / math.prod(shape)), self.mechanism, size)
            for shape, size in zip(self.shapes, self.deviations, strict=True)
        )

    monkeypatch.setattr(TablesMechanism, "_draw", draw)
    rng = np.random.default_rng(0)
    alike = SCHEMA.decode(np.zeros((600, 3), int))
    for epsilon in np.geomspace(1e-4, 1, 12):
        spec = PrivateBayesNet(parents=PARENTS, schema=SCHEMA, target=RenyiDP(5, float(epsilon)))
        fits = [spec.fit(data, rng) for data in (alike, records(600, rng, linked=False))]
        assert fits[0].to_dict() == fits[1].to_dict()


# The division


def test_slopes_are_those_of_the_stated_gains():
    n, w, step = 900.0, np.array([1e-5, 1e-3, 0.2]), 1e-4
    ups, downs = w * (1 + step), w * (1 - step)

    def lost(p, w):
        return sum(each / (2 + 2 * w * (n * each) ** 2) for each in p)

    def told(w):  # of c: by a, by b, and by both
        a, b, c = MARGINS
        total = 0.0
        for rows, summed in ((a, 4), (b, 3), (np.outer(a, b).ravel(), 1)):
            for q, p in itertools.product(rows, c):
                e, u = n * q * p, w / summed
                v = _TUNED.effect * (1 - 2 * q + sum(rows**2)) * (1 - 2 * p + sum(c**2))
                total += e * v / (2 * n) * e * v / (e * v + 1 + 1 / (u * e)) / 3
        return total

    wide = 2 * step * w
    expected = (lost(MARGINS[1], downs) - lost(MARGINS[1], ups)) / wide
    np.testing.assert_allclose(_slopes_alone(MARGINS[1], w, n), expected, rtol=1e-5)
    of = dict(zip(SIZES, MARGINS, strict=True))
    expected = (told(ups) - told(downs)) / wide
    slopes, parts = _of_table(STRUCTURE, "c", of, w, n)
    np.testing.assert_allclose(slopes, expected, rtol=1e-5)
    np.testing.assert_allclose(parts, told(w) / told(1e12), rtol=1e-6)
    assert not np.any(_of_table(STRUCTURE, "a", of, w, n))


def test_a_sample_of_a_large_table_has_its_slope():
    sizes = {"x": 300, "y": 200}
    p = {name: np.arange(1.0, size + 1) / (size * (size + 1) / 2) for name, size in sizes.items()}
    structure = Structure({"x": (), "y": ("x",)}, sizes)
    n, w = 1e6, np.array([1e-4, 1e-2])
    expected = n * np.outer(p["x"], p["y"]).ravel()
    left = [1 - 2 * each + (each**2).sum() for each in p.values()]
    v = _TUNED.effect * np.outer(*left).ravel()
    hidden = 1 + w[:, None] * expected * (v * expected + 1)
    whole = (expected**3 * v**2 / hidden**2).sum(axis=1) / (2 * n)
    slopes, _ = _of_table(structure, "y", p, w, n)
    np.testing.assert_allclose(slopes, whole, rtol=0.02)


def test_what_is_left_of_a_variance_is_that_of_numbers_whose_mean_is_taken_out():
    """Against 200,000 draws: a deviation of a part in 300 is one of the simulation."""
    p = np.array([0.7, 0.2, 0.1])
    z = np.random.default_rng(5).normal(size=(200_000, 3))
    np.testing.assert_allclose(_left(p), (z - (z @ p)[:, None]).var(axis=0), rtol=0.02)
    assert float(p @ _left(p)) == pytest.approx(1 - (p**2).sum())


def test_an_edge_to_a_node_that_hardly_varies_is_dropped_where_others_stay():
    level, peaked = np.full(4, 0.25), np.array([0.997, 0.001, 0.001, 0.001])
    structure = Structure({"x": (), "y": ("x",), "z": ("x",)}, dict.fromkeys("xyz", 4))
    known = first_precisions(structure, 5000, 1e-3)
    left, _ = second_round(structure, [level, level, peaked], known, 5000, 1e-3)
    assert left.parents == {"x": (), "y": ("x",), "z": ()}


def test_slopes_are_level_where_something_is_given():
    grid = np.geomspace(1e-6, 1, 2000)
    weak, strong, none = 1 / (1 + 30 * grid) ** 2, 9 / (1 + 30 * grid) ** 2, 0.01 + 0 * grid
    found = _level(np.array([weak, strong, none]), grid, 1.0)
    assert found.sum() == pytest.approx(1, rel=1e-6)
    assert found[2] == 0
    assert 3 * (1 + 30 * found[0]) == pytest.approx(1 + 30 * found[1], rel=1e-4)


def test_more_budget_keeps_more_edges():
    kept = []
    for precision in np.geomspace(1e-8, 1, 9):
        known = first_precisions(STRUCTURE, 2000, precision)
        left, _ = second_round(STRUCTURE, MARGINS, known, 2000, precision)
        kept.append(sum(map(len, left.parents.values())))
    assert kept[0] == 0
    assert kept[-1] == 3


# Estimates


def test_two_noisy_counts_are_weighed_by_their_noise():
    one = ReleasedTable(np.array([[10.0, 20.0]]), "gaussian", 1.0)
    other = ReleasedTable(np.array([[20.0, 10.0]]), "gaussian", 3.0)
    both = together(one, other)
    np.testing.assert_allclose(both.values, [[11.0, 19.0]])
    assert both.deviation == pytest.approx(math.sqrt(0.9))


def test_counts_of_the_node_alone_help_where_the_table_drowns():
    rng = np.random.default_rng(2)
    counts = np.tile([900.0, 90.0, 10.0], (8, 1))
    table = ReleasedTable(counts + rng.normal(0, 3000, counts.shape), "gaussian", 3000.0)
    margin = ReleasedTable(counts.sum(axis=0, keepdims=True), "gaussian", 5.0)
    totals = np.full(8, 1000.0)
    rows = conditional_rows(table, (8,), totals, margin)
    np.testing.assert_allclose(rows, counts / 1000, atol=0.05)
    assert abs(conditional_rows(table, (8,), totals) - counts / 1000).max() > 0.2


@pytest.mark.few(3)
@pytest.mark.parametrize("epsilon", [0.002, 0.02, 0.2])
def test_where_nothing_is_linked_it_is_not_worse_than_the_empty_network(epsilon):
    """Means over 6 fits of 600 records."""
    lost = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        data, test = (records(n, rng, linked=False) for n in (600, 2000))
        both = [
            PrivateBayesNet(parents=parents, schema=SCHEMA, target=RenyiDP(5, epsilon))
            .fit(data, rng)
            .log_likelihood(test)
            for parents in (EMPTY, PARENTS)
        ]
        lost.append(both[0] - both[1])
    assert np.mean(lost) < 0.05


def test_where_nodes_are_linked_edges_stay_and_tell():
    rng = np.random.default_rng(7)
    data, test = (records(n, rng, linked=True) for n in (2000, 2000))
    fits = [
        PrivateBayesNet(parents=parents, schema=SCHEMA, target=RenyiDP(5, 0.5)).fit(data, rng)
        for parents in (EMPTY, PARENTS)
    ]
    assert dict(fits[1].parents) == PARENTS
    assert fits[1].log_likelihood(test) > fits[0].log_likelihood(test) + 0.8
