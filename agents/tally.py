"""A table of sums that is added to a little at a time, without a copy of it each time."""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from privrl.numerics.typing import FloatArray, IntArray

Entries = tuple[IntArray, FloatArray]  # cells of a flat table, and what is added to each


@dataclass(frozen=True, eq=False)
class Tally:
    """A table, and beside it entries that are still to be added up: fewer than half its cells.

    It never changes: `plus` returns another one. So whoever holds it has all or nothing of what
    was added, whenever they are interrupted. An addition takes time in proportion to what is
    added (times the logarithm of what waits), not to the table.

    Parameters
    ----------
    shape : tuple of int
        Of the table.
    table : array, shape (...), optional
        Sums so far, read-only; by default zeros.
    waiting : tuple of (cells, amounts)
        Entries by the order in which they came, each run of them more than twice as long as the
        next.
    """

    shape: tuple[int, ...]
    table: FloatArray | None = None
    waiting: tuple[Entries, ...] = ()

    def plus(self, cells: IntArray, amounts: FloatArray) -> Self:
        """Return the tally with amounts added to flat cells, each as often as it is named."""
        waiting = list(self.waiting)
        while waiting and len(waiting[-1][0]) <= 2 * len(cells):
            before = waiting.pop()
            cells = np.concatenate([before[0], cells])
            amounts = np.concatenate([before[1], amounts])
        waiting.append((cells, amounts))
        more = type(self)(self.shape, self.table, tuple(waiting))
        if 2 * sum(len(each) for each, _ in waiting) < math.prod(self.shape):
            return more
        return type(self)(self.shape, more.total)

    def plus_table(self, amounts: FloatArray) -> Self:
        """Return the tally with a whole table added, in the time that takes."""
        return type(self)(self.shape, _frozen(self.total + amounts))

    @property
    def total(self) -> FloatArray:
        """The table with all that was added, read-only."""
        if self.table is not None and not self.waiting:
            return self.table
        table = np.zeros(self.shape) if self.table is None else self.table.copy()
        for cells, amounts in self.waiting:
            np.add.at(table.reshape(-1), cells, amounts)
        return _frozen(table)


def _frozen(table: FloatArray) -> FloatArray:
    table.flags.writeable = False
    return table
