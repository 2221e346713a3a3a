"""Rows of neighbouring bins: what they add to each other, against loops written out by hand."""

import itertools
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete
from made import agent_of

from privrl.accounting.targets import RenyiDP
from privrl.agents import PSRL, HatRewards, SparsePSRL
from privrl.agents.methods import Method, Task, make_agent
from privrl.agents.neighbours import Cells, Neighbours
from privrl.agents.schedules import EveryEpisode
from privrl.agents.training import learn_counts
from privrl.costs.relations import ReplaceStep
from privrl.envs import TabularMDP, numbered, public_facts
from privrl.envs.wrappers import Discretised
from privrl.samplers.noisy_counts import NoisyCounts

SIZES, ACTIONS = (3, 1, 4), 2
STATES = 12
WORTH, ENOUGH, RARE = 40.0, 5.0, 0.02


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def places() -> list[tuple[int, ...]]:
    return list(itertools.product(*map(range, SIZES)))


def beside(state: int) -> list[tuple[int, np.ndarray]]:
    """The neighbours of a state, and the step to each."""
    here, found = np.array(places()[state]), []
    for axis, side in itertools.product(range(len(SIZES)), (-1, 1)):
        step = side * np.eye(len(SIZES), dtype=int)[axis]
        there = tuple(here + step)
        if there in places():
            found.append((places().index(there), step))
    return found


def moved(cell: int, step: np.ndarray) -> int:
    if cell == STATES:
        return cell
    there = np.clip(np.array(places()[cell]) + step, 0, np.array(SIZES) - 1)
    return places().index(tuple(there))


def given(table: np.ndarray, to: np.ndarray, worth: float) -> np.ndarray:
    """What the rows of a table (S, A, K) give to the rows ``to``, (S, A), by hand."""
    sums = np.zeros_like(table)
    for state in range(STATES):
        for neighbour, step in beside(state):
            for action, cell in np.ndindex(*table.shape[1:]):
                sums[neighbour, action, moved(cell, step)] += table[state, action, cell]
    total = sums.sum(axis=-1, keepdims=True)
    some = (total > ENOUGH) & (sums > RARE * total) & to[..., None]
    return np.where(some, sums * np.minimum(total, worth) / np.maximum(total, ENOUGH), 0.0)


def random_table(seed: int, filled: float) -> tuple[np.ndarray, np.ndarray]:
    """Chances and counts of all cells, shape (S, A, S + 1); most have a low chance."""
    shape = STATES, ACTIONS, STATES + 1
    chance = np.where(rng(seed).random(shape) < filled, rng(seed + 1).random(shape), 0.0)
    return chance, np.rint(rng(seed + 2).exponential(20, shape))


@pytest.mark.parametrize("filled", [0.01, 0.05, 0.5, 0.0])
@pytest.mark.parametrize("seed", [0, 10])
def test_rows_get_the_likely_cells_of_their_neighbours_moved_as_far(
    filled: float, seed: int
) -> None:
    chance, count = random_table(seed, filled)
    state, action, cell = np.nonzero(chance)
    own = Cells(state, action, cell, chance[state, action, cell], count[state, action, cell])
    found = Neighbours(SIZES).with_shared(own, ACTIONS)
    for mine, first in zip(own, found, strict=True):
        np.testing.assert_array_equal(first[: len(state)], mine)
    assert (found.chance[len(state) :] == 1).all()
    table = np.zeros_like(count)
    np.add.at(table, tuple(each[len(state) :] for each in found[:3]), found.amount[len(state) :])

    known = np.where(chance > 0.5, chance * count, 0.0)
    everywhere = np.ones((STATES, ACTIONS), bool)
    first = given(known, everywhere, WORTH)
    second = given(known + first, first.sum(axis=-1) == 0, WORTH / 2)
    np.testing.assert_allclose(table, first + second, rtol=1e-12)
    assert (table.sum(axis=-1) <= WORTH * (1 + 1e-12)).all()
    if filled == 0.01:
        assert (second > 0).any()


def test_like_cells_of_neighbours_are_those_as_far_from_them() -> None:
    chance, _ = random_table(3, 0.1)
    largest = np.zeros_like(chance)
    for state in range(STATES):
        for neighbour, step in beside(state):
            for action, cell in np.ndindex(*chance.shape[1:]):
                if chance[state, action, cell] > 0.1:
                    to = neighbour, action, moved(cell, step)
                    largest[to] = max(largest[to], chance[state, action, cell])
    np.testing.assert_array_equal(Neighbours(SIZES).beside(chance), largest)


def test_rewards_are_shared_alike() -> None:
    paid = np.rint(rng(5).exponential(9, (STATES, ACTIONS, 3)))
    chance = rng(6).random(paid.shape)
    found, sure = Neighbours(SIZES).with_shared_rewards(paid, chance)
    likely = np.where(chance > 0.5, paid, 0.0)
    sums = np.stack([sum(likely[other] for other, _ in beside(s)) for s in range(STATES)])
    total = sums.sum(axis=-1, keepdims=True)
    some = (total > ENOUGH) & (sums > 0)
    more = sums / np.maximum(total, ENOUGH) * np.minimum(total, WORTH)
    np.testing.assert_allclose(found, np.where(some, paid * chance + more, paid), rtol=1e-12)
    np.testing.assert_array_equal(sure, np.where(some, 1.0, chance))


# The public fact --------------------------------------------------------------------------------


def test_facts_of_an_environment_have_its_bins() -> None:
    env = numbered(gym.make("MountainCar-v0"), "5,4")
    assert public_facts(env).bins == (5, 4)
    assert public_facts(gym.wrappers.RecordEpisodeStatistics(env)).bins == (5, 4)
    assert public_facts(gym.make("FrozenLake-v1")).bins == ()
    agent = PSRL.private(env, target=RenyiDP(2.0, 1.0), episodes=20)
    assert isinstance(agent, SparsePSRL)
    assert agent.bins == (5, 4)
    with pytest.raises(AttributeError, match="bins of a SparsePSRL is read-only"):
        agent.bins = ()


class Renumbered(gym.ObservationWrapper):  # type: ignore[type-arg] # any
    """A wrapper that may change states."""

    def observation(self, observation: Any) -> Any:
        return (observation + 1) % 20


def test_states_that_have_no_order_or_may_be_changed_have_no_bins() -> None:
    env = numbered(gym.make("MountainCar-v0"), "5,4")
    assert public_facts(Renumbered(env)).bins == ()

    class Mixed(gym.Env):  # type: ignore[type-arg] # any
        observation_space = Dict({"number": Discrete(3), "real": Box(0, 1)})
        action_space = Discrete(2)

    assert public_facts(Discretised(Mixed(), [[0.5]])).bins == ()


@pytest.mark.parametrize("bins", [(5, 5), (4, 0), (2.5, 8), ("x",)])
def test_bins_that_are_not_those_of_the_states_are_refused(bins: Any) -> None:
    def noisy(table: str) -> NoisyCounts:
        return NoisyCounts(sigma=2.0, updates=60, table=table)

    def made(bins: Any) -> Any:
        return agent_of(
            SparsePSRL, 20, 2, 10, episodes=10, bins=bins, sampler=noisy("transitions"),
            rewards=HatRewards(noisy("rewards")), rng=rng(), schedule=EveryEpisode(),
        )  # fmt: skip

    assert made([5, 4]).bins == (5, 4)
    with pytest.raises(ValueError, match="bins must"):
        made(bins)


def walk(side: int) -> TabularMDP:
    """A walk over bins of two coordinates, which slips half of the time; bins in the middle pay."""
    grid = np.array(list(np.ndindex(side, side)))
    transition, reward = np.zeros((side**2, 4, side**2)), np.zeros((side**2, 4))
    for action, step in enumerate(([1, 0], [-1, 0], [0, 1], [0, -1])):
        for slip in ([0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]):
            there = np.clip(grid + step + slip, 0, side - 1)
            to = np.ravel_multi_index(tuple(there.T), (side, side))
            transition[np.arange(side**2), action, to] += 0.5 if slip == [0, 0] else 0.125
    reward[np.abs(grid - side // 2).max(axis=1) <= 1] = 1.0
    return TabularMDP(transition, reward, start=np.full(side**2, side**-2), horizon=20)


@pytest.mark.slow
def test_policies_for_bins_are_better_where_they_share() -> None:
    """Eight runs of 1,500 episodes at an order-2 epsilon of 1, on 225 bins.

    With this seed the worst policy of those that share earns .99 of the best one's reward; the best
    of the others earns .71.
    """
    mdp, values = walk(15), []
    for bins in ((), (15, 15)):
        task = Task(
            n_states=225, n_actions=4, horizon=20, reward_range=(0.0, 1.0),
            relation=ReplaceStep(), episodes=1500, bins=bins,
        )  # fmt: skip
        learner = make_agent(Method(agent="sparse-psrl"), task, [RenyiDP(2, 1.0)], rng(0), runs=8)
        learn_counts(learner, mdp, 1500, rng(1))
        values.append(mdp.policy_value(learner.policy) / mdp.optimal_value())
    alone, shared = values
    assert alone.max() < 0.8
    assert shared.min() > 0.97
