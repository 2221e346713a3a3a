"""DPS, Figure 4: reinforcement learning on RiverSwim, as the paper sets it and as is sound."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Picture

from privrl.agents.methods import Method
from privrl.costs.relations import PaperStepWarning
from privrl.experiments.figures.base import Figure, panels, told
from privrl.experiments.palette import BLACK, look
from privrl.experiments.sweeps import SweepSpec, preset, run_sweep
from privrl.experiments.sweeps.presets import PUBLISHED
from privrl.experiments.sweeps.sweep import SweepResult

EPSILONS = (0.01, 0.1, 1.0, 10.0)
_REWARDS = 0.5  # what the paper gives them, beside ε
_FREE, _DIFFUSE, _CONCENTRATED = "without privacy", "diffuse", "concentrated"
_OURS = "privrl's default"
_LOOKS = {
    _FREE: look("no privacy"),
    _DIFFUSE: look("diffuse"),
    _CONCENTRATED: look("concentrated"),
    _OURS: look("gaussian"),
}
_PAPER, _SOUND = "paper-step", "replace-step"


def _spec(relation: str, quick: bool) -> SweepSpec:
    methods = [
        Method(sampler="non-private", label=_FREE, **PUBLISHED),
        Method(sampler="diffuse", reward_epsilon=_REWARDS, label=_DIFFUSE, **PUBLISHED),
        Method(sampler="concentrated", reward_epsilon=_REWARDS, label=_CONCENTRATED, **PUBLISHED),
    ]
    if relation == _SOUND:
        methods.append(Method(reward_epsilon=_REWARDS, label=_OURS))
    return replace(
        preset("paper-renyi-2"),
        methods=tuple(methods),
        relation=relation,
        epsilons=(0.1, 10.0) if quick else EPSILONS,
        episodes=300 if quick else 3000,
        runs=20 if quick else 50,
    )


def _compute(quick: bool) -> pd.DataFrame:
    tables = []
    for relation in (_PAPER, _SOUND):
        spec = _spec(relation, quick)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PaperStepWarning)  # the picture and caption say it
            result = run_sweep(spec, backend="sequential")
        tables.append(_tidy(result, spec))
    return pd.concat(tables, ignore_index=True)


def _tidy(result: SweepResult, spec: SweepSpec) -> pd.DataFrame:
    """Return the curves; what is spent, and the whole reward, beside each of their points."""
    whole = result.results.groupby(["method", "epsilon"])["total_reward"].agg(["mean", "sem"])
    whole = (whole / spec.episodes).set_axis(["mean_reward", "mean_error"], axis=1)
    spent = result.results.groupby(["method", "epsilon"])[["spent", "weight", "alpha"]].first()
    curves = result.curves[["method", "epsilon", "episode", "reward_per_episode", "standard_error"]]
    table = curves.merge(whole.join(spent).reset_index(), on=["method", "epsilon"])
    sizes = {"runs": spec.runs, "episodes": spec.episodes, "optimum": result.optimal_value}
    return table.assign(relation=spec.relation, **sizes)


def _draw(table: pd.DataFrame) -> Picture:
    epsilons = sorted(e for e in table.epsilon.unique() if math.isfinite(e))
    picture, axes = panels(len(epsilons), 2, sharex=True, sharey=True)
    names = {_PAPER: "the paper's sensitivity: NOT A GUARANTEE", _SOUND: "sound: replace one step"}
    top = float(table.optimum.iloc[0])
    for row, relation in enumerate(names):
        for column, epsilon in enumerate(epsilons):
            each = axes[row * len(epsilons) + column]
            some = table[(table.relation == relation) & table.epsilon.isin([epsilon, np.inf])]
            for name, curve in some.groupby("method", sort=False):
                drawn = _LOOKS[str(name)]
                x, y = curve.episode.to_numpy(), curve.reward_per_episode.to_numpy()
                band = 1.96 * curve.standard_error.to_numpy()
                each.plot(x, y, lw=1.6, ms=4, markevery=10, label=name, **drawn)
                each.fill_between(x, y - band, y + band, color=drawn["color"], alpha=0.2, lw=0)
            each.axhline(top, color=BLACK, lw=0.8, ls="--", label="best policy")
            each.set_title(f"ε = {epsilon:g}; {names[relation]}", fontsize="small")
            each.set(ylim=(0, 1.12 * top), xlabel="episode")
    picture.supylabel("reward of an episode")
    handles, labels = axes[len(epsilons)].get_legend_handles_labels()
    picture.legend(handles, labels, loc="outside lower center", ncols=5, fontsize="small")
    picture.suptitle(
        "Private reinforcement learning on RiverSwim; privacy unit: one step\n"
        f"Rényi divergence of order 2: ε for transitions and {_REWARDS:g} for rewards, in nats",
        fontsize="medium",
    )
    return picture


def _reward(table: pd.DataFrame, relation: str, method: str, epsilon: float = math.inf) -> float:
    some = (table.relation == relation) & (table.method == method) & (table.epsilon == epsilon)
    return float(table.mean_reward[some].iloc[0])


def _caption(table: pd.DataFrame) -> str:
    epsilons = sorted(e for e in table.epsilon.unique() if math.isfinite(e))
    first, free = table.iloc[0], _reward(table, _PAPER, _FREE)

    def shares(relation: str, method: str) -> str:
        return ", ".join(f"{_reward(table, relation, method, e) / free:.0%}" for e in epsilons)

    most = epsilons[-1]
    total = _reward(table, _PAPER, _DIFFUSE, most) / free
    last = table[(table.relation == _PAPER) & (table.episode == first.episodes)]
    ends = last.set_index(["method", "epsilon"])["reward_per_episode"]
    late = float(ends[_DIFFUSE, most] / ends[_FREE, math.inf])
    lost = 1 - _reward(table, _SOUND, _DIFFUSE, most) / _reward(table, _PAPER, _DIFFUSE, most)
    return told(
        "dps-fig4",
        first=first,
        block=first.episodes / 60,
        free=free,
        diffuse=shares(_PAPER, _DIFFUSE),
        epsilons=", ".join(f"{e:g}" for e in epsilons),
        concentrated=shares(_PAPER, _CONCENTRATED),
        most=most,
        late=late,
        total=total,
        sound_diffuse=shares(_SOUND, _DIFFUSE),
        sound_concentrated=shares(_SOUND, _CONCENTRATED),
        lost=lost,
        ours=shares(_SOUND, _OURS),
    )


DPS_FIG4 = Figure("dps-fig4", _compute, _draw, _caption)
