"""Randomness of independent rows that are worked on as one array: each row has its own."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from privrl.numerics.special import FloatArray


class Abreast(np.random.Generator):
    """Generators side by side: what row i of an array draws is what the i-th alone would draw.

    So a row's numbers do not depend on which other rows are beside it. The rows are the first axis
    of what is drawn; a way of drawing that has no such rows is refused.

    Parameters
    ----------
    each : sequence of numpy.random.Generator
        One for each row.
    """

    def __init__(self, each: Sequence[np.random.Generator]) -> None:
        super().__init__(each[0].bit_generator)
        self.each = tuple(each)

    def random(self, size: Any = None, *_: Any, **__: Any) -> Any:
        """Return uniform numbers, shape (rows, ...)."""
        return self._of_size("random", size)

    def standard_exponential(self, size: Any = None, *_: Any, **__: Any) -> Any:
        """Return exponential numbers, shape (rows, ...)."""
        return self._of_size("standard_exponential", size)

    def standard_normal(self, size: Any = None, *_: Any, **__: Any) -> Any:
        """Return normal numbers, shape (rows, ...)."""
        return self._of_size("standard_normal", size)

    def standard_gamma(self, shape: Any, *_: Any, **__: Any) -> Any:
        """Return gammas of so many shapes, (rows, ...)."""
        return by_row(lambda own, rng: rng.standard_gamma(own), self, shape)

    def binomial(self, n: Any, p: Any, *_: Any, **__: Any) -> Any:
        """Return successes in n trials, shape (rows, ...), of chances that all rows share."""
        return by_row(lambda own, rng: rng.binomial(own, p), self, n)

    def _of_size(self, name: str, size: tuple[int, ...]) -> FloatArray:
        rows, *own = size
        if rows != len(self.each):
            raise _no_rows(name)
        return np.stack([getattr(each, name)(own) for each in self.each])


def by_row(
    draw: Callable[..., FloatArray], rng: np.random.Generator, *arrays: FloatArray
) -> FloatArray:
    """Return what ``draw(*arrays, rng)`` does, or of each row by itself where rows are abreast.

    Parameters
    ----------
    draw : callable
        Takes arrays and a generator, returns an array.
    rng : numpy.random.Generator
        Where the randomness comes from.
    *arrays : array, shape (rows, ...)
        What is drawn from.
    """
    if not isinstance(rng, Abreast):
        return draw(*arrays, rng)
    if any(len(array) != len(rng.each) for array in arrays):
        raise _no_rows("an array")
    return np.stack([draw(*own, each) for *own, each in zip(*arrays, rng.each, strict=True)])


def columns(rng: np.random.Generator, shape: tuple[int, int]) -> FloatArray:
    """Return uniform numbers, shape (m, n); where rows are abreast, each has n/rows in a block."""
    if not isinstance(rng, Abreast):
        return rng.random(shape)
    part, left = divmod(shape[1], len(rng.each))
    if left:
        raise _no_rows("columns")
    return np.concatenate([each.random((shape[0], part)) for each in rng.each], axis=1)


def generators(rng: np.random.Generator) -> tuple[np.random.Generator, ...]:
    """Return the generators of rows that are abreast, or the only one."""
    return rng.each if isinstance(rng, Abreast) else (rng,)


def _no_rows(what: str) -> ValueError:
    return ValueError(f"{what} must have a row for each generator that is abreast.")


_KNOWN: Final = {name for name in vars(Abreast) if not name.startswith("_")}


def _refusing(name: str) -> Callable[..., Any]:
    def refuse(self: Abreast, *_: Any, **__: Any) -> Any:
        raise _no_rows(name)

    return refuse


for _name in dir(np.random.Generator):
    if not _name.startswith("_") and _name not in {*_KNOWN, "bit_generator"}:
        setattr(Abreast, _name, _refusing(_name))
