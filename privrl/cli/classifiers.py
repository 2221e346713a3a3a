"""privrl classify and privrl naive-bayes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.markup import escape

from privrl.cli.released import Data, Release, SchemaFile, check_name, plain_writer, release_command
from privrl.cli.terminal import OUT
from privrl.files.shown import shown

if TYPE_CHECKING:
    import pandas as pd

    from privrl.accounting.targets import Target
    from privrl.data.schema import Schema
    from privrl.mechanisms.selection import Candidate, Trial
    from privrl.models.logistic_regression.classifier import PrivateLogisticRegression
    from privrl.models.naive_bayes.classifier import PrivateNaiveBayes
    from privrl.numerics.typing import IntArray

TargetColumn = Annotated[str, "The column of the schema to predict."]
Test = Annotated[Path | None, "CSV file of other records to measure accuracy with."]

_FILES = ("model.json", "release.json")
_SCORE = 0.1  # share of a trial's budget for its score
_CALLED = {"PrivateNaiveBayes": "naive Bayes", "PrivateLogisticRegression": "logistic regression"}


@release_command("classify")
def classify(
    release: Release,
    data: Data,
    schema: SchemaFile,
    target_column: TargetColumn,
    model: str = "auto",
    choose: str | None = None,
    test: Test = None,
) -> None:
    """Fit a private classifier of the kind that suits the budget. Begin here.

    Writes model.json (the released model, which you may share; see privrl predict) and
    release.json (its cost).

    Parameters
    ----------
    model
        auto (chosen by public facts), logistic-regression or naive-bayes.
    choose
        Choose the best of several values privately, within the same budget: bins=4,8,16 (even
        bins of every numeric column), or model=naive-bayes,logistic-regression.
    """

    def make(schema: "Schema", target: "Target") -> Any:
        from privrl.models.logistic_regression.choice import PrivateClassifier

        return PrivateClassifier(
            schema,
            classes=target_column,
            target=target,
            model=model,  # type: ignore[arg-type] # any text, which it checks
            random_state=release.seed,
        )

    if choose is not None:
        _choose(release, data, schema, target_column, test, model, choose)
        return
    _fit(release, make, data, schema, target_column, test)


@release_command("naive-bayes")
def naive_bayes(
    release: Release,
    data: Data,
    schema: SchemaFile,
    target_column: TargetColumn,
    mechanism: str = "auto",
    test: Test = None,
) -> None:
    """Fit a private naive Bayes classifier: all columns of the schema predict one of them.

    Writes model.json (the released model, which you may share; see privrl predict) and
    release.json (its cost).

    Parameters
    ----------
    mechanism
        auto, dirichlet, dkl, gaussian, laplace, or none: no privacy.
    """
    private = mechanism != "none"

    def make(schema: "Schema", target: "Target") -> Any:
        from privrl.models.naive_bayes.classifier import PrivateNaiveBayes

        return PrivateNaiveBayes(
            schema,
            classes=target_column,
            target=target if private else None,
            mechanism=mechanism,  # type: ignore[arg-type] # any text, which it checks
            random_state=release.seed,
        )

    _fit(release, make, data, schema, target_column, test, private=private)


def _fit(
    release: Release,
    make: "Callable[[Schema, Target], Any]",
    data: Path,
    schema_file: Path,
    column: str,
    test: Path | None,
    *,
    private: bool = True,
) -> None:
    """Fit what ``make`` makes of a schema and a target; write and print the release."""
    from privrl.data.schema import Schema

    schema = Schema.load(schema_file)
    _check_target(schema, column)
    target = release.target
    release.check_seed()
    model = make(schema, target)
    accountant = release.account(_FILES, f"{release.context.info_name} of {column}")
    records, tests = _records(data, test, schema, release.separator)
    model.fit(records.drop(columns=column), records[column], accountant=accountant)
    fitted = getattr(model, "classifier_", model)
    guarantee = release.guarantee(fitted.cost_, schema, private=private)
    written = release.save({"model.json": plain_writer(fitted.to_dict())}, guarantee)
    _print_fitted(release, fitted, column, len(records))
    if tests is not None:
        release.answer["scores"] = print_scores(fitted, schema, tests, column)
    release.finish("model.json", guarantee, written, without="the mechanism is none")


def _choose(
    release: Release,
    data: Path,
    schema_file: Path,
    column: str,
    test: Path | None,
    kind: str,
    choose: str,
) -> None:
    """Fit the classifiers that ``choose`` names, and release the best: all that `_fit` does."""
    import numpy as np

    from privrl.data.schema import Schema
    from privrl.mechanisms.selection import Trial, plan_selection, run_trial, select_private

    schema = Schema.load(schema_file)
    _check_target(schema, column)
    target = release.target
    release.check_seed()
    options = _options_of(choose, schema, column, kind)
    cost, each = plan_selection(target, len(options))
    for own, named in options.values():
        _classifier(own, column, each, named, None)
    rng = release.rng()
    accountant = release.account(_FILES, f"choice of {column}")
    records, tests = _records(data, test, schema, release.separator)
    for own, named in options.values():
        # On made-up records, so that what their number or a setting makes impossible costs nothing.
        made_up = own.decode(np.zeros((len(records), len(own.names)), np.int64))
        with _rehearsed():
            rehearsal = Trial(cost.trial, each, rng)
            run_trial(_candidate(release, made_up, own, column, named), rehearsal)
    candidates = {
        name: _candidate(release, records, own, column, named)
        for name, (own, named) in options.items()
    }
    best = select_private(candidates, target=target, rng=rng, accountant=accountant)
    fitted, schema = best.result, options[best.name][0]
    guarantee = release.guarantee(best.cost, schema)
    written = release.save({"model.json": plain_writer(fitted.to_dict())}, guarantee)
    _print_fitted(release, fitted, column, len(records))
    OUT.print(f"chosen privately: {escape(best.name)}, among {escape(', '.join(options))}")
    if tests is not None:
        release.answer["scores"] = print_scores(fitted, schema, tests, column)
    release.answer |= {"chosen": best.name, "candidates": list(options)}
    release.finish("model.json", guarantee, written)


@contextmanager
def _rehearsed() -> Iterator[None]:
    """Drop the notes of a trial that stops before the charge: its budget is nobody's."""
    try:
        yield
    except BaseException as error:
        error.__notes__ = []
        raise


def _print_fitted(release: Release, fitted: Any, column: str, records: int) -> None:
    kind, features = _CALLED[type(fitted).__name__], fitted.n_features_in_
    what = f"{records} record{'s' * (records != 1)} and {features} feature{'s' * (features != 1)}"
    OUT.print(f"{kind} for {escape(column)}, from {what}")
    release.answer |= {
        "model": kind, "predicts": column, "records": records, "features": features,
    }  # fmt: skip


def _options_of(
    choose: str, schema: "Schema", column: str, kind: str
) -> "dict[str, tuple[Schema, str]]":
    """Return the schema and the kind of classifier of each candidate."""
    from privrl.data.schema import Bins, Schema

    setting, _, given = choose.partition("=")
    values = [value.strip() for value in given.split(",") if value.strip()]
    if setting not in ("bins", "model") or len(set(values)) != len(values) or len(values) < 2:
        raise ValueError(
            "choose must be like bins=4,8,16 or model=naive-bayes,logistic-regression, with at "
            f"least two different values, got {shown(choose)}."
        )
    if setting == "model":
        for value in values:
            check_name("a model of choose", value, ("logistic-regression", "naive-bayes"))
        return {f"model={value}": (schema, value) for value in values}
    if not any(isinstance(each, Bins) for each in schema.columns.values()):
        raise ValueError(
            "choose=bins needs a numeric column, and the schema has none; choose=model compares "
            "kinds of classifiers."
        )
    found = {}
    for value in values:
        if not value.isdecimal():
            raise ValueError(f"bins of choose must be whole numbers, got {shown(value)}.")
        cut = {
            name: Bins.even(
                each.edges[0], each.edges[-1], int(value), missing=each.missing, whole=each.whole
            )
            if isinstance(each, Bins)
            else each
            for name, each in schema.columns.items()
        }
        found[f"bins={value}"] = (Schema(cut), kind)
    return found


def _classifier(
    schema: "Schema", column: str, target: "Target", kind: str, seed: int | None
) -> "PrivateLogisticRegression | PrivateNaiveBayes":
    """Return a classifier whose parameters are checked; ``auto`` is as in `PrivateClassifier`."""
    from privrl.accounting.targets import PureDP
    from privrl.models import PrivateLogisticRegression, PrivateNaiveBayes

    check_name("model", kind, ("auto", "logistic-regression", "naive-bayes"))
    simple = isinstance(target, PureDP) or len(schema.names) == 2
    linear = kind == "logistic-regression" or (kind == "auto" and not simple)
    make = PrivateLogisticRegression if linear else PrivateNaiveBayes
    model = make(schema, classes=column, target=target, random_state=seed)
    model.check_parameters()
    return model


def _candidate(
    release: Release, records: "pd.DataFrame", schema: "Schema", column: str, kind: str
) -> "Candidate[PrivateLogisticRegression | PrivateNaiveBayes]":
    """Return a candidate of a selection: its score is the number of records predicted right."""

    def run(trial: "Trial") -> "tuple[PrivateLogisticRegression | PrivateNaiveBayes, float]":
        seed = None if release.seed is None else int(trial.rng.integers(2**32))
        model = _classifier(schema, column, trial.part(1 - _SCORE), kind, seed)
        X, y = records.drop(columns=column), records[column]
        model.fit(X, y, accountant=trial.accountant)
        classes = _classes_of(model, schema, records, column)
        right = int((model.predict_log_proba(X).argmax(axis=1) == classes).sum())
        noisy = trial.noisy([right, len(classes) - right], _SCORE)
        return model, float(noisy[0] - noisy[1])

    return run


def _check_target(schema: "Schema", name: str) -> None:
    """Check that a column can be predicted."""
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
            f"target-column must have known categories only, got {shown(name)}, which has a cell "
            f"for others; in the schema's file, under {heading(name)}: other = false."
        )


def _records(
    data: Path, test: Path | None, schema: "Schema", separator: str
) -> "tuple[pd.DataFrame, pd.DataFrame | None]":
    """Return the private records, and other records to measure accuracy with."""
    from privrl.data.records import read_records

    tests = None if test is None else read_records(test, schema, separator=separator)
    records = read_records(data, schema, separator=separator)
    schema.encode(records)  # reports the misfits of all columns at once
    if tests is not None:
        schema.encode(tests)  # misfits are found before anything is spent
        if len(tests) == 0:
            raise ValueError(f"test must have at least one record, got {str(test)!r}.")
    return records, tests


def print_scores(
    model: "PrivateLogisticRegression | PrivateNaiveBayes",
    schema: "Schema",
    records: "pd.DataFrame",
    target_column: str,
) -> dict[str, Any]:
    """Print how well a classifier predicts records of known classes."""
    import numpy as np

    classes = _classes_of(model, schema, records, target_column)
    log_chances = model.predict_log_proba(records.drop(columns=target_column))
    accuracy = float((log_chances.argmax(axis=1) == classes).mean())
    commonest = float(np.bincount(classes).max() / len(classes))
    entropy = -float(log_chances[np.arange(len(classes)), classes].mean())
    OUT.print(
        f"accuracy {accuracy:.4f} (most frequent class: {commonest:.4f}), cross-entropy "
        f"{entropy:.4f} nats, on {len(classes)} records, measured without noise: publish it only "
        "if these records are public"
    )
    return {
        "accuracy": accuracy, "commonest": commonest, "cross_entropy": entropy,
        "records": len(classes),
    }  # fmt: skip


def _classes_of(
    model: "PrivateLogisticRegression | PrivateNaiveBayes",
    schema: "Schema",
    records: "pd.DataFrame",
    target_column: str,
) -> "IntArray":
    """Return the records' classes by their places among the model's."""
    import numpy as np

    from privrl.data.schema import Categories

    column = schema.columns[target_column]
    assert isinstance(column, Categories)
    places = {label: place for place, label in enumerate(model.classes_.tolist())}
    own = np.array([places[value] for value in column.values])
    return own[column.encode(records[target_column])]
