"""A new agent, sampler, mechanism and environment, added as CONTRIBUTING.md says, go everywhere."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from privrl.accounting import calibrate
from privrl.agents import PSRL, Policy
from privrl.agents.methods import AGENTS, SAMPLERS, SamplerEntry, SamplerPlan
from privrl.cli import app
from privrl.costs import GaussianCost, Relation
from privrl.envs import TabularEnv, save_tables
from privrl.envs.random_tables import garnet
from privrl.mechanisms import Mechanism
from privrl.mechanisms.base import check_counts
from privrl.samplers.base import PaidSampler
from privrl.samplers.noisy_counts import NoisyPosterior

MDP = garnet(4, 2, 2, seed=3, horizon=5)


@dataclass(frozen=True)
class ToyMechanism(Mechanism[Any]):
    """Counts with Gaussian noise."""

    sigma: float
    relation: Relation
    table: str

    @property
    def cost(self) -> GaussianCost:
        return GaussianCost(sigma=self.sigma, relation=self.relation, table=self.table)

    def check(self, data: Any) -> Any:
        return check_counts(data)

    def _draw(self, data: Any, rng: np.random.Generator) -> NoisyPosterior:
        noisy = data + rng.normal(0.0, self.sigma, data.shape)
        one = np.ones((1,) * data.ndim)
        return NoisyPosterior(noisy, self.sigma * one, one)

    @classmethod
    def calibrated(
        cls, target: Any, *, count: int, relation: Relation, table: str
    ) -> "ToyMechanism":
        def cost(sigma: float) -> GaussianCost:
            return GaussianCost(sigma=sigma, relation=relation, table=table)

        return cls(calibrate(target, cost, rises=False, count=count), relation, table)


class ToySampler(PaidSampler):
    """All counts so far, with fresh noise at each draw."""

    def __init__(self, mechanism: ToyMechanism) -> None:
        self._mechanism = mechanism
        self._forget()

    def _forget(self) -> None:
        super()._forget()
        self._total = 0.0

    def _goes_with(self, other: PaidSampler) -> bool:
        return False

    @property
    def cost(self) -> GaussianCost:
        return self._mechanism.cost

    def check(self, counts: Any) -> None:
        self.check_usable()
        self._mechanism.check(counts)

    def update(self, counts: Any, rng: np.random.Generator) -> Any:
        self._total = self._total + counts
        self._done += 1
        return self._mechanism.release(self._total, rng)


def build(budgets: Any, plan: SamplerPlan, table: str) -> ToySampler:
    (budget,) = budgets
    made = ToyMechanism.calibrated(budget, count=plan.draws, relation=plan.relation, table=table)
    return ToySampler(made)


class ToyAgent(PSRL):
    """Plans for two samples, and follows the second."""

    def _plan(self, transition: Any, reward: Any) -> Any:
        super()._plan(transition, reward)
        return super()._plan(transition, reward)


class ToyEnv(TabularEnv):
    def __init__(self, **options: Any) -> None:
        super().__init__(MDP, **options)


@pytest.fixture(autouse=True)
def extensions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    entry = SamplerEntry(build=build, releases_counts=False, stacks=False)
    monkeypatch.setitem(AGENTS, "toy", ToyAgent)
    monkeypatch.setitem(SAMPLERS, "toy", entry)
    spec = gym.envs.registration.EnvSpec("Toy-v0", entry_point=ToyEnv)
    monkeypatch.setitem(gym.registry, "Toy-v0", spec)
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, [*arguments, "--out", "out"])
    assert result.exit_code == 0, result.output
    assert list(Path("out").glob("report*.html"))
    return " ".join(result.output.split())


TOYS = ["--schedule=geometric:2", "--sampler=toy", "--agent=toy"]
MANY = ["--schedules=geometric:2", "--samplers=toy,noisy-counts", "--agents=toy,psrl"]


@pytest.mark.slow
@pytest.mark.needs("bokeh")
def test_train_and_report() -> None:
    said = run("train", "--env=Toy-v0", "--episodes=9", "--report", *TOYS)
    assert "(1, 1e-05)-differential privacy; privacy unit: replace one step" in said
    assert Policy.load("out/policy.json").n_states == 4
    statement = json.loads(Path("out/train.json").read_text())
    assert 0.99 < statement["guarantee"]["epsilon_delta"] <= 1


@pytest.mark.slow
@pytest.mark.needs("bokeh")
def test_sweep_and_report() -> None:
    size = ["--env=Toy-v0", "--episodes=9", "--horizon=5", "--runs=2", "--epsilons=1,10"]
    said = run("sweep", *size, "--backend=sequential", "--report", *MANY)
    assert "TOY, toy, geometric:2" in said
    assert "(ε, δ = 1e-05)-DP, one step replaced" in said
    found = pd.read_csv("out/results.csv")
    assert set(found["agent"]) == {"toy", "psrl"}
    private = found[np.isfinite(found["epsilon"])]
    assert (private["epsilon_delta"] <= private["epsilon"]).all()


@pytest.mark.slow
@pytest.mark.needs("bokeh")
def test_suite_and_report() -> None:
    save_tables("toy.npz", MDP)
    size = ["--tasks=toy.npz", "--episodes=9", "--runs=2", "--epsilons=none,1"]
    said = run("suite", *size, "--backend=sequential", "--report", *MANY)
    assert "TOY, toy" in said
    assert set(pd.read_csv("out/suite.csv")["agent"]) == {"toy", "psrl"}


@pytest.mark.slow
@pytest.mark.needs("bokeh")
def test_a_report_of_agents_that_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    size = ["--env=Toy-v0", "--episodes=9", "--horizon=5", "--runs=2", "--epsilons=1"]
    run("sweep", *size, "--backend=sequential", "--report", *MANY)
    monkeypatch.delitem(AGENTS, "toy")
    monkeypatch.delitem(SAMPLERS, "toy")
    result = CliRunner().invoke(app, ["report", "out", "--force"])
    assert result.exit_code == 0, result.output


def test_a_picture_that_cannot_be_drawn_loses_no_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ValueError("no such look")

    monkeypatch.setattr("privrl.experiments.training.plots.learning_figure", broken)
    arguments = ["train", "--env=Toy-v0", "--episodes=9", "--out=out", *TOYS]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert Policy.load("out/policy.json").guarantee is not None
