"""The facts of a log: what they are, what they cost, and where they stay."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from crowds import left_of
from offline_logs import SCHEMA, Person, log_of, random_person

from privrl.costs.base import NoPrivacy
from privrl.costs.noise import GaussianCost, LaplaceCost
from privrl.costs.relations import NORMS, SUMS, AddRemovePerson
from privrl.data.logs import Log
from privrl.data.logs.log import CUT
from privrl.offline.design import FACTS
from privrl.offline.facts import Estimate, LogFacts, release_facts
from privrl.offline.persons import PersonStream

EXACT = NoPrivacy(AddRemovePerson())


def people(n: int = 40, seed: int = 0) -> list[Person]:
    rng = np.random.default_rng(seed)
    return [random_person(rng) for _ in range(n)]


def facts_of(log: Log, cost: Any = EXACT, seed: int = 0) -> LogFacts:
    return release_facts(PersonStream(log, cost, np.random.default_rng(seed)), log)


def by_a_loop(persons: Sequence[Person]) -> LogFacts:
    episodes = [episode for person in persons for episode in person]
    ends = [0.0 if end == CUT else SCHEMA["outcome_rewards"][end] for _, end in episodes]
    rewards = [step[2] for episode, _ in episodes for step in episode]
    return LogFacts(
        persons=len(persons),
        episodes=len(episodes) / len(persons),
        steps=len(rewards) / len(episodes),
        outcomes=tuple(sum(end == k for _, end in episodes) / len(episodes) for k in range(2)),
        outcome_reward=sum(ends) / len(episodes),
        step_reward=sum(rewards) / len(episodes),
        done=Estimate((sum(ends) + sum(rewards)) / len(episodes), 0.0, 0.0),
    )


def values(facts: LogFacts) -> list[float]:
    alone = (facts.persons, facts.episodes, facts.steps, facts.outcome_reward, facts.step_reward)
    return [*alone, facts.done.value, *facts.outcomes]


def test_without_privacy_they_are_the_means() -> None:
    found, wanted = facts_of(log_of(people())), by_a_loop(people())
    np.testing.assert_allclose(values(found), values(wanted), rtol=1e-12)


@pytest.mark.few(6)
@pytest.mark.parametrize("gaussian", [False, True])
def test_with_little_noise_they_are_near(gaussian: bool) -> None:
    """With 2000 persons noise on a mean has a deviation of 0.02 or less; seven of them."""
    persons = people(2000)
    cost: Any = LaplaceCost(scale=0.1, relation=AddRemovePerson(), table=SUMS)
    if gaussian:
        cost = GaussianCost(sigma=1.0, relation=AddRemovePerson(), table=NORMS)
    found, wanted = facts_of(log_of(persons), cost), by_a_loop(persons)
    assert found.persons == pytest.approx(wanted.persons, abs=7 * 2**0.5 * 0.1 * 5 / FACTS.share)
    np.testing.assert_allclose(values(found)[1:], values(wanted)[1:], atol=0.3)
    assert values(found) != values(wanted)


@pytest.mark.parametrize("gaussian", [False, True])
def test_nobody_pays_more_than_their_share(gaussian: bool) -> None:
    long = [([(0, 1, 0.5)] * 6, 0)] * 3  # all that one person can be
    log = log_of([long, [([(1, 1, 0.0)], CUT)]])
    cost: Any = LaplaceCost(scale=1.0, relation=AddRemovePerson(), table=SUMS)
    if gaussian:
        cost = GaussianCost(sigma=1.0, relation=AddRemovePerson(), table=NORMS)
    stream = PersonStream(log, cost, np.random.default_rng(0))
    release_facts(stream, log)
    left = left_of(stream)
    assert (left >= 1 - FACTS.share - 1e-9).all()
    assert left[0] == pytest.approx(1 - FACTS.share, abs=1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_whatever_noise_says_they_are_possible(seed: int) -> None:
    cost = LaplaceCost(scale=1000.0, relation=AddRemovePerson(), table=SUMS)
    found = facts_of(log_of(people(3)), cost, seed)
    assert found.persons >= 10
    assert 1 <= found.episodes <= SCHEMA["most_episodes"]
    assert 1 <= found.steps <= SCHEMA["most_steps"]
    assert -1 <= found.outcome_reward <= 1
    assert min(found.outcomes) >= 0
    assert sum(found.outcomes) <= 1 + 1e-12
    assert abs(found.step_reward) <= 0.5 * SCHEMA["most_steps"]


def test_what_the_schema_fixes_is_not_asked() -> None:
    """One step, one episode, no rewards but outcomes': persons and outcomes share the budget."""
    public = {"most_steps": 1, "most_episodes": 1, "step_rewards": (0.0, 0.0)}
    log = log_of([[([(0, 0, 0.0)], 0)]] * 30, **public)
    cost = LaplaceCost(scale=1e-6, relation=AddRemovePerson(), table=SUMS)
    stream = PersonStream(log, cost, np.random.default_rng(0))
    found = release_facts(stream, log)
    np.testing.assert_allclose(left_of(stream), 1 - FACTS.share, atol=1e-6)
    np.testing.assert_allclose(values(found), [30, 1, 1, 1, 0, 1, 1, 0], atol=0.01)


def test_noise_draws_the_mean_outcome_to_the_middle() -> None:
    """Of -1 and 1, where all did well: the noisier, the less is believed."""
    log = log_of([[([(0, 0, 0.0)], 0)]] * 30)
    means = []
    for scale in (1e-6, 0.01, 1e4):
        cost = LaplaceCost(scale=scale, relation=AddRemovePerson(), table=SUMS)
        means.append(np.mean([facts_of(log, cost, seed).outcome_reward for seed in range(40)]))
    assert means[0] == pytest.approx(1, abs=0.01)
    assert means[0] > means[1] > means[2]
    assert means[2] == pytest.approx(0, abs=0.05)


@pytest.mark.parametrize("n", [0, 1])
def test_nobody_and_one(n: int) -> None:
    found = facts_of(log_of(people(n)))
    assert found.persons == 10
    assert np.isfinite(values(found)).all()
