"""What was trained is played and shown by commands, as users do."""

import json
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium as gym
import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image, ImageSequence
from typer.testing import CliRunner

from privrl.agents import Policy
from privrl.cli import app
from privrl.envs import riverswim, save_tables
from privrl.experiments.training.frames import frames, show
from privrl.experiments.training.playing import moments, play_policy

RIVER = riverswim()
BEST = Policy(
    actions=RIVER.plan()[0], n_actions=2, action_names=("left", "right"), env="privrl/RiverSwim-v0"
)


def run(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "80"})
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("trained") / "out"
    run("train", "--env=FrozenLake-v1", "--env-arg=is_slippery=false", "--horizon=40",
        "--episodes=1000", "--epsilon=1000", f"--out={out}")  # fmt: skip
    return out


@pytest.fixture
def trained(once: Path, tmp_path: Path) -> Path:
    shutil.copytree(once, tmp_path / "out")
    return tmp_path / "out"


@pytest.mark.slow
def test_what_was_saved_earns_what_was_said(trained: Path) -> None:
    """On ice that does not slip the best policy earns 1 each time, and so does this."""
    said = run("play", str(trained), "--episodes", "20", "--seed", "1")
    assert "one episode of FrozenLake-v1, the sum over its 40 steps or fewer" in said
    assert "optimal policy, expected 1 100 % policy.json, expected 1 100 %" in said
    assert "policy.json, 20 episodes played (± 0) 1 100 %" in said
    worth = json.loads((trained / "train.json").read_text())["worth"]
    assert worth["policy"] == pytest.approx(1)


@pytest.mark.slow
def test_a_policy_is_played_where_one_says(trained: Path) -> None:
    """A file alone, and an environment of its own: here, with ice that slips."""
    said = run("play", str(trained / "policy.json"), "--episodes", "50")
    assert "policy.json, expected 1 " not in said
    said = run("play", str(trained / "policy.json"), "--env-arg", "is_slippery=false")
    assert "policy.json, 1000 episodes played (± 0) 1 100 %" in said
    said = run("play", str(trained), "--env", "Taxi-v4", code=2)
    assert "env must have the policy's 16 states and 4 actions" in said


@pytest.mark.few(2)
def test_a_shared_copy_is_played(trained: Path, tmp_path: Path) -> None:
    run("share", str(trained), "--to", str(tmp_path / "copy"), "--weak")
    said = run("play", str(tmp_path / "copy"), "--env-arg", "is_slippery=false", "--episodes", "2")
    assert "policy.json, 2 episodes played (± 0) 1 100 %" in said


def test_another_policy_than_was_made_is_refused(trained: Path) -> None:
    text = (trained / "policy.json").read_text()
    (trained / "policy.json").write_text(text.replace("FrozenLake", "ThawedLake"))
    assert "policy.json must be the file that its statement describes" in run(
        "play", str(trained), code=2
    )
    (trained / "train.json").write_text("{}")
    assert "train.json" in run("watch", str(trained), code=2)
    (trained / "train.json").unlink()
    assert "without train.json; train first" in run("watch", str(trained), code=2)
    said = run("play", str(trained / "none"), code=2)
    assert "none', which does not exist; train first, or name the folder" in said


@pytest.mark.slow
@pytest.mark.needs("pygame")
def test_an_episode_is_an_animation(trained: Path) -> None:
    said = run("watch", str(trained), "--seed", "1", "--fps", "10")
    assert "6 steps of FrozenLake-v1" in said
    with Image.open(trained / "episode.gif") as shown:
        pages = [np.asarray(page.convert("RGB")) for page in ImageSequence.Iterator(shown)]
        assert shown.info["loop"] == 0
        assert shown.info["duration"] == 500  # the last one stays
    assert len(pages) == 7
    assert all((first != then).any() for first, then in pairwise(pages))
    assert "has episode.gif" in run("watch", str(trained), code=2)
    said = run("share", str(trained), "--to", str(trained.parent / "copy"), "--weak")
    assert "episode.gif left episodes as they were played" in said
    run("watch", str(trained), "--force")


@pytest.mark.slow
def test_a_strip_holds_the_first_and_the_last(trained: Path, tmp_path: Path) -> None:
    BEST.save(tmp_path / "river.json")
    run("watch", str(tmp_path / "river.json"), "--strip", "--seed", "1")
    with Image.open(tmp_path / "episode.png") as page:
        assert page.size == (2 * 784 + 8, 6 * 299 + 5 * 8)
        drawn = np.asarray(page)
    env = gym.make("privrl/RiverSwim-v0", render_mode="rgb_array")
    pictures = list(frames(BEST, env, 1))
    assert len(pictures) == 31
    np.testing.assert_array_equal(drawn[:299, :784], pictures[0])
    np.testing.assert_array_equal(drawn[-299:, -784:], pictures[-1])


def test_what_cannot_be_shown_is_said(trained: Path, tmp_path: Path) -> None:
    said = run("watch", str(trained), "--human", "--strip", code=2)
    assert "not both" in said
    assert "fps must be a number > 0" in run("watch", str(trained), "--fps", "0", code=2)
    Policy(actions=np.zeros((5, 4), int), n_actions=2).save(tmp_path / "bare.json")
    assert "the policy does not name" in run("play", str(tmp_path / "bare.json"), code=2)
    save_tables(tmp_path / "tables.npz", RIVER)
    BEST.save(tmp_path / "river.json")
    said = run("watch", str(tmp_path / "river.json"), "--env", "privrl/Tabular-v0", "--env-arg",
               f"path={tmp_path}/tables.npz", code=2)  # fmt: skip
    assert "'privrl/Tabular-v0' does not; privrl play prints" in said
    env = gym.make("privrl/RiverSwim-v0", n_states=4)
    with pytest.raises(ValueError, match="env must draw pictures to be watched, by render_mode"):
        next(frames(Policy(actions=np.zeros((5, 4), int), n_actions=2), env))


class Dark(gym.Env[int, int]):
    """Takes any mode and lists none, as many environments of one's own do."""

    observation_space = action_space = gym.spaces.Discrete(2)

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        return 0, {}


@pytest.mark.filterwarnings("ignore:.*not in the possible render_modes")
def test_an_environment_that_lists_no_pictures_is_not_asked_for_one() -> None:
    gym.register("privrl-test/Dark-v0", Dark, max_episode_steps=5)
    try:
        env = gym.make("privrl-test/Dark-v0", render_mode="rgb_array")
    finally:
        gym.registry.pop("privrl-test/Dark-v0")
    with pytest.raises(ValueError, match="env must draw pictures to be watched, by render_mode"):
        next(frames(Policy(actions=np.zeros((5, 2), int), n_actions=2), env))


@pytest.mark.needs("pygame")
def test_without_a_screen_no_window(trained: Path) -> None:
    with mpl.rc_context({"backend": "agg"}):
        assert "needs a screen" in run("watch", str(trained), "--human", code=2)
    assert not (trained / "episode.gif").exists()


def test_a_window_shows_each_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = []
    pyplot.switch_backend("agg")  # before it says of itself that it is interactive
    monkeypatch.setattr(FigureCanvasAgg, "required_interactive_framework", "none", raising=False)
    monkeypatch.setattr(pyplot, "pause", lambda time: shown.append((time, _seen())))

    def _seen() -> float:
        return float(pyplot.gca().images[0].get_array().mean())

    with mpl.rc_context({"backend": "agg"}):
        show([np.full((4, 5, 3), level, np.uint8) for level in (0, 100, 200)], fps=5)
    assert shown == [(0.2, 0.0), (0.2, 100.0), (0.2, 200.0)]
    assert not pyplot.get_fignums()


def test_moments_tell_what_happened() -> None:
    env = gym.make("privrl/RiverSwim-v0")
    told = list(moments(BEST, env, seed=1))
    assert [each.step for each in told] == list(range(31))
    assert told[0].action == ""
    assert {each.action for each in told[1:]} <= {"left", "right"}
    totals = np.cumsum([each.reward for each in told])
    np.testing.assert_array_equal([each.total for each in told], totals)


@pytest.mark.slow
def test_playing_earns_what_the_tables_say() -> None:
    """Within five of 300 episodes' deviations, 0.22 each: 1 in 10^6 fails."""
    env = gym.make("privrl/RiverSwim-v0")
    earned = play_policy(BEST, env, 300, np.random.default_rng(0))
    assert abs(earned.mean() - RIVER.optimal_value()) < 5 * 0.22
    again = play_policy(BEST, env, 300, np.random.default_rng(0))
    np.testing.assert_array_equal(again, earned)
