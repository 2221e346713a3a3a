"""Logs of simulated persons: they follow the tables, and hang together."""

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
from log_studies.simulate import simulate_log
from log_studies.worlds import World, clinic, ward
from scipy.stats import chi2

from privrl.data.logs import Log
from privrl.envs import SUITE, TabularMDP, riverswim
from privrl.numerics.typing import FloatArray

_FALSE_ALARM = 1e-6  # of each chi-square test


def surprise(chances: FloatArray, counts: FloatArray) -> float:
    """Return the tail of Pearson's statistic of rows of counts, rare cells pooled."""
    total, freedom = 0.0, 0
    for row, seen in zip(chances, counts, strict=True):
        expected = row * seen.sum()
        assert not seen[row == 0].any()
        rare = expected < 10
        pooled = np.array([np.append(x[~rare], x[rare].sum()) for x in (seen, expected)])
        found, due = pooled[:, pooled[1] >= 10]
        total += float(((found - due) ** 2 / due).sum())
        freedom += max(len(due) - 1, 0)
    return float(chi2.sf(total, freedom))


def table(size: tuple[int, ...], *columns: np.ndarray) -> FloatArray:
    """Return counts of the rows of columns, the last its own axis."""
    cells = np.ravel_multi_index(columns, size)
    return np.bincount(cells, minlength=np.prod(size)).reshape(-1, size[-1]).astype(float)


def surprises(world: World, behaviour: FloatArray, log: Log) -> list[float]:
    """Return those of first states, actions and moves."""
    s, a = world.n_states, world.n_actions
    first = table((1, s), 0 * log.episode_starts[:-1], log.state[log.episode_starts[:-1]])
    actions = table((s, a), log.state, log.action)
    moves = table((s, a, s + 2), log.state, log.action, log.next_state)
    return [
        surprise(world.start[None], first),
        surprise(behaviour, actions),
        surprise(world.transition.reshape(s * a, -1), moves),
    ]


@pytest.mark.few(2)
@pytest.mark.parametrize("world", [clinic(4, n_states=25), ward(n_states=25)], ids=lambda w: w.name)
def test_logs_follow_the_tables(world: World) -> None:
    """1e5 persons: hundreds of thousands of steps. What is one per cent off is noticed."""
    behaviour = world.behaviour("half-expert")
    log = simulate_log(world, behaviour, 100_000, np.random.default_rng(3))
    assert min(surprises(world, behaviour, log)) > _FALSE_ALARM
    rng = np.random.default_rng(4)
    off = replace(
        world,
        start=_a_little_off(world.start, rng),
        transition=_a_little_off(world.transition, rng),
    )
    assert max(surprises(off, _a_little_off(behaviour, rng), log)) < _FALSE_ALARM


def _a_little_off(chances: FloatArray, rng: np.random.Generator) -> FloatArray:
    moved = chances * np.exp(0.1 * rng.choice([-1, 1], chances.shape))
    return moved / moved.sum(axis=-1, keepdims=True)


def test_steps_hang_together() -> None:
    world = replace(ward(n_states=25), most_steps=7)
    log = simulate_log(
        world, world.behaviour("uniform"), 3_000, np.random.default_rng(0), episodes=3
    )
    assert (log.n_persons, log.most_episodes, log.most_steps) == (3_000, 3, 7)
    assert (np.diff(log.person_starts) == 3).all()
    last = np.zeros(log.n_steps, np.bool_)
    last[log.episode_starts[1:] - 1] = True
    inner = np.flatnonzero(~last)
    np.testing.assert_array_equal(log.next_state[inner], log.state[inner + 1])
    ends = log.next_state[last]
    assert (np.diff(log.episode_starts)[ends < 25] == 7).all()  # cut off, where to is known
    assert {25, 26} < set(ends)
    assert (ends < 25).any()
    earned = np.append(np.zeros(25), world.outcome_rewards)[log.next_state]
    np.testing.assert_allclose(
        log.reward, np.asarray(world.step_reward)[log.state, log.action] + earned
    )
    assert (log.outcomes, log.outcome_rewards) == (("died", "discharged"), (0, 10))
    assert log.step_rewards == world.step_rewards


def test_a_seed_is_a_log() -> None:
    world = clinic(4, n_states=25)
    one, same, other = (
        simulate_log(world, world.expert, 500, np.random.default_rng(seed)) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one.next_state, same.next_state)
    assert one.n_steps != other.n_steps


def _uniform(mdp: TabularMDP) -> FloatArray:
    return np.full((mdp.n_states, mdp.n_actions), 1 / mdp.n_actions)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["FrozenLake4x4", "RiverSwim6", "CliffWalking", "Taxi-3k"])
def test_tasks_earn_what_chance_earns(name: str) -> None:
    """2e4 episodes, false alarm 1e-5."""
    task = SUITE[name]
    log = simulate_log(task.mdp, _uniform(task.mdp), 20_000, np.random.default_rng(5))
    returns = np.bincount(log.person, weights=log.reward)
    error = returns.std() / np.sqrt(log.n_persons)
    assert returns.mean() == pytest.approx(task.random_value, abs=4.42 * error)
    outcome = np.maximum(log.next_state - log.n_states + 1, 0)
    of_steps = log.reward - np.append(0.0, log.outcome_rewards)[outcome]
    low, high = log.step_rewards
    assert low <= of_steps.min()
    assert of_steps.max() <= high
    assert np.diff(log.episode_starts).max() <= log.most_steps == task.mdp.horizon


def test_states_that_end_are_outcomes() -> None:
    lake = TabularMDP.from_gymnasium(gym.make("FrozenLake-v1"))
    log = simulate_log(lake, _uniform(lake), 20_000, np.random.default_rng(6))
    assert log.outcomes == ("state 5", "state 7", "state 11", "state 12", "state 15")
    assert log.outcome_rewards == (0, 0, 0, 0, 1)
    assert log.step_rewards == (0, 0)
    assert log.n_states == 16
    assert not np.isin(log.state, [5, 7, 11, 12, 15]).any()
    assert not np.isin(log.next_state, [5, 7, 11, 12, 15]).any()
    assert set(log.next_state[log.next_state >= 16]) == {16, 17, 18, 19, 20}
    assert ((log.reward == 1) == (log.next_state == 20)).all()

    swim = simulate_log(riverswim(6, 20), np.full((6, 2), 0.5), 100, np.random.default_rng(0))
    assert swim.outcomes == ()
    assert (np.diff(swim.episode_starts) == 20).all()
    assert swim.step_rewards == (0, 1)


def test_what_an_outcome_does_not_always_earn_is_of_the_steps() -> None:
    transition = np.array([[[0.5, 0.5], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]])
    mdp = TabularMDP(transition, np.array([[1.0, 3.0], [0.0, 0.0]]), np.array([1.0, 0.0]), 5)
    log = simulate_log(mdp, np.full((2, 2), 0.5), 50, np.random.default_rng(0))
    assert log.outcome_rewards == (0,)
    assert log.step_rewards == (0, 3)
    np.testing.assert_array_equal(log.reward, 1 + 2 * log.action)


def test_what_cannot_be_simulated_is_refused() -> None:
    world, rng = clinic(4, n_states=5), np.random.default_rng(0)
    uniform = world.behaviour("uniform")
    with pytest.raises(ValueError, match="behaviour must be chances of shape"):
        simulate_log(world, uniform[:, :-1], 5, rng)
    with pytest.raises(ValueError, match="behaviour must be chances of shape"):
        simulate_log(world, uniform * np.nan, 5, rng)
    with pytest.raises(ValueError, match="persons must be a whole number >= 1"):
        simulate_log(world, uniform, 0, rng)
    with pytest.raises(ValueError, match="episodes must be a whole number >= 1"):
        simulate_log(world, uniform, 1, rng, episodes=0)
    with pytest.raises(ValueError, match="rng must be a numpy"):
        simulate_log(world, uniform, 1, "0")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="actions must be admissible; World"):
        simulate_log(world, np.full((5, 12), 1 / 12), 1, rng)
    over = TabularMDP(np.ones((1, 1, 1)), np.zeros((1, 1)), np.ones(1), 2)
    with pytest.raises(ValueError, match="must not start where they end"):
        simulate_log(over, np.ones((1, 1)), 1, rng)
