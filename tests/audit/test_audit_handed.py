"""On which side the law breaks: rows and drafts that a verification was handed."""

from __future__ import annotations

import numpy as np
import pytest

from specverify.audit.checks.handed import handed_findings
from specverify.audit.engines import count_transforms
from specverify.audit.evidence import Stratum, weigh
from specverify.audit.forms import Handed
from specverify.audit.handed import (
    DRAFTS,
    GREEDY,
    HANDED_BINS,
    MICRO_TV,
    ROWS,
    count_handed,
    filled,
)
from specverify.audit.ratios import count_ratios, ratio_log_e
from specverify.audit.tally import Tally
from specverify.bugs import ZOO

N, LENGTH, VOCAB = 200, 4, 6
# Level of the transforms of drafts; the rows are compared without a sample.
SEED = 7


def rows(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.ones(VOCAB), (N, LENGTH))


def draw(rng: np.random.Generator, law: np.ndarray) -> np.ndarray:
    return (law.cumsum(-1) > rng.random((*law.shape[:-1], 1))).argmax(-1)


def found(*, drafts: str = "drawn", target: str = "own", draft: str = "own") -> dict[str, dict]:
    """Findings about drafts at every position, by code."""
    rng, target_probs, draft_probs = np.random.default_rng(SEED), rows(1), rows(2)
    tokens = draw(rng, target_probs)
    ids = draft_probs.argmax(-1) if drafts == "greedy" else draw(rng, draft_probs)
    ids = draw(rng, rows(3)) if drafts == "of another law" else ids
    at = np.indices((N, LENGTH)).reshape(2, -1)
    handed = Handed(
        rows=at[0],
        positions=at[1],
        drafts=ids[*at],
        target_probs=(target_probs if target == "own" else rows(4))[*at],
        draft_probs=draft_probs[*at],
    )
    tally, known = Tally(), draft_probs if draft == "own" else rows(5)
    laws = (target_probs, None if draft == "unknown" else known)
    count_handed(tally, tokens, laws, handed, rng)
    return {finding.code: finding.data for finding in handed_findings([tally])}


def test_drafts_of_their_law_and_rows_as_they_should_be() -> None:
    assert found() == {} == found(draft="unknown")
    assert handed_findings([Tally()]) == []


def test_greedy_drafts_with_soft_scores_are_named() -> None:
    (code, data), *rest = found(drafts="greedy").items()
    assert (code, rest) == ("drafts-scored-with-another-law", [])
    assert data["consistent_with"] == "argmax_draft"


def test_drafts_of_another_law_are_seen_and_not_named() -> None:
    data = found(drafts="of another law")["drafts-scored-with-another-law"]
    assert "consistent_with" not in data
    assert data["p_value"] < 1e-6


@pytest.mark.parametrize("side", ["target", "draft"])
def test_rows_of_another_law_are_told_by_their_side(side: str) -> None:
    data = found(**{side: "other"})
    assert list(data) == [f"{side}-rows-differ"]
    assert data[f"{side}-rows-differ"]["differing"] == N * LENGTH


def test_what_an_end_cut_off_is_left_out() -> None:
    rng, target, draft = np.random.default_rng(0), rows(1), rows(2)
    tokens = np.full((N, LENGTH), -1)
    tokens[:, 0] = 1
    at = np.indices((N, LENGTH)).reshape(2, -1)
    handed = Handed(
        rows=at[0],
        positions=at[1],
        drafts=draw(rng, draft)[*at],
        target_probs=np.where(at[1][:, None] == 0, target[*at], 1 / VOCAB),
        draft_probs=draft[*at],
    )
    tally = Tally()
    count_handed(tally, tokens, (target, draft), handed, rng)
    assert handed_findings([tally]) == []
    assert tally.arrays["handed-rows"][0, 0] == N
    law = filled(target, tokens, handed)
    np.testing.assert_array_equal(law[:, 0], draft[:, 0])
    np.testing.assert_array_equal(law[:, 1:], target[:, 1:])


def test_what_was_handed_by_hand() -> None:
    """Of two rows of cells one is off, least of three p-values; the level is 1e-6."""
    for moved, told in ((0, False), (70, False), (120, True)):
        tally, shift = Tally(), np.tile([1, -1], HANDED_BINS // 2)
        cells = tally.table(DRAFTS, (2, HANDED_BINS))
        cells[...] = 1000
        cells[1] += moved * shift
        tally.table(GREEDY, (3,))[:2] = 40, 10
        tally.table(ROWS, (2, 3))[1] = 50, 20, 10 * MICRO_TV
        found = {finding.code: finding.data for finding in handed_findings([tally])}
        assert found["draft-rows-differ"] == {"rows": 50, "differing": 20, "mean_tv": 0.2}
        alone = weigh([Stratum(cells[1], np.full(HANDED_BINS, 1 / HANDED_BINS))]).p_value
        drafts = found.get("drafts-scored-with-another-law")
        assert (drafts is not None) is told
        if told:
            assert drafts["p_value"] == pytest.approx(3 * alone, rel=1e-9, abs=0)


def test_bets_name_greedy_drafts() -> None:
    """Tokens of the law that greedy drafts with soft scores lead to; the target's as control."""
    rng, target, draft = np.random.default_rng(SEED), rows(1), rows(2)
    greedy = ZOO["argmax_draft"].row_law
    assert greedy is not None
    gains = []
    for law in (greedy(target, draft), target):
        tally = Tally()
        tokens = draw(rng, law)
        count_ratios(tally, tokens, target, draft)
        count_transforms(tally, tokens, target, draft, rng)
        gains.append(ratio_log_e(tally))
    assert max(gains[0], key=gains[0].__getitem__) == "argmax_draft"
    assert gains[0]["argmax_draft"] > np.log(1e6)
    assert max(gains[1].values()) < np.log(1e6)
