"""DKL's example of noisy frequencies: the same distance, another KL divergence."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Picture
from scipy.special import rel_entr

from privrl.accounting.targets import RenyiDP
from privrl.experiments.figures.base import Figure, legend, panels, told
from privrl.experiments.palette import LOOKS
from privrl.mechanisms import LaplaceMechanism
from privrl.mechanisms.additive import normalise
from privrl.mechanisms.design import design
from privrl.numerics.dirichlet_rows import dirichlet_rows
from privrl.numerics.special import FloatArray

_RECORDS = np.array([1.0, 9.0])  # ten people in two cells
_PRINTED = np.array([[-0.090, 0.045], [-0.099, -0.038]])  # noise on their frequencies
_RAW, _FLOORED, _DRAWN = "noise as it is", "noise, no count below 1", "Dirichlet, designed"
_POINTS = "the paper's two"


def _compute(quick: bool) -> pd.DataFrame:
    p, n = _RECORDS / _RECORDS.sum(), float(_RECORDS.sum())
    rng, draws = np.random.default_rng(1), 2_000 if quick else 20_000
    laplace = LaplaceMechanism(scale=1.0)
    noisy = laplace.release(np.broadcast_to(_RECORDS, (draws, 2)), rng)
    best = design(RenyiDP(2, float(laplace.cost.rdp(2.0))), n_records=n, n_cells=2)
    drawn = dirichlet_rows(np.broadcast_to(best.weight * _RECORDS + best.alpha, (draws, 2)), rng)
    groups = {
        _POINTS: p + _PRINTED,
        _RAW: noisy / n,
        _FLOORED: normalise(noisy, floor=laplace.scale),
        _DRAWN: drawn,
    }
    return pd.concat([_distances(name, p, q) for name, q in groups.items()], ignore_index=True)


def _distances(name: str, p: FloatArray, q: FloatArray) -> pd.DataFrame:
    """Compare with p both as they are and divided by their sum, where they are positive."""
    positive = np.all(q > 0, axis=1)
    safe = np.where(positive[:, None], q, 1.0)
    sums = -(p * np.log(safe / p)).sum(1)
    divided = rel_entr(p, safe / safe.sum(1, keepdims=True)).sum(1)
    return pd.DataFrame(
        {
            "released": name,
            "l1": abs(q - p).sum(1),
            "kl": np.where(positive, sums, np.inf),
            "kl_normalised": np.where(positive, divided, np.inf),
        }
    )


def _draw(table: pd.DataFrame) -> Picture:
    picture, (left, right) = panels(2)
    laplace, designed = LOOKS["laplace"][0], LOOKS["designed"][0]
    points = table[table.released == _POINTS]
    noisy = table[(table.released == _RAW) & np.isfinite(table.kl_normalised)].head(1500)
    left.plot(noisy.l1, noisy.kl_normalised, ".", ms=3, alpha=0.4, color=laplace, label=_RAW)
    left.plot(points.l1, points.kl_normalised, "D", color="black", ms=6, label=_POINTS)
    left.set(yscale="log", ylim=(1e-4, 3), xlim=(0, 0.8))
    left.set(xlabel="distance from p, ℓ¹", ylabel="KL(p ‖ y), y summing to 1 (nats)")
    left.legend(loc="lower right", fontsize="small")
    looks = {_RAW: ("-", laplace), _FLOORED: ("--", laplace), _DRAWN: ("-.", designed)}
    for name, (line, colour) in looks.items():
        some = np.sort(table.kl_normalised[table.released == name].to_numpy())
        right.plot(some, 1 - np.arange(len(some)) / len(some), line, color=colour, lw=2, label=name)
    right.axvline(points.kl_normalised.iloc[0], color="black", lw=1, label=_POINTS)
    right.axvline(points.kl_normalised.iloc[1], color="black", lw=1)
    lost = float(np.isinf(table.kl_normalised[table.released == _RAW]).mean())
    right.axhline(lost, color=laplace, lw=1, ls=":", label="share with a negative frequency")
    right.set(xscale="log", xlim=(1e-4, 3), ylim=(0, 1))
    right.set(xlabel="KL(p ‖ y) (nats)", ylabel="share of draws that lose more")
    legend(picture, right, "outside lower center", ncols=5, fontsize="small")
    picture.suptitle(
        "p = (0.1, 0.9), ten records; the same Rényi divergence of order 2 for all; "
        "privacy unit: replace one record",
        fontsize="medium",
    )
    return picture


def _caption(table: pd.DataFrame) -> str:
    points = table[table.released == _POINTS]
    l1, kl, divided = (points[name].to_numpy() for name in ("l1", "kl", "kl_normalised"))
    raw, floored, drawn = (table[table.released == name] for name in (_RAW, _FLOORED, _DRAWN))
    return told(
        "dkl-noise-example",
        l1=l1,
        kl=kl,
        ratio=kl[1] / kl[0],
        divided=divided,
        divided_ratio=divided[1] / divided[0],
        undefined=np.isinf(raw.kl_normalised).mean(),
        floored=floored.kl_normalised.mean(),
        drawn=drawn.kl_normalised.mean(),
    )


DKL_NOISE_EXAMPLE = Figure("dkl-noise-example", _compute, _draw, _caption)
