"""The ledger: the data sets, their spends and their budgets.

The file holds entries only; everything else follows from them in order. A state sums up the entries
up to one of them. It is immutable: a thread that adds an entry makes a new state, and each
transaction first reads the entries that other processes added.
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
    curve_of_one,
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
from privrl.costs.relations import Relation, check_relation, has_built_in_name, kind_of
from privrl.costs.relations import check_name as check_relation_name
from privrl.files.fixed import fixed
from privrl.files.sharing import judge_alone
from privrl.files.shown import shown
from privrl.numerics.checks import check_count, check_is
from privrl.numerics.printing import exact, up
from privrl.numerics.special import FloatArray

_UNNAMED: Final = "data-"  # prefix of the names of unnamed data sets
_SHORT: Final = 12  # characters of a digest in them
_SHOWN: Final = 200  # characters of a cost
_SLACK: Final = timedelta(minutes=1)  # usual corrections of a clock

Budgets = Mapping[str | None, Budget]  # by relation; None means every other one
Key = tuple[str, str]  # a data set's name, and a digest of a relation


@dataclass(frozen=True)
class DataSet:
    """The data set that a release is computed from.

    Attributes
    ----------
    name : str
        Keys budgets and totals, in the one spelling that all equal names share.
    content : str, optional
        The keyed digest of the file that was read.
    """

    name: str
    content: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", check_name("dataset", self.name))


@dataclass(frozen=True)
class Account:
    """The spends of one data set under one relation, and its budget.

    Attributes
    ----------
    dataset : str
        The data set's name.
    relation : str
        Which data sets are neighbours, in words.
    total : Amount
        The cost of all releases so far.
    budget : Budget or None
        The limit on their joint cost; None if no budget was set.
    first, last : datetime
        When the first and last release were entered, in UTC.
    """

    dataset: str
    relation: str
    total: Amount
    budget: Budget | None
    first: datetime
    last: datetime


@dataclass(frozen=True)
class Receipt:
    """An entry: its number, its own cost, and the totals before and after it."""

    number: int
    dataset: str
    before: Amount
    after: Amount
    budget: Budget | None
    amount: Amount

    @property
    def is_named(self) -> bool:
        """Whether a user named the data set; otherwise its name derives from its content."""
        return _is_named(self.dataset)


@dataclass(frozen=True)
class EnteredDraw:
    """The entry of one draw of a saved agent.

    Attributes
    ----------
    digest : str
        A digest of everything that the draw depends on, keyed by the agent.
    nonce : str
        A random number, unique to this entry across all ledgers.
    """

    digest: str
    nonce: str


@dataclass(frozen=True)
class _State:
    """The content of all entries up to one of them."""

    salt: bytes
    orders: tuple[float, ...]
    start: str
    number: int
    link: str
    time: datetime | None = None
    accounts: Mapping[Key, Account] = field(default_factory=dict)
    # Per name, per spelling (earlier versions distinguished them) and per relation.
    budgets: Mapping[str, Mapping[str, Budgets]] = field(default_factory=dict)
    contents: Mapping[str, str] = field(default_factory=dict)
    draws: Mapping[tuple[str, int], EnteredDraw] = field(default_factory=dict)

    def budget(self, dataset: str, relation: str | None) -> Budget | None:
        """Return the budget for a relation, or else the one for every relation.

        A name with several spellings has the strictest of their budgets, and None if one spelling
        lacks a budget for the relation.
        """
        each = [
            said.get(relation, said.get(None)) for said in self.budgets.get(dataset, {}).values()
        ]
        known = [budget for budget in each if budget is not None]
        return strictest(known) if known and len(known) == len(each) else None

    def spent(self, dataset: str, relation: str) -> Amount:
        """Return the spends under all relations of a name: at least those under each of them.

        Budgets know relations by their names. One built-in name may have several definitions: an
        agent for numbers and one for tables hide the same step, by changes of other tables. The
        name of a kind counts for all of it: earlier versions named no unit of persons.
        """
        total, names = Amount.nothing(self.orders), (relation, kind_of(relation))
        for (name, _), account in self.accounts.items():
            if name == dataset and account.relation in names:
                total += account.total
        return total

    def other_of_kind(self, dataset: str, relation: str) -> str | None:
        """Return another relation of the same kind under which a name has spends, if any.

        None if the relation has its own budget: a budget for each relation is for one of a
        kind, since the same persons may be behind two, and would be protected by neither total.
        """
        spellings, kind = self.budgets.get(dataset, {}).values(), kind_of(relation)
        if all(relation in said for said in spellings):
            return None
        entered = (each.relation for (name, _), each in self.accounts.items() if name == dataset)
        return next((each for each in entered if each != relation and kind_of(each) == kind), None)

    def check_definition(self, dataset: str, relation: Relation) -> None:
        """Check that earlier spends under the name of a relation were under the same changes.

        Raises
        ------
        ValueError
            If not: the budget of the name would be kept with smaller ones.
        """
        own = relation_key(relation)
        for (name, key), account in self.accounts.items():
            if name == dataset and account.relation == str(relation) and key != own:
                raise ValueError(
                    f"relation must have the changes that {shown(account.relation)} had before on "
                    f"{_said(dataset)}, since a budget goes by its name, got others; give it a "
                    "name of its own."
                )

    def relations(self, dataset: str) -> tuple[str | None, ...]:
        """Return the relations for which a name has a budget; None means every other relation."""
        spellings = self.budgets.get(dataset, {}).values()
        return tuple(dict.fromkeys(relation for said in spellings for relation in said))

    def with_budget(self, entry: Mapping[str, Any]) -> Self:
        """Return the state after a budget entry."""
        name, relation = one_spelling(entry["dataset"]), entry["relation"]
        before, budget = self.budgets.get(name, {}), Budget.from_plain(entry)
        if entry.get("one_spelling"):  # for all spellings
            whole = {each: self.budget(name, each) for each in self.relations(name)}
            kept = {each: known for each, known in whole.items() if known is not None}
            spellings: Mapping[str, Budgets] = {name: {**kept, relation: budget}}
        else:
            own = entry["dataset"]
            spellings = {**before, own: {**before.get(own, {}), relation: budget}}
        return replace(self, budgets={**self.budgets, name: spellings})

    @property
    def names(self) -> set[str]:
        """All names with an entry."""
        return {name for name, _ in self.accounts} | set(self.budgets)


class Ledger:
    """A file of privacy spends, shared by all processes and threads that open it.

    Parameters
    ----------
    path : Path or str, optional
        The file, created by the first entry. The default is the environment variable
        ``PRIVRL_LEDGER``, or ``privrl/ledger.sqlite`` in ``$XDG_STATE_HOME``, by default
        ``~/.local/state``.

    Notes
    -----
    Every method that reads the file raises `LedgerError` if the file is unreadable, was altered, or
    has another version. Every method that adds an entry also raises it if the file cannot be
    written, or if the clock is earlier than the last entry. Nothing is entered or drawn then.

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
        # Absolute: the current directory may change.
        self.path = (default_path() if path is None else Path(path)).absolute()
        self._file = LedgerFile(self.path)
        self._state: _State | None = None

    def __reduce__(self) -> tuple[type["Ledger"], tuple[Path]]:
        return type(self), (self.path,)

    @property
    def is_there(self) -> bool:
        """Whether the file exists."""
        return self._file.is_there

    def dataset(self, data: Path, name: str | None = None) -> DataSet:
        """Return the data set of a file or of a folder of files.

        Parameters
        ----------
        data : pathlib.Path
            The file or folder. Changing one byte makes it a different data set.
        name : str, optional
            A name, for data that grow or consist of several files. The default is the name under
            which the data were entered, or ``data-`` and a part of the digest.

        Raises
        ------
        ValueError
            If the data were entered under another name, the name is invalid, or the data can be
            read only once and are unnamed.
        OSError
            If the data cannot be read.
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
        source: Path | None = None,
    ) -> "LedgerAccountant":
        """Return an accountant that enters all its charges in the ledger.

        Parameters
        ----------
        dataset : DataSet or str
            The data set, or its name.
        relation : Relation, optional
            Which data sets are neighbours; by default the relation of the first cost.
        delta : float, optional
            The delta at which epsilon is reported: for a single release by its own privacy profile.
        about : str, optional
            The released quantity, in public words of up to 100 characters, such as ``"histogram of
            age"``; entries show it.
        source : pathlib.Path, optional
            The file or folder of the data set, if it was read in between: a charge is refused if it
            has changed since `dataset`.
        """
        chosen = dataset if isinstance(dataset, DataSet) else DataSet(dataset)
        if source is not None:
            check_is("source", source, Path)
        return LedgerAccountant(self, chosen, relation, delta=delta, about=about, source=source)

    def spend(
        self,
        dataset: DataSet,
        cost: Cost,
        count: int = 1,
        *,
        delta: float | None = None,
        about: str | None = None,
    ) -> Receipt:
        """Enter that a cost is spent ``count`` times. The entry is on disk when this returns.

        ``about`` describes the release, see `accountant`.

        Raises
        ------
        BudgetExceeded
            If the budget does not cover the cost; then nothing is entered.
        ValueError
            If an argument is wrong, or the data are known under another name.
        LedgerError
            If the entry cannot be made.
        """
        check_is("dataset", dataset, DataSet)
        check_cost(cost)
        is_known = has_built_in_name(cost.relation)
        if about is not None:
            check_line("about", about)
        count = check_count("count", count)
        alone = alone_of(cost, count, None if delta is None else check_delta(delta))
        relation, pure = cost.relation, pure_of(cost)
        key = dataset.name, relation_key(relation)
        # The slow part runs before the file is locked.
        curve = curve_of_one(cost, self._opened().orders).astype("<f8").tobytes()
        with self._writing() as (transaction, current):
            state = current
            self._checked(state, dataset)
            if not is_known:
                state.check_definition(dataset.name, relation)
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
            total = state.spent(dataset.name, str(relation))
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
        """Enter the budget of a data set; it replaces any earlier one.

        Parameters
        ----------
        dataset : str
            The name of the data set.
        budget : Budget, ApproxDP or PureDP
            The limit on the joint cost of all its releases, including earlier ones.
        relation : Relation or str, optional
            The relation of the budget. By default the budget holds separately for each relation
            without one.
        """
        chosen = DataSet(dataset)
        budget = Budget.of(budget)
        if isinstance(relation, Relation):
            check_relation_name(relation)
        elif relation is not None:
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
        """The unique identity of this ledger; creates the file if it does not exist."""
        return self._opened().start

    @property
    def head(self) -> tuple[int, str]:
        """The number and link of the last entry; 0 and `identity` if the ledger is empty."""
        state = self._opened()
        return state.number, state.link

    @property
    def orders(self) -> tuple[float, ...]:
        """The Rényi orders at which costs are summed."""
        return self._opened().orders

    def holds(self, number: int, link: str) -> bool:
        """Whether the ledger still holds an entry that was once its `head`."""
        with self._file.reading() as transaction:
            if number == 0:
                return start_of(*transaction.meta()) == link
            return [row[3] for row in transaction.rows(number)[:1]] == [link]

    def drawn(self, agent: str, number: int) -> EnteredDraw | None:
        """Return the entry of an agent's numbered draw; None if the draw was not made.

        See `enter_draw`.
        """
        return self._read().draws.get((agent, number))

    def enter_draw(
        self, agent: str, number: int, digest: str, charge: Callable[[], None] | None = None
    ) -> EnteredDraw:
        """Enter that an agent makes a numbered draw from data with this keyed digest.

        A saved agent may be restored several times. Within one ledger, its copies cannot make the
        same numbered draw from different data.

        Parameters
        ----------
        agent : str
            The agent's identity in this ledger.
        number : int
            The number of its earlier draws.
        digest : str
            A digest of everything that the draw depends on.
        charge : callable, optional
            Called before the entry is final. If it raises, nothing is entered. It must not use this
            ledger.

        Raises
        ------
        LedgerError
            If a draw of this number was already entered, or this one cannot be.
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
        """Return the entry of `accounts` for a data set and a relation; None if nothing was spent.

        As for a budget, the name of the relation counts.
        """
        check_is("dataset", dataset, str)
        key = one_spelling(dataset), str(check_relation(relation))
        found = (each for each in self.accounts() if (each.dataset, each.relation) == key)
        return next(found, None)

    def accounts(self) -> tuple[Account, ...]:
        """Return the spends of each data set under each relation, in order of first entry.

        Relations of one name are added up, as for a budget.
        """
        state, known = self._read(), dict[Key, Account]()
        for (name, _), each in state.accounts.items():
            key = name, each.relation
            before = known.get(key, each)
            first, last = min(before.first, each.first), max(before.last, each.last)
            total, budget = state.spent(*key), state.budget(*key)
            known[key] = replace(each, total=total, budget=budget, first=first, last=last)
        return tuple(known.values())

    def budgets(self) -> Mapping[tuple[str, str | None], Budget]:
        """Return budgets by data set and relation; None means every other relation."""
        state, known = self._read(), {}
        for name, spellings in state.budgets.items():
            for relation in state.relations(name):
                said = [each[relation] for each in spellings.values() if relation in each]
                known[name, relation] = strictest(said)
        return MappingProxyType(known)

    def entries(self) -> tuple[dict[str, Any] | None, ...]:
        """Return all entries as plain data; None for the forgotten ones."""
        with self._reading() as (transaction, _):
            return tuple(
                None if text is None else _named(json.loads(text)) | {"number": number}
                for number, text, *_ in transaction.rows(1)
            )

    def amounts(self, dataset: str) -> dict[int, Amount]:
        """Return the cost of each release of a data set, by the number of its entry.

        Empty if the data set is unknown.
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
        """Erase all entries of a data set, including its budgets, and return their number.

        Use it for data that no longer exist. The ledger then no longer knows their spends. Their
        commitments and the links between all other entries remain.

        Raises
        ------
        ValueError
            If the data set is unknown.
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
        """Check the whole file, and return the number of entries and the link of the last one.

        Parameters
        ----------
        against : mapping, optional
            An earlier export, whose head must be the link of an entry here. Without it, neither
            truncation nor replacement of the whole file can be detected.

        Raises
        ------
        LedgerError
            If anything was altered.
        """
        if against is not None:
            check_is("against", against, Mapping)
        with self._file.reading() as transaction:
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
                        "entries were removed or replaced",
                    )
        return state.number, state.link

    def export(self) -> dict[str, Any]:
        """Return all entries as plain data, with the head of their chain, without the salt."""
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
        """Return the current state; creates the file if it does not exist."""
        if self.is_there:
            return self._read()
        with self._writing() as (_, state):
            self._state = state
        return state

    @contextmanager
    def _reading(self) -> Iterator[tuple[Transaction, _State]]:
        # Read first: another thread may replace the state meanwhile.
        known = self._state
        with self._file.reading() as transaction:
            yield transaction, self._current(transaction, known)

    @contextmanager
    def _writing(self) -> Iterator[tuple[Transaction, _State]]:
        known = self._state
        with self._file.writing() as transaction:
            yield transaction, self._current(transaction, known)

    def _current(self, transaction: Transaction, state: _State | None) -> _State:
        """Return the state after all entries; entries read earlier must still be present."""
        if state is None or not state.number:
            return _whole(transaction, self.path)
        found = transaction.rows(state.number)
        if not found or found[0][3] != state.link:
            raise damaged(self.path, f"entry {state.number} has disappeared")
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
                f"the clock says {now:%Y-%m-%d %H:%M} (UTC), but the ledger's last entry is from "
                f"{last:%Y-%m-%d %H:%M}; nothing was entered or drawn. Correct the clock. If the "
                "entry is wrong, start a new ledger with the remaining budgets."
            )
        return (now if last is None else max(now, last)).isoformat(timespec="microseconds")

    @staticmethod
    def _checked(state: _State, dataset: DataSet) -> DataSet:
        """Check that a name is valid, and that the data have only this name."""
        name, content, names = dataset.name, dataset.content, state.names
        known = None if content is None else state.contents.get(content)
        if known is not None and known != name:
            named = "omitted for these data, which the ledger knows by their content"
            if _is_named(known):
                named = f"{shown(known)}, the name of these data in the ledger, or omitted"
            raise ValueError(f"dataset must be {named}, got {shown(name)}.")
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
                f"dataset must be known to the ledger if it begins with {_UNNAMED!r}, got "
                f"{shown(name)}; such names are derived from the data."
            )
        return dataset

    @staticmethod
    def _check_budget(
        state: _State, entry: Mapping[str, Any], before: Amount, after: Amount, cost: Cost
    ) -> Budget | None:
        dataset, relation = entry["dataset"], entry["relation"]
        budget, said = state.budget(dataset, relation), _said(dataset)
        if budget is None:
            others = sorted(map(str, state.relations(dataset)))
            if not others:
                return None
            raise BudgetExceeded(
                f"{said} must have a budget under {shown(relation)}, got one only under "
                f"{', '.join(others)}; nothing was spent. Set it with privrl ledger budget."
            )
        if (other := state.other_of_kind(dataset, relation)) is not None:
            raise BudgetExceeded(
                f"{said} must have a budget for {shown(relation)} alone, since there are spends "
                f"under {shown(other)}; nothing was spent. Set it with privrl ledger budget "
                f"--relation {shown(relation)}."
            )
        if budget.admits(after, cost if after.releases == 1 else None):
            return budget
        raise BudgetExceeded(
            f"the release would bring the spends of {said} from "
            f"{up(100 * budget.share(before))} % to {up(100 * budget.share(after))} % of its "
            f"budget, {budget}, under {shown(relation)}; nothing was spent. Make it more private, "
            "or release something else."
        )


class LedgerAccountant(KeepsJournal):
    """An accountant over all processes and days; `Ledger.accountant` creates it.

    Pass it wherever an ``accountant=`` is accepted. Its `journal` holds the charges made through
    it; `epsilon` covers all spends of the data set. Copies spend from the same budget.
    """

    def __init__(
        self,
        ledger: "Ledger",
        dataset: "DataSet",
        relation: Relation | None = None,
        *,
        delta: float | None = None,
        about: str | None = None,
        source: Path | None = None,
    ) -> None:
        super().__init__()
        self._ledger, self._dataset, self._source = ledger, dataset, source
        self._relation = None if relation is None else check_relation_name(relation)
        self._about = about
        self._delta = None if delta is None else check_delta(delta)
        self._receipt: Receipt | None = None
        self._known: Amount | None = None  # the total at the last charge

    @property
    def account(self) -> tuple[str, str]:
        """The identity of the ledger, and the name of the data set."""
        return self._ledger.identity, self._dataset.name

    @property
    def settings(self) -> tuple[object, ...]:
        """Ledger and data set; the budget is in the ledger, and may change."""
        return *self.account, self._delta

    @property
    def budget(self) -> Budget | None:
        """The data set's current budget; None if no budget was set."""
        if not self._ledger.is_there:
            return None
        budgets, name = self._ledger.budgets(), self._dataset.name
        own = None if self._relation is None else budgets.get((name, str(self._relation)))
        return budgets.get((name, None)) if own is None else own

    @property
    def receipt(self) -> "Receipt | None":
        """The last entry made through this accountant; None before the first cost."""
        return self._receipt

    def unlimited(self) -> RdpAccountant:
        """Return an accountant in memory, without charges or a budget, that enters nothing."""
        return RdpAccountant()

    @one_at_a_time
    def compose(self, cost: Cost, count: int = 1) -> None:
        """Enter a cost ``count`` times, before the corresponding draws.

        Raises
        ------
        BudgetExceeded
            If the data set's budget does not cover all of them; then none is entered.
        LedgerError
            If they cannot be entered.
        ValueError
            If the cost's neighbouring relation differs from that of earlier costs, the cost is that
            of several runs, ``count`` is not a whole number of at least 1, or the data have another
            name or have changed.
        """
        check_cost(cost)
        self._relation_of(cost)
        self._check_unchanged()
        self._receipt = self._ledger.spend(
            self._dataset, cost, count, delta=self._delta, about=self._about
        )
        before, known = self._receipt.before, self._known
        if known is not None and not before.covers(known):  # the ledger has forgotten it
            before = known
        self._known = before + self._receipt.amount
        self._relation = cost.relation
        self._book.add(cost, count)

    def _check_unchanged(self) -> None:
        known, source = self._dataset.content, self._source
        if source is None or known is None:
            return
        if content_of(source, self._ledger._opened().salt) != known:
            raise ValueError(
                f"data must not change while they are read, and {source.name} did; nothing was "
                "charged. Wait until it is written, and try again."
            )

    @one_at_a_time
    def recall(self, cost: Cost) -> None:
        """Note a cost that the resumed run already entered.

        Nothing is entered. Otherwise this accountant would neither know a repeated draw nor the
        relation under which it was paid for.

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
        total = self._total()
        there = total.covers(charged) and (known is None or total.covers(known))
        self._known = total if there else Amount.unknown(orders)

    def epsilon(self, delta: float) -> FloatArray:
        """Return epsilon (nats) of all spends of the data set, at ``delta`` in (0, 1).

        It refers to the accountant's relation (until that is known, to the one with the largest
        epsilon) and the best Rényi order, so it holds if the costs and the number of releases (not
        the data) were fixed in advance. After adaptive choices, the
        guarantee is the budget. Costs charged through this accountant count even after the ledger
        forgets them. The result is infinite if the costs are unknown.
        """
        delta, known = check_delta(delta), self._known
        totals = self._totals() if self._ledger.is_there else []
        totals += [] if known is None else [known]
        return np.asarray(max((total.epsilon(delta) for total in totals), default=0.0))

    def _total(self) -> Amount:
        return self._ledger._read().spent(self._dataset.name, str(self._relation))

    def _totals(self) -> list[Amount]:
        """Return the spends under the relation; under each one while there is none."""
        if self._relation is not None:
            return [self._total()]
        return [
            each.total for each in self._ledger.accounts() if each.dataset == self._dataset.name
        ]

    def _spent_in_words(self) -> str:
        delta = DEFAULT_DELTA if self._delta is None else self._delta
        said = _said(self._dataset.name)
        return f"epsilon {up(self.epsilon(delta))} at delta {exact(delta)} of {said}"


def _is_named(dataset: str) -> bool:
    return not dataset.startswith(_UNNAMED)


def _said(dataset: str) -> str:
    """Return a data set's name for a message; one from its content differs with each record."""
    return dataset if _is_named(dataset) else "these data"


def drawn_twice(number: int) -> LedgerError:
    """Return the error for a numbered draw that was already made from other data."""
    return LedgerError(
        f"draw {number} of this agent was made before, from other data: the agent was restored "
        "twice, or from a checkpoint older than the draw. Nothing was charged or drawn. Restore "
        "the last checkpoint, once, or start a new agent, which pays again."
    )


def _whole(transaction: Transaction, path: Path) -> _State:
    """Return the state after all entries, with every link and page checked.

    Where a page was not written whole, SQLite may return no entries, and no error.
    """
    transaction.check_pages()
    salt, data = transaction.meta()
    orders = np.frombuffer(data, "<f8") if len(data) % 8 == 0 else np.array([np.nan])
    if not ((orders > 1) & (orders < np.inf)).all() or not (np.diff(orders) > 0).all():
        raise damaged(path, "its orders are invalid")
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
        raise damaged(path, f"entry {min(erased - forgotten)} was erased, but not by forget")
    return state


def _after(state: _State, row: Row, transaction: Transaction) -> _State:
    """Return the state after one more entry, which is checked."""
    number, text, commitment, link = row
    path = transaction.path
    if number != state.number + 1:
        raise damaged(path, f"entry {state.number + 1} is missing")
    if link != link_of(state.link, str(commitment)):
        raise damaged(path, f"entry {number} does not match the entries before it")
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


def _named(entry: dict[str, Any]) -> dict[str, Any]:
    """Return an entry with the canonical spelling of its data set's name, if it has one."""
    return entry | {"dataset": one_spelling(entry["dataset"])} if "dataset" in entry else entry


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def _clock() -> datetime:
    return datetime.now(UTC)
