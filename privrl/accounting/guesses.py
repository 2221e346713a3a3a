"""About how much noise meets a target: where a calibration begins; where it ends it finds out."""

import math

from privrl.accounting.targets import Rdp, Target
from privrl.numerics.roots import brentq
from privrl.numerics.scipy_lazily import special


def gaussian_sigma(target: Target, norm: float) -> float:
    """Return about the sigma with which Gaussian noise hides a change of a norm > 0 in counts."""
    if isinstance(target, Rdp):
        return norm * math.sqrt(target.order / 2 / target.epsilon)
    epsilon, log_delta = target.epsilon, math.log(target.delta)

    def excess(shift: float) -> float:
        """Return how far delta is above the target's, in logarithms (Balle and Wang, 2018)."""
        ahead = float(special.log_ndtr(shift / 2 - epsilon / shift))
        gap = epsilon + float(special.log_ndtr(-shift / 2 - epsilon / shift)) - ahead
        return ahead + math.log(-math.expm1(gap)) - log_delta if gap < 0 else -math.inf

    tail = math.sqrt(-2 * log_delta)
    low = high = 2 * epsilon / (tail + math.sqrt(tail**2 + 2 * epsilon))  # by Chernoff's bound
    while excess(high) <= 0:
        high *= 2
    return norm / (brentq(excess, low, high, xtol=0.0, rtol=1e-10) if high > low else low)


def laplace_scale(target: Target, total: float, cells: int) -> float:
    """Return about the scale with which Laplace noise hides a change by a total > 0 in counts.

    ``cells`` is of how many; from two on it is as if they were two.
    """
    if isinstance(target, Rdp):
        # A sum of small losses is like a Gaussian's, of large ones like the largest of them.
        return total * max(math.sqrt(target.order / target.epsilon) / 2, 1 / target.epsilon)
    least = -math.log1p(-target.delta)  # half of what the largest loss is above epsilon

    def excess(half: float) -> float:
        return -math.expm1(-half) - half / 2 * math.exp(-half) - target.delta

    half = least if cells == 1 else brentq(excess, least, 4 * least, xtol=0.0, rtol=1e-13)
    return total / (target.epsilon + 2 * half)
