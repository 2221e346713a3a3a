"""What a study found, as tables."""

import math
from typing import NamedTuple

import numpy as np
import pandas as pd

from privrl.numerics.printing import up

UNIT = "a person: all of their episodes, added or removed; pure epsilon, in nats"
"""What budgets of studies are about."""

_KEYS = ["world", "persons", "condition", "epsilon"]


class Cell(NamedTuple):
    """Scores of the behaviour policy, and of the policies of one budget."""

    treated: float
    mean: float
    least: float
    error: float

    def __str__(self) -> str:
        return f"{score_text(self.mean)} ({score_text(self.least)})"


def summary(results: pd.DataFrame) -> pd.DataFrame:
    """Return means over logs and draws.

    Parameters
    ----------
    results : pandas.DataFrame
        Of `log_studies.study.run_study`.

    Returns
    -------
    pandas.DataFrame
        By ``world``, ``persons``, ``condition`` and ``epsilon``: the ``mean`` score, the ``least``,
        the standard ``error`` of the mean, ``policies`` and ``seconds`` of each; and ``treated``,
        the score of the behaviour policy.

    Notes
    -----
    Policies of one log are alike, so that the error is that of a mean over logs: NaN of one.
    """
    groups = results.groupby(_KEYS, sort=False)
    logs = results.groupby([*_KEYS, "log"], sort=False)["score"].mean().groupby(_KEYS, sort=False)
    found = pd.DataFrame(
        {
            "treated": groups["treated"].first(),
            "mean": groups["score"].mean(),
            "least": groups["score"].min(),
            "error": logs.sem(),
            "policies": groups["score"].size(),
            "seconds": groups["seconds"].mean(),
        }
    )
    return found.reset_index()


def cells(results: pd.DataFrame) -> dict[tuple[str, int, str], dict[float, Cell]]:
    """Return, by world, persons and condition, the scores of each budget."""
    found = summary(results)
    keys = zip(found["world"], found["persons"], found["condition"], strict=True)
    numbers = found[["epsilon", "treated", "mean", "least", "error"]].to_numpy(np.float64)
    rows: dict[tuple[str, int, str], dict[float, Cell]] = {}
    for (world, persons, condition), (epsilon, *scores) in zip(keys, numbers, strict=True):
        rows.setdefault((world, persons, condition), {})[epsilon] = Cell(*scores)
    return rows


def text_table(results: pd.DataFrame) -> str:
    """Return a table for a terminal of 80 columns: mean, least and standard error."""
    epsilons = list(results["epsilon"].unique())
    head = f"{'persons':>10}" + "".join(f"{budget_text(epsilon):>17}" for epsilon in epsilons)
    parts: dict[str, list[str]] = {}
    for (world, persons, condition), found in cells(results).items():
        treated = next(iter(found.values())).treated
        name = f"{world}: {condition}; as treated: {score_text(treated)}"
        row = (f"{found[epsilon]} ±{score_text(found[epsilon].error)}" for epsilon in epsilons)
        rows = parts.setdefault(name, [name, head])
        rows.append(f"{persons:>10,}" + "".join(f"{each:>17}" for each in row))
    told = ["mean (least) ± standard error; privacy unit:", UNIT]
    return "\n\n".join(map("\n".join, [*parts.values(), told]))


def conditions_text(results: pd.DataFrame) -> str:
    """Write what the numbers of a table are."""
    sizes = results.groupby("persons")["log"].nunique()
    logs = ", ".join(f"{number} of {persons:,} persons" for persons, number in sizes.items())
    draws = results["draw"].nunique()
    worst = summary(results)["error"].max()
    return (
        f"Mean (least) score; *as treated*: of the behaviour policy. Privacy unit: {UNIT}. "
        f"Logs: {logs}; {draws} draw{'s' * (draws > 1)} of each. "
        f"Standard errors are at most {score_text(worst)}."
    )


def budget_text(epsilon: float) -> str:
    """Write a budget."""
    return "no privacy" if math.isinf(epsilon) else f"ε = {up(epsilon)}"


def score_text(score: float) -> str:
    """Write a score with two digits, as ``.93``, ``1.00`` or ``-.05``."""
    if math.isnan(score):
        return "?"
    text = f"{np.round(score, 2) + 0.0:.2f}"
    return text.replace("0.", ".", 1) if abs(score) < 0.995 else text
