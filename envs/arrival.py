"""Whether rewards are paid on arrival: what an environment's public tables prove, or it declares.

A neighbouring relation has to say what a replaced state does to the reward for reaching it
(`privrl.costs.ReplaceStep`). That no reward depends on the next state is a fact about an
environment which only its tables can show, or whoever wrote it declare; that its mean rewards do
not shows nothing.
"""

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
from gymnasium import wrappers
from gymnasium.vector import VectorEnv, VectorWrapper
from gymnasium.wrappers import vector

from privrl.envs.minigrid import Position
from privrl.envs.tabular import TabularMDP
from privrl.envs.wrappers import Discretised, FlattenActions, FlattenDiscrete, InRange

_CHANGE_NOTHING: tuple[type, ...] = (  # of states, actions and rewards
    wrappers.HumanRendering,
    wrappers.OrderEnforcing,
    wrappers.PassiveEnvChecker,
    wrappers.RecordEpisodeStatistics,
    wrappers.RecordVideo,
    wrappers.RenderCollection,
    wrappers.TimeLimit,
    InRange,
)
_RENUMBER = (Discretised, FlattenActions, FlattenDiscrete, Position)  # rewards stay as they are

Outcome = tuple[float, int, float, bool]
Playable = gym.Env[Any, Any] | VectorEnv[Any, Any, Any] | TabularMDP


def pays_on_arrival(env: Playable) -> bool | None:
    """Return what public tables say of whether rewards depend on the state that is arrived in.

    Parameters
    ----------
    env : gymnasium.Env, gymnasium.vector.VectorEnv or TabularMDP
        The tables are those of the bare environment, ``P`` or `TabularMDP`, whatever wraps it;
        see `tables_hold`. One without tables declares it by its attribute ``arrival_rewards``.

    Returns
    -------
    bool or None
        False if, after every state and action, all outcomes pay the same or all lead to the same
        place; None if there are no tables and nothing is declared.
    """
    if isinstance(env, TabularMDP):
        return env.reward.ndim == 3
    if isinstance(env, VectorEnv):
        return _any_pays(env.unwrapped)
    table = getattr(env.unwrapped, "P", None)
    if table is None:
        declared = getattr(env.unwrapped, "arrival_rewards", None)
        return declared if isinstance(declared, bool) else None
    return any(
        len({paid for _, _, paid, _ in outcomes}) > 1
        and len({(target, over) for _, target, _, over in outcomes}) > 1
        for outcomes in rows_of(table)
    )


def proved_without_arrival(env: Playable) -> bool:
    """Return whether no reward depends on the state that is arrived in, as far as one can tell.

    A wrapper that is not known may pay as it likes.
    """
    if isinstance(env, VectorEnv):
        while type(env) is vector.RecordEpisodeStatistics:
            env = env.env
        held = not isinstance(env, VectorWrapper)
    else:
        held = isinstance(env, TabularMDP) or rewards_hold(env)
    return held and pays_on_arrival(env) is False


def rewards_hold(env: gym.Env[Any, Any]) -> bool:
    """Return whether there is none but wrappers that are known to leave rewards as they are."""
    *_, last = layers_of_rewards(env)
    return not isinstance(last, gym.Wrapper)


def layers_of_rewards(env: gym.Env[Any, Any]) -> Iterator[gym.Env[Any, Any]]:
    """Yield an environment and what it wraps, as far in as rewards are known to be the same."""
    yield env
    while isinstance(env, gym.Wrapper) and type(env) in (*_CHANGE_NOTHING, *_RENUMBER):
        env = env.env
        yield env


def tables_hold(env: gym.Env[Any, Any]) -> bool:
    """Return whether an environment's tables are about what a learner of it sees.

    They are if there is none but wrappers that are known to leave states, actions and rewards as
    they are.
    """
    while isinstance(env, gym.Wrapper):
        if type(env) not in _CHANGE_NOTHING:
            return False
        env = env.env
    return getattr(env, "P", None) is not None


def rows_of(table: Any) -> list[list[Outcome]]:
    """Return the outcomes that can happen after each state and action of a table ``P``."""
    return [
        [outcome for outcome in table[state][action] if outcome[0] > 0]
        for state in range(len(table))
        for action in range(len(table[state]))
    ]


def _any_pays(env: VectorEnv[Any, Any, Any]) -> bool | None:
    """Ask the environments side by side; those that live elsewhere are made once more."""
    mdp = getattr(env, "mdp", None)
    if isinstance(mdp, TabularMDP):
        return pays_on_arrival(mdp)
    answers = []
    if hasattr(env, "envs"):
        answers = [_pays_as_it_is(each) for each in env.envs]
    else:
        for make in getattr(env, "env_fns", ()):
            each = make()
            answers.append(_pays_as_it_is(each))
            each.close()
    if True in answers:
        return True
    return None if None in answers or not answers else False


def _pays_as_it_is(env: gym.Env[Any, Any]) -> bool | None:
    """Return what is known of one of several, in its wrappers."""
    answer = pays_on_arrival(env)
    return answer if answer or rewards_hold(env) else None
