"""Agents, tasks and jobs that tests make, and what a cluster makes for them."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from privrl.agents import TabularSetup
from privrl.agents.methods import Method, Task
from privrl.costs import ReplaceStep
from privrl.data import Bins, Categories
from privrl.data.logs import LogSchema
from privrl.envs import TabularMDP


@dataclass(frozen=True)
class Episode:
    """An episode with the attributes that Minari's have."""

    observations: Any
    actions: Any
    rewards: Any
    terminations: Any = ()
    truncations: Any = ()


def agent_of(kind: Any, *sizes: int, **options: Any) -> Any:
    """Return ``kind(TabularSetup(...), ...)`` with each option where it belongs."""
    own = {
        name: options.pop(name) for name in inspect.signature(kind).parameters if name in options
    }
    return kind(TabularSetup(*sizes, **options), **own)


def task_of(mdp: TabularMDP, episodes: int, **more: Any) -> Task:
    """Return the task of tables whose expected rewards are known, with rewards in 0..1."""
    return Task(
        n_states=mdp.n_states,
        n_actions=mdp.n_actions,
        horizon=mdp.horizon,
        reward_range=(0.0, 1.0),
        relation=ReplaceStep(),
        episodes=episodes,
        expected_reward=mdp.expected_reward,
        **more,
    )


def job_of(episodes: int, runs: int) -> Any:
    """Return a job of a sweep of RiverSwim."""
    from privrl.experiments.sweeps.jobs import Job  # noqa: PLC0415 -- needs more than agents do

    return Job(
        env="privrl/RiverSwim-v0",
        horizon=30,
        episodes=episodes,
        method=Method(),
        relation="replace-step",
        renyi_order=2.0,
        epsilon=1.0,
        delta=1e-5,
        first_run=0,
        runs=runs,
        seed=0,
    )


class Made:
    """What a function made, elsewhere."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def result(self) -> Any:
        return self._value


def dosed_log(glucose: tuple[float, ...], **more: Any) -> LogSchema:
    """Return the schema of a log of patients with a dose at each step, who leave well or dead."""
    return LogSchema(
        person="patient",
        state={"glucose": Bins(glucose)},
        action={"dose": Categories((0, 1))},
        outcome="left",
        outcomes=("well", "dead"),
        outcome_rewards=(1, 0),
        **more,
    )


def write_parts(folder: Path, frame: pd.DataFrame, n_files: int) -> Path:
    """Write rows to as many files: a person is in several."""
    folder.mkdir()
    edges = np.linspace(0, len(frame), n_files + 1).astype(int)
    for number in range(n_files):
        part = frame.iloc[edges[number] : edges[number + 1]]
        part.to_parquet(folder / f"part-{number:02}.parquet", index=False)
    return folder


class Elsewhere:
    """Does as a cluster: all that it is given is sent to it, and so copied."""

    def __init__(self) -> None:
        self.largest = self.submitted = 0

    def submit(self, function: Callable[..., Any], *given: Any, pure: bool) -> Made:
        assert not pure  # else what was made would be named by what is private
        self.submitted += 1
        mine = [each for each in given if not isinstance(each, Made)]
        cloudpickle = import_module("cloudpickle")
        sent = cloudpickle.dumps((function, mine))
        self.largest = max(self.largest, len(sent))
        function = cloudpickle.loads(sent)[0]
        there = (each.result() if isinstance(each, Made) else each for each in given)
        return Made(function(*there))


class ElsewhereBehind(Elsewhere):
    """Has a disk of its own: another folder lies there under the name of the one here."""

    def __init__(self, here: Path, there: Path) -> None:
        super().__init__()
        self._here, self._there = here.resolve(), there

    def submit(self, function: Callable[..., Any], *given: Any, pure: bool) -> Made:
        return super().submit(function, *map(self._on_its_disk, given), pure=pure)

    def _on_its_disk(self, given: Any) -> Any:
        if isinstance(given, Path) and given.parent == self._here:
            return self._there / given.name
        return given
