"""Sparse PSRL: when it draws and plans, what it spends, what it refuses, and that it learns."""

import math
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from made import agent_of
from told import Told

from privrl.accounting.rdp import RdpAccountant
from privrl.accounting.targets import ApproxDP, RenyiDP
from privrl.agents import (
    PSRL,
    BetaRewards,
    EveryEpisode,
    HatRewards,
    KnownRewards,
    NoisyRewards,
    SparsePSRL,
    Transition,
    sparse_psrl,
)
from privrl.agents.methods import Method, Task, make_agent
from privrl.agents.schedules import Once
from privrl.agents.sparse_model import SparseModel
from privrl.agents.sparse_psrl import sparse_schedule
from privrl.agents.training import learn_counts
from privrl.costs.relations import ReplaceEpisode, ReplaceRecord, ReplaceStep
from privrl.envs import TabularMDP, riverswim
from privrl.envs.toy_text import read_support
from privrl.experiments.training.run import train
from privrl.samplers.dirichlet import Concentrated, Diffuse, SingleDraw
from privrl.samplers.noisy_counts import NoisyCounts, NonPrivate
from privrl.samplers.sparse_counts import SparseCounts

MDP = riverswim(4, 10)
SIZES = 4, 2, 10


def noisy(table: str, **options: Any) -> NoisyCounts:
    return NoisyCounts(**{"sigma": 2.0, "updates": 60, "table": table, **options})


def agent(episodes: int = 1000, **options: Any) -> SparsePSRL:
    settings: dict[str, Any] = {
        "sampler": noisy("transitions"),
        "rewards": HatRewards(noisy("rewards")),
        "rng": np.random.default_rng(0),
    }
    if "schedule" not in options:
        settings["schedule"] = sparse_schedule(episodes, private=True)
    return agent_of(SparsePSRL, *SIZES, episodes=episodes, **settings | options)


# When it draws, and plans ----------------------------------------------------------------------


@pytest.mark.parametrize(("episodes", "first"), [(1, 0), (2, 1), (10, 1), (260, 3), (3000, 30)])
def test_with_privacy_it_first_waits(episodes: int, first: int) -> None:
    """A hundredth of the episodes, one at least where there are more; then for 12 % more."""
    starts = list(sparse_schedule(episodes, private=True).starts(episodes))
    assert starts[0] == first
    growth = (np.array(starts[1:]) + 1) / (np.array(starts[:-1]) + 1)
    assert (np.diff(starts) >= 1).all()
    assert (growth[np.diff(starts) > 1] < 1.25).all()
    assert (growth >= 1.12).all()


def test_without_privacy_it_draws_from_the_first_episode_on() -> None:
    """Then whenever they have grown by 5 %."""
    starts = np.array(sparse_schedule(3000, private=False).starts(3000))
    assert starts[:21].tolist() == list(range(21))
    growth = (starts[1:] + 1) / (starts[:-1] + 1)
    assert (growth >= 1.05).all()
    assert (growth[np.diff(starts) > 1] < 1.1).all()
    assert starts[-1] > 0.95 * 3000


def test_of_a_very_large_model_draws_alone_make_plans(monkeypatch) -> None:
    learner = agent(300)
    draws = set(learner.schedule.starts(300))
    monkeypatch.setattr(sparse_psrl, "_LARGE", 1)
    for episode in range(60):
        before = None if episode == 0 else learner.behaviour
        learner.begin_episode(episode)
        if episode > min(draws):
            assert (learner.behaviour is not before) == (episode in draws)


@pytest.mark.parametrize("runs", [1, 3])
@pytest.mark.parametrize("large", [False, True])
def test_how_large_a_model_is_for_each_run_decides(runs, large, monkeypatch) -> None:
    """Its entries, which are cells and one for each row, times steps."""
    learner = agent(300, batch_shape=(runs,))
    first, due = (start for start in learner.schedule.starts(300) if 50 < start < 64)
    learner.begin_episode(first)
    model, draws, before = learner._model, learner.draws, learner.behaviour.copy()
    assert model.size == (len(model._chance) + runs * 4 * 2) * 10
    monkeypatch.setattr(sparse_psrl, "_LARGE", math.ceil(model.size / runs) - large)
    policies = []
    for episode in range(first + 1, due):
        learner.begin_episode(episode)
        policies.append(learner.behaviour.copy())
    assert learner.draws == draws
    assert any((each != before).any() for each in policies) == (not large)
    learner.begin_episode(due)
    assert learner.draws == draws + 1
    assert (learner.behaviour != before).any()


@pytest.mark.parametrize("wrong", [0, -3, 2.5])
@pytest.mark.parametrize("private", [False, True])
def test_a_run_has_episodes(wrong, private: bool) -> None:
    with pytest.raises(ValueError, match="episodes must be a whole number"):
        sparse_schedule(wrong, private=private)


def test_nothing_is_released_before_the_first_draw() -> None:
    """Its actions are random until then, whatever it has seen, and there is nothing to deploy."""
    learner = agent()
    for episode in range(10):
        learner.begin_episode(episode)
        assert learner.behaviour.shape == (10, 4)
        assert (learner.behaviour == -1).all()
        assert learner.free is None
        actions = [learner.act(state, step) for state in range(4) for step in range(10)]
        assert set(actions) == {0, 1}
        assert learner.draws == 0
        assert learner.released is None
        assert (learner.accountant.rdp == 0).all()
        with pytest.raises(ValueError, match="policy does not exist before the first draw"):
            _ = learner.policy
        learner.observe(Transition(0, 1, 1.0, 3))
    learner.begin_episode(10)
    assert learner.draws == 1
    assert learner.released is not None
    assert (learner.accountant.rdp > 0).all()
    assert (learner.policy >= 0).all()


def test_who_begins_late_draws_at_once() -> None:
    """Told of its first episode when draws were due already."""
    learner = agent()
    learner.begin_episode(57)
    assert learner.draws == 1


@pytest.mark.slow
def test_what_is_deployed_is_the_mean_plan_and_free() -> None:
    learner = agent()
    train(learner, MDP, 300, np.random.default_rng(1))
    transition, reward = learner.released
    spent, state = learner.accountant.rdp.copy(), learner.rng.bit_generator.state
    deployed = learner.policy
    one_run = [
        type(each)(each.counts[None], each.deviation[None], each.alpha)
        for each in (transition, reward.rows)
    ]
    model = SparseModel(one_run[0], type(reward)(one_run[1], reward.grid), 10)
    np.testing.assert_array_equal(deployed, model.mean_plan()[0])
    np.testing.assert_array_equal(learner.accountant.rdp, spent)
    assert learner.rng.bit_generator.state == state
    assert learner.draws == len(list(learner.schedule.starts(300)))


@pytest.mark.parametrize("episodes", [300, 3000, 100_000])
def test_a_run_has_about_a_thousand_plans(episodes: int) -> None:
    """As many as there are episodes after the first draw, if these are fewer."""
    learner = agent(episodes)
    starts = list(learner.starts(episodes))
    assert starts[0] == 0
    assert set(learner.schedule.starts(episodes)) <= set(starts)
    assert min(episodes - episodes // 100, 700) <= len(starts) <= 1100
    assert list(learner.starts(200)) == [start for start in starts if start < 200]


def test_a_schedule_may_have_no_draw_in_a_run() -> None:
    learner = agent(20, schedule=Once(20))
    assert list(learner.starts(20)) == [0]
    for episode in range(20):
        learner.begin_episode(episode)
        assert (learner.behaviour == -1).all()
    learner.begin_episode(20)
    assert learner.draws == 1


@pytest.mark.slow
def test_plans_between_draws_are_fresh_and_cost_nothing() -> None:
    learner = agent(300)
    starts = set(learner.starts(300))
    before, policies = None, set()
    for episode in range(120):
        learner.begin_episode(episode)
        spent = learner.accountant.rdp.copy()
        if learner.draws == 1:
            first = spent
        if learner.draws > 1:
            np.testing.assert_array_equal(spent, first)  # all was paid at the first
        if episode not in starts:
            np.testing.assert_array_equal(learner.behaviour, before)
        before = learner.behaviour.copy()
        policies.add(before.tobytes())
    assert learner.draws == len(list(learner.schedule.starts(120)))
    assert len(policies) > 40


def test_a_plan_between_draws_is_of_the_same_release() -> None:
    learner, released = agent(300), None
    for episode in range(60):
        learner.begin_episode(episode)
        assert (learner.released is released) != learner.schedule.is_due(episode)
        released = learner.released
        learner.observe(Transition(0, 1, 1.0, 3))


@pytest.mark.slow
@pytest.mark.parametrize("found", [True, False])
def test_exploring_ends_after_a_seventh(found: bool, monkeypatch) -> None:
    """Of 4000 runs that know nothing, those that explore leave all to chance: 1 − 7 t / T do.

    Within five standard errors of a half; from a seventh on, none, or a fifth until they find
    large rewards.
    """
    model_of = SparsePSRL._model_of

    def with_rewards(*args) -> SparseModel:
        model = model_of(*args)
        assert not model.found.any()
        model.found |= found
        return model

    monkeypatch.setattr(SparsePSRL, "_model_of", with_rewards)
    learner = agent(
        700, batch_shape=(4000,), sampler=NonPrivate(), rewards=HatRewards(NonPrivate()),
        schedule=EveryEpisode(),
    )  # fmt: skip
    for episode in (0, 25, 50, 75, 99, 100, 101, 699, 900):
        learner.begin_episode(episode)
        explores = (learner.behaviour == -1).all(axis=(1, 2))
        assert ((learner.behaviour == -1).any(axis=(1, 2)) == explores).all()
        wanted = 1 - episode / 100 if episode < 100 else 0.0 if found else 0.2
        assert abs(explores.mean() - wanted) <= 5 * 0.5 / np.sqrt(4000) * (0 < wanted < 1)


def test_actions_left_open_are_those_that_are_free() -> None:
    """Where one of two actions is known, who explores takes the other, in each of 100 steps.

    Or, where that is put off, the one that is known.
    """
    counts = np.zeros((4, 2, 4))
    counts[:, 0, 1] = 100
    counts[2] = 0
    paid = np.zeros((4, 2, 11))
    paid[:, 0, 5] = 100
    paid[2] = 0
    learner = agent(
        sampler=Told(counts, 0.0), rewards=HatRewards(Told(paid, 0.0)), schedule=EveryEpisode()
    )
    learner.begin_episode(0)
    np.testing.assert_array_equal(
        learner.free, [[False, True], [False, True], [True, True], [False, True]]
    )
    known = learner.behaviour[:, [0, 1, 3]]
    assert set(np.unique(known)) == {-1, 0}
    assert (learner.behaviour[:, 2] == -1).all()
    for step, action in enumerate(learner.behaviour[:, 0]):
        taken = {learner.act(0, step) for _ in range(100)}
        assert taken == ({1} if action == -1 else {0})
    assert {learner.act(2, 0) for _ in range(100)} == {0, 1}


# What it refuses -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rewards",
    [
        NoisyRewards(noisy("rewards")),
        BetaRewards(NonPrivate()),
        KnownRewards(MDP.expected_reward),
    ],
    ids=lambda rewards: type(rewards).__name__,
)
def test_other_rewards_are_refused(rewards) -> None:
    with pytest.raises(ValueError, match="rewards must be HatRewards"):
        agent(rewards=rewards)


@pytest.mark.parametrize("sampler", [Diffuse(weight=0.1), Concentrated(alpha=9.0)])
def test_samplers_of_rows_are_refused_before_anything_is_paid(sampler) -> None:
    with pytest.raises(ValueError, match="sampler must release counts"):
        agent(sampler=sampler)


class Rows(NoisyCounts):
    """A sampler of somebody's own, which releases rows."""

    def update(self, counts, rng):
        return SingleDraw(super().update(counts, rng).mean)


def test_a_number_that_is_refused_is_not_kept() -> None:
    """It decided on the exploration of the next plan, and was saved."""
    learner = agent()
    learner.begin_episode(0)
    for wrong in ("x", -1, 1.5, None):
        with pytest.raises(ValueError, match="episode must be a whole number"):
            learner.begin_episode(wrong)
        assert learner._episode == 0


def test_other_releases_are_refused_before_anything_is_paid() -> None:
    """The first draw was charged, and then the agent refused what it had released."""
    accountant = RdpAccountant()
    sparse = HatRewards(SparseCounts(sigma=1.0, releases=[0, 1], table="rewards"))
    with pytest.raises(ValueError, match="rewards must have a sampler that releases all counts"):
        agent(rewards=sparse, accountant=accountant).begin_episode(0)
    with pytest.raises(ValueError, match="sampler must release counts"):
        agent(sampler=Rows(sigma=1.0, updates=2), accountant=accountant).begin_episode(0)
    assert not accountant.journal


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"episodes": 0, "schedule": EveryEpisode()}, "episodes must be"),
        ({"episodes": 2.5, "schedule": EveryEpisode()}, "episodes must be"),
    ],
)
def test_bad_arguments(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        agent(**wrong)


# That it learns --------------------------------------------------------------------------------


@pytest.mark.slow
def test_it_learns_with_privacy() -> None:
    """Six runs at epsilon 1: each policy is worth nine tenths. Over seeds they are all but best."""
    task = Task(
        n_states=4, n_actions=2, horizon=10, reward_range=MDP.reward_range,
        relation=ReplaceStep(), episodes=1000,
    )  # fmt: skip
    method = Method(agent="sparse-psrl")
    learner = make_agent(method, task, [RenyiDP(2, 1.0)], np.random.default_rng(0), runs=6)
    learn_counts(learner, MDP, 1000, np.random.default_rng(1))
    assert MDP.policy_value(learner.policy).min() > 0.9 * MDP.optimal_value()
    random = MDP.policy_value(np.zeros((10, 4), int))
    assert random < 0.5 * MDP.optimal_value()
    assert 0.99 < float(np.max(learner.accountant.spent(2.0))) <= 1


# PSRL.private ----------------------------------------------------------------------------------


def ending(on_arrival: bool) -> TabularMDP:
    """Two states and an end; rewards from -2 to -1 before it."""
    transition = np.zeros((3, 2, 3))
    transition[0, :, 1] = transition[1, 0, 0] = transition[1, 1, 2] = transition[2, :, 2] = 1
    reward = np.array([[-1.0, -1.0], [-2.0, -1.0], [0.0, 0.0]])
    if on_arrival:
        reward = reward[..., None] * (transition > 0)
    return TabularMDP(transition, reward, [1.0, 0.0, 0.0], 8)


def test_who_is_told_of_counts_learns_where_episodes_end() -> None:
    """Arriving in the end is "over"; what the tables do there is neither counted nor paid."""
    mdp = ending(on_arrival=False)
    learner = agent_of(
        SparsePSRL,
        3,
        2,
        8,
        episodes=10,
        terminates=True,
        schedule=EveryEpisode(),
        sampler=NonPrivate(),
        rewards=HatRewards(NonPrivate(), low=-2.0, high=-1.0),
        rng=np.random.default_rng(0),
    )
    counts = mdp.rollout_counts(np.full((8, 3), -1), 100, np.random.default_rng(1))
    learner.observe_counts(counts, mdp.reward_table, ends=mdp.ends)
    learner.begin_episode(0)
    transition, reward = learner.released
    wanted = np.concatenate([counts, np.zeros((3, 2, 1))], axis=-1)
    wanted[1, 1, [2, 3]] = wanted[1, 1, [3, 2]]
    wanted[2] = 0
    np.testing.assert_array_equal(transition.counts, wanted)
    np.testing.assert_array_equal(reward.rows.counts.sum(axis=-1), wanted.sum(axis=-1))
    for wrong in (mdp.ends[:2], mdp.ends.astype(int)):
        with pytest.raises(ValueError, match="ends must be given for each state"):
            learner.observe_counts(counts, mdp.reward_table, ends=wrong)
    for wrong in (counts[..., :2], counts[:2], np.zeros((3, 2, 4), int), counts[None]):
        with pytest.raises(ValueError, match=r"counts must have shape \(3, 2, 3\)"):
            learner.observe_counts(wrong, mdp.reward_table, ends=mdp.ends)
    for wrong in (-counts, counts * 1.0, counts > 0):
        with pytest.raises(ValueError, match="counts must be whole numbers"):
            learner.observe_counts(wrong, mdp.reward_table, ends=mdp.ends)
    with pytest.raises(ValueError, match="ends must be given"):
        agent().observe_counts(
            np.zeros((4, 2, 4), int), np.zeros((4, 2, 1)), ends=np.zeros(4, bool)
        )


def all_draws(learner: SparsePSRL, episodes: int) -> None:
    for start in learner.starts(episodes):
        learner.begin_episode(start)
    assert learner.draws == len(list(learner.schedule.starts(episodes))) > 0


ENVS: dict[str, Callable[[], Any]] = {
    "RiverSwim": lambda: gym.make("privrl/RiverSwim-v0", n_states=4, horizon=10),
    "FrozenLake": lambda: gym.make("FrozenLake-v1"),
    "tables": lambda: MDP,
    "tables that end": lambda: ending(on_arrival=False),
    "tables that pay on arrival": lambda: ending(on_arrival=True),
}
each_env = pytest.mark.parametrize("name", ENVS)


@pytest.mark.slow
@each_env
@pytest.mark.parametrize("epsilon", [0.1, 5.0])
def test_all_of_the_budget_is_spent_and_no_more(name: str, epsilon: float) -> None:
    learner = PSRL.private(ENVS[name](), target=RenyiDP(2, epsilon), episodes=200)
    assert float(learner.accountant.spent(2.0)) == 0
    all_draws(learner, 200)
    assert 0.99 * epsilon < float(learner.accountant.spent(2.0)) <= epsilon
    with pytest.raises(ValueError, match="updates must cover"):
        learner.begin_episode(list(learner.schedule.starts(10**4))[learner.draws])


@pytest.mark.few(12)
@each_env
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-8), (5.0, 1e-3)])
def test_a_budget_may_be_epsilon_and_delta(name: str, epsilon: float, delta: float) -> None:
    learner = PSRL.private(ENVS[name](), epsilon=epsilon, delta=delta, episodes=20)
    assert learner.accountant.budget == ApproxDP(epsilon, delta)
    all_draws(learner, 20)
    assert 0.999 * epsilon < float(learner.accountant.epsilon(delta)) <= epsilon


def test_more_is_hidden_for_the_same_epsilon_and_delta_by_more_noise() -> None:
    sigmas = [
        float(PSRL.private(MDP, **budget, episodes=20).sampler.sigma)
        for budget in (
            {"epsilon": 1.0, "delta": 1e-3},
            {"epsilon": 1.0, "delta": 1e-6},
            {"epsilon": 1.0, "delta": 1e-6, "relation": ReplaceEpisode(10)},
        )
    ]
    assert sigmas[0] < sigmas[1] < sigmas[2]


@each_env
def test_the_budget_is_what_was_said(name: str) -> None:
    learner = PSRL.private(ENVS[name](), epsilon=0.25, episodes=50)
    assert learner.accountant.budget == ApproxDP(0.25, 1e-5)


@pytest.mark.few(5)
@each_env
def test_public_facts_decide(name: str) -> None:
    """Sizes, range, ends, and whether rewards may depend on where one arrives."""
    env = ENVS[name]()
    learner = PSRL.private(env, epsilon=1.0, episodes=50, rng=np.random.default_rng(3))
    arrival = name in ("FrozenLake", "tables that pay on arrival")
    assert learner.covers_arrival == arrival
    assert learner.sampler.cost.relation == ReplaceStep(arrival_rewards=arrival)
    assert learner.terminates == ("end" in name or arrival)
    wanted = {"FrozenLake": (0, 1), "RiverSwim": MDP.reward_range, "tables": MDP.reward_range}
    grid = learner._rewards.grid
    assert (grid[0], grid[-1]) == pytest.approx(wanted.get(name, (-2, -1)))
    record = train(learner, env, 50, np.random.default_rng(4))
    assert record["episodes"].sum() == 50
    assert learner.draws > 5


def test_no_step_is_taken() -> None:
    class Untouched(gym.Env):
        observation_space, action_space = gym.spaces.Discrete(3), gym.spaces.Discrete(2)
        reward_range = (-1.0, 1.0)

        def reset(self, **options):
            raise AssertionError

        step = reset

    learner = PSRL.private(Untouched(), epsilon=1.0, episodes=10)
    assert (learner.n_states, learner.n_actions, learner.horizon) == (3, 2, 100)
    assert learner.terminates
    assert learner.covers_arrival


@pytest.mark.slow
def test_rewards_that_are_all_the_same_have_a_range() -> None:
    mdp = TabularMDP(MDP.transition, np.full((4, 2), 3.0), MDP.start, 10)
    learner = PSRL.private(mdp, epsilon=1.0, episodes=20)
    train(learner, mdp, 20, np.random.default_rng(0))
    assert (learner._rewards.grid[[0, -1]] == [3, 4]).all()


@pytest.mark.slow
def test_a_support_makes_tables_narrow() -> None:
    """Then states that end an episode are states as others are, and pay 0."""
    mdp = ending(on_arrival=True)
    learner = PSRL.private(mdp, epsilon=1.0, episodes=30, support=mdp.support)
    assert not learner.terminates
    assert (learner._rewards.grid[[0, -1]] == [-2, 0]).all()
    train(learner, mdp, 30, np.random.default_rng(0))
    transition, _ = learner.released
    assert transition.counts.shape == (3, 2, 1)
    lake = gym.make("FrozenLake-v1")
    learner = PSRL.private(
        lake, epsilon=1.0, episodes=30, support=read_support(lake, terminates=True)
    )
    train(learner, lake, 30, np.random.default_rng(0))
    assert learner.released[0].counts.shape[-1] <= 4


@pytest.mark.slow
def test_a_persons_whole_episode_can_be_hidden() -> None:
    """It costs more noise, for the same budget; one of shorter episodes is refused."""
    by_relation = {
        relation: PSRL.private(MDP, target=RenyiDP(2, 1.0), episodes=100, relation=relation)
        for relation in (None, ReplaceEpisode(10), ReplaceEpisode(25))
    }
    sigmas = [float(learner.sampler.sigma) for learner in by_relation.values()]
    assert sigmas[0] < sigmas[1] < sigmas[2]
    learner = by_relation[ReplaceEpisode(10)]
    assert learner.sampler.cost.relation == ReplaceEpisode(10)
    all_draws(learner, 100)
    assert 0.99 < float(learner.accountant.spent(2.0)) <= 1
    with pytest.raises(ValueError, match=r"ReplaceEpisode\(10\)"):
        PSRL.private(MDP, epsilon=1.0, episodes=100, relation=ReplaceEpisode(9))


@pytest.mark.slow
def test_another_order() -> None:
    learner = PSRL.private(MDP, target=RenyiDP(16.0, 0.5), episodes=100)
    all_draws(learner, 100)
    assert 0.99 * 0.5 < float(learner.accountant.spent(16.0)) <= 0.5


@pytest.mark.slow
def test_the_same_randomness_makes_the_same_run() -> None:
    records = [
        train(
            PSRL.private(MDP, epsilon=1.0, episodes=60, rng=np.random.default_rng(seed)),
            MDP, 60, np.random.default_rng(5),
        )
        for seed in (1, 1, 2)
    ]  # fmt: skip
    assert records[0].equals(records[1])
    assert not records[0].equals(records[2])


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"episodes": 0}, "episodes must be"),
        ({"episodes": 1.5}, "episodes must be"),
        ({"epsilon": 0.0}, "epsilon must be"),
        ({"epsilon": -1.0}, "epsilon must be"),
        ({"epsilon": np.nan}, "epsilon must be"),
        ({"delta": 0.0}, "delta must be > 0 for the sampler noisy-counts:buffered, which has no"),
        ({"delta": -1e-5}, "delta must be"),
        ({"epsilon": None}, "epsilon must be given"),
        ({"target": RenyiDP(2, 1.0)}, "epsilon must be given, with delta or without, or target"),
        ({"epsilon": None, "target": 1.0}, "target must be ApproxDP"),
        ({"delta": 1.0}, "delta must be"),
        ({"delta": np.nan}, "delta must be"),
        ({"rng": -7}, "rng must be"),
        ({"relation": ReplaceRecord()}, "for the relation 'replace one record'"),
        ({"support": riverswim(5, 10).support}, "support must be for"),
    ],
)
def test_bad_arguments_of_private(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        PSRL.private(MDP, **{"epsilon": 1.0, "episodes": 50, **wrong})


def test_the_name_of_an_environment_is_none() -> None:
    with pytest.raises(ValueError, match="env must be an environment, got 'FrozenLake-v1'"):
        PSRL.private("FrozenLake-v1", epsilon=1.0, episodes=30)


def test_spaces_must_be_numbered() -> None:
    with pytest.raises(ValueError, match="numbered"):
        PSRL.private(gym.make("Blackjack-v1"), epsilon=1.0, episodes=50)
