"""How far a released histogram may be from the true one, whatever the data are."""

import math
from typing import Any, Protocol

import numpy as np

from privrl._typing import FloatArray
from privrl.accuracy.kl import VERTEX_ALPHA, kl_quantile
from privrl.accuracy.l2 import gaussian_l2_quantile, l2_quantile
from privrl.mechanisms.additive import (
    AdditiveMechanism,
    DiscreteGaussianMechanism,
    DiscreteLaplaceMechanism,
    GaussianMechanism,
)
from privrl.mechanisms.dirichlet import DirichletMechanism
from privrl.models.estimates.frequencies import noise_size
from privrl.models.histograms.choice import HistogramMechanism, noise_of
from privrl.numerics.scipy_lazily import special


class Released(Protocol):
    """The parts of a `PrivateHistogram` on which its errors depend."""

    @property
    def mechanism(self) -> HistogramMechanism:
        """What released it."""

    @property
    def probabilities(self) -> FloatArray:
        """The best guess at the frequencies, shape (K,)."""

    @property
    def noisy(self) -> FloatArray | None:
        """The counts with noise, shape (K,); None of a Dirichlet draw."""

    @property
    def n_records(self) -> float:
        """The number of records, or an estimate of it."""

    @property
    def is_size_public(self) -> bool:
        """Whether that number is public."""


def count_bounds(released: Released, tail: float) -> tuple[FloatArray, FloatArray]:
    """Return ends of intervals of counts, each of which misses with probability ``tail``."""
    used, n, d = released.mechanism, released.n_records, released.probabilities.size
    if not isinstance(used, DirichletMechanism):
        assert released.noisy is not None
        reach = _reach(noise_of(used), tail)
        most = n if released.is_size_public else math.inf
        return np.clip(released.noisy - reach, 0, most), np.clip(released.noisy + reach, 0, most)
    if not released.is_size_public:
        raise ValueError(
            "a Dirichlet draw has no intervals where the number of records is private; its "
            "spread depends on that number. Noisy counts have: mechanism='auto'."
        )
    y, alpha = released.probabilities, used.cost.alpha

    def below(x: FloatArray) -> tuple[FloatArray, FloatArray]:
        return used.weight * x + alpha, used.weight * (n - x) + (d - 1) * alpha

    # A cell's probability follows a Beta law that rises with its count.
    low = _bisect(lambda x: special.betaincc(*below(x), y) < tail / 2, n, d)
    high = _bisect(lambda x: special.betainc(*below(x), y) >= tail / 2, n, d)
    return low, high


def kl_error(released: Released, tail: float) -> float:
    """Return what the divergence exceeds with probability ``tail`` at most, in nats."""
    draw = released.mechanism
    if isinstance(draw, DirichletMechanism) and released.is_size_public:
        alpha = draw.cost.alpha
        if alpha >= 0.5:
            eta = kl_quantile(
                tail,
                total_weight=draw.weight * released.n_records,
                alpha=alpha,
                n_cells=released.probabilities.size,
                bound="vertex" if alpha >= VERTEX_ALPHA else "lambert",
            )
            return float(eta)
    q = released.probabilities
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = [
            np.where(p > 0, p * np.log(p / q), 0.0) - p + q
            for p in _frequency_bounds(released, tail)
        ]
    return float(np.maximum(*ends).sum())


def l2_error(released: Released, tail: float) -> float:
    """Return what the Euclidean distance exceeds with probability ``tail`` at most."""
    n, d = released.n_records, released.probabilities.size
    used = released.mechanism
    if not isinstance(used, DirichletMechanism):
        used = noise_of(used)
    if isinstance(used, DirichletMechanism) and released.is_size_public:
        total_weight = used.weight * n
        return float(l2_quantile(tail, total_weight=total_weight, alpha=used.cost.alpha, n_cells=d))
    if (
        isinstance(used, GaussianMechanism | DiscreteGaussianMechanism)
        and released.noisy is not None
        and released.is_size_public
    ):
        if isinstance(used, GaussianMechanism):
            noise = float(gaussian_l2_quantile(tail, n_records=n, n_cells=d, sigma=used.sigma))
        else:
            t = -math.log(tail)
            noise = used.sigma / n * math.sqrt(d + 2 * math.sqrt(d * t) + 2 * t)
        moved = float(np.linalg.norm(released.probabilities - released.noisy / n))
        return min(moved + noise, math.sqrt(2))
    ends = [(p - released.probabilities) ** 2 for p in _frequency_bounds(released, tail)]
    return min(math.sqrt(np.maximum(*ends).sum()), math.sqrt(2))


def _frequency_bounds(released: Released, tail: float) -> tuple[FloatArray, FloatArray]:
    """Return ends of intervals of frequencies that all hold at once, but for ``tail``."""
    low, high = count_bounds(released, tail / released.probabilities.size)
    if released.is_size_public:
        return low / released.n_records, high / released.n_records
    others_low, others_high = low.sum() - low, high.sum() - high
    with np.errstate(invalid="ignore"):
        first, last = low / (low + others_high), high / (high + others_low)
    return np.nan_to_num(first, nan=0.0), np.nan_to_num(last, nan=1.0)


def _reach(noise: AdditiveMechanism[Any], tail: float) -> float:
    """Return a number that noise exceeds, in either direction, with probability ``tail`` at most.

    Discrete noise is above a whole number ``k`` no more often than noise on the line of the same
    size is (for the Gaussian: Canonne, Kamath and Steinke, 2020, who bound its tails so).
    """
    size = noise_size(noise)
    if isinstance(noise, GaussianMechanism | DiscreteGaussianMechanism):
        reach = -size * float(special.ndtri(tail / 2))
    else:
        reach = -size * math.log(tail)
    if isinstance(noise, DiscreteGaussianMechanism | DiscreteLaplaceMechanism):
        return float(math.ceil(reach))
    return reach


def _bisect(holds: Any, n: float, n_cells: int) -> FloatArray:
    """Return the end, from 0 to n, of where a condition holds on counts; 0 where it never does."""
    low, high = np.zeros(n_cells), np.full(n_cells, n)
    low = np.where(holds(high), high, low)
    for _ in range(60):
        middle = (low + high) / 2
        here = holds(middle)
        low, high = np.where(here, middle, low), np.where(here, high, middle)
    return low
