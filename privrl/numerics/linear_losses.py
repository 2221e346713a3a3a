"""Privacy losses that are linear in one real variable with a log-concave density.

That of a gamma or beta pair, whose variable is ``log g`` or ``logit b``, and that of a Gaussian
pair. Measured from the density's mode the loss reads ``shift (y − y0) + epsilon``, so that

    delta(epsilon) = ∫_{y0}^∞ density(y) (1 − exp(−shift (y − y0))) dy,

an integral of positive terms, evaluated in logarithms by Gauss-Legendre panels that grow
geometrically away from every place where the integrand bends. No term overflows and none
cancels, for epsilon up to the hundreds and delta down to 1e-300.
"""

from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from privrl.numerics.special import FloatArray, gauss

BoolArray = NDArray[np.bool]


class Density(Hashable, Protocol):
    """A log-concave density measured from its mode: ``constant − bend(y)``, in logarithms."""

    constant: FloatArray
    """Its logarithm at the mode."""
    knee: FloatArray
    """Another place where it bends sharply."""

    def start(self, epsilon: FloatArray) -> FloatArray:
        """Return where the loss equals epsilon."""

    def bend(self, y: FloatArray) -> FloatArray:
        """Return by how much the log density lies below its mode: 0 at 0, its minimum."""

    def slope(self, y: FloatArray) -> FloatArray:
        """Return the derivative of ``bend``."""


LEAST_LOG = -1e300  # of a tail: too small for a float, but never nothing
_STEPS = np.concatenate([[0.0], 2.0 ** np.arange(-2, 8)])  # in widths of the integrand
_DIGITS = (8, 7, 4, 2, 1)  # that may be found in one call
_QUICK = 1024  # numbers at once
_PANELS = 2000  # of a few nodes, at once
_AT_ONCE = 8  # starts, of which each has a thousand nodes and more
_REACH = 50.0  # widths: beyond, a log-concave integrand is below e^-50 of its peak


def _peak_and_widths(
    density: Density, shift: float, start: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Find where the integrand peaks, and how far on either side it falls by a factor e."""

    def rises(u: FloatArray) -> BoolArray:
        with np.errstate(divide="ignore", over="ignore"):
            return shift / np.expm1(shift * u) > density.slope(start + u)

    def height(u: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore", over="ignore"):
            return np.log(-np.expm1(-shift * u)) - density.bend(start + u)

    peak = _last_where(rises, start)
    top = height(peak)
    right = _last_where(lambda w: height(peak + w) > top - 1, start, 16)
    left = _last_where(
        lambda w: (w < peak) & (height(np.maximum(peak - w, 0)) > top - 1), start, 16
    )
    return peak, left, right


def _last_where(
    holds: Callable[[FloatArray], BoolArray], like: FloatArray, n_digits: int = 28
) -> FloatArray:
    """Search, on a logarithmic scale, for the largest positive ``u`` at which ``holds(u)``.

    To 28 binary digits, a part in 1e5, or to 16, a fiftieth: of places and widths panels need no
    more. A few numbers take as long as a hundred, so few searches find several digits in one call.
    """
    digits = next(
        each
        for each in _DIGITS
        if n_digits % each == 0 and (like.size << each <= _QUICK or each == 1)
    )
    inner = np.arange(1.0, 2**digits).reshape(-1, *(1,) * like.ndim)
    low, width = np.full_like(like, -700.0), 1400.0
    for _ in range(n_digits // digits):
        width /= 2**digits
        low += width * holds(np.exp(low + width * inner)).sum(axis=0)
    return np.exp(low)


def log_tail_integral(density: Density, shift: float, start: FloatArray) -> FloatArray:
    """Integrate density times ``1 − exp(−shift u)`` over ``u = y − start > 0``, in logarithms."""
    peak, left, right = _peak_and_widths(density, shift, start)
    centres = [
        (np.zeros_like(start), np.minimum(right, 1 / shift)),
        (peak, right),
        (peak, left),
        (-start, np.minimum(left, right)),
        (density.knee - start, np.minimum(np.minimum(left, right), 1.0)),
    ]
    lowest = np.maximum(peak - _REACH * left, 0.0)
    highest = peak + _REACH * right
    steps = np.concatenate([-_STEPS[:0:-1], _STEPS])
    edges = [lowest[:, None], highest[:, None]]
    edges += [centre[:, None] + width[:, None] * steps for centre, width in centres]
    grid = np.sort(np.clip(np.concatenate(edges, 1), lowest[:, None], highest[:, None]), 1)
    total = np.empty_like(start)
    for begin in range(0, len(start), _AT_ONCE):
        some = slice(begin, begin + _AT_ONCE)
        total[some] = _over_panels(density, shift, start[some], grid[some])
    return np.clip(total + density.constant, LEAST_LOG, 0.0)


def _over_panels(
    density: Density, shift: float, start: FloatArray, edges: FloatArray
) -> FloatArray:
    """Return the integrals of ``exp(−bend)`` in logarithms, from the ascending edges of panels."""
    halves = np.diff(edges, axis=1) / 2
    # Panels without any width, of which there are many, are left out, but one of each start.
    there = halves != 0
    there[:, -1] = True
    of, at = np.nonzero(there)
    half, first = halves[of, at][:, None], np.flatnonzero(np.diff(of, prepend=-1))
    nodes, weights = gauss(20)
    u = edges[of, at][:, None] + half + half * nodes
    with np.errstate(divide="ignore", over="ignore"):
        values = np.log(-np.expm1(-shift * u)) - density.bend(start[of, None] + u)
        # Nothing is left of an integrand that is nothing at all nodes.
        largest = np.maximum(np.maximum.reduceat(values.max(axis=1), first), LEAST_LOG)
        values -= largest[of, None]
        np.exp(values, out=values)
        values *= half * weights
        return np.log(np.add.reduceat(values.sum(axis=1), first)) + largest


_Rule = tuple[FloatArray, FloatArray]  # nodes and weights, on (-1, 1)
_SHORT = 0.2  # nats of a step, in which what goes up is integrated so, too
_NARROW = 1.5  # panels between two falls, which four nodes integrate to a part in 1e13 too
_DISTANCES = np.exp(np.arange(-60.0, 80.0, 0.02))
_APART = 32  # of them, which tell between which the others are needed
# Nats below the mode between which panels lie: what five nodes integrate to a part in 1e13.
_FALLS = np.concatenate([[0.02, 0.1, 0.25, 0.5], np.arange(0.8, 800.0, 0.4)])
_DEEPEST = 4000.0  # nats below the mode: far below all that floats hold
_RISES = np.concatenate([np.arange(0.5, 8.0, 0.75), np.arange(8.0, 20.0, 2.0), [20, 24, 28, 36]])
# Distances from another sharp bend, in units of its own; beyond, it is left behind.
_GRADES = np.concatenate([np.arange(0.0, 3.0, 0.25), np.arange(3.0, 60.0, 0.5)])


def loss_range(density: Density, shift: float, level: float) -> tuple[float, float]:
    """Return losses beyond which the density, and all the mass there, is below ``exp(level)``."""
    right = _reach(density, float(density.constant) - level, 1)
    left = _reach(density, float(density.constant) - level, -1)
    at_zero = float(density.start(np.asarray(0.0)))
    return shift * (-left - at_zero), shift * (right - at_zero)


def _reach(density: Density, drop: float, side: int) -> float:
    """Return how far from its mode the density has fallen by ``exp(−drop)``, to 2 % upwards."""
    distances, bends = _bends(density, side)
    return float(distances[np.searchsorted(bends, drop)])


@lru_cache(maxsize=32)
def _bends(density: Density, side: int) -> tuple[FloatArray, FloatArray]:
    """Return those of `_DISTANCES` at which the log density falls, and by how much it has."""
    with np.errstate(over="ignore"):
        ends = np.searchsorted(
            density.bend(side * _DISTANCES[::_APART]), [_FALLS[0], _DEEPEST]
        ).tolist()
        distances = _DISTANCES[max(ends[0] - 1, 0) * _APART : (ends[1] + 1) * _APART]
        return distances, density.bend(side * distances)


def grid_masses(
    density: Density, shift: float, step: float, first: int, last: int
) -> tuple[FloatArray, float]:
    """Connect the dots: masses at the losses ``step * (first .. last)``, and beyond the last."""
    at_zero = float(density.start(np.asarray(0.0)))
    grid = np.arange(first, last + 1, dtype=np.float64) * (step / shift) + at_zero
    edges, (points, weights) = _panels(density, shift, step, grid)
    cell = np.searchsorted(grid, (edges[:-1] + edges[1:]) / 2) - 1
    half = np.diff(edges) / 2
    moved = np.empty((2, len(half)))
    for begin in range(0, len(half), _PANELS):
        some = slice(begin, begin + _PANELS)
        nodes = (edges[:-1][some] + half[some])[:, None] + half[some, None] * points
        mass = np.exp(density.constant - density.bend(nodes))
        # The share that goes up keeps the mass under both distributions.
        up = np.expm1(-shift * (nodes - grid[cell[some]][:, None])) / np.expm1(-step)
        moved[:, some] = half[some] * [(mass * up) @ weights, (mass * (1 - up)) @ weights]
    masses = np.zeros(last - first + 1)
    np.add.at(masses, cell + 1, moved[0])
    np.add.at(masses, cell, moved[1])
    # What lies below the first point moves up to it, what lies above the last to infinity; a
    # log-concave tail holds less than its density over its slope.
    outer = np.array([grid[0], grid[-1]])
    ends = np.exp(density.constant - density.bend(outer))
    below, beyond = np.nextafter(ends / np.abs(density.slope(outer)), np.inf)
    masses[0] += below
    return masses, float(beyond)


def _panels(
    density: Density, shift: float, step: float, grid: FloatArray
) -> tuple[FloatArray, _Rule]:
    """Return the edges of panels that end at grid points, and nodes that are enough for them.

    Where it need be, panels also close in on the places where the density bends.
    """
    left, right = _falls(density, -1), _falls(density, 1)
    inside = np.concatenate([left[::-1], [0.0], right])
    inside = inside[(inside > grid[0]) & (inside < grid[-1])]
    if min(abs(left[0]), right[-1]) > 0.1:  # so flat a density turns within a few units
        inside = np.concatenate([inside, density.knee - _GRADES, density.knee + _GRADES])
    elif step < _SHORT and _NARROW * step / shift < np.diff(inside).min(initial=np.inf):
        return grid, gauss(4)
    if step > _RISES[0]:  # the share that goes up rises within a nat of each point
        inside = np.append(inside, grid[:-1, None] + _RISES[step > _RISES] / shift)
    inside = inside[(inside > grid[0]) & (inside < grid[-1])]
    edges: FloatArray = np.union1d(grid, inside)
    return edges, gauss(5)


def _falls(density: Density, side: int) -> FloatArray:
    """Return about where the density has fallen by each of `_FALLS`, on one side of its mode."""
    distances, bends = _bends(density, side)
    return side * np.interp(_FALLS, bends, distances)
