"""Tables of figures kept between runs, as plain data: what is read from disk is never run.

A file that is damaged, of other code, or of another form counts as absent, and the table is
computed anew.
"""

import hashlib
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_integer_dtype

from privrl.files import files as _files
from privrl.files.plain import parse_json
from privrl.files.shown import shown

_FORMAT = "privrl table of a figure, 1"
_TEXTS = (str, type(None))
_TYPES: dict[str, tuple[type, ...]] = {
    "float64": (int, float), "int64": (int,), "bool": (bool,), "str": _TEXTS, "object": _TEXTS,
}  # fmt: skip
_NO_NUMBERS = ("nan", "inf", "-inf")  # which JSON does not have


def kept(path: Path, key: str, compute: Callable[[], pd.DataFrame]) -> pd.DataFrame:
    """Return the table in a file, or compute it and write it there.

    Parameters
    ----------
    path : pathlib.Path
        The file.
    key : str
        All that the table depends on; a table of another key is computed anew.
    compute : callable
        Returns the table: named columns of numbers, truth values or texts.

    Raises
    ------
    ValueError
        If the table is of anything else.

    Notes
    -----
    Rows are numbered anew, and a missing text is what this version of pandas makes of None.
    """
    table = _read(path, key)
    if table is None:
        made = compute()
        columns = {str(name): _plain(made[name]) for name in made}
        # As it is read later: rows numbered anew, and one kind of missing text.
        table = _table(columns)
        if (
            list(table) != list(made)
            or not is_integer_dtype(made.index)
            or not (columns == {str(name): _plain(table[name]) for name in table})
        ):
            raise ValueError(
                f"table of {path.stem} must be of named columns of numbers, truth values or texts, "
                f"got {dict(made.dtypes)}; it would not come back as it was."
            )
        page = {"format": _FORMAT, "key": key, "columns": columns, "sha256": _digest(columns)}
        text = json.dumps(page, allow_nan=False)
        _files.save_all(path.parent, {path.name: _files.text_writer(text)})
    return table


def _read(path: Path, key: str) -> pd.DataFrame | None:
    """Return the table in a file, if it is there, whole and of this key."""
    try:
        page = parse_json(path.read_text(encoding="utf-8"))
        if page["format"] != _FORMAT or page["key"] != key:
            return None
        table = _table(page["columns"])
        return table if page["sha256"] == _digest(page["columns"]) else None
    except (OSError, ValueError, TypeError, LookupError, AttributeError, OverflowError):
        return None


def _digest(columns: Any) -> str:
    return hashlib.sha256(json.dumps(columns, allow_nan=False).encode()).hexdigest()


def _plain(column: "pd.Series[Any]") -> dict[str, Any]:
    kind, values = str(column.dtype), column.tolist()
    if kind == "float64":
        values = [value if math.isfinite(value) else str(value) for value in values]
    elif kind in ("str", "object"):
        values = [None if value is None or value != value else value for value in values]  # noqa: PLR0124
    return {"type": kind, "values": values}


def _table(columns: dict[str, Any]) -> pd.DataFrame:
    """Return the table that plain data describe.

    Raises
    ------
    ValueError
        If they describe none.
    """
    return pd.DataFrame({name: _column(**column) for name, column in columns.items()})


def _column(type: str, values: list[Any]) -> Any:  # noqa: A002 # as the file calls it
    for value in values:
        fits = isinstance(value, _TYPES[type]) and isinstance(value, bool) == (type == "bool")
        if not fits and not (type == "float64" and value in _NO_NUMBERS):
            raise ValueError(f"values must be of type {type}, got {shown(value)}.")
    return np.array(values, type) if _TYPES[type] is not _TEXTS else pd.Series(values, dtype=type)
