"""Roots: those of SciPy, bit for bit."""

import math

import numpy as np
import pytest
from scipy import optimize

from privrl.numerics.roots import brentq

FUNCTIONS = {
    "power": lambda x, c, w: math.copysign(abs(x - c) ** w, x - c),
    "steep": lambda x, c, w: math.tanh(10 * w * (x - c)),
    "flat ends": lambda x, c, w: max(min((x - c) * w, 1.0), -1.0),
    "falls": lambda x, c, w: math.exp(c) - math.exp(x),
    "level on the right": lambda x, c, w: min(w, x - c),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_roots_are_those_of_scipy(name: str) -> None:
    rng = np.random.default_rng(1)
    for _ in range(100):
        c, w, before, after = rng.uniform([-3, 0.3, 0.01, 0.01], [3, 1.5, 50, 50]).tolist()
        tolerances = {"xtol": rng.choice([1e-9, 1e-14]), "rtol": rng.choice([1e-13, 1e-10])}

        def function(x: float, c: float = c, w: float = w) -> float:
            return FUNCTIONS[name](x, c, w)

        want = optimize.brentq(function, c - before, c + after, **tolerances)
        assert brentq(function, c - before, c + after, **tolerances) == want


def test_a_root_at_an_end_is_found_and_none_is_said() -> None:
    close = {"xtol": 1e-12, "rtol": 1e-12}
    assert brentq(lambda x: x, 0.0, 1.0, **close) == 0
    assert brentq(lambda x: x - 1, 0.0, 1.0, **close) == 1
    with pytest.raises(ValueError, match="two signs"):
        brentq(lambda x: x + 1, 0.0, 1.0, **close)
    with pytest.raises(RuntimeError, match="a hundred steps"):
        brentq(lambda x: math.copysign(1, x - 1 / 3), -1e300, 1e308, xtol=1e-300, rtol=1e-300)


def test_values_may_be_numpy_s_and_large() -> None:
    """Their product is beyond a float, and no warning (an error here) comes of it."""
    tolerances = {"xtol": 1e-300, "rtol": 1e-13}

    def function(x: float) -> np.float64:
        return np.float64(1e200) * (np.exp(np.float64(x)) - 2)

    want = optimize.brentq(function, -3, 9, **tolerances)
    assert brentq(function, -3.0, 9.0, **tolerances) == want == pytest.approx(math.log(2))


@pytest.mark.parametrize("hole", [(0.5, 2.0), (0.29, 0.31)])
def test_what_is_no_number_is_no_root(hole: tuple[float, float]) -> None:
    """As SciPy has it; a comparison with it would be false, and it be taken for what fits."""

    def function(x: float) -> float:
        return math.nan if hole[0] <= x <= hole[1] else x - 0.3

    for solve in (brentq, optimize.brentq):
        with pytest.raises(ValueError, match=r"numbers for values|is NaN"):
            solve(function, 0.0, 1.0, xtol=1e-12, rtol=1e-12)
