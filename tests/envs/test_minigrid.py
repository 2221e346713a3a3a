"""MiniGrid by position: against what its own full picture of the grid shows."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Discrete

from privrl.agents import PSRL
from privrl.envs import numbered
from privrl.envs.minigrid import Position
from privrl.envs.toy_text import episode_limit
from privrl.envs.wrappers import FlattenDiscrete

pytestmark = pytest.mark.needs("minigrid")
NAMES = {"MiniGrid-Empty-5x5-v0": 100, "MiniGrid-DoorKey-5x5-v0": 600}


def made(name: str) -> gym.Env:
    return gym.make(f"minigrid:{name}")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "size"), NAMES.items())
def test_states_are_what_the_full_picture_shows(name: str, size: int) -> None:
    """Two moments of one map have one number if and only if picture and load are the same.

    Nothing is put down here: where, a state does not tell.
    """
    env = numbered(made(name))
    assert isinstance(env, Position)
    assert env.observation_space == Discrete(size)
    assert env.action_space == Discrete(7)
    rng, grid, seen = np.random.default_rng(0), env.unwrapped, {}
    state, _ = env.reset(seed=1)
    for _ in range(4000):
        picture = grid.grid.encode()
        picture[tuple(grid.agent_pos)] = (10, 0, grid.agent_dir)
        key = (picture.tobytes(), grid.carrying is not None)
        assert 0 <= state < size
        assert type(state) is np.int64
        assert seen.setdefault(int(state), key) == key
        state, _, terminated, truncated, _ = env.step(rng.choice([0, 1, 2, 2, 3, 5]))
        if terminated or truncated:
            state, _ = env.reset(seed=1)
    assert len(set(seen.values())) == len(seen) > 30


def test_its_own_limit_is_read() -> None:
    env = numbered(made("MiniGrid-Empty-5x5-v0"))
    assert episode_limit(env) == env.unwrapped.max_steps == 100


def test_other_doors_are_refused() -> None:
    env = numbered(made("MiniGrid-DoorKey-5x5-v0"))
    env._doors = 0
    with pytest.raises(ValueError, match="same doors and things to carry in each episode"):
        env.reset()


def test_actions_and_rewards_stay_as_they_are() -> None:
    """The best way has five steps, of at most 100: a reward of 1 - 0.9 * 5 / 100."""
    env = numbered(made("MiniGrid-Empty-5x5-v0"))
    env.reset(seed=0)
    paid = [env.step(action)[1] for action in (2, 2, 1, 2, 2)]
    assert paid == [0, 0, 0, 0, pytest.approx(0.955)]


def test_others_are_refused() -> None:
    with pytest.raises(ValueError, match="env must be a MiniGrid"):
        Position(gym.make("Blackjack-v1"))
    assert isinstance(numbered(gym.make("Blackjack-v1")), FlattenDiscrete)


@pytest.mark.parametrize("bonus", ["ActionBonus", "PositionBonus"])
def test_bonuses_that_count_all_visits_are_refused(bonus: str) -> None:
    from minigrid import wrappers  # noqa: PLC0415

    env = getattr(wrappers, bonus)(made("MiniGrid-Empty-5x5-v0"))
    with pytest.raises(ValueError, match=f"env must not contain {bonus}, because what that"):
        PSRL.private(numbered(env), epsilon=1)
