"""Reading the entries of a column of private data; no message shows one."""

import math
from collections.abc import Mapping
from decimal import Decimal
from numbers import Integral, Real
from typing import Any, Literal, NoReturn

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

Value = str | int | bool
IntArray = NDArray[np.int64]
Kind = Literal["text", "whole number", "truth value"]


def as_series(values: "ArrayLike | pd.Series[Any]") -> "pd.Series[Any]":
    """Return a column as a series."""
    if isinstance(values, pd.Series):
        return values
    if isinstance(values, np.ma.MaskedArray):
        raise ValueError("a column must be a pandas.Series or a plain array, got a masked array.")
    array = values if isinstance(values, np.ndarray) else np.array(values, object)
    if array.ndim != 1:
        raise ValueError(f"a column must be of shape (n,), got shape {array.shape}.")
    return pd.Series(array, dtype=kept_dtype(array))


def kept_dtype(array: NDArray[Any]) -> Any:
    """Return the type that pandas is to give an array; None leaves it to pandas.

    Texts stay objects: pandas' own kind of them fails with those that are no Unicode, and says so
    with one of their letters.
    """
    return object if array.dtype.kind in "OU" else None


def name_of(column: "pd.Series[Any]") -> str:
    """Return what a message calls a column."""
    return "the column" if column.name is None else f"column {column.name!r}"


def refuse_type(column: "pd.Series[Any]", wanted: str) -> NoReturn:
    """Refuse a column for its type, which is public."""
    raise ValueError(
        f"{name_of(column)} must hold {wanted}, got type {column.dtype}; convert it first."
    )


def kind_of(value: Value) -> Kind:
    """Return which kind a category is."""
    if isinstance(value, str):
        return "text"
    return "truth value" if isinstance(value, bool) else "whole number"


def key_of(entry: object) -> tuple[Kind, Value] | None:
    """Return what an entry of an object column is looked up by; None if it can match nothing."""
    if isinstance(entry, str):
        return "text", entry
    if isinstance(entry, bool | np.bool_):
        return "truth value", bool(entry)
    if isinstance(entry, Integral):
        return "whole number", int(entry)
    if isinstance(entry, float | np.floating) and float(entry).is_integer():
        return "whole number", int(entry)
    return None


def whole_numbers_of(column: "pd.Series[Any]") -> tuple[IntArray, NDArray[np.bool_]]:
    """Return the whole numbers of a numeric column, and where there are any."""
    whole = column.notna().to_numpy()
    if not whole.all():
        column = column.where(whole, False if pd.api.types.is_bool_dtype(column.dtype) else 0)
    if pd.api.types.is_float_dtype(column.dtype):
        floats = column.to_numpy(np.float64)
        whole = whole & (np.floor(floats) == floats) & (np.abs(floats) < 2.0**63)
        return np.where(whole, floats, 0).astype(np.int64), whole
    if pd.api.types.is_unsigned_integer_dtype(column.dtype):
        counts = column.to_numpy(np.uint64)
        whole = whole & (counts < 2**63)
        return counts.astype(np.int64), whole
    return column.to_numpy(np.int64), whole


def lookup(known: Mapping[Value, int], numbers: IntArray, there: NDArray[np.bool_]) -> IntArray:
    """Return what each number is mapped to, −1 if it is not known or not there."""
    found = pd.Index([int(value) for value in known], dtype=np.int64).get_indexer(pd.Index(numbers))
    cells = np.array([*known.values(), -1], np.int64)[found]
    return np.where(there, cells, -1)


def lookup_texts(known: Mapping[Value, int], texts: NDArray[Any]) -> IntArray:
    """Return what each text is mapped to, −1 if it is not known."""
    found = pd.Index(list(known), dtype=object).get_indexer(pd.Index(texts, dtype=object))
    return np.array([*known.values(), -1], np.int64)[found]


def numbers_of(column: "pd.Series[Any]") -> NDArray[np.float64]:
    """Return the numbers of a column, NaN where they are missing."""
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        numbers = numbers_of(pd.Series(column.cat.categories, name=column.name))
        return np.append(numbers, math.nan)[column.cat.codes.to_numpy()]  # code −1: missing
    if pd.api.types.is_object_dtype(dtype):
        return np.array([_number(entry, column) for entry in column.to_numpy(object)], np.float64)
    is_number = pd.api.types.is_integer_dtype(dtype) or pd.api.types.is_float_dtype(dtype)
    if not is_number:
        refuse_type(column, "numbers")
    return column.to_numpy(np.float64, na_value=math.nan)


def _number(entry: object, column: "pd.Series[Any]") -> float:
    """Return an entry of an object column as a float."""
    if entry is None or entry is pd.NA:
        return math.nan
    if isinstance(entry, bool | np.bool_) or not isinstance(entry, Real | Decimal):
        raise ValueError(
            f"{name_of(column)} must hold numbers, and holds something else; convert it first."
        )
    number: Any = entry
    try:
        return float(number)
    except OverflowError:  # a whole number of more than 308 digits
        return math.inf if number > 0 else -math.inf
