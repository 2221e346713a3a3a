"""A fitted logistic regression as plain data: what was released and what it cost."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from privrl._checks import check_count, check_positive
from privrl._sharing import Verdict, check_said, judge
from privrl._typing import FloatArray
from privrl.costs.noise import GaussianCost
from privrl.costs.relations import ReplaceRecord
from privrl.models.naive_bayes import PrivateNaiveBayes
from privrl.models.naive_bayes.plain import target_of
from privrl.models.saving import check_entries, check_format, randomness_said

FORMAT = "privrl.PrivateLogisticRegression 1"
_FITTED = ("weights", "intercept", "deviations", "intercept_deviations")
_ENTRIES = (
    "format", "target", "naive_bayes", *_FITTED, "spent", "randomness", "shareable", "because",
)  # fmt: skip


def to_plain(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a fitted classifier, given by its parameters and attributes, as plain data."""
    begun = state["naive_bayes_"]
    if (repr(begun.schema), repr(begun.classes), state["_fitted_for"]) != (
        repr(state["schema"]),
        repr(state["classes"]),
        state["target"],
    ):
        raise ValueError(
            "a classifier can be saved with the parameters that it was fitted with; set those "
            "back, or fit again."
        )
    cost = state["cost_"]
    return {
        "format": FORMAT,
        "target": asdict(state["target"]),
        "naive_bayes": begun.to_dict(),
        "weights": [table.tolist() for table in state["weights_"]],
        "intercept": state["intercept_"].tolist(),
        "deviations": [table.tolist() for table in state["deviations_"]],
        "intercept_deviations": state["intercept_deviations_"].tolist(),
        "spent": {
            "relation": str(cost.relation),
            "sigma": cost.sigma,
            "steps": state["n_steps_"],
        },
        "randomness": state["randomness_"],
        **_verdict(state["randomness_"]).said,
    }


def parameters_of(data: Any) -> tuple[dict[str, Any], PrivateNaiveBayes]:
    """Return the parameters of the classifier that plain data describe, and where it began."""
    check_entries("a classifier", data, _ENTRIES)
    check_format(data, FORMAT)
    begun = PrivateNaiveBayes.from_dict(data["naive_bayes"])
    target = target_of(data["target"])
    return {"schema": begun.schema, "classes": begun.classes, "target": target}, begun


def attributes_of(data: Mapping[str, Any], begun: PrivateNaiveBayes) -> dict[str, Any]:
    """Return what a fit has added to the parameters."""
    spent, relation, n_classes = data["spent"], ReplaceRecord(), len(begun.classes_)
    check_entries("spent", spent, ("relation", "sigma", "steps"))
    if spent["relation"] != str(relation):
        raise ValueError(f"relation must be {str(relation)!r}, got {spent['relation']!r}.")
    check_said(data, _verdict(randomness_said(data)))
    shapes = [table.T.shape for table in begun.feature_log_prob_]
    names = getattr(begun, "feature_names_in_", None)
    return {
        "n_features_in_": begun.n_features_in_,
        **({} if names is None else {"feature_names_in_": names}),
        "naive_bayes_": begun,
        "classes_": begun.classes_,
        "_fitted_for": target_of(data["target"]),
        "cost_": GaussianCost(sigma=check_positive("sigma", spent["sigma"]), relation=relation),
        "n_steps_": check_count("steps", spent["steps"], least=0),
        "randomness_": randomness_said(data),
        "weights_": _tables_of("weights", data["weights"], shapes),
        "intercept_": _numbers_of("intercept", data["intercept"], (n_classes,)),
        "deviations_": _tables_of("deviations", data["deviations"], shapes, least=0.0),
        "intercept_deviations_": _numbers_of(
            "intercept_deviations", data["intercept_deviations"], (n_classes,), least=0.0
        ),
    }


def _verdict(randomness: str | None) -> Verdict:
    """Return whether a classifier may be shared: it is never without privacy."""
    return judge("model.json", private=True, randomness=randomness)


def _tables_of(
    name: str, data: Any, shapes: list[tuple[int, ...]], least: float = -np.inf
) -> list[FloatArray]:
    if not isinstance(data, list) or len(data) != len(shapes):
        raise ValueError(f"{name} must be a list of {len(shapes)} tables.")
    return [
        _numbers_of(f"{name}[{k}]", table, shape, least)
        for k, (table, shape) in enumerate(zip(data, shapes, strict=True))
    ]


def _numbers_of(name: str, data: Any, shape: tuple[int, ...], least: float = -np.inf) -> FloatArray:
    try:
        entries = np.array(data, object)
    except ValueError:  # rows of several lengths
        entries = np.array(None)
    if entries.shape != shape or not {float, int} >= set(map(type, entries.flat)):
        raise ValueError(f"{name} must be numbers of shape {shape}.")
    numbers = entries.astype(np.float64)
    if not (np.isfinite(numbers) & (numbers >= least)).all():
        raise ValueError(f"{name} must be finite numbers{' >= 0' * (least == 0)}.")
    return numbers
