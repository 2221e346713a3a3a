"""Samplers that return the one draw that they made, from a Dirichlet posterior of the counts.

After Ponnoprat, *Differential privacy of Dirichlet posterior sampling*, section 5.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from privrl._checks import (
    check_count,
    check_positive,
    check_positive_array,
)
from privrl.accounting.calibration import calibrate_alpha, calibrate_weight
from privrl.accounting.targets import Target
from privrl.costs.base import BatchCost, Cost, NoPrivacy
from privrl.costs.dirichlet import Bound, DirichletCost
from privrl.costs.relations import Relation, ReplaceStep
from privrl.numerics.dirichlet_rows import dirichlet_rows
from privrl.numerics.special import FloatArray
from privrl.samplers.base import PaidSampler, check_batch, frozen, lead


@dataclass(frozen=True)
class SingleDraw:
    """A posterior that is the one draw made of it: sampling again gives the same rows."""

    probabilities: FloatArray

    def sample(self, rng: np.random.Generator) -> FloatArray:
        """Return the draw, shape (..., K)."""
        del rng  # nothing more is drawn
        return self.probabilities


class DirichletSampler(PaidSampler):
    """One draw ``Dirichlet(weight * counts + alpha)`` at each update; the named ones are below.

    Parameters
    ----------
    weight, alpha : array_like
        Numbers > 0, or one for each independent run: their axes are the leading axes of the
        counts.
    release : Cost
        What one update costs.
    window : int, optional
        How many batches an update looks back on, itself included; by default all. A record
        is in one batch, so it takes part in ``window`` updates and no more: the first so many
        are charged for, and those that follow are free.

    Raises
    ------
    ValueError
        If a number is not positive and finite, or ``release`` is of another weight or a larger
        prior.
    """

    def __init__(
        self, *, weight: ArrayLike, alpha: ArrayLike, cost: Cost, window: int | None = None
    ) -> None:
        self._weight = frozen(check_positive_array("weight", weight, "larger means less noise"))
        self._alpha = frozen(check_positive_array("alpha", alpha, "larger means more privacy"))
        rows = cost.rows if isinstance(cost, BatchCost) else (cost,)
        drawn = np.broadcast_arrays(self._weight, self._alpha)
        for row, one_weight, one_alpha in zip(rows, *(d.ravel() for d in drawn), strict=True):
            if not isinstance(row, DirichletCost | NoPrivacy) or (
                isinstance(row, DirichletCost)
                and (row.weight != one_weight or row.alpha > one_alpha)
            ):
                raise ValueError(
                    f"release must be of the draw with weight {one_weight:g} and alpha "
                    f"{one_alpha:g}, got {row!r}."
                )
        self._cost = cost
        self._window = None if window is None else check_count("window", window)
        self._forget()

    def _forget(self) -> None:
        super()._forget()
        self._shape: tuple[int, ...] | None = None
        self._past: tuple[FloatArray, ...] = ()  # batches of the window, or the sum of all

    def __repr__(self) -> str:
        return f"{type(self).__name__}(weight={self.weight}, alpha={self.alpha})"

    @property
    def weight(self) -> FloatArray:
        """Weight of each count, one number or one for each run; read-only."""
        return self._weight

    @property
    def alpha(self) -> FloatArray:
        """Prior pseudo-count of every cell, one number or one for each run; read-only."""
        return self._alpha

    @property
    def window(self) -> int | None:
        """How many batches an update looks back on; None for all."""
        return self._window

    @property
    def cost(self) -> Cost | None:
        """What the next update costs; None once a record's whole window has been paid for."""
        paid = self._window is not None and self._done >= self._window
        return None if paid else self._cost

    def check(self, counts: FloatArray) -> None:
        """Check a batch of counts, shape (..., K); see `check_batch`."""
        self._check_unspoiled()
        runs = np.broadcast_shapes(self._weight.shape, self._alpha.shape)
        check_batch(counts, runs, self._shape, self._past)

    def update(self, counts: FloatArray, rng: np.random.Generator) -> SingleDraw:
        """Add a batch of counts, shape (..., K), and draw the rows; call it through `draw`.

        Raises
        ------
        ValueError
            See `check`.
        """
        self.check(counts)
        total = sum(self._past, start=counts.copy())
        concentrations = lead(self._weight, counts.ndim) * total
        concentrations += lead(self._alpha, counts.ndim)
        rows = dirichlet_rows(concentrations, rng, least=float(self._alpha.min()))
        # Only now: a failed update leaves the sampler as it was.
        self._done += 1
        self._shape = counts.shape
        if self._window is None:
            self._past = (total,)
        elif self._window > 1:
            # Summed afresh each time: a batch that is subtracted leaves its rounding behind.
            self._past = (*self._past, counts.copy())[1 - self._window :]
        return SingleDraw(rows)


class NonPrivate(DirichletSampler):
    """The ordinary posterior, for comparison: it makes no claim, and every budget refuses it.

    Parameters
    ----------
    alpha : float
        Prior pseudo-count of every cell, > 0.
    relation : Relation
        That of the accountant in use.
    """

    def __init__(self, *, alpha: float = 10.0, relation: Relation | None = None) -> None:
        super().__init__(
            weight=1.0,
            alpha=alpha,
            cost=NoPrivacy(ReplaceStep() if relation is None else relation),
        )

    @classmethod
    def calibrated(
        cls,
        target: Target,
        *,
        draws: int,
        alpha: float = 10.0,
        relation: Relation | None = None,
        table: str | None = None,
        bound: Bound = "exact",
        window: int | None = None,
    ) -> Self:
        """Return the sampler as it is: no target changes it, and it meets none."""
        del target, draws, table, bound, window
        return cls(alpha=alpha, relation=relation)


class Diffuse(DirichletSampler):
    """Counts are scaled down, ``Dirichlet(weight * counts + alpha)``, the prior stays as it is.

    Parameters
    ----------
    weight : float
        Weight of each count, > 0; usually below 1. Smaller is more private.
    alpha : float
        Prior pseudo-count of every cell, > 0.
    relation : Relation
        Which data sets are neighbours; by default `ReplaceStep`.
    table, bound
        As for `DirichletCost`.
    window
        As for `DirichletSampler`.
    """

    def __init__(
        self,
        *,
        weight: float,
        alpha: float = 10.0,
        relation: Relation | None = None,
        table: str | None = None,
        bound: Bound = "exact",
        window: int | None = None,
    ) -> None:
        cost = DirichletCost(
            weight=weight,
            alpha=alpha,
            relation=ReplaceStep() if relation is None else relation,
            table=table,
            bound=bound,
        )
        super().__init__(weight=weight, alpha=alpha, cost=cost, window=window)

    @classmethod
    def calibrated(
        cls,
        target: Target,
        *,
        draws: int,
        alpha: float = 10.0,
        relation: Relation | None = None,
        table: str | None = None,
        bound: Bound = "exact",
        window: int | None = None,
    ) -> Self:
        """Return the sampler whose ``draws`` updates meet ``target`` for every record.

        Its weight is the largest that does, and never above 1: a weight above 1 would count
        every observation more than once.
        """
        relation = ReplaceStep() if relation is None else relation
        largest = calibrate_weight(
            target,
            alpha=alpha,
            relation=relation,
            count=_touching(draws, window),
            table=table,
            bound=bound,
        )
        weight = min(1.0, largest)
        return cls(
            weight=weight, alpha=alpha, relation=relation, table=table, bound=bound, window=window
        )


class Concentrated(DirichletSampler):
    """Counts are taken as they are, ``Dirichlet(counts + alpha)``, under a larger prior.

    Parameters
    ----------
    alpha : float
        Prior pseudo-count of every cell, > 0. Larger is more private.
    relation : Relation
        Which data sets are neighbours; by default `ReplaceStep`.
    table, bound
        As for `DirichletCost`.
    window
        As for `DirichletSampler`.
    """

    def __init__(
        self,
        *,
        alpha: float,
        relation: Relation | None = None,
        table: str | None = None,
        bound: Bound = "exact",
        window: int | None = None,
    ) -> None:
        cost = DirichletCost(
            weight=1.0,
            alpha=alpha,
            relation=ReplaceStep() if relation is None else relation,
            table=table,
            bound=bound,
        )
        super().__init__(weight=1.0, alpha=alpha, cost=cost, window=window)

    @classmethod
    def calibrated(
        cls,
        target: Target,
        *,
        draws: int,
        alpha: float = 10.0,
        relation: Relation | None = None,
        table: str | None = None,
        bound: Bound = "exact",
        window: int | None = None,
    ) -> Self:
        """Return the sampler whose ``draws`` updates meet ``target`` for every record.

        Its prior is the smallest that does, and never below ``alpha``, the one that would be
        used without privacy.
        """
        relation = ReplaceStep() if relation is None else relation
        if relation.changes(table):
            needed = calibrate_alpha(
                target,
                weight=1.0,
                relation=relation,
                count=_touching(draws, window),
                table=table,
                bound=bound,
            )
            alpha = max(check_positive("alpha", alpha), needed)
        return cls(alpha=alpha, relation=relation, table=table, bound=bound, window=window)


def _touching(draws: int, window: int | None) -> int:
    """Return in how many of so many draws one record takes part."""
    return check_count("draws", draws) if window is None else min(draws, window)


def stack(samplers: Sequence[DirichletSampler]) -> DirichletSampler:
    """Put samplers side by side on a leading axis: independent runs in one array program.

    Parameters
    ----------
    samplers : sequence of DirichletSampler
        One for each row, of one window; none of them itself a stack, or used.

    Returns
    -------
    DirichletSampler
        For counts of shape ``(len(samplers), ..., K)``; its release is a `BatchCost`.
    """
    windows = {sampler.window for sampler in samplers}
    if len(windows) != 1 or any(sampler._done for sampler in samplers):
        raise ValueError(
            f"samplers must be at least one, unused, and of one window, got windows {windows}."
        )
    return DirichletSampler(
        weight=np.array([sampler.weight for sampler in samplers]),
        alpha=np.array([sampler.alpha for sampler in samplers]),
        cost=BatchCost([sampler._cost for sampler in samplers]),
        window=windows.pop(),
    )
