"""About how much noise meets a target: where a calibration begins; where it ends it finds out."""

import math
from collections.abc import Callable

from privrl.accounting.targets import RenyiDP, Target
from privrl.numerics.scipy_lazily import special

_TINY = 1e-300  # where numbers near it over- or underflow
_LARGEST = 1e100


def gaussian_sigma(target: Target, norm: float) -> float:
    """Return about the sigma with which Gaussian noise hides a change of a norm > 0 in counts."""
    if isinstance(target, RenyiDP):
        return norm * math.sqrt(target.order / 2 / target.epsilon)
    epsilon, log_delta = min(max(target.epsilon, _TINY), 1 / _TINY), math.log(target.delta)

    def excess(shift: float) -> float:
        """Return how far delta is above the target's, in logarithms (Balle and Wang, 2018)."""
        ahead = float(special.log_ndtr(shift / 2 - epsilon / shift))
        gap = epsilon + float(special.log_ndtr(-shift / 2 - epsilon / shift)) - ahead
        return ahead + math.log(-math.expm1(gap)) - log_delta if gap < 0 else -math.inf

    tail = math.sqrt(-2 * log_delta)
    shift = 2 * epsilon / (tail + math.sqrt(tail**2 + 2 * epsilon))  # by Chernoff's bound
    while excess(2 * shift) <= 0:
        shift *= 2
    return norm / _root(excess, shift, 2 * shift)


def laplace_scale(target: Target, total: float, cells: int) -> float:
    """Return about the scale with which Laplace noise hides a change by a total > 0 in counts.

    ``cells`` is of how many; from two on it is as if they were two.
    """
    if isinstance(target, RenyiDP):
        # A sum of small losses is like a Gaussian's, of large ones like the largest of them.
        return total * max(math.sqrt(target.order / target.epsilon) / 2, 1 / target.epsilon)
    delta = max(target.delta, _TINY)
    least = -math.log1p(-delta)  # half of what the largest loss is above epsilon

    def excess(half: float) -> float:
        return -math.expm1(-half) - half / 2 * math.exp(-half) - delta

    half = least if cells == 1 else _root(excess, least, 4 * least)
    return total / (target.epsilon + 2 * half)


def dirichlet_weight(target: Target, square: float, alpha: float) -> float:
    """Return roughly the weight with which a Dirichlet draw hides a change of a squared norm > 0.

    ``alpha`` is the prior. As if losses were Gaussian, with the variance they nearly have.
    """
    trigamma = min(max(float(special.zeta(2, alpha)), _TINY), 1 / _TINY)
    return max(1 / gaussian_sigma(target, 1.0) / math.sqrt(trigamma) / math.sqrt(square), _TINY)


def dirichlet_alpha(target: Target, square: float, weight: float) -> float:
    """Return roughly the prior with which a Dirichlet draw does so at a weight."""
    # Of a prior the trigamma function is about 1 / alpha + 1 / alpha².
    size = min(weight * math.sqrt(square) * gaussian_sigma(target, 1.0), _LARGEST)
    return max((size + math.sqrt(size * size + 4)) / 2 * size, _TINY)


def _root(excess: Callable[[float], float], low: float, high: float) -> float:
    """Return where an excess that rises is nothing, between two numbers > 0: halved until near."""
    while high > low * (1 + 1e-14):
        middle = (low + high) / 2
        low, high = (low, middle) if excess(middle) > 0 else (middle, high)
    return high
