"""Whether a change of a table of counts is one that a cost covers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from privrl.costs.base import BatchCost, Cost, NoPrivacy
from privrl.costs.choice import ChoiceCost
from privrl.costs.noise import GaussianCost
from privrl.numerics.cells import Cells
from privrl.numerics.special import FloatArray

_ROUNDING = Fraction(1, 10**12)  # relative, of amounts that are no whole numbers


@dataclass(frozen=True)
class Change:
    """By how much one cell of a table changed, exactly.

    Attributes
    ----------
    row : int
        Its place on the first axis.
    amount : Fraction
        The change, other than zero.
    square : Fraction
        What it adds to the squared norm of all changes.
    """

    row: int
    amount: Fraction
    square: Fraction


Tables = FloatArray | Cells | Sequence[FloatArray]


def tables_of(data: Tables) -> list[FloatArray]:
    """Return the tables that went into a release, one or several."""
    if isinstance(data, Cells):
        return [data.table]
    return [data] if isinstance(data, np.ndarray) else list(data)


def changes_between(
    data: Tables,
    neighbour: Tables,
    halved: NDArray[np.bool_] | None = None,
    doubled: NDArray[np.bool_] | None = None,
) -> Iterator[Change]:
    """Yield the changes from one table, or several, to others of the same shapes.

    Parameters
    ----------
    data, neighbour : array or sequence of arrays
        Of finite numbers.
    halved, doubled : array of bool, shape of the last axes, optional
        Where the square of a change counts half or twice, for these cells get more or less noise.
    """
    for before, after in zip(tables_of(data), tables_of(neighbour), strict=True):
        half, twice = (
            np.broadcast_to(False if each is None else each, before.shape)
            for each in (halved, doubled)
        )
        for cell in zip(*np.nonzero(before != after), strict=True):
            amount = Fraction(float(after[cell])) - Fraction(float(before[cell]))
            factor = Fraction(1 + bool(twice[cell]), 1 + bool(half[cell]))
            yield Change(int(cell[0]), amount, factor * amount**2)


def covers(cost: Cost, changes: Sequence[Change]) -> bool:
    """Return whether all that changed is together a change that a cost is about.

    Gaussian noise is held to the norm of a change, and so is a table of `Relation.sum_only` to the
    sum of its sizes; of a choice, each score is held to the sensitivity. For all other releases
    there must be a change vector with an amount of the same sign, as large or larger, for each that
    changed; or, where the relation has ``convex_from``, one over which such a vector can be spread
    (majorisation: the largest k of the amounts together are at most the largest k of the vector,
    for every k).
    """
    if isinstance(cost, NoPrivacy):
        return True  # it claims nothing
    if isinstance(cost, BatchCost):  # each row has data of its own
        rows = {change.row for change in changes}
        return all(covers(cost.rows[i], [c for c in changes if c.row == i]) for i in rows)
    if isinstance(cost, ChoiceCost):
        return all(abs(change.amount) <= Fraction(cost.sensitivity) for change in changes)
    vectors = [
        [Fraction(m) for m in vector]
        for vector in cost.relation.changes(getattr(cost, "table", None))
    ]
    if isinstance(cost, GaussianCost):
        largest = max((sum(m * m for m in vector) for vector in vectors), default=Fraction(0))
        return sum(change.square for change in changes) <= largest * (1 + _ROUNDING)
    if getattr(cost, "table", None) in cost.relation.sum_only:
        most = max((sum(map(abs, vector), Fraction(0)) for vector in vectors), default=Fraction(0))
        return sum(abs(change.amount) for change in changes) <= most * (1 + _ROUNDING)
    spreads = cost.relation.convex_from is not None
    return any(
        all(
            _dominates([sign * m for m in vector], [sign * c.amount for c in changes], spreads)
            for sign in (1, -1)
        )
        for vector in vectors
    )


def _dominates(vector: Sequence[Fraction], amounts: Sequence[Fraction], spreads: bool) -> bool:
    """Return whether the gains among some amounts are covered by those of a change vector."""
    most = sorted((m for m in vector if m > 0), reverse=True)
    gains = sorted((m for m in amounts if m > 0), reverse=True)
    if spreads:
        most = list(accumulate([*most, *[Fraction(0)] * max(0, len(gains) - len(most))]))
        gains = list(accumulate(gains))
    return len(gains) <= len(most) and all(
        gain <= m * (1 + _ROUNDING) for gain, m in zip(gains, most, strict=False)
    )


def listed(changes: Sequence[Change]) -> str:
    """Return a few of the amounts, in words."""
    few = [f"{float(change.amount):+g}" for change in changes[:8]]
    return f"({', '.join(few)}{', ...' if len(changes) > len(few) else ''})"
