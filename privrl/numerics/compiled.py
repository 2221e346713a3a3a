"""Functions that are quicker compiled: by numba, where it is installed (extra ``fast``).

What is compiled gives the same numbers, bit for bit, so when it takes over changes nothing else.
It does not before its plain twin has taken about as long as compiling: short runs never wait.
"""

from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from time import perf_counter
from typing import Final, Generic, ParamSpec, TypeVar

Given = ParamSpec("Given")
Returned = TypeVar("Returned")

_WORTH: Final = 1.0  # seconds in the plain function, after which compiling pays


class Compiled(Generic[Given, Returned]):
    """A function of which `privrl.numerics.kernels` has a compiled twin.

    Parameters
    ----------
    plain : callable
        In NumPy or Python.
    twin : str
        The name of the other, which takes the same arguments and returns the same; or None where
        the plain one has to decide.
    """

    def __init__(self, plain: Callable[Given, Returned], twin: str) -> None:
        self._plain, self._twin = plain, twin
        self._taken = 0.0  # seconds

    def __call__(self, *given: Given.args, **named: Given.kwargs) -> Returned:
        """Return what the plain function does, from whichever of them is quicker."""
        if self._taken >= _WORTH:
            quickly = self._quick(*given, **named)
            return self._plain(*given, **named) if quickly is None else quickly
        begun = perf_counter()
        returned = self._plain(*given, **named)
        self._taken += perf_counter() - begun
        return returned

    @cached_property
    def _quick(self) -> Callable[Given, Returned | None]:
        try:
            kernels = import_module("privrl.numerics.kernels")
        except ImportError:  # no numba, or none for this NumPy
            return self._plain
        quick: Callable[Given, Returned | None] = getattr(kernels, self._twin)
        return quick
