"""The columns of a table, in order."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from privrl.data.schema.columns import Bins, Categories, Column, encode_column
from privrl.data.schema.others import as_frame
from privrl.data.schema.plain import (
    PlainFile,
    check_name,
    check_names,
    check_once,
    column_of,
    example_of,
    is_unfilled,
    plain,
)
from privrl.data.schema.released import BinsRelease
from privrl.data.schema.templates import template
from privrl.files.plain import did_you_mean, listed
from privrl.files.shown import shown
from privrl.numerics.checks import plain_array
from privrl.numerics.typing import IntArray


def _unfilled(columns: Mapping[str, Any]) -> list[str]:
    """Return the message about columns that are still empty, if any."""
    said = []
    for key in ("categories", "edges"):
        names = [
            name for name, each in columns.items() if is_unfilled(each) and each.get(key) == []
        ]
        if names:
            said.append(
                f"the {key} of {listed(names)} are still to be filled in; delete what is not to "
                "be used, such as numbers of persons, and write what each other column may hold, "
                "from public knowledge and not from the data, such as\n\n"
                f"{example_of(names[0], key)}\n"
            )
    return said


def releases_of(domain: object) -> tuple[BinsRelease, ...]:
    """Return the releases that chose bins of a schema or a column, each once."""
    columns = domain.columns.values() if isinstance(domain, Schema) else (domain,)
    bins = (column for column in columns if isinstance(column, Bins))
    return tuple(dict.fromkeys(each.released for each in bins if each.released is not None))


@dataclass(frozen=True, eq=False)
class Schema(PlainFile):
    """The public columns of a table, in order.

    Parameters
    ----------
    columns : mapping from str to Categories or Bins
        What each column may hold.

    Raises
    ------
    ValueError
        If the columns are none, or one is of another type.
    """

    columns: Mapping[str, Column]

    def __post_init__(self) -> None:
        if not isinstance(self.columns, Mapping) or not self.columns:
            raise ValueError(
                "columns must map at least one name to Categories or Bins, got "
                f"{shown(self.columns)}."
            )
        for name, column in self.columns.items():
            check_name(name)
            if not isinstance(column, Categories | Bins):
                raise ValueError(
                    f"column {shown(name)} must be Categories or Bins, got {shown(column)}."
                )
        object.__setattr__(self, "columns", MappingProxyType(dict(self.columns)))

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names."""
        return tuple(self.columns)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of cells of each column."""
        return tuple(column.size for column in self.columns.values())

    def subset(self, names: Iterable[str]) -> "Schema":
        """Return the schema of some columns, in the order given.

        Raises
        ------
        ValueError
            If a name is unknown or given twice.
        """
        names = check_names(names)
        unknown = [name for name in names if name not in self.columns]
        if unknown:
            raise ValueError(
                f"names must be columns of the schema, which are {listed(self.names)}, got "
                f"{listed(unknown)}{did_you_mean(unknown[0], self.names)}"
            )
        return Schema({name: self.columns[name] for name in names})

    def encode(self, frame: "pd.DataFrame | NDArray[Any]") -> IntArray:
        """Return the cell numbers of a table.

        Parameters
        ----------
        frame : pandas.DataFrame, polars.DataFrame, pyarrow.Table or array, shape (n, K)
            A table with at least the schema's columns, in any order; others are ignored. Or an
            array with exactly the schema's columns, in its order.

        Returns
        -------
        array of int, shape (n, K)
            Cell numbers; those of column k are in 0 .. sizes[k] − 1.

        Raises
        ------
        ValueError
            If a column is absent or there twice, or values do not fit. The message names all such
            columns and does not show a value.
        """
        frame = as_frame(frame)
        self._check_columns(frame)
        codes, wrong = np.empty((len(frame), len(self.columns)), np.int64), []
        for k, (name, column) in enumerate(self.columns.items()):
            values = frame[name] if isinstance(frame, pd.DataFrame) else frame[:, k]
            try:
                codes[:, k] = encode_column(column, values, name)
            except ValueError as error:
                wrong.append(str(error))
        if wrong:  # all at once, or people would mend one after the other
            raise ValueError("\n".join(wrong))
        return codes

    def decode(self, codes: ArrayLike) -> pd.DataFrame:
        """Return rows that have the given cell numbers; `encode` gives the same numbers back.

        Categories become their values, bins the number in their middle, so that the rows have
        the types of real ones. The cells of other and missing values become missing values.

        Parameters
        ----------
        codes : array_like of int, shape (n, K)
            Cell numbers; those of column k are in 0 .. sizes[k] − 1.

        Raises
        ------
        ValueError
            If ``codes`` are something else.
        """
        cells = plain_array("codes", codes)
        if cells.dtype.kind not in "iu" or cells.ndim != 2 or cells.shape[1] != len(self.columns):
            raise ValueError(
                f"codes must be whole numbers of shape (n, {len(self.columns)}), got shape "
                f"{cells.shape} of type {cells.dtype}."
            )
        outside = ((cells < 0) | (cells >= np.array(self.sizes))).any(axis=0)
        if outside.any():
            name = self.names[int(outside.argmax())]
            raise ValueError(
                f"codes of column {shown(name)} must be in 0 .. {self.columns[name].size - 1}."
            )
        return pd.DataFrame(
            {
                name: column.decode(cells[:, k].astype(np.int64))
                for k, (name, column) in enumerate(self.columns.items())
            }
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the schema as plain data, of the form that `from_dict` reads."""
        return {"columns": {name: plain(column) for name, column in self.columns.items()}}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the schema that plain data describe.

        Parameters
        ----------
        data : mapping
            ``{"columns": {name: column, ...}}`` where a column is ``{"categories": [...]}`` with
            perhaps ``"other"``, or ``{"edges": [...]}`` with perhaps ``"missing"``, ``"whole"`` and
            ``"released"``.

        Raises
        ------
        ValueError
            If a key is unknown, a value is of a wrong type, or a column's categories are still to
            be filled in.
        """
        if not isinstance(data, Mapping) or set(data) != {"columns"}:
            keys = listed(data) if isinstance(data, Mapping) else shown(data)
            raise ValueError(f"a schema must have one entry, 'columns', got {keys}.")
        columns = data["columns"]
        if not isinstance(columns, Mapping):
            raise ValueError(f"columns must map names to columns, got {shown(columns)}.")
        made, wrong = {}, _unfilled(columns)
        for name, column in columns.items():
            if not is_unfilled(column):
                try:
                    made[name] = column_of(name, column)
                except ValueError as error:
                    wrong.append(str(error))
        if wrong:
            raise ValueError("\n".join(wrong))
        return cls(made)

    template = staticmethod(template)

    def __eq__(self, other: object) -> bool:
        """Equal columns in equal order; ``True`` and ``1`` are different categories."""
        if not isinstance(other, Schema):
            return NotImplemented
        return repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        return f"Schema({dict(self.columns)!r})"

    def __reduce__(self) -> tuple[type[Self], tuple[dict[str, Column]]]:
        # A read-only view of a dictionary cannot be pickled or copied.
        return type(self), (dict(self.columns),)

    def _check_columns(self, frame: "pd.DataFrame | NDArray[Any]") -> None:
        """Check that each of the schema's columns is there once."""
        if isinstance(frame, np.ndarray) and not isinstance(frame, np.ma.MaskedArray):
            if frame.ndim != 2 or frame.shape[1] != len(self.columns):
                got = f"{frame.shape[1]} columns" if frame.ndim == 2 else f"{frame.ndim} axes"
                raise ValueError(  # how many records there are may be private
                    f"frame must have the {len(self.columns)} columns {listed(self.names)}, got "
                    f"an array of {got}."
                )
            return
        if not isinstance(frame, pd.DataFrame):
            raise ValueError(
                "frame must be a data frame (of pandas, polars or Arrow) or a plain array, got "
                f"{type(frame).__name__}."
            )
        check_once("frame", frame.columns, self.names)
