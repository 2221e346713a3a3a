"""Records on several machines: a folder of Parquet files on a Dask cluster.

A model is made of tables of counts, and the tables of all records are the sums of those of each
file. The summands are whole numbers or multiples of 1/64, so the sums are exact for any partition
and any order. Noise is added once, here. The same generator gives the same model.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from privrl.data.logs.partitions import OnCluster, digests_of, unchanged_table
from privrl.data.logs.sources import parquet_files, parquet_table
from privrl.data.schema import Column, Schema
from privrl.numerics.checks import check_is
from privrl.numerics.typing import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class PartitionedRecords(OnCluster):
    """Records whose parts are on a Dask cluster, see `read_partitioned_records`.

    Parameters
    ----------
    schema : Schema
        Of their columns; public.
    client : distributed.Client
        Of the cluster.
    parts : tuple of distributed.Future
        Each of some of the records.
    """

    schema: Schema
    client: Any = field(repr=False)
    parts: tuple[Any, ...] = field(repr=False)

    @property
    def n_records(self) -> int:
        """The number of records."""
        return int(self.summed(_length)[0])

    def summed(self, tables: Callable[..., Sequence[FloatArray]], *public: Any) -> list[FloatArray]:
        """Return the sums, over all parts, of tables of them: private, to be released.

        Parameters
        ----------
        tables : callable
            From the cells of some records, shape (n, K), and what else is given, to arrays whose
            sums are exact in any order. It runs on the cluster, and must be pure.
        *public
            What it is given, known to everybody on the cluster.
        """
        made = [self.submit(_tables, part, tables, *public) for part in self.parts]
        each = zip(*map(self.result, made), strict=True)
        return [np.sum(parts, axis=0) for parts in each]

    def of(self, schema: Schema) -> "PartitionedRecords":
        """Return the columns of a schema alone, in its order, if they are among these.

        Raises
        ------
        ValueError
            If a column is not, or is read in another way.
        """
        missing = [name for name in schema.names if name not in self.schema.columns]
        if missing or self.schema.subset(schema.names) != schema:
            raise ValueError(
                "records must have been read with the same columns as are asked for: "
                "read_partitioned_records(folder, schema, client) with this schema."
            )
        places = [self.schema.names.index(name) for name in schema.names]
        parts = tuple(self.submit(_columns, part, places) for part in self.parts)
        return PartitionedRecords(schema, self.client, parts)

    def counts(self, column: Column) -> IntArray:
        """Return how many records are in each cell of the only column: private.

        Raises
        ------
        ValueError
            If the schema has more columns, or another one.
        """
        if list(self.schema.columns.values()) != [column]:
            raise ValueError(
                "records must have been read with a schema of one column, the one that is counted: "
                "values.of(Schema({name: column})) has it alone, and bins is that column."
            )
        return self.summed(_bins, column.size)[0].astype(np.intp)


def read_partitioned_records(folder: str | Path, schema: Schema, client: Any) -> PartitionedRecords:
    """Return the records in a folder of Parquet files, on a Dask cluster.

    Parameters
    ----------
    folder : str or pathlib.Path
        The folder with the Parquet files, the same under this path here and on each worker. Each
        file must fit into the memory of a worker.
    schema : Schema
        The domain of the columns; others are ignored.
    client : distributed.Client
        The client of the cluster, which holds the records' cells while they are used.

    Returns
    -------
    PartitionedRecords
        For `histogram`, `PrivateNaiveBayes.fit` and `PrivateBayesNet.fit` in place of a table, with
        the same result, bit for bit, for the same generator.

    Raises
    ------
    ValueError
        If the folder holds no such file, a worker has other files, a column is absent, or values
        do not fit; no value is shown.
    ImportError
        If pyarrow or narwhals is not installed.
    OSError
        If a file cannot be read.
    ChildProcessError
        If workers died again and again.
    """
    check_is("schema", schema, Schema)
    files = [each.resolve() for each in parquet_files(Path(folder), schema.names)]
    # Types are refused here, where no row is near.
    schema.encode(parquet_table(files[0], schema.names).slice(0, 0))
    nothing_yet = PartitionedRecords(schema, client, ())
    digests = digests_of(nothing_yet, files)
    parts = tuple(
        nothing_yet.submit(_read, each, digest, schema)
        for each, digest in zip(files, digests, strict=True)
    )
    records = PartitionedRecords(schema, client, parts)
    records.summed(_length)  # errors in a part show up now
    return records


@dataclass(frozen=True, eq=False, repr=False)
class _Cells:
    """The cells of some records in few bytes each, which no log of a worker shows."""

    codes: IntArray


def _read(path: Path, digest: str, schema: Schema) -> _Cells:
    codes = schema.encode(unchanged_table(path, digest, schema.names))
    largest = max((column.size for column in schema.columns.values()), default=1)
    return _Cells(codes.astype(np.min_scalar_type(largest)))


def _columns(part: _Cells, places: Sequence[int]) -> _Cells:
    return _Cells(part.codes[:, places])


def _tables(part: _Cells, tables: Callable[..., Sequence[FloatArray]], *public: Any) -> Any:
    return list(tables(part.codes.astype(np.intp), *public))


def _length(codes: IntArray) -> list[FloatArray]:
    return [np.array(float(len(codes)))]


def _bins(codes: IntArray, size: int) -> list[FloatArray]:
    return [np.bincount(codes[:, 0], minlength=size).astype(np.float64)]
