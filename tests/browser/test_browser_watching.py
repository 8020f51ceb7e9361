"""The watching itself: a page that complains, asks for something, or is too wide is noticed."""

from __future__ import annotations

from pathlib import Path

from chromium_page import Browser

# A port of this machine where nobody listens: the request is made and refused.
NOWHERE = "http://127.0.0.1:9/pixel.png"


def test_a_bad_page_is_noticed(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "bad.html"
    path.write_text(
        f"<!DOCTYPE html><meta name=viewport content=width=device-width><img src='{NOWHERE}'>"
        "<div style='width: 900px'>wide</div><script>console.error('oh')</script>"
    )
    browser.open(path, width=360)
    assert any("oh" in message for message in browser.complaints())
    assert browser.requests() == [path.as_uri(), NOWHERE]
    assert browser.overflow() > 0


def test_what_one_page_did_is_not_held_against_the_next(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "good.html"
    path.write_text("<!DOCTYPE html><title>good</title><p>nothing to see")
    browser.open(path)
    assert browser.complaints() == []
    assert browser.requests() == [path.as_uri()]
    assert browser.overflow() <= 0
