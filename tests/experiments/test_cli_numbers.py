"""``privrl train`` without bins: continuous observations stay numbers."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from privrl.cli import app
from privrl.continuous import ContinuousPolicy
from privrl.experiments.training import TrainSpec, run_training


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(app, [str(each) for each in arguments])


@pytest.mark.slow
@pytest.mark.needs("bokeh")
def test_it_writes_a_report(tmp_path: Path) -> None:
    made = run("train", "--env=MountainCar-v0", "--episodes=3", "--report", "--out", tmp_path)
    assert made.exit_code == 0, made.output
    assert list(tmp_path.glob("report*.html"))


@pytest.mark.slow
def test_it_trains_and_plays(tmp_path: Path) -> None:
    out = tmp_path / "car"
    made = run("train", "--env=MountainCar-v0", "--epsilon=1", "--episodes=3", "--out", out)
    assert made.exit_code == 0, made.output
    assert "(1, 1e-05)-differential privacy" in made.output
    said = json.loads((out / "train.json").read_text())
    assert said["guarantee"]["epsilon_delta"] <= 1
    assert set(said["sha256"]) >= {"policy.json", "tables.npz"}
    policy = ContinuousPolicy.load(out)
    assert policy.statement is not None
    assert policy.statement["epsilon"] == said["guarantee"]["epsilon_delta"]
    assert not (out / "policy.png").exists()
    played = run("play", out, "--episodes=2", "--json")
    assert played.exit_code == 0, played.output
    assert json.loads(played.output)["reward"] >= -200
    assert run("play", out / "policy.json", "--env=MountainCar-v0", "--episodes=1").exit_code == 0
    assert run("play", out / "policy.json").exit_code == 2
    other = run("play", out / "policy.json", "--env=CartPole-v1", "--episodes=1")
    assert "the policy's 2 columns" in " ".join(other.output.split())
    assert run("share", out, "--to", tmp_path / "shared").exit_code == 0
    assert {each.name for each in (tmp_path / "shared").iterdir()} >= {"policy.json", "tables.npz"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--ranges=1:2"], "ranges must be for the 2 coordinates"),
        (["--ranges=one"], "ranges must be LOW:HIGH"),
        (["--ranges=0:1,0:1", "--bins=3"], "ranges are for the agent that learns without bins"),
        (["--ranges=0:1,0:1", "--agent=psrl"], "ranges are for the agent that learns without bins"),
        (["--episodes=1"], "episodes must be"),
        (["--delta=0"], "delta must be > 0"),
        (["--relation=paper-step"], "relation must be ReplaceStep"),
        (["--checkpoint-every=2"], "checkpoint must be None"),
    ],
)
def test_bad_options_write_nothing(options: list[str], said: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    made = run("train", "--env=MountainCar-v0", "--episodes=3", "--out", out, *options)
    assert made.exit_code == 2
    assert said in " ".join(made.output.split())
    assert not out.exists() or not list(out.iterdir())


def test_bins_stay() -> None:
    for bins, states in (("public", 144), ("5", 25)):
        made = run_training(TrainSpec(env="MountainCar-v0", bins=bins, episodes=1, horizon=5))
        assert made.policy.n_states == states


@pytest.mark.slow
def test_the_same_seed_gives_the_same_policy() -> None:
    spec = TrainSpec(env="Pendulum-v1", episodes=3, seed=3)
    one, two = (run_training(spec).policy for _ in range(2))
    assert one.worth.tolist() == two.worth.tolist()
    assert list(one.statement["caveats"]) == ["whoever knows the seed can undo the noise"]
