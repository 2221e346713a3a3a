"""Ponnoprat, *Differential privacy of Dirichlet posterior sampling* (DPS): its guarantee.

What the paper's text leaves open of its Figure 1, the counts and the priors, is as in the
authors' published code.
"""

from functools import partial

import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Picture
from scipy.optimize import brentq
from scipy.special import polygamma

from privrl.accounting.targets import RenyiDP
from privrl.costs.dirichlet import Bound, DirichletCost
from privrl.costs.profiles import Factor, Shape
from privrl.costs.relations import AddRemoveRecord, ReplaceRecord
from privrl.experiments.figures.base import Figure, draw_table, label_deltas, note, panels, told
from privrl.experiments.palette import BLACK, GREY, PURPLE, VERMILION, shades
from privrl.mechanisms.dirichlet import DirichletMechanism
from privrl.mechanisms.papers import dps_prior
from privrl.numerics.printing import up_to_places as up
from privrl.numerics.special import FloatArray

ORDER = 2.0
DELTA = 1e-5
COUNTS = (11, 8, 65, 25, 38)  # of the cells beside the one that changes
_PRIORS = (2.0, 5.0, 10.0)  # of the right panel
_CURVES = {  # line, colour
    "bound (8)": ("--", VERMILION),
    "exact, any data": ("-", BLACK),
    "the paper's data: 0 or 1 records in a cell": (":", GREY),
    "other data: 20 or 21 records in it": ("-.", PURPLE),
}


# Figure 1 -------------------------------------------------------------------------------------


def _cost(
    alpha: float, bound: Bound, relation: AddRemoveRecord | ReplaceRecord | None = None
) -> DirichletCost:
    relation = AddRemoveRecord() if relation is None else relation
    return DirichletCost(weight=1, alpha=alpha, relation=relation, bound=bound)


def _of_data(alpha: float, count: int) -> float:
    """Return the divergence where a given cell, and no other, gets one record more.

    Normalising takes away what the row's total tells: a gamma that grows like the cell's.
    """
    cell = Factor(Shape.DOWN, alpha + count, 1.0)
    total = Factor(Shape.DOWN, 6 * alpha + sum(COUNTS) + count, 1.0)
    order = np.array([ORDER])
    return float((cell.rdp(order) - total.rdp(order))[0])


def _compute_1(quick: bool) -> pd.DataFrame:
    rows: list[tuple[str, str, float, float, float]] = []
    for alpha in np.linspace(2, 20, 10 if quick else 73).tolist():
        values = (
            float(_cost(alpha, "dps").rdp(ORDER)),
            float(_cost(alpha, "exact").rdp(ORDER)),
            _of_data(alpha, 0),
            _of_data(alpha, 20),
        )
        rows += [("rdp", name, alpha, e, np.nan) for name, e in zip(_CURVES, values, strict=True)]
    epsilons: FloatArray = np.linspace(0, 20, 21 if quick else 161)
    for alpha in _PRIORS:
        for name, bound in (("Theorem 4", "dps"), ("exact, any data", "exact")):
            cost = _cost(alpha, bound)  # type: ignore[arg-type] # one of the two
            deltas = cost.delta(epsilons)
            rows += [
                ("delta", name, alpha, float(e), float(d))
                for e, d in zip(epsilons, deltas, strict=True)
            ]
            rows.append(("at delta", name, alpha, float(cost.epsilon(DELTA)), DELTA))
    return pd.DataFrame(rows, columns=["panel", "curve", "alpha", "epsilon", "delta"])


def _draw_1(table: pd.DataFrame) -> Picture:
    picture, (left, right) = panels(2)
    for name, (line, colour) in _CURVES.items():
        curve = table[(table.panel == "rdp") & (table.curve == name)]
        left.plot(curve.alpha, curve.epsilon, line, color=colour, lw=2, label=name)
    left.set(yscale="log", ylim=(0.015, 6))
    left.set_xlabel("prior of every cell (pseudo-counts)")
    left.set_ylabel("Rényi divergence of order 2 (nats)")
    left.legend(fontsize="small", loc="upper right")
    for alpha, dark in zip(_PRIORS, shades(len(_PRIORS)), strict=True):
        for name, line in (("Theorem 4", "--"), ("exact, any data", "-")):
            some = (table.panel == "delta") & (table.curve == name) & (table.alpha == alpha)
            curve = table[some]
            label = f"prior {alpha:g}, {name.removesuffix(', any data')}"
            right.plot(curve.epsilon, curve.delta, line, color=dark, lw=2, label=label)
    right.set(yscale="log", ylim=(1e-10, 1.5), xlim=(0, 20))
    label_deltas(right, "upper right")
    note(picture, "privacy unit: add or remove one record")
    return picture


def _caption_1(table: pd.DataFrame) -> str:
    def rdp(name: str, alpha: float) -> float:
        curve = table[(table.panel == "rdp") & (table.curve == name)]
        return float(np.interp(alpha, curve.alpha, curve.epsilon))

    def spent(name: str, alpha: float) -> float:
        some = (table.panel == "at delta") & (table.curve == name) & (table.alpha == alpha)
        return float(table.epsilon[some].iloc[0])

    bound, exact, empty, full = _CURVES
    ratios = [rdp(bound, a) / rdp(empty, a) for a in (2, 20)]
    epsilons = "; ".join(
        f"prior {a:g}: {up(spent('Theorem 4', a))} by Theorem 4, {up(spent('exact, any data', a))} "
        "exactly"
        for a in _PRIORS
    )
    return told(
        "dps-fig1",
        ratios=ratios,
        exact=up(rdp(exact, 2), 3),
        bound=up(rdp(bound, 2), 3),
        full=up(rdp(full, 2), 3),
        delta=DELTA,
        epsilons=epsilons,
    )


DPS_FIG1 = Figure("dps-fig1", _compute_1, _draw_1, _caption_1)


# The example of section 3.3 -------------------------------------------------------------------


PRINTED, SOLVED = "(8), trigamma(prior - 1) = 1", "(8), trigamma(prior - 1) = 1/2"


def _compute_example(quick: bool) -> pd.DataFrame:
    del quick  # it takes no time
    target, relation = RenyiDP(ORDER, 1), ReplaceRecord()
    solve = partial(DirichletMechanism.calibrated, target, weight=1, relation=relation)
    priors = {
        PRINTED: brentq(lambda a: polygamma(1, a - 1) - 1, 1.1, 9),
        SOLVED: solve(bound="dps").cost.alpha,
        "printed result": 3.46,
        "closed form (9)": dps_prior(target, relation=relation),
        "exact": solve().cost.alpha,
    }
    rows = []
    for rule, alpha in priors.items():
        bound, exact = (_cost(alpha, name, relation) for name in ("dps", "exact"))
        rows.append(
            (
                *(rule, alpha, float(bound.rdp(ORDER)), float(exact.rdp(ORDER))),
                *(float(bound.epsilon(DELTA)), float(exact.epsilon(DELTA))),
            )
        )
    columns = ["rule", "alpha", "rdp_bound", "rdp_exact", "epsilon_bound", "epsilon_exact"]
    return pd.DataFrame(rows, columns=columns)


def _draw_example(table: pd.DataFrame) -> Picture:
    return draw_table(
        [
            *("chosen by", "prior", "order 2\nby (8)", "order 2\nexact"),
            *("ε at δ = 10⁻⁵\nby Theorem 4", "ε at δ = 10⁻⁵\nexact"),
        ],
        [
            (
                *(
                    row["rule"],
                    f"{row['alpha']:.3f}",
                    up(row["rdp_bound"], 3),
                    up(row["rdp_exact"], 3),
                ),
                *(up(row["epsilon_bound"]), up(row["epsilon_exact"])),
            )
            for row in table.to_dict("records")
        ],
        note="Target: a Rényi divergence of order 2 of at most 1 nat. Divergences and ε in nats, "
        "priors in pseudo-counts.\nPrivacy unit: replace one record.",
        widths=(2.7, 0.8, 0.9, 0.9, 1.35, 1.35),
    )


def _caption_example(table: pd.DataFrame) -> str:
    of = {row["rule"]: row for row in table.to_dict("records")}
    exact, solved, at_346 = of["exact"], of[SOLVED], of["printed result"]
    printed, closed = of[PRINTED], of["closed form (9)"]
    return told(
        "dps-example",
        closed=closed,
        solved=solved,
        spent=up(at_346["rdp_exact"], 3),
        exact=exact,
        printed=printed,
        bound=up(printed["rdp_bound"]),
        truth=up(printed["rdp_exact"], 3),
    )


DPS_EXAMPLE = Figure("dps-example", _compute_example, _draw_example, _caption_example)
