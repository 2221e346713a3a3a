"""The command line: what it writes, and how it says no."""

import json
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
import time
import tomllib
from contextlib import closing, suppress
from dataclasses import fields
from pathlib import Path
from typing import Annotated, get_origin

import numpy as np
import pandas as pd
import pytest
from typer.core import TyperGroup
from typer.testing import CliRunner

from privrl.__main__ import main as run_command
from privrl.agents import Policy
from privrl.agents.methods import AGENTS, SAMPLERS
from privrl.cli import app
from privrl.experiments import Method, SweepSpec, TrainSpec, run_training
from privrl.experiments.suites import SuiteSpec
from privrl.numerics.printing import up
from privrl.numerics.randomness import SECRET, SEEDED

RUNNER = CliRunner()
HERE = ["--backend", "sequential"]  # without processes that import everything anew
QUICK = ["--episodes", "30", "--runs", "2", "--epsilons", "0.1,1", *HERE]


def run(*arguments: str):
    return RUNNER.invoke(app, list(arguments), env={"COLUMNS": "200", "TERM": "dumb"})


@pytest.mark.slow
def test_sweep_writes_its_files_and_prints_a_table(tmp_path: Path) -> None:
    arguments = ["--backend", "loky", "--out", str(tmp_path / "new" / "folder")]
    result = run("sweep", *QUICK, *arguments)
    assert result.exit_code == 0, result.output
    out = tmp_path / "new" / "folder"
    assert sorted(p.name for p in out.iterdir()) == [
        "curves.csv", "learning_curves.png", "regret_vs_epsilon.png", "results.csv",
        "reward_vs_epsilon.png", "sweep.json", "sweep.sqlite",
    ]  # fmt: skip
    for picture in out.glob("*.png"):
        assert picture.read_bytes().startswith(b"\x89PNG")
    assert len(pd.read_csv(out / "results.csv")) == (1 + 3 * 2) * 2
    assert "noisy-counts" in result.output
    assert "one step replaced" in result.output


@pytest.mark.slow
def test_a_sweep_of_shorter_episodes_than_the_environments_says_so(tmp_path: Path) -> None:
    few = ["--episodes", "2", "--runs", "1", "--epsilons", "1", "--samplers", "noisy-counts", *HERE]
    lake = [*few, "--env", "FrozenLake-v1"]
    said = "plays 30 steps of an episode, and FrozenLake-v1 has 100; --horizon 100 plays all"
    assert said in " ".join(run("sweep", *lake, "--out", str(tmp_path / "a")).output.split())
    for more in ([*lake, "--horizon", "30"], few):
        result = run("sweep", *more, "--out", str(tmp_path / str(len(more))))
        assert result.exit_code == 0, result.output
        assert "steps of an episode, and" not in result.output


@pytest.mark.few(30)
@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("agent", AGENTS)
def test_a_sweep_takes_every_sampler_and_agent_that_it_offers(agent, sampler, tmp_path) -> None:
    """That of sparse counts failed after all of its work was done."""
    small = ["--episodes=20", "--horizon=5", "--runs=2", "--epsilons=1,2", "--backend=sequential"]
    takes = ["--agents", agent, "--samplers", sampler, "--out", str(tmp_path)]
    result = run("sweep", *small, *takes)
    assert result.exit_code in (0, 2), result.output  # 2: refused before any work
    assert result.exit_code == 0 or not list(tmp_path.iterdir()), result.output
    if agent == "psrl":
        assert result.exit_code == 0, result.output


@pytest.mark.slow
def test_the_saved_command_repeats_the_sweep(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    run("sweep", *QUICK, "--seed", "7", "--schedules", "geometric:1.3", "--out", str(first))
    saved = json.loads((first / "sweep.json").read_text())
    program, *arguments = shlex.split(saved["command"])
    assert program == "privrl"
    assert run(*arguments, "--out", str(second)).exit_code == 0
    assert (first / "results.csv").read_bytes() == (second / "results.csv").read_bytes()
    assert saved["versions"].keys() >= {"privrl", "numpy", "python"}


@pytest.mark.slow
def test_a_saved_spec_repeats_the_sweep_and_can_be_overridden(tmp_path: Path) -> None:
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    assert run("sweep", *QUICK, "--seed", "7", "--out", str(first)).exit_code == 0
    saved = json.loads((first / "sweep.json").read_text())
    bare = tmp_path / "bare.json"
    bare.write_text(json.dumps(saved["spec"]))
    assert run("sweep", "--spec", str(first / "sweep.json"), "--out", str(second)).exit_code == 0
    for name in ("results.csv", "curves.csv"):
        assert (first / name).read_bytes() == (second / name).read_bytes()
    assert run("sweep", "--spec", str(bare), "--epsilons", "1", "--out", str(third)).exit_code == 0
    saved["spec"]["epsilons"] = [1.0]
    assert json.loads((third / "sweep.json").read_text())["spec"] == saved["spec"]


@pytest.mark.slow
def test_the_same_command_again_computes_nothing(tmp_path: Path) -> None:
    command = ["sweep", *QUICK, "--samplers", "noisy-counts", "--out", str(tmp_path)]
    first = run(*command)
    assert "already" not in first.output
    before = (tmp_path / "results.csv").read_bytes()
    again = run(*command)
    assert "2 of 2 jobs were there already" in again.output
    assert (tmp_path / "results.csv").read_bytes() == before
    more = [*command, "--epsilons", "5"]  # one more
    refused = run(*more)
    assert refused.exit_code == 2
    assert "add --force to overwrite" in " ".join(refused.output.split())
    assert (tmp_path / "results.csv").read_bytes() == before
    assert "2 of 3 jobs were there already" in run(*more, "--force").output


@pytest.mark.slow
@pytest.mark.needs("pyarrow")
def test_parquet_holds_what_csv_holds(tmp_path: Path) -> None:
    assert run("sweep", *QUICK, "--parquet", "--out", str(tmp_path)).exit_code == 0
    for name in ("results", "curves"):
        table = pd.read_parquet(tmp_path / f"{name}.parquet")
        old = int(pd.__version__.split(".")[0]) < 3  # whose reader may be off by the last bit
        csv = pd.read_csv(
            tmp_path / f"{name}.csv", **({"float_precision": "round_trip"} if old else {})
        )
        pd.testing.assert_frame_equal(table, csv, check_exact=True)


def test_parquet_without_its_package_is_refused_before_the_sweep(
    tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    result = run("sweep", *QUICK, "--parquet", "--out", str(tmp_path / "out"))
    assert result.exit_code == 2
    assert "pip install 'privrl[parquet]'" in " ".join(result.output.split())
    assert not (tmp_path / "out").exists()


# What runs in the background ignores interrupts, and so would this child of it.
_INTERRUPTIBLE = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from privrl.cli import main
main()
"""


def jobs_kept(database: Path) -> int:
    address = f"file:{database}?mode=ro"
    with (
        suppress(sqlite3.OperationalError),  # no file or no table yet
        closing(sqlite3.connect(address, uri=True)) as opened,
    ):
        return opened.execute("SELECT count(*) FROM jobs").fetchone()[0]
    return 0


@pytest.mark.slow
def test_an_interrupted_sweep_says_how_to_go_on(tmp_path: Path) -> None:
    arguments = ["sweep", "--episodes", "500", "--runs", "30", "--block", "10"]
    arguments += ["--backend", "sequential"]
    process = subprocess.Popen(
        [sys.executable, "-c", _INTERRUPTIBLE, *arguments, "--out", str(tmp_path)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    while process.poll() is None and not jobs_kept(tmp_path / "sweep.sqlite"):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate()
    assert process.returncode == 130, output
    assert "of 39 jobs are kept in" in " ".join(output.split())
    assert "Traceback" not in output


@pytest.mark.slow
def test_a_file_that_is_no_database_stays(tmp_path: Path) -> None:
    (tmp_path / "sweep.sqlite").write_text("my notes")
    result = run("sweep", *QUICK, "--out", str(tmp_path))
    assert result.exit_code == 2
    assert "file is not a database" in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["sweep.sqlite"]
    assert (tmp_path / "sweep.sqlite").read_text() == "my notes"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no JSON", "spec must be a JSON file"),
        ('{"runz": 3}', "spec has no field 'runz'; did you mean 'runs'"),
        ('{"spec": {"runs": "3"}}', "spec.runs must be of type int"),
        ("[" * 100_000, "spec.json': brackets must not be nested so deeply."),
        ('{"spec":' * 50_000, "brackets must not be nested so deeply."),
        ('{"runs": 3, "runs": 4}', "keys must be unique"),
        ('{"runs": 1' + "0" * 400 + "}", "numbers must be finite"),
    ],
)
def test_a_bad_spec_file_is_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "spec.json").write_text(text)
    result = run("sweep", "--spec", str(tmp_path / "spec.json"), "--out", str(tmp_path / "out"))
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "env", ["FrozenLake-v1", "Taxi-v4", "CliffWalking-v1", "privrl/RiverSwim-v0"]
)
def test_train(env: str, tmp_path: Path) -> None:
    result = run("train", "--env", env, "--episodes", "4", "--out", str(tmp_path))
    assert result.exit_code == 0, result.output
    policy = Policy.load(tmp_path / "policy.json").actions
    horizon = {"FrozenLake-v1": 100, "Taxi-v4": 200, "privrl/RiverSwim-v0": 30}.get(env, 100)
    assert policy.shape[0] == horizon
    assert len(pd.read_csv(tmp_path / "record.csv")) == 4
    guarantee = json.loads((tmp_path / "train.json").read_text())["guarantee"]
    on_arrival = ", rewards paid on arrival" if env == "FrozenLake-v1" else ""
    assert guarantee["relation"] == "replace one step" + on_arrival
    assert guarantee["caveats"] == []
    assert 0.999 < guarantee["epsilon_delta"] <= 1
    assert (guarantee["delta"], guarantee["order"]) == (1e-5, None)
    assert guarantee["draws"] == 3  # nothing is released before the first episode


OPTIONS = [
    "--agent=ucbvi",
    "--agent=oracle",
    "--agent=random",
    "--agent=psrl --rewards=known",
    "--agent=psrl --sampler=diffuse --schedule=geometric:1.3 --window=2",
    "--agent=psrl --resamples=every-episode",
    "--agent=psrl --renyi-order=2 --reward-epsilon=0.5 --threshold=0 --support",
    "--reward-share=0.5 --support",
    "--relation=replace-transition --reward-range=-1,2 --horizon=7",
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env", "options"),
    [
        pytest.param(env, options, marks=[pytest.mark.slow] if (i + j) % 2 else [])
        for i, env in enumerate(["FrozenLake-v1", "privrl/RiverSwim-v0"])
        for j, options in enumerate(OPTIONS)
    ],
)
def test_train_takes_what_sweep_takes_and_its_command_repeats_it(
    env: str, options: str, tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    arguments = ["--env", env, "--episodes", "4", "--reproducible", "--seed", "1", *options.split()]
    result = run("train", *arguments, "--out", str(first))
    assert result.exit_code == 0, result.output
    saved = json.loads((first / "train.json").read_text())
    _, *again = shlex.split(saved["command"])
    assert run(*again, "--out", str(second)).exit_code == 0
    for name in ("policy.json", "policy.png", "learning_curve.png", "record.csv"):
        assert (first / name).read_bytes() == (second / name).read_bytes()
    spec = TrainSpec.from_dict(saved["spec"])
    saved = Policy.load(first / "policy.json")
    np.testing.assert_array_equal(run_training(spec).policy.actions, saved.actions)


@pytest.mark.slow
def test_train_says_what_its_numbers_mean(tmp_path: Path) -> None:
    """Against the tables of the same environment: 0.7442 of 100 steps is the known optimum."""
    result = run("train", "--env=FrozenLake-v1", "--agent=oracle", "--out", str(tmp_path))
    said = " ".join(result.output.split())
    assert "Reward of one episode of FrozenLake-v1, the sum over its 100 steps or fewer" in said
    assert "the best there is 0.7442 100 % policy.json, expected 0.7442 100 %" in said
    assert re.search(
        r"learning, the last 100 0\.\d+ \d+ % while learning, all episodes 0\.\d+", said
    )
    assert "random actions 0.01394 0 %" in said
    assert "show what the agent earned in each episode, without any privacy" in said
    assert f"privrl play {tmp_path}" in said
    assert f"privrl watch {tmp_path}" in said
    worth = json.loads((tmp_path / "train.json").read_text())["worth"]
    assert worth["policy"] == pytest.approx(0.7442, abs=5e-5)
    assert worth["policy"] == pytest.approx(worth["optimum"])
    assert worth["share"] == pytest.approx(1.0)
    simple = ["train", "--env=CartPole-v1", "--agent=random", "--episodes=3", f"--out={tmp_path}"]
    assert run(*simple).exit_code == 2
    assert json.loads((tmp_path / "train.json").read_text())["worth"] == worth
    result = run(*simple, "--force")
    assert "share" not in result.output
    assert json.loads((tmp_path / "train.json").read_text())["worth"] is None


def test_every_field_with_a_sentence_is_an_option() -> None:
    for command, spec in (("train", TrainSpec), ("sweep", SweepSpec), ("suite", SuiteSpec)):
        shown = run(command, "--help").output
        for field in (*fields(spec), *fields(Method)):
            name, told = field.name, get_origin(field.type) is Annotated
            told |= command == "suite" and name in ("tasks", "epsilons")  # read by the command
            several = command != "train" and name in ("agent", "sampler", "schedule")
            name = {"env_args": "env_arg"}.get(name, name)  # given once for each
            flag = f"--{name.replace('_', '-')}{'s' * several} "
            assert (flag in shown) == told


INTERRUPTED = """
import signal, sys

signal.signal(signal.SIGINT, signal.default_int_handler)

class Finder:
    def find_spec(self, name, *_):
        if name == {module!r}:
            sys.meta_path.remove(self)
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Finder())
sys.argv[:] = ["privrl", "histogram", "data.csv", "--schema=s.toml", "--column=a", "--out=out"]
from privrl.__main__ import main
main()
"""


@pytest.mark.few(5)
@pytest.mark.parametrize(
    "module", ["typer.core", "privrl.cli", "privrl.cli.train", "privrl.data.records", "numpy"]
)
def test_an_interrupt_while_a_command_is_imported_is_answered(module: str, tmp_path: Path) -> None:
    """It printed a traceback of up to thirty lines."""
    code = INTERRUPTED.format(module=module)
    Path(tmp_path, "s.toml").write_text('[columns.a]\ncategories = ["x", "y"]\n')
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, cwd=tmp_path
    )
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "stopped; no file is incomplete.\n"


@pytest.mark.parametrize("interrupted", [True, False])
def test_an_interrupt_while_a_class_is_made_is_answered(
    interrupted: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Python 3.11 makes it the cause of an error; other errors are not hidden."""

    def made() -> None:
        raise RuntimeError("Error calling __set_name__") from (
            KeyboardInterrupt() if interrupted else ValueError()
        )

    monkeypatch.setattr("privrl.cli.main", made)
    with pytest.raises(SystemExit if interrupted else RuntimeError) as caught:
        run_command()
    assert not interrupted or caught.value.args == (130,)
    assert capsys.readouterr().err == "stopped; no file is incomplete.\n" * interrupted


def test_an_interrupt_before_a_command_itself_runs_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Typer ended without a word."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(TyperGroup, "invoke", interrupted)
    result = run("ledger", "verify")
    assert result.exit_code == 130
    assert "stopped; no file is incomplete." in result.output


def test_the_installed_command_is_the_one_that_answers() -> None:
    scripts = tomllib.loads(Path(__file__).parents[2].joinpath("pyproject.toml").read_text())[
        "project"
    ]["scripts"]
    assert scripts == {"privrl": "privrl.__main__:main"}


@pytest.mark.slow
def test_help_and_the_face_load_little() -> None:
    """What takes long to load is loaded by what needs it."""
    for code, absent in (
        ("from privrl.cli import app; app(['--help'], standalone_mode=False)", "numpy pandas"),
        ("import privrl.experiments", "numpy pandas matplotlib"),
        ("import privrl.experiments.training, privrl.files.files", "matplotlib"),
    ):
        told = f"import sys; {code}; print('loaded', set(sys.modules) & set({absent.split()!r}))"
        done = subprocess.run(
            [sys.executable, "-c", told], check=False, capture_output=True, text=True
        )
        assert done.stdout.splitlines()[-1] == "loaded set()", done.stdout + done.stderr


@pytest.mark.slow
def test_training_without_a_seed_is_fresh(tmp_path: Path) -> None:
    """Equal noise twice would be no noise at all."""
    records = []
    for name in ("a", "b"):
        run(
            "train",
            "--env",
            "privrl/RiverSwim-v0",
            "--episodes",
            "40",
            "--out",
            str(tmp_path / name),
        )
        records.append((tmp_path / name / "record.csv").read_bytes())
    assert records[0] != records[1]


@pytest.mark.slow
def test_a_seed_is_no_guarantee(tmp_path: Path) -> None:
    result = run(
        "train", "--env", "privrl/RiverSwim-v0", "--episodes", "3", "--reproducible", "--seed", "1",
        "--out", str(tmp_path),
    )  # fmt: skip
    assert "no guarantee: whoever knows the seed" in " ".join(result.output.split())
    guarantee = json.loads((tmp_path / "train.json").read_text())["guarantee"]
    assert guarantee["caveats"]
    assert guarantee["randomness"] == SEEDED
    again = ["train", "--env", "privrl/RiverSwim-v0", "--episodes", "3", "--out", str(tmp_path)]
    run(*again, "--force")
    guarantee = json.loads((tmp_path / "train.json").read_text())["guarantee"]
    assert (guarantee["caveats"], guarantee["randomness"]) == ([], SECRET)


@pytest.mark.slow
def test_one_draw_in_all(tmp_path: Path) -> None:
    few = ["--episodes", "1", "--runs", "2", "--epsilons", "0.1,10", *HERE]
    result = run("sweep", *few, "--out", str(tmp_path))
    assert result.exit_code == 0, result.output
    table = pd.read_csv(tmp_path / "results.csv")
    assert (table["draws"] == 1).all()
    assert np.isfinite(table.loc[table["epsilon"] <= 10, "epsilon_delta"]).all()


@pytest.mark.slow
def test_non_private_training_claims_nothing(tmp_path: Path) -> None:
    result = run(
        "train", "--env", "FrozenLake-v1", "--episodes", "3", "--sampler", "non-private",
        "--out", str(tmp_path),
    )  # fmt: skip
    assert "no privacy guarantee" in result.output
    assert json.loads((tmp_path / "train.json").read_text())["guarantee"]["epsilon"] is None


def test_account() -> None:
    out = run("account", "--weight", "1", "--alpha", "5", "--orders", "2").output
    assert "(2.972, 1e-05)-differential privacy" in out
    assert "0.4055" in out
    assert "replace one record" in out


def test_account_solves() -> None:
    out = run("account", "--weight", "1", "--epsilon", "1", "--renyi-order", "2").output
    assert re.search(r"RenyiDP\(order=2.0, epsilon=1.0\): 2\.16396\n", out)  # 2.163953..., up
    out = run("account", "--alpha", "5", "--epsilon", "2.97194", "--delta", "1e-5").output
    assert "largest weight" in out
    assert "epsilon=2.97194, delta=1e-05): 1\n" in out  # 1.00000000006..., which is rounded down
    assert "(2.972, 1e-05)-differential privacy" in out


def test_the_papers_step_warns_without_a_traceback() -> None:
    result = run("account", "--weight", "1", "--alpha", "5", "--relation", "paper-step")
    assert result.exit_code == 0
    assert "too small" in result.output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sweep", "--epsilons", "0.1,zero"], "epsilons must be comma-separated numbers"),
        (["sweep", "--epsilons", "-1"], "epsilons must be a number > 0"),
        (["sweep", "--epsilons", "nan"], "epsilons must be a number > 0"),
        (["sweep", "--samplers", ","], "samplers must name at least one"),
        (
            [
                "account",
                "--weight",
                "1",
                "--alpha",
                "1",
                "--relation",
                "replace-episode",
                "--horizon",
                "0",
            ],
            "horizon must be",
        ),
        (["sweep", "--epsilons", ","], "epsilons must hold at least one"),
        (["sweep", "--samplers", "bright"], "sampler must be one of"),
        (["sweep", "--env", "FrozenLak-v1"], "Did you mean 'FrozenLake-v1'"),
        (["sweep", "--env", "CartPole-v1"], "env must carry its tables"),
        (["sweep", "--renyi-order", "1"], "order must be"),
        (["sweep", "--runs", "0"], "runs must be"),
        (["sweep", "--block", "0"], "block must be"),
        (["sweep", "--spec", "none.json"], "no such file"),
        (["sweep", "--spec", "a.json", "--preset", "quick"], "give --preset or --spec"),
        (["sweep", "--backend", "locky"], "did you mean 'loky'"),
        (["sweep", "--workers", "0"], "workers must be"),
        (["sweep", "--address", "tcp://here:1"], "address is for the backends dask and ray"),
        (
            ["train", "--env", "Pendulum-v1", "--bins", "9"],
            "env must have an action space of Discrete",
        ),
        (["train", "--env", "MountainCar-v0", "--bins", "12,12,12"], "bins must be for each of 2"),
        (["train", "--env", "MountainCar-v0", "--bins", "twelve"], "bins must be, for each"),
        (["train", "--env", "CartPole-v1", "--bins", "12"], "say LOW:HIGH:12, or 1 to ignore it"),
        (["train", "--env", "FrozenLake-v1", "--bins", "12"], "bins are for real numbers in"),
        (["train", "--env", "FrozenLake-v1", "--env-arg", "8"], "env_args must each be name=value"),
        (
            ["train", "--env", "FrozenLake-v1", "--env-arg", "size=8"],
            "'FrozenLake-v1' with size=8: FrozenLakeEnv.__init__() got an unexpected keyword",
        ),
        (
            ["train", "--env", "FrozenLake-v1", "--env-arg", "a=1", "--env-arg", "a=2"],
            "env_args must give each name once, got 'a' twice",
        ),
        (["train", "--env", "privrl/Tabular-v0"], "mdp or path must be given, got neither"),
        (
            ["train", "--env", "privrl/RiverSwim-v0", "--horizon", "31"],
            "horizon must be at most 30",
        ),
        (["train", "--env", "FrozenLake-v1", "--epsilon", "0"], "epsilon must be"),
        (["train", "--env", "FrozenLake-v1", "--reward-range", "1,0"], "LOW < HIGH"),
        (["train", "--env", "Taxi-v4", "--reward-range", "0,1"], "must hold all rewards"),
        (["train", "--env", "FrozenLake-v1", "--relation", "replace-record"], "relation must be"),
        (["train", "--env", "FrozenLake-v1", "--horizon", "0"], "horizon must be"),
        (["train", "--env", "FrozenLake-v1", "--seed", "1"], "add --reproducible"),
        (["account", "--weight", "1"], "give --alpha"),
        # Python's own error has no words.
        (["sweep", "--episodes", str(10**16)], "error: out of memory"),
        (["account"], "give --weight, --alpha or both"),
        (["account", "--weight", "1", "--alpha", "nan"], "alpha must be"),
        (["account", "--weight", "1", "--alpha", "0"], "alpha must be"),
        (["account", "--weight", "1", "--alpha", "1", "--orders", "1"], "orders must be"),
        (["account", "--weight", "1", "--alpha", "1", "--count", "0"], "count must be"),
        (["account", "--weight", "1", "--alpha", "1", "--delta", "0"], "delta must be"),
        (["account", "--weight", "1", "--alpha", "1", "--bound", "guess"], "bound must be"),
        (["account", "--weight", "1", "--alpha", "1", "--table", "x"], "table must be"),
        (
            ["account", "--weight", "1", "--alpha", "1", "--relation", "replace-episode"],
            "--horizon",
        ),
        (["account", "--alpha", "1", "--epsilon", "-2"], "epsilon must be"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_one_sentence_and_leaves_nothing(
    arguments: list[str], message: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    where = [] if arguments[0] == "account" else ["--out", str(out)]
    result = run(*arguments, *where)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())
    assert "Traceback" not in result.output
    assert not out.exists()


def test_a_file_is_not_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    result = run("sweep", *QUICK, "--out", str(tmp_path / "file"))
    assert result.exit_code == 2
    assert "out must be a folder" in result.output
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize(
    ("epsilon", "shown"),
    [(0.1, "0.1"), (1.00001, "1.001"), (2.9719305, "2.972"), (1e-9, "1e-09"), (np.inf, "∞"),
     (0.0, "0"), (12345.6, "12350")],
)  # fmt: skip
def test_epsilons_are_never_rounded_down(epsilon: float, shown: str) -> None:
    assert up(epsilon) == shown


BROKEN = """
import gymnasium as gym
from gymnasium import spaces

class Broken(gym.Env):
    observation_space, action_space = spaces.Discrete(2), spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        return 0, {}[4711], False, False, {}

gym.register("Broken-v0", Broken, max_episode_steps=3)
"""


WRAPPED = BROKEN.replace(
    'gym.register("Broken-v0", Broken,',
    """
class Seen(gym.ObservationWrapper):
    def observation(self, observation):
        raise LookupError(f"what is {observation + 4711}?")

gym.register("Wrapped-v0", lambda: Seen(Broken()),""",
)


def test_a_wrapper_that_raises_shows_no_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wrapped_env.py").write_text(WRAPPED)
    monkeypatch.syspath_prepend(str(tmp_path))
    command = ["train", "--env", "wrapped_env:Wrapped-v0", "--episodes", "2"]
    result = run(*command, "--out", str(tmp_path / "out"))
    assert result.exit_code == 2
    assert "the environment failed in Seen.observation" in " ".join(result.output.split())
    assert "4711" not in result.output


ODD_SPACE = (
    BROKEN.replace("0, {}[4711], False, False", "1, 0.5, False, False")
    .replace(
        "class Broken",
        """
class Odd(spaces.Discrete):
    def contains(self, x):
        raise OverflowError(f"{x + 4710} is too large")

class Broken""",
    )
    .replace("spaces.Discrete(2), spaces.Discrete(2)", "Odd(2), spaces.Discrete(2)")
)


@pytest.mark.slow
def test_a_warning_of_gymnasium_shows_no_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its check of the first observations quotes an exception of their space."""
    (tmp_path / "odd_space.py").write_text(ODD_SPACE.replace("Broken-v0", "Odd-v0"))
    monkeypatch.syspath_prepend(str(tmp_path))
    command = ["train", "--env", "odd_space:Odd-v0", "--episodes", "2"]
    result = run(*command, "--out", str(tmp_path / "out"))
    assert result.exit_code == 0, result.output
    assert "is not within the observation space" in " ".join(result.output.split())
    assert "4711" not in result.output


def test_an_environment_that_raises_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_env.py").write_text(BROKEN)
    monkeypatch.syspath_prepend(str(tmp_path))
    command = ["train", "--env", "broken_env:Broken-v0", "--episodes", "2"]
    result = run(*command, "--out", str(tmp_path / "out"))
    assert result.exit_code == 2
    assert " ".join(result.output.split()) == (
        "error: the environment failed in Broken.step (broken_env.py, line 13): KeyError; "
        "--debug shows the traceback, which may show a state."
    )
    for place in (0, len(command)):
        debugged = [*command[:place], "--debug", *command[place:], "--out", str(tmp_path / "out")]
        with pytest.raises(KeyError, match="4711"):
            CliRunner().invoke(app, debugged, catch_exceptions=False)
    assert not (tmp_path / "out").exists()
