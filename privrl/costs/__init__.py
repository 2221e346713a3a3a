"""What one use of a mechanism costs, exactly, and under which relation.

A `Relation` says which data sets are neighbours, as the changes that it makes to tables of counts.
A `Cost` tells what releasing such a table costs under it: Rényi divergence, delta, epsilon.
"""

from privrl.costs.base import BatchCost, Cost, NoPrivacy, PairsCost, Together, together
from privrl.costs.choice import ChoiceCost
from privrl.costs.dirichlet import Bound, DirichletCost
from privrl.costs.noise import (
    DiscreteGaussianCost,
    DiscreteLaplaceCost,
    GaussianCost,
    LaplaceCost,
)
from privrl.costs.relations import (
    DAMPED,
    DAMPED_REWARDS,
    NORMS,
    SUMS,
    AddRemovePerson,
    AddRemoveRecord,
    ChangeVector,
    PaperStep,
    PaperStepWarning,
    Relation,
    ReplaceEpisode,
    ReplacePerson,
    ReplaceRecord,
    ReplaceStep,
    ReplaceTransition,
)
from privrl.costs.simplex import SimplexCost

__all__ = [
    "DAMPED",
    "DAMPED_REWARDS",
    "NORMS",
    "SUMS",
    "AddRemovePerson",
    "AddRemoveRecord",
    "BatchCost",
    "Bound",
    "ChangeVector",
    "ChoiceCost",
    "Cost",
    "DirichletCost",
    "DiscreteGaussianCost",
    "DiscreteLaplaceCost",
    "GaussianCost",
    "LaplaceCost",
    "NoPrivacy",
    "PairsCost",
    "PaperStep",
    "PaperStepWarning",
    "Relation",
    "ReplaceEpisode",
    "ReplacePerson",
    "ReplaceRecord",
    "ReplaceStep",
    "ReplaceTransition",
    "SimplexCost",
    "Together",
    "together",
]
