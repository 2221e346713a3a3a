"""Gohari et al., *The Dirichlet mechanism for differential privacy on the unit simplex* (SIM).

Figure 1, where beta functions are replaced by simpler ones. The legend of the paper's figure,
with its three settings, is lost in the text that we have; ours meet what the theorem assumes.
"""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Picture

from privrl.costs.simplex import SimplexCost
from privrl.experiments.figures.base import Figure, legend, note, panels, told
from privrl.experiments.palette import BLACK, OLIVE, VERMILION
from privrl.numerics.printing import up_to_places as up

#: (eta, eta_bar, k), with three sensitive components and a distance b of 0.1.
SETTINGS = ((0.2, 0.2, 5.0), (0.1, 0.1, 10.0), (0.05, 0.05, 20.0), (0.05, 0.8, 20.0))
_CURVES = {  # line, colour
    "Theorem 1 with Lemma 5": (":", VERMILION),
    "Theorem 1": ("--", OLIVE),
    "exact": ("-", BLACK),
}


def _cost(eta: float, eta_bar: float, weight: float) -> SimplexCost:
    return SimplexCost(weight=weight, eta=eta, eta_bar=eta_bar, n_components=3, distance=0.1)


def _compute(quick: bool) -> pd.DataFrame:
    rows = []
    # The last is the paper's example of an acceptable delta.
    deltas = np.append(np.geomspace(1e-4, 0.1, 4 if quick else 25), 0.05)
    for setting in SETTINGS:
        cost = _cost(*setting)
        for delta in np.sort(deltas).tolist():
            values = (cost.lemma_5(delta), cost.epsilon(delta), cost.exact.epsilon(delta))
            for name, epsilon in zip(_CURVES, values, strict=True):
                rows.append((*setting, name, delta, float(epsilon)))
    return pd.DataFrame(rows, columns=["eta", "eta_bar", "k", "curve", "delta", "epsilon"])


def _draw(table: pd.DataFrame) -> Picture:
    picture, axes = panels(2, 2, sharex=True)
    for each, ((eta, eta_bar, k), group) in zip(
        axes, table.groupby(["eta", "eta_bar", "k"], sort=False), strict=True
    ):
        for name, (line, colour) in _CURVES.items():
            curve = group[group.curve == name]
            each.plot(curve.delta, curve.epsilon, line, color=colour, lw=2, label=name)
        each.set(xscale="log", ylim=(0, None))
        each.set_title(f"η = {eta:g}, η̄ = {eta_bar:g}, k = {k:g}", fontsize="medium")
    for each in axes[2:]:
        each.set_xlabel("δ")
    for each in axes[::2]:
        each.set_ylabel("ε (nats)")
    legend(picture, axes[0], "outside upper center", ncols=3)
    note(
        picture,
        "privacy unit: b/2 = 0.05 of one vector moves between two of three sensitive components",
    )
    return picture


def _caption(table: pd.DataFrame) -> str:
    wide = table.pivot(index=["eta", "eta_bar", "k", "delta"], columns="curve", values="epsilon")
    offset = wide["Theorem 1 with Lemma 5"] - wide["Theorem 1"]
    acceptable = table[table.delta == 0.05].pivot(
        index=["eta", "eta_bar", "k"], columns="curve", values="epsilon"
    )
    acceptable = acceptable.reindex(list(SETTINGS))
    said = []
    for setting, at in zip(SETTINGS, acceptable.to_dict("records"), strict=True):
        said.append(
            f"({', '.join(f'{x:g}' for x in setting)}): {up(at['Theorem 1'])}, "
            f"{up(at['Theorem 1 with Lemma 5'])} and {up(at['exact'])}"
        )
    sums = [f"{k * (1 - eta_bar):g}" for _, eta_bar, k in SETTINGS]
    spread = offset.groupby(["eta", "eta_bar", "k"]).agg(np.ptp).max()
    by_setting = acceptable["Theorem 1 with Lemma 5"] - acceptable["Theorem 1"]
    first, last = float(by_setting.iloc[0]), float(by_setting.iloc[3])
    return told(
        "sim-fig1",
        said="; ".join(said),
        spread=spread,
        last=last,
        first=first,
        sums=", ".join(sums),
        smaller=(wide["Theorem 1"] / wide["exact"]).agg(["min", "max"]),
    )


SIM_FIG1 = Figure("sim-fig1", _compute, _draw, _caption)
