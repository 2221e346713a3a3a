"""From Rényi differential privacy to (epsilon, delta), by Canonne, Kamath and Steinke.

The conversion is Proposition 12 of *The discrete Gaussian for differential privacy* (2020):
``delta = exp((λ − 1)(rdp − epsilon)) (1 − 1/λ)^λ / (λ − 1)`` at the best order λ.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from privrl.numerics.special import FloatArray
from privrl.numerics.upwards import FEW

#: Orders at which curves are kept when the user names none: dense enough that the best of
#: them converts to within a tenth of a percent of the best possible order; and the usual
#: orders of budgets.
DEFAULT_ORDERS: FloatArray = np.sort(
    [*(1 + np.geomspace(1e-6, 1e6, 480)), 1.5, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 32, 64]
)
#: Nats beyond which results underflow, so that nothing changes any more.
FARTHEST = 1e90
DEFAULT_ORDERS.flags.writeable = False


def rdp_to_epsilon(orders: FloatArray, rdp: FloatArray, delta: ArrayLike) -> FloatArray:
    """Return the smallest epsilon that the curve implies at each ``delta``.

    Parameters
    ----------
    orders : array, shape (n,)
        Rényi orders > 1.
    rdp : array, shape (..., n)
        Rényi divergence at those orders, in nats; may be infinite.
    delta : array_like
        Each in (0, 1); broadcast against the leading axes of ``rdp``.

    Returns
    -------
    array
        Epsilon in nats, at least 0, never rounded down.
    """
    return np.maximum(epsilon_by_order(orders, rdp, delta).min(axis=-1), 0.0)


def epsilon_by_order(orders: FloatArray, rdp: FloatArray, delta: ArrayLike) -> FloatArray:
    """Return the epsilon that each order implies, possibly < 0; shapes as `rdp_to_epsilon`."""
    log_delta = np.log(np.asarray(delta, np.float64))[..., None]
    # log(λ − 1) − λ log(λ) / (λ − 1), without cancellation at large orders
    share, log_order, more = _log_share(orders), np.log(orders), orders - 1
    epsilon = rdp + share - (log_delta + log_order) / more
    return epsilon + FEW * (rdp - share + (log_order - log_delta) / more)


def rdp_to_log_delta(orders: FloatArray, rdp: FloatArray, epsilon: ArrayLike) -> FloatArray:
    """Return the logarithm of the smallest delta that the curve implies at each ``epsilon``.

    The shapes are those of `rdp_to_epsilon`; the result is at most 0 and never rounded down.
    """
    return np.minimum(log_delta_by_order(orders, rdp, epsilon).min(axis=-1), 0.0)


def log_delta_by_order(orders: FloatArray, rdp: FloatArray, epsilon: ArrayLike) -> FloatArray:
    """Return the log delta that each order implies, possibly > 0; shapes as before."""
    epsilon, more = np.minimum(epsilon, FARTHEST)[..., None], orders - 1
    # With the order's own terms written as one: log(1 − 1/λ)^λ / (λ − 1).
    own, log_more = orders * _log_share(orders), np.log(more)
    log_delta = more * (rdp - epsilon) - log_more + own
    return log_delta + FEW * (more * (rdp + epsilon) + np.abs(log_more) - own)


def _log_share(orders: FloatArray) -> FloatArray:
    """Return ``log(1 − 1/λ)``, which is negative."""
    return np.where(orders < 2, np.log((orders - 1) / orders), np.log1p(-1 / orders))


def best_log_delta(rdp: Callable[[FloatArray], FloatArray], epsilon: FloatArray) -> FloatArray:
    """Return `rdp_to_log_delta` at the best of all orders, for a curve that is a function.

    The default orders are refined three times around the best of them, for each epsilon.
    The result is an upper bound for any choice of orders.
    """
    flat = epsilon.reshape(-1, 1)
    orders = np.broadcast_to(DEFAULT_ORDERS, (len(flat), len(DEFAULT_ORDERS)))
    curve = np.broadcast_to(rdp(DEFAULT_ORDERS), orders.shape)
    rows = np.arange(len(flat))
    for refinements_left in (3, 2, 1, 0):
        each = rdp_to_log_delta(orders[..., None], curve[..., None], flat)
        at = each.argmin(axis=1)
        if refinements_left:
            low = orders[rows, np.maximum(at - 1, 0)]
            high = orders[rows, np.minimum(at + 1, orders.shape[1] - 1)]
            orders = 1 + np.geomspace(low - 1, high - 1, 33, axis=1)
            orders.flags.writeable = False  # or a cost could move them
            curve = rdp(orders.ravel()).reshape(orders.shape)
    return each[rows, at].reshape(epsilon.shape)
