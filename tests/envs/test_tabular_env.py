"""Any tables, played: the same law, the same ends, and Gymnasium's own checks."""

import copy
import pickle

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from oracle_tabular import FALSE_ALARM, p_value, play, random_mdp
from scipy.stats import norm

from privrl.agents import PSRL
from privrl.envs import (
    TabularEnv,
    TabularMDP,
    TabularVectorEnv,
    load_tables,
    riverswim,
    save_tables,
)
from privrl.envs.exploration import deep_sea, key_and_door
from privrl.envs.random_tables import garnet

ENV_ID = "privrl.envs:privrl/Tabular-v0"
LAKE = TabularMDP.from_gymnasium(gym.make("FrozenLake-v1"), 100)
TABLES = [random_mdp(np.random.default_rng(0)), riverswim(variant="dps"), deep_sea(3), LAKE]


class Draws:
    """A generator of given numbers."""

    def __init__(self, *draws):
        self.draws = list(draws)

    def random(self):
        return self.draws.pop(0)


@pytest.mark.parametrize("mdp", TABLES)
def test_gymnasium_is_content(mdp):
    env = gym.make(ENV_ID, mdp=mdp)
    check_env(env.unwrapped)
    assert env.unwrapped.observation_space == gym.spaces.Discrete(mdp.n_states)
    assert env.unwrapped.action_space == gym.spaces.Discrete(mdp.n_actions)


@pytest.mark.parametrize(("off", "elsewhere"), [(-5e-10, 0), (0, 0), (5e-10, 0), (0, 4e-10)])
def test_episodes_end_where_their_tables_say(off, elsewhere):
    """However rows are rounded: an agent of the tables met ends that they did not have."""
    transition = np.full((3, 2, 3), 0.5) * [[[0, 1, 1]], [[1, 0, 1]], [[0, 0, 0]]]
    transition[2, :, 2], transition[2, :, 0] = 1 + off, elsewhere
    mdp = TabularMDP(transition, np.repeat([[1.0], [1.0], [0.0]], 2, axis=1), np.eye(3)[0], 5)
    env = TabularEnv(mdp)
    assert mdp.ends[2] == (not elsewhere)
    assert {end for _, to, _, end in env.P[0][0] if to == 2} == {bool(mdp.ends[2])}
    agent = PSRL.private(mdp, epsilon=1.0, episodes=4, rng=0)
    assert agent.learn(env=env, rng=0).episodes_done == 4


@pytest.mark.few(2)
@pytest.mark.parametrize("arrivals", [False, True])
def test_the_law_of_the_steps(arrivals):
    """Chi-square per row, 20000 steps, each row at FALSE_ALARM / 6; the last line is the power.

    A row of about 3000 steps with a probability that is .1 off is as good as never taken for
    right.
    """
    rng = np.random.default_rng(5)
    mdp = random_mdp(rng, horizon=7)
    if arrivals:
        mdp = TabularMDP(mdp.transition, rng.random((3, 2, 3)), mdp.start, 7)
    env = TabularEnv(mdp)
    counts, first = np.zeros((3, 2, 3), dtype=int), np.zeros(3, dtype=int)
    state = int(env.reset(seed=8)[0])
    for step in range(20_000):
        action = step // 7 % 2
        arrival, paid, over, cut, _ = env.step(action)
        assert paid == np.broadcast_to(mdp.reward_table, (3, 2, 3))[state, action, arrival]
        assert (over, cut) == (False, step % 7 == 6)
        counts[state, action, arrival] += 1
        state = int(arrival)
        if cut:
            state = int(env.reset()[0])
            first[state] += 1
    rows, chances = counts.reshape(6, 3), mdp.transition.reshape(6, 3)
    assert all(p_value(*row) > FALSE_ALARM / 6 for row in zip(rows, chances, strict=True))
    assert p_value(first, mdp.start) > FALSE_ALARM
    for row, chance in zip(rows, chances, strict=True):
        off = np.where(np.arange(3) == chance.argmax(), -0.1, 0.05)
        assert p_value(row, chance + off) < FALSE_ALARM / 6


@pytest.mark.slow
def test_returns_until_the_end_are_those_of_the_tables():
    """Means of 1500 and 3072 episodes on the lake, by one env and by many, at FALSE_ALARM.

    A deviation is below .5, so a mean that is .1 off fails but for one time in 1000.
    """
    policy, value = LAKE.plan()
    bound = norm.isf(FALSE_ALARM / 2) * 0.5
    env = TabularEnv(LAKE)
    env.reset(seed=1)
    total = 0.0
    for _ in range(1500):
        state, _ = env.reset()
        for actions in policy:
            state, paid, over, _, _ = env.step(actions[state])
            total += paid
            if over:
                break
    assert abs(total / 1500 - value) < bound / np.sqrt(1500)

    many = TabularVectorEnv(3072, LAKE, autoreset_mode="Disabled")
    states, _ = many.reset(seed=1)
    paid = 0.0
    for actions in policy:
        states, rewards, *_ = many.step(actions[states])
        paid += rewards.sum()
    assert abs(paid / 3072 - value) < bound / np.sqrt(3072)


@pytest.mark.parametrize("mdp", TABLES)
def test_a_seed_fixes_everything(mdp):
    one, same, other = (play(TabularEnv(mdp), seed) for seed in (3, 3, 4))
    assert one == same
    assert one != other


def test_a_copy_goes_on_alike():
    env = TabularEnv(TABLES[0])
    play(env, 2, steps=3)
    twins = [pickle.loads(pickle.dumps(env)), copy.deepcopy(env)]
    ahead = [env.step(0) for _ in range(20)]
    for twin in twins:
        assert [twin.step(0) for _ in range(20)] == ahead


def test_the_end_is_where_nothing_is_paid_for_ever():
    """States: 0 leads on, 1 rests and pays, 2 rests, 3 can be left, 4 rests under one action."""
    transition = np.zeros((5, 2, 5))
    transition[0, :, 0] = 1
    transition[[1, 2], :, [1, 2]] = 1
    transition[3] = 0.2
    transition[4, 0, 4] = transition[4, 1, 0] = 1
    reward = np.zeros((5, 2))
    reward[1] = 1
    reward[0] = -1
    mdp = TabularMDP(transition, reward, np.full(5, 0.2), horizon=9)
    env = TabularEnv(mdp)
    env.reset(seed=0)
    ends = set()
    for _ in range(200):
        env.reset()
        state, _, over, _, _ = env.step(0)
        assert over == (state == 2)
        ends.add(int(state))
    assert ends == {0, 1, 2, 3, 4}
    outcomes = (o for actions in env.P.values() for outs in actions.values() for o in outs)
    assert all(ended == (to == 2) for _, to, _, ended in outcomes)


def test_rewards_on_arrival_keep_a_state_from_being_the_end():
    mdp = TabularMDP(np.ones((1, 1, 1)), np.full((1, 1, 1), 0.5), [1.0], horizon=2)
    env = TabularEnv(mdp)
    env.reset(seed=0)
    assert env.step(0) == (0, 0.5, False, False, {})
    assert env.step(0) == (0, 0.5, False, True, {})


def test_the_last_step_may_be_the_end():
    env = TabularEnv(deep_sea(2))
    env.reset(seed=0)
    assert env.step(1)[2:4] == (False, False)
    assert env.step(1) == (4, pytest.approx(0.995), True, True, {})


def test_extreme_draws_are_possible_moves():
    transition = np.array([[[0.0, 0.3, 0.7 - 1e-10, 0.0]]] * 4)  # misses 1 by a little
    start = [0.0, 0.5, 0.5, 0.0]
    env = TabularEnv(TabularMDP(transition, np.zeros((4, 1)), start, 5))
    most = np.nextafter(1.0, 0.0)
    env.np_random = Draws(0.0, 0.0, most, most, most)
    assert [env.reset()[0], env.step(0)[0], env.step(0)[0]] == [1, 1, 2]
    assert [env.reset()[0], env.step(0)[0]] == [2, 2]


@pytest.mark.parametrize("mdp", [*TABLES, key_and_door(3), garnet(5, 2, 3, 4, 0)])
def test_its_tables_are_those_it_came_from(mdp):
    env = TabularEnv(mdp)
    assert env.horizon == mdp.horizon
    read = TabularMDP.from_gymnasium(env)
    np.testing.assert_array_equal(read.transition, mdp.transition)
    np.testing.assert_array_equal(read.start, mdp.start)
    np.testing.assert_allclose(read.expected_reward, mdp.expected_reward, rtol=1e-12)
    assert read.horizon == mdp.horizon


def test_tables_from_a_file(tmp_path):
    path = tmp_path / "tables.npz"
    save_tables(path, LAKE)
    env = gym.make(ENV_ID, path=str(path))
    assert play(env.unwrapped, 0) == play(TabularEnv(LAKE), 0)
    assert play(gym.make(ENV_ID, mdp=load_tables(path)).unwrapped, 0) == play(TabularEnv(LAKE), 0)
    assert gym.make(env.spec).unwrapped.mdp.n_states == 16


def test_many_side_by_side():
    envs = gym.make_vec(ENV_ID, num_envs=3, vectorization_mode="sync", mdp=LAKE)
    states, _ = envs.reset(seed=0)
    assert states.tolist() == [0, 0, 0]
    assert envs.step(np.array([0, 1, 2]))[0].shape == (3,)
    envs.close()


def test_what_is_no_task_is_refused(tmp_path):
    with pytest.raises(ValueError, match="mdp or path must be given, got neither"):
        gym.make(ENV_ID)
    with pytest.raises(ValueError, match="mdp or path must be given, got both"):
        TabularEnv(LAKE, path="tables.npz")
    with pytest.raises(ValueError, match="mdp must be a TabularMDP, got str"):
        TabularEnv("tables.npz")
    with pytest.raises(FileNotFoundError):
        TabularEnv(path=tmp_path / "none.npz")


def test_stepping_out_of_turn_is_refused():
    env = TabularEnv(LAKE)
    with pytest.raises(gym.error.ResetNeeded, match="call reset"):
        env.step(0)
    env.reset(seed=0)
    for action in (4, -1, 0.5, None):
        with pytest.raises(ValueError, match=r"action must be a whole number in 0\.\.3, got"):
            env.step(action)
    twin = TabularEnv(LAKE)
    twin.reset(seed=0)
    assert env.step(1) == twin.step(1)  # what was refused has not happened
