"""BAY: how far released posteriors are from the true one, drawn with their costs."""

from itertools import product
from typing import Literal

import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Picture
from scipy.special import gammaln

from privrl.costs.noise import LaplaceCost
from privrl.experiments.figures.base import note, panels
from privrl.experiments.palette import colour
from privrl.mechanisms import NoisyPosteriorMechanism, PosteriorExponentialMechanism
from privrl.mechanisms.posterior_exponential import Sensitivity
from privrl.mechanisms.posteriors import Posteriors
from privrl.numerics.printing import up_to_places as up
from privrl.numerics.special import FloatArray

DELTA = 0.8  # of the smooth sensitivity, in every figure
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
KINDS: tuple[Sensitivity | Literal["Laplace"], ...] = (
    *("global", "local", "smooth", "Laplace", "constant", "certified"),
)
_OF = {"Laplace": "noisy posterior"}
_LABELS = {
    "hellinger": "Hellinger distance to BI(x)",
    "l1": "ℓ¹ distance of parameters to BI(x) (counts)",
}


def data_sets(n: int, cells: int) -> dict[str, tuple[int, ...]]:
    """Return counts in the middle, and at the edge, of the simplex."""
    middle = [n // cells] * cells
    for cell in range(n % cells):
        middle[-1 - cell] += 1
    return {"middle": tuple(middle), "edge": (n,) + (0,) * (cells - 1)}


def hellinger(u: FloatArray, v: FloatArray) -> FloatArray:
    """Return the Hellinger distance between Dirichlet densities, shape (...)."""

    def log_beta(w: FloatArray) -> FloatArray:
        return gammaln(w).sum(-1) - gammaln(w.sum(-1))

    exponent = log_beta((u + v) / 2) - (log_beta(u) + log_beta(v)) / 2
    return np.sqrt(np.maximum(-np.expm1(exponent), 0))


def _distances(true: FloatArray, released: FloatArray) -> dict[str, FloatArray]:
    return {"hellinger": hellinger(true, released), "l1": np.abs(released - true).sum(-1)}


def _summary(values: FloatArray, probs: FloatArray) -> tuple[float, ...]:
    """Return the mean, and the quantiles, of a distribution on finitely many values."""
    order = np.argsort(values)
    cumulative = probs[order].cumsum()
    at = np.minimum(np.searchsorted(cumulative, LEVELS), len(values) - 1)
    return float(values @ probs), *values[order][at].tolist()


def _exponential(
    prior: tuple[float, ...], n: int, epsilon: float, kind: Sensitivity, x: tuple[int, ...]
) -> tuple[float, FloatArray, FloatArray]:
    """Return the certificate, what may be released, and its probabilities."""
    delta = DELTA if kind == "smooth" else None
    made = PosteriorExponentialMechanism(prior, n, epsilon, kind, delta)
    candidates = Posteriors(prior, n).counts + np.array(prior)
    return made.cost.pure_epsilon, candidates, made.probabilities(x)


def _laplace(
    prior: tuple[float, ...], n: int, epsilon: float, data: FloatArray, rng: np.random.Generator
) -> tuple[float, FloatArray, FloatArray]:
    """Return the certificate, and equally likely releases of each row."""
    made = NoisyPosteriorMechanism.pure(epsilon, alpha=prior, n=n)
    assert isinstance(made.cost, LaplaceCost)
    released = made.release(data, rng).concentrations
    return made.cost.pure_epsilon, released, np.full(len(data), 1 / len(data))


def accuracy(
    quick: bool, *, prior: tuple[float, ...], sizes: tuple[int, ...], epsilon: float, figure: int
) -> pd.DataFrame:
    """Return how far each mechanism's release is from the true posterior.

    A row for each number of records, place of the data, mechanism, and distance, with its mean
    and quantiles: exact, but for Laplace noise, which is drawn.
    """
    rows, times = [], 2_000 if quick else 100_000
    for n, kind in product(sizes, KINDS):
        for place, x in data_sets(n, len(prior)).items():
            seed = np.random.SeedSequence([figure, n, place == "edge"])
            certified, released, probs = (
                _laplace(prior, n, epsilon, np.tile(x, (times, 1)), np.random.default_rng(seed))
                if kind == "Laplace"
                else _exponential(prior, n, epsilon, kind, x)
            )
            for loss, values in _distances(np.add(x, prior), released).items():
                summary = _summary(values, probs)
                rows.append((n, place, str(x), kind, epsilon, certified, loss, *summary))
    columns = ["n", "place", "x", "mechanism", "epsilon", "certified", "loss", "mean"]
    return pd.DataFrame(rows, columns=columns + [f"q{round(100 * q)}" for q in LEVELS])


def draw(table: pd.DataFrame) -> Picture:
    """Return a box for each mechanism, number of records, place and distance."""
    table = table[table.loss != "sensitivity"]
    columns = list(product(table.loss.unique().tolist(), table.n.unique().tolist()))
    picture, axes = panels(len(columns), 2)
    for i, place in enumerate(("middle", "edge")):
        for j, (loss, n) in enumerate(columns):
            some = (table.place == place) & (table.loss == loss) & (table.n == n)
            each, group = axes[i * len(columns) + j], table[some]
            boxes = [
                {"label": f"{r['mechanism']}\n{up(r['certified'], 3)}", "mean": r["mean"]}
                | {"whislo": r["q5"], "q1": r["q25"], "med": r["q50"]}
                | {"q3": r["q75"], "whishi": r["q95"]}
                for r in group.to_dict("records")
            ]
            drawn = each.bxp(
                boxes, showfliers=False, showmeans=True, patch_artist=True, widths=0.6,
                medianprops={"color": "black", "lw": 1.6},
                meanprops={"marker": "D", "ms": 4, "mfc": "white", "mec": "black"},
            )  # fmt: skip
            for box, kind in zip(drawn["boxes"], group.mechanism, strict=True):
                box.set(facecolor=colour(_OF.get(kind, kind)), alpha=0.75)
            each.set(ylim=(0, 1.05) if loss == "hellinger" else (0, None))
            each.set_title(f"n = {n}, x = {group.x.iloc[0]}", fontsize="medium")
            each.set_ylabel(_LABELS[loss])
            each.tick_params(axis="x", labelsize="small")
    note(
        picture,
        "mechanism, with its certified ε₀ (nats, δ = 0); box: quartiles, whiskers: 5 and 95 %, "
        "diamond: mean; privacy unit: replace one record",
    )
    return picture
