"""The gain of exact accounting over the papers' bounds, for one release and for many."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Picture

from privrl.accounting.pld import PldAccountant
from privrl.accounting.rdp import RdpAccountant
from privrl.costs.conversion import rdp_to_epsilon
from privrl.costs.dirichlet import Bound, DirichletCost
from privrl.costs.relations import ReplaceRecord
from privrl.experiments.figures.base import Figure, note, panels, told
from privrl.experiments.palette import GREY, ORANGE, colour
from privrl.numerics.printing import up_to_places as up

DELTA = 1e-5
_ORDER = 2.0
_ALPHA, _SCALE = 10.0, 0.2  # of the right panel
_BOUNDS: dict[Bound, str] = {
    "geumlek": "Geumlek et al. (2017)",
    "dps": "DPS, Theorem 2 or 4",
    "dkl": "DKL, Theorem 1",
}
_LOOKS = {
    "Geumlek et al. (2017)": (":", colour("geumlek")),
    "DPS, Theorem 2 or 4": ("--", colour("concentrated")),
    "DKL, Theorem 1": ("-.", colour("algorithm 1")),
    "DPS, order 2 only": (":", GREY),
    "exact, Rényi": ("-.", ORANGE),
}
_TIGHT = "exact, loss distributions"


def _cost(alpha: float, weight: float, bound: Bound = "exact") -> DirichletCost:
    return DirichletCost(weight=weight, alpha=alpha, relation=ReplaceRecord(), bound=bound)


def _compute(quick: bool) -> pd.DataFrame:
    rows = []
    for ratio in np.geomspace(1.05, 200, 12 if quick else 60).tolist():
        exact = _cost(ratio, 1)
        rdp, epsilon = float(exact.rdp(_ORDER)), float(exact.epsilon(DELTA))
        for bound, name in _BOUNDS.items():
            looser = _cost(ratio, 1, bound)
            rows.append(("rdp", name, ratio, float(looser.rdp(_ORDER)), rdp))
            if bound != "geumlek":
                rows.append(("delta", name, ratio, float(looser.epsilon(DELTA)), epsilon))
    counts = [1, 10, 65, 1000] if quick else [1, 2, 4, 8, 16, 32, 65, 128, 256, 512, 1000, 3000]
    for count in counts:
        epsilons = _composed(count)
        rows += [("composed", name, count, e, epsilons[_TIGHT]) for name, e in epsilons.items()]
    return pd.DataFrame(rows, columns=["panel", "curve", "at", "epsilon", "exact"])


def _composed(count: int) -> dict[str, float]:
    """Return the epsilon of ``count`` releases, by each way of accounting.

    Fails without loss distributions, the exact way.
    """
    paper, exact = _cost(_ALPHA, _SCALE, "dps"), _cost(_ALPHA, _SCALE)
    second = rdp_to_epsilon(np.array([_ORDER]), count * paper.rdp([_ORDER]), DELTA)
    found = {"DPS, order 2 only": float(second)}
    for name, cost in (("DPS, Theorem 2 or 4", paper), ("exact, Rényi", exact)):
        accountant = RdpAccountant()
        accountant.compose(cost, count)
        found[name] = float(rdp_to_epsilon(accountant.orders, accountant.rdp, DELTA))
    losses = PldAccountant()
    losses.compose(exact, count)
    found[_TIGHT] = float(losses.epsilon(DELTA))
    return found


def _draw(table: pd.DataFrame) -> Picture:
    picture, axes = panels(3)
    titles = {
        "rdp": "one draw, Rényi order 2",
        "delta": "one draw, ε at δ = 10⁻⁵",
        "composed": f"many draws, ε at δ = 10⁻⁵\nprior {_ALPHA:g}, weight {_SCALE:g}",
    }
    for each, (panel, title) in zip(axes, titles.items(), strict=True):
        for name, (line, ink) in _LOOKS.items():
            curve = table[(table.panel == panel) & (table.curve == name)]
            if len(curve):
                each.plot(
                    curve["at"], curve.epsilon / curve.exact, line, color=ink, lw=2, label=name
                )
        each.axhline(1, color=colour("exact"), lw=2, label="exact")
        each.set(xscale="log", yscale="log", ylim=(0.85, 100))
        each.yaxis.set_major_formatter("{x:g}")
        each.set_title(title, fontsize="medium")
        each.set_xlabel("releases" if panel == "composed" else "prior over weight")
        each.legend(fontsize="small", loc="upper right")
    axes[0].set_ylabel("bound over exact value")
    note(picture, "privacy unit: replace one record")
    return picture


def _caption(table: pd.DataFrame) -> str:
    ratio = table.assign(ratio=table.epsilon / table.exact)

    def at(panel: str, name: str, where: float) -> float:
        some = ratio[(ratio.panel == panel) & (ratio.curve == name)]
        return float(np.exp(np.interp(np.log(where), np.log(some["at"]), np.log(some.ratio))))

    bound, least = "DPS, Theorem 2 or 4", float(ratio["at"].min())
    many = ratio[(ratio.panel == "composed") & (ratio["at"] == 65)].set_index("curve")
    some = ", ".join(
        f"{up(many.epsilon[name])} by {word}"
        for name, word in (
            (_TIGHT, "loss distributions, exactly"),
            ("exact, Rényi", "exact Rényi divergences"),
            (bound, "the paper's bound at its best order"),
            ("DPS, order 2 only", "the bound at order 2"),
        )
    )
    return told(
        "ours-exact",
        rdp={a: at("rdp", bound, a) for a in (2, 10)},
        at=DELTA,
        delta=[at("delta", bound, a) for a in (least, 10, 200)],
        least=least,
        prior=_ALPHA,
        weight=_SCALE,
        some=some,
    )


OURS_EXACT = Figure("ours-exact", _compute, _draw, _caption)
