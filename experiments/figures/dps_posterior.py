"""DPS: how far a prior that is made private moves a posterior.

What the paper's text leaves open, 20 cells and the prior 1, is as in the authors' published
code, and so is the law of the data: frequencies from a symmetric Dirichlet distribution with
parameter eta, and records from them.
"""

import math

import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Picture
from scipy.optimize import brentq
from scipy.special import polygamma

from privrl.accounting.targets import RenyiDP
from privrl.experiments.figures.base import Figure, legend, note, panels, told
from privrl.experiments.figures.dps_histogram import EPSILONS, RECORD, sizes
from privrl.experiments.palette import shades
from privrl.mechanisms.dirichlet import DirichletMechanism
from privrl.mechanisms.errors import dirichlet_kl, expected_posterior_kl

ETAS = (0.1, 1.0, 10.0)
_D = 20
_PRIOR = 1.0


def _priors(epsilon: float) -> dict[str, float]:
    target = RenyiDP(2, epsilon)
    return {
        "(8)": DirichletMechanism.calibrated(
            target, weight=1, relation=RECORD, bound="dps"
        ).cost.alpha,
        "exact": DirichletMechanism.calibrated(target, weight=1, relation=RECORD).cost.alpha,
        "code": _at_order_1(epsilon),
    }


def _at_order_1(epsilon: float) -> float:
    """Solve (8) at the order 1, ``ψ'(α) = ε``, as the authors' code does for this figure."""

    def excess(log_alpha: float) -> float:
        return math.log(float(polygamma(1, math.exp(log_alpha))) / epsilon)

    return math.exp(brentq(excess, -20, 20))


def _compute(quick: bool) -> pd.DataFrame:
    rows, trials = [], 20 if quick else 400
    for eta in ETAS:
        seeds = np.random.SeedSequence([5, round(10 * eta)]).spawn(len(sizes(quick)))
        for n, seed in zip(sizes(quick), seeds, strict=True):
            rng = np.random.default_rng(seed)
            frequencies = rng.dirichlet(np.full(_D, eta), trials)
            data = rng.multinomial(n, frequencies)
            for epsilon in EPSILONS:
                for rule, alpha in _priors(epsilon).items():
                    kl = dirichlet_kl(data + _PRIOR, data + alpha)
                    bounds = [
                        expected_posterior_kl(p, n_records=n, alpha=_PRIOR, alpha_new=alpha)
                        for p in frequencies
                    ]
                    rows.append(
                        (
                            *(epsilon, eta, n, rule, alpha, float(kl.mean())),
                            *(float(np.mean(bounds)), *np.quantile(kl, (0.05, 0.95)).tolist()),
                        )
                    )
    columns = ["epsilon", "eta", "n_records", "rule", "alpha", "kl", "bound", "low", "high"]
    return pd.DataFrame(rows, columns=columns)


def _draw(table: pd.DataFrame) -> Picture:
    picture, axes = panels(3, sharey=True)
    for each, (epsilon, group) in zip(axes, table.groupby("epsilon"), strict=True):
        for (eta, curves), colour in zip(group.groupby("eta"), shades(len(ETAS)), strict=True):
            of = dict(list(curves.groupby("rule")))
            n, paper = of["(8)"].n_records, of["(8)"]
            each.fill_between(n, paper.low, paper.high, color=colour, alpha=0.15, lw=0)
            each.plot(n, paper.kl, "--", color=colour, lw=2, label=f"η = {eta:g}: prior of (8)")
            each.plot(n, of["exact"].kl, "-", color=colour, lw=2, label=f"η = {eta:g}: exact prior")
            each.plot(
                n, paper.bound, ":", color=colour, lw=1.5, label=f"η = {eta:g}: Theorem 6, mended"
            )
        each.set(xscale="log", yscale="log")
        each.set_title(f"ε = {epsilon:g} nats", fontsize="medium")
        each.set_xlabel("records N")
    axes[0].set_ylabel("KL of the posteriors (nats)")
    legend(picture, axes[0], "outside right upper")
    note(
        picture,
        "mean, and 90 % of the data sets; Rényi divergence of order 2 at most ε; privacy unit: "
        "replace one record",
    )
    return picture


def _caption(table: pd.DataFrame) -> str:
    last = table.n_records.max()
    at = table.set_index(["rule", "epsilon", "eta", "n_records"]).sort_index()
    kl = at.kl

    def slope(eta: float) -> float:
        curve = kl.loc["(8)", 0.01, eta]
        sizes = curve.index.to_numpy(np.float64)
        return float(np.log(curve.iloc[-1] / curve.iloc[-2]) / np.log(sizes[-1] / sizes[-2]))

    def priors(rule: str) -> str:
        return ", ".join(f"{at.alpha.loc[rule, e].iloc[0]:.4g}" for e in EPSILONS)

    steps = ", ".join(f"N^({slope(eta):.2f}) for η = {eta:g}" for eta in ETAS)
    above = (at.bound / at.kl).loc["(8)"]
    code = kl.loc["(8)", :, :, last] / kl.loc["code", :, :, last]
    return told(
        "dps-fig5",
        last=last,
        sparse=kl["(8)", 0.01, 0.1, last],
        even=kl["(8)", 0.01, 1.0, last],
        dense=kl["(8)", 0.01, 10.0, last],
        peak=kl["(8)", 0.01, 0.1].max(),
        steps=steps,
        above=above.agg(["min", "max"]),
        priors=priors("(8)"),
        least_priors=priors("exact"),
        code_priors=priors("code"),
        code=code.agg(["min", "max"]),
    )


DPS_FIG5 = Figure("dps-fig5", _compute, _draw, _caption)
