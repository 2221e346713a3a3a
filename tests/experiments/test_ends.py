"""Names beside the ends of lines: each near its own, none over another."""

from itertools import pairwise

import numpy as np
import pytest
from matplotlib.figure import Figure

from privrl.experiments.palette import End, label_ends, room, spread


@pytest.mark.parametrize(
    ("places", "gap", "expected"),
    [
        ([0.1, 0.5, 0.9], 0.2, [0.1, 0.5, 0.9]),
        ([0.5, 0.5], 0.2, [0.4, 0.6]),
        ([1.0, 1.0, 1.0], 0.1, [0.8, 0.9, 1.0]),
        ([0.0, 0.0], 0.3, [0.0, 0.3]),
        ([0.2, 0.3, 0.9], 0.3, [0.1, 0.4, 0.9]),
        ([0.5] * 3, 9.0, [0.0, 0.5, 1.0]),
        ([0.7], 0.3, [0.7]),
        ([], 0.3, []),
    ],
)
def test_places_move_as_little_as_can_be(
    places: list[float], gap: float, expected: list[float]
) -> None:
    assert spread(np.array(places), gap) == pytest.approx(np.array(expected))


def test_eleven_names_lie_apart_in_the_order_of_their_lines_and_fit() -> None:
    names = [f"method {i}, geometric:1.05" for i in range(11)]
    right, high = room(names)
    figure = Figure(figsize=(4 + right, max(high, 3) + 1))
    figure.subplots_adjust(0.1, 0.1, 4 / (4 + right), 0.9)
    axes = figure.subplots()
    axes.set(ylim=(1, 1000), yscale="log")
    heights = np.geomspace(900, 1, 11) ** 0.1
    look = {"color": "red", "marker": "o", "linestyle": "-"}
    label_ends(axes, [End(*each, look) for each in zip(names, heights, strict=True)])
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in axes.texts]
    assert [text.get_text() for text in axes.texts] == names[::-1]
    assert all(below.y1 <= above.y0 + 1 for below, above in pairwise(boxes))
    assert max(box.x1 for box in boxes) <= figure.bbox.x1
