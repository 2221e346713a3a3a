"""Probabilities from released tables: post-processing, which is free.

A released table is noisy and may be negative. What a user wants are each row's probabilities, the
best guess given the noise, whose size is public. `row_probabilities` is that guess, by empirical
Bayes: how far rows are drawn together is read off the released table itself. `clipped_rows` is
the usual way out, which leaves the noise in.

The model: the count of a cell follows a gamma law with mean ``N q`` and shape ``κ q``, where N is
the row's total and q the pooled row, so that the row's frequencies follow Dirichlet(κ q) nearly;
the released number is that count with noise of known size. For a small κ rows are as different
as their counts say, for a large one all of them are as the pooled row. Several κ are weighed by
how likely they make the released table (its evidence), and the counts' posterior means, with κ q
added as for exact counts, are averaged by these weights. The pooled row comes from the table's
column sums in the same way, its own prior being around the uniform row.

References
----------
B. Efron and C. Morris. *Stein's estimation rule and its competitors: an empirical Bayes
approach* (1973).
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from privrl.mechanisms.tables import ReleasedTable
from privrl.models.estimates.posterior import LEAST_DEVIATION, posterior_counts
from privrl.numerics.checks import check_between, check_is, check_numbers
from privrl.numerics.typing import FloatArray

_STRENGTHS = np.geomspace(0.5, 5000, 7)  # κ, in records
_CELLS = 20_000  # at once: what is worked out takes a few hundred numbers to a cell
_LARGEST = 1e100  # count of a cell, so that rows have sums
TINY = np.finfo(np.float64).tiny


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
    if totals.shape != (rows,) or not ((totals > 0) & (totals < _LARGEST)).all():
        raise ValueError(
            f"totals must be {rows} numbers > 0 and < {_LARGEST:g}, got shape {totals.shape} or "
            "others."
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
        If there is no table, one is a Dirichlet draw, or the numbers of rows differ.
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
    n_records = check_between("n_records", n_records, 0, _LARGEST, "it is public")
    mean = mean + (n_records - mean.sum()) / len(mean)
    # Any noise with many terms is nearly Gaussian.
    whole = ReleasedTable(mean[None], "gaussian", float(precision.sum() ** -0.5))
    uniform = np.full(len(mean), 1 / len(mean))
    return n_records * _shrunk(whole, np.array([n_records]), uniform)[0]


def clipped_rows(table: ReleasedTable, floor: float | None = None) -> FloatArray:
    """Return each row normalised, after small counts were raised to a floor.

    Parameters
    ----------
    table : ReleasedTable
        As released; nothing else of the data is used. The rows of a Dirichlet draw are
        returned as they are.
    floor : float, optional
        The least count, > 0; by default the noise's standard deviation, below which counts
        are mostly noise.

    Returns
    -------
    array, shape (R, K)
        Probabilities > 0; each row sums to 1 within rounding.

    Raises
    ------
    ValueError
        If ``floor`` is not > 0, or beyond all counts.
    """
    check_is("table", table, ReleasedTable)
    if table.mechanism == "dirichlet":
        return table.values
    floor = check_between("floor", _deviation(table) if floor is None else floor, 0, _LARGEST)
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
    pseudo = _STRENGTHS[:, None, None] * prior
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
    block = max(1, _CELLS // values.shape[1])
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
