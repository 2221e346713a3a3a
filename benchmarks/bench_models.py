"""Naive Bayes and histograms, beside scikit-learn's, NumPy's and diffprivlib's."""

import numpy as np
import pytest
from peers import CLOCK
from synthetic import ADULT_RECORDS, ADULT_SIZES, adult_like, ages

from privrl.accounting import ApproxDP
from privrl.models import histogram

_VALUES = (10_000, 1_000_000)
_BINS = 100
_rng = np.random.default_rng(0)


def _fresh() -> ApproxDP:
    """Return a target that is new, for what one needs is remembered: each fit is a first one."""
    return ApproxDP(_rng.uniform(0.99, 1.0), 1e-5)


@pytest.fixture(scope="module")
def adult():
    return adult_like()


def _ours(mechanism):
    pytest.importorskip("sklearn", reason="no sklearn: pip install 'privrl[bench]'")
    ours = pytest.importorskip("privrl.models.naive_bayes.classifier")
    target = None if mechanism == "none" else _fresh()
    return ours.PrivateNaiveBayes(ADULT_SIZES, classes=[0, 1], target=target, mechanism=mechanism)


@pytest.mark.parametrize("mechanism", ["auto", "gaussian", "dirichlet", "none"])
@pytest.mark.parametrize("verb", ["fit", "predict"])
def test_naive_bayes(measure, adult, mechanism, verb):
    X, y = adult
    model = _ours(mechanism).fit(X, y)
    calls = {"fit": lambda new: new.fit(X, y), "predict": lambda _: model.predict_proba(X)}
    measure(
        f"{verb}, privrl {mechanism}",
        calls[verb],
        setup=lambda: _ours(mechanism),
        work=ADULT_RECORDS,
    )


@pytest.mark.parametrize("verb", ["fit", "predict"])
def test_scikit_learn(measure, adult, verb):
    X, y = adult
    sklearn = pytest.importorskip(
        "sklearn.naive_bayes", reason="no sklearn: pip install 'privrl[bench]'"
    )
    model = sklearn.CategoricalNB(min_categories=ADULT_SIZES).fit(X, y)
    calls = {"fit": lambda: model.fit(X, y), "predict": lambda: model.predict_proba(X)}
    measure(f"{verb}, scikit-learn", calls[verb], work=ADULT_RECORDS)


@pytest.mark.benchmark(timer=CLOCK)
@pytest.mark.parametrize("verb", ["fit", "predict"])
def test_diffprivlib(measure_peer, verb):
    measure_peer("diffprivlib", verb, f"{verb}, diffprivlib", work=ADULT_RECORDS)


@pytest.mark.parametrize("n_values", _VALUES)
def test_histogram(measure, n_values):
    """Noisy counts, as the others have counts; and with the estimates that can be made of them."""
    values = ages(n_values)

    def released(aim):
        return histogram(values, _BINS, (0.0, 100.0), target=aim, rng=_rng)

    measure("histogram, privrl", released, at=n_values, setup=_fresh, work=n_values)


@pytest.mark.parametrize("n_values", _VALUES)
def test_estimated_histogram(measure, n_values):
    values = ages(n_values)

    def estimated(aim):
        return histogram(values, _BINS, (0.0, 100.0), target=aim, rng=_rng).probabilities

    measure("histogram, privrl with estimates", estimated, at=n_values, setup=_fresh, work=n_values)


@pytest.mark.parametrize("n_values", _VALUES)
def test_numpy_histogram(measure, n_values):
    values = ages(n_values)
    measure(
        "histogram, numpy",
        lambda: np.histogram(values, _BINS, (0.0, 100.0)),
        at=n_values,
        work=n_values,
    )


@pytest.mark.benchmark(timer=CLOCK)
@pytest.mark.parametrize("n_values", _VALUES)
def test_diffprivlib_histogram(measure_peer, n_values):
    measure_peer(
        "diffprivlib",
        "histogram",
        "histogram, diffprivlib",
        at=n_values,
        work=n_values,
        n_values=n_values,
        bins=_BINS,
    )
