"""A fitted naive Bayes classifier as plain data: released numbers and their cost."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from privrl.data.schema import Bins, Categories, Column, Schema
from privrl.data.schema.plain import column_of, plain
from privrl.files.sharing import Verdict, check_said
from privrl.files.shown import shown
from privrl.mechanisms.tables import Rows, TablesMechanism
from privrl.models import saving
from privrl.models.classifiers import Public
from privrl.models.encoding import (
    check_sizes,
    class_array,
    class_labels,
    class_order,
    in_stated_order,
)
from privrl.models.naive_bayes.temperature import SHAPES
from privrl.models.targets import plain_target, read_target
from privrl.numerics.checks import check_count, check_positive
from privrl.numerics.scipy_lazily import special
from privrl.numerics.typing import FloatArray

_FORMAT = "privrl.PrivateNaiveBayes 1"
_PARAMETERS = ("mechanism", "shares", "alpha", "temperature")
_ENTRIES = (
    "format", "schema", "classes", "target", *_PARAMETERS, "n_records", "n_features",
    "feature_names", "measured_temperature", "class_log_prior", "feature_log_prob", "spent",
    "randomness", "shareable", "because",
)  # fmt: skip
_ROUNDING = 1e-9  # by which probabilities may miss 1


def to_plain(state: Mapping[str, Any], public: Public, caveats: list[str]) -> dict[str, Any]:
    """Return a fitted classifier, given by its parameters and attributes, as plain data."""
    used, labels, names = state["mechanism_"], public.labels, state.get("feature_names_in_")
    is_private = used.mechanism != "none"
    alpha, temperature, classes = state["alpha"], state["temperature"], state["classes"]
    if not _is_made_by(used, state["mechanism"]):
        raise ValueError(
            "a classifier can be saved with the mechanism that it was fitted with; set that back, "
            "or fit again."
        )
    return {
        "format": _FORMAT,
        "schema": _plain_domain(public.domain),
        "classes": classes if isinstance(classes, str) else list(labels.values),
        "target": plain_target(public.target) if is_private else None,
        "mechanism": state["mechanism"],
        "shares": state["shares"],
        "alpha": None if alpha is None else float(alpha),
        "temperature": None if temperature is None else float(temperature),
        "n_records": state["n_records_"],
        "n_features": state["n_features_in_"],
        "feature_names": None if names is None else names.tolist(),
        "measured_temperature": state["temperature_"],
        "class_log_prior": _plain_logs(in_stated_order(labels, state["class_log_prior_"])),
        "feature_log_prob": [
            _plain_logs(in_stated_order(labels, table)) for table in state["feature_log_prob_"]
        ],
        "spent": {"relation": str(used.relation), "is_private": is_private}
        | saving.plain_spent(used),
        "randomness": state["randomness_"],
        **_verdict(used, state["randomness_"], caveats).said,
        **saving.plain_caveats(caveats),
    }


def parameters_of(data: Any) -> dict[str, Any]:
    """Return the parameters of the classifier that plain data describe."""
    saving.check_classifier(data, _ENTRIES)
    saving.check_format(data, _FORMAT)
    if not isinstance(data["classes"], str | list):
        raise ValueError(f"classes must be a name or a list, got {shown(data['classes'])}.")
    return {
        "schema": _domain_of(data["schema"]),
        "classes": data["classes"],
        "target": read_target(data["target"]),
        **{name: data[name] for name in _PARAMETERS},
    }


def attributes_of(data: Mapping[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a fit has added to these parameters, which have been checked."""
    labels = class_labels(parameters["schema"], parameters["classes"])
    n_features = check_count("n_features", data["n_features"])
    tables = data["feature_log_prob"]
    if not isinstance(tables, list):
        raise ValueError("feature_log_prob must be a list of tables.")
    if len(tables) != n_features:
        raise ValueError(
            f"n_features must be {len(tables)}, as feature_log_prob has tables, got {n_features}."
        )
    sizes = _sizes(parameters["schema"], parameters["classes"], n_features)
    used = _mechanism_of(data["spent"], _shapes(labels.size, sizes))
    if not _is_made_by(used, parameters["mechanism"]):
        raise ValueError(
            f"mechanism {shown(parameters['mechanism'])} must be what was spent on, got "
            f"{shown(used.mechanism)}."
        )
    said = saving.randomness_said(data)
    caveats = saving.caveats_said(data)
    check_said(data, _verdict(used, said, caveats))
    names = _names_of(data["feature_names"], n_features, parameters)
    order = class_order(labels)
    prior = _logs_of("class_log_prior", data["class_log_prior"], (labels.size,))
    return {
        **({"_is_clone": True} if saving.OF_CLONE in caveats else {}),
        "n_features_in_": n_features,
        "n_records_": check_count("n_records", data["n_records"]),
        "temperature_": check_positive("measured_temperature", data["measured_temperature"]),
        "classes_": class_array(labels),
        **({} if names is None else {"feature_names_in_": names}),
        "mechanism_": used,
        "_public": Public(
            parameters["schema"],
            labels,
            parameters["target"],
            learned=saving.OF_CLASSES in caveats,
        ),
        "cost_": used.cost,
        "randomness_": said,
        "class_log_prior_": prior[order],
        "feature_log_prob_": [
            _logs_of(f"feature_log_prob[{k}]", table, (labels.size, size))[order]
            for k, (table, size) in enumerate(zip(tables, sizes, strict=True))
        ],
    }


def _verdict(used: TablesMechanism, randomness: str | None, caveats: list[str]) -> Verdict:
    """Return whether it may be shared."""
    private = used.mechanism != "none"
    return saving.classifier_verdict(private=private, randomness=randomness, caveats=caveats)


# What was released --------------------------------------------------------------------------------


def _shapes(n_classes: int, sizes: Sequence[int]) -> tuple[Rows, ...]:
    """Return the shapes of the tables of counts: of the classes, and of each feature."""
    return (1, n_classes), *((n_classes, size) for size in sizes)


def _is_made_by(used: TablesMechanism, mechanism: str) -> bool:
    """Return whether a classifier's ``mechanism`` leads to such a release."""
    known = {"auto": ("gaussian", "laplace"), "dkl": ("dirichlet",)}
    return used.mechanism in known.get(mechanism, (mechanism,))


def _mechanism_of(spent: Any, shapes: tuple[Rows, ...]) -> TablesMechanism:
    saving.check_entries("spent", spent, (*saving.SPENT, "is_private"))
    if spent["is_private"] is not (spent["mechanism"] != "none"):
        raise ValueError("is_private must be true but for the mechanism 'none'.")
    sizes = spent["sizes"]
    measured = isinstance(sizes, list) and len(sizes) == len(shapes) + len(SHAPES)
    return saving.mechanism_of(spent, (*shapes, *SHAPES) if measured else shapes)


def _plain_logs(logs: FloatArray) -> list[Any]:
    """Return logarithms as lists, with None for the logarithm of zero."""
    entries = logs.astype(object)
    entries[np.isneginf(logs)] = None
    rows: list[Any] = entries.tolist()
    return rows


def _logs_of(name: str, data: Any, shape: tuple[int, ...]) -> FloatArray:
    try:
        entries = np.array(data, object)
    except ValueError:  # rows of several lengths
        entries = np.array(None)
    if entries.shape != shape or not {float, int, type(None)} >= set(map(type, entries.flat)):
        raise ValueError(f"{name} must be logarithms of shape {shape}.")
    logs = np.where(entries == None, -np.inf, entries).astype(np.float64)  # noqa: E711, each one
    sums = special.logsumexp(logs, axis=-1)
    if not (np.abs(sums) <= _ROUNDING).all():
        raise ValueError(f"{name} must be logarithms of probabilities that sum to 1.")
    return logs


# The public domain --------------------------------------------------------------------------------


def _plain_domain(schema: Schema | Column | Sequence[int]) -> Any:
    if isinstance(schema, Schema):
        return schema.to_dict()
    if isinstance(schema, Categories | Bins):
        return plain(schema)
    return list(check_sizes(schema))


def _domain_of(data: Any) -> Schema | Column | tuple[int, ...]:
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


def _names_of(data: Any, n_features: int, parameters: Mapping[str, Any]) -> Any:
    """Return the names of the features in the order of their tables, which is the schema's.

    Older files have those of a table with a schema in the order of the fitted records.
    """
    if data is None:
        return None
    if (
        not isinstance(data, list)
        or len(data) != n_features
        or not all(isinstance(name, str) for name in data)
    ):
        raise ValueError(f"feature_names must be a list of {n_features} names.")
    schema, classes = parameters["schema"], parameters["classes"]
    if isinstance(schema, Schema):
        names = [name for name in schema.names if name != classes]
        if sorted(data) != sorted(names):
            raise ValueError("feature_names must be the schema's, without the classes.")
        data = names
    return np.array(data, object)
