"""What commands say to programs and to people who mistype: JSON alone, and one style of error."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="no sklearn: pip install 'privrl[models]'")

from typer.main import get_command
from typer.testing import CliRunner

from privrl.cli import app
from privrl.cli.answers import amount
from privrl.data.schema import Bins, Categories, Schema

RUNNER = CliRunner()
COMMANDS = get_command(app).commands


def run(line: str):
    return RUNNER.invoke(app, shlex.split(line), env={"COLUMNS": "80", "TERM": "dumb"})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records, their schema and a network, of which everything was released once."""
    at = tmp_path_factory.mktemp("answers")
    rng = np.random.default_rng(0)
    rows = [f"{rng.integers(100)},{rng.choice(['a', 'b'])}" for _ in range(300)]
    (at / "data.csv").write_text("\n".join(["age,job", *rows]) + "\n")
    Schema({"age": Bins((0, 50, 100)), "job": Categories(("a", "b"))}).save(at / "s.toml")
    (at / "n.toml").write_text("[parents]\nage = []\njob = ['age']\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(at)
        patch.setenv("PRIVRL_LEDGER", str(at / "ledger.sqlite"))
        assert run("ledger budget data --epsilon 50 --delta 1e-5").exit_code == 0
        made = run("histogram data.csv --schema s.toml --column age --dataset data")
        assert made.exit_code == 0, made.output
        made = run("classify data.csv --schema s.toml --target-column job --dataset data")
        assert made.exit_code == 0, made.output
    return at


def strict(text: str) -> dict:
    """Return the one JSON object that a text is, without NaN or infinities."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    found = json.loads(text, parse_constant=refuse)
    assert isinstance(found, dict)
    return found


@pytest.mark.few(9)
@pytest.mark.parametrize(
    ("line", "entries"),
    [
        ("account --weight 1 --alpha 5", "epsilon delta renyi relation"),
        ("account --weight 1 --alpha 1e-29 --orders 64", "epsilon renyi"),
        ("schema --columns a,b --out new.toml", "columns to_fill_in kept files"),
        ("histogram data.csv --schema s.toml --column job --out h", "cells guarantee ledger files"),
        (
            "naive-bayes data.csv --schema s.toml --target-column job --test data.csv --out b "
            "--dataset data",
            "scores guarantee ledger files",
        ),
        (
            "classify data.csv --schema s.toml --target-column job --renyi-order 2 --out c",
            "model guarantee ledger files",
        ),
        (
            "bayes-net data.csv --schema s.toml --network n.toml --mechanism none --out d "
            "--ledger other",
            "nodes edges guarantee files",
        ),
        ("predict results/classify/model.json data.csv --out p", "scores predicts files"),
        ("share results/histogram --to public", "shared left files"),
        ("ledger show", "accounts budgets"),
        ("ledger show data", "entries"),
        ("ledger budget data --epsilon 60 --delta 1e-5", "budget before percent_spent"),
        ("ledger verify", "entries link"),
        ("ledger export", "entries head"),
        ("ledger export --out e.json", "files"),
        ("reproduce list", "figures"),
    ],
)
def test_json_is_all_that_is_printed(folder, monkeypatch, line: str, entries: str) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PRIVRL_LEDGER", str(folder / "ledger.sqlite"))
    result = run(f"{line} --json")
    assert result.exit_code == 0, result.output
    answer = strict(result.stdout)
    assert set(entries.split()) <= set(answer)
    for name in answer.get("files", ()):
        assert Path(name).is_file()
    statement = next((Path(name) for name in answer.get("files", ()) if "release" in name), None)
    if statement is not None and "guarantee" in answer:
        said = json.loads(statement.read_text())
        assert "json" not in said["command"]  # it repeats the release, not how it was told
        for each in ("epsilon", "epsilon_delta"):
            exact = said["guarantee"][each]
            assert exact is None or answer["guarantee"][each] >= exact


def test_amounts_are_as_printed_and_never_below_what_was_spent() -> None:
    assert amount(0.123451) == 0.1235
    assert amount(np.nextafter(1.0, 2)) == 1.001
    assert amount(1.0) == 1.0
    assert amount(float("inf")) is None
    assert amount(None) is None
    printed = run("account --weight 1 --alpha 5").stdout
    told = strict(run("account --weight 1 --alpha 5 --json").stdout)
    assert f"({told['epsilon']:g}, {told['delta']!r})-differential privacy" in printed
    for each in told["renyi"]:
        shown = "∞" if each["epsilon"] is None else f"{each['epsilon']:g}"
        assert re.search(rf"{each['order']:g} +{shown} ", printed)


def test_what_is_refused_answers_nothing(folder: Path, monkeypatch) -> None:
    monkeypatch.chdir(folder)
    result = run("histogram data.csv --schema s.toml --column agee --json")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "did you mean 'age'?" in result.stderr
    assert run("account --weight 1 --alpha 5").stdout != ""  # people are told again


@pytest.mark.slow
def test_every_command_has_short_help_and_answers_programs() -> None:
    ledger = COMMANDS["ledger"].commands
    for name in [*COMMANDS, *(f"ledger {each}" for each in ledger)]:
        shown = run(f"{name} -h")
        assert shown.exit_code == 0, name
        assert shown.stdout == run(f"{name} --help").stdout
        assert max(map(len, shown.stdout.splitlines())) <= 80
        if name != "ledger":
            assert "--json" in shown.stdout, name


def answered(line: str):
    """Return the object that a command prints, and nothing else."""
    done = run(f"{line} --json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout, parse_constant=pytest.fail)


@pytest.mark.slow
def test_agents_answer_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    trained = answered("train --env privrl/RiverSwim-v0 --episodes 3 --out a")
    assert 0.5 < trained["guarantee"]["epsilon_delta"] <= 1
    assert trained["worth"]["policy"] <= trained["worth"]["optimum"]
    assert all(Path(file).is_file() for file in trained["files"])
    played = answered("play a --episodes 5 --seed 0")
    assert played["worth"]["policy"] == trained["worth"]["policy"]
    assert answered("watch a --strip --seed 0")["files"] == ["a/episode.png"]
    sizes = "--episodes 4 --horizon 4 --runs 2 --epsilons 1 --samplers noisy-counts"
    swept = answered(f"sweep {sizes} --backend sequential --out s")
    (private,) = (each for each in swept["means"] if each["epsilon"] is not None)
    assert private["epsilon"] == 1
    assert 0 <= private["reward"] <= swept["optimal_value"]
    made = answered("report a")
    assert made["for"] == "public"
    assert Path(made["report"]).is_file()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("swep", "error: No such command 'swep'. Did you mean 'sweep'? see privrl --help.\n"),
        ("account --wait 1", "error: No such option: --wait"),
        ("train --episode 3", "see privrl train --help.\n"),
        ("predict", "error: Missing argument"),
        ("account --weight x", "error: Invalid value for '--weight'"),
        ("predict none.json x.csv", "error: 'none.json': no such file or folder; look at the"),
        ("predict . x.csv", "error: '.': it is a folder, not a file"),
    ],
)
def test_errors_have_one_style(tmp_path: Path, monkeypatch, line: str, message: str) -> None:
    monkeypatch.chdir(tmp_path)
    result = RUNNER.invoke(app, shlex.split(line), prog_name="privrl", env={"TERM": "dumb"})
    assert result.exit_code == 2
    assert result.stdout == ""
    assert message in result.stderr
    assert result.stderr.startswith("error: ")
    assert "Errno" not in result.stderr
    assert "─" not in result.stderr


@pytest.mark.parametrize(
    ("file", "what"),
    [
        ("s.toml", "which is a file of settings, such as a schema"),
        ("data.csv", "which is no JSON file"),
        ("results/histogram/histogram.json", "which is a histogram"),
        ("results/classify/release.json", "which is the cost of a release"),
        ("broken.json", "a classifier must have the entries"),
    ],
)
def test_predict_says_what_another_file_is(folder, monkeypatch, file: str, what: str) -> None:
    monkeypatch.chdir(folder)
    Path("broken.json").write_text('{"classes": "job"}')
    result = run(f"predict {file} data.csv --out q")
    assert result.exit_code == 2
    assert what in result.stderr
    assert not Path("q").exists()


def test_help_tells_what_the_preset_has() -> None:
    shown = " ".join(run("sweep -h").stdout.replace("│", " ").split())
    assert "(quick: privrl/RiverSwim-v0)" in shown
    assert "(quick: 0.01,0.1,1,10)" in shown
    assert "(quick: non-private, noisy-counts, diffuse)" in shown
    assert "(quick: no)" in shown
    assert "(steps: replace-step)" in run("suite -h").stdout


@pytest.mark.slow
def test_shells_complete_options_that_are_made_late() -> None:
    code = "from privrl.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={
            "PYTHONPATH": ":".join(sys.path),
            "_PRIVRL_COMPLETE": "complete_bash",
            "COMP_WORDS": "privrl sweep --ep",
            "COMP_CWORD": "2",
        },
    )
    assert done.stdout.split() == ["--epsilons", "--episodes"], done.stderr
