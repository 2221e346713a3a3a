"""The picture of a suite: every method, every task, at every budget."""

import math
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from privrl.experiments.palette import GREY, Look, Picture, looks_of
from privrl.experiments.specs import budget_name, unit_name
from privrl.experiments.suites import report as shares

_BETWEEN, _HEADING = 0.10, 0.36  # inches: between tasks, above a half
_ABOVE, _LINE, _BELOW = 1.15, 0.25, 0.72  # the panels, for titles and for lines of methods
_WIDTH, _LETTER = 2.65, 0.07  # of a panel, and of a letter of a row's name
_NARROWEST = 8.0  # the figure: its titles need so much
_LEAST, _MOST = -0.07, 1.05  # of the horizontal axis
_WORSE = -0.035  # where a share below 0 is drawn


def shares_of_the_optimum(results: pd.DataFrame) -> Figure:
    """Draw how far each method comes from chance to the optimum: a panel for each budget.

    Parameters
    ----------
    results : pandas.DataFrame
        Of a `privrl.experiments.suites.suite.SuiteResult`.

    Returns
    -------
    matplotlib.figure.Figure
        A row for each task and a lane of it for each method: filled while learning, open in the
        end.
    """
    made, looked = shares.report(results), looks_of(results)
    epsilons = sorted({column.epsilon for column in made.columns}, reverse=True)
    places, height = _places(made)
    left = 0.25 + _LETTER * max(map(len, places))
    wide = max(_WIDTH * len(epsilons), _NARROWEST - left)
    abreast = max(1, int((left + wide) / (0.4 + 0.1 * max(map(len, made.names.values())))))
    above = _ABOVE + _LINE * -(-len(made.names) // abreast)
    high = height + above + _BELOW
    figure = Picture(figsize=(left + wide, high))
    figure.subplots_adjust(
        left=left / (left + wide), right=1 - 0.15 / (left + wide), top=1 - above / high,
        bottom=_BELOW / high, wspace=0.05,
    )  # fmt: skip
    panels = figure.subplots(1, len(epsilons), sharey=True, squeeze=False)[0]
    for axes, epsilon in zip(panels, epsilons, strict=True):
        _rows(axes, made, places, height)
        for label, look in looked.items():
            _method(axes, made, places, shares.Column(label, epsilon), look)
        title = shares.budget_text(epsilon)
        renyi = shares.renyi_order_of(results) is not None and not math.isinf(epsilon)
        title += f"\nas (ε, δ): {shares.spent_text(results, epsilon)}" if renyi else "\n"
        axes.set_title(title, fontsize="small", pad=8)
    _headings(figure, made, {row: 1 - (above + top) / high for row, top in places.items()})
    means = {shares.mean_of(half) for half in made.rows}
    for name in panels[0].get_yticklabels():
        name.set_fontweight("bold" if name.get_text() in means else "normal")
    figure.supxlabel(
        "share of the way from chance to the optimum", fontsize="small", y=0.34 / high, va="bottom"
    )
    _legends(figure, made, looked, high, abreast)
    _title(figure, results, high)
    return figure


def _places(made: shares.Report) -> tuple[dict[str, float], float]:
    """Return where each row begins, in inches from the top, and the height of all."""
    places, down = {}, 0.0
    for rows in made.rows.values():
        down += _HEADING
        for row in rows:
            places[row] = down
            down += _lane(made) * len(made.names) + _BETWEEN
    return places, down


def _lane(made: shares.Report) -> float:
    """Return the height of a method's part of a row, in inches; less if they are many."""
    return max(0.095, min(0.13, 0.46 / len(made.names)))


def _rows(axes: Axes, made: shares.Report, places: dict[str, float], height: float) -> None:
    axes.set_xlim(_LEAST, _MOST)
    axes.set_ylim(height, 0)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "", ".5", "", "1"])
    axes.grid(axis="x", color="white", lw=1.2)
    axes.set_axisbelow(True)
    deep = _lane(made) * len(made.names) + _BETWEEN
    for top in places.values():
        axes.axhspan(top + 0.02, top + deep - 0.02, color="#F0F0F0", lw=0, zorder=0)
    middles = [top + deep / 2 for top in places.values()]
    axes.set_yticks(middles, list(places))
    axes.tick_params(length=0, labelsize="small", labeltop=True)
    for side in axes.spines.values():
        side.set_visible(False)


def _method(
    axes: Axes, made: shares.Report, places: dict[str, float], column: shares.Column, look: Look
) -> None:
    lane = list(made.names).index(column.method)
    style = {"color": look["color"], "marker": look["marker"]}
    for row, top in places.items():
        found = made.shares.get((row, column))
        if found is None:
            continue
        y = top + _BETWEEN / 2 + _lane(made) * (lane + 0.5)
        ends = [_WORSE if _is_worse(share) else min(max(share, 0.0), 1.0) for share in found]
        axes.plot(ends, [y, y], color=style["color"], lw=1.1, zorder=2)
        for share, x, filling in zip(found, ends, (_FILLED, _OPEN), strict=True):
            shape = style | filling | ({"marker": "<"} if _is_worse(share) else {})
            axes.plot(x, y, **shape, clip_on=False)


def _is_worse(share: float) -> bool:
    """Whether a share is below chance by more than tables show."""
    return shares.share_text(share).startswith("-")


_FILLED: dict[str, Any] = {"markersize": 4.6, "zorder": 4, "linestyle": "none"}
_OPEN: dict[str, Any] = {
    "markersize": 7.4, "zorder": 3, "linestyle": "none", "markerfacecolor": "white",
    "markeredgewidth": 1.2,
}  # fmt: skip


def _headings(figure: Figure, made: shares.Report, tops: dict[str, float]) -> None:
    inch = 1 / figure.get_figheight()
    for half, rows in made.rows.items():
        figure.text(
            figure.subplotpars.left, tops[rows[0]] + 0.05 * inch, f"{half}: {shares.HALVES[half]}",
            fontsize="small", fontweight="bold",
        )  # fmt: skip


def _legends(
    figure: Figure, made: shares.Report, looked: dict[str, Look], high: float, abreast: int
) -> None:
    methods = [
        Line2D([], [], ls="none", ms=6, label=made.names[label], marker=look["marker"],
               color=look["color"])
        for label, look in looked.items()
    ]  # fmt: skip
    figure.legend(
        handles=methods, loc="upper left", bbox_to_anchor=(0, 1 - 0.5 / high), frameon=False,
        ncols=abreast, labelspacing=0.35, borderpad=0.2, handletextpad=0.1, fontsize="medium",
    )  # fmt: skip
    kinds = [
        Line2D([], [], color=GREY, marker="o", label=label, **style)
        for label, style in ((shares.LEARNING, _FILLED), (shares.FINAL, _OPEN))
    ]
    worse = Line2D([], [], color=GREY, marker="<", linestyle="none", label="worse than chance")
    figure.legend(
        handles=[*kinds, worse], loc="lower center", frameon=False, fontsize="small", ncols=3
    )


def _title(figure: Figure, results: pd.DataFrame, high: float) -> None:
    first = results.iloc[0]
    unit = unit_name(first.relation)
    budget = budget_name(first.delta, shares.renyi_order_of(results))
    if first.relation == "paper-step":
        unit += ", whose sensitivity is too small: NOT A GUARANTEE"
    top = 1 - 0.1 / high
    figure.text(
        0.01, top, "How far agents come from chance to the optimum", va="top", fontweight="bold"
    )
    figure.text(
        0.01, top - 0.23 / high,
        f"privacy unit: {unit}; budgets of a whole run: ε in nats, {budget}; "
        f"means of {results['run'].nunique()} runs",
        va="top", fontsize="small",
    )  # fmt: skip
