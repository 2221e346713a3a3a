"""The file that keeps finished jobs: exact, whole, and never another's."""

import sqlite3
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from privrl.agents.methods import Method
from privrl.experiments.sweeps import SweepSpec
from privrl.experiments.sweeps import database as database_module
from privrl.experiments.sweeps.database import Database
from privrl.experiments.sweeps.jobs import JobResult
from privrl.experiments.sweeps.sweep import jobs_of

(FIRST,) = jobs_of(SweepSpec(epsilons=(0.1,), episodes=40, runs=2))
JOB = replace(FIRST, first_run=100)
RESULT = JobResult(
    rewards=np.array([[0.1, 1 / 3], [np.pi, 1e300]]),
    final=np.array([2 / 3, -1e-300]),
    seconds=0.1,
    draws=7,
    spent=0.1,
    epsilon_delta=np.inf,
    weight=np.nan,
    alpha=1.0,
    sigma=2 / 3,
)
HERE = {"tables": "a", "numpy": "2"}


def test_what_is_saved_is_found_to_the_last_bit(tmp_path: Path) -> None:
    path = tmp_path / "new" / "sweep.sqlite"
    with Database(path, HERE) as database:
        assert database.finished([JOB]) == {}
        database.save(JOB, RESULT)
    with Database(path, HERE) as database:
        renamed = replace(JOB, method=Method(label="mine"))
        other = replace(JOB, seed=1)
        found = database.finished([JOB, renamed, other])
    assert found.keys() == {JOB, renamed}
    for result in found.values():
        np.testing.assert_array_equal(result.rewards, RESULT.rewards)
        np.testing.assert_array_equal(result.final, RESULT.final)
        for name in ("seconds", "draws", "spent", "epsilon_delta", "weight", "alpha", "sigma"):
            np.testing.assert_equal(getattr(result, name), getattr(RESULT, name))


def test_other_conditions_have_other_results(tmp_path: Path) -> None:
    path = tmp_path / "sweep.sqlite"
    with Database(path, HERE) as database:
        database.save(JOB, RESULT)
    with Database(path, HERE | {"numpy": "3"}) as database:
        assert database.finished([JOB]) == {}
        database.save(JOB, replace(RESULT, draws=8))
        assert database.finished([JOB])[JOB].draws == 8
    with Database(path, HERE) as database:
        assert database.finished([JOB])[JOB].draws == 7


def test_pandas_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "sweep.sqlite"
    with Database(path, HERE) as database:
        database.save(JOB, RESULT)
        database.save(replace(JOB, epsilon=None, method=Method(agent="oracle")), RESULT)
    connection = sqlite3.connect(path)
    table = pd.read_sql("SELECT * FROM results ORDER BY method, run", connection)
    connection.close()
    assert table["method"].tolist() == ["best policy"] * 2 + ["noisy-counts, geometric:1.05"] * 2
    assert table["run"].tolist() == [100, 101, 100, 101]
    assert table["total_reward"].tolist() == [np.pi, 1e300] * 2
    assert table["final_value"].tolist() == [2 / 3, -1e-300] * 2
    np.testing.assert_array_equal(table["epsilon"], [np.nan, np.nan, 0.1, 0.1])


def test_two_processes_may_write_the_same_job(tmp_path: Path) -> None:
    path = tmp_path / "sweep.sqlite"
    with Database(path, HERE) as one, Database(path, HERE) as two:
        one.save(JOB, RESULT)
        two.save(JOB, RESULT)
        assert two.finished([JOB])[JOB].rewards.shape == (2, 2)


def test_a_job_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    """The second run's reward is no number: the job and its first run must not stay."""
    path = tmp_path / "sweep.sqlite"
    broken = replace(RESULT, rewards=np.array([[1.0, np.nan]]))
    with Database(path, HERE) as database:
        with pytest.raises(sqlite3.IntegrityError):
            database.save(JOB, broken)
        assert database.finished([JOB]) == {}
        database.save(JOB, RESULT)
        assert database.finished([JOB]).keys() == {JOB}


def test_what_cannot_be_written_is_an_error_of_the_system(tmp_path: Path) -> None:
    """As on a full disk: a limit of pages that the file has reached."""
    path = tmp_path / "sweep.sqlite"
    with Database(path, HERE) as database:
        database.save(JOB, RESULT)
        database._connection.execute("PRAGMA max_page_count = 1")
        large = replace(RESULT, rewards=np.ones((60, 1000)), final=np.ones(1000))
        with pytest.raises(OSError, match="cannot be written: database or disk is full"):
            database.save(replace(JOB, runs=1000), large)
        assert database.finished([JOB]).keys() == {JOB}


def test_a_damaged_file_is_an_error_of_the_system(tmp_path: Path) -> None:
    """Its first page is fine, so that it is opened; the others are lost."""
    path = tmp_path / "sweep.sqlite"
    large = replace(RESULT, rewards=np.ones((60, 1000)), final=np.ones(1000))
    with Database(path, HERE) as database:
        database.save(replace(JOB, runs=1000), large)
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xa5" * (len(whole) - 4096))
    with Database(path, HERE) as database:
        with pytest.raises(OSError, match=r"cannot be read: .* malformed; move the file away"):
            database.finished([replace(JOB, runs=1000)])
        with pytest.raises(OSError, match=r"cannot be written: .* malformed"):
            database.save(JOB, RESULT)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE runs SET rewards = 'a text'",
        "UPDATE runs SET rewards = x'00'",
        "UPDATE runs SET final_value = 'a text' WHERE run = 100",
        "UPDATE runs SET final_value = x'00'",
        "UPDATE runs SET total_reward = 1",
        "UPDATE runs SET run = run + 1000",
        "DELETE FROM runs WHERE run = 101",
        "DELETE FROM runs",
        "UPDATE jobs SET spent = 0.2",
        "UPDATE jobs SET draws = 'many'",
        "UPDATE jobs SET weight = x'00'",
        "UPDATE jobs SET sha256 = NULL",
        "UPDATE jobs SET job = '{}'",
    ],
)
def test_what_was_changed_is_an_error_of_the_system(change: str, tmp_path: Path) -> None:
    path = tmp_path / "sweep.sqlite"
    with Database(path, HERE) as database:
        database.save(JOB, RESULT)
    connection = sqlite3.connect(path)
    try:
        connection.execute(change)
        connection.commit()
    except sqlite3.IntegrityError:  # the file has rules of its own
        return
    finally:
        connection.close()
    with Database(path, HERE) as database, pytest.raises(OSError, match="cannot be read"):
        database.finished([JOB])


@pytest.mark.slow
def test_every_flipped_byte_is_seen_or_does_no_harm(tmp_path: Path) -> None:
    path, rng = tmp_path / "sweep.sqlite", np.random.default_rng(5)
    wide = replace(RESULT, rewards=rng.random((60, 2)))
    with Database(path, HERE) as database:
        database.save(JOB, wide)
    whole = path.read_bytes()
    used = np.flatnonzero(np.frombuffer(whole, np.uint8))  # the rest is empty space, mostly
    found_it = 0
    for place in rng.choice(used, 400):
        broken = bytearray(whole)
        broken[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(broken)
        try:
            with Database(path, HERE) as database:
                found = database.finished([JOB])
        except (OSError, ValueError):
            continue
        for result in found.values():
            found_it += 1
            np.testing.assert_array_equal(result.rewards, wide.rewards)
            np.testing.assert_array_equal(result.final, wide.final)
            for name in ("seconds", "draws", "spent", "epsilon_delta", "weight", "alpha", "sigma"):
                np.testing.assert_equal(getattr(result, name), getattr(RESULT, name))
    assert found_it < 300


@pytest.mark.slow
def test_a_held_database_is_waited_for_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "_PATIENCE", (0.05, 1.0))
    path = tmp_path / "sweep.sqlite"
    Database(path, HERE).close()
    holder = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    holder.execute("BEGIN EXCLUSIVE")
    began = time.monotonic()
    with (
        pytest.warns(UserWarning, match="another process holds the database; it is waited for"),
        pytest.raises(OSError, match="database is held by another process"),
    ):
        Database(path, HERE)
    assert 1 < time.monotonic() - began < 20
    release = threading.Timer(0.3, holder.execute, ["ROLLBACK"])
    release.start()
    with pytest.warns(UserWarning, match="another process holds"):
        database = Database(path, HERE)
    with database:
        database.save(JOB, RESULT)
        assert database.finished([JOB]).keys() == {JOB}
    release.join()
    holder.close()


def _another_program(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE songs (name TEXT)")
    connection.close()


def _another_schema(path: Path) -> None:
    Database(path, HERE).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path.write_text("my notes\n" * 100), "file is not a database; move it away"),
        (_another_program, "another program's"),
        (_another_schema, "must have schema 4, got 99"),
        (Path.mkdir, "unable to open"),
    ],
    ids=["text", "another program's", "another schema", "folder"],
)
def test_a_file_that_is_not_ours_stays_as_it_is(make, message: str, tmp_path: Path) -> None:
    path = tmp_path / "sweep.sqlite"
    make(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(ValueError, match=message):
        Database(path, HERE)
    assert (path.read_bytes() if path.is_file() else None) == before


def test_an_empty_file_becomes_a_database(tmp_path: Path) -> None:
    """A process killed at the very start leaves one."""
    path = tmp_path / "sweep.sqlite"
    path.touch()
    with Database(path, HERE) as database:
        database.save(JOB, RESULT)


def test_words_that_are_no_text_are_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "sweep.sqlite"
    with Database(path, HERE):
        pass
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"CREATE TABLE jobs", b"CREATE \xc2\xe7BLE jobs"))
    with pytest.raises(ValueError, match=r"cannot be read and written: .*move it away"):
        Database(path, HERE)


def test_runs_of_no_job_are_a_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "sweep.sqlite"
    with Database(path, HERE) as database:
        database.save(JOB, RESULT)
        database._connection.execute("DELETE FROM jobs")
        with pytest.raises(OSError, match="damaged"):
            database.save(JOB, RESULT)
