"""DKL's experiments on data: the fits that its figures share, and how they are drawn."""

import warnings
from collections.abc import Sequence
from functools import cache

import pandas as pd
from matplotlib.axes import Axes

from privrl.data.datasets import NAMES, networks
from privrl.experiments.palette import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILION
from privrl.experiments.uci import (
    AUTO,
    DELTA,
    DESIGNED,
    DKL,
    GOHARI,
    NONE,
    PRINTED,
    UNIFORM,
    Model,
    NotPrivateWarning,
    grid,
    run_jobs,
)

#: The splits of all figures and of docs/models.md; nothing was chosen on them.
SPLITS = (100, 101, 102, 103, 104)
_EPSILONS = tuple(10 ** (i / 2) for i in range(-6, 3))  # 1e-3 to 10
_QUICK = (0.01, 0.1, 1.0)

GAUSSIAN, LAPLACE = "Gaussian, cut at 1e-6", "Laplace, cut at 1e-6"
GAUSSIAN_SD, LAPLACE_SD = "Gaussian, cut at its deviation", "Laplace, cut at its deviation"
LOOKS = {  # line, colour, width
    GAUSSIAN: ("--", VERMILION, 1.4),
    GAUSSIAN_SD: ("-", VERMILION, 1.4),
    LAPLACE: ("--", GREEN, 1.4),
    LAPLACE_SD: ("-", GREEN, 1.4),
    GOHARI: ("-.", PURPLE, 1.4),
    PRINTED: (":", SKY, 1.8),
    DKL: ("--", BLUE, 1.8),
    DESIGNED: ("-", BLUE, 1.8),
    AUTO: ("-", ORANGE, 2.6),
    NONE: ("-", GREY, 1.0),
    UNIFORM: (":", GREY, 1.4),
}


@cache
def naive_bayes_fits(delta: float, quick: bool) -> pd.DataFrame:
    """Return the fits of Figures 4 and 5, or with a delta > 0 of 9 and 10; not to be changed."""
    return _run("naive Bayes", ("GermanCredit", "Thyroid") if quick else NAMES, delta, quick)


@cache
def network_fits(delta: float, quick: bool) -> pd.DataFrame:
    """Return the fits of Figure 7, or with a delta > 0 of 11; not to be changed."""
    return _run("network", ("GermanCredit",) if quick else tuple(networks()), delta, quick)


def _run(model: Model, data: Sequence[str], delta: float, quick: bool) -> pd.DataFrame:
    without = {GOHARI} if delta == 0 else set()
    without |= {PRINTED} if model == "network" else set()
    jobs = grid(
        data=data,
        model=model,
        cells="paper",
        splits=SPLITS[:2] if quick else SPLITS,
        mechanisms=[name for name in LOOKS if name not in without],
        epsilons=_QUICK if quick else _EPSILONS,
        delta=delta,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)  # the captions say so
        return run_jobs(jobs, backend="sequential" if quick else "loky")


def draw_panel(axes: Axes, wide: pd.DataFrame, title: str) -> None:
    """Draw one data set: a line for each mechanism."""
    for name, (line, colour, width) in LOOKS.items():
        if name in wide.columns:
            axes.plot(wide.index, wide[name], line, color=colour, lw=width, label=name)
    axes.set(xscale="log", title=title)


def budgets_axis(table: pd.DataFrame) -> str:
    """Return what ε is on the axis of a figure."""
    if table.delta.iloc[0] > 0:
        return f"ε̂ (nats) at δ = {DELTA:g}"
    return "ε (nats), Rényi divergence of order 5"


def count(flags: "pd.Series[bool]") -> str:
    """Return "3 of 8"."""
    return f"{int(flags.sum())} of {len(flags)}"
