"""Small and generated data for naive Bayes: those that constants were chosen on, and others.

The numbers of bins are public; so are their ends here, which are the extremes of scikit-learn's
data sets, as their documentation lists them.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pandas as pd
from sklearn import datasets

from privrl.accounting import Rdp
from privrl.experiments.uci.jobs import ORDER
from privrl.mechanisms.tables import TablesMechanism
from privrl.models import PrivateNaiveBayes
from privrl.models.estimates import row_totals

EPSILONS = (0.01, 0.1, 1.0, 10.0)
#: Mechanisms and floors: the best of these, found afterwards, is what auto is compared with.
FIXED: tuple[tuple[Any, float | None], ...] = (
    *(("dirichlet", None), ("gaussian", 1.0), ("gaussian", None)),
    *(("laplace", 1.0), ("laplace", None)),
)
Data = tuple[np.ndarray, np.ndarray, int, int]  # cells, classes, and how many of each there are


def naive(seed: int, n: int, features: int, cells: int, classes: int, *, strength: float) -> Data:
    """Return records for which naive Bayes is true; of large strengths, rows are alike."""
    rng = np.random.default_rng(seed)
    prior = rng.dirichlet(np.full(classes, 5.0))
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


def _bundled(load: Callable[[], Any], cells: int) -> Data:
    data = load()
    low, high = data.data.min(axis=0), data.data.max(axis=0)
    X = np.minimum(((data.data - low) / (high - low) * cells).astype(int), cells - 1)
    return X, data.target, cells, int(data.target.max()) + 1


def _drawn(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    below = rng.random(len(rows))[:, None] > rows.cumsum(axis=1)
    return np.minimum(below.sum(axis=1), rows.shape[1] - 1)


CHOSEN_ON: dict[str, Callable[[], Data]] = {
    "iris": lambda: _bundled(datasets.load_iris, 6),
    "network, 15 features": lambda: network(21, 3000, 15, 4, 2),
    "network, 8 features": lambda: network(22, 8000, 8, 5, 4),
    "naive Bayes, n = 2000": lambda: naive(23, 2000, 12, 4, 2, strength=5.0),
    "naive Bayes, n = 5000": lambda: naive(24, 5000, 6, 8, 5, strength=10.0),
    "naive Bayes, n = 400": lambda: naive(25, 400, 20, 3, 3, strength=3.0),
    "naive Bayes, n = 115": lambda: naive(26, 115, 6, 4, 2, strength=2.0),
    "noise, 8 features": lambda: noise(27, 3000, 8, 6, 3),
}
OTHERS: dict[str, Callable[[], Data]] = {
    "breast cancer": lambda: _bundled(datasets.load_breast_cancer, 8),
    "wine": lambda: _bundled(datasets.load_wine, 5),
    "network, 10 features": lambda: network(11, 4000, 10, 3, 2),
    "network, 20 features": lambda: network(12, 2000, 20, 4, 3),
    "naive Bayes, n = 3000": lambda: naive(13, 3000, 10, 5, 3, strength=8.0),
    "naive Bayes, n = 600": lambda: naive(14, 600, 15, 4, 2, strength=8.0),
    "naive Bayes, n = 85": lambda: naive(15, 85, 8, 3, 2, strength=3.0),
    "noise, 15 features": lambda: noise(16, 1500, 15, 4, 2),
}


def errors() -> pd.DataFrame:
    """Return mean cross-entropies: a row for each group, data set and epsilon."""
    rows = [
        {"group": group, "data": name, "epsilon": epsilon, **_means(make(), epsilon)}
        for group, sets in (("chosen on", CHOSEN_ON), ("others", OTHERS))
        for name, make in sets.items()
        for epsilon in EPSILONS
    ]
    return pd.DataFrame(rows)


def _means(data: Data, epsilon: float) -> dict[str, float]:
    seeds = range(12 if len(data[1]) < 700 else 3)
    return pd.DataFrame([dict(_losses(data, epsilon, seed)) for seed in seeds]).mean().to_dict()


def _losses(data: Data, epsilon: float, seed: int) -> Iterable[tuple[str, float]]:
    """Yield the cross-entropy on 30 % of the records of each mechanism, and of bare frequencies."""
    X, y, cells, classes = data
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = np.split(order, [round(0.7 * len(y))])
    target = Rdp(ORDER, epsilon)

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
