"""Whatever a user may hand over as a column, by name: how it is made of a list of entries."""

import array
import collections
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd


class OnlyArray:
    """What has nothing but a way to become an array."""

    def __init__(self, values: Any) -> None:
        self._values = np.array(values)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self._values


class Streamed:
    """What has nothing but a way to become a column of Arrow's."""

    def __init__(self, values: Any) -> None:
        self._values = import_module("pyarrow").chunked_array([values])

    def __arrow_c_stream__(self, requested: Any = None) -> Any:
        return self._values.__arrow_c_stream__(requested)


class Old:
    """A sequence by Python's old protocol alone."""

    def __init__(self, values: Any) -> None:
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, place: int) -> Any:
        return self._values[place]


class Subclass(np.ndarray[Any, Any]):
    pass


def objects(values: Any) -> Any:
    return np.fromiter(values, object, len(values))


def buffer(values: list[Any]) -> Any:
    return array.array("d" if isinstance(values[0], float) else "q", values)


def _mapped(values: list[Any], folder: Path) -> Any:
    made = np.array(values)
    mapped = np.memmap(folder / "mapped", made.dtype, "w+", shape=made.shape)
    mapped[:] = made
    return mapped


def read_only(values: list[Any]) -> Any:
    made = np.array(values)
    made.setflags(write=False)
    return made


def _pandas(dtype: str) -> Callable[[list[Any]], Any]:
    return lambda values: pd.Series(values).astype(dtype)


def _numpy(dtype: str) -> Callable[[list[Any]], Any]:
    return lambda values: np.array(values, dtype)


#: Without a type: read entry by entry.
UNTYPED: Final[dict[str, Callable[[list[Any]], Any]]] = {
    "list": list,
    "tuple": tuple,
    "deque": collections.deque,
    "UserList": collections.UserList,
    "objects": objects,
    "series of objects": lambda values: pd.Series(objects(values), dtype=object),
    "index of objects": lambda values: pd.Index(objects(values), dtype=object),
    "series with one index": lambda values: pd.Series(
        objects(values), index=[0] * len(values), dtype=object
    ),
}

#: Of a type, which is public: read as the list of the same entries, or refused for it.
TYPED: Final[dict[str, Callable[[list[Any]], Any]]] = {
    "range": lambda values: range(len(values)),
    "array.array": buffer,
    "memoryview": lambda values: memoryview(buffer(values)),
    "bytearray": bytearray,
    **{
        f"numpy {dtype}": _numpy(dtype)
        for dtype in (
            *("b1", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "g", "c8"),
            *("c16", "S3", "U3", ">i8", ">f8", ">i2", ">U3", "M8[s]", "m8[s]"),
        )
    },
    "numpy StringDType": lambda values: np.array(values, np.dtypes.StringDType()),
    "numpy structured": lambda values: np.array([(each,) for each in values], [("a", float)]),
    "numpy records": lambda values: np.rec.fromarrays([np.array(values)], names="a"),
    "numpy masked": lambda values: np.ma.masked_array(values, [True] + [False] * 4),
    "numpy not masked": np.ma.masked_array,
    "numpy subclass": lambda values: np.array(values).view(Subclass),
    "numpy matrix": lambda values: np.array(values).view(np.matrix),
    "numpy without axes": lambda values: np.array(values[0]),
    "numpy strided": lambda values: np.repeat(np.array(values), 2)[::2],
    "numpy backwards": lambda values: np.array(values[::-1])[::-1],
    "numpy read-only": read_only,
    "numpy column": lambda values: np.array(values)[:, None],
    "numpy row": lambda values: np.array(values)[None],
    "__array__": OnlyArray,
    **{
        f"pandas {dtype}": _pandas(dtype)
        for dtype in (
            *("Int64", "UInt8", "Float32", "Float64", "boolean", "string", "str", "category"),
            *("Sparse[int]", "Sparse[float]", "datetime64[ns]", "datetime64[ns, UTC]"),
            *("timedelta64[ns]", "period[D]"),
        )
    },
    "pandas": pd.Series,
    "pandas array": pd.array,
    "pandas Index": pd.Index,
    "pandas MultiIndex": lambda values: pd.MultiIndex.from_arrays([values]),
    "pandas ordered categories": lambda values: pd.Series(pd.Categorical(values, ordered=True)),
    "pandas Categorical": pd.Categorical,
    "pandas CategoricalIndex": pd.CategoricalIndex,
    "pandas Interval": lambda values: pd.Series(
        pd.arrays.IntervalArray.from_arrays(values, [each + 1 for each in values])
    ),
    "pandas with two indices": lambda values: pd.Series(
        values, index=pd.MultiIndex.from_arrays([[1] * len(values), range(len(values))])
    ),
    "pandas in another order": lambda values: pd.Series(values, index=range(len(values))[::-1]),
    "pandas DataFrame": lambda values: pd.DataFrame({"a": values}),
}

#: No column of entries: refused.
NO_COLUMN: Final[dict[str, Callable[[list[Any]], Any]]] = {
    "generator": lambda values: (each for each in values),
    "map": lambda values: map(int, values),
    "dict": lambda values: dict(enumerate(values)),
    "dict values": lambda values: dict(enumerate(values)).values(),
    "dict keys": lambda values: dict.fromkeys(values).keys(),
    "set": set,
    "frozenset": frozenset,
    "text": lambda values: "".join(map(str, values)),
    "bytes": lambda values: bytes(len(values)),
    "old protocol": Old,
    "number": lambda values: values[0],
    "None": lambda values: None,
    "class": lambda values: list,
}


def arrow(values: list[Any], kind: str) -> Any:
    pa = import_module("pyarrow")
    types = {"f16": "halffloat", "f32": "float", "f64": "double", "dec": None, "infer": None}
    if kind == "dec":
        return pa.array(values, pa.decimal128(10, 2))
    return pa.array(values, None if kind == "infer" else pa.type_for_alias(types.get(kind, kind)))


def _arrow(kind: str) -> Callable[[list[Any]], Any]:
    return lambda values: arrow(values, kind)


def _of_arrow(make: Callable[[Any, list[Any]], Any]) -> Callable[[list[Any]], Any]:
    return lambda values: make(import_module("pyarrow"), values)


ARROW: Final[dict[str, Callable[[list[Any]], Any]]] = {
    **{
        f"arrow {kind}": _arrow(kind)
        for kind in (
            *("infer", "int8", "int64", "uint64", "f16", "f32", "f64", "bool", "string", "dec"),
            *("large_string", "string_view", "binary", "timestamp[s]", "duration[s]", "date32"),
            *("time32[s]",),
        )
    },
    "arrow chunks": _of_arrow(lambda pa, values: pa.chunked_array([values[:1], values[1:]])),
    "arrow dictionary": lambda values: arrow(values, "infer").dictionary_encode(),
    "arrow dictionaries": _of_arrow(
        lambda pa, values: pa.chunked_array(
            [pa.array(values[:1]).dictionary_encode(), pa.array(values[1:]).dictionary_encode()]
        )
    ),
    "arrow nulls": _of_arrow(lambda pa, values: pa.nulls(len(values))),
    "arrow lists": lambda values: arrow([[each] for each in values], "infer"),
    "arrow structs": lambda values: arrow([{"a": each} for each in values], "infer"),
    "arrow runs": _of_arrow(
        lambda pa, values: pa.RunEndEncodedArray.from_arrays(
            list(range(1, len(values) + 1)), pa.array(values)
        )
    ),
    "arrow table": _of_arrow(lambda pa, values: pa.table({"a": values})),
    "arrow batch": _of_arrow(lambda pa, values: pa.record_batch({"a": pa.array(values)})),
    "arrow slice": lambda values: arrow([values[0], *values], "infer")[1:],
    "arrow tensor": _of_arrow(lambda pa, values: pa.Tensor.from_numpy(np.array(values))),
    "__arrow_c_stream__": Streamed,
    "pandas ArrowDtype": lambda values: pd.Series(
        pd.arrays.ArrowExtensionArray(arrow(values, "infer"))
    ),
    "pandas decimal": lambda values: pd.Series(pd.arrays.ArrowExtensionArray(arrow(values, "dec"))),
    "pandas ArrowDtype of a dictionary": lambda values: pd.Series(
        pd.arrays.ArrowExtensionArray(arrow(values, "infer").dictionary_encode())
    ),
}


def _polars(dtype: str) -> Callable[[list[Any]], Any]:
    def make(values: list[Any]) -> Any:
        pl = import_module("polars")
        return pl.Series("a", values).cast(getattr(pl, dtype))

    return make


def _of_polars(make: Callable[[Any, list[Any]], Any]) -> Callable[[list[Any]], Any]:
    return lambda values: make(import_module("polars"), values)


POLARS: Final[dict[str, Callable[[list[Any]], Any]]] = {
    **{
        f"polars {dtype}": _polars(dtype)
        for dtype in (
            *("Int8", "Int64", "UInt64", "Float32", "Float64", "Boolean", "String", "Categorical"),
            *("Decimal", "Int128", "Date", "Datetime", "Duration", "Binary"),
        )
    },
    "polars": _of_polars(lambda pl, values: pl.Series("a", values)),
    "polars Object": _of_polars(lambda pl, values: pl.Series("a", values, dtype=pl.Object)),
    "polars Enum": _of_polars(
        lambda pl, values: pl.Series("a", values, dtype=pl.Enum(sorted(set(values))))
    ),
    "polars lists": _of_polars(lambda pl, values: pl.Series("a", [[each] for each in values])),
    "polars structs": _of_polars(
        lambda pl, values: pl.Series("a", [{"b": each} for each in values])
    ),
    "polars nulls": _of_polars(lambda pl, values: pl.Series("a", [None] * len(values))),
    "polars frame": _of_polars(lambda pl, values: pl.DataFrame({"a": values})),
    "polars lazy frame": _of_polars(lambda pl, values: pl.LazyFrame({"a": values})),
}


def _sparse(values: list[Any]) -> Any:
    return import_module("scipy.sparse").csr_matrix(np.array(values)[:, None])


OTHERS: Final[dict[str, Callable[[list[Any]], Any]]] = {
    "scipy sparse": _sparse,
    "dask array": lambda values: import_module("dask.array").from_array(np.array(values), 2),
    "dask series": lambda values: import_module("dask.dataframe").from_pandas(
        pd.Series(values), npartitions=2
    ),
}

#: The packages that some of them need.
NEEDS: Final = {
    **dict.fromkeys(ARROW, ("pyarrow", "narwhals")),
    **dict.fromkeys(POLARS, ("polars", "narwhals")),
    "dask array": ("dask",),
    "dask series": ("dask",),
}
CONTAINERS: Final[dict[str, Any]] = {
    "numpy memmap": None,
    **UNTYPED,
    **TYPED,
    **NO_COLUMN,
    **ARROW,
    **POLARS,
    **OTHERS,
}


def made(name: str, values: list[Any], folder: Path) -> Any:
    """Return a container of some values; a TypeError where there is none of that type."""
    try:
        if name == "numpy memmap":
            return _mapped(values, folder)
        return CONTAINERS[name](list(values))
    except Exception:
        raise TypeError(name) from None


def entries_in(container: Any) -> list[Any]:
    """Return the entries of a container that has a type, as a list.

    Of equal categories pandas keeps one, so True is read as 1 is; likewise in Arrow's dictionaries.
    """
    if hasattr(container, "column_names"):
        container = container.column(0)
    kind = str(getattr(container, "dtype", getattr(container, "type", "")))
    if kind == "category" or kind.startswith("dictionary"):
        return [int(each) if each in (True, False) else each for each in _listed(container)]
    return _listed(container)


def _listed(container: Any) -> list[Any]:
    if hasattr(container, "compute"):
        container = container.compute()
    if type(container).__name__ == "Tensor":
        container = container.to_numpy()
    for way in ("to_pylist", "to_list", "tolist"):
        if hasattr(container, way):
            return list(getattr(container, way)())
    return np.asarray(container).tolist() if hasattr(container, "__array__") else list(container)
