"""The command line of suites: a table for 80 columns, files that repeat it, and how it says no."""

import json
import shlex
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from privrl.cli import app
from privrl.cli.terminal import OUT
from privrl.experiments.suites import SuiteSpec
from privrl.experiments.suites.presets import preset

RUNNER = CliRunner()
HERE = ["--runs", "2", "--backend", "sequential"]  # without processes that import all anew
QUICK = ["--tasks", "Queue2,RiverSwim6", "--agents", "psrl", "--episodes", "20", *HERE]


def run(*arguments: str, columns: int = 80):
    before, OUT.width = OUT.width, columns
    try:
        return RUNNER.invoke(app, ["suite", *arguments], env={"TERM": "dumb"})
    finally:
        OUT.width = before


def table_of(path: Path) -> pd.DataFrame:
    return pd.read_csv(path / "suite.csv").drop(columns="seconds")


@pytest.mark.slow
def test_it_writes_its_files_and_prints_a_table_for_a_narrow_terminal(tmp_path: Path) -> None:
    out = tmp_path / "new" / "folder"
    tasks = ["--tasks", "Queue3,Queue4"]  # beside those of QUICK
    result = run(*QUICK, *tasks, "--agents", "psrl,ucbvi", "--out", str(out))
    assert result.exit_code == 0, result.output
    names = ["suite.csv", "suite.json", "suite.png", "suite.sqlite"]
    assert sorted(path.name for path in out.iterdir()) == names
    assert (out / "suite.png").read_bytes().startswith(b"\x89PNG")
    assert len(table_of(out)) == 4 * 2 * 3 * 2
    table = result.output.split("wrote")[0]
    assert max(map(len, table.splitlines())) <= 80
    words = " ".join(table.split())
    for said in (
        "learning/final", "mean, judged", "judged: no setting was chosen by results here.",
        "set: an agent's settings may have been", "Privacy unit: one step replaced",
        "Means of 2 runs",
        "(ε, δ = 1e-05)-DP",
    ):  # fmt: skip
        assert said in words
    mean = table_of(out).groupby(["task", "agent", "epsilon"])["learning"].mean()
    for task in ("RiverSwim6", "Queue3"):
        row = next(line for line in table.splitlines() if line.startswith(f" {task}"))
        assert f"{mean[task, 'psrl', float('inf')]:.2f}".lstrip("0") in row


@pytest.mark.slow
def test_a_wide_terminal_has_one_table_and_a_narrow_one_several(tmp_path: Path) -> None:
    arguments = [*QUICK, "--agents", "psrl,ucbvi,oracle", "--out", str(tmp_path)]
    narrow, wide = (run(*arguments, columns=columns).output for columns in (80, 200))
    assert narrow.count("RiverSwim6") == 3  # one table for each budget
    assert wide.count("RiverSwim6") == 1


@pytest.mark.slow
def test_the_same_command_again_computes_nothing_and_others_what_is_new(tmp_path: Path) -> None:
    out = ["--out", str(tmp_path)]
    first = run(*QUICK, *out)
    assert "already" not in first.output
    before = (tmp_path / "suite.csv").read_bytes()
    assert "6 of 6 jobs were there already" in run(*QUICK, *out).output
    assert (tmp_path / "suite.csv").read_bytes() == before
    assert run(*QUICK, *out, "--epsilons", "none,1,0.1,10").exit_code == 2
    assert (tmp_path / "suite.csv").read_bytes() == before
    more = run(*QUICK, *out, "--epsilons", "none,1,0.1,10", "--force")
    assert "6 of 8 jobs were there already" in more.output


@pytest.mark.slow
def test_the_saved_command_and_the_saved_spec_repeat_it(tmp_path: Path) -> None:
    first, second, third = (tmp_path / name for name in "abc")
    changed = ["--seed", "7", "--schedules", "geometric:1.3", "--relation", "replace-transition"]
    assert run(*QUICK, *changed, "--out", str(first)).exit_code == 0
    saved = json.loads((first / "suite.json").read_text())
    assert saved["versions"].keys() >= {"privrl", "numpy", "python"}
    assert SuiteSpec.from_dict(saved["spec"]).relation == "replace-transition"
    program, _, *arguments = shlex.split(saved["command"])
    assert program == "privrl"
    here = ["--backend", "sequential"]
    assert run(*arguments, *here, "--out", str(second)).exit_code == 0
    spec = ["--spec", str(first / "suite.json"), *here]
    assert run(*spec, "--out", str(third)).exit_code == 0
    for other in (second, third):
        pd.testing.assert_frame_equal(table_of(first), table_of(other), check_exact=True)


@pytest.mark.slow
def test_users_are_a_preset(tmp_path: Path) -> None:
    """Any part of which is overridden; rows say how many users there are."""
    arguments = ["--preset", "users", "--tasks", "Queue3", "--episodes", "20,1e3", "--runs", "1"]
    result = run(*arguments, "--epsilons", "1", "--backend", "sequential", "--out", str(tmp_path))
    assert result.exit_code == 0, result.output
    assert "Queue3, 1k" in result.output
    assert "Privacy unit: one episode replaced" in " ".join(result.output.split())
    assert preset("users").episodes == (100_000, 1_000_000)


@pytest.mark.few(18)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tasks", "RiverSwin6"], "did you mean 'RiverSwim6'"),
        (["--tasks", ","], "tasks must name at least one"),
        (["--tasks", "RiverSwim51"], "must have 6 to 50 states, got 51"),
        (["--tasks", "mine.npz"], "no such file"),
        (["--agents", "prsl"], "did you mean 'psrl'"),
        (["--agents", ","], "agents must name at least one"),
        (["--epsilons", "1,nil"], "epsilons must be comma-separated numbers, got 'nil'"),
        (["--epsilons", "-1"], "epsilons must be a number > 0"),
        (["--epsilons", ","], "epsilons must hold at least one"),
        (["--episodes", "0.5"], "episodes must be a whole number"),
        (["--episodes", "inf"], "episodes must be a whole number"),
        (["--episodes", "ten"], "episodes must be comma-separated numbers"),
        (["--runs", "0"], "runs must be a whole number"),
        (["--relation", "replace-user"], "relation must be one of"),
        (["--preset", "user"], "did you mean 'users'"),
        (["--preset", "users", "--spec", "suite.json"], "give --preset or --spec, not both"),
        (["--spec", "none.json"], "no such file"),
        (["--backend", "lokey"], "did you mean 'loky'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_a_sentence(arguments: list[str], message: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = run(*arguments, "--out", str(out), columns=400)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())
    assert "Traceback" not in result.output
    assert not out.exists()
