"""Public facts of an environment: declared by it, shown by its tables, or documented.

None of it is learned from what an agent observes. A neighbouring relation has to say what a
replaced state does to the reward for reaching it (`privrl.costs.ReplaceStep`). That no reward
depends on the next state is shown by tables or declared by the environment; that its mean rewards
do not shows nothing.
"""

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from inspect import getattr_static
from typing import Any, Final, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium import wrappers
from gymnasium.spaces import Discrete
from gymnasium.vector import VectorEnv, VectorWrapper
from gymnasium.wrappers import vector

from privrl._registration import LONGEST_HAND
from privrl.envs.minigrid import Position
from privrl.envs.ranges import Ranged
from privrl.envs.tabular import TabularMDP
from privrl.envs.toy_text import episode_limit, is_overridden, owners, plays_by_tables
from privrl.envs.wrappers import Discretised, FlattenActions, FlattenDiscrete, InRange, clipped
from privrl.files.html import InHtml
from privrl.files.shown import shown, shown_env
from privrl.numerics.checks import check_count, check_is

DEFAULT_HORIZON: Final = 100
"""Steps of an episode where nothing limits them."""

Range = tuple[float, float]
_CHANGE_NOTHING: tuple[type, ...] = (  # of states, actions and rewards
    wrappers.HumanRendering, wrappers.OrderEnforcing, wrappers.PassiveEnvChecker,
    wrappers.RecordEpisodeStatistics, wrappers.RecordVideo, wrappers.RenderCollection,
    wrappers.TimeLimit, InRange,
)  # fmt: skip
_RENUMBER = (Discretised, FlattenActions, FlattenDiscrete, Position, Ranged)  # rewards stay

# Gymnasium's wrappers, also of environments side by side, by what that which they return of a step
# depends on. MiniGrid's bonuses count all visits. Pictures may show the last action, say.
_BY_ALL_BEFORE: Final = (
    "NormalizeObservation", "NormalizeReward", "MaxAndSkipObservation", "ActionBonus",
    "PositionBonus",
)  # fmt: skip
_BY_THE_EPISODE: Final = (
    "AddRenderObservation", "AtariPreprocessing", "DelayObservation", "FrameStackObservation",
    "StickyAction",
)  # fmt: skip
_BY_ITSELF: Final = (
    "AddWhiteNoise", "ArrayConversion", "Autoreset", "ClipAction", "ClipReward", "DictInfoToList",
    "DiscretizeAction", "DiscretizeObservation", "DtypeObservation", "FilterObservation",
    "FlattenObservation", "GrayscaleObservation", "HumanRendering", "JaxToNumpy", "JaxToTorch",
    "NumpyToTorch", "ObstructView", "OrderEnforcing", "PassiveEnvChecker",
    "RecordEpisodeStatistics", "RecordVideo", "RenderCollection", "RepeatAction", "RescaleAction",
    "RescaleObservation", "ReshapeObservation", "ResizeObservation", "TimeAwareObservation",
    "TimeLimit", "TransformAction", "TransformObservation",
    "TransformReward", "VectorizeTransformAction", "VectorizeTransformObservation",
    "VectorizeTransformReward",
)  # fmt: skip

_OF_WRAPPERS: Final = (  # what decides on states, actions and rewards
    "__getattribute__", "__getattr__", "step", "reset", "unwrapped", "spec", "env",
    "observation_space", "action_space",
)  # fmt: skip

Outcome = tuple[float, int, float, bool]
Playable = gym.Env[Any, Any] | VectorEnv[Any, Any, Any] | TabularMDP


class WellKnown(NamedTuple):
    """Facts from Gymnasium's documentation that the environment does not declare.

    Attributes
    ----------
    rewards : (float, float)
        Least and greatest reward.
    options : dict
        The same where an argument of this name is set.
    limit : int, optional
        Steps that an episode has at the most, by its rules.
    """

    rewards: Range
    options: Mapping[str, Range]
    limit: int | None = None


_BLACKJACK = WellKnown((-1.0, 1.0), {"natural": (-1.0, 1.5)}, LONGEST_HAND)
_CARTPOLE = WellKnown((0.0, 1.0), {"sutton_barto_reward": (-1.0, 0.0)})
_MINUS_ONE_A_STEP = WellKnown((-1.0, 0.0), {})
WELL_KNOWN: Final[Mapping[str, WellKnown]] = {
    "Blackjack-v1": _BLACKJACK,
    "privrl/Blackjack-v0": _BLACKJACK,
    "CartPole-v1": _CARTPOLE,
    "privrl/CartPole-v0": _CARTPOLE,
    "MountainCar-v0": _MINUS_ONE_A_STEP,
    "Acrobot-v1": _MINUS_ONE_A_STEP,
    "Pendulum-v1": WellKnown((-16.2736045, 0.0), {}),
    "Taxi-v4": WellKnown((-10.0, 20.0), {}),  # with a fickle passenger its tables do not hold
}
"""Facts by Gymnasium id."""


@dataclass(frozen=True, kw_only=True)
class PublicFacts(InHtml):
    """What a learner may know about an environment before its first step.

    Attributes
    ----------
    n_states, n_actions : int
        The sizes of its spaces.
    horizon : int
        Steps of an episode.
    reward_range : (float, float)
        Between which all rewards lie.
    terminates : bool
        Whether an episode can end before the horizon.
    arrival_rewards : bool
        Whether rewards can depend on the state that is arrived in.
    bins : tuple of int
        How many bins each coordinate has, if states are the bins of real coordinates
        (`Discretised`); else ().
    """

    n_states: int
    n_actions: int
    horizon: int
    reward_range: Range
    terminates: bool
    arrival_rewards: bool
    bins: tuple[int, ...] = ()


def public_facts(
    env: gym.Env[Any, Any], *, horizon: int | None = None, reward_range: Range | None = None
) -> PublicFacts:
    """Read what is public of an environment with Discrete spaces.

    Parameters
    ----------
    env : gymnasium.Env
        What is not declared is taken at its most general: episodes can terminate, and rewards are
        paid on arrival, unless its tables ``P`` show that they do not or it has an attribute
        ``arrival_rewards = False``. Those of a class whose ``step`` a subclass redefines are not
        believed.
    horizon : int, optional
        By default the limit after which it ends episodes (`episode_limit`), what is `WELL_KNOWN`,
        or 100.
    reward_range : (float, float), optional
        By default that of its tables, its own ``reward_range``, what is `WELL_KNOWN`, or (0, 1).
        Nothing is known of rewards that an unknown wrapper may have changed, but what that wrapper
        has as its ``reward_range``.

    Raises
    ------
    ValueError
        If its spaces are not Discrete, the horizon is longer than its episodes, or tables show
        rewards outside the range.
    """
    check_is("env", env, gym.Env, hint="gymnasium.make makes one")
    states, actions = env.observation_space, env.action_space
    if not (isinstance(states, Discrete) and isinstance(actions, Discrete)):
        raise ValueError(
            f"env must have Discrete spaces, got {states} and {actions}; privrl.envs.numbered "
            "wraps it so that states and actions are numbered."
        )
    steps, rewards = limits_of(env, horizon, reward_range)
    outcomes = _outcomes(env)
    return PublicFacts(
        n_states=int(states.n),
        n_actions=int(actions.n),
        horizon=steps,
        reward_range=rewards,
        terminates=outcomes is None or any(over for _, _, _, over in outcomes),
        arrival_rewards=not proved_without_arrival(env),
        bins=_bins(env),
    )


def _bins(env: gym.Env[Any, Any]) -> tuple[int, ...]:
    """Return the bins of each coordinate, if all outer wrappers leave states unchanged."""
    while isinstance(env, gym.Wrapper) and _changes_nothing(env):
        env = env.env
    return env.ordered if type(env) is Discretised and not _is_patched(env) else ()


def limits_of(
    env: gym.Env[Any, Any], horizon: int | None = None, reward_range: Range | None = None
) -> tuple[int, Range]:
    """Return the steps of an episode and the range of rewards; see `public_facts`."""
    if horizon is not None:
        check_count("horizon", horizon)
    if reward_range is not None:
        reward_range = _check_range(reward_range)
    check_steps_alone(env)
    limit = episode_limit(env)
    if horizon is not None and limit is not None and horizon > limit:
        raise ValueError(
            f"horizon must be at most {limit}, the steps after which {shown_env(env)} ends an "
            f"episode by itself, got {horizon}; make it with a longer one, if it takes that as an "
            "argument."
        )
    outcomes, known = _outcomes(env), _well_known(env)
    if outcomes and reward_range:
        low, high = _range_of_tables(outcomes)
        if not clipped([low, high], *reward_range)[1].all():
            raise ValueError(
                f"reward_range must hold all rewards of {shown_env(env)}, from {low:g} to "
                f"{high:g}, got {reward_range[0]:g},{reward_range[1]:g}."
            )
    steps = horizon or limit or (known and known.limit) or DEFAULT_HORIZON
    return steps, reward_range or _range(env, outcomes)


def check_steps_alone(env: Playable, *, by_episode: bool = True) -> None:
    """Check that no known wrapper lets a step change what is counted of others.

    Parameters
    ----------
    env : Env, VectorEnv or TabularMDP
        With all its wrappers.
    by_episode : bool
        Whether the privacy unit is a whole episode, whose steps may change each other.

    Raises
    ------
    ValueError
        If one does: then more changes than is paid for.
    """
    for kind in type(env).__mro__:
        _check_alone(kind, by_episode=by_episode)
    for each in [env.env] if isinstance(env, gym.Wrapper | VectorWrapper) else _each_of(env):
        check_steps_alone(each, by_episode=by_episode)


def _each_of(env: Playable) -> Iterator[gym.Env[Any, Any]]:
    """Yield the environments side by side; those that live elsewhere are made once more."""
    if hasattr(env, "envs"):
        yield from env.envs
        return
    for make in getattr(env, "env_fns", ()):
        with closing(make()) as each:
            yield each


def _check_alone(kind: type, *, by_episode: bool) -> None:
    """Check a class from which an environment or a wrapper derives."""
    name, module = kind.__name__, kind.__module__
    if not module.startswith(("gymnasium.wrappers.", "minigrid.wrappers")):
        return
    if name in _BY_ALL_BEFORE:
        raise ValueError(
            f"env must not contain {name}, because what that returns depends on all steps before, "
            "so one person would change the records of others; leave it out. Public ranges do what "
            "normalising does."
        )
    if name in _BY_THE_EPISODE:
        if not by_episode:
            raise ValueError(
                f"env must not contain {name} where the privacy unit is a step, because one step "
                "would change several observations; leave it out, or make the agent with "
                "relation=ReplaceEpisode(horizon)."
            )
    elif name not in _BY_ITSELF and module.startswith("gymnasium"):
        raise ValueError(
            f"env must not contain {name}, a wrapper of a newer Gymnasium that may let one step "
            "change what is counted of others; leave it out, or install a newer privrl."
        )


def _check_range(reward_range: Range) -> Range:
    """Return what a caller says of rewards, if it is two numbers with room between them."""
    try:
        if np.iscomplexobj(reward_range):  # float() warns, and drops the imaginary part
            raise TypeError
        low, high = map(float, reward_range)
    except (TypeError, ValueError, OverflowError):
        low = high = np.nan
    if not -np.inf < low < high < np.inf:
        raise ValueError(
            "reward_range must be two finite numbers, the lesser first, got "
            f"{shown(reward_range)}; (0, 1) is usual."
        )
    return low, high


def _outcomes(env: gym.Env[Any, Any]) -> list[Outcome] | None:
    """Return what can happen by an environment's tables, if they say what is learned of."""
    if not tables_hold(env):
        return None
    return [outcome for row in rows_of(env.unwrapped.P) for outcome in row]  # type: ignore[attr-defined] # it holds


def _range(env: gym.Env[Any, Any], outcomes: list[Outcome] | None) -> Range:
    """Return between which rewards lie where nobody has said it."""
    if outcomes:
        low, high = _range_of_tables(outcomes)
        return low, high if low < high else low + 1  # a range has a width
    known = _well_known(env)
    return _declared_range(env) or (known and _range_of(known, env)) or (0.0, 1.0)


def _well_known(env: gym.Env[Any, Any]) -> WellKnown | None:
    name = env.spec.id if env.spec else ""
    held = rewards_hold(env) and not is_overridden(env.unwrapped)
    return WELL_KNOWN.get(name) if held else None


def _range_of(known: WellKnown, env: gym.Env[Any, Any]) -> Range:
    set_options = env.spec.kwargs if env.spec else {}
    ranges = [each for name, each in known.options.items() if set_options.get(name)]
    return ranges[0] if ranges else known.rewards


def _range_of_tables(outcomes: list[Outcome]) -> Range:
    paid = [float(reward) for _, _, reward, _ in outcomes]
    return min(paid), max(paid)


def _declared_range(env: gym.Env[Any, Any]) -> Range | None:
    """Return the ``reward_range`` of the outermost layer that has one, as old Gym's and MiniGrid's.

    The first layer that may change rewards is the last one asked.
    """
    for layer in layers_of_rewards(env):
        try:
            low, high = map(float, layer.reward_range)  # type: ignore[attr-defined] # if it has it
        except (AttributeError, TypeError, ValueError):
            continue
        if -np.inf < low < high < np.inf:
            return low, high
    return None


def pays_on_arrival(env: Playable) -> bool | None:
    """Return whether rewards depend on the next state, by public tables.

    Parameters
    ----------
    env : gymnasium.Env, gymnasium.vector.VectorEnv or TabularMDP
        The tables are those of the bare environment, ``P`` or `TabularMDP`, whatever wraps it;
        see `tables_hold`. One without tables declares it by its attribute ``arrival_rewards``.

    Returns
    -------
    bool or None
        False if, after every state and action, all outcomes pay the same or all lead to the same
        place; None without tables or a declaration.
    """
    if isinstance(env, TabularMDP):
        return env.reward.ndim == 3
    if isinstance(env, VectorEnv):
        return None if is_overridden(env.unwrapped) else _any_pays(env.unwrapped)
    bare = env.unwrapped
    table = getattr(bare, "P", None)
    if table is None or is_overridden(bare):
        declared = _declared(bare, "arrival_rewards")
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
        while type(env) is vector.RecordEpisodeStatistics and not _is_patched(env):
            env = env.env
        held = not (isinstance(env, VectorWrapper) or _is_patched(env))
    else:
        held = isinstance(env, TabularMDP) or rewards_hold(env)
    return held and pays_on_arrival(env) is False


def rewards_hold(env: gym.Env[Any, Any]) -> bool:
    """Return whether all wrappers are known to leave rewards unchanged."""
    *_, last = layers_of_rewards(env)
    return not (isinstance(last, gym.Wrapper) or _is_patched(last))


def layers_of_rewards(env: gym.Env[Any, Any]) -> Iterator[gym.Env[Any, Any]]:
    """Yield an environment and its inner layers, as long as rewards are known to be the same."""
    yield env
    while isinstance(env, gym.Wrapper) and (_renumbers(env) or _changes_nothing(env)):
        env = env.env
        yield env


def tables_hold(env: gym.Env[Any, Any]) -> bool:
    """Return whether an environment's tables are about what a learner of it sees.

    They are if all wrappers are known to leave states, actions and rewards unchanged.
    """
    while isinstance(env, gym.Wrapper):
        if not _changes_nothing(env):
            return False
        env = env.env
    if getattr(env, "P", None) is None:
        return False
    return plays_by_tables(env) and not _is_patched(env)


def _changes_nothing(env: gym.Wrapper[Any, Any, Any, Any]) -> bool:
    """Return whether a wrapper is known to leave states, actions and rewards unchanged.

    It is if all that decides on them is `gymnasium.Wrapper`'s own, in the class and the object.
    """
    if _is_patched(env):
        return False
    return type(env) in _CHANGE_NOTHING or (
        [getattr_static(type(env), name, None) for name in _OF_WRAPPERS]
        == [getattr_static(gym.Wrapper, name, None) for name in _OF_WRAPPERS]
        and env.observation_space is env.env.observation_space
        and env.action_space is env.env.action_space
    )


def _renumbers(env: gym.Wrapper[Any, Any, Any, Any]) -> bool:
    return type(env) in _RENUMBER and not _is_patched(env)


def _is_patched(env: Playable) -> bool:
    """Return whether an object has methods in place of its class's, which may do anything."""
    return not {"step", "reset"}.isdisjoint(vars(env))


def _declared(env: gym.Env[Any, Any], name: str) -> Any:
    """Return an attribute, if who declares it knows how the environment plays."""
    if is_overridden(env):
        kinds = type(env).__mro__
        after = kinds[: kinds.index(owners(env)[0]) + 1]
        return next((vars(kind)[name] for kind in after if name in vars(kind)), None)
    return getattr(env, name, None)


def rows_of(table: Any) -> list[list[Outcome]]:
    """Return the outcomes that can happen after each state and action of a table ``P``."""
    return [
        [outcome for outcome in table[state][action] if outcome[0] > 0]
        for state in range(len(table))
        for action in range(len(table[state]))
    ]


def _any_pays(env: VectorEnv[Any, Any, Any]) -> bool | None:
    """Ask the environments side by side."""
    mdp = getattr(env, "mdp", None)
    if isinstance(mdp, TabularMDP):
        return pays_on_arrival(mdp)
    answers = [_pays_as_it_is(each) for each in _each_of(env)]
    if True in answers:
        return True
    return None if None in answers or not answers else False


def _pays_as_it_is(env: gym.Env[Any, Any]) -> bool | None:
    """Return what is known of one of several, in its wrappers."""
    answer = pays_on_arrival(env)
    return answer if answer or rewards_hold(env) else None
