"""The cost of noise on a table of counts: Gaussian, Laplace, and their discrete versions.

Every cell gets independent noise, so the privacy loss of a change vector is the sum of its cells'
losses, and each cell's pair is the shifted noise against the unshifted noise. Noise is symmetric:
gains and losses cost the same.

**Gaussian.** The changed cells together are one pair whose shift is the norm of the change.

**Laplace.** In units of the scale a cell's loss is ``s − V``, with ``V = 0`` half of the time and
``V/2`` exponential otherwise, cut off at ``V = 2s``. For ``epsilon >= 0`` the cut does not matter
to one cell or to two, and

    delta(epsilon) = 1 − exp(−h),  h = (s − epsilon)/2,               one cell,
    delta(epsilon) = 1 − (1 + h/2) exp(−h),  h = s − epsilon/2,       two cells (one record).

**Discrete Laplace** (Ghosh, Roughgarden and Sundararajan, 2009). The loss of any number of cells
is ``(M − 2K) / scale``, where ``M`` is the sum of the amounts and ``K`` a sum of independent whole
numbers from 0 to each amount: its law is a short convolution, and delta a sum of positive terms.

**Discrete Gaussian** (Canonne, Kamath and Steinke, 2020). With ``θ(c)``, the sum of
``exp(−(x − c)² / (2 sigma²))`` over the integers ``x``,

    rdp(λ) = λ m² / (2 sigma²) + log(θ(λ m) / θ(0)) / (λ − 1),

never more than that of the Gaussian. Two cells that change by the same amount depend on the sum
of two noises, which are again Gaussian weights on the even and on the odd numbers.

Under a relation with `Relation.convex_from`, whose vectors represent every way of spreading their
amounts, the Gaussian stays exact: spreading makes no norm larger. The log-moments of Laplace and
discrete Laplace are logarithms of sums of exponentials in the amount, so convex, and zero at zero:
spreading makes no Rényi divergence larger. For the discrete Gaussian the Gaussian's divergence
bounds all of them. The numerical value of ``convex_from`` is about Dirichlet priors only. The same
holds for a table of `Relation.sum_only`, and signs do not matter: noise is symmetric.
"""

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import chain
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from privrl.costs.base import PairsCost, check_cells, check_epsilons, sharpened
from privrl.costs.noise_pairs import (
    DiscreteGaussianPair,
    DiscreteLaplacePair,
    GaussianPair,
    LaplacePair,
)
from privrl.costs.relations import ChangeVector, Relation, check_relation
from privrl.files.shown import shown
from privrl.numerics.checks import check_between, check_orders
from privrl.numerics.convolution import Pair
from privrl.numerics.special import FloatArray
from privrl.numerics.upwards import DIVERGENCE, FEW, outward, product_down, product_up, quotient_up

_DOMAIN = (1e-30, 1e30)  # of the size of the noise: where nothing under- or overflows
_LATTICE = 4096  # atoms of a discrete loss up to which cells are convolved exactly


@lru_cache(maxsize=64)
def largest_square(changes: tuple[ChangeVector, ...]) -> float:
    """Return the largest square of the norm of a change, rounded upwards."""
    return _float_up(max((sum(map(_square, vector)) for vector in changes), default=Fraction(0)))


@lru_cache(maxsize=64)
def _largest_sum(changes: tuple[ChangeVector, ...]) -> Fraction:
    return max((sum(map(abs, map(Fraction, v)), Fraction(0)) for v in changes), default=Fraction(0))


@lru_cache(maxsize=64)
def _amounts(changes: tuple[ChangeVector, ...]) -> tuple[tuple[float, ...], ...]:
    """Return the sizes of the changes of cells, without their positions and signs."""
    return tuple(sorted({tuple(sorted(map(abs, vector))) for vector in changes}))


def gaussian_rdp(square: float, sigma: ArrayLike, orders: FloatArray) -> FloatArray:
    """Return ``λ square / (2 sigma²)``, rounded upwards: exact where it is a float."""
    return product_up(orders, quotient_up(square, 2 * product_down(sigma, sigma)))


def _square(amount: float) -> Fraction:
    # An amount with many digits, such as √2, is itself rounded.
    whole = amount == np.float32(amount)
    return Fraction(abs(amount) if whole else math.nextafter(abs(amount), math.inf)) ** 2


def _float_up(value: Fraction | int) -> float:
    nearest = float(value)
    return nearest if nearest >= value else math.nextafter(nearest, math.inf)


@dataclass(frozen=True, kw_only=True, repr=False)
class NoisyTable:
    """A table of counts with independent noise on every cell.

    The base of noise costs and of the mechanisms that add noise; each adds the size of its noise.

    Parameters
    ----------
    relation : Relation
        Which data sets are neighbours.
    table : str, optional
        The relation's table that is released; by default its first.
    """

    relation: Relation
    table: str | None = None

    _named: ClassVar[Literal["sigma", "scale"]]  # the field that is the size of the noise

    @property
    def _size(self) -> float:
        return getattr(self, self._named)

    def __repr__(self) -> str:
        size = f"{self._named}={self._size!r}"
        return f"{type(self).__name__}({size}, relation={self.relation!r}, table={self.table!r})"


class NoiseCost(NoisyTable, PairsCost):
    """The cost of noise; a subclass is a frozen dataclass with the size of its noise."""

    _whole: ClassVar[bool] = False  # whether the noise, and so each change, is a whole number
    _by_norm: ClassVar[bool] = False  # whether only the norm of a change matters
    _by_sum: ClassVar[bool] = False  # whether no change costs more than all of it in one cell

    def __post_init__(self) -> None:
        size = check_between(self._named, self._size, *_DOMAIN, "larger means more privacy")
        object.__setattr__(self, self._named, size)
        check_relation(self.relation)
        if not self._by_norm:
            check_cells(self.relation, self.table, or_sums=self._by_sum)
        for amount in chain.from_iterable(self.changes):
            if self._whole and not amount.is_integer():
                raise ValueError(
                    "relation must change cells by whole numbers where noise is discrete, got "
                    f"{shown(amount)} in {str(self.relation)!r}; use noise on the real line."
                )
        if self.table is None:
            object.__setattr__(self, "table", self.relation.tables[0][0])

    @property
    def changes(self) -> tuple[ChangeVector, ...]:
        """The change vectors of the released table."""
        return self.relation.changes(self.table)

    @abstractmethod
    def _pairs(self, amounts: "Counter[float]") -> "Counter[Pair]":
        """Return the pairs for changes of the given numbers of cells by each amount > 0."""

    def rdp(self, orders: ArrayLike) -> FloatArray:
        """Return the Rényi divergence (nats) at each order > 1; same shape as ``orders``."""
        orders = check_orders(orders)
        worst = np.zeros_like(orders)
        for pairs in self._options():
            cost = np.sum([n * pair.rdp(orders) for pair, n in pairs.items()], axis=0)
            worst = np.maximum(worst, cost)
        return outward(worst, DIVERGENCE)

    def dominating_pairs(self) -> "list[Counter[Pair]] | None":
        """Return, for each change vector, the dominating pairs whose product it costs.

        None if the relation covers Rényi divergence only, or only the sum of a change.
        """
        spreads = self.table in self.relation.sum_only or self.relation.convex_from is not None
        return None if spreads else self._options()

    def _log_delta(self, least: float = -np.inf) -> Callable[[FloatArray], FloatArray]:
        profile = super()._log_delta(least)
        pairs = self.dominating_pairs()
        if pairs is None or all(product.total() == 1 for product in pairs):
            return profile
        return sharpened(profile, self.rdp)

    def _options(self) -> "list[Counter[Pair]]":
        return [self._pairs(Counter(amounts)) for amounts in _amounts(self.changes)]


@dataclass(frozen=True, kw_only=True, repr=False)
class _PureCost(NoiseCost):
    """The cost of noise with a bounded loss: delta is zero from some epsilon on."""

    scale: float

    _named = "scale"
    _by_sum = True

    @property
    def pure_epsilon(self) -> float:
        """The epsilon (nats) of pure privacy, with ``delta = 0``, never rounded down."""
        return float(quotient_up(_float_up(_largest_sum(self.changes)), self.scale))

    @property
    def pure_ratio(self) -> Fraction:
        """The epsilon (nats) of pure privacy, exactly."""
        return _largest_sum(self.changes) / Fraction(self.scale)

    def delta(self, epsilon: ArrayLike) -> FloatArray:
        """Return delta at each epsilon >= 0 (nats); same shape as ``epsilon``."""
        epsilon = check_epsilons(epsilon)
        inside = epsilon < self.pure_epsilon
        return np.where(inside, super().delta(np.where(inside, epsilon, 0.0)), 0.0)

    def epsilon(self, delta: float) -> FloatArray:
        """Return the smallest epsilon (nats) at ``delta`` in (0, 1), never rounded down."""
        return np.minimum(super().epsilon(delta), self.pure_epsilon)


@dataclass(frozen=True, kw_only=True, repr=False)
class _NormalCost(NoiseCost):
    """The cost of Gaussian noise, on the real line or on whole numbers."""

    sigma: float

    _named = "sigma"

    @property
    def rho(self) -> Fraction:
        """The rho (nats) of zero-concentrated privacy: half the square of norm over sigma."""
        return Fraction(largest_square(self.changes)) / (2 * Fraction(self.sigma) ** 2)

    def rdp(self, orders: ArrayLike) -> FloatArray:
        """Return the Rényi divergence (nats) at each order > 1; same shape as ``orders``."""
        return gaussian_rdp(largest_square(self.changes), self.sigma, check_orders(orders))


@dataclass(frozen=True, kw_only=True, repr=False)
class GaussianCost(_NormalCost):
    """A table of counts with independent Gaussian noise on every cell.

    Parameters
    ----------
    sigma : float
        Standard deviation of the noise, in counts, > 0; larger is more private.
    relation, table
        As for `NoisyTable`.

    Raises
    ------
    ValueError
        If ``sigma`` is not between 1e-30 and 1e30, or the relation does not know the table.

    Notes
    -----
    Exact, in Rényi divergence and in delta: the loss of a change vector is that of one Gaussian
    pair, whose shift is the vector's norm over ``sigma``.
    """

    fixed: ClassVar[bool] = True
    _by_norm = True

    def dominating_pairs(self) -> "list[Counter[Pair]]":
        """Return the one pair of the change vector with the largest norm."""
        return self._options()

    @property
    def bulk_key(self) -> tuple[str | None]:
        """The table."""
        return (self.table,)

    def bulk(self) -> "GaussianBulk":
        """Return the evaluation of many costs of this table."""
        return GaussianBulk(self.changes)

    def _options(self) -> "list[Counter[Pair]]":
        square = largest_square(self.changes)
        return [self._pairs(Counter([math.sqrt(square)]))] if square else []

    def _pairs(self, amounts: "Counter[float]") -> "Counter[Pair]":
        return Counter(
            [GaussianPair(float(outward(math.hypot(*amounts.elements()) / self.sigma, FEW)))]
        )


class GaussianBulk:
    """Costs of one table, evaluated at once."""

    def __init__(self, changes: tuple[ChangeVector, ...]) -> None:
        self._square = largest_square(changes)

    def numbers(self, cost: GaussianCost) -> tuple[float]:
        """Return the standard deviation of the noise."""
        return (cost.sigma,)

    def rdp(self, numbers: FloatArray, orders: FloatArray) -> FloatArray:
        """Return the divergences, shape (n, n_orders)."""
        return gaussian_rdp(self._square, numbers, orders)

    def at_most(self, cost: GaussianCost, order: float) -> float:
        """Return the divergence itself, up to rounding."""
        return order * self._square / cost.sigma / cost.sigma / 2


@dataclass(frozen=True, kw_only=True, repr=False)
class LaplaceCost(_PureCost):
    """A table of counts with independent Laplace noise on every cell.

    Parameters
    ----------
    scale : float
        Of the noise, whose density is proportional to ``exp(−|x| / scale)``, in counts, > 0;
        larger is more private.
    relation, table
        As for `NoisyTable`.

    Raises
    ------
    ValueError
        If ``scale`` is not between 1e-30 and 1e30, or the relation does not know the table.

    Notes
    -----
    The Rényi divergence is exact. So is delta if each change vector is one cell, or two cells
    that change by the same amount, such as one replaced record. For longer vectors delta is an
    upper bound by convolution (`privrl.numerics.convolution`), about 3e-4 of epsilon away. Under
    a relation that is sound in Rényi divergence only (`ReplaceEpisode`) it follows from ``rdp``.
    """

    fixed: ClassVar[bool] = True

    def _pairs(self, amounts: "Counter[float]") -> "Counter[Pair]":
        pairs: Counter[Pair] = Counter()
        for amount, times in amounts.items():
            shift = float(quotient_up(amount, self.scale))
            pairs[LaplacePair(shift, 2)] += times // 2
            pairs[LaplacePair(shift)] += times % 2
        return +pairs


@dataclass(frozen=True, kw_only=True, repr=False)
class DiscreteLaplaceCost(_PureCost):
    """A table of whole counts with independent discrete Laplace noise on every cell.

    Parameters
    ----------
    scale : float
        Of the noise, a whole number ``x`` with probability proportional to
        ``exp(−|x| / scale)``; in counts, > 0; larger is more private.
    relation, table
        As for `NoisyTable`; amounts are whole numbers.

    Raises
    ------
    ValueError
        If ``scale`` is not between 1e-30 and 1e30, the relation does not know the table, or an
        amount is not whole.

    Notes
    -----
    Exact, in Rényi divergence and, for vectors whose amounts sum to less than 4096, in delta;
    beyond, and under a relation that is sound in Rényi divergence only, as for `LaplaceCost`.
    """

    fixed: ClassVar[bool] = True
    _whole = True

    def _pairs(self, amounts: "Counter[float]") -> "Counter[Pair]":
        shifts = tuple(int(amount) for amount in amounts.elements())
        if sum(shifts) < _LATTICE:
            return Counter([DiscreteLaplacePair(self.scale, shifts)])
        return Counter(DiscreteLaplacePair(self.scale, (shift,)) for shift in shifts)


@dataclass(frozen=True, kw_only=True, repr=False)
class DiscreteGaussianCost(_NormalCost):
    """A table of whole counts with independent discrete Gaussian noise on every cell.

    Parameters
    ----------
    sigma : float
        Of the noise, a whole number ``x`` with probability proportional to ``exp(−x² / (2
        sigma²))``; its range, and ``relation`` and ``table``, are as for `DiscreteLaplaceCost`.

    Notes
    -----
    As accurate as `LaplaceCost`. Under a relation that is sound in Rényi divergence only
    (`ReplaceEpisode`) the Rényi divergence is that of `GaussianCost`, an upper bound, and delta
    follows from it.
    """

    fixed: ClassVar[bool] = True
    _whole = True

    def rdp(self, orders: ArrayLike) -> FloatArray:
        """Return the Rényi divergence (nats) at each order > 1; same shape as ``orders``."""
        known = NoiseCost if self.relation.convex_from is None else _NormalCost
        return known.rdp(self, orders)

    def _pairs(self, amounts: "Counter[float]") -> "Counter[Pair]":
        pairs: Counter[Pair] = Counter()
        for amount, times in amounts.items():
            pairs[DiscreteGaussianPair(self.sigma, int(amount), 2)] += times // 2
            pairs[DiscreteGaussianPair(self.sigma, int(amount))] += times % 2
        return +pairs
