"""How far a released histogram may be from the true one, whatever the data are."""

import math
from typing import Any, Protocol

import numpy as np

from privrl.mechanisms.dirichlet import DirichletMechanism
from privrl.mechanisms.errors import VERTEX_ALPHA, gaussian_l2_quantile, kl_quantile, l2_quantile
from privrl.models.histograms.choice import HistogramMechanism, noise_of
from privrl.numerics.scipy_lazily import special
from privrl.numerics.typing import FloatArray


class Released(Protocol):
    """What errors depend on; `privrl.models.PrivateHistogram` says what each is."""

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
        reach = noise_of(used).reach(tail)
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
    if isinstance(used, DirichletMechanism):
        if released.is_size_public:
            weight, alpha = used.weight * n, used.cost.alpha
            return float(l2_quantile(tail, total_weight=weight, alpha=alpha, n_cells=d))
    elif (
        (noise := noise_of(used)).is_gaussian
        and released.noisy is not None
        and released.is_size_public
    ):
        if noise.is_whole:
            t = -math.log(tail)
            far = noise.size / n * math.sqrt(d + 2 * math.sqrt(d * t) + 2 * t)
        else:
            far = float(gaussian_l2_quantile(tail, n_records=n, n_cells=d, sigma=noise.size))
        moved = float(np.linalg.norm(released.probabilities - released.noisy / n))
        return min(moved + far, math.sqrt(2))
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


def _bisect(holds: Any, n: float, n_cells: int) -> FloatArray:
    """Return the end, from 0 to n, of where a condition holds on counts; 0 where it never does."""
    low, high = np.zeros(n_cells), np.full(n_cells, n)
    low = np.where(holds(high), high, low)
    for _ in range(60):
        middle = (low + high) / 2
        here = holds(middle)
        low, high = np.where(here, middle, low), np.where(here, high, middle)
    return low
