"""Models that were chosen among several private trials: a file of one would state its own cost.

The whole selection cost more, and its file or statement has to say so.
"""

from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from types import FunctionType, ModuleType
from typing import Any, Final

_MARK: Final = "_is_chosen"
_DEEPEST: Final = 5  # lists of lists, which might hold themselves
#: Of privrl's own objects: what has files, or a statement, of its own.
_PARTS: Final = ("classifier_", "naive_bayes_", "policy", "released", "result")


def is_chosen(thing: object) -> bool:
    """Whether a model was chosen among several, or is a part of one that was, or made of it."""
    return bool(getattr(thing, "__dict__", {}).get(_MARK))


def mark_chosen(result: object) -> None:
    """Mark what a selection returns: models of privrl, or whatever holds them."""
    level, met = [result], {id(result)}
    for _ in range(_DEEPEST + 1):
        found = [part for each in level for part in _marked(each)]
        level = [part for part in found if id(part) not in met]
        met |= set(map(id, level))


def _marked(thing: object) -> Iterable[object]:
    """Mark a thing if it is a model of privrl, or of a class made of one; return its parts."""
    if isinstance(thing, dict):
        return thing.values()
    if isinstance(thing, tuple | list | set | frozenset):
        return thing
    if isinstance(thing, type | ModuleType | FunctionType):
        return ()
    inside = getattr(thing, "__dict__", {})
    if any(kind.__module__.startswith("privrl.") for kind in type(thing).__mro__):
        inside[_MARK] = True
        return [inside[part] for part in _PARTS if part in inside]
    if is_dataclass(thing):  # it may have slots
        return [getattr(thing, each.name, None) for each in fields(thing)]
    return list(inside.values())


def made_of(source: object, made: Any) -> Any:
    """Return what was made of a model alone, which is chosen if the model is."""
    if is_chosen(source):
        mark_chosen(made)
    return made


def remade(chosen: bool, make: Callable[[], Any]) -> Any:
    """Return what a pickle or a copy makes again, marked as it was."""
    made = make()
    if chosen:
        mark_chosen(made)
    return made


def check_alone(thing: object) -> None:
    """Check that a model was not chosen among several.

    Raises
    ------
    ValueError
        If it was.
    """
    if is_chosen(thing):
        raise ValueError(
            "a model that was chosen among several must not be saved alone, without what the "
            "choice cost: publish its numbers with Selected.cost, or copy the file of privrl "
            "classify --choose."
        )
