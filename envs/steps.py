"""Simulate episodes step by step and keep the steps: for tables far larger than the data."""

from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from privrl.envs.rows import TransitionRows
from privrl.envs.tabular import TabularMDP
from privrl.numerics.typing import BoolArray, IntArray


class Steps(NamedTuple):
    """Episodes that were played side by side; arrays of shape (H, E, ...)."""

    state: IntArray
    action: IntArray
    next_state: IntArray


def rollout_steps(
    mdp: TabularMDP,
    policy: IntArray,
    episodes: int,
    rng: np.random.Generator,
    *,
    free: BoolArray | None = None,
) -> Steps:
    """Simulate episodes under fixed policies; see also `TabularMDP.rollout_counts`.

    Parameters
    ----------
    mdp : TabularMDP
        Where.
    policy : array of int, shape (..., H, S)
        Action of each run at each step and state; -1 for any, uniformly at random.
    episodes : int
        Independent episodes E of each run, >= 1.
    rng : numpy.random.Generator
        Source of randomness.
    free : array of bool, shape (..., S, A), optional
        Which actions "any" are, at least one in each state; by default all.

    Returns
    -------
    Steps
        Arrays of shape (H, E, ...): time and memory go with the steps, not with S × A × S.
    """
    *batch, horizon, n_states = policy.shape
    policies = policy.reshape(-1, horizon, n_states)
    rows, run = _rows(mdp), np.arange(len(policies))
    draws = rng.random((horizon + 1, episodes, len(policies)))
    rows.keep_below_one(draws)
    here = rows.next_state[rows.entries(rows.start_row + draws[-1])]
    steps = Steps(*np.empty((3, *draws[:-1].shape), np.intp))
    for step, draw in enumerate(draws[:-1]):
        steps.state[step] = here
        action = policies[run, step, here]
        unset = action < 0
        if unset.any():
            runs = np.broadcast_to(run, unset.shape)[unset]
            action[unset] = any_action(mdp.n_actions, runs, here[unset], free, rng)
        steps.action[step] = action
        here = rows.next_state[rows.entries(here * mdp.n_actions + action + draw)]
        steps.next_state[step] = here
    return Steps(*(each.reshape(horizon, episodes, *batch) for each in steps))


def any_action(
    n_actions: int, run: IntArray, state: IntArray, free: BoolArray | None, rng: np.random.Generator
) -> IntArray:
    """Return an action for each state of a run, uniformly at random among those that are free."""
    if free is None:
        return rng.integers(n_actions, size=len(state))
    tables = free.reshape(-1, *free.shape[-2:])
    allowed = tables[run if len(tables) > 1 else 0, state]
    number = (rng.random(len(state)) * allowed.sum(axis=-1)).astype(np.intp)
    in_order = np.argsort(~allowed, axis=-1, kind="stable")  # those that are free come first
    return in_order[np.arange(len(state)), number]


def _rows(mdp: TabularMDP) -> TransitionRows:
    """Return the rows of an MDP, in the order of its tables; made once."""
    if mdp not in _MADE:
        _MADE[mdp] = TransitionRows(mdp.transition, mdp.start)
    return _MADE[mdp]


_MADE: WeakKeyDictionary[TabularMDP, TransitionRows] = WeakKeyDictionary()
