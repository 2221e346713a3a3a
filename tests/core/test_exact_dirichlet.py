"""Logarithms of gammas, rounded exactly: their law, and what is decided with more digits.

Kolmogorov and Smirnov on 100,000 draws with false-alarm rate 1e-6; the same test rejects draws
whose shape is 5 % off.
"""

import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import special, stats

from privrl.costs import AddRemoveRecord
from privrl.mechanisms import DirichletMechanism
from privrl.numerics import exact_dirichlet
from privrl.numerics.exact_dirichlet import posterior_rows, rounded_log_gammas

N, FALSE_ALARM = 100_000, 1e-6


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def drawn(shape: float, size: int = N, seed: int = 1) -> np.ndarray:
    return rounded_log_gammas(np.full(size, shape), lambda _: Fraction(shape), rng(seed))


def p_value(logs: np.ndarray, shape: float) -> float:
    law = stats.gamma(shape).cdf
    return float(stats.kstest(np.exp(logs), lambda x: law(np.asarray(x))).pvalue)


@pytest.mark.parametrize("shape", [0.05, 0.3, 0.999, 1.0, 1.7, 10.0, 1e4, 1e8])
def test_law(shape: float) -> None:
    assert p_value(drawn(shape), shape) > FALSE_ALARM


@pytest.mark.few(6)
@pytest.mark.parametrize("shape", [0.3, 1.0, 10.0])
@pytest.mark.parametrize("wrong", [0.95, 1.05])
def test_the_test_has_power(shape: float, wrong: float) -> None:
    assert p_value(drawn(shape * wrong), shape) < FALSE_ALARM


def test_law_of_tiny_shapes() -> None:
    """``a log G`` is minus an exponential but for a part in a thousand, where ``a`` is 1e-6."""
    assert stats.kstest(-1e-6 * drawn(1e-6), stats.expon.cdf).pvalue > FALSE_ALARM
    assert stats.kstest(-1.05e-6 * drawn(1e-6), stats.expon.cdf).pvalue < FALSE_ALARM


@pytest.mark.slow
@pytest.mark.parametrize("shape", [0.3, 1.5, 40.0])
def test_law_where_digits_decide(shape: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 4,000 draws all are left to as many digits as it takes, and the law is the same."""
    monkeypatch.setattr(exact_dirichlet, "_SLACK", 1e3)
    asked: list[Any] = []
    inner = exact_dirichlet._outcome

    def counted(*arguments: Any, small: bool) -> Any:
        asked.append(arguments)
        return inner(*arguments, small=small)

    monkeypatch.setattr(exact_dirichlet, "_outcome", counted)
    assert p_value(drawn(shape, 4000), shape) > FALSE_ALARM
    assert len(asked) >= 4000


@pytest.mark.few(9)
@pytest.mark.parametrize("shape", [1e-9, 0.3, 1.0, 1.5, 40.0, 1e5, 1e12, 1e30])
def test_floats_and_digits_agree(shape: float) -> None:
    """What floats decide without a doubt is what 40 digits or more decide."""
    u = rng(3).random((3, 400))
    u[0, :40] **= 8  # and where numbers are extreme
    u[0, 40:80] = 1 - u[0, 40:80] ** 8
    u = np.floor(u * 2**53) / 2**53
    doubts: list[Any] = []
    accepted, values = exact_dirichlet._candidates(
        np.full(400, shape), u, lambda _, known: doubts.append(known)
    )
    assert len(doubts) < 40
    for i in range(400):
        known = [int(x * 2**53) for x in u[:, i]]
        if known not in doubts and min(known) >= 8:
            outcome = exact_dirichlet._outcome(Fraction(shape), known, rng(4), small=shape < 1)
            assert accepted[i] == (outcome is not None)
            assert outcome is None or outcome == values[i]


class Low(np.random.Generator):
    """Has numbers of a tail first, in which floats leave most gammas in doubt."""

    tail, begun = 18.5, False

    def random(self, size: Any = None, *_: Any, **__: Any) -> Any:
        u = super().random(size)
        if not self.begun:
            u[0, ::2] = np.floor(u[0, ::2] * math.exp(-self.tail) * 2**53) / 2**53
            self.begun = True
        return u


@pytest.mark.parametrize(("weight", "alpha", "count"), [(0.125, 0.625, 3), (0.1, 0.7, 3)])
def test_a_shape_that_rounds_to_one_has_the_tail_of_one(
    weight: float, alpha: float, count: int
) -> None:
    """Exactly it may be below 1, for which there is another sampler: a draw is of one of them.

    Of 60 there are 33 to 53 in a run of a million (binomial, .69), and none where both are used.
    """
    exact = Fraction(weight) * count + Fraction(alpha)
    assert weight * count + alpha == 1 >= exact
    mechanism = DirichletMechanism(weight=weight, alpha=alpha, relation=AddRemoveRecord())
    many = np.tile([count, 1e9], (60, 1))
    rows = mechanism.release(many, Low(np.random.PCG64(3)))
    logs = np.log(rows[:, 0]) + math.log(1e9 * weight)
    assert 25 <= (logs < 0.01 - Low.tail).sum() <= 56


@pytest.mark.parametrize(("weight", "alpha", "count"), [(0.1, 0.7, 3), (0.3, 0.7, 1)])
def test_near_one_floats_and_digits_agree(weight: float, alpha: float, count: int) -> None:
    exact = Fraction(weight) * count + Fraction(alpha)
    assert exact < 1
    u = np.floor(rng(3).random((3, 400)) * 2**53) / 2**53
    doubts: list[Any] = []
    accepted, values = exact_dirichlet._candidates(
        np.ones(400), u, lambda _, known: doubts.append(known)
    )
    assert len(doubts) < 40
    for i in range(400):
        known = [int(x * 2**53) for x in u[:, i]]
        if known not in doubts:
            outcome = exact_dirichlet._outcome(exact, known, rng(4), small=False)
            assert accepted[i] == (outcome is not None)
            assert outcome is None or outcome == values[i]


@pytest.mark.parametrize("shape", [0.51, 0.75, 0.9999999])
def test_cheng_bounds_shapes_a_little_below_one(shape: float) -> None:
    """The margin without U₂, of every V: nowhere above 0, so that no candidate is cut."""
    v = np.concatenate([-np.geomspace(1e-3, 300, 4000), np.geomspace(1e-3, 30, 4000)])
    turned = math.sqrt(2 * shape - 1) * v
    margin = -shape * (np.expm1(v) - v) + 2 * np.log(np.cosh(turned / 2))
    assert (margin < 0).all()


@pytest.mark.parametrize("shape", [1e-9, 0.3, 1.0, 40.0, 1e5])
def test_a_few_one_by_one_are_what_many_are(shape: float) -> None:
    """But for those in doubt; extreme numbers are among them."""
    u = rng(3).random((3, 400))
    u[:, :30] **= 20
    shapes = shape * rng(4).uniform(0.5, 2, 400)
    (accepted, values, doubts), (few, rounded, doubted) = (
        way(shapes, u) for way in (exact_dirichlet._in_floats, exact_dirichlet._one_by_one)
    )
    sure = np.setdiff1d(np.arange(400), np.union1d(doubts, doubted))
    assert len(sure) > 350
    np.testing.assert_array_equal(accepted[sure], few[sure])
    np.testing.assert_array_equal(values[sure], rounded[sure])
    assert set(doubts) == set(doubted)


@pytest.mark.few(9)
@pytest.mark.parametrize("shape", [0.3, 1.0, 7.5, 1e6])
@pytest.mark.parametrize("count", [53, 117])
def test_what_is_said_to_be_unknown_covers_what_is(shape: float, count: int) -> None:
    """Moving uniform numbers within what is known of them moves both by less than is said."""
    exact, numbers = Fraction(shape), rng(5)
    for _ in range(20):
        known = [int(x * 2**53) << (count - 53) for x in numbers.uniform(0.01, 0.99, 3)]
        middle = exact_dirichlet._evaluated(exact, known, count, small=exact < 1)
        for corner in range(8):
            # the ends of the intervals, as middles of far finer ones
            ends = [(k + (corner >> j & 1)) << 60 for j, k in enumerate(known)]
            end = exact_dirichlet._evaluated(exact, ends, count + 60, small=exact < 1)
            assert abs(end.margin - middle.margin) <= middle.margin_off
            assert abs(end.value - middle.value) <= middle.value_off


@pytest.mark.parametrize("shape", [0.4, 1.0, 3.3, 1e5])
def test_a_candidate_is_what_the_paper_says(shape: float) -> None:
    """Cheng's acceptance, by 50 digits from its densities: target over envelope over U."""
    known, count = [3 << 50, 5 << 49, 7 << 49], 53
    candidate = exact_dirichlet._evaluated(Fraction(shape), known, count, small=shape < 1)
    with mpmath.workdps(50):
        u = [mpmath.mpf(2 * k + 1) / 2 ** (count + 1) for k in known]
        a = mpmath.mpf(shape) + (shape < 1)
        root = mpmath.sqrt(2 * a - 1)
        v = mpmath.log(u[0] / (1 - u[0])) / root

        def log_ratio(v: Any) -> Any:
            target = a * v - a * mpmath.exp(v)  # of log(G / A), but for a constant
            envelope = root * v - 2 * mpmath.log(1 + mpmath.exp(root * v))
            return target - envelope

        margin = log_ratio(v) - log_ratio(mpmath.mpf(0)) - mpmath.log(u[1])
        assert abs(float(candidate.margin) - float(margin)) < 1e-12
        value = mpmath.log(a) + v + (mpmath.log(u[2]) / shape if shape < 1 else 0)
        assert abs(float(candidate.value) - float(value)) < 1e-12 * abs(float(value))


def test_the_envelope_is_above_the_density() -> None:
    """For shapes from 1 on, over all of the line: no candidate has a chance above 1."""
    shapes = np.concatenate([[1.0], 1 + np.geomspace(1e-6, 1e6, 200)])[:, None]
    root = np.sqrt(2 * shapes - 1)
    v = np.concatenate([-np.geomspace(1e-7, 60, 4000), np.geomspace(1e-7, 20, 4000)]) / 1.0
    bent = shapes * special.exprel(v) * v - shapes * v  # A (exp(V) − 1 − V)
    bent = np.where(np.abs(v) < 1e-3, shapes * v**2 * (0.5 + v / 6 + v**2 / 24), bent)
    z = root * v / 2
    cosh = np.abs(z) + np.log1p(np.exp(-2 * np.abs(z))) - math.log(2)
    cosh = np.where(np.abs(z) < 1e-2, z**2 / 2 - z**4 / 12 + z**6 / 45, cosh)
    assert (bent - 2 * cosh > 0).all()
    with pytest.raises(AssertionError):  # a steeper one is not
        assert (bent - 2 * np.log(np.cosh(np.clip(1.3 * z, -300, 300))) > -1e-12).all()


@pytest.mark.parametrize(
    ("value", "rounded"),
    [(0.3, 30), (-0.3, 30), (1.7, 29), (-5.0, 27), (1e6 + 0.123, 10), (-1e15 - 0.3, -20)],
)
def test_rounding_is_to_thirty_bits(value: float, rounded: int) -> None:
    exact = exact_dirichlet._rounded(Fraction(value))
    assert (exact * Fraction(2) ** rounded).denominator == 1
    assert abs(exact - Fraction(value)) <= Fraction(2) ** -(rounded + 1)
    logs = drawn(2.0, 1000)
    assert all(exact_dirichlet._rounded(Fraction(x)) == Fraction(x) for x in logs)


def test_rows_are_posteriors_and_shapes_are_not_rounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beta marginals of 50,000 rows; and an exact shape where a float would not hold it."""
    counts = np.tile([3.0, 0.0, 5.0], (50_000, 1))
    rows = posterior_rows(counts, np.asarray(0.5), np.array([1.0, 0.4, 2.0]), rng(6))
    np.testing.assert_allclose(rows.sum(1), 1, rtol=1e-14)
    for cell, shape in enumerate([2.5, 0.4, 4.5]):
        law = stats.beta(shape, 7.4 - shape).cdf
        assert stats.kstest(rows[:, cell], law).pvalue > FALSE_ALARM
    seen: list[Any] = []
    monkeypatch.setattr(
        exact_dirichlet,
        "rounded_log_gammas",
        lambda shapes, exactly, _: [seen.append([exactly(i) for i in range(len(shapes))]), shapes][
            1
        ],
    )
    posterior_rows(np.array([[1.0, 2.0**52]]), np.asarray(0.1), np.asarray(1e-9), rng())
    assert seen[0][1] == Fraction(0.1) * 2**52 + Fraction(1e-9) != Fraction(0.1 * 2**52 + 1e-9)


@pytest.mark.parametrize("alpha", [1e-3, 1e-12, 1e-30])
def test_tiny_concentrations_give_proper_rows(alpha: float) -> None:
    """What underflows is 0 in a row that is a function of logarithms, and the rest sums to 1."""
    rows = posterior_rows(np.zeros((500, 4)), np.asarray(1.0), np.asarray(alpha), rng(7))
    assert ((rows >= 0) & (rows <= 1)).all()
    np.testing.assert_allclose(rows.sum(-1), 1, rtol=1e-12)
    assert np.isfinite(drawn(alpha, 1000)).all()


def test_uniform_numbers_that_are_zero_so_far_are_drawn_further() -> None:
    """53 bits of zeros, or of ones, once in 2^53 times."""
    for known in ([0, 0, 0], [2**53 - 1, 0, 3]):
        outcome = exact_dirichlet._outcome(Fraction(3, 10), known, rng(8), small=True)
        assert outcome is None or math.isfinite(outcome)
