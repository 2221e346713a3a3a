"""*Notes of DP - Bayesian Inference* (BAY): where the score is most sensitive.

The data of the paper's Figure 1 are not in our text; here are the two priors of its other
figures, with data in the middle and at the edge of the simplex.
"""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Picture

from privrl.experiments.figures.base import Figure, legend, note, panels, told
from privrl.experiments.palette import BLACK, GREY, VERMILION
from privrl.mechanisms import PosteriorExponentialMechanism
from privrl.mechanisms.posteriors import Posteriors
from privrl.numerics.printing import up_to_places as up

#: Prior, counts, and the epsilon that the paper's figures have for that prior.
CASES = (
    ((7.0, 4.0), (50, 50), 0.5),
    ((7.0, 4.0), (100, 0), 0.5),
    ((7.0, 4.0, 5.0), (10, 10, 10), 0.8),
    ((7.0, 4.0, 5.0), (30, 0, 0), 0.8),
)


def _compute(quick: bool) -> pd.DataFrame:
    del quick  # it takes no time
    rows = []
    for prior, x, epsilon in CASES:
        posteriors = Posteriors(prior, sum(x))
        at = int(posteriors.rank(x))
        pairs = posteriors.pairs[(posteriors.pairs == at).any(axis=1)]
        neighbours = pairs[pairs != at]
        own = posteriors.distances(np.array([at]))
        changes = np.abs(posteriors.distances(neighbours) - own).max(axis=0)
        made = PosteriorExponentialMechanism(prior, sum(x), epsilon, sensitivity="local")
        certified = made.cost.pure_epsilon
        for rank, (distance, change) in enumerate(zip(own[0].tolist(), changes, strict=True)):
            kind = "BI(x)" if rank == at else "neighbour" if rank in neighbours else "other"
            candidate = " ".join(map(str, posteriors.counts[rank]))
            rows.append(
                (_name(prior, x), candidate, kind, distance, float(change), epsilon, certified)
            )
    columns = ["case", "candidate", "kind", "distance", "change", "epsilon", "certified"]
    return pd.DataFrame(rows, columns=columns)


def _name(prior: tuple[float, ...], counts: tuple[int, ...]) -> str:
    kind = "Beta" if len(prior) == 2 else "DL"
    return f"{kind}({', '.join(f'{a:g}' for a in prior)}), x = {counts}"


def _draw(table: pd.DataFrame) -> Picture:
    picture, axes = panels(2, 2)
    for each, case in zip(axes, table.case.unique().tolist(), strict=True):
        group = table[table.case == case]
        for kind, colour, marker, size, label in (
            ("other", GREY, ".", 14, "other candidates"),
            ("neighbour", VERMILION, "^", 45, "posteriors of neighbours"),
            ("BI(x)", BLACK, "*", 150, "the true posterior BI(x)"),
        ):
            some = group[group.kind == kind]
            each.scatter(
                some.distance, some.change, s=size, color=colour, marker=marker, label=label
            )
        each.set(xlim=(-0.03, 1.03), ylim=(0, 1.15 * group.change.max()))
        each.set_title(case, fontsize="medium")
    for each in axes[2:]:
        each.set_xlabel("Hellinger distance of candidate r from BI(x)")
    picture.supylabel("largest change of the score of r, over neighbours of x")
    legend(picture, axes[0], "outside upper center", ncols=3)
    note(picture, "privacy unit: replace one record")
    return picture


def _caption(table: pd.DataFrame) -> str:
    said, ties = [], []
    for case, group in table.groupby("case", sort=False):
        own = float(group.change[group.kind == "BI(x)"].iloc[0])
        assert own >= group.change.max() * (1 - 1e-12)
        others = group[group.kind != "BI(x)"]
        ties.append(int((others.change > own * (1 - 1e-9)).sum()))
        rest = float(others.change[others.kind == "other"].max())
        said.append(f"{case}: {own:.4f}, and {rest:.4f} at the largest of the rest")
    certified = table.groupby("case", sort=False)[["epsilon", "certified"]].first()
    costs = [f"{up(c, 3)} where ε is {e:g}" for e, c in certified.drop_duplicates().to_numpy()]
    return told(
        "bay-fig1", said="; ".join(said), ties=", ".join(map(str, ties)), costs=" and ".join(costs)
    )


BAY_FIG1 = Figure("bay-fig1", _compute, _draw, _caption)
