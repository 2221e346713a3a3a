"""Running sums of a stream under Gaussian noise: factorisations of the prefix-sum matrix.

The sums of a stream ``d`` of n batches are ``A d``, where A has ones on and below its diagonal.
With ``A = B C`` the mechanism releases ``B (C d + z) = A d + B z`` for Gaussian z: the factor C
decides what a record costs, since one that arrives in batch t changes ``C d`` by ``C e_t`` times
its own change, and the factor B how large the noise in each sum is. So the whole stream is one
Gaussian mechanism, of a standard deviation that grows with the largest column norm of C.

That holds for streams that react to what was released, if B and C are lower triangular in time
(Denisov, McMahan, Rush, Smith and Guha Thakurta, *Improved differential privacy for SGD via
optimal private linear operators on adaptive streams*, 2022).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, get_args

import numpy as np

from privrl.files.fixed import FixedArrays
from privrl.files.shown import shown
from privrl.numerics.checks import check_count, plain_array
from privrl.numerics.scipy_lazily import linalg
from privrl.numerics.special import FloatArray
from privrl.numerics.upwards import FEW
from privrl.samplers.buffered import BufferedFactorisation, last_row, last_shares
from privrl.samplers.innovations import FARTHEST, FINENESS, Innovations, draws_ahead

_LARGEST = 10_000  # a matrix of 0.8 GB
_LARGEST_OPTIMAL = 1000  # a second or so of matrix roots
_LONG = 1000  # matrices of 8 MB
_LARGEST_BUFFERED = 1_000_000  # a second or so of steps
_ROUNDED_AWAY = 2.0**-35  # relative: more than rounding takes from the norm of C
_ONE_THREAD = 2**18  # multiplications
_MIXED_AT_ONCE = 32  # updates whose noise is mixed by one matrix product

FactorisationName = Literal["auto", "square-root", "optimal", "tree", "independent", "buffered"]


@dataclass(frozen=True)
class LocalNoise:
    """Noise that each user adds to their own data before sending it.

    Local privacy: users trust no curator, and the cost depends on one user's noise alone. The noise
    of all users adds up. (`NoisyCounts` simulates this: it gets the counts, and adds the sum of all
    the noise.) The relation defines which part of one user's data is replaced: all of it under
    `privrl.costs.ReplaceEpisode`.

    Parameters
    ----------
    users : sequence of int
        Public number of users in each batch, >= 0; a user is in one batch. If a number is too
        small, the noise is smaller than the cost states.

    Raises
    ------
    ValueError
        If a number is not whole and >= 0.
    """

    users: tuple[int, ...]

    def __init__(self, users: Sequence[int]) -> None:
        checked = tuple(check_count("users", number, least=0) for number in users)
        object.__setattr__(self, "users", checked)


@dataclass(frozen=True, eq=False)
class Factorisation(FixedArrays):
    """A factorisation ``A = B C`` of the prefix sums of n batches, or `LocalNoise`'s B and C = 1.

    Attributes
    ----------
    left : array, shape (n, n)
        The factor B, lower triangular: row t says which noises are in the sum after batch t.
    right : array, shape (n, n)
        The factor C.
    """

    left: FloatArray
    right: FloatArray

    def __post_init__(self) -> None:
        for name in ("left", "right"):  # shared by all samplers of a size, so read-only
            copied = plain_array(name, getattr(self, name)).astype(np.float64)
            copied.flags.writeable = False
            object.__setattr__(self, name, copied)

    @cached_property
    def column_norm(self) -> float:
        """Largest Euclidean norm of a column of C: what one record's change is multiplied by."""
        norm = float(np.sqrt((self.right**2).sum(axis=0).max()))
        # Of whole numbers only a root, and what it is multiplied by, is rounded; 1 is exact.
        return norm * (1 + FEW * (norm != 1) if self._is_whole else 1 + _ROUNDED_AWAY)

    @cached_property
    def deviations(self) -> FloatArray:
        """Standard deviation of the noise in each sum, shape (n,), per unit of one record's.

        For noise that hides one record's change of 1 in the whole stream as well as a standard
        deviation of 1 would hide it in a single release.
        """
        found: FloatArray = self.column_norm * np.sqrt((self.left**2).sum(axis=1))
        found.flags.writeable = False  # as above
        return found

    @property
    def updates(self) -> int:
        """The number of sums."""
        return len(self.left)

    @cached_property
    def fresh(self) -> FloatArray:
        """The diagonal of B, shape (n,): how loud the fresh noise in each sum is."""
        return np.diagonal(self.left)

    @cached_property
    def _is_whole(self) -> bool:
        """Whether a sum is of whole multiples of fresh noises, so that nothing is rounded."""
        return all(np.array_equal(rows, np.rint(rows)) for rows in self._mixtures())

    @cached_property
    def rounding(self) -> float:
        """What rounding adds to the distance of neighbours, see `privrl.samplers.NoisyCounts`.

        At the most, for each cell that they differ in, in deviations of the noise.

        A mixture of n terms is off by less than ``3n + 8`` roundings of the norms of both
        factors: coefficients by n, or 2n, their product by n (Higham, *Accuracy and stability of
        numerical algorithms*, 2002, section 3.1), and by half a grain. The last row of the square
        root's B, a mixture of others, is off by less than 14n, so that this sum counts as 25. Both
        neighbours' are, in each of n sums. The change of the fresh noise is multiplied by the
        inverse of B, of which ``C A⁻¹``, differences of neighbouring columns of C, gives the norm.
        """
        if self._is_whole:
            return 0.0
        n = self.updates
        inverse = np.abs(-np.diff(self.right, axis=1, append=0.0))
        norm = math.sqrt(float(inverse.sum(axis=0).max() * inverse.sum(axis=1).max()))
        longest = math.sqrt(float((self.left**2).sum(axis=1).max()))
        off = (3 * n + 8) * 2.0**-53 * longest * (math.sqrt(n) + FARTHEST)
        return 2.01 * norm * math.sqrt(n + 24) * (off + FINENESS / 2 * float(self.fresh.max()))

    def noise(self, innovations: Innovations) -> "Mixed":
        """Return the noise of a stream of sums, made of its fresh noises."""
        return Mixed(self, innovations)

    def mixture(self, rows: slice) -> FloatArray:
        """Return how much of earlier fresh noises is in some sums, shape (rows, n)."""
        fresh = np.where(self.fresh > 0, self.fresh, 1.0)
        return np.tril(self.left[rows] / fresh, rows.start - 1)

    def _mixtures(self) -> Iterator[FloatArray]:
        for start in range(0, self.updates, _MIXED_AT_ONCE):
            yield self.mixture(slice(start, start + _MIXED_AT_ONCE))


class Mixed:
    """The noise in the sums of one stream; it keeps all that may be in a later one."""

    remembered = ("_done", "_drawn", "_ahead", "_recent")

    def __init__(self, factors: Factorisation, innovations: Innovations) -> None:
        self._factors, self._innovations, self._done = factors, innovations, 0
        self._drawn = np.empty((0, *innovations.shape))  # before this block of updates
        self._ahead = self._drawn  # for each sum of the block, what is known of its noise
        self._recent: list[FloatArray] = []  # drawn in this block, if one at a time

    def next(self, rng: np.random.Generator) -> FloatArray:
        """Return a new table: the noise in the next sum, in whole grains.

        One matrix product for a block reads the noises once, where a sum for each update reads
        all of them each time.
        """
        place = self._done % _MIXED_AT_ONCE
        if place == 0:
            self._begin_block(rng)
        start, self._done = self._done - place, self._done + 1
        if len(self._drawn) > start:
            return self._ahead[place].copy()  # by itself: beside it is noise still to come
        now = slice(start + place, start + place + 1)
        mixture = self._ahead[place]
        if place:
            recent = self._factors.mixture(now)[:, start : now.start]
            mixture = mixture + _product(recent, np.array(self._recent))[0]
        (fresh,) = self._innovations.draw(self._factors.fresh[now], rng)
        self._recent.append(fresh)
        return np.rint(mixture) + fresh

    def _begin_block(self, rng: np.random.Generator) -> None:
        block = slice(self._done, self._done + _MIXED_AT_ONCE)
        mixture = self._factors.mixture(block)
        if self._recent:
            self._drawn, self._recent = np.concatenate([self._drawn, self._recent]), []
        if draws_ahead(rng):
            drawn = self._innovations.draw(self._factors.fresh[block], rng)
            self._drawn = np.concatenate([self._drawn, drawn])
            self._ahead = np.rint(_product(mixture[:, : len(self._drawn)], self._drawn))
            self._ahead += drawn
        else:
            self._ahead = _product(mixture[:, : len(self._drawn)], self._drawn)


def _product(mixture: FloatArray, drawn: FloatArray) -> FloatArray:
    """Return the product of a matrix with tables, by columns so few that BLAS starts no threads.

    They would wait for each other in loops, which takes longer than the product.
    """
    columns = drawn.reshape(len(drawn), math.prod(drawn.shape[1:]))
    result = np.empty((len(mixture), columns.shape[1]))
    at_once = max(1, _ONE_THREAD // max(1, mixture.size))
    for start in range(0, columns.shape[1], at_once):
        part = slice(start, start + at_once)
        result[:, part] = mixture @ columns[:, part]
    return result.reshape(len(mixture), *drawn.shape[1:])


Factors = Factorisation | BufferedFactorisation


@lru_cache(maxsize=16)
def factorise(name: FactorisationName | LocalNoise, n: int) -> Factors:
    """Return a factorisation of the prefix sums of n batches.

    Parameters
    ----------
    name : {"auto", "square-root", "optimal", "tree", "independent", "buffered"}
        - ``"auto"``: the square root up to 1,000 batches, and buffered for more, so that what a
          stream keeps does not grow with it: by a public number, and within 1 %.
        - ``"square-root"``: B = C, Toeplitz with the coefficients of ``(1 − x)^(−1/2)``
          (Fichtenberger, Henzinger and Upadhyay, *Constant matters*, 2023): both norms grow like
          the square root of ``log(n) / π``. The last sum has less noise (`privrl.samplers.buffered`
          derives it).
        - ``"optimal"``: the least mean squared error over all sums, found numerically; a few
          percent better.
        - ``"tree"``: C sums the dyadic intervals, B picks the few that make up a prefix (Chan,
          Shi and Song; Dwork, Naor, Pitassi and Rothblum, 2010).
        - ``"independent"``: each batch has independent noise, C = 1: the least for a handful of
          batches, and the square root of n in the end.
        - ``"buffered"``: within 1 % of the square root, and a stream keeps two to six tables of
          noise in place of n (`privrl.samplers.buffered`). Up to a million batches.
        - `LocalNoise`: the same, times the root of the number of users.
    n : int
        How many batches, >= 1.

    Raises
    ------
    ValueError
        If the name is unknown, ``n`` no whole number of at least 1, or users are planned for
        another number of batches.
    """
    n = check_count("n", n)
    if name == "auto":
        name = "square-root" if n <= _LONG else "buffered"
    if name == "buffered":
        if n > _LARGEST_BUFFERED:
            raise ValueError(
                f"n must be at most {_LARGEST_BUFFERED:,}, got {n:,}; draw less often: a geometric "
                "schedule has a few hundred draws in a million episodes."
            )
        return BufferedFactorisation(n)
    if n > _LARGEST:
        raise ValueError(
            f"n must be at most {_LARGEST:,}, got {n:,}: the factors are matrices of n by n. Draw "
            "less often: a geometric schedule has a few hundred draws in a million episodes. Or "
            'take the factorisation "buffered".'
        )
    match name:
        case "square-root":
            return _square_root(n)
        case "optimal":
            return _optimal(n)
        case "tree":
            return _tree(n)
        case "independent":
            return Factorisation(np.tril(np.ones((n, n))), np.eye(n))
        case LocalNoise(users):
            if len(users) != n:
                raise ValueError(
                    f"users must be planned for each of {n} updates, got {len(users)} numbers."
                )
            return Factorisation(np.tril(np.ones((n, n))) * np.sqrt(users), np.eye(n))
    raise ValueError(
        f"factorisation must be one of {', '.join(map(repr, get_args(FactorisationName)))}, "
        f"got {shown(name)}."
    )


def _square_root(n: int) -> Factorisation:
    """Return the square root of the sums, with a last row of C that fills all columns.

    A last sum whose noise is a mixture of the others', and fresh noise, is derived in
    `privrl.samplers.buffered.BufferedFactorisation`; it holds for any Toeplitz C.
    """
    steps = np.arange(1, n)
    coefficients = np.concatenate([[1.0], np.cumprod((2 * steps - 1) / (2 * steps))])
    left = np.tril(coefficients[np.abs(np.subtract.outer(np.arange(n), np.arange(n)))])
    right, row = left.copy(), last_row(coefficients)
    right[-1], left[-1] = row, last_shares(coefficients, row) @ left
    left[-1, -1] = 1 / row[-1]
    return Factorisation(left, right)


def _optimal(n: int) -> Factorisation:
    """Minimise the sum of squares of B among factorisations whose columns of C have norm 1.

    With ``X = Cᵀ C`` it is ``tr(M / X)``, ``M = Aᵀ A``, which is convex in X, and the diagonal of
    X is 1. Its stationary point is ``X = D⁻¹ (D M D)^½ D⁻¹`` for a diagonal D that a fixed-point
    iteration finds (as in McKenna, Miklau, Hay and Machanavajjhala, *Optimizing error of
    high-dimensional statistical queries under differential privacy*, 2018). Any C with
    ``Cᵀ C = X`` is as good, so a lower triangular one is taken.
    """
    if n > _LARGEST_OPTIMAL:
        raise ValueError(
            f"n must be at most {_LARGEST_OPTIMAL} for the optimal factorisation, got {n}; "
            "the square root is within a few percent of it."
        )
    sums = np.tril(np.ones((n, n)))
    squares = sums.T @ sums
    weights = np.full(n, np.trace(squares) / n)
    for _ in range(1000):
        scale = np.sqrt(weights)
        root = _symmetric_root(scale[:, None] * squares * scale)
        last, weights = weights, np.diag(root).copy()
        if np.abs(weights / last - 1).max() < 1e-10:
            break
    scale = np.sqrt(weights)
    gram = root / scale[:, None] / scale
    right = np.linalg.cholesky(gram[::-1, ::-1]).T[::-1, ::-1]  # lower triangular, rightᵀ right
    left = linalg.solve_triangular(right.T, sums.T, lower=False).T
    return Factorisation(np.tril(left), right)


def _symmetric_root(matrix: FloatArray) -> FloatArray:
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def _tree(n: int) -> Factorisation:
    """Dyadic intervals, in the order in which they are complete."""
    ends = [
        (start + size, start)
        for size in (2**level for level in range(n.bit_length()))
        for start in range(0, n - size + 1, size)
    ]
    intervals = sorted(ends, key=lambda interval: (interval[0], -interval[1]))
    right = np.zeros((len(intervals), n))
    left = np.zeros((n, len(intervals)))
    place = {}
    for j, (end, start) in enumerate(intervals):
        right[j, start:end] = 1.0
        place[start, end] = j
    for t in range(n):
        start, rest = 0, t + 1
        while rest:
            size = 1 << (rest.bit_length() - 1)
            left[t, place[start, start + size]] = 1.0
            start, rest = start + size, rest - size
    used = left.any(axis=0)  # every other interval of a size is in no prefix
    return Factorisation(left[:, used], right[used])
