"""Number states and actions of environments whose spaces are not Discrete."""

import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Dict, Discrete, Space
from gymnasium.vector import VectorEnv
from numpy.typing import ArrayLike

from privrl.envs.bins import PUBLIC, PUBLIC_BINS, edges_of
from privrl.envs.minigrid import Position, is_minigrid
from privrl.envs.spaces import Part, element_of, parts_of, values_of
from privrl.files.shown import shown, shown_env
from privrl.numerics.checks import as_floats, check_is, plain_float
from privrl.numerics.typing import BoolArray, FloatArray


class FlattenDiscrete(gym.ObservationWrapper[np.int64, Any, Any], gym.utils.RecordConstructorArgs):
    """Number the combinations of an observation's parts, the last part changing fastest.

    Blackjack-v1, whose observation is a Tuple of Discrete(32), Discrete(11) and Discrete(2),
    becomes an environment with the observation space Discrete(704).

    Parameters
    ----------
    env : gymnasium.Env
        Environment whose observation space is Discrete, MultiDiscrete, MultiBinary, a Box of
        whole numbers between bounds, or a Tuple or Dict of such. Wherever its parts start, states
        are numbered from 0; the parts of a Dict are in the order of its space.

    Raises
    ------
    ValueError
        If the observation space is another, or has too many combinations to be numbered.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        gym.utils.RecordConstructorArgs.__init__(self)
        super().__init__(env)
        self._parts = _whole(
            env.observation_space, "an observation space", "Discretised cuts real numbers into bins"
        )
        self.observation_space = _numbered([part.size for part in self._parts])

    def observation(self, observation: Any) -> np.int64:
        """Return the number of an observation.

        Raises
        ------
        ValueError
            If it lies outside the space that the environment declares.
        """
        number = 0
        values = values_of(self.env.observation_space, observation)
        for value, part in zip(values, self._parts, strict=True):
            number = number * part.size + _cell(part, value)
        return np.int64(number)


class FlattenActions(gym.ActionWrapper[Any, np.int64, Any], gym.utils.RecordConstructorArgs):
    """Number the combinations of an action's parts, the last part changing fastest.

    Parameters
    ----------
    env : gymnasium.Env
        Environment whose action space is of the kinds that `FlattenDiscrete` takes, with no more
        combinations than can be numbered.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        gym.utils.RecordConstructorArgs.__init__(self)
        super().__init__(env)
        self._parts = _whole(
            env.action_space,
            "an action space",
            "of continuous actions choose a few, and number them with "
            "gymnasium.wrappers.TransformAction",
        )
        self.action_space = _numbered([part.size for part in self._parts])

    def action(self, action: np.int64) -> Any:
        """Return the action that has a number.

        Raises
        ------
        ValueError
            If there is none.
        """
        if not self.action_space.contains(action):
            raise ValueError(f"action must be in {self.action_space}, got {shown(action)}.")
        number, values = int(action), []
        for part in reversed(self._parts):
            number, value = divmod(number, part.size)
            values.append(int(part.low) + value)
        return element_of(self.env.action_space, reversed(values))


class Discretised(gym.ObservationWrapper[np.int64, Any, Any], gym.utils.RecordConstructorArgs):
    """Number the boxes that edges cut an observation space into, the last part changing fastest.

    Parameters
    ----------
    env : gymnasium.Env
        Environment whose observation space is a Box, or a Tuple or Dict with Boxes in it; parts
        that are whole numbers stay as they are, as in `FlattenDiscrete`.
    bins : sequence of sequences of float
        For each real coordinate, flattened, the edges between its bins, finite and increasing:
        ``k`` of them make ``k + 1`` bins, and without any the coordinate is ignored. An edge
        belongs to the bin above it. The first bin takes everything below the first edge and the
        last one everything from the last edge on.

        They are a public fact: choose them from public knowledge of the task, such as its bounds,
        and never from private observations.

    Raises
    ------
    ValueError
        If the observation space has no Box, an edge is out of range, the number of sequences is not
        that of the coordinates, or the boxes are too many to be numbered.
    """

    def __init__(self, env: gym.Env[Any, Any], bins: Sequence[ArrayLike]) -> None:
        check_is("env", env, gym.Env)
        space = env.observation_space
        coordinates = sum(not part.is_whole for part in parts_of(space))
        if not coordinates:
            raise ValueError(
                f"env must have a Box observation space, got {space}; FlattenDiscrete numbers "
                "spaces that are made of Discrete ones."
            )
        if len(bins) != coordinates:
            raise ValueError(
                f"bins must hold edges for each of {coordinates} coordinates, got {len(bins)}; "
                "give [] for one to be ignored."
            )
        self._edges = [_checked_edges(i, edges) for i, edges in enumerate(bins)]
        # As lists, so that the environment's spec can be saved.
        gym.utils.RecordConstructorArgs.__init__(self, bins=self._edges)
        super().__init__(env)
        edges = iter(self._edges)
        self._space = space
        self._cuts = [(part, None if part.is_whole else next(edges)) for part in parts_of(space)]
        self._sizes = [part.size if cut is None else len(cut) + 1 for part, cut in self._cuts]
        self.observation_space = _numbered(self._sizes)

    @property
    def ordered(self) -> tuple[int, ...]:
        """How many bins each coordinate has, if all are real and so have an order; else ()."""
        real = all(cut is not None for _, cut in self._cuts)
        return tuple(self._sizes) if real else ()

    def observation(self, observation: Any) -> np.int64:
        """Return the number of an observation's box.

        Raises
        ------
        ValueError
            If a coordinate is NaN, or a whole one is outside its bounds.
        """
        number, values = 0, values_of(self._space, observation)
        for value, (part, cut), size in zip(values, self._cuts, self._sizes, strict=True):
            if cut is None:
                cell = _cell(part, value)
            elif math.isnan(value):
                raise ValueError("observation must hold numbers, got NaN; look into the env.")
            else:
                cell = bisect_right(cut, value)
            number = number * size + cell
        return np.int64(number)


def clipped(reward: ArrayLike, low: float, high: float) -> tuple[FloatArray, BoolArray]:
    """Return rewards put into their public range, and which ones left it by rounding at most.

    An operation on numbers of the range, in a type with machine epsilon ``e``, rounds by at most
    ``e / 2 * max(|low|, |high|)``. Eight such errors are tolerated: ``np.float32(-1.1)`` is less
    than -1.1, and ``0.1 * 3`` is more than 0.3. The rewards returned never leave the range, so
    sensitivity does not depend on the tolerance.

    Parameters
    ----------
    reward : array_like of numbers, shape (...)
        Numbers that float32 holds exactly count as float32: environments compute in float32, and
        arrays convert. NaN is outside.
    low, high : float
        The range.

    Returns
    -------
    rewards : array of float, shape (...)
    inside : array of bool, shape (...)
    """
    given = np.asarray(reward)
    with np.errstate(all="ignore"):
        values = given.astype(np.float64)
        single = values.astype(np.float32) == values
    epsilon = np.finfo(np.float16 if given.dtype == np.float16 else np.float32).eps
    slack = 4 * np.where(single, epsilon, np.finfo(np.float64).eps) * max(abs(low), abs(high))
    inside: BoolArray = (values >= low - slack) & (values <= high + slack)
    return np.clip(values, low, high), inside


class InRange(gym.RewardWrapper[Any, Any], gym.utils.RecordConstructorArgs):
    """Refuse the first reward outside a declared range; put what rounding moved out back in.

    Parameters
    ----------
    env : gymnasium.Env
        Whose rewards.
    low, high : float
        Their declared, public range.
    """

    def __init__(self, env: gym.Env[Any, Any], low: float, high: float) -> None:
        gym.utils.RecordConstructorArgs.__init__(self, low=low, high=high)
        super().__init__(env)
        self._low, self._high = low, high

    def reward(self, reward: SupportsFloat) -> SupportsFloat:
        """Return the reward; see `clipped` for the rounding that is tolerated.

        Raises
        ------
        ValueError
            If it lies outside, or is not a number.
        """
        try:
            number = reward if type(reward) is float else plain_float("reward", reward)
        except ValueError:
            raise ValueError(
                f"env must pay numbers, and a reward of {shown_env(self.env)} is none; check its "
                "step."
            ) from None
        if self._low <= number <= self._high:
            return number
        near, inside = clipped(reward, self._low, self._high)  # type: ignore[arg-type] # a number
        if not inside:
            raise ValueError(
                f"reward_range must hold every reward, and {shown_env(self.env)} paid one outside "
                f"{self._low:g},{self._high:g}; give the least and the greatest that it can ever "
                "pay by its rules, as --reward-range=LOW,HIGH, and never what was seen."
            )
        return float(near)


def numbered(env: gym.Env[Any, Any], bins: str | None = None) -> gym.Env[Any, Any]:
    """Return an environment with Discrete spaces: itself, or in the wrappers that it needs.

    Parameters
    ----------
    env : gymnasium.Env
        Whose observations are of a finite space (`FlattenDiscrete`), have a Box (`Discretised`) or
        are a MiniGrid's (`privrl.envs.minigrid.Position`), and actions of a finite space
        (`FlattenActions`).
    bins : str, optional
        What a Box is cut into, see `privrl.envs.bins.edges_of`; by default, or if ``"public"``, the
        bins that `privrl.envs.bins.PUBLIC_BINS` has for the environment's id.

    Raises
    ------
    ValueError
        If a space cannot be numbered, a Box has no bins, or ``bins`` does not fit.
    """
    bins = None if bins == PUBLIC else bins
    if isinstance(env, VectorEnv):
        raise ValueError(
            "env must be one environment, got several side by side; number each of them: "
            "gymnasium.make_vec(..., wrappers=(numbered,))."
        )
    check_is("env", env, gym.Env)
    if not isinstance(env.action_space, Discrete):
        env = FlattenActions(env)
    if is_minigrid(env) and isinstance(env.observation_space, Dict):
        env = Position(env)
    space = env.observation_space
    if all(part.is_whole for part in parts_of(space)):
        if bins is not None:
            raise ValueError(
                f"bins are for real numbers in an observation space, got {space}; leave them out."
            )
        return env if isinstance(space, Discrete) else FlattenDiscrete(env)
    name = env.spec.id if env.spec else ""
    if bins is None and name not in PUBLIC_BINS:
        raise ValueError(
            f"bins must be given for the observation space {space}: one number for all real "
            "coordinates (12), or a number, LOW:HIGH:NUMBER (-2.4:2.4:6) or edges (-0.8/0.8) for "
            "each, with commas between; choose them by what is known of the task."
        )
    return Discretised(env, PUBLIC_BINS[name] if bins is None else edges_of(bins, space))


def _whole(space: Space[Any], role: str, otherwise: str) -> list[Part]:
    """Return the parts of a space that consists of whole numbers."""
    parts = parts_of(space)
    if not all(part.is_whole for part in parts):
        raise ValueError(
            f"env must have {role} of Discrete, MultiDiscrete, MultiBinary, Tuple and Dict, got "
            f"{space}; {otherwise}."
        )
    return parts


def _cell(part: Part, value: Any) -> int:
    """Return which of the values of a whole number it is."""
    if not part.low <= value <= part.high:
        raise ValueError(
            "observation must lie in the observation space of env, got one that does not; look "
            "into the env."
        )
    return int(value) - int(part.low)


def _numbered(sizes: list[int]) -> Discrete:
    """Return the space of the numbers of all combinations."""
    total = math.prod(sizes)
    if total > np.iinfo(np.int64).max:
        raise ValueError(
            "env must have fewer than 2**63 combinations to be numbered, got more than "
            f"2**{total.bit_length() - 1}; merge or leave out some parts first."
        )
    return Discrete(total)


def _checked_edges(coordinate: int, edges: ArrayLike) -> list[float]:
    checked = as_floats("bins", edges)
    if checked.ndim != 1 or not np.isfinite(checked).all():
        raise ValueError(
            f"bins must hold one sequence of finite edges per coordinate, got {shown(edges)} for "
            f"coordinate {coordinate}; end bins reach to infinity by themselves."
        )
    values: list[float] = checked.tolist()
    if not all(low < high for low, high in pairwise(values)):
        raise ValueError(
            f"bins must hold increasing edges, got {shown(edges)} for coordinate {coordinate}; "
            "sort them and leave out duplicates."
        )
    return values
