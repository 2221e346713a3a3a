"""Every model audited end to end, at small size; in full by ``python docs/make/audits.py``.

False alarms: 1e-6 for each law and each separation, 1e-3 for each audit of scores or of a black
box, at fixed seeds. Each has a negative control that is caught.
"""

import math

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="scikit-learn is an extra: privrl[models]")

from whole_models import (
    EPSILON,
    HISTOGRAMS,
    MODELS,
    ORDER,
    RECORDS,
    audit_histogram,
    audit_model,
    fit_naive_bayes,
)

RUNS = 300  # of each data set
each_model = pytest.mark.parametrize("name", MODELS)


@pytest.mark.slow
@each_model
def test_a_model_releases_what_is_claimed(name: str) -> None:
    """The law of 600 times 50 noises and more, d′ of 1.414 within 0.09, and the fitted models."""
    law, apart, seen = audit_model(name, runs=RUNS)
    assert not law.violated
    assert law.draws > law.needed
    assert not apart.violated
    assert apart.measured > 0.7 * apart.claimed
    assert not seen.violated


@pytest.mark.slow
@each_model
def test_an_eighth_of_the_noise_shows_in_all_three(name: str) -> None:
    law, apart, seen = audit_model(name, runs=RUNS, less=0.875)
    assert "noise" in law.found
    assert apart.violated
    assert seen.violated


@pytest.mark.slow
@each_model
def test_five_percent_too_little_noise_is_found(name: str) -> None:
    law, _, _ = audit_model(name, runs=160, less=0.05)
    assert "noise" in law.found


def test_sizes_of_noise_are_those_of_the_claim() -> None:
    """Every table changes by (+1, −1) at the most, squared 2: seven tables, one claim."""
    sizes = fit_naive_bayes(RECORDS, 0.0, np.random.default_rng(0), 1).sizes[0]
    first_of_each = sizes[[0, 2, *range(50, 60, 2)]]
    assert sum(2 / first_of_each**2) == pytest.approx(2 * EPSILON / ORDER, rel=1e-9)
    assert sum(2 / first_of_each**2) <= 2 * EPSILON / ORDER * (1 + 1e-12)
    assert math.isfinite(sizes.max())


@pytest.mark.few(9)
@pytest.mark.parametrize("mechanism", HISTOGRAMS)
def test_a_histogram_shows_what_is_claimed(mechanism: str) -> None:
    """300 histograms of 40 bins of each of two neighbours; 172 find 10 % too little noise."""
    law, audit = audit_histogram(mechanism, runs=RUNS, error=0.1)
    assert not law.violated
    assert law.draws >= law.needed
    assert not audit.violated


@pytest.mark.few(9)
@pytest.mark.parametrize("mechanism", HISTOGRAMS)
def test_a_histogram_with_too_little_noise_is_found(mechanism: str) -> None:
    """A tenth of it; by its law and by an audit."""
    law, audit = audit_histogram(mechanism, runs=RUNS, error=0.1, less=0.9)
    assert law.violated
    assert audit.violated
