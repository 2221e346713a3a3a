"""Tasks that are hard to explore, against their closed forms and all their paths."""

from itertools import product

import numpy as np
import pytest

from privrl.envs import plan
from privrl.envs.exploration import deep_sea, double_chain, key_and_door, six_arms
from privrl.envs.planning import evaluate


def value(mdp, policy):
    return evaluate(mdp.transition, mdp.expected_reward, policy) @ mdp.start


def always(action, mdp):
    return np.full((mdp.horizon, mdp.n_states), action)


def returns(mdp):
    """Return what every sequence of actions earns where nothing is left to chance."""
    following = mdp.transition.argmax(axis=-1)
    assert (np.take_along_axis(mdp.transition, following[..., None], -1) == 1).all()
    earned = []
    for actions in product(range(mdp.n_actions), repeat=mdp.horizon):
        state, total = int(mdp.start.argmax()), 0.0
        for action in actions:
            total += mdp.expected_reward[state, action]
            state = following[state, action]
        earned.append(total)
    return np.array(earned)


@pytest.mark.parametrize(("horizon", "optimum"), [(1, 0.0), (2, 0.9), (3, 0.9 + 0.81)])
def test_a_short_double_chain(horizon, optimum):
    """From the middle: right, and then the last state pays as long as it is stayed in."""
    assert double_chain(3, horizon).optimal_value() == pytest.approx(optimum, rel=1e-12)


def test_double_chain_of_the_paper():
    """Against the law of the position, a dict that steps right."""
    mdp = double_chain()
    here, earned = {15: 1.0}, 0.0
    for _ in range(20):
        earned += here.get(30, 0.0)
        there = {}
        for state, chance in here.items():
            for step, share in ((1, 0.9), (-1, 0.1)):
                to = min(max(state + step, 0), 30)
                there[to] = there.get(to, 0.0) + chance * share
        here = there
    assert (mdp.n_states, mdp.n_actions, mdp.horizon) == (31, 2, 20)
    assert value(mdp, always(1, mdp)) == pytest.approx(earned, rel=1e-12)
    assert mdp.optimal_value() == pytest.approx(earned, rel=1e-12)
    np.testing.assert_array_equal(mdp.transition[:, 0], mdp.transition[::-1, 1, ::-1])


@pytest.mark.parametrize("horizon", [2, 3, 20, 100])
def test_the_rarest_of_six_arms_is_the_best(horizon):
    mdp = six_arms(horizon)
    tries = np.arange(1, horizon + 1)
    best = (0.01 * 0.99 ** (tries - 1) * 6000 * (horizon - tries)).sum()
    assert mdp.optimal_value() == pytest.approx(best, rel=1e-12)


def test_every_arm_pays_for_staying():
    """After as many tries as its chance implies, if time allows."""
    mdp = six_arms(horizon=4000)
    chances, pays = (1, 0.15, 0.1, 0.05, 0.03, 0.01), (50, 133, 300, 800, 1660, 6000)
    for arm, (chance, paid) in enumerate(zip(chances, pays, strict=True)):
        assert value(mdp, always(arm, mdp)) == pytest.approx(paid * (4000 - 1 / chance), rel=1e-9)


def test_leaving_an_arm():
    mdp = six_arms()
    leaves = mdp.transition[1:, :, 0] == 1
    assert leaves[0].nonzero()[0].tolist() == [4]
    for arm in range(1, 6):
        assert (~leaves[arm]).nonzero()[0].tolist() == [arm]
    np.testing.assert_array_equal(mdp.expected_reward[1:] > 0, ~leaves)
    assert mdp.expected_reward[0].max() == 0


@pytest.mark.parametrize("size", [1, 2, 5])
def test_one_path_of_the_deep_sea_pays(size):
    earned = returns(deep_sea(size))
    assert (earned > 0).sum() == 1
    assert earned[-1] == pytest.approx(0.99)
    assert earned.mean() == pytest.approx(0.5**size - 0.005)
    assert earned.min() == pytest.approx(-0.01 * (size - 1) / size)  # all but the last to the right
    assert deep_sea(size).optimal_value() == pytest.approx(0.99)


def test_a_dive_goes_down_to_the_left_or_right():
    mdp = deep_sea(3)  # states 0 1 2, 3 4 5 and 6 7 8, from the top
    for state, aims in ((0, (3, 4)), (3, (6, 7)), (4, (6, 8)), (8, (9, 9))):
        assert tuple(mdp.transition[state].argmax(axis=-1)) == aims


def test_the_deep_sea_ends_at_the_bottom():
    mdp = deep_sea(4)
    over = mdp.n_states - 1
    for steps in range(5):
        assert np.linalg.matrix_power(mdp.transition[:, 0], steps)[0, over] == (steps == 4)
    assert (mdp.transition[over, :, over] == 1).all()
    assert (mdp.expected_reward[over] == 0).all()


@pytest.mark.slow
def test_all_ways_from_the_key_to_the_door():
    """65536 sequences of actions; some find the key and then the door."""
    mdp = key_and_door(2)
    earned = returns(mdp)
    assert set(earned) == {0.0, 1.0}
    average = mdp.transition.mean(axis=1, keepdims=True)
    paid = mdp.expected_reward.mean(axis=1, keepdims=True)
    chance = evaluate(average, paid, np.zeros((8, 9), dtype=int)) @ mdp.start
    assert earned.mean() == pytest.approx(chance, rel=1e-12)


@pytest.mark.parametrize("size", [2, 3, 6])
def test_the_key_is_on_the_way(size):
    mdp = key_and_door(size)
    for steps, best in ((3 * (size - 1), 1.0), (3 * (size - 1) - 1, 0.0)):
        assert plan(mdp.transition, mdp.expected_reward, steps)[1] @ mdp.start == best
    assert mdp.optimal_value() == 1.0
    assert (mdp.expected_reward[: size**2] == 0).all()  # without the key


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: double_chain(2), "n_states must be a whole number >= 3, got 2"),
        (lambda: double_chain(horizon=0), "horizon must be a whole number >= 1, got 0"),
        (lambda: six_arms(1.5), "horizon must be a whole number >= 1, got 1.5"),
        (lambda: deep_sea(0), "size must be a whole number >= 1, got 0"),
        (lambda: key_and_door(1), "size must be a whole number >= 2, got 1"),
    ],
)
def test_sizes_out_of_range_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
