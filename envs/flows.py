"""Simulate any number of episodes at once, as flows between states."""

import numpy as np

from privrl.envs.rollouts import Rollouts
from privrl.envs.support import Support
from privrl.numerics.typing import BoolArray, FloatArray, IntArray


class Flows(Rollouts):
    """Count transitions without following any episode; see `Rollouts`.

    While the policy is fixed, the ``n`` episodes that are in state ``s`` at
    step ``h`` move on together, by a draw from Multinomial(n, P[s, policy]).
    The counts have exactly the law of episodes simulated one by one, at a cost
    that does not depend on their number.

    Notes
    -----
    Only possible next states are kept. Shorter rows are padded *in front* with
    their last next state and probability 0: NumPy gives the last category
    whatever rounding has left over, so this one has to be possible.
    """

    def __init__(
        self, transition: FloatArray, start: FloatArray, support: Support | None = None
    ) -> None:
        super().__init__(transition, start, support)
        rows = transition.reshape(-1, len(start))
        longest = np.count_nonzero(rows, axis=1).max()
        following = np.argsort(rows > 0, axis=1, kind="stable")[:, len(start) - longest :]
        self._probability = _normalised(np.take_along_axis(rows, following, axis=1))
        self._next_state = np.where(self._probability > 0, following, following[:, -1:])
        self._cell = self._cells(np.arange(len(rows))[:, None], self._next_state, support)
        self._first_states = np.flatnonzero(start)
        self._start = _normalised(start[self._first_states])

    def counts(
        self,
        policy: IntArray,
        episodes: int,
        rng: np.random.Generator,
        *,
        free: BoolArray | None = None,
    ) -> IntArray:
        """See `Rollouts.counts`."""
        runs, _, n_states = policy.shape
        counts = np.zeros((runs, *self._shape), dtype=np.int64)
        run = np.arange(runs)[:, None, None]
        here = np.zeros((runs, n_states), dtype=np.int64)
        here[:, self._first_states] = rng.multinomial(episodes, self._start, size=runs)
        for chosen in np.moveaxis(policy, 1, 0):
            torn = np.nonzero((chosen < 0) & (here > 0))
            split = self._split(torn, here, free, rng)
            here = np.where(chosen < 0, 0, here)
            row = np.maximum(chosen, 0) + self._first_row
            moves = rng.multinomial(here, self._probability[row])
            _add_at(counts, run * counts[0].size + self._cell[row], moves)
            here = np.zeros_like(here)
            _add_at(here, run * n_states + self._next_state[row], moves)
            if split is not None:
                row = self._first_row[torn[1]][:, None] + np.arange(self._shape[1])
                moves = rng.multinomial(split, self._probability[row])
                where = torn[0][:, None, None]
                _add_at(counts, where * counts[0].size + self._cell[row], moves)
                _add_at(here, where * n_states + self._next_state[row], moves)
        return counts

    def _split(
        self,
        torn: tuple[IntArray, ...],
        here: IntArray,
        free: BoolArray | None,
        rng: np.random.Generator,
    ) -> IntArray | None:
        """Return how many of those who take any free action take which, shape (places, A)."""
        if not torn[0].size:
            return None
        n_actions = self._shape[1]
        if free is None:
            return rng.multinomial(here[torn], np.full(n_actions, 1 / n_actions))
        # The free ones last: the last category gets what rounding has left over.
        order = np.argsort(free[torn], axis=1, kind="stable")
        chance = np.take_along_axis(free[torn], order, axis=1).astype(np.float64)
        moves = rng.multinomial(here[torn], chance / chance.sum(axis=1, keepdims=True))
        split = np.empty_like(moves)
        np.put_along_axis(split, order, moves, axis=1)
        return split


def _add_at(total: IntArray, cells: IntArray, amounts: IntArray) -> None:
    """Add amounts to flat cells of a contiguous array, each as often as it is named."""
    np.add.at(total.reshape(-1), cells.reshape(-1), amounts.reshape(-1))


def _normalised(rows: FloatArray) -> FloatArray:
    return rows / rows.sum(axis=-1, keepdims=True)
