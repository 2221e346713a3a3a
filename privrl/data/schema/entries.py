"""Reading the entries of a column of private data, each by itself; no message shows one.

The type of a container that somebody made, of an array or of a column of a data frame, is public,
and may be refused. That is needed, for whoever made it may have let one record decide how all
others are kept: NumPy and pandas' readers turn all numbers into texts because of one text, and
round all large numbers because of one with decimals. So a type has to be able to hold what the
public schema says, and then it holds every record as it was.

Lists, arrays of objects and files have no such type. Here each entry is read by itself, and decides
about no other one.

Nor has pandas' categorical type, whose categories pandas infers from the records: one text among
numbers turns all of them into objects, one number with decimals into floats. Of equal objects
(``True``, ``1``, ``1.0``) only the first stays. So each category is looked at by itself, whatever
the others are, and equal ones are read alike.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from numbers import Integral, Real
from typing import Any, Final, Literal, NoReturn

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from pandas.api.extensions import ExtensionArray

from privrl.data.schema.others import as_column, texts_of
from privrl.numerics.checks import plain_array
from privrl.numerics.typing import BoolArray, FloatArray, IntArray

Value = str | int | bool
Kind = Literal["text", "whole number", "truth value"]
Held = Literal["texts", "whole numbers", "numbers", "truth values", "anything"]

_HELD: dict[str, Held] = {
    "b": "truth values",
    "i": "whole numbers",
    "u": "whole numbers",
    "f": "numbers",
    "U": "texts",
    "T": "texts",
    "O": "anything",
}

#: Let no number that somebody has warn of anything, nor raise, whatever `numpy.seterr` says: a
#: float too long for 64 bits, or a NaN that signals.
SILENT: Final = np.errstate(all="ignore")

_WANTED = "texts, numbers or truth values"
_COMPLEX = (complex, np.complexfloating)
_NO_NUMBERS = (bool, np.bool_, np.timedelta64)  # though Python or NumPy say that they are


@dataclass(frozen=True, eq=False)
class Entries:
    """A column of private data as its container keeps it.

    Attributes
    ----------
    called : str
        What a message calls the column.
    held : str
        What the container's type, a public fact, lets it hold.
    type_name : str
        What a message calls that type: without the length of texts or the unit of dates, which
        may come from the records.
    values : array, shape (n,)
        Objects, numbers of 64 bits or truth values; anything where they are missing.
    there : array of bool, shape (n,)
        Where they are not missing.
    by_equality : bool
        Whether these are categories of pandas: what is equal in Python is read alike.
    exact : float
        Where the container holds floats, below which size they keep every whole number apart.
    """

    called: str
    held: Held
    type_name: str
    values: NDArray[Any]
    there: BoolArray
    by_equality: bool = False
    exact: float = 2.0**53

    @SILENT
    def whole_numbers(self) -> tuple[IntArray, BoolArray]:
        """Return numbers or truth values as whole numbers of 64 bits, and where they are such.

        A whole number kept as a float is that whole number.
        """
        whole = self.there
        if self.held == "numbers":
            whole = whole & (np.floor(self.values) == self.values) & (np.abs(self.values) < 2.0**63)
        elif self.values.dtype.kind == "u":
            whole = whole & (self.values < 2**63)
        return np.where(whole, self.values, 0).astype(np.int64), whole

    @SILENT
    def numbers(self) -> FloatArray:
        """Return the number of each entry, NaN where it is none.

        Raises
        ------
        ValueError
            If the container is of a type that holds no numbers.
        """
        if self.by_equality or self.held == "anything":
            number = category_number if self.by_equality else number_of
            return np.fromiter(map(number, self.values), np.float64, len(self.values))
        if self.held in ("texts", "truth values"):
            refuse_type(self.called, "numbers", self.type_name)
        if self.there.all():
            return self.values.astype(np.float64, copy=False)
        return np.where(self.there, self.values, math.nan).astype(np.float64)


def read(
    values: "ArrayLike | pd.Series[Any]", called: str, find: Callable[[Entries], IntArray]
) -> IntArray:
    """Return the cell of every entry of a column, −1 where it has none.

    Parameters
    ----------
    values : pandas.Series or array_like, shape (n,)
        The column.
    called : str
        What messages call it.
    find : callable
        Tells the cells of entries. Of pandas' categorical type it is asked for the categories.

    Raises
    ------
    ValueError
        If it is not a column, or of a type that cannot be read.
    """
    values = as_column(values, called)
    dtype = getattr(values, "dtype", None)
    if isinstance(dtype, pd.CategoricalDtype):
        codes = pd.Series(values).cat.codes.to_numpy()
        found = find(categories_of(dtype, called))
        return np.append(found, -1)[codes]  # code −1: missing
    return find(entries_of(values, called))


def categories_of(dtype: pd.CategoricalDtype, called: str) -> Entries:
    """Return the categories of pandas' categorical type, each an entry by itself.

    None is refused: where one record has a date, and all others are missing, all are dates.
    """
    categories = dtype.categories
    if categories.dtype.kind not in "biuf":
        categories = categories.astype(object)
    return replace(entries_of(categories, called), by_equality=True)


def entries_of(values: "ArrayLike | pd.Series[Any]", called: str) -> Entries:
    """Return the entries of a column, not of pandas' categorical type.

    Raises
    ------
    ValueError
        As `read`.
    """
    if isinstance(values, pd.MultiIndex):
        refuse_type(called, _WANTED, "MultiIndex")
    if isinstance(values, pd.Series | pd.Index | ExtensionArray):
        column = pd.Series(values)
        if not isinstance(column.dtype, np.dtype):
            return _extended(column, called)
        values = column.to_numpy()
    return _plain(_as_array(values, called), called)


def _as_array(values: Any, called: str) -> NDArray[Any]:
    """Return an array as it is, and a list as one of objects."""
    if hasattr(values, "__array__"):
        array = plain_array(called, values)
        if array.ndim != 1:  # how many records there are may be private
            raise ValueError(f"{called} must be of shape (n,), got {array.ndim} axes.")
        return array
    if isinstance(values, str | bytes) or not isinstance(values, Sequence):
        raise ValueError(
            f"{called} must be a pandas.Series, an array or a list, got {type(values).__name__}."
        )
    return objects(values, len(values))


def objects(entries: Any, count: int) -> NDArray[Any]:
    """Return an array of objects, shape (count,), whatever the entries are."""
    return np.fromiter(entries, object, count)


@SILENT
def _plain(array: NDArray[Any], called: str) -> Entries:
    kind, name = array.dtype.kind, array.dtype.type.__name__
    if kind not in _HELD:
        refuse_type(called, _WANTED, name)
    held, there, exact = _HELD[kind], np.ones(len(array), np.bool_), exact_of(array.dtype)
    if held == "texts":
        array = array.astype(object)
        if kind == "T":  # which may have missing entries
            there = np.array([isinstance(each, str) for each in array], np.bool_)
    elif held == "numbers":
        array = array.astype(np.float64, copy=False)
        there = ~np.isnan(array)
    elif held == "whole numbers":
        array = array.astype(np.uint64 if kind == "u" else np.int64, copy=False)
    return Entries(called, held, name, array, there, exact=exact)


@SILENT
def _extended(column: "pd.Series[Any]", called: str) -> Entries:
    """Return the entries of a column of one of pandas' own types."""
    dtype: Any = column.dtype
    kind, name = dtype.kind, type(dtype).__name__
    there = column.notna().to_numpy(np.bool_)
    if isinstance(dtype, pd.StringDtype) or kind == "U":
        return Entries(called, "texts", name, _texts(column), there)
    if kind not in "biuf":
        if not there.any() and str(dtype) == "null[pyarrow]":  # no entry: it holds any kind
            return Entries(
                called, "anything", name, objects([None] * len(column), len(column)), there
            )
        refuse_type(called, _WANTED, name)
    made = {"b": np.bool_, "i": np.int64, "u": np.uint64, "f": np.float64}[kind]
    filled = column if there.all() else column.where(there, made(0))
    values = filled.to_numpy(made)
    if kind == "f":
        there = there & ~np.isnan(values)
    return Entries(called, _HELD[kind], name, values, there, exact=exact_of(dtype))


def exact_of(dtype: Any) -> float:
    """Return below which size a type of floats keeps all whole numbers apart, as 64 bits do."""
    held = getattr(dtype, "subtype", dtype)  # of a sparse column
    return {2: 2.0**11, 4: 2.0**24}.get(held.itemsize if dtype.kind == "f" else 0, 2.0**53)


def _texts(column: "pd.Series[Any]") -> NDArray[Any]:
    """Return the texts of a column of one of pandas' own types of texts."""
    if getattr(column.dtype, "storage", "pyarrow") == "python":
        return column.to_numpy(object)
    held: Any = column.array
    return objects(texts_of(held.__arrow_array__()), len(column))


def refuse_type(called: str, wanted: str, type_name: str) -> NoReturn:
    """Refuse a column for its type."""
    raise ValueError(f"{called} must hold {wanted}, got type {type_name}; convert it first.")


def kind_of(value: Value) -> Kind:
    """Return which kind a category is."""
    if isinstance(value, str):
        return "text"
    return "truth value" if isinstance(value, bool) else "whole number"


def key_of(entry: object) -> tuple[Kind, Value] | None:
    """Return what an entry of a list is looked up by; None if it can match nothing."""
    if type(entry) is int:  # most are
        return "whole number", entry
    try:
        if isinstance(entry, str):
            return "text", str.__str__(entry)
        if isinstance(entry, bool | np.bool_):
            return "truth value", bool(entry)
        if isinstance(entry, Integral) and not isinstance(entry, _NO_NUMBERS):
            return "whole number", int(entry)
        # Of a longer float, 64 bits may be whole where it is not.
        if isinstance(entry, float | np.floating) and float(entry).is_integer():
            return ("whole number", int(entry)) if int(entry) == entry else None
    except Exception:  # an object that fails when it is looked at must not stop the reading
        pass
    return None


def number_of(entry: object) -> float:
    """Return an entry of a list as a float, NaN for other types."""
    if type(entry) is float:  # most are
        return entry
    try:
        if isinstance(entry, _NO_NUMBERS) or not isinstance(entry, Real | Decimal):
            return math.nan
        number: Any = entry
        try:
            return float(number)
        except OverflowError:  # a whole number of more than 308 digits
            return math.inf if number > 0 else -math.inf
    except Exception:  # as in key_of
        return math.nan


def category_key(category: object) -> str | int | None:
    """Return what a category of pandas is looked up by: the same for all that equal it in Python.

    A text, or the whole number that it equals; None if it can match nothing.
    """
    number: Any = category
    try:
        if isinstance(number, str):
            return str.__str__(number)
        whole = int(number.real if isinstance(number, _COMPLEX) else number)
        return whole if bool(number == whole) and hash(number) == hash(whole) else None
    except Exception:  # as in key_of
        return None


def category_number(category: object) -> float:
    """Return a category of pandas as a float, NaN if it equals no number."""
    if isinstance(category, _COMPLEX) and category.imag == 0:
        category = float(category.real)
    key = category_key(category)
    return number_of(category if key is None else key)


def lookup(known: Mapping[Value, int], numbers: IntArray, there: BoolArray) -> IntArray:
    """Return what each number is mapped to, −1 if it is not known or not there."""
    found = pd.Index([int(value) for value in known], dtype=np.int64).get_indexer(pd.Index(numbers))
    cells = np.array([*known.values(), -1], np.int64)[found]
    return np.where(there, cells, -1)
