"""The journal of an accountant: what it was charged, how often and when.

It holds costs, which are public settings, and the times of charging, and no data. What is spent
is the accountant's own sum; nothing is computed from the journal.
"""

from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from datetime import UTC, datetime
from functools import wraps
from threading import RLock
from time import time
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, overload

from privrl.costs.base import Cost, Together, is_fixed
from privrl.costs.relations import Relation
from privrl.files.html import table
from privrl.numerics.checks import LARGEST_WHOLE
from privrl.numerics.processes import this_process
from privrl.numerics.special import FloatArray

_WIDTH = 100  # columns of a table of text
_ENDS = 10  # entries shown of each end of a journal
_TIME = "%Y-%m-%d %H:%M:%S"


@dataclass(frozen=True)
class Entry:
    """A cost, and how often it was charged in a row.

    Attributes
    ----------
    cost : Cost
        What was charged; its ``relation`` says about which neighbours.
    count : int
        How often, >= 1.
    first, last : datetime
        When, in UTC.
    """

    cost: Cost
    count: int
    first: datetime
    last: datetime


class Journal(Sequence[Entry]):
    """What an accountant was charged, in order; shown as a table.

    It is of the moment when the accountant was asked for it, and can be written to by nobody. Costs
    in a row are one entry if they are one object, or equal and of a class whose equal costs
    cost the same.
    """

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._entries = tuple(entries)

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, place: int) -> Entry: ...
    @overload
    def __getitem__(self, place: slice) -> "Journal": ...
    def __getitem__(self, place: int | slice) -> "Entry | Journal":
        found = self._entries[place]
        return Journal(found) if isinstance(found, tuple) else found

    @property
    def _size(self) -> str:
        """How many charges in how many entries, in words."""
        charges, entries = sum(entry.count for entry in self), len(self)
        return f"{charges} charge{'s' * (charges != 1)} in {entries} entr" + (
            "y" if entries == 1 else "ies"
        )

    def __repr__(self) -> str:
        if not self:
            return "Journal: nothing was charged."
        rows = [_HEAD, *self._rows()]
        widths = [max(map(len, column)) for column in zip(*(row[:3] for row in rows), strict=True)]
        left = _WIDTH - sum(widths) - 2 * len(widths)
        lines = [
            f"{count:>{widths[0]}}  {first:<{widths[1]}}  {last:<{widths[2]}}  {_cut(cost, left)}"
            for count, first, last, cost in rows
        ]
        title = _cut(f"Journal: {self._size}, {self._relation}", _WIDTH)
        return "\n".join([title, *(line.rstrip() for line in lines)])

    def _repr_html_(self) -> str:
        caption = f"Journal: {self._size}, {self._relation}" if self else repr(self)
        return table(caption, self._rows(), _HEAD)

    @property
    def _relation(self) -> str:
        return ", ".join(dict.fromkeys(str(entry.cost.relation) for entry in self))

    def _rows(self) -> list[tuple[str, str, str, str]]:
        """Return the cells of the table; of a long one those of both ends."""
        if len(self) <= 2 * _ENDS + 1:
            return [_cells(entry) for entry in self]
        between = self[_ENDS:-_ENDS]
        return [
            *(_cells(entry) for entry in self[:_ENDS]),
            ("…", "", "", f"… {between._size} …"),
            *(_cells(entry) for entry in self[-_ENDS:]),
        ]


class Book:
    """What an accountant writes down as it charges; the journal is made of it when asked for.

    Charging is quick: a cost is compared with the one before when somebody reads, and numbers are
    in an array, which gives a collector of garbage nothing to look at. An interrupt that comes
    while something is written down may leave that out of the journal, and nothing else.
    """

    def __init__(self) -> None:
        self._costs: list[Cost] = []
        self._numbers = array("d")  # of each cost: how often, and when for the first and last time

    def add(self, cost: Cost, count: int) -> None:
        """Write down a charge."""
        costs, numbers, now = self._costs, self._numbers, time()
        if len(numbers) > 3 * len(costs):  # of a cost that an interrupt has kept out
            del numbers[3 * len(costs) :]
        if costs and costs[-1] is cost and numbers[-3] <= LARGEST_WHOLE - count:
            numbers[-3] += count
            numbers[-1] = now
            return
        numbers.extend((count, now, now))
        costs.append(cost)

    def journal(self) -> Journal:
        """Return what is written."""
        entries: list[Entry] = []
        for i, cost in enumerate(self._costs):
            count, first, last = self._numbers[3 * i : 3 * i + 3]
            entry = Entry(cost, int(count), _utc(first), _utc(last))
            before = entries[-1] if entries else None
            if before and is_fixed(cost) and is_fixed(before.cost) and before.cost == cost:
                entries[-1] = replace(before, count=before.count + entry.count, last=entry.last)
            else:
                entries.append(entry)
        return Journal(entries)

    def charges(self) -> "tuple[tuple[Cost, ...], array[float]]":
        """Return costs in order, and of each how often, and when for the first and last time."""
        return tuple(self._costs), self._numbers[: 3 * len(self._costs)]

    def write(self, costs: Sequence[Cost], numbers: Iterable[float]) -> None:
        """Write charges in place of all that is written."""
        self._costs, self._numbers = list(costs), array("d", numbers)

    def copy(self) -> "Book":
        """Return a book that goes on by itself from here."""
        other = Book()
        other._costs, other._numbers = self._costs.copy(), self._numbers[:]
        return other


Keeper = TypeVar("Keeper", bound="KeepsJournal")
Given = ParamSpec("Given")
Returned = TypeVar("Returned")


def one_at_a_time(
    method: Callable[Concatenate[Keeper, Given], Returned],
) -> Callable[Concatenate[Keeper, Given], Returned]:
    """Let one thread at a time into those methods of an accountant that are marked by this.

    So checking a cost against the budget and recording it are one step: no other thread's cost
    comes in between. What only reads is marked too, for it brings sums up to date.
    """

    @wraps(method)
    def alone(self: Keeper, /, *given: Given.args, **named: Given.kwargs) -> Returned:
        with self._lock:
            return method(self, *given, **named)

    return alone


class KeepsJournal(ABC):
    """What accountants share: a journal, a lock, and what they show of themselves.

    What is copied or pickled goes on by itself from there, and has a lock of its own.
    """

    def __init__(self) -> None:
        self._book = Book()
        self._lock = RLock()
        self._made_in = this_process()

    def _check_made_here(self) -> None:
        """Check that this is the process that made it: of what another is charged it knows nothing.

        Raises
        ------
        ValueError
            If it is not.
        """
        if self._made_in != this_process():
            raise ValueError(
                "accountant must be charged in the process that made it, got one that was sent to "
                "another, as n_jobs= and pools of workers do, or is from before a fork: each would "
                "spend the whole budget, and none know of the others. That of a ledger adds up "
                "over processes: Ledger().accountant(name)."
            )

    @one_at_a_time
    def __copy__(self) -> Self:
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._book, other._lock = self._book.copy(), RLock()
        return other

    def __getstate__(self) -> dict[str, Any]:
        """Return all but the lock, as it is at one moment."""
        return {name: value for name, value in vars(copy(self)).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = RLock()

    @property
    @one_at_a_time
    def journal(self) -> Journal:
        """What was charged so far, in order; it is of this moment, and read-only."""
        return self._book.journal()

    @property
    def settings(self) -> tuple[object, ...]:
        """What the accountant was made with, for a checkpoint."""
        return (self.budget,)

    @one_at_a_time
    def charges(self) -> tuple[tuple[Cost, ...], tuple[float, ...]]:
        """Return what was charged, for a checkpoint: see `resume`."""
        costs, numbers = self._book.charges()
        return costs, tuple(numbers)

    @one_at_a_time
    def resume(self, costs: Sequence[Cost], numbers: Sequence[float]) -> None:
        """Record what another accountant like this one was charged, as `charges` has it.

        Raises
        ------
        BudgetExceeded
            If the budget does not cover it.
        ValueError
            If something was charged already.
        """
        if self._book.charges()[0]:
            raise ValueError(
                "accountant must be one that nothing was charged to yet; make another like it."
            )
        self._recharge(costs, [int(count) for count in numbers[::3]])
        self._book.write(costs, numbers)

    def _recharge(self, costs: Sequence[Cost], counts: Sequence[int]) -> None:
        for cost, count in zip(costs, counts, strict=True):
            for _ in range(count):  # one by one, as they came: sums are then the same to the bit
                self.compose(cost)

    @abstractmethod
    def compose(self, cost: Cost, count: int = 1) -> None:
        """Record a cost so many times, or refuse it."""

    @property
    @abstractmethod
    def relation(self) -> Relation | None:
        """The neighbouring relation of everything composed; None before the first cost."""

    @property
    @abstractmethod
    def budget(self) -> object:
        """What may be spent in all."""

    @abstractmethod
    def unlimited(self) -> "KeepsJournal":
        """Return an accountant without charges or a budget that adds costs up as this one does."""

    @abstractmethod
    def epsilon(self, delta: float) -> FloatArray:
        """Return epsilon (nats) of all that was recorded, at ``delta`` in (0, 1)."""

    @abstractmethod
    def _spent_in_words(self) -> str:
        """Return what was spent, as the budget counts it."""

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}: {fact}" for name, fact in self.facts().items())
        return f"<{type(self).__name__} {shown}>"

    def _repr_html_(self) -> str:
        return table(type(self).__name__, self.facts().items())

    def facts(self) -> dict[str, str]:
        """Return what it shows of itself, each under its name."""
        budget = self.budget
        return {
            "spent": self._spent_in_words(),
            "relation": str(self.relation),
            "budget": f"{len(budget)} targets" if isinstance(budget, Sequence) else str(budget),
            "journal": self.journal._size,
        }


_HEAD = ("count", "first (UTC)", "last", "cost")


def _utc(time: float) -> datetime:
    return datetime.fromtimestamp(time, UTC)


def _cells(entry: Entry) -> tuple[str, str, str, str]:
    same_day = entry.first.date() == entry.last.date()
    last = entry.last.strftime(_TIME if not same_day else "%H:%M:%S")
    return str(entry.count), entry.first.strftime(_TIME), last, _words(entry.cost)


def _words(cost: Cost) -> str:
    """Return a cost in short: without its relation, and what is as usual."""
    if type(cost) is Together:
        return " + ".join(map(_words, cost.parts))
    if not (is_fixed(cost) and is_dataclass(cost)):
        return " ".join(repr(cost).split())
    shown = [
        f"{field.name}={_value(value)}"
        for field in sorted(fields(cost), key=lambda field: field.default is not MISSING)
        if field.repr and field.name != "relation"
        for value in [getattr(cost, field.name)]
        if field.default is MISSING or value != field.default
    ]
    return f"{type(cost).__name__}({', '.join(shown)})"


def _value(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else " ".join(repr(value).split())


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"
