"""Callbacks that log: with the real writer of TensorBoard, and with what the others have."""

import struct
import sys
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import rich

from privrl.agents import PSRL
from privrl.agents.training import Stretch
from privrl.experiments import SweepSpec, callbacks, run_sweep, train
from privrl.experiments.sweeps.progress import SweepProgress

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


@pytest.mark.needs("tensorboardX")
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


def test_mlflow_gets_no_more_rows_than_it_can_take() -> None:
    """Means of what came since the last row, of one call; the last row is there."""

    class Module:
        def __init__(self):
            self.seen = []

        def log_metrics(self, metrics, step):
            self.seen.append((step, metrics["not_private/reward_per_episode"]))

    module = Module()
    callback = callbacks.MLflow(module)

    def tell(first: int, done: int, total: int) -> None:
        callback(Stretch(first, 1, done, total, 0, np.array([float(first)])))

    for episode in range(1001):
        tell(episode, episode + 1, 1001)
    steps = [step for step, _ in module.seen]
    assert len(steps) == 200
    assert steps[0] == 6
    assert steps[-1] == 1001
    ends = np.array([0, *steps])
    np.testing.assert_allclose([mean for _, mean in module.seen], (ends[:-1] + ends[1:] - 1) / 2)
    tell(1001, 1, 401)  # of a call that is stopped
    tell(1002, 1, 1)
    assert module.seen[-1] == (1003, 1002.0)


def test_weights_and_biases_gets_a_row_by_episode() -> None:
    """Without ``step=``, which drops what a second agent logs to the same run."""

    class Run:
        def __init__(self):
            self.seen, self.defined = [], {}

        def define_metric(self, name, step_metric):
            self.defined[name] = step_metric

        def log(self, data):
            self.seen.append(data)

    run = Run()
    callbacks.WeightsAndBiases(run)(TOLD)
    assert run.seen == [{**LOGGED, "public/episode": 5}]
    assert run.defined == dict.fromkeys(("not_private/*", "public/*"), "public/episode")


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


def test_a_bar_follows_a_sweep(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also within a job, and twice; in the end it is what the sweep said last."""
    monkeypatch.setattr(callbacks, "_EVERY", 0.01)
    seen, looked = [], Event()

    def now() -> SweepProgress:
        looked.set()
        return SweepProgress(1, 2, 0, 0.7, 7, 10)

    bar = callbacks.ProgressBar()
    for _ in range(2):
        looked.clear()
        with bar:
            monkeypatch.setattr(bar._bar, "show", lambda *told: seen.append(told))
            bar(SweepProgress(1, 2, 0, 0.5, 5, 10, now))
            assert looked.wait(10)
            bar(SweepProgress(2, 2, 0, 1.0, 10, 10))
        assert seen[0] == (5, 10)
        assert seen[-1] == (10, 10)
    assert (7, 10) in seen
    monkeypatch.undo()
    spec = SweepSpec(epsilons=(1.0,), episodes=3, horizon=4, runs=2)
    with callbacks.ProgressBar() as shown:
        run_sweep(spec, backend="sequential", on_progress=shown)
    assert "6/6 episodes" in capsys.readouterr().out
