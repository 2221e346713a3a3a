"""The output files of runs: written atomically, and never next to the statement of others.

This also holds after a power failure: a file's content is on disk before it gets its name.

A statement is a JSON file with the cost and origin of the files next to it. It holds their digests
and lists the shareable ones. It is removed before any of them is replaced, and written after all of
them: a killed process leaves files without a statement. Readers refuse a file that differs from the
one that its statement describes (`check_stated`).
"""

import hashlib
import json
import os
import platform
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import get_data
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from privrl.files import sharing
from privrl.files.plain import parse_json
from privrl.files.shown import shown

try:
    import fcntl
except ImportError:  # on Windows, where remains of killed processes stay
    fcntl = None  # type: ignore[assignment] # checked where it is used

if TYPE_CHECKING:  # callers with a table or a figure have loaded these
    import pandas as pd
    from matplotlib.figure import Figure

Write = Callable[[BinaryIO], object]

#: The cost of a release, next to the released files.
STATEMENT = "release.json"
#: In the header of the SQLite file of a ledger: "PrLG".
LEDGER = 0x5072_4C47
#: How names of Parquet files end.
PARQUET = (".parquet", ".pq")
_DIGESTS = "sha256"  # the entry of a statement
_PREFIX = ".writing-"
_CLAIM = ".taken-"
_TRIES = 100  # to make a folder that others may remove
_OURS = re.compile(re.escape(_PREFIX) + r"[a-z0-9_]{8}")


def package_text(package: str, name: str) -> str:
    """Return a text file that is installed with a package."""
    content = get_data(package, name)
    assert content is not None  # whatever loads a package reads its files
    return content.decode()


def read_bytes(path: Path) -> bytes:
    """Return the content of a file, or of a pipe.

    Raises
    ------
    ValueError
        As `check_ends`.
    OSError
        If it cannot be read.
    """
    check_ends(path)
    return path.read_bytes()


def parquet_in(folder: Path) -> list[Path]:
    """Return the Parquet files of a folder by their names: all that is read of it as data."""
    return sorted(
        each
        for each in folder.iterdir()
        if each.name.lower().endswith(PARQUET) and each.name[0] not in "._"
    )


def check_ends(path: Path) -> None:
    """Check that a path is not a device such as ``/dev/zero``, which never ends.

    Raises
    ------
    ValueError
        If it is a device. A missing file passes.
    """
    if path.is_char_device() or path.is_block_device():
        raise ValueError(f"{path.name} must be a file, got the device {str(path)!r}.")


def check_replaced(path: Path) -> None:
    """Check that a file may be written to a path: only a file or a link is replaced.

    A rename replaces anything: in ``/dev`` it would destroy a device.

    Raises
    ------
    ValueError
        If it is a folder, a device, a pipe or a ledger.
    """
    if os.path.lexists(path) and not (path.is_symlink() or path.is_file()):
        raise ValueError(
            f"{path.name} must be a file if it is to be written over, got {str(path)!r}, which is "
            "a folder, a device or a pipe; choose another place."
        )
    if path.is_file() and not path.is_symlink() and _is_ledger(path):
        raise ValueError(
            f"{path.name} must be another file: {str(path)!r} is a ledger, and what was spent "
            "would be lost; choose another name."
        )


def _is_ledger(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            head = file.read(72)
    except OSError:  # it cannot be read, but perhaps replaced
        return False
    return head.startswith(b"SQLite format 3\0") and head[68:] == LEDGER.to_bytes(4, "big")


@contextmanager
def claimed(out: Path, names: Collection[str]) -> Iterator[None]:
    """Claim names of files in a folder, so that one command at a time writes them.

    A claim is a locked folder next to the file. The lock ends with its process, so a killed
    process leaves no claim. The folders are created, and are removed at the end if still empty. A
    disk without locks, or Windows, has no claims.

    Raises
    ------
    ValueError
        If another command has claimed one of the names.
    """
    new = [each for each in (out, *out.parents) if not each.exists()]
    with ExitStack() as claims:
        for each in reversed(new):  # removed last, the innermost first
            claims.callback(_remove_empty, each)
        for name in sorted(names):  # in one order: of two commands, one gets all that both want
            claims.callback(_drop, *_claim(out, name))
        yield


def _claim(out: Path, name: str) -> tuple[Path, int | None]:
    """Return the folder that claims a name, and the lock on it."""
    mark = out / f"{_CLAIM}{_digest(os.fsencode(name))[:16]}"
    for _ in range(_TRIES):
        with suppress(FileNotFoundError):  # another command removed it, or the folder
            mark.mkdir(parents=True, exist_ok=True)
            try:
                return mark, _hold(mark)
            except BlockingIOError:
                raise ValueError(
                    f"out {str(out)!r} is in use: another command, which is still running, writes "
                    f"{name} there; wait for its end, or choose another --out."
                ) from None
            except FileNotFoundError:
                raise
            except OSError:  # a disk without locks
                return mark, None
    raise _unwritable("out", out)


def _drop(mark: Path, held: int | None) -> None:
    _remove_empty(mark)
    if held is not None:
        os.close(held)


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):  # it has files, or another command removed it
        folder.rmdir()


def check_folder(out: Path, name: str = "out") -> None:
    """Check, before a run, that a folder can be written to or created; create nothing.

    ``name`` is the option's.

    Raises
    ------
    ValueError
        If ``out`` is a file or a broken link, is in a read-only place, or has an invalid name.
    """
    nearest = out
    while not os.path.lexists(nearest):  # a broken link cannot become a folder
        nearest = nearest.parent
    if not _can_name(out) or not nearest.is_dir() or not os.access(nearest, os.W_OK):
        raise _unwritable(name, out)


def _unwritable(name: str, out: Path) -> ValueError:
    return ValueError(f"{name} must be a folder that can be written to, got {str(out)!r}.")


def _can_name(folder: Path) -> bool:
    """Whether a folder can contain files with the names that privrl uses."""
    try:
        os.lstat(folder / ("x" * 64))
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return True
    except (OSError, ValueError):  # too long, a circle of links, or no name
        return False
    return True


def save_all(
    out: Path, files: dict[str, Write], statement: tuple[str, dict[str, Any]] | None = None
) -> list[Path]:
    """Write several files into a folder, each atomically.

    Parameters
    ----------
    out : pathlib.Path
        The folder; created if it does not exist.
    files : dict
        For each name, a function that writes the contents to a binary file. Existing files of
        these names are replaced.
    statement : tuple of str and dict, optional
        The name of a JSON file about all the others, and its plain data. Their digests, whether
        each may be shared, and the package versions are added. Earlier reports (``privrl report``)
        are removed. So are, with or without it, statements that describe replaced files.

    Returns
    -------
    list of pathlib.Path
        The paths of the files, the statement last.

    Raises
    ------
    ValueError
        As `check_replaced`; nothing is written then.
    """
    for name in (*files, *(statement or ())[:1]):
        check_replaced(out / str(name))
    out.mkdir(parents=True, exist_ok=True)
    with _scratch(out) as scratch:
        for name, write in files.items():
            _write(scratch / name, write)
        names = list(files)
        stale = stating(out, names)
        if statement is not None:
            about, data = statement
            digests = {name: _digest((scratch / name).read_bytes()) for name in files}
            stated = sharing.stated(data | {"versions": _versions()}, digests)
            _write(scratch / about, bytes_writer(statement_text(stated)))
            names.append(about)
            stale.append(about)
        if stale:
            for gone in (*stale, *sharing.PAGES):  # pages describe the earlier files
                (out / gone).unlink(missing_ok=True)
        paths = [(scratch / name).replace(out / name) for name in names]
        _settle(out)
        return paths


def stating(folder: Path, names: Collection[str]) -> list[str]:
    """Return the statements in a folder that describe one of some files."""
    found = []
    for each in sharing.STATEMENTS:
        try:
            said = parse_json(read_own(folder / each))
        except (OSError, ValueError):  # none is there, or it describes nothing
            continue
        digests = said.get(_DIGESTS) if isinstance(said, dict) else None
        if isinstance(digests, dict) and not digests.keys().isdisjoint(names):
            found.append(each)
    return found


def save_new(path: Path, content: bytes) -> None:
    """Write a new file atomically.

    Raises
    ------
    FileExistsError
        If the path exists; it is left unchanged.
    """
    with _scratch(path.parent) as scratch:
        _write(scratch / path.name, bytes_writer(content))
        try:
            os.link(scratch / path.name, path)
        except FileExistsError:
            raise
        except OSError:  # a disk without links
            path.open("xb").close()
            (scratch / path.name).replace(path)
        _settle(path.parent)


def sync_folder(folder: Path) -> None:
    """Flush a folder's list of files to disk, where folders can be opened."""
    if hasattr(os, "O_DIRECTORY"):
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(held)
        finally:
            os.close(held)


def save_private(path: Path, content: bytes) -> None:
    """Write or replace a file atomically, for its owner alone; it is on disk on return.

    Raises
    ------
    OSError
        If it cannot be written; an existing file is left unchanged.
    ValueError
        As `check_replaced`.
    """
    check_replaced(path)
    with _scratch(path.parent) as scratch:
        os.close(os.open(scratch / path.name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        _write(scratch / path.name, bytes_writer(content))
        (scratch / path.name).replace(path)
    sync_folder(path.parent)


def save_folder(to: Path, files: dict[str, bytes]) -> None:
    """Write or replace a folder atomically."""
    to.parent.mkdir(parents=True, exist_ok=True)
    with _scratch(to.parent) as scratch:
        new, old = scratch / "new", scratch / "old"
        new.mkdir()
        for name, content in files.items():
            _write(new / name, bytes_writer(content))
        sync_folder(new)
        if to.exists():
            to.replace(old)
        new.replace(to)
    sync_folder(to.parent)


def read_own(path: Path, digest: str | None = None) -> bytes:
    """Return the content of a regular file with this digest.

    Raises
    ------
    ValueError
        If it is missing, a link, a folder or a device, or has another digest.
    OSError
        If it cannot be read.
    """
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    if path.is_symlink() or not path.is_file():
        what = "nothing" if not os.path.lexists(path) else "a link or another kind of file"
        raise ValueError(f"must be a regular file, got {what}; restore the file.")
    with open(os.open(path, flags | getattr(os, "O_BINARY", 0)), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # replaced in between
            raise ValueError("must be a regular file, got another kind.")
        content = file.read()
    if digest is not None and _digest(content) != digest:
        raise ValueError(  # without the actual digest: the file may be anything
            f"must be the file that its statement describes, with SHA-256 {digest}, got another; "
            "restore that file."
        )
    return content


def statement_text(statement: dict[str, Any]) -> bytes:
    """Return a statement as JSON text."""
    return f"{json.dumps(statement, indent=2)}\n".encode()


def check_stated(path: Path, content: bytes) -> None:
    """Check that a released file is the one that statements next to it describe.

    Raises
    ------
    ValueError
        If a statement is unreadable or has another digest for this name. A missing statement,
        or one that does not name the file, passes.
    """
    digest = _digest(content)
    for name in sharing.STATEMENTS:
        try:
            said = parse_json(read_bytes(path.with_name(name)).decode())
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            if name != STATEMENT:  # other programs have files of these names
                continue
            if isinstance(error, OSError):
                raise
            raise ValueError(f"{name} next to it must be a valid statement: {error}") from None
        digests = said.get(_DIGESTS) if isinstance(said, dict) else None
        if isinstance(digests, dict) and digests.get(path.name, digest) != digest:
            raise ValueError(
                f"must be the file that {name} next to it describes, with SHA-256 "
                f"{shown(digests[path.name])}, got {digest}; get or make both again, or move "
                f"{name}."
            )


def _write(path: Path, write: Write) -> None:
    """Write a file and flush it to disk."""
    # Its name could get there first, and a cut of power then leave an empty file. It takes
    # milliseconds, and no command writes many files.
    with path.open("wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())


def _settle(folder: Path) -> None:
    """Flush new names in a folder to disk, and the folder's own."""
    for each in (folder, folder.absolute().parent):
        with suppress(OSError):  # not every disk can; the files are there all the same
            sync_folder(each)


@contextmanager
def _scratch(out: Path) -> Iterator[Path]:
    """Make a temporary folder inside another, and remove those that killed processes left."""
    for left in out.glob(f"{_PREFIX}*"):
        if _OURS.fullmatch(left.name):
            _remove_left(left)
    while True:
        with tempfile.TemporaryDirectory(dir=out, prefix=_PREFIX) as name:
            held = None
            try:
                held = _hold(Path(name))
            except (BlockingIOError, FileNotFoundError):  # another process removed it as abandoned
                continue
            except OSError:  # a disk without locks, where nothing is removed either
                pass
            try:
                yield Path(name)
            finally:
                if held is not None:
                    os.close(held)
            return


def _hold(folder: Path) -> int | None:
    """Return a lock on a folder, held until it is closed or its process ends.

    Raises
    ------
    OSError
        If another process holds it, the folder was removed, or the disk does not support locks.
    """
    if fcntl is None:
        return None
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(folder.stat(), os.fstat(held)):
            raise FileNotFoundError(f"{str(folder)!r} was removed, and made again.")
    except OSError:
        os.close(held)
        raise
    return held


def _remove_left(folder: Path) -> None:
    """Remove a temporary folder if no process holds it."""
    with suppress(OSError):
        held = _hold(folder)
        if held is not None:
            try:
                shutil.rmtree(folder)
            finally:
                os.close(held)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def table_writer(table: "pd.DataFrame") -> Write:
    """Return a function that writes a table as CSV, with all digits."""
    return lambda file: table.to_csv(file, index=False)


def check_parquet() -> None:
    """Check, before a run, that Parquet can be written.

    Raises
    ------
    ValueError
        If pyarrow is not installed.
    """
    if find_spec("pyarrow") is None:
        raise ValueError(
            "parquet needs the package pyarrow, which is not installed; "
            "pip install 'privrl[parquet]'."
        )


def parquet_writer(table: "pd.DataFrame") -> Write:
    """Return a function that writes a table as Parquet."""
    return lambda file: table.to_parquet(file, engine="pyarrow", index=False)


def figure_writer(figure: "Figure", kind: Literal["png", "svg"] = "png") -> Write:
    """Return a function that writes a figure; the bytes are reproducible on one machine.

    Logarithmic axes show plain numbers, and values that they cannot show are marked at their edges.
    """
    stamps = {"Date": None} if kind == "svg" else {}

    def write(file: BinaryIO) -> None:
        import_module("privrl.files.ticks").plain_ticks(figure)  # they load matplotlib
        import_module("privrl.files.edges").mark_edges(figure)
        with import_module("matplotlib").rc_context({"svg.hashsalt": "privrl"}):
            figure.savefig(file, format=kind, dpi=150, metadata=stamps)

    return write


def bytes_writer(content: bytes) -> Write:
    """Return a function that writes bytes."""
    return lambda file: file.write(content)


def text_writer(text: str) -> Write:
    """Return a function that writes a text."""
    return bytes_writer(text.encode())


def _versions() -> dict[str, str]:
    from importlib.metadata import version  # noqa: PLC0415 # it takes a quarter of NumPy's time

    packages = ("privrl", "numpy", "scipy", "gymnasium", "pandas")
    return {"python": platform.python_version()} | {name: version(name) for name in packages}
