"""Objects that are none of what is wanted, and numbers beyond all floats: refused in words."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from privrl.accounting import PldAccountant, Rdp, RdpAccountant
from privrl.costs import (
    AddRemoveRecord,
    DirichletCost,
    DiscreteGaussianCost,
    DiscreteLaplaceCost,
    GaussianCost,
    LaplaceCost,
    ReplaceEpisode,
    ReplaceRecord,
    Together,
)
from privrl.costs.noise_pairs import DiscreteGaussianPair
from privrl.data import Bins, Categories
from privrl.data.schema import template
from privrl.mechanisms import LaplaceMechanism
from privrl.models import discretise, histogram

BIG = 10**400
RECORD = ReplaceRecord()
COSTS = [
    DirichletCost(weight=1.0, alpha=1.0, relation=RECORD),
    GaussianCost(sigma=1.0, relation=RECORD),
    LaplaceCost(scale=1.0, relation=RECORD),
    DiscreteGaussianCost(sigma=1.0, relation=RECORD),
    DiscreteLaplaceCost(scale=1.0, relation=RECORD),
]
FRAME = pd.DataFrame({"a": [1.0, 2.0]})


class Something:
    """What nobody takes."""

    def __repr__(self) -> str:
        return "something"


SOMETHING = Something()


@pytest.mark.parametrize("cost", COSTS, ids=repr)
@pytest.mark.parametrize("wrong", [BIG, [BIG], "a", SOMETHING, [[1.0], [1.0, 2.0]]], ids=repr)
def test_numbers_that_are_none(cost: Any, wrong: Any) -> None:
    with pytest.raises(ValueError, match="orders must be numbers"):
        cost.rdp(wrong)
    with pytest.raises(ValueError, match="epsilon must be numbers"):
        cost.delta(wrong)


@pytest.mark.parametrize("make", [RdpAccountant, PldAccountant])
@pytest.mark.parametrize("wrong", [5, None, "cost", RECORD, GaussianCost])
def test_what_is_no_cost_is_not_charged(make: Callable[[], Any], wrong: Any) -> None:
    accountant = make()
    with pytest.raises(ValueError, match=r"cost must be a cost|relation"):
        accountant.compose(wrong)
    assert len(accountant.journal) == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: RdpAccountant(orders=[BIG]), "orders must be numbers"),
        (lambda: RdpAccountant(orders=[None, object()]), "orders must be numbers"),
        (lambda: RdpAccountant().compose(COSTS[1], BIG), "count must be .* beyond all floats"),
        (lambda: PldAccountant().compose(COSTS[1], BIG), "count must be .* beyond all floats"),
        (lambda: ReplaceEpisode(BIG), "horizon must be .* beyond all floats"),
        (lambda: Bins.even(0, 1, BIG), "count must be .* beyond all floats"),
        (lambda: Bins.even(0, 1, 2**63), "count must be at most 1000000"),
        (lambda: template(["a"], numeric={"a": (0, 1)}, bins=10**9), "count must be at most"),
    ],
)
def test_numbers_that_are_too_large(call: Callable[[], Any], message: str) -> None:
    began = time.process_time()
    with pytest.raises(ValueError, match=message):
        call()
    assert time.process_time() - began < 2


@pytest.mark.parametrize("wrong", [5, "accountant", RdpAccountant])
def test_what_is_no_accountant_draws_nothing(wrong: Any) -> None:
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    mechanism = LaplaceMechanism(scale=1.0, relation=RECORD)
    with pytest.raises((ValueError, TypeError)):
        mechanism.release(np.ones(3), rng, accountant=wrong)
    with pytest.raises((ValueError, TypeError)):
        histogram([1, 2], Categories((1, 2)), target=Rdp(2, 1), rng=rng, accountant=wrong)
    assert rng.bit_generator.state == before


@pytest.mark.parametrize("wrong", [5, None, "a", [("a", (0, 1))]])
def test_bounds_that_are_no_table(wrong: Any) -> None:
    with pytest.raises(ValueError, match="bounds must map columns"):
        discretise(FRAME, wrong, target=Rdp(2, 1), rng=np.random.default_rng(0))


@pytest.mark.parametrize("cells", [1, 2])
@pytest.mark.parametrize("sigma", [1e-20, 1e-3, 1.0, 1e3, 1e10, 9e29])
def test_discrete_gaussians_far_away(sigma: float, cells: Any) -> None:
    """Where no float is that far from the noise, no mass is either."""
    pair = DiscreteGaussianPair(sigma, 1, cells)
    found = pair.log_delta(np.array([1e100, 1e290, 1e300, 1.7e308]))
    assert not np.isnan(found).any()
    if sigma >= 1:
        assert (found < -700).all()
    cost = DiscreteGaussianCost(sigma=sigma, relation=RECORD)
    deltas = cost.delta([0.0, 1.0, 1e290, 1e300, 1.7e308])
    assert (np.diff(deltas) <= 0).all()


@pytest.mark.parametrize(
    "make",
    [
        lambda size: LaplaceCost(scale=size, relation=RECORD),
        lambda size: GaussianCost(sigma=size, relation=RECORD),
        lambda size: DirichletCost(weight=1 / size, alpha=3.0, relation=RECORD),
        lambda size: DirichletCost(weight=1 / size, alpha=3.0, relation=AddRemoveRecord()),
    ],
)
@pytest.mark.parametrize("power", [*range(-24, -6), -3])
def test_two_releases_are_never_cheaper_than_one(make: Callable[..., Any], power: int) -> None:
    """However little noise there is: no grid of floats holds losses of 1e20 nats."""
    one = make(10.0**power)
    epsilons = np.array([0.0, 1.0, 100.0, 0.5 / 10.0**power])
    assert (Together([one, one]).delta(epsilons) >= one.delta(epsilons) * (1 - 1e-9)).all()
