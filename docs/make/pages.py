"""Write generated tables into pages: replace the text between markers and keep everything else."""

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from privrl.files import files as _files

DOCS = Path(__file__).parents[1]
IMAGES, NUMBERS = DOCS / "images", DOCS / "numbers"
REDRAW = "--redraw"

Make = Callable[[], str]


def fill(page: Path, blocks: Mapping[str, Make], wanted: Iterable[str] = ()) -> None:
    """Fill blocks of a page, one after the other, and write each at once.

    Parameters
    ----------
    page : pathlib.Path
        The page.
    blocks : mapping
        Functions that make the text between ``<!-- block -->`` and ``<!-- end of block -->``.
    wanted : iterable of str
        The blocks to fill; by default all.

    Raises
    ------
    SystemExit
        If no block has that name, or the page lacks its markers.
    """
    for block in wanted or blocks:
        if block not in blocks:
            raise SystemExit(f"{page.name} has no block {block!r}, only {', '.join(blocks)}.")
        print(block, flush=True)
        made = blocks[block]()
        start, end = f"<!-- {block} -->\n", f"<!-- end of {block} -->\n"
        pattern = f"({re.escape(start)}).*?({re.escape(end)})"
        text, found = re.subn(
            pattern,
            lambda m, made=made: f"{m[1]}{made}\n{m[2]}",
            page.read_text(),
            flags=re.DOTALL,
        )
        if found != 1:
            raise SystemExit(f"{page.name} must have the markers of {block!r} once; put them back.")
        page.write_text(text)


def save(figure: Figure, path: Path) -> None:
    """Write a picture the way commands write theirs."""
    with path.open("wb") as file:
        _files.figure_writer(figure)(file)


def numbers(name: str, compute: Callable[[], pd.DataFrame]) -> pd.DataFrame:
    """Return the numbers of a picture; compute and keep them, or read them with ``--redraw``.

    Parameters
    ----------
    name : str
        Name of the file in ``docs/numbers``.
    compute : callable
        Returns named columns of numbers and texts.
    """
    path = NUMBERS / f"{name}.csv.gz"
    if REDRAW not in sys.argv:
        path.parent.mkdir(exist_ok=True)
        always = {"method": "gzip", "mtime": 0}  # the same bytes for the same numbers
        compute().to_csv(path, index=False, compression=always)
    return pd.read_csv(path, keep_default_na=False, na_values=[""])


def main(name: str, blocks: Mapping[str, Make]) -> None:
    """Fill the blocks named on the command line, by default all, of a page below ``docs``."""
    main_of({name: blocks})


def main_of(pages: Mapping[str, Mapping[str, Make]]) -> None:
    """Fill the blocks named on the command line, by default all, of several pages of ``docs``."""
    known = {block: name for name, blocks in pages.items() for block in blocks}
    for block in [each for each in sys.argv[1:] if each != REDRAW] or known:
        if block not in known:
            raise SystemExit(f"No page has a block {block!r}; choose from {', '.join(known)}.")
        fill(DOCS / known[block], pages[known[block]], [block])


def table(header: str | Iterable[object], rows: Iterable[Iterable[object]]) -> str:
    """Return a table in Markdown; a header may be one text with bars."""
    names = header.split(" | ") if isinstance(header, str) else list(header)
    lines = [f"| {' | '.join(map(str, names))} |", "|" + "---|" * len(names)]
    return "\n".join([*lines, *("| " + " | ".join(map(str, row)) + " |" for row in rows)])
