"""Pages that only the site has: what they repeat from others is the same there."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


@pytest.mark.needs("sphinx")
def test_the_reference_has_every_package_with_public_names() -> None:
    told = runpy.run_path(str(DOCS / "site" / "reference.py"))["PACKAGES"]
    found = {
        ".".join(("privrl", *path.relative_to(ROOT).parent.parts)).replace(
            "privrl.privrl", "privrl"
        )
        for top in ("privrl", "envs", "agents", "experiments")
        for path in (ROOT / top).rglob("__init__.py")
        if "__all__" in path.read_text(encoding="utf-8")
    }
    modules = {
        "privrl.experiments.callbacks",
        "privrl.models.bayes_net.network",
        "privrl.models.histograms.result",
    }
    assert set(told) - modules == found - {"privrl.cli"}
    listed = (DOCS / "reference" / "index.md").read_text(encoding="utf-8").splitlines()
    assert [package for package in told if package not in listed] == []


def test_numbers_beside_others_are_those_of_the_benchmarks() -> None:
    page = (DOCS / "comparison.md").read_text(encoding="utf-8")
    measured = (DOCS / "results" / "benchmarks.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\|.* × \|$", page, re.M)
    assert len(rows) >= 5
    assert [row for row in rows if row not in measured] == []


def test_the_features_of_all_are_told_of_all() -> None:
    page = (DOCS / "comparison.md").read_text(encoding="utf-8")
    table = page.partition("## What each has")[2].partition("## Numbers")[0]
    rows = re.findall(r"^\|(.*)\|$", table, re.M)
    assert {row.count("|") for row in rows} == {7}
    assert not [row for row in rows if any(not cell.strip() for cell in row.split("|")[1:])]


@pytest.mark.needs("sphinx")
def test_links_lead_to_pages_or_to_copies_of_files() -> None:
    translated = runpy.run_path(str(DOCS / "site" / "pages.py"))["translated"]

    def seen(text: str) -> str:
        return str(translated(text, DOCS / "howto", "howto/ledger"))

    assert seen("[x](../ledger.md#commands)") == "[x](/ledger.md#commands)"
    assert seen("[x](../../SECURITY.md)") == "[x](/security.md)"
    assert seen("[x](../../README.md#tests)") == "[x](/index.md#tests)"
    assert seen("[x](../decisions)") == "[x](/decisions/README.md)"
    assert seen("[`x`](../../CITATION.cff)") == "{download}`x </../CITATION.cff>`"
    assert seen("[x](../epsilon.html)") == '<a href="../slider.html">x</a>'
    assert seen("[x](https://a.example/b)") == "[x](https://a.example/b)"
    code = "`a[0](b)`\n\n```python\nhandlers[name](../ledger.md)\n```\n"
    assert seen(code) == code


#: Words of a page, tables and code included: what one sitting takes.
README_WORDS, PAGE_WORDS, ALL_WORDS = 900, 3500, 40_000


def test_pages_are_short() -> None:
    """Pages of results are tables, and those of the reference are made from docstrings."""

    def words(path: Path) -> int:
        return len(path.read_text(encoding="utf-8").split())

    assert words(ROOT / "README.md") <= README_WORDS
    pages = [
        page
        for page in DOCS.rglob("*.md")
        if not {"results", "reference"} & set(page.relative_to(DOCS).parts)
    ]
    assert len(pages) > 30
    found = {str(page.relative_to(DOCS)): words(page) for page in pages}
    assert not {name: n for name, n in found.items() if n > PAGE_WORDS}
    assert sum(found.values()) <= ALL_WORDS
