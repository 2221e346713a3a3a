"""Agents and samplers used as they are not meant to be, replayed on the neighbours that hurt most.

Each way either is refused in the same words whatever the data are, or costs what it says.
"""

import copy
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from made import agent_of

from privrl.accounting.rdp import RdpAccountant
from privrl.agents import (
    PSRL,
    BetaRewards,
    EveryEpisode,
    HatRewards,
    KnownRewards,
    NoisyRewards,
    Transition,
)
from privrl.agents.rewards import reward_loops
from privrl.agents.setup import self_loops
from privrl.audit import audit_replay
from privrl.costs.relations import DAMPED, ReplaceEpisode, ReplaceStep
from privrl.samplers.base import draw
from privrl.samplers.dirichlet import Diffuse
from privrl.samplers.factorisations import LocalNoise
from privrl.samplers.noisy_counts import NoisyCounts

S, A = 3, 2


def _agent(sampler: Any, rewards: Any, horizon: int = 4, **options: Any) -> PSRL:
    return agent_of(
         PSRL, S, A, horizon, sampler=sampler, rewards=rewards, rng=np.random.default_rng(0),
        schedule=EveryEpisode(), accountant=RdpAccountant(), **options,
    )  # fmt: skip


def _known() -> KnownRewards:
    return KnownRewards(np.zeros((S, A)))


def _noisy(**options: Any) -> NoisyCounts:
    return NoisyCounts(sigma=1.0, updates=4, **options)


def _used(sampler: Any) -> Any:
    """Return a sampler after its first update, when it has been paid for."""
    sampler.update(np.zeros((S, A, 2)), np.random.default_rng(0))
    return sampler


def _chain(states: list[int], reward: float = 0.0) -> list[Transition]:
    return [
        Transition(s, 0, reward, t, False) for s, t in pairwise(states)
    ]  # fmt: skip


def _told(agent: PSRL, history: list[list[Transition]]) -> Any:
    shown = []
    for episode, steps in enumerate(history):
        agent.begin_episode(episode)
        shown.append(agent.behaviour.copy())
        for step in steps:
            agent.observe(step)
    agent.begin_episode(len(history))
    return shown, agent.behaviour


def _nothing_is_found(pipeline: Any, data: Any, neighbour: Any) -> None:
    findings = audit_replay(pipeline, data, neighbour).findings
    assert not findings, findings


# In a self-loop a replaced step changes a cell by two; without it a batch of one episode each.
LOOPS, LEAVES = [_chain([0, 0, 0])], [_chain([0, 1, 0])]


@pytest.mark.parametrize("batches", [1, 2, 3])
def test_rewards_on_arrival_under_a_relation_without(batches: int) -> None:
    """Where a state is replaced, so is what was paid for reaching it."""
    paid = np.broadcast_to(np.array([1.0, 0.0, 0.5]), (S, A, S))

    def pipeline(histories: list[list[list[int]]]) -> Any:
        agent = _agent(_noisy(), NoisyRewards(_noisy(table="rewards")))
        for episode, states in enumerate(histories):
            agent.begin_episode(episode)
            counts = np.zeros((S, A, S), np.int64)
            for s, t in pairwise(states):
                counts[s, 0, t] += 1
            agent.observe_counts(counts, paid)
        agent.begin_episode(len(histories))
        return agent.behaviour

    before = [[0, 1, 2, 0]] * (batches - 1)
    _nothing_is_found(pipeline, [*before, [0, 0, 0, 0]], [*before, [0, 0, 1, 0]])


@pytest.mark.parametrize("power", [27, 36, 40, 52])
@pytest.mark.parametrize("kind", [NoisyRewards, BetaRewards])
def test_rewards_that_are_no_whole_numbers(power: int, kind: Any) -> None:
    """Sums of floats depend on their order; neighbours near a power of two would differ by more."""
    small = 1.25 * 2.0 ** (power - 53)

    def pipeline(first: float) -> Any:
        agent = _agent(_noisy(), kind(_noisy(table="rewards")))
        agent.begin_episode(0)
        ones = np.zeros((S, A, S), np.int64)
        ones[0, 0, 0] = 2**power - 1
        agent.observe_counts(ones, np.ones((S, A, 1)))
        for reward in [first, *[min(small, 1.0)] * 4]:
            one = np.zeros((S, A, S), np.int64)
            one[0, 0, 0] = 1
            agent.observe_counts(one, np.full((S, A, 1), reward))
        agent.begin_episode(1)
        return agent.behaviour

    _nothing_is_found(pipeline, 1.0, 0.0)


def test_an_episode_that_goes_on_after_its_end() -> None:
    relation = ReplaceEpisode(4)

    def pipeline(history: Any) -> Any:
        sampler = _noisy(relation=relation, loops=self_loops(S, A, terminates=True))
        return _told(_agent(sampler, _known(), terminates=True), history)

    stuck = [Transition(0, 0, 0.0, 0, True)] * 4
    _nothing_is_found(pipeline, [stuck], [[Transition(0, 1, 0.0, 0, True)] * 4])


def test_used_samplers_of_another_table() -> None:
    def pipeline(history: Any) -> Any:
        used = _used(_noisy(table="rewards", relation=ReplaceStep()))
        return _told(_agent(used, _known()), history)

    _nothing_is_found(pipeline, LOOPS, LEAVES)


def test_used_samplers_of_shorter_episodes() -> None:
    def pipeline(history: Any) -> Any:
        used = _used(_noisy(relation=ReplaceEpisode(2)))
        return _told(_agent(used, _known()), history)

    _nothing_is_found(pipeline, [_chain([0, 0, 0, 0, 0])], [_chain([1, 1, 1, 1, 1])])


def test_used_samplers_of_rewards() -> None:
    def pipeline(history: Any) -> Any:
        rewards = NoisyRewards(_used(_noisy(table="transitions")))
        return _told(_agent(_noisy(), rewards), history)

    _nothing_is_found(pipeline, [_chain([0, 0, 0], 1.0)], [_chain([0, 1, 0], 0.0)])


@pytest.mark.parametrize("kind", ["noisy", "local"])
def test_the_damped_table_without_damping(kind: str) -> None:
    def pipeline(history: Any) -> Any:
        if kind == "noisy":
            sampler: Any = _noisy(table=DAMPED)
        else:
            sampler = NoisyCounts(
                sigma=1.0, updates=4, factorisation=LocalNoise([5] * 4), table=DAMPED
            )
        return _told(_agent(sampler, _known()), history)

    _nothing_is_found(pipeline, LOOPS, LEAVES)


@pytest.mark.parametrize("kind", [NoisyRewards, BetaRewards, HatRewards])
def test_damped_rewards_that_are_not_kept_apart(kind: Any) -> None:
    """Two cells a row are as many as two reward models have, and half of what the third has."""
    arrival = ReplaceStep(arrival_rewards=True)

    def pipeline(history: Any) -> Any:
        loops = np.array([False, True])
        rewards = kind(_noisy(table="rewards", relation=arrival, loops=loops))
        return _told(_agent(_noisy(relation=arrival), rewards), history)

    _nothing_is_found(pipeline, [_chain([0, 0, 1], 0.0)], [_chain([0, 1, 1], 1.0)])


def test_damped_rewards_of_an_episode_in_pieces() -> None:
    """Steps of one state, each told as if no step were between: all of them in one cell."""
    relation = ReplaceEpisode(4)

    def pipeline(history: Any) -> Any:
        paid = _noisy(table="rewards", relation=relation, loops=reward_loops(relation))
        return _told(_agent(_noisy(relation=relation), HatRewards(paid)), history)

    pieces = [Transition(0, 0, 1.0, 1)] * 4
    _nothing_is_found(pipeline, [pieces], [[Transition(1, 0, 1.0, 0)] * 4])


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy])
@pytest.mark.parametrize("sampler", [_noisy(), Diffuse(weight=0.5, window=1)])
def test_copies_of_an_agent_in_use(make: Any, sampler: Any) -> None:
    """Two agents that go on from one would enter one step into two batches."""

    def pipeline(history: Any) -> Any:
        agent = _agent(sampler, _known())
        agent.begin_episode(0)
        for step in history[0]:
            agent.observe(step)
        other = make(agent)
        for each in (agent, other):
            each.begin_episode(1)
        return agent.behaviour, other.behaviour

    _nothing_is_found(pipeline, LOOPS, LEAVES)


@pytest.mark.parametrize("sampler", [_noisy(), Diffuse(weight=0.5), Diffuse(weight=0.5, window=1)])
def test_batches_entered_again(sampler: Any) -> None:
    """What an agent has handed over is not handed over again."""

    def pipeline(history: Any) -> Any:
        return _told(_agent(sampler, _known()), [*history, *[_chain([0, 1, 2])] * 2])

    _nothing_is_found(pipeline, LOOPS, LEAVES)


def test_a_draw_of_counts_that_are_no_whole_numbers() -> None:
    """A sampler used by itself: fractions whose sums depend on their order are refused, or fine."""
    small = 1.25 * 2.0**-13

    def pipeline(first: float) -> Any:
        sampler, rng = _noisy(), np.random.default_rng(0)
        total = np.array([[2.0**40 - 1, 0.0]])
        for amount in (first, small, small):
            total = total + np.array([[amount, 0.0]])
        return draw(RdpAccountant(), [(sampler, total)], rng)[0].sample(rng)

    _nothing_is_found(pipeline, 1.0, 0.0)
