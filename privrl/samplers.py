"""Samplers: new counts in, a private posterior out.

A sampler is updated with each new batch of counts and returns a `Posterior`; drawing from
that is free. What the next update costs is the sampler's ``release``, and `draw` is the one
call that tells the accountant first and updates after. Raw counts stop here.

The samplers of this module return the one draw that they made from
``Dirichlet(scale * counts + alpha)``, after Ponnoprat, *Differential privacy of Dirichlet
posterior sampling*, section 5.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from privrl import _gate
from privrl._checks import (
    check_count,
    check_numbers,
    check_positive,
    check_positive_array,
    check_rng,
)
from privrl.accounting import RdpAccountant
from privrl.calibration import calibrate_alpha, calibrate_scale
from privrl.dirichlet import dirichlet_rows
from privrl.relations import DAMPED, Relation, ReplaceStep
from privrl.releases import (
    BatchRelease,
    Bound,
    DirichletRelease,
    NoPrivacy,
    Release,
    tables_released,
    together,
)
from privrl.special import FloatArray
from privrl.targets import Target

#: Counts are multiples of this, and sum to less than `LARGEST_TOTAL` in every cell: floats hold
#: all such sums, so that one record's change is the change of every sum that it is in. Sums that
#: are rounded can change by more than what was put in.
GRID = 2.0**-16
LARGEST_TOTAL = 2.0**53 * GRID


class Posterior(Protocol):
    """What an update releases; everything done with it is post-processing."""

    def sample(self, rng: np.random.Generator) -> FloatArray:
        """Return probabilities, shape (..., K), each row summing to 1."""


class Sampler(Protocol):
    """Turn new counts into a private posterior, and say what that costs."""

    @property
    def release(self) -> Release | None:
        """The cost of the next update; None if it is free."""

    def fresh(self) -> Self:
        """Return a sampler with the same settings that has seen nothing."""

    def check(self, counts: FloatArray) -> None:
        """Raise ValueError if these counts cannot be an update; change nothing."""

    def spoil(self) -> None:
        """Refuse all further updates."""

    def update(self, counts: FloatArray, rng: np.random.Generator) -> Posterior:
        """Add a batch of counts, shape (..., K), to those before and release the posterior.

        Call it through `draw`, which checks the counts and tells the accountant.
        """


def draw(
    accountant: RdpAccountant,
    updates: Sequence[tuple[Sampler, ArrayLike]],
    rng: np.random.Generator,
) -> list[Posterior]:
    """Release several tables of the same data: check, tell the accountant, then update.

    Parameters
    ----------
    accountant : RdpAccountant
        Is charged for all updates at once, before any of them is made.
    updates : sequence of (sampler, counts)
        Each sampler with its new batch of counts, shape (..., K).
    rng : numpy.random.Generator
        Where the randomness comes from.

    Returns
    -------
    list of Posterior
        One for each update.

    Raises
    ------
    BudgetExceeded
        If the accountant's budget does not cover the updates; then none is made.
    ValueError
        If a sampler refuses its counts, or ``rng`` is no generator; then nothing is spent and no
        update is made.

    Notes
    -----
    If an update fails for another reason, out of memory, say, the samplers of the call are
    spoiled: what they have been paid for is lost, and they refuse all further updates.
    """
    check_rng(rng)
    checked = [(sampler, check_numbers("counts", counts)) for sampler, counts in updates]
    for sampler, batch in checked:
        sampler.check(batch)
    costs = [sampler.release for sampler, _ in checked]
    charged = [cost for cost in costs if cost is not None]
    if charged:
        _gate.charge(accountant, together(charged))
    try:
        return [
            _gate.release(sampler, cost, batch, rng, sampler.update)
            for (sampler, batch), cost in zip(checked, costs, strict=True)
        ]
    except BaseException:
        # Some batches have been entered. Offered once more they would count twice.
        for sampler, _ in checked:
            sampler.spoil()
        raise


@dataclass(frozen=True)
class SingleDraw:
    """A posterior that is the one draw made of it: sampling again gives the same rows."""

    probabilities: FloatArray

    def sample(self, rng: np.random.Generator) -> FloatArray:
        """Return the draw, shape (..., K)."""
        del rng  # nothing more is drawn
        return self.probabilities


class PaidSampler:
    """What samplers share that go on with what they have been paid for.

    ``_done`` counts the updates; a subclass sets everything that it remembers in ``_forget``.
    """

    _done: int
    _spoiled: bool

    def _forget(self) -> None:
        self._done, self._spoiled = 0, False

    def fresh(self) -> Self:
        """Return a sampler with the same settings that has seen nothing."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._forget()
        return other

    def spoil(self) -> None:
        """Refuse all further updates: one of a draw that they belonged to has failed."""
        self._spoiled = True

    def _check_unspoiled(self) -> None:
        if self._spoiled:
            raise ValueError(
                f"sampler must not be used after a draw that failed midway, got {self!r}; start "
                "again with sampler.fresh(), which pays anew."
            )

    def __copy__(self) -> Self:
        if self._done:
            raise ValueError(
                f"sampler must not be copied after its first update, got {self!r} after "
                f"{self._done}; sampler.fresh() has its settings, and pays anew."
            )
        return self.fresh()

    def __deepcopy__(self, memo: object) -> Self:
        return self.__copy__()

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        if self._done:  # two that go on from one pickle would share their noise
            raise ValueError(
                f"sampler must not be pickled after its first update, got {self!r} after "
                f"{self._done}; sampler.fresh() has its settings, and pays anew."
            )
        return super().__reduce_ex__(protocol)


class DirichletSampler(PaidSampler):
    """One draw ``Dirichlet(scale * counts + alpha)`` at each update; the named ones are below.

    Parameters
    ----------
    scale, alpha : array_like
        Numbers > 0, or one for each independent run: their axes are the leading axes of the
        counts.
    release : Release
        What one update costs.
    window : int, optional
        How many batches an update looks back on, itself included; by default all. A record
        is in one batch, so it takes part in ``window`` updates and no more: the first so many
        are charged for, and those that follow are free.

    Raises
    ------
    ValueError
        If a number is not positive and finite, or ``release`` is of another scale or a larger
        prior.
    """

    def __init__(
        self, *, scale: ArrayLike, alpha: ArrayLike, release: Release, window: int | None = None
    ) -> None:
        self._scale = frozen(check_positive_array("scale", scale, "larger means less noise"))
        self._alpha = frozen(check_positive_array("alpha", alpha, "larger means more privacy"))
        rows = release.rows if isinstance(release, BatchRelease) else (release,)
        drawn = np.broadcast_arrays(self._scale, self._alpha)
        for row, one_scale, one_alpha in zip(rows, *(d.ravel() for d in drawn), strict=True):
            if not isinstance(row, DirichletRelease | NoPrivacy) or (
                isinstance(row, DirichletRelease)
                and (row.scale != one_scale or row.alpha > one_alpha)
            ):
                raise ValueError(
                    f"release must be of the draw with scale {one_scale:g} and alpha "
                    f"{one_alpha:g}, got {row!r}."
                )
        self._release = release
        self._window = None if window is None else check_count("window", window)
        self._forget()

    def _forget(self) -> None:
        super()._forget()
        self._shape: tuple[int, ...] | None = None
        self._past: tuple[FloatArray, ...] = ()  # batches of the window, or the sum of all

    def __repr__(self) -> str:
        return f"{type(self).__name__}(scale={self.scale}, alpha={self.alpha})"

    @property
    def scale(self) -> FloatArray:
        """Weight of each count, one number or one for each run; read-only."""
        return self._scale

    @property
    def alpha(self) -> FloatArray:
        """Prior pseudo-count of every cell, one number or one for each run; read-only."""
        return self._alpha

    @property
    def window(self) -> int | None:
        """How many batches an update looks back on; None for all."""
        return self._window

    @property
    def release(self) -> Release | None:
        """What the next update costs; None once a record's whole window has been paid for."""
        paid = self._window is not None and self._done >= self._window
        return None if paid else self._release

    def check(self, counts: FloatArray) -> None:
        """Check a batch of counts, shape (..., K); see `check_batch`."""
        self._check_unspoiled()
        runs = np.broadcast_shapes(self._scale.shape, self._alpha.shape)
        check_batch(counts, runs, self._shape, self._past)

    def update(self, counts: FloatArray, rng: np.random.Generator) -> SingleDraw:
        """Add a batch of counts, shape (..., K), and draw the rows; call it through `draw`.

        Raises
        ------
        ValueError
            See `check`.
        """
        self.check(counts)
        total = sum(self._past, start=counts.copy())
        concentrations = lead(self._scale, counts.ndim) * total
        concentrations += lead(self._alpha, counts.ndim)
        rows = dirichlet_rows(concentrations, rng, least=float(self._alpha.min()))
        # Only now: a failed update leaves the sampler as it was.
        self._done += 1
        self._shape = counts.shape
        if self._window is None:
            self._past = (total,)
        elif self._window > 1:
            # Summed afresh each time: a batch that is subtracted leaves its rounding behind.
            self._past = (*self._past, counts.copy())[1 - self._window :]
        return SingleDraw(rows)


class NonPrivate(DirichletSampler):
    """The ordinary posterior, for comparison: it makes no claim, and every budget refuses it.

    Parameters
    ----------
    alpha : float
        Prior pseudo-count of every cell, > 0.
    relation : Relation
        That of the accountant in use.
    """

    def __init__(self, *, alpha: float = 10.0, relation: Relation | None = None) -> None:
        super().__init__(
            scale=1.0,
            alpha=alpha,
            release=NoPrivacy(ReplaceStep() if relation is None else relation),
        )

    @classmethod
    def calibrated(
        cls,
        target: Target,
        *,
        draws: int,
        alpha: float = 10.0,
        relation: Relation | None = None,
        table: str | None = None,
        bound: Bound = "exact",
        window: int | None = None,
    ) -> Self:
        """Return the sampler as it is: no target changes it, and it meets none."""
        del target, draws, table, bound, window
        return cls(alpha=alpha, relation=relation)


class Diffuse(DirichletSampler):
    """Counts are scaled down, ``Dirichlet(scale * counts + alpha)``, the prior stays as it is.

    Parameters
    ----------
    scale : float
        Weight of each count, > 0; usually below 1. Smaller is more private.
    alpha : float
        Prior pseudo-count of every cell, > 0.
    relation : Relation
        Which data sets are neighbours; by default `ReplaceStep`.
    table, bound
        As for `DirichletRelease`.
    window
        As for `DirichletSampler`.
    """

    def __init__(
        self,
        *,
        scale: float,
        alpha: float = 10.0,
        relation: Relation | None = None,
        table: str | None = None,
        bound: Bound = "exact",
        window: int | None = None,
    ) -> None:
        release = DirichletRelease(
            scale=scale,
            alpha=alpha,
            relation=ReplaceStep() if relation is None else relation,
            table=table,
            bound=bound,
        )
        super().__init__(scale=scale, alpha=alpha, release=release, window=window)

    @classmethod
    def calibrated(
        cls,
        target: Target,
        *,
        draws: int,
        alpha: float = 10.0,
        relation: Relation | None = None,
        table: str | None = None,
        bound: Bound = "exact",
        window: int | None = None,
    ) -> Self:
        """Return the sampler whose ``draws`` updates meet ``target`` for every record.

        Its scale is the largest that does, and never above 1: a weight above 1 would count
        every observation more than once.
        """
        relation = ReplaceStep() if relation is None else relation
        largest = calibrate_scale(
            target,
            alpha=alpha,
            relation=relation,
            count=_touching(draws, window),
            table=table,
            bound=bound,
        )
        scale = min(1.0, largest)
        return cls(
            scale=scale, alpha=alpha, relation=relation, table=table, bound=bound, window=window
        )


class Concentrated(DirichletSampler):
    """Counts are taken as they are, ``Dirichlet(counts + alpha)``, under a larger prior.

    Parameters
    ----------
    alpha : float
        Prior pseudo-count of every cell, > 0. Larger is more private.
    relation : Relation
        Which data sets are neighbours; by default `ReplaceStep`.
    table, bound
        As for `DirichletRelease`.
    window
        As for `DirichletSampler`.
    """

    def __init__(
        self,
        *,
        alpha: float,
        relation: Relation | None = None,
        table: str | None = None,
        bound: Bound = "exact",
        window: int | None = None,
    ) -> None:
        release = DirichletRelease(
            scale=1.0,
            alpha=alpha,
            relation=ReplaceStep() if relation is None else relation,
            table=table,
            bound=bound,
        )
        super().__init__(scale=1.0, alpha=alpha, release=release, window=window)

    @classmethod
    def calibrated(
        cls,
        target: Target,
        *,
        draws: int,
        alpha: float = 10.0,
        relation: Relation | None = None,
        table: str | None = None,
        bound: Bound = "exact",
        window: int | None = None,
    ) -> Self:
        """Return the sampler whose ``draws`` updates meet ``target`` for every record.

        Its prior is the smallest that does, and never below ``alpha``, the one that would be
        used without privacy.
        """
        relation = ReplaceStep() if relation is None else relation
        if relation.changes(table):
            needed = calibrate_alpha(
                target,
                scale=1.0,
                relation=relation,
                count=_touching(draws, window),
                table=table,
                bound=bound,
            )
            alpha = max(check_positive("alpha", alpha), needed)
        return cls(alpha=alpha, relation=relation, table=table, bound=bound, window=window)


def _touching(draws: int, window: int | None) -> int:
    """Return in how many of so many draws one record takes part."""
    return check_count("draws", draws) if window is None else min(draws, window)


def stack(samplers: Sequence[DirichletSampler]) -> DirichletSampler:
    """Put samplers side by side on a leading axis: independent runs in one array program.

    Parameters
    ----------
    samplers : sequence of DirichletSampler
        One for each row, of one window; none of them itself a stack, or used.

    Returns
    -------
    DirichletSampler
        For counts of shape ``(len(samplers), ..., K)``; its release is a `BatchRelease`.
    """
    windows = {sampler.window for sampler in samplers}
    if len(windows) != 1 or any(sampler._done for sampler in samplers):
        raise ValueError(
            f"samplers must be at least one, unused, and of one window, got windows {windows}."
        )
    return DirichletSampler(
        scale=np.array([sampler.scale for sampler in samplers]),
        alpha=np.array([sampler.alpha for sampler in samplers]),
        release=BatchRelease([sampler._release for sampler in samplers]),
        window=windows.pop(),
    )


def check_batch(
    counts: FloatArray,
    runs: tuple[int, ...],
    before: tuple[int, ...] | None,
    past: Sequence[FloatArray] = (),
) -> None:
    """Check a batch of counts, shape (..., K), against the runs and the batches before.

    Parameters
    ----------
    counts : array, shape (..., K)
        The batch: multiples of `GRID` >= 0, as whole counts are, below `LARGEST_TOTAL`.
    runs : tuple of int
        Leading axes of independent runs.
    before : tuple of int, optional
        Shape of the batches before, if there were any.
    past : sequence of arrays
        Batches, or their sum, to which this one will be added.

    Raises
    ------
    ValueError
        If a count is negative, not finite or between two multiples of the grid, a sum too large
        to be exact, or the shape not that of the runs or of the batches before.
    """
    largest = np.max(counts, initial=0.0)
    if not (np.min(counts, initial=0.0) >= 0 and largest < np.inf):  # NaN is neither
        raise ValueError("counts must be >= 0 and finite everywhere; check what was counted.")
    check_total(largest)
    if counts.ndim <= len(runs) or counts.shape[: len(runs)] != runs:
        raise ValueError(
            f"counts must have leading axes {runs}, one entry for each independent run, and "
            f"cells on the last axis, got shape {counts.shape}."
        )
    if before is not None and counts.shape != before:
        raise ValueError(
            f"counts must have the same shape as the batches before, {before}, got {counts.shape}."
        )
    steps = counts / GRID
    if not np.array_equal(steps, np.rint(steps)):
        raise ValueError(
            "counts must be multiples of 2**-16 everywhere, so that their sums are exact; round "
            "what each record adds to them."
        )
    if past:
        check_total(np.max(sum(past, start=counts), initial=0.0))


def check_total(largest: float) -> None:
    """Check that the largest of some counts is within what floats add up exactly.

    Raises
    ------
    ValueError
        If it is not below `LARGEST_TOTAL`, which a sum that is too large may be rounded to.
    """
    if not largest < LARGEST_TOTAL:
        raise ValueError(
            "counts must sum to less than 2**37 in every cell, or sums would be rounded; check "
            "what was counted, or start again with a fresh sampler."
        )


def check_table(name: str, sampler: Sampler, table: str) -> None:
    """Check that what a sampler's updates cost is stated for the table it is used for.

    Raises
    ------
    ValueError
        If its release is of another table of the relation.
    """
    cost = sampler.fresh().release  # a used one may not tell what it has paid for
    stated = tables_released(cost) if cost is not None else set()
    if DAMPED in stated and getattr(sampler, "loops", None) is None:
        raise ValueError(
            f"{name} must damp the self-loops if its cost is stated for the table {DAMPED!r}; "
            "NoisyCounts does where it is given loops."
        )
    if table == "transitions":
        stated -= {DAMPED}
    if not stated <= {table}:
        raise ValueError(
            f"{name} must be made for the relation's table {table!r}, got one for "
            f'{", ".join(map(repr, stated))}; pass table="{table}" to it.'
        )


def lead(values: FloatArray, ndim: int) -> FloatArray:
    """Append axes so that those of ``values`` become the leading ones of ``ndim``."""
    return values.reshape(values.shape + (1,) * (ndim - values.ndim))


def frozen(values: FloatArray) -> FloatArray:
    """Return a read-only copy: what was accounted for is what is drawn."""
    copied = values.copy()
    copied.flags.writeable = False
    return copied
