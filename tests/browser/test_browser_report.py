"""The report's page in a real browser: nothing runs, nothing is asked for, everything fits."""

from __future__ import annotations

from pathlib import Path

import pytest
from chromium_page import Browser
from selenium.webdriver.common.by import By

from specverify.report.page import render_page
from specverify.results import (
    AuditResult,
    CheckResult,
    Family,
    Finding,
    Interval,
    RunStatus,
    Summary,
    Verdict,
)

HOSTILE = "<script>document.title='owned'</script><img src=http://evil.example/x onerror=alert(1)>"


def hostile_audit() -> AuditResult:
    check = CheckResult(
        name=f"token[{HOSTILE}]",
        family=Family.LAW,
        verdict=Verdict.FAIL,
        n=100,
        tv=Interval(estimate=0.1, low=0.05, high=0.2, confidence=0.95),
        detectable_tv=0.1,
        power=0.9,
        message=HOSTILE,
        case={"token": HOSTILE},
    )
    return AuditResult(
        run_id=HOSTILE,
        status=RunStatus.COMPLETE,
        verdict=Verdict.FAIL,
        started="",
        ended="",
        argv=(HOSTILE,),
        seed=0,
        environment={},
        target={"name": f"{HOSTILE}$x$", "form": HOSTILE},
        error_budget={HOSTILE: 1},
        checks=(check,),
        acceptance={HOSTILE: {"tokens_per_pass": 2.5}},
        timing={},
        summary=Summary(
            law=Verdict.FAIL,
            efficiency=Verdict.PASS,
            contract=Verdict.PASS,
            headline=HOSTILE,
            findings=(Finding(code=HOSTILE, text=HOSTILE),),
        ),
    )


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(render_page([hostile_audit()] * 3, {}), encoding="utf-8")
    return path


def test_hostile_names_are_shown_and_do_nothing(browser: Browser, page: Path) -> None:
    browser.open(page)
    assert browser.driver.title.startswith("specverify: ")
    assert browser.driver.find_elements(By.CSS_SELECTOR, "script, img, iframe, object, link") == []
    assert HOSTILE in browser.text("body")
    assert browser.requests() == [page.as_uri()]
    assert browser.complaints() == []


@pytest.mark.parametrize("width", [320, 1100])
def test_the_page_fits_the_screen(browser: Browser, page: Path, width: int) -> None:
    browser.open(page, width=width)
    assert browser.overflow() <= 0


def test_figures_take_the_colours_of_the_page(browser: Browser, page: Path) -> None:
    inks = []
    for dark in (False, True):
        browser.open(page, dark=dark)
        assert browser.style("figure svg text", "fill") == browser.style("body", "color")
        inks.append(browser.style("body", "color"))
    assert inks[0] != inks[1]


def test_paper_shows_what_is_folded_away(browser: Browser, page: Path) -> None:
    browser.open(page)
    visible = "return document.querySelector('details table').checkVisibility()"
    assert browser.driver.execute_script(visible) is False
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert browser.driver.execute_script(visible) is True
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_paper_is_white_whatever_the_screen(browser: Browser, page: Path) -> None:
    browser.open(page)
    ink = browser.style("body", "color")
    dark = {"name": "prefers-color-scheme", "value": "dark"}
    for media, same in (("print", True), ("screen", False)):
        setting = {"media": media, "features": [dark]}
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", setting)
        assert (browser.style("body", "color") == ink) is same
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
