"""Your own tables, in a file of NumPy's."""

import json
import lzma
import struct
import zipfile
import zlib
from contextlib import suppress
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from privrl.envs.released import Released, checked_statement
from privrl.envs.tabular import TabularMDP, released_in
from privrl.files.chosen import check_file
from privrl.files.files import check_ends, save_all
from privrl.files.plain import parse_json
from privrl.numerics.checks import check_is

_NAMES = ("transition", "reward", "start", "horizon")
_STATEMENTS = "statements"  # as a list in JSON, of tables that were released


#: What readers of archives raise of files that nobody wrote.
_NO_ARCHIVE = (
    *(ValueError, zipfile.BadZipFile, zlib.error, struct.error, RuntimeError, EOFError),
    *(
        OSError,
        MemoryError,
        OverflowError,
        KeyError,
        NotImplementedError,
        SyntaxError,
        lzma.LZMAError,
    ),
)


def save_tables(path: str | PathLike[str], mdp: TabularMDP) -> None:
    """Write the tables of an MDP into a compressed ``.npz`` file.

    Parameters
    ----------
    path : str or path-like
        Where to; an existing file is replaced, by a complete file only. A folder that does not
        exist is made.
    mdp : TabularMDP
        Whose ``transition``, ``reward``, ``start`` and ``horizon`` are kept under these names. Of
        tables that were released, all statements are kept as well.

    Raises
    ------
    ValueError
        If ``mdp`` is none, or of a model that was chosen among several, or that states no cost.
    """
    check_is("mdp", mdp, TabularMDP)
    path, tables = Path(path), {name: getattr(mdp, name) for name in _NAMES}
    if released := released_in(mdp):
        for each in released:
            check_file(each)
        stated = [checked_statement(each.statement) for each in released]
        tables[_STATEMENTS] = np.array(json.dumps(stated))
    save_all(path.parent, {path.name: lambda file: np.savez_compressed(file, **tables)})


def load_tables(path: str | PathLike[str]) -> TabularMDP:
    """Read an MDP from what `save_tables`, or `numpy.savez`, wrote.

    Parameters
    ----------
    path : str or path-like
        A ``.npz`` file with the arrays ``transition``, ``reward``, ``start`` and ``horizon``
        that `TabularMDP` takes, and perhaps ``statements``; others are left alone. Nothing in
        it is run: pickles are refused.

    Returns
    -------
    TabularMDP
        Checked like any other.

    Raises
    ------
    ValueError
        If the file is of another kind, its tables are not those of an MDP, or a statement is
        none.
    OSError
        If it cannot be read.
    """
    tables = {}
    check_ends(Path(path))
    with Path(path).open("rb") as raw:
        if zipfile.is_zipfile(raw):
            raw.seek(0)
            try:
                file = np.load(raw, allow_pickle=False)
                found = {name: file[name] for name in (*_NAMES, _STATEMENTS) if name in file}
            except _NO_ARCHIVE as error:
                raise ValueError(
                    f"path must be an .npz file of arrays of numbers, got {str(path)!r}: {error}; "
                    "write it anew."
                ) from error
            # What does not begin as NumPy's files do comes as bytes.
            tables = {name: each for name, each in found.items() if isinstance(each, np.ndarray)}
    missing = [name for name in _NAMES if name not in tables]
    if missing:
        raise ValueError(
            f"path must be an .npz file with {', '.join(_NAMES)}, got {str(path)!r} without "
            f"{', '.join(missing)}; save_tables(path, mdp) writes one."
        )
    horizon: Any = tables.pop("horizon")
    text = str(tables.pop(_STATEMENTS, "[]"))
    mdp = TabularMDP(**tables, horizon=horizon.item() if np.ndim(horizon) == 0 else horizon)
    stated: Any = None
    with suppress(ValueError):  # the next lines say what a statement is
        stated = parse_json(text)
    stated = stated if isinstance(stated, list) else [stated]
    return replace(mdp, _released=tuple(Released(mdp=mdp, statement=each) for each in stated))
