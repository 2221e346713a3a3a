"""Large CSV files, read as `privrl.data.records` reads small ones.

Most of a large file is plain: as many fields in each row as in the header, no quotes but around
whole fields. There the marks between fields say where all of them are, and NumPy finds the
different ones. A block that is anything else is read row by row, by Python's own reader.
"""

import csv
import gzip
import io
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
from numpy.lib.stride_tricks import sliding_window_view

from privrl.data.logs.parts import Part
from privrl.data.records import (
    NOT_RECORDS,
    TooWide,
    check_columns,
    check_separator,
    long_fields,
    padded,
    trimmed_header,
)
from privrl.data.schema.headers import not_utf8
from privrl.files.files import check_ends
from privrl.numerics.typing import IntArray

_BLOCK = 1 << 24  # bytes read at once
_LONG = 64  # bytes of a field that is not plain
_WORD = 8  # bytes that are compared as one number
_KEPT = np.array([(1 << 8 * n) - 1 for n in range(_WORD + 1)], np.uint64)  # the first n bytes


def text_parts(path: Path, names: Sequence[str], separator: str) -> Iterator[dict[str, Part]]:
    """Return columns of a CSV file, perhaps compressed by gzip, many rows at once.

    Errors are those of `privrl.data.records.read_records`.
    """
    separator = check_separator(separator)
    wrong, names = None, list(names)
    check_ends(path)
    opened: Any = gzip.open if path.name.lower().endswith(".gz") else open
    with opened(path, "rb") as file, long_fields():
        try:
            lines = _Lines(file, separator)
            # Of a file whose lines end in CR alone, this line holds more than the header.
            beginning = lines.records(file.readline().removeprefix(BOM_UTF8))
            header = trimmed_header(next(beginning, []), names)
            check_columns(path, header, names, separator)
            places = [header.index(name) for name in names]
            for columns in lines.parts(beginning, places, len(header)):
                yield dict(zip(names, columns, strict=True))
        except UnicodeDecodeError:
            wrong = not_utf8(path)
        except (csv.Error, TooWide):
            wrong = NOT_RECORDS
        except (EOFError, zlib.error, gzip.BadGzipFile):
            wrong = "be a whole file as gzip makes it"
    if wrong is not None:  # here, so that no error holds another that shows a field
        raise ValueError(f"{path.name} must {wrong}.")


class _Lines:
    """The records of a file, block by block."""

    def __init__(self, file: IO[bytes], separator: str) -> None:
        self._file = file
        self._separator = separator

    def parts(
        self, beginning: Iterator[list[str]], places: Sequence[int], width: int
    ) -> Iterator[list[Part]]:
        """Return the columns at some places, of rows of at most ``width`` fields.

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
        """Return the records of a block; the last may reach into lines of the file behind it."""
        lines = _Asked(block.decode(), self._file)
        reader = csv.reader(lines, delimiter=self._separator, strict=True)
        while True:
            lines.begin()
            row = next(reader, None)
            if row is None:
                return
            yield row


class _Asked:
    """Lines of a text, and then those of a file as long as a record is not at its end."""

    def __init__(self, text: str, file: IO[bytes]) -> None:
        self._lines = iter(io.StringIO(text, newline=""))
        self._file = file
        self._within = False

    def begin(self) -> None:
        """Say that a record begins."""
        self._within = False

    def __iter__(self) -> "_Asked":
        return self

    def __next__(self) -> str:
        line = next(self._lines, None)
        if line is None:
            if not self._within:
                raise StopIteration
            more = self._file.readline()
            if not more:
                raise StopIteration
            self._lines = iter(io.StringIO(more.decode(), newline=""))
            line = next(self._lines)
        self._within = True
        return line


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


def _plain_part(block: bytes, starts: IntArray, ends: IntArray, place: int) -> Part:
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
    return Part(fields, at)


def _columns(records: Iterator[list[str]], places: Sequence[int], width: int) -> list[Part]:
    """Return the columns at some places of records, each of at most ``width`` fields."""
    rows = padded(records, width)
    return [_part(list(map(itemgetter(place), rows))) for place in places]


def _part(fields: list[str]) -> Part:
    places = {field: i for i, field in enumerate(dict.fromkeys(fields))}
    return Part(list(places), np.fromiter(map(places.__getitem__, fields), np.intp, len(fields)))
