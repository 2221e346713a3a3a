"""Pictures of a sweep. Each takes tidy tables, as saved, and returns a Figure."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from privrl.experiments.palette import COLOURS, GREY
from privrl.experiments.pictures import Picture
from privrl.experiments.sweeps.sweep import SweepResult, SweepSpec
from privrl.numerics.printing import up

_LINES = ("-", "--", ":", "-.")
_MARKERS = ("o", "s", "^", "D")
_NO_PRIVACY = GREY


def reward_against_epsilon(result: SweepResult, spec: SweepSpec) -> Figure:
    """Draw the reward that is kept at each budget: a line for each method.

    Above, what each budget comes to as (epsilon, delta). Bands are 95 % confidence intervals
    of the mean over runs.
    """
    table, optimum = result.results, result.optimal_value
    kept = table.assign(kept=_shares(table["total_reward"] / spec.episodes, optimum))
    figure, axes = _against_epsilon(kept, "kept", spec)
    _label_reward(axes, optimum)
    _title(axes, spec, "Reward kept at each privacy budget")
    return figure


def regret_against_epsilon(result: SweepResult, spec: SweepSpec) -> Figure:
    """Draw the regret of the whole run at each budget, on a logarithmic scale."""
    figure, axes = _against_epsilon(result.results, "regret", spec)
    axes.set_yscale("log")
    axes.set_ylabel(f"regret after {spec.episodes:,} episodes (reward)")
    _title(axes, spec, "Regret at each privacy budget")
    return figure


def _against_epsilon(table: pd.DataFrame, column: str, spec: SweepSpec) -> tuple[Figure, Axes]:
    figure = Picture(figsize=(8.6, 5.2), layout="constrained")
    axes = figure.subplots()
    groups = table.groupby("method", sort=False)
    looks = styles(table)
    for label, rows in groups:
        at_each = rows.groupby("epsilon")[column]
        mean, band = at_each.mean().to_numpy(), 1.96 * at_each.sem().fillna(0.0).to_numpy()
        epsilons = at_each.mean().index.to_numpy()
        style = looks[str(label)]
        if np.isinf(epsilons).all():
            axes.axhline(mean[0], color=style["color"], linestyle=style["linestyle"], label=label)
            axes.axhspan(
                mean[0] - band[0], mean[0] + band[0], color=style["color"], alpha=0.12, lw=0
            )
            continue
        axes.plot(epsilons, mean, label=label, **style)
        axes.fill_between(
            epsilons, mean - band, mean + band, color=style["color"], alpha=0.15, lw=0
        )
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    private = table[np.isfinite(table["epsilon"])]
    beside = float((private["spent"] - private["epsilon"]).max()) if len(private) else 0.0
    what = "privacy budget of the whole run"
    if beside > 1e-9:
        what = f"budget of the transitions, and up to {beside:g} more for rewards"
    axes.set_xlabel(f"{what}: ε in nats, Rényi order {spec.order:g}")
    _second_axis(axes, table, spec)
    figure.legend(
        loc="outside lower center", ncols=2 if len(groups) > 3 else 1, frameon=False,
        fontsize="small",
    )  # fmt: skip
    return figure, axes


def styles(table: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Return a look for each method: a colour each, and a dash and marker beyond six."""
    looks: dict[str, dict[str, Any]] = {}
    greys = 0
    for label, rows in table.groupby("method", sort=False):
        if np.isinf(rows["epsilon"]).all():
            looks[str(label)] = {"color": _NO_PRIVACY, "linestyle": _LINES[greys % 4]}
            greys += 1
            continue
        turn, colour = divmod(len(looks) - greys, len(COLOURS))
        looks[str(label)] = {
            "color": COLOURS[colour], "linestyle": _LINES[turn % 4],
            "marker": _MARKERS[colour % 4],
        }  # fmt: skip
    return looks


def _second_axis(axes: Axes, table: pd.DataFrame, spec: SweepSpec) -> None:
    """Say above what the budgets come to as (epsilon, delta): the most that any method's does."""
    spent = table[np.isfinite(table["epsilon"])].groupby("epsilon")["epsilon_delta"].max()
    if spent.empty:
        return
    above = axes.secondary_xaxis("top")
    above.set_xticks(spent.index.to_numpy(), [f"{up(e, 3)}" for e in spent], fontsize="small")
    above.set_xticks([], minor=True)
    above.set_xlabel(f"all that is spent, as (ε, δ = {spec.delta:g}): ε in nats", fontsize="small")


def learning_curves(result: SweepResult, spec: SweepSpec) -> Figure:
    """Draw reward against episodes: a panel for each method, a line for each budget.

    Bands are 95 % confidence intervals of the mean over runs.
    """
    curves, optimum = result.curves, result.optimal_value
    labels = list(dict.fromkeys(curves["method"]))
    private = [m for m in labels if not np.isinf(curves[curves["method"] == m]["epsilon"]).all()]
    shown = private or labels
    columns = min(len(shown), 3)
    rows = -(-len(shown) // columns)
    figure = Picture(
        figsize=(max(9.0, 1.5 + 3.6 * columns), 1.4 + max(3.4, 2.7 * rows)), layout="constrained"
    )
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for place, axes in enumerate(panels.flat):
        if place >= len(shown):
            axes.axis("off")
            continue
        lines = curves[curves["method"] == shown[place]]
        for epsilon in sorted(lines["epsilon"].unique()):
            _curve(axes, lines[lines["epsilon"] == epsilon], epsilon, spec.epsilons, optimum)
        axes.set_title(shown[place], fontsize="small")
        axes.grid(alpha=0.25)
        if place + columns >= len(shown):
            axes.set_xlabel("episode")
            axes.tick_params(labelbottom=True)
        if place % columns == 0:
            _label_reward(axes, optimum)
    handles, names = panels[0, 0].get_legend_handles_labels()
    figure.legend(
        handles, names, loc="outside right upper", frameon=False, fontsize="small",
        title=f"budget of the run\n(nats, order {spec.order:g})", title_fontsize="small",
    )  # fmt: skip
    figure.suptitle(
        f"Learning under a privacy budget\n{_subtitle(spec)}", x=0.01, ha="left", fontsize="small"
    )
    return figure


def _curve(
    axes: Axes, line: pd.DataFrame, epsilon: float, epsilons: Sequence[float], optimum: float
) -> None:
    colour: str | tuple[float, float, float, float]
    if np.isinf(epsilon):
        colour, label = _NO_PRIVACY, "no privacy"
    else:
        colour, label = budget_colour(epsilon, epsilons), f"ε = {epsilon:.12g}"
    mean = _shares(line["reward_per_episode"], optimum).to_numpy()
    band = 1.96 * np.abs(_shares(line["standard_error"], optimum).to_numpy())
    episode = line["episode"].to_numpy()
    axes.plot(episode, mean, color=colour, label=label, lw=1.4)
    axes.fill_between(episode, mean - band, mean + band, color=colour, alpha=0.2, lw=0)


def budget_colour(epsilon: float, epsilons: Sequence[float]) -> tuple[float, float, float, float]:
    """Return the colour of one of several budgets; the larger, the darker."""
    place = sorted(epsilons).index(epsilon) / max(len(epsilons) - 1, 1)
    return colormaps["viridis_r"](0.2 + 0.75 * place)


def _shares(reward: "pd.Series[float]", optimum: float) -> "pd.Series[float]":
    """Return rewards as shares of the optimum, or as they are where that says nothing."""
    return reward / optimum if optimum > 0 else reward


def _label_reward(axes: Axes, optimum: float) -> None:
    if optimum > 0:
        axes.set_ylabel("reward, share of the optimum")
        axes.set_ylim(min(0.0, axes.get_ylim()[0]), 1.08)
    else:
        axes.set_ylabel("reward per episode")
        axes.axhline(optimum, color="black", lw=0.8, label="optimum")


def _subtitle(spec: SweepSpec) -> str:
    unit = spec.relation.replace("-", " ")
    if spec.relation == "paper-step":
        unit += ", whose sensitivity is too small: NOT A GUARANTEE"
    return (
        f"privacy unit: {unit}; bands: 95 % confidence\n"
        f"{spec.env}, {spec.episodes} episodes of {spec.horizon} steps, {spec.runs} runs"
    )


def _title(axes: Axes, spec: SweepSpec, title: str) -> None:
    figure = axes.get_figure()
    assert isinstance(figure, Figure)
    figure.suptitle(f"{title}\n{_subtitle(spec)}", x=0.01, ha="left", fontsize="small")
    axes.grid(alpha=0.25)
