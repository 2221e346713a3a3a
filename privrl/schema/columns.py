"""What one column may hold: a few public values, or numbers cut at public edges."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from privrl._checks import check_count
from privrl.schema.entries import (
    IntArray,
    Kind,
    Value,
    as_series,
    key_of,
    kind_of,
    lookup,
    lookup_texts,
    name_of,
    numbers_of,
    refuse_type,
    whole_numbers_of,
)

OTHER = "(other)"
MISSING = "(missing)"


@dataclass(frozen=True)
class Categories:
    """A column that holds one of a few public values.

    Parameters
    ----------
    values : sequence of str, int or bool
        The categories, all different. A text is never a number: ``"1"`` is not ``1``, and ``True``
        is not ``1`` in the data. A whole number kept as a float (``1.0``) is that whole number.
    other : bool
        Whether one more cell, the last, takes whatever is unknown or missing.

    Raises
    ------
    ValueError
        If a value is of another type, two are equal, or there are fewer than two cells.
    """

    values: tuple[Value, ...]
    other: bool = False

    def __post_init__(self) -> None:
        _check_flag("other", self.other)
        object.__setattr__(self, "values", _check_values(self.values))
        if self.size < 2:
            raise ValueError(
                f"values must give at least two cells, got {self.values!r}; other=True adds one."
            )
        if self.other and OTHER in self.values:
            raise ValueError(f"values must not hold {OTHER!r}, the label of the cell of others.")

    @property
    def size(self) -> int:
        """The number of cells."""
        return len(self.values) + self.other

    @property
    def labels(self) -> tuple[str, ...]:
        """A different text for each cell."""
        texts = [str(value) for value in self.values]
        if len(set(texts)) < len(texts):  # "1" beside 1
            texts = [repr(value) for value in self.values]
        return (*texts, OTHER) if self.other else tuple(texts)

    def encode(self, series: "ArrayLike | pd.Series[Any]") -> IntArray:
        """Return the cell of every entry of a column.

        Texts must match to the letter, spaces included.

        Parameters
        ----------
        series : pandas.Series or array_like, shape (n,)
            The column; dates, durations, intervals and complex numbers are refused.

        Returns
        -------
        array of int, shape (n,)
            Cell numbers in 0 .. size − 1.

        Raises
        ------
        ValueError
            If the column is of a type that is refused, or an entry is unknown or missing and
            ``other`` is not set. The message does not show the entry.
        """
        column = as_series(series)
        cells = self._find(column)
        unknown = cells < 0
        if not unknown.any():
            return cells
        if not self.other:
            raise ValueError(
                f"{name_of(column)} must hold nothing but its categories, and holds something "
                f"unknown or missing{self._type_hint(column)}; other=True adds a cell for that."
            )
        return np.where(unknown, len(self.values), cells)

    def decode(self, codes: IntArray) -> "pd.Series[Any]":
        """Return the value of every cell number; the cell of others becomes a missing value."""
        kinds = {kind_of(value) for value in self.values}
        dtype: Any = None
        if self.other and kinds <= {"whole number"}:
            dtype = "Int64"
        elif self.other and kinds <= {"truth value"}:
            dtype = "boolean"
        elif len(kinds) > 1:
            dtype = object
        values = [*self.values, None] if self.other else list(self.values)
        return pd.Series(values, dtype=dtype).take(codes).reset_index(drop=True)

    def _find(self, column: "pd.Series[Any]") -> IntArray:
        """Return the position of every entry among the values, −1 where it is none of them."""
        dtype = column.dtype
        if isinstance(dtype, pd.CategoricalDtype):
            cells = self._find(pd.Series(column.cat.categories, name=column.name))
            return np.append(cells, -1)[column.cat.codes.to_numpy()]  # code −1: missing
        if pd.api.types.is_bool_dtype(dtype):
            return lookup(self._of_kind("truth value"), *whole_numbers_of(column))
        if pd.api.types.is_integer_dtype(dtype) or pd.api.types.is_float_dtype(dtype):
            return lookup(self._of_kind("whole number"), *whole_numbers_of(column))
        if not (isinstance(dtype, pd.StringDtype) or pd.api.types.is_object_dtype(dtype)):
            refuse_type(column, "texts, whole numbers or truth values")
        if isinstance(dtype, pd.StringDtype):
            order, texts = pd.factorize(column)
            return np.append(lookup_texts(self._of_kind("text"), texts.to_numpy(object)), -1)[order]
        entries = column.to_numpy(object)
        if pd.api.types.infer_dtype(entries, skipna=True) == "string":
            return lookup_texts(self._of_kind("text"), entries)
        cells_of: dict[tuple[Kind, Value] | None, int] = {
            (kind_of(value), value): cell for cell, value in enumerate(self.values)
        }
        return np.array([cells_of.get(key_of(entry), -1) for entry in entries], np.int64)

    def _of_kind(self, kind: Kind) -> dict[Value, int]:
        """Return the values of one kind and their positions."""
        return {value: cell for cell, value in enumerate(self.values) if kind_of(value) == kind}

    def _type_hint(self, column: "pd.Series[Any]") -> str:
        """Say what the type of a column, a public fact, has to do with the failure."""
        kinds = {kind_of(value) for value in self.values}
        numeric = pd.api.types.is_numeric_dtype(column.dtype)
        if kinds == {"text"} and numeric:
            return " (the column's type is numeric, its categories are texts)"
        if "text" not in kinds and not numeric:
            return " (the column's type is not numeric, its categories are)"
        return ""


@dataclass(frozen=True)
class Bins:
    """A numeric column, cut at public edges.

    Parameters
    ----------
    edges : sequence of float
        Increasing and finite, ``e_0 < ... < e_m``. They make m bins ``[e_i, e_{i+1})``, of which
        the last holds its right end too. What lies outside, infinities included, is put in the
        first or last bin.
    missing : bool
        Whether one more cell, the last, takes missing values.

    Raises
    ------
    ValueError
        If the edges are not finite and increasing, or make fewer than two cells.
    """

    edges: tuple[float, ...]
    missing: bool = False

    def __post_init__(self) -> None:
        _check_flag("missing", self.missing)
        object.__setattr__(self, "edges", _check_edges(self.edges))
        if self.size < 2:
            raise ValueError(
                f"edges must make at least two cells, got {self.edges!r}; add an edge between."
            )

    @classmethod
    def even(cls, low: float, high: float, count: int, *, missing: bool = False) -> Self:
        """Return ``count`` bins of equal width from ``low`` to ``high``."""
        count = check_count("count", count)
        low, high = _check_edges((low, high))
        inner = tuple(low + (high - low) * i / count for i in range(1, count))
        return cls((low, *inner, high), missing)

    @property
    def size(self) -> int:
        """The number of cells."""
        return len(self.edges) - 1 + self.missing

    @property
    def labels(self) -> tuple[str, ...]:
        """A different text for each cell, such as ``"[0, 10)"``."""
        ends = [f"{edge:.12g}" for edge in self.edges]
        if len(set(ends)) < len(ends):
            ends = [repr(edge) for edge in self.edges]
        texts = [f"[{low}, {high})" for low, high in pairwise(ends)]
        texts[-1] = f"{texts[-1][:-1]}]"
        return (*texts, MISSING) if self.missing else tuple(texts)

    @property
    def centres(self) -> tuple[float, ...]:
        """The middle of each bin; NaN for the cell of missing values."""
        middles = [a / 2 + b / 2 for a, b in pairwise(self.edges)]
        return (*middles, math.nan) if self.missing else tuple(middles)

    def encode(self, series: "ArrayLike | pd.Series[Any]") -> IntArray:
        """Return the cell of every entry of a column.

        Parameters
        ----------
        series : pandas.Series or array_like, shape (n,)
            Numbers; texts, truth values, dates, durations and complex numbers are refused.

        Returns
        -------
        array of int, shape (n,)
            Cell numbers in 0 .. size − 1.

        Raises
        ------
        ValueError
            If an entry is no number, or is missing and ``missing`` is not set. The message does
            not show the entry.
        """
        column = as_series(series)
        numbers = numbers_of(column)
        cells = np.searchsorted(self.edges, numbers, side="right") - 1
        cells = np.clip(cells, 0, len(self.edges) - 2)
        absent = np.isnan(numbers)
        if not absent.any():
            return cells
        if not self.missing:
            raise ValueError(
                f"{name_of(column)} must have no missing value; missing=True adds a cell for that."
            )
        return np.where(absent, len(self.edges) - 1, cells)

    def decode(self, codes: IntArray) -> "pd.Series[float]":
        """Return the middle of the bin of every cell number; NaN where it is missing."""
        return pd.Series(np.array(self.centres)[codes])


Column = Categories | Bins


def _check_flag(name: str, value: bool) -> None:
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be True or False, got {value!r}.")


def _check_values(values: Iterable[Value]) -> tuple[Value, ...]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ValueError(f"values must be a sequence of categories, got {values!r}.")
    plain = tuple(_plain_value(value) for value in values)
    repeated = [value for i, value in enumerate(plain) if value in plain[:i]]
    if repeated:
        raise ValueError(
            f"values must be different, got {repeated[0]!r} twice (True equals 1, False 0)."
        )
    return plain


def _plain_value(value: Value) -> Value:
    """Return a category as a plain str, int or bool."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, Integral) and -(2**63) <= value < 2**63:
        return int(value)
    raise ValueError(
        "values must be texts, whole numbers of 64 bits or truth values, got "
        f"{value!r}; numbers with decimals go into Bins."
    )


def _check_edges(edges: Iterable[float]) -> tuple[float, ...]:
    if isinstance(edges, str) or not isinstance(edges, Iterable):
        raise ValueError(f"edges must be a sequence of numbers, got {edges!r}.")
    checked: list[float] = []
    for edge in edges:
        if isinstance(edge, bool | np.bool_) or not isinstance(edge, Real):
            raise ValueError(f"edges must be numbers, got {edge!r}.")
        if not abs(edge) < math.inf:
            raise ValueError(f"edges must be finite, got {edge!r}; what lies outside is clipped.")
        try:
            checked.append(float(edge) + 0.0)  # −0 and 0 are one edge
        except OverflowError:  # a whole number of more than 308 digits
            raise ValueError("edges must be finite, got a number beyond all floats.") from None
    if len(checked) < 2 or any(not low < high for low, high in pairwise(checked)):
        raise ValueError(f"edges must be at least two, increasing, got {tuple(checked)!r}.")
    return tuple(checked)
