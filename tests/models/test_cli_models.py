"""From a CSV file to a private model: what the commands write, and how they say no."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import run, said

pytest.importorskip("sklearn", reason="no sklearn: pip install 'privrl[models]'")

from typer.testing import CliRunner

from privrl.accounting.targets import DEFAULT_DELTA, RenyiDP
from privrl.cli import app
from privrl.cli.options import DELTA
from privrl.data.records import read_records
from privrl.data.schema import Bins, Categories, Schema
from privrl.models.bayes_net.network import BayesNet
from privrl.models.histograms.result import PrivateHistogram
from privrl.models.naive_bayes.classifier import PrivateNaiveBayes
from privrl.numerics import randomness

SCHEMA = Schema(
    {
        "age": Bins((0, 20, 40, 60, 80, 100)),
        "job": Categories(("clerk", "smith", "none"), other=True),
        "rich": Categories((True, False)),
    }
)
SECRET = "4321.5"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A schema, a network, and 400 records whose columns depend on each other."""
    rng = np.random.default_rng(0)
    rich = rng.random(400) < 0.4
    frame = pd.DataFrame(
        {
            "other": "x",
            "rich": rich,
            "job": np.where(rng.random(400) < 0.8, np.where(rich, "smith", "clerk"), "none"),
            "age": rng.normal(np.where(rich, 60, 30), 10).round(1),
        }
    )
    frame.to_csv(tmp_path / "data.csv", index=False)
    SCHEMA.save(tmp_path / "schema.toml")
    (tmp_path / "network.toml").write_text('[parents]\nrich = []\nage = ["rich"]\njob = ["rich"]\n')
    return tmp_path


def test_of_hundreds_of_columns_some_are_told(tmp_path: Path) -> None:
    names = ",".join(f"x{i}" for i in range(300))
    result = run("schema", "--columns", names, "--out", tmp_path / "s.toml")
    assert "Fill in the categories of x0, x1, " in said(result)
    assert ", x19 and 280 more, from public knowledge" in said(result)


def test_schema_of_names(tmp_path: Path) -> None:
    out = tmp_path / "s.toml"
    result = run(
        "schema", "--columns", "age, job", "--numeric", "age=0:100", "--bins", 4, "--out", out
    )
    assert result.exit_code == 0, result.output
    assert "Fill in the categories of job" in said(result)
    text = out.read_text().replace("categories = []", 'categories = ["a", "b"]')
    out.write_text(text)
    assert Schema.load(out).columns["age"] == Bins((0, 25, 50, 75, 100))
    again = run("schema", "--columns", "age", "--out", out)
    assert again.exit_code == 0
    assert out.read_text() == text
    full = run(
        "schema", "--columns", "a,b", "--numeric", "a=0:1", "--numeric", "b=-1:1",
        "--out", tmp_path / "n.json",
    )  # fmt: skip
    assert "Nothing is left" in said(full)
    assert Schema.load(tmp_path / "n.json").names == ("a", "b")


def test_schema_of_a_file_reads_its_header_only(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_bytes(b"age\tjob\n\xff\xfe not even text")
    result = run("schema", "--header", "--csv", tmp_path / "d.csv", "--separator", "tab", "--out",
                 tmp_path / "s.toml")  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "age, job" in said(result)


def test_histogram(folder: Path) -> None:
    result = run(
        "histogram", folder / "data.csv", "--schema", folder / "schema.toml", "--column", "age",
        "--epsilon", 1, "--renyi-order", 2, "--out", folder / "out",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "age of 400 records" in said(result)
    assert "-differential privacy (Rényi divergence of order 2 at most 1)" in said(result)
    assert "privacy unit: replace one record" in said(result)
    assert "█" in result.output
    out = folder / "out"
    assert sorted(p.name for p in out.iterdir()) == [
        "histogram.csv", "histogram.json", "release.json",
    ]  # fmt: skip
    released = PrivateHistogram.load(out / "histogram.json")
    table = pd.read_csv(out / "histogram.csv")
    assert table.columns.tolist() == ["cell", "probability", "count", "lower", "upper"]
    np.testing.assert_allclose(table["probability"], released.probabilities)
    true = np.histogram(pd.read_csv(folder / "data.csv")["age"], released.edges)[0]
    assert np.abs(released.counts - true).max() < 30
    guarantee = json.loads((out / "release.json").read_text())["guarantee"]
    assert guarantee["epsilon"] == 1
    assert guarantee["epsilon_delta"] == pytest.approx(float(released.cost.epsilon(1e-5)))
    assert guarantee["caveats"] == []


def test_a_private_number_of_records_is_not_told(folder: Path, monkeypatch) -> None:
    """Not even that there is none."""
    monkeypatch.chdir(folder)
    Path("none.csv").write_text("age\n")
    for data in ("data.csv", "none.csv"):
        result = run(
            "histogram", data, "--schema", "schema.toml", "--column", "age", "--renyi-order", 2,
            "--relation", "add-remove-record", "--mechanism", "gaussian",
            "--reproducible", "--seed", 1, "--out", "out", "--force",
        )  # fmt: skip
        assert result.exit_code == 0, result.output
        assert "age of about" in said(result)
        assert "privacy unit: add or remove one record" in said(result)
        saved = json.loads(Path("out", "histogram.json").read_text())
        assert saved["n_records"] not in (0, 400)


def test_no_file_holds_the_raw_counts(folder: Path) -> None:
    """With a budget that drowns everything the counts of 400 records cannot be read off."""
    run(
        "histogram", folder / "data.csv", "--schema", folder / "schema.toml", "--column", "age",
        "--epsilon", 0.001, "--renyi-order", 2, "--mechanism", "gaussian", "--out", folder / "out",
    )  # fmt: skip
    released = PrivateHistogram.load(folder / "out" / "histogram.json")
    true = np.histogram(pd.read_csv(folder / "data.csv")["age"], released.edges)[0]
    assert np.abs(released.noisy - true).max() > 10
    saved = json.loads((folder / "out" / "histogram.json").read_text())
    assert saved.pop("column") == {"edges": [0, 20, 40, 60, 80, 100], "missing": False}
    table = pd.read_csv(folder / "out" / "histogram.csv")
    shown = [*saved["probabilities"], *saved["noisy"], *table.drop(columns="cell").to_numpy().flat]
    assert not set(shown) & (set(true[true > 0]) | set(true[true > 0] / 400))


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("command", "options", "name"),
    [
        ("histogram", ["--column", "job"], "histogram.json"),
        ("naive-bayes", ["--target-column", "rich"], "model.json"),
        ("bayes-net", ["--network", "network.toml", "--synthetic", "20"], "model.json"),
    ],
)
def test_fresh_randomness_unless_a_seed_is_given(
    command: str, options: list[str], name: str, folder: Path, monkeypatch
) -> None:
    monkeypatch.chdir(folder)
    start = [command, "data.csv", "--schema", "schema.toml", "--renyi-order", 2, *options]
    contents = {}
    for out, seed in (
        ("a", []),
        ("b", []),
        ("c", ["--reproducible", "--seed", 1]),
        ("d", ["--reproducible", "--seed", 1]),
    ):
        result = run(*start, *seed, "--out", out)
        assert result.exit_code == 0, result.output
        warned = "no guarantee: whoever knows the seed can undo the noise" in said(result)
        assert warned == bool(seed)
        wanted = randomness.SEEDED if seed else randomness.SECRET
        guarantee = json.loads(Path(out, "release.json").read_text())["guarantee"]
        model = json.loads(Path(out, name).read_text())
        assert guarantee["randomness"] == model["randomness"] == wanted
        contents[out] = [
            p.read_bytes() for p in sorted(Path(out).iterdir()) if p.name != "release.json"
        ]
    assert contents["a"] != contents["b"]
    assert contents["c"] == contents["d"]
    saved = json.loads(Path("c", "release.json").read_text())
    assert saved["guarantee"]["caveats"]
    program, *arguments = shlex.split(saved["command"])
    assert program == "privrl"
    assert run(*arguments, "--out", "e").exit_code == 0
    assert Path("e", name).read_bytes() == Path("c", name).read_bytes()


@pytest.mark.few(4)
@pytest.mark.parametrize(
    "command",
    [
        ["naive-bayes"],
        ["classify"],
        ["classify", "--model", "naive-bayes"],
        ["classify", "--model", "logistic-regression"],
    ],
    ids=" ".join,
)
def test_a_classifier_predicts_and_is_measured(command: list[str], folder: Path) -> None:
    data, schema, out = folder / "data.csv", folder / "schema.toml", folder / "nb"
    result = run(
        *command, data, "--schema", schema, "--target-column", "rich", "--epsilon", 5,
        "--renyi-order", 2, "--test", data, "--out", out,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "publish it only if these records are public" in said(result)
    assert sorted(p.name for p in out.iterdir()) == ["model.json", "release.json"]
    again = run("predict", out / "model.json", data, "--out", folder / "pr")
    assert again.exit_code == 0, again.output
    scores = said(result).split("accuracy", 1)[1].split(":")[0]
    assert scores in said(again)
    table = pd.read_csv(folder / "pr" / "predictions.csv")
    truth = pd.read_csv(data)["rich"]
    accuracy = (table["rich"] == truth).mean()
    assert accuracy > 0.8
    alone = max(truth.mean(), 1 - truth.mean())
    assert f"accuracy {accuracy:.4f} (most frequent class: {alone:.4f})" in said(again)
    chances = np.where(truth, table["probability of True"], table["probability of False"])
    assert f"cross-entropy {-np.log(chances).mean():.4f}" in said(again)
    pd.read_csv(data).drop(columns="rich").to_csv(folder / "new.csv", index=False)
    unknown = run("predict", out / "model.json", folder / "new.csv", "--out", folder / "pr2")
    assert unknown.exit_code == 0, unknown.output
    assert "accuracy" not in unknown.output
    pd.testing.assert_frame_equal(table, pd.read_csv(folder / "pr2" / "predictions.csv"))


def test_a_classifier_without_named_columns_predicts_for_no_file(folder: Path, monkeypatch) -> None:
    monkeypatch.chdir(folder)
    model = PrivateNaiveBayes([2, 2], classes=[0, 1], target=RenyiDP(2, 1.0), random_state=0)
    model.fit(np.zeros((5, 2), int), np.zeros(5, int)).save("model.json")
    result = run("predict", "model.json", "data.csv")
    assert result.exit_code == 2
    assert "model model.json must have a schema of named columns" in said(result)


def test_bayes_net(folder: Path) -> None:
    network = folder / "network.json"
    network.write_text('{"parents": {"rich": [], "age": ["rich"], "job": ["rich"]}}')
    for number, file in enumerate((network, folder / "network.toml")):
        out = folder / f"bn{number}"
        result = run(
            "bayes-net", folder / "data.csv", "--schema", folder / "schema.toml", "--network", file,
            "--renyi-order", 2, "--reproducible", "--seed", 3, "--synthetic", 50, "--out", out,
        )  # fmt: skip
        assert result.exit_code == 0, result.output
        assert "3 nodes and 2 edges, from 400 records" in said(result)
        assert "edges, as given: age of rich; job of rich" in said(result)
        assert "synthetic.csv preserves relations along the network's edges only." in said(result)
    names = ["model.bif", "model.json", "release.json", "synthetic.csv"]
    assert sorted(p.name for p in out.iterdir()) == names
    for name in ("model.bif", "model.json", "synthetic.csv"):
        assert (folder / "bn0" / name).read_bytes() == (folder / "bn1" / name).read_bytes()
    net = BayesNet.load(out / "model.json")
    assert net.nodes == ("rich", "age", "job")
    assert (out / "model.bif").read_text() == net.to_bif()
    synthetic = read_records(out / "synthetic.csv", SCHEMA)
    assert len(synthetic) == 50
    net.log_likelihood(synthetic)


@pytest.mark.slow
def test_bayes_net_that_chooses_its_edges(folder: Path) -> None:
    given = ("bayes-net", folder / "data.csv", "--schema", folder / "schema.toml", "--seed", 3)
    result = run(*given, "--reproducible", "--epsilon", 8, "--out", folder / "bn")
    assert result.exit_code == 0, result.output
    assert "edges, chosen privately: " in said(result)
    net = BayesNet.load(folder / "bn" / "model.json")
    assert net.nodes == SCHEMA.names
    assert {frozenset((node, *own)) for node, own in net.parents.items()} >= {
        frozenset({"rich", "job"})
    }
    assert float(net.cost.epsilon(1e-5)) <= 8
    result = run(*given, "--reproducible", "--epsilon", 0.01, "--out", folder / "none")
    assert "no edges: too few records to choose any" in said(result)
    few = ("--reproducible", "--epsilon", 0.01, "--synthetic", 9, "--out", folder / "few")
    result = run(*given, *few)
    note = json.loads((folder / "few" / "release.json").read_text())["notes"]["synthetic.csv"]
    assert note.startswith("has independent columns: it preserves each column's distribution")
    assert note in said(result)
    result = run(*given, "--reproducible", "--mechanism", "laplace", "--out", folder / "other")
    assert result.exit_code == 2
    assert "network must be given with --mechanism laplace" in said(result)


@pytest.mark.parametrize("command", ["naive-bayes", "bayes-net"])
def test_without_privacy_nothing_is_claimed(command: str, folder: Path, monkeypatch) -> None:
    monkeypatch.chdir(folder)
    more = {"naive-bayes": "--target-column=rich", "bayes-net": "--network=network.toml"}[command]
    result = run(command, "data.csv", "--schema", "schema.toml", more, "--mechanism", "none")
    assert result.exit_code == 0, result.output
    assert "no privacy guarantee" in said(result)
    saved = json.loads(Path("results", command, "release.json").read_text())
    assert saved["guarantee"]["epsilon_delta"] is None


HISTOGRAM = ["histogram", "data.csv", "--schema", "schema.toml", "--column", "age"]
BAYES = ["naive-bayes", "data.csv", "--schema", "schema.toml", "--target-column", "rich"]
NET = ["bayes-net", "data.csv", "--schema", "schema.toml", "--network", "network.toml"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["schema"], "give --columns or --csv"),
        (
            ["schema", "--header", "--columns", "ajob", "--csv", "data.csv"],
            "columns must be one of",
        ),
        (["schema", "--columns", ","], "at least one column"),
        (["schema", "--columns", "a,a"], "different"),
        (["schema", "--columns", "a", "--numeric", "b=0:1"], "numeric must name columns"),
        (["schema", "--columns", "a", "--numeric", "a"], "numeric must be like"),
        (["schema", "--columns", "a", "--numeric", "a=1:0"], "increasing"),
        (["schema", "--columns", "a", "--numeric", "a=0:1", "--bins", "1"], "bins must be"),
        (["schema", "--csv", "none.csv"], "no such file"),
        (["schema", "--csv", "data.csv", "--separator", ",,"], "separator must be"),
        (["schema", "--columns", "a", "--out", "no/s.toml"], "out must be in a folder"),
        (["schema", "--columns", "a", "--out", "s.yaml"], "must end in .toml or .json"),
        ([*HISTOGRAM, "--column", "wage"], "column must be one of 'age', 'job', 'rich'"),
        ([*HISTOGRAM, "--epsilon", "0"], "epsilon must be"),
        ([*HISTOGRAM, "--epsilon", "nan"], "epsilon must be"),
        ([*HISTOGRAM, "--delta", "-1"], "delta must be"),
        ([*HISTOGRAM, "--delta", "0", "--renyi-order", "2"], "delta must be"),
        ([*HISTOGRAM, "--renyi-order", "1"], "order must be"),
        ([*HISTOGRAM, "--mechanism", "gauss"], "mechanism must be one of"),
        ([*HISTOGRAM, "--loss", "l3"], "loss must be one of"),
        ([*HISTOGRAM, "--relation", "replace-step"], "relation must be"),
        ([*HISTOGRAM, "--n-records", "5"], "n_records is for relations"),
        (
            [*HISTOGRAM, "--relation", "add-remove-record", "--mechanism", "dirichlet"],
            "n_records must be given",
        ),
        ([*HISTOGRAM, "--seed", "-1"], "seed must be"),
        ([*HISTOGRAM, "--seed", "1"], "add --reproducible"),
        ([*BAYES, "--seed", "1"], "add --reproducible"),
        ([*NET, "--seed", "1"], "add --reproducible"),
        ([*HISTOGRAM, "--reproducible"], "needs a seed"),
        ([*HISTOGRAM, "--separator", ";"], "--separator"),
        ([*HISTOGRAM, "--separator", "ab"], "separator must be one character"),
        ([*HISTOGRAM, "--schema", "none.toml"], "no such file"),
        ([*HISTOGRAM, "--schema", "data.csv"], "a schema or network must end in .toml or .json"),
        ([*HISTOGRAM, "--schema", "empty.toml"], "still to be filled in"),
        (["histogram", "none.csv", *HISTOGRAM[2:]], "no such file"),
        (["histogram", "bad.csv", *HISTOGRAM[2:]], "column 'age' must hold numbers"),
        (["histogram", "missing.csv", *HISTOGRAM[2:]], "numbers everywhere"),
        (["histogram", "absent.csv", *HISTOGRAM[2:]], "'age' absent"),
        (["histogram", "twice.csv", *HISTOGRAM[2:]], "'age' there twice"),
        (["histogram", "void.csv", *HISTOGRAM[2:]], "must have a header row"),
        (["histogram", "header.csv", *HISTOGRAM[2:]], "at least one record"),
        (["histogram", "latin.csv", *HISTOGRAM[2:]], "text in UTF-8"),
        (["histogram", "ragged.csv", *HISTOGRAM[2:]], "one record in each line"),
        (["histogram", "quote.csv", *HISTOGRAM[2:]], "one record in each line"),
        ([*BAYES, "--target-column", "wage"], "target-column must be one of"),
        ([*BAYES, "--target-column", "age"], "which has bins"),
        ([*BAYES, "--target-column", "job"], "under [columns.job]: other = false"),
        ([*BAYES, "--mechanism", "gauss"], "mechanism must be one of"),
        ([*BAYES, "--epsilon", "-1"], "epsilon must be"),
        ([*BAYES, "--test", "none.csv"], "no such file"),
        ([*BAYES, "--test", "bad.csv"], "must hold numbers"),
        ([*BAYES, "--test", "header_all.csv"], "test must have at least one record"),
        (["naive-bayes", "header_all.csv", *BAYES[2:]], "minimum of 1"),
        (["predict", "schema.toml", "data.csv"], "got schema.toml, which is a file of settings"),
        (["predict", "none.json", "data.csv"], "no such file"),
        ([*NET, "--network", "schema.toml"], "one entry, 'parents'"),
        ([*NET, "--network", "none.toml"], "no such file"),
        ([*NET, "--network", "cycle.json"], "cycle"),
        ([*NET, "--network", "text.json"], "must be a list"),
        ([*NET, "--network", "broken.json"], "network broken.json"),
        ([*NET, "--synthetic", "0"], "synthetic must be"),
        ([*NET, "--mechanism", "dkl"], "mechanism must be one of"),
        (["bayes-net", "missing.csv", *NET[2:]], "absent"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_one_sentence_and_leaves_nothing(
    arguments: list[str], message: str, folder: Path, monkeypatch
) -> None:
    monkeypatch.chdir(folder)
    for name, content in {
        "empty.toml": "[columns.age]\ncategories = []\n",
        "bad.csv": f"age,job,rich\n{SECRET},clerk,true\n{SECRET} years,clerk,true\n",
        "missing.csv": f"age\n{SECRET}\nNA\n",
        "absent.csv": f"job\n{SECRET}\n",
        "twice.csv": f"age,age\n{SECRET},1\n",
        "void.csv": "",
        "header.csv": "age\n",
        "header_all.csv": "age,job,rich\n",
        "latin.csv": f"age\n{SECRET}\n\xe9\n",
        "ragged.csv": f"age,job\n1,2\n1,{SECRET},3\n",
        "quote.csv": f'age,job\n1,"{SECRET}\n2,3\n',
        "cycle.json": '{"parents": {"age": ["job"], "job": ["age"]}}',
        "text.json": '{"parents": {"age": "job", "job": []}}',
        "broken.json": '{"parents": ',
    }.items():
        Path(name).write_bytes(content.encode("latin-1"))
    before = sorted(Path().rglob("*"))
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert message in said(result)
    assert "Traceback" not in result.output
    assert "4321" not in result.output
    assert sorted(Path().rglob("*")) == before


def test_a_file_is_not_a_folder(folder: Path, monkeypatch) -> None:
    monkeypatch.chdir(folder)
    for command in (HISTOGRAM, BAYES, NET):
        result = run(*command, "--out", "data.csv")
        assert result.exit_code == 2
        assert "out must be a folder" in said(result)


# Reading records ----------------------------------------------------------------------------------


def test_the_schema_decides_what_a_field_is(tmp_path: Path) -> None:
    schema = Schema(
        {
            "text": Categories(("1", "01", "NA", "x y"), other=True),
            "whole": Categories((1, 20, -3), other=True),
            "truth": Categories((True, False), other=True),
            "mixed": Categories(("a", 2, True), other=True),
            "number": Bins((0, 1, 2), missing=True),
        }
    )
    (tmp_path / "d.csv").write_text(
        "\ufeffnumber;mixed;ignored;truth;whole;text\n"
        "0.5;a;;true;1;1\n"
        "1e0;2;;FALSE;20.0;01\n"
        "NA;TRUE;;1;-3;NA\n"
        ";1;;yes;1.5;x y\n"
        'inf;"a";"b;c d";;;" 1"\n',
        encoding="utf-8",
    )
    records = read_records(tmp_path / "d.csv", schema, separator=";")
    np.testing.assert_array_equal(
        schema.encode(records),
        [[0, 0, 0, 0, 0], [1, 1, 1, 1, 1], [2, 2, 2, 2, 2], [3, 3, 2, 3, 2], [0, 3, 2, 0, 1]],
    )


def test_categories_that_look_alike_are_refused(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("a\n1\n")
    with pytest.raises(ValueError, match="must look different in a CSV file"):
        read_records(tmp_path / "d.csv", Schema({"a": Categories(("1", 1))}))


@pytest.mark.slow
def test_many_rows_come_in_parts_that_fit_together(tmp_path: Path) -> None:
    """300,000 rows are three parts, of which the last alone has a certain category."""
    n = 300_000
    frame = pd.DataFrame({"job": ["clerk"] * (n - 1) + ["smith"], "age": np.arange(n) % 100})
    frame.to_csv(tmp_path / "d.csv", index=False)
    schema = SCHEMA.subset(["age", "job"])
    records = read_records(tmp_path / "d.csv", schema)
    np.testing.assert_array_equal(schema.encode(records), schema.encode(frame))
    assert records["job"].dtype == "category"


def test_more_synthetic_records_than_memory_holds_cost_nothing(tmp_path, ledger_path):
    (tmp_path / "records.csv").write_text("a\n1\n2\n")
    (tmp_path / "schema.json").write_text('{"columns": {"a": {"categories": [1, 2]}}}')
    (tmp_path / "net.json").write_text('{"parents": {"a": []}}')
    names = {each: str(tmp_path / each) for each in ("records.csv", "schema.json", "net.json")}
    options = ["--schema", names["schema.json"], "--network", names["net.json"]]
    more = ["--synthetic", str(2**53), "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, ["bayes-net", names["records.csv"], *options, *more])
    assert result.exit_code == 2
    assert "synthetic must be at most" in " ".join(result.output.split())
    assert not ledger_path.exists()
    assert not (tmp_path / "out").exists()


@pytest.mark.few(12)
@pytest.mark.parametrize("command", ["histogram --column age", "naive-bayes --target-column rich",
                                     "classify --target-column rich"])  # fmt: skip
@pytest.mark.parametrize(
    ("options", "cost"),
    [
        ([], r"cost: \(1, 1e-05\)-differential privacy;"),
        (["--delta", "1e-3"], r"cost: \(1, 0.001\)-differential privacy;"),
        (["--delta", "0"], r"cost: \(1, 0\)-differential privacy;"),
        (
            ["--renyi-order", "2"],
            r"cost: \([\d.]+, 1e-05\)-.* \(Rényi .* at most 1\)",
        ),
    ],
    ids=["default", "delta", "pure", "Rényi"],
)
def test_one_meaning_of_epsilon(
    command: str, options: list[str], cost: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That `fit-policy` takes the same options is in tests/offline/test_cli_offline.py."""
    monkeypatch.chdir(folder)
    verb, *own = command.split()
    result = run(verb, "data.csv", "--schema", "schema.toml", *own, *options, "--out", "out")
    assert result.exit_code == 0, result.output
    assert re.search(cost, said(result))
    pure = options == ["--delta", "0"]
    made = json.loads(Path("out/release.json").read_text())["guarantee"]
    assert (made["delta"] == 0) == pure


def test_the_default_delta_is_one() -> None:
    assert DELTA == DEFAULT_DELTA
