"""Environments by name: whatever is typed, there is an environment or a sentence."""

import json
import shlex
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Discrete
from typer.testing import CliRunner

from privrl.agents import Policy
from privrl.cli import app
from privrl.envs import save_tables
from privrl.envs.random_tables import garnet
from privrl.experiments import Method, TrainSpec, run_training
from privrl.experiments.names import PACKAGES, make_env, named_values
from privrl.experiments.sweeps import preset
from privrl.experiments.training import run as training

PLAIN = Method(agent="random")  # quick: it learns nothing


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget what a test registers and imports."""
    before = dict(gym.registry)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    gym.registry.clear()
    gym.registry.update(before)
    for name in ("my_module", "my_package"):
        sys.modules.pop(name, None)


MODULE = """
import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete

class MyEnv(gym.Env):
    def __init__(self, pays=0.5, ends=False, breaks=False, single=False):
        if breaks:
            raise KeyError("size")
        self.observation_space = Dict({"at": MultiDiscrete([2, 3]), "goal": Discrete(2, start=1)})
        self.action_space = MultiDiscrete([2, 2])
        self.pays, self.ends = np.float32(pays) if single else pays, ends

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        assert action in self.action_space
        return self.observation_space.sample(), self.pays, self.ends, False, {}

gym.register("MyEnv-v0", entry_point=MyEnv, max_episode_steps=4)
"""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Sepsis/ICU-Sepsis-v2", "package icu-sepsis; pip install 'icu-sepsis'"),
        ("ALE/Pong-v5", "pip install 'ale-py'"),
        ("bsuite/catch-v0", r"pip install 'shimmy\[bsuite\]'"),
        ("FrozenLak-v1", "Did you mean 'FrozenLake-v1'"),
        ("frozenlake-v1", "Did you mean 'FrozenLake-v1'"),
        ("CartPole-v9", "Did you mean 'CartPole-v"),
        ("privrl:privrl/RiverSwimm-v0", "Did you mean 'privrl/RiverSwim"),
        ("Other/Thing-v0", "'my_module:MyEnv-v0'"),
        ("nowhere:MyEnv-v0", "No module named 'nowhere'.* in the folder where this is run"),
        ("..:x", "package"),
        (":", "Malformed|module"),
        ("", "Malformed"),
        ("a b", "Malformed"),
        ("Taxi-v3", "Taxi-v4"),
        ("\x00", "Malformed"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*out of date")
def test_what_cannot_be_made_is_said(name: str, said: str) -> None:
    with pytest.raises(ValueError, match=f"(?s)^env must be the id of an environment.*({said})"):
        make_env(name)


def test_a_package_that_is_there_need_not_be_imported(
    tmp_path: Path, registry: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gymnasium itself wants it imported first, or named beside the id."""
    (tmp_path / "my_package.py").write_text(MODULE.replace("MyEnv-v0", "Mine-One-v0"))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(PACKAGES, "Mine-", ("my-package", "my_package"))
    assert make_env("Mine-One-v0").observation_space == Discrete(12)
    with pytest.raises(ValueError, match="Did you mean 'Mine-One-v0'"):
        make_env("Mine-Won-v0")


def run(*arguments: str) -> str:
    return told("train", "--episodes", "3", *arguments)


def told(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert "Traceback" not in result.output
    assert result.exit_code in (0, 2), result.output
    return " ".join(result.output.split())


@pytest.mark.slow
def test_no_module_that_a_file_names_is_run(
    tmp_path: Path, registry: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that was received ran the code beside its policy."""
    monkeypatch.chdir(tmp_path)
    Path("my_module.py").write_text(f"open('ran', 'w').close()\n{MODULE}")
    name = "my_module:MyEnv-v0"
    run("--env", name, "--out", "out")
    Path("ran").unlink()
    sys.modules.pop("my_module")
    Policy(actions=np.zeros((4, 12), int), n_actions=4, env=name).save("alone.json")
    spec = replace(preset("quick"), env=name).to_dict()
    Path("sweep.json").write_text(json.dumps({"spec": spec}))
    refused = f"names '{name}', whose module would run as code. If you trust it, add --env {name}."
    for command in (
        ["play", "out"],
        ["play", "alone.json"],
        ["watch", "out"],
        ["sweep", "--spec", "sweep.json", "--out", "swept"],
    ):
        assert refused in told(*command)
    assert not Path("ran").exists()
    assert "one episode of MyEnv-v0" in told("play", "out", "--env", name, "--episodes", "2")
    assert Path("ran").exists()
    again = told("sweep", "--spec", "sweep.json", "--env", name, "--out", "swept")
    assert "whose module" not in again


@pytest.mark.slow
def test_an_environment_of_ones_own_is_trained_in(
    tmp_path: Path, registry: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the command is run lies the module, and its spaces are numbered."""
    (tmp_path / "my_module.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    said = run("--env", "my_module:MyEnv-v0", "--out", "out")
    assert "rewards paid on arrival" in said
    assert Policy.load("out/policy.json").actions.shape == (4, 12)
    for wrong in ("1.5", "-1e-9", "NaN"):
        said = run("--env", "my_module:MyEnv-v0", "--env-arg", f"pays={wrong}", "--out", "none")
        assert "paid one outside 0,1; give the least and the greatest" in said
        assert "--reward-range=LOW,HIGH" in said
    assert not Path("none").exists()
    run("--env=my_module:MyEnv-v0", "--env-arg=pays=1.5", "--reward-range=0,2", "--out=two")
    arguments = ("--env-arg=pays=-1.1", "--env-arg=single=true", "--reward-range=-1.1,1")
    assert "cost" in run("--env=my_module:MyEnv-v0", *arguments, "--out=rounded")
    said = run("--env=my_module:MyEnv-v0", "--env-arg=breaks=true", "--out=none")
    assert "'my_module:MyEnv-v0' with breaks=true: 'size'" in said
    assert run("--env", "my_module:MyEnvy-v0", "--out", "none").endswith("Did you mean 'MyEnv-v0'?")


@pytest.mark.parametrize("broken", ["reset", "step"])
@pytest.mark.filterwarnings("ignore:.*not within the observation space")
def test_states_that_are_none_are_refused(
    broken: str, tmp_path: Path, registry: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = MODULE.replace("Dict({", "Discrete(3) or Dict({")
    before, method, after = text.partition(f"def {broken}(")
    sample = "self.observation_space.sample()"
    (tmp_path / "my_module.py").write_text(before + method + after.replace(sample, "3", 1))
    monkeypatch.chdir(tmp_path)
    said = run("--env=my_module:MyEnv-v0", "--out=none")
    assert "env must show states of its observation space Discrete(3)" in said


def test_values_are_typed() -> None:
    texts = ["a=8", "b=0.5", "c=false", "d=False", "e=None", "f=8x8", "g=[1, 2]", "h=x=y", "i="]
    assert named_values(texts) == {
        "a": 8,
        "b": 0.5,
        "c": False,
        "d": False,
        "e": None,
        "f": "8x8",
        "g": [1, 2],
        "h": "x=y",
        "i": "",
    }


@pytest.mark.slow
def test_arguments_reach_the_environment_and_the_record(tmp_path: Path) -> None:
    """Tables in a file are one option, whose name has a comma in it; its command repeats it."""
    mdp, path = garnet(6, 3, 2, 7, seed=1), tmp_path / "a, b.npz"
    save_tables(path, mdp)
    out = tmp_path / "out"
    run(
        "--env=privrl/Tabular-v0",
        f"--env-arg=path={path}",
        "--reproducible",
        "--seed=1",
        f"--out={out}",
    )
    saved = json.loads((out / "train.json").read_text())
    assert saved["spec"]["env_args"] == [f"path={path}"]
    assert f"--env-arg=path={path}" in shlex.split(saved["command"])
    spec = TrainSpec.from_dict(saved["spec"])
    assert spec.env_args == (f"path={path}",)
    saved = Policy.load(out / "policy.json").actions
    np.testing.assert_array_equal(run_training(spec).policy.actions, saved)
    assert saved.shape == (7, 6)


@pytest.mark.slow
def test_bins_reach_the_states_and_the_record(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run("--env=MountainCar-v0", "--bins=7,-0.05:0.05:3", "--agent=random", f"--out={out}")
    assert Policy.load(out / "policy.json").actions.shape == (200, 21)
    assert json.loads((out / "train.json").read_text())["spec"]["bins"] == "7,-0.05:0.05:3"


@pytest.mark.parametrize(
    ("name", "shape"),
    [("CartPole-v1", (500, 162)), ("MountainCar-v0", (200, 144)), ("Blackjack-v1", (20, 704))],
)
def test_gymnasiums_tasks_need_nothing_said(name: str, shape: tuple[int, int]) -> None:
    spec = TrainSpec(env=name, episodes=3, method=PLAIN)
    assert run_training(spec).policy.actions.shape == shape


@pytest.mark.slow
def test_a_horizon_is_where_episodes_are_cut_off() -> None:
    """Longer than it is registered with, too: agent, environment and limit agree."""
    for horizon in (50, 250):
        spec = TrainSpec(env="MountainCar-v0", episodes=1, horizon=horizon, method=PLAIN)
        result = run_training(spec)
        assert result.policy.actions.shape == (horizon, 144)
        assert result.record["reward"].tolist() == [-horizon]
    for spec in (
        TrainSpec(env="privrl/RiverSwim-v0", horizon=31),
        TrainSpec(env="MountainCar-v0", horizon=60, env_args=("max_episode_steps=50",)),
    ):
        with pytest.raises(ValueError, match=r"horizon must be at most (30|50), the steps after"):
            run_training(spec)
    longer = TrainSpec(env="privrl/RiverSwim-v0", horizon=31, env_args=("horizon=40",))
    assert run_training(longer).policy.actions.shape == (31, 6)


@pytest.mark.parametrize("ends", [False, True])
def test_what_is_cut_off_has_not_ended(
    ends: bool, tmp_path: Path, registry: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit leaves the row of the last step open; an end is in it."""
    (tmp_path / "my_module.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    counted = []

    def seen(agent: object, env: object, episodes: int, rng: object, **rest: object) -> object:
        record = train(agent, env, episodes, rng, **rest)
        agent._count_steps()
        counted.append(agent._new.counts[..., -1].sum())
        return record

    train = training.train
    monkeypatch.setattr(training, "train", seen)
    args = (f"ends={json.dumps(ends)}",)
    method = Method(sampler="non-private", schedule="geometric:100")
    run_training(TrainSpec(env="my_module:MyEnv-v0", env_args=args, episodes=9, method=method))
    assert counted == [9.0 if ends else 0.0]
