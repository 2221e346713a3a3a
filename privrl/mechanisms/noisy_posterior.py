"""The ordinary posterior of noisy counts: what is private is the sufficient statistics.

For counts of categories and a Dirichlet prior the posterior is ``Dirichlet(counts + alpha)``.
Here it is taken of counts with noise, clipped to what counts can be. The noise is paid for once;
the posterior, and any number of draws from it, are post-processing. In exchange it does not know
that its counts are noisy, so that it is surer of itself than it should be where noise is large.

References
----------
J. Foulds, J. Geumlek, M. Welling and K. Chaudhuri. *On the theory and practice of
privacy-preserving Bayesian data analysis* (2016).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from privrl.accounting.base import Accountant
from privrl.accounting.targets import Target
from privrl.costs.noise import NoiseCost
from privrl.costs.relations import Relation
from privrl.files.shown import shown
from privrl.mechanisms.additive import (
    AdditiveMechanism,
    DiscreteGaussianMechanism,
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    LaplaceMechanism,
)
from privrl.mechanisms.base import Mechanism
from privrl.numerics.checks import (
    check_among,
    check_between,
    check_count,
    check_positive,
    check_positive_array,
)
from privrl.numerics.dirichlet_rows import DirichletPosterior
from privrl.numerics.special import FloatArray

__all__ = ["NoisyPosteriorMechanism", "laplace_l1_bound"]

Noise = AdditiveMechanism[Any]
NoiseName = Literal["laplace", "gaussian", "discrete_laplace", "discrete_gaussian"]

_NOISES: dict[str, type[Noise]] = {
    "laplace": LaplaceMechanism,
    "gaussian": GaussianMechanism,
    "discrete_laplace": DiscreteLaplaceMechanism,
    "discrete_gaussian": DiscreteGaussianMechanism,
}


@dataclass(frozen=True, kw_only=True)
class NoisyPosteriorMechanism(Mechanism[DirichletPosterior]):
    """The posterior ``Dirichlet(clip(counts + noise, 0, n) + alpha)`` of every row.

    Parameters
    ----------
    noise : GaussianMechanism, LaplaceMechanism, or one of the discrete ones
        Adds noise to the counts, and pays for it.
    alpha : float or sequence of K floats
        Prior pseudo-counts, each > 0.
    n : int, optional
        The number of records in a row at the most, a public fact; noisy counts are clipped to
        it. By default they are clipped at 0 only.

    Raises
    ------
    ValueError
        If ``noise`` is another object, ``alpha`` not > 0 and finite or of more than one axis, or
        ``n`` not a whole number >= 1.
    """

    noise: Noise
    alpha: float | tuple[float, ...]
    n: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.noise, AdditiveMechanism):
            raise ValueError(
                "noise must be a mechanism such as LaplaceMechanism(scale=2), got "
                f"{shown(self.noise)}; NoisyPosteriorMechanism.calibrated takes a name."
            )
        prior = check_positive_array("alpha", self.alpha, "1 is usual")
        if prior.ndim > 1 or prior.size < 1:
            raise ValueError(
                "alpha must be a number or an array with one for each of K cells, got shape "
                f"{prior.shape}."
            )
        object.__setattr__(self, "alpha", tuple(prior.tolist()) if prior.ndim else float(prior))
        if self.n is not None:
            object.__setattr__(self, "n", check_count("n", self.n))

    @classmethod
    def calibrated(
        cls,
        target: Target,
        *,
        noise: NoiseName = "laplace",
        alpha: float | tuple[float, ...],
        n: int | None = None,
        relation: Relation | None = None,
        table: str | None = None,
        count: int = 1,
        accountant: Callable[[], Accountant] | None = None,
    ) -> Self:
        """Return the mechanism with the least noise whose ``count`` releases meet ``target``.

        Here ``noise`` is "laplace", "gaussian", "discrete_laplace" or "discrete_gaussian"; the
        prior and ``n`` are as for the class, and the others as for the mechanism of that noise.

        Raises
        ------
        ValueError
            If the name is unknown, or from the class or the noise's calibration.
        """
        check_among("noise", noise, _NOISES)
        made = _NOISES[noise].calibrated(
            target, relation=relation, table=table, count=count, accountant=accountant
        )
        return cls(noise=made, alpha=alpha, n=n)

    @classmethod
    def pure(
        cls,
        epsilon: float,
        *,
        alpha: float | tuple[float, ...],
        n: int | None = None,
        relation: Relation | None = None,
        table: str | None = None,
        count: int = 1,
    ) -> Self:
        """Return the Laplace mechanism on the posterior's parameters, with no delta.

        For one replaced record each parameter gets Laplace noise of scale ``2 / epsilon``; see
        `LaplaceMechanism.pure` for the arguments and `laplace_l1_bound` for the accuracy.
        """
        noise = LaplaceMechanism.pure(epsilon, relation=relation, table=table, count=count)
        return cls(noise=noise, alpha=alpha, n=n)

    @property
    def cost(self) -> NoiseCost:
        """What one release costs: the noise."""
        return self.noise.cost

    def check(self, data: ArrayLike) -> FloatArray:
        """Return the counts, shape (..., K), if noise can be added to them and K is that of alpha.

        Raises
        ------
        ValueError
            If not; nothing is spent then.
        """
        counts = self.noise.check(data)
        if isinstance(self.alpha, tuple) and len(self.alpha) not in (1, counts.shape[-1]):
            raise ValueError(
                f"data must have as many cells on the last axis as alpha, {len(self.alpha)}, got "
                f"shape {counts.shape}."
            )
        return counts

    def _draw(self, data: FloatArray, rng: np.random.Generator) -> DirichletPosterior:
        noisy = self.noise._draw(data, rng)
        return DirichletPosterior(np.clip(noisy, 0, self.n) + np.asarray(self.alpha))


def laplace_l1_bound(n_cells: int, gamma: float, *, epsilon: float) -> float:
    """Return what the Laplace noise of `NoisyPosteriorMechanism.pure` stays below.

    Parameters
    ----------
    n_cells : int
        Number ``m`` of the posterior's parameters, >= 1.
    gamma : float
        Probability, in (0, 1), with which the noise may be larger.
    epsilon : float
        Of one replaced record, > 0: noise of scale ``2 / epsilon``.

    Returns
    -------
    float
        ``m log(m / gamma) 2 / epsilon``, in counts. The sum of the absolute noises is at least so
        large with probability at most ``gamma``, and so is ``m`` times the largest of them.

    Raises
    ------
    ValueError
        If ``n_cells`` is below 1, ``gamma`` not between 0 and 1, or ``epsilon`` not > 0.

    Notes
    -----
    A cell's noise is at least ``x`` with probability ``exp(−x epsilon / 2)``, so one of ``m`` is
    at least ``log(m / gamma) 2 / epsilon`` with probability at most ``gamma``. If none is, their
    sum is below ``m`` times that. Adding the prior changes neither, and clipping shrinks both.
    """
    n_cells = check_count("n_cells", n_cells)
    gamma = check_between("gamma", gamma, 0, 1, "0.05 is usual")
    epsilon = check_positive("epsilon", epsilon)
    return n_cells * (math.log(n_cells) - math.log(gamma)) * 2 / epsilon
