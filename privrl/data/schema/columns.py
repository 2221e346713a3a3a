"""The domain of one column: a few public values, or numbers cut at public edges."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
import pandas as pd
import tomli_w
from numpy.typing import ArrayLike

from privrl.data.schema.entries import (
    Entries,
    Kind,
    Value,
    category_key,
    key_of,
    kind_of,
    lookup,
    read,
    refuse_type,
)
from privrl.data.schema.released import BinsRelease
from privrl.files.plain import check_writable
from privrl.files.shown import shown
from privrl.numerics.checks import check_count, check_is, check_truth, plain_array
from privrl.numerics.typing import IntArray

#: Even ones.
MOST_BINS = 1_000_000
OTHER = "(other)"
MISSING = "(missing)"

_KINDS: dict[str, Kind] = {
    "texts": "text",
    "whole numbers": "whole number",
    "numbers": "whole number",
    "truth values": "truth value",
}


@dataclass(frozen=True)
class Categories:
    """A column that holds one of a few public values.

    Parameters
    ----------
    values : sequence of str, int or bool
        The categories, all different. A text is never a number: ``"1"`` is not ``1``, and ``True``
        is not ``1`` in the data. A whole number kept as a float (``1.0``) is that whole number,
        here and in the data.
    other : bool
        Whether one more cell, the last, takes whatever is unknown or missing, of any kind.

    Raises
    ------
    ValueError
        If a value is of another type, two are equal, or the cells are fewer than two.
    """

    values: tuple[Value, ...]
    other: bool = False

    def __post_init__(self) -> None:
        check_truth("other", self.other)
        object.__setattr__(self, "values", _check_values(self.values))
        if self.size < 2:
            raise ValueError(
                f"values must give at least two cells, got {shown(self.values)}; other=True adds "
                "one."
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

        Texts must match to the letter, spaces included. Where pandas.read_csv infers types, it does
        so from many rows at once, and one record can change how others are kept: pass it ``dtype``.

        Parameters
        ----------
        series : pandas.Series or array_like, shape (n,)
            The column. A list or objects are read entry by entry. Another column must be of a type
            that holds every category as it is: texts, whole numbers (also floats, if no category is
            beyond 2^53) or truth values.

        Returns
        -------
        array of int, shape (n,)
            Cell numbers in 0 .. size − 1.

        Raises
        ------
        ValueError
            If the column is of another type, which is public; or if an entry is unknown or missing
            and ``other`` is not set. The message does not show the entry.
        """
        return encode_column(self, series)

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
        codes = _codes(codes, self.size)
        return pd.Series(values, dtype=dtype).take(codes).reset_index(drop=True)

    def find(self, entries: Entries) -> IntArray:
        """Return the category of every entry by its number, −1 where it is none of them."""
        if entries.by_equality:
            return self._find_categories(entries)
        if entries.held != "anything":
            self._check_type(entries)
        cells = {value: cell for cell, value in enumerate(self.values)}
        if entries.held in ("anything", "texts"):
            texts = {value: cell for value, cell in cells.items() if isinstance(value, str)}
            keys = {key_of(value): cell for value, cell in cells.items()}
            found = (
                texts.get(entry, -1) if type(entry) is str else keys.get(key_of(entry), -1)
                for entry in entries.values
            )
            return np.fromiter(found, np.int64, len(entries.values))
        return lookup(cells, *entries.whole_numbers())

    def _find_categories(self, entries: Entries) -> IntArray:
        """Return the same of categories of pandas, whatever these are.

        Where a column has more digits than floats keep it is refused: one decimal of anybody makes
        floats of all.
        """
        self._check_digits(entries)
        cells: dict[Value | None, int] = {value: cell for cell, value in enumerate(self.values)}
        found = (cells.get(category_key(each), -1) for each in entries.values)
        return np.fromiter(found, np.int64, len(entries.values))

    def _check_type(self, entries: Entries) -> None:
        """Refuse a column whose type cannot hold every category as it is."""
        kinds = {kind_of(value) for value in self.values}
        if len(kinds) > 1:
            wanted = "objects, its categories being of several kinds"
        elif kinds != {_KINDS[entries.held]}:
            wanted = f"{kinds.pop()}s"
        else:
            if entries.held == "numbers":
                self._check_digits(entries)
            return
        refuse_type(entries.called, wanted, entries.type_name)

    def _check_digits(self, entries: Entries) -> None:
        """Refuse floats where a category has more digits than they keep."""
        if any(not isinstance(value, str) and abs(value) >= 2**53 for value in self.values):
            wanted = "whole numbers of 64 bits, as its categories are"
            refuse_type(
                entries.called, wanted, "category" if entries.by_equality else entries.type_name
            )


@dataclass(frozen=True)
class Bins:
    """A numeric column, cut at public edges.

    Parameters
    ----------
    edges : sequence of float
        Increasing and finite, ``e_0 < ... < e_m``. They make m bins ``[e_i, e_{i+1})``, and the
        last one also holds its right end. Values outside, infinities included, belong to the first
        or last bin.
    missing : bool
        Whether one more cell, the last, takes whatever is missing or no number.
    whole : bool
        Whether the numbers are whole ones, such as ages in years. Then bins are called ``"20-29"``,
        and synthetic values are whole numbers. Edges must be whole, below 2^53.
    released : BinsRelease, optional
        The release of private data that chose the edges, as `privrl.models.discretise` sets it.
        By default edges are public.

    Raises
    ------
    ValueError
        If the edges are not finite and increasing, or make fewer than two cells, or are not whole
        where the numbers are.
    """

    edges: tuple[float, ...]
    missing: bool = False
    whole: bool = False
    released: BinsRelease | None = None

    def __post_init__(self) -> None:
        check_truth("missing", self.missing)
        check_truth("whole", self.whole)
        if self.released is not None:
            check_is("released", self.released, BinsRelease)
        object.__setattr__(self, "edges", _check_edges(self.edges))
        broken = [e for e in self.edges if not (e.is_integer() and abs(e) < 2**53)]
        if self.whole and broken:
            raise ValueError(
                f"edges must be whole numbers below 2^53 with whole=True, got {shown(broken[0])}; "
                "round it, or leave whole out."
            )
        if self.size < 2:
            raise ValueError(
                f"edges must make at least two cells, got {shown(self.edges)}; add an edge between."
            )

    def __repr__(self) -> str:
        """Return the parameters; ``released`` only of bins that were."""
        also = "" if self.released is None else f", released={self.released!r}"
        return f"Bins(edges={self.edges}, missing={self.missing}, whole={self.whole}{also})"

    @classmethod
    def even(
        cls, low: float, high: float, count: int, *, missing: bool = False, whole: bool = False
    ) -> Self:
        """Return ``count`` bins of equal width, at most `MOST_BINS`, from ``low`` to ``high``.

        With ``whole``, inner edges are rounded, and widths differ by 1 where that is needed.
        """
        count = check_count("count", count, 1, MOST_BINS)
        low, high = _check_edges((low, high))
        inner = (low + (high - low) * i / count for i in range(1, count))
        return cls((low, *(map(round, inner) if whole else inner), high), missing, whole)

    @property
    def size(self) -> int:
        """The number of cells."""
        return len(self.edges) - 1 + self.missing

    @property
    def labels(self) -> tuple[str, ...]:
        """A different text for each cell, such as ``"[0, 10)"``, or ``"0-9"`` of whole numbers."""
        if self.whole:
            between = "-" if self.edges[0] >= 0 else " to "
            named = (str(a) if a == b else f"{a}{between}{b}" for a, b in self._whole_ends)
            return (*named, MISSING) if self.missing else tuple(named)
        ends = [f"{edge:.12g}" for edge in self.edges]
        if len(set(ends)) < len(ends):
            ends = [repr(edge) for edge in self.edges]
        texts = [f"[{low}, {high})" for low, high in pairwise(ends)]
        texts[-1] = f"{texts[-1][:-1]}]"
        return (*texts, MISSING) if self.missing else tuple(texts)

    @property
    def centres(self) -> tuple[float, ...]:
        """The middle of each bin, rounded down to a whole number where numbers are whole.

        NaN for the cell of missing values.
        """
        if self.whole:
            middles = [float((a + b) // 2) for a, b in self._whole_ends]
        else:
            middles = [a / 2 + b / 2 for a, b in pairwise(self.edges)]
        return (*middles, math.nan) if self.missing else tuple(middles)

    @property
    def _whole_ends(self) -> list[tuple[int, int]]:
        """The first and last whole number of each bin."""
        *lows, last = map(int, self.edges)
        return list(zip(lows, [*(low - 1 for low in lows[1:]), last], strict=True))

    def encode(self, series: "ArrayLike | pd.Series[Any]") -> IntArray:
        """Return the cell of every entry of a column.

        Parameters
        ----------
        series : pandas.Series or array_like, shape (n,)
            Numbers. A list or objects are read entry by entry; another column must be of a type of
            real numbers.

        The result and the errors are those of `Categories.encode`: an entry that is missing or no
        number is refused unless ``missing`` is set.
        """
        return encode_column(self, series)

    def find(self, entries: Entries) -> IntArray:
        """Return the number of every entry's bin, −1 for entries other than numbers."""
        numbers = entries.numbers()
        cells = np.searchsorted(self.edges, numbers, side="right") - 1
        return np.where(np.isnan(numbers), -1, np.clip(cells, 0, len(self.edges) - 2))

    def decode(self, codes: IntArray) -> "pd.Series[Any]":
        """Return the middle of the bin of every cell number; missing where that is."""
        middles = pd.Series(np.array(self.centres)[_codes(codes, self.size)])
        if not self.whole:
            return middles
        return middles.astype("Int64" if self.missing else np.int64)


Column = Categories | Bins


def heading(name: object) -> str:
    """Return the line of a schema's file under which a column is described."""
    return tomli_w.dumps({"columns": {str(name): {}}}).strip()


def _codes(codes: Any, size: int) -> IntArray:
    """Return numbers of cells, checked; without any, of any type."""
    array = plain_array("codes", codes)
    whole = array.dtype.kind in "iu" or not array.size
    if array.ndim != 1 or not whole or ((array < 0) | (array >= size)).any():
        raise ValueError(f"codes must be a list of cell numbers, whole ones from 0 to {size - 1}.")
    return array.astype(np.intp) if array.size else np.zeros(0, np.intp)


def encode_column(
    column: Column, values: "ArrayLike | pd.Series[Any]", name: object = None
) -> IntArray:
    """Return the cell of every entry of a column, as `Categories.encode` and `Bins.encode` do.

    Parameters
    ----------
    column : Categories or Bins
        The cells.
    values : pandas.Series or array_like, shape (n,)
        The entries.
    name : str, optional
        What messages call the column; by default the name of a series.
    """
    name = values.name if name is None and isinstance(values, pd.Series) else name
    called = "the column" if name is None else f"column {name!r}"
    cells = read(values, called, column.find)
    without = cells < 0
    if not without.any():
        return cells
    if isinstance(column, Categories):
        rest = len(column.values) if column.other else None
        flag = "other"
        refusal = "nothing but its categories, and holds something unknown or missing"
    else:
        rest = len(column.edges) - 1 if column.missing else None
        flag = "missing"
        refusal = "numbers everywhere, and holds something else or nothing somewhere"
    if rest is None:
        under = "" if name is None else f", or in its file, under {heading(name)}: {flag} = true"
        with_cell = f"{type(column).__name__}(..., {flag}=True)"
        raise ValueError(f"{called} must hold {refusal}; {with_cell} adds a cell for that{under}.")
    return np.where(without, rest, cells)


def _check_values(values: Iterable[Value]) -> tuple[Value, ...]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ValueError(f"values must be a sequence of categories, got {shown(values)}.")
    plain = tuple(_plain_value(value) for value in values)
    if len(set(plain)) < len(plain):  # there may be thousands
        repeated = [value for i, value in enumerate(plain) if value in plain[:i]]
        raise ValueError(
            f"values must be different, got {shown(repeated[0])} twice (True equals 1, False 0)."
        )
    return plain


def _plain_value(value: Value) -> Value:
    """Return a category as a plain str, int or bool."""
    if isinstance(value, str):
        check_writable("each of values", value)
        return str(value)
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, Integral) and -(2**63) <= value < 2**63:
        return int(value)
    number = float(value) if isinstance(value, float | np.floating) else math.nan
    if number.is_integer() and abs(number) < 2**53:
        return int(number)  # as in the data, a whole number kept as a float
    raise ValueError(
        "values must be texts, whole numbers of 64 bits or truth values, got "
        f"{shown(value)}; numbers with decimals go into Bins."
    )


def _check_edges(edges: Iterable[float]) -> tuple[float, ...]:
    if isinstance(edges, str) or not isinstance(edges, Iterable):
        raise ValueError(f"edges must be a sequence of numbers, got {shown(edges)}.")
    checked: list[float] = []
    for edge in edges:
        if isinstance(edge, bool | np.bool_) or not isinstance(edge, Real):
            raise ValueError(f"edges must be numbers, got {shown(edge)}.")
        if not abs(edge) < math.inf:
            raise ValueError(
                f"edges must be finite, got {shown(edge)}; values outside are clipped."
            )
        try:
            checked.append(float(edge) + 0.0)  # −0 and 0 are one edge
        except OverflowError:  # a whole number of more than 308 digits
            raise ValueError("edges must be finite, got a number beyond all floats.") from None
    if len(checked) < 2 or any(not low < high for low, high in pairwise(checked)):
        raise ValueError(f"edges must be at least two, increasing, got {shown(tuple(checked))}.")
    return tuple(checked)
