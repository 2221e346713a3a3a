"""Reports of models and policies whose states are numbers."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from matplotlib.colors import to_hex
from numpy.typing import NDArray

from privrl.continuous import Choice, ContinuousModel, ContinuousPolicy, ContinuousSchema, Number
from privrl.continuous.encoding import target_kinds
from privrl.continuous.schema import Column
from privrl.experiments.palette import COLOURS, shade
from privrl.experiments.reports.contents import Contents
from privrl.experiments.reports.parts import Cells, Chart, Facts, Part, Section, Series, Table
from privrl.experiments.reports.policies import runs
from privrl.experiments.reports.promise import PERSONS, promise
from privrl.numerics.typing import FloatArray

_ACROSS, _DOWN = 48, 16  # cells of a map
_POINTS = 61  # of a line
_MAPS = 4  # of categories
_COLUMNS = 12  # with a picture each
_ROWS = 500  # of a table


def policy(found: Contents) -> tuple[str, list[Section]]:
    """Return the title and the sections of a policy."""
    made = ContinuousPolicy.of_files(found.files)
    schema = made.schema
    return "A private policy for states that are numbers", [
        Section.of(
            "Summary",
            f"A policy for {schema.n_state} state columns and {schema.n_actions} actions, "
            f"planned in a private model of a log of persons with a discount of "
            f"{made.discount:g}. In each state it takes the action of the largest worth.",
        ),
        promise(found.statement["guarantee"], also_not=PERSONS),
        _columns(schema),
        Section.of(
            "Policy", *(tuple(_maps(made)) or ("Its state has no numeric column to draw.",))
        ),
    ]


def model(found: Contents) -> tuple[str, list[Section]]:
    """Return the title and the sections of a model."""
    made = ContinuousModel.of_files(found.files)
    schema = made.schema
    facts = (
        ("state columns", f"{schema.n_state}"),
        ("actions", f"{schema.n_actions}"),
        ("persons", f"about {made.persons:,.0f}"),
        ("features", f"{len(made.basis)}"),
        ("rewards", "learned" if schema.reward is not None else "not in the log"),
        ("ends of episodes", "learned" if schema.terminates else "not in the log"),
    )
    return "A private model of states that are numbers", [
        Section.of(
            "Summary",
            "An environment for training and planning, made from a log of persons.",
            Facts(facts),
        ),
        promise(found.statement["guarantee"], also_not=PERSONS),
        _columns(schema),
        Section.of("Model", _unexplained(made), *_changes(made)),
    ]


def _columns(schema: ContinuousSchema) -> Section:
    rows = [
        (name, role, *_domain(column))
        for role, columns in (("state", schema.state), ("action", schema.action))
        for name, column in columns.items()
    ]
    if schema.reward is not None:
        rows.append((schema.reward_column, "reward", *_domain(schema.reward)))
    heads = ("column", "part of", "public range or categories", "levels")
    return Section.of("Columns", Table("Columns and what they may hold", heads, tuple(rows)))


def _domain(column: Column) -> tuple[str, int | None]:
    if isinstance(column, Choice):
        return ", ".join(column.values), len(column.values)
    turns = ", periodic" if column.periodic else ""
    return f"{column.low:g} to {column.high:g}{turns}", column.levels


def _unexplained(made: ContinuousModel) -> Table:
    """Return the residual of each numeric target."""
    schema = made.schema
    names = [name for name, column in schema.state.items() if isinstance(column, Number)]
    names += ["reward"] * (schema.reward is not None)
    deviations = made.residual[target_kinds(schema)]
    return Table(
        "What the model does not explain of a step: standard deviation of the change of a column, "
        "or of the reward",
        ("column", "standard deviation"),
        tuple(zip(names, map(float, deviations), strict=True)),
    )


def _middle(schema: ContinuousSchema) -> FloatArray:
    """Return the middle of each range, and the first category."""
    columns = schema.state.values()
    return np.array([0 if isinstance(c, Choice) else (c.low + c.high) / 2 for c in columns])


def _others(schema: ContinuousSchema, drawn: set[str]) -> str:
    """Return what a caption says of columns that are not drawn."""
    rest = {name: column for name, column in schema.state.items() if name not in drawn}
    said = [
        f"{name} = {column.values[0]}" if isinstance(column, Choice)
        else f"{name} = {(column.low + column.high) / 2:.4g}"
        for name, column in rest.items()
    ]  # fmt: skip
    return f" Fixed: {', '.join(said)}." if said else ""


def _looks(schema: ContinuousSchema) -> list[tuple[str, str]]:
    """Return a label and a colour for each action: shades where actions are in order."""
    names = schema.action_names
    in_order = len(schema.action) == 1 and isinstance(next(iter(schema.action.values())), Number)
    if in_order or len(names) > len(COLOURS):
        last = max(len(names) - 1, 1)
        return [(name, to_hex(shade(place / last))) for place, name in enumerate(names)]
    return list(zip(names, COLOURS, strict=False))


def _changes(made: ContinuousModel) -> Iterator[Part]:
    """Yield the predicted change of each numeric column along its range."""
    schema = made.schema
    shown = [each for each in enumerate(schema.state.items()) if isinstance(each[1][1], Number)]
    targets = np.flatnonzero(target_kinds(schema))
    looks = _looks(schema)
    step = max(1, -(-len(looks) // len(COLOURS)))  # not all of many actions
    for target, (i, (name, column)) in zip(targets, shown[:_COLUMNS], strict=False):
        assert isinstance(column, Number)
        states = np.repeat(_middle(schema)[None], _POINTS, axis=0)
        states[:, i] = np.linspace(column.low, column.high, _POINTS)
        series = []
        for number in range(0, len(looks), step):
            action = np.repeat(schema.levels[number][None], _POINTS, axis=0)
            change = made.basis(states, action) @ made.mean[:, target]
            x, y = (tuple(map(float, each)) for each in (states[:, i], change))
            series.append(Series(looks[number][0], x=x, y=y, colour=looks[number][1]))
        yield Chart(
            "lines",
            f"The expected change of {name} in one step, by {name} and action."
            + _others(schema, {name}),
            x=name,
            y=f"change of {name}",
            series=tuple(series),
        )


@dataclass(frozen=True)
class _Axis:
    """A column of a map: its cells and their middles."""

    place: int
    name: str
    column: Column
    edges: FloatArray

    @classmethod
    def of(cls, place: int, name: str, column: Column, n: int) -> "_Axis":
        if isinstance(column, Choice):
            last = len(column.values)
            return cls(place, name, column, np.linspace(-0.5, last - 0.5, last + 1))
        return cls(place, name, column, np.linspace(column.low, column.high, n + 1))

    @property
    def middles(self) -> FloatArray:
        return (self.edges[1:] + self.edges[:-1]) / 2

    @property
    def labels(self) -> tuple[str, ...]:
        if isinstance(self.column, Choice):
            return self.column.values
        return tuple(f"{middle:.4g}" for middle in self.middles)


def _maps(made: ContinuousPolicy) -> Iterator[Part]:
    """Yield a map of the actions over the first two columns, one for each category of another."""
    named = list(enumerate(made.schema.state.items()))
    numbers = [each for each in named if isinstance(each[1][1], Number)]
    choices = [each for each in named if isinstance(each[1][1], Choice)]
    if not numbers:
        return
    across, *more = [*numbers, *choices]
    x = _Axis.of(across[0], *across[1], _ACROSS)
    y = _Axis.of(more[0][0], *more[0][1], _DOWN) if more else None
    split = next((each for each in choices if each not in more[:1]), None)
    if split is None:
        yield from _map(made, x, y, None, 0)
        return
    column = split[1][1]
    assert isinstance(column, Choice)
    for category in range(min(len(column.values), _MAPS)):
        yield from _map(made, x, y, _Axis.of(split[0], *split[1], 0), category)


def _map(
    made: ContinuousPolicy, x: _Axis, y: _Axis | None, split: _Axis | None, category: int
) -> Iterator[Part]:
    schema = made.schema
    down = np.zeros(1) if y is None else y.middles[::-1]
    labels = ("any",) if y is None else y.labels[::-1]
    states = np.repeat(_middle(schema)[None], len(down) * len(x.middles), axis=0)
    drawn = {x.name}
    if y is not None:
        states[:, y.place] = np.repeat(down, len(x.middles))
        drawn.add(y.name)
    states[:, x.place] = np.tile(x.middles, len(down))
    where = ""
    if split is not None:
        states[:, split.place] = category
        drawn.add(split.name)
        where = f" where {split.name} is {split.labels[category]}"
    actions: NDArray[np.intp] = made.act(states).reshape(len(down), -1)
    found = [(row, *run) for row in range(len(down)) for run in runs(actions[row])]
    looks, series = _looks(schema), []
    for number, (name, colour) in enumerate(looks):
        mine = [run for run in found if run[3] == number]
        if mine:
            rows, starts, ends, _ = zip(*mine, strict=True)
            at = [tuple(float(x.edges[k]) for k in each) for each in (starts, ends)]
            series.append(Cells(name, colour, rows, at[0], at[1]))
    heading = "state" if y is None else y.name
    by = x.name if y is None else f"{x.name} and {y.name}"
    yield Chart(
        "map",
        f"The action of the policy by {by}{where}." + _others(schema, drawn),
        x=x.name,
        y=heading,
        series=tuple(series),
        labels=tuple(labels),
    )
    left = len(found) - _ROWS
    yield Table(
        f"The action of the policy by {by}{where}",
        (heading, f"{x.name} from", "to", "action"),
        tuple(
            (labels[row], float(x.edges[start]), float(x.edges[end]), looks[action][0])
            for row, start, end, action in found[:_ROWS]
        ),
        left_out=f"{left} more rows are in the picture." if left > 0 else "",
    )
