"""The exact cost of one use of a mechanism, under a neighbouring relation.

A `Relation` lists the neighbouring data sets, as the changes that it makes to tables of counts. A
`Cost` gives the cost of a release under it: Rényi divergence, delta and epsilon. Further costs are
in `privrl.costs.noise`, `privrl.costs.choice`, `privrl.costs.selection`, `privrl.costs.simplex` and
`privrl.costs.base`, and further relations in `privrl.costs.relations`.
"""

from privrl.costs.base import Cost
from privrl.costs.dirichlet import DirichletCost
from privrl.costs.noise import GaussianCost
from privrl.costs.relations import (
    AddRemoveRecord,
    Relation,
    ReplaceEpisode,
    ReplaceRecord,
    ReplaceStep,
)

__all__ = [
    "AddRemoveRecord",
    "Cost",
    "DirichletCost",
    "GaussianCost",
    "Relation",
    "ReplaceEpisode",
    "ReplaceRecord",
    "ReplaceStep",
]
