import pickle
import tracemalloc
import weakref

import gymnasium as gym
import numpy as np
import pytest
from oracle_tabular import (
    FALSE_ALARM,
    all_policies,
    counts_law,
    counts_of,
    episode_law,
    expected_counts,
    p_value,
    random_mdp,
    two_ways_on,
    value_by_paths,
)
from scipy.stats import norm

from privrl.envs import Support, TabularMDP, riverswim
from privrl.envs.riverswim import RiverSwimEnv
from privrl.envs.rollouts import CountSimulator, StepSimulator

SAMPLERS = [StepSimulator, CountSimulator]


@pytest.fixture
def rng():
    return np.random.default_rng(417)


def stationary(actions, mdp):
    """One policy per entry of ``actions``: always take that action."""
    shape = (*np.shape(actions), mdp.horizon, mdp.n_states)
    return np.broadcast_to(np.asarray(actions)[..., None, None], shape)


# The object


def tables(**changes):
    fine = {
        "transition": [[[0.5, 0.5], [0.0, 1.0]], [[1.0, 0.0], [0.25, 0.75]]],
        "reward": [[0.0, 1.0], [2.0, -1.0]],
        "start": [1.0, 0.0],
        "horizon": 3,
    }
    return fine | changes


def test_properties_of_rewards_per_action():
    mdp = TabularMDP(**tables())
    assert (mdp.n_states, mdp.n_actions) == (2, 2)
    np.testing.assert_array_equal(mdp.expected_reward, mdp.reward)
    assert mdp.reward_table.shape == (2, 2, 1)
    assert mdp.reward_range == (-1.0, 2.0)


def test_properties_of_rewards_on_arrival():
    reward = np.zeros((2, 2, 2))
    reward[0, 0] = [1.0, 3.0]
    reward[0, 1, 0] = 99.0  # cannot happen
    mdp = TabularMDP(**tables(reward=reward))
    np.testing.assert_array_equal(mdp.expected_reward, [[2.0, 0.0], [0.0, 0.0]])
    np.testing.assert_array_equal(mdp.reward_table, reward)
    assert mdp.reward_range == (0.0, 3.0)


def test_arrays_are_read_only_copies():
    transition = np.array(tables()["transition"])
    mdp = TabularMDP(**tables(transition=transition))
    transition[:] = np.nan
    for copy in (mdp, pickle.loads(pickle.dumps(mdp))):
        assert np.isfinite(copy.transition).all()
        assert copy.horizon == 3
        for array in (copy.transition, copy.reward, copy.start, copy.expected_reward):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"transition": np.full((2, 2), 0.5)}, r"transition must have shape .* got \(2, 2\)"),
        ({"transition": 1.0}, r"transition must have shape .* got \(\)"),
        ({"transition": np.full((2, 2, 3), 1 / 3)}, r"transition must have shape"),
        ({"transition": np.zeros((2, 0, 2))}, r"transition must have shape"),
        ({"transition": np.full((2, 2, 2), np.nan)}, r"transition must hold .* nan at \(0, 0, 0\)"),
        ({"transition": np.full((2, 2, 2), np.inf)}, "transition must hold probabilities"),
        ({"transition": np.full((2, 2, 2), [1.5, -0.5])}, "transition must hold probabilities"),
        (
            {"transition": np.full((2, 2, 2), 0.5 + 1e-9)},
            r"sum to 1 within 1e-9, got 1\.0.* \(0, 0\)",
        ),
        (
            {"transition": np.zeros((2, 3, 3))},
            r"transition must have shape .* swap the first two if action comes first",
        ),
        (
            {"transition": [[[0.5, 0.5], [0.0, 0.0]], [[1.0, 0.0], [0.25, 0.75]]]},
            r"got 0.0 at \(0, 1\); .* a state without a way on leads to itself",
        ),
        (
            {"transition": [[[0.5, 0.5], [1.0]], [[1.0], [0.25, 0.75]]]},
            "transition must be numbers that floats hold, in rows of one length",
        ),
        ({"start": ["a", "b"]}, "start must be numbers .*, got list"),
        ({"start": ["0", "1"]}, "start must be numbers .*, got list"),
        ({"reward": {"a": 1}}, "reward must be numbers .*, got dict"),
        ({"reward": np.zeros(2)}, r"reward must have shape \(2, 2\) or \(2, 2, 2\)"),
        ({"reward": np.zeros((2, 2, 1))}, "reward must have shape"),
        (
            {"reward": [[0.0, np.nan], [0.0, 0.0]]},
            r"reward must hold finite numbers, got nan at \(0, 1\)",
        ),
        ({"reward": np.full((2, 2), -np.inf)}, "reward must hold finite"),
        ({"start": [1.0, 0.0, 0.0]}, r"start must have shape \(2,\)"),
        ({"start": [np.nan, 1.0]}, "start must hold probabilities"),
        ({"start": [-0.5, 1.5]}, "start must hold probabilities"),
        (
            {"start": [0.5, 0.4]},
            "start must hold probabilities that sum to 1 within 1e-9, got 0.9;",
        ),
        ({"horizon": 0}, "horizon must be"),
        ({"horizon": 2.0}, "horizon must be"),
        ({"horizon": np.nan}, "horizon must be"),
    ],
)
def test_arguments_out_of_range_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        TabularMDP(**tables(**changes))


def test_rounding_errors_are_accepted():
    TabularMDP(**tables(start=[0.5 + 4e-10, 0.5]))


@pytest.mark.parametrize("as_given", [np.ndarray.tolist, np.float32, np.ndarray.copy])
def test_arrays_of_ones_own(as_given):
    """Lists, integers and what float32 holds exactly are taken as they are."""
    given = {
        name: as_given(np.array(table)) for name, table in tables().items() if name != "horizon"
    }
    mdp = TabularMDP(**given, horizon=3)
    for name, array in given.items():
        kept = getattr(mdp, name)
        assert kept.dtype == np.float64
        np.testing.assert_array_equal(kept, array)
    assert TabularMDP([[[1]]], [[2]], [1], 3).optimal_value() == 6.0


@pytest.mark.parametrize("error", [6e-8, 1e-6, 1e-3])
def test_rows_that_miss_1_are_refused_until_they_are_normalised(error):
    rows = np.full((3, 2, 3), (1 + error) / 3)
    rest = {"reward": np.zeros((3, 2)), "start": [1, 0, 0], "horizon": 2}
    with pytest.raises(ValueError, match=r"sum to 1 within 1e-9, .* by their sum, in float64"):
        TabularMDP(rows, **rest)
    TabularMDP(rows / rows.sum(axis=-1, keepdims=True), **rest)


def test_float32_is_refused_until_it_is_normalised_in_float64():
    rows, rest = np.float32([[[0.1, 0.2, 0.7]] * 2] * 3), (np.zeros((3, 2)), [1, 0, 0], 2)
    rows /= rows.sum(axis=-1, keepdims=True)
    with pytest.raises(ValueError, match="by their sum, in float64"):
        TabularMDP(rows, *rest)
    transition = np.asarray(rows, np.float64)
    transition /= transition.sum(axis=-1, keepdims=True)
    TabularMDP(transition, *rest)


def test_values_are_exact(rng):
    mdp = random_mdp(rng, n_states=2, horizon=3)
    policies = all_policies(2, 2, 3)
    values = mdp.policy_value(policies)
    np.testing.assert_allclose(values, [value_by_paths(mdp, policy) for policy in policies])

    policy, value = mdp.plan()
    assert value == mdp.optimal_value() == pytest.approx(values.max(), rel=1e-12)
    assert mdp.policy_value(policy) == pytest.approx(value, rel=1e-12)
    assert isinstance(mdp.policy_value(policy), float)


def test_values_of_rewards_on_arrival_are_exact(rng):
    mdp = random_mdp(rng, n_states=2, horizon=3)
    mdp = TabularMDP(mdp.transition, rng.random((2, 2, 2)), mdp.start, mdp.horizon)
    policy = mdp.plan()[0]
    assert mdp.policy_value(policy) == pytest.approx(value_by_paths(mdp, policy), rel=1e-12)


# Simulation: the law of the counts


TWO_STATES = TabularMDP(
    transition=[[[0.6, 0.4], [0.1, 0.9]], [[0.3, 0.7], [0.5, 0.5]]],
    reward=np.zeros((2, 2)),
    start=[0.7, 0.3],
    horizon=2,
)
TWO_STATES_WRONG = TabularMDP(
    transition=[[[0.57, 0.43], [0.1, 0.9]], [[0.3, 0.7], [0.5, 0.5]]],  # 5 % less likely to stay
    reward=np.zeros((2, 2)),
    start=[0.7, 0.3],
    horizon=2,
)


@pytest.mark.slow
@pytest.mark.parametrize("episodes", [1, 2])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_joint_law_of_the_counts(sampler, episodes, rng):
    """Chi-square over all tables of counts, 100000 runs; the last line is the power check."""
    policy, runs = np.array([[0, 1], [0, 0]]), 100_000
    law = counts_law(TWO_STATES, policy, episodes)

    def p_value_of(mdp):
        counts = sampler(mdp.transition, mdp.start).counts(
            np.broadcast_to(policy, (runs, 2, 2)), episodes, rng
        )
        found, times = np.unique(counts.reshape(runs, -1), axis=0, return_counts=True)
        seen = dict(zip(map(tuple, found.tolist()), times, strict=True))
        assert seen.keys() <= law.keys()
        return p_value([seen.get(table, 0) for table in law], list(law.values()))

    assert p_value_of(TWO_STATES) > FALSE_ALARM
    assert p_value_of(TWO_STATES_WRONG) < FALSE_ALARM


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_mean_counts_and_rows(sampler, rng):
    """5000 runs of 20 episodes; every cell's mean within the normal bound, Bonferroni-corrected."""
    mdp = random_mdp(rng, n_states=4, n_actions=3, horizon=5)
    policy = rng.integers(3, size=(5, 4))
    runs, episodes = 5000, 20
    counts = sampler(mdp.transition, mdp.start).counts(
        np.broadcast_to(policy, (runs, 5, 4)), episodes, rng
    )
    exact = episodes * expected_counts(mdp, policy)
    assert (counts.sum(axis=(1, 2, 3)) == episodes * mdp.horizon).all()
    np.testing.assert_array_equal(counts.sum(axis=0) > 0, exact > 0)
    error = counts.std(axis=0) / np.sqrt(runs)
    tolerance = norm.isf(FALSE_ALARM / 2 / np.count_nonzero(exact)) * error
    assert (np.abs(counts.mean(axis=0) - exact) <= tolerance).all()

    wrong = episodes * expected_counts(mdp, np.flip(policy, axis=0))
    assert not (np.abs(counts.mean(axis=0) - wrong) <= tolerance).all()


def moments(mdp, policy):
    """Return mean and covariance of one episode's counts, summed over all paths."""
    law = episode_law(mdp, policy)
    counts = np.array([counts_of(mdp, policy, path).ravel() for path in law])
    chance = np.array(list(law.values()))
    mean = chance @ counts
    return mean, (counts - mean).T * chance @ (counts - mean)


def worst_moments(counts, episodes, mean, covariance):
    """Return how many standard errors the worst mean and the worst covariance are off.

    The errors of means are known exactly, those of covariances are estimated. Cells that
    cannot be visited must be 0.
    """
    runs = len(counts)
    off = counts.reshape(runs, -1) - episodes * mean
    seen = np.diag(covariance) > 0
    assert (off[:, ~seen] == 0).all()
    off, covariance = off[:, seen], episodes * covariance[np.ix_(seen, seen)]
    products = off[:, :, None] * off[:, None, :]
    return (
        np.max(np.abs(off.mean(axis=0)) / np.sqrt(np.diag(covariance) / runs)),
        np.max(np.abs(products.mean(axis=0) - covariance) / (products.std(axis=0) / runs**0.5)),
    )


@pytest.mark.few(6)
@pytest.mark.parametrize(
    ("sampler", "episodes"),
    [(StepSimulator, 20), (CountSimulator, 20), (CountSimulator, 1000), (CountSimulator, 10**12)],
)
def test_means_and_covariances_of_the_counts(sampler, episodes, rng):
    """20000 runs against the exact moments, within the normal bound, Bonferroni-corrected.

    Products of counts are skewed, so that the false-alarm rate may be three times FALSE_ALARM.
    The power checks: doubled counts of half the episodes have the right means and twice the
    covariances; another policy has other means.
    """
    mdp = random_mdp(rng, n_states=3, n_actions=2, horizon=3)
    policy, runs = np.array([[0, 1, 0], [1, 1, 0], [0, 0, 1]]), 20_000
    mean, covariance = moments(mdp, policy)
    np.testing.assert_allclose(mean.reshape(3, 2, 3), expected_counts(mdp, policy), rtol=1e-12)

    def counted(policy, episodes):
        policies = np.broadcast_to(policy, (runs, 3, 3))
        return sampler(mdp.transition, mdp.start).counts(policies, episodes, rng)

    counts = counted(policy, episodes)
    assert counts.dtype == np.int64
    assert (counts.sum(axis=(1, 2, 3)) == 3 * episodes).all()
    bound = norm.isf(FALSE_ALARM / 2 / 18**2)
    assert max(worst_moments(counts, episodes, mean, covariance)) < bound

    doubled = worst_moments(2 * counted(policy, episodes // 2), episodes, mean, covariance)
    assert doubled[1] > bound
    assert doubled[0] < 1.5 * bound
    flipped = policy[[0, 2, 1]]  # visits the same cells
    assert worst_moments(counted(flipped, episodes), episodes, mean, covariance)[0] > bound


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["osband", "strehl"])
def test_stepping_an_environment_gives_the_same_law(variant, rng):
    """Chi-square over all tables of counts of one episode, 20000 episodes each way."""
    mdp, env = riverswim(4, 3, variant), RiverSwimEnv(n_states=4, horizon=3, variant=variant)
    policy, runs = rng.integers(2, size=(3, 4)) | [[1, 1, 1, 0]], 20_000
    law = counts_law(mdp, policy, 1)
    stepped = np.zeros((runs, 4, 2, 4), dtype=np.int64)
    env.reset(seed=71)
    for counts in stepped:
        state = env.reset()[0]
        for actions in policy:
            following = env.step(actions[state])[0]
            counts[state, actions[state], following] += 1
            state = following
    policies = np.broadcast_to(policy, (runs, 3, 4))
    for counts in (
        stepped,
        StepSimulator(mdp.transition, mdp.start).counts(policies, 1, rng),
        CountSimulator(mdp.transition, mdp.start).counts(policies, 1, rng),
        mdp.rollout_counts(policies, 1, rng),
    ):
        found, times = np.unique(counts.reshape(runs, -1), axis=0, return_counts=True)
        seen = dict(zip(map(tuple, found.tolist()), times, strict=True))
        assert seen.keys() <= law.keys()
        assert p_value([seen.get(table, 0) for table in law], list(law.values())) > FALSE_ALARM


@pytest.mark.parametrize("episodes", [1, 20, 3000])
def test_each_run_follows_its_own_policy(episodes, rng):
    mdp = random_mdp(rng, n_states=5, n_actions=3, horizon=6)
    counts = mdp.rollout_counts(stationary([[0, 1, 2], [2, 1, 0]], mdp), episodes, rng)
    assert counts.dtype == np.int64
    assert counts.shape == (2, 3, 5, 3, 5)
    by_action = counts.sum(axis=(2, 4))
    np.testing.assert_array_equal(by_action, 6 * episodes * np.eye(3)[[[0, 1, 2], [2, 1, 0]]])


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_each_step_follows_its_own_row_of_the_policy(sampler, rng):
    """A clock: the state is the step, so that each step's action shows in its own cell."""
    transition = np.broadcast_to(np.eye(7, k=1)[:, None, :], (7, 4, 7)).copy()
    transition[-1, :, -1] = 1.0
    policy = rng.integers(4, size=(2, 6, 7))
    counts = sampler(transition, np.eye(7)[0]).counts(policy, 5, rng)
    for run, step in np.ndindex(2, 6):
        assert counts[run, step, policy[run, step, step], step + 1] == 5
    assert counts.sum() == 2 * 6 * 5


def test_trillions_of_episodes_fit(rng):
    """Visits are in [0, H], so their mean's deviation is at most H / 2 / sqrt(episodes).

    Every cell is within the normal bound, Bonferroni-corrected; the power check changes one
    probability by 0.001. All episodes that arrive in a state leave it or end there.
    """
    mdp = random_mdp(rng, n_states=6, horizon=30)
    mdp = TabularMDP(mdp.transition, mdp.reward, np.eye(6)[2], 30)
    policy = rng.integers(2, size=(30, 6))
    episodes = 10**12 + 1
    counts = mdp.rollout_counts(policy, episodes, rng)
    assert counts.dtype == np.int64
    assert counts.sum() == 30 * episodes
    ended = counts.sum(axis=(0, 1)) + episodes * np.eye(6, dtype=np.int64)[2] - counts.sum((1, 2))
    assert (ended >= 0).all()
    tolerance = norm.isf(FALSE_ALARM / 2 / 72) * 15 / np.sqrt(episodes)
    np.testing.assert_allclose(
        counts / episodes, expected_counts(mdp, policy), rtol=0, atol=tolerance
    )

    wrong = mdp.transition.copy()
    wrong[0, 0, :2] += [-0.001, 0.001]
    wrong = TabularMDP(wrong, mdp.reward, mdp.start, 30)
    assert np.abs(counts / episodes - expected_counts(wrong, policy)).max() > tolerance


def test_many_walkers_go_in_groups(rng, monkeypatch):
    monkeypatch.setattr("privrl.envs.rollouts._DRAWS_AT_ONCE", 100)
    mdp = random_mdp(rng, horizon=7)
    counts = StepSimulator(mdp.transition, mdp.start).counts(stationary([0, 1, 0], mdp), 50, rng)
    by_action = counts.sum(axis=(1, 3))
    np.testing.assert_array_equal(by_action, [[350, 0], [0, 350], [350, 0]])


def test_no_runs_give_no_counts(rng):
    policy = np.zeros((0, 2, 2), dtype=int)
    for episodes in (1, 10**6):
        assert TWO_STATES.rollout_counts(policy, episodes, rng).shape == (0, 2, 2, 2)


class ConstantDraws:
    """A generator whose uniform draws are all the same extreme."""

    def __init__(self, draw):
        self.draw = draw

    def random(self, shape):
        return np.full(shape, self.draw)


@pytest.mark.parametrize("few", [0, 4])
def test_a_few_walkers_go_where_many_would(rng, monkeypatch, few):
    monkeypatch.setattr("privrl.envs.rollouts._FEW", few)
    mdp = random_mdp(rng, horizon=9)
    policies = rng.integers(2, size=(2, 9, 3))
    counts = StepSimulator(mdp.transition, mdp.start).counts(policies, 2, np.random.default_rng(5))
    u = np.random.default_rng(5).random((10, 4))
    expected = np.zeros_like(counts)
    for walker, run in enumerate([0, 0, 1, 1]):
        state = np.searchsorted(np.cumsum(mdp.start), u[-1, walker])
        for step in range(9):
            action = policies[run, step, state]
            following = np.searchsorted(np.cumsum(mdp.transition[state, action]), u[step, walker])
            expected[run, state, action, following] += 1
            state = following
    np.testing.assert_array_equal(counts, expected)


@pytest.mark.parametrize("few", [0, 4])
@pytest.mark.parametrize("total", [1.0, 1 - 9e-10])
@pytest.mark.parametrize(("draw", "chosen"), [(0.0, 0), (1 - 2.0**-53, 1)])
def test_extreme_draws_stay_in_their_row(draw, chosen, total, few, monkeypatch):
    """At row 9000, row + u rounds to the next row for the largest u; rows may fall short of 1."""
    monkeypatch.setattr("privrl.envs.rollouts._FEW", few)
    transition, start, pairs = two_ways_on(total)
    actions = np.array([0, 1, 150, 299])
    policy = np.broadcast_to(actions[:, None, None], (4, 4, 30))

    counts = StepSimulator(transition, start).counts(policy, 1, ConstantDraws(draw))

    expected = np.zeros_like(counts)
    state = [3, 28][chosen]
    for _ in range(4):
        following = pairs[state, chosen]
        expected[range(4), state, actions, following] += 1
        state = following
    np.testing.assert_array_equal(counts, expected)


@pytest.mark.parametrize(("sampler", "episodes"), [(StepSimulator, 2000), (CountSimulator, 10**15)])
def test_what_cannot_happen_does_not(sampler, episodes, rng):
    """NumPy's multinomial gives a last category of probability 0 what rounding leaves over."""
    transition = np.zeros((14, 12, 14))
    for action in range(12):
        transition[:, action, : action + 1] = 1 / (action + 1)
    start = np.zeros(14)
    start[:7] = 1 / 7
    policy = np.broadcast_to(np.arange(12)[:, None, None], (12, 50, 14))
    counts = sampler(transition, start).counts(policy, episodes, rng)
    assert (counts.sum(axis=0)[transition == 0] == 0).all()
    assert (counts.sum(axis=(1, 2, 3)) == 50 * episodes).all()


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_rows_may_miss_1_by_rounding(sampler, rng):
    transition = np.full((2, 1, 2), [1 + 4e-10, 4e-10])
    counts = sampler(transition, np.array([1 + 9e-10, 0.0])).counts(
        np.zeros((3, 4, 2), int), 9, rng
    )
    assert (counts.sum(axis=(1, 2, 3)) == 36).all()


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_one_state(sampler, rng):
    counts = sampler(np.ones((1, 1, 1)), np.ones(1)).counts(np.zeros((2, 5, 1), int), 3, rng)
    np.testing.assert_array_equal(counts, np.full((2, 1, 1, 1), 15))


def test_a_seed_fixes_the_counts():
    policy = np.zeros((4, 2, 2), dtype=int)
    for episodes in (3, 1000):
        first, second = (
            TWO_STATES.rollout_counts(policy, episodes, np.random.default_rng(5)) for _ in range(2)
        )
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(
    ("policy", "episodes", "message"),
    [
        (np.zeros((3, 2), int), 1, r"policy must have shape \(..., 2, 2\), got \(3, 2\)"),
        (np.zeros((2, 3), int), 1, "policy must have shape"),
        (np.zeros((2, 2)), 1, "policy must hold integer"),
        (np.full((2, 2), 2), 1, "policy must hold actions in 0..1"),
        (np.zeros((2, 2), int), 0, "episodes must be"),
        (np.zeros((2, 2), int), 1.5, "episodes must be"),
        (np.zeros((2, 2), int), np.nan, "episodes must be"),
        (np.zeros((2, 2), int), 2**52 + 1, "episodes must be at most 4503599627370496"),
    ],
)
def test_rollouts_out_of_range_are_refused(policy, episodes, message, rng):
    with pytest.raises(ValueError, match=message):
        TWO_STATES.rollout_counts(policy, episodes, rng)


# Compact counts


def sparse_mdp(rng, n_states=7, n_actions=3, horizon=6):
    """Up to three next states in each row."""
    transition = np.zeros((n_states, n_actions, n_states))
    for row in transition.reshape(-1, n_states):
        np.add.at(row, rng.integers(n_states, size=3), rng.dirichlet(np.ones(3)))
    start = np.zeros(n_states)
    start[:2] = 0.5
    return TabularMDP(transition, rng.random((n_states, n_actions)), start, horizon)


def supports(mdp):
    """Exact, one cell wider in each row, everything, and with a column for "over"."""
    possible = mdp.transition > 0
    wider = possible.copy()
    np.put_along_axis(wider, possible.argmin(axis=-1)[..., None], True, axis=-1)
    over = np.concatenate([wider, np.ones((*wider.shape[:2], 1), dtype=bool)], axis=-1)
    masks = [wider, np.ones_like(possible), over]
    return [mdp.support, *map(Support.from_mask, masks)]


@pytest.mark.parametrize("batch", [(), (4,), (2, 0), (2, 3)])
@pytest.mark.parametrize("episodes", [1, 20, 3000])
def test_compact_counts_are_the_dense_ones_compressed(episodes, batch, rng):
    mdp = sparse_mdp(rng)
    policy = rng.integers(3, size=(*batch, 6, 7))
    dense = mdp.rollout_counts(policy, episodes, np.random.default_rng(9))
    for support in supports(mdp):
        for _ in range(2):
            compact = mdp.rollout_counts(
                policy, episodes, np.random.default_rng(9), support=support
            )
            assert compact.dtype == np.int64
            assert compact.shape == (*batch, 7, 3, support.width)
            np.testing.assert_array_equal(support.expand(compact)[..., :7], dense)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_samplers_count_in_compact_cells(sampler, rng):
    mdp = sparse_mdp(rng)
    policy = rng.integers(3, size=(5, 6, 7))
    dense = sampler(mdp.transition, mdp.start).counts(policy, 50, np.random.default_rng(9))
    for support in supports(mdp):
        simulator = sampler(mdp.transition, mdp.start, support)
        compact = simulator.counts(policy, 50, np.random.default_rng(9))
        np.testing.assert_array_equal(support.expand(compact)[..., :7], dense)


RING = np.array([[[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]], [[0.0, 0.2, 0.8]] * 2, [[0.3, 0.0, 0.7]] * 2])
RING_WRONG = np.where(RING == 0.5, [0.47, 0.53, 0.0], RING)


@pytest.mark.slow
@pytest.mark.parametrize("episodes", [1, 2])
def test_joint_law_of_compact_counts(episodes, rng):
    """Chi-square over all tables of counts, 40000 runs, two steps from the first state.

    The power check: at 0.53 instead of 0.5 the statistic of the first step alone has
    noncentrality 40000 * 0.06**2 = 144 and 3 degrees of freedom, so that the wrong law is
    missed with a chance below 1e-9.
    """
    start, reward, runs = [1.0, 0.0, 0.0], np.zeros((3, 2)), 40_000
    policy = np.array([[0, 1, 0], [0, 0, 1]])
    exact = TabularMDP(RING, reward, start, 2)
    support = exact.support
    assert support.width == 2
    law = counts_law(exact, policy, episodes)

    def p_value_of(transition):
        mdp = TabularMDP(transition, reward, start, 2)
        policies = np.broadcast_to(policy, (runs, 2, 3))
        counts = mdp.rollout_counts(policies, episodes, rng, support=support)
        found, times = np.unique(
            support.expand(counts).reshape(runs, -1), axis=0, return_counts=True
        )
        seen = dict(zip(map(tuple, found.tolist()), times, strict=True))
        assert seen.keys() <= law.keys()
        return p_value([seen.get(table, 0) for table in law], list(law.values()))

    assert p_value_of(RING) > FALSE_ALARM
    assert p_value_of(RING_WRONG) < FALSE_ALARM


def test_one_state_and_one_cell(rng):
    mdp = TabularMDP([[[1.0]]], [[0.0]], [1.0], 5)
    for episodes in (2, 10**6):
        counts = mdp.rollout_counts(np.zeros((3, 5, 1), int), episodes, rng, support=mdp.support)
        np.testing.assert_array_equal(counts, np.full((3, 1, 1, 1), 5 * episodes))


@pytest.mark.parametrize("episodes", [1, 400])
def test_compact_counts_never_are_dense(episodes, rng):
    """Dense, they would take 20 * 300 * 2 * 300 * 8 bytes = 29 MB."""
    ring = np.zeros((300, 2, 300))
    ring[range(300), 0, np.arange(300) - 1] = ring[range(300), 1, np.arange(300) - 2] = 1.0
    mdp = TabularMDP(ring, np.zeros((300, 2)), np.eye(300)[0], 10)
    support = mdp.support
    policy = rng.integers(2, size=(20, 10, 300))
    mdp.rollout_counts(policy, episodes, rng, support=support)
    tracemalloc.start()
    mdp.rollout_counts(policy, episodes, rng, support=support)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 29e6 / 8


def test_a_support_is_not_kept_alive(rng):
    support = Support.from_mask(TWO_STATES.transition > 0)
    TWO_STATES.rollout_counts(np.zeros((2, 2), int), 1, rng, support=support)
    seen = weakref.ref(support)
    del support
    assert seen() is None


@pytest.mark.parametrize("episodes", [1, 10**6])
def test_leaving_the_support_is_refused_before_anything_is_drawn(episodes, rng):
    mask = TWO_STATES.transition > 0
    mask[1, 1, 0] = False  # under this policy it would never be noticed
    before = rng.bit_generator.state
    with pytest.raises(ValueError, match="support must hold every transition that can happen"):
        TWO_STATES.rollout_counts(
            np.zeros((2, 2), int), episodes, rng, support=Support.from_mask(mask)
        )
    assert rng.bit_generator.state == before


@pytest.mark.parametrize("shape", [(3, 2, 3), (2, 1, 2), (1, 2, 2)])
def test_support_of_other_sizes_is_refused(shape, rng):
    support = Support.from_mask(np.ones(shape, dtype=bool))
    with pytest.raises(ValueError, match="support must be for 2 states and 2 actions, got"):
        TWO_STATES.rollout_counts(np.zeros((2, 2), int), 1, rng, support=support)


def test_policy_of_another_horizon_has_no_value():
    with pytest.raises(ValueError, match="policy must have shape"):
        TWO_STATES.policy_value(np.zeros((3, 2), dtype=int))


# Gymnasium's tables


def test_frozen_lake_keeps_its_states():
    mdp = TabularMDP.from_gymnasium(gym.make("FrozenLake-v1"))
    assert (mdp.n_states, mdp.n_actions, mdp.horizon) == (16, 4, 100)
    assert mdp.reward_range == (0.0, 1.0)
    # Gymnasium names 0.74 as the optimum of 100 steps; over ever more steps it tends to 14/17.
    longer = TabularMDP.from_gymnasium(gym.make("FrozenLake-v1"), horizon=5000)
    assert mdp.optimal_value() == pytest.approx(0.74, abs=0.01)
    assert longer.optimal_value() == pytest.approx(14 / 17, abs=1e-9)


def test_frozen_lake_without_slipping():
    env = gym.make("FrozenLake-v1", is_slippery=False)
    for horizon, value in ((5, 0.0), (6, 1.0), (100, 1.0)):  # the goal is six steps away
        assert TabularMDP.from_gymnasium(env, horizon).optimal_value() == value


def test_large_frozen_lake():
    """Against backward induction over Gymnasium's own table."""
    env = gym.make("FrozenLake8x8-v1").unwrapped
    value = np.zeros(64)

    def worth(outcomes):
        return sum(p * (paid + (not ended) * value[to]) for p, to, paid, ended in outcomes)

    for _ in range(200):
        value = np.array([max(map(worth, env.P[state].values())) for state in range(64)])
    mdp = TabularMDP.from_gymnasium(gym.make("FrozenLake8x8-v1"))
    assert (mdp.n_states, mdp.n_actions, mdp.horizon) == (64, 4, 200)
    assert mdp.support.width == 3
    assert mdp.optimal_value() == pytest.approx(value[0], rel=1e-12)
    assert value[0] == pytest.approx(0.85, abs=0.1)  # what Gymnasium calls solved


def test_cliff_walking_ends_in_an_extra_state():
    mdp = TabularMDP.from_gymnasium(gym.make("CliffWalking-v1"), horizon=100)
    assert (mdp.n_states, mdp.n_actions) == (49, 4)
    assert mdp.optimal_value() == -13.0
    assert mdp.reward_range == (-100.0, -1.0)  # nobody acts in the state that ends it
    assert (mdp.transition[48, :, 48] == 1).all()
    assert mdp.reward[48].max() == 0


def test_cliff_walking_slippery_averages_only_what_differs():
    mdp = TabularMDP.from_gymnasium(gym.make("CliffWalkingSlippery-v1"), horizon=10)
    assert mdp.reward_range == (-100.0, -1.0)
    start = 36
    away = [s for s in range(49) if s != start]
    assert set(np.unique(mdp.reward[:, :, away])) == {-1.0, 0.0}
    # Moving right from the start: one outcome is the cliff, one the wall, both lead back.
    assert mdp.transition[start, 1, start] == pytest.approx(2 / 3)
    assert mdp.reward[start, 1, start] == pytest.approx((-100 - 1) / 2)


def test_taxi():
    """Every step costs 1 and the last, the delivery, pays 20: by breadth-first search."""
    env = gym.make("Taxi-v4").unwrapped
    distance = dict.fromkeys((s for s in range(500) if any(o[0][3] for o in env.P[s].values())), 1)
    for steps in range(2, 30):
        for state in set(range(500)) - distance.keys():
            legal = (o[0][1] for o in env.P[state].values() if o[0][2] == -1)
            if any(distance.get(following, steps) < steps for following in legal):
                distance[state] = steps
    starts = np.flatnonzero(env.initial_state_distrib)

    mdp = TabularMDP.from_gymnasium(gym.make("Taxi-v4"))

    assert (mdp.n_states, mdp.n_actions, mdp.horizon) == (501, 6, 200)
    assert mdp.optimal_value() == pytest.approx(21 - np.mean([distance[s] for s in starts]))


class Table(gym.Env):
    """Carries tables and nothing else."""

    def __init__(self, outcomes, start=(1.0,)):
        self.P, self.initial_state_distrib = outcomes, np.array(start)


def test_outcomes_that_repeat_are_merged():
    outcomes = [(0.25, 0, 1.0, False), (0.25, 0, 4.0, False), (0.5, 0, 6.0, False)]
    mdp = TabularMDP.from_gymnasium(Table({0: {0: outcomes}}), horizon=2)
    assert mdp.transition == 1.0
    assert mdp.reward == pytest.approx(4.25)
    assert mdp.n_states == 1


def test_termination_in_a_state_that_pays_goes_elsewhere():
    outcomes = [(0.0, 0, 99.0, True), (0.5, 0, 1.0, False), (0.5, 0, 3.0, True)]
    mdp = TabularMDP.from_gymnasium(Table([[outcomes]]), horizon=2)
    np.testing.assert_array_equal(mdp.transition[:, 0], [[0.5, 0.5], [0.0, 1.0]])
    np.testing.assert_array_equal(mdp.reward[:, 0], [[1.0, 3.0], [0.0, 0.0]])
    np.testing.assert_array_equal(mdp.start, [1.0, 0.0])


def test_no_horizon_is_an_error():
    with pytest.raises(ValueError, match=r"horizon must be given.*CliffWalking"):
        TabularMDP.from_gymnasium(gym.make("CliffWalking-v1"))
    with pytest.raises(ValueError, match="horizon must be given"):
        TabularMDP.from_gymnasium(Table([[[(1.0, 0, 0.0, False)]]]))


def test_no_tables_is_an_error():
    with pytest.raises(ValueError, match="env must carry its tables"):
        TabularMDP.from_gymnasium(gym.make("CartPole-v1"))
