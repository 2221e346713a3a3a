"""Which mechanism releases a histogram: chosen by public facts, named, and as plain data."""

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal, get_args

from privrl._checks import check_count, check_positive, shown
from privrl._plain import listed
from privrl.accounting.guesses import gaussian_sigma
from privrl.accounting.targets import Target, check_target
from privrl.accuracy.design import Loss
from privrl.accuracy.design import typical_loss as typical_draw_loss
from privrl.costs.noise import largest_square
from privrl.costs.relations import AddRemoveRecord, Relation, ReplaceRecord
from privrl.mechanisms.additive import (
    AdditiveMechanism,
    DiscreteGaussianMechanism,
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    LaplaceMechanism,
)
from privrl.mechanisms.dirichlet import DirichletMechanism
from privrl.models.estimates.frequencies import noise_deviation, typical_loss
from privrl.numerics.discrete_noise import LARGEST

Name = Literal["auto", "dirichlet", "gaussian", "laplace", "discrete-gaussian", "discrete-laplace"]
HistogramMechanism = DirichletMechanism | AdditiveMechanism[Any]

_SMALL = 1.0  # sigma of Gaussian noise, below which that on whole numbers is smaller
_CLEARLY = 1.25  # times the loss

# Those that add noise; of equals the first is chosen, which is drawn exactly.
_NOISES: dict[str, type[AdditiveMechanism[Any]]] = {
    "discrete-gaussian": DiscreteGaussianMechanism,
    "discrete-laplace": DiscreteLaplaceMechanism,
    "gaussian": GaussianMechanism,
    "laplace": LaplaceMechanism,
}
_SETTINGS = {
    "discrete-gaussian": ["sigma"],
    "discrete-laplace": ["scale"],
    "gaussian": ["sigma"],
    "laplace": ["scale"],
    "dirichlet": ["weight", "alpha"],
}


def choose_mechanism(
    target: Target,
    *,
    n_records: float | None,
    n_cells: int,
    mechanism: Name = "auto",
    loss: Loss = "kl",
    relation: Relation | None = None,
) -> HistogramMechanism:
    """Return the mechanism that meets a target with the least expected loss.

    Parameters
    ----------
    target : Rdp or ApproxDP
        What one release may spend.
    n_records : float or None
        Public number of records, > 0; None where it is private and there is no guess.
    n_cells : int
        Number of cells, >= 2.
    mechanism, loss, relation
        As for `histogram`. Under ``"auto"`` each kind of noise is calibrated to the target, and
        the loss of the probabilities made of it is averaged over all histograms as equally likely
        (`privrl.models.estimates.frequencies.typical_loss`). A Dirichlet draw is not looked at: it
        adds its sampling error to at least the variance of Gaussian noise, see
        `privrl.mechanisms.TablesMechanism.calibrated`.

    Raises
    ------
    ValueError
        If an argument is out of range or no parameter meets the target.
    """
    if mechanism not in get_args(Name):
        raise ValueError(f"mechanism must be one of {listed(get_args(Name))}, got {mechanism!r}.")
    if loss not in get_args(Loss):
        raise ValueError(f"loss must be one of {listed(get_args(Loss))}, got {loss!r}.")
    check_target(target)
    relation = ReplaceRecord() if relation is None else relation
    keeps_size(relation)
    if n_records is not None:
        n_records = check_positive("n_records", n_records, "a public guess will do")
    check_count("n_cells", n_cells, least=2)
    return _choose(
        target=target,
        n_records=n_records,
        n_cells=int(n_cells),
        mechanism=mechanism,
        loss=loss,
        relation=relation,
    )


@lru_cache(maxsize=256)
def _choose(
    *,
    target: Target,
    n_records: float | None,
    n_cells: int,
    mechanism: Name,
    loss: Loss,
    relation: Relation,
) -> HistogramMechanism:
    if mechanism in _NOISES:
        return _NOISES[mechanism].calibrated(target, relation=relation)
    if mechanism == "dirichlet":
        if n_records is None:
            raise ValueError(
                "n_records must be given for a Dirichlet draw where it is private: a public guess."
            )
        return DirichletMechanism.designed(
            target, n_records=n_records, n_cells=n_cells, loss=loss, relation=relation
        )
    # Discrete noise is for changes by whole numbers only.
    whole = all(amount.is_integer() for vector in relation.changes() for amount in vector)
    names = [name for name in _NOISES if whole or not name.startswith("discrete")]

    def lost(noise: AdditiveMechanism[Any]) -> float:
        if n_records is None:
            return noise_deviation(noise)
        return expected_loss(noise, n_records=n_records, n_cells=n_cells, loss=loss)

    # Laplace's are calibrated in a moment. Gaussian noise of about the size that it would have to
    # be of, as the whole one is too unless it is small, is clearly worse or calibrated too.
    noises = {
        name: _NOISES[name].calibrated(target, relation=relation)
        for name in names
        if "laplace" in name
    }
    losses = {name: lost(noise) for name, noise in noises.items()}
    about = gaussian_sigma(target, math.sqrt(largest_square(relation.changes())))
    tried = GaussianMechanism(sigma=min(about, LARGEST), relation=relation)
    if about < _SMALL or lost(tried) < _CLEARLY * min(losses.values()):
        for name in names:
            if name not in noises:
                noises[name] = _NOISES[name].calibrated(target, relation=relation)
                losses[name] = lost(noises[name])
    return noises[min((name for name in names if name in noises), key=losses.__getitem__)]


def mechanism_name(mechanism: HistogramMechanism) -> str:
    """Return the name that `histogram` knows a mechanism by."""
    names = {kind: name for name, kind in _NOISES.items()}
    return names.get(type(mechanism), "dirichlet")  # type: ignore[arg-type] # or none of them


def expected_loss(
    mechanism: HistogramMechanism, *, n_records: float, n_cells: int, loss: Loss
) -> float:
    """Return the loss to be expected of what a mechanism releases, over all histograms alike."""
    common: dict[str, Any] = {"n_records": n_records, "n_cells": n_cells, "loss": loss}
    if isinstance(mechanism, DirichletMechanism):
        return typical_draw_loss(mechanism.weight, mechanism.cost.alpha, **common)
    is_known = keeps_size(mechanism.relation)
    return typical_loss(mechanism, **common, is_sum_known=is_known)


def keeps_size(relation: Relation) -> bool:
    """Whether neighbours have equally many records, so that their number is public."""
    if not isinstance(relation, Relation):
        raise ValueError(
            f"relation must be a Relation such as ReplaceRecord(), got {shown(relation)}."
        )
    return all(sum(vector) == 0 for vector in relation.changes())


def settings_of(mechanism: HistogramMechanism) -> dict[str, Any]:
    """Return the numbers that, with the relation, make a mechanism."""
    return {name: getattr(mechanism, name) for name in _SETTINGS[mechanism_name(mechanism)]}


def mechanism_of(spent: Any) -> HistogramMechanism:
    """Return the mechanism that plain data describe."""
    if not isinstance(spent, Mapping):
        raise ValueError("spent must be a table of entries.")
    for key in ("relation", "mechanism"):
        if not isinstance(spent.get(key), str):
            raise ValueError(f"spent must be a table with a text {key!r}.")
    known = {str(relation): relation for relation in (ReplaceRecord(), AddRemoveRecord())}
    if spent["relation"] not in known:
        raise ValueError(f"relation must be one of {listed(known)}, got {spent['relation']!r}.")
    kinds: dict[str, type[HistogramMechanism]] = {**_NOISES, "dirichlet": DirichletMechanism}
    name = spent["mechanism"]
    if name not in kinds:
        raise ValueError(f"mechanism must be one of {listed(kinds)}, got {name!r}.")
    if set(spent) != {"relation", "mechanism", *_SETTINGS[name]}:
        raise ValueError(f"spent must be the mechanism's settings, got {listed(spent)}.")
    settings: dict[str, Any] = {key: check_positive(key, spent[key]) for key in _SETTINGS[name]}
    settings["relation"] = known[spent["relation"]]
    return kinds[name](**settings)
