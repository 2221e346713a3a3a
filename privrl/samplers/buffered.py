"""Noise whose memory is a few tables, however many sums of a stream are released.

The square root of the prefix sums, Toeplitz with the coefficients of ``(1 − x)^(−1/2)``, mixes
every noise into all later sums, and so all of it has to be kept. A few geometric sequences are
nearly that one, and what they mix follows from step to step: ``y ← rate · y + z`` (Dvijotham,
McMahan, Pillutla, Steinke and Thakurta, *Efficient and near-optimal noise generation for streaming
differential privacy*, 2024, who call it a buffered linear Toeplitz matrix).

The norm of C is that of its first column, and later columns are shorter. The last sum spends what
they leave: its row of C fills every column up to that norm. Other sums have the noise of the
Toeplitz factors, and the last of 40 has a quarter less than it would (a deviation of 1.66 for
2.24).
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from privrl.files.fixed import FixedArrays
from privrl.numerics.scipy_lazily import linalg, special
from privrl.numerics.special import FloatArray
from privrl.samplers.innovations import FARTHEST, FINENESS, Innovations, draws_ahead

_AT_ONCE = 2**14  # cells that are worked on at a time, in cache
#: Relative: more than rounding can take from the norm of a million coefficients.
_ROUNDED_AWAY = 2.0**-32


@dataclass(frozen=True, eq=False)
class BufferedFactorisation(FixedArrays):
    """A factorisation ``A = B C`` of the prefix sums of n batches, Toeplitz but for the last row.

    The coefficients of B are ``B₀ = direct + Σ weights`` and, from the first on,
    ``B_k = Σ weights · rates^k``; those of C are what makes ``B C = A``, exactly.

    The last sum's noise is ``Σ_i h_i M_i + z / r_{n−1}``, for the noise ``M_i`` in the sums before
    it, fresh standard noise z, and the ``h_i`` of `shares`. Given the sums before, releasing it is
    the same as releasing ``S_{n−1} − Σ_i h_i S_i`` with noise ``z / r_{n−1}``. A change of 1 in
    batch j changes that by ``1 − Σ_{i≥j} h_i = r_j / r_{n−1}``, so the last row of C is r. With
    ``r_j² = Σ_{k≥n−1−j} C_k²``, what column j of the Toeplitz C has less than its first one, all
    columns have the norm of the first.

    Parameters
    ----------
    updates : int
        The number n of batches, >= 1.

    Notes
    -----
    With ``t = √m sc(u | 1 − m)``, a Jacobian elliptic function, the integrand of

        ``z^(−1/2) = (2/π) ∫ dt / (z + t²)``,  t from 0 to infinity,

    is a periodic function of u that the midpoint rule integrates exponentially well for all z from
    m to 1 (Hale, Higham and Trefethen, *Computing A^α, log(A), and related matrix functions by
    contour integrals*, 2008). With an odd number of points, counted from −K to K, the last is
    ``t = ∞`` and leaves a constant. Each of the others is a geometric sequence in ``x = 1 − z``;
    m is ``3/2n``, as sums of n coefficients see no finer. One buffer for n up to 10 and one more
    for each factor of ``10^(3/2)`` keep the largest deviation and the root of the mean square
    within 1 % of the square root's. A search over rates and weights improves the largest by less
    than a fifth of that.
    """

    updates: int

    @cached_property
    def _sequences(self) -> tuple[FloatArray, FloatArray, float]:
        """The rates, the weights and the constant."""
        buffers = 1 + max(0, math.ceil((2 * math.log10(self.updates) - 2) / 3))
        least = min(1.5 / self.updates, 1.0)
        quarter = float(special.ellipkm1(least))
        step = quarter / (buffers + 0.5)
        sn, cn, dn, _ = special.ellipj((np.arange(buffers) + 0.5) * step, 1 - least)
        rates = 1 / (1 + least * (sn / cn) ** 2)
        weights = 2 / np.pi * step * np.sqrt(least) * dn / cn**2 * rates
        return _frozen(rates), _frozen(weights), step / np.pi

    @property
    def rates(self) -> FloatArray:
        """What is left of each buffer after a step, in 0..1, one for each buffer."""
        return self._sequences[0]

    @property
    def weights(self) -> FloatArray:
        """How much of each buffer is in a sum, > 0."""
        return self._sequences[1]

    @property
    def direct(self) -> float:
        """How much of a step's own noise is in its sum, beside what the buffers have of it."""
        return self._sequences[2]

    @cached_property
    def _left(self) -> FloatArray:
        """Coefficients of B, shape (n,)."""
        steps = np.arange(self.updates)
        parts = (w * r**steps for w, r in zip(self.weights, self.rates, strict=True))
        coefficients = sum(parts, start=np.zeros(self.updates))
        coefficients[0] += self.direct
        return _frozen(coefficients)

    @cached_property
    def _right(self) -> FloatArray:
        """Coefficients of C, shape (n,): the series of which B's makes 1 + x + x² + …."""
        pairs = list(zip(self.weights.tolist(), self.rates.tolist(), strict=True))
        first = self.direct + sum(weight for weight, _ in pairs)
        kept, coefficients = [0.0] * len(pairs), []
        for _ in range(self.updates):
            # By steps like those of the noise: no rounding error grows.
            now = (1 - sum(kept)) / first
            coefficients.append(now)
            kept = [
                rate * (y + weight * now) for y, (weight, rate) in zip(kept, pairs, strict=True)
            ]
        return _frozen(np.array(coefficients))

    @cached_property
    def _last_right(self) -> FloatArray:
        """The last row r of C, shape (n,)."""
        return _frozen(last_row(self._right))

    @cached_property
    def shares(self) -> FloatArray:
        """How much of the noise in each sum is in the last one, shape (n,); 0 of its own."""
        return _frozen(last_shares(self._right, self._last_right))

    @cached_property
    def _last_left(self) -> FloatArray:
        """The last row of B, shape (n,): shares of the other rows, and fresh noise."""
        # The correlation of shares and coefficients, exact enough for what is only looked at.
        size = 2 * self.updates
        shares, coefficients = np.fft.rfft([self.shares[::-1], self._left], size)
        row = np.fft.irfft(shares * coefficients, size)[self.updates - 1 :: -1]
        return _frozen(np.append(row[:-1], 1 / self._last_right[-1]))

    @property
    def left(self) -> FloatArray:
        """The factor B, shape (n, n), to look at: it is n² numbers, and no release needs it."""
        return self._matrix(self._left, self._last_left)

    @property
    def right(self) -> FloatArray:
        """The factor C, likewise."""
        return self._matrix(self._right, self._last_right)

    def _matrix(self, coefficients: FloatArray, last: FloatArray) -> FloatArray:
        matrix = np.tril(linalg.toeplitz(coefficients))
        matrix[-1] = last
        return _frozen(matrix)

    @cached_property
    def column_norm(self) -> float:
        """Largest Euclidean norm of a column of C, that of all of them, rounded upwards."""
        return float(np.sqrt((self._right**2).sum())) * (1 + _ROUNDED_AWAY)

    @cached_property
    def deviations(self) -> FloatArray:
        """See `privrl.samplers.factorisations.Factorisation.deviations`."""
        squares = np.cumsum(self._left**2)
        squares[-1] = (self._last_left**2).sum()
        return _frozen(self.column_norm * np.sqrt(squares))

    @cached_property
    def fresh(self) -> FloatArray:
        """The diagonal of B, shape (n,): how loud the fresh noise in each sum is."""
        fresh = np.full(self.updates, self._left[0])
        fresh[-1] = self._last_left[-1]
        return _frozen(fresh)

    @cached_property
    def entering(self) -> FloatArray:
        """How much of a step's fresh noise is in each buffer."""
        return _frozen(self.weights / self._left[0])

    @cached_property
    def rounding(self) -> float:
        """See `privrl.samplers.factorisations.Factorisation.rounding`.

        In a step a buffer is multiplied and added to, off by less than four roundings of its
        largest value, which is that of its deviation. Errors are filtered as noise is: the
        inverse of B takes those of a buffer to ``C (1 − x) / (1 − rate x)`` of them, whose
        coefficients sum to less than twice those of C. The sum of the buffers is rounded as well,
        and then to half a grain, of which it takes 2 at the most.

        The last sum takes shares of the noise as it is, rounded, in the sums before it, so that
        the inverse takes r's last entry of its own error alone: a product and an addition for each
        sum, and half a grain.
        """
        n, roundoff = self.updates, 2.0**-53 * FARTHEST
        sizes = self.entering * (1 + 1 / np.sqrt(1 - self.rates**2))
        coefficients = float(self._right.sum()) * float(self._left[0])
        filtered = 2 * coefficients * 4 * roundoff * float(sizes.sum())
        at_once = 2 * (len(sizes) * roundoff * float(sizes.sum()) + FINENESS / 2)
        longest = math.sqrt(float((self._left**2).sum()))
        own = (n + 1) * roundoff * longest + FINENESS / 2 * float(self._left[0])
        last = float(self._last_right[-1]) * own
        return 2.01 * math.hypot(math.sqrt(n) * (filtered + at_once), last)

    def noise(self, innovations: Innovations) -> "Buffers":
        """Return the noise of a stream of sums, made of its fresh noises."""
        return Buffers(self, innovations)


def last_row(coefficients: FloatArray) -> FloatArray:
    """Return the last row of C, shape (n,), for the coefficients of a Toeplitz C.

    With it all columns have the norm of the first.
    """
    return np.sqrt(np.cumsum(coefficients[::-1] ** 2))


def last_shares(coefficients: FloatArray, row: FloatArray) -> FloatArray:
    """Return how much of the noise in each sum is in the last one, shape (n,); 0 of its own."""
    # Differences of the row, without cancellation.
    steps = coefficients[-2::-1] ** 2 / (row[1:] + row[:-1])
    return np.append(steps / row[-1], 0.0)


class Buffers:
    """The noise in the sums of one stream, from one to the next.

    It keeps a table for each buffer, and one for the last sum.
    """

    remembered = ("_left", "_buffers", "_shared", "_ahead")

    def __init__(self, factors: BufferedFactorisation, innovations: Innovations) -> None:
        self._factors, self._innovations, self._left = factors, innovations, factors.updates
        cells = math.prod(innovations.shape)
        self._buffers = np.zeros((len(factors.rates), cells))
        self._shared = np.zeros(cells)  # in the last sum, of the noise so far
        # Updates whose fresh noise is drawn ahead: as many as a row would draw by itself.
        self._at_once = max(1, _AT_ONCE * innovations.grain.size // max(cells, 1))
        self._ahead: list[FloatArray] = []

    def next(self, rng: np.random.Generator) -> FloatArray:
        """Return a new table: the noise in the next sum, in whole grains."""
        factors, done = self._factors, self._factors.updates - self._left
        if not self._ahead:
            alike = max(1, self._left - 1)  # the last is less loud
            number = min(self._at_once, alike) if draws_ahead(rng) else 1
            drawn = self._innovations.draw(factors.fresh[done : done + number], rng)
            # Each by itself: next to what is released is no noise that is still to come.
            self._ahead = [drawn[0]] if number == 1 else [each.copy() for each in drawn[::-1]]
        noise, self._left = self._ahead.pop(), self._left - 1
        flat = noise.reshape(-1)
        for start in range(0, flat.size, _AT_ONCE):
            cells = slice(start, start + _AT_ONCE)
            kept, shared, fresh = self._buffers[:, cells], self._shared[cells], flat[cells]
            if not self._left:
                fresh += np.rint(shared)
                continue
            kept *= factors.rates[:, None]
            older = kept.sum(axis=0)
            kept += factors.entering[:, None] * fresh
            fresh += np.rint(older, out=older)
            shared += np.multiply(fresh, factors.shares[done], out=older)
        return noise


def _frozen(values: FloatArray) -> FloatArray:
    values.flags.writeable = False  # shared by all samplers of a size
    return values
