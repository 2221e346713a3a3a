"""Agents made from methods: what they may spend, and what they plan for."""

from dataclasses import replace

import numpy as np
import pytest
from made import task_of

from privrl.accounting.rdp import BudgetExceeded
from privrl.accounting.targets import RenyiDP
from privrl.agents import PSRL, HatRewards, SparsePSRL, TabularAgent
from privrl.agents.methods import SAMPLERS, Method, Task, make_agent
from privrl.agents.sparse_psrl import sparse_schedule
from privrl.costs.base import tables_released
from privrl.costs.relations import DAMPED_REWARDS, ReplaceEpisode, ReplaceStep
from privrl.envs import riverswim
from privrl.experiments import SweepSpec
from privrl.samplers.dirichlet import DirichletSampler
from privrl.samplers.factorisations import LocalNoise

MDP = riverswim(n_states=3, horizon=4)
TASK = task_of(MDP, 20)
PRIVATE = [name for name in SAMPLERS if name != "non-private"]
METHODS = [
    *(Method(sampler=name, schedule="geometric:2") for name in PRIVATE),
    Method(agent="ucbvi"),
    Method(agent="dp-ucbvi"),
    Method(agent="rlsvi"),
    Method(agent="explore-then-plan"),
    Method(agent="sparse-psrl"),
    Method(agent="sparse-psrl", sampler="noisy-counts", schedule="geometric:2"),
    Method(rewards="hat"),
    Method(rewards="known"),
    Method(reward_epsilon=0.5),
    Method(sampler="diffuse", window=2),
    Method(rewards="beta"),
]


def made(method: Method, *budgets: RenyiDP | None, task: Task = TASK, **options) -> TabularAgent:
    return make_agent(method, task, budgets, np.random.default_rng(0), **options)


def learn(agent: TabularAgent) -> None:
    for episode in range(TASK.episodes):
        agent.begin_episode(episode)
        counts = MDP.rollout_counts(agent.behaviour, 1, np.random.default_rng(episode))
        agent.observe_counts(counts, MDP.reward_table)


@pytest.mark.few(21)
@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.label)
def test_the_budget_is_kept_and_spent(method: Method) -> None:
    """The accountant holds it, all that is planned fits, and nothing more does."""
    budget = RenyiDP(2, 0.8)
    agent = made(method, budget)
    whole = RenyiDP(2, 0.8 + (method.reward_epsilon or 0.0))
    assert agent.accountant.budget == whole
    learn(agent)
    spent = float(agent.accountant.spent(2.0))
    assert 0.99 * whole.epsilon <= spent <= whole.epsilon
    if method.window is None:  # otherwise a record enters no more draws, however many there are
        due = next((e for e in range(TASK.episodes, 100) if agent.schedule.is_due(e)), 19)
        with pytest.raises(ValueError, match=r"over the budget|must cover all"):
            agent.begin_episode(due)


def test_every_budget_is_its_own() -> None:
    budgets = [RenyiDP(2, 0.1), RenyiDP(2, 1.0)]
    agent = made(Method(), *budgets, runs=2)
    assert agent.accountant.budget == tuple(budgets)
    assert agent.batch_shape == (2, 2)
    agent.begin_episode(0)
    np.testing.assert_allclose(agent.accountant.spent(2.0), [0.1, 1.0], rtol=1e-6)


def test_users_are_those_whose_episodes_are_in_a_batch() -> None:
    """Draws before episodes 0, 1, 3, 7 and 15: one user too many is noise that nobody adds."""
    agent = made(Method(sampler="local-counts", schedule="geometric:2"), RenyiDP(2, 1.0))
    assert agent.sampler.factorisation == LocalNoise((0, 1, 2, 4, 8))


def test_users_are_counted_from_the_first_episode_on() -> None:
    agent = made(Method(agent="explore-then-plan", sampler="local-counts"), RenyiDP(2, 1.0))
    assert agent.sampler.factorisation == LocalNoise((19,))


def test_explore_then_plan_draws_before_the_last_episode() -> None:
    agent = made(Method(agent="explore-then-plan"), RenyiDP(2, 1.0))
    assert list(agent.schedule.starts(20)) == [19]
    assert agent.sampler.updates == 1  # type: ignore[attr-defined] # NoisyCounts


def test_a_window_is_planned_for() -> None:
    """A record takes part in as many draws as it has batches, so it costs these and no more."""
    agent = made(Method(sampler="diffuse", schedule="every-episode", window=3), RenyiDP(2, 0.8))
    assert isinstance(agent.sampler, DirichletSampler)
    assert agent.sampler.window == 3


def test_transitions_and_rewards_share_the_budget() -> None:
    agent = made(Method(reward_share=0.25), RenyiDP(2, 0.8))
    transitions, rewards = agent.sampler.cost, agent._rewards.cost
    assert transitions is not None
    assert rewards is not None
    assert float(transitions.rdp(2.0)) == pytest.approx(0.6, rel=1e-6)
    assert float(rewards.rdp(2.0)) == pytest.approx(0.2, rel=1e-6)


@pytest.mark.parametrize("terminates", [False, True])
def test_loops_are_damped_where_the_relation_gains_by_it(terminates: bool) -> None:
    task = replace(TASK, relation=ReplaceEpisode(4), terminates=terminates)
    agent = made(Method(), RenyiDP(2, 1.0), task=task)
    loops = agent.sampler.loops  # type: ignore[attr-defined] # NoisyCounts
    assert loops.shape == (3, 2, 3 + terminates)
    assert loops.sum() == 6


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"agent": "sparse-psrl", "rewards": "noisy"}, "rewards must be auto"),
        ({"agent": "sparse-psrl", "rewards": "known"}, "rewards must be auto"),
        ({"agent": "sparse-psrl", "sampler": "diffuse"}, "sampler must release counts"),
        ({"agent": "sparse-psrl", "resamples": "geometric"}, "resamples must be left out"),
        ({"rewards": "hat", "sampler": "concentrated"}, "sampler must release counts"),
    ],
)
def test_what_does_not_go_together(wrong: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Method(**wrong)


def test_sparse_psrl_has_settings_of_its_own() -> None:
    method = Method(agent="sparse-psrl")
    assert (method.sampler, method.schedule) == ("noisy-counts:buffered", "auto")
    assert method.draws_of(1000) == sparse_schedule(1000, private=True)
    exact = Method(agent="sparse-psrl", sampler="non-private")
    assert exact.draws_of(1000) == sparse_schedule(1000, private=False)
    agent = made(method, RenyiDP(2, 0.8))
    assert isinstance(agent, SparsePSRL)
    assert isinstance(agent._rewards, HatRewards)
    assert agent.episodes == TASK.episodes


@pytest.mark.parametrize("runs", [None, 3])
def test_rewards_are_damped_where_the_relation_gains_by_it(runs: int | None) -> None:
    """And where their model can tell steps that stay from others."""
    cheaper = ReplaceStep(arrival_rewards=True)
    for relation in (cheaper, ReplaceEpisode(4), ReplaceStep()):
        task = replace(TASK, relation=relation)
        for method, can in (
            (Method(agent="sparse-psrl"), True),
            (Method(rewards="hat"), True),
            (Method(), False),
            (Method(sampler="local-counts", rewards="hat"), True),
        ):
            model = made(method, RenyiDP(2, 1.0), task=task, runs=runs)._rewards
            damped = can and relation != ReplaceStep()
            assert model.width == (22 if damped else 11 if can else 2)
            stated = tables_released(model.cost)
            assert stated == {DAMPED_REWARDS if damped else "rewards"}


@pytest.mark.parametrize("relation", [ReplaceStep(), ReplaceStep(arrival_rewards=True)])
def test_its_defaults_are_those_of_private(relation: ReplaceStep) -> None:
    """What the command line makes and what `PSRL.private` makes is one agent."""
    task = replace(TASK, relation=relation)
    one = made(Method(agent="sparse-psrl"), RenyiDP(2, 0.8), task=task)
    other = PSRL.private(MDP, target=RenyiDP(2, 0.8), episodes=TASK.episodes, relation=relation)
    assert one.schedule == other.schedule
    assert one.sampler.cost == other.sampler.cost
    assert one._rewards.cost == other._rewards.cost
    assert one._rewards.width == other._rewards.width


def test_who_claims_nothing_has_no_budget() -> None:
    claimless = Method(sampler="non-private"), Method(agent="random"), Method(agent="q-learning")
    for method in claimless:
        assert not method.is_private
        agent = made(method, None)
        agent.begin_episode(0)
    assert Method().is_private
    with pytest.raises(BudgetExceeded):
        made(Method(agent="q-learning"), RenyiDP(2, 1e6)).begin_episode(0)


def test_a_label_fits_into_pictures() -> None:
    """Those of longer ones took seconds to draw or more memory than there is, after the sweep."""
    assert Method(label="a" * 200).label == "a" * 200
    for label in ("a" * 201, '"' * 70_000):
        with pytest.raises(ValueError, match="label must have at most 200 characters"):
            Method(label=label)
        with pytest.raises(ValueError, match="label must have at most 200 characters"):
            SweepSpec.from_dict({"methods": [{"label": label}]})
    with pytest.raises(ValueError, match="label must be"):
        Method(label=5)  # type: ignore[arg-type]
