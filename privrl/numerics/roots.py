"""Roots of functions of one number, without what it takes to load ``scipy.optimize``."""

import math
from collections.abc import Callable

from privrl.files.shown import shown

_Point = tuple[float, float]  # where, and the value there


def brentq(
    function: Callable[[float], float], low: float, high: float, *, xtol: float, rtol: float
) -> float:
    """Return a root between two points, as ``scipy.optimize.brentq`` does, bit for bit.

    Parameters
    ----------
    function : callable
        Continuous, with values of two signs at the two points.
    low, high : float
        The points.
    xtol, rtol : float
        How far the root may be off: ``xtol + rtol * abs(root)``.

    Raises
    ------
    ValueError
        If the values have the same sign, or one is NaN.
    RuntimeError
        If a hundred steps are not enough.

    References
    ----------
    Brent (1973), *Algorithms for Minimization Without Derivatives*, chapter 4: the secant, inverse
    quadratic interpolation, or a half of what brackets the root, whichever is safe.
    """
    before, at = low, high
    f_before, f_at = _value(function, before), _value(function, at)
    if f_before == 0:
        return before
    if f_at == 0:
        return at
    if (f_before < 0) == (f_at < 0):
        raise ValueError("function must have values of two signs at the two points.")
    other = f_other = step_before = step = 0.0
    for _ in range(100):
        if f_before != 0 and f_at != 0 and (f_before < 0) != (f_at < 0):
            other, f_other = before, f_before
            step_before = step = at - before
        if abs(f_other) < abs(f_at):  # the better of the two that bracket it
            before, at, other = at, other, at
            f_before, f_at, f_other = f_at, f_other, f_at
        off, half = (xtol + rtol * abs(at)) / 2, (other - at) / 2
        if f_at == 0 or abs(half) < off:
            return at
        attempt = math.inf
        if abs(step_before) > off and abs(f_at) < abs(f_before):
            attempt = _attempt((before, f_before), (at, f_at), (other, f_other))
        if 2 * abs(attempt) < min(abs(step_before), 3 * abs(half) - off):
            step_before, step = step, attempt
        else:
            step_before = step = half
        before, f_before = at, f_at
        at += step if abs(step) > off else (off if half > 0 else -off)
        f_at = _value(function, at)
    raise RuntimeError("no root was found in a hundred steps.")


def _value(function: Callable[[float], float], at: float) -> float:
    """Return a value as a float of Python: of those, large products are infinite, not warned of."""
    value = float(function(at))
    if math.isnan(value):  # it would be taken for one of some sign, and what it hides for a root
        raise ValueError(f"function must have numbers for values, and has none at {shown(at)}.")
    return value


def _attempt(before: _Point, at: _Point, other: _Point) -> float:
    """Return the step to where the secant, or the inverse parabola, has its root."""
    (x_before, f_before), (x, f), (x_other, f_other) = before, at, other
    try:
        if x_before == x_other:
            return -f * (x - x_before) / (f - f_before)
        slope = (f_before - f) / (x_before - x)
        slope_other = (f_other - f) / (x_other - x)
        return (
            -f
            * (f_other * slope_other - f_before * slope)
            / (slope_other * slope * (f_other - f_before))
        )
    except ZeroDivisionError:  # nowhere
        return math.inf
