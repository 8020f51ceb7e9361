"""The explorer in a real browser: keys move the sliders, and the numbers are Python's."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chromium_page import Browser
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from specverify.report.explorer import MAX_GAMMA, TOKEN_TIME, explorer_data, render_explorer
from specverify.simulate.timing import RooflineTiming
from specverify.theory.expected_tokens import expected_accepted_tokens
from specverify.theory.optimal_gamma import optimal_gamma
from specverify.theory.speedup import speculative_speedup


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("explorer") / "explorer.html"
    path.write_text(render_explorer(), encoding="utf-8")
    return path


def press(browser: Browser, slider: str, *keys: str) -> None:
    """Keys on a slider that has the focus, as a person without a mouse would."""
    element = browser.driver.find_element(By.ID, slider)
    browser.driver.execute_script("arguments[0].focus()", element)
    browser.driver.switch_to.active_element.send_keys(*keys)


def shown(browser: Browser) -> dict[str, float]:
    names = ("tokens-per-pass", "speedup", "best-gamma", "best-speedup")
    return {name: float(browser.text(f"#{name}")) for name in names}


def roofline_speedups(alpha: float, c: float, batch: int) -> Any:
    """Speedups over gamma from the simulator's timing model and the theory's tokens per pass."""
    timing = RooflineTiming(draft_time=c, weights_time=1.0, token_time=TOKEN_TIME, batch=batch)
    rng, gammas = np.random.default_rng(0), np.arange(1, MAX_GAMMA + 1)
    ones = np.ones_like(gammas)
    round_time = timing.draft_times(rng, gammas) + timing.verify_times(rng, ones, gammas)
    tokens = expected_accepted_tokens(alpha, gammas)
    return tokens * timing.plain_times(rng, ones) / round_time


def test_it_agrees_with_python_and_asks_for_nothing(browser: Browser, page: Path) -> None:
    browser.open(page)
    assert browser.driver.find_element(By.ID, "badge").get_attribute("data-state") == "ok"
    checked = int(browser.text("#badge").split()[-3])
    assert checked > 1000
    entries = "return performance.getEntriesByType('resource').length"
    assert browser.driver.execute_script(entries) == 0
    assert browser.requests() == [page.as_uri()]
    assert browser.complaints() == []


def test_a_slider_moves_by_keys_and_the_numbers_follow(browser: Browser, page: Path) -> None:
    browser.open(page)
    press(browser, "alpha", *[Keys.ARROW_LEFT] * 5)
    press(browser, "gamma", *[Keys.ARROW_RIGHT] * 2)
    press(browser, "c", *[Keys.ARROW_RIGHT] * 5)
    values = [browser.text(f"#{name}-value") for name in ("alpha", "gamma", "c", "batch")]
    assert values == ["0.85", "6", "0.15", "1"]
    best = optimal_gamma(0.85, 0.15, max_gamma=MAX_GAMMA)
    assert shown(browser) == pytest.approx(
        {
            "tokens-per-pass": expected_accepted_tokens(0.85, 6),
            "speedup": speculative_speedup(0.85, 6, 0.15),
            "best-gamma": best,
            "best-speedup": speculative_speedup(0.85, best, 0.15),
        },
        abs=5.1e-4,
    )
    marks = {
        name: browser.driver.find_element(By.CSS_SELECTOR, f"#speedup-chart .{name}")
        for name in ("here", "best")
    }
    assert marks["here"].get_attribute("data-gamma") == "6"
    assert marks["best"].get_attribute("data-gamma") == str(best)


@pytest.mark.parametrize("steps", [4, 6, 9])
def test_a_larger_batch_follows_the_roofline(browser: Browser, page: Path, steps: int) -> None:
    browser.open(page)
    press(browser, "batch", *[Keys.ARROW_RIGHT] * steps)
    batch = 2**steps
    assert browser.text("#batch-value") == str(batch)
    slider = browser.driver.find_element(By.ID, "batch")
    assert slider.get_attribute("aria-valuetext") == f"{batch} sequences"
    speedups = roofline_speedups(0.9, 0.1, batch)
    assert shown(browser)["speedup"] == pytest.approx(speedups[3], abs=5.1e-4)
    assert shown(browser)["best-gamma"] == int(np.argmax(speedups)) + 1
    assert ("decode plainly" in browser.text("#advice")) == (speedups.max() <= 1)


def test_the_ends_of_the_sliders(browser: Browser, page: Path) -> None:
    browser.open(page)
    press(browser, "alpha", Keys.END)
    press(browser, "gamma", Keys.END)
    press(browser, "c", Keys.HOME)
    assert shown(browser)["speedup"] == MAX_GAMMA + 1
    press(browser, "alpha", Keys.HOME)
    assert shown(browser)["tokens-per-pass"] == 1
    assert browser.complaints() == []


@pytest.mark.parametrize(("name", "alpha", "c"), [("weak", 0.4, 0.1), ("cheap", 0.7, 0.02)])
def test_a_preset_is_chosen_by_keyboard(
    browser: Browser, page: Path, name: str, alpha: float, c: float
) -> None:
    browser.open(page)
    for button in browser.driver.find_elements(By.CSS_SELECTOR, ".presets button"):
        if name in button.text:
            button.send_keys(Keys.ENTER)
            assert button.get_attribute("aria-pressed") == "true"
    best = optimal_gamma(alpha, c, max_gamma=MAX_GAMMA)
    assert browser.text("#gamma-value") == str(best)
    assert shown(browser)["speedup"] == pytest.approx(
        speculative_speedup(alpha, best, c), abs=5.1e-4
    )


def test_the_table_holds_every_gamma(browser: Browser, page: Path) -> None:
    browser.open(page)
    script = (
        "return [...document.querySelectorAll('#values tr')].map(r => r.innerText.split('\\t'))"
    )
    browser.driver.find_elements(By.TAG_NAME, "summary")[0].send_keys(Keys.ENTER)
    rows = np.array(browser.driver.execute_script(script), dtype=np.float64)
    gammas = np.arange(1, MAX_GAMMA + 1)
    assert rows[:, 0] == pytest.approx(gammas)
    assert rows[:, 1] == pytest.approx(expected_accepted_tokens(0.9, gammas), abs=5.1e-4)
    assert rows[:, 2] == pytest.approx(speculative_speedup(0.9, gammas, 0.1), abs=5.1e-4)


def test_everything_that_can_be_moved_has_a_name(browser: Browser, page: Path) -> None:
    browser.open(page)
    sliders = browser.driver.find_elements(By.CSS_SELECTOR, "input")
    names = [slider.accessible_name for slider in sliders]
    assert names == ["acceptance rate α", "draft length γ", "draft cost c", "batch"]
    assert {slider.aria_role for slider in sliders} == {"slider"}
    assert all(b.accessible_name for b in browser.driver.find_elements(By.TAG_NAME, "button"))


def test_the_tab_key_visits_all_of_them(browser: Browser, page: Path) -> None:
    browser.open(page)
    visited = []
    for _ in range(9):
        browser.driver.switch_to.active_element.send_keys(Keys.TAB)
        element = browser.driver.switch_to.active_element
        visited.append(element.get_attribute("id") or element.tag_name)
    assert visited == [*["button"] * 3, "alpha", "gamma", "c", "batch", *["summary"] * 2]


@pytest.mark.parametrize("width", [320, 360, 1100])
def test_it_fits_the_screen(browser: Browser, page: Path, width: int) -> None:
    browser.open(page, width=width)
    assert browser.overflow() <= 0


def test_light_and_dark(browser: Browser, page: Path) -> None:
    colors = []
    for dark in (False, True):
        browser.open(page, dark=dark)
        colors.append((browser.style("body", "backgroundColor"), browser.style("body", "color")))
    assert colors == [
        ("rgb(255, 255, 255)", "rgb(27, 27, 27)"),
        ("rgb(22, 24, 27)", "rgb(232, 234, 237)"),
    ]


def doctored_check(data: dict[str, Any]) -> None:
    data["checks"][100]["speedup"] *= 1 + 1e-6


def doctored_best(data: dict[str, Any]) -> None:
    data["best_checks"][50]["best_gamma"] += 1


def doctored_dot(data: dict[str, Any]) -> None:
    data["presets"][1]["dots"][3]["tokens_per_pass"] += 0.01


def doctored_constant(data: dict[str, Any]) -> None:
    data["settings"]["token_time"] *= 2


@pytest.mark.parametrize("doctor", [doctored_check, doctored_best, doctored_dot, doctored_constant])
def test_a_doctored_page_says_so(
    browser: Browser, tmp_path: Path, doctor: Callable[[dict[str, Any]], None]
) -> None:
    data = copy.deepcopy(explorer_data())
    doctor(data)
    path = tmp_path / "doctored.html"
    path.write_text(render_explorer(data), encoding="utf-8")
    browser.open(path)
    badge = browser.driver.find_element(By.ID, "badge")
    assert badge.get_attribute("data-state") == "bad"
    assert badge.get_attribute("role") == "alert"
    assert "disagree" in badge.text
    assert "in Python" in badge.text
