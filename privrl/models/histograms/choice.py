"""The mechanism of a histogram: chosen from public facts, named, and as plain data."""

import math
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal, get_args

import numpy as np

from privrl.accounting.targets import Target, check_target
from privrl.costs.noise import largest_square
from privrl.costs.relations import AddRemoveRecord, Relation, ReplaceRecord, check_relation
from privrl.files.plain import listed
from privrl.files.shown import shown
from privrl.mechanisms.additive import (
    AdditiveMechanism,
    DiscreteGaussianMechanism,
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    LaplaceMechanism,
)
from privrl.mechanisms.design import Loss
from privrl.mechanisms.design import typical_loss as typical_draw_loss
from privrl.mechanisms.dirichlet import DirichletMechanism
from privrl.mechanisms.tables import TablesMechanism
from privrl.models.estimates.frequencies import typical_loss
from privrl.models.estimates.mixture import ORDERED
from privrl.models.saving import relation_in_file
from privrl.models.targets import mechanism_for
from privrl.numerics.checks import check_among, check_count, check_positive, check_truth
from privrl.numerics.discrete_noise import LARGEST

Name = Literal[
    "auto", "dirichlet", "gaussian", "laplace", "discrete-gaussian", "discrete-laplace", "blocks"
]
HistogramMechanism = DirichletMechanism | AdditiveMechanism[Any] | TablesMechanism

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
_OF_SUMS = "_of_sums"
BLOCKS = 20  # sums of neighbouring cells that are released beside the counts
_CELLS = 200  # from which on sums are worth their half of the budget
_FAINT = (0.03, 0.2)  # mean of a count, over the deviation of its noise, where they are


def choose_mechanism(
    target: Target,
    *,
    n_records: float | None,
    n_cells: int,
    mechanism: Name = "auto",
    loss: Loss = "kl",
    relation: Relation | None = None,
    is_ordered: bool = False,
) -> HistogramMechanism:
    """Return the mechanism that meets a target with the least expected loss.

    Parameters
    ----------
    target : RenyiDP or ApproxDP
        The target of one release.
    n_records : float or None
        Public number of records, > 0; None where it is private and unknown.
    n_cells : int
        Number of cells, >= 2.
    mechanism, loss, relation
        As for `histogram`. Under ``"auto"`` each kind of noise is calibrated to the target, and
        the loss of the probabilities made of it is averaged over all histograms as equally likely
        (`privrl.models.estimates.frequencies.typical_loss`). A Dirichlet draw is not looked at: it
        adds its sampling error to at least the variance of Gaussian noise, see
        `privrl.mechanisms.TablesMechanism.calibrated`.
    is_ordered : bool
        Whether neighbouring cells are likely to be alike, as bins are: a public fact. Then
        ``"auto"`` is ``"blocks"`` where counts are faint: 200 to 5,000 cells with a mean count of
        .03 to .2 of the deviation of its noise, and a public number of records. Half of the budget
        is for the sums of 20 blocks of neighbouring cells, see `PrivateHistogram.sums`.

    Raises
    ------
    ValueError
        If an argument is out of range or no parameter meets the target.
    """
    check_among("mechanism", mechanism, get_args(Name))
    check_among("loss", loss, get_args(Loss))
    check_target(target)
    relation = check_relation(relation, ReplaceRecord())
    keeps_size(relation)
    if n_records is not None:
        n_records = check_positive("n_records", n_records, "a public guess will do")
    check_count("n_cells", n_cells, least=2)
    check_truth("is_ordered", is_ordered)
    return _choose(
        target=target,
        n_records=n_records,
        n_cells=int(n_cells),
        mechanism=mechanism,
        loss=loss,
        relation=relation,
        is_ordered=is_ordered,
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
    is_ordered: bool,
) -> HistogramMechanism:
    mechanism_for(target, mechanism)  # refuses those that cannot meet it
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
    if mechanism == "blocks":
        return _blocks(target, n_cells, relation)
    # Discrete noise is for changes by whole numbers only.
    whole = all(amount.is_integer() for vector in relation.changes() for amount in vector)
    names = [
        name
        for name in _NOISES
        if (whole or not name.startswith("discrete"))
        and mechanism_for(target) in ("auto", name.removeprefix("discrete-"))
    ]

    def lost(noise: AdditiveMechanism[Any]) -> float:
        if n_records is None:
            return noise.deviation
        return expected_loss(noise, n_records=n_records, n_cells=n_cells, loss=loss)

    # Laplace's are calibrated in a moment. Gaussian noise of about the size that it would have to
    # be of, as the whole one is too unless it is small, is clearly worse or calibrated too.
    noises = {
        name: _NOISES[name].calibrated(target, relation=relation)
        for name in names
        if "laplace" in name
    }
    losses = {name: lost(noise) for name, noise in noises.items()}
    about = target.gaussian_sigma(math.sqrt(largest_square(relation.changes())))
    tried = GaussianMechanism(sigma=min(about, LARGEST), relation=relation)
    if about < _SMALL or lost(tried) < _CLEARLY * min(losses.values(), default=math.inf):
        for name in names:
            if name not in noises:
                noises[name] = _NOISES[name].calibrated(target, relation=relation)
                losses[name] = lost(noises[name])
    best = noises[min((name for name in names if name in noises), key=losses.__getitem__)]
    if n_records is None or not is_ordered or not _is_of_sums(relation):
        return best
    is_faint = _FAINT[0] <= n_records / (n_cells * best.deviation) <= _FAINT[1]
    is_long = _CELLS <= n_cells <= ORDERED
    return _blocks(target, n_cells, relation) if is_faint and is_long else best


def _blocks(target: Target, n_cells: int, relation: Relation) -> TablesMechanism:
    """Return the mechanism of counts and, beside them, sums of blocks, with equal parts.

    A record is in one cell and in one block: two tables of the same records, each of which changes
    as the relation says, or, if both cells are in one block, not at all.
    """
    if not _is_of_sums(relation):
        raise ValueError(
            "relation must move records from one cell to one other for the mechanism 'blocks', got "
            f"{str(relation)!r}; 'auto' chooses another mechanism."
        )
    _check_blocks(n_cells)
    return TablesMechanism.calibrated(
        target,
        shapes=((1, n_cells), (1, BLOCKS)),
        n_records=1.0,
        relation=relation,
        mechanism=mechanism_for(target),
    )


def mechanism_name(mechanism: HistogramMechanism) -> str:
    """Return the name that `histogram` knows a mechanism by."""
    names = {kind: name for name, kind in _NOISES.items()}
    if isinstance(mechanism, TablesMechanism):
        return "blocks"
    return names.get(type(mechanism), "dirichlet")  # type: ignore[arg-type] # or none of them


def noise_of(mechanism: AdditiveMechanism[Any] | TablesMechanism) -> AdditiveMechanism[Any]:
    """Return the noise of the counts of cells."""
    if not isinstance(mechanism, TablesMechanism):
        return mechanism
    size, relation = mechanism.sizes[0], mechanism.relation
    if mechanism.mechanism == "laplace":
        return LaplaceMechanism(scale=size, relation=relation)
    return GaussianMechanism(sigma=size, relation=relation)


@np.errstate(under="ignore")
def expected_loss(
    mechanism: HistogramMechanism, *, n_records: float, n_cells: int, loss: Loss
) -> float:
    """Return the loss to be expected of what a mechanism releases, over all histograms alike."""
    common: dict[str, Any] = {"n_records": n_records, "n_cells": n_cells, "loss": loss}
    if isinstance(mechanism, DirichletMechanism):
        return typical_draw_loss(mechanism.weight, mechanism.cost.alpha, **common)
    is_known = keeps_size(mechanism.relation)
    return typical_loss(noise_of(mechanism), **common, is_sum_known=is_known)


def keeps_size(relation: Relation) -> bool:
    """Whether neighbours have equally many records, so that their number is public."""
    changes = check_relation(relation).changes()
    return _bounds_cells(relation) and all(sum(map(Fraction, vector)) == 0 for vector in changes)


def _bounds_cells(relation: Relation) -> bool:
    """Whether change vectors list cells, and not only the norm of a change of any cells."""
    return relation.tables[0][0] not in relation.norm_only


def _check_blocks(n_cells: int) -> None:
    if n_cells < 2 * BLOCKS:
        raise ValueError(
            f"mechanism 'blocks' is for {2 * BLOCKS} cells or more, got {n_cells}; 'auto' chooses "
            "another."
        )


def _is_of_sums(relation: Relation) -> bool:
    """Whether sums of cells change by no more than cells do: what one cell loses, one other gains.

    Of two cells that gain, a sum might have both.
    """
    return _bounds_cells(relation) and all(
        len(vector) == 2 and sum(vector) == 0 for vector in relation.changes()
    )


def settings_of(mechanism: HistogramMechanism) -> dict[str, Any]:
    """Return the numbers that, with the relation, make a mechanism."""
    if isinstance(mechanism, TablesMechanism):
        (name,) = _SETTINGS[mechanism.mechanism]
        return dict(zip((name, name + _OF_SUMS), mechanism.sizes, strict=True))
    return {name: getattr(mechanism, name) for name in _SETTINGS[mechanism_name(mechanism)]}


def spent_by(mechanism: HistogramMechanism) -> dict[str, Any]:
    """Return a mechanism as `mechanism_of` reads it.

    Raises
    ------
    ValueError
        If its relation is not one that a file can name.
    """
    return {
        "relation": relation_in_file(mechanism.relation, _known_relations()),
        "mechanism": mechanism_name(mechanism),
        **settings_of(mechanism),
    }


def _known_relations() -> dict[str, Relation]:
    """Return the relations that a file can name, by their names."""
    return {str(relation): relation for relation in (ReplaceRecord(), AddRemoveRecord())}


def mechanism_of(spent: Any, n_cells: int) -> HistogramMechanism:
    """Return the mechanism that plain data describe."""
    if not isinstance(spent, Mapping):
        raise ValueError("spent must be a table of entries.")
    for key in ("relation", "mechanism"):
        if not isinstance(spent.get(key), str):
            raise ValueError(f"spent must be a table with a text {shown(key)}.")
    known = _known_relations()
    check_among("relation", spent["relation"], known)
    kinds: dict[str, type[HistogramMechanism]] = {**_NOISES, "dirichlet": DirichletMechanism}
    name = spent["mechanism"]
    check_among("mechanism", name, (*kinds, "blocks"))
    noise: Literal["laplace", "gaussian"] = "laplace" if "scale" in spent else "gaussian"
    wanted = _SETTINGS[noise if name == "blocks" else name]
    if name == "blocks":
        wanted = [*wanted, wanted[0] + _OF_SUMS]
    if set(spent) != {"relation", "mechanism", *wanted}:
        raise ValueError(f"spent must be the mechanism's settings, got {listed(spent)}.")
    settings: dict[str, Any] = {key: check_positive(key, spent[key]) for key in wanted}
    relation = known[spent["relation"]]
    if name != "blocks":
        return kinds[name](**settings, relation=relation)
    _check_blocks(n_cells)
    return TablesMechanism(
        shapes=((1, n_cells), (1, BLOCKS)),
        mechanism=noise,
        sizes=tuple(settings.values()),
        relation=relation,
    )
