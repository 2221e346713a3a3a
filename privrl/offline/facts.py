"""The first releases of a log: the number of persons, and average facts about their episodes."""

import math
from dataclasses import dataclass

import numpy as np

from privrl.data.logs import Log
from privrl.data.logs.log import LogSpace
from privrl.files.html import InHtml
from privrl.numerics.typing import BoolArray, FloatArray, IntArray
from privrl.offline.design import FACTS
from privrl.offline.persons import Added, PersonStream


@dataclass(frozen=True)
class Estimate(InHtml):
    """An estimate of the mean return of an episode, from released numbers.

    Attributes
    ----------
    value : float
        Of an episode.
    lower, upper : float
        Meant to have it between them in 95 of 100 logs: normal, of noise and of who was logged, to
        first order. ``docs/results/logs.md`` says in how many they have, of simulated ones. What
        noise hides of a plan's transitions is taken to be as good as it can be in the upper one.
    """

    value: float
    lower: float
    upper: float


def estimate(value: float, below: float, above: float, possible: tuple[float, float]) -> Estimate:
    """Return an estimate with its bounds, within what is possible.

    ``below`` and ``above`` are how far it may be off.
    """
    low, high = possible
    bounds = value - below, value, value + above
    lower, inside, upper = (float(min(max(each, low), high)) for each in bounds)
    return Estimate(inside, lower, upper)


@dataclass(frozen=True)
class LogFacts(InHtml):
    """Means over the persons of a log, noisy: released.

    Attributes
    ----------
    persons : float
        The number of persons.
    episodes : float
        Of each person, 1 at the least.
    steps : float
        Of each episode, 1 at the least.
    outcomes : tuple of float
        In which part of the episodes each outcome is how they end.
    outcome_reward, step_reward : float
        What an episode earns by its outcome, and by all of its steps.
    done : Estimate
        The mean return of the behaviour policy: both together, undiscounted.
    """

    persons: float
    episodes: float
    steps: float
    outcomes: tuple[float, ...]
    outcome_reward: float
    step_reward: float
    done: Estimate


def release_facts(stream: PersonStream, log: LogSpace) -> LogFacts:
    """Release the facts, for a fiftieth of each person's budget.

    Notes
    -----
    Each fact is one cell, divided by the most that it can be of a person. Facts that the schema
    fixes are left out: the number of episodes if it is one, rewards if none can be earned.
    """
    n_outcomes = len(log.outcomes)
    most_steps = log.most_episodes * log.most_steps
    most_reward = most_steps * max(map(abs, log.step_rewards))
    # The most that a person can add to each fact, and which of them the schema leaves open.
    most = {
        "persons": 1.0,
        "episodes": log.most_episodes,
        "steps": most_steps,
        "outcomes": log.most_episodes,
        "reward": most_reward,
    }
    known = {
        "episodes": log.most_episodes == 1,
        "steps": most_steps == 1,
        "outcomes": n_outcomes == 0,
        "reward": most_reward == 0,
    }
    used = {name: largest for name, largest in most.items() if not known.get(name)}
    sizes = [n_outcomes if name == "outcomes" else 1 for name in used]
    starts = dict(zip(used, np.cumsum([0, *sizes]).tolist(), strict=False))
    unit = stream.unit(FACTS.share, len(used))

    def adds(part: Log, _: FloatArray) -> Added:
        facts = _facts_of(part)
        return Added(
            np.concatenate([facts[name][0] for name in used]),
            np.concatenate([starts[name] + facts[name][1] for name in used]),
            np.concatenate([facts[name][2] / used[name] for name in used]),
            unit,
        )

    noisy = stream.update(adds, sum(sizes))
    noisy = noisy / unit
    told = {name: noisy[starts[name]] * used[name] for name in used}
    persons_told = max(float(told["persons"]), 10.0)
    episodes = _between(told.get("episodes", persons_told) / persons_told, 1.0, log.most_episodes)
    each = persons_told * episodes
    worth, outcomes = np.array(log.outcome_rewards), np.empty(0)
    noise = stream.noise / unit / each  # on a mean, times the most that a person adds
    if n_outcomes:
        place = starts["outcomes"]
        outcomes = noisy[place : place + n_outcomes] * log.most_episodes / each
        outcomes = _fractions(outcomes, noise * log.most_episodes)
    low, high = (bound * log.most_steps for bound in log.step_rewards)
    step_reward = _between(told.get("reward", 0.0) / each, min(low, 0.0), max(high, 0.0))
    return LogFacts(
        persons=persons_told,
        episodes=episodes,
        steps=_between(told.get("steps", each) / each, 1.0, log.most_steps),
        outcomes=tuple(outcomes.tolist()),
        outcome_reward=float(outcomes @ worth),
        step_reward=step_reward,
        done=_done(log, persons_told, noise, outcomes, step_reward),
    )


def _done(
    log: LogSpace, persons: float, noise: float, outcomes: FloatArray, step_reward: float
) -> Estimate:
    """Return the mean return of an episode; ``noise`` is that on means, in parts of most."""
    worth = np.array(log.outcome_rewards)
    low, high = (bound * log.most_steps for bound in log.step_rewards)
    earned = float(outcomes @ worth) + step_reward
    # Who was logged: steps vary as much as they may, and all episodes of a person alike.
    by_chance = math.sqrt(max(float(outcomes @ worth**2 - (outcomes @ worth) ** 2), 0.0))
    by_chance += math.sqrt(max((high - step_reward) * (step_reward - low), 0.0))
    off = FACTS.deviations * math.hypot(
        by_chance / math.sqrt(persons),
        noise * log.most_episodes * math.sqrt(float((worth**2).sum())),
        noise * log.most_episodes * max(map(abs, (low, high))),
    )
    # What sums are divided by is noisy too.
    doubt = min(FACTS.deviations * noise * log.most_episodes, 0.999)
    ends = [(earned + sign * off) / (1 + way * doubt) for sign in (-1, 1) for way in (-1, 1)]
    return estimate(earned, earned - min(ends), max(ends) - earned, log.return_range())


def _facts_of(part: Log) -> dict[str, tuple[IntArray, IntArray, FloatArray]]:
    """Return who adds to which cell of each fact how much."""
    n, ends = part.n_persons, part.next_state >= part.n_states
    outcome = part.next_state[ends] - part.n_states
    persons, one_cell = np.arange(n), np.zeros(n, np.intp)
    n_steps = np.bincount(part.person, minlength=n)
    return {
        "persons": (persons, one_cell, np.ones(n)),
        "episodes": (persons, one_cell, np.diff(part.person_starts)),
        "steps": (persons, one_cell, n_steps),
        "outcomes": (part.person[ends], outcome, np.ones(len(outcome))),
        "reward": (persons, one_cell, np.bincount(part.person, part.step_reward, minlength=n)),
    }


def _fractions(noisy: FloatArray, noise: float) -> FloatArray:
    """Shrink noisy parts of a whole, with a uniform prior."""
    number = len(noisy)
    middle, prior = (0.5, 1 / 12) if number == 1 else (1 / number, (number - 1) / number**2 / 3)
    parts = np.clip(middle + (noisy - middle) * prior / (prior + noise**2), 0.0, 1.0)
    return parts / max(1.0, parts.sum())


def _between(value: float, low: float, high: float) -> float:
    return float(min(max(value, low), high))


@dataclass(frozen=True, eq=False)
class Task:
    """What a policy is learned from: the noise, public facts, and released ones.

    Attributes
    ----------
    stream : PersonStream
        Releases about the persons of the log.
    space, facts
        The public part of the log, and earlier releases.
    discount : float
        In (0, 1].
    allowed : array of bool, shape (S, A), or None
        Which actions are admissible, if known.
    chances : array, shape (S, A), or None
        The propensities, if public.
    """

    stream: PersonStream
    space: LogSpace
    facts: LogFacts
    discount: float
    allowed: BoolArray | None
    chances: FloatArray | None

    @property
    def visits(self) -> float:
        """The number of steps of all persons."""
        return self.facts.persons * self.facts.episodes * self.facts.steps
