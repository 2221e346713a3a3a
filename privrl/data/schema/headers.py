"""The first line of a CSV file: names of columns, or what only looks like them.

With a wrong separator, or without a header, a schema would have one column, or a person's record as
names. Messages about such a line contain numbers of fields and separators, never a field.
"""

import csv
import shlex
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Final

from privrl.data.schema.plain import check_names
from privrl.data.schema.texts import number_in
from privrl.files.files import check_ends

SEPARATORS: Final = {",": "','", ";": "';'", "\t": "tab", "|": "'|'"}


class NoHeader(ValueError):
    """A file whose first line is like a record; ``fields`` says of how many."""

    def __init__(self, message: str, fields: int) -> None:
        super().__init__(message)
        self.fields = fields


#: How files begin that are no text, what they are, and how they become text.
_KINDS = {
    b"PK": ("an Excel workbook or another archive", "save it as CSV UTF-8 where it was made"),
    b"PAR1": ("Parquet", "pandas.read_parquet(...).to_csv(..., index=False) converts it"),
    b"ARROW1": ("Feather", "pandas.read_feather(...).to_csv(..., index=False) converts it"),
    b"\x1f\x8b": ("compressed", "gunzip unpacks it"),
    b"\xff\xfe": ("in UTF-16", "iconv -f UTF-16 -t UTF-8 converts it"),
    b"\xfe\xff": ("in UTF-16", "iconv -f UTF-16 -t UTF-8 converts it"),
}


def not_utf8(path: Path) -> str:
    """Return what a file must be that is none in UTF-8, and how it becomes one.

    Of what is in it only the first bytes are looked at, which say of what kind files are.
    """
    start = b""
    if path.is_file():  # a pipe is read once
        with path.open("rb") as file:
            start = file.read(8)
    for mark, (kind, then) in _KINDS.items():
        if start.startswith(mark):
            return f"be text in UTF-8, and is {kind}; {then}"
    return "be text in UTF-8; convert it first, one of Windows by iconv -f WINDOWS-1252 -t UTF-8"


def read_header(
    path: str | Path, *, separator: str = ",", known: Collection[str] | None = None
) -> tuple[str, ...]:
    """Return the column names of a CSV file, from its first row; no other row is used.

    Blanks around names are left out.

    Parameters
    ----------
    path : str or pathlib.Path
        The file.
    separator : str
        The one character between fields.
    known : collection of str, optional
        Names of columns that the user knows. The row must contain one of them, or it may be a
        record. By default the caller states that the file has a row of names.

    Raises
    ------
    NoHeader
        A ValueError: a field is a number, or none is a known name, so that the row may be a record.
    ValueError
        If the file is empty, a name is empty or repeated, or the only field contains another
        separator. No message shows a field.
    """
    path = Path(path)
    check_ends(path)
    with path.open("rb") as file:
        first = file.readline().splitlines()[:1]  # a quote that is not closed goes no further
        try:
            lines = [line.decode("utf-8-sig") for line in first]
            row, wrong = next(csv.reader(lines, delimiter=separator, strict=True), []), ""
        except UnicodeDecodeError:
            row, wrong = [], not_utf8(path)
        except csv.Error:
            row, wrong = [], "begin with a header row; its first line cannot be read as fields"
    if wrong:
        raise ValueError(f"{path.name} must {wrong}.")
    if not row:
        raise ValueError(f"{path.name} must have a header row, and is empty.")
    row = [field.strip() for field in row]
    hint = other_separator(row, separator)
    if hint:
        raise ValueError(f"{path.name} must begin with a header row; {hint}.")
    numbers = count_numbers(row)
    if numbers:
        raise NoHeader(
            f"{path.name} must begin with a row of names, and its first line is like a record: "
            f"{numbers} of its {len(row)} fields are numbers. Say what the columns are called: "
            "--columns age,job,... in their order.",
            len(row),
        )
    if known is not None and not {name.strip() for name in known} & set(row):
        raise NoHeader(
            f"{path.name} has a first line of {len(row)} fields that may be a record: none of them "
            "is a name that you gave. Name a column, such as --numeric age=0:100, or add --header "
            "if the line is a row of names.",
            len(row),
        )
    hint = _not_names(row)  # last, as it would tell of a record what is empty or the same
    if hint:
        raise ValueError(f"{path.name} must begin with a header row; {hint}.")
    return check_names(row)


def other_separator(row: Sequence[str], separator: str) -> str:
    """Return the message about a row of one field with another separator in it."""
    if len(row) != 1:
        return ""
    found = {each: row[0].count(each) for each in SEPARATORS if each != separator}
    most = max(found, key=lambda each: found[each])
    if not found[most]:
        return ""
    name = SEPARATORS[most]
    return f"its first line has one field, and {name} in it {found[most]} times: --separator {name}"


def count_numbers(row: Iterable[str]) -> int:
    """Return how many fields are numbers, as names of columns are not."""
    return sum(number_in(field) == number_in(field) for field in row)  # none is NaN


def with_names(path: Path, names: Iterable[str], separator: str = ",") -> str:
    """Return a command that writes a copy of a file which begins with a row of names."""
    line, file = shlex.quote(separator.join(names)), shlex.quote(str(path))
    return f"(echo {line}; cat {file}) > with-names.csv"


def _not_names(row: Sequence[str]) -> str:
    """Return why fields cannot be names, without showing one."""
    empty = [str(place) for place, field in enumerate(row, 1) if not field]
    if empty:
        return f"field {', '.join(empty)} of {len(row)} is empty, and a column needs a name"
    first: dict[str, int] = {}
    for place, field in enumerate(row, 1):
        if first.setdefault(field, place) != place:
            return f"its fields {first[field]} and {place} are the same, and would be named twice"
    return ""
