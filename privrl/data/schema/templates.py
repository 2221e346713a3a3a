"""Schemas to be filled in, made of names and bounds only."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from privrl._checks import check_count, check_is
from privrl._files import check_ends, save_new
from privrl._plain import listed
from privrl.data.schema.columns import Bins
from privrl.data.schema.plain import check_names, dump, is_unfilled, plain

_ADVICE = """\
# A schema is public. Fill in each empty list of categories from what everybody may know of the
# column, not from the data: texts in quotes, whole numbers, or true and false, at least two.
# other = true adds a cell for whatever is unknown or missing, missing = true one for whatever is
# missing or no number. Without them a record that does not fit stops the reading, which tells of
# it.

"""


def template(
    names: Iterable[str],
    *,
    numeric: Mapping[str, tuple[float, float]] | None = None,
    bins: int = 10,
) -> dict[str, Any]:
    """Return plain data for `Schema.from_dict` in which the user fills in the categories.

    Only names and bounds are asked for, so that nothing is read from the data.

    Parameters
    ----------
    names : sequence of str
        The columns.
    numeric : mapping from str to (float, float)
        Public bounds of the numeric ones; they are cut into bins of equal width.
    bins : int
        How many bins, >= 2.

    Returns
    -------
    dict
        Columns that are not numeric have an empty list of categories, which `from_dict`
        refuses by name.

    Raises
    ------
    ValueError
        If a name is given twice, bounds are of no column or not increasing, or there are too
        few bins.
    """
    names = check_names(names)
    numeric = {} if numeric is None else numeric
    bins = check_count("bins", bins, least=2)
    known = set(names)
    unknown = [name for name in numeric if name not in known]
    if unknown:
        raise ValueError(
            f"numeric must name columns, got {listed(unknown)}; the columns are {listed(names)}."
        )
    columns: dict[str, Any] = {}
    for name in names:
        if name in numeric:
            columns[name] = plain(_even(name, numeric[name], bins))
        else:
            columns[name] = {"categories": [], "other": False}
    return {"columns": columns}


def write_template(
    path: str | Path,
    names: Iterable[str],
    *,
    numeric: Mapping[str, tuple[float, float]] | None = None,
    bins: int = 10,
) -> tuple[str, ...]:
    """Write a schema file, ``.toml`` or ``.json``, in which the user fills in the categories.

    Parameters
    ----------
    path : str or pathlib.Path
        Where; a file that is there is not replaced.
    names, numeric, bins
        As for `template`.

    Returns
    -------
    tuple of str
        The columns to be filled in; if none, the file is complete.

    Raises
    ------
    ValueError
        As `template`, or if the file's name ends otherwise.
    FileExistsError
        If the file exists: what was filled in is not lost.
    """
    path = Path(path)
    data = template(names, numeric=numeric, bins=bins)
    content = dump(path, data)
    unfilled = tuple(name for name, column in data["columns"].items() if is_unfilled(column))
    if path.suffix.lower() == ".toml":
        content = _ADVICE.encode() + content
    save_new(path, content)
    return unfilled


def read_header(path: str | Path, *, separator: str = ",") -> tuple[str, ...]:
    """Return the column names of a CSV file, from its first row; no other row is used.

    Raises
    ------
    ValueError
        If the file is empty, or a name is empty or there twice.
    """
    path = Path(path)
    check_ends(path)
    with path.open("rb") as file:
        lines = (line.decode("utf-8-sig") for line in file)  # no line further than the header
        try:
            row = next(csv.reader(lines, delimiter=separator), [])
        except (UnicodeDecodeError, csv.Error):
            raise ValueError(
                f"{path.name} must begin with a header row of a CSV file in UTF-8."
            ) from None
    if not row:
        raise ValueError(f"{path.name} must have a header row, and is empty.")
    return check_names(row)


def parse_bounds(texts: Iterable[str]) -> dict[str, tuple[float, float]]:
    """Return the bounds that texts like ``"age=0:100"`` state, for `write_template`.

    Raises
    ------
    ValueError
        If a text is of another form, or a column is there twice.
    """
    bounds: dict[str, tuple[float, float]] = {}
    for text in texts:
        check_is("numeric", text, str)
        name, _, ends = text.rpartition("=")
        low, _, high = ends.partition(":")
        try:
            pair = (float(low), float(high))
        except ValueError:
            pair = None
        if not name or pair is None:
            raise ValueError(f"numeric must be like 'age=0:100', got {text!r}.")
        if name in bounds:
            raise ValueError(f"numeric must name a column once, got {name!r} twice.")
        bounds[name] = pair
    return bounds


def _even(name: str, bounds: tuple[float, float], bins: int) -> Bins:
    if not isinstance(bounds, Sequence) or isinstance(bounds, str) or len(bounds) != 2:
        raise ValueError(f"numeric of {name!r} must be (low, high), got {bounds!r}.")
    try:
        return Bins.even(bounds[0], bounds[1], bins)
    except ValueError as error:
        raise ValueError(f"numeric of {name!r}: {error}") from None
