"""What logarithmic axes cannot show is marked at their edges, in pictures that are written."""

import io
from typing import Any

import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from privrl.files import files as _files


def marks(axes: Axes) -> list[Any]:
    """Return the marks that are there once the picture is written, twice."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    for _ in range(2):
        _files.figure_writer(figure)(io.BytesIO())  # type: ignore[arg-type]
    return [line for line in axes.lines if line.get_marker() in ("v", "<")]


def panel(**scales: str) -> Axes:
    axes = Figure().add_subplot()
    axes.plot([1, 2, 3, 4], [0.1, 0.0, -2.0, 5.0], color="#D55E00")
    axes.set(**scales)
    return axes


def test_numbers_of_0_and_below_are_marked_at_the_lower_edge() -> None:
    axes = panel(yscale="log")
    before = axes.get_xlim()
    (mark,) = marks(axes)
    assert mark.get_xdata().tolist() == [2, 3]
    assert mark.get_transform().transform((2, 0))[1] == pytest.approx(axes.bbox.y0)
    assert to_hex(mark.get_color()).upper() == "#D55E00"
    assert not mark.get_clip_on()
    assert axes.get_xlim() == before


def test_those_along_the_other_axis_are_marked_at_the_left() -> None:
    axes = Figure().add_subplot()
    axes.plot([-1, 1, 2], [3, 4, 5])
    axes.set_xscale("log")
    (mark,) = marks(axes)
    assert (mark.get_marker(), mark.get_ydata().tolist()) == ("<", [3])


def test_linear_axes_show_all_and_have_no_marks() -> None:
    assert marks(panel()) == []


def test_the_caps_of_error_bars_are_no_points() -> None:
    axes = Figure().add_subplot()
    axes.errorbar([1, 2], [0.5, -0.5], [1.0, 1.0], capsize=2)
    axes.set_yscale("log")
    (mark,) = marks(axes)
    assert mark.get_xdata().tolist() == [2]


def test_what_is_beyond_the_other_limits_has_no_mark() -> None:
    axes = panel(yscale="log", xlim=(0, 2.5))
    (mark,) = marks(axes)
    assert mark.get_xdata().tolist() == [2]


def test_of_many_some_are_marked_from_the_first_to_the_last() -> None:
    axes = Figure().add_subplot()
    axes.plot(range(40), [*[1.0] * 10, *[0.0] * 30])
    axes.set_yscale("log")
    (mark,) = marks(axes)
    shown = mark.get_xdata().tolist()
    assert (len(shown), shown[0], shown[-1]) == (12, 10, 39)
