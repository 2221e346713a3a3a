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
from privrl.models.saving import CHOSEN, check_entries, check_format
from privrl.models.targets import check_guarantee, guarantee_of, plain_target, read_target
from privrl.numerics.checks import check_count

_OF_MODEL = ("randomness", "shareable", "because")
_ENTRIES = (
    "format", "guarantee", "target", "candidates", "chosen", "trials", "model", *_OF_MODEL,
)  # fmt: skip


def chosen_plain(model: dict[str, Any], by: Selection) -> dict[str, Any]:
    """Return the plain data of a chosen classifier, from those of its fit.

    Its trial paid for that, so it cost no more than a trial, under the selection's relation.
    """
    return {
        "format": CHOSEN,
        "guarantee": dict(guarantee_of(by.cost, by.target)),
        "target": plain_target(by.target),
        "candidates": list(by.candidates),
        "chosen": by.name,
        "trials": by.cost.trials,
        "model": model,
        **{name: model[name] for name in _OF_MODEL},
    }


def chosen_from_plain(data: Mapping[str, Any], read: Callable[[Any], Any]) -> Any:
    """Return the classifier of plain data, whose guarantee is that of the selection.

    Raises
    ------
    ValueError
        If an entry is wrong, or the classifier cost more than a trial of the selection may.
    """
    check_entries("a chosen classifier", data, _ENTRIES)
    check_format(data, CHOSEN)
    names, target = data["candidates"], read_target(data["target"])
    if not isinstance(names, list) or data["chosen"] not in names:
        raise ValueError(f"candidates must be a list with {shown(data['chosen'])}.")
    if not isinstance(data["model"], Mapping) or data["model"].get("format") == CHOSEN:
        raise ValueError("model must be a classifier that was fitted, not one that was chosen.")
    trials = check_count("trials", data["trials"])
    cost, _ = plan_selection(target, len(names), trials=trials)  # type: ignore[arg-type] # it checks
    check_guarantee(data["guarantee"], guarantee_of(cost, target))
    model = read(data["model"])
    for name in _OF_MODEL:
        if data[name] != data["model"][name]:
            raise ValueError(f"{name} must be that of the model, got {shown(data[name])}.")
    _check_within(model.total_cost_, cost, target)
    # Where it began is a part of what was chosen: alone, it would state less.
    mark_chosen(model, Selection(cost, target, data["chosen"], tuple(names)))
    return model


def _check_within(fit: Cost, cost: SelectionCost, target: Target | None) -> None:
    """Check that a classifier cost no more than a trial; processors differ in last digits."""
    number = pure_ratio if isinstance(target, PureDP) else zcdp_rho
    spent, limit = number(fit), number(cost.trial)
    if spent is None or limit is None or float(spent) > float(limit) * (1 + 1e-6):
        raise ValueError("model must cost no more than a trial of the selection.")
