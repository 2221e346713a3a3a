"""privrl naive-bayes."""

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


@app.command("naive-bayes")
def naive_bayes_command(
    context: typer.Context,
    data: Data,
    schema: SchemaFile,
    target_column: TargetColumn,
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-5,
    order: Order = None,
    mechanism: Annotated[
        str, typer.Option(help="auto, dirichlet, dkl, gaussian, laplace, or none: no privacy.")
    ] = "auto",
    test: Test = None,
    separator: Separator = ",",
    seed: Seed = None,
    reproducible: Reproducible = None,
    dataset: Name = None,
    ledger: LedgerPath = None,
    out: Annotated[Path, typer.Option(help="Folder for the files.")] = Path("results/naive-bayes"),
    force: Force = False,
    as_json: AsJson = False,
    report: WithReport = False,
) -> None:
    """Fit a private naive Bayes classifier: all columns of the schema predict one of them.

    Writes model.json (what was released, to be shared; see privrl predict) and release.json.
    """
    private = mechanism != "none"

    def make(schema: "Schema", target: "Target") -> Any:
        from privrl.models.naive_bayes.classifier import PrivateNaiveBayes

        return PrivateNaiveBayes(
            schema,
            classes=target_column,
            target=target if private else None,
            mechanism=mechanism,  # type: ignore[arg-type] # any text, which it checks
            random_state=seed,
        )

    fit_classifier(context, make, private=private)
