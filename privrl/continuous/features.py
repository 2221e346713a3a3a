"""Features of a state and an action: products of one-dimensional functions with public ranges."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from privrl.continuous.schema import Choice, Column, ContinuousSchema, Number
from privrl.files.fixed import FixedArrays, own_arrays
from privrl.numerics.checks import check_count
from privrl.numerics.typing import FloatArray, IntArray

Factor = tuple[int, int]  # a variable, and which of its functions
_MOST: Final = 20_000  # features
_MOST_ORDER: Final = 64


@dataclass(frozen=True, eq=False)
class Basis(FixedArrays):
    """Products of Chebyshev polynomials, sines and cosines, and indicators of categories.

    Each variable has functions of degree 1, 2, ...: Chebyshev polynomials on the range of a
    number, sine and cosine of multiples of an angle, and indicators of a category, all of degree 1.
    A product is a feature if the product of ``degree + 1`` over its factors is at most ``order``
    (a hyperbolic cross). So ``order = 6`` has polynomials of degree 5 of one variable, and products
    of three variables of degree 1 need 8. Features are divided by the root of their number, so the
    Euclidean norm of all of them is at most 1.

    Parameters
    ----------
    schema : ContinuousSchema
        The public ranges.
    order : int
        Of the cross, >= 2.
    action_order : int
        The same for features that an action takes part in, at most ``order``.
    with_actions : bool
        Whether actions are variables.

    Raises
    ------
    ValueError
        If ``order`` is above 64, or there would be more than 20,000 features.
    """

    schema: ContinuousSchema
    order: int
    action_order: int
    with_actions: bool = True
    factors: tuple[tuple[Factor, ...], ...] = field(init=False)
    degrees: IntArray = field(init=False)

    def __post_init__(self) -> None:
        orders = {"order": check_count("order", self.order, 2, _MOST_ORDER)}
        orders["action_order"] = check_count("action_order", self.action_order, 2)
        for name, order in orders.items():  # as whole numbers that files hold
            object.__setattr__(self, name, order)
        features = _cross(self._variables, self.schema.n_state, self.order, self.action_order)
        object.__setattr__(self, "factors", tuple(factors for factors, _ in features))
        object.__setattr__(self, "degrees", np.array([degree for _, degree in features]))
        own_arrays(self, "degrees")

    @property
    def _variables(self) -> list[Column]:
        actions = list(self.schema.action.values()) if self.with_actions else []
        return [*self.schema.state.values(), *actions]

    def __len__(self) -> int:
        return len(self.factors)

    def __call__(self, state: FloatArray, action: FloatArray | None = None) -> FloatArray:
        """Return features, shape (N, len), of states (N, n_state) and actions (N, n_columns)."""
        values = state if action is None else np.concatenate([state, action], axis=1)
        highest: dict[int, int] = {}
        for factors in self.factors:
            for variable, place in factors:
                highest[variable] = max(highest.get(variable, 0), place)
        tables = [
            _functions(column, values[:, i], highest.get(i, -1))
            for i, column in enumerate(self._variables)
        ]
        out = np.full((len(self.factors), len(values)), 1 / math.sqrt(len(self.factors)))
        for k, factors in enumerate(self.factors):
            for variable, place in factors:
                out[k] *= tables[variable][place]
        return np.ascontiguousarray(out.T)


def _n_functions(column: Column, degree: int) -> int:
    """Return how many functions of one degree a variable has."""
    if isinstance(column, Choice):
        n = len(column.values)
        return (1 if n == 2 else n) if degree == 1 else 0
    return 2 if column.periodic else 1


def _functions(column: Column, values: FloatArray, last: int) -> list[FloatArray]:
    """Return functions of a variable, each between -1 and 1, up to a place in the list."""
    found: list[FloatArray] = []
    if isinstance(column, Choice):
        n = len(column.values)
        if n == 2:
            return [2 * values - 1]
        return [(values == k).astype(np.float64) for k in range(n)]
    assert isinstance(column, Number)
    scaled = (values - column.low) / column.width
    if column.periodic:
        angle = 2 * math.pi * scaled
        cos, sin = np.cos(angle), np.sin(angle)
        found = [cos, sin]
        while len(found) <= last:  # of sums of angles
            before_cos, before_sin = found[-2:]
            found += [before_cos * cos - before_sin * sin, before_sin * cos + before_cos * sin]
        return found
    linear = np.clip(2 * scaled - 1, -1, 1)
    found = [linear]
    while len(found) <= last:  # Chebyshev's recurrence
        two_before = found[-2] if len(found) > 1 else 1.0
        found.append(2 * linear * found[-1] - two_before)
    return found


def _cross(
    variables: Sequence[Column], n_state: int, order: int, action_order: int
) -> list[tuple[tuple[Factor, ...], int]]:
    features: list[tuple[tuple[Factor, ...], int]] = []

    def grow(first: int, factors: tuple[Factor, ...], size: int, degree: int, limit: int) -> None:
        if len(features) >= _MOST:
            raise ValueError(
                f"schema must have fewer columns, or order be lower: of order {order} there are "
                f"more than {_MOST} features."
            )
        features.append((factors, degree))
        for variable in range(first, len(variables)):
            most = min(limit, action_order) if variable >= n_state else limit
            place, power = 0, 1
            while size * (power + 1) <= most:
                count = _n_functions(variables[variable], power)
                if variable >= n_state and power > 1:
                    count = 0  # an action enters linearly
                for k in range(count):
                    added = (*factors, (variable, place + k))
                    grow(variable + 1, added, size * (power + 1), degree + power, most)
                place, power = place + count, power + 1
                if not count:
                    break

    grow(0, (), 1, 0, order)
    features.sort(key=lambda feature: feature[1])
    return features
