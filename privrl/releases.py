"""Releases: what one use of a mechanism costs, as immutable data.

A release knows its own privacy and nothing of who accounts for it. Whatever has the four
members of `Release` can be composed by every accountant and met by every calibration.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Literal, Protocol, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from privrl._checks import check_between, check_orders
from privrl._upwards import DIVERGENCE, FEW, LOG_DELTA, exp_up, outward, product_up, sum_up, two_sum
from privrl.conversion import FARTHEST, best_log_delta
from privrl.convolution import Pair, product_profile
from privrl.curves import BOUNDS
from privrl.profiles import Factor, Shape, changes_rdp
from privrl.relations import ChangeVector, Relation
from privrl.special import FloatArray

Bound = Literal["exact", "dps", "dkl", "geumlek"]
_DOMAIN = (1e-30, 1e30)  # of scale and prior: where nothing under- or overflows
_LEVELS = (np.log(1e-20), np.log(1e-80), np.log(1e-300))  # of log delta, resolved in turn


class Release(Protocol):
    """What an accountant needs to know about one use of a mechanism."""

    @property
    def relation(self) -> Relation:
        """The neighbouring relation that the numbers below are about."""

    def rdp(self, orders: ArrayLike) -> FloatArray:
        """Return the Rényi divergence (nats) at each order > 1, the orders on the last axis."""

    def delta(self, epsilon: ArrayLike) -> FloatArray:
        """Return delta at each epsilon >= 0 (nats)."""

    def epsilon(self, delta: float) -> FloatArray:
        """Return the smallest epsilon (nats) at ``delta``, never rounded down."""


class PairsRelease(ABC):
    """What releases share whose cost is that of products of dominating pairs."""

    @abstractmethod
    def dominating_pairs(self) -> "list[Counter[Pair]] | None":
        """Return, for each change vector, the dominating pairs whose product it costs.

        None where all that is known is the Rényi divergence.
        """

    @abstractmethod
    def rdp(self, orders: ArrayLike) -> FloatArray:
        """Return the Rényi divergence (nats) at each order > 1; same shape as ``orders``."""

    def delta(self, epsilon: ArrayLike) -> FloatArray:
        """Return delta at each epsilon >= 0 (nats), never rounded down; same shape."""
        return exp_up(self._log_delta()(np.minimum(check_epsilons(epsilon), FARTHEST)))

    def epsilon(self, delta: float) -> FloatArray:
        """Return the smallest epsilon (nats) at ``delta`` in (0, 1), never rounded down."""
        return smallest_epsilon(self._log_delta(np.log(check_delta(delta))), delta)

    def _log_delta(self, least: float = -np.inf) -> Callable[[FloatArray], FloatArray]:
        """Return log delta as a function of epsilon, resolved down to ``least``."""
        return _log_profile(self, least)


@dataclass(frozen=True, kw_only=True)
class DirichletRelease(PairsRelease):
    """One draw ``y ~ Dirichlet(scale * counts + alpha)`` of every row of a table.

    Parameters
    ----------
    scale : float
        What the counts are multiplied by, > 0; smaller is more private.
    alpha : float
        The smallest prior pseudo-count of any cell, > 0; larger is more private.
    relation : Relation
        Which data sets are neighbours.
    table : str, optional
        The relation's table that is released; by default its first.
    bound : {"exact", "dps", "dkl", "geumlek"}
        ``"exact"`` is the divergence itself, attained by some pair of neighbours. The others
        are the papers' looser bounds, for comparison with them: see `privrl.curves`.

    Raises
    ------
    ValueError
        If a number is not between 1e-30 and 1e30, a name is unknown, or the prior is smaller
        than the relation allows.

    Notes
    -----
    Exact means: the supremum, over all pairs of neighbouring tables of any size, of the
    divergence between the two laws of the released table. See `privrl.profiles` for the
    dominating pairs. ``delta`` is exact too where each change vector is one cell or a pair
    ``(+m, -m)``; for longer vectors it is an upper bound by convolution, about
    2e-4 of epsilon away (`privrl.convolution`). Under a relation that is sound in Rényi
    divergence only (`ReplaceEpisode`), and for the papers' bounds, it follows from ``rdp``.
    """

    scale: float
    alpha: float
    relation: Relation
    table: str | None = None
    bound: Bound = "exact"

    def __post_init__(self) -> None:
        scale = check_between("scale", self.scale, *_DOMAIN, "larger means less noise")
        alpha = check_between("alpha", self.alpha, *_DOMAIN, "larger means more privacy")
        object.__setattr__(self, "scale", scale)
        object.__setattr__(self, "alpha", alpha)
        if not isinstance(self.relation, Relation):
            raise ValueError(
                f"relation must be a Relation such as ReplaceRecord(), got {self.relation!r}."
            )
        if self.bound not in get_args(Bound):
            raise ValueError(
                f"bound must be one of {', '.join(map(repr, get_args(Bound)))}, got {self.bound!r}."
            )
        check_cells(self.relation, self.table)
        changes = self.relation.changes(self.table)
        least = self.relation.convex_from
        if changes and least is not None and self.alpha < least:
            raise ValueError(
                f"alpha must be >= {least:g} for the relation {str(self.relation)!r}, got "
                f"{self.alpha!r}; below, the change vectors it lists are not the worst ones."
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
        flat = dirichlet_rdp(self.changes, self.bound, self.scale, self.alpha, orders.ravel())
        return flat.reshape(orders.shape)

    def dominating_pairs(self) -> "list[Counter[Pair]] | None":
        """Return, for each change vector, the dominating pairs whose product it costs.

        None where the relation or the bound speaks of Rényi divergence only.
        """
        if self.bound != "exact" or self.relation.convex_from is not None:
            return None
        return [self._pairs(vector) for vector in self.changes]

    def _pairs(self, vector: ChangeVector) -> "Counter[Pair]":
        """Group a change vector into independent dominating pairs, with multiplicity."""
        up = Counter(m for m in vector if m > 0)
        down = Counter(-m for m in vector if m < 0)
        grouped = {Shape.PAIR: up & down, Shape.UP: up - down, Shape.DOWN: down - up}
        pairs: Counter[Pair] = Counter()
        for shape, amounts in grouped.items():
            for amount, times in amounts.items():
                pairs[Factor(shape, self.alpha, amount * self.scale)] += times
        return pairs


def dirichlet_rdp(
    changes: Sequence[ChangeVector],
    bound: Bound,
    scale: ArrayLike,
    alpha: ArrayLike,
    orders: FloatArray,
) -> FloatArray:
    """Return the Rényi divergence of one Dirichlet release, or of several.

    Parameters
    ----------
    changes : sequence of change vectors
        What neighbours may change.
    bound : {"exact", "dps", "dkl", "geumlek"}
        As for `DirichletRelease`.
    scale, alpha : array_like, shape (...,)
        Of the releases.
    orders : array, shape (n_orders,)
        Rényi orders > 1.

    Returns
    -------
    array, shape (..., n_orders)
        In nats.
    """
    if bound == "exact":
        return changes_rdp(changes, scale, alpha, orders)
    scale, alpha = np.broadcast_arrays(scale, alpha)
    worst = np.zeros((*scale.shape, len(orders)))
    for vector in changes:
        cost = BOUNDS[bound](vector, scale[..., None], alpha[..., None], orders)
        worst = np.maximum(worst, cost)
    return outward(worst, DIVERGENCE)


@dataclass(frozen=True)
class NoPrivacy:
    """A release without any guarantee: its cost is infinite, so every budget refuses it."""

    relation: Relation

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
class Together(PairsRelease):
    """Several releases of the same data made at once: their Rényi divergences add up.

    Made by `together`, which also takes batches. For the transitions and rewards of one draw,
    say, each with a prior and scale of its own. ``delta`` is computed like that of one
    `DirichletRelease` where the parts are such.

    Raises
    ------
    ValueError
        If there is none, their relations differ, or one is a `BatchRelease`.
    """

    parts: tuple[Release, ...]

    def __init__(self, parts: Sequence[Release]) -> None:
        object.__setattr__(self, "parts", tuple(parts))
        _common_relation(self.parts)
        if any(isinstance(part, BatchRelease) for part in self.parts):
            raise ValueError("parts must be single releases, got a BatchRelease; use together().")

    @property
    def relation(self) -> Relation:
        """The relation that all parts share."""
        return self.parts[0].relation

    def rdp(self, orders: ArrayLike) -> FloatArray:
        """Return the sum of the parts' Rényi divergences (nats) at each order > 1."""
        # A model of many tables has one part many times; others need not be hashable.
        times = Counter(map(id, self.parts))
        each = {id(part): part for part in self.parts}
        total = lost = np.zeros(np.shape(orders))
        for place, n in times.items():
            total, lost = two_sum(total, lost, product_up(n, each[place].rdp(orders)))
        return sum_up(total, lost)

    def dominating_pairs(self) -> "list[Counter[Pair]] | None":
        """Return the products that the parts' change vectors can combine to."""
        each = [
            part.dominating_pairs() if isinstance(part, PairsRelease) else None
            for part in self.parts
        ]
        known = [options for options in each if options]
        if any(options is None for options in each) or not known:
            return None
        return [sum(choice, Counter()) for choice in product(*known)]

    def _log_delta(self, least: float = -np.inf) -> Callable[[FloatArray], FloatArray]:
        profile = super()._log_delta(least)
        if all(isinstance(part, DirichletRelease) for part in self.parts):
            return profile
        return sharpened(profile, self.rdp)


@dataclass(frozen=True)
class BatchRelease:
    """Releases of independent runs, side by side: one leading axis, nothing is added up.

    Raises
    ------
    ValueError
        If there is none, or their relations differ.
    """

    rows: tuple[Release, ...]

    def __init__(self, rows: Sequence[Release]) -> None:
        object.__setattr__(self, "rows", tuple(rows))
        _common_relation(self.rows)

    @property
    def relation(self) -> Relation:
        """The relation that all rows share."""
        return self.rows[0].relation

    def rdp(self, orders: ArrayLike) -> FloatArray:
        """Return each row's Rényi divergence, shape (n_rows, n_orders)."""
        return np.stack([row.rdp(orders) for row in self.rows])

    def delta(self, epsilon: ArrayLike) -> FloatArray:
        """Return each row's delta, shape (n_rows, *epsilon.shape)."""
        return np.stack([row.delta(epsilon) for row in self.rows])

    def epsilon(self, delta: float) -> FloatArray:
        """Return each row's epsilon, shape (n_rows,)."""
        return np.stack([row.epsilon(delta) for row in self.rows])


def together(parts: Sequence[Release]) -> Release:
    """Return what several releases of the same data cost when made at once.

    Parameters
    ----------
    parts : sequence of Release
        Their relations agree, and so do the numbers of rows of those that are a
        `BatchRelease`; a single release goes with every row.

    Returns
    -------
    Release
        The only part, a `Together` of the parts, or a `BatchRelease` of such, row by row.
    """
    if len(parts) == 1:
        return parts[0]
    sizes = {len(part.rows) for part in parts if isinstance(part, BatchRelease)}
    if not sizes:
        return Together(parts)
    if len(sizes) > 1:
        raise ValueError(f"batches of releases must have equally many rows, got {sorted(sizes)}.")
    (size,) = sizes
    columns = [p.rows if isinstance(p, BatchRelease) else (p,) * size for p in parts]
    return BatchRelease([together(row) for row in zip(*columns, strict=True)])


def tables_released(release: Release) -> set[str | None]:
    """Return the names of the relation's tables that a release is about, where it says so."""
    match release:
        case Together():
            return {name for part in release.parts for name in tables_released(part)}
        case BatchRelease():
            return {name for row in release.rows for name in tables_released(row)}
    return {release.table} if hasattr(release, "table") else set()


def check_cells(relation: Relation, table: str | None) -> None:
    """Check that a relation's vectors say by how much the cells of a table change.

    Raises
    ------
    ValueError
        If they bound the norm of a change only.
    """
    if table in relation.norm_only:
        raise ValueError(
            f"table must be one whose change vectors are about cells, got {table!r}, of which "
            f"{str(relation)!r} knows the norm of a change only; it is for Gaussian noise."
        )


def check_epsilons(epsilon: ArrayLike) -> FloatArray:
    """Return epsilons as floats if all of them are >= 0 and finite."""
    array = np.asarray(epsilon, np.float64)
    wrong = array[~((array >= 0) & np.isfinite(array))]
    if wrong.size:
        raise ValueError(f"epsilon must be >= 0 and finite, got {wrong.flat[0]!s}.")
    return array


def check_delta(delta: float) -> float:
    """Return delta as a float if it lies strictly between 0 and 1."""
    if not isinstance(delta, int | float | np.floating) or not 0 < delta < 1:
        raise ValueError(
            f"delta must be a number > 0 and < 1, got {delta!r}; 1e-5 or less is usual."
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
    # Lower by more than logarithms and exponentials round away.
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
    """Return the better of a privacy profile and of what the Rényi divergences say.

    A grid blurs the end of a bounded loss, which large orders see sharply.
    """
    return lambda epsilon: np.minimum(profile(epsilon), best_log_delta(rdp, epsilon))


def _log_profile(
    release: PairsRelease, least: float = -np.inf
) -> Callable[[FloatArray], FloatArray]:
    """Return log delta as a function of epsilon, resolved down to ``least``."""
    options = release.dominating_pairs()
    if options is None:
        return partial(best_log_delta, release.rdp)
    profiles = [_product_profile(pairs, least) for pairs in options]

    def log_delta(epsilon: FloatArray) -> FloatArray:
        # Seen from a little below: where losses are large, the last digits of epsilon decide.
        epsilon = epsilon * (1 - FEW)
        worst = np.full_like(epsilon, -np.inf)
        for profile in profiles:
            worst = np.maximum(worst, profile(epsilon))
        return np.minimum(worst + LOG_DELTA, 0.0)

    return log_delta


def _product_profile(pairs: "Counter[Pair]", least: float) -> Callable[[FloatArray], FloatArray]:
    if pairs.total() == 1:
        return next(iter(pairs)).log_delta

    def log_delta(epsilon: FloatArray) -> FloatArray:
        # Coarse and quick first; a value stands once it is above the level that its grid
        # resolves, so it depends neither on ``least`` nor on the other epsilons.
        value = np.zeros_like(epsilon)
        unresolved = np.ones(epsilon.shape, np.bool)
        for level in _LEVELS:
            profile = product_profile(frozenset(pairs.items()), level)
            finer = profile.log_delta(epsilon[unresolved])
            value[unresolved] = np.minimum(value[unresolved], finer)
            unresolved &= value < level
            if level <= least or not unresolved.any():
                break
        return value

    return log_delta


def _common_relation(releases: tuple[Release, ...]) -> None:
    if not releases:
        raise ValueError("releases must hold at least one release, got none.")
    for release in releases[1:]:
        if release.relation != releases[0].relation:
            raise ValueError(
                "releases must share one neighbouring relation, got "
                f"{str(releases[0].relation)!r} and {str(release.relation)!r}."
            )
