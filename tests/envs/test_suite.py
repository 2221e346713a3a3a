"""The suite: every task is sound, quickly made, and has the values that are known of it."""

import dataclasses
import inspect
from time import process_time

import numpy as np
import pytest
from oracle_tabular import all_policies, random_mdp, value_by_paths

from privrl.envs import SUITE, riverswim
from privrl.envs.blackjack import blackjack
from privrl.envs.exploration import deep_sea, double_chain, key_and_door, six_arms
from privrl.envs.operations import inventory, machine_replacement, queue
from privrl.envs.random_tables import dense, garnet
from privrl.envs.suite import Benchmark

MAKERS = (
    blackjack, deep_sea, dense, double_chain, garnet, inventory, key_and_door, machine_replacement,
    queue, riverswim, six_arms,
)  # fmt: skip
PLANNED = SUITE.keys() - {"Taxi-30k"}  # whose tables are Taxi-3k's

OPTIMA = {
    "RiverSwim6": (3.3973, 0.044),
    "FrozenLake4x4": (0.7442, 0.0139),
    "DeepSea10-3k": (0.99, 0.5**10 - 0.005),
    "DeepSea20": (0.99, 0.5**20 - 0.005),
    "CliffWalking": (-13.0, None),
    "Taxi-3k": (7.93, None),
    "KeyAndDoor5": (1.0, None),
}


@pytest.mark.parametrize("name", SUITE)
def test_every_task_is_sound(name):
    benchmark = SUITE[name]
    assert benchmark.name == name
    assert benchmark.half in {"set", "judged"}
    began = process_time()
    mdp = benchmark.mdp
    assert process_time() - began < 2
    assert benchmark.mdp is mdp
    np.testing.assert_allclose(mdp.transition.sum(axis=-1), 1, atol=1e-9)
    assert mdp.start.sum() == pytest.approx(1)
    assert np.isfinite(mdp.reward).all()


@pytest.mark.few(9)
@pytest.mark.parametrize("name", sorted(PLANNED))
def test_there_is_something_to_learn(name):
    benchmark = SUITE[name]
    best, chance = benchmark.optimal_value, benchmark.random_value
    assert np.isfinite([best, chance]).all()
    assert best > chance
    assert benchmark.share(best) == 1
    assert benchmark.share(chance) == 0
    np.testing.assert_allclose(benchmark.share([(best + chance) / 2, 2 * chance - best]), [0.5, -1])
    known_best, known_chance = OPTIMA.get(name, (None, None))
    assert known_best is None or best == pytest.approx(known_best, abs=5e-5)
    assert known_chance is None or chance == pytest.approx(known_chance, abs=5e-4)


def test_tasks_of_several_lengths_are_the_same():
    for short, long in (("Taxi-3k", "Taxi-30k"), ("DeepSea10-3k", "DeepSea10-10k")):
        one, other = SUITE[short], SUITE[long]
        assert one.episodes < other.episodes
        np.testing.assert_array_equal(one.mdp.transition, other.mdp.transition)


def test_both_halves_are_there():
    """And each kind of the half that judges is another than those that settings come from."""
    assert {b.half for b in SUITE.values()} == {"set", "judged"}
    sizes = {b.mdp.transition.shape for b in SUITE.values() if b.half == "set"}
    assert all(b.mdp.transition.shape not in sizes for b in SUITE.values() if b.half == "judged")


@pytest.mark.parametrize("seed", range(3))
def test_values_are_exact(seed):
    """Against all 64 policies, one path at a time: chance is their mean, as every step of an
    episode has a different state and step."""
    mdp = random_mdp(np.random.default_rng(seed), n_states=2, horizon=3)
    benchmark = Benchmark("tiny", lambda: mdp, episodes=1, half="set")
    values = [value_by_paths(mdp, policy) for policy in all_policies(2, 2, 3)]
    assert benchmark.optimal_value == pytest.approx(max(values), rel=1e-12)
    assert benchmark.random_value == pytest.approx(np.mean(values), rel=1e-12)
    assert benchmark.share(values[5]) == pytest.approx(
        (values[5] - np.mean(values)) / (max(values) - np.mean(values))
    )


def test_chance_is_over_the_actions():
    """Rewards that are all one action's: half of them, whatever the state."""
    mdp = garnet(4, 2, 2, 5, seed=0)
    only = dataclasses.replace(mdp, reward=np.tile([0.0, 1.0], (4, 1)))
    assert Benchmark("half", lambda: only, 1, "set").random_value == pytest.approx(2.5)


def test_a_task_is_made_when_it_is_asked_for():
    made = []

    def make():
        made.append(1)
        return garnet(3, 2, 2, 4, seed=0)

    benchmark = Benchmark("lazy", make, 10, "judged")
    assert not made
    assert benchmark.share(benchmark.optimal_value) == 1
    assert benchmark.mdp.n_states == 3
    assert len(made) == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        benchmark.episodes = 20


@pytest.mark.parametrize("make", MAKERS)
def test_every_task_is_documented(make):
    """Its states, parameters, errors and source."""
    said = inspect.getdoc(make)
    takes = inspect.signature(make).parameters
    sections = ["Returns", "References", *(["Parameters", "Raises"] if takes else [])]
    assert all(f"{section}\n---" in said for section in sections)
    assert all(parameter in said.split("Returns")[0] for parameter in takes)
    assert "state" in said.lower()
