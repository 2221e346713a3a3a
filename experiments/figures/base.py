"""A figure of a paper: its table, picture and caption."""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Picture

from privrl.files.files import package_text

#: What ``figures.toml`` says of each figure, in the order of the papers.
ABOUT: dict[str, dict[str, Any]] = tomllib.loads(package_text(__package__, "figures.toml"))


@dataclass(frozen=True)
class Figure:
    """A figure or table of a paper, or one that only privrl has, listed in ``figures.toml``.

    Attributes
    ----------
    id : str
        Its name on the command line, such as ``"dps-fig1"``.
    compute : callable
        From whether it is to be quick to a tidy table, one row for each point that is drawn.
        All randomness comes from the figure's seeds; the table depends on nothing else.
    draw : callable
        From that table to a picture.
    caption : callable
        From that table to a paragraph: the paper's result, privrl's result and the paper's errors.
        Its numbers come from the table.
    """

    id: str
    compute: Callable[[bool], pd.DataFrame]
    draw: Callable[[pd.DataFrame], Picture]
    caption: Callable[[pd.DataFrame], str]

    @property
    def title(self) -> str:
        """A few words about the content."""
        return str(ABOUT[self.id]["title"])

    @property
    def source(self) -> str:
        """The paper and the figure in it."""
        return str(ABOUT[self.id]["source"])

    @property
    def data(self) -> bool:
        """Whether the figure needs the UCI data sets, see `privrl.data.datasets`."""
        return ABOUT[self.id].get("data", False)


def panels(
    columns: int = 1, rows: int = 1, *, sharex: bool = False, sharey: bool = False
) -> tuple[Picture, list[Axes]]:
    """Return an empty picture and its axes, in reading order, with a light grid."""
    picture = Picture(figsize=(4.6 * columns + 1.4, 3.6 * rows + 0.6), layout="constrained")
    grid = picture.subplots(rows, columns, squeeze=False, sharex=sharex, sharey=sharey)
    axes = list(grid.flat)
    for each in axes:
        each.grid(alpha=0.25)
    return picture, axes


def legend(
    picture: Picture,
    axes: Axes,
    loc: Literal["outside upper center", "outside lower center", "outside right upper"],
    **look: Any,
) -> None:
    """Write the legend of one panel beside all of them."""
    picture.legend(*axes.get_legend_handles_labels(), loc=loc, **look)


def note(picture: Picture, text: str) -> None:
    """Write small print below a picture, such as its privacy unit."""
    picture.supxlabel(text, fontsize="small", color="0.3")


def label_deltas(axes: Axes, loc: Literal["upper right", "lower left"]) -> None:
    """Name the axes of a panel of (epsilon, delta) curves, and write its legend."""
    axes.set_xlabel("ε (nats)")
    axes.set_ylabel("δ")
    axes.legend(fontsize="small", loc=loc)
