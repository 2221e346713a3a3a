"""Copies of the shareable files in an output folder; `privrl.files.sharing` decides which."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privrl.files import sharing
from privrl.files.files import check_folder, read_own, statement_text
from privrl.files.plain import parse_json
from privrl.files.sharing import STATEMENTS, Verdict


@dataclass(frozen=True)
class Copy:
    """The shareable part of a folder.

    Attributes
    ----------
    files : dict
        The content of each file of the copy, statements last.
    verdicts : dict
        Whether each file of the folder, or named by a statement in it, is shared, and why.
    guarantees : dict
        The cost of the release, by the name of each statement of the copy.
    is_whole : bool
        Whether the folder is such a copy itself, with nothing else in it.
    """

    files: dict[str, bytes]
    verdicts: dict[str, Verdict]
    guarantees: dict[str, Mapping[str, Any]]
    is_whole: bool


def copy_of(folder: Path) -> Copy:
    """Read the shareable part of a folder, checking each file against its statement.

    Nothing else is read: no private file, no link, nothing outside of the folder.

    Raises
    ------
    ValueError
        If it is not the output folder of a command, or its files were changed.
    OSError
        If it cannot be read.
    """
    if not folder.is_dir():
        raise ValueError(
            f"folder must be the output folder of a command, got {str(folder)!r}, which is not a "
            "folder; pass the command's --out."
        )
    there = sorted(path.name for path in folder.iterdir())
    about = [name for name in STATEMENTS if name in there]
    if not about:
        raise ValueError(
            f"folder must be the output folder of a command, got {str(folder)!r}, which has "
            f"none of {', '.join(STATEMENTS)}; only these record the cost of its files."
        )
    files: dict[str, bytes] = {}
    statements: dict[str, bytes] = {}
    verdicts: dict[str, Verdict] = {}
    guarantees: dict[str, Mapping[str, Any]] = {}
    whole = True
    for name in about:
        with _named(name):
            said = parse_json(read_own(folder / name).decode())
            here = sharing.verdicts_of(said)
            names = [each for each, verdict in here.items() if verdict.shareable]
            if names:
                guarantees[name] = said["guarantee"]
                statements[name] = statement_text(sharing.shared(name, said, names))
        for each in names:
            with _named(each):
                files[each] = read_own(folder / each, said["sha256"][each])
        verdicts |= {each: verdict for each, verdict in here.items() if each in there}
        verdicts[name] = sharing.judge_statement(of_shared=bool(names))
        whole &= sharing.is_copy(said)
    others = {each: sharing.judge_alone(each) for each in there if each not in verdicts}
    files |= statements
    return Copy(files, verdicts | others, guarantees, is_whole=whole and set(there) == set(files))


def check_place(to: Path, folder: Path, *, force: bool) -> None:
    """Check that a copy of a folder may be written to a place.

    Raises
    ------
    ValueError
        If the place is inside the folder, is a file or the current directory, or is not empty. With
        ``force`` it may hold an earlier copy, and nothing else.
    """
    check_folder(to, "to")
    place, source = to.resolve(), folder.resolve()
    if place == source or source in place.parents:
        raise ValueError(
            f"to must be a folder outside of {str(folder)!r}, got {str(to)!r}: keep shared files "
            "apart from private ones."
        )
    if to.is_symlink() or place == Path.cwd():
        raise ValueError(f"to must be a new folder, got {str(to)!r}.")
    if not to.exists() or not any(to.iterdir()):
        return
    if not force:
        raise ValueError(
            f"to must be a new folder, or an empty one, got {str(to)!r}; choose another, or add "
            "--force to overwrite an earlier copy."
        )
    try:
        fine = copy_of(to).is_whole
    except ValueError:
        fine = False
    if not fine:
        raise ValueError(
            f"to must hold only an earlier copy to be overwritten, got {str(to)!r}; "
            "choose another folder."
        )


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Put the file's name before an error message."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{name} {error}") from None
    except RecursionError:
        raise ValueError(f"{name} must not have brackets nested so deeply.") from None
