"""Every rule by which rows become a log, and that each is about one person's rows alone."""

import csv
import gzip
import math
import warnings
import weakref
from decimal import Decimal
from functools import partial
from importlib import import_module

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from logs_compared import persons

from privrl.audit import audit_replay
from privrl.costs import AddRemoveRecord
from privrl.data import Bins, Categories, Schema, csv_files
from privrl.data.logs import LogSchema, read_log
from privrl.data.logs.log import CUT
from privrl.mechanisms import GaussianMechanism

FIELDS = ("state", "action", "next_state", "reward", "episode_starts", "person_starts")
SCHEMA = LogSchema(
    person="who",
    episode="stay",
    order="hour",
    most_steps=4,
    most_episodes=2,
    state=Schema({"sugar": Bins((0, 4, 8)), "ward": Categories(("a", "b"), other=True)}),
    action={"dose": Categories((0, 1, 2))},
    reward="score",
    reward_bounds=(0, 1),
    outcome="left",
    outcomes=("well", "dead"),
    outcome_rewards=(10, -10),
)
COLUMNS = ("who", "stay", "hour", "sugar", "ward", "dose", "score", "left")
#: Two persons; the first with two stays.
ROWS = [
    ("p", 1, 0, 3.5, "a", 0, 0.25, None),
    ("p", 1, 1, 5.0, "b", 1, 0.5, None),
    ("p", 1, 2, 1.0, "x", 2, 0.75, "well"),
    ("p", 2, 5, 9.0, "a", 1, 7.0, None),
    ("q", 7, 1, -1.0, "b", 2, -3.0, "dead"),
]


def frame(rows):
    """A data frame of objects, in which every entry is as it is."""
    columns = {
        name: pd.Series(np.fromiter((row[k] for row in rows), object, len(rows)), dtype=object)
        for k, name in enumerate(COLUMNS)
    }
    return pd.DataFrame(columns)


def typed(rows):
    return pd.DataFrame(rows, columns=COLUMNS)


def read(rows, schema=SCHEMA):
    return read_log(frame(rows), schema)


def change(rows, at, **entries):
    changed = {**dict(zip(COLUMNS, rows[at], strict=True)), **entries}
    return [*rows[:at], tuple(changed.values()), *rows[at + 1 :]]


def with_(**changes):
    given = {name: getattr(SCHEMA, name) for name in SCHEMA.__dataclass_fields__}
    return LogSchema(**given | changes)


def same(one, other):
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
        assert getattr(one, name).dtype == getattr(other, name).dtype


# What is read -------------------------------------------------------------------------------------


def test_a_small_log_by_hand():
    log = read(ROWS)
    assert (log.n_states, log.n_actions, log.outcomes) == (6, 3, ("well", "dead"))
    assert log.state.tolist() == [0, 4, 2, 3, 1]
    assert log.action.tolist() == [0, 1, 2, 1, 2]
    assert log.next_state.tolist() == [4, 2, 6, CUT, 7]
    assert log.reward.tolist() == [0.25, 0.5, 10.75, 1.0, -10.0]  # clipped, then the outcome's
    assert log.episode_starts.tolist() == [0, 3, 4, 5]
    assert log.person_starts.tolist() == [0, 2, 3]
    low, high = SCHEMA.space.reward_range
    assert ((low <= log.reward) & (log.reward <= high)).all()


def write_csv(rows, path, **options):
    typed(rows).to_csv(path, index=False, **options)
    return path


def gzipped(rows, path):
    path.write_bytes(gzip.compress(typed(rows).to_csv(index=False).encode()))
    return path


def arrow(rows):
    return import_module("pyarrow").Table.from_pandas(typed(rows), preserve_index=False)


def polars(rows):
    package = import_module("polars")
    return package.DataFrame(rows, schema=list(COLUMNS), orient="row")


def parquet(rows, path):
    typed(rows).to_parquet(path, index=False)
    return path


def folder(rows, path):
    path.mkdir()
    (path / "_SUCCESS").write_text("")
    for i in range(0, len(rows), 2):
        arrow_rows = arrow(rows)
        import_module("pyarrow.parquet").write_table(
            arrow_rows.slice(i, 2), path / f"part-{i}.parquet"
        )
    return path


CONTAINERS = {
    "csv": lambda rows, path: write_csv(rows, path / "log.csv"),
    "csv, quoted": lambda rows, path: write_csv(rows, path / "log.csv", quoting=1),
    "csv, other ends": lambda rows, path: write_csv(rows, path / "log.csv", lineterminator="\r\n"),
    "csv, with a mark": lambda rows, path: write_csv(rows, path / "l.csv", encoding="utf-8-sig"),
    "csv.gz": lambda rows, path: gzipped(rows, path / "log.csv.gz"),
    "parquet": lambda rows, path: parquet(rows, path / "log.parquet"),
    "folder": lambda rows, path: folder(rows, path / "logs"),
    "pandas": lambda rows, _: typed(rows),
    "pandas, nullable": lambda rows, _: typed(rows).convert_dtypes(),
    "pandas, categories": lambda rows, _: typed(rows).astype(
        {"who": "category", "stay": "category", "ward": "category", "left": "category"}
    ),
    "pyarrow": lambda rows, _: arrow(rows),
    "polars": lambda rows, _: polars(rows),
}


NO_CSV = "one record in each line, with as many fields as its header"

#: What each needs that is no part of the extra ``test``.
NEEDS = {"parquet": "pyarrow", "folder": "pyarrow", "pyarrow": "pyarrow", "polars": "polars"}


def containers(*names):
    """Have each of some containers as a case, skipped where what it needs is not there."""
    marks = {name: pytest.mark.needs(package) for name, package in NEEDS.items()}
    cases = [pytest.param(name, marks=marks.get(name, ())) for name in names]
    return pytest.mark.parametrize("container", cases)


@pytest.mark.few(12)
@containers(*CONTAINERS)
def test_the_same_log_in_every_container(container, tmp_path):
    rows = [*ROWS, (None, 1, 0, 1.0, "a", 0, 0.0, None), ("r", 10, 1, 1.0, None, 0, 0.5, None)]
    rows += [("r", 9, 1, 1.0, "a", 1, 0.5, "well"), ("bad", 1, 0, 1.0, "a", 0, None, None)]
    same(read_log(CONTAINERS[container](rows, tmp_path), SCHEMA), read(rows))
    assert read(rows).n_persons == 3
    assert read(rows).action[-2:].tolist() == [1, 0]  # stay 9 is before 10


@containers(*CONTAINERS, "pandas, floats")
def test_names_that_are_numbers_in_every_container(container, tmp_path):
    rows = [(7, *ROWS[0][1:]), (8, *ROWS[4][1:]), (7, *ROWS[1][1:])]
    expected = read([("p", *row[1:]) if row[0] == 7 else ("q", *row[1:]) for row in rows])
    floats = {"pandas, floats": lambda rows, _: typed(rows).astype({"who": float})}
    same(read_log((CONTAINERS | floats)[container](rows, tmp_path), SCHEMA), expected)


@pytest.mark.parametrize("block", [1, 7, 40, 300])
def test_blocks_of_any_size_are_one_file(block, monkeypatch, tmp_path):
    rows = [
        *ROWS,
        ('r"', 1, 0, 1.0, "x" * 70, 0, 0.0, None),
        ("é", 1, 0, 1.0, "a,b", 0, 0.0, None),
    ]
    path = write_csv(rows, tmp_path / "log.csv")
    monkeypatch.setattr(csv_files, "_BLOCK", block)
    same(read_log(path, SCHEMA), read(rows))


SHORT = st.text(st.sampled_from('a1,"\0é ;.'), max_size=4)
LONGER = st.one_of(SHORT, st.sampled_from(["x" * 9, "x" * 10, "y" * 70, "0.5", "-1e3", "1"]))


@pytest.mark.slow
@settings(max_examples=150)
@example(rows=[("a", "x" * 8, ""), ("a\0", "x" * 8 + "\0", "\0")], quoted=False, separator=",")
@given(
    rows=st.lists(st.tuples(LONGER, LONGER, LONGER), max_size=6),
    quoted=st.booleans(),
    separator=st.sampled_from(",;\t"),
)
def test_plain_blocks_are_read_as_rows_are(rows, quoted, separator, tmp_path_factory):
    """The quick way and Python's own reader find the same fields in the same places."""
    path = tmp_path_factory.mktemp("files") / "log.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        quoting = csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL
        csv.writer(file, delimiter=separator, quoting=quoting).writerows(["abc", *rows])

    def fields():
        found = {name: [] for name in "cab"}
        for parts in csv_files.csv_columns(path, list(found), separator):
            for name, (different, at) in parts.items():
                found[name] += [different[place] for place in at]
        return found

    quick, marks = fields(), csv_files._marks
    csv_files._marks = lambda *_: None
    try:
        slow = fields()
    finally:
        csv_files._marks = marks
    assert quick == slow
    assert slow == {name: [row[k] for row in rows] for k, name in enumerate("abc")}


@pytest.mark.parametrize("container", ["csv", "csv, quoted", "csv, other ends", "csv.gz"])
def test_most_files_are_read_the_quick_way(container, monkeypatch, tmp_path):
    marks, plain = csv_files._marks, []
    monkeypatch.setattr(csv_files, "_marks", lambda *all_: plain.append(marks(*all_)) or plain[-1])
    read_log(CONTAINERS[container](ROWS, tmp_path), SCHEMA)
    assert len(plain) == 1
    assert plain[0] is not None


def test_blank_lines_are_skipped_and_other_rows_have_all_fields(tmp_path):
    path = write_csv(ROWS, tmp_path / "log.csv")
    header, *lines = path.read_text().split()
    for rows in ([*lines, ""], ["", *lines[:2], "", "", *lines[2:]]):
        path.write_text("\n".join([header, *rows]) + "\n")
        same(read_log(path, SCHEMA), read(ROWS))
    for odd in (lines[0] + ",", lines[0].rpartition(",")[0], "p"):
        path.write_text("\n".join([header, *lines, odd]) + "\n")
        with pytest.raises(ValueError, match=NO_CSV):
            read_log(path, SCHEMA)


@pytest.mark.parametrize("least", [1, 2, 50])
def test_no_text_of_one_person_makes_others_vanish(least, tmp_path):
    """A quote that began a text took all lines to the next one that ended a field into it."""
    header = ",".join([*COLUMNS, "note"])
    lines = [f"p{i},1,0,1,a,0,0,well,ok" for i in range(least)] + ['q,1,0,1,a,0,0,well,72"']
    path = tmp_path / "log.csv"
    path.write_text("\n".join([header, *lines]))
    assert read_log(path, SCHEMA).n_persons == least + 1
    path.write_text("\n".join([header, 'new,1,0,1,a,0,0,dead,"feels better', *lines]))
    with pytest.raises(ValueError, match=NO_CSV):
        read_log(path, SCHEMA)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_any_end_of_lines_is_one(end, tmp_path):
    """None is within a field, or else one person could make lines of others a part of it."""
    path = write_csv(ROWS, tmp_path / "log.csv")
    lines = path.read_text().split()
    path.write_bytes(end.join([*lines, ""]).encode())
    same(read_log(path, SCHEMA), read(ROWS))
    path.write_bytes(end.join([*lines[:3], '"r\ns",1,0,1,a,0,0,', *lines[3:], ""]).encode())
    with pytest.raises(ValueError, match=NO_CSV):
        read_log(path, SCHEMA)


def test_two_short_rows_are_not_one(tmp_path):
    (tmp_path / "log.csv").write_text("a,b,c\n1,2\n3\n")
    with pytest.raises(ValueError, match=NO_CSV):
        list(csv_files.csv_columns(tmp_path / "log.csv", ["a"], ","))


# Rules --------------------------------------------------------------------------------------------


def test_rows_without_a_person_are_left_out():
    for nobody in (None, math.nan, "", pd.NA, pd.NaT, 1.5, [], object()):
        same(read([*ROWS, (nobody, *ROWS[0][1:])]), read(ROWS))


def test_numbers_of_persons_that_floats_cannot_hold_are_no_names():
    table = typed([(2**53 - 1, *ROWS[0][1:]), (2**53 + 1, *ROWS[1][1:])])
    assert read_log(table, SCHEMA).n_persons == 2
    assert read_log(table.astype({"who": float}), SCHEMA).n_persons == 1


@pytest.mark.needs("pyarrow", "polars")
@pytest.mark.parametrize(("bits", "exact"), [(16, 2**11), (32, 2**24)])
def test_numbers_of_persons_that_short_floats_cannot_hold_are_no_names(bits, exact):
    """Two persons became one, whom one person changes by two."""
    pa, pl = import_module("pyarrow"), import_module("polars")
    rows = [(each, *ROWS[0][1:]) for each in (exact - 1, exact, exact + 1)]
    table = frame(rows).astype({"who": f"float{bits}"})
    held = pa.array(table["who"].to_numpy())
    arrow = pa.table({name: held if name == "who" else list(table[name]) for name in table})
    tables = [table, arrow, table.assign(who=pd.Series(held, dtype=pd.ArrowDtype(held.type)))]
    if bits == 32:
        kinds = ("Float32", "category", pd.SparseDtype("float32", math.nan))
        other = (table.astype({"who": kind}) for kind in kinds)
        tables += [pl.from_arrow(arrow), *other]
    assert [read_log(each, SCHEMA).n_persons for each in tables] == [1] * len(tables)


@pytest.mark.parametrize("of_others", [[], ["x"], [0.5], [2**64]])
@pytest.mark.parametrize("who", [1e16, 2**53, 2**53 + 2, -(2**60)])
def test_no_person_decides_whether_large_categories_are_names(who, of_others):
    """A text beside large floats made objects of all, and with it a thousand others were read."""
    rows = [(each, *ROWS[0][1:]) for each in (1, who, *of_others)]
    table = frame(rows)
    table["who"] = table["who"].astype("category")
    assert read_log(table, SCHEMA).n_persons == 1 + ("x" in of_others)


@pytest.mark.needs("pyarrow")
def test_no_message_shows_what_a_type_has_of_the_entries():
    """Fields of a record that is a table are in its type, and so is the size of the largest one."""
    pa = import_module("pyarrow")
    held = {
        "struct": pa.array([{"positive": True}]),
        "decimal128": pa.array([Decimal("1234567.25")]),
        "map": pa.array([[("positive", 1)]], pa.map_(pa.string(), pa.int64())),
        "timestamp": pa.array([0], pa.timestamp("us", tz="Europe/Berlin")),
    }
    for name, column in held.items():
        table = pa.table({"who": ["a"], "dose": column})
        schema = LogSchema(person="who", action=Schema({"dose": Categories((0, 1))}), most_steps=1)
        with pytest.raises(ValueError, match=rf"got type {name}; convert it first\.$"):
            read_log(table, schema)


@pytest.mark.skipif(np.finfo(np.longdouble).nmant <= 52, reason="has no longer floats")
def test_persons_that_longer_floats_tell_apart_are_not_one():
    """Their 64 bits were one name: each changed what the other adds."""
    one = np.longdouble(1)
    both = np.array([one, one + np.finfo(np.longdouble).eps])
    rows = [(who, *ROWS[0][1:]) for who in both]
    same(read(rows), read(rows[:1]))  # one and a bit is no name
    with pytest.raises(ValueError, match="column 'who' must hold whole numbers or texts, got type"):
        read_log(typed(rows).assign(who=both), SCHEMA)


def test_persons_are_told_apart_to_the_letter():
    others = ["P", "p ", " p", 1, True, 2]
    rows = [(who, *ROWS[0][1:]) for who in ("p", *others)]
    assert read(rows).n_persons == 7


Q = ROWS.index(next(row for row in ROWS if row[0] == "q"))


@pytest.mark.parametrize(
    "entries",
    [
        {"sugar": math.nan},
        {"sugar": None},
        {"sugar": "3"},
        {"sugar": True},
        {"dose": 3},
        {"dose": 0.5},
        {"dose": "1"},
        {"dose": None},
        {"score": None},
        {"score": "1"},
        {"score": math.nan},
        {"hour": None},
        {"hour": "1"},
        {"hour": math.inf},
        {"stay": None},
        {"stay": ""},
        {"stay": 1.5},
        {"left": "Dead"},
        {"left": 1.5},
        {"left": []},
    ],
)
def test_a_person_with_a_row_that_does_not_fit_is_left_out(entries):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same(read(change(ROWS, Q, **entries)), read(ROWS[:Q]))
        more = change([*ROWS, ("q", 8, 0, 1.0, "a", 0, 0.0, None)], Q, **entries)
        same(read(more), read(ROWS[:Q]))  # with all their rows


def test_a_cell_for_the_rest_takes_it():
    for ward in ("z", None, 3, math.nan, []):
        assert read(change(ROWS, Q, ward=ward)).state[-1] == 2


def test_infinite_rewards_are_clipped():
    assert read(change(ROWS, Q, score=math.inf)).reward[-1] == 1 - 10
    assert read(change(ROWS, Q, score=-math.inf)).reward[-1] == 0 - 10


def test_two_rows_of_one_order():
    again = ("q", 7, 1, 1.0, "a", 0, 0.0, None)
    same(read([*ROWS, again]), read(ROWS[:Q]))
    assert read([*ROWS, ("q", 8, *again[2:])]).n_persons == 2  # not of one episode


def test_an_outcome_before_the_last_row():
    same(read([*ROWS, ("q", 7, 2, 1.0, "a", 0, 0.0, None)]), read(ROWS[:Q]))
    assert read([*ROWS, ("q", 7, 0, 1.0, "a", 0, 0.0, None)]).n_steps == 6


def test_gaps_are_fine_unless_said_otherwise():
    gap = change(ROWS, 2, hour=3)
    same(read(gap), read(ROWS))
    strict = with_(consecutive=True)
    same(read(gap, strict), read(ROWS[Q:], strict))
    same(read(ROWS, strict), read(ROWS))


def test_most_steps():
    for most in (1, 2):
        log = read(ROWS, with_(most_steps=most))
        assert log.episode_starts.tolist() == [0, most, most + 1, most + 2]
        assert log.next_state[most - 1] == CUT
        assert log.reward[most - 1] == ROWS[most - 1][6]  # without the outcome's
        assert log.next_state[-1] == 7
    same(read(ROWS, with_(most_steps=3)), read(ROWS))


def test_most_episodes_are_the_first_by_order_and_name():
    one = with_(most_episodes=1)
    same(read(ROWS, one), read([*ROWS[:3], ROWS[Q]], one))
    same(read(change(ROWS, 3, hour=-1), one), read([ROWS[3], ROWS[Q]], one))
    tied = [("p", stay, 0, 1.0, "a", dose, 0.0, None) for dose, stay in enumerate(("b", "10", "9"))]
    assert read(tied, one).action.tolist() == [2]
    assert read(tied).action.tolist() == [2, 1]


def test_without_order_rows_are_as_they_stand():
    loose = with_(order=None)
    rows = [ROWS[3], ROWS[Q], *ROWS[:3]]
    log = read(rows, loose)
    assert log.state.tolist() == [3, 0, 4, 2, 1]
    assert log.episode_starts.tolist() == [0, 1, 4, 5]
    mixed = [ROWS[0], ROWS[Q], ROWS[3], ROWS[1], ROWS[2]]
    same(read(mixed, loose), read(ROWS, loose))


def test_one_state_no_reward_no_outcome_no_episodes():
    least = LogSchema(person="who", action={"dose": Categories((0, 1, 2))}, most_steps=9)
    log = read(ROWS, least)
    assert (log.n_states, log.state.tolist()) == (1, [0] * 5)
    assert log.next_state.tolist() == [0, 0, 0, CUT, CUT]
    assert not log.reward.any()
    assert log.episode_starts.tolist() == [0, 4, 5]


def test_a_log_of_nobody(tmp_path):
    for log in (read([]), read([(None, *ROWS[0][1:])]), read(change(ROWS[:1], 0, dose=9))):
        assert (log.n_persons, log.n_steps) == (0, 0)
    (tmp_path / "log.csv").write_text(",".join(COLUMNS))
    same(read_log(tmp_path / "log.csv", SCHEMA), read([]))


def test_outcomes_are_known_by_their_text(tmp_path):
    schema = with_(outcomes=("1", "true"))
    rows = [("p", 1, 0, 1.0, "a", 0, 0.0, 1), ("q", 1, 0, 1.0, "a", 0, 0.0, True)]
    assert read(rows, schema).next_state.tolist() == [6, 7]
    assert read(change(rows, 0, left="1"), schema).next_state.tolist() == [6, 7]
    path = tmp_path / "log.csv"
    path.write_text(",".join(COLUMNS) + "\np,1,0,1,a,0,0,1\nq,1,0,1,a,0,0,true\n")
    assert read_log(path, schema).next_state.tolist() == [6, 7]


def test_progress_is_told(tmp_path):
    told = []
    read_log(write_csv(ROWS, tmp_path / "log.csv"), SCHEMA, progress=told.append)
    assert told == [5]


# No person decides about another ------------------------------------------------------------------

KINDS = [
    *("a", "", " ", "1", "1.0", "nan", "well", "dead", "x" * 300, "\x00", "é", b"a", 1j),
    *(True, False, None, math.nan, pd.NA, pd.NaT, math.inf, -math.inf, 0, 1, 2, 3, -1, 2**53 + 1),
    *(2**64, 10**400, 10**5000, 0.5, 1.0, np.float32(0.1), np.int8(1), np.uint64(2**64 - 1)),
    *(Decimal("0.5"), Decimal("sNaN"), np.longdouble("1e4000"), [], [1], {}, (1, 2), object(), int),
    *(np.array([1, 2]), np.datetime64("2020-01-01"), np.timedelta64(1), pd.Timestamp(2020, 1, 1)),
]
ANY = st.integers(0, len(KINDS) - 1).map(KINDS.__getitem__)
GOOD = st.tuples(
    st.sampled_from("pqrs"),
    st.sampled_from([1, 2, "10", "b"]),
    st.one_of(st.integers(0, 9), st.floats(0, 9)),
    st.floats(-1, 9),
    st.sampled_from("abz"),
    st.integers(0, 2),
    st.floats(-2, 2),
    st.sampled_from([None, None, "well", "dead"]),
)


@st.composite
def neighbours(draw):
    """Rows of persons, and with those of one replaced: by rows with an entry of any kind."""
    rows = draw(st.lists(GOOD, min_size=1, max_size=14))
    who = draw(st.sampled_from("pqrs"))
    theirs = [("new", *row[1:]) for row in draw(st.lists(GOOD, max_size=4))]
    for i in range(len(theirs)):
        if draw(st.booleans()):
            column = draw(st.sampled_from(COLUMNS[1:]))
            theirs = change(theirs, i, **{column: draw(ANY)})
    kept = [row for row in rows if row[0] != who]
    places = draw(st.lists(st.integers(0, len(kept)), min_size=len(theirs), max_size=len(theirs)))
    other = list(kept)
    for place, row in sorted(zip(places, theirs, strict=True), key=lambda pair: -pair[0]):
        other.insert(place, row)
    return rows, other, who, kept


@pytest.mark.slow
@settings(max_examples=60)
@given(neighbours(), st.sampled_from([SCHEMA, with_(order=None), with_(consecutive=True)]))
def test_no_person_changes_another(case, schema):
    rows, other, _, kept = case
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        logs = [persons(read(each, schema)) for each in (rows, other, kept)]
    for found in logs[:2]:
        left = list(found)
        for each in logs[2]:
            left.remove(each)  # each of the others is there, bit by bit
        assert len(left) <= 1


def as_text(entry):
    if isinstance(entry, int) and abs(entry) > 10**400:  # longer ones Python refuses to write
        return "9" * 400
    return "" if entry is None else str(entry)


@pytest.mark.slow
@settings(max_examples=100)
@given(case=neighbours(), container=st.sampled_from(["csv", "csv, quoted"]))
def test_no_person_changes_another_in_a_file(case, container, tmp_path_factory):
    rows, other, _, kept = case
    logs = []
    for each in (rows, other, kept):
        texts = [tuple(map(as_text, row)) for row in each]
        path = CONTAINERS[container](texts, tmp_path_factory.mktemp("files"))
        logs.append(persons(read_log(path, SCHEMA)))
    for found in logs[:2]:
        left = list(found)
        for each in logs[2]:
            left.remove(each)
        assert len(left) <= 1


@pytest.mark.slow
@settings(max_examples=100)
@given(st.lists(GOOD, max_size=14), st.randoms())
def test_with_an_order_rows_may_be_shuffled(rows, random):
    shuffled = random.sample(rows, len(rows))
    assert sorted(persons(read(shuffled))) == sorted(persons(read(rows)))


def test_a_long_person_is_no_more_than_the_bounds():
    rows = [("p", i // 50, i, 1.0, "a", 0, 0.0, None) for i in range(5000)]
    log = read([*rows, ROWS[Q]])
    assert (log.n_persons, log.n_steps) == (2, SCHEMA.most_episodes * SCHEMA.most_steps + 1)


FIRST = with_(most_steps=1, most_episodes=1)


def pipeline(rows, more=lambda log: None):
    """Count first steps privately; all that is seen is public, or what the mechanism gives."""
    log = read(rows, FIRST)
    counts = np.bincount(log.state, minlength=log.n_states)
    mechanism = GaussianMechanism(sigma=5.0, relation=AddRemoveRecord())
    released = mechanism.release(counts.astype(float), np.random.default_rng(0))
    return released, log.n_states, log.outcomes, FIRST.space.reward_range, more(log)


@pytest.mark.slow
@settings(max_examples=100)
@given(neighbours())
def test_record_and_replay(case):
    _, other, _, kept = case
    result = audit_replay(pipeline, other, kept)
    assert not result.violated, result.findings
    assert (result.error, result.releases) == (None, 1)


def test_replay_sees_what_is_private():
    for leak in (lambda log: log.n_persons, lambda log: log.n_steps):
        assert audit_replay(partial(pipeline, more=leak), ROWS, ROWS[:Q]).violated


# What is refused ----------------------------------------------------------------------------------


@containers("csv", "parquet", "pandas", "pyarrow", "polars")
def test_columns_that_are_absent(container, tmp_path):
    source = CONTAINERS[container](ROWS, tmp_path)
    with pytest.raises(ValueError, match=r"must have all columns of the schema.*'pulse' absent"):
        read_log(source, with_(order="pulse"))


def test_columns_that_are_there_twice(tmp_path):
    table = pd.concat([typed(ROWS), typed(ROWS)[["who"]]], axis=1)
    with pytest.raises(ValueError, match="'who' there twice"):
        read_log(table, SCHEMA)
    table.to_csv(tmp_path / "log.csv", index=False)
    with pytest.raises(ValueError, match="'who' there twice"):
        read_log(tmp_path / "log.csv", SCHEMA)


@pytest.mark.parametrize(
    ("column", "entry", "words"),
    [
        ("hour", "SECRET", "column 'hour' must hold numbers, got type"),
        ("sugar", "SECRET", "column 'sugar' must hold numbers, got type"),
        ("score", True, "column 'score' must hold numbers, got type"),
        ("dose", "SECRET", "column 'dose' must hold whole numbers, got type"),
        ("who", pd.Timestamp(2020, 1, 1), "column 'who' must hold texts, numbers or truth values"),
    ],
)
@containers("pandas", "pyarrow", "parquet", "polars")
def test_types_that_cannot_hold_it(container, column, entry, words, tmp_path):
    rows = change(ROWS, 0, **{column: entry})[:1]
    with pytest.raises(ValueError, match=words) as caught:
        read_log(CONTAINERS[container](rows, tmp_path), SCHEMA)
    assert "SECRET" not in str(caught.value)
    assert caught.value.__context__ is None


def test_categories_of_several_kinds_are_names_each_by_itself():
    rows = [("p", *ROWS[0][1:]), (1, *ROWS[4][1:]), ("p", *ROWS[1][1:])]
    same(read_log(typed(rows).astype({"who": "category"}), SCHEMA), read(rows))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "must have a header row"),
        (b"who\n\xff\n", "must be text in UTF-8"),
        (b"\xff\n", "must be text in UTF-8"),
        (b'who\n"SECRET\n', NO_CSV),
        (b'who\n"SEC"RET\n', NO_CSV),
        (b"who\nSECRET,SECRET\n", NO_CSV),
    ],
)
def test_files_that_are_no_csv(content, words, tmp_path):
    schema = LogSchema(person="who", action={"who": Categories(("a", "b"))}, most_steps=1)
    (tmp_path / "log.csv").write_bytes(content)
    with pytest.raises(ValueError, match=words) as caught:
        read_log(tmp_path / "log.csv", schema)
    assert "SECRET" not in str(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.needs("pyarrow")
def test_files_that_are_damaged(tmp_path):
    (tmp_path / "log.parquet").write_bytes(b"SECRET")
    with pytest.raises(ValueError, match="must be a Parquet file") as caught:
        read_log(tmp_path / "log.parquet", SCHEMA)
    assert caught.value.__context__ is None
    path = gzipped(ROWS, tmp_path / "log.csv.gz")
    for content in (path.read_bytes()[:-9], b"SECRET"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="whole file as gzip makes it") as caught:
            read_log(path, SCHEMA)
        assert caught.value.__context__ is None
    with pytest.raises(FileNotFoundError):
        read_log(tmp_path / "none.parquet", SCHEMA)
    with pytest.raises(FileNotFoundError):
        read_log(tmp_path / "none.csv", SCHEMA)


def test_a_name_that_cannot_be_looked_at_is_none():
    """An object that is gone stops nobody's reading."""
    gone = weakref.proxy(Categories(("a", "b")))
    with pytest.raises(ReferenceError):
        isinstance(gone, float)
    same(read([*ROWS, (gone, *ROWS[0][1:])]), read(ROWS))


@pytest.mark.needs("pyarrow")
def test_bytes_that_are_no_text():
    """They name a person, and reading does not stop."""
    pa = import_module("pyarrow")
    table = arrow(ROWS)
    names = pa.array([b"SECRE\xff", *(b"p" for _ in ROWS[1:])])
    names = pa.Array.from_buffers(pa.string(), len(names), names.buffers())
    for column in (names, names.dictionary_encode()):
        held = table.set_column(0, "who", column)
        expected = [("other", *ROWS[0][1:]), *(("p", *row[1:]) for row in ROWS[1:])]
        same(read_log(held, SCHEMA), read(expected))


@pytest.mark.needs("pyarrow")
def test_folders(tmp_path):
    with pytest.raises(ValueError, match=r"must hold files '\.parquet', '\.pq', and has none"):
        read_log(tmp_path, SCHEMA)
    parquet(ROWS, tmp_path / "a.parquet")
    parquet([(1, *ROWS[0][1:])], tmp_path / "b.parquet")
    with pytest.raises(ValueError, match=r"b\.parquet must hold the same in column 'who'"):
        read_log(tmp_path, SCHEMA)


@pytest.mark.needs("pyarrow")
def test_names_of_files_need_not_be_in_utf8(tmp_path):
    """A folder with such a name among its files could not be read, and Arrow's error was shown."""
    parquet(ROWS[:3], tmp_path / "b.parquet")
    (tmp_path / "b.parquet").rename(tmp_path / "\udcff.parquet")
    parquet(ROWS[3:], tmp_path / "a.parquet")
    same(read_log(tmp_path, SCHEMA), read(ROWS))


def test_sources_that_are_none(tmp_path):
    with pytest.raises(ValueError, match=r"source must be a file's path.*got builtins\.list"):
        read_log(ROWS, SCHEMA)
    with pytest.raises(ValueError, match="a log's file must end in one of"):
        read_log(tmp_path / "log.xlsx", SCHEMA)
    with pytest.raises(ValueError, match="schema must be a LogSchema, got dict"):
        read_log(typed(ROWS), SCHEMA.to_dict())
    with pytest.raises(ValueError, match="separator must be one character"):
        read_log(write_csv(ROWS, tmp_path / "log.csv"), SCHEMA, separator=", ")


@pytest.mark.slow
def test_outcomes_follow_however_many_states_there_are():
    """A number of an outcome takes two bytes, one of a state may take more."""
    for n_states in (2**15 - 1, 2**15, 2**17):
        schema = with_(state={"sugar": Categories(range(n_states))})
        rows = [("p", 1, 0, n_states - 1, "", 0, 0.0, "dead")]
        log = read(rows, schema)
        assert log.state.tolist() == [n_states - 1]
        assert log.next_state.tolist() == [n_states + 1]


@pytest.mark.parametrize("n_steps", [1, 2, 3, 4, 100])
def test_blocks_of_a_log_are_persons_of_it(n_steps):
    """Three steps and one of the first person, one of the second, two of the third."""
    more = [*ROWS, ("r", 1, 0, 1.0, "a", 0, 0.0, None), ("r", 1, 1, 1.0, "b", 0, 0.0, "well")]
    log = read_log(frame(more), SCHEMA)
    parts = list(log.blocks(n_steps))
    assert sum(part.n_persons for part in parts) == 3
    assert len(parts) == {1: 3, 2: 3, 3: 2, 4: 2, 100: 1}[n_steps]
    for name in FIELDS[:4]:
        joined = np.concatenate([getattr(part, name) for part in parts])
        np.testing.assert_array_equal(joined, getattr(log, name))
    assert np.diff(parts[0].episode_starts)[:2].tolist() == [3, 1]
    assert np.concatenate([np.diff(part.person_starts) for part in parts]).tolist() == [2, 1, 1]
    (none,) = read_log(frame([]), SCHEMA).blocks(n_steps)
    assert none.n_persons == none.n_steps == 0


@pytest.mark.needs("pyarrow")
@pytest.mark.parametrize("values", ["null", "string_view", "float16", "date32"])
def test_dictionaries_of_any_type_are_read_or_refused(values):
    """Arrow makes no empty list of some: of a column where all entries are missing, too.

    Types of numbers are not refused: pandas infers them from all entries.
    """
    pa = import_module("pyarrow")
    schema = LogSchema(
        person="who",
        action=Schema({"a": Categories(("x", "y"), other=True)}),
        most_steps=2,
    )
    kind = pa.dictionary(pa.int32(), getattr(pa, values)())
    table = pa.table({"who": ["p", "q"], "a": pa.nulls(2, kind)})
    if values == "date32":
        with pytest.raises(ValueError, match="must hold texts"):
            read_log(table, schema)
    else:
        assert read_log(table, schema).action.tolist() == [2, 2]
