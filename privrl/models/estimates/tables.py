"""Rows of several tables, estimated together: post-processing, which is free.

Tables with the same rows of the same records, as those of naive Bayes with a row for each class,
tell of each other: where the rows of most differ, those of the next are likely to. A single table
of a few noisy rows tells little of how far its rows should be drawn together, all of them much.

A table's rows follow one of two laws, each with a strength κ as in
`privrl.models.estimates.rows`: its rows are spread around the **uniform** row, each on its own, or
around a row that they **share**. How often which law and strength occurs is learned from all
tables, by expectation maximisation. The prior knows one thing: of which row a record is, is not
more than the logarithm of their number, in nats. Strengths at which all tables together would tell
more are the less likely the more that is; so the more tables, the more alike are the rows of each.

A row's total is known far better than the table tells it. So rows are moved, all cells alike, to
have these totals, which takes noise away; and evidence is that of a row given its total, or else
totals, which fit too well, would speak for rows that are alike.

How likely a shared row makes a table must not be asked of a row that the table itself has made:
every table looks like its own mean, the more so the fewer rows there are and the more of the
records are in one. So the evidence is that of foretelling: rows are taken by size, the largest
first, and each is foretold from those before it, with what their noise and their own spread leave
unknown. The first is foretold from the uniform row, by strengths that the first rows of all tables
have shown.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privrl.mechanisms.tables import ReleasedTable
from privrl.models.estimates.posterior import posterior_counts
from privrl.models.estimates.rows import TINY, normalised
from privrl.numerics.typing import FloatArray

_STRENGTHS = np.geomspace(0.5, 5000, 13)  # κ, in records
_PRIOR_TABLES = 1.0  # how many tables what was known before counts for
_ROUNDS = 20  # of expectation maximisation
_LEAST = 1e-9  # probability of a cell in rows that others are foretold from


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
    foretold = _log_mean(found.first, known)[:, None] + found.shared
    own = found.first + found.uniform
    # A row of K cells and Dirichlet(κ)-like is nearly (K - 1) / 2 (κ + 1) nats from its mean.
    told = sum(table.values.shape[1] - 1 for table in tables) / (2 * (_STRENGTHS + 1))
    most = math.log(len(totals))  # nats: that is which row a record is of
    prior = most / np.maximum(told, most)
    prior = np.concatenate([prior, prior]) / (2 * prior.sum())
    _, weights = _learned(np.concatenate([foretold, own], axis=1), prior)
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
    shared: FloatArray  # of the other rows, each foretold from those before it, shape (T, S)


def _looked_at(cells: _Cells, totals: FloatArray, order: NDArray[np.intp]) -> _Found:
    cells, totals = replace(cells, values=cells.values[order]), totals[order]
    strengths = _STRENGTHS[:, None, None]
    level = np.broadcast_to(cells.each(1 / cells.sizes), cells.values.shape)
    own, own_evidence = _scanned(cells, totals, level, strengths)
    before, variance = _pooled(cells, totals)
    base = np.broadcast_to(before[-1], level.shape)
    shared, _ = _scanned(cells, totals, base, strengths)
    # The rows before have strayed from the shared row as well, each on its own.
    rows_before = np.cumsum(totals) ** 2 / np.cumsum(totals**2)
    strayed = 1 + 1 / rows_before[:-1, None]
    spread = strayed / strengths + variance[:-1] / before[:-1]
    later = replace(cells, values=cells.values[1:])
    _, evidence = _scanned(later, totals[1:], before[:-1], 1 / spread)
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
) -> tuple[FloatArray, FloatArray]:
    """Return posterior means of rows that have their totals, and log evidence given these.

    Shapes: ``totals`` (R,), ``prior`` rows (R, C), ``strengths`` κ (S, 1 or R, 1 or C); of what
    is returned (S, R, C) and (S, R, T).
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
    _, _, of_total = posterior_counts(
        totals[:, None],
        cells.deviations * np.sqrt(cells.sizes),
        totals[:, None],
        cells.sums(shapes),
        laplace=False,
    )
    return rows, cells.sums(evidence) - of_total


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
    return np.maximum(cells.normalised(mean), _LEAST), np.maximum(variance, 0)


def _learned(log_evidence: FloatArray, prior: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return how likely each law is, shape (L,), and for each table, (T, L)."""
    likely = np.exp(log_evidence - log_evidence.max(axis=1, keepdims=True))
    laws = prior
    for _ in range(_ROUNDS):
        each = normalised(likely * laws)
        laws = (each.sum(axis=0) + _PRIOR_TABLES * prior) / (len(each) + _PRIOR_TABLES)
    return laws, normalised(likely * laws)


def _log_mean(logs: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the logarithm of the weighted mean of each row's exponentials."""
    largest = logs.max(axis=1)
    mean: FloatArray = largest + np.log(np.exp(logs - largest[:, None]) @ weights)
    return mean
