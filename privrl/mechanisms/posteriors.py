"""The Dirichlet posteriors of all data sets of a size, and how far they are apart.

The Hellinger distance between the posteriors of counts x and z under one prior is

    H(x, z)^2 = 1 - B((u + v) / 2) / sqrt(B(u) B(v)),    u = prior + x,  v = prior + z,

with B the multivariate beta function: the score of the exponential mechanism over posteriors
(`privrl.mechanisms.posterior_exponential`), whose matrix of probabilities this module computes as
well.
"""

import math
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property, lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privrl.costs.base import check_delta
from privrl.files.fixed import fixed
from privrl.files.shown import shown
from privrl.mechanisms.certificate import ALL, BLOCK, IntArray, Outputs
from privrl.numerics.checks import check_between, check_count, check_each, check_positive_array
from privrl.numerics.scipy_lazily import special
from privrl.numerics.special import FloatArray, bregman_lgamma

BoolArray = NDArray[np.bool]

_PRIORS = (1e-30, 1e20)
_MOST_WORK = 1.5e9  # entries of the matrix, over all neighbours: m = 3 up to n = 210
_LARGEST_TABLE = 1 << 22
_SIDE = 6  # of a tile, in records: near enough to have the same candidates near them
_PART = 1 << 22  # entries of the matrix that a few pairs may take
_GOLDEN = (math.sqrt(5) - 1) / 2
_ROUNDING = 16 * np.finfo(np.float64).eps


class Posteriors:
    """All Dirichlet posteriors of n records, and the Hellinger distances between them.

    Parameters
    ----------
    prior : array_like, shape (m,)
        Prior pseudo-counts, each > 0.
    n : int
        Records, >= 1; public.

    Attributes
    ----------
    counts : array of int, shape (n_candidates, m)
        Every vector of counts that sums to n, in lexicographic order.
    pairs : array of int, shape (n_pairs, 2)
        Neighbours among them, each unordered pair once: one record is replaced.
    rounding : float
        How far a computed distance is from H at the most.

    Raises
    ------
    ValueError
        If an argument is out of range, or the numbers of pairs and candidates are too large.

    Notes
    -----
    ``-log(1 - H^2)`` is a sum over the cells of ``(L(2 x) + L(2 z)) / 2 - L(x + z)``, where
    ``L(s) = log Γ(prior + s / 2)``, so tables of 2n + 1 numbers are enough. A linear function may
    be taken off L: tangents do, and leave numbers small.
    """

    prior: tuple[float, ...] = fixed()
    n: int = fixed()
    counts: IntArray = fixed()
    pairs: IntArray = fixed()
    rounding: float = fixed()

    def __init__(self, prior: ArrayLike, n: int) -> None:
        self.prior, self.n = check_size(prior, n)
        m = len(self.prior)
        vectors = [np.ones(n + 1, np.intp)]  # of 1, 2, … m cells, for each number of records
        for _ in range(m - 1):
            vectors.append(np.cumsum(vectors[-1]))
        self._vectors = vectors
        self.counts = _compositions(n, m)
        fewer = _compositions(n - 1, m)
        ranks = np.stack([self.rank(fewer + cell) for cell in np.eye(m, dtype=np.intp)])
        pairs = np.concatenate([ranks[[b, a]].T for a, b in combinations(range(m), 2)])
        self.pairs = pairs[np.lexsort(pairs.T[::-1])]
        self.counts.flags.writeable = self.pairs.flags.writeable = False
        self._make_tables([_cell_table(alpha, n) for alpha in self.prior])

    def _make_tables(self, cells: list[FloatArray]) -> None:
        """Make tables that are looked up at sums of two candidates' codes: one if it fits."""
        m, n_sums = len(cells), 2 * self.n + 1
        self._cells = cells
        if _n_tables(self.n, m) == 1:
            sums = np.indices((n_sums,) * (m - 1))
            last = np.maximum(2 * self.n - sums.sum(axis=0), 0)
            table = np.asarray(
                sum(cell[s] for cell, s in zip(cells, [*sums, last], strict=True))
            ).ravel()
            place = n_sums ** np.arange(m - 2, -1, -1)
            self._tables = [(self.counts[:, :-1] @ place, table)]
        else:
            self._tables = list(zip(self.counts.T.copy(), cells, strict=True))
        self._halves = sum(table[2 * codes] for codes, table in self._tables) / 2
        # The exponent is rounded in proportion to the tables, and H is the root of it.
        size = sum(float(np.abs(cell).max()) for cell in cells)
        nearest = float(self.neighbour_distances.min())
        self.rounding = _ROUNDING * (size / (2 * nearest) + min(1.0, math.sqrt(2 * size)))

    def rank(self, counts: ArrayLike) -> IntArray:
        """Return where vectors of counts, shape (..., m), are in `counts`."""
        counts = np.asarray(counts, np.intp)
        rank, left = np.zeros(counts.shape[:-1], np.intp), np.full(counts.shape[:-1], self.n)
        for cell, vectors in enumerate(self._vectors[:0:-1]):
            here = counts[..., cell]
            rank += vectors[left] - vectors[left - here]
            left = left - here
        return rank

    def distances(self, rows: IntArray, others: Outputs = ALL) -> FloatArray:
        """Return H from some candidates to others, or to all, shape (n_rows, n_others)."""
        halves = self._halves[others]
        codes = [(codes[rows, None], codes[others]) for codes, _ in self._tables]
        distances = np.empty((len(rows), halves.size))
        step = max(1, BLOCK // max(1, halves.size))
        for start in range(0, len(rows), step):
            some = slice(start, start + step)
            distances[some] = self._distances(
                (here[some] + there for here, there in codes),
                self._halves[rows[some], None] + halves,
            )
        return distances

    def near(self, rows: IntArray, most: float) -> BoolArray:
        """Return which candidates are near some of these, shape (n_candidates,).

        From each of ``rows`` to each that is not near, ``-log(1 - H^2)`` is more than ``most``: so
        is even the sum of the least that each cell adds. (None takes from it: log Γ is convex.)
        """
        least = np.zeros(len(self.counts))
        for counts, cell in zip(self.counts.T, self._cells, strict=True):
            here = np.unique(counts[rows])[:, None]
            apart = (cell[2 * here] + cell[::2]) / 2 - cell[here + np.arange(self.n + 1)]
            least += apart.min(axis=0)[counts]
        return least <= most

    @cached_property
    def scattered(self) -> IntArray:
        """All candidates in an order in which those that follow each other are far apart."""
        return np.argsort(np.arange(len(self.counts)) * _GOLDEN % 1.0)

    @cached_property
    def tiles(self) -> IntArray:
        """Numbers, shape (n_pairs,): the same for pairs that are near each other."""
        sides = self.counts[self.pairs[:, 0], :-1] // _SIDE
        return sides @ (self.n // _SIDE + 1) ** np.arange(sides.shape[1])

    @cached_property
    def neighbour_distances(self) -> FloatArray:
        """H between the two of each of `pairs`, shape (n_pairs,)."""
        first, second = self.pairs.T
        return self._distances(
            (codes[first] + codes[second] for codes, _ in self._tables),
            self._halves[first] + self._halves[second],
        )

    def _distances(self, sums: Iterator[IntArray], exponent: FloatArray) -> FloatArray:
        """Return H of two candidates each, from sums of their codes for each table in turn."""
        looked_up = (t.take(at) for (_, t), at in zip(self._tables, sums, strict=True))
        total = next(looked_up)
        for cell in looked_up:
            total += cell
        total -= exponent
        np.expm1(total, out=total)
        np.negative(total, out=total)
        np.maximum(total, 0.0, out=total)
        return np.sqrt(total, out=total)

    @cached_property
    def local_sensitivity(self) -> FloatArray:
        """The distance from each candidate to its farthest neighbour, shape (n_candidates,)."""
        farthest = np.zeros(len(self.counts))
        for side in self.pairs.T:
            np.maximum.at(farthest, side, self.neighbour_distances)
        return farthest

    def smooth_sensitivity(self, beta: float) -> FloatArray:
        """Return ``max over y of local(y) exp(-beta d(x, y))``, shape (n_candidates,).

        The distance d is the number of records replaced, half the L1 distance of the counts;
        ``beta``, >= 0, is by how much the logarithm may change with each.
        """
        smooth, factor = self.local_sensitivity.copy(), math.exp(-beta)
        first, second = self.pairs.T
        while True:
            spread = smooth.copy()
            np.maximum.at(spread, first, factor * smooth[second])
            np.maximum.at(spread, second, factor * smooth[first])
            if np.array_equal(spread, smooth):
                return smooth
            smooth = spread


def hellinger_sensitivity(prior: ArrayLike, n: int) -> float:
    """Return the global sensitivity: the largest H between posteriors of neighbours.

    Parameters
    ----------
    prior : array_like, shape (m,)
        Prior pseudo-counts, each > 0.
    n : int
        Records, >= 1.

    Raises
    ------
    ValueError
        If an argument is out of range, or m and n are too large.
    """
    return float(posteriors_of(*check_size(prior, n)).local_sensitivity.max())


def smooth_beta(epsilon: float, delta: float, n_candidates: int) -> float:
    """Return BAY's smoothing ``log(1 - epsilon / (2 log(delta / (2 n_candidates))))``.

    Its section 2.3 has ``n_candidates = n + 1``, which is how many candidates two cells have;
    the numbers in its figures come from n.
    """
    check_between("epsilon", epsilon, 0, np.inf)
    check_count("n_candidates", n_candidates)
    return math.log1p(-epsilon / (2 * math.log(check_delta(delta) / (2 * n_candidates))))


class ExponentialLaw:
    """The matrix of probabilities proportional to ``exp(-c(x) H(x, z))``.

    Parameters
    ----------
    posteriors : Posteriors
        The data sets x, and the candidates z.
    coefficients : array, shape (n_candidates,)
        The c of each x, > 0.
    """

    posteriors: Posteriors = fixed()
    coefficients: FloatArray = fixed()

    def __init__(self, posteriors: Posteriors, coefficients: FloatArray) -> None:
        self.posteriors = posteriors
        self.coefficients = coefficients

    @property
    def n_outputs(self) -> int:
        """Number of candidates."""
        return len(self.coefficients)

    @property
    def pairs(self) -> IntArray:
        """Neighbouring data sets, shape (n_pairs, 2)."""
        return self.posteriors.pairs

    @property
    def margin(self) -> float:
        """By how much rounding may hide a loss (nats)."""
        return 1e-12 + 4 * float(self.coefficients.max()) * self.posteriors.rounding

    def probs(self, rows: IntArray) -> FloatArray:
        """Return the probabilities of some rows, shape (n_rows, n_outputs)."""
        weights = self.posteriors.distances(rows)
        weights *= -self.coefficients[rows, None]
        np.exp(weights, out=weights)
        weights /= weights.sum(axis=1, keepdims=True)
        return weights

    def gaps(self, rows: IntArray) -> FloatArray:
        """Return by how many nats each output is less likely than the likeliest of its row."""
        weights = self.posteriors.distances(rows)
        weights *= self.coefficients[rows, None]
        weights -= weights.min(axis=1, keepdims=True)
        return weights

    def log_probs(self, rows: IntArray, outputs: Outputs = ALL) -> FloatArray:
        """Return the logarithms of the probabilities of some rows, (n_rows, n_outputs)."""
        logs = self.posteriors.distances(rows, outputs)
        logs *= -self.coefficients[rows, None]
        logs -= self._log_normalisers[rows, None]
        return logs

    def parts(self, pairs: IntArray, spread: float) -> Iterator[tuple[IntArray, Outputs]]:
        """Yield pairs that are near each other, and the outputs that are not far from all of them.

        Where ``c (1 - H)`` is at most ``spread``, their logarithms are no farther apart.
        """
        tiles = self.posteriors.tiles[pairs]
        pairs = pairs[tiles.argsort(kind="stable")]
        most = max(1, _PART // self.n_outputs)
        for tile in np.split(pairs, np.bincount(tiles).cumsum()[:-1]):
            for start in range(0, len(tile), most):
                some = tile[start : start + most]
                rows = np.unique(self.pairs[some])
                left = min(spread / float(self.coefficients[rows].max()), 1.0)  # of 1 - H
                near = self.posteriors.near(rows, -math.log(left * (2 - left)))
                far, scattered = np.flatnonzero(~near)[:1], self.posteriors.scattered
                yield some, np.append(scattered[near[scattered]], far) if far.size else ALL

    def loss_bounds(self) -> FloatArray:
        """Return the larger end of each pair's losses; for why, see where it is used."""
        first, second = self.pairs.T
        change = self.coefficients[second] - self.coefficients[first]
        shift = self._log_normalisers[second] - self._log_normalisers[first]
        shift = np.where(change < 0, -shift, shift)
        least = np.minimum(self.coefficients[first], self.coefficients[second])
        near = least * self.posteriors.neighbour_distances
        return near + np.maximum(np.abs(change) + shift, -shift)

    @cached_property
    def _log_normalisers(self) -> FloatArray:
        # Distances are symmetric, so that half of them are computed.
        c, n_outputs = self.coefficients, self.n_outputs
        constant = bool((c == c[0]).all())
        sums = np.zeros(n_outputs)
        start = 0
        while start < n_outputs:
            stop = min(n_outputs, start + max(1, BLOCK // (n_outputs - start)))
            distances = self.posteriors.distances(np.arange(start, stop), slice(start, None))
            weights = np.exp(-c[start:stop, None] * distances)
            sums[start:stop] += weights.sum(axis=1)
            if not constant:
                weights = np.exp(-c[stop:] * distances[:, stop - start :])
            else:
                weights = weights[:, stop - start :]
            sums[stop:] += weights.sum(axis=0)
            start = stop
        return np.log(sums)


@lru_cache(maxsize=4)
def posteriors_of(prior: tuple[float, ...], n: int) -> Posteriors:
    """Return `Posteriors` of a checked prior, the last few of which are kept."""
    return Posteriors(prior, n)


def _n_tables(n: int, m: int) -> int:
    """Return how many tables give a distance: one for all cells if it is not too large."""
    return 1 if (m - 1) * math.log(2 * n + 1) <= math.log(_LARGEST_TABLE) else m


def _work(n: int, m: int) -> float:
    """Return how many numbers are looked up in one pass over all neighbouring rows."""
    candidates = math.comb(n + m - 1, m - 1)
    pairs = math.comb(n + m - 2, m - 1) * math.comb(m, 2)
    return pairs * max(candidates, 2000) * _n_tables(n, m)  # 2000: a pair's own costs


def check_size(
    prior: ArrayLike, n: int, most: float = _MOST_WORK, remedy: str = "or merge cells"
) -> tuple[tuple[float, ...], int]:
    """Return the prior and n if the numbers of candidates and neighbours are not too large."""
    array = check_positive_array("prior", prior)
    if array.ndim != 1 or len(array) < 2:
        raise ValueError(
            f"prior must be at least two pseudo-counts, shape (m,), got shape {array.shape}."
        )
    low, high = _PRIORS
    fits = (array >= low) & (array <= high)
    check_each("prior", array, fits, f"from {low:g} to {high:g} everywhere")
    n, m = check_count("n", n), len(array)
    if not _work(n, m) <= most:
        largest = bisect_right(range(1, n), most, key=lambda each: _work(each, m))
        raise ValueError(
            f"n must be at most {largest} for {m} cells, got {shown(n)}; its "
            f"{math.comb(n + m - 1, m - 1):,} candidates make {_work(n, m):.2g} entries to go "
            f"over, of which {most:.2g} are accepted. Use fewer records, {remedy}."
        )
    return tuple(array.tolist()), n


def _compositions(n: int, m: int) -> IntArray:
    """Return every vector of m counts that sums to n, in lexicographic order."""
    bars = np.array(list(combinations(range(n + m - 1), m - 1)), np.intp).reshape(-1, m - 1)
    return np.diff(bars, prepend=-1, append=n + m - 1) - 1


def _cell_table(alpha: float, n: int) -> FloatArray:
    """Return ``log Γ(alpha + s / 2)`` less its tangent in the middle, for s = 0, …, 2n."""
    middle = alpha + n / 2
    halves = np.arange(2 * n + 1) / 2
    # For tiny alpha, alpha + n / 2 - n / 2 is zero; then use Γ(alpha) = Γ(alpha + 1) / alpha.
    least = 0 if alpha >= 1 else 1
    table = np.empty(2 * n + 1)
    table[least:] = bregman_lgamma(middle, halves[least:] - n / 2)
    if least:
        table[0] = table[2] - math.log(alpha) + special.digamma(middle)
    return table
