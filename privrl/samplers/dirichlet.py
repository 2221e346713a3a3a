"""Samplers that draw once per update from a Dirichlet posterior of the counts.

After Ponnoprat, *Differential privacy of Dirichlet posterior sampling*, section 5.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np

from privrl.accounting.targets import Target
from privrl.costs.base import Cost
from privrl.costs.dirichlet import Bound, DirichletCost
from privrl.costs.relations import Relation, ReplaceStep, check_relation
from privrl.mechanisms.dirichlet import DirichletMechanism
from privrl.numerics.checks import check_count, check_positive, check_rng
from privrl.numerics.exact_dirichlet import posterior_rows
from privrl.numerics.special import FloatArray
from privrl.samplers.base import PaidSampler, check_batch, frozen, lead


@dataclass(frozen=True)
class SingleDraw:
    """A posterior known by a single draw: each sample is the same."""

    probabilities: FloatArray

    @property
    def mean(self) -> FloatArray:
        """The draw, shape (..., K)."""
        return self.probabilities

    def sample(self, rng: np.random.Generator) -> FloatArray:
        """Return the draw, shape (..., K)."""
        del rng  # nothing more is drawn
        return self.probabilities


Solve = Callable[..., DirichletMechanism]
"""Calibrates a mechanism, given its ``weight`` or its ``alpha``: the one that is not solved for."""


class DirichletSampler(PaidSampler, ABC):
    """A Dirichlet mechanism over time: one draw ``Dirichlet(weight * counts + alpha)`` an update.

    `Diffuse` and `Concentrated` differ in what `calibrated` solves for.

    Parameters
    ----------
    weight : float
        Weight of each count, > 0; usually 1 or below. Smaller is more private.
    alpha : float
        Prior pseudo-count of every cell, > 0; larger is more private.
    relation : Relation
        Which data sets are neighbours; by default `ReplaceStep`.
    table, bound
        As for `privrl.costs.DirichletCost`.
    window : int, optional
        Number of batches in each update, the newest included; by default all. A record is in one
        batch, so it takes part in at most ``window`` updates: the first ``window`` updates are
        charged, and later ones are free.

    Raises
    ------
    ValueError
        If a number is out of range or a name unknown.
    """

    remembered = ("_shape", "_past")
    settings = ("weight", "alpha")

    def __init__(
        self,
        *,
        weight: float = 1.0,
        alpha: float = 10.0,
        relation: Relation | None = None,
        table: str | None = None,
        bound: Bound = "exact",
        window: int | None = None,
    ) -> None:
        cost = DirichletCost(
            weight=weight,
            alpha=alpha,
            relation=check_relation(relation, ReplaceStep()),
            table=table,
            bound=bound,
        )
        self._cost: Cost = cost
        self._weight = frozen(np.asarray(cost.weight))
        self._alpha = frozen(np.asarray(cost.alpha))
        self._window = None if window is None else check_count("window", window)
        self._forget()

    def _forget(self) -> None:
        super()._forget()
        self._shape: tuple[int, ...] | None = None
        self._past: tuple[FloatArray, ...] = ()  # batches of the window, or the sum of all

    def _goes_with(self, other: PaidSampler) -> bool:
        return isinstance(other, DirichletSampler) and other._window == self._window

    def __repr__(self) -> str:
        return f"{type(self).__name__}(weight={self.weight}, alpha={self.alpha})"

    @property
    def weight(self) -> FloatArray:
        """Weight of each count, one number or one for each run; read-only."""
        return self._weight

    @property
    def window(self) -> int | None:
        """Number of batches in each update; None for all."""
        return self._window

    @property
    def cost(self) -> Cost | None:
        """Cost of the next update; None once a whole window has been charged."""
        paid = self._window is not None and self._done >= self._window
        return None if paid else self._cost

    def check(self, counts: FloatArray) -> None:
        """Check a batch of counts, shape (..., K).

        Raises
        ------
        ValueError
            As `privrl.samplers.base.check_batch` does, or if rows have no cells to draw from.
        """
        self.check_usable()
        check_batch(counts, self._weight.shape, self._shape, self._past)
        if not counts.shape[-1]:
            raise ValueError(f"counts must have cells on the last axis, got shape {counts.shape}.")

    def update(self, counts: FloatArray, rng: np.random.Generator) -> SingleDraw:
        """Add a batch of counts, shape (..., K), and draw the rows; see `Sampler.update`."""
        self.check(counts)
        check_rng(rng)
        total = sum(self._past, start=counts.copy())
        weight, alpha = lead(self._weight, counts.ndim), lead(self._alpha, counts.ndim)
        rows = posterior_rows(total, weight, alpha, rng)
        # Only now: a failed update leaves the sampler as it was.
        self._done += 1
        self._shape = counts.shape
        if self._window is None:
            self._past = (total,)
        elif self._window > 1:
            # Summed afresh each time: a batch that is subtracted leaves its rounding behind.
            self._past = (*self._past, counts.copy())[1 - self._window :]
        return SingleDraw(rows)

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

        It is the ordinary posterior with the prior ``alpha`` if that meets the target, or if no
        neighbour changes the table.

        Parameters
        ----------
        target : RenyiDP or ApproxDP
            Budget of all updates together.
        draws : int
            Number of updates, >= 1.
        alpha : float
            The prior that would be used without privacy.
        relation, table, bound, window
            As for the class.

        Raises
        ------
        ValueError
            If an argument is out of range, or the target cannot be met.
        """
        relation = check_relation(relation, ReplaceStep())
        if window is not None:
            window = check_count("window", window)
        draws = check_count("draws", draws)
        common: dict[str, Any] = {"relation": relation, "table": table, "bound": bound}
        weight, alpha = 1.0, check_positive("alpha", alpha)
        # In how many draws one record takes part.
        count = draws if window is None else min(draws, window)
        if relation.changes(table):
            solve = partial(DirichletMechanism.calibrated, target, count=count, **common)
            weight, alpha = cls._solved(solve, alpha)
        return cls(weight=weight, alpha=alpha, window=window, **common)

    @staticmethod
    @abstractmethod
    def _solved(solve: Solve, alpha: float) -> tuple[float, float]:
        """Return weight and prior, never better than a weight of 1 with the prior ``alpha``."""


class Diffuse(DirichletSampler):
    """Counts are scaled down, ``Dirichlet(weight * counts + alpha)``, with an unchanged prior.

    See `DirichletSampler` for the arguments. `calibrated` finds the largest weight that meets the
    target, and never one above 1, which would count every observation more than once.
    """

    @staticmethod
    def _solved(solve: Solve, alpha: float) -> tuple[float, float]:
        return min(1.0, solve(alpha=alpha).weight), alpha


class Concentrated(DirichletSampler):
    """Counts keep their weight, ``Dirichlet(counts + alpha)``, with a larger prior.

    See `DirichletSampler` for the arguments. `calibrated` finds the smallest prior that meets the
    target, and never one below ``alpha``.
    """

    @staticmethod
    def _solved(solve: Solve, alpha: float) -> tuple[float, float]:
        return 1.0, max(alpha, solve(weight=1.0).cost.alpha)
