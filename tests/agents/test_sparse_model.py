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
    table = entered(model, number[..., None], reward)
    rows = HatPosterior(released(table, deviation, 2), model.grid)
    return SparseModel(released(counts, deviation, 1), rows, horizon, support)


def in_turns(model: SparseModel, put_off: np.ndarray) -> SparseModel:
    """The model, with given turns, shape (H, R * S), in which what is unknown is put off."""
    model._turns = lambda rng: put_off
    return model


def doubted(
    model: SparseModel, counts: np.ndarray, chance: np.ndarray, paid: np.ndarray
) -> SparseModel:
    """The model, with given chances that cells are filled, of transitions and of rewards.

    All arrays have a leading axis, of runs; of transitions those count that have counts.
    """
    by_action = (2, 0, 1, 3)
    model._chance = chance.transpose(by_action)[counts.transpose(by_action) > 0]
    model._chance_paid = paid.transpose(by_action)
    return model


def random_counts(seed: int, *, over: bool, runs: int = 1, support: Support | None = None):
    """Counts of 10,000 transitions from each row, shape (runs, S, A, S + over)."""
    numbers = rng(seed)
    chance = numbers.dirichlet(np.full(S + over, 0.5), (runs, S, A))
    if support is not None:
        chance *= support.expand(np.ones(support.next_states.shape) * support.valid)
        chance /= chance.sum(axis=-1, keepdims=True)
    return numbers.multinomial(10_000, chance).astype(np.float64)


def follow(rows, reward, unknown, policy, worth):
    """Value of each state under a policy, by hand.

    Unknown rows are worth what ``worth`` says, of the values of the step after and its number.
    """
    value = np.zeros(len(reward))
    states = np.arange(len(reward))
    for ahead, actions in enumerate(policy[::-1]):
        known = reward + rows[..., : len(reward)] @ value
        action_values = np.where(unknown, worth(value, ahead), known)
        free = np.where(unknown.any(axis=1), action_values[states, unknown.argmax(axis=1)], 0.0)
        value = np.where(actions < 0, free, action_values[states, actions])
    return value


def best(rows, reward, unknown, worth):
    """Best value of each state, likewise."""
    value = np.zeros(len(reward))
    for ahead in range(H):
        known = reward + rows[..., : len(reward)] @ value
        value = np.where(unknown, worth(value, ahead), known).max(axis=1)
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


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_actions_of_some_steps_at_a_time_are_those_of_all(steps: int, monkeypatch) -> None:
    model = believed(random_counts(1, over=False), rng(2).random((S, A)))
    wanted = model.mean_plan()
    monkeypatch.setattr("privrl.agents.sparse_model._COMPARED", steps * A * S)
    np.testing.assert_array_equal(model.mean_plan(), wanted)
    assert (wanted[0, 0] != wanted[0, -1]).any()


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
    """A third of the rows have no transition, or no reward.

    Without a transition a row pays its reward, and then the least for the rest of an episode;
    without a reward it pays the least, and goes on. The plan is worth the best that there is by
    that rule, and not by the other one's.
    """
    counts = random_counts(6, over=False) * 1.0
    unknown = rng(7).random((S, A)) < 1 / 3
    unknown[2], unknown[3] = True, [True, True, False]
    reward = rng(8).uniform(low, high, (S, A))
    paid = np.where(unknown, 0.0, counts.sum(axis=-1))
    rows = counts[0] / counts[0].sum(axis=-1, keepdims=True)
    if which == "transitions":
        counts, paid = np.where(unknown[..., None], 0.0, counts), counts.sum(axis=-1)
    policy = believed(counts, reward, low=low, high=high, paid=paid).mean_plan()[0]

    def worth(value, ahead):
        return reward + low * ahead

    rules = {
        "transitions": (rows, reward, unknown),
        "rewards": (rows, np.where(unknown, low, reward), np.zeros_like(unknown)),
    }
    for name, tables in rules.items():
        missed = best(*tables, worth) - follow(*tables, policy, worth)
        assert (missed.max() < 1e-3 * (high - low)) == (name == which)
    taken = unknown[np.arange(S), policy[0]]
    assert taken[2]


def crossroads(cells: list[tuple[int, float, float]], horizon: int = 2) -> SparseModel:
    """From state 0 action 0 leads to one that pays 0.5, for sure, and action 1 as given.

    By cells, ``(next state, count, chance)``: state 1 pays 0, and states 3 and on pay 1.
    """
    counts, chance = np.zeros((1, 6, 2, 6)), np.ones((1, 6, 2, 6))
    counts[0, :, 0, 2] = counts[0, 1:, 1, 2] = 100
    for following, count, likely in cells:
        counts[0, 0, 1, following], chance[0, 0, 1, following] = count, likely
    reward = np.repeat([[0.0], [0.0], [0.5], [1.0], [1.0], [1.0]], 2, axis=1)
    model = believed(counts, reward, horizon=horizon, paid=np.full((1, 6, 2), MANY))
    return doubted(model, counts, chance, np.moveaxis(model._chance_paid, 0, 2))


@pytest.mark.parametrize("chance", [0.6, 0.8, 0.95, 0.98])
def test_a_cell_that_does_good_has_to_be_sure(chance: float) -> None:
    """One that may be false, and would make a row good, is not counted, however large it is."""
    for likely, taken in ((chance, 0), (0.995, 1), (1.0, 1)):
        assert crossroads([(1, 100, 1.0), (3, 1e6, likely)]).mean_plan()[0, 0, 0] == taken


@pytest.mark.parametrize("chance", [0.6, 0.8, 0.95, 0.98, 1.0])
def test_a_cell_that_does_harm_need_not_be_sure(chance: float) -> None:
    """One that would make a row bad is counted, if it is likelier than not."""
    for likely, taken in ((chance, 0), (0.4, 1)):
        assert crossroads([(1, 1e6, likely), (3, 100, 1.0)]).mean_plan()[0, 0, 0] == taken


@pytest.mark.parametrize(
    ("chances", "known"),
    [([0.7] * 3, True), ([0.7, 0.7], True), ([0.6, 0.6], False), ([0.89], False), ([0.95], True),
     ([0.4] * 3, False), ([], False)],
)  # fmt: skip
def test_a_row_of_which_no_cell_is_sure_may_be_known(chances: list[float], known: bool) -> None:
    """If all of its likely cells together are empty in less than one case of ten.

    They all lead to where 1 is paid; where none is likely, the row is worth nothing.
    """
    cells = [(3 + i, 100.0, likely) for i, likely in enumerate(chances)]
    assert crossroads(cells).mean_plan()[0, 0, 0] == known


@pytest.mark.parametrize(
    ("chances", "mean"),
    [((0.995, 0.6), 0.2), ((0.995, 0.85), 0.2), ((0.995, 0.92), 0.725), ((0.995, 0.4), 0.2),
     ((0.6, 0.995), 0.725), ((0.4, 0.995), 0.9), ((0.4, 0.7), 0.0), ((0.4, 0.4), 0.0)],
)  # fmt: skip
def test_rewards_that_do_good_have_to_be_known(chances: tuple[float, float], mean: float) -> None:
    """A row paid 0.2, and 0.9 thrice as often, each perhaps: the worse of counting it or not.

    Nine in ten are enough. The row is held against others that pay a little more, or less.
    """
    counts = np.full((1, 1, 2, 1), 100.0)
    for other in (max(mean - 0.05, 0.0), mean + 0.05):
        paid = np.zeros((1, 1, 2, 11))
        paid[0, 0, 1, [2, 9]] = 25, 75
        paid += hats(0.0, 1.0).encode_counts(
            np.array([[[100.0], [0.0]]]), np.full((1, 2, 1), other), np.arange(1), rng()
        )
        chance = np.ones((1, 1, 2, 11))
        chance[0, 0, 1, [2, 9]] = chances
        rewards = HatPosterior(released(paid), hats(0.0, 1.0).grid)
        model = doubted(SparseModel(released(counts), rewards, 1), counts, counts > 0, chance)
        assert model.mean_plan()[0, 0, 0] == (other < mean)


@pytest.mark.parametrize("over", [False, True])
@pytest.mark.parametrize("low", [0.0, -3.0])
def test_the_mean_plan_is_pessimistic_at_each_step(over: bool, low: float) -> None:
    """Of random tables and chances: it is worth the best by the rule, written out cell by cell."""
    for seed in range(5):
        numbers = rng(40 + seed)
        counts = 1.0 + random_counts(50 + seed, over=over)
        paid = numbers.integers(1, 100, (1, S, A, 11)) * (numbers.random((1, S, A, 11)) < 0.3)
        some = [0.3, 0.45, 0.55, 0.7, 0.85, 0.95, 0.98, 0.995, 1.0]
        chance = numbers.choice(some, counts.shape) * (numbers.random(counts.shape) < 0.4)
        chance_paid = numbers.choice(some, paid.shape)
        rewards = HatPosterior(released(paid * 1.0), hats(low, low + 3).grid)
        model = SparseModel(released(counts), rewards, H)
        policy = doubted(model, counts, chance, chance_paid).mean_plan()[0]
        value, found = np.zeros(S + 1), np.zeros(S + 1)
        for ahead in range(H):
            worths = [
                [
                    [
                        worst(counts[0, s, a], chance[0, s, a], later, low * ahead)
                        + worst_paid(paid[0, s, a], chance_paid[0, s, a], rewards.grid)
                        for a in range(A)
                    ]
                    for s in range(S)
                ]
                for later in (value, found)
            ]
            value[:S] = np.max(worths[0], axis=1)
            found[:S] = np.array(worths[1])[np.arange(S), policy[H - 1 - ahead]]
        np.testing.assert_allclose(found, value, atol=1e-9)


def is_unknown(chance: np.ndarray) -> bool:
    return float(np.prod([1 - each for each in chance if each > 0.5])) > 0.1


def worst(count: np.ndarray, chance: np.ndarray, later: np.ndarray, least: float) -> float:
    """What a row leads to, at worst: by the cells that are likely, or by the sure ones of them."""
    if is_unknown(chance):
        return least
    later = later[: len(count)]
    likely = chance > 0.5
    sure = chance > 0.99 if (chance > 0.99).any() else likely
    return min(float(count[which] @ later[which] / count[which].sum()) for which in (likely, sure))


def worst_paid(paid: np.ndarray, chance: np.ndarray, grid: np.ndarray) -> float:
    """What it pays, at worst."""
    means = []
    for which in (chance > 0.5, chance > 0.9):
        number = paid[which].sum()
        means.append(paid[which] @ grid[which] / number if number else grid[0])
    return float(min(means))


def test_runs_do_not_mix() -> None:
    """Each run of several, with noise, is planned for as if it were alone."""
    counts = random_counts(9, over=True, runs=4)
    counts[0, 1], counts[1, :3], counts[2, :, 1] = 0, 0, 0
    counts[3] = 0
    transition = released(counts, 40.0)
    model = hats(0.0, 1.0)
    # All actions of a state pay the same: where they lead decides.
    table = entered(model, counts, np.tile(rng(10).random((S, 1)), A))
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


@pytest.mark.parametrize("part", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-3.0, 0.0)])
def test_who_explores_goes_where_nothing_is_known(low: float, high: float, part: float) -> None:
    """Rows that are unknown pay the most and lead to the best state, or end where all are bad.

    Where they are put off, a part of the time, they are worth the least. What is planned is worth
    the best by that rule; where an unknown row is best it is left to chance, and free are exactly
    these rows. In one state nothing else is known.
    """
    counts = random_counts(11, over=False) * MANY
    unknown = rng(12).random((S, A)) < 0.2
    unknown[2] = True
    counts[0, unknown] = 0
    reward = rng(13).uniform(low, high, (S, A))
    put_off = rng(16).random((H, S)) < part
    model = in_turns(believed(counts, reward, low=low, high=high), put_off)
    policies, free = model.plan(np.array([True]), TINY, rng())
    np.testing.assert_array_equal(free[0], unknown)
    rows = counts[0] / np.maximum(counts[0].sum(axis=-1, keepdims=True), 1)

    def worth(value, ahead):
        late = put_off[H - 1 - ahead, :, None]
        return np.where(late, low * (ahead + 1), high + max(value.max(), 0.0))

    wanted = best(rows, reward, unknown, worth)
    found = follow(rows, reward, unknown, policies[0], worth)
    np.testing.assert_allclose(found, wanted, atol=1e-3 * (high - low))
    open_to_all = policies[0] < 0
    assert open_to_all[:, 2].all()
    assert not (open_to_all & ~unknown.any(axis=1)).any()
    assert not (open_to_all & put_off & ~unknown.all(axis=1)).any()
    assert (open_to_all & ~put_off & ~unknown.all(axis=1)).any() == (part < 1)
    taken = unknown[np.arange(S), np.maximum(policies[0], 0)]
    assert not (taken & ~open_to_all).any()


@pytest.mark.slow
def test_turns_are_of_as_many_steps_as_there_are_actions() -> None:
    """Half of them put off what is unknown, each by a coin of its own; the first may be cut.

    All changes are at steps that are so many apart, from a first that is drawn. Of 20,000 places
    within SURE standard errors of a half, and so are the changes, and either after each other.
    """
    runs, horizon = RUNS // S, 11
    model = believed(np.zeros((runs, S, A, S)), np.zeros((S, A)), horizon=horizon)
    numbers, firsts = rng(17), set()
    for _ in range(20):
        turns = model._turns(numbers)
        assert turns.shape == (horizon, runs * S)
        changes = turns[1:] != turns[:-1]
        (steps,) = np.nonzero(changes.any(axis=1))
        assert len(steps) in (3, 4)
        assert (np.diff(steps) == A).all()
        firsts.add(int(steps[0]))
        error = SURE * 0.5 / np.sqrt(runs * S)
        assert (np.abs(turns.mean(axis=1) - 0.5) < error).all()
        assert (np.abs(changes[steps].mean(axis=1) - 0.5) < error).all()
        assert abs((changes[steps[0]] == changes[steps[1]]).mean() - 0.5) < error
    assert firsts == set(range(A))


def test_who_explores_does_not_stay_where_an_unknown_action_leads_nowhere() -> None:
    """In state 0 an action was never tried, and leaves it as it is; another leads on.

    Who tries it over and over would do so for the whole episode. Here an episode has ten turns of
    two steps each, and more in which the first is cut: of 2000 runs 2, on average, never leave.
    """
    runs, horizon = 2000, 20
    counts = np.zeros((runs, 2, 2, 2))
    counts[:, 0, 0, 1] = counts[:, 1, :, 1] = MANY
    model = believed(counts, np.full((2, 2), 0.5), horizon=horizon)
    policy, free = model.plan(np.ones(runs, np.bool_), TINY, rng())
    np.testing.assert_array_equal(free, np.tile([[False, True], [False, False]], (runs, 1, 1)))
    here = policy[:, :, 0]
    assert set(np.unique(here)) == {-1, 0}
    assert 0.48 < (here == 0).mean() < 0.52
    assert ((here == -1).all(axis=1)).mean() < 0.01
    one_turn = (np.diff(here, axis=1) != 0).sum(axis=1)
    assert one_turn.max() <= horizon // 2


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
    put_off = rng(18).random((H, 3 * S)) < 0.5
    model = in_turns(believed(counts, np.full((S, A), 0.9)), put_off)
    explore = np.array([True, False, True])
    policy, free = model.plan(explore, TINY, rng())
    np.testing.assert_array_equal(free.any(axis=(1, 2)), explore)
    late = put_off.reshape(H, 3, S).swapaxes(0, 1)
    np.testing.assert_array_equal(policy == -1, ~late & explore[:, None, None])


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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("middle", [0.5, 0.55])
def test_mean_rewards_are_sampled(middle: float) -> None:
    """Means of 20 equal rewards may be wrong by a 210th, wherever they are between two points."""
    counts = np.full((RUNS, 1, 2, 1), 20.0)
    reward = np.array([[middle, middle + 0.005]])
    error = 0.1 / 21
    wanted = norm.cdf(0.005 / (np.sqrt(2) * error))
    assert near(share(believed(counts, reward, horizon=1)), wanted)
    assert not near(wanted, norm.cdf(0.005 / np.hypot(error, 0.05 / np.sqrt(20))))


@pytest.mark.slow
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


@pytest.mark.slow
def test_who_follows_takes_what_is_unknown_for_something_known() -> None:
    """Of two rows one is known, and pays 0.2: the other pays 1 with chance 1/2, or as much.

    Then a coin decides.
    """
    counts = np.zeros((RUNS, 1, 2, 1))
    counts[:, 0, 0] = MANY
    assert near(share(believed(counts, np.array([[0.2, 0.0]]), horizon=1)), 0.75)


def forks(runs: int, deviation: float, tried: float = 0.0) -> SparseModel:
    """From state 0 action 0 leads to one that pays 0.5, and action 1, tried so often, as well.

    But it pays 0.01 less now. Of ten states one more pays 1, for ever, the others nothing.
    """
    counts = np.full((runs, 10, 2, 10), -6.0 * deviation)
    states = np.arange(1, 10)
    counts[:, states, :, states] = MANY
    counts[:, 0, 0, 1], counts[:, 0, 1, 1] = MANY, tried
    reward = np.zeros((10, 2))
    reward[0, 0], reward[1], reward[2] = 0.01, 0.5, 1.0
    grid = hats(0.0, 1.0)
    table = entered(grid, np.full((10, 2, 1), MANY), reward)
    paid = HatPosterior(released(np.tile(table, (runs, 1, 1, 1))), grid.grid)
    noise = np.full((1, 1, 1, 1), deviation)
    return SparseModel(NoisyPosterior(counts, noise, np.ones_like(noise)), paid, 2)


@pytest.mark.slow
def test_who_follows_hopes_in_one_of_thirty() -> None:
    """Where a row leads is unknown: to the best state in 3 of 100 cases, or to any of the ten.

    Against a row that leads to the one that pays half as much.
    """
    assert near(share(forks(RUNS, 0.0)), 0.03 + 0.97 / 10)


@pytest.mark.slow
@pytest.mark.parametrize("deviation", [0.0, 1e-3])
def test_without_noise_what_was_tried_is_not_hoped_for(deviation: float) -> None:
    """Action 1 was tried once, and so doubted that nearly all of it is unknown.

    Without noise who explores takes that for one of the ten states, as who follows does; noise may
    hide that it leads to the best of all. What was never tried leads there either way.
    """
    runs = RUNS if deviation == 0 else 100
    explore = np.ones(runs, np.bool_)
    policy, free = forks(runs, deviation, tried=1.0).plan(explore, 1e4, rng(19))
    assert not free.any()
    found = (policy[:, 0, 0] == 1).mean()
    assert near(found, 0.03 + 0.97 / 10) if deviation == 0 else found == 1
    policy, _ = forks(100, deviation, tried=-6 * deviation).plan(explore[:100], TINY, rng(20))
    assert (policy[:, 0, 0] == 1).all()


@pytest.mark.parametrize(("pays", "found"), [(-1.0, False), (0.4, False), (1.0, True), (3.0, True)])
def test_a_reward_in_the_upper_half_of_the_range_is_found(pays: float, found: bool) -> None:
    """The range is -1 to 3; a reward is between two points."""
    counts = np.full((1, 1, 1, 1), 1000.0)
    assert believed(counts, np.array([[pays]]), low=-1, high=3).found.tolist() == [found]
    small = believed(counts, np.array([[pays]]), low=-1, high=3, paid=np.zeros((1, 1, 1)))
    assert small.found.tolist() == [False]


@pytest.mark.parametrize("exact", [True, False])
def test_who_searches_acts_at_random_once_all_is_known(exact: bool) -> None:
    """While an action of a visited state is unknown, only half of those without noise do.

    The others take that action at each step: in a search none is postponed.
    """
    explore = np.arange(50) < 40

    def at_random(search: bool, last: float = MANY) -> np.ndarray:
        counts = np.zeros((50, 2, 2, 2))
        counts[:, 0, :, 0], counts[:, 1, 0, 1], counts[:, 1, 1, 1] = MANY, MANY, last
        model = believed(counts, np.zeros((2, 2)))
        model._exact = exact
        policy, free = model.plan(explore, TINY, rng(7), search)
        everywhere = (policy == -1).all(axis=(1, 2))
        assert (free.all(axis=(1, 2)) == everywhere).all()
        assert not search or (policy[explore, :, 1] == -1).all()
        return everywhere

    assert (at_random(search=True) == explore).all()
    assert not at_random(search=False).any()
    anyway = at_random(search=True, last=0.0)
    assert not anyway[~explore].any()
    assert 0.2 < anyway[explore].mean() < 0.8 if exact else not anyway.any()


@pytest.mark.parametrize("deviation", [0.0, 1e-3])
def test_without_noise_the_best_state_is_one_that_was_seen(deviation: float) -> None:
    """Of three states one was never seen: all of its actions may pay the most, for ever.

    Where action 1 leads from state 0 is unknown, that it pays nothing is not; action 0 leads to
    the best state that was seen, and pays 0.2. What noise may hide could be better than that.
    """
    counts = np.full((1, 3, 2, 3), -6.0 * deviation)
    counts[0, 0, 0, 1] = counts[0, 1, :, 1] = MANY
    paid = np.full((3, 2, 11), -6.0 * deviation)
    paid[0, 0, 2] = paid[0, 1, 0] = MANY
    paid[1, :, 5] = MANY
    noise = np.full((1, 1, 1, 1), deviation)
    ones = np.ones_like(noise)
    rewards = HatPosterior(NoisyPosterior(paid[None], noise, ones), hats(0.0, 1.0).grid)
    model = SparseModel(NoisyPosterior(counts, noise, ones), rewards, H)
    never = in_turns(model, np.zeros((H, 3), np.bool_))
    policy, free = never.plan(np.array([True]), TINY, rng())
    np.testing.assert_array_equal(free[0], np.repeat([[False], [False], [True]], 2, axis=1))
    assert (policy[0, :, 2] == -1).all()
    assert (policy[0, 0, 0] == 1) == (deviation > 0)
