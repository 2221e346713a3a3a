"""Which next states are possible: a public fact that makes tables narrow."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privrl.numerics.checks import check_count, plain_array
from privrl.numerics.typing import BoolArray, IntArray

Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True, eq=False)
class Support:
    """The next states that are possible after each state and action.

    A compact table, shape (..., S, A, W), has a cell for each of these only: cell ``w`` of a row
    is about ``next_states[s, a, w]``, and the cells of a row that has fewer than W are 0.

    Parameters
    ----------
    next_states : array of int, shape (S, A, W)
        Possible next states of each row, in ascending order and at least one, then -1.
    n_next : int
        Number N of next states: S, or S + 1 where the last, number S, stands for "the
        episode is over".

    Raises
    ------
    ValueError
        If ``next_states`` are not integers in ascending order within ``n_next``, one at least in
        each row.

    Notes
    -----
    The support must be known before anything is observed: a support derived from private
    transitions would reveal them. The array is kept as a read-only copy.
    """

    next_states: IntArray
    n_next: int

    def __post_init__(self) -> None:
        next_states = plain_array("next_states", self.next_states)
        if next_states.dtype.kind not in "iu" or next_states.ndim != 3 or not next_states.size:
            raise ValueError(
                "next_states must be integers of shape (S, A, W) with S, A, W >= 1, got "
                f"{next_states.dtype} of shape {next_states.shape}; Support.from_mask makes them."
            )
        n_next = _check_n_next("n_next", check_count("n_next", self.n_next), len(next_states))
        next_states = _frozen(next_states.astype(np.intp))
        before, after = next_states[..., :-1], next_states[..., 1:]
        in_order = ((before >= 0) & (before < after)) | (after == -1)
        inside = (next_states >= -1) & (next_states < n_next)
        if not (inside.all() and in_order.all() and (next_states[..., 0] >= 0).all()):
            raise ValueError(
                f"next_states must hold states in 0..{n_next - 1}, at least one in each row, in "
                "ascending order and then -1, got rows that do not; Support.from_mask makes them."
            )
        object.__setattr__(self, "next_states", next_states)
        object.__setattr__(self, "n_next", n_next)

    def __reduce__(self) -> tuple[type[Self], tuple[Any, ...]]:  # pickles forget "read-only"
        return type(self), (self.next_states, self.n_next)

    @classmethod
    def from_mask(cls, mask: ArrayLike) -> Self:
        """Make a support from a table of possible transitions.

        Parameters
        ----------
        mask : array of bool, shape (S, A, N)
            Whether a next state is possible; at least one is in each row. N is S, or S + 1
            where the last column stands for "the episode is over".

        Returns
        -------
        Support
            As wide as its longest row.

        Raises
        ------
        ValueError
            If the shape is another, the mask is not boolean or a row is empty.
        """
        mask = plain_array("mask", mask)
        if mask.dtype != np.bool_ or mask.ndim != 3 or not mask.size:
            raise ValueError(
                "mask must be booleans of shape (S, A, N) with S, A >= 1, got "
                f"{mask.dtype} of shape {mask.shape}; compare probabilities with 0."
            )
        _check_n_next("mask's last axis", mask.shape[2], len(mask))
        lengths = mask.sum(axis=-1)
        if not lengths.all():
            state, action = (int(i) for i in np.argwhere(lengths == 0)[0])
            raise ValueError(
                "mask must have a True in each row, got none for state "
                f"{state} and action {action}; where nothing moves, the state follows itself."
            )
        next_states = np.full((*lengths.shape, lengths.max()), -1, dtype=np.intp)
        next_states[np.arange(lengths.max()) < lengths[..., None]] = np.nonzero(mask)[2]
        return cls(next_states, mask.shape[2])

    @property
    def width(self) -> int:
        """Cells W of a compact row."""
        return self.next_states.shape[2]

    @cached_property
    def valid(self) -> BoolArray:
        """Whether a cell is about a next state, shape (S, A, W); the others are padding."""
        return _frozen(self.next_states >= 0)

    def expand(self, compact: NDArray[Scalar]) -> NDArray[Scalar]:
        """Return dense tables that are 0 outside the support.

        Parameters
        ----------
        compact : array, shape (..., S, A, W)
            Zero in the cells that are padding.

        Returns
        -------
        array, shape (..., S, A, N)
            Of the same type.

        Raises
        ------
        ValueError
            If the shape is another, or padding is not 0.
        """
        compact = plain_array("compact", compact)
        self.check_compact("compact", compact)
        batch = compact.shape[:-3]
        size = self.next_states[..., 0].size * self.n_next
        dense = np.zeros((*batch, size), dtype=compact.dtype)
        dense[..., self._dense_cells[self.valid]] = compact[..., self.valid]
        return dense.reshape(*batch, *self.next_states.shape[:2], self.n_next)

    def columns(self, state: IntArray, action: IntArray, next_state: IntArray) -> IntArray:
        """Return the cells, 0 .. W - 1, that transitions have in their rows.

        Parameters
        ----------
        state, action, next_state : arrays of int, of one shape
            Transitions; states and actions exist.

        Returns
        -------
        array of int, of that shape
            So that ``next_states[state, action, columns]`` is ``next_state``.

        Raises
        ------
        ValueError
            If a transition lies outside the support.
        """
        n_actions, width = self.next_states.shape[1:]
        wanted = (state * n_actions + action) * self.n_next + next_state
        cells, known = self._known_cells
        found = np.minimum(known.searchsorted(wanted), len(known) - 1)
        if not np.array_equal(known[found], wanted):
            raise ValueError(
                "support must hold every transition that can happen, got one that it does not "
                "hold; make it from all that is publicly possible."
            )
        return cells[found] % width

    def check_compact(self, name: str, compact: NDArray[Any]) -> None:
        """Check that an array holds compact tables of this support, with 0 for padding.

        Raises
        ------
        ValueError
            If its shape is another than (..., S, A, W), or padding is not 0.
        """
        self._check_shape(name, compact, self.width)
        if compact[..., ~self.valid].any():
            raise ValueError(
                f"{name} must be 0 in cells that are padding, got something there; multiply by "
                "Support.valid."
            )

    @cached_property
    def _dense_cells(self) -> IntArray:
        """Where each compact cell is in a flat dense table, shape (S, A, W); padding: anywhere."""
        n_states, n_actions, _ = self.next_states.shape
        first = np.arange(n_states * n_actions).reshape(n_states, n_actions, 1) * self.n_next
        return first + np.maximum(self.next_states, 0)

    @cached_property
    def _known_cells(self) -> tuple[IntArray, IntArray]:
        """Compact cells other than padding, and their places in a flat dense table; ascending."""
        cells = np.flatnonzero(self.valid)
        return cells, self._dense_cells.reshape(-1)[cells]

    def _check_shape(self, name: str, table: NDArray[Any], width: int) -> None:
        wanted = (*self.next_states.shape[:2], width)
        if table.shape[-3:] != wanted:
            raise ValueError(
                f"{name} must have shape (..., {', '.join(map(str, wanted))}) to fit the support, "
                f"got {table.shape}; its axes are state, action, next state."
            )


def _check_n_next(name: str, n_next: int, n_states: int) -> int:
    if n_next not in (n_states, n_states + 1):
        raise ValueError(
            f"{name} must be {n_states} or {n_states + 1}, got {n_next}; there is a next state "
            'for each state and at most one more, "the episode is over".'
        )
    return n_next


def _frozen(array: NDArray[Scalar]) -> NDArray[Scalar]:
    array.setflags(write=False)
    return array
