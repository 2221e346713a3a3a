"""Checks of output folders: writable, without files of earlier runs, and of one command."""

import json
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any

import typer

Force = Annotated[bool, typer.Option("--force", help="Overwrite existing files.")]
_CLAIMS: ContextVar[ExitStack] = ContextVar("_CLAIMS")  # of the running command


@contextmanager
def claiming() -> Iterator[None]:
    """Keep until the end of a command what `check_new` claims."""
    with ExitStack() as claims:
        before = _CLAIMS.set(claims)
        try:
            yield
        finally:
            _CLAIMS.reset(before)


def check_new(
    out: Path, names: Collection[str], *, force: bool, inputs: Collection[Path] = ()
) -> None:
    """Check that files can be written and do not exist, before anything is read or spent.

    Until the command ends no other one passes this check for them: of two that are started
    together, one is refused before it spends.

    Parameters
    ----------
    out : pathlib.Path
        The folder.
    names : collection of str
        The files to be written.
    force : bool
        Whether they may exist.
    inputs : collection of pathlib.Path
        Files that the command reads, which are never written over.

    Raises
    ------
    ValueError
        If a file or a statement about one exists, a path is not a file, the folder is not
        writable, or another command has claimed a file.
    """
    from privrl.files import files as _files

    _files.check_folder(out)
    for name in names:
        _files.check_replaced(out / name)
    # First the claim: a command that ends meanwhile has written its files.
    _CLAIMS.get().enter_context(_files.claimed(out, names))
    there = [name for name in names if os.path.lexists(out / name)]
    for name in there:
        path = out / name
        if path.exists() and any(each.exists() and path.samefile(each) for each in inputs):
            raise ValueError(
                f"out must be another folder, got {str(out)!r}: {name} there is read by the "
                "command, and would be written over."
            )
    there += [name for name in _files.stating(out, names) if name not in there]
    if there and not force:
        raise ValueError(
            f"out {str(out)!r} already has {', '.join(there)} of an earlier run; choose another "
            "--out, or add --force to overwrite."
        )


def check_same(
    out: Path, names: Collection[str], *, of: str, spec: Mapping[str, Any], force: bool
) -> None:
    """Check likewise for a run that may resume an earlier one.

    The files may exist if the spec in the file ``of`` equals this one.
    """
    from privrl.files import files as _files

    saved = None
    if not force:
        try:
            saved = json.loads(_files.read_bytes(out / of))["spec"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            saved = None  # nothing to resume
    check_new(out, names, force=force or saved == json.loads(json.dumps(spec)))
