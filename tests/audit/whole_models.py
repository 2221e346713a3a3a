"""Models, fitted many times to two data sets that differ in one record.

Everything that a fit releases is seen, and beside it the fitted model itself, which may hold more
than was released.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd

from privrl.accounting.targets import ApproxDP, RenyiDP
from privrl.audit import audit_mechanism, audit_scores, law_test, separation
from privrl.audit.black_box import AuditResult
from privrl.audit.laws import (
    DirichletLaw,
    DiscreteGaussianLaw,
    DiscreteLaplaceLaw,
    GaussianLaw,
    LaplaceLaw,
    Law,
    LawResult,
)
from privrl.audit.separations import SeparationResult
from privrl.data.schema import Bins, Categories, Schema
from privrl.mechanisms.tables import TablesMechanism
from privrl.models.bayes_net.fit import PrivateBayesNet
from privrl.models.estimates.blocks import block_starts
from privrl.models.histograms.choice import choose_mechanism
from privrl.models.histograms.release import histogram
from privrl.models.naive_bayes.classifier import PrivateNaiveBayes
from privrl.models.naive_bayes.temperature import TEMPERATURES, derivative_tables

Array = np.ndarray
ORDER, EPSILON = 2.0, 2.0  # two data sets are √2 apart
DELTA = 0.1
RECORDS = np.array([[0, 0]] * 100 + [[1, 1]] * 100)
NEIGHBOUR = np.array([[1, 1], *RECORDS[1:]])
VALUES = 24  # most of which no record has: more cells show more of the noise in fewer fits


@contextmanager
def calibrated_once() -> Iterator[None]:
    """Calibrate once: it depends on public facts alone, and is what takes the time."""
    whole = cache(TablesMechanism.calibrated.__func__)

    def once(cls, target, *, shapes, shares=None, **more):
        shares = None if shares is None else tuple(shares)
        return whole(cls, target, shapes=tuple(shapes), shares=shares, **more)

    with (
        mock.patch.object(TablesMechanism, "calibrated", classmethod(once)),
        mock.patch("privrl.models.histograms.release.choose_mechanism", cache(choose_mechanism)),
    ):
        yield


@contextmanager
def tables_released(less: float) -> Iterator[list[Array]]:
    """Keep the noisy counts of every table that is released, with noise less by a part."""
    log: list[Array] = []
    whole = TablesMechanism.release

    def release(self, data, rng, **more):
        sizes = tuple(size * (1 - less) for size in self.sizes)
        tables = whole(replace(self, sizes=sizes), data, rng, **more)
        log.extend(table.values for table in tables)
        return tables

    with mock.patch.object(TablesMechanism, "release", release):
        yield log


@dataclass(frozen=True)
class Fits:
    """What came of fits to one data set.

    ``released``, the exact tables of both data sets behind it, and the ``sizes`` of the noise, each
    of shape (fits, numbers); and ``fitted``, what the models show.
    """

    released: Array
    exact: tuple[Array, Array]
    sizes: Array
    fitted: Array


def fit_naive_bayes(records: Array, less: float, rng: np.random.Generator, runs: int) -> Fits:
    """Fit naive Bayes with its measured temperature."""
    model = PrivateNaiveBayes([VALUES], classes=[0, 1], target=RenyiDP(ORDER, EPSILON))
    rows = []
    for _ in range(runs):
        with tables_released(less) as log:
            model.set_params(random_state=int(rng.integers(2**31)))
            model.fit(records[:, :1], records[:, 1])
        assert len(log) == 2 + len(TEMPERATURES)
        exact = []
        for each in (RECORDS, NEIGHBOUR):
            value, label = each.T
            ratios = model.feature_log_prob_[0][:, value]
            sums = derivative_tables(model.class_log_prior_, ratios, label)
            exact.append(_flat([*_counts(label, value), *sums]))
        seen = [model.class_log_prior_, model.feature_log_prob_[0][:, :2], [model.temperature_]]
        rows.append((_flat(log), *exact, _sizes(model.mechanism_), _flat(seen)))
    return _fits(rows)


def fit_bayes_net(records: Array, less: float, rng: np.random.Generator, runs: int) -> Fits:
    """Fit a network of two nodes: both are counted alone, and then with what that shows."""
    schema = Schema({"a": Categories((0, 1)), "b": Categories(tuple(range(VALUES)))})
    net = PrivateBayesNet(
        parents={"a": (), "b": ("a",)}, schema=schema, target=RenyiDP(ORDER, EPSILON)
    )
    frame = pd.DataFrame(records, columns=["a", "b"])
    tables = [_counts(*each.T) for each in (RECORDS, NEIGHBOUR)]
    exact = [_flat([a, both.reshape(2, -1).sum(axis=0), a, both]) for a, both in tables]
    rows = []
    for _ in range(runs):
        with tables_released(less) as log:
            fitted = net.fit(frame, rng)
        seen = [fitted.probabilities["a"], fitted.probabilities["b"][:, :2]]
        rows.append((_flat(log), *exact, _sizes(fitted.mechanism), _flat(seen)))
    return _fits(rows)


MODELS: dict[str, Callable[..., Fits]] = {
    "naive Bayes": fit_naive_bayes,
    "Bayesian network": fit_bayes_net,
}


def audit_model(
    name: str, *, runs: int, less: float = 0.0
) -> tuple[LawResult, SeparationResult, AuditResult]:
    """Hold a model's fits, with noise less by a part, against the claim `EPSILON`.

    The law of all noise; the separation of everything released; and a black-box audit of what the
    fitted models show.
    """
    with calibrated_once():
        both = [
            MODELS[name](records, less, np.random.default_rng([9, i]), runs)
            for i, records in enumerate((RECORDS, NEIGHBOUR))
        ]
    claimed = math.sqrt(2 * EPSILON / ORDER)
    noise = [(fits.released - fits.exact[i]) / fits.sizes for i, fits in enumerate(both)]
    centre = np.zeros(noise[0].shape[1])
    law = law_test(np.concatenate(noise), GaussianLaw(sigma=1.0, centre=centre))
    scores = [
        ((f.released - f.exact[0]) * (f.exact[0] - f.exact[1]) / f.sizes**2).sum(axis=1)
        for f in both
    ]
    fitted = iter([fits.fitted for fits in both])
    seen = audit_mechanism(
        lambda data, rng: next(fitted),
        RECORDS,
        NEIGHBOUR,
        np.random.default_rng(0),
        claimed=gaussian_epsilon(claimed, DELTA),
        delta=DELTA,
        draws=runs,
        confidence=0.999,
        batched=True,
    )
    return law, separation(*scores, claimed=claimed), seen


def gaussian_epsilon(distance: float, delta: float) -> float:
    """Epsilon of two normal laws so far apart (Balle and Wang, 2018, theorem 8)."""
    low, high = 0.0, 100.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        over = _normal(distance / 2 - middle / distance)
        under = math.exp(middle) * _normal(-distance / 2 - middle / distance)
        low, high = (middle, high) if over - under > delta else (low, middle)
    return high


def _counts(first: Array, second: Array) -> list[Array]:
    """The table of one column, and that of the other one for each of its values."""
    both = np.bincount(VALUES * first + second, minlength=2 * VALUES)
    return [np.bincount(first, minlength=2), both]


def _normal(x: float) -> float:
    return math.erfc(-x / math.sqrt(2)) / 2


def _flat(tables: Any) -> Array:
    return np.concatenate([np.ravel(table) for table in tables]).astype(float)


def _sizes(mechanism: TablesMechanism) -> Array:
    """The size of the noise on each number."""
    assert mechanism.mechanism == "gaussian"
    lengths = [math.prod(shape) for shape in mechanism.shapes]
    return np.repeat(mechanism.sizes, lengths)


def _fits(rows: list[tuple[Array, ...]]) -> Fits:
    released, first, second, sizes, fitted = map(np.stack, zip(*rows, strict=True))
    return Fits(released, (first, second), sizes, fitted)


# Histograms ------------------------------------------------------------------------------------

TARGET = ApproxDP(1.0, DELTA)
COLUMN = Bins.even(0, 40, 40)
# Of two neighbours: the record that moves is in another one of 20 blocks as well.
COUNTS = np.array([[1, 0, 0, *[0] * 36, 10_000], [0, 0, 1, *[0] * 36, 10_000]])
HISTOGRAMS = ["auto", "gaussian", "laplace", "discrete-gaussian", "discrete-laplace", "dirichlet"]
HISTOGRAMS += ["blocks"]


def law_of_histogram(used: Any, counts: Array) -> Law:
    """The law of what a histogram shows, for each mechanism that may have released it."""
    match type(used).__name__:
        case "GaussianMechanism":
            return GaussianLaw(sigma=used.sigma, centre=counts)
        case "LaplaceMechanism":
            return LaplaceLaw(scale=used.scale, centre=counts)
        case "DiscreteGaussianMechanism":
            return DiscreteGaussianLaw(sigma=used.sigma, centre=counts)
        case "DiscreteLaplaceMechanism":
            return DiscreteLaplaceLaw(scale=used.scale, centre=counts)
        case "TablesMechanism":  # counts, and sums of blocks under noise of the same size
            (size,) = set(used.sizes)
            both = np.concatenate([counts, np.add.reduceat(counts, block_starts(40, 20))])
            is_laplace = used.mechanism == "laplace"
            law = (
                partial(LaplaceLaw, scale=size) if is_laplace else partial(GaussianLaw, sigma=size)
            )
            return law(centre=both)
    return DirichletLaw(weight=used.weight, counts=counts, alpha=used.alpha)


def _shown(made: Any) -> Array:
    if made.noisy is None:
        return made.probabilities
    return made.noisy if made.sums is None else np.concatenate([made.noisy, made.sums])


def audit_histogram(
    mechanism: str, *, runs: int, error: float, less: float = 0.0
) -> tuple[LawResult, AuditResult]:
    """Hold histograms against `TARGET`, with noise too small by a part ``less``, about."""
    spent = ApproxDP(TARGET.epsilon / (1 - less), TARGET.delta)
    with calibrated_once():
        kept, used = [], None
        for i, counts in enumerate(COUNTS):
            values, rng = np.repeat(np.arange(40) + 0.5, counts), np.random.default_rng([10, i])
            rows = []
            for _ in range(runs):
                shown = histogram(values, COLUMN, target=spent, rng=rng, mechanism=mechanism)
                rows.append(_shown(shown))
            kept.append(np.stack(rows))
        honest = histogram(values, COLUMN, target=TARGET, rng=rng, mechanism=mechanism)
        used = honest.mechanism
    first, second = (law_of_histogram(used, counts) for counts in COUNTS)
    ratios = [first.log_likelihood(rows) - second.log_likelihood(rows) for rows in kept]
    audit = audit_scores(*ratios, delta=TARGET.delta, claimed=TARGET.epsilon, confidence=0.999)
    return law_test(kept[0], first, error=error), audit
