"""The commands from a CSV file to a private model."""

import json
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from privrl._rounding import up
from privrl.cli.terminal import ERR, OUT, app, command_line, friendly, print_files, words

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from privrl.histogram import PrivateHistogram
    from privrl.naive_bayes import PrivateNaiveBayes
    from privrl.releases import Release
    from privrl.schema import Schema
    from privrl.targets import Target

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


@app.command("schema")
def schema_command(
    columns: Annotated[str | None, typer.Option(help="Comma-separated names of columns.")] = None,
    csv: Annotated[
        Path | None, typer.Option(help="Or a CSV file, of which only the header is read.")
    ] = None,
    numeric: Annotated[
        list[str] | None,
        typer.Option(help="COLUMN=LOW:HIGH, public bounds of a numeric column; may be repeated."),
    ] = None,
    bins: Annotated[int, typer.Option(help="Bins of every numeric column.")] = 10,
    separator: Separator = ",",
    out: Annotated[Path, typer.Option(help="File to write, .toml or .json.")] = Path("schema.toml"),
) -> None:
    """Write a schema to be filled in: what each column may hold, known without the data.

    Example: privrl schema --columns age,job --numeric age=0:100 --bins 10
    """
    with friendly():
        from privrl.schema import parse_bounds, read_header, write_template

        if (columns is None) == (csv is None):
            raise ValueError("give --columns or --csv, one of them.")
        if csv is not None:
            between = "\t" if separator == "tab" else separator
            if len(between) != 1:
                raise ValueError(f"separator must be one character or 'tab', got {separator!r}.")
            names = read_header(csv, separator=between)
        else:
            names = words(columns or "")
        bounds = parse_bounds(numeric or ())
        if not out.absolute().parent.is_dir():
            raise ValueError(f"out must be in a folder that exists, got {str(out)!r}.")
        try:
            unfilled = write_template(out, names, numeric=bounds, bins=bins)
        except FileExistsError:
            raise ValueError(
                f"out must be a new file, got {str(out)!r}, which exists; what was filled in is "
                "not overwritten."
            ) from None
        print_files([out])
        if unfilled:
            OUT.print(
                f"Fill in the categories of [bold]{escape(', '.join(unfilled))}[/], from what "
                "everybody may know and not from the data. Numeric ones get bins by --numeric."
            )
        else:
            OUT.print("Nothing is left to fill in.")


@app.command("histogram")
def histogram_command(
    data: Data,
    schema: SchemaFile,
    column: Annotated[str, typer.Option(help="The column of the schema to count.")],
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-5,
    order: Order = None,
    mechanism: Annotated[
        str,
        typer.Option(
            help="auto, discrete-gaussian, discrete-laplace, gaussian, laplace or dirichlet."
        ),
    ] = "auto",
    loss: Annotated[str, typer.Option(help="kl, l2 or l1: what is to be small.")] = "kl",
    relation: Annotated[
        str,
        typer.Option(
            help="Privacy unit: replace-record, where the number of records is public, or "
            "add-remove-record."
        ),
    ] = "replace-record",
    n_records: Annotated[
        float | None,
        typer.Option(help="A public guess at the number of records, with add-remove-record."),
    ] = None,
    separator: Separator = ",",
    seed: Seed = None,
    out: Annotated[Path, typer.Option(help="Folder for the files.")] = Path("results/histogram"),
) -> None:
    """Release a private histogram of one column.

    Writes histogram.csv, histogram.json (what was released, to be shared) and release.json (what
    it cost). Each run is a release of its own, and costs of several add up.
    """
    with friendly():
        from privrl.experiments import names, store
        from privrl.experiments.records import read_records
        from privrl.histogram import choose_mechanism, histogram

        chosen = _load_schema(schema)
        _check_column("column", column, chosen)
        target, rng = _target(epsilon, delta, order), _rng(seed)
        units = {name: names.RELATIONS[name] for name in ("replace-record", "add-remove-record")}
        unit = names.lookup("relation", relation, units)(1, False)
        options: dict[str, Any] = {"mechanism": mechanism, "loss": loss, "relation": unit}
        cells = chosen.columns[column]
        # What is wrong with the options is found before the data are read.
        is_private = relation == "add-remove-record"
        if is_private or mechanism != "dirichlet":
            guess = n_records if is_private else 1.0
            choose_mechanism(target, n_records=guess, n_cells=cells.size, **options)
        store.check_folder(out)
        records = read_records(data, chosen.subset([column]), separator=separator)
        released = histogram(
            records[column], cells, target=target, rng=rng, n_records=n_records, **options
        )
        table = released.to_frame().rename_axis("cell").reset_index()
        guarantee = _guarantee(released.release, target, delta, seed)
        shown = {
            "schema": schema, "column": column, "epsilon": epsilon, "delta": delta, "order": order,
            "mechanism": mechanism, "loss": loss, "relation": relation, "n_records": n_records,
            "separator": separator, "seed": seed,
        }  # fmt: skip
        written = store.save_all(
            out,
            {
                "histogram.csv": store.table_writer(table),
                "histogram.json": _plain_writer(released.to_dict()),
                "release.json": _release_writer("histogram", data, shown, guarantee),
            },
        )
        _print_histogram(column, released)
        _print_cost("histogram.json", guarantee)
        print_files(written)


@app.command("naive-bayes")
def naive_bayes_command(
    data: Data,
    schema: SchemaFile,
    target_column: Annotated[str, typer.Option(help="The column of the schema to predict.")],
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-5,
    order: Order = None,
    mechanism: Annotated[
        str, typer.Option(help="auto, dirichlet, dkl, gaussian, laplace, or none: no privacy.")
    ] = "auto",
    test: Annotated[
        Path | None, typer.Option(help="CSV file of other records to measure accuracy with.")
    ] = None,
    separator: Separator = ",",
    seed: Seed = None,
    out: Annotated[Path, typer.Option(help="Folder for the files.")] = Path("results/naive-bayes"),
) -> None:
    """Fit a private naive Bayes classifier: all columns of the schema predict one of them.

    Writes model.json (what was released, to be shared; see privrl predict) and release.json.
    """
    with friendly(), _installed():
        from privrl.experiments import store
        from privrl.experiments.records import read_records
        from privrl.naive_bayes import PrivateNaiveBayes

        chosen = _load_schema(schema)
        _check_column("target-column", target_column, chosen)
        is_private = mechanism != "none"
        target = _target(epsilon, delta, order)
        _rng(seed)
        model = PrivateNaiveBayes(
            chosen,
            classes=target_column,
            target=target if is_private else None,
            mechanism=mechanism,  # type: ignore[arg-type]
            random_state=seed,
        )
        store.check_folder(out)
        tests = None if test is None else read_records(test, chosen, separator=separator)
        records = read_records(data, chosen, separator=separator)
        if tests is not None:
            chosen.encode(tests)  # what does not fit is found before anything is spent
            if len(tests) == 0:
                raise ValueError(f"test must have at least one record, got {str(test)!r}.")
        model.fit(records.drop(columns=target_column), records[target_column])
        guarantee = _guarantee(model.release_, target if is_private else None, delta, seed)
        shown = {
            "schema": schema, "target_column": target_column, "epsilon": epsilon, "delta": delta,
            "order": order, "mechanism": mechanism, "test": test, "separator": separator,
            "seed": seed,
        }  # fmt: skip
        written = store.save_all(
            out,
            {
                "model.json": _plain_writer(model.to_dict()),
                "release.json": _release_writer("naive-bayes", data, shown, guarantee),
            },
        )
        OUT.print(
            f"naive Bayes for {escape(target_column)}, from {len(records)} records and "
            f"{model.n_features_in_} features"
        )
        if tests is not None:
            _print_scores(model, chosen, tests, target_column)
        _print_cost("model.json", guarantee)
        print_files(written)


@app.command("predict")
def predict_command(
    model: Annotated[Path, typer.Argument(help="model.json of privrl naive-bayes.")],
    data: Annotated[Path, typer.Argument(help="CSV file with a header row: what to predict for.")],
    separator: Separator = ",",
    out: Annotated[Path, typer.Option(help="Folder for the files.")] = Path("results/predict"),
) -> None:
    """Predict with a private naive Bayes classifier; costs no privacy of those it learned from.

    Writes predictions.csv: the likeliest class of each record and the probability of every class.
    Where the file has the classes themselves, tells accuracy and cross-entropy.
    """
    with friendly(), _installed():
        import pandas as pd

        from privrl.experiments import store
        from privrl.experiments.records import read_records

        fitted, schema, target_column = _load_naive_bayes(model)
        heads = [f"probability of {label}" for label in fitted.classes_]
        if target_column in heads:
            raise ValueError(
                f"the column {target_column!r} that model {model.name} predicts is named as one of "
                "probabilities; rename it in the schema and fit again."
            )
        store.check_folder(out)
        records = read_records(data, schema, separator=separator, optional=target_column)
        if len(records) == 0:
            raise ValueError(f"data must have at least one record, got {str(data)!r}.")
        features = records.drop(columns=target_column, errors="ignore")
        chances = fitted.predict_proba(features)
        table = pd.DataFrame({target_column: fitted.classes_[chances.argmax(axis=1)]})
        for head, column in zip(heads, chances.T, strict=True):
            table[head] = column
        has_classes = target_column in records and records[target_column].notna().all()
        written = store.save_all(out, {"predictions.csv": store.table_writer(table)})
        if has_classes:
            _print_scores(fitted, schema, records, target_column)
        print_files(written)


@app.command("bayes-net")
def bayes_net_command(
    data: Data,
    schema: SchemaFile,
    network: Annotated[
        Path,
        typer.Option(help="File .toml or .json with a table 'parents': for each node a list."),
    ],
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-5,
    order: Order = None,
    mechanism: Annotated[
        str, typer.Option(help="auto, dirichlet, gaussian, laplace, or none: no privacy.")
    ] = "auto",
    synthetic: Annotated[
        int | None, typer.Option(help="Write so many synthetic records, too; they are free.")
    ] = None,
    separator: Separator = ",",
    seed: Seed = None,
    out: Annotated[Path, typer.Option(help="Folder for the files.")] = Path("results/bayes-net"),
) -> None:
    """Fit the probabilities of a Bayesian network, whose structure is public, privately.

    Writes model.json and model.bif (what was released, to be shared), release.json, and with
    --synthetic N synthetic.csv.
    """
    with friendly():
        from privrl._checks import check_count
        from privrl.bayes_net import PrivateBayesNet
        from privrl.experiments import store
        from privrl.experiments.records import read_records

        target, rng = _target(epsilon, delta, order), _rng(seed)
        if synthetic is not None:
            check_count("synthetic", synthetic)
        plan = PrivateBayesNet(
            parents=_load_network(network),
            schema=_load_schema(schema),
            target=target,
            mechanism=mechanism,  # type: ignore[arg-type]
        )
        _check_name("mechanism", mechanism, ("auto", "dirichlet", "gaussian", "laplace", "none"))
        store.check_folder(out)
        records = read_records(data, plan.schema, separator=separator)
        net = plan.fit(records, rng)
        assert net.cost is not None
        private = mechanism != "none"
        guarantee = _guarantee(net.cost, target if private else None, delta, seed)
        shown = {
            "schema": schema, "network": network, "epsilon": epsilon, "delta": delta,
            "order": order, "mechanism": mechanism, "synthetic": synthetic,
            "separator": separator, "seed": seed,
        }  # fmt: skip
        bif = net.to_bif().encode()
        files = {
            "model.json": _plain_writer(net.to_dict()),
            "model.bif": lambda file: file.write(bif),
            "release.json": _release_writer("bayes-net", data, shown, guarantee),
        }
        if synthetic is not None:
            files["synthetic.csv"] = store.table_writer(net.sample(synthetic, rng))
        written = store.save_all(out, files)
        edges = sum(map(len, net.parents.values()))
        OUT.print(
            f"Bayesian network of {len(net.nodes)} nodes and {edges} edges, from {len(records)} "
            "records"
        )
        _print_cost("model.json", guarantee)
        print_files(written)


# Models as files ----------------------------------------------------------------------------------


def _load_naive_bayes(path: Path) -> "tuple[PrivateNaiveBayes, Schema, str]":
    """Return a classifier, its schema, and the column that it predicts."""
    from privrl.naive_bayes import PrivateNaiveBayes
    from privrl.schema import Schema

    try:
        model = PrivateNaiveBayes.load(path)
    except ValueError as error:
        raise ValueError(f"model {error}") from None
    if not isinstance(model.schema, Schema) or not isinstance(model.classes, str):
        raise ValueError(
            f"model {path.name} must have a schema of named columns, of which it predicts one."
        )
    return model, model.schema, model.classes


def _load_schema(path: Path) -> "Schema":
    from privrl.schema import Schema

    return Schema.load(path)


def _load_network(path: Path) -> dict[str, Any]:
    from privrl.schema.plain import read

    try:
        data = read(path)
    except ValueError as error:
        raise ValueError(f"network {path.name}: {error}") from None
    if not isinstance(data, Mapping) or set(data) != {"parents"}:
        raise ValueError(
            f"network {path.name} must have one entry, 'parents': for each node the list of its "
            "parents, such as income = ['age', 'job']."
        )
    parents = data["parents"]
    if not isinstance(parents, Mapping) or not all(isinstance(p, list) for p in parents.values()):
        raise ValueError(f"network {path.name}: parents must be a list for each node.")
    return dict(parents)


def _plain_writer(data: dict[str, Any]) -> Any:
    text = json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    return lambda file: file.write(text.encode())


def _release_writer(
    verb: str, data: Path, options: dict[str, Any], guarantee: dict[str, Any]
) -> Any:
    from privrl.experiments import store

    command = f"{command_line(verb, options)} {shlex.quote(str(data))}"
    return store.json_writer({"command": command, "guarantee": guarantee})


# What the options say -----------------------------------------------------------------------------


def _target(epsilon: float, delta: float, order: float | None) -> "Target":
    from privrl.releases import check_delta
    from privrl.targets import ApproxDP, Rdp

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


# What was spent, and what came of it --------------------------------------------------------------


def _guarantee(
    release: "Release", target: "Target | None", delta: float, seed: int | None
) -> dict[str, Any]:
    """Return what a release cost at the most, as plain data; no target is no privacy."""
    from privrl.accounting import RdpAccountant
    from privrl.releases import Together
    from privrl.targets import Rdp

    caveats = [] if seed is None else ["whoever knows the seed can undo the noise"]
    guarantee: dict[str, Any] = {
        "relation": str(release.relation), "order": None, "epsilon": None, "delta": delta,
        "epsilon_delta": None, "caveats": caveats,
    }  # fmt: skip
    if target is None:
        return guarantee
    if not isinstance(target, Rdp):
        return guarantee | {"epsilon_delta": target.epsilon}
    accountant = RdpAccountant()
    for part, count in Counter(
        release.parts if isinstance(release, Together) else (release,)
    ).items():
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


def _print_histogram(name: str, released: "PrivateHistogram") -> None:
    from privrl.histogram import mechanism_name

    frame = released.to_frame()
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column(escape(name), overflow="fold")
    for head in ("probability", "count", *(("95 % interval",) if "lower" in frame else ())):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("")
    most = frame["probability"].max()
    for label, values in zip(released.labels[:_MOST_CELLS], frame.to_numpy(), strict=False):
        probability, count, *ends = values.tolist()
        interval = [" to ".join(f"{end:.0f}" for end in ends)] if ends else []
        bar = "█" * round(_BAR * probability / most)
        table.add_row(escape(label), f"{probability:.4f}", f"{count:.0f}", *interval, bar)
    about = "" if released.is_size_public else "about "
    OUT.print(
        f"{escape(name)} of {about}{released.n_records:.0f} records, by "
        f"{mechanism_name(released.mechanism)}"
    )
    OUT.print(table)
    if len(frame) > _MOST_CELLS:
        OUT.print(f"and {len(frame) - _MOST_CELLS} more cells, in histogram.csv")


def _print_scores(
    model: "PrivateNaiveBayes", schema: "Schema", records: "pd.DataFrame", target_column: str
) -> None:
    """Print how well a classifier predicts records whose classes are known."""
    import numpy as np

    from privrl.schema import Categories

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
