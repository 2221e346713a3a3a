"""Rows of neighbouring bins share what they know.

Where states are bins of real coordinates, it is public which bins are neighbours. An action moves
neighbours by about the same number of bins. So the probable transitions of a row, moved by a bin,
are evidence about the rows of the bins beside it. All of it is computed from released tables.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from privrl.numerics.typing import BoolArray, FloatArray, IntArray

_WORTH: Final = 40.0  # visits to a row that those to its neighbours are worth, at the most
_ENOUGH: Final = 5.0  # visits to neighbours from which on they say something
_FARTHER: Final = 0.5  # of that worth, from neighbours that know only what theirs do
_RARE: Final = 0.02  # fraction of these visits below which a cell is left out
_POSSIBLE: Final = 0.1  # chance from which on a cell makes its neighbours' more probable
_LIKELY: Final = 0.5


class Cells(NamedTuple):
    """Some cells of a run's table of transitions, in arrays of shape (n,).

    Attributes
    ----------
    state, action, cell : array of int
        Their places; cell S is "the episode is over".
    chance, amount : array
        How probably they are filled, and with how much.
    """

    state: IntArray
    action: IntArray
    cell: IntArray
    chance: FloatArray
    amount: FloatArray


class Neighbours:
    """The bins beside each bin.

    Parameters
    ----------
    sizes : sequence of int
        How many bins each coordinate has; the last one changes fastest.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        self._sizes = tuple(sizes)
        self._n_states = math.prod(sizes)
        self._places = np.unravel_index(np.arange(self._n_states), self._sizes)
        self._strides = [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]

    def beside(self, filled: FloatArray) -> FloatArray:
        """Return the largest chance of like cells of neighbouring rows, shape (S, A, K)."""
        largest = np.zeros_like(filled)
        state, action, cell = np.nonzero(filled > _POSSIBLE)
        chance = filled[state, action, cell]
        for which, there, to in self._moved(state, cell):
            np.maximum.at(largest, (there, action[which], to), chance[which])
        return largest

    def with_shared(self, own: Cells, n_actions: int) -> Cells:
        """Return the cells of a run, and behind them what neighbours add to each row.

        A row without any visited neighbour gets half as much from what its neighbours were given.
        """
        likely = own.chance > _LIKELY
        row = own.state * n_actions + own.action
        given = np.zeros(self._n_states * n_actions, np.bool_)
        known = row[likely], own.cell[likely], (own.chance * own.amount)[likely]
        first = self._shared(known, given, n_actions, _WORTH)
        known = _joined(known, first)
        first = _joined(first, self._shared(known, given, n_actions, _FARTHER * _WORTH))
        row, cell, count = first
        more = row // n_actions, row % n_actions, cell, np.ones(len(row)), count
        return Cells(*(np.concatenate(parts) for parts in zip(own, more, strict=True)))

    def with_shared_rewards(
        self, paid: FloatArray, chance: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return a run's counts of rewards with what neighbours add, and their chances.

        Both have shape (S, A, width).
        """
        others = self._around(np.where(chance > _LIKELY, paid, 0.0))
        total = others.sum(axis=-1, keepdims=True)
        some = (total > _ENOUGH) & (others > 0)
        others *= np.minimum(total, _WORTH) / np.maximum(total, _ENOUGH)
        return np.where(some, paid * chance + others, paid), np.where(some, 1.0, chance)

    def _moved(
        self, state: IntArray, cell: IntArray
    ) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
        """Move cells to the rows of each neighbour, and their next states as far.

        Yields
        ------
        which, state, cell : array of int
            The cells whose state has this neighbour, the neighbour, and the next state; one that
            would leave the bins stays in the last of them.
        """
        over = cell >= self._n_states
        following = np.where(over, 0, cell)
        for place, size, stride in zip(self._places, self._sizes, self._strides, strict=True):
            for side in (-1, 1):
                beside = place[state] + side
                which = np.flatnonzero((beside >= 0) & (beside < size))
                before = place[following[which]]
                step = np.where(over[which], 0, np.clip(before + side, 0, size - 1) - before)
                yield which, state[which] + side * stride, cell[which] + step * stride

    def _shared(self, known: "_Rows", given: BoolArray, n_actions: int, worth: float) -> "_Rows":
        """Return what neighbours give to rows that have been ``given`` nothing yet, and note it."""
        row, cell, count = known
        width, action = self._n_states + 1, row % n_actions
        keys, counts = [], []
        for which, there, to in self._moved(row // n_actions, cell):
            keys.append((there * n_actions + action[which]) * width + to)
            counts.append(count[which])
        key, which = np.unique(np.concatenate(keys), return_inverse=True)
        visits = np.bincount(which, np.concatenate(counts), len(key))
        row, cell = np.divmod(key, width)
        total = np.bincount(row, visits, len(given))
        some = (~given & (total > _ENOUGH))[row] & (visits > _RARE * total[row])
        given |= total > _ENOUGH
        row, cell, visits = row[some], cell[some], visits[some]
        return row, cell, visits * (np.minimum(total, worth) / np.maximum(total, _ENOUGH))[row]

    def _around(self, table: FloatArray) -> FloatArray:
        """Return the sums over neighbours of a table of shape (S, ...)."""
        grid = table.reshape(*self._sizes, *table.shape[1:])
        sums = np.zeros_like(grid)
        for axis in range(len(self._sizes)):
            ahead, mine = np.moveaxis(sums, axis, 0), np.moveaxis(grid, axis, 0)
            ahead[1:] += mine[:-1]
            ahead[:-1] += mine[1:]
        return sums.reshape(table.shape)


_Rows = tuple[IntArray, IntArray, FloatArray]  # rows, cells in them, and counts


def _joined(some: _Rows, more: _Rows) -> _Rows:
    row, cell, count = (np.concatenate(parts) for parts in zip(some, more, strict=True))
    return row, cell, count
