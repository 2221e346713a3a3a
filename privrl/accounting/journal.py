"""The journal of an accountant: its charges, their counts and times.

It holds costs, which are public settings, and the times of charging, but no data. The accountant
keeps its own sum; nothing is computed from the journal.
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
from privrl.numerics.printing import setting
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
        The cost; its ``relation`` defines the neighbours.
    count : int
        The number of charges, >= 1.
    first, last : datetime
        When the first and last of them were made, in UTC.
    """

    cost: Cost
    count: int
    first: datetime
    last: datetime


class Journal(Sequence[Entry]):
    """The charges of an accountant in order; printed as a table.

    It is a read-only snapshot. Consecutive costs share an entry if they are the same object, or if
    they are equal and their class guarantees that equal costs cost the same.
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
        """Return the numbers of charges and entries, in words."""
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
        """Return the cells of the table; a long table shows only both ends."""
        if len(self) <= 2 * _ENDS + 1:
            return [_cells(entry) for entry in self]
        between = self[_ENDS:-_ENDS]
        return [
            *(_cells(entry) for entry in self[:_ENDS]),
            ("…", "", "", f"… {between._size} …"),
            *(_cells(entry) for entry in self[-_ENDS:]),
        ]


class Book:
    """The record that an accountant writes; the journal is made from it on request.

    Recording is fast: consecutive costs are compared only on reading, and numbers are kept in an
    array, which the garbage collector does not traverse. An interrupt during recording may lose
    that charge from the journal, and nothing else.
    """

    def __init__(self) -> None:
        self._costs: list[Cost] = []
        self._numbers = array("d")  # of each cost: how often, and when for the first and last time

    def add(self, cost: Cost, count: int) -> None:
        """Record a charge."""
        costs, numbers, now = self._costs, self._numbers, time()
        if len(numbers) > 3 * len(costs):  # left by an interrupt before its cost was added
            del numbers[3 * len(costs) :]
        if costs and costs[-1] is cost and numbers[-3] <= LARGEST_WHOLE - count:
            numbers[-3] += count
            numbers[-1] = now
            return
        numbers.extend((count, now, now))
        costs.append(cost)

    def journal(self) -> Journal:
        """Return the journal."""
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
        """Return each cost in order, with its count and the first and last time."""
        return tuple(self._costs), self._numbers[: 3 * len(self._costs)]

    def write(self, costs: Sequence[Cost], numbers: Iterable[float]) -> None:
        """Replace the record by these charges."""
        self._costs, self._numbers = list(costs), array("d", numbers)

    def copy(self) -> "Book":
        """Return an independent copy."""
        other = Book()
        other._costs, other._numbers = self._costs.copy(), self._numbers[:]
        return other


Keeper = TypeVar("Keeper", bound="KeepsJournal")
Given = ParamSpec("Given")
Returned = TypeVar("Returned")


def one_at_a_time(
    method: Callable[Concatenate[Keeper, Given], Returned],
) -> Callable[Concatenate[Keeper, Given], Returned]:
    """Serialise the decorated methods of an accountant by its lock.

    So checking a cost against the budget and recording it are one step: no cost of another thread
    comes between. Read-only methods are decorated as well, since they update pending sums.
    """

    @wraps(method)
    def alone(self: Keeper, /, *given: Given.args, **named: Given.kwargs) -> Returned:
        with self._lock:
            return method(self, *given, **named)

    return alone


class KeepsJournal(ABC):
    """The common base of accountants: a journal, a lock, and ``repr``.

    Copies and unpickled accountants are independent, each with a new lock.
    """

    _relation: Relation | None

    def __init__(self) -> None:
        self._book = Book()
        self._lock = RLock()
        self._made_in = this_process()

    def _check_made_here(self) -> None:
        """Check that this process created the accountant: charges in other processes are unknown.

        Raises
        ------
        ValueError
            If another process created it.
        """
        if self._made_in != this_process():
            raise ValueError(
                "accountant must be charged in the process that made it, got one that was sent to "
                "another process (n_jobs=, worker pools) or forked: each copy would spend the "
                "whole budget. Use a ledger's accountant, which adds up over processes: "
                "Ledger().accountant(name)."
            )

    def _relation_of(self, cost: Cost) -> Relation:
        """Return a cost's relation, if it is that of the costs before it."""
        relation, ours = cost.relation, self.relation
        if ours is not None and relation is not ours and relation != ours:
            raise ValueError(
                f"cost must be about the relation {str(ours)!r} like those before it, got "
                f"{str(relation)!r}; use another accountant for it."
            )
        return relation

    @one_at_a_time
    def __copy__(self) -> Self:
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._book, other._lock = self._book.copy(), RLock()
        return other

    def __getstate__(self) -> dict[str, Any]:
        """Return a consistent state, without the lock."""
        return {name: value for name, value in vars(copy(self)).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = RLock()

    @property
    @one_at_a_time
    def journal(self) -> Journal:
        """The charges so far, in order: a read-only snapshot."""
        return self._book.journal()

    @property
    def settings(self) -> tuple[object, ...]:
        """The constructor's arguments, for a checkpoint."""
        return (self.budget,)

    @one_at_a_time
    def charges(self) -> tuple[tuple[Cost, ...], tuple[float, ...]]:
        """Return the charges, for a checkpoint: see `resume`."""
        costs, numbers = self._book.charges()
        return costs, tuple(numbers)

    @one_at_a_time
    def resume(self, costs: Sequence[Cost], numbers: Sequence[float]) -> None:
        """Record the charges of another accountant with equal settings, as `charges` returns them.

        Raises
        ------
        BudgetExceeded
            If the budget does not cover them.
        ValueError
            If this accountant was already charged.
        """
        if self._book.charges()[0]:
            raise ValueError(
                "accountant must be one that nothing was charged to yet; make another one."
            )
        self._recharge(costs, [int(count) for count in numbers[::3]])
        self._book.write(costs, numbers)

    def _recharge(self, costs: Sequence[Cost], counts: Sequence[int]) -> None:
        for cost, count in zip(costs, counts, strict=True):
            for _ in range(count):  # one by one, as charged: sums are then bitwise equal
                self.compose(cost)

    @abstractmethod
    def compose(self, cost: Cost, count: int = 1) -> None:
        """Record a cost ``count`` times, or refuse it."""

    @property
    def relation(self) -> Relation | None:
        """The neighbouring relation of everything composed; None before the first cost."""
        return self._relation

    @property
    @abstractmethod
    def budget(self) -> object:
        """The limit on the joint cost of all releases."""

    @abstractmethod
    def unlimited(self) -> "KeepsJournal":
        """Return an accountant of the same kind without charges or a budget."""

    @abstractmethod
    def epsilon(self, delta: float) -> FloatArray:
        """Return epsilon (nats) of all recorded costs, at ``delta`` in (0, 1)."""

    @abstractmethod
    def _spent_in_words(self) -> str:
        """Return the amount spent, in the budget's measure."""

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}: {fact}" for name, fact in self.facts().items())
        return f"<{type(self).__name__} {shown}>"

    def _repr_html_(self) -> str:
        return table(type(self).__name__, self.facts().items())

    def facts(self) -> dict[str, str]:
        """Return the named facts that ``repr`` shows."""
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
    """Return a short form of a cost, without its relation and default values."""
    if type(cost) is Together:
        return " + ".join(map(_words, cost.parts))
    if not (is_fixed(cost) and is_dataclass(cost)):
        return " ".join(repr(cost).split())
    shown = [
        f"{field.name}={_value(field.name, value)}"
        for field in sorted(fields(cost), key=lambda field: field.default is not MISSING)
        if field.repr and field.name != "relation"
        for value in [getattr(cost, field.name)]
        if field.default is MISSING or value != field.default
    ]
    return f"{type(cost).__name__}({', '.join(shown)})"


def _value(name: str, value: object) -> str:
    return setting(name, value) if isinstance(value, float) else " ".join(repr(value).split())


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"
