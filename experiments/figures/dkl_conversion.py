"""DKL, Figure 8: its guarantee converted to (epsilon, delta), beside the exact one."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Picture

from privrl.experiments.figures.base import Figure, legend, note, panels, told
from privrl.experiments.figures.dkl_tightness import DELTA, by_order, release_at
from privrl.experiments.palette import shades
from privrl.numerics.printing import up_to_places as up

_ORDERS = (2.0, 10.0, 50.0, 200.0)


def _compute(quick: bool) -> pd.DataFrame:
    rows = []
    for order in _ORDERS:
        for weight in np.geomspace(1e-3, 10, 9 if quick else 61).tolist():
            exact, claim = release_at(weight, order), release_at(weight, order, "dkl")
            converted = by_order(float(claim.rdp(order)), order, DELTA)
            rows.append(("(13)", order, weight, converted))
            rows.append(("exact", order, weight, float(exact.epsilon(DELTA))))
        rows.append(("least", order, 0.0, by_order(0.0, order, DELTA)))
    return pd.DataFrame(rows, columns=["curve", "order", "weight", "epsilon"])


def _draw(table: pd.DataFrame) -> Picture:
    picture, (axes,) = panels()
    for order, colour in zip(_ORDERS, shades(len(_ORDERS)), strict=True):
        for name, line in (("(13)", "--"), ("exact", "-")):
            curve = table[(table.curve == name) & (table.order == order)]
            label = f"λ = {order:g}, {name}"
            axes.plot(curve.weight, curve.epsilon, line, color=colour, lw=2, label=label)
    axes.set(xscale="log", yscale="log", xlabel="weight r, with the prior 1 + 4(λ - 1)r")
    axes.set_ylabel("ε̂ (nats) at δ = 10⁻⁵")
    legend(picture, axes, "outside right upper", fontsize="small")
    note(picture, "privacy unit: replace one record")
    return picture


def _caption(table: pd.DataFrame) -> str:
    def of(name: str, order: float) -> pd.DataFrame:
        return table[(table.curve == name) & (table.order == order)]

    least = "; ".join(f"{up(of('least', o).epsilon.iloc[0], 3)} at λ = {o:g}" for o in _ORDERS)
    ratios = [of("(13)", o).epsilon.to_numpy() / of("exact", o).epsilon.to_numpy() for o in _ORDERS]
    small = "; ".join(f"{r[0]:,.0f} at λ = {o:g}" for o, r in zip(_ORDERS, ratios, strict=True))
    smallest = table.weight[table.weight > 0].min()
    return told(
        "dkl-fig8",
        least=least,
        smallest=smallest,
        small=small,
        lowest=min(float(r.min()) for r in ratios),
    )


DKL_FIG8 = Figure("dkl-fig8", _compute, _draw, _caption)
