"""The numbers in files are those of the pages: nobody writes either by hand."""

import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

DOCS = Path(__file__).parents[2] / "docs"
RESULTS = DOCS / "results"


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(DOCS / "make"), *sys.path])
        return runpy.run_path(str(DOCS / "make" / "reference.py"))


def test_files_and_list_are_those_of_the_pages(made: dict[str, Any]) -> None:
    """Else run ``python docs/make/reference.py``."""
    tables = [each for page in made["PAGES"] for each in made["kept"](page)]
    assert len(tables) > 40
    for each in tables:
        assert (RESULTS / each.file).read_text(encoding="utf-8") == each.text, each.file
    assert made["index"](tables) in (RESULTS / "reference.md").read_text(encoding="utf-8")
    files = {path.name for path in RESULTS.glob("*.csv")}
    assert files == {each.file for each in tables} | {"continuous.csv", "online.csv"}


def test_each_number_of_a_page_is_in_its_file(made: dict[str, Any]) -> None:
    """By another way than the script's: all runs of digits, in the order of the page."""
    digits = re.compile(r"\d+")
    for page in ("results/logs.md", "results/environments.md", "logs.md"):
        for table in made["kept"](page):
            body = (DOCS / page).read_text(encoding="utf-8")
            body = body.partition(f"<!-- {table.block} -->")[2].partition("<!-- end")[0]
            if "%" in body:  # which become fractions
                continue
            found = {each for row in table.text.splitlines()[1:] for each in digits.findall(row)}
            assert found <= set(digits.findall(body.replace(",", ""))), table.file


def test_a_command_is_named_for_each_table(made: dict[str, Any]) -> None:
    for page in made["PAGES"]:
        for each in made["kept"](page):
            command = made["command_of"](page, each.block)
            script = DOCS.parent / command.split()[1]
            assert f'"{each.block}"' in script.read_text(encoding="utf-8"), command


@pytest.mark.parametrize(
    ("cell", "numbers"),
    [
        ("10,000", ["10000"]),
        (".81 (.78)", [".81", ".78"]),
        ("-0.161", ["-0.161"]),
        ("−.5/1.00 (.02)", ["-.5", "1.00", ".02"]),
        ("93 %", ["0.93"]),
        ("1.2e-05", ["1.2e-05"]),
        ("1.01 (.9 to 1.1)", ["1.01", ".9", "1.1"]),
        ("∞", ["inf"]),
        ("-", []),
        ("", []),
        ("clinic h", None),
        ("3.4 of 8", None),
    ],
)
def test_a_cell_is_read(cell: str, numbers: list[str] | None, made: dict[str, Any]) -> None:
    assert made["_numbers"](cell) == numbers


def test_files_are_tables_that_pandas_reads() -> None:
    table = pd.read_csv(RESULTS / "logs-clinics-2.csv")
    assert table["persons"].isin([10_000, 100_000]).all()
    assert table["ε = 1"].between(-1, 1).all()
    assert table["ε = 1, 2"].dtype == float
