"""No pair of neighbouring tables, whatever its counts and rows, is told apart more easily.

Nothing is sampled from a Dirichlet here: tables are random, divergences are exact.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import pytest
from mpmath import mp, mpf
from oracle_mpmath import beta_cdf, dirichlet_divergence

from privrl.costs import relations
from privrl.costs.dirichlet import DirichletCost

RELATIONS = [
    relations.ReplaceRecord(),
    relations.AddRemoveRecord(),
    relations.ReplaceStep(),
    relations.ReplaceEpisode(3),
]
Table = np.ndarray


def random_neighbours(rng: np.random.Generator, change: Sequence[float]) -> tuple[Table, Table]:
    """Counts of 2 to 3 rows of 3 cells, mostly small, changed at random cells."""
    rows = int(rng.integers(2, 4))
    before = rng.integers(0, rng.choice([1, 3, 50]), size=rows * 3, endpoint=True)
    after = before.copy()
    cells = rng.choice(rows * 3, size=len(change), replace=False)
    for cell, m in zip(cells, change, strict=True):
        after[cell] += int(m)
    lift = np.maximum(-after, 0)  # counts are never negative
    return (before + lift).reshape(rows, 3), (after + lift).reshape(rows, 3)


def table_divergence(
    after: Table, before: Table, order: float, *, weight: float, prior: Table
) -> float:
    """Rényi divergence of all rows together, released side by side."""
    total = mpf(0)
    for new, old, alpha in zip(after, before, prior, strict=True):
        if np.any(new != old):
            with mp.workdps(40):
                p = [mpf(weight) * int(u) + mpf(a) for u, a in zip(new, alpha, strict=True)]
                q = [mpf(weight) * int(u) + mpf(a) for u, a in zip(old, alpha, strict=True)]
            total += dirichlet_divergence(p, q, order, digits=40)
    return float(total)


@pytest.mark.few(16)
@pytest.mark.parametrize("relation", RELATIONS, ids=repr)
@pytest.mark.parametrize(("weight", "alpha"), [(1.0, 3.46), (0.2, 0.5), (4.0, 1.5), (1e-3, 10.0)])
def test_no_table_exceeds_the_claim(
    relation: relations.Relation, weight: float, alpha: float
) -> None:
    rng = np.random.default_rng(71)
    cost = DirichletCost(weight=weight, alpha=alpha, relation=relation)
    for change in relation.changes():
        steepest = max(0.1, *(-m for m in change))
        for _ in range(15):
            before, after = random_neighbours(rng, change)
            prior = alpha * rng.choice([1.0, 1.0, 1.7], size=before.shape)
            order = 1 + rng.uniform(0.01, 0.99) * alpha / (weight * steepest)
            true = table_divergence(after, before, order, weight=weight, prior=prior)
            assert true <= float(cost.rdp(order)) * (1 + 1e-11), (before, after, order)


@pytest.mark.parametrize(
    "relation", [relations.ReplaceRecord(), relations.ReplaceEpisode(3)], ids=repr
)
@pytest.mark.parametrize("other", [0, 10**6])
def test_pairs_attain_it_at_zero_counts_whatever_the_rest_of_the_row(
    relation: relations.Relation, other: int
) -> None:
    ((gain, loss),) = relation.changes()
    before = np.array([[0, -int(loss), other]])
    after = np.array([[int(gain), 0, other]])
    for weight, alpha, order in ((1.0, 3.5, 2.0), (0.25, 0.5, 1.5), (0.125, 20.0, 30.0)):
        cost = DirichletCost(weight=weight, alpha=alpha, relation=relation)
        prior = np.full((1, 3), alpha)
        true = table_divergence(after, before, order, weight=weight, prior=prior)
        assert true == pytest.approx(float(cost.rdp(order)), rel=1e-12)


def test_two_pairs_in_two_rows_attain_the_step() -> None:
    cost = DirichletCost(weight=0.5, alpha=3.5, relation=relations.ReplaceStep())
    pairs = relations.Relation("two pairs only", {"counts": [(1, -1, 1, -1)]})
    weaker = DirichletCost(weight=0.5, alpha=3.5, relation=pairs)
    before, after = np.array([[0, 1, 0], [0, 1, 0]]), np.array([[1, 0, 0], [1, 0, 0]])
    true = table_divergence(after, before, 2.0, weight=0.5, prior=np.full((2, 3), 3.5))
    assert true == pytest.approx(float(weaker.rdp(2.0)), rel=1e-12)
    assert true < float(cost.rdp(2.0))  # a self-loop is worse


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([[0, 0, 0]], [[1, 0, 0]]),
        ([[1, 0, 0]], [[0, 0, 0]]),
        ([[2, 0, 0], [0, 0, 0]], [[0, 1, 0], [1, 0, 0]]),
        ([[0, 1, 0], [1, 0, 0]], [[2, 0, 0], [0, 0, 0]]),
    ],
)
def test_changes_of_a_rows_total_approach_it_in_long_rows(
    before: list[list[int]], after: list[list[int]]
) -> None:
    old, new = np.array(before), np.array(after)
    change = tuple(float(m) for m in (new - old).ravel() if m)
    cost = DirichletCost(
        weight=0.5, alpha=3.5, relation=relations.Relation("this change", {"counts": [change]})
    )
    claim = float(cost.rdp(2.0))
    gaps = []
    for other in (0, 10**3, 10**6, 10**9):
        old[:, 2] = new[:, 2] = other
        true = table_divergence(new, old, 2.0, weight=0.5, prior=np.full(old.shape, 3.5))
        gaps.append(1 - true / claim)
    assert all(0 < later < earlier for earlier, later in pairwise(gaps))
    assert gaps[-1] < 1e-7


# Hockey-stick divergence of rows of two cells -------------------------------------------------


def beta_delta(p: tuple[mpf, mpf], q: tuple[mpf, mpf], epsilon: float) -> float:
    """Hockey-stick divergence of Beta(*p) from Beta(*q), whose log-ratio rises or falls.

    The log-ratio is (p0 - q0) log(b) + (p1 - q1) log(1 - b) + constant, monotone because the
    first difference is >= 0 and the second <= 0.
    """
    constant = mp.log(mp.beta(*q)) - mp.log(mp.beta(*p))

    def excess(b: mpf) -> mpf:
        return (p[0] - q[0]) * mp.log(b) + (p[1] - q[1]) * mp.log1p(-b) + constant - epsilon

    low, high = mpf(0), mpf(1)
    for _ in range(120):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) < 0 else (low, middle)
    if high == 1:
        return 0.0
    above = [beta_cdf(1 - low, b, a, digits=35) for a, b in (p, q)]
    return float(above[0] - mp.exp(epsilon) * above[1])


def pair(u: int, v: int, r: mpf, a: mpf) -> tuple[tuple[mpf, mpf], tuple[mpf, mpf]]:
    return (a + r * (u + 1), a + r * v), (a + r * u, a + r * (v + 1))


def gain(u: int, v: int, r: mpf, a: mpf) -> tuple[tuple[mpf, mpf], tuple[mpf, mpf]]:
    return (a + r * (u + 1), a + r * v), (a + r * u, a + r * v)


def loss(u: int, v: int, r: mpf, a: mpf) -> tuple[tuple[mpf, mpf], tuple[mpf, mpf]]:
    return (a + r * v, a + r * u), (a + r * v, a + r * (u + 1))


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("relation", "neighbours"),
    [
        (relations.ReplaceRecord(), pair),
        (relations.AddRemoveRecord(), gain),
        (relations.AddRemoveRecord(), loss),
    ],
    ids=["replace", "add", "remove"],
)
def test_no_row_of_two_cells_has_a_larger_delta(
    relation: relations.Relation, neighbours: Callable
) -> None:
    rng = np.random.default_rng(5)
    for weight, alpha in ((1.0, 2.0), (0.25, 0.5), (2.0, 5.0)):
        cost = DirichletCost(weight=weight, alpha=alpha, relation=relation)
        for _ in range(8):
            u, v = (int(x) for x in rng.integers(0, 5, size=2))
            epsilon = float(rng.choice([0.0, 0.1, 0.5, 2.0]))
            with mp.workdps(40):
                true = beta_delta(*neighbours(u, v, mpf(weight), mpf(alpha)), epsilon)
            assert true <= float(cost.delta(epsilon)) * (1 + 1e-10)


@pytest.mark.parametrize("epsilon", [0.0, 0.7, 3.0])
def test_a_row_of_two_empty_cells_attains_delta(epsilon: float) -> None:
    cost = DirichletCost(weight=1, alpha=2.5, relation=relations.ReplaceRecord())
    with mp.workdps(40):
        true = beta_delta(*pair(0, 0, mpf(1), mpf(2.5)), epsilon)
    assert true == pytest.approx(float(cost.delta(epsilon)), rel=1e-11)
