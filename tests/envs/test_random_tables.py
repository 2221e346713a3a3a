"""Random tables: their shape, their law and their seed."""

import numpy as np
import pytest
from oracle_tabular import FALSE_ALARM
from scipy.stats import chisquare, kstest

from privrl.envs.random_tables import dense, garnet


def test_a_garnet_branches():
    mdp = garnet(12, 3, 4, horizon=7, seed=0)
    assert (mdp.n_states, mdp.n_actions, mdp.horizon) == (12, 3, 7)
    assert ((mdp.transition > 0).sum(axis=-1) == 4).all()
    assert mdp.start[0] == 1
    assert mdp.reward.shape == (12, 3)


def test_the_law_of_a_garnet():
    """10000 rows of 2 next states: which, how likely and how paid, each at FALSE_ALARM.

    Of 20 states, one that were named a third too often fails, as does a
    distribution function that is .03 off.
    """
    mdp = garnet(20, 500, 2, horizon=1, seed=1)
    named = (mdp.transition > 0).sum(axis=(0, 1))
    assert chisquare(named).pvalue > FALSE_ALARM
    first = np.take_along_axis(mdp.transition, (mdp.transition > 0).argmax(-1)[..., None], -1)
    assert kstest(first.ravel(), "uniform").pvalue > FALSE_ALARM
    assert kstest(mdp.reward.ravel(), "uniform").pvalue > FALSE_ALARM

    assert chisquare(named + 333 * (np.arange(20) == 0)).pvalue < FALSE_ALARM
    assert kstest(np.clip(first.ravel() + 0.03, 0, 1), "uniform").pvalue < FALSE_ALARM


def test_a_seed_fixes_the_tables():
    for make in (lambda seed: garnet(5, 2, 3, 4, seed), lambda seed: dense(5, 2, 4, seed)):
        one, same, other = make(3), make(3), make(4)
        np.testing.assert_array_equal(one.transition, same.transition)
        np.testing.assert_array_equal(one.reward, same.reward)
        assert (one.reward != other.reward).all()


def test_dense_tables_lead_everywhere():
    """Where a flat row goes to one of 8 states with a probability that is Beta(1, 7)."""
    mdp = dense(8, 500, horizon=3, seed=0)
    assert mdp.transition.min() > 0
    assert kstest(mdp.transition[..., 0].ravel(), "beta", args=(1, 7)).pvalue > FALSE_ALARM


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 2, 1, 4, 0), "n_states must be a whole number >= 1, got 0"),
        ((5, 2.0, 1, 4, 0), "n_actions must be a whole number >= 1, got 2.0"),
        ((5, 2, 0, 4, 0), "branching must be a whole number >= 1, got 0"),
        ((5, 2, 6, 4, 0), r"branching must be a whole number in 1\.\.5, got 6"),
        ((5, 2, 1, 0, 0), "horizon must be a whole number >= 1, got 0"),
        ((5, 2, 1, 4, -1), "seed must be a whole number >= 0, got -1"),
    ],
)
def test_sizes_out_of_range_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        garnet(*arguments)
