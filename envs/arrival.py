"""Whether rewards are paid on arrival: what an environment's public tables prove.

A neighbouring relation has to say what a replaced state does to the reward for reaching it
(`privrl.costs.ReplaceStep`). That no reward depends on the next state is a fact about an
environment which only its tables can show; that its mean rewards do not shows nothing.
"""

from typing import Any

import gymnasium as gym
from gymnasium import wrappers
from gymnasium.vector import VectorEnv

from privrl.envs.tabular import TabularMDP

_CHANGE_NOTHING: tuple[type, ...] = (  # of states, actions and rewards
    wrappers.HumanRendering,
    wrappers.OrderEnforcing,
    wrappers.PassiveEnvChecker,
    wrappers.RecordEpisodeStatistics,
    wrappers.RecordVideo,
    wrappers.RenderCollection,
    wrappers.TimeLimit,
)

Outcome = tuple[float, int, float, bool]
Playable = gym.Env[Any, Any] | VectorEnv[Any, Any, Any] | TabularMDP


def pays_on_arrival(env: Playable) -> bool | None:
    """Return what public tables say of whether rewards depend on the state that is arrived in.

    Parameters
    ----------
    env : gymnasium.Env, gymnasium.vector.VectorEnv or TabularMDP
        The tables are those of the bare environment, ``P`` or `TabularMDP`, whatever wraps it;
        see `tables_hold`.

    Returns
    -------
    bool or None
        False if, after every state and action, all outcomes pay the same or all lead to the same
        place; None if there are no tables.
    """
    if isinstance(env, TabularMDP):
        return env.reward.ndim == 3
    if isinstance(env, VectorEnv):
        return _any_pays(env.unwrapped)
    table = getattr(env.unwrapped, "P", None)
    if table is None:
        return None
    return any(
        len({paid for _, _, paid, _ in outcomes}) > 1
        and len({(target, over) for _, target, _, over in outcomes}) > 1
        for outcomes in rows_of(table)
    )


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
        answers = [pays_on_arrival(each) for each in env.envs]
    else:
        for make in getattr(env, "env_fns", ()):
            each = make()
            answers.append(pays_on_arrival(each))
            each.close()
    if True in answers:
        return True
    return None if None in answers or not answers else False
