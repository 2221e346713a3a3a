"""Schemas to be filled in, made of public facts."""

import os
import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import tomli_w

from privrl.data.schema.columns import Bins, Categories
from privrl.data.schema.entries import Value
from privrl.data.schema.plain import check_names, column_of, dump, is_unfilled, nested, plain, read
from privrl.files.files import (
    bytes_writer,
    check_replaced,
    package_text,
    read_bytes,
    save_all,
    save_new,
)
from privrl.files.plain import did_you_mean, listed
from privrl.files.shown import shown
from privrl.numerics.checks import check_count, check_is

_ADVICE = package_text(__package__, "head.toml")

#: Bounds of a numeric column, with ``"whole"`` if it has whole numbers; None if still unknown.
Bounds = tuple[float, float] | tuple[float, float, str] | None


def template(
    names: Iterable[str],
    *,
    numeric: Mapping[str, Bounds] | None = None,
    categories: Mapping[str, Sequence[Value]] | None = None,
    rest: Collection[str] = (),
    bins: int = 10,
) -> dict[str, Any]:
    """Return plain data for `Schema.from_dict`, in which the user fills in the rest.

    Only what is public is asked for, so that nothing is read from the data.

    Parameters
    ----------
    names : sequence of str
        The columns.
    numeric : mapping from str to (low, high), (low, high, "whole") or None
        Public bounds of the numeric ones; they are cut into bins of equal width. A column with
        ``"whole"`` has whole numbers, and its edges are rounded to whole numbers. None where the
        bounds are to be filled in.
    categories : mapping from str to sequence of str, int or bool
        What other columns hold; empty where that is to be filled in.
    rest : sequence of str
        Columns that get a cell for whatever is missing or not listed.
    bins : int
        How many bins, >= 2.

    Returns
    -------
    dict
        Columns without options have an empty list of categories, and numeric ones without bounds an
        empty list of edges: `from_dict` refuses both by name.

    Raises
    ------
    ValueError
        If a name is repeated, an option names an unknown column, or two name one column, bounds are
        not increasing, categories are equal, or bins are too few. The message lists all errors.
    """
    names = check_names(names)
    bins = check_count("bins", bins, least=2)
    numeric, categories = numeric or {}, categories or {}
    check_is("numeric", numeric, Mapping)
    check_is("categories", categories, Mapping)
    check_is("rest", rest, Collection)
    rest = frozenset(check_names(rest)) if rest else frozenset()
    wrong = [
        text
        for option, given in (("numeric", numeric), ("categories", categories), ("missing", rest))
        for text in _unknown(option, given, names)
    ]
    columns: dict[str, Any] = {}
    for name in names:
        try:
            columns[name] = _column(name, numeric, categories, name in rest, bins)
        except ValueError as error:
            wrong.append(str(error))
    if wrong:
        raise ValueError("\n".join(wrong))
    return {"columns": columns}


def merged(there: Mapping[str, Any], made: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the columns of a schema with those of a template, and which of these are left out.

    Parameters
    ----------
    there, made : mapping
        Plain data of both, as `template` returns them. Entries that are filled in stay; a cell for
        the rest is added if the template has one.

    Returns
    -------
    columns : dict
        Of both; those that were there come first.
    kept : list of str
        Columns of which the template says something else.
    """
    columns: dict[str, Any] = dict(there)
    kept: list[str] = []
    for name, column in made.items():
        old = there.get(name)
        if old is None:
            columns[name] = column
        elif is_unfilled(old) and column.get("categories") != []:
            columns[name] = _with_rest(column, old)
        else:
            columns[name] = _with_rest(old, column)
            if not is_unfilled(column) and _with_rest(column, old) != columns[name]:
                kept.append(name)
    return columns, kept


def write_template(
    path: str | Path,
    names: Iterable[str],
    *,
    numeric: Mapping[str, Bounds] | None = None,
    categories: Mapping[str, Sequence[Value]] | None = None,
    rest: Collection[str] = (),
    bins: int = 10,
) -> "Written":
    """Write a schema file, ``.toml`` or ``.json``, in which the user fills in the rest.

    An existing file is completed: entries that are filled in stay, with their comments.

    Parameters
    ----------
    path : str or pathlib.Path
        Where.
    names, numeric, categories, rest, bins
        As for `template`.

    Returns
    -------
    Written
        What is left to fill in, and which entries were kept.

    Raises
    ------
    ValueError
        As `template`, or if the file's name ends otherwise, or the existing file is not a schema.
    """
    path = Path(path)
    made = template(names, numeric=numeric, categories=categories, rest=rest, bins=bins)["columns"]
    dump(path, {})  # its name is looked at first
    if not os.path.lexists(path):
        content, columns = dump(path, {"columns": made}), made
        kept: list[str] = []
        if path.suffix.lower() == ".toml":
            content = _ADVICE.encode() + content
        save_new(path, content)
    else:
        check_replaced(path)
        there = _there(path)
        columns, kept = merged(there, made)
        if columns != there:
            replace_file(path, {"columns": there}, {"columns": columns}, _ADVICE)
    unfilled = tuple(name for name, column in columns.items() if is_unfilled(column))
    unbounded = tuple(name for name in unfilled if "edges" in columns[name])
    return Written(unfilled, unbounded, tuple(kept))


class Written(NamedTuple):
    """The result of writing a file.

    Attributes
    ----------
    unfilled : tuple of str
        The columns to be filled in; if none, the file is complete.
    unbounded : tuple of str
        Those of them that are numeric.
    kept : tuple of str
        Columns that were filled in otherwise than was asked for now, and were left as they are.
    """

    unfilled: tuple[str, ...]
    unbounded: tuple[str, ...]
    kept: tuple[str, ...]


def _there(path: Path) -> dict[str, Any]:
    """Return the columns of a schema file, some of which may be to be filled in."""
    try:
        data = read(path)
        if not isinstance(data, dict) or set(data) != {"columns"}:
            raise ValueError("a schema must have one entry, 'columns'")
        columns = data["columns"]
        if not isinstance(columns, dict):
            raise ValueError("columns must map names to columns")
        for name, column in columns.items():
            if not is_unfilled(column):
                column_of(name, column)
    except ValueError as error:
        raise ValueError(
            f"{path.name} exists and is not a schema to complete: {str(error).rstrip('.')}. "
            "Correct it, or write another file: --out."
        ) from None
    return columns


def replace_file(path: Path, there: Mapping[str, Any], data: dict[str, Any], advice: str) -> None:
    """Replace a file by other plain data; in TOML, what is not about a change stays as it is.

    Parameters
    ----------
    path : pathlib.Path
        The file, ``.toml`` or ``.json``.
    there : mapping
        Its data now.
    data : dict
        Its data then.
    advice : str
        The comment above a TOML file that has to be written anew.
    """
    content = dump(path, data)
    if path.suffix.lower() == ".toml":
        text = _edited(read_bytes(path).decode("utf-8-sig"), there, data)
        content = advice.encode() + content if text is None else text.encode()
    save_all(path.parent, {path.name: bytes_writer(content)})


def _edited(text: str, there: Mapping[str, Any], data: dict[str, Any]) -> str | None:
    """Return the text of a TOML file with other data, table by table; None if it cannot be done."""
    head, *blocks = re.split(r"^(?=\[)", text, flags=re.MULTILINE)
    try:
        old = {path: block for block in blocks for path, _ in _tables(tomllib.loads(block))}
    except ValueError:
        return None
    before = dict(_tables(there))
    for key, value in data.items():
        if not isinstance(value, dict) and there.get(key) != value:
            line = tomli_w.dumps({key: value})
            head, found = re.subn(rf"^{key}[ \t]*=.*\n", lambda _, new=line: new, head, flags=re.M)
            head = head if found else head.rstrip("\n") + "\n" + line + "\n"
    made = head
    for path, table in _tables(data):
        block = old.get(path, "")
        if not block or before.get(path) != table:
            comments = re.search(r"(?<=\n)([ \t]*(#.*)?\n)*\Z", block)
            block = tomli_w.dumps(nested(path, table)) + (comments[0] if comments and block else "")
            if path not in old:
                made, block = made.rstrip("\n") + "\n\n", block + "\n"
        made += block
    try:
        return made.rstrip("\n") + "\n" if tomllib.loads(made) == data else None
    except ValueError:
        return None


def _tables(
    data: Mapping[str, Any], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """Yield the tables that hold values, or nothing, each with its place."""
    for key, value in data.items():
        if isinstance(value, Mapping):
            below = any(isinstance(each, Mapping) for each in value.values())
            if below:
                yield from _tables(value, (*path, key))
            else:
                yield (*path, key), value


def _with_rest(column: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return a column with a cell for the rest, if another one has such."""
    flag = "missing" if "edges" in column else "other"
    has = other.get("other", False) or other.get("missing", False)
    return {**column, flag: True} if has else dict(column)


def _unknown(option: str, given: Iterable[str], names: Sequence[str]) -> list[str]:
    known = frozenset(names)
    unknown = [name for name in given if name not in known]
    if not unknown:
        return []
    return [
        f"{option} must name columns, got {listed(unknown)}; the columns are {listed(names)}"
        + did_you_mean(unknown[0], names)
    ]


def _column(
    name: str,
    numeric: Mapping[str, Bounds],
    categories: Mapping[str, Sequence[Value]],
    rest: bool,
    bins: int,
) -> dict[str, Any]:
    if name in numeric and name in categories:
        raise ValueError(f"column {shown(name)} must be in numeric or in categories, got both.")
    if name not in numeric:
        values = categories.get(name, ())
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise ValueError(
                f"categories of {shown(name)} must be a sequence, got {shown(values)}."
            )
        values = tuple(values)
        return plain(Categories(values, rest)) if values else ({"categories": [], "other": rest})
    bounds = numeric[name]
    if bounds is None:
        return {"edges": [], "missing": rest}
    return plain(_even(name, bounds, bins, missing=rest))


def parse_bounds(texts: Iterable[str]) -> dict[str, Bounds]:
    """Return the bounds that texts like ``"age=0:100"`` state, for `write_template`.

    ``"age=0:100:whole"`` states that the column has whole numbers.

    Raises
    ------
    ValueError
        If a text is of another form, or a column is there twice.
    """
    bounds: dict[str, Bounds] = {}
    for text in texts:
        check_is("numeric", text, str)
        name, _, ends = text.rpartition("=")
        low, *rest = ends.removesuffix(":whole").split(":")
        try:
            pair = float(low), *map(float, rest)
        except ValueError:
            pair = ()
        if not name or len(pair) != 2:
            raise ValueError(
                f"numeric must be like 'age=0:100' or 'age=0:100:whole', got {shown(text)}."
            )
        if name in bounds:
            raise ValueError(f"numeric must name a column once, got {shown(name)} twice.")
        bounds[name] = (*pair, "whole") if ends.endswith(":whole") else pair
    return bounds


def _even(name: str, bounds: Any, bins: int, *, missing: bool) -> Bins:
    whole = isinstance(bounds, Sequence) and tuple(bounds[2:]) == ("whole",)
    if not isinstance(bounds, Sequence) or isinstance(bounds, str) or len(bounds) - whole != 2:
        raise ValueError(
            f"numeric of {shown(name)} must be (low, high) or (low, high, 'whole'), got "
            f"{shown(bounds)}."
        )
    try:
        return Bins.even(bounds[0], bounds[1], bins, missing=missing, whole=whole)
    except ValueError as error:
        raise ValueError(f"numeric of {shown(name)}: {error}") from None
