"""Make the tables of docs/results/audits.md, and audit every agent and model in full.

Run with ``python docs/make/audits.py``; it needs the extras ``models`` and ``pld`` and ten
minutes. Pass names of blocks, such as ``agents``, to make those alone; ``picture --redraw``
draws the numbers kept in docs/numbers. It ends with an error if an audit contradicts a claim.
"""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pages
import pandas as pd
from matplotlib.figure import Figure

from privrl.accounting import ApproxDP
from privrl.audit import audit_mechanism, law_test
from privrl.audit.laws import DirichletLaw, GaussianLaw, LaplaceLaw, Law, draws_needed
from privrl.costs import ReplaceRecord
from privrl.experiments import Method
from privrl.experiments.palette import BLACK, GREEN, ORANGE, VERMILION
from privrl.mechanisms import DirichletMechanism, GaussianMechanism, LaplaceMechanism
from privrl.numerics.dirichlet_rows import dirichlet_rows
from privrl.numerics.special import FloatArray

sys.path.insert(0, str(pages.DOCS.parent / "tests" / "audit"))

import whole_models
import whole_runs

Rng = np.random.Generator
Draw = Callable[[FloatArray, Rng], FloatArray]

ERRORS = (0.05, 0.2, 0.5)
TRIES = 50
DRAWS = 100_000  # of each data set, for a black box
PRIOR = 10.0  # of Dirichlet draws
RUNS = 20_000  # of each history, for a whole run: 5 % more separation is found in 95 % of tries
FITS = 2000
DATA, NEIGHBOUR = [1.0, 0.0], [0.0, 1.0]
_violated: list[str] = []


def main() -> None:
    """Write the picture, and the tables between the markers of the page."""
    pages.main(
        "results/audits.md",
        {
            "black box": _black_boxes,
            "laws": _laws,
            "agents": _agents,
            "draws": _draws,
            "models": _models,
            "picture": _picture,
        },
    )
    if _violated:
        raise SystemExit(f"claims are contradicted: {', '.join(_violated)}")


# Too little noise ------------------------------------------------------------------------------


def _mechanism(noise: str, target: ApproxDP, error: float) -> Draw:
    """Return a mechanism that meets a target but for noise that is too small by a part."""
    if noise == "Dirichlet":
        weight = DirichletMechanism.calibrated(
            target, alpha=PRIOR, relation=ReplaceRecord()
        ).weight / (1 - error)
        return lambda counts, rng: dirichlet_rows(weight * counts + PRIOR, rng)
    if noise == "Gaussian":
        sigma = GaussianMechanism.calibrated(target).sigma * (1 - error)
        return lambda counts, rng: counts + rng.normal(0, sigma, counts.shape)
    size = LaplaceMechanism.calibrated(target).scale * (1 - error)
    return lambda counts, rng: counts + rng.laplace(0, size, counts.shape)


def _found_by_black_box(noise: str, target: ApproxDP, error: float, tries: int) -> int:
    """Count the audits that contradict the claim."""
    mechanism = _mechanism(noise, target, error)
    return sum(
        audit_mechanism(
            mechanism,
            DATA,
            NEIGHBOUR,
            np.random.default_rng([1, seed]),
            claimed=target.epsilon,
            delta=target.delta,
            draws=DRAWS,
            batched=True,
        ).violated
        for seed in range(tries)
    )


def _black_boxes() -> str:
    rows = []
    for noise in ("Gaussian", "Laplace", "Dirichlet"):
        for delta in (1e-2, 1e-5):
            for epsilon in (0.1, 1.0, 3.0):
                target = ApproxDP(epsilon, delta)
                found = [_found_by_black_box(noise, target, e, TRIES) for e in ERRORS]
                rows.append([noise, f"{epsilon:g}", f"{delta:g}", *found])
                print(rows[-1], flush=True)
    return pages.table(["noise", "ε", "δ", *(f"{100 * e:.0f} % too little" for e in ERRORS)], rows)


def _law(noise: str) -> tuple[Law, Callable[[int, float, Rng], FloatArray]]:
    """Return a law, and how to draw from it with noise that is too small by a part."""
    if noise == "Gaussian":
        return GaussianLaw(sigma=1.0), lambda n, e, g: g.normal(0, 1 - e, n)
    if noise == "Laplace":
        return LaplaceLaw(scale=1.0), lambda n, e, g: g.laplace(0, 1 - e, n)
    prior = float(noise.rpartition(" ")[2])
    counts = np.array([1e6, 0.0])
    return (
        DirichletLaw(weight=0.1, counts=counts, alpha=prior),
        lambda n, e, g: dirichlet_rows(np.tile(0.1 / (1 - e) * counts + prior, (n, 1)), g),
    )


def _found_by_law(noise: str, error: float, tries: int, designed: float) -> tuple[int, int]:
    """Return how many draws find an error, and how often they find this one."""
    law, draw = _law(noise)
    n = draws_needed(law, error=designed)
    found = sum(
        law_test(draw(n, error, np.random.default_rng([2, seed])), law, error=designed).violated
        for seed in range(tries)
    )
    return n, found


def _laws() -> str:
    rows = []
    for noise in ("Gaussian", "Laplace", "Dirichlet, prior 1", "Dirichlet, prior 10"):
        cells = [noise]
        for error in ERRORS:
            n, found = _found_by_law(noise, error, 100, error)
            cells.append(f"{n:,}: {found}")
        honest = _found_by_law(noise, 0.0, 100, ERRORS[0])[1]
        rows.append([*cells, honest])
        if honest:
            _violated.append(noise)
    header = ["noise", *(f"{100 * e:.0f} % too little" for e in ERRORS), "nothing wrong"]
    return pages.table(header, rows)


def _picture() -> str:
    figure = Figure(figsize=(7.5, 4.6), layout="constrained")
    axes = figure.subplots()
    styles = ((BLACK, "o-"), (ORANGE, "s--"), (VERMILION, "^-."), (GREEN, "D:"))
    found = pages.numbers("audits", _found_by_all).groupby("way", sort=False)
    for (way, line), (colour, style) in zip(found, styles, strict=True):
        axes.plot(line["error"], line["found"], style, color=colour, label=way)
    axes.axhline(0.95, color="black", lw=0.5)
    axes.text(-0.01, 0.96, "95 %", fontsize="small")
    axes.set_xlabel("relative error of Gaussian noise that is too small")
    axes.set_ylabel("share of tries that find the error")
    axes.set_ylim(-0.03, 1.03)
    axes.grid(alpha=0.25)
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize="small")
    pages.save(figure, pages.IMAGES / "audits.png")
    return "![How often too little noise is found](../images/audits.png)"


def _found_by_all() -> pd.DataFrame:
    errors = (0.0, 0.02, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7)
    n = draws_needed(GaussianLaw(sigma=1.0))
    law = f"the law: {n:,} draws, any ε and δ"
    rows = [(law, e, _found_by_law("Gaussian", e, 100, 0.05)[1] / 100) for e in errors]
    for target in (ApproxDP(1.0, 1e-2), ApproxDP(0.1, 1e-2), ApproxDP(1.0, 1e-5)):
        way = f"a black box: {DRAWS:,} draws, ε = {target.epsilon:g}, δ = {target.delta:g}"
        rows += [(way, e, _found_by_black_box("Gaussian", target, e, 50) / 50) for e in errors]
    return pd.DataFrame(rows, columns=["way", "error", "found"])


# Whole runs and models -------------------------------------------------------------------------


def _agents() -> str:
    cases = [
        *(("psrl", sampler, "step", False) for sampler in whole_runs.STREAMS),
        *(("psrl", sampler, "episode", False) for sampler in ("noisy-counts", "local-counts")),
        ("psrl", "noisy-counts", "step", True),
        ("ucbvi", "noisy-counts", "step", False),
        ("ucbvi", "local-counts", "step", False),
        ("ucbvi", "noisy-counts:optimal", "episode", False),
    ]
    rows = []
    for agent, sampler, unit, terminates in cases:
        method = Method(agent=agent, sampler=sampler, schedule="every-episode")
        law, apart = whole_runs.audit_agent(method, unit, runs=RUNS, terminates=terminates)
        exact = whole_runs.exact_separation(unit, whole_runs.EPSILON, sampler, whole_runs.DRAWS)
        name = f"{agent.upper()}, `{sampler}`"
        note = f"one {unit}" + ", episodes end" * terminates
        measured = f"{apart.measured:.3f} ± {apart.deviation:.3f}"
        rows.append([name, note, f"{apart.claimed:.3f}", f"{exact:.3f}", measured, _verdict(law)])
        _judge(f"{name}, {note}", law, apart)
    header = ["agent", "what is replaced", "claimed d′", "exact d′", "measured d′", "law"]
    return f"{RUNS:,} runs of each history:\n\n" + pages.table(header, rows)


def _draws() -> str:
    rows = []
    for sampler in ("diffuse", "concentrated"):
        for window in (None, 1):
            method = Method(
                sampler=sampler,
                window=window,
                schedule="every-episode",
                alpha=5.0,
                reward_alpha=5.0,
            )
            laws, audit = whole_runs.audit_dirichlet_agent(method, runs=10 * RUNS)
            name = f"PSRL, `{sampler}`" + (f", window {window}" if window else "")
            claimed, found = f"{audit.claimed:.2f}", f"{audit.epsilon_lower:.2f}"
            rows.append([name, claimed, found, *map(_verdict, laws)])
            _judge(name, *laws, audit)
    header = ["agent", "claimed ε", "seen ε", "law of transitions", "of rewards"]
    return f"{10 * RUNS:,} runs of each history:\n\n" + pages.table(header, rows)


def _models() -> str:
    rows = []
    for name in whole_models.MODELS:
        law, apart, seen = whole_models.audit_model(name, runs=FITS)
        measured = f"d′ {apart.measured:.3f} ± {apart.deviation:.3f} of {apart.claimed:.3f}"
        shown = f"ε {seen.epsilon_lower:.2f} of {seen.claimed:.2f}"
        rows.append([name, measured, shown, _verdict(law)])
        _judge(name, law, apart, seen)
    for mechanism in whole_models.HISTOGRAMS:
        law, audit = whole_models.audit_histogram(mechanism, runs=5 * FITS, error=0.05)
        seen = f"ε {audit.epsilon_lower:.2f} of {audit.claimed:.2f}"
        rows.append([f"histogram, `{mechanism}`", seen, "the same", _verdict(law)])
        _judge(f"histogram, {mechanism}", law, audit)
    return pages.table(["model", "all that is released", "the model that is shown", "law"], rows)


def _verdict(law: Any) -> str:
    return f"{', '.join(law.found) or 'as claimed'} ({law.draws / law.needed:,.0f} times enough)"


def _judge(name: str, *results: Any) -> None:
    if any(result.violated for result in results):
        _violated.append(name)


if __name__ == "__main__":
    main()
