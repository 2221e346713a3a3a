"""Features against products by hand, and tasks against Gymnasium."""

import math
from itertools import product

import gymnasium as gym
import numpy as np
import pytest
from continuous_worlds import MIXED, SCHEMA

from privrl.continuous.encoding import gram_span, public_points
from privrl.continuous.features import Basis
from privrl.continuous.posterior import nearest_gram
from privrl.continuous.tasks import TASKS, Task


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
