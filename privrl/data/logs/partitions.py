"""A log that is larger than one machine: partitioned Parquet, its persons shuffled together.

Each file is read by a worker, and its rows are dealt to as many parts, by person. Each part is then
a log of some of the persons, with all of their rows: rules of reading are about one person's rows,
so that it does not matter who else is there.
"""

import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import file_digest
from importlib import import_module
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from privrl.data.logs.log import Log, LogSpace
from privrl.data.logs.parts import keys_in
from privrl.data.logs.rows import Rows
from privrl.data.logs.schema import LogSchema
from privrl.data.logs.sources import (
    Parts,
    arrow_part,
    arrow_parts,
    no_rows,
    parquet_files,
    parquet_table,
)


class OnCluster:
    """Data with parts on a cluster.

    Attributes
    ----------
    client : distributed.Client
        Of the cluster.
    """

    client: Any

    def submit(self, function: Callable[..., Any], *given: Any) -> Any:
        """Return the result of a function on the cluster, of parts and of earlier results.

        It is kept there for as long as it is held here, and made again where a worker dies: the
        function must be pure.
        """
        return self.client.submit(function, *given, pure=False)

    def result(self, made: Any) -> Any:
        """Return what was made, here.

        Raises
        ------
        ChildProcessError
            If workers died of it again and again.
        """
        try:
            return made.result()
        except import_module("distributed").KilledWorker as error:
            raise ChildProcessError(
                "workers died again and again of one part of the data. Memory is the usual reason; "
                "write more and smaller files, or take fewer workers to a machine."
            ) from error


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class PartitionedLog(LogSpace, OnCluster):
    """A log whose parts are on a Dask cluster, see `read_partitions`.

    Parameters
    ----------
    n_states, n_actions, outcomes, outcome_rewards, step_rewards, most_steps, most_episodes, unit
        What is public, see `LogSpace`.
    client : distributed.Client
        Of the cluster.
    parts : tuple of distributed.Future
        Each of a `Log`: all that is there of some of the persons.
    """

    client: Any = field(repr=False)
    parts: tuple[Any, ...] = field(repr=False)

    @property
    def n_steps(self) -> int:
        """Number of steps: private."""
        return sum(map(self.result, [self.submit(_n_steps, part) for part in self.parts]))


def read_partitions(
    folder: "str | Path",
    schema: LogSchema,
    client: Any,
    *,
    progress: Callable[[int], None] | None = None,
) -> PartitionedLog:
    """Return the log in a folder of Parquet files, on a Dask cluster.

    Parameters
    ----------
    folder : str or pathlib.Path
        Whose Parquet files are read, in the order of their names; it has to be there with the same
        files, under this name, here and on each worker. Each file has to fit into the memory of a
        worker, and the rows of a person may be in any of them.
    schema : LogSchema
        What the columns mean; others are ignored.
    client : distributed.Client
        Of the cluster, which holds the log for as long as it is used.
    progress : callable, optional
        Called with the number of rows read so far, now and then: a private number.

    Returns
    -------
    PartitionedLog
        Which `fit_model`, `fit_policy` and `evaluate_policy` take as they take a `Log`. With the
        same generator, they release the same numbers, bit for bit, for any number of files, workers
        or parts, and if workers die on the way.

    Raises
    ------
    ValueError
        As `read_log` does; if a worker has other files; or, even later, if a file has changed that
        is read again.
    ImportError
        If pyarrow is not installed.
    OSError
        If a file cannot be read.
    ChildProcessError
        If workers died again and again.
    """
    if not isinstance(schema, LogSchema):
        raise ValueError(
            f"schema must be a LogSchema, got {type(schema).__name__}; LogSchema.load reads one, "
            "and read_continuous_log takes a ContinuousSchema."
        )
    public = vars(schema.space)
    nothing_yet = PartitionedLog(**public, client=client, parts=())
    types = Rows(schema).add
    parts = shuffled(nothing_yet, Path(folder), schema, types=types, read=_part, progress=progress)
    return PartitionedLog(**public, client=client, parts=parts)


class Named(Protocol):
    """What is known of the columns of a log: their names, and which one is the person."""

    @property
    def person(self) -> str:
        """The column of persons."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all columns."""


Schema = TypeVar("Schema", bound=Named)


def shuffled(
    cluster: OnCluster,
    folder: Path,
    schema: Schema,
    *,
    types: Callable[[Parts], object],
    read: Callable[[Schema, Iterable[Parts]], Any],
    progress: Callable[[int], None] | None = None,
) -> tuple[Any, ...]:
    """Return futures of logs, of some persons each, with all of their rows in a folder's files.

    ``types`` is called with no row of each file: a type that is refused is refused here, so that no
    task fails of it beside rows. ``read`` makes a log of rows, there.
    """
    files = [each.resolve() for each in parquet_files(folder, schema.columns)]
    for each in files:
        types(no_rows(each, schema.columns))
    digests = digests_of(cluster, files)
    submit, result = cluster.submit, cluster.result
    dealt = [
        submit(_dealt, each, digest, schema, len(files))
        for each, digest in zip(files, digests, strict=True)
    ]
    n_rows = [submit(_n_rows, each) for each in dealt]
    parts = []
    for number in range(len(files)):
        hands = [submit(itemgetter(number), each) for each in dealt]
        parts.append(submit(_read_tables, schema, read, *hands))
    n_read = 0
    for each in n_rows:
        n_read += result(each)
        if progress is not None and n_read:
            progress(n_read)
    del dealt
    for made in [submit(_is_there, part) for part in parts]:  # so that errors are raised here
        result(made)
    return tuple(parts)


def digests_of(cluster: OnCluster, files: Sequence[Path]) -> list[str]:
    """Return the digests of files: what is made of a file goes with its own.

    A worker that dies has its files read again, perhaps after the charge for these data. A ledger
    knows data by their bytes here, so workers must have the same.

    Raises
    ------
    ValueError
        If a worker has another file under a name.
    """
    there = [cluster.submit(_digest, each) for each in files]
    digests = list(map(_digest, files))  # meanwhile
    for path, here, other in zip(files, digests, there, strict=True):
        if cluster.result(other) != here:
            raise ValueError(
                f"{path.name} must have the same bytes here and on each worker, and a worker has "
                f"others under {str(path.parent)!r}; copy the folder to all machines, or share it. "
                "Nothing was charged."
            )
    return digests


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def unchanged_table(path: Path, digest: str, names: Sequence[str]) -> Any:
    """Return columns of a Parquet file, as a table of Arrow's.

    Raises
    ------
    ValueError
        If the file has another digest once it was read.
    """
    table = parquet_table(path, names)
    if _digest(path) != digest:
        raise ValueError(f"{path.name} must not change while its data are used, and did.")
    return table


def _is_there(_: Any) -> bool:
    return True


def _dealt(path: Path, digest: str, schema: Named, n_parts: int) -> list[Any]:
    """Return the rows of a file, those of each part by themselves, in order."""
    table = unchanged_table(path, digest, schema.columns)
    whose = np.concatenate(
        [np.empty(0, np.intp)]
        + [
            _parts_of(arrow_part(chunk, schema.person), n_parts)
            for chunk in table.column(schema.person).chunks
        ]
    )
    return [table.take(np.flatnonzero(whose == number)) for number in range(n_parts)]


def _parts_of(person: Any, n_parts: int) -> Any:
    """Return in which part each row is to be, by its person alone; those of nobody in none."""
    keys, at = keys_in(person)
    places = [zlib.crc32(repr(key).encode(errors="surrogatepass")) % n_parts for key in keys]
    return np.array([*places, -1], np.intp)[at]


def _n_rows(tables: Sequence[Any]) -> int:
    return sum(len(table) for table in tables)


def _read_tables(
    schema: Schema, read: Callable[[Schema, Iterable[Parts]], Any], *tables: Any
) -> Any:
    every = (arrow_parts(each.schema, each.to_batches(), schema.columns) for each in tables)
    return read(schema, chain.from_iterable(every))


def _part(schema: LogSchema, every: Iterable[Parts]) -> Log:
    rows = Rows(schema)
    for parts in every:
        rows.add(parts)
    return rows.log()


def _n_steps(log: Log) -> int:
    return log.n_steps
