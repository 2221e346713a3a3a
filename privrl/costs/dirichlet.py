"""The cost of one draw from a Dirichlet posterior."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from privrl.costs.base import PairsCost, check_cells
from privrl.costs.curves import BOUNDS, sensitivities
from privrl.costs.profiles import LIMIT, Factor, Shape, changes_rdp
from privrl.costs.relations import ChangeVector, Relation, check_relation
from privrl.files.shown import shown
from privrl.numerics.checks import check_among, check_between, check_orders
from privrl.numerics.convolution import Pair
from privrl.numerics.special import FloatArray
from privrl.numerics.upwards import DIVERGENCE, FEW, outward

Bound = Literal["exact", "dps", "dkl", "geumlek"]
_DOMAIN = (1e-30, 1e30)  # of weight and prior: where nothing under- or overflows


@dataclass(frozen=True, kw_only=True)
class DirichletCost(PairsCost):
    """One draw ``y ~ Dirichlet(weight * counts + alpha)`` of every row of a table.

    Parameters
    ----------
    weight : float
        The factor on the counts, > 0; smaller is more private.
    alpha : float
        The smallest prior pseudo-count of any cell, > 0; larger is more private.
    relation : Relation
        Which data sets are neighbours.
    table : str, optional
        The relation's table that is released; by default its first.
    bound : {"exact", "dps", "dkl", "geumlek"}
        ``"exact"`` is the divergence itself, attained by some pair of neighbours. The others
        are the papers' looser bounds, for comparison with them: see `privrl.costs.curves`.

    Raises
    ------
    ValueError
        If a number is not between 1e-30 and 1e30, a name is unknown, or the prior is smaller
        than the relation allows.

    Notes
    -----
    Exact means the supremum, over all pairs of neighbouring tables of any size, of the
    divergence between the two laws of the released table. See `privrl.costs.profiles` for the
    dominating pairs. ``delta`` is also exact where each change vector is one cell or a pair
    ``(+m, -m)``; for longer vectors it is an upper bound by convolution, about
    2e-4 of epsilon away (`privrl.numerics.convolution`). Under a relation that is sound in Rényi
    divergence only (`ReplaceEpisode`), and for the papers' bounds, it follows from ``rdp``.
    """

    weight: float
    alpha: float
    relation: Relation
    table: str | None = None
    bound: Bound = "exact"

    fixed: ClassVar[bool] = True
    sharp_end: ClassVar[bool] = False

    def __post_init__(self) -> None:
        weight = check_between("weight", self.weight, *_DOMAIN, "larger means less noise")
        alpha = check_between("alpha", self.alpha, *_DOMAIN, "larger means more privacy")
        object.__setattr__(self, "weight", weight)
        object.__setattr__(self, "alpha", alpha)
        check_relation(self.relation)
        check_among("bound", self.bound, get_args(Bound))
        check_cells(self.relation, self.table)
        changes = self.relation.changes(self.table)
        least = self.relation.convex_from
        if changes and least is not None and self.alpha < least:
            raise ValueError(
                f"alpha must be >= {least:g} for the relation {str(self.relation)!r}, got "
                f"{shown(self.alpha)}; below, the change vectors it lists are not the worst ones."
            )
        if self.table is None:
            object.__setattr__(self, "table", self.relation.tables[0][0])

    @property
    def changes(self) -> tuple[ChangeVector, ...]:
        """The change vectors of the released table."""
        return self.relation.changes(self.table)

    def rdp(self, orders: ArrayLike) -> FloatArray:
        """Return the Rényi divergence (nats) at each order > 1; same shape as ``orders``."""
        orders = check_orders(orders)
        flat = dirichlet_rdp(self.changes, self.bound, self.weight, self.alpha, orders.ravel())
        return flat.reshape(orders.shape)

    def dominating_pairs(self) -> "list[Counter[Pair]] | None":
        """Return, for each change vector, the dominating pairs whose product it costs.

        None if the relation or the bound covers Rényi divergence only.
        """
        if self.bound != "exact" or self.relation.convex_from is not None:
            return None
        return [self._pairs(vector) for vector in self.changes]

    @property
    def bulk_key(self) -> tuple[str | None, Bound]:
        """Table and bound."""
        return self.table, self.bound

    def bulk(self) -> "DirichletBulk":
        """Return the evaluation of many costs of this table and bound."""
        return DirichletBulk(self.changes, self.bound)

    def _pairs(self, vector: ChangeVector) -> "Counter[Pair]":
        """Group a change vector into independent dominating pairs, with multiplicity."""
        up = Counter(m for m in vector if m > 0)
        down = Counter(-m for m in vector if m < 0)
        grouped = {Shape.PAIR: up & down, Shape.UP: up - down, Shape.DOWN: down - up}
        pairs: Counter[Pair] = Counter()
        for shape, amounts in grouped.items():
            for amount, times in amounts.items():
                pairs[Factor(shape, self.alpha, amount * self.weight)] += times
        return pairs


class DirichletBulk:
    """Costs of one table and bound, evaluated at once."""

    def __init__(self, changes: tuple[ChangeVector, ...], bound: Bound) -> None:
        self._changes, self._bound = changes, bound
        self._squares, self._largest = sensitivities(changes)
        self._factor = 2.0 if bound == "geumlek" else 1.0

    def numbers(self, cost: DirichletCost) -> tuple[float, float]:
        """Return the weight and the prior."""
        return cost.weight, cost.alpha

    def rdp(self, numbers: FloatArray, orders: FloatArray) -> FloatArray:
        """Return the divergences, shape (n, n_orders)."""
        return dirichlet_rdp(self._changes, self._bound, numbers[:, 0], numbers[:, 1], orders)

    def at_most(self, cost: DirichletCost, order: float) -> float:
        """Return DPS's bound, with trigamma(x) < 1/x + 1/(2 x²) + 1/(6 x³)."""
        weight = cost.weight
        far = (1 + 4 * FEW) * ((order - 1) * weight * self._largest)  # no less than there
        least = cost.alpha - far
        if far >= cost.alpha * LIMIT or (self._bound == "dkl" and least < 1):
            return math.inf  # or it may be, in `changes_rdp`
        trigamma = (1 + (0.5 + 1 / (6 * least)) / least) / least
        return self._factor * order / 2 * weight * weight * self._squares * trigamma


def dirichlet_rdp(
    changes: Sequence[ChangeVector],
    bound: Bound,
    weight: ArrayLike,
    alpha: ArrayLike,
    orders: FloatArray,
) -> FloatArray:
    """Return the Rényi divergence of one Dirichlet release, or of several.

    Parameters
    ----------
    changes : sequence of change vectors
        The differences between neighbours.
    bound : {"exact", "dps", "dkl", "geumlek"}
        As for `DirichletCost`.
    weight, alpha : array_like, shape (...,)
        Those of the releases.
    orders : array, shape (n_orders,)
        Rényi orders > 1.

    Returns
    -------
    array, shape (..., n_orders)
        In nats.
    """
    if bound == "exact":
        return changes_rdp(changes, weight, alpha, orders)
    weight, alpha = np.broadcast_arrays(weight, alpha)
    worst = np.zeros((*weight.shape, len(orders)))
    for vector in changes:
        cost = BOUNDS[bound](vector, weight[..., None], alpha[..., None], orders)
        worst = np.maximum(worst, cost)
    return outward(worst, DIVERGENCE)
