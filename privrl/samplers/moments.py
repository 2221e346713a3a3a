"""Noisy sums of bounded contributions, a batch at a time: one charge pays for all batches.

A contribution is a symmetric matrix and a vector of counts, of norm 1 at most together (Frobenius
and Euclidean). The matrix is an outer product of features, or a sum of some, so that it is positive
semidefinite; counts are not negative.

**Sensitivity** of a batch, in that norm:

======================  =============  ============================================================
replace a transition    2^.5           one contribution is replaced. The inner product of two
                                       contributions is not negative, so the square is 1 + 1
replace a step          8^.5           the replaced state, action and reward belong to two
                                       contributions: of the step before and of the step itself.
                                       Both are replaced. Their sum has norm 2 at most, before and
                                       after: 4 + 4
replace an episode      2^.5           an episode contributes once. Contributions are rounded
                                       entry by entry, which adds less than 3 parts in 1e4
======================  =============  ============================================================

Each episode is in one batch, so neighbours differ in one batch only. Each batch has independent
noise of the same size. Given earlier releases, what a batch is summed up to may depend on them: so
the releases of all batches together cost one Gaussian release, that of the batch that differs.
(It is the factorisation ``"independent"`` of `privrl.samplers.factorisations`.)

The upper triangle is released, with noise of deviation ``sigma`` on the diagonal and in the counts,
and of ``sigma / 2^.5`` off the diagonal: then the privacy loss of a change is that of one Gaussian
whose shift is the norm of the change over ``sigma``. Noise is discrete Gaussian on the grid of the
data (`privrl.numerics.discrete_gaussian.gaussian_on_grid`).
"""

import math
from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from privrl.accounting.calibration import calibrate
from privrl.accounting.targets import PureDP, RenyiDP, Target, ZeroConcentratedDP, check_target
from privrl.costs.noise import GaussianCost
from privrl.costs.relations import (
    NORMS,
    Relation,
    ReplaceEpisode,
    ReplaceStep,
    ReplaceTransition,
)
from privrl.files.fixed import fixed
from privrl.files.shown import shown
from privrl.numerics.checks import check_count, check_is, check_positive, check_rng
from privrl.numerics.discrete_gaussian import LARGEST_ON_GRID, gaussian_on_grid
from privrl.numerics.typing import BoolArray, FloatArray
from privrl.samplers.base import PaidOnce

GRAINS: Final = 2.0**24  # of a contribution of norm 1: data are whole numbers of them
_LARGEST: Final = 2.0**53  # grains, up to which sums are exact
_MOST_COLUMNS: Final = 3000  # the bound on rounding holds up to here


def relation_of_moments(relation: Relation) -> Relation:
    """Return by how much neighbours of an agent's relation change contributions, in norm.

    Raises
    ------
    ValueError
        If the relation is none of those that this module derives.
    """
    check_is("relation", relation, Relation)
    if type(relation) is ReplaceStep:
        square = 8.0
    elif type(relation) is ReplaceTransition:
        square = 2.0
    elif type(relation) is ReplaceEpisode:
        square = 2 + 4.5 * _MOST_COLUMNS / GRAINS
    else:
        raise ValueError(
            "relation must be ReplaceStep(), ReplaceTransition() or ReplaceEpisode(horizon) for "
            f"continuous states, got {shown(relation)}."
        )
    most = math.nextafter(math.sqrt(square), math.inf)
    return Relation(
        str(relation), {NORMS: [(most,), (-most,)]}, covers_arrival=True, norm_only=(NORMS,)
    )


@dataclass(frozen=True, eq=False)
class Moments:
    """What was released about one batch.

    Attributes
    ----------
    matrix : array, shape (D, D)
        The symmetric sum, with its noise, in contributions.
    counts : array, shape (q,)
    noise : float
        Deviation of the noise on the diagonal and in the counts; off the diagonal it is that over
        the root of 2.
    """

    matrix: FloatArray
    counts: FloatArray
    noise: float


class MomentSampler(PaidOnce):
    """Noisy sums of matrices and counts; the first update pays for all.

    Parameters
    ----------
    sigma : float
        Deviation of the noise, in contributions of norm 1, > 0; larger is more private.
    updates : int
        How many updates there may be.
    columns, cells : int
        The size D of the matrix and the number q of counts.
    relation : Relation
        Of the agent: `ReplaceStep`, `ReplaceTransition` or `ReplaceEpisode`.

    Raises
    ------
    ValueError
        If an argument is out of range, or noise of this size cannot be drawn.
    """

    settings = ("sigma",)
    sigma: float = fixed()
    updates: int = fixed()
    columns: int = fixed()
    cells: int = fixed()

    def __init__(
        self, *, sigma: float, updates: int, columns: int, cells: int, relation: Relation
    ) -> None:
        self.sigma = check_positive("sigma", sigma, "larger means more privacy")
        if sigma * GRAINS > LARGEST_ON_GRID:
            raise ValueError(
                f"sigma must be at most 2**22, got {shown(sigma)}; take a larger budget."
            )
        self.updates = check_count("updates", updates)
        self.columns = check_count("columns", columns, 1, _MOST_COLUMNS)
        self.cells = check_count("cells", cells)
        self._cost = GaussianCost(sigma=sigma, relation=relation_of_moments(relation), table=NORMS)
        self._forget()

    def __repr__(self) -> str:  # of nothing private
        return f"MomentSampler(sigma={self.sigma}, updates={self.updates})"

    @classmethod
    def calibrated(
        cls, target: Target, *, updates: int, columns: int, cells: int, relation: Relation
    ) -> Self:
        """Return the sampler with the least noise whose updates together meet a target.

        Raises
        ------
        ValueError
            If the target cannot be met by Gaussian noise, or the relation is another.
        """
        check_target(target)
        if isinstance(target, PureDP):
            raise ValueError("delta must be > 0: Gaussian noise has no pure epsilon, got 0.")
        if isinstance(target, ZeroConcentratedDP):
            # The divergence of order a is a times rho, at every order: any one will do.
            target = RenyiDP(2.0, 2 * target.rho * (1 - 1e-9))
        changes = relation_of_moments(relation)

        def cost(size: float) -> GaussianCost:
            return GaussianCost(sigma=size, relation=changes, table=NORMS)

        sigma = calibrate(target, cost, rises=False)
        return cls(sigma=sigma, updates=updates, columns=columns, cells=cells, relation=relation)

    @property
    def doubled(self) -> BoolArray:
        """Which numbers of a batch stand for two entries: those off the diagonal, shape (size,).

        Their noise has half of the variance, so the squares of their changes count twice.
        """
        above = np.subtract(*np.triu_indices(self.columns)) != 0
        return np.concatenate([above, np.zeros(self.cells, np.bool_)])

    @property
    def size(self) -> int:
        """How many numbers a batch has: the upper triangle, row by row, and the counts."""
        return self.columns * (self.columns + 1) // 2 + self.cells

    def check(self, counts: FloatArray) -> None:
        """Check a batch, shape (size,), in contributions: whole multiples of 2^-24.

        Raises
        ------
        ValueError
            If the sampler cannot take it.
        """
        self.check_usable()
        if self._done >= self.updates:
            raise ValueError(f"updates must be at most {self.updates}, which are all done.")
        if counts.shape != (self.size,):
            raise ValueError(f"counts must have shape {(self.size,)}, got {counts.shape}.")
        grains = counts * GRAINS
        if not ((grains == np.rint(grains)).all() and (np.abs(grains) <= _LARGEST).all()):
            raise ValueError("counts must be multiples of 2**-24, of which sums are exact.")

    def update(self, counts: FloatArray, rng: np.random.Generator) -> Moments:
        """Release the noisy sums of a batch; call it through `privrl.samplers.draw`."""
        self.check(counts)
        check_rng(rng)
        self._invalid = True
        released = self._released(counts, rng)
        self._done += 1
        self._invalid = False
        return released

    def _released(self, counts: FloatArray, rng: np.random.Generator) -> Moments:
        n, grains = self.columns, self.sigma * GRAINS
        upper = np.triu_indices(n)
        noise, beside = np.empty(self.size), self.doubled
        apart = int(beside.sum())
        noise[beside] = gaussian_on_grid(grains / math.sqrt(2), apart, rng)
        noise[~beside] = gaussian_on_grid(grains, self.size - apart, rng)
        noisy = counts + noise / GRAINS
        matrix = np.zeros((n, n))
        matrix[upper] = noisy[: len(upper[0])]
        matrix += np.triu(matrix, 1).T
        return Moments(matrix, noisy[len(upper[0]) :], self.sigma)
