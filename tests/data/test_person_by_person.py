"""The log of many persons is the logs of each of them alone, one after the other.

Nothing that is read of one person depends on who else is there: neither on their values, nor on
the types that pandas, polars or Arrow make of these, nor on where they first appear.
"""

import datetime
import math
import unicodedata
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from decimal import Decimal
from fractions import Fraction
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from logs_compared import persons

from privrl.data import Bins, Categories, Schema, csv_files
from privrl.data.logs import Log, LogSchema, read_log, read_partitions, sources
from privrl.data.logs.episodes import from_buffer
from privrl.data.schema import entries

COLUMNS = ("who", "stay", "hour", "ward", "sugar", "dose", "score", "left")
LARGEST = 1.7e308  # of orders: differences of two are no floats

Row = tuple[Any, ...]
Rows = list[Row]
Read = Callable[[Rows], Log]
Random = np.random.Generator


def schema(wards: tuple[Any, ...] = ("a", "é"), doses: tuple[Any, ...] = (0, 1, 2)) -> LogSchema:
    return LogSchema(
        person="who",
        episode="stay",
        order="hour",
        state={"ward": Categories(wards, other=True), "sugar": Bins((0, 4, 8), missing=True)},
        action={"dose": Categories(doses)},
        most_steps=3,
        most_episodes=2,
        reward="score",
        reward_bounds=(-1, 1),
        outcome="left",
        outcomes=("dead", "true", "2"),
        outcome_rewards=(-1, 1, 0),
    )


def persons_of(rows: Rows) -> Iterator[Rows]:
    """The rows of each person, by their first row."""
    found: dict[Any, Rows] = {}
    for row in rows:
        found.setdefault(row[0], []).append(row)
    yield from found.values()


def check(rows: Rows, make: Callable[[Rows], Any], read: Callable[[Any], Any]) -> None:
    """Read all together, and each alone; a warning is an error, as is whatever else is raised."""
    together = made_and_read(rows, make, read)
    alone = [each for theirs in persons_of(rows) for each in made_and_read(theirs, make, read)]
    assert sorted(together) == sorted(alone)  # in which order persons are is nobody's to know


def made_and_read(
    rows: Rows, make: Callable[[Rows], Any], read: Callable[[Any], Any]
) -> list[tuple[bytes, ...]]:
    source = make(rows)
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        return persons(read(source))


# Entries of all kinds -----------------------------------------------------------------------------

NFC, NFD = unicodedata.normalize("NFC", "é"), unicodedata.normalize("NFD", "é")
NAMES = [
    *(True, False, "true", "false", "True", "TRUE", 1, 0, "1", "0", "1.0", "01", "+1", "-0", -1),
    *(2, 10, "2", "10", "10.", 1.0, 2.0, 10**30, "1" + "0" * 30, NFC, NFD, "a", "A", " a", "a "),
    *(
        2**53,
        2**53 + 1,
        2.0**53,
        -(2**60),
        1e300,
        "a\0",
        "a\0b",
        "\udcff",
        repr("\udcff"),
        "x" * 70,
        "nan",
        "None",
        np.int8(1),
        np.str_("1"),
    ),
]
ODD = [
    *(None, math.nan, pd.NA, pd.NaT, "", " ", True, "true", 0, 1, 0.0, 1.0, 0.5, 10**400),
    *(2**53 + 1, math.inf, -math.inf, LARGEST, -LARGEST, "x", NFC, NFD, "\udcff", "a\0", b"a"),
    *(1j, 1 + 0j),
    *(Decimal(1), Decimal("0.5"), Decimal("NaN"), Fraction(1), Fraction(1, 3), np.float32(0.1)),
    *(np.bool_(True), np.uint64(2**64 - 1), np.longdouble("1e4000"), (1, 2)),
    *(datetime.date(2020, 1, 1), pd.Timestamp(2020, 1, 1), pd.Interval(0, 1)),
    *(np.timedelta64(1, "D"), object),
    *("1e400", "-1"),
]  # fmt: skip
GOOD: dict[str, list[Any]] = {
    "hour": [0, 1, 2, 3, 0.5, -LARGEST, LARGEST, -0.0, 2**53, 2.0**53 + 2],
    "ward": ["a", NFC, NFD, "b", "A"],
    "sugar": [0, 1, 3.5, 4, 8.5, -1, 1e300, math.inf],
    "dose": [0, 1, 2, 1.0],
    "score": [0, 1, 0.25, -7, math.inf, LARGEST],
    "left": [None, None, "dead", True, "true", 2, "2", 2.0],
}


def pick(rng: Random, values: Sequence[Any]) -> Any:
    return values[int(rng.integers(len(values)))]


def rows_of(rng: Random, names: Sequence[Any], odd: Sequence[Any], share: float) -> Rows:
    """Rows of a few persons; some entries, in any column but the first, are odd ones."""
    persons = [f"p{i}" for i in range(int(rng.integers(1, 5)))]
    rows = []
    for _ in range(int(rng.integers(1, 14))):
        last = rng.random() < 0.4
        entries = [pick(rng, persons), pick(rng, names)]
        entries += [pick(rng, GOOD[name]) for name in COLUMNS[2:-1]]
        entries.append(pick(rng, GOOD["left"]) if last else None)
        if odd and rng.random() < share:
            entries[int(rng.integers(1, len(entries)))] = pick(rng, odd)
        rows.append(tuple(entries))
    return rows


def objects(values: Sequence[Any]) -> Any:
    return pd.Series(np.fromiter(values, object, len(values)), dtype=object)


def frame_of(rows: Rows, make: Callable[[Sequence[Any]], Any] = objects) -> pd.DataFrame:
    columns = {name: [row[k] for row in rows] for k, name in enumerate(COLUMNS)}
    return pd.DataFrame({name: make(entries) for name, entries in columns.items()})


def categories(values: Sequence[Any]) -> Any:
    return pd.Series(objects(values)).astype("category")


# Containers ---------------------------------------------------------------------------------------


def as_objects(rows: Rows, folder: Path) -> Any:
    return frame_of(rows)


def as_categories(rows: Rows, folder: Path) -> Any:
    """As pandas infers them from the records, those of one person from theirs alone."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of tuples, which pandas cannot sort
        return frame_of(rows, lambda values: pd.Series(pd.Categorical(list(values))))


def as_text(entry: Any) -> str:
    if entry is None or entry is pd.NA or entry is pd.NaT:
        return ""
    return str(entry).replace("\0", "").encode(errors="ignore").decode()


def as_csv(rows: Rows, folder: Path) -> Path:
    frame = frame_of(rows).map(as_text)
    return save(folder, "log.csv", lambda path: frame.to_csv(path, index=False))


def as_quoted_csv(rows: Rows, folder: Path) -> Path:
    frame = frame_of(rows).map(as_text)
    return save(folder, "log.csv.gz", lambda path: frame.to_csv(path, index=False, quoting=1))


def save(folder: Path, name: str, write: Callable[[Path], Any]) -> Path:
    path = folder / name
    path.unlink(missing_ok=True)
    write(path)
    return path


def texts(entry: Any) -> Any:
    return entry if type(entry) is str and is_utf8(entry) else None


def whole(entry: Any) -> Any:
    return entry if type(entry) is int and abs(entry) < 2**62 else None


def small(entry: Any) -> Any:
    return entry if type(entry) is int and abs(entry) < 100 else None


def number(entry: Any) -> Any:
    return float(entry) if type(entry) in (int, float) and abs(entry) < 10**300 else None


def truth(entry: Any) -> Any:
    return entry if type(entry) is bool else None


def of_types(rows: Rows, name: Callable[[Any], Any]) -> Rows:
    """Entries kept in typed columns: names of one of several."""
    kept = (str, name, number, texts, number, small, number, texts)
    return [tuple(keep(each) for keep, each in zip(kept, row, strict=True)) for row in rows]


def is_utf8(entry: str) -> bool:
    return entry.encode(errors="ignore").decode() == entry


def arrow_of(rows: Rows, name: Callable[[Any], Any], *, dictionaries: Any = None) -> Any:
    pa = import_module("pyarrow")
    text = pa.dictionary(dictionaries, pa.string()) if dictionaries else pa.string()
    names = pa.int64() if name is whole else text
    types = (text, names, pa.float64(), text, pa.float64(), pa.int32(), pa.float64(), text)
    columns = zip(*of_types(rows, name), strict=True) if rows else [()] * len(COLUMNS)
    arrays = [pa.array(list(each), type_) for each, type_ in zip(columns, types, strict=True)]
    return pa.table(arrays, names=list(COLUMNS))


def as_arrow(rows: Rows, folder: Path) -> Any:
    return arrow_of(rows, texts)


def as_arrow_numbers(rows: Rows, folder: Path) -> Any:
    return arrow_of(rows, whole)


def as_dictionaries(rows: Rows, folder: Path) -> Any:
    """In chunks with separate dictionaries, as in a concatenated table; indices unsigned."""
    pa = import_module("pyarrow")
    parts = [
        arrow_of(rows[i : i + 3], texts, dictionaries=pa.uint32()) for i in range(0, len(rows), 3)
    ]
    return pa.concat_tables(parts)


def as_parquet(rows: Rows, folder: Path) -> Path:
    table, parquet = arrow_of(rows, whole), import_module("pyarrow.parquet")
    return save(folder, "log.parquet", lambda path: parquet.write_table(table, path))


def as_folder(rows: Rows, folder: Path) -> Path:
    """Of files as pandas writes them: where all entries are missing, of no type."""
    parquet, pa = import_module("pyarrow.parquet"), import_module("pyarrow")
    for old in folder.glob("*.parquet"):
        old.unlink()
    for i in range(0, len(rows), 4):
        table = arrow_of(rows[i : i + 4], texts)
        for k, name in enumerate(COLUMNS):
            if table.column(name).null_count == len(table):
                table = table.set_column(k, name, pa.nulls(len(table)))
        parquet.write_table(table, folder / f"{i:03}.parquet")
    return folder


def as_polars(rows: Rows, folder: Path) -> Any:
    pl = import_module("polars")
    frame = pl.from_arrow(arrow_of(rows, texts))
    return frame.with_columns(pl.col("who", "ward", "left").cast(pl.Categorical))


def as_nullable(rows: Rows, folder: Path) -> Any:
    types = ("string", "boolean", "Float64", "string", "Float64", "Int32", "Float64", "str")
    rows = of_types(rows, truth)
    return frame_of(rows).astype(dict(zip(COLUMNS, types, strict=True)))


class Here:
    """A cluster that is here, and does at once what it is asked for."""

    def submit(self, function: Callable[..., Any], *given: Any, pure: bool) -> Any:
        made: Future[Any] = Future()
        made.set_result(
            function(*(each.result() if isinstance(each, Future) else each for each in given))
        )
        return made


def in_parts(rows: Rows, folder: Path, schema: LogSchema) -> list[tuple[bytes, ...]]:
    log = read_partitions(as_folder(rows, folder), schema, Here())
    return [each for part in log.parts for each in persons(part.result())]


CONTAINERS = {
    make.__name__: make
    for make in (
        *(as_objects, as_categories, as_csv, as_quoted_csv, as_arrow, as_arrow_numbers),
        *(as_dictionaries, as_parquet, as_folder, as_polars, as_nullable),
    )
}
FILES = (as_csv, as_quoted_csv, as_parquet, as_folder)
ARROW = (as_arrow, as_arrow_numbers, as_dictionaries, as_parquet, as_folder)
NEEDS = dict.fromkeys(ARROW, ("pyarrow",)) | {as_polars: ("pyarrow", "polars")}


def taken(make: Any, row: Row) -> bool:
    """Whether pandas takes a row's entries into a categorical type, and keeps all their digits."""
    return make is not as_categories or not any(
        not is_utf8(each)
        if isinstance(each, str)
        else isinstance(each, np.timedelta64 | tuple)  # it sorts what is mixed
        or (isinstance(each, int | np.integer) and not -(2**63) <= each < 2**63)
        or (isinstance(each, np.longdouble) and abs(each) >= 2**53)
        for each in row
    )


@pytest.mark.slow
@pytest.mark.parametrize("n_logs", [20, pytest.param(2000, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(make, id=name, marks=pytest.mark.needs(*NEEDS.get(make, ())))
        for name, make in CONTAINERS.items()
    ],
)
def test_all_together_are_each_alone(
    make: Callable[..., Any], n_logs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For all entries, in blocks of any size."""
    rng = np.random.default_rng(sum(map(ord, make.__name__)))
    for _ in range(n_logs // 4 if make in FILES else n_logs):
        monkeypatch.setattr(sources, "_ROWS", int(rng.integers(1, 9)))
        monkeypatch.setattr(csv_files, "_BLOCK", int(rng.integers(1, 200)))
        rows = rows_of(rng, NAMES, ODD, rng.choice([0.0, 0.1, 0.5]))
        rows = [row for row in rows if taken(make, row)]
        wards = pick(rng, [("a", NFC), (True, 2), (1, "a"), ("1", "true")])
        if make not in (as_objects, as_categories, as_csv, as_quoted_csv):
            wards = ("a", NFC)
        check(rows, partial(make, folder=tmp_path), partial(read_log, schema=schema(wards)))


@pytest.mark.slow
@pytest.mark.needs("pyarrow")
@pytest.mark.parametrize("n_logs", [15, pytest.param(500, marks=pytest.mark.slow)])
def test_in_parts_as_well(n_logs: int, tmp_path: Path) -> None:
    """On a cluster the persons are in another order; what is read of each is the same."""
    rng = np.random.default_rng(0)
    for _ in range(n_logs):
        rows = rows_of(rng, NAMES, ODD, rng.choice([0.0, 0.1, 0.5]))
        log = read_partitions(as_folder(rows, tmp_path), schema(), Here())
        found = [each for part in log.parts for each in persons(part.result())]
        alone = [persons(read_log(as_arrow(each, tmp_path), schema())) for each in persons_of(rows)]
        assert sorted(found) == sorted(each for theirs in alone for each in theirs)


class Lived:
    """An episode as buffers of Gymnasium's hold it, with arrays of any kind."""

    def __init__(self, rng: Random) -> None:
        n = int(rng.integers(0, 4))
        kinds = (np.int64, np.uint8, np.int8, object, np.float64)
        kind = kinds[min(int(rng.geometric(0.6)) - 1, 4)]
        self.observations = rng.integers(0, 3, n + 1).astype(kind)
        self.actions = rng.integers(0, 2, n).astype(np.int64)
        rewards = [0, 1.0, -LARGEST, LARGEST, math.inf, *([math.nan] * (rng.random() < 0.2))]
        self.rewards = np.array([pick(rng, rewards) for _ in range(n)])
        self.terminations = np.zeros(n, bool)
        self.truncations = np.zeros(n, bool)
        if n and rng.random() < 0.5:
            self.terminations[-int(rng.random() < 0.9)] = True


@pytest.mark.slow
def test_in_episodes_as_well() -> None:
    rng = np.random.default_rng(0)
    names = [True, "true", 1, "1", 1.0, NFC, NFD, None, "", math.nan, np.int8(1), Decimal(1)]

    def read(rows: Rows) -> Log:
        return from_buffer(
            [lived for _, (_, lived) in rows], person=[name for _, (name, _) in rows],
            n_states=3, n_actions=2, reward_bounds=(-1, 1), most_steps=2, most_episodes=2,
        )  # fmt: skip

    for _ in range(300):
        rows = [(pick(rng, names), Lived(rng)) for _ in range(int(rng.integers(1, 9)))]
        # 1, 1.0 and np.int8(1) are one person; True, which equals them, is another.
        whose = [entries.key_of(name) for name, _ in rows]
        keyed = [(key, (name, lived)) for key, (name, lived) in zip(whose, rows, strict=True)]
        check(keyed, list, read)


# Where it was once otherwise ----------------------------------------------------------------------


@pytest.mark.parametrize("first", [None, True, "true"])
def test_a_tie_of_names_is_broken_by_the_names(first: Any) -> None:
    """The first person with a name once decided for all others with it."""
    rows = [("new", first, 0, "b", 0, 0, 0, None)] if first is not None else []
    for k in range(3):
        rows += [(k, True, 0, "a", 0, 1, 0, None), (k, "true", 0, "a", 0, 2, 0, None)]
    one_each = LogSchema(**{**vars(schema()), "most_episodes": 1})
    log = read_log(frame_of(rows), one_each)
    assert log.action[-3:].tolist() == [2, 2, 2]


def test_texts_that_pandas_takes_for_equal() -> None:
    """If all are texts, it writes invalid UTF-8 as another text."""
    rows = [(name, 1, 0, "a", 0, 1, 0, None) for name in ("\udcff", repr("\udcff"))]
    frame = frame_of(rows).astype({"who": pd.StringDtype("python")})
    assert read_log(frame, schema()).n_persons == 2


@pytest.mark.needs("pyarrow", "polars")
def test_an_entry_is_missing_among_unsigned_indices() -> None:
    pl = import_module("polars")
    rows = [("p", "1", 0, "a", 0, 0, 0, None), ("q", "1", 0, None, 0, 1, 0, "dead")]
    frame = pl.DataFrame(rows, schema=list(COLUMNS), orient="row")
    frame = frame.with_columns(pl.col("who", "ward", "left").cast(pl.Categorical))
    same = read_log(frame, schema())
    assert same.state.tolist() == [0, 2 * 3]
    assert persons(read_log(frame.to_arrow(), schema())) == persons(same)


@pytest.mark.few(9)
@pytest.mark.parametrize("odd", ["x", 0.5, True, None, 1j, (1, 2), datetime.date(2020, 1, 1)])
def test_one_entry_decides_nothing_in_a_categorical_type(odd: Any) -> None:
    rows = [("p", 1, 0, 1, 0, 1, 0, None), ("q", 1, 0, 2, 3, 2, 0, None)]
    by_numbers = schema(wards=(1, 2))
    alone = persons(read_log(as_categories(rows, Path()), by_numbers))
    for column in range(1, len(COLUMNS)):
        other = ["r", 1, 0, 1, 0, 0, 0, None]
        other[column] = odd
        for rows_now in ([*rows, tuple(other)], [tuple(other), *rows]):
            found = persons(read_log(as_categories(rows_now, Path()), by_numbers))
            for each in alone:
                found.remove(each)  # which is there as it was
            assert len(found) <= 1


def test_orders_that_are_far_apart_warn_of_nothing() -> None:
    rows = [(k, 1, far, "a", 0, 0, 0, None) for k, far in enumerate((0, -LARGEST, LARGEST))]
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        assert read_log(frame_of(rows), schema()).n_persons == 3


def signalling(kind: str) -> np.ndarray[Any, Any]:
    """0, a NaN that signals, 2: processors raise a flag where it is rounded or made longer."""
    numbers = np.arange(3, dtype=kind)
    numbers.view(f"u{kind[1]}")[1] = {"f4": 0x7F800001, "f8": 0x7FF0000000000001}[kind]
    return numbers


@pytest.mark.parametrize("kind", ["f4", "f8"])
@pytest.mark.parametrize("name", ["who", "hour", "sugar", "dose", "score"])
@pytest.mark.parametrize(
    "package",
    [pytest.param(name, marks=pytest.mark.needs(name)) for name in ("pandas", "polars", "pyarrow")],
)
def test_a_nan_that_signals_warns_of_nothing(package: str, name: str, kind: str) -> None:
    library = import_module(package)
    columns: dict[str, Any] = {
        "who": [5, 6, 7],
        "stay": [1, 1, 1],
        "hour": [0, 1, 2],
        "ward": ["a", "a", "a"],
        "sugar": [0, 1, 2],
        "dose": [0, 1, 2],
        "score": [0, 1, 2],
        "left": [None, None, None],
    }
    columns[name] = signalling(kind)
    source = (library.table if package == "pyarrow" else library.DataFrame)(columns)
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        assert read_log(source, schema()).n_persons == (3 if name == "sugar" else 2)


@pytest.mark.needs("pyarrow")
def test_bytes_that_are_no_text_are_their_persons_own() -> None:
    pa = import_module("pyarrow")
    rows = [("p", "1", 0, "a", 0, 0, 0, None), ("q", "1", 0, "a", 0, 1, 0, None)]
    table = as_arrow(rows, Path())
    for column, names in (("who", [b"p\xff", b"q"]), ("ward", [b"\xff", b"a"])):
        held = pa.Array.from_buffers(pa.string(), 2, pa.array(names).buffers())
        log = read_log(table.set_column(COLUMNS.index(column), column, held), schema())
        assert log.action.tolist() == [0, 1]
        assert log.state.tolist() == [0 if column == "who" else 6, 0]


@pytest.mark.needs("pyarrow")
def test_a_file_of_a_folder_may_have_nothing_in_a_column(tmp_path: Path) -> None:
    rows = [("p", "1", 0, "a", 0, 0, 0, None)] * 4 + [("q", "1", 0, "a", 0, 1, 0, "dead")]
    assert read_log(as_folder(rows, tmp_path), schema()).n_persons == 1


@pytest.mark.needs("pyarrow")
@pytest.mark.parametrize("other", [1.5, True, 2**60 + 1])
@pytest.mark.parametrize("categories", [(1, 2), ("1", "2"), (True, False)])
def test_numbers_of_a_dictionary_are_read_each_by_itself(
    other: Any, categories: tuple[Any, ...]
) -> None:
    """pandas infers their type from all entries: one decimal made texts like ``1.0`` of them."""
    arrow = import_module("pyarrow")
    column = Schema({"a": Categories(categories, other=True)})
    steps = LogSchema(person="who", action=column, most_steps=1)

    def cells(*entries: Any) -> list[int]:
        frame = pd.DataFrame({"a": pd.Categorical(entries), "who": range(len(entries))})
        table = arrow.Table.from_pandas(frame)
        found: list[int] = column.encode(table)[:, 0].tolist()
        assert read_log(table, steps).action.tolist() == found
        return found

    alone = (True, True) if other is True else (1, 2)  # Arrow takes no truth values among others
    assert cells(*alone, other)[:2] == cells(*alone)
    if other is True:
        assert cells(True, 1) == cells(1, True) == [cells(1)[0]] * 2


@pytest.mark.needs("pyarrow")
def test_large_numbers_of_a_dictionary_are_no_names() -> None:
    """One decimal of another person would make floats of them."""
    arrow = import_module("pyarrow")
    named = LogSchema(person="who", action=Schema({"a": Categories((0, 1))}), most_steps=1)
    for names in ([1, 2**60 + 1], [1, 2**60 + 1, 1.5]):
        frame = pd.DataFrame({"who": pd.Categorical(names), "a": 0})
        assert read_log(arrow.Table.from_pandas(frame), named).n_persons == 1
