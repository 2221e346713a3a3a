"""Isotonic regression, against SciPy's."""

import numpy as np
import pytest
from scipy.optimize import isotonic_regression

from privrl.numerics.rising import rising


@pytest.mark.parametrize("n", [0, 1, 2, 5, 20])
@pytest.mark.parametrize("seed", range(5))
def test_it_is_that_of_scipy(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values, weights = rng.normal(size=n), rng.uniform(0.1, 10, size=n)
    expected = isotonic_regression(values, weights=weights).x if n else values
    np.testing.assert_allclose(rising(values, weights), expected, rtol=0, atol=1e-12)
