"""Callbacks that log: with the real writer of TensorBoard, and with what the others have."""

import struct
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import rich

from privrl.agents import PSRL, Stretch
from privrl.experiments import callbacks, train

TOLD = Stretch(first=3, episodes=2, done=5, total=9, draws=4, reward=np.array([1.0, 5.0]))
LOGGED = {"not_private/reward_per_episode": 1.5, "public/draws": 4.0}


def scalars(folder: Path) -> list[tuple[str, int, float]]:
    """Read what TensorBoard reads: records of a length, two checksums and an event."""
    event_pb2 = pytest.importorskip("tensorboardX.proto.event_pb2")
    (path,) = folder.glob("events.out.*")
    content, at, found = path.read_bytes(), 0, []
    while at < len(content):
        (length,) = struct.unpack_from("<Q", content, at)
        event = event_pb2.Event.FromString(content[at + 12 : at + 12 + length])
        found += [(each.tag, event.step, each.simple_value) for each in event.summary.value]
        at += 16 + length
    return found


def test_tensorboard_shows_what_an_agent_earned(tmp_path: Path) -> None:
    tensorboard = pytest.importorskip(
        "tensorboardX", reason="no tensorboardX: pip install 'privrl[tensorboard]'"
    )
    env = gym.make("privrl.envs:privrl/RiverSwim-v0")
    agent = PSRL.private(env, epsilon=1, episodes=6)
    with tensorboard.SummaryWriter(str(tmp_path)) as writer:
        record = train(
            agent, env, 6, np.random.default_rng(1), callback=callbacks.TensorBoard(writer)
        )
    found = scalars(tmp_path)
    assert {tag for tag, _, _ in found} == set(LOGGED)
    rewards = {step: value for tag, step, value in found if tag.startswith("not_private/")}
    assert list(rewards) == [1, 2, 3, 4, 5, 6]
    np.testing.assert_allclose(list(rewards.values()), record["reward"], rtol=1e-6)
    assert [value for tag, _, value in found if tag == "public/draws"] == record["draws"].tolist()


def test_what_is_earned_is_named_not_private() -> None:
    assert callbacks.logged(TOLD) == LOGGED


def test_mlflow_gets_metrics_by_episode() -> None:
    class Module:
        def log_metrics(self, metrics, step):
            self.seen = metrics, step

    module = Module()
    callbacks.MLflow(module)(TOLD)
    assert module.seen == (LOGGED, 5)


def test_weights_and_biases_gets_a_row_by_episode() -> None:
    class Run:
        def log(self, data, step):
            self.seen = data, step

    run = Run()
    callbacks.WeightsAndBiases(run)(TOLD)
    assert run.seen == (LOGGED, 5)


def test_a_bar_shows_episodes_and_no_reward(capsys: pytest.CaptureFixture[str]) -> None:
    env = gym.make("privrl.envs:privrl/RiverSwim-v0")
    with callbacks.ProgressBar() as bar:
        PSRL.private(env, epsilon=1, episodes=7).learn(callback=bar)
    shown = capsys.readouterr().out
    assert "7/7 episodes" in shown


def test_a_bar_ends_where_training_fails() -> None:
    bar = callbacks.ProgressBar()

    def fails(told: Stretch) -> None:
        bar(told)
        raise KeyError("stop")

    agent = PSRL.private(gym.make("privrl.envs:privrl/RiverSwim-v0"), epsilon=1, episodes=2)
    with pytest.raises(KeyError, match="stop"), bar:
        agent.learn(callback=fails)
    assert not bar._bar._progress.live.is_started


class Notebook:
    """What a notebook shows of an object, anew each time that it is told."""

    def __init__(self) -> None:
        self.shown: list[tuple[str, str]] = []

    def display(self, thing: Any, *, display_id: bool) -> "Notebook":
        assert display_id
        self.update(thing)
        return self

    def update(self, thing: Any) -> None:
        self.shown.append((repr(thing), thing._repr_html_()))


def test_a_bar_in_a_notebook_needs_no_widget(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    notebook = Notebook()
    monkeypatch.setattr(rich.get_console(), "is_jupyter", True)
    monkeypatch.setitem(sys.modules, "IPython", None)
    monkeypatch.setitem(sys.modules, "IPython.display", notebook)
    monkeypatch.setattr(callbacks, "_EVERY", 0.0)
    with callbacks.ProgressBar() as bar:
        for done in (2, 5, 1234):
            bar(replace(TOLD, done=done, total=1234))
    texts = [text for text, _ in notebook.shown]
    assert texts[0] == "no episodes yet"
    assert texts[1].startswith("2 of 1,234 episodes, ")
    assert texts[1].endswith(" s left")
    assert texts[-1] == "1,234 of 1,234 episodes"
    assert '<progress value="5" max="1234">' in notebook.shown[2][1]
    monkeypatch.setattr(callbacks, "_EVERY", 60.0)
    before = len(notebook.shown)
    with callbacks.ProgressBar() as bar:  # drawn at most so often, and in the end
        for done in range(1, 8):
            bar(replace(TOLD, done=done, total=7))
    assert [text for text, _ in notebook.shown[before:]] == ["no episodes yet", "7 of 7 episodes"]
    assert capsys.readouterr() == ("", "")
