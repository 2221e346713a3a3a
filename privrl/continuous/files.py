"""Files of models and policies of continuous states: a page of plain data, and arrays."""

import copy
import hashlib
import io
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray

from privrl.continuous.planning import checked_core
from privrl.continuous.schema import ContinuousSchema
from privrl.envs.released import checked_statement
from privrl.envs.released_files import check_tables_free
from privrl.files.chosen import MayBeChosen, check_file
from privrl.files.files import Write, bytes_writer, check_stated, save_all, text_writer
from privrl.files.fixed import FixedArrays, read_only
from privrl.files.plain import check_page, parse_json
from privrl.files.sharing import check_said, judge_by
from privrl.files.shown import shown
from privrl.numerics.typing import FloatArray

TABLES: Final = "tables.npz"
_FORMATS: Final = "privrl continuous "  # as all pages begin
_ENTRIES: Final = ("format", "statement", "shareable", "because", "schema", "tables_sha256")


def is_continuous(content: bytes) -> bool:
    """Whether the content of a file is a page of this module."""
    try:
        page = parse_json(content)
    except ValueError:
        return False  # whoever reads it next says why
    return isinstance(page, dict) and str(page.get("format")).startswith(_FORMATS)


@dataclass(frozen=True, eq=False, kw_only=True)
class Saved(MayBeChosen, FixedArrays, ABC):
    """A release in a folder: a page of plain data with a privacy statement, and arrays.

    Attributes
    ----------
    schema : ContinuousSchema
        The public ranges.
    core : array, shape (n, 2)
        Between which values of each numeric column there are data, somewhat widened.
    statement : dict or None
        The privacy statement; None for a fit without privacy.
    """

    schema: ContinuousSchema
    core: FloatArray
    statement: dict[str, Any] | None

    _page: ClassVar[str]  # the name of the page
    _format: ClassVar[str]
    _entries: ClassVar[tuple[str, ...]]  # of the page, beside those of all pages

    def __post_init__(self) -> None:
        object.__setattr__(self, "core", checked_core(self.schema, self.core))
        if self.statement is not None:
            object.__setattr__(self, "statement", read_only(checked_statement(self.statement)))

    @abstractmethod
    def _contents(self) -> tuple[dict[str, Any], dict[str, FloatArray]]:
        """Return the entries of the page, and the arrays beside the core."""

    @classmethod
    @abstractmethod
    def _of_contents(
        cls, page: dict[str, Any], arrays: dict[str, FloatArray], **common: Any
    ) -> Self:
        """Return what contents, and attributes of this class, describe."""

    def save(self, path: str | PathLike[str]) -> None:
        """Write into a folder: a page, ``model.json`` or ``policy.json``, and ``tables.npz``.

        Raises
        ------
        ValueError
            If the fit was not private, the model was chosen among several, ``path`` is a file, or
            there are the tables of another page.
        """
        folder, files = Path(path), self.files()
        if folder.exists() and not folder.is_dir():
            raise ValueError(f"path must be a folder, got {str(folder)!r}, which is a file.")
        check_tables_free(folder, self._page)
        save_all(folder, files)

    def files(self) -> dict[str, Write]:
        """Return a function that writes each file of `save`.

        Raises
        ------
        ValueError
            If the fit was not private, or the model was chosen among several.
        """
        check_file(self)
        if self.statement is None:
            raise ValueError("a fit without privacy must not be saved: it is private data.")
        entries, arrays = self._contents()
        file = io.BytesIO()
        np.savez_compressed(file, allow_pickle=False, **arrays, core=self.core)
        raw, statement = file.getvalue(), self.statement
        page: dict[str, Any] = {"format": self._format, "statement": copy.deepcopy(statement)}
        page |= judge_by(self._page, {"guarantee": statement}).said
        page |= {"schema": self.schema.to_dict()} | entries
        page["tables_sha256"] = hashlib.sha256(raw).hexdigest()
        text = json.dumps(page, ensure_ascii=False, allow_nan=False, indent=2)
        return {TABLES: bytes_writer(raw), self._page: text_writer(f"{text}\n")}

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read from a folder that `save` wrote. Nothing in it is run.

        Raises
        ------
        ValueError
            If the folder holds something else, or its files do not belong together.
        OSError
            If the folder does not exist or cannot be read.
        """
        folder, name = Path(path), cls._page
        if not folder.exists():
            raise FileNotFoundError(f"path must be a folder with {name}, got {str(folder)!r}.")
        for each in (name, TABLES):
            if not (folder / each).is_file():
                raise ValueError(
                    f"path must be a folder with {name} and {TABLES}; {each} is absent."
                )
        files = {each: (folder / each).read_bytes() for each in (name, TABLES)}
        try:
            check_stated(folder / name, files[name])
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        return cls.of_files(files)

    @classmethod
    def of_files(cls, files: Mapping[str, bytes]) -> Self:
        """Return what the contents of files, by their names, describe.

        Raises
        ------
        ValueError
            If they are of something else, or do not belong together.
        """
        try:
            entries = (*_ENTRIES[:-1], *cls._entries, _ENTRIES[-1])
            page = check_page(parse_json(files[cls._page]), cls._format, entries)
            statement = checked_statement(page["statement"])
            check_said(page, judge_by(cls._page, {"guarantee": statement}))
            if hashlib.sha256(files[TABLES]).hexdigest() != page["tables_sha256"]:
                raise ValueError(f"checksum mismatch: {TABLES} belongs to another page.")
            arrays = _arrays(files[TABLES])
            if "core" not in arrays:
                raise ValueError(f"{TABLES} must hold core.")
            schema, core = ContinuousSchema.from_dict(page["schema"]), arrays.pop("core")
            return cls._of_contents(page, arrays, schema=schema, core=core, statement=statement)
        except ValueError as error:
            raise ValueError(f"{cls._page}: {error}") from None


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
