"""A whole episode in one cell costs at least as much as any way of spreading it."""

import numpy as np
import pytest
from mpmath import mpf
from oracle_mpmath import gamma_divergence, partitions

from privrl.costs.conversion import best_log_delta
from privrl.costs.dirichlet import DirichletCost
from privrl.costs.relations import ReplaceEpisode

HORIZONS = range(2, 7)


def costs(amounts: tuple[int, ...], order: float, weight: float, alpha: float) -> tuple[mpf, mpf]:
    """Rényi divergence of these gains, and of these losses."""
    shifted = [mpf(alpha) + m * mpf(weight) for m in amounts]
    gains = sum(gamma_divergence(b, alpha, order, digits=30) for b in shifted)
    losses = sum(gamma_divergence(alpha, b, order, digits=30) for b in shifted)
    return gains, losses


def most_expensive_gains(horizon: int, order: float, weight: float, alpha: float) -> tuple:
    return max(
        (p for used in range(1, horizon + 1) for p in partitions(used)),
        key=lambda p: costs(p, order, weight, alpha)[0],
    )


@pytest.mark.few(8)
@pytest.mark.parametrize("alpha", [0.5, 0.6, 1.0, 7.0])
@pytest.mark.parametrize("weight", [1e-3, 0.1, 1.0, 20.0])
def test_one_cell_dominates_every_partition(weight: float, alpha: float) -> None:
    for horizon in HORIZONS:
        for share in (1e-4, 0.5, 0.99):
            order = 1 + share * alpha / (horizon * weight)
            whole = costs((horizon,), order, weight, alpha)
            for used in range(1, horizon + 1):
                for amounts in partitions(used):
                    spread = costs(amounts, order, weight, alpha)
                    assert spread[0] <= whole[0]
                    assert spread[1] <= whole[1]


@pytest.mark.parametrize("alpha", [1e-3, 0.05, 0.2])
def test_below_one_half_spreading_the_gains_can_cost_more(alpha: float) -> None:
    horizon, weight = 6, 20.0
    order = 1 + 0.01 * alpha / (horizon * weight)
    assert most_expensive_gains(horizon, order, weight, alpha) != (horizon,)


@pytest.mark.parametrize("alpha", [1e-3, 0.2, 0.4999999])
def test_smaller_priors_are_refused(alpha: float) -> None:
    with pytest.raises(ValueError, match=rf"alpha.*{alpha}"):
        DirichletCost(weight=1, alpha=alpha, relation=ReplaceEpisode(4))


def test_one_half_is_accepted() -> None:
    cost = DirichletCost(weight=0.01, alpha=0.5, relation=ReplaceEpisode(4))
    assert 0 < float(cost.rdp(2.0)) < 1


def test_delta_of_an_episode_follows_from_its_renyi_divergence() -> None:
    """One cell is the worst in Rényi divergence; of delta nobody has shown that."""
    cost = DirichletCost(weight=0.1, alpha=0.5, relation=ReplaceEpisode(4))
    assert cost.dominating_pairs() is None
    epsilons = np.array([0.0, 0.5, 2.0, 9.0])
    through = np.exp(best_log_delta(cost.rdp, epsilons))
    np.testing.assert_allclose(cost.delta(epsilons), through, rtol=1e-9)
