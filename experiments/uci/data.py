"""The UCI data sets cut into training and test parts, and into cells by one of two schemas."""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from privrl.data.datasets import Dataset, load, networks
from privrl.data.schema import Bins, Categories, Column, Schema
from privrl.files.shown import shown
from privrl.numerics.checks import check_among, check_count

Cells = Literal["public", "paper"]

SHARE = 0.7  # of the records are for training
N_BINS = 10
_FEW = 30  # different values that a numeric column may have and stay as it is


class NotPrivateWarning(UserWarning):
    """The public part of a private model is read from private data."""


@dataclass(frozen=True, eq=False)
class Split:
    """The training and test part of a data set, and their public schema.

    Attributes
    ----------
    schema : Schema
        The columns to model, the class last.
    train, test : DataFrame
        70 and 30 per cent of the records.
    """

    schema: Schema
    train: pd.DataFrame
    test: pd.DataFrame


def split(name: str, seed: int, cells: Cells = "public", *, folder: Path | None = None) -> Split:
    """Return a data set in two parts, at random.

    Parameters
    ----------
    name : str
        Of `privrl.data.datasets.NAMES`.
    seed : int
        Which split, >= 0.
    cells : {"public", "paper"}
        The data set's public schema; or DKL's, in which numeric columns with more than 30
        different values are cut at the deciles of the training part, and all others have the
        values that occur.
    folder : pathlib.Path, optional
        Where the data sets are, see `privrl.data.datasets.load`.

    Raises
    ------
    ValueError
        If the name or the cells are unknown, or the seed is not a whole number >= 0.

    Warns
    -----
    NotPrivateWarning
        For the paper's cells, which are read from private data.
    """
    check_count("seed", seed, least=0)
    if cells not in get_args(Cells):
        raise ValueError(f"cells must be 'public' or 'paper', got {shown(cells)}.")
    data = load(name, folder)
    order = np.random.default_rng(seed).permutation(len(data.frame))
    cut = round(SHARE * len(order))
    train, test = data.frame.iloc[order[:cut]], data.frame.iloc[order[cut:]]
    schema = data.schema
    if cells == "paper":
        warnings.warn(
            "cells='paper' reads bins and categories from the private records, so that a model "
            "over them is not private, in spite of its guarantee; use cells='public'.",
            NotPrivateWarning,
            stacklevel=2,
        )
        schema = _paper_schema(data, train)
    return Split(schema, train, test)


def commonest_share(parts: Split) -> float:
    """Return how often the commonest class of the training part is right on the test part."""
    target = parts.schema.names[-1]
    commonest = parts.train[target].mode().iloc[0]
    return float((parts.test[target] == commonest).mean())


def network_of(name: str, schema: Schema) -> dict[str, tuple[str, ...]]:
    """Return the parents of each node of DKL's network over a data set.

    Raises
    ------
    ValueError
        If the data set has no network, or a node is not in the schema.
    """
    known = networks()
    check_among("name", name, known)
    missing = [node for node in known[name] if node not in schema.columns]
    if missing:
        raise ValueError(f"schema must have a column for every node, and has none for {missing}.")
    return known[name]


def _paper_schema(data: Dataset, train: pd.DataFrame) -> Schema:
    names = list(dict.fromkeys([*data.schema.names, *networks().get(data.name, ())]))
    names.remove(data.target)
    columns = {
        name: _paper_column(data.frame[name], train[name])
        for name in names
        if train[name].nunique(dropna=False) > 1
    }
    return Schema({**columns, data.target: data.schema.columns[data.target]})


def _paper_column(column: "pd.Series[Any]", train: "pd.Series[Any]") -> Column:
    """Return bins for numbers with many values in the training part, else their values."""
    values, missing = sorted(column.dropna().unique().tolist()), bool(column.isna().any())
    if not pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        return Categories(tuple(values), other=missing)
    edges = _quantile_edges(train)
    return Bins((*values, values[-1] + 1) if edges is None else edges, missing=missing)


def _quantile_edges(column: "pd.Series[float]") -> tuple[float, ...] | None:
    """Return edges of bins as in the paper's published code; None for a column with few values.

    Very frequent values have separate bins: the first if it has more than a third of the records,
    the second if it has more than a ninth, and so on.
    """
    counts = column.value_counts()
    if len(counts) <= _FEW:
        return None
    frequent = 0
    while frequent < len(counts) and counts.iloc[frequent] > len(column) / 3 ** (frequent + 1):
        frequent += 1
    own, rest = counts.index[:frequent], counts.index[frequent:]
    if len(rest) <= _FEW:
        return None
    quantiles = np.quantile(column[column.isin(rest)], np.linspace(0, 1, N_BINS + 1))
    values = np.sort(counts.index.to_numpy())
    above = [values[values > value][:1] for value in own]
    edges = np.unique(np.concatenate([quantiles, own.to_numpy(), *above]))
    return tuple(edges.tolist())
