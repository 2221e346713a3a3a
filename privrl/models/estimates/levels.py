"""Likelihoods of the level of a cell, its mean number of records, given its noisy count.

The levels form a grid that includes zero. The grid is so fine that neither noise nor chance
separates neighbouring levels. Given its level, a count scatters by chance and by the gaps of the
grid: a Poisson count of an uncertain mean, so that no count falls between two levels. The posterior
of a count is a sum over the counts that the noise allows: over whole numbers, or in steps of a
quarter of the noise where the noise is large.
"""

import math
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from privrl.mechanisms.additive import AdditiveMechanism
from privrl.numerics.scipy_lazily import special
from privrl.numerics.typing import FloatArray, IntArray


@dataclass(frozen=True)
class _Tuned:
    """How fine the grid of levels is, and how far the noise is followed.

    On which data they were chosen, `privrl.models.estimates.mixture` says.
    """

    fine: float = 0.06  # least and largest gap of neighbouring levels, of their logarithms
    coarse: float = 0.25
    sharp: float = 0.7  # gap in deviations of a noisy count about its level
    blurred: float = 10.0  # variances of the noise beyond which chance blurs more than noise
    least: float = 0.1  # records: the least level but zero, or a thirtieth of the noise
    whole: float = 25.0  # deviation of the noise up to which all whole counts are looked at
    step: float = 0.25  # of the deviation, beyond
    largest: float = 690.0  # of an exponent
    tiny: float = 1e-300
    faint: float = 1e-150  # what is as unlikely as that is nowhere left


_TUNED = _Tuned()


_REACH = {True: 7.0, False: 12.0}  # sizes of the noise that are looked at; Gaussian or not


def levels_of(n_records: float, n_cells: int, deviation: float, largest: float) -> FloatArray:
    """Return the possible levels of cells, shape (L,): increasing from 0.

    ``deviation`` is the noise's, ``largest`` the largest noisy count.
    """
    mean = n_records / n_cells
    top = max(min(n_records, largest + 6 * deviation), 2 * mean)
    found = [0.0, min(max(_TUNED.least, deviation / 30), mean / 8)]
    while found[-1] < top:
        level, gap = found[-1], _TUNED.coarse
        if level <= _TUNED.blurred * deviation**2:
            gap = min(
                max(_TUNED.sharp * math.sqrt(deviation**2 + level) / level, _TUNED.fine),
                _TUNED.coarse,
            )
        found.append(level * math.exp(gap))
    return np.array(found)


def gamma_law(levels: FloatArray, shape: float, mean: FloatArray) -> FloatArray:
    """Return how likely the levels above zero are, (..., L - 1), by gamma laws of means (..., 1).

    Each level stands for all up to half the way, in logarithms, to the next.
    """
    above = levels[1:]
    ends = np.concatenate([[0.0], np.sqrt(above[:-1] * above[1:]), [np.inf]])
    return np.asarray(np.diff(special.gammainc(shape, shape / mean * ends), axis=-1))


@dataclass(frozen=True)
class _Group:
    """Levels at which counts scatter alike, and their common terms."""

    at: IntArray  # of the levels
    rate: FloatArray  # log-density of a count x at a level: what all have, plus rate x + constant
    constant: FloatArray
    middle: float  # of the rates
    shared: FloatArray  # the rest of the density, times that of the noise, shape (K, G)
    scale: FloatArray  # its logarithm's largest, (K,)


class Likelihoods:
    """The likelihood of each level for each noisy count, and the posterior of the count.

    Parameters
    ----------
    noisy : array, shape (K,)
        Released counts.
    noise : mechanism of counts with noise
        What released them.
    levels : array, shape (L,)
        `levels_of`.

    Attributes
    ----------
    size : float
        Of the noise.
    """

    def __init__(self, noisy: FloatArray, noise: AdditiveMechanism[Any], levels: FloatArray):
        self._noisy, self._levels = noisy, levels
        self._gaussian, self.size = noise.is_gaussian, noise.size
        self._deviation = noise.deviation
        self._whole = self._deviation < _TUNED.whole
        self._step = 1.0 if self._whole else _TUNED.step * self._deviation
        reach = math.ceil(_REACH[self._gaussian] * self.size / self._step) + 1
        self._offsets = self._step * np.arange(-reach, reach + 1)
        self._centre = np.maximum(np.rint(noisy / self._step) * self._step, 0.0)
        self._tilts = np.zeros(noisy.size)

    def __call__(self, tilt: float = 0.0) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return logarithms of likelihoods, and mean and variance of the counts that are left.

        All of shape (K, L). ``tilt`` is what counts weigh: likelihoods are those of
        ``exp(-tilt x)`` times the density of a count x.
        """
        shape = self._noisy.size, self._levels.size
        log, mean, variance = np.empty(shape), np.empty(shape), np.zeros(shape)
        centre, tilts = self._centre[:, None], self._tilts[:, None] + tilt
        for group in self._groups:
            powers = self._powers(group, tilt)
            first, second = powers * self._offsets[:, None], powers * self._offsets[:, None] ** 2
            mass = np.maximum(group.shared @ powers, _TUNED.tiny)
            moment = group.shared @ first / mass
            log[:, group.at] = (
                np.log(mass) + group.scale[:, None] + centre * (group.rate - tilts) + group.constant
            )
            mean[:, group.at] = centre + moment
            variance[:, group.at] = np.maximum(group.shared @ second / mass - moment**2, 0)
        sharp = self._levels[self._sharp]
        log[:, self._sharp] = self._log_noise(self._noisy[:, None] - sharp) - tilts * sharp
        mean[:, self._sharp] = sharp
        return log, mean, variance

    def tilted(self, tilts: FloatArray) -> "Likelihoods":
        """Return likelihoods of counts that weigh something more already, each its own, (K,)."""
        made = copy(self)
        made._tilts = self._tilts + tilts
        most = _TUNED.largest / 2
        apart = np.exp(np.clip(-tilts[:, None] * self._offsets, -most, most))
        made._groups = [replace(group, shared=group.shared * apart) for group in self._groups]
        return made

    @property
    def half_step(self) -> float:
        """Half of what neighbouring counts that are looked at differ by; 0 where all are."""
        return 0.0 if self._whole else self._step / 2

    def spread(
        self, rows: IntArray, tilt: float, weights: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return counts and how likely each is, shapes (B, N), for weights (B, L) of levels.

        Of the noisy counts of these ``rows``.
        """
        counts = np.maximum(self._centre[rows, None] + self._offsets, 0.0)
        masses = np.zeros_like(counts)
        for group in self._groups:
            powers = self._powers(group, tilt)
            shared = group.shared[rows]
            mass = shared @ powers
            known = mass > _TUNED.faint
            each = np.where(known, weights[:, group.at] / np.where(known, mass, 1), 0)
            with np.errstate(over="ignore", invalid="ignore"):  # where nothing is left
                found = shared * (each @ powers.T)
            masses += np.where(shared > _TUNED.faint, found, 0.0)
        sharp = np.broadcast_to(self._levels[self._sharp], (len(counts), len(self._sharp)))
        return np.hstack([counts, sharp]), np.hstack([masses, weights[:, self._sharp]])

    def _powers(self, group: _Group, tilt: float) -> FloatArray:
        most = _TUNED.largest / self._offsets[-1]
        rate = np.clip(group.rate - group.middle - tilt, -most, most)
        return np.asarray(np.exp(self._offsets[:, None] * rate))

    def _log_noise(self, error: FloatArray) -> FloatArray:
        u = error / self.size
        return -(u**2) / 2 if self._gaussian else -np.abs(u)

    @cached_property
    def _shapes(self) -> FloatArray:
        """One over the squared relative spread of counts at each level; NaN where it is nothing.

        In powers of two, so that levels come in groups.
        """
        level = np.maximum(self._levels, _TUNED.tiny)
        gaps = np.append(_TUNED.coarse, np.gradient(np.log(level[1:])))
        with np.errstate(over="ignore"):  # of the loudest noise
            blur = np.minimum(np.sqrt(self._deviation**2 + level) / level, 1e9)
        spread = np.maximum(gaps - blur, 0) * (gaps + blur)
        spread[spread < gaps**2 / 10] = 0.0
        if not self._whole:  # where counts are whole, chance is in the sum
            spread += 1 / level
        with np.errstate(divide="ignore"):
            shapes = np.exp2(np.rint(-np.log2(spread)))
        shapes[0] = np.nan
        if not self._whole:
            shapes[~(level >= 0.75 * self._step * np.sqrt(shapes))] = np.nan
        return np.asarray(shapes)

    @cached_property
    def _sharp(self) -> IntArray:
        return np.flatnonzero(np.isnan(self._shapes))

    @cached_property
    def _groups(self) -> list[_Group]:
        counts = self._centre[:, None] + self._offsets
        inside = counts > -self._step / 2
        counts = np.where(inside, counts, 0.0)
        noise = np.where(inside, self._log_noise(self._noisy[:, None] - counts), -np.inf)
        return [
            self._group(a, counts, noise)
            for a in np.unique(self._shapes[~np.isnan(self._shapes)])
        ]  # fmt: skip

    def _group(self, a: float, counts: FloatArray, noise: FloatArray) -> _Group:
        at = np.flatnonzero(self._shapes == a)
        level = self._levels[at]
        if math.isinf(a):  # Poisson counts
            shared, rate, constant = noise - special.gammaln(counts + 1), np.log(level), -level
        elif self._whole:  # Poisson counts of gamma means
            shared = noise + special.gammaln(counts + a) - special.gammaln(counts + 1)
            rate = -np.log1p(a / level)
            constant = -a * np.log1p(level / a) - special.gammaln(a)
        else:  # gamma counts
            shared, rate = noise + special.xlogy(a - 1, counts), -a / level
            constant = a * np.log(a / level) - special.gammaln(a) + math.log(self._step)
        middle = float(rate.min() + rate.max()) / 2
        shared = shared + middle * self._offsets
        scale = shared.max(axis=1)
        shared = np.exp(shared - scale[:, None])
        return _Group(at, rate, constant, middle, shared, scale)
