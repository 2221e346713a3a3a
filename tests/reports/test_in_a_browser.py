"""Pages in a real browser, with no network: they are drawn, tell, sort, and fit on a phone."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import browsers
import pytest
from browsers import DESKTOP, PHONE, complaints, needs_browser, requests
from folders import EVIL, evil_histogram, evil_training, saved_sweep

pytest.importorskip("bokeh", reason="no bokeh: pip install 'privrl[report]'")

from privrl.experiments.palette import COLOURS
from privrl.experiments.reports import report

pytestmark = [needs_browser, pytest.mark.needs("bokeh", "selenium")]
KINDS = ("training", "histogram", "sweep")

#: Elements of Bokeh's, which lie in shadows.
DEEP = """
const seek = (root, wanted) => {
  const found = Array.from(root.querySelectorAll(wanted));
  root.querySelectorAll("*").forEach((each) => {
    if (each.shadowRoot) found.push(...seek(each.shadowRoot, wanted));
  });
  return found;
};
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    evil_training(folder / "training")
    evil_histogram(folder / "histogram")
    saved_sweep(folder / "sweep")
    written = {}
    for kind in KINDS:
        written[kind] = folder / f"{kind}.html"
        written[kind].write_text(report(folder / kind, "researcher")[1], encoding="utf-8")
    return written


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    yield from browsers.started(tmp_path_factory.mktemp("browser"))


def opened(browser: Any, path: Path, size: tuple[int, int] = DESKTOP) -> None:
    """Open a page of a size, and wait until its pictures are drawn."""
    browsers.go(browser, path, size)
    browser.execute_async_script(
        DEEP
        + """
        const done = arguments[0];
        const wait = () => {
          const n = document.querySelectorAll(".picture").length;
          const drawn = seek(document, "canvas").filter((c) => c.width > 100);
          drawn.length >= n ? requestAnimationFrame(() => done()) : setTimeout(wait, 20);
        };
        wait();"""
    )


@pytest.mark.few(6)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_a_page_is_drawn_alone_and_fits(
    browser: Any, pages: dict[str, Path], kind: str, size: tuple[int, int]
) -> None:
    opened(browser, pages[kind], size)
    assert complaints(browser) == []
    assert requests(browser, pages[kind]) == []
    wide, inner = browser.execute_script(
        "return [document.documentElement.scrollWidth, window.innerWidth]"
    )
    assert wide <= inner == size[0]
    # Something was drawn: there are pixels of a colour of the palette.
    assert browser.execute_script(
        DEEP
        + """
        const wanted = new Set(arguments[0]);
        return seek(document, "canvas").some((canvas) => {
          const drawn = canvas.getContext("2d");
          if (!drawn || !canvas.width) return false;
          const { data } = drawn.getImageData(0, 0, canvas.width, canvas.height);
          for (let i = 0; i < data.length; i += 4)
            if (wanted.has((data[i] << 16) + (data[i + 1] << 8) + data[i + 2])) return true;
          return false;
        });""",
        [int(colour[1:], 16) for colour in COLOURS],
    )
    if kind != "sweep":
        assert browser.title != "run"
        shown = browser.execute_script("return document.body.textContent")
        assert EVIL in shown


@pytest.mark.slow
def test_the_policy_of_a_page_stops_a_script_that_got_in(
    browser: Any, pages: dict[str, Path], tmp_path: Path
) -> None:
    text = pages["histogram"].read_text(encoding="utf-8")
    planted = text.replace("</main>", '</main><script>document.title = "run"</script>')
    (tmp_path / "planted.html").write_text(planted, encoding="utf-8")
    opened(browser, tmp_path / "planted.html")
    assert browser.title != "run"
    assert any("Content Security Policy" in told for told in complaints(browser))
    unbarred = planted.replace("Content-Security-Policy", "Nothing")
    (tmp_path / "unbarred.html").write_text(unbarred, encoding="utf-8")
    opened(browser, tmp_path / "unbarred.html")
    assert browser.title == "run"  # so it would be seen


@pytest.mark.slow
def test_a_picture_tells_what_is_under_the_pointer(browser: Any, pages: dict[str, Path]) -> None:
    opened(browser, pages["histogram"])
    left, top, width = browser.execute_script(
        DEEP
        + """
        document.querySelector(".picture").scrollIntoView();
        const box = seek(document, ".bk-Canvas")[0].getBoundingClientRect();
        return [box.left, box.top, box.width];"""
    )
    told = ""
    for place in range(4, 14):  # into the second bar of three, from the names of the cells on
        at = {"type": "mouseMoved", "x": left + place / 20 * width, "y": top + 40}
        browser.execute_cdp_cmd("Input.dispatchMouseEvent", at)
        told = browser.execute_script(
            DEEP
            + """return seek(document, ".bk-Tooltip")
              .map((each) => (each.shadowRoot ?? each).textContent).join(" ");"""
        )
        if "two" in told:
            break
    assert "records" in told
    assert "two" in told
    assert "to" in told  # of an interval


@pytest.mark.slow
def test_tables_sort_by_pointer_and_by_keyboard(browser: Any, pages: dict[str, Path]) -> None:
    opened(browser, pages["histogram"])
    column = """
        const head = Array.from(document.querySelectorAll("main > section > .scroll th"))
          .find((each) => each.textContent === "count");
        const rows = Array.from(head.closest("table").tBodies[0].rows);
        return [head.getAttribute("aria-sort"),
                rows.map((row) => Number(row.cells[head.cellIndex].dataset.key))];"""
    _, before = browser.execute_script(column)
    press = column.split("const rows", maxsplit=1)[0]
    browser.execute_script(press + "head.firstChild.click(); head.firstChild.focus();")
    assert browser.execute_script(column) == ["ascending", sorted(before)]
    for kind in ("keyDown", "keyUp"):
        key = {"type": kind, "key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13}
        browser.execute_cdp_cmd(
            "Input.dispatchKeyEvent", key | {"text": "\r"} if kind == "keyDown" else key
        )
    assert browser.execute_script(column) == ["descending", sorted(before, reverse=True)]
    outline = browser.execute_script(
        "const seen = getComputedStyle(document.activeElement);"
        "return [seen.outlineStyle, parseFloat(seen.outlineWidth)]"
    )
    assert outline == ["solid", 3]


def test_a_page_is_in_order_for_who_does_not_see_it(browser: Any, pages: dict[str, Path]) -> None:
    opened(browser, pages["training"])
    found = browser.execute_script("""
        const all = (wanted) => Array.from(document.querySelectorAll(wanted));
        return {
          language: document.documentElement.lang,
          headings: all("h1, h2, h3").map((each) => each.tagName),
          pictures: all(".picture").map((each) => [each.getAttribute("role"), each.ariaLabel]),
          captions: all("figcaption").length,
          heads: all("th").every((each) => each.scope === "col"),
          links: all("nav a").every((each) => document.querySelector(each.hash)),
        };""")
    assert found["language"] == "en"
    assert found["headings"] == ["H1", *["H2"] * (len(found["headings"]) - 1)]
    assert len(found["pictures"]) == found["captions"] == 2
    assert all(role == "img" and len(label) > 20 for role, label in found["pictures"])
    assert found["heads"]
    assert found["links"]
