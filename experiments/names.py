"""The names by which the command line and saved experiments speak of things."""

import difflib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import gymnasium as gym
from gymnasium.spaces import Discrete

from privrl.agents import EveryEpisode, Geometric, Schedule
from privrl.relations import (
    AddRemoveRecord,
    PaperStep,
    Relation,
    ReplaceEpisode,
    ReplaceRecord,
    ReplaceStep,
    ReplaceTransition,
)
from privrl.samplers import Concentrated, Diffuse, NonPrivate

Named = TypeVar("Named")

SAMPLERS: dict[str, type[NonPrivate] | type[Diffuse] | type[Concentrated]] = {
    "non-private": NonPrivate,
    "diffuse": Diffuse,
    "concentrated": Concentrated,
}

#: Relations of a learner's history; the horizon is the public length of an episode.
RL_RELATIONS: dict[str, Callable[[int], Relation]] = {
    "replace-transition": lambda horizon: ReplaceTransition(),
    "replace-step": lambda horizon: ReplaceStep(),
    "replace-episode": ReplaceEpisode,
    "paper-step": lambda horizon: PaperStep(),
}

RELATIONS: dict[str, Callable[[int], Relation]] = {
    "replace-record": lambda horizon: ReplaceRecord(),
    "add-remove-record": lambda horizon: AddRemoveRecord(),
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
    plain: dict[str, Schedule] = {"every-episode": EveryEpisode(), "geometric": Geometric()}
    return lookup("schedule", name, plain)


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
