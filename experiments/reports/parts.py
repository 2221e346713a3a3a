"""The parts of a page as plain data: text, tables and pictures."""

from dataclasses import dataclass
from typing import Literal

Cell = str | int | float | None


@dataclass(frozen=True)
class Table:
    """Rows below heads. Numbers sort as numbers.

    Attributes
    ----------
    caption : str
        What the table shows.
    heads : tuple of str
        Name of each column, with its unit.
    rows : tuple of tuples
        As many cells as heads.
    left_out : str
        Which rows are left out and where they are; or empty.
    """

    caption: str
    heads: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    left_out: str = ""


@dataclass(frozen=True)
class Facts:
    """Names and their values."""

    rows: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Series:
    """Points with one name and one look.

    Attributes
    ----------
    name : str
        Name in the legend.
    x, y : tuple of float
        Their coordinates.
    low, high : tuple of float
        The ends of an interval about each, along ``y`` (along ``x`` for dots), or empty.
    colour, dash, marker : str
        Bokeh's names; an empty marker is none.
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
    """A horizontal reference line."""

    name: str
    y: float
    dash: str = "dashed"


@dataclass(frozen=True)
class Cells:
    """Cells of a grid with the same action.

    Attributes
    ----------
    name : str
        Name in the legend.
    colour : str
        Their colour.
    rows : tuple of int
        Places among the labels of the picture.
    starts, ends : tuple of float
        First column of each, and the one after its last; on a map, where each begins and ends.
    """

    name: str
    colour: str
    rows: tuple[int, ...]
    starts: tuple[float, ...]
    ends: tuple[float, ...]


@dataclass(frozen=True)
class Chart:
    """A picture with its axes and a caption.

    Attributes
    ----------
    kind : str
        ``lines`` with bands; horizontal ``bars`` with intervals, one for each label; ``dots`` in
        rows with labels; a ``grid`` of cells in such rows, by steps; or a ``map`` of cells, by
        numbers.
    caption : str
        A sentence about the content, for screen readers as well.
    x, y : str
        Label of each axis, with its unit.
    series : tuple of Series or Cells
        In the order of the legend.
    labels : tuple of str
        Labels of the rows from the top; empty for lines.
    levels : tuple of Level
        Reference lines.
    of_budgets : bool
        Whether the horizontal axis is of epsilons: logarithmic, and never rounded down.
    from_zero : bool
        Whether the vertical axis of lines includes 0. Other kinds always include it.
    """

    kind: Literal["lines", "bars", "dots", "grid", "map"]
    caption: str
    x: str
    y: str
    series: tuple[Series, ...] | tuple[Cells, ...]
    labels: tuple[str, ...] = ()
    levels: tuple[Level, ...] = ()
    of_budgets: bool = False
    from_zero: bool = False


@dataclass(frozen=True)
class Picture:
    """A picture in a file."""

    png: bytes
    caption: str


@dataclass(frozen=True)
class Command:
    """A line to type."""

    line: str


@dataclass(frozen=True)
class Listing:
    """A list of sentences."""

    lines: tuple[str, ...]


#: A text is a paragraph.
Part = str | Table | Facts | Chart | Picture | Command | Listing


@dataclass(frozen=True)
class Section:
    """A heading and its parts."""

    heading: str
    parts: tuple[Part, ...]

    @classmethod
    def of(cls, heading: str, *parts: Part) -> "Section":
        """Return a section of these parts."""
        return cls(heading, parts)


@dataclass(frozen=True)
class Page:
    """A report.

    Attributes
    ----------
    title : str
        The title.
    shareable : bool
        Whether the whole page may be shared.
    warning : str
        The banner about sharing.
    sections : tuple of Section
    """

    title: str
    shareable: bool
    warning: str
    sections: tuple[Section, ...]
