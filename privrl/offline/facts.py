"""The first things that leave of a log: how many persons there are, and what they went through."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from privrl._typing import FloatArray
from privrl.data.logs import Log
from privrl.offline.persons import PersonStream

SHARE: Final = 0.02  # of the budget


@dataclass(frozen=True)
class LogFacts:
    """Means over the persons of a log, noisy: released.

    Attributes
    ----------
    persons : float
        How many there are.
    episodes : float
        Of each person, 1 at the least.
    steps : float
        Of each episode, 1 at the least.
    outcomes : tuple of float
        In which part of the episodes each outcome is how they end.
    outcome_reward, step_reward : float
        What an episode earns by its outcome, and by all of its steps.
    """

    persons: float
    episodes: float
    steps: float
    outcomes: tuple[float, ...]
    outcome_reward: float
    step_reward: float


def release_facts(stream: PersonStream, log: Log) -> LogFacts:
    """Release the facts, for a fiftieth of each person's budget.

    Notes
    -----
    Each fact is one cell, divided by the most that it can be of a person. Facts that the schema
    fixes are left out: the number of episodes where there is one, rewards where there are none.
    """
    n, n_outcomes = log.n_persons, len(log.outcomes)
    persons, ends = np.arange(n), log.next_state >= log.n_states
    outcome = log.next_state[ends] - log.n_states
    earned = log.reward.copy()
    earned[ends] -= np.array(log.outcome_rewards)[outcome]
    n_steps = np.bincount(log.person, minlength=n)
    most_steps = log.most_episodes * log.most_steps
    most_reward = most_steps * max(map(abs, log.step_rewards))
    # For each fact: who adds to which of its cells how much, and the most a person can.
    everything = {
        "persons": (persons, None, np.ones(n), 1),
        "episodes": (persons, None, np.diff(log.person_starts), log.most_episodes),
        "steps": (persons, None, n_steps, most_steps),
        "outcomes": (log.person[ends], outcome, np.ones(len(outcome)), log.most_episodes),
        "reward": (persons, None, np.bincount(log.person, earned, minlength=n), most_reward),
    }
    known = {
        "episodes": log.most_episodes == 1,
        "steps": most_steps == 1,
        "outcomes": n_outcomes == 0,
        "reward": most_reward == 0,
    }
    used = {name: fact for name, fact in everything.items() if not known.get(name)}
    sizes = [n_outcomes if name == "outcomes" else 1 for name in used]
    starts = dict(zip(used, np.cumsum([0, *sizes]), strict=False))
    unit = stream.unit(SHARE, len(used))
    noisy = stream.update(
        np.concatenate([who for who, _, _, _ in used.values()]),
        np.concatenate(
            [
                np.full(len(who), starts[name]) if cell is None else starts[name] + cell
                for name, (who, cell, _, _) in used.items()
            ]
        ),
        np.concatenate([amount / most for _, _, amount, most in used.values()]),
        sum(sizes),
        unit,
    )
    noisy = noisy / unit
    told = {name: noisy[starts[name]] * used[name][3] for name in used}
    persons_told = max(float(told["persons"]), 10.0)
    episodes = _between(told.get("episodes", persons_told) / persons_told, 1.0, log.most_episodes)
    each = persons_told * episodes
    outcomes = np.empty(0)
    if n_outcomes:
        place = starts["outcomes"]
        outcomes = noisy[place : place + n_outcomes] * log.most_episodes / each
        noise = stream.noise / unit * log.most_episodes / each
        outcomes = _fractions(outcomes, noise)
    least, most = (bound * log.most_steps for bound in log.step_rewards)
    return LogFacts(
        persons=persons_told,
        episodes=episodes,
        steps=_between(told.get("steps", each) / each, 1.0, log.most_steps),
        outcomes=tuple(outcomes.tolist()),
        outcome_reward=float(outcomes @ np.array(log.outcome_rewards)),
        step_reward=_between(told.get("reward", 0.0) / each, min(least, 0.0), max(most, 0.0)),
    )


def _fractions(noisy: FloatArray, noise: float) -> FloatArray:
    """Return what is expected of parts of a whole of which nothing was known before."""
    number = len(noisy)
    middle, prior = (0.5, 1 / 12) if number == 1 else (1 / number, (number - 1) / number**2 / 3)
    parts = np.clip(middle + (noisy - middle) * prior / (prior + noise**2), 0.0, 1.0)
    shown: FloatArray = parts / max(1.0, parts.sum())
    return shown


def _between(value: float, low: float, high: float) -> float:
    return float(min(max(value, low), high))
