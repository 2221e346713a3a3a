"""Noisy sums of outer products: the statistics that continuous models are made of.

A row of the log is a vector ``z``: features, and what they are to predict. A person contributes the
sum of ``z z^T`` over their rows, divided by its Frobenius norm, so that it has norm 1 whatever
their rows are. (A person's weight in a regression changes with that, and its solution does not, if
the model is right.) Entries are rounded towards zero to whole multiples of 2^-24 of a person, so
sums are exact in any order.

**Sensitivity**, in Frobenius norm, for a whole budget:

========================  =========  ======================================================
add or remove a person    1          the norm of one contribution
replace a person          2^.5       both contributions are positive semidefinite, so their inner
                                     product is not negative; rounding adds less than 3 parts in 1e4
replace a step            8^.5       each step contributes by itself; the replaced state belongs to
                                     two rows, before and after, which sum to norm 2 at most
========================  =========  ======================================================

The matrix is symmetric, and its upper triangle is released: with noise of deviation ``sigma`` on
the diagonal and of ``sigma / 2^.5`` off it, the privacy loss of a change is that of one Gaussian
whose shift is the Frobenius norm over ``sigma``. Noise is discrete Gaussian on the grid, which
hides as much as Gaussian noise on the line (`privrl.numerics.discrete_gaussian.gaussian_on_grid`).

Releases of one stream scale contributions so that the squared norms of all releases sum to 1.
Their number and contents may depend on earlier releases (Smith and Thakurta, *Fully adaptive
composition for Gaussian differential privacy*, 2022), and the whole costs one Gaussian release.
"""

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, NoReturn, Self

import numpy as np

from privrl.accounting import releases
from privrl.accounting.base import Accountant
from privrl.accounting.calibration import calibrate
from privrl.accounting.targets import PureDP, RenyiDP, Target, ZeroConcentratedDP, check_target
from privrl.continuous.log import ContinuousLog
from privrl.continuous.partitions import AnyLog, PartitionedContinuousLog, of_each_part
from privrl.costs.base import NoPrivacy
from privrl.costs.noise import GaussianCost
from privrl.costs.relations import (
    NORMS,
    AddRemovePerson,
    Relation,
    ReplaceLoggedStep,
    ReplacePerson,
    of_unit,
)
from privrl.files.chosen import check_paid, trial_behind, trial_now
from privrl.files.fixed import fixed
from privrl.files.shown import shown
from privrl.numerics.checks import check_is, check_positive
from privrl.numerics.discrete_gaussian import LARGEST_ON_GRID, gaussian_on_grid
from privrl.numerics.processes import this_process
from privrl.numerics.randomness import Rng, as_rng
from privrl.numerics.typing import FloatArray, IntArray

GRAINS: Final = 2.0**24  # of a person
_LARGEST: Final = 3000  # columns of a row: the bound on rounding holds up to here
_AT_ONCE: Final = 1 << 14  # rows: arrays of more do not fit a cache
_CELLS: Final = 1 << 19  # of contributions that are in memory at once
_TOGETHER: Final = 1 << 12  # squares that are added up at once

Rows = Callable[[ContinuousLog], FloatArray]
"""From a part of a log to its rows ``z``, shape (n_rows, D)."""
_Add = Callable[[FloatArray, float, IntArray], FloatArray]


@dataclass(frozen=True, kw_only=True)
class MomentsMechanism:
    """Noise for sums of outer products, and what it costs.

    Parameters
    ----------
    sigma : float
        Deviation of the noise, in contributions of norm 1, > 0; larger is more private.
    relation : Relation
        `AddRemovePerson`, `ReplacePerson` or `ReplaceLoggedStep`.

    Raises
    ------
    ValueError
        If an argument is out of range, or noise of this size cannot be drawn.
    """

    sigma: float
    relation: Relation = field(default_factory=AddRemovePerson)

    def __post_init__(self) -> None:
        check_positive("sigma", self.sigma, "larger means more privacy")
        if self.sigma * GRAINS > LARGEST_ON_GRID:
            raise ValueError(f"sigma must be at most 2**22, got {shown(self.sigma)}.")
        sensitivity(self.relation)

    @property
    def cost(self) -> GaussianCost:
        """The cost of a whole stream of releases."""
        unit = sensitivity(self.relation)
        listed = max(abs(m) for vector in self.relation.changes(NORMS) for m in vector)
        sigma = math.nextafter(self.sigma / unit * listed, 0)
        return GaussianCost(sigma=sigma, relation=self.relation, table=NORMS)

    @classmethod
    def calibrated(cls, target: Target, *, relation: Relation | None = None) -> Self:
        """Return the mechanism with the least noise that meets a target.

        Raises
        ------
        ValueError
            If the target cannot be met by Gaussian noise, or the relation is another.
        """
        relation = AddRemovePerson() if relation is None else relation
        check_target(target)
        unit = sensitivity(relation)

        def cost(size: float) -> GaussianCost:
            return cls(sigma=size * unit, relation=relation).cost

        if isinstance(target, PureDP):
            raise ValueError("target must allow a delta: Gaussian noise has no pure epsilon.")
        if isinstance(target, ZeroConcentratedDP):
            # The divergence of order a is a times rho, at every order: any one will do.
            target = RenyiDP(2.0, 2 * target.rho * (1 - 1e-9))
        return cls(sigma=calibrate(target, cost, rises=False) * unit, relation=relation)


def sensitivity(relation: Relation) -> float:
    """Return by how much the contributions of neighbours differ, in Frobenius norm, rounded up.

    Raises
    ------
    ValueError
        If the relation is none of those that this module derives.
    """
    kind = type(relation)  # a subclass may list other changes
    if kind is AddRemovePerson:
        return 1.0
    if kind is ReplacePerson:
        # Two matrices of norm 1 at most, rounded: the inner product is not below -2 D / GRAINS.
        return math.nextafter(math.sqrt(2 + 4.5 * _LARGEST / GRAINS), math.inf)
    if kind is ReplaceLoggedStep:
        return math.nextafter(math.sqrt(8), math.inf)
    raise ValueError(
        "relation must be AddRemovePerson(), ReplacePerson() or ReplaceLoggedStep(), got "
        f"{shown(relation)}."
    )


def most_columns(share: float) -> int:
    """Return how many columns a row may have: contributions shrink with a share, grains do not."""
    return math.floor(_LARGEST * math.sqrt(min(share, 1.0)))


class MomentStream:
    """Noisy sums of outer products about the persons of a log, from one budget.

    Parameters
    ----------
    log : ContinuousLog or PartitionedContinuousLog
        The private data.
    mechanism : MomentsMechanism or None
        The noise of a release of a whole budget; None for no privacy.
    rng : numpy.random.Generator, int or None
        Where the randomness comes from.
    accountant : Accountant, optional
        Is charged once, before anything leaves.

    Raises
    ------
    BudgetExceeded
        If the accountant's budget does not cover the cost.
    ValueError
        If an argument is out of range; nothing is charged then.
    """

    mechanism: MomentsMechanism | None = fixed()
    cost: GaussianCost | NoPrivacy = fixed()

    def __init__(
        self,
        log: AnyLog,
        mechanism: MomentsMechanism | None,
        rng: Rng = None,
        accountant: Accountant | None = None,
    ) -> None:
        check_is("log", log, ContinuousLog, PartitionedContinuousLog)
        check_is("mechanism", mechanism, MomentsMechanism, type(None))
        if mechanism is not None:
            mechanism = replace(mechanism, relation=of_unit(mechanism.relation, log.unit))
        self.mechanism, self._log, self._rng = mechanism, log, as_rng(rng)
        self._left, self._paid, self._made_in = 1.0, False, this_process()
        self._lock = threading.Lock()
        self._busy: int | None = None  # the thread that holds the lock
        self.cost = NoPrivacy(AddRemovePerson(log.unit)) if mechanism is None else mechanism.cost
        self._trial = trial_behind(accountant)
        releases.charge(accountant, self.cost)

    def __repr__(self) -> str:  # of nothing private
        return f"MomentStream({self.mechanism!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a stream cannot be copied or saved: two of them would spend one budget.")

    @property
    def _by_step(self) -> bool:
        return self.mechanism is not None and isinstance(self.mechanism.relation, ReplaceLoggedStep)

    def update(self, rows: Rows, size: int, share: float) -> tuple[FloatArray, float]:
        """Return a noisy sum of persons' outer products, and the noise of its diagonal.

        Parameters
        ----------
        rows : callable
            From a part of the log to rows of ``size`` columns. A row must depend on its own
            transition alone.
        size : int
            Columns, at most 3,000 times the root of ``share``.
        share : float
            Part of the budget, > 0. The parts of all releases sum to 1 at most.

        Returns
        -------
        array, shape (size, size)
            Symmetric, in persons.
        float
            Deviation of the noise on the diagonal; off it, it is that over the root of 2.

        Raises
        ------
        ValueError
            If too little of the budget is left, the stream is of another process, or ``rows``
            returns another shape.
        """
        add = by_row if self._by_step else by_person
        return self._sums(rows, add, np.zeros((size, size)), share)

    def count(self, rows: Rows, size: int, share: float) -> tuple[FloatArray, float]:
        """Return a noisy sum of persons' counts, and the noise of each.

        A person contributes the sum of their rows, divided by its Euclidean norm. Entries are not
        negative, so the sensitivities are those of outer products.

        Parameters
        ----------
        rows : callable
            From a part of the log to rows of ``size`` columns; negative entries count as 0.
        size, share
            As for `update`.

        Returns
        -------
        array, shape (size,)
        float
        """
        add = counts_by_row if self._by_step else counts_by_person
        return self._sums(rows, add, np.zeros(size), share)

    def _sums(
        self, rows: Rows, add: _Add, total: FloatArray, share: float
    ) -> tuple[FloatArray, float]:
        self._check(len(total), share)
        amplitude = math.sqrt(share)
        if self._busy == threading.get_ident():
            raise ValueError("rows must not use the stream that calls them.")
        with self._lock, np.errstate(all="ignore"):
            self._busy = threading.get_ident()
            try:
                self._spend(share)
                for part in of_each_part(self._log, partial(_sum_of, rows, add, amplitude, total)):
                    total = total + part  # of whole grains, so exact in any order
                noisy = self._release(total / GRAINS)
            finally:
                self._busy = None
        return noisy / amplitude, self.noise / amplitude

    def _check(self, size: int, share: float) -> None:
        if this_process() != self._made_in:
            raise ValueError("a stream must be used in the process that made it.")
        if (trial := trial_now()) is not None:
            check_paid(self, trial)
        most = most_columns(check_positive("share", share))
        if not 0 < size <= most:
            raise ValueError(f"size must be from 1 to {most} for this share, got {shown(size)}.")

    def _spend(self, share: float) -> None:
        if share > self._left + 1e-12:
            raise ValueError(f"share must be at most {self._left:g}, which is left of the budget.")
        self._left -= share

    @property
    def left(self) -> float:
        """The part of the budget that no release has spent."""
        return self._left

    @property
    def noise(self) -> float:
        """Deviation of the noise for a whole budget; 0 without privacy."""
        return 0.0 if self.mechanism is None else self.mechanism.sigma

    def _release(self, data: FloatArray) -> FloatArray:
        cost, self._paid = None if self._paid else self.cost, True
        return releases.release(self, cost, data, self._rng, self._draw)

    def _draw(self, data: FloatArray, rng: np.random.Generator) -> FloatArray:
        if self.mechanism is None:
            return data
        grains, n = self.mechanism.sigma * GRAINS, len(data)
        noise = np.zeros(data.shape)
        if data.ndim == 1:
            noise[:] = gaussian_on_grid(grains, n, rng)
        else:
            upper = np.triu_indices(n, 1)
            noise[upper] = gaussian_on_grid(grains / math.sqrt(2), len(upper[0]), rng)
            noise += noise.T
            noise[np.diag_indices(n)] = gaussian_on_grid(grains, n, rng)
        return data + noise / GRAINS


def _sum_of(
    rows: Rows, add: _Add, amplitude: float, nothing: FloatArray, log: ContinuousLog
) -> FloatArray:
    """Return the sum over the persons of a log, in grains, added to ``nothing``."""
    total = nothing.copy()
    with np.errstate(all="ignore"):
        for part in log.blocks(_AT_ONCE):
            each = _checked(rows(part), (len(part.state), len(total)))
            total += add(each, amplitude, part.offsets)
    return total


def _checked(rows: object, shape: tuple[int, int]) -> FloatArray:
    """Return rows as 64-bit floats, in which sums are exact; what is not finite counts as 0.

    Rows of fewer columns would be broadcast, and count more than once.
    """
    try:
        each = np.asarray(rows)
        if each.dtype.kind not in "biuf":
            raise TypeError
        each = each.astype(np.float64, copy=False)
    except (TypeError, ValueError):
        each = np.empty(0)
    if each.shape != shape:  # no message shows how many rows there are
        raise ValueError(
            f"rows must return numbers: a row for each of the log's, of {shape[1]} columns."
        )
    finite = np.isfinite(each)
    return each if finite.all() else np.where(finite, each, 0.0)


def by_person(rows: FloatArray, amplitude: float, offsets: IntArray) -> FloatArray:
    """Return the sum of outer products over persons, in grains, each of at most an amplitude."""
    size, n = rows.shape[1], len(offsets) - 1
    total = np.zeros((size, size))
    step = max(1, _CELLS // size**2)
    for first in range(0, n, step):
        own = offsets[first : first + step + 1]
        total += _few_persons(rows[own[0] : own[-1]], own - own[0], amplitude)
    return total


def _few_persons(rows: FloatArray, offsets: IntArray, amplitude: float) -> FloatArray:
    """Return the sum over persons, those of one length at a time.

    The bits of a product depend on its shape: with rows of zeros for shorter persons, a long one
    would change the rounding of all others.
    """
    lengths, size = np.diff(offsets), rows.shape[1]
    total = np.zeros((size, size))
    for length in np.unique(lengths[lengths > 0]).tolist():
        first = offsets[:-1][lengths == length]
        own = rows[first[:, None] + np.arange(length)]
        largest = np.maximum(own.max(axis=(1, 2)), -own.min(axis=(1, 2)))[:, None, None]
        usual = (largest > 1e-100) & (largest < 1e100)
        if not usual.all():  # squares would be lost: by a person's own numbers alone
            own = np.where(largest > 0, own / np.where(usual, 1.0, largest), 0.0)
        sums = np.swapaxes(own, 1, 2) @ own
        sums = (sums + np.swapaxes(sums, 1, 2)) / 2  # products may differ in the last bit
        flat = sums.reshape(len(first), -1)
        total += _bounded(flat, amplitude).sum(axis=0).reshape(size, size)
    return total


def _bounded(sums: FloatArray, amplitude: float) -> FloatArray:
    """Return rows in whole grains, scaled to at most an amplitude in Euclidean norm."""
    largest = np.abs(sums).max(axis=1, initial=0.0)[:, None]
    sums = np.where(largest > 0, sums / largest, 0.0)
    norm = np.sqrt(_squares(sums))
    limit = amplitude * GRAINS * (1 - 2.0**-40)
    sums *= np.where(norm > 0, limit / norm, 0.0)[:, None]
    np.trunc(sums, out=sums)
    # Whole numbers up to 2^24: their squares are exact, and sums of these nearly.
    sums[_squares(sums) > (amplitude * GRAINS) ** 2] = 0.0
    return sums


def _squares(rows: FloatArray) -> FloatArray:
    """Return the sum of squares of each row, with the same bits whatever the other rows.

    NumPy adds up to 8192 numbers at a time, across rows: of longer rows the place of a break, and
    so the rounding, would depend on how many rows are before.
    """
    total = np.zeros(len(rows))
    for first in range(0, rows.shape[1], _TOGETHER):
        part = rows[:, first : first + _TOGETHER]
        total += np.einsum("ij,ij->i", part, part)
    return total


def counts_by_person(rows: FloatArray, amplitude: float, offsets: IntArray) -> FloatArray:
    """Return the same of the rows themselves, without what is negative."""
    some = np.flatnonzero(np.diff(offsets))  # persons with rows
    if not len(some):
        return np.zeros(rows.shape[1])
    sums = np.add.reduceat(np.maximum(rows, 0.0), offsets[:-1][some], axis=0)
    return _bounded(np.minimum(sums, 1e300), amplitude).sum(axis=0)


def counts_by_row(rows: FloatArray, amplitude: float, _: IntArray | None = None) -> FloatArray:
    """Return the same where each row contributes once, whoever it is of."""
    return _bounded(np.maximum(rows, 0.0), amplitude).sum(axis=0)


def by_row(rows: FloatArray, amplitude: float, _: IntArray | None = None) -> FloatArray:
    """Return the sum over rows, in grains: rows are rounded to multiples of 2^-12 themselves."""
    largest = np.abs(rows).max(axis=1, initial=0.0)[:, None]
    rows = np.where(largest > 0, rows / largest, 0.0)
    norm = np.sqrt(_squares(rows))
    limit = math.sqrt(amplitude * GRAINS)
    rows *= np.where(norm > 0, limit * (1 - 2.0**-40) / norm, 0.0)[:, None]
    rows = np.trunc(rows)
    rows[_squares(rows) > amplitude * GRAINS] = 0.0
    return rows.T @ rows
