"""The rows of a transition table in one sorted array, so that one search moves everybody."""

from functools import cached_property

import numpy as np

from privrl.numerics.typing import FloatArray, IntArray

_AT_ONCE = 2**20  # cells of the table that are worked on at a time


class TransitionRows:
    """Find out where states and actions lead, any number of them by one binary search.

    The nonzero probabilities of row ``r = s * A + a`` become the increasing numbers
    ``r + cumulative sum`` in ``(r, r + 1]``, so that all rows form one sorted array, and a walker
    at row ``r`` with a uniform draw ``u`` looks up ``r + u``. The start distribution is one more
    row, the last.

    Parameters
    ----------
    transition, start : array
        As for `privrl.envs.rollouts.Simulator`.

    Attributes
    ----------
    next_state : array of int, shape (n,)
        Where each entry of the array leads: first those of the transitions that can happen, in
        the table's order, then those of the start.
    start_row : int
        The row of the start.
    ends : array of float, shape (n,)
        The sorted array: where each entry's part of its row ends.
    """

    def __init__(self, transition: FloatArray, start: FloatArray) -> None:
        at_once = max(1, _AT_ONCE // len(start))
        rows = transition.reshape(-1, len(start))
        blocks = [rows[first : first + at_once] for first in range(0, len(rows), at_once)]
        positions, following, first = [], [], 0
        for block in [*blocks, start[None]]:
            row, next_state = np.nonzero(block)
            cumulative = np.cumsum(block, axis=1)
            cumulative /= cumulative[:, -1:]  # the last entry of a row is now exactly 1
            positions.append(first + row + cumulative[row, next_state])
            following.append(next_state)
            first += len(block)
        self.ends, self.next_state = np.concatenate(positions), np.concatenate(following)
        self.start_row = len(rows)
        # The largest u for which row + u stays below row + 1 after rounding, in every row.
        self._largest_draw = np.nextafter(first, 0) - self.start_row

    @cached_property
    def in_lists(self) -> tuple[list[float], list[int]]:
        """The sorted array, and where its entries lead, for those who look up a few."""
        return self.ends.tolist(), self.next_state.tolist()

    @cached_property
    def first(self) -> IntArray:
        """The first entry of each row, then the number of entries."""
        return self.ends.searchsorted(np.arange(self.start_row + 2), side="right")

    def keep_below_one(self, draws: FloatArray) -> None:
        """Lower uniform draws, in place, that would be 1 once they are added to a row."""
        np.minimum(draws, self._largest_draw, out=draws)

    def entries(self, position: FloatArray) -> IntArray:
        """Return the entries that rows with draws added to them look up."""
        return self.ends.searchsorted(position, side="right")
