"""Draw RiverSwim, as text and as a picture; the dynamics know nothing of it."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privrl.envs.tabular import TabularMDP
from privrl.numerics.typing import FloatArray

Point = tuple[float, float]
Colour = tuple[float, float, float]

# Lengths are in units of the distance between two states; long rivers have smaller units.
_HEIGHT, _BANK, _MIDDLE = 2.4, 0.48, 1.2
_LARGEST_UNIT, _LARGEST_WIDTH = 112, 1568

# Blues, an orange and a yellow close to those of Okabe and Ito: colour-blind eyes tell them apart.
_SAND, _WET_SAND = (0.96, 0.92, 0.83), (0.86, 0.79, 0.66)
_SHALLOW, _DEEP, _SHADOW = (0.56, 0.81, 0.93), (0.02, 0.40, 0.64), (0.0, 0.16, 0.30)
_WHITE, _SKIN, _ORANGE = (1.0, 1.0, 1.0), (0.99, 0.86, 0.73), (0.84, 0.37, 0.0)
_GOLD, _DARK_GOLD = (0.98, 0.80, 0.20), (0.72, 0.50, 0.05)


class _Stroke(NamedTuple):
    """A line with round ends; a disc if both ends are the same point."""

    start: Point
    end: Point
    radius: float
    colour: Colour
    opacity: float = 1.0


# The crawl seen from above, heading right from the origin, wake first.
_SWIMMER = (
    _Stroke((-0.30, 0.10), (-0.47, 0.16), 0.014, _WHITE, 0.7),
    _Stroke((-0.30, -0.10), (-0.47, -0.16), 0.014, _WHITE, 0.7),
    _Stroke((0.16, 0.05), (-0.28, 0.05), 0.09, _SHADOW, 0.35),
    _Stroke((-0.14, 0.045), (-0.32, 0.06), 0.034, _SKIN),
    _Stroke((-0.14, -0.045), (-0.34, -0.04), 0.034, _SKIN),
    _Stroke((0.05, 0.07), (-0.07, 0.21), 0.033, _SKIN),
    _Stroke((0.05, -0.07), (0.16, -0.19), 0.033, _SKIN),
    _Stroke((0.16, -0.19), (0.29, -0.15), 0.029, _SKIN),
    _Stroke((0.03, 0.0), (-0.10, 0.0), 0.09, _SKIN),
    _Stroke((-0.11, 0.0), (-0.16, 0.0), 0.08, _ORANGE),
    _Stroke((0.17, 0.0), (0.17, 0.0), 0.1, _ORANGE),
    _Stroke((0.19, -0.035), (0.19, -0.035), 0.03, _WHITE, 0.5),
)


def ansi(mdp: TabularMDP, state: int, last_action: int | None) -> str:
    """Return two lines: the river with the swimmer between its rewards, and what happened.

    Parameters
    ----------
    mdp : TabularMDP
        A RiverSwim.
    state : int
        Where the swimmer is, in ``0 .. S - 1``.
    last_action : {None, 0, 1}
        What it did last: nothing yet, left, right.
    """
    swimmer, action = {None: ("@", "start"), 0: ("<", "swam left"), 1: (">", "swam right")}[
        last_action
    ]
    places = ["o"] * mdp.n_states
    places[state] = swimmer
    left, right = mdp.reward_table[0, 0, 0], mdp.reward_table[-1, 1, -1]
    return f"{left:g} |~{'~~'.join(places)}~| {right:g}\nstate {state}, {action}\n"


def rgb_array(n_states: int, state: int, last_action: int | None) -> NDArray[np.uint8]:
    """Return a picture of the river from above.

    A disc is a state, chevrons point with the current, the coins on the bank
    are the small reward at the first state and the large one at the last. The
    swimmer faces the way it last swam, or right at the start.

    Parameters
    ----------
    n_states : int
        Length of the river.
    state : int
        Where the swimmer is, in ``0 .. S - 1``.
    last_action : {None, 0, 1}
        What it did last: nothing yet, left, right.

    Returns
    -------
    array of uint8, shape (height, width, 3)
    """
    canvas = _Canvas(_river(n_states).copy(), _unit(n_states))
    facing = -1 if last_action == 0 else 1
    for stroke in _SWIMMER:
        (x0, y0), (x1, y1) = stroke.start, stroke.end
        start = (state + 1 + facing * x0, _MIDDLE + y0)
        end = (state + 1 + facing * x1, _MIDDLE + y1)
        canvas.draw(stroke._replace(start=start, end=end))
    return np.round(255 * canvas.pixels).astype(np.uint8)


def _unit(n_states: int) -> int:
    """Return how many pixels apart two states are."""
    return max(8, min(_LARGEST_UNIT, _LARGEST_WIDTH // (n_states + 1)))


@lru_cache(maxsize=4)
def _river(n_states: int) -> FloatArray:
    """Return the picture without the swimmer."""
    unit = _unit(n_states)
    canvas = _Canvas(np.zeros((round(_HEIGHT * unit), (n_states + 1) * unit, 3)), unit)
    _draw_landscape(canvas)
    for x in range(1, n_states + 1):
        canvas.draw_disc((x, _MIDDLE + 0.03), 0.34, _SHADOW, 0.25)
        canvas.draw_disc((x, _MIDDLE), 0.33, _WHITE, 0.55)
        canvas.draw_disc((x, _MIDDLE), 0.30, _SHALLOW, 0.6)
    for x in range(1, n_states):
        for side in (-0.09, 0.09):
            tip, tail = (x + 0.46, _MIDDLE), (x + 0.54, _MIDDLE + side)
            canvas.draw(_Stroke(tip, tail, 0.018, _WHITE, 0.85))
    _draw_coin(canvas, (1, 0.21), 0.09)
    _draw_coin(canvas, (n_states, 0.21), 0.16)
    return canvas.pixels


def _draw_landscape(canvas: "_Canvas") -> None:
    """Draw a river between wavy shores, darker towards its middle, with ripples on it."""
    height, width, _ = canvas.pixels.shape
    y = (np.arange(height)[:, None] + 0.5) / canvas.unit
    x = (np.arange(width) + 0.5) / canvas.unit
    top = _BANK + 0.035 * np.sin(1.7 * x) + 0.02 * np.sin(4.1 * x + 1)
    bottom = _HEIGHT - _BANK + 0.035 * np.sin(1.9 * x + 2) + 0.02 * np.sin(4.7 * x)
    to_shore = np.minimum(y - top, bottom - y)

    canvas.blend(np.ones((height, width)), _SAND)
    canvas.blend(np.clip((to_shore + 0.06) * canvas.unit, 0, 1), _WET_SAND)
    depth = np.clip(to_shore / 0.6, 0, 1)[..., None] ** 0.7
    water = (1 - depth) * _SHALLOW + depth * _DEEP
    canvas.blend(np.clip(to_shore * canvas.unit, 0, 1), water)
    foam = 0.8 * np.exp(-(((to_shore - 0.035) / 0.014) ** 2))
    waves = np.sin(26 * y + np.sin(5 * x + 9 * y)) * np.sin(2.3 * x + 7 * np.sin(3 * y))
    canvas.blend(foam + 0.2 * np.clip(3 * waves - 2, 0, 1) * (to_shore > 0.1), _WHITE)


def _draw_coin(canvas: "_Canvas", centre: Point, radius: float) -> None:
    x, y = centre
    canvas.draw_disc((x, y + 0.02), 1.05 * radius, _SHADOW, 0.25)
    canvas.draw_disc(centre, radius, _DARK_GOLD)
    canvas.draw_disc(centre, 0.86 * radius, _GOLD)
    canvas.draw_disc(centre, 0.62 * radius, _DARK_GOLD, 0.4)
    canvas.draw_disc(centre, 0.52 * radius, _GOLD)


class _Canvas(NamedTuple):
    """Pixels with colours in 0..1, shape (height, width, 3), and how many make a unit."""

    pixels: FloatArray
    unit: int

    def blend(self, coverage: FloatArray, colour: ArrayLike) -> None:
        """Mix a colour into all pixels, each as far as its coverage in 0..1 says."""
        self.pixels[...] += coverage[..., None] * (np.asarray(colour) - self.pixels)

    def draw_disc(self, centre: Point, radius: float, colour: Colour, opacity: float = 1.0) -> None:
        """Draw a disc."""
        self.draw(_Stroke(centre, centre, radius, colour, opacity))

    def draw(self, stroke: _Stroke) -> None:
        """Draw a stroke, its edge smoothed over one pixel."""
        ends = np.array([stroke.start, stroke.end]) * self.unit
        radius = stroke.radius * self.unit
        left, top = np.maximum(np.floor(ends.min(axis=0) - radius - 1), 0).astype(int)
        right, bottom = np.ceil(ends.max(axis=0) + radius + 1).astype(int)
        window = self.pixels[top:bottom, left:right]

        height, width, _ = window.shape
        pixel = np.stack(np.meshgrid(left + np.arange(width), top + np.arange(height)), axis=-1)
        from_start = pixel + 0.5 - ends[0]
        along = ends[1] - ends[0]
        nearest = np.clip(from_start @ along / max(along @ along, 1e-12), 0, 1)[..., None] * along
        distance = np.linalg.norm(from_start - nearest, axis=-1)
        coverage = stroke.opacity * np.clip(radius - distance + 0.5, 0, 1)
        _Canvas(window, self.unit).blend(coverage, stroke.colour)
