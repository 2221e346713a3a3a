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
