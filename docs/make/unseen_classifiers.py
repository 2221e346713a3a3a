"""Data on which nothing of the classifiers was chosen: generated ones, and scikit-learn's own.

Generated ones are of six families that no other page uses. Ends of bins are as in `unseen_data`.
"""

from collections.abc import Callable, Iterable

import numpy as np
import pandas as pd
from classifier_rivals import Parts
from sklearn import datasets
from unseen_data import Data, bundled

from privrl.accounting import ApproxDP

EPSILONS = (0.1, 1.0, 10.0)


def additive(seed: int, n: int, features: int, cells: int, classes: int) -> Data:
    """Return records whose classes follow logistic regression, on independent features."""
    rng = np.random.default_rng(seed)
    X = rng.integers(cells, size=(n, features))
    return _classed(X, rng.normal(size=(features, cells, classes)), cells, rng)


def copies(seed: int, n: int, features: int, cells: int, classes: int) -> Data:
    """Return the same with each feature four times, a tenth of the values wrong."""
    rng = np.random.default_rng(seed)
    X = rng.integers(cells, size=(n, features))
    X, y, *_ = _classed(X, rng.normal(size=(features, cells, classes)), cells, rng)
    X = np.tile(X, 4)
    wrong = rng.random(X.shape) < 0.1
    return np.where(wrong, rng.integers(cells, size=X.shape), X), y, cells, classes


def factors(seed: int, n: int, features: int, cells: int, classes: int) -> Data:
    """Return binned features of three hidden normal factors, on which classes depend."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(n, 3))
    seen = hidden @ rng.normal(size=(3, features)) + rng.normal(size=(n, features))
    X = np.clip(((seen / 6 + 0.5) * cells).astype(int), 0, cells - 1)
    return X, _drawn(2 * hidden @ rng.normal(size=(3, classes)), rng), cells, classes


def pairs(seed: int, n: int, features: int, cells: int, classes: int) -> Data:
    """Return records whose classes depend on pairs of features, and a little on each."""
    rng = np.random.default_rng(seed)
    X = rng.integers(cells, size=(n, features))
    both = X[:, ::2] * cells + X[:, 1::2]
    logits = _summed(both, rng.normal(size=(features // 2, cells**2, classes)))
    return X, _drawn(logits, rng), cells, classes


def rare(seed: int, n: int, features: int, cells: int, classes: int) -> Data:
    """Return records of which one in thirty or so is not of the first class."""
    rng = np.random.default_rng(seed)
    X = rng.integers(cells, size=(n, features))
    logits = _summed(X, rng.normal(size=(features, cells, classes)))
    logits[:, 0] += 3.5 + np.log(classes - 1)
    return X, _drawn(logits, rng), cells, classes


def few_tell(seed: int, n: int, features: int, cells: int, classes: int) -> Data:
    """Return records with three informative features; the others are noise."""
    rng = np.random.default_rng(seed)
    X = rng.integers(cells, size=(n, features))
    tell = np.zeros((features, cells, classes))
    tell[:3] = 2 * rng.normal(size=(3, cells, classes))
    return _classed(X, tell, cells, rng)


def _classed(X: np.ndarray, tell: np.ndarray, cells: int, rng: np.random.Generator) -> Data:
    return X, _drawn(_summed(X, tell), rng), cells, tell.shape[2]


def _summed(X: np.ndarray, tell: np.ndarray) -> np.ndarray:
    return np.sum([tell[k][column] for k, column in enumerate(X.T)], axis=0)


def _drawn(logits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)


SETS: dict[str, Callable[[], Data]] = {
    "breast cancer": lambda: bundled(datasets.load_breast_cancer, 8),
    "wine": lambda: bundled(datasets.load_wine, 5),
    "digits": lambda: bundled(datasets.load_digits, 4),
    "additive, n = 3000": lambda: additive(51, 3000, 8, 5, 2),
    "additive, n = 20000": lambda: additive(52, 20000, 12, 4, 3),
    "copies, n = 2000": lambda: copies(53, 2000, 4, 4, 2),
    "copies, n = 15000": lambda: copies(54, 15000, 6, 6, 2),
    "factors, n = 1500": lambda: factors(55, 1500, 12, 6, 2),
    "factors, n = 10000": lambda: factors(56, 10000, 20, 8, 4),
    "pairs, n = 5000": lambda: pairs(57, 5000, 8, 3, 2),
    "pairs, n = 30000": lambda: pairs(58, 30000, 10, 4, 2),
    "rare, n = 4000": lambda: rare(59, 4000, 10, 4, 2),
    "rare, n = 25000": lambda: rare(60, 25000, 8, 6, 3),
    "few tell, n = 1000": lambda: few_tell(61, 1000, 25, 4, 2),
    "few tell, n = 12000": lambda: few_tell(62, 12000, 40, 5, 2),
}

#: Whose features are bins of numbers.
ORDERED = ("breast cancer", "wine", "digits", "factors, n = 1500", "factors, n = 10000")

Losses = Callable[[Parts, np.ndarray, ApproxDP, int], Iterable[tuple[str, float]]]


def errors(losses: Losses) -> pd.DataFrame:
    """Return mean cross-entropies: a row for each data set and epsilon."""
    rows = []
    for name, make in SETS.items():
        data = make()
        for epsilon in EPSILONS:
            found = [
                dict(losses(*_cut(name, data, seed), ApproxDP(epsilon, 1e-5), seed))
                for seed in range(10 if len(data[0]) <= 5000 else 1)
            ]
            rows.append({"data": name, "epsilon": epsilon, **pd.DataFrame(found).mean()})
    return pd.DataFrame(rows)


def _cut(name: str, data: Data, seed: int) -> tuple[Parts, np.ndarray]:
    X, y, cells, classes = data
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = np.split(order, [round(0.7 * len(y))])
    sizes, ordered = (cells,) * X.shape[1], (name in ORDERED,) * X.shape[1]
    return Parts(X[train], y[train], X[test], sizes, classes, ordered), y[test]
