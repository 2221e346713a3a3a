"""Records read from a CSV file as a public schema says, and never as the file seems to say.

A reader that guesses types makes ``1`` a number in one file and a text in another, as the rows have
it. Here every field is read as text by itself, and the schema decides what it is: texts stay as
they are, to the letter, but for blanks around them where the schema's own texts have none; a number
or truth value is what its text says; every other field is missing. What does not fit is left to the
schema, which has a cell for it or refuses it. `privrl.data.csv_files` says what a record is.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privrl.data.csv_files import csv_columns
from privrl.data.schema import Bins, Categories, Column, Schema
from privrl.data.schema.entries import Value, entries_of, objects
from privrl.data.schema.texts import TRUTH, WHOLE, number_in
from privrl.files.shown import shown
from privrl.numerics.checks import check_is

# From different texts to the category of each by its place, −1 where it is none; or to numbers.
TextReader = Callable[[list[str]], NDArray[Any]]


def read_records(
    path: Path, schema: Schema, *, separator: str = ",", optional: str | None = None
) -> pd.DataFrame:
    """Return the columns of a schema from a CSV file with a header row.

    Parameters
    ----------
    path : pathlib.Path
        A text file in UTF-8, each record a line of it; its columns may be in any order, and others
        are ignored.
    schema : Schema
        What each column may hold.
    separator : str
        The one character between fields; ``"tab"`` for a tabulator.
    optional : str, optional
        A column of the schema that may be absent.

    Returns
    -------
    pandas.DataFrame
        Categories as pandas' categorical type, or as objects where they are of several kinds or
        floats do not keep their digits, missing where a field is none of them; bins as numbers,
        missing where a field is none. `Schema.encode` decides what becomes of those.

    Raises
    ------
    ValueError
        If a column is absent or repeated, a row has not as many fields as the header or goes over a
        line break, or the file is not such a text. The message shows no field.
    OSError
        If the file cannot be read.
    """
    check_is("schema", schema, Schema)
    readers: dict[str, TextReader] = {}
    parts: dict[str, list[NDArray[Any]]] = {}
    for columns in csv_columns(Path(path), schema.names, separator, optional):
        for name, (texts, at) in columns.items():
            if name not in readers:
                readers[name] = text_reader(name, schema.columns[name])
            parts.setdefault(name, []).append(readers[name](texts)[at])
    return _frame(parts, schema)


def text_reader(name: str, column: Column) -> TextReader:
    """Return what finds the category of each text, −1 where it is none; or its number."""
    if isinstance(column, Bins):
        return lambda texts: np.array([number_in(text) for text in texts], np.float64)
    own = _texts_of(name, column)
    trimmed = all(text == text.strip() for text in own)
    # What a text says is found among the categories as an entry of a list is.
    return lambda texts: column.find(
        entries_of(objects([_value(text, own, trimmed) for text in texts], len(texts)), name)
    )


def _frame(parts: dict[str, list[Any]], schema: Schema) -> pd.DataFrame:
    columns: dict[str, Any] = {}
    for name, each in parts.items():
        column = schema.columns[name]
        if isinstance(column, Bins):
            columns[name] = np.concatenate([np.empty(0), *each])
            continue
        codes, dtype = np.concatenate([np.empty(0, np.int64), *each]), _dtype(column)
        if dtype is None:
            values = np.array([*column.values, None], object)[codes]
            columns[name] = pd.Series(values, dtype=object)
        else:
            values = pd.Index(list(column.values), dtype=dtype)
            columns[name] = pd.Categorical.from_codes(codes, categories=values)
    return pd.DataFrame(columns, columns=list(parts))


def _dtype(column: Categories) -> Any:
    kinds = {type(value) for value in column.values}
    if any(not isinstance(value, str) and abs(value) >= 2**53 for value in column.values):
        return None  # which pandas' categorical type may not keep
    return {str: object, int: np.int64, bool: np.bool_}[kinds.pop()] if len(kinds) == 1 else None


def _texts_of(name: str, column: Categories) -> frozenset[str]:
    """Return the categories that are texts, and check that all look different in a file."""
    texts: dict[str, Value] = {}
    for value in column.values:
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if text in texts:
            raise ValueError(
                f"categories of {shown(name)} must look different in a CSV file, got "
                f"{shown(value)} and {shown(texts[text])}; keep one of them."
            )
        texts[text] = value
    return frozenset(value for value in column.values if isinstance(value, str))


def _value(text: str, own: frozenset[str], trimmed: bool) -> Value | None:
    """Return what a text says: itself, where that is a category, or a truth value or number.

    Blanks around it say nothing where no category has any: ``a, b`` is written for ``a,b``.
    """
    if text in own:
        return text
    short = text.strip()
    if trimmed and short in own:
        return short
    if short.lower() in TRUTH:
        return TRUTH[short.lower()]
    if len(short) < 25 and WHOLE.fullmatch(short):
        return int(short.partition(".")[0])
    return None
