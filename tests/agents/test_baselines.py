"""Yardsticks: the oracle earns what is best, the random policy what chance does."""

import gymnasium as gym
import numpy as np
import pytest
from made import agent_of

from privrl.agents import Geometric
from privrl.agents.baselines import Oracle, RandomPolicy
from privrl.agents.training import learn_counts
from privrl.envs import TabularMDP, riverswim
from privrl.experiments.training.run import train

MDP = riverswim()
SIZES = MDP.n_states, MDP.n_actions, MDP.horizon


def episode_rewards(learner, episodes: int = 400) -> np.ndarray:
    _, paid = learn_counts(learner, MDP, episodes, np.random.default_rng(1))
    return paid.ravel()


def test_the_oracle_earns_the_best_value() -> None:
    """40,000 episodes, within 5 standard errors: a false alarm in 1.7 million."""
    learner = agent_of(Oracle, *SIZES, policy=MDP.plan()[0], batch_shape=(100,))
    paid = episode_rewards(learner)
    assert abs(paid.mean() - MDP.optimal_value()) < 5 * paid.std() / np.sqrt(paid.size)


def test_the_random_policy_earns_what_uniform_actions_do() -> None:
    """40,000 episodes, within 5 standard errors: a false alarm in 1.7 million."""
    chance = TabularMDP(
        MDP.transition.mean(axis=1, keepdims=True),
        MDP.expected_reward.mean(axis=1, keepdims=True),
        MDP.start,
        MDP.horizon,
    )
    learner = agent_of(RandomPolicy, *SIZES, rng=np.random.default_rng(0), batch_shape=(100,))
    paid = episode_rewards(learner)
    assert abs(paid.mean() - chance.optimal_value()) < 5 * paid.std() / np.sqrt(paid.size)


def test_every_episode_and_run_has_a_random_policy_of_its_own() -> None:
    learner = agent_of(RandomPolicy, *SIZES, rng=np.random.default_rng(0), batch_shape=(2, 3))
    policies = []
    for episode in range(4):
        learner.begin_episode(episode)
        policies += list(learner.behaviour.reshape(6, -1))
    assert len(np.unique(policies, axis=0)) == 24


def test_each_run_can_follow_a_policy_of_its_own() -> None:
    policy = np.zeros((3, 1, MDP.horizon, MDP.n_states), int)
    policy[1] = 1
    learner = agent_of(Oracle, *SIZES, policy=policy, batch_shape=(3, 5))
    learner.begin_episode(0)
    np.testing.assert_array_equal(learner.behaviour.mean(axis=(1, 2, 3)), [0, 1, 0])


def test_nothing_is_learned_or_spent() -> None:
    learner = agent_of(Oracle, *SIZES, policy=MDP.plan()[0], schedule=Geometric(2.0))
    train(learner, MDP, 50, np.random.default_rng(0))
    assert not learner._new.counts.any()
    train(learner, gym.make_vec("privrl/RiverSwim-v0", 3), 5, np.random.default_rng(0))
    assert not learner._new.counts.any()
    assert (learner.accountant.rdp == 0).all()


def test_they_run_where_episodes_end() -> None:
    env = gym.make("FrozenLake-v1")
    lake = TabularMDP.from_gymnasium(env)
    sizes = {"n_states": lake.n_states, "n_actions": lake.n_actions, "horizon": lake.horizon}
    oracle = agent_of(Oracle, **sizes, policy=lake.plan()[0], terminates=True)
    chance = agent_of(RandomPolicy, **sizes, rng=np.random.default_rng(0), terminates=True)
    best, poor = (
        train(agent, env, 100, np.random.default_rng(2))["reward"].mean()
        for agent in (oracle, chance)
    )
    env.close()
    assert best > 0.5  # 0.74 expected
    assert poor < 0.2  # 0.01 expected


@pytest.mark.parametrize(
    ("policy", "match"),
    [
        (np.zeros((29, 6), int), r"broadcast to shape \(30, 6\)"),
        (np.zeros((30, 5), int), "shape"),
        (np.full((30, 6), 2), "actions in 0..1"),
        (np.zeros((30, 6)), "integer actions"),
        (0, "shape"),
        (np.zeros((4, 30, 6), int), "broadcast"),
    ],
)
def test_bad_policies(policy, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        agent_of(Oracle, *SIZES, policy=policy)


@pytest.mark.parametrize("name", ["n_states", "n_actions", "horizon"])
@pytest.mark.parametrize("bad", [0, -1, 2.5, True, np.nan])
def test_bad_sizes(name: str, bad) -> None:
    sizes = dict(zip(("n_states", "n_actions", "horizon"), SIZES, strict=True)) | {name: bad}
    with pytest.raises(ValueError, match=name):
        agent_of(RandomPolicy, **sizes, rng=np.random.default_rng(0))
