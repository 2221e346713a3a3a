"""Policies that leave actions open: -1 is any action that is free, uniformly, in every rollout.

And states in which an episode is over: which they are, and that they pay nothing.
"""

import numpy as np
import pytest
from oracle_tabular import FALSE_ALARM, random_mdp
from scipy.stats import norm

from privrl.envs import Support, TabularMDP, planning
from privrl.envs.rollouts import AutomaticSimulator, CountSimulator, StepSimulator
from privrl.envs.steps import any_action, rollout_steps

RUNS, EPISODES = 2000, 25
S, A, H = 4, 3, 4


@pytest.fixture
def rng():
    return np.random.default_rng(826)


def by_steps(mdp, policy, episodes, rng, *, free=None):
    """Count what `rollout_steps` returns."""
    steps = rollout_steps(mdp, policy, episodes, rng, free=free)
    counts = np.zeros((len(policy), mdp.n_states, mdp.n_actions, mdp.n_states), np.int64)
    run = np.broadcast_to(np.arange(len(policy)), steps.state.shape)
    np.add.at(counts, (run, *steps), 1)
    return counts


def by(kind):
    def counted(mdp, policy, episodes, rng, *, free=None, support=None):
        way = kind(mdp.transition, mdp.start, support)
        return way.counts(policy, episodes, rng, free=free)

    return counted


WAYS = {
    "walkers": by(StepSimulator),
    "flows": by(CountSimulator),
    "quicker": by(AutomaticSimulator),
    "steps": by_steps,
    "method": lambda mdp, policy, episodes, rng, *, free=None, support=None: mdp.rollout_counts(
        policy, episodes, rng, free=free, support=support
    ),
}
each_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


def expected(mdp, policy, free):
    """Return the expected counts of an episode by the forward recursion of the mixed policy."""
    here, counts = mdp.start, np.zeros(mdp.transition.shape)
    chance = free / free.sum(axis=-1, keepdims=True)
    for actions in policy:
        mixed = np.where((actions < 0)[:, None], chance, np.eye(mdp.n_actions)[actions])
        moves = here[:, None, None] * mixed[..., None] * mdp.transition
        counts += moves
        here = moves.sum(axis=(0, 1))
    return counts


def half_open(rng, runs):
    """Two policies, by turns, that leave half of the actions open, and the free ones of these."""
    policy = np.where(rng.random((2, H, S)) < 0.5, -1, rng.integers(A, size=(2, H, S)))
    policy[:, 1] = -1
    some = np.array([[0, 1, 1], [1, 1, 0], [1, 0, 1], [0, 0, 1]], np.bool_)
    free = np.stack([some, some[::-1]])
    turns = np.arange(runs) % 2
    return policy, free, policy[turns], free[turns]


def worst(counts, exact):
    """Return how many standard errors the worst mean is off; what cannot happen must not."""
    assert not counts[:, exact == 0].any()
    off = np.abs(counts.mean(axis=0) - EPISODES * exact)[exact > 0]
    return (off / (counts.std(axis=0)[exact > 0] / np.sqrt(len(counts)))).max()


@each_way
@pytest.mark.parametrize("restricted", [False, True])
def test_all_ways_have_the_expected_visits(way, restricted, rng):
    """1000 runs of each of two policies, 25 episodes each: means of all 48 cells.

    Within the normal bound, Bonferroni-corrected. The power check: free actions of chances as 3 to
    2 to 1, or all of them where only some are free, are caught.
    """
    mdp = random_mdp(rng, n_states=S, n_actions=A, horizon=H)
    policy, free, policies, frees = half_open(rng, RUNS)
    if not restricted:
        free, frees = np.ones_like(free), None
    counts = way(mdp, policies, EPISODES, rng, free=frees)
    assert counts.shape == (RUNS, S, A, S)
    assert (counts.sum(axis=(1, 2, 3)) == EPISODES * H).all()
    bound = norm.isf(FALSE_ALARM / 2 / (S * A * S))
    for run in range(2):
        mine = counts[run::2]
        assert worst(mine, expected(mdp, policy[run], free[run])) < bound
        all_free, uneven = np.ones((S, A)), free[run] * [3, 2, 1]
        for wrong in [uneven, all_free][: 1 + restricted]:
            off = np.abs(mine.mean(axis=0) - EPISODES * expected(mdp, policy[run], wrong))
            assert (off > bound * mine.std(axis=0) / np.sqrt(RUNS / 2)).any()


@pytest.mark.parametrize("name", ["walkers", "flows", "quicker"])
def test_each_episode_draws_anew(name, rng):
    """Of 40 episodes of one step the first action's number is binomial, over 4000 runs.

    Its variance is 10 within a tenth (4.5 standard errors); one draw for all would have 400, and
    one by turns 0.
    """
    mdp = TabularMDP(np.ones((1, 2, 1)), np.zeros((1, 2)), [1.0], 1)
    policy = np.full((4000, 1, 1), -1)
    counts = WAYS[name](mdp, policy, 40, rng)[:, 0, 0, 0]
    assert abs(counts.mean() - 20) < 5 * np.sqrt(10 / 4000)
    assert abs(counts.var() / 10 - 1) < 0.1


def test_few_and_many_episodes_take_both_ways(monkeypatch, rng):
    """AutomaticSimulator hands what is free to either."""
    mdp = random_mdp(rng, n_states=S, n_actions=A, horizon=H)
    free = np.zeros((1, S, A), np.bool_)
    free[..., 1] = True
    taken = []
    for kind in (StepSimulator, CountSimulator):
        whole = kind.counts

        def noting(self, *args, whole=whole, **options):
            taken.append(type(self).__name__)
            return whole(self, *args, **options)

        monkeypatch.setattr(kind, "counts", noting)
    for episodes in (1, 100_000):
        counts = mdp.rollout_counts(np.full((1, H, S), -1), episodes, rng, free=free)
        assert not counts[:, :, [0, 2]].any()
    assert taken == ["StepSimulator", "CountSimulator"]


@pytest.mark.parametrize("name", ["walkers", "flows", "quicker", "method"])
@pytest.mark.parametrize("episodes", [3, 3000])
def test_a_support_moves_counts_and_changes_none(name, episodes, rng):
    mdp = random_mdp(rng, n_states=S, n_actions=A, horizon=H)
    mask = np.ones((S, A, S + 1), np.bool_)
    mask[0, :, S] = False
    support = Support.from_mask(mask)
    _, _, policies, frees = half_open(rng, 6)
    dense, compact = (
        WAYS[name](mdp, policies, episodes, np.random.default_rng(5), free=frees, support=each)
        for each in (None, support)
    )
    np.testing.assert_array_equal(support.expand(compact)[..., :S], dense)


def test_any_shape_of_runs(rng):
    mdp = random_mdp(rng, n_states=S, n_actions=A, horizon=H)
    _, _, policies, frees = half_open(rng, 6)
    shaped = policies.reshape(3, 2, H, S), frees.reshape(3, 2, S, A)
    counts = [
        mdp.rollout_counts(policy, 7, np.random.default_rng(1), free=free)
        for policy, free in ((policies, frees), shaped)
    ]
    assert counts[1].shape == (3, 2, S, A, S)
    np.testing.assert_array_equal(counts[1].reshape(counts[0].shape), counts[0])
    alone = mdp.rollout_counts(policies[0], 7, rng, free=frees[0])
    assert alone.shape == (S, A, S)


def test_one_of_the_free_is_returned(rng):
    """Uniformly: chi-square of 3 free ones, 30,000 draws, by hand: below 27.6 of 2 degrees."""
    free = np.zeros((2, 1, 5), np.bool_)
    free[0, 0, [0, 2, 3]], free[1, 0, 4] = True, True
    run = np.arange(60_000) % 2
    chosen = any_action(5, run, np.zeros(60_000, np.intp), free, rng)
    assert (chosen[1::2] == 4).all()
    numbers = np.bincount(chosen[::2], minlength=5)
    assert numbers[[1, 4]].sum() == 0
    assert ((numbers[[0, 2, 3]] - 10_000) ** 2 / 10_000).sum() < 27.6
    assert set(any_action(5, run, np.zeros(60_000, np.intp), None, rng)) == set(range(5))


@pytest.mark.parametrize("wrong", [-2, A, 99])
def test_actions_that_do_not_exist_are_refused(wrong, rng):
    mdp = random_mdp(rng, n_states=S, n_actions=A, horizon=H)
    policy = np.full((H, S), -1)
    policy[1, 2] = wrong
    with pytest.raises(ValueError, match="policy must hold actions in 0"):
        mdp.rollout_counts(policy, 5, rng)


def test_an_open_policy_has_no_value_of_one_policy(rng):
    """-1 is for rollouts; as an index it would be the last action."""
    mdp = random_mdp(rng, n_states=S, n_actions=A, horizon=H)
    for refusing in (
        mdp.policy_value,
        lambda policy: planning.evaluate(mdp.transition, mdp.expected_reward, policy),
    ):
        with pytest.raises(ValueError, match="policy must hold actions in 0"):
            refusing(np.full((H, S), -1))


def test_free_actions_must_fit(rng):
    mdp = random_mdp(rng, n_states=S, n_actions=A, horizon=H)
    fine, policy = np.ones((2, S, A), np.bool_), np.full((2, H, S), -1)
    nothing = fine.copy()
    nothing[1, 3] = False
    for wrong in (fine[0], fine.astype(float), nothing, fine[..., :2], np.ones((3, S, A), bool)):
        with pytest.raises(ValueError, match="free must be booleans of shape"):
            mdp.rollout_counts(policy, 5, rng, free=wrong)
    mdp.rollout_counts(policy, 5, rng, free=fine)


# States in which an episode is over ------------------------------------------------------------


def with_ends(reward):
    """Five states: 0 and 1 lead on, 2 absorbs and pays, 3 and 4 absorb; 4 by one action only."""
    transition = np.zeros((5, 2, 5))
    transition[0, :, [1, 3]], transition[1, :, [0, 2]] = 0.5, 0.5
    for state in (2, 3, 4):
        transition[state, :, state] = 1
    transition[4, 1] = np.eye(5)[0]
    return TabularMDP(transition, reward, np.eye(5)[0], 6)


def test_ends_are_absorbing_and_pay_nothing():
    reward = np.zeros((5, 2))
    reward[0], reward[1], reward[2, 1] = -3.0, -1.0, -2.0
    mdp = with_ends(reward)
    np.testing.assert_array_equal(mdp.ends, [False, False, False, True, False])
    # The 0 of the end is not counted; that of state 2 can be paid before it.
    assert mdp.reward_range == (-3.0, 0.0)
    reward[2], reward[4] = -2.0, -2.0
    assert with_ends(reward).reward_range == (-3.0, -1.0)


def test_ends_where_rewards_are_paid_on_arrival():
    reward = np.zeros((5, 2, 5))
    reward[0, :, 3], reward[3, :, 0] = 7.0, 99.0  # the latter cannot happen
    mdp = with_ends(reward)
    np.testing.assert_array_equal(mdp.ends, [False, False, True, True, False])
    assert mdp.reward_range == (0.0, 7.0)
    reward[3, :, 3] = 0.25
    assert not with_ends(reward).ends[3]


def test_what_never_begins_pays_nothing():
    mdp = TabularMDP(np.ones((1, 2, 1)), np.zeros((1, 2)), [1.0], 3)
    assert mdp.ends.all()
    assert mdp.reward_range == (0.0, 0.0)
