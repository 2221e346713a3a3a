"""Public ranges of continuous observations, for agents that learn without bins."""

import math
from collections.abc import Mapping
from itertools import product
from typing import Any, Final, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete, Space
from numpy.typing import NDArray

from privrl.envs.spaces import parts_of, values_of
from privrl.files.shown import shown
from privrl.numerics.checks import check_is
from privrl.numerics.typing import FloatArray

LEVELS: Final = 5  # of each number of a continuous action
_MOST_ACTIONS: Final = 250
_ANGLE: Final = "angle"

PUBLIC_RANGES: Final[Mapping[str, str]] = {
    "Acrobot-v1": "angle,angle,-12.567:12.567,-28.275:28.275",
    "CartPole-v1": "-2.5:2.5,-3:3,-0.22:0.22,-3:3",
    "Pendulum-v1": "angle,-8:8",
}
"""The ranges that Gymnasium's tasks get where none are given, by id.

Those of the documentation; CartPole's speeds are taken to be within 3.
"""


class Axis(NamedTuple):
    """One number of a state: its range, and whether it is an angle."""

    low: float
    high: float
    is_angle: bool = False


def ranges_of(ranges: str | None, space: Space[Any], name: str = "") -> list[Axis]:
    """Return the ranges of the numbers of a state, as a text spells them.

    Parameters
    ----------
    ranges : str or None
        For each coordinate of the space ``LOW:HIGH``, with commas between. ``angle`` stands for two
        coordinates, the cosine and the sine of an angle. By default `PUBLIC_RANGES` of the
        environment's id, or the bounds of the space.
    space : gymnasium.spaces.Space
        Whose coordinates, flattened.
    name : str
        The environment's id.

    Raises
    ------
    ValueError
        If it cannot be read, is for another number of coordinates, or has one without bounds.
    """
    parts = parts_of(space)
    ranges = PUBLIC_RANGES.get(name) if ranges is None else ranges
    if ranges is None:
        if not all(part.high - part.low < math.inf for part in parts):
            raise ValueError(
                f"ranges must be given for {space}, which has no bounds: LOW:HIGH for each "
                "coordinate, with commas between, or angle for a cosine and a sine. Choose them by "
                "what is known of the task. Or pass bins."
            )
        return [Axis(part.low, part.high) for part in parts]
    axes = check_ranges(ranges)
    wanted = sum(1 + axis.is_angle for axis in axes)
    if wanted != len(parts):
        raise ValueError(
            f"ranges must be for the {len(parts)} coordinates of {space}, got {wanted}: LOW:HIGH "
            "is for one, angle for two."
        )
    return axes


def check_ranges(ranges: str) -> list[Axis]:
    """Return the ranges that a text spells, see `ranges_of`; ValueError if it spells none."""
    check_is("ranges", ranges, str, hint="'-1:1,angle' is one")
    return [_axis(text.strip()) for text in ranges.split(",")]


def _axis(text: str) -> Axis:
    if text == _ANGLE:
        return Axis(-math.pi, math.pi, is_angle=True)
    try:
        low, high = map(float, text.split(":"))
        if not -math.inf < low < high < math.inf:
            raise ValueError
    except ValueError:
        raise ValueError(
            "ranges must be LOW:HIGH (-2.4:2.4) for each coordinate, or angle for a cosine and a "
            f"sine, with commas between, got {shown(text)}."
        ) from None
    return Axis(low, high)


def has_numbers(space: Space[Any]) -> bool:
    """Return whether observations of a space are real numbers alone, as those of a Box."""
    try:
        parts = parts_of(space)
    except ValueError:
        return False
    return bool(parts) and not any(part.is_whole for part in parts)


class Ranged(gym.Wrapper[NDArray[np.float64], np.int64, Any, Any], gym.utils.RecordConstructorArgs):
    """Show states within public ranges, and number the actions.

    Observations are clipped to their range; a cosine and a sine become an angle. Continuous actions
    become the combinations of `LEVELS` even values of each number.

    Parameters
    ----------
    env : gymnasium.Env
        Whose observations are real numbers.
    ranges : str, optional
        See `ranges_of`.

    Attributes
    ----------
    axes : list of Axis
        The numbers of a state.
    actions : array, shape (n, k), or None
        The values of actions; None if they were numbered from the start.

    Raises
    ------
    ValueError
        If the ranges are missing or wrong, or actions cannot be numbered.
    """

    def __init__(self, env: gym.Env[Any, Any], ranges: str | None = None) -> None:
        check_is("env", env, gym.Env, hint="gymnasium.make makes one")
        if not has_numbers(env.observation_space):
            raise ValueError(
                f"env must have observations of real numbers, got {env.observation_space}; "
                "privrl.envs.numbered is for others."
            )
        gym.utils.RecordConstructorArgs.__init__(self, ranges=ranges)
        super().__init__(env)
        self.axes = ranges_of(ranges, env.observation_space, env.spec.id if env.spec else "")
        low, high = np.array([(axis.low, axis.high) for axis in self.axes]).T
        self.observation_space = Box(low, high, dtype=np.float64)
        self.actions = _values_of_actions(env.action_space)
        space = env.action_space
        n = (
            int(space.n)
            if isinstance(space, Discrete)
            else 0
            if self.actions is None
            else len(self.actions)
        )
        self.action_space = Discrete(n)

    def reset(self, **options: Any) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """Start an episode."""
        seen, info = self.env.reset(**options)
        return self.state_of(seen), info

    def step(self, action: Any) -> tuple[NDArray[np.float64], Any, bool, bool, dict[str, Any]]:
        """Take one action, given by its number."""
        seen, reward, terminated, truncated, info = self.env.step(self.action_of(action))
        return self.state_of(seen), reward, terminated, truncated, info

    def action_of(self, number: Any) -> Any:
        """Return the environment's action for a number."""
        space = self.env.action_space
        if isinstance(space, Discrete):
            return number + space.start
        assert isinstance(space, Box)
        assert self.actions is not None
        return self.actions[int(number)].astype(space.dtype).reshape(space.shape)

    def state_of(self, seen: Any) -> NDArray[np.float64]:
        """Return the state of an observation.

        Raises
        ------
        ValueError
            If it is none of the environment's space, or holds NaN. Errors do not show it.
        """
        space, wanted = self.observation_space, sum(1 + axis.is_angle for axis in self.axes)
        assert isinstance(space, Box)
        try:
            values = [float(each) for each in values_of(self.env.observation_space, seen)]
        except (TypeError, ValueError, OverflowError, LookupError):
            values = []  # without the cause, which would show a value
        if len(values) != wanted or any(map(math.isnan, values)):
            raise ValueError(
                f"env must show observations of its space {self.env.observation_space}, of numbers "
                "that are not NaN, and one is none; check its reset and step."
            )
        following, state = iter(values), []
        for axis in self.axes:
            value = next(following)
            if axis.is_angle:
                value = math.atan2(next(following), value)
            state.append(value)
        found = np.array(state)
        return np.clip(found, space.low, space.high)


def _values_of_actions(space: Space[Any]) -> FloatArray | None:
    """Return the values of numbered actions, shape (n, k); None if they are numbers already."""
    if isinstance(space, Discrete):
        return None
    if not isinstance(space, Box):
        raise ValueError(f"env must have Discrete or Box actions, got {space}; pass bins.")
    low, high = space.low.ravel().astype(float), space.high.ravel().astype(float)
    if not (high - low < math.inf).all() or LEVELS ** len(low) > _MOST_ACTIONS:
        raise ValueError(
            f"env must have bounded actions of at most {int(math.log(_MOST_ACTIONS, LEVELS))} "
            f"numbers, got {space}."
        )
    even = [np.linspace(a, b, LEVELS) for a, b in zip(low, high, strict=True)]
    return np.array(list(product(*even)))
