"""Schemas as plain data, and plain data as files."""

import json
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import tomli_w

from privrl.data.schema.columns import Bins, Categories, Column, heading
from privrl.data.schema.released import BinsRelease
from privrl.files.files import bytes_writer, read_bytes, save_all
from privrl.files.plain import check_writable, listed, parse_json
from privrl.files.shown import shown

_EXAMPLES = {"categories": 'categories = ["one", "another"]', "edges": "edges = [0, 20, 40, 60]"}


def example_of(name: object, key: str) -> str:
    """Return what a file may say of a column of ``"categories"`` or ``"edges"``, to be pasted."""
    return f"{heading(name)}\n{_EXAMPLES[key]}"


def plain(column: Column) -> dict[str, Any]:
    """Return a column as `column_of` reads it."""
    if isinstance(column, Categories):
        return {"categories": list(column.values), "other": column.other}
    data: dict[str, Any] = {"edges": list(column.edges), "missing": column.missing}
    if column.whole:
        data |= {"edges": list(map(int, column.edges)), "whole": True}
    if column.released is not None:
        data["released"] = column.released.to_dict()
    return data


def is_unfilled(column: Any) -> bool:
    """Whether a column is as a template leaves it."""
    return isinstance(column, Mapping) and [] in (column.get("categories"), column.get("edges"))


def nested(path: Sequence[str], table: Any) -> Any:
    """Return a table inside one table for each name."""
    for key in reversed(path):
        table = {key: table}
    return table


def column_of(name: str, data: Any) -> Column:
    """Return the column that plain data describe."""
    if not isinstance(data, Mapping):
        raise ValueError(f"column {shown(name)} must be a table of entries, got {shown(data)}.")
    keys = set(data)
    try:
        if "categories" in keys and keys <= {"categories", "other"}:
            return Categories(_listing(data["categories"]), data.get("other", False))
        if "edges" in keys and keys <= {"edges", "missing", "whole", "released"}:
            flags = data.get("missing", False), data.get("whole", False)
            by = BinsRelease.from_dict(data["released"]) if "released" in data else None
            return Bins(_listing(data["edges"]), *flags, by)
    except ValueError as error:
        raise ValueError(f"column {shown(name)}: {error}") from None
    raise ValueError(
        f"column {shown(name)} must have 'categories' and perhaps 'other', or 'edges' and perhaps "
        f"'missing', 'whole' and 'released', got {listed(data)}; such as\n\n"
        f"{example_of(name, 'categories')}\n"
    )


def _listing(values: Any) -> tuple[Any, ...]:
    if not isinstance(values, list | tuple):
        raise ValueError(f"categories and edges must be lists, got {shown(values)}.")
    return tuple(values)


def _suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in {".toml", ".json"}:
        raise ValueError(f"a schema or network must end in .toml or .json, got {shown(path.name)}.")
    return suffix


def dump(path: Path, data: dict[str, Any]) -> bytes:
    """Return the content of the file that holds plain data."""
    if _suffix(path) == ".json":
        return (json.dumps(data, indent=2, ensure_ascii=False) + "\n").encode()
    return tomli_w.dumps(data).encode()


def read(path: Path) -> Any:
    """Return the plain data that a file holds."""
    suffix = _suffix(path)
    text = read_bytes(path).decode("utf-8-sig")
    if suffix == ".toml":
        try:
            return tomllib.loads(text)
        except RecursionError:
            raise ValueError("brackets must not be nested so deeply.") from None
    return parse_json(text)


def read_page(path: Path) -> Any:
    """Return the plain data that a file holds; errors name the file. A pipe is read once."""
    try:
        return read(path)
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None


def check_name(name: str) -> None:
    """Check that a column's name is a text."""
    if not isinstance(name, str) or not name:
        raise ValueError(f"a column's name must be a text that is not empty, got {shown(name)}.")
    check_writable("a column's name", name)


def check_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return names if they differ and are at least one."""
    if isinstance(names, str):
        raise ValueError(f"names must be several names, got the one text {shown(names)}.")
    names = tuple(names)
    for name in names:
        check_name(name)
    if len(set(names)) < len(names):  # there may be many
        repeated = [name for name, times in Counter(names).items() if times > 1]
        raise ValueError(f"names must be different, got {listed(repeated)} twice.")
    if not names:
        raise ValueError("names must be of at least one column, got none.")
    return names


def check_once(what: str, present: Iterable[Any], names: Sequence[str]) -> None:
    """Check that each of the names is present once."""
    times = Counter(present)
    absent = [name for name in names if not times[name]]
    if absent:
        raise ValueError(f"{what} must have all columns of the schema; {listed(absent)} absent.")
    twice = [name for name in names if times[name] > 1]
    if twice:
        raise ValueError(f"{what} must have each column once; {listed(twice)} there twice.")


class PlainFile:
    """Plain data that a file ``.toml`` or ``.json`` holds."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, of the form that `from_dict` reads."""
        raise NotImplementedError

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return what plain data describe."""
        raise NotImplementedError

    def save(self, path: str | Path) -> None:
        """Write it to a file ``.toml`` or ``.json``, replacing it whole.

        Raises
        ------
        ValueError
            If the file's name ends otherwise, or it is a ledger.
        """
        path = Path(path)
        save_all(path.parent, {path.name: bytes_writer(dump(path, self.to_dict()))})

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Return what a file ``.toml`` or ``.json`` describes.

        Raises
        ------
        ValueError
            If the file's name ends otherwise, or its content is something else.
        """
        return cls.of_page(Path(path), read_page(Path(path)))

    @classmethod
    def of_page(cls, path: Path, data: Any) -> Self:
        """Return what the plain data of a file describe; errors name the file."""
        try:
            return cls.from_dict(data)
        except ValueError as error:
            wrong = cls._unfilled(data, path) or error
            raise ValueError(f"{path.name}: {wrong}") from None

    @staticmethod
    def _unfilled(data: Any, path: Path) -> str:
        """Return what a message says if entries are still to be filled in, or nothing."""
        del data, path
        return ""
