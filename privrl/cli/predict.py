"""privrl predict."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from privrl.cli import outputs
from privrl.cli.answers import command, named
from privrl.cli.classifiers import print_scores
from privrl.cli.outputs import Force
from privrl.cli.released import Separator
from privrl.cli.terminal import command_line, print_files
from privrl.files.shown import shown

if TYPE_CHECKING:
    from privrl.data.schema import Schema
    from privrl.models.logistic_regression.classifier import PrivateLogisticRegression
    from privrl.models.naive_bayes.classifier import PrivateNaiveBayes


@command("predict")
def predict_command(
    answer: dict[str, Any],
    model: Annotated[Path, typer.Argument()],
    data: Annotated[Path, typer.Argument()],
    separator: Separator = ",",
    out: Path = Path("results/predict"),
    force: Force = False,
) -> None:
    """Predict with a private classifier, at no cost for the people it was fitted on.

    Writes predictions.csv (for each record the likeliest class and the probability of every class)
    and predict.json. A prediction is as private as its record.
    If the file has the classes, also prints accuracy (beside that of the most frequent class) and
    cross-entropy.

    Parameters
    ----------
    model
        model.json of privrl classify or naive-bayes.
    data
        CSV file with a header row: what to predict for.
    out
        Folder for the files.
    """
    import pandas as pd

    from privrl.data.records import read_records
    from privrl.files import files as _files

    fitted, schema, target_column = _load(model)
    heads = [f"probability of {label}" for label in fitted.classes_]
    if target_column in heads:
        raise ValueError(
            f"the column {shown(target_column)} that model {model.name} predicts is named as "
            "one of probabilities; rename it in the schema and fit again."
        )
    outputs.check_new(out, ["predictions.csv", "predict.json"], force=force, inputs=(model, data))
    records = read_records(data, schema, separator=separator, optional=target_column)
    if len(records) == 0:
        raise ValueError(f"data must have at least one record, got {str(data)!r}.")
    features = records.drop(columns=target_column, errors="ignore")
    chances = fitted.predict_proba(features)
    table = pd.DataFrame({target_column: fitted.classes_[chances.argmax(axis=1)]})
    for head, column in zip(heads, chances.T, strict=True):
        table[head] = column
    has_classes = target_column in records and records[target_column].notna().all()
    about = {"command": command_line("predict", {}) + f" {shlex.join([str(model), str(data)])}"}
    written = _files.save_all(
        out, {"predictions.csv": _files.table_writer(table)}, ("predict.json", about)
    )
    if has_classes:
        answer["scores"] = print_scores(fitted, schema, records, target_column)
    print_files(written)
    answer |= {"predicts": target_column, "records": len(table), "files": named(written)}


_MODEL: Final = frozenset(("classes", "naive_bayes"))  # entries of classifiers
_KNOWN: Final = {  # other files, by an entry that only they have
    "guarantee": "the cost of a release",
    "labels": "a histogram",
    "parents": "a Bayesian network",
    "columns": "a schema",
    "spec": "the settings of a run",
    "action_names": "a policy or a model of a log",
}


def _what_it_is(path: Path) -> str | None:
    """Return what a file is that is not a classifier, if its content shows it."""
    from privrl.files import files as _files
    from privrl.files.plain import parse_json

    if path.suffix.lower() == ".toml":
        return "a file of settings, such as a schema"
    if path.is_fifo():
        return None  # a pipe can be read only once
    try:
        data = parse_json(_files.read_bytes(path).decode())
    except ValueError:
        return "no JSON file"
    if not isinstance(data, dict) or not _MODEL.isdisjoint(data):
        return None
    return next((what for entry, what in _KNOWN.items() if entry in data), None)


def _load(path: Path) -> "tuple[PrivateLogisticRegression | PrivateNaiveBayes, Schema, str]":
    """Return a classifier, its schema, and the column that it predicts."""
    from privrl.data.schema import Schema
    from privrl.models.logistic_regression.choice import load_classifier

    try:
        model = load_classifier(path)
    except ValueError as error:
        other = _what_it_is(path)
        if other:
            raise ValueError(
                f"model must be a model.json of privrl classify or naive-bayes, got {path.name}, "
                f"which is {other}."
            ) from None
        raise ValueError(f"model {error}") from None
    if not isinstance(model.schema, Schema) or not isinstance(model.classes, str):
        raise ValueError(
            f"model {path.name} must have a schema of named columns, of which it predicts one."
        )
    return model, model.schema, model.classes
