"""Results that were chosen among several private trials, which the whole selection paid for.

A file or statement of one has to state the selection: its own release cost less. So a selection
marks its result with what it was, which copies, pickles and ``dataclasses.replace`` keep.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, fields, is_dataclass
from types import FunctionType, ModuleType
from typing import Any, Final

_DEEPEST: Final = 5  # lists of lists, which might hold themselves
#: Of privrl's own objects: what has files, or a statement, of its own.
_PARTS: Final = ("classifier_", "naive_bayes_", "policy", "released", "result")

#: The attribute that says by which selection something was chosen.
MARK: Final = "_chosen_by"


@dataclass(frozen=True)
class Selection:
    """What a file of a chosen result states: the whole cost, its target, names of candidates."""

    cost: Any
    target: Any
    name: str
    candidates: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class MayBeChosen:
    """The base of frozen dataclasses that a selection can return, and that have files."""

    _chosen_by: Selection | None = field(default=None, kw_only=True, repr=False)


def chosen_by(thing: object) -> Selection | None:
    """Return the selection that chose a thing, what it is a part of, or what it was made of."""
    found: Selection | None = getattr(thing, "__dict__", {}).get(MARK)
    return found


def mark_chosen(result: object, by: Selection) -> None:
    """Mark what a selection returns: models of privrl, or whatever holds them."""
    level, met = [result], {id(result)}
    for _ in range(_DEEPEST + 1):
        found = [part for each in level for part in _marked(each, by)]
        level = [part for part in found if id(part) not in met]
        met |= set(map(id, level))


def _marked(thing: object, by: Selection) -> Iterable[object]:
    """Mark a thing if it is a model of privrl, or of a class made of one; return its parts."""
    if isinstance(thing, dict):
        return thing.values()
    if isinstance(thing, tuple | list | set | frozenset):
        return thing
    if isinstance(thing, type | ModuleType | FunctionType):
        return ()
    inside = getattr(thing, "__dict__", {})
    if any(kind.__module__.startswith("privrl.") for kind in type(thing).__mro__):
        inside[MARK] = by
        return [inside[part] for part in _PARTS if part in inside]
    if is_dataclass(thing):  # it may have slots
        return [getattr(thing, each.name, None) for each in fields(thing)]
    return list(inside.values())


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
