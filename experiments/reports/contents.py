"""The files of a folder that a report may read: all of them, or only shareable ones."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from privrl.files import copies as _copies
from privrl.files import files as _files
from privrl.files import sharing as _sharing
from privrl.files.plain import listed, parse_json

Audience = Literal["researcher", "public"]

#: File name of each audience's page.
NAMES: Final[Mapping[Audience, str]] = {
    "researcher": "report-researcher.html",
    "public": "report-public.html",
}
#: Files that a page shows; not other pictures, Parquet, synthetic records or databases.
_SHOWN: Final = frozenset(
    ("histogram.json", "model.json", "tables.npz", "policy.json", "policy.png", "record.csv",
     "results.csv", "curves.csv", "suite.csv")
)  # fmt: skip


@dataclass(frozen=True)
class Contents:
    """Files of a folder and the statement about them.

    Attributes
    ----------
    audience : str
        The reader.
    name : str
        File name of the statement.
    statement : mapping
        Its content; for the public the shareable part.
    files : mapping
        The content of each file to show, whose digest the statement has.
    """

    audience: Audience
    name: str
    statement: Mapping[str, Any]
    files: Mapping[str, bytes]


def contents_of(folder: Path, audience: Audience | None = None) -> Contents:
    """Read the sources of a report for an audience.

    For the public these are the files that ``privrl share`` would copy
    (`privrl.files.copies.copy_of`).
    The default audience is the public if any exists, and otherwise the researcher.

    Raises
    ------
    ValueError
        If no command wrote the folder, a file was changed or is of none of its statements, or the
        audience is the public and no file may be shared.
    OSError
        If it cannot be read.
    """
    copy = _copies.copy_of(folder)
    _check_stated(folder)
    if copy.files and audience != "researcher":
        name = next(name for name in copy.files if name in _sharing.STATEMENTS)
        statement = parse_json(copy.files[name].decode())
        files = {each: copy.files[each] for each in statement["sha256"] if each in _SHOWN}
        return Contents("public", name, statement, files)
    if audience == "public":
        reasons = "; ".join(
            f"{name}: {verdict.because}"
            for name, verdict in sorted(copy.verdicts.items())
            if name in _SHOWN
        )
        raise ValueError(
            f"nothing of {str(folder)!r} may be shared ({reasons}); for a page for yourself add "
            "--for researcher."
        )
    name = next(name for name in _sharing.STATEMENTS if (folder / name).exists())
    statement = parse_json(_files.read_own(folder / name).decode())
    files = {
        each: _files.read_own(folder / each, digest)
        for each, digest in statement["sha256"].items()
        if each in _SHOWN
    }
    return Contents("researcher", name, statement, files)


def _check_stated(folder: Path) -> None:
    """Check that the folder's statements are about all that a page could be taken to show."""
    about = [folder / name for name in _sharing.STATEMENTS if (folder / name).exists()]
    stated = {each for path in about for each in parse_json(_files.read_own(path))["sha256"]}
    foreign = sorted(each for each in _SHOWN - stated if (folder / each).exists())
    if foreign:
        raise ValueError(
            f"folder must hold the files of one command, got {listed(foreign)} besides, which "
            f"{listed([path.name for path in about])} does not state; move such files elsewhere."
        )
