"""The dominating pairs of additive noise: the shifted noise against the unshifted one."""

import math
from collections import Counter
from dataclasses import dataclass
from typing import Literal

import numpy as np

from privrl.numerics.linear_losses import LEAST_LOG, grid_masses, log_tail_integral, loss_range
from privrl.numerics.scipy_lazily import special
from privrl.numerics.special import FloatArray, expm1mx, gauss
from privrl.numerics.upwards import FEW

_MARGIN = 1e-12  # by which a range of losses is wider, lest rounding push its ends out


@dataclass(frozen=True)
class GaussianPair:
    """``N(shift, 1)`` against ``N(0, 1)``."""

    shift: float

    def rdp(self, orders: FloatArray) -> FloatArray:
        """Return the exact Rényi divergence at each order > 1."""
        return orders * self.shift**2 / 2

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """Return ``log delta`` at each epsilon, exact to about ten digits of delta."""
        density = _Normal(self.shift)
        start = density.start(np.ravel(epsilon))
        # From further down all but 1e-349 of the mass is ahead.
        total = log_tail_integral(density, self.shift, np.maximum(start, -40.0))
        return np.where(start < -40, 0.0, total).reshape(np.shape(epsilon))

    def loss_range(self, level: float) -> tuple[float, float]:
        """Return losses beyond which all the mass is below ``exp(level)``."""
        return loss_range(_Normal(self.shift), self.shift, level)

    def grid_masses(self, step: float, first: int, last: int) -> tuple[FloatArray, float]:
        """Connect the dots at the losses ``step * (first .. last)``."""
        return grid_masses(_Normal(self.shift), self.shift, step, first, last)


class _Normal:
    """The standard normal density; the loss at ``y`` is ``shift y + shift² / 2``."""

    constant: FloatArray = np.asarray(-math.log(2 * math.pi) / 2)
    knee: FloatArray = np.asarray(0.0)

    def __init__(self, shift: float) -> None:
        self._shift = shift

    def start(self, epsilon: FloatArray) -> FloatArray:
        return epsilon / self._shift - self._shift / 2 * (1 + FEW)

    def bend(self, y: FloatArray) -> FloatArray:
        return y**2 / 2

    def slope(self, y: FloatArray) -> FloatArray:
        return y


@dataclass(frozen=True)
class LaplacePair:
    """One or two cells with Laplace noise, each of which moves by ``shift`` times the scale."""

    shift: float
    cells: Literal[1, 2] = 1

    def rdp(self, orders: FloatArray) -> FloatArray:
        """Return the exact Rényi divergence at each order > 1 (Mironov, 2017, Proposition 6)."""
        more = orders - 1
        return self.cells * _two_sided_rdp(more, self.shift, more / 2 / (orders - 0.5), 0.0)

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """Return ``log delta`` at each epsilon >= 0, minus infinity beyond the largest loss."""
        h = np.maximum(self.cells * self.shift - np.asarray(epsilon), 0.0) / 2
        with np.errstate(divide="ignore"):
            return np.log(-np.expm1(-h) - (self.cells - 1) * h / 2 * np.exp(-h))

    def loss_range(self, level: float) -> tuple[float, float]:
        """Return losses beyond which all the mass is below ``exp(level)``."""
        top = self.cells * self.shift
        # exp(−h) (3 + h)/4 bounds the mass more than 2h below the top
        low = max(-top, top + 2 * level - 2 * math.log1p(-level))
        return low - _MARGIN * top, top + _MARGIN * top

    def grid_masses(self, step: float, first: int, last: int) -> tuple[FloatArray, float]:
        """Connect the dots at the losses ``step * (first .. last)``."""
        s, top = self.shift, self.cells * self.shift
        bottom = max(-top, step * first, top - 1600)  # further down the mass is less than e^−790
        # The density bends at zero, and nodes resolve it in panels of no more than a nat.
        few = top - np.arange(1, math.ceil(top - bottom))
        inner = np.concatenate([step * np.arange(first, last + 1), few, [0.0]])
        edges = np.union1d(inner[(inner > bottom) & (inner < top)], [bottom, top])
        half = np.diff(edges)[:, None] / 2
        at, weights = gauss(5)
        nodes = edges[:-1, None] + half + half * at
        density = np.exp((nodes - top) / 2) / 4
        atoms = {top: 0.5, -top: math.exp(-s) / 2}
        below = math.exp((bottom - top) / 2) / 2
        if self.cells == 2:
            density *= 1 + (top - np.abs(nodes)) / 4
            atoms = {top: 0.25, 0.0: math.exp(-s) / 2, -top: math.exp(-2 * s) / 4}
            below *= (3 + (top - bottom) / 2) / 2
        if bottom > -top:
            atoms = {loss: mass for loss, mass in atoms.items() if loss > bottom}
        else:
            below = 0.0
        masses, beyond = put_on_grid(
            np.append(nodes, [*atoms]),
            np.append(density * half * weights, [*atoms.values()]),
            (step, first, last),
        )
        masses[0] += below
        return masses, beyond


@dataclass(frozen=True)
class DiscreteLaplacePair:
    """Cells with discrete Laplace noise that move by the whole numbers ``shifts``, each >= 1."""

    scale: float
    shifts: tuple[int, ...]

    def rdp(self, orders: FloatArray) -> FloatArray:
        """Return the exact Rényi divergence at each order > 1.

        With ``q = exp(−1/scale)`` and ``r = q^(2λ − 1)`` the moment of one cell is
        ``(1 − β) q^(−(λ − 1) m) + β q^(λ m)``, where ``β = (q − r) / ((1 − r)(1 + q))``.
        """
        t, c = 1 / self.scale, orders - 1
        with np.errstate(over="ignore"):  # a power of q beyond all orders is 0
            q, r = math.exp(-t), np.exp(-(2 * c + 1) * t)
            whole = -np.expm1(-(2 * c + 1) * t) * (1 + q)
            falls = -q * np.expm1(-2 * c * t)
        # The slope at m = 0 is c(1 − r − q + qr) − falls, over ``whole``. For small ``z`` that
        # is written as a series of positive terms, from c sinh((c + 1)t) − (c + 1) sinh(ct).
        z, ratio = np.minimum((c + 1) * t, 1.0), -2 * np.log1p(1 / c)
        terms = [-np.expm1(k * ratio) * z ** (2 * k) / math.factorial(2 * k + 1) for k in _ORDERS]
        series = 2 * np.exp(-z) * c * z * sum(terms)
        slope = np.where(z < 1, series, -c * math.expm1(-t) * (1 + r) - falls) / whole
        beta = falls / whole
        total = np.zeros_like(orders)
        for m, times in Counter(self.shifts).items():
            total += times * _two_sided_rdp(c, m * t, beta, slope)
        return total

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """Return ``log delta`` at each epsilon >= 0, minus infinity beyond the largest loss."""
        epsilon = np.asarray(epsilon, np.float64)
        with np.errstate(divide="ignore"):
            if len(self.shifts) == 1:
                return np.log(self._delta_of_one(epsilon))
            losses, masses = self._atoms()
            return np.log(-np.expm1(np.minimum(epsilon[..., None] - losses, 0.0)) @ masses)

    def loss_range(self, level: float) -> tuple[float, float]:
        """Return losses beyond which all the mass is below ``exp(level)``."""
        losses, masses = self._atoms()
        far = np.searchsorted(-np.cumsum(masses[::-1])[::-1], -math.exp(level))
        low = losses[max(min(int(far), len(losses)) - 1, 0)]
        return low - _MARGIN * losses[0], losses[0] + _MARGIN * losses[0]

    def grid_masses(self, step: float, first: int, last: int) -> tuple[FloatArray, float]:
        """Connect the dots at the losses ``step * (first .. last)``."""
        return put_on_grid(*self._atoms(), (step, first, last))

    def _delta_of_one(self, epsilon: FloatArray) -> FloatArray:
        """Sum the positive terms of one cell: two geometric series."""
        b, m = self.scale, self.shifts[0]
        q = math.exp(-1 / b)
        ahead = np.minimum(epsilon, m / b)
        # how many of the losses (m − 2)/b, (m − 4)/b, … are above epsilon
        k = np.clip(np.ceil((m - b * ahead) / 2) - 1, 0, m - 1)
        inner = np.expm1(np.minimum(ahead - (m - k - 1) / b, 0.0)) * np.expm1(-k / b)
        return (q * inner - np.expm1(ahead - m / b)) / (1 + q)

    def _atoms(self) -> tuple[FloatArray, FloatArray]:
        """Return the losses, descending, and their masses."""
        t = 1 / self.scale
        q = math.exp(-t)
        masses = np.ones(1)
        for m in self.shifts:
            one = np.exp(-t * np.arange(m + 1)) / (1 + q)
            one[1:-1] *= -math.expm1(-t)
            masses = np.convolve(masses, one)
        return (sum(self.shifts) - 2 * np.arange(len(masses))) / self.scale, masses


@dataclass(frozen=True)
class DiscreteGaussianPair:
    """One or two cells with discrete Gaussian noise that move by the whole number ``shift``."""

    sigma: float
    shift: int
    cells: Literal[1, 2] = 1

    def rdp(self, orders: FloatArray) -> FloatArray:
        """Return the exact Rényi divergence at each order > 1."""
        more, m, precision = orders - 1, self.shift, 1 / self.sigma**2
        turns = np.round(more * m)
        c = more * m - turns  # θ has period one
        if self.sigma >= 0.5:
            one = orders * (precision * m**2 / 2) + _log_theta_ratio(c, self.sigma) / more
        else:
            # the same with c², which is the most of the logarithm here, out of it
            one = precision / 2 * (m**2 + turns * (2 * m - turns / more))
            one += np.log1p(_theta_excess(np.abs(c), precision)) / more
        return self.cells * one

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """Return ``log delta`` at each epsilon, exact to about ten digits of delta."""
        rise = self.shift / self._width**2
        with np.errstate(over="ignore"):  # where no lattice has any mass left
            start = np.minimum(np.ravel(epsilon) / rise, _FAR) - self.shift / 2
        sums = [
            log_weight + _log_lattice_sum(self._width, offset, rise, start)
            for offset, log_weight in self._lattices()
        ]
        total = np.clip(np.logaddexp.reduce(sums), LEAST_LOG, 0.0)
        return np.asarray(total.reshape(np.shape(epsilon)))

    def loss_range(self, level: float) -> tuple[float, float]:
        """Return losses beyond which all the mass is below ``exp(level)``."""
        shift = self.shift / self._width
        reach = max(shift * math.sqrt(-2 * level), _MARGIN * shift**2)  # the noise is subgaussian
        return shift**2 / 2 - reach, shift**2 / 2 + reach

    def grid_masses(self, step: float, first: int, last: int) -> tuple[FloatArray, float]:
        """Connect the dots at the losses ``step * (first .. last)``."""
        width, m = self._width, self.shift
        rise = m / width**2
        dots = step / rise * np.arange(first, last + 1) - m / 2
        few = width * np.arange(-40, 40, 1 / 64)
        edges = np.union1d(dots, few[(few > dots[0]) & (few < dots[-1])])
        masses, beyond = np.zeros(last - first + 1), 0.0
        for offset, log_weight in self._lattices():
            x, times = _lattice_nodes(edges, offset)
            each = times * np.exp(log_weight - (x / width) ** 2 / 2)
            kept = each > 0
            some, over = put_on_grid(rise * (x[kept] + m / 2), each[kept], (step, first, last))
            masses, beyond = masses + some, beyond + over
        # The mass outside, by Chernoff's bound: below it moves up, above it is lost.
        below, above = np.exp(-((np.array([min(dots[0], 0), max(dots[-1], 0)]) / width) ** 2) / 2)
        masses[0] += below
        return masses, beyond + float(above)

    @property
    def _width(self) -> float:
        """Deviation of the variable in which the loss is linear: ``x``, or half of a sum."""
        return self.sigma / math.sqrt(self.cells)

    def _lattices(self) -> list[tuple[float, float]]:
        """Return the offsets of the lattices of that variable, and log factors of its weights."""
        one = _log_theta(0.0, self.sigma)
        if self.cells == 1:
            return [(0.0, -one)]
        return [(c, _log_theta(c, self._width) - 2 * one) for c in (0.0, 0.5)]


_FAR = 1e120  # whose square over that of any sigma is a float
_ORDERS = range(1, 9)  # of series that converge faster than exponentially
_UNIFORM = np.linspace(0.0, 1.0, 481)
_GRADED = np.concatenate([np.linspace(0.0, 1.0, 11), 1.1 ** np.arange(1, 200)])


def _two_sided_rdp(
    c: FloatArray, shift: float, beta: FloatArray, slope: FloatArray | float
) -> FloatArray:
    """Return ``log((1 − β) exp(c s) + β exp(−(c + 1) s)) / c`` for ``c = λ − 1``, precisely.

    ``slope``, the derivative ``(1 − β) c − β (c + 1) >= 0`` at zero, is an argument: computing it
    here would cancel.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # near values, where the far ones count
        ahead = c * shift
        bends = (1 - beta) * expm1mx(np.minimum(ahead, 1.0)) + beta * expm1mx(-(c + 1) * shift)
        near = np.log1p(slope * shift + bends) / c
        far = shift + np.log1p(beta * np.expm1(-(2 * c + 1) * shift)) / c
    return np.where(ahead < 1, near, far)


def put_on_grid(
    losses: FloatArray, masses: FloatArray, grid: tuple[float, int, int]
) -> tuple[FloatArray, float]:
    """Split every atom between the two grid points around it, keeping both distributions' mass.

    Atoms below the first point move up to it, those above the last are returned as a sum.
    """
    step, first, last = grid
    within = losses <= step * last
    beyond = float(masses[~within].sum())
    losses, masses = losses[within], masses[within]
    cell = np.clip(np.floor(losses / step), first, last - 1)
    above = np.maximum(losses - step * cell, 0.0)
    up = np.minimum(np.expm1(-above) / np.expm1(-step), 1.0)
    at = (cell - first).astype(np.int64)
    on_grid = np.zeros(last - first + 1)
    np.add.at(on_grid, at, masses * (1 - up))
    np.add.at(on_grid, at + 1, masses * up)
    return on_grid, beyond


def _lattice_nodes(edges: FloatArray, offset: float) -> tuple[FloatArray, FloatArray]:
    """Represent the points of a lattice between ascending edges by three nodes for each block.

    Gauss's rule for sums: exact for blocks of up to three points, and for polynomials of degree
    five on larger ones. Returns nodes and weights, with one more axis than ``edges``.
    """
    marks = np.floor(edges - offset)
    points = np.diff(marks, axis=-1)
    centre = marks[..., :-1] + (points + 1) / 2 + offset
    square = (3 * points**2 - 7) / 20  # fourth moment of the points over their second
    several = square > 0
    apart = np.sqrt(np.where(several, square, 0.0))
    outer = np.where(several, points * (points**2 - 1) / (24 * np.where(several, square, 1.0)), 0.0)
    nodes = np.stack([centre - apart, centre, centre + apart], -1)
    return nodes, np.stack([outer, points - 2 * outer, outer], -1)


def _log_lattice_sum(width: float, offset: float, rise: float, start: FloatArray) -> FloatArray:
    """Sum ``exp(−x²/(2 width²)) (1 − exp(−rise (x − start)))`` over a lattice above each start.

    In logarithms; the lattice is the integers and ``offset``. The weights beyond the last edge
    are ``exp(−45)`` of those at the first two points, or at zero.
    """
    bottom = np.maximum(start, -9.5 * width)
    second = np.floor(bottom - offset) + offset + 2
    top = np.hypot(np.maximum(second, 0.0), math.sqrt(90) * width)
    uniform = bottom[:, None] + (top - bottom)[:, None] * _UNIFORM
    graded = bottom[:, None] + min(width, 1 / rise) * _GRADED
    edges = np.sort(np.concatenate([uniform, np.minimum(graded, top[:, None])], 1), 1)
    x, times = _lattice_nodes(edges, offset)
    with np.errstate(divide="ignore"):
        ahead = np.log(-np.expm1(-rise * np.maximum(x - start[:, None, None], 0.0)))
        return np.asarray(special.logsumexp(ahead - (x / width) ** 2 / 2, b=times, axis=(1, 2)))


def _log_theta(c: float, sigma: float) -> float:
    """Return the logarithm of the sum of ``exp(−(x − c)²/(2 sigma²))`` over the integers."""
    if sigma < 0.5:
        return float(special.logsumexp(-((np.arange(-8, 9) - c) ** 2) / (2 * sigma**2)))
    waves = 2 * sum(_dual_weight(k, sigma) * math.cos(2 * math.pi * k * c) for k in _ORDERS)
    return math.log(sigma) + math.log(2 * math.pi) / 2 + math.log1p(waves)


def _log_theta_ratio(c: FloatArray, sigma: float) -> FloatArray:
    """Return ``log(θ(c) / θ(0)) <= 0`` by Poisson's summation, for ``sigma`` from 1/2 on."""
    waves = sum(_dual_weight(k, sigma) * np.sin(math.pi * k * c) ** 2 for k in _ORDERS)
    return np.log1p(-4 * waves / (1 + 2 * sum(_dual_weight(k, sigma) for k in _ORDERS)))


def _theta_excess(c: FloatArray, precision: float) -> FloatArray:
    """Return ``exp(c²/(2 sigma²)) θ(c) / θ(0) − 1 >= 0`` for c from 0 to 1/2 and small sigma."""
    more = [
        np.exp(-precision * x * (x / 2 - c)) * np.expm1(-precision * x * c) ** 2 for x in _ORDERS
    ]
    return sum(more) / (1 + 2 * sum(math.exp(-precision * x**2 / 2) for x in _ORDERS))


def _dual_weight(k: int, sigma: float) -> float:
    return math.exp(-2 * (math.pi * sigma * k) ** 2)
