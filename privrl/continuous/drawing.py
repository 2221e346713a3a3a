"""Draw an episode in a released model: each column over time, within its range."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privrl.continuous.schema import Choice, ContinuousSchema
from privrl.numerics.typing import FloatArray

_WIDE, _BAND, _LEFT, _GAP = 640, 56, 190, 8  # pixels
_MOST: Final = 12  # columns
_LETTERS: Final = 24
_INK, _GREY, _BLUE = "#222222", "#D9D9D9", "#0072B2"


def rgb_array(
    schema: ContinuousSchema, states: Sequence[FloatArray], horizon: int
) -> NDArray[np.uint8]:
    """Return a picture of an episode so far, shape (height, width, 3).

    Each of the first twelve columns has a band that is as high as its range, and as wide as the
    horizon.
    """
    from PIL import Image, ImageDraw, ImageFont  # noqa: PLC0415 # comes with matplotlib

    columns = list(schema.state.items())[:_MOST]
    page = Image.new("RGB", (_WIDE, _BAND * len(columns) + _GAP), "white")
    draw, font = ImageDraw.Draw(page), ImageFont.load_default(14)
    right, steps = _WIDE - _GAP, max(horizon, 1)
    for i, (name, column) in enumerate(columns):
        top, bottom = i * _BAND + _GAP, (i + 1) * _BAND
        values = [float(state[i]) for state in states]
        if isinstance(column, Choice):
            low, high = -0.5, len(column.values) - 0.5
            now = column.values[int(values[-1])]
        else:
            low, high, now = column.low, column.high, f"{values[-1]:.4g}"
        draw.rectangle((_LEFT, top, right, bottom), outline=_GREY)
        draw.text((_GAP, top), name[:_LETTERS], fill=_INK, font=font)
        draw.text((_GAP, top + 20), now[:_LETTERS], fill=_BLUE, font=font)
        places = [
            (_LEFT + step / steps * (right - _LEFT),
             bottom - (value - low) / (high - low) * (bottom - top))
            for step, value in enumerate(values)
        ]  # fmt: skip
        draw.line(places, fill=_BLUE, width=2)
        x, y = places[-1]
        draw.ellipse((x - 4, y - 4, x + 4, y + 4), fill=_BLUE)
    return np.asarray(page)
