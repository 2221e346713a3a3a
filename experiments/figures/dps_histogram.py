"""DPS: what a private normalised histogram loses, beside noise and beside designed draws.

What the paper's text leaves open, the law of the data, is as in the authors' published code:
frequencies are drawn from a symmetric Dirichlet distribution, and records from them.
"""

import math
from itertools import product

import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Picture

from privrl.accounting.targets import RenyiDP
from privrl.costs.relations import ReplaceRecord
from privrl.experiments.figures.base import Figure, legend, note, panels, told
from privrl.experiments.palette import look
from privrl.mechanisms import GaussianMechanism, LaplaceMechanism
from privrl.mechanisms.additive import normalise
from privrl.mechanisms.design import design, expected_loss
from privrl.mechanisms.dirichlet import DirichletMechanism
from privrl.numerics.special import FloatArray

EPSILONS = (0.01, 0.1, 1.0)  # at order 2
RECORD = ReplaceRecord()

CELLS = (10, 1000)
_CURVES = {  # line, method
    "Dirichlet, concentrated": ("--", "concentrated"),
    "the same, all records in one cell": (":", "concentrated"),
    "Dirichlet, diffuse": ("--", "diffuse"),
    "Gaussian noise": ("--", "gaussian"),
    "Laplace noise, by the authors' code": ("--", "laplace"),
    "Dirichlet, designed": ("-", "designed"),
    "Gaussian noise, normalised": ("-", "gaussian"),
    "Laplace noise, normalised": ("-", "laplace"),
    "uniform: no data at all": (":", "uniform"),
}


def sizes(quick: bool) -> list[int]:
    """Return the numbers of records of the paper's Figures 2 and 5."""
    return [int(n) for n in np.geomspace(10, 1e5, 5 if quick else 10).round()]


def _histograms(
    cells: int, eta: float, n_records: int, trials: int, rng: np.random.Generator
) -> FloatArray:
    frequencies = rng.dirichlet(np.full(cells, eta), trials)
    return np.asarray(rng.multinomial(n_records, frequencies), np.float64)


def _rms(y: FloatArray, p: FloatArray) -> float:
    return math.sqrt(float(((y - p) ** 2).sum(-1).mean()))


def _compute(quick: bool) -> pd.DataFrame:
    rows, trials = [], 10 if quick else 200
    for cells in CELLS:
        seeds = np.random.SeedSequence([2, cells]).spawn(len(sizes(quick)))
        for n, seed in zip(sizes(quick), seeds, strict=True):
            rng = np.random.default_rng(seed)
            data = _histograms(cells, 5, n, trials, rng)
            for epsilon in EPSILONS:
                for curve, loss in losses(data, RenyiDP(2, epsilon), rng).items():
                    rows.append((cells, epsilon, n, curve, loss))
    return pd.DataFrame(rows, columns=["n_cells", "epsilon", "n_records", "curve", "loss"])


def losses(data: FloatArray, target: RenyiDP, rng: np.random.Generator) -> dict[str, float]:
    """Return root mean squares of ``‖y − p‖₂``, over draws and data sets.

    The data are histograms of equally many records, shape (n, d). Noise that is normalised is
    drawn, once for each; everything else is exact.
    """
    cells, n = data.shape[1], float(data[0].sum())
    p, corner = data / n, n * np.eye(cells)[:1]
    prior = DirichletMechanism.calibrated(target, weight=1, relation=RECORD, bound="dps").cost.alpha
    small = DirichletMechanism.calibrated(target, alpha=1, relation=RECORD, bound="dps").weight
    best = design(target, n_records=n, n_cells=cells, loss="l2")
    gaussian = GaussianMechanism.calibrated(target)
    laplace = LaplaceMechanism.calibrated(target)

    def drawn(histograms: FloatArray, weight: float, alpha: float) -> float:
        squares = [expected_loss(x, weight, alpha, loss="l2") for x in histograms]
        return math.sqrt(float(np.mean(squares)))

    def probabilities(noise: GaussianMechanism | LaplaceMechanism, size: float) -> float:
        return _rms(normalise(noise.release(data, rng), floor=size), p)

    as_printed = 2 * math.sqrt(target.order / (2 * target.epsilon))  # Δ₁ / sqrt(2ε/λ)
    return {
        "Dirichlet, concentrated": drawn(data, 1, prior),
        "the same, all records in one cell": drawn(corner, 1, prior),
        "Dirichlet, diffuse": drawn(data, small, 1),
        "Gaussian noise": gaussian.sigma * math.sqrt(cells) / n,
        "Laplace noise, by the authors' code": as_printed * math.sqrt(2 * cells) / n,
        "Laplace noise, exact": laplace.scale * math.sqrt(2 * cells) / n,
        "Dirichlet, designed": drawn(data, best.weight, best.alpha),
        "Gaussian noise, normalised": probabilities(gaussian, gaussian.sigma),
        "Laplace noise, normalised": probabilities(laplace, laplace.scale),
        "uniform: no data at all": _rms(np.full_like(p, 1 / cells), p),
    }


def _draw(table: pd.DataFrame) -> Picture:
    picture, axes = panels(3, 2)
    for each, (cells, epsilon) in zip(axes, product(CELLS, EPSILONS), strict=True):
        group = table[(table.n_cells == cells) & (table.epsilon == epsilon)]
        for name, (line, method) in _CURVES.items():
            curve = group[group.curve == name]
            drawn = look(method) | {"linestyle": line}
            each.plot(curve.n_records, curve.loss, lw=1.6, ms=4, label=name, **drawn)
        each.set(xscale="log", yscale="log", ylim=(3e-4, 30))
        each.set_title(f"d = {cells} cells, ε = {epsilon:g} nats", fontsize="medium")
        each.set_xlabel("records N")
    picture.supylabel("distance of y from p (ℓ², root mean square)")
    legend(picture, axes[0], "outside right upper")
    note(picture, "Rényi divergence of order 2 at most ε; privacy unit: replace one record")
    return picture


def _crossing(table: pd.DataFrame, first: str, second: str) -> float:
    """Return the least N at which the second curve is below the first; nan if it never is."""
    wide = table.pivot(index="n_records", columns="curve", values="loss")
    gap = np.log((wide[first] / wide[second]).to_numpy(np.float64))
    sizes = np.log(wide.index.to_numpy(np.float64))
    if not (gap > 0).any():
        return math.nan
    at = int((gap > 0).argmax())
    if at == 0:
        return float(np.exp(sizes[0]))
    share = gap[at - 1] / (gap[at - 1] - gap[at])
    return float(np.exp(sizes[at - 1] + share * (sizes[at] - sizes[at - 1])))


def _caption(table: pd.DataFrame) -> str:
    turns, corners, behind = [], [], []
    for cells, epsilon in product(CELLS, EPSILONS):
        group = table[(table.n_cells == cells) & (table.epsilon == epsilon)]
        n = _crossing(group, "Dirichlet, concentrated", "Gaussian noise")
        turns.append("none" if math.isnan(n) else f"{n * epsilon / cells:.1f}")
        n = _crossing(group, "the same, all records in one cell", "Gaussian noise")
        corners.append("none" if math.isnan(n) else f"{n * math.sqrt(epsilon / cells):.1f}")
        wide = group.pivot(index="n_records", columns="curve", values="loss")
        ratio = wide["Dirichlet, concentrated"] / wide["Gaussian noise, normalised"]
        behind.append((ratio.min(), ratio.max()))
    wide = table.pivot(index=["n_cells", "epsilon", "n_records"], columns="curve", values="loss")
    laplace = wide["Laplace noise, by the authors' code"] / wide["Laplace noise, exact"]
    designed = wide["Dirichlet, concentrated"] / wide["Dirichlet, designed"]
    last = table.n_records.max()
    diffuse = (wide["Dirichlet, diffuse"] / wide["Dirichlet, concentrated"]).xs(
        last, level="n_records"
    )
    return told(
        "dps-fig2",
        turns=", ".join(turns),
        corners=", ".join(corners),
        least=1 / max(b for _, b in behind),
        most=1 / min(a for a, _ in behind),
        laplace=laplace.agg(["min", "max"]),
        designed=designed.agg(["min", "max"]),
        last=last,
        diffuse=diffuse.agg(["min", "max"]),
    )


DPS_FIG2 = Figure("dps-fig2", _compute, _draw, _caption)
