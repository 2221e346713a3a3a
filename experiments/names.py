"""The names by which the command line and saved experiments speak of things."""

import difflib
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, TypeVar

from privrl.costs.relations import (
    AddRemoveRecord,
    PaperStep,
    Relation,
    ReplaceEpisode,
    ReplaceRecord,
    ReplaceStep,
    ReplaceTransition,
)
from privrl.files.plain import lookup
from privrl.files.shown import shown

if TYPE_CHECKING:  # the names of relations are asked for where nothing is learned
    import gymnasium as gym


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


def make_env(
    name: str,
    args: Sequence[str] = (),
    *,
    bins: str | None = None,
    horizon: int | None = None,
    ranges: str | None = None,
    continuous: bool = False,
) -> "gym.Env[Any, Any]":
    """Make a Gymnasium environment whose states and actions are numbered.

    Parameters
    ----------
    name : str
        Its id, or ``module:id`` where importing a module registers it. A module in `PACKAGES` that
        is installed need not be named.
    args : sequence of str
        What it is made with, each ``name=value``; see `named_values`.
    bins : str, optional
        What continuous observations are cut into, see `privrl.envs.numbered`.
    horizon : int, optional
        After how many steps its episodes are cut off, in place of the limit that it is registered
        with.
    ranges : str, optional
        Of continuous observations, see `privrl.envs.Ranged`.
    continuous : bool
        Whether continuous observations without ``bins`` stay as they are, within public ranges.

    Raises
    ------
    ValueError
        If no such environment exists, it cannot be made here, or its spaces cannot be numbered.
    """
    from privrl.envs import Ranged, numbered  # noqa: PLC0415
    from privrl.envs.ranges import has_numbers  # noqa: PLC0415

    env = plain_env(name, args, horizon=horizon)
    try:
        if ranges is not None and (bins is not None or not continuous):
            raise ValueError(
                "ranges are for the agent that learns without bins, the default one; leave them "
                "out, or leave out bins, agent and its settings."
            )
        if ranges is not None or (
            continuous and bins is None and has_numbers(env.observation_space)
        ):
            return Ranged(env, ranges)
        return numbered(env, bins)
    except ValueError:
        env.close()
        raise


def plain_env(
    name: str, args: Sequence[str] = (), *, horizon: int | None = None
) -> "gym.Env[Any, Any]":
    """Make a Gymnasium environment as it is. Arguments and errors are those of `make_env`."""
    import gymnasium as gym  # noqa: PLC0415

    values = named_values(args)
    if horizon is not None:
        values.setdefault("max_episode_steps", horizon)
    try:
        return gym.make(_with_module(name), **values)
    except Exception as error:  # whatever the code of an environment may raise
        raise ValueError(
            f"env must be the id of an environment that Gymnasium can make, got {shown(name)}"
            + (f" with {', '.join(args)}" if args else "")
            + f": {_reason(name, error)}"
        ) from error


def check_no_module(name: str, saved: str) -> None:
    """Check that an environment's id from a file names no module: importing one runs its code.

    Raises
    ------
    ValueError
        If it does; ``saved`` is what the file is called.
    """
    if ":" in name:
        raise ValueError(
            f"env must be given: {saved} names {shown(name)}, whose module would run as code. If "
            f"you trust it, add --env {shlex.quote(name)}."
        )


def named_values(args: Sequence[str]) -> dict[str, Any]:
    """Return what texts ``name=value`` say.

    Parameters
    ----------
    args : sequence of str
        A value is read as JSON where it can be (``8``, ``0.5``, ``false``, ``[1, 2]``), or as
        Python's ``True``, ``False`` and ``None``, and is a text otherwise.

    Raises
    ------
    ValueError
        If a text has no name, or a name is given twice.
    """
    values: dict[str, Any] = {}
    for text in args:
        name, equals, value = text.partition("=") if isinstance(text, str) else ("", "", "")
        if not (equals and name.isidentifier()):
            raise ValueError(f"env_args must each be name=value, got {shown(text)}.")
        if name in values:
            raise ValueError(f"env_args must give each name once, got {shown(name)} twice.")
        try:
            values[name] = json.loads(value)
        except ValueError:
            values[name] = _PYTHONS.get(value, value)
    return values


_PYTHONS = {"True": True, "False": False, "None": None}

PACKAGES: Final[Mapping[str, tuple[str, str]]] = {
    "ALE/": ("ale-py", "ale_py"),
    "BabyAI-": ("minigrid", "minigrid"),
    "FlappyBird-": ("flappy-bird-gymnasium", "flappy_bird_gymnasium"),
    "Meta-World/": ("metaworld", "metaworld"),
    "MiniGrid-": ("minigrid", "minigrid"),
    "MiniHack-": ("minihack", "minihack"),
    "MiniWorld-": ("miniworld", "miniworld"),
    "NetHack": ("nle", "nle"),
    "Sepsis/": ("icu-sepsis", "icu_sepsis"),
    "bsuite/": ("shimmy[bsuite]", "shimmy"),
    "dm_control/": ("shimmy[dm-control]", "shimmy"),
    "highway-": ("highway-env", "highway_env"),
}
"""By how ids begin: the package that has them, and the module that registers them."""


def _package_of(name: str) -> tuple[str, str] | None:
    return next((each for start, each in PACKAGES.items() if name.startswith(start)), None)


def _with_module(name: str) -> str:
    """Name the module beside the id where it is known, installed, and not yet imported."""
    import gymnasium as gym  # noqa: PLC0415

    package = _package_of(name)
    if package is None or name in gym.registry or find_spec(package[1]) is None:
        return name
    return f"{package[1]}:{name}"


def _reason(name: str, error: Exception) -> str:
    """Return why an environment could not be made, and what to do."""
    import gymnasium as gym  # noqa: PLC0415

    module, colon, short = name.rpartition(":")
    if isinstance(error, ImportError) and colon:
        return f"{error} Is {module!r} installed, or in the folder where this is run?"
    if not isinstance(error, gym.error.UnregisteredEnv):
        return str(error) or type(error).__name__
    package = _package_of(name)
    if package is not None and find_spec(package[1]) is None:
        return f"it is one of the package {package[0]}; pip install '{package[0]}'."
    known = {each.lower(): each for each in gym.registry}
    near = difflib.get_close_matches(short.lower(), known, n=1)
    if near:
        return f"there is none of this id. Did you mean {known[near[0]]!r}?"
    return (
        "there is none of this id. If a module of yours registers it, put the module's name first: "
        "'my_module:MyEnv-v0'."
    )
