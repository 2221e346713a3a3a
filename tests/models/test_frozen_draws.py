"""What leaves a model is made of its draws and of public facts, and of nothing else.

Every draw is taken from counts of zero. What a model, its file, its words and its pictures then
say of two neighbouring data sets has to be the same: of those with one record replaced, and, where
the relation is to add or remove one, of those with another number of records.
"""

import json
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from privrl.accounting import releases
from privrl.accounting.targets import RenyiDP
from privrl.cli import app
from privrl.costs.relations import AddRemoveRecord
from privrl.data.schema import Bins, Categories, Schema
from privrl.mechanisms.base import Mechanism
from privrl.models import discretise
from privrl.models.bayes_net.fit import PrivateBayesNet
from privrl.models.histograms.release import histogram
from privrl.models.naive_bayes.classifier import PrivateNaiveBayes

examples = settings(max_examples=15, deadline=None, derandomize=True, database=None)
TARGET = RenyiDP(2, 1e4)  # with which a temperature is measured, too
SCHEMA = Schema(
    {
        "x": Bins((0, 1, 2, 5), missing=True),
        "t": Categories(("a", "b"), other=True),
        "y": Categories(("w", "u")),
    }
)
RECORD = st.tuples(
    st.sampled_from([0.5, 1.5, 99.0, -1.0, np.nan, np.inf, "a", None]),
    st.sampled_from(["a", "b", "c", "", 1, None, True]),
    st.sampled_from(["u", "w"]),
)


def frozen(self, data, rng, *, accountant=None):
    """Check the data, charge, and draw from none; ``self.check`` may refuse them in words."""
    checked = self.check(data)
    releases.charge(accountant, self.cost)
    none = [0 * table for table in checked] if isinstance(checked, list) else 0 * checked
    return self._draw(self.check(none), rng)


def frame_of(records):
    columns = zip(*records, strict=True) if records else ([], [], [])
    return pd.DataFrame(
        {
            name: pd.Series(list(each), dtype=object)
            for name, each in zip("xty", columns, strict=True)
        }
    )


def naive_bayes(frame):
    model = PrivateNaiveBayes(SCHEMA, classes="y", target=TARGET, random_state=0)
    model.fit(frame[["x", "t"]], frame["y"])
    assert len(model.mechanism_.shapes) > 3  # a temperature is measured
    model.random_state = None
    return json.dumps(model.to_dict()) + repr(model) + repr(sorted(vars(model)))


def bayes_net(frame):
    plan = PrivateBayesNet(
        parents={"x": (), "t": ("x",), "y": ("x",)}, schema=SCHEMA, target=TARGET
    )
    net = plan.fit(frame, np.random.default_rng(0))
    return json.dumps(net.to_dict()) + repr(net) + net.to_bif()


def quantile_bins(frame):
    rng = np.random.default_rng(0)
    return repr(discretise(frame, {"x": (0, 5)}, target=TARGET, rng=rng, bins=3, missing=True))


def shown(released):
    return json.dumps(released.to_dict()) + repr(released) + released.to_frame().to_csv()


def histogram_of_bins(frame):
    rng = np.random.default_rng(0)
    return shown(histogram(frame["x"], SCHEMA.columns["x"], target=TARGET, rng=rng))


def a_draw(frame):
    rng, column = np.random.default_rng(0), SCHEMA.columns["t"]
    return shown(histogram(frame["t"], column, target=TARGET, rng=rng, mechanism="dirichlet"))


def private_size(frame):
    rng, column = np.random.default_rng(0), SCHEMA.columns["t"]
    released = histogram(frame["t"], column, target=TARGET, rng=rng, relation=AddRemoveRecord())
    return shown(released) + repr([released.kl_error(), released.l2_error()])


def private_size_with_a_guess(frame):
    rng, column, more = np.random.default_rng(0), SCHEMA.columns["x"], AddRemoveRecord()
    options = {"target": TARGET, "rng": rng, "relation": more, "n_records": 40}
    return "".join(
        shown(histogram(frame["x"], column, mechanism=name, **options))
        for name in ("auto", "dirichlet", "gaussian")
    )


REPLACED = [naive_bayes, bayes_net, quantile_bins, histogram_of_bins, a_draw]
COUNTED = [private_size, private_size_with_a_guess]


@pytest.mark.slow
@pytest.mark.parametrize("model", [*REPLACED, *COUNTED], ids=lambda each: each.__name__)
@examples
@given(data=st.data())
def test_one_record_replaced(model, data):
    records = data.draw(st.lists(RECORD, min_size=4, max_size=4))
    i, record = data.draw(st.integers(0, 3)), data.draw(RECORD)
    with patch.object(Mechanism, "release", frozen):
        one, other = (
            model(frame_of(each)) for each in (records, [*records[:i], record, *records[i + 1 :]])
        )
    assert one == other


@pytest.mark.few(2)
@pytest.mark.parametrize("model", COUNTED, ids=lambda each: each.__name__)
@examples
@given(st.lists(RECORD, max_size=4))
def test_another_number_of_records(model, records):
    """Nor that there is none."""
    with patch.object(Mechanism, "release", frozen):
        assert model(frame_of(records)) == model(frame_of([(0.5, "a", "u")] * 3))


@pytest.mark.slow
def test_a_number_that_is_told_is_noticed():
    """Under the relation in which it is public."""
    with patch.object(Mechanism, "release", frozen):
        first, second = (a_draw(frame_of([(0.5, "a", "u")] * n)) for n in (3, 4))
    assert first != second


COMMANDS = {
    "naive-bayes": ["--target-column", "y", "--renyi-order", "2", "--epsilon", "50"],
    "bayes-net": ["--network", "network.toml", "--renyi-order", "2", "--synthetic", "30"],
    "histogram": ["--column", "x", "--renyi-order", "2"],
}


@pytest.mark.slow
@pytest.mark.parametrize("command", [*COMMANDS, "add-remove"])
def test_commands(command, tmp_path: Path, monkeypatch, ledger_path: Path):
    """What is printed and written, for records of every kind that a file can have."""
    monkeypatch.chdir(tmp_path)
    SCHEMA.save("schema.toml")
    Path("network.toml").write_text('[parents]\nx = []\nt = ["x"]\ny = ["t"]\n')
    records = ["0.5,a,u", "1.5,b,w", "99,,u", ",c,w", "-inf,a,u"]
    files = [records] + [[*records[:4], last] for last in (
        "x,a,u", '"1,5","""",w', "1e999,NA,u", '"\n",True,w', "0,0,u", "18446744073709551615,a\0,w",
    )]  # fmt: skip
    options = [
        "--reproducible",
        "--seed",
        "1",
        "--schema",
        "schema.toml",
        "--out",
        "out",
        "--force",
    ]
    if command == "add-remove":
        arguments = ["histogram", *COMMANDS["histogram"], "--relation", "add-remove-record"]
        files += [[], records[:1], records * 10]
    else:
        arguments = [command, *COMMANDS[command]]
    seen = set()
    for rows in files:
        Path("data.csv").write_text("\n".join(["x,t,y", *rows, ""]))
        ledger_path.unlink(missing_ok=True)  # it knows data that come again
        with patch.object(Mechanism, "release", frozen):
            result = CliRunner().invoke(app, [*arguments[:1], "data.csv", *arguments[1:], *options])
        assert result.exit_code == 0, result.output
        written = {path.name: path.read_bytes() for path in sorted(Path("out").iterdir())}
        seen.add(result.output + repr(written))
    assert len(seen) == 1
