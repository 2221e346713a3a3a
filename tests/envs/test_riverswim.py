import pickle

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from oracle_tabular import FALSE_ALARM, p_value

from privrl._registration import register_envs
from privrl.envs import TabularMDP, riverswim
from privrl.envs.planning import evaluate
from privrl.envs.riverswim import RiverSwimEnv

register_envs()

ENV_ID = "privrl/RiverSwim-v0"
VARIANTS = ["osband", "strehl", "dps"]
LEFT, RIGHT = 0, 1


def always(action, mdp):
    return np.full((mdp.horizon, mdp.n_states), action)


def play(env, seed, steps=60):
    """Act at random and return everything that was seen."""
    rng = np.random.default_rng(seed)
    seen = [env.reset(seed=seed)]
    for _ in range(steps):
        seen.append(env.step(int(rng.integers(2))))
        if seen[-1][3]:
            seen.append(env.reset())
    return seen


# The tables


@pytest.mark.parametrize(
    ("horizon", "optimal", "right", "left", "uniform"),
    [(20, 3.3973, 3.3966, 0.10, 0.044), (30, 7.5208, 7.5207, 0.15, 0.071)],
)
def test_values_in_the_literature(horizon, optimal, right, left, uniform):
    mdp = riverswim(horizon=horizon)
    assert mdp.optimal_value() == pytest.approx(optimal, abs=5e-5)
    assert mdp.policy_value(always(RIGHT, mdp)) == pytest.approx(right, abs=5e-5)
    assert mdp.policy_value(always(LEFT, mdp)) == pytest.approx(left, abs=1e-12)
    transition, reward = (
        table.mean(axis=1, keepdims=True) for table in (mdp.transition, mdp.expected_reward)
    )
    drift = evaluate(transition, reward, np.zeros((horizon, 6), dtype=int)) @ mdp.start
    assert drift == pytest.approx(uniform, abs=5e-4)


def test_value_of_the_dps_variant():
    assert riverswim(variant="dps").optimal_value() == pytest.approx(8.655, abs=5e-4)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("n_states", [3, 6, 11])
def test_the_river_flows_left(variant, n_states):
    mdp = riverswim(n_states, 5, variant)
    assert (mdp.n_states, mdp.n_actions, mdp.horizon) == (n_states, 2, 5)
    left, right = mdp.transition[:, LEFT], mdp.transition[:, RIGHT]
    expected = np.eye(n_states, k=-1)
    expected[0, 0] = 1.0
    np.testing.assert_array_equal(left, expected)
    np.testing.assert_array_equal(np.tril(np.triu(right, -1), 1), right)
    middle = {"osband": (0.05, 0.6, 0.35), "strehl": (0.1, 0.6, 0.3), "dps": (0.05, 0.6, 0.35)}
    for state in range(1, n_states - 1):
        assert tuple(right[state, state - 1 : state + 2]) == middle[variant]
    ends = {"osband": (0.6, 0.6), "strehl": (0.3, 0.3), "dps": (0.6, 0.6)}
    assert (right[0, 1], right[-1, -1]) == ends[variant]


@pytest.mark.parametrize(
    ("variant", "rewarded", "start"),
    [
        ("osband", [(np.s_[0, LEFT, :], 0.005), (np.s_[-1, RIGHT, :], 1.0)], {0: 1.0}),
        ("strehl", [(np.s_[0, LEFT, 0], 5.0), (np.s_[-1, RIGHT, -1], 1e4)], {1: 0.5, 2: 0.5}),
        ("dps", [(np.s_[:, :, 0], 0.005), (np.s_[:, :, -1], 1.0)], {1: 1.0}),
    ],
)
def test_rewards_and_starts(variant, rewarded, start):
    mdp = riverswim(n_states=7, variant=variant)
    expected = np.zeros((7, 2, 7))
    for cells, reward in rewarded:
        expected[cells] = reward
    np.testing.assert_array_equal(np.broadcast_to(mdp.reward_table, (7, 2, 7)), expected)
    assert {s: p for s, p in enumerate(mdp.start) if p > 0} == start


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_states": 2}, "n_states must be .* >= 3, got 2"),
        ({"n_states": 6.0}, "n_states must be"),
        ({"n_states": np.nan}, "n_states must be"),
        ({"horizon": 0}, "horizon must be"),
        ({"variant": "osbund"}, "one of osband, strehl, dps, got 'osbund'; did you mean 'osband'?"),
        ({"variant": "xyz"}, "got 'xyz'; 'osband' is the default"),
        ({"variant": None}, "variant must be one of"),
    ],
)
def test_arguments_out_of_range_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        riverswim(**arguments)
    with pytest.raises(ValueError, match=message):
        RiverSwimEnv(**arguments)


# The environment


@pytest.mark.few(9)
@pytest.mark.parametrize("variant", VARIANTS)
def test_gymnasium_accepts_it(variant):
    check_env(gym.make(ENV_ID, variant=variant).unwrapped)
    check_env(gym.make(ENV_ID, variant=variant, n_states=3, horizon=2).unwrapped)


def test_registering_again_changes_nothing():
    before = gym.registry[ENV_ID]
    register_envs()
    assert gym.registry[ENV_ID] is before


def test_make_passes_its_arguments_on():
    env = gym.make(ENV_ID, n_states=9, horizon=12, variant="dps", render_mode="ansi")
    expected = riverswim(9, 12, "dps")
    np.testing.assert_array_equal(env.unwrapped.mdp.transition, expected.transition)
    assert env.unwrapped.mdp.horizon == 12
    assert env.observation_space == gym.spaces.Discrete(9)
    assert env.action_space == gym.spaces.Discrete(2)
    assert env.render_mode == "ansi"


@pytest.mark.parametrize("horizon", [1, 20])
def test_an_episode_ends_at_the_horizon(horizon):
    env = gym.make(ENV_ID, horizon=horizon)
    for _ in range(2):
        env.reset(seed=1)
        ends = [env.step(RIGHT)[2:4] for _ in range(horizon)]
        assert ends == [(False, False)] * (horizon - 1) + [(False, True)]


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_seed_fixes_everything(variant):
    make = {"id": ENV_ID, "variant": variant}
    assert play(gym.make(**make), seed=3) == play(gym.make(**make), seed=3)
    assert play(gym.make(**make), seed=3) != play(gym.make(**make), seed=4)


def test_the_environment_ignores_the_global_seed():
    env = RiverSwimEnv()
    np.random.seed(0)  # noqa: NPY002
    first = play(env, seed=3)
    np.random.seed(1)  # noqa: NPY002
    assert play(env, seed=3) == first


def test_a_pickle_goes_on_where_it_was():
    env = RiverSwimEnv(variant="strehl", horizon=200)
    env.reset(seed=8)
    for _ in range(5):
        env.step(RIGHT)
    copy = pickle.loads(pickle.dumps(env))
    assert [env.step(RIGHT) for _ in range(100)] == [copy.step(RIGHT) for _ in range(100)]


@pytest.mark.parametrize("variant", VARIANTS)
def test_its_tables_read_back(variant):
    env = gym.make(ENV_ID, n_states=5, horizon=7, variant=variant)
    read, made = TabularMDP.from_gymnasium(env, horizon=7), riverswim(5, 7, variant)
    np.testing.assert_array_equal(read.transition, made.transition)
    np.testing.assert_array_equal(read.start, made.start)
    np.testing.assert_allclose(read.expected_reward, made.expected_reward, rtol=1e-12)
    assert read.reward_range == made.reward_range


@pytest.mark.slow
def test_steps_follow_the_tables():
    """Chi-square, 10000 steps to the right from each state; the last line is the power check."""
    env, mdp, times = RiverSwimEnv(horizon=10**6), riverswim(), 10_000
    env.reset(seed=11)
    counts = np.zeros((6, 6), dtype=int)
    for state in range(6):
        for _ in range(times):
            env._state = state
            following, reward, *_ = env.step(RIGHT)
            assert reward == (1.0 if state == 5 else 0.0)
            counts[state, following] += 1
    right = mdp.transition[:, RIGHT]
    assert (counts[right == 0] == 0).all()
    possible = right > 0
    assert p_value(counts[possible], right[possible] / 6) > FALSE_ALARM

    wrong = np.where(right == 0.6, 0.6 * 0.95, np.where(right == 0.4, 0.43, right))
    wrong[right == 0.35] = 0.38
    np.testing.assert_allclose(wrong.sum(axis=1), 1.0)
    assert p_value(counts[possible], wrong[possible] / 6) < FALSE_ALARM


def test_starts_follow_their_distribution():
    """Chi-square, 10000 resets."""
    env = RiverSwimEnv(variant="strehl")
    env.reset(seed=2)
    starts = np.bincount([env.reset()[0] for _ in range(10_000)], minlength=6)
    assert starts[1] + starts[2] == 10_000
    assert p_value(starts[1:3], [0.5, 0.5]) > FALSE_ALARM


def test_extreme_draws_take_a_possible_step():
    class ConstantDraws:
        def __init__(self, draw):
            self.draw = draw

        def random(self):
            return self.draw

    for draw, following in ((0.0, 1), (1 - 2.0**-53, 3)):
        env = RiverSwimEnv()
        env.reset(seed=0)
        env._state, env.np_random = 2, ConstantDraws(draw)
        assert env.step(RIGHT)[0] == following


def test_misuse_is_an_error():
    env = RiverSwimEnv()
    with pytest.raises(gym.error.ResetNeeded, match=r"call reset\(\) first"):
        env.step(LEFT)
    with pytest.raises(gym.error.ResetNeeded, match=r"call reset\(\) first"):
        env.render()
    env.reset(seed=0)
    for action in (2, -1, 0.5, None):
        with pytest.raises(ValueError, match=r"action must be a whole number in 0\.\.1"):
            env.step(action)
    with pytest.raises(ValueError, match="render_mode must be None, 'ansi' or 'rgb_array'"):
        RiverSwimEnv(render_mode="human")
