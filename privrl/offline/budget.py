"""The budget of a person: (epsilon, delta), or of one Rényi order."""

from dataclasses import replace

import numpy as np

from privrl.accounting.calibration import calibrate
from privrl.accounting.targets import DEFAULT_DELTA, RenyiDP, target_of
from privrl.costs.base import NoPrivacy
from privrl.costs.noise import GaussianCost, LaplaceCost
from privrl.costs.relations import NORMS, SUMS, AddRemovePerson, Relation, ReplacePerson
from privrl.files.shown import shown
from privrl.numerics.checks import check_between
from privrl.offline.persons import PersonCost

_LEAST, _MOST = 2.0**-14, 2.0**15  # epsilons that noise on the grid of purses can be drawn for


def person_cost(
    epsilon: float | None,
    relation: Relation | None = None,
    *,
    delta: float = DEFAULT_DELTA,
    order: float | None = None,
) -> PersonCost:
    """Return the cost of everything released about persons, with the least noise.

    Parameters
    ----------
    epsilon : float or None
        In nats, from 2**-14 to 2**15; None for no privacy.
    relation : Relation, optional
        `AddRemovePerson`, by default, or `ReplacePerson`.
    delta : float
        In [0, 1). Noise is Laplace, which keeps pure epsilon and so every delta. (Gaussian noise of
        the same (epsilon, delta) hides what policies are learned from.)
    order : float, optional
        Makes ``epsilon`` a bound on the Rényi divergence of this order, > 1. Noise is Gaussian.

    Raises
    ------
    ValueError
        If an argument is out of range, or the relation is not about persons.
    """
    relation = AddRemovePerson() if relation is None else relation
    if not isinstance(relation, AddRemovePerson | ReplacePerson):
        raise ValueError(
            f"relation must be AddRemovePerson() or ReplacePerson(), got {shown(relation)}; a "
            "log is of persons."
        )
    if epsilon is None:
        return NoPrivacy(relation)
    epsilon = check_between("epsilon", epsilon, _LEAST, _MOST, "smaller means more privacy")
    target = target_of(epsilon, delta, order)
    if not isinstance(target, RenyiDP):
        return _laplace(epsilon, relation)

    def gaussian(sigma: float) -> GaussianCost:
        return GaussianCost(sigma=sigma, relation=relation, table=NORMS)

    return gaussian(calibrate(target, gaussian, rises=False))


def _laplace(epsilon: float, relation: Relation) -> LaplaceCost:
    most = max(sum(map(abs, vector)) for vector in relation.changes(SUMS))
    cost = LaplaceCost(scale=most / epsilon, relation=relation, table=SUMS)
    while cost.pure_epsilon > epsilon:
        cost = replace(cost, scale=float(np.nextafter(cost.scale, np.inf)))
    return cost
