"""Tables that are added to a little at a time: the sums, and that no table is made for each."""

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
from made import agent_of

from privrl.agents import PSRL, KnownRewards, NoisyRewards, Transition
from privrl.agents.observer import Tally
from privrl.samplers.noisy_counts import NonPrivate


@pytest.mark.few(12)
@pytest.mark.parametrize("shape", [(3,), (4, 5, 6), (4, 0), (40, 50)])
@pytest.mark.parametrize("most", [3, 40, 400])
def test_sums_are_those_of_one_by_one(shape: tuple[int, ...], most: int) -> None:
    """200 additions of random lengths, cells twice among them, and a whole table now and then."""
    rng, wanted, tally = np.random.default_rng(2), np.zeros(shape), Tally(shape)
    for number in range(200):
        cells = rng.integers(wanted.size, size=rng.integers(most)) if wanted.size else np.empty(0)
        cells, amounts = cells.astype(np.intp), rng.integers(9, size=len(cells)) / 4
        for cell, amount in zip(cells, amounts, strict=True):
            wanted.reshape(-1)[cell] += amount
        tally = tally.plus(cells, amounts)
        if number % 50 == 7:
            tally, wanted = tally.plus_table(np.full(shape, 0.5)), wanted + 0.5
        np.testing.assert_array_equal(tally.total, wanted)
        np.testing.assert_array_equal(tally.filled.table, wanted)
        assert tally.is_empty == (not wanted.any())
        lengths = [len(each) for each, _ in tally.waiting]
        assert 2 * sum(lengths) < max(wanted.size, 1)
        assert all(2 * after < before for before, after in pairwise(lengths))


def test_a_tally_does_not_change() -> None:
    tallies = [Tally((3, 4))]
    cells, amounts = np.array([1, 1, 7]), np.ones(3)
    for _ in range(6):
        tallies.append(tallies[-1].plus(cells, amounts))
    for number, tally in enumerate(tallies):
        assert tally.total.reshape(-1)[[1, 7]].tolist() == [2 * number, number]
        with pytest.raises(ValueError, match="read-only"):
            tally.total[0, 0] = 1.0


@pytest.mark.slow
def test_steps_are_remembered_without_a_table() -> None:
    """A table of 51 MB and rewards of 3: thirty episodes of 20 steps take less than 0.1 MB."""
    sizes = n_states, n_actions, horizon = 800, 10, 20
    rewards = NoisyRewards(NonPrivate(), low=0, high=1)
    tracemalloc.start()
    agent = agent_of(
        PSRL, *sizes, sampler=NonPrivate(), rewards=rewards, rng=np.random.default_rng(0)
    )
    rng = np.random.default_rng(1)
    steps = rng.integers(n_states, size=(30, horizon + 1, 1))
    actions, paid = rng.integers(n_actions, size=(30, horizon, 1)), rng.random((30, horizon, 1))
    every = np.ones((horizon, 1), bool)
    for path, action, reward in zip(steps, actions, paid, strict=True):
        agent.observe_steps(path[:-1], action, reward, path[1:], observed=every, terminated=~every)
    agent.observe(Transition(1, 2, 0.5, 3))
    agent._count_steps()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1e5
    wanted = np.zeros((n_states, n_actions, n_states))
    np.add.at(wanted, (steps[:, :-1], actions, steps[:, 1:]), 1)
    wanted[1, 2, 3] += 1
    np.testing.assert_array_equal(agent._new.counts, wanted)
    assert agent._new.rewards[..., 0].sum() == pytest.approx(paid.sum() + 0.5, abs=0.01)
    np.testing.assert_array_equal(agent._new.rewards.sum(axis=-1), wanted.sum(axis=-1))


def test_rewards_without_a_table_are_remembered_as_none() -> None:
    agent = agent_of(
         PSRL, 3, 2, 5, sampler=NonPrivate(), rewards=KnownRewards(np.zeros((3, 2))),
        rng=np.random.default_rng(0),
    )  # fmt: skip
    agent.observe(Transition(0, 1, 0.5, 2))
    agent._count_steps()
    assert agent._new.rewards.shape == (3, 2, 0)
    assert agent._new.counts.sum() == agent._new.counts[0, 1, 2] == 1
