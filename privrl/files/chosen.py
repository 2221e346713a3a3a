"""Models that were chosen among several private trials: a file of one would state its own cost.

The whole selection cost more, and its file or statement has to say so.
"""

from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from typing import Any, Final

_MARK: Final = "_is_chosen"
_DEEPEST: Final = 5  # lists of lists, which might hold themselves
_PARTS: Final = ("classifier_", "naive_bayes_")  # of a classifier, with files of their own


def is_chosen(thing: object) -> bool:
    """Whether a model was chosen among several, or is a part of one that was, or made of it."""
    return bool(getattr(thing, "__dict__", {}).get(_MARK))


def mark_chosen(result: object, depth: int = _DEEPEST) -> None:
    """Mark what a selection returns: models of privrl, or lists, tables and dataclasses of them."""
    parts: Iterable[object] = ()
    if isinstance(result, tuple | list | dict):
        parts = result.values() if isinstance(result, dict) else result
    elif type(result).__module__.startswith("privrl."):
        inside = getattr(result, "__dict__", {})
        inside[_MARK] = True
        parts = [inside[part] for part in _PARTS if part in inside]
    elif is_dataclass(result) and not isinstance(result, type):
        parts = [getattr(result, each.name, None) for each in fields(result)]
    for each in parts if depth else ():
        mark_chosen(each, depth - 1)


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
