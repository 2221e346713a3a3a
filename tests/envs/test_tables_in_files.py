"""Tables in files: tables round trip, and other files are refused with a clear message."""

import zipfile

import numpy as np
import pytest
from oracle_tabular import random_mdp

from privrl.envs import load_tables, riverswim, save_tables
from privrl.envs.exploration import deep_sea

NAMES = ("transition", "reward", "start", "horizon")


@pytest.fixture
def tables(rng):
    mdp = random_mdp(rng)
    return {name: getattr(mdp, name) for name in NAMES}


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize(
    "mdp", [random_mdp(np.random.default_rng(1)), riverswim(variant="dps"), deep_sea(3)]
)
def test_what_is_saved_comes_back(mdp, tmp_path):
    """Bit for bit, for any file name, replacing an old file."""
    path = tmp_path / "tables"
    path.write_text("something else")
    save_tables(path, mdp)
    loaded = load_tables(str(path))
    for name in NAMES:
        np.testing.assert_array_equal(getattr(loaded, name), getattr(mdp, name))
        assert np.shape(getattr(loaded, name)) == np.shape(getattr(mdp, name))
    assert type(loaded.horizon) is int
    assert list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_written_leaves_the_old_file(tmp_path, monkeypatch):
    def fails(file, **_):
        file.write(b"half")
        raise OSError("disk full")

    path = tmp_path / "tables.npz"
    save_tables(path, deep_sea(2))
    before = path.read_bytes()
    monkeypatch.setattr(np, "savez_compressed", fails)
    with pytest.raises(OSError, match="disk full"):
        save_tables(path, deep_sea(3))
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_numpys_own_files_are_read(tables, tmp_path):
    np.savez(tmp_path / "tables.npz", **tables, notes=np.array([{"not": "read"}], dtype=object))
    loaded = load_tables(tmp_path / "tables.npz")
    np.testing.assert_array_equal(loaded.transition, tables["transition"])


@pytest.mark.parametrize("name", NAMES)
def test_what_is_missing_is_named(tables, tmp_path, name):
    del tables[name]
    np.savez(tmp_path / "tables.npz", **tables)
    with pytest.raises(ValueError, match=rf"path .*tables\.npz' without {name}; save_tables"):
        load_tables(tmp_path / "tables.npz")


class Bomb:
    def __reduce__(self):
        return pytest.fail, ("a pickle was run",)


@pytest.mark.parametrize("name", NAMES)
def test_pickles_are_never_run(tables, tmp_path, name):
    tables[name] = np.array([Bomb()], dtype=object)
    np.savez(tmp_path / "tables.npz", **tables)
    with pytest.raises(ValueError, match=r"path must be an \.npz file of arrays of numbers, got"):
        load_tables(tmp_path / "tables.npz")


def test_what_is_no_file_of_tables_is_refused(tables, tmp_path):
    path = tmp_path / "tables.npz"
    np.savez(path, **tables)
    whole = path.read_bytes()
    np.save(tmp_path / "one.npy", tables["start"])
    one = (tmp_path / "one.npy").read_bytes()
    for content in (b"", b"text", one, whole[: len(whole) // 2], b"text" + whole):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"^path must be an \.npz file .*tables\.npz'"):
            load_tables(path)
    path.write_bytes(whole.replace(b"\x93NUMPY", b"\x93NUMPX"))
    with pytest.raises(ValueError, match=r"^path must be an \.npz file .*tables\.npz'"):
        load_tables(path)
    with pytest.raises(FileNotFoundError):
        load_tables(tmp_path / "none.npz")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"transition": np.eye(3)}, r"transition must have shape \(S, A, S\)"),
        ({"start": np.array([0.5, 0.6, 0.1])}, "start must hold probabilities that sum to 1"),
        ({"reward": np.zeros((2, 2))}, "reward must have shape"),
        ({"reward": np.array("text")}, "reward must be numbers"),
        ({"horizon": np.array(4.0)}, "horizon must be a whole number >= 1, got 4.0"),
        (
            {"horizon": np.array([4])},
            "horizon must be a whole number >= 1, got an object",
        ),
        ({"horizon": np.array(True)}, "horizon must be a whole number >= 1, got True"),
        ({"horizon": np.array("4")}, "horizon must be a whole number >= 1, got '4'"),
    ],
)
def test_tables_of_no_mdp_are_refused(tables, tmp_path, changes, message):
    np.savez(tmp_path / "tables.npz", **(tables | changes))
    with pytest.raises(ValueError, match=message):
        load_tables(tmp_path / "tables.npz")


def test_damaged_archives_are_refused_in_words(tmp_path):
    """For all errors that the readers of zip, zlib and NumPy's format raise on random bytes."""
    path = tmp_path / "tables.npz"
    save_tables(path, riverswim(4, 5))
    content, rng = path.read_bytes(), np.random.default_rng(0)
    refused = 0
    for _ in range(300):
        damaged = bytearray(content)
        for at in rng.integers(len(content), size=3):
            damaged[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            load_tables(path)
        except ValueError:
            refused += 1
    assert refused > 100


def test_what_is_no_array_in_an_archive_is_not_there(tmp_path):
    """An entry that does not begin as NumPy's files do is read as bytes."""
    path, other = tmp_path / "tables.npz", tmp_path / "other.npz"
    save_tables(path, riverswim(4, 5))
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(other, "w") as new:
        for name in old.namelist():
            if name != "horizon.npy":
                new.writestr(name, old.read(name))
        new.writestr("horizon", b"5")
    with pytest.raises(ValueError, match="without horizon"):
        load_tables(other)
