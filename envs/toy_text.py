"""Read the facts that Gymnasium's toy_text environments carry: tables and time limits."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import TimeLimit

from privrl.envs.support import Support
from privrl.files.shown import shown_env
from privrl.numerics.typing import FloatArray


def read_tables(env: gym.Env[Any, Any]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the transition, reward and start tables of an environment.

    Parameters
    ----------
    env : gymnasium.Env
        Environment whose unwrapped form has ``P[s][a]``, a list of
        ``(probability, next_state, reward, terminated)``, and
        ``initial_state_distrib``.

    Returns
    -------
    transition : array, shape (S, A, S)
        Repeated outcomes are added up. A terminating outcome leads to a state
        that pays nothing and is never left: its own target where the table
        says so of it already, otherwise one extra state, appended as the last.
    reward : array, shape (S, A) or (S, A, S)
        Paid on arrival, unless the next state makes no difference; where outcomes
        with the same ``(s, a, next_state)`` pay differently, their mean weighted
        by probability.
    start : array, shape (S,)
        Distribution of the first state.

    Raises
    ------
    ValueError
        If the environment carries no such tables, or plays otherwise than the class that has them.
    """
    table = getattr(env.unwrapped, "P", None)
    start = getattr(env.unwrapped, "initial_state_distrib", None)
    if table is None or start is None:
        raise ValueError(
            "env must carry its tables as P and initial_state_distrib, as Gymnasium's toy_text "
            f"environments do, got {shown_env(env)}; build a TabularMDP from arrays instead, or "
            "train in it budget by budget (privrl train)."
        )
    if not plays_by_tables(env.unwrapped):
        raise ValueError(
            f"env must play by its tables, but {type(env.unwrapped).__name__} redefines step or "
            "reset of the class that has them, or is a Taxi with a fickle passenger; build a "
            "TabularMDP from arrays instead."
        )
    end, n_actions = len(table), len(table[0])
    resting = {s for s in range(end) if _rests(table[s], s, n_actions)}
    transition = np.zeros((end + 1, n_actions, end + 1))
    reward = np.zeros_like(transition)
    for state in range(end):
        for action in range(n_actions):
            for probability, target, paid, terminated in table[state][action]:
                if probability > 0:
                    cell = state, action, end if terminated and target not in resting else target
                    transition[cell] += probability
                    weight = probability / transition[cell]  # 1 at first: keeps rewards exact
                    reward[cell] += weight * (paid - reward[cell])
    transition[end, :, end] = 1
    used = end + 1 if transition[:end, :, end].any() else end
    start = np.append(start, 0.0)[:used]
    transition, reward = transition[:used, :, :used], reward[:used, :, :used]
    least = np.where(transition > 0, reward, np.inf).min(axis=-1)
    most = np.where(transition > 0, reward, -np.inf).max(axis=-1)
    return transition, least if (least == most).all() else reward, start


def owners(env: object) -> list[type]:
    """Return the classes of a bare environment that define how it plays, the last one first."""
    own = [kind for kind in type(env).__mro__ if kind not in (gym.Env, gym.vector.VectorEnv)]
    return [kind for kind in own if not {"step", "reset"}.isdisjoint(vars(kind))]


def is_overridden(env: object) -> bool:
    """Return whether a class redefines how another one plays: then that one's facts may be wrong.

    Classes of privrl and Gymnasium keep the facts that they inherit.
    """
    own = owners(env)
    return len(own) > 1 and own[0].__module__.partition(".")[0] not in ("privrl", "gymnasium")


def plays_by_tables(env: object) -> bool:
    """Return whether a bare environment plays by the tables that it carries.

    Those of Gymnasium's Taxi are of passengers who do not change their minds.
    """
    return not (is_overridden(env) or getattr(env, "fickle_passenger", False))


def episode_limit(env: gym.Env[Any, Any]) -> int | None:
    """Return the steps after which an environment ends an episode by itself, if it does.

    That is the least of the limits of its `gymnasium.wrappers.TimeLimit`, however they are nested,
    and the attributes ``horizon`` of it and its wrappers. Without any, it is what the environment
    is registered with.
    """
    limits: list[int] = []
    layer = env
    while True:
        own = layer._max_episode_steps if isinstance(layer, TimeLimit) else None
        for limit in (own, getattr(layer, "horizon", None)):
            if isinstance(limit, int | np.integer) and not isinstance(limit, bool) and limit > 0:
                limits.append(int(limit))
        if not isinstance(layer, gym.Wrapper):
            break
        layer = layer.env
    registered = env.spec.max_episode_steps if env.spec else None
    return min(limits) if limits else registered


def _rests(actions: Any, state: int, n_actions: int) -> bool:
    """Tell whether ``state`` is never left and pays nothing."""
    outcomes = (outcome for action in range(n_actions) for outcome in actions[action])
    return all(target == state and paid == 0 for p, target, paid, _ in outcomes if p > 0)


def read_support(env: gym.Env[Any, Any], *, terminates: bool) -> Support | None:
    """Return which next states an environment's tables allow, if it carries any and keeps to them.

    Parameters
    ----------
    env : gymnasium.Env
        See `read_tables`.
    terminates : bool
        Whether "the episode is over" is a separate column, the last.
    """
    table = getattr(env.unwrapped, "P", None)
    if table is None or not plays_by_tables(env.unwrapped):
        return None
    n_states, n_actions = len(table), len(table[0])
    mask = np.zeros((n_states, n_actions, n_states + terminates), np.bool_)
    for state in range(n_states):
        for action in range(n_actions):
            for probability, target, _, terminated in table[state][action]:
                if probability > 0:
                    mask[state, action, n_states if terminates and terminated else target] = True
    return Support.from_mask(mask)
