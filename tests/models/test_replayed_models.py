"""Every model, replayed on neighbouring records: one record moves two cells of each table at most.

A record is replaced by entries of any kind: what the schema knows, what it does not, what is
missing, and what would change the type of a column if a reader let it.
"""

import shutil
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from privrl.accounting.rdp import RdpAccountant
from privrl.accounting.targets import ApproxDP, RenyiDP
from privrl.audit import audit_replay
from privrl.cli import app
from privrl.costs.relations import AddRemoveRecord, ReplaceRecord
from privrl.data.schema import Bins, Categories, Schema
from privrl.experiments.uci.data import Split
from privrl.experiments.uci.fits import fit_naive_bayes, fit_networks
from privrl.experiments.uci.jobs import MECHANISMS, Job
from privrl.models import PrivateClassifier, PrivateLogisticRegression, discretise
from privrl.models.bayes_net.fit import PrivateBayesNet
from privrl.models.histograms.release import histogram, value_counts
from privrl.models.naive_bayes.classifier import PrivateNaiveBayes

WORDS = Categories(("no", "yes", "1"), other=True)
NUMBERS = Categories((0, 1, 2), other=True)
FLAGS = Categories((True, False), other=True)
AGES = Bins((0, 10, 20, 50), missing=True)
SCHEMA = Schema({"word": WORDS, "number": NUMBERS, "flag": FLAGS, "age": AGES})
CLASSES = ("bad", "good")

ANY_CATEGORY = st.sampled_from(
    ["no", "yes", "1", "", "x", 0, 1, 2, 7, True, False, None, 1.0, 1.5, np.nan, np.True_,
     np.int8(2), np.float32(1), 2**70, float("inf")]
)  # fmt: skip
ANY_NUMBER = st.sampled_from(
    [0, 5, 10, 49.5, 50, -3, 1e300, None, np.nan, float("inf"), 2**70, np.int16(7)]
)
RECORD = st.tuples(ANY_CATEGORY, ANY_CATEGORY, ANY_CATEGORY, ANY_NUMBER, st.sampled_from(CLASSES))
RECORDS = st.lists(RECORD, min_size=2, max_size=12)
TARGETS = st.sampled_from([RenyiDP(2.0, 0.5), RenyiDP(5.0, 50.0), ApproxDP(1.0, 1e-5)])
OPTIONS = settings(
    max_examples=12, deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)  # fmt: skip


def _nothing_is_found(pipeline: Any, records: Any, other: Any) -> None:
    result = audit_replay(pipeline, records, other)
    assert not result.violated, result.findings
    assert result.error is None
    assert result.releases >= 1


def _replaced(records: Any, data: Any) -> Any:
    i = data.draw(st.integers(0, len(records) - 1))
    return [*records[:i], data.draw(RECORD), *records[i + 1 :]]


def _frame(records: Any) -> pd.DataFrame:
    frame = pd.DataFrame(records, columns=[*SCHEMA.names, "class"], dtype=object)
    return frame.astype({"class": str})


def _features(records: Any, kind: str) -> Any:
    rows = [list(record[:4]) for record in records]
    if kind == "list":
        return rows
    if kind == "frame":
        return _frame(records)[list(SCHEMA.names)]
    made = np.empty((len(rows), 4), object)
    made[:] = rows
    return made


@pytest.mark.slow
@OPTIONS
@given(
    records=RECORDS, data=st.data(), target=TARGETS,
    kind=st.sampled_from(["list", "objects", "frame"]),
    mechanism=st.sampled_from(["auto", "dirichlet", "dkl", "gaussian", "laplace"]),
    charged=st.booleans(),
)  # fmt: skip
def test_naive_bayes(*, records, data, target, kind, mechanism, charged) -> None:
    def fit(records: Any) -> Any:
        model = PrivateNaiveBayes(
            SCHEMA, classes=CLASSES, target=target, mechanism=mechanism, random_state=1
        )
        accountant = RdpAccountant() if charged else None
        y = [record[-1] for record in records]
        model.fit(_features(records, kind), y, accountant=accountant)
        known = _features([("no", 1, True, 5, "bad")], kind)
        return model.to_dict(), model.predict_proba(known), accountant and accountant.rdp

    _nothing_is_found(fit, records, _replaced(records, data))


@pytest.mark.slow
@OPTIONS
@given(
    data=st.data(),
    many=st.integers(50, 3000),
    target=st.sampled_from([RenyiDP(2.0, 0.5), RenyiDP(2.0, 50.0)]),
)
def test_naive_bayes_whose_temperature_is_measured(data, many, target) -> None:
    """Enough records that the mean derivative is worth measuring: a second release."""
    rng = np.random.default_rng(many)
    X, y = rng.integers(3, size=(many, 4)), rng.integers(2, size=many)
    i = data.draw(st.integers(0, many - 1))
    row = data.draw(st.lists(st.integers(0, 2), min_size=5, max_size=5))
    other = (X.copy(), y.copy())
    other[0][i], other[1][i] = row[:4], row[4] % 2

    def fit(records: Any) -> Any:
        model = PrivateNaiveBayes([3] * 4, classes=[0, 1], target=target, random_state=1)
        return model.fit(*records, accountant=RdpAccountant()).to_dict()

    _nothing_is_found(fit, (X, y), other)


@pytest.mark.slow
@settings(OPTIONS, max_examples=8)
@given(
    data=st.data(),
    many=st.integers(50, 3000),
    target=st.sampled_from([RenyiDP(2.0, 0.5), RenyiDP(2.0, 50.0), ApproxDP(0.3, 1e-5)]),
    n_classes=st.integers(2, 3),
    given_tables=st.booleans(),
)
def test_logistic_regression(*, data, many, target, n_classes, given_tables) -> None:
    """Every gradient is a release of its own, at weights that are as before."""
    rng = np.random.default_rng(many)
    X, y = rng.integers(3, size=(many, 4)), rng.integers(n_classes, size=many)
    X[:, 0] = np.minimum(X[:, 0] + y, 2)
    i = data.draw(st.integers(0, many - 1))
    row = data.draw(st.lists(st.integers(0, 2), min_size=5, max_size=5))
    other = (X.copy(), y.copy())
    other[0][i], other[1][i] = row[:4], row[4] % n_classes

    def fit(records: Any) -> Any:
        common: Any = {"classes": list(range(n_classes)), "target": target, "random_state": 1}
        accountant = RdpAccountant()
        naive = PrivateNaiveBayes([3] * 4, **common) if given_tables else None
        if naive is not None:
            naive.fit(*records, accountant=accountant)
        model = PrivateLogisticRegression([3] * 4, **common)
        model.fit(*records, naive_bayes=naive, accountant=accountant)
        return model.to_dict(), model.predict_proba([[0, 1, 2, 0]]), accountant.rdp

    _nothing_is_found(fit, (X, y), other)


@pytest.mark.slow
@settings(OPTIONS, max_examples=8)
@given(
    data=st.data(),
    many=st.integers(50, 300) | st.integers(300, 1500),
    target=st.sampled_from([RenyiDP(2.0, 0.02), ApproxDP(0.3, 1e-5), ApproxDP(12.0, 1e-5)]),
    n_classes=st.integers(2, 3),
    domain=st.sampled_from([{"bounds": (0, 1)}, {"schema": Bins.even(0, 1, 5, missing=True)}]),
)
def test_slopes(*, data, many, target, n_classes, domain) -> None:
    """Bins have slopes where noise hides their cells, and a choice where records are few."""
    rng = np.random.default_rng(many)
    X, y = rng.random((many, 6)), rng.integers(n_classes, size=many)
    i = data.draw(st.integers(0, many - 1))
    value = st.sampled_from([-1e300, 0.0, 0.5, 1.0, 7.0] + [np.nan] * ("schema" in domain))
    other = (X.copy(), y.copy())
    other[0][i] = data.draw(st.lists(value, min_size=6, max_size=6))
    other[1][i] = data.draw(st.integers(0, n_classes - 1))

    def fit(records: Any) -> Any:
        accountant = RdpAccountant()
        model = PrivateLogisticRegression(
            classes=list(range(n_classes)), target=target, random_state=1, **domain
        ).fit(*records, accountant=accountant)
        return model.to_dict(), model.predict_proba([[0.5] * 6]), accountant.rdp

    _nothing_is_found(fit, (X, y), other)


@pytest.mark.slow
@OPTIONS
@given(
    records=RECORDS, data=st.data(), target=TARGETS,
    kind=st.sampled_from(["list", "objects", "frame"]),
    charged=st.booleans(),
)  # fmt: skip
def test_classifier(*, records, data, target, kind, charged) -> None:
    def fit(records: Any) -> Any:
        model = PrivateClassifier(SCHEMA, classes=CLASSES, target=target, random_state=1)
        accountant = RdpAccountant() if charged else None
        model.fit(
            _features(records, kind), [record[-1] for record in records], accountant=accountant
        )  # fmt: skip
        known = _features([("no", 1, True, 5, "bad")], kind)
        return (
            model.classifier_.to_dict(),
            model.predict_proba(known),
            accountant and accountant.rdp,
        )

    _nothing_is_found(fit, records, _replaced(records, data))


@pytest.mark.slow
@OPTIONS
@given(
    records=RECORDS, data=st.data(), target=TARGETS,
    mechanism=st.sampled_from(["auto", "dirichlet", "dkl", "gaussian", "laplace"]),
)  # fmt: skip
def test_bayes_net(records, data, target, mechanism) -> None:
    parents = {"word": (), "number": ("word",), "flag": ("word", "number"), "age": ()}
    spec = PrivateBayesNet(parents=parents, schema=SCHEMA, target=target, mechanism=mechanism)

    def fit(records: Any) -> Any:
        net = spec.fit(_frame(records), np.random.default_rng(1), accountant=RdpAccountant())
        return net.to_dict()

    _nothing_is_found(fit, records, _replaced(records, data))


@pytest.mark.slow
@OPTIONS
@given(
    records=RECORDS, data=st.data(), target=TARGETS,
    column=st.sampled_from(["word", "number", "flag", "age"]),
    kind=st.sampled_from(["list", "series", "objects"]),
    mechanism=st.sampled_from(
        ["auto", "dirichlet", "gaussian", "laplace", "discrete-gaussian", "discrete-laplace"]
    ),
    adds=st.booleans(),
)  # fmt: skip
def test_histogram(*, records, data, target, column, kind, mechanism, adds) -> None:
    assume(not (adds and mechanism == "dirichlet"))
    place = list(SCHEMA.names).index(column)

    def released(records: Any) -> Any:
        values: Any = [record[place] for record in records]
        if kind != "list":
            values = np.array([*values, None], object)[:-1]
        options = {"relation": AddRemoveRecord(), "n_records": 10.0} if adds else {
            "relation": ReplaceRecord()
        }  # fmt: skip
        made = (histogram if column == "age" else value_counts)(
            pd.Series(values, dtype=object) if kind == "series" else values,
            SCHEMA.columns[column], target=target, rng=np.random.default_rng(1),
            mechanism=mechanism, accountant=RdpAccountant(), **options,
        )  # fmt: skip
        return made.to_dict(), made.to_frame(), repr(made)

    other = records[:-1] if adds else _replaced(records, data)
    _nothing_is_found(released, records, other)


@pytest.mark.slow
@settings(OPTIONS, max_examples=8)
@given(records=RECORDS, data=st.data(), target=TARGETS)
def test_histogram_with_sums(*, records, data, target) -> None:
    """Two tables are released of 40 cells: counts, and sums of pairs."""
    column = Bins(tuple(range(40)), missing=True)

    def released(records: Any) -> Any:
        made = histogram(
            [record[3] for record in records], column, target=target,
            rng=np.random.default_rng(1), mechanism="blocks", accountant=RdpAccountant(),
        )  # fmt: skip
        return made.to_dict(), made.to_frame(), made.credible_intervals(), repr(made)

    _nothing_is_found(released, records, _replaced(records, data))


@pytest.mark.slow
@OPTIONS
@given(records=RECORDS, data=st.data(), target=TARGETS)
def test_discretise(records, data, target) -> None:
    def cut(records: Any) -> Any:
        frame, rng = _frame(records), np.random.default_rng(1)
        return discretise(
            frame, {"age": (0, 50)}, target=target, rng=rng, bins=3, grid=9, missing=True
        )

    _nothing_is_found(cut, records, _replaced(records, data))


# The command line -----------------------------------------------------------------------------

FIELD = st.sampled_from(["no", "yes", "1", "0", "2", "1.0", "True", "False", "", "x", "NaN", "7"])
NUMBER = st.sampled_from(["0", "5", "10.5", "1e400", "", "-3", "inf", "00007", " 8"])
LINE = st.tuples(FIELD, FIELD, FIELD, NUMBER, st.sampled_from(CLASSES))
COMMANDS = {
    "histogram of words": ["histogram", "--column", "word"],
    "histogram of numbers": ["histogram", "--column", "number"],
    "histogram of ages": ["histogram", "--column", "age", "--mechanism", "laplace"],
    "added or removed": ["histogram", "--column", "flag", "--relation", "add-remove-record"],
    "naive-bayes": ["naive-bayes", "--target-column", "class"],
    "classify": ["classify", "--target-column", "class"],
    "chosen classifier": ["classify", "--target-column", "class", "--choose", "bins=2,3"],
    "logistic regression": [
        "classify",
        "--target-column",
        "class",
        "--model",
        "logistic-regression",
        "--epsilon",
        "9",
    ],
    "bayes-net": ["bayes-net", "--network", "network.toml", "--synthetic", "5"],
    "chosen edges": ["bayes-net", "--epsilon", "300", "--synthetic", "5"],
}


@pytest.mark.slow
@settings(OPTIONS, max_examples=3)
@given(lines=st.lists(LINE, min_size=2, max_size=8), data=st.data())
@pytest.mark.parametrize("command", COMMANDS)
def test_commands(command, lines, data, tmp_path_factory) -> None:
    folder = tmp_path_factory.mktemp("commands")
    schema = Schema({**SCHEMA.columns, "class": Categories(CLASSES)})
    schema.save(folder / "schema.toml")
    (folder / "network.toml").write_text('[parents]\nword = []\nage = ["word"]\n')

    def run(lines: Any) -> Any:
        csv, out = folder / "people.csv", folder / "out"
        shutil.rmtree(out, ignore_errors=True)
        (folder / "ledger.sqlite").unlink(missing_ok=True)  # it knows data that come again
        rows = [",".join(line) for line in (("word", "number", "flag", "age", "class"), *lines)]
        csv.write_text("\n".join(rows) + "\n")
        verb, *options = COMMANDS[command]
        options = [str(folder / each) if each.endswith(".toml") else each for each in options]
        ledger = ["--ledger", str(folder / "ledger.sqlite")]
        given = [verb, str(csv), "--schema", str(folder / "schema.toml"), *options]
        result = CliRunner().invoke(
            app, [*given, "--reproducible", "--seed", "1", "--out", str(out), *ledger]
        )
        files = {path.name: path.read_bytes() for path in sorted(out.glob("*"))}
        return result.exit_code, result.output, repr(result.exception), files

    i = data.draw(st.integers(0, len(lines) - 1))
    other = [*lines[:i], data.draw(LINE), *lines[i + 1 :]]
    if command == "added or removed":
        other = lines[:-1]
    _nothing_is_found(run, lines, other)


# The papers' experiments ----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", sorted({*MECHANISMS["naive Bayes"], *MECHANISMS["network"]}))
def test_experiments(mechanism: str, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = Schema(
        {"a": Categories((0, 1, 2)), "b": Bins((0, 1, 2, 3)), "class": Categories((0, 1))}
    )
    rng = np.random.default_rng(0)
    records = pd.DataFrame(rng.integers(2, size=(200, 3)), columns=["a", "b", "class"])
    other = records.copy()
    other.loc[17] = [2, 2, 1 - other.loc[17, "class"]]
    monkeypatch.setattr(
        "privrl.experiments.uci.fits.network_of", lambda *_: {"a": (), "b": ("a",), "class": ("a",)}
    )

    def fit(train: pd.DataFrame) -> Any:
        parts = Split(schema=schema, train=train, test=records[:20])
        made = []
        for model, fits in (("naive Bayes", fit_naive_bayes), ("network", fit_networks)):
            if mechanism in MECHANISMS[model]:
                epsilon = {"no privacy": np.inf, "uniform guess": 0.0}.get(mechanism, 0.5)
                job = Job(
                    data="made up", model=model, cells="public", split=0, mechanism=mechanism,
                    epsilon=epsilon, delta=1e-5,
                )  # fmt: skip
                made.append(fits([job], parts))
        return made

    findings = audit_replay(fit, records, other).findings
    assert not findings, findings
