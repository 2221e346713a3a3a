"""Tables and columns of polars and Arrow, as pandas'; through narwhals, which knows both.

A column's type is public, and decides how its entries are kept; no entry decides about another.
"""

from contextlib import suppress
from importlib import import_module
from typing import Any, Final

import pandas as pd

from privrl.files.extras import extra
from privrl.files.plain import listed

_PACKAGES: Final = ("polars", "pyarrow")


def as_frame(table: Any) -> Any:
    """Return a table of another package as a data frame, and anything else as it is.

    Raises
    ------
    ValueError
        If it is not in memory yet, a name is there twice, or a column's type cannot be read.
    ImportError
        If narwhals is not installed.
    """
    if not _is_other(table):
        return table
    names = list(getattr(table, "column_names", ()))  # Arrow's, where one may be there twice
    twice = sorted({str(name) for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"table must have each column once; {listed(twice)} there twice.")
    native = _narwhals().from_native(table, pass_through=True, allow_series=True)
    if not hasattr(native, "columns"):
        return table
    if not hasattr(native, "get_column"):
        raise ValueError(f"table must be in memory, got {type(table).__name__}; collect it first.")
    return pd.DataFrame(
        {name: _series(native.get_column(name), f"column {name!r}") for name in native.columns}
    )


def as_column(values: Any, called: str) -> Any:
    """Return a column of another package as a series, and anything else as it is; likewise."""
    if not _is_other(values):
        return values
    if type(values).__module__.startswith("pyarrow"):  # narwhals does not know its arrays
        arrow = import_module("pyarrow")
        values = arrow.chunked_array([values]) if isinstance(values, arrow.Array) else values
    native = _narwhals().from_native(values, pass_through=True, allow_series=True)
    return _series(native, called) if hasattr(native, "to_list") else values


def texts_of(array: Any) -> list[str | None]:
    """Return the texts of an array of Arrow's; invalid UTF-8 becomes a value of no schema.

    Arrow does not check what it is given as texts, and its errors show the whole text.
    """
    with suppress(UnicodeDecodeError):
        return array.to_pylist()
    if hasattr(array.type, "value_type"):  # a dictionary
        array = array.cast(array.type.value_type)
    values = array.cast(import_module("pyarrow").large_binary()).to_pylist()
    return [None if each is None else each.decode(errors="surrogateescape") for each in values]


def _is_other(table: Any) -> bool:
    return type(table).__module__.partition(".")[0] in _PACKAGES


def _narwhals() -> Any:
    return extra("narwhals", "reading a table of polars or Arrow", "models")


def _series(column: Any, called: str) -> "pd.Series[Any]":
    dtype, texts = column.dtype, pd.StringDtype("python")  # Arrow's holds nothing but UTF-8
    if dtype.is_integer() and "128" not in type(dtype).__name__:
        kind: Any = "Int64" if dtype.is_signed_integer() else "UInt64"
    elif dtype.is_float():
        kind = "Float64"
    else:
        kinds = {"Boolean": "boolean"} | dict.fromkeys(("String", "Categorical", "Enum"), texts)
        kind = kinds.get(type(dtype).__name__, "")
    native = column.to_native()
    native_type = native.type if hasattr(native, "type") else native.dtype  # Arrow's, polars'
    if str(native_type).lower() == "null":
        return pd.Series([None] * len(column), dtype=object)  # no entry: it holds any kind
    if not kind:
        raise ValueError(
            f"{called} must hold texts, numbers or truth values, got type "
            f"{type(dtype).__name__}; convert it first."
        )
    is_arrow = type(native).__module__.startswith("pyarrow")
    if hasattr(native_type, "value_type") and "string" not in str(native_type.value_type):
        # The type of a dictionary's numbers was inferred from them, as that of categories is.
        return pd.Series(pd.Categorical(column.to_list()))
    entries = texts_of(native) if is_arrow and kind == texts else column.to_list()
    return pd.Series(pd.array(entries, dtype=kind))
