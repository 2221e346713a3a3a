"""What ways of simulating episodes have in common: tables in, counts out."""

from abc import ABC, abstractmethod

import numpy as np

from privrl.envs.support import Support
from privrl.numerics.typing import BoolArray, FloatArray, IntArray


class Rollouts(ABC):
    """Count the transitions of independent episodes; how, is up to the subclass.

    All ways have exactly the same law.

    Parameters
    ----------
    transition : array, shape (S, A, S)
        Probabilities of the next state.
    start : array, shape (S,)
        Probabilities of the first state.
    support : Support, optional
        Makes counts compact, W cells to a row; by default there are S.

    Raises
    ------
    ValueError
        If a transition that can happen lies outside the support.
    """

    def __init__(
        self, transition: FloatArray, start: FloatArray, support: Support | None = None
    ) -> None:
        n_states, n_actions = len(start), transition.shape[1]
        width = n_states if support is None else support.width
        self._shape = (n_states, n_actions, width)
        self._first_row = np.arange(n_states) * n_actions  # of each state: a row is s * A + a

    @abstractmethod
    def counts(
        self,
        policy: IntArray,
        episodes: int,
        rng: np.random.Generator,
        *,
        free: BoolArray | None = None,
    ) -> IntArray:
        """Return the transition counts of each run, summed over its episodes.

        Parameters
        ----------
        policy : array of int, shape (B, H, S)
            Action of each run at each step and state; -1 for any that is free, at random.
        episodes : int
            Episodes per run, >= 1.
        rng : numpy.random.Generator
            Source of randomness.
        free : array of bool, shape (B, S, A), optional
            Which actions -1 stands for, at least one wherever it is used; by default all.

        Returns
        -------
        array of int, shape (B, S, A, S), or (B, S, A, W) under a support
            Each run's counts sum to ``episodes * H``.
        """

    def _cells(self, row: IntArray, next_state: IntArray, support: Support | None) -> IntArray:
        """Return where transitions are in a flat table of counts."""
        _, n_actions, width = self._shape
        if support is not None:
            next_state = support.columns(row // n_actions, row % n_actions, next_state)
        return row * width + next_state
