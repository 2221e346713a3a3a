"""What the commands that release something from records share: options, budget, cost, files."""

import json
import shlex
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privrl.cli.seeds import randomness_with
from privrl.cli.terminal import OUT, command_line
from privrl.files.shown import shown

if TYPE_CHECKING:
    import pandas as pd

    from privrl.accounting.targets import Target
    from privrl.costs.base import Cost
    from privrl.data.schema import Schema
    from privrl.models.logistic_regression import PrivateLogisticRegression
    from privrl.models.naive_bayes import PrivateNaiveBayes


Data = Annotated[Path, typer.Argument(help="CSV file with a header row: the private records.")]
SchemaFile = Annotated[
    Path, typer.Option("--schema", help="What columns may hold: see privrl schema.")
]
Epsilon = Annotated[float, typer.Option(help="Budget of the release, in nats.")]
Delta = Annotated[
    float, typer.Option(help="Of the (epsilon, delta) budget; with --order, where it is reported.")
]
Order = Annotated[
    float | None,
    typer.Option(help="Rényi order of the budget, > 1; without it the budget is (epsilon, delta)."),
]
Separator = Annotated[str, typer.Option(help="One character between fields, or tab.")]


def plain_writer(data: dict[str, Any]) -> Any:
    """Return what writes what was released, to be shared: nothing of the run is in it."""
    text = json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    return lambda file: file.write(text.encode())


def statement_of(
    context: typer.Context, guarantee: dict[str, Any], only: Collection[str] | None = None
) -> tuple[str, dict[str, Any]]:
    """Return the file that says what it cost, and the command line that repeats it.

    ``only`` says which options are part of that; by default all are.
    """
    from privrl.files import files as _files

    options = {each.name: context.params[each.name] for each in context.command.params}
    data = options.pop("data")
    for own in ("out", "force", "ledger", "as_json", "report"):  # of this machine, not the release
        options.pop(own, None)
    if only is not None:
        options = {name: value for name, value in options.items() if name in only}
    command = command_line(str(context.info_name), options)
    if data is not None:
        command += f" {shlex.quote(str(data))}"
    return _files.STATEMENT, {"command": command, "guarantee": guarantee}


def target_of(epsilon: float, delta: float, order: float | None) -> "Target":
    """Return the budget that the options say."""
    from privrl.accounting.targets import ApproxDP, RenyiDP
    from privrl.costs.base import check_delta

    check_delta(delta)
    return ApproxDP(epsilon, delta) if order is None else RenyiDP(order, epsilon)


def check_name(option: str, name: str, known: tuple[str, ...]) -> None:
    """Check that an option is one of the names that there are."""
    from privrl.files.plain import did_you_mean, listed

    if name not in known:
        raise ValueError(
            f"{option} must be one of {listed(known)}, got {shown(name)}{did_you_mean(name, known)}"
        )


def check_target(schema: "Schema", name: str) -> None:
    """Check that a column is one that can be predicted."""
    from privrl.data.schema import Bins
    from privrl.data.schema.columns import heading

    check_name("target-column", name, schema.names)
    column = schema.columns[name]
    if isinstance(column, Bins):
        raise ValueError(
            f"target-column must have categories, got {shown(name)}, which has bins; predict "
            "another."
        )
    if column.other:
        raise ValueError(
            f"target-column must have known categories alone, got {shown(name)}, which has a cell "
            f"for others; in the schema's file, under {heading(name)}: other = false."
        )


@contextmanager
def installed() -> Iterator[None]:
    """Say which package is absent as other things that are wrong are said."""
    try:
        yield
    except ImportError as error:
        raise ValueError(str(error)) from error


def guarantee_of(
    cost: "Cost", target: "Target | None", delta: float, seed: int | None
) -> dict[str, Any]:
    """Return what a release cost at the most, as plain data; no target is no privacy."""
    from privrl.accounting.rdp import RdpAccountant
    from privrl.accounting.targets import ApproxDP, RenyiDP
    from privrl.costs.base import Together

    caveats = [] if seed is None else ["whoever knows the seed can undo the noise"]
    guarantee: dict[str, Any] = {
        "relation": str(cost.relation), "order": None, "epsilon": None, "delta": delta,
        "epsilon_delta": None, "randomness": randomness_with(seed), "caveats": caveats,
    }  # fmt: skip
    if target is None:
        return guarantee
    if isinstance(target, ApproxDP):
        return guarantee | {"epsilon_delta": target.epsilon}
    assert isinstance(target, RenyiDP)  # the command line has no other
    accountant = RdpAccountant()
    for part, count in Counter(cost.parts if isinstance(cost, Together) else (cost,)).items():
        accountant.compose(part, count)
    return guarantee | {
        "order": target.order,
        "epsilon": target.epsilon,
        "epsilon_delta": float(accountant.epsilon(delta)),
    }


def records_of(
    data: Path, test: Path | None, schema: "Schema", separator: str
) -> "tuple[pd.DataFrame, pd.DataFrame | None]":
    """Return the private records, and others to measure with if there are such."""
    from privrl.data.records import read_records

    tests = None if test is None else read_records(test, schema, separator=separator)
    records = read_records(data, schema, separator=separator)
    schema.encode(records)  # of all columns, what does not fit is told at once
    if tests is not None:
        schema.encode(tests)  # what does not fit is found before anything is spent
        if len(tests) == 0:
            raise ValueError(f"test must have at least one record, got {str(test)!r}.")
    return records, tests


def print_scores(
    model: "PrivateLogisticRegression | PrivateNaiveBayes",
    schema: "Schema",
    records: "pd.DataFrame",
    target_column: str,
) -> dict[str, Any]:
    """Tell how well a classifier predicts records whose classes are known."""
    import numpy as np

    from privrl.data.schema import Categories

    column = schema.columns[target_column]
    assert isinstance(column, Categories)
    places = {label: place for place, label in enumerate(model.classes_.tolist())}
    classes = np.array([places[value] for value in column.values])[
        column.encode(records[target_column])
    ]
    log_chances = model.predict_log_proba(records.drop(columns=target_column))
    accuracy = float((log_chances.argmax(axis=1) == classes).mean())
    alone = float(np.bincount(classes).max() / len(classes))
    entropy = -float(log_chances[np.arange(len(classes)), classes].mean())
    OUT.print(
        f"accuracy {accuracy:.4f} (of the commonest class alone {alone:.4f}), cross-entropy "
        f"{entropy:.4f} nats, on {len(classes)} records that are known exactly: no noise was "
        "added, so publish this only if they are public"
    )
    return {
        "accuracy": accuracy,
        "commonest": alone,
        "cross_entropy": entropy,
        "records": len(classes),
    }
