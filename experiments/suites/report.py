"""What a suite found, in rows and columns: shares of the optimum as texts."""

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd

from privrl.experiments.specs import budget_name, unit_name
from privrl.numerics.printing import up

HALVES = {
    "set": "an agent's settings may have been chosen by its results here",
    "judged": "no setting was chosen by results here",
}
"""The halves of a suite, in the order of tables and pictures, and what they mean."""

LEARNING, FINAL = "mean of all episodes", "the policy deployed in the end"


class Column(NamedTuple):
    """A method at a budget; infinite without privacy."""

    method: str
    epsilon: float


_Shares = dict[tuple[str, Column], tuple[float, float]]


class Report(NamedTuple):
    """Means over runs.

    Attributes
    ----------
    rows : dict
        For each half, what its rows are called: tasks, and for how long where a task is learned
        for several numbers of episodes; the last is their mean where none is.
    columns : list of Column
        Methods, in their order, and their budgets.
    names : dict
        Short names of methods by their labels: their agents, where those differ.
    shares : dict
        By row and column, the shares while learning and in the end.
    """

    rows: dict[str, list[str]]
    columns: list[Column]
    names: dict[str, str]
    shares: _Shares

    def cell(self, row: str, column: Column) -> str:
        """Return ``learning/final`` as a text, empty where there is none."""
        found = self.shares.get((row, column))
        return "" if found is None else "/".join(map(share_text, found))


def report(results: pd.DataFrame) -> Report:
    """Return means over the runs of `privrl.experiments.suites.suite.SuiteResult`'s rows."""
    named = results.assign(row=list(_row_names(results)))
    rows = {half: list(named.loc[named["half"] == half, "row"].unique()) for half in HALVES}
    pairs = named[["method", "epsilon"]].drop_duplicates()
    means = named.groupby(["row", "method", "epsilon"], sort=False)[["learning", "final"]].mean()
    shares = {
        (row, Column(method, epsilon)): (learning, final)
        for (row, method, epsilon), learning, final in means.itertuples()
    }
    columns = [Column(*pair) for pair in pairs.itertuples(index=False)]
    if results.groupby("task")["episodes"].nunique().eq(1).all():  # a mean over lengths says little
        for half, there in rows.items():
            if len(there) > 1:
                shares |= _means(shares, there, columns, mean_of(half))
                there.append(mean_of(half))
    return Report(
        rows={half: there for half, there in rows.items() if there},
        columns=columns,
        names=_short_names(results),
        shares=shares,
    )


def mean_of(half: str) -> str:
    """Return what the last row of a half is called."""
    return f"mean, {half}"


def by_budget(columns: Iterable[Column]) -> list[list[Column]]:
    """Return the columns of each budget, the largest first."""
    columns = list(columns)
    epsilons = sorted({column.epsilon for column in columns}, reverse=True)
    return [[c for c in columns if c.epsilon == epsilon] for epsilon in epsilons]


def share_text(share: float) -> str:
    """Write a share with two digits: ``.93``, ``1.00``, ``-.58``; whole numbers from 10 on."""
    if abs(share) >= 9.995:
        return f"{share:.0f}"
    text = f"{share:.2f}"
    return ".00" if text == "-0.00" else text.replace("0.", ".", 1) if abs(share) < 0.995 else text


def budget_text(epsilon: float) -> str:
    """Write a budget."""
    return "no privacy" if math.isinf(epsilon) else f"ε = {up(epsilon)}"


def spent_text(results: pd.DataFrame, epsilon: float) -> str:
    """Write what a budget comes to: the most that any method and task spends."""
    most = results.loc[results["epsilon"] == epsilon, "epsilon_delta"].max()
    return f"({up(most)}, {float(results['delta'].iloc[0])!r})"


def renyi_order_of(results: pd.DataFrame) -> float | None:
    """Return the order of Renyi budgets; None for others."""
    order = results["renyi_order"].iloc[0]
    return None if pd.isna(order) else float(order)


def conditions_text(results: pd.DataFrame) -> str:
    """Write what budgets, privacy unit and means are."""
    first, runs, order = results.iloc[0], results["run"].nunique(), renyi_order_of(results)
    budgets = sorted(results.loc[np.isfinite(results["epsilon"]), "epsilon"].unique())
    comes = ", ".join(f"{budget_text(e)} to {spent_text(results, e)}" for e in budgets)
    more = f"; as (ε, δ) they come to at most: {comes}" if budgets and order is not None else ""
    text = (
        f"Budgets cover the whole run: ε in nats, {budget_name(first.delta, order)}{more}. "
        f"Privacy unit: {unit_name(first.relation)}. Means of {runs} run{'s' * (runs > 1)}"
    )
    if runs > 1:
        shown = results.groupby(["task", "episodes", "method", "epsilon"])[["learning", "final"]]
        learning, final = 1.96 * shown.sem().max()
        text += f"; 95 % confidence half-widths are at most {learning:.2g}/{final:.2g}"
    return f"{text}."


def _means(shares: _Shares, rows: list[str], columns: list[Column], name: str) -> _Shares:
    """Return the means over rows, of the columns that have all of them."""
    found = {}
    for column in columns:
        those = [shares[row, column] for row in rows if (row, column) in shares]
        if len(those) == len(rows):
            learning, final = np.mean(those, axis=0)
            found[name, column] = (float(learning), float(final))
    return found


def _row_names(results: pd.DataFrame) -> Iterator[str]:
    several = results.groupby("task")["episodes"].nunique() > 1
    for task, episodes in zip(results["task"], results["episodes"], strict=True):
        yield f"{task}, {_count(episodes)}" if several[task] else task


def _count(number: int) -> str:
    """Write a number of episodes: 300, 20k, 1M."""
    for size, letter in ((10**6, "M"), (1000, "k")):
        if number % size == 0:
            return f"{number // size}{letter}"
    return str(number)


def _short_names(results: pd.DataFrame) -> dict[str, str]:
    agents = results.drop_duplicates("method").set_index("method")["agent"]
    if agents.is_unique:
        return {str(label): str(agent) for label, agent in agents.items()}
    return {str(label): str(label) for label in agents.index}
