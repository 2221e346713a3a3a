"""Numbers on logarithmic axes: what a picture shows, as it is written."""

import io

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from privrl.files import files as _files
from privrl.files.ticks import plain_number


def written(low: float, high: float) -> tuple[Axes, list[str]]:
    """Return the labels of an axis in a picture that was written."""
    figure = Figure()
    axes = figure.add_subplot()
    axes.plot([0, 1], [low, high])
    axes.set(yscale="log", ylim=(low, high))
    _files.figure_writer(figure)(io.BytesIO())
    ticks = [*axes.get_yticklabels(which="major"), *axes.get_yticklabels(which="minor")]
    seen = [tick for tick in ticks if low <= tick.get_position()[1] <= high]
    return axes, [tick.get_text() for tick in seen if tick.get_text()]


def test_less_than_a_decade_is_labelled_in_plain_numbers() -> None:
    _, labels = written(0.25, 0.9)
    assert {"0.3", "0.4", "0.6"} <= set(labels)
    assert not any("10" in label for label in labels)


def test_decades_are_labelled_alone_where_there_are_many() -> None:
    _, labels = written(1e-3, 1e3)
    assert "0.01" in labels
    assert "0.02" not in labels


@pytest.mark.parametrize(
    ("number", "text"),
    [(0.6, "0.6"), (20000, "20000"), (1e-7, "$10^{-7}$"), (2e6, r"$2 \times 10^{6}$"), (0, "0")],
)
def test_numbers(number: float, text: str) -> None:
    assert plain_number(number) == text


def test_what_was_chosen_stays() -> None:
    figure = Figure()
    axes = figure.add_subplot()
    axes.plot([1, 10], [1, 1])
    axes.set(xscale="log")
    axes.set_xticks([1, 10], ["one", "ten"])
    _files.figure_writer(figure)(io.BytesIO())
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["one", "ten"]


def test_losses_are_written_in_plain_numbers() -> None:
    figure = Figure()
    axes = figure.add_subplot()
    axes.set(yscale="symlog", ylim=(-2000, -5))
    _files.figure_writer(figure)(io.BytesIO())
    labels = [tick.get_text() for tick in axes.get_yticklabels(which="major")]
    assert {"-10", "-100", "-1000"} <= {label.replace("\u2212", "-") for label in labels}
