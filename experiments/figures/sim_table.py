"""SIM, Table I: what the private average of a hundred vectors is on average, and its variance."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Picture

from privrl.experiments.figures.base import Figure, draw_table, told
from privrl.experiments.figures.sim_average import PRINTED_AVERAGES, collections, draws
from privrl.mechanisms.errors import simplex_variance

#: Of both collections: the average, then means and variances of the output.
PRINTED = {
    "average": PRINTED_AVERAGES,
    "mean": ((0.327731, 0.336119, 0.336149), (0.326620, 0.338976, 0.334402)),
    "variance": ((0.00934632, 0.00983122, 0.0102117), (0.00922426, 0.0100889, 0.0100757)),
}
_WANTED = 0.01  # the variance that the paper chose k for


def _compute(quick: bool) -> pd.DataFrame:
    seeds = np.random.SeedSequence([62, 1]).spawn(3)
    pair = collections(np.random.default_rng(seeds[0]))
    times, rows = 2_000 if quick else 50_000, []
    for i, (vectors, seed) in enumerate(zip(pair, seeds[1:], strict=True)):
        rng = np.random.default_rng(seed)
        drawn = np.concatenate([draws(24, vectors, 1000, rng) for _ in range(times // 1000)])
        average = vectors.mean(axis=0)
        seen = {"average": average, "mean": drawn.mean(axis=0), "variance": drawn.var(axis=0)}
        exact = {"average": average, "mean": average, "variance": simplex_variance(average, 24)}
        for component in range(3):
            for statistic, printed in PRINTED.items():
                numbers = (printed[i], seen[statistic], exact[statistic])
                each = (float(number[component]) for number in numbers)
                rows.append(("PQ"[i], statistic, component + 1, times, *each))
    columns = ["collection", "statistic", "component", "draws", "paper", "seen", "exact"]
    return pd.DataFrame(rows, columns=columns)


def _draw(table: pd.DataFrame) -> Picture:
    def numbers(group: pd.DataFrame, column: str) -> str:
        digits = 5 if group.statistic.iloc[0] == "variance" else 4
        return ", ".join(f"{value:.{digits}f}" for value in group[column])

    words = {
        "average": "average of {}",
        "mean": "mean output, input {}",
        "variance": "its variance, input {}",
    }
    rows = []
    for statistic, text in words.items():
        for collection in "PQ":
            some = (table.statistic == statistic) & (table.collection == collection)
            each = (numbers(table[some], column) for column in ("paper", "seen", "exact"))
            rows.append((text.format(collection), *each))
    times = table.draws.iloc[0]
    return draw_table(
        ["k = 24; components 1, 2, 3", "paper", f"here, {times:,} draws", "exact"],
        rows,
        note="Probabilities, and squares of them. Privacy unit: 0.5 of one vector of 100 moves "
        "between components 1 and 2 (in the paper's column, 2 and 3).",
        widths=(2.2, 2.3, 2.3, 2.3),
    )


def _caption(table: pd.DataFrame) -> str:
    printed = table[table.statistic == "average"].groupby("collection").paper.sum()
    variance = table[table.statistic == "variance"]
    mean = table[table.statistic == "mean"]
    mass = float(printed.iloc[0])
    average = np.array(PRINTED_AVERAGES[0])
    unscaled = simplex_variance(average / mass, 24 * mass)
    ratio = (variance.paper / variance.exact).groupby(variance.collection).mean()
    fitting = variance[variance.collection == "P"].paper.to_numpy() / unscaled
    return told(
        "sim-table1",
        mass=mass,
        apart=(mean.paper - mean.exact).abs().max(),
        ratio=ratio.agg(["min", "max"]),
        total=24 * mass,
        fitting=fitting.mean(),
        draws=table.draws.iloc[0],
        largest=(variance.seen / variance.exact).max(),
        wanted=_WANTED,
        paper=variance.paper.max(),
        exact=variance.exact.max(),
    )


SIM_TABLE1 = Figure("sim-table1", _compute, _draw, _caption)
