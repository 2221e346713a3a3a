"""One release as one transaction: prepared, charged, released.

A release is prepared first: all checks and all computations that can run in advance do so. Then the
accountant is charged, then noise is drawn. If the accountant refuses, nothing has changed. After
any other exception, such as a KeyboardInterrupt or MemoryError, the charge and the draw are
uncertain. Then all parts are invalidated: they refuse all further releases, so no noise and no
record can be used a second time.

Every charge and every release passes `charge` and `release`. That is the release hook: an audit
registers a watcher there (`privrl.audit.replay`). Without an audit nothing is kept.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, Final, Generic, Literal, Protocol, TypeVar

import numpy as np

from privrl.accounting.base import Accountant
from privrl.costs.base import Cost
from privrl.files.chosen import check_payer, paid_by, paying, trial_now
from privrl.files.shown import shown

Released = TypeVar("Released")
Draw = Callable[[Any, np.random.Generator], Released]


class Watcher(Protocol):
    """The release hook of an audit: it sees every charge and makes every release."""

    def charged(self, cost: Cost) -> None:
        """See a cost that an accountant has recorded."""

    def released(
        self,
        who: object,
        cost: Cost | None,
        data: Any,
        rng: np.random.Generator,
        draw: Draw[Released],
    ) -> Released:
        """Make a release of data that were checked and paid for."""


_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def watched_by(watcher: Watcher) -> Iterator[None]:
    """Pass all charges and releases of this thread to a watcher while the block runs."""
    before = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(before)


def charge(accountant: Accountant | None, cost: Cost) -> None:
    """Charge an accountant, if one is given, before a release; it may refuse.

    In a trial of a selection that is the trial's, unless a release that it paid for is being drawn.
    """
    check_payer(accountant)
    if accountant is None:
        return
    if isinstance(accountant, type) or not callable(getattr(accountant, "compose", None)):
        raise ValueError(
            f"accountant must be an accountant, such as RdpAccountant(budget=...), got "
            f"{shown(accountant)}."
        )
    with np.errstate(all="ignore"):  # whatever numpy.seterr says
        accountant.compose(cost)
    watcher = _watcher.get()
    if watcher is not None:
        watcher.charged(cost)


def release(
    who: object, cost: Cost | None, data: Any, rng: np.random.Generator, draw: Draw[Released]
) -> Released:
    """Draw a release of data that were checked and paid for.

    Parameters
    ----------
    who : object
        The mechanism or sampler.
    cost : Cost or None
        Its cost; None if it was paid for before.
    data : array or Cells
        The private data.
    rng : numpy.random.Generator
        The source of randomness.
    draw : callable
        Maps the data and the generator to the released value.
    """
    watcher = _watcher.get()
    if watcher is None:
        return draw(data, rng)
    return watcher.released(who, cost, data, rng, draw)


State = Literal["prepared", "charged", "released", "failed"]
#: The errors with which accountants and ledgers refuse, having changed nothing.
_REFUSALS: Final = (ValueError, OSError)


class Place(Protocol):
    """The place of one draw among all draws of a run, each tied to its data.

    Attributes
    ----------
    taken : bool
        Whether this draw was already entered for the same data: then it is repeated.
    """

    @property
    def taken(self) -> bool:
        """See above."""

    def enter(self, charge: Callable[[], None]) -> None:
        """Enter the draw; ``charge`` is called before the entry is final, and may refuse."""

    def rng(self) -> np.random.Generator:
        """Return the randomness of this draw, which no other draw uses."""

    def leave(self) -> None:
        """Move on to the place of the next draw."""


class Invalidated(Protocol):
    """A stateful part of a release."""

    def invalidate(self) -> None:
        """Refuse all further releases."""


class Release(Generic[Released]):
    """A prepared release; `make` charges and draws it.

    Parameters
    ----------
    accountant : Accountant or None
        Is charged with ``cost`` before anything is drawn.
    cost : Cost or None
        The cost of the release; None if it was paid for before.
    draw : callable
        Draws the release from the given generator. Nothing else in it may fail.
    rng : numpy.random.Generator
        The source of randomness, unless ``place`` provides one.
    parts : sequence
        The parts to invalidate if the release fails.
    place : Place, optional
        The place of the draw in a saved run. It is entered before anything is drawn.

    Attributes
    ----------
    state : str
        ``"prepared"``: nothing was charged or drawn. ``"charged"``: all is paid, now or before.
        ``"released"``: the draw was made. ``"failed"``: the charge and the draw are uncertain.
    """

    def __init__(
        self,
        accountant: Accountant | None,
        cost: Cost | None,
        draw: Callable[[np.random.Generator], Released],
        rng: np.random.Generator,
        *,
        parts: Sequence[Invalidated] = (),
        place: Place | None = None,
    ) -> None:
        self._accountant, self._cost, self._draw, self._rng = accountant, cost, draw, rng
        self._parts, self._place = parts, place
        self.state: State = "prepared"

    def make(self) -> Released:
        """Charge the accountant, draw, and return the released value.

        Raises
        ------
        BudgetExceeded
            If the accountant's budget does not cover the cost; the release is unchanged.
        ValueError, OSError
            If the accountant or the ledger refuses for another reason; likewise.
        """
        try:
            self._pay()
            # Also if a repeated draw is not charged again.
            self.state = "charged"
            place = self._place
            draw = partial(self._draw, self._rng if place is None else place.rng())
            with np.errstate(all="ignore"):  # a warning would tell of the data, an error lose them
                # What it is made of is paid for.
                released = draw() if trial_now() is None else paying(None, draw)
            paid_by(self._accountant, released)
            if place is not None:
                place.leave()
            self.state = "released"
            return released
        except BaseException as error:
            if self.state != "prepared" or not isinstance(error, _REFUSALS):
                self._fail(error)
            raise

    def _pay(self) -> None:
        place = self._place
        # Only an accountant in a file has it: one at a time can write to that and to the places'.
        recall = getattr(self._accountant, "recall", None)
        if place is None:
            self._charge()
        elif recall is None:
            if not place.taken:
                place.enter(self._charge)
            else:  # charges in memory were lost with the process
                self._charge()
        elif not place.taken:
            self._charge()
            place.enter(_nothing)
        elif self._cost is not None:  # already in the file; the accountant may be new
            recall(self._cost)

    def _charge(self) -> None:
        if self._cost is not None:
            charge(self._accountant, self._cost)
        self.state = "charged"

    def _fail(self, error: BaseException) -> None:
        was, self.state = self.state, "failed"
        for each in self._parts:
            each.invalidate()
        if self._accountant is None:
            return
        spent = "was" if was == "charged" else "may have been"
        error.add_note(f"The budget {spent} charged for this release, and nothing was released.")


def _nothing() -> None:
    pass
