"""SciPy, loaded at its first use: it takes longer to import than the rest of the library.

Write ``from privrl.numerics.scipy_lazily import special`` and ``special.digamma(x)``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any


class _Lazily:
    """A module that is imported when an attribute is first used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module(self._name), name)
        setattr(self, name, value)  # from now on it is found at once
        return value


if TYPE_CHECKING:
    from scipy import fft, linalg, optimize, sparse, special
    from scipy.linalg import blas
else:
    blas, fft, linalg, optimize, sparse, special = (
        _Lazily(f"scipy.{name}")
        for name in ("linalg.blas", "fft", "linalg", "optimize", "sparse", "special")
    )

__all__ = ["blas", "fft", "linalg", "optimize", "sparse", "special"]
