"""A fitted logistic regression as plain data: released numbers and their cost."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from privrl.costs.base import Cost, NoPrivacy, Together, zcdp_rho
from privrl.costs.noise import GaussianCost
from privrl.costs.relations import ReplaceRecord
from privrl.files.sharing import Verdict, check_said
from privrl.files.shown import shown
from privrl.models.classifiers import Public, as_part
from privrl.models.naive_bayes.classifier import PrivateNaiveBayes
from privrl.models.released import with_bins
from privrl.models.saving import (
    OF_CLASSES,
    OF_CLONE,
    caveats_said,
    check_classifier,
    check_entries,
    check_format,
    classifier_verdict,
    plain_caveats,
    randomness_said,
)
from privrl.models.targets import check_guarantee, guarantee_of, plain_target, read_target
from privrl.numerics.checks import check_count, check_positive, check_truth
from privrl.numerics.typing import FloatArray

FORMAT = "privrl.PrivateLogisticRegression 2"
FIRST_FORMAT = "privrl.PrivateLogisticRegression 1"
_FITTED = ("weights", "intercept", "deviations", "intercept_deviations")
_ENTRIES = (
    "format", "guarantee", "target", "naive_bayes", *_FITTED, "spent", "randomness", "shareable",
    "because",
)  # fmt: skip


def to_plain(state: Mapping[str, Any], public: Public, caveats: list[str]) -> dict[str, Any]:
    """Return a fitted classifier, given by its parameters and attributes, as plain data."""
    begun = state["naive_bayes_"]
    cost = state["cost_"]
    return {
        "format": FORMAT,
        "guarantee": dict(
            with_bins(guarantee_of(state["_whole_cost"], public.target), public.domain)
        ),
        "target": plain_target(public.target),
        "naive_bayes": begun._fit_plain(),
        "weights": [table.tolist() for table in state["weights_"]],
        "intercept": state["intercept_"].tolist(),
        "deviations": [table.tolist() for table in state["deviations_"]],
        "intercept_deviations": state["intercept_deviations_"].tolist(),
        "spent": {
            "relation": str(cost.relation),
            "sigma": cost.sigma,
            "steps": state["n_steps_"],
            "begun_before": state["_is_begun_before"],
        },
        "randomness": state["randomness_"],
        **_verdict(state["randomness_"], caveats).said,
        **plain_caveats(caveats),
    }


def parameters_of(data: Any) -> tuple[dict[str, Any], PrivateNaiveBayes]:
    """Return the parameters of the classifier that plain data describe, and where it began."""
    data = _as_now(data)
    check_classifier(data, _ENTRIES)
    check_format(data, FORMAT)
    begun = as_part(PrivateNaiveBayes.from_dict(data["naive_bayes"]))
    target = read_target(data["target"])
    return {"schema": begun.schema, "classes": begun.classes, "target": target}, begun


def attributes_of(data: Mapping[str, Any], begun: PrivateNaiveBayes) -> dict[str, Any]:
    """Return what a fit has added to the parameters."""
    data = _as_now(data)
    spent, relation, n_classes = data["spent"], ReplaceRecord(), len(begun.classes_)
    check_entries("spent", spent, ("relation", "sigma", "steps", "begun_before"))
    if spent["relation"] != str(relation):
        raise ValueError(f"relation must be {str(relation)!r}, got {shown(spent['relation'])}.")
    caveats = sorted({*caveats_said(data), *begun._caveats})
    check_said(data, _verdict(randomness_said(data), caveats))
    cost = GaussianCost(sigma=check_positive("sigma", spent["sigma"]), relation=relation)
    before = check_truth("begun_before", spent["begun_before"])
    _check_part(begun, cost, before=before)
    total = both(cost, begun) if before else cost
    target = read_target(data["target"])
    assert target is not None  # the parameters were checked before
    whole = with_bins(guarantee_of(total, target), begun._public.domain)
    check_guarantee(data["guarantee"], whole)
    shapes = [table.T.shape for table in begun.feature_log_prob_]
    names = getattr(begun, "feature_names_in_", None)
    return {
        **({"_is_clone": True} if OF_CLONE in caveats else {}),
        "n_features_in_": begun.n_features_in_,
        **({} if names is None else {"feature_names_in_": names}),
        "naive_bayes_": begun,
        "classes_": begun.classes_,
        "cost_": cost,
        "_whole_cost": total,
        "_is_begun_before": before,
        "_public": replace(begun._public, target=target, learned=OF_CLASSES in caveats),
        "n_steps_": check_count("steps", spent["steps"], least=0),
        "randomness_": randomness_said(data),
        "weights_": _tables_of("weights", data["weights"], shapes),
        "intercept_": _numbers_of("intercept", data["intercept"], (n_classes,)),
        "deviations_": _tables_of("deviations", data["deviations"], shapes, least=0.0),
        "intercept_deviations_": _numbers_of(
            "intercept_deviations", data["intercept_deviations"], (n_classes,), least=0.0
        ),
    }


def both(cost: Cost, begun: PrivateNaiveBayes) -> Together:
    """Return the joint cost of gradients and of a classifier fitted before, on the same records."""
    before = begun.cost_
    return Together([cost, *(before.parts if isinstance(before, Together) else (before,))])


def _check_part(begun: PrivateNaiveBayes, cost: Cost, *, before: bool) -> None:
    """Check that the cost of where it began is in what is stated; last digits may differ."""
    if isinstance(begun.cost_, NoPrivacy):
        raise ValueError("naive_bayes must be private, got one of mechanism 'none'.")
    part, whole = zcdp_rho(begun.cost_), zcdp_rho(cost)
    if not before and (part is None or whole is None or float(part) > float(whole) * (1 + 1e-6)):
        raise ValueError("naive_bayes must cost no more than all, unless it was begun before.")


def _as_now(data: Any) -> Any:
    """Return a file of the first format as one of today's.

    It does not state whether its naive Bayes classifier was paid for before; assume so.
    """
    if not isinstance(data, Mapping) or data.get("format") != FIRST_FORMAT:
        return data
    spent = data.get("spent")
    if isinstance(spent, Mapping):
        spent = {**spent, "begun_before": True}
    return {**data, "format": FORMAT, "guarantee": None, "spent": spent}


def _verdict(randomness: str | None, caveats: list[str]) -> Verdict:
    """Return whether a classifier may be shared: it is never without privacy."""
    return classifier_verdict(private=True, randomness=randomness, caveats=caveats)


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
