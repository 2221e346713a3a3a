"""Several tables of counts of the same records, released together under one target.

A naive Bayes classifier is a table for each feature and one for the classes, a Bayesian network
a table for each node, a histogram a single row: `Rows` lists their shapes. Each record is counted
once in every table, so that one replaced record changes two cells of each, and the tables' costs
add up. How much of the target each of them gets, and with which mechanism, is settled by public
facts alone: the shapes, the target, and a guess at the number of records.

What is released is noisy, and may be negative; `privrl.models.estimates` turns it into
probabilities.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike

from privrl.accounting.calibration import calibrate
from privrl.accounting.rdp import RdpAccountant
from privrl.accounting.releases import release
from privrl.accounting.targets import ApproxDP, Target, check_target
from privrl.costs.base import Cost, NoPrivacy, Together
from privrl.costs.dirichlet import DirichletCost
from privrl.costs.noise import GaussianCost, LaplaceCost, largest_square
from privrl.costs.relations import Relation, ReplaceRecord, check_relation
from privrl.files.shown import shown
from privrl.mechanisms.additive import GaussianMechanism, LaplaceMechanism
from privrl.mechanisms.base import Mechanism, check_counts
from privrl.mechanisms.design import typical_loss
from privrl.mechanisms.dirichlet import DirichletMechanism
from privrl.numerics.checks import check_among, check_count, check_numbers, check_positive
from privrl.numerics.scipy_lazily import optimize
from privrl.numerics.special import FloatArray

MechanismName = Literal["auto", "dirichlet", "gaussian", "laplace", "none"]
Rows = tuple[int, int]  # of a table: how many rows, and cells of each


@dataclass(frozen=True, eq=False)
class ReleasedTable:
    """A table as it was released.

    Attributes
    ----------
    values : array, shape (R, K)
        Noisy counts, or, from a Dirichlet draw, each row's probabilities.
    mechanism : {"dirichlet", "gaussian", "laplace", "none"}
        What released it.
    deviation : float
        Standard deviation of the noise of a count; 0 without noise.
    """

    values: FloatArray
    mechanism: str
    deviation: float


@dataclass(frozen=True, kw_only=True)
class TablesMechanism(Mechanism[tuple[ReleasedTable, ...]]):
    """Release several tables of the same records at once.

    Parameters
    ----------
    shapes : sequence of pairs of int
        Rows and cells to a row of each table.
    mechanism : {"dirichlet", "gaussian", "laplace", "none"}
        One draw of every row, independent noise on every cell, or the counts themselves.
    sizes : sequence of float
        For each table the weight of its draw, or the sigma or weight of its noise; empty for
        ``"none"``.
    alpha : float
        The prior of Dirichlet draws.
    relation : Relation
        By default `ReplaceRecord`.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """

    shapes: tuple[Rows, ...]
    mechanism: MechanismName
    sizes: tuple[float, ...] = ()
    alpha: float = 1.0
    relation: Relation = field(default_factory=ReplaceRecord)

    def __post_init__(self) -> None:
        object.__setattr__(self, "shapes", check_shapes(self.shapes))
        sizes = tuple(check_positive("sizes", size) for size in self.sizes)
        object.__setattr__(self, "sizes", sizes)
        object.__setattr__(self, "alpha", check_positive("alpha", self.alpha))
        known, hint = get_args(MechanismName)[1:], "TablesMechanism.calibrated chooses for 'auto'"
        check_among("mechanism", self.mechanism, known, hint)
        wanted = 0 if self.mechanism == "none" else len(self.shapes)
        if len(self.sizes) != wanted:
            raise ValueError(f"sizes must hold {wanted} numbers, got {len(self.sizes)}.")
        if self.mechanism != "none":
            _ = self._each  # checks the numbers

    @classmethod
    def algorithm_1(
        cls, target: Target, *, shapes: Sequence[Rows], relation: Relation | None = None
    ) -> Self:
        """Return Dirichlet draws as DKL's Algorithm 1 sets them, each table in an equal part.

        The parameters are the paper's; `cost` is exact, and so below the target.

        Parameters
        ----------
        target, shapes, relation
            As for `calibrated`; the target is met by the paper's bound.

        See Also
        --------
        privrl.mechanisms.DirichletMechanism.algorithm_1 : for one table.
        """
        shapes = check_shapes(shapes)
        relation = check_relation(relation, ReplaceRecord())
        one = DirichletMechanism.algorithm_1(target, relation=relation, count=len(shapes))
        return cls(
            shapes=shapes,
            mechanism="dirichlet",
            sizes=(one.weight,) * len(shapes),
            alpha=one.cost.alpha,
            relation=relation,
        )

    @classmethod
    def calibrated(
        cls,
        target: Target,
        *,
        shapes: Sequence[Rows],
        n_records: float,
        mechanism: MechanismName = "auto",
        shares: Sequence[float] | None = None,
        alpha: float | None = None,
        relation: Relation | None = None,
    ) -> Self:
        """Return the mechanism that meets a target with all tables together.

        Parameters
        ----------
        target : RenyiDP or ApproxDP
            What all the tables together may spend.
        shapes : sequence of pairs of int
            Rows and cells to a row of each table.
        n_records : float
            Public number of records, > 0; a guess will do.
        mechanism : {"auto", "dirichlet", "gaussian", "laplace", "none"}
            ``"auto"`` takes the noise with the smaller variance, and never a Dirichlet draw: see
            the notes.
        shares : sequence of float, optional
            Parts of the budget that the tables get, > 0, in any unit; by default equal ones.
            Noise is as one over the share's root, so that shares are exact for small costs;
            `least_noise_shares` has the ones with the least noise in all.
        alpha : float, optional
            The prior of Dirichlet draws, > 0; by default the one of least expected divergence.
        relation : Relation, optional
            Which data sets are neighbours; by default `ReplaceRecord`.

        Raises
        ------
        ValueError
            If an argument is out of range or the target cannot be met.

        Notes
        -----
        A draw with weight s and prior a has a Rényi divergence of at least ``λ s² / (a + s/2)`` at
        order λ under `ReplaceRecord`: it is the mean of trigamma, which exceeds 1/x, over a range
        around ``a + s/2``, times ``λ s²``. So Gaussian noise of the same cost has a variance of at
        most ``(a + s/2) / s²``, and a cell of x records, drawn before rows are normalised, one of
        ``(s x + a) / s²``: more, from half a record on, by the sampling error ``x / s``.

        Gaussian noise is calibrated exactly: noise of several sizes on several tables costs what
        noise of one size on one table does. For the others an `ApproxDP` target is met by the sum
        of the tables' Rényi divergences.
        """
        shapes = check_shapes(shapes)
        n_records = check_positive("n_records", n_records, "a public guess will do")
        relation = check_relation(relation, ReplaceRecord())
        factors = _factors(shares, len(shapes))
        check_among("mechanism", mechanism, get_args(MechanismName))
        if alpha is not None and mechanism != "dirichlet":
            raise ValueError(
                f"alpha is the prior of Dirichlet draws, got {shown(alpha)} for {shown(mechanism)}."
            )
        if mechanism == "none":
            return cls(shapes=shapes, mechanism="none", relation=relation)
        made = partial(cls, shapes=shapes, relation=relation)
        if mechanism == "dirichlet":
            if alpha is None:
                alpha = _designed(target, shapes, n_records, factors, relation)
            alpha = check_positive("alpha", alpha, "1 is usual")
            weight = _dirichlet_weight(target, alpha, factors, relation)
            return made(mechanism="dirichlet", sizes=tuple(weight / factors), alpha=alpha)
        check_target(target)
        mechanism, size = _noise(mechanism, target, tuple(factors.tolist()), relation)
        return made(mechanism=mechanism, sizes=tuple(size * factors))

    @cached_property
    def cost(self) -> Cost:
        """What the release of all the tables costs."""
        return _cost(self.mechanism, self.sizes, self.alpha, self.relation)

    @property
    def deviations(self) -> tuple[float, ...]:
        """Standard deviation of the noise of each table's counts; 0 without noise."""
        if self.mechanism in ("dirichlet", "none"):
            return (0.0,) * len(self.shapes)
        root = 1.0 if self.mechanism == "gaussian" else np.sqrt(2.0)
        return tuple(float(root * size) for size in self.sizes)

    def check(self, data: Any) -> Any:
        """Return the tables of counts, as floats, if they are of the declared shapes.

        Raises
        ------
        ValueError
            If they are not, or a count is negative or not finite; nothing is spent then.
        """
        if not isinstance(data, Sequence) or len(data) != len(self.shapes):
            raise ValueError(f"data must be a sequence of {len(self.shapes)} tables of counts.")
        tables = []
        for i, (table, shape) in enumerate(zip(data, self.shapes, strict=True)):
            counts = check_numbers(f"data[{i}]", table)
            if counts.shape != shape:
                raise ValueError(f"data[{i}] must have shape {shape}, got {counts.shape}.")
            tables.append(
                check_counts(counts) if self.mechanism == "none" else self._each[i].check(counts)
            )
        return tables

    def part(self, tables: slice) -> Self:
        """Return the mechanism of some of the tables, as it is within the whole.

        For tables that are counted when others have been released already. `cost` of the whole
        covers both, even if the later counts depend on the first release.
        """
        return replace(self, shapes=self.shapes[tables], sizes=self.sizes[tables])

    def _draw(self, data: Any, rng: np.random.Generator) -> tuple[ReleasedTable, ...]:
        if self.mechanism == "none":
            return tuple(ReleasedTable(table.copy(), "none", 0.0) for table in data)
        # The tables were checked and paid for together.
        return tuple(
            ReleasedTable(
                release(each, each.cost, table, rng, each._draw), self.mechanism, deviation
            )
            for each, table, deviation in zip(self._each, data, self.deviations, strict=True)
        )

    @cached_property
    def _each(self) -> tuple[Mechanism[FloatArray], ...]:
        """The mechanism of each table."""
        return tuple(
            _of_one(self.mechanism, size, self.alpha, self.relation) for size in self.sizes
        )


@lru_cache(maxsize=256)  # the parts of a mechanism have those of the whole
def _of_one(kind: str, size: float, alpha: float, relation: Relation) -> Mechanism[FloatArray]:
    match kind:
        case "dirichlet":
            return DirichletMechanism(weight=size, alpha=alpha, relation=relation)
        case "gaussian":
            return GaussianMechanism(sigma=size, relation=relation)
        case _:
            return LaplaceMechanism(scale=size, relation=relation)


def _cost(
    mechanism: str, sizes: ArrayLike, alpha: float, relation: Relation
) -> GaussianCost | Together | NoPrivacy:
    each = np.asarray(sizes, np.float64).tolist()
    kinds: Mapping[float, Cost]
    match mechanism:
        case "none":
            return NoPrivacy(relation)
        case "gaussian":
            # Independent Gaussians are one: squared norms of change over squared noise add up.
            whole = float(np.sum(np.asarray(each) ** -2.0) ** -0.5)
            return GaussianCost(sigma=whole * (1 - 1e-14), relation=relation)
        case "laplace":
            kinds = {size: LaplaceCost(scale=size, relation=relation) for size in set(each)}
        case _:
            kinds = {
                size: DirichletCost(weight=size, alpha=alpha, relation=relation)
                for size in set(each)
            }
    return Together([kinds[size] for size in each])


@lru_cache(maxsize=64)
def _noise(
    name: MechanismName, target: Target, factors: tuple[float, ...], relation: Relation
) -> tuple[MechanismName, float]:
    """Return a kind of noise and the size that, times the factors, meets the target.

    Of public facts alone, so that it is remembered: a model is often fitted again and again.
    """
    each = np.array(factors)

    def cost(kind: str, size: float) -> Cost:
        return _cost(kind, size * each, 1.0, relation)

    if name == "gaussian" or (name != "laplace" and not target.missing(cost("gaussian", 1.0))):
        square = largest_square(relation.changes())
        norm = math.sqrt(square * float(np.sum(each**-2.0)))  # in sizes of the noise
        guess = target.gaussian_sigma(norm) if norm else None
        size = _calibrated(target, partial(cost, "gaussian"), rises=False, guess=guess)
        # Laplace noise of the same variance: if it costs too much, it would have to be more.
        if name == "gaussian" or not (
            _may_meet(target, size, each, relation)
            and _meets(target, cost("laplace", size / math.sqrt(2)))
        ):
            return "gaussian", size
    return "laplace", _calibrated(target, partial(cost, "laplace"), rises=False)


def _designed(
    target: Target,
    shapes: tuple[Rows, ...],
    n_records: float,
    factors: FloatArray,
    relation: Relation,
) -> float:
    """Return the prior of least expected divergence, as `privrl.mechanisms.design` has it."""
    kinds = Counter(zip(factors.tolist(), shapes, strict=True))

    def loss(log_alpha: float) -> float:
        alpha = math.exp(log_alpha)
        weight = _dirichlet_weight(target, alpha, factors, relation)
        return sum(
            times * typical_loss(weight / f, alpha, n_records=n_records / rows, n_cells=cells)
            for (f, (rows, cells)), times in kinds.items()
        )

    # There is one best prior between those that admit no weight and those that drown the data.
    bounds = (math.log(max(0.05, relation.convex_from or 0.0)), math.log(1e5))
    found = optimize.minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 0.05})
    return math.exp(float(found.x))


def _dirichlet_weight(
    target: Target, alpha: float, factors: FloatArray, relation: Relation
) -> float:
    """Return the weight that, over the factors, meets the target with a prior."""
    return _calibrated(
        target, lambda weight: _cost("dirichlet", weight / factors, alpha, relation), rises=True
    )


def _calibrated(
    target: Target, cost: Callable[[float], Cost], *, rises: bool, guess: float | None = None
) -> float:
    accountant = _OneByOne if _by_parts(target, cost(1.0)) else None
    return calibrate(target, cost, rises=rises, accountant=accountant, guess=guess, off=1e-9)


def _may_meet(target: Target, sigma: float, factors: FloatArray, relation: Relation) -> bool:
    """Whether Laplace noise of the same variances as sufficient Gaussian noise may meet the target.

    It cannot where its divergence is the larger one: by orders as by sizes of noise it falls below
    the Gaussian's, if at all, as they rise. At the order at which that is epsilon, and where noise
    is least, it must have fallen.
    """
    if not isinstance(target, ApproxDP):
        return True
    whole = _cost("gaussian", sigma * factors, 1.0, relation)
    order, least = 2 * target.epsilon / float(whole.rdp(2.0)), float(sigma * factors.min())
    if order <= 1:
        return True
    laplace = LaplaceCost(scale=least / math.sqrt(2), relation=relation)
    return bool(laplace.rdp(order) < GaussianCost(sigma=least, relation=relation).rdp(order))


def _meets(target: Target, cost: Cost) -> bool:
    if not (_by_parts(target, cost) and isinstance(target, ApproxDP)):
        return target.excess(cost) <= 0
    accountant = _OneByOne()
    accountant.compose(cost)
    return float(accountant.epsilon(target.delta)) <= target.epsilon


def _by_parts(target: Target, cost: Cost) -> bool:
    return isinstance(cost, Together) and isinstance(target, ApproxDP)


class _OneByOne(RdpAccountant):
    """Adds up the Rényi divergences of many parts, whose joint profile would take a minute."""

    def compose(self, cost: Cost, count: int = 1) -> None:
        if not isinstance(cost, Together):
            super().compose(cost, count)
            return
        for part, times in Counter(cost.parts).items():
            super().compose(part, count * times)


def least_noise_shares(shapes: Sequence[Rows]) -> tuple[float, ...]:
    """Return the parts of a budget with which the noise of all cells has the least variance.

    A share ``s`` gives a cell a variance as ``1 / s``: the sum over all cells is least with
    shares as the roots of the tables' numbers of cells.

    Parameters
    ----------
    shapes : sequence of pairs of int
        Rows and cells to a row of each table.

    Returns
    -------
    tuple of float
        One share for each table; they sum to 1 within rounding.
    """
    roots = [math.sqrt(rows * cells) for rows, cells in check_shapes(shapes)]
    return tuple(root / sum(roots) for root in roots)


def check_shapes(shapes: Sequence[Rows]) -> tuple[Rows, ...]:
    """Return the shapes of tables, each of at least one row of at least two cells.

    Raises
    ------
    ValueError
        If not, or if the sequence is empty.
    """
    checked = tuple(
        (check_count("shapes", rows), check_count("shapes", cells, least=2))
        for rows, cells in shapes
    )
    if not checked:
        raise ValueError("shapes must hold the shape of at least one table, got none.")
    return checked


def _factors(shares: ArrayLike | None, n_tables: int) -> FloatArray:
    """Return by how much the noise of each table is larger than with equal shares."""
    if shares is None:
        return np.ones(n_tables)
    parts = np.asarray(shares, np.float64)
    if parts.shape != (n_tables,) or not ((parts > 0) & np.isfinite(parts)).all():
        raise ValueError(f"shares must be {n_tables} numbers > 0 and finite, got {shown(shares)}.")
    return (parts / parts.mean()) ** -0.5
