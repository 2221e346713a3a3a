"""Killed between any two steps on files: no file stands beside a statement about another.

Each command runs with one budget, and again with another in a child process that is killed at its
n-th change of a folder's entries, for every n. What is left is read like any user's files.
"""

import hashlib
import json
import os
import signal
import stat
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from made import dosed_log

pytest.importorskip("sklearn", reason="no sklearn: pip install 'privrl[models]'")

from typer.testing import CliRunner

from privrl.cli import app
from privrl.envs import load_released
from privrl.experiments.training import plots
from privrl.files import files as _files
from privrl.models.bayes_net.network import BayesNet
from privrl.models.histograms.result import PrivateHistogram
from privrl.models.logistic_regression import choice
from privrl.models.naive_bayes.classifier import PrivateNaiveBayes
from privrl.offline import load_policy

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]
RUNNER = CliRunner()
STEPS = ("replace", "rename", "unlink", "link")  # of os: what changes a folder's entries
LOG = dosed_log((0, 5, 10), most_steps=3)
JOB = "--episodes=3 --runs=1 --backend=sequential --agents=random,oracle"
COMMANDS = {
    "naive-bayes": "naive-bayes data.csv --schema schema.toml --target-column rich --out out",
    "histogram": "histogram data.csv --schema schema.toml --column job --out out",
    "bayes-net": "bayes-net data.csv --schema schema.toml --network net.toml --synthetic 5 "
    "--out out",
    "fit-model": "fit-model log.csv --schema log.toml --out out",
    "fit-policy": "fit-policy log.csv --schema log.toml --out out",
    "train": "train --env privrl/RiverSwim-v0 --episodes 3 --out out",
    "sweep": f"sweep {JOB} --out out",
    "suite": f"suite {JOB} --tasks=RiverSwim6 --out out",
}
READERS: dict[str, Callable[[], object]] = {
    "naive-bayes": lambda: PrivateNaiveBayes.load("out/model.json"),
    "histogram": lambda: PrivateHistogram.load("out/histogram.json"),
    "bayes-net": lambda: BayesNet.load("out/model.json"),
    "fit-model": lambda: load_released("out"),
    "fit-policy": lambda: load_policy("out/policy.json"),
}


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rich = rng.random(200) < 0.4
    job = np.where(rng.random(200) < 0.7, np.where(rich, "smith", "clerk"), "none")
    pd.DataFrame({"rich": rich, "job": job}).to_csv("data.csv", index=False)
    Path("schema.toml").write_text(
        "[columns.rich]\ncategories = [true, false]\n"
        '[columns.job]\ncategories = ["clerk", "smith", "none"]\n'
    )
    Path("net.toml").write_text('[parents]\nrich = []\njob = ["rich"]\n')
    visits = pd.DataFrame(
        {
            "patient": np.repeat(np.arange(60), 2),
            "glucose": rng.uniform(0, 10, 120).round(2),
            "dose": rng.integers(0, 2, 120),
            "left": np.where(np.arange(120) % 2, rng.choice(["well", "dead"], 120), ""),
        }
    )
    visits.to_csv("log.csv", index=False)
    LOG.save("log.toml")


def run(command: str, epsilon: float) -> int:
    budget = f"--epsilon{'s' * command.startswith(('sweep', 'suite'))}={epsilon}"
    over = ["--force"] if Path("out").exists() else []
    result = RUNNER.invoke(app, [*command.split(), budget, *over], env={"TERM": "dumb"})
    assert result.exit_code == 0, result.output
    return result.exit_code


def in_a_child(call: Callable[[], object]) -> int:
    """Return how a child process ended that makes a call: 0, or minus the signal."""
    child = os.fork()
    if child == 0:
        signal.alarm(120)  # whatever becomes of the test
        try:
            call()
            os._exit(0)
        except BaseException as error:  # a child never returns
            print(repr(error), file=sys.__stderr__)
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def killed_at(n: int) -> None:
    """Let this process be killed before its n-th change of a folder's entries."""
    done = 0

    def guarded(step: Callable[..., object]) -> Callable[..., object]:
        def at_last(*given: object, **named: object) -> object:
            nonlocal done
            done += 1
            if done > n:
                os.kill(os.getpid(), signal.SIGKILL)
            return step(*given, **named)

        return at_last

    for name in STEPS:
        setattr(os, name, guarded(getattr(os, name)))


def statement() -> dict | None:
    """Return what the statement in ``out`` says, if there is one."""
    for name in ("release.json", "train.json", "sweep.json", "suite.json"):
        path = Path("out", name)
        if path.exists():
            return json.loads(path.read_text())
    return None


def is_about_all(said: dict) -> bool:
    """Whether a statement names all files that were released with it, as they are."""
    names = {p.name for p in Path("out").iterdir() if p.is_file()}
    names -= {"release.json", "train.json", "sweep.json", "suite.json", "sweep.sqlite"}
    names -= {"suite.sqlite"}
    digests = {name: hashlib.sha256(Path("out", name).read_bytes()).hexdigest() for name in names}
    return said["sha256"] == digests


def torn(command: str) -> bool:
    """Whether ``model.json`` is about other tables than those in the folder."""
    if command != "fit-model":
        return False
    tables = hashlib.sha256(Path("out/tables.npz").read_bytes()).hexdigest()
    return json.loads(Path("out/model.json").read_text())["tables_sha256"] != tables


PICTURED = [pytest.param(each, marks=pytest.mark.slow) for each in ("train", "sweep", "suite")]


@pytest.mark.slow
@pytest.mark.parametrize("command", [*list(COMMANDS)[:-3], *PICTURED])
def test_a_killed_command_leaves_no_statement_about_other_files(command: str) -> None:
    run(COMMANDS[command], 0.5)
    said = statement()
    assert said is not None
    assert is_about_all(said)
    seen = set()
    for n in range(40):

        def again(n: int = n) -> None:
            killed_at(n)
            run(COMMANDS[command], 5.0)

        end = in_a_child(again)
        assert end in {0, -signal.SIGKILL}
        said = statement()
        seen.add(None if said is None else ("5.0" in said["command"]))
        if said is not None:
            assert is_about_all(said)
        if command in READERS:
            # A model's page is beside other tables for a moment, and refused.
            told = pytest.raises(ValueError, match="SHA-256") if torn(command) else nullcontext()
            with told:
                READERS[command]()
        if end == 0:
            break
        run(COMMANDS[command], 0.5)
        assert not list(Path("out").glob(".writing-*"))
    assert seen == {None, False, True}


@pytest.mark.slow
def test_a_policy_is_not_beside_the_statement_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is saved before the pictures: train.json stated 0.5 for a policy that cost 5."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    run(COMMANDS["train"], 0.5)
    monkeypatch.setattr(plots, "policy_figure", interrupted)
    again = RUNNER.invoke(app, [*COMMANDS["train"].split(), "--epsilon=5.0", "--force"])
    assert again.exit_code == 130
    assert json.loads(Path("out/policy.json").read_text())["guarantee"]["epsilon_delta"] > 1
    assert statement() is None


@pytest.mark.slow
def test_statements_of_other_commands_do_not_outlive_their_files() -> None:
    """release.json of a policy from a log stayed beside the policy of an agent."""
    run(COMMANDS["fit-policy"], 0.5)
    Path("out/policy.json").unlink()
    refused = RUNNER.invoke(app, COMMANDS["train"].split())
    assert refused.exit_code == 2
    assert "already has release.json of an earlier run" in " ".join(refused.output.split())
    run(COMMANDS["train"], 5.0)
    assert not Path("out/release.json").exists()
    said = statement()
    assert said is not None
    assert is_about_all(said)


@pytest.mark.few(5)
@pytest.mark.parametrize("command", READERS)
def test_who_reads_a_file_reads_its_statement(command: str) -> None:
    """As after a copy of half the files."""
    run(COMMANDS[command], 0.5)
    older = Path("out/release.json").read_bytes()
    READERS[command]()
    run(COMMANDS[command], 5.0)
    READERS[command]()
    Path("out/release.json").write_bytes(older)
    with pytest.raises(ValueError, match=r"^\w+\.json: must be the file that release\.json next"):
        READERS[command]()
    Path("out/release.json").write_bytes(older[:-20])
    with pytest.raises(ValueError, match=r"release\.json next to it must be a valid statement"):
        READERS[command]()
    Path("out/release.json").write_text('{"sha256": {"another.json": ""}}')
    READERS[command]()
    Path("out/release.json").unlink()
    READERS[command]()


def test_predict_refuses_a_model_beside_the_statement_of_another() -> None:
    run(COMMANDS["naive-bayes"], 0.5)
    older = Path("out/release.json").read_bytes()
    run(COMMANDS["naive-bayes"], 5.0)
    Path("out/release.json").write_bytes(older)
    result = RUNNER.invoke(app, ["predict", "out/model.json", "data.csv"])
    assert result.exit_code == 2
    assert "release.json next to it describes" in " ".join(result.output.split())


# What killed processes leave ---------------------------------------------------------------------


def hang_while_writing(ready: int) -> None:
    def write(file) -> None:
        file.write(b"half")
        file.flush()
        os.write(ready, b".")
        signal.pause()

    _files.save_all(Path("out"), {"it.txt": write})


def end(child: int) -> None:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


@pytest.mark.slow
def test_the_next_run_removes_what_a_killed_one_left_and_not_what_is_in_use() -> None:
    readable, ready = os.pipe()
    children = []
    try:
        for _ in range(2):
            child = os.fork()
            if child == 0:
                signal.alarm(60)  # whatever becomes of the test
                hang_while_writing(ready)
                os._exit(1)
            children.append(child)
            os.read(readable, 1)
        both = set(Path("out").glob(".writing-*"))
        assert len(both) == 2
        end(children.pop(0))
        kept = [Path("out/.writing-mine"), Path("out/.writing-other_name"), Path("out/writing")]
        for each in kept:
            each.mkdir()
        elsewhere = Path("elsewhere")
        elsewhere.mkdir()
        Path(elsewhere, "precious").touch()
        Path("out/.writing-abcdefgh").symlink_to(elsewhere.absolute())
        _files.save_all(Path("out"), {"other.txt": _files.text_writer("x")})
        assert len(both & set(Path("out").glob(".writing-*"))) == 1
        assert all(each.is_dir() for each in kept)
        assert Path(elsewhere, "precious").exists()
    finally:
        for child in children:
            end(child)
    _files.save_all(Path("out"), {"other.txt": _files.text_writer("x")})
    assert not both & set(Path("out").glob(".writing-*"))


def test_who_cleans_and_who_begins_do_not_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that is taken for one that was left, before it is held, is made again."""
    hold, taken = _files._hold, []

    def too_late(folder: Path) -> int | None:
        if not taken:
            taken.append(folder)
            _files._remove_left(folder)  # as another process would
        return hold(folder)

    monkeypatch.setattr(_files, "_hold", too_late)
    _files.save_all(Path("out"), {"it.txt": _files.text_writer("whole")})
    assert Path("out/it.txt").read_text() == "whole"
    assert [each.name for each in Path("out").iterdir()] == ["it.txt"]


@pytest.mark.parametrize("linked", [True, False])
def test_what_is_in_a_file_is_on_disk_before_it_has_its_name(
    linked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_disk: dict[int, int] = {}  # of each file, or folder, how much of it

    def sync(descriptor: int, then: Callable[[int], None] = os.fsync) -> None:
        then(descriptor)
        found = os.fstat(descriptor)
        on_disk[found.st_ino] = found.st_size if stat.S_ISREG(found.st_mode) else named

    def naming(then: Callable[..., None]) -> Callable[..., None]:
        def name(source: Path, target: Path) -> None:
            nonlocal named
            found = os.stat(source)
            assert on_disk[found.st_ino] == found.st_size > 0
            then(source, target)
            named += 1

        return name

    def cannot(*_: object) -> None:
        raise OSError(95, "not supported")

    named = 0
    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "replace", naming(os.replace))
    monkeypatch.setattr(os, "rename", naming(os.rename))
    monkeypatch.setattr(os, "link", naming(os.link) if linked else cannot)
    files = {name: _files.text_writer(name * 1000) for name in ("a.txt", "b.txt")}
    _files.save_all(Path("out"), files, (_files.STATEMENT, {}))
    assert named == 3
    assert [on_disk[os.stat(each).st_ino] for each in ("out", ".")] == [3, 3]
    _files.save_new(Path("out/new.txt"), b"new")
    assert [on_disk[os.stat(each).st_ino] for each in ("out", ".")] == [4, 4]


def test_disks_without_locks_and_links_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def cannot(*_: object, **__: object) -> None:
        raise OSError(95, "not supported")

    monkeypatch.setattr(_files.fcntl, "flock", cannot)
    monkeypatch.setattr(_files, "sync_folder", cannot)
    monkeypatch.setattr(os, "link", cannot)
    left = Path("out/.writing-abcdefgh")
    left.mkdir(parents=True)
    _files.save_all(Path("out"), {"it.txt": _files.text_writer("whole")})
    _files.save_new(Path("out/new.txt"), b"new")
    assert Path("out/new.txt").read_bytes() == b"new"
    with pytest.raises(FileExistsError):
        _files.save_new(Path("out/new.txt"), b"newer")
    assert Path("out/new.txt").read_bytes() == b"new"
    assert left.is_dir()


# A schema to be filled in ------------------------------------------------------------------------


@pytest.mark.parametrize("log", [[], ["--log"]])
def test_a_schema_that_cannot_be_written_whole_is_not_there(
    log: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        os.ftruncate(descriptor, os.fstat(descriptor).st_size // 2)
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        result = RUNNER.invoke(app, ["schema", "--columns=a,b", "--out=new.toml", *log])
    assert result.exit_code == 2
    assert "error: the disk is full." in result.output
    assert not Path("new.toml").exists()
    assert not list(Path().glob(".writing-*"))
    assert RUNNER.invoke(app, ["schema", "--columns=a,b", "--out=new.toml", *log]).exit_code == 0
    before, more = Path("new.toml").read_bytes(), ["schema", "--columns=c", "--out=new.toml", *log]
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        assert RUNNER.invoke(app, more).exit_code == 2
    assert Path("new.toml").read_bytes() == before
    assert RUNNER.invoke(app, more).exit_code == 0
    assert set(before.splitlines()) < set(Path("new.toml").read_bytes().splitlines())


# Interrupted -------------------------------------------------------------------------------------


AT_ONCE = [*COMMANDS.values(), "predict model.json data.csv", "reproduce dps-fig1 --quick"]
LATE = [text for name, text in COMMANDS.items() if name not in ("sweep", "suite")]


@pytest.mark.few(18)
@pytest.mark.parametrize(
    ("command", "when"),
    [*((each, "check_folder") for each in AT_ONCE), *((each, "save_all") for each in LATE)],
)
def test_who_interrupts_a_command_is_answered(
    command: str, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(_files, when, interrupted)
    monkeypatch.setattr(choice, "load_classifier", interrupted)
    result = RUNNER.invoke(app, command.split())
    assert result.exit_code == 130, result.output
    assert "stopped; no file is incomplete" in " ".join(result.output.split())
