"""Accepted drafts as they are reported: what the blocks show, or not."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from specverify.audit.counting import (
    block_number,
    count_blocks,
    count_completions,
    count_rounds,
)
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


def placed(table) -> dict[tuple[int, ...], int]:
    """Where something was counted, and how often."""
    return {tuple(map(int, place)): int(table[tuple(place)]) for place in np.argwhere(table)}


def test_rounds_are_read_stage_by_stage_after_their_contexts() -> None:
    """A Markov chain's context is the token before: a correction, a bonus, a correction that is
    the rejected draft again, and two unreadable.
    """
    tally, scenario = Tally(), find(Form.VERIFY, "markov")
    rounds = [
        (0, [1, 2, 0], [1, 0], 1),
        (2, [1, 2, 0], [1, 2, 0, 1], 4),
        (1, [1, 2, 0], [1, 2, 0], 3),
        (0, [1, 2, 0], [2, 2, 1], 0),
        (0, [1, 2, 0], [], 3),
    ]
    count_rounds(tally, scenario, rounds)
    assert placed(tally.arrays["stages"]) == {
        (0, 0, 0, 1): 1,  # position, context, accepted, token
        (1, 1, 1, 2): 1,  # rejected
        (1, 1, 2, 0): 1,  # its correction
        (0, 2, 0, 1): 1,
        (0, 1, 0, 1): 1,
        (1, 1, 0, 2): 2,
        (2, 2, 1, 0): 1,
        (2, 2, 2, 0): 1,
        (2, 2, 0, 0): 1,
        (3, 0, 2, 1): 1,  # the bonus
    }
    assert tally.arrays["stages-unread"].tolist() == [2]
    # By context, leading tokens that are drafts, and length.
    expected = {(0, 1, 2): 1, (2, 3, 4): 1, (1, 3, 3): 1, (0, 0, 3): 1, (0, 0, 0): 1}
    assert placed(tally.arrays["blocks"]) == expected
    assert tally.arrays["reports"].tolist() == [3, 1, 1]  # right, the length, neither


def test_blocks_have_numbers_and_places_of_their_own() -> None:
    scenario = find(Form.VERIFY, "zeros-in-draft")
    blocks = [b for n in (1, 2, 3) for b in itertools.product(range(5), repeat=n)]
    numbers = {block_number(block, scenario) for block in blocks}
    assert len(numbers) == len(blocks)
    assert 0 < min(numbers) <= max(numbers) < 6**3
    tally, chain = Tally(), find(Form.VERIFY, "markov")
    count_blocks(tally, chain, [([1, 2, 0], [1, 0], None), ([1, 2, 0], [2], None)])
    assert placed(tally.arrays["block-token"]) == {(0, 0, 1): 1, (1, 1, 0): 1, (0, 0, 2): 1}


def test_counting_starts_after_the_prompt() -> None:
    """A context of two tokens of three: 3 for the prompt's 1 and 0, then 1 for 0 and 1, ..."""
    tally, scenario = Tally(), find(Form.DECODE, "order-2")
    count_completions(tally, scenario, [[1, 2, 0, 0, 0, 0]])
    count_blocks(tally, scenario, [([1, 2], [1, 2], None)])
    first = {(0, 3, 1): 1, (1, 1, 2): 1}
    assert placed(tally.arrays["block-token"]) == first
    later = {(2, 5, 0): 1, (3, 6, 0): 1, (4, 0, 0): 1, (5, 0, 0): 1}
    assert placed(tally.arrays["token"]) == first | later


def test_completions_are_counted_by_place_and_their_impossible_tokens_by_position() -> None:
    tally, scenario = Tally(), find(Form.VERIFY, "markov")
    count_completions(tally, scenario, [[1, 2, 0, 0], [1, 2, 1, 0]])
    places = {(0, 0, 1): 2, (1, 1, 2): 2, (2, 2, 0): 1, (2, 2, 1): 1, (3, 0, 0): 1, (3, 1, 0): 1}
    assert placed(tally.arrays["token"]) == places
    assert placed(tally.arrays["path"]) == {(1 * 27 + 2 * 9,): 1, (1 * 27 + 2 * 9 + 3,): 1}
    tally, scenario = Tally(), find(Form.VERIFY, "one-hot")
    right = scenario.chain.target[:, 0].argmax(axis=1)[: scenario.length]
    wrong = right.copy()
    wrong[2] = (wrong[2] + 1) % scenario.vocab_size
    count_completions(tally, scenario, [right.tolist(), wrong.tolist(), wrong.tolist()])
    assert tally.arrays["impossible"].tolist() == [0, 0, 2, 0]
    case = tally.cases["impossible"]
    assert (case["position"], case["token"]) == (2, wrong[2])
