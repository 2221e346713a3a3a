"""Decomposable models against tables of all columns, and pairs that are chosen by what is off."""

import itertools

import numpy as np
import pytest

pytest.importorskip("networkx", reason="no networkx: pip install 'privrl[models]'")

from hypothesis import given, settings
from hypothesis import strategies as st

from privrl.mechanisms import ExponentialMechanism
from privrl.mechanisms.tables import ReleasedTable
from privrl.models.bayes_net import decomposable, pairs
from privrl.models.bayes_net.choice import GRAIN, SENSITIVITY
from privrl.models.bayes_net.decomposable import (
    Decomposable,
    Noisy,
    joined,
    neighbours,
    onto,
    total_cells,
)
from privrl.models.bayes_net.pairs import distance, information, with_pairs
from privrl.models.bayes_net.structure import Structure, count_table


def random_model(seed):
    """Return a model that is a product of tables, and the table of all columns by brute force."""
    rng = np.random.default_rng(seed)
    sizes = {f"x{i}": int(rng.integers(1, 4)) for i in range(rng.integers(2, 7))}
    names = list(sizes)
    groups = [
        tuple(rng.choice(names, min(len(names), int(rng.integers(1, 4))), replace=False))
        for _ in range(rng.integers(0, 5))
    ]
    model, full = Decomposable(sizes, neighbours(sizes, groups)), np.zeros([*sizes.values()])
    for group in groups:
        table = rng.normal(size=[sizes[name] for name in group])
        model.multiply(group, table)
        letters = [names.index(name) for name in group]
        axes = list(range(full.ndim))
        full = full + np.einsum(table, letters, np.ones(full.shape), axes, axes)
    full = np.exp(full)
    return model.normalise(), full / full.sum(), rng


def some_room(model, name, others, cells):
    """Return joint probabilities of a column and each other one, with a bound on memory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decomposable, "MOST_CARRIED", cells)
        return model.with_each(name, others)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_all_probabilities_are_those_of_the_table_of_all_columns(seed):
    model, full, rng = random_model(seed)
    names = list(model.sizes)
    for name in names:
        np.testing.assert_allclose(
            model.cliques[name], onto(full, names, model.axes(name)), rtol=1e-9
        )
        others = [other for other in names if other != name]
        found = model.with_each(name, others)
        assert list(found) == others
        few = some_room(model, name, others, int(rng.integers(60)))
        assert set(few) >= {other for other in others if model.home((name, other)) is not None}
        for other, both in [*found.items(), *few.items()]:
            np.testing.assert_allclose(both, onto(full, names, (name, other)), rtol=1e-9)
    one, other = map(str, rng.choice(names, 2, replace=False))
    larger = model.with_pair(one, other)
    assert larger.home((one, other)) is not None
    cells = total_cells(model.sizes, joined(model.parents, one, other))
    assert sum(table.size for table in larger.cliques.values()) == cells
    for name in names:
        np.testing.assert_allclose(
            larger.cliques[name], onto(full, names, larger.axes(name)), rtol=1e-9
        )


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_parents_are_related_to_each_other(seed):
    """A column's parents are in the clique of the first of them."""
    model, _, rng = random_model(seed)
    place = {name: i for i, name in enumerate(model.parents)}
    one, other = map(str, rng.choice(list(model.sizes), 2, replace=False))
    for near in (model.parents, joined(model.parents, one, other)):
        for name, own in near.items():
            assert all(place[each] > place[name] for each in own)
            if own:
                first = min(own, key=place.__getitem__)
                assert set(own) <= {first, *near[first]}


def test_fewer_groups_may_need_more_cells():
    """So that all groups fit does not mean that the first of them do."""
    sizes = {"a": 2, "b": 2, "c": 4, "d": 4, "e": 4, "f": 3}
    groups = ["cd", "abc", "fe", "aed", "ae", "eb", "ea", "bd"]
    cells = [total_cells(sizes, neighbours(sizes, groups[:n])) for n in (6, 8)]
    assert cells == [288, 192]


def test_without_noise_the_fit_finds_the_marginals():
    """Of records in which three columns tell of each other: the pairs' exact counts."""
    rng = np.random.default_rng(0)
    full = rng.dirichlet(np.full(24, 0.5)).reshape(2, 3, 4)
    sizes, n = {"a": 2, "b": 3, "c": 4}, 10_000.0
    model = Decomposable(sizes, neighbours(sizes, [("a", "b", "c")]))
    tables = []
    for names in itertools.combinations("abc", 2):
        p = onto(full, "abc", names)
        tables.append(Noisy(names, n * p, 1.0, p))
    model.fit(tables, n, 3000)
    for names in itertools.combinations("abc", 2):
        np.testing.assert_allclose(model.marginal(names), onto(full, "abc", names), atol=3e-4)
    assert abs(model.marginal(("a", "b", "c")) - full).max() > 1e-2  # which pairs do not tell


def test_a_fit_never_ends_above_its_start():
    rng = np.random.default_rng(1)
    for deviation in (1e-6, 1.0, 1e6):
        model, full, _ = random_model(7)
        names = list(model.sizes)
        tables = []
        for name in names:
            p = onto(full, names, (name,))
            tables.append(Noisy((name,), rng.normal(100 * p, deviation), deviation, p))
        model.fit(tables, 100.0, 30)
        for table in model.cliques.values():
            assert np.isfinite(table).all()
            assert table.sum() == pytest.approx(1)


# What one record moves, and what is released


@pytest.mark.few(12)
@pytest.mark.parametrize("shape", [(2, 2), (2, 3)])
@pytest.mark.parametrize(("score", "least"), [(distance, 0.9), (information, 0.2)])
def test_a_replaced_record_moves_the_score_by_what_is_paid_for_and_no_more(score, least, shape):
    """All tables of up to three records, and all replacements; expectations of any kind."""
    rng, most = np.random.default_rng(3), 0.0
    cells = int(np.prod(shape))
    for spread in (0.05, 1.0, 50.0):
        expected = rng.dirichlet(np.full(cells, spread)).reshape(shape)
        for n, sigma in ((3, 1e-3), (3, 0.2)):
            scores = {
                counts: np.rint(
                    score(np.reshape(counts, shape).astype(float), n * expected, sigma) / GRAIN
                )
                for counts in itertools.product(range(n + 1), repeat=cells)
                if sum(counts) == n
            }
            for counts, scored in scores.items():
                for gone, come in itertools.permutations(range(cells), 2):
                    other = list(counts)
                    other[gone] -= 1
                    other[come] += 1
                    if tuple(other) in scores:
                        most = max(most, abs(scored - scores[tuple(other)]))
    assert most <= SENSITIVITY
    assert most > least * SENSITIVITY


def related(n, rng):
    """Return cell numbers of records in which the first and the last column are alike."""
    a, b, c = (rng.integers(4, size=n) for _ in range(3))
    return {"a": a, "b": b, "c": c, "d": np.where(rng.random(n) < 0.7, a, rng.integers(4, size=n))}


def start(n):
    """Return a network without edges, and the tables that it was made of, without noise."""
    sizes = dict.fromkeys("abcd", 4)
    structure = Structure(dict.fromkeys("abcd", ()), sizes)
    probabilities = {name: np.full((1, 4), 0.25) for name in sizes}
    released = [((name,), ReleasedTable(np.full((1, 4), n / 4), "gaussian", 5.0)) for name in sizes]
    return structure, probabilities, released


def test_the_pair_that_is_off_is_chosen_and_fitted():
    """In each of 5 runs with 4,000 records: others are off by chance alone, a 10th as much."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        codes = related(4000, rng)
        choice = ExponentialMechanism(scale=20 / GRAIN, sensitivity=SENSITIVITY)
        rows, parents, mechanisms = with_pairs(
            *start(4000), codes, choice=choice, sigmas=[5.0], rng=rng
        )
        assert list(parents) == list("abcd")
        assert sorted(parents.items()) in (
            [("a", ("d",)), ("b", ()), ("c", ()), ("d", ())],
            [("a", ()), ("b", ()), ("c", ()), ("d", ("a",))],
        )
        child = "a" if parents["a"] else "d"
        assert np.diag(rows[child]) == pytest.approx(np.full(4, 0.7 + 0.3 / 4), abs=0.05)
        assert [(each.mechanism, each.shapes, each.sizes) for each in mechanisms] == [
            ("gaussian", ((4, 4),), (5.0,))
        ]


@pytest.mark.slow
def test_of_three_pairs_that_are_counted_only_the_related_ones_make_edges():
    """In each of 5 runs: the other two are within two deviations of chance, once in 25 not."""
    kept = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        codes = related(4000, rng)
        choice = ExponentialMechanism(scale=20 / GRAIN, sensitivity=SENSITIVITY)
        rows, parents, mechanisms = with_pairs(
            *start(4000), codes, choice=choice, sigmas=[20.0] * 3, rng=rng
        )
        kept.append(sum(map(len, parents.values())))
        assert parents["a"] == ("d",) or parents["d"] == ("a",)
        assert len(mechanisms) == 3
        assert all(table.sum(axis=1) == pytest.approx(1) for table in rows.values())
    assert sum(kept) <= 7


def independent(seed, n=3000):
    """Return the noisy tables of three pairs of independent columns, and of each column."""
    rng = np.random.default_rng(seed)
    sizes = {"a": 3, "b": 5, "c": 8}
    laws = {name: rng.dirichlet(np.full(size, 2.0)) for name, size in sizes.items()}
    codes = {name: rng.choice(size, n, p=laws[name]) for name, size in sizes.items()}
    structure = Structure(dict.fromkeys(sizes, ()), sizes)
    released = []
    for names in [("a",), ("b",), ("c",), ("a", "b"), ("a", "c"), ("b", "c")]:
        *own, node = names
        counts = count_table(node, own, sizes, codes)
        noisy = rng.normal(counts, 20.0)
        released.append((names, ReleasedTable(noisy, "gaussian", 20.0)))
    return structure, released, laws


@pytest.mark.slow
def test_independent_tables_differ_as_chance_has_it():
    """Over 200 draws; means of 200 standard scores are off by .25 once in 2,000 runs.

    Scores of few cells are skew, so more than 2.5 % of them are above 2.
    """
    found, errors = [], []
    for seed in range(200):
        structure, released, laws = independent(seed)
        alone = pairs._alone(structure, released, 3000.0)
        for names, table in released[3:]:
            found.append(pairs._excess(table, 3000 * pairs._product(alone, names)))
        errors.append(3000 * (alone["b"][0] - laws["b"]))
    # The estimates of the margins are fitted to the tables, which takes a few cells.
    assert -1.0 < np.mean(found) < 0.25
    assert 0.7 < np.std(found) < 1.3
    assert np.mean(np.array(found) > 2) < 0.06
    # Of sums of noise over 1, 3 and 8 cells, weighed, and of a law of 3,000 records.
    noise = 20 / (1 + 1 / 3 + 1 / 8) ** 0.5
    assert np.std(errors) < 1.15 * (noise**2 + 3000 * 0.2 * 0.8) ** 0.5


def test_what_tells_differs_by_more_than_chance():
    """The same with half of one column made of another, in all of 20 draws."""
    for seed in range(20):
        structure, released, _ = independent(seed)
        names, table = released[3]
        counts = table.values.copy()
        counts += 0.5 * (np.diag(counts.sum(axis=1))[:, [0, 1, 2, 0, 1]] / 2 - counts)
        told = ReleasedTable(counts, "gaussian", 20.0)
        alone = pairs._alone(structure, [*released[:3], (names, told)], 3000.0)
        assert pairs._excess(told, 3000 * pairs._product(alone, names)) > 2


def test_where_the_network_is_too_large_some_of_its_edges_are_left_out(monkeypatch):
    monkeypatch.setattr(pairs, "LARGEST_START", 40)
    monkeypatch.setattr(pairs, "MOST_CELLS", 40)
    structure = Structure(
        {"a": (), "b": ("a",), "c": ("a",), "d": ("a", "b")}, dict.fromkeys("abcd", 4)
    )
    rng = np.random.default_rng(5)
    codes = related(4000, rng)
    tables = structure.counts(codes)
    probabilities = {
        name: (table + 1) / (table + 1).sum(axis=1, keepdims=True)
        for name, table in zip(structure.nodes, tables, strict=True)
    }
    released = [
        ((*own, node), ReleasedTable(table, "gaussian", 5.0))
        for (node, own), table in zip(structure.parents.items(), tables, strict=True)
    ]
    choice = ExponentialMechanism(scale=20 / GRAIN, sensitivity=SENSITIVITY)
    rows, parents, mechanisms = with_pairs(
        structure, probabilities, released, codes, choice=choice, sigmas=[5.0, 5.0], rng=rng
    )
    assert sum(table.size for table in rows.values()) <= 40
    assert len(mechanisms) == 2
    assert all(table.sum(axis=1) == pytest.approx(1) for table in rows.values())
    Structure(parents, structure.sizes)  # is one
