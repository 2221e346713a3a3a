"""agent.learn: training in three lines, through the same gates."""

from inspect import Parameter, signature

import gymnasium as gym
import numpy as np
import pytest
from made import agent_of

from privrl import agents
from privrl.accounting import BudgetExceeded, RenyiDP
from privrl.agents import PSRL, EveryEpisode, KnownRewards, QLearning, TabularAgent
from privrl.agents.baselines import RandomPolicy
from privrl.agents.training import Stretch
from privrl.costs import ReplaceEpisode
from privrl.envs import riverswim
from privrl.experiments import train
from privrl.samplers import NonPrivate

RIVER = riverswim(n_states=4, horizon=8)


def river() -> gym.Env:
    return gym.make("privrl.envs:privrl/RiverSwim-v0", n_states=4, horizon=8)


def private(env, episodes: int = 40) -> PSRL:
    target = RenyiDP(2, 1.0)
    return PSRL.private(env, target=target, episodes=episodes, rng=np.random.default_rng(2))


@pytest.mark.slow
def test_three_lines() -> None:
    env = river()
    agent = PSRL.private(env, epsilon=1, episodes=30)
    assert isinstance(agent, PSRL)
    assert agent.learn() is agent
    action, step = agent.predict(env.reset(seed=1)[0])
    assert env.action_space.contains(action)
    assert step == 1
    assert agent.episodes_done == 30
    assert 0.999 < float(agent.accountant.epsilon(1e-5)) <= 1


def test_environments_side_by_side_are_learned_in_and_not_read_of() -> None:
    several = gym.make_vec("privrl.envs:privrl/RiverSwim-v0", num_envs=2, n_states=4, horizon=8)
    with pytest.raises(ValueError, match=r"make the agent for a single one, and learn in all"):
        PSRL.private(several, epsilon=1)
    assert private(river(), 6).learn(env=several).episodes_done == 6


@pytest.mark.slow
def test_how_many_need_not_be_said_at_first() -> None:
    agent = PSRL.private(RIVER, epsilon=1)
    assert agent.learn().episodes_done == 1000
    with pytest.raises(ValueError, match="all 1000 that the agent was made for are done"):
        agent.learn()


@pytest.mark.few(2)
@pytest.mark.parametrize("make", [river, lambda: RIVER], ids=["environment", "tables"])
def test_a_second_call_goes_on_as_one(make) -> None:
    """The same draws, policy and charges; on tables up to the end of a stretch, bit for bit."""
    whole, split = private(make()), private(make())
    ends = whole.starts(40)[12]
    whole.learn(rng=np.random.default_rng(1))
    rng = np.random.default_rng(1)
    split.learn(ends, rng=rng)
    spent = float(split.accountant.spent(2))
    split.learn(rng=rng)
    np.testing.assert_array_equal(split.policy, whole.policy)
    assert split.draws == whole.draws
    assert spent <= float(split.accountant.spent(2)) == float(whole.accountant.spent(2)) <= 1


@pytest.mark.slow
def test_it_is_what_train_does() -> None:
    told, agent, other = [], private(river()), private(river())
    agent.learn(40, rng=np.random.default_rng(1), callback=told.append)
    record = train(other, river(), 40, np.random.default_rng(1))
    np.testing.assert_array_equal(agent.policy, other.policy)
    assert [each.mean_reward for each in told] == record["reward"].tolist()
    assert [each.first for each in told] == list(range(40))
    assert [each.done for each in told] == list(range(1, 41))
    assert {each.total for each in told} == {40}
    assert [each.draws for each in told] == record["draws"].tolist()


def test_a_callback_is_told_of_every_run() -> None:
    told: list[Stretch] = []
    agent = agent_of(QLearning, 4, 2, 8, episodes=3, rng=np.random.default_rng(0), batch_shape=(5,))
    agent.learn(env=RIVER, callback=told.append)
    assert [(each.first, each.episodes, each.done) for each in told] == [
        (0, 1, 1),
        (1, 1, 2),
        (2, 1, 3),
    ]
    assert {each.reward.shape for each in told} == {(5,)}


def test_more_than_was_planned_is_refused_before_anything_is_spent() -> None:
    agent = private(river())
    with pytest.raises(ValueError, match="plan for the total when you make the agent"):
        agent.learn(400)
    assert agent.draws == 0
    assert float(agent.accountant.spent(2)) == 0
    agent.learn()


def test_the_budget_holds_over_calls() -> None:
    """A stream that is paid for once, and an accountant that another agent used up."""
    first = private(river())
    second = PSRL.private(river(), epsilon=1, episodes=40, accountant=first.accountant)
    first.learn()
    with pytest.raises(BudgetExceeded):
        second.learn()
    assert second.draws == 0


def test_what_is_no_callback_is_refused_before_anything_is_learned() -> None:
    agent = private(river())
    with pytest.raises(ValueError, match="callback must be callable with a Stretch, got 'bar'"):
        agent.learn(callback="bar")
    assert (agent.episodes_done, agent.draws) == (0, 0)


def test_a_callback_that_fails_leaves_an_agent_that_goes_on() -> None:
    def fails(told: Stretch) -> None:
        if told.done == 20:
            raise KeyError("no writer")

    agent = private(river())
    with pytest.raises(KeyError, match="no writer"):
        agent.learn(callback=fails)
    assert agent.episodes_done == 20
    assert agent.learn().episodes_done == 40
    assert float(agent.accountant.spent(2)) <= 1


def test_what_is_missing_is_said() -> None:
    bare = agent_of(QLearning, 4, 2, 8, episodes=3, rng=np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"learn\(env=...\), or make the agent with PSRL.private"):
        bare.learn()
    assert bare.learn(env=RIVER).env is RIVER
    with pytest.raises(ValueError, match="episodes must be given"):
        agent_of(RandomPolicy, 4, 2, 8, rng=np.random.default_rng(0)).learn(env=RIVER)
    batch = agent_of(QLearning, 4, 2, 8, episodes=3, rng=np.random.default_rng(0), batch_shape=(2,))
    with pytest.raises(ValueError, match="to_policy is for a single run"):
        batch.to_policy()
    with pytest.raises(ValueError, match="policy does not exist before the first draw"):
        private(river()).predict(0)
    for relation in ("replace-episode", ReplaceEpisode):
        with pytest.raises(ValueError, match=r"relation must be a Relation, .*ReplaceEpisode\("):
            PSRL.private(river(), epsilon=1, relation=relation)


@pytest.mark.slow
def test_prediction_follows_the_last_release() -> None:
    env = gym.make("FrozenLake-v1")
    agent = PSRL.private(env, epsilon=1000, episodes=300, rng=np.random.default_rng(2))
    agent.learn(6, rng=np.random.default_rng(1))
    seen = {state: agent.predict(state)[0] for state in range(16)}
    assert list(seen.values()) == agent.policy[0].tolist()
    agent.learn(rng=np.random.default_rng(1))
    after = [agent.predict(state)[0] for state in range(16)]
    assert after == agent.policy[0].tolist() != list(seen.values())


def test_no_agent_takes_arguments_without_a_name() -> None:
    found = [each for each in vars(agents).values() if isinstance(each, type)]
    kinds = [each for each in found if issubclass(each, TabularAgent)]
    assert len(kinds) == 8
    for kind in kinds:
        given = {each.kind for each in signature(kind).parameters.values()}
        assert not given & {Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL}, kind


def test_a_sampler_of_its_own_learns_likewise() -> None:
    agent = agent_of(
         PSRL, 4, 2, 8, sampler=NonPrivate(), rewards=KnownRewards(RIVER.expected_reward),
        schedule=EveryEpisode(), rng=np.random.default_rng(0),
    )  # fmt: skip
    assert agent.learn(30, env=river()).draws == 30
    assert RIVER.policy_value(agent.to_policy().actions) > 0.9 * RIVER.optimal_value()


@pytest.mark.slow
def test_an_agent_says_what_it_is_and_not_what_it_saw() -> None:
    """Sizes, how far it is, and what was spent of which budget: what is public."""
    agent = PSRL.private(RIVER, epsilon=1, delta=1e-5, episodes=3, rng=np.random.default_rng(0))
    assert repr(agent) == (
        f"<SparsePSRL sizes: {RIVER.n_states} states, 2 actions, {RIVER.horizon} steps, "
        "done: 0 episodes, 0 draws, spent: epsilon 0 at delta 1e-05, "
        "relation: None, budget: ApproxDP(epsilon=1.0, delta=1e-05), "
        "journal: 0 charges in 0 entries>"
    )
    agent.learn()
    assert "done: 3 episodes, " in repr(agent)
    assert "spent: epsilon 1 at delta 1e-05" in repr(agent)
    other = PSRL.private(RIVER, epsilon=1, delta=1e-5, episodes=3, rng=np.random.default_rng(5))
    assert repr(other.learn()) == repr(agent)
    page = agent._repr_html_()
    assert "<caption>SparsePSRL</caption>" in page
    assert "<th>relation</th><td>replace one step</td>" in page
