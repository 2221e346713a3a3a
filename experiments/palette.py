"""What each method looks like in every picture: its colour, and its marker.

Okabe and Ito's colours, told apart by every kind of colour vision, and two of Tol's muted ones.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd
from matplotlib import colormaps

BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, GREY, BLACK, WINE, OLIVE = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#444444", "#000000",
    "#882255", "#999933",
)  # fmt: skip
#: For things that are no methods, such as actions and classes.
COLOURS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY)

#: Colour, marker and line. Blue is Gaussian noise alone: on the counts of a histogram, or on
#: those of a learner.
LOOKS: Mapping[str, tuple[str, str, str]] = {
    "gaussian": (BLUE, "o", "-"),
    "noisy-counts:optimal": (BLUE, "*", "--"),
    "noisy-counts:tree": (BLUE, "^", ":"),
    "noisy-counts:independent": (BLUE, "D", "-."),
    "noisy-counts:buffered": (BLUE, "h", "--"),
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
    # Agents that are more than posterior sampling from one of the above
    "sparse-psrl": (WINE, "d", "-"),
    "ucbvi": (GREEN, "P", "-"),
    "dp-ucbvi": (OLIVE, "h", "-"),
    "rlsvi": (PURPLE, "p", "-"),
    "explore-then-plan": (VERMILION, "X", "-"),
    # What they are compared with
    "no privacy": (GREY, "s", "-"),
    "random": (GREY, "1", ":"),
    "oracle": (GREY, "2", "-."),
    "uniform": (GREY, "+", ":"),
}

_LINES = ("-", "--", ":", "-.")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "p", "h")
_UNKNOWN = (BLACK, "o", "-")


#: How a line is drawn, as matplotlib's ``plot`` takes it.
Look = dict[str, Any]


def look(method: str) -> Look:
    """Return what a method, one of `LOOKS`, looks like."""
    ink, marker, line = LOOKS[method]
    return {"color": ink, "marker": marker, "linestyle": line}


def colour(method: str) -> str:
    """Return the colour of a method, one of `LOOKS`."""
    return LOOKS[method][0]


def learner(agent: str, sampler: str) -> str:
    """Return which of `LOOKS` an agent with a sampler has."""
    if agent in ("random", "oracle"):
        return agent
    if sampler == "non-private" or agent == "q-learning":
        return "no privacy"
    if agent != "psrl":
        return agent
    return "gaussian" if sampler == "noisy-counts" else sampler


def looks(kinds: Iterable[tuple[str, str]]) -> dict[str, Look]:
    """Return a look for each label, from pairs of it and its method.

    Where a method comes again it has its colour, and the next marker and dash that no other of
    that colour has.
    """
    wanted = [(label, LOOKS.get(method, _UNKNOWN)) for label, method in kinds]
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
    private = kinds[kinds["sampler"] != "non-private"]
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
