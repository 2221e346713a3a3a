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
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privrl._typing import FloatArray
from privrl.mechanisms.tables import ReleasedTable
from privrl.models.estimates.posterior import posterior_counts
from privrl.models.estimates.rows import TINY, normalised, scanned

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
    found = [_looked_at(table, totals, order) for table in tables]
    alone = np.full(len(_STRENGTHS), 1 / len(_STRENGTHS))
    first = np.array([each.first for each in found])
    known, _ = _learned(first, alone)
    foretold = _log_mean(first, known)[:, None] + np.array([each.shared for each in found])
    own = first + np.array([each.uniform for each in found])
    # A row of K cells and Dirichlet(κ)-like is nearly (K - 1) / 2 (κ + 1) nats from its mean.
    told = sum(table.values.shape[1] - 1 for table in tables) / (2 * (_STRENGTHS + 1))
    most = math.log(len(totals))  # nats: that is which row a record is of
    prior = most / np.maximum(told, most)
    prior = np.concatenate([prior, prior]) / (2 * prior.sum())
    _, weights = _learned(np.concatenate([foretold, own], axis=1), prior)
    return [
        normalised(np.maximum(np.tensordot(mine, each.rows, 1), TINY))
        for mine, each in zip(weights, found, strict=True)
    ]


class _Found(NamedTuple):
    """What is found of one table; S strengths."""

    rows: FloatArray  # posterior means: shared first, shape (2 S, R, K)
    first: FloatArray  # log evidence of the first row around the uniform one, shape (S,)
    uniform: FloatArray  # of the other rows around the uniform one, shape (S,)
    shared: FloatArray  # of the other rows, each foretold from those before it, shape (S,)


def _looked_at(table: ReleasedTable, totals: FloatArray, order: NDArray[np.intp]) -> _Found:
    table = ReleasedTable(table.values[order], table.mechanism, table.deviation)
    totals = totals[order]
    n_rows, cells = table.values.shape
    strengths = _STRENGTHS[:, None, None]
    level = np.full((n_rows, cells), 1 / cells)
    own, own_evidence = _scanned(table, totals, level, strengths)
    before, variance = _pooled(table.values, table.deviation, totals)
    base = np.broadcast_to(before[-1], level.shape)
    shared, _ = _scanned(table, totals, base, strengths)
    # The rows before have strayed from the shared row as well, each on its own.
    rows_before = np.cumsum(totals) ** 2 / np.cumsum(totals**2)
    strayed = 1 + 1 / rows_before[:-1, None]
    spread = strayed / strengths + variance[:-1] / before[:-1]
    later = ReleasedTable(table.values[1:], table.mechanism, table.deviation)
    _, evidence = _scanned(later, totals[1:], before[:-1], 1 / spread)
    rows = np.concatenate([shared, own])
    return _Found(
        rows[:, np.argsort(order)],
        own_evidence[:, 0],
        own_evidence[:, 1:].sum(axis=1),
        evidence.sum(axis=1),
    )


def _of_totals(table: ReleasedTable, totals: FloatArray) -> ReleasedTable:
    """Return the table with rows moved, all cells alike, to where they have their totals."""
    missing = totals - table.values.sum(axis=1)
    values = table.values + missing[:, None] / table.values.shape[1]
    return ReleasedTable(values, table.mechanism, table.deviation)


def _scanned(
    table: ReleasedTable, totals: FloatArray, prior: FloatArray, strengths: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return what `scanned` does, for rows that have their totals, with evidence given these.

    Shapes: ``totals`` (R,), ``prior`` rows (R, K), ``strengths`` κ (S, 1 or R, 1 or K).
    """
    cells = table.values.shape[1]
    # Counts vary by their drawing too: nearly as if they were records more of a Dirichlet law.
    shapes = prior / (1 / strengths + 1 / totals[:, None])
    rows, evidence = scanned(table, totals, prior, shapes, strengths * prior)
    _, _, of_total = posterior_counts(
        totals, table.deviation * math.sqrt(cells), totals, shapes.sum(axis=2), laplace=False
    )
    return rows, evidence - of_total


def _pooled(
    values: FloatArray, deviation: float, totals: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return, of the first 1 .. R rows together, mean and variance of probabilities, (R, K)."""
    n_rows, cells = values.shape
    pseudo = _STRENGTHS[:, None, None] / cells
    counts, squares, log_evidence = posterior_counts(
        np.cumsum(values, axis=0),
        deviation * np.sqrt(np.arange(1, n_rows + 1))[:, None],
        np.cumsum(totals)[:, None] / cells,
        pseudo,
        laplace=False,  # of many terms, and one may be taken for many
    )
    weights = np.exp(log_evidence.sum(axis=2) - log_evidence.sum(axis=2).max(axis=0))[..., None]
    weights = weights / weights.sum(axis=0)
    in_all = (counts + pseudo).sum(axis=2, keepdims=True)
    means = (counts + pseudo) / in_all
    variances = np.maximum(squares - counts**2, 0) / in_all**2
    mean = (weights * means).sum(axis=0)
    variance = (weights * (variances + means**2)).sum(axis=0) - mean**2
    return np.maximum(normalised(mean), _LEAST), np.maximum(variance, 0)


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
