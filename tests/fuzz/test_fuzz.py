"""Bad input, a part of what ``python tests/fuzz/run.py`` tries, and the fuzzer itself."""

import re
import runpy
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import chdir
from glob import glob
from pathlib import Path
from random import Random
from typing import Any

import calls
import damage
import judge
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from judge import CANARY, Call, Command
from kinds import KINDS, Kind, prepare

import privrl
from privrl import secret_rng
from privrl.accounting import RdpAccountant
from privrl.costs import ReplaceRecord
from privrl.costs.noise import LaplaceCost

pytestmark = pytest.mark.needs("bokeh", "pyarrow")
RUN = Path(__file__).with_name("run.py")
FENCED = f"""
import sys
from pathlib import Path
sys.path[:0] = [{str(RUN.parent)!r}, {str(RUN.parents[2])!r}]
from fence import fence
from privrl.cli import main
sys.dont_write_bytecode = True
fence(Path(sys.argv.pop(1)))
main()
"""


@pytest.fixture(scope="module", autouse=True)
def _elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Calls leave no files in the folder of the project."""
    with chdir(tmp_path_factory.mktemp("calls")):
        yield


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Valid files of all kinds."""
    folder = tmp_path_factory.mktemp("fuzz")
    prepare(folder)
    return folder


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    return tmp_path


@pytest.fixture(scope="module")
def valid() -> dict[str, calls.Valid]:
    with warnings.catch_warnings(action="ignore"):
        return calls.table()


def test_an_array_of_any_type_is_changed() -> None:
    """Integers of eight bits hold neither -1 nor 1e300."""
    for seed in range(40):
        for kind in ("u1", "i1", "f4", "f8", "?"):
            calls.wrong(Random(seed), np.ones((2, 2), kind), [None])


def test_an_array_of_texts_or_dates_is_changed() -> None:
    """Few texts are numbers, and dates have more than eight characters."""
    for seed in range(200):
        calls.wrong(Random(seed), np.array(["a", "0+"]), [None])
        calls.wrong(Random(seed), np.array([0], "M8[s]"), [None])


class Hidden:
    """Texts that a message must not quote; a frame or an array of it shows it as well."""

    def __repr__(self) -> str:
        return CANARY


@pytest.mark.few(4)
@pytest.mark.parametrize(
    "hidden",
    [
        Hidden(),
        np.array([Hidden(), Hidden()]),
        pd.Series([Hidden(), Hidden()]),
        pd.DataFrame({"age": [Hidden(), Hidden()], "job": [CANARY, CANARY]}),
    ],
    ids=lambda hidden: type(hidden).__name__,
)
def test_no_message_quotes_what_may_hold_data(
    valid: dict[str, calls.Valid], hidden: object
) -> None:
    """Arguments in a wrong order put data in the place of a setting."""
    quoted, refused = [], 0
    for name, call in valid.items():
        for argument in call.given():
            try:
                with warnings.catch_warnings(action="ignore"):
                    call.function(**call.given() | {argument: hidden})
            except Exception as error:
                refused += 1
                said = "; caused by: ".join(map(str, judge.chain(error)))
                quoted += [f"{name}({argument}=): {said}"] * (CANARY in said)
    assert not quoted, "\n".join(quoted)
    assert refused > 700


@pytest.mark.few(12)
@pytest.mark.parametrize("wrong", ["", "replace record", -0.0, ReplaceRecord], ids=repr)
def test_a_relation_is_a_relation_in_every_public_call(
    valid: dict[str, calls.Valid], wrong: object
) -> None:
    """Budgets of a ledger, statements and specs take its name as well."""
    tried = 0
    for name, call in valid.items():
        by_name = name in ("Ledger.set_budget", "privacy_statement")
        if "relation" in call.given() and not by_name:
            with pytest.raises(ValueError, match="relation must be "):
                call.function(**call.given() | {"relation": wrong})
            tried += 1
    assert tried >= 30


@pytest.mark.slow
def test_many_cases() -> None:
    """A finding is repeated alone: a busy machine makes anything wait for too long."""
    done = fuzzed("--cases", "400", "-j", "2")
    if done.returncode == 0:
        return
    found = re.findall(r"times, such as (\S+:\d+)$", done.stdout, re.MULTILINE)
    assert found, done.stdout + done.stderr
    for case in found:
        again = fuzzed("--only", case)
        assert again.returncode == 0, done.stdout + again.stdout + again.stderr


def fuzzed(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(RUN), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_every_public_name_is_tried_or_left_out(valid: dict[str, calls.Valid]) -> None:
    public = {name for name, _ in calls.names()}
    assert not public - valid.keys() - calls.LEFT_OUT.keys()
    assert not calls.LEFT_OUT.keys() - public


def test_every_public_folder_is_tried_or_left_out() -> None:
    package = Path(privrl.__file__).parent
    modules = glob("**/__init__.py", root_dir=package, recursive=True)  # follows links to folders
    found = {
        ".".join(Path(name).parent.parts)
        for name in modules
        if re.search(r"^__all__", (package / name).read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert found == {*calls.FOLDERS, *calls.FOLDERS_LEFT_OUT}


@pytest.mark.slow
def test_what_is_changed_was_valid(valid: dict[str, calls.Valid], empty: Path) -> None:
    """A call that is refused as it is would find nothing."""
    for function, make in valid.values():
        with warnings.catch_warnings(action="ignore"):
            function(**make())


PARSED = ("schema", "log_schema", "records", "logs", "models", "released", "policies", "specs")


@pytest.mark.few(4)
@pytest.mark.parametrize("name", PARSED)
def test_searched_for(name: str, base: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The same generators, driven by hypothesis, which shrinks what it finds."""

    @settings(max_examples=15, suppress_health_check=list(HealthCheck))
    @given(st.randoms(use_true_random=False))
    def search(r: Random) -> None:
        trial = KINDS[name].make(r, tmp_path_factory.mktemp("case"))
        if isinstance(trial, Call):
            assert judge.judge(trial).findings == (), trial.said

    search()


@pytest.mark.slow
def test_the_true_entry_says_the_same(base: Path, empty: Path) -> None:
    """In a separate process: as many errors, in words, and no traceback."""
    for number in range(4):
        folder = empty / str(number)
        folder.mkdir()
        trial = KINDS["commands"].make(Random(f"commands {number}"), folder)
        assert isinstance(trial, Command)
        done = subprocess.run(
            [sys.executable, "-c", FENCED, str(empty), *trial.argv],
            cwd=folder, capture_output=True, text=True, check=False, timeout=60,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode in (0, 2), done.stderr
        assert "Traceback" not in done.stderr


# What is wrong is found -----------------------------------------------------------------------


def _index() -> None:
    raise IndexError("no words")


def _silent() -> None:
    raise ValueError


def _tells() -> None:
    raise ValueError(f"got {CANARY}")


def _tells_in_its_cause() -> None:
    try:
        raise ValueError(f"got {CANARY}")
    except ValueError as error:
        raise ValueError("something is wrong") from error


def _memory() -> None:
    raise MemoryError


def _for_ever() -> None:
    while True:
        pass


def _warns() -> None:
    np.log(np.zeros(1))


def _leaves() -> None:
    Path("half").write_text("a file")
    raise ValueError("refused")


@pytest.mark.few(9)
@pytest.mark.parametrize(
    ("broken", "sort"),
    [
        (_index, "exception"), (_silent, "silent"), (_tells, "canary"), (_memory, "memory"),
        (_tells_in_its_cause, "canary"), (_for_ever, "hang"), (_warns, "warning"),
        (_leaves, "files"),
    ],
)  # fmt: skip
def test_a_broken_call_is_found(
    broken: Callable[[], None], sort: str, empty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge, "SECONDS", 0.3)
    verdict = judge.judge(Call("broken", broken, empty))
    assert [each.sort for each in verdict.findings] == [sort]


def test_what_pandas_warns_of_in_a_text_is_not_found(empty: Path) -> None:
    series = pd.Series(np.full(4, 2.0, "f2"))
    assert judge.judge(Call("repr", lambda: repr(series), empty)).findings == ()


def test_a_charge_for_what_is_refused_is_found(empty: Path) -> None:
    accountant = RdpAccountant()

    def broken() -> None:
        accountant.compose(LaplaceCost(scale=1.0, relation=ReplaceRecord()))
        raise ValueError("refused")

    verdict = judge.judge(Call("broken", broken, empty, [accountant]))
    assert [each.sort for each in verdict.findings] == ["spend"]


@pytest.mark.slow
def test_accountants_that_calls_are_given_are_watched(
    valid: dict[str, calls.Valid], empty: Path
) -> None:
    takes = {name: each for name, each in valid.items() if "accountant" in each[1]()}
    assert takes
    for one in takes.items():
        tries = [calls.call(Random(seed), empty, dict([one])) for seed in range(10)]
        assert any(isinstance(each, RdpAccountant) for made in tries for each in made.accountants)


def test_broken_commands_are_found(base: Path, empty: Path) -> None:
    command = Command(("histogram", "nowhere.csv"), empty)
    (empty / "left").write_text("something")
    found = judge.judged(command, 2, f"error: {CANARY}", {}, 1)
    assert {each.sort for each in found} == {"canary", "files", "spend"}
    found = judge.judged(command, 0, "Traceback (most recent call last):", {}, 0)
    assert {each.sort for each in found} == {"traceback", "spend"}


@pytest.mark.slow
def test_valid_files_are_the_same_each_time(base: Path, tmp_path: Path) -> None:
    """Noise, times and folders are none that others lack, so that a case can be repeated."""
    prepare(tmp_path)
    prepare(base)  # these are taken again from now on
    assert judge.snapshot(tmp_path) == judge.snapshot(base)


def test_secret_noise_is_the_same_in_a_case(empty: Path) -> None:
    trial_of, drawn = runpy.run_path(str(RUN))["trial_of"], list[float]()

    def draw() -> None:
        drawn.extend((secret_rng().random(), np.random.default_rng().random()))

    def noise(r: Random, folder: Path) -> Call:
        draw()
        return Call("draw", draw, folder)

    for number in (1, 2, 1):
        assert trial_of({"noise": Kind(noise, 1)}, "noise", number, empty)[0].succeeded
    assert drawn[:4] == drawn[8:]
    draw()
    assert len(set(drawn)) == 10  # others are others, and afterwards it is secret again


def test_a_pipe_is_not_fed_in_a_later_case(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that was late wrote into the file that the next case had under that name."""
    real, path = damage._feed, empty / "a"

    def late(*given: Any) -> None:
        time.sleep(0.1)
        real(*given)

    monkeypatch.setattr(damage, "_feed", late)
    for seed in range(40):
        path.write_bytes(b"first")
        damage.in_place(Random(seed), path)
        if path.is_fifo():
            break
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
    ((feeder, _),) = damage._FEEDERS
    damage.leave()
    path.unlink()
    path.write_bytes(b"second")
    feeder.join()
    assert path.read_bytes() == b"second"


def test_a_case_is_the_same_whenever_it_is_tried(base: Path, empty: Path) -> None:
    for name in ("schema", "specs", "models"):
        first, second = (empty / f"{name}{i}" for i in range(2))
        said = []
        for folder in (first, second):
            folder.mkdir()
            KINDS[name].make(Random(f"{name} 3"), folder)
            said.append(judge.snapshot(folder))
        assert said[0] == said[1]
