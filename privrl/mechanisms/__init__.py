"""Mechanisms: each releases data privately, tells its cost, and can be calibrated to a target."""

from privrl.mechanisms.additive import (
    DiscreteGaussianMechanism,
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    LaplaceMechanism,
    normalise,
)
from privrl.mechanisms.base import Mechanism
from privrl.mechanisms.choice import ExponentialMechanism
from privrl.mechanisms.dirichlet import DirichletMechanism, synthetic_counts
from privrl.mechanisms.noisy_posterior import NoisyPosteriorMechanism, laplace_l1_bound
from privrl.mechanisms.posterior_exponential import PosteriorExponentialMechanism
from privrl.mechanisms.posteriors import hellinger_sensitivity, smooth_beta
from privrl.mechanisms.simplex import SimplexMechanism
from privrl.mechanisms.sums import SumsMechanism
from privrl.mechanisms.tables import ReleasedTable, TablesMechanism, least_noise_shares

__all__ = [
    "DirichletMechanism",
    "DiscreteGaussianMechanism",
    "DiscreteLaplaceMechanism",
    "ExponentialMechanism",
    "GaussianMechanism",
    "LaplaceMechanism",
    "Mechanism",
    "NoisyPosteriorMechanism",
    "PosteriorExponentialMechanism",
    "ReleasedTable",
    "SimplexMechanism",
    "SumsMechanism",
    "TablesMechanism",
    "hellinger_sensitivity",
    "laplace_l1_bound",
    "least_noise_shares",
    "normalise",
    "smooth_beta",
    "synthetic_counts",
]
