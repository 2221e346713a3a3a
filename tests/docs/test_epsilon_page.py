"""What epsilon means: the page's numbers are the library's, and the slider tells the same."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import browsers
import pytest
from browsers import DESKTOP, PHONE, complaints, needs_browser, requests

from privrl.costs import GaussianCost, Relation
from privrl.experiments.reports.promise import best_guess, guess_text

DOCS = Path(__file__).parents[2] / "docs"
SLIDER = DOCS / "epsilon.html"


def rows(block: str) -> list[list[str]]:
    """Return the cells of a table of the page."""
    text = (DOCS / "epsilon.md").read_text(encoding="utf-8")
    (table,) = re.findall(rf"<!-- {block} -->\n(.*?)\n<!-- end of", text, re.S)
    return [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]


def percent(cell: str) -> float:
    return float(cell.removesuffix(" %"))


def test_no_guess_is_told_too_small() -> None:
    for epsilon, _, half, rare in rows("guesses"):
        odds = 2.718281828 ** float(epsilon) / 99
        for told, exact in ((half, best_guess(float(epsilon), 1e-5)), (rare, odds / (1 + odds))):
            assert 100 * exact - 1e-6 <= percent(told) < 100 * exact + 0.1


def test_both_forms_are_of_one_run() -> None:
    """Noisy counts are one Gaussian release, whose exact cost is known."""
    relation = Relation("one count", {"counts": [(1,)]})
    for order_2, epsilon, half, noise, _ in rows("measured"):
        cost = GaussianCost(relation=relation, sigma=float(order_2) ** -0.5)
        assert float(epsilon) == pytest.approx(float(cost.epsilon(1e-5)), rel=1e-3)
        assert percent(noise) == pytest.approx(50 + 50 * float(cost.delta(0.0)), abs=0.1)
        assert percent(noise) <= percent(half)


def test_reports_name_the_page() -> None:
    assert (DOCS.parent / "docs/epsilon.md").exists()
    assert "(docs/epsilon.md)" in guess_text(1.0, 1e-5)


def test_the_slider_has_the_points_of_the_page() -> None:
    (points,) = re.findall(r'id="points">(.*)</script>', SLIDER.read_text(encoding="utf-8"))
    told = [[float(row[1]), float(row[-1].split(" ± ")[0])] for row in rows("measured")]
    assert json.loads(points) == told
    assert told[0][0] <= 0.01  # between measured points everywhere
    assert told[-1][0] >= 10


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    yield from browsers.started(tmp_path_factory.mktemp("browser"))


def shown(browser: Any) -> tuple[float, float, float]:
    """Return epsilon, the guess and the reward kept, the last two in percent."""
    texts = (browser.find_element("id", each).text for each in ("value", "guess", "kept"))
    epsilon, guess, kept = map(percent, texts)
    return epsilon, guess, kept


@pytest.mark.few(2)
@needs_browser
@pytest.mark.needs("selenium")
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_the_slider_moves_both_numbers(browser: Any, size: tuple[int, int]) -> None:
    browsers.go(browser, SLIDER, size)
    assert shown(browser)[:2] == (1, 73.2)
    slider = browser.find_element("id", "epsilon")
    assert slider.accessible_name.startswith("ε, at δ = 0.00001")
    seen = [shown(browser)]
    for key in ("\ue011", "\ue00e", "\ue014", "\ue010"):  # Home, PageUp, right, End
        slider.send_keys(key)
        seen.append(shown(browser))
    _, first, second, third, last = seen
    assert [first[0], last[0]] == [0.01, 10]
    assert first[1] == 50.3
    assert last[1] == 100
    assert first[1] < second[1] <= third[1] < last[1]
    assert first[0] < second[0] < third[0] < last[0]
    assert first[2] < second[2] < third[2] < last[2]
    (low, at_low), (high, at_high) = (
        (float(row[1]), 100 * float(row[-1].split(" ± ")[0])) for row in rows("measured")[:2]
    )
    assert low < first[0] < high
    assert at_low < first[2] < at_high
    wide, inner = browser.execute_script(
        "return [document.documentElement.scrollWidth, window.innerWidth]"
    )
    assert wide <= inner == size[0]
    assert complaints(browser) == []
    assert requests(browser, SLIDER) == []
