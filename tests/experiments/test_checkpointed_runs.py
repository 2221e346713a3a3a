"""Runs that are stopped anywhere, kill -9 included, end as they would have without a stop."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest
from made import agent_of
from typer.testing import CliRunner

from privrl import secret_rng
from privrl.accounting import Ledger
from privrl.agents import PSRL, Checkpoint, QLearning
from privrl.agents.training import Stretch
from privrl.cli import app
from privrl.envs import riverswim
from privrl.experiments import train

RUNNER = CliRunner()
EPISODES = 120


class Stopped(Exception):
    """What stops a run."""


def stop_at(episode: int):
    def callback(stretch: Stretch) -> None:
        if stretch.done >= episode:
            raise Stopped

    return callback


def single() -> gym.Env:
    return gym.make("FrozenLake-v1")


def vector() -> gym.vector.VectorEnv:
    return gym.make_vec("FrozenLake-v1", num_envs=3, vectorization_mode="sync")


WHERE = {"single": single, "vector": vector, "tables": lambda: riverswim(n_states=4, horizon=8)}


def run(kind: str, checkpoint: Checkpoint | None, stop: int | None = None):
    """Return what a run records, its agent and the state of the environment's randomness."""
    env, rng = WHERE[kind](), np.random.default_rng(1)
    public = single() if kind == "vector" else env
    agent = PSRL.private(public, epsilon=1, episodes=EPISODES, rng=np.random.default_rng(2))
    options = {} if stop is None else {"callback": stop_at(stop)}
    record = train(agent, env, EPISODES, rng, checkpoint=checkpoint, **options)
    return record, agent, rng


@pytest.mark.slow
@pytest.mark.parametrize("stop", [1, 37, 90])
@pytest.mark.parametrize("kind", WHERE)
def test_a_run_that_was_stopped_ends_as_one_that_was_not(kind: str, stop: int, tmp_path) -> None:
    whole, agent, rng = run(kind, Checkpoint(path=tmp_path / "whole", episodes=1000))
    kept = Checkpoint(path=tmp_path / "kept", episodes=10)
    with pytest.raises(Stopped):
        run(kind, kept, stop)
    record, other, others = run(kind, kept)
    pd.testing.assert_frame_equal(record, whole)
    np.testing.assert_array_equal(other.policy, agent.policy)
    assert other.accountant.spent(2) == agent.accountant.spent(2)
    assert others.bit_generator.state == rng.bit_generator.state
    again, _, _ = run(kind, kept, stop=1)  # there is nothing left to do
    pd.testing.assert_frame_equal(again, whole)


@pytest.mark.slow
@pytest.mark.parametrize("kind", WHERE)
def test_a_record_is_as_without_checkpoints(kind: str, tmp_path) -> None:
    """Of the same shape, and on tables, where nothing needs seeds, the same."""
    plain, _, _ = run(kind, None)
    kept, _, _ = run(kind, Checkpoint(path=tmp_path / "kept", minutes=1e-9))
    assert list(plain.dtypes.items()) == list(kept.dtypes.items())
    np.testing.assert_array_equal(plain["episode"], kept["episode"])
    if kind == "tables":
        pd.testing.assert_frame_equal(kept, plain)


@pytest.mark.slow
def test_the_file_of_another_run_is_refused(tmp_path) -> None:
    path = tmp_path / "kept"
    run("single", Checkpoint(path=path, episodes=10, run="seed 1"))
    for other in (Checkpoint(path=path, episodes=10), Checkpoint(path=path, minutes=1, run="2")):
        with pytest.raises(ValueError, match="checkpoint of this run"):
            run("single", other)
    with pytest.raises(ValueError, match=r"checkpoint of this run|other settings"):
        run("tables", Checkpoint(path=path, episodes=10, run="seed 1"))
    path.write_bytes(b"anything")
    with pytest.raises(ValueError, match="no checkpoint"):
        run("single", Checkpoint(path=path, episodes=10))


@pytest.mark.parametrize("wrong", [{}, {"episodes": 0}, {"minutes": 0}, {"minutes": -1.0}])
def test_how_often_is_checked(wrong, tmp_path) -> None:
    with pytest.raises(ValueError, match=r"episodes|minutes"):
        Checkpoint(path=tmp_path / "kept", **wrong)


@pytest.mark.parametrize("wrong", ["", "often", "10 hours", "min", "0", "-3", "nanmin", "1e3"])
def test_how_often_in_words(wrong: str) -> None:
    with pytest.raises(ValueError, match="checkpoint_every must be"):
        Checkpoint.parse(wrong, path="kept")
    assert Checkpoint.parse("10min", path="kept").minutes == 10
    assert Checkpoint.parse("500", path="kept").episodes == 500


def test_q_learning_on_tables_says_why_not(tmp_path) -> None:
    mdp = riverswim(n_states=3, horizon=4)
    agent = agent_of(QLearning, 3, 2, 4, episodes=10, rng=np.random.default_rng(0))
    with pytest.raises(ValueError, match="learns from single steps"):
        train(agent, mdp, 10, np.random.default_rng(0), checkpoint=Checkpoint(path="k", episodes=1))


@pytest.mark.slow
def test_of_secret_randomness_too_and_each_draw_is_entered_once(tmp_path) -> None:
    """Stopped right after a draw, and gone on with: it is the same draw, of the same data."""
    book = Ledger(tmp_path / "ledger.sqlite")
    kept = Checkpoint(path=tmp_path / "kept", episodes=50, ledger=book)
    env = single()
    for stop in (1, 2, 20, 21, 47, 48, 90, None):
        agent = PSRL.private(env, epsilon=1, episodes=EPISODES, rng=secret_rng())
        rng = np.random.default_rng(1)
        options = {} if stop is None else {"callback": stop_at(stop)}
        try:
            train(agent, env, EPISODES, rng, checkpoint=kept, **options)
        except Stopped:
            assert stop is not None
    numbers = [entry["draw"] for entry in book.entries() if entry]
    assert len(set(numbers)) == len(numbers)
    assert sorted(numbers) == list(range(agent.draws))
    assert (
        0.99 < float(agent.accountant.epsilon(1e-5)) <= 1
    )  # of each life, the first draw included


def command(out: Path, *more: str) -> list[str]:
    return [
        *("train", "--env", "FrozenLake-v1", "--episodes", "400", "--seed", "3", "--reproducible"),
        *("--checkpoint-every", "20", "--out", str(out), *more),
    ]


@pytest.mark.slow
def test_a_command_that_was_killed_goes_on(tmp_path) -> None:
    """By kill -9, at moments of chance, until it is done."""
    whole = RUNNER.invoke(app, command(tmp_path / "whole"))
    assert whole.exit_code == 0, whole.output
    out, rng, kills = tmp_path / "out", random.Random(0), 0
    code = f"from privrl.cli import main; import sys; sys.argv[1:] = {command(out)!r}; main()"
    while kills < 3:
        child = subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until = time.monotonic() + 60
        while not (out / "checkpoint.private").exists() and child.poll() is None:
            assert time.monotonic() < until
            time.sleep(0.01)
        time.sleep(rng.random() * 0.5)
        if child.poll() is not None:
            break  # quicker than the kill
        child.send_signal(signal.SIGKILL)
        child.wait()
        kills += 1
    assert kills
    done = RUNNER.invoke(app, command(out, "--force"))
    assert done.exit_code == 0, done.output
    for name in ("policy.json", "policy.png", "record.csv"):
        assert (out / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert sorted(os.listdir(out)) == [
        "learning_curve.png", "policy.json", "policy.png", "record.csv", "train.json",
    ]  # fmt: skip


def test_a_stopped_run_is_not_begun_anew_in_silence(tmp_path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "checkpoint.private").write_bytes(b"")
    arguments = ["train", "--env", "FrozenLake-v1", "--episodes", "5", "--out", str(out)]
    result = RUNNER.invoke(app, arguments)
    assert result.exit_code != 0
    assert "of a run that was stopped" in " ".join(result.output.split())
    result = RUNNER.invoke(app, [*arguments, "--checkpoint-every", "1"])
    assert result.exit_code != 0
    assert "no checkpoint" in " ".join(result.output.split())
    result = RUNNER.invoke(app, [*arguments, "--checkpoint-every", "soon"])
    assert "10min" in result.output
