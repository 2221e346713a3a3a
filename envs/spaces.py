"""Spaces taken apart into numbers, and put together again."""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple


class Part(NamedTuple):
    """One number of which the elements of a space consist: its bounds, and whether it is whole."""

    low: float
    high: float
    is_whole: bool = True

    @property
    def size(self) -> int:
        """How many values a whole number has."""
        return int(self.high) - int(self.low) + 1


def parts_of(space: Space[Any]) -> list[Part]:
    """Return the numbers of which elements of a space consist, those of a Dict in its order.

    Raises
    ------
    ValueError
        If they consist of something else, such as texts or graphs.
    """
    return list(_parts(space))


def values_of(space: Space[Any], element: Any) -> list[Any]:
    """Return what an element of a space has for each of its `parts_of`."""
    # Box first: most spaces are one, and the check of a Dict takes as long as all the rest.
    if isinstance(space, Box) or not isinstance(space, Dict | Tuple):
        return (element.ravel() if type(element) is np.ndarray else np.ravel(element)).tolist()
    if isinstance(space, Dict):
        members = [(part, element[name]) for name, part in space.spaces.items()]
    else:
        members = list(zip(space.spaces, element, strict=True))
    return [value for member in members for value in values_of(*member)]


def element_of(space: Space[Any], values: Iterator[Any]) -> Any:
    """Return the element of a space that has these values: what `values_of` takes apart."""
    if isinstance(space, Dict):
        return {name: element_of(part, values) for name, part in space.spaces.items()}
    if isinstance(space, Tuple):
        return tuple(element_of(part, values) for part in space.spaces)
    if isinstance(space, Discrete):
        return np.int64(next(values))
    assert space.shape is not None
    flat = [next(values) for _ in range(math.prod(space.shape))]
    return np.array(flat, space.dtype).reshape(space.shape)


def _parts(space: Space[Any]) -> Iterator[Part]:
    match space:
        case Discrete():
            yield Part(int(space.start), int(space.start + space.n) - 1)
        case MultiDiscrete():
            for first, size in zip(
                space.start.ravel().tolist(), space.nvec.ravel().tolist(), strict=True
            ):
                yield Part(first, first + size - 1)
        case MultiBinary():
            yield from [Part(0, 1)] * math.prod(space.shape)
        case Box():
            whole = space.dtype is not None and space.dtype.kind in "iu"
            bounds = space.low.ravel().tolist(), space.high.ravel().tolist()
            for low, high in zip(*bounds, strict=True):
                yield Part(low, high, whole)
        case Tuple():
            for member in space.spaces:
                yield from _parts(member)
        case Dict():
            for member in space.spaces.values():
                yield from _parts(member)
        case _:
            raise ValueError(
                "env must have spaces of Discrete, MultiDiscrete, MultiBinary, Box, Tuple and "
                f"Dict, got {space}; leave it out."
            )
