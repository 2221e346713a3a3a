"""SIM, section VI: the private average of a hundred vectors of the unit simplex."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Picture

from privrl.costs.simplex import SimplexCost, probability_some_below
from privrl.experiments.figures.base import Figure, label_deltas, note, panels, told
from privrl.experiments.palette import BLACK, GREY, OLIVE, PURPLE, VERMILION
from privrl.mechanisms import SimplexMechanism
from privrl.numerics.printing import up_to_places as up
from privrl.numerics.special import FloatArray

N, ETA, ETA_BAR, SCALES = 100, 0.05, 0.05, (24.0, 10.0)
DELTA = 0.05
PRINTED = 1.18  # epsilon at k = 24 and DELTA
#: The averages in the paper's Table I, which do not sum to 1.
PRINTED_AVERAGES = ((0.314923, 0.315923, 0.320923), (0.314923, 0.320923, 0.315923))


def _mechanism(weight: float) -> SimplexMechanism:
    return SimplexMechanism(weight=weight, eta=ETA, eta_bar=ETA_BAR, sensitive=(0, 1), n_vectors=N)


def _theorem(weight: float) -> SimplexCost:
    return SimplexCost(weight=weight, eta=ETA, eta_bar=ETA_BAR, n_vectors=N)


def collections(rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Return neighbours P and Q, shape (100, 3), P having Table I's average, divided by its sum.

    Vectors come in pairs that mirror each other at the average. In Q one vector has moved by
    1 in 1-norm, within the sensitive components, the first and the second.
    """
    average = np.array(PRINTED_AVERAGES[0])
    average /= average.sum()
    moved = np.array([0.06, 0.60, 0.34])
    found = [moved]
    while len(found) < N // 2:
        vector = rng.dirichlet((4, 4, 4))
        if min(vector.min(), (2 * average - vector).min()) >= ETA:
            found.append(vector)
    p = np.array([*found, *(2 * average - v for v in found)])
    q = p.copy()
    q[0] += (0.5, -0.5, 0)
    return p, q


def draws(weight: float, data: FloatArray, times: int, rng: np.random.Generator) -> FloatArray:
    """Return so many outputs of the paper's mechanism, shape (times, 3)."""
    return _mechanism(weight).release(np.broadcast_to(data, (times, *data.shape)), rng)


def _compute(quick: bool) -> pd.DataFrame:
    rows: list[tuple[str, float, str, float, float]] = []
    seeds = np.random.SeedSequence([62, 2]).spawn(5)
    p, q = collections(np.random.default_rng(seeds[0]))
    for name, vectors in (("P", p), ("Q", q)):
        rows += [("opinions", np.nan, name, v[0], v[1]) for v in vectors]
    streams = iter(seeds[1:])
    for weight in SCALES:
        for name, vectors in (("P", p), ("Q", q)):
            drawn = draws(weight, vectors, 200, np.random.default_rng(next(streams)))
            rows += [("output", weight, name, y[0], y[1]) for y in drawn]
    epsilons = np.linspace(0, 2, 9 if quick else 81)
    for weight in SCALES:
        exact = _mechanism(weight).cost
        deltas = exact.delta(epsilons)
        rows += [("profile", weight, "exact", e, d) for e, d in zip(epsilons, deltas, strict=True)]
        rows.append(("cost", weight, "exact", float(exact.epsilon(DELTA)), DELTA))
        rows.append(("cost", weight, "exact", PRINTED, float(exact.delta(PRINTED))))
    theorem = _theorem(SCALES[0])
    best = float(theorem.epsilon(DELTA))
    some = np.append(epsilons[epsilons > best], best)
    rows += [("profile", 24.0, "Theorem 2", e, float(theorem.delta(e))) for e in np.sort(some)]
    rows.append(("cost", 24.0, "Theorem 2", best, DELTA))
    rows.append(("cost", 24.0, "Theorem 2", PRINTED, float(theorem.delta(PRINTED))))
    gamma = float(theorem.gamma(best))
    for weight in SCALES:
        below = probability_some_below(gamma, alpha=weight * ETA, n=2, total=weight)
        rows.append(("below gamma", weight, "worst input", gamma, below))
    return pd.DataFrame(rows, columns=["panel", "k", "what", "x", "y"])


def _draw(table: pd.DataFrame) -> Picture:
    picture, axes = panels(2, 2)
    clouds = [("opinions", None), *(("output", k) for k in SCALES)]
    for each, (panel, k) in zip(axes[:3], clouds, strict=True):
        for name, colour, marker in (("P", VERMILION, "o"), ("Q", BLACK, "^")):
            some = table[(table.panel == panel) & (table.what == name)]
            some = some if k is None else some[some.k == k]
            if k is None and name == "Q":  # Q is P but for its first vector
                some = some.iloc[:1]
                moved = table[(table.panel == panel) & (table.what == "P")].iloc[0]
                each.annotate(
                    "", (some.x.iloc[0], some.y.iloc[0]), (moved.x, moved.y),
                    arrowprops={"arrowstyle": "->", "color": GREY},
                )  # fmt: skip
            label = name if k is not None else {"P": "P", "Q": "the vector that differs in Q"}[name]
            each.scatter(some.x, some.y, s=14, color=colour, marker=marker, alpha=0.6, label=label)
        each.plot([0, 1], [1, 0], color=GREY, lw=0.8)
        each.set(xlim=(-0.02, 0.9), ylim=(-0.02, 0.9))
        each.set_xlabel("component 1 (probability)")
        each.set_ylabel("component 2 (probability)")
        each.legend(fontsize="small", loc="upper right")
        title = "the 100 vectors" if k is None else f"200 outputs each, k = {k:g}"
        each.set_title(title, fontsize="medium")
    last = axes[3]
    for k, what, line, colour in (
        (24.0, "Theorem 2", "--", OLIVE),
        (24.0, "exact", "-", BLACK),
        (10.0, "exact", "-.", PURPLE),
    ):
        some = table[(table.panel == "profile") & (table.k == k) & (table.what == what)]
        last.plot(some.x, some.y, line, color=colour, lw=2, label=f"k = {k:g}, {what}")
    last.plot(PRINTED, DELTA, "x", color=VERMILION, ms=9, mew=2.5, label="k = 24, printed")
    last.set(yscale="log", ylim=(1e-10, 3))
    label_deltas(last, "lower left")
    note(picture, "privacy unit: 0.5 of one vector of 100 moves between components 1 and 2")
    return picture


def _caption(table: pd.DataFrame) -> str:
    costs = table[table.panel == "cost"]

    def cost(k: float, what: str) -> tuple[float, float]:
        """Return epsilon at the paper's delta, and delta at its epsilon."""
        some = costs[(costs.k == k) & (costs.what == what)]
        return float(some.x[some.y == DELTA].iloc[0]), float(some.y[some.x == PRINTED].iloc[0])

    theorem, exact, other = cost(24, "Theorem 2"), cost(24, "exact"), cost(10, "exact")
    below = table[table.panel == "below gamma"].set_index("k")
    sizes = [
        table[(table.panel == "output") & (table.what == "P") & (table.k == k)].x.std()
        for k in SCALES
    ]
    return told(
        "sim-fig2",
        sizes=sizes,
        printed=PRINTED,
        delta=DELTA,
        theorem_epsilon=up(theorem[0], 4),
        gamma=below.x.iloc[0],
        theorem_delta=theorem[1],
        epsilon=up(exact[0], 4),
        exact_delta=exact[1],
        k_eta=10 * ETA,
        other=up(other[0], 4),
        below10=below.y.iloc[1],
        below24=below.y.iloc[0],
    )


SIM_FIG2 = Figure("sim-fig2", _compute, _draw, _caption)
