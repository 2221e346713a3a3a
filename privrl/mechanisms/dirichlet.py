"""The Dirichlet mechanism: one draw from a posterior over the cells of a table of counts.

``y ~ Dirichlet(weight * counts + alpha)`` is at once a normalised histogram, the exponential
mechanism for Kullback-Leibler loss (*Dirichlet mechanism for differentially private KL divergence
minimization*, section 2.2; DKL below) and posterior sampling (Ponnoprat, *Differential privacy of
Dirichlet posterior sampling*; DPS below). Its cost is exact unless a paper's bound is asked for.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from numbers import Real
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from privrl.accounting.base import Accountant
from privrl.accounting.calibration import calibrate, dirichlet_alpha, dirichlet_weight
from privrl.accounting.targets import ApproxDP, RenyiDP, Target, check_target, wrong_target
from privrl.costs.dirichlet import Bound, DirichletCost
from privrl.costs.noise import largest_square
from privrl.costs.relations import Relation, ReplaceRecord, check_relation
from privrl.files.shown import shown
from privrl.mechanisms.base import Mechanism, check_counts
from privrl.mechanisms.design import Loss, design
from privrl.mechanisms.papers import dkl_algorithm_1, dkl_approximate_dp
from privrl.numerics.checks import as_floats, check_count, check_positive
from privrl.numerics.exact_dirichlet import posterior_rows
from privrl.numerics.randomness import Rng, as_rng
from privrl.numerics.special import FloatArray


@dataclass(frozen=True, kw_only=True)
class DirichletMechanism(Mechanism[FloatArray]):
    """Release one draw from ``Dirichlet(weight * counts + alpha)`` for every row of counts.

    Parameters
    ----------
    weight : float
        What the counts are multiplied by, > 0; smaller is more private.
    alpha : float or sequence of K floats
        Prior pseudo-counts, > 0; the smallest decides the cost.
    relation, table, bound
        As for `privrl.costs.DirichletCost`; by default one record is replaced.
    lower_bound : float
        A count that no cell can be below, by public knowledge, >= 0 (DKL, Remark 2). It acts
        as a prior of ``weight * lower_bound`` more. Cells below are raised to it, so that the
        guarantee does not depend on the knowledge being right.

    Raises
    ------
    ValueError
        If a number is out of range.

    See Also
    --------
    calibrated : solves for weight or prior.
    designed : chooses both for the least expected loss.
    algorithm_1 : chooses both as DKL does.
    """

    weight: float
    alpha: float | tuple[float, ...]
    relation: Relation = field(default_factory=ReplaceRecord)
    table: str | None = None
    bound: Bound = "exact"
    lower_bound: float = 0.0

    def __post_init__(self) -> None:
        weight = check_positive("weight", self.weight, "larger means less noise")
        object.__setattr__(self, "weight", weight)
        if isinstance(self.alpha, Sequence | np.ndarray) and not isinstance(
            self.alpha, str | bytes
        ):
            cells = tuple(check_positive("alpha", a) for a in self.alpha)
            object.__setattr__(self, "alpha", cells)
            if not cells:
                raise ValueError("alpha must hold one number for each cell, got none.")
        else:
            object.__setattr__(self, "alpha", check_positive("alpha", self.alpha))
        if isinstance(self.lower_bound, np.floating):  # float32 warns of comparisons with 2^1023
            object.__setattr__(self, "lower_bound", float(self.lower_bound))
        if not (isinstance(self.lower_bound, Real) and 0 <= self.lower_bound < 2.0**1023):
            raise ValueError(
                f"lower_bound must be >= 0 and finite, got {shown(self.lower_bound)}; 0 is always "
                "true."
            )
        _ = self.cost  # refuses what it cannot account for

    @property
    def cost(self) -> DirichletCost:
        """What one release costs: the draw of the whole table."""
        least = min(self.alpha) if isinstance(self.alpha, tuple) else self.alpha
        return DirichletCost(
            weight=self.weight,
            alpha=least + self.weight * self.lower_bound,
            relation=self.relation,
            table=self.table,
            bound=self.bound,
        )

    def check(self, data: ArrayLike) -> FloatArray:
        """Return counts >= 0, shape (..., K), as floats.

        Raises
        ------
        ValueError
            If they are not, or ``alpha`` is of another number of cells.
        """
        counts = check_counts(data)
        if isinstance(self.alpha, tuple) and len(self.alpha) != counts.shape[-1]:
            raise ValueError(
                f"data must have {len(self.alpha)} cells on the last axis, as alpha has, got shape "
                f"{counts.shape}."
            )
        return counts

    def _draw(self, data: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Return probabilities, shape (..., K), each row summing to 1."""
        counts = np.maximum(data, self.lower_bound)
        return posterior_rows(counts, np.asarray(self.weight), np.asarray(self.alpha), rng)

    @classmethod
    def calibrated(
        cls,
        target: Target,
        *,
        weight: float | None = None,
        alpha: float | None = None,
        relation: Relation | None = None,
        table: str | None = None,
        bound: Bound = "exact",
        lower_bound: float = 0.0,
        count: int = 1,
        accountant: Callable[[], Accountant] | None = None,
    ) -> Self:
        """Return the mechanism whose ``count`` releases together meet ``target``.

        Give ``weight`` or ``alpha``: the smallest prior, or the largest weight, is found. The other
        arguments are those of the class and of `privrl.accounting.calibrate`.

        Raises
        ------
        ValueError
            If both or neither of weight and alpha are given, the target cannot be met or does
            not bind, or the relation never changes the table.
        """
        check_target(target)
        relation = check_relation(relation, ReplaceRecord())
        least = (relation.convex_from or 0.0) if isinstance(relation, Relation) else 0.0
        made = partial(cls, relation=relation, table=table, bound=bound, lower_bound=lower_bound)
        usual = made(weight=1.0, alpha=max(1.0, least))
        changes, lower_bound = usual.cost.changes, usual.lower_bound
        if not changes:
            raise ValueError(
                f"relation {str(relation)!r} never changes the table {shown(table)}, so any weight "
                "and any prior are private; use those that you would use without privacy."
            )
        solve = partial(calibrate, target, count=count, accountant=accountant)
        square = check_count("count", count) * largest_square(changes)
        cost = partial(DirichletCost, relation=relation, table=table, bound=bound)
        if alpha is not None and weight is None:
            first = made(weight=1.0, alpha=alpha)
            own = min(first.alpha) if isinstance(first.alpha, tuple) else first.alpha
            largest = solve(
                lambda value: cost(weight=value, alpha=own + value * lower_bound),
                rises=True,
                guess=dirichlet_weight(target, square, first.cost.alpha),
            )
            return made(weight=largest, alpha=alpha)
        if weight is not None and alpha is None:
            smallest = solve(
                lambda value: cost(weight=weight, alpha=value + weight * lower_bound),
                rises=False,
                least=least,
                guess=dirichlet_alpha(target, square, check_positive("weight", weight)),
            )
            return made(weight=weight, alpha=smallest)
        raise ValueError(
            f"give either weight or alpha, got weight={shown(weight)} and alpha={shown(alpha)}; "
            "DirichletMechanism.designed chooses both."
        )

    @classmethod
    def designed(
        cls,
        target: Target,
        *,
        n_records: float,
        n_cells: int,
        loss: Loss = "kl",
        relation: Relation | None = None,
        count: int = 1,
    ) -> Self:
        """Return the mechanism that meets ``target`` with the least expected loss.

        The arguments are those of `privrl.mechanisms.design`: public facts, and no data.
        """
        relation = check_relation(relation, ReplaceRecord())
        best = design(
            target, n_records=n_records, n_cells=n_cells, loss=loss, relation=relation, count=count
        )
        return cls(weight=best.weight, alpha=best.alpha, relation=relation)

    @classmethod
    def algorithm_1(
        cls,
        target: Target,
        *,
        relation: Relation | None = None,
        table: str | None = None,
        count: int = 1,
    ) -> Self:
        """Return DKL's Algorithm 1, each of ``count`` releases spending an equal part.

        An (epsilon, delta) target is met by DKL's conversion (13), at the order under which the
        prior weighs least. The mechanism has ``bound="dkl"``, the paper's claim;
        ``dataclasses.replace(mechanism, bound="exact")`` costs less.

        See Also
        --------
        privrl.mechanisms.papers.dkl_algorithm_1 : with the paper's Remarks 1 and 2.
        """
        check_count("count", count)
        relation = check_relation(relation, ReplaceRecord())
        if isinstance(target, RenyiDP):
            part = RenyiDP(target.order, target.epsilon / count * (1 - 1e-12))
            setting = dkl_algorithm_1(part, relation=relation, table=table)
        elif isinstance(target, ApproxDP):
            setting = dkl_approximate_dp(target, relation=relation, table=table, count=count)
        else:
            raise wrong_target(target, RenyiDP, ApproxDP)
        return cls(
            weight=setting.weight, alpha=setting.alpha, relation=relation, table=table, bound="dkl"
        )


def synthetic_counts(
    probabilities: ArrayLike, n_records: ArrayLike, rng: Rng = None
) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Draw the counts of synthetic records from released probabilities: free post-processing.

    Parameters
    ----------
    probabilities : array_like, shape (..., K)
        What was released; each row sums to 1.
    n_records : int or array_like of int
        How many synthetic records for each row, >= 0: a public number, broadcast against the
        leading axes.
    rng : numpy.random.Generator, int or None
        Where the randomness comes from.

    Returns
    -------
    array of int, shape (..., K)
        Each row sums to its ``n_records``; ``np.repeat(categories, row)`` lists the records.
        Any number of them may be drawn, however often.

    Raises
    ------
    ValueError
        If a row is not a probability vector, or a number of records is negative.
    """
    rng = as_rng(rng)
    rows = as_floats("probabilities", probabilities)
    if rows.ndim < 1 or not (rows >= 0).all() or not np.allclose(rows.sum(-1), 1, atol=1e-9):
        raise ValueError("probabilities must be rows >= 0 that each sum to 1; normalise them.")
    numbers = np.asarray(n_records)
    if numbers.dtype.kind not in "iu" or (numbers < 0).any():
        raise ValueError(f"n_records must be whole numbers >= 0, got {shown(n_records)}.")
    return rng.multinomial(numbers, rows / rows.sum(-1, keepdims=True))
