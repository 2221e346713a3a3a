import gymnasium as gym
import numpy as np
import pytest
from oracle_tabular import all_policies, random_mdp, value_by_paths

from privrl.envs import Support, TabularMDP, plan, planning
from privrl.envs.planning import evaluate, plan_support


@pytest.fixture
def rng():
    return np.random.default_rng(20250)


def draw_tables(rng, batch, n_states, n_actions):
    transition = rng.dirichlet(np.ones(n_states), (*batch, n_states, n_actions))
    return transition, rng.normal(size=(*batch, n_states, n_actions))


def plan_one_state_at_a_time(transition, reward, horizon):
    n_states, n_actions = reward.shape
    value, policy = [0.0] * n_states, []
    for _ in range(horizon):
        action_values = [
            [
                reward[s, a] + sum(transition[s, a, t] * value[t] for t in range(n_states))
                for a in range(n_actions)
            ]
            for s in range(n_states)
        ]
        policy.insert(0, [row.index(max(row)) for row in action_values])
        value = [max(row) for row in action_values]
    return np.array(policy), np.array(value)


@pytest.mark.parametrize(("n_states", "n_actions", "horizon"), [(2, 2, 3), (3, 2, 2), (2, 3, 2)])
def test_no_policy_beats_the_plan(rng, n_states, n_actions, horizon):
    transition, reward = draw_tables(rng, (), n_states, n_actions)
    policies = all_policies(n_states, n_actions, horizon)
    best = evaluate(transition, reward, policies).max(axis=0)  # one policy is best in every state

    policy, value = plan(transition, reward, horizon)

    np.testing.assert_allclose(value, best, rtol=1e-12)
    np.testing.assert_allclose(evaluate(transition, reward, policy), best, rtol=1e-12)


def test_evaluation_sums_over_all_paths(rng):
    mdp = random_mdp(rng)
    for policy in all_policies(mdp.n_states, mdp.n_actions, mdp.horizon)[::512]:
        value = evaluate(mdp.transition, mdp.reward, policy) @ mdp.start
        assert value == pytest.approx(value_by_paths(mdp, policy), rel=1e-12)


def test_evaluation_agrees_with_simulation(rng):
    """200000 episodes; rewards are in [0, 4], so by Hoeffding a false alarm has chance 1e-6."""
    mdp = random_mdp(rng)
    policy = rng.integers(mdp.n_actions, size=(mdp.horizon, mdp.n_states))
    episodes = 200_000
    counts = mdp.rollout_counts(policy, episodes, rng)
    mean = (counts * mdp.reward_table).sum() / episodes
    tolerance = mdp.horizon * np.sqrt(np.log(2e6) / (2 * episodes))
    assert abs(mean - mdp.policy_value(policy)) < tolerance


# One run, and batches on either side of the choice between einsum and BLAS.
@pytest.mark.parametrize("batch", [(), (1,), (5,), (2, 3)])
@pytest.mark.parametrize(
    ("n_states", "n_actions"), [(1, 1), (1, 3), (4, 1), (6, 2), (12, 3), (13, 3)]
)
def test_every_layout_gives_the_same_plan(rng, batch, n_states, n_actions):
    transition, reward = draw_tables(rng, batch, n_states, n_actions)

    policy, value = plan(transition, reward, 5)

    assert policy.shape == (*batch, 5, n_states)
    assert policy.dtype == np.intp
    assert value.shape == (*batch, n_states)
    np.testing.assert_allclose(evaluate(transition, reward, policy), value, rtol=1e-12)
    for run in np.ndindex(*batch):
        one_policy, one_value = plan_one_state_at_a_time(transition[run], reward[run], 5)
        np.testing.assert_array_equal(policy[run], one_policy)
        np.testing.assert_allclose(value[run], one_value, rtol=1e-12)


@pytest.mark.parametrize("n_states", [4, 20])
def test_leading_axes_broadcast(rng, n_states):
    transition, reward = draw_tables(rng, (3, 1), n_states, 2)
    rewards = rng.normal(size=(4, n_states, 2))
    policy, value = plan(transition, rewards, 6)
    assert value.shape == (3, 4, n_states)
    for i, j in np.ndindex(3, 4):
        alone = plan(transition[i, 0], rewards[j], 6)
        np.testing.assert_array_equal(policy[i, j], alone[0])
        np.testing.assert_allclose(value[i, j], alone[1], rtol=1e-12)

    shared = plan(transition[0, 0], rewards, 6)
    np.testing.assert_allclose(shared[1], value[0], rtol=1e-12)

    policies = rng.integers(2, size=(5, 1, 1, 6, n_states))
    values = evaluate(transition, reward, policies)
    assert values.shape == (5, 3, 1, n_states)
    for k, i in np.ndindex(5, 3):
        alone = evaluate(transition[i, 0], reward[i, 0], policies[k, 0, 0])
        np.testing.assert_allclose(values[k, i, 0], alone, rtol=1e-12)


@pytest.mark.parametrize("batch", [(), (3,)])
def test_ties_go_to_the_lowest_action(rng, batch):
    transition = np.broadcast_to(np.eye(4)[:, None, :], (*batch, 4, 3, 4))
    reward = np.zeros((4, 3))
    reward[1] = [0.0, 1.0, 1.0]
    reward[2] = [1.0, 0.0, 1.0]
    policy, value = plan(transition, reward, 7)
    np.testing.assert_array_equal(policy, np.broadcast_to([0, 1, 0, 0], (*batch, 7, 4)))
    np.testing.assert_array_equal(value, np.broadcast_to([0.0, 7.0, 7.0, 0.0], (*batch, 4)))


def test_what_a_row_lacks_is_worth_nothing():
    transition = np.full((1, 1, 1), 0.5)
    _, value = plan(transition, np.ones((1, 1)), 3)
    assert value == 1 + 1 / 2 + 1 / 4


def test_no_runs_give_no_plans():
    policy, value = plan(np.ones((0, 4, 2, 4)) / 4, np.zeros((4, 2)), 3)
    assert policy.shape == (0, 3, 4)
    assert evaluate(np.ones((4, 2, 4)) / 4, np.zeros((4, 2)), policy).shape == value.shape == (0, 4)


def test_tables_are_left_alone(rng):
    transition, reward = draw_tables(rng, (5,), 4, 2)
    before = transition.copy(), reward.copy()
    policy, _ = plan(transition, reward, 3)
    evaluate(transition, reward, policy)
    np.testing.assert_array_equal(transition, before[0])
    np.testing.assert_array_equal(reward, before[1])


UNIFORM, ZERO = np.full((3, 2, 3), 1 / 3), np.zeros((3, 2))


@pytest.mark.parametrize("horizon", [0, -1, 2.5, None])
def test_plan_wants_a_horizon(horizon):
    with pytest.raises(ValueError, match="horizon must be"):
        plan(UNIFORM, ZERO, horizon)


@pytest.mark.parametrize(
    ("transition", "reward", "message"),
    [
        (UNIFORM[0], ZERO, "transition must have shape"),
        (UNIFORM[..., :2], ZERO, "transition must have shape"),
        (UNIFORM, ZERO[:2], "reward must have shape"),
        (UNIFORM, ZERO[:, :1], "reward must have shape"),
        (UNIFORM * np.nan, ZERO, "must be finite"),
        (UNIFORM, ZERO + np.inf, "must be finite"),
        (np.stack([UNIFORM] * 3), np.stack([ZERO] * 2), "broadcast"),
    ],
)
def test_tables_that_do_not_fit_are_refused(transition, reward, message):
    with pytest.raises(ValueError, match=message):
        plan(transition, reward, 4)
    with pytest.raises(ValueError, match=message):
        evaluate(transition, reward, np.zeros((4, 3), dtype=int))


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (np.zeros((4, 3)), "integer actions, got float64"),
        (np.zeros((4, 3), dtype=bool), "integer actions, got bool"),
        (np.zeros(3, dtype=int), r"shape \(..., horizon, 3\), got \(3,\)"),
        (np.zeros((4, 2), dtype=int), "shape"),
        (np.zeros((0, 3), dtype=int), "shape"),
        (np.full((4, 3), 2), r"actions in 0..1, got values in 2..2"),
        (np.full((4, 3), -1), "actions in 0..1"),
    ],
)
def test_policies_that_do_not_fit_are_refused(policy, message):
    with pytest.raises(ValueError, match=message):
        evaluate(UNIFORM, ZERO, policy)


# Compact rows


def draw_rows(rng, batch, mask):
    """Return a support, and rows inside it."""
    support = Support.from_mask(mask)
    weights = rng.random((*batch, *support.valid.shape)) * support.valid
    return support, weights / weights.sum(axis=-1, keepdims=True)


def draw_mask(rng, n_states, n_actions, n_next, width):
    """Up to ``width`` next states in each row."""
    mask = np.zeros((n_states, n_actions, n_next), dtype=bool)
    chosen = rng.integers(n_next, size=(n_states, n_actions, width))
    np.put_along_axis(mask, chosen, True, axis=-1)
    return mask


@pytest.mark.parametrize("batch", [(), (1,), (5,), (2, 3)])
@pytest.mark.parametrize("over", [0, 1])
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 3, 1), (4, 2, 1), (6, 2, 3), (13, 3, 40)])
def test_compact_rows_give_the_same_plan(rng, shape, over, batch):
    n_states, n_actions, width = shape
    mask = draw_mask(rng, n_states, n_actions, n_states + over, width)
    support, rows = draw_rows(rng, batch, mask)
    reward = rng.normal(size=(*batch, n_states, n_actions))

    policy, value = plan_support(rows, support, reward, 5)

    assert policy.shape == (*batch, 5, n_states)
    assert policy.dtype == np.intp
    transition = support.expand(rows)[..., :n_states]
    dense_policy, dense_value = plan(transition, reward, 5)
    np.testing.assert_array_equal(policy, dense_policy)
    np.testing.assert_allclose(value, dense_value, rtol=1e-12)
    for run in np.ndindex(*batch):
        one_policy, one_value = plan_one_state_at_a_time(transition[run], reward[run], 5)
        np.testing.assert_array_equal(policy[run], one_policy)
        np.testing.assert_allclose(value[run], one_value, rtol=1e-12)


def test_leading_axes_of_compact_rows_broadcast(rng):
    support, rows = draw_rows(rng, (3, 1), draw_mask(rng, 7, 2, 8, 3))
    rewards = rng.normal(size=(4, 7, 2))
    policy, value = plan_support(rows, support, rewards, 6)
    assert policy.shape == (3, 4, 6, 7)
    for i, j in np.ndindex(3, 4):
        alone = plan_support(rows[i, 0], support, rewards[j], 6)
        np.testing.assert_array_equal(policy[i, j], alone[0])
        np.testing.assert_allclose(value[i, j], alone[1], rtol=1e-12)

    shared = plan_support(rows[0, 0], support, rewards, 6)
    np.testing.assert_array_equal(shared[0], policy[0])
    one = plan_support(rows[:1], support, rewards[:, None], 6)  # one table with a batch axis
    np.testing.assert_array_equal(one[0][:, 0], policy[0])
    assert plan_support(rows[:0], support, rewards, 6)[0].shape == (0, 4, 6, 7)


def test_compact_taxi():
    """Deterministic moves and whole rewards: even the ties are the same."""
    mdp = TabularMDP.from_gymnasium(gym.make("Taxi-v4"), horizon=30)
    support = mdp.support
    assert support.width == 1
    assert (mdp.transition == support.expand(support.valid)).all()  # a move has the probability 1
    rows = np.broadcast_to(1.0 * support.valid, (3, 501, 6, 1))
    policy, value = plan_support(rows, support, mdp.expected_reward, 30)
    dense_policy, dense_value = plan(mdp.transition, mdp.expected_reward, 30)
    np.testing.assert_array_equal(policy, np.stack([dense_policy] * 3))
    np.testing.assert_array_equal(value, np.stack([dense_value] * 3))


def test_what_is_over_or_missing_is_worth_nothing():
    support = Support.from_mask(np.ones((1, 1, 2), dtype=bool))
    for row in ([0.5, 0.5], [0.5, 0.0]):
        _, value = plan_support([[row]], support, np.ones((1, 1)), 3)
        assert value == 1 + 1 / 2 + 1 / 4


def test_compact_tables_are_left_alone(rng):
    support, rows = draw_rows(rng, (5,), draw_mask(rng, 4, 2, 4, 2))
    reward = rng.normal(size=(5, 4, 2))
    before = rows.copy(), reward.copy()
    plan_support(rows, support, reward, 3)
    np.testing.assert_array_equal(rows, before[0])
    np.testing.assert_array_equal(reward, before[1])


TWO_OF_THREE = Support.from_mask(np.tri(3, dtype=bool)[[1, 0, 1]][:, None].repeat(2, axis=1))
COMPACT = TWO_OF_THREE.valid / TWO_OF_THREE.valid.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize(
    ("rows", "reward", "horizon", "message"),
    [
        (COMPACT, np.zeros((3, 2)), 0, "horizon must be"),
        (COMPACT[0], np.zeros((3, 2)), 4, r"rows must have shape \(..., 3, 2, 2\)"),
        (np.zeros((3, 2, 3)), np.zeros((3, 2)), 4, "rows must have shape"),
        (np.full((3, 2, 2), 0.5), np.zeros((3, 2)), 4, "rows must be 0 in cells that are padding"),
        (COMPACT, np.zeros((3, 1)), 4, r"reward must have shape \(..., 3, 2\) to fit rows"),
        (COMPACT, np.full((3, 2), np.inf), 4, "must be finite"),
        (np.where(COMPACT > 0, np.nan, 0), np.zeros((3, 2)), 4, "must be finite"),
        (np.stack([COMPACT] * 3), np.zeros((2, 3, 2)), 4, "broadcast"),
    ],
)
def test_compact_tables_that_do_not_fit_are_refused(rows, reward, horizon, message):
    plan_support(COMPACT, TWO_OF_THREE, np.zeros((3, 2)), 4)
    with pytest.raises(ValueError, match=message):
        plan_support(rows, TWO_OF_THREE, reward, horizon)


@pytest.mark.parametrize(("n_states", "n_actions", "horizon"), [(6, 2, 30), (5, 3, 7), (1, 1, 1)])
def test_one_small_problem_is_solved_to_the_last_bit_as_many_are(
    n_states: int, n_actions: int, horizon: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(5)
    rows = rng.dirichlet(np.full(n_states + 1, 0.3), (n_states, n_actions))[..., :n_states]
    rewards = np.round(rng.random((n_states, n_actions)), 1)  # with ties
    policy, value = plan(rows, rewards, horizon)
    batched = plan(rows[None], rewards, horizon)
    monkeypatch.setattr(planning, "_SMALL", 0)
    others = plan(rows, rewards, horizon)
    for other in (others, (batched[0][0], batched[1][0])):
        np.testing.assert_array_equal(policy, other[0])
        np.testing.assert_array_equal(value, other[1])
