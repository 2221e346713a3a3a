"""DKL's experiments on data: the fits that its figures share, and how they are drawn."""

import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from privrl.data.datasets import NAMES, networks
from privrl.experiments.palette import look
from privrl.experiments.uci import jobs as uci
from privrl.experiments.uci.data import NotPrivateWarning
from privrl.experiments.uci.run import run_jobs

#: The splits of all figures and of docs/models.md; nothing was chosen on them.
SPLITS = (100, 101, 102, 103, 104)
_EPSILONS = tuple(10 ** (i / 2) for i in range(-6, 3))  # 1e-3 to 10
_QUICK = (0.01, 0.1, 1.0)

GAUSSIAN, LAPLACE = "Gaussian, cut at 1e-6", "Laplace, cut at 1e-6"
GAUSSIAN_SD, LAPLACE_SD = "Gaussian, cut at its deviation", "Laplace, cut at its deviation"
LOOKS: dict[str, dict[str, Any]] = {
    GAUSSIAN: look("gaussian") | {"linestyle": "--"},
    GAUSSIAN_SD: look("gaussian"),
    LAPLACE: look("laplace") | {"linestyle": "--"},
    LAPLACE_SD: look("laplace"),
    uci.GOHARI: look("gohari"),
    uci.PRINTED: look("algorithm 1, as printed"),
    uci.DKL: look("algorithm 1"),
    uci.DESIGNED: look("designed"),
    uci.AUTO: look("auto") | {"lw": 2.2},
    uci.NONE: look("no privacy") | {"marker": ""},
    uci.UNIFORM: look("uniform") | {"marker": ""},
}


@cache
def naive_bayes_fits(delta: float, quick: bool) -> pd.DataFrame:
    """Return the fits of Figures 4 and 5, or with a delta > 0 of 9 and 10; not to be changed."""
    return _run("naive Bayes", ("GermanCredit", "Thyroid") if quick else NAMES, delta, quick)


@cache
def network_fits(delta: float, quick: bool) -> pd.DataFrame:
    """Return the fits of Figure 7, or with a delta > 0 of 11; not to be changed."""
    return _run("network", ("GermanCredit",) if quick else tuple(networks()), delta, quick)


def _run(model: uci.Model, data: Sequence[str], delta: float, quick: bool) -> pd.DataFrame:
    without = {uci.GOHARI} if delta == 0 else set()
    without |= {uci.PRINTED} if model == "network" else set()
    jobs = uci.grid(
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


def draw_panel(
    axes: Axes,
    wide: pd.DataFrame,
    bars: pd.DataFrame,
    title: str,
    looks: Mapping[str, dict[str, Any]] = LOOKS,
) -> None:
    """Draw one data set: a line for each mechanism, with bars of these half-widths."""
    for name, drawn in looks.items():
        if name in wide.columns:
            axes.errorbar(
                wide.index, wide[name], bars[name], label=name, capsize=2, elinewidth=0.8,
                **{"lw": 1.4, "ms": 4} | drawn,
            )  # fmt: skip
    axes.set(xscale="log", title=title)


def budgets_axis(table: pd.DataFrame) -> str:
    """Return what ε is on the axis of a figure."""
    bars = f"bars: 95 % confidence, {table.split.nunique()} splits"
    if table.delta.iloc[0] > 0:
        return f"ε̂ (nats) at δ = {uci.DELTA:g}; {bars}"
    return f"ε (nats), Rényi divergence of order 5; {bars}"


def count(flags: "pd.Series[bool]") -> str:
    """Return "3 of 8"."""
    return f"{int(flags.sum())} of {len(flags)}"
