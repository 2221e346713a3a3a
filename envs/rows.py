"""The rows of a transition table in one sorted array, so that one search moves everybody."""

import numpy as np

from privrl._typing import FloatArray, IntArray


class TransitionRows:
    """Find out where states and actions lead, any number of them by one binary search.

    The nonzero probabilities of row ``r = s * A + a`` become the increasing numbers
    ``r + cumulative sum`` in ``(r, r + 1]``, so that all rows form one sorted array, and who is
    at row ``r`` with a uniform draw ``u`` looks up ``r + u``. The start distribution is one more
    row, the last.

    Parameters
    ----------
    transition : array, shape (S, A, S)
        Probabilities of the next state.
    start : array, shape (S,)
        Probabilities of the first state.

    Attributes
    ----------
    next_state : array of int, shape (n,)
        Where each entry of the array leads: first those of the transitions that can happen, in
        the table's order, then those of the start.
    start_row : int
        The row of the start.
    """

    def __init__(self, transition: FloatArray, start: FloatArray) -> None:
        rows = np.vstack([transition.reshape(-1, len(start)), start])
        row, self.next_state = np.nonzero(rows)
        cumulative = np.cumsum(rows, axis=1)
        cumulative /= cumulative[:, -1:]  # the last entry of a row is now exactly 1
        self._cdf = row + cumulative[row, self.next_state]
        self.start_row = len(rows) - 1
        # The largest u for which row + u stays below row + 1 after rounding, in every row.
        self._largest_draw = np.nextafter(len(rows), 0) - self.start_row

    def keep_below_one(self, draws: FloatArray) -> None:
        """Lower uniform draws, in place, that would be 1 once they are added to a row."""
        np.minimum(draws, self._largest_draw, out=draws)

    def entries(self, position: FloatArray) -> IntArray:
        """Return the entries that rows with draws added to them look up."""
        return self._cdf.searchsorted(position, side="right")
