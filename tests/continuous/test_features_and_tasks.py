"""Features against products by hand, and tasks against Gymnasium."""

import math
from itertools import product

import gymnasium as gym
import numpy as np
import pytest
from continuous_worlds import MIXED, SCHEMA
from scipy.stats import multivariate_normal
from tasks import TASKS, Task

from privrl.continuous import planning
from privrl.continuous.encoding import gram_span, public_points
from privrl.continuous.features import Basis
from privrl.continuous.planning import Grid, Predicted, worth_on_grid
from privrl.continuous.posterior import Round, log_evidence, nearest_gram
from privrl.numerics.typing import FloatArray


def test_features_are_products_up_to_the_cross() -> None:
    state, action = np.array([[0.3, 0.2]]), np.array([[1.0]])
    basis = Basis(SCHEMA, 4, 4)
    of_x = [1.0, *(math.cos(p * math.acos(0.3)) for p in (1, 2, 3))]
    of_phase = {0: [1.0]} | {
        p: [math.cos(2 * math.pi * p * 0.2), math.sin(2 * math.pi * p * 0.2)] for p in (1, 2, 3)
    }
    wanted = [
        of_x[p] * wave
        for p, q, k in product(range(4), range(4), range(2))
        if (p + 1) * (q + 1) * (k + 1) <= 4
        for wave in of_phase[q]
    ]
    found = basis(state, action)[0] * math.sqrt(len(basis))
    np.testing.assert_allclose(sorted(found), sorted(wanted), atol=1e-12)


@pytest.mark.parametrize("schema", [SCHEMA, MIXED])
@pytest.mark.parametrize("order", [2, 3, 4, 6])
def test_features_have_norm_one_at_most(schema, order: int) -> None:
    basis = Basis(schema, order, order)
    features = basis(*public_points(schema, 500))
    assert (np.linalg.norm(features, axis=1) <= 1 + 1e-12).all()
    assert features.shape[1] == len(basis) == len(basis.degrees)


def test_projection_keeps_true_gram_matrices_and_takes_noise_away() -> None:
    basis, rng = Basis(SCHEMA, 4, 4), np.random.default_rng(0)
    span, d = gram_span(basis), len(basis)
    assert span is not None
    assert len(span) < d * (d + 1) // 2
    features = basis(*public_points(SCHEMA, 50)[:2])
    transform = rng.normal(size=(d, d))
    true = transform @ features.T @ features @ transform.T
    np.testing.assert_allclose(nearest_gram(true, span, transform), true, atol=1e-8 * true.max())
    noise = rng.normal(size=(d, d))
    noise = noise + noise.T
    left = nearest_gram(noise, span, np.eye(d))
    share = np.sum(left**2) / np.sum(noise**2)
    assert share == pytest.approx(len(span) / (d * (d + 1) / 2), rel=0.3)


@pytest.mark.parametrize("name", ["Pendulum-v1", "MountainCar-v0", "CartPole-v1", "Acrobot-v1"])
def test_tasks_follow_gymnasium(name: str) -> None:
    task: Task = TASKS[name.partition("-")[0]]()
    env = gym.make(name).unwrapped
    rng = np.random.default_rng(0)
    env.reset(seed=0)
    for state in public_points(task.schema, 40)[0] * 0.9:
        number = int(rng.integers(task.schema.n_actions))
        action = task.schema.levels[number]
        env.state = state.copy()
        if name == "CartPole-v1":
            env.steps_beyond_terminated = None
        given = action if name == "Pendulum-v1" else number
        _, reward, over, _, _ = env.step(given)
        after = task.step(state[None], action[None], rng)
        there = np.array(env.state)
        if name == "Pendulum-v1":
            there[0] = (there[0] + math.pi) % (2 * math.pi) - math.pi
        np.testing.assert_allclose(after[0], there, atol=1e-9)
        assert bool(task.ends(after)[0]) == over
        earned = task.reward(state[None], action[None], after)[0]
        assert earned == pytest.approx(float(reward))


def test_policy_iteration_and_value_iteration_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values of a pendulum with doubts, by 3,000 sweeps and by 20 and then policies."""
    task = TASKS["Pendulum"]()

    def predict(state: FloatArray, action: FloatArray) -> Predicted:
        after = task.step(state, np.ascontiguousarray(action), np.random.default_rng(0))
        reward = 5 + task.reward(state, action, after)
        doubt = 0.1 * (np.abs(after[:, 1]) > 5)
        deviation = np.full(state.shape, 0.01)
        return Predicted(after, {}, deviation, reward, np.zeros(len(state)), None, doubt, 1.0)

    found = []
    for sweeps in (3000, 20):
        monkeypatch.setattr(planning, "_SWEEPS", sweeps)
        worth = worth_on_grid(predict, task.schema, discount=0.97, caution=0.5, horizon=10_000)
        found.append(worth.max(axis=1))
    np.testing.assert_allclose(found[1], found[0], atol=2e-3 * np.abs(found[0]).max())


def test_grids_are_denser_where_data_are() -> None:
    schema = TASKS["CartPole"]().schema
    core = np.array([[-0.5, 0.5], [-3, 0], [-0.22, 0.22], [1, 1]])
    grid, states = Grid.of(schema, core), public_points(schema, 50)[0]
    assert [len(axis) for axis in grid.axes] == list(grid.sizes)
    for axis, column in zip(grid.axes, schema.state.values(), strict=True):
        assert (axis[0], axis[-1]) == (column.low, column.high)
        assert (np.diff(axis) > 0).all()
    assert np.mean(np.abs(grid.axes[0]) < 0.5) > 0.25  # evenly it would be 0.2
    index, weight = grid.corners(states, {})
    np.testing.assert_allclose(weight.sum(axis=1), 1)
    between = (weight[:, :, None] * grid.points()[index]).sum(axis=1)
    np.testing.assert_allclose(between, states, atol=1e-9)


def test_evidence_is_the_normal_density_of_what_was_released() -> None:
    """Up to a constant that is the same for all priors; by the density of scipy."""
    rng, d = np.random.default_rng(0), 4
    root = rng.normal(size=(d + 1, d + 1))
    seen = Round(np.eye(d), np.ones(1), 50 * root @ root.T, 2.0)
    gram, priors = seen.gram, [np.diag(rng.uniform(0.1, 2, d)) for _ in range(3)]
    factors = np.array([0.25, 1.0, 4.0])
    found = log_evidence(seen, gram, 0, priors, factors)
    total = np.trace(seen.moments)
    for k, prior in enumerate(priors):
        for i, factor in enumerate(factors):
            size = factor * prior
            noise = 2.0 * ((1 + np.trace(size)) * np.eye(d) + size)
            noise += (seen.moments[d, d] / total) * gram + 1e-12 * total * np.eye(d)
            exact = multivariate_normal(np.zeros(d), gram @ size @ gram + noise)
            wanted = exact.logpdf(seen.moments[:d, d])
            if k == i == 0:
                shift = wanted - found[0, 0]
            assert found[k, i] + shift == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("turn", [[[0.0, 1.0], [-1.0, 0.0]], [[0.0, 1.0], [0.0, 0.0]]])
def test_a_system_that_cannot_be_solved_step_by_step_keeps_its_guess(turn: list) -> None:
    """Its steps divided by zero, after the fit was charged."""
    found = planning._solved(lambda v: np.array(turn) @ v, np.array([1.0, 0.0]), np.zeros(2))
    assert np.isfinite(found).all()
