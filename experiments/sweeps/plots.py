"""Pictures of a sweep. Each takes tidy tables, as saved, and returns a Figure."""

from collections.abc import Sequence
from itertools import cycle
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from privrl.experiments.palette import (
    BLACK,
    End,
    Picture,
    acts_randomly,
    colour,
    label_ends,
    look,
    looks_of,
    room,
    shade,
)
from privrl.experiments.specs import budget_name, unit_name
from privrl.experiments.sweeps.sweep import SweepResult, SweepSpec
from privrl.numerics.checks import check_among
from privrl.numerics.printing import exact, up

_LEFT, _WIDE, _HIGH, _ABOVE, _BELOW = 0.85, 5.9, 4.1, 1.1, 0.65  # inches: of a panel, around it
_MOST_INSIDE = 6  # lines that a legend inside a panel can name


def reward_against_epsilon(result: SweepResult, spec: SweepSpec, ax: Axes | None = None) -> Figure:
    """Draw the reward that is kept at each budget: a line for each method.

    Above, what each budget comes to as (epsilon, delta). Bands are 95 % confidence intervals
    of the mean over runs.

    Parameters
    ----------
    result : SweepResult
        What the sweep found.
    spec : SweepSpec
        What was asked.
    ax : matplotlib.axes.Axes, optional
        Where to draw, in your figure; then with a legend, and without a title. By
        default a new figure, in which each line has its name at its end.

    Returns
    -------
    matplotlib.figure.Figure
        That has the picture.
    """
    table, optimum = result.results, result.optimal_value
    kept = table.assign(kept=_shares(table["total_reward"] / spec.episodes, optimum))
    axes = _panel(kept) if ax is None else ax
    ends = _against_epsilon(axes, kept, "kept", spec)
    if not table["agent"].map(acts_randomly).any():
        chance = _share(result.random_value, optimum)
        axes.axhline(chance, color=colour("random"), ls=":", lw=1.2, label=_RANDOM)
        ends.append(End(_RANDOM, chance, {**look("random"), "marker": ""}))
    _label_reward(axes, optimum)
    return _named(axes, ends, spec, "Reward kept at each privacy budget", own=ax is None)


def regret_against_epsilon(result: SweepResult, spec: SweepSpec, ax: Axes | None = None) -> Figure:
    """Draw the regret of the whole run at each budget, on a logarithmic scale.

    A regret of 0 or below, which such a scale cannot show, is marked at the edge. Parameters are
    those of `reward_against_epsilon`.
    """
    axes = _panel(result.results) if ax is None else ax
    axes.set_yscale("log")
    ends = _against_epsilon(axes, result.results, "regret", spec)
    axes.set_ylabel(f"regret after {spec.episodes:,} episodes (reward)")
    return _named(axes, ends, spec, "Regret at each privacy budget", own=ax is None)


_RANDOM = "random actions"


def _panel(table: pd.DataFrame) -> Axes:
    """Return a panel with room for names at its right."""
    right, least = room([*table["method"].unique(), _RANDOM])
    wide, high = _LEFT + _WIDE + right, max(_HIGH, least)
    figure = Picture(figsize=(wide, _ABOVE + high + _BELOW))
    below, above = _BELOW / figure.get_figheight(), 1 - _ABOVE / figure.get_figheight()
    figure.subplots_adjust(_LEFT / wide, below, (_LEFT + _WIDE) / wide, above)
    return figure.subplots()


def _against_epsilon(axes: Axes, table: pd.DataFrame, column: str, spec: SweepSpec) -> list[End]:
    """Draw all methods, and return where each line ends."""
    looked, ends = looks_of(table), []
    for label, rows in table.groupby("method", sort=False):
        at_each = rows.groupby("epsilon")[column]
        mean, band = at_each.mean().to_numpy(), 1.96 * at_each.sem().fillna(0.0).to_numpy()
        epsilons = at_each.mean().index.to_numpy()
        drawn = looked[str(label)]
        shade_of: dict[str, Any] = {"color": drawn["color"], "alpha": 0.15, "lw": 0}
        if np.isinf(epsilons).all():
            axes.axhline(
                mean[0], label=str(label), color=drawn["color"], linestyle=drawn["linestyle"]
            )
            drawn["marker"] = ""
            axes.axhspan(mean[0] - band[0], mean[0] + band[0], **shade_of)
        else:
            axes.plot(epsilons, mean, label=str(label), ms=5, **drawn)
            axes.fill_between(epsilons, mean - band, mean + band, **shade_of)
        ends.append(End(str(label), float(mean[-1]), drawn))
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    private = table[np.isfinite(table["epsilon"])]
    beside = float((private["spent"] - private["epsilon"]).max()) if len(private) else 0.0
    what = "privacy budget of the whole run"
    if beside > 1e-9:
        what = f"budget of the transitions, and up to {beside:g} more for rewards"
    axes.set_xlabel(f"{what}: ε in nats, {budget_name(spec.delta, spec.renyi_order)}")
    _second_axis(axes, table, spec)
    axes.grid(alpha=0.25)
    return ends


def _second_axis(axes: Axes, table: pd.DataFrame, spec: SweepSpec) -> None:
    """Say above what the budgets come to as (epsilon, delta): the most that any method's does."""
    spent = table[np.isfinite(table["epsilon"])].groupby("epsilon")["epsilon_delta"].max()
    if spent.empty or spec.renyi_order is None:  # the axis below has it
        return
    above = axes.secondary_xaxis("top")
    above.set_xticks(spent.index.to_numpy(), [f"{up(e, 3)}" for e in spent], fontsize="small")
    above.set_xticks([], minor=True)
    above.set_xlabel(
        f"all that is spent, as (ε, δ = {exact(spec.delta)}): ε in nats", fontsize="small"
    )


def learning_curves(result: SweepResult, spec: SweepSpec) -> Figure:
    """Draw reward against episodes: a panel for each method, a line for each budget.

    Each has the learners without privacy, and random actions, to compare with. Bands are 95 %
    confidence intervals of the mean over runs.
    """
    private = _private(result.curves)
    shown = private or list(dict.fromkeys(result.curves["method"]))
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
        learning_curve(result, spec, shown[place], axes)
        if place + columns < len(shown):
            axes.set_xlabel("")
        else:
            axes.tick_params(labelbottom=True)
        if place % columns:
            axes.set_ylabel("")
    handles, names = panels[0, 0].get_legend_handles_labels()
    figure.legend(
        handles, names, loc="outside right upper", frameon=False, fontsize="small",
        title=f"budget of the run\n(nats, {budget_name(spec.delta, spec.renyi_order)})",
        title_fontsize="small",
    )  # fmt: skip
    figure.suptitle(
        f"Learning under a privacy budget\n{_subtitle(spec)}", x=0.01, ha="left", fontsize="small"
    )
    return figure


def learning_curve(result: SweepResult, spec: SweepSpec, method: str, ax: Axes) -> None:
    """Draw one method's reward against episodes, with what it is compared with.

    Parameters
    ----------
    result, spec
        As for `reward_against_epsilon`.
    method : str
        The label of one of its methods.
    ax : matplotlib.axes.Axes
        Where to draw.

    Raises
    ------
    ValueError
        If there is no such method.
    """
    curves, optimum = result.curves, result.optimal_value
    lines = curves[curves["method"] == method]
    check_among("method", method, dict.fromkeys(curves["method"]))
    for epsilon in sorted(lines["epsilon"].unique(), reverse=True):
        at = lines[lines["epsilon"] == epsilon]
        if np.isfinite(epsilon):
            drawn: dict[str, Any] = {"color": budget_colour(epsilon, spec.epsilons)}
            _curve(ax, at, f"ε = {up(epsilon)}", optimum, **drawn)
    table = result.results
    free = table[np.isinf(table["epsilon"]) & ~table["agent"].map(acts_randomly)]
    for label, dashes in zip(free["method"].unique(), cycle(("--", "-."))):
        drawn = {"color": colour("no privacy"), "linestyle": dashes}
        _curve(ax, curves[curves["method"] == label], str(label), optimum, **drawn)
    chance = _share(result.random_value, optimum)
    ax.axhline(chance, color=colour("random"), ls=":", lw=1.2, label=_RANDOM)
    ax.set_title(method, fontsize="small")
    ax.set_xlabel("episode")
    ax.grid(alpha=0.25)
    _label_reward(ax, optimum)


def _private(curves: pd.DataFrame) -> list[str]:
    return list(dict.fromkeys(curves.loc[np.isfinite(curves["epsilon"]), "method"]))


def _curve(axes: Axes, line: pd.DataFrame, label: str, optimum: float, **look: Any) -> None:
    mean = _shares(line["reward_per_episode"], optimum).to_numpy()
    band = 1.96 * np.abs(_shares(line["standard_error"], optimum).to_numpy())
    episode = line["episode"].to_numpy()
    axes.plot(episode, mean, label=label, lw=1.4, **look)
    axes.fill_between(episode, mean - band, mean + band, color=look["color"], alpha=0.2, lw=0)


def budget_colour(epsilon: float, epsilons: Sequence[float]) -> tuple[float, float, float, float]:
    """Return the colour of one of several budgets; the larger, the darker."""
    return shade(sorted(epsilons).index(epsilon) / max(len(epsilons) - 1, 1))


def _shares(reward: "pd.Series[float]", optimum: float) -> "pd.Series[float]":
    """Return rewards as shares of the optimum, or as they are where that says nothing."""
    return reward / optimum if optimum > 0 else reward


def _share(reward: float, optimum: float) -> float:
    return reward / optimum if optimum > 0 else reward


def _label_reward(axes: Axes, optimum: float) -> None:
    if optimum > 0:
        axes.set_ylabel("reward, share of the optimum")
        axes.set_ylim(min(0.0, axes.get_ylim()[0]), 1.08)
    else:
        axes.set_ylabel("reward per episode")
        axes.axhline(optimum, color=BLACK, lw=0.8, label="optimum")


def _subtitle(spec: SweepSpec) -> str:
    unit = unit_name(spec.relation)
    if spec.relation == "paper-step":
        unit += ", whose sensitivity is too small: NOT A GUARANTEE"
    runs = f"{spec.runs} run{'s' * (spec.runs > 1)}"
    return (
        f"privacy unit: {unit}; bands: 95 % confidence\n"
        f"{spec.env}, {spec.episodes} episodes of {spec.horizon} steps, {runs}"
    )


def _named(axes: Axes, ends: Sequence[End], spec: SweepSpec, title: str, *, own: bool) -> Figure:
    """Name the lines, at their ends and below a title where the figure is one's own."""
    figure = axes.get_figure(root=True)
    assert isinstance(figure, Figure)
    if own:
        label_ends(axes, ends)
        figure.suptitle(f"{title}\n{_subtitle(spec)}", x=0.01, ha="left", fontsize="small")
    else:
        axes.legend(frameon=False, fontsize="small", ncols=1 + (len(ends) > _MOST_INSIDE))
    return figure
