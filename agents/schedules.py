"""Schedules: the episodes before which an agent draws.

A schedule is public. It depends on time only, never on data. The number of draws is therefore
known before a run starts, and the budget can be planned from it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from privrl.files.plain import did_you_mean
from privrl.files.shown import shown
from privrl.numerics.checks import check_between, check_count, check_is


class Schedule(Protocol):
    """The episodes before which to draw."""

    def is_due(self, episode: int) -> bool:
        """Whether to draw before this episode (the first is 0)."""

    def starts(self, episodes: int) -> Sequence[int]:
        """Return the episodes below ``episodes`` before which to draw, sorted."""


def check_schedule(name: str, schedule: Schedule) -> Schedule:
    """Return the argument if it is a schedule.

    Raises
    ------
    ValueError
        If it lacks a method of `Schedule`.
    """
    if not (hasattr(schedule, "is_due") and hasattr(schedule, "starts")):
        raise ValueError(
            f"{name} must be a schedule such as Geometric(1.05), got {shown(schedule)}."
        )
    return schedule


@dataclass(frozen=True)
class EveryEpisode:
    """Draw before every episode, as usual without privacy."""

    def is_due(self, episode: int) -> bool:
        """Return True."""
        check_count("episode", episode, least=0)
        return True

    def starts(self, episodes: int) -> Sequence[int]:
        """Return all episodes."""
        return range(check_count("episodes", episodes))


@dataclass(frozen=True)
class Geometric:
    """Draw before the first episode, then whenever the number of episodes has grown by a factor.

    The number of draws in T episodes falls from T to about ``log T / log ratio``.

    Parameters
    ----------
    ratio : float
        Growth factor of the number of episodes between draws, > 1.
    first : int
        Episode of the first draw, counted from 0.
    """

    ratio: float = 1.2
    first: int = 0

    def __post_init__(self) -> None:
        check_between("ratio", self.ratio, 1, math.inf, "1.1 to 1.3 work well")
        check_count("first", self.first, least=0)

    def is_due(self, episode: int) -> bool:
        """Whether the number of episodes has grown by ``ratio`` since the last draw."""
        episode = check_count("episode", episode, least=0)
        return episode in _due(self.ratio, self.first, episode.bit_length())

    def starts(self, episodes: int) -> Sequence[int]:
        """Return the episodes before which to draw."""
        episodes = check_count("episodes", episodes)
        due = _due(self.ratio, self.first, episodes.bit_length())
        return sorted(start for start in due if start < episodes)


@dataclass(frozen=True)
class Once:
    """Draw once, before a given episode.

    Parameters
    ----------
    episode : int
        The episode, counted from 0.
    """

    episode: int

    def __post_init__(self) -> None:
        check_count("episode", self.episode, least=0)

    def is_due(self, episode: int) -> bool:
        """Whether this is the episode of the draw."""
        return check_count("episode", episode, least=0) == self.episode

    def starts(self, episodes: int) -> Sequence[int]:
        """Return the episode, if it is below ``episodes``."""
        return [self.episode] if self.episode < check_count("episodes", episodes) else []


def schedule_named(name: str) -> Schedule:
    """Return the schedule called ``every-episode``, ``geometric`` or ``geometric:RATIO``.

    Raises
    ------
    ValueError
        If the name is unknown or the ratio is not a number > 1.
    """
    check_is("schedule", name, str)
    kind, _, ratio = name.partition(":")
    if kind == "geometric":
        try:
            return Geometric(float(ratio)) if ratio else Geometric()
        except ValueError as error:
            raise ValueError(
                f"schedule {shown(name)} needs a finite ratio > 1, such as geometric:1.2."
            ) from error
    if name == "every-episode":
        return EveryEpisode()
    raise ValueError(
        f"schedule must be one of every-episode, geometric, geometric:RATIO, got {shown(name)}"
        + did_you_mean(name, ["every-episode", "geometric"])
    )


@lru_cache(maxsize=256)
def _due(ratio: float, first: int, bits: int) -> frozenset[int]:
    """Return the episodes of all draws below ``2 ** bits``, and the first draw."""
    due, done = [first], first + 1
    while due[-1] < 2**bits and done * ratio < math.inf:
        done = max(done + 1, math.ceil(done * ratio))
        due.append(done - 1)
    return frozenset(due)
