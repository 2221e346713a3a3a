"""Counts with noise: Gaussian, Laplace, and both on the whole numbers.

Each cell gets independent noise, including empty cells: a table without them would reveal which
cells are empty. Released counts may be negative; `normalise` turns them into probabilities, which
is post-processing and free.

Discrete noise is drawn exactly as accounted for (`privrl.numerics.discrete_noise`). Noise on the
real line is discrete noise on a grid 2^30 times finer than its size: floating-point noise can
reveal the data in its last bits or its tails (Mironov, 2012). Counts must be multiples of the grid:
rounding them to it could double a small change. Whole numbers always do, for the grid is a power of
two, and never wider than 1. Then the Laplace mechanism's pure epsilon is exact, and its other
divergences are above the continuous ones by less than 1e-15; the Gaussian's are not above them, nor
is its delta (`privrl.numerics.discrete_gaussian.gaussian_on_grid`).

References
----------
C. Dwork, F. McSherry, K. Nissim and A. Smith. *Calibrating noise to sensitivity in private data
analysis* (2006). The Laplace mechanism.

I. Mironov. *On significance of the least significant bits for differential privacy* (2012).

A. Ghosh, T. Roughgarden and M. Sundararajan. *Universally utility-maximizing privacy mechanisms*
(2009). The discrete Laplace mechanism, there called geometric.

C. Canonne, G. Kamath and T. Steinke. *The discrete Gaussian for differential privacy* (2020).
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privrl.accounting.base import Accountant
from privrl.accounting.calibration import calibrate
from privrl.accounting.targets import Target, check_target
from privrl.costs.noise import (
    DiscreteGaussianCost,
    DiscreteLaplaceCost,
    GaussianCost,
    LaplaceCost,
    NoiseCost,
    NoisyTable,
    largest_square,
)
from privrl.costs.relations import (
    DAMPED,
    DAMPED_REWARDS,
    ChangeVector,
    Relation,
    ReplaceRecord,
    check_relation,
)
from privrl.files.shown import shown
from privrl.mechanisms.base import Mechanism, check_counts
from privrl.numerics.checks import as_floats, check_between, check_count, check_positive
from privrl.numerics.discrete_gaussian import discrete_gaussian, gaussian_on_grid
from privrl.numerics.discrete_noise import SMALLEST, IntArray, check_drawable, discrete_laplace
from privrl.numerics.scipy_lazily import special
from privrl.numerics.special import FloatArray

Noisy = TypeVar("Noisy", bound=NDArray[Any])

_GRID = 2.0**-30  # of the size of the noise


@dataclass(frozen=True, kw_only=True, repr=False)
class AdditiveMechanism(NoisyTable, Mechanism[Noisy], Generic[Noisy]):
    """Base class of mechanisms that add independent noise to every cell.

    A subclass is a frozen dataclass with the size of its noise. It declares the distribution of
    the noise, so estimates from the released counts need not know its class.

    Parameters
    ----------
    relation : Relation
        Which data sets are neighbours; by default `ReplaceRecord`.
    table : str, optional
        The relation's table that the counts are; by default its first.

    Raises
    ------
    ValueError
        If the size of the noise is out of range, or as for the class's cost.
    """

    relation: Relation = field(default_factory=ReplaceRecord)

    _costs: ClassVar[Callable[..., NoiseCost]]
    _least: ClassVar[float] = 0.0  # of the size of the noise
    is_gaussian: ClassVar[bool]
    """Whether the noise is Gaussian; otherwise it is Laplace noise."""
    is_whole: ClassVar[bool] = False
    """Whether the noise, and so the counts, are whole numbers."""
    _off: ClassVar[float] = 1e-9  # by what share a guess at the size is wrong

    def __post_init__(self) -> None:
        for name, value in vars(self.cost).items():  # as the cost has checked them
            object.__setattr__(self, name, value)
        if self.table in (DAMPED, DAMPED_REWARDS):
            raise ValueError(
                f"table must be of counts as they are, got {shown(self.table)}; a mechanism damps "
                "none. privrl.samplers.NoisyCounts does where it is given loops."
            )

    @property
    def cost(self) -> NoiseCost:
        """What one release costs."""
        # Of its fields alone: what a selection returns has a mark beside them.
        return type(self)._costs(**{each.name: getattr(self, each.name) for each in fields(self)})

    @property
    def size(self) -> float:
        """The sigma or scale of the noise."""
        return float(self._size)

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise of a count."""
        return self.size if self.is_gaussian else math.sqrt(2) * self.size

    def reach(self, tail: float) -> float:
        """Return a number that the noise exceeds, in size, with probability ``tail`` at most.

        Discrete noise exceeds a whole number ``k`` at most as often as continuous noise of the
        same size does (for the Gaussian: Canonne, Kamath and Steinke, 2020).
        """
        if self.is_gaussian:
            reach = -self.size * float(special.ndtri(tail / 2))
        else:
            reach = -self.size * math.log(tail)
        return float(math.ceil(reach)) if self.is_whole else reach

    @classmethod
    def calibrated(
        cls,
        target: Target,
        *,
        relation: Relation | None = None,
        table: str | None = None,
        count: int = 1,
        accountant: Callable[[], Accountant] | None = None,
    ) -> Self:
        """Return the mechanism with the least noise whose ``count`` releases meet ``target``.

        The arguments are those of the class and of `privrl.accounting.calibrate`.

        Raises
        ------
        ValueError
            If an argument is out of range, no noise that can be drawn meets the target, or the
            relation never changes the table.
        """
        relation = check_relation(relation, ReplaceRecord())

        def cost(size: float) -> NoiseCost:
            return cls._costs(**{cls._named: size, "relation": relation, "table": table})

        changes = _check_changes(cost(1.0))
        check_target(target)
        size = calibrate(
            target,
            cost,
            rises=False,
            count=count,
            accountant=accountant,
            least=cls._least,
            guess=cls._guess(target, changes) if count == 1 else None,
            off=cls._off,
        )
        return cls(**vars(cost(size)))

    def check(self, data: ArrayLike) -> FloatArray:
        """Return counts, shape (..., K), as floats if they are from 0 to 2**53 and K at least 2.

        Raises
        ------
        ValueError
            If they are not, not whole where noise is discrete, or between two points of the grid
            that noise on the real line is on; nothing is spent then.
        """
        return check_counts(data, whole=self.is_whole)

    @staticmethod
    @abstractmethod
    def _guess(target: Target, changes: tuple[ChangeVector, ...], /) -> float:
        """Return about the size of the noise of one release that meets a target."""

    @staticmethod
    @abstractmethod
    def _noise(size: float, shape: tuple[int, ...], rng: np.random.Generator, /) -> NDArray[Any]:
        """Draw discrete noise of a size for every cell."""


class _Continuous(AdditiveMechanism[FloatArray]):
    def __post_init__(self) -> None:
        super().__post_init__()
        check_drawable(self._named, max(self._size, SMALLEST))  # any small one is

    @property
    def _grid(self) -> float:
        return min(2.0 ** math.floor(math.log2(self._size * _GRID)), 1.0)

    def check(self, data: ArrayLike) -> FloatArray:
        counts = super().check(data)
        steps = counts / self._grid  # exact, as the grid is a power of two
        if not np.array_equal(steps, np.rint(steps)):
            raise ValueError(
                f"data must be multiples of {shown(self._grid)}, the grid of noise of this size, "
                "as "
                "whole counts are; round what each record adds to them, and let the relation say "
                "by how much that can change."
            )
        return counts

    def _draw(self, data: FloatArray, rng: np.random.Generator) -> FloatArray:
        steps = self._noise(self._size / self._grid, data.shape, rng)
        # Both terms are exact, so their sum is rounded as the exact sum is: post-processing.
        return data + steps * self._grid


class _Discrete(AdditiveMechanism[IntArray]):
    _least = SMALLEST
    is_whole = True
    _off = 1e-3

    def __post_init__(self) -> None:
        check_drawable(self._named, self._size)
        super().__post_init__()

    def _draw(self, data: FloatArray, rng: np.random.Generator) -> IntArray:
        return data.astype(np.int64) + self._noise(self._size, data.shape, rng)


@dataclass(frozen=True, kw_only=True, repr=False)
class _Pure(AdditiveMechanism[Noisy], Generic[Noisy]):
    scale: float

    _named = "scale"
    is_gaussian = False

    @staticmethod
    def _guess(target: Target, changes: tuple[ChangeVector, ...], /) -> float:
        total, cells = max((sum(map(abs, vector)), len(vector)) for vector in changes)
        return target.laplace_scale(total, cells)

    @classmethod
    def pure(
        cls,
        epsilon: float,
        *,
        relation: Relation | None = None,
        table: str | None = None,
        count: int = 1,
    ) -> Self:
        """Return the mechanism whose ``count`` releases are epsilon-differentially private.

        Without any delta: its scale is ``count / epsilon`` times the largest sum of changes,
        which is 2 for one replaced record, rounded up.

        Raises
        ------
        ValueError
            If ``epsilon`` is not between 1e-30 and 1e30, ``count`` no whole number >= 1, the
            relation never changes the table, or the scale is out of range.
        """
        epsilon = check_between("epsilon", epsilon, 1e-30, 1e30, "smaller means more privacy")
        relation = check_relation(relation, ReplaceRecord())
        changes = _check_changes(cls._costs(scale=1.0, relation=relation, table=table))
        largest = max(sum(abs(Fraction(m)) for m in vector) for vector in changes)
        wanted = largest * check_count("count", count) / Fraction(epsilon)
        scale = float(wanted)
        if scale < wanted:
            scale = math.nextafter(scale, math.inf)
        made = cls._costs(scale=max(scale, cls._least), relation=relation, table=table)
        return cls(**vars(made))


@dataclass(frozen=True, kw_only=True, repr=False)
class _Normal(AdditiveMechanism[Noisy], Generic[Noisy]):
    sigma: float

    _named = "sigma"
    is_gaussian = True

    @staticmethod
    def _guess(target: Target, changes: tuple[ChangeVector, ...], /) -> float:
        return target.gaussian_sigma(math.sqrt(largest_square(changes)))


@dataclass(frozen=True, kw_only=True, repr=False)
class GaussianMechanism(_Continuous, _Normal[FloatArray]):
    """Counts with independent Gaussian noise.

    Parameters
    ----------
    sigma, relation, table
        As for `privrl.costs.GaussianCost` and `AdditiveMechanism`.

    Notes
    -----
    A release is an array of floats of the counts' shape, multiples of a power of two near
    ``sigma * 2**-30``.
    """

    _costs = GaussianCost
    _noise = staticmethod(gaussian_on_grid)


@dataclass(frozen=True, kw_only=True, repr=False)
class LaplaceMechanism(_Continuous, _Pure[FloatArray]):
    """Counts with independent Laplace noise.

    Parameters
    ----------
    scale, relation, table
        As for `privrl.costs.LaplaceCost` and `AdditiveMechanism`. A release has the type of a
        `GaussianMechanism`'s.
    """

    _costs = LaplaceCost
    _noise = staticmethod(discrete_laplace)


@dataclass(frozen=True, kw_only=True, repr=False)
class DiscreteGaussianMechanism(_Discrete, _Normal[IntArray]):
    """Whole counts with independent discrete Gaussian noise, drawn exactly.

    Parameters
    ----------
    sigma : float
        Of the noise, a whole number ``x`` with probability proportional to
        ``exp(−x² / (2 sigma²))``; from 1e-3 to 2**40 counts; larger is more private.
    relation, table
        As for `AdditiveMechanism`.
    """

    _costs = DiscreteGaussianCost
    _noise = staticmethod(discrete_gaussian)


@dataclass(frozen=True, kw_only=True, repr=False)
class DiscreteLaplaceMechanism(_Discrete, _Pure[IntArray]):
    """Whole counts with independent discrete Laplace noise, drawn exactly.

    Parameters
    ----------
    scale, relation, table
        As for `privrl.costs.DiscreteLaplaceCost` and `AdditiveMechanism`; ``scale`` is from 1e-3 to
        2**40 counts.
    """

    _costs = DiscreteLaplaceCost
    _off = 1e-5
    _noise = staticmethod(discrete_laplace)

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise of a count; at least 1e-3."""
        return max(1 / (math.sqrt(2) * math.sinh(min(1 / (2 * self.size), 300.0))), 1e-3)


def normalise(noisy: ArrayLike, *, floor: float) -> FloatArray:
    """Turn noisy counts into probabilities: clip them from below, then divide by the row's sum.

    Parameters
    ----------
    noisy : array_like, shape (..., K)
        Released counts; they may be negative.
    floor : float
        The least value of a cell, > 0; a number that does not depend on the data. The size of the
        noise is a good choice.

    Returns
    -------
    array, shape (..., K)
        Probabilities > 0; each row sums to 1 within rounding.

    Raises
    ------
    ValueError
        If ``floor`` is not > 0 and finite, or a count is not finite, or the array has no axis.
    """
    floor = check_positive("floor", floor, "the sigma or scale of the noise is a good one")
    counts = as_floats("noisy", noisy)
    if counts.ndim < 1 or counts.shape[-1] < 1 or not np.isfinite(counts).all():
        raise ValueError(
            "noisy must be finite numbers with cells on the last axis, got shape "
            f"{counts.shape} with {np.count_nonzero(~np.isfinite(counts))} others."
        )
    clipped = np.maximum(counts, floor)
    with np.errstate(over="ignore"):
        total = clipped.sum(-1, keepdims=True)
    if not np.isfinite(total).all():
        raise ValueError(
            "noisy must be numbers whose sum is a float once none is below floor, got rows of more "
            f"than {np.finfo(float).max:g}; is floor={floor:g} what was meant?"
        )
    return clipped / total


def _check_changes(cost: NoiseCost) -> tuple[ChangeVector, ...]:
    """Return the change vectors of a cost's table; refuse an empty list."""
    if not cost.changes:
        raise ValueError(
            f"relation {str(cost.relation)!r} never changes the table {shown(cost.table)}, so it "
            "is private without noise: no smallest noise exists. Release it as it is."
        )
    return cost.changes
