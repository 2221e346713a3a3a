"""Marks at the edge of a logarithmic axis for values of 0 and below."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.transforms import blended_transform_factory

_MANY = 12  # marks of one line; of more, so many are drawn
_MARK = "at or below 0"
_CAPS = ("_", "|")  # of error bars, which fall to the edge by themselves


def mark_edges(figure: Figure) -> None:
    """Mark values at or below 0 at the lower or left edge of logarithmic axes."""
    for axes in figure.axes:
        for line in list(axes.lines):
            if line.get_gid() == _MARK:  # it was written before
                line.remove()
        for line in list(axes.lines):
            if line.get_transform() != axes.transData or line.get_marker() in _CAPS:
                continue
            x, y = (np.asarray(each, float) for each in line.get_data(orig=False))
            if axes.get_yscale() == "log":
                _mark(axes, line, x[y <= 0], "y")
            if axes.get_xscale() == "log":
                _mark(axes, line, y[x <= 0], "x")


def _mark(axes: Axes, line: Line2D, at: "np.ndarray[Any, Any]", which: str) -> None:
    """Draw arrowheads that point out of a panel, within its limits, in the colour of a line."""
    low, high = sorted(axes.get_xlim() if which == "y" else axes.get_ylim())
    at = at[(low <= at) & (at <= high)]
    if not len(at):
        return
    if len(at) > _MANY:
        at = at[np.linspace(0, len(at) - 1, _MANY).round().astype(int)]
    edge = np.zeros(len(at))
    across = (axes.transData, axes.transAxes)
    across = across if which == "y" else across[::-1]
    axes.plot(
        *((at, edge) if which == "y" else (edge, at)), ls="none", gid=_MARK, clip_on=False,
        marker="v" if which == "y" else "<", color=line.get_color(), ms=7, mec="white", mew=0.6,
        transform=blended_transform_factory(*across), zorder=5, scalex=False, scaley=False,
    )  # fmt: skip
