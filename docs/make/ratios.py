"""What a page of benchmarks says in ratios, and which of them have become worse.

Ratios are of two things measured in one run, so they tell of privrl where seconds tell of the day
and the machine. In the cells of a page's tables they end in "×".
"""

import math
import re
from pathlib import Path

_FELL = 0.75  # of what it was
_BLOCK = re.compile(r"<!-- (?!end of )(.+?) -->\n(.*?)<!-- end of \1 -->", re.DOTALL)
_RATIO = re.compile(r"([\d.,]+)(?:–([\d.,]+))? ×( the time)?")
#: Words of a row or column whose ratios are times, of which less is better.
_TIMES = ("takes, to", "the time", "its own stepping")
_TIME_BLOCKS = ("single",)

Ratios = dict[tuple[str, ...], float]


def ratios(page: Path | str) -> Ratios:
    """Return the ratios of a page's tables, or of its text: more is better, of each.

    Where a ratio is of times, it is turned. Its key says its block, row and column.
    """
    text = page.read_text() if isinstance(page, Path) else page
    found: Ratios = {}
    for block, inside in _BLOCK.findall(text):
        header: list[str] = []
        for line in inside.splitlines():
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if not line.startswith("|"):
                header = []
            elif not header:
                header = cells
            for name, cell in zip(header, cells, strict=False):
                if (ratio := _RATIO.fullmatch(cell)) and name != "target":
                    ends = [float(end.replace(",", "")) for end in ratio.groups()[:2] if end]
                    value = math.prod(ends) ** (1 / len(ends))  # the middle of a range
                    row = _row(header, cells)
                    timed = block in _TIME_BLOCKS or any(w in f"{row}{cell}" for w in _TIMES)
                    found[block, row, name] = 1 / value if timed and value else value
    return found


def _row(header: list[str], cells: list[str]) -> str:
    """Return what a row is about: its first cell, and others that no measurement decides."""
    said = [cells[0]]
    said += [
        cell
        for name, cell in zip(header[1:], cells[1:], strict=False)
        if name in ("the other", "episodes")
    ]
    return ", ".join(said)


def fallen(before: Ratios, after: Ratios) -> list[str]:
    """Return, in words, which ratios are less than three quarters of what they were."""
    return [
        f"{block}: {row}" + (f" ({column})" if column else "")
        + f": {_plain(after[key])} × instead of {_plain(was)} ×"
        for key, was in before.items()
        for block, row, column in [key]
        if key in after and after[key] < _FELL * was
    ]  # fmt: skip


def _plain(value: float) -> str:
    return f"{value:.3g}"
