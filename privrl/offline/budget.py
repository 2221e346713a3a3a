"""What a person's budget is: pure, or with a delta, or of one Rényi order."""

from dataclasses import replace

import numpy as np

from privrl.accounting.calibration import calibrate
from privrl.accounting.targets import ApproxDP, RenyiDP, Target
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
    delta: float | None = None,
    order: float | None = None,
) -> PersonCost:
    """Return the cost of all that leaves of persons, with the least noise.

    Parameters
    ----------
    epsilon : float or None
        In nats, from 2**-14 to 2**15; None for no privacy.
    relation : Relation, optional
        `AddRemovePerson`, by default, or `ReplacePerson`.
    delta : float, optional
        In (0, 1): noise is Gaussian then. By default it is Laplace, without any delta.
    order : float, optional
        In place of ``delta``: the Rényi order > 1 of which ``epsilon`` is.

    Raises
    ------
    ValueError
        If an argument is out of range, both ``delta`` and ``order`` are given, or the relation is
        not about persons.
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
    if delta is not None and order is not None:
        raise ValueError(f"delta or order must be left out, got {shown(delta)} and {shown(order)}.")
    if delta is None and order is None:
        return _laplace(epsilon, relation)
    target: Target = RenyiDP(2.0 if order is None else order, epsilon)
    if delta is not None:
        target = ApproxDP(epsilon, delta)

    def gaussian(sigma: float) -> GaussianCost:
        return GaussianCost(sigma=sigma, relation=relation, table=NORMS)

    return gaussian(calibrate(target, gaussian, rises=False))


def _laplace(epsilon: float, relation: Relation) -> LaplaceCost:
    most = max(sum(map(abs, vector)) for vector in relation.changes(SUMS))
    cost = LaplaceCost(scale=most / epsilon, relation=relation, table=SUMS)
    while cost.pure_epsilon > epsilon:
        cost = replace(cost, scale=float(np.nextafter(cost.scale, np.inf)))
    return cost
