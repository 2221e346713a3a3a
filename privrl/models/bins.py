"""Bins with about equally many records each, whose edges are chosen privately.

Quantiles of private data leak the data. Here each column is counted on a fine public grid between
public bounds, all counts are released together under one target, and the edges are quantiles of
the released counts. Give this a part of the budget, and the model the rest:

    bins = discretise(frame, {"age": (0, 100)}, target=RenyiDP(2, 0.1), rng=rng)
    model = PrivateNaiveBayes(Schema({**bins, ...}), ..., target=RenyiDP(2, 0.9))

Bins keep what they cost (`Bins.released`), and so do schemas and models with them, in files too.
The guarantee of a model states it under ``bins``, beside what the model cost itself. It is not
added: an accountant that both were charged to has the sum.

The relation is `ReplaceRecord`, so the number of records is public.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from privrl.accounting.base import Accountant
from privrl.accounting.releases import Release
from privrl.accounting.targets import Target
from privrl.data.schema import Bins, Schema
from privrl.files.chosen import trial_behind, trial_now
from privrl.files.shown import shown
from privrl.mechanisms.tables import TablesMechanism
from privrl.models.estimates.tables import row_probabilities
from privrl.models.released import made_bins, planned_bins
from privrl.models.targets import given_target, mechanism_for
from privrl.numerics.checks import check_count
from privrl.numerics.randomness import Rng, as_rng
from privrl.numerics.typing import FloatArray


def discretise(
    frame: pd.DataFrame,
    bounds: Mapping[str, tuple[float, float]],
    *,
    target: Target | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    rng: Rng = None,
    bins: int = 10,
    grid: int = 200,
    missing: bool = False,
    accountant: Accountant | None = None,
) -> dict[str, Bins]:
    """Return bins with about equally many records each, for several columns at once.

    Parameters
    ----------
    frame : DataFrame, shape (n, ...)
        The private records, at least one.
    bounds : mapping from str to (float, float)
        The numeric columns to cut, and between which public bounds; what lies outside belongs to
        the first or last bin.
    target, epsilon, delta
        The privacy target of all columns together, as for `PrivateNaiveBayes`.
    rng : numpy.random.Generator, int or None
        Where the noise comes from.
    bins : int
        How many bins at the most, >= 2. There are fewer where many records share a value.
    grid : int
        Into how many even steps the bounds are cut, >= ``bins``: edges are on this grid.
    missing : bool
        Whether the columns may hold what is missing or no number, and their bins a cell for that.
    accountant : RdpAccountant or PldAccountant, optional
        Is charged before anything is drawn. Not that of a trial of a selection: bins that are
        chosen cost more than their release, and would not know how much.

    Returns
    -------
    dict from str to Bins
        For each column its bins, from its lower bound to its upper one, which keep what all of them
        cost.

    Raises
    ------
    BudgetExceeded
        If the accountant's budget does not cover the release; then nothing is drawn.
    ValueError
        If an argument is out of range, a column is absent or not numeric, or this is a trial of a
        selection; nothing is spent then, and the message shows no value of the records.
    """
    rng = as_rng(rng)
    if trial_behind(accountant) is not None or trial_now() is not None:
        raise ValueError(
            "bins must be chosen before a selection, not in a trial of it: they would state what "
            "the trial cost, and the selection costs more. Compare numbers of bins with Bins.even."
        )
    pairs = list(bounds.values()) if isinstance(bounds, Mapping) else [None]
    if not all(isinstance(each, Sequence | np.ndarray) and len(each) == 2 for each in pairs):
        raise ValueError(f"bounds must map columns to (low, high), got {shown(bounds)}.")
    bins = check_count("bins", bins, least=2)
    grid = check_count("grid", grid, least=bins)
    columns = {name: Bins.even(*ends, grid, missing=missing) for name, ends in bounds.items()}
    fine = Schema(columns)
    codes = fine.encode(frame)
    if len(codes) < 1:
        raise ValueError("frame must have at least one record, got none.")
    target = given_target(target, epsilon, delta)
    mechanism = TablesMechanism.calibrated(
        target,
        shapes=[(1, size) for size in fine.sizes],
        n_records=len(codes),
        mechanism=mechanism_for(target),
    )
    counts = [
        np.bincount(column, minlength=size)[None]
        for column, size in zip(codes.T, fine.sizes, strict=True)
    ]

    planned = planned_bins(mechanism.cost, target, rng)

    def choose(rng: np.random.Generator) -> dict[str, Bins]:
        tables = zip(fine.names, mechanism.release(counts, rng), strict=True)
        rows = {name: row_probabilities(table)[0, :grid] for name, table in tables}
        edges = {name: _edges(row, columns[name].edges, bins) for name, row in rows.items()}
        by = made_bins(planned, edges, rng)
        return {name: Bins(each, missing, released=by) for name, each in edges.items()}

    return Release(accountant, mechanism.cost, choose, rng).make()


def _edges(probabilities: FloatArray, grid: tuple[float, ...], bins: int) -> tuple[float, ...]:
    """Return the ends of the grid, and the inner points nearest to the quantiles."""
    below = np.cumsum(probabilities)[:-1] / probabilities.sum()  # of each inner point
    wanted = np.arange(1, bins) / bins
    nearest = np.abs(below - wanted[:, None]).argmin(axis=1) + 1
    return tuple(grid[i] for i in (0, *np.unique(nearest).tolist(), len(grid) - 1))
