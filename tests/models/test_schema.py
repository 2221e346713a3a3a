"""Public schemas: cell numbers, round trips, and what private data can and cannot change."""

import copy
import datetime as dt
import json
import math
import pickle
import re
import time
import tomllib
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privrl.accounting import Ledger
from privrl.costs.noise import LaplaceCost
from privrl.costs.relations import ReplaceRecord
from privrl.data.schema import Bins, Categories, Schema, read_header, write_template
from privrl.data.schema.plain import check_names
from privrl.data.schema.templates import parse_bounds, template

NAN, INF = math.nan, math.inf
SECRET = "Xanthippe-7531"  # what no message may show
SECRET_NUMBER = 75317531

TEXTS = st.text(max_size=6)  # shorter than "(other)"
VALUES = st.one_of(TEXTS, st.booleans(), st.integers(-(2**63), 2**63 - 1))
FINITE = st.floats(-1e300, 1e300, allow_subnormal=False)


@st.composite
def categories(draw):
    other = draw(st.booleans())
    values = draw(st.lists(VALUES, unique=True, min_size=1 if other else 2, max_size=6))
    return Categories(tuple(values), other)


@st.composite
def bins(draw):
    edges = draw(st.lists(FINITE.map(lambda x: x + 0.0), unique=True, min_size=3, max_size=6))
    return Bins(tuple(sorted(edges)), draw(st.booleans()))


@st.composite
def schemas(draw):
    names = draw(st.lists(st.text(min_size=1, max_size=6), unique=True, min_size=1, max_size=4))
    return Schema({name: draw(st.one_of(categories(), bins())) for name in names})


SMALL = Schema(
    {
        "job": Categories(("cook", "nurse"), other=True),
        "children": Categories((0, 1, 2, 3), other=True),
        "age": Bins((0, 18, 65, 100), missing=True),
        "smokes": Categories((True, False)),
    }
)
PEOPLE = pd.DataFrame(
    {
        "smokes": [True, False, True],
        "age": [17.0, 18.0, NAN],
        "note": ["not", "in the", "schema"],
        "job": ["nurse", "cook", None],
        "children": [0, 3, 2],
    }
)


# Cell numbers ------------------------------------------------------------------------------------


def test_cells_of_a_table() -> None:
    assert SMALL.names == ("job", "children", "age", "smokes")
    assert SMALL.sizes == (3, 5, 4, 2)
    codes = SMALL.encode(PEOPLE)
    assert codes.dtype == np.int64
    assert codes.tolist() == [[1, 0, 0, 0], [0, 3, 1, 1], [2, 2, 3, 0]]


def test_an_array_has_the_columns_of_the_schema_in_order() -> None:
    array = PEOPLE[list(SMALL.names)].to_numpy(object)
    np.testing.assert_array_equal(SMALL.encode(array), SMALL.encode(PEOPLE))
    with pytest.raises(ValueError, match=r"frame must have the 4 columns 'job', .* of 3 columns\."):
        SMALL.encode(array[:, :3])
    with pytest.raises(ValueError, match="plain array, got MaskedArray"):
        SMALL.encode(np.ma.masked_array(array))
    with pytest.raises(ValueError, match="got list"):
        SMALL.encode(array.tolist())


@pytest.mark.slow
@given(bins(), st.lists(st.floats(allow_nan=False), max_size=20))
def test_bins_against_pandas_cut(column: Bins, numbers: list[float]) -> None:
    codes = column.encode(pd.Series(numbers, dtype=float))
    low, high = column.edges[0], column.edges[-1]
    clipped = np.clip(np.array(numbers, float), low, high)
    cut = pd.cut(clipped, [*column.edges[:-1], INF], right=False, labels=False)
    np.testing.assert_array_equal(codes, cut)


@pytest.mark.slow
@given(categories(), st.data())
def test_categories_against_a_dictionary(column: Categories, data) -> None:
    cells = {repr(value): cell for cell, value in enumerate(column.values)}
    known = data.draw(st.lists(st.sampled_from(column.values), max_size=12))
    expected = [cells[repr(value)] for value in known]
    assert column.encode(pd.Series(known, dtype=object)).tolist() == expected
    if column.other:
        more = [*known, *data.draw(st.lists(st.one_of(VALUES, st.none(), st.dates()), max_size=6))]
        expected = [cells.get(repr(value), len(cells)) for value in more]
        assert column.encode(pd.Series(more, dtype=object)).tolist() == expected


@pytest.mark.slow
@given(schemas(), st.data())
def test_decoded_rows_encode_to_the_same_cells(schema: Schema, data) -> None:
    rows = data.draw(st.lists(st.tuples(*(st.integers(0, s - 1) for s in schema.sizes))))
    codes = np.array(rows, np.int64).reshape(len(rows), len(schema.sizes))
    frame = schema.decode(codes)
    assert tuple(frame.columns) == schema.names
    for column in schema.columns.values():
        if isinstance(column, Bins) and len(set(column.centres)) < len(column.centres):
            return  # edges next to each other have no number between
    np.testing.assert_array_equal(schema.encode(frame), codes)


def test_decoded_rows_look_like_real_ones() -> None:
    frame = SMALL.decode([[1, 0, 0, 0], [2, 4, 3, 1]])
    assert frame["job"].tolist()[0] == "nurse"
    assert pd.isna(frame["job"][1])
    assert frame["children"].dtype == "Int64"
    assert pd.isna(frame["children"][1])
    assert frame["age"].tolist()[0] == 9.0
    assert math.isnan(frame["age"][1])
    assert frame["smokes"].dtype == bool
    whole = Schema({"n": Categories((5, 7))}).decode([[1], [0]])
    assert whole["n"].dtype == np.int64
    assert whole["n"].tolist() == [7, 5]


@pytest.mark.parametrize("codes", [[[0, 0, 0]], [0, 0, 0, 0], [[0.0, 0, 0, 0]], [["0"] * 4]])
def test_codes_of_another_shape_or_type(codes) -> None:
    with pytest.raises(ValueError, match=r"codes must be whole numbers of shape \(n, 4\)"):
        SMALL.decode(codes)


@pytest.mark.parametrize(("code", "name"), [((3, 0, 0, 0), "job"), ((0, 0, -1, 0), "age")])
def test_codes_outside(code, name) -> None:
    with pytest.raises(ValueError, match=rf"codes of column '{name}' must be in 0 \.\. "):
        SMALL.decode([code])


def test_labels() -> None:
    assert Bins.even(0, 30, 3, missing=True).labels == (
        "[0, 10)",
        "[10, 20)",
        "[20, 30]",
        "(missing)",
    )
    assert Bins.even(0, 1, 10).labels[2] == "[0.2, 0.3)"
    assert SMALL.columns["job"].labels == ("cook", "nurse", "(other)")
    assert Categories(("1", 1)).labels == ("'1'", "1")


@pytest.mark.slow
@given(st.one_of(categories(), bins()))
def test_a_different_label_for_each_cell(column) -> None:
    assert len(column.labels) == column.size == len(set(column.labels))


@given(FINITE, FINITE, st.integers(2, 40))
def test_even_bins_are_even(low: float, high: float, count: int) -> None:
    if not low + 1e-6 * max(abs(low), abs(high), 1) < high:
        return
    column = Bins.even(low, high, count)
    np.testing.assert_allclose(
        np.array(column.edges) / (high - low), np.linspace(low, high, count + 1) / (high - low)
    )
    assert (column.edges[0], column.edges[-1], column.size) == (low, high, count)


def test_centres_lie_in_their_bins() -> None:
    column = Bins((0, 1, 5, 100))
    assert column.centres == (0.5, 3.0, 52.5)
    assert column.encode(column.centres).tolist() == [0, 1, 2]


# Dirty data --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "series",
    [
        pd.Series([1, 3, 2]),
        pd.Series([1, 3, 2], dtype="uint8"),
        pd.Series([1, 3, 2], dtype="Int64"),
        pd.Series([1, 3, 2], dtype="UInt64"),
        pd.Series([1.0, 3.0, 2.0]),
        pd.Series([1.0, 3.0, 2.0], dtype="Float32"),
        pd.Series([1.0, 3, np.int8(2)], dtype=object),
        pd.Series([1, 3, 2], dtype="category"),
        pd.Series([1.0, 3.0, 2.0]).astype("category"),
        pd.Series([1, 3, 2], index=[9, 9, 4]),
        [1, 3, 2],
        np.array([1, 3, 2]),
    ],
    ids=lambda s: str(getattr(s, "dtype", "list")),
)
def test_whole_numbers_of_every_type(series) -> None:
    assert Categories((1, 2, 3)).encode(series).tolist() == [0, 2, 1]
    assert Bins((0, 2, 3, 4)).encode(series).tolist() == [0, 2, 1]


@pytest.mark.parametrize("dtype", [object, "string", "str", "category"])
def test_texts_of_every_type(dtype) -> None:
    series = pd.Series(["b", None, "a", "c", " a", "A"], dtype=dtype)
    assert Categories(("a", "b"), other=True).encode(series).tolist() == [1, 2, 0, 2, 2, 2]


@pytest.mark.parametrize("dtype", [bool, "boolean", object, "category"])
def test_truth_values_of_every_type(dtype) -> None:
    series = pd.Series([True, False, True], dtype=dtype)
    assert Categories((False, True)).encode(series).tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("series", "cells"),
    [
        (pd.Series([1, None, 7], dtype="Int64"), [0, 1, 1]),
        (pd.Series([2**53, 2**53 + 1, None], dtype="Int64"), [1, 1, 1]),
        (pd.Series([1.0, NAN, 1.5]), [0, 1, 1]),
        (pd.Series([1.0, INF, -INF]), [0, 1, 1]),
        (pd.Series([1, 2**64 - 1], dtype="uint64"), [0, 1]),
        ([True, False, np.True_], [1, 1, 1]),
        (["1", " 1", None, np.str_("1")], [1, 1, 1, 1]),
        (pd.Series([1, "1", True, None, 1.0, dt.date(2020, 1, 1), [1]], dtype=object),
         [0, 1, 1, 1, 0, 1, 1]),
        (pd.Series([1, None, 2]).astype("category"), [0, 1, 1]),
        (pd.Series([], dtype="category"), []),
        # pandas makes categories of one type of the records: none is refused for it.
        (pd.Categorical([1, 2, "x", None]), [0, 1, 1, 1]),
        (pd.Categorical(["1", "x"]), [1, 1]),
        (pd.Categorical([1, 2.5]), [0, 1]),
        (pd.Categorical([1, 2j]), [0, 1]),
        (pd.Categorical([True, 1, 2]), [0, 0, 1]),  # of equal ones it keeps the first alone
        (pd.Categorical([Decimal(1), 1, 1.5]), [0, 0, 1]),
        (pd.to_datetime(["2020-01-01"]).astype("category"), [1]),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_not_the_number_one(series, cells) -> None:
    assert Categories((1,), other=True).encode(series).tolist() == cells


@pytest.mark.parametrize(
    ("column", "series", "message"),
    [
        (Categories((1, 2), True), pd.Series(["1"], dtype="string"), "numbers, got type String"),
        (Categories((1, 2), True), np.array(["1", "2"]), "whole numbers, got type str_"),
        (Categories((1, 2), True), pd.Series([True, False]), "whole numbers, got type bool"),
        (Categories((1, 2), True), pd.Series([True, None], dtype="boolean"), "got type Boolean"),
        (Categories((True,), True), np.array([1, 0]), "truth values, got type int64"),
        (Categories((True,), True), np.array(["True"]), "truth values, got type str_"),
        (Categories(("1", "2"), True), pd.Series([1, 2]), "texts, got type int64"),
        (Categories(("1", "2"), True), np.array([1.0]), "texts, got type float64"),
        (Categories(("1", "2"), True), np.array([b"1"]), "got type bytes_"),
        (Categories(("a", 1), True), np.array(["a", "1"]), "of several kinds, got type str_"),
        (Categories((2, True), True), np.array([2, 5]), "of several kinds, got type int64"),
        (Categories((0, 2**53), True), np.array([0.5]), "64 bits, .* got type float64"),
        (Bins((0, 1), True), np.array(["1"]), "numbers, got type str_"),
        (Bins((0, 1), True), np.array([True]), "numbers, got type bool"),
        (Bins((0, 1), True), pd.Series(["1"], dtype="string"), "numbers, got type String"),
        (Bins((0, 1), True), np.zeros(2, [("a", int)]), "got type void"),
    ],
    ids=str,
)  # fmt: skip
def test_types_that_cannot_hold_what_the_schema_says(column, series, message) -> None:
    """Whoever made such a column may have let one record decide what all others became."""
    with pytest.raises(ValueError, match=message):
        column.encode(series)


def test_large_unsigned_numbers_are_not_negative_ones() -> None:
    for dtype in ("uint64", "UInt64"):
        series = pd.Series([2**64 - 1, 0], dtype=dtype)
        assert Categories((-1, 0), other=True).encode(series).tolist() == [2, 1]


@pytest.mark.parametrize("of_another", [[], [0.5], ["x"]])
def test_no_record_decides_whether_large_categories_are_refused(of_another: list[object]) -> None:
    """One decimal makes floats of all; without it they were read."""
    series = pd.Series([0, 2**53, *of_another], dtype=object).astype("category")
    with pytest.raises(ValueError, match=r"whole numbers of 64 bits, .* got type category"):
        Categories((0, 2**53), other=True).encode(series)


def test_large_whole_numbers_keep_their_last_digit() -> None:
    column = Categories((2**53, 2**53 + 1))
    for dtype in ("int64", "Int64", object):
        assert column.encode(pd.Series([2**53 + 1, 2**53], dtype=dtype)).tolist() == [1, 0]


@pytest.mark.parametrize(
    ("series", "cells"),
    [
        (pd.Series([-INF, -1.0, 0.0, 9.99, 10.0, 20.0, 21.0, INF]), [0, 0, 0, 0, 1, 1, 1, 1]),
        (pd.Series([5, None, 15], dtype="Int64"), [0, 2, 1]),
        (pd.Series([5, None, 15], dtype="Float64"), [0, 2, 1]),
        (pd.Series([5, None, 15.0, pd.NA, NAN, Decimal("9.5"), 10**400, -(10**400)], dtype=object),
         [0, 2, 1, 2, 2, 0, 1, 0]),
        (pd.Series([5, NAN, 15]).astype("category"), [0, 2, 1]),
    ],
    ids=str,
)  # fmt: skip
def test_numbers_in_bins(series, cells) -> None:
    assert Bins((0, 10, 20), missing=True).encode(series).tolist() == cells


DATES = pd.Series(pd.to_datetime(["2020-01-01", "2021-01-01"]), name="x")


@pytest.mark.parametrize(
    "series",
    [
        DATES,
        DATES.dt.tz_localize("UTC"),
        DATES - DATES[0],
        DATES.dt.to_period("M"),
        pd.Series([1j, 2], name="x"),
        pd.Series(pd.IntervalIndex.from_breaks([0, 1, 2]), name="x"),
    ],
    ids=lambda s: str(s.dtype),
)
@pytest.mark.parametrize(
    "column", [Categories(("a",), other=True), Bins((0, 1), missing=True)], ids=["cat", "bins"]
)
def test_types_that_are_refused(series, column) -> None:
    with pytest.raises(ValueError, match=r"column 'x' must hold .*, got type .*; convert it"):
        column.encode(series)


@pytest.mark.parametrize("entry", ["5", True, 1j, dt.date(2020, 1, 1), [5], np.timedelta64(5)])
def test_entries_that_are_no_numbers(entry) -> None:
    series = pd.Series([1, entry], dtype=object, name="x")
    with pytest.raises(ValueError, match="column 'x' must hold numbers everywhere, and holds some"):
        Bins((0, 5, 10)).encode(series)
    assert Bins((0, 10), missing=True).encode(series).tolist() == [0, 1]


@pytest.mark.parametrize("series", [pd.Series(["5"], dtype="string"), pd.Series([True])], ids=str)
def test_columns_that_are_no_numbers(series) -> None:
    with pytest.raises(ValueError, match="the column must hold numbers, got type"):
        Bins((0, 10), missing=True).encode(series)


def test_no_rows() -> None:
    for frame in (PEOPLE[:0], PEOPLE[:0].astype(object), pd.DataFrame(columns=SMALL.names)):
        assert SMALL.encode(frame).shape == (0, 4)
    assert SMALL.encode(np.empty((0, 4), object)).shape == (0, 4)
    assert SMALL.decode(np.empty((0, 4), int)).shape == (0, 4)


def test_columns_absent_or_twice() -> None:
    with pytest.raises(ValueError, match="all columns of the schema; 'job', 'smokes' absent"):
        SMALL.encode(PEOPLE.drop(columns=["smokes", "job"]))
    twice = pd.concat([PEOPLE, PEOPLE[["age", "note"]]], axis=1)
    with pytest.raises(ValueError, match="each column once; 'age' there twice"):
        SMALL.encode(twice)
    twice_elsewhere = pd.concat([PEOPLE, PEOPLE[["note"]]], axis=1)
    np.testing.assert_array_equal(SMALL.encode(twice_elsewhere), SMALL.encode(PEOPLE))


def test_a_column_of_two_dimensions() -> None:
    """How many records there are may be private: no message has a length."""
    for column in (Categories((1, 2)), Bins((0, 1, 2))):
        with pytest.raises(ValueError, match=r"shape \(n,\), got 2 axes"):
            column.encode(np.array([[1], [2]]))
        with pytest.raises(ValueError, match=r"shape \(n,\), got 0 axes"):
            column.encode(np.array(1))
        for none in ("12", b"12", {1, 2}, 1, None, iter([1, 2])):
            with pytest.raises(ValueError, match="an array or a list, got"):
                column.encode(none)
        with pytest.raises(ValueError, match="adds a cell"):
            column.encode([[1], [2]])  # two entries that are lists
        with pytest.raises(ValueError, match="masked"):
            column.encode(np.ma.masked_array([1, 2], [True, False]))


# Private data ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "entries", "way_out"),
    [
        (Categories(("a", "b")), ["a", SECRET, SECRET], "other=True"),
        (Categories(("a", "b")), ["a", None, "b"], "other=True"),
        (Categories((1, 2)), [1, 2, SECRET_NUMBER], "other=True"),
        (Categories((1, 2)), [1.0, 2.0, SECRET_NUMBER + 0.5], "other=True"),
        (Categories((1, 2)), [1, 2, SECRET], "other=True"),
        (Categories((1, 2)), pd.array([SECRET], dtype="string"), "whole numbers, got type String"),
        (Categories(("1", "2")), [SECRET_NUMBER, "1"], "other=True"),
        (Categories((True, False)), [SECRET_NUMBER, True], "other=True"),
        (Bins((0, 1, 2)), [SECRET_NUMBER, SECRET], "missing=True"),
        (Bins((0, 1, 2)), [SECRET_NUMBER, NAN], "missing=True"),
        (Bins((0, 1, 2)), [SECRET_NUMBER, None], "missing=True"),
    ],
    ids=str,
)  # fmt: skip
def test_messages_name_the_column_and_show_nothing_of_the_data(column, entries, way_out) -> None:
    frame = pd.DataFrame({"income": entries})
    with pytest.raises(ValueError, match="column 'income'") as error:
        Schema({"income": column}).encode(frame)
    text = str(error.value)
    assert way_out in text
    for secret in (SECRET, str(SECRET_NUMBER), "None", "nan"):
        assert secret not in text
    assert not re.search(r"\d", text)  # nor how many there are
    assert error.value.__cause__ is None
    assert error.value.__context__ is None


@pytest.mark.slow
@given(
    st.lists(st.one_of(TEXTS, st.none())),
    st.lists(st.one_of(st.floats(), st.none())),
)
def test_no_row_changes_sizes_labels_or_other_rows(texts, numbers) -> None:
    schema = Schema(
        {"t": Categories(("a", "b"), other=True), "x": Bins.even(0, 1, 4, missing=True)}
    )
    n = min(len(texts), len(numbers))
    known = pd.DataFrame({"t": ["a", "b"], "x": [0.1, 0.9]}, dtype=object)
    strange = pd.DataFrame({"t": texts[:n], "x": numbers[:n]}, dtype=object)
    before, labels = schema.sizes, [column.labels for column in schema.columns.values()]
    codes = schema.encode(pd.concat([known, strange], ignore_index=True))
    assert codes[:2].tolist() == [[0, 0], [1, 3]]
    assert (codes >= 0).all()
    assert (codes < np.array(before)).all()
    assert schema.sizes == before
    assert [column.labels for column in schema.columns.values()] == labels


def test_encoding_leaves_the_table_alone() -> None:
    frame = PEOPLE.copy()
    SMALL.encode(frame)
    pd.testing.assert_frame_equal(frame, PEOPLE)


# Values of a schema ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ("ab", "sequence"),
        (3, "sequence"),
        ((), "at least two cells"),
        (("a",), "at least two cells"),
        (("a", "b", "a"), "'a' twice"),
        ((1, True), "True twice"),
        ((0, False), "False twice"),
        ((1, 1.5), "1.5; numbers with decimals go into Bins"),
        ((1, 1.0), "1 twice"),
        (("a", None), "None"),
        (("a", NAN), "nan"),
        ((1, 2**63), "64 bits"),
        ((1, -(2**63) - 1), "64 bits"),
        ((dt.date(2020, 1, 1), "a"), "date"),
    ],
)
def test_values_of_categories(values, text) -> None:
    with pytest.raises(ValueError, match=r"\bvalues\b") as error:
        Categories(values)
    assert text in str(error.value)


def test_the_label_of_others_is_taken() -> None:
    with pytest.raises(ValueError, match=r"must not hold '\(other\)'"):
        Categories(("(other)", "a"), other=True)
    assert Categories(("(other)", "a")).size == 2


@pytest.mark.parametrize(
    "edges",
    ["01", 3, (), (1,), (0, 0), (1, 0), (0, 2, 1), (0, 1, NAN), (0, INF), (-INF, 0),
     (0, "1"), (False, True), (0, None), (-0.0, 0.0)],
)  # fmt: skip
def test_edges(edges) -> None:
    with pytest.raises(ValueError, match=r"\bedges\b"):
        Bins(edges, missing=True)


def test_one_bin_is_a_column_only_with_a_cell_for_missing_values() -> None:
    with pytest.raises(ValueError, match="at least two cells"):
        Bins((0, 1))
    assert Bins((0, 1), missing=True).size == 2


@pytest.mark.parametrize("flag", [None, 1, 0, "true", NAN])
def test_flags(flag) -> None:
    with pytest.raises(ValueError, match="other must be True or False"):
        Categories(("a", "b"), flag)
    with pytest.raises(ValueError, match="missing must be True or False"):
        Bins((0, 1, 2), flag)


@pytest.mark.parametrize("count", [0, -1, 1.5, "2", True, NAN])
def test_count_of_even_bins(count) -> None:
    with pytest.raises(ValueError, match="count must be a whole number"):
        Bins.even(0, 1, count)


@pytest.mark.parametrize(
    "columns",
    [None, {}, [("a", Bins((0, 1, 2)))], {"": Bins((0, 1, 2))}, {3: Bins((0, 1, 2))},
     {"a": (0, 1, 2)}, {"a": Bins}],
)  # fmt: skip
def test_columns_of_a_schema(columns) -> None:
    with pytest.raises(ValueError, match="column"):
        Schema(columns)


def test_numpy_values_become_plain_ones() -> None:
    column = Categories(np.array([1, 2]))
    assert column.values == (1, 2)
    assert type(column.values[0]) is int
    assert [type(value) for value in Categories((np.True_, np.str_("a"))).values] == [bool, str]
    assert Categories(pd.Series(["a", "b"])).values == ("a", "b")
    assert type(Bins(np.arange(3)).edges[0]) is float


def test_a_schema_cannot_be_changed() -> None:
    columns = {"a": Bins((0, 1, 2))}
    schema = Schema(columns)
    columns["b"] = Bins((0, 1, 2))
    assert schema.names == ("a",)
    with pytest.raises(TypeError):
        schema.columns["b"] = Bins((0, 1, 2))
    with pytest.raises(AttributeError):
        schema.columns = columns


def test_equality_knows_order_and_types() -> None:
    a, b = Bins((0, 1, 2)), Bins((0, 1, 3))
    assert Schema({"a": a, "b": b}) == Schema({"a": a, "b": b})
    assert hash(Schema({"a": a, "b": b})) == hash(Schema({"a": a, "b": b}))
    assert Schema({"a": a, "b": b}) != Schema({"b": b, "a": a})
    assert Schema({"a": Categories((0, 1))}) != Schema({"a": Categories((False, True))})
    assert Schema({"a": a}) != {"a": a}


def test_a_ledger_is_not_written_over(tmp_path: Path) -> None:
    """A schema that was saved there took its place, and what had been spent was lost."""
    path = tmp_path / "spent.json"
    accountant = Ledger(path).accountant("visits")
    accountant.compose(LaplaceCost(scale=1.0, relation=ReplaceRecord()))
    with pytest.raises(ValueError, match="is a ledger, and what was spent would be lost"):
        SMALL.save(path)
    assert Ledger(path).accounts()[0].total.releases == 1


def test_copies() -> None:
    for same in (pickle.loads(pickle.dumps(SMALL)), copy.deepcopy(SMALL), copy.copy(SMALL)):
        assert same == SMALL


def test_subset() -> None:
    assert SMALL.subset(["age", "job"]).names == ("age", "job")
    np.testing.assert_array_equal(
        SMALL.subset(["age", "job"]).encode(PEOPLE), SMALL.encode(PEOPLE)[:, [2, 0]]
    )
    for names, text in [
        (["agee"], "'agee'; did you mean 'age'?"),
        (["age", "age"], "'age' twice"),
        ([], "none"),
        ("age", "one text"),
    ]:
        with pytest.raises(ValueError, match=r"\bnames\b") as error:
            SMALL.subset(names)
        assert text in str(error.value)


# Files -------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(schemas())
def test_round_trips(tmp_path_factory, schema: Schema) -> None:
    assert Schema.from_dict(schema.to_dict()) == schema
    folder = tmp_path_factory.mktemp("schemas")
    for name in ("schema.toml", "schema.json", "SCHEMA.TOML"):
        schema.save(folder / name)
        again = Schema.load(folder / name)
        assert again == schema
        assert again.names == schema.names


def test_numbers_and_texts_survive(tmp_path) -> None:
    schema = Schema({"a.b c": Categories(("1", 1, "true", False, "")), "x": Bins((0.1, 1, 1e22))})
    for name in ("s.toml", "s.json"):
        schema.save(str(tmp_path / name))
        assert repr(Schema.load(str(tmp_path / name))) == repr(schema)


def written(folder, text, name="s.toml"):
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def test_a_file_written_by_hand(tmp_path) -> None:
    path = written(tmp_path, "[columns.job]\ncategories = ['a', 'b']\n[columns.age]\nedges=[0,1,2]")
    expected = Schema({"job": Categories(("a", "b")), "age": Bins((0, 1, 2))})
    assert Schema.load(path) == expected
    bom = written(tmp_path, "\ufeff" + path.read_text(), "bom.toml")
    assert Schema.load(bom) == expected


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "one entry, 'columns', got none"),
        ("a = 1", "one entry, 'columns', got 'a'"),
        ("version = 1\n[columns.x]\nedges=[0,1,2]", "'version'"),
        ("columns = 3", "columns must map"),
        ("columns = {}", "at least one name"),
        ("[columns]\nx = 3", "column 'x' must be a table"),
        ("[columns.x]", "column 'x' must have"),
        ("[columns.x]\nother = true", "column 'x' must have"),
        ("[columns.x]\nvalues = ['a']", "got 'values'"),
        ("[columns.x]\ncategories = ['a', 'b']\nmissing = true", "got 'categories', 'missing'"),
        ("[columns.x]\nedges = [0, 1, 2]\nother = true", "got 'edges', 'other'"),
        ("[columns.x]\nedges = [0, 1, 2]\ncategories = ['a', 'b']", "column 'x' must have"),
        ("[columns.x]\ncategories = ['a']", "column 'x': values must give at least two"),
        ("[columns.x]\ncategories = ['a', 'a']", "'a' twice"),
        ("[columns.x]\ncategories = 'ab'", "must be lists"),
        ("[columns.x]\ncategories = [1.5, 2.0]", "1.5"),
        ("[columns.x]\ncategories = [2020-01-01, 2]", "date"),
        ("[columns.x]\ncategories = ['a', 'b']\nother = 1", "other must be True or False"),
        ("[columns.x]\nedges = [0, nan]", "finite"),
        ("[columns.x]\nedges = [0, inf]", "finite"),
        ("[columns.x]\nedges = [0, '1']", "edges must be numbers"),
        ("[columns.x]\nedges = [0, 1, 2]\nmissing = 'no'", "missing must be"),
        ("[columns.x]\nedges = [0, 1, 2]\n[columns.x]\nedges = [0, 1, 2]", "s.toml"),
        ("not toml", "s.toml"),
    ],
)
def test_bad_files(tmp_path, text, found) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ValueError, match=r"s\.toml: ") as error:
        Schema.load(path)
    assert found in str(error.value)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[]", "one entry"),
        ("{", "s.json"),
        ('{"columns": {"x": {"edges": [0, NaN, 2]}}}', "finite"),
        ('{"columns": {"x": {"edges": [0, 1, 2]}, "x": {"edges": [0, 1]}}}', "'x' twice"),
        ('{"columns": {"x": {"categories": ["a", null]}}}', "None"),
    ],
)
def test_bad_json(tmp_path, text, found) -> None:
    with pytest.raises(ValueError, match=r"s\.json: ") as error:
        Schema.load(written(tmp_path, text, "s.json"))
    assert found in str(error.value)


def test_other_files(tmp_path) -> None:
    for name in ("s.yaml", "s", "toml"):
        with pytest.raises(ValueError, match=r"must end in \.toml or \.json"):
            SMALL.save(tmp_path / name)
        with pytest.raises(ValueError, match=r"must end in \.toml or \.json"):
            Schema.load(tmp_path / name)
    assert not list(tmp_path.iterdir())
    with pytest.raises(FileNotFoundError):
        Schema.load(tmp_path / "none.toml")


# Templates ---------------------------------------------------------------------------------------


def test_a_template_is_refused_until_it_is_filled_in(tmp_path) -> None:
    for name in ("s.toml", "s.json"):
        path = tmp_path / name
        unfilled = write_template(path, ["age", "job", "city"], numeric={"age": (0, 100)}, bins=5)
        assert unfilled.unfilled == ("job", "city")
        with pytest.raises(ValueError, match="'job', 'city' are still to be filled in"):
            Schema.load(path)
        parse = tomllib.loads if name == "s.toml" else json.loads
        data = parse(path.read_text())
        assert data == Schema.template(["age", "job", "city"], numeric={"age": (0, 100)}, bins=5)
        filled = path.read_text().replace("categories = []", "categories = ['a', 'b']")
        filled = filled.replace('"categories": []', '"categories": ["a", "b"]')
        schema = Schema.load(written(tmp_path, filled, f"filled-{name}"))
        assert schema == Schema(
            {
                "age": Bins.even(0, 100, 5),
                "job": Categories(("a", "b")),
                "city": Categories(("a", "b")),
            }
        )


def test_a_template_of_numbers_is_complete(tmp_path) -> None:
    assert write_template(tmp_path / "s.toml", ["x"], numeric={"x": (-1, 1)}).unfilled == ()
    assert Schema.load(tmp_path / "s.toml") == Schema({"x": Bins.even(-1, 1, 10)})


def test_a_template_replaces_nothing(tmp_path) -> None:
    path = written(tmp_path, "filled in")
    with pytest.raises(ValueError, match="not a schema to complete"):
        write_template(path, ["job"])
    assert path.read_text() == "filled in"


@pytest.mark.parametrize(
    ("names", "numeric", "n_bins", "found"),
    [
        (["a", "a"], {}, 10, "'a' twice"),
        ([], {}, 10, "none"),
        ("ab", {}, 10, "one text"),
        ([1], {}, 10, "got 1"),
        (["a"], {"b": (0, 1)}, 10, "'b'; the columns are 'a'"),
        (["a"], {"a": (1, 0)}, 10, "numeric of 'a'"),
        (["a"], {"a": (0, INF)}, 10, "numeric of 'a'"),
        (["a"], {"a": (NAN, 1)}, 10, "numeric of 'a'"),
        (["a"], {"a": (0, 1, 2)}, 10, "numeric of 'a' must be (low, high)"),
        (["a"], {"a": 3}, 10, "numeric of 'a' must be (low, high)"),
        (["a"], {"a": (0, 1)}, 1, "bins must be a whole number >= 2"),
        (["a"], {"a": (0, 1)}, 2.5, "bins must be"),
    ],
)
def test_arguments_of_a_template(tmp_path, names, numeric, n_bins, found) -> None:
    with pytest.raises(ValueError, match=re.escape(found)):
        write_template(tmp_path / "s.toml", names, numeric=numeric, bins=n_bins)
    assert not list(tmp_path.iterdir())


def test_a_header_without_its_rows(tmp_path) -> None:
    path = written(tmp_path, f'age,"job, main",x\n{SECRET},1,2\n', "people.csv")
    assert read_header(path) == ("age", "job, main", "x")
    path = written(tmp_path, f"\ufeffage;job\r\n{SECRET};1\r\n", "people.csv")
    assert read_header(path, separator=";") == ("age", "job")
    (tmp_path / "rows.csv").write_bytes(b'a,b\n\xff\xff,"\n')  # no text, never ends
    assert read_header(tmp_path / "rows.csv") == ("a", "b")


@pytest.mark.parametrize(("text", "found"), [("", "empty"), ("a,a\n", "twice"), ("a,,b", "empty")])
def test_bad_headers(tmp_path, text, found) -> None:
    with pytest.raises(ValueError, match=found):
        read_header(written(tmp_path, text, "people.csv"))


def test_bounds_from_the_command_line() -> None:
    texts = ["age=0:100", "a=b=-1.5:1e3", "n=0:9:whole"]
    assert parse_bounds(texts) == {"age": (0, 100), "a=b": (-1.5, 1000), "n": (0, 9, "whole")}
    assert parse_bounds([]) == {}


@pytest.mark.parametrize(
    "text", ["age", "age=", "age=1", "=0:1", "age=0:x", "age=0:1:2", "age=:", "age=0:whole"]
)
def test_bad_bounds(text) -> None:
    with pytest.raises(ValueError, match=r"numeric must be like 'age=0:100' or"):
        parse_bounds([text])
    with pytest.raises(ValueError, match="'age' twice"):
        parse_bounds(["age=0:1", "age=0:2"])


def test_brackets_without_end_in_toml(tmp_path: Path) -> None:
    path = tmp_path / "deep.toml"
    path.write_text("columns = " + "[" * 100_000)
    with pytest.raises(ValueError, match="brackets must not be nested so deeply"):
        Schema.load(path)


@pytest.mark.slow
def test_a_hundred_thousand_columns(tmp_path: Path) -> None:
    """In time that grows with their number, not with its square."""
    path, names = tmp_path / "wide.csv", [f"c{i}" for i in range(100_000)]
    path.write_text(",".join(names) + "\n")
    began = time.process_time()
    found = read_header(path)
    made = template(found, numeric=dict.fromkeys(names[:1000], (0, 1)))
    assert list(made["columns"]) == names
    with pytest.raises(ValueError, match="'c7' twice"):
        check_names([*names, "c7"])
    assert time.process_time() - began < 10  # 20 seconds and more when it was the square
