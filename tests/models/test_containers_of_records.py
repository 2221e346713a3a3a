"""Every reader of records, and every container that a user may hand to it.

A container is read as the list of its entries is, or refused for its type or shape, which are
public. `test_readers` has what odd entries do.
"""

import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sklearn", reason="no sklearn: pip install 'privrl[models]'")

from every_container import CONTAINERS, NEEDS, NO_COLUMN, entries_in, made

from privrl.accounting import RdpAccountant
from privrl.data import Bins, Categories, Schema
from privrl.models import PrivateBayesNet, PrivateNaiveBayes, discretise, histogram, value_counts
from privrl.models.encoding import as_table, encode_numbers
from privrl.models.histograms.release import count_cells

#: The column and classes that each kind of values is for.
COLUMNS: dict[str, tuple[Categories | Bins, list[Any]]] = {
    "whole numbers": (Categories((0, 1, 2), other=True), [0, 1, 2, 3, 1]),
    "floats": (Bins((0, 2, 3), missing=True), [0.5, 1.0, 4.0, 2.5, 1.0]),
    "truth values": (Categories((True, False), other=True), [True, False, True, True, False]),
    "texts": (Categories(("a", "b", "1"), other=True), ["a", "b", "1", "c", "a"]),
}
LABELS = {"whole numbers": [0, 1, 2, 3], "truth values": [True, False], "texts": list("ab1c")}


def classes(values: Any, kind: str) -> Any:
    """Return the classes that naive Bayes reads, by the weights of its table without noise."""
    model = PrivateNaiveBayes([5], classes=LABELS[kind], target=None, mechanism="none")
    return model.fit([[k] for k in range(5)], values).predict_proba([[k] for k in range(5)])


READERS: dict[str, Callable[[Any, str], Any]] = {
    "encode": lambda values, kind: COLUMNS[kind][0].encode(values),
    "histogram": lambda values, kind: count_cells(values, COLUMNS[kind][0]),
    "y": classes,
}
REFUSAL = (
    r"(the column|values|y|column '\w+') must (hold [\w ,]+, got type \w+; convert it first|be of "
    r"shape \(n,\), got \d axes|be a pandas.Series, an array or a list, got \w+|be a plain array, "
    r"got a masked array; leave out the masked entries, or fill them|hold nothing but the stated "
    r"classes, and holds something unknown or missing\. Unknown label type: none of them|be the "
    r"records' classes; fit requires y to be passed, but the target y is None|be classes, shape "
    r"\(n,\), got shape \(\d, \d\): a 1d array|be a plain array.*)\.|X and y must have equally "
    r"many records, got \d and \d\.|table must be in memory, got \w+; collect it first\."
)


def outcome(read: Callable[[Any, str], Any], values: Any, kind: str) -> Any:
    """Return what is read, or None if that was refused, with words that show nothing."""
    error = None
    try:
        return np.asarray(read(values, kind)).tolist()
    except ValueError as caught:
        error = caught
    assert re.fullmatch(REFUSAL, str(error)), error
    assert error.__context__ is None
    return None


@pytest.mark.few(23)
@pytest.mark.filterwarnings("ignore:A column-vector y was passed")
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    "container",
    [pytest.param(name, marks=pytest.mark.needs(*NEEDS.get(name, ()))) for name in CONTAINERS],
)
def test_a_container_is_read_as_a_list_or_refused(
    reader: str, container: str, tmp_path: Path
) -> None:
    for kind, (_, values) in COLUMNS.items():
        if reader == "y" and kind not in LABELS:
            continue
        try:
            held = made(container, values, tmp_path)
        except TypeError:  # there is none of such values
            continue
        read = outcome(READERS[reader], held, kind)
        if read is None:  # for a type that the schema does not have
            continue
        assert container not in NO_COLUMN
        entries = entries_in(made(container, values, tmp_path))
        if container in ("pandas DataFrame", "polars frame", "arrow table", "numpy column"):
            entries = values  # as scikit-learn does: a column of classes
        if kind == "truth values" and ("ategor" in container or "dictionar" in container):
            entries = values  # True is kept as 1 is
        assert read == outcome(READERS[reader], entries, kind)


# Tables -------------------------------------------------------------------------------------------

SCHEMA = Schema({"a": Categories(("a", "b"), other=True), "n": Bins((0, 1, 2), missing=True)})
ROWS = {"a": ["a", "b", None, "a"], "n": [0.5, 1.5, 1.0, None]}
CELLS = [[0, 0], [1, 1], [2, 1], [0, 2]]


def _pl(make: Callable[[Any], Any]) -> Callable[[], Any]:
    return lambda: make(import_module("polars"))


def _pa(make: Callable[[Any], Any]) -> Callable[[], Any]:
    return lambda: make(import_module("pyarrow"))


FRAME = pd.DataFrame(ROWS)
TABLES: dict[str, tuple[Callable[[], Any], bool]] = {
    "frame": (lambda: FRAME, True),
    "frame of objects": (lambda: FRAME.astype(object), True),
    "frame of categories": (lambda: FRAME.astype("category"), True),
    "nullable frame": (FRAME.convert_dtypes, True),
    "frame with one index": (lambda: FRAME.set_axis([7] * 4), True),
    "frame with two indices": (
        lambda: FRAME.set_axis(pd.MultiIndex.from_product([[1, 2], [1, 2]])),
        True,
    ),
    "frame backwards": (lambda: FRAME.set_axis(range(4)[::-1]), True),
    "frame with more": (lambda: FRAME.assign(z=1)[["z", "n", "a"]], True),
    "subclass": (lambda: type("Frame", (pd.DataFrame,), {})(ROWS), True),
    "objects": (lambda: FRAME.astype(object).to_numpy(), True),
    "objects by columns": (lambda: np.asfortranarray(FRAME.astype(object).to_numpy()), True),
    "frame with a column twice": (lambda: pd.concat([FRAME, FRAME[["n"]]], axis=1), False),
    "frame with columns of two": (
        lambda: FRAME.set_axis(pd.MultiIndex.from_product([["a", "n"], [1]])[:2], axis=1),
        False,
    ),
    "frame without a column": (lambda: FRAME[["a"]], False),
    "array of texts": (lambda: FRAME.astype(object).to_numpy().astype("U4"), False),
    "masked": (lambda: np.ma.masked_array(FRAME.astype(object).to_numpy()), False),
    "structured": (lambda: FRAME.to_records(index=False), False),
    "dict": (lambda: ROWS, False),
    "list of dicts": (lambda: FRAME.to_dict("records"), False),
    "list": (lambda: FRAME.to_numpy().tolist(), False),
    "series": (lambda: FRAME["a"], False),
    "groups": (lambda: FRAME.groupby("a"), False),
    "polars": (_pl(lambda pl: pl.DataFrame(ROWS)), True),
    "polars categories": (
        _pl(lambda pl: pl.DataFrame(ROWS).with_columns(pl.col("a").cast(pl.Categorical))),
        True,
    ),
    "polars chunks": (
        _pl(lambda pl: pl.concat([pl.DataFrame(ROWS)[:1], pl.DataFrame(ROWS)[1:]], rechunk=False)),
        True,
    ),
    "polars lazy": (_pl(lambda pl: pl.LazyFrame(ROWS)), False),
    "polars objects": (
        _pl(lambda pl: pl.DataFrame({"a": pl.Series(ROWS["a"], dtype=pl.Object), "n": ROWS["n"]})),
        False,
    ),
    "polars lists": (_pl(lambda pl: pl.DataFrame({"a": [[1]] * 4, "n": ROWS["n"]})), False),
    "arrow": (_pa(lambda pa: pa.table(ROWS)), True),
    "arrow of pandas": (_pa(lambda pa: pa.Table.from_pandas(FRAME.astype("category"))), True),
    "arrow chunks": (
        _pa(lambda pa: pa.concat_tables([pa.table(ROWS)[:1], pa.table(ROWS)[1:]])),
        True,
    ),
    "arrow batch": (_pa(lambda pa: pa.record_batch(ROWS)), False),
    "arrow with a column twice": (
        _pa(lambda pa: pa.table([[1], [1], [1]], names=["a", "n", "n"])),
        False,
    ),
    "pandas of Arrow": (
        _pa(lambda pa: pa.table(ROWS).to_pandas(types_mapper=pd.ArrowDtype)),
        True,
    ),
}


def needs(name: str) -> tuple[str, ...]:
    known = {"polars": ("polars", "narwhals"), "arrow": ("pyarrow", "narwhals")}
    return ("pyarrow",) if name == "pandas of Arrow" else known.get(name.partition(" ")[0], ())


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.needs(*needs(name))) for name in TABLES]
)
def test_a_table_is_read_alike_or_refused_before_the_charge(name: str) -> None:
    make, is_read = TABLES[name]
    if is_read:
        np.testing.assert_array_equal(SCHEMA.encode(make()), CELLS)
        return
    accountant = RdpAccountant()
    net = PrivateBayesNet(parents={"a": (), "n": ("a",)}, schema=SCHEMA, epsilon=1)
    bayes = PrivateNaiveBayes(SCHEMA, classes=["u", "w"], epsilon=1)
    for read in (
        SCHEMA.encode,
        lambda table: net.fit(table, 0, accountant=accountant),
        lambda table: discretise(table, {"n": (0, 2)}, epsilon=1, accountant=accountant),
        lambda table: bayes.fit(table, ["u", "w"] * 2, accountant=accountant),
    ):
        table = make()
        if name in ("list", "array of texts", "polars objects", "polars lists") or (
            isinstance(table, pd.DataFrame) and "n" in table.columns
        ):
            continue  # which others read, without the column or as it is
        with pytest.raises(ValueError, match=r"must|has 0") as caught:
            read(table)
        assert not re.search(r"0\.5|1\.5", str(caught.value))
    assert len(accountant.journal) == 0


def test_numbers_of_a_table_are_read_alike() -> None:
    rows = [[0, 1], [2, 0], [1, 1]]
    for make in (
        lambda: rows,
        lambda: tuple(map(tuple, rows)),
        lambda: [np.array(row) for row in rows],
        lambda: [pd.Series(row) for row in rows],
        lambda: np.array(rows, np.uint8),
        lambda: np.array(rows, np.float16),
        lambda: np.array(rows, ">i4"),
        lambda: np.asfortranarray(rows),
        lambda: np.array(rows, object),
        lambda: pd.DataFrame(rows),
        lambda: pd.DataFrame(rows, dtype="Int64"),
        lambda: pd.DataFrame(rows).astype("category"),
    ):
        cells = encode_numbers(as_table(make()), (3, 2))
        np.testing.assert_array_equal(cells.T, rows)
    for wrong in ({0: rows}, iter(rows), {1, 2}, "ab", b"ab", rows[0], [[0], [1, 0]], None):
        with pytest.raises(ValueError, match="X must"):
            as_table(wrong)


def test_histograms_refuse_before_the_charge() -> None:
    accountant = RdpAccountant()
    for values in (iter([1]), {1: 2}, {1}, "ab", b"ab", np.ma.masked_array([1, 2]), None, [[1], 1]):
        for release in (
            lambda values: histogram(values, 2, (0, 2), epsilon=1, accountant=accountant),
            lambda values: value_counts(values, (1, 2), epsilon=1, accountant=accountant),
        ):
            with pytest.raises(ValueError, match="must"):
                release(values)
    assert len(accountant.journal) == 0
