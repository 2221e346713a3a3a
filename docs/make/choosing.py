"""Fill docs/howto/choosing.md: the cost of choosing, and when choosing pays.

``python docs/make/choosing.py`` takes about two minutes on one core, ``--redraw`` a second.
"""

import math
from collections.abc import Callable

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from pages import IMAGES, main, numbers, save, table
from sklearn import datasets

from privrl.accounting import ApproxDP, Target
from privrl.accounting.base import Accountant
from privrl.accounting.calibration import calibrate
from privrl.costs import GaussianCost, ReplaceRecord
from privrl.costs.selection import ConcentratedCost, SelectionCost
from privrl.experiments.palette import BLUE
from privrl.mechanisms import select_private
from privrl.mechanisms.selection import Trial
from privrl.models import PrivateNaiveBayes

DELTA, TARGET = 1e-5, ApproxDP(1.0, 1e-5)
MEANS = (1, 5, 20, 100)
BINS, DEFAULT, BOUNDS = (4, 8, 16, 32), 8, (-3.0, 3.0)
SEEDS = range(10)
Data = tuple[np.ndarray, np.ndarray]


def concentrated(rho: float, trials: int) -> SelectionCost:
    """Return the cost of a selection from Gaussian trials."""
    return SelectionCost(trial=ConcentratedCost(rho=rho, relation=ReplaceRecord()), trials=trials)


def curve() -> pd.DataFrame:
    """Return the total epsilon by that of one trial and the mean number of trials."""
    rows = [
        {
            "trial": float(concentrated(rho, 1).epsilon(DELTA)),
            "trials": trials,
            "total": float(concentrated(rho, trials).epsilon(DELTA)),
        }
        for rho in np.geomspace(1e-5, 0.2, 15)
        for trials in MEANS
    ]
    return pd.DataFrame(rows)


def draw() -> str:
    """Draw the cost curve."""
    found = numbers("choosing-curve", curve)
    figure = Figure(figsize=(5.2, 3.4), layout="constrained")
    axes = figure.subplots()
    for trials, own in found.groupby("trials"):
        said = "one model" if trials == 1 else f"best of {trials} trials on average"
        axes.plot(
            own.trial, own.total, label=said, color=BLUE, alpha=0.25 + 0.16 * math.log(trials)
        )
    unit = "(δ = 1e-5; privacy unit: one record, replaced)"
    axes.set(
        xlabel=f"ε of one trial\n{unit}", ylabel="ε of the selection", xlim=(0, 2), ylim=(0, 5)
    )
    axes.legend(frameon=False)
    save(figure, IMAGES / "choosing.png")
    return "![Total epsilon by that of one trial](../images/choosing.png)"


def waves(n: int, seed: int) -> Data:
    """Return records whose class changes several times along each feature: fine bins are needed."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, 4))
    return X, (np.sin(4 * X).sum(axis=1) + rng.normal(0, 0.5, n) > 0).astype(int)


def slopes(n: int, seed: int) -> Data:
    """Return records whose class depends on the sum of ten features: coarse bins are enough."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 10))
    return X, (X.sum(axis=1) + rng.normal(0, 2, n) > 0).astype(int)


def peak(n: int, seed: int) -> Data:
    """Return records of which those near a narrow peak have another class."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, 6))
    near = (np.abs(X[:, :3] - 0.6) < 0.25).sum(axis=1)
    return X, (near + rng.normal(0, 0.3, n) > 0.5).astype(int)


def bundled(load: Callable[..., Data]) -> Callable[[int, int], Data]:
    """Return one of scikit-learn's data sets, scaled to the bounds by its known extremes."""

    def made(n: int, seed: int) -> Data:
        X, y = load(return_X_y=True)
        low, high = X.min(axis=0), X.max(axis=0)
        return 6 * (X - low) / np.where(high > low, high - low, 1) - 3, y

    return made


SETS: tuple[tuple[str, Callable[[int, int], Data], int], ...] = (
    ("waves", waves, 1000),
    ("waves", waves, 10000),
    ("peak", peak, 1000),
    ("peak", peak, 10000),
    ("slopes", slopes, 1000),
    ("slopes", slopes, 10000),
    ("breast cancer", bundled(datasets.load_breast_cancer), 569),
)


def fitted(
    data: Data,
    bins: int,
    target: Target,
    rng: np.random.Generator,
    accountant: Accountant | None = None,
) -> PrivateNaiveBayes:
    """Return a fitted classifier."""
    X, y = data
    model = PrivateNaiveBayes(
        bounds=BOUNDS,
        bins=bins,
        classes=sorted(set(y.tolist())),
        target=target,
        random_state=int(rng.integers(2**32)),
    )
    return model.fit(X, y, accountant=accountant)


def chosen(data: Data, rng: np.random.Generator) -> PrivateNaiveBayes:
    """Return the classifier that a private selection takes."""
    X, y = data

    def candidate(bins: int) -> Callable[[Trial], tuple[PrivateNaiveBayes, float]]:
        def run(trial: Trial) -> tuple[PrivateNaiveBayes, float]:
            model = fitted(data, bins, trial.part(0.9), trial.rng, trial.accountant)
            right = int((model.predict(X) == y).sum())
            yes, no = trial.noisy([right, len(y) - right], 0.1)
            return model, float(yes - no)

        return run

    return select_private({f"{b}": candidate(b) for b in BINS}, target=TARGET, rng=rng).result


def scores() -> pd.DataFrame:
    """Return test accuracies, one row for each data set and seed."""
    rows = []
    for name, make, n in SETS:
        print(name, n, flush=True)
        for seed in SEEDS:
            X, y = make(2 * n, seed)
            rng = np.random.default_rng([seed, 17])
            order = rng.permutation(len(y))
            train, test = np.split(order, [min(n, round(0.7 * len(y)))])
            data = X[train], y[train]
            models = {f"bins {b}": fitted(data, b, TARGET, rng) for b in BINS}
            models["chosen"] = chosen(data, rng)
            found = {each: m.score(X[test], y[test]) for each, m in models.items()}
            rows.append({"data": name, "records": len(train), **found})
    return pd.DataFrame(rows)


def compared() -> str:
    """Return the table of accuracies."""
    found, rows = numbers("choosing", scores), []
    for (name, n), own in found.groupby(["data", "records"], sort=False):
        default = own[f"bins {DEFAULT}"]
        gain = own.chosen - default
        error = 2 * gain.std() / math.sqrt(len(gain))
        best = own[[f"bins {b}" for b in BINS]].mean().max()
        numbers_of = (default.mean(), own.chosen.mean(), best)
        rows.append(
            (name, f"{n:,}", *(f"{each:.3f}" for each in numbers_of),
             f"{gain.mean():+.3f} ± {error:.3f}")
        )  # fmt: skip
    return table("data | records | default | chosen | best in hindsight | chosen − default", rows)


def prices() -> str:
    """Return the noise of one trial relative to that of a single model of the same total."""
    each, relation = (2, 3, 4, 8, 16), ReplaceRecord()

    def one(sigma: float) -> GaussianCost:
        return GaussianCost(sigma=sigma, relation=relation)

    alone = float(one(calibrate(TARGET, one, rises=False)).rdp(2.0)) / 2  # its rho
    chosen_of = (f"{math.sqrt(alone / _size(5 * n)):.2f}" for n in each)
    all_of = (f"{math.sqrt(n):.2f}" for n in each)
    return table(
        ("candidates", *each),
        [("chosen privately", *chosen_of), ("all released", *all_of)],
    )


def _size(trials: int) -> float:
    def cost(rho: float) -> SelectionCost:
        return concentrated(rho, trials)

    return calibrate(TARGET, cost, rises=True)


if __name__ == "__main__":
    main("howto/choosing.md", {"curve": draw, "prices": prices, "scores": compared})
