"""What a page is made of: sections of words, tables and pictures, as plain data."""

from dataclasses import dataclass
from typing import Literal

Cell = str | int | float | None


@dataclass(frozen=True)
class Table:
    """Rows below heads: what is a number is sorted as one.

    Attributes
    ----------
    caption : str
        What it shows.
    heads : tuple of str
        What each column is called, with its unit.
    rows : tuple of tuples
        As many cells as heads.
    left_out : str
        Which rows there are beside these, and where; empty if these are all.
    """

    caption: str
    heads: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    left_out: str = ""


@dataclass(frozen=True)
class Facts:
    """Names, and what each is."""

    rows: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Series:
    """Points of one name in one look.

    Attributes
    ----------
    name : str
        As the legend says it.
    x, y : tuple of float
        Where they are.
    low, high : tuple of float
        The ends of an interval about each, along ``y`` (along ``x`` in a picture of dots); empty
        where there is none.
    colour, dash, marker : str
        Bokeh's names; no marker is none, and no dash is no line.
    """

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    colour: str = ""
    dash: str = "solid"
    marker: str = ""


@dataclass(frozen=True)
class Level:
    """A horizontal line to compare with."""

    name: str
    y: float
    dash: str = "dashed"


@dataclass(frozen=True)
class Cells:
    """Equal things of a grid: what is done in some rows, from column to column.

    Attributes
    ----------
    name : str
        As the legend says it.
    colour : str
        Theirs.
    rows : tuple of int
        Places among the labels of the picture.
    starts, ends : tuple of float
        The columns of each: from, and before which.
    """

    name: str
    colour: str
    rows: tuple[int, ...]
    starts: tuple[float, ...]
    ends: tuple[float, ...]


@dataclass(frozen=True)
class Chart:
    """A picture, its axes, and what it says in a sentence.

    Attributes
    ----------
    kind : str
        ``lines`` with bands; ``bars`` with intervals, lying, one for each label; ``dots`` in rows
        with labels; or a ``grid`` of cells in such rows.
    caption : str
        What it shows, in a sentence: it is read where pictures are not seen.
    x, y : str
        What each axis shows, with its unit.
    series : tuple of Series or Cells
        In the order of the legend.
    labels : tuple of str
        Of the rows, from above; empty for lines.
    levels : tuple of Level
        Lines to compare with.
    log_x : bool
        Whether the horizontal axis is logarithmic.
    from_zero : bool
        Whether the vertical axis of lines has 0 on it, as for shares. Others have it always.
    """

    kind: Literal["lines", "bars", "dots", "grid"]
    caption: str
    x: str
    y: str
    series: tuple[Series, ...] | tuple[Cells, ...]
    labels: tuple[str, ...] = ()
    levels: tuple[Level, ...] = ()
    log_x: bool = False
    from_zero: bool = False


@dataclass(frozen=True)
class Command:
    """A line to type."""

    line: str


@dataclass(frozen=True)
class Listing:
    """Sentences, one under another."""

    lines: tuple[str, ...]


#: A text is a paragraph.
Part = str | Table | Facts | Chart | Command | Listing


@dataclass(frozen=True)
class Section:
    """A heading and what is under it, in this order."""

    heading: str
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Page:
    """A report.

    Attributes
    ----------
    title : str
        What it is about.
    shareable : bool
        Whether all that it holds may be shared.
    warning : str
        What is said of that on top.
    sections : tuple of Section
    """

    title: str
    shareable: bool
    warning: str
    sections: tuple[Section, ...]
