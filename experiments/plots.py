"""Pictures of a sweep. Each takes tidy tables, as saved, and returns a Figure."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from privrl.experiments.sweep import SweepResult, SweepSpec

# Okabe and Ito's palette, told apart by every kind of colour vision.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_LINES = ("-", "--", ":", "-.")
_MARKERS = ("o", "s", "^", "D")
_NO_PRIVACY = "#444444"


def reward_against_epsilon(result: SweepResult, spec: SweepSpec) -> Figure:
    """Draw the reward that is kept at each budget: a line for each sampler and schedule.

    Bands are 95 % confidence intervals of the mean over runs.
    """
    table, optimum = result.results, result.optimal_value
    figure = Figure(figsize=(8.2, 4.8), layout="constrained")
    axes = figure.subplots()
    kept = table.assign(kept=_shares(table["total_reward"] / spec.episodes, optimum))
    private = [s for s in spec.samplers if not _without_privacy(table, s)]
    for s, schedule in enumerate(spec.schedules):
        for sampler in spec.samplers:
            here = (kept["schedule"] == schedule) & (kept["sampler"] == sampler)
            cells = kept[here].groupby("epsilon")["kept"]
            mean, band = cells.mean().to_numpy(), 1.96 * cells.sem().fillna(0.0).to_numpy()
            label = f"{sampler}, {schedule}"
            if sampler not in private:
                axes.axhline(mean[0], color=_NO_PRIVACY, linestyle=_LINES[s % 4], label=label)
                axes.axhspan(
                    mean[0] - band[0], mean[0] + band[0], color=_NO_PRIVACY, alpha=0.12, lw=0
                )
                continue
            colour = _COLOURS[private.index(sampler) % len(_COLOURS)]
            epsilons = cells.mean().index.to_numpy()
            axes.plot(
                epsilons, mean, color=colour, linestyle=_LINES[s % 4], marker=_MARKERS[s % 4],
                label=label,
            )  # fmt: skip
            axes.fill_between(epsilons, mean - band, mean + band, color=colour, alpha=0.15, lw=0)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(f"privacy budget of the whole run: ε in nats, Rényi order {spec.order:g}")
    _label_reward(axes, optimum)
    _title(axes, spec, "Reward kept at each privacy budget")
    figure.legend(loc="outside right upper", frameon=False, fontsize="small")
    return figure


def learning_curves(result: SweepResult, spec: SweepSpec) -> Figure:
    """Draw reward against episodes: a panel for each sampler and schedule, a line for each budget.

    Bands are 95 % confidence intervals of the mean over runs.
    """
    curves, optimum = result.curves, result.optimal_value
    private = [s for s in spec.samplers if not _without_privacy(curves, s)]
    rows = private or list(spec.samplers)
    figure = Figure(
        figsize=(max(9.0, 1.5 + 3.6 * len(spec.schedules)), 1.2 + max(3.4, 2.6 * len(rows))),
        layout="constrained",
    )
    panels = figure.subplots(
        len(rows), len(spec.schedules), sharex=True, sharey=True, squeeze=False
    )
    for i, sampler in enumerate(rows):
        for j, schedule in enumerate(spec.schedules):
            axes = panels[i, j]
            here = curves[curves["schedule"] == schedule]
            shown = [s for s in spec.samplers if s not in private or s == sampler]
            lines = here[here["sampler"].isin(shown)]
            for epsilon in sorted(lines["epsilon"].unique()):
                _curve(axes, lines[lines["epsilon"] == epsilon], epsilon, spec.epsilons, optimum)
            axes.set_title(f"{sampler}, {schedule}", fontsize="medium")
            axes.grid(alpha=0.25)
            if i == len(rows) - 1:
                axes.set_xlabel("episode")
            if j == 0:
                _label_reward(axes, optimum)
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside right upper", frameon=False, fontsize="small",
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
        place = sorted(epsilons).index(epsilon) / max(len(epsilons) - 1, 1)
        colour, label = colormaps["viridis_r"](0.1 + 0.85 * place), f"ε = {epsilon:.12g}"
    mean = _shares(line["reward_per_episode"], optimum).to_numpy()
    band = 1.96 * np.abs(_shares(line["standard_error"], optimum).to_numpy())
    episode = line["episode"].to_numpy()
    axes.plot(episode, mean, color=colour, label=label, lw=1.4)
    axes.fill_between(episode, mean - band, mean + band, color=colour, alpha=0.2, lw=0)


def _without_privacy(table: pd.DataFrame, sampler: str) -> bool:
    return bool(np.isinf(table.loc[table["sampler"] == sampler, "epsilon"]).all())


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
    return (
        f"privacy unit: {unit}; bands: 95 % confidence\n"
        f"{spec.env}, {spec.episodes} episodes of {spec.horizon} steps, {spec.runs} runs"
    )


def _title(axes: Axes, spec: SweepSpec, title: str) -> None:
    axes.set_title(f"{title}\n\n", fontsize="large", loc="left")
    axes.text(0, 1.02, _subtitle(spec), transform=axes.transAxes, fontsize="small", color="#555555")
    axes.grid(alpha=0.25)
