"""Logs of continuous states in memory: transitions, grouped by person."""

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import chain
from typing import Any, Final, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from privrl.continuous.schema import Choice, ContinuousSchema
from privrl.data.logs.episodes import Person, load_minari, with_persons
from privrl.data.logs.parts import NO_NAME, Names, Part, flags_in, name_of, numbers_in, part_of
from privrl.data.schema.entries import objects
from privrl.data.schema.others import as_column, as_frame
from privrl.files.fixed import FixedArrays
from privrl.files.plain import listed
from privrl.numerics.checks import check_is, plain_array
from privrl.numerics.typing import BoolArray, FloatArray, IntArray

#: Of each array its type, the kinds of NumPy's that it is made of, and these in words.
_HELD: Final[dict[str, tuple[type, str, str]]] = {
    **dict.fromkeys(("state", "action", "next_state", "reward"), (np.float64, "iuf", "numbers")),
    "terminated": (np.bool_, "b", "truth values"),
    "offsets": (np.intp, "iu", "whole numbers"),
}


@dataclass(frozen=True, eq=False, repr=False)
class ContinuousLog(FixedArrays):
    """Transitions of persons; `of_arrays` and `read_continuous_log` make one.

    Attributes
    ----------
    schema : ContinuousSchema
        The public facts.
    state, next_state : array, shape (N, n_state)
        Within their ranges; categories are numbers from 0.
    action : array, shape (N, n_columns)
        Within its ranges.
    reward : array, shape (N,), or None
    terminated : array of bool, shape (N,), or None
    offsets : array of int, shape (n_persons + 1,)
        The rows of person i are ``offsets[i] : offsets[i + 1]``.
    unit : str
        What a person is here, and statements name as the privacy unit: by default the schema's
        column of persons; ``"episode"`` where each episode is a person's own.

    Raises
    ------
    ValueError
        If the arrays do not fit together, or the schema. No message shows a value.
    """

    schema: ContinuousSchema
    state: FloatArray
    action: FloatArray
    next_state: FloatArray
    reward: FloatArray | None
    terminated: BoolArray | None
    offsets: IntArray
    unit: str = ""

    def __post_init__(self) -> None:
        check_is("schema", self.schema, ContinuousSchema)
        check_is("unit", self.unit, str)
        for name, (dtype, kinds, words) in _HELD.items():
            values = getattr(self, name)
            if values is None and name in ("reward", "terminated"):
                continue
            # One type each, whatever it came as: of unsigned offsets no difference is negative.
            array = plain_array(name, values)
            if array.dtype.kind not in kinds:
                raise ValueError(f"{name} must be an array of {words}.")
            with np.errstate(all="ignore"):  # a warning would tell of longer floats
                array = array.astype(dtype, copy=False)
            # Whose a row is was checked for good: nobody else can write to a copy.
            array = array.copy() if name == "offsets" else array.view()
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        self._check()
        object.__setattr__(self, "unit", self.unit or self.schema.person)

    def _check(self) -> None:
        """Check that the arrays fit together, and the schema."""
        schema, offsets = self.schema, self.offsets
        n = len(self.state) if self.state.ndim else 0
        tables: dict[str, tuple[int, ...] | None] = {
            "state": (n, schema.n_state),
            "next_state": (n, schema.n_state),
            "action": (n, len(schema.action)),
            "reward": None if schema.reward is None else (n,),
            "terminated": (n,) if schema.terminates else None,
        }
        for name, shape in tables.items():
            values = getattr(self, name)
            if getattr(values, "shape", None) != shape or not (
                values is None or np.isfinite(values).all()
            ):
                raise ValueError("arrays must be of the schema's columns, a row for each step.")
        # Else a row would be of several persons, or of none.
        ends = [*offsets[:1], *offsets[-1:]] if offsets.ndim == 1 else []
        if ends != [0, n] or (np.diff(offsets) < 0).any():
            raise ValueError("offsets must not fall, from 0 to the number of rows.")

    def __repr__(self) -> str:  # of nothing private
        return f"ContinuousLog(schema={self.schema!r})"

    @property
    def n_persons(self) -> int:
        """The number of persons: private under add or remove."""
        return len(self.offsets) - 1

    @classmethod
    def of_arrays(
        cls,
        schema: ContinuousSchema,
        *,
        person: ArrayLike,
        state: ArrayLike,
        action: ArrayLike,
        next_state: ArrayLike,
        reward: ArrayLike | None = None,
        terminated: ArrayLike | None = None,
    ) -> Self:
        """Return a log of arrays that have a row for each transition.

        Parameters
        ----------
        schema : ContinuousSchema
            The public facts.
        person : array_like, shape (N,)
            Whole numbers or texts, as in `privrl.data.logs.read_log`.
        state, next_state : array_like, shape (N, n_state)
        action : array_like, shape (N, n_columns) or (N,)
            Values of the action's columns.
        reward, terminated : array_like, shape (N,), optional
            Needed if the schema has them.

        Raises
        ------
        ValueError
            If an array is absent or has another shape or type.

        Notes
        -----
        Entries are read as by `from_buffer`. Rows of nobody, or with something else than finite
        numbers and flags, are left out. Truth values are not numbers; a missing flag is not set.
        """
        check_is("schema", schema, ContinuousSchema)
        given = {"person": person, "reward": reward, "terminated": terminated}
        given |= {"state": state, "next_state": next_state, "action": action}
        arrays: dict[str, FloatArray] = {}
        for name, width in _widths(schema).items():
            if given[name] is None:
                raise ValueError(f"{name} must be given: the schema has it.")
            parts = _columns(given[name], width or 1, name, strict=True)
            arrays[name] = _numbers(parts) if width else _READERS[name](parts[0])
        if len(set(map(len, arrays.values()))) > 1:  # how many rows there are is private
            raise ValueError(f"{listed(arrays)} must have one shape (N, ...), a row for each step.")
        return cls.grouped(schema, arrays)

    @classmethod
    def grouped(
        cls, schema: ContinuousSchema, arrays: dict[str, FloatArray], unit: str = ""
    ) -> Self:
        """Return a log of checked arrays with a row for each transition, in any order."""
        fits = np.ones(len(arrays["person"]), np.bool_)
        for values in arrays.values():
            finite = np.isfinite(values)
            fits &= finite if values.ndim == 1 else finite.all(axis=1)
        order = np.argsort(arrays["person"], kind="stable")
        order = order[fits[order]]
        person = arrays["person"][order]
        first = np.flatnonzero(person[1:] != person[:-1]) + 1
        offsets = np.concatenate([[0], first, [len(person)]]) if len(person) else np.zeros(1)
        reward, ended = arrays.get("reward"), arrays.get("terminated")
        if reward is not None and schema.reward is not None:
            reward = schema.reward.inside(reward[order])
        return cls(
            schema,
            schema.inside(arrays["state"][order]),
            schema.actions_inside(arrays["action"][order]),
            schema.inside(arrays["next_state"][order]),
            reward,
            None if ended is None else ended[order] != 0,
            offsets.astype(np.intp),
            unit,
        )

    @classmethod
    def from_buffer(
        cls, episodes: Iterable[Any], schema: ContinuousSchema, *, person: Person | None = None
    ) -> Self:
        """Return the log of episodes as Minari's `EpisodeBuffer` and `EpisodeData` hold them.

        Parameters
        ----------
        episodes : iterable of objects
            Each with ``observations``, of shape (n + 1, n_state), ``actions``, of shape
            (n, n_columns) or (n,), and, if the schema has them, ``rewards`` and ``terminations``,
            of shape (n,). Categories are numbers from 0.
        schema : ContinuousSchema
            The public facts.
        person : callable or sequence, optional
            Whose each episode is, as for `privrl.data.logs.from_buffer`; by default each episode is
            a person's own, and statements name it as the privacy unit.

        Raises
        ------
        ValueError
            If an argument is of another type, or ``person`` lists another number than that of the
            episodes.

        Notes
        -----
        Lists and arrays of objects are read entry by entry, as files are: an entry that is no
        number, or no flag, leaves out the steps that it belongs to. A person with an episode that
        does not fit (lists of other lengths, arrays of other shapes or types) is left out
        altogether, without a message. An end before the last step is one of that step alone: else a
        replaced step would change all others.
        """
        check_is("schema", schema, ContinuousSchema)
        return cls._of_episodes(episodes, schema, person, (np.zeros(1), np.zeros(1)))

    @classmethod
    def from_minari(
        cls,
        dataset: "Any | str | os.PathLike[str]",
        schema: ContinuousSchema,
        *,
        person: Person | None = None,
    ) -> Self:
        """Return the log in a data set of Minari's.

        Parameters
        ----------
        dataset : minari.MinariDataset, str or pathlib.Path
            The data set, its name, by which `minari.load_dataset` finds it on this machine, or its
            folder. Its spaces are Box, Discrete or MultiDiscrete.
        schema : ContinuousSchema
            The public ranges, which need not be those of the spaces: many are infinite.
        person : callable or sequence, optional
            Whose each episode is, as for `from_buffer`.

        Raises
        ------
        ValueError
            If a space has another number of columns than the schema, or as `from_buffer`.
        ImportError
            If Minari is needed and not installed.
        FileNotFoundError
            If this machine has no data set of that name.
        """
        check_is("schema", schema, ContinuousSchema)
        if isinstance(dataset, str | os.PathLike):
            dataset = load_minari(dataset)
        spaces = import_module("gymnasium").spaces
        kinds = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete)
        first = []
        for name, columns in (("observation", schema.state), ("action", schema.action)):
            space = getattr(dataset, f"{name}_space", None)
            if not isinstance(space, kinds) or math.prod(space.shape) != len(columns):
                raise ValueError(
                    f"dataset must have {name}s of the schema's {len(columns)} columns "
                    f"{listed(columns)}, got {type(space).__name__}"
                    f"{getattr(space, 'shape', '')}; write a schema for them."
                )
            starts = np.broadcast_to(np.ravel(getattr(space, "start", 0)), (len(columns),))
            of_choices = [isinstance(column, Choice) for column in columns.values()]
            first.append(np.where(of_choices, starts, 0.0))
        return cls._of_episodes(dataset.iterate_episodes(), schema, person, (first[0], first[1]))

    @classmethod
    def _of_episodes(
        cls,
        episodes: Iterable[Any],
        schema: ContinuousSchema,
        person: Person | None,
        first: tuple[FloatArray, FloatArray],
    ) -> Self:
        """Return the log of episodes; ``first`` is how each column's categories begin."""
        places: dict[Any, int] = {}
        widths = _widths(schema)
        none = {
            name: np.empty(0 if width is None else (0, width)) for name, width in widths.items()
        }
        kept: list[dict[str, FloatArray]] = [none]
        bad: list[float] = []
        for number, (episode, whose) in enumerate(with_persons(episodes, person)):
            key = number if person is None else name_of(whose)
            if key in (None, NO_NAME):
                continue
            place = float(places.setdefault(key, len(places)))
            steps = _steps(episode, schema, first)
            if steps is None:
                bad.append(place)
            else:
                kept.append(steps | {"person": np.full(len(steps["state"]), place)})
        arrays = {name: np.concatenate([each[name] for each in kept]) for name in kept[0]}
        good = ~np.isin(arrays["person"], bad)
        with np.errstate(all="ignore"):
            return cls.grouped(
                schema,
                {name: each[good] for name, each in arrays.items()},
                unit="episode" if person is None else "",
            )

    def blocks(self, most_rows: int) -> Iterator["ContinuousLog"]:
        """Yield logs of whole persons, each with about ``most_rows`` rows."""
        first = 0
        while first < self.n_persons:
            end = int(np.searchsorted(self.offsets, self.offsets[first] + most_rows, "right")) - 1
            last = max(min(end, self.n_persons), first + 1)
            rows = slice(self.offsets[first], self.offsets[last])
            part: dict[str, Any] = {name: getattr(self, name) for name in _HELD}
            part = {name: None if each is None else each[rows] for name, each in part.items()}
            part["offsets"] = self.offsets[first : last + 1] - self.offsets[first]
            yield replace(self, **part)
            first = last


def _widths(schema: ContinuousSchema) -> dict[str, int | None]:
    """Return the arrays of a log and their widths; None for one with a number for each step."""
    flat = [
        "person",
        *["reward"] * (schema.reward is not None),
        *["terminated"] * schema.terminates,
    ]
    tables = {"state": schema.n_state, "next_state": schema.n_state, "action": len(schema.action)}
    return dict.fromkeys(flat) | tables


def _steps(
    episode: Any, schema: ContinuousSchema, first: tuple[FloatArray, FloatArray]
) -> dict[str, FloatArray] | None:
    """Return the transitions of an episode, or none if it does not fit."""
    try:
        with np.errstate(all="ignore"):  # of longer floats, which a warning would tell
            seen = _numbers(_columns(episode.observations, schema.n_state)) - first[0]
            steps = {
                "state": seen[:-1],
                "action": _numbers(_columns(episode.actions, len(schema.action))) - first[1],
                "next_state": seen[1:],
            }
            if schema.reward is not None:
                steps["reward"] = numbers_in(_columns(episode.rewards, 1)[0])
            if schema.terminates:
                steps["terminated"] = flags_in(_columns(episode.terminations, 1)[0])
    except Exception:  # whatever an episode holds, no other person is to notice
        return None
    return steps if {len(each) for each in steps.values()} == {len(seen) - 1} else None


def _numbers(columns: Sequence[Part]) -> FloatArray:
    """Return the numbers of each step as a row; a ValueError for a type that holds none."""
    return np.stack([numbers_in(part) for part in columns], axis=1)


def _persons(part: Part) -> FloatArray:
    """Return small numbers of persons in the order of their names, NaN of nobody."""
    names = Names()
    number = names.numbers(part)
    return np.append(names.ranks(), np.nan)[number]


_READERS: Final = {"person": _persons, "reward": numbers_in, "terminated": flags_in}


def _columns(values: Any, width: int, name: str = "values", *, strict: bool = False) -> list[Part]:
    """Return the columns of what holds an entry or a row for each step.

    The type of an array or of a column is that of all steps. A list has none: NumPy infers it from
    all steps, so that one of them would decide how all others are read, or whether. A step of a
    list with another number of entries has none that is a number, or is refused.
    """
    frame = as_frame(values)
    if isinstance(frame, pd.DataFrame):
        columns = [frame.iloc[:, k] for k in range(frame.shape[1])]
    elif width == 1 and _is_column(frame):
        columns = [as_column(frame, name)]
    else:
        columns = list(_table(frame, width, name, strict=strict).T)
    if len(columns) != width:
        raise ValueError(
            f"{name} must be an array or a list of shape (N, {width}), with a row for each step."
        )
    return [part_of(each, name) for each in columns]


def _is_column(values: Any) -> bool:
    """Whether values are a column of a data frame, whose type NumPy may not have."""
    return type(values).__module__.partition(".")[0] in ("pandas", "polars", "pyarrow")


def _table(values: Any, width: int, name: str, *, strict: bool) -> NDArray[Any]:
    """Return what each step holds as a row, shape (n, width); no column for another shape."""
    none = np.empty((0, 0))
    if hasattr(values, "__array__"):
        values = plain_array(name, values)
        if not (values.ndim and values.dtype.hasobject):
            fits = values.ndim and values.size == len(values) * width
            return values.reshape(len(values), width) if fits else none
    elif isinstance(values, str | bytes) or not isinstance(values, Sequence):
        return none
    rows = [_row(step, width) for step in values]
    if strict and None in rows:
        return none
    entries = chain.from_iterable([()] * width if row is None else row for row in rows)
    return objects(entries, len(rows) * width).reshape(-1, width)


def _row(step: Any, width: int) -> list[Any] | None:
    """Return the entries of a step of a list, if they are as many."""
    with suppress(Exception):  # whatever a step holds, no other one is to notice
        row = _entries(step)
        return row if len(row) == width else None
    return None


def _entries(step: Any) -> list[Any]:
    """Return the entries of nested lists and arrays, in order."""
    if isinstance(step, list | tuple):
        return [entry for each in step for entry in _entries(each)]
    if hasattr(step, "__array__"):
        return [*plain_array("step", step).ravel()]  # of their own types, which count
    return [step]
