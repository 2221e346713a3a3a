"""Worlds: their values are exact, their optimum is one, and what is drawn is what is said."""

import os
from dataclasses import replace
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from fake_icu import write_tables, write_wheel
from log_studies.simulate import simulate_log
from log_studies.worlds import World, clinic, clinics, icu_world, ward

WHEEL = os.environ.get("PRIVRL_ICU_SEPSIS")  # a path
DIES, LIVES = 2, 3  # columns of the tables of `small`


def small(**changes: object) -> World:
    """Two states: in 0 one waits, or is sent to 1, where one lives by 0.8, or stays."""
    transition = np.zeros((2, 2, 4))
    transition[0, 0, [0, DIES, LIVES]] = 0.5, 0.25, 0.25
    transition[0, 1, [1, DIES]] = 0.9, 0.1
    transition[1, 0, [LIVES, DIES]] = 0.8, 0.2
    transition[1, 1] = transition[1, 0]  # it is not admissible
    world = World(
        name="small",
        transition=transition,
        start=np.array([1.0, 0.0]),
        admissible=np.array([[True, True], [True, False]]),
        expert=np.array([[0.0, 1.0], [1.0, 0.0]]),
        outcomes=("died", "survived"),
        outcome_rewards=(0.0, 1.0),
    )
    return replace(world, **changes)


WAIT, SEND = np.array([0, 0]), np.array([1, 0])


def test_values_by_hand() -> None:
    world = small()
    assert world.value(WAIT) == pytest.approx(0.25 / 0.5)
    assert world.value(SEND) == pytest.approx(0.9 * 0.8)
    # Uniform: v = (0.25 + 0.5 v + 0.72) / 2
    assert world.value(world.behaviour("uniform")) == pytest.approx(0.97 / 1.5)
    policy, value = world.optimum()
    assert list(policy) == [1, 0]
    assert value == pytest.approx(0.72)
    assert world.score(policy) == 1
    assert world.score(world.behaviour("uniform")) == 0
    assert world.score(WAIT) == pytest.approx((0.5 - 0.97 / 1.5) / (0.72 - 0.97 / 1.5))
    assert world.score(world.behaviour("half-expert")) > 0.5


def test_values_with_discount_and_rewards_of_steps() -> None:
    world = small(discount=0.9, step_reward=np.array([[2.0, -1.0], [3.0, 99.0]]))
    assert world.value(WAIT) == pytest.approx((2 + 0.25) / (1 - 0.9 * 0.5))
    assert world.value(SEND) == pytest.approx(-1 + 0.9 * 0.9 * (3 + 0.8))
    assert world.step_rewards == (-1, 3)  # what cannot be done is not paid
    assert small(step_reward=-0.01).step_rewards == (-0.01, -0.01)


def test_values_by_step() -> None:
    """Wait once, then send, wait for ever: the first step is what is done in the end."""
    world = small(discount=0.9)
    waits = 0.25 / (1 - 0.9 * 0.5)
    assert world.value(np.array([WAIT, SEND])) == pytest.approx(0.25 + 0.9 * 0.5 * 0.81 * 0.8)
    assert world.value(np.array([WAIT, WAIT, WAIT])) == pytest.approx(waits)
    assert world.value(np.array([WAIT, WAIT])) == pytest.approx(world.value(WAIT))
    never = np.array([[0, 0], [-1, -1]])
    half = (0.25 + 0.9 * 0.5 * waits + 0.81 * 0.8) / 2
    assert world.value(never) == pytest.approx(0.25 + 0.9 * 0.5 * half)
    by_chance = world.chances(never)
    assert by_chance.shape == (2, 2, 2)
    assert world.value(by_chance) == world.value(never)


def test_what_a_policy_does_not_say_is_filled_in() -> None:
    world = small()
    uniform = world.behaviour("uniform")
    np.testing.assert_array_equal(world.chances(np.array([-1, 0])), uniform)
    np.testing.assert_array_equal(world.chances(np.array([1, 1])), [[0, 1], [1, 0]])
    np.testing.assert_array_equal(
        world.chances(np.array([-1, -1]), world.expert), world.expert
    )  # fmt: skip
    three = clinic(3, n_states=5, n_actions=6)
    wrong = three.admissible.argmin(axis=1)
    none = ~three.admissible.all(axis=1)
    assert none.any()
    np.testing.assert_array_equal(three.chances(wrong)[none], three.behaviour("uniform")[none])


WORLDS = {
    "clinic": clinic(5, n_states=40),
    "with costs": replace(clinic(5, n_states=40), step_reward=-0.01, discount=0.99),
    "ward": ward(n_states=40),
}


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS.values(), ids=list(WORLDS))
def test_values_are_those_of_long_simulation(world: World) -> None:
    """1e5 persons; false alarm 1e-5. A value that is 0.01 of rewards' range off is noticed."""
    behaviour = world.behaviour("half-expert")
    for policy in (behaviour, world.chances(world.optimum()[0])):
        log = simulate_log(
            replace(world, most_steps=2000), policy, 100_000, np.random.default_rng(1)
        )
        first = np.repeat(log.episode_starts[:-1], np.diff(log.episode_starts))
        worth = log.reward * world.discount ** (np.arange(log.n_steps) - first)
        returns = np.bincount(log.person, weights=worth)
        error = returns.std() / np.sqrt(log.n_persons)
        assert error * 4.42 < 0.01 * max(world.outcome_rewards)
        assert returns.mean() == pytest.approx(world.value(policy), abs=4.42 * error)


@pytest.mark.few(9)
@pytest.mark.parametrize("world", WORLDS.values(), ids=list(WORLDS))
def test_the_optimum_is_the_fixed_point_of_value_iteration(world: World) -> None:
    rewards = world.step_reward + world.transition[:, :, -2:] @ world.outcome_rewards
    values = np.zeros(world.n_states)
    for _ in range(3000):
        ahead = rewards + world.discount * world.transition[:, :, :-2] @ values
        values = np.where(world.admissible, ahead, -np.inf).max(axis=1)
    policy, value = world.optimum()
    assert value == pytest.approx(world.start @ values, rel=1e-9)
    assert world.value(policy) == pytest.approx(value, rel=1e-12)
    assert world.score(policy) == pytest.approx(1)
    assert world.score(world.behaviour("uniform")) == 0


def test_the_optimum_is_the_best_of_all_policies() -> None:
    world = clinic(8, n_states=6, n_actions=3, effects=(1.0, 1.0, 1.0))
    options = [np.flatnonzero(row) for row in world.admissible]
    assert np.prod([len(each) for each in options]) > 20
    best = max(world.value(np.array(policy)) for policy in product(*options))
    assert world.optimum()[1] == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"transition": np.ones((2, 2, 3)) / 3}, r"transition must have shape \(2, 2, 4\)"),
        ({"transition": np.ones((2, 2, 4))}, "transition must be probabilities"),
        ({"transition": np.full((2, 2, 4), np.nan)}, "transition must be probabilities"),
        ({"start": np.array([2.0, -1.0])}, "start must be probabilities"),
        ({"start": np.ones(1)}, "start must be probabilities"),
        ({"admissible": np.zeros((2, 2), np.bool_)}, "admissible must be booleans"),
        ({"expert": np.array([[0.0, 1.0], [0.0, 1.0]])}, "expert must take admissible"),
        ({"outcome_rewards": (1.0,)}, "outcome_rewards must be one for each of the 2"),
        ({"step_reward": np.zeros(2)}, "step_reward must be a number or have shape"),
        ({"discount": 0.0}, "discount must be > 0 and <= 1"),
        ({"discount": np.nan}, "discount must be > 0 and <= 1"),
        ({"most_steps": 0}, "most_steps must be a whole number >= 1"),
    ],
)
def test_what_is_no_world_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        small(**changes)


def test_what_is_no_policy_is_refused() -> None:
    with pytest.raises(ValueError, match="policy must take admissible actions only"):
        small().value([[0.0, 1.0], [0.5, 0.5]])
    with pytest.raises(ValueError, match="policy must be probabilities"):
        small().value(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="behaviour must be one of uniform, half-expert"):
        small().behaviour("expert")  # type: ignore[arg-type] # no such one


def test_what_never_ends_has_no_value() -> None:
    stays = small().transition.copy()
    stays[0, 0] = 1, 0, 0, 0
    with pytest.raises(np.linalg.LinAlgError):
        small(transition=stays).value(WAIT)
    assert small(transition=stays, discount=0.5, step_reward=1.0).value(WAIT) == pytest.approx(2)


@pytest.mark.slow
def test_clinics_are_drawn_from_their_seeds_alone() -> None:
    one, same, other = (clinic(seed, n_states=30) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.transition, same.transition)
    assert not np.array_equal(one.transition, other.transition)
    # What the rule's constants were chosen by stays what it was.
    assert clinic(1).value(clinic(1).behaviour("uniform")) == pytest.approx(0.6791754800505221)
    assert clinic(1).optimum()[1] == pytest.approx(0.8047875863607438)


@pytest.mark.slow
def test_clinics_are_alike_and_of_two_halves() -> None:
    names = []
    for half in ("set", "judged"):
        for world in clinics(half):
            names.append(world.name)
            chance = world.value(world.behaviour("uniform"))
            assert 0.6 < chance < 0.9
            assert 0.05 < world.optimum()[1] - chance < 0.2
            assert 0 < world.score(world.behaviour("half-expert")) < 0.3
    assert names == [f"clinic {letter}" for letter in "abcdefghijk"]


def test_the_ward_pays_at_each_step() -> None:
    world = ward()
    assert 0 <= world.step_rewards[0] < 0.1
    assert 0.9 < world.step_rewards[1] <= 1
    chance, best = world.value(world.behaviour("uniform")), world.optimum()[1]
    assert 0 < chance < best - 1
    assert best < 20  # a step of full health at 0.95, for ever
    assert 0.1 < world.score(world.behaviour("half-expert")) < 0.5


@pytest.mark.slow
def test_icu_sepsis_is_a_world(tmp_path: Path) -> None:
    tables = write_tables(tmp_path)
    wheel = tmp_path / "icu_sepsis-2.0.1-py3-none-any.whl"
    write_wheel(tables, wheel)
    world = icu_world(wheel)
    assert (world.n_states, world.n_actions, world.outcomes) == (713, 25, ("died", "survived"))
    assert world.admissible.sum() == 714
    assert world.optimum()[1] == 0.5
    assert world.value(world.behaviour("uniform")) == 0.25
    assert world.score(world.behaviour("half-expert")) == -0.5  # clinicians take action 5
    costs = icu_world(tables, name="costs", step_reward=-0.1, discount=0.5)
    assert costs.optimum()[1] == pytest.approx(0.4)


@pytest.mark.skipif(
    not (WHEEL or find_spec("icu_sepsis")),
    reason="no ICU-Sepsis: 'pip download --no-deps icu-sepsis', and PRIVRL_ICU_SEPSIS says where",
)
def test_known_values_of_icu_sepsis() -> None:
    world = icu_world(WHEEL)
    assert world.admissible.sum() == 2238
    assert world.value(world.behaviour("uniform")) == pytest.approx(0.780071, abs=1e-6)
    assert world.optimum()[1] == pytest.approx(0.875142, abs=1e-6)
