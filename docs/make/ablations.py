"""Make the table of docs/results/environments.md that measures each part of the default rule.

Run with ``python docs/make/ablations.py``; it takes five minutes.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
import pages

from privrl.agents import sparse_model, sparse_psrl
from privrl.agents import sparse_model as filled
from privrl.envs import benchmark
from privrl.experiments import Method
from privrl.experiments.sweeps.jobs import Job, run_job

_TASKS = ("RiverSwim50", "FrozenLake4x4", "KeyAndDoor5")
_RUNS, _EPSILON = 8, 1.0
_Changes = Mapping[ModuleType, Mapping[str, Any]]

#: What is taken away, and by what constants.
_WITHOUT: dict[str, _Changes] = {
    "all of the rule": {},
    "no uniform actions first (1)": {sparse_psrl: {"_BEFORE": 0.0}},
    "cells alone, no classes (2)": {filled: {"_PSEUDO_CELLS": 1e9}},
    "a cell is there at even odds (2)": {sparse_model: {"_KEPT": 0.5}},
    "releases 30 % apart (3)": {sparse_psrl: {"_RATIO": 1.3}},
    "a plan for each release (3)": {sparse_psrl: {"_PLANS": 1}},
    "no exploring (3)": {sparse_psrl: {"_EXPLORING": 1e-9}},
    "exploring for half of a run (3)": {sparse_psrl: {"_EXPLORING": 0.5}},
    "no turns (4)": {sparse_model: {"_PUT_OFF": 0.0}},
    "no luck (5)": {sparse_model: {"_LUCK": 0.0}},
    "what is likely is deployed (6)": {sparse_model: {"_SURE": 0.5}},
}


def main() -> None:
    """Write the table between the markers of the page."""
    pages.main("results/environments.md", {"ablations": _table})


def _table() -> str:
    rows = []
    for name, changes in _WITHOUT.items():
        with _changed(changes):
            rows.append([name, *map(_cell, _TASKS)])
        print(rows[-1], flush=True)
    return "\n\n".join(
        [
            pages.table(["without", *_TASKS], rows),
            f"Learning/final, means of {_RUNS} runs at order-2 ε = {_EPSILON:g}, `replace-step`; "
            "in brackets the least final of a run where it is below .9.",
        ]
    )


def _cell(name: str) -> str:
    task = benchmark(name)
    job = Job(
        env=name, horizon=task.mdp.horizon, episodes=task.episodes,
        method=Method(agent="sparse-psrl"), relation="replace-step", renyi_order=2.0,
        epsilon=_EPSILON, delta=1e-5, first_run=0, runs=_RUNS, seed=0,
    )  # fmt: skip
    result = run_job(job, task.mdp)
    learning = task.share(result.rewards[-1] / task.episodes)
    final = task.share(result.final)
    text = f"{np.mean(learning):.2f}/{np.mean(final):.2f}"
    if np.min(final) < 0.9:
        text += f" ({np.min(final):.2f})"
    return text.replace("0.", ".")


@contextmanager
def _changed(changes: _Changes) -> Iterator[None]:
    before = {module: {name: vars(module)[name] for name in changes[module]} for module in changes}
    try:
        for module, values in changes.items():
            vars(module).update(values)
        yield
    finally:
        for module, values in before.items():
            vars(module).update(values)


if __name__ == "__main__":
    main()
