"""Simulate any number of episodes at once, as flows between states."""

import numpy as np

from privrl.envs.planning import FloatArray, IntArray


class Flows:
    """Count the transitions of independent episodes without following any of them.

    While the policy is fixed, the ``n`` episodes that are in state ``s`` at
    step ``h`` move on together, by a draw from Multinomial(n, P[s, policy]).
    The counts have exactly the law of episodes simulated one by one, at a cost
    that does not depend on their number.

    Parameters
    ----------
    transition : array, shape (S, A, S)
        Probabilities of the next state.
    start : array, shape (S,)
        Probabilities of the first state.

    Notes
    -----
    Only possible next states are kept, up to W of them per row. Shorter rows
    are padded *in front* with probability 0: NumPy gives the last category
    whatever rounding has left over, so this one has to be possible.
    """

    def __init__(self, transition: FloatArray, start: FloatArray) -> None:
        n_states, n_actions, _ = transition.shape
        rows = transition.reshape(-1, n_states)
        width = np.count_nonzero(rows, axis=1).max()
        self._next_state = np.argsort(rows > 0, axis=1, kind="stable")[:, n_states - width :]
        self._probability = _normalised(np.take_along_axis(rows, self._next_state, axis=1))
        self._cell = np.arange(len(rows))[:, None] * n_states + self._next_state
        self._first_states = np.flatnonzero(start)
        self._start = _normalised(start[self._first_states])
        self._shape = transition.shape
        self._first_row = np.arange(n_states) * n_actions

    def counts(self, policy: IntArray, episodes: int, rng: np.random.Generator) -> IntArray:
        """Return the transition counts of each run, summed over its episodes.

        Parameters
        ----------
        policy : array of int, shape (B, H, S)
            Action of each run at each step and state.
        episodes : int
            Episodes per run, >= 1.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        array of int, shape (B, S, A, S)
            Each run's counts sum to ``episodes * H``.
        """
        runs, _, n_states = policy.shape
        counts = np.zeros((runs, *self._shape), dtype=np.int64)
        run = np.arange(runs)[:, None, None]
        here = np.zeros((runs, n_states), dtype=np.int64)
        here[:, self._first_states] = rng.multinomial(episodes, self._start, size=runs)
        for row in np.moveaxis(policy, 1, 0) + self._first_row:
            moves = rng.multinomial(here, self._probability[row])
            _add_at(counts, run * counts[0].size + self._cell[row], moves)
            here = np.zeros_like(here)
            _add_at(here, run * n_states + self._next_state[row], moves)
        return counts


def _add_at(total: IntArray, cells: IntArray, amounts: IntArray) -> None:
    """Add amounts to flat cells of a contiguous array, each as often as it is named."""
    np.add.at(total.reshape(-1), cells.reshape(-1), amounts.reshape(-1))


def _normalised(rows: FloatArray) -> FloatArray:
    return rows / rows.sum(axis=-1, keepdims=True)
