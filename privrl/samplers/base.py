"""Samplers: new counts in, a private posterior out.

Each update adds a batch of counts and returns a `Posterior`; sampling it is free. The sampler
knows the cost of its next update. `draw` charges the accountant first and updates afterwards
(`privrl.accounting.releases`). Raw counts stop here.
"""

import os
from collections.abc import Callable, Sequence
from threading import RLock
from typing import Any, ClassVar, Protocol, Self, SupportsIndex, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from privrl.accounting import releases
from privrl.accounting.base import Accountant
from privrl.accounting.releases import Place, Release
from privrl.costs.base import BatchCost, Cost, tables_released, together
from privrl.costs.relations import DAMPED, DAMPED_REWARDS
from privrl.files.chosen import TrialName, check_paid, check_payer, trial_behind
from privrl.files.fixed import FixedArrays
from privrl.files.shown import shown
from privrl.numerics.cells import Cells
from privrl.numerics.checks import check_does, check_is, check_numbers, check_rng
from privrl.numerics.compiled import Compiled
from privrl.numerics.processes import this_process
from privrl.numerics.randomness import secret_rng
from privrl.numerics.special import FloatArray

#: Counts are multiples of this, and their sum is below `LARGEST_TOTAL` in every cell. Floats hold
#: all such sums exactly, so one record changes each sum by its own amount. A rounded sum can change
#: by more.
GRID = 2.0**-16
LARGEST_TOTAL = 2.0**53 * GRID
_SMALL = 2**12  # cells: in smaller tables, checking all is as quick as finding the filled ones
_AT_ONCE = 2**18  # cells that are checked at a time, so that a check needs little memory
_drawing = RLock()
_current: list[list[bool] | None] = [None]  # whether the draw being made is complete
if hasattr(
    os, "register_at_fork"
):  # or a child could wait for a lock that no thread of its own holds
    os.register_at_fork(
        before=_drawing.acquire, after_in_parent=_drawing.release, after_in_child=_drawing.release
    )


class Posterior(Protocol):
    """The result of an update; all its uses are post-processing."""

    @property
    def mean(self) -> FloatArray:
        """Expected probabilities, shape (..., K), each row summing to 1."""

    def sample(self, rng: np.random.Generator) -> FloatArray:
        """Return probabilities, shape (..., K), each row summing to 1."""


class Sampler(Protocol):
    """Turn new counts into a private posterior, at a known cost.

    `PaidSampler` implements all of it but ``cost``, ``check`` and ``update``.
    """

    @property
    def cost(self) -> Cost | None:
        """The cost of the next update; None if it is free."""

    def fresh(self) -> Self:
        """Return a sampler with the same settings that has seen nothing."""

    def check(self, counts: FloatArray) -> None:
        """Raise ValueError if an update cannot take these counts; change nothing."""

    def invalidate(self) -> None:
        """Refuse all further updates."""

    def update(self, counts: FloatArray, rng: np.random.Generator) -> Posterior:
        """Add a batch of counts, shape (..., K), to the previous ones and release the posterior.

        Call it through `draw`, which checks the counts and charges the accountant.

        Raises
        ------
        ValueError
            As `check` does; or if ``rng`` is not a generator of this process.
        """


class Register(Protocol):
    """The record of the draws of a run, so that none is repeated on other data."""

    def place_of(self, batches: Sequence[FloatArray | Cells]) -> Place:
        """Return the place of the next draw, made from these batches.

        Raises
        ------
        OSError
            If the record has other data at this place, or cannot be read.
        """


def draw(
    accountant: Accountant,
    updates: Sequence[tuple[Sampler, ArrayLike | Cells]],
    rng: np.random.Generator | None = None,
) -> list[Posterior]:
    """Release several tables of the same data: check, charge the accountant, then update.

    Parameters
    ----------
    accountant : Accountant
        Charged for all updates at once, before the first one. For a used sampler, that of its
        earlier draws, or another one of the same data set in the same ledger.
    updates : sequence of (sampler, counts)
        Each sampler with its new batch of counts, shape (..., K). Samplers that declare
        ``takes_cells`` also take `privrl.numerics.cells.Cells`.
    rng : numpy.random.Generator or None
        Source of randomness; None is secret. A seed is refused, because every draw would then have
        the same noise.

    Returns
    -------
    list of Posterior
        One for each update.

    Raises
    ------
    BudgetExceeded
        If the accountant's budget does not cover the updates; then none is made.
    ValueError
        If a sampler refuses its counts or is listed twice, or ``rng`` has another type; then
        nothing is spent and no update is made.

    Notes
    -----
    Any other exception, such as MemoryError or Ctrl-C, invalidates the samplers of the call: they
    refuse all further updates, and the budget charged is lost. This also holds if a second
    exception interrupts the handling of the first.

    One thread draws at a time, so the cost of a sampler cannot change between charge and update.
    """
    return Draw(accountant, updates, rng).make()


class Draw:
    """A call of `draw` whose progress can be read afterwards.

    Parameters
    ----------
    accountant, updates, rng
        As for `draw`.
    register : Register, optional
        Records the draw before it is made, and then provides its randomness.
    note : callable, optional
        Called with the cost just before it is charged; None if the draw is free. The cost of a
        sampler is read once, because a second call could return another one.
    """

    def __init__(
        self,
        accountant: Accountant,
        updates: Sequence[tuple[Sampler, ArrayLike | Cells]],
        rng: np.random.Generator | None = None,
        register: Register | None = None,
        *,
        note: Callable[[Cost | None], None] | None = None,
    ) -> None:
        self._note = note
        self._accountant, self._register = accountant, register
        self._updates = tuple(updates)  # of an iterator, which can be read once
        self._rng = secret_rng() if rng is None else rng
        self._release: Release[list[Posterior]] | None = None

    @property
    def is_untouched(self) -> bool:
        """Whether nothing was charged or drawn, for certain."""
        return self._release is None or self._release.state == "prepared"

    def make(self) -> list[Posterior]:
        """Charge and draw; see `draw`."""
        check_rng(self._rng)
        with _drawing:
            _current[0] = None  # an interrupt may have left an earlier one
            self._release = release = self._prepared()
            holders = [_holder(sampler) for sampler, _ in self._updates]
            paid = [holder for holder in holders if isinstance(holder, PaidSampler)]
            check_payer(self._accountant)  # also if the draw is free, as it was paid for before
            trial = trial_behind(self._accountant)
            for sampler in paid:
                if sampler._done:
                    check_paid(sampler, trial)
                    _check_same_account(sampler, self._accountant)
            # Invalid until the draw is complete or refused, however often it is interrupted.
            _current[0] = complete = [False]
            for sampler in paid:
                sampler._complete = complete
            try:
                released = release.make()
                for sampler in paid:
                    sampler._trial, sampler._payer = trial, (self._accountant,)
            except (ValueError, OSError):  # a refusal, unless it came after the charge
                complete[0] = self.is_untouched
                raise
            finally:
                _current[0] = None
            complete[0] = True
            return released

    def _prepared(self) -> Release[list[Posterior]]:
        checked = [(sampler, _owned(counts)) for sampler, counts in self._updates]
        if len({id(_holder(sampler)) for sampler, _ in checked}) < len(checked):
            raise ValueError(
                "updates must name each sampler once, including samplers inside reward models, "
                "because one update may make the next one invalid; draw once for each."
            )
        for sampler, batch in checked:
            if isinstance(batch, Cells) and not takes_cells(sampler):
                raise ValueError(
                    f"counts must be an array for this sampler, got cells for {shown(sampler)}."
                )
            sampler.check(batch)  # type: ignore[arg-type] # it takes both
        costs = [sampler.cost for sampler, _ in checked]
        charged = [cost for cost in costs if cost is not None]

        cost = together(charged) if charged else None
        place = None
        if self._register is not None:
            place = self._register.place_of([batch for _, batch in checked])
        if self._note is not None:
            self._note(cost)

        def update(rng: np.random.Generator) -> list[Posterior]:
            return [
                releases.release(sampler, cost, batch, rng, sampler.update)
                for (sampler, batch), cost in zip(checked, costs, strict=True)
            ]

        return Release(
            self._accountant,
            cost,
            update,
            self._rng,
            parts=[sampler for sampler, _ in checked],
            place=place,
        )


def _check_same_account(sampler: "PaidSampler", accountant: object) -> None:
    """Check that a sampler in use is drawn from under the accountant of its earlier draws.

    Its batches are released again or were paid for with the first one, so they are of one data set.
    """
    if sampler._payer is None or sampler._payer[0] is accountant:  # None: from a checkpoint
        return
    accounts = [getattr(each, "account", None) for each in (*sampler._payer, accountant)]
    if None in accounts or accounts[0] != accounts[1]:
        raise ValueError(
            "accountant must be that of the sampler's earlier draws, because these may have paid "
            f"for this one, got {shown(accountant)}; sampler.fresh() has the same settings, and "
            "pays again."
        )


def _holder(sampler: object) -> object:
    """Return the sampler that holds the counts, if a reward model has one inside."""
    while (inside := getattr(sampler, "_sampler", None)) is not None:
        sampler = inside
    return sampler


def takes_cells(sampler: object) -> bool:
    """Return whether a sampler takes `Cells` in place of an array of counts."""
    return bool(getattr(sampler, "takes_cells", False))


def _owned(counts: ArrayLike | Cells) -> FloatArray | Cells:
    """Return numbers that no other code can write to: a copy, unless they are read-only."""
    if type(counts) is Cells:  # a subclass may change what was checked
        return counts
    if (
        isinstance(counts, np.ndarray)
        and type(counts) is np.ndarray  # none that is masked
        and counts.dtype == np.float64
        and counts.base is None
        and not counts.flags.writeable
    ):
        return counts
    return check_numbers("counts", counts)  # type: ignore[arg-type] # which it refuses


class PaidSampler(FixedArrays):
    """Base class of samplers: refuses copies, and updates after a failed draw.

    A subclass implements ``cost``, ``check`` and ``update`` (see `Sampler`). It calls
    `check_usable` in ``check``, adds 1 to ``_done`` in each update, and initialises all that
    changes in ``_forget``, which its constructor calls. To take part in `stack` it also sets
    ``_cost`` and `settings`, and implements ``_goes_with``.

    Attributes
    ----------
    settings : tuple of str
        Names of its public numbers, such as ``("sigma", "alpha")``: attributes with one number, or
        one for each run. Tables of results have a column for each.
    """

    remembered: ClassVar[tuple[str, ...]] = ("_done", "_invalid")
    derived: ClassVar[tuple[str, ...]] = ("_complete", "_trial", "_payer")
    settings: ClassVar[tuple[str, ...]] = ()
    _alpha: FloatArray
    _cost: Cost
    _done: int
    _used_in: tuple[int, int]
    _invalid: bool
    _complete: list[bool] | None  # whether its last draw is; all samplers of the draw share it

    @property
    def alpha(self) -> FloatArray:
        """Prior pseudo-count of every cell, one number or one for each run; read-only."""
        return self._alpha

    def _goes_with(self, other: "PaidSampler") -> bool:
        """Whether `stack` can combine both: only their `settings` differ."""
        del other
        return False

    def _forget(self) -> None:
        self._done, self._invalid, self._complete = 0, False, None
        self._trial: TrialName | None = None  # of a selection, that pays for it
        self._payer: tuple[Accountant | None] | None = (None,)  # of draws; None after a checkpoint

    def fresh(self) -> Self:
        """Return a sampler with the same settings that has seen nothing."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._forget()
        return other

    def invalidate(self) -> None:
        """Refuse all further updates, because a draw has failed."""
        self._invalid = True

    def restored(self) -> None:
        """Resume in this process from a checkpoint."""
        self._used_in = this_process()

    def check_usable(self) -> None:
        """Check that no draw has failed, and that this is the process of the first update.

        Raises
        ------
        ValueError
            If not.
        """
        if not self._done:
            self._used_in = this_process()  # an unused sampler has only settings
        elif self._used_in != this_process():
            raise ValueError(
                f"sampler must be used in one process, got {shown(self)} after {self._done} "
                "updates in another: two processes that continue from there share their noise. "
                "Use sampler.fresh(), which has the same settings and pays again."
            )
        if self._invalid or (self._complete == [False] and self._complete is not _current[0]):
            raise ValueError(
                f"sampler must not be used after a draw that failed midway, got {shown(self)}; "
                "start again with sampler.fresh(), which pays again."
            )

    def __copy__(self) -> Self:
        if self._done:
            raise ValueError(
                f"sampler must not be copied after its first update, got {shown(self)} after "
                f"{self._done}; sampler.fresh() has the same settings, and pays again."
            )
        return self.fresh()

    def __deepcopy__(self, memo: object) -> Self:
        return self.__copy__()

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        if self._done:  # two that continue from one pickle would share their noise
            raise ValueError(
                f"sampler must not be pickled after its first update, got {shown(self)} after "
                f"{self._done}; sampler.fresh() has the same settings, and pays again."
            )
        return super().__reduce_ex__(protocol)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._forget()  # what changes in use is none of the settings, which are read-only


class PaidOnce(PaidSampler):
    """Base class of samplers whose first update pays for all of them, what ``_cost`` is."""

    @property
    def cost(self) -> Cost | None:
        """The cost of all updates before the first one, which pays; None from then on."""
        return None if self._done else self._cost

    def _check_left(self, planned: str, updates: int) -> None:
        """Check that not all updates were made that an argument has planned."""
        if self._done == updates:
            raise ValueError(
                f"{planned} must cover all that are made, got {updates}, and they are used up; "
                "plan for as many as the schedule has."
            )


Paid = TypeVar("Paid", bound=PaidSampler)


def stack(samplers: Sequence[Paid]) -> Paid:
    """Combine samplers on a leading axis: independent runs in one array program.

    Parameters
    ----------
    samplers : sequence of samplers
        One for each row, unused: Dirichlet samplers of one window, or `NoisyCounts` that differ in
        sigma and alpha only.

    Returns
    -------
    sampler
        Of the first one's class, for counts of shape ``(len(samplers), ..., K)``; its cost is a
        `BatchCost`.

    Raises
    ------
    ValueError
        If the sequence is empty, one has been used or is itself a stack, or they differ in more.
    """
    for each in samplers:
        check_is("samplers", each, PaidSampler)
    if not samplers or any(
        sampler._done or isinstance(sampler._cost, BatchCost) for sampler in samplers
    ):
        raise ValueError(
            "samplers must be at least one, unused, and none of them a stack, got "
            f"{shown(samplers)}."
        )
    made = samplers[0].fresh()
    for sampler in samplers:
        if not made._goes_with(sampler):
            raise ValueError(
                "samplers must be of one kind, with one window, one table, one number of updates, "
                f"one factorisation, one threshold and the same loops, got {shown(samplers)}."
            )
    for name in made.settings:
        values = np.array([getattr(sampler, name) for sampler in samplers])
        setattr(made, f"_{name}", frozen(values))
    made._cost = BatchCost([sampler._cost for sampler in samplers])
    return made


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
        Shape of the previous batches; None for the first.
    past : sequence of arrays
        Previous batches, or their sum.

    Raises
    ------
    ValueError
        If a count is negative, not finite or no multiple of the grid, a sum too large to be exact,
        or the shape wrong for the runs or the previous batches.
    """
    if type(counts) is not np.ndarray or counts.dtype.kind not in "biuf":  # nor masked
        raise ValueError(f"counts must be an array of numbers, got {type(counts).__name__}.")
    if counts.ndim <= len(runs) or counts.shape[: len(runs)] != runs:
        raise ValueError(
            f"counts must have leading axes {runs}, one entry for each independent run, and "
            f"cells on the last axis, got shape {counts.shape}."
        )
    if before is not None and counts.shape != before:
        raise ValueError(
            f"counts must have the shape of the previous batches, {before}, got {counts.shape}."
        )
    _checked(counts, past, GRID, LARGEST_TOTAL)


def _check_cells(counts: FloatArray, past: Sequence[FloatArray], grid: float, total: float) -> bool:
    """Check new and previous counts of all cells, see `check_batch`; return True."""
    del grid, total  # for the compiled twin
    flat = [table.reshape(-1) for table in (counts, *past)]
    for start in range(0, counts.size, _AT_ONCE):
        parts = [table[start : start + _AT_ONCE] for table in flat]
        if counts.size > _SMALL:  # an empty cell changes no sum
            filled = np.flatnonzero(parts[0] != 0)
            parts = [part[filled] for part in parts]
        _check_amounts(*parts)
    return True


_checked = Compiled(_check_cells, "fit")


def _check_amounts(new: FloatArray, *past: FloatArray) -> None:
    """Check new and previous counts of some cells, see `check_batch`."""
    if not new.size:
        return
    with np.errstate(all="ignore"):  # a warning would tell of longer floats
        new = np.asarray(new, np.float64)  # float16 does not hold the limits below
    largest = new.max()
    if not (new.min() >= 0 and largest < np.inf):  # nor is NaN
        raise ValueError("counts must be >= 0 and finite everywhere; check what was counted.")
    check_total(largest)
    steps = new * (1 / GRID)
    if (steps != np.rint(steps)).any():
        raise ValueError(
            "counts must be multiples of 2**-16 everywhere, so that their sums are exact; round "
            "the contribution of each record."
        )
    if past:
        check_total(sum(past, start=new).max())


def check_total(largest: float) -> None:
    """Check that the largest count is so small that sums are exact.

    Raises
    ------
    ValueError
        If it is not below `LARGEST_TOTAL`; a larger sum may be rounded to that.
    """
    if not largest < LARGEST_TOTAL:
        raise ValueError(
            "counts must sum to less than 2**37 in every cell, or sums would be rounded; check "
            "what was counted, or start again with a fresh sampler."
        )


def check_sampler(name: str, sampler: object) -> None:
    """Check that something is a sampler."""
    check_does(name, sampler, "a sampler, such as NoisyCounts", "fresh", "check", "update")


def check_table(name: str, sampler: Sampler, table: str) -> None:
    """Check that a sampler's cost is stated for the table that it is used for.

    Raises
    ------
    ValueError
        If its cost is for another table of the relation.
    """
    check_sampler(name, sampler)
    cost = sampler.fresh().cost  # a used one may be free
    stated = tables_released(cost) if cost is not None else set()
    damped = stated & {DAMPED, DAMPED_REWARDS}
    if damped and getattr(sampler, "loops", None) is None and not damps(sampler):
        raise ValueError(
            f"{name} must damp the self-loops, since its cost is for the table "
            f"{shown(damped.pop())}; pass loops to NoisyCounts."
        )
    if table == "transitions":
        stated -= {DAMPED}
    if not stated <= {table}:
        undamped = table == "rewards" and stated == {DAMPED_REWARDS}
        raise ValueError(
            f"{name} must be made for the relation's table {shown(table)}, got one for "
            f"{', '.join(map(repr, stated))}; "
            + ("leave out its loops." if undamped else f'pass table="{table}" to it.')
        )


def damps(sampler: object) -> bool:
    """Return whether a sampler finds and damps the self-loops of transitions by itself."""
    return bool(getattr(sampler, "damps", False))


def lead(values: FloatArray, ndim: int) -> FloatArray:
    """Append axes so that those of ``values`` become the leading ones of ``ndim``."""
    return values.reshape(values.shape + (1,) * (ndim - values.ndim))


def frozen(values: FloatArray) -> FloatArray:
    """Return a read-only copy, so that the draw has the settings that were charged."""
    copied = values.copy()
    copied.flags.writeable = False
    return copied
