"""Files of models and policies of continuous states: a page of plain data, and arrays."""

import copy
import hashlib
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from privrl.envs.released import checked_statement
from privrl.files.files import Write, bytes_writer, check_stated, save_all, text_writer
from privrl.files.plain import listed, parse_json
from privrl.files.sharing import check_said, judge_by
from privrl.files.shown import shown
from privrl.numerics.typing import FloatArray

TABLES: Final = "tables.npz"
_FORMATS: Final = "privrl continuous "  # as all pages begin


def is_continuous(content: bytes) -> bool:
    """Whether the content of a file is a page of this module."""
    try:
        page = parse_json(content)
    except ValueError:
        return False  # whoever reads it next says why
    return isinstance(page, dict) and str(page.get("format")).startswith(_FORMATS)


def save_page(folder: Path, files: dict[str, Write]) -> None:
    """Write the files of a page into a folder.

    Raises
    ------
    ValueError
        If the folder is a file.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"path must be a folder, got {str(folder)!r}, which is a file.")
    save_all(folder, files)


def page_files(
    name: str,
    format_: str,
    *,
    statement: dict[str, Any],
    entries: dict[str, Any],
    arrays: dict[str, FloatArray],
) -> dict[str, Write]:
    """Return functions that write a page of plain data and its arrays."""
    file = io.BytesIO()
    np.savez_compressed(file, allow_pickle=False, **arrays)
    raw = file.getvalue()
    page: dict[str, Any] = {"format": format_, "statement": copy.deepcopy(statement)}
    page |= judge_by(name, {"guarantee": statement}).said
    page |= entries | {"tables_sha256": hashlib.sha256(raw).hexdigest()}
    text = json.dumps(page, ensure_ascii=False, allow_nan=False, indent=2)
    return {TABLES: bytes_writer(raw), name: text_writer(f"{text}\n")}


def read_page(folder: Path, name: str) -> dict[str, bytes]:
    """Return the contents of the files of a page, which a ``release.json`` beside them describes.

    Raises
    ------
    ValueError
        If a file is absent, or not that which was released.
    OSError
        If a file cannot be read.
    """
    if not folder.exists():
        raise FileNotFoundError(f"path must be a folder with {name}, got {str(folder)!r}.")
    for each in (name, TABLES):
        if not (folder / each).is_file():
            raise ValueError(f"path must be a folder with {name} and {TABLES}; {each} is absent.")
    files = {each: (folder / each).read_bytes() for each in (name, TABLES)}
    try:
        check_stated(folder / name, files[name])
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    return files


def page_of(
    files: Mapping[str, bytes], name: str, format_: str, entries: tuple[str, ...]
) -> tuple[dict[str, Any], dict[str, NDArray[np.float64]]]:
    """Return a page and its arrays, all of them finite floats.

    Raises
    ------
    ValueError
        If a file is malformed, or they do not belong together.
    """
    raw = files[TABLES]
    try:
        page = parse_json(files[name])
        if not isinstance(page, dict) or page.get("format") != format_:
            got = page.get("format") if isinstance(page, dict) else type(page).__name__
            raise ValueError(f"format must be {shown(format_)}, got {shown(got)}.")
        if set(page) != set(entries):
            raise ValueError(f"entries must be {listed(entries)}, got {listed(page)}.")
        statement = checked_statement(page["statement"])
        check_said(page, judge_by(name, {"guarantee": statement}))
        if hashlib.sha256(raw).hexdigest() != page["tables_sha256"]:
            raise ValueError(f"checksum mismatch: {TABLES} belongs to another page.")
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    return page, _arrays(raw)


def _arrays(raw: bytes) -> dict[str, NDArray[np.float64]]:
    try:
        with np.load(io.BytesIO(raw), allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in archive.files}
    except Exception as error:  # of archives that nobody wrote, NumPy raises many kinds
        raise ValueError(f"{TABLES} must hold arrays: {type(error).__name__}.") from None
    for key, array in arrays.items():
        if array.dtype != np.float64 or not np.isfinite(array).all():
            raise ValueError(f"{TABLES}: {shown(key)} must hold finite floats.")
    return arrays
