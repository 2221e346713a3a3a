"""`bregman_lgamma` against 80 digits, over everything a Dirichlet release can ask for."""

import numpy as np
import pytest
from oracle_mpmath import bregman_lgamma as oracle

from privrl.numerics.special import bregman_lgamma

BASES = [1e-3, 0.0173, 0.3, 0.5, 1.0, 1.4616, 2.5, 7.99, 16.0, 31.7, 180.0, 1e4, 3.3e5, 1e7]
TOWARDS_THE_POLE = [-0.999, -0.97, -0.5, -0.1, -1e-3, -1e-6]
AMOUNTS = [1e-6, 1e-5, 1e-3, 0.05, 0.4, 1.0, 3.7, 16.0, 99.0, 1e3]


def moves(a: float) -> np.ndarray:
    return np.array(
        [a * share for share in TOWARDS_THE_POLE]
        + [-t for t in AMOUNTS if t < 0.999 * a]
        + AMOUNTS
        + [a * share for share in (1e-6, 1e-2, 0.3)]
    )


@pytest.mark.parametrize("a", BASES)
def test_matches_eighty_digits(a: float) -> None:
    t = moves(a)
    expected = np.array([float(oracle(a, x)) for x in t])
    np.testing.assert_allclose(bregman_lgamma(a, t), expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize(("a", "t"), [(1e-3, 1e6), (1.0, 1e9), (1e7, 1e8), (0.5, -0.5 + 2**-40)])
def test_matches_far_away(a: float, t: float) -> None:
    assert float(bregman_lgamma(a, t)) == pytest.approx(float(oracle(a, t)), rel=1e-12)


def test_is_smooth_where_a_method_could_change() -> None:
    rng = np.random.default_rng(20240611)
    a = np.exp(rng.uniform(np.log(1e-3), np.log(1e4), 300))
    t = a * rng.uniform(-0.99, 2.0, 300)
    expected = np.array([float(oracle(*pair, digits=40)) for pair in zip(a, t, strict=True)])
    np.testing.assert_allclose(bregman_lgamma(a, t), expected, rtol=1e-12, atol=0)


def test_is_zero_at_zero_and_positive_elsewhere() -> None:
    a = np.array(BASES)
    assert np.all(bregman_lgamma(a, 0.0) == 0)
    assert np.all(bregman_lgamma(a, 1e-9 * a) > 0)
    assert np.all(bregman_lgamma(a, -1e-9 * a) > 0)


def test_broadcasts() -> None:
    a, t = np.array([[1.0], [2.0]]), np.array([0.1, 0.2, 0.3])
    table = bregman_lgamma(a, t)
    assert table.shape == (2, 3)
    assert table[1, 2] == pytest.approx(float(bregman_lgamma(2.0, 0.3)), rel=1e-14)
