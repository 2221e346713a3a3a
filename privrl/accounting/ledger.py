"""The ledger: which data sets there are, what was spent of each, and what may be.

All that is known follows from the entries, in their order; nothing else is in the file. A state is
what they say up to one of them. It is never written to: a thread that enters something makes
another one, and what it knew before is brought up to date within each transaction.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Self

import numpy as np

from privrl.accounting.amounts import (
    Amount,
    alone_of,
    amount_of,
    curve_from_bytes,
    curve_of,
    pure_of,
)
from privrl.accounting.budgets import Budget, strictest
from privrl.accounting.journal import KeepsJournal, one_at_a_time
from privrl.accounting.ledger_file import (
    LedgerError,
    LedgerFile,
    Row,
    Transaction,
    content_of,
    damaged,
    default_path,
    digest_of,
    link_of,
    relation_key,
    start_of,
)
from privrl.accounting.names import check_line, check_name, one_spelling
from privrl.accounting.rdp import BudgetExceeded, RdpAccountant
from privrl.accounting.targets import DEFAULT_DELTA, ApproxDP, PureDP
from privrl.costs.base import Cost, check_cost, check_delta
from privrl.costs.relations import Relation, check_relation
from privrl.files.fixed import fixed
from privrl.files.sharing import judge_alone
from privrl.files.shown import shown
from privrl.numerics.checks import check_count, check_is
from privrl.numerics.printing import up
from privrl.numerics.special import FloatArray

_UNNAMED: Final = "data-"  # begins the names of data sets that were given none
_SHORT: Final = 12  # characters of a digest in them
_SHOWN: Final = 200  # characters of a cost
_SLACK: Final = timedelta(minutes=1)  # by which clocks are set all the time

Budgets = Mapping[str | None, Budget]  # by relation; None stands for every other one
Key = tuple[str, str]  # a data set's name, and a digest of a relation


@dataclass(frozen=True)
class DataSet:
    """Which data a release is of.

    Attributes
    ----------
    name : str
        By which budgets and totals are kept, in the one spelling that all equal names have.
    content : str, optional
        The keyed digest of the file that was read.
    """

    name: str
    content: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", check_name("dataset", self.name))


@dataclass(frozen=True)
class Account:
    """What was spent of one data set under one relation, and what may be.

    Attributes
    ----------
    dataset : str
        The data set's name.
    relation : str
        Which data sets are neighbours, in words.
    total : Amount
        Of all releases so far.
    budget : Budget or None
        What they may cost together; None where nothing says.
    first, last : datetime
        When releases were entered, in UTC.
    """

    dataset: str
    relation: str
    total: Amount
    budget: Budget | None
    first: datetime
    last: datetime


@dataclass(frozen=True)
class Receipt:
    """What was entered: its number, what was spent before and after it, and what it cost itself."""

    number: int
    dataset: str
    before: Amount
    after: Amount
    budget: Budget | None
    amount: Amount

    @property
    def is_named(self) -> bool:
        """Whether the data set has a name that was given to it, and not one made of the data."""
        return not self.dataset.startswith(_UNNAMED)


@dataclass(frozen=True)
class EnteredDraw:
    """A draw of an agent that was saved, as it was entered.

    Attributes
    ----------
    digest : str
        Of all that the draw depends on, under a key of the agent.
    nonce : str
        A random number of this entry: no other entry has it, of no ledger.
    """

    digest: str
    nonce: str


@dataclass(frozen=True)
class _State:
    """What the entries say, up to one of them."""

    salt: bytes
    orders: tuple[float, ...]
    start: str
    number: int
    link: str
    time: datetime | None = None
    accounts: Mapping[Key, Account] = field(default_factory=dict)
    # Of each name, by the spellings of earlier versions, which kept them apart; and by relation.
    budgets: Mapping[str, Mapping[str, Budgets]] = field(default_factory=dict)
    contents: Mapping[str, str] = field(default_factory=dict)
    draws: Mapping[tuple[str, int], EnteredDraw] = field(default_factory=dict)

    def budget(self, dataset: str, relation: str | None) -> Budget | None:
        """Return that of a relation, or else the one for every relation.

        Of a name with several spellings it is within each of their budgets, and there is none where
        one spelling has none for the relation.
        """
        each = [
            said.get(relation, said.get(None)) for said in self.budgets.get(dataset, {}).values()
        ]
        known = [budget for budget in each if budget is not None]
        return strictest(known) if known and len(known) == len(each) else None

    def relations(self, dataset: str) -> tuple[str | None, ...]:
        """Return the relations under which a name has a budget; None stands for every other."""
        spellings = self.budgets.get(dataset, {}).values()
        return tuple(dict.fromkeys(relation for said in spellings for relation in said))

    def with_budget(self, entry: Mapping[str, Any]) -> Self:
        """Return what the entries say together with one of a budget."""
        name, relation = one_spelling(entry["dataset"]), entry["relation"]
        before, budget = self.budgets.get(name, {}), Budget.from_plain(entry)
        if entry.get("one_spelling"):  # it was said of all of them
            whole = {each: self.budget(name, each) for each in self.relations(name)}
            kept = {each: known for each, known in whole.items() if known is not None}
            spellings: Mapping[str, Budgets] = {name: {**kept, relation: budget}}
        else:
            own = entry["dataset"]
            spellings = {**before, own: {**before.get(own, {}), relation: budget}}
        return replace(self, budgets={**self.budgets, name: spellings})

    @property
    def names(self) -> set[str]:
        """Every name under which something was entered."""
        return {name for name, _ in self.accounts} | set(self.budgets)


class Ledger:
    """A memory of spends in a file, for all processes and threads that open it.

    Parameters
    ----------
    path : Path or str, optional
        The file, which the first entry makes. By default that of the environment variable
        ``PRIVRL_LEDGER``, or ``privrl/ledger.sqlite`` in ``$XDG_STATE_HOME``, by default
        ``~/.local/state``.

    Notes
    -----
    Every method that looks at the file raises `LedgerError` where it cannot be read, was altered,
    or is of another version; every one that enters something also where it cannot be written, or
    where the clock says that it is earlier than the last entry. Nothing is entered or drawn then.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from privrl.accounting import ApproxDP
    >>> from privrl.models import histogram
    >>> ledger = Ledger(tempfile.mkdtemp() + "/ledger.sqlite")
    >>> ledger.set_budget("ages", Budget(1.0, 1e-5))
    >>> rng, target = np.random.default_rng(0), ApproxDP(1.0, 1e-5)
    >>> ages, once = rng.normal(40, 15, 5000), ledger.accountant("ages")
    >>> released = histogram(ages, 4, (0, 80), target=target, rng=rng, accountant=once)
    >>> again = Ledger(ledger.path).accountant("ages")  # in another process, on another day
    >>> histogram(ages, 4, (0, 80), target=target, rng=rng, accountant=again)
    Traceback (most recent call last):
    ...
    privrl.accounting.rdp.BudgetExceeded: ...
    """

    path: Path = fixed()

    def __init__(self, path: Path | str | None = None) -> None:
        # Absolute, lest another folder, or a process that starts in one, has a ledger of its own.
        self.path = (default_path() if path is None else Path(path)).absolute()
        self._file = LedgerFile(self.path)
        self._state: _State | None = None

    def __reduce__(self) -> tuple[type["Ledger"], tuple[Path]]:
        return type(self), (self.path,)

    @property
    def is_there(self) -> bool:
        """Whether something was ever entered."""
        return self._file.is_there

    def dataset(self, data: Path, name: str | None = None) -> DataSet:
        """Return which data set a file is, or a folder of files.

        Parameters
        ----------
        data : pathlib.Path
            What is read; one byte changed makes other data of it.
        name : str, optional
            What it is called, for data that grow or come in several files. By default what they
            were entered as, or ``data-`` and a part of the digest.

        Raises
        ------
        ValueError
            If the data were entered under another name, or the name is none, or the data can be
            read only once and have none.
        OSError
            If they cannot be read.
        """
        check_is("data", data, Path)
        if name is not None:
            name = check_name("dataset", name)
        state = self._opened()
        if name is not None and not (data.is_file() or data.is_dir()):
            return self._checked(state, DataSet(name))
        content = content_of(data, state.salt)
        known = state.contents.get(content, f"{_UNNAMED}{content[:_SHORT]}")
        return self._checked(state, DataSet(known if name is None else name, content))

    def accountant(
        self,
        dataset: DataSet | str,
        relation: Relation | None = None,
        *,
        delta: float | None = None,
        about: str | None = None,
    ) -> "LedgerAccountant":
        """Return an accountant that enters all that it is charged with.

        Parameters
        ----------
        dataset : DataSet or str
            Of which data, or what they are called.
        relation : Relation, optional
            Which data sets are neighbours; by default as the first cost says.
        delta : float, optional
            At which epsilon is told: for a single release by its own privacy profile.
        about : str, optional
            What is released, in public words of up to 100 characters, such as ``"histogram of
            age"``; entries show it.
        """
        chosen = dataset if isinstance(dataset, DataSet) else DataSet(dataset)
        return LedgerAccountant(self, chosen, relation, delta=delta, about=about)

    def spend(
        self,
        dataset: DataSet,
        cost: Cost,
        count: int = 1,
        *,
        delta: float | None = None,
        about: str | None = None,
    ) -> Receipt:
        """Enter that a cost is spent so many times; once this returns, it is on disk.

        ``about`` says what is released, see `accountant`.

        Raises
        ------
        BudgetExceeded
            If there is a budget that does not cover it; then nothing is entered.
        ValueError
            If an argument is wrong, or the data are known under another name.
        LedgerError
            If it cannot be entered.
        """
        check_is("dataset", dataset, DataSet)
        check_cost(cost)
        if about is not None:
            check_line("about", about)
        count = check_count("count", count)
        alone = alone_of(cost, count, None if delta is None else check_delta(delta))
        relation, pure = cost.relation, pure_of(cost)
        key = dataset.name, relation_key(relation)
        # What takes long is worked out before others have to wait.
        curve = curve_of(cost, self._opened().orders).astype("<f8").tobytes()
        with self._writing() as (transaction, current):
            state = current
            self._checked(state, dataset)
            entry = {
                "what": "spend",
                "time": self._now(state),
                "dataset": dataset.name,
                "content": dataset.content,
                "relation": str(relation),
                "relation_key": key[1],
                "cost": _cut(" ".join(repr(cost).split())),
                "count": count,
                "about": about,
                "pure": None if pure is None else str(pure),
                "alone": alone,
                "curve": digest_of(curve),
            }
            before = state.accounts.get(key)
            total = Amount.nothing(state.orders) if before is None else before.total
            amount = _amount(entry, curve, state.orders)
            after = total + amount
            budget = self._check_budget(state, entry, total, after, cost)
            transaction.add_curve(curve)
            state = _after(state, transaction.add(state.link, state.number + 1, entry), transaction)
        self._state = state
        return Receipt(state.number, dataset.name, total, after, budget, amount)

    def set_budget(
        self,
        dataset: str,
        budget: Budget | ApproxDP | PureDP,
        relation: Relation | str | None = None,
    ) -> None:
        """Enter what may be spent of a data set, in place of what was said before.

        Parameters
        ----------
        dataset : str
            What the data set is called.
        budget : Budget, ApproxDP or PureDP
            What all of its releases may cost together, those before among them.
        relation : Relation or str, optional
            Under which relation. By default under each that has no budget of its own, one by one.
        """
        chosen = DataSet(dataset)
        budget = Budget.of(budget)
        if relation is not None:
            check_is("relation", relation, Relation, str)
        with self._writing() as (transaction, current):
            state = current
            self._checked(state, chosen)
            entry = {
                "what": "budget",
                "time": self._now(state),
                "dataset": chosen.name,
                "one_spelling": True,
                "relation": None if relation is None else str(relation),
                **budget.to_plain(),
            }
            state = _after(state, transaction.add(state.link, state.number + 1, entry), transaction)
        self._state = state

    @property
    def identity(self) -> str:
        """What tells this ledger from all others; if there is no file, there is one then."""
        return self._opened().start

    @property
    def head(self) -> tuple[int, str]:
        """The number of the last entry, and its link; 0 and `identity` where there is none."""
        state = self._opened()
        return state.number, state.link

    @property
    def orders(self) -> tuple[float, ...]:
        """The Rényi orders at which it adds costs up."""
        return self._opened().orders

    def holds(self, number: int, link: str) -> bool:
        """Whether an entry that was the `head` once is there."""
        with self._file.reading() as transaction:
            if number == 0:
                return start_of(*transaction.meta()) == link
            return [row[3] for row in transaction.rows(number)[:1]] == [link]

    def drawn(self, agent: str, number: int) -> EnteredDraw | None:
        """Return what was entered of an agent's numbered draw; None if it was not made.

        See `enter_draw`.
        """
        return self._read().draws.get((agent, number))

    def enter_draw(
        self, agent: str, number: int, digest: str, charge: Callable[[], None] | None = None
    ) -> EnteredDraw:
        """Enter that an agent makes a numbered draw, of data with this (keyed) digest.

        An agent that was saved may be restored more than once. In one ledger, no two of them make a
        draw of the same number of different data.

        Parameters
        ----------
        agent : str
            What the agent is called here.
        number : int
            How many draws it made before.
        digest : str
            Of all that the draw depends on.
        charge : callable, optional
            Is called before the entry is final. If it raises, nothing is entered. It must not use
            this ledger.

        Raises
        ------
        LedgerError
            If a draw of this number was entered, or this one cannot be.
        """
        with self._writing() as (transaction, current):
            state = current
            if (agent, number) in state.draws:
                raise drawn_twice(number)
            entry = {
                "what": "draw",
                "time": self._now(state),
                "agent": agent,
                "draw": number,
                "digest": digest,
            }
            state = _after(state, transaction.add(state.link, state.number + 1, entry), transaction)
            if charge is not None:
                charge()
        self._state = state
        return state.draws[agent, number]

    def account(self, dataset: str, relation: Relation) -> Account | None:
        """Return what was spent of a data set under a relation; None if nothing was."""
        check_is("dataset", dataset, str)
        state = self._read()
        found = state.accounts.get((one_spelling(dataset), relation_key(relation)))
        return None if found is None else _with_budget(found, state)

    def accounts(self) -> tuple[Account, ...]:
        """Return what was spent of each data set under each relation, in order of first entry."""
        state = self._read()
        return tuple(_with_budget(each, state) for each in state.accounts.values())

    def budgets(self) -> Mapping[tuple[str, str | None], Budget]:
        """Return what may be spent, by data set and relation; None stands for every other one."""
        state, known = self._read(), {}
        for name, spellings in state.budgets.items():
            for relation in state.relations(name):
                said = [each[relation] for each in spellings.values() if relation in each]
                known[name, relation] = strictest(said)
        return MappingProxyType(known)

    def entries(self) -> tuple[dict[str, Any] | None, ...]:
        """Return all entries as plain data; None for those that were forgotten."""
        with self._reading() as (transaction, _):
            return tuple(
                None if text is None else _named(json.loads(text)) | {"number": number}
                for number, text, *_ in transaction.rows(1)
            )

    def amounts(self, dataset: str) -> dict[int, Amount]:
        """Return what each release of a data set cost by itself, by the number of its entry.

        Empty where none was entered.
        """
        check_is("dataset", dataset, str)
        found, name = {}, one_spelling(dataset)
        with self._reading() as (transaction, state):
            for number, text, *_ in transaction.rows(1):
                entry = {} if text is None else _named(json.loads(text))
                if entry.get("what") == "spend" and entry["dataset"] == name:
                    curve = transaction.curve(entry["curve"])
                    found[number] = _amount(entry, curve, state.orders)
        return found

    def forget(self, dataset: str) -> int:
        """Erase all entries of a data set, budgets too, and return how many they were.

        For data that exist no more. What was spent of them is not known from then on. That
        entries were there stays, and so do the links between all others.

        Raises
        ------
        ValueError
            If there is no such data set.
        """
        check_is("dataset", dataset, str)
        with self._writing() as (transaction, state):
            parsed = {
                number: _named(json.loads(text))
                for number, text, *_ in transaction.rows(1)
                if text is not None
            }
            name = one_spelling(dataset)
            gone = [n for n, entry in parsed.items() if entry.get("dataset") == name]
            if not gone:
                raise ValueError(f"dataset must be one of the ledger's, got {shown(dataset)}.")
            kept = {parsed[n]["curve"] for n in parsed if n not in gone and "curve" in parsed[n]}
            entry = {"what": "forget", "time": self._now(state), "entries": gone}
            transaction.add(state.link, state.number + 1, entry)
            transaction.erase(gone, kept)
        self._state = None
        return len(gone)

    def verify(self, against: Mapping[str, Any] | None = None) -> tuple[int, str]:
        """Check all that can be checked, and return how many entries there are and the head.

        Parameters
        ----------
        against : mapping, optional
            An earlier export, whose head must be the link of an entry here. Without it, entries
            that were cut off at the end are not missed, nor is a file that was made anew.

        Raises
        ------
        LedgerError
            If something was altered.
        """
        if against is not None:
            check_is("against", against, Mapping)
        with self._file.reading() as transaction:
            transaction.check_pages()
            state = _whole(transaction, self.path)
            if against is not None:
                links = [state.start, *(link for *_, link in transaction.rows(1))]
                number, head = against.get("number"), against.get("head")
                if type(number) is not int or not isinstance(head, str) or number < 0:
                    raise ValueError("against must be an export of a ledger, with number and head.")
                if number >= len(links) or links[number] != head:
                    raise damaged(
                        self.path,
                        f"the head of the export, of {number} entries, is not among its links, so "
                        "entries were cut off or made anew",
                    )
        return state.number, state.link

    def export(self) -> dict[str, Any]:
        """Return all entries as plain data, with the head of their chain, and without the salt."""
        with self._file.reading() as transaction:
            state = _whole(transaction, self.path)
            rows = transaction.rows(1)
            digests = {json.loads(text).get("curve") for _, text, *_ in rows if text is not None}
            curves = {
                digest: np.frombuffer(transaction.curve(digest), "<f8").tolist()
                for digest in sorted(digests - {None})
            }
        return {
            "what": "privrl ledger",
            **judge_alone("ledger.sqlite").said,
            "number": state.number,
            "head": state.link,
            "start": state.start,
            "orders": list(state.orders),
            "curves": {
                digest: [value if value < np.inf else None for value in curve]
                for digest, curve in curves.items()
            },
            "entries": [
                {"number": number, "text": text, "commitment": commitment, "link": link}
                for number, text, commitment, link in rows
            ],
        }

    def _read(self) -> _State:
        with self._reading() as (_, state):
            self._state = state
        return state

    def _opened(self) -> _State:
        """Return what the entries say; if there is no file, there is one then."""
        if self.is_there:
            return self._read()
        with self._writing() as (_, state):
            self._state = state
        return state

    @contextmanager
    def _reading(self) -> Iterator[tuple[Transaction, _State]]:
        # Known before: another thread may enter something while this one's view is older.
        known = self._state
        with self._file.reading() as transaction:
            yield transaction, self._current(transaction, known)

    @contextmanager
    def _writing(self) -> Iterator[tuple[Transaction, _State]]:
        known = self._state
        with self._file.writing() as transaction:
            yield transaction, self._current(transaction, known)

    def _current(self, transaction: Transaction, state: _State | None) -> _State:
        """Return what all entries say, of which those that were read before are still there."""
        if state is None or not state.number:
            return _whole(transaction, self.path)
        found = transaction.rows(state.number)
        if not found or found[0][3] != state.link:
            raise damaged(self.path, f"entry {state.number} was there before, and is not any more")
        new = found[1:]
        if any(text is None or '"forget"' in text for _, text, *_ in new):
            return _whole(transaction, self.path)
        for row in new:
            state = _after(state, row, transaction)
        return state

    @staticmethod
    def _now(state: _State) -> str:
        now, last = _clock(), state.time
        if last is not None and now < last - _SLACK:
            raise LedgerError(
                f"the clock says {now:%Y-%m-%d %H:%M} (UTC), and the ledger's last entry is of "
                f"{last:%Y-%m-%d %H:%M}; nothing was entered or drawn. Set the clock right. If it "
                "was wrong then, go on with a new ledger, with budgets of what is left."
            )
        return (now if last is None else max(now, last)).isoformat(timespec="microseconds")

    @staticmethod
    def _checked(state: _State, dataset: DataSet) -> DataSet:
        """Check that a name is one, and that data have only one."""
        name, content, names = dataset.name, dataset.content, state.names
        known = None if content is None else state.contents.get(content)
        if known is not None and known != name:
            raise ValueError(
                f"dataset must be {shown(known)}, as which these data were entered before, got "
                f"{shown(name)}; leave it out, or say so."
            )
        if name not in names:
            alike = sorted(each for each in names if each.casefold() == name.casefold())
            if alike:
                raise ValueError(
                    f"dataset must be {shown(alike[0])}, which the ledger knows, or differ from it "
                    f"in more than upper and lower case, got {shown(name)}."
                )
        unnamed = name.startswith(_UNNAMED) and name not in names
        if unnamed and (content is None or name != f"{_UNNAMED}{content[:_SHORT]}"):
            raise ValueError(
                f"dataset must be one that the ledger knows where it begins with {_UNNAMED!r}, got "
                f"{shown(name)}; such names are made from the data."
            )
        return dataset

    @staticmethod
    def _check_budget(
        state: _State, entry: Mapping[str, Any], before: Amount, after: Amount, cost: Cost
    ) -> Budget | None:
        dataset, relation = entry["dataset"], entry["relation"]
        budget = state.budget(dataset, relation)
        if budget is None:
            others = sorted(map(str, state.relations(dataset)))
            if not others:
                return None
            raise BudgetExceeded(
                f"{dataset} has no budget under {shown(relation)}, only under {', '.join(others)}; "
                "nothing was spent. Give it one: privrl ledger budget."
            )
        if budget.admits(after, cost if after.releases == 1 else None):
            return budget
        raise BudgetExceeded(
            f"the release would bring what {dataset} has spent from "
            f"{up(100 * budget.share(before))} % to {up(100 * budget.share(after))} % of its "
            f"budget, {budget}, under {shown(relation)}; nothing was spent. Make it more private, "
            "or release something else."
        )


class LedgerAccountant(KeepsJournal):
    """An accountant whose sums are of all processes and days; `Ledger.accountant` makes it.

    It goes wherever an ``accountant=`` is taken. Its `journal` is what was charged through it;
    `epsilon` is of all that was ever spent of the data set. Copies spend from the same budget.
    """

    def __init__(
        self,
        ledger: "Ledger",
        dataset: "DataSet",
        relation: Relation | None = None,
        *,
        delta: float | None = None,
        about: str | None = None,
    ) -> None:
        super().__init__()
        self._ledger, self._dataset = ledger, dataset
        self._relation = None if relation is None else check_relation(relation)
        self._about = about
        self._delta = None if delta is None else check_delta(delta)
        self._receipt: Receipt | None = None
        self._known: Amount | None = None  # what had been spent when this was charged last

    @property
    def relation(self) -> Relation | None:
        """The neighbouring relation of everything composed; None before the first cost."""
        return self._relation

    @property
    def settings(self) -> tuple[object, ...]:
        """Ledger and data set; its budget is in the ledger, and may change."""
        return self._ledger.identity, self._dataset.name, self._delta

    @property
    def budget(self) -> Budget | None:
        """What may be spent of the data set in all, now; None where nothing says."""
        if not self._ledger.is_there:
            return None
        budgets, name = self._ledger.budgets(), self._dataset.name
        own = None if self._relation is None else budgets.get((name, str(self._relation)))
        return budgets.get((name, None)) if own is None else own

    @property
    def receipt(self) -> "Receipt | None":
        """What was entered last through this accountant; None before the first cost."""
        return self._receipt

    def unlimited(self) -> RdpAccountant:
        """Return an accountant in memory, without charges or a budget, that enters nothing."""
        return RdpAccountant()

    @one_at_a_time
    def compose(self, cost: Cost, count: int = 1) -> None:
        """Enter a cost ``count`` times, before anything that it pays for is drawn.

        Raises
        ------
        BudgetExceeded
            If the data set's budget does not cover all of them; then none is entered.
        LedgerError
            If they cannot be entered.
        ValueError
            If the cost is about another neighbouring relation than the earlier ones or of several
            runs, ``count`` is not a whole number of at least 1, or the data have another name.
        """
        if self._relation is not None and cost.relation != self._relation:
            raise ValueError(
                f"cost must be about the relation {str(self._relation)!r} like those before it, "
                f"got {str(cost.relation)!r}; use another accountant for it."
            )
        self._receipt = self._ledger.spend(
            self._dataset, cost, count, delta=self._delta, about=self._about
        )
        before, known = self._receipt.before, self._known
        if known is not None and not before.covers(known):  # the ledger has forgotten it
            before = known
        self._known = before + self._receipt.amount
        self._relation = cost.relation
        self._book.add(cost, count)

    @one_at_a_time
    def recall(self, cost: Cost) -> None:
        """Take note of a cost that was entered before, by the run that this one resumes.

        Nothing is entered. Without it, this accountant would not know of a draw that is made once
        more, nor under which relation it was paid for.

        Raises
        ------
        LedgerError
            If the ledger cannot be read.
        """
        self._recharge([cost], [1])
        self._book.add(cost, 1)

    def _recharge(self, costs: Sequence[Cost], counts: Sequence[int]) -> None:
        orders = self._ledger.orders
        charged, known = Amount.nothing(orders), self._known
        for cost, count in zip(costs, counts, strict=True):  # in the ledger they are
            charged += amount_of(cost, count, orders, self._delta)
            self._relation = cost.relation
        account = self._account()
        total = Amount.nothing(orders) if account is None else account.total
        there = total.covers(charged) and (known is None or total.covers(known))
        self._known = total if there else Amount.unknown(orders)

    def epsilon(self, delta: float) -> FloatArray:
        """Return epsilon (nats) of all that was spent of the data set, at ``delta`` in (0, 1).

        Under the accountant's relation; at the best order, so that it holds if the costs and the
        number of releases (not the data) were settled beforehand. Where outcomes chose them, the
        guarantee is the budget. What was entered through this
        accountant counts though the ledger forgets it; infinite where nobody knows it any more.
        """
        delta, account, known = check_delta(delta), self._account(), self._known
        totals = [] if account is None else [account.total]
        totals += [] if known is None else [known]
        return np.asarray(max((total.epsilon(delta) for total in totals), default=0.0))

    def _account(self) -> "Account | None":
        if self._relation is None or not self._ledger.is_there:
            return None
        return self._ledger.account(self._dataset.name, self._relation)

    def _spent_in_words(self) -> str:
        delta = DEFAULT_DELTA if self._delta is None else self._delta
        return f"epsilon {up(self.epsilon(delta))} at delta {delta:g} of {self._dataset.name}"


def drawn_twice(number: int) -> LedgerError:
    """Return the error of a draw that was made before, of other data."""
    return LedgerError(
        f"draw {number} of this agent was made before, of other data: it was restored twice, or "
        "from a checkpoint that is older than the draw. Nothing was charged or drawn. Restore the "
        "last checkpoint, once, or begin with an agent that pays anew."
    )


def _whole(transaction: Transaction, path: Path) -> _State:
    """Return what all entries say, having checked every link."""
    salt, data = transaction.meta()
    orders = np.frombuffer(data, "<f8") if len(data) % 8 == 0 else np.array([np.nan])
    if not ((orders > 1) & (orders < np.inf)).all() or not (np.diff(orders) > 0).all():
        raise damaged(path, "its orders are none")
    start = start_of(salt, data)
    state = _State(salt, tuple(orders.tolist()), start, 0, start)
    erased: set[int] = set()
    forgotten: set[int] = set()
    for row in transaction.rows(1):
        try:
            if row[1] is None:
                erased.add(row[0])
            elif (entry := json.loads(row[1])).get("what") == "forget":
                forgotten.update(entry["entries"])
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise damaged(path, f"entry {row[0]} cannot be read") from None
        state = _after(state, row, transaction)
    if not erased <= forgotten:
        raise damaged(path, f"entry {min(erased - forgotten)} was erased and not forgotten")
    return state


def _after(state: _State, row: Row, transaction: Transaction) -> _State:
    """Return what the entries say together with the next one, which is checked."""
    number, text, commitment, link = row
    path = transaction.path
    if number != state.number + 1:
        raise damaged(path, f"entry {state.number + 1} is not there")
    if link != link_of(state.link, str(commitment)):
        raise damaged(path, f"entry {number} does not follow from those before it")
    state = replace(state, number=number, link=link)
    if text is None:
        return state
    if digest_of(str(text).encode("utf-8", "surrogatepass")) != commitment:
        raise damaged(path, f"entry {number} was changed")
    try:
        return _entered(state, json.loads(text), transaction)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise damaged(path, f"entry {number} cannot be read") from None


def _entered(state: _State, entry: Mapping[str, Any], transaction: Transaction) -> _State:
    state = replace(state, time=datetime.fromisoformat(entry["time"]))
    match entry["what"]:
        case "spend":
            return _spent(state, entry, transaction.curve(entry["curve"]))
        case "budget":
            return state.with_budget(entry)
        case "draw":
            key = str(entry["agent"]), check_count("draw", entry["draw"], least=0)
            made = EnteredDraw(str(entry["digest"]), str(entry["nonce"]))
            return replace(state, draws={**state.draws, key: made})
        case "forget":
            return state
    raise ValueError(entry["what"])


def _spent(state: _State, entry: Mapping[str, Any], curve: bytes) -> _State:
    assert state.time is not None
    key = one_spelling(entry["dataset"]), entry["relation_key"]
    before = state.accounts.get(key)
    amount = _amount(entry, curve, state.orders)
    if before is None:
        total = Amount.nothing(state.orders) + amount
        account = Account(key[0], entry["relation"], total, None, state.time, state.time)
    else:
        account = replace(before, total=before.total + amount, last=state.time)
    contents = state.contents
    if entry["content"] is not None:
        contents = {**contents, entry["content"]: key[0]}
    return replace(state, accounts={**state.accounts, key: account}, contents=contents)


def _amount(entry: Mapping[str, Any], curve: bytes, orders: tuple[float, ...]) -> Amount:
    pure = None if entry["pure"] is None else Fraction(entry["pure"])
    alone = None if entry["alone"] is None else (float(entry["alone"][0]), float(entry["alone"][1]))
    once = Amount(orders, curve_from_bytes(curve), pure, 1, alone)
    return once.times(check_count("count", entry["count"]))


def _with_budget(account: Account, state: _State) -> Account:
    return replace(account, budget=state.budget(account.dataset, account.relation))


def _named(entry: dict[str, Any]) -> dict[str, Any]:
    """Return an entry with the one spelling of its data set's name, if it has one."""
    return entry | {"dataset": one_spelling(entry["dataset"])} if "dataset" in entry else entry


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def _clock() -> datetime:
    return datetime.now(UTC)
