"""Calibration: the parameter with which a number of releases just meets a target.

The result is the last tried value that met the target by the accountant's own check. So the target
is met, and rounding never exceeds it.
"""

import math
from collections.abc import Callable
from functools import cache, partial

from privrl.accounting.base import Accountant
from privrl.accounting.targets import ApproxDP, Target, check_target
from privrl.costs.base import Cost
from privrl.numerics.checks import check_count, check_positive
from privrl.numerics.roots import brentq
from privrl.numerics.scipy_lazily import special

_EXTREME = math.log(1e30) * (1 - 1e-12)  # of the logarithm of a parameter
_FIRST, _GROWS = 1.0, 1.5  # longest first step of a search, and the growth of steps
_NEAREST = 1e-12  # the shortest
_AHEAD = 1.2  # factor on a step to the estimated root, lest it end just before
_CLOSE = 4e-12  # the search ends this close below the target
_GROWS_NEAR = 8.0  # near a guess


def calibrate(
    target: Target,
    cost: Callable[[float], Cost],
    *,
    rises: bool,
    count: int = 1,
    accountant: Callable[[], Accountant] | None = None,
    least: float = 0.0,
    guess: float | None = None,
    off: float | None = None,
) -> float:
    """Return the last value of a parameter with which a cost, ``count`` times, meets ``target``.

    Parameters
    ----------
    target : Target
        The limit on all the releases together.
    cost : callable
        Maps the parameter, which is > 0, to the cost of one release.
    rises : bool
        Whether the cost rises with the parameter. If so, the largest value is returned, otherwise
        the smallest one: False for the size of some noise.
    count : int
        The number of releases, >= 1. For an `ApproxDP` target one release is accounted for
        exactly, several by the sum of their Rényi divergences.
    accountant : callable, optional
        Makes another accountant for an `ApproxDP` target:
        `privrl.accounting.PldAccountant`.
    least : float
        A lower bound for the parameter.
    guess, off : float
        An initial value, and its relative error if that is known. They make the search faster,
        and change the result only by rounding.

    Raises
    ------
    ValueError
        If an argument is out of range, or no value from 1e-30 to 1e30 meets the target.
    """
    check_count("count", count)
    excess = _excess(target, count, accountant)
    if not rises and least > 0 and excess(cost(least)) <= 0:
        return least
    return _last_that_fits(excess, cost, target, rises=rises, least=least, guess=guess, off=off)


def _excess(
    target: Target, count: int, accountant: Callable[[], Accountant] | None
) -> Callable[[Cost], float]:
    """Return how far a cost is above the target, made a little stricter: a smooth scale.

    Stricter by 1e-12, so that sums of such costs do not exceed the target by rounding.
    """
    check_target(target)
    strict = target.strict()
    if accountant is None:
        return partial(strict.smooth_excess, count=count)
    if not isinstance(strict, ApproxDP):
        raise ValueError(
            f"accountant is for ApproxDP targets, got {target}; the cost of other targets simply "
            "adds up."
        )

    def excess(cost: Cost) -> float:
        made = accountant()
        made.compose(cost, count)
        spent = float(made.epsilon(strict.delta))
        return math.log(spent / strict.epsilon) if spent > 0 else -math.inf

    return excess


def _last_that_fits(
    excess: Callable[[Cost], float],
    cost: Callable[[float], Cost],
    target: Target,
    *,
    rises: bool,
    least: float = 0.0,
    guess: float | None = None,
    off: float | None = None,
) -> float:
    """Solve for the parameter at which the excess is zero, in logarithms."""

    @cache
    def over(log_value: float) -> float:
        return excess(cost(math.exp(log_value)))

    def clipped(log_value: float) -> float:
        # Clipped where the cost is zero or infinite.
        return min(max(over(log_value), -1e3), 1e3)

    sign = 1 if rises else -1  # the direction in which the cost rises
    low, high = max(-_EXTREME, math.log(least) if least > 0 else -_EXTREME), _EXTREME
    # The guess may be right, and slightly less may fit.
    about = 0.0 if guess is None else math.log(guess) - sign * _CLOSE / 2
    start = min(max(about, low), high)
    if _just_fits(over(start)):
        return check_positive("the calibrated value", math.exp(start))
    # For linear costs the excess is about the error of the logarithm.
    step = min(max(_AHEAD * abs(clipped(start)), _NEAREST), _FIRST) if off is None else off
    cheap = _search(start, -sign * step, low, high, lambda at: clipped(at) <= 0)
    if cheap is None:
        end = math.exp(low if rises else high)
        if why := target.missing(cost(end)):
            raise ValueError(f"target must be one that the release can meet, got {target}: {why}")
        raise ValueError(
            f"target must be one that the release can meet, got {target}; it costs more even "
            f"with the {'smallest' if rises else 'largest'} parameter, {end:.3g}. Allow more, or "
            "plan for fewer releases."
        )
    dear = _search(start, sign * step, low, high, lambda at: clipped(at) > 0)
    if dear is None:
        end = math.exp(high if rises else low)
        raise ValueError(
            f"target must be one that binds, got {target}; it is met by every parameter from "
            f"{math.exp(start):.3g} to {end:.3g}. Choose the parameter yourself."
        )
    fits = [cheap]

    def below(log_value: float) -> float:
        """Return the excess over slightly less than the target; zero if the target is met."""
        if over(log_value) <= 0:
            fits.append(log_value)
        return 0.0 if _just_fits(over(log_value)) else clipped(log_value) + _CLOSE / 2

    brentq(below, cheap, dear, xtol=1e-14, rtol=1e-14)
    value = math.exp(max(fits) if rises else min(fits))
    return check_positive("the calibrated value", value)


def _just_fits(excess: float) -> bool:
    return -_CLOSE <= excess <= 0


def _search(
    start: float, step: float, low: float, high: float, holds: Callable[[float], bool]
) -> float | None:
    """Return the first point with ``holds``, by growing steps from ``start`` to an end."""
    at, end = start, low if step < 0 else high
    while not holds(at):
        if at == end:
            return None
        at = min(max(at + step, low), high)
        step *= _GROWS if abs(step) >= _FIRST else _GROWS_NEAR
    return at


_TINY = 1e-300  # where numbers near it over- or underflow
_LARGEST = 1e100


def dirichlet_weight(target: Target, square: float, alpha: float) -> float:
    """Return an approximate weight with which a Dirichlet draw hides a squared norm > 0.

    ``alpha`` is the prior. Losses are treated as Gaussian, with nearly their variance.
    """
    trigamma = min(max(float(special.zeta(2, alpha)), _TINY), 1 / _TINY)
    return max(1 / target.gaussian_sigma(1.0) / math.sqrt(trigamma) / math.sqrt(square), _TINY)


def dirichlet_alpha(target: Target, square: float, weight: float) -> float:
    """Return an approximate prior with which a Dirichlet draw of some weight does so."""
    # Of a prior the trigamma function is about 1 / alpha + 1 / alpha².
    size = min(weight * math.sqrt(square) * target.gaussian_sigma(1.0), _LARGEST)
    return max((size + math.sqrt(size * size + 4)) / 2 * size, _TINY)
