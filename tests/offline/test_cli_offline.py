"""From a log in files to a model and a policy: what the commands write, and how they say no."""

import json
import re
import shlex
import zipfile
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pandas as pd
import pytest
from commands import run, said
from made import ElsewhereBehind, write_parts
from wards import SCHEMA

import privrl.envs  # noqa: F401
from privrl.accounting import Ledger
from privrl.audit import audit_replay
from privrl.data import Bins, Categories
from privrl.data.logs import LogSchema
from privrl.envs import load_released
from privrl.numerics import randomness
from privrl.offline import ReleasedPolicy, load_policy, plan_for, save_policy

SECRET = "4321.5"
LABELS = tuple(
    f"glucose {bin_}, ward {ward}"
    for bin_ in ("[0, 4)", "[4, 8)", "[8, 40]")
    for ward in ("medical", "surgical")
)
BEST = [0, 0, 1, 1, 2, 2]


def visits(n_persons: int, seed: int = 0) -> pd.DataFrame:
    """Stays of patients: the dose that goes with the glucose is followed by being well."""
    rng = np.random.default_rng(seed)
    steps = rng.integers(1, 6, n_persons)
    n = int(steps.sum())
    last = np.cumsum(steps) - 1
    glucose, dose = rng.uniform(0, 12, n), rng.integers(0, 3, n)
    right = dose == np.digitize(glucose, (4, 8))
    well = rng.random(n) < np.where(right, 0.9, 0.5)
    left = np.full(n, "", object)
    left[last] = np.where(well[last], "well", "dead")
    return pd.DataFrame(
        {
            "patient": np.repeat([f"p{i}" for i in range(n_persons)], steps),
            "hour": np.arange(n) - np.repeat(last - steps + 1, steps),
            "glucose": glucose.round(2),
            "ward": rng.choice(["medical", "surgical"], n),
            "dose": dose,
            "left": left,
        }
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    SCHEMA.save("visits.toml")
    Path("bad.toml").write_text("[columns.a]\n")
    visits(3000).to_csv("visits.csv", index=False)
    return tmp_path


FIT = ["visits.csv", "--schema", "visits.toml"]


# What is released ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_model_is_played_and_planned_in(folder: Path) -> None:
    result = run("fit-model", *FIT, "--epsilon", 2, "--out", "model")
    assert result.exit_code == 0, result.output
    assert "a model of 6 states and 3 actions" in said(result)
    assert "outcomes: well, dead" in said(result)
    assert (
        "model.json cost: (2, 0)-differential privacy; privacy unit: add or remove one person "
        "(patient), patient: all episodes" in said(result)
    )
    play = 'gymnasium.make("privrl.envs:privrl/Released-v0", path="model")'
    assert play in result.output
    names = ["model.json", "release.json", "tables.npz"]
    assert sorted(path.name for path in Path("model").iterdir()) == names
    env = eval(play, {"gymnasium": gymnasium})
    env.reset(seed=1)
    over = False
    while not over:
        _, _, terminated, cut, _ = env.step(env.action_space.sample())
        over = terminated or cut
    model = load_released("model")
    assert model.state_names == LABELS
    assert model.action_names == ("dose 0", "dose 1", "dose 2")
    assert model.statement["epsilon"] == 2
    assert model.statement["delta"] == 0
    assert model.statement["unit"] == "patient: all episodes"
    saved = json.loads(Path("model", "release.json").read_text())
    assert saved["guarantee"]["epsilon_delta"] == 2
    before = {path: path.read_bytes() for path in Path("model").iterdir()}

    result = run("fit-policy", "--from-model", "model", "--out", "policy")
    assert result.exit_code == 0, result.output
    assert "adds nothing to the cost of its model: (2, 0)-differential privacy" in said(result)
    policy = load_policy("policy/policy.json")
    plan, value = plan_for(model)
    assert policy.kind == "plan"
    assert policy.value == value
    assert value.lower < value.value < value.upper
    assert f"An episode is worth {value.value:.4g} ({value.lower:.4g} to" in said(result)
    np.testing.assert_array_equal(policy.action, plan[:, :6])
    assert policy.action[0].tolist() == BEST
    assert policy.statement == model.statement
    assert {path: path.read_bytes() for path in Path("model").iterdir()} == before

    shown = run("play", "policy")
    assert shown.exit_code == 2
    assert "its policy names no environment, and privrl.offline.load_policy" in said(shown)
    missing = run("fit-policy", "--from-model", "none", "--out", "other")
    assert "does not exist; save_released and privrl fit-model write one" in said(missing)


@pytest.mark.parametrize(
    ("options", "cost"),
    [
        ([], "(1, 0)-differential privacy; privacy unit: add or remove one person"),
        (
            ["--relation", "replace"],
            "(1, 0)-differential privacy; privacy unit: replace one person",
        ),
        (["--delta", "1e-6"], "(1, 0)-differential privacy"),
        (["--delta", "0"], "(1, 0)-differential privacy"),
        (
            ["--renyi-order", "8"],
            "1e-05)-differential privacy (Rényi divergence of order 8 at most 1)",
        ),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else "",
)
def test_a_policy_of_each_budget(options: list[str], cost: str, folder: Path) -> None:
    result = run(
        "fit-policy",
        *FIT,
        "--epsilon",
        1,
        *options,
        "--reproducible",
        "--seed",
        2,
        "--out",
        "policy",
    )
    assert result.exit_code == 0, result.output
    assert "policy.json cost: (" in said(result)
    assert cost in said(result)
    policy = load_policy("policy/policy.json")
    assert policy.state_names == LABELS
    assert (policy.action.reshape(-1, 6)[0] == BEST).sum() >= 4
    assert policy.statement["epsilon"] == 1
    assert ("order" in policy.statement) == ("--renyi-order" in options)
    assert policy.statement["caveats"] == ["whoever knows the seed can undo the noise"]
    assert "no guarantee: whoever knows the seed" in said(result)
    assert policy.facts is not None
    assert f"about {round(policy.facts.persons)} persons" in said(result)
    done = policy.facts.done
    assert done.lower < done.value < done.upper
    if policy.value is not None and policy.kind != "behaviour":
        assert f"An episode is worth {policy.value.value:.4g} (" in said(result)
    assert abs(policy.facts.persons - 3000) < 1000
    text = Path("policy/policy.json").read_text()
    assert '"label": "glucose [0, 4), ward medical"' in text
    assert '"do": "dose 0"' in text


def test_a_column_named_like_a_mark_of_style_is_printed(folder: Path) -> None:
    """It ended the command after the charge."""
    name = "[/b]patient"
    visits(300).rename(columns={SCHEMA.person: name}).to_csv("visits.csv", index=False)
    replace(SCHEMA, person=name).save("visits.toml")
    result = run("fit-policy", *FIT, "--epsilon", 1)
    assert result.exit_code == 0, result.output
    assert f"add or remove one person ({name})" in said(result)


def test_a_policy_without_steps(folder: Path) -> None:
    """A discount leaves counts aside: what is recommended is one action for each state."""
    result = run("fit-policy", *FIT, "--discount", 0.9, "--epsilon", 4, "--behaviour", "uniform")
    assert result.exit_code == 0, result.output
    policy = load_policy("results/fit-policy/policy.json")
    assert policy.kind in ("vote", "rounds")
    assert policy.action.shape == (6,)
    assert policy.value is None
    assert policy.facts is not None
    assert f"earned {policy.facts.done.value:.4g} (" in policy.says
    assert "how much more the policy earns was not released" in said(result)
    data = json.loads(Path("results/fit-policy/policy.json").read_text())
    first = int(policy.action[0])
    assert data["states"][0] == {
        "state": 0, "label": LABELS[0], "action": first, "do": f"dose {first}",
    }  # fmt: skip


def test_as_before_where_nothing_can_be_told(folder: Path) -> None:
    result = run(
        "fit-policy", *FIT, "--epsilon", 0.001, "--reproducible", "--seed", 1, "--out", "policy"
    )
    assert result.exit_code == 0, result.output
    assert "As before everywhere: at this budget" in said(result)
    assert "which actions are admissible." in said(result)
    policy = load_policy("policy/policy.json")
    assert policy.kind == "behaviour"
    assert (policy.action == -1).all()
    assert json.loads(Path("policy/policy.json").read_text())["states"][3]["do"] == "as before"
    Path("small.csv").write_text("\n".join(Path("visits.csv").read_text().splitlines()[:9]))
    result = run("fit-policy", "small.csv", *FIT[1:], "--epsilon", 0.1, "--renyi-order", 9)
    assert "so does Laplace noise" in said(result)


def written_from(log: str, *options: object) -> tuple[bytes, ...]:
    """Return what both commands write, with a seed, of a log in the folder where we are."""
    seeded = [*FIT[1:], *options, "--reproducible", "--seed", 5, "--out", "out", "--force"]
    for command in ("fit-model", "fit-policy"):
        result = run(command, log, *seeded)
        assert result.exit_code == 0, result.output
    files = ("model.json", "tables.npz", "policy.json")
    return tuple(Path("out", file).read_bytes() for file in files)


@pytest.mark.slow
@pytest.mark.needs("pyarrow")
def test_a_log_in_any_file_is_one_log(folder: Path) -> None:
    frame = visits(300)
    Path("parts").mkdir()
    frame.to_csv("log.csv", index=False)
    frame.to_csv("log.csv.gz", index=False)
    frame.to_csv("semi.csv", index=False, sep=";")
    frame.to_parquet("log.parquet")
    frame[:400].to_parquet("parts/a.parquet")
    frame[400:].to_parquet("parts/b.parquet")
    found = set()
    for name in ("log.csv", "log.csv.gz", "semi.csv", "log.parquet", "parts"):
        more = ["--separator", ";"] if name == "semi.csv" else []
        found.add(written_from(name, *more))
    assert len(found) == 1


@pytest.mark.needs("pyarrow", "distributed")
@pytest.mark.slow
def test_a_log_on_a_cluster_is_the_log(folder: Path) -> None:
    frame, found = visits(300), set()
    Path("parts").mkdir()
    frame[:400].to_parquet("parts/a.parquet")
    frame[400:].to_parquet("parts/b.parquet")
    for where in ([], ["--workers", 2]):
        found.add(written_from("parts", *where))
    assert len(found) == 1


@pytest.mark.slow
@pytest.mark.needs("pyarrow", "cloudpickle")
@pytest.mark.parametrize("command", ["fit-model", "fit-policy"])
def test_what_workers_have_is_what_is_charged(
    command: str, folder: Path, ledger_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node with an older copy: its persons were released, and others' budget was charged."""
    write_parts(Path("parts"), visits(300), 2)
    write_parts(Path("stale"), visits(200, seed=1), 2)
    monkeypatch.setattr(
        "privrl.experiments.workers.dask_client",
        lambda *_: nullcontext(ElsewhereBehind(Path("parts"), Path("stale"))),
    )
    given = ["--schema", "visits.toml", "--out", "out", "--address", "tcp://127.0.0.1:1"]
    result = run(command, "parts", *given)
    assert result.exit_code == 2
    assert "part-00.parquet must have the same bytes here and on each worker" in said(result)
    assert not any(each in said(result) for each in ("medical", "surgical", "p1"))
    assert not Path("out").exists()
    assert not ledger_path.exists() or not Ledger(ledger_path).entries()


@pytest.mark.few(2)
@pytest.mark.parametrize("command", ["fit-model", "fit-policy"])
def test_fresh_randomness_unless_a_seed_is_given(command: str, folder: Path) -> None:
    name = {"fit-model": "model.json", "fit-policy": "policy.json"}[command]
    written = {}
    for out, seed in (
        ("a", []),
        ("b", []),
        ("c", ["--reproducible", "--seed", 7]),
        ("d", ["--reproducible", "--seed", 7]),
    ):
        assert run(command, *FIT, "--out", out, *seed).exit_code == 0
        written[out] = Path(out, name).read_bytes()
        guarantee = json.loads(Path(out, "release.json").read_text())["guarantee"]
        statement = json.loads(written[out])["statement"]
        wanted = randomness.SEEDED if seed else randomness.SECRET
        assert guarantee["randomness"] == statement["randomness"] == wanted
    assert written["a"] != written["b"]
    assert written["c"] == written["d"]
    assert b"whoever knows the seed" in written["c"]
    assert b"whoever knows the seed" not in written["a"]


@pytest.mark.few(2)
@pytest.mark.parametrize("command", ["fit-model", "fit-policy"])
def test_the_command_in_release_json_repeats_the_run(command: str, folder: Path) -> None:
    name = {"fit-model": "model.json", "fit-policy": "policy.json"}[command]
    options = [
        "--epsilon",
        2,
        "--renyi-order",
        3,
        "--relation",
        "replace",
        "--reproducible",
        "--seed",
        3,
    ]
    assert run(command, *FIT, *options, "--out", "a").exit_code == 0
    again = shlex.split(json.loads(Path("a/release.json").read_text())["command"])
    assert run(*again[1:], "--out", "b").exit_code == 0
    assert Path("a", name).read_bytes() == Path("b", name).read_bytes()


@pytest.mark.slow
def test_what_is_public_of_actions_comes_from_files(folder: Path) -> None:
    """Of numbers, or of truth values, in each kind of file."""
    allowed = np.array([[1, 1, 0]] * 5 + [[0, 1, 0]])
    np.save("allowed.npy", allowed.astype(bool))
    np.savetxt("allowed.csv", allowed, fmt="%d", delimiter=",")
    texts = [",".join(("false", "True")[each] for each in row) for row in allowed]
    Path("words.csv").write_text("\n".join(texts))
    chances = np.full((6, 3), 1 / 3)
    np.save("chances.npy", chances)
    np.savez("chances.npz", chances)
    np.savetxt("chances.csv", chances, delimiter=",")
    written = set()
    for admissible, behaviour in (
        ("allowed.npy", "chances.npy"), ("allowed.csv", "chances.npz"),
        ("words.csv", "chances.csv"),
    ):  # fmt: skip
        public = ["--admissible", admissible, "--behaviour", behaviour]
        result = run(
            "fit-policy", *FIT, *public, "--reproducible", "--seed", 1, "--out", "a", "--force"
        )
        assert result.exit_code == 0, result.output
        written.add(Path("a/policy.json").read_bytes())
    assert len(written) == 1
    policy = load_policy("a/policy.json")
    assert (policy.action != 2).all()
    assert (policy.action[..., 5] == 1).all()


def test_a_schema_of_another_kind_is_refused_without_advice(folder: Path) -> None:
    """What it lacks says nothing: it is not a schema of a log."""
    assert run("schema", "--csv", "visits.csv", "--columns", "ward").exit_code == 0
    result = run("schema", "--log", "--csv", "visits.csv", "--person", "patient")
    assert result.exit_code == 2
    assert "schema.toml exists and is not a schema of a log" in said(result)
    assert "Left out" not in said(result)


@pytest.mark.slow
def test_persons_of_another_column(folder: Path) -> None:
    frame = visits(5000).rename(columns={"patient": "id"})
    frame.assign(patient="one").to_csv("both.csv", index=False)
    for out, more in (("a", []), ("b", ["--person", "id"])):
        assert run("fit-policy", "both.csv", *FIT[1:], *more, "--out", out).exit_code == 0
    one, all_ = (load_policy(f"{out}/policy.json").facts for out in "ab")
    assert one is not None
    assert all_ is not None
    assert one.persons < 2500 < all_.persons  # more than ten deviations of the noise away


# What leaves is noise -----------------------------------------------------------------------------


@pytest.mark.few(9)
@pytest.mark.parametrize(
    ("command", "change"),
    [
        ("fit-model", "remove"),
        ("fit-model", "bad"),
        ("fit-model --delta 1e-6", "remove"),
        ("fit-model --relation replace", "other"),
        ("fit-policy", "remove"),
        ("fit-policy", "bad"),
        ("fit-policy --discount 0.9", "remove"),
        ("fit-policy --epsilon 0.001", "remove"),
        ("fit-policy --relation replace", "other"),
    ],
)
def test_a_person_changes_nothing_but_what_was_paid_for(
    command: str, change: str, folder: Path, ledger_path: Path
) -> None:
    def pipeline(frame: pd.DataFrame) -> dict[str, str]:
        ledger_path.unlink(missing_ok=True)  # that data are as before is told, to whoever has them
        frame.to_csv("log.csv", index=False)
        result = run(
            *command.split(),
            "log.csv",
            *FIT[1:],
            "--reproducible",
            "--seed",
            1,
            "--out",
            "out",
            "--force",
        )
        shown = {"exit": str(result.exit_code), "stdout": result.stdout, "stderr": result.stderr}
        assert result.exit_code == 0, result.output
        return shown | {path.name: path.read_bytes().hex() for path in Path("out").iterdir()}

    data = visits(1500)
    whose = data["patient"] == "p7"
    neighbour = {
        "remove": data[~whose],
        "bad": data.assign(left=data["left"].where(~whose, "no outcome")),
        "other": data.assign(dose=data["dose"].where(~whose, (data["dose"] + 1) % 3)),
    }[change]
    found = audit_replay(pipeline, data, neighbour.reset_index(drop=True))
    assert found.error is None
    assert found.releases > 0
    assert not found.violated, found.findings


@pytest.mark.few(6)
@pytest.mark.parametrize("command", ["fit-model", "fit-policy"])
def test_a_log_of_nobody_looks_like_others(command: str, folder: Path, ledger_path: Path) -> None:
    """Neither how many persons and rows there are is told, nor that there is none."""
    Path("none.csv").write_text("patient,hour,glucose,ward,dose,left\n")
    shapes = set()
    for data in ("none.csv", "visits.csv"):
        ledger_path.unlink(missing_ok=True)  # that one begins is told once
        options = ["--epsilon", 0.001, "--seed", 4, "--reproducible", "--out", "out", "--force"]
        result = run(command, data, *FIT[1:], *options)
        assert result.exit_code == 0, result.output
        assert "3000" not in result.output
        assert str(len(visits(3000))) not in result.output
        text = re.sub(r"about \d+ persons", "about N persons", said(result))
        page = json.loads(next(Path("out").glob("[mp]o*.json")).read_text())
        shapes.add((text.partition(" by ")[0], tuple(page)))
    assert len(shapes) == 1


# How they say no ----------------------------------------------------------------------------------

MODEL, POLICY = ["fit-model", *FIT], ["fit-policy", *FIT]
BAD = [
    (["--epsilon", "0"], "epsilon must be"),
    (["--epsilon", "nan"], "epsilon must be"),
    (["--delta", "-1"], "delta must be"),
    (["--delta", "1"], "delta must be"),
    (["--renyi-order", "1"], "order must be"),
    (["--renyi-order", "2", "--delta", "0"], "delta must be"),
    (["--relation", "add-remov"], "did you mean 'add-remove'"),
    (["--seed", "-1"], "seed must be"),
    (["--seed", "1"], "add --reproducible"),
    (["--reproducible"], "needs a seed"),
    (["--separator", "ab"], "separator must be one character"),
    (["--separator", ";"], "--separator"),
    (["--schema", "none.toml"], "no such file"),
    (["--schema", "visits.csv"], "must end in .toml or .json"),
    (["--schema", "table.toml"], "table.toml"),
    (["--person", "nobody"], "'nobody' absent"),
    (["--person", ""], "a column's name must be a text that is not empty"),
    (["--admissible", "none.csv"], "no such file"),
    (["--admissible", "visits.csv"], "no header"),
    (["--admissible", "ragged.csv"], "no header"),
    (["--admissible", "half.csv"], "0 or 1 everywhere"),
    (["--admissible", "small.csv"], "admissible must be booleans of shape (6, 3)"),
    (["--admissible", "noaction.csv"], "an action at least in every state"),
    (["--admissible", "broken.npy"], "no header"),
    (["--admissible", "visits.toml"], "must be a file .csv, .npy or .npz"),
    (["--behaviour", "unifrom"], "must be a file .csv, .npy or .npz"),
    (["--behaviour", "none.npy"], "no such file"),
    (["--behaviour", "half.csv"], "behaviour must be chances of shape (6, 3)"),
    (["--behaviour", "two.npz"], "no header"),
    (["--behaviour", "pickle.npy"], "no header"),
    (["--behaviour", "bytes.npz"], "no header"),
    (["--out", "visits.csv"], "out must be a folder"),
    (["--schema", "outcomes.toml"], "a line can show"),
    (["--workers", "0"], "workers must be"),
    (["--workers", "2", "--address", "tcp://here:1"], "workers must be left out with an address"),
    (["--workers", "2"], "must hold files '.parquet'"),
]
MORE = [
    ([*MODEL, "--schema", "unknown.toml"], "outcomes must not be 'unknown'"),
    ([*MODEL, "--schema", "large.toml"], "transitions to make a model of"),
    (["fit-model", "none.csv", *FIT[1:]], "no such file"),
    (["fit-model", "visits.toml", *FIT[1:]], "a log's file must end in"),
    (["fit-model", "absent.csv", *FIT[1:]], "'glucose', 'ward', 'dose', 'left' absent"),
    (["fit-model", "twice.csv", *FIT[1:]], "there twice"),
    (["fit-policy", "latin.csv", *FIT[1:]], "text in UTF-8"),
    (["fit-policy", "wide.csv", *FIT[1:]], "one record in each line"),
    (["fit-policy", "broken.parquet", *FIT[1:]], "Parquet"),
    (["fit-policy", "empty", *FIT[1:]], "must hold files '.parquet'"),
    ([*POLICY, "--discount", "0"], "discount must be"),
    ([*POLICY, "--discount", "nan"], "discount must be"),
    ([*POLICY, "--discount", "0.9", "--renyi-order", "2"], "order must be left out"),
    ([*POLICY, "--schema", "free.toml"], "log must have rewards"),
    ([*POLICY, "--schema", "huge.toml"], "make them coarser"),
    ([*POLICY, "--schema", "long.toml"], "most_steps times states"),
    ([*POLICY, "--from-model", "empty"], "--from-model cannot be combined with a log"),
    (["fit-policy"], "give a log and its --schema, or --from-model"),
    (["fit-policy", "visits.csv"], "give a log and its --schema, or --from-model"),
    (["fit-policy", "--from-model", "none"], "does not exist"),
    (["fit-policy", "--from-model", "empty"], "without model.json and tables.npz"),
    (["fit-policy", "--from-model", "empty", "--out", "empty"], "another folder"),
    (
        ["fit-policy", "--from-model", "empty", "--epsilon", "1"],
        "combined with --epsilon",
    ),
    (["fit-policy", "--from-model", "empty", "--discount", "2"], "discount must be"),
    (["schema", "--log", "--columns", "a,a"], "different"),
    (["schema", "--log", "--columns", "a", "--out", "visits.csv"], "must end in .toml or .json"),
    (["schema", "--log", "--columns", "a", "--out", "bad.toml"], "is not a schema of a log"),
    (["schema", "--log", "--columns", "a", "--person", "p", "--order", "p"], "one role"),
    (["schema", "--columns", "a", "--person", "p"], "need --log"),
    (["schema", "--log", "--columns", "a", "--out", "s.yaml"], "must end in .toml or .json"),
]


def needed(arguments: list[str]) -> Any:
    """Return a mark for what a command needs beyond the extra ``test``."""
    if "--workers" in arguments:
        return pytest.mark.needs("distributed")
    return pytest.mark.needs("pyarrow") if "broken.parquet" in arguments else ()


@pytest.mark.few(36)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(arguments, text, marks=needed(arguments), id=" ".join(arguments))
        for arguments, text in (
            *(([*start, *options], text) for options, text in BAD for start in (MODEL, POLICY)),
            *MORE,
        )
    ],
)
def test_bad_input_is_one_sentence_and_leaves_nothing(
    arguments: list[str], message: str, folder: Path, monkeypatch
) -> None:
    """Nothing is spent either: no release is made."""
    invalidate(folder)
    monkeypatch.setattr("privrl.accounting.releases.release", _never)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert message in said(result)
    assert "Traceback" not in result.output
    assert SECRET not in result.output
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert not Path("results").exists()


def _never(*_: object) -> None:
    raise AssertionError("something was released")


def invalidate(folder: Path) -> None:
    """Write files that something is wrong with."""
    header = "patient,hour,glucose,ward,dose,left\n"
    for name, content in {
        "table.toml": "[columns.age]\ncategories = [1, 2]\n",
        "ragged.csv": "1,1,1\n1,1\n",
        "half.csv": "0.5,0.6,0.5\n" * 6,
        "small.csv": "1,1\n",
        "noaction.csv": "0,0,0\n" * 6,
        "broken.npy": "\x93NUMPY",
        "absent.csv": f"patient,hour\np,{SECRET}\n",
        "twice.csv": f"hour,{header}",
        "latin.csv": f"{header}p,1,{SECRET},\xe9,1,\n",
        "wide.csv": f"{header}p,1,{SECRET},medical,1,,,\n",
        "broken.parquet": SECRET,
    }.items():
        (folder / name).write_bytes(content.encode("latin-1"))
    (folder / "empty").mkdir()
    np.savez(folder / "two.npz", a=np.ones(3), b=np.ones(3))
    np.save(folder / "pickle.npy", np.array([{}]), allow_pickle=True)
    with zipfile.ZipFile(folder / "bytes.npz", "w") as archive:
        archive.writestr("table", b"no array")
    given = {name: getattr(SCHEMA, name) for name in SCHEMA.__dataclass_fields__}
    for name, changes in {
        "outcomes": {"outcomes": ("well", "de\nad")},
        "unknown": {"outcomes": ("well", "unknown")},
        "large": {"state": {"a": Categories(range(20_000))}},
        "free": {"outcome_rewards": (0, 0)},
        "huge": {"state": {"a": Categories(range(1001)), "b": Categories(range(1000))}},
        "long": {"most_steps": 10**9},
    }.items():
        LogSchema(**given | changes).save(folder / f"{name}.toml")


@pytest.mark.few(2)
@pytest.mark.parametrize("command", ["fit-model", "fit-policy"])
def test_lines_are_short_and_help_is_there(command: str, folder: Path) -> None:
    for arguments in (["--help"], [*FIT, "--renyi-order", 2, "--reproducible", "--seed", 1]):
        result = run(command, *arguments, columns=80)
        assert result.exit_code == 0, result.output
        assert max(map(len, result.output.splitlines())) <= 80
        assert "rows" not in result.stdout
        assert "a second" not in result.stderr


# A schema to be filled in -------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["toml", "json"])
def test_a_schema_of_a_header(ending: str, folder: Path) -> None:
    """Nothing else is read: what follows here is no text. Each call completes the file."""
    Path("log.csv").write_bytes(b"who,sugar,dose,left,score,hour,note\n\xff\xfe")
    out = f"log.{ending}"
    schema = ["schema", "--log", "--csv", "log.csv", "--out", out]
    first = run(*schema, "--person", "who", "--action", "dose", "--numeric", "sugar=0:8:whole",
                "--bins", 2)  # fmt: skip
    assert first.exit_code == 0, first.output
    refused = run("fit-policy", "log.csv", "--schema", out)
    assert refused.exit_code == 2
    for result in (first, refused):
        assert "[state.note] categories" in said(result)
        assert "[action.dose] categories" in said(result)
        assert "who" not in said(result)
    if ending == "toml":
        lines = Path(out).read_text().splitlines()
        assert f"line {lines.index('most_steps = 0') + 1} (most_steps)" in said(refused)
        number = lines.index("[state.note]") + 2
        assert f"line {number} ([state.note] categories)" in said(refused)
        Path(out).write_text("# mine\n" + Path(out).read_text().replace("steps = 0", "steps = 3"))
    else:
        Path(out).write_text(Path(out).read_text().replace('steps": 0', 'steps": 3'))
    second = run(*schema, "--order", "hour", "--outcome", "left", "--reward", "score",
                 "--numeric", "score=-1:1", "--categories", "dose=0,1", "--categories",
                 "left=well,true", "--person", "note")  # fmt: skip
    assert "Kept as they were filled in: who (not note)." in said(second)
    third = run(*schema, "--categories", "note=a,b", "--missing", "note")
    assert "Nothing is left to fill in." in said(third), third.output
    assert ending == "json" or Path(out).read_text().startswith("# mine\n# A schema of a log")
    filled = LogSchema.load(out)
    assert (filled.person, filled.order) == ("who", "hour")
    assert filled.state is not None
    assert filled.state.columns == {
        "sugar": Bins((0, 4, 8), whole=True),
        "note": Categories(("a", "b"), other=True),
    }
    assert filled.action.columns == {"dose": Categories((0, 1))}
    assert filled.reward_bounds == (-1, 1)
    assert filled.outcomes == ("well", "true")


def test_policies_are_kept(tmp_path: Path) -> None:
    statement = load_statement()
    for action, kind in ((np.array([[0, -1], [0, 1], [1, 1]]), "counts"), ([1, -1], "vote")):
        policy = ReleasedPolicy(
            action=np.array(action), n_actions=2, kind=kind, statement=statement
        )
        save_policy(tmp_path / "p.json", policy)
        again = load_policy(tmp_path / "p.json")
        np.testing.assert_array_equal(again.action, policy.action)
        assert again.to_dict() == policy.to_dict()


def load_statement() -> dict[str, object]:
    from privrl.envs.released import privacy_statement  # noqa: PLC0415

    return privacy_statement(unit="a person", relation="r", epsilon=1, delta=0, released="it")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "privrl policy, 1"}, "format must be"),
        ({"more": 1}, "entries must be"),
        ({"kind": "votes"}, "kind must be one of"),
        ({"kind": "counts"}, "horizon must be there"),
        ({"horizon": 3}, "horizon must be there"),
        ({"says": 1}, "says must be a text"),
        ({"statement": {}}, "statement must say"),
        ({"n_actions": 1}, "from -1 to 0"),
        ({"n_actions": True}, "n_actions must be"),
        ({"action_names": ["a"]}, "action_names must be 2 texts"),
        ({"released": {}}, "released must be"),
        ({"signal": "1"}, "signal must be a finite number"),
        ({"value": 1.0}, "value must be 'value', 'lower', 'upper'"),
        ({"value": {"value": 2, "lower": 0, "upper": 1}}, "value must be between its bounds"),
        ({"value": {"value": "2", "lower": 0, "upper": 1}}, "value.value must be a finite"),
        ({"value": {"value": 10**30, "lower": 0, "upper": 1}}, "value must be between its bounds"),
        ({"states": []}, "states must be a list"),
        ({"states": [{"state": 0}]}, "states must each say 'action'"),
        ({"states": [{"state": 0, "action": True, "do": "1"}]}, "whole number"),
        ({"states": [{"state": 1, "action": 1, "do": "1"}]}, "state 0 must be"),
        ({"states": [{"state": 0, "action": 1, "do": "0"}]}, "state 0 must be"),
        ({"kind": "plan", "horizon": 2**30}, "horizon times states"),
        ({"kind": "plan", "horizon": 2, "states": [{"steps": [{"from": 1, "action": 0}]}]},
         "steps must go on from 0"),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, dict) else "",
)  # fmt: skip
def test_what_is_no_policy_is_refused(
    change: dict[str, object], message: str, tmp_path: Path
) -> None:
    policy = ReleasedPolicy(
        action=np.array([1]), n_actions=2, kind="vote", statement=load_statement()
    )
    (tmp_path / "p.json").write_text(json.dumps(policy.to_dict() | change))
    with pytest.raises(ValueError, match=r"^p\.json: ") as found:
        load_policy(tmp_path / "p.json")
    assert message in str(found.value)


@pytest.mark.slow
def test_programs_are_told_in_json(folder: Path) -> None:
    for verb, entries in (
        ("fit-model", {"states", "actions", "persons", "outcomes", "guarantee", "ledger"}),
        ("fit-policy", {"states", "actions", "says", "guarantee", "ledger"}),
    ):
        result = run(verb, *FIT, "--delta", 1e-5, "--out", verb, "--json")
        assert result.exit_code == 0, result.output
        answer = json.loads(result.stdout, parse_constant=pytest.fail)
        assert entries <= set(answer)
        assert answer["guarantee"]["epsilon_delta"] == 1
        assert "json" not in json.loads(Path(verb, "release.json").read_text())["command"]
    result = run("fit-policy", "--from-model", "fit-model", "--out", "planned", "--json")
    assert result.exit_code == 0, result.output
    assert set(json.loads(result.stdout)) >= {"states", "guarantee", "files"}


def test_a_model_of_a_log_without_outcomes(tmp_path: Path) -> None:
    """Episodes are cut off in all of it: they end somewhere in the model, under its own name."""
    (tmp_path / "log.csv").write_text("p,s,a\n1,0,0\n1,1,1\n2,1,0\n")
    (tmp_path / "log.toml").write_text(
        'person = "p"\nmost_steps = 3\n[state.s]\ncount = 2\n[action.a]\ncount = 2\n'
    )
    out = tmp_path / "out"
    result = run("fit-model", tmp_path / "log.csv", "--schema", tmp_path / "log.toml", "--out", out)
    assert result.exit_code == 0, said(result)
    page = json.loads((out / "model.json").read_text())
    assert page["state_names"] == ["s 0", "s 1"]
    assert page["n_states"] == 2 + len(page["outcomes"])


def test_an_output_folder_that_is_a_circular_link_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.symlink_to(out)
    result = run("fit-policy", "--from-model", tmp_path / "model", "--out", out)
    assert result.exit_code == 2
    assert "error: out must be a folder" in result.output
