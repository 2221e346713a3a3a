"""The tutorials: their cells run in order, and show what the pages say that they show."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import matplotlib.pyplot as plt
import pytest

from privrl.costs import ReplaceEpisode

FOLDER = Path(__file__).parents[2] / "docs" / "tutorials"
INDEX = (FOLDER / "index.md").read_text(encoding="utf-8")
PAGES = sorted(path for path in FOLDER.glob("*.md") if path.name != "index.md")
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
CELL = re.compile(r"^```\{code-cell\} python\n((?::[^\n]*\n)*)(.*?)^```$", re.M | re.S)


def cells(page: Path) -> list[str]:
    return [code for _, code in CELL.findall(page.read_text(encoding="utf-8"))]


def first_agent(names: dict[str, Any]) -> None:
    assert names["page"]["shareable"] is True
    assert names["page"]["guarantee"]["epsilon_delta"] <= 1
    assert names["value"].policy > names["value"].random


def own_environment(names: dict[str, Any]) -> None:
    assert names["agent"].accountant.relation == ReplaceEpisode(30)
    assert names["earned"].mean() > 10  # random advice: 4


def choosing_epsilon(names: dict[str, Any]) -> None:
    assert names["people"] == 100_000
    assert names["kept"] > 0.9


def census(names: dict[str, Any]) -> None:
    """The fourth release was refused."""
    assert len(names["budget"].journal) == 3
    assert names["model"].score(names["aside"], names["aside"]["income"]) > 0.87


def audit(names: dict[str, Any]) -> None:
    """A page's other audits may be wrong: one in a hundred is."""
    assert names["found"].event
    assert names["found"].violated
    assert names["test"].violated
    assert names["result"].violated


SHOWS: dict[str, tuple[Callable[[dict[str, Any]], None], Any]] = {
    "audit": (audit, []),
    "census": (census, pytest.mark.slow),
    "choosing-epsilon": (choosing_epsilon, pytest.mark.slow),
    "first-agent": (first_agent, pytest.mark.slow),
    "own-environment": (own_environment, pytest.mark.slow),
}


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run in a folder of its own, and leave no pictures and no environments."""
    before = dict(gym.registry)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PRIVRL_DATA", raising=False)
    yield
    gym.registry.clear()
    gym.registry.update(before)
    plt.close("all")


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=marks) for name, (_, marks) in SHOWS.items()]
)
def test_cells_run(name: str) -> None:
    names: dict[str, Any] = {"__name__": "__page__"}
    for code in cells(FOLDER / f"{name}.md"):
        exec(compile(code, name, "exec"), names)
    SHOWS[name][0](names)


def test_each_page_is_run_and_listed() -> None:
    assert [page.stem for page in PAGES] == sorted(SHOWS)
    assert sorted(re.findall(r"\((.+)\.md\)", INDEX)) == sorted(SHOWS)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_a_notebook_of_short_cells(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.startswith("---\njupytext:\n")
    assert "\nkernelspec:\n  display_name: Python 3\n" in text
    assert text.count("```{") == len(cells(page)) >= 8
    (minutes,) = re.findall(rf"\({page.name}\) \|.*\| (\d+) \|", INDEX)
    assert f"\n*{NUMBERS[int(minutes)].capitalize()} minutes to read." in text
    assert "\n## What to do next\n" in text
    for options, code in CELL.findall(text):
        assert len(code.splitlines()) <= (30 if "hide-input" in options or "class " in code else 15)
        assert all(len(line) <= 76 for line in code.splitlines())
