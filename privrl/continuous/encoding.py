"""Targets of each row of a log, and public points to evaluate features at."""

import math
from typing import Final

import numpy as np

from privrl.continuous.features import Basis
from privrl.continuous.log import ContinuousLog
from privrl.continuous.schema import Choice, ContinuousSchema, Number
from privrl.numerics.typing import BoolArray, FloatArray, IntArray

_MOST_SPAN: Final = 60  # features up to which a span is found: it takes d^6 operations


def target_units(schema: ContinuousSchema) -> FloatArray:
    """Return the public size of each target of `targets`."""
    units: list[float] = []
    for column in schema.state.values():
        units += [column.width] if isinstance(column, Number) else [1.0] * len(column.values)
    if schema.reward is not None:
        units.append(schema.reward.width)
    return np.array(units)


def target_kinds(schema: ContinuousSchema) -> BoolArray:
    """Return whether each target of `targets` is a number, and not the chance of a category."""
    kinds: list[bool] = []
    for column in schema.state.values():
        kinds += [True] if isinstance(column, Number) else [False] * len(column.values)
    return np.array(kinds + [True] * (schema.reward is not None))


def targets(log: ContinuousLog) -> FloatArray:
    """Return the targets of each row: changes of numbers, next categories, rewards."""
    found: list[FloatArray] = []
    for i, column in enumerate(log.schema.state.values()):
        before, after = log.state[:, i], log.next_state[:, i]
        if isinstance(column, Choice):
            found += [(after == k).astype(np.float64) for k in range(len(column.values))]
        elif column.periodic:
            found.append((after - before + column.width / 2) % column.width - column.width / 2)
        else:
            found.append(after - before)
    if log.reward is not None:
        found.append(log.reward)
    return np.stack(found, axis=1)


def encoder(schema: ContinuousSchema) -> Basis:
    """Return features of a state alone, of degree 1."""
    return _Linear(schema, 2, 2, with_actions=False)


class _Linear(Basis):
    """Features of degree 1 without the constant."""

    def __call__(self, state: FloatArray, action: FloatArray | None = None) -> FloatArray:
        return super().__call__(state)[:, 1:] * math.sqrt(len(self))


def bins_of(column: Number, values: FloatArray, bins: int) -> IntArray:
    """Return the bin of each value; a column's range has ``bins`` equal bins."""
    place = ((values - column.low) / column.width * bins).astype(np.intp)
    return np.clip(place, 0, bins - 1)


def numbers_of(schema: ContinuousSchema) -> list[tuple[int, Number]]:
    """Return the numeric columns of a state and their places."""
    columns = enumerate(schema.state.values())
    return [(i, column) for i, column in columns if isinstance(column, Number)]


def public_points(schema: ContinuousSchema, n: int) -> tuple[FloatArray, FloatArray]:
    """Return ``n`` states and actions, evenly at random in the public ranges."""
    rng = np.random.default_rng(0)
    columns = [
        rng.uniform(c.low, c.high, n)
        if isinstance(c, Number)
        else rng.integers(len(c.values), size=n).astype(np.float64)
        for c in schema.state.values()
    ]
    return np.stack(columns, axis=1), schema.levels[rng.integers(schema.n_actions, size=n)]


def gram_span(basis: Basis) -> FloatArray | None:
    """Return linearly independent matrices that span all ``phi phi^T``, shape (k, d, d).

    Found at public points: twice as many as a Gram matrix has entries. None if there are too many
    features.
    """
    d = len(basis)
    if d > _MOST_SPAN:
        return None
    rows = basis(*public_points(basis.schema, d * (d + 1))) * math.sqrt(d)
    upper = np.triu_indices(d)
    weight = np.where(upper[0] == upper[1], 1.0, math.sqrt(2))
    outer = rows[:, upper[0]] * rows[:, upper[1]] * weight
    values, vectors = np.linalg.eigh(outer.T @ outer)
    kept = vectors[:, values > 1e-12 * values[-1]].T / weight
    span = np.zeros((len(kept), d, d))
    span[:, upper[0], upper[1]] = kept
    span[:, upper[1], upper[0]] = kept
    return span
