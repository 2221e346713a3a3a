"""Plans for continuous states: value iteration on a grid, or by features in many dimensions.

A model predicts where a step leads, and how unsure that is. Planning is pessimistic: the value of
an action is lowered by ``caution`` times the deviation of the next state's value that the
uncertainty of the prediction causes, to first order in the value's slope. Wrong predictions that
happen to look good are worth less then.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

import numpy as np

from privrl.continuous.encoding import public_points
from privrl.continuous.features import Basis
from privrl.continuous.schema import Choice, Column, ContinuousSchema, Number
from privrl.numerics.typing import BoolArray, FloatArray, IntArray

Predict = Callable[[FloatArray, FloatArray], "Predicted"]
"""From states and actions, shapes (N, n_state) and (N, n_columns), to what follows."""
Reward = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]
"""From states, actions and next states, not clipped to their ranges, to rewards, shape (N,)."""
Ends = Callable[[FloatArray], BoolArray]
"""From next states, not clipped, to whether an episode terminates there, shape (N,)."""

MOST_ON_GRID: Final = 5  # numeric dimensions
_POINTS: Final = {0: 1, 1: 201, 2: 61, 3: 31, 4: 15, 5: 9}  # of a grid, by numeric dimensions
_SWEEPS: Final = 2000
_RENEWED: Final = 40  # sweeps after which slopes are renewed
_SAMPLES: Final = 20_000  # states that a fit by features uses


@dataclass(frozen=True, eq=False)
class Predicted:
    """Predictions for states and actions.

    Attributes
    ----------
    state : array, shape (N, n_state)
        The expected next state, within the ranges; of a category the likeliest.
    chances : array, shape (N, k), for each categorical column, by its number
    deviation : array, shape (N, n_state)
        How unsure the numbers are.
    reward : array, shape (N,)
        The expected reward.
    ends : array, shape (N,)
        The probability that the episode terminates.
    """

    state: FloatArray
    chances: dict[int, FloatArray]
    deviation: FloatArray
    reward: FloatArray
    ends: FloatArray


@dataclass(frozen=True, eq=False)
class Grid:
    """A grid over the public ranges, with multilinear interpolation between its points."""

    schema: ContinuousSchema
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, schema: ContinuousSchema) -> "Grid":
        """Return the grid whose size follows from the number of dimensions."""
        columns = list(schema.state.values())
        n = _POINTS[sum(isinstance(c, Number) for c in columns)]
        return cls(schema, tuple(len(c.values) if isinstance(c, Choice) else n for c in columns))

    @property
    def _columns(self) -> list[Column]:
        return list(self.schema.state.values())

    def points(self) -> FloatArray:
        """Return all points, shape (n, n_state), the last column fastest."""
        axes = [
            np.arange(float(n)) if isinstance(c, Choice) else np.linspace(c.low, c.high, n)
            for c, n in zip(self._columns, self.sizes, strict=True)
        ]
        return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))

    def corners(
        self, states: FloatArray, chances: dict[int, FloatArray]
    ) -> tuple[IntArray, FloatArray]:
        """Return points around states and their weights, shapes (N, k), which sum to 1."""
        places: list[IntArray] = []
        weights: list[FloatArray] = []
        for i, (column, n) in enumerate(zip(self._columns, self.sizes, strict=True)):
            if isinstance(column, Choice):
                rows = len(states)
                places.append(np.broadcast_to(np.arange(n), (rows, n)))
                weights.append(chances[i] if i in chances else np.eye(n)[states[:, i].astype(int)])
            else:
                at = (states[:, i] - column.low) / column.width * (n - 1)
                base = np.clip(at.astype(np.intp), 0, n - 2)
                places.append(np.stack([base, base + 1], axis=1))
                weights.append(np.stack([1 - (at - base), at - base], axis=1))
        index, weight = np.zeros((len(states), 1), np.intp), np.ones((len(states), 1))
        for n, place, part in zip(self.sizes, places, weights, strict=True):
            index = (index[:, :, None] * n + place[:, None, :]).reshape(len(states), -1)
            weight = (weight[:, :, None] * part[:, None, :]).reshape(len(states), -1)
        return index, weight

    def slopes(self, values: FloatArray) -> FloatArray:
        """Return the slope of values along each numeric column, shape (n_state, n); else 0."""
        table = values.reshape(self.sizes)
        found = np.zeros((len(self.sizes), values.size))
        for i, (column, n) in enumerate(zip(self._columns, self.sizes, strict=True)):
            if isinstance(column, Number):
                found[i] = np.gradient(table, column.width / (n - 1), axis=i).reshape(-1)
        return found


def plan_on_grid(
    predict: Predict,
    schema: ContinuousSchema,
    *,
    discount: float,
    caution: float,
    horizon: int,
) -> FloatArray:
    """Return the value of each point of `Grid.of`, by value iteration.

    Parameters
    ----------
    predict : callable
        The model.
    schema : ContinuousSchema
        At most `MOST_ON_GRID` numeric columns of states.
    discount : float
        In (0, 1].
    caution : float
        Deviations of the model's error by which values are lowered, >= 0.
    horizon : int
        Steps after which nothing is earned.
    """
    grid = Grid.of(schema)
    points = grid.points()
    sparse: Any = import_module("scipy.sparse")
    n = len(points)
    rewards, keeps, moves, unsure = [], [], [], []
    for action in schema.levels:
        after = predict(points, np.broadcast_to(action, (n, len(action))))
        index, weight = grid.corners(after.state, after.chances)
        starts = np.arange(0, index.size + 1, index.shape[1])
        moves.append(sparse.csr_matrix((weight.ravel(), index.ravel(), starts), shape=(n, n)))
        rewards.append(after.reward)
        keeps.append(discount * (1 - after.ends))
        unsure.append(after.deviation)
    values, penalties = np.zeros(n), [np.zeros(n)] * len(moves)
    for sweep in range(min(horizon, _SWEEPS)):
        if caution and sweep % _RENEWED == _RENEWED - 1:
            penalties = [
                caution * keep * _unsure_value(grid, values, move, deviation)
                for keep, move, deviation in zip(keeps, moves, unsure, strict=True)
            ]
        new = np.max(
            [
                r + keep * (move @ values) - penalty
                for r, keep, move, penalty in zip(rewards, keeps, moves, penalties, strict=True)
            ],
            axis=0,
        )
        change, values = float(np.abs(new - values).max()), new
        if change < 1e-4 * (1 + float(np.abs(values).max())) * (1 - min(discount, 0.999)):
            break
    return values


def _unsure_value(grid: Grid, values: FloatArray, move: Any, deviation: FloatArray) -> FloatArray:
    slopes = grid.slopes(values)
    squares = sum(
        (move @ slope * deviation[:, i]) ** 2 for i, slope in enumerate(slopes) if slope.any()
    )
    return np.sqrt(squares)


def worth_on_grid(
    predict: Predict,
    schema: ContinuousSchema,
    values: FloatArray,
    *,
    discount: float,
    caution: float,
) -> FloatArray:
    """Return what each action is worth in each point of `Grid.of`, shape (n, n_actions)."""
    grid = Grid.of(schema)
    points, slopes = grid.points(), grid.slopes(values)
    worth = np.empty((len(points), schema.n_actions))
    for k, action in enumerate(schema.levels):
        after = predict(points, np.broadcast_to(action, (len(points), len(action))))
        index, weight = grid.corners(after.state, after.chances)
        ahead = (weight * values[index]).sum(axis=1)
        if caution:
            steep = np.stack([(weight * s[index]).sum(axis=1) for s in slopes], axis=1)
            ahead -= caution * np.sqrt(((steep * after.deviation) ** 2).sum(axis=1))
        worth[:, k] = after.reward + discount * (1 - after.ends) * ahead
    return worth


def plan_by_features(
    predict: Predict, schema: ContinuousSchema, basis: Basis, *, discount: float, sweeps: int = 100
) -> FloatArray:
    """Return weights of each action's worth, shape (d, n_actions), by fitted Q iteration.

    On public states, even in the inner half of each range: far out, most steps end at a bound. The
    worth of an action is linear in ``basis``, and clipped to what rewards allow.
    """
    state, _ = public_points(schema, _SAMPLES)
    for i, column in enumerate(schema.state.values()):
        if isinstance(column, Number) and not column.periodic:
            state[:, i] = (state[:, i] + (column.low + column.high) / 2) / 2
    features = basis(state)
    ridge = features.T @ features + 1e-6 * np.eye(len(basis)) * len(state) / len(basis)
    solve = np.linalg.solve(ridge, features.T)
    steps = []
    for action in schema.levels:
        after = predict(state, np.broadcast_to(action, (len(state), len(action))))
        steps.append((after.reward, discount * (1 - after.ends), basis(after.state)))
    low = min(float(reward.min()) for reward, _, _ in steps) / max(1 - discount, 1e-3)
    high = max(float(reward.max()) for reward, _, _ in steps) / max(1 - discount, 1e-3)
    weights = np.zeros((len(basis), schema.n_actions))
    for _ in range(sweeps):
        worth = [
            reward + keep * np.clip((ahead @ weights).max(axis=1), min(low, 0), max(high, 0))
            for reward, keep, ahead in steps
        ]
        weights = solve @ np.stack(worth, axis=1)
    return weights
