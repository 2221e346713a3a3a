"""What a release says of an environment: plans held against recursions written out by hand."""

import numpy as np
import pytest
from scipy.stats import norm

from privrl.agents import HatRewards
from privrl.agents.rewards import HatPosterior
from privrl.agents.sparse_model import SparseModel
from privrl.envs import Support, planning, riverswim
from privrl.samplers.noisy_counts import NoisyPosterior, NonPrivate

S, A, H = 6, 3, 5
MANY = 1e9  # observations, so that samples are what is sampled from
TINY = 1e-9  # doubt, likewise
RUNS = 20_000  # of a law
SURE = norm.isf(0.5e-6)  # standard errors; the chance of a false alarm is 1e-6


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def released(table: np.ndarray, deviation: float = 0.0, seed: int = 0) -> NoisyPosterior:
    noise = deviation * rng(seed).standard_normal(table.shape)
    ones = np.ones((1,) * table.ndim)
    return NoisyPosterior(table + noise, deviation * ones, ones)


def hats(low: float, high: float, points: int = 11) -> HatRewards:
    return HatRewards(NonPrivate(), low=low, high=high, points=points)


def entered(model: HatRewards, counts: np.ndarray, reward: np.ndarray) -> np.ndarray:
    """What so many transitions add to the table, each of which paid ``reward``, shape (S, A)."""
    return model.encode_counts(counts, reward[..., None], np.arange(counts.shape[-1]), rng())


def believed(
    counts: np.ndarray,
    reward: np.ndarray,
    *,
    low: float = 0.0,
    high: float = 1.0,
    horizon: int = H,
    paid: np.ndarray | None = None,
    support: Support | None = None,
    deviation: float = 0.0,
) -> SparseModel:
    """A model of counts (R, S, A, K), each of which paid ``reward``, shape (S, A).

    ``paid`` counts of rewards, shape (R, S, A), where these are others.
    """
    model = hats(low, high)
    number = counts.sum(axis=-1) if paid is None else paid
    table = np.stack([entered(model, each[..., None], reward) for each in number])
    rows = HatPosterior(released(table, deviation, 2), model.grid)
    return SparseModel(released(counts, deviation, 1), rows, horizon, support)


def in_turns(model: SparseModel, put_off: np.ndarray) -> SparseModel:
    """The model, with given turns, shape (H, R * S), in which what is unknown is put off."""
    model._turns = lambda rng: put_off
    return model


def random_counts(seed: int, *, over: bool, runs: int = 1, support: Support | None = None):
    """Counts of 10,000 transitions from each row, shape (runs, S, A, S + over)."""
    numbers = rng(seed)
    chance = numbers.dirichlet(np.full(S + over, 0.5), (runs, S, A))
    if support is not None:
        chance *= support.expand(np.ones(support.next_states.shape) * support.valid)
        chance /= chance.sum(axis=-1, keepdims=True)
    return numbers.multinomial(10_000, chance).astype(np.float64)


def follow(rows, reward, unknown, policy, *, beyond, luck):
    """Value of each state under a policy, by hand.

    Unknown rows pay ``luck`` and then what ``beyond`` says of the values, of the steps ahead.
    """
    value = np.zeros(len(reward))
    states = np.arange(len(reward))
    for ahead, actions in enumerate(policy[::-1]):
        known = reward + rows[..., : len(reward)] @ value
        action_values = np.where(unknown, luck + beyond(value, ahead), known)
        free = np.where(unknown.any(axis=1), action_values[states, unknown.argmax(axis=1)], 0.0)
        value = np.where(actions < 0, free, action_values[states, actions])
    return value


def best(rows, reward, unknown, *, beyond, luck):
    """Best value of each state, likewise."""
    value = np.zeros(len(reward))
    for ahead in range(H):
        known = reward + rows[..., : len(reward)] @ value
        value = np.where(unknown, luck + beyond(value, ahead), known).max(axis=1)
    return value


# What is deployed ------------------------------------------------------------------------------


@pytest.mark.parametrize("over", [False, True])
@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-3.0, 0.0), (-1.0, 2.0)])
def test_the_mean_plan_is_the_best_where_all_is_known(over: bool, low, high) -> None:
    """As backward induction has it for the empirical model; "over" is worth nothing."""
    counts = random_counts(1, over=over)
    reward = rng(2).uniform(low, high, (S, A))
    policy = believed(counts, reward, low=low, high=high).mean_plan()[0]
    rows = counts[0] / counts[0].sum(axis=-1, keepdims=True)
    _, wanted = planning.plan(rows[..., :S], reward, H)
    np.testing.assert_allclose(
        planning.evaluate(rows[..., :S], reward, policy), wanted, atol=1e-3 * (high - low)
    )
    wrong = planning.evaluate(rows[..., :S], reward, (policy + 1) % A)
    assert (wrong < wanted - 0.05 * (high - low)).any()


@pytest.mark.parametrize("over", [False, True])
def test_a_support_says_where_cells_lead_and_no_more(over: bool) -> None:
    """Compact tables make the plan that wide ones make; cells that are padding, nothing."""
    mask = rng(3).random((S, A, S + over)) < 0.5
    mask[..., 0] |= ~mask.any(axis=-1)
    support = Support.from_mask(mask)
    counts = random_counts(4, over=over, support=support)
    reward = rng(5).random((S, A))
    wide = believed(counts, reward).mean_plan()
    compact = np.where(
        support.valid, np.take_along_axis(counts[0], np.maximum(support.next_states, 0), -1), 0.0
    )
    narrow = believed(compact[None], reward, support=support)
    np.testing.assert_array_equal(narrow.mean_plan(), wide)
    explored, _ = narrow.plan(np.array([True]), TINY, rng())
    rows = counts[0] / counts[0].sum(axis=-1, keepdims=True)
    values = [planning.evaluate(rows[..., :S], reward, each[0]) for each in (explored, wide)]
    np.testing.assert_allclose(*values, rtol=0.03)


def test_padding_is_empty_for_sure() -> None:
    """Cells that are about no next state are told from those that are, whatever noise is there.

    They make other cells as likely to be filled as possible ones would that are far below 0.
    """
    support = Support.from_mask(np.arange(S) <= np.arange(A)[:, None] + np.zeros((S, 1, 1)))
    counts = 100.0 * (rng(30).random((1, S, A, support.width)) < 0.4) * support.valid
    counts += rng(31).normal(scale=10.0, size=counts.shape)
    empty = np.where(support.valid, counts, -1e4)
    wide = Support(np.tile(np.arange(support.width), (S, A, 1)), S)
    one = np.ones((1, 1, 1, 1))
    paid = HatPosterior(NoisyPosterior(np.full((1, S, A, 11), 5.0), one, one), hats(0, 1).grid)
    padded, possible = (
        SparseModel(NoisyPosterior(table, 10 * one, one), paid, H, where)._chance
        for table, where in ((counts, support), (empty, wide))
    )
    assert not support.valid.all()
    np.testing.assert_array_equal(padded, possible)


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-3.0, 0.0)])
@pytest.mark.parametrize("which", ["transitions", "rewards"])
def test_what_is_unknown_is_the_worst_for_who_deploys(low, high, which: str) -> None:
    """A third of the rows have no transition, or no reward: the least for the rest of an episode.

    The plan is worth the best that there is by that rule, and takes them only in states that have
    no other row, or where all that is known is as bad.
    """
    counts = random_counts(6, over=False) * 1.0
    unknown = rng(7).random((S, A)) < 1 / 3
    unknown[2], unknown[3] = True, [True, True, False]
    reward = rng(8).uniform(low, high, (S, A))
    paid = np.where(unknown, 0.0, counts.sum(axis=-1))
    if which == "transitions":
        counts, paid = np.where(unknown[..., None], 0.0, counts), counts.sum(axis=-1)
    policy = believed(counts, reward, low=low, high=high, paid=paid).mean_plan()[0]
    rows = counts[0] / np.maximum(counts[0].sum(axis=-1, keepdims=True), 1)
    rule = {"luck": low, "beyond": lambda value, ahead: low * ahead}
    wanted = best(rows, reward, unknown, **rule)
    found = follow(rows, reward, unknown, policy, **rule)
    np.testing.assert_allclose(found, wanted, atol=1e-3 * (high - low))
    known = np.arange(S) != 2
    assert not unknown[np.arange(S), policy[0]][known].any()


def test_runs_do_not_mix() -> None:
    """Each run of several, with noise, is planned for as if it were alone."""
    counts = random_counts(9, over=True, runs=4)
    counts[0, 1], counts[1, :3], counts[2, :, 1] = 0, 0, 0
    counts[3] = 0
    transition = released(counts, 40.0)
    model = hats(0.0, 1.0)
    table = entered(model, counts, rng(10).random((S, A)))
    paid = released(table, 40.0, 3)
    together = SparseModel(transition, HatPosterior(paid, model.grid), H).mean_plan()
    assert together.shape == (4, H, S)
    for run in range(4):
        parts = (
            NoisyPosterior(each.counts[run : run + 1], each.deviation, each.alpha)
            for each in (transition, paid)
        )
        rows, rewards = parts
        alone = SparseModel(rows, HatPosterior(rewards, model.grid), H)
        np.testing.assert_array_equal(alone.mean_plan()[0], together[run])
    assert len({each.tobytes() for each in together}) == 4


@pytest.mark.parametrize("deviation", [1.0, 20.0, 400.0])
def test_noise_is_not_taken_for_transitions(deviation: float) -> None:
    """RiverSwim of 20 states, known as well as the noise allows: 100 deviations a row.

    The plan is worth nine tenths of the optimum; noise that passed for transitions would lead to
    the other bank at once.
    """
    mdp = riverswim(20, 60)
    counts = np.rint(100 * deviation * mdp.transition)[None]
    model = believed(
        counts, mdp.expected_reward, low=0.0, high=1.0, horizon=60, deviation=deviation
    )
    value = mdp.policy_value(model.mean_plan()[0])
    assert value > 0.9 * mdp.optimal_value()


@pytest.mark.parametrize("exact", ["transitions", "rewards"])
def test_one_of_the_tables_may_be_without_noise(exact: str) -> None:
    """RiverSwim once more, of 20 states: noise in the other table hides no more than it did."""
    mdp = riverswim(20, 60)
    counts = np.rint(500 * mdp.transition)[None]
    model = hats(0.0, 1.0)
    paid = entered(model, counts, mdp.expected_reward)
    transition = released(counts, 5.0 * (exact != "transitions"))
    rewards = HatPosterior(released(paid, 5.0 * (exact != "rewards"), 2), model.grid)
    value = mdp.policy_value(SparseModel(transition, rewards, 60).mean_plan()[0])
    assert value > 0.9 * mdp.optimal_value()


# Exploring -------------------------------------------------------------------------------------


def test_who_explores_goes_where_nothing_is_known() -> None:
    """Rows that are unknown pay the most and lead to the best state, or end where all are bad.

    What is planned is worth the best by that rule; where an unknown row is best it is left to
    chance, and free are exactly these rows.
    """
    for low, high in ((0.0, 1.0), (-3.0, 0.0)):
        counts = random_counts(11, over=False) * MANY
        unknown = rng(12).random((S, A)) < 0.2
        counts[0, unknown] = 0
        reward = rng(13).uniform(low, high, (S, A))
        model = believed(counts, reward, low=low, high=high)
        policies, free = model.plan(np.array([True]), TINY, rng())
        np.testing.assert_array_equal(free[0], unknown)
        rows = counts[0] / np.maximum(counts[0].sum(axis=-1, keepdims=True), 1)
        rule = {"luck": high, "beyond": lambda value, _: max(value.max(), 0.0)}
        wanted = best(rows, reward, unknown, **rule)
        found = follow(rows, reward, unknown, policies[0], **rule)
        np.testing.assert_allclose(found, wanted, atol=1e-3 * (high - low))
        assert (policies[0] < 0).any()
        assert not ((policies[0] < 0) & ~unknown.any(axis=1)).any()
        taken = unknown[np.arange(S), np.maximum(policies[0], 0)]
        assert not (taken & (policies[0] >= 0)).any()


@pytest.mark.parametrize("low", [-1.0, 0.0, 1.0])
def test_what_is_put_off_is_the_last_resort(low: float) -> None:
    """Even against an action that is known to end the episode, where others pay ever on.

    In the other state nothing is known, and nothing else can be done.
    """
    counts = np.zeros((1, 2, 2, 3))
    counts[0, 0, 1, 2] = MANY
    model = believed(counts, np.full((2, 2), low), low=low, high=low + 1)
    put_off = np.tile([[False], [True], [True], [False], [True]], 2)
    policy, free = in_turns(model, put_off).plan(np.array([True]), TINY, rng())
    np.testing.assert_array_equal(free[0], [[True, False], [True, True]])
    np.testing.assert_array_equal(policy[0, :, 0], np.where(put_off[:, 0], 1, -1))
    assert (policy[0, :, 1] == -1).all()


def test_without_anything_known_all_is_free() -> None:
    model = believed(np.zeros((2, S, A, S)), np.zeros((S, A)))
    policy, free = model.plan(np.array([True, False]), 0.25, rng())
    assert (policy[0] == -1).all()
    assert free[0].all()
    assert not free[1].any()
    assert set(np.unique(policy[1])) == set(range(A))
    assert (model.mean_plan() >= 0).all()


def test_who_explores_is_not_the_one_who_follows() -> None:
    """In one plan for several runs, each by its own flag."""
    counts = np.repeat(random_counts(14, over=False) * MANY, 3, axis=0)
    counts[:, :, 1] = 0
    model = believed(counts, np.full((S, A), 0.9))
    explore = np.array([True, False, True])
    policy, free = model.plan(explore, TINY, rng())
    np.testing.assert_array_equal(free.any(axis=(1, 2)), explore)
    assert (policy[explore] == -1).all()
    assert (policy[~explore] >= 0).all()


def test_optimism_counts_on_what_is_known_alone() -> None:
    """A cell that may or may not be filled is unknown to who explores, and in some samples there.

    In 20 states action 0 is known, and action 1 was seen at two deviations, about.
    """
    counts, paid = np.zeros((1, 20, 2, 20)), np.zeros((1, 20, 2, 11))
    for table in (counts, paid):
        table[..., 0, 5], table[..., 1, 5] = 100.0, 1.9
    one = np.ones((1, 1, 1, 1))
    transition, rewards = (NoisyPosterior(table, one, one) for table in (counts, paid))
    model = SparseModel(transition, HatPosterior(rewards, hats(0.0, 1.0).grid), H)
    unsure = model._chance[model._count < 100]
    assert len(unsure) == 20
    assert ((unsure > 0.1) & (unsure < 0.9)).all()
    _, free = model.plan(np.array([True]), 0.25, rng())
    np.testing.assert_array_equal(free[0], np.tile([False, True], (20, 1)))
    _, free = model.plan(np.array([False]), 0.25, rng())
    assert not free.any()


def test_ties_are_broken_at_random() -> None:
    counts = np.zeros((1, 1, 2, 1))
    counts[:] = MANY
    model = believed(counts, np.full((1, 2), 0.5))
    numbers = rng()
    for explore in (True, False):
        drawn = [model.plan(np.array([explore]), TINY, numbers)[0] for _ in range(40)]
        first = np.ravel(drawn)
        assert 0.3 < first.mean() < 0.7


# Following -------------------------------------------------------------------------------------


def share(model: SparseModel, state: int = 0) -> float:
    """Part of the runs that take action 1 first, in a state."""
    runs = model._shape[1]
    policy, _ = model.plan(np.zeros(runs, np.bool_), TINY, rng(15))
    return float((policy[:, 0, state] == 1).mean())


def near(found: float, wanted: float) -> bool:
    return abs(found - wanted) < SURE * np.sqrt(wanted * (1 - wanted) / RUNS)


def test_transitions_are_sampled() -> None:
    """Action 0 led to a state worth 1 in 3 of 4 cases, action 1 in 2 of 4.

    Action 1 is better with the chance that Beta(2, 2) exceeds Beta(3, 1), 1/5.
    """
    counts = np.zeros((RUNS, 3, 2, 3))
    counts[:, 0, 0, 1:], counts[:, 0, 1, 1:] = [3, 1], [2, 2]
    counts[:, 1, :, 1], counts[:, 2, :, 2] = MANY, MANY
    reward = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    found = share(
        believed(counts, reward, horizon=2, paid=np.full((RUNS, 3, 2), MANY)),
    )
    assert near(found, 0.2)


@pytest.mark.parametrize("middle", [0.5, 0.55])
def test_mean_rewards_are_sampled(middle: float) -> None:
    """Means of 20 equal rewards may be wrong by a 210th, wherever they are between two points."""
    counts = np.full((RUNS, 1, 2, 1), 20.0)
    reward = np.array([[middle, middle + 0.005]])
    error = 0.1 / 21
    wanted = norm.cdf(0.005 / (np.sqrt(2) * error))
    assert near(share(believed(counts, reward, horizon=1)), wanted)
    assert not near(wanted, norm.cdf(0.005 / np.hypot(error, 0.05 / np.sqrt(20))))


def test_rewards_that_vary_are_known_less_well() -> None:
    """Ten times 0.1 and ten times 0.9, against 0.6 always."""
    model = hats(0.0, 1.0)
    paid = np.zeros((RUNS, 1, 2, 11))
    paid[:, 0, 0, [1, 9]], paid[:, 0, 1, 6] = 10, 20
    rewards = HatPosterior(released(paid), model.grid)
    belief = SparseModel(released(np.full((RUNS, 1, 2, 1), 20.0)), rewards, 1)
    small = 0.1 / 21
    wanted = norm.cdf(0.1 / np.sqrt(0.16 / 20 + 2 * small**2))
    assert near(share(belief), wanted)


def test_who_follows_takes_what_is_unknown_for_something_known() -> None:
    """Of two rows one is known, and pays 0.2: the other pays 1 with chance 1/2, or as much.

    Then a coin decides.
    """
    counts = np.zeros((RUNS, 1, 2, 1))
    counts[:, 0, 0] = MANY
    assert near(share(believed(counts, np.array([[0.2, 0.0]]), horizon=1)), 0.75)


def test_who_follows_hopes_in_one_of_twenty() -> None:
    """Where a row leads is unknown: to the best state once in 20 times, or to any of the three.

    Against a row that leads to the middle one: better in 1 of 3, and a coin for 1 of 3.
    """
    counts = np.zeros((RUNS, 3, 2, 3))
    counts[:, 0, 0, 1] = counts[:, 1, :, 1] = counts[:, 2, :, 2] = MANY
    reward = np.array([[0.0, 0.0], [0.5, 0.5], [1.0, 1.0]])
    model = believed(counts, reward, horizon=2, paid=np.full((RUNS, 3, 2), MANY))
    assert near(share(model), 0.05 + 0.95 * (1 / 3 + 1 / 6))
