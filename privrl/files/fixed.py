"""Attributes that are set once, so that the settings behind a guarantee cannot change."""

from typing import Any


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
