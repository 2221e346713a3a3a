"""Epsilons in words are never below what they stand for."""

import numpy as np

from privrl.numerics.printing import up, up_to_places


def test_no_epsilon_is_rounded_down() -> None:
    rng = np.random.default_rng(0)
    for epsilon in [*np.exp(rng.uniform(-20, 10, 500)), 0.1, 1.0, 2.5, 0.0]:
        assert float(up(epsilon)) >= epsilon
        assert float(up(epsilon)) <= epsilon * 1.0011
        assert float(up_to_places(epsilon)) >= epsilon
        assert float(up_to_places(epsilon)) < epsilon + 0.0101
