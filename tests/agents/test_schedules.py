"""Schedules are public: known before the run, depending on time only."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privrl.agents import EveryEpisode, Geometric
from privrl.agents.schedules import Once, Schedule

ALL_SCHEDULES = [EveryEpisode(), Geometric(), Geometric(1.05), Geometric(2.0), Geometric(1e6)]


@pytest.mark.parametrize("schedule", ALL_SCHEDULES, ids=repr)
@pytest.mark.parametrize("episodes", [1, 2, 7, 64, 1000])
def test_starts_are_the_episodes_that_are_due(schedule: Schedule, episodes: int) -> None:
    due = [episode for episode in range(episodes) if schedule.is_due(episode)]
    assert list(schedule.starts(episodes)) == due
    assert due[0] == 0


def test_growth() -> None:
    assert list(Geometric(2.0).starts(40)) == [0, 1, 3, 7, 15, 31]
    assert list(Geometric(1.5).starts(12)) == [0, 1, 2, 4, 7, 11]
    assert len(Geometric(1.2).starts(3000)) == 38
    assert len(Geometric(1.1).starts(10**9)) < 250


def test_the_first_draw_may_come_later() -> None:
    """From there on it is as if the episodes had been fewer and their number had grown so far."""
    late = Geometric(2.0, first=5)
    assert list(late.starts(60)) == [5, 11, 23, 47]
    assert [episode for episode in range(60) if late.is_due(episode)] == [5, 11, 23, 47]
    assert list(late.starts(6)) == [5]
    assert list(late.starts(5)) == []
    assert list(Geometric(1.5, first=0).starts(12)) == list(Geometric(1.5).starts(12))
    for wrong in (-1, 2.5, True):
        with pytest.raises(ValueError, match="first must be a whole number"):
            Geometric(2.0, first=wrong)


@given(st.floats(1.01, 4), st.integers(1, 10**6))
def test_the_number_of_episodes_grows_by_the_ratio(ratio: float, episodes: int) -> None:
    starts = list(Geometric(ratio).starts(episodes))
    for before, after in pairwise(starts):
        assert after + 1 >= ratio * (before + 1) or after == before + 1


@pytest.mark.parametrize(("ratio", "first", "starts"), [(1e308, 5, [5]), (2.0, 0, [0, 1, 3, 7])])
def test_a_draw_beyond_all_floats_is_never_due(ratio: float, first: int, starts: list[int]) -> None:
    schedule = Geometric(ratio, first=first)
    assert list(schedule.starts(8)) == starts
    assert list(schedule.starts(2**1023 + 2**1022))[: len(starts)] == starts
    assert schedule.is_due(first)
    assert not schedule.is_due(2**1023 + 2**1022)


@pytest.mark.parametrize("ratio", [1.0, 0.5, -1, float("nan"), float("inf")])
def test_bad_ratio(ratio: float) -> None:
    with pytest.raises(ValueError, match="ratio"):
        Geometric(ratio)


@pytest.mark.parametrize("schedule", ALL_SCHEDULES, ids=repr)
def test_bad_times(schedule: Schedule) -> None:
    with pytest.raises(ValueError, match="episodes"):
        schedule.starts(0)
    with pytest.raises(ValueError, match="episode"):
        schedule.is_due(-1)


def test_once() -> None:
    assert [episode for episode in range(9) if Once(4).is_due(episode)] == [4]
    assert list(Once(4).starts(5)) == [4]
    assert list(Once(4).starts(4)) == []
    with pytest.raises(ValueError, match="episode"):
        Once(-1)
