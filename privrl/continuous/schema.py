"""The public facts about a log of continuous states: columns, ranges, rewards and ends."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from itertools import product
from types import MappingProxyType
from typing import Any, Final, Self

import numpy as np

from privrl.data.schema.plain import PlainFile, check_name
from privrl.files.plain import check_writable, listed
from privrl.files.shown import shown
from privrl.numerics.checks import check_count, check_finite, check_is
from privrl.numerics.typing import BoolArray, FloatArray

# Of ranges: squares of squares are floats then, and environments observe in 32 bits.
_SMALLEST: Final = 1e-30
_LARGEST: Final = 1e30
_NARROWEST: Final = 1e-9  # as a part of the bounds: floats between them are close enough for grids


@dataclass(frozen=True, kw_only=True)
class Number:
    """A numeric column with public bounds; values outside are clipped.

    Parameters
    ----------
    low, high : float
        The bounds, within 1e30 of 0, and at least 1e-30 and a part 1e-9 of the larger one apart. Of
        a periodic column they are one period apart.
    periodic : bool
        Whether ``low`` and ``high`` are the same point, as for an angle. Values are wrapped then.
    levels : int, optional
        Of an action: how many evenly spaced values a planner chooses between.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """

    low: float
    high: float
    periodic: bool = False
    levels: int | None = None

    def __post_init__(self) -> None:
        low, high = check_finite("low", self.low), check_finite("high", self.high)
        if not (low < high and math.isfinite(high - low)):
            raise ValueError(f"range must be two numbers, the lower first, got {low}, {high}.")
        if high - low < _SMALLEST or max(-low, high) > _LARGEST:
            raise ValueError(
                f"range must be at least {_SMALLEST:g} wide, and within {_LARGEST:g} of 0, got "
                f"{low}, {high}; use another unit."
            )
        if high - low < _NARROWEST * max(abs(low), abs(high)):
            raise ValueError(
                f"range must be at least {_NARROWEST:g} of its bounds wide, so that floats tell "
                f"values apart, got {low}, {high}; count from another zero."
            )
        check_is("periodic", self.periodic, bool)
        if self.levels is not None:
            object.__setattr__(self, "levels", check_count("levels", self.levels, 2))
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    @property
    def width(self) -> float:
        """The length of the range."""
        return self.high - self.low

    def inside(self, values: FloatArray) -> FloatArray:
        """Return values within the range: wrapped if the column is periodic, else clipped."""
        if self.periodic:
            return (values - self.low) % self.width + self.low
        return np.clip(values, self.low, self.high)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A categorical column with public values, numbered from 0 in logs and states.

    Parameters
    ----------
    values : sequence of str
        The categories, at least two.

    Raises
    ------
    ValueError
        If there are fewer, or one is listed twice.
    """

    values: tuple[str, ...]

    def __post_init__(self) -> None:
        values = tuple(map(str, self.values))
        if len(values) < 2 or len(set(values)) < len(values):
            raise ValueError(f"values must be two or more different texts, got {shown(values)}.")
        for value in values:
            check_writable("a category", value)
        object.__setattr__(self, "values", values)

    def inside(self, values: FloatArray) -> FloatArray:
        """Return the numbers of categories, clipped to those that exist."""
        return np.clip(np.rint(values), 0, len(self.values) - 1)


Column = Number | Choice
_MOST: Final = 10_000  # actions, each of which a planner predicts in each state; categories


@dataclass(frozen=True, kw_only=True)
class ContinuousSchema(PlainFile):
    """The public columns of a log in which each row is a step of a person.

    Parameters
    ----------
    state, action : mapping from str to Number or Choice
        The columns of a state and of an action. A numeric action needs ``levels``.
    reward : Number, optional
        The bounds of rewards, if the log has any.
    terminates : bool
        Whether the log has a flag for steps at which an episode terminated.
    person, episode, order, reward_column, terminated_column : str
        Names of columns in files and data frames; arrays need none. Without ``episode``, each
        person has one. Without ``order``, rows are in order as they are.

    Raises
    ------
    ValueError
        If a column is missing or is not one.

    Notes
    -----
    As a file, which `load` reads::

        person = "patient"
        episode = "stay"
        order = "hour"
        terminated = "left"

        [state.glucose]
        range = [40, 400]

        [state.phase]
        range = [0, 24]
        periodic = true

        [state.ward]
        categories = ["medical", "surgical"]

        [action.dose]
        range = [0, 4]
        levels = 5

        [reward]
        column = "score"
        range = [-1, 0]

    Flags are truth values, or numbers other than 0; a missing one is not set. In the last row of an
    episode the action is ignored, and its state ends the step before,
    unless the row has ``terminated`` set: then its own next state is taken to be itself.
    """

    state: Mapping[str, Column]
    action: Mapping[str, Column]
    reward: Number | None = None
    terminates: bool = False
    person: str = "person"
    episode: str | None = None
    order: str | None = None
    reward_column: str = "reward"
    terminated_column: str = "terminated"
    levels: FloatArray = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for named in (self.person, self.reward_column, self.terminated_column):
            check_name(named)
        for role in ("state", "action"):
            columns = getattr(self, role)
            if not isinstance(columns, Mapping) or not columns:
                raise ValueError(f"{role} must name at least one column.")
            for name, column in columns.items():
                check_name(name)
                check_is(f"{role} {shown(name)}", column, Number, Choice)
            object.__setattr__(self, role, MappingProxyType(dict(columns)))
        for name, column in self.action.items():
            if isinstance(column, Number) and column.levels is None:
                raise ValueError(
                    f"action {shown(name)} must have levels: between how many evenly spaced values "
                    "a planner chooses."
                )
        for perhaps in (self.episode, self.order):
            if perhaps is not None:
                check_name(perhaps)
        if self.reward is not None:
            check_is("reward", self.reward, Number)
        check_is("terminates", self.terminates, bool)
        sizes = [_n_levels(column) for column in self.action.values()]
        if math.prod(sizes) > _MOST:
            raise ValueError(
                f"action must have at most {_MOST} combinations of levels, got {math.prod(sizes)}."
            )
        grids = [_levels(column) for column in self.action.values()]
        levels = np.array(list(product(*grids)), np.float64)
        levels.setflags(write=False)
        object.__setattr__(self, "levels", levels)

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        # A read-only view of a dictionary cannot be pickled or copied.
        values = {each.name: getattr(self, each.name) for each in fields(self) if each.init}
        columns = {"state": dict(self.state), "action": dict(self.action)}
        return partial(type(self), **values | columns), ()

    @property
    def n_state(self) -> int:
        """How many columns a state has."""
        return len(self.state)

    @property
    def n_actions(self) -> int:
        """How many actions a planner chooses between: all combinations of levels."""
        return len(self.levels)

    @property
    def action_names(self) -> tuple[str, ...]:
        """A label for each action, such as ``"dose 0.5, ward surgical"``."""
        of_columns = (
            [f"{name} {value}" for value in column.values]
            if isinstance(column, Choice)
            else [f"{name} {value:.6g}" for value in _levels(column)]
            for name, column in self.action.items()
        )
        return tuple(map(", ".join, product(*of_columns)))

    @property
    def periodic(self) -> BoolArray:
        """Which state columns are periodic, shape (n_state,)."""
        return np.array([isinstance(c, Number) and c.periodic for c in self.state.values()])

    def inside(self, states: FloatArray) -> FloatArray:
        """Return states, shape (N, n_state), wrapped and clipped to their public ranges."""
        return _inside(self.state, states)

    def actions_inside(self, actions: FloatArray) -> FloatArray:
        """Return actions, shape (N, n_columns), clipped to their public ranges."""
        return _inside(self.action, actions)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all columns of a file, each once."""
        named = [self.person, self.episode, self.order, *self.state, *self.action]
        if self.reward is not None:
            named.append(self.reward_column)
        if self.terminates:
            named.append(self.terminated_column)
        return tuple(dict.fromkeys(name for name in named if name is not None))

    def to_dict(self) -> dict[str, Any]:
        """Return the schema as plain data, of the form that `from_dict` reads."""
        page: dict[str, Any] = {"person": self.person}
        named = {"episode": self.episode, "order": self.order}
        page |= {key: name for key, name in named.items() if name is not None}
        if self.terminates:
            page["terminated"] = self.terminated_column
        for role in ("state", "action"):
            page[role] = {name: _plain(column) for name, column in getattr(self, role).items()}
        if self.reward is not None:
            page["reward"] = {"column": self.reward_column} | _plain(self.reward)
        return page

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """Return the schema of plain data, as in the file shown above.

        Raises
        ------
        ValueError
            If an entry is missing, unknown or out of range.
        """
        known = {"person", "episode", "order", "terminated", "state", "action", "reward"}
        if not isinstance(data, Mapping) or set(data) - known:
            got = listed(sorted(set(data) - known)) if isinstance(data, Mapping) else shown(data)
            raise ValueError(
                f"a schema with ranges may have {listed(sorted(known))}, got {got}; leave that out."
            )
        reward = data.get("reward")
        if reward is not None and (not isinstance(reward, Mapping) or "column" not in reward):
            raise ValueError("reward must have the entries column and range.")
        rewards = {key: each for key, each in (reward or {}).items() if key != "column"}
        return cls(
            state=_columns("state", data.get("state")),
            action=_columns("action", data.get("action")),
            terminates="terminated" in data,
            terminated_column=data.get("terminated", "terminated"),
            person=data.get("person", "person"),
            episode=data.get("episode"),
            order=data.get("order"),
            reward_column="reward" if reward is None else reward["column"],
            reward=None if reward is None else _number("reward", rewards),
        )


def has_ranges(data: Any) -> bool:
    """Whether plain data of a log's schema have a column with a range, as `ContinuousSchema`."""
    roles = (data.get(role) for role in ("state", "action")) if isinstance(data, Mapping) else ()
    cells = [each for role in roles if isinstance(role, Mapping) for each in role.values()]
    return any(isinstance(each, Mapping) and "range" in each for each in cells)


def _n_levels(column: Column) -> int:
    return len(column.values) if isinstance(column, Choice) else column.levels or 2


def _levels(column: Column) -> list[float]:
    if isinstance(column, Choice):
        return [float(k) for k in range(len(column.values))]
    return np.linspace(column.low, column.high, _n_levels(column)).tolist()


def _inside(columns: Mapping[str, Column], values: FloatArray) -> FloatArray:
    return np.stack([c.inside(values[:, i]) for i, c in enumerate(columns.values())], axis=1)


def _plain(column: Column) -> dict[str, Any]:
    if isinstance(column, Choice):
        return {"categories": list(column.values)}
    page: dict[str, Any] = {"range": [column.low, column.high]}
    if column.periodic:
        page["periodic"] = True
    return page if column.levels is None else page | {"levels": column.levels}


def _columns(role: str, data: Any) -> dict[str, Column]:
    if not isinstance(data, Mapping):
        raise ValueError(f"{role} must be a table of columns, such as [{role}.x].")
    return {name: _column(f"{role}.{name}", each) for name, each in data.items()}


def _column(name: str, data: Any) -> Column:
    if isinstance(data, Mapping) and set(data) == {"count"}:
        count = check_count(f"{name}.count", data["count"], 2, _MOST)
        return Choice(values=tuple(map(str, range(count))))
    if isinstance(data, Mapping) and set(data) == {"categories"}:
        check_is(f"{name}.categories", data["categories"], list)
        return Choice(values=tuple(data["categories"]))
    return _number(name, data)


def _number(name: str, data: Any) -> Number:
    if not isinstance(data, Mapping) or not {"range"} <= set(data) <= {
        "range",
        "periodic",
        "levels",
    }:
        got = listed(data) if isinstance(data, Mapping) else shown(data)
        raise ValueError(
            f"{name} must have range = [low, high] and perhaps periodic and levels, or categories "
            f"or a count alone, as other columns have ranges; got {got}."
        )
    bounds = data["range"]
    if not isinstance(bounds, list | tuple) or len(bounds) != 2:
        raise ValueError(f"{name}.range must be [low, high], got {shown(bounds)}.")
    rest = {key: data[key] for key in ("periodic", "levels") if key in data}
    return Number(low=bounds[0], high=bounds[1], **rest)
