"""Pages that only the site has: what they repeat from others is the same there."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_numbers_beside_others_are_those_of_the_benchmarks() -> None:
    page = (DOCS / "comparison.md").read_text(encoding="utf-8")
    measured = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\|.* × \|$", page, re.M)
    assert len(rows) >= 5
    assert [row for row in rows if row not in measured] == []


def test_the_features_of_all_are_told_of_all() -> None:
    page = (DOCS / "comparison.md").read_text(encoding="utf-8")
    table = page.partition("## What each has")[2].partition("## Numbers")[0]
    rows = re.findall(r"^\|(.*)\|$", table, re.M)
    assert {row.count("|") for row in rows} == {7}
    assert not [row for row in rows if any(not cell.strip() for cell in row.split("|")[1:])]
