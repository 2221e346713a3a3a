"""Probabilities from released tables: post-processing, which is free.

A released table is noisy and may have negative cells. The size of its noise is public.
`row_probabilities` estimates the rows of one table by empirical Bayes: the table itself shows how
far its rows should be shrunk together. `table_probabilities` does the same for several tables
with the same rows. `clipped_rows` is the usual estimate, which keeps the noise.

**One table.** The count of a cell follows a gamma law with mean ``N q`` and shape ``κ q``, where
N is the row's total and q the pooled row, so the row's frequencies nearly follow Dirichlet(κ q).
The released number is that count with noise of known size. With a small κ the rows differ as much
as their counts do; with a large κ all of them equal the pooled row. Several values of κ are
weighted by their evidence, the likelihood of the released table. The counts' posterior means,
with κ q added as for exact counts, are averaged with these weights. The pooled row is estimated
from the column sums in the same way, with a prior around the uniform row.

**Several tables.** The tables of naive Bayes have a row for each class. Where the rows of most
tables differ, those of the next are likely to differ. So each table follows one of two laws, each
with a strength κ: its rows scatter around the **uniform** row, or around a row that they
**share**. Expectation maximisation learns from all tables how frequent each law and strength is.
The prior uses one fact: the features cannot carry more information about the class than the
logarithm of the number of classes, in nats. A strength at which all tables together would carry
more is less likely in proportion. So more tables mean that the rows of each are more alike.

A row's total is known far better than from one table alone. So all cells of a row are shifted by
the same amount until it has that total, which removes noise. The evidence is that of the row given
its total.

The evidence of a shared row must not use a row that was estimated from the same table: every
table is close to its own mean. So the evidence is predictive. Rows are sorted by size, the largest
first, and each is predicted from the rows before it, with the uncertainty that noise and scatter
leave. The first row is predicted from the uniform row, with the strengths that the first rows of
all tables showed.

References
----------
B. Efron and C. Morris. *Stein's estimation rule and its competitors: an empirical Bayes
approach* (1973).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privrl.mechanisms.tables import ReleasedTable
from privrl.models.estimates.posterior import LEAST_DEVIATION, posterior_counts
from privrl.numerics.checks import check_between, check_is, check_numbers
from privrl.numerics.typing import FloatArray

_ROW_STRENGTHS = np.geomspace(0.5, 5000, 7)  # κ, in records
_AT_ONCE = 20_000  # cells; each takes a few hundred numbers of memory


@dataclass(frozen=True)
class _Tuned:
    """How the rows of a noisy table are estimated.

    They were chosen on the 29 generated sets and the six sets of UCI that docs/results/naive-
    bayes.md names; that page also has data on which nothing was chosen. Sizes of blocks and
    chunks bound memory, and the smallest and largest numbers keep results within floats; none
    of these changes a result by more than rounding.
    """

    largest: float = 1e100  # count of a cell, so that rows have sums
    prior_tables: float = 1.0  # how many tables what was known before counts for
    rounds: int = 20  # of expectation maximisation
    least: float = 1e-9  # probability of a cell in rows from which others are predicted


_TUNED = _Tuned()


TINY = np.finfo(np.float64).tiny
_STRENGTHS = np.geomspace(0.5, 5000, 13)  # κ, in records


def row_probabilities(table: ReleasedTable, totals: ArrayLike | None = None) -> FloatArray:
    """Return the best guess at each row's probabilities, by empirical Bayes.

    Parameters
    ----------
    table : ReleasedTable
        As released; nothing else of the data is used. The rows of a Dirichlet draw are
        probabilities already and are returned as they are.
    totals : array_like, shape (R,), optional
        How many records each row has, > 0, from elsewhere than the private data, or from
        `row_totals`; by default estimated from this table.

    Returns
    -------
    array, shape (R, K)
        Probabilities > 0; each row sums to 1 within rounding.

    Raises
    ------
    ValueError
        If ``totals`` are not numbers > 0, one for each row.
    """
    check_is("table", table, ReleasedTable)
    if table.mechanism == "dirichlet":
        return table.values
    rows = len(table.values)
    if totals is None:
        totals = [max(float(table.values.sum()), 1.0)] if rows == 1 else row_totals([table])
    totals = check_numbers("totals", totals)
    if totals.shape != (rows,) or not ((totals > 0) & (totals < _TUNED.largest)).all():
        raise ValueError(
            f"totals must be {rows} numbers > 0 and < {_TUNED.largest:g}, got shape {totals.shape} "
            "or others."
        )
    pooled = _pooled_row(table, float(totals.sum()))
    return pooled[None] if rows == 1 else _shrunk(table, totals, pooled)


def row_totals(tables: Sequence[ReleasedTable], n_records: float | None = None) -> FloatArray:
    """Return how many records each row has, from tables with the same rows of the same records.

    Parameters
    ----------
    tables : sequence of ReleasedTable
        Noisy counts, with R rows each; a table with one row of R cells counts the rows
        themselves. Sums over rows are averaged, the less noisy with more weight.
    n_records : float, optional
        The public number of records, > 0, to which the totals then sum.

    Returns
    -------
    array, shape (R,)
        Numbers > 0, drawn together as far as they are noise, as in `row_probabilities`.

    Raises
    ------
    ValueError
        If ``tables`` is empty, one is a Dirichlet draw, or the numbers of rows differ.
    """
    for table in tables:
        check_is("tables", table, ReleasedTable)
    if not tables or any(table.mechanism == "dirichlet" for table in tables):
        raise ValueError("tables must be noisy counts, at least one; a draw has no totals.")
    sums = [t.values[0] if len(t.values) == 1 else t.values.sum(axis=1) for t in tables]
    if len({len(each) for each in sums}) > 1:
        raise ValueError(f"tables must have the same rows, got {[len(each) for each in sums]}.")
    cells = [1 if len(t.values) == 1 else t.values.shape[1] for t in tables]
    variances = np.array([n * _deviation(t) ** 2 for n, t in zip(cells, tables, strict=True)])
    precision = 1 / variances
    mean = precision @ np.array(sums) / precision.sum()
    if n_records is None:
        n_records = max(float(mean.sum()), 1.0)
    n_records = check_between("n_records", n_records, 0, _TUNED.largest, "it is public")
    mean = mean + (n_records - mean.sum()) / len(mean)
    # Any noise with many terms is nearly Gaussian.
    whole = ReleasedTable(mean[None], "gaussian", float(precision.sum() ** -0.5))
    uniform = np.full(len(mean), 1 / len(mean))
    return n_records * _shrunk(whole, np.array([n_records]), uniform)[0]


def clipped_rows(table: ReleasedTable, floor: float | None = None) -> FloatArray:
    """Return each row normalised, after small counts were raised to a floor.

    The table and the result are those of `row_probabilities`.

    Parameters
    ----------
    floor : float, optional
        The least count, > 0; by default the noise's standard deviation, below which counts
        are mostly noise.

    Raises
    ------
    ValueError
        If ``floor`` is not > 0, or beyond all counts.
    """
    check_is("table", table, ReleasedTable)
    if table.mechanism == "dirichlet":
        return table.values
    floor = check_between("floor", _deviation(table) if floor is None else floor, 0, _TUNED.largest)
    return normalised(np.maximum(table.values, floor))


def _pooled_row(table: ReleasedTable, total: float) -> FloatArray:
    """Return the probabilities of all rows taken together, shape (K,)."""
    rows, cells = table.values.shape
    sums = ReleasedTable(
        table.values.sum(axis=0, keepdims=True),
        table.mechanism if rows == 1 else "gaussian",
        math.sqrt(rows) * table.deviation,
    )
    return _shrunk(sums, np.array([total]), np.full(cells, 1 / cells))[0]


def _shrunk(table: ReleasedTable, totals: FloatArray, prior: FloatArray) -> FloatArray:
    """Return each row's posterior mean, drawn towards the prior row as the evidence asks for.

    Shapes: ``totals`` (R,), ``prior`` (K,) and > 0.
    """
    pseudo = _ROW_STRENGTHS[:, None, None] * prior
    rows = np.broadcast_to(prior, table.values.shape)
    each, log_evidence = scanned(table, totals, rows, pseudo, pseudo)
    by_strength = log_evidence.sum(axis=1)
    weights = np.exp(by_strength - by_strength.max())
    return normalised(np.maximum(np.tensordot(weights, each, 1), TINY))


def scanned(
    table: ReleasedTable,
    totals: FloatArray,
    prior: FloatArray,
    shapes: FloatArray,
    pseudo: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return each row's posterior mean for several priors, (S, R, K), and log evidences, (S, R).

    Of sizes: the table (R, K), ``totals`` (R,), ``prior`` rows (R, K), ``shapes`` of the counts'
    gamma laws and ``pseudo`` counts, added to them, (S, R, K) or (S, 1, K).
    """
    values = table.values
    whole = (len(pseudo), *values.shape)
    shapes, pseudo = (np.broadcast_to(np.maximum(each, TINY), whole) for each in (shapes, pseudo))
    mean = np.maximum(totals[:, None] * prior, TINY)
    means, evidences = [], []
    block = max(1, _AT_ONCE // values.shape[1])
    for start in range(0, len(values), block):
        rows = slice(start, start + block)
        counts, _, log_evidence = posterior_counts(
            values[rows],
            table.deviation,
            mean[rows],
            shapes[:, rows],
            laplace=table.mechanism == "laplace",
        )
        means.append(normalised(counts + pseudo[:, rows]))
        evidences.append(log_evidence.sum(axis=2))
    return np.concatenate(means, axis=1), np.concatenate(evidences, axis=1)


def _deviation(table: ReleasedTable) -> float:
    return max(table.deviation, LEAST_DEVIATION)


def normalised(rows: FloatArray) -> FloatArray:
    """Return rows divided by their sums."""
    return rows / rows.sum(axis=-1, keepdims=True)


def table_probabilities(tables: Sequence[ReleasedTable], totals: FloatArray) -> list[FloatArray]:
    """Return for each table the best guess at its rows' probabilities, by empirical Bayes.

    Parameters
    ----------
    tables : sequence of ReleasedTable
        Noisy counts, of at least two rows each and as many in all of them; nothing else of the
        data is used.
    totals : array, shape (R,)
        How many records each row has, > 0, as from `row_totals`.

    Returns
    -------
    list of arrays, shape (R, K)
        Probabilities > 0; each row sums to 1 within rounding.
    """
    order = np.argsort(-totals, kind="stable")
    tables = [_of_totals(table, totals) for table in tables]
    found = _looked_at(_Cells.of(tables), totals, order)
    alone = np.full(len(_STRENGTHS), 1 / len(_STRENGTHS))
    known, _ = _learned(found.first, alone)
    predicted = _log_mean(found.first, known)[:, None] + found.shared
    own = found.first + found.uniform
    # A row of K cells and Dirichlet(κ)-like is nearly (K - 1) / 2 (κ + 1) nats from its mean.
    information = sum(table.values.shape[1] - 1 for table in tables) / (2 * (_STRENGTHS + 1))
    most = math.log(len(totals))  # nats: that is which row a record is of
    prior = most / np.maximum(information, most)
    prior = np.concatenate([prior, prior]) / (2 * prior.sum())
    _, weights = _learned(np.concatenate([predicted, own], axis=1), prior)
    return [
        normalised(np.maximum(np.tensordot(mine, rows, 1), TINY))
        for mine, rows in zip(weights, found.rows, strict=True)
    ]


@dataclass(frozen=True)
class _Cells:
    """Tables side by side: T of them, C cells to a row of all."""

    values: FloatArray  # (R, C)
    deviations: FloatArray  # of the tables' noise, (T,)
    sizes: FloatArray  # cells to a row, whole, (T,)
    laplace: bool

    @classmethod
    def of(cls, tables: Sequence[ReleasedTable]) -> "_Cells":
        """Return tables of one mechanism."""
        values = np.concatenate([table.values for table in tables], axis=1)
        deviations = np.array([table.deviation for table in tables])
        sizes = np.array([float(table.values.shape[1]) for table in tables])
        return cls(values, deviations, sizes, tables[0].mechanism == "laplace")

    @cached_property
    def starts(self) -> NDArray[np.intp]:
        """Where tables start, (T,)."""
        return (np.cumsum(self.sizes) - self.sizes).astype(np.intp)

    def sums(self, cells: FloatArray) -> FloatArray:
        """Return the sums of each table's cells, (..., T)."""
        return np.add.reduceat(cells, self.starts, axis=-1)

    def each(self, of_tables: FloatArray) -> FloatArray:
        """Return for each cell what its table has, (..., C)."""
        return np.repeat(of_tables, self.sizes.astype(np.intp), axis=-1)

    def normalised(self, cells: FloatArray) -> FloatArray:
        """Return each table's rows divided by their sums."""
        return cells / self.each(self.sums(cells))


class _Found(NamedTuple):
    """What is found of tables; S strengths."""

    rows: list[FloatArray]  # posterior means: shared first, shape (2 S, R, K)
    first: FloatArray  # log evidence of the first row around the uniform one, shape (T, S)
    uniform: FloatArray  # of the other rows around the uniform one, shape (T, S)
    shared: FloatArray  # of the other rows, each predicted from those before it, shape (T, S)


def _looked_at(cells: _Cells, totals: FloatArray, order: NDArray[np.intp]) -> _Found:
    cells, totals = replace(cells, values=cells.values[order]), totals[order]
    strengths = _STRENGTHS[:, None, None]
    level = np.broadcast_to(cells.each(1 / cells.sizes), cells.values.shape)
    own, own_evidence, shapes = _scanned(cells, totals, level, strengths)
    own_evidence -= _of_totals_alone(cells, totals, shapes)
    before, variance = _pooled(cells, totals)
    base = np.broadcast_to(before[-1], level.shape)
    shared, *_ = _scanned(cells, totals, base, strengths)
    # The rows before have strayed from the shared row as well, each on its own.
    rows_before = np.cumsum(totals) ** 2 / np.cumsum(totals**2)
    strayed = 1 + 1 / rows_before[:-1, None]
    spread = strayed / strengths + variance[:-1] / before[:-1]
    later = replace(cells, values=cells.values[1:])
    _, evidence, shapes = _scanned(later, totals[1:], before[:-1], 1 / spread)
    evidence -= _of_totals_alone(later, totals[1:], shapes)
    rows = np.concatenate([shared, own])[:, np.argsort(order)]
    return _Found(
        np.split(rows, cells.starts[1:], axis=2),
        own_evidence[:, 0].T,
        own_evidence[:, 1:].sum(axis=1).T,
        evidence.sum(axis=1).T,
    )


def _of_totals(table: ReleasedTable, totals: FloatArray) -> ReleasedTable:
    """Return the table with rows moved, all cells alike, to where they have their totals."""
    missing = totals - table.values.sum(axis=1)
    values = table.values + missing[:, None] / table.values.shape[1]
    return ReleasedTable(values, table.mechanism, table.deviation)


def _scanned(
    cells: _Cells, totals: FloatArray, prior: FloatArray, strengths: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return posterior means of rows that have their totals, log evidence, and priors' shapes.

    Shapes: ``totals`` (R,), ``prior`` rows (R, C), ``strengths`` κ (S, 1 or R, 1 or C); of the
    result (S, R, C), (S, R, T) and (S, R, C).
    """
    # Counts vary by their drawing too: nearly as if they were records more of a Dirichlet law.
    shapes = prior / (1 / strengths + 1 / totals[:, None])
    counts, _, evidence = posterior_counts(
        cells.values,
        cells.each(cells.deviations),
        np.maximum(totals[:, None] * prior, TINY),
        np.maximum(shapes, TINY),
        laplace=cells.laplace,
    )
    rows = cells.normalised(counts + np.maximum(strengths * prior, TINY))
    return rows, cells.sums(evidence), shapes


def _of_totals_alone(cells: _Cells, totals: FloatArray, shapes: FloatArray) -> FloatArray:
    """Return the log evidence of rows' totals, which are given."""
    _, _, evidence = posterior_counts(
        totals[:, None],
        cells.deviations * np.sqrt(cells.sizes),
        totals[:, None],
        cells.sums(shapes),
        laplace=False,
    )
    return evidence


def _pooled(cells: _Cells, totals: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return, of the first 1 .. R rows together, mean and variance of probabilities, (R, C)."""
    pseudo = _STRENGTHS[:, None, None] / cells.each(cells.sizes)
    counts, squares, log_evidence = posterior_counts(
        np.cumsum(cells.values, axis=0),
        cells.each(cells.deviations) * np.sqrt(np.arange(1, len(totals) + 1))[:, None],
        np.cumsum(totals)[:, None] / cells.each(cells.sizes),
        pseudo,
        laplace=False,  # of many terms, and one may be taken for many
    )
    of_tables = cells.sums(log_evidence)
    weights = np.exp(of_tables - of_tables.max(axis=0))
    weights = cells.each(weights / weights.sum(axis=0))
    in_all = cells.each(cells.sums(counts + pseudo))
    means = (counts + pseudo) / in_all
    variances = np.maximum(squares - counts**2, 0) / in_all**2
    mean = (weights * means).sum(axis=0)
    variance = (weights * (variances + means**2)).sum(axis=0) - mean**2
    return np.maximum(cells.normalised(mean), _TUNED.least), np.maximum(variance, 0)


def _learned(log_evidence: FloatArray, prior: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return how likely each law is, shape (L,), and for each table, (T, L)."""
    likely = np.exp(log_evidence - log_evidence.max(axis=1, keepdims=True))
    laws = prior
    for _ in range(_TUNED.rounds):
        each = normalised(likely * laws)
        laws = (each.sum(axis=0) + _TUNED.prior_tables * prior) / (len(each) + _TUNED.prior_tables)
    return laws, normalised(likely * laws)


def _log_mean(logs: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the logarithm of the weighted mean of each row's exponentials."""
    largest = logs.max(axis=1)
    mean: FloatArray = largest + np.log(np.exp(logs - largest[:, None]) @ weights)
    return mean
