"""The counts behind one row of noisy counts, from a mixture of priors: post-processing.

`fit` estimates a histogram of unknown shape: sparse, peaked or level, with similar neighbouring
cells or not. It averages the posterior means of many priors, weighted by their evidence, the
likelihood of the released counts. Some priors ignore the order of the cells; the chains of
`privrl.models.estimates.ordered` and the lattices of `privrl.models.estimates.lattices` use it.

Where the number n of records is public, everything is conditional on the sum n. Counts whose
density is multiplied by exp(-t x) sum to n for some tilt t. Their means and their normaliser Z(t)
give the first term of the saddle-point expansion (Daniels, 1954) of the means given the sum. They
also give the evidence: the density of the sum at n is Z(t) exp(t n) / sqrt(2 pi V) for the
variance V of the sum at t. Before the release the sum is taken as normal. Where sums of blocks of
cells were released as well, `privrl.models.estimates.blocks` uses one more tilt for each block.

**Priors without an order of cells** (`families`). A family states how many of the K cells hold
most of the n records. The levels of these cells follow a gamma law: of shape 1 where all
histograms are equally likely, of a small shape where few cells hold most records, of a large shape
where all cells are alike. The other cells are empty or share a few records. Each may hold too few
to be seen through its noise, but together they are missing from the sum. For many cells, `fitted`
estimates a law outside these families (Robbins, 1956).

References
----------
H. E. Daniels. *Saddlepoint approximations in statistics* (1954).

H. Robbins. *An empirical Bayes approach to statistics* (1956).
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from privrl.mechanisms.additive import AdditiveMechanism
from privrl.models.estimates.blocks import Sums, Weigh, settle
from privrl.models.estimates.frequencies import check_noisy, total_records
from privrl.models.estimates.lattices import FEWEST, MOST, Lattices
from privrl.models.estimates.levels import Likelihoods, gamma_law, levels_of
from privrl.models.estimates.ordered import Chains
from privrl.numerics.checks import check_positive
from privrl.numerics.typing import FloatArray, IntArray

ORDERED = 5_000  # cells up to which their order is looked at


@dataclass(frozen=True)
class _Tuned:
    """How counts are estimated from noisy ones.

    They were chosen on the 216 histograms that docs/results/histograms.md calls "chosen on",
    four shapes and six columns of Adult; that page also has data on which nothing was chosen.
    Sizes of blocks and chunks bound memory, and the smallest and largest numbers keep results
    within floats; none of these changes a result by more than rounding.
    """

    fitted: float = 10.0  # nats by which a law that was fitted must be the more likely
    kept: int = 8  # laws, and half as many chains
    numbers: int = 20_000_000  # at once, in the weights of levels under all laws
    behind: float = 4.0  # nats behind the best from which on a prior is left out
    far: float = 25.0  # squared deviations: beyond, sums are not normal
    rounds: int = 6  # of the search for a tilt
    near: float = 1e-3  # of the sum
    stride: float = 0.4  # of a tilt, over the noise's size
    held: float = 0.3  # of its mean: no count is drawn below, to fit the sum
    least: float = 1e-12  # of all records, in a cell
    exact: float = 1e-3  # variance of a sum that is none
    tiny: float = 1e-300
    rounding: float = 1e-12  # of chances
    tied: float = 1e-6  # nats
    block: int = 2_000  # cells at once
    sparse: float = 0.85  # power of the share of cells with records, to which that share is likely
    # chance of a shape below 1 where cells are empty: that would be sparse twice
    twice: float = 0.1
    law_tiny: float = 1e-9
    before: float = 5.0  # cells that the law before is worth, where another is fitted
    fit_rounds: int = 50


_TUNED = _Tuned()


_SHAPES = np.array([0.15, 0.4, 1.0, 3.0, 12.0])
_CHANCES = np.array([0.3, 1.0, 3.0, 1.0, 0.3])  # of the shapes, up to a factor
_RESTS = np.array([0.0, 0.03, 0.1, 0.3])  # shares of the records that all other cells have
_OF_RESTS = np.array([3.0, 1.0, 1.0, 1.0]) / 6  # their chances


@dataclass(frozen=True)
class CountPosterior:
    """The posterior of counts, given their noisy ones; `fit` makes it.

    Attributes
    ----------
    counts : array, shape (K,)
        Their means, > 0; where the number of records is public, with that sum within rounding.
    """

    counts: FloatArray
    _likelihoods: Likelihoods
    _rows: IntArray  # of the likelihoods, for each cell
    _weights: FloatArray  # of levels, (K, L)
    _tilt: float

    def intervals(self, confidence: float) -> FloatArray:
        """Return for each cell the shortest interval that is left with this probability, (K, 2).

        It is extended to the mean, where that is not within.
        """
        half = self._likelihoods.half_step
        ends = np.empty((self.counts.size, 2))
        for start in range(0, self.counts.size, _TUNED.block):
            block = slice(start, start + _TUNED.block)
            values, masses = self._likelihoods.spread(
                self._rows[block], self._tilt, self._weights[block]
            )
            order = np.argsort(values, axis=1)
            values = np.take_along_axis(values, order, axis=1)
            upto = np.take_along_axis(masses, order, axis=1).cumsum(axis=1)
            upto /= np.maximum(upto[:, -1:], _TUNED.tiny)
            upto[:, -1] = 1.0
            ends[block] = [
                _shortest(each, chance, confidence)
                for each, chance in zip(values, upto, strict=True)
            ]
        ends = np.maximum(ends + np.array([-half, half]), 0)
        return np.stack(
            [np.minimum(ends[:, 0], self.counts), np.maximum(ends[:, 1], self.counts)], axis=1
        )


def fit(
    noisy: ArrayLike,
    noise: AdditiveMechanism[Any],
    n_records: float | None = None,
    sums: Sums | None = None,
) -> CountPosterior:
    """Return what is left of the counts of a histogram.

    Parameters
    ----------
    noisy : array_like, shape (K,)
        Released counts; they may be negative. Up to 5,000 of them are looked at in their order.
    noise : mechanism of counts with noise
        What released them; its kind and size are used.
    n_records : float, optional
        What the counts sum to, > 0, where it is public; without it the sum is as uncertain as the
        counts are.
    sums : Sums, optional
        Released sums of blocks of the cells, where that number is public.

    Returns
    -------
    CountPosterior

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    z = check_noisy(noisy)
    is_public = n_records is not None
    n = check_positive(
        "n_records",
        total_records(z, noise) if n_records is None else n_records,
        "the public number of records",
    )
    if sums is None:
        values, rows, numbers = np.unique(z, return_inverse=True, return_counts=True)
    else:  # equal counts weigh differently in different blocks
        values, rows, numbers = z, np.arange(z.size), np.ones(z.size, np.intp)
    times = numbers.astype(np.float64)
    levels = levels_of(n, z.size, noise.deviation, float(z.max()))
    likelihoods = Likelihoods(values, noise, levels)
    total = n if is_public else None

    log, mean, variance = likelihoods()
    laws, chances = families(levels, n, z.size)
    apart = _Laws(laws, levels, times)
    likely = chances + apart.roughly(log, mean, variance, total, sums)
    law = fitted(log, times, _shares(likely) @ laws)
    apart = _Laws(np.vstack([laws, law]), levels, times)
    likely = apart.roughly(log, mean, variance, total, sums) + np.append(chances, -_TUNED.fitted)
    law = _shares(likely) @ apart.laws

    kept = _best(
        likely, likely.max() - _TUNED.behind, min(_TUNED.kept, 1 + _TUNED.numbers // log.size)
    )
    apart = _Laws(apart.laws[kept], levels, times)
    each = np.arange(values.size)
    if sums is None:
        found = _Settled.of(
            apart.posterior, kept.size, likelihoods, rows=each, cells=times, total=total
        )
    else:
        found = _Settled.within(apart, kept.size, likelihoods, sums, n)
    # Whatever holds of all laws alike cancels.
    weight = found.log_evidence - apart.before(total) + np.append(chances, -_TUNED.fitted)[kept]
    parts = [(weight, found, rows)]
    if 2 < z.size <= ORDERED:
        settled = partial(
            _in_order,
            log=log[rows] if sums is None else log + sums.log_levels(levels),
            least=float(likely.max()) - 3 * _TUNED.behind,
            likelihoods=likelihoods,
            rows=rows,
            sums=sums,
            total=total,
        )
        chains = Chains.over(levels, law, z.size)
        mean_sum = z.size * float(law @ levels)
        before = -math.log(chains.jumps.size) - _log_normal(
            total, mean_sum, chains.variances + mean_sum
        )
        parts += settled(chains, before, _TUNED.kept // 2)
        if sums is None and FEWEST <= z.size <= MOST and n > noise.deviation:
            lattices = Lattices.over(levels, n, z.size)
            parts += settled(lattices, lattices.log_chances(total, _log_normal), _TUNED.kept)
    return _mixed(parts, likelihoods, rows, n, is_public)


def _in_order(
    priors: Chains | Lattices,
    before: FloatArray,
    most: int,
    *,
    log: FloatArray,
    least: float,
    likelihoods: Likelihoods,
    rows: IntArray,
    sums: Sums | None,
    total: float | None,
) -> "list[tuple[FloatArray, _Settled, IntArray]]":
    """Return what the most likely priors that use the order of cells leave, if any is likely."""
    rough = priors.log_evidence(log) + before
    best = _best if isinstance(priors, Chains) else _clearly_best
    kept = best(rough, max(rough.max() - _TUNED.behind, least), most)
    if not kept.size:
        return []
    priors = priors.only(kept)
    n_cells = len(log)
    if sums is None:
        found = _Settled.of(
            priors.posterior,
            kept.size,
            likelihoods,
            rows=rows,
            cells=np.ones(n_cells),
            total=total,
        )
    else:
        assert total is not None
        found = _Settled.within(priors, kept.size, likelihoods, sums, total)
    return [(found.log_evidence + before[kept], found, np.arange(n_cells))]


def _mixed(
    parts: "list[tuple[FloatArray, _Settled, IntArray]]",
    likelihoods: Likelihoods,
    rows: IntArray,
    n_records: float,
    is_public: bool,
) -> CountPosterior:
    """Return what all priors leave, each with its weight; those of a part have their own rows."""
    shares = _shares(np.concatenate([weight for weight, _, _ in parts]))
    ends = np.cumsum([weight.size for weight, _, _ in parts])[:-1]
    each = [
        ((share @ found.counts)[at], np.tensordot(share, found.weights, 1)[at], share @ found.tilts)
        for share, (_, found, at) in zip(np.split(shares, ends), parts, strict=True)
    ]
    counts, levels, tilts = zip(*each, strict=True)
    total = np.maximum(sum(counts), _TUNED.least * n_records)
    if is_public:
        total = total * (n_records / total.sum())
    tilt = sum(tilts)
    if np.ndim(tilt):  # of each cell, with rows of its own
        likelihoods, tilt = likelihoods.tilted(tilt), 0.0
    return CountPosterior(total, likelihoods, rows, sum(levels), float(tilt))


def _shortest(values: FloatArray, upto: FloatArray, mass: float) -> tuple[float, float]:
    """Return the ends of the shortest run of increasing values of a mass, from chances upto each.

    Of equally short ones that of the most mass.
    """
    first = np.append(0.0, upto[:-1])
    last = np.searchsorted(upto, first + mass - _TUNED.rounding)
    starts = np.flatnonzero(last < upto.size)
    last = last[starts]
    best = np.lexsort((first[starts] - upto[last], values[last] - values[starts]))[0]
    return float(values[starts[best]]), float(values[last[best]])


@dataclass(frozen=True)
class _Laws:
    """Laws of the levels of cells that know nothing of each other."""

    laws: FloatArray  # (S, L)
    levels: FloatArray
    cells: FloatArray  # with each noisy count

    def only(self, which: IntArray) -> "_Laws":
        """Return some of them."""
        return _Laws(self.laws[which], self.levels, self.cells)

    def posterior(self, log: FloatArray) -> tuple[FloatArray, FloatArray]:
        """As that of `Chains`."""
        largest = log.max(axis=2, keepdims=True)
        weights = np.exp(log - largest) * self.laws[:, None]
        total = weights.sum(axis=2, keepdims=True)
        return (np.log(total) + largest)[..., 0] @ self.cells, weights / total

    def before(self, total: float | None) -> FloatArray:
        """Return the log-density of the sum at ``total`` before anything is released, (S,)."""
        mean = self.laws @ self.levels
        variance = self.laws @ (self.levels**2 + self.levels) - mean**2
        n_cells = self.cells.sum()
        return _log_normal(total, n_cells * mean, n_cells * variance)

    def roughly(
        self,
        log: FloatArray,
        mean: FloatArray,
        variance: FloatArray,
        total: float | None,
        sums: Sums | None,
    ) -> FloatArray:
        """Return log-evidences given the sum, (S,), it and the sums of blocks taken as normal."""
        largest = log.max(axis=1, keepdims=True)
        likely = np.exp(log - largest)
        mass = likely @ self.laws.T
        first = (likely * mean) @ self.laws.T / mass
        second = (likely * (variance + mean**2)) @ self.laws.T / mass
        variances = np.maximum(second - first**2, 0)
        if sums is None:
            found = _log_normal(total, self.cells @ first, self.cells @ variances)
        else:
            assert total is not None
            found = sums.roughly(first.T, variances.T, total)
        return self.cells @ (np.log(mass) + largest) + found - self.before(total)


@dataclass(frozen=True)
class _Settled:
    """What priors leave of the counts, given their sum where it is public."""

    log_evidence: FloatArray  # (S,)
    tilts: FloatArray  # (S,), or of each cell, (S, K)
    counts: FloatArray  # (S, K)
    weights: FloatArray  # of levels, (S, K, L)

    @classmethod
    def of(
        cls,
        posterior: Weigh,
        n_priors: int,
        likelihoods: Likelihoods,
        *,
        rows: IntArray,
        cells: FloatArray,
        total: float | None,
    ) -> "_Settled":
        """Return it for the tilts at which counts sum to ``total``, found by secants."""
        tilt, stride = np.zeros(n_priors), _TUNED.stride / likelihoods.size
        last = slope = gap = np.full(n_priors, np.nan)
        best: list[FloatArray] = []
        for _ in range(_TUNED.rounds):
            log, mean, variance = (
                np.stack(each)[:, rows] for each in zip(*map(likelihoods, tilt), strict=True)
            )
            evidence, weights = posterior(log)
            first = (weights * mean).sum(axis=2)
            spread = (weights * (variance + mean**2)).sum(axis=2) - first**2
            now = [evidence, tilt, first, np.maximum(spread, 0), weights]
            if total is None:
                return cls(evidence, tilt, first, weights)
            before, gap = gap, first @ cells - total
            with np.errstate(divide="ignore", invalid="ignore"):
                secant = (before - gap) / (tilt - last)
            slope = np.where(secant > 0, secant, now[3] @ cells) + _TUNED.exact
            now += [gap, slope]
            if not best:
                best = now
            nearer = np.abs(gap) <= np.abs(best[5])
            best = [
                np.where(nearer.reshape(-1, *[1] * (new.ndim - 1)), new, old)
                for new, old in zip(now, best, strict=True)
            ]
            if (np.abs(best[5]) <= _TUNED.near * total).all():
                break
            last, tilt = tilt, tilt + np.clip(gap / slope, -stride, stride)
        evidence, tilt, first, spread, weights, gap, slope = best
        assert total is not None
        counts = _summing(first, spread, cells, total)
        sums = tilt * total - np.log(slope) / 2 - np.minimum(gap**2 / slope, _TUNED.far) / 2
        return cls(evidence + sums, tilt, counts, weights)

    @classmethod
    def within(
        cls,
        priors: "_Laws | Chains | Lattices",
        n_priors: int,
        likelihoods: Likelihoods,
        sums: Sums,
        n: float,
    ) -> "_Settled":
        """Return it for the tilts at which blocks sum to what they leave of the released sums."""

        def posterior(one: int, log: FloatArray) -> tuple[FloatArray, FloatArray]:
            return priors.only(np.full(len(log), one)).posterior(log)

        apart = isinstance(priors, _Laws)
        found = [
            settle(partial(posterior, one), likelihoods, sums, n, apart=apart)
            for one in range(n_priors)
        ]
        evidence, tilts, first, spread, weights = map(np.stack, zip(*found, strict=True))
        counts = _summing(first, spread, np.ones(sums.n_cells), n)
        return cls(evidence, tilts, counts, weights)


def _summing(
    means: FloatArray, variances: FloatArray, cells: FloatArray, total: float
) -> FloatArray:
    """Return means of counts, (S, K), that sum to a total, of which they are not far."""
    # What is left of the gap is shared out as the counts are uncertain.
    share = variances / np.maximum((variances @ cells)[:, None], _TUNED.tiny)
    gap = means @ cells - total
    counts = np.maximum(means - gap[:, None] * share, _TUNED.held * means) + _TUNED.least * total
    return np.asarray(counts * (total / (counts @ cells))[:, None])


def _log_normal(value: float | None, mean: ArrayLike, variance: FloatArray) -> FloatArray:
    """Return the log-density of a value that is known, up to a constant; 0 where none is."""
    if value is None:
        return np.zeros_like(variance)
    variance = np.maximum(variance, 0) + _TUNED.exact
    square = np.minimum((value - np.asarray(mean)) ** 2 / variance, _TUNED.far)
    return np.asarray(-(np.log(variance) + square) / 2)


def _shares(log: FloatArray) -> FloatArray:
    shares = np.exp(log - log.max())
    return np.asarray(shares / shares.sum())


def _best(log: FloatArray, least: float, most: int) -> IntArray:
    """Return where the largest are, at most so many, none of them below the least."""
    able = np.flatnonzero(log >= least)
    return np.asarray(able[np.argsort(-log[able], kind="stable")[:most]])


def _clearly_best(log: FloatArray, least: float, most: int) -> IntArray:
    """Return the same without those that only their order tells from one that is left out."""
    found = _best(log, least, most + 1)
    if found.size <= most:
        return found
    return np.asarray(found[log[found] > log[found[-1]] + _TUNED.tied])


def families(levels: FloatArray, n_records: float, n_cells: int) -> tuple[FloatArray, FloatArray]:
    """Return laws of levels, and how likely each is beforehand, in logarithms.

    Parameters
    ----------
    levels : array, shape (L,)
        0 and numbers above, increasing.
    n_records : float
        The mean of all counts together.
    n_cells : int
        The number of cells.

    Returns
    -------
    laws : array, shape (F, L)
        Each sums to 1; none is zero anywhere.
    log_chances : array, shape (F,)
    """
    # All cells; and halves of them, halves of these, and so on, down to one, with every rest.
    few = np.append(n_cells / 2.0 ** np.arange(1, np.ceil(np.log2(n_cells / 1.4))), 1.0)
    filled = np.append(n_cells, few.repeat(_RESTS.size))[:, None]
    rest = np.append(0.0, np.tile(_RESTS, few.size))[:, None]
    share = filled / n_cells
    chance = np.append(1.0, np.tile(_OF_RESTS, few.size)) * share[:, 0] ** _TUNED.sparse
    others = gamma_law(
        levels,
        1.0,
        np.maximum(rest * n_records, _TUNED.law_tiny)
        / np.maximum(n_cells - filled, _TUNED.law_tiny),
    )
    laws, chances = [], []
    for shape, of_shape in zip(_SHAPES, _CHANCES, strict=True):
        most = share * gamma_law(levels, shape, (1 - rest) * n_records / filled)
        seen = np.where(rest > 0, most + (1 - share) * others, most)
        laws.append(np.hstack([np.where(rest > 0, 0, 1 - share), seen]))
        twice = np.where((shape < 1) & (share[:, 0] < 1), _TUNED.twice, 1)
        chances.append(of_shape * chance * twice)
    every = np.maximum(np.concatenate(laws), _TUNED.law_tiny)
    chance = np.concatenate(chances)
    return every / every.sum(axis=1, keepdims=True), np.log(chance / chance.sum())


def fitted(log: FloatArray, cells: FloatArray, law: FloatArray) -> FloatArray:
    """Return the law of levels, (L,), that makes what was released likely, near a law before.

    By expectation and maximisation, from the likelihoods (K, L) of noisy counts, each of which
    occurs ``cells`` (K,) times.
    """
    likely = np.exp(log - log.max(axis=1, keepdims=True))
    found = law
    for _ in range(_TUNED.fit_rounds):
        shares = cells / (likely @ found)
        found = found * (shares @ likely) + _TUNED.before * law
        found = found / found.sum()
    return found
