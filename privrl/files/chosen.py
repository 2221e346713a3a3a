"""Results that were chosen among several private trials, which the whole selection paid for.

A file or statement of one has to state the selection: its own release cost less. So a selection
marks its result with what it was, which copies, pickles and ``dataclasses.replace`` keep.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from types import FunctionType, MappingProxyType, ModuleType
from typing import Any, Final

from privrl.files.fixed import FixedArrays, read_only

_DEEPEST: Final = 12  # such as a search that holds a pipeline that holds a classifier
_STATED: Final = ("statement", "guarantee")

#: In the statement of a release that was chosen, as long as it is in memory.
CAVEAT: Final = (
    "this is the cost of one trial; it was chosen among several, which cost more: Selected.cost"
)

#: The attribute that says by which selection something was chosen.
MARK: Final = "_chosen_by"


@dataclass(frozen=True)
class Selection:
    """What a file of a chosen result states: the whole cost, its target, names of candidates.

    The cost covers what the trial ``paid``; None where that was checked before.
    """

    cost: Any
    target: Any
    name: str
    candidates: tuple[str, ...]
    paid: tuple[Any, ...] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, eq=False)
class MayBeChosen(FixedArrays):
    """The base of frozen dataclasses that a selection can return, and that have files."""

    _chosen_by: Selection | None = field(default=None, kw_only=True, repr=False)


def chosen_by(thing: object) -> Selection | None:
    """Return the selection that chose a thing, what it is a part of, or what it was made of."""
    found: Selection | None = getattr(thing, "__dict__", {}).get(MARK)
    return found


def mark_chosen(result: object, by: Selection) -> None:
    """Mark what a selection returns: models of privrl, or whatever holds them."""
    level, met = [(result, by)], {id(result)}
    for _ in range(_DEEPEST + 1):
        found = [part for each in level for part in _marked(*each)]
        level = [part for part in found if id(part[0]) not in met]
        met |= {id(part) for part, _ in level}


def _marked(thing: object, by: Selection) -> list[tuple[object, Selection]]:
    """Mark a thing if it may have a statement, and return its parts, which may have their own."""
    inside = getattr(thing, "__dict__", {})
    parts: Iterable[object] = inside.values()
    if isinstance(thing, dict | MappingProxyType):
        parts = [*thing, *thing.values()]
    elif isinstance(thing, tuple | list | set | frozenset | deque):
        parts = thing
    elif _holds_objects(thing):
        parts = thing.tolist()  # type: ignore[attr-defined] # it is an array, or of pandas
    elif isinstance(thing, type | ModuleType | FunctionType):
        parts = ()
    else:
        parts = [*(getattr(thing, name, None) for name in _slots(thing)), *parts]
        if isinstance(thing, MayBeChosen) or (_is_of_privrl(thing) and not _is_plain(thing)):
            inside[MARK] = by
            inside.update({name: _with_caveat(inside[name]) for name in _STATED if name in inside})
        if inside.get("_is_begun_before") is False:  # what it began with was paid with it
            by = replace(by, paid=None)
    return [(part, by) for part in parts]


def _holds_objects(thing: object) -> bool:
    package, _, _ = type(thing).__module__.partition(".")
    kind = getattr(thing, "dtype", None) if package in ("numpy", "pandas") else None
    return getattr(kind, "kind", "") == "O"


def _slots(thing: object) -> Iterator[str]:
    """Yield the names of attributes that are not in ``__dict__``."""
    for kind in type(thing).__mro__:
        own = vars(kind).get("__slots__", ())
        yield from (own,) if isinstance(own, str) else own


def _with_caveat(statement: Any) -> Any:
    if not isinstance(statement, dict) or CAVEAT in statement.get("caveats", ()):
        return statement
    return read_only({**statement, "caveats": [*statement.get("caveats", ()), CAVEAT]})


def _is_of_privrl(thing: object) -> bool:
    return any(kind.__module__.startswith("privrl.") for kind in type(thing).__mro__)


def _is_plain(thing: object) -> bool:
    """Whether a thing is frozen data, such as a mechanism, whose fields are all that it is."""
    frozen: Any = getattr(type(thing), "__dataclass_params__", None)
    return frozen is not None and bool(frozen.frozen)


def made_of(source: object, made: Any) -> Any:
    """Return what was made of a result alone, which is chosen if the result is."""
    by = chosen_by(source)
    if by is not None:
        mark_chosen(made, by)
    return made


def check_alone(thing: object) -> None:
    """Check that a result was not chosen among several.

    Raises
    ------
    ValueError
        If it was.
    """
    if chosen_by(thing) is not None:
        raise ValueError(
            "a model that was chosen among several must not be saved alone, without what the "
            "choice cost: publish its numbers with Selected.cost. Files of classifiers alone "
            "state that."
        )
