"""What a report may read of a folder: all that it needs, or what may be shared and nothing else."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from privrl.files import copies as _copies
from privrl.files import files as _files
from privrl.files import sharing as _sharing
from privrl.files.plain import parse_json

Audience = Literal["researcher", "public"]

#: What each audience's page is called.
NAMES: Final[Mapping[Audience, str]] = {
    "researcher": "report-researcher.html",
    "public": "report-public.html",
}
#: Files whose numbers a page shows. Pictures, Parquet, synthetic records and databases are not.
_SHOWN: Final = frozenset(
    ("histogram.json", "model.json", "tables.npz", "policy.json", "record.csv",
     "results.csv", "curves.csv", "suite.csv")
)  # fmt: skip


@dataclass(frozen=True)
class Contents:
    """Files of a folder, and what the statement about them says.

    Attributes
    ----------
    audience : str
        Whom it is for.
    name : str
        What the statement is called.
    statement : mapping
        For the public what may be shared of it.
    files : mapping
        The content of each file that is shown, as its statement knows it.
    """

    audience: Audience
    name: str
    statement: Mapping[str, Any]
    files: Mapping[str, bytes]


def contents_of(folder: Path, audience: Audience | None = None) -> Contents:
    """Read what a report for an audience is made of.

    For the public that is what `privrl.files.copies.copy_of` returns, so that a page for it can
    hold only what ``privrl share`` would copy. By default it is for the public where there is such,
    and else for the researcher.

    Raises
    ------
    ValueError
        If no command wrote the folder, what is there is not what was written, or it is to be for
        the public and nothing of it may be shared.
    OSError
        If it cannot be read.
    """
    copy = _copies.copy_of(folder)
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
            f"nothing of {str(folder)!r} may be shared ({reasons}); a page for yourself: "
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
