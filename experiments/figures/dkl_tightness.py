"""DKL, Figure 3: its guarantee beside the exact divergence, and what either costs in accuracy.

What the paper's text leaves open is as in the authors' published code.
"""

import math

import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Picture

from privrl.accounting.targets import ApproxDP, RenyiDP
from privrl.costs.conversion import epsilon_by_order
from privrl.costs.dirichlet import Bound, DirichletCost
from privrl.costs.profiles import Factor, Shape
from privrl.costs.relations import ReplaceRecord
from privrl.costs.simplex import SimplexCost
from privrl.experiments.figures.base import Figure, legend, panels, told
from privrl.experiments.palette import BLACK, GREY, OLIVE, ORANGE, PURPLE, WINE
from privrl.mechanisms.design import design, expected_loss
from privrl.mechanisms.papers import dkl_algorithm_1
from privrl.numerics.printing import up_to_places as up

RECORD = ReplaceRecord()
DELTA = 1e-5

ORDERS = (2.0, 20.0, 200.0)
HISTOGRAM = (119, 74, 618, 272, 13, 187)  # of the lower row
_CLAIM, _EXACT = "Algorithm 1", "exact, any data"
_MEANT, _PRINTED = "the two histograms as meant", "as printed: no neighbours"
_SIM, _SAME = "Gohari et al., the same prior", "exact, the same prior"
_DESIGNED, _CODE, _UNIFORM = "exact, designed", "as in the authors' code, δ = 2", "uniform"
_DIVERGENCES = {
    _CLAIM: ("--", WINE),
    _EXACT: ("-", BLACK),
    _MEANT: (":", GREY),
    _PRINTED: ("-.", ORANGE),
}
_LOSSES = {
    _CLAIM: ("--", WINE),
    _SIM: ("-.", OLIVE),
    _SAME: ("-", BLACK),
    _DESIGNED: ("-", PURPLE),
    _CODE: (":", WINE),
    _UNIFORM: (":", GREY),
}


def release_at(weight: float, order: float, bound: Bound = "exact") -> DirichletCost:
    """Return Algorithm 1's release at a weight."""
    prior = 1 + 4 * (order - 1) * weight
    return DirichletCost(weight=weight, alpha=prior, relation=RECORD, bound=bound)


def _between_histograms(weight: float, order: float) -> dict[str, float]:
    """Return the divergences between the two posteriors of the upper row.

    Of their counts the second and the last differ: 8 against 7, and 0 against 1, or 1 against 0
    as printed. Normalising takes away what the row's total tells.
    """
    alpha, at = release_at(weight, order).alpha, np.array([order])

    def rdp(*factors: Factor) -> float:
        return sum(float(factor.rdp(at)[0]) for factor in factors)

    second = Factor(Shape.UP, 7 * weight + alpha, weight)
    total = Factor(Shape.UP, 146 * weight + 6 * alpha, 2 * weight)
    return {
        _MEANT: rdp(second, Factor(Shape.DOWN, alpha, weight)),
        _PRINTED: rdp(second, Factor(Shape.UP, alpha, weight)) - rdp(total),
    }


def _simplex(weight: float, order: float) -> SimplexCost:
    """Return Gohari et al.'s guarantee of the same draw: two cells may change, four do not."""
    alpha, cells = release_at(weight, order).alpha, len(HISTOGRAM)
    total = weight * sum(HISTOGRAM) + cells * alpha
    return SimplexCost(
        weight=total,
        eta=alpha / total,
        eta_bar=(cells - 2) * alpha / total,
        distance=2 * weight / total,
    )


def by_order(rdp: float, order: float, delta: float) -> float:
    """Return (13): what a divergence of this order converts to."""
    return float(epsilon_by_order(np.array([order]), np.array([rdp]), delta)[0])


def _compute_3(quick: bool) -> pd.DataFrame:
    rows: list[tuple[str, str, float, float, float, float, float]] = []
    for order in ORDERS:
        for weight in np.geomspace(1e-3, 10, 7 if quick else 41).tolist():
            values = {
                _CLAIM: float(release_at(weight, order, "dkl").rdp(order)),
                _EXACT: float(release_at(weight, order).rdp(order)),
                **_between_histograms(weight, order),
            }
            rows += [("rdp", n, order, weight, e, math.nan, math.nan) for n, e in values.items()]
        for weight in np.geomspace(1e-5, 1e3, 9 if quick else 57).tolist():
            exact, claim = (
                release_at(weight, order),
                float(release_at(weight, order, "dkl").rdp(order)),
            )
            loss = expected_loss(HISTOGRAM, weight, exact.alpha)
            values = {
                _CLAIM: by_order(claim, order, DELTA),
                _SIM: float(_simplex(weight, order).epsilon(DELTA)),
                _SAME: float(exact.epsilon(DELTA)),
            }
            rows += [
                ("kl", name, order, weight, epsilon, DELTA, loss)
                for name, epsilon in values.items()
                if epsilon < math.inf
            ]
        rows.append(("kl", "least", order, 0.0, by_order(0.0, order, DELTA), DELTA, math.nan))
    for epsilon in np.geomspace(1e-3, 100, 6 if quick else 21).tolist():
        best = design(ApproxDP(epsilon, DELTA), n_records=sum(HISTOGRAM), n_cells=len(HISTOGRAM))
        loss = expected_loss(HISTOGRAM, best.weight, best.alpha)
        uniform = math.log(len(HISTOGRAM)) + _negative_entropy()
        for order in ORDERS:
            # The code's arguments are one place off: its delta is Δ₂², and its Δ₂² is 1, half of 2.
            target = RenyiDP(order, 2 * (epsilon - by_order(0.0, order, 2.0)))
            weight, alpha, _ = dkl_algorithm_1(target, relation=RECORD)
            delta = float(release_at(weight, order).delta(epsilon))
            code = expected_loss(HISTOGRAM, weight, alpha)
            rows.append(("kl", _CODE, order, weight, epsilon, delta, code))
            rows.append(("kl", _DESIGNED, order, best.weight, epsilon, DELTA, loss))
            rows.append(("kl", _UNIFORM, order, 0.0, epsilon, 0.0, uniform))
    columns = ["panel", "curve", "order", "weight", "epsilon", "delta", "kl"]
    return pd.DataFrame(rows, columns=columns)


def _negative_entropy() -> float:
    p = np.array(HISTOGRAM) / sum(HISTOGRAM)
    return float((p * np.log(p)).sum())


def _draw_3(table: pd.DataFrame) -> Picture:
    picture, axes = panels(3, 2)
    for column, order in enumerate(ORDERS):
        upper, lower = axes[column], axes[3 + column]
        for name, (line, colour) in _DIVERGENCES.items():
            curve = _curve(table, "rdp", name, order)
            upper.plot(curve.weight, curve.epsilon, line, color=colour, lw=2, label=name)
        upper.set(xscale="log", yscale="log", xlabel="weight r", ylim=(1e-7, 100))
        upper.set_title(f"order λ = {order:g}, prior 1 + 4(λ - 1)r", fontsize="medium")
        for name, (line, colour) in _LOSSES.items():
            curve = _curve(table, "kl", name, order)
            lower.plot(curve.epsilon, curve.kl, line, color=colour, lw=2, label=name)
        lower.set(xscale="log", yscale="log", xlim=(1e-3, 100), ylim=(3e-5, 3))
        lower.set_xlabel("ε̂ (nats) at δ = 10⁻⁵")
    axes[0].set_ylabel("Rényi divergence of order λ (nats)")
    axes[3].set_ylabel("mean KL(f/N ‖ y) (nats)")
    axes[2].legend(fontsize="small", loc="lower right")
    legend(picture, axes[3], "outside lower center", ncols=6, fontsize="small")
    picture.suptitle(
        "Privacy unit: replace one record. The curve for δ = 2 is not a guarantee.",
        fontsize="medium",
    )
    return picture


def _curve(table: pd.DataFrame, panel: str, name: str, order: float) -> pd.DataFrame:
    return table[(table.panel == panel) & (table.curve == name) & (table.order == order)]


def _at(table: pd.DataFrame, name: str, order: float, epsilon: float, what: str) -> float:
    """Read a curve of the lower row at an epsilon; nan where it has none."""
    curve = _curve(table, "kl", name, order).sort_values("epsilon")
    curve = curve[(curve.epsilon > 0) & (curve[what] > 0)]
    x, y = np.log(curve.epsilon.to_numpy()), np.log(curve[what].to_numpy())
    return float(np.exp(np.interp(math.log(epsilon), x, y, left=math.nan, right=math.nan)))


def _caption_3(table: pd.DataFrame) -> str:
    def ratios(other: str, order: float) -> str:
        one, two = (_curve(table, "rdp", n, order).epsilon.to_numpy() for n in (_CLAIM, other))
        return f"{(one / two).min():.2f} to {(one / two).max():.2f}"

    least = {o: float(_curve(table, "kl", "least", o).epsilon.iloc[0]) for o in ORDERS}
    losses = "; ".join(
        f"λ = {order:g}, ε̂ = {epsilon:g}: "
        + ", ".join(f"{_at(table, n, order, epsilon, 'kl'):.2g} {word}" for n, word in _WORDS)
        for order, epsilon in ((2.0, 20.0), (20.0, 1.0), (200.0, 1.0))
    )
    exact = (f"{ratios(_EXACT, o)} times the exact value at λ = {o:g}" for o in ORDERS)
    return told(
        "dkl-fig3",
        meant="; ".join(f"{ratios(_MEANT, o)} times that divergence at λ = {o:g}" for o in ORDERS),
        exact="; ".join(exact),
        least="; ".join(f"{up(least[o], 3)} at λ = {o:g}" for o in ORDERS),
        code=_at(table, _CODE, 2.0, 1.0, "delta"),
        sim=_curve(table, "kl", _SIM, 2.0).epsilon.min(),
        losses=losses,
        ahead=", ".join(f"{_ahead_from(table, o):.2g} (λ = {o:g})" for o in ORDERS),
    )


_WORDS = ((_CLAIM, "by (13)"), (_SIM, "by Gohari et al."), (_SAME, "exactly"))


def _ahead_from(table: pd.DataFrame, order: float) -> float:
    """Return the least epsilon shown from which on Algorithm 1 loses less than Gohari et al."""
    claim = _curve(table, "kl", _CLAIM, order).sort_values("epsilon")
    behind = [
        kl >= _at(table, _SIM, order, epsilon, "kl")
        for epsilon, kl in zip(claim.epsilon, claim.kl, strict=True)
        if epsilon < 100
    ]
    return float(claim.epsilon.iloc[len(behind) - 1 - behind[::-1].index(True) + 1])


DKL_FIG3 = Figure("dkl-fig3", _compute_3, _draw_3, _caption_3)
