"""Record and replay: that one record changes nothing but what was paid for.

Most violations of differential privacy sit not in the noise but in the code around it: a type read
from the data, a guard that looks at the wrong thing, a count entered twice. Such code is found out
without any statistics. A pipeline is run on some data, and every release that it makes is recorded:
what went in, what it cost, what came out. Then it is run on neighbouring data, and every release
returns what it returned before. Now

(a) everything that can be seen must be the same: which releases are made, with which settings, of
    tables of which shapes; warnings, exceptions with their notes and causes, and whatever the
    pipeline returns;
(b) what goes into each release must differ by no more than a change that its cost covers;
(c) what an accountant was charged must cover the releases.

What is left to show is that each release hides such a change, which is what proofs, exact
accounting and `privrl.audit.audit_mechanism` are for. That the outputs of earlier releases are held
fixed is how adaptive composition is proved, so (b) covers pipelines that look at what they release.

References
----------
*Re:cord-play* (PETS 2026, arXiv 2602.17454), which found 13 violations in 12 libraries so.
"""

import re
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence, Set, ValuesView
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import groupby, zip_longest
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from privrl.accounting import releases
from privrl.audit.coverage import changes_between, covers, listed, tables_of
from privrl.costs.base import Cost, together
from privrl.files.chosen import TrialName
from privrl.files.html import InHtml

Data = TypeVar("Data")
Pipeline = Callable[[Data], Any]

_ADDRESS = re.compile(" at 0x[0-9a-f]+")
_PLAIN = (str, bytes, bool, int, float, complex)
_OF_TABLES = (
    *("index", "columns", "name", "names", "dtype", "dtypes", "categories", "levels", "attrs"),
    *("schema", "type"),
)
_ORDERS = np.array([1.5, 2.0, 8.0])  # at which releases are held against the charges


@dataclass(frozen=True)
class ReplayResult(InHtml):
    """What record and replay found.

    Attributes
    ----------
    findings : tuple of str
        What was seen that should not be, in words, in order; empty if all is well. They show what
        the two data sets hold.
    releases : int
        How many releases were recorded. None at all says that nothing was tried.
    error : str, optional
        The exception that ended the first run, if one did: what comes after it was not tried.
    """

    findings: tuple[str, ...]
    releases: int
    error: str | None

    @property
    def violated(self) -> bool:
        """Whether something was found."""
        return bool(self.findings)


def audit_replay(pipeline: Pipeline[Data], data: Data, neighbour: Data) -> ReplayResult:
    """Run a pipeline on data, run it again on neighbouring data, and compare.

    For data that were made up: findings show them.

    Parameters
    ----------
    pipeline : callable
        Takes the data, makes all of its agents, models and generators itself, and returns
        everything that anyone is to see: policies, models, printed lines, files' contents. Its
        releases are those of `privrl.mechanisms.Mechanism` and `privrl.samplers.draw`. It must
        do the same thing each time, so its generators need seeds.
    data, neighbour : object
        Two data sets that differ as the relation of the pipeline's costs allows. The pipeline gets
        copies.

    Returns
    -------
    ReplayResult

    Raises
    ------
    ValueError
        If the pipeline does not do the same thing twice on the same data.

    Notes
    -----
    A change that one unit makes to counts must lie within one batch of a sampler's stream, for
    that is what a stream costs. Gaussian noise is held to the norm of a change, all other noise to
    its cells: an amount of each, of the same sign, at least as large (lowering an amount is never
    dearer), in some change vector of the relation, or spread over more cells where
    `Relation.convex_from` allows that. Random numbers that the pipeline draws before a release are
    the same in both runs only if it draws equally many.
    """
    first = _record(pipeline, data)
    again = _replay(pipeline, data, first)
    unstable = _differences(first, again)
    if unstable:
        raise ValueError(
            "pipeline must do the same thing each time, and did not on the same data: "
            f"{unstable[0]} Give its generators seeds."
        )
    second = _replay(pipeline, neighbour, first)
    findings = [*_unpaid(first), *_differences(first, second), *_uncovered(first, second)]
    return ReplayResult(tuple(findings), len(first.calls), first.error)


@dataclass(frozen=True)
class _Call:
    """One release that passed the gate."""

    who: str
    is_stream: bool  # one of the updates of a sampler, each with records of its own
    stream: int  # which sampler or mechanism, by its first use
    cost: Cost | None
    data: Any
    halved: NDArray[np.bool_] | None  # cells whose squared change counts half: they are damped
    doubled: NDArray[np.bool_] | None  # and twice: they stand for two
    released: Any
    states: tuple[Any, Any]  # of the generator, before and after


@dataclass
class _Recording:
    """All that a pipeline did."""

    calls: list[_Call] = field(default_factory=list)
    charges: list[Cost] = field(default_factory=list)
    result: Any = None
    error: str | None = None
    traceback: list[str] = field(default_factory=list)  # what else is printed of it
    warnings: list[str] = field(default_factory=list)


class _Watcher:
    """Record what passes the gate, and let what was recorded before be returned again."""

    def __init__(self, before: Sequence[_Call] = ()) -> None:
        self.recording = _Recording()
        self._before = before
        self._holds_others = [False]  # for each release under way, whether another was made in it
        self._met: list[object] = []  # kept, so that no two have one identity

    def charged(self, cost: Cost) -> None:
        self.recording.charges.append(cost)

    def released(
        self,
        who: object,
        cost: Cost | None,
        data: Any,
        rng: np.random.Generator,
        draw: Callable[[Any, np.random.Generator], Any],
    ) -> Any:
        place = len(self.recording.calls)
        then = self._before[place] if place < len(self._before) else None
        if then is not None:
            rng.bit_generator.state = deepcopy(then.states[0])
        given, began = deepcopy(data), deepcopy(rng.bit_generator.state)
        self._holds_others.append(False)
        released = draw(data, rng)
        made_of_others = self._holds_others.pop()
        self._holds_others[-1] = True
        if made_of_others:  # those have passed the gate themselves
            return released
        if then is not None:
            rng.bit_generator.state = deepcopy(then.states[1])
            released = deepcopy(then.released)
        self.recording.calls.append(
            _Call(
                who=_ADDRESS.sub("", repr(who)),
                is_stream=hasattr(who, "update"),  # a sampler, or a stream of persons
                stream=self._number(who),
                cost=cost,
                data=given,
                halved=getattr(who, "loops", None),
                doubled=getattr(who, "doubled", None),
                released=deepcopy(released),
                states=(began, deepcopy(rng.bit_generator.state)),
            )
        )
        return released

    def _number(self, who: object) -> int:
        for number, other in enumerate(self._met):
            if other is who:
                return number
        self._met.append(who)
        return len(self._met) - 1


def _record(pipeline: Pipeline[Data], data: Data) -> _Recording:
    return _run(pipeline, data, _Watcher())


def _replay(pipeline: Pipeline[Data], data: Data, recorded: _Recording) -> _Recording:
    return _run(pipeline, data, _Watcher(recorded.calls))


def _run(pipeline: Pipeline[Data], data: Data, watcher: _Watcher) -> _Recording:
    recording = watcher.recording
    with releases.watched_by(watcher), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            recording.result = pipeline(deepcopy(data))
        except Exception as raised:
            recording.error, *recording.traceback = _said(raised)
    recording.warnings = [f"{each.category.__name__}: {each.message}" for each in warned]
    return recording


def _said(error: BaseException) -> Iterator[str]:
    """Yield what a traceback says of an exception: itself, its notes, and what it came from."""
    met: list[BaseException] = []
    following: BaseException | None = error
    while following is not None and following not in met:
        met.append(following)
        yield _ADDRESS.sub("", f"{type(following).__name__}: {following}")
        yield from map(str, getattr(following, "__notes__", ()))
        hidden = following.__suppress_context__
        following = following.__cause__ or (None if hidden else following.__context__)


# (a) Everything that can be seen is the same ----------------------------------------------------


def _differences(first: _Recording, second: _Recording) -> list[str]:
    found = []
    for place, (one, other) in enumerate(zip_longest(first.calls, second.calls)):
        if one is None or other is None:
            found.append(f"{len(first.calls)} releases became {len(second.calls)}.")
            break
        for what, a, b in (
            ("who releases", one.who, other.who),
            ("which sampler it is", one.stream, other.stream),
            ("the cost", one.cost, other.cost),
            ("the table", _shapes(one.data), _shapes(other.data)),
        ):
            if a != b:
                found.append(f"release {place}: {what} differs, {a!r} became {b!r}.")
    for what, seen, then in (
        ("the charges differ", first.charges, second.charges),
        ("the result differs", first.result, second.result),
        ("the exception differs", first.error, second.error),
        ("the traceback differs", first.traceback, second.traceback),
        ("the warnings differ", first.warnings, second.warnings),
    ):
        with np.printoptions(threshold=sys.maxsize, floatmode="unique"):  # in texts of others
            for one, other in zip_longest(_leaves(seen), _leaves(then)):
                if one != other:
                    found.append(f"{what}: {one} became {other}.")
                    break
    return found


def _shapes(data: Any) -> list[tuple[tuple[int, ...], str]]:
    return [(np.shape(table), str(np.asarray(table).dtype)) for table in tables_of(data)]


def _leaves(value: Any, place: str = "", within: frozenset[int] = frozenset()) -> Iterator[str]:
    """Take a value apart into texts that are equal where it is; ``within`` are those around it."""
    kind = type(value)
    if isinstance(value, TrialName) or id(value) in within:  # random on purpose, or a circle
        return
    within |= {id(value)}
    if isinstance(value, np.ndarray):
        yield f"{place} {value.dtype} {value.shape} {value.tolist()!r}"
    elif isinstance(value, Mapping):
        yield f"{place} {kind.__name__} of {len(value)}"
        for key, each in value.items():
            yield from _leaves(each, f"{place}[{key!r}]", within)
    elif isinstance(value, list | tuple | deque | ValuesView | Set):
        yield f"{place} {kind.__name__} of {len(value)}"
        for i, each in enumerate(value):
            yield from _leaves(each, f"{place}[{i}]", within)
    elif hasattr(value, "to_pylist") or (_is_of_pandas(value) and hasattr(value, "ndim")):
        yield from _leaves_of_table(value, place)
    elif isinstance(value, BaseException):
        yield from (f"{place} {line}" for line in _said(value))
    elif isinstance(value, _PLAIN):  # in a subclass as well, whose text may be another
        yield f"{place} {next(each for each in _PLAIN if isinstance(value, each)).__repr__(value)}"
    elif isinstance(value, type) or not (hasattr(value, "__dict__") or _slots(value)):
        yield f"{place} {value!r}"
    else:
        yield f"{place} {kind.__name__} {_ADDRESS.sub('', repr(value))}"
    if not isinstance(value, type):
        yield from _leaves_of_attributes(value, place, within)


def _leaves_of_table(value: Any, place: str) -> Iterator[str]:
    """Take apart what pandas or Arrow holds, of which few rows and categories are printed."""
    is_plain = isinstance(getattr(value, "dtype", None), np.dtype)
    if getattr(value, "ndim", 1) == 2 and hasattr(value, "items"):  # columns of several types
        cells: Any = [column for _, column in value.items()]
    elif hasattr(value, "to_pylist"):
        cells = value.to_pylist()
    else:  # as objects, since NumPy would make floats of whole numbers beside a missing one
        cells = np.asarray(value, None if is_plain else object)
    yield from _leaves(cells, place)
    yield from _leaves(getattr(getattr(value, "dtype", None), "categories", None), place)
    for name in _OF_TABLES:
        yield from _leaves(getattr(value, name, None), f"{place}.{name}")


def _is_of_pandas(value: Any) -> bool:
    return type(value).__module__.startswith("pandas")


def _leaves_of_attributes(value: Any, place: str, within: frozenset[int]) -> Iterator[str]:
    own = getattr(value, "__dict__", {})
    inside = {} if _is_of_pandas(value) else {**_slots(value), **own}
    for name, each in inside.items():
        yield from _leaves(each, f"{place}[{name!r}]", within)


def _slots(value: Any) -> dict[str, Any]:
    """Return the attributes of an object that are in slots of its class."""
    names = [name for kind in type(value).__mro__ for name in vars(kind).get("__slots__", ())]
    return {name: getattr(value, name) for name in names if hasattr(value, name)}


# (b) What goes in differs by a declared change --------------------------------------------------


def _uncovered(first: _Recording, second: _Recording) -> Iterator[str]:
    pairs = [
        (one, other)
        for one, other in zip(first.calls, second.calls, strict=False)
        if _shapes(one.data) == _shapes(other.data)
    ]
    streams = sorted((p for p in pairs if p[0].is_stream), key=lambda pair: pair[0].stream)
    groups = [list(group) for _, group in groupby(streams, key=lambda pair: pair[0].stream)]
    groups += [[pair] for pair in pairs if not pair[0].is_stream]
    for group in groups:
        changes = [
            change
            for one, other in group
            for change in changes_between(one.data, other.data, one.halved, one.doubled)
        ]
        if not changes:
            continue
        who, cost = group[0][0].who, group[0][0].cost
        if cost is None:
            yield f"{who}: inputs differ by {listed(changes)}, and nothing was paid for them."
        elif not covers(cost, changes):
            yield (
                f"{who}: inputs differ by {listed(changes)}, more than its cost covers under "
                f"{str(cost.relation)!r}."
            )


# (c) What was charged covers the releases -------------------------------------------------------


def _unpaid(recording: _Recording) -> Iterator[str]:
    costs = [call.cost for call in recording.calls if call.cost is not None]
    if not recording.charges or not costs:
        return
    relations = {str(cost.relation) for cost in (*costs, *recording.charges)}
    if len(relations) > 1:
        yield f"releases and charges are about different neighbours: {sorted(relations)}."
        return
    charged, released = (together(each).rdp(_ORDERS) for each in (recording.charges, costs))
    if not (released <= charged * (1 + 1e-9)).all():
        yield f"releases cost {released} at orders {_ORDERS}, and {charged} was charged."
