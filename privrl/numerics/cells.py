"""Tables of which few cells are filled."""

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from privrl.numerics.checks import check_count, plain_array
from privrl.numerics.special import FloatArray
from privrl.numerics.typing import IntArray


@dataclass(frozen=True, eq=False)
class Cells:
    """The filled cells of a table; all others are 0.

    Parameters
    ----------
    shape : tuple of int
        Shape of the table: at least one axis.
    places : array of int, shape (n,)
        Sorted, distinct numbers of cells in the flat table.
    amounts : array, shape (n,)
        What they hold.

    Raises
    ------
    ValueError
        If amounts and places differ in number, a place is repeated, not in order or not in the
        table, an array is masked, or the table has more cells than can be numbered.
    """

    shape: tuple[int, ...]
    places: IntArray
    amounts: FloatArray

    def __post_init__(self) -> None:
        shape = tuple(check_count("shape", each, least=0) for each in self.shape)
        if not shape or math.prod(shape) > np.iinfo(np.intp).max:
            raise ValueError(f"shape must be of a table with numbered cells, got {shape}.")
        object.__setattr__(self, "shape", shape)
        places = plain_array("places", self.places)
        inside = places.size == 0 or (places.min() >= 0 and places.max() < self.size)
        whole = places.dtype.kind in "iu" and places.ndim == 1
        if not whole or not inside or not (places[1:] > places[:-1]).all():
            raise ValueError(
                f"places must be rising whole numbers below {self.size}, the size of the table, "
                "and are not; use Cells.added."
            )
        object.__setattr__(self, "places", _kept(places, np.intp))
        object.__setattr__(self, "amounts", _kept(plain_array("amounts", self.amounts), np.float64))
        if self.amounts.shape != places.shape:
            raise ValueError("amounts must be as many as places, and are not; use Cells.added.")

    def __reduce__(self) -> tuple[type[Self], tuple[Any, ...]]:  # pickles forget "read-only"
        return type(self), (self.shape, self.places, self.amounts)

    @classmethod
    def of(cls, table: "FloatArray | Cells") -> "Cells":
        """Return the filled cells of a table."""
        if isinstance(table, Cells):
            return table
        flat = table.reshape(-1)
        places = np.flatnonzero(flat)
        return cls(table.shape, places, flat[places].astype(np.float64))

    @classmethod
    def added(cls, shape: tuple[int, ...], places: IntArray, amounts: FloatArray) -> Self:
        """Return the sums of amounts in places that may repeat."""
        distinct, which = np.unique(places, return_inverse=True)
        sums = np.bincount(which, amounts, len(distinct)).astype(np.float64)
        return cls(shape, distinct.astype(np.intp), sums)

    def plus(self, other: "Cells") -> "Cells":
        """Return the sum of two tables of one shape."""
        places = np.concatenate([self.places, other.places])
        return Cells.added(self.shape, places, np.concatenate([self.amounts, other.amounts]))

    @property
    def size(self) -> int:
        """Number of cells of the table, filled or not."""
        return math.prod(self.shape)

    @property
    def table(self) -> FloatArray:
        """The whole table."""
        flat = np.zeros(self.size)
        flat[self.places] = self.amounts
        return flat.reshape(self.shape)


def _kept(array: NDArray[Any], kind: type) -> NDArray[Any]:
    """Return a copy on memory that nobody can make writable."""
    copied: NDArray[Any] = np.array(array, kind)
    return np.frombuffer(copied.tobytes(), kind).reshape(copied.shape)
