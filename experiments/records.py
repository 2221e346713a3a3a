"""Records read from a CSV file as a public schema says, and never as the file seems to say.

A reader that guesses types makes ``1`` a number in one file and a text in another, as the rows have
it. Here every field is read as text, and the schema decides what it is: texts stay as they are, to
the letter; a number or truth value is what its text says; a missing one is a field that is empty or
`MISSING_TEXTS`. No error shows a field.
"""

import csv
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from privrl.schema import Categories, Column, Schema
from privrl.schema.entries import Value
from privrl.schema.plain import listed

MISSING_TEXTS = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")
_ROWS = 1 << 17  # read at once; what is kept of them is small
_WHOLE = re.compile(r"[+-]?[0-9]+(\.0*)?")
_TRUTH = {"true": True, "false": False}


def read_records(
    path: Path, schema: Schema, *, separator: str = ",", optional: str | None = None
) -> pd.DataFrame:
    """Return the columns of a schema from a CSV file with a header row.

    Parameters
    ----------
    path : pathlib.Path
        A text file in UTF-8; its columns may be in any order, and others are ignored.
    schema : Schema
        What each column may hold.
    separator : str
        The one character between fields; ``"tab"`` for a tabulator.
    optional : str, optional
        A column of the schema that may be absent.

    Returns
    -------
    pandas.DataFrame
        Categories as pandas' categorical type, missing where a field is none of them; bins as
        numbers. `Schema.encode` decides what becomes of the missing ones.

    Raises
    ------
    ValueError
        If a column is absent or there twice, a field that should be a number is none, or the file
        is no such text. The message shows no field.
    OSError
        If the file cannot be read.
    """
    separator = _check_separator(separator)
    header = _header(path, separator)
    names = [name for name in schema.names if name != optional or name in header]
    absent = [name for name in names if name not in header]
    if absent:
        raise ValueError(
            f"{path.name} must have all columns of the schema in its first row; {listed(absent)} "
            f"absent from its {len(header)} fields; --separator says what is between fields."
        )
    twice = [name for name in names if header.count(name) > 1]
    if twice:
        raise ValueError(f"{path.name} must have each column once; {listed(twice)} there twice.")
    reading: Any = {
        "sep": separator,
        "dtype": str,  # of all columns: where only some are read, surplus fields go unnoticed
        "na_filter": False,
        "index_col": False,
        "encoding": "utf-8-sig",
        "chunksize": _ROWS,
    }
    parts: dict[str, list[pd.Series[Any]]] = {name: [] for name in names}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # fields beyond the header's
            with pd.read_csv(path, **reading) as reader:
                for chunk in reader:
                    for name in names:
                        fields = chunk.iloc[:, header.index(name)]
                        parts[name].append(_typed(name, fields, schema.columns[name]))
    except UnicodeDecodeError:
        raise ValueError(f"{path.name} must be text in UTF-8; convert it first.") from None
    except (pd.errors.ParserError, pd.errors.ParserWarning):
        raise ValueError(
            f"{path.name} must have as many fields in every row as in its header; look for "
            "quotes that are not closed, or another --separator."
        ) from None
    return pd.DataFrame(
        {name: pd.concat(each, ignore_index=True) for name, each in parts.items()}, columns=names
    )


def _check_separator(separator: str) -> str:
    separator = "\t" if separator == "tab" else separator
    if len(separator) != 1 or separator in '"\r\n':
        raise ValueError(f"separator must be one character or 'tab', got {separator!r}.")
    return separator


def _header(path: Path, separator: str) -> list[str]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            header = next(csv.reader(file, delimiter=separator), [])
    except UnicodeDecodeError:
        raise ValueError(f"{path.name} must be text in UTF-8; convert it first.") from None
    except csv.Error:
        raise ValueError(f"{path.name} must begin with a header row of a CSV file.") from None
    if not header:
        raise ValueError(f"{path.name} must have a header row, and is empty.")
    return header


def _typed(name: str, fields: "pd.Series[str]", column: Column) -> "pd.Series[Any]":
    """Return the fields of one column with the type that the schema gives it."""
    codes, texts = pd.factorize(fields.fillna(""))
    if isinstance(column, Categories):
        cells = _cells_of_texts(name, column)
        found = np.array([_cell(text, cells) for text in texts], np.int64)
        # Categories of several kinds stay objects, so that True is not 1.
        values = pd.Index(list(column.values), dtype=_dtype(column))
        return pd.Series(pd.Categorical.from_codes(found[codes], categories=values), name=name)
    numbers = pd.to_numeric(pd.Series(texts, dtype=object), errors="coerce").astype(np.float64)
    wrong = numbers.isna().to_numpy() & ~np.isin(texts.astype(str), MISSING_TEXTS)
    if wrong.any():
        raise ValueError(
            f"column {name!r} must hold numbers, and holds something else; the schema has bins for "
            "it. Missing fields are empty or one of NA, N/A, NaN, null, None."
        )
    return pd.Series(numbers.to_numpy()[codes], name=name)


def _dtype(column: Categories) -> Any:
    kinds = {type(value) for value in column.values}
    return {str: object, int: np.int64, bool: np.bool_}[kinds.pop()] if len(kinds) == 1 else object


def _cells_of_texts(name: str, column: Categories) -> dict[Value, int]:
    """Return the cell of every category, and check that their texts tell them apart."""
    texts: dict[str, Value] = {}
    for value in column.values:
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if text in texts:
            raise ValueError(
                f"categories of {name!r} must look different in a CSV file, got {value!r} and "
                f"{texts[text]!r}; keep one of them."
            )
        texts[text] = value
    return {value: cell for cell, value in enumerate(column.values)}


def _cell(text: str, cells: dict[Value, int]) -> int:
    """Return the cell of a text, −1 where it is none."""
    if text in cells:
        return cells[text]
    short = text.strip()
    if short.lower() in _TRUTH:
        return _cell_of(_TRUTH[short.lower()], cells)
    if len(short) < 25 and _WHOLE.fullmatch(short):
        return _cell_of(int(short.partition(".")[0]), cells)
    return -1


def _cell_of(value: int | bool, cells: dict[Value, int]) -> int:
    # True equals 1, and a schema has only one of them.
    same = [cell for known, cell in cells.items() if known == value and type(known) is type(value)]
    return same[0] if same else -1
