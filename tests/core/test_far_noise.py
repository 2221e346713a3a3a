"""Far cells among many: their law, where they are, and that floats decide nothing.

Chi-square tests on 1,000,000 cells, false-alarm rate 1e-6.
"""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from privrl.numerics import far_noise
from privrl.numerics.discrete_gaussian import on_grid
from privrl.numerics.far_noise import far_cells

CELLS = 1_000_000


def _p_value(values: np.ndarray, sigma: float, threshold: int, scale: float = 1.0) -> float:
    """Of the numbers of cells at each value, and of those at none."""
    s = scale * on_grid(sigma)
    law = np.exp(-((np.arange(-999, 1000) / s) ** 2) / 2)
    expected = CELLS * (law / law.sum())[999 + threshold :]
    last = int((expected > 5).sum())  # all values beyond are taken together
    expected = np.append(expected[:last], expected[last:].sum())
    seen = np.bincount(np.minimum(values.astype(int) - threshold, last), minlength=last + 1)
    expected, seen = (np.append(each, CELLS - each.sum()) for each in (expected, seen))
    return float(stats.chisquare(seen, expected).pvalue)


@pytest.mark.few(6)
@pytest.mark.parametrize(("sigma", "threshold"), [(3.0, 8), (3.0, 15), (0.1, 20), (9.0, 30)])
def test_law(sigma: float, threshold: int) -> None:
    cells, values = far_cells(sigma, threshold, CELLS, np.random.default_rng(3))
    assert (np.diff(cells) > 0).all()
    assert cells[0] >= 0
    assert cells[-1] < CELLS
    assert _p_value(values, sigma, threshold) > 1e-6
    assert _p_value(values, sigma, threshold, 1.05) < 1e-6  # power: noise 5 % too small


@pytest.mark.slow
def test_law_where_fractions_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most decisions are left to fractions, and the law stays what it is."""
    asked = {"is_below": 0, "_gap": 0}

    def counted(name: str) -> None:
        inner = getattr(far_noise, name)

        def call(*arguments: object) -> object:
            asked[name] += 1
            return inner(*arguments)

        monkeypatch.setattr(far_noise, name, call)

    counted("is_below")
    counted("_gap")
    monkeypatch.setattr(far_noise, "_SLACK", 0.3)
    monkeypatch.setattr(far_noise, "_NEAR", 0.02)
    _, values = far_cells(3.0, 20, CELLS, np.random.default_rng(4))
    assert min(asked.values()) > 1000
    assert _p_value(values, 3.0, 20) > 1e-6


def test_all_cells_are_alike() -> None:
    cells, _ = far_cells(3.0, 12, CELLS, np.random.default_rng(5))
    seen = np.bincount(cells // (CELLS // 100), minlength=100)
    assert stats.chisquare(seen).pvalue > 1e-6


@pytest.mark.parametrize("halvings", [1, 2, 7, 30])
def test_gaps_are_geometric(halvings: int) -> None:
    gaps = far_noise._gaps(halvings, 100_000, np.random.default_rng(6))
    edges = np.unique(np.ceil(-np.log(np.linspace(0.05, 1, 20)) * 2.0**halvings))
    above = (1 - 2.0**-halvings) ** edges
    expected = 100_000 * -np.diff(np.append(above, 0))
    seen = np.histogram(gaps, [*edges, np.inf])[0]
    assert stats.chisquare(seen, expected).pvalue > 1e-6


@pytest.mark.parametrize("halvings", [1, 11, 40])
def test_a_gap_is_the_inversion_of_its_uniform_number(halvings: int) -> None:
    rng = np.random.default_rng(7)
    for bits in rng.integers(2**53, size=50).tolist():
        gap, near = far_noise._gap(bits, halvings, rng), Fraction(bits, 2**53)
        with mpmath.workdps(60):
            wanted = mpmath.log(mpmath.mpf(near.numerator) / near.denominator)
            wanted /= mpmath.log1p(-(mpmath.mpf(2) ** -halvings))
        assert abs(gap - math.floor(wanted)) <= 1


def test_root_of_two_pi() -> None:
    root = far_noise._root_of_two_pi()
    with mpmath.workdps(450):
        exact = mpmath.sqrt(2 * mpmath.pi)
        off = mpmath.mpf(root.numerator) / root.denominator / exact - 1
        assert abs(off) < mpmath.mpf(10) ** -400


@pytest.mark.parametrize("threshold", [0, 10, 10_000])
def test_thresholds_out_of_range(threshold: int) -> None:
    with pytest.raises(ValueError, match="threshold must be at"):
        far_cells(8.0, threshold, 10, np.random.default_rng(0))


def test_of_no_cells_none_is_far() -> None:
    assert far_cells(8.0, 30, 0, np.random.default_rng(0))[0].size == 0
