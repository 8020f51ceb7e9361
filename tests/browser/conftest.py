"""One browser for all tests of a worker."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from chromium_page import OPT_OUT, Browser, BrowserMissing, find_browser
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all tests of a worker; it fails, not skips, where there is none."""
    if os.environ.get(OPT_OUT):
        pytest.skip(f"{OPT_OUT} is set")
    try:
        binary, driver_path = find_browser()
    except BrowserMissing as missing:
        pytest.fail(str(missing), pytrace=False)
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in (*_FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(driver_path))
    yield Browser(driver)
    driver.quit()
