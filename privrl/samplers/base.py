"""Samplers: new counts in, a private posterior out.

A sampler is updated with each new batch of counts and returns a `Posterior`; drawing from
that is free. The sampler tells what its next update costs, and `draw` is the one call that charges
the accountant first and updates after (`privrl.accounting.releases`). Raw counts stop here.
"""

import os
from abc import ABC, abstractmethod
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
from privrl.files.shown import shown
from privrl.numerics.checks import check_does, check_is, check_numbers, check_rng
from privrl.numerics.compiled import Compiled
from privrl.numerics.processes import this_process
from privrl.numerics.randomness import secret_rng
from privrl.numerics.special import FloatArray

#: Counts are multiples of this, and sum to less than `LARGEST_TOTAL` in every cell: floats hold
#: all such sums, so that one record's change is the change of every sum that it is in. Sums that
#: are rounded can change by more than what was put in.
GRID = 2.0**-16
LARGEST_TOTAL = 2.0**53 * GRID
_SMALL = 2**12  # cells: all of them are looked at as quickly as those are found that are filled
_AT_ONCE = 2**18  # cells that are checked at a time: a check needs no table of its own
_drawing = RLock()
if hasattr(os, "register_at_fork"):  # not to be held for ever where its holder is not
    os.register_at_fork(
        before=_drawing.acquire,
        after_in_parent=_drawing.release,
        after_in_child=_drawing.release,
    )


class Posterior(Protocol):
    """What an update releases; everything done with it is post-processing."""

    @property
    def mean(self) -> FloatArray:
        """Expected probabilities, shape (..., K), each row summing to 1."""

    def sample(self, rng: np.random.Generator) -> FloatArray:
        """Return probabilities, shape (..., K), each row summing to 1."""


class Sampler(Protocol):
    """Turn new counts into a private posterior, and say what that costs."""

    @property
    def cost(self) -> Cost | None:
        """The cost of the next update; None if it is free."""

    def fresh(self) -> Self:
        """Return a sampler with the same settings that has seen nothing."""

    def check(self, counts: FloatArray) -> None:
        """Raise ValueError if these counts cannot be an update; change nothing."""

    def invalidate(self) -> None:
        """Refuse all further updates."""

    def update(self, counts: FloatArray, rng: np.random.Generator) -> Posterior:
        """Add a batch of counts, shape (..., K), to those before and release the posterior.

        Call it through `draw`, which checks the counts and tells the accountant.
        """


class Register(Protocol):
    """Where the draws of a run are entered: none is made twice of other data."""

    def place_of(self, batches: Sequence[FloatArray]) -> Place:
        """Return the place of the next draw, which is of these batches.

        Raises
        ------
        OSError
            If it was entered of other data, or cannot be looked up.
        """


def draw(
    accountant: Accountant,
    updates: Sequence[tuple[Sampler, ArrayLike]],
    rng: np.random.Generator | None = None,
) -> list[Posterior]:
    """Release several tables of the same data: check, tell the accountant, then update.

    Parameters
    ----------
    accountant : Accountant
        Is charged for all updates at once, before any of them is made.
    updates : sequence of (sampler, counts)
        Each sampler with its new batch of counts, shape (..., K).
    rng : numpy.random.Generator or None
        Where the randomness comes from; None is secret. A seed is refused: each draw of a run would
        have the noise of the one before.

    Returns
    -------
    list of Posterior
        One for each update.

    Raises
    ------
    BudgetExceeded
        If the accountant's budget does not cover the updates; then none is made.
    ValueError
        If a sampler refuses its counts or is named twice, or ``rng`` is neither of these; then
        nothing is spent and no update is made.

    Notes
    -----
    If anything else interrupts the draw, out of memory, say, or Ctrl-C, the samplers of the call
    are invalidated: what was paid is lost, and they refuse all further updates.

    One thread at a time draws: what a sampler says that it costs is still so when it is updated.
    """
    return Draw(accountant, updates, rng).make()


class Draw:
    """What `draw` does, for those who need to know how far it came.

    Parameters
    ----------
    accountant, updates, rng
        As for `draw`.
    register : Register, optional
        Where the draw is entered before it is made, and where its randomness comes from then.
    note : callable, optional
        Is told what will be charged, just before it is; None if nothing is. What a sampler costs
        is asked once: who asks again may hear something else.
    """

    def __init__(
        self,
        accountant: Accountant,
        updates: Sequence[tuple[Sampler, ArrayLike]],
        rng: np.random.Generator | None = None,
        register: Register | None = None,
        *,
        note: Callable[[Cost | None], None] | None = None,
    ) -> None:
        self._note = note
        self._accountant, self._updates, self._register = accountant, updates, register
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
            self._release = self._prepared()
            return self._release.make()

    def _prepared(self) -> Release[list[Posterior]]:
        checked = [(sampler, _owned(counts)) for sampler, counts in self._updates]
        if len({id(_holder(sampler)) for sampler, _ in checked}) < len(checked):
            raise ValueError(
                "updates must name each sampler once, also where a reward model holds it: its "
                "first update may refuse the second one, when all are paid; draw once for each."
            )
        for sampler, batch in checked:
            sampler.check(batch)
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


def _holder(sampler: object) -> object:
    """Return the sampler that holds the counts, if a reward model has one inside."""
    while (inside := getattr(sampler, "_sampler", None)) is not None:
        sampler = inside
    return sampler


def _owned(counts: ArrayLike) -> FloatArray:
    """Return numbers that nobody writes to: a copy, unless they are their own and read-only."""
    if (
        isinstance(counts, np.ndarray)
        and type(counts) is np.ndarray  # none that is masked
        and counts.dtype == np.float64
        and counts.base is None
        and not counts.flags.writeable
    ):
        return counts
    return check_numbers("counts", counts)


class PaidSampler(ABC):
    """What samplers share that go on with what they have been paid for.

    ``_done`` counts the updates; a subclass sets everything that it remembers in ``_forget``, and
    in ``_cost`` what is charged.
    """

    remembered: ClassVar[tuple[str, ...]] = ("_done", "_spoiled")
    _numbers: ClassVar[tuple[str, ...]]  # the arrays of which each run has an entry of its own
    _alpha: FloatArray
    _cost: Cost
    _done: int
    _used_in: tuple[int, int]
    _spoiled: bool

    @property
    def alpha(self) -> FloatArray:
        """Prior pseudo-count of every cell, one number or one for each run; read-only."""
        return self._alpha

    @abstractmethod
    def _goes_with(self, other: "PaidSampler") -> bool:
        """Whether runs of both can be side by side: all but their numbers is the same."""

    def _forget(self) -> None:
        self._done, self._spoiled = 0, False

    def fresh(self) -> Self:
        """Return a sampler with the same settings that has seen nothing."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._forget()
        return other

    def invalidate(self) -> None:
        """Refuse all further updates: one of a draw that they belonged to has failed."""
        self._spoiled = True

    def restored(self) -> None:
        """Go on in this process, from where a checkpoint was made."""
        self._used_in = this_process()

    def _check_unspoiled(self) -> None:
        if not self._done:
            self._used_in = this_process()  # until then it is settings alone
        elif self._used_in != this_process():
            raise ValueError(
                f"sampler must be used in one process, got {shown(self)} after {self._done} "
                "updates in "
                "another: two that go on from there share their noise. sampler.fresh() has its "
                "settings, and pays anew."
            )
        if self._spoiled:
            raise ValueError(
                f"sampler must not be used after a draw that failed midway, got {shown(self)}; "
                "start again with sampler.fresh(), which pays anew."
            )

    def __copy__(self) -> Self:
        if self._done:
            raise ValueError(
                f"sampler must not be copied after its first update, got {shown(self)} after "
                f"{self._done}; sampler.fresh() has its settings, and pays anew."
            )
        return self.fresh()

    def __deepcopy__(self, memo: object) -> Self:
        return self.__copy__()

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        if self._done:  # two that go on from one pickle would share their noise
            raise ValueError(
                f"sampler must not be pickled after its first update, got {shown(self)} after "
                f"{self._done}; sampler.fresh() has its settings, and pays anew."
            )
        return super().__reduce_ex__(protocol)


Paid = TypeVar("Paid", bound=PaidSampler)


def stack(samplers: Sequence[Paid]) -> Paid:
    """Put samplers side by side on a leading axis: independent runs in one array program.

    Parameters
    ----------
    samplers : sequence of samplers
        One for each row, unused: all of them Dirichlet samplers of one window, or all of them
        `NoisyCounts` that differ in sigma and alpha only.

    Returns
    -------
    sampler
        Of the first one's kind, for counts of shape ``(len(samplers), ..., K)``; its cost is a
        `BatchCost`.

    Raises
    ------
    ValueError
        If there is none, one has been used or is itself a stack, or they do not go together.
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
                "samplers must be of one kind, with one window, one number of updates, one "
                f"factorisation, one threshold and the same loops, got {shown(samplers)}."
            )
    for name in made._numbers:
        setattr(made, name, frozen(np.array([getattr(sampler, name) for sampler in samplers])))
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
        Shape of the batches before, if there were any.
    past : sequence of arrays
        Batches, or their sum, to which this one will be added.

    Raises
    ------
    ValueError
        If a count is negative, not finite or between two multiples of the grid, a sum too large
        to be exact, or the shape not that of the runs or of the batches before.
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
            f"counts must have the same shape as the batches before, {before}, got {counts.shape}."
        )
    _checked(counts, past, GRID, LARGEST_TOTAL)


def _check_cells(counts: FloatArray, past: Sequence[FloatArray], grid: float, total: float) -> bool:
    """Check what is added to cells, and what was before, see `check_batch`; return True."""
    del grid, total  # its compiled twin is told of them
    flat = [table.reshape(-1) for table in (counts, *past)]
    for start in range(0, counts.size, _AT_ONCE):
        parts = [table[start : start + _AT_ONCE] for table in flat]
        if counts.size > _SMALL:  # where few are filled; an empty cell changes no sum
            filled = np.flatnonzero(parts[0] != 0)
            parts = [part[filled] for part in parts]
        _check_amounts(*parts)
    return True


_checked = Compiled(_check_cells, "fit")


def _check_amounts(new: FloatArray, *past: FloatArray) -> None:
    """Check what is added to some cells, and what was before, see `check_batch`."""
    if not new.size:
        return
    new = np.asarray(new, np.float64)  # float16 does not hold the limits below
    largest = new.max()
    if not (new.min() >= 0 and largest < np.inf):  # nor is NaN
        raise ValueError("counts must be >= 0 and finite everywhere; check what was counted.")
    check_total(largest)
    steps = new * (1 / GRID)
    if (steps != np.rint(steps)).any():
        raise ValueError(
            "counts must be multiples of 2**-16 everywhere, so that their sums are exact; round "
            "what each record adds to them."
        )
    if past:
        check_total(sum(past, start=new).max())


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


def check_sampler(name: str, sampler: object) -> None:
    """Check that something is a sampler."""
    check_does(name, sampler, "a sampler, such as NoisyCounts", "fresh", "check", "update")


def check_table(name: str, sampler: Sampler, table: str) -> None:
    """Check that what a sampler's updates cost is stated for the table it is used for.

    Raises
    ------
    ValueError
        If its cost is of another table of the relation.
    """
    check_sampler(name, sampler)
    cost = sampler.fresh().cost  # a used one may not tell what it has paid for
    stated = tables_released(cost) if cost is not None else set()
    damped = stated & {DAMPED, DAMPED_REWARDS}
    if damped and getattr(sampler, "loops", None) is None:
        raise ValueError(
            f"{name} must damp the self-loops if its cost is stated for the table "
            f"{shown(damped.pop())}; NoisyCounts does where it is given loops."
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


def lead(values: FloatArray, ndim: int) -> FloatArray:
    """Append axes so that those of ``values`` become the leading ones of ``ndim``."""
    return values.reshape(values.shape + (1,) * (ndim - values.ndim))


def frozen(values: FloatArray) -> FloatArray:
    """Return a read-only copy: what was accounted for is what is drawn."""
    copied = values.copy()
    copied.flags.writeable = False
    return copied
