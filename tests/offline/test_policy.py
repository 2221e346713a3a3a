"""Policies from logs: what they find, what they refuse, and what they cost."""

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from offline_logs import Person, log_of, random_person, schema_of, worth_choosing

from privrl.accounting.rdp import BudgetExceeded, RdpAccountant
from privrl.accounting.targets import ApproxDP
from privrl.costs.base import NoPrivacy
from privrl.costs.noise import LaplaceCost
from privrl.costs.relations import SUMS, AddRemovePerson, Relation, ReplacePerson, ReplaceRecord
from privrl.data.logs import Log
from privrl.data.logs.log import CUT
from privrl.offline import LoggedPolicy, fit_policy

Array = np.ndarray
ALL = np.ones((3, 2), np.bool_)
TRIAL: dict[str, Any] = {"most_steps": 1, "most_episodes": 1, "step_rewards": (0.0, 0.0)}
BEST = [0, 1, 0]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def trial(n_persons: int, **schema: Any) -> Log:
    return log_of(worth_choosing(n_persons), **{**TRIAL, **schema})


def first(found: LoggedPolicy) -> Array:
    """What to do at first."""
    return found.action if found.action.ndim == 1 else found.action[0]


def same(one: LoggedPolicy, other: LoggedPolicy) -> bool:
    arrays = ("action", "values", "allowed")
    return (
        all(
            np.array_equal(*(np.nan_to_num(getattr(each, name)) for each in (one, other)))
            for name in arrays
        )
        and (one.kind, one.facts, one.cost) == (other.kind, other.facts, other.cost)
        and one.signal == other.signal
    )


# What it finds -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [{}, {"admissible": ALL}, {"behaviour": "uniform"}, {"behaviour": np.full((3, 2), 0.5)},
     {"admissible": ALL, "behaviour": "uniform"}],
)  # fmt: skip
def test_without_privacy_it_is_what_did_best(given: dict[str, Any]) -> None:
    for discount, kind in ((0.999, "rounds"), (1.0, "counts")):
        found = fit_policy(trial(2000), epsilon=None, discount=discount, rng=rng(), **given)
        assert found.kind == kind
        np.testing.assert_array_equal(first(found), BEST)
        assert found.cost == NoPrivacy(AddRemovePerson())
        assert found.allowed.all()


@pytest.mark.parametrize(
    ("epsilon", "kind"), [(0.1, "vote"), (1.0, "rounds"), (50.0, "rounds"), (2.0, "counts")]
)
@pytest.mark.parametrize(("relation", "times"), [(AddRemovePerson(), 1), (ReplacePerson(), 2)])
def test_with_enough_persons_it_is_still_found(
    epsilon: float, kind: str, relation: Relation, times: int
) -> None:
    found = fit_policy(
        trial(3000), epsilon=times * epsilon, relation=relation, admissible=ALL,
        behaviour="uniform", discount=0.999 if kind != "counts" else 1.0, rng=rng(),
    )  # fmt: skip
    np.testing.assert_array_equal(first(found), BEST)
    assert found.kind == kind


def test_too_low_a_signal_gives_what_is_done() -> None:
    found = fit_policy(trial(30), epsilon=0.01, admissible=ALL, rng=rng())
    assert found.kind == "behaviour"
    np.testing.assert_array_equal(found.action, -1)


def ways(n_persons: int, seed: int = 1) -> list[Person]:
    """Choose in state 0: action 0 ends well at once with 0.55, 1 leads to state 1.

    There action 1 ends well, 0 ends ill; each wait in state 2, which both ways pass.
    """
    draw = np.random.default_rng(seed)
    persons: list[Person] = []
    for _ in range(n_persons):
        first, second = draw.integers(2, size=2).tolist()
        if first == 0:
            steps, end = [(0, 0, 0.0)], 0 if draw.random() < 0.55 else 1
        else:
            steps, end = [(0, 1, 0.0), (2, 0, 0.0), (1, second, 0.0)], 0 if second else 1
        persons.append([(steps, end)])
    return persons


def test_values_are_of_what_one_does_later() -> None:
    """Of those who took action 1 half did well; who takes 1 in state 1 too all do."""
    log = log_of(ways(3000), step_rewards=(0.0, 0.0), most_episodes=1)
    found = fit_policy(log, epsilon=None, rng=rng())
    np.testing.assert_array_equal(first(found)[:2], [1, 1])
    # Unless it comes too late.
    found = fit_policy(log, epsilon=None, discount=0.2, rng=rng())
    np.testing.assert_array_equal(first(found)[:2], [0, 1])


def test_unknown_actions_are_shown_by_the_log() -> None:
    """In state 0 nobody takes action 1, in which nothing speaks for it."""
    persons = [p for p in worth_choosing(2000) if p[0][0][0][:2] != (2, 1)]
    log = log_of(persons, **TRIAL)
    for epsilon in (None, 20.0):
        found = fit_policy(log, epsilon=epsilon, discount=0.999, rng=rng())
        np.testing.assert_array_equal(found.allowed, [[True, True], [True, True], [True, False]])
        np.testing.assert_array_equal(found.action, BEST)


@pytest.mark.slow
def test_only_admissible_actions_are_chosen() -> None:
    admissible = np.array([[False, True], [True, False], [True, True]])
    for epsilon, discount in product((None, 0.05, 0.3, 5.0), (1.0, 0.9)):
        found = fit_policy(
            trial(3000), epsilon=epsilon, admissible=admissible, discount=discount, rng=rng()
        )
        np.testing.assert_array_equal(found.allowed, admissible)
        for plan in np.atleast_2d(found.action):
            assert ((plan == -1) | admissible[range(3), plan]).all()
        if epsilon in (None, 5.0):
            np.testing.assert_array_equal(first(found)[:2], [1, 0])


def test_behaviour_that_is_known_leaves_out_what_is_never_done() -> None:
    chances = np.array([[0.0, 1.0], [0.5, 0.5], [0.5, 0.5]])
    found = fit_policy(trial(100), epsilon=None, behaviour=chances, rng=rng())
    np.testing.assert_array_equal(found.allowed, chances > 0)
    assert first(found)[0] == 1


def test_unequal_chances_do_not_favour_what_is_done_often() -> None:
    """Action 1 is done nine times as often; both are as good but in state 1."""
    draw = np.random.default_rng(4)
    persons: list[Person] = []
    for _ in range(4000):
        state, action = int(draw.integers(3)), int(draw.random() < 0.9)
        good = draw.random() < (0.9 if action == 0 else 0.6)
        persons.append([([(state, action, 0.0)], 0 if good else 1)])
    chances = np.tile([0.1, 0.9], (3, 1))
    for epsilon in (None, 5.0):
        found = fit_policy(log_of(persons, **TRIAL), epsilon=epsilon, behaviour=chances, rng=rng())
        np.testing.assert_array_equal(first(found), 0)


@pytest.mark.few(6)
@pytest.mark.parametrize("epsilon", [None, 30.0])
def test_rewards_of_steps_without_outcomes(epsilon: float | None) -> None:
    """Several episodes a person, all cut off."""
    draw = np.random.default_rng(5)

    def episode() -> tuple[list[tuple[int, int, float]], int]:
        steps = []
        for state in draw.integers(3, size=3).tolist():
            action = int(draw.integers(2))
            steps.append((state, action, 0.4 if action == state % 2 else -0.4))
        return steps, CUT

    persons = [[episode() for _ in range(2)] for _ in range(3000)]
    log = log_of(persons, outcomes=(), outcome_rewards=(), most_steps=3, most_episodes=2)
    found = fit_policy(log, epsilon=epsilon, discount=0.9, admissible=ALL, rng=rng())
    np.testing.assert_array_equal(found.action, BEST)
    assert found.facts.outcome_reward == 0


def test_a_log_in_which_nothing_is_earned_is_refused() -> None:
    log = log_of([], outcome_rewards=(0.0, 0.0), step_rewards=(0.0, 0.0))
    with pytest.raises(ValueError, match="log must have rewards, got none that is not 0"):
        fit_policy(log, epsilon=1.0, rng=rng())


@pytest.mark.few(4)
@pytest.mark.parametrize("n", [0, 1, 2])
@pytest.mark.parametrize("epsilon", [None, 1e-4, 1.0, 3e4])
@pytest.mark.parametrize("admissible", [None, ALL])
@pytest.mark.parametrize(
    "schema",
    [{}, {"outcomes": (), "outcome_rewards": ()}, {"step_rewards": (0.0, 0.0)},
     {"outcome_rewards": (0.3, 0.3), "step_rewards": (0.0, 0.0)},
     {"outcome_rewards": (1e50, -1e50), "step_rewards": (-1e50, 1e50)}],
)  # fmt: skip
def test_nobody_and_one(
    n: int, epsilon: float | None, admissible: Array | None, schema: dict[str, Any]
) -> None:
    """Nothing is raised and nothing is warned of."""
    steps = [(0, 1, 0.0)]
    end = 1 if schema.get("outcomes", True) else CUT
    log = log_of([[(steps, end), (steps, CUT)]] * n, **schema)
    for discount in (1.0, 0.9):
        found = fit_policy(
            log, epsilon=epsilon, admissible=admissible, discount=discount, rng=rng()
        )
        assert first(found).shape == (3,)
        assert ((found.action >= -1) & (found.action < 2)).all()
    if not n and epsilon is None:
        assert found.kind == "behaviour"


# What leaves, and what is charged ----------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.02, 0.3, 2.0])
def test_same_seed_same_policy(epsilon: float) -> None:
    one, other = (fit_policy(trial(500), epsilon=epsilon, rng=rng(3)) for _ in range(2))
    assert same(one, other)


@pytest.mark.few(6)
@pytest.mark.parametrize("epsilon", [None, 0.05, 1.0, 30.0])
def test_the_order_of_persons_does_not_matter(epsilon: float | None) -> None:
    """Sums are exact, so that all is the same even with noise; without privacy nearly."""
    draw = np.random.default_rng(6)
    persons = [random_person(draw) for _ in range(200)]
    order = np.random.default_rng(7).permutation(200)
    one, other = (
        fit_policy(log_of(each), epsilon=epsilon, rng=rng(1))
        for each in (persons, [persons[i] for i in order])
    )
    if epsilon is None:
        np.testing.assert_array_equal(first(one), first(other))
        np.testing.assert_allclose(one.values, other.values, rtol=1e-9)
    else:
        assert same(one, other)


@pytest.mark.parametrize(("relation", "scale"), [(None, 4.0), (ReplacePerson(), 8.0)])
@pytest.mark.parametrize("n", [10, 2000])
def test_it_is_charged_once(relation: Relation | None, scale: float, n: int) -> None:
    accountant = RdpAccountant()
    found = fit_policy(trial(n), epsilon=0.25, relation=relation, rng=rng(), accountant=accountant)
    cost = LaplaceCost(scale=scale, relation=relation or AddRemovePerson(), table=SUMS)
    assert found.cost == cost
    assert cost.pure_epsilon == 0.25
    np.testing.assert_allclose(accountant.rdp, cost.rdp(accountant.orders))
    assert len(accountant.journal) == 1


def test_refusal_leaves_nothing() -> None:
    accountant, generator = RdpAccountant(budget=ApproxDP(0.5, 1e-6)), rng()
    before = generator.bit_generator.state
    for epsilon in (3.0, None):
        with pytest.raises(BudgetExceeded):
            fit_policy(trial(50), epsilon=epsilon, rng=generator, accountant=accountant)
    assert not accountant.rdp.any()
    assert generator.bit_generator.state == before


@pytest.mark.parametrize("epsilon", [1 / 3, 0.1, 7.3, 2.0**-14 * 1.0001, 2.0**15 * 0.9999])
@pytest.mark.parametrize("relation", [AddRemovePerson(), ReplacePerson()])
def test_epsilon_is_not_exceeded(epsilon: float, relation: Relation) -> None:
    """Nor missed by more than rounding; both ends of the range can be drawn with."""
    found = fit_policy(trial(5), epsilon=epsilon, relation=relation, rng=rng())
    assert isinstance(found.cost, LaplaceCost)
    assert epsilon * (1 - 1e-12) < found.cost.pure_epsilon <= epsilon
    two = 2 if isinstance(relation, ReplacePerson) else 1
    assert found.cost.scale * epsilon == pytest.approx(two)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"epsilon": 0.0}, "epsilon must be"),
    ({"epsilon": float("nan")}, "epsilon must be"),
    ({"epsilon": 2.0**-14}, "epsilon must be a number > 6.1"),
    ({"epsilon": 2.0**15}, "epsilon must be a number > 6.1"),
    ({"relation": ReplaceRecord()}, "relation must be AddRemovePerson"),
    ({"relation": Relation("mine", {SUMS: [(0.1,)]})}, "relation must be AddRemovePerson"),
    ({"relation": "person"}, "relation must be AddRemovePerson"),
    ({"discount": 0.0}, "discount must be"),
    ({"discount": 1.01}, "discount must be"),
    ({"discount": float("nan")}, "discount must be"),
    ({"admissible": np.ones((3, 2))}, "admissible must be booleans of shape"),
    ({"admissible": ALL.T}, "admissible must be booleans of shape"),
    ({"admissible": np.array([[True, True], [False, False], [True, True]])}, "every state"),
    ({"behaviour": "even"}, "or 'uniform', got 'even'"),
    ({"behaviour": np.ones((3, 2))}, "sum to 1 in each state"),
    ({"behaviour": np.full((2, 3), 1 / 3)}, "behaviour must be chances of shape"),
    ({"behaviour": np.array([[2.0, -1.0]] * 3)}, "sum to 1 in each state"),
    ({"behaviour": np.full((3, 2), np.nan)}, "sum to 1 in each state"),
    (
        {"behaviour": np.array([[1.0, 0.0]] * 3), "admissible": np.array([[False, True]] * 3)},
        "an admissible action at least in every state",
    ),
    ({"rng": -3}, "rng must be"),
]


@pytest.mark.parametrize(("wrong", "match"), BAD, ids=lambda each: str(each)[:40])
def test_bad_arguments_cost_nothing(wrong: dict[str, Any], match: str) -> None:
    accountant = RdpAccountant()
    given: dict[str, Any] = {"epsilon": 1.0, "rng": rng(), "accountant": accountant}
    with pytest.raises((ValueError, TypeError), match=match):
        fit_policy(trial(20), **{**given, **wrong})
    assert not accountant.rdp.any()


def test_arguments_are_left_alone() -> None:
    admissible, chances, log = ALL.copy(), np.full((3, 2), 0.5), trial(50)
    before = {name: np.array(getattr(log, name)) for name in ("state", "action", "reward")}
    fit_policy(log, epsilon=5.0, admissible=admissible, behaviour=chances, rng=rng())
    assert admissible.all()
    assert (chances == 0.5).all()
    for name, values in before.items():
        np.testing.assert_array_equal(getattr(log, name), values)


# Logs that it is given ---------------------------------------------------------------------------


def test_rewards_out_of_their_bounds_are_no_log() -> None:
    """Else how large a table's amounts can be would depend on who is in it."""
    for reward, following in ((0.6, 1), (1e300, 1), (-0.6, 1), (np.nan, 1), (1.6, 3), (-1.6, 4)):
        log = log_of([[([(0, 0, 0.0), (1, 0, 0.0)], 0)]])
        rewards, ends = log.reward.copy(), log.next_state.copy()
        place = 0 if following < 3 else 1
        rewards[place], ends[place] = reward, following
        with pytest.raises(ValueError, match="within their public ranges"):
            replace(log, reward=rewards, next_state=ends)
    assert schema_of(log)["step_rewards"] == (-0.5, 0.5)


@pytest.mark.parametrize(
    "wrong",
    [{"step_rewards": (1.0, -1.0)}, {"step_rewards": (-1e101, 1.0)}, {"step_rewards": (0, np.nan)},
     {"outcome_rewards": (np.inf, 0.0)}],
)  # fmt: skip
def test_bounds_whose_squares_are_no_floats_are_refused(wrong: dict[str, Any]) -> None:
    """Else warnings would tell of what overflows, and of whom."""
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be"):
        log_of([], **wrong)


def test_narrow_integers_become_wide_ones() -> None:
    """Places of cells are worked out from them, and would overflow."""
    log = log_of([[([(0, 0, 0.0), (2, 1, 0.0)], 0)]], n_actions=100)
    narrow = replace(log, state=log.state.astype(np.int8), action=log.action.astype(np.int8))
    assert narrow.state.dtype == narrow.action.dtype == np.intp
    for seed in range(3):
        one, other = (fit_policy(each, epsilon=9.0, rng=rng(seed)) for each in (log, narrow))
        assert same(one, other)
    with pytest.raises(ValueError, match="of whole numbers"):
        replace(log, state=log.state.astype(float))
    with pytest.raises(ValueError, match="of one axis"):
        replace(log, action=log.action[None])
