"""Every reader of records: no record decides how another one is read, or whether reading stops.

Hypothesis draws records, replaces one by an entry of any kind, and reads both in every container.
No other record's cell may change. Where every column has a cell for the rest, nothing is refused in
lists, objects and files; elsewhere only what `privrl.data.schema` says, in words that do not depend
on the entry. Arrays and columns of a type are made here by NumPy and pandas out of the same
records, so that their types are inferred from them: those may be refused for their type, and else
change no cell either.
"""

import csv
import re
import warnings
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from traceback import format_exception
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from of_every_kind import KINDS

from privrl.accounting.targets import RenyiDP
from privrl.continuous import ContinuousLog, ContinuousSchema, Number
from privrl.data.csv_files import csv_columns
from privrl.data.logs import LogSchema, read_log
from privrl.data.records import read_records
from privrl.data.schema import Bins, Categories, Schema
from privrl.data.schema.headers import read_header
from privrl.models import discretise
from privrl.models.bayes_net.fit import PrivateBayesNet
from privrl.models.bayes_net.structure import Structure
from privrl.models.histograms.release import count_cells
from privrl.models.naive_bayes import classifier
from privrl.models.naive_bayes.classifier import PrivateNaiveBayes

#: Records of chance are other or missing values, mostly.
pytestmark = pytest.mark.filterwarnings("ignore:about .* is in the cell of")
ROOT = Path(__file__).parents[2]
examples = settings(max_examples=250, deadline=None, derandomize=True, database=None)


ANY = st.one_of(
    st.integers(0, len(KINDS) - 1).map(KINDS.__getitem__),
    st.text(max_size=3),
    st.integers(),
    st.floats(),
)

#: Columns without a cell for the rest, and records that they hold.
KNOWN = {
    Categories(("a", "1")): ["a", "1"],
    Categories((1, 2, 3)): [1, 2, 3],
    Categories((0, 2**53)): [0, 2**53],
    Categories((True, False)): [True, False],
    Categories(("a", 1, False)): ["a", 1, False],
    Bins((0, 1, 2, 5)): [0.5, 1, 4, -3, 99, 0.25],
}


def with_rest(column):
    kind = Categories if isinstance(column, Categories) else Bins
    return kind(column.values if kind is Categories else column.edges, True)


KNOWN_OF = {with_rest(column): column for column in KNOWN}


def objects(values):
    return np.fromiter(values, object, len(values))


#: What lists and objects are put into, and what of a type NumPy or pandas make of them.
UNTYPED = {
    "list": list,
    "tuple": tuple,
    "array of objects": objects,
    "series of objects": lambda values: pd.Series(objects(values), dtype=object),
}
TYPED = {
    "array": np.array,
    "series": pd.Series,
    "category": lambda values: pd.Series(values).astype("category"),
    "array in a series": lambda values: pd.Series(np.array(values)),
    "nullable": lambda values: pd.Series(values).convert_dtypes(),
}
CELL = (
    r"(the column|column '\w+') must hold (nothing but its categories, and holds something unknown "
    r"or missing; Categories\(\.\.\., other=True\)|numbers everywhere, and holds something else or "
    r"nothing somewhere; Bins\(\.\.\., missing=True\)) adds a cell for that"
    r"(, or in its file, under \[columns\.\w+\]: \w+ = true)?\."
)
TYPE = r"(the column|column '\w+'|X|y) must hold [\w ,]+, got type \w+; convert it first\."
CLASS = (
    r"y must hold nothing but the stated classes, and holds something unknown or missing\. Unknown "
    r"label type: none of them\."
)
NUMBER = r"X must hold whole numbers from 0 to \d in column \d, by the schema\."


def outcome(read, values):
    """Return the cells of records, or the words of a refusal; all else is an error of the test."""
    refused = None
    try:
        cells, words = read(values), None
    except ValueError as error:
        refused, cells, words = error, None, str(error)
    if refused is not None:  # nor is there another error within
        assert (refused.__cause__, refused.__context__) == (None, None)
    return cells, words


def compare(read, make, case, allowed):
    """Read records and those with one replaced; cells are of shape (..., n)."""
    records, i, entry = case
    replaced = [*records[:i], entry, *records[i + 1 :]]
    (cells, said), (others, said_too) = outcome(read, make(records)), outcome(read, make(replaced))
    for words in (said, said_too):
        for line in () if words is None else words.split("\n"):  # one for each column
            assert re.fullmatch("|".join(allowed), line)
    if cells is not None and others is not None:
        np.testing.assert_array_equal(np.delete(cells, i, -1), np.delete(others, i, -1))
    return cells, others


def made(make, records):
    """Return what NumPy or pandas make of records, and leave it to them what they refuse."""
    try:
        return make(records)
    except Exception:
        assume(False)


@st.composite
def cases(draw, column, *, more=True):
    """Records of a column, of any kind too if there ``more``, one's place, and its replacement."""
    known = st.sampled_from(KNOWN[column])
    records = draw(st.lists(st.one_of(known, ANY) if more else known, min_size=1, max_size=6))
    return records, draw(st.integers(0, len(records) - 1)), draw(ANY)


@pytest.mark.slow
@examples
@given(st.sampled_from(list(KNOWN_OF)), st.sampled_from(list(UNTYPED.values())), st.data())
def test_with_a_cell_for_the_rest_every_entry_is_read_by_itself(column, make, data):
    """Not only is no other cell changed: each is what its entry has alone. Nothing is refused."""
    records, i, entry = data.draw(cases(KNOWN_OF[column]))
    cells, others = compare(column.encode, make, (records, i, entry), ["never"])
    alone = [column.encode(make([each]))[0] for each in records]
    np.testing.assert_array_equal(cells, alone)
    counts = count_cells(make(records), column)
    np.testing.assert_array_equal(counts, np.bincount(cells, minlength=column.size))
    assert len(others) == len(cells)


@pytest.mark.slow
@examples
@given(st.sampled_from(list(KNOWN)), st.data())
def test_without_one_only_what_has_no_cell_is_refused(column, data):
    records, i, entry = data.draw(cases(column, more=False))
    cells, others = compare(column.encode, list, (records, i, entry), [CELL])
    assert cells is not None  # known ones are never refused
    assert (others is None) == (with_rest(column).encode([entry])[0] == column.size)
    (_, refused), (_, counted) = (
        outcome(read, [*records, entry])
        for read in (column.encode, lambda values: count_cells(values, column))
    )
    assert refused == counted


@pytest.mark.slow
@settings(examples, max_examples=300)
@given(st.sampled_from([*KNOWN, *KNOWN_OF]), st.sampled_from(list(TYPED)), st.data())
def test_a_type_that_one_record_decided_is_refused_or_changes_no_other(column, container, data):
    """As np.array and pandas infer it from records that the schema knows, and one of any kind."""
    records, i, entry = data.draw(cases(KNOWN_OF.get(column, column), more=False))
    if container.startswith("array"):  # which may hold one kind only, or objects
        records = [each for each in records if type(each) is type(records[i])]
        i = min(i, len(records) - 1)
    replaced = [*records[:i], entry, *records[i + 1 :]]
    tables = {id(each): made(TYPED[container], each) for each in (records, replaced)}
    (cells, said), (others, said_too) = (
        outcome(column.encode, tables[id(each)]) for each in (records, replaced)
    )
    for words in (said, said_too):
        shape = r"the column must be of shape \(n,\), got \d axes\."
        assert words is None or re.fullmatch(f"{CELL}|{TYPE}|{shape}", words), words
    if cells is not None and others is not None:
        np.testing.assert_array_equal(np.delete(cells, i), np.delete(others, i))


@pytest.mark.few(20)
@pytest.mark.parametrize(
    "dtype",
    [
        *("b1", "i1", "u1", "i8", "u8", "f2", "f4", "f8", "g", "U3", "O", "Int8", "UInt64"),
        *("Float32", "boolean", "string", "category", "Sparse[int]", "Sparse[float]"),
    ],
)
@settings(examples, max_examples=10)
@given(data=st.data())
def test_a_column_of_a_type(dtype, data):
    """Any values that the type can hold, one replaced by another."""
    texts, numbers = st.text("a1", max_size=3), st.sampled_from([0, 1, 2, 3, 100])
    kinds = {"b1": st.booleans(), "boolean": st.booleans(), "U3": texts, "string": texts, "O": ANY}
    value = kinds.get(dtype, numbers)
    records = data.draw(st.lists(value, min_size=1, max_size=6))
    i, entry = data.draw(st.integers(0, len(records) - 1)), data.draw(value)

    def make(values):
        if dtype == "O":
            return objects(values)
        return np.array(values, dtype) if len(dtype) <= 2 else pd.Series(values, dtype=dtype)

    for column in (*KNOWN, *KNOWN_OF):
        cells, others = compare(column.encode, make, (records, i, entry), [CELL, TYPE])
        if column in KNOWN_OF:  # a type is refused for all records or none
            assert (cells is None) == (others is None) or dtype == "category"


@pytest.mark.parametrize("column", [Bins((0, 1, 5), missing=True), Categories((0, 2), other=True)])
@pytest.mark.parametrize("dtype", ["f4", "f8", "Float32", "Float64"])
def test_a_nan_that_signals_warns_of_nothing(column, dtype):
    """A processor raises a flag where such a NaN is rounded, or becomes a longer float."""
    size = 4 if dtype in ("f4", "Float32") else 8
    values = np.arange(3, dtype=f"f{size}")
    values.view(f"u{size}")[1] = {4: 0x7F800001, 8: 0x7FF0000000000001}[size]
    if dtype[0] == "F":
        values = pd.Series(pd.arrays.FloatingArray(values, np.zeros(3, bool)))
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        assert column.encode(values)[1] == column.size - 1


@pytest.mark.parametrize("package", ["polars", "pyarrow", "pandas"])
@pytest.mark.parametrize("column", [Bins((0, 1, 5), missing=True), Categories((0, 2), other=True)])
def test_a_column_in_which_all_is_missing_has_no_type(package, column):
    """Where one record more has an entry it has a type: that must not decide who is read."""
    library = pytest.importorskip(package)
    make = library.table if package == "pyarrow" else library.DataFrame
    if package == "pandas":  # as its readers make with dtype_backend="pyarrow"
        arrow = pytest.importorskip("pyarrow")
        make = lambda table: arrow.table(table).to_pandas(types_mapper=pd.ArrowDtype)  # noqa: E731
    for entries in ([None, None], [None, 0], [None, 2]):
        cells = Schema({"x": column}).encode(make({"x": entries}))
        assert cells[0, 0] == column.size - 1


def no_utf8():
    """Three texts of Arrow's, which does not check them; the first is none."""
    arrow = import_module("pyarrow")
    binary = arrow.array([b"SECRET\xff", b"a", b"b"])
    return arrow.Array.from_buffers(arrow.string(), 3, binary.buffers())


NO_UTF8 = {
    "array": lambda array: array,
    "chunked array": lambda array: import_module("pyarrow").chunked_array([array]),
    "dictionary": lambda array: array.dictionary_encode(),
    "pandas' ArrowDtype": lambda array: pd.Series(pd.arrays.ArrowExtensionArray(array)),
    "pandas' strings": lambda array: pd.Series(
        pd.arrays.ArrowStringArray(array.cast("large_string"))
    ),
}


@pytest.mark.needs("pyarrow")
@pytest.mark.parametrize("container", NO_UTF8)
def test_bytes_that_are_no_text_are_shown_to_nobody_and_stop_nothing(container):
    """Arrow's own error has the whole text in its message."""
    column = Categories(("a", "b"), other=True)
    assert column.encode(NO_UTF8[container](no_utf8())).tolist() == [2, 0, 1]
    with pytest.raises(ValueError, match=CELL) as caught:
        Categories(("a", "b")).encode(NO_UTF8[container](no_utf8()))
    assert caught.value.__context__ is None


ARRAYS = {
    "state": lambda y: ContinuousLog.of_arrays(LOG, **{**STEPS, "state": y}),
    "X": lambda y: fitted_by().predict(y),
    "y must hold a class": lambda y: fitted_by().score(STEPS["state"], y),
    "y must hold classes": lambda y: PrivateNaiveBayes([2], epsilon=1).fit(STEPS["state"], y),
}
LOG = ContinuousSchema(
    state={"x": Number(low=0, high=1)}, action={"a": Number(low=0, high=1, levels=2)}
)
STEPS = {
    "state": [[0], [1], [0]],
    "action": [0, 1, 0],
    "next_state": [[1], [0], [1]],
    "person": [0, 1, 2],
}


def fitted_by():
    return PrivateNaiveBayes([2], classes=["a", "b"], epsilon=1).fit([[0], [1]], ["a", "b"])


@pytest.mark.few(9)
@pytest.mark.needs("pyarrow")
@pytest.mark.filterwarnings("ignore::privrl.models.classifiers.ClassesLeakWarning")
@pytest.mark.parametrize("container", NO_UTF8)
@pytest.mark.parametrize("argument", ARRAYS)
def test_no_error_of_an_array_shows_bytes_that_are_no_text(argument, container):
    """NumPy cannot convert them, and the error of Arrow's, which has the text, went through."""
    with pytest.raises(ValueError, match=argument) as caught:
        ARRAYS[argument](NO_UTF8[container](no_utf8()))
    assert "SECRET" not in "".join(format_exception(caught.value))
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)


@pytest.mark.needs("pyarrow")
@pytest.mark.parametrize("container", NO_UTF8)
def test_bytes_that_are_no_text_are_a_person_of_their_own(container):
    log = ContinuousLog.of_arrays(LOG, **STEPS | {"person": NO_UTF8[container](no_utf8())})
    assert log.offsets.tolist() == [0, 1, 2, 3]


@pytest.mark.needs("pyarrow")
@pytest.mark.parametrize("kind", ["table", "Parquet"])
def test_bytes_that_are_no_text_are_one_record_of_a_table(kind, tmp_path):
    arrow = import_module("pyarrow")
    table = arrow.table({"x": no_utf8()})
    if kind == "Parquet":
        parquet = import_module("pyarrow.parquet")
        parquet.write_table(table, tmp_path / "d.parquet")
        table = parquet.read_table(tmp_path / "d.parquet")
    cells = Schema({"x": Categories(("a", "b"), other=True)}).encode(table)
    assert cells[:, 0].tolist() == [2, 0, 1]


# Tables -------------------------------------------------------------------------------------------

NAMES = ["t", "n", "l", "b", "m", "x"]
STRICT = Schema(dict(zip(NAMES, KNOWN, strict=True)))
TOTAL = Schema(dict(zip(NAMES, KNOWN_OF, strict=True)))


def frame_of(rows):
    columns = {name: objects([row[k] for row in rows]) for k, name in enumerate(NAMES)}
    return pd.DataFrame({name: pd.Series(each, dtype=object) for name, each in columns.items()})


def array_of(rows):
    return objects([each for row in rows for each in row]).reshape(len(rows), -1)


TABLES = {
    "lists": lambda rows: [list(row) for row in rows],
    "tuples": lambda rows: tuple(tuple(row) for row in rows),
    "arrays in a list": lambda rows: [objects(row) for row in rows],
    "series in a list": lambda rows: [pd.Series(objects(row)) for row in rows],
    "array of objects": array_of,
    "frame of objects": frame_of,
    "frame": lambda rows: pd.DataFrame(rows, columns=NAMES),
}


@st.composite
def tables(draw):
    """Rows of known entries, one of them replaced by one with an entry of any kind."""
    known = st.tuples(*(st.sampled_from(each) for each in KNOWN.values()))
    rows = draw(st.lists(known, min_size=1, max_size=5))
    i, k = draw(st.integers(0, len(rows) - 1)), draw(st.integers(0, len(NAMES) - 1))
    replaced = draw(known)
    return rows, i, (*replaced[:k], draw(ANY), *replaced[k + 1 :])


def fitted(X, y, schema, classes=("u", "w")):
    """Fit naive Bayes; return what its tables count, the cells of features and classes."""
    seen = []
    counting = classifier.count_tables

    def spy(columns, numbers, *more):
        seen.append(np.concatenate([columns, numbers[None]]))
        return counting(columns, numbers, *more)

    with patch.object(classifier, "count_tables", spy):
        model = PrivateNaiveBayes(schema, classes=list(classes), target=None, mechanism="none")
        try:
            model.fit(X, y)
        except ValueError:
            assert set(vars(model)) == set(model.get_params())  # nothing is left of what failed
            raise
    return seen[0]


def counted(frame, schema):
    """Fit a network of chained nodes; return what its tables count."""
    seen = []
    counting = Structure.counts

    def spy(self, codes):
        seen.append(np.stack(list(codes.values())))
        return counting(self, codes)

    parents = {name: NAMES[max(0, k - 1) : k] for k, name in enumerate(NAMES)}
    plan = PrivateBayesNet(parents=parents, schema=schema, target=None, mechanism="none")
    with patch.object(Structure, "counts", spy):
        plan.fit(frame, np.random.default_rng(0))
    return seen[0]


@pytest.mark.slow
@settings(examples, max_examples=200)
@given(st.sampled_from([TOTAL, STRICT]), st.sampled_from(list(TABLES)), tables())
def test_tables(schema, container, case):
    rows, i, row = case
    make = TABLES[container]
    allowed = [CELL] if schema is STRICT else ["never"]
    if container == "frame":
        allowed += [TYPE]
        made(make, [*rows[:i], row, *rows[i + 1 :]])
    y = ["u", "w", "u", "w", "u"][: len(rows)]
    compare(lambda X: fitted(X, y, schema), make, case, allowed)
    if container.startswith(("frame", "array of")):
        compare(lambda X: schema.encode(X).T, make, case, allowed)
        compare(lambda X: counted(X, schema), make, case, allowed)


@pytest.mark.few(6)
@pytest.mark.parametrize(
    ("schema", "known", "allowed"),
    [
        (Categories((1, 2), True), [1, 2], "never"),
        (Categories((True, False), True), [True, False], "never"),
        (Categories(("a", "1"), True), ["a", "1"], "never"),
        (Bins((0, 1, 2), True), [0.5, 1], "never"),
        (Bins((0, 1, 2)), [0.5, 1], CELL),
        ([3, 3], [0, 1, 2, 1.0, np.int8(2)], NUMBER),
    ],
    ids=repr,
)
@settings(examples, max_examples=30)
@given(st.sampled_from(["lists", "tuples", "arrays in a list", "array of objects"]), st.data())
def test_tables_without_names(schema, known, allowed, container, data):
    row = st.tuples(*[st.sampled_from(known)] * 2)
    rows = data.draw(st.lists(row, min_size=1, max_size=5))
    i, other = data.draw(st.integers(0, len(rows) - 1)), (data.draw(ANY), data.draw(ANY))
    y = ["u", "w", "u", "w", "u"][: len(rows)]
    compare(lambda X: fitted(X, y, schema), TABLES[container], (rows, i, other), [allowed])


@pytest.mark.slow
@settings(examples, max_examples=50)
@given(case=tables(), other=st.one_of(ANY, st.lists(ANY, max_size=8)))
def test_a_record_that_is_no_row_is_refused_in_the_same_words(case, other):
    rows, i, _ = case
    words = (
        r"X must have two axes, records and features: in every record a row with as many entries "
        r"as there are features\. Reshape your data\."
    )
    shape = r"(X has 0 feature\(s\)|frame must have the 6 columns).*"  # one record, and other
    allowed = [words] if len(rows) > 1 else [words, shape]
    y = ["u", "w", "u", "w", "u"][: len(rows)]
    compare(lambda X: fitted(X, y, TOTAL), list, (rows, i, other), allowed)


@pytest.mark.few(5)
@pytest.mark.parametrize(
    "classes", [(0, "0"), ("no", "yes"), (False, True), (1, 0), ("a", 1, False)], ids=repr
)
@settings(examples, max_examples=50)
@given(st.sampled_from([*UNTYPED, *TYPED]), st.data())
def test_classes(classes, container, data):
    y = data.draw(st.lists(st.sampled_from(classes), min_size=1, max_size=6))
    i, other = data.draw(st.integers(0, len(y) - 1)), data.draw(ANY)
    if container.startswith("array"):
        y = [each for each in y if type(each) is type(y[i])]
        i = min(i, len(y) - 1)
    make, allowed = (UNTYPED | TYPED)[container], [CLASS]
    if container in TYPED:
        made(make, y)
        array = made(make, [*y[:i], other, *y[i + 1 :]])
        assume(np.ndim(array) == 1)
        allowed += [TYPE]
    compare(lambda y: fitted([[0]] * len(y), y, [2], classes), make, (y, i, other), allowed)


@pytest.mark.slow
@settings(examples, max_examples=30)
@given(data=st.data())
def test_discretise(data):
    records, i, entry = data.draw(cases(Bins((0, 1, 2, 5)), more=False))
    target, seen = RenyiDP(2, 1.0), []

    def read(values):
        with ExitStack() as stack:
            encode = Schema.encode
            spy = patch.object(
                Schema, "encode", lambda self, frame: seen.append(encode(self, frame)) or seen[-1]
            )
            stack.enter_context(spy)
            frame = pd.DataFrame({"x": pd.Series(objects(values), dtype=object)})
            rng = np.random.default_rng(0)
            discretise(frame, {"x": (0, 5)}, target=target, rng=rng, bins=2, grid=4, missing=True)
        return seen[-1].T

    compare(read, list, (records, i, entry), ["never"])


# Files --------------------------------------------------------------------------------------------

FIELDS = st.one_of(
    st.sampled_from([each for each in KINDS if isinstance(each, str) and each != "\ud800"]),
    st.sampled_from(["", " ", "\t", ",", ";", '"', '""', "\n", "\r\n", "\r", "1,2", "#", "\ufeff"]),
    st.sampled_from(["18446744073709551615", "-1", "9" * 400, "1e999", "-inf", "1_0", "0x1", "١"]),
    st.sampled_from(["x" * 200_000, "1" * 200_000]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
    st.one_of(st.integers(), st.floats(), st.booleans(), st.none(), st.dates()).map(str),
)
TEXTS = [
    *(["a", "1"], ["1", "2", "3"], ["0", str(2**53)], ["true", "False"], ["a", "1", "false"]),
    ["0.5", "1", "4", "-3", "99", ".25", "1e0", "inf"],
]


def file_of(rows, names, path, separator):
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=separator).writerows([names, *rows])
    return path


@pytest.mark.slow
@settings(examples, max_examples=150)
@given(schema=st.sampled_from([TOTAL, STRICT]), data=st.data())
def test_files(schema, data, tmp_path_factory):
    """A record as a CSV writer writes it, whatever its fields are but for breaks of lines."""
    n_columns, separator = data.draw(st.sampled_from([1, 2, 6])), data.draw(st.sampled_from(",;\t"))
    places = data.draw(st.permutations(range(6)))[:n_columns]
    names = [NAMES[k] for k in places]
    known = st.tuples(*(st.sampled_from(TEXTS[k]) for k in places))
    rows = data.draw(st.lists(known, min_size=1, max_size=5))
    i, row = data.draw(st.integers(0, len(rows) - 1)), data.draw(st.tuples(*[FIELDS] * n_columns))
    path = tmp_path_factory.mktemp("files") / "data.csv"
    part = schema.subset(names)

    def read(rows):
        records = read_records(file_of(rows, names, path, separator), part, separator=separator)
        assert len(records) == len(rows)
        return part.encode(records).T

    if any(mark in field for field in row for mark in "\r\n"):
        with pytest.raises(ValueError, match=NOT_RECORDS):
            read([*rows, row])
        return
    cells, _ = compare(read, list, (rows, i, row), [CELL] if schema is STRICT else ["never"])
    assert cells is not None


def test_an_empty_line_is_a_record_of_one_column_and_none_of_several(tmp_path):
    (tmp_path / "one.csv").write_text("x\n1\n\n  \n4\n")
    one = Schema({"x": Bins((0, 2, 5), missing=True)})
    assert one.encode(read_records(tmp_path / "one.csv", one)).ravel().tolist() == [0, 2, 2, 1]
    (tmp_path / "two.csv").write_text("x,y\n1,a\n\n4,\n")
    assert one.encode(read_records(tmp_path / "two.csv", one)).ravel().tolist() == [0, 1]


NOT_RECORDS = "one record in each line, with as many fields as its header"


@pytest.mark.parametrize(
    "text",
    [
        *('x,y\n1,"a\n2,b\n3,c\n', 'x,y\n1,"a"b\n', "x,y\n1,a,2\n", "x,y\n1\n"),
        *('x,y\n1,"a\n2,72"\n3,c\n', 'x,y\n1,"a\rb"\n', 'x,"y\n"\n1,2\n', 'x\n"\n1\n"\n'),
    ],
)
def test_a_file_that_is_no_csv_is_refused(text, tmp_path):
    """Where a quote is not closed, the rows after it would vanish in one field."""
    (tmp_path / "d.csv").write_text(text, newline="")
    with pytest.raises(ValueError, match=NOT_RECORDS) as caught:
        read_records(tmp_path / "d.csv", Schema({"x": Bins((0, 2, 5), missing=True)}))
    assert caught.value.__context__ is None
    (tmp_path / "d.csv").write_bytes(b"x\n1\n\xff\n")
    with pytest.raises(ValueError, match="text in UTF-8") as caught:
        read_records(tmp_path / "d.csv", Schema({"x": Bins((0, 2, 5), missing=True)}))
    assert caught.value.__context__ is None  # which would hold the file's bytes


@settings(examples, max_examples=300)
@given(
    lines=st.lists(st.text('a1", \t', max_size=6), max_size=6),
    ends=st.sampled_from(["\n", "\r\n", "\r"]),
    names=st.sampled_from([("x", "x"), ("x,y", "y")]),
)
def test_a_file_is_read_line_by_line(lines, ends, names, tmp_path_factory):
    """Of raw texts too, in which quotes are open, or neither doubled nor around a whole field.

    One such record swallowed all that followed, as far as the next one like it.
    """
    header, name = names
    path = tmp_path_factory.mktemp("files") / "d.csv"

    def read(lines):
        path.write_text("".join(line + ends for line in [header, *lines]), newline="")
        parts = [part[name] for part in csv_columns(path, [name], ",")]
        return [fields[i] for fields, at in parts for i in at.tolist()]

    try:
        found = read(lines)
    except ValueError:
        return
    assert found == [field for line in lines for field in read([line])]


@pytest.mark.parametrize(
    ("start", "said"),
    [
        (b"PK\x03\x04", "an Excel workbook"),
        (b"PAR1", "is Parquet"),
        (b"ARROW1", "is Feather"),
        (b"\x1f\x8b\x08", "gunzip"),
        ("x\n".encode("utf-16"), "UTF-16"),
        (b"x\n", "WINDOWS-1252"),
    ],
)
def test_a_file_of_another_kind_is_told_how_to_become_text(start, said, tmp_path):
    path = tmp_path / "d.csv"
    path.write_bytes(start + b"\xff\n")
    for read in (
        lambda: read_records(path, Schema({"x": Bins((0, 2, 5), missing=True)})),
        lambda: list(csv_columns(path, ["x"], ",")),
    ):
        with pytest.raises(ValueError, match=said):
            read()
    path.write_bytes(b"\xff" if start == b"x\n" else start + b"\xff\n")
    with pytest.raises(ValueError, match=said):
        read_header(path)


def test_readers_side_by_side_take_long_fields(tmp_path):
    """The first that was done set the limit back for the other, which then refused one."""
    before, path = csv.field_size_limit(), tmp_path / "long.csv"
    path.write_text("x\na\n" + "b" * 200_000 + "\n")
    one, other = (csv_columns(path, ["x"], ",") for _ in range(2))
    for each in (one, other):
        next(each)
    for each in (one, other):
        assert [len(part["x"][1]) for part in each] == [2]
    assert csv.field_size_limit() == before


def written(path, name, records):
    """Write a column beside so many others that pandas reads few rows at once; return the path."""
    others = [f"x{i}" for i in range(40)]
    row = ",0" * len(others)
    lines = [",".join([name, *others]), *(f"{each}{row}" for each in records)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pandas.errors.DtypeWarning")
def test_types_that_pandas_infers_let_one_record_change_others(tmp_path):
    """Thousands of others, for it infers types of many rows at once; the page says what to do."""
    codes, column = ["V27", *["250"] * 39_999], Categories(("250", "V27"), other=True)

    def changed(read):
        before, after = (
            column.encode(read(written(tmp_path / "codes.csv", "code", each))["code"])
            for each in (codes, [*codes[:-1], "V27"])
        )
        return int((before != after)[:-1].sum())

    assert changed(pd.read_csv) > 1_000  # what the page warns of
    assert changed(lambda path: pd.read_csv(path, dtype={"code": "string"})) == 0
    assert changed(lambda path: read_records(path, Schema({"code": column}))) == 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pandas.errors.DtypeWarning")
def test_types_that_pandas_infers_make_two_persons_of_one(tmp_path):
    schema = LogSchema(person="who", action={"x0": Categories((0, 1))}, most_steps=9)

    def persons(first, read):
        names = [first, *(str(i % 100) for i in range(1, 40_000))]
        return read_log(read(written(tmp_path / "log.csv", "who", names)), schema).n_persons

    assert persons("0", pd.read_csv) == 100
    assert persons("zz", pd.read_csv) == 201  # what the page warns of
    for read in (lambda path: path, lambda path: pd.read_csv(path, dtype={"who": "string"})):
        assert [persons(first, read) for first in ("0", "zz")] == [100, 101]


def test_pages_that_read_records_with_pandas_name_their_types():
    pages = [*ROOT.glob("README.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("examples/*.py")]
    calls = [
        call
        for page in pages
        if "results" not in page.parts
        for call in re.findall(r"pd\.read_csv\([^\n]*", page.read_text(encoding="utf-8"))
    ]
    assert calls
    assert [call for call in calls if "dtype=" not in call] == []
