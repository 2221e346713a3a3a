"""What a user wants to spend: a point on a Rényi curve, or (epsilon, delta)."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from privrl.costs.base import Cost, pure_ratio
from privrl.costs.conversion import DEFAULT_ORDERS, rdp_to_log_delta
from privrl.files.shown import shown
from privrl.numerics.checks import check_between, check_positive
from privrl.numerics.upwards import product_up, quotient_up


@dataclass(frozen=True)
class RenyiDP:
    """Rényi divergence of one order, at most ``epsilon`` (nats).

    Raises
    ------
    ValueError
        If ``order`` is not > 1 and finite, or ``epsilon`` not > 0 and finite.
    """

    order: float
    epsilon: float

    def __post_init__(self) -> None:
        order = check_between("order", self.order, 1, np.inf, "2 is usual")
        epsilon = check_positive("epsilon", self.epsilon, "smaller means more privacy")
        object.__setattr__(self, "order", order)
        object.__setattr__(self, "epsilon", epsilon)

    def excess(self, cost: Cost, count: int = 1) -> float:
        """Return how far ``count`` releases are above the target (> 0) or below, in logarithms."""
        spent = product_up(count, cost.rdp(self.order))
        return math.log(float(quotient_up(spent, self.epsilon))) if spent > 0 else -math.inf


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
        epsilon = check_positive("epsilon", self.epsilon, "smaller means more privacy")
        delta = check_between("delta", self.delta, 0, 1, "1e-5 or less is usual")
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", delta)

    def excess(self, cost: Cost, count: int = 1) -> float:
        """Return how far ``count`` releases are above the target (> 0) or below, in logarithms.

        One release is accounted for by its own profile, several by Rényi's sum.
        """
        if count == 1:
            with np.errstate(divide="ignore"):
                log_delta = float(np.log(cost.delta(self.epsilon)))
        else:
            curve = product_up(count, cost.rdp(DEFAULT_ORDERS))
            log_delta = float(rdp_to_log_delta(DEFAULT_ORDERS, curve, self.epsilon))
        return log_delta - math.log(self.delta)


@dataclass(frozen=True)
class PureDP:
    """Pure differential privacy, ``delta = 0``, epsilon in nats.

    Raises
    ------
    ValueError
        If ``epsilon`` is not > 0 and finite.
    """

    epsilon: float

    def __post_init__(self) -> None:
        epsilon = check_positive("epsilon", self.epsilon, "smaller means more privacy")
        object.__setattr__(self, "epsilon", epsilon)

    def excess(self, cost: Cost, count: int = 1) -> float:
        """Return how far ``count`` releases are above the target (> 0) or below, in logarithms."""
        ratio = pure_ratio(cost)
        if ratio is None:
            return math.inf
        spent = count * ratio / Fraction(self.epsilon)
        return math.log(float(np.nextafter(float(spent), np.inf))) if spent > 0 else -math.inf


@dataclass(frozen=True)
class ZeroConcentratedDP:
    """Zero-concentrated differential privacy: at each order a, at most ``rho * a`` (nats).

    Bun and Steinke (2016), Definition 1.1.

    Raises
    ------
    ValueError
        If ``rho`` is not > 0 and finite.
    """

    rho: float

    def __post_init__(self) -> None:
        rho = check_positive("rho", self.rho, "smaller means more privacy")
        object.__setattr__(self, "rho", rho)

    def excess(self, cost: Cost, count: int = 1) -> float:
        """Return how far ``count`` releases are above the target (> 0) or below, in logarithms."""
        spent = product_up(count, quotient_up(cost.rdp(DEFAULT_ORDERS), DEFAULT_ORDERS))
        most = float(np.max(quotient_up(spent, self.rho)))
        return math.log(most) if most > 0 else -math.inf


Target = RenyiDP | ApproxDP | PureDP | ZeroConcentratedDP

DEFAULT_DELTA = 1e-5


def target_of(
    epsilon: float, delta: float = DEFAULT_DELTA, renyi_order: float | None = None
) -> Target:
    """Return the target that numbers name.

    Parameters
    ----------
    epsilon : float
        > 0, in nats.
    delta : float
        The probability with which epsilon may be exceeded, >= 0 and < 1; 0 is pure privacy.
    renyi_order : float, optional
        In place of ``delta``: the Rényi order > 1 that ``epsilon`` bounds.

    Raises
    ------
    ValueError
        If a number is out of range.
    """
    if renyi_order is not None:
        return RenyiDP(renyi_order, epsilon)
    return PureDP(epsilon) if delta == 0 else ApproxDP(epsilon, delta)


def check_target(target: object, otherwise: str = "") -> None:
    """Check that a target is one, and say what to write in place of a number.

    Raises
    ------
    ValueError
        If it is none; the message ends with ``otherwise``.
    """
    if isinstance(target, Target):
        return
    hint = ""
    if isinstance(target, int | float) and not isinstance(target, bool) and target > 0:
        hint = f"; write ApproxDP({target!r}, 1e-5), with a delta, or RenyiDP(2, {target!r})"
    raise ValueError(
        "target must be ApproxDP(...), PureDP(...), RenyiDP(...) or ZeroConcentratedDP(...), got "
        f"{shown(target)}{hint}{otherwise}."
    )
