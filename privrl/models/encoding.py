"""Records and their classes as cell numbers of the public domain, and their counts."""

import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.exceptions import DataConversionWarning  # type: ignore[import-untyped] # has no types

from privrl.data.logs.parts import NO_NAME, keys_in, part_of
from privrl.data.schema import Categories, Column, Schema
from privrl.data.schema.columns import encode_column
from privrl.data.schema.entries import Entries, Value, key_of, objects, read, refuse_type
from privrl.data.schema.others import as_column, as_frame
from privrl.files.shown import shown
from privrl.numerics.checks import check_count, plain_array
from privrl.numerics.typing import FloatArray, IntArray

Codes = NDArray[np.integer[Any]]
_BLOCK = 512  # records
_TOGETHER = 4096  # cells, which stay in a processor's cache


def count_tables(
    columns: Codes, numbers: Codes, sizes: Sequence[int], n_classes: int
) -> list[FloatArray]:
    """Return the counts of the classes, shape (1, J), and of each feature's values, (J, V)."""
    counts = [np.bincount(numbers, minlength=n_classes)[None]]
    first = 0
    while first < len(sizes):  # two small features are counted together
        lengths = (*sizes[first : first + 2], n_classes)
        if math.prod(lengths) > _TOGETHER:
            lengths = (sizes[first], n_classes)
        cells = columns[first] * math.prod(lengths[1:])
        if len(lengths) > 2:
            cells += columns[first + 1] * n_classes
        cells += numbers
        joint = np.bincount(cells, minlength=math.prod(lengths)).reshape(lengths)
        counts += [joint.sum(axis=1).T, joint.sum(axis=0).T] if joint.ndim > 2 else [joint.T]
        first += joint.ndim - 1
    return [table.astype(np.float64) for table in counts]


def class_labels(
    schema: object, classes: str | Iterable[str | int | bool] | Categories
) -> Categories:
    """Return the public classes."""
    if isinstance(classes, Iterator):  # which has none left when the model is saved
        raise ValueError("classes must be a list, got an iterator; list(classes) makes one of it.")
    if isinstance(classes, str):
        if not isinstance(schema, Schema) or classes not in schema.columns:
            raise ValueError(
                "classes must be the labels, or the name of a column of a Schema, got "
                f"{shown(classes)}."
            )
        column = schema.columns[classes]
        if not isinstance(column, Categories):
            raise ValueError(
                f"classes must name a column of Categories, got {shown(classes)}: Bins."
            )
        classes = column
    if not isinstance(classes, Categories):
        values = [c.item() if isinstance(c, np.generic) else c for c in classes]
        classes = Categories(tuple(values))
    if classes.other:
        raise ValueError("classes must all be known: Categories without other=True.")
    return classes


def learned_labels(y: Any) -> Categories:
    """Return the classes that occur in ``y``, which are private.

    Raises
    ------
    ValueError
        If fewer than two occur, or an entry is not a class; the message shows none of them.
    """
    check_y(y)
    keys, at = keys_in(part_of(as_column(_one_axis(y), "y"), "y"))
    found = {keys[place] if place >= 0 else NO_NAME for place in np.unique(at)}
    if NO_NAME in found:
        raise ValueError(
            "y must hold classes: whole numbers, truth values or texts. Unknown label type: "
            "something else, or nothing, or Input y contains infinity or NaN."
        )
    values = sorted((key[1] if isinstance(key, tuple) else key for key in found), key=_rank)
    if len(values) < 2:
        raise ValueError("y must hold at least two classes, got 1 class or none; pass classes=.")
    with suppress(ValueError):  # whose message shows a class
        return Categories(tuple(values))
    raise ValueError("y must hold classes that a column of Categories can list; pass classes=.")


def check_y(y: Any) -> None:
    """Check that classes are given at all."""
    if y is None:
        raise ValueError(
            "y must be the records' classes; fit requires y to be passed, but the target y is None."
        )


def class_order(labels: Categories) -> list[int]:
    """Return the places of the classes in ``classes_``, which scikit-learn takes as sorted.

    Numbers and truth values stand before texts, with which they cannot be compared.
    """
    return sorted(range(len(labels.values)), key=lambda i: _rank(labels.values[i]))


def _rank(value: Value) -> tuple[bool, Value]:
    return isinstance(value, str), value


def class_places(labels: Categories) -> IntArray:
    """Return for each class its number in ``classes_``."""
    return np.argsort(class_order(labels))


def in_stated_order(labels: Categories, by_class: FloatArray) -> FloatArray:
    """Return what has a first axis of the classes in ``classes_``, in the order of the labels.

    Files and pages have that order, which is that of `Categories.labels`.
    """
    return by_class[class_places(labels)]


def class_array(labels: Categories) -> NDArray[Any]:
    """Return the classes as an array, shape (J,), sorted; of objects where their types differ."""
    values = [labels.values[i] for i in class_order(labels)]
    array = np.array(values)
    if list(map(repr, array.tolist())) == list(map(repr, values)):
        return array
    return np.array(values, object)


def encode_classes(labels: Categories, y: Any, n_records: int) -> Codes:
    """Return the class of every record by its number in ``classes_``; messages show none of them.

    A message about a single record reveals only that it has none of the classes.
    """
    check_y(y)
    column = _one_axis(y)
    numbers = read(column, "y", labels.find)
    if len(numbers) != n_records:
        raise ValueError(
            f"X and y must have equally many records, got {n_records} and {len(numbers)}."
        )
    if (numbers < 0).any():
        raise ValueError(
            "y must hold nothing but the stated classes, and holds something unknown or missing. "
            "Unknown label type: none of them."
        )
    return class_places(labels)[numbers]


def _one_axis(y: Any) -> Any:
    """Return classes in an array or data frame of one column as one axis."""
    y = as_frame(y)
    shape: tuple[int, ...] = getattr(y, "shape", ())
    if len(shape) == 2 and shape[1] == 1 and not hasattr(y, "toarray"):
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected: y must be of shape (n,).",
            DataConversionWarning,
            stacklevel=4,
        )
        return y.iloc[:, 0] if isinstance(y, pd.DataFrame) else y[:, 0]
    if len(shape) > 1:
        raise ValueError(f"y must be classes, shape (n,), got shape {shape}: a 1d array.")
    return y


def as_table(X: Any) -> Any:
    """Return a data frame as it is and everything else as an array of two axes.

    An array keeps its type. A list becomes an array of objects, so that no entry decides what
    becomes of another.
    """
    if hasattr(X, "toarray"):
        raise ValueError("X must be dense, got a sparse matrix; X.toarray() makes it so.")
    table = X if isinstance(X, pd.DataFrame) else _as_array(X)
    if table.ndim != 2:
        raise ValueError(
            f"X must have two axes, records and features, got {table.ndim}. Reshape your data."
        )
    if min(table.shape) < 1:
        what = "feature(s)" if table.shape[0] else "sample(s)"
        raise ValueError(f"X has 0 {what} (shape={table.shape}) while a minimum of 1 is required.")
    return table


def _as_array(X: Any) -> NDArray[Any]:
    if hasattr(X, "__array__"):
        array = plain_array("X", X)
        if array.dtype.kind == "c":
            raise ValueError("X must hold real numbers. Complex data not supported.")
        return array
    if isinstance(X, str | bytes) or not isinstance(X, Sequence):
        raise ValueError(
            f"X must be a data frame, an array or a list of rows, got {type(X).__name__}."
        )
    widths = {len(row) if _is_row(row) else -1 for row in X}
    if not widths:
        return np.empty((0, 0), object)
    if len(widths) > 1 or -1 in widths:
        raise ValueError(
            "X must have two axes, records and features: in every record a row with as many "
            "entries as there are features. Reshape your data."
        )
    (width,) = widths
    return objects(chain.from_iterable(X), len(X) * width).reshape(len(X), width)


def _is_row(row: object) -> bool:
    if isinstance(row, np.ndarray | pd.Series):
        return row.ndim == 1
    return isinstance(row, Sequence) and not isinstance(row, str | bytes)


def encode_alike(table: Any, column: Column) -> IntArray:
    """Return the cells of a table whose columns are all alike, shape (K, n)."""
    return np.stack([encode_column(column, *each) for each in _columns(table)])


def by_columns(table: NDArray[Any]) -> NDArray[Any]:
    """Return a copy by columns, shape (K, n), in blocks that stay in a processor's cache."""
    columns = np.empty(table.shape[::-1], table.dtype.newbyteorder("="))
    for start in range(0, len(table), _BLOCK):
        columns[:, start : start + _BLOCK] = table[start : start + _BLOCK].T
    return columns


def encode_numbers(table: Any, sizes: tuple[int, ...]) -> IntArray:
    """Return whole numbers that lie within the sizes, shape (K, n); messages show none of them."""
    if table.shape[1] != len(sizes):
        raise ValueError(f"X must have {len(sizes)} features, as schema has, got {table.shape[1]}.")
    if isinstance(table, np.ndarray) and table.dtype.kind in "iu":
        at_once = by_columns(table)
        if (at_once.min(axis=1) >= 0).all() and (at_once.max(axis=1) < sizes).all():
            return at_once.astype(np.int64, copy=False)
    codes = []
    for k, ((values, _), size) in enumerate(zip(_columns(table), sizes, strict=True)):
        found = read(values, "X", _find_whole)
        if ((found < 0) | (found >= size)).any():
            raise ValueError(
                f"X must hold whole numbers from 0 to {size - 1} in column {k}, by the schema."
            )
        codes.append(found)
    return np.stack(codes)


def _columns(table: Any) -> Iterable[tuple[Any, str]]:
    """Return the columns of a table with their names."""
    if isinstance(table, pd.DataFrame):
        return [(table.iloc[:, k], str(name)) for k, name in enumerate(table.columns)]
    return [(table[:, k], str(k)) for k in range(table.shape[1])]


def _find_whole(entries: Entries) -> IntArray:
    """Return whole numbers of 63 bits as they are, −1 for everything else."""
    if entries.held in ("texts", "truth values"):
        refuse_type(entries.called, "whole numbers", entries.type_name)
    if entries.held != "anything":
        numbers, there = entries.whole_numbers()
        return np.where(there, numbers, -1)
    keys = map(key_of, entries.values)
    found = (
        int(key[1]) if key and key[0] == "whole number" and 0 <= int(key[1]) < 2**63 else -1
        for key in keys
    )
    return np.fromiter(found, np.int64, len(entries.values))


def check_sizes(sizes: Any) -> tuple[int, ...]:
    """Return the features' numbers of values if they are such."""
    if isinstance(sizes, str) or not isinstance(sizes, Sequence | np.ndarray):
        raise ValueError(
            f"schema must be a Schema, Categories, Bins or numbers of values, got {shown(sizes)}; "
            "the public domain has to be given. bounds= is for numeric arrays."
        )
    return tuple(check_count("schema", size, least=2) for size in sizes)
