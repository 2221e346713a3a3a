"""The public meaning of a log's columns, and the contribution bound of a person."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Final, Self

import tomli_w

from privrl.data.logs.log import LogSpace, check_reward
from privrl.data.schema import Categories, Column, Schema
from privrl.data.schema.plain import PlainFile, check_name, column_of, is_unfilled, nested, plain
from privrl.data.schema.table import releases_of
from privrl.files.plain import listed
from privrl.files.shown import shown
from privrl.numerics.checks import check_between, check_count, check_truth

MOST_LABELS: Final = 1000
_MOST_CELLS = 2**31 - 1
#: Of a schema as plain data, in the order of a file.
KEYS: Final = (
    *("person", "episode", "order", "consecutive", "most_steps", "most_episodes"),
    *("state", "action", "reward", "outcome"),
)


@dataclass(frozen=True, kw_only=True)
class LogSchema(PlainFile):
    """The public columns of a log, in which each row is a step of a person.

    All of it is stated before the data are seen, and nothing is read from them.

    Parameters
    ----------
    person : str
        The column that identifies the person of a row: a text or a whole number. Two texts that
        differ in case or blanks are two persons. Rows where it is empty are left out. Statements
        name it as the privacy unit.
    state, action : Schema or mapping from str to Categories or Bins
        The columns that a state, and an action, is made of; the cells of several are numbered
        with those of the last column fastest. No state at all is one state.
    most_steps : int
        Of an episode, >= 1; later ones are cut away.
    most_episodes : int
        Of a person, >= 1; later ones are left out.
    episode : str, optional
        The column that identifies the episode of a row, as ``person`` identifies the person. By
        default each person has one.
    order : str, optional
        The column of numbers by which the rows of an episode are sorted; as floats of 64 bits.
        By default they are in order as they stand.
    consecutive : bool
        Whether each number of ``order`` must be one more than that before it in its episode.
    reward : str, optional
        The column of numbers that are earned. By default no step earns any.
    reward_bounds : (float, float), optional
        The public lowest and highest reward of that column; rewards outside are clipped.
    outcome : str, optional
        The column that says how an episode ended, in its last row, and is empty in all others.
        By default, and where the last row has none, the episode was cut off.
    outcomes : tuple of str
        How episodes can end, as a file has it: ``"dead"``, ``"1"``, ``"true"``.
    outcome_rewards : tuple of float
        What each outcome earns beside the reward of the last step; by default nothing.

    Raises
    ------
    ValueError
        If something else is given, or one of two that go together.

    Notes
    -----
    As a file, which `load` reads::

        person = "patient"
        episode = "stay"
        order = "hour"
        most_steps = 48
        most_episodes = 2

        [state.glucose]
        edges = [0, 4, 8, 12, 40]
        missing = true

        [state.ward]
        categories = ["medical", "surgical"]
        other = true

        [action.dose]
        count = 5                        # whole numbers 0 .. 4

        [reward]
        column = "score"
        low = 0
        high = 1

        [outcome]
        column = "left"
        values = ["well", "dead"]
        rewards = [1, -1]
    """

    person: str
    action: Schema
    state: Schema | None = None
    most_steps: int
    most_episodes: int = 1
    episode: str | None = None
    order: str | None = None
    consecutive: bool = False
    reward: str | None = None
    reward_bounds: tuple[float, float] | None = None
    outcome: str | None = None
    outcomes: tuple[str, ...] = ()
    outcome_rewards: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        check_name(self.person)
        for name in (self.episode, self.order, self.reward, self.outcome):
            if name is not None:
                check_name(name)
        for role in ("state", "action"):
            object.__setattr__(self, role, _check_cells(role, getattr(self, role)))
        for bound in ("most_steps", "most_episodes"):
            object.__setattr__(self, bound, check_count(bound, getattr(self, bound)))
        if self.episode is None and self.most_episodes > 1:
            raise ValueError(
                f"most_episodes must be 1 without a column of episodes, got {self.most_episodes}; "
                "name one as episode."
            )
        if check_truth("consecutive", self.consecutive) and self.order is None:
            raise ValueError("consecutive must be of a column of numbers; name one as order.")
        object.__setattr__(self, "reward_bounds", self._check_bounds())
        object.__setattr__(self, "outcomes", self._check_outcomes())
        object.__setattr__(self, "outcome_rewards", self._check_outcome_rewards())

    @property
    def n_states(self) -> int:
        """Number of states."""
        return 1 if self.state is None else math.prod(self.state.sizes)

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return math.prod(self.action.sizes)

    @property
    def space(self) -> LogSpace:
        """The public facts of a log with this schema."""
        return LogSpace(
            n_states=self.n_states,
            n_actions=self.n_actions,
            outcomes=self.outcomes,
            outcome_rewards=self.outcome_rewards,
            step_rewards=self.reward_bounds or (0.0, 0.0),
            most_steps=self.most_steps,
            most_episodes=self.most_episodes,
            unit=self.person,
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all columns that are read, each once."""
        state = () if self.state is None else self.state.names
        roles = (self.person, self.episode, self.order, *state, *self.action.names)
        named = (*roles, self.reward, self.outcome)
        return tuple(dict.fromkeys(name for name in named if name is not None))

    def to_dict(self) -> dict[str, Any]:
        """Return the schema as plain data, of the form that `from_dict` reads."""
        data: dict[str, Any] = {"person": self.person}
        if self.episode is not None:
            data["episode"] = self.episode
        if self.order is not None:
            data |= {"order": self.order, "consecutive": self.consecutive}
        data |= {"most_steps": self.most_steps, "most_episodes": self.most_episodes}
        for role, cells in (("state", self.state), ("action", self.action)):
            if cells is not None:
                data[role] = {name: _plain(column) for name, column in cells.columns.items()}
        if self.reward_bounds is not None:
            low, high = self.reward_bounds
            data["reward"] = {"column": self.reward, "low": low, "high": high}
        if self.outcome is not None:
            data["outcome"] = {
                "column": self.outcome,
                "values": list(self.outcomes),
                "rewards": list(self.outcome_rewards),
            }
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the schema that plain data describe.

        Parameters
        ----------
        data : mapping
            As in the file shown above. A column of states or actions is ``{"categories": [...]}``
            with perhaps ``"other"``, ``{"edges": [...]}`` with perhaps ``"missing"``, or
            ``{"count": n}`` with perhaps ``"other"``: the whole numbers 0 .. n − 1.

        Raises
        ------
        ValueError
            If a key is unknown or absent, or a value is of a wrong type.
        """
        _check_keys("a log's schema", data, {"person", "action", "most_steps"}, set(KEYS))
        given = {key: data[key] for key in data if key not in {"reward", "outcome"}}
        for role in ("state", "action"):
            if role in data:
                given[role] = _cells_of(role, data[role])
        if "reward" in data:
            reward = data["reward"]
            _check_keys("reward", reward, {"column", "low", "high"})
            given |= {"reward": reward["column"], "reward_bounds": (reward["low"], reward["high"])}
        if "outcome" in data:
            outcome = data["outcome"]
            _check_keys("outcome", outcome, {"column", "values"}, {"column", "values", "rewards"})
            given |= {
                "outcome": outcome["column"],
                "outcomes": _listing("values", outcome["values"]),
                "outcome_rewards": _listing("rewards", outcome.get("rewards", [])),
            }
        return cls(**given)

    @staticmethod
    def _unfilled(data: Any, path: Path) -> str:
        empty = still_empty(data, path)
        return f"still to be filled in: {', '.join(empty)}." if empty else ""

    def _check_bounds(self) -> tuple[float, float] | None:
        bounds = self.reward_bounds
        if (self.reward is None) != (bounds is None):
            raise ValueError(
                "reward and reward_bounds must be given together, got "
                f"{shown(self.reward)} and {shown(bounds)}."
            )
        return None if bounds is None else check_reward_bounds(bounds)

    def _check_outcomes(self) -> tuple[str, ...]:
        values = self.outcomes
        if not isinstance(values, tuple | list):
            raise ValueError(f"outcomes must be a list of texts, got {shown(values)}.")
        if (self.outcome is None) != (not values):
            raise ValueError(
                f"outcome and outcomes must be given together, got {shown(self.outcome)} and "
                f"{shown(values)}."
            )
        for value in values:
            if not isinstance(value, str) or not value:
                raise ValueError(f"outcomes must be texts that are not empty, got {shown(value)}.")
        if len(set(values)) < len(values) or len(values) >= 2**15:
            raise ValueError(
                f"outcomes must be different, and fewer than {2**15}, got {len(values)} of which "
                f"{len(set(values))} differ."
            )
        return tuple(map(str, values))

    def _check_outcome_rewards(self) -> tuple[float, ...]:
        rewards = self.outcome_rewards
        if not isinstance(rewards, tuple | list):
            raise ValueError(f"outcome_rewards must be a list of numbers, got {shown(rewards)}.")
        if rewards and len(rewards) != len(self.outcomes):
            raise ValueError(
                f"outcome_rewards must be as many as outcomes, {len(self.outcomes)}, got "
                f"{len(rewards)}."
            )
        return tuple(
            _number("outcome_rewards", each) for each in rewards or (0,) * len(self.outcomes)
        )


def still_empty(data: Any, path: Path) -> tuple[str, ...]:
    """Return the entries of a schema's file that a template leaves empty, with their lines.

    Parameters
    ----------
    data : plain data
        The content of the file, as far as it could be read.
    path : pathlib.Path
        The file; in a TOML file, lines are counted.
    """
    if not isinstance(data, Mapping):
        return ()
    found: list[tuple[tuple[str, ...], str]] = []
    found += [((), key) for key in ("person", "most_steps") if data.get(key) in ("", 0)]
    if data.get("action") == {}:
        found.append((("action",), ""))
    for role in ("state", "action"):
        cells = data.get(role)
        for name, each in cells.items() if isinstance(cells, Mapping) else ():
            if is_unfilled(each):
                found.append(((role, name), "edges" if "edges" in each else "categories"))
    for table in ("reward", "outcome"):
        entries = data.get(table)
        for key, each in entries.items() if isinstance(entries, Mapping) else ():
            if each in ("", []) and key != "rewards":
                found.append(((table,), key))
    lines = []
    if found and path.suffix.lower() == ".toml" and path.is_file():
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    return tuple(_place(table, key, lines) for table, key in found)


def _place(table: tuple[str, ...], key: str, lines: Sequence[str]) -> str:
    """Return what a message calls an entry of a file, with its line if it is found there."""
    header = tomli_w.dumps(nested(table, {})).strip()
    begin = lines.index(header) if header in lines else -1 if not header else len(lines)
    entry = re.compile(rf"{key}[ \t]*=" if key else re.escape(header))
    for number, line in enumerate(lines[max(begin, 0) :], max(begin, 0) + 1):
        if entry.match(line):
            return f"line {number} ({' '.join(filter(None, (header, key)))})"
    return " ".join(filter(None, (header, key)))


def check_reward_bounds(bounds: Any) -> tuple[float, float]:
    """Return the public lowest and highest reward, if they are."""
    if not isinstance(bounds, tuple | list) or len(bounds) != 2:
        raise ValueError(f"reward_bounds must be (low, high), got {shown(bounds)}.")
    low, high = (_number("reward_bounds", each) for each in bounds)
    if not low <= high:
        raise ValueError(f"reward_bounds must be (low, high), low first, got {shown(bounds)}.")
    return low, high


def _check_cells(role: str, cells: Any) -> Schema | None:
    if cells is None and role == "state":
        return None
    try:
        schema = cells if isinstance(cells, Schema) else Schema(cells)
    except ValueError as error:
        raise ValueError(f"{role}: {error}") from None
    for name, column in schema.columns.items():
        if releases_of(column):
            raise ValueError(
                f"{role}: the edges of {shown(name)} must be public, got bins that discretise "
                "released: their guarantee is about records, and that of a log about persons."
            )
    if math.prod(schema.sizes) > _MOST_CELLS:
        raise ValueError(
            f"{role} must have at most {_MOST_CELLS} cells in all, got {math.prod(schema.sizes)}; "
            "make them coarser."
        )
    return schema


def _cells_of(role: str, data: Any) -> dict[str, Column]:
    if not isinstance(data, Mapping):
        raise ValueError(f"{role} must map names of columns to what they hold, got {shown(data)}.")
    return {name: column_of(name, _spelt_out(name, each)) for name, each in data.items()}


def _spelt_out(name: str, data: Any) -> Any:
    """Return plain data of a column with its categories, where it has their count."""
    if isinstance(data, Mapping) and "range" in data:
        raise ValueError(
            f"column {shown(name)} must have cells, got a range; ContinuousSchema reads schemas "
            "with ranges."
        )
    if not isinstance(data, Mapping) or "count" not in data:
        return data
    _check_keys(f"column {name!r}", data, {"count"}, {"count", "other"})
    count = check_count(f"count of {name!r}", data["count"], 1, _MOST_CELLS)
    return {"categories": list(range(count)), "other": data.get("other", False)}


def _plain(column: Column) -> dict[str, Any]:
    if isinstance(column, Categories):
        values = column.values
        if {type(value) for value in values} == {int} and values == tuple(range(len(values))):
            return {"count": len(values), "other": column.other}
    return plain(column)


def _check_keys(what: str, data: Any, needed: set[str], allowed: set[str] | None = None) -> None:
    allowed = needed if allowed is None else allowed
    if not isinstance(data, Mapping) or not needed <= set(data) <= allowed:
        keys = listed(data) if isinstance(data, Mapping) else shown(data)
        perhaps = f", and perhaps {listed(sorted(allowed - needed))}" if allowed > needed else ""
        raise ValueError(f"{what} must have {listed(sorted(needed))}{perhaps}, got {keys}.")


def _listing(name: str, values: Any) -> tuple[Any, ...]:
    if not isinstance(values, list | tuple):
        raise ValueError(f"{name} must be a list, got {shown(values)}.")
    return tuple(values)


def _number(name: str, value: Any) -> float:
    number = check_between(name, value, -1e100, 1e100)
    check_reward(name, number)
    return number


def cell_labels(cells: Schema | None) -> tuple[str, ...] | None:
    """Return a label for each state, or action, such as ``"glucose [4, 8), ward medical"``.

    Parameters
    ----------
    cells : Schema or None
        The columns that it is made of, as `LogSchema` has them.

    Returns
    -------
    tuple of str or None
        In the order of numbers. None if numbers are as good: more than `MOST_LABELS` cells, equal
        labels, or unprintable ones.
    """
    if cells is None:
        return ("any",)
    if math.prod(cells.sizes) > MOST_LABELS:
        return None
    of_columns = (
        [f"{name} {label}" for label in column.labels] for name, column in cells.columns.items()
    )
    labels = tuple(map(", ".join, product(*of_columns)))
    told_apart = len(set(labels)) == len(labels)
    return labels if told_apart and all(map(str.isprintable, labels)) else None
