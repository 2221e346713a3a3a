"""The exact privacy profile delta(epsilon) of one changed cell, or of one pair of cells.

A Dirichlet draw is a normalised vector of independent gammas. Under a neighbouring data set
a changed cell's gamma has another shape; with prior ``a`` and shift ``s = |amount| * weight``
the dominating pairs of distributions are

- ``UP``:   Gamma(a + s) against Gamma(a),
- ``DOWN``: Gamma(a) against Gamma(a + s),
- ``PAIR``: both at once, which is Beta(a + s, a) against Beta(a, a + s).

In each the privacy loss is linear in one real variable with a log-concave density: ``log g``,
``−log g`` and ``logit b``; see `privrl.numerics.linear_losses` for the consequences.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from privrl.costs.relations import ChangeVector
from privrl.numerics.linear_losses import grid_masses, log_tail_integral, loss_range
from privrl.numerics.scipy_lazily import special
from privrl.numerics.special import (
    FloatArray,
    bregman_lgamma,
    digamma_excess,
    expm1mx,
    lgamma_excess,
    log1pmx,
)
from privrl.numerics.upwards import DIVERGENCE, FEW, outward

#: Part of the way to where a divergence is infinite, beyond which it counts as that: rounding near
#: the limit matters.
LIMIT: Final = 1 - 1e-7


class Shape(Enum):
    """The kind of change to the cells of one independent factor."""

    UP = "up"
    DOWN = "down"
    PAIR = "pair"


@dataclass(frozen=True)
class Factor:
    """One dominating pair: prior ``alpha`` and shift ``|amount| * weight``, both > 0."""

    shape: Shape
    alpha: float
    shift: float

    def rdp(self, orders: FloatArray) -> FloatArray:
        """Return the exact Rényi divergence at each order > 1; see `factor_rdp`."""
        return factor_rdp(self, orders)

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """Return ``log delta`` at each epsilon; see `factor_log_delta`."""
        return factor_log_delta(self, epsilon)

    def loss_range(self, level: float) -> tuple[float, float]:
        """Return losses beyond which all the mass is below ``exp(level)``."""
        return loss_range(_density(self), self.shift, level)

    def grid_masses(self, step: float, first: int, last: int) -> tuple[FloatArray, float]:
        """Connect the dots at the losses ``step * (first .. last)``."""
        return grid_masses(_density(self), self.shift, step, first, last)


def factor_rdp(factor: Factor, orders: FloatArray) -> FloatArray:
    """Return the exact Rényi divergence of a factor at each order > 1; same shape."""
    sides = {Shape.UP: (1.0,), Shape.DOWN: (-1.0,), Shape.PAIR: (1.0, -1.0)}[factor.shape]
    return changes_rdp([sides], factor.shift, factor.alpha, orders.ravel()).reshape(orders.shape)


def changes_rdp(
    changes: Sequence[ChangeVector], weight: ArrayLike, alpha: ArrayLike, orders: FloatArray
) -> FloatArray:
    """Return the exact Rényi divergence of the worst change vector.

    Parameters
    ----------
    changes : sequence of change vectors
        The differences between neighbours; without any the divergence is zero.
    weight, alpha : array_like, shape (...,)
        Of one release or of several.
    orders : array, shape (n_orders,)
        Rényi orders > 1.

    Returns
    -------
    array, shape (..., n_orders)
        In nats; may be infinite.

    Notes
    -----
    Cells add up. The log-moment of each is a difference of log-gamma whose constant and linear
    parts vanish, so it is written with `bregman_lgamma` as a sum of positive terms. With
    ``t = amount * weight``, negative for a loss, and ``b = alpha + max(t, 0)`` the divergence is
    ``G(b, (λ − 1) t) / (λ − 1) + G(b, −t)``; for a loss it is finite only for ``(1 − λ) t < b``.
    """
    weight, alpha = np.broadcast_arrays(weight, alpha)
    worst = np.zeros((*weight.shape, len(orders)))
    amounts = sorted({amount for vector in changes for amount in vector})
    if not amounts:
        return worst
    # A little further than neighbours go: near the limit the last digits of a move decide.
    moves = (1 + FEW) * np.multiply.outer(amounts, weight)[..., None]
    base = alpha[..., None] + np.maximum(moves, 0.0)
    far = moves * (orders - 1)
    finite = -far < base * LIMIT
    # A sum in which alpha would be lost: there log-gamma itself is precise enough.
    vast = moves > 1e3 * alpha[..., None]
    near = np.where(vast, 0.0, -moves)
    # In one call, since a few numbers take as long as a few hundred.
    terms = bregman_lgamma(base, np.concatenate([np.where(finite, far, 0.0), near], -1))
    rest = terms[..., -1:]
    if vast.any():
        far_off = (
            special.gammaln(alpha[..., None])
            - special.gammaln(base)
            + moves * special.digamma(base)
        )
        rest = np.where(vast, far_off, rest)
    each = np.where(finite, terms[..., :-1] / (orders - 1) + rest, np.inf)
    cost = dict(zip(amounts, each, strict=True))
    for vector in changes:
        cells = Counter(vector).items()
        worst = np.maximum(worst, sum(times * cost[amount] for amount, times in cells))
    return outward(worst, max(DIVERGENCE, FEW * len(amounts)))  # sums of many round, too


def factor_log_delta(factor: Factor, epsilon: ArrayLike) -> FloatArray:
    """Return ``log delta(epsilon)`` of a factor, exact to about ten digits of delta.

    ``epsilon`` may be any real number; the result has its shape.
    """
    epsilon = np.asarray(epsilon, np.float64)
    ahead = _log_delta_ahead(factor, np.abs(epsilon))
    if not (epsilon < 0).any():
        return ahead
    # delta of (P, Q) at −e is 1 − exp(−e) + exp(−e) times delta of (Q, P) at e.
    swapped = _log_delta_ahead(replace(factor, shape=_SWAPPED[factor.shape]), np.abs(epsilon))
    with np.errstate(divide="ignore"):
        behind = np.logaddexp(np.log(-np.expm1(-np.abs(epsilon))), swapped - np.abs(epsilon))
    return np.where(epsilon < 0, behind, ahead)


_SWAPPED = {Shape.UP: Shape.DOWN, Shape.DOWN: Shape.UP, Shape.PAIR: Shape.PAIR}


def _log_delta_ahead(factor: Factor, epsilon: FloatArray) -> FloatArray:
    density = _density(factor)
    flat = log_tail_integral(density, factor.shift, density.start(epsilon.ravel()))
    return flat.reshape(epsilon.shape)


_STEEP = 600.0  # nats, from which on only exponentials matter; that of it is still a float


class Density:
    """The log-concave density of the loss's variable, measured from its mode.

    ``log density(y) = constant − bend(y)`` with ``bend(0) = 0``, its minimum.
    """

    def __init__(self, factor: Factor) -> None:
        a, s = factor.alpha, factor.shift
        self._factor = factor
        self._gamma = a + s if factor.shape is Shape.UP else a
        self._total = 2 * a + s
        self._share = a / self._total
        self._start, rounded = _start(factor)
        # Lower by more than rounding took, so that no loss is too small.
        self._start -= FEW * rounded
        if factor.shape is Shape.PAIR:
            self.constant = lgamma_excess(self._total) - lgamma_excess(a + s) - lgamma_excess(a)
            # where logit b = 0: there the density's two exponential slopes meet
            self.knee = -np.log1p(s / a)
        else:
            self.constant = -lgamma_excess(self._gamma)
            knee = -np.log(self._gamma)  # where log g = 0
            self.knee = knee if factor.shape is Shape.UP else -knee

    def start(self, epsilon: FloatArray) -> FloatArray:
        """Return the point where the loss equals epsilon."""
        return epsilon / self._factor.shift + self._start

    def bend(self, y: FloatArray) -> FloatArray:
        """Return how far the log density is below its mode."""
        match self._factor.shape:
            case Shape.UP:
                return self._gamma * expm1mx(y)
            case Shape.DOWN:
                return self._gamma * expm1mx(-y)
            case Shape.PAIR:
                # log(1 − p + p e^−y) + p y, with the smaller share
                p, near = self._share, np.abs(y) < 1
                if near.all():
                    return self._total * (log1pmx(p * np.expm1(-y)) + p * expm1mx(-y))
                bend = np.empty_like(y)
                some, rest = -y[near], y[~near]
                bend[near] = log1pmx(p * np.expm1(some)) + p * expm1mx(some)
                rise = np.minimum(-rest, _STEEP)
                bend[~near] = np.log1p(p * np.expm1(rise)) - (rest + rise) + p * rest
                return self._total * bend

    def slope(self, y: FloatArray) -> FloatArray:
        """Return the derivative of ``bend``."""
        with np.errstate(over="ignore"):
            match self._factor.shape:
                case Shape.UP:
                    return self._gamma * np.expm1(y)
                case Shape.DOWN:
                    return -self._gamma * np.expm1(-y)
                case Shape.PAIR:
                    p, rise = self._share, np.expm1(np.minimum(-y, _STEEP))
                    return -self._total * p * (1 - p) * (rise / (1 + p * rise))


@lru_cache(maxsize=16)
def _density(factor: Factor) -> Density:
    return Density(factor)


def _start(factor: Factor) -> tuple[float, float]:
    """Return the point where the loss is zero, and the sum of the absolute terms behind it."""
    a, s = factor.alpha, factor.shift
    apart = math.log1p(s / a)
    if factor.shape is Shape.PAIR:
        return -apart, apart
    # (log Γ(a + s) − log Γ(a)) / s, less log(a + s) or log a
    gains = factor.shape is Shape.UP
    if a < 1:  # Γ(a) = Γ(1 + a) / a
        last = math.log(a + s if gains else a)
        terms = [-apart / s, _bregman(1 + a, s) / s, float(special.digamma(1 + a)), -last]
    elif s < a:  # all small for large a
        terms = [_bregman(a, s) / s, float(digamma_excess(a)), -apart * gains]
    else:
        excess = float(lgamma_excess(a + s)) / s, -float(lgamma_excess(a)) / s
        terms = [a / s * apart, apart * (not gains), -1.0, *excess]
    return (1 if gains else -1) * math.fsum(terms), math.fsum(map(abs, terms))


@lru_cache(maxsize=16)
def _bregman(a: float, s: float) -> float:
    """Return `bregman_lgamma` once for both directions of a change."""
    return float(bregman_lgamma(a, s))
