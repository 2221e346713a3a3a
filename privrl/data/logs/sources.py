"""Where rows come from: each source gives its columns part by part, all of one length."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from privrl.data.csv_files import csv_columns
from privrl.data.logs.log import Log
from privrl.data.logs.parts import Part, part_of
from privrl.data.logs.rows import Rows
from privrl.data.logs.schema import LogSchema
from privrl.data.schema.entries import SILENT, Entries, Held, exact_of, objects, refuse_type
from privrl.data.schema.others import texts_of
from privrl.data.schema.plain import check_once
from privrl.files.extras import extra
from privrl.files.files import PARQUET, check_ends, parquet_in
from privrl.files.plain import listed
from privrl.files.shown import shown

Parts = dict[str, Part]

_ROWS = 1 << 19  # read at once
_TEXT_FILES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".txt.gz")


def read_log(
    source: "str | Path | pd.DataFrame | Any",
    schema: LogSchema,
    *,
    separator: str = ",",
    progress: Callable[[int], None] | None = None,
) -> Log:
    """Return the log in a file or table whose rows are steps of persons.

    Parameters
    ----------
    source : str, pathlib.Path, pandas.DataFrame, polars.DataFrame or pyarrow.Table
        The rows, in any order; those of a person need not be together. A path is of a text file
        (``.csv``, ``.tsv`` or ``.txt``, perhaps with ``.gz``) with a header row, see
        `privrl.data.records.read_records`; of a Parquet file (``.parquet``, ``.pq``); or of a
        folder of Parquet files, which are read in the order of their names.
    schema : LogSchema
        What the columns mean; others are ignored.
    separator : str
        The one character between fields of a text file; ``"tab"`` for a tabulator.
    progress : callable, optional
        Called with the number of rows read so far, now and then. That number is private: show it
        only to people who may see the data.

    Returns
    -------
    Log
        Persons by their first rows. Their order is private: do not show it, and let nothing depend
        on it.

    Raises
    ------
    ValueError
        For what is public of the container alone: a column is absent or there twice, or of a type
        that cannot hold what the schema says; a file is of another kind, or a row of a text file is
        malformed. No message shows an entry.
    ImportError
        If a Parquet file is read and pyarrow is not installed.
    OSError
        If a file cannot be read.

    Notes
    -----
    The log of many persons is the logs of each of them alone, put together. So each rule is about
    the rows of one person:

    - A row with an empty person is left out.
    - A person is left out altogether, without a message, if one of their rows does not fit: an
      entry of a state or action without a cell (give the column one: ``other``, ``missing``); a
      reward or an order of NaN, or an order that is not finite; an empty episode; an outcome that
      is none; two rows of one order in an episode, or with ``consecutive`` a gap between them; or
      an outcome before the last row of its episode.
    - Episodes of a person are sorted by the order of their first step, and by name where that is
      the same (whole numbers by size, then texts, a text before a truth value that is written
      alike); without ``order``, by their first row. Those after the first ``most_episodes`` are
      left out.
    - Steps of an episode after the first ``most_steps`` are cut away, its outcome with them; the
      next state of its last step is then `CUT`.

    pandas makes a column of categories from all records together: numbers with one text among them
    become objects, and of ``True``, ``1`` and ``1.0`` only the first is kept. So categories are
    read each by itself, whatever the type, and equal ones alike. Whole numbers from 2^53 on are no
    names there: one decimal would make floats of all, which do not tell them apart. Nor are they
    in columns of floats, where these have 32 bits from 2^24 on.

    pandas.read_csv infers types from many rows at once: because of one text, a person is a number
    in some rows and a text in others, and so two persons. Give the file's path here, or pass
    pandas ``dtype``, with texts for persons and episodes.

    The number of persons left out is private, and not reported. A log of nobody may mean that a
    column of the schema fits no row: try the schema on rows that you made up.
    """
    if not isinstance(schema, LogSchema):
        raise ValueError(
            f"schema must be a LogSchema, got {type(schema).__name__}; LogSchema.load reads one, "
            "and read_continuous_log takes a ContinuousSchema."
        )
    rows, n_read = Rows(schema), 0
    for parts in parts_of(source, schema.columns, separator):
        rows.add(parts)
        n_new = len(parts[schema.person])
        n_read += n_new
        if progress is not None and n_new:
            progress(n_read)
    return rows.log()


def parts_of(source: Any, names: Sequence[str], separator: str) -> Iterator[Parts]:
    """Return columns of a source, many rows at once, in order; the first part may have no row.

    A source without rows has a part, so that types are refused with and without rows.

    Raises
    ------
    ValueError
        If the source is of another kind, a column is absent, repeated or of a type that cannot be
        read, or a file is malformed. No message shows an entry.
    ImportError
        If a package is needed that is not installed.
    OSError
        If a file cannot be read.
    """
    if isinstance(source, str | Path):
        return _file_parts(Path(source), names, separator)
    package = type(source).__module__.partition(".")[0]
    kind = type(source).__name__
    if isinstance(source, pd.DataFrame):
        check_once("source", source.columns, names)
        return _pandas_parts(source, names)
    if (package, kind) == ("polars", "DataFrame"):
        check_once("source", source.columns, names)
        return _polars_parts(source, names)
    if (package, kind) == ("pyarrow", "Table"):
        check_once("source", source.column_names, names)
        return arrow_parts(source.schema, source.select(list(names)).to_batches(_ROWS), names)
    raise ValueError(
        "source must be a file's path, a pandas.DataFrame, a polars.DataFrame or a pyarrow.Table, "
        f"got {package}.{kind}."
    )


def _called(name: str) -> str:
    return f"column {name!r}"


# Files --------------------------------------------------------------------------------------------


def _file_parts(path: Path, names: Sequence[str], separator: str) -> Iterator[Parts]:
    ending = path.name.lower()
    if path.is_dir() or ending.endswith(PARQUET):
        return _parquet_parts(parquet_files(path, names), names)
    if ending.endswith(_TEXT_FILES):
        return _text_parts(path, names, separator)
    raise ValueError(
        f"a log's file must end in one of {listed((*_TEXT_FILES, *PARQUET))}, or be a "
        f"folder of the latter, got {shown(path.name)}."
    )


def _text_parts(path: Path, names: Sequence[str], separator: str) -> Iterator[Parts]:
    for columns in csv_columns(path, names, separator):
        yield {name: Part(*column) for name, column in columns.items()}


def parquet_files(path: Path, names: Sequence[str]) -> list[Path]:
    """Return the Parquet files in a folder by their names, or the one file, checked.

    Raises
    ------
    ValueError
        If no file is found, one is damaged, or columns are absent or not of one type.
    """
    paths = parquet_in(path) if path.is_dir() else [path]
    if not paths or not paths[0].name.lower().endswith(PARQUET):
        raise ValueError(f"{path.name} must hold files {listed(PARQUET)}, and has none.")
    first: dict[str, tuple[Any, Path]] = {}
    for each in paths:
        schema = _parquet_file(each).schema_arrow
        check_once(each.name, schema.names, names)
        for name in names:
            held = _held_of(schema.field(name).type)
            if held == _NOTHING:  # a file whose rows are all empty there goes with any other
                continue
            known, where = first.setdefault(name, (held, each))
            if held != known:
                raise ValueError(
                    f"{each.name} must hold the same in {_called(name)} as {where.name}, got "
                    "another type; write both alike."
                )
    return paths


def parquet_table(path: Path, names: Sequence[str]) -> Any:
    """Return columns of a Parquet file, as a table of Arrow's."""
    file = _parquet_file(path)
    return _undamaged(path, lambda: file.read(columns=list(names), use_threads=False))


def no_rows(path: Path, names: Sequence[str]) -> Parts:
    """Return columns of a Parquet file without their rows, of the types that they are of."""
    return next(arrow_parts(_parquet_file(path).schema_arrow, [], names))


def _parquet_parts(paths: Sequence[Path], names: Sequence[str]) -> Iterator[Parts]:
    for path in paths:
        file = _parquet_file(path)
        yield from arrow_parts(file.schema_arrow, _batches(path, file, names), names)


def _parquet_file(path: Path) -> Any:
    parquet = import_module("pyarrow.parquet")
    return _undamaged(path, lambda: parquet.ParquetFile(_opened(path)))


def _opened(path: Path) -> Any:
    """Return a path, or what is in the file where Arrow takes no such name: it is not in UTF-8."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return _pyarrow().BufferReader(path.read_bytes())
    return path


def _batches(path: Path, file: Any, names: Sequence[str]) -> Iterator[Any]:
    batches = file.iter_batches(batch_size=_ROWS, columns=list(names), use_threads=False)
    while (batch := _undamaged(path, lambda: next(batches, None))) is not None:
        yield batch


def _undamaged(path: Path, read: Callable[[], Any]) -> Any:
    """Return what is read of a Parquet file; no error holds another, which may show an entry."""
    if path.is_fifo():  # whose beginning is read once
        raise ValueError(f"{path.name} must be a Parquet file, got a pipe.")
    check_ends(path)
    with path.open("rb"):  # raises without permission
        pass
    with suppress(_pyarrow().ArrowException, OSError):
        return read()
    raise ValueError(f"{path.name} must be a Parquet file; it is something else, or damaged.")


def _pyarrow() -> Any:
    return extra("pyarrow", "Parquet", "parquet")


# Tables -------------------------------------------------------------------------------------------


def _pandas_parts(frame: pd.DataFrame, names: Sequence[str]) -> Iterator[Parts]:
    for start in range(0, len(frame) or 1, _ROWS):
        rows = slice(start, start + _ROWS)
        yield {name: part_of(frame[name].iloc[rows], _called(name)) for name in names}


def arrow_parts(schema: Any, batches: Any, names: Sequence[str]) -> Iterator[Parts]:
    """Return columns of Arrow's batches of rows; those of no rows come first."""
    none = {name: _pyarrow().nulls(0, schema.field(name).type) for name in names}
    yield {name: arrow_part(array, name) for name, array in none.items()}
    for batch in batches:
        yield {name: arrow_part(batch.column(name), name) for name in names}


_HELD: tuple[tuple[str, Held], ...] = (
    (r"dictionary<values=(\w+).*", "anything"),  # that is, what its values are
    (r"(large_)?string(_view)?", "texts"),
    (r"u?int\d+", "whole numbers"),
    (r"float|double|halffloat", "numbers"),
    (r"bool", "truth values"),
    (r"null", "anything"),
)
_NOTHING: tuple[Held, str] = ("anything", "null")


def _held_of(dtype: Any) -> tuple[Held | None, str]:
    """Return what a type of Arrow's holds, if it can be read, and what a message calls it."""
    text = str(dtype)
    inner = re.fullmatch(_HELD[0][0], text)
    text = inner[1] if inner else text
    for pattern, held in _HELD[1:]:
        if re.fullmatch(pattern, text):
            return held, text
    # Without digits, time zones and names of fields, which come from the entries.
    return None, re.split(r"\W", text, maxsplit=1)[0]


def arrow_part(array: Any, name: str) -> Part:
    """Return a column of a batch of Arrow's.

    Raises
    ------
    ValueError
        If it is of a type that cannot be read.
    """
    held, type_name = _held_of(array.type)
    if held is None:
        refuse_type(_called(name), "texts, numbers or truth values", type_name)
    if type_name == "null":
        return Part(_no_entries(name, len(array)))
    entries: Callable[[Any], Entries] = partial(_arrow_entries, name=name, held=held)
    if held == "texts" and not hasattr(array, "dictionary"):
        array = array.dictionary_encode()
    if not hasattr(array, "dictionary"):
        return Part(entries(array))
    found = entries(array.dictionary)
    if held != "texts":  # whose type pandas inferred, as that of its categories
        values = objects(found.values.tolist(), len(found.values))
        found = replace(found, held="anything", values=values, by_equality=True)
    # Indices may be unsigned: what is missing cannot be marked in them.
    at = array.indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.intp)
    at[~array.is_valid().to_numpy(zero_copy_only=False)] = -1
    return Part(found, np.where(np.append(found.there, False)[at], at, -1))


def _arrow_entries(array: Any, *, name: str, held: Held) -> Entries:
    there = np.ones(len(array), np.bool_)
    if array.null_count:
        there = array.is_valid().to_numpy(zero_copy_only=False)
    if held == "texts":
        values = objects(texts_of(array), len(array))
        return Entries(_called(name), held, "string", values, there)
    filled = array.fill_null(False if held == "truth values" else 0) if array.null_count else array
    values = filled.to_numpy(zero_copy_only=False)
    return _numbers(values, there, _called(name), held)


@SILENT
def _numbers(values: Any, there: Any, called: str, held: Held) -> Entries:
    """Return entries of numbers or truth values."""
    name, exact = values.dtype.type.__name__, exact_of(values.dtype)
    if held == "numbers":
        values = values.astype(np.float64)
        there = there & ~np.isnan(values)
    elif held == "whole numbers":
        values = values.astype(np.uint64 if values.dtype.kind == "u" else np.int64)
    return Entries(called, held, name, values, there, exact=exact)


def _no_entries(name: str, count: int) -> Entries:
    none = objects([None] * count, count)
    return Entries(_called(name), "anything", "null", none, np.zeros(count, np.bool_))


def _polars_parts(frame: Any, names: Sequence[str]) -> Iterator[Parts]:
    for start in range(0, frame.height or 1, _ROWS):
        part = frame.slice(start, _ROWS)
        yield {name: _polars_part(part[name], name) for name in names}


def _polars_part(series: Any, name: str) -> Part:
    dtype, called = series.dtype, _called(name)
    kind = str(dtype).partition("(")[0]
    if kind in ("String", "Categorical", "Enum"):
        texts = series.cast(import_module("polars").String).to_list()
        values = objects(texts, len(texts))
        return Part(Entries(called, "texts", kind, values, series.is_not_null().to_numpy()))
    if kind == "Null":
        return Part(_no_entries(name, len(series)))
    held: Held
    if kind == "Boolean":
        held = "truth values"
    elif dtype.is_integer() and kind not in ("Int128", "UInt128"):
        held = "whole numbers"
    elif dtype.is_float():
        held = "numbers"
    else:
        refuse_type(called, "texts, numbers or truth values", kind)
    there = series.is_not_null().to_numpy()
    return Part(
        _numbers(series.fill_null(held != "truth values" and 0).to_numpy(), there, called, held)
    )
