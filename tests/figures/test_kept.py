"""Tables kept by `privrl reproduce`: as they were, anew where anything is amiss, and never run."""

import hashlib
import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure as Picture

from privrl.experiments import figures
from privrl.experiments.figures.base import ABOUT, Figure
from privrl.experiments.figures.kept import kept
from privrl.experiments.figures.reproduce import reproduce

TABLE = pd.DataFrame(
    {
        "curve": ["a", 'ä, "b"', ""],
        "x": [0.1, np.nan, -np.inf],
        "tiny": [5e-324, 1 / 3, 1e308],
        "n": [1, -(2**63), 2**63 - 1],
        "is it": [True, False, True],
        "missing": ["there", None, "there too"],
        "objects": pd.Series(["there", None, "there too"], dtype=object),
    }
)


class Planted:
    """Runs when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


class Counted:
    """Computes a table, and counts how often."""

    def __init__(self, table: pd.DataFrame = TABLE) -> None:
        self.times, self.table = 0, table

    def __call__(self) -> pd.DataFrame:
        self.times += 1
        return self.table.copy()


def test_a_table_comes_back_as_it_was(tmp_path: Path) -> None:
    compute, path = Counted(), tmp_path / "new" / "it.json"
    first, second = kept(path, "key", compute), kept(path, "key", compute)
    assert compute.times == 1
    pd.testing.assert_frame_equal(first, TABLE, check_exact=True)
    pd.testing.assert_frame_equal(second, TABLE, check_exact=True)
    assert [p.name for p in path.parent.iterdir()] == ["it.json"]


def test_other_code_computes_anew(tmp_path: Path) -> None:
    compute, path = Counted(), tmp_path / "it.json"
    for key in ("one", "two", "two", "one"):
        kept(path, key, compute)
    assert compute.times == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"x": [1, None, "a"]}, dtype=object),
        pd.DataFrame({"x": [[1], [2]]}),
        pd.DataFrame({"x": [1.0]}, index=["named"]),
        pd.DataFrame({3: [1.0]}),
    ],
)
def test_what_would_not_come_back_is_refused(tmp_path: Path, table: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match=r"must be of"):
        kept(tmp_path / "it.json", "key", Counted(table))
    assert list(tmp_path.iterdir()) == []


def test_rows_that_were_chosen_from_a_table(tmp_path: Path) -> None:
    """Their numbers have gaps, and a missing text may be None or NaN."""
    for missing in (None, np.nan):
        table = pd.DataFrame({"x": [1.0, 2.0, 3.0], "text": pd.Series(["a", "b", missing])})
        path, compute = tmp_path / f"{missing}.json", Counted(table[table.x > 1])
        first, second = kept(path, "key", compute), kept(path, "key", compute)
        assert (compute.times, first.x.tolist()) == (1, [2.0, 3.0])
        pd.testing.assert_frame_equal(first, second, check_exact=True)


@pytest.mark.slow
def test_every_flipped_byte_is_seen(tmp_path: Path) -> None:
    path, rng = tmp_path / "it.json", np.random.default_rng(3)
    kept(path, "key", Counted())
    whole = path.read_bytes()
    for place in rng.integers(len(whole), size=300):
        broken = bytearray(whole)
        broken[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(broken)
        found = kept(path, "key", Counted())
        pd.testing.assert_frame_equal(found, TABLE, check_exact=True)


def hostile(columns: object) -> bytes:
    text = json.dumps(columns)
    page = {"format": "privrl table of a figure, 1", "key": "key", "columns": columns}
    return json.dumps(page | {"sha256": hashlib.sha256(text.encode()).hexdigest()}).encode()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"[" * 100_000,
        b"[]",
        b"{}",
        b"1" * 5000,
        hostile([]),
        hostile({"x": None}),
        hostile({"x": {"type": "object", "values": [1]}}),
        hostile({"x": {"type": "complex128", "values": [1]}}),
        hostile({"x": {"type": "float64", "values": ["1e5"]}}),
        hostile({"x": {"type": "float64", "values": [True]}}),
        hostile({"x": {"type": "int64", "values": [2**64]}}),
        hostile({"x": {"type": "float64", "values": [10**400]}}),
        hostile({"x": {"type": "int64", "values": 5}}),
        hostile({"x": {"type": ["int64"], "values": [5]}}),
        hostile({"x": {"type": "int64", "values": [5], "more": 1}}),
        hostile({"x": {"type": "int64", "values": [5]}, "y": {"type": "int64", "values": []}}),
        hostile({"x": {"type": "str", "values": [[[]]]}}),
    ],
)
def test_whatever_else_is_there_is_replaced(tmp_path: Path, content: bytes) -> None:
    path, compute = tmp_path / "it.json", Counted()
    path.write_bytes(content)
    pd.testing.assert_frame_equal(kept(path, "key", compute), TABLE)
    pd.testing.assert_frame_equal(kept(path, "key", compute), TABLE)
    assert compute.times == 1


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> Counted:
    compute = Counted(pd.DataFrame({"x": [1.0, 2.0]}))
    figure = Figure("small", lambda quick: compute(), lambda table: Picture(), str)
    monkeypatch.setitem(ABOUT, "small", {"title": "Small", "source": "nowhere"})
    monkeypatch.setitem(figures.FIGURES, "small", figure)
    return compute


def test_nothing_planted_is_run(tmp_path: Path, _small: Counted) -> None:  # noqa: PT019 # it counts
    """As joblib laid them out, and in place of what is kept now."""
    mark = tmp_path / "it was run"
    planted = pickle.dumps(Planted(mark))
    out = tmp_path / "out"
    reproduce(["small"], out, quick=True, workers=1)
    assert _small.times == 1
    (path,) = (out / ".cache").iterdir()
    for place in (
        ".cache/joblib/privrl/experiments/figures/reproduce/_compute/0/output.pkl",
        ".cache/joblib/privrl/experiments/figures/reproduce/_compute/func_code.py",
        f".cache/{path.name}",
        ".cache/small-quick.pkl",
    ):
        (out / place).parent.mkdir(parents=True, exist_ok=True)
        (out / place).write_bytes(planted)
    made, failed = reproduce(["small"], out, quick=True, workers=1)
    assert not mark.exists()
    assert _small.times == 2  # what was kept is gone
    assert (len(made), failed) == (1, {})
    pickle.loads(planted)
    assert mark.exists()  # it would have been seen
    shutil.rmtree(out)
