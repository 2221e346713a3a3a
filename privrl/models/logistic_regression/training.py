"""Logistic regression that starts from a private naive Bayes and takes noisy gradients.

Public facts decide the division of the budget and the number of steps
(`privrl.models.logistic_regression.plan`); `descend` takes the steps.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from privrl.mechanisms.sums import SumsMechanism
from privrl.models.encoding import Codes
from privrl.models.logistic_regression.plan import TUNED, Plan
from privrl.models.logistic_regression.sensitivity import largest_change
from privrl.numerics.scipy_lazily import fft, sparse
from privrl.numerics.typing import FloatArray, IntArray

_SIXTEENTHS = 16  # roots of scales are multiples of 1/16, so that sums stay on a grid
_LEAST_ROOT = 4  # sixteenths
_LEAST = 1e-3  # variance of a residual, so that it divides
_LEAST_COUNT = 1e-9  # records, so that they divide
_LEAST_BENT = 1e-12  # curvature of a class that is nearly sure, likewise


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
    deviations : array, shape (K + J,)
        Of the noise that gradients gave to temperatures and intercept.
    ordered : tuple of int
        How many values of each feature, the first ones, are neighbours in this order; else empty.
    hidden : tuple of float
        Deviation of the noise of each feature's counts, if not empty.
    """

    log_prior: FloatArray
    log_rows: FloatArray
    temperatures: FloatArray
    intercept: FloatArray
    sizes: tuple[int, ...]
    n_records: int
    deviations: FloatArray
    ordered: tuple[int, ...] = ()
    hidden: tuple[float, ...] = ()

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
    def own(self) -> FloatArray:
        """By how much one record of a class raised the weight of its value for it, (d, J).

        Logarithms that vary by a nat before counts are known follow counts N with noise of
        deviation s in part, by ``N² / (N² + N + s²)``.
        """
        counts = np.maximum(self.n_records * np.exp(self.log_prior + self.log_rows), _LEAST_COUNT)
        hidden = np.repeat(self.hidden or np.zeros(len(self.sizes)), self.sizes)[:, None]
        rises = counts / (counts**2 + counts + hidden**2)
        return np.asarray(self.temperatures[self.of_feature][:, None] * rises)

    @property
    def variance(self) -> float:
        """Mean square of a residual where nothing but the classes' frequencies is known."""
        base = np.exp(self.log_prior)
        return max(float(base @ (1 - base)), _LEAST)

    @property
    def shares(self) -> FloatArray:
        """Shares of the records with each value, (d,)."""
        return np.asarray(np.exp(self.log_rows) @ np.exp(self.log_prior))

    @property
    def curvature(self) -> FloatArray:
        """How the loss of all records bends, were each value the only feature, (d + 1, J).

        The intercept is the last.
        """
        base = np.exp(self.log_prior)
        counts = np.maximum(self.n_records * self.shares, 1.0)
        return np.append(counts, self.n_records)[:, None] * np.maximum(
            base * (1 - base), _LEAST_BENT
        )

    @property
    def strengths(self) -> FloatArray:
        """The same for weights of whole features, to a record, shape (K,)."""
        bent = (self.curvature[:-1] * self.log_ratios**2).sum(axis=1)
        return np.bincount(self.of_feature, bent) / self.n_records


@dataclass(frozen=True)
class Part:
    """Weights and an intercept that are a part of the model, computed from the release.

    Attributes
    ----------
    weights : array, shape (d, J)
        Of the features' values.
    intercept : array, shape (J,)
        Of the classes.
    deviations, deviations_of_intercept : array
        Of the noise that gradients gave them, in the same shapes.
    times : float
        Its multiple in the model, before that is learned.
    freedom : float
        How many numbers of it followed the records, >= 0: by as many nats it looks better on the
        records that it was learned from than on others.
    own : array, shape (d, J), or float
        By how much one record of a class raised the weight of its value for that class.
    """

    weights: FloatArray
    intercept: FloatArray
    deviations: FloatArray
    deviations_of_intercept: FloatArray
    times: float
    freedom: float = 0.0
    own: FloatArray | float = 0.0


def descend(
    columns: Codes, numbers: Codes, start: Start, plan: Plan, rng: np.random.Generator
) -> list[Part]:
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
    list of Part
        The start, and the way from there to the mean of the last half of the steps. Intercepts are
        beyond the start's.

    Notes
    -----
    The weights are not regularised. Steps are divided by the curvature of the loss, were each value
    the only feature, and by what noise adds to it: where that is more, which is nearly everywhere,
    all weights move at the same pace, and the common information of many features is learned first.
    Steps lead as far as is stable, or until they add half a nat of noise to logits. How much of the
    way is good is learned afterwards (`privrl.models.logistic_regression.scores`). Neighbouring
    bins mostly have similar weights. So the m-th cosine over the bins of a feature, the smoothest
    first, moves at a pace that falls as 1 / m².

    Long residuals are shortened to the typical length before anything is known. Few are longer once
    the model predicts well, and noise follows the length.
    """
    state = _Descent(start, plan)
    records = _one_hot(columns, start.starts, len(start.log_rows))
    by_value, classes = records.T.tocsr(), np.eye(len(start.log_prior))[numbers]
    for step in range(plan.weights.number):
        residuals = probabilities(records @ state.position) - classes
        lengths = np.sqrt((residuals**2).sum(axis=1, keepdims=True))
        residuals *= state.longest / np.maximum(lengths, state.longest)
        change = state.change()
        sums, factor = scaled_sums(by_value, residuals, state.roots, change, len(start.sizes))
        released = plan.weights.mechanism.release(sums, rng)
        state.follow(released / (factor * state.roots[:, None]), step)
    return state.parts()


class _Descent:
    """Where the weights are, the intercept last, and what moves them: all of it released."""

    def __init__(self, start: Start, plan: Plan) -> None:
        self._start, self._plan = start, plan
        self.longest = math.sqrt(start.variance)
        of_feature = start.of_feature
        importance = np.sqrt(start.strengths) + 1e-6
        roots = np.rint(_SIXTEENTHS * np.sqrt(importance / importance.max()))
        self._feature_roots = np.maximum(roots, _LEAST_ROOT) / _SIXTEENTHS
        self.roots = np.append(self._feature_roots[of_feature], 1.0)
        self._origin = np.vstack([start.weights, start.intercept])
        self.position = self._origin.copy()
        self._velocity = np.zeros_like(self.position)
        self._shares = np.append(start.shares, 1.0)  # of records
        number = max(plan.weights.number, 1)
        n_classes = len(start.log_prior)
        # What all classes share does not count, and one of J moves J / (J - 1) times as fast.
        self._curvature = start.curvature / start.n_records * (n_classes / (n_classes - 1))
        self._smooth = [
            (slice(first, first + n), _paces(n))
            for first, n in zip(start.starts, start.ordered, strict=bool(start.ordered))
            if n
        ]
        self._slowed = np.ones((len(self.roots), 1))
        for cells, paces in self._smooth:
            self._slowed[cells] = math.sqrt((paces**2).mean())
        noise = math.sqrt(self._variance()) / start.n_records
        self._damped = self._curvature + noise / TUNED.spread
        stable = TUNED.longest * number / ((1 - TUNED.momentum) * (len(start.sizes) + 1))
        self._time = min(stable, TUNED.far / float((self._curvature / self._damped).max()))
        while self._in_logits(noise) > TUNED.noise:
            self._time /= 2
        pace = self._time * (1 - TUNED.momentum) / (number * start.n_records) / self._damped
        self._root = np.sqrt(pace)
        self._sum, self._n_summed = np.zeros_like(self.position), 0
        self._noise = 0.0

    def follow(self, gradient: FloatArray, step: int) -> None:
        """Take a step, from a released gradient."""
        whole = gradient - gradient.mean(axis=1, keepdims=True)  # what all share changes nothing
        move = self._root * whole
        for cells, paces in self._smooth:
            move[cells] = fft.idct(
                paces * fft.dct(move[cells], axis=0, norm="ortho"), axis=0, norm="ortho"
            )
        self._velocity = TUNED.momentum * self._velocity - self._root * move
        self.position = self.position + self._velocity
        self._noise += self._variance()
        if step >= self._plan.weights.number * (1 - TUNED.averaged):
            self._sum += self.position
            self._n_summed += 1

    def parts(self) -> list[Part]:
        """Return the start, and the way from it."""
        start = self._start
        of_features, of_intercept = np.split(start.deviations, [len(start.sizes)])
        begun = of_features[start.of_feature][:, None] * np.abs(start.log_ratios)
        nowhere = np.zeros_like(start.intercept)
        found = [Part(start.weights, nowhere, begun, of_intercept, 1.0, own=start.own)]
        number = self._plan.weights.number
        if not number:
            return found
        noise = math.sqrt(self._noise / number) / start.n_records
        deviations = noise / self.roots[:, None] * self._seen() / self._curvature
        freedom = float(self._seen().sum()) * (1 - 1 / len(start.log_prior))
        way = self._sum / self._n_summed - self._origin
        # What all values of a feature share is the intercept's, else noise alone would divide it.
        shared = np.add.reduceat(self._shares[:-1, None] * way[:-1], start.starts)
        way[:-1] -= shared[start.of_feature]
        way[-1] += shared.sum(axis=0)
        return [
            *found,
            Part(way[:-1], way[-1], deviations[:-1], deviations[-1], TUNED.way, freedom),
        ]

    def _seen(self) -> FloatArray:
        """Return the part of each weight that steps find, were each value the only feature."""
        return -np.expm1(-self._slowed * self._curvature / self._damped * self._time)

    def _in_logits(self, noise: float) -> float:
        """Return the deviation that all steps give to logits of an average record."""
        deviations = noise / self.roots[:, None] * self._seen() / self._curvature
        return math.sqrt(float(self._shares @ (deviations**2).mean(axis=1)))

    def change(self) -> float:
        """Return the most that a record changes a gradient."""
        return largest_change(
            self.position[:-1],
            self.position[-1],
            self._start.starts,
            np.append(1.0, self._feature_roots**2),
            longest=self.longest,
        )

    def _variance(self) -> float:
        """Return the variance of the mean gradient's noise, for a root of 1."""
        number = max(self._plan.weights.number, 1)
        return (self.change() * self._plan.weights.mechanism.sigma) ** 2 / (2 * number)


def _paces(n: int) -> FloatArray:
    """Return the paces of cosines over n bins, shape (n, 1)."""
    return TUNED.rough + (1 - TUNED.rough) / np.maximum(np.arange(n)[:, None], 1.0) ** 2


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
