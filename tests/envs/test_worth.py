"""Values by tables, against those of the same tables as a TabularMDP, and against play."""

import gymnasium as gym
import numpy as np
import pytest

from privrl.envs import TabularMDP, numbered
from privrl.envs.worth import Worth, worth


@pytest.mark.parametrize(
    "name", ["FrozenLake-v1", "CliffWalking-v1", "privrl/RiverSwim-v0", "privrl/RiverSwimDPS-v0"]
)
def test_values_are_those_of_the_tables(name: str) -> None:
    env, rng = gym.make(name), np.random.default_rng(0)
    mdp = TabularMDP.from_gymnasium(env, 25)
    best, optimum = mdp.plan()
    drawn = rng.integers(mdp.n_actions, size=(25, mdp.n_states))
    states = int(env.observation_space.n)
    for policy in (best, drawn):
        found = worth(env, policy[:, :states])
        assert found is not None
        assert found.policy == pytest.approx(float(mdp.policy_value(policy)), abs=1e-12)
        assert found.optimum == pytest.approx(optimum)
    # Averages over actions make a chain of one action, whose only policy is that of chance.
    average = mdp.transition.mean(axis=1, keepdims=True)
    paid = mdp.expected_reward.mean(axis=1, keepdims=True)
    chain = TabularMDP(average, paid, mdp.start, 25)
    anything = np.full((25, states), -1)
    chance = worth(env, anything)
    assert chance is not None
    assert chance.random == pytest.approx(chain.plan()[1])
    assert chance.policy == chance.random
    assert chance.share(chance.policy) == 0
    assert chance.share(chance.optimum) == 1
    assert chance.share((chance.optimum + chance.random) / 2) == pytest.approx(0.5)


@pytest.mark.slow
def test_a_mixed_policy_is_worth_what_play_says() -> None:
    """100,000 steps; the mean of some 13,000 episodes is off by 6 deviations once in 1e9 seeds."""
    env, rng = gym.make("FrozenLake-v1", max_episode_steps=20), np.random.default_rng(3)
    policy = rng.integers(-1, 4, size=(20, 16))
    found = worth(env, policy)
    assert found is not None
    earned, episode, step = [], 0.0, 0
    state, _ = env.reset(seed=0)
    for _ in range(100_000):
        action = policy[step, state]
        state, reward, over, cut, _ = env.step(int(rng.integers(4) if action < 0 else action))
        episode, step = episode + float(reward), step + 1
        if over or cut:
            earned.append(episode)
            episode, step, state = 0.0, 0, env.reset()[0]
    wrong = abs(np.mean(earned) - found.policy)
    assert wrong < 6 * np.sqrt(found.policy * (1 - found.policy) / len(earned))


def test_without_tables_nobody_can_say() -> None:
    env = numbered(gym.make("CartPole-v1"))
    assert worth(env, np.zeros((500, 162), np.intp)) is None
    changed = gym.wrappers.TransformReward(gym.make("FrozenLake-v1"), lambda reward: -reward)
    assert worth(changed, np.zeros((100, 16), np.intp)) is None


def test_where_chance_is_best_there_is_no_share() -> None:
    assert Worth(-30.0, -30.0, -30.0).share(-30.0) is None
    assert Worth(0.0, 0.0, 0.0).share(0.0) is None
