"""Epsilons in words are never below what they stand for."""

import re

import numpy as np

from privrl.accounting import ApproxDP, RdpAccountant, RenyiDP
from privrl.costs import GaussianCost, ReplaceRecord
from privrl.costs.choice import ChoiceCost
from privrl.costs.selection import ConcentratedCost, PureCost
from privrl.numerics.printing import down, exact, up, up_to_places


def test_no_epsilon_is_rounded_down() -> None:
    rng = np.random.default_rng(0)
    for epsilon in [*np.exp(rng.uniform(-20, 10, 500)), 0.1, 1.0, 2.5, 0.0]:
        assert float(up(epsilon)) >= epsilon
        assert float(up(epsilon)) <= epsilon * 1.0011
        assert float(up_to_places(epsilon)) >= epsilon
        assert float(up_to_places(epsilon)) < epsilon + 0.0101


def test_a_size_is_never_rounded_to_less_privacy() -> None:
    assert down(1.9999999) == "1.99999"
    assert down(1.0000000000651377) == "1"
    assert down(0.5) == "0.5"
    for size in (1 / 3, 2 / 3, 1e-12 / 7, 123456.7):
        assert float(down(size)) <= size < float(down(size)) * (1 + 1e-5)


def test_costs_are_written_no_more_private_than_they_are() -> None:
    """They were rounded to the nearest: half of all epsilons and rhos below what was charged."""
    relation, rng = ReplaceRecord(), np.random.default_rng(0)
    for size in rng.uniform(0.1, 1, 20):
        spent = RdpAccountant()
        for cost in (
            PureCost(epsilon_pure=size, relation=relation),
            ConcentratedCost(rho=size, relation=relation),
            GaussianCost(sigma=size, relation=relation),
            ChoiceCost(scale=size, sensitivity=size, relation=relation),
        ):
            spent.compose(cost)
        shown = map(float, re.findall(r"=([0-9.]+)[,)]", str(spent.journal)))
        epsilon, rho, sigma, scale, sensitivity = shown
        assert min(epsilon, rho, sensitivity) >= size >= max(sigma, scale)
        assert max(epsilon, rho, sensitivity) < size * 1.00001 < min(sigma, scale) * 1.00002


def test_deltas_and_orders_are_printed_with_all_digits() -> None:
    """A delta of 1.0000004e-05 was printed as 1e-05, and an order of 1.9999999 as 2."""
    for number in (1.0000004e-5, 1.9999999, 1e-5, 0.1, 2.0, 1e300, 5e-324):
        assert float(exact(number)) == number
    assert (exact(2), exact(1e-5), exact(0)) == ("2", "1e-05", "0")
    spent = RdpAccountant(budget=ApproxDP(1, 1.0000004e-5))
    assert "at delta 1.0000004e-05" in repr(spent)
    spent = RdpAccountant(budget=RenyiDP(1.9999999, 1))
    assert "at order 1.9999999" in repr(spent)
