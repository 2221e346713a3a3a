"""A fitted classifier as plain data: what was released and what it cost, never counts or seeds."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from scipy.special import logsumexp

from privrl._checks import check_count, check_positive
from privrl._typing import FloatArray
from privrl.accounting.targets import ApproxDP, Rdp, Target
from privrl.costs.relations import ReplaceRecord
from privrl.data.schema import Bins, Categories, Column, Schema
from privrl.data.schema.plain import column_of, listed, plain
from privrl.mechanisms.tables import Rows, TablesMechanism
from privrl.models.naive_bayes.encoding import check_sizes, class_array, class_labels, class_order
from privrl.models.naive_bayes.temperature import SHAPES

if TYPE_CHECKING:
    from privrl.models.naive_bayes.classifier import PrivateNaiveBayes

Model = TypeVar("Model", bound="PrivateNaiveBayes")

_FORMAT = "privrl.PrivateNaiveBayes 1"
_PARAMETERS = ("mechanism", "shares", "orientation", "alpha", "temperature")
_SPENT = ("relation", "is_private", "mechanism", "sizes", "alpha")
_ENTRIES = (
    "format", "schema", "classes", "target", *_PARAMETERS, "n_records", "n_features",
    "feature_names", "measured_temperature", "class_log_prior", "feature_log_prob", "spent",
)  # fmt: skip
_ROUNDING = 1e-9  # by which probabilities may miss 1


def to_plain(model: "PrivateNaiveBayes") -> dict[str, Any]:
    """Return a fitted classifier as `from_plain` reads it."""
    used = model.mechanism_
    shapes = _shapes(model, _sizes(model.schema, model.classes, model.n_features_in_))
    if used.shapes != _with_measured(shapes, used) or not _is_made_by(used, model.mechanism):
        raise ValueError(
            "a classifier can be saved with the parameters that it was fitted with; set those "
            "back, or fit again."
        )
    is_private = used.mechanism != "none"
    names = getattr(model, "feature_names_in_", None)
    labels = class_labels(model.schema, model.classes)
    stated = np.argsort(class_order(labels))  # in a file classes have the order they are stated in
    return {
        "format": _FORMAT,
        "schema": _plain_schema(model.schema),
        "classes": model.classes if isinstance(model.classes, str) else list(labels.values),
        "target": asdict(model.target) if is_private and model.target is not None else None,
        "mechanism": model.mechanism,
        "shares": model.shares,
        "orientation": model.orientation,
        "alpha": None if model.alpha is None else float(model.alpha),
        "temperature": None if model.temperature is None else float(model.temperature),
        "n_records": model.n_records_,
        "n_features": model.n_features_in_,
        "feature_names": None if names is None else names.tolist(),
        "measured_temperature": model.temperature_,
        "class_log_prior": _plain_logs(model.class_log_prior_[stated]),
        "feature_log_prob": [_plain_logs(table[stated]) for table in model.feature_log_prob_],
        "spent": {
            "relation": str(used.relation),
            "is_private": is_private,
            "mechanism": used.mechanism,
            "sizes": list(used.sizes),
            "alpha": used.alpha,
        },
    }


def from_plain(kind: type[Model], data: Any) -> Model:
    """Return the fitted classifier that plain data describe."""
    _check_entries("a classifier", data, _ENTRIES)
    if data["format"] != _FORMAT:
        raise ValueError(f"format must be {_FORMAT!r}, got {data['format']!r}.")
    schema = _schema_of(data["schema"])
    parameters = {name: data[name] for name in _PARAMETERS}
    model = kind(schema, classes=data["classes"], target=_target_of(data["target"]), **parameters)
    model.check_parameters()
    if not isinstance(data["classes"], str | list):
        raise ValueError(f"classes must be a name or a list, got {data['classes']!r}.")
    labels = class_labels(schema, data["classes"])
    n_features = check_count("n_features", data["n_features"])
    tables = data["feature_log_prob"]
    if not isinstance(tables, list):
        raise ValueError("feature_log_prob must be a list of tables.")
    if len(tables) != n_features:
        raise ValueError(
            f"n_features must be {len(tables)}, as feature_log_prob has tables, got {n_features}."
        )
    sizes = _sizes(schema, data["classes"], n_features)
    model.n_features_in_ = n_features
    model.n_records_ = check_count("n_records", data["n_records"])
    model.temperature_ = check_positive("measured_temperature", data["measured_temperature"])
    model.classes_ = class_array(labels)
    if data["feature_names"] is not None:
        model.feature_names_in_ = _names_of(data["feature_names"], n_features)
    model.mechanism_ = _mechanism_of(data["spent"], _shapes(model, sizes))
    if not _is_made_by(model.mechanism_, model.mechanism):
        raise ValueError(
            f"mechanism {model.mechanism!r} must be what was spent on, got "
            f"{model.mechanism_.mechanism!r}."
        )
    model.cost_ = model.mechanism_.cost
    order = class_order(labels)
    prior = _logs_of("class_log_prior", data["class_log_prior"], (labels.size,))
    model.class_log_prior_ = prior[order]
    model.feature_log_prob_ = [
        _logs_of(f"feature_log_prob[{k}]", table, (labels.size, size), model.orientation)[order]
        for k, (table, size) in enumerate(zip(tables, sizes, strict=True))
    ]
    return model


# What was released --------------------------------------------------------------------------------


def _shapes(model: "PrivateNaiveBayes", sizes: Sequence[int]) -> tuple[Rows, ...]:
    """Return the shapes of the tables of counts: of the classes, and of each feature."""
    n = class_labels(model.schema, model.classes).size
    by_value = model.orientation == "paper"
    return (1, n), *((size, n) if by_value else (n, size) for size in sizes)


def _with_measured(shapes: tuple[Rows, ...], used: TablesMechanism) -> tuple[Rows, ...]:
    return (*shapes, *SHAPES) if len(used.shapes) > len(shapes) else shapes


def _is_made_by(used: TablesMechanism, mechanism: str) -> bool:
    """Return whether a classifier's ``mechanism`` leads to such a release."""
    known = {"auto": ("gaussian", "laplace"), "dkl": ("dirichlet",)}
    return used.mechanism in known.get(mechanism, (mechanism,))


def _mechanism_of(spent: Any, shapes: tuple[Rows, ...]) -> TablesMechanism:
    _check_entries("spent", spent, _SPENT)
    relation = ReplaceRecord()
    if spent["relation"] != str(relation):
        raise ValueError(f"relation must be {str(relation)!r}, got {spent['relation']!r}.")
    if spent["is_private"] is not (spent["mechanism"] != "none"):
        raise ValueError("is_private must be true but for the mechanism 'none'.")
    sizes, alpha = spent["sizes"], spent["alpha"]
    if not isinstance(sizes, list):
        raise ValueError(f"sizes must be a list of numbers, got {sizes!r}.")
    if len(sizes) == len(shapes) + len(SHAPES):
        shapes = (*shapes, *SHAPES)
    return TablesMechanism(
        shapes=shapes,
        mechanism=spent["mechanism"],
        sizes=tuple(check_positive("sizes", size) for size in sizes),
        alpha=check_positive("alpha", alpha),
    )


def _plain_logs(logs: FloatArray) -> list[Any]:
    """Return logarithms as lists, with None for that of zero, which JSON cannot say."""
    entries = logs.astype(object)
    entries[np.isneginf(logs)] = None
    rows: list[Any] = entries.tolist()
    return rows


def _logs_of(
    name: str, data: Any, shape: tuple[int, ...], orientation: str = "values"
) -> FloatArray:
    try:
        entries = np.array(data, object)
    except ValueError:  # rows of several lengths
        entries = np.array(None)
    if entries.shape != shape or not {float, int, type(None)} >= set(map(type, entries.flat)):
        raise ValueError(f"{name} must be logarithms of shape {shape}.")
    logs = np.where(entries == None, -np.inf, entries).astype(np.float64)  # noqa: E711, each one
    sums = logsumexp(logs, axis=0 if orientation == "paper" else -1)
    if not (np.abs(sums) <= _ROUNDING).all():
        raise ValueError(f"{name} must be logarithms of probabilities that sum to 1.")
    return logs


# The public domain --------------------------------------------------------------------------------


def _plain_schema(schema: Schema | Column | Sequence[int]) -> Any:
    if isinstance(schema, Schema):
        return schema.to_dict()
    if isinstance(schema, Categories | Bins):
        return plain(schema)
    return list(check_sizes(schema))


def _schema_of(data: Any) -> Schema | Column | tuple[int, ...]:
    if isinstance(data, list):
        return check_sizes(data)
    if isinstance(data, Mapping) and "columns" in data:
        return Schema.from_dict(data)
    return column_of("of all features", data)


def _sizes(
    schema: Schema | Column | Sequence[int], classes: object, n_features: int
) -> tuple[int, ...]:
    """Return the features' numbers of values."""
    if isinstance(schema, Categories | Bins):
        return (schema.size,) * n_features
    if isinstance(schema, Schema):
        sizes = tuple(column.size for name, column in schema.columns.items() if name != classes)
    else:
        sizes = check_sizes(schema)
    if len(sizes) != n_features:
        raise ValueError(f"n_features must be {len(sizes)}, as of the schema, got {n_features}.")
    return sizes


def _target_of(data: Any) -> Target | None:
    if data is None:
        return None
    for kind, names in ((Rdp, ("order", "epsilon")), (ApproxDP, ("epsilon", "delta"))):
        if isinstance(data, Mapping) and set(data) == set(names):
            return kind(**data)
    raise ValueError("target must have the entries order and epsilon, or epsilon and delta.")


def _names_of(data: Any, n_features: int) -> Any:
    if (
        not isinstance(data, list)
        or len(data) != n_features
        or not all(isinstance(name, str) for name in data)
    ):
        raise ValueError(f"feature_names must be a list of {n_features} names.")
    return np.array(data, object)


def _check_entries(what: str, data: Any, wanted: Sequence[str]) -> None:
    if not isinstance(data, Mapping) or set(data) != set(wanted):
        raise ValueError(f"{what} must have the entries {listed(wanted)}.")
