"""*Notes of DP - Bayesian Inference* (BAY): accuracy and cost of private posteriors.

The data of the paper's figures are not in our text. Here they are in the middle of the simplex,
as even as they can be, and at its edge, all in the first cell.
"""

import numpy as np
import pandas as pd

from privrl.experiments.figures.base import Figure, told
from privrl.experiments.figures.bay_accuracy import DELTA, accuracy, data_sets, draw, hellinger
from privrl.mechanisms.posteriors import Posteriors, hellinger_sensitivity, smooth_beta
from privrl.numerics.printing import up_to_places as up

BETA, DIRICHLET = (7.0, 4.0), (7.0, 4.0, 5.0)  # the paper's priors
_SAYS = {  # of a mechanism, with this epsilon
    "global": "{:g}-DP",
    "local": "not private",
    "smooth": "({:g}, 0.8)-DP",
}
#: Printed in Figures 3 and 4.
PRINTED_GLOBAL = 0.239992747797
PRINTED = {
    "beta": {100: 0.0699407108115, 120: 0.0677791100173, 150: 0.0677791100173},
    "local": {100: 0.08, 120: 0.0945, 150: 0.0945},
    "smooth": {100: 0.09, 120: 0.096, 150: 0.096},
}


# Tables ---------------------------------------------------------------------------------------


def _with_sensitivities(table: pd.DataFrame, epsilon: float) -> pd.DataFrame:
    """Add rows on the sensitivities of the paper's Figures 3 and 4."""
    rows = []
    for n in table.n.unique().tolist():
        posteriors = Posteriors(DIRICHLET, n)
        local = posteriors.local_sensitivity
        by_n, by_candidates = (smooth_beta(epsilon, DELTA, k) for k in (n, n + 1))
        smooth = posteriors.smooth_sensitivity(by_n)
        at = posteriors.rank(data_sets(n, 3)["middle"])
        numbers = {
            "beta, 2n": by_n,
            "beta, 2(n + 1)": by_candidates,
            "global": hellinger_sensitivity(DIRICHLET, n),
            "global, below the prior": float(hellinger(np.array([4, 7]), np.array([3, 8]))),
            "local": float(local[at]),
            "smooth": float(smooth[at]),
            "least local with smooth above": float(local[smooth > (1 + 1e-9) * local].min()),
        }
        rows += [(n, "sensitivity", name, value) for name, value in numbers.items()]
    more = pd.DataFrame(rows, columns=["n", "loss", "mechanism", "mean"])
    return pd.concat([table, more], ignore_index=True)


def _compute_2(quick: bool) -> pd.DataFrame:
    table = accuracy(quick, prior=BETA, sizes=(500, 300), epsilon=0.5, figure=2)
    return table[table.loss == "hellinger"]


def _compute_3(quick: bool) -> pd.DataFrame:
    table = accuracy(quick, prior=DIRICHLET, sizes=(100, 120), epsilon=0.8, figure=3)
    return _with_sensitivities(table[table.loss == "hellinger"], 0.8)


def _compute_4(quick: bool) -> pd.DataFrame:
    table = accuracy(quick, prior=DIRICHLET, sizes=(150,), epsilon=0.8, figure=4)
    return _with_sensitivities(table, 0.8)


# Captions -------------------------------------------------------------------------------------


def _costs(table: pd.DataFrame) -> str:
    """Say what the certificates are, beside what the paper says."""
    said = []
    for n in table.n.unique().tolist():
        first = table[(table.n == n) & (table.place == "middle")].drop_duplicates("mechanism")
        parts = []
        for row in first.to_dict("records"):
            words = _SAYS.get(row["mechanism"])
            says = f" (paper: {words.format(row['epsilon'])})" if words else ""
            parts.append(f"{row['mechanism']} {up(row['certified'], 3)}{says}")
        said.append(f"n = {n}: {', '.join(parts)}")
    return "Certified ε₀, at δ = 0, for " + "; ".join(said)


def _errors(table: pd.DataFrame, loss: str, digits: int) -> str:
    """Say what the mean losses are."""
    said = []
    for (n, place), group in table[table.loss == loss].groupby(["n", "place"], sort=False):
        parts = [f"{row['mechanism']} {row['mean']:.{digits}f}" for row in group.to_dict("records")]
        said.append(f"n = {n}, {place}: {', '.join(parts)}")
    return "; ".join(said)


def _caption_2(table: pd.DataFrame) -> str:
    return told("bay-fig2", errors=_errors(table, "hellinger", 3), costs=_costs(table))


def _sensitivities(table: pd.DataFrame) -> str:
    wide = table[table.loss == "sensitivity"].pivot(index="n", columns="mechanism", values="mean")
    said = []
    for n, row in zip(wide.index.tolist(), wide.to_dict("records"), strict=True):
        said.append(
            told(
                "bay-sensitivity",
                n=n,
                row=row,
                printed={kind: values[n] for kind, values in PRINTED.items()},
            )
        )
    first = wide.iloc[0]
    return told(
        "bay-sensitivities",
        first=first,
        printed=PRINTED_GLOBAL,
        said="; ".join(said),
        least=wide["least local with smooth above"].min(),
    )


def _caption_3(table: pd.DataFrame) -> str:
    return told(
        "bay-fig3",
        errors=_errors(table, "hellinger", 3),
        costs=_costs(table),
        sensitivities=_sensitivities(table),
    )


def _caption_4(table: pd.DataFrame) -> str:
    return told(
        "bay-fig4",
        errors=_errors(table, "hellinger", 3),
        counts=_errors(table, "l1", 1),
        costs=_costs(table),
        sensitivities=_sensitivities(table),
    )


BAY_FIG2 = Figure("bay-fig2", _compute_2, draw, _caption_2)
BAY_FIG3 = Figure("bay-fig3", _compute_3, draw, _caption_3)
BAY_FIG4 = Figure("bay-fig4", _compute_4, draw, _caption_4)
