"""Records read from a CSV file as a public schema says, and never as the file seems to say.

A reader that guesses types makes ``1`` a number in one file and a text in another, as the rows have
it. Here every field is read as text by itself, and the schema decides what it is: texts stay as
they are, to the letter, but for blanks around them where the schema's own texts have none; a number
or truth value is what its text says; every other field is missing. What does not fit is left to the
schema, which has a cell for it or refuses it. No error shows a field.

A record is a row of the file, quoted where need be (RFC 4180), with at most as many fields as the
header; those that it lacks are missing. Blank lines are skipped, but in a file of one column they
are empty fields.
"""

import csv
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from operator import itemgetter
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privrl.data.schema import Bins, Categories, Column, Schema
from privrl.data.schema.entries import Value, entries_of, objects
from privrl.data.schema.headers import count_numbers, not_utf8, other_separator, with_names
from privrl.data.schema.texts import TRUTH, WHOLE, number_in
from privrl.files.files import check_ends
from privrl.files.plain import listed
from privrl.files.shown import shown
from privrl.numerics.checks import check_is

_ROWS = 1 << 16  # read at once; what is kept of them is small
_LONGEST = 2**31 - 1  # characters of a field; Python's own limit would stop at a long one
NOT_RECORDS = (
    "have as many fields in every row as in its header; look for quotes that are not closed or not "
    "doubled, or another --separator"
)

# From different texts to the category of each by its place, −1 where it is none; or to numbers.
TextReader = Callable[[list[str]], NDArray[Any]]


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
        Categories as pandas' categorical type, or as objects where they are of several kinds or
        floats do not keep their digits, missing where a field is none of them; bins as numbers,
        missing where a field is none. `Schema.encode` decides what becomes of those.

    Raises
    ------
    ValueError
        If a column is absent or repeated, a row has more fields than the header, or the file is not
        such a text. The message shows no field.
    OSError
        If the file cannot be read.
    """
    check_is("schema", schema, Schema)
    separator = check_separator(separator)
    wrong, path = None, Path(path)
    check_ends(path)
    with path.open(encoding="utf-8-sig", newline="") as file, long_fields():
        rows = csv.reader(file, delimiter=separator, strict=True)
        try:
            header = trimmed_header(next(rows, []), schema.names)
            names = _check_header(path, header, schema, optional, separator)
            readers = {name: text_reader(name, schema.columns[name]) for name in names}
            parts = [_read(chunk, header, readers) for chunk in _chunks(rows, len(header))]
        except UnicodeDecodeError:
            wrong = not_utf8(path)
        except (csv.Error, TooWide):
            wrong = NOT_RECORDS
    if wrong is not None:  # here, so that no error holds another that shows a field
        raise ValueError(f"{path.name} must {wrong}.")
    return _frame({name: [part[name] for part in parts] for name in names}, schema)


class TooWide(Exception):
    """A row has more fields than the header."""


class _LongFields:
    """Python's limit on the length of fields, which all threads share, and how many lifted it."""

    def __init__(self) -> None:
        self._lock, self._readers, self._before = Lock(), 0, 0

    def lift(self, by: int) -> None:
        """Lift the limit for one more reader, or set it back after the last."""
        with self._lock:
            if self._readers == 0:
                self._before = csv.field_size_limit(_LONGEST)
            self._readers += by
            if self._readers == 0:
                csv.field_size_limit(self._before)


_limit = _LongFields()


@contextmanager
def long_fields() -> Iterator[None]:
    """Let fields be of any length: a long one is a record like others."""
    _limit.lift(1)
    try:
        yield
    finally:
        _limit.lift(-1)


def _chunks(rows: Iterator[list[str]], width: int) -> Iterator[list[list[str]]]:
    """Return the records, many at once, each with as many fields as the header."""
    while chunk := list(islice(rows, _ROWS)):
        yield padded(chunk, width)


def padded(rows: Iterable[list[str]], width: int) -> list[list[str]]:
    """Return rows of equal width: empty ones are left out, and short ones end in empty fields."""
    records = [row for row in rows if row or width == 1]
    widths = set(map(len, records))
    if max(widths, default=0) > width:
        raise TooWide
    return records if widths == {width} else [row + [""] * (width - len(row)) for row in records]


def check_separator(separator: str) -> str:
    """Return the character between fields that a user names."""
    separator = "\t" if separator == "tab" else separator
    if len(separator) != 1 or separator in '"\r\n':
        raise ValueError(f"separator must be one character or 'tab', got {shown(separator)}.")
    return separator


def _check_header(
    path: Path, header: list[str], schema: Schema, optional: str | None, separator: str
) -> list[str]:
    """Return the columns of a schema that a file has, if it has all that it must have, once."""
    names = [name for name in schema.names if name != optional or name in header]
    return check_columns(path, header, names, separator)


def trimmed_header(header: list[str], names: Iterable[str]) -> list[str]:
    """Return a header, without blanks around its fields where no name of a schema has any."""
    if any(name != name.strip() for name in names):
        return header
    return [field.strip() for field in header]


def check_columns(
    path: Path, header: list[str], names: list[str], separator: str = ","
) -> list[str]:
    """Return names of columns if a header has each of them once."""
    if not header:
        raise ValueError(f"{path.name} must have a header row, and is empty.")
    absent = [name for name in names if name not in header]
    if absent:
        raise ValueError(
            f"{path.name} must have all columns of the schema in its first row; {listed(absent)} "
            f"absent from its {len(header)} field{'s' * (len(header) != 1)}; "
            f"{_why(path, header, names, absent, separator)}"
        )
    twice = [name for name in names if header.count(name) > 1]
    if twice:
        raise ValueError(f"{path.name} must have each column once; {listed(twice)} there twice.")
    return names


def _why(path: Path, header: list[str], names: list[str], absent: list[str], separator: str) -> str:
    """Return why columns may be absent; of a row that may be a record no field is shown."""
    other = other_separator(header, separator)
    if other:
        return f"{other}."
    numbers = count_numbers(header)
    if len(absent) < len(names) and not numbers:
        return "name them as the schema does."
    if not numbers:
        return "--separator says what is between fields."
    about = f"the row is like a record, for {numbers} of its fields are numbers"
    if len(header) != len(names):
        return f"{about}: write the columns' names, in their order, above it."
    write = with_names(path, names, separator)
    return f"{about}. If its columns are the schema's, in this order, write their names:\n\n{write}"


def _read(
    rows: list[list[str]], header: list[str], readers: dict[str, TextReader]
) -> dict[str, NDArray[Any]]:
    """Return what the fields of each column mean; a text that is there twice is read once."""
    parts = {}
    for name, reader in readers.items():
        texts = list(map(itemgetter(header.index(name)), rows))
        places = {text: i for i, text in enumerate(dict.fromkeys(texts))}
        at = np.fromiter(map(places.__getitem__, texts), np.intp, len(texts))
        parts[name] = reader(list(places))[at]
    return parts


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
