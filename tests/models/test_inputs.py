"""Inputs as users have them: tables of other packages, blanks after commas, whole floats."""

import warnings

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sklearn", reason="no sklearn: pip install 'privrl[models]'")

from importlib import import_module

from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import KBinsDiscretizer, OrdinalEncoder
from typer.testing import CliRunner

from privrl.accounting import ApproxDP, RenyiDP
from privrl.cli import app
from privrl.data import Bins, Categories, Schema
from privrl.data.records import read_records
from privrl.models import PrivateNaiveBayes, histogram
from privrl.models.bayes_net.fit import PrivateBayesNet

ROWS = {
    "job": ["cook", "clerk", None, "cook"],
    "age": [31.0, 44.5, float("nan"), 9.0],
    "rich": [True, False, True, False],
    "rooms": [1, 2, 2, 2**62],
}
SCHEMA = Schema(
    {
        "job": Categories(("cook", "clerk"), other=True),
        "age": Bins((0, 40, 99), missing=True),
        "rich": Categories((False, True)),
        "rooms": Categories((1, 2, 2**62)),
    }
)
CELLS = [[0, 0, 1, 0], [1, 1, 0, 1], [2, 2, 1, 1], [0, 0, 0, 2]]


def polars(rows: dict):
    return import_module("polars").DataFrame(rows)


def arrow(rows: dict):
    return import_module("pyarrow").table(rows)


TABLES = [
    pytest.param(pd.DataFrame, id="pandas"),
    pytest.param(polars, marks=pytest.mark.needs("polars"), id="polars"),
    pytest.param(arrow, marks=pytest.mark.needs("pyarrow"), id="arrow"),
]


@pytest.mark.parametrize("make", TABLES)
def test_a_table_of_any_package_is_read_alike(make) -> None:
    np.testing.assert_array_equal(SCHEMA.encode(make(ROWS)), CELLS)


@pytest.mark.needs("polars")
def test_a_type_beyond_64_bits_is_refused_whatever_is_in_it() -> None:
    """One record beyond them would decide whether all others are read."""
    package = import_module("polars")
    for values in ([1, 2], [1, 2**100]):
        column = package.Series("rooms", values, dtype=package.Int128)
        with pytest.raises(ValueError, match="got type Int128"):
            Categories((1, 2), other=True).encode(column)


@pytest.mark.parametrize("make", TABLES)
def test_models_take_tables_of_any_package(make) -> None:
    features = {name: ROWS[name] * 50 for name in ("job", "age")}
    classes = make({"rich": ROWS["rich"] * 50})["rich"]
    model = PrivateNaiveBayes(SCHEMA.subset(["job", "age", "rich"]), classes="rich",
                              target=RenyiDP(2, 1), random_state=0)  # fmt: skip
    theirs = model.fit(make(features), classes).predict_proba(make(features))
    pandas = pd.DataFrame(features)
    ours = model.fit(pandas, pd.Series(ROWS["rich"] * 50)).predict_proba(pandas)
    np.testing.assert_array_equal(theirs, ours)
    found = histogram(
        make({"rooms": [1, 2] * 50})["rooms"], Categories((1, 2)), target=RenyiDP(2, 1),
        rng=np.random.default_rng(0),
    )  # fmt: skip
    assert abs(found.probabilities[0] - 0.5) < 0.2


@pytest.mark.needs("pyarrow")
def test_what_cannot_be_read_is_named_and_not_shown() -> None:
    table = arrow({**ROWS, "rich": [b"secret"] * 4})
    with pytest.raises(ValueError, match=r"column 'rich' must hold .* got type Binary") as caught:
        SCHEMA.encode(table)
    assert "secret" not in str(caught.value)
    columns = [table.column("rooms")] * 2
    twice = type(table).from_arrays(columns, names=["rooms", "rooms"])
    with pytest.raises(ValueError, match="each column once; 'rooms'"):
        SCHEMA.encode(twice)
    lazy = polars(ROWS).lazy()
    with pytest.raises(ValueError, match="collect it first"):
        SCHEMA.encode(lazy)


@pytest.mark.parametrize("blank", ["", " ", "\t "])
def test_blanks_around_fields_say_nothing(blank: str, tmp_path) -> None:
    """As in UCI's own Adult file, which has ``, `` between fields, and no header without."""
    path = tmp_path / "people.csv"
    lines = ["job,age,rich,rooms", "cook,31,true,1", "clerk,44.5,false,2", "x,x,true,2"]
    path.write_text("\n".join(line.replace(",", "," + blank) + blank for line in lines))
    cells = SCHEMA.encode(read_records(path, SCHEMA))
    np.testing.assert_array_equal(cells, CELLS[:3])


def test_blanks_that_the_schema_has_are_kept(tmp_path) -> None:
    schema = Schema({" job": Categories(("a", " a"), other=True), "b": Bins((0, 1, 2))})
    path = tmp_path / "people.csv"
    path.write_text(" job,b\na,0\n a,1\n a ,1\n")
    np.testing.assert_array_equal(schema.encode(read_records(path, schema))[:, 0], [0, 1, 2])
    path.write_text("job,b\na,0\n")
    with pytest.raises(ValueError, match="' job' absent"):
        read_records(path, schema)


def test_whole_floats_are_whole_numbers() -> None:
    assert Categories((9.0, 16.0)) == Categories((9, 16))
    assert Categories(np.array([9.0, 16.0])).labels == ("9", "16")
    np.testing.assert_array_equal(Categories((9.0, 16.0)).encode([16, 9.0]), [1, 0])
    for wrong in (9.5, float("nan"), float("inf"), 2.0**60):
        with pytest.raises(ValueError, match="values must"):
            Categories((wrong, 1))


def test_a_number_for_a_target_is_refused_with_what_to_write() -> None:
    words = r"write ApproxDP\(1\.0, 1e-5\), with a delta, or RenyiDP\(2, 1\.0\)"
    model = PrivateNaiveBayes([2], classes=["a", "b"], target=1.0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=words):
        model.fit([[0], [1]], ["a", "b"])
    with pytest.raises(ValueError, match=words):
        histogram([1.0], 2, (0, 2), target=1.0, rng=np.random.default_rng())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=words):
        PrivateBayesNet(parents={"job": ()}, schema=SCHEMA, target=1.0)  # type: ignore[arg-type]


def test_what_a_column_transformer_makes_is_read() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"job": rng.choice(["a", "b", "c"], 300), "age": rng.uniform(0, 9, 300)})
    change = ColumnTransformer(
        [
            ("code", OrdinalEncoder(categories=[["a", "b", "c"]]), ["job"]),
            ("bin", KBinsDiscretizer(4, encode="ordinal", strategy="uniform"), ["age"]),
        ]
    )
    y = np.where(frame["job"] == "a", "yes", "no")
    for output in ("default", "pandas"):
        X = change.set_output(transform=output).fit_transform(frame)
        model = PrivateNaiveBayes(
            [3, 4], classes=["no", "yes"], target=RenyiDP(2, 10), random_state=0
        )
        assert model.fit(X, y).score(X, y) > 0.95


def fits(column: Categories, values: list, target) -> None:
    rng = np.random.default_rng(0)
    histogram(pd.Series(values, name="job"), column, target=target, rng=rng)
    schema = Schema({"job": column, "rich": Categories((False, True))})
    frame = pd.DataFrame({"job": values, "rich": [False, True] * (len(values) // 2)})
    PrivateNaiveBayes(schema, classes="rich", target=target, random_state=0).fit(
        frame, frame["rich"]
    )
    PrivateBayesNet(parents={"job": ()}, schema=schema, target=target).fit(frame, rng)


@pytest.mark.slow
def test_a_release_whose_others_dominate_says_so() -> None:
    """It is what was released that says it, so it costs nothing."""
    column = Categories(("cook", "clerk"), other=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fits(column, ["Cook", "Clerk"] * 500, ApproxDP(1, 1e-5))
    assert len(caught) == 3
    assert all("about 100 % of 'job'" in str(each.message) for each in caught)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fits(column, ["cook", "clerk"] * 500, ApproxDP(1, 1e-5))
        fits(column, ["Cook", "clerk", "cook", "cook"] * 500, ApproxDP(1, 1e-5))
        for _ in range(20):  # noise alone says nothing
            fits(column, ["cook", "clerk"] * 2, ApproxDP(0.01, 1e-5))


@pytest.mark.few(9)
@pytest.mark.parametrize(
    ("column", "entry", "message"),
    [
        (Categories(("cook",), other=True), "Cook", "is in the cell of other values"),
        (
            Bins.even(0, 100, 4, missing=True),
            "2021-05-01",
            "Decimal commas and dates are no numbers",
        ),
        (Bins.even(0, 100, 4, missing=True), '"33,5"', "is in the cell of missing values"),
    ],
)
def test_the_command_warns_too(
    tmp_path, column: Bins | Categories, entry: str, message: str
) -> None:
    (tmp_path / "people.csv").write_text("job\n" + f"{entry}\n" * 500)
    Schema({"job": column}).save(tmp_path / "schema.toml")
    result = CliRunner().invoke(
        app,
        ["histogram", str(tmp_path / "people.csv"), "--schema", str(tmp_path / "schema.toml"),
         "--column", "job", "--out", str(tmp_path / "out")],
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert message in " ".join(result.output.split())
