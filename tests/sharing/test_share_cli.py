"""privrl share, as those use it who renamed, edited and planted files, or mistyped a folder."""

import json
import os
import signal
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from privrl.cli import app
from privrl.data.schema import Bins, Categories, Schema
from privrl.envs import Released, save_released
from privrl.envs.released import privacy_statement
from privrl.envs.released_files import load_released
from privrl.envs.tabular import TabularMDP
from privrl.files import files as _files
from privrl.files import sharing as _sharing
from privrl.files.copies import copy_of
from privrl.files.sharing import ARTEFACTS, SECRET, SEEDED, STATEMENTS, judge, judge_by
from privrl.models.histograms.result import PrivateHistogram

RUNNER = CliRunner()
SCHEMA = Schema({"age": Bins((0, 20, 40, 100)), "rich": Categories(("no", "yes"))})
NAMES = ["histogram.csv", "histogram.json", "release.json"]


def run(*arguments: object, code: int = 0) -> str:
    texts = [str(argument) for argument in arguments]
    result = RUNNER.invoke(app, texts, env={"COLUMNS": "80", "TERM": "dumb"})
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


def names(folder: str | Path) -> list[str]:
    return sorted(path.name for path in Path(folder).iterdir())


def contents(folder: str | Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.is_file()}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rich = rng.random(200) < 0.4
    frame = pd.DataFrame({"age": rng.uniform(0, 100, 200), "rich": np.where(rich, "yes", "no")})
    frame.to_csv("data.csv", index=False)
    SCHEMA.save("schema.toml")
    return tmp_path


def histogram(*more: object, out: str = "out") -> None:
    quick = ["--renyi-order", 2, "--mechanism", "gaussian"]  # to calibrate
    run("histogram", "data.csv", "--schema", "schema.toml", "--column", "age", "--out", out,
        *quick, *more)  # fmt: skip


def refused(*more: object, folder: str = "out", to: str = "copy") -> str:
    """Return why nothing is copied, after seeing that nothing was."""
    before = sorted(Path().iterdir())
    told = run("share", folder, "--to", to, *more, code=2)
    assert sorted(Path().iterdir()) == before
    return told


# What is copied ----------------------------------------------------------------------------------


def test_a_weak_guarantee_is_said_and_needs_a_word() -> None:
    run("histogram", "data.csv", "--schema", "schema.toml", "--column", "age", "--out", "out",
        "--mechanism", "laplace", "--epsilon", 100_000)  # fmt: skip
    assert "epsilon of 100000, above 10: that is weak privacy" in refused()
    told = run("share", "out", "--to", "copy", "--weak")
    assert "epsilon 100000, delta 1e-05; privacy unit: replace one record" in told
    assert names("copy") == NAMES


def test_a_weak_delta_needs_a_word() -> None:
    """With a chance of a half nothing at all was promised, at an epsilon of 1."""
    run("histogram", "data.csv", "--schema", "schema.toml", "--column", "age", "--out", "out",
        "--mechanism", "gaussian", "--delta", 0.5)  # fmt: skip
    assert "delta of 0.5, above 0.001: that is weak privacy" in refused()
    run("share", "out", "--to", "copy", "--weak")


SAYS_NOTHING: dict[str, Callable[[dict[str, Any]], Any]] = {
    "an epsilon below 0": lambda said: said["guarantee"].update(epsilon_delta=-1),
    "an epsilon of true": lambda said: said["guarantee"].update(epsilon_delta=True),
    "a delta of a text": lambda said: said["guarantee"].update(delta="0"),
    "a delta of 1": lambda said: said["guarantee"].update(delta=1),
    "an order of a text": lambda said: said["guarantee"].update(order="2"),
    "an order of 1": lambda said: said["guarantee"].update(order=1, epsilon=1.0),
    "an order of nothing": lambda said: said["guarantee"].update(order=2, epsilon=None),
    "no relation": lambda said: said["guarantee"].pop("relation"),
    "a unit of numbers": lambda said: said["guarantee"].update(unit=[1]),
    "no digest": lambda said: said["sha256"].update({"histogram.csv": None}),
    "no verdict": lambda said: said.pop("shareable"),
}


@pytest.mark.few(12)
@pytest.mark.parametrize("edit", SAYS_NOTHING)
def test_a_statement_that_promises_nothing_is_refused(edit: str) -> None:
    """Also one that was sealed again: without a digest, any file would have been copied."""
    histogram()
    said = json.loads(Path("out/release.json").read_text())
    SAYS_NOTHING[edit](said)
    Path("out/release.json").write_text(json.dumps(_sharing._sealed(said)))
    assert "error: release.json must" in refused()


@pytest.mark.parametrize(("order", "weak"), [(1.001, True), (2, True), (64, False)])
def test_a_divergence_alone_counts_as_its_epsilon(order: float, weak: bool) -> None:
    """A plan states the divergence of its model: of order 1.001, 9 is an epsilon of 11,500."""
    public = privacy_statement(
        unit="a person", relation="replace one person", released="r", epsilon=9.0, order=order,
        randomness=SECRET,
    )  # fmt: skip
    mdp = TabularMDP(np.full((2, 2, 2), 0.5), np.zeros((2, 2)), np.full(2, 0.5), 2)
    save_released("model", Released(mdp=mdp, statement=public))
    run("fit-policy", "--from-model", "model", "--out", "out")
    if weak:
        assert "that is weak privacy" in refused()
    else:
        run("share", "out", "--to", "copy")


def test_a_plan_is_as_weak_as_its_model() -> None:
    """The model's epsilon follows from all orders, that of the plan from one."""
    log = pd.DataFrame({"who": np.arange(60) // 2, "s": 0, "a": np.arange(60) % 2})
    log.to_csv("log.csv", index=False)
    Path("log.toml").write_text(
        'person = "who"\nmost_steps = 2\n[state.s]\ncount = 2\n[action.a]\ncount = 2\n'
    )
    run("fit-model", "log.csv", "--schema", "log.toml", "--renyi-order", 2, "--out", "model")
    run("fit-policy", "--from-model", "model", "--out", "plan")
    guarantee = json.loads(Path("model/release.json").read_text())["guarantee"]
    planned = json.loads(Path("plan/release.json").read_text())["guarantee"]
    for entry in ("order", "epsilon", "epsilon_delta", "delta"):
        assert planned[entry] == guarantee[entry]
    assert "delta 1e-05; Rényi divergence of order 2 at most 1" in run(
        "share", "plan", "--to", "copy"
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--renyi-order", 2), "; Rényi divergence of order 2 at most 1; privacy unit"),
        (("--delta", 1e-6), "epsilon 1, delta 1e-06; privacy unit: replace one record"),
    ],
)
def test_the_guarantee_of_what_is_copied_is_printed(options: tuple[Any, ...], said: str) -> None:
    run("histogram", "data.csv", "--schema", "schema.toml", "--column", "age", "--out", "out",
        "--mechanism", "gaussian", *options)  # fmt: skip
    assert said in run("share", "out", "--to", "copy")


def test_the_relation_is_printed_beside_the_unit_of_a_log() -> None:
    histogram()
    edited(lambda data: data["guarantee"].update(unit="who: all episodes"), sealed=True)
    told = " ".join(run("share", "out", "--to", "copy").split())
    assert "privacy unit: replace one record, who: all episodes" in told


def test_a_copy_is_what_was_released() -> None:
    histogram()
    Path("out/notes.txt").write_text("for me")
    told = run("share", "out", "--to", "public/ages")
    assert names("public/ages") == NAMES
    for name in NAMES[:2]:
        assert Path("public/ages", name).read_bytes() == Path("out", name).read_bytes()
    assert "histogram.json shared what was released" in told
    assert "notes.txt left no statement here says what it is made of" in told
    assert "wrote public/ages/release.json" in told
    assert names("public") == ["ages"]  # nothing that was written in
    assert stat.S_IMODE(Path("public/ages").stat().st_mode) == stat.S_IMODE(
        Path("public").stat().st_mode
    )


def test_its_readers_read_it() -> None:
    histogram()
    run("share", "out", "--to", "copy")
    PrivateHistogram.load("copy/histogram.json")
    Path("copy/histogram.json").write_text(Path("copy/histogram.json").read_text() + " ")
    with pytest.raises(ValueError, match=r"must be the file that release\.json"):
        PrivateHistogram.load("copy/histogram.json")


def test_a_statement_names_no_file_of_this_machine() -> None:
    Path("st-mary").mkdir()
    Path("data.csv").rename("st-mary/data.csv")
    run("histogram", "st-mary/data.csv", "--schema", "schema.toml", "--column", "age", "--out",
        "out")  # fmt: skip
    here = json.loads(Path("out/release.json").read_text())
    assert "st-mary" in here["command"]
    assert here["shareable"] is False
    assert "names files of this machine" in here["because"]
    run("share", "out", "--to", "copy")
    assert not any(b"mary" in each or b"data.csv" in each for each in contents("copy").values())
    copied = json.loads(Path("copy/release.json").read_text())
    assert copied["shareable"] is True
    assert copied["guarantee"] == here["guarantee"]
    assert copied["sha256"] == here["sha256"]


def test_a_copy_of_a_copy_is_the_same() -> None:
    histogram()
    run("share", "out", "--to", "copy")
    run("share", "copy", "--to", "again")
    assert contents("again") == contents("copy")


@pytest.mark.slow
def test_of_training_the_policy_alone(tmp_path: Path) -> None:
    run("train", "--env", "FrozenLake-v1", "--episodes", 20, "--out", "out",
        "--env-arg", "is_slippery=False")  # fmt: skip
    said = json.loads(Path("out/train.json").read_text())["files"]
    assert said["policy.json"]["shareable"] is True
    assert said["policy.png"]["shareable"] is True
    assert said["record.csv"] == {
        "shareable": False,
        "because": "what was earned in each episode, as it was: no noise was added",
    }
    assert said["learning_curve.png"] == said["record.csv"]
    told = run("share", "out", "--to", "copy")
    assert names("copy") == ["policy.json", "policy.png", "train.json"]
    assert "record.csv left what was earned in each episode" in told
    assert "slippery" not in Path("copy/train.json").read_text()
    Path("out/record.csv").unlink()  # who takes it away can share what is left
    assert "record.csv" not in run("share", "out", "--to", "again")


@pytest.mark.few(2)
@pytest.mark.parametrize("more", [["--agent", "oracle"], ["--sampler", "non-private"]])
def test_without_privacy_nothing_is_shared(more: list[str]) -> None:
    run("train", "--env", "FrozenLake-v1", "--episodes", 5, "--agent", "psrl", *more, "--out",
        "out")  # fmt: skip
    assert "policy.json left its release has no promise of privacy" in refused()


@pytest.mark.parametrize("command", ["naive-bayes", "bayes-net"])
def test_models_without_privacy_say_so(command: str) -> None:
    if command == "naive-bayes":
        pytest.importorskip("sklearn", reason="no sklearn: pip install 'privrl[models]'")
    Path("network.toml").write_text('[parents]\nrich = []\nage = ["rich"]\n')
    own = {"naive-bayes": ("--target-column", "rich"), "bayes-net": ("--network", "network.toml")}
    run(command, "data.csv", "--schema", "schema.toml", *own[command], "--mechanism", "none",
        "--out", "out")  # fmt: skip
    assert json.loads(Path("out/model.json").read_text())["shareable"] is False
    assert "model.json left its release has no promise of privacy" in refused()


@pytest.mark.slow
def test_a_promise_that_is_none_is_not_shared() -> None:
    run("train", "--env", "FrozenLake-v1", "--episodes", 5, "--agent", "psrl", "--relation",
        "paper-step", "--out", "out")  # fmt: skip
    assert "policy.json left its promise of privacy has caveats" in refused()


def test_a_seed_is_no_secret() -> None:
    histogram("--reproducible", "--seed", 1)
    assert json.loads(Path("out/histogram.json").read_text())["shareable"] is False
    told = refused()
    assert "nothing of 'out' may be shared" in told
    assert "histogram.json left its noise came from a seed" in told
    assert "release.json left about files of which none is shared" in told


def test_predictions_are_left() -> None:
    pytest.importorskip("sklearn", reason="no sklearn: pip install 'privrl[models]'")
    run("naive-bayes", "data.csv", "--schema", "schema.toml", "--target-column", "rich", "--out",
        "out")  # fmt: skip
    run("predict", "out/model.json", "data.csv", "--out", "told")
    said = json.loads(Path("told/predict.json").read_text())["files"]["predictions.csv"]
    assert said["shareable"] is False
    assert "predictions.csv left a row for each record" in refused(folder="told")


@pytest.mark.slow
def test_simulations_are_left() -> None:
    run("sweep", "--episodes", 8, "--horizon", 4, "--runs", 1, "--epsilons", "1", "--backend",
        "sequential", "--out", "swept")  # fmt: skip
    told = refused(folder="swept")
    for name in ("results.csv", "learning_curves.png", "sweep.sqlite"):
        assert f"{name} left what simulated runs earned" in told
    assert "yours to publish" in told


def test_every_file_that_is_written_is_known() -> None:
    """So that why it is left is said of it, and not that nobody knows."""
    from privrl.cli import bayes_net, fit_policy, numeric, suite, sweep, train  # noqa: PLC0415
    from privrl.cli import histogram as histograms  # noqa: PLC0415

    written = {name for each in (bayes_net, fit_policy, suite, sweep, train, histograms)
               for name in each._FILES} | {*numeric.MODEL, *numeric.POLICY}  # fmt: skip
    assert written <= ARTEFACTS.keys() | STATEMENTS.keys()
    assert not ARTEFACTS.keys() & STATEMENTS.keys()
    assert all(each.because for each in ARTEFACTS.values())
    page = (Path(__file__).parents[2] / "docs/sharing.md").read_text()
    assert not [name for name in (*ARTEFACTS, *STATEMENTS) if f"`{name}`" not in page]


# Where one decides -------------------------------------------------------------------------------

FINE: dict[str, Any] = {"private": True, "randomness": SECRET, "caveats": []}


@pytest.mark.parametrize(
    ("change", "because"),
    [
        ({"private": False}, "no promise"),
        ({"randomness": SEEDED}, "came from a seed"),
        ({"randomness": None}, "nothing says that the randomness"),
        ({"randomness": "Secret"}, "nothing says that the randomness"),
        ({"caveats": ["but"]}, "has caveats"),
        ({"caveats": None}, "has caveats"),
    ],
)
def test_what_is_asked_of_a_release(change: dict[str, Any], because: str) -> None:
    assert judge("model.json", **FINE).shareable
    verdict = judge("model.json", **FINE | change)
    assert not verdict.shareable
    assert because in verdict.because
    assert judge("record.csv", **FINE | change) == ARTEFACTS["record.csv"]
    assert not judge("../model.json", **FINE).shareable


@pytest.mark.parametrize("guarantee", [None, {}, {"epsilon": None}, {"epsilon": "1"}, 1.0])
def test_no_promise_no_sharing(guarantee: Any) -> None:
    if isinstance(guarantee, dict):
        guarantee = {"randomness": SECRET, "caveats": []} | guarantee
    assert not judge_by("model.json", {"guarantee": guarantee}).shareable


def test_what_is_decided_today_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is stricter than what was decided when a file was written."""
    histogram()
    stricter = dict(ARTEFACTS) | {"histogram.csv": ARTEFACTS["record.csv"]}
    monkeypatch.setattr(_sharing, "ARTEFACTS", stricter)
    run("share", "out", "--to", "copy")
    assert names("copy") == NAMES[1:]


def test_files_say_so_themselves() -> None:
    histogram()
    data = json.loads(Path("out/histogram.json").read_text())
    assert data["shareable"] is True
    assert "what was released" in data["because"]
    for change in ({"shareable": False}, {"shareable": 1}, {"because": None}):
        with pytest.raises(ValueError, match="shareable must be true, with a reason"):
            PrivateHistogram.from_dict(data | change)


def test_a_model_says_so_itself() -> None:
    table = np.array([[[0.0, 1.0]], [[0.0, 1.0]]])
    mdp = TabularMDP(table, np.zeros((2, 1)), np.array([1.0, 0.0]), 3)
    for randomness, caveats, shareable in (
        (SECRET, (), True),
        (None, (), False),
        (SEEDED, (), False),
        (SECRET, ("but",), False),
    ):
        statement = privacy_statement(
            unit="a person", relation="replace one person", epsilon=1.0, delta=0.0,
            released="counts", randomness=randomness, caveats=caveats,
        )  # fmt: skip
        save_released("model", Released(mdp=mdp, statement=statement))
        page = json.loads(Path("model/model.json").read_text())
        assert page["shareable"] is shareable
        Path("model/model.json").write_text(json.dumps(page | {"shareable": not shareable}))
        with pytest.raises(ValueError, match="shareable must be"):
            load_released("model")


# Who edited, renamed or planted ------------------------------------------------------------------


def edited(change: Callable[[dict[str, Any]], object], *, sealed: bool = False) -> None:
    path = Path("out/release.json")
    data = json.loads(path.read_text())
    change(data)
    if sealed:  # by somebody who makes the digest anew
        data = _sharing._sealed(data)
    path.write_text(json.dumps(data, indent=2))


def with_record(data: dict[str, Any], name: str = "record.csv") -> None:
    content = Path("out", name).read_bytes() if Path("out", name).is_file() else b""
    data["sha256"][name] = _files._digest(content)
    data["files"][name] = {"shareable": True, "because": "I say so"}


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "change",
    [
        lambda data: data["guarantee"].update(epsilon_delta=0.1),
        lambda data: data["guarantee"].update(randomness=SECRET + " "),
        lambda data: data["files"]["histogram.csv"].update(shareable=False),
        lambda data: data.update(shareable=True),
        lambda data: data.pop("command"),
        with_record,
    ],
)
def test_an_edited_statement_is_refused(change: Callable[[dict[str, Any]], object]) -> None:
    histogram()
    edited(change)
    assert "release.json must be unchanged since privrl wrote it" in refused()


def test_spaces_are_no_edit() -> None:
    histogram()
    edited(lambda data: None)
    run("share", "out", "--to", "copy")


@pytest.mark.few(9)
@pytest.mark.parametrize(
    "name", ["record.csv", "data.csv", "../data.csv", "/etc/passwd", "", ".", "release.json", "a\0"]
)
def test_whoever_forges_a_statement_gets_no_other_file(name: str) -> None:
    histogram()
    Path("out/record.csv").write_text("reward\n1\n")
    Path("out/data.csv").write_text("private")
    edited(lambda data: with_record(data, name if "\0" not in name else "a"), sealed=True)
    run("share", "out", "--to", "copy")
    assert names("copy") == NAMES


def test_a_verdict_that_was_stricter_stays() -> None:
    histogram()
    edited(
        lambda data: data["files"].update({"histogram.csv": {"shareable": False, "because": "x"}}),
        sealed=True,
    )
    assert "histogram.csv left x" in run("share", "out", "--to", "copy")
    assert names("copy") == NAMES[1:]


@pytest.mark.few(6)
@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("[]", "release.json must be a statement"),
        ("{", "release.json Expecting"),
        ('{"a": 1, "a": 2}', "release.json keys must be unique"),
        ("[" * 100_000, "release.json brackets"),
        *(
            (f'{{"statement_sha256": "", "a": {"[" * n}{"]" * n}}}', "release.json")
            for n in (600, 900, 930, 960, 990)
        ),
        ("{}", "an older version of privrl wrote it"),
    ],
)
def test_what_is_no_statement_is_refused(data: str, said: str) -> None:
    histogram()
    Path("out/release.json").write_text(data)
    assert said in refused()


def test_forged_halves_are_refused() -> None:
    histogram()
    edited(lambda data: data["files"].pop("histogram.csv"), sealed=True)
    assert "must have a digest and a verdict for each file" in refused()


def test_a_folder_of_an_older_version() -> None:
    histogram()

    def older(data: dict[str, Any]) -> None:
        for name in ("shareable", "because", "files", "statement_sha256"):
            del data[name]

    edited(older)
    told = refused()
    assert "an older version of privrl wrote it" in told
    assert "Do not repeat the release" in told


def test_renamed_files() -> None:
    histogram()
    Path("out/histogram.csv").rename("out/ages.csv")
    assert "histogram.csv must be a regular file, got nothing" in refused()
    Path("data.csv").rename("out/histogram.csv")
    told = refused()
    assert "histogram.csv must be the file that its statement describes" in told
    assert "restore that file" in told
    assert _files._digest(Path("out/histogram.csv").read_bytes()) not in told


@pytest.mark.few(6)
@pytest.mark.parametrize("name", ["train.json", "predict.json", "sweep.json", "suite.json"])
def test_a_copy_of_a_renamed_statement_states_the_cost(name: str) -> None:
    """Of statements of these names only other entries were copied: the cost was not."""
    histogram()
    said = json.loads(Path("out/release.json").read_text())
    Path("out/release.json").rename(f"out/{name}")
    run("share", "out", "--to", "copy")
    assert json.loads(Path("copy", name).read_text())["guarantee"] == said["guarantee"]


def test_half_of_another_release() -> None:
    histogram()
    kept = Path("out/histogram.json").read_bytes()
    histogram("--force")
    Path("out/histogram.json").write_bytes(kept)
    assert "histogram.json must be the file" in refused()


def test_planted_files_are_left() -> None:
    histogram()
    planted = ["record.csv", "model.json", "policy.json", "ledger.sqlite", ".hidden",
               "\x1b]0;x\x07[red]a", "checkpoint.private"]  # fmt: skip
    for name in planted:
        Path("out", name).write_text("private")
    Path("out/deeper").mkdir()
    Path("out/deeper/histogram.csv").write_text("private")
    Path("out/loop").symlink_to(".")
    told = run("share", "out", "--to", "copy")
    assert names("copy") == NAMES
    assert "private" not in repr(contents("copy"))
    assert "\x1b" not in told
    assert "model.json left no statement" in told
    assert "checkpoint.private left raw counts" in told


def test_many_files_are_not_all_told() -> None:
    histogram()
    for number in range(100):
        Path("out", f"{number}.txt").touch()
    assert "and 63 more files, which were left out" in run("share", "out", "--to", "copy")


@pytest.mark.parametrize("name", ["histogram.csv", "release.json"])
@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_what_is_no_file_is_refused(name: str, kind: str) -> None:
    histogram()
    path = Path("out", name)
    path.rename("elsewhere")
    if kind == "link":  # even to what was there
        path.symlink_to(Path("elsewhere").absolute())
    elif kind == "folder":
        path.mkdir()
    else:
        os.mkfifo(path)
    signal.alarm(20)
    try:
        assert f"{name} must be a regular file" in refused()
    finally:
        signal.alarm(0)


# Folders that are none, or not where a copy belongs ----------------------------------------------


def test_folders_that_are_none() -> None:
    histogram()
    assert "the output folder of a command, got 'data.csv'" in refused(folder="data.csv")
    assert "the output folder of a command, got 'nowhere'" in refused(folder="nowhere")
    Path("empty").mkdir()
    told = refused(folder="empty")
    assert "none of release.json, train.json" in told
    assert "got 'empty', which has none" in told


@pytest.mark.parametrize("to", ["out", "out/copy", "./out/../out/a/b", "link/copy"])
def test_a_copy_is_kept_apart(to: str) -> None:
    histogram()
    Path("link").symlink_to("out")
    before = contents("out")
    assert "to must be a folder outside of 'out'" in refused(to=to)
    assert contents("out") == before


def test_places_that_are_taken() -> None:
    histogram()
    Path("full").mkdir()
    Path("full/mine.txt").write_text("mine")
    told = refused(to="full")
    assert "to must be a new folder, or an empty one" in told
    assert "--force" in told
    assert "must hold only an earlier copy" in refused("--force", to="full")
    assert names("full") == ["mine.txt"]
    assert "to must be a folder that can be written to" in refused(to="data.csv")
    refused(to="/proc/copy")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "access", lambda path, *_, **__: str(path) != ".")  # as if not root
        assert "to must be a folder that can be written to" in refused()
    Path("dangling").symlink_to("nowhere")
    assert "to must be a folder that can be written to" in refused(to="dangling")
    assert "to must be a new folder" in refused(folder="../" + Path.cwd().name + "/out",
                                                       to=".")  # fmt: skip


def test_an_empty_folder_is_filled() -> None:
    histogram()
    Path("copy").mkdir()
    run("share", "out", "--to", "copy")
    assert names("copy") == NAMES


def test_force_writes_over_a_copy_alone() -> None:
    histogram()
    run("share", "out", "--to", "copy")
    histogram("--force")
    assert "--force" in refused()
    run("share", "out", "--to", "copy", "--force")
    assert Path("copy/histogram.csv").read_bytes() == Path("out/histogram.csv").read_bytes()
    histogram(out="another")
    told = refused("--force", to="another")  # it is a release, which would be gone
    assert "must hold only an earlier copy" in told
    Path("copy/mine.txt").write_text("mine")
    assert "must hold only an earlier copy" in refused("--force")


@pytest.mark.slow
def test_who_is_killed_leaves_all_or_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    histogram()
    for step in range(1, 20):
        child = os.fork()
        if child == 0:
            done = 0

            def killed(real: Callable[..., Any]) -> Callable[..., Any]:
                def at_last(*given: Any, **named: Any) -> Any:
                    nonlocal done
                    done += 1
                    if done == step:  # noqa: B023 # in the child, at once
                        os.kill(os.getpid(), signal.SIGKILL)
                    return real(*given, **named)

                return at_last

            for name in ("mkdir", "replace", "rmdir"):
                setattr(os, name, killed(getattr(os, name)))
            copied = copy_of(Path("out"))
            _files.save_folder(Path("copy").absolute(), copied.files)
            os._exit(0)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert not Path("copy").exists() or names("copy") == NAMES
        if ended == 0:
            break
    assert ended == 0
    assert step > 3
    run("share", "out", "--to", "copy", "--force")
    assert names(".") == ["copy", "data.csv", "out", "schema.toml"]


@pytest.mark.slow
def test_two_statements_in_a_folder() -> None:
    histogram()
    run("train", "--env", "FrozenLake-v1", "--episodes", 5, "--out", "out")
    run("share", "out", "--to", "copy")
    assert names("copy") == sorted([*NAMES, "policy.json", "policy.png", "train.json"])


def test_the_ledgers_export_says_so() -> None:
    histogram()
    run("ledger", "export", "--out", "kept.json")
    assert json.loads(Path("kept.json").read_text())["shareable"] is False
    run("ledger", "verify", "--against", "kept.json")
