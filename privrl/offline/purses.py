"""What persons have left of their budgets, and what they add: sums that no partition changes.

Amounts are rounded towards zero to a grid of 2^-24 of a purse, so that sums of them are exact in
any order: of a log in one place, and of one in many parts, of which each has some of the persons
with all of their rows. What persons add is a function of a part of the log and of what they have
left: on a cluster it is done where the part is, and only sums come back.
"""

from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from typing import Final, Literal, Protocol

import numpy as np

from privrl.data.logs import Log
from privrl.data.logs.partitions import PartitionedLog
from privrl.numerics.checks import check_is
from privrl.numerics.typing import FloatArray
from privrl.numerics.typing import IntArray

PURSE: Final = 2.0**24  # grains of a purse
FARTHEST: Final = 2.0**60  # grains beyond which nothing is counted
_STEPS: Final = 2**20  # of persons who are looked at together
_AT_ONCE: Final = 8  # tables that are summed in one place

Size = Literal["sums", "norms", "any"]
"""How what a person adds is measured: by absolute amounts, by their squares, or not at all."""


@dataclass(frozen=True, eq=False)
class Added:
    """What the persons of a part of a log add to a table.

    Attributes
    ----------
    person, cell, amount : array, shape (n,)
        Who adds how much to which cell.
    unit : float or array, shape (n_persons,)
        What an amount of 1 costs: part of a purse for sums, its root for norms.
    most : float or array, shape (n_persons,)
        The largest part of their purse that persons pay here. Who would pay more, or has less
        left, adds all of their amounts scaled down.
    """

    person: IntArray
    cell: IntArray
    amount: FloatArray
    unit: float | FloatArray = 1.0
    most: float | FloatArray = 1.0


Adds = Callable[[Log, FloatArray], Added]
"""From a part of a log, and what each of its persons has left of 1, to what they add."""


class Purses(Protocol):
    """The purses of all persons of a log, wherever they are."""

    def pay(self, adds: Adds, n_cells: int) -> FloatArray:
        """Return the sums of what persons add, in grains, and take from them what it costs."""


def purses_of(log: Log | PartitionedLog, size: Size) -> Purses:
    """Return full purses for all persons of a log."""
    check_is("log", log, Log, PartitionedLog)
    return _Partitioned(log, size) if isinstance(log, PartitionedLog) else _Here(log, size)


class _Here:
    """Purses of persons whose log is in memory."""

    def __init__(self, log: Log, size: Size) -> None:
        # Some persons at a time, for the memory's sake; without a grid it would change sums.
        self._parts = [log] if size == "any" else list(log.blocks(_STEPS))
        self._size, self._left = size, [full(part, size) for part in self._parts]

    def pay(self, adds: Adds, n_cells: int) -> FloatArray:
        total, still = np.zeros(n_cells), []
        for part, left in zip(self._parts, self._left, strict=True):
            sums, rest = pay(part, left, adds, n_cells, self._size)
            total += sums
            still.append(rest)
        self._left = still
        return total


class _Partitioned:
    """Purses of persons who are on a cluster.

    What a part has left is made from what it had before: where a worker dies, the cluster makes it
    again from the files, with the same result.
    """

    def __init__(self, log: PartitionedLog, size: Size) -> None:
        self._log, self._size = log, size
        self._left = [log.submit(full, part, size) for part in log.parts]

    def pay(self, adds: Adds, n_cells: int) -> FloatArray:
        submit = self._log.submit
        paid = [
            submit(pay, part, left, adds, n_cells, self._size)
            for part, left in zip(self._log.parts, self._left, strict=True)
        ]
        self._left = [submit(itemgetter(1), each) for each in paid]
        sums = [submit(itemgetter(0), each) for each in paid]
        while len(sums) > 1:
            sums = [
                submit(_together, *sums[k : k + _AT_ONCE]) for k in range(0, len(sums), _AT_ONCE)
            ]
        return self._log.result(sums[0])


def _together(*tables: FloatArray) -> FloatArray:
    total: FloatArray = np.sum(tables, axis=0)
    return total


def full(log: Log, size: Size) -> FloatArray:
    """Return a full purse for each person of a part, in grains or in squares of grains."""
    return np.full(log.n_persons, PURSE**2 if size == "norms" else PURSE)


def pay(
    log: Log, left: FloatArray, adds: Adds, n_cells: int, size: Size
) -> tuple[FloatArray, FloatArray]:
    """Return sums of what the persons of a part add, in grains, and what they have left then.

    What a person adds follows from their own amounts, and nothing that these may be raises or
    warns: what is not finite counts for nothing, or for very much.

    Raises
    ------
    ValueError
        If there is no such person or cell.
    """
    whole = PURSE**2 if size == "norms" else PURSE
    with np.errstate(all="ignore"):
        added = adds(log, left / whole)
        person, cell = np.asarray(added.person, np.intp), np.asarray(added.cell, np.intp)
        _check_places(person, cell, log.n_persons, n_cells)
        unit = added.unit if np.ndim(added.unit) == 0 else np.asarray(added.unit)[person]
        grains = added.amount * unit * PURSE
    if size == "any":
        return _summed(cell, grains, n_cells), left
    grains = np.clip(np.nan_to_num(grains), -FARTHEST, FARTHEST)
    if size == "norms":  # of one cell are one amount, else rounding could undo what cancels
        place, where = np.unique(person * n_cells + cell, return_inverse=True)
        grains = _summed(where, grains, len(place))
        person, cell = place // n_cells, place % n_cells
    wanted = _sizes(person, grains, left, size)
    allowed = np.minimum(left, np.asarray(added.most) * whole)
    with np.errstate(all="ignore"):
        part = np.where(wanted > allowed, allowed / wanted, 1.0)
    if size == "norms":
        part = np.sqrt(part)
    # A little less, so that rounding does not make it more than is left,
    part[part < 1] *= 1 - 2.0**-40
    grains = np.trunc(grains * part[person])
    # and nothing if it did all the same: nobody pays what they do not have.
    grains[(_sizes(person, grains, left, size) > left)[person]] = 0.0
    return _summed(cell, grains, n_cells), left - _sizes(person, grains, left, size)


def _sizes(person: IntArray, grains: FloatArray, left: FloatArray, size: Size) -> FloatArray:
    """Return what amounts cost each person; under norms, of different cells."""
    return _summed(person, grains**2 if size == "norms" else np.abs(grains), len(left))


def _check_places(person: IntArray, cell: IntArray, n_persons: int, n_cells: int) -> None:
    for name, places, size in (("person", person, n_persons), ("cell", cell, n_cells)):
        if len(places) and not (places.min() >= 0 and places.max() < size):
            raise ValueError(f"each {name} must be a whole number from 0, less than how many are.")


def _summed(places: IntArray, amounts: FloatArray, size: int) -> FloatArray:
    sums: FloatArray = np.bincount(places, amounts, size).astype(np.float64, copy=False)
    return sums
