"""Law tests: false alarms as rare as stated, errors found as often, on every kind of noise.

Seeds are fixed. Where a number of tests is judged, the limit is binomial, with a chance of 1e-6
that a sound library fails.
"""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from privrl.audit import law_test, laws, separation
from privrl.numerics.dirichlet_rows import dirichlet_rows
from privrl.numerics.discrete_gaussian import discrete_gaussian
from privrl.numerics.discrete_noise import discrete_laplace
from privrl.samplers.factorisations import factorise

Array = np.ndarray
Rng = np.random.Generator
SUMS = factorise("square-root", 3)
COUNTS = np.array([[1e6, 0.0, 0.0], [0.0, 5.0, 50.0]])


def rng(seed: int = 0) -> Rng:
    return np.random.default_rng(seed)


def rows(n: int, error: float, g: Rng) -> Array:
    return dirichlet_rows(np.broadcast_to(0.2 / (1 - error) * COUNTS + 4, (n, 2, 3)), g)


def rows_of_a_smaller_prior(n: int, error: float, g: Rng) -> Array:
    return dirichlet_rows(np.broadcast_to(0.2 * COUNTS + 4 * (1 - error), (n, 2, 3)), g)


#: A law, and how to draw from it with noise that is too small by a part.
CASES: dict[str, tuple[laws.Law, Any]] = {
    "gaussian": (
        laws.GaussianLaw(sigma=3.0, centre=[5.0, 1.0]),
        lambda n, error, g: np.array([5.0, 1.0]) + g.normal(0, 3 * (1 - error), (n, 2)),
    ),
    "running sums": (
        laws.GaussianLaw(sigma=3.0, centre=np.zeros((2, 3)), covariance=SUMS.left @ SUMS.left.T),
        lambda n, error, g: g.normal(0, 3 * (1 - error), (n, 2, 3)) @ SUMS.left.T,
    ),
    "laplace": (
        laws.LaplaceLaw(scale=0.3, centre=[5.0, 1.0]),
        lambda n, error, g: np.array([5.0, 1.0]) + g.laplace(0, 0.3 * (1 - error), (n, 2)),
    ),
    "discrete gaussian": (
        laws.DiscreteGaussianLaw(sigma=2.0, centre=[5.0, 1.0]),
        lambda n, error, g: np.array([5, 1]) + discrete_gaussian(2 * (1 - error), (n, 2), g),
    ),
    "little discrete gaussian": (
        laws.DiscreteGaussianLaw(sigma=0.6),
        lambda n, error, g: discrete_gaussian(0.6 * (1 - error), n, g),
    ),
    "discrete laplace": (
        laws.DiscreteLaplaceLaw(scale=2.0),
        lambda n, error, g: discrete_laplace(2 * (1 - error), n, g),
    ),
    "dirichlet": (laws.DirichletLaw(weight=0.2, counts=COUNTS, alpha=4.0), rows),
    "prior of dirichlet": (
        laws.DirichletLaw(weight=0.2, counts=COUNTS, alpha=4.0),
        rows_of_a_smaller_prior,
    ),
}
each_case = pytest.mark.parametrize(("law", "draw"), CASES.values(), ids=CASES)


@pytest.mark.slow
@each_case
def test_false_alarms_are_as_rare_as_stated(law: laws.Law, draw: Any) -> None:
    """300 tests at a rate of 0.3; the questions' parts of it too. More than stated fails."""
    g, found = rng(1), []
    for _ in range(300):
        found.append(law_test(draw(200, 0.0, g), law, false_alarm=0.3).found)
    assert sum(map(bool, found)) <= stats.binom.isf(1e-6, 300, 0.3)
    questions = law_test(draw(200, 0.0, g), law).p_values
    for name in questions:
        part = 0.3 / len(questions)
        assert sum(name in each for each in found) <= stats.binom.isf(1e-6, 300, part)


@pytest.mark.few(8)
@each_case
def test_five_percent_is_found_as_often_as_stated(law: laws.Law, draw: Any) -> None:
    """40 tests of the stated power, at a false-alarm rate of 1e-6, and none of honest draws."""
    g, n = rng(2), laws.draws_needed(law)
    assert not any(law_test(draw(n, 0.0, g), law).violated for _ in range(10))
    results = [law_test(draw(n, 0.05, g), law) for _ in range(40)]
    assert results[0].needed == results[0].draws == n
    assert sum(each.violated for each in results) >= stats.binom.ppf(1e-6, 40, 0.95)


@pytest.mark.parametrize("power", [0.5, 0.95])
def test_so_many_draws_are_nearly_needed(power: float) -> None:
    """The exact chi-square test of a variance needs no less than half as many."""
    law, error, rate = laws.GaussianLaw(sigma=1.0), 0.05, 1e-6
    n = laws.draws_needed(law, error=error, power=power, false_alarm=rate)
    limit = stats.chi2.ppf(rate / 3, n / 2.1)
    assert stats.chi2.cdf(limit / (1 - error) ** 2, n / 2.1) < power
    limit = stats.chi2.ppf(rate / 3, n)
    assert stats.chi2.cdf(limit / (1 - error) ** 2, n) > power


def test_a_rate_of_false_alarms_may_be_as_small_as_floats() -> None:
    assert laws.draws_needed(laws.GaussianLaw(sigma=1.0), false_alarm=5e-324) > 1000


def test_draws_needed_grow_as_the_error_shrinks_and_not_with_epsilon() -> None:
    """As one over its square; the size of the noise does not matter."""
    needed = [laws.draws_needed(laws.GaussianLaw(sigma=1.0), error=e) for e in (0.01, 0.1)]
    assert needed[0] / needed[1] == pytest.approx(100, rel=0.15)
    assert len({laws.draws_needed(laws.LaplaceLaw(scale=s)) for s in (0.01, 1.0, 1e4)}) == 1
    many = laws.GaussianLaw(sigma=1.0, centre=np.zeros((5, 4)))
    assert laws.draws_needed(many) == math.ceil(laws.draws_needed(laws.GaussianLaw(sigma=1.0)) / 20)


# --- what else may be wrong --------------------------------------------------------------


def shared(n: int, g: Rng) -> Array:
    """One noise for two cells: neither alone looks wrong."""
    return np.repeat(g.normal(size=(n, 1)), 2, axis=1)


def twice(n: int, g: Rng) -> Array:
    """Every noise is used again for the next release."""
    return np.repeat(g.normal(size=(n // 2, 2)), 2, axis=0)


def same_seed(n: int, g: Rng) -> Array:
    return np.array([rng(5).normal(size=2) for _ in range(n)])


def uniform(n: int, g: Rng) -> Array:
    return g.uniform(-math.sqrt(3), math.sqrt(3), (n, 2))


def sometimes_none(n: int, g: Rng) -> Array:
    return g.normal(size=(n, 2)) * (g.random((n, 1)) > 0.02)


def off_centre(n: int, g: Rng) -> Array:
    return g.normal(size=(n, 2)) + 0.1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("broken", "question"),
    [
        (shared, "dependence"),
        (twice, "dependence"),
        (same_seed, "shape"),
        (uniform, "shape"),
        (off_centre, "shape"),
    ],
)
def test_other_faults_are_found(broken: Any, question: str) -> None:
    """10,000 draws; each fault in each of three tests."""
    for seed in range(3):
        result = law_test(
            broken(10_000, rng(seed)), laws.GaussianLaw(sigma=1.0, centre=np.zeros(2))
        )
        assert question in result.found


def test_noise_forgotten_now_and_then_makes_too_small_a_whole() -> None:
    result = law_test(
        sometimes_none(100_000, rng()), laws.GaussianLaw(sigma=1.0, centre=np.zeros(2)), error=0.01
    )
    assert result.violated


def test_sums_whose_noise_does_not_go_on_are_found() -> None:
    """Each sum alone has the right deviation; only together are they wrong."""
    law = laws.GaussianLaw(sigma=1.0, centre=np.zeros(3), covariance=SUMS.left @ SUMS.left.T)
    deviations = np.sqrt((SUMS.left**2).sum(axis=1))
    result = law_test(rng(3).normal(size=(5000, 3)) * deviations, law)
    assert "dependence" in result.found


# --- densities ---------------------------------------------------------------------------


def test_log_likelihoods_are_scipys() -> None:
    """Differences between two data sets, where what is common to all of them cancels."""
    x = np.array([[3.0, -2.0], [0.0, 7.0], [11.0, 1.0]])
    pairs = [
        (lambda c: laws.GaussianLaw(sigma=2.0, centre=c), lambda c: stats.norm(c, 2)),
        (lambda c: laws.LaplaceLaw(scale=2.0, centre=c), lambda c: stats.laplace(c, 2)),
    ]
    for law, known in pairs:
        mine = law([1.0, 0.0]).log_likelihood(x) - law([0.0, 1.0]).log_likelihood(x)
        theirs = known([1.0, 0.0]).logpdf(x) - known([0.0, 1.0]).logpdf(x)
        np.testing.assert_allclose(mine, theirs.sum(axis=1), atol=1e-12)
    mine = laws.DiscreteLaplaceLaw(scale=2.0, centre=[1.0, 0.0]).log_likelihood(x)
    theirs = stats.dlaplace(0.5).logpmf(x - np.array([1.0, 0.0])).sum(axis=1)
    np.testing.assert_allclose(mine, theirs, rtol=1e-12)
    y = rng().dirichlet([1, 2, 3], 4)
    first, second = (
        laws.DirichletLaw(weight=0.5, counts=c, alpha=1.0) for c in ([4, 2, 0], [3, 3, 0])
    )
    mine = first.log_likelihood(y) - second.log_likelihood(y)
    theirs = [
        stats.dirichlet([3, 2, 1]).logpdf(r) - stats.dirichlet([2.5, 2.5, 1]).logpdf(r) for r in y
    ]
    np.testing.assert_allclose(mine, theirs, rtol=1e-10)


def test_log_likelihood_of_running_sums() -> None:
    covariance = SUMS.left @ SUMS.left.T
    x = rng().normal(size=(5, 3))
    first, second = (
        laws.GaussianLaw(sigma=2.0, centre=c, covariance=covariance) for c in ([0, 1, 1], [0, 0, 0])
    )
    theirs = [
        stats.multivariate_normal(c, 4 * covariance).logpdf(x) for c in ([0, 1, 1], [0, 0, 0])
    ]
    mine = first.log_likelihood(x) - second.log_likelihood(x)
    np.testing.assert_allclose(mine, theirs[0] - theirs[1], rtol=1e-10)


@pytest.mark.parametrize("sigma", [1e-3, 0.2, 0.9, 30.0])
def test_discrete_gaussian_probabilities_by_summing(sigma: float) -> None:
    law = laws.DiscreteGaussianLaw(sigma=sigma)
    x = np.arange(-1500.0, 1501.0)
    assert np.exp(law.log_likelihood(x)).sum() == pytest.approx(1, rel=1e-12)


# --- the separation of two histories -----------------------------------------------------


def normal_scores(n: int, distance: float, seed: int) -> tuple[Array, Array]:
    one, other = rng(seed).normal(size=(2, n))
    return 7 * (one + distance), 7 * other


def test_separation_of_normal_scores() -> None:
    """Its error is that of the measured ones; the claim is contradicted as often as it may be."""
    measured = [separation(*normal_scores(500, 1.4, seed), claimed=1.4, false_alarm=0.1)
                for seed in range(1000)]  # fmt: skip
    found = np.array([each.measured for each in measured])
    assert found.mean() == pytest.approx(1.4, abs=5 * found.std() / math.sqrt(1000))
    assert found.std() == pytest.approx(measured[0].deviation, rel=0.15)
    alarms = sum(each.violated for each in measured)
    assert stats.binom.ppf(1e-6, 1000, 0.1) <= alarms <= stats.binom.isf(1e-6, 1000, 0.1)


@pytest.mark.slow
def test_histories_that_are_very_far_apart_raise_no_more_alarms() -> None:
    """SciPy's non-central t is NaN there, which counted as a proof of guilt."""
    alarms = sum(
        separation(*normal_scores(1000, 1e4, seed), claimed=1e4, false_alarm=0.1).violated
        for seed in range(500)
    )
    assert stats.binom.ppf(1e-6, 500, 0.1) <= alarms <= stats.binom.isf(1e-6, 500, 0.1)
    close = normal_scores(1000, 1e4 * 0.8, 0)
    assert not separation(*close, claimed=1e4).violated
    assert not separation(*close, claimed=1e100).violated
    assert separation(*normal_scores(1000, 1e4 * 1.2, 0), claimed=1e4).violated


def test_five_percent_too_far_apart_is_found_as_often_as_stated() -> None:
    n = separation([0.0] * 10, [1.0] * 10, claimed=1.4).needed
    found = [separation(*normal_scores(n, 1.4 / 0.95, seed), claimed=1.4) for seed in range(60)]
    assert sum(each.violated for each in found) >= stats.binom.ppf(1e-6, 60, 0.95)
    assert sum(each.violated for each in found) < 60 or n < 20_000  # the number is not idle
    honest = [separation(*normal_scores(n, 1.4, seed), claimed=1.4) for seed in range(60)]
    assert not any(each.violated for each in honest)


def test_histories_that_are_told_apart_with_certainty() -> None:
    result = separation(np.ones(20), np.zeros(20), claimed=1.0)
    assert result.measured == math.inf
    assert result.violated
    assert not separation(np.zeros(20), np.ones(20), claimed=1.0).violated
    assert not separation(np.ones(20), np.ones(20), claimed=1.0).violated


# --- what is refused ---------------------------------------------------------------------


@pytest.mark.parametrize("bad", [0.0, 1.0, -0.1, math.nan])
@pytest.mark.parametrize("name", ["error", "power", "false_alarm"])
def test_bad_questions(name: str, bad: float) -> None:
    with pytest.raises(ValueError, match=f"{name} must be"):
        law_test(np.zeros(10), laws.GaussianLaw(sigma=1.0), **{name: bad})
    with pytest.raises(ValueError, match=f"{name} must be"):
        separation(np.zeros(10), np.zeros(10), claimed=1.0, **{name: bad})


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: laws.GaussianLaw(sigma=0.0), "sigma must be"),
        (lambda: laws.GaussianLaw(sigma=1.0, covariance=np.eye(2)), "covariance must be"),
        (
            lambda: laws.GaussianLaw(sigma=1.0, centre=[0, 0], covariance=np.eye(3)),
            "covariance must be",
        ),
        (lambda: laws.LaplaceLaw(scale=math.nan), "scale must be"),
        (lambda: laws.DiscreteGaussianLaw(sigma=1e6), "sigma must be"),
        (lambda: laws.DiscreteLaplaceLaw(scale=-1.0), "scale must be"),
        (lambda: laws.DirichletLaw(weight=0.0, counts=[1, 2], alpha=1.0), "weight must be"),
        (lambda: laws.DirichletLaw(weight=1.0, counts=[1, -2], alpha=1.0), "counts must be"),
        (lambda: laws.DirichletLaw(weight=1.0, counts=[1], alpha=1.0), "counts must be"),
        (lambda: laws.DirichletLaw(weight=1.0, counts=[1, 2], alpha=0.01), "alpha must be"),
    ],
)
def test_bad_laws(make: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.parametrize(
    ("draws", "words"),
    [
        (np.zeros((10, 3)), "draws must have shape"),
        (np.zeros(()), "draws must have shape"),
        (np.zeros((7, 2)), "draws must be at least 8"),
        (np.full((10, 2), np.nan), "draws must be finite"),
        (np.full((10, 2), -np.inf), "draws must be finite"),
        (np.array([["a", "b"]] * 9), "draws must be an array of numbers"),
    ],
)
def test_bad_draws(draws: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        law_test(draws, laws.GaussianLaw(sigma=1.0, centre=[0.0, 0.0]))


def test_draws_that_no_number_of_is_enough() -> None:
    with pytest.raises(ValueError, match="law must change with an error"):
        laws.draws_needed(laws.DiscreteGaussianLaw(sigma=1e-2))
    with pytest.raises(ValueError, match="draws must differ from centre by whole numbers"):
        law_test(np.full(10, 0.5), laws.DiscreteGaussianLaw(sigma=1.0))


@pytest.mark.parametrize("scores", [(np.zeros(9),) * 2, (np.zeros(10), np.zeros(11)), (0.0, 0.0)])
def test_bad_scores(scores: Any) -> None:
    with pytest.raises(ValueError, match="scores must be two arrays"):
        separation(*scores, claimed=1.0)
    with pytest.raises(ValueError, match="claimed must be"):
        separation(np.zeros(10), np.zeros(10), claimed=0.0)
    with pytest.raises(ValueError, match="scores must be finite"):
        separation(np.full(10, np.inf), np.zeros(10), claimed=1.0)


def test_what_cannot_be_computed_is_no_proof() -> None:
    sound = separation(*normal_scores(100, 1.0, 0), claimed=1.0)
    assert not sound.violated
    assert dataclasses.replace(sound, p_value=math.nan).violated
    honest = law_test(rng().normal(size=100), laws.GaussianLaw(sigma=1.0))
    assert dataclasses.replace(honest, p_values={"shape": math.nan}).violated


@pytest.mark.parametrize("far", [1e160, 1e200, -1e308])
def test_what_cannot_be_computed_is_found(far):
    """A square that overflows leaves no number to compare, and no claim that all is well."""
    law = laws.GaussianLaw(sigma=1.0)
    draws = np.random.default_rng(0).normal(0, 0.8, 5000)
    draws[0] = far
    with np.errstate(all="ignore"):
        assert "noise" in laws.law_test(draws, law).found


@pytest.mark.parametrize("times", [1 + 1e-7, 1e6, -1.0])
def test_rows_that_are_no_probabilities_are_refused(times):
    law = laws.DirichletLaw(weight=1.0, counts=[1e6, 0.0], alpha=1.0)
    draws = np.random.default_rng(0).dirichlet(law.parameters, 5000)
    assert not laws.law_test(draws, law).violated
    draws[-1] *= times
    with pytest.raises(ValueError, match="rows that each sum to 1"):
        laws.law_test(draws, law)
