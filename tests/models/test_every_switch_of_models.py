"""Every comparison of numbers in models, data and continuous, and both of its sides.

As in ``core/test_every_switch.py``, for code that looks at records and persons. One of them must
not decide what becomes of another: ``core/switches_models.txt`` lists why none does. Below are
those where another one might, tried on the switch and one float to either side.
"""

import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="no sklearn: pip install 'privrl[models]'")

from every_comparison import found, listed, unexplained, unlike

from privrl.continuous import moments
from privrl.data import csv_files
from privrl.data.schema import Bins
from privrl.models.bayes_net.choice import BOUND, GRAIN, bounded_gain
from privrl.models.bayes_net.choice import found as expected_of
from privrl.models.bayes_net.pairs import distance, information
from privrl.models.histograms.release import count_cells
from privrl.models.naive_bayes import temperature
from privrl.models.naive_bayes.temperature import derivative_tables

# The list ---------------------------------------------------------------------------------

ROOT = Path(__file__).parents[2] / "privrl"
LIST = Path(__file__).parents[1] / "core" / "switches_models.txt"
FOLDERS = ("models", "data", "continuous")
#: Of names and files: nothing charged or drawn depends on a number in them.
LEFT_OUT = {
    *("data.datasets.files", "data.logs.templates", "data.schema.documentation"),
    *("data.schema.headers", "data.schema.plain", "data.schema.templates"),
    *("models.chosen", "models.saving", "models.naive_bayes.plain"),
    "models.logistic_regression.plain",
}


def test_every_comparison_is_listed() -> None:
    new, gone = unlike(found(ROOT, FOLDERS, LEFT_OUT), listed(LIST))
    assert not new, f"try both sides of these, and list them in switches_models.txt:\n{new}"
    assert not gone, f"no longer there, so leave them out of switches_models.txt:\n{gone}"


def test_every_entry_says_why() -> None:
    assert not unexplained(listed(LIST))


# One record and all others ------------------------------------------------------------------


def beside(*numbers: float) -> list[float]:
    """Return numbers and the next floats below and above."""
    ends = (-math.inf, math.inf)
    return [x for n in numbers for x in (n, *(math.nextafter(n, end) for end in ends))]


EDGES = [
    (0.0, 0.1, 0.2, 0.3, 0.4),
    (-1.0, *beside(0.3), 2.0),
    (0.0, 5e-324, 1e-323, 1.0),
    (1e16, 1e16 + 2, 1e16 + 6, 1e16 + 8),
    (-1.7e308, 0.0, 1.7e308),
    (-1.7e308, 1.7e308),
    (1.0, math.nextafter(1.0, 2)),
    (0.0, 1e-320),
]


# Floats at edges, and next to them, that fall into their bins: all; not below; not above; neither.
EVEN = [(0, 1, 2), (-1, 1, 3), (0.1, 0.7, 3), (-0.3, 1e-3, 97)]


@pytest.mark.parametrize("edges", [*EDGES, *(Bins.even(*each).edges for each in EVEN)])
def test_bins_are_those_of_the_schema_on_and_beside_edges(edges: tuple[float, ...]) -> None:
    """The quick way asks of all records at once whether any is near an edge."""
    rng, column = np.random.default_rng(0), Bins(tuple(sorted(edges)), missing=True)
    far = [-math.inf, math.inf, -1.79e308, 1.79e308, 0.0, -0.0, math.nan]
    values = np.array([*far, *beside(*edges), *(a / 2 + b / 2 for a, b in pairwise(edges))])
    for some in (values[:, None], values[None], *rng.choice(values, (200, 1, 5))):
        for numbers in some:
            counts = np.bincount(column.encode(numbers), minlength=column.size)
            np.testing.assert_array_equal(count_cells(numbers, column), counts)


ODD = [
    *(0.0, 1.0, -30.0, 1e-320, -745.0, -1.7e308, math.inf, -math.inf, math.nan),
    *beside(1e300, -1e300, 5e299),
]


@pytest.mark.parametrize("n_classes", [2, 3, 9])
def test_no_record_decides_how_derivatives_of_others_are_computed(
    n_classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Infinite and huge numbers of one record send all others a slower way: to the same bits."""
    # Smaller steps show more bits.
    monkeypatch.setattr(temperature, "_TUNED", replace(temperature._TUNED, steps=2**50))
    rng = np.random.default_rng(n_classes)

    def derivatives(odds: np.ndarray, classes: np.ndarray) -> np.ndarray:
        return np.array([each[0, 0] for each in derivative_tables(prior, odds.T, classes)])

    for _ in range(150):
        prior, n = np.log(rng.dirichlet(np.ones(n_classes))), 6
        odds, classes = rng.normal(size=(n, n_classes)), rng.integers(n_classes, size=n)
        plain = derivatives(odds, classes)
        others = derivatives(odds[1:], classes[1:])
        odds[0] = rng.choice(ODD, n_classes)
        with np.errstate(all="ignore"):
            odd = derivatives(odds, classes)
            alone = derivatives(odds[:1], classes[:1])
        np.testing.assert_array_equal(odd, alone + others)
        assert (np.abs(odd - plain) <= 1).all()


def test_a_replaced_record_moves_scores_by_no_more_than_is_charged() -> None:
    """Where shares are at the bound of their probabilities, cells are empty, or chance is all."""
    rng, most = np.random.default_rng(0), 2 * BOUND + GRAIN / 2
    for _ in range(1500):
        shape, n = (int(rng.integers(1, 4)), int(rng.integers(2, 5))), 10.0 ** rng.integers(1, 12)
        p = np.maximum(rng.dirichlet(np.full(shape[1], rng.choice([0.01, 1.0]))), 1e-300)
        p /= p.sum()
        counts = np.rint(n * rng.dirichlet(np.full(math.prod(shape), 0.3)).reshape(shape))
        counts[0] = np.rint(n * p * np.exp(rng.choice([-BOUND, 0, BOUND], shape[1])))
        counts[0, 0] += 1
        moved = counts.copy()
        moved.flat[rng.choice(np.flatnonzero(counts))] -= 1
        moved.flat[rng.integers(moved.size)] += 1
        both = [bounded_gain(each, p) for each in (counts, moved)]
        assert abs(both[0] - both[1]) <= most
        expected = counts.sum() * rng.dirichlet(np.ones(counts.size)).reshape(shape)
        chance = float(np.minimum(0.5, BOUND * expected).sum())
        for gains in (both, [chance + move for move in (-BOUND, BOUND)]):
            scores = [expected_of(each, expected, 1 / n) for each in gains]
            assert abs(scores[0] - scores[1]) <= most
        for score in (distance, information):
            scores = [score(each, expected, math.sqrt(n)) for each in (counts, moved)]
            assert abs(scores[0] - scores[1]) <= most


@pytest.mark.parametrize("share", [1.0, 0.05])
def test_a_contribution_is_its_own_and_no_larger_than_it_may_be(
    share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers whose squares are no floats send a person's rows another way, and nobody else's."""
    rng, amplitude, grains = np.random.default_rng(0), math.sqrt(share), moments.GRAINS
    odd = [*beside(1e-100, 1e100), 0.0, 5e-324, 1e-170, 1e200, 1.7e308]

    def squared(sums: np.ndarray) -> int:
        return sum(int(each) ** 2 for each in sums.flat)

    def check(whole: np.ndarray, alone: list[np.ndarray]) -> None:
        np.testing.assert_array_equal(whole, np.sum([0 * whole, *alone], axis=0))
        assert max(map(squared, alone), default=0) <= share * moments.GRAINS**2

    for k in range(400):
        # Smaller grains show more bits; what is summed is still exact.
        by_step = k % 2 == 1
        fine = 2.0**40 if by_step else 2.0**48
        monkeypatch.setattr(moments, "GRAINS", grains if k % 4 < 2 else fine)
        lengths = rng.integers(0, 4, 6)
        ends = np.append(0, np.cumsum(lengths))
        rows = rng.normal(size=(ends[-1], 3))
        some = rng.random(len(rows)) < 0.5
        rows[some, rng.integers(3)] = rng.choice(odd, some.sum()) * rng.choice([-1, 1])
        persons = [rows[i:j] for i, j in pairwise(ends)]
        with np.errstate(all="ignore"):
            for add in () if by_step else (moments.by_person, moments.counts_by_person):
                alone = [add(each, amplitude, np.array([0, len(each)])) for each in persons]
                check(add(rows, amplitude, ends), alone)
            for by_each in (moments.by_row, moments.counts_by_row) if by_step else ():
                alone = [by_each(row[None], amplitude) for row in rows]
                check(by_each(rows, amplitude), alone)


FIELDS = ["", "a", '"', '""', '""""', '"b"', '"b,"', '"\n"', 'c"', '"d', "é", " ", "\0"]
FIELDS += ["x" * n for n in (7, 8, 9, 16, 63, 64, 65)]


def test_the_quick_way_reads_what_the_slow_one_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One record with a quote or a long field has its whole block read row by row."""
    rng, path = np.random.default_rng(0), tmp_path / "some.csv"

    def read(names: list[str]) -> dict[str, list[str]] | str:
        found: dict[str, list[str]] = {name: [] for name in names}
        try:
            for columns in csv_files.csv_columns(path, names, ","):
                for name, (fields, at) in columns.items():
                    found[name] += [fields[place] for place in at]
        except ValueError as error:
            return str(error)
        return found

    quick = csv_files._marks
    for _ in range(1500):
        names, end = ["a", "b", "c"][: rng.integers(1, 4)], str(rng.choice(["\n", "\r\n"]))
        likely = np.where(np.arange(len(FIELDS)) < 2, 10.0, 0.3)
        fields = rng.choice(FIELDS, (rng.integers(5), len(names)), p=likely / likely.sum())
        lines = [",".join(names), *(",".join(each) for each in fields)]
        path.write_text(end.join(lines) + end * rng.integers(2), "utf-8", newline="")
        monkeypatch.setattr(csv_files, "_BLOCK", int(rng.choice([1, 8, 1 << 20])))
        monkeypatch.setattr(csv_files, "_marks", quick)
        there = read(names)
        monkeypatch.setattr(csv_files, "_marks", lambda *_: None)
        assert read(names) == there
