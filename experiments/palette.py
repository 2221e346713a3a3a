"""What each method looks like in every picture: its colour, and its marker.

Okabe and Ito's colours, distinct for every kind of colour vision, and two of Tol's muted ones.
"""

import io
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from privrl.agents.methods import AGENTS, SAMPLERS
from privrl.files.files import figure_writer
from privrl.numerics.rising import rising
from privrl.numerics.special import FloatArray

BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, GREY, BLACK, WINE, OLIVE = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#444444", "#000000",
    "#882255", "#999933",
)  # fmt: skip
#: Colour, marker and line.
Drawn = tuple[str, str, str]
#: For things that are no methods, such as actions and classes.
COLOURS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY)

#: Colour, marker and line. Blue is Gaussian noise alone: on the counts of a histogram, or on
#: those of a learner.
LOOKS: Mapping[str, Drawn] = {
    "gaussian": (BLUE, "o", "-"),
    "noisy-counts:optimal": (BLUE, "*", "--"),
    "noisy-counts:tree": (BLUE, "^", ":"),
    "noisy-counts:independent": (BLUE, "D", "-."),
    "noisy-counts:buffered": (BLUE, "h", "--"),
    "sparse-counts": (GREEN, "X", "-"),
    "laplace": (GREEN, "D", "-"),
    "local-counts": (SKY, "v", "-"),
    # Dirichlet draws, and what papers claim of them
    "diffuse": (ORANGE, "s", "-"),
    "concentrated": (VERMILION, "^", "-"),  # the prior, and the bound, of DPS
    "algorithm 1": (WINE, "v", "--"),  # the prior, and the bound, of DKL
    "algorithm 1, as printed": (SKY, "X", ":"),
    "gohari": (OLIVE, "P", "-."),  # the bound of SIM
    "geumlek": (SKY, "<", ":"),
    "designed": (PURPLE, "D", "-"),
    "exact": (BLACK, ".", "-"),
    # Posteriors
    "noisy posterior": (ORANGE, "p", "-."),
    "global": (SKY, "h", "--"),
    "constant": (OLIVE, ">", "-"),
    "local": (PURPLE, "v", ":"),
    "smooth": (GREY, "d", "-."),
    "certified": (VERMILION, "s", "-"),
    # What chooses by itself
    "auto": (BLACK, "*", "-"),
    # What they are compared with
    "no privacy": (GREY, "s", "-"),
    **{name: kind.look for name, kind in AGENTS.items() if kind.look is not None},
    "other": (BLACK, "o", "-"),  # without a look of its own
    "uniform": (GREY, "+", ":"),
}

_LINES = ("-", "--", ":", "-.")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "p", "h")


#: How a line is drawn, as matplotlib's ``plot`` takes it.
Look = dict[str, Any]


def look(method: str) -> Look:
    """Return what a method, one of `LOOKS`, looks like."""
    ink, marker, line = LOOKS[method]
    return {"color": ink, "marker": marker, "linestyle": line}


def colour(method: str) -> str:
    """Return the colour of a method, one of `LOOKS`."""
    return LOOKS[method][0]


def learner(agent: str, sampler: str) -> Drawn:
    """Return what an agent with a sampler looks like: colour, marker and line.

    A result table may name agents and samplers that are not there when it is read.
    """
    kind, entry = AGENTS.get(agent), SAMPLERS.get(sampler)
    drawn: str | Drawn = "other" if entry is None else entry.look
    if kind is not None and kind.look is not None and (_is_private(sampler) or not kind.releases):
        drawn = kind.look
    return LOOKS[drawn] if isinstance(drawn, str) else drawn


def acts_randomly(agent: str) -> bool:
    """Whether an agent of this name takes random actions, whatever it observes."""
    return agent in AGENTS and AGENTS[agent].acts_randomly


def _is_private(sampler: str) -> bool:
    return sampler not in SAMPLERS or SAMPLERS[sampler].is_private


def looks(kinds: Iterable[tuple[str, str | Drawn]]) -> dict[str, Look]:
    """Return a look for each label, from pairs of it and its method, one of `LOOKS` or a look.

    Where a method comes again it has its colour, and the next marker and dash that no other of
    that colour has.
    """
    wanted = [
        (label, LOOKS.get(drawn, LOOKS["other"]) if isinstance(drawn, str) else drawn)
        for label, drawn in kinds
    ]
    taken = {(ink, marker) for _, (ink, marker, _) in wanted}
    made: dict[str, Look] = {}
    seen: set[tuple[str, str]] = set()
    for label, (ink, own, usual) in wanted:
        marker, line = own, usual
        if (ink, own) in seen:
            free = [n for n, each in enumerate(_MARKERS) if (ink, each) not in taken]
            place = free[0] if free else len(made) % len(_MARKERS)
            marker, line = _MARKERS[place], _LINES[1 + place % (len(_LINES) - 1)]
            taken.add((ink, marker))
        seen.add((ink, marker))
        made[label] = {"color": ink, "marker": marker, "linestyle": line}
    return made


def looks_of(results: pd.DataFrame) -> dict[str, Look]:
    """Return a look for each method of a sweep's, or a suite's, table of results.

    One that was also run without privacy, as in a suite, has the look that it has with it.
    """
    kinds = results[["method", "agent", "sampler"]].drop_duplicates()
    private = kinds[kinds["sampler"].map(_is_private)]
    first = pd.concat([private, kinds]).drop_duplicates("method").set_index("method")
    return looks((label, learner(*first.loc[label])) for label in kinds["method"].unique())


def shade(place: float) -> tuple[float, float, float, float]:
    """Return a colour for a place in an order, from 0 (light) to 1 (dark): budgets, sizes.

    Of *inferno*, which grows darker evenly for every kind of colour vision, and has no blue.
    """
    return colormaps["inferno_r"](0.22 + 0.53 * place)


def shades(number: int) -> list[tuple[float, float, float, float]]:
    """Return a colour for each place in an order, the last the darkest."""
    return [shade(place / max(number - 1, 1)) for place in range(number)]


_POINTS = 8.5  # the size of the letters
_LINE = 1.35 * _POINTS / 72  # inches from a name to the next
_AWAY, _SAMPLE, _SPACE = 0.03, 0.055, 0.012  # in the panel's widths: a sample of a line, its name


class End(NamedTuple):
    """Where a line ends, what it is called, and how it looks."""

    name: str
    height: float
    look: Mapping[str, Any]


def label_ends(axes: Axes, ends: Iterable[End]) -> None:
    """Write names at the right of a panel, each as near to its line's end as the others let it.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
        The panel; its place in the figure and its limits are final.
    ends : iterable of End
        Of its lines.
    """
    ordered = sorted(ends, key=lambda end: end.height)
    figure = axes.get_figure(root=True)
    assert figure is not None
    inches = axes.get_position().height * figure.get_figheight()
    to_axes = axes.transData + axes.transAxes.inverted()
    left = axes.get_xlim()[0]
    at = np.clip([to_axes.transform((left, end.height))[1] for end in ordered], 0.0, 1.0)
    sample = (1 + _AWAY, 1 + _AWAY + _SAMPLE)
    beside: dict[str, Any] = {"transform": axes.transAxes, "clip_on": False}
    for end, height, place in zip(ordered, at, spread(at, _LINE / inches), strict=True):
        axes.plot((1.0, sample[0]), (height, place), color=end.look["color"], lw=0.7, **beside)
        axes.plot(sample, (place, place), markevery=[1], ms=4.5, lw=1.6, **end.look, **beside)
        axes.text(
            sample[1] + _SPACE, place, end.name, va="center", fontsize=_POINTS,
            transform=axes.transAxes,
        )  # fmt: skip


def room(names: Iterable[str]) -> tuple[float, float]:
    """Return how many inches names take at the right of a panel, and one below another."""
    lengths = [len(name) for name in names]
    return 0.75 + 0.56 * _POINTS / 72 * max(lengths, default=0), _LINE * len(lengths)


def spread(places: FloatArray, gap: float) -> FloatArray:
    """Return places of 0 to 1, ascending, moved as little as can be (squared) to lie apart.

    Parameters
    ----------
    places : array, shape (n,)
        Where they would best be, ascending.
    gap : float
        The least distance of neighbours; ``1 / (n - 1)`` where there is no room for it.
    """
    n = len(places)
    gap = min(gap, 1 / max(n - 1, 1))
    steps = gap * np.arange(n, dtype=np.float64)
    level = rising(places - steps, np.ones(n))
    return np.clip(level, 0.0, 1.0 - gap * max(n - 1, 0)) + steps


class Picture(Figure):
    """A figure that a notebook shows below its cell, as files have it, even without pyplot."""

    def _repr_png_(self) -> tuple[bytes, dict[str, float]]:
        file = io.BytesIO()
        figure_writer(self)(file)
        return file.getvalue(), {"width": 100 * self.get_figwidth()}
