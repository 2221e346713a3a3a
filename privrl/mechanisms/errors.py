"""How far a private draw may be from the true frequencies: error bars and sample sizes.

Here y ~ Dirichlet(total_weight * p + alpha) is the release of a row with frequencies p; for
counts of N records, ``total_weight = weight * N``. A tail, a quantile or a sample size holds for
every p. It does not depend on p, so an error bar is public where N is.
`privrl.mechanisms.design` has the exact mean of a loss.

The statements are those of Ponnoprat, *Dirichlet mechanism for differentially private KL
divergence minimization* (DKL below) and *Differential privacy of Dirichlet posterior sampling*
(DPS below), and of Gohari et al., *The Dirichlet mechanism for differential privacy on the unit
simplex* (SIM below), sharpened where possible, and corrected where they fail.
"""

import math
from collections.abc import Callable
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privrl.files.shown import shown
from privrl.numerics.checks import (
    as_floats,
    check_among,
    check_between,
    check_count,
    check_each,
    check_positive,
    check_positive_array,
)
from privrl.numerics.scipy_lazily import special
from privrl.numerics.special import (
    FloatArray,
    bregman_lgamma,
    digamma_excess,
    lgamma_excess,
    log1pmx,
)

_MOST_RECORDS = 2**100
_LEAST = 1e-100

KlBound = Literal["vertex", "lambert", "dkl"]
#: The least prior with which the worst frequencies are known to be all in one cell.
VERTEX_ALPHA = 0.5 + math.sqrt(1 / 12)


def kl_tail(
    eta: ArrayLike,
    *,
    total_weight: ArrayLike,
    alpha: float,
    n_cells: int,
    bound: KlBound = "vertex",
) -> FloatArray:
    """Return a bound on the probability that ``KL(p || y) > eta``, whatever p is.

    Parameters
    ----------
    eta : array_like
        Divergences in nats, each > 0.
    total_weight : array_like
        What p is multiplied by (DKL's beta), > 0; broadcast against ``eta``.
    alpha : float
        The prior pseudo-count of every cell: at least 1/2, for ``"vertex"`` at least
        `VERTEX_ALPHA`, 0.789.
    n_cells : int
        Number of cells of the row, >= 2.
    bound : {"vertex", "lambert", "dkl"}
        ``"vertex"`` is the sharpest. ``"lambert"`` is DKL's (21), and ``"dkl"`` the simpler
        bound that its Theorem 2 makes of it. Each is at most the next.

    Returns
    -------
    array
        Probabilities; 1 where the bound says nothing. That is for ``"dkl"`` where
        ``total_weight < n_cells alpha / (e^(eta/2) − 1)``.

    Raises
    ------
    ValueError
        If ``eta`` or ``total_weight`` is not > 0, ``alpha`` below what the bound needs, or
        ``n_cells`` below 2.

    Notes
    -----
    *Theorem 2* is printed for all ``alpha > 0``. Its proof uses ``log(x − 1/2) < ψ(x)`` for x
    that are only known to exceed alpha, and needs ``alpha >= 1/2``. Up to 1/4 it is false: the
    smallest eta it allows is ``2 log(1 + n_cells alpha / total_weight)``, and with p uniform over
    many cells, and a total weight of about their number, nearly every draw is further off.

    *Vertex.* With W for the total weight, by (19), ``log E exp(t KL)`` is a constant plus
    ``Σ h(p_i)``, where ``h(p) = t p log p + log Γ((W − t) p + alpha) − log Γ(W p + alpha)``. If
    each h is convex, the sum is largest with all of p in one cell, where ``KL = −log Beta(W +
    alpha, (n_cells − 1) alpha)``, and this is Chernoff's bound for that. Now ``p² h''(p)`` is the
    increase of ``x − x² ψ'(x + alpha)`` from ``(W − t) p`` to ``W p``, and its slope is
    ``∫ s φ''(s) e^(−xs) ds`` with ``φ(s) = s e^(−alpha s) / (1 − e^(−s))``. So it is enough
    that φ is convex: ``(alpha − l')² >= −l''`` for ``l = log(s / (1 − e^(−s)))``. By the
    concavity of ``coth x − 1/x`` on x > 0, ``l' <= 1/2`` and ``−l'' <= 1/12``: this is where
    `VERTEX_ALPHA` comes from.
    """
    total_weight, alpha, n_cells = _check_kl(total_weight, alpha, n_cells, bound)
    eta = _check_sizes("eta", eta)
    eta, total_weight = np.broadcast_arrays(eta, total_weight)
    bias = np.log1p(n_cells * alpha / total_weight)
    if bound == "vertex":
        return _vertex_tail(eta, total_weight + alpha, (n_cells - 1) * alpha)
    if bound == "lambert":
        w = _lambert(np.maximum(eta - bias, 0.0))
        return np.exp(-total_weight * w * (w / (1 + w)))
    exponent = total_weight / (2 * (1 + 2 / eta) * (3 + 4 / eta))
    return np.where(eta >= 2 * bias, np.exp(-exponent), 1.0)


def kl_quantile(
    failure: ArrayLike,
    *,
    total_weight: ArrayLike,
    alpha: float,
    n_cells: int,
    bound: KlBound = "vertex",
) -> FloatArray:
    """Return the smallest eta that ``KL(p || y)`` is known to exceed no more often than that.

    Parameters
    ----------
    failure : array_like
        Probabilities of being further off, each in (0, 1); broadcast against ``total_weight``.
    total_weight, alpha, n_cells, bound
        As for `kl_tail`, whose inverse this is.

    Returns
    -------
    array
        Divergences in nats: the error bar. Infinite if the bound is above ``failure``
        everywhere: Theorem 2's is never below ``exp(−total_weight / 6)``.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    total_weight, alpha, n_cells = _check_kl(total_weight, alpha, n_cells, bound)
    exponent, total_weight = np.broadcast_arrays(-np.log(_check_failure(failure)), total_weight)
    bias = np.log1p(n_cells * alpha / total_weight)
    if bound == "vertex":
        return _vertex_quantile(exponent, total_weight + alpha, (n_cells - 1) * alpha)
    if bound == "lambert":  # solve total_weight w² / (1 + w) = exponent
        x = exponent / total_weight
        w = x / 2 + np.sqrt(x + x**2 / 4)
        return w + np.log1p(w) + bias
    room = total_weight - 6 * exponent
    root = 10 * exponent + 2 * np.sqrt(exponent * (exponent + 4 * total_weight))
    eta = np.divide(root, room, out=np.full_like(root, np.inf), where=room > 0)
    return np.maximum(eta, 2 * bias)


def kl_sample_size(
    *,
    weight: float,
    alpha: float,
    n_cells: int,
    eta: float,
    failure: float,
    bound: KlBound = "vertex",
) -> int:
    """Return the number of records from which ``KL(p || y) <= eta`` but for ``failure``.

    Here ``y ~ Dirichlet(weight * counts + alpha)``, and p are the frequencies of the counts.

    Parameters
    ----------
    weight, alpha : float
        Of the release: of `privrl.mechanisms.design`, or of
        `privrl.mechanisms.papers.dkl_algorithm_1` for DKL's own sample size.
    n_cells, eta, failure, bound
        As for `kl_tail` and `kl_quantile`.

    Returns
    -------
    int
        The least number, >= 1, whose `kl_tail` is at most ``failure``; so is every larger one's.

    Raises
    ------
    ValueError
        If an argument is out of range, or more than 2^100 records are needed.

    Notes
    -----
    DKL gives the order of growth only, and for ``ε < 1`` not the right one: it takes ``alpha`` to
    be of order 1, which holds while ``λ ε`` is. The second term of its sample size is
    ``d alpha / (weight (e^(η/2) − 1))``, never less than ``4 (λ − 1) Δ∞ d / (e^(η/2) − 1)``.

    Examples
    --------
    >>> from privrl.mechanisms.papers import dkl_algorithm_1
    >>> from privrl.costs.relations import ReplaceRecord
    >>> from privrl.accounting.targets import RenyiDP
    >>> setting = dkl_algorithm_1(RenyiDP(order=2, epsilon=0.1), relation=ReplaceRecord())
    >>> by = {"weight": setting.weight, "alpha": setting.alpha, "n_cells": 10}
    >>> kl_sample_size(**by, eta=0.1, failure=0.05, bound="dkl")
    20965
    >>> kl_sample_size(**by, eta=0.1, failure=0.05)
    1155
    """
    check_positive("weight", weight, "larger means less noise")
    check_positive("eta", eta)
    check_between("failure", failure, 0, 1)

    def meets(total_weight: float) -> bool:
        tail = kl_tail(eta, total_weight=total_weight, alpha=alpha, n_cells=n_cells, bound=bound)
        return bool(tail <= failure)

    high = 1
    while not meets(weight * high):
        high *= 2
        if high > _MOST_RECORDS:
            raise ValueError(
                f"eta must be one that 2^100 records suffice for, got {shown(eta)}; allow more."
            )
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if meets(weight * middle) else (middle, high)
    return high


def _check_kl(
    total_weight: ArrayLike, alpha: float, n_cells: int, bound: KlBound
) -> tuple[FloatArray, float, int]:
    total_weight = _check_sizes(
        "total_weight", total_weight, "it is the weight times the number of records"
    )
    check_count("n_cells", n_cells, least=2)
    alpha = float(_check_sizes("alpha", check_positive("alpha", alpha)))
    check_among("bound", bound, get_args(KlBound))
    if not alpha >= 0.5:
        raise ValueError(
            f"alpha must be >= 0.5, got {shown(alpha)}; below, DKL's Theorem 2 is not proved, and "
            "up to 1/4 it is false. expected_loss is exact for every prior."
        )
    if bound == "vertex" and not alpha >= VERTEX_ALPHA:
        raise ValueError(
            f'alpha must be >= {VERTEX_ALPHA:.6f} for bound="vertex", got {shown(alpha)}; '
            'bound="lambert" holds from 0.5 on.'
        )
    return total_weight, alpha, n_cells


def _lambert(excess: FloatArray) -> FloatArray:
    """Return the w >= 0 with ``w + log(1 + w) = excess``, precise near zero: W(e^(1+excess)) − 1.

    It is also where (20) is least: at ``t = total_weight w / (1 + w)``.
    """
    w = np.maximum(special.wrightomega(1 + excess) - 1, 0.0)
    # One step of Newton's restores the digits that the subtraction lost.
    return np.maximum(w - (w + np.log1p(w) - excess) * (1 + w) / (2 + w), 0.0)


def _vertex_tail(eta: FloatArray, u: FloatArray, k: float) -> FloatArray:
    low = np.minimum(min(k, 1.0) / eta, u)  # ψ(s + k) − ψ(s) >= min(k, 1) / s
    s = _bisect(lambda s: _tilted_mean(s, k) > eta, low, u)
    return np.exp(np.minimum(_log_beta(s, k) - _log_beta(u, k) - (u - s) * eta, 0.0))


def _vertex_quantile(exponent: FloatArray, u: FloatArray, k: float) -> FloatArray:
    def log_moment(s: FloatArray) -> FloatArray:
        return _log_beta(s, k) - _log_beta(u, k)

    def too_unlikely(s: FloatArray) -> NDArray[np.bool_]:
        return log_moment(s) - (u - s) * _tilted_mean(s, k) < -exponent

    # The left side is −∫ (u − x) (ψ'(x) − ψ'(x + k)) dx from s to u, and the difference of
    # trigammas is at least min(k, 1) / x²: so at this s it is low enough.
    low = u / (2 * exponent / min(k, 1.0) + 2)
    s = _bisect(too_unlikely, low, u)
    return (log_moment(s) + exponent) / (u - s)


def _bisect(
    below: Callable[[FloatArray], NDArray[np.bool_]], low: FloatArray, high: FloatArray
) -> FloatArray:
    """Return the end of where ``below`` holds, between positive numbers."""
    for _ in range(70):
        middle = np.sqrt(low) * np.sqrt(high)
        here = below(middle)
        low, high = np.where(here, middle, low), np.where(here, high, middle)
    return low


def _tilted_mean(s: FloatArray, k: float) -> FloatArray:
    """Return ``ψ(s + k) − ψ(s)``, the mean of −log Beta(s, k), precise for large s."""
    with np.errstate(over="ignore"):  # in denominators, at s > 1e20
        return np.log1p(k / s) + digamma_excess(s + k) - digamma_excess(s)


def _log_beta(s: FloatArray, k: float) -> FloatArray:
    """Return ``log B(s, k) − log Γ(k) + k − k log k``, precise for large s."""
    with np.errstate(over="ignore"):
        excess = lgamma_excess(s) - lgamma_excess(s + k)
    return excess - s * np.log1p(k / s) - k * np.log1p(s / k)


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
    may be twice that. The proxy ``1 / (2 (A + 1))`` is right, and the term in the dimension is not
    needed:

    Let X₁, X₂, ... be drawn from y, and F be a function with ``|F(y) − F(z)| <= ‖y − z‖₂``. Its
    mean given X₁..X_n is a martingale. Replacing one X_n changes that mean by at most
    ``√2 / (A + n)``, since Dirichlet(g + e_i) is a mixture of Dirichlet(g) and the vertex e_i with
    weights 1 − B and B, ``B ~ Beta(1, Σ g)``. The squares of these sum to ``2 ψ'(A + 1)``, and by
    the inequality of Azuma and Hoeffding F exceeds its mean by r with probability at most
    ``exp(−r² / ψ'(A + 1))``. Of ``F = ‖y − p‖₂`` the mean is at most the root mean square,
    which is largest either with all of p in one cell or with p uniform.
    """
    total_weight = check_positive_array(
        "total_weight", total_weight, "it is the weight times the number of records"
    )
    alpha, n_cells = check_positive("alpha", alpha), check_count("n_cells", n_cells, least=2)
    total = total_weight + n_cells * alpha
    spread = np.sqrt(-special.polygamma(1, total + 1) * np.log(_check_failure(failure)))
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
    failure = _check_failure(failure)
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
    u, v = np.broadcast_arrays(_check_sizes("u", u), _check_sizes("v", v))
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
    hint = "a component at 0 or 1 is drawn without noise"
    check_each("p", p, (p > 0) & (p < 1), "> 0 and < 1 everywhere", hint)
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


def _check_sizes(name: str, values: ArrayLike, hint: str = "") -> FloatArray:
    """Return positive numbers as floats if their squares and inverses are floats."""
    array = check_positive_array(name, values, hint)
    fits, must = (array >= _LEAST) & (array <= 1 / _LEAST), f"from {_LEAST:g} to {1 / _LEAST:g}"
    return check_each(name, array, fits, f"{must} everywhere", "floats hold no other squares")


def _check_failure(failure: ArrayLike) -> FloatArray:
    """Return probabilities as floats if each is strictly between 0 and 1."""
    failure = as_floats("failure", failure)
    fits = (failure > 0) & (failure < 1)
    return check_each("failure", failure, fits, "> 0 and < 1 everywhere", "0.05 is usual")
