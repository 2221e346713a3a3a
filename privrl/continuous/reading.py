"""Logs of continuous states from files and data frames."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from privrl.continuous.log import ContinuousLog
from privrl.continuous.partitions import AnyLog, PartitionedContinuousLog
from privrl.continuous.schema import Choice, Column, ContinuousSchema
from privrl.data.logs.partitions import shuffled
from privrl.data.logs.parts import Names, flags_in, numbers_in, texts_in
from privrl.data.logs.sources import Parts, parts_of
from privrl.numerics.checks import check_is
from privrl.numerics.typing import FloatArray


def read_continuous_log(
    source: Any,
    schema: ContinuousSchema,
    *,
    separator: str = ",",
    client: Any = None,
    progress: Callable[[int], None] | None = None,
) -> AnyLog:
    """Read a log from a file or a data frame that has a row for each step.

    Parameters
    ----------
    source : path, pandas.DataFrame, polars.DataFrame or pyarrow.Table
        Files are CSV, or Parquet with pyarrow.
    schema : ContinuousSchema
        The columns' names and ranges.
    separator : str
        Between the fields of a text file.
    client : distributed.Client, optional
        Of a Dask cluster that reads a folder of Parquet files, which is there under the same name
        on each worker. Fits are the same, bit for bit, with any number of files and workers.
    progress : callable, optional
        Called with the number of rows read so far, now and then: a private number.

    Raises
    ------
    ValueError
        If a column is absent or cannot be read. No message shows an entry.
    OSError
        If a file cannot be read.
    ChildProcessError
        If workers of a cluster died again and again.
    """
    check_is("schema", schema, ContinuousSchema)
    if client is None:
        return _log_of(schema, parts_of(source, schema.columns, separator), progress)
    cluster = PartitionedContinuousLog(schema, client)
    types = lambda none: _log_of(schema, [none])  # noqa: E731
    parts = shuffled(cluster, Path(source), schema, types=types, read=_log_of, progress=progress)
    return PartitionedContinuousLog(schema, client, parts)


def _log_of(
    schema: ContinuousSchema, every: Iterable[Parts], progress: Callable[[int], None] | None = None
) -> ContinuousLog:
    """Return the log of rows, which come in parts."""
    names = {"person": schema.person, "episode": schema.episode, "order": schema.order}
    if schema.reward is not None:
        names["reward"] = schema.reward_column
    if schema.terminates:
        names["terminated"] = schema.terminated_column
    whose = {"person": Names(), "episode": Names()}
    columns = {**schema.state, **schema.action}
    found: dict[str, list[FloatArray]] = {}
    n_read = 0
    with np.errstate(all="ignore"):
        for parts in every:
            n_read += len(parts[schema.person])
            if progress is not None and n_read:
                progress(n_read)
            for role, name in names.items():
                if name is None:
                    continue
                part = parts[name]
                if role in whose:
                    values = whose[role].numbers(part).astype(np.float64)
                    values = np.where(values < 0, np.nan, values)
                else:
                    values = flags_in(part) if role == "terminated" else numbers_in(part)
                found.setdefault(role, []).append(values)
            for name, column in columns.items():
                is_choice = isinstance(column, Choice)
                values = _category(parts[name], column) if is_choice else numbers_in(parts[name])
                found.setdefault(f"column {name}", []).append(values)
    rows = {name: np.concatenate(values) for name, values in found.items()}
    if "episode" in rows:
        # By their names: the order of appearance depends on other persons.
        number, ranks = rows["episode"], np.append(whose["episode"].ranks(), 0)
        rows["episode"] = np.where(
            np.isnan(number), np.nan, ranks[np.nan_to_num(number, nan=-1).astype(np.intp)]
        )
    return _of_rows(schema, rows)


def _category(part: Any, column: Column) -> FloatArray:
    assert isinstance(column, Choice)
    place = {text: k for k, text in enumerate(column.values)}
    codes = texts_in(part, lambda text: place.get(text, -1), missing=-1, unknown=-1)
    return np.where(codes >= 0, codes, np.nan)


def _of_rows(schema: ContinuousSchema, rows: dict[str, FloatArray]) -> ContinuousLog:
    """Pair each row with the next one of its episode."""
    known = ~np.isnan(rows["person"])  # rows without a place are left out
    for name in ("episode", "order"):
        known &= ~np.isnan(rows.get(name, np.zeros(1)))
    rows = {name: values[known] for name, values in rows.items()}
    n = len(rows["person"])
    episode, order = rows.get("episode", np.zeros(n)), rows.get("order", np.zeros(n))
    sort = np.lexsort((order, episode, rows["person"]))
    rows = {name: values[sort] for name, values in rows.items()}
    person, episode = rows["person"], episode[sort]
    state = np.stack([rows[f"column {name}"] for name in schema.state], axis=1)
    action = np.stack([rows[f"column {name}"] for name in schema.action], axis=1)
    last = np.append((person[1:] != person[:-1]) | (episode[1:] != episode[:-1]), True)[:n]
    ended = rows.get("terminated", np.zeros(n))
    following = np.where(last[:, None], state, np.roll(state, -1, axis=0))
    keep = ~last | (np.nan_to_num(ended, nan=1.0) != 0)
    arrays = {"person": person, "state": state, "next_state": following, "action": action}
    arrays |= {name: rows[name] for name in ("reward", "terminated") if name in rows}
    return ContinuousLog.grouped(schema, {name: values[keep] for name, values in arrays.items()})
