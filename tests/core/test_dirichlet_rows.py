"""`dirichlet_rows` has Beta marginals, down to concentrations where plain sampling breaks.

The test statistic is the Kolmogorov-Smirnov distance over 1e-300 <= x <= 1 - 1e-12: outside,
a probability cannot be told from zero or one in floating point, and leaving values out only
makes the distance smaller. With N = 200,000 rows the distance of a correct sampler exceeds
0.00602 with a chance of at most 1e-6 (Dvoretzky, Kiefer, Wolfowitz and Massart). A sampler
whose concentration is 5 % off is at a distance of at least 0.01.
"""

import math

import numpy as np
import pytest
from scipy import special

from privrl.numerics.dirichlet_rows import dirichlet_rows, row_maxima

N = 200_000
FALSE_ALARM = 1e-6
LIMIT = math.sqrt(math.log(2 / FALSE_ALARM) / (2 * N))
SMALLEST, LARGEST = 1e-300, 1 - 1e-12

SYMMETRIC = [1e-3, 0.02, 0.3, 0.999, 1.0, 20.0, 1e3]
MIXED = [(1e-3, 1.0, 1e3), (0.5, 0.01, 2.0, 0.3), (1e-3, 2e-3, 5e-3)]


def distance(sample: np.ndarray, a: float, b: float) -> float:
    """Kolmogorov-Smirnov distance from Beta(a, b), from SMALLEST to LARGEST."""
    x = np.sort(sample)
    inside = (x >= SMALLEST) & (x <= LARGEST)
    cdf = special.betainc(a, b, x[inside])
    steps = np.arange(len(x) + 1) / len(x)
    gaps = [np.abs(cdf - steps[1:][inside]), np.abs(cdf - steps[:-1][inside])]
    gaps += [abs(np.mean(x <= end) - special.betainc(a, b, end)) for end in (SMALLEST, LARGEST)]
    return float(max(np.max(gap, initial=0) for gap in gaps))


def sample(alpha: tuple[float, ...], seed: int) -> np.ndarray:
    table, rng = np.broadcast_to(alpha, (N, len(alpha))), np.random.default_rng(seed)
    return dirichlet_rows(table, rng, least=min(alpha))  # so that both ways are tried


@pytest.mark.few(12)
@pytest.mark.parametrize("alpha", [(a,) * 3 for a in SYMMETRIC] + MIXED, ids=str)
def test_marginals_are_beta(alpha: tuple[float, ...]) -> None:
    rows = sample(alpha, seed=11)
    for cell, a in enumerate(alpha):
        assert distance(rows[:, cell], a, sum(alpha) - a) < LIMIT


@pytest.mark.parametrize("alpha", [(0.05, 0.05, 0.05), (2.0, 7.0, 0.5), (100.0, 300.0, 5.0)])
def test_ratios_of_cells_are_beta(alpha: tuple[float, ...]) -> None:
    rows = sample(alpha, seed=12)
    known = rows[:, 0] + rows[:, 1] > 0  # both zero has a chance below 1e-9 here
    share = rows[known, 0] / (rows[known, 0] + rows[known, 1])
    assert distance(share, alpha[0], alpha[1]) < LIMIT


@pytest.mark.few(16)
@pytest.mark.parametrize("factor", [0.95, 1.05])
@pytest.mark.parametrize("alpha", SYMMETRIC)
def test_the_same_check_catches_a_concentration_five_percent_off(
    alpha: float, factor: float
) -> None:
    wrong = sample((alpha * factor,) * 3, seed=13)
    assert distance(wrong[:, 0], alpha, 2 * alpha) > LIMIT


@pytest.mark.parametrize("alpha", [1e-3, 1e-10, 1e-300, 1e-308, 5e-324])
@pytest.mark.parametrize("cells", [1, 2, 10])
def test_tiny_concentrations_give_proper_rows(alpha: float, cells: int) -> None:
    rows = dirichlet_rows(np.full((2000, cells), alpha), np.random.default_rng(14))
    assert np.all((rows >= 0) & (rows <= 1))
    np.testing.assert_allclose(rows.sum(axis=-1), 1, rtol=1e-12)


@pytest.mark.parametrize(
    "alpha", [(1e-6, 1e-6, 1e-6), (1e-9, 1e-7, 1e-7), (1e-300, 2e-300), (3e-306, 1e-306)]
)
def test_tiny_concentrations_choose_cells_in_proportion(alpha: tuple[float, ...]) -> None:
    """Each frequency is within Hoeffding's bound, with a false alarm of 1e-6 per cell."""
    rows = sample(alpha, seed=15)
    frequencies = np.mean(rows > 0.5, axis=0)
    weights = np.array(alpha) / max(alpha)
    np.testing.assert_allclose(frequencies, weights / weights.sum(), atol=LIMIT, rtol=0)


@pytest.mark.parametrize("alpha", [1e-3, 0.4, 3.0, 1e6, 1e300])
def test_rows_sum_to_one(alpha: float) -> None:
    rows = dirichlet_rows(np.full((500, 7), alpha), np.random.default_rng(16))
    np.testing.assert_allclose(rows.sum(axis=-1), 1, rtol=1e-14)


@pytest.mark.parametrize("shape", [(1,), (4,), (3, 4), (2, 1, 3, 5), (0, 4)])
def test_shape_is_kept(shape: tuple[int, ...]) -> None:
    rows = dirichlet_rows(np.ones(shape), np.random.default_rng(17))
    assert rows.shape == shape
    np.testing.assert_allclose(rows.sum(axis=-1), 1)


def test_rows_do_not_mix() -> None:
    alpha = np.array([[1e-6, 1e3, 1e-6], [1e3, 1e-6, 1e-6]])
    rows = dirichlet_rows(alpha, np.random.default_rng(18))
    assert rows.argmax(axis=-1).tolist() == [1, 0]


def test_rows_are_independent_of_each_other() -> None:
    """Correlation of two rows of one call: beyond 5 / sqrt(N) has a chance below 1e-6."""
    rows = dirichlet_rows(np.full((N, 2, 2), 0.7), np.random.default_rng(19))
    correlation = np.corrcoef(rows[:, 0, 0], rows[:, 1, 0])[0, 1]
    assert abs(correlation) < 5 / math.sqrt(N)


def test_the_generator_decides() -> None:
    draws = [
        dirichlet_rows(np.array([0.1, 2.0, 30.0]), np.random.default_rng(s)) for s in (1, 1, 2)
    ]
    np.testing.assert_array_equal(draws[0], draws[1])
    assert not np.array_equal(draws[0], draws[2])


def test_concentrations_are_left_alone() -> None:
    alpha = np.array([1e-3, 1.0])
    dirichlet_rows(alpha, np.random.default_rng(20))
    np.testing.assert_array_equal(alpha, [1e-3, 1.0])


@pytest.mark.parametrize("shape", [(3, 4), (20, 30, 5), (1, 2000), (100, 17), (2000, 1)])
def test_largest_of_rows(shape: tuple[int, ...]) -> None:
    rows = np.random.default_rng(1).normal(size=shape)
    np.testing.assert_array_equal(row_maxima(rows), rows.max(axis=-1, keepdims=True))
