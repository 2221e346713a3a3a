"""Snapshots of the state of objects between calls, as plain data and arrays for files.

A class names its changing attributes in ``remembered``, and those derived from them in ``derived``;
all others are settings. To restore an object, make one with the same settings, then restore the
remembered attributes. A file only names attributes and types from a given list; no code in it runs.
"""

import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_NUMBERS: Final = re.compile(r"[<|][biuf]\d{1,2}")
_OF_PROCESS: Final = ("_made_in", "_used_in", "_lock")  # neither settings nor remembered
Arrays = list[NDArray[Any]]


def names_of(thing: object) -> tuple[str, ...]:
    """Return the attributes that an object remembers, those of its base classes first.

    Raises
    ------
    ValueError
        If its class lacks a list of them.
    """
    if not hasattr(type(thing), "remembered"):
        raise ValueError(
            f"{type(thing).__name__} cannot be saved: its class must name the attributes that "
            "change in its use, in a tuple `remembered`."
        )
    return _said(thing, "remembered")


def settings_of(thing: object) -> dict[str, Any]:
    """Return the settings of an unused object, and the objects that it remembers."""
    if is_dataclass(thing):
        return {field.name: getattr(thing, field.name) for field in fields(thing)}
    changing, left_out = _said(thing, "remembered"), {*_OF_PROCESS, *_said(thing, "derived")}
    return {
        name: each
        for name, each in _attributes(thing).items()
        if name not in left_out and (name not in changing or hasattr(type(each), "remembered"))
    }


def _attributes(thing: object) -> dict[str, Any]:
    """Return the attributes of an object, also those in slots."""
    slots: list[str] = []
    for each in type(thing).__mro__:
        names = vars(each).get("__slots__", ())
        slots += [names] if isinstance(names, str) else names
    return vars(thing) | {name: getattr(thing, name) for name in slots if hasattr(thing, name)}


def lost_change(thing: object, unused: object) -> str | None:
    """Return the name of an attribute that changed in use and that a snapshot would lose, if any.

    Parameters
    ----------
    thing : object
        What is to be saved.
    unused : object
        One with the same settings, before its use.
    """
    mine, new = settings_of(thing), settings_of(unused)
    for name in dict.fromkeys((*mine, *new)):
        here, there = mine.get(name), new.get(name)
        if name in _said(thing, "remembered"):
            inner = lost_change(here, there) if type(here) is type(there) else None
            if inner is not None:
                return f"{name}.{inner}"
        elif here is not there and settings_digest({name: here}) != settings_digest({name: there}):
            return name
    return None


def _said(thing: object, which: str) -> tuple[str, ...]:
    said = [vars(each)[which] for each in type(thing).__mro__ if which in vars(each)]
    return tuple(dict.fromkeys(name for names in reversed(said) for name in names))


class Snapshot:
    """A snapshot of objects: a tree of plain data that refers to arrays by number.

    Parameters
    ----------
    known : sequence
        Objects that exist where the snapshot is restored; the tree refers to them by number.

    Attributes
    ----------
    arrays : list of arrays
        By their numbers in the tree.
    types : set of types
        What a `Restorer` has to create.
    """

    def __init__(self, known: Sequence[object] = ()) -> None:
        self.arrays: Arrays = []
        self.types: set[type] = set()
        self._known = known

    def inside(self, thing: object) -> dict[str, Any]:
        """Return the remembered attributes of an object."""
        names = names_of(thing)
        return {
            "type": type(thing).__name__,
            "inside": {name: self.value(getattr(thing, name)) for name in names},
        }

    def value(self, value: Any) -> Any:  # noqa: PLR0911 # a case for each kind
        """Return a value as plain data.

        Raises
        ------
        ValueError
            If its type is not supported.
        """
        match value:
            case np.ndarray() | np.generic():
                return self._array(value)
            case None | bool() | int() | str():
                return value
            case float():
                return value if math.isfinite(value) else {"float": str(value)}
            case np.random.Generator():
                return {"generator": self.value(dict(value.bit_generator.state))}
            case tuple() if hasattr(value, "_fields"):
                return self._made(value, value._fields)
            case tuple() | list():
                return {type(value).__name__: [self.value(each) for each in value]}
            case dict() if all(isinstance(name, str) for name in value):
                return {"dict": {name: self.value(each) for name, each in value.items()}}
        if value in self._known:
            return {"known": self._known.index(value)}
        if hasattr(type(value), "remembered"):
            return self.inside(value)
        if is_dataclass(value):
            return self._made(value, [field.name for field in fields(value) if field.init])
        raise ValueError(
            f"{type(value).__name__} cannot be saved: it is not a number, text, array, tuple, list "
            "or dictionary of such, nor a dataclass, nor of a class with `remembered`."
        )

    def _made(self, value: Any, names: Iterable[str]) -> dict[str, Any]:
        parts = {name: self.value(getattr(value, name)) for name in names}
        self.types.add(type(value))
        return {"made": type(value).__name__, "of": parts}

    def _array(self, value: NDArray[Any] | np.generic) -> dict[str, Any]:
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise ValueError(f"an array must be of numbers to be saved, got {array.dtype}.")
        # Little-endian everywhere, so that files mean the same.
        self.arrays.append(np.asarray(array, array.dtype.newbyteorder("<"), order="C"))
        return {
            "array": len(self.arrays) - 1,
            "scalar": isinstance(value, np.generic),
            "frozen": not array.flags.writeable,
        }


class Restorer:
    """Restore objects from a snapshot.

    Parameters
    ----------
    arrays : list of arrays
        By their numbers in the tree.
    types : iterable of types
        Dataclasses and named tuples that may be created.
    known : sequence
        As for `Snapshot`.
    """

    def __init__(
        self,
        arrays: Sequence[NDArray[Any]],
        types: Iterable[type] = (),
        known: Sequence[object] = (),
    ) -> None:
        self._arrays, self._known = arrays, known
        self._types = {each.__name__: each for each in types}

    def inside(self, thing: Any, plain: Any) -> None:
        """Restore the remembered attributes of an object from those of one with the same settings.

        Raises
        ------
        ValueError, KeyError, TypeError, IndexError, AttributeError
            If the plain data are not a snapshot of such an object.
        """
        names = names_of(thing)
        if plain["type"] != type(thing).__name__ or tuple(plain["inside"]) != names:
            raise ValueError(f"{type(thing).__name__} is not {plain['type']}")
        for name, part in plain["inside"].items():
            current = getattr(thing, name)
            if current is None and isinstance(part, dict) and "inside" in part:
                thing.begin_again()  # makes what is made in use
                current = getattr(thing, name)
            made = self.value(part, current)
            if made is not current:
                setattr(thing, name, made)
        if hasattr(type(thing), "derived"):
            for name in _said(thing, "derived"):
                setattr(thing, name, None)
        if hasattr(thing, "restored"):
            thing.restored()

    def value(self, plain: Any, current: Any = None) -> Any:  # noqa: PLR0911 # likewise
        """Return a restored value; a remembered object is restored into ``current``."""
        match plain:
            case None | bool() | int() | float() | str():
                return plain
            case {"array": number, "scalar": scalar, "frozen": frozen}:
                array = self._arrays[number].copy()
                if scalar:
                    return array[()]
                array.flags.writeable = not frozen
                return array
            case {"float": text}:
                return float(text)
            case {"known": number}:
                return self._known[number]
            case {"generator": state}:
                try:
                    current.bit_generator.state = self.value(state)
                except OverflowError as error:
                    raise ValueError("a generator's numbers are out of range") from error
                return current
            case {"tuple": parts}:
                return tuple(self.value(each) for each in parts)
            case {"list": parts}:
                return [self.value(each) for each in parts]
            case {"dict": parts}:
                return {name: self.value(each) for name, each in parts.items()}
            case {"made": name, "of": parts}:
                return self._types[name](**{key: self.value(each) for key, each in parts.items()})
            case {"type": _, "inside": _}:
                self.inside(current, plain)
                return current
        raise ValueError("the saved data are invalid")


def pack(arrays: Arrays) -> tuple[list[list[Any]], bytes]:
    """Return the types and shapes of arrays, and their concatenated numbers."""
    return (
        [[array.dtype.str, list(array.shape)] for array in arrays],
        b"".join(array.tobytes() for array in arrays),
    )


def unpack(heads: Any, data: bytes) -> Arrays:
    """Return the packed arrays, read-only.

    Raises
    ------
    ValueError
        If types and shapes do not use up the data, to the last byte.
    """
    arrays, place = [], 0
    for kind, shape in heads:
        if not _NUMBERS.fullmatch(kind) or any(type(n) is not int or n < 0 for n in shape):
            raise ValueError("an array must be of numbers")
        dtype, size = np.dtype(kind), math.prod(shape)
        if place + size * dtype.itemsize > len(data):
            raise ValueError("an array must be within the data")
        found = np.frombuffer(data, dtype, size, place) if size else np.zeros(0, dtype)
        arrays.append(found.reshape(shape).astype(dtype.newbyteorder("="), copy=False))
        place += size * dtype.itemsize
    if place != len(data):
        raise ValueError("arrays must make up all of the data")
    return arrays


def settings_digest(settings: Mapping[str, Any]) -> str:
    """Return a digest of an object's settings: everything that does not change in use."""
    digest = hashlib.sha256()
    _digest(digest, settings, ())
    return digest.hexdigest()


def _digest(digest: Any, value: Any, within: tuple[int, ...]) -> None:
    def say(*words: object) -> None:
        digest.update(repr(words).encode())

    if id(value) in within:
        return
    within = (*within, id(value))
    match value:
        case np.ndarray():
            say("array", value.dtype.str, value.shape)
            digest.update(np.ascontiguousarray(value).tobytes())
        case None | bool() | int() | float() | str() | bytes() | np.generic():
            say(type(value).__name__, value)
        case frozenset() | set():
            say("set", sorted(map(repr, value)))
        case Mapping():
            say("mapping", len(value))
            for name in value:
                say(name)
                _digest(digest, value[name], within)
        case tuple() | list() | range():
            say("sequence", len(value))
            for each in value:
                _digest(digest, each, within)
        case _ if callable(value) and hasattr(value, "__qualname__"):
            say("code", value.__module__, value.__qualname__)
        case _:
            say(type(value).__module__, type(value).__qualname__)
            known = is_dataclass(value) or hasattr(value, "__dict__")
            _digest(digest, settings_of(value) if known else repr(value), within)
