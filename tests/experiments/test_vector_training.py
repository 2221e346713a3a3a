"""Training on vector environments: only what belongs to an episode is counted, and all of it."""

from collections import Counter
from itertools import product

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Discrete
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space
from made import agent_of
from scipy.stats import chisquare

from privrl.accounting.rdp import RdpAccountant
from privrl.agents import (
    PSRL,
    BetaRewards,
    EveryEpisode,
    Geometric,
    KnownRewards,
    NoisyRewards,
    Transition,
)
from privrl.agents.baselines import Oracle, RandomPolicy
from privrl.agents.setup import self_loops
from privrl.envs import Support, TabularMDP, TabularVectorEnv, riverswim
from privrl.envs.vector import RiverSwimVectorEnv
from privrl.experiments.training.run import train
from privrl.samplers.noisy_counts import NoisyCounts, NonPrivate

FALSE_ALARM = 1e-6
"""Chance that a statistical test rejects code that is right; seeds are fixed on top of it."""

ONE_POLICY = Geometric(1e6)  # for the first million episodes
MODES = list(AutoresetMode)
each_mode = pytest.mark.parametrize("mode", MODES, ids=[mode.value for mode in MODES])


def learner(sizes, kind=PSRL, **options):
    """Return an agent that is told rewards as they are: its tables show what it was told."""
    exact = {"sampler": NonPrivate(), "rewards": NoisyRewards(NonPrivate())}
    return agent_of(kind, *sizes, **{**exact, "rng": np.random.default_rng(1), **options})


def assert_same_data(one, other):
    np.testing.assert_array_equal(one._new.counts, other._new.counts)
    np.testing.assert_array_equal(one._new.rewards, other._new.rewards)


class Corridor(VectorEnv):
    """In environment ``i`` an episode walks from state 0 to state ``i + 1`` and ends there.

    Episodes of even length terminate, the others are truncated. Each step pays 1/2, whatever
    the action. Episodes that begin before a reset of all environments asks for them pay 99.
    """

    def __init__(self, num_envs, mode, length=None):
        self.num_envs, self.metadata = num_envs, {"autoreset_mode": mode}
        self.single_observation_space, self.single_action_space = (
            Discrete(num_envs + 1),
            Discrete(2),
        )
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.length = np.arange(num_envs) + 1 if length is None else np.array(length)
        self.terminates = self.length % 2 == 0
        self.resets = 0

    def reset(self, *, seed=None, options=None):
        if options:
            assert self.metadata["autoreset_mode"] is AutoresetMode.DISABLED
            mask = options["reset_mask"]
            np.testing.assert_array_equal(mask, self.ended)
            self.begin(mask)
        else:
            self.resets += 1
            self.state = np.zeros(self.num_envs, int)
            self.ended = np.zeros(self.num_envs, bool)
            self.pay = np.full(self.num_envs, 0.5)
        return self.state.copy(), {}

    def begin(self, which):
        self.state[which], self.pay[which], self.ended[which] = 0, 99.0, False

    def step(self, actions):
        assert self.action_space.contains(actions)
        mode, over, infos = self.metadata["autoreset_mode"], self.ended.copy(), {}
        assert mode is not AutoresetMode.DISABLED or not over.any(), "step after the end"
        self.state += 1
        reward = np.where(over, 0.0, self.pay)
        self.begin(over)
        self.ended = self.state == self.length
        ended = self.ended.copy()
        if mode is AutoresetMode.SAME_STEP and ended.any():
            final = np.full(self.num_envs, None, object)
            final[ended] = self.state[ended]
            infos = {"final_obs": final, "_final_obs": ended}
            self.begin(ended)
        terminated = ended & self.terminates
        return self.state.copy(), reward, terminated, ended & ~self.terminates, infos


def corridor_counts(policy, num_envs, episodes):
    """Return what the first so many episodes of a round come to, by hand."""
    counts = np.zeros((num_envs + 1, 2, num_envs + 2))
    for env in range(episodes):
        for state in range(env + 1):
            over = state == env and env % 2 == 1
            counts[state, policy[state, state], num_envs + 1 if over else state + 1] += 1
    return counts


# No step that resets is counted


def naive_counts(env, episodes):
    """Train as if every step were a transition: the loop that this module is about."""
    counts, done = np.zeros((env.num_envs + 1, 2, env.num_envs + 2)), 0
    here = env.reset()[0]
    while done < episodes:
        following, _, terminated, truncated, _ = env.step(np.zeros(env.num_envs, int))
        columns = np.where(terminated, env.num_envs + 1, following)
        np.add.at(counts, (here, 0, columns), 1)
        here, done = following, done + (terminated | truncated).sum()
    return counts


@each_mode
@pytest.mark.parametrize("episodes", [1, 3, 5, 12])
def test_episodes_of_one_run_are_counted_once_and_nothing_else_is(mode, episodes):
    env = Corridor(5, mode)
    agent = learner((6, 2, 9), schedule=ONE_POLICY, terminates=True)
    record = train(agent, env, episodes, np.random.default_rng(0))
    rounds = [5] * (episodes // 5) + [episodes % 5]
    expected = sum(corridor_counts(agent.behaviour, 5, number) for number in rounds)
    np.testing.assert_array_equal(agent._new.counts, expected)
    np.testing.assert_array_equal(agent._new.rewards, 0.5 * expected.sum(-1)[..., None] * [1, 1])
    assert record.to_dict("list") == {
        "run": [0],
        "episode": [0],
        "episodes": [episodes],
        "reward": [0.5 * expected.sum()],
        "draws": [1],
    }
    assert env.resets == 1 + -(-episodes // 5)


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_the_naive_loop_would_be_caught(mode):
    counts = naive_counts(Corridor(5, mode), 12)
    possible = corridor_counts(np.zeros((9, 6), int), 5, 5) > 0
    assert counts[:, :1][~possible[:, :1]].sum() > 0


def test_the_naive_loop_fails_where_nothing_resets_by_itself():
    with pytest.raises(AssertionError, match="step after the end"):
        naive_counts(Corridor(5, AutoresetMode.DISABLED), 12)


@each_mode
def test_each_environment_is_a_run_of_its_own(mode):
    env = Corridor(5, mode)
    agent = learner((6, 2, 9), batch_shape=(5,), schedule=ONE_POLICY, terminates=True)
    record = train(agent, env, 3, np.random.default_rng(0))
    for run in range(5):
        policy = agent.behaviour[run]
        alone = corridor_counts(policy, 5, run + 1) - corridor_counts(policy, 5, run)
        np.testing.assert_array_equal(agent._new.counts[run], 3 * alone)
    assert list(record["run"]) == [0, 1, 2, 3, 4]
    assert list(record["reward"]) == [1.5, 3.0, 4.5, 6.0, 7.5]
    assert (record["episodes"] == 3).all()


@each_mode
@pytest.mark.parametrize("batch_shape", [(), (5,)])
def test_the_agents_horizon_ends_episodes_too(mode, batch_shape):
    agent = learner((6, 2, 2), batch_shape=batch_shape, schedule=ONE_POLICY, terminates=True)
    record = train(agent, Corridor(5, mode), 10, np.random.default_rng(0))
    steps = agent._new.counts.sum(axis=(-3, -2, -1))
    np.testing.assert_array_equal(steps, 10 * np.array([1, 2, 2, 2, 2]) if batch_shape else 18)
    np.testing.assert_array_equal(record["reward"], steps / 2)


@each_mode
def test_policies_change_when_the_schedule_says(mode):
    """Episodes 0; 1; 2, 3; 4 to 7; 8 and 9: none of the rounds of 5 crosses a draw."""
    begun, env = [], Corridor(5, mode)

    class Noted(PSRL):
        def begin_episode(self, episode):
            begun.append((episode, env.resets))
            super().begin_episode(episode)

    agent = learner((6, 2, 9), Noted, schedule=Geometric(2.0), terminates=True)
    told = []
    record = train(agent, env, 10, np.random.default_rng(0), callback=told.append)
    assert begun == [(0, 1), (1, 2), (3, 3), (7, 4)]
    assert list(record["episode"]) == [0, 1, 3, 7]
    assert list(record["episodes"]) == [1, 2, 4, 3]
    assert list(record["draws"]) == [1, 2, 3, 4]
    assert [(each.first, each.episodes, each.done, each.draws) for each in told] == [
        (0, 1, 1, 1), (1, 2, 3, 2), (3, 4, 7, 3), (7, 3, 10, 4),
    ]  # fmt: skip
    np.testing.assert_array_equal([each.reward[0] for each in told], record["reward"])


@pytest.mark.parametrize("on_mdp", [False, True])
def test_the_record_tells_draws_from_policies_sampled_again(on_mdp):
    mdp = riverswim(n_states=4, horizon=6)
    agent = learner((4, 2, 6), schedule=Geometric(4.0), resamples=EveryEpisode())
    env = mdp if on_mdp else TabularVectorEnv(3, mdp)
    record = train(agent, env, 10, np.random.default_rng(0))
    assert list(record["draws"]) == [1, 1, 1, 2, 2, 2, 2, 2, 2, 2]
    assert agent.draws == 2


# The same as in other ways to train


def clockwork(rng):
    """An MDP without chance, with rewards whose sums are exact."""
    following = rng.integers(5, size=(5, 2))
    return TabularMDP(np.eye(5)[following], rng.integers(5, size=(5, 2)) / 4, np.eye(5)[0], 6)


class Clockwork(gym.Env):
    def __init__(self, mdp):
        self.mdp, self.observation_space, self.action_space = mdp, Discrete(5), Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = 0
        return self.state, {}

    def step(self, action):
        reward = float(self.mdp.reward[self.state, action])
        self.state = int(self.mdp.transition[self.state, action].argmax())
        return self.state, reward, False, False, {}


@pytest.mark.few(6)
@each_mode
@pytest.mark.parametrize("schedule", [Geometric(1.3), EveryEpisode()])
def test_without_chance_all_ways_to_train_are_the_same(mode, schedule):
    mdp = clockwork(np.random.default_rng(5))
    vector = TabularVectorEnv(7, mdp, autoreset_mode=mode)
    agents, records = [], []
    for env in (mdp, vector, Clockwork(mdp)):
        agents.append(learner((5, 2, 6), schedule=schedule))
        records.append(train(agents[-1], env, 40, np.random.default_rng(3)))
    assert records[1].equals(records[0])
    by_draw = records[2].groupby("draws", as_index=False)["reward"].sum()
    np.testing.assert_array_equal(by_draw["reward"], records[0]["reward"])
    for agent in agents:
        agent._count_steps()
        assert_same_data(agent, agents[0])
        np.testing.assert_array_equal(agent.behaviour, agents[0].behaviour)


@each_mode
def test_without_chance_batches_are_the_same_as_on_the_mdp(mode):
    mdp = clockwork(np.random.default_rng(5))
    vector = TabularVectorEnv(7, mdp, autoreset_mode=mode)
    agents, records = [], []
    for env in (mdp, vector):
        agents.append(learner((5, 2, 6), batch_shape=(7,), schedule=Geometric(1.3)))
        records.append(train(agents[-1], env, 40, np.random.default_rng(3)))
    assert records[0].equals(records[1])
    assert_same_data(*agents)
    np.testing.assert_array_equal(agents[0].behaviour, agents[1].behaviour)


TWO_STATES = TabularMDP(
    transition=[[[0.6, 0.4], [0.1, 0.9]], [[0.3, 0.7], [0.5, 0.5]]],
    reward=np.zeros((2, 2)),
    start=[0.7, 0.3],
    horizon=3,
)
POLICY = np.array([[0, 1], [0, 0], [1, 0]])


class Recorder(Oracle):
    """Note the path of every episode, by run."""

    def begin_episode(self, episode):
        super().begin_episode(episode)
        self.paths = getattr(self, "paths", Counter())

    def observe_steps(self, state, action, reward, next_state, *, observed, terminated):
        episodes = observed.all(axis=0)
        path = np.concatenate([state, next_state[-1:]])
        run = np.broadcast_to(np.arange(observed[0, 0].size), episodes.shape)
        paths = map(tuple, path[:, episodes].T.tolist())
        self.paths.update(zip(run[episodes].tolist(), paths, strict=True))
        for step in range(3):
            np.testing.assert_array_equal(action[step], POLICY[step, state[step]])


def path_law(mdp):
    law = {}
    for path in product(range(2), repeat=4):
        law[path] = mdp.start[path[0]]
        for step in range(3):
            law[path] *= mdp.transition[path[step], POLICY[step, path[step]], path[step + 1]]
    return law


@pytest.mark.few(15)
@each_mode
@pytest.mark.parametrize("runs", [1, 8])
@pytest.mark.parametrize("native", [True, False])
def test_episodes_have_the_law_of_the_tables(mode, runs, native):
    """Chi-square over the 16 paths of an episode: 12800 of them, or 1600 in each of 8 runs.

    Natively vectorised, and single environments in Gymnasium's own vector. The power check: a
    law in which one probability is 0.05, or in the shorter runs 0.2, off.
    """
    num_envs = 64 if runs == 1 else 8
    if native:
        env = TabularVectorEnv(num_envs, TWO_STATES, autoreset_mode=mode)
    else:
        copies = [lambda: Stepped(TWO_STATES)] * num_envs
        env = gym.vector.SyncVectorEnv(copies, autoreset_mode=mode)
    agent = agent_of(
        Recorder, 2, 2, 3, policy=POLICY, batch_shape=() if runs == 1 else (8,), schedule=ONE_POLICY
    )
    episodes = 12_800 // runs
    train(agent, env, episodes, np.random.default_rng(6))
    assert sum(agent.paths.values()) == 12_800

    def least_p_value(mdp):
        law = path_law(mdp)
        found = [[agent.paths[run, path] for path in law] for run in range(runs)]
        expected = episodes * np.array(list(law.values()))
        assert expected.min() > 5
        return min(chisquare(row, expected).pvalue for row in found)

    assert least_p_value(TWO_STATES) > FALSE_ALARM / 8
    wrong = TWO_STATES.transition.copy()
    wrong[0, 0] = [0.65, 0.35] if runs == 1 else [0.8, 0.2]
    assert least_p_value(TabularMDP(wrong, np.zeros((2, 2)), TWO_STATES.start, 3)) < FALSE_ALARM / 8


class Stepped(gym.Env):
    """An MDP played with ``choice``."""

    def __init__(self, mdp):
        self.mdp, self.observation_space, self.action_space = mdp, Discrete(2), Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state, self.steps = int(self.np_random.random() > self.mdp.start[0]), 0
        return self.state, {}

    def step(self, action):
        stays = self.mdp.transition[self.state, action, 0]
        self.state = int(self.np_random.random() > stays)
        self.steps += 1
        return self.state, 0.0, False, self.steps == self.mdp.horizon, {}


class Shifted(VectorWrapper):
    """Number states from 10 and actions from -3."""

    def __init__(self, env):
        super().__init__(env)
        self.single_observation_space = Discrete(6, start=10)
        self.single_action_space = Discrete(2, start=-3)
        self.observation_space = batch_space(self.single_observation_space, env.num_envs)
        self.action_space = batch_space(self.single_action_space, env.num_envs)

    def reset(self, *, seed=None, options=None):
        states, infos = self.env.reset(seed=seed, options=options)
        return states + 10, infos

    def step(self, actions):
        assert self.action_space.contains(actions)
        states, *rest, infos = self.env.step(actions + 3)
        if infos:
            final = infos["final_obs"]
            final[:] = [None if state is None else state + 10 for state in final]
        return states + 10, *rest, infos


@each_mode
@pytest.mark.parametrize("batch_shape", [(), (4,)])
def test_wherever_spaces_start_numbers_are_from_0(mode, batch_shape):
    agents = []
    for wrap in (lambda env: env, Shifted):
        env = wrap(RiverSwimVectorEnv(4, horizon=5, variant="strehl", autoreset_mode=mode))
        rewards = KnownRewards(np.arange(12.0).reshape(6, 2))
        agents.append(
            learner((6, 2, 5), rewards=rewards, batch_shape=batch_shape, schedule=ONE_POLICY)
        )
        train(agents[-1], env, 30, np.random.default_rng(0))
    assert_same_data(*agents)
    assert agents[0]._new.counts.sum() == 150 * (4 if batch_shape else 1)


# FrozenLake: episodes end whenever they do


def frozen_lake():
    """Return transitions, shape (16, 4, 17), the last column "over", and expected rewards."""
    rows, reward = np.zeros((16, 4, 17)), np.zeros((16, 4))
    env = gym.make("FrozenLake-v1").unwrapped
    for state, action in product(range(16), range(4)):
        for probability, following, paid, terminated in env.P[state][action]:
            rows[state, action, 16 if terminated else following] += probability
            reward[state, action] += probability * paid
    return rows, reward


def frozen_lakes(mode, limit):
    return gym.make_vec(
        "FrozenLake-v1",
        num_envs=32,
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": mode},
        max_episode_steps=limit,
    )


@pytest.mark.few(6)
@each_mode
@pytest.mark.parametrize(("batch_shape", "limit"), [((), 200), ((32,), 7)])
def test_frozen_lake(mode, batch_shape, limit):
    """320 episodes under the best policy; chi-square for each row with at least 100 visits.

    Each of the 64 rows has its own test at FALSE_ALARM / 64. The number of episodes is exact:
    whoever enters a state leaves it, or is still there at the end.
    """
    env, (rows, reward) = frozen_lakes(mode, limit), frozen_lake()
    agent = learner(
        (16, 4, 100),
        known_rows=rows,
        rewards=KnownRewards(reward),
        batch_shape=batch_shape,
        schedule=ONE_POLICY,
        terminates=True,
    )
    record = train(agent, env, 10 if batch_shape else 320, np.random.default_rng(8))
    env.close()
    counts = agent._new.counts.reshape(-1, 16, 4, 17).sum(axis=0)
    assert (counts[rows == 0] == 0).all()
    remain = 320 * np.eye(16)[0] + counts.sum(axis=(0, 1))[:16] - counts.sum(axis=(1, 2))
    assert (remain >= 0).all()
    assert remain.sum() + counts[..., 16].sum() == 320
    assert record["reward"].sum() == counts[14, :, 16].sum()  # the goal is beside state 14
    tested = [
        chisquare(found[row > 0], found.sum() * row[row > 0]).pvalue
        for found, row in zip(counts.reshape(-1, 17), rows.reshape(-1, 17), strict=True)
        if found.sum() >= 100 and (row > 0).sum() > 1
    ]
    assert len(tested) >= 3
    assert min(tested) > FALSE_ALARM / 64


@pytest.mark.few(2)
@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_frozen_lake_counted_naively_would_be_caught(mode):
    """Even who knows that a terminated episode is over counts resets, or moves that never were."""
    env, rows = frozen_lakes(mode, 7), frozen_lake()[0]
    rng, counts = np.random.default_rng(0), np.zeros((16, 4, 17))
    here = env.reset(seed=1)[0]
    for _ in range(200):
        actions = rng.integers(4, size=32)
        following, _, terminated, _, _ = env.step(actions)
        np.add.at(counts, (here, actions, np.where(terminated, 16, following)), 1)
        here = following
    env.close()
    assert counts[rows == 0].sum() > 0


# What the agent is told


MDP = riverswim(n_states=4, horizon=6)


def episodes_of(rng, sizes, batch_shape=(), episodes=5):
    """Return what happened in episodes of various lengths; some of them terminate."""
    states, actions, horizon = sizes
    shape = horizon, episodes, *batch_shape
    chain = rng.integers(states, size=(horizon + 1, *shape[1:]))
    observed = np.arange(horizon).reshape(-1, *[1] * (len(shape) - 1)) < rng.integers(
        horizon + 1, size=shape[1:]
    )
    last = observed & ~np.append(observed[1:], np.zeros_like(observed[:1]), axis=0)
    told = {
        "state": chain[:-1].copy(),
        "action": rng.integers(actions, size=shape),
        "reward": rng.integers(5, size=shape) / 4,
        "next_state": chain[1:].copy(),
        "observed": observed,
        "terminated": last & (rng.random(shape) < 0.5),
    }
    for name, wrong in (("state", -7), ("action", 99), ("reward", np.nan), ("next_state", 10**6)):
        told[name][~observed] = wrong
    told["terminated"] |= ~observed
    return told


@pytest.mark.parametrize("terminates", [False, True])
@pytest.mark.parametrize("with_support", [False, True])
@pytest.mark.parametrize("with_loops", [False, True])
def test_episodes_are_the_same_data_as_their_steps(terminates, with_support, with_loops):
    mask = np.ones((4, 2, 4 + terminates), bool)
    mask[:2, 0, 3] = False
    support = Support.from_mask(mask) if with_support else None
    options = {"terminates": terminates, "support": support, "schedule": ONE_POLICY}
    if with_loops:
        loops = self_loops(4, 2, terminates=terminates, support=support)
        options["sampler"] = NoisyCounts(sigma=1.0, updates=3, loops=loops)
    at_once, one_by_one = (learner((4, 2, 6), **options) for _ in range(2))
    told = episodes_of(np.random.default_rng(3), (4, 2, 6), episodes=50)
    impossible = (told["state"] < 2) & (told["next_state"] == 3)
    told["action"][impossible & told["observed"]] = 1
    at_once.begin_episode(0)
    at_once.observe_steps(**told)
    names = "state", "action", "reward", "next_state", "terminated"
    for episode in range(50):
        one_by_one.begin_episode(episode)
        for step in range(6):
            if told["observed"][step, episode]:
                one_by_one.observe(Transition(*(told[name][step, episode] for name in names)))
    one_by_one._count_steps()
    assert_same_data(at_once, one_by_one)
    assert at_once._new.counts.sum() == told["observed"].sum() > 0


@pytest.mark.parametrize("batch_shape", [(3,), (2, 3)])
def test_each_run_is_told_of_its_own_episodes(batch_shape):
    batch = learner((4, 2, 6), batch_shape=batch_shape, terminates=True)
    told = episodes_of(np.random.default_rng(3), (4, 2, 6), batch_shape)
    batch.observe_steps(**told)
    for run in np.ndindex(batch_shape):
        alone = learner((4, 2, 6), terminates=True)
        alone.observe_steps(**{name: array[..., *run] for name, array in told.items()})
        np.testing.assert_array_equal(batch._new.counts[run], alone._new.counts)
        np.testing.assert_array_equal(batch._new.rewards[run], alone._new.rewards)


def test_rewards_are_encoded_each_on_its_own():
    """The Bernoulli trick: 20000 rewards of 0.3, within 5 standard deviations (5.7e-7)."""
    agent = learner((4, 2, 6), rewards=BetaRewards(NonPrivate(alpha=1.0)))
    shape = (1, 20_000)
    agent.observe_steps(
        np.ones(shape, int),
        np.zeros(shape, int),
        np.full(shape, 0.3),
        np.ones(shape, int),
        observed=np.ones(shape, bool),
        terminated=np.zeros(shape, bool),
    )
    success, failure = agent._new.rewards[1, 0]
    assert success + failure == agent._new.rewards.sum() == 20_000
    assert abs(success - 6000) < 5 * np.sqrt(20_000 * 0.3 * 0.7)


def one_episode(**changes):
    """Two steps of one episode, and a third that was not; with changes."""
    told = {
        "state": [[0], [1], [2]],
        "action": [[1], [1], [0]],
        "reward": [[0.0], [0.5], [0.0]],
        "next_state": [[1], [2], [2]],
        "observed": [[True], [True], [False]],
        "terminated": [[False], [True], [False]],
    }
    return {name: np.array(value) for name, value in {**told, **changes}.items()}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reward": [[0.0], [1.5], [0.0]]}, r"declared range \[0, 1\], and one is not"),
        ({"reward": [[0.0], [np.nan], [0.0]]}, "declared range"),
        ({"state": [[0], [4], [2]]}, r"state must be in 0\.\.3"),
        ({"state": [[-1], [1], [2]]}, r"state must be in 0\.\.3"),
        ({"action": [[1], [2], [0]]}, r"action must be in 0\.\.1"),
        ({"next_state": [[1], [4], [2]]}, r"next_state must be in 0\.\.3"),
        ({"state": [[0.0], [1.0], [2.0]]}, "state, action and next_state must be integers"),
        ({"observed": [[1], [1], [0]]}, "observed and terminated bool"),
        ({"terminated": [[0], [1], [0]]}, "observed and terminated bool"),
        ({"reward": [[0], [1], [0j]]}, "reward numbers"),
        ({"reward": [[0.0], [0.5]]}, r"arrays must have one shape \('T', 'E'\), steps by"),
        ({"state": [[0, 1, 2]]}, "arrays must have one shape"),
        ({"observed": [[False], [True], [False]]}, "observed must be False from an episode's end"),
        ({"terminated": [[True], [False], [False]]}, "observed must be False from"),
        ({"observed": [[True]] * 3}, "observed must be False from"),
    ],
)
def test_wrong_episodes_are_refused_and_leave_nothing_behind(changes, message):
    agent = learner((4, 2, 3), terminates=True)
    with pytest.raises(ValueError, match=message):
        agent.observe_steps(**one_episode(**changes))
    assert not agent._new.counts.any()
    assert not agent._new.rewards.any()
    agent.observe_steps(**one_episode())
    assert agent._new.counts.sum() == 2


def test_episodes_of_another_shape_are_refused():
    flat = {name: array[:, 0] for name, array in one_episode().items()}
    with pytest.raises(ValueError, match=r"at most 3 steps, .* got arrays of shape \(3,\)"):
        learner((4, 2, 3)).observe_steps(**flat)
    with pytest.raises(ValueError, match="at most 2 steps, the horizon of the agent"):
        learner((4, 2, 2)).observe_steps(**one_episode())
    with pytest.raises(ValueError, match="each run has its own data"):
        learner((4, 2, 3), batch_shape=(1,)).observe_steps(**one_episode())


def test_an_episode_outside_the_support_is_refused():
    mask = np.ones((4, 2, 4), bool)
    mask[1, 1, 2] = False
    agent = learner((4, 2, 3), support=Support.from_mask(mask))
    with pytest.raises(ValueError, match="support must hold every transition"):
        agent.observe_steps(**one_episode())
    assert not agent._new.counts.any()


@pytest.mark.parametrize("damped", [False, True])
def test_episodes_must_be_chains_where_self_loops_are_damped(damped):
    loops = {"loops": self_loops(4, 2)} if damped else {}
    agent = learner((4, 2, 3), sampler=NoisyCounts(sigma=1.0, updates=3, **loops))
    broken = one_episode(state=[[0], [0], [3]])
    if damped:
        with pytest.raises(ValueError, match="state must be the next_state of the step before"):
            agent.observe_steps(**broken)
        assert not agent._new.counts.any()
        agent.observe_steps(**one_episode(state=[[0], [1], [3]]))  # the third was not observed
    else:
        agent.observe_steps(**broken)
    assert agent._new.counts.sum() == 2


# Refusals


@pytest.mark.parametrize(
    ("env", "options", "message"),
    [
        (lambda: RiverSwimVectorEnv(3, n_states=5), {}, "must be made for the 5 states"),
        (lambda: gym.make_vec("CartPole-v1", num_envs=3), {}, "env must have Discrete spaces"),
        (
            lambda: RiverSwimVectorEnv(3, n_states=4),
            {"batch_shape": (2,)},
            r"agent must have batch_shape=\(3,\), a run for each environment, or \(\)",
        ),
        (lambda: RiverSwimVectorEnv(3, n_states=4), {"batch_shape": (3, 1)}, "batch_shape="),
        (lambda: Corridor(3, None), {"terminates": True}, "env must name its AutoresetMode"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_spent(env, options, message):
    made = env()
    noisy = {
        "sampler": NoisyCounts(sigma=1.0, updates=40),
        "rewards": NoisyRewards(NoisyCounts(sigma=1.0, updates=40, table="rewards")),
    }
    agent = learner((4, 2, 6), **noisy, accountant=RdpAccountant(), **options)
    with pytest.raises(ValueError, match=message):
        train(agent, made, 3, np.random.default_rng(0))
    assert agent.draws == 0
    assert not agent.accountant.rdp.any()
    made.close()


def test_a_single_environment_names_the_vector_for_batches():
    env = gym.make("privrl/RiverSwim-v0", n_states=4)
    with pytest.raises(ValueError, match="train batches on a TabularMDP, or on a vector"):
        train(learner((4, 2, 6), batch_shape=(3,)), env, 3, np.random.default_rng(0))


@each_mode
def test_an_unexpected_end_is_said_plainly(mode):
    agent = learner((6, 2, 9), schedule=ONE_POLICY)
    with pytest.raises(ValueError, match="terminates=True"):
        train(agent, Corridor(5, mode), 2, np.random.default_rng(0))
    assert not agent._new.counts.any()
    # The second terminates while the first goes on, and is not one of the run's episodes.
    train(agent, Corridor(5, mode, [5, 2, 3, 1, 4]), 1, np.random.default_rng(0))
    assert agent._new.counts.sum() == 5


def test_a_final_observation_that_is_missing_is_said_plainly():
    class Forgetful(Corridor):
        def step(self, actions):
            return *super().step(actions)[:4], {}

    agent = learner((6, 2, 9), terminates=True)
    with pytest.raises(ValueError, match=r"env must give infos\['final_obs'\]"):
        train(agent, Forgetful(5, AutoresetMode.SAME_STEP), 5, np.random.default_rng(0))
    assert not agent._new.counts.any()


def test_a_reward_outside_the_range_is_refused():
    env = RiverSwimVectorEnv(3, n_states=4, horizon=6, variant="strehl")  # pays up to 10000
    agent = learner((4, 2, 6))
    with pytest.raises(ValueError, match="declared range"):
        train(agent, env, 300, np.random.default_rng(0))


@pytest.mark.few(2)
@each_mode
@pytest.mark.parametrize("batch_shape", [(), (6,)])
def test_same_randomness_same_run(mode, batch_shape):
    records = []
    for seed in (4, 4, 5):
        env = RiverSwimVectorEnv(6, n_states=4, horizon=6, autoreset_mode=mode)
        env.reset()  # whatever was before
        agent = learner((4, 2, 6), batch_shape=batch_shape, schedule=Geometric(1.3))
        records.append(train(agent, env, 50, np.random.default_rng(seed)))
    assert records[0].equals(records[1])
    assert not records[0].equals(records[2])


@pytest.mark.few(6)
@pytest.mark.parametrize("kind", [Oracle, RandomPolicy])
def test_yardsticks_play_on_vectors_too(kind):
    """300 episodes in each of 6 runs; the best policy's mean lies within 5 standard errors."""
    policy = {"policy": MDP.plan()[0]} if kind is Oracle else {"rng": np.random.default_rng(0)}
    agent = agent_of(kind, 4, 2, 6, batch_shape=(6,), **policy)
    env = RiverSwimVectorEnv(6, n_states=4, horizon=6)
    reward = train(agent, env, 300, np.random.default_rng(0))["reward"]
    error = reward.std() / np.sqrt(len(reward))
    assert (abs(reward.mean() - MDP.optimal_value()) < 5 * error) == (kind is Oracle)


@pytest.mark.slow
def test_learns():
    """As on the MDP itself: after 400 episodes the mean of 20 runs is near the optimum."""
    env = RiverSwimVectorEnv(20, n_states=4, horizon=6)
    agent = learner(
        (4, 2, 6),
        sampler=NonPrivate(alpha=1.0),
        rewards=BetaRewards(NonPrivate(alpha=1.0)),
        batch_shape=(20,),
        schedule=Geometric(1.1),
    )
    train(agent, env, 400, np.random.default_rng(5))
    assert MDP.policy_value(agent.behaviour).mean() > 0.9 * MDP.optimal_value()


def test_wrapped_vectors_will_do():
    env = gym.wrappers.vector.RecordEpisodeStatistics(
        RiverSwimVectorEnv(6, n_states=4, horizon=6, autoreset_mode="SameStep")
    )
    agent = learner((4, 2, 6), batch_shape=(6,), schedule=ONE_POLICY)
    record = train(agent, env, 10, np.random.default_rng(5))
    assert agent._new.counts.sum() == 10 * 6 * 6
    assert sum(env.return_queue) == pytest.approx(record["reward"].sum())


class Undecided(RandomPolicy):
    """Takes any action, as likely as the others, wherever it is."""

    def _plan(self, transition, reward):
        return np.full_like(super()._plan(transition, reward), -1)


@pytest.mark.few(2)
@pytest.mark.parametrize("batch_shape", [(), (50,)])
def test_any_action_is_as_likely_as_the_others(batch_shape):
    """Half of all actions go right: off by 6 deviations once in 5e8 seeds."""
    seen = []

    class Watched(RiverSwimVectorEnv):
        def step(self, actions):
            seen.append(np.array(actions))
            return super().step(actions)

    agent = agent_of(Undecided, 4, 2, 10, rng=np.random.default_rng(0), batch_shape=batch_shape)
    train(
        agent,
        Watched(50, n_states=4, horizon=10),
        10 if batch_shape else 500,
        np.random.default_rng(1),
    )
    actions = np.array(seen)
    assert set(actions.ravel()) == {0, 1}
    assert abs(actions.mean() - 0.5) < 6 * np.sqrt(0.25 / actions.size)
