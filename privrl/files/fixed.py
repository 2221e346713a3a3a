"""Attributes that are set once, so that the settings behind a guarantee cannot change."""

import copy
from collections.abc import Iterable
from typing import Any, NoReturn


class _Fixed:
    """An attribute that the constructor sets once; it is read-only afterwards.

    Without ``__get__``, Python reads the instance directly, as fast as any attribute.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __set__(self, thing: object, value: object) -> None:
        if self._name in vars(thing):
            raise self._refusal(thing)
        vars(thing)[self._name] = value

    def __delete__(self, thing: object) -> None:
        raise self._refusal(thing)

    def _refusal(self, thing: object) -> AttributeError:
        kind = type(thing).__name__
        return AttributeError(
            f"{self._name} of a {kind} is read-only: guarantees depend on it. Make another {kind}."
        )


class _Fitted(_Fixed):
    """An attribute that only a fit sets, through ``vars``; before that it raises."""

    def __get__(self, thing: object | None, owner: type) -> Any:
        if thing is None:  # asked of the class
            return self
        try:
            return vars(thing)[self._name]
        except KeyError:
            raise AttributeError(f"{owner.__name__} has no {self._name} before fit") from None

    def __set__(self, thing: object, value: object) -> None:
        raise self._refusal(thing)


def fixed() -> Any:
    """Return a class attribute whose value each instance sets once: ``horizon: int = fixed()``."""
    return _Fixed()


def fitted() -> Any:
    """Return a class attribute that only ``fit`` sets, through ``vars(self)``."""
    return _Fitted()


class FixedArrays:
    """The base of classes whose arrays are read-only, also in pickles and copies, which forget it.

    An array that can be written to would change what was checked, or charged.
    """

    def __setstate__(self, state: dict[str, Any]) -> None:
        _keep(state.values())
        vars(self).update(state)


def _keep(parts: Iterable[Any]) -> None:
    """Make arrays read-only, and those in tuples."""
    for each in parts:
        if hasattr(each, "setflags"):  # an array; this module needs no NumPy
            each.setflags(write=False)
        elif isinstance(each, tuple):
            _keep(each)


def own_arrays(thing: object, *names: str) -> None:
    """Replace arrays of a frozen dataclass that is made by read-only copies."""
    for name in names:
        array = getattr(thing, name).copy()
        array.setflags(write=False)
        object.__setattr__(thing, name, array)


def _refuse(*_: object, **__: object) -> NoReturn:
    raise TypeError("a guarantee is read-only; copy.deepcopy returns one that can be changed.")


class _FixedDict(dict[str, Any]):
    """A table that is read-only, and otherwise as any other, so that files can be made of it."""

    def __copy__(self) -> dict[str, Any]:
        return dict(self)

    copy = __copy__

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        # Within a copy of what states it, such as a model, it stays read-only.
        return self if memo else {name: copy.deepcopy(each) for name, each in self.items()}

    def __reduce__(self) -> tuple[Any, tuple[dict[str, Any]]]:
        return read_only, (dict(self),)


class _FixedList(list[Any]):
    """A list that is read-only."""

    def __copy__(self) -> list[Any]:
        return list(self)

    copy = __copy__

    def __deepcopy__(self, memo: dict[int, Any]) -> list[Any]:
        return self if memo else list(map(copy.deepcopy, self))

    def __reduce__(self) -> tuple[Any, tuple[list[Any]]]:
        return read_only, (list(self),)


for _kind, _names in (
    (_FixedDict, "__setitem__ __delitem__ __ior__ clear pop popitem setdefault update"),
    (_FixedList, "__setitem__ __delitem__ __iadd__ __imul__ append clear extend insert pop"),
    (_FixedList, "remove reverse sort"),
):
    for _name in _names.split():
        setattr(_kind, _name, _refuse)


def read_only(value: Any) -> Any:
    """Return a copy of plain data in which tables and lists are read-only, at every depth."""
    if isinstance(value, dict):
        return _FixedDict({name: read_only(each) for name, each in value.items()})
    if isinstance(value, list):
        return _FixedList(map(read_only, value))
    return value
