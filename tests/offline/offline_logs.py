"""Small logs, written down person by person."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from privrl.data.logs import Log
from privrl.data.logs.log import CUT

Step = tuple[int, int, float]  # state, action, reward
Episode = tuple[Sequence[Step], int]  # its steps, and how it ended: an outcome, or CUT
Person = Sequence[Episode]

SCHEMA: dict[str, Any] = {
    "n_states": 3,
    "n_actions": 2,
    "outcomes": ("well", "ill"),
    "outcome_rewards": (1.0, -1.0),
    "step_rewards": (-0.5, 0.5),
    "most_steps": 6,
    "most_episodes": 3,
}


def log_of(persons: Sequence[Person], **schema: Any) -> Log:
    """Return the log of some persons, under `SCHEMA` but for what is given."""
    public = SCHEMA | schema
    episodes = [episode for person in persons for episode in person]
    steps = [step for episode, _ in episodes for step in episode]
    following, reward = [], []
    for episode, end in episodes:
        following += [step[0] for step in episode[1:]]
        following.append(CUT if end == CUT else public["n_states"] + end)
        reward += [step[2] for step in episode]
        reward[-1] += 0.0 if end == CUT else public["outcome_rewards"][end]
    return Log(
        **public,
        state=np.array([step[0] for step in steps], np.intp),
        action=np.array([step[1] for step in steps], np.intp),
        next_state=np.array(following, np.intp),
        reward=np.array(reward, np.float64),
        episode_starts=np.cumsum([0, *(len(episode) for episode, _ in episodes)]),
        person_starts=np.cumsum([0, *map(len, persons)]),
    )


def random_person(rng: np.random.Generator, **schema: Any) -> Person:
    """Return someone who does anything."""
    public = SCHEMA | schema
    low, high = public["step_rewards"]
    person = []
    for _ in range(rng.integers(1, public["most_episodes"] + 1)):
        length = int(rng.integers(1, public["most_steps"] + 1))
        states = rng.integers(public["n_states"], size=length).tolist()
        actions = rng.integers(public["n_actions"], size=length).tolist()
        rewards = rng.uniform(low, high, length).tolist()
        end = int(rng.integers(-1, len(public["outcomes"])))
        person.append((list(zip(states, actions, rewards, strict=True)), end))
    return person


def schema_of(log: Log) -> dict[str, Any]:
    """Return what is public of a log."""
    return {each.name: getattr(log, each.name) for each in fields(log) if each.name in SCHEMA}


def worth_choosing(n_persons: int, seed: int = 0, n_states: int = 3) -> list[Person]:
    """Return persons of a trial in which action 0 does well in even states, 1 in odd ones."""
    rng = np.random.default_rng(seed)
    persons: list[Person] = []
    for _ in range(n_persons):
        state, action = int(rng.integers(n_states)), int(rng.integers(2))
        good = rng.random() < (0.9 if action == state % 2 else 0.1)
        persons.append([([(state, action, 0.0)], 0 if good else 1)])
    return persons
