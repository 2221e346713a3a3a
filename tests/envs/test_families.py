"""Tasks by name: a name means one task, and one that is out of reach is refused with a hint."""

import re

import numpy as np
import pytest

from privrl.envs import SUITE, benchmark, riverswim, save_tables
from privrl.envs.exploration import deep_sea
from privrl.envs.operations import queue
from privrl.envs.random_tables import garnet
from privrl.envs.suite import FAMILIES

SAME = {
    "RiverSwim50": "RiverSwim50",
    "DeepSea10": "DeepSea10-10k",
    "DeepSea20": "DeepSea20",
    "KeyAndDoor5": "KeyAndDoor5",
    "DoubleChain31": "DoubleChain",
    "Garnet20x4-7": "Garnet20x4",
    "Dense10x5-7": "Dense10x5",
    "Inventory10": "Inventory",
    "Queue10": "Queue",
    "MachineReplacement10": "MachineReplacement",
}


@pytest.mark.parametrize("name", SUITE)
def test_names_of_the_suite_are_its_tasks(name):
    assert benchmark(name) is SUITE[name]


@pytest.mark.parametrize("name", SAME)
def test_a_family_has_the_tasks_of_the_suite(name):
    one, other = benchmark(name), SUITE[SAME[name]]
    for table in ("transition", "reward", "start", "horizon"):
        np.testing.assert_array_equal(getattr(one.mdp, table), getattr(other.mdp, table))
    assert one.episodes == other.episodes


@pytest.mark.parametrize(
    ("name", "mdp"),
    [
        ("RiverSwim12", riverswim(12, 60)),
        ("DeepSea15", deep_sea(15)),
        ("Garnet30x3-11", garnet(30, 3, 3, 20, 11)),
        ("Garnet2x2", garnet(2, 2, 2, 20, 7)),
        ("Queue20", queue(capacity=20)),
    ],
)
def test_other_sizes_and_seeds_are_tasks_to_be_judged_on(name, mdp):
    found = benchmark(name)
    np.testing.assert_array_equal(found.mdp.transition, mdp.transition)
    np.testing.assert_array_equal(found.mdp.reward, mdp.reward)
    assert found.mdp.horizon == mdp.horizon
    assert (found.name, found.half) == (name, "judged")
    assert found.optimal_value > found.random_value


@pytest.mark.parametrize("kind", FAMILIES)
def test_the_smallest_and_the_largest_are_quickly_made(kind):
    family = FAMILIES[kind]
    for end in (1, 2):
        name = kind + "x".join(str(size[end]) for size in family.sizes)
        found = benchmark(name)
        assert found.mdp.transition.nbytes < 3e7
        assert found.share(found.optimal_value) == 1


def test_a_file_of_tables_is_a_task(tmp_path):
    path = str(tmp_path / "mine.npz")
    lazy = benchmark(path)  # read when it is asked for
    save_tables(path, queue(capacity=3))
    assert (lazy.name, lazy.half, lazy.mdp.n_states) == ("mine", "judged", 4)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("RiverSwin6", "did you mean 'RiverSwim6'"),
        ("RiverSwim", "did you mean 'RiverSwim6'"),
        ("garnet", "did you mean 'Garnet2x2'"),
        ("taxi", "did you mean 'Taxi-3k'"),
        ("garnet20x4", "did you mean 'Garnet20x4'"),
        ("Pond3", "look like one of RiverSwimSTATES,"),
        ("", "ends in .npz, got ''."),
        ("RiverSwim51", "'RiverSwim51' must have 6 to 50 states, got 51."),
        ("Garnet30x11", "2 to 10 actions, got 11"),
        ("Garnet30", "must look like GarnetSTATESxACTIONS[-SEED], got 'Garnet30'"),
        ("DeepSea12-3", "must look like DeepSeaSIZE, got"),
        ("DeepSea12x3", "must look like DeepSeaSIZE, got"),
        ("DeepSea", "must be one of"),
    ],
)
def test_what_is_no_task_is_refused_with_a_hint(name, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        benchmark(name)
