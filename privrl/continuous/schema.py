"""The public facts about a log of continuous states: columns, ranges, rewards and ends."""

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, Final, Self

import numpy as np

from privrl.files.files import read_bytes
from privrl.files.plain import listed
from privrl.files.shown import shown
from privrl.numerics.checks import check_count, check_finite, check_is
from privrl.numerics.typing import BoolArray, FloatArray

# Of ranges: squares of squares are floats then, and environments observe in 32 bits.
_SMALLEST: Final = 1e-30
_LARGEST: Final = 1e30


@dataclass(frozen=True, kw_only=True)
class Number:
    """A numeric column with public bounds; values outside are clipped.

    Parameters
    ----------
    low, high : float
        The bounds, within 1e30 of 0 and at least 1e-30 apart. Of a periodic column they are one
        period apart.
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
            raise ValueError(f"range must be two numbers, the lower first, got {low:g}, {high:g}.")
        if high - low < _SMALLEST or max(-low, high) > _LARGEST:
            raise ValueError(
                f"range must be at least {_SMALLEST:g} wide, and within {_LARGEST:g} of 0, got "
                f"{low:g}, {high:g}; use another unit."
            )
        check_is("periodic", self.periodic, bool)
        if self.levels is not None:
            check_count("levels", self.levels, 2)
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    @property
    def width(self) -> float:
        """The length of the range."""
        return self.high - self.low

    def inside(self, values: FloatArray) -> FloatArray:
        """Return values within the range: wrapped if the column is periodic, else clipped."""
        if self.periodic:
            wrapped: FloatArray = (values - self.low) % self.width + self.low
            return wrapped
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
        object.__setattr__(self, "values", values)

    def inside(self, values: FloatArray) -> FloatArray:
        """Return the numbers of categories, clipped to those that exist."""
        return np.clip(np.rint(values), 0, len(self.values) - 1)


Column = Number | Choice
_MOST_ACTIONS: Final = 10_000  # a planner predicts each of them in each state


@dataclass(frozen=True, kw_only=True)
class ContinuousSchema:
    """The public columns of a log in which each row is a step of a person.

    Parameters
    ----------
    state, action : mapping from str to Number or Choice
        The columns of a state and of an action. A numeric action needs ``levels``.
    reward : Number, optional
        The bounds of rewards, if the log has any.
    terminates : bool
        Whether the log has a flag for steps at which an episode terminated.
    person, episode, order, reward_column, terminated_column : str, optional
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

    In the last row of an episode the action is ignored, and its state ends the step before,
    unless the row has ``terminated`` set: then its own next state is taken to be itself.
    """

    state: Mapping[str, Column]
    action: Mapping[str, Column]
    reward: Number | None = None
    terminates: bool = False
    person: str = "person"
    episode: str | None = None
    order: str | None = None
    reward_column: str | None = None
    terminated_column: str | None = None
    levels: FloatArray = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for role in ("state", "action"):
            columns = getattr(self, role)
            if not isinstance(columns, Mapping) or not columns:
                raise ValueError(f"{role} must name at least one column.")
            for name, column in columns.items():
                check_is(f"{role} {shown(name)}", column, Number, Choice)
            object.__setattr__(self, role, dict(columns))
        for name, column in self.action.items():
            if isinstance(column, Number) and column.levels is None:
                raise ValueError(
                    f"action {shown(name)} must have levels: between how many evenly spaced values "
                    "a planner chooses."
                )
        if self.reward is not None:
            check_is("reward", self.reward, Number)
        check_is("terminates", self.terminates, bool)
        sizes = [_n_levels(column) for column in self.action.values()]
        if math.prod(sizes) > _MOST_ACTIONS:
            raise ValueError(
                f"action must have at most {_MOST_ACTIONS} combinations of levels, got "
                f"{math.prod(sizes)}."
            )
        grids = [_levels(column) for column in self.action.values()]
        levels = np.array(list(product(*grids)), np.float64)
        levels.setflags(write=False)
        object.__setattr__(self, "levels", levels)

    @property
    def n_state(self) -> int:
        """How many columns a state has."""
        return len(self.state)

    @property
    def n_actions(self) -> int:
        """How many actions a planner chooses between: all combinations of levels."""
        return len(self.levels)

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

    def plain(self) -> dict[str, Any]:
        """Return the schema as plain data, as `of` reads it."""
        page: dict[str, Any] = {"person": self.person}
        named = {"episode": self.episode, "order": self.order}
        page |= {key: name for key, name in named.items() if name is not None}
        if self.terminates:
            page["terminated"] = self.terminated_column or "terminated"
        for role in ("state", "action"):
            page[role] = {name: _plain(column) for name, column in getattr(self, role).items()}
        if self.reward is not None:
            page["reward"] = {"column": self.reward_column or "reward"} | _plain(self.reward)
        return page

    @classmethod
    def of(cls, page: Any) -> Self:
        """Return the schema of plain data.

        Raises
        ------
        ValueError
            If an entry is missing, unknown or out of range.
        """
        known = {"person", "episode", "order", "terminated", "state", "action", "reward"}
        if not isinstance(page, dict) or set(page) - known:
            got = listed(set(page) - known) if isinstance(page, dict) else type(page).__name__
            raise ValueError(f"entries must be among {listed(sorted(known))}, got {got}.")
        for name in ("person", "episode", "order", "terminated"):
            check_is(name, page.get(name, ""), str)
        reward = page.get("reward")
        if reward is not None and (not isinstance(reward, dict) or "column" not in reward):
            raise ValueError("reward must have the entries column and range.")
        if reward is not None:
            reward = dict(reward)
        return cls(
            state=_columns("state", page.get("state")),
            action=_columns("action", page.get("action")),
            terminates="terminated" in page,
            terminated_column=page.get("terminated"),
            person=page.get("person", "person"),
            episode=page.get("episode"),
            order=page.get("order"),
            reward_column=None if reward is None else str(reward.pop("column")),
            reward=None if reward is None else _number("reward", reward),
        )

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read the schema from a TOML file.

        Raises
        ------
        ValueError
            If the file is not TOML, or an entry is out of range.
        OSError
            If the file cannot be read.
        """
        try:
            return cls.of(tomllib.loads(read_bytes(Path(path)).decode("utf-8-sig")))
        except RecursionError:
            raise ValueError(f"{Path(path).name}: brackets are nested too deeply.") from None
        except ValueError as error:
            raise ValueError(f"{Path(path).name}: {error}") from None


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


def _columns(role: str, page: Any) -> dict[str, Column]:
    if not isinstance(page, dict):
        raise ValueError(f"{role} must be a table of columns, such as [{role}.x].")
    return {name: _column(f"{role}.{name}", entry) for name, entry in page.items()}


def _column(name: str, page: Any) -> Column:
    if isinstance(page, dict) and set(page) == {"categories"}:
        check_is(f"{name}.categories", page["categories"], list)
        return Choice(values=tuple(page["categories"]))
    return _number(name, page)


def _number(name: str, page: Any) -> Number:
    known = {"range", "periodic", "levels"}
    if not isinstance(page, dict) or "range" not in page or set(page) - known:
        raise ValueError(
            f"{name} must have range = [low, high], and may have periodic and levels, or must have "
            "categories alone."
        )
    bounds = page["range"]
    if not isinstance(bounds, list) or len(bounds) != 2:
        raise ValueError(f"{name}.range must be [low, high].")
    rest = {key: page[key] for key in ("periodic", "levels") if key in page}
    return Number(low=bounds[0], high=bounds[1], **rest)
