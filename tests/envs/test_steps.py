"""Episodes step by step have the law of the tables, and of policies that leave actions open."""

import numpy as np
import pytest
from oracle_tabular import random_mdp
from scipy.stats import chi2

from privrl.envs import TabularMDP, riverswim
from privrl.envs import rows as rows_module
from privrl.envs.rows import TransitionRows
from privrl.envs.steps import rollout_steps

FALSE_ALARM = 1e-6


def chances(mdp: TabularMDP, policy: np.ndarray, free: np.ndarray) -> np.ndarray:
    """Exact probabilities of each step's state, action and next state, shape (H, S, A, S)."""
    here, found = mdp.start, []
    for choice in policy:
        acts = np.where(
            (choice == -1)[:, None],
            free / free.sum(axis=1, keepdims=True),
            np.eye(mdp.n_actions)[choice],
        )
        found.append(here[:, None, None] * acts[..., None] * mdp.transition)
        here = found[-1].sum(axis=(0, 1))
    return np.stack(found)


@pytest.mark.parametrize("restricted", [False, True])
def test_steps_have_the_law_of_the_tables(restricted: bool) -> None:
    """Two runs of 40,000 episodes: chi-square over all cells of a step.

    Their policies are different, and leave half of the actions open.
    """
    rng, episodes = np.random.default_rng(3), 40_000
    mdp = random_mdp(rng, n_states=4, n_actions=3, horizon=3)
    policy = np.where(rng.random((2, 3, 4)) < 0.5, -1, rng.integers(3, size=(2, 3, 4)))
    free = rng.random((2, 4, 3)) < 0.5 if restricted else np.ones((2, 4, 3), bool)
    free[..., 1] = True
    steps = rollout_steps(mdp, policy, episodes, rng, free=free if restricted else None)
    assert steps.state.shape == (3, episodes, 2)
    np.testing.assert_array_equal(steps.state[1:], steps.next_state[:-1])
    for run in range(2):
        for step, expected in enumerate(chances(mdp, policy[run], free[run]) * episodes):
            counts = np.zeros((4, 3, 4))
            np.add.at(counts, tuple(each[step, :, run] for each in steps), 1)
            assert not counts[expected == 0].any()
            many = expected > 20
            distance = ((counts - expected)[many] ** 2 / expected[many]).sum()
            assert chi2.sf(distance, many.sum() - 1) > FALSE_ALARM


def test_a_single_run_and_one_table_of_free_actions() -> None:
    mdp, rng = riverswim(6, 20), np.random.default_rng(0)
    free = np.zeros((6, 2), bool)
    free[:, 1] = True
    steps = rollout_steps(mdp, np.full((20, 6), -1), 7, rng, free=free)
    assert steps.action.shape == (20, 7)
    assert (steps.action == 1).all()
    both = rollout_steps(mdp, np.full((2, 20, 6), -1), 7, rng, free=free)
    assert (both.action == 1).all()
    assert set(np.unique(rollout_steps(mdp, np.full((20, 6), -1), 7, rng).action)) == {0, 1}


@pytest.mark.parametrize("at_once", [1, 30, 2**20])
def test_rows_are_the_same_however_many_are_made_at_once(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    mdp = random_mdp(np.random.default_rng(3), n_states=7, n_actions=3, horizon=3)
    monkeypatch.setattr(rows_module, "_AT_ONCE", at_once)
    rows = TransitionRows(mdp.transition, mdp.start)
    table = np.vstack([mdp.transition.reshape(-1, 7), mdp.start])
    row, following = np.nonzero(table)
    ends = np.cumsum(table, axis=1)
    np.testing.assert_array_equal(rows.next_state, following)
    wanted = row + (ends / ends[:, -1:])[row, following]
    np.testing.assert_array_equal(rows.entries(np.nextafter(wanted, 0)), np.arange(len(wanted)))
    assert rows.start_row == 21
