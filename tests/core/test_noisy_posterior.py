"""Posteriors of noisy counts: what they are made of, what they cost, how far off they are."""

import math
from typing import Any

import numpy as np
import pytest
from auditing import check_claim

from privrl.accounting.rdp import BudgetExceeded, RdpAccountant
from privrl.accounting.targets import ApproxDP, RenyiDP
from privrl.costs.relations import AddRemoveRecord, ReplaceStep
from privrl.mechanisms.additive import (
    DiscreteGaussianMechanism,
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    LaplaceMechanism,
)
from privrl.mechanisms.noisy_posterior import NoisyPosteriorMechanism, laplace_l1_bound
from privrl.numerics.dirichlet_rows import DirichletPosterior

NOISES = {
    "laplace": LaplaceMechanism(scale=3),
    "gaussian": GaussianMechanism(sigma=3),
    "discrete_laplace": DiscreteLaplaceMechanism(scale=3),
    "discrete_gaussian": DiscreteGaussianMechanism(sigma=3),
}
each_noise = pytest.mark.parametrize("name", NOISES)
COUNTS = np.array([[0.0, 30.0, 20.0], [50.0, 0.0, 0.0]])


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@each_noise
@pytest.mark.parametrize("alpha", [0.5, (0.5, 1.0, 2.0), np.array([0.5, 1.0, 2.0]), [3]])
@pytest.mark.parametrize("n", [None, 50])
def test_it_is_the_posterior_of_the_clipped_noisy_counts(name: str, alpha: Any, n: Any) -> None:
    noise = NOISES[name]
    posterior = NoisyPosteriorMechanism(noise=noise, alpha=alpha, n=n).release(COUNTS, rng(5))
    noisy = noise.release(COUNTS, rng(5))
    right = np.clip(noisy, 0, math.inf if n is None else n) + np.asarray(alpha)
    assert isinstance(posterior, DirichletPosterior)
    np.testing.assert_array_equal(posterior.concentrations, right)
    assert (posterior.concentrations >= np.min(alpha)).all()


@each_noise
def test_it_costs_what_the_noise_costs_and_draws_are_free(name: str) -> None:
    mechanism = NoisyPosteriorMechanism(noise=NOISES[name], alpha=1, n=50)
    assert mechanism.cost == NOISES[name].cost
    accountant = RdpAccountant()
    posterior = mechanism.release(COUNTS, rng(), accountant=accountant)
    spent = accountant.rdp
    generator = rng(1)
    draws = np.array([posterior.sample(generator) for _ in range(2000)])
    np.testing.assert_array_equal(accountant.rdp, spent)
    np.testing.assert_allclose(spent, mechanism.cost.rdp(accountant.orders), rtol=1e-14)
    # the mean of 2000 draws, each within 1 and of a deviation of at most a half
    np.testing.assert_allclose(draws.mean(0), posterior.mean, atol=5 * 0.5 / math.sqrt(2000))


@each_noise
def test_calibrated_by_name(name: str) -> None:
    target = ApproxDP(1.0, 1e-6)
    mechanism = NoisyPosteriorMechanism.calibrated(
        target, noise=name, alpha=(1, 2), n=9, relation=ReplaceStep(), table="rewards", count=4
    )
    noise = type(NOISES[name]).calibrated(target, relation=ReplaceStep(), table="rewards", count=4)
    assert mechanism == NoisyPosteriorMechanism(noise=noise, alpha=(1.0, 2.0), n=9)
    RdpAccountant(budget=target).compose(mechanism.cost, 4)


def test_laplace_is_the_default_noise() -> None:
    made = NoisyPosteriorMechanism.calibrated(RenyiDP(2, 0.1), alpha=1)
    assert isinstance(made.noise, LaplaceMechanism)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_pure_adds_noise_of_scale_two_over_epsilon(epsilon: float) -> None:
    mechanism = NoisyPosteriorMechanism.pure(epsilon, alpha=1, n=50)
    assert mechanism.noise == LaplaceMechanism.pure(epsilon)
    assert mechanism.noise.scale == pytest.approx(2 / epsilon, rel=1e-15)
    assert mechanism.cost.delta(epsilon) == 0
    other = NoisyPosteriorMechanism.pure(epsilon, alpha=1, relation=AddRemoveRecord(), count=3)
    assert other.noise.scale == pytest.approx(3 / epsilon, rel=1e-15)


@pytest.mark.slow
@pytest.mark.parametrize(("n_cells", "gamma"), [(1, 0.3), (3, 0.1), (10, 0.5), (40, 0.02)])
def test_accuracy_bound(n_cells: int, gamma: float) -> None:
    """200,000 vectors of noise; frequencies within five standard deviations."""
    draws, epsilon = 200_000, 0.7
    mechanism = LaplaceMechanism.pure(epsilon)
    noise = np.abs(mechanism._draw(np.zeros((draws, n_cells)), rng(8)))
    bound = laplace_l1_bound(n_cells, gamma, epsilon=epsilon)
    error = 5 * math.sqrt(gamma / draws)
    assert (noise.sum(1) >= bound).mean() <= gamma + error
    largest = (n_cells * noise.max(1) >= bound).mean()
    assert largest <= gamma + error
    # which is not equal to gamma, as the notes say, but to this
    assert largest == pytest.approx(1 - (1 - gamma / n_cells) ** n_cells, abs=error)
    assert (noise.sum(1) >= bound).mean() <= largest


def test_accuracy_bound_covers_what_is_released() -> None:
    """Clipping moves no concentration further from that of the true counts."""
    counts = np.tile([0.0, 10.0, 40.0], (20_000, 1))
    released = NoisyPosteriorMechanism.pure(0.5, alpha=2, n=50).release(counts, rng(9))
    off = np.abs(released.concentrations - counts - 2).sum(1)
    assert (off >= laplace_l1_bound(3, 0.1, epsilon=0.5)).mean() <= 0.1


@pytest.mark.slow
def test_the_audit_finds_no_violation_and_most_of_the_claim() -> None:
    """100,000 draws at delta 0.01, confidence 0.9999: clipping hides little of large counts.

    Over seeds the lowest mean of the share is 0.78, with standard deviation 0.025: five of them
    lie between mean and bound.
    """
    for noise in NOISES.values():
        mechanism = NoisyPosteriorMechanism(noise=noise, alpha=1, n=100)

        def run(data: Any, generator: np.random.Generator, made: Any = mechanism) -> Any:
            return made.release(data, generator).concentrations

        claimed = float(mechanism.cost.epsilon(0.01))
        data, neighbour, near = [31, 20, 30], [30, 21, 30], 0.65 * claimed
        check_claim(run, data, neighbour, seed=2, claimed=claimed, least=near, draws=100_000)


def test_a_refused_budget_leaves_nothing_spent() -> None:
    accountant = RdpAccountant(budget=RenyiDP(2, 1e-6))
    with pytest.raises(BudgetExceeded):
        NoisyPosteriorMechanism.pure(1, alpha=1).release(COUNTS, rng(), accountant=accountant)
    assert not accountant.rdp.any()


# Refusals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", ["laplace", None, LaplaceMechanism(scale=2).cost])
def test_bad_noises_are_refused(noise: Any) -> None:
    with pytest.raises(ValueError, match=r"noise must be a mechanism such as LaplaceMechanism"):
        NoisyPosteriorMechanism(noise=noise, alpha=1)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ValueError, match="noise must be one of 'laplace', 'gaussian'"):
        NoisyPosteriorMechanism.calibrated(RenyiDP(2, 1), noise="cauchy", alpha=1)


@pytest.mark.parametrize("alpha", [0, -1, np.nan, np.inf, (1, 0), [[1, 2]], []])
def test_bad_priors_are_refused(alpha: Any) -> None:
    with pytest.raises(ValueError, match="alpha must be"):
        NoisyPosteriorMechanism(noise=NOISES["laplace"], alpha=alpha)


@pytest.mark.parametrize("n", [0, -3, 2.5, np.nan, True])
def test_bad_numbers_of_records_are_refused(n: Any) -> None:
    with pytest.raises(ValueError, match="n must be a whole number >= 1"):
        NoisyPosteriorMechanism(noise=NOISES["laplace"], alpha=1, n=n)


def test_data_with_other_cells_than_the_prior_are_refused() -> None:
    accountant = RdpAccountant()
    mechanism = NoisyPosteriorMechanism(noise=NOISES["laplace"], alpha=(1, 2))
    with pytest.raises(ValueError, match=r"as many cells on the last axis as alpha, 2, got"):
        mechanism.release(COUNTS, rng(), accountant=accountant)
    with pytest.raises(ValueError, match="data must be counts"):
        mechanism.release([-1, 2], rng(), accountant=accountant)
    assert not accountant.rdp.any()


@pytest.mark.parametrize(
    ("n_cells", "gamma", "epsilon", "name"),
    [
        (0, 0.1, 1, "n_cells"),
        (2.5, 0.1, 1, "n_cells"),
        (2, 0, 1, "gamma"),
        (2, 1, 1, "gamma"),
        (2, 0.1, 0, "epsilon"),
        (2, 0.1, math.nan, "epsilon"),
    ],
)
def test_bad_bounds_are_refused(n_cells: Any, gamma: float, epsilon: float, name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be"):
        laplace_l1_bound(n_cells, gamma, epsilon=epsilon)
