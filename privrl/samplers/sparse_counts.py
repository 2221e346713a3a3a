"""A sampler for large tables: only cells appear whose noisy count is above a threshold.

The release of a batch is that of Gaussian noise on *every* cell, of which all cells below a
threshold are dropped. That is post-processing of one Gaussian mechanism, so the threshold costs
nothing: no delta, under any relation and any budget that takes Gaussian noise. Most cells are
empty, and few of these pass. Which ones, and with what noise, is drawn exactly without drawing the
others (`privrl.numerics.far_noise`), so time and memory grow with the cells that are filled.

Noise on filled cells alone (Korolova, Kenthapadi, Mishra and Ntoulas, *Releasing search queries and
clicks privately*, 2009; Wilkins, Kifer, Zhang and Karrer, *Exact privacy analysis of the Gaussian
sparse histogram mechanism*, 2024) is for tables whose cells cannot be listed. It costs delta where
a neighbour fills an empty cell, and its threshold must be higher.

**Proof.** Take the release of one batch as a function of noise: cell by cell, ``x + z`` where it is
at least the threshold and nothing elsewhere. Filled cells, and all damped ones, are drawn so. Of an
empty cell the law is that of z alone: `privrl.numerics.far_noise.far_cells` draws independently for
each cell whether ``z`` is at least the threshold and if so its value, with the probabilities of
`privrl.numerics.discrete_gaussian.gaussian_on_grid` up to a factor ``exp(±1e-341)``. So the law
of what appears is that of a function of `gaussian_on_grid` noise on the whole table, which hides
whole shifts as the Gaussian mechanism does. A neighbour changes one batch, and each batch has
independent noise: the stream costs one Gaussian mechanism. Batches that wait are added up exactly
and released with the next, as one batch.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Self

import numpy as np

from privrl.accounting.targets import Target
from privrl.costs.noise import GaussianCost
from privrl.costs.relations import DAMPED, Relation, ReplaceStep, check_relation
from privrl.files.fixed import FixedArrays
from privrl.files.shown import shown
from privrl.numerics.cells import Cells
from privrl.numerics.checks import check_count, check_positive, check_rng
from privrl.numerics.discrete_gaussian import gaussian_on_grid, on_grid
from privrl.numerics.far_noise import LEAST_THRESHOLD, far_cells
from privrl.numerics.special import FloatArray
from privrl.numerics.typing import BoolArray, IntArray
from privrl.samplers.base import GRID, PaidOnce, check_batch, frozen
from privrl.samplers.innovations import LARGEST_DEVIATION
from privrl.samplers.noisy_counts import NoisyPosterior, calibrated_sigma

_EMPTY = 4.0  # empty cells of a row that appear in a release, on average
_EMPTY_IN_ALL = 1e5  # and of a table, if that is more
_MOST = 2.0**26  # cells that appear in a release, and damped ones: gigabytes soon after
_ROOT_2 = math.nextafter(math.sqrt(2.0), 2)  # never below the root of 2


@dataclass(frozen=True, eq=False)
class SparsePosterior(FixedArrays):
    """The released cells of a large table, and the posterior that follows from them.

    Attributes
    ----------
    shape : tuple of int
        Shape of the table.
    counts : tuple of Cells
        The noisy counts of each release.
    evidence : tuple of arrays
        The same in standard deviations of their noise.
    threshold : float
        How many deviations each of them has at least.
    alpha : float
        Prior pseudo-count of every cell.
    """

    shape: tuple[int, ...]
    counts: tuple[Cells, ...]
    evidence: tuple[FloatArray, ...]
    threshold: float
    alpha: float

    @property
    def mean(self) -> FloatArray:
        """Expected probabilities, shape (..., K), of the whole table."""
        return self._dense.mean

    def sample(self, rng: np.random.Generator) -> FloatArray:
        """Return fresh probabilities, shape (..., K), of the whole table."""
        return self._dense.sample(rng)

    @property
    def _dense(self) -> NoisyPosterior:
        table = sum((each.table for each in self.counts), start=np.zeros(self.shape))
        one = np.ones((1,) * table.ndim)
        return NoisyPosterior(table, 0 * one, self.alpha * one)


class SparseCounts(PaidOnce):
    """The cells of a large table of counts whose noisy counts are above a threshold.

    It costs as much as `NoisyCounts` with the same sigma, and takes `Cells` as well as arrays.

    Parameters
    ----------
    sigma : float
        Standard deviation of the noise in each release. The stream costs
        ``GaussianCost(sigma=sigma, …)``, all of it at the first update.
    releases : sequence of int
        The updates that release, counted from 0, in order; a public choice. Other updates return
        the previous posterior, and their counts wait for the next release. The last one is the last
        update. Each release is of the batches since the one before, so let each have about as much
        data as all before it: `halvings`.
    alpha : float
        Prior pseudo-count of every cell, > 0.
    relation : Relation
        Which data sets are neighbours; by default `ReplaceStep`. A neighbour changes one batch
        only.
    table : str, optional
        The relation's table that is counted; by default its first. If it is
        `privrl.costs.relations.DAMPED`, counts have shape (..., S, A, K), the first S of K cells
        are states, and self-loops get √2 times the noise.

    Raises
    ------
    ValueError
        If a number is out of range, or a name unknown.
    """

    remembered = ("_waiting", "_released")
    released_as = (SparsePosterior, Cells)
    settings = ("sigma", "alpha")
    takes_cells = True

    def __init__(
        self,
        *,
        sigma: float,
        releases: Sequence[int],
        alpha: float = 1.0,
        relation: Relation | None = None,
        table: str | None = None,
    ) -> None:
        relation = check_relation(relation, ReplaceStep())
        cost = GaussianCost(sigma=sigma, relation=relation, table=table)
        self._cost = cost
        self._sigma = frozen(np.asarray(cost.sigma))
        if not cost.sigma <= LARGEST_DEVIATION:
            raise ValueError(
                f"sigma must be at most {LARGEST_DEVIATION:.3g}, got {shown(cost.sigma)}: noise is "
                "drawn on the grid of counts; take a larger budget."
            )
        self._alpha = frozen(np.asarray(check_positive("alpha", alpha)))
        self._releases = tuple(check_count("releases", each, least=0) for each in releases)
        if not self._releases or list(self._releases) != sorted(set(self._releases)):
            raise ValueError(
                f"releases must be rising numbers of updates, at least one, got {shown(releases)}; "
                "the last one is the last update."
            )
        self._damps = cost.table == DAMPED
        self._forget()

    def _forget(self) -> None:
        super()._forget()
        self._waiting: Cells | None = None
        self._released: SparsePosterior | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(sigma={self.sigma}, releases={self._releases})"

    @property
    def damps(self) -> bool:
        """Whether self-loops get √2 times the noise."""
        return self._damps

    @property
    def sigma(self) -> FloatArray:
        """Standard deviation of the noise in each release."""
        return self._sigma

    @property
    def updates(self) -> int:
        """How many updates there can be."""
        return self._releases[-1] + 1

    @property
    def loops(self) -> BoolArray | None:
        """The cells with √2 times the noise, in the shape of the counts, once it is known."""
        if not self.damps or self._waiting is None:
            return None
        mask = np.zeros(self._waiting.size, np.bool_)
        mask[_loops(self._waiting.shape)] = True
        return mask.reshape(self._waiting.shape)

    def check(self, counts: FloatArray | Cells) -> None:
        """Check a batch of counts, shape (..., K).

        Raises
        ------
        ValueError
            As `privrl.samplers.base.check_batch` does, if all planned updates have been made, or if
            self-loops are damped and the shape is not that of a table of transitions.
        """
        self.check_usable()
        self._check_left("releases", self.updates)
        before = None if self._waiting is None else self._waiting.shape
        if not isinstance(counts, Cells):
            check_batch(counts, (), before)
        elif before is not None and counts.shape != before:
            raise ValueError(
                f"counts must have the shape of the previous batches, {before}, got {counts.shape}."
            )
        new = Cells.of(counts)
        shape = new.shape
        if self.damps and not (len(shape) >= 3 and shape[-1] >= shape[-3]):
            raise ValueError(
                "counts must be of transitions, shape (..., states, actions, next states), where "
                f"self-loops are damped, got {shape}."
            )
        if not new.size:
            raise ValueError(f"counts must be of a table with cells, got shape {shape}.")
        drawn = math.prod(shape) * _far(shape) + math.prod(shape[:-1]) * self.damps
        if drawn > _MOST:
            raise ValueError(
                f"counts must be of a smaller table, got shape {shape}: noise alone fills about "
                f"{drawn:.2g} cells of it."
            )
        check_batch(new.amounts, (), None)
        if self._waiting is not None:
            check_batch(self._waiting.plus(new).amounts, (), None)

    def update(self, counts: FloatArray | Cells, rng: np.random.Generator) -> SparsePosterior:
        """Add a batch of counts, shape (..., K), and release it if it is time."""
        self.check(counts)
        check_rng(rng)
        new = Cells.of(counts)
        nothing = Cells(new.shape, np.empty(0, np.intp), np.empty(0))
        waiting = new if self._waiting is None else self._waiting.plus(new)
        released = self._released
        if released is None:
            threshold = threshold_of(new.shape)
            released = SparsePosterior(new.shape, (), (), threshold, float(self._alpha))
        if self._done in self._releases:
            noisy, evidence = self._release(waiting, rng)
            released = replace(
                released, counts=(*released.counts, noisy), evidence=(*released.evidence, evidence)
            )
            waiting = nothing
        # Only now: a failed update leaves the sampler as it was.
        self._waiting, self._released = waiting, released
        self._done += 1
        return released

    def _release(self, batch: Cells, rng: np.random.Generator) -> tuple[Cells, FloatArray]:
        """Return the noisy counts above the threshold, and how many deviations they are."""
        sigma = float(self._sigma) / GRID
        threshold = threshold_of(batch.shape)
        counts = batch.amounts / GRID  # whole
        louder = _loops(batch.shape) if self.damps else np.empty(0, np.intp)
        quiet = ~_are_in(batch.places, louder)
        places = batch.places[quiet]
        parts = [_above(places, counts[quiet], sigma, threshold, rng)]
        least = math.ceil(threshold * on_grid(sigma))
        far, noise = far_cells(sigma, least, batch.size, rng)
        empty = ~(_are_in(far, places) | _are_in(far, louder))
        parts.append((far[empty], noise[empty], noise[empty] / on_grid(sigma)))
        filled = np.zeros(len(louder))
        filled[np.searchsorted(louder, batch.places[~quiet])] = counts[~quiet]
        parts.append(_above(louder, filled, sigma * _ROOT_2, threshold, rng))
        where, noisy, evidence = (np.concatenate(each) for each in zip(*parts, strict=True))
        order = np.argsort(where)
        return Cells(batch.shape, where[order], noisy[order] * GRID), frozen(evidence[order])

    @classmethod
    def calibrated(
        cls,
        target: Target,
        *,
        draws: int,
        alpha: float = 1.0,
        relation: Relation | None = None,
        table: str | None = None,
        users: Sequence[int] | None = None,
    ) -> Self:
        """Return the sampler whose ``draws`` updates together just meet ``target``.

        ``users`` says how much data each batch has, by default equally much, and `halvings` which
        updates release. The other arguments are those of the class.

        Raises
        ------
        ValueError
            If an argument is out of range, or the target cannot be met.
        """
        relation = check_relation(relation, ReplaceStep())
        draws = check_count("draws", draws)
        users = (1,) * draws if users is None else users
        users = [check_count("users", each, least=0) for each in users]
        if len(users) != draws:
            raise ValueError(
                f"users must be {draws} numbers, one for each draw, got {len(users)} of them."
            )
        return cls(
            sigma=calibrated_sigma(target, relation, table),
            releases=halvings(users),
            alpha=alpha,
            relation=relation,
            table=table,
        )


def halvings(users: Sequence[int]) -> tuple[int, ...]:
    """Return the updates that release: the last one, and at most half of its data before it, etc.

    Parameters
    ----------
    users : sequence of int
        How much data each batch has, >= 0.
    """
    data = np.cumsum(users)
    chosen = [len(data) - 1]
    while data[chosen[-1]] > 0:
        before = int(np.searchsorted(2 * data, data[chosen[-1]], side="right")) - 1
        if before < 0 or data[before] == 0:
            break
        chosen.append(before)
    return tuple(reversed(chosen))


def threshold_of(shape: tuple[int, ...]) -> float:
    """Return the threshold, in deviations, for a table, shape (..., K)."""
    return max(LEAST_THRESHOLD + 1e-9, NormalDist().inv_cdf(1 - _far(shape)))


def _far(shape: tuple[int, ...]) -> float:
    """Return the part of empty cells that appear."""
    return min(max(_EMPTY / shape[-1], _EMPTY_IN_ALL / math.prod(shape)), 0.5)


def _loops(shape: tuple[int, ...]) -> IntArray:
    """Return the places of self-loops in a table of transitions, shape (..., S, A, K), sorted."""
    rows = np.arange(math.prod(shape[:-1]))
    return rows * shape[-1] + rows // shape[-2] % shape[-3]


def _are_in(places: IntArray, others: IntArray) -> BoolArray:
    """Return which places are among others; both are sorted."""
    at = np.searchsorted(others, places)
    at[at == len(others)] = 0
    return others[at] == places if len(others) else np.zeros(len(places), np.bool_)


def _above(
    places: IntArray, counts: FloatArray, sigma: float, threshold: float, rng: np.random.Generator
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return the cells whose count with noise is above a threshold: place, count and deviations."""
    noisy = counts + gaussian_on_grid(sigma, len(places), rng)
    above = noisy >= math.ceil(threshold * on_grid(sigma))
    return places[above], noisy[above], noisy[above] / on_grid(sigma)
