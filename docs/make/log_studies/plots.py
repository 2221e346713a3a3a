"""The picture of a study: scores against persons."""

import math
from itertools import cycle

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MultipleLocator, NullLocator

from log_studies.report import UNIT, budget_text, summary
from privrl.experiments.palette import GREY, Picture, look, shades

_MARKERS = ("o", "D", "^", "v", "P", "X")


def scores_by_persons(results: pd.DataFrame, title: str) -> Figure:
    """Draw means over worlds against persons: a panel for each condition, a line for each budget.

    Parameters
    ----------
    results : pandas.DataFrame
        Of `log_studies.study.run_study`.
    title : str
        What worlds they are of.

    Returns
    -------
    matplotlib.figure.Figure
        Bars reach down to the least score of any policy, a dotted line is the score of the
        behaviour policy.
    """
    alike = summary(results).groupby(["condition", "epsilon", "persons"], sort=False)
    found = alike.agg({"mean": "mean", "least": "min", "treated": "mean"}).reset_index()
    conditions = list(found["condition"].unique())
    figure = Picture(figsize=(max(6.4, 0.9 + 2.9 * len(conditions)), 4.3), layout="constrained")
    panels = figure.subplots(1, len(conditions), sharey=True, squeeze=False)[0]
    for axes, condition in zip(panels, conditions, strict=True):
        _panel(axes, found[found["condition"] == condition])
        behaviour, known = str(condition).split(", ")
        axes.set_title(f"{behaviour} treatment\n{known}", fontsize="medium")
    panels[0].set_ylim(min(-0.05, found["least"].min() - 0.03), 1.05)  # all have its axis
    panels[0].set_ylabel("score (0: uniform actions, 1: the optimum)")
    figure.supxlabel(f"persons in the log (k: thousands)\nprivacy unit: {UNIT}", fontsize="medium")
    figure.suptitle(f"Policies learned from logs: {title}", fontweight="bold")
    handles, labels = panels[0].get_legend_handles_labels()
    bar = Line2D([], [], color=GREY, ls="none", marker="|", ms=11, mew=1.6, alpha=0.6)
    figure.legend(
        [*handles, bar], [*labels, "down to the least"], loc="outside right center", frameon=False,
        title="budget, mean score", alignment="left",
    )  # fmt: skip
    return figure


def _panel(axes: Axes, found: pd.DataFrame) -> None:
    persons = sorted(found["persons"].unique())
    epsilons = list(found["epsilon"].unique())
    private = sorted(epsilon for epsilon in epsilons if math.isfinite(epsilon))
    inks = dict(zip(private, zip(shades(len(private)), cycle(_MARKERS), strict=False), strict=True))
    none = look("no privacy")
    for number, epsilon in enumerate(epsilons):
        line = found[found["epsilon"] == epsilon].sort_values("persons")
        colour, marker = inks.get(epsilon, (none["color"], none["marker"]))
        # Side by side, so that bars can be told apart.
        x = line["persons"] * 1.06 ** (number - (len(epsilons) - 1) / 2)
        axes.vlines(x, line["least"], line["mean"], color=colour, lw=1.6, alpha=0.6)
        axes.plot(
            x, line["mean"], color=colour, marker=marker, ms=6, lw=1.6, mec="white", mew=0.7,
            ls="--" if math.isinf(epsilon) else "-", label=budget_text(epsilon),
        )  # fmt: skip
    axes.set_xscale("log")
    axes.set_xticks(persons)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda number, _: _persons_text(number)))
    axes.set_xlim(persons[0] / 1.6, persons[-1] * 1.6)
    axes.yaxis.set_major_locator(MultipleLocator(0.2))
    axes.axhline(found["treated"].mean(), color=GREY, ls=":", lw=1.6, label="as treated")
    axes.grid(color="#E0E0E0", lw=0.7)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _persons_text(number: float) -> str:
    return f"{number / 1000:g}k" if number >= 1000 else f"{number:g}"
