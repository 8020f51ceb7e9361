"""Accepted drafts as they are reported: what the blocks show, or not."""

from __future__ import annotations

import pytest

from specverify.audit.counting import count_blocks
from specverify.audit.forms import Form
from specverify.audit.scenarios import find
from specverify.audit.tally import Tally
from specverify.bugs import ZOO
from specverify.results import Verdict


def broken(*blocks) -> list[int]:
    tally = Tally()
    count_blocks(tally, find(Form.VERIFY, "same"), list(blocks))
    return tally.arrays["reports-broken"].tolist()


@pytest.mark.parametrize(
    ("block", "fits"),
    [
        (([0, 1, 2], [0, 3], 1), True),  # a correction
        (([0, 1, 2], [0, 1, 2, 3], 3), True),  # a bonus
        (([0, 1, 2], [0, 1, 2], 3), True),  # a scheme without one
        (([0, 1, 2], [0, 1], 1), True),  # the correction happens to be the draft
        (([0, 1, 2], [0, 3], 2), False),  # a mask's sum
        (([0, 1, 2], [0, 1, 2], 2), True),
        (([0, 1, 2], [0, 1, 3, 3], 3), False),  # a draft that was not emitted
        (([0, 1, 2], [0, 1, 3], 1), False),  # two tokens after the prefix
    ],
)
def test_what_a_block_shows(block, fits) -> None:
    assert broken(block) == ([1, 0] if fits else [0, 1])


def test_blocks_without_reports_are_not_judged() -> None:
    tally = Tally()
    count_blocks(tally, find(Form.VERIFY, "same"), [([0, 1, 2], [0, 3], None)])
    assert tally.get("reports-broken") is None


def test_a_miscount_fails_its_check_and_not_the_law(small_audit) -> None:
    result = small_audit(ZOO["raw_mask_counted"].callable, framework="numpy", gammas=(3,))
    counts = [c for c in result.checks if c.name.startswith("counts[")]
    assert Verdict.FAIL in {c.verdict for c in counts}
    assert (result.verdict, result.summary.contract) == (Verdict.PASS, Verdict.FAIL)
