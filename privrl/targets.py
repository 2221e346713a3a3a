"""What a user wants to spend: a point on a Rényi curve, or (epsilon, delta)."""

import math
from dataclasses import dataclass

import numpy as np

from privrl._checks import check_between, check_positive
from privrl.conversion import DEFAULT_ORDERS, rdp_to_epsilon, rdp_to_log_delta
from privrl.releases import Release


@dataclass(frozen=True)
class Rdp:
    """Rényi divergence of one order, at most ``epsilon`` (nats).

    Raises
    ------
    ValueError
        If ``order`` is not > 1 and finite, or ``epsilon`` not > 0 and finite.
    """

    order: float
    epsilon: float

    def __post_init__(self) -> None:
        check_between("order", self.order, 1, np.inf, "2 is usual")
        check_positive("epsilon", self.epsilon, "smaller means more privacy")

    def excess(self, release: Release, count: int = 1) -> float:
        """Return how far ``count`` releases are above the target (> 0) or below, in logarithms."""
        cost = count * float(release.rdp(self.order))
        return math.log(cost / self.epsilon) if cost > 0 else -math.inf

    def is_met(self, release: Release, count: int = 1) -> bool:
        """Whether an accountant with this budget accepts ``count`` releases."""
        return count * float(release.rdp(self.order)) <= self.epsilon


@dataclass(frozen=True)
class ApproxDP:
    """(epsilon, delta)-differential privacy, epsilon in nats.

    Raises
    ------
    ValueError
        If ``epsilon`` is not > 0 and finite, or ``delta`` not strictly between 0 and 1.
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        check_positive("epsilon", self.epsilon, "smaller means more privacy")
        check_between("delta", self.delta, 0, 1, "1e-5 or less is usual")

    def excess(self, release: Release, count: int = 1) -> float:
        """Return how far ``count`` releases are above the target (> 0) or below, in logarithms.

        One release is accounted for by its own profile, several by Rényi's sum.
        """
        if count == 1:
            with np.errstate(divide="ignore"):
                log_delta = float(np.log(release.delta(self.epsilon)))
        else:
            curve = count * release.rdp(DEFAULT_ORDERS)
            log_delta = float(rdp_to_log_delta(DEFAULT_ORDERS, curve, self.epsilon))
        return log_delta - math.log(self.delta)

    def is_met(self, release: Release, count: int = 1) -> bool:
        """Whether an accountant with this budget accepts ``count`` releases."""
        if count == 1:
            return float(release.epsilon(self.delta)) <= self.epsilon
        curve = count * release.rdp(DEFAULT_ORDERS)
        return float(rdp_to_epsilon(DEFAULT_ORDERS, curve, self.delta)) <= self.epsilon


Target = Rdp | ApproxDP
