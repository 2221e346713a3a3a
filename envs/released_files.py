"""Released models in folders: a page that says what is promised, and the tables it is about."""

import hashlib
import io
import json
import math
import re
import struct
import zipfile
import zlib
from os import PathLike
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from privrl.envs.released import Released, check_cells, checked_statement
from privrl.envs.tabular import TabularMDP
from privrl.files.chosen import check_file
from privrl.files.files import Write, check_stated, save_all, text_writer
from privrl.files.plain import check_page, listed, parse_json
from privrl.files.sharing import Verdict, check_said, judge_by
from privrl.files.shown import shown
from privrl.numerics.checks import check_count, check_is
from privrl.numerics.typing import FloatArray

_FORMAT = "privrl released model, 1"
_PAGE, _TABLES = "model.json", "tables.npz"
_DIGEST = "tables_sha256"
_WITH_TABLES = ("model.json", "policy.json")  # pages that may have tables beside them
_SIZES = ("n_states", "n_actions", "horizon")
_LABELS = ("state_names", "action_names", "outcomes")
_PACKED = ("row", "count", "place", "value")
_OPTIONAL = ("admissible", "deviations", "behaviour")
_MAGIC, _BEGINNING = b"\x93NUMPY\x01\x00", 10  # and two bytes: how long the header is
_HEADER = re.compile(
    rb"\{'descr': '(?P<type>[<>|]\w+)', 'fortran_order': False, 'shape': (?P<shape>\([\d, ]*\)), "
    rb"\} *\n"
)
_TYPES = {"f": (b"<f8",), "b": (b"|b1",), "u": (b"|u1", b"<u2", b"<u4", b"<u8")}
#: What Python's reader of archives raises on those that nobody wrote.
_NO_ARCHIVE = (zipfile.BadZipFile, zlib.error, struct.error, RuntimeError, EOFError, OSError)
_Arrays = dict[str, NDArray[Any]]


def save_released(path: str | PathLike[str], released: Released) -> None:
    """Write a released model into a folder, ``model.json`` and ``tables.npz``.

    Parameters
    ----------
    path : str or path-like
        The folder; made if it does not exist. An existing model is replaced.
    released : Released
        All of it is kept, bit for bit (a zero loses its sign). ``model.json`` has the statement,
        sizes and labels, and the SHA-256 digest of ``tables.npz``: neither file is read beside
        another one's. If writing stops between the two, the folder is refused.

    Raises
    ------
    ValueError
        If ``released`` is none, or ``path`` is a file.

    Notes
    -----
    Probabilities that are not 0 are kept, and rows that several states or actions share are kept
    once: a file grows with what differs.
    """
    check_is("released", released, Released, hint="Released(mdp=..., statement=...) makes one")
    folder = Path(path)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"path must be a folder, got {str(path)!r}, which is a file.")
    check_tables_free(folder, _PAGE)
    save_all(folder, writers(released))


def check_tables_free(folder: Path, page: str) -> None:
    """Check that the tables in a folder do not belong to another page than the one to be written.

    Raises
    ------
    ValueError
        If they do: that page could not be read without them.
    """
    for other in _WITH_TABLES:
        try:
            said = parse_json((folder / other).read_bytes())
            tables = (folder / _TABLES).read_bytes()
        except (OSError, ValueError):  # it is not there, or describes nothing
            continue
        own = said.get(_DIGEST) if isinstance(said, dict) else None
        if other != page and own == hashlib.sha256(tables).hexdigest():
            raise ValueError(
                f"path must be another folder, got {str(folder)!r}: {_TABLES} there belongs to "
                f"{other}, and would be written over."
            )


def writers(released: Released) -> dict[str, Write]:
    """Return what writes each of the two files, by name, in the order in which to write them."""
    check_file(released)
    tables = _write_tables(_arrays(released))
    mdp = released.mdp
    page: dict[str, Any] = {"format": _FORMAT, "statement": released.statement}
    page |= _verdict(released.statement).said
    page |= {name: getattr(mdp, name) for name in _SIZES}
    page |= {name: getattr(released, name) for name in _LABELS}
    page[_DIGEST] = hashlib.sha256(tables).hexdigest()
    text = json.dumps(page, ensure_ascii=False, allow_nan=False, indent=2)
    return {_TABLES: lambda file: file.write(tables), _PAGE: text_writer(f"{text}\n")}


def load_released(path: str | PathLike[str]) -> Released:
    """Read a released model from a folder that `save_released` wrote.

    Parameters
    ----------
    path : str or path-like
        The folder. Nothing in it is run: pickles are refused.

    Returns
    -------
    Released
        Checked like any other.

    Raises
    ------
    ValueError
        If the folder lacks a file, ``tables.npz`` is not what ``model.json`` was written for, that
        is not what a ``release.json`` in the folder is about, or they hold no released model; the
        message begins with the file's name.
    OSError
        If the folder does not exist or cannot be read.
    """
    return released_of(*_read_files(Path(path)))


def released_of(page: Any, raw: bytes) -> Released:
    """Return the model of a page, plain data, and the content of the file of its tables.

    Raises
    ------
    ValueError
        As `load_released`.
    """
    try:
        page = _checked_page(page)
    except ValueError as error:
        raise ValueError(f"{_PAGE}: {error}") from None
    digest = hashlib.sha256(raw).hexdigest()
    if digest != page[_DIGEST]:
        raise ValueError(
            f"{_TABLES}: must be the file that {_PAGE} is about, with SHA-256 {page[_DIGEST]}, got "
            f"{digest}; fetch or write both anew."
        )
    try:
        mdp, optional = _read_tables(raw, *(page[name] for name in _SIZES))
    except ValueError as error:
        raise ValueError(f"{_TABLES}: {error}") from None
    known: dict[str, Any] = {name: page[name] for name in _LABELS} | optional
    try:
        return Released(mdp=mdp, statement=page["statement"], **known)
    except ValueError as error:
        raise ValueError(f"{_PAGE} and {_TABLES}: {error}") from None


def _read_files(folder: Path) -> tuple[Any, bytes]:
    """Return what the page says, and the other file's content."""
    if not folder.exists():
        raise FileNotFoundError(
            f"path must be a folder with {_PAGE} and {_TABLES}, got {str(folder)!r}, which does "
            "not exist; save_released and privrl fit-model write one."
        )
    missing = [name for name in (_PAGE, _TABLES) if not (folder / name).is_file()]
    if missing:
        raise ValueError(
            f"path must be a folder with {_PAGE} and {_TABLES}, got {str(folder)!r} without "
            f"{' and '.join(missing)}; save_released and privrl fit-model write one."
        )
    text, raw = (folder / _PAGE).read_bytes(), (folder / _TABLES).read_bytes()
    try:
        check_stated(folder / _PAGE, text)
        return parse_json(text.decode()), raw
    except ValueError as error:
        raise ValueError(f"{_PAGE}: {error}") from None


def _checked_page(page: Any) -> dict[str, Any]:
    """Return what the page says, if it has all entries, and sizes of a model."""
    wanted = ("format", "statement", "shareable", "because", *_SIZES, *_LABELS, _DIGEST)
    page = check_page(page, _FORMAT, wanted)
    for name in _SIZES:
        check_count(name, page[name])
    check_cells(page["n_states"], page["n_actions"])
    check_said(page, _verdict(checked_statement(page["statement"])))
    return page


def _verdict(statement: dict[str, Any]) -> Verdict:
    """Return whether a model with this promise may be shared."""
    return judge_by(_PAGE, {"guarantee": statement})


def _arrays(released: Released) -> _Arrays:
    """Return the arrays that a released model is kept as."""
    mdp = released.mdp
    arrays: _Arrays = {"start": mdp.start, **_packed("transition", mdp.transition)}
    if mdp.reward.ndim == 2:
        arrays["reward"] = mdp.reward
    else:
        arrays |= _packed("reward", mdp.reward)
    kept = {name: getattr(released, name) for name in _OPTIONAL}
    return arrays | {name: array for name, array in kept.items() if array is not None}


def _packed(name: str, table: FloatArray) -> _Arrays:
    """Return a table's distinct rows, without their zeros, and which of them is where."""
    number: dict[bytes, int] = {}
    rows: list[FloatArray] = []
    where = []
    for row in table.reshape(-1, table.shape[-1]):
        row = row + 0.0  # no zero has a sign  # noqa: PLW2901
        key = row.tobytes()
        if key not in number:
            number[key] = len(rows)
            rows.append(row)
        where.append(number[key])
    distinct = np.array(rows)
    kept = distinct != 0
    parts = (
        _smallest(np.array(where).reshape(table.shape[:-1])),
        _smallest(kept.sum(axis=1)),
        _smallest(np.nonzero(kept)[1]),
        distinct[kept],
    )
    return {f"{name}_{part}": array for part, array in zip(_PACKED, parts, strict=True)}


def _smallest(numbers: NDArray[np.intp]) -> NDArray[Any]:
    """Return whole numbers in the smallest type that holds them."""
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))


def _write_tables(arrays: _Arrays) -> bytes:
    """Return the content of a compressed ``.npz`` file, the same bytes for the same arrays."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            content = io.BytesIO()
            little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
            np.lib.format.write_array(content, little, (1, 0), allow_pickle=False)
            archive.writestr(_entry(name), content.getvalue(), zipfile.ZIP_DEFLATED)
    return file.getvalue()


def _entry(name: str) -> zipfile.ZipInfo:
    return zipfile.ZipInfo(f"{name}.npy")  # with the same date for all files


def _read_tables(
    raw: bytes, n_states: int, n_actions: int, horizon: int
) -> tuple[TabularMDP, _Arrays]:
    """Return the model in the content of a file of tables, and what else is there."""
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            arrays = _Tables(archive)
            shape = n_states, n_actions
            start = arrays.floats("start", (n_states,))
            transition = arrays.unpacked("transition", shape)
            packed = "reward_row" in arrays.names
            reward = arrays.unpacked("reward", shape) if packed else arrays.floats("reward", shape)
            optional = {"admissible": "b", "deviations": "f", "behaviour": "f"}
            others = {
                name: arrays.read(name, shape, kind)
                for name, kind in optional.items()
                if name in arrays.names
            }
            arrays.check_all_read()
    except _NO_ARCHIVE as error:
        raise ValueError(f"must be a whole .npz file, got one that is not: {error}.") from None
    return TabularMDP(transition, reward, start, horizon), others


class _Tables:
    """Arrays in an archive that may come from anybody: each is as large as expected, or refused."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        names = [entry.filename for entry in archive.infolist()]
        if len(set(names)) < len(names):
            raise ValueError(f"arrays must be there once, got {listed(names)}.")
        self._archive = archive
        self._left = {name.removesuffix(".npy") for name in names}
        self.names = frozenset(self._left)

    def check_all_read(self) -> None:
        """Check that nothing else was there."""
        if self._left:
            raise ValueError(f"must hold no other arrays, got {listed(sorted(self._left))}.")

    def floats(self, name: str, shape: tuple[int, ...]) -> FloatArray:
        """Return an array of finite numbers."""
        array = self.read(name, shape, "f").astype(np.float64)
        wrong = array[~np.isfinite(array)]
        if wrong.size:
            raise ValueError(f"{name} must hold finite numbers, got {wrong[0]}.")
        return array

    def unpacked(self, name: str, shape: tuple[int, int]) -> FloatArray:
        """Return a table of which rows were packed, shape (S, A, S)."""
        n_states = shape[0]
        where = self._numbers(f"{name}_row", shape, math.prod(shape))
        n_rows = int(where.max()) + 1
        counts = self._numbers(f"{name}_count", (n_rows,), n_states + 1)
        places = self._numbers(f"{name}_place", (int(counts.sum()),), n_states)
        rows = np.zeros((n_rows, n_states))
        cells = np.repeat(np.arange(n_rows), counts), places
        rows[cells] = self.floats(f"{name}_value", places.shape)
        if np.count_nonzero(rows) != len(places):
            raise ValueError(f"{name} must have each place once, with what is not 0.")
        return rows[where]

    def _numbers(self, name: str, shape: tuple[int, ...], end: int) -> NDArray[np.intp]:
        """Return whole numbers from 0, below an end."""
        array = self.read(name, shape, "u")
        if (array >= end).any():
            raise ValueError(f"{name} must be below {end}, got {array.max()}.")
        return array.astype(np.intp)

    def read(self, name: str, shape: tuple[int, ...], kind: str) -> NDArray[Any]:
        """Return an array of that shape and kind; nothing else is read."""
        if name not in self._left or f"{name}.npy" not in self._archive.namelist():
            raise ValueError(
                f"must hold the array {shown(name)}, got {listed(sorted(self.names))}."
            )
        self._left.remove(name)
        entry = self._archive.getinfo(f"{name}.npy")
        if entry.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
            raise ValueError(f"{name} must be compressed as NumPy does it.")
        with self._archive.open(entry) as file:
            dtype = _dtype(name, file, shape, kind)
            n_bytes = math.prod(shape) * dtype.itemsize
            content = file.read(n_bytes + 1)
        if len(content) != n_bytes:
            raise ValueError(f"{name} must be whole, got {len(content)} bytes for {n_bytes}.")
        return np.frombuffer(content, dtype).reshape(shape)


def _dtype(name: str, file: IO[bytes], shape: tuple[int, ...], kind: str) -> np.dtype[Any]:
    """Return the type of numbers that an array's header says, if it says what is expected.

    NumPy's own reader evaluates headers, and fails in many ways on those that nobody wrote.
    """
    beginning = file.read(_BEGINNING)
    header = file.read(int.from_bytes(beginning[-2:], "little"))
    said = _HEADER.fullmatch(header) if beginning.startswith(_MAGIC) else None
    if said is None or said["shape"] != str(shape).encode() or said["type"] not in _TYPES[kind]:
        got = (said["shape"] + b" and " + said["type"]).decode()[:40] if said else "another header"
        wanted = " or ".join(each.decode() for each in _TYPES[kind])
        raise ValueError(
            f"{name} must be an array of shape {shape} and type {wanted}, in version 1.0 of "
            f"NumPy's format, got {got}."
        )
    return np.dtype(said["type"].decode())
