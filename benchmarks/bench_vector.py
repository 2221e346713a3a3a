"""Vector environments: steps per second of ours and Gymnasium's."""

import gymnasium as gym
import numpy as np
import pytest

from privrl.envs import riverswim

_NATIVE = (1, 8, 64, 512, 4096, 32_768)
_ONE_BY_ONE = (1, 8, 64, 512, 4096)


@pytest.mark.parametrize("num_envs", _NATIVE)
def test_native(measure, quick, num_envs):
    env = gym.make_vec("privrl/RiverSwim-v0", num_envs=num_envs)
    _step(measure, "native", env, 100_000 if quick else 400_000)


@pytest.mark.parametrize("num_envs", _NATIVE)
def test_gymnasiums_native(measure, num_envs):
    env = gym.make_vec("CartPole-v1", num_envs=num_envs, vectorization_mode="vector_entry_point")
    _step(measure, "CartPole native", env, 30_000)


@pytest.mark.parametrize("num_envs", _ONE_BY_ONE)
@pytest.mark.parametrize("name", ["privrl/RiverSwim-v0", "FrozenLake-v1"])
def test_one_by_one(measure, name, num_envs):
    env = gym.make_vec(name, num_envs=num_envs, vectorization_mode="sync")
    what = "RiverSwim one by one" if "RiverSwim" in name else "FrozenLake one by one"
    _step(measure, what, env, 3000)


@pytest.mark.parametrize("num_envs", _NATIVE)
def test_floor(measure, num_envs):
    """What no table can be stepped without: a draw for everybody, and where it lies in the table.

    The states are those in which random actions leave the environments, since how well a
    processor foresees a search depends on them.
    """
    env, rng = gym.make_vec("privrl/RiverSwim-v0", num_envs=num_envs), np.random.default_rng(0)
    states, _ = env.reset(seed=0)
    for _ in range(29):
        states = env.step(rng.integers(2, size=num_envs))[0]
    rows = riverswim().transition.reshape(-1, 6)
    row, next_state = np.nonzero(rows)
    table = row + np.cumsum(rows, axis=1)[row, next_state]
    here = states * 2.0 + rng.integers(2, size=num_envs)
    draws = np.empty((max(1, 2**14 // num_envs), num_envs))
    repeats = max(1, 100_000 // draws.size)

    def draw() -> None:
        for _ in range(repeats):
            rng.random(out=draws)
            for uniform in draws:
                table.searchsorted(here + uniform, side="right")

    measure("floor", draw, at=num_envs, work=repeats * draws.size)


def _step(measure, what, env, steps):
    """Take about so many steps in all, with actions that were drawn beforehand."""
    n_steps = max(3, min(steps // env.num_envs, 5000))
    rng = np.random.default_rng(0)
    actions = rng.integers(env.single_action_space.n, size=(n_steps, env.num_envs))
    env.reset(seed=0)

    def play() -> None:
        for action in actions:
            env.step(action)

    measure(what, play, at=env.num_envs, work=actions.size)
    env.close()
