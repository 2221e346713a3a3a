"""Bins that make the states of a task with continuous observations: spelled in a line, and public.

Choose the bins before data exist, from public knowledge of the task.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from gymnasium.spaces import Space

from privrl._registration import CARTPOLE_BINS
from privrl.envs.spaces import parts_of
from privrl.files.shown import shown
from privrl.numerics.checks import check_is

Edges = tuple[float, ...]


def even_edges(low: float, high: float, bins: int) -> Edges:
    """Return the edges between so many bins of one width; the end bins reach to infinity."""
    return tuple(low + (high - low) * i / bins for i in range(1, bins))


PUBLIC: Final = "public"  # stands for `PUBLIC_BINS`
_SIGN = (0.0,)
PUBLIC_BINS: Final[Mapping[str, tuple[Edges, ...]]] = {
    "CartPole-v1": CARTPOLE_BINS,
    "MountainCar-v0": (even_edges(-1.2, 0.6, 12), even_edges(-0.07, 0.07, 12)),
    "Acrobot-v1": (*[_SIGN] * 4, (-1.0, 0.0, 1.0), (-2.0, 0.0, 2.0)),
}
"""The bins that Gymnasium's continuous tasks get where none are given, by id.

CartPole has the 162 boxes of 1983. MountainCar has 12 even bins of the position and 12 of the
speed; Acrobot the signs of both angles' cosines and sines, and four bins of each angular speed:
few states in which a plan still reaches the goal.
"""


def edges_of(bins: str, space: Space[Any]) -> list[Edges]:
    """Return the edges that a text spells, for each real coordinate of a space.

    Parameters
    ----------
    bins : str
        What each coordinate is cut into, with commas between coordinates, or once for all of
        them: ``12``, so many even bins between the bounds of the space; ``-2.4:2.4:6``, so many
        between these bounds; or the edges themselves, ``-0.8/0.8``. ``1`` ignores a coordinate.
        Values outside the bounds belong to the end bins.
    space : gymnasium.spaces.Space
        Whose coordinates, flattened.

    Raises
    ------
    ValueError
        If it cannot be read, is for another number of coordinates, or asks for even bins of a
        coordinate without bounds.
    """
    axes = check_bins(bins)
    coordinates = [part for part in parts_of(space) if not part.is_whole]
    if len(axes) not in (1, len(coordinates)):
        raise ValueError(
            f"bins must be for each of {len(coordinates)} coordinates of {space}, or once for all "
            f"of them, got {len(axes)}; 1 ignores a coordinate."
        )
    axes = axes * len(coordinates) if len(axes) == 1 else axes
    return [
        _between(i, axis, part.low, part.high) if isinstance(axis, int) else axis
        for i, (axis, part) in enumerate(zip(axes, coordinates, strict=True))
    ]


def check_bins(bins: str) -> list[int | Edges]:
    """Return for each coordinate how many even bins it has, or its edges; see `edges_of`.

    Raises
    ------
    ValueError
        If the text cannot be read.
    """
    check_is("bins", bins, str, hint="'12' makes as many of each real coordinate")
    return [_axis(text.strip()) for text in bins.split(",")]


def _axis(text: str) -> int | Edges:
    try:
        if ":" in text:
            low, high, count = text.split(":")
            between = float(low), float(high)
            if not -math.inf < between[0] < between[1] < math.inf:
                raise ValueError
            return even_edges(*between, _count(count))
        if "/" in text:
            return _increasing([float(edge) for edge in text.split("/")])
        return _count(text)
    except ValueError:
        raise ValueError(
            "bins must be, for each coordinate, a number of bins (12), LOW:HIGH:NUMBER "
            f"(-2.4:2.4:6) or increasing edges (-0.8/0.8), with commas between, got {shown(text)}."
        ) from None


def _count(text: str) -> int:
    count = int(text)
    if not 1 <= count <= 10**6:  # of edges that are held one by one
        raise ValueError
    return count


def _increasing(edges: Sequence[float]) -> Edges:
    if not (np.isfinite(edges).all() and (np.diff(edges) > 0).all()):
        raise ValueError
    return tuple(edges)


def _between(coordinate: int, count: int, low: float, high: float) -> Edges:
    """Return even bins between the bounds of a space, as long as it has any."""
    if count > 1 and not high - low < math.inf:
        raise ValueError(
            f"bins must say between which bounds coordinate {coordinate} has {count} of them, for "
            f"its space is {low:g} to {high:g}; say LOW:HIGH:{count}, or 1 to ignore it."
        )
    return even_edges(low, high, count)
