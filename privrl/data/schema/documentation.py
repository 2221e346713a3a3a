"""The documentation of a data set's columns, in the format of C4.5 and UCI.

A line for each column, ``workclass: Private, Self-emp-not-inc.`` or ``age: continuous.``; a line of
values alone, before all columns, is of the classes. Values end with a point, and text behind ``|``
is a comment. Documentation is public; it says that a column is of numbers, and not between which
bounds. A file of records may look alike, so whatever is of another form is refused, and not shown.
Records of the same form, ``Anna Meier: diabetes, asthma.``, are not recognised: a schema takes only
what is said of the columns of a table (`Documentation.named`).

References
----------
J. R. Quinlan. *C4.5: programs for machine learning* (1993), of files called ``.names``.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from privrl.data.schema.entries import Value
from privrl.data.schema.texts import number_in, values_in
from privrl.files.files import read_bytes
from privrl.files.plain import listed
from privrl.files.shown import shown
from privrl.numerics.checks import check_is

#: What the classes are called where the documentation has no name for them.
CLASS: Final = "class"

_OF_RECORDS: Final = (".csv", ".data", ".tsv")


@dataclass(frozen=True)
class Documentation:
    """The documented columns.

    Attributes
    ----------
    categories : mapping from str to tuple
        Of each column that holds some values, those; empty where they are not listed.
    continuous : tuple of str
        Columns of numbers.
    names : tuple of str
        All columns in the file's order, the classes last where they are named by `CLASS`.
    classes : str, optional
        The column of classes, where they are listed as such.
    """

    categories: Mapping[str, tuple[Value, ...]]
    continuous: tuple[str, ...]
    names: tuple[str, ...]
    classes: str | None = None

    def named(self, header: Iterable[str]) -> "Documentation":
        """Return the same with a file's own names, without columns that the file lacks.

        Case, points, blanks, hyphens and underscores are ignored. The classes may have any name:
        that of the one undocumented column.
        """
        header = tuple(header)
        of = {_key(name): name for name in self.names}
        own = {name: of[_key(name)] for name in header if _key(name) in of}
        rest = [name for name in header if name not in own]
        if self.classes is not None and self.classes not in own.values() and len(rest) == 1:
            own[rest[0]] = self.classes
        classes = [name for name in own if own[name] == self.classes]
        return Documentation(
            {name: self.categories[own[name]] for name in own if own[name] in self.categories},
            tuple(name for name in own if own[name] in self.continuous),
            tuple(name for name in header if name in own),
            classes[0] if classes else None,
        )


def read_documentation(path: str | Path) -> Documentation:
    """Return what a file of documentation says of columns.

    Use `Documentation.named` with the names of a table: a line of records may look like one.

    Raises
    ------
    ValueError
        If a column is repeated, or none is described, or a line may be a record. No message shows
        a part of a line.
    OSError
        If the file cannot be read.
    """
    path = Path(path)
    if path.suffix.lower() in _OF_RECORDS:
        raise _not_so(path, f"a file of records ({path.suffix}), which --csv takes")
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{path.name} must be text in UTF-8; convert it first.") from None
    lines = [line.partition("|")[0].strip() for line in text.splitlines()]
    entries = [(number, line) for number, line in enumerate(lines, 1) if line]
    classes = _values(entries[0][1]) if entries and ":" not in entries[0][1] else ()
    categories: dict[str, tuple[Value, ...]] = {}
    continuous: list[str] = []
    names: list[str] = []
    for number, entry in entries[1:] if classes else entries:
        name, said = _column(entry)
        if not name or name in names:
            raise _not_so(path, f"another one, line {number}, which may be a record")
        values = _values(said)
        if [value.lower() for value in _texts(said)] == ["continuous"]:
            continuous.append(name)
        elif values or re.fullmatch(r"discrete(\s+\d+)?\.?", said):
            categories[name] = values
        else:
            continue  # a sentence with a colon in it, or a column that is to be ignored
        names.append(name)
    if not names:
        raise _not_so(path, "none")
    if not classes or CLASS in names:
        return Documentation(categories, tuple(continuous), tuple(names))
    return Documentation(
        categories | {CLASS: classes}, tuple(continuous), (*names, CLASS), classes=CLASS
    )


def parse_categories(texts: Iterable[str]) -> dict[str, tuple[Value, ...]]:
    """Return the categories that texts like ``"job=clerk,smith"`` state, for `write_template`.

    Raises
    ------
    ValueError
        If a text is of another form, or a column is there twice.
    """
    found: dict[str, tuple[Value, ...]] = {}
    for text in texts:
        check_is("categories", text, str)
        name, equals, said = text.partition("=")
        name, values = name.strip(), [word.strip() for word in said.split(",") if word.strip()]
        if not name or not equals or not values:
            raise ValueError(f"categories must be like 'job=clerk,smith,none', got {shown(text)}.")
        if name in found:
            raise ValueError(f"categories must name a column once, got {listed([name])} twice.")
        found[name] = values_in(values)
    return found


def _not_so(path: Path, got: str) -> ValueError:
    return ValueError(
        f"{path.name} must have lines such as 'workclass: Private, State-gov.' and 'age: "
        f"continuous.', once for each column, and comments behind '|', got {got}. Or write the "
        "categories by --categories."
    )


def _column(entry: str) -> tuple[str, str]:
    """Return a column's name and its description; no name if a line is of another form."""
    name, _, said = (part.strip() for part in entry.partition(":"))
    is_name = math.isnan(number_in(name)) and not re.search(r"""[,;\t"']""", name)
    is_said = ":" not in said and ("," not in said or said.endswith("."))
    is_time = re.search(r"\d:\d", entry)
    return (name, said) if said and is_name and is_said and not is_time else ("", "")


def _values(said: str) -> tuple[Value, ...]:
    """Return the values that a line lists, if they are at least two."""
    texts = _texts(said)
    whole = len(texts) > 1 and all(texts) and len(set(texts)) == len(texts)
    return values_in(texts) if whole else ()


def _texts(said: str) -> list[str]:
    return [text.strip() for text in said.removesuffix(".").split(",")]


def _key(name: str) -> str:
    return re.sub(r"[\W_]", "", name.casefold())
