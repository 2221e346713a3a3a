"""Error bars of a draw, or of noisy counts, in Euclidean distance."""

import math

import numpy as np
from numpy.typing import ArrayLike

from privrl.accuracy.rows import check_failure, check_row
from privrl.numerics.checks import check_count, check_positive, check_positive_array
from privrl.numerics.scipy_lazily import special
from privrl.numerics.special import FloatArray


def l2_quantile(
    failure: ArrayLike, *, total_weight: ArrayLike, alpha: float, n_cells: int
) -> FloatArray:
    """Return a distance that ``‖y − p‖₂`` exceeds with probability ``failure`` at most.

    Parameters
    ----------
    failure : array_like
        Probabilities, each in (0, 1); broadcast against ``total_weight``.
    total_weight : array_like
        What p is multiplied by, > 0: the weight times the number of records.
    alpha : float
        The prior pseudo-count of every cell, > 0.
    n_cells : int
        Number of cells of the row, >= 2.

    Returns
    -------
    array
        ``sqrt(worst mean square) + sqrt(ψ'(A + 1) log(1/failure))`` with ``A = total_weight +
        n_cells alpha``, and at most √2.

    Raises
    ------
    ValueError
        If ``failure`` is not between 0 and 1, ``total_weight`` or ``alpha`` not > 0, or ``n_cells``
        below 2.

    Notes
    -----
    This takes the place of DPS's Theorem 5, ``sqrt((3 log(1/β) + 2d) / (4 (A + 1))) +
    2 α₀ / A``, which is false for small β: for d = 2, alpha = 1 and a million records in equal
    parts it is exceeded 42 times as often as the β = 1e-12 it is stated for. A Dirichlet vector
    is not ``1 / (4 (A + 1))``-sub-Gaussian: of two cells, the variance in the direction (1, −1)/√2
    may be twice that. The proxy ``1 / (2 (A + 1))`` is right, but the dimension can go, too:

    Let X₁, X₂, ... be drawn from y, and F be a function with ``|F(y) − F(z)| <= ‖y − z‖₂``. Its
    mean given X₁..X_n is a martingale. Replacing one X_n changes that mean by at most
    ``√2 / (A + n)``, since Dirichlet(g + e_i) is a mixture of Dirichlet(g) and the vertex e_i with
    weights 1 − B and B, ``B ~ Beta(1, Σ g)``. The squares of these sum to ``2 ψ'(A + 1)``, and by
    the inequality of Azuma and Hoeffding F exceeds its mean by r with probability at most
    ``exp(−r² / ψ'(A + 1))``. Of ``F = ‖y − p‖₂`` the mean is at most the root mean square,
    which is largest either with all of p in one cell or with p uniform.
    """
    total_weight, alpha, n_cells = check_row(total_weight, alpha, n_cells)
    total = total_weight + n_cells * alpha
    spread = np.sqrt(-special.polygamma(1, total + 1) * np.log(check_failure(failure)))
    return np.minimum(
        np.sqrt(_worst_mean_square(total_weight, alpha, n_cells)) + spread, math.sqrt(2)
    )


def gaussian_l2_quantile(
    failure: ArrayLike, *, n_records: ArrayLike, n_cells: int, sigma: float
) -> FloatArray:
    """Return the distance that noisy frequencies exceed with probability ``failure``, exactly.

    That is ``‖(x + Z)/N − p‖₂``, for Gaussian noise Z on counts x of N records.

    Parameters
    ----------
    failure : array_like
        Probabilities, each in (0, 1); broadcast against ``n_records``.
    n_records : array_like
        N, > 0.
    n_cells : int
        Number of cells, >= 1.
    sigma : float
        Standard deviation of the noise on each count, > 0. For a Rényi divergence of at most ε
        at order λ it is ``Δ₂ sqrt(λ / (2 ε))``.

    Returns
    -------
    array
        A quantile of ``sigma χ_d / N``. So a given distance takes this at N = 1, divided by it,
        in records.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    DPS's (17) is a bound on this, true but larger. It prints ``x + Z − p`` for ``p + Z − p``.

    That the Gaussian mechanism needs fewer records than the Dirichlet, (18), is about orders of
    growth, and holds for small distances: a prior pulls y to within 1 of p whatever N is. That
    the Dirichlet's loss is the smaller up to ``N = O(d λ / ε)`` holds for p near the prior's
    mean. There the bias of others, and (15), is of order 1, and (17) of order ``sqrt(ε / (d λ))``:
    for the worst p they cross at N of order ``sqrt(d λ / ε)``.
    """
    n_records = check_positive_array("n_records", n_records)
    check_count("n_cells", n_cells)
    check_positive("sigma", sigma)
    failure = check_failure(failure)
    with np.errstate(over="ignore"):  # infinite where floats do not hold it
        return sigma * np.sqrt(2 * special.gammainccinv(n_cells / 2, failure)) / n_records


def _worst_mean_square(total_weight: FloatArray, alpha: float, n_cells: int) -> FloatArray:
    """Return the largest ``E ‖y − p‖₂²`` of any p."""
    total = total_weight + n_cells * alpha
    # Of halves, so that the largest of floats do not overflow.
    prior = (alpha / 2) / (total_weight / n_cells / 2 + alpha / 2)
    # It is linear in Σ p_i² − 1/n_cells, which these are the extremes of.
    means = []
    for squares in (0.0, 1 - 1 / n_cells):
        variance = (1 - 1 / n_cells - (total_weight / total) ** 2 * squares) / (total + 1)
        means.append(variance + prior**2 * squares)
    return np.maximum(*means)
