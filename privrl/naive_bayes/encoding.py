"""Records and their classes as cell numbers of the public domain, and their counts."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.extensions import ExtensionArray
from sklearn.utils.multiclass import check_classification_targets  # type: ignore[import-untyped]
from sklearn.utils.validation import column_or_1d  # type: ignore[import-untyped]

from privrl._checks import check_count
from privrl.schema import Categories, Schema
from privrl.schema.entries import as_series
from privrl.special import FloatArray

Codes = NDArray[np.integer[Any]]


def count_tables(
    columns: Codes, numbers: Codes, sizes: Sequence[int], n_classes: int
) -> list[FloatArray]:
    """Return the counts of the classes, shape (1, J), and of each feature's values, (J, V)."""
    counts = [np.bincount(numbers, minlength=n_classes)[None]]
    for column, size in zip(columns, sizes, strict=True):
        cells = np.bincount(column * n_classes + numbers, minlength=size * n_classes)
        counts.append(cells.reshape(size, n_classes).T)
    return [table.astype(np.float64) for table in counts]


def class_labels(
    schema: object, classes: str | Sequence[str | int | bool] | Categories
) -> Categories:
    """Return the public classes."""
    if isinstance(classes, str):
        if not isinstance(schema, Schema) or classes not in schema.columns:
            raise ValueError(
                f"classes must be the labels, or the name of a column of a Schema, got {classes!r}."
            )
        column = schema.columns[classes]
        if not isinstance(column, Categories):
            raise ValueError(f"classes must name a column of Categories, got {classes!r}: Bins.")
        classes = column
    if not isinstance(classes, Categories):
        values = [c.item() if isinstance(c, np.generic) else c for c in classes]
        classes = Categories(tuple(values))
    if classes.other:
        raise ValueError("classes must all be known: Categories without other=True.")
    return classes


def class_array(labels: Categories) -> NDArray[Any]:
    """Return the classes as an array, shape (J,); of objects where their types differ."""
    alike = len(set(map(type, labels.values))) == 1
    return np.array(labels.values, None if alike else object)


def encode_classes(labels: Categories, y: Any, n_records: int) -> Codes:
    """Return the class of every record by its number; messages show none of them."""
    if y is None:
        raise ValueError(
            "y must be the records' classes; fit requires y to be passed, but the target y is None."
        )
    # scikit-learn would turn pandas' categories that are truth values into numbers.
    is_pandas = isinstance(y, pd.Series | ExtensionArray)
    column = (pd.Series(y) if is_pandas else as_series(_one_axis(y))).rename("y")
    if isinstance(column.dtype, np.dtype) and column.dtype.kind == "f":
        if not np.isfinite(column).all():
            raise ValueError("y must be classes everywhere, and holds NaN or infinity.")
        with np.errstate(invalid="ignore"):  # a warning would tell of a number beyond all integers
            check_classification_targets(column.to_numpy())
    if len(column) != n_records:
        raise ValueError(
            f"X and y must have equally many records, got {n_records} and {len(column)}."
        )
    return labels.encode(column)


def _one_axis(y: Any) -> NDArray[Any]:
    """Return classes as an array, shape (n,)."""
    try:
        column: NDArray[Any] = column_or_1d(y, warn=True)
    except (TypeError, ValueError):  # whose message may show complex numbers
        raise ValueError(
            "y must be classes, shape (n,), and no complex numbers: y should be a 1d array."
        ) from None
    return column


def as_table(X: Any) -> Any:
    """Return a data frame as it is and everything else as an array of two dimensions."""
    if hasattr(X, "toarray"):
        raise ValueError("X must be dense, got a sparse matrix; X.toarray() makes it so.")
    table = X if isinstance(X, pd.DataFrame) else np.asarray(X)
    if isinstance(table, np.ndarray) and table.dtype.kind == "c":
        raise ValueError("X must hold real numbers. Complex data not supported.")
    if table.ndim != 2:
        raise ValueError(
            f"X must have two axes, records and features, got {table.ndim}. Reshape your data."
        )
    if min(table.shape) < 1:
        what = "feature(s)" if table.shape[0] else "sample(s)"
        raise ValueError(f"X has 0 {what} (shape={table.shape}) while a minimum of 1 is required.")
    return table


def check_sizes(sizes: Any) -> tuple[int, ...]:
    """Return the features' numbers of values if they are such."""
    if isinstance(sizes, str) or not isinstance(sizes, Sequence | np.ndarray):
        raise ValueError(
            f"schema must be a Schema, Categories, Bins or numbers of values, got {sizes!r}; what "
            "the features may hold is public and has to be stated."
        )
    return tuple(check_count("schema", size, least=2) for size in sizes)


def check_codes(codes: NDArray[Any], sizes: tuple[int, ...]) -> Codes:
    """Return whole numbers that lie within the sizes; messages show none of them."""
    if codes.shape[1] != len(sizes):
        raise ValueError(f"X must have {len(sizes)} features, as schema has, got {codes.shape[1]}.")
    if codes.dtype.kind not in "iu":
        raise ValueError(
            f"X must hold whole numbers where schema gives numbers of values, got "
            f"{codes.dtype.type.__name__}."
        )
    outside = (codes.min(axis=0) < 0) | (codes.max(axis=0) >= np.array(sizes))
    if outside.any():
        k = int(outside.argmax())
        raise ValueError(f"X must hold 0 to {sizes[k] - 1} in column {k}, as schema says.")
    return codes
