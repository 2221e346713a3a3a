"""Costs: the privacy of one use of a mechanism, as immutable data.

A cost knows its own privacy and nothing about accountants. Every accountant can compose, and every
calibration can use, any object with the four members of `Cost`.

A class may also declare two properties, which are never inherited since a subclass may do anything:
that equal costs cost the same, now and later (``fixed``), and how to evaluate many such costs at
once (``bulk_key`` and ``bulk``, see `Bulk`).
"""

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any, ClassVar, Protocol, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privrl.costs.conversion import FARTHEST, best_log_delta
from privrl.costs.relations import Relation, check_relation
from privrl.files.html import InHtml
from privrl.files.shown import shown
from privrl.numerics.checks import as_floats, check_each, check_orders
from privrl.numerics.convolution import POINTS, Pair, product_profile
from privrl.numerics.roots import brentq
from privrl.numerics.special import FloatArray
from privrl.numerics.upwards import FEW, LOG_DELTA, exp_up, product_up, sum_up, two_sum

_ABOVE = 1e-10  # 1: by what rounding upwards may leave a delta there
_COARSE = 256  # points of the grids that find the most expensive products of pairs
_LEVELS = (np.log(1e-20), np.log(1e-80), np.log(1e-300))  # of log delta, resolved in turn


class Cost(Protocol):
    """The privacy of one use of a mechanism, as accountants need it."""

    @property
    def relation(self) -> Relation:
        """The neighbouring relation of the numbers below."""

    def rdp(self, orders: ArrayLike) -> FloatArray:
        """Return the Rényi divergence (nats) at each order > 1, the orders on the last axis."""

    def delta(self, epsilon: ArrayLike) -> FloatArray:
        """Return delta at each epsilon >= 0 (nats)."""

    def epsilon(self, delta: float) -> FloatArray:
        """Return the smallest epsilon (nats) at ``delta``, never rounded down."""


class Bulk(Protocol):
    """A group of costs of one class, relation, table and bound, evaluated at once."""

    def numbers(self, cost: Any) -> tuple[float, ...]:
        """Return the parameters that distinguish one cost of the group from another."""

    def rdp(self, numbers: FloatArray, orders: FloatArray) -> FloatArray:
        """Return their divergences, shape (n, n_orders), from numbers of shape (n, ...)."""

    def at_most(self, cost: Any, order: float) -> float:
        """Return a quick upper bound on the divergence of one of them."""


class InBulk(Cost, Protocol):
    """A cost that can be evaluated at once with others of its group."""

    @property
    def bulk_key(self) -> tuple[object, ...]:
        """The common parameters of a group of this class, apart from the relation."""

    def bulk(self) -> Bulk:
        """Return the evaluation of a group with this key."""


def is_fixed(cost: Cost) -> bool:
    """Whether equal costs cost the same, now and later, as the cost's own class declares."""
    return "fixed" in vars(type(cost)) and bool(cost.fixed)  # type: ignore[attr-defined] # it has


def have_bulk(costs: tuple[Cost, ...]) -> TypeGuard[tuple[InBulk, ...]]:
    """Whether each cost's own class declares how to evaluate many at once, and never changes."""
    return all("bulk" in vars(type(cost)) and is_fixed(cost) for cost in costs)


class PairsCost(InHtml, ABC):
    """The base of costs that are given by products of dominating pairs."""

    sharp_end: ClassVar[bool] = True
    """Whether the largest loss may have mass of its own, which a grid would blur."""

    def dominating_pairs(self) -> "list[Counter[Pair]] | None":
        """Return, for each change vector, the dominating pairs whose product it costs.

        None, unless a subclass says more: only the Rényi divergence is known.
        """
        return None

    @abstractmethod
    def rdp(self, orders: ArrayLike) -> FloatArray:
        """Return the Rényi divergence (nats) at each order > 1; same shape as ``orders``."""

    @np.errstate(under="ignore")  # whatever numpy.seterr says: chances that small are bounded
    def delta(self, epsilon: ArrayLike) -> FloatArray:
        """Return delta at each epsilon >= 0 (nats), never rounded down; same shape."""
        epsilon = np.minimum(check_epsilons(epsilon), FARTHEST)
        return exp_up(self._log_delta()(epsilon)) if epsilon.size else np.empty(epsilon.shape)

    @np.errstate(under="ignore")
    def epsilon(self, delta: float) -> FloatArray:
        """Return the smallest epsilon (nats) at ``delta`` in (0, 1), never rounded down."""
        return smallest_epsilon(self._log_delta(np.log(check_delta(delta))), delta)

    def _log_delta(self, least: float = -np.inf) -> Callable[[FloatArray], FloatArray]:
        """Return log delta as a function of epsilon, resolved down to ``least``."""
        return _log_profile(self, least)


@dataclass(frozen=True)
class NoPrivacy(InHtml):
    """No guarantee: the cost is infinite, so every budget refuses it."""

    relation: Relation

    fixed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_relation(self.relation)

    def rdp(self, orders: ArrayLike) -> FloatArray:
        """Return infinity at each order > 1."""
        return np.full_like(check_orders(orders), np.inf)

    def delta(self, epsilon: ArrayLike) -> FloatArray:
        """Return 1 at each epsilon."""
        return np.ones_like(check_epsilons(epsilon))

    def epsilon(self, delta: float) -> FloatArray:
        """Return infinity."""
        check_delta(delta)
        return np.asarray(np.inf)


@dataclass(frozen=True)
class Together(PairsCost):
    """The cost of several releases of the same data at once: their Rényi divergences add up.

    Made by `together`, which also takes batches. An example is one draw of transitions and rewards,
    each with its own prior and weight. ``delta`` uses the products of the parts' dominating pairs
    where the parts have such pairs.

    Raises
    ------
    ValueError
        If ``parts`` is empty, their relations differ, or one is a `BatchCost`.
    """

    parts: tuple[Cost, ...]

    def __init__(self, parts: Sequence[Cost]) -> None:
        object.__setattr__(self, "parts", tuple(parts))
        _check_one_run("parts", self.parts, "use together()")

    @property
    def relation(self) -> Relation:
        """The relation that all parts share."""
        return self.parts[0].relation

    def rdp(self, orders: ArrayLike) -> FloatArray:
        """Return the sum of the parts' Rényi divergences (nats) at each order > 1."""
        total = lost = np.zeros(np.shape(orders))
        for part, n in _counted(self.parts):
            total, lost = two_sum(total, lost, product_up(n, _rdp_of(part, orders)))
        return sum_up(total, lost)

    def dominating_pairs(self) -> "list[Counter[Pair]] | None":
        """Return the products that the parts' change vectors can combine to."""
        each = [
            part.dominating_pairs() if isinstance(part, PairsCost) else None for part in self.parts
        ]
        known = [options for options in each if options]
        if any(options is None for options in each) or not known:
            return None
        return [sum(choice, Counter()) for choice in product(*known)]

    def _log_delta(self, least: float = -np.inf) -> Callable[[FloatArray], FloatArray]:
        profile = super()._log_delta(least)
        if any(not isinstance(part, PairsCost) or part.sharp_end for part in self.parts):
            return sharpened(profile, self.rdp)
        return profile

    @property
    def fixed(self) -> bool:
        """Whether all parts are fixed."""
        return all(map(is_fixed, self.parts))


@dataclass(frozen=True)
class BatchCost(InHtml):
    """Costs of independent runs, side by side: one leading axis, nothing is added up.

    Raises
    ------
    ValueError
        If ``rows`` is empty, their relations differ, or one is itself a `BatchCost`.
    """

    rows: tuple[Cost, ...]

    def __init__(self, rows: Sequence[Cost]) -> None:
        object.__setattr__(self, "rows", tuple(rows))
        _check_one_run("rows", self.rows, "list its rows")

    @property
    def fixed(self) -> bool:
        """Whether all rows are fixed."""
        return all(map(is_fixed, self.rows))

    @property
    def relation(self) -> Relation:
        """The relation that all rows share."""
        return self.rows[0].relation

    def rdp(self, orders: ArrayLike) -> FloatArray:
        """Return each row's Rényi divergence, shape (n_rows, n_orders)."""
        return np.stack([_rdp_of(row, orders) for row in self.rows])

    def delta(self, epsilon: ArrayLike) -> FloatArray:
        """Return each row's delta, shape ``(n_rows, *epsilon.shape)``."""
        return np.stack([row.delta(epsilon) for row in self.rows])

    def epsilon(self, delta: float) -> FloatArray:
        """Return each row's epsilon, shape (n_rows,)."""
        return np.stack([row.epsilon(delta) for row in self.rows])


def together(parts: Sequence[Cost]) -> Cost:
    """Return the cost of several releases of the same data at once.

    Parameters
    ----------
    parts : sequence of Cost
        All parts share a relation, and each `BatchCost` has the same number of rows; the cost of
        a single release is combined with every row.

    Returns
    -------
    Cost
        The only part, a `Together` of the parts, or a `BatchCost` of such, row by row.

    Raises
    ------
    ValueError
        If parts are no costs, are none, or do not fit each other.
    """
    if isinstance(parts, str) or not isinstance(parts, Sequence):
        raise ValueError(f"parts must be a sequence of costs, got {shown(parts)}.")
    for part in parts:
        check_cost(part)
    if len(parts) == 1:
        return parts[0]
    sizes = {len(part.rows) for part in parts if isinstance(part, BatchCost)}
    if not sizes:
        return Together(parts)
    if len(sizes) > 1:
        raise ValueError(f"batches of costs must have equally many rows, got {sorted(sizes)}.")
    (size,) = sizes
    columns = [p.rows if isinstance(p, BatchCost) else (p,) * size for p in parts]
    return BatchCost([together(row) for row in zip(*columns, strict=True)])


def tables_released(cost: Cost) -> set[str | None]:
    """Return the names of the relation's tables that a cost covers, if it names them."""
    match cost:
        case Together():
            return {name for part in cost.parts for name in tables_released(part)}
        case BatchCost():
            return {name for row in cost.rows for name in tables_released(row)}
    return {cost.table} if hasattr(cost, "table") else set()


def pure_ratio(cost: Cost) -> Fraction | None:
    """Return the epsilon (nats) of pure privacy, with ``delta = 0``; None if a cost lacks one.

    It is exact if the class declares it as ``pure_ratio``; otherwise it is the ``pure_epsilon``.
    """
    if type(cost) is Together:
        return _sum_of(pure_ratio, cost.parts)
    return _stated(cost, "pure_ratio", "pure_epsilon")


def zcdp_rho(cost: Cost) -> Fraction | None:
    """Return a rho with ``rdp(a) <= rho * a`` at every order a > 1; None if none is proven.

    A class declares its own, as ``rho``. A pure epsilon gives ``epsilon² / 2`` (Bun and Steinke,
    2016, Proposition 1.4). The divergences at a grid of orders prove nothing about others.
    """
    if type(cost) is Together:
        return _sum_of(zcdp_rho, cost.parts)
    rho, pure = _stated(cost, "rho"), pure_ratio(cost)
    return rho if rho is not None or pure is None else pure**2 / 2


def _sum_of(number: Callable[[Cost], Fraction | None], parts: Sequence[Cost]) -> Fraction | None:
    """Return the sum of a number over all parts; None if a part lacks it."""
    each = [(number(part), n) for part, n in _counted(parts)]
    known = [n * value for value, n in each if value is not None]
    return sum(known, Fraction(0)) if len(known) == len(each) else None


def _stated(cost: Cost, *names: str) -> Fraction | None:
    """Return the first finite number that a cost's own class declares; subclasses inherit none."""
    for name in names:
        own = is_fixed(cost) or name in vars(type(cost))
        value = getattr(cost, name, math.inf) if own else math.inf
        if 0 <= value < math.inf:
            return Fraction(value)
    return None


def check_cells(relation: Relation, table: str | None, *, or_sums: bool = False) -> None:
    """Check that a relation's vectors list the changes of a table's cells.

    Parameters
    ----------
    relation, table
        The released table; by default the relation's first table.
    or_sums : bool
        Whether a bound on the sum of all changes is enough.

    Raises
    ------
    ValueError
        If they bound the norm or the sum of a change only.
    """
    name = relation.tables[0][0] if table is None else table
    for known, what, noise in (
        (relation.norm_only, "norm", "Gaussian"),
        (frozenset() if or_sums else relation.sum_only, "sum", "Laplace or Gaussian"),
    ):
        if name in known:
            raise ValueError(
                f"table must have change vectors that list cells, got {shown(name)}, for "
                "which "
                f"{str(relation)!r} bounds only the {what} of a change; use {noise} noise."
            )


def check_cost(cost: object) -> None:
    """Check that an argument is a cost, before it is charged."""
    if not (hasattr(cost, "relation") and hasattr(cost, "rdp")):
        raise ValueError(
            "cost must be a cost, such as those of privrl.costs or a mechanism's, got "
            f"{shown(cost)}."
        )


def curve_of(cost: Cost, orders: ArrayLike) -> FloatArray:
    """Return a cost's Rényi divergences at some orders, which it cannot change.

    Raises
    ------
    ValueError
        If they are not numbers >= 0, one for each order on the last axes.
    """
    points = _frozen(orders)
    return check_curve(cost.rdp(points), points)


def check_curve(divergences: ArrayLike, orders: FloatArray) -> FloatArray:
    """Return Rényi divergences; errors as `curve_of`."""
    curve = as_floats("the divergences of a cost", divergences)
    if curve.shape[curve.ndim - orders.ndim :] != orders.shape or not (curve >= 0).all():
        raise ValueError(
            f"cost must give a Rényi divergence >= 0 for each of {orders.size} orders, got "
            f"{shown(curve)}."
        )
    return curve


def epsilon_of(cost: Cost, delta: float) -> FloatArray:
    """Return a cost's epsilon at a delta.

    Raises
    ------
    ValueError
        If it is not of numbers >= 0.
    """
    epsilon = as_floats("the epsilon of a cost", cost.epsilon(delta))
    if not (epsilon >= 0).all():
        raise ValueError(f"cost.epsilon must give a number >= 0, got {shown(epsilon)}.")
    return epsilon


def delta_of(cost: Cost, epsilon: ArrayLike) -> FloatArray:
    """Return a cost's delta at each of some epsilons, which it cannot change.

    Raises
    ------
    ValueError
        If they are not numbers from 0 to 1, one for each epsilon on the last axes.
    """
    points = _frozen(epsilon)
    delta = as_floats("the delta of a cost", cost.delta(points))
    fits = delta.shape[delta.ndim - points.ndim :] == points.shape
    if not fits or not ((delta >= 0) & (delta <= 1 + _ABOVE)).all():
        raise ValueError(
            f"cost.delta must give a number from 0 to 1 for each epsilon, got {shown(delta)}."
        )
    return delta


def _frozen(numbers: ArrayLike) -> NDArray[Any]:
    """Return a copy that no cost can change."""
    points = np.array(numbers)
    points.flags.writeable = False
    return points


def _rdp_of(cost: Cost, orders: ArrayLike) -> FloatArray:
    """Return a part's divergences, checked if its class does not say that it is fixed."""
    return cost.rdp(orders) if is_fixed(cost) else curve_of(cost, orders)


def _counted(parts: Sequence[Cost]) -> list[tuple[Cost, int]]:
    """Return each distinct part with its count.

    A model of many tables repeats one part many times; other parts need not be hashable.
    """
    times = Counter(map(id, parts))
    each = {id(part): part for part in parts}
    return [(each[place], n) for place, n in times.items()]


def check_epsilons(epsilon: ArrayLike) -> FloatArray:
    """Return epsilons as floats if all of them are >= 0 and finite."""
    array = as_floats("epsilon", epsilon)
    return check_each("epsilon", array, (array >= 0) & np.isfinite(array), ">= 0 and finite")


def check_delta(delta: float) -> float:
    """Return delta as a float if it is strictly between 0 and 1."""
    if not isinstance(delta, int | float | np.floating) or not 0 < delta < 1:
        raise ValueError(
            f"delta must be a number > 0 and < 1, got {shown(delta)}; 1e-5 or less is usual."
        )
    return float(delta)


def smallest_epsilon(log_delta: Callable[[FloatArray], FloatArray], delta: float) -> FloatArray:
    """Invert a non-increasing privacy profile, on the safe side.

    Parameters
    ----------
    log_delta : callable
        The logarithm of delta at an array of epsilons >= 0, never rounded down.
    delta : float
        In (0, 1).

    Returns
    -------
    array, shape ()
        The least epsilon >= 0 at which delta is met, from above. Infinite where no finite one
        was found.
    """
    # Lower by more than the rounding of logarithms and exponentials.
    wanted = np.log(check_delta(delta)) - 1e-12

    def excess(epsilon: float) -> float:
        return max(float(log_delta(np.asarray(epsilon))), -1e300) - wanted

    if excess(0.0) <= 0:
        return np.asarray(0.0)
    high = 1e-6
    while excess(high) > 0:
        high *= 4 if high < 1e12 else 1e6
        if high > FARTHEST:
            return np.asarray(np.inf)
    low = high / 4
    while low > 1e-300 and excess(low) <= 0:
        low, high = low / 4, low
    epsilon, margin = float(brentq(excess, low, high, xtol=1e-300, rtol=1e-13)), 2.0**-52
    # At the end of a bounded loss delta falls to nothing within the last digits of epsilon.
    while excess(epsilon) > 0:
        epsilon *= 1 + margin
        margin *= 2
    return np.asarray(epsilon)


def sharpened(
    profile: Callable[[FloatArray], FloatArray], rdp: Callable[[FloatArray], FloatArray]
) -> Callable[[FloatArray], FloatArray]:
    """Return the better of a privacy profile and the conversion of the Rényi divergences.

    A grid blurs the end of a bounded loss, which large orders resolve sharply.
    """
    return lambda epsilon: np.minimum(profile(epsilon), best_log_delta(rdp, epsilon))


def _log_profile(cost: PairsCost, least: float = -np.inf) -> Callable[[FloatArray], FloatArray]:
    """Return log delta as a function of epsilon, resolved down to ``least``."""
    options = cost.dominating_pairs()
    if options is None:
        return partial(best_log_delta, cost.rdp)
    # Products with the largest losses come first; they usually cost most.
    if len(options) > 1 and any(pairs.total() > 1 for pairs in options):
        options = sorted(options, key=_largest_loss, reverse=True)
    profiles = [_product_profile(pairs, least) for pairs in options]

    def log_delta(epsilon: FloatArray) -> FloatArray:
        # Seen from a little below: where losses are large, the last digits of epsilon decide.
        flat = epsilon.ravel() * (1 - FEW)
        worst = np.full_like(flat, -np.inf)
        for pairs, profile in zip(options, profiles, strict=True):
            # A product that is nowhere above the worst so far can stay inexact.
            at = _quick_bound(pairs, flat) > worst if np.isfinite(worst).any() else flat >= 0
            if at.any():
                worst[at] = np.maximum(worst[at], profile(flat[at]))
        return np.minimum(worst + LOG_DELTA, 0.0).reshape(epsilon.shape)

    return log_delta


def _largest_loss(pairs: "Counter[Pair]") -> float:
    """Return an estimate of the largest relevant loss."""
    with np.errstate(all="ignore"):
        return sum(n * pair.loss_range(_LEVELS[0])[1] for pair, n in pairs.items())


def _quick_bound(pairs: "Counter[Pair]", epsilon: FloatArray) -> FloatArray:
    """Return a loose bound on log delta, if a quick one is known."""
    if pairs.total() == 1:
        return np.zeros_like(epsilon)
    return product_profile(frozenset(pairs.items()), _LEVELS[0], _COARSE).log_delta(epsilon)


def _product_profile(pairs: "Counter[Pair]", least: float) -> Callable[[FloatArray], FloatArray]:
    if pairs.total() == 1:
        return next(iter(pairs)).log_delta

    def log_delta(epsilon: FloatArray) -> FloatArray:
        # Coarse and quick first; a value stands once it is above the level that its grid
        # resolves, so it depends neither on ``least`` nor on the other epsilons.
        value = np.zeros_like(epsilon)
        unresolved = np.ones(epsilon.shape, np.bool)
        for level in _LEVELS:
            profile = product_profile(frozenset(pairs.items()), level, POINTS)
            finer = profile.log_delta(epsilon[unresolved])
            value[unresolved] = np.minimum(value[unresolved], finer)
            unresolved &= value < level
            if level <= least or not unresolved.any():
                break
        return value

    return log_delta


def _check_one_run(name: str, costs: tuple[Cost, ...], otherwise: str) -> None:
    if not costs:
        raise ValueError(f"{name} must hold at least one cost, got none.")
    for cost in costs:
        check_cost(cost)
    for cost in costs[1:]:
        if cost.relation != costs[0].relation:
            raise ValueError(
                f"{name} must share one neighbouring relation, got "
                f"{str(costs[0].relation)!r} and {str(cost.relation)!r}."
            )
    if any(isinstance(cost, BatchCost) for cost in costs):
        raise ValueError(f"{name} must be costs of one run each, got a BatchCost; {otherwise}.")
