"""Make docs/results/reference.md and its CSV files from the tables of the pages of results.

Run with ``python docs/make/reference.py`` after a table has changed; it measures nothing. Each
table between markers of a page becomes ``docs/results/PAGE-BLOCK.csv``, so that the numbers of a
page and of its files cannot differ (``tests/docs/test_reference_results.py``).
"""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pages

#: Pages with numbers to cite, what they are about, and the scripts that make them.
PAGES = {
    "results/environments.md": ("environments", ("suite", "ablations", "fine_bins")),
    "results/frontier.md": ("environments", ("frontier", "large_tables")),
    "logs.md": ("logs", ("logs",)),
    "results/logs.md": ("logs", ("logs",)),
    "results/synthetic.md": ("logs", ("synthetic",)),
    "results/histograms.md": ("models", ("models", "histogram_rivals", "histogram_cells")),
    "results/naive-bayes.md": ("models", ("models",)),
    "results/classifiers.md": ("models", ("models",)),
    "results/networks.md": ("models", ("models", "network_rivals", "anes96")),
    "results/mechanisms.md": ("mechanisms", ("mechanisms",)),
    "results/exact-accounting.md": ("accounting", ("exact_accounting",)),
}
BLOCK = re.compile(r"<!-- (?P<name>[\w ]+) -->\n(?P<body>.*?)<!-- end of (?P=name) -->", re.DOTALL)
TABLE = re.compile(r"^\|.*\|\n\|[-:| ]+\|\n(?:\|.*\|\n?)*", re.MULTILINE)
_NUMBER = r"[-−+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:e[-+]?\d+)?(?: ?%)?|[-−]?∞"
_CELL = re.compile(rf"(?:{_NUMBER})(?:(?: to |/| ± | ?\()(?:{_NUMBER})\)?)*")
_EMPTY = {"", "-", "–", "—"}


class Kept(NamedTuple):
    """A table of a page, as it is kept in a file."""

    page: str
    block: str
    file: str
    text: str
    columns: tuple[str, ...]
    n_rows: int


def kept(page: str) -> Iterator[Kept]:
    """Return the tables of a page of ``docs``."""
    text = (pages.DOCS / page).read_text(encoding="utf-8")
    stem = page.removeprefix("results/").removesuffix(".md")
    for found in BLOCK.finditer(text):
        tables = TABLE.findall(found["body"])
        for number, table in enumerate(tables, 1):
            rows = [_fields(line) for line in table.splitlines() if line.strip()]
            del rows[1]
            name = "-".join([stem, *found["name"].split(), *([str(number)] if number > 1 else [])])
            lines = _numeric(rows)
            content = io.StringIO()
            csv.writer(content, lineterminator="\n").writerows(lines)
            yield Kept(
                page, found["name"], f"{name}.csv", content.getvalue(), tuple(lines[0]),
                len(lines) - 1,
            )  # fmt: skip


def _fields(line: str) -> list[str]:
    cells = re.split(r"(?<!\\)\|", line.strip()[1:-1])
    return [re.sub(r"\*\*|`|\[(.*?)\]\(.*?\)", r"\1", cell).strip() for cell in cells]


def _numeric(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return a table in which each number of a cell has a column, if all cells are numbers."""
    columns = []
    for name, *cells in zip(*rows, strict=True):
        split = [_numbers(cell) for cell in cells]
        if None in split or not any(split):
            columns.append([name, *cells])
            continue
        width = max(len(each) for each in split if each is not None)
        for place in range(width):
            head = name if place == 0 else f"{name}, {place + 1}"
            columns.append(
                [head, *(each[place] if each and place < len(each) else "" for each in split)]
            )
    return [list(row) for row in zip(*columns, strict=True)]


def _numbers(cell: str) -> list[str] | None:
    """Return the numbers that a cell consists of, or None if it holds something else."""
    if cell in _EMPTY:
        return []
    if not _CELL.fullmatch(cell):
        return None
    return [_number(text) for text in re.findall(_NUMBER, cell)]


def _number(text: str) -> str:
    plain = text.replace(",", "").replace("−", "-").replace("∞", "inf").strip()
    if plain.endswith("%"):
        return f"{float(plain[:-1]) / 100:.6g}"
    return plain


def command_of(page: str, block: str) -> str:
    """Return the command that makes a table of a page."""
    of = [pages.DOCS / "make" / f"{script}.py" for script in PAGES[page][1]]
    for script in of:
        if f'"{block}"' in script.read_text(encoding="utf-8"):
            argument = f" {block}" if " " not in block else f' "{block}"'
            if script.stem == block.replace(" ", "_"):  # its only one
                argument = ""
            return f"python docs/make/{script.name}{argument}"
    return f"python docs/make/{of[0].name}"


def index(tables: Sequence[Kept]) -> str:
    """Return the list of all tables."""
    rows = (
        [
            PAGES[each.page][0],
            f"[{each.block}](../{each.page})" if "/" not in each.page
            else f"[{each.block}]({each.page.removeprefix('results/')})",
            f"[{each.file}]({each.file})",
            each.n_rows,
            f"`{command_of(each.page, each.block)}`",
        ]
        for each in tables
    )  # fmt: skip
    return pages.table("about | table | numbers | rows | command", rows)


def main() -> None:
    """Write the files and the list."""
    tables = [each for page in PAGES for each in kept(page)]
    for each in tables:
        (pages.DOCS / "results" / each.file).write_text(each.text, encoding="utf-8")
    pages.fill(pages.DOCS / "results" / "reference.md", {"tables": lambda: index(tables)})


if __name__ == "__main__":
    main()
