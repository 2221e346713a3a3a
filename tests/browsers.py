"""A real browser, for tests of pages; they are skipped where there is none."""

import json
import shutil
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
needs_browser = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None or find_spec("selenium") is None,
    reason="no browser: apt-get install chromium chromium-driver; pip install selenium",
)
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--force-prefers-reduced-motion",
)  # fmt: skip
DESKTOP, PHONE = (1100, 900), (390, 844)


def started(folder: Path) -> Iterator[Any]:
    """Give a browser that keeps its files in a folder, and end it."""
    webdriver = import_module("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={folder}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(DRIVER))
    driver.set_script_timeout(60)
    yield driver
    driver.quit()


def go(browser: Any, path: Path, size: tuple[int, int]) -> None:
    """Open a file in a window of a size; what was logged before is forgotten."""
    for log in ("browser", "performance"):
        browser.get_log(log)
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size == PHONE},
    )
    browser.get(path.as_uri())


def complaints(browser: Any) -> list[str]:
    """Return what the console has of warnings and errors."""
    return [
        each["message"]
        for each in browser.get_log("browser")
        if each["level"] in {"SEVERE", "WARNING"}
    ]


def requests(browser: Any, path: Path) -> list[str]:
    """Return what was asked for, but for the page itself and the browser's own first one."""
    sent = []
    for each in browser.get_log("performance"):
        message = json.loads(each["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            sent.append(message["params"]["request"]["url"])
    inner = ("data:", "chrome:", "chrome-untrusted:")
    return [url for url in sent if url != path.as_uri() and not url.startswith(inner)]
