"""Public ranges of continuous observations, and the wrapper that keeps states within them."""

import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary

from privrl.envs import Ranged, numbered
from privrl.envs.facts import limits_of
from privrl.envs.ranges import PUBLIC_RANGES, Axis, check_ranges, has_numbers, ranges_of


class Bare(gym.Env[Any, Any]):
    """Shows what it is told to show."""

    def __init__(self, seen: Any, observations: Any, actions: Any = None) -> None:
        self.seen, self.observation_space = seen, observations
        self.action_space = Discrete(2, start=5) if actions is None else actions
        self.taken: list[Any] = []

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        super().reset(**options)
        return self.seen, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.taken.append(action)
        return self.seen, 0.5, False, False, {}


def test_states_are_within_their_ranges() -> None:
    seen = np.array([math.cos(3.0), math.sin(3.0), 9.0, -0.5])
    env = Ranged(Bare(seen, Box(-np.inf, np.inf, (4,))), "angle, -2:2, -1:1")
    state, _ = env.reset()
    assert state.tolist() == pytest.approx([3.0, 2.0, -0.5])
    assert env.observation_space.contains(state)
    assert env.axes == [Axis(-math.pi, math.pi, is_angle=True), Axis(-2, 2), Axis(-1, 1)]


def test_observations_may_have_parts() -> None:
    space = Dict({"a": Box(0, 1, (2,)), "b": Box(-1, 3, (1,))})
    env = Ranged(Bare({"a": np.array([0.2, 0.4]), "b": np.array([5.0])}, space))
    assert env.reset()[0].tolist() == pytest.approx([0.2, 0.4, 3.0])


def test_actions_are_numbered() -> None:
    env = Ranged(Bare(np.zeros(1), Box(0, 1, (1,))))
    env.reset()
    env.step(1)
    assert env.unwrapped.taken == [6]
    space = Box(np.float32([-1, 0]), np.float32([1, 4]), dtype=np.float32)
    env = Ranged(Bare(np.zeros(1), Box(0, 1, (1,)), space))
    assert env.action_space == Discrete(25)
    env.reset()
    env.step(24)
    env.step(1)
    assert [taken.tolist() for taken in env.unwrapped.taken] == [[1.0, 4.0], [-1.0, 1.0]]
    assert env.unwrapped.taken[0].dtype == np.float32


@pytest.mark.parametrize("name", [*PUBLIC_RANGES, "MountainCar-v0"])
def test_known_tasks_need_nothing_said(name: str) -> None:
    env = Ranged(gym.make(name))
    assert limits_of(env)[0] in (200, 500)
    env.reset(seed=0)
    for _ in range(100):
        state, _, terminated, truncated, _ = env.step(env.action_space.sample())
        assert env.observation_space.contains(state)
        if terminated or truncated:
            env.reset()


@pytest.mark.parametrize(
    ("ranges", "said"),
    [
        ("1", "LOW:HIGH"),
        ("1:0", "LOW:HIGH"),
        ("0:inf", "LOW:HIGH"),
        ("nan:1", "LOW:HIGH"),
        ("Angle", "angle for a"),
        (7, "ranges must be"),
    ],
)
def test_texts_are_checked(ranges: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        check_ranges(ranges)


def test_ranges_must_fit_and_be_known() -> None:
    with pytest.raises(ValueError, match="for the 2 coordinates"):
        ranges_of("0:1", Box(0, 1, (2,)))
    with pytest.raises(ValueError, match="for the 2 coordinates"):
        ranges_of("0:1,angle", Box(0, 1, (2,)))
    with pytest.raises(ValueError, match="ranges must be given"):
        ranges_of(None, Box(-np.inf, np.inf, (1,)))


def test_other_spaces_are_refused() -> None:
    assert not has_numbers(Discrete(3))
    assert not has_numbers(Dict({"a": Box(0, 1, (1,)), "b": Discrete(2)}))
    assert not has_numbers(gym.spaces.Text(3))
    with pytest.raises(ValueError, match="observations of real numbers"):
        Ranged(numbered(gym.make("CartPole-v1")))
    for actions in (MultiBinary(2), Box(-np.inf, np.inf, (1,)), Box(0, 1, (9,))):
        with pytest.raises(ValueError, match="env must have"):
            Ranged(Bare(np.zeros(1), Box(0, 1, (1,)), actions))
    with pytest.raises(ValueError, match="NaN"):
        Ranged(Bare(np.array([np.nan]), Box(0, 1, (1,)))).reset()
