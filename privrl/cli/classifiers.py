"""What the commands that fit classifiers share: options, and the way from records to files."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from privrl.cli import outputs, released, spending
from privrl.cli.answers import answering, guaranteed, named
from privrl.cli.report import write_report
from privrl.cli.seeds import check_seed
from privrl.cli.terminal import OUT, friendly, print_cost, print_files

if TYPE_CHECKING:
    from privrl.accounting.targets import Target
    from privrl.data.schema import Schema

TargetColumn = Annotated[str, typer.Option(help="The column of the schema to predict.")]
Test = Annotated[
    Path | None, typer.Option(help="CSV file of other records to measure accuracy with.")
]

_FILES = ("model.json", "release.json")
_CALLED = {"PrivateNaiveBayes": "naive Bayes", "PrivateLogisticRegression": "logistic regression"}


def fit_classifier(
    context: typer.Context, make: "Callable[[Schema, Target], Any]", *, private: bool = True
) -> None:
    """Fit what ``make`` makes of a schema and a target, and write and print what was released.

    All other options are those of the command, by their names; both commands have the same.
    """
    given = context.params
    with friendly(), released.installed(), answering(given["as_json"]) as answer:
        from privrl.data.schema import Schema
        from privrl.files import files as _files

        column, delta, seed, out = (
            given[name] for name in ("target_column", "delta", "seed", "out")
        )
        schema = Schema.load(given["schema"])
        released.check_target(schema, column)
        target = released.target_of(given["epsilon"], delta, given["order"])
        check_seed(seed, reproducible=given["reproducible"])
        model = make(schema, target)
        outputs.check_new(out, _FILES, force=given["force"])
        accountant = spending.accountant_of(
            given["data"],
            given["dataset"],
            given["ledger"],
            delta,
            f"{context.info_name} of {column}",
        )
        records, tests = released.records_of(
            given["data"], given["test"], schema, given["separator"]
        )
        model.fit(records.drop(columns=column), records[column], accountant=accountant)
        fitted = getattr(model, "classifier_", model)
        guarantee = released.guarantee_of(fitted.cost_, target if private else None, delta, seed)
        written = _files.save_all(
            out,
            {"model.json": released.plain_writer(fitted.to_dict())},
            released.statement_of(context, guarantee),
        )
        OUT.print(
            f"{_CALLED[type(fitted).__name__]} for {escape(column)}, from {len(records)} records "
            f"and {fitted.n_features_in_} features"
        )
        if tests is not None:
            answer["scores"] = released.print_scores(fitted, schema, tests, column)
        print_cost("model.json", guarantee, without="the mechanism is none")
        spending.print_spent(accountant, delta)
        print_files(written)
        answer |= {
            "model": _CALLED[type(fitted).__name__],
            "predicts": column,
            "records": len(records),
            "features": fitted.n_features_in_,
            "guarantee": guaranteed(guarantee),
            "ledger": spending.spent(accountant, delta),
            "files": named(written),
        }
        if given["report"]:
            answer.update(write_report(out))
