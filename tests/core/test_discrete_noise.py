"""The samplers of discrete noise: their laws, and the exact comparisons behind them.

Each law is tested by chi-squared on 400,000 draws with false-alarm rate 1e-6; the same test
rejects draws whose parameter is 5 % off. The comparisons are tested with a float so coarse that
most decisions fall to exact fractions.
"""

import math
from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from privrl.numerics import discrete_gaussian as gaussians
from privrl.numerics import discrete_noise
from privrl.numerics.discrete_gaussian import discrete_gaussian, exp_minus, gaussian_on_grid
from privrl.numerics.discrete_noise import check_drawable, discrete_laplace

Array = np.ndarray
Draw = Callable[..., Array]
DRAWS = 400_000
FALSE_ALARM = 1e-6

both = pytest.mark.parametrize("draw", [discrete_gaussian, discrete_laplace])


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def log_weight(draw: Draw, x: Array, size: float) -> Array:
    return -((x / size) ** 2) / 2 if draw is discrete_gaussian else -np.abs(x) / size


def p_value(draw: Draw, drawn: Array, size: float) -> float:
    """Chi-squared of draws against the law, in bins that are expected to hold 50 or more."""
    reach = int(60 * size) + 3
    x = np.arange(-reach, reach + 1)
    law = np.exp(log_weight(draw, x, size))
    expected = law / law.sum() * len(drawn)
    seen = np.bincount(np.clip(drawn, -reach, reach) + reach, minlength=len(x))
    bins = np.floor(np.cumsum(expected) / 50 / max(1, 2 * reach // 400)).astype(int)
    groups = np.unique(bins, return_inverse=True)[1]
    want, have = (np.bincount(groups, each) for each in (expected, seen))
    # bins of less than 50 join the one before
    small = want < 50
    while small.any() and len(want) > 1:
        at = int(np.argmax(small))
        to = at - 1 if at else 1
        want[to] += want[at]
        have[to] += have[at]
        want, have = np.delete(want, at), np.delete(have, at)
        small = want < 50
    return float(stats.chisquare(have, want * have.sum() / want.sum()).pvalue)


@pytest.mark.few(6)
@both
@pytest.mark.parametrize("size", [0.3, 0.5, 1.0, 1.7, 10.0, 33.3])
def test_law(draw: Draw, size: float) -> None:
    drawn = draw(size, DRAWS, rng(int(100 * size)))
    assert p_value(draw, drawn, size) > FALSE_ALARM


@pytest.mark.few(12)
@both
@pytest.mark.parametrize("size", [0.5, 1.7, 33.3])
@pytest.mark.parametrize("wrong", [1.05, 1 / 1.05])
def test_the_test_has_power(draw: Draw, size: float, wrong: float) -> None:
    drawn = draw(size * wrong, DRAWS, rng(1))
    assert p_value(draw, drawn, size) < FALSE_ALARM


@pytest.mark.slow
@both
@pytest.mark.parametrize("size", [1e5, 2.0**40, 123456789.123])
def test_law_of_much_noise(draw: Draw, size: float) -> None:
    """Kolmogorov and Smirnov against the law on the line, from which nobody could tell it."""
    drawn = draw(size, DRAWS, rng(2)) / size
    law = stats.norm if draw is discrete_gaussian else stats.laplace
    jittered = drawn + rng(3).uniform(-0.5, 0.5, DRAWS) / size
    assert stats.kstest(jittered, law.cdf).pvalue > FALSE_ALARM
    assert stats.kstest(jittered * 1.05, law.cdf).pvalue < FALSE_ALARM
    assert 0.49 < (draw(size, DRAWS, rng(4)) % 2).mean() < 0.51


def test_law_between_two_places_of_the_table() -> None:
    """It falls by a fortieth on the way: a mean 0.0021 below a half, seven deviations of 10^6."""
    sigma, length = 2.0**39, 2.0**34
    place = np.abs(discrete_gaussian(sigma, 1_000_000, rng(12))) / length % 1
    falls = math.sqrt(2 / math.pi) * length / sigma
    assert abs(place.mean() - (0.5 - falls / 12)) < 5 * math.sqrt(1 / 12 / 1_000_000)
    assert falls / 12 > 6 * math.sqrt(1 / 12 / 1_000_000)


@both
def test_tiny_noise_is_zero(draw: Draw) -> None:
    assert not draw(1e-3, 100_000, rng()).any()


@pytest.mark.slow
@both
@pytest.mark.parametrize("size", [0.4, 1.3, 20.0])
def test_law_where_fractions_decide(
    draw: Draw, size: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One decision in five or more is left to fractions, and the law stays what it is."""
    asked = []
    module = gaussians if draw is discrete_gaussian else discrete_noise
    name = "is_below" if draw is discrete_gaussian else "_is_below"
    inner = getattr(module, name)

    def counted(*arguments: object) -> bool:
        asked.append(arguments)
        return bool(inner(*arguments))

    monkeypatch.setattr(module, "_SLACK", 0.2)
    monkeypatch.setattr(module, name, counted)
    drawn = draw(size, 20_000, rng(7))
    assert len(asked) > 4_000
    assert p_value(draw, drawn, size) > FALSE_ALARM


def test_choices_by_gap_where_fractions_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    gaps = np.array([0.3, 0.0, 2.0, 1.0, 0.0])
    monkeypatch.setattr(discrete_noise, "_SLACK", 0.2)
    seen = np.bincount(discrete_noise.choices_by_gap(gaps, 3_000, rng(3)), minlength=5)
    law = np.exp(-gaps)
    assert stats.chisquare(seen, law / law.sum() * 3_000).pvalue > FALSE_ALARM


def test_choices_by_gap() -> None:
    """A law whose gaps are 5 % larger is found out."""
    gaps = np.array([0.3, 0.0, 2.0, 1.0, 0.0])
    seen = np.bincount(discrete_noise.choices_by_gap(gaps, DRAWS, rng(4)), minlength=5)
    law, wrong = (np.exp(-gaps * part) for part in (1, 1.05))
    assert stats.chisquare(seen, law / law.sum() * DRAWS).pvalue > FALSE_ALARM
    assert stats.chisquare(seen, wrong / wrong.sum() * DRAWS).pvalue < FALSE_ALARM


def test_floats_and_fractions_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every float that stands for a probability is within the stated distance of it."""
    inner = discrete_noise._bernoulli
    worst = []

    def checked(p: Array, exactly: Callable[[int], Fraction], generator: np.random.Generator):
        for i in range(0, len(p), max(1, len(p) // 5)):
            worst.append(abs(Fraction(float(p[i])) - exactly(i)))
        return inner(p, exactly, generator)

    monkeypatch.setattr(discrete_noise, "_bernoulli", checked)
    for size in (1e-3, 0.1, 1 / 3, math.pi, 1e6 / 7, 2.0**40 - 1 / 7, 2.0**40):
        discrete_laplace(size, 3000, rng(1))
    assert len(worst) > 300
    assert max(worst) < Fraction(1, 2**47)  # the slack is four times that


@pytest.mark.parametrize("size", [1e-3, 0.3, math.pi, 47.0, 1e6 / 7, 2.0**40 - 1 / 7, 2.0**46])
def test_a_table_is_no_less_than_the_law_and_sums_to_one(size: float) -> None:
    """All by fractions: shares, what is left of each, and its float within a quarter of slack."""
    table = gaussians._table(size, 2.0**-43)
    ends = np.cumsum([*table.shares.tolist(), 1])
    assert [Fraction(float(end)) for end in table.ends] == [Fraction(int(e), 2**53) for e in ends]
    assert 1 - Fraction(1, 2**29) < Fraction(int(ends[-1]), 2**53) < 1
    for k in {0, 1, len(ends) // 9, len(ends) // 2, len(ends) - 2}:
        g = Fraction(k * table.length) ** 2 / (2 * Fraction(size) ** 2)
        low, high = (table.constant * e * 2**53 / int(table.shares[k]) for e in exp_minus(g, 400))
        assert high <= 1
        assert abs(Fraction(float(table.factors[k])) - low) < Fraction(1, 2**45)
        last = Fraction((k + 1) * table.length - 1) ** 2 / (2 * Fraction(size) ** 2)
        least = exp_minus(last, 400)[0] * table.constant * 2**53 / int(table.shares[k])
        assert Fraction(float(table.surely[k])) < least
    # Beyond the table a block has half the chance of the one before, and more than the law has.
    for block in range(3):
        k = len(table.shares) + block * table.rest
        g = Fraction(k * table.length) ** 2 / (2 * Fraction(size) ** 2)
        assert table.constant * exp_minus(g, 400)[1] < Fraction(1, 2 ** (54 + block) * table.rest)


class Beyond:
    """A generator that points beyond the table, and then goes on as an ordinary one does."""

    def __init__(self, where: float, known: float, seed: int) -> None:
        self.next, self.others = [where, known], rng(seed)

    def random(self, size: int) -> Array:
        return np.full(size, self.next.pop(0))

    def integers(self, *arguments: int, **named: int) -> Array:
        return self.others.integers(*arguments, **named)


@pytest.mark.parametrize("size", [0.7, 5.0, 3000.0])
def test_what_is_beyond_the_table_is_drawn_from_blocks(
    size: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each half as likely as the one before; taken if a uniform number is small enough."""
    table = gaussians._table(size, gaussians._SLACK)
    n = len(table.shares)
    with monkeypatch.context() as patch:
        patch.setattr(gaussians, "is_below", lambda *_: True)
        x = gaussians._candidates(size, table, 4000, Beyond(float(table.ends[n - 1]), 0.0, 1))
    k = np.abs(x) // table.length
    assert len(k) == 4000
    assert k.min() == n
    block = (k - n) // table.rest
    assert abs((block == 0).mean() - 0.5) < 5 * 0.5 / math.sqrt(4000)
    assert abs((block == 1).mean() - 0.25) < 5 * 0.5 / math.sqrt(4000)
    assert len(np.unique((k - n) % table.rest)) == table.rest
    for where, known in ((table.ends[n - 1], 0.5), (table.ends[n], 0.0)):  # too far, and nothing
        beyond = Beyond(float(where), known, 2)
        assert not gaussians._candidates(size, table, 100, beyond).size


@pytest.mark.parametrize("g", [Fraction(0), Fraction(1, 3), Fraction(58), Fraction(10**6, 7)])
@pytest.mark.parametrize("bits", [60, 300])
def test_exponentials_are_enclosed(g: Fraction, bits: int) -> None:
    """Against mpmath with ten times the digits."""
    low, high = exp_minus(g, bits)
    with mpmath.workdps(1000):
        true = mpmath.exp(-mpmath.mpf(g.numerator) / g.denominator)
        assert mpmath.mpf(low.numerator) / low.denominator <= true
        assert true <= mpmath.mpf(high.numerator) / high.denominator
    assert high - low <= Fraction(1, 2**bits)


@pytest.mark.parametrize("sigma", [0.3, 4.0, 2.0**30, 2.0**46])
def test_noise_on_a_grid_is_a_little_louder(sigma: float) -> None:
    """By 40 grains squared in variance; within 5 deviations of 200,000 draws."""
    drawn = gaussian_on_grid(sigma, 200_000, rng(11))
    assert drawn.dtype == np.float64
    np.testing.assert_array_equal(drawn, np.rint(drawn))
    wanted = sigma**2 + 41
    assert abs((drawn**2).mean() / wanted - 1) < 5 * math.sqrt(2 / 200_000)
    with pytest.raises(ValueError, match=r"sigma must be > 0 and at most 2\*\*46 grains"):
        gaussian_on_grid(2.0**46 * 1.01, 3, rng())


def test_sums_of_gaussians_over_whole_numbers_hardly_depend_on_their_centre() -> None:
    """The step on which the proof for noise on a grid rests, at 400 digits."""
    with mpmath.workdps(400):
        t = mpmath.mpf(40)
        bound = mpmath.exp(-2 * mpmath.pi**2 * t)
        assert 7 * bound < mpmath.mpf(10) ** -341
        for c in (0, mpmath.mpf(1) / 7, mpmath.mpf(1) / 2):
            theta = mpmath.fsum(mpmath.exp(-((x - c) ** 2) / (2 * t)) for x in range(-300, 301))
            assert abs(theta / mpmath.sqrt(2 * mpmath.pi * t) - 1) < 3 * bound


def least_needed(sigma: float) -> float:
    """How far delta of the noise on the grid is above that of the Gaussian, at the most."""
    shift = math.ceil(sigma) if sigma > 1 else 1
    x = np.arange(-600, 601 + shift)
    law = np.exp(-(x**2) / (2 * (sigma**2 + 41)))
    p, q = law / law.sum(), np.roll(law, shift) / law.sum()
    epsilons = np.linspace(0, 3, 31)
    mu = shift / sigma
    normal = stats.norm.cdf(mu / 2 - epsilons / mu) - np.exp(epsilons) * stats.norm.cdf(
        -mu / 2 - epsilons / mu
    )
    drawn = np.array([np.maximum(q - np.exp(e) * p, 0).sum() for e in epsilons])
    return float((drawn - normal).max())


def test_delta_of_noise_on_a_grid_is_never_above_the_gaussian_s() -> None:
    """Where the grid is as coarse as the noise, without the 40 it would be."""
    assert max(map(least_needed, (0.5, 1.0, 4.0, 16.0))) <= 0


class Bits:
    """A generator whose next bits are known."""

    def __init__(self, *words: int) -> None:
        self.words = list(words)

    def integers(self, high: int) -> int:
        assert high == 1 << 32
        return self.words.pop(0)


def test_a_comparison_draws_bits_until_there_is_no_doubt() -> None:
    is_below = discrete_noise._is_below
    third = Fraction(1, 3)
    known = float(Fraction(int(third * 2**53), 2**53))  # the first 53 bits of a third
    more = int(third * 2**85) % 2**32  # and the next 32
    assert is_below(known, third, Bits(more - 1))
    assert not is_below(known, third, Bits(more + 1))
    after = int(third * 2**117) % 2**32
    assert is_below(known, third, Bits(more, after - 1))
    assert not is_below(known, third, Bits(more, after + 1))
    for at_once in (0.25, 0.5):
        assert is_below(at_once, Fraction(3, 4), Bits())
        assert not is_below(at_once, Fraction(1, 5), Bits())
    assert not is_below(0.5, Fraction(1, 2), Bits())  # a half is not below a half


@pytest.mark.parametrize("g", [0.0, 0.3, 1.0, 1.5, 4.0])
def test_bernoulli_exp(g: float) -> None:
    """200,000 decisions, within five standard deviations."""
    fraction = Fraction(g)
    came = discrete_noise._bernoulli_exp(np.full(200_000, g), lambda _: fraction, rng(5))
    p = math.exp(-g)
    assert abs(came.mean() - p) <= 5 * math.sqrt(p * (1 - p) / 200_000)


@both
@pytest.mark.parametrize("shape", [0, 5, (), (3, 0), (2, 3, 4)])
def test_shape_and_type(draw: Draw, shape: int | tuple[int, ...]) -> None:
    drawn = draw(3.0, shape, rng())
    assert drawn.shape == ((shape,) if isinstance(shape, int) else shape)
    assert drawn.dtype == np.int64


@both
def test_same_seed_same_draws(draw: Draw) -> None:
    np.testing.assert_array_equal(draw(3.0, 100, rng(1)), draw(3.0, 100, rng(1)))
    assert (draw(3.0, 100, rng(1)) != draw(3.0, 100, rng(2))).any()


@both
def test_draws_are_independent_of_their_place(draw: Draw) -> None:
    """Neighbours, halves and what follows a chunk: correlations within 5/sqrt(n)."""
    drawn = draw(2.0, 600_000, rng(9)).astype(np.float64)
    for lag in (1, 2, 1000, 262_144):
        r = np.corrcoef(drawn[:-lag], drawn[lag:])[0, 1]
        assert abs(r) < 5 / math.sqrt(len(drawn) - lag)


@both
@pytest.mark.parametrize(
    "size", [0.0, 0.999e-3, -1.0, np.nan, np.inf, 2.0**40 * 1.001, True, "1", None]
)
def test_bad_sizes_are_refused(draw: Draw, size: float) -> None:
    with pytest.raises(ValueError, match=r"(sigma|scale) must be a number >= 0.001 and <= 2\*\*40"):
        draw(size, 3, rng())


@both
def test_bad_shapes_are_refused(draw: Draw) -> None:
    with pytest.raises(ValueError, match="each length in shape"):
        draw(1.0, (2, -1), rng())


def test_ends_of_the_range_can_be_drawn_with() -> None:
    assert check_drawable("scale", 2**40) == 2.0**40
    assert check_drawable("scale", np.float64(1e-3)) == 1e-3
