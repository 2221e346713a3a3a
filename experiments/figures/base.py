"""A figure of a paper: its table, picture and caption; and what several of them draw."""

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Picture

from privrl.files.files import package_text

#: What ``figures.toml`` says of each figure, in the order of the papers.
ABOUT: dict[str, dict[str, Any]] = tomllib.loads(package_text(__package__, "figures.toml"))

_CAPTIONS: dict[str, str] = tomllib.loads(package_text(__package__, "captions.toml"))


def told(name: str, **values: Any) -> str:
    """Return a paragraph of ``captions.toml`` with its fields filled in."""
    return _CAPTIONS[name].replace("\n", " ").format(**values)


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


def draw_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, note: str, widths: Sequence[float]
) -> Picture:
    """Return a picture of a table of texts, with a line of small print below.

    Parameters
    ----------
    columns : sequence of str
        Heads; they may have several lines.
    rows : sequence of sequences of str
        The first text of each row is its name.
    note : str
        Units, and the privacy unit.
    widths : sequence of float
        Of the columns, in inches.
    """
    lines = 1 + max(head.count("\n") for head in columns)
    heights = [0.16 + 0.19 * lines] + [0.16 + 0.19 * (1 + max(map(_breaks, row))) for row in rows]
    below = 0.2 + 0.18 * (1 + note.count("\n"))
    picture = Picture(figsize=(sum(widths) + 0.2, sum(heights) + below + 0.1))
    axes = picture.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, sum(widths) + 0.2), ylim=(0, sum(heights) + below + 0.1))
    axes.axis("off")
    top = sum(heights) + below
    axes.plot((0.1, sum(widths) + 0.1), (top, top), color="black", lw=1.2)
    for i, (row, height) in enumerate(zip([columns, *rows], heights, strict=True)):
        x, middle = 0.1, top - height / 2
        for j, (text, width) in enumerate(zip(row, widths, strict=True)):
            at, side = (x + 0.06, "left") if j == 0 else (x + width / 2, "center")
            weight = "bold" if i == 0 else "normal"
            axes.text(at, middle, text, ha=side, va="center", fontsize=9.5, weight=weight)
            x += width
        top -= height
        thick = 1.2 if i in (0, len(rows)) else 0.4
        axes.plot((0.1, sum(widths) + 0.1), (top, top), color="black", lw=thick)
    axes.text(0.16, top - 0.1, note, va="top", fontsize=8.5, color="0.3")
    return picture


def _breaks(text: str) -> int:
    return text.count("\n")
