"""Q-learning without privacy: one step by hand, its limits, and what it reaches."""

from copy import copy

import gymnasium as gym
import numpy as np
import pytest
from made import agent_of

from privrl.accounting.rdp import BudgetExceeded, RdpAccountant
from privrl.accounting.targets import RenyiDP
from privrl.agents import QLearning, Transition
from privrl.agents.training import learn_counts
from privrl.envs import TabularMDP, riverswim
from privrl.envs.exploration import deep_sea
from privrl.envs.suite import SUITE
from privrl.experiments.training.run import train

MDP = riverswim(n_states=4, horizon=6)


def learner(mdp: TabularMDP = MDP, episodes: int = 400, **options) -> QLearning:
    return agent_of(
         QLearning, mdp.n_states, mdp.n_actions, mdp.horizon, episodes=episodes,
        **{"rng": np.random.default_rng(0), **options},
    )  # fmt: skip


def test_steps_by_hand() -> None:
    """Discount 5/6, rates (6 + 1) / (6 + n) for the n-th visit: 1, 7/8, 7/9 and so on."""
    agent = learner()
    agent.begin_episode(0)
    agent.observe(Transition(2, 1, 0.8, 3))
    agent.observe(Transition(1, 0, 0.4, 2))
    agent.observe(Transition(1, 0, 0.4, 2, terminated=True))
    agent.observe(Transition(2, 1, 0.0, 2))
    wanted = np.zeros((4, 2))
    wanted[1, 0] = (0.4 + 5 / 6 * 0.8) / 8 + 0.4 * 7 / 8
    wanted[2, 1] = 0.8 / 8 + 5 / 6 * 0.8 * 7 / 8
    np.testing.assert_allclose(agent._values, [wanted], rtol=1e-12)
    np.testing.assert_array_equal(agent.policy, np.tile([0, 0, 1, 0], (6, 1)))


@pytest.mark.slow
def test_side_by_side_is_one_by_one() -> None:
    """Every run of a batch learns of its own steps alone: the law of the first is that of one.

    The mean over 200 runs of either, within 5 standard errors of their difference.
    """
    sizes = {"batch": (200,), "alone": ()}
    values = {}
    for name, batch in sizes.items():
        each = []
        for seed in range(1 if batch else 200):
            agent = learner(episodes=20, batch_shape=batch, rng=np.random.default_rng(seed))
            learn_counts(agent, MDP, 20, np.random.default_rng(1000 + seed))
            each.append(agent._values)
        values[name] = np.concatenate(each)
    gap = values["batch"].mean(axis=0) - values["alone"].mean(axis=0)
    error = np.sqrt((values["batch"].var(axis=0) + values["alone"].var(axis=0)) / 200) + 1e-12
    assert (np.abs(gap) < 5 * error).all()
    assert values["batch"].std(axis=0).max() > 0.01


def test_it_explores_less_and_less() -> None:
    """Of 6000 actions in a state whose best is known, the share of others: half the chance."""
    agent = learner(episodes=100, batch_shape=(6000,))
    agent._values[:, 0] = 1.0, 0.0
    for episode, chance in ((0, 1.0), (25, 0.5), (50, 0.0), (99, 0.0)):
        agent.begin_episode(episode)
        others = agent._choose(np.zeros(6000, np.intp)).mean()
        assert abs(others - chance / 2) < 5 * 0.5 / np.sqrt(6000) * (chance > 0) + 1e-12


def test_every_budget_refuses_it() -> None:
    agent = learner(accountant=RdpAccountant(budget=RenyiDP(2, 1e6)))
    with pytest.raises(BudgetExceeded):
        agent.begin_episode(0)
    free = learner()
    free.begin_episode(0)
    assert float(free.accountant.spent(2.0)) == np.inf


def test_a_budget_refuses_it_on_every_path() -> None:
    """It learned, acted and had a policy, if nobody began an episode."""
    agent = learner(accountant=RdpAccountant(budget=RenyiDP(2, 1e6)))
    with pytest.raises(BudgetExceeded):
        agent.begin_episode(0)
    with pytest.raises(BudgetExceeded):
        agent.learn(1, env=MDP)
    for use in (
        lambda: agent.observe(Transition(2, 1, 0.8, 3)),
        lambda: agent.act(0, 0),
        lambda: agent.policy,
        lambda: agent.predict(0),
        agent.to_policy,
    ):
        with pytest.raises(ValueError, match="must begin an episode first"):
            use()
    assert not agent._values.any()


@pytest.mark.slow
def test_it_learns_what_is_near() -> None:
    """20 runs each; over seeds the figures below differ by less than 0.02."""
    lake = SUITE["FrozenLake4x4"].mdp
    short = TabularMDP(lake.transition, lake.reward, lake.start, 30)
    agent = learner(short, 1000, batch_shape=(20,))
    starts, paid = learn_counts(agent, short, 1000, np.random.default_rng(1))
    assert paid.shape == (1000, 20)
    assert len(starts) == 1000
    assert short.policy_value(agent.policy).mean() > 0.8 * short.optimal_value()


def test_it_does_not_find_what_is_far() -> None:
    """Ten right actions in a row, of chance 1/1024: what needs planning does not happen."""
    sea = deep_sea(10)
    agent = learner(sea, 300, batch_shape=(20,))
    learn_counts(agent, sea, 300, np.random.default_rng(1))
    assert sea.policy_value(agent.policy).mean() < 0.4 * sea.optimal_value()


def test_it_trains_on_gymnasium() -> None:
    env = gym.make("CliffWalking-v1")
    agent = agent_of(
        QLearning, 48, 4, 30, episodes=60, rng=np.random.default_rng(0), terminates=True
    )
    record = train(agent, env, 60, np.random.default_rng(0))
    env.close()
    assert len(record) == 60
    assert agent._values.min() < -1


def test_it_learns_from_steps_alone() -> None:
    agent = learner()
    with pytest.raises(ValueError, match="single steps"):
        agent.observe_counts(np.ones((4, 2, 4), np.int64), np.zeros((4, 2, 1)))
    zeros, seen = np.zeros((1, 1), np.int64), np.ones((1, 1), np.bool_)
    with pytest.raises(ValueError, match="within an episode"):
        agent.observe_steps(zeros, zeros, zeros * 1.0, zeros, observed=seen, terminated=~seen)
    with pytest.raises(ValueError, match="single run"):
        learner(batch_shape=(2,)).act(0, 0)
    with pytest.raises(ValueError, match="episodes"):
        learner(episodes=0)


def test_copies_learn_apart() -> None:
    """They had one table of values between them."""
    agent = learner()
    other = copy(agent)
    for each in (agent, other):
        each.begin_episode(0)
    agent.observe(Transition(2, 1, 0.8, 3))
    assert agent._values.any()
    assert agent._visits.any()
    assert not other._values.any()
    assert not other._visits.any()
