"""The first things that leave of a log: how many persons there are, and what they went through."""

from dataclasses import dataclass
from typing import Final

import numpy as np

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
    outcome_reward, step_reward : float
        What an episode earns by its outcome, and by all of its steps.
    """

    persons: float
    episodes: float
    steps: float
    outcome_reward: float
    step_reward: float


def release_facts(stream: PersonStream, log: Log) -> LogFacts:
    """Release the facts, for a fiftieth of each person's budget.

    Notes
    -----
    Each fact is one cell, divided by the most that it can be of a person. Facts that the schema
    fixes are left out: the number of episodes where there is one, rewards where there are none.
    """
    n = log.n_persons
    n_episodes = np.diff(log.person_starts)
    n_steps = np.bincount(log.person, minlength=n)
    outcome = log.next_state - log.n_states
    ends = outcome >= 0
    by_outcome = np.bincount(
        log.person[ends], weights=np.array([*log.outcome_rewards, 0.0])[outcome[ends]], minlength=n
    )
    by_steps = np.bincount(log.person, weights=log.reward, minlength=n) - by_outcome
    most_outcome = log.most_episodes * max(map(abs, log.outcome_rewards), default=0.0)
    most_of_steps = log.most_episodes * log.most_steps * max(map(abs, log.step_rewards))
    columns = {
        "persons": (np.ones(n), 1.0),
        "episodes": (n_episodes, log.most_episodes if log.most_episodes > 1 else 0.0),
        "steps": (n_steps, log.most_episodes * log.most_steps if log.most_steps > 1 else 0.0),
        "outcome": (by_outcome, most_outcome),
        "reward": (by_steps, most_of_steps),
    }
    used = {name: pair for name, pair in columns.items() if pair[1] > 0}
    cell = np.repeat(np.arange(len(used)), n)
    amount = np.concatenate([values / most for values, most in used.values()])
    unit = SHARE / len(used) if stream.sums else np.sqrt(SHARE / len(used))
    noisy = stream.update(np.tile(np.arange(n), len(used)), cell, amount, len(used), unit) / unit
    told = {
        name: value * most for (name, (_, most)), value in zip(used.items(), noisy, strict=True)
    }
    persons = max(told["persons"], 10.0)
    episodes = _between(told.get("episodes", persons) / persons, 1.0, log.most_episodes)
    each = persons * episodes
    noise = stream.noise / unit / each
    low, high = min(log.outcome_rewards, default=0.0), max(log.outcome_rewards, default=0.0)
    least, most = (bound * log.most_steps for bound in log.step_rewards)
    return LogFacts(
        persons=persons,
        episodes=episodes,
        steps=_between(told.get("steps", each) / each, 1.0, log.most_steps),
        outcome_reward=_shrunk(told.get("outcome", 0.0) / each, noise * most_outcome, low, high),
        step_reward=_between(told.get("reward", 0.0) / each, min(least, 0.0), max(most, 0.0)),
    )


def _shrunk(value: float, noise: float, low: float, high: float) -> float:
    """Return what is expected of a mean that may be anything in a range."""
    middle, prior = (low + high) / 2, (high - low) ** 2 / 12
    if prior == 0:
        return low
    return _between(middle + (value - middle) * prior / (prior + noise**2), low, high)


def _between(value: float, low: float, high: float) -> float:
    return float(min(max(value, low), high))
