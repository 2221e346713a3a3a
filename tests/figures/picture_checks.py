"""What every figure promises."""

import io
import re
from collections.abc import Callable

import pytest
from matplotlib.text import Text

from privrl.experiments.figures import FIGURES


class QuickTables(dict):
    """The tables of figures at their quick sizes, each computed when it is first asked for."""

    def __missing__(self, name):
        self[name] = FIGURES[name].compute(True)
        return self[name]


def check_picture(figure, table) -> None:
    """The picture can be written, its axes are labelled, and the privacy unit stands on it."""
    picture = figure.draw(table)
    file = io.BytesIO()
    picture.savefig(file, format="png", dpi=40)  # a missing glyph is a warning, an error here
    assert file.getvalue().startswith(b"\x89PNG")
    shared_x, shared_y = picture.get_supxlabel(), picture.get_supylabel()
    words = " ".join(text.get_text() for text in picture.findobj(Text))
    assert "privacy unit" in words.lower()
    for axes in picture.axes:
        if axes.axison:
            assert axes.get_xlabel() or shared_x
            row = [
                each for each in picture.axes if each.get_position().y0 == axes.get_position().y0
            ]
            assert shared_y or any(each.get_ylabel() for each in row)


def check_caption(figure, table) -> str:
    """Whole sentences with numbers, none of them missing; returned for closer looks."""
    caption = figure.caption(table)
    assert caption.startswith("The paper ")
    assert caption.endswith((".", ".)"))
    assert "  " not in caption
    assert not re.search(r"\b(nan|inf|None)\b", caption)
    assert len(re.findall(r"\d", caption)) > 10
    return caption


def picture_test(names) -> Callable[..., None]:
    """Return a test of the pictures and captions of these figures."""

    @pytest.mark.slow
    @pytest.mark.parametrize("name", names)
    def test(tables, name: str) -> None:
        check_picture(FIGURES[name], tables[name])
        check_caption(FIGURES[name], tables[name])

    return test
