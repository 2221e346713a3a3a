"""Where commands write: into folders that can be written to, over nothing that is there."""

import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

Force = Annotated[bool, typer.Option("--force", help="Write over files that are there.")]


def check_new(out: Path, names: Collection[str], *, force: bool) -> None:
    """Check, before anything is read, spent or computed, that files can be written and are new.

    Parameters
    ----------
    out : pathlib.Path
        The folder.
    names : collection of str
        The files that are to be written into it.
    force : bool
        Whether they may be there.

    Raises
    ------
    ValueError
        If a file is there, or what is no file, or the folder cannot be made or written to.
    """
    from privrl.files import files as _files

    _files.check_folder(out)
    for name in names:
        _files.check_replaced(out / name)
    there = [name for name in names if os.path.lexists(out / name)]
    if there and not force:
        raise ValueError(
            f"out must be a folder without {', '.join(there)}, got {str(out)!r}, which has what "
            "an earlier run wrote; choose another folder with --out, or write over it: --force."
        )


def check_same(
    out: Path, names: Collection[str], *, of: str, spec: Mapping[str, Any], force: bool
) -> None:
    """Check likewise for a run that goes on where the same one stopped.

    Files may be there if the one of them that ``of`` names, with the spec of what was run, says
    that it was the same.
    """
    from privrl.files import files as _files

    saved = None
    if not force:
        try:
            saved = json.loads(_files.read_bytes(out / of))["spec"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            saved = None  # of nothing that can be gone on with
    check_new(out, names, force=force or saved == json.loads(json.dumps(spec)))
