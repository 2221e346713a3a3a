"""Each line of the threat model has a test that is there, or says why it has none."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "threat-model.md").read_text(encoding="utf-8")
TEST = re.compile(r"`(tests/[\w/.]+\.py)::(\w+)`")


def _rows(page: str) -> list[list[str]]:
    """Return the rows of all tables whose last column is of tests."""
    rows, inside = [], False
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|"):
            inside = False
        elif cells[-1] == "test":
            inside = True
        elif inside and not line.startswith("|---"):
            rows.append(cells)
    return rows


def _named(page: str) -> set[tuple[str, str]]:
    return set(TEST.findall(page))


def _lacking(rows: list[list[str]]) -> list[str]:
    """Return what rows say that have neither a test nor a reason."""
    return [
        row[0]
        for row in rows
        if not all(row) or not (TEST.search(row[-1]) or row[-1].startswith("not tested, because "))
    ]


@pytest.mark.parametrize(("path", "name"), sorted(_named(PAGE)))
def test_every_test_that_is_named_is_there(path: str, name: str) -> None:
    assert f"\ndef {name}(" in (ROOT / path).read_text(encoding="utf-8")


def test_every_line_has_a_test_or_says_why_not() -> None:
    rows = _rows(PAGE)
    assert len(rows) > 60
    assert not _lacking(rows)
    assert {len(row) for row in rows} == {3, 4}  # promises are all the library's
    # What is a path in the last column is a test's: none has a name that is not looked for.
    assert all(row[-1].count("`tests/") == len(TEST.findall(row[-1])) for row in rows)


@pytest.mark.parametrize("last", ["", "`tests/core/test_laws.py`", "not tested", "obvious"])
def test_a_line_without_is_seen(last: str) -> None:
    table = f"| promise | NIST | test |\n|---|---|---|\n| it is so | ε | {last} |\n"
    assert _lacking(_rows(table)) == ["it is so"]
