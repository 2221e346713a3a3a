"""DKL's experiments: naive Bayes and Bayesian networks on UCI data, mechanism by mechanism.

The jobs of one split are run together, since they share its data.
"""

import math
import warnings
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from scipy.special import stdtrit

from privrl.experiments.uci.data import NotPrivateWarning, split
from privrl.experiments.uci.fits import fit_naive_bayes, fit_networks
from privrl.experiments.uci.jobs import NONE, UNIFORM, Found, Job
from privrl.experiments.workers import on_workers


@dataclass(frozen=True)
class Group:
    """Jobs that share a data set, a model, a kind of bins and a split."""

    jobs: tuple[Job, ...]

    def __str__(self) -> str:
        first = self.jobs[0]
        return f"{first.model} on {first.data}, {first.cells} bins, split {first.split}"


def run_jobs(
    jobs: Iterable[Job],
    *,
    folder: Path | None = None,
    backend: str = "sequential",
    workers: int | None = None,
) -> pd.DataFrame:
    """Run jobs, those of a split together.

    Parameters
    ----------
    jobs : iterable of Job
        In any order, and no matter in which company.
    folder : pathlib.Path, optional
        Where the data sets are, see `privrl.data.datasets.load`.
    backend, workers
        As for `privrl.experiments.workers.on_workers`.

    Returns
    -------
    DataFrame
        A row for each job, in their order: its fields, and those of `Found`.

    Warns
    -----
    NotPrivateWarning
        Once, if a job uses the paper's bins.
    """
    jobs = list(jobs)
    if any(job.cells == "paper" for job in jobs):
        warnings.warn(
            "cells='paper' reads bins and categories from the private records, so that the models "
            "are not private, in spite of their guarantees; use cells='public'.",
            NotPrivateWarning,
            stacklevel=2,
        )
    together: dict[tuple[str, str, str, int], list[Job]] = defaultdict(list)
    for job in dict.fromkeys(jobs):
        together[job.data, job.model, job.cells, job.split].append(job)
    groups = [Group(tuple(each)) for each in together.values()]
    found: dict[Job, Found] = {}
    for group, results in on_workers(run_group, groups, folder, backend=backend, workers=workers):
        found |= dict(zip(group.jobs, results, strict=True))
    return pd.DataFrame([asdict(job) | found[job]._asdict() for job in jobs])


def run_group(group: Group, folder: Path | None) -> list[Found]:
    """Return the results of each job of a group."""
    first = group.jobs[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)  # it is given once, for all groups
        parts = split(first.data, first.split, first.cells, folder=folder)
    return (fit_networks if first.model == "network" else fit_naive_bayes)(group.jobs, parts)


def means(table: pd.DataFrame, what: str) -> pd.DataFrame:
    """Return means over splits: a row for each data set and epsilon, a column for each mechanism.

    What does not depend on epsilon is repeated for each.
    """
    return _over_splits(table, what, "mean")


def half_widths(table: pd.DataFrame, what: str) -> pd.DataFrame:
    """Return half-widths of 95 % confidence intervals of `means`, by Student's t; 0 of one split.

    Splits of one data set have records in common: it is the mean over splits of these records that
    an interval is of.
    """
    return _over_splits(table, what, _half_width)


def _half_width(values: "pd.Series[float]") -> float:
    n = len(values)
    return float(stdtrit(n - 1, 0.975) * values.std() / math.sqrt(n)) if n > 1 else 0.0


def _over_splits(table: pd.DataFrame, what: str, of: Any) -> pd.DataFrame:
    some = table[(table.epsilon > 0) & (table.epsilon < math.inf)]
    wide = some.pivot_table(
        index=["data", "epsilon"], columns="mechanism", values=what, sort=False, aggfunc=of
    )
    for name in (NONE, UNIFORM):
        fixed = table[table.mechanism == name].groupby("data")[what].agg(of)
        wide[name] = fixed.reindex(wide.index.get_level_values("data")).to_numpy()
    return wide
