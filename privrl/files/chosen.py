"""Results that were chosen among several private trials, which the whole selection paid for.

A file or statement of one has to state the selection: its own release cost less. So each release
keeps the name of the trial that paid for it, which its accountant has, and the selection marks its
result with the cost of all. Copies, pickles, ``dataclasses.replace`` and whatever is derived from a
release keep both. Without the mark, a release of a trial has no file, and no guarantee without a
caveat: neither during the trial, nor if it has left it by itself. Its ``cost`` stays that of the
trial.

**What is a part of a result.** Whatever holds a model, such as a list, a pipeline, a closure or an
iterator, keeps it from Python's garbage collector. So the parts of a thing are what the collector
finds in it, and the entries of arrays of objects, which it does not search. What is in an imported
module is no part: everybody reaches it without the result.

**Who pays.** During a trial, a context variable holds its name, so that a release without an
accountant, or with another one, is refused. While a charged release is drawn, the variable is None,
because the parts are paid for. Threads and processes that a candidate starts do not have it.
"""

import gc
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import Any, Final, TypeVar, cast

from privrl.files.fixed import FixedArrays, read_only
from privrl.files.sharing import SECRET, SEEDED
from privrl.files.shown import shown

_STATED: Final = ("statement", "guarantee")
_RANDOMNESS: Final = ("randomness", "randomness_")

#: In the statement of a release that was chosen, as long as it is in memory.
CAVEAT: Final = (
    "this is the cost of one trial; it was chosen among several, which cost more: Selected.cost"
)

#: The attributes that say by which selection something was chosen, and which trial paid for it.
MARK: Final = "_chosen_by"
TRIAL: Final = "_trial"

_Result = TypeVar("_Result")


class TrialName(str):
    """The name of a trial, which no other has: random, and no part of what was released."""

    __slots__ = ()


@dataclass(frozen=True)
class Selection:
    """What a file of a chosen result states: the whole cost, its target, names of candidates.

    The cost covers what was charged to its ``trial``; None where that was checked before. It holds
    while the number of trials is secret, so the kind of ``randomness`` that drew it matters too.
    """

    cost: Any
    target: Any
    name: str
    candidates: tuple[str, ...]
    trial: TrialName | None = field(default=None, compare=False, repr=False)
    randomness: str = field(default=SECRET, compare=False, repr=False)


@dataclass(frozen=True, eq=False)
class MayBeChosen(FixedArrays):
    """The base of frozen dataclasses that a selection can return, and that have files."""

    _chosen_by: Selection | None = field(default=None, kw_only=True, repr=False)
    _trial: TrialName | None = field(default=None, kw_only=True, repr=False)


_pays: ContextVar[TrialName | None] = ContextVar("_pays", default=None)


def paying(trial: TrialName | None, run: Callable[[], _Result]) -> _Result:
    """Call a function whose releases a trial must pay for; None if they are paid for."""

    def within() -> _Result:
        _pays.set(trial)
        return run()

    return copy_context().run(within)  # to which an interrupt confines it


def trial_now() -> TrialName | None:
    """Return the name of the trial that must pay for a release now; None if none must."""
    return _pays.get()


def check_payer(accountant: object) -> None:
    """Check that a release in a trial is charged to that trial, and none to one that has ended.

    Raises
    ------
    ValueError
        If not: the selection would not pay for it.
    """
    trial = trial_now()
    if trial is not None and trial_behind(accountant) != trial:
        raise ValueError(
            "accountant must be that of the trial for each release in a candidate, got "
            f"{shown(accountant)}; pass accountant=trial.accountant, and make other releases "
            "before the selection."
        )
    if not getattr(accountant, "is_open", True):  # a free draw asks no accountant
        raise ValueError("the trial has ended, and its budget with it.")


def check_paid(paid: object, trial: TrialName | None) -> None:
    """Check that a sampler or stream in use releases in the trial that paid for it.

    Raises
    ------
    ValueError
        If not: a trial would release more than it pays for, from what another one kept.
    """
    if trial_of(paid) != trial:
        raise ValueError(
            "a sampler or stream that releases in a trial must be paid for in that trial alone, "
            "got one that was in use elsewhere: make one in the candidate."
        )


def check_anew(made: object, accountant: object) -> None:
    """Check that no other trial fitted an estimator that a trial fits again.

    Raises
    ------
    ValueError
        If one did: its fit would be lost, and another returned with its score.
    """
    before, now = trial_of(made), trial_behind(accountant)
    if None not in (before, now) and before != now:
        raise ValueError(
            "a classifier that one trial fitted must not be fitted in another, because both would "
            "return the same one: make a new classifier in the candidate."
        )


def chosen_by(thing: object) -> Selection | None:
    """Return the selection that chose a thing, what it is a part of, or what it was made of."""
    found: Selection | None = getattr(thing, "__dict__", {}).get(MARK)
    return found


def trial_of(thing: object) -> TrialName | None:
    """Return the name of the trial that paid for a thing, or for what it was made of."""
    inside = getattr(thing, "__dict__", {})
    if TRIAL in inside:
        return cast("TrialName | None", inside[TRIAL])
    return trial_behind(inside.get("accountant"))  # of an agent


def trial_behind(accountant: object) -> TrialName | None:
    """Return the name of the trial whose accountant this is; None if no trial's."""
    name = getattr(accountant, "trial", None)
    return name if isinstance(name, TrialName) else None


def caveats_of(thing: object) -> list[str]:
    """Return what a statement of a thing's own cost must say beside it."""
    return [] if chosen_by(thing) is None and trial_of(thing) is None else [CAVEAT]


def paid_by(accountant: object, made: _Result) -> _Result:
    """Return what was released, which keeps the name of the trial that paid for it, if one did."""
    return _of_trial(trial_behind(accountant), made)


def _of_trial(trial: TrialName | None, made: _Result) -> _Result:
    if hasattr(type(made), TRIAL):  # it has files
        inside = vars(made)
        inside[TRIAL] = trial
        if trial is not None:
            inside.update(_caveats(inside))
    return made


def selection_of(thing: object, *parts: object) -> Selection | None:
    """Return the selection whose cost a release and its parts state; None if no trial paid.

    Raises
    ------
    ValueError
        If something was fitted elsewhere: that costs more, and the selection does not know it. Or
        if it is in its trial still, or left it by itself.
    """
    by = chosen_by(thing)
    paid = {trial_of(each) for each in (thing, *parts)}
    if by is None and paid != {None}:
        raise ValueError(
            "a classifier that was fitted in a trial of a selection must be what the selection "
            "returned, or a part of that: alone it would state what one trial cost. Return it from "
            "the candidate, and save what select_private returns."
        )
    if by is not None and by.trial is not None and paid != {by.trial}:
        raise ValueError(
            "a classifier must have been fitted in the trial that chose it, and charged to "
            "trial.accountant, to state what it cost; its fit was paid for elsewhere, beside "
            "Selected.cost."
        )
    return by


def mark_chosen(result: object, by: Selection) -> None:
    """Mark what a selection returns: models of privrl, and those in whatever holds them."""
    for each in _within(result):
        _mark(each, by)


def check_own(result: object, others: Collection[TrialName]) -> None:
    """Check that no part of what a trial returned was released in others, of the same selection.

    Raises
    ------
    ValueError
        If one was.
    """
    if any(_may_state(each) and trial_of(each) in others for each in _within(result)):
        raise ValueError(
            "a candidate must return what was released in its own trial, got a release of another: "
            "make in the candidate all that it fits, and keep nothing from one trial to the next."
        )


def _within(result: object) -> Iterator[object]:
    """Return a result, and all that is reached through it alone."""
    met: dict[int, object] = {}  # with the things themselves, so that no other has their number
    waiting = deque([result])
    while waiting:
        thing = waiting.popleft()
        if id(thing) not in met:
            met[id(thing)] = thing
            yield thing
            waiting.extend(
                each for each in _parts(thing) if gc.is_tracked(each) or _is_array(type(each))
            )


def _mark(thing: object, by: Selection) -> None:
    """Mark a thing if it may have a statement."""
    if _may_state(thing):
        inside = getattr(thing, "__dict__", {})
        inside.update(_with_mark(inside, by))


def _may_state(thing: object) -> bool:
    kind = type(thing)  # and no attributes: this is after the charge, and those may fail
    return issubclass(kind, MayBeChosen) or (_is_of_privrl(kind) and not _is_plain(kind))


def _with_mark(inside: dict[str, Any], by: Selection) -> dict[str, Any]:
    """Return what a mark changes of attributes."""
    changed = {MARK: by} | _caveats(inside)
    return changed if by.randomness == SECRET else changed | _seeded({**inside, **changed})


def _seeded(inside: dict[str, Any]) -> dict[str, Any]:
    """Return the kinds of randomness in attributes, as of a selection that has a seed."""
    kinds = {name: SEEDED for name in _RANDOMNESS if inside.get(name) == SECRET}
    stated = {name: inside[name] for name in _STATED if isinstance(inside.get(name), dict)}
    return kinds | {
        name: read_only({**each, "randomness": SEEDED})
        for name, each in stated.items()
        if each.get("randomness") == SECRET
    }


def _caveats(inside: dict[str, Any]) -> dict[str, Any]:
    """Return the statements in attributes, which say that they are of one trial."""
    return {name: _with_caveat(inside[name]) for name in _STATED if name in inside}


def _parts(thing: Any) -> Sequence[object]:
    """Return what only those who have a thing reach through it."""
    kind = type(thing)
    if kind is FunctionType:
        held = thing.__closure__, thing.__defaults__, thing.__kwdefaults__, vars(thing)
        return [each for each in held if each]
    if issubclass(kind, type | ModuleType) and _is_imported(thing):
        return ()
    if _is_array(kind) and thing.dtype.hasobject:
        return (*gc.get_referents(thing), [thing.tolist()])
    return gc.get_referents(thing)


def _is_array(kind: type) -> bool:
    numpy = sys.modules.get("numpy")  # whoever has none has no arrays
    return numpy is not None and issubclass(kind, numpy.ndarray)


def _is_imported(thing: Any) -> bool:
    """Whether a class or a module is in one that was imported, by its own name."""
    if issubclass(type(thing), ModuleType):
        return any(thing is each for each in sys.modules.values())
    found: object = sys.modules.get(str(thing.__module__))
    for name in thing.__qualname__.split("."):
        found = getattr(found, "__dict__", {}).get(name)
    return found is thing


def _with_caveat(statement: Any) -> Any:
    if not isinstance(statement, dict) or CAVEAT in statement.get("caveats", ()):
        return statement
    return read_only({**statement, "caveats": [*statement.get("caveats", ()), CAVEAT]})


def _is_of_privrl(kind: type) -> bool:
    return any(str(each.__module__).startswith("privrl.") for each in kind.__mro__)


def _is_plain(kind: type) -> bool:
    """Whether things are frozen data, such as a mechanism, whose fields are all that they are."""
    frozen: Any = getattr(kind, "__dataclass_params__", None)
    return frozen is not None and bool(frozen.frozen)


def made_of(source: object, made: Any) -> Any:
    """Return what was made of a result alone, which is chosen, or of a trial, if the result is."""
    by, trial = chosen_by(source), trial_of(source)
    if trial is not None:
        _of_trial(trial, made)
    if by is not None:
        mark_chosen(made, by)
    return made


def mark_as(source: object, learner: object) -> None:
    """Mark what learns from a result, and nothing that it holds, as the result is marked."""
    marks = {MARK: chosen_by(source), TRIAL: trial_of(source)}
    vars(learner).update({name: each for name, each in marks.items() if each is not None})


def check_file(thing: object) -> None:
    """Check that a file of a result may be made: no selection chose it, or tries it.

    Raises
    ------
    ValueError
        If not.
    """
    if caveats_of(thing):
        raise ValueError(
            "a model that was chosen among several, or released for that in a trial, must not be "
            "saved alone, without what the choice cost: publish its numbers with Selected.cost. "
            "Files of classifiers alone state that."
        )
