"""Small and generated data for naive Bayes that nothing was chosen on.

The numbers of bins are public; so are their ends here, which are the extremes of scikit-learn's
data sets, as their documentation lists them. Of a generated family, every
repetition is another data set, so that none of them decides by its luck.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pandas as pd
from sklearn import datasets

from privrl.accounting import RenyiDP
from privrl.experiments.uci.jobs import ORDER
from privrl.mechanisms.tables import TablesMechanism
from privrl.models import PrivateNaiveBayes
from privrl.models.estimates.tables import row_totals

EPSILONS = (0.01, 0.1, 1.0, 10.0)
#: Mechanisms and floors: the best of these, found afterwards, is what auto is compared with.
FIXED: tuple[tuple[Any, float | None], ...] = (
    *(("dirichlet", None), ("gaussian", 1.0), ("gaussian", None)),
    *(("laplace", 1.0), ("laplace", None)),
)
Data = tuple[np.ndarray, np.ndarray, int, int]  # cells, classes, and how many of each there are


def naive(
    seed: int,
    n: int,
    features: int,
    cells: int,
    classes: int,
    *,
    strength: float,
    rare: float = 0.0,
) -> Data:
    """Return records for which naive Bayes is true; of large strengths, rows are alike.

    Of two classes the second may be a rare one, of the given frequency.
    """
    rng = np.random.default_rng(seed)
    prior = np.array([1 - rare, rare]) if rare else rng.dirichlet(np.full(classes, 5.0))
    tables = []
    for _ in range(features):
        base = rng.dirichlet(np.full(cells, 2.0)) + 0.01
        tables.append(rng.dirichlet(strength * base, classes))
    y = rng.choice(classes, n, p=prior)
    X = np.stack([_drawn(table[y], rng) for table in tables], axis=1)
    return X, y, cells, classes


def network(seed: int, n: int, features: int, cells: int, classes: int) -> Data:
    """Return records of a random network, each column of which has two parents before it."""
    rng = np.random.default_rng(seed)
    columns = [rng.choice(classes, n, p=rng.dirichlet(np.full(classes, 4.0)))]
    sizes = [classes] + [cells] * features
    for k in range(1, features + 1):
        row, rows = np.zeros(n, int), 1
        for parent in rng.choice(k, min(k, 2), replace=False):
            row, rows = row * sizes[parent] + columns[parent], rows * sizes[parent]
        columns.append(_drawn(rng.dirichlet(np.full(cells, 0.7), rows)[row], rng))
    return np.stack(columns[1:], axis=1), columns[0], cells, classes


def noise(seed: int, n: int, features: int, cells: int, classes: int) -> Data:
    """Return records whose features say nothing of their classes."""
    rng = np.random.default_rng(seed)
    X = rng.integers(cells, size=(n, features))
    return X, rng.choice(classes, n, p=rng.dirichlet(np.full(classes, 3.0))), cells, classes


def with_noise(data: Data, seed: int, features: int) -> Data:
    """Return the data with features that say nothing."""
    X, y, cells, classes = data
    more = np.random.default_rng(seed).integers(cells, size=(len(y), features))
    return np.concatenate([X, more], axis=1), y, cells, classes


def clusters(seed: int, n: int, features: int, cells: int, classes: int) -> Data:
    """Return records of classes with three clusters each, every cluster with its own rows."""
    X, y, _, _ = naive(seed, n, features, cells, 3 * classes, strength=5.0)
    return X, y % classes, cells, classes


def chain(seed: int, n: int, features: int, cells: int, classes: int) -> Data:
    """Return records each feature of which depends on the class and on the feature before it."""
    rng = np.random.default_rng(seed)
    y = rng.choice(classes, n, p=rng.dirichlet(np.full(classes, 5.0)))
    columns = [np.zeros(n, int)]
    for _ in range(features):
        rows = rng.dirichlet(np.full(cells, 1.0), (classes, cells))
        columns.append(_drawn(rows[y, columns[-1]], rng))
    return np.stack(columns[1:], axis=1), y, cells, classes


def gaussian(seed: int, n: int, features: int, cells: int) -> Data:
    """Return correlated Gaussian features in bins from -2.5 to 2.5, and a logistic class."""
    rng = np.random.default_rng(seed)
    mixed = rng.normal(size=(features, features)) / np.sqrt(features)
    Z = rng.normal(size=(n, features)) @ (mixed + np.eye(features))
    Z /= np.sqrt(((mixed + np.eye(features)) ** 2).sum(axis=0))
    score = Z @ rng.normal(size=features) * 2 / np.sqrt(features) - 0.5
    y = (rng.random(n) < 1 / (1 + np.exp(-score))).astype(int)
    X = np.clip(((Z + 2.5) / 5 * cells).astype(int), 0, cells - 1)
    return X, y, cells, 2


def bundled(load: Callable[[], Any], cells: int) -> Data:
    """Return one of scikit-learn's data sets, each column in even bins."""
    data = load()
    return _binned(data.data, data.target, cells)


def _binned(values: np.ndarray, y: np.ndarray, cells: int) -> Data:
    low, high = values.min(axis=0), values.max(axis=0)
    wide = np.where(high > low, high - low, 1.0)
    X = np.minimum(((values - low) / wide * cells).astype(int), cells - 1)
    return X, y, cells, int(y.max()) + 1


def _drawn(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    below = rng.random(len(rows))[:, None] > rows.cumsum(axis=1)
    return np.minimum(below.sum(axis=1), rows.shape[1] - 1)


def _diabetes() -> Data:
    """Return classes of how far the disease has gone, cut at 100 and 200 of its 25 to 346."""
    data = datasets.load_diabetes(scaled=False)
    grades = np.digitize(data.target, [100, 200])
    return _binned(data.data, grades, 6)


#: What earlier versions were judged on.
SEEN: dict[str, Callable[[int], Data]] = {
    "breast cancer": lambda _: bundled(datasets.load_breast_cancer, 8),
    "wine": lambda _: bundled(datasets.load_wine, 5),
    "iris": lambda _: bundled(datasets.load_iris, 6),
    "digits": lambda _: bundled(datasets.load_digits, 4),
    "diabetes": lambda _: _diabetes(),
}
#: What nothing was chosen on.
FRESH: dict[str, Callable[[int], Data]] = {
    "clusters, n = 3000": lambda seed: clusters(1020 + seed, 3000, 12, 4, 2),
    "chain, n = 2000": lambda seed: chain(1120 + seed, 2000, 10, 4, 3),
    "binned Gaussians, n = 5000": lambda seed: gaussian(1220 + seed, 5000, 10, 8),
    "binned Gaussians, n = 300": lambda seed: gaussian(1320 + seed, 300, 6, 5),
    "network, 12 features": lambda seed: network(1420 + seed, 5000, 12, 4, 3),
    "naive Bayes, n = 60": lambda seed: naive(1520 + seed, 60, 6, 3, 2, strength=4.0),
    "naive Bayes, n = 300": lambda seed: naive(1620 + seed, 300, 8, 5, 3, strength=6.0),
    "naive Bayes, 8 classes": lambda seed: naive(1720 + seed, 6000, 10, 6, 8, strength=15.0),
    "naive Bayes, 4 % in a class": lambda seed: naive(
        1820 + seed, 4000, 12, 4, 2, strength=12.0, rare=0.04
    ),
    "3 of 23 tell": lambda seed: with_noise(
        naive(1920 + seed, 1500, 3, 5, 2, strength=4.0), 1970 + seed, 20
    ),
    "noise, n = 400": lambda seed: noise(2020 + seed, 400, 10, 5, 3),
    "noise, n = 5000": lambda seed: noise(2120 + seed, 5000, 12, 5, 2),
}


def errors() -> pd.DataFrame:
    """Return mean cross-entropies: a row for each group, data set and epsilon."""
    groups = {"fresh": FRESH, "seen before": SEEN}
    rows = [
        {"group": group, "data": name, "epsilon": epsilon, **_means(make, epsilon)}
        for group, sets in groups.items()
        for name, make in sets.items()
        for epsilon in EPSILONS
    ]
    return pd.DataFrame(rows)


def _means(make: Callable[[int], Data], epsilon: float) -> dict[str, float]:
    seeds = range(12 if len(make(0)[1]) < 700 else 4)
    return (
        pd.DataFrame([dict(_losses(make(seed), epsilon, seed)) for seed in seeds]).mean().to_dict()
    )


def _losses(data: Data, epsilon: float, seed: int) -> Iterable[tuple[str, float]]:
    """Yield the cross-entropy on 30 % of the records of each mechanism, and of bare frequencies."""
    X, y, cells, classes = data
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = np.split(order, [round(0.7 * len(y))])
    target = RenyiDP(ORDER, epsilon)

    def loss(logs: np.ndarray) -> float:
        return -float(logs[np.arange(len(test)), y[test]].mean())

    for mechanism, alpha in (("auto", None), *FIXED):
        model = PrivateNaiveBayes(
            [cells] * X.shape[1],
            classes=list(range(classes)),
            target=target,
            mechanism=mechanism,
            alpha=alpha,
            random_state=seed,
        ).fit(X[train], y[train])
        yield f"{mechanism} {alpha}", loss(model.predict_log_proba(X[test]))
    bare = TablesMechanism.calibrated(target, shapes=[(1, classes)], n_records=len(train))
    counts = np.bincount(y[train], minlength=classes)[None].astype(float)
    totals = row_totals(bare.release([counts], np.random.default_rng(seed + 999)), len(train))
    yield "bare", loss(np.broadcast_to(np.log(totals / totals.sum()), (len(test), classes)))
