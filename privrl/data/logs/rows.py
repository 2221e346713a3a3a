"""Rows of a log, in any order, made into a `Log`."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privrl.data.logs.log import CUT, Log
from privrl.data.logs.parts import Names, Part, cells_in, numbers_in, texts_in
from privrl.data.logs.schema import LogSchema
from privrl.data.schema import Schema
from privrl.numerics.typing import BoolArray, IntArray

_NONE, _UNKNOWN = -1, -2  # no outcome, and one that is none of them


_Columns = dict[str, NDArray[Any]]


def _silent() -> AbstractContextManager[Any]:
    """Let no number that somebody has warn of anything, nor raise, whatever `numpy.seterr` says."""
    return np.errstate(all="ignore")


class Rows:
    """The rows read so far, in as few bytes as possible."""

    def __init__(self, schema: LogSchema) -> None:
        self._schema = schema
        self._persons, self._episodes = Names(), Names()
        self._outcomes = {text: k for k, text in enumerate(schema.outcomes)}
        self._columns: dict[str, list[NDArray[Any]]] = {}
        self._bad: list[IntArray] = []

    def add(self, parts: dict[str, Part]) -> None:
        """Add rows.

        Raises
        ------
        ValueError
            If a column is of a type that cannot hold what the schema says.
        """
        with _silent():
            self._add(parts)

    def _add(self, parts: dict[str, Part]) -> None:
        schema = self._schema
        person = self._persons.numbers(parts[schema.person])
        whose = person >= 0
        fits = whose.copy()
        read: dict[str, NDArray[Any]] = {"person": person}
        if schema.episode is not None:
            read["episode"] = self._episodes.numbers(parts[schema.episode])
            fits &= read["episode"] >= 0
        if schema.order is not None:
            read["order"] = numbers_in(parts[schema.order])
            fits &= np.isfinite(read["order"])
        for role, cells in (("state", schema.state), ("action", schema.action)):
            if cells is not None:
                read[role] = _number(cells, parts)
                fits &= read[role] >= 0
        if schema.reward is not None and schema.reward_bounds is not None:
            low, high = schema.reward_bounds
            read["reward"] = np.clip(numbers_in(parts[schema.reward]), low, high)
            fits &= ~np.isnan(read["reward"])
        if schema.outcome is not None:
            find = self._outcomes.get
            read["outcome"] = texts_in(
                parts[schema.outcome],
                lambda text: find(text, _UNKNOWN),
                missing=_NONE,
                unknown=_UNKNOWN,
            ).astype(np.int16)
            fits &= read["outcome"] != _UNKNOWN
        if not fits.all():
            self._bad.append(np.unique(person[whose & ~fits]))
        for name, values in read.items():
            self._keep(name, values if whose.all() else values[whose])

    def log(self) -> Log:
        """Return the log of all rows that were added, and keep none of them."""
        bad = np.zeros(len(self._persons), np.bool_)
        for persons in self._bad:
            bad[persons] = True
        rows = {name: np.concatenate(self._columns.pop(name)) for name in [*self._columns]}
        if bad.any():
            good = ~bad[rows["person"]]
            rows = {name: rows.pop(name)[good] for name in [*rows]}
        with _silent():
            return _log(self._schema, rows, self._episodes, len(bad))

    def _keep(self, name: str, values: NDArray[Any]) -> None:
        self._columns.setdefault(name, []).append(values)


def _number(cells: Schema, parts: dict[str, Part]) -> NDArray[Any]:
    """Return the number of each row's cells together, −1 where one of them has none."""
    number = np.zeros(1, np.intp)
    fits: Any = True
    size = 1
    for name, column in cells.columns.items():
        found = cells_in(parts[name], column, name)
        fits, number = fits & (found >= 0), number * column.size + found
        size *= column.size
    return np.where(fits, number, -1).astype(np.min_scalar_type(-size))


@dataclass(frozen=True, eq=False)
class _Episodes:
    """Episodes of sorted rows."""

    person: IntArray
    name: IntArray | None
    start: IntArray  # its first row
    n_rows: IntArray


def _log(schema: LogSchema, rows: _Columns, names: Names, n_persons: int) -> Log:
    """Return the log of rows each of which fits, by itself."""
    place = _sort(rows)
    episodes = _episodes(rows)
    good = np.ones(n_persons, np.bool_)
    good[rows["person"][_wrong(schema, rows, episodes)]] = False
    if schema.order is not None:
        key = rows["order"][episodes.start]
    else:
        key = episodes.start if place is None else place[episodes.start]
    chosen = _first_ones(episodes, good, key, names, schema.most_episodes)
    for name in ("person", "episode", "order"):  # hundreds of megabytes
        rows.pop(name, None)
    del place, key
    return _steps(schema, rows, episodes, chosen)


def _steps(schema: LogSchema, rows: _Columns, episodes: _Episodes, chosen: IntArray) -> Log:
    """Return the log of the first steps of the episodes chosen."""
    person, first, n_rows = (
        each[chosen] for each in (episodes.person, episodes.start, episodes.n_rows)
    )
    n_steps = np.minimum(n_rows, schema.most_steps)
    starts = np.append(0, np.cumsum(n_steps))
    taken = np.arange(starts[-1])
    taken += np.repeat(first - starts[:-1], n_steps)
    state, action = (_taken(rows, name, taken) for name in ("state", "action"))
    reward = rows.pop("reward")[taken] if "reward" in rows else np.zeros(len(taken))
    next_state, last = np.empty_like(state), starts[1:] - 1
    next_state[:-1] = state[1:]
    next_state[last] = CUT
    if "outcome" in rows:
        outcome = np.where(n_rows == n_steps, rows["outcome"][first + n_rows - 1], _NONE)
        last, outcome = last[outcome != _NONE], outcome[outcome != _NONE]
        next_state[last] = outcome.astype(np.intp) + schema.n_states
        reward[last] += np.array(schema.outcome_rewards)[outcome]
    return Log(
        **vars(schema.space),
        state=state,
        action=action,
        next_state=next_state,
        reward=reward,
        episode_starts=starts,
        person_starts=np.append(np.flatnonzero(_is_new(person)), len(person)),
    )


def _taken(rows: _Columns, name: str, taken: IntArray) -> IntArray:
    """Return a column at the rows taken, or zeros without a column."""
    return rows.pop(name)[taken].astype(np.intp) if name in rows else np.zeros(len(taken), np.intp)


def _sort(rows: _Columns) -> IntArray | None:
    """Sort rows by person, episode and order; return where each was, if any was elsewhere."""
    keys = [rows[name] for name in ("order", "episode", "person") if name in rows]
    sorted_already: Any = True
    for key in keys:
        same = key[:-1] == key[1:]
        sorted_already = (key[:-1] < key[1:]) | (same & sorted_already)
    if sorted_already.all():
        return None
    place = np.lexsort(keys)
    for name in rows:
        rows[name] = rows[name][place]
    return place


def _episodes(rows: _Columns) -> _Episodes:
    first = _is_new(rows["person"])
    if "episode" in rows:
        first |= _is_new(rows["episode"])
    start = np.flatnonzero(first)
    name = rows["episode"][start] if "episode" in rows else None
    n_rows = np.diff(start, append=len(first))
    return _Episodes(rows["person"][start], name, start, n_rows)


def _is_new(numbers: IntArray) -> BoolArray:
    new = np.ones(len(numbers), np.bool_)
    new[1:] = numbers[1:] != numbers[:-1]
    return new


def _wrong(schema: LogSchema, rows: _Columns, episodes: _Episodes) -> BoolArray:
    """Return which rows do not fit those beside them in their episode."""
    wrong = np.zeros(len(rows["person"]), np.bool_)
    if schema.order is not None:
        ahead = np.diff(rows["order"])
        wrong[1:] = ahead != 1 if schema.consecutive else ahead == 0
        wrong[episodes.start] = False
    if schema.outcome is not None:
        early = rows["outcome"] != _NONE
        early[episodes.start + episodes.n_rows - 1] = False
        wrong |= early
    return wrong


def _first_ones(
    episodes: _Episodes, good: BoolArray, key: Any, names: Names, most: int
) -> IntArray:
    """Return the first episodes of each good person, by ``key`` and then by name."""
    person, order = episodes.person, np.lexsort((key, episodes.person))
    tied = ~_is_new(person[order]) & ~_is_new(key[order])
    if tied.any() and episodes.name is not None:
        order = np.lexsort((names.ranks()[episodes.name], key, person))
    order = order[good[person[order]]]
    begin = np.flatnonzero(_is_new(person[order]))
    behind = np.arange(len(order)) - np.repeat(begin, np.diff(begin, append=len(order)))
    return order[behind < most]
