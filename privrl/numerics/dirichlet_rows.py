"""Dirichlet rows of concentrations that are released, and posteriors made of them.

They are drawn quickly, and safely for every concentration. Rows that are to hide their
concentrations are drawn by `privrl.numerics.exact_dirichlet`.
"""

from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import ArrayLike

from privrl.numerics.checks import check_positive_array
from privrl.numerics.special import FloatArray

_MANY, _SHORT = 2**10, 16  # cells in all and of a row
_PLAIN_FROM = 0.5  # a gamma draw of this shape underflows with probability below 1e-150


def dirichlet_rows(alpha: ArrayLike, rng: np.random.Generator, *, least: float = 0.0) -> FloatArray:
    """Draw every row from its own Dirichlet distribution.

    Parameters
    ----------
    alpha : array_like, shape (..., K)
        Concentrations in pseudo-observations, each > 0.
    rng : numpy.random.Generator
        Where the randomness comes from.
    least : float
        What no concentration is below. From 1/2 on a quicker way of drawing is taken.

    Returns
    -------
    array, shape (..., K)
        Probabilities; each row sums to 1 within rounding.

    Raises
    ------
    ValueError
        If a concentration is not positive and finite.

    Notes
    -----
    Small concentrations use ``log G(a) = log G(a + 1) + log(U) / a`` (Marsaglia and Tsang,
    2000): normalising plain gamma draws gives 0/0 at ``alpha = 1e-3``.
    """
    alpha = check_positive_array("alpha", alpha)
    if least >= _PLAIN_FROM:
        rows = rng.standard_gamma(alpha)
        rows /= row_sums(rows)
        return rows
    with np.errstate(over="ignore"):
        logs = np.log(rng.standard_gamma(alpha + 1)) - rng.standard_exponential(alpha.shape) / alpha
    logs = np.maximum(logs, -np.finfo(np.float64).max)  # below 1e-308 log(U) / a overflows
    rows = np.exp(logs - row_maxima(logs))
    rows /= row_sums(rows)
    return rows


def row_sums(rows: FloatArray) -> FloatArray:
    """Sum along the last axis, which is kept: several times as fast as ``sum`` if it is short."""
    return np.einsum("...k->...", rows)[..., None]


def row_maxima(rows: FloatArray) -> FloatArray:
    """Return the largest along the last axis, which is kept; by columns if rows are short."""
    if rows.size < _MANY or rows.shape[-1] > _SHORT:
        return rows.max(axis=-1, keepdims=True)
    columns = rows.reshape(-1, rows.shape[-1]).T
    return reduce(np.maximum, columns).reshape(*rows.shape[:-1], 1)


@dataclass(frozen=True, eq=False)
class DirichletPosterior:
    """A released posterior; sampling it is post-processing and free.

    Parameters
    ----------
    concentrations : array_like, shape (..., K)
        In pseudo-observations, each > 0.

    Raises
    ------
    ValueError
        If a concentration is not positive and finite.
    """

    concentrations: FloatArray

    def __post_init__(self) -> None:
        copied = check_positive_array("concentrations", self.concentrations).copy()
        copied.flags.writeable = False
        object.__setattr__(self, "concentrations", copied)

    @property
    def mean(self) -> FloatArray:
        """Expected probabilities, shape (..., K)."""
        return self.concentrations / self.concentrations.sum(axis=-1, keepdims=True)

    def sample(self, rng: np.random.Generator) -> FloatArray:
        """Return fresh probabilities, shape (..., K), each row summing to 1."""
        least = float(self.concentrations.min(initial=np.inf))  # released, so not private
        return dirichlet_rows(self.concentrations, rng, least=least)
