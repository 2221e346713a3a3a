"""Columns of CSV files, as texts: what they say is left to `privrl.data.records`.

A record is one line of the file, with as many fields as the header, quoted where need be. RFC 4180
lets a quoted field go on over lines; then a quote in the text of one record could make all that
follow a part of it, so that is refused. Blank lines are skipped, but in a file of one column they
are empty fields. No error shows a field of a record.

Most of a large file is plain: as many fields in each row as in the header, no quotes but around
whole fields. There the marks between fields say where all of them are, and NumPy finds the
different ones. A block that is anything else is read row by row, by Python's own reader.
"""

import csv
import gzip
import io
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from threading import Lock
from typing import IO, Any

import numpy as np
import pandas as pd
from numpy.lib.stride_tricks import sliding_window_view

from privrl.data.schema.headers import count_numbers, not_utf8, other_separator, with_names
from privrl.files.files import check_ends
from privrl.files.plain import listed
from privrl.files.shown import shown
from privrl.numerics.typing import IntArray

_BLOCK = 1 << 24  # bytes read at once
_LONG = 64  # bytes of a field that is not plain
_WORD = 8  # bytes that are compared as one number
_KEPT = np.array([(1 << 8 * n) - 1 for n in range(_WORD + 1)], np.uint64)  # the first n bytes
_LONGEST = 2**31 - 1  # characters of a field; Python's own limit would stop at a long one
_NOT_RECORDS = (
    "have one record in each line, with as many fields as its header; look for line breaks in "
    "texts (leave out such a column), quotes that are not closed or not doubled, or another "
    "--separator"
)

#: The different fields of a column of many rows, and which of them each row has.
Column = tuple[list[str], IntArray]


def csv_columns(
    path: Path, names: Sequence[str], separator: str, optional: str | None = None
) -> Iterator[dict[str, Column]]:
    """Return columns of a CSV file, perhaps compressed by gzip, many rows at once.

    ``optional`` is one that may be absent. Errors are those of
    `privrl.data.records.read_records`.
    """
    separator = check_separator(separator)
    wrong = None
    check_ends(path)
    opened: Any = gzip.open if path.name.lower().endswith(".gz") else open
    with opened(path, "rb") as file, _long_fields():
        try:
            lines = _Lines(file, separator)
            # Of a file whose lines end in CR alone, this line holds more than the header.
            beginning = lines.records(file.readline().removeprefix(BOM_UTF8))
            header = _trimmed(next(beginning, []), names)
            names = [name for name in names if name != optional or name in header]
            _check_header(path, header, names, separator)
            places = [header.index(name) for name in names]
            for columns in lines.parts(beginning, places, len(header)):
                yield dict(zip(names, columns, strict=True))
        except UnicodeDecodeError:
            wrong = not_utf8(path)
        except (csv.Error, _NoRecord):
            wrong = _NOT_RECORDS
        except (EOFError, zlib.error, gzip.BadGzipFile):
            wrong = "be a whole file as gzip makes it"
    if wrong is not None:  # here, so that no error holds another that shows a field
        raise ValueError(f"{path.name} must {wrong}.")


class _NoRecord(Exception):
    """A row is over several lines, or has not as many fields as the header."""


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
def _long_fields() -> Iterator[None]:
    """Let fields be of any length: a long one is a record like others."""
    _limit.lift(1)
    try:
        yield
    finally:
        _limit.lift(-1)


def check_separator(separator: str) -> str:
    """Return the character between fields that a user names."""
    separator = "\t" if separator == "tab" else separator
    if len(separator) != 1 or separator in '"\r\n':
        raise ValueError(f"separator must be one character or 'tab', got {shown(separator)}.")
    return separator


def _trimmed(header: list[str], names: Iterable[str]) -> list[str]:
    """Return a header, without blanks around its fields where no name of a schema has any."""
    if any(name != name.strip() for name in names):
        return header
    return [field.strip() for field in header]


def _check_header(path: Path, header: list[str], names: list[str], separator: str) -> None:
    """Check that a header has columns of these names, each once."""
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


class _Lines:
    """The records of a file, block by block."""

    def __init__(self, file: IO[bytes], separator: str) -> None:
        self._file = file
        self._separator = separator

    def parts(
        self, beginning: Iterator[list[str]], places: Sequence[int], width: int
    ) -> Iterator[list[Column]]:
        """Return the columns at some places, of rows of ``width`` fields.

        ``beginning`` has the records that were read with the header.
        """
        yield _columns(beginning, places, width)
        mark = ord(self._separator)
        while block := self._file.read(_BLOCK):
            block += self._file.readline()
            marks = _marks(block, mark, width) if mark < 128 else None
            if marks is not None:
                if not block.isascii():
                    block.decode()
                yield [_plain_part(*marks, place) for place in places]
                continue
            yield _columns(self.records(block), places, width)

    def records(self, block: bytes) -> Iterator[list[str]]:
        """Return the records of a block of whole lines."""
        lines = io.StringIO(block.decode(), newline="")
        reader = csv.reader(lines, delimiter=self._separator, strict=True)
        for number, row in enumerate(reader, start=1):
            if reader.line_num != number:
                raise _NoRecord
            yield row


def _marks(block: bytes, mark: int, width: int) -> tuple[bytes, IntArray, IntArray] | None:
    """Return the bytes of a plain block, and where its fields begin and end, (n_rows, width)."""
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n")
    if not block.endswith(b"\n"):
        block += b"\n"
    if b"\r" in block or b"\0" in block:
        return None
    block += bytes(_WORD)  # so that a word begins at every mark
    text = np.frombuffer(block, np.uint8)
    is_end = text == ord("\n")
    ends = np.flatnonzero(is_end | (text == mark))
    if len(ends) % width:
        return None
    kinds = is_end[ends].reshape(-1, width)
    if not kinds[:, -1].all() or kinds[:, :-1].any():
        return None
    starts = np.empty_like(ends)
    starts[0], starts[1:] = 0, ends[:-1] + 1
    quotes = block.count(b'"')
    if quotes:
        quoted = (ends - starts >= 2) & (text[starts] == ord('"')) & (text[ends - 1] == ord('"'))
        if 2 * np.count_nonzero(quoted) != quotes:  # some are elsewhere, or a mark is between two
            return None
        starts, ends = starts + quoted, ends - quoted
    if (ends - starts).max() > _LONG:
        return None
    return block, starts.reshape(-1, width), ends.reshape(-1, width)


def _plain_part(block: bytes, starts: IntArray, ends: IntArray, place: int) -> Column:
    """Return a column of a plain block: its different fields, and which each row has."""
    begin = np.ascontiguousarray(starts[:, place])
    sizes = ends[:, place] - begin
    windows = sliding_window_view(np.frombuffer(block, np.uint8), _WORD)
    at = np.zeros(len(begin), np.intp)
    for offset in range(0, max(int(sizes.max()), 1), _WORD):
        left = np.clip(sizes - offset, 0, _WORD)
        first = np.where(left > 0, begin + offset, 0)
        words = windows[first].view("<u8").ravel() & _KEPT[left]
        found, different = pd.factorize(words)
        at = found if offset == 0 else pd.factorize(at * len(different) + found)[0]
    first_row = np.empty(int(at.max()) + 1, np.intp)
    first_row[at[::-1]] = np.arange(len(at))[::-1]  # of several the last is kept: the first row
    fields = [
        block[start:end].decode()
        for start, end in zip(
            begin[first_row].tolist(), (begin + sizes)[first_row].tolist(), strict=True
        )
    ]
    return fields, at


def _columns(records: Iterator[list[str]], places: Sequence[int], width: int) -> list[Column]:
    """Return the columns at some places of records, each of ``width`` fields."""
    rows = [row or [""] for row in records if row or width == 1]
    if any(len(row) != width for row in rows):
        raise _NoRecord
    return [_part(list(map(itemgetter(place), rows))) for place in places]


def _part(fields: list[str]) -> Column:
    places = {field: i for i, field in enumerate(dict.fromkeys(fields))}
    return list(places), np.fromiter(map(places.__getitem__, fields), np.intp, len(fields))
