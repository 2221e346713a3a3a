"""Names of lines beside their ends, where a legend would have to be looked up line by line."""

from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes

from privrl.numerics.special import FloatArray

_POINTS = 8.5  # the size of the letters
_LINE = 1.35 * _POINTS / 72  # inches from a name to the next
_AWAY, _SAMPLE, _SPACE = 0.03, 0.055, 0.012  # in the panel's widths: a sample of a line, its name


class End(NamedTuple):
    """Where a line ends, what it is called, and how it looks."""

    name: str
    height: float
    look: Mapping[str, Any]


def label_ends(axes: Axes, ends: Iterable[End]) -> None:
    """Write names at the right of a panel, each as near to its line's end as the others let it.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
        The panel; its place in the figure and its limits are final.
    ends : iterable of End
        Of its lines.
    """
    ordered = sorted(ends, key=lambda end: end.height)
    figure = axes.get_figure(root=True)
    assert figure is not None
    inches = axes.get_position().height * figure.get_figheight()
    to_axes = axes.transData + axes.transAxes.inverted()
    left = axes.get_xlim()[0]
    at = np.clip([to_axes.transform((left, end.height))[1] for end in ordered], 0.0, 1.0)
    sample = (1 + _AWAY, 1 + _AWAY + _SAMPLE)
    beside: dict[str, Any] = {"transform": axes.transAxes, "clip_on": False}
    for end, height, place in zip(ordered, at, spread(at, _LINE / inches), strict=True):
        axes.plot((1.0, sample[0]), (height, place), color=end.look["color"], lw=0.7, **beside)
        axes.plot(sample, (place, place), markevery=[1], ms=4.5, lw=1.6, **end.look, **beside)
        axes.text(
            sample[1] + _SPACE, place, end.name, va="center", fontsize=_POINTS,
            transform=axes.transAxes,
        )  # fmt: skip


def room(names: Iterable[str]) -> tuple[float, float]:
    """Return how many inches names take at the right of a panel, and one below another."""
    lengths = [len(name) for name in names]
    return 0.75 + 0.56 * _POINTS / 72 * max(lengths, default=0), _LINE * len(lengths)


def spread(places: FloatArray, gap: float) -> FloatArray:
    """Return places of 0 to 1, ascending, moved as little as can be (squared) to lie apart.

    Parameters
    ----------
    places : array, shape (n,)
        Where they would best be, ascending.
    gap : float
        The least distance of neighbours; ``1 / (n - 1)`` where there is no room for it.
    """
    n = len(places)
    gap = min(gap, 1 / max(n - 1, 1))
    steps = gap * np.arange(n, dtype=np.float64)
    # Isotonic regression: neighbours in the wrong order share their mean, again and again.
    pools: list[list[float]] = []
    for place in (places - steps).tolist():
        pool = [place]
        while pools and fmean(pools[-1]) >= fmean(pool):
            pool = pools.pop() + pool
        pools.append(pool)
    level = np.array([fmean(pool) for pool in pools for _ in pool])
    return np.clip(level, 0.0, 1.0 - gap * max(n - 1, 0)) + steps
