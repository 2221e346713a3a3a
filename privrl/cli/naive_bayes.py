"""privrl naive-bayes."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from privrl.cli import outputs, released, spending
from privrl.cli.outputs import Force
from privrl.cli.released import Data, Delta, Epsilon, Order, SchemaFile, Separator
from privrl.cli.seeds import Reproducible, Seed, check_seed
from privrl.cli.spending import LedgerPath, Name
from privrl.cli.terminal import OUT, app, friendly, print_cost, print_files

_FILES = ("model.json", "release.json")


@app.command("naive-bayes")
def naive_bayes_command(
    context: typer.Context,
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
    reproducible: Reproducible = None,
    dataset: Name = None,
    ledger: LedgerPath = None,
    out: Annotated[Path, typer.Option(help="Folder for the files.")] = Path("results/naive-bayes"),
    force: Force = False,
) -> None:
    """Fit a private naive Bayes classifier: all columns of the schema predict one of them.

    Writes model.json (what was released, to be shared; see privrl predict) and release.json.
    """
    with friendly(), released.installed():
        from privrl import _files
        from privrl.data.schema import Schema
        from privrl.models.naive_bayes import PrivateNaiveBayes

        chosen = Schema.load(schema)
        released.check_name("target-column", target_column, chosen.names)
        is_private = mechanism != "none"
        target = released.target_of(epsilon, delta, order)
        check_seed(seed, reproducible=reproducible)
        model = PrivateNaiveBayes(
            chosen,
            classes=target_column,
            target=target if is_private else None,
            mechanism=mechanism,  # type: ignore[arg-type] # any text, which it checks
            random_state=seed,
        )
        outputs.check_new(out, _FILES, force=force)
        accountant = spending.accountant_of(data, dataset, ledger, delta)
        records, tests = released.records_of(data, test, chosen, separator)
        model.fit(
            records.drop(columns=target_column), records[target_column], accountant=accountant
        )
        guarantee = released.guarantee_of(model.cost_, target if is_private else None, delta, seed)
        written = _files.save_all(
            out,
            {"model.json": released.plain_writer(model.to_dict())},
            released.statement_of(context, guarantee),
        )
        OUT.print(
            f"naive Bayes for {escape(target_column)}, from {len(records)} records and "
            f"{model.n_features_in_} features"
        )
        if tests is not None:
            released.print_scores(model, chosen, tests, target_column)
        print_cost("model.json", guarantee, without="the mechanism is none")
        spending.print_spent(accountant, delta)
        print_files(written)
