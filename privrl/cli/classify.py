"""privrl classify."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privrl.cli.answers import AsJson
from privrl.cli.classifiers import TargetColumn, Test, fit_classifier
from privrl.cli.outputs import Force
from privrl.cli.released import Data, Delta, Epsilon, Order, SchemaFile, Separator
from privrl.cli.report import WithReport
from privrl.cli.seeds import Reproducible, Seed
from privrl.cli.spending import LedgerPath, Name
from privrl.cli.terminal import app

if TYPE_CHECKING:
    from privrl.accounting.targets import Target
    from privrl.data.schema import Schema


@app.command("classify")
def classify_command(
    context: typer.Context,
    data: Data,
    schema: SchemaFile,
    target_column: TargetColumn,
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-5,
    order: Order = None,
    model: Annotated[
        str, typer.Option(help="auto, by public facts, or logistic-regression, or naive-bayes.")
    ] = "auto",
    test: Test = None,
    separator: Separator = ",",
    seed: Seed = None,
    reproducible: Reproducible = None,
    dataset: Name = None,
    ledger: LedgerPath = None,
    out: Annotated[Path, typer.Option(help="Folder for the files.")] = Path("results/classify"),
    force: Force = False,
    as_json: AsJson = False,
    report: WithReport = False,
) -> None:
    """Fit a private classifier of the kind that suits the budget: the place to begin.

    Writes model.json (what was released, to be shared; see privrl predict) and release.json.
    """

    def make(schema: "Schema", target: "Target") -> Any:
        from privrl.models.logistic_regression.choice import PrivateClassifier

        return PrivateClassifier(
            schema,
            classes=target_column,
            target=target,
            model=model,  # type: ignore[arg-type] # any text, which it checks
            random_state=seed,
        )

    fit_classifier(context, make)
