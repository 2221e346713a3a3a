"""Folders as commands write them, with texts in them that would like to be more."""

import importlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from privrl.accounting import RenyiDP
from privrl.agents.methods import Method
from privrl.agents.policies import Policy
from privrl.cli.released import guarantee_of, plain_writer
from privrl.costs import Cost
from privrl.data.schema import Bins, Categories, Schema
from privrl.envs import Released, TabularMDP
from privrl.envs.released import privacy_statement
from privrl.envs.released_files import writers
from privrl.experiments.sweeps import SweepSpec, run_sweep
from privrl.experiments.training import TrainSpec
from privrl.files import files as _files
from privrl.files.sharing import SECRET, SEEDED
from privrl.models.histograms.release import histogram
from privrl.models.histograms.result import PrivateHistogram
from privrl.numerics.randomness import secret_rng
from privrl.offline.saving import ReleasedPolicy, policy_writer

EVIL = '</script><script>document.title = "run"</script><b> $$x^2$$ @y{safe} &amp;'


def evil_histogram(out: Path, *, seeded: bool = False) -> PrivateHistogram:
    """Write a histogram whose first cell has such a name."""
    column = Categories((EVIL, "two", "three"))
    data = pd.Series([EVIL] * 30 + ["two"] * 60 + ["three"] * 10)
    target = RenyiDP(2, 1)
    rng = np.random.default_rng(3) if seeded else secret_rng()
    made = histogram(data, column, target=target, mechanism="gaussian", rng=rng)
    made = replace(made, name=EVIL)
    guarantee = guarantee_of(made.cost, target, 1e-5, 3 if seeded else None)
    _files.save_all(
        out,
        {
            "histogram.csv": _files.table_writer(made.to_frame().reset_index()),
            "histogram.json": plain_writer(made.to_dict()),
        },
        ("release.json", {"command": f"privrl histogram {EVIL}", "guarantee": guarantee}),
    )
    return made


def evil_training(out: Path, *, secret: str = "secret.npz") -> None:
    """Write what training leaves: of an environment with such a name, made of a secret file."""
    spec = TrainSpec(env=EVIL, env_args=(f"path={secret}",), method=Method(), episodes=40)
    rewards = np.sin(np.arange(40)) + 0.1
    rewards[:10] = 0.73201
    record = pd.DataFrame(
        {"run": 0, "episode": range(40), "episodes": 1, "reward": rewards, "draws": 1}
    )
    actions = np.array([[0, 1, 2], [0, 0, 2], [1, 0, 2], [1, 0, 2]])
    guarantee = {
        "relation": "replace one step", "order": 2.0, "epsilon": 1.0, "delta": 1e-5,
        "epsilon_delta": 4.377178, "draws": 3, "randomness": SECRET, "caveats": [],
    }  # fmt: skip
    policy = Policy(actions=actions, n_actions=3, env=EVIL, guarantee=guarantee)
    _files.save_all(
        out,
        {
            "policy.json": _files.text_writer(policy.to_text()),
            "record.csv": _files.table_writer(record),
        },
        (
            "train.json",
            {
                "command": f"privrl train --env-arg=path={secret}",
                "spec": spec.to_dict(),
                "guarantee": guarantee,
                "worth": {"policy": 1.5, "optimum": 2.0, "random": 0.5, "share": 2 / 3},
            },
        ),
    )


def saved_sweep(out: Path, *, least: float = 0.1) -> pd.DataFrame:
    """Write a small sweep; return its results."""
    methods = (Method(sampler="non-private"), Method(sampler="noisy-counts"))
    spec = SweepSpec(methods=methods, epsilons=(least, 10.0), episodes=30, horizon=8, runs=3)
    result = run_sweep(spec, backend="sequential")
    _files.save_all(
        out,
        {
            "results.csv": _files.table_writer(result.results),
            "curves.csv": _files.table_writer(result.curves),
        },
        (
            "sweep.json",
            {
                "command": "privrl sweep",
                "spec": spec.to_dict(),
                "optimal_value": result.optimal_value,
                "random_value": result.random_value,
                "randomness": SEEDED,
            },
        ),
    )
    return result.results


def _saved(out: Path, model: dict[str, Any], cost: Cost) -> None:
    guarantee = guarantee_of(cost, RenyiDP(2, 1), 1e-5, None)
    statement = {"command": "privrl", "guarantee": guarantee}
    _files.save_all(out, {"model.json": plain_writer(model)}, ("release.json", statement))


SCHEMA = Schema({"age": Bins((0, 30, 60, 100)), EVIL: Categories(("no", "yes"))})


def records() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rich = np.where(rng.random(80) < 0.4, "yes", "no")
    return pd.DataFrame({"age": rng.uniform(0, 100, 80), EVIL: rich})


def saved_classifier(
    out: Path, kind: str, of: tuple[Schema, str, pd.DataFrame, "pd.Series[Any]"] | None = None
) -> Any:
    """Write a classifier of a kind; by default its class has such a name."""
    made = importlib.import_module(f"privrl.models.{kind}.classifier")
    name = {"naive_bayes": "PrivateNaiveBayes", "logistic_regression": "PrivateLogisticRegression"}
    data = records()
    schema, classes, X, y = of or (SCHEMA, EVIL, data[["age"]], data[EVIL])
    model = getattr(made, name[kind])(schema, classes=classes, target=RenyiDP(2, 1))
    model.fit(X, y)
    _saved(out, model.to_dict(), model.cost_)
    return model


def saved_network(out: Path, *, chosen: bool = False, given: Any = None) -> Any:
    """Write a network of two columns."""
    made = importlib.import_module("privrl.models.bayes_net.fit")
    parents = "private" if chosen else given or {"age": [EVIL], EVIL: []}
    plan = made.PrivateBayesNet(parents=parents, schema=SCHEMA, target=RenyiDP(2, 1))
    net = plan.fit(records(), secret_rng())
    _saved(out, net.to_dict(), net.cost)
    return net


def saved_world(out: Path, notes: dict[str, str] | None = None) -> Released:
    """Write a model of a log, with labels of which one has such a name."""
    transition = np.zeros((3, 2, 3))
    transition[0] = [[0.5, 0.25, 0.25], [0.1, 0.8, 0.1]]
    transition[1] = [[0, 0.4, 0.6], [0, 0, 1]]
    transition[2, :, 2] = 1
    reward = np.array([[0, 0.5], [1, 0], [0, 0]])
    statement = privacy_statement(
        unit="a person: all episodes", relation="add or remove one person", epsilon=1.0, delta=0.0,
        released="sums", randomness=SECRET,
    )  # fmt: skip
    mdp = TabularMDP(transition, reward, np.array([1.0, 0, 0]), 4)
    made = Released(
        mdp=mdp, statement=statement, outcomes=("well",), state_names=("<b>ill</b>", "mild"),
        action_names=("wait", "treat"),
    )  # fmt: skip
    guarantee = {
        "unit": statement["unit"], "relation": statement["relation"], "order": None,
        "epsilon": None, "delta": 0.0, "epsilon_delta": 1.0, "randomness": SECRET, "caveats": [],
    }  # fmt: skip
    said = {"command": "", "guarantee": guarantee} | ({"notes": notes} if notes else {})
    _files.save_all(out, writers(made), ("release.json", said))
    return made


def saved_policy(out: Path) -> ReleasedPolicy:
    """Write the policy that is best in that model."""
    made = ReleasedPolicy.of_model(saved_world(out / "model"))
    statement = {"command": "", "guarantee": made.statement}
    _files.save_all(out, {"policy.json": policy_writer(made)}, ("release.json", statement))
    return made
