"""A classifier that was chosen privately among several, as plain data.

The classifier alone would state what its own fit cost. It was kept because it was the best, so the
file states the selection: its candidates, the mean number of trials, and the whole cost.
"""

from collections.abc import Callable, Mapping
from typing import Any

from privrl.accounting.targets import PureDP, Target
from privrl.costs.base import Cost, pure_ratio, zcdp_rho
from privrl.costs.selection import SelectionCost
from privrl.files.chosen import Selection, mark_chosen
from privrl.files.shown import shown
from privrl.mechanisms.selection import plan_selection
from privrl.models.released import with_bins
from privrl.models.saving import (
    CAVEATS,
    CHOSEN,
    LEARNED,
    OF_TRIAL,
    caveats_said,
    check_entries,
    check_format,
    classifier_verdict,
    randomness_said,
)
from privrl.models.targets import check_guarantee, guarantee_of, plain_target, read_target
from privrl.numerics.checks import check_count, check_truth

_OF_MODEL = ("randomness", "shareable", "because", CAVEATS)
_ALONE = ("guarantee", "shareable", "because")  # what the file of a fit alone states
_BEGUN = ("naive_bayes",)
_LEARNED = "learned"  # whether the classes are those of the records
_ENTRIES = (
    "format", "guarantee", "target", "candidates", "chosen", "trials", "model", *_OF_MODEL[:-1],
)  # fmt: skip


def chosen_plain(model: dict[str, Any], by: Selection, domain: object) -> dict[str, Any]:
    """Return the plain data of a chosen classifier, from those of its fit and its domain.

    Its trial paid for that, so it cost no more than a trial, under the selection's relation.
    """
    return {
        "format": CHOSEN,
        "guarantee": dict(with_bins(guarantee_of(by.cost, by.target), domain)),
        "target": plain_target(by.target),
        "candidates": list(by.candidates),
        "chosen": by.name,
        "trials": by.cost.trials,
        "model": _part(model),
        **{name: model[name] for name in _OF_MODEL if name in model},
    }


def chosen_from_plain(data: Mapping[str, Any], read: Callable[[Any], Any]) -> Any:
    """Return the classifier of plain data, whose guarantee is that of the selection.

    Raises
    ------
    ValueError
        If an entry is wrong, or the classifier cost more than a trial of the selection may.
    """
    check_entries("a chosen classifier", data, _ENTRIES, optional=[CAVEATS])
    check_format(data, CHOSEN)
    names, target = data["candidates"], read_target(data["target"])
    if not isinstance(names, list) or data["chosen"] not in names:
        raise ValueError(f"candidates must be a list with {shown(data['chosen'])}.")
    fit = _fit("model", data["model"])
    trials = check_count("trials", data["trials"])
    cost, _ = plan_selection(target, len(names), trials=trials)  # type: ignore[arg-type] # it checks
    model = read(fit)
    whole = with_bins(guarantee_of(cost, target), model._public.domain)
    check_guarantee(data["guarantee"], whole)
    for name in _OF_MODEL:
        if data.get(name) != fit.get(name):
            raise ValueError(f"{name} must be that of the model, got {shown(data.get(name))}.")
    _check_within(model.total_cost_, cost, target)
    # Where it began is a part of what was chosen: alone, it would state less.
    mark_chosen(model, Selection(cost, target, data["chosen"], tuple(names)))
    return model


def _part(fit: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plain data of a fit as a part of the file, which nobody reads alone.

    It has its own format, no guarantee and no verdict; and so has where the fit began.
    """
    part = {name: each for name, each in fit.items() if name not in _ALONE}
    part |= {"format": fit["format"] + OF_TRIAL, _LEARNED: fit["because"] == LEARNED.because}
    return part | {name: _part(fit[name]) for name in _BEGUN if name in fit}


def _fit(what: str, part: Any) -> dict[str, Any]:
    """Return the plain data of the fit that is a part of the file."""
    said = part.get("format") if isinstance(part, Mapping) else None
    if not isinstance(said, str) or not said.endswith(OF_TRIAL) or said == CHOSEN + OF_TRIAL:
        raise ValueError(f"{what} must be a classifier that a trial fitted, and not chosen alone.")
    if stated := [name for name in _ALONE if name in part]:
        raise ValueError(f"{what} must not state its own {stated[0]}, which is not that of all.")
    learned = check_truth(_LEARNED, part.get(_LEARNED))
    verdict = classifier_verdict(
        private=True,
        randomness=randomness_said({"randomness": part.get("randomness")}),
        caveats=caveats_said({**part, "because": LEARNED.because if learned else None}),
    )
    fit = {name: each for name, each in part.items() if name != _LEARNED}
    for name in _BEGUN:
        if name in part:
            fit |= {name: _fit(name, part[name]), "guarantee": None}
    return fit | {"format": said.removesuffix(OF_TRIAL)} | verdict.said


def _check_within(fit: Cost, cost: SelectionCost, target: Target | None) -> None:
    """Check that a classifier cost no more than a trial; processors differ in last digits."""
    number = pure_ratio if isinstance(target, PureDP) else zcdp_rho
    spent, limit = number(fit), number(cost.trial)
    if spent is None or limit is None or float(spent) > float(limit) * (1 + 1e-6):
        raise ValueError("model must cost no more than a trial of the selection.")
