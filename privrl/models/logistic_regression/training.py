"""Logistic regression that starts from a private naive Bayes and takes noisy gradients.

Public facts decide the division of the budget and the number of steps
(`privrl.models.logistic_regression.plan`); `descend` takes the steps.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from privrl.mechanisms.sums import SumsMechanism
from privrl.mechanisms.tables import ReleasedTable
from privrl.models.encoding import Codes
from privrl.models.logistic_regression.plan import TUNED, Plan
from privrl.models.logistic_regression.sensitivity import largest_change
from privrl.numerics.scipy_lazily import sparse
from privrl.numerics.typing import FloatArray, IntArray

_SIXTEENTHS = 16  # roots of scales are multiples of 1/16, so that sums stay on a grid
_LEAST_ROOT = 4  # sixteenths


@dataclass(frozen=True)
class Start:
    """The state before the first gradient: all of it released.

    Attributes
    ----------
    log_prior : array, shape (J,)
        Of the classes.
    log_rows : array, shape (d, J)
        Logarithms of the features' values' probabilities in each class, one feature after the
        other.
    temperatures : array, shape (K,)
        By which each feature's log-ratios are multiplied.
    intercept : array, shape (J,)
        Of the classes, in nats.
    sizes : tuple of int
        Numbers of values of the features.
    n_records : int
        How many.
    tables : sequence of ReleasedTable, optional
        Noisy counts of the classes, and of each feature's values in each class.
    deviations : array, shape (K + J,)
        Of the noise that gradients gave to temperatures and intercept.
    """

    log_prior: FloatArray
    log_rows: FloatArray
    temperatures: FloatArray
    intercept: FloatArray
    sizes: tuple[int, ...]
    n_records: int
    tables: Sequence[ReleasedTable] | None
    deviations: FloatArray

    @property
    def starts(self) -> IntArray:
        """Where each feature begins, shape (K,)."""
        return np.concatenate([[0], np.cumsum(self.sizes)[:-1]]).astype(np.int64)

    @property
    def of_feature(self) -> IntArray:
        """The feature of each value, shape (d,)."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    @property
    def log_ratios(self) -> FloatArray:
        """Each value's log-probabilities around their mean over the classes, shape (d, J)."""
        logs = self.log_rows - self.log_rows.mean(axis=1, keepdims=True)
        return np.clip(logs, -TUNED.farthest, TUNED.farthest)

    @property
    def weights(self) -> FloatArray:
        """Where weights begin, shape (d, J)."""
        weights: FloatArray = self.temperatures[self.of_feature][:, None] * self.log_ratios
        return weights

    @property
    def curvature(self) -> FloatArray:
        """How the loss of all records bends, were each value the only feature, (d + 1, J).

        The intercept is the last.
        """
        base = np.exp(self.log_prior)
        counts = np.maximum(self.n_records * np.exp(self.log_rows) @ base, 1.0)
        return np.append(counts, self.n_records)[:, None] * (base * (1 - base))

    @property
    def strengths(self) -> FloatArray:
        """The same for weights of whole features, to a record, shape (K,)."""
        bent = (self.curvature[:-1] * self.log_ratios**2).sum(axis=1)
        return np.bincount(self.of_feature, bent) / self.n_records


@dataclass(frozen=True)
class Candidate:
    """Possible weights of the model, computed from the release.

    Attributes
    ----------
    weights : array, shape (d, J)
        Of the features' values.
    intercept : array, shape (J,)
        Of the classes.
    deviations, deviations_of_intercept : array
        Of the noise that gradients gave them, in the same shapes.
    freedom : float
        How many numbers of it followed the records, >= 0: by as many nats it looks better on the
        records that it was learned from than on others.
    """

    weights: FloatArray
    intercept: FloatArray
    deviations: FloatArray
    deviations_of_intercept: FloatArray
    freedom: float


def descend(
    columns: Codes, numbers: Codes, start: Start, plan: Plan, rng: np.random.Generator
) -> list[Candidate]:
    """Release gradients, which have been paid for, follow them, and return where they led.

    Parameters
    ----------
    columns : array of int, shape (K, n)
        Records, and ``numbers``, shape (n,), their classes: private.
    start : Start
        Where to begin: naive Bayes, or what `privrl.models.logistic_regression.scores` made of it.
    plan : Plan
        How many steps, and with which noise.
    rng : numpy.random.Generator
        Where the randomness comes from.

    Returns
    -------
    list of Candidate
        The start, and points on the straight way from there to the mean of the last half of the
        steps.

    Notes
    -----
    The weights are not regularised. Steps are divided by the curvature of the loss, were each value
    the only feature, and by what noise adds to it: where that is more, which is nearly everywhere,
    all weights move at the same pace, and the common information of many features is learned first.
    Steps lead as far as is stable, or until they add half a nat of noise to logits. That is too far
    if features add little to the start, so points on the way are candidates as well.

    A part of each record's class may be left out of gradients and put back from the noisy counts
    of naive Bayes' tables: what is released changes less then, and has less noise, and the tables'
    comes on top. Naive Bayes' weights have that noise as well, and errors that agree weigh more
    than others. The part with the least noise in all is taken.
    """
    state = _Descent(start, plan)
    records = _one_hot(columns, start.starts, len(start.log_rows))
    by_value, classes = records.T.tocsr(), np.eye(len(start.log_prior))[numbers]
    for step in range(plan.weights.number):
        own, change = state.settings(step)
        residuals = probabilities(records @ state.position)
        residuals -= own * classes + (1 - own) * state.base
        sums, factor = scaled_sums(by_value, residuals, state.roots, change, len(start.sizes))
        released = plan.weights.mechanism.release(sums, rng)
        state.follow(released / (factor * state.roots[:, None]), step)
    return state.candidates()


class _Descent:
    """Where the weights are, the intercept last, and what moves them: all of it released."""

    def __init__(self, start: Start, plan: Plan) -> None:
        self._start, self._plan = start, plan
        self.base = np.exp(start.log_prior)
        of_feature = start.of_feature
        importance = np.sqrt(start.strengths) + 1e-6
        roots = np.rint(_SIXTEENTHS * np.sqrt(importance / importance.max()))
        self._feature_roots = np.maximum(roots, _LEAST_ROOT) / _SIXTEENTHS
        self.roots = np.append(self._feature_roots[of_feature], 1.0)
        self._origin = np.vstack([start.weights, start.intercept])
        self.position = self._origin.copy()
        self._velocity = np.zeros_like(self.position)
        self._known = self._known_part()
        self._shares = np.append(np.exp(start.log_rows) @ self.base, 1.0)  # of records
        self._own = self._best_own()
        number = max(plan.weights.number, 1)
        n_classes = len(self.base)
        # What all classes share does not count, and one of J moves J / (J - 1) times as fast.
        self._curvature = start.curvature / start.n_records * (n_classes / (n_classes - 1))
        noise = math.sqrt(self._variance(self._own)) / start.n_records
        self._damped = self._curvature + noise / TUNED.spread
        stable = TUNED.longest * number / ((1 - TUNED.momentum) * (len(start.sizes) + 1))
        self._time = min(stable, TUNED.far / float((self._curvature / self._damped).max()))
        while self._in_logits(noise) > TUNED.noise:
            self._time /= 2
        self._pace = self._time * (1 - TUNED.momentum) / (number * start.n_records) / self._damped
        self._sum, self._n_summed = np.zeros_like(self.position), 0
        self._noise = 0.0

    def settings(self, step: int) -> tuple[float, float]:
        """Return the part of own classes in a gradient, and the most that a record changes it."""
        if step % TUNED.every == 0:
            self._own = self._best_own()
        return self._own, self._change(self._own)

    def follow(self, gradient: FloatArray, step: int) -> None:
        """Take a step, from a released gradient."""
        whole = gradient - (1 - self._own) * self._known
        whole -= whole.mean(axis=1, keepdims=True)  # what all classes share changes nothing
        self._velocity = TUNED.momentum * self._velocity - self._pace * whole
        self.position = self.position + self._velocity
        self._noise += self._variance(self._own)
        if step >= self._plan.weights.number * (1 - TUNED.averaged):
            self._sum += self.position
            self._n_summed += 1

    def candidates(self) -> list[Candidate]:
        """Return the start and parts of the way from it."""
        start = self._start
        of_features, of_intercept = np.split(start.deviations, [len(start.sizes)])
        begun = of_features[start.of_feature][:, None] * np.abs(start.log_ratios)
        begun = np.vstack([begun, of_intercept])
        found = [_candidate(self._origin, begun, 0.0)]
        number = self._plan.weights.number
        if not number:
            return found
        noise = math.sqrt(self._noise / number) / start.n_records
        deviations = noise / self.roots[:, None] * self._seen() / self._curvature
        freedom = float(self._seen().sum()) * (1 - 1 / len(self.base))
        way = self._sum / self._n_summed - self._origin
        # What all values of a feature share is the intercept's, else noise alone would divide it.
        shared = np.add.reduceat(self._shares[:-1, None] * way[:-1], start.starts)
        way[:-1] -= shared[start.of_feature]
        way[-1] += shared.sum(axis=0)
        for part in TUNED.parts:
            where = self._origin + part * way
            both = np.hypot(begun, part * deviations)
            found.append(_candidate(where, both, part * freedom))
        return found

    def _seen(self) -> FloatArray:
        """Return the part of each weight that steps find, were each value the only feature."""
        return -np.expm1(-self._curvature / self._damped * self._time)

    def _in_logits(self, noise: float) -> float:
        """Return the deviation that all steps give to logits of an average record."""
        deviations = noise / self.roots[:, None] * self._seen() / self._curvature
        return math.sqrt(float(self._shares @ (deviations**2).mean(axis=1)))

    def _change(self, own: float) -> float:
        return largest_change(
            self.position[:-1],
            self.position[-1],
            self._start.starts,
            np.append(1.0, self._feature_roots**2),
            own=own,
            base=self.base,
        )

    def _best_own(self) -> float:
        if self._start.tables is None:
            return 1.0
        return float(min(TUNED.own, key=self._variance))

    def _variance(self, own: float) -> float:
        """Return the variance of the mean gradient's noise, for a root of 1."""
        sigma = self._plan.weights.mechanism.sigma / math.sqrt(
            max(self._plan.weights.number, 1)
        )  # of their mean
        variance = (self._change(own) * sigma) ** 2 / 2
        if self._start.tables is not None:
            # Of classes' noisy counts, each times how far it is from the base.
            n_classes = len(self.base)
            part = (1 - own) ** 2 * (1 - 2 / n_classes + float((self.base**2).sum()))
            counts = np.array([table.deviation for table in self._start.tables[1:]])
            mean = float((counts**2).mean() / (self._feature_roots**-2.0).mean())
            variance += TUNED.counted_twice * part * mean
        return variance

    def _known_part(self) -> FloatArray:
        """Return what classes add to gradients beyond the base, from noisy counts."""
        if self._start.tables is None:
            return np.zeros_like(self.position)
        classes, *features = self._start.tables
        counts = np.vstack([*(table.values.T for table in features), classes.values])
        return counts - self.base * counts.sum(axis=1, keepdims=True)


def _candidate(where: FloatArray, deviations: FloatArray, freedom: float) -> Candidate:
    return Candidate(where[:-1], where[-1], deviations[:-1], deviations[-1], freedom)


def _one_hot(columns: Codes, starts: IntArray, n_cells: int) -> Any:
    """Return records as sparse rows of ones, shape (n, d + 1): of their values and a last one."""
    n_features, n_records = columns.shape
    places = np.empty((n_records, n_features + 1), np.int32)
    places[:, :-1] = (columns + starts[:, None]).T
    places[:, -1] = n_cells
    ends = np.arange(0, places.size + 1, n_features + 1)
    return sparse.csr_array(
        (np.ones(places.size), places.ravel(), ends), shape=(n_records, n_cells + 1)
    )


def probabilities(logits: FloatArray) -> FloatArray:
    """Return probabilities of classes, shape (n, J)."""
    weights: FloatArray = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def scaled_sums(
    by_value: Any, residuals: FloatArray, roots: FloatArray, change: float, n_features: int
) -> tuple[FloatArray, float]:
    """Return sums of gradients that one replaced record changes by √2 at the most: private.

    Parameters
    ----------
    by_value : sparse array, shape (d + 1, n)
        Records as columns of ones, `_one_hot` transposed.
    residuals : array, shape (n, J)
        Probabilities minus targets.
    roots : array, shape (d + 1,)
        The factor in place of each one: multiples of 1/16 up to 1, equal within a feature.
    change : float
        The result of `largest_change` for such residuals, and for the roots' squares.
    n_features : int
        K.

    Returns
    -------
    sums : array, shape (d + 1, J)
        Multiples of `SumsMechanism.grain`.
    factor : float
        By which they are larger than sums of gradients.

    Notes
    -----
    Residuals, times the factor, are rounded to multiples of 16 grains before they are summed, and
    sums are then multiplied by the roots: all of it is exact. Rounding moves each of the J numbers
    that a record adds to each of its K + 1 values by 8 grains at the most; taken as 16, that covers
    what floats lose in a residual. So what a record adds is moved by no more than
    ``16 g √(J (K + 1))``, for a grain g, in Euclidean norm, and the difference of two records by
    twice as much. The factor leaves room for that below √2.
    """
    grain = SumsMechanism.grain * _SIXTEENTHS
    rounding = 2 * grain * math.sqrt(residuals.shape[1] * (n_features + 1))
    factor = (math.sqrt(2) - rounding) / change
    rounded = np.rint(residuals * (factor / grain)) * grain
    return (by_value @ rounded) * roots[:, None], factor
