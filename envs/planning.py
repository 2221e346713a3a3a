"""Finite-horizon planning: optimal policies and exact values, for many tables at once."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privrl._checks import check_count

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]

_EINSUM_STATES = 12
"""Up to this many states, one einsum over all tables beats one BLAS call per table."""


def plan(transition: ArrayLike, reward: ArrayLike, horizon: int) -> tuple[IntArray, FloatArray]:
    """Find the best policy by backward induction, undiscounted.

    Leading axes are independent problems and broadcast against each other.

    Parameters
    ----------
    transition : array, shape (..., S, A, S)
        Probabilities of the next state, trusted to be ones: the caller has drawn
        or checked them. What a row lacks to 1 ends the episode.
    reward : array, shape (..., S, A)
        Expected reward of an action, finite.
    horizon : int
        Number of steps H in an episode, >= 1.

    Returns
    -------
    policy : array of int, shape (..., H, S)
        Greedy action at each step and state; among equals, the lowest index.
    value : array, shape (..., S)
        Best expected sum of rewards over the H steps from each state.

    Raises
    ------
    ValueError
        If shapes disagree, ``horizon`` is below 1 or an entry is not finite.

    Notes
    -----
    Puterman (1994), Markov Decision Processes, section 4.5. Ties are those of
    floating-point arithmetic: actions equal on paper may differ by rounding.
    """
    check_count("horizon", horizon)
    transition, reward = _tables(transition, reward)
    n_states, n_actions = reward.shape[-2:]
    batch = np.broadcast_shapes(transition.shape[:-3], reward.shape[:-2])
    action_values = _backup(transition, reward, batch)

    policy = np.zeros((horizon, n_states, math.prod(batch)), dtype=np.intp)
    value = np.zeros(policy.shape[1:])
    for step in reversed(range(horizon)):
        candidates = action_values(value)
        value = candidates[0]
        for action in range(1, n_actions):  # much faster than argmax over so short an axis
            np.copyto(policy[step], action, where=candidates[action] > value)
            value = np.maximum(value, candidates[action])

    policy = np.moveaxis(policy, -1, 0).reshape(*batch, horizon, n_states)
    return policy, _finite(value).T.reshape(*batch, n_states)


def evaluate(transition: ArrayLike, reward: ArrayLike, policy: ArrayLike) -> FloatArray:
    """Compute the exact value of a deterministic policy, undiscounted.

    Leading axes are independent problems and broadcast against each other.

    Parameters
    ----------
    transition : array, shape (..., S, A, S)
        Probabilities of the next state, as for `plan`.
    reward : array, shape (..., S, A)
        Expected reward of an action, finite.
    policy : array of int, shape (..., H, S)
        Action at each step and state, in ``0 .. A - 1``; H is the horizon.

    Returns
    -------
    array, shape (..., S)
        Expected sum of rewards over the H steps from each state.

    Raises
    ------
    ValueError
        If shapes disagree, an action does not exist or an entry is not finite.
    """
    transition, reward = _tables(transition, reward)
    n_states, n_actions = reward.shape[-2:]
    policy = as_policy(policy, n_states, n_actions)
    horizon = policy.shape[-2]
    batch = np.broadcast_shapes(transition.shape[:-3], reward.shape[:-2], policy.shape[:-2])
    action_values = _backup(transition, reward, batch)

    shape = (n_states, math.prod(batch))
    chosen = np.broadcast_to(policy, (*batch, horizon, n_states)).reshape(-1, horizon, n_states)
    cells = np.moveaxis(chosen, 0, -1) * math.prod(shape) + np.arange(math.prod(shape)).reshape(
        shape
    )
    value = np.zeros(shape)
    for step in reversed(range(horizon)):
        value = action_values(value).take(cells[step])
    return _finite(value).T.reshape(*batch, n_states)


def as_policy(policy: ArrayLike, n_states: int, n_actions: int) -> IntArray:
    """Check a deterministic policy and return it as integers.

    Parameters
    ----------
    policy : array of int, shape (..., H, S)
        Action at each step and state, in ``0 .. A - 1``.
    n_states, n_actions : int
        S and A.

    Returns
    -------
    array of int, shape (..., H, S)
        The same policy; a view where the type allows it.

    Raises
    ------
    ValueError
        If it does not hold integers, its shape is wrong or an action does not exist.
    """
    policy = np.asarray(policy)
    if policy.dtype.kind not in "iu":
        raise ValueError(
            f"policy must hold integer actions, got {policy.dtype}; "
            "a stochastic policy is not supported, draw actions from it first."
        )
    if policy.ndim < 2 or policy.shape[-2] < 1 or policy.shape[-1] != n_states:
        raise ValueError(
            f"policy must have shape (..., horizon, {n_states}), got {policy.shape}; "
            "repeat a stationary policy along a horizon axis."
        )
    if policy.size and not (policy.min() >= 0 and policy.max() < n_actions):
        raise ValueError(
            f"policy must hold actions in 0..{n_actions - 1}, got values in "
            f"{policy.min()}..{policy.max()}; number the actions from 0."
        )
    return policy.astype(np.intp, copy=False)


def _tables(transition: ArrayLike, reward: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return both as float arrays whose last axes fit together."""
    transition = np.asarray(transition, dtype=np.float64)
    reward = np.asarray(reward, dtype=np.float64)
    if transition.ndim < 3 or transition.shape[-3] != transition.shape[-1]:
        raise ValueError(
            f"transition must have shape (..., S, A, S), got {transition.shape}; "
            "its axes are state, action, next state."
        )
    if reward.shape[-2:] != transition.shape[-3:-1]:
        raise ValueError(
            f"reward must have shape (..., {transition.shape[-3]}, {transition.shape[-2]}) to fit "
            f"transition, got {reward.shape}; average a reward on arrival over next states."
        )
    return transition, reward


def _backup(
    transition: FloatArray, reward: FloatArray, batch: tuple[int, ...]
) -> Callable[[FloatArray], FloatArray]:
    """Return the Bellman backup, from values (S, B) to action values (A, S, B).

    The batch is the last axis, so that everything done per step runs along
    contiguous memory. Three ways to take the expectation, by shape:

    - one table for all runs: a single matrix product;
    - a few states: an einsum along the batch, because the 200 tables of a
      typical sweep are too small to be worth 200 calls of BLAS;
    - otherwise: one BLAS product per table, which wins from S = 16 on.
    """
    n_states, n_actions = reward.shape[-2:]
    runs = math.prod(batch)
    rewards = np.broadcast_to(reward, (*batch, n_states, n_actions))
    rewards = np.ascontiguousarray(rewards.reshape(runs, n_states, n_actions).T)

    if transition.size == n_states * n_actions * n_states:
        rows, shape = transition.reshape(-1, n_states), (n_states, n_actions, runs)
        return lambda value: (rows @ value).reshape(shape).swapaxes(0, 1) + rewards

    tables = np.broadcast_to(transition, (*batch, *transition.shape[-3:]))
    tables = tables.reshape(runs, n_states, n_actions, n_states)
    if n_states <= _EINSUM_STATES:
        tables = np.ascontiguousarray(tables.transpose(2, 1, 3, 0))
        return lambda value: np.einsum("asnb,nb->asb", tables, value) + rewards
    stacks, shape = tables.reshape(runs, -1, n_states), (runs, n_states, n_actions)
    return lambda value: (stacks @ value.T[..., None]).reshape(shape).T + rewards


def _finite(value: FloatArray) -> FloatArray:
    """Return ``value``, refusing what a NaN or infinity in the tables made of it."""
    if not np.isfinite(value).all():
        raise ValueError(
            "transition and reward must be finite, got values that are not; "
            "look for NaN or infinity in the tables."
        )
    return value
