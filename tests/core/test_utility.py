"""Error bars: they hold by exact tails and by simulation, and cannot be sharpened much.

A simulated rate is compared through its lower Clopper-Pearson limit at 1e-9, so all the
comparisons here together raise a false alarm less than once in a million runs.
"""

import doctest
import itertools
import math

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import betainc, betaincinv, gammaln, xlogy
from scipy.stats import beta, binom, chi2, multinomial

from privrl.accounting.targets import RenyiDP
from privrl.costs.relations import ReplaceRecord
from privrl.mechanisms import errors as the_module
from privrl.mechanisms.design import expected_loss
from privrl.mechanisms.errors import (
    VERTEX_ALPHA,
    KlBound,
    dirichlet_kl,
    expected_posterior_kl,
    gaussian_l2_quantile,
    kl_quantile,
    kl_sample_size,
    kl_tail,
    l2_quantile,
    simplex_variance,
)
from privrl.mechanisms.papers import dkl_algorithm_1, dps_prior

BOUNDS: tuple[KlBound, ...] = ("vertex", "lambert", "dkl")
FAILURES = np.array([0.5, 0.05, 1e-3, 1e-9])
NOT_POSITIVE = [0.0, -1.0, math.nan, math.inf]
NOT_A_PROBABILITY = [0.0, 1.0, -0.1, 1.5, math.nan]
ROW = {"total_weight": 10.0, "alpha": 1.0, "n_cells": 3}
RELEASE = {"weight": 1.0, "alpha": 1.0, "n_cells": 3}


def frequencies(n_cells: int) -> dict[str, np.ndarray]:
    """All in one cell, in two, in half of them; a cell of a thousandth; even; and random ones."""
    vertex = np.eye(n_cells)[0]
    half = np.where(np.arange(n_cells) < n_cells / 2, 1.0, 0.0)
    edge = 0.999 * vertex + 0.001 * np.eye(n_cells)[1]
    uniform = np.full(n_cells, 1 / n_cells)
    drawn = np.random.default_rng(3).dirichlet(np.ones(n_cells))
    pair = np.where(np.arange(n_cells) < 2, 0.5, 0.0)
    named = {"vertex": vertex, "pair": pair, "half": half, "edge": edge, "uniform": uniform}
    named["drawn"] = drawn
    return {name: p / p.sum() for name, p in named.items()}


def losses(p, total_weight: float, alpha: float, size: int, rng) -> tuple[np.ndarray, np.ndarray]:
    """KL and Euclidean distance of so many draws."""
    y = rng.dirichlet(total_weight * p + alpha, size)
    used = p > 0
    return (p[used] * np.log(p[used] / y[:, used])).sum(1), np.linalg.norm(y - p, axis=1)


def surely_above(exceeded: np.ndarray, failure: float) -> bool:
    """Whether the lower Clopper-Pearson limit of the rate, at 1e-9, is above ``failure``."""
    hits = int(exceeded.sum())
    return hits > 0 and betaincinv(hits, exceeded.size - hits + 1, 1e-9) > failure


def two_cell_tail(eta: float, p: float, total_weight: float, alpha: float) -> float:
    """The exact probability of ``KL > eta`` for two cells, from Beta integrals."""
    return sum(
        _one_side(eta, q, total_weight * q + alpha, total_weight * (1 - q) + alpha)
        for q in (p, 1 - p)
        if q
    )


def _one_side(eta: float, q: float, a: float, b: float) -> float:
    """The probability that y ~ Beta(a, b) is so far below q."""

    def excess(log_y: float) -> float:
        return q * (math.log(q) - log_y) - eta + xlogy(1 - q, (1 - q) / -math.expm1(log_y))

    if q == 1:
        return float(betainc(a, b, math.exp(-eta)))
    top = math.log(q)
    return float(betainc(a, b, math.exp(brentq(excess, top - (eta + 1) / q, top, xtol=1e-13))))


# Kullback-Leibler divergence ------------------------------------------------------------------


@pytest.mark.few(14)
@pytest.mark.parametrize(
    ("bound", "alpha"),
    [*itertools.product(BOUNDS, [VERTEX_ALPHA, 1.0, 5.0, 300.0]), ("lambert", 0.5), ("dkl", 0.5)],
)
def test_kl_bounds_hold_exactly_for_two_cells(bound: KlBound, alpha: float) -> None:
    for total_weight in (1e-3, 1.0, 30.0, 1e4):
        etas = kl_quantile(FAILURES, total_weight=total_weight, alpha=alpha, n_cells=2, bound=bound)
        finite = np.isfinite(etas)
        etas, rates = etas[finite], FAILURES[finite]
        bounds = kl_tail(etas, total_weight=total_weight, alpha=alpha, n_cells=2, bound=bound)
        assert (bounds <= rates * (1 + 1e-9)).all()
        for p, (eta, failure) in itertools.product(
            [0.0, 0.01, 0.2, 0.4, 0.5], zip(etas, rates, strict=True)
        ):
            assert two_cell_tail(eta, p, total_weight, alpha) <= failure


@pytest.mark.few(21)
@pytest.mark.parametrize(("n_cells", "size"), [(2, 20_000), (10, 20_000), (1000, 1000)])
@pytest.mark.parametrize("alpha", [VERTEX_ALPHA, 4.0])
@pytest.mark.parametrize("total_weight", [0.5, 100.0, 1e5])
def test_error_bars_hold_in_simulation(n_cells, size, alpha, total_weight) -> None:
    """At failure rates of 0.05 and 0.5, for six kinds of frequencies."""
    rng = np.random.default_rng(4)
    row = {"total_weight": total_weight, "alpha": alpha, "n_cells": n_cells}
    for p in frequencies(n_cells).values():
        kl, distance = losses(p, total_weight, alpha, size, rng)
        for failure in (0.05, 0.5):
            assert not surely_above(distance > l2_quantile(failure, **row), failure)
            for bound in BOUNDS:
                eta = kl_quantile(failure, **row, bound=bound)
                assert not surely_above(kl > eta, failure)


@pytest.mark.few(9)
@pytest.mark.parametrize("n_cells", [2, 10, 1000])
def test_error_bars_cannot_be_halved(n_cells: int) -> None:
    """Some frequencies break half of them: the same check, with the power to see it."""
    rng = np.random.default_rng(5)
    row = {"total_weight": 1e4, "alpha": 1.0, "n_cells": n_cells}
    size = 1000 if n_cells == 1000 else 20_000
    drawn = [losses(p, 1e4, 1.0, size, rng) for p in frequencies(n_cells).values()]
    for each, quantile in zip(zip(*drawn, strict=True), (kl_quantile, l2_quantile), strict=True):
        half = 0.5 * quantile(1e-3, **row)
        assert any(surely_above(loss > half, 1e-3) for loss in each)


@pytest.mark.parametrize(("n_cells", "closer"), [(10, 1.35), (100, 1.15), (1000, 1.08)])
def test_the_sharpest_error_bar_is_nearly_the_exact_one_of_a_vertex(n_cells, closer) -> None:
    for total_weight, alpha in itertools.product([10.0, 1e4, 1e8], [1.0, 20.0]):
        exact = -np.log(betaincinv(total_weight + alpha, (n_cells - 1) * alpha, 0.05))
        eta = kl_quantile(0.05, total_weight=total_weight, alpha=alpha, n_cells=n_cells)
        assert exact < eta < closer * exact


def excess_of_moments(p: np.ndarray, t: float, total_weight: float, alpha: float) -> float:
    """log E exp(t KL) by (19), less the same with all of p in one cell."""

    def cells(q: np.ndarray) -> float:
        moved = gammaln((total_weight - t) * q + alpha) - gammaln(total_weight * q + alpha)
        return float((t * xlogy(q, q) + moved).sum())

    return cells(p) - cells(np.eye(p.size)[0])


@pytest.mark.slow
def test_moments_are_largest_at_a_vertex() -> None:
    """What the bound "vertex" rests on, over 4,000 random cases; a prior of 1/4 breaks it."""
    rng = np.random.default_rng(6)
    broken = 0
    for _ in range(4000):
        n_cells = int(rng.choice([2, 3, 20, 300]))
        p = rng.dirichlet(np.full(n_cells, 10 ** rng.uniform(-2, 2)))
        alpha, total_weight = VERTEX_ALPHA + rng.choice([0, 0.2, 5]), 10 ** rng.uniform(-2, 4)
        t = rng.uniform(0, 1) * (total_weight + alpha)
        weight = (
            abs(gammaln(total_weight + alpha)) + n_cells * abs(gammaln(alpha)) + total_weight + 1
        )
        assert excess_of_moments(p, t, total_weight, alpha) <= 1e-13 * weight
        broken += excess_of_moments(p, 0.5 * total_weight, total_weight, 0.25) > 1e-6
    assert broken > 100


@pytest.mark.parametrize("total_weight", [1e-3, 1.0, 1e3, 1e9])
@pytest.mark.parametrize(("alpha", "n_cells"), [(VERTEX_ALPHA, 2), (1.0, 7), (50.0, 1000)])
def test_vertex_tail_is_the_best_of_chernoffs(total_weight, alpha, n_cells) -> None:
    """The least of ``E exp(t KL − t eta)`` at 50 digits, by golden section over t."""
    eta = float(kl_quantile(1e-3, total_weight=total_weight, alpha=alpha, n_cells=n_cells))
    with mp.workdps(50):
        u, k = mpf(total_weight) + mpf(alpha), (n_cells - 1) * mpf(alpha)

        def log_bound(t: mpf) -> mpf:
            ratio = mp.loggamma(u + k) - mp.loggamma(u + k - t)
            return ratio + mp.loggamma(u - t) - mp.loggamma(u) - t * eta

        low, high = mpf(0), u
        golden = (mp.sqrt(5) - 1) / 2
        for _ in range(120):
            left, right = high - golden * (high - low), low + golden * (high - low)
            low, high = (low, right) if log_bound(left) < log_bound(right) else (left, high)
        best = float(mp.exp(log_bound(low)))
    assert best == pytest.approx(1e-3, rel=1e-6)
    tail = kl_tail(eta, total_weight=total_weight, alpha=alpha, n_cells=n_cells)
    assert float(tail) == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("total_weight", [0.1, 10.0, 1e4, 1e8])
def test_each_kl_bound_is_at_most_the_next(total_weight: float) -> None:
    etas = np.geomspace(1e-8, 100, 300)
    for alpha, n_cells in itertools.product([1.0, 10.0], [2, 50]):
        tails = [
            kl_tail(etas, total_weight=total_weight, alpha=alpha, n_cells=n_cells, bound=bound)
            for bound in BOUNDS
        ]
        for tail in tails:
            assert ((tail >= 0) & (tail <= 1)).all()
            assert (np.diff(tail) <= 1e-12).all()
        assert (tails[0] <= tails[1] * (1 + 1e-9)).all()
        assert (tails[1] <= tails[2] * (1 + 1e-9)).all()


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("total_weight", [1e3, 1e9, 1e20])
def test_quantiles_invert_tails(bound: KlBound, total_weight: float) -> None:
    row = {"total_weight": total_weight, "alpha": 1.0, "n_cells": 10, "bound": bound}
    tails = kl_tail(kl_quantile(FAILURES, **row), **row)
    assert tails == pytest.approx(FAILURES, rel=1e-8, abs=0)


def test_lambert_is_the_least_of_20() -> None:
    for eta, total_weight, alpha, n_cells in [(0.3, 50.0, 0.5, 10), (2.0, 4.0, 1.0, 3)]:
        t = np.linspace(0, total_weight, 2_000_001)[:-1]
        least = (-t * eta + t * np.log((total_weight + n_cells * alpha) / (total_weight - t))).min()
        tail = kl_tail(
            eta, total_weight=total_weight, alpha=alpha, n_cells=n_cells, bound="lambert"
        )
        assert np.log(tail) == pytest.approx(least, rel=1e-9)


def test_theorem_2_as_printed() -> None:
    """The exponent; the condition; and that it never gets below exp(−total_weight / 6)."""
    total_weight, eta = 800.0, 0.4
    tail = kl_tail(eta, total_weight=total_weight, alpha=1.0, n_cells=10, bound="dkl")
    assert tail == pytest.approx(math.exp(-total_weight * eta**2 / (2 * (2 + eta) * (4 + 3 * eta))))
    least = 10 / math.expm1(eta / 2)
    for factor, holds in ((0.999, False), (1.001, True)):
        tail = kl_tail(eta, total_weight=factor * least, alpha=1.0, n_cells=10, bound="dkl")
        assert (tail < 1) == holds
    out_of_reach = 0.99 * math.exp(-total_weight / 6)
    assert (
        kl_quantile(out_of_reach, total_weight=total_weight, alpha=1.0, n_cells=2, bound="dkl")
        == np.inf
    )


@pytest.mark.parametrize(("alpha", "total_weight"), [(0.01, 100), (0.1, 1000), (0.2, 1000)])
def test_theorem_2_is_false_for_small_priors(alpha: float, total_weight: float) -> None:
    """Why a prior below 1/2 is refused: a thousand even cells, 1000 draws."""
    n_cells = 1000
    eta = 2 * math.log1p(n_cells * alpha / total_weight) * (1 + 1e-12)
    assert total_weight >= n_cells * alpha / math.expm1(eta / 2)
    shape = total_weight / n_cells + alpha
    g = np.random.default_rng(7).gamma(shape, size=(1000, n_cells))
    kl = np.log(g.sum(1)) - np.log(g).mean(1) - math.log(n_cells)
    claim = math.exp(-total_weight * eta**2 / (2 * (2 + eta) * (4 + 3 * eta)))
    assert surely_above(kl > eta, claim)
    with pytest.raises(ValueError, match=r"alpha must be >= 0\.5"):
        kl_tail(eta, total_weight=total_weight, alpha=alpha, n_cells=n_cells)


@pytest.mark.few(18)
@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("epsilon", [0.01, 1.0])
@pytest.mark.parametrize("eta", [1e-3, 0.1, 1.0])
def test_kl_sample_sizes_are_the_least(bound: KlBound, epsilon: float, eta: float) -> None:
    setting = dkl_algorithm_1(RenyiDP(2, epsilon), relation=ReplaceRecord())
    row = {"alpha": setting.alpha, "n_cells": 10, "bound": bound}
    n = kl_sample_size(weight=setting.weight, eta=eta, failure=0.01, **row)
    assert kl_quantile(0.01, total_weight=setting.weight * n, **row) <= eta * (1 + 1e-9)
    assert kl_quantile(0.01, total_weight=setting.weight * (n - 1), **row) >= eta * (1 - 1e-9)
    if bound == "dkl":  # the theorem's two conditions, solved by hand
        condition = 10 * setting.alpha / math.expm1(eta / 2)
        tail = math.log(100) * 2 * (2 + eta) * (4 + 3 * eta) / eta**2
        assert n == math.ceil(max(condition, tail) / setting.weight)


def test_the_papers_order_of_growth_is_too_low_at_large_orders() -> None:
    """For epsilon < 1 it has sqrt(λ/ε) where the condition on the total_weight has 4 (λ − 1)."""
    ratios = []
    for order in (2, 200, 20_000):
        setting = dkl_algorithm_1(RenyiDP(order, 0.9), relation=ReplaceRecord())
        assert setting.alpha / setting.weight > 4 * (order - 1)
        ratios.append(setting.alpha / setting.weight / math.sqrt(order / 0.9))
    assert ratios[1] > 10 * ratios[0]
    assert ratios[2] > 10 * ratios[1]


def test_the_example_of_the_docstring() -> None:
    assert doctest.testmod(the_module).failed == 0


# Euclidean distance ----------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [1e-3, 0.3, 1.0, 20.0])
def test_l2_bound_holds_exactly_for_two_cells(alpha: float) -> None:
    for total_weight in (1e-3, 1.0, 30.0, 1e6):
        bars = l2_quantile(FAILURES, total_weight=total_weight, alpha=alpha, n_cells=2)
        for p in (0.0, 1e-3, 0.1, 0.3, 0.5):
            y = beta(total_weight * p + alpha, total_weight * (1 - p) + alpha)
            move = bars / math.sqrt(2)
            assert (y.cdf(p - move) + y.sf(p + move) <= FAILURES).all()


@pytest.mark.parametrize(
    ("total_weight", "alpha"), [(1e-2, 1.0), (30.0, 1e-3), (30.0, 2.0), (1e5, 1.0)]
)
def test_its_mean_square_is_the_largest_there_is(total_weight: float, alpha: float) -> None:
    """Compared with exact means of other code: attained, and never exceeded."""
    for n_cells in (2, 3, 40):
        found = max(
            expected_loss(total_weight * p, 1.0, alpha, loss="l2")
            for p in frequencies(n_cells).values()
        )
        bars = l2_quantile([0.3, 0.3**4], total_weight=total_weight, alpha=alpha, n_cells=n_cells)
        if bars[1] < math.sqrt(2):  # the part of the failure rate doubles from one to the other
            assert 2 * bars[0] - bars[1] == pytest.approx(math.sqrt(found), rel=1e-9)


def test_theorem_5_is_false() -> None:
    """Two even cells of half a million records each, at the rate of 1e-12 and the prior of 1."""
    n, rate = 1e6, 1e-12
    printed = math.sqrt((3 * math.log(1 / rate) + 4) / (4 * (n + 3))) + 4 / (n + 2)
    row = beta(n / 2 + 1, n / 2 + 1)
    assert 2 * row.cdf(0.5 - printed / math.sqrt(2)) > 40 * rate
    ours = float(l2_quantile(rate, total_weight=n, alpha=1.0, n_cells=2))
    assert 2 * row.cdf(0.5 - ours / math.sqrt(2)) < rate
    # Its premise: the variance of (y1 − y2)/√2 against the proxy.
    assert 2 * row.var() == pytest.approx(2 / (4 * (n + 3)))


def test_ours_is_better_than_theorem_5_where_there_are_many_cells() -> None:
    for n_cells, total_weight in itertools.product([30, 1000], [1.0, 1e3, 1e6]):
        total = total_weight + n_cells
        printed = math.sqrt((3 * math.log(20) + 2 * n_cells) / (4 * (total + 1)))
        printed += 2 * n_cells / total
        assert (
            l2_quantile(0.05, total_weight=total_weight, alpha=1.0, n_cells=n_cells)
            < 0.65 * printed
        )


@pytest.mark.parametrize("n_cells", [1, 2, 1000])
def test_gaussian_quantile(n_cells: int) -> None:
    """The exact chi-square one, below the paper's (17)."""
    bars = gaussian_l2_quantile(FAILURES, n_records=50, n_cells=n_cells, sigma=3.0)
    assert chi2.sf((50 * bars / 3) ** 2, n_cells) == pytest.approx(FAILURES, rel=1e-9)
    paper = np.sqrt((3 * np.log(1 / FAILURES) + 2 * n_cells) * 9) / 50
    assert (bars < paper).all()


@pytest.mark.parametrize("n_cells", [2, 100])
@pytest.mark.parametrize(
    "target", [RenyiDP(2, 0.01), RenyiDP(2, 1), RenyiDP(20, 1), RenyiDP(2, 100)], ids=repr
)
def test_gaussian_noise_needs_fewer_records(target: RenyiDP, n_cells: int) -> None:
    """(18), with DPS's prior: for distances up to a half."""
    alpha = dps_prior(target, relation=ReplaceRecord())
    sigma = math.sqrt(target.order * 2 / (2 * target.epsilon))
    once = float(gaussian_l2_quantile(0.05, n_records=1, n_cells=n_cells, sigma=sigma))
    for distance in (0.01, 0.1, 0.5):
        row = {"total_weight": once / distance, "alpha": alpha, "n_cells": n_cells}
        assert l2_quantile(0.05, **row) > distance


def test_which_mechanism_is_better_with_few_records() -> None:
    """At N = d λ/ε the Dirichlet is better for even frequencies only, unlike what DPS says."""
    n_cells, target = 100, RenyiDP(2, 0.1)
    alpha = dps_prior(target, relation=ReplaceRecord())
    variance = target.order * 2 / (2 * target.epsilon)
    n = n_cells * target.order / target.epsilon
    p = frequencies(n_cells)
    gaussian = n_cells * variance / n**2
    assert expected_loss(n * p["uniform"], 1.0, alpha, loss="l2") < gaussian
    for name in ("vertex", "half", "drawn"):
        assert expected_loss(n * p[name], 1.0, alpha, loss="l2") > 2 * gaussian
    few = 0.3 * math.sqrt(n)
    for even_or_not in p.values():
        loss = expected_loss(few * even_or_not, 1.0, alpha, loss="l2")
        assert loss < n_cells * variance / few**2


# Posteriors ------------------------------------------------------------------------------------


def mp_dirichlet_kl(u, v) -> float:
    with mp.workdps(80):
        u, v = [mpf(float(x)) for x in u], [mpf(float(x)) for x in v]
        total = mp.loggamma(sum(u)) - mp.loggamma(sum(v))
        for a, b in zip(u, v, strict=True):
            total += mp.loggamma(b) - mp.loggamma(a)
            total += (a - b) * (mp.digamma(a) - mp.digamma(sum(u)))
        return float(total)


@pytest.mark.few(13)
@pytest.mark.parametrize(
    ("u", "v"),
    [
        ([1.0, 2.0], [3.0, 0.5]),
        ([1.0, 1.0, 1.0], [1e-20, 1.0, 1.0]),
        ([1e-3, 5.0], [1e3, 5.0]),
        ([1e8, 2e8, 3e8], [1e8 + 1e-3, 2e8, 3e8]),
        ([1e12, 5e11], [1e12, 5e11 + 0.25]),
        ([1e12, 5e11], [1.0, 1.0]),
        ([1.0, 1.0], [1e12, 5e11]),
        ([1e12, 5e11], [3e12, 15e11]),
        ([1e12, 5e11], [1e-9, 1.0]),
        ([3.0, 5.0], [1.5, 2.5]),
        ([1e-5, 1e-4, 2.0], [1e-6, 3e-4, 2.0]),
        ([0.5, 1e6], [0.5 + 2**-30, 1e6 - 2**-10]),
        (np.arange(1.0, 1001.0), np.arange(1.0, 1001.0) + 2),
    ],
)
def test_dirichlet_kl_to_many_digits(u, v) -> None:
    assert float(dirichlet_kl(u, v)) == pytest.approx(mp_dirichlet_kl(u, v), rel=1e-10, abs=0)


def test_dirichlet_kl_is_the_integral() -> None:
    p, q = beta(2.5, 1.5), beta(1.2, 3.0)
    integral, _ = quad(lambda x: p.pdf(x) * (p.logpdf(x) - q.logpdf(x)), 0, 1, limit=200)
    assert float(dirichlet_kl([2.5, 1.5], [1.2, 3.0])) == pytest.approx(integral, rel=1e-7)


def test_dirichlet_kl_of_many_rows() -> None:
    u = np.random.default_rng(8).gamma(2.0, size=(5, 1, 4))
    v = np.random.default_rng(9).gamma(2.0, size=(3, 4))
    together = dirichlet_kl(u, v)
    assert together.shape == (5, 3)
    assert together[4, 1] == pytest.approx(float(dirichlet_kl(u[4, 0], v[1])), rel=1e-12)
    assert (dirichlet_kl(u, u) == 0).all()


def exact_posterior_kl(p, n: int, alpha, alpha_new) -> float:
    """The sum over all counts of three cells."""
    counts = np.array([(i, j, n - i - j) for i in range(n + 1) for j in range(n + 1 - i)])
    chances = multinomial(n, p).pmf(counts)
    return float(chances @ dirichlet_kl(counts + alpha, counts + alpha_new))


@pytest.mark.parametrize("p", [[0.2, 0.3, 0.5], [0.001, 0.009, 0.99], [1.0, 0.0, 0.0]], ids=str)
@pytest.mark.parametrize("n", [1, 10, 60])
def test_theorem_6(p, n: int) -> None:
    """Against the exact mean, with growing, shrinking and mixed priors."""
    ones = np.ones(3)
    for alpha, new in [(ones, 3 * ones), (5 * ones, ones), (np.array([1, 2, 9]), [1.1, 1, 9])]:
        exact = exact_posterior_kl(p, n, alpha, np.array(new))
        bound = expected_posterior_kl(p, n_records=n, alpha=alpha, alpha_new=new)
        assert exact <= bound
        if min(p) > 0:
            change = np.array(new) - alpha
            assert bound <= (change**2 / np.array(p)).sum() / (n + 1) * (1 + 1e-12)


def test_theorem_6_loses_no_more_than_it_must() -> None:
    """It is twice the truth for many records; with a prior of 1/2 it would not hold."""
    p, change = np.array([0.3, 0.7]), 0.1
    n = 2000
    x = np.arange(n + 1)
    counts = np.stack([x, n - x], 1)
    exact = binom(n, 0.3).pmf(x) @ dirichlet_kl(counts + 1, counts + np.array([1 + change, 1]))
    bound = expected_posterior_kl(p, n_records=n, alpha=1, alpha_new=[1 + change, 1])
    assert 2 < bound / exact < 4
    inverse = binom(n, 0.3).pmf(x) @ (1 / (x + 1))
    assert bound == pytest.approx(change**2 * inverse, rel=1e-9)
    p = np.array([1e-6, 1 - 1e-6])
    little = float(dirichlet_kl([0.5, 1.5], [0.6, 1.5]))
    assert little > expected_posterior_kl(p, n_records=1, alpha=1, alpha_new=[1.1, 1])


def test_simplex_variance() -> None:
    p = np.array([0.2, 0.3, 0.5])
    exact = [beta(12 * x, 12 * (1 - x)).var() for x in p]
    assert simplex_variance(p, 12.0) == pytest.approx(exact)
    assert simplex_variance(0.5, 24.0) == pytest.approx(1 / (4 * 25))
    assert (simplex_variance(np.linspace(0.01, 0.99, 99), 24.0) <= 0.01 * (1 + 1e-14)).all()


# Refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", NOT_POSITIVE)
def test_what_must_be_positive(value: float) -> None:
    for name in ("total_weight", "alpha"):
        with pytest.raises(ValueError, match=f"{name} must be"):
            kl_quantile(0.1, **ROW | {name: value})
        with pytest.raises(ValueError, match=f"{name} must be"):
            l2_quantile(0.1, **ROW | {name: value})
    for name in ("weight", "alpha", "eta"):
        with pytest.raises(ValueError, match=f"{name} must be"):
            kl_sample_size(**RELEASE | {"eta": 0.1, "failure": 0.1} | {name: value})
    with pytest.raises(ValueError, match="eta must be"):
        kl_tail([0.1, value], **ROW)
    for name in ("n_records", "sigma"):
        good = {"n_records": 10.0, "n_cells": 2, "sigma": 1.0}
        with pytest.raises(ValueError, match=f"{name} must be"):
            gaussian_l2_quantile(0.1, **good | {name: value})
    with pytest.raises(ValueError, match="u must be"):
        dirichlet_kl([1.0, value], [1.0, 1.0])
    with pytest.raises(ValueError, match="v must be"):
        dirichlet_kl([1.0, 1.0], [1.0, value])
    with pytest.raises(ValueError, match="weight must be"):
        simplex_variance(0.5, value)


@pytest.mark.parametrize("value", NOT_A_PROBABILITY)
def test_what_must_be_a_probability(value: float) -> None:
    with pytest.raises(ValueError, match="failure must be"):
        kl_quantile([0.1, value], **ROW)
    with pytest.raises(ValueError, match="failure must be"):
        l2_quantile([0.1, value], **ROW)
    with pytest.raises(ValueError, match="failure must be"):
        gaussian_l2_quantile([0.1, value], n_records=10, n_cells=2, sigma=1.0)
    with pytest.raises(ValueError, match="failure must be"):
        kl_sample_size(**RELEASE, eta=0.1, failure=value)
    with pytest.raises(ValueError, match="p must be"):
        simplex_variance([0.5, value], 1.0)


@pytest.mark.parametrize("value", [1, 0, 2.5, "3"])
def test_what_must_be_a_number_of_cells(value: object) -> None:
    with pytest.raises(ValueError, match="n_cells must be"):
        kl_tail(0.1, **ROW | {"n_cells": value})
    with pytest.raises(ValueError, match="n_cells must be"):
        l2_quantile(0.1, **ROW | {"n_cells": value})


@pytest.mark.slow
def test_outside_the_assumptions() -> None:
    with pytest.raises(ValueError, match=r"alpha must be >= 0\.5, got 0\.49"):
        kl_quantile(0.1, **ROW | {"alpha": 0.49}, bound="dkl")
    with pytest.raises(ValueError, match=r"alpha must be >= 0\.788675.*got 0\.6.*lambert"):
        kl_quantile(0.1, **ROW | {"alpha": 0.6})
    with pytest.raises(ValueError, match="bound must be one of 'vertex', 'lambert', 'dkl'"):
        kl_tail(0.1, **ROW, bound="exact")
    with pytest.raises(ValueError, match=r"eta must be one that .* got 1e-90"):
        kl_sample_size(**RELEASE, eta=1e-90, failure=0.1)
    for p in ([0.5, 0.6], [1.0], [-0.1, 1.1], [math.nan, 1.0], [[0.5, 0.5]]):
        with pytest.raises(ValueError, match="p must be frequencies"):
            expected_posterior_kl(p, n_records=5, alpha=1, alpha_new=2)
    for name, value in itertools.product(("alpha", "alpha_new"), (0.5, [1, 0.9], [1, 1, 1])):
        priors = {"alpha": 1, "alpha_new": 2} | {name: value}
        with pytest.raises(ValueError, match=f"{name} must be"):
            expected_posterior_kl([0.5, 0.5], n_records=5, **priors)
    with pytest.raises(ValueError, match="n_records must be"):
        expected_posterior_kl([0.5, 0.5], n_records=0, alpha=1, alpha_new=2)
    with pytest.raises(ValueError, match="u must be one row"):
        dirichlet_kl(1.0, 2.0)


def test_edges_are_finite_and_shaped() -> None:
    weights = np.array([1e-12, 1.0, 1e15])
    for bound in BOUNDS:
        etas = kl_quantile(
            [[0.1], [1e-300]], total_weight=weights, alpha=1.0, n_cells=3, bound=bound
        )
        assert etas.shape == (2, 3)
        assert (etas > 0).all()
        assert not np.isnan(etas).any()
        tails = kl_tail([[1e-15], [1e10]], total_weight=weights, alpha=1.0, n_cells=3, bound=bound)
        assert ((tails >= 0) & (tails <= 1)).all()
    assert l2_quantile(1e-300, total_weight=1e-12, alpha=1e-3, n_cells=2) == math.sqrt(2)
    mean = 2 / (1e15 + 2)  # of −log y at a vertex, to fifteen digits
    assert mean < kl_quantile(0.999, total_weight=1e15, alpha=1.0, n_cells=3) < 1.1 * mean


def test_the_largest_prior_of_all_leaves_a_finite_distance() -> None:
    with np.errstate(all="raise"):
        found = l2_quantile(0.1, total_weight=50.0, alpha=1.7e308, n_cells=4)
    assert found == pytest.approx(np.sqrt(1 - 1 / 4))
