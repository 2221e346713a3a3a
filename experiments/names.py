"""The names by which the command line and saved experiments speak of things."""

import difflib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import gymnasium as gym
from gymnasium.spaces import Discrete

from privrl.agents import EveryEpisode, Geometric, Schedule
from privrl.costs.relations import (
    AddRemoveRecord,
    PaperStep,
    Relation,
    ReplaceEpisode,
    ReplaceRecord,
    ReplaceStep,
    ReplaceTransition,
)

Named = TypeVar("Named")


def rl_relation(name: str, *, horizon: int, arrival_rewards: bool) -> Relation:
    """Return the relation of a learner's history that a name stands for.

    Parameters
    ----------
    name : str
        One of `RL_RELATIONS`.
    horizon : int
        Public length of an episode.
    arrival_rewards : bool
        Whether rewards depend on the state that is arrived in; a public fact.

    Raises
    ------
    ValueError
        If the name is unknown.
    """
    return lookup("relation", name, RL_RELATIONS)(horizon, arrival_rewards)


RL_RELATIONS: dict[str, Callable[[int, bool], Relation]] = {
    "replace-transition": lambda horizon, arrival: ReplaceTransition(arrival_rewards=arrival),
    "replace-step": lambda horizon, arrival: ReplaceStep(arrival_rewards=arrival),
    "replace-episode": lambda horizon, arrival: ReplaceEpisode(horizon),
    "paper-step": lambda horizon, arrival: PaperStep(),
}

RELATIONS: dict[str, Callable[[int, bool], Relation]] = {
    "replace-record": lambda horizon, arrival: ReplaceRecord(),
    "add-remove-record": lambda horizon, arrival: AddRemoveRecord(),
    **RL_RELATIONS,
}


def lookup(kind: str, name: str, table: Mapping[str, Named]) -> Named:
    """Return ``table[name]``.

    Raises
    ------
    ValueError
        If there is no such name; the nearest ones are suggested.
    """
    if name in table:
        return table[name]
    near = difflib.get_close_matches(name, table, n=1)
    raise ValueError(
        f"{kind} must be one of {', '.join(table)}, got {name!r}"
        + (f"; did you mean {near[0]!r}?" if near else ".")
    )


def schedule_named(name: str) -> Schedule:
    """Return the schedule called ``every-episode``, ``geometric`` or ``geometric:RATIO``.

    Raises
    ------
    ValueError
        If the name is unknown or the ratio is not a number > 1.
    """
    kind, _, ratio = name.partition(":")
    if kind == "geometric":
        try:
            return Geometric(float(ratio)) if ratio else Geometric()
        except ValueError as error:
            raise ValueError(
                f"schedule {name!r} needs a finite ratio > 1, such as geometric:1.2."
            ) from error
    if name == "every-episode":
        return EveryEpisode()
    near = difflib.get_close_matches(name, ["every-episode", "geometric"], n=1)
    raise ValueError(
        f"schedule must be one of every-episode, geometric, geometric:RATIO, got {name!r}"
        + (f"; did you mean {near[0]!r}?" if near else ".")
    )


def make_env(name: str, **kwargs: Any) -> gym.Env[Any, Any]:
    """Make a Gymnasium environment with Discrete spaces.

    Raises
    ------
    ValueError
        If no such environment exists, it cannot be made here, or its spaces are not Discrete.
    """
    try:
        env = gym.make(name, **kwargs)
    except (gym.error.Error, ImportError, ValueError, TypeError) as error:
        near = difflib.get_close_matches(name, gym.registry, n=1)
        hint = f" Did you mean {near[0]!r}?" if near and near[0] != name else ""
        raise ValueError(
            f"env must be the id of an environment that Gymnasium can make, got {name!r}: "
            f"{error}{hint}"
        ) from error
    for space, role in ((env.observation_space, "observation"), (env.action_space, "action")):
        if not isinstance(space, Discrete):
            env.close()
            raise ValueError(
                f"env must have Discrete spaces, got {name!r} whose {role} space is {space}; "
                "wrap it so that states and actions are numbered."
            )
    return env
