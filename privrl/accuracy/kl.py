"""Error bars of a draw in Kullback-Leibler divergence, and the records that they need."""

import math
from collections.abc import Callable
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privrl.accuracy.rows import check_failure, check_sizes, least_records
from privrl.files.shown import shown
from privrl.numerics.checks import check_between, check_count, check_positive
from privrl.numerics.scipy_lazily import special
from privrl.numerics.special import FloatArray, digamma_excess, lgamma_excess

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
    eta = check_sizes("eta", eta)
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
    exponent, total_weight = np.broadcast_arrays(-np.log(check_failure(failure)), total_weight)
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
        Of the release: of `privrl.accuracy.design`, or of
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

    return least_records(meets, weight, "eta", eta)


def _check_kl(
    total_weight: ArrayLike, alpha: float, n_cells: int, bound: KlBound
) -> tuple[FloatArray, float, int]:
    total_weight = check_sizes(
        "total_weight", total_weight, "it is the weight times the number of records"
    )
    check_count("n_cells", n_cells, least=2)
    alpha = float(check_sizes("alpha", check_positive("alpha", alpha)))
    if bound not in get_args(KlBound):
        raise ValueError(
            f"bound must be one of {', '.join(map(repr, get_args(KlBound)))}, got {shown(bound)}."
        )
    if not alpha >= 0.5:
        raise ValueError(
            f"alpha must be >= 0.5, got {shown(alpha)}; below, DKL's Theorem 2 is not proved, and "
            "up to 1/4 it is false. privrl.accuracy.expected_loss is exact for every prior."
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
