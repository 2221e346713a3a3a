"""How far a private draw may be from the true frequencies, and which draw is the best.

Here y ~ Dirichlet(total_weight * p + alpha) stands for the release of a row with frequencies p; for
counts of N records, ``total_weight = weight * N``. A tail, a quantile or a sample size holds for
every p. It does not look at p, so where N is public an error bar is, too. `expected_loss` is the
exact mean of a loss, and `design` chooses weight and prior by it, from public facts.

The statements are those of Ponnoprat, *Dirichlet mechanism for differentially private KL
divergence minimization* (DKL below) and *Differential privacy of Dirichlet posterior sampling*
(DPS below), and of Gohari et al., *The Dirichlet mechanism for differential privacy on the unit
simplex* (SIM below), sharpened where that is short, and mended where they fail.
"""

from privrl.accuracy.design import Design, Loss, design, expected_loss, typical_loss
from privrl.accuracy.kl import VERTEX_ALPHA, KlBound, kl_quantile, kl_sample_size, kl_tail
from privrl.accuracy.l2 import gaussian_l2_quantile, l2_quantile
from privrl.accuracy.posterior import dirichlet_kl, expected_posterior_kl, simplex_variance

__all__ = [
    "VERTEX_ALPHA",
    "Design",
    "KlBound",
    "Loss",
    "design",
    "dirichlet_kl",
    "expected_loss",
    "expected_posterior_kl",
    "gaussian_l2_quantile",
    "kl_quantile",
    "kl_sample_size",
    "kl_tail",
    "l2_quantile",
    "simplex_variance",
    "typical_loss",
]
