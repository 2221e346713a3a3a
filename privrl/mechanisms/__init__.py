"""Mechanisms release data once, know their privacy cost, and can be calibrated to a target."""

from privrl.mechanisms.additive import (
    DiscreteGaussianMechanism,
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    LaplaceMechanism,
)
from privrl.mechanisms.base import Mechanism
from privrl.mechanisms.choice import ExponentialMechanism
from privrl.mechanisms.design import design
from privrl.mechanisms.dirichlet import DirichletMechanism
from privrl.mechanisms.noisy_posterior import NoisyPosteriorMechanism
from privrl.mechanisms.posterior_exponential import PosteriorExponentialMechanism
from privrl.mechanisms.selection import select_private
from privrl.mechanisms.simplex import SimplexMechanism
from privrl.mechanisms.sums import SumsMechanism
from privrl.mechanisms.tables import TablesMechanism

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
    "SimplexMechanism",
    "SumsMechanism",
    "TablesMechanism",
    "design",
    "select_private",
]
