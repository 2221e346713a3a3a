"""Reading a log: from whatever holds rows to whole numbers that a public schema gives."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privrl.data.logs.log import Log
from privrl.data.logs.rows import Rows
from privrl.data.logs.schema import LogSchema
from privrl.data.logs.sources import parts_of

if TYPE_CHECKING:
    import pandas as pd


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
        (``.csv``, ``.tsv`` or ``.txt``, perhaps with ``.gz``) with a header row, read as
        `privrl.data.read_records` does; of a Parquet file (``.parquet``, ``.pq``); or of a folder
        of those, which are read in the order of their names.
    schema : LogSchema
        What the columns mean; others are ignored.
    separator : str
        The one character between fields of a text file; ``"tab"`` for a tabulator.
    progress : callable, optional
        Told how many rows were read so far, now and then. For the eyes of those who may see the
        data: that number is private.

    Returns
    -------
    Log
        Persons by the first of their rows. That is nobody's to know: do not show, and let nothing
        depend on, in which order they are.

    Raises
    ------
    ValueError
        For what is public of the container alone: a column is absent or there twice, or of a type
        that cannot hold what the schema says; a file is no such file, or a row of a text file is
        no row. No message shows an entry.
    ImportError
        If a Parquet file is read and pyarrow is not installed.
    OSError
        If a file cannot be read.

    Notes
    -----
    The log of many persons is the logs of each of them alone, put together. So each rule is about
    the rows of one person:

    - A row with an empty person is left out.
    - A person is left out altogether, without a word, if a row of theirs does not fit: an entry of
      a state or action that has no cell (give the column one: ``other``, ``missing``); a reward or
      an order that is no number, or an order that is not finite; an empty episode; an outcome that
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
    read each by itself, whatever the type, and equal ones alike.

    How many persons were left out is private, and is not told. A log of nobody may mean that a
    column of the schema fits no row: try the schema on rows that you made up.
    """
    if not isinstance(schema, LogSchema):
        raise ValueError(
            f"schema must be a LogSchema, got {type(schema).__name__}; LogSchema.load reads one."
        )
    rows, n_read = Rows(schema), 0
    for parts in parts_of(source, schema.columns, separator):
        rows.add(parts)
        n_new = len(parts[schema.person])
        n_read += n_new
        if progress is not None and n_new:
            progress(n_read)
    return rows.log()
