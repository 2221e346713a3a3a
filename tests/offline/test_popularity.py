"""Logs of a behaviour policy: what is taken most often, and facts that do no harm."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from log_studies.simulate import simulate_log
from log_studies.worlds import World, clinic, sepsis_simulator
from offline_logs import SCHEMA, Person, log_of, random_person, worth_choosing

from privrl.audit import audit_replay
from privrl.data.logs import Log
from privrl.data.logs.log import CUT
from privrl.offline import fit_policy
from privrl.offline.behaviour import (
    Behaviour,
    counted_steps,
    estimated_behaviour,
    known_behaviour,
    release_visits,
)
from privrl.offline.facts import Task, release_facts
from privrl.offline.learning import _Learner
from privrl.offline.persons import BUDGET, PersonStream, full, pay, person_cost
from privrl.offline.popularity import Popularity, Skew, returns_ahead

Array = np.ndarray


def worth_of(world: World, action: Array, otherwise: Array) -> float:
    """What an episode earns that is cut off where those of the log are."""
    n_states, n_actions = world.admissible.shape
    reward = world.transition[:, :, n_states:] @ np.array(world.outcome_rewards)
    moves = world.transition[:, :, :n_states].reshape(-1, n_states)
    worth = np.zeros(n_states)
    for chosen in np.broadcast_to(action, (world.most_steps, n_states))[::-1]:
        chances = np.where(chosen[:, None] >= 0, np.eye(n_actions)[chosen], otherwise)
        worth = (chances * (reward + (moves @ worth).reshape(reward.shape))).sum(axis=1)
    return float(world.start @ worth)


@cache
def near_expert(random: float) -> tuple[World, Array, Log]:
    """A clinic in which the best action is taken but for some random ones, and a log of it."""
    world = clinic(
        5, n_states=40, n_actions=8, mean_admissible=30.0, n_next=20, effects=(1.5, 0.5, 0.0)
    )
    best = np.eye(8)[world.optimum()[0]]
    chances = random * world.behaviour("uniform") + (1 - random) * best
    return world, chances, simulate_log(world, chances, 20_000, np.random.default_rng(1))


@pytest.mark.few(15)
@pytest.mark.parametrize("random", [0.05, 0.15, 0.5])
@pytest.mark.parametrize("epsilon", [None, 10.0, 1.0, 0.1])
def test_facts_only_help_and_nothing_is_worse_than_the_behaviour(
    random: float, epsilon: float | None
) -> None:
    """Of eight admissible actions seven are rare; of counts too, which are planned for exactly."""
    world, chances, log = near_expert(random)
    before = worth_of(world, np.full(world.n_states, -1), chances)
    untold, *others = (
        worth_of(
            world, fit_policy(log, epsilon=epsilon, rng=np.random.default_rng(2), **given).action,
            chances,
        )
        for given in (
            {},
            {"admissible": world.admissible},
            {"behaviour": chances},
            {"admissible": world.admissible, "behaviour": chances},
        )
    )  # fmt: skip
    assert untold >= before - 0.005
    assert min(others) >= max(before, untold) - (0.005 if random < 0.5 else 0.01)


@pytest.mark.parametrize(("random", "least"), [(0.15, 0.9), (0.5, 0.9)])
def test_the_most_frequent_action_is_found(random: float, least: float) -> None:
    """At an epsilon of 1 nearly all of what is lost to random actions comes back."""
    world, chances, log = near_expert(random)
    found = fit_policy(log, epsilon=1.0, rng=np.random.default_rng(3))
    before, best = worth_of(world, np.full(40, -1), chances), world.optimum()[1]
    assert found.kind in ("popular", "rounds")
    assert worth_of(world, found.action, chances) >= before + least * (best - before)
    assert found.value is not None
    assert (found.value.lower, found.value.upper) == (0.0, 1.0)


def test_what_is_popular_and_worse_is_not_followed() -> None:
    """Nine of ten take action 0, which ends ill twice as often."""
    draw = np.random.default_rng(4)
    persons: list[Person] = []
    for _ in range(4000):
        state, action = int(draw.integers(3)), int(draw.random() < 0.1)
        good = draw.random() < (0.8 if action else 0.3)
        persons.append([([(state, action, 0.0)], 0 if good else 1)])
    log = log_of(persons, most_steps=1, most_episodes=1, step_rewards=(0.0, 0.0))
    for epsilon in (None, 10.0, 1.0):
        found = fit_policy(log, epsilon=epsilon, discount=0.999, rng=np.random.default_rng(5))
        assert found.kind != "popular"
        assert not (found.action == 0).any()


def test_a_uniform_log_of_few_admissible_actions_is_no_experts() -> None:
    """Inadmissible actions are never taken: that alone does not make the others good.

    Followed where they seem frequent, they are worth what uniform actions are: a score of 0.
    """
    world = clinic(6, n_states=100, n_actions=20, mean_admissible=2.2, n_next=30)
    even = world.behaviour("uniform")
    log = simulate_log(world, even, 2000, np.random.default_rng(1))
    for seed in range(5):
        found = fit_policy(log, epsilon=3.0, rng=np.random.default_rng(seed))
        assert found.kind != "popular"
        assert world.score(world.chances(found.action, even)) > 0.2


def test_what_noise_hides_stays_as_it_was() -> None:
    """At a tiny epsilon a guess at the most frequent action is mostly wrong."""
    world, chances, log = near_expert(0.15)
    before = worth_of(world, np.full(world.n_states, -1), chances)
    for seed in range(5):
        found = fit_policy(log, epsilon=0.003, rng=np.random.default_rng(seed))
        assert worth_of(world, found.action, chances) >= before - 0.005


# What is known of a behaviour --------------------------------------------------------------------


def table_of(chances: Array, visits: float, noise: float, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    counts = np.array([rng.multinomial(int(visits), row) for row in chances]).astype(float)
    return counts + rng.laplace(0.0, noise / np.sqrt(2), chances.shape)


@pytest.mark.parametrize("visits", [400.0, 4000.0])
def test_chances_come_back(visits: float) -> None:
    """Of leaders that are taken 9 times of 10: others are rare, and so are they shown."""
    rng = np.random.default_rng(0)
    chances = np.full((300, 6), 0.02)
    chances[np.arange(300), rng.integers(6, size=300)] = 0.9
    found = estimated_behaviour(table_of(chances, visits, 40.0), 40.0, np.ones((300, 6), bool))
    assert np.abs(found.chances - chances).mean() < 0.03
    assert (found.chances.argmax(axis=1) == chances.argmax(axis=1)).mean() > 0.99
    assert abs((found.squares - (chances**2).sum(axis=1)).mean()) < 0.04


def test_actions_that_are_never_taken_are_told_from_rare_ones() -> None:
    """Three of eight are taken, alike: no leader, so none is popular."""
    rng = np.random.default_rng(3)
    chances = rng.permuted(np.tile([1 / 3] * 3 + [0.0] * 5, (300, 1)), axis=1)
    found = estimated_behaviour(table_of(chances, 4000.0, 40.0), 40.0, np.ones((300, 8), bool))
    assert np.abs(found.chances - chances).max() < 0.05
    assert found.spread().mean() < 0.002


def test_what_noise_hides_is_not_popular() -> None:
    """Leaders there are, but which they are is not seen: a guess is worse than the behaviour."""
    chances = np.full((300, 6), 0.02)
    chances[:, 0] = 0.9
    chances = np.random.default_rng(1).permuted(chances, axis=1)
    seen = table_of(chances, 400.0, 40.0)
    seen[150:] = np.random.default_rng(2).laplace(400 / 6, 2000.0, (150, 6))
    whole = estimated_behaviour(seen[:150], 40.0, np.ones((150, 6), bool))
    assert (whole.popularity().max(axis=1) > 0).all()
    blind = estimated_behaviour(seen[150:], 2000 * np.sqrt(2), np.ones((150, 6), bool))
    assert (blind.popularity().max(axis=1) > 0).mean() < 0.1


def test_a_known_behaviour() -> None:
    chances = np.array([[0.5, 0.5], [0.9, 0.1]])
    found = known_behaviour(chances, np.array([3.0, 4.0]))
    assert isinstance(found, Behaviour)
    np.testing.assert_allclose(found.popularity(), [[0, 0], [0.08, -0.72]])
    np.testing.assert_allclose(found.spread(), [0, 0.9 * 0.1 * 0.8**2])


# What persons add --------------------------------------------------------------------------------


def test_which_steps_count_depends_on_what_was_before() -> None:
    rng = np.random.default_rng(0)
    persons = [random_person(rng) for _ in range(20)]
    log = log_of(persons)
    counted = counted_steps(log, 4)
    for number, person in enumerate(persons):
        steps = sum(len(episode) for episode, _ in person)
        assert counted[log.person == number].tolist() == [k < 4 for k in range(steps)]


def test_visits_are_counted() -> None:
    """Without noise all steps are; with it half of the mean number of each person."""
    log = log_of([[([(0, 1, 0.0), (2, 0, 0.0), (2, 0, 0.0)], 0)]] * 50, most_episodes=1)
    for epsilon, whole in ((None, [1, 0, 2]), (2e4, [1, 0, 1])):
        stream = PersonStream(log, person_cost(epsilon), np.random.default_rng(0))
        facts = release_facts(stream, log)
        table, _ = release_visits(stream, log, facts, 0.5, by_action=True)
        assert table.shape == (3, 2)
        np.testing.assert_allclose(table.sum(axis=1) / 50, whole, atol=0.05)


def test_returns_ahead() -> None:
    log = log_of([[([(0, 0, 0.5), (1, 0, 0.25)], 0), ([(2, 1, -0.5)], 1)]])
    np.testing.assert_allclose(returns_ahead(log, 1.0), [1.75, 1.25, -1.5])
    np.testing.assert_allclose(returns_ahead(log, 0.5), [1.125, 1.25, -1.5])
    assert not returns_ahead(log_of([]), 0.9).size


@pytest.mark.slow
@pytest.mark.parametrize("known", [False, True])
def test_nothing_is_found_of_popular_policies(known: bool) -> None:
    """One person of any kind less: all that was asked of the others stays."""
    public: dict[str, Any] = {"step_rewards": (0.0, 0.0)}
    draw = np.random.default_rng(6)
    persons: list[Person] = [random_person(draw, **public) for _ in range(6)]
    for _ in range(300):
        steps, good = [], True
        for state in draw.integers(3, size=4).tolist():
            action = int(draw.random() < 0.15)
            good &= not action
            steps.append((state, action, 0.0))
        persons.append([(steps, 0 if good else 1)])
    given = {"behaviour": np.tile([0.85, 0.15], (3, 1))} if known else {}

    def run(log: Log) -> Any:
        return fit_policy(log, epsilon=20.0, discount=0.999, rng=np.random.default_rng(0), **given)

    assert run(log_of(persons, **public)).kind == "popular"
    for place in range(9):
        fewer = log_of([*persons[:place], *persons[place + 1 :]], **public)
        for one, two in ((log_of(persons, **public), fewer), (fewer, log_of(persons, **public))):
            result = audit_replay(run, one, two)
            assert not result.findings
            assert result.error is None
            assert result.releases == (3 if known else 4)
    assert SCHEMA["most_episodes"] > 1


def test_nothing_is_found_where_frequent_actions_are_weighed() -> None:
    """With public propensities all that is left of budgets tells the value."""
    public: dict[str, Any] = {"step_rewards": (0.0, 0.0), "n_states": 40, "most_episodes": 1}
    draw, persons = np.random.default_rng(7), list[Person]()
    for _ in range(1500):
        steps = [(int(s), int(draw.random() < 0.15), 0.0) for s in draw.integers(40, size=3)]
        persons.append([(steps, int(any(action for _, action, _ in steps)))])

    def run(log: Log) -> Any:
        chances = np.tile([0.85, 0.15], (40, 1))
        return fit_policy(log, epsilon=3.0, behaviour=chances, rng=np.random.default_rng(0))

    found = run(log_of(persons, **public))
    assert found.kind == "popular"
    assert 0 < found.value.lower < 1 <= found.value.upper
    for place in range(3):
        fewer = log_of([*persons[:place], *persons[place + 1 :]], **public)
        result = audit_replay(run, log_of(persons, **public), fewer)
        assert not result.findings
        assert result.releases == 6


@pytest.mark.parametrize("random", [0.15, 1.0])
def test_without_privacy_facts_change_nothing_that_counts(random: float) -> None:
    """All actions are admissible, and what was taken says more than the chances of taking it."""
    world = clinic(6, n_states=150, n_actions=8, mean_admissible=30.0)
    chances = random * world.behaviour("uniform") + (1 - random) * np.eye(8)[world.optimum()[0]]
    log = simulate_log(world, chances, 500, np.random.default_rng(2))
    everything = {"admissible": world.admissible, "behaviour": chances}
    untold, told = (fit_policy(log, epsilon=None, rng=0, **given) for given in ({}, everything))
    assert untold.kind == told.kind == "rounds"
    assert (untold.action == told.action).mean() > 0.95


def test_a_state_that_nobody_visits_keeps_an_admissible_action() -> None:
    """Without privacy too, where actions that were never taken are left out."""
    log = log_of(worth_choosing(200, n_states=2), step_rewards=(0.0, 0.0), n_actions=3)
    admissible = np.array([[1, 1, 0], [1, 1, 0], [0, 1, 1]], bool)
    found = fit_policy(log, epsilon=None, discount=0.999, admissible=admissible)
    assert found.kind == "rounds"
    assert found.allowed.any(axis=1).all()
    assert not found.allowed[~admissible].any()
    assert np.isfinite(found.values).all()


# Sensitivity, by brute force ---------------------------------------------------------------------

PUBLIC: dict[str, Any] = {
    "n_states": 2, "step_rewards": (0.0, 0.0), "most_steps": 2, "most_episodes": 2,
}  # fmt: skip


def everyone() -> Iterator[Person]:
    """Every person of one or two episodes of one or two steps, of two states and two actions."""
    steps = list(product(range(2), range(2), [0.0]))
    lengths = [list(product(steps, repeat=number)) for number in (1, 2)]
    episodes = [(each, end) for few in lengths for each in few for end in (CUT, 0, 1)]
    yield from ([each] for each in episodes)
    yield from (list(two) for two in product(episodes[::7], repeat=2))


class Frozen:
    """A stream that keeps sums without noise, and answers with those of another log."""

    sums, unit, cost = True, PersonStream.unit, None

    def __init__(self, log: Log, answers: list[Array]) -> None:
        self.noise, self._log, self._answers = 2.0, log, answers
        self.kept: list[Array] = []

    def update(self, adds: Any, n_cells: int) -> Array:
        self.kept.append(pay(self._log, full(self._log, "sums"), adds, n_cells, "sums")[0] / BUDGET)
        number = len(self.kept) - 1
        return self._answers[number] if self._answers else self.kept[number]

    def vote(self, adds: Any, allowed: Array, favour: Array) -> Array:
        self.update(adds, allowed.size)
        return np.zeros(len(allowed), np.intp)


@pytest.mark.parametrize(
    ("asks", "share"),
    [("visits", 0.3), ("leaning", 0.06), ("vote", 1.0), ("outcomes", 0.02), ("weights", 0.97)],
    ids=lambda each: each,
)
def test_a_person_changes_sums_by_their_share_at_most(asks: str, share: float) -> None:
    """Of visits, of the advantage of frequent actions, of votes and of values; by all persons."""
    draw = np.random.default_rng(8)
    others = [random_person(draw, **PUBLIC) for _ in range(5)]
    chances = np.array([[0.8, 0.2], [0.3, 0.7]])

    def run(log: Log, answers: list[Array]) -> list[Array]:
        stream: Any = Frozen(log, answers)
        task = Task(stream, log, facts, 0.9, None, None)
        match asks:
            case "visits":
                release_visits(stream, log, facts, share, by_action=True)
            case "leaning":
                behaviour = known_behaviour(chances, np.ones(2))
                Popularity(task, 1.0)._release_leaning(behaviour, 0.1)
            case "vote":
                learner = _Learner(task, balanced=False)
                learner._vote_at_once(learner._level(0.0), 0.9)
            case "outcomes":
                _Learner(task, balanced=False)._little_to_lose(Skew(0.3, 1.0))
            case "weights":
                public = replace(task, discount=1.0, chances=chances)
                _Learner(public, balanced=False)._weighed(np.array([0, -1]))
        return stream.kept

    base = log_of(others, **PUBLIC)
    facts = release_facts(PersonStream(base, person_cost(50.0), 0), base)
    before, most = run(base, []), 0.0
    for person in everyone():
        after = run(log_of([*others, person], **PUBLIC), before)
        most = max(
            most, sum(float(np.abs(a - b).sum()) for a, b in zip(after, before, strict=True))
        )
    assert 0.5 * share < most <= share + 2.0**-40


# The simulator -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_sepsis_simulator() -> None:
    """Values of the published dynamics, computed from another implementation of its tables."""
    world = sepsis_simulator()
    even, stays = world.behaviour("uniform"), np.full(1440, -1)
    for random, value in ((0.0, 0.42974), (0.05, 0.33013), (0.15, 0.16355), (0.8, -0.59242)):
        chances = random * even + (1 - random) * world.expert
        assert worth_of(world, stays, chances) == pytest.approx(value, abs=1e-5)
