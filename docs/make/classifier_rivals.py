"""Private classifiers as others would make them, at the same (ε, δ), for docs/results.

All take cells by number, have logistic regression's form, replace one record, and may choose
settings afterwards by the test part, which favours them: `RIVALS` lists the settings.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import log_softmax, softmax

from privrl.accounting import RenyiDP, Target, calibrate
from privrl.costs import GaussianCost, ReplaceRecord
from privrl.models import PrivateNaiveBayes
from privrl.numerics.typing import FloatArray, IntArray


@dataclass(frozen=True)
class Parts:
    """Records and classes for training, records to predict, and the public facts."""

    X: IntArray  # (n, K)
    y: IntArray
    new: IntArray
    sizes: tuple[int, ...]
    n_classes: int
    ordered: tuple[bool, ...]  # whether cells are bins of numbers, by feature


def descent(
    parts: Parts, target: Target, seed: int, *, steps: int, rate: float, clip: float
) -> FloatArray:
    """Return log-probabilities by full-batch noisy gradients from zero, each record's cut.

    The mean of the second half of the steps predicts.
    """
    rng = np.random.default_rng((seed, 1))
    ones, new = (_one_hot(X, parts.sizes) for X in (parts.X, parts.new))
    by_value, own = ones.T.tocsr(), np.eye(parts.n_classes)[parts.y]
    length = math.sqrt(parts.X.shape[1] + 1)  # of each record's ones
    noise = clip * math.sqrt(2 * steps) * _sigma(target)
    at = total = np.zeros((ones.shape[1], parts.n_classes))
    for step in range(steps):
        residuals = softmax(ones @ at, axis=1) - own
        sums = by_value @ _cut(residuals, clip / length)
        at = at - rate * (sums + rng.normal(0, noise, at.shape)) / len(own)
        total = total + at if step >= steps / 2 else total
    return np.asarray(log_softmax(new @ (total / (steps // 2)), axis=1))


def weights_of_features(
    parts: Parts, target: Target, seed: int, *, steps: int, rate: float, clip: float
) -> FloatArray:
    """Return log-probabilities of naive Bayes with half the budget and a weight for each feature.

    The weights and the intercept are learned by noisy gradients, each record's cut, with the other
    half.
    """
    rng = np.random.default_rng((seed, 2))
    half = GaussianCost(sigma=math.sqrt(2) * _sigma(target), relation=ReplaceRecord())
    naive = PrivateNaiveBayes(
        parts.sizes,
        classes=list(range(parts.n_classes)),
        target=RenyiDP(2.0, float(half.rdp(2.0))),
        random_state=seed,
    ).fit(parts.X, parts.y)
    said, new = (_said(naive, X) for X in (parts.X, parts.new))
    n_features, own = parts.X.shape[1], np.eye(parts.n_classes)[parts.y]
    noise = 2 * clip * math.sqrt(steps) * _sigma(target)
    start = np.full(n_features, naive.temperature_)
    at, total = np.concatenate([start, naive.class_log_prior_]), 0.0
    for step in range(steps):
        logits = np.tensordot(said, at[:n_features], (1, 0)) + at[n_features:]
        residuals = softmax(logits, axis=1) - own
        rows = np.hstack([np.einsum("nkj,nj->nk", said, residuals), residuals])
        sums = _cut(rows, clip).sum(axis=0)
        at = at - rate * (sums + rng.normal(0, noise, at.shape)) / len(own)
        total = total + at if step >= steps / 2 else total
    mean = total / (steps // 2)
    logits = np.tensordot(new, mean[:n_features], (1, 0)) + mean[n_features:]
    return np.asarray(log_softmax(logits, axis=1))


def scaled_descent(
    parts: Parts, target: Target, seed: int, *, steps: int, rate: float, momentum: float = 0.9
) -> FloatArray:
    """Return log-probabilities by noisy gradients from zero on scaled columns, each record's cut.

    Ordered columns are scaled to [-1, 1], others are ones; all of a record have length 1 at most.
    """
    rng = np.random.default_rng((seed, 3))
    rows, new = (_scaled(X, parts) for X in (parts.X, parts.new))
    own = np.eye(parts.n_classes)[parts.y]
    noise = math.sqrt(2 * steps) * _sigma(target)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    at = total = velocity = np.zeros((rows.shape[1], parts.n_classes))
    for step in range(steps):
        residuals = softmax(rows @ at, axis=1) - own
        sums = rows.T @ (_cut(residuals * lengths, 1.0) / lengths) + rng.normal(0, noise, at.shape)
        velocity = momentum * velocity - (1 - momentum) * rate / len(own) * sums
        at = at + velocity
        total = total + at if step >= steps / 2 else total
    return np.asarray(log_softmax(new @ (total / (steps // 2)), axis=1))


Rival = tuple[Callable[..., FloatArray], dict[str, Any]]
#: Settings: of each method the best by the mean of all splits is shown.
RIVALS: dict[str, list[Rival]] = {
    "noisy gradients from zero": [
        (descent, {"steps": 60, "rate": 2.0, "clip": 1.0}),
        (descent, {"steps": 60, "rate": 0.5, "clip": 3.0}),
        (descent, {"steps": 100, "rate": 4.0, "clip": 3.0}),
    ],
    "weights of features": [
        (weights_of_features, {"steps": 60, "rate": 1.0, "clip": 1.0}),
        (weights_of_features, {"steps": 60, "rate": 1.0, "clip": 3.0}),
    ],
    "noisy gradients on scaled columns": [
        (scaled_descent, {"steps": 10, "rate": 1.0, "momentum": 0.0}),
        (scaled_descent, {"steps": 20, "rate": 3.0}),
        (scaled_descent, {"steps": 30, "rate": 10.0}),
        (scaled_descent, {"steps": 60, "rate": 30.0}),
    ],
}


def _sigma(target: Target) -> float:
    """Return the noise that spends a target on one change by √2."""
    return calibrate(
        target, lambda sigma: GaussianCost(sigma=sigma, relation=ReplaceRecord()), rises=False
    )


def _cut(rows: FloatArray, longest: float) -> FloatArray:
    lengths = np.sqrt((rows**2).sum(axis=1, keepdims=True))
    return rows * (longest / np.maximum(lengths, longest))


def _one_hot(X: IntArray, sizes: tuple[int, ...]) -> Any:
    n, n_features = X.shape
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    places = np.full((n, n_features + 1), sum(sizes))
    places[:, :-1] = X + starts
    ends = np.arange(0, places.size + 1, n_features + 1)
    return sparse.csr_array((np.ones(places.size), places.ravel(), ends))


def _scaled(X: IntArray, parts: Parts) -> FloatArray:
    columns = []
    for k, (size, ordered) in enumerate(zip(parts.sizes, parts.ordered, strict=True)):
        scaled = (2 * X[:, [k]] + 1) / size - 1
        columns.append(scaled if ordered else np.eye(size)[X[:, k]])
    rows = np.hstack(columns) / math.sqrt(len(columns))
    return np.hstack([rows, np.ones((len(X), 1))])


def _said(naive: PrivateNaiveBayes, X: IntArray) -> FloatArray:
    """Return each feature's log-ratios of each record, within 4 nats, shape (n, K, J)."""
    tables = [np.clip(t - t.mean(axis=0), -4, 4).T for t in naive.feature_log_prob_]
    return np.stack([table[X[:, k]] for k, table in enumerate(tables)], axis=1)
