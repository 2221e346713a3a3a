"""Files that were tampered with, and data as bad as they come, refused without telling of them."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sklearn", reason="no sklearn: pip install 'privrl[models]'")

from typer.testing import CliRunner

from privrl.accounting.targets import RenyiDP
from privrl.cli import app
from privrl.data.schema import Bins, Categories, Schema, read_header
from privrl.mechanisms import TablesMechanism
from privrl.models import discretise
from privrl.models.bayes_net.fit import PrivateBayesNet
from privrl.models.histograms.release import histogram
from privrl.models.naive_bayes.classifier import PrivateNaiveBayes

TARGET = RenyiDP(2, 1.0)
SCHEMA = Schema({"x": Categories(("a", "b")), "z": Bins((0, 1, 2)), "y": Categories(("u", "w"))})
FRAME = pd.DataFrame({"x": ["a", "b"] * 20, "z": [0.5, 1.5] * 20, "y": ["u", "w"] * 20})
SECRETS = ("SECRET7", "987654321", "9.87654321")


@pytest.fixture
def models(rng):
    net = PrivateBayesNet(parents={"x": (), "y": ("x",)}, schema=SCHEMA, target=TARGET)
    bayes = PrivateNaiveBayes(SCHEMA, classes="y", target=TARGET, random_state=0)
    alike = PrivateNaiveBayes(
        Categories(("a", "b")), classes=["u", "w"], target=TARGET, random_state=0
    )
    return {
        "histogram": histogram(FRAME["z"], SCHEMA.columns["z"], target=TARGET, rng=rng),
        "draw": histogram(FRAME["z"], 2, (0, 2), target=TARGET, rng=rng, mechanism="dirichlet"),
        "naive bayes": bayes.fit(FRAME[["x", "z"]], FRAME["y"]),
        "alike": alike.fit(FRAME[["x"]].to_numpy(object), FRAME["y"]),
        "network": net.fit(FRAME, rng),
    }


KINDS = ("histogram", "draw", "naive bayes", "alike", "network")
VALUES = [None, True, 0, -1, 10**400, "1.0", "x", [], [None], [[1, 2], [3]], {}, {"a": 1}]


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def places(data, path=()):
    yield path
    if isinstance(data, dict | list):
        for key in data if isinstance(data, dict) else range(len(data)):
            yield from places(data[key], (*path, key))


def changed(data, path, value):
    if not path:
        return value
    copy = data.copy()
    copy[path[0]] = changed(data[path[0]], path[1:], value)
    return copy


@pytest.mark.few(5)
@pytest.mark.parametrize("kind", KINDS)
def test_whatever_stands_anywhere_in_a_file_is_a_model_or_a_sentence(kind, models, tmp_path):
    path, kept, said = tmp_path / "model.json", 0, []
    data = json.loads(json.dumps(models[kind].to_dict()))
    for place in places(data):
        for value in VALUES:
            path.write_text(json.dumps(changed(data, place, value)))
            try:
                loaded = type(models[kind]).load(path)
            except ValueError as error:
                said.append(str(error))
            else:
                kept += 1
                loaded.to_dict()
    assert all(each.startswith("model.json: ") for each in said)
    assert kept > 0  # such as other categories


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "nested"),
        ('{"format": 1, "format": 1}', "'format' twice"),
        ('{"format": NaN}', "finite, got NaN"),
        ('{"format": 1e999}', "finite, got 1e999"),
        ('{"format": ' + "9" * 400 + "}", r"finite, got 9{20}\.\.\."),
    ],
)
def test_what_only_python_s_reader_allows(kind, text, message, models, tmp_path):
    (tmp_path / "model.json").write_text(text)
    with pytest.raises(ValueError, match=f"^model.json: .*{message}"):
        type(models[kind]).load(tmp_path / "model.json")


@pytest.mark.parametrize(
    ("kind", "place", "value", "message"),
    [
        ("histogram", ("labels", 0), "[0, 5)", "labels"),
        ("histogram", ("column", "edges", 1), 1.5, "labels"),
        ("histogram", ("probabilities", 0), "0.5", "probabilities"),
        ("histogram", ("spent", "relation"), [], "relation"),
        ("draw", ("spent", "alpha"), [1], "alpha"),
        ("draw", ("n_records",), True, "n_records"),
        ("network", ("spent", "sizes", 0), "1.0", "sizes"),
        ("network", ("spent", "sizes", 0), None, "sizes"),
        ("network", ("spent", "alpha"), -1, "alpha"),
        ("network", ("probabilities", "x", 0), ["0.5", "0.5"], "rows of numbers"),
        ("alike", ("n_features",), 10**18, "n_features"),
    ],
)
def test_no_tampered_entry_is_taken_silently(kind, place, value, message, models):
    with pytest.raises(ValueError, match=message):
        type(models[kind]).from_dict(changed(models[kind].to_dict(), place, value))


@pytest.mark.parametrize("change", [{"sizes": ("1", 1)}, {"sizes": (None, 1)}, {"alpha": -1}])
def test_settings_of_tables_are_numbers(change):
    settings = {"shapes": ((1, 2), (2, 2)), "mechanism": "gaussian", "sizes": (1.0, 1.0)}
    with pytest.raises(ValueError, match=f"{next(iter(change))} must be a number"):
        TablesMechanism(**settings | change)


UGLY = [
    ["SECRET7", "a"],
    ["SECRET7\ud800", "a"],
    ["SECRET7\n", "a\0"],
    [987654321, 1],
    [987654321.5, np.inf],
    [10**400, 987654321],
    [complex(987654321, 1), 1],
    [b"SECRET7", "a"],
    [["SECRET7"], []],
    [{"SECRET7"}, {}],
    [None, "SECRET7"],
    [pd.Timestamp("1987-06-05 04:03:02.987654321"), 1],
    [pd.Timedelta(987654321, "s"), pd.NaT],
    [ValueError("SECRET7"), ...],
]


@pytest.mark.parametrize("values", UGLY, ids=ascii)
def test_no_error_shows_a_record(values, rng):
    entries = np.empty(len(values), object)
    entries[:] = values
    column = pd.Series(entries, dtype=object)
    several = [["u"], ["w"]]

    def bayes(schema, classes=("u", "w")):
        return PrivateNaiveBayes(schema, classes=list(classes), target=TARGET, random_state=0)

    def fit_net():
        plan = PrivateBayesNet(parents={"x": ()}, schema=SCHEMA, target=TARGET)
        plan.fit(pd.DataFrame({"x": column}), rng)

    attempts = [
        lambda: histogram(values, Categories(("c", "d")), target=TARGET, rng=rng),
        lambda: histogram(values, 3, target=TARGET, rng=rng),
        lambda: histogram(entries.astype(str), Bins((0, 1, 2)), target=TARGET, rng=rng),
        lambda: bayes([2]).fit(entries[:, None], several),
        lambda: bayes([2]).fit([[0], [1]], values),
        lambda: bayes([2], (0, 1)).fit([[0], [1]], values),
        lambda: bayes(Schema({"x": SCHEMA.columns["x"]})).fit(entries[:, None], ["u", "w"]),
        fit_net,
        lambda: discretise(pd.DataFrame({"x": column}), {"x": (0, 1)}, target=3,
                           rng=rng),
    ]  # fmt: skip
    for attempt in attempts:
        with pytest.raises(ValueError) as caught:  # noqa: PT011, which one does not matter
            attempt()
        for error in told(caught.value):
            assert not any(secret in error for secret in SECRETS)
            assert "\\ud800" not in error


def told(error):
    """Return what an error says, and those that it was raised from: a traceback shows them all."""
    texts = []
    while error is not None:
        texts.append(str(error))
        error = error.__cause__ or error.__context__
    return texts


FIELDS = [
    "SECRET7",
    "987654321.5",
    "\x00SECRET7",
    "\udc80SECRET7",
    '"SECRET7',
    "9876543211e400",
    "SECRET7,1",
]
NETWORK = '[parents]\nx = []\ny = ["x"]\n'
LOG = """
person = "x"
most_steps = 3
[state.y]
count = 2
[action.z]
count = 2
"""
COMMANDS = [
    ["histogram", "--schema=schema.toml", "--column=x"],
    ["histogram", "--schema=schema.toml", "--column=z"],
    ["naive-bayes", "--schema=schema.toml", "--target-column=y"],
    ["bayes-net", "--schema=schema.toml", "--network=network.toml"],
    ["fit-model", "--schema=log.toml"],
    ["fit-policy", "--schema=log.toml"],
]


@pytest.mark.few(6)
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_command_shows_a_record(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    SCHEMA.save("schema.toml")
    Path("network.toml").write_text(NETWORK)
    Path("log.toml").write_text(LOG)
    failed = 0
    for number, field in enumerate(FIELDS):
        for column in range(3):
            record = ["a", "1", "u"]
            record[column] = field
            text = "x,z,y\na,1,u\nb,0,w\n" + ",".join(record) + "\n"
            Path("data.csv").write_bytes(text.encode(errors="surrogateescape"))
            out = f"out {number} {column}"
            result = CliRunner().invoke(app, [*command, "data.csv", "--out", out])
            said = [result.output, *told(result.exception)]
            written = [path.read_bytes().decode("latin-1") for path in Path(out).glob("*")]
            assert not any(secret in each for secret in SECRETS for each in said + written)
            failed += result.exit_code == 2
            assert result.exit_code in (0, 2)
    assert failed or command[0].startswith("fit")  # who does not fit is left out of a log


def test_the_length_of_the_longest_text_is_not_told():
    model = PrivateNaiveBayes([2], classes=["u", "w"], target=TARGET)
    with pytest.raises(ValueError, match="whole numbers") as caught:
        model.fit(np.array([["a" * 37], ["b"]]), ["u", "w"])
    assert "37" not in str(caught.value)


def test_texts_that_are_no_unicode_are_others(rng):
    column = Categories(("a", "b"), other=True)
    assert column.encode(["a", "\ud800", "b"]).tolist() == [0, 2, 1]
    schema = Schema({"x": column, "w": column})
    cells = schema.encode(np.array([["a", "\ud800"], ["\udfff", "b"]], object))
    assert cells.tolist() == [[0, 2], [2, 1]]


def test_edges_beyond_all_floats():
    with pytest.raises(ValueError, match="beyond all floats"):
        Bins((0, 1, 10**400))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b'"' + b"SECRET7" * 30_000 + b'",z', "begin with a header row; its first line cannot be"),
        (b"\xff\xfeSECRET7,z\n", "be text in UTF-8, and is in UTF-16; iconv"),
        (b"a,\xe9SECRET7\n", "be text in UTF-8; convert it first"),
    ],
)
def test_a_header_that_is_none(content, told, tmp_path):
    (tmp_path / "data.csv").write_bytes(content)
    with pytest.raises(ValueError, match=rf"^data\.csv must {told}") as caught:
        read_header(tmp_path / "data.csv")
    assert "SECRET7" not in str(caught.value)


def test_a_predicted_column_is_not_overwritten_by_a_probability(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = "probability of u"
    schema = Schema({"x": SCHEMA.columns["x"], name: SCHEMA.columns["y"]})
    frame = FRAME[["x", "y"]].rename(columns={"y": name})
    model = PrivateNaiveBayes(schema, classes=name, target=TARGET, random_state=0)
    model.fit(frame[["x"]], frame[name]).save("model.json")
    frame.to_csv("data.csv", index=False)
    result = CliRunner().invoke(app, ["predict", "model.json", "data.csv", "--out", "out"])
    assert result.exit_code == 2
    assert "rename it" in result.output
    assert not Path("out").exists()
