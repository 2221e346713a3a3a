import copy
import pickle

import numpy as np
import pytest
from oracle_tabular import random_mdp

from privrl.envs import Support, TabularMDP


@pytest.fixture
def rng():
    return np.random.default_rng(88)


def draw_mask(rng, n_states, n_actions, n_next, density=0.4):
    mask = rng.random((n_states, n_actions, n_next)) < density
    np.put_along_axis(mask, rng.integers(n_next, size=(n_states, n_actions, 1)), True, axis=2)
    return mask


# States, actions, next states; how many of these are possible.
SHAPES = [(1, 1, 1, 1.0), (1, 1, 2, 1.0), (1, 3, 2, 0.5), (4, 2, 4, 0.0), (4, 2, 5, 0.4)]
SHAPES += [(4, 2, 4, 1.0), (5, 1, 6, 1.0), (9, 3, 9, 0.4)]


@pytest.mark.parametrize(("n_states", "n_actions", "n_next", "density"), SHAPES)
def test_a_mask_and_back(rng, n_states, n_actions, n_next, density):
    mask = draw_mask(rng, n_states, n_actions, n_next, density)
    support = Support.from_mask(mask)

    rows = [[np.flatnonzero(mask[s, a]) for a in range(n_actions)] for s in range(n_states)]
    assert support.width == max(len(row) for action in rows for row in action)
    assert support.n_next == n_next
    assert support.next_states.dtype == np.intp
    for s, a in np.ndindex(n_states, n_actions):
        padding = [-1] * (support.width - len(rows[s][a]))
        assert support.next_states[s, a].tolist() == [*rows[s][a], *padding]
    np.testing.assert_array_equal(support.valid, support.next_states != -1)
    np.testing.assert_array_equal(support.expand(support.valid), mask)
    assert support.valid.dtype == np.bool_


def test_extreme_widths(rng):
    assert Support.from_mask(draw_mask(rng, 6, 2, 6, 0.0)).width == 1
    everything = Support.from_mask(np.ones((6, 2, 7), dtype=bool))
    assert everything.width == everything.n_next == 7
    dense = rng.random((3, 6, 2, 7))
    np.testing.assert_array_equal(everything.expand(dense), dense)


@pytest.mark.few(4)
@pytest.mark.parametrize("batch", [(), (3,), (2, 0), (2, 3)])
@pytest.mark.parametrize("dtype", [np.int64, np.float64, np.float32, np.bool_])
@pytest.mark.parametrize("shape", SHAPES)
def test_expand_puts_each_cell_in_its_place(rng, shape, dtype, batch):
    mask = draw_mask(rng, *shape)
    n_states, n_actions, _ = mask.shape
    support = Support.from_mask(mask)
    amounts = rng.integers(1, 5, size=(*batch, n_states, n_actions, support.width))
    compact = (amounts * support.valid).astype(dtype)

    dense = support.expand(compact)

    assert dense.shape == (*batch, *mask.shape)
    assert dense.dtype == dtype
    for s, a, w in np.ndindex(support.next_states.shape):
        if support.valid[s, a, w]:
            following = support.next_states[s, a, w]
            np.testing.assert_array_equal(dense[..., s, a, following], compact[..., s, a, w])
    assert not dense[..., ~mask].any()


def test_tables_are_left_alone(rng):
    support = Support.from_mask(draw_mask(rng, 4, 2, 4))
    compact = np.broadcast_to(support.valid * 1.0, (3, *support.valid.shape))  # read-only
    dense = support.expand(compact)
    dense[:] = -1.0
    assert compact.max() == 1.0


def test_columns_are_where_next_states_are(rng):
    mask = draw_mask(rng, 7, 3, 8)
    support = Support.from_mask(mask)
    state, action, following = np.nonzero(mask)
    shuffled = rng.permutation(len(state))[:40].reshape(8, 5)
    state, action, following = state[shuffled], action[shuffled], following[shuffled]
    column = support.columns(state, action, following)
    np.testing.assert_array_equal(support.next_states[state, action, column], following)


def test_columns_outside_are_refused(rng):
    mask = draw_mask(rng, 5, 2, 6)
    support = Support.from_mask(mask)
    for transition in np.argwhere(~mask):
        with pytest.raises(ValueError, match="support must hold every transition"):
            support.columns(*transition[:, None])


def test_the_support_of_an_mdp(rng):
    transition = np.zeros((2, 2, 2))
    transition[:, 0, 0] = 1.0
    transition[:, 1] = [1e-300, 1.0]  # possible, if hardly
    support = TabularMDP(transition, np.zeros((2, 2)), [1.0, 0.0], 3).support
    assert support.next_states.tolist() == [[[0, -1], [0, 1]]] * 2
    assert support.n_next == 2

    assert random_mdp(rng).support.width == 3


def test_it_cannot_be_changed(rng):
    mask = draw_mask(rng, 3, 2, 3)
    next_states = Support.from_mask(mask).next_states.copy()
    support = Support(next_states, 3)
    next_states[:] = -1
    for same in (support, pickle.loads(pickle.dumps(support)), copy.deepcopy(support)):
        np.testing.assert_array_equal(same.expand(same.valid), mask)
        for array in (same.next_states, same.valid):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0


@pytest.mark.parametrize("amount", [1.0, np.nan])
def test_padding_must_be_empty(amount):
    support = Support.from_mask(np.tri(2, dtype=bool)[:, None, :])
    compact = np.zeros((2, 1, 2))
    compact[0, 0, 1] = amount
    with pytest.raises(ValueError, match="compact must be 0 in cells that are padding"):
        support.expand(compact)


@pytest.mark.parametrize("shape", [(), (3, 2), (3, 2, 4), (2, 3, 3), (4, 3, 2)])
def test_tables_that_do_not_fit_are_refused(shape):
    support = Support.from_mask(np.broadcast_to(np.eye(3, dtype=bool)[:, None, :], (3, 2, 3)))
    with pytest.raises(ValueError, match=r"compact must have shape \(..., 3, 2, 1\)"):
        support.expand(np.zeros(shape))


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (np.ones((2, 2, 2)), "mask must be booleans of shape .*, got float64"),
        (np.ones((2, 2), dtype=bool), r"got bool of shape \(2, 2\)"),
        (np.ones((2, 0, 2), dtype=bool), "mask must be booleans"),
        (np.ones((0, 2, 0), dtype=bool), "mask must be booleans"),
        (np.ones((3, 2, 2), dtype=bool), "mask's last axis must be 3 or 4, got 2"),
        (np.ones((3, 2, 5), dtype=bool), "mask's last axis must be 3 or 4, got 5"),
        (
            np.arange(8).reshape(2, 2, 2) < 6,
            "a True in each row, got none for state 1 and action 1",
        ),
    ],
)
def test_masks_out_of_range_are_refused(mask, message):
    with pytest.raises(ValueError, match=message):
        Support.from_mask(mask)


@pytest.mark.parametrize(
    ("next_states", "n_next", "message"),
    [
        ([[[0.0]]], 1, "next_states must be integers of shape .*, got float64"),
        ([[[True]]], 1, "got bool"),
        ([[0, 1]], 2, r"of shape \(1, 2\)"),
        (np.zeros((1, 1, 0), int), 1, "next_states must be integers"),
        ([[[0]]], 0, "n_next must be a whole number >= 1"),
        ([[[0]]], 1.0, "n_next must be a whole number"),
        ([[[0]]], 3, "n_next must be 1 or 2, got 3"),
        ([[[1]]], 1, r"next_states must hold states in 0..0"),
        ([[[-2]]], 1, "next_states must hold"),
        ([[[-1]]], 1, "next_states must hold"),
        ([[[0, -2]]], 2, "next_states must hold"),
        ([[[-1, 0]]], 2, "next_states must hold"),
        ([[[0, 0]]], 2, "next_states must hold"),
        ([[[1, 0]]], 2, "next_states must hold"),
        ([[[0, -1, 1]], [[0, 1, 2]]], 3, "next_states must hold"),
    ],
)
def test_next_states_out_of_range_are_refused(next_states, n_next, message):
    with pytest.raises(ValueError, match=message):
        Support(next_states, n_next)


def test_rows_may_be_padded_further_than_needed():
    support = Support([[[0, -1]], [[1, -1]]], 2)
    assert support.width == 2
    np.testing.assert_array_equal(support.next_states[..., 0], [[0], [1]])
