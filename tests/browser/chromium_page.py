"""A real Chromium for the pages: found, or told how to install; and what a page did in it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from selenium import webdriver

OPT_OUT = "SPECVERIFY_NO_BROWSER"
HOW_TO_INSTALL = (
    "the pages are tested in a real browser, and {missing} was not found. Install it with"
    " `apt-get install -y chromium chromium-driver` (Debian; `chromium-browser"
    " chromium-chromedriver` on Ubuntu), or put `chromium` or `google-chrome` and a `chromedriver`"
    f" of the same version on the PATH. To run the other tests without: {OPT_OUT}=1"
)
_SENT = "Network.requestWillBeSent"


class BrowserMissing(Exception):
    """No browser, with what to do about it."""


def find_browser(which: Callable[[str], str | None] = shutil.which) -> tuple[str, str]:
    """Paths of the browser and of its driver."""
    names = ("chromium", "chromium-browser", "google-chrome")
    browser = next((path for path in map(which, names) if path), None)
    driver = which("chromedriver")
    for path, name in ((browser, "chromium"), (driver, "chromedriver")):
        if path is None:
            raise BrowserMissing(HOW_TO_INSTALL.format(missing=name))
    assert browser is not None
    assert driver is not None
    return browser, driver


@dataclass(frozen=True)
class Browser:
    """A started browser, and what it did since the page was opened."""

    driver: webdriver.Chrome

    def open(self, path: Path, *, width: int = 1100, dark: bool = False) -> None:
        """Show a page, of this width and with this preference, from a clean slate."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        size |= {"screenWidth": width, "screenHeight": 900}
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.get("about:blank")
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        for log in ("browser", "performance"):
            self.driver.get_log(log)
        self.driver.get(path.as_uri())

    def complaints(self) -> list[str]:
        """Warnings and errors of the console."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """Everything that was asked for, other than what the page holds itself."""
        events = (json.loads(e["message"])["message"] for e in self.driver.get_log("performance"))
        sent = [e["params"]["request"]["url"] for e in events if e["method"] == _SENT]
        return [url for url in sent if not url.startswith("data:")]

    def overflow(self) -> int:
        """Pixels by which the page is wider than the screen."""
        # A phone zooms out until a page fits: its inner width tells nothing, its screen's does.
        script = "return document.documentElement.scrollWidth - screen.width"
        return int(self.driver.execute_script(script))

    def style(self, selector: str, name: str) -> str:
        """A computed style."""
        script = "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]"
        return str(self.driver.execute_script(script, selector, name))

    def text(self, selector: str) -> str:
        """Text of an element, hidden or not."""
        script = "return document.querySelector(arguments[0]).textContent.trim()"
        return str(self.driver.execute_script(script, selector))
