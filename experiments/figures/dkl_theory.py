"""*Dirichlet mechanism for differentially private KL divergence minimization* (DKL): its tools.

What the paper's text leaves open is as in the authors' published code.
"""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Picture
from scipy.special import gammaln, polygamma

from privrl.costs.simplex import probability_some_below
from privrl.experiments.figures.base import Figure, legend, panels, told
from privrl.experiments.palette import BLACK, GREEN, GREY, ORANGE, PURPLE, VERMILION, WINE, colour

# Figure 1 -----------------------------------------------------------------------------------

_TERMS = (10, 1000)  # of the series (4)


def _compute_1(quick: bool) -> pd.DataFrame:
    x = np.geomspace(0.1, 100, 31 if quick else 181)
    truth = polygamma(1, x)
    curves = {
        "ψ'(x)": truth,
        "lower bound of (5)": 1 / x + 1 / (2 * x**2),
        "upper bound of (5)": 1 / x + 1 / x**2,
    }
    for terms in _TERMS:
        series = (1 / (x[:, None] + np.arange(terms)) ** 2).sum(1)
        curves[f"{terms} terms of (4)"] = series
    rows = [
        pd.DataFrame({"curve": name, "x": x, "value": y, "error": abs(y / truth - 1)})
        for name, y in curves.items()
    ]
    return pd.concat(rows, ignore_index=True)


def _draw_1(table: pd.DataFrame) -> Picture:
    picture, (left, right) = panels(2)
    looks = {
        "ψ'(x)": ("-", BLACK),
        "lower bound of (5)": ("--", GREEN),
        "upper bound of (5)": ("--", VERMILION),
        f"{_TERMS[0]} terms of (4)": (":", PURPLE),
        f"{_TERMS[1]} terms of (4)": ("-.", ORANGE),
    }
    for name, curve in table.groupby("curve", sort=False):
        line, ink = looks[str(name)]
        if "terms" not in str(name):
            near = curve[curve.x <= 5.5]
            left.plot(near.x, near.value, line, color=ink, lw=2, label=name)
        if (curve.error > 0).any():
            right.plot(curve.x, curve.error, line, color=ink, lw=2, label=name)
    left.set(xlabel="x", ylabel="ψ'(x)", yscale="log", xlim=(0, 5))
    left.legend(fontsize="small")
    right.set(xscale="log", yscale="log", ylim=(1e-8, 2), xlabel="x", ylabel="relative error")
    right.legend(fontsize="small", loc="lower left")
    return picture


def _caption_1(table: pd.DataFrame) -> str:
    error = table.pivot(index="x", columns="curve", values="error")
    lower, upper = error["lower bound of (5)"], error["upper bound of (5)"]
    at = int(abs(error.index.to_numpy() - 1).argmin())
    few, many = (error[f"{terms} terms of (4)"] for terms in _TERMS)
    return told(
        "dkl-fig1",
        lower=lower.max(),
        lower_at=lower.idxmax(),
        upper=upper.max(),
        upper_at=upper.idxmax(),
        x=error.index[at],
        terms=_TERMS,
        few=few.iloc[at],
        many=many.iloc[at],
    )


DKL_FIG1 = Figure("dkl-fig1", _compute_1, _draw_1, _caption_1)


# Figure 2 -----------------------------------------------------------------------------------

_SCALE, _COUNT, _CELLS = 0.97, 147, 6
_ALPHA = 1 + 4 * _SCALE  # Algorithm 1's prior at order 2
_TOTAL = _SCALE * _COUNT + _CELLS * _ALPHA  # 171.87 in print
_NODES = (20, 26, 30, 40)  # in each direction
_LEVEL = 2.1e-4  # at which the paper sees delta end
_OURS = "as an integral of positive terms"


def _one_minus_rule(gamma: float, nodes: int) -> float:
    """Return 1 minus the probability that two components exceed gamma, by a fixed rule."""
    x, w = np.polynomial.legendre.leggauss(nodes)
    u, w = (1 + x) / 2, w / 2
    side = 1 - 3 * gamma
    first = gamma + side * u[:, None]
    second = gamma + side * (1 - u[:, None]) * u
    rest = _TOTAL - 2 * _ALPHA
    log_density = (_ALPHA - 1) * (np.log(first) + np.log(second))
    log_density += (rest - 1) * np.log1p(-first - second)
    log_density += gammaln(_TOTAL) - 2 * gammaln(_ALPHA) - gammaln(rest)
    weights = w[:, None] * w * (1 - u[:, None]) * side**2
    return 1 - float((weights * np.exp(log_density)).sum())


def _compute_2(quick: bool) -> pd.DataFrame:
    rows = []
    for gamma in np.logspace(-30, -2.7, 40 if quick else 300).tolist():
        delta = probability_some_below(gamma, alpha=_ALPHA, n=2, total=_TOTAL)
        rows.append((_OURS, gamma, delta))
        rows += [(f"{n} x {n} nodes", gamma, _one_minus_rule(gamma, n)) for n in _NODES]
    return pd.DataFrame(rows, columns=["curve", "gamma", "delta"])


def _draw_2(table: pd.DataFrame) -> Picture:
    picture, (left, right) = panels(2)
    looks = dict(
        zip(_NODES, ((":", PURPLE), ("-.", GREEN), ("--", ORANGE), (":", GREY)), strict=True)
    )
    for each, curve in table.groupby("curve", sort=False):
        name, mine = str(each), each == _OURS
        line, ink = ("-", colour("exact")) if mine else looks[int(name.split(maxsplit=1)[0])]
        label = name if mine else f"1 - integral, {name}"
        below = ", 0 or below: at the edge" if (curve.delta <= 0).any() else ""
        for axes in (left, right):
            axes.plot(curve.gamma, curve.delta, line, color=ink, lw=2, label=f"{label}{below}")
    for axes in (left, right):
        axes.axhline(_LEVEL, color=WINE, lw=1.2, label="where the paper's curve ends, 2.1·10⁻⁴")
        axes.set(xscale="log", yscale="log", xlabel="gamma, below which no component should be")
    left.set(ylabel="δ, the probability that one is", ylim=(1e-145, 1e5), xlim=(1e-30, 3e-3))
    right.set(ylim=(1e-9, 1e-2), xlim=(1e-6, 2e-3))
    left.set_title("all of it", fontsize="medium")
    right.set_title("where the paper looks", fontsize="medium")
    legend(picture, right, "outside lower center", ncols=2, fontsize="small")
    picture.suptitle(
        "δ of the unit-simplex bound; privacy unit: replace one record", fontsize="medium"
    )
    return picture


def _caption_2(table: pd.DataFrame) -> str:
    wide = table.pivot(index="gamma", columns="curve", values="delta")
    first, last = wide.iloc[0], wide.iloc[-1]
    ends = "; ".join(f"{n} x {n} nodes: {first[f'{n} x {n} nodes']:.1e}" for n in _NODES)
    reached = float(np.interp(np.log(1e-5), np.log(wide[_OURS]), np.log(wide.index.to_numpy())))
    return told(
        "dkl-fig2",
        total=_TOTAL,
        eta=_ALPHA / _TOTAL,
        eta_bar=4 * _ALPHA / _TOTAL,
        ends=ends,
        last=last[_OURS],
        largest=wide.index[-1],
        first=first[_OURS],
        smallest=wide.index[0],
        reached=np.exp(reached),
    )


DKL_FIG2 = Figure("dkl-fig2", _compute_2, _draw_2, _caption_2)
