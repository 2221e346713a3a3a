"""Every reader of numbered steps, and every container that a user may hand to it.

`test_person_by_person` has tables. Here a container in an episode is read as the list of its
entries is, or the person is left out; and whoever else is there stays as they were.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from every_container import CONTAINERS, NEEDS, NO_COLUMN, entries_in, made, objects
from made import Episode, agent_of
from of_every_kind import KINDS

from privrl.accounting import ApproxDP
from privrl.agents import PSRL, KnownRewards, Transition
from privrl.agents.continuous import ContinuousAgent, ContinuousStep
from privrl.continuous import ContinuousLog, ContinuousSchema, Number
from privrl.costs import ReplaceStep
from privrl.data import Categories, Schema
from privrl.data.logs import LogSchema, read_log
from privrl.data.logs.episodes import from_buffer
from privrl.samplers import NonPrivate

SIZES = {"n_states": 5, "n_actions": 5, "reward_bounds": (0, 4), "most_steps": 9}
FIELDS = ("state", "action", "next_state", "reward", "episode_starts", "person_starts")
VALUES: list[list[Any]] = [
    [0, 1, 2, 3, 1],
    [0.5, 1.0, 4.0, 2.5, 1.0],
    [False, False, False, False, True],
    ["a", "b", "1", "c", "a"],
]
EPISODE: dict[str, list[Any]] = {
    "observations": [0, 1, 2, 3, 4, 0],
    "actions": [4, 3, 2, 1, 0],
    "rewards": [0.5, 1, 2, 3, 4],
    "terminations": [False] * 5,
    "truncations": [False] * 5,
}
OTHER = Episode([0, 1], [1], [1], [False], [False])


def read(name: str, values: Any) -> list[Any]:
    log = from_buffer([OTHER, Episode(**{**EPISODE, name: values}), OTHER], **SIZES)
    return [getattr(log, field).tolist() for field in FIELDS]


ALONE = [getattr(from_buffer([OTHER, OTHER], **SIZES), field).tolist() for field in FIELDS]
EACH_CONTAINER = pytest.mark.parametrize(
    "container",
    [pytest.param(name, marks=pytest.mark.needs(*NEEDS.get(name, ()))) for name in CONTAINERS],
)


@pytest.mark.few(9)
@EACH_CONTAINER
def test_a_container_of_an_episode_is_read_as_a_list_or_left_out(
    container: str, tmp_path: Path
) -> None:
    for name in EPISODE:
        for values in VALUES:
            if name == "observations":
                values = [*values, values[0]]  # noqa: PLW2901 -- where the last step led
            try:
                held = made(container, values, tmp_path)
            except TypeError:  # there is none of such values
                continue
            found = read(name, held)
            if found == ALONE:
                continue
            assert container not in NO_COLUMN or container == "old protocol"  # as NumPy has it
            if True in values and ("ategor" in container or "dictionar" in container):
                continue  # in which True is kept as 1 is
            entries = entries_in(made(container, values, tmp_path))
            assert found == read(name, entries)


def test_an_odd_entry_of_an_episode_changes_nobody_else() -> None:
    for name, values in EPISODE.items():
        for entry in KINDS:
            found = read(name, [*values[:2], entry, *values[3:]])
            if found != ALONE:
                assert [each[0] for each in found[:4]] == [each[0] for each in ALONE[:4]]
                assert [each[-1] for each in found[:4]] == [each[-1] for each in ALONE[:4]]
                assert found[4:] == [[0, 1, 6, 7], [0, 1, 2, 3]]


STEPS = ContinuousSchema(
    state={"x": Number(low=0, high=4)},
    action={"a": Number(low=0, high=4, levels=5)},
    person="who",
)
NUMBERED = LogSchema(person="who", action=Schema({"a": Categories((0, 1))}), most_steps=9)


def in_buffer(persons: Any) -> list[int]:
    episodes = [OTHER] * 5
    log = from_buffer(episodes, **SIZES, most_episodes=9, person=persons)
    same = ContinuousLog.from_buffer(episodes, STEPS, person=persons)
    assert same.offsets.tolist() == log.person_starts.tolist()
    return sorted(np.diff(log.person_starts).tolist())


def in_arrays(persons: Any) -> list[int]:
    n = [0] * 5
    log = ContinuousLog.of_arrays(STEPS, person=persons, state=n, action=n, next_state=n)
    return sorted(np.diff(log.offsets).tolist())


def in_table(persons: Any) -> list[int]:
    persons = pd.Series(objects(persons), dtype=object) if isinstance(persons, list) else persons
    log = read_log(pd.DataFrame({"who": persons, "a": 0}), NUMBERED)
    return sorted(np.diff(log.episode_starts).tolist())


PERSONS: dict[str, Callable[[Any], list[int]]] = {
    "from_buffer": in_buffer,
    "of_arrays": in_arrays,
    "read_log": in_table,
}


@pytest.mark.parametrize("reader", PERSONS)
@pytest.mark.parametrize(
    ("persons", "steps"),
    [
        ([2**63 + 1, 2**63, 2**63, 1, 1], [1, 2, 2]),
        ([2**53, 2**53 + 1, 2**53 + 1, 1, 1], [1, 2, 2]),
        (["a", "b", "b", "1", "1"], [1, 2, 2]),
    ],
)
def test_persons_are_told_apart_alike(reader: str, persons: list[Any], steps: list[int]) -> None:
    """In columns of unsigned numbers those from 2^63 on were left out, and in lists not."""
    names = PERSONS[reader]
    dtype = np.uint64 if persons[0] == 2**63 + 1 else np.int64 if persons[-1] == 1 else "U1"
    makes: list[Callable[[Any], Any]] = [list, objects, lambda each: np.array(each, dtype)]
    makes += [lambda each: pd.Series(each, dtype=dtype)] * (reader != "from_buffer")
    for make in makes:
        assert names(make(persons)) == steps


@pytest.mark.parametrize("reader", PERSONS)
@pytest.mark.parametrize(
    ("kind", "exact"), [("e", 2**11), ("f", 2**24), ("d", 2**53), ("g", 2**53)]
)
def test_persons_that_floats_do_not_tell_apart_are_nobody(
    reader: str, kind: str, exact: int
) -> None:
    """Numbers of persons become floats where one is missing: of a list, two were one person."""
    floats = np.array([exact, exact + 1, exact - 1, exact - 1, exact - 2], kind)
    for persons in (list(floats), objects(list(floats))):
        assert PERSONS[reader](persons) == [1, 2]
    if kind != "g":  # which columns refuse
        assert PERSONS[reader](floats) == [1, 2]


@pytest.mark.parametrize("wrong", [np.array(1), np.array([[1]] * 5), np.ma.masked_array([1] * 5)])
def test_persons_of_another_shape_are_refused(wrong: Any) -> None:
    """Rows of an array are no names: all were left out."""
    for read_persons in (in_buffer, in_arrays):
        if wrong.shape == (5, 1) and read_persons is in_arrays:
            continue  # a column
        with pytest.raises(ValueError, match="person must be"):
            read_persons(wrong)


def observers() -> Iterator[tuple[Any, Any, Callable[[], Any]]]:
    tabular = agent_of(
        PSRL, 2, 2, 9, sampler=NonPrivate(), rewards=KnownRewards(np.zeros((2, 2))), rng=0
    )
    yield tabular, Transition(0, 0, 0.0, 0, False), lambda: tabular._new.steps
    schema = replace(STEPS, reward=Number(low=0, high=1), terminates=True)
    numbers = ContinuousAgent(
        schema, horizon=9, episodes=999, target=ApproxDP(1, 1e-5), relation=ReplaceStep(), rng=0
    )
    yield numbers, ContinuousStep(np.zeros(1), 0, 0.0, np.zeros(1)), lambda: numbers._steps


def test_what_is_observed_is_a_number_or_refused_with_no_trace() -> None:
    """A text ``False`` ended an episode, and what is missing did not."""
    for agent, step, kept in observers():
        for name in step._fields:
            for entry in KINDS:
                agent._step, agent._ended = 0, False
                if hasattr(agent, "_begin"):
                    agent._begin()
                before = len(kept())
                error = None
                try:
                    agent.observe(step._replace(**{name: entry}))
                except (ValueError, TypeError) as caught:
                    error = caught
                if error is None:
                    if not name.endswith("state"):  # of which there may be several
                        assert isinstance(entry, Real | np.bool_ | np.ndarray)
                        assert np.ndim(entry) == 0
                    assert len(kept()) == before + 1
                else:
                    assert "SECRET" not in str(error)
                    assert len(kept()) == before
