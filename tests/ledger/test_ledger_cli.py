"""Commands that release real data enter it, twice is told, and nothing is written over."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path

import commands
import numpy as np
import pandas as pd
import pytest
from commands import said
from made import dosed_log

pytest.importorskip("sklearn", reason="no sklearn: pip install 'privrl[models]'")


from privrl.accounting import Budget, BudgetExceeded, Ledger
from privrl.costs import GaussianCost, ReplaceRecord, ReplaceStep
from privrl.costs.noise import LaplaceCost
from privrl.costs.relations import SUMS, AddRemovePerson
from privrl.costs.selection import PureCost
from privrl.data import records
from privrl.data.schema import Bins, Categories, Schema
from privrl.files import files as _files
from privrl.mechanisms.base import Mechanism

LOG_SCHEMA = dosed_log((0, 100, 200), most_steps=2, order="hour")


run = partial(commands.run, columns=80)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(40, 9, 200), "rich": rng.random(200) < 0.4})
    frame.to_csv("people.csv", index=False)
    Schema({"age": Bins((0, 30, 60)), "rich": Categories((True, False))}).save("schema.toml")
    Path("network.toml").write_text('[parents]\nrich = []\nage = ["rich"]\n')
    return tmp_path


PEOPLE = ["people.csv", "--schema", "schema.toml"]
COMMANDS = {
    "histogram": (
        ["histogram", *PEOPLE, "--column", "age"],
        ["histogram.csv", "histogram.json", "release.json"],
    ),
    "naive-bayes": (
        ["naive-bayes", *PEOPLE, "--target-column", "rich"],
        ["model.json", "release.json"],
    ),
    "classify": (
        ["classify", *PEOPLE, "--target-column", "rich"],
        ["model.json", "release.json"],
    ),
    "bayes-net": (
        ["bayes-net", *PEOPLE, "--network", "network.toml", "--synthetic", "3"],
        ["model.bif", "model.json", "release.json", "synthetic.csv"],
    ),
}


@pytest.mark.parametrize("to", ["nowhere", "out"])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_link_that_no_folder_can_be_made_of_is_refused_unspent(
    folder: Path, name: str, to: str
) -> None:
    Path("out").symlink_to(to)
    result = run(*COMMANDS[name][0], "--out", "out", "--ledger", "book.sqlite")
    assert result.exit_code == 2
    assert "out must be a folder that can be written to" in said(result)
    assert not Ledger("book.sqlite").is_there


@pytest.mark.parametrize("name", COMMANDS)
def test_the_data_are_never_written_over(folder: Path, name: str) -> None:
    """With --force the release took the place of the records, and the next read it as data."""
    arguments, files = COMMANDS[name]
    data = folder / "out" / files[0]
    data.parent.mkdir()
    Path("people.csv").rename(data)
    before = data.read_bytes()
    given = [each.replace("people.csv", f"out/{files[0]}") for each in arguments]
    result = run(*given, "--out", "out", "--force", "--ledger", "book.sqlite")
    assert result.exit_code == 2
    assert f"{files[0]} there is read by the command" in said(result)
    assert data.read_bytes() == before
    assert not Ledger("book.sqlite").is_there


def test_no_export_is_written_over_the_ledger(folder: Path) -> None:
    """It was, with --force, and what had been spent was lost."""
    book = Ledger(folder / "book.sqlite")
    book.set_budget("people", Budget(1.0))
    result = run("ledger", "export", "--out", "book.sqlite", "--force", "--ledger", "book.sqlite")
    assert result.exit_code == 2
    assert "is a ledger, and what was spent would be lost" in said(result)
    assert Ledger(folder / "book.sqlite").verify()


@pytest.mark.slow
@pytest.mark.needs("bokeh")
def test_a_name_of_the_data_need_not_be_in_utf8(folder: Path) -> None:
    """The page for researchers, which has the command, ended with an error of its encoding."""
    Path("people.csv").rename("\udcff.csv")
    arguments = ["histogram", "\udcff.csv", *COMMANDS["histogram"][0][2:], "--out", "out"]
    assert run(*arguments, "--ledger", "book.sqlite").exit_code == 0
    assert run("report", "out", "--for", "researcher").exit_code == 0
    assert "\\udcff.csv" in Path("out/report-researcher.html").read_text()


@pytest.mark.parametrize("name", COMMANDS)
def test_what_no_file_could_hold_is_refused_unspent(folder: Path, name: str) -> None:
    """JSON spells half of a surrogate pair, and no file of UTF-8 holds it: it is no category."""
    columns = {
        "age": {"edges": [0, 30, 60]},
        "rich": {"categories": [True, False, "\ud800"]},
    }
    Path("half.json").write_text(json.dumps({"columns": columns}))
    arguments = [each.replace("schema.toml", "half.json") for each in COMMANDS[name][0]]
    result = run(*arguments, "--out", "out", "--ledger", "book.sqlite")
    assert result.exit_code == 2
    assert "must be a text that UTF-8 can hold" in said(result)
    assert not Ledger("book.sqlite").is_there


@pytest.mark.few(12)
@pytest.mark.parametrize("name", COMMANDS)
def test_data_that_change_while_they_are_read_cost_nothing(
    folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger entered what they had been, and knew nothing of a release of what they are."""
    read = records.read_records

    def late(path: Path, *given: object, **named: object) -> object:
        with path.open("a") as file:
            file.write("30,True\n")
        return read(path, *given, **named)

    monkeypatch.setattr(records, "read_records", late)
    result = run(*COMMANDS[name][0], "--out", "out", "--ledger", "book.sqlite")
    assert result.exit_code == 2
    assert "people.csv did; nothing was charged" in said(result)
    assert not Path("out").exists()
    assert not Ledger("book.sqlite").accounts()


def test_a_release_that_would_be_read_as_data_is_refused_unspent(folder: Path) -> None:
    pytest.importorskip("pyarrow")
    Path("visits").mkdir()
    LOG_SCHEMA.save("log.toml")
    rows = {"hour": [0, 1], "dose": [0, 1]}
    names = (LOG_SCHEMA.person, *LOG_SCHEMA.columns)
    pd.DataFrame({name: rows.get(name, [1, 1]) for name in names}).to_parquet("visits/1.parquet")
    fit = ["fit-model", "visits", "--schema", "log.toml", "--ledger", "book.sqlite"]
    made = run(*fit, "--synthetic", 2, "--synthetic-format", "parquet", "--out", "visits/.")
    assert made.exit_code == 2
    assert "the next release would read synthetic.parquet as data" in said(made)
    assert not Ledger("book.sqlite").is_there


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("name", COMMANDS)
def test_what_stops_a_command_after_the_charge_says_that_it_is_spent(
    folder: Path, name: str, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only commands of logs did. (Their test is in offline/test_charged_and_released.py.)"""

    def fail(*_: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(_files, "_write", fail)
        result = run(*COMMANDS[name][0], "--out", "out")
    assert result.exit_code != 0
    assert "The release is entry 1 of the ledger, and is spent" in said(result)


@pytest.mark.parametrize("name", ["naive-bayes", "classify"])  # the same, of a single feature
def test_a_second_classifier_says_what_both_cost_together(name: str, folder: Path) -> None:
    both = 1.998
    command = COMMANDS[name][0]
    first = said(run(*command, "--out", "a"))
    assert "new ledger: " in first
    assert "entry 1, of these data, under replace one record" in first
    assert "spent before: nothing" in first
    second = said(run(*command, "--out", "b"))
    assert "new ledger" not in second
    told = f"spent before: (1, 1e-05), by 1 release in total: ({both}, 1e-05), by 2"
    assert told in second
    (account,) = Ledger().accounts()
    assert account.total.releases == 2
    assert both - 0.002 < account.total.epsilon(1e-5) <= both < account.total.epsilon(None)
    assert account.dataset not in first + second  # it is made of the data


@pytest.mark.few(2)
@pytest.mark.parametrize("name", COMMANDS)
def test_nothing_is_written_over_and_nothing_spent_for_it(name: str, folder: Path) -> None:
    command, files = COMMANDS[name]
    assert run(*command, "--out", "out").exit_code == 0
    assert sorted(path.name for path in Path("out").iterdir()) == files
    for file in files:
        shutil.rmtree("out")
        Path("out").mkdir()
        Path("out", file).write_text("mine")
        refused = run(*command, "--out", "out")
        assert refused.exit_code == 2
        assert f"already has {file}" in said(refused)
        assert Path("out", file).read_text() == "mine"
    assert len(Ledger().entries()) == 1
    assert run(*command, "--out", "out", "--force").exit_code == 0
    assert len(Ledger().entries()) == 2
    command_line = json.loads(Path("out/release.json").read_text())["command"]
    assert "force" not in command_line
    assert "ledger" not in command_line


def test_a_folder_in_which_nothing_can_be_made_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in /proc, or in a folder that others remove all the time: it was tried for ever."""
    tries = iter(range(1000))

    def mkdir(*_: object, **__: object) -> None:
        if next(tries, None) is None:
            pytest.exit("it is tried for ever")
        raise FileNotFoundError

    with monkeypatch.context() as patch:
        patch.setattr(Path, "mkdir", mkdir)
        result = run(*COMMANDS["histogram"][0], "--out", "out", "--ledger", "book.sqlite")
    assert result.exit_code == 2
    assert "out must be a folder that can be written to, got 'out'." in said(result)
    assert not Ledger("book.sqlite").is_there


@pytest.mark.few(9)
@pytest.mark.parametrize("force", [[], ["--force"]])
@pytest.mark.parametrize("name", COMMANDS)
def test_two_commands_do_not_write_one_folder(
    name: str, force: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Started together into an empty folder, both were charged, and one's files were lost."""
    command, files = COMMANDS[name]
    others = []

    def save(*given, then=_files.save_all, **named):
        monkeypatch.setattr(_files, "save_all", then)
        others.append(run(*command, "--out", "new/out", *force))
        return then(*given, **named)

    monkeypatch.setattr(_files, "save_all", save)
    first = run(*command, "--out", "new/out", *force)
    assert first.exit_code == 0, first.output
    assert [each.exit_code for each in others] == [2]
    assert "is in use: another command, which is still running, writes" in said(others[0])
    assert len(Ledger().entries()) == 1
    assert sorted(path.name for path in Path("new/out").iterdir()) == files
    assert run(*command, "--out", "new/out", "--force").exit_code == 0


def test_two_commands_write_other_files_of_one_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Ledger().set_budget("people", Budget(1.0))
    others = []

    def save(*given, then=_files.save_all, **named):
        monkeypatch.setattr(_files, "save_all", then)
        others.append(run("ledger", "export", "--out", "b.json"))
        return then(*given, **named)

    monkeypatch.setattr(_files, "save_all", save)
    assert run("ledger", "export", "--out", "a.json").exit_code == 0
    assert [each.exit_code for each in others] == [0]
    assert not list(folder.glob(".taken-*"))


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_killed_command_leaves_no_claim(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command, files = COMMANDS["histogram"]
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # whatever becomes of the test
        _files.save_all = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        run(*command, "--out", "out")
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert len(list(Path("out").iterdir())) == len(files)  # what its claims were
    assert run(*command, "--out", "out").exit_code == 0
    assert sorted(path.name for path in Path("out").iterdir()) == files


@pytest.mark.slow
def test_of_three_processes_one_writes_a_folder(folder: Path, ledger_path: Path) -> None:
    code = "import sys; from privrl.cli import main; sys.argv[:1] = ['privrl']; main()"
    command = [sys.executable, "-c", code, *COMMANDS["histogram"][0], "--out", "out"]
    started = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    messages = [each.communicate()[1] for each in started]
    assert sorted(each.returncode for each in started) == [0, 2, 2]
    for each, message in zip(started, messages, strict=True):
        assert each.returncode == 0 or "is in use" in message or "already has" in message
    assert len(Ledger().entries()) == 1
    assert sorted(path.name for path in Path("out").iterdir()) == COMMANDS["histogram"][1]


@pytest.mark.few(12)
@pytest.mark.parametrize("name", COMMANDS)
def test_over_the_budget_no_file_is_written(name: str, folder: Path, monkeypatch) -> None:
    assert run("ledger", "budget", "people", "--epsilon", 1.5, "--delta", 1e-5).exit_code == 0
    options = ["--dataset", "people"]
    first = run(*COMMANDS[name][0], *options, "--out", "a")
    assert "of the budget, epsilon 1.5 at delta 1e-05" in said(first)
    monkeypatch.setattr(Mechanism, "_draw", None)
    refused = run(*COMMANDS[name][0], *options, "--epsilon", 3, "--out", "b")
    assert refused.exit_code == 2
    assert "nothing was spent" in said(refused)
    assert not Path("b").exists()
    assert len(Ledger().entries()) == 2


def test_a_ledger_that_cannot_be_used_stops_the_release(folder: Path, ledger_path: Path) -> None:
    ledger_path.write_bytes(b"")
    refused = run(*COMMANDS["histogram"][0], "--out", "out")
    assert refused.exit_code == 2
    assert "is not a ledger" in said(refused)
    assert not Path("out").exists()
    elsewhere = run(*COMMANDS["histogram"][0], "--out", "out", "--ledger", "own/ledger.sqlite")
    assert elsewhere.exit_code == 0
    assert Path("own/ledger.sqlite").is_file()


@pytest.mark.slow
def test_what_can_be_read_once_needs_a_name(folder: Path) -> None:
    code = "import sys; from privrl.cli import main; sys.argv[:1] = ['privrl']; main()"
    command = [
        sys.executable,
        "-c",
        code,
        "histogram",
        "/dev/stdin",
        *PEOPLE[1:],
        "--column",
        "age",
    ]
    for more, told in (
        ([], "can be read only once"),
        (["--dataset", "people"], "entry 1, of people"),
    ):
        done = subprocess.run(
            [*command, *more, "--out", f"out{len(more)}"],
            input=Path("people.csv").read_text(), capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert told in " ".join((done.stdout + done.stderr).split())


def save_visits() -> None:
    rng = np.random.default_rng(0)
    outcomes = rng.choice(["well", "dead"], 500)
    frame = {
        "patient": np.repeat(np.arange(500), 2), "hour": [0, 1] * 500,
        "glucose": rng.uniform(0, 200, 1000), "dose": rng.integers(2, size=1000),
        "left": [each for outcome in outcomes for each in ("", outcome)],
    }  # fmt: skip
    pd.DataFrame(frame).to_csv("visits.csv", index=False)
    LOG_SCHEMA.save(Path("visits.toml"))


@pytest.mark.few(2)
@pytest.mark.parametrize("command", ["fit-model", "fit-policy"])
def test_logs_are_entered_too(command: str, folder: Path) -> None:
    save_visits()
    arguments = [command, "visits.csv", "--schema", "visits.toml"]
    result = run(*arguments, "--out", "a")
    assert result.exit_code == 0, result.output
    assert "under add or remove one person (patient) spent before: nothing" in said(result)
    assert "spent before: (1, 1e-05), by 1 release in total: (2, 1e-05), by 2 releases" in said(
        run(*arguments, "--out", "b")
    )
    refused = run(*arguments, "--out", "a")
    assert refused.exit_code == 2
    run("ledger", "budget", Ledger().accounts()[0].dataset, "--epsilon", 2.5)
    refused = run(*arguments, "--out", "c")
    assert "from 80 % to 120 % of its budget" in said(refused)
    assert not Path("c").exists()
    if command == "fit-model":
        entries = len(Ledger().entries())
        planned = run("fit-policy", "--from-model", "a", "--out", "d")
        assert planned.exit_code == 0, planned.output
        assert "costs nothing" not in planned.output
        assert len(Ledger().entries()) == entries  # a model is all that is read


@pytest.mark.slow
def test_simulators_are_not_entered(folder: Path) -> None:
    result = run("train", "--env=privrl/RiverSwim-v0", "--episodes=3", "--out=out")
    assert result.exit_code == 0, result.output
    assert not Ledger().is_there


def test_predictions_are_not_written_over(folder: Path) -> None:
    run(*COMMANDS["naive-bayes"][0], "--out", "a")
    assert run("predict", "a/model.json", "people.csv", "--out", "p").exit_code == 0
    entries = len(Ledger().entries())
    assert run("predict", "a/model.json", "people.csv", "--out", "p").exit_code == 2
    assert run("predict", "a/model.json", "people.csv", "--out", "p", "--force").exit_code == 0
    assert len(Ledger().entries()) == entries


# privrl ledger ------------------------------------------------------------------------------------


def test_a_column_of_any_name_is_told_on_one_line(folder: Path) -> None:
    name = "a\tb" + "x" * 200
    Path("odd.csv").write_text(f'"{name}"\n1\n2\n')
    Path("odd.json").write_text(json.dumps({"columns": {name: {"categories": [1, 2]}}}))
    command = ["histogram", "odd.csv", "--schema", "odd.json", "--column", name]
    assert run(*command, "--dataset", "odd", "--out", "odd").exit_code == 0
    entry = Ledger().entries()[-1]
    assert entry["about"] == f"histogram of a?b{'x' * 84}"


def test_a_budget_that_waits_for_its_name_is_told_of(folder: Path) -> None:
    """Who set a budget and forgets the name would think that it holds."""
    histogram = COMMANDS["histogram"][0]
    run("ledger", "budget", "my people", "--epsilon", 3)
    told = said(run(*histogram, "--out", "a"))
    assert "a budget for my people" in told
    assert "if it is for these data, pass --dataset 'my people'" in told
    (account,) = Ledger().accounts()
    run("ledger", "budget", account.dataset, "--epsilon", 30, "--delta", 1e-5)
    again = run(*histogram, "--out", "b")
    assert again.exit_code == 0
    assert "budget for" not in said(again)


def test_ledger_show_cuts_nothing_off(folder: Path) -> None:
    command = [*COMMANDS["histogram"][0], "--epsilon", 0.3333]
    assert run(*command, "--out", "a").exit_code == 0  # data without a name, which are long ones
    run(*command, "--dataset", "others", "--out", "b")
    (name,) = {entry["dataset"] for entry in Ledger().entries()}
    run("ledger", "budget", name, "--epsilon", 0.75, "--delta", 1e-5)
    shown = run("ledger", "show")
    assert all(len(line) <= 80 for line in shown.output.splitlines())
    assert "data set privacy unit times spent budget used" in said(shown)
    assert f"{name} replace one 1 (0.3333, (0.75, 44.5 %" in said(shown)


def test_ledger_show_budget_verify_export_forget(folder: Path) -> None:
    for each in (["show"], ["verify"], ["export"], ["forget", "people", "--force"]):
        assert "does not exist" in said(run("ledger", *each))
    command = [*COMMANDS["histogram"][0], "--dataset", "people", "--epsilon", 0.5]
    run(*command, "--out", "a")
    shown = run("ledger", "show")
    assert all(len(line) <= 80 for line in shown.output.splitlines())
    assert "people replace one record 1 (0.5, 1e-05) none" in said(shown)
    told = said(run("ledger", "budget", "people", "--epsilon", 1, "--relation", "replace-record"))
    assert "people may spend epsilon 1.0 at delta 1e-05, under replace one record" in told
    told = said(
        run("ledger", "budget", "people", "--epsilon", 0.1, "--delta", 1e-5,
            "--relation", "replace one record")
    )  # fmt: skip
    assert "before it was epsilon 1.0" in told
    assert "nothing more can be released" in told
    assert "must be one of replace-record" in said(
        run("ledger", "budget", "people", "--epsilon", 1, "--relation", "nonsense")
    )
    assert "--dataset" not in told  # which was said with the release
    told = said(run("ledger", "budget", "others", "--epsilon", 3))
    assert "this name has no releases yet: pass --dataset others" in told
    shown = said(run("ledger", "show", "--delta", 1e-3))
    assert "1e-03" not in shown
    assert "0.001)" in shown
    assert "others each 0 0 (3.0, 1e-05) 0 %" in shown
    entries = said(run("ledger", "show", "people"))
    assert "budget: epsilon 1.0 at delta 1e-05, under replace one record" in entries
    assert "(0.5, 1e-05)" in entries  # what this release cost by itself
    assert "histogram of age: " in entries
    assert "relation=" not in entries
    told_of = json.loads(run("ledger", "show", "people", "--json").output)["entries"]
    assert [each.get("cost", {}).get("epsilon") for each in told_of] == [0.5, None, None]
    assert "must be one of the ledger's" in said(run("ledger", "show", "nobody"))
    assert run("ledger", "export", "--out", "export.json").exit_code == 0
    assert run("ledger", "export", "--out", "export.json").exit_code == 2
    printed = json.loads(run("ledger", "export").output)
    assert printed == json.loads(Path("export.json").read_text())
    assert "4 entries" in said(run("ledger", "verify"))
    refused = run("ledger", "forget", "people")
    assert refused.exit_code == 2
    assert "would be forgotten" in said(refused)
    assert "3 entries of people erased" in said(run("ledger", "forget", "people", "--force"))
    assert "people" not in said(run("ledger", "show"))
    checked = run("ledger", "verify", "--against", "export.json")
    assert checked.exit_code == 0, checked.output
    Path("export.json").write_text("[]")
    assert "must be an export" in said(run("ledger", "verify", "--against", "export.json"))
    Path("export.json").write_text("[" * 9999)
    assert "nested" in said(run("ledger", "verify", "--against", "export.json"))


def test_commands_know_a_name_in_every_spelling(folder: Path) -> None:
    """Composed or decomposed, and with a blank that does not break: one budget, one account."""
    name, other = "visite\u0301 1", "visit\xe9\xa01"
    told = said(run("ledger", "budget", name, "--epsilon", 1, "--delta", 1e-5, "--json"))
    assert json.loads(told)["dataset"] == "visit\xe9 1"
    command = ["histogram", *PEOPLE, "--column", "age"]
    assert run(*command, "--dataset", other, "--out", "a").exit_code == 0
    for spelling in (name, other):
        result = run(*command, "--dataset", spelling, "--out", "b")
        assert result.exit_code != 0
        assert "nothing was spent" in said(result)
        assert len(json.loads(run("ledger", "show", spelling, "--json").output)["entries"]) == 2
    assert run("ledger", "verify").exit_code == 0
    assert "2 entries" in said(run("ledger", "forget", other, "--force"))


def test_a_pipe_and_a_file_of_one_name_are_one_account(folder: Path) -> None:
    data = COMMANDS["histogram"][0][1]
    command = ["histogram", *COMMANDS["histogram"][0][2:], "--dataset", "people"]
    os.mkfifo("pipe.csv")
    content = Path(str(data)).read_text()
    threading.Thread(target=Path("pipe.csv").write_text, args=(content,), daemon=True).start()
    piped = said(run(command[0], "pipe.csv", *command[1:], "--out", "a"))
    assert "data from a pipe count as people only: pass the same --dataset" in piped
    named = said(run(command[0], data, *command[1:], "--out", "b"))
    assert "count as people only" not in named
    assert "in total: " in named
    assert "by 2 releases" in named


def test_entries_are_written_no_more_private_than_they_are(folder: Path) -> None:
    """Numbers were rounded to the nearest, and an epsilon so to less than was charged."""
    accountant = Ledger().accountant("people")
    for size in (0.12345649, 0.7654321234):
        accountant.compose(PureCost(epsilon_pure=size, relation=ReplaceRecord()))
        accountant.compose(GaussianCost(sigma=size, relation=ReplaceRecord()))
    said_of = json.loads(run("ledger", "show", "people", "--json").output)["entries"]
    found = [float(re.search(r"=([0-9.]+)", entry["what"])[1]) for entry in said_of]
    assert found == [0.123457, 0.123456, 0.765433, 0.765432]


@pytest.mark.slow
def test_persons_of_two_columns_need_two_budgets(folder: Path) -> None:
    """A patient has many visits: half the budget hid a patient, and half of it each visit."""
    save_visits()
    pd.read_csv("visits.csv").assign(visit=lambda rows: rows["patient"] // 10).to_csv("visits.csv")
    fit = ["fit-policy", "visits.csv", "--schema", "visits.toml", "--dataset", "clinic"]
    run("ledger", "budget", "clinic", "--epsilon", 2, "--delta", 0)
    assert run(*fit, "--out", "a").exit_code == 0
    refused = run(*fit, "--person", "visit", "--out", "b")
    assert refused.exit_code == 2
    relation = "add or remove one person (visit)"
    assert f"clinic must have a budget for '{relation}' alone" in said(refused)
    assert run("ledger", "budget", "clinic", "--epsilon", 1, "--relation", relation).exit_code == 0
    assert f"of clinic, under {relation} spent before: nothing" in said(
        run(*fit, "--person", "visit", "--out", "c")
    )
    shown = said(run("ledger", "show", "clinic"))
    assert shown.count("one person (visit)") == 2  # of its budget, and of its release


def test_no_refusal_shows_a_name_that_derives_from_the_data(folder: Path) -> None:
    """It differs with each record, so it tells which of two files was read."""
    fit = COMMANDS["histogram"][0]
    assert run(*fit, "--out", "a").exit_code == 0
    derived = Ledger().accounts()[0].dataset
    run("ledger", "budget", derived, "--epsilon", 1, "--delta", "1e-5")
    for words, more in (("must be omitted for these data", ["--dataset", "people"]),
                        ("the spends of these data from", [])):  # fmt: skip
        refused = run(*fit, *more, "--out", "b")
        assert refused.exit_code == 2
        assert words in said(refused)
        assert derived not in refused.output
    assert derived not in repr(Ledger().accountant(derived))


def test_a_budget_may_be_set_for_what_a_refusal_names(folder: Path) -> None:
    """The command that it recommended was refused."""
    book, old = Ledger(), GaussianCost(sigma=9.0, relation=ReplaceStep(arrival_rewards=True))
    book.set_budget("wards", Budget(9.0, 1e-5))
    book.accountant("wards").compose(old)
    with pytest.raises(BudgetExceeded, match="--relation 'replace one step'"):
        book.accountant("wards").compose(replace(old, relation=ReplaceStep()))
    budget = ["ledger", "budget", "wards", "--epsilon", 9, "--relation", "replace one step"]
    assert run(*budget).exit_code == 0
    book.accountant("wards").compose(replace(old, relation=ReplaceStep()))


def test_what_counts_for_a_budget_is_shown_beside_it(folder: Path) -> None:
    """It said that nothing was spent, where entries without a unit count for each."""
    book, cost = Ledger(), LaplaceCost(scale=1.0, relation=AddRemovePerson(), table=SUMS)
    book.accountant("visits").compose(cost)
    book.set_budget("visits", Budget(2.5), AddRemovePerson("visit"))
    assert "1 (1, 0) (2.5, 0) 40 % (visit)" in re.sub(r"\s+", " ", run("ledger", "show").output)
