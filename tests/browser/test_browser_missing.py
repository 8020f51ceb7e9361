"""Where there is no browser, the tests fail and say what to install."""

from __future__ import annotations

import pytest
from chromium_page import BrowserMissing, find_browser


@pytest.mark.parametrize("present", [set(), {"chromedriver"}, {"chromium"}])
def test_a_missing_browser_is_told_with_its_remedy(present: set[str]) -> None:
    missing = "chromium" if "chromium" not in present else "chromedriver"
    with pytest.raises(BrowserMissing, match=f"{missing} was not found") as caught:
        find_browser(lambda name: name if name in present else None)
    assert "apt-get install -y chromium chromium-driver" in str(caught.value)
    assert "SPECVERIFY_NO_BROWSER=1" in str(caught.value)


def test_any_of_its_names_will_do() -> None:
    present = {"google-chrome", "chromedriver"}
    found = find_browser(lambda name: f"/bin/{name}" if name in present else None)
    assert found == ("/bin/google-chrome", "/bin/chromedriver")
