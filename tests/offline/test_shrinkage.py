"""Predictions of effects, against a Bayesian regression that is solved whole."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privrl.offline.shrinkage import Spread, action_effects, expected

Array = np.ndarray


def by_regression(deviations: Array, variance: Array, allowed: Array, spread: Spread) -> Array:
    """Posterior means of ``y = mean of state + effect of action + of cell + noise``.

    A flat prior of states is one of deviation 1e5; normal equations of all unknowns at once.
    """
    n_states, n_actions = deviations.shape
    rows = np.argwhere(allowed)
    design = np.zeros((len(rows), n_states + n_actions))
    design[np.arange(len(rows)), rows[:, 0]] = 1
    design[np.arange(len(rows)), n_states + rows[:, 1]] = 1
    weight = 1 / (variance[allowed] + spread.cell**2)
    prior = np.diag([1e-10] * n_states + [spread.action**-2] * n_actions)
    normal = design.T @ (weight[:, None] * design) + prior
    solved = np.linalg.solve(normal, design.T @ (weight * deviations[allowed]))
    effect = solved[n_states:]
    shown = np.zeros(deviations.shape)
    for s in range(n_states):
        if allowed[s].any():
            weights = allowed[s] / (variance[s] + spread.cell**2)
            shown[s] = np.where(allowed[s], effect - weights @ effect / weights.sum(), 0)
    return shown


@given(
    seed=st.integers(0, 10**6),
    n_states=st.integers(1, 5),
    n_actions=st.integers(1, 5),
    action=st.sampled_from([0.05, 1.0, 20.0]),
)
def test_effects_are_the_regressions(
    seed: int, n_states: int, n_actions: int, action: float
) -> None:
    rng = np.random.default_rng(seed)
    shape = n_states, n_actions
    allowed = rng.random(shape) < 0.7
    allowed[np.arange(n_states), rng.integers(n_actions, size=n_states)] = True
    deviations = np.where(allowed, rng.normal(size=shape), 0.0)
    variance = rng.uniform(0.1, 2.0, shape)
    spread = Spread(cell=float(rng.uniform(0.1, 1.0)), action=action, state=1.0)
    found = action_effects(deviations, variance, allowed, spread)
    wanted = by_regression(deviations, variance, allowed, spread)
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert (found[~allowed] == 0).all()


def test_effects_in_closed_form() -> None:
    """Two actions in n states, alike measured: the mean difference, shrunk."""
    n, difference, cell, action, noise = 5, 0.8, 0.3, 0.5, 0.2
    deviations = np.tile([difference / 2, -difference / 2], (n, 1))
    spread = Spread(cell=cell, action=action, state=1.0)
    found = action_effects(deviations, np.full((n, 2), noise), np.ones((n, 2), np.bool_), spread)
    # The difference of two actions, of variance 2 action², is measured n times.
    prior, measured = 2 * action**2, 2 * (noise + cell**2) / n
    shrunk = difference * prior / (prior + measured)
    np.testing.assert_allclose(found, np.tile([shrunk / 2, -shrunk / 2], (n, 1)))


def test_effects_do_not_depend_on_the_means_of_states() -> None:
    rng = np.random.default_rng(0)
    given = rng.normal(size=(4, 3))
    variance, allowed = rng.uniform(0.5, 1, (4, 3)), np.ones((4, 3), np.bool_)
    spread = Spread(0.3, 0.2, 0.1)
    found = action_effects(given, variance, allowed, spread)
    moved = action_effects(given + rng.normal(size=(4, 1)), variance, allowed, spread)
    np.testing.assert_allclose(found, moved, atol=1e-12)


@pytest.mark.few(9)
@pytest.mark.parametrize("prior", [1e-3, 1.0, 30.0])
def test_expected(prior: float) -> None:
    """Against the posterior mean by quadrature."""
    measured, variance = 1.7, 0.6
    x = np.linspace(-400, 400, 4_000_001)
    weight = np.exp(-((x / prior) ** 2) / 2 - (x - measured) ** 2 / (2 * variance))
    wanted = (x * weight).sum() / weight.sum()
    found = expected(np.array([measured, 0.0]), np.array(variance), prior)
    np.testing.assert_allclose(found, [wanted, 0.0], rtol=1e-6, atol=1e-9)


def test_actions_that_do_not_differ_have_no_effects() -> None:
    """As where noise has made an outcome certain: what was paid for is released none the less."""
    deviations = np.array([[1.0, -1.0], [0.5, 0.0]])
    allowed = np.array([[True, True], [True, False]])
    effects = action_effects(deviations, np.ones((2, 2)), allowed, Spread(0.0, 0.0, 0.0))
    np.testing.assert_array_equal(effects, np.zeros((2, 2)))
