"""Pages say what is in a folder, and those that may be shared say nothing else."""

import base64
import json
import math
import re
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from folders import (
    EVIL,
    evil_histogram,
    evil_training,
    saved_classifier,
    saved_network,
    saved_policy,
    saved_sweep,
    saved_world,
)
from typer.testing import CliRunner

pytest.importorskip("bokeh", reason="no bokeh: pip install 'privrl[report]'")

from privrl.accounting import ApproxDP
from privrl.agents.policies import Policy
from privrl.cli import app
from privrl.costs import GaussianCost, Relation
from privrl.data.schema import Categories, Schema
from privrl.experiments.palette import BLUE, GREEN
from privrl.experiments.reports import charts, policies, report
from privrl.experiments.reports import contents as of_contents
from privrl.experiments.reports import page as of_pages
from privrl.experiments.reports.contents import NAMES
from privrl.experiments.reports.parts import Cells, Chart, Listing, Page, Series, Table
from privrl.experiments.reports.promise import guess_text, promise
from privrl.files import copies as _copies
from privrl.files import files as _files
from privrl.files import sharing as _sharing
from privrl.mechanisms import GaussianMechanism

pytestmark = pytest.mark.needs("bokeh")
RUNNER = CliRunner()
CANARY = "canary-6174"


def run(*arguments: object, code: int = 0) -> str:
    texts = [str(argument) for argument in arguments]
    result = RUNNER.invoke(app, texts, env={"COLUMNS": "80", "TERM": "dumb"})
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


def page(folder: Path, audience: Any = None) -> Page:
    return of_pages.page_of(of_contents.contents_of(folder, audience))


def found(made: Page, kind: type) -> list[Any]:
    return [part for section in made.sections for part in section.parts if isinstance(part, kind)]


def words(made: Page) -> str:
    texts = [part for section in made.sections for part in section.parts if isinstance(part, str)]
    return " ".join([*texts, *(line for each in found(made, Listing) for line in each.lines)])


# What may leave ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_shareable_page_has_nothing_that_is_not_copied(tmp_path: Path) -> None:
    evil_training(tmp_path / "run", secret=CANARY)
    (tmp_path / "run" / "checkpoint.private").write_text(CANARY)
    own, public = (report(tmp_path / "run", who)[1] for who in ("researcher", "public"))
    assert CANARY in own  # so it would be seen
    assert CANARY not in public
    assert "Learning curve" in own
    assert "Learning curve" not in public
    assert "0.73201" in own  # a reward of record.csv, in the table of the learning curve
    assert "0.73201" not in public


def test_the_shareable_page_is_that_of_the_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Chart] = []
    monkeypatch.setattr(charts, "chart_json", lambda chart, target: str(drawn.append(chart)))
    evil_training(tmp_path / "run")
    _files.save_folder(tmp_path / "copy", _copies.copy_of(tmp_path / "run").files)
    assert report(tmp_path / "run") == report(tmp_path / "copy")
    assert report(tmp_path / "copy", "researcher")[1].count("do not share") == 1
    half = len(drawn) // 3
    assert drawn[:half] == drawn[half : 2 * half]


@pytest.mark.few(6)
@pytest.mark.parametrize("seed", [None, 3])
def test_by_default_it_is_for_whom_it_may_be(tmp_path: Path, seed: int | None) -> None:
    evil_histogram(tmp_path / "run", seeded=seed is not None)
    audience, text = report(tmp_path / "run")
    assert audience == ("public" if seed is None else "researcher")
    assert ("May be shared" in text) is (seed is None)
    assert ("do not share this page" in text) is (seed is not None)
    if seed is not None:
        assert "This is NOT a guarantee: whoever knows the seed" in text
        with pytest.raises(ValueError, match=r"nothing of .* may be shared.*--for researcher"):
            report(tmp_path / "run", "public")


def test_the_picture_of_a_policy_is_on_both_pages(tmp_path: Path) -> None:
    """A grid world is drawn as the map that policy.png has."""
    evil_training(tmp_path / "run")
    png = b"\x89PNG of a map"
    statement = json.loads((tmp_path / "run" / "train.json").read_text())
    files = {name: (tmp_path / "run" / name).read_bytes() for name in ("policy.json", "record.csv")}
    own = {name: statement[name] for name in ("command", "spec", "guarantee", "worth")}
    _files.save_all(
        tmp_path / "run",
        {
            name: lambda file, text=text: file.write(text)
            for name, text in {**files, "policy.png": png}.items()
        },
        ("train.json", own),
    )
    for audience in ("researcher", "public"):
        text = report(tmp_path / "run", audience)[1]
        assert f'src="data:image/png;base64,{base64.b64encode(png).decode()}"' in text
        assert "prefers-color-scheme: dark" in text
    headings = re.findall(r"<h2[^>]*>(.*?)</h2>", text)
    expected = "Summary, Privacy guarantee, Policy value, Policy, Settings, Files, Reproduce"
    assert headings == expected.split(", ")


def test_what_was_changed_since_is_refused(tmp_path: Path) -> None:
    evil_training(tmp_path / "run")
    record = tmp_path / "run" / "record.csv"
    record.write_text(record.read_text() + "0,99,1,1.0,0\n")
    assert report(tmp_path / "run", "public")  # which does not read it
    with pytest.raises(ValueError, match="must be the file that its statement describes"):
        report(tmp_path / "run", "researcher")


def test_a_file_that_no_statement_is_about_has_no_page(tmp_path: Path) -> None:
    """A page was written beside a model of somebody else's, which it had not looked at."""
    evil_histogram(tmp_path / "run")
    (tmp_path / "run" / "notes.txt").write_text("fine")
    assert report(tmp_path / "run")
    (tmp_path / "run" / "model.json").write_text('{"format": "mine"}')
    said = run("report", tmp_path / "run", code=2)
    assert "got 'model.json' besides, which 'release.json'" in said
    assert not (tmp_path / "run" / NAMES["public"]).exists()
    with pytest.raises(ValueError, match="the files of one command"):
        report(tmp_path / "run", "researcher")


def test_pages_are_known_and_stay(tmp_path: Path) -> None:
    assert set(NAMES.values()) <= set(_sharing.ARTEFACTS)
    evil_histogram(tmp_path / "run")
    for audience in NAMES:
        run("report", tmp_path / "run", "--for", audience)
    copy = _copies.copy_of(tmp_path / "run")
    for name in NAMES.values():
        assert name not in copy.files
        assert copy.verdicts[name].because == _sharing.ARTEFACTS[name].because


def test_a_folder_of_predictions_has_no_page(tmp_path: Path) -> None:
    frame = pd.DataFrame({"class": ["a"]})
    _files.save_all(
        tmp_path, {"predictions.csv": _files.table_writer(frame)}, ("predict.json", {"command": ""})
    )
    with pytest.raises(ValueError, match="is of something else"):
        report(tmp_path)


def test_a_statement_that_is_made_up_is_refused_in_words(tmp_path: Path) -> None:
    policy = Policy(actions=np.zeros((2, 2), int), n_actions=1)
    _files.save_all(
        tmp_path,
        {"policy.json": _files.text_writer(policy.to_text())},
        ("train.json", {"command": "privrl train", "spec": {"env": 1}, "guarantee": None}),
    )
    with pytest.raises(ValueError, match="must be as privrl writes them"):
        report(tmp_path)


# What texts can do -------------------------------------------------------------------------------


@pytest.mark.slow
def test_texts_are_escaped(tmp_path: Path) -> None:
    evil_training(tmp_path / "train")
    evil_histogram(tmp_path / "histogram")
    for folder, said in (("train", EVIL), ("histogram", EVIL)):
        _, text = report(tmp_path / folder, "researcher")
        assert EVIL not in text
        assert said in unescape(text)
        body = text[: text.index('<script type="application/json"')]
        assert "<script" not in body
        # No text ends a block of data early, and Bokeh sees no formula in any.
        for block in re.findall(
            r'<script type="application/json" data-picture>(.*?)</script>', text
        ):
            json.loads(block)
            assert "$$" not in block
            assert "<" not in block


def test_only_the_two_scripts_of_a_page_may_run(tmp_path: Path) -> None:
    evil_histogram(tmp_path)
    _, text = report(tmp_path)
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    scripts = next(part for part in policy.split("; ") if part.startswith("script-src"))
    assert len(re.findall(r"'sha256-[^']+'", scripts)) == 2
    assert "unsafe" not in scripts
    assert "default-src 'none'" in policy
    assert "http" not in policy


# What it says ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 0.0), (1.0, 1e-5), (3.0, 0.01), (0.0, 0.2)])
def test_the_game_is_as_hard_as_it_says(epsilon: float, delta: float) -> None:
    """Against the best guess of the mechanism that is worst: randomised response with a leak."""
    e = math.exp(epsilon)
    p = np.array([delta, (1 - delta) * e / (1 + e), (1 - delta) / (1 + e), 0.0])
    q = p[::-1]
    assert (p <= e * q + delta + 1e-12).all()
    right = 0.5 * np.maximum(p, q).sum()
    said = float(re.findall(r"at most ([\d.]+)\u00a0%", guess_text(epsilon, delta))[0])
    assert 100 * right <= said + 1e-9
    assert said < 100 * right + 0.1


def test_a_promise_names_budget_unit_and_what_it_does_not_cover() -> None:
    guarantee = {
        "relation": "replace one step", "order": 2.0, "epsilon": 1.0, "delta": 1e-5,
        "epsilon_delta": 4.377178, "randomness": _sharing.SECRET, "caveats": [],
    }  # fmt: skip
    section = promise(guarantee, also_not=("the curve",))
    text = " ".join(part for part in section.parts if isinstance(part, str))
    assert "ε = 4.378 and δ = 1e-05 (Rényi divergence of order 2 at most 1 nats)" in text
    assert "The privacy unit is one step." in text
    (listing,) = (part for part in section.parts if isinstance(part, Listing))
    assert listing.lines[0] == "the curve"
    assert "more than one step at once" in listing.lines[1]
    assert "as if ε were k times as large, and δ grows even faster" in listing.lines[1]
    assert "NOT a guarantee" not in text
    nothing = promise(guarantee | {"epsilon": None, "epsilon_delta": None})
    assert "no privacy guarantee" in str(nothing.parts[0])


@pytest.mark.parametrize("word", ["visit", "episode", "person"])
def test_a_promise_about_visits_says_what_it_is_for_a_person(word: str) -> None:
    """A person has several visits: of them the relation of a log speaks as of a person."""
    unit = word if word == "episode" else f"{word}: all episodes"
    section = promise(
        {
            "relation": "add or remove one person", "unit": unit, "epsilon_delta": 1.0,
            "delta": 0.0, "randomness": _sharing.SECRET, "caveats": [],
        }
    )  # fmt: skip
    (listing,) = (part for part in section.parts if isinstance(part, Listing))
    assert (f"more than one {word} at once" in listing.lines[0]) == (word != "person")


@pytest.mark.parametrize("k", [2, 10])
def test_of_several_units_delta_grows_faster(k: int) -> None:
    """Nor is k times epsilon enough for them at the same delta."""
    sigma = GaussianMechanism.calibrated(ApproxDP(1.0, 1e-5)).sigma
    several = GaussianCost(sigma=sigma, relation=Relation("k", {"counts": [(k, -k)]}))
    assert several.epsilon(1e-5) > k
    assert k * 1e-5 < several.delta(np.asarray(float(k))) <= k * math.exp(k - 1) * 1e-5


def test_a_histogram_is_drawn_as_it_was_released(tmp_path: Path) -> None:
    made = evil_histogram(tmp_path).to_frame()
    there = page(tmp_path)
    assert there.title == f"A private histogram of {EVIL}"
    (picture,) = found(there, Chart)
    (series,) = picture.series
    assert list(series.x) == pytest.approx(made["count"].tolist())
    table = found(there, Table)[0]
    assert [row[1] for row in table.rows] == pytest.approx(made["probability"].tolist())


def test_a_policy_is_drawn_as_it_is() -> None:
    rng = np.random.default_rng(0)
    policy = rng.integers(-1, 2, (6, 4))
    names = [f"s{i}" for i in range(4)]
    actions = {-1: "as before", 0: "a", 1: "b"}
    picture, table = policies.policy_parts(policy, names, actions, "policy.json")
    assert isinstance(picture, Chart)
    assert isinstance(table, Table)
    drawn = np.full(policy.shape, -9)
    for cells in picture.series:
        assert isinstance(cells, Cells)
        action = next(a for a, name in actions.items() if name == cells.name)
        for row, start, end in zip(cells.rows, cells.starts, cells.ends, strict=True):
            drawn[int(start) : int(end), row] = action
    assert (drawn == policy).all()
    told = np.full(policy.shape, -9)
    for state, start, last, name in table.rows:
        action = next(a for a, each in actions.items() if each == name)
        told[int(start or 0) : int(last or 0) + 1, names.index(str(state))] = action
    assert (told == policy).all()


@pytest.mark.slow
def test_a_sweep_is_drawn_as_its_tables_say(tmp_path: Path) -> None:
    results = saved_sweep(tmp_path)
    there = page(tmp_path)
    assert not there.shareable
    picture, *curves = found(there, Chart)
    private = results[np.isfinite(results["epsilon"])]
    means = private.groupby("epsilon")["optimal_share"].mean()
    (series,) = picture.series
    assert isinstance(series, Series)
    assert list(series.x) == means.index.tolist()
    assert list(series.y) == pytest.approx(means.tolist())
    assert series.colour == BLUE  # as in reward_vs_epsilon.png
    widths = 1.96 * private.groupby("epsilon")["optimal_share"].sem()
    assert np.subtract(series.high, series.y) == pytest.approx(widths.to_numpy())
    assert [level.name for level in picture.levels][-2:] == ["optimum", "random actions"]
    assert len(curves) == 1
    assert "these are rewards of simulated runs" in words(there)


@pytest.mark.slow
def test_budgets_of_a_sweep_are_never_rounded_down(tmp_path: Path) -> None:
    """Its cells, ticks and tooltips said 0.1234 for 0.123449."""
    saved_sweep(tmp_path, least=0.123449)
    _, text = report(tmp_path, "researcher")
    shown = re.findall(r'data-head="privacy budget[^"]*" data-key="[^"]*">([^<]*)<', text)
    assert shown == ["0.1235", "10"]
    assert '"0.1235"' in text  # of a tick
    assert "@budget" in text  # of the tooltip
    assert not re.search(r"0\.12344?[^49]", text)


@pytest.mark.few(6)
@pytest.mark.parametrize("kind", ["naive_bayes", "logistic_regression"])
def test_a_classifier_is_drawn_as_it_was_released(tmp_path: Path, kind: str) -> None:
    pytest.importorskip("sklearn", reason="no sklearn: pip install 'privrl[models]'")
    made = saved_classifier(tmp_path, kind)
    there = page(tmp_path)
    assert there.shareable
    classes, feature = found(there, Chart)
    nested = made.to_dict().get("naive_bayes", made.to_dict())
    assert list(classes.series[0].x) == pytest.approx(np.exp(nested["class_log_prior"]).tolist())
    rows = (
        np.exp(nested["feature_log_prob"][0])
        if kind == "naive_bayes"
        else np.asarray(made.to_dict()["weights"][0]).T
    )
    assert [list(each.x) for each in feature.series] == [
        pytest.approx(row) for row in rows.tolist()
    ]
    assert [each.name for each in feature.series] == ["no", "yes"]
    assert EVIL not in report(tmp_path)[1]


@pytest.mark.few(6)
@pytest.mark.parametrize("kind", ["naive_bayes", "logistic_regression"])
@pytest.mark.parametrize("labels", [("zebra", "ant", "mole"), ("b", 7, "a"), (True, False)])
def test_classes_in_any_order_keep_their_numbers(
    tmp_path: Path, kind: str, labels: tuple[Any, ...]
) -> None:
    """Each class is known by a value of a feature that it nearly always has."""
    pytest.importorskip("sklearn", reason="no sklearn: pip install 'privrl[models]'")
    schema = Schema({"x": Categories(tuple("pqr"[: len(labels)])), "y": Categories(labels)})
    rng = np.random.default_rng(1)
    # A different number of records for each, so that priors differ, too.
    codes = np.repeat(np.arange(len(labels)), [2000 * 2**k for k in range(len(labels))])
    seen = np.where(rng.random(codes.size) < 0.8, codes, rng.integers(0, len(labels), codes.size))
    y = pd.Series([labels[code] for code in codes], name="y", dtype=object)
    X = pd.DataFrame({"x": [schema.columns["x"].values[code] for code in seen]})
    saved_classifier(tmp_path, kind, (schema, "y", X, y))
    frequencies, feature = found(page(tmp_path), Chart)
    names = [str(label) for label in labels]
    assert list(frequencies.labels) == names
    assert np.argsort(frequencies.series[0].x).tolist() == list(range(len(labels)))
    assert [series.name for series in feature.series] == names
    assert [int(np.argmax(series.x)) for series in feature.series] == list(range(len(labels)))


def test_a_network_shows_its_tables(tmp_path: Path) -> None:
    pytest.importorskip("networkx", reason="no networkx: pip install 'privrl[models]'")
    net = saved_network(tmp_path)
    there = page(tmp_path)
    tables = [each for each in found(there, Table) if each.caption.startswith("age, by")]
    if net.parents["age"]:  # the fit may drop the edge
        shown = [row[1:] for row in tables[0].rows]
        assert shown == [pytest.approx(tuple(row)) for row in net.probabilities["age"].tolist()]
        assert [row[0] for row in tables[0].rows] == ["no", "yes"]
    else:
        assert not tables
    assert EVIL not in report(tmp_path)[1]
    told = "Its edges were given" if net.parents["age"] else "columns are independent"
    assert told in words(there)


def test_a_network_says_that_its_edges_were_chosen(tmp_path: Path) -> None:
    pytest.importorskip("networkx", reason="no networkx: pip install 'privrl[models]'")
    saved_network(tmp_path, chosen=True)
    assert "chosen privately, as part of this release" in words(page(tmp_path))


def test_a_network_without_edges_says_that_columns_are_independent(tmp_path: Path) -> None:
    pytest.importorskip("networkx", reason="no networkx: pip install 'privrl[models]'")
    net = saved_network(tmp_path, given={"age": [], EVIL: []})
    assert not any(net.parents.values())
    told = words(page(tmp_path))
    assert "Its edges were given" not in told
    assert "Without edges (the records are too few, or none given), columns are independent" in told


def test_a_page_says_what_a_synthetic_file_does_not_preserve(tmp_path: Path) -> None:
    note = "preserves <b>nothing</b>."
    saved_world(tmp_path, notes={"model.json": note, "other": "is not here"})
    assert f"model.json {note}" in words(page(tmp_path))
    text = report(tmp_path)[1]
    assert "<b>nothing" not in text
    assert "is not here" not in text


def test_a_model_of_a_log_says_what_is_likely(tmp_path: Path) -> None:
    saved_world(tmp_path)
    (table, *_) = found(page(tmp_path), Table)
    assert table.rows[1] == ("<b>ill</b>", "treat", "mild", pytest.approx(0.8), 0.5)
    assert table.rows[2] == ("mild", "wait", "well", pytest.approx(0.6), 1.0)
    text = report(tmp_path)[1]
    assert "<b>" not in text
    assert len(text) < 50_000  # without pictures there is no need of their script


def test_a_policy_of_a_log_says_what_to_do(tmp_path: Path) -> None:
    made = saved_policy(tmp_path)
    there = page(tmp_path)
    assert made.says in words(there)
    table = found(there, Table)[0]
    for state, start, last, do in table.rows:
        place = ["<b>ill</b>", "mild"].index(str(state))
        actions = made.action[int(start or 0) : int(last or 0) + 1, place]
        assert {made.action_label(int(a)) for a in actions} == {do}


@pytest.mark.slow
def test_a_suite_is_drawn_as_its_table_says(tmp_path: Path) -> None:
    rows = [
        {"task": task, "half": "set", "episodes": 10, "method": method, "agent": method,
         "sampler": "noisy-counts", "relation": "replace-step", "renyi_order": 2.0, "delta": 1e-5,
         "epsilon": epsilon,
         "epsilon_delta": 4.4 if epsilon < 9 else epsilon, "run": run, "learning": 0.1 + run / 5,
         "final": 0.5 + run / 5}
        for task in ("one", EVIL) for method in ("psrl", "ucbvi")
        for epsilon in (1.0, math.inf) for run in (0, 1)
    ]  # fmt: skip
    _files.save_all(
        tmp_path,
        {"suite.csv": _files.table_writer(pd.DataFrame(rows))},
        ("suite.json", {"command": "privrl suite", "spec": {"epsilons": [None, 1.0]}}),
    )
    there = page(tmp_path)
    pictures = found(there, Chart)
    assert [picture.kind for picture in pictures] == ["dots", "dots"]
    for series, colour in zip(pictures[0].series, (BLUE, GREEN), strict=True):
        assert list(series.low) == pytest.approx([0.2] * len(series.low))
        assert list(series.high) == pytest.approx([0.6] * len(series.low))
        assert series.colour == colour  # as in suite.png
    text = report(tmp_path)[1]
    assert EVIL not in text
    assert "epsilons" in text
    assert "no privacy, 1" in text


# The command -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_command_writes_a_page_once(tmp_path: Path) -> None:
    evil_histogram(tmp_path)
    assert "report-public.html" in run("report", tmp_path)
    assert "--force" in run("report", tmp_path, code=2)
    run("report", tmp_path, "--force")
    run("report", tmp_path, "--out", tmp_path / "else" / "x.html", "--for", "researcher")
    assert "do not share" in (tmp_path / "else" / "x.html").read_text()
    assert "must be researcher or public, got 'all'" in run(
        "report", tmp_path, "--for", "all", code=2
    )


@pytest.mark.few(9)
@pytest.mark.parametrize("name", ["release.json", "histogram.json", "histogram.csv"])
def test_a_page_takes_no_place_of_what_it_is_about(name: str, tmp_path: Path) -> None:
    """Only the statement records what the release cost, and it went with any of its files."""
    evil_histogram(tmp_path)
    before = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    place = tmp_path / "else" / ".." / name
    (tmp_path / "else").mkdir()
    told = run("report", tmp_path, "--out", place, "--force", code=2)
    assert f"{name} there is read by the command" in told
    assert (
        before.items()
        <= {each.name: each.read_bytes() for each in tmp_path.iterdir() if each.is_file()}.items()
    )
    assert len(before) == 3


@pytest.mark.few(2)
@pytest.mark.parametrize("audience", ["public", "researcher"])
def test_what_is_written_anew_has_no_page_of_what_was_there(tmp_path: Path, audience: str) -> None:
    evil_histogram(tmp_path)
    run("report", tmp_path, "--for", audience)
    (tmp_path / "notes.html").write_text("mine")
    assert (tmp_path / f"report-{audience}.html").exists()
    evil_histogram(tmp_path)
    assert not list(tmp_path.glob("report-*"))
    assert (tmp_path / "notes.html").exists()
    assert f"report-{audience}.html" in _sharing.PAGES
    assert set(_sharing.PAGES) == set(NAMES.values())


def test_without_bokeh_nothing_is_spent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("privrl.experiments.reports.markup.find_spec", lambda name: None)
    told = run(
        "train", "--env", "FrozenLake-v1", "--episodes", 2, "--out", "run", "--report", code=2
    )
    assert "pip install 'privrl[report]'" in told
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_training_writes_its_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    told = run("train", "--env", "FrozenLake-v1", "--episodes", 2, "--out", "run", "--report")
    assert "wrote run/report-public.html" in told
    assert "--report" not in json.loads((tmp_path / "run/train.json").read_text())["command"]


@pytest.mark.parametrize(
    "command",
    ["sweep", "train", "suite", "fit-policy", "fit-model", "histogram", "naive-bayes", "classify",
     "bayes-net"],
)  # fmt: skip
def test_every_command_of_a_folder_offers_its_page(command: str) -> None:
    assert "--report" in run(command, "--help")
