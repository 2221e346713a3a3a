"""The papers' Rényi curves of one change vector: looser than the exact divergence.

`DirichletCost` knows them by the names of its ``bound``:

- ``"dps"``: Ponnoprat, *Differential privacy of Dirichlet posterior sampling* (DPS below),
  Corollary 3;
- ``"dkl"``: *Dirichlet mechanism for differentially private KL divergence minimization* (DKL
  below), Theorem 1, with the same value as ``"dps"`` but at fewer orders;
- ``"geumlek"``: Geumlek, Song and Chaudhuri, *Rényi differential privacy mechanisms for
  posterior sampling* (2017), as DPS quotes it in (6): twice ``"dps"``.
"""

import math
from collections.abc import Callable, Iterable

import numpy as np

from privrl.costs.relations import ChangeVector
from privrl.numerics.scipy_lazily import special
from privrl.numerics.special import FloatArray
from privrl.numerics.upwards import FEW

Numbers = float | FloatArray  # of one release, or of several, broadcast against the orders

#: From a change vector, the weight, the prior and orders > 1 to a bound on the divergence (nats)
#: of ``Dirichlet(weight * counts + alpha)`` at each order, infinite where it does not apply.
RdpBound = Callable[[ChangeVector, Numbers, Numbers, FloatArray], FloatArray]


def dps_rdp(
    vector: ChangeVector, weight: Numbers, alpha: Numbers, orders: FloatArray
) -> FloatArray:
    """Return ``λ/2 weight² Δ₂² ψ'(alpha − (λ − 1) weight Δ∞)``: DPS, Theorem 2 and Corollary 3.

    Infinite from the order ``1 + alpha / (weight Δ∞)`` on.
    """
    squares, largest = sensitivities([vector])
    argument = _furthest(largest, weight, alpha, orders)
    inside = np.where(argument > 0, argument, 1.0)
    value = orders / 2 * weight**2 * squares * special.polygamma(1, inside)
    return np.where(argument > 0, value, np.inf)


def dkl_rdp(
    vector: ChangeVector, weight: Numbers, alpha: Numbers, orders: FloatArray
) -> FloatArray:
    """Return ``λ/2 weight² Δ₂² ψ'(1 + g)``, where ``alpha = 1 + g + (λ − 1) weight Δ∞``.

    That is DKL's Theorem 1 in the general form of its Remark 1, which requires ``g >= 0``:
    `dps_rdp` up to the order ``1 + (alpha − 1) / (weight Δ∞)``, infinite beyond. At the order
    that Algorithm 1 was run for, where ``g = 3 (λ − 1) weight Δ∞``, it is the algorithm's
    claim, and also under Remark 2 if ``alpha`` includes ``weight`` times the known lower bound.
    """
    _, largest = sensitivities([vector])
    # The slack is for rounding where g = 0; the value is a bound on either side of that.
    reaches = _furthest(largest, weight, alpha, orders) >= 1 - 1e-12 * alpha
    value = dps_rdp(vector, weight, alpha, orders)
    return np.where(reaches, value, np.inf)


def geumlek_rdp(
    vector: ChangeVector, weight: Numbers, alpha: Numbers, orders: FloatArray
) -> FloatArray:
    """Return ``λ weight² Δ₂² sup ‖∇² log B‖``: Geumlek, Song and Chaudhuri (2017), DPS (6).

    Infinite from the order ``1 + alpha / (weight Δ∞)`` on.

    Notes
    -----
    The divergence between the natural parameters ``u`` and ``v`` is

        [log B(u + (λ − 1)(u − v)) − λ log B(u) + (λ − 1) log B(v)] / (λ − 1),

    so the Hessian must be bounded on the whole segment from ``v`` through ``u`` to
    ``u + (λ − 1)(u − v)``. A cell on that segment is at least ``alpha − (λ − 1) weight Δ∞``, and
    the segment must stay positive: hence the range of orders. The Hessian is
    ``diag ψ'(u_i) − ψ'(sum u) 1 1ᵀ``, positive definite, of norm below ``max ψ'(u_i)`` and
    arbitrarily close to it if the other cells are large: the supremum is ``ψ'`` of that
    least cell, and the bound is twice `dps_rdp`. (Taylor's theorem gives ``λ/2`` for ``λ``.)

    Over the data alone, as (6) is printed, the supremum would be ``ψ'(alpha)``. That is not a
    bound: it stays finite where the divergence is infinite.
    """
    return 2 * dps_rdp(vector, weight, alpha, orders)


#: The curves that `DirichletCost` knows by name.
BOUNDS: dict[str, RdpBound] = {"dps": dps_rdp, "dkl": dkl_rdp, "geumlek": geumlek_rdp}


def _furthest(largest: float, weight: Numbers, alpha: Numbers, orders: FloatArray) -> FloatArray:
    """Return the least concentration on the segment of the proofs at each order."""
    # A little further than neighbours go: near the end the last digits of the way decide.
    return alpha - (1 + FEW) * ((orders - 1) * weight * largest)


def sensitivities(vectors: Iterable[ChangeVector]) -> tuple[float, float]:
    """Return the papers' ``Δ₂²`` and ``Δ∞``: the largest of any change vector."""
    vectors = list(vectors)
    squares = max((math.fsum(m * m for m in vector) for vector in vectors), default=0.0)
    largest = max((abs(m) for vector in vectors for m in vector), default=0.0)
    return squares, largest
