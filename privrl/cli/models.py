"""What the commands of models share: reading, costs and files."""

import json
import shlex
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privrl.cli.terminal import ERR, OUT, command_line
from privrl.numerics.printing import up

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from privrl.accounting.targets import Target
    from privrl.costs.base import Cost
    from privrl.data.schema import Schema
    from privrl.models.naive_bayes import PrivateNaiveBayes


_MOST_CELLS = 40  # of a histogram that is printed
_BAR = 30  # characters
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
Seed = Annotated[
    int | None,
    typer.Option(
        help="For repeatable research only: who knows the seed can undo the noise. By default "
        "fresh randomness."
    ),
]
Separator = Annotated[str, typer.Option(help="One character between fields, or tab.")]


def _load_schema(path: Path) -> "Schema":
    from privrl.data.schema import Schema

    return Schema.load(path)


def _plain_writer(data: dict[str, Any]) -> Any:
    text = json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    return lambda file: file.write(text.encode())


def _release_writer(
    verb: str, data: Path, options: dict[str, Any], guarantee: dict[str, Any]
) -> Any:
    from privrl import _files

    command = f"{command_line(verb, options)} {shlex.quote(str(data))}"
    return _files.json_writer({"command": command, "guarantee": guarantee})


def _target(epsilon: float, delta: float, order: float | None) -> "Target":
    from privrl.accounting.targets import ApproxDP, Rdp
    from privrl.costs.base import check_delta

    check_delta(delta)
    return ApproxDP(epsilon, delta) if order is None else Rdp(order, epsilon)


def _rng(seed: int | None) -> "np.random.Generator":
    import numpy as np

    from privrl._checks import check_count

    if seed is not None:
        check_count("seed", seed, least=0)
    return np.random.default_rng(seed)


def _check_column(option: str, name: str, schema: "Schema") -> None:
    _check_name(option, name, schema.names)


def _check_name(option: str, name: str, known: tuple[str, ...]) -> None:
    if name not in known:
        raise ValueError(f"{option} must be one of {', '.join(map(repr, known))}, got {name!r}.")


@contextmanager
def _installed() -> Iterator[None]:
    """Say which package is absent as other things that are wrong are said."""
    try:
        yield
    except ImportError as error:
        raise ValueError(str(error)) from error


def _guarantee(
    cost: "Cost", target: "Target | None", delta: float, seed: int | None
) -> dict[str, Any]:
    """Return what a release cost at the most, as plain data; no target is no privacy."""
    from privrl.accounting.rdp import RdpAccountant
    from privrl.accounting.targets import Rdp
    from privrl.costs.base import Together

    caveats = [] if seed is None else ["whoever knows the seed can undo the noise"]
    guarantee: dict[str, Any] = {
        "relation": str(cost.relation), "order": None, "epsilon": None, "delta": delta,
        "epsilon_delta": None, "caveats": caveats,
    }  # fmt: skip
    if target is None:
        return guarantee
    if not isinstance(target, Rdp):
        return guarantee | {"epsilon_delta": target.epsilon}
    accountant = RdpAccountant()
    for part, count in Counter(cost.parts if isinstance(cost, Together) else (cost,)).items():
        accountant.compose(part, count)
    return guarantee | {
        "order": target.order,
        "epsilon": target.epsilon,
        "epsilon_delta": float(accountant.epsilon(delta)),
    }


def _print_cost(what: str, guarantee: dict[str, Any]) -> None:
    if guarantee["epsilon_delta"] is None:
        OUT.print("no privacy guarantee: the mechanism is none")
        return
    if guarantee["caveats"]:
        ERR.print(f"[yellow]no guarantee:[/] {'; '.join(guarantee['caveats'])}")
    renyi = ""
    if guarantee["order"] is not None:
        renyi = (
            f"Rényi divergence of order {guarantee['order']:g} at most "
            f"{up(guarantee['epsilon'])}, and "
        )
    OUT.print(
        f"{what} cost: {renyi}({up(guarantee['epsilon_delta'])}, {guarantee['delta']!r})-"
        f"differential privacy; privacy unit: {guarantee['relation']}"
    )


def _print_scores(
    model: "PrivateNaiveBayes", schema: "Schema", records: "pd.DataFrame", target_column: str
) -> None:
    """Print how well a classifier predicts records whose classes are known."""
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
    entropy = -float(log_chances[np.arange(len(classes)), classes].mean())
    OUT.print(
        f"accuracy {accuracy:.4f}, cross-entropy {entropy:.4f} nats, on {len(classes)} records "
        "that are known exactly: no noise was added, so publish this only if they are public"
    )
