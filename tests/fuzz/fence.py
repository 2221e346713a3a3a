"""Keep a fuzzer in its folder: whatever it makes up, nothing is written anywhere else.

Bad input names places: ``--out /``, a table saved as ``/dev/null``. A library writes to the path
that it gets, and a fuzzer that runs as root may overwrite devices. Python calls a hook for every
file that it opens, renames or removes; those outside of the folder are refused as a system does it.
"""

import os
import sys
from pathlib import Path
from typing import Any

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
#: Events of Python's audit hooks, and which of their arguments are paths that change.
_CHANGED = {
    "os.rename": (0, 1), "os.remove": (0,), "os.rmdir": (0,), "os.mkdir": (0,), "os.link": (1,),
    "os.symlink": (1,), "os.truncate": (0,), "os.chmod": (0,), "os.chown": (0,),
    "shutil.rmtree": (0,), "shutil.move": (0, 1), "shutil.copyfile": (1,),
}  # fmt: skip


class Outside(PermissionError):
    """Something was about to be written outside of the folder."""


def fence(folder: Path) -> None:
    """Refuse from now on, in this process, all writing outside of a folder."""
    root = os.path.realpath(folder)

    def check(path: Any) -> None:
        if path is None or isinstance(path, int):
            return
        text = os.fsdecode(path)
        parent, name = os.path.split(os.path.abspath(text))
        # A link that is renamed or removed is the link itself; its folder is what counts.
        place = os.path.join(os.path.realpath(parent), name)
        if place != root and not place.startswith(root + os.sep):
            raise Outside(1, "outside of the folder of the fuzzer", text)

    def opened(path: Any, mode: Any, flags: Any) -> None:
        writes = (isinstance(mode, str) and set(mode) & set("wax+")) or (
            isinstance(flags, int) and flags & _WRITES
        )
        if writes and isinstance(path, str | bytes | os.PathLike):
            check(os.path.realpath(path) if os.fsdecode(path) != os.devnull else None)

    def hook(event: str, given: tuple[Any, ...]) -> None:
        if event == "open":
            opened(*given)
        elif event == "sqlite3.connect":
            text = os.fsdecode(given[0]).removeprefix("file:").partition("?")[0]
            if text not in ("", ":memory:") and "mode=ro" not in os.fsdecode(given[0]):
                check(os.path.realpath(text))
        elif event in ("os.remove", "os.rmdir") and given[1] != -1:
            pass  # within a folder that was opened: `shutil.rmtree`, which is checked as a whole
        elif event in _CHANGED:
            for place in _CHANGED[event]:
                check(given[place])

    sys.addaudithook(hook)
