"""privrl classify."""

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
_CALLED = {"PrivateNaiveBayes": "naive Bayes", "PrivateLogisticRegression": "logistic regression"}


@app.command("classify")
def classify_command(
    context: typer.Context,
    data: Data,
    schema: SchemaFile,
    target_column: Annotated[str, typer.Option(help="The column of the schema to predict.")],
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-5,
    order: Order = None,
    model: Annotated[
        str, typer.Option(help="auto, by public facts, or logistic-regression, or naive-bayes.")
    ] = "auto",
    test: Annotated[
        Path | None, typer.Option(help="CSV file of other records to measure accuracy with.")
    ] = None,
    separator: Separator = ",",
    seed: Seed = None,
    reproducible: Reproducible = None,
    dataset: Name = None,
    ledger: LedgerPath = None,
    out: Annotated[Path, typer.Option(help="Folder for the files.")] = Path("results/classify"),
    force: Force = False,
) -> None:
    """Fit a private classifier of the kind that suits the budget: the place to begin.

    Writes model.json (what was released, to be shared; see privrl predict) and release.json.
    """
    with friendly(), released.installed():
        from privrl import _files
        from privrl.data.schema import Schema
        from privrl.models.logistic_regression import PrivateClassifier

        chosen = Schema.load(schema)
        released.check_name("target-column", target_column, chosen.names)
        target = released.target_of(epsilon, delta, order)
        check_seed(seed, reproducible=reproducible)
        classifier = PrivateClassifier(
            chosen,
            classes=target_column,
            target=target,
            model=model,  # type: ignore[arg-type]
            random_state=seed,
        )
        outputs.check_new(out, _FILES, force=force)
        accountant = spending.accountant_of(data, dataset, ledger, delta)
        records, tests = released.records_of(data, test, chosen, separator)
        classifier.fit(
            records.drop(columns=target_column), records[target_column], accountant=accountant
        )
        fitted = classifier.classifier_
        guarantee = released.guarantee_of(fitted.cost_, target, delta, seed)
        written = _files.save_all(
            out,
            {"model.json": released.plain_writer(fitted.to_dict())},
            released.statement_of(context, guarantee),
        )
        OUT.print(
            f"{_CALLED[type(fitted).__name__]} for {escape(target_column)}, from {len(records)} "
            f"records and {fitted.n_features_in_} features"
        )
        if tests is not None:
            released.print_scores(fitted, chosen, tests, target_column)
        print_cost("model.json", guarantee, without="there is no budget")
        spending.print_spent(accountant, delta)
        print_files(written)
