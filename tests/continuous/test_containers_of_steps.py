"""Every reader of steps with numbers, and every container that a user may hand to it.

A container is read as the list of its entries is, or refused for its type or shape, which are
public; and an odd entry of a step changes no other step, and nobody else.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from every_container import CONTAINERS, NEEDS, NO_COLUMN, UNTYPED, entries_in, made, objects
from made import Episode
from of_every_kind import KINDS

from privrl.continuous import ContinuousLog, ContinuousSchema, Number, read_continuous_log

SCHEMA = ContinuousSchema(
    state={"x": Number(low=0, high=4)},
    action={"push": Number(low=0, high=4, levels=5)},
    reward=Number(low=0, high=4),
    terminates=True,
)
N = 5
VALUES: dict[str, list[Any]] = {
    "whole numbers": [0, 1, 2, 3, 1],
    "floats": [0.5, 1.0, 4.0, 2.5, 1.0],
    "truth values": [True, False, True, True, False],
    "texts": ["a", "b", "1", "c", "a"],
}
#: What one step may hold among others that are as they should be.
ODD = [
    *(None, np.nan, pd.NA, pd.NaT, np.inf, -1, 2**53 + 1, 2**63, 10**400, True, "True", "1", ""),
    *("\udcff", "é", "e\u0301", b"a", 1j, (1, 2), [], np.float32(0.1), np.array([1, 2]), object()),
    *(np.ma.masked, np.datetime64("2020-01-01")),
]
STEPS: dict[str, list[Any]] = {
    "person": [0, 1, 2, 3, 4],
    "state": [0, 0.5, 1, 1.5, 2],
    "action": [0, 1, 2, 3, 4],
    "next_state": [4, 3.5, 3, 2.5, 2],
    "reward": [1, 2, 3, 4, 0.5],
    "terminated": [False, True, False, True, False],
}
EPISODE = {
    "observations": [0, 0.5, 1, 1.5, 2, 2.5],
    "actions": STEPS["action"],
    "rewards": STEPS["reward"],
    "terminations": STEPS["terminated"],
}
Read = Callable[[Any], "tuple[list[Any], list[int]]"]


def found(log: ContinuousLog) -> tuple[list[Any], list[int]]:
    """Return the steps of a log, whose numbers are within the schema's ranges."""
    assert log.reward is not None
    assert log.terminated is not None
    columns = (log.state, log.action, log.next_state, log.reward[:, None], log.terminated[:, None])
    rows = np.concatenate(columns, axis=1)
    assert ((rows >= 0) & (rows <= 4)).all()
    return rows.tolist(), log.offsets.tolist()


def of_arrays(name: str) -> Read:
    return lambda values: found(ContinuousLog.of_arrays(SCHEMA, **{**STEPS, name: values}))


def from_buffer(name: str) -> Read:
    """One person with these steps, and one before and after."""
    other = Episode([0, 1], [1], [1], [False])
    return lambda values: found(
        ContinuousLog.from_buffer([other, Episode(**{**EPISODE, name: values}), other], SCHEMA)
    )


READERS = {f"of_arrays {name}": of_arrays(name) for name in STEPS}
READERS |= {f"from_buffer {name}": from_buffer(name) for name in EPISODE}
OTHERS = ([[0, 1, 1, 1, 0], [0, 1, 1, 1, 0]], [0, 1, 2])
REFUSAL = (
    r"{0} must (hold [\w ,]+, got type \w+; convert it first|be given: the schema has it|be an "
    r"array or a list of shape \(N, 1\), with a row for each step|be a plain array, got a masked "
    r"array; leave out the masked entries, or fill them|be an array, or rows of one length, got "
    r"\w+, which NumPy cannot convert|be of shape \(n,\), got \d axes|be a pandas.Series, an array "
    r"or a list, got \w+)\.|table must be in memory, got \w+; collect it first\.|person, .* must "
    r"have one shape \(N, \.\.\.\), a row for each step\."
)


def outcome(reader: str, values: Any) -> Any:
    """Return what is read, or None if that was refused, with words that show nothing."""
    error = None
    try:
        return READERS[reader](values)
    except ValueError as caught:
        error = caught
    name = reader.partition(" ")[2]
    assert re.fullmatch(REFUSAL.format(name), str(error)), error
    assert error.__context__ is None
    return None


@pytest.mark.few(23)
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    "container",
    [pytest.param(name, marks=pytest.mark.needs(*NEEDS.get(name, ()))) for name in CONTAINERS],
)
def test_a_container_is_read_as_a_list_or_refused(
    reader: str, container: str, tmp_path: Path
) -> None:
    is_buffer = reader.startswith("from_buffer")
    for values in VALUES.values():
        if reader.endswith("observations"):
            values = [*values, values[-1]]  # noqa: PLW2901 -- where the last step led
        try:
            held = made(container, values, tmp_path)
        except TypeError:  # there is none of such values
            continue
        read = outcome(reader, held)
        if read is None or (is_buffer and read == OTHERS):
            continue  # refused, or a person that was left out
        assert container not in NO_COLUMN
        assert read == outcome(reader, entries_in(made(container, values, tmp_path)))


def test_what_is_refused_or_not_is_known() -> None:
    """Else a reader that refuses everything would pass."""
    for reader in READERS:
        for container in UNTYPED:
            values = EPISODE.get(reader.partition(" ")[2]) or STEPS[reader.partition(" ")[2]]
            read = outcome(reader, UNTYPED[container](values))
            assert read is not None
            assert len(read[0]) == N + 2 * reader.startswith("from_buffer")


def test_a_frame_is_read_column_by_column() -> None:
    """As an array it has one type; pandas keeps the first of equal categories, True for 1."""
    for first in (True, 1):
        values: list[Any] = [first, 0, 1, 2, 1]
        frame = pd.DataFrame({"x": pd.Series(objects(values), dtype=object).astype("category")})
        read = outcome("of_arrays state", frame)
        assert [row[0] for row in read[0]] == [1, 0, 1, 2, 1]


def inferred(values: list[Any]) -> Any:
    return pd.Series(values)


def categories(values: list[Any]) -> Any:
    return pd.Series(pd.Categorical(values))


def nullable(values: list[Any]) -> Any:
    return pd.Series(values).convert_dtypes()


@pytest.mark.few(9)
@pytest.mark.parametrize("make", [*UNTYPED.values(), inferred, categories, nullable])
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("odd", [ODD, pytest.param(KINDS, marks=pytest.mark.slow)], ids=len)
def test_an_odd_entry_of_a_step_changes_no_other(
    reader: str, make: Callable[[list[Any]], Any], odd: list[Any]
) -> None:
    name = reader.partition(" ")[2]
    values = EPISODE.get(name) or STEPS[name]
    before = outcome(reader, make(values))
    assert before is not None
    has_type = make not in UNTYPED.values()
    for entry in odd:
        try:
            held = make([*values[:2], entry, *values[3:]])
        except Exception:  # pandas makes none of these
            continue
        read = outcome(reader, held)
        if read is None:  # for its type, or a record of another number of entries
            assert has_type or hasattr(entry, "__len__") or hasattr(entry, "__array__")
            continue
        if has_type and reader.startswith("from_buffer") and read == OTHERS:
            continue  # whose type is no number's: a person is left out
        changed = (1, 2) if name == "observations" else (2,)
        at = 1 if reader.startswith("from_buffer") else 0
        kept = [row for k, row in enumerate(before[0]) if k - at not in changed]
        for row in kept:
            assert row in read[0], entry
        assert len(kept) <= len(read[0]) <= len(before[0])
        if name == "person" and len(read[0]) == len(before[0]):
            assert sorted(np.diff(read[1])) in ([1] * N, [1] * (N - 2) + [2])


FRAME = {
    "person": ["p", "p", "q", "q", "r", "r"],
    "order": [0, 1, 0, 1, 0, 1],
    "x": [0, 0.5, 1, 1.5, 2, 2.5],
    "push": [0, 1, 2, 3, 4, 0],
    "reward": [1, 2, 3, 4, 0.5, 1],
    "terminated": [False, True, False, False, False, True],
}
ORDERED = ContinuousSchema(
    state=SCHEMA.state,
    action=SCHEMA.action,
    reward=SCHEMA.reward,
    terminates=True,
    person="person",
    order="order",
)


@pytest.mark.few(4)
@pytest.mark.parametrize("make", [objects, categories, inferred])
@pytest.mark.parametrize("name", FRAME)
def test_an_odd_entry_of_a_table_is_its_persons_own(
    name: str, make: Callable[[list[Any]], Any]
) -> None:
    """The reading of all is the readings of each person alone, one after the other."""
    for entry in ODD:
        columns = {key: list(values) for key, values in FRAME.items()}
        columns[name][2] = entry
        persons = columns["person"]
        rest = [k for k in range(6) if persons[k] is FRAME["person"][k] and k not in (2, 3)]
        try:
            all_of_them, others = (
                pd.DataFrame({key: make([columns[key][k] for k in rows]) for key in columns})
                for rows in (range(6), rest)
            )
        except Exception:
            continue
        others = others.astype({key: all_of_them[key].dtype for key in columns if make is inferred})
        error = None
        try:
            read = read_continuous_log(all_of_them, ORDERED)
        except ValueError as caught:
            error = caught
        if error is not None:  # for the type that pandas inferred
            assert make is inferred, entry
            assert re.fullmatch(REFUSAL.format(r"column '\w+'"), str(error))
            continue
        alone = read_continuous_log(others, ORDERED)
        assert isinstance(read, ContinuousLog)
        assert isinstance(alone, ContinuousLog)
        rows = found(read)[0]
        for row in found(alone)[0]:
            assert row in rows, entry
        theirs = len(rows) - len(found(alone)[0])
        assert 0 <= theirs <= 2
