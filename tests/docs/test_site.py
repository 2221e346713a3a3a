"""The built site: all names are in it, it asks for nothing elsewhere, and browsers show it well.

``nox -s site`` builds it and runs these tests; so does ``.ci/run``.
"""

import json
import os
import re
import zlib
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from typing import Any

import browsers
import pytest
from browsers import DESKTOP, PHONE, complaints, needs_browser, requests

SITE = Path(os.environ.get("PRIVRL_SITE", "build/site")).resolve()
pytestmark = pytest.mark.skipif(
    "PRIVRL_SITE" not in os.environ,
    reason="no site: sphinx-build -W docs build/site; PRIVRL_SITE=build/site says where it is",
)
SEEN = (
    "index", "quickstart", "concepts", "epsilon", "exact-accounting", "comparison", "faq",
    "models", "threat-model", "howto/own-mechanism", "tutorials/index", "examples/plot_policy",
    "reference/privrl.agents", "reference/commands",
)  # fmt: skip


class Fetched(HTMLParser):
    """What a page makes a browser fetch; links to follow are left out."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        followed = {"next", "prev", "search", "index", "canonical"}
        if tag == "a" or (tag == "link" and told.get("rel") in followed):
            return
        found = (told.get("src"), told.get("href"), told.get("srcset"), told.get("data"))
        self.addresses += [each for each in found if each]


def test_no_page_asks_for_what_lies_elsewhere() -> None:
    pages = list(SITE.rglob("*.html"))
    assert len(pages) > 80
    for page in pages:
        parser = Fetched()
        parser.feed(page.read_text(encoding="utf-8"))
        asked = [each for each in parser.addresses if re.match(r"(https?:)?//", each)]
        assert not asked, (page, asked)
    for sheet in SITE.rglob("*.css"):
        text = sheet.read_text(encoding="utf-8")
        assert not re.search(r"(url\(|@import )\s*[\"']?(https?:)?//", text), sheet


def test_every_public_name_is_in_the_reference() -> None:
    told = zlib.decompress((SITE / "objects.inv").read_bytes().split(b"\n", 4)[4]).decode()
    known = {line.split(" ", 1)[0] for line in told.splitlines()}
    ends = {name.rpartition(".")[2] for name in known if name.count(".") >= 1}
    lost = []
    for page in (SITE / "reference").glob("privrl*.html"):
        module = import_module(page.stem)
        names = [n for n in getattr(module, "__all__", ()) if not n.startswith("__")]
        text = page.read_text(encoding="utf-8")
        lost += [f"{page.stem}.{n}" for n in names if n not in ends or n not in text]
    assert not lost
    assert {"privrl.agents.PSRL", "privrl.costs.Cost", "privrl.secret_rng"} <= known


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    yield from browsers.started(tmp_path_factory.mktemp("browser"))


#: The least contrast of what is read with what is behind it, over all kinds of text.
CONTRAST = """
const parse = (colour) => (colour.match(/[\\d.]+/g) || []).map(Number);
const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
  .map((v) => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
const behind = (node) => {
  for (; node; node = node.parentElement) {
    const colour = parse(getComputedStyle(node).backgroundColor);
    if (colour.length === 3 || colour[3] > .5) return colour;
  }
  return [255, 255, 255];
};
let least = [99, ""];
for (const node of document.querySelectorAll("main p, main a, main li, main td, main th, main code, main h1, main pre span")) {
  if (!node.innerText || !node.checkVisibility()) continue;
  const [a, b] = [light(parse(getComputedStyle(node).color)), light(behind(node))].sort((x, y) => y - x);
  const ratio = (a + .05) / (b + .05);
  if (ratio < least[0]) least = [ratio, node.outerHTML.slice(0, 80)];
}
return least;
"""  # noqa: E501


@needs_browser
@pytest.mark.needs("selenium")
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pages_are_shown(browser: Any, size: tuple[int, int], theme: str) -> None:
    for name in SEEN:
        page = SITE / f"{name}.html"
        browsers.go(browser, page, size)
        browser.execute_script("document.documentElement.dataset.theme = arguments[0]", theme)
        wide = browser.execute_script(
            "return [document.documentElement.scrollWidth, window.innerWidth]"
        )
        assert wide[0] <= wide[1], (name, wide)
        ratio, where = browser.execute_script(CONTRAST)
        assert ratio >= 4.5, (name, ratio, where)
        assert complaints(browser) == [], name
        elsewhere = [url for url in requests(browser, page) if not url.startswith("file:")]
        assert elsewhere == [], name


@needs_browser
@pytest.mark.needs("selenium")
def test_the_slider_works_on_its_page(browser: Any) -> None:
    browsers.go(browser, SITE / "epsilon.html", DESKTOP)
    frame = browser.find_element("css selector", "iframe.slider")
    browser.execute_script("arguments[0].scrollIntoView()", frame)
    browser.switch_to.frame(frame)
    before = browser.find_element("id", "guess").text
    browser.find_element("id", "epsilon").send_keys("\ue010")  # End
    after = browser.find_element("id", "guess").text
    browser.switch_to.default_content()
    assert before != after == "100.0 %"
    assert complaints(browser) == []


@needs_browser
@pytest.mark.needs("selenium")
def test_formulas_are_drawn_by_the_browser(browser: Any) -> None:
    browsers.go(browser, SITE / "exact-accounting.html", DESKTOP)
    drawn = browser.execute_script(
        "return [...document.querySelectorAll('math')].map((m) => m.getBoundingClientRect().width)"
    )
    assert len(drawn) > 50
    assert min(drawn) > 0
    assert "$" not in browser.find_element("tag name", "article").text


@needs_browser
@pytest.mark.needs("selenium")
def test_the_search_finds_without_a_network(browser: Any) -> None:
    page = SITE / "search.html"
    browsers.go(browser, page, DESKTOP)
    browser.get(f"{page.as_uri()}?q=accountant")
    found = browser.execute_async_script(
        "const told = arguments[0]; const look = () => {"
        " const links = document.querySelectorAll('#search-results li a');"
        " links.length > 3 ? told(links.length) : setTimeout(look, 50); }; look();"
    )
    assert found > 3
    assert complaints(browser) == []
    assert json.dumps([u for u in requests(browser, page) if u.startswith("http")]) == "[]"
