"""Plans for continuous states: value iteration on a grid, or by features in many dimensions.

A model predicts where a step leads, and how unsure that is. Planning is pessimistic: the value of
an action is lowered by ``caution`` times the deviation of the next state's value that the
uncertainty of the prediction causes, to first order in the value's slope. Wrong predictions that
happen to look good are worth less then.
"""

import math
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
Over = Callable[[FloatArray], BoolArray]
"""From next states, not clipped, to whether an episode terminates there, shape (N,)."""

MOST_ON_GRID: Final = 5  # numeric dimensions
_POINTS: Final = {0: 1, 1: 201, 2: 61, 3: 31, 4: 17, 5: 9}  # of a grid, by numeric dimensions
_DENSER: Final = {0: 1.0, 1: 1.0, 2: 1.0, 3: 1.5, 4: 2.0, 5: 2.0}  # points in the core
_SWEEPS: Final = 80  # of value iteration, before policies are evaluated
_RENEWED: Final = 40  # sweeps after which slopes are renewed
_POLICIES: Final = 40
_KRYLOV: Final = 60  # steps to evaluate a policy
_CLOSE: Final = 1e-4  # changes of values, as a part of them
_SAMPLES: Final = 20_000  # states that a fit by features uses
_ORDER: Final = 4  # of features above the grid: all products of two columns
_MOST_ENTRIES: Final = 2**28  # of what actions lead to: three gigabytes


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
    reward_deviation : array, shape (N,), or None
        How unsure the reward is; None for not at all.
    doubt : array, shape (N,), or None
        The further probability to terminate that a plan takes into account if that is worse.
    end_reward : float or array, shape (N,)
        What a step earns that terminates in this way.
    """

    state: FloatArray
    chances: dict[int, FloatArray]
    deviation: FloatArray
    reward: FloatArray
    ends: FloatArray
    reward_deviation: FloatArray | None = None
    doubt: FloatArray | None = None
    end_reward: float | FloatArray = 0.0


@dataclass(frozen=True, eq=False)
class Grid:
    """A grid over the public ranges, with multilinear interpolation between its points.

    Between the values of ``core``, shape (n, 2), of the numeric columns, points are denser.
    """

    schema: ContinuousSchema
    sizes: tuple[int, ...]
    axes: tuple[FloatArray, ...]

    @classmethod
    def of(cls, schema: ContinuousSchema, core: FloatArray | None = None) -> "Grid":
        """Return the grid whose size follows from the number of dimensions."""
        numbers = sum(isinstance(c, Number) for c in schema.state.values())
        axes, k = [], 0
        for column in schema.state.values():
            if isinstance(column, Choice):
                axes.append(np.arange(float(len(column.values))))
                continue
            low, high = (column.low, column.high) if core is None else core[k]
            axes.append(_axis(column, low, high, _POINTS[numbers], _DENSER[numbers]))
            k += 1
        return cls(schema, tuple(map(len, axes)), tuple(axes))

    @property
    def _columns(self) -> list[Column]:
        return list(self.schema.state.values())

    def points(self) -> FloatArray:
        """Return all points, shape (n, n_state), the last column fastest."""
        every = np.meshgrid(*self.axes, indexing="ij")
        return np.stack(every, axis=-1).reshape(-1, len(self.axes))

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
                axis = self.axes[i]
                base = np.clip(np.searchsorted(axis, states[:, i], "right") - 1, 0, n - 2)
                part = np.clip((states[:, i] - axis[base]) / np.diff(axis)[base], 0, 1)
                places.append(np.stack([base, base + 1], axis=1))
                weights.append(np.stack([1 - part, part], axis=1))
        index, weight = np.zeros((len(states), 1), np.intp), np.ones((len(states), 1))
        for n, place, weigh in zip(self.sizes, places, weights, strict=True):
            index = (index[:, :, None] * n + place[:, None, :]).reshape(len(states), -1)
            weight = (weight[:, :, None] * weigh[:, None, :]).reshape(len(states), -1)
        return index, weight

    def slopes(self, values: FloatArray) -> FloatArray:
        """Return the slope of values along each numeric column, shape (n_state, n); else 0."""
        table = values.reshape(self.sizes)
        found = np.zeros((len(self.sizes), values.size))
        for i, column in enumerate(self._columns):
            if isinstance(column, Number):
                found[i] = np.gradient(table, self.axes[i], axis=i).reshape(-1)
        return found


def check_plannable(schema: ContinuousSchema) -> None:
    """Check that memory holds a plan: this is public, so it can be checked before a charge.

    Raises
    ------
    ValueError
        If there are too many combinations of categories, actions and columns.
    """
    columns = schema.state.values()
    numbers = sum(isinstance(c, Number) for c in columns)
    if numbers > MOST_ON_GRID:
        entries = _SAMPLES * len(feature_basis(schema))
    else:
        cells = math.prod(len(c.values) for c in columns if isinstance(c, Choice))
        entries = (2 * _POINTS[numbers]) ** numbers * cells**2
    if entries * schema.n_actions > _MOST_ENTRIES:
        raise ValueError(
            f"schema must have fewer columns, categories or levels of actions: {schema.n_actions} "
            f"actions in {numbers} numeric columns and their categories are more than a plan holds."
        )


def feature_basis(schema: ContinuousSchema) -> Basis:
    """Return the features of a plan in many dimensions."""
    return Basis(schema, _ORDER, _ORDER, with_actions=False)


def checked_core(schema: ContinuousSchema, core: FloatArray) -> FloatArray:
    """Return a core, shape (n, 2), as an array of its own that cannot be changed.

    Raises
    ------
    ValueError
        If it has another shape, or values out of the public ranges.
    """
    numbers = [c for c in schema.state.values() if isinstance(c, Number)]
    found = np.array(core, np.float64)
    if found.shape != (len(numbers), 2):
        raise ValueError(f"core must have shape {(len(numbers), 2)}.")
    for column, (low, high) in zip(numbers, found, strict=True):
        if not column.low <= low <= high <= column.high:
            raise ValueError("core must be within the ranges of columns, the lower value first.")
    found.setflags(write=False)
    return found


def _axis(column: Number, low: float, high: float, n: int, denser: float) -> FloatArray:
    """Return ``n`` points over a range, ``denser`` times as dense between two values."""
    edges = np.array([column.low, low, high, column.high])
    weight = np.diff(edges) * np.array([1.0, denser, 1.0])
    reach = np.concatenate([[0.0], np.cumsum(weight)]) / weight.sum()
    kept = np.concatenate([[True], np.diff(edges) > 0])  # where the core reaches the edge
    return np.interp(np.linspace(0, 1, n), reach[kept], edges[kept])


@dataclass(frozen=True, eq=False)
class _Steps:
    """What each action leads to from each point of a grid, and how values follow from it."""

    grid: Grid
    rewards: list[FloatArray]
    keeps: list[FloatArray]  # the discount, 0 where an episode terminates
    moves: list[Any]  # sparse, to points of the grid
    deviations: list[FloatArray]
    doubts: list[FloatArray]
    end_rewards: list[FloatArray]
    caution: float
    discount: float

    @classmethod
    def of(
        cls,
        predict: Predict,
        schema: ContinuousSchema,
        discount: float,
        caution: float,
        core: FloatArray | None,
    ) -> "_Steps":
        """Predict all steps."""
        grid = Grid.of(schema, core)
        points, n = grid.points(), int(np.prod(grid.sizes))
        sparse: Any = import_module("scipy.sparse")
        steps = cls(grid, [], [], [], [], [], [], caution, discount)
        for action in schema.levels:
            after = predict(points, np.broadcast_to(action, (n, len(action))))
            index, weight = grid.corners(after.state, after.chances)
            starts = np.arange(0, index.size + 1, index.shape[1], dtype=np.int32)
            entries = weight.ravel(), index.ravel().astype(np.int32), starts
            steps.moves.append(sparse.csr_matrix(entries, shape=(n, n)))
            steps.rewards.append(_safe_reward(after, schema, caution))
            steps.keeps.append(discount * (1 - after.ends))
            steps.deviations.append(after.deviation)
            steps.doubts.append(np.zeros(n) if after.doubt is None else after.doubt)
            steps.end_rewards.append(np.broadcast_to(np.asarray(after.end_reward, float), (n,)))
        return steps

    def worth(self, values: FloatArray, penalties: list[FloatArray]) -> FloatArray:
        """Return what each action is worth in each point, shape (n_actions, n)."""
        found = np.empty((len(self.moves), len(values)))
        for k, move in enumerate(self.moves):
            worth = self.rewards[k] - penalties[k] + self.keeps[k] * (move @ values)
            found[k] = worth - self.doubts[k] * np.maximum(worth - self.end_rewards[k], 0)
        return found

    def penalties(self, values: FloatArray) -> list[FloatArray]:
        """Return by how much each action's worth is lowered, for each point."""
        if not self.caution:
            return [np.zeros(len(values))] * len(self.moves)
        slopes = self.grid.slopes(values)
        return [
            self.caution * keep * _unsure_value(slopes, move, deviation)
            for keep, move, deviation in zip(self.keeps, self.moves, self.deviations, strict=True)
        ]

    def solve(self, horizon: int) -> FloatArray:
        """Return values: those of a horizon, or by policy iteration if they are discounted."""
        values = np.zeros(len(self.rewards[0]))
        first = horizon if self.discount == 1 else min(horizon, _SWEEPS)
        penalties = self.penalties(values)
        for sweep in range(first):
            if self.caution and sweep % _RENEWED == _RENEWED - 1:
                penalties = self.penalties(values)
            new = self.worth(values, penalties).max(axis=0)
            change, values = float(np.abs(new - values).max()), new
            if change < _CLOSE * (1 - min(self.discount, 0.999)) * float(np.abs(values).max()):
                return values
        for _ in range(_POLICIES if horizon > first else 0):
            penalties = self.penalties(values)
            new = self._evaluate(values, self.worth(values, penalties), penalties)
            change, values = float(np.abs(new - values).max()), new
            if change < _CLOSE * float(np.abs(values).max()):
                break
        return self.worth(values, penalties).max(axis=0) if horizon > first else values

    def _evaluate(
        self, values: FloatArray, worth: FloatArray, penalties: list[FloatArray]
    ) -> FloatArray:
        """Return the values of the policy that takes what is worth most."""
        sparse: Any = import_module("scipy.sparse")
        best, every = worth.argmax(axis=0), np.arange(len(values))
        width = self.moves[0].indices.size // len(values)
        indices = np.stack([m.indices.reshape(-1, width) for m in self.moves])[best, every]
        weights = np.stack([m.data.reshape(-1, width) for m in self.moves])[best, every]
        starts = self.moves[0].indptr
        move = sparse.csr_matrix(
            (weights.ravel(), indices.ravel(), starts), shape=(len(every),) * 2
        )
        keep, reward, penalty, doubt, ended = (
            np.stack(each)[best, every]
            for each in (self.keeps, self.rewards, penalties, self.doubts, self.end_rewards)
        )
        doubt = np.where(worth[best, every] > ended, doubt, 0.0)
        keep, reward = keep * (1 - doubt), (reward - penalty) * (1 - doubt) + doubt * ended
        return _solved(lambda v: v - keep * (move @ v), reward, values)


def _solved(
    apply: Callable[[FloatArray], FloatArray], wanted: FloatArray, guess: FloatArray
) -> FloatArray:
    """Return about the solution of a linear system, by BiCGSTAB (van der Vorst, 1992)."""
    found, rest = guess.copy(), wanted - apply(guess)
    shadow, enough = rest.copy(), _CLOSE * 0.1 * float(np.linalg.norm(wanted))
    along, rho = rest.copy(), float(rest @ rest)
    best, least = guess, float(np.linalg.norm(rest))
    for _ in range(_KRYLOV):
        if least <= enough or rho == 0:
            break
        turned = apply(along)
        across = float(shadow @ turned)
        if across == 0:
            break
        alpha = rho / across
        half = rest - alpha * turned
        again = apply(half)
        omega = float(again @ half) / max(float(again @ again), 1e-300)
        found = found + alpha * along + omega * half
        rest = half - omega * again
        size = float(np.linalg.norm(rest))
        if not size < np.inf:
            break
        if size < least:
            best, least = found, size
        if omega == 0:  # as if the next residual were at right angles
            break
        before, rho = rho, float(shadow @ rest)
        along = rest + rho / before * alpha / omega * (along - omega * turned)
    return best


def _safe_reward(after: Predicted, schema: ContinuousSchema, caution: float) -> FloatArray:
    """Return rewards, lowered where they are unsure, within their public range."""
    if after.reward_deviation is None or schema.reward is None:
        return after.reward
    low = schema.reward.low
    return np.maximum(
        after.reward - caution * after.reward_deviation, np.minimum(low, after.reward)
    )


def _unsure_value(slopes: FloatArray, move: Any, deviation: FloatArray) -> FloatArray:
    squares = np.zeros(len(deviation))
    for i, slope in enumerate(slopes):
        if slope.any():
            squares += (move @ slope * deviation[:, i]) ** 2
    return np.sqrt(squares)


def worth_on_grid(
    predict: Predict,
    schema: ContinuousSchema,
    *,
    discount: float,
    caution: float,
    horizon: int,
    core: FloatArray | None = None,
) -> FloatArray:
    """Return what each action is worth in each point of `Grid.of`, shape (n, n_actions).

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
    core : array, shape (n, 2), optional
        Of the grid.
    """
    steps = _Steps.of(predict, schema, discount, caution, core)
    values = steps.solve(horizon)
    return np.ascontiguousarray(steps.worth(values, steps.penalties(values)).T)


def plan_by_features(
    predict: Predict,
    schema: ContinuousSchema,
    basis: Basis,
    *,
    discount: float,
    caution: float = 0.0,
    sweeps: int = 100,
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
        reward = _safe_reward(after, schema, caution)
        steps.append((reward, discount * (1 - after.ends), basis(after.state)))
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
