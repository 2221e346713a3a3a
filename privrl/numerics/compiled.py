"""Functions that run faster when compiled by numba, if it is installed (extra ``fast``).

Compiled functions return the same numbers, bit for bit. They take over once the plain twins have
run, all together, for about as long as it takes to compile them all, so short runs never wait.
numba keeps them on disk.
"""

from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from time import perf_counter
from typing import ClassVar, Final, Generic, ParamSpec, TypeVar

Given = ParamSpec("Given")
Returned = TypeVar("Returned")

_WORTH: Final = 1.0  # seconds in plain functions, after which compiling pays


class Compiled(Generic[Given, Returned]):
    """A function of which `privrl.numerics.kernels` has a compiled twin.

    Parameters
    ----------
    plain : callable
        In NumPy or Python.
    twin : str
        Name of the compiled function, with the same arguments and results; it returns None to leave
        the decision to the plain one.
    """

    _taken: ClassVar[float] = 0.0  # seconds, by all of them: they are compiled at once

    def __init__(self, plain: Callable[Given, Returned], twin: str) -> None:
        self._plain, self._twin = plain, twin

    def __call__(self, *given: Given.args, **named: Given.kwargs) -> Returned:
        """Return the result of the plain function, computed by the faster of both."""
        if self._taken >= _WORTH:
            quickly = self._quick(*given, **named)
            return self._plain(*given, **named) if quickly is None else quickly
        begun = perf_counter()
        returned = self._plain(*given, **named)
        Compiled._taken += perf_counter() - begun
        return returned

    @cached_property
    def _quick(self) -> Callable[Given, Returned | None]:
        try:
            kernels = import_module("privrl.numerics.kernels")
        except ImportError:  # no numba, or none for this NumPy
            return self._plain
        return getattr(kernels, self._twin)
