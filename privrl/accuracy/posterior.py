"""How far the posterior of noisy counts is from the true one, and how far a draw scatters."""

import numpy as np
from numpy.typing import ArrayLike

from privrl.accuracy.rows import check_sizes
from privrl.files.shown import shown
from privrl.numerics.checks import as_floats, check_count, check_positive, check_positive_array
from privrl.numerics.scipy_lazily import special
from privrl.numerics.special import (
    FloatArray,
    bregman_lgamma,
    digamma_excess,
    lgamma_excess,
    log1pmx,
)


def dirichlet_kl(u: ArrayLike, v: ArrayLike) -> FloatArray:
    """Return the divergence ``KL(Dirichlet(u) || Dirichlet(v))`` in nats: DPS's (22).

    Parameters
    ----------
    u, v : array_like, shape (..., K)
        Concentrations, each > 0; broadcast against each other.

    Returns
    -------
    array, shape (...)
        With an error of about 1e-14 times the divergence between the independent gammas that
        u and v normalise, or 1e-14 a cell where that is above 1. The size of u and v, and how
        close they are, do not matter.

    Raises
    ------
    ValueError
        If a concentration is not from 1e-100 to 1e100.
    """
    u, v = np.broadcast_arrays(check_sizes("u", u), check_sizes("v", v))
    if u.ndim == 0:
        raise ValueError(f"u must be one row of concentrations or more, got {shown(u)}.")
    u_sum, v_sum = u.sum(-1), v.sum(-1)
    # Below u / 8 the gammas are further apart than 1.
    near = v > u / 8
    step = np.where(near, v - u, 0.0)
    gammas = bregman_lgamma(u, step).sum(-1)
    close = gammas - bregman_lgamma(u_sum, step.sum(-1))
    # Far apart, the gammas of large u have next to everything in common with their totals:
    # what remains of log Γ, less its x log x − x, is small.
    far = v_sum * _relative_entropy(v / v_sum[..., None], u / u_sum[..., None])
    far = far + _remainder(u, v).sum(-1) - _remainder(u_sum, v_sum)
    return np.maximum(np.where(near.all(-1) & (gammas < 1), close, far), 0.0)


def _relative_entropy(p: FloatArray, q: FloatArray) -> FloatArray:
    """Return ``Σ p log(p / q)``, as a sum of terms >= 0."""
    ratio = p / q
    close = np.abs(ratio - 1) < 0.5
    x = np.where(close, ratio - 1, 0.0)
    each = np.where(close, (1 + x) * log1pmx(x) + x**2, special.kl_div(ratio, 1.0))
    return (q * each).sum(-1)


def _remainder(u: FloatArray, v: FloatArray) -> FloatArray:
    return lgamma_excess(v) - lgamma_excess(u) - (v - u) * digamma_excess(u)


def expected_posterior_kl(
    p: ArrayLike, *, n_records: int, alpha: ArrayLike, alpha_new: ArrayLike
) -> float:
    """Return a bound on how far a change of prior moves a posterior, on average over the data.

    That is ``E KL(Dirichlet(X + alpha) || Dirichlet(X + alpha_new))`` for counts X ~
    Multinomial(n_records, p): DPS's Theorem 6.

    Parameters
    ----------
    p : array_like, shape (K,)
        Frequencies, each >= 0, with sum 1.
    n_records : int
        N, >= 1.
    alpha, alpha_new : float or array_like, shape (K,)
        Priors, each >= 1.

    Returns
    -------
    float
        ``Σ (alpha_new − alpha)² (1 − (1 − p)^(N+1)) / ((N + 1) p)``, in nats.

    Raises
    ------
    ValueError
        If a prior is below 1, ``p`` no distribution of its length, or ``n_records`` no count.

    Notes
    -----
    Theorem 6 leaves out the numerator, so that rare cells cost as much as they like, though
    none costs more than its ``(alpha_new − alpha)²``. It also assumes that no prior gets
    smaller. Nothing but ``ψ' <= 2/x`` from the lesser of the two on is needed.
    """
    p = as_floats("p", p)
    if p.ndim != 1 or p.size < 2 or not (p >= 0).all() or not abs(p.sum() - 1) <= 1e-9:
        raise ValueError(
            f"p must be frequencies >= 0 of at least two cells, with sum 1, got {shown(p)}; "
            "divide counts by their sum."
        )
    check_count("n_records", n_records)
    change = _check_prior("alpha_new", alpha_new, p.size) - _check_prior("alpha", alpha, p.size)
    n = n_records + 1
    with np.errstate(divide="ignore"):
        seen = -np.expm1(n * np.log1p(-np.minimum(p, 1.0)))
    # The mean of 1 / (X + 1) for binomial X (Chao and Strawderman, 1972).
    inverse = np.divide(seen, n * p, out=np.ones_like(p), where=p > 0)
    with np.errstate(over="ignore"):  # infinite, which is a bound
        return float((change**2 * inverse).sum())


def simplex_variance(p: ArrayLike, weight: float) -> FloatArray:
    """Return the variance of each component of ``Dirichlet(weight * p)``: SIM's Proposition 1.

    Parameters
    ----------
    p : array_like
        Components of a vector of the simplex, each in (0, 1). The draw's mean is p.
    weight : float
        The paper's k, > 0.

    Returns
    -------
    array
        ``p (1 − p) / (weight + 1)``; largest for p = 1/2, where it is (23).

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    p = as_floats("p", p)
    wrong = p[~((p > 0) & (p < 1))]
    if wrong.size:
        raise ValueError(
            f"p must be > 0 and < 1 everywhere, got {wrong.flat[0]!s}; a component at 0 or 1 "
            "is drawn without noise."
        )
    return p * (1 - p) / (check_positive("weight", weight, "larger means less noise") + 1)


def _check_prior(name: str, values: ArrayLike, n_cells: int) -> FloatArray:
    array = check_positive_array(name, values)
    if array.shape not in {(), (n_cells,)}:
        raise ValueError(
            f"{name} must be one number or {n_cells}, as many as p has, got shape {array.shape}."
        )
    if not (array >= 1).all():
        raise ValueError(
            f"{name} must be >= 1 everywhere, which the theorem assumes, got {array.min()!s}; "
            "the divergence of given counts, dirichlet_kl, needs no such thing."
        )
    return array
