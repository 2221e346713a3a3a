"""Saved policies whose states are numbers, played and watched from the command line."""

import json
import shlex
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from commands import run, said
from continuous_worlds import MIXED, SCHEMA, walks
from PIL import Image

from privrl.continuous import (
    Choice,
    ContinuousPolicy,
    ContinuousSchema,
    Number,
    ReleasedContinuousEnv,
    fit_continuous_model,
    plan_continuous,
)
from privrl.experiments.training import TrainSpec
from privrl.experiments.training.playing import moments, play_policy


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, schema in (("numbers", SCHEMA), ("mixed", MIXED)):
        model = fit_continuous_model(walks(200, 0, schema=schema), epsilon=5, rng=0, order=2)
        model.save(f"{name}/model")
        plan_continuous(model, discount=0.9).save(f"{name}/policy")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["numbers", "mixed"])
def test_policies_and_models_are_played(folder: Path, kind: str) -> None:
    model, seeded = f"{kind}/model", ["--episodes", 3, "--seed", 1, "--json"]
    policy = ContinuousPolicy.load(f"{kind}/policy")
    env = ReleasedContinuousEnv(model)
    wanted = play_policy(policy, env, 3, 1)
    for saved in (f"{kind}/policy", f"{kind}/policy/policy.json"):
        result = run("play", saved, "--env", model, *seeded)
        assert result.exit_code == 0, result.output
        answer = json.loads(result.stdout)
        assert answer["env"] == "privrl/ReleasedContinuous-v0"
        assert answer["reward"] == pytest.approx(wanted.mean())
        assert answer["worth"] is None
    result = run("play", model, *seeded, "--env-arg", "horizon=5")
    assert result.exit_code == 0, result.output
    assert -5 <= json.loads(result.stdout)["reward"] <= 0


@pytest.mark.few(6)
@pytest.mark.parametrize("kind", ["numbers", "mixed"])
def test_policies_are_watched(folder: Path, kind: str) -> None:
    short = ["--env-arg", "horizon=3", "--seed", 0]
    result = run("watch", f"{kind}/policy", "--env", f"{kind}/model", *short)
    assert result.exit_code == 0, result.output
    assert "3 steps of privrl/ReleasedContinuous-v0" in said(result)
    with Image.open(f"{kind}/policy/episode.gif") as shown:
        assert shown.n_frames == 4
    result = run("watch", f"{kind}/model", "--strip", *short, "--out", "pictures")
    assert result.exit_code == 0, result.output
    assert Path("pictures/episode.png").is_file()


def test_pictures_have_a_band_for_each_column(folder: Path) -> None:
    env = gym.make("privrl.envs:privrl/ReleasedContinuous-v0", path="mixed/model",
                   render_mode="rgb_array")  # fmt: skip
    env.reset(seed=0)
    first = env.render()
    env.step(0)
    second = env.render()
    assert first.shape == second.shape == (2 * 56 + 8, 640, 3)
    assert (first != second).any()
    with pytest.raises(ValueError, match="render_mode must be None or 'rgb_array', got 'human'"):
        ReleasedContinuousEnv("mixed/model", render_mode="human")
    with pytest.raises(gym.error.ResetNeeded):
        ReleasedContinuousEnv("mixed/model", render_mode="rgb_array").render()


class Cart(gym.Env):
    """Tell which action was taken."""

    def __init__(self, action_space: gym.Space) -> None:
        self.observation_space = gym.spaces.Box(-1, 1, (2,))
        self.action_space = action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        return np.zeros(2, np.float32), float(np.sum(action)), True, False, {}


@pytest.mark.parametrize(
    ("space", "reward"),
    [
        (gym.spaces.Discrete(3, start=5), 7),
        (gym.spaces.Box(-2, 2, (1,)), 1),
        (gym.spaces.Box(-2, 2, (1, 1)), 1),
    ],
)
def test_actions_are_numbers_or_values(space: gym.Space, reward: float) -> None:
    model = fit_continuous_model(walks(50, 0), epsilon=5, rng=0, order=2)
    policy = plan_continuous(model, discount=0.9)
    best = type(policy)(**(vars(policy) | {"worth": np.eye(3)[2] + 0 * policy.worth}))
    *_, last = moments(best, Cart(space))
    assert (last.reward, last.action) == (reward, "push 1")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["numbers/policy"], "env must be given: a policy from a log names no environment"),
        (["numbers/policy", "--env", "CartPole-v1"], "env must have observations of the policy's"),
        (["numbers/policy", "--env", "FrozenLake-v1"], "columns 'x', 'phase', got Discrete(16)"),
        (["numbers/policy", "--env", "MountainCarContinuous-v9"], "env must be the id"),
        (["mixed/policy", "--env", "MountainCar-v0"], "env must have the policy's 2 actions"),
        (["numbers/policy", "--env", "numbers"], "env must be the id"),
        (["unpaid"], "saved must have a table [reward] to plan for"),
        (["changed"], "checksum mismatch"),
    ],
)
def test_what_does_not_fit_is_refused(folder: Path, arguments: list[str], message: str) -> None:
    if arguments == ["unpaid"]:
        schema = ContinuousSchema(state=SCHEMA.state, action=SCHEMA.action)
        log = walks(50, 0)
        bare = type(log)(schema, log.state, log.action, log.next_state, None, None, log.offsets)
        fit_continuous_model(bare, epsilon=5, rng=0, order=2).save("unpaid")
    if arguments == ["changed"]:
        Path("changed").mkdir()
        Path("changed/policy.json").write_bytes(Path("numbers/policy/policy.json").read_bytes())
        Path("changed/tables.npz").write_bytes(Path("mixed/policy/tables.npz").read_bytes())
    result = run("play", *arguments, "--episodes", 2)
    assert result.exit_code == 2, result.output
    assert message in said(result)
    assert "Traceback" not in result.output


@pytest.mark.slow
def test_a_run_without_bins_states_only_what_it_used(folder: Path) -> None:
    """It listed the sampler, the schedule and more of a tabular agent, and so did its report."""
    command = ["train", "--env", "MountainCar-v0", "--episodes", 4, "--horizon", 10]
    assert run(*command, "--out", "run").exit_code == 0
    statement = json.loads((folder / "run/train.json").read_text())
    for name in ("agent", "sampler", "schedule", "alpha", "reward", "threshold", "support"):
        assert f"--{name}" not in statement["command"]
    assert "method" not in statement["spec"]
    assert "sparse" not in json.dumps(statement["spec"])
    spec = TrainSpec.from_dict(statement["spec"])
    assert spec.takes_numbers
    again = run(*shlex.split(statement["command"])[1:], "--out", "again")
    assert again.exit_code == 0, again.output
    assert json.loads((folder / "again/train.json").read_text())["spec"] == statement["spec"]
    assert run("play", "run", "--episodes", 1).exit_code == 0
    with_bins = [*command, "--bins", "4", "--out", "bins", "--episodes", 2]
    assert run(*with_bins).exit_code == 0
    statement = json.loads((folder / "bins/train.json").read_text())
    assert statement["spec"]["method"]["agent"] == "sparse-psrl"
    assert "--sampler" in statement["command"]


@pytest.mark.needs("bokeh")
def test_the_report_of_a_run_without_bins_names_its_agent(folder: Path) -> None:
    command = ["train", "--env", "MountainCar-v0", "--episodes", 4, "--horizon", 10]
    assert run(*command, "--out", "run").exit_code == 0
    result = run("report", "run")
    assert result.exit_code == 0, result.output
    page = next((folder / "run").glob("*.html")).read_text()
    assert "An agent (that learns from numbers) was trained" in page
    assert "sparse PSRL" not in page


def test_a_schema_of_a_gymnasium_task_is_played_in_it(folder: Path) -> None:
    schema = ContinuousSchema(
        state={"position": Number(low=-1.2, high=0.6), "speed": Number(low=-0.07, high=0.07)},
        action={"push": Choice(values=("left", "none", "right"))},
        reward=Number(low=-1, high=0),
    )
    rng, n = np.random.default_rng(0), 200
    state = np.column_stack([rng.uniform(-1.2, 0.6, n), rng.uniform(-0.07, 0.07, n)])
    log = walks(1, 0).of_arrays(
        schema, person=np.arange(n), state=state, action=rng.integers(3, size=n),
        next_state=state, reward=-np.ones(n),
    )  # fmt: skip
    plan_continuous(fit_continuous_model(log, epsilon=1, rng=0, order=2)).save("car")
    result = run("play", "car", "--env", "MountainCar-v0", "--episodes", 2, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["reward"] == -200
