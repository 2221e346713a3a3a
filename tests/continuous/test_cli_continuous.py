"""Logs with ranges in fit-model and fit-policy: what is written, charged and refused."""

import json
import shlex
from pathlib import Path

import gymnasium
import numpy as np
import pandas as pd
import pytest
from commands import run, said

from privrl.accounting import Ledger
from privrl.continuous import ContinuousModel, ContinuousPolicy, plan_continuous

SCHEMA = """
person = "patient"
order = "hour"

[state.x]
range = [-1, 1]

[state.phase]
range = [0, 24]
periodic = true

[state.ward]
categories = ["a", "b"]

[action.dose]
range = [0, 2]
levels = 3

[reward]
column = "score"
range = [-1, 0]
"""
LOG = ["log.csv", "--schema", "schema.toml"]
FIT = ["fit-model", *LOG]
MODEL = ["model.json", "release.json", "tables.npz"]
POLICY = ["policy.json", "release.json", "tables.npz"]
SECRET = "4321.5"


def names(folder: str) -> list[str]:
    return sorted(path.name for path in Path(folder).iterdir())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a log in which a dose of 2 raises x, and a dose of 0 lowers it."""
    monkeypatch.chdir(tmp_path)
    rng, n, rows = np.random.default_rng(0), 300, []
    x = rng.uniform(-0.5, 0.5, n)
    for hour in range(8):
        dose = rng.integers(3, size=n)
        rows.append(
            pd.DataFrame(
                {"patient": np.arange(n), "hour": hour, "x": x, "phase": hour,
                 "ward": np.where(np.arange(n) % 2, "a", "b"), "dose": dose, "score": -np.abs(x)}
            )
        )  # fmt: skip
        x = 0.9 * x + 0.1 * (dose - 1)
    pd.concat(rows).to_csv("log.csv", index=False)
    Path("schema.toml").write_text(SCHEMA)
    return tmp_path


@pytest.mark.slow
def test_a_model_is_written_charged_played_and_planned_in(folder: Path) -> None:
    result = run(*FIT, "--epsilon", 5, "--delta", "1e-6", "--out", "model")
    assert result.exit_code == 0, result.output
    assert "model.json cost: (5, 1e-06)-differential privacy; privacy unit: " in said(result)
    assert "add or remove one person (patient), patient: all episodes" in said(result)
    assert names("model") == MODEL
    (account,) = Ledger().accounts()
    assert account.total.releases == 1
    assert account.total.epsilon(1e-6) == pytest.approx(5, rel=0.01)
    guarantee = json.loads(Path("model/release.json").read_text())["guarantee"]
    assert (guarantee["epsilon_delta"], guarantee["delta"]) == (5, 1e-6)
    assert guarantee["unit"] == "patient: all episodes"
    model = ContinuousModel.load("model")
    assert model.statement is not None
    assert (model.statement["epsilon"], model.statement["delta"]) == (5, 1e-6)
    play = 'gymnasium.make("privrl.envs:privrl/ReleasedContinuous-v0", path="model")'
    assert play in result.output
    env = eval(play, {"gymnasium": gymnasium})
    env.reset(seed=0)
    assert env.step(0)[0].shape == (3,)

    assert "a model for 3 state columns and 3 actions, from about" in said(result)

    before = {path: path.read_bytes() for path in Path("model").iterdir()}
    planned = ["fit-policy", "--from-model", "model", "--discount", 0.9]
    result = run(*planned, "--out", "policy")
    assert result.exit_code == 0, result.output
    assert "adds nothing to the cost of its model: (5, 1e-06)-differential privacy" in said(result)
    assert names("policy") == POLICY
    policy = ContinuousPolicy.load("policy")
    assert policy.discount == 0.9
    np.testing.assert_array_equal(policy.worth, plan_continuous(model, discount=0.9).worth)
    assert {path: path.read_bytes() for path in Path("model").iterdir()} == before
    assert len(Ledger().entries()) == 1

    assert "a policy for 3 state columns and 3 actions, from about" in said(result)

    for made, files in (("model", MODEL), ("policy", POLICY)):
        result = run("share", made, "--to", f"public-{made}")
        assert result.exit_code == 0, result.output
        assert names(f"public-{made}") == files


@pytest.mark.slow
def test_a_policy_of_a_log_is_the_plan_in_its_model(folder: Path) -> None:
    seeded = ["--seed", 3, "--reproducible", "--epsilon", 5]
    assert run(*FIT, *seeded, "--out", "model").exit_code == 0
    result = run("fit-policy", *LOG, *seeded, "--discount", 0.9, "--out", "policy", "--json")
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert answer["guarantee"]["epsilon_delta"] == 5
    assert (answer["columns"], answer["actions"]) == (3, 3)
    assert names("policy") == POLICY
    assert [entry["about"] for entry in Ledger().entries()] == ["fit-model", "fit-policy"]
    policy = ContinuousPolicy.load("policy")
    wanted = plan_continuous(ContinuousModel.load("model"), discount=0.9)
    np.testing.assert_array_equal(policy.worth, wanted.worth)
    assert policy.statement == wanted.statement
    assert "caveats" in json.loads(Path("policy/policy.json").read_text())["statement"]


@pytest.mark.slow
def test_the_command_in_release_json_repeats_the_run(folder: Path) -> None:
    options = ["--renyi-order", 4, "--relation", "replace", "--reproducible", "--seed", 3]
    result = run(*FIT, *options, "--json", "--out", "a")
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert answer["guarantee"]["order"] == 4
    assert answer["guarantee"]["caveats"] == ["whoever knows the seed can undo the noise"]
    assert answer["ledger"]["together"]["releases"] == 1
    again = shlex.split(json.loads(Path("a/release.json").read_text())["command"])
    assert run(*again[1:], "--out", "b").exit_code == 0
    for name in ("model.json", "tables.npz"):
        assert Path("a", name).read_bytes() == Path("b", name).read_bytes()
    assert b"whoever knows the seed" in Path("a/model.json").read_bytes()
    assert run("share", "a", "--to", "public").exit_code == 2


def test_earlier_files_are_kept_unless_forced(folder: Path) -> None:
    assert run(*FIT, "--out", "out").exit_code == 0
    before = Path("out/model.json").read_bytes()
    result = run(*FIT, "--out", "out")
    assert result.exit_code == 2
    assert "already has model.json, tables.npz, release.json" in said(result)
    assert Path("out/model.json").read_bytes() == before
    assert len(Ledger().entries()) == 1
    assert run(*FIT, "--out", "out", "--force").exit_code == 0
    assert len(Ledger().entries()) == 2


@pytest.mark.few(12)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["log.csv"], "give a log and its --schema, or --from-model"),
        ([*LOG, "--delta", 0], "Gaussian noise has no pure epsilon"),
        ([*LOG, "--epsilon", -1], "epsilon must be"),
        ([*LOG, "--relation", "step"], "relation must be"),
        ([*LOG, "--separator", "ab"], "separator must be"),
        ([*LOG, "--discount", 0], "discount must be"),
        ([*LOG, "--behaviour", "uniform"], "behaviour is for states in cells"),
        ([*LOG, "--admissible", "log.csv"], "admissible is for states in cells"),
        ([*LOG, "--person", ""], "name must be a text that is not empty"),
        ([*LOG, "--person", "who"], "'who' absent"),
        (["log.csv", "--schema", "log.csv"], "log.csv: "),
        (["log.csv", "--schema", "none.toml"], "none.toml"),
        (["log.csv", "--schema", "many.toml"], "at most 10000 combinations"),
        (["log.csv", "--schema", "other.toml"], "glucose"),
        (["log.csv", "--schema", "edges.toml"], "as other columns have ranges; got 'edges'"),
        (["log.csv", "--schema", "most.toml"], "got 'most_steps'; leave that out"),
        (["log.csv", "--schema", "unpaid.toml"], "schema must have a table [reward] to plan for"),
        (["none.csv", *LOG[1:]], "none.csv"),
        (["bad.csv", *LOG[1:]], "bad.csv"),
        (["--from-model", "none"], "path must be a folder"),
        (["--from-model", "unpaid"], "from-model must have a table [reward] to plan for"),
        (["--from-model", ".", "--out", "."], "out must be another folder"),
        (["log.csv", "--from-model", "m"], "cannot be combined with a log"),
    ],
)
def test_bad_input_is_refused_in_a_sentence_and_unspent(
    folder: Path, arguments: list[object], message: str
) -> None:
    Path("many.toml").write_text(SCHEMA.replace("levels = 3", "levels = 1_000_000_000"))
    Path("other.toml").write_text(SCHEMA.replace("[state.x]", "[state.glucose]"))
    Path("edges.toml").write_text(SCHEMA.replace("range = [0, 24]", "edges = [0, 24]", 1))
    Path("most.toml").write_text("most_steps = 8\n" + SCHEMA)
    unpaid = SCHEMA.partition("[reward]")[0]
    Path("unpaid.toml").write_text(unpaid)
    if "unpaid" in arguments:
        assert run("fit-model", *LOG[:2], "unpaid.toml", "--out", "unpaid").exit_code == 0
        Path(Ledger().path).unlink()
    text = Path("log.csv").read_text()
    Path("bad.csv").write_text(text + f"900,0,{SECRET},0,a,1,0,{SECRET}\n")
    where = [] if "--out" in arguments else ["--out", "out"]
    result = run("fit-policy", *arguments, *where)
    assert result.exit_code == 2, result.output
    assert message in said(result)
    assert "Traceback" not in result.output
    assert SECRET not in result.output
    assert not Path("out").exists()
    assert not Ledger().is_there or not Ledger().entries()


def test_a_spent_budget_is_kept(folder: Path) -> None:
    assert run("ledger", "budget", "clinic", "--epsilon", 1.5, "--delta", "1e-5").exit_code == 0
    named = [*FIT, "--dataset", "clinic"]
    assert run(*named, "--out", "a").exit_code == 0
    result = run(*named, "--out", "b")
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    assert not Path("b").exists()
    (account,) = Ledger().accounts()
    assert account.total.releases == 1


@pytest.mark.usefixtures("folder")
def test_a_plan_that_no_memory_holds_is_refused_before_the_charge() -> None:
    """The budget was spent, and then there was no memory for the plan."""
    many = ", ".join(f'"{i}"' for i in range(150))
    wide = "".join(f"[state.{name}]\ncategories = [{many}]\n" for name in "bcd")
    Path("wide.toml").write_text(SCHEMA + wide)
    result = run("fit-policy", "log.csv", "--schema", "wide.toml")
    assert result.exit_code == 2
    assert "more than a plan holds" in said(result)
    assert not Ledger().is_there
