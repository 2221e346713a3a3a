"""Persons of whom nothing is known but their number, and what they say."""

from typing import Any

import numpy as np

from privrl.data.logs import Log
from privrl.data.logs.log import CUT
from privrl.offline.persons import Added, Adds, PersonStream

Array = np.ndarray


def crowd(n: int) -> Log:
    """A log of n persons, each of one step."""
    return Log(
        n_states=1,
        n_actions=1,
        outcomes=(),
        outcome_rewards=(),
        step_rewards=(0.0, 0.0),
        most_steps=1,
        most_episodes=1,
        state=np.zeros(n, np.intp),
        action=np.zeros(n, np.intp),
        next_state=np.full(n, CUT),
        reward=np.zeros(n),
        episode_starts=np.arange(n + 1),
        person_starts=np.arange(n + 1),
    )


def says(person: Any, cell: Any, amount: Any, unit: Any = 1.0, most: Any = 1.0) -> Adds:
    """What persons add, said beforehand."""
    return lambda part, left: Added(person, cell, amount, unit, most)


def one_says(amount: float = 1.0, cell: int = 0, unit: float = 1.0) -> Adds:
    """What the first person adds to a cell."""
    return says(np.zeros(1, np.intp), np.array([cell]), np.array([amount]), unit)


def left_of(stream: PersonStream) -> Array:
    """What each person has left of 1: told as to those who add nothing."""
    seen: list[Array] = []

    def nothing(part: Log, left: Array) -> Added:
        seen.append(left.copy())
        none = np.empty(0, np.intp)
        return Added(none, none, np.empty(0))

    stream.update(nothing, 1)
    return seen[0]
