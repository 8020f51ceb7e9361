"""Settings that an engine was really sent are named where they differ from those it was told."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from specverify.audit.sent_settings import count_settings, likely_setting, other_settings
from specverify.audit.tally import Tally
from specverify.warping import SamplingParams, warp_probs

PLAIN = SamplingParams()
TOLD = SamplingParams(temperature=0.8, top_k=8, top_p=0.9)
ROWS = np.random.default_rng(3).dirichlet(np.full(16, 0.7), size=400)


def tally_of(law: np.ndarray, told: SamplingParams, *, batches: int = 1) -> Tally:
    """Counts of tokens drawn from the rows of a law, 400 of one token each."""
    tally, rng = Tally(), np.random.default_rng(11)
    target = warp_probs(ROWS, told)[:, None]
    for _ in range(batches):
        drawn = (rng.random((400, 1)) > law.cumsum(axis=1)).sum(axis=1, keepdims=True)
        tokens = np.minimum(drawn, 15)
        count_settings(tally, tokens, target, told, lambda: ROWS[:, None])
    return tally


@pytest.mark.parametrize(
    ("told", "changed", "text"),
    [
        (PLAIN, {"temperature": 0.7}, "temperature 0.7 in place of 1"),
        (PLAIN, {"top_k": 3}, "top-k 3 in place of none"),
        (TOLD, {"temperature": 1.6}, "temperature 1.6 in place of 0.8"),
        (TOLD, {"top_p": None}, "top-p none in place of 0.9"),
        (TOLD, {"temperature": 1.0, "top_k": None, "top_p": None}, "no settings at all"),
    ],
)
def test_the_setting_that_was_sent_is_named(told, changed, text) -> None:
    sent = warp_probs(ROWS, replace(told, **changed))
    assert likely_setting(tally_of(sent, told), told) == text


@pytest.mark.parametrize("told", [PLAIN, TOLD])
def test_nothing_is_named_where_the_settings_arrived(told) -> None:
    assert likely_setting(tally_of(warp_probs(ROWS, told), told), told) is None


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_a_law_that_is_wrong_for_another_reason_is_not_explained_by_settings(share) -> None:
    other = np.roll(ROWS, 1, axis=0)  # the row of another context
    assert likely_setting(tally_of((1 - share) * ROWS + share * other, PLAIN), PLAIN) is None


def test_padding_is_not_read_and_temperature_zero_is_left_out() -> None:
    tally, tokens = Tally(), np.full((400, 1), -1)
    tokens[0] = 3
    count_settings(tally, tokens, ROWS[:, None], PLAIN, lambda: ROWS[:, None])
    seen = tally.arrays["sent-settings"]
    greedy = SamplingParams(temperature=0.0)
    count_settings(Tally(), tokens, ROWS[:, None], greedy, pytest.fail)
    alone = Tally()
    count_settings(alone, tokens[:1], ROWS[:1, None], PLAIN, lambda: ROWS[:1, None])
    np.testing.assert_array_equal(seen, alone.arrays["sent-settings"])


def test_another_look_at_the_model_is_taken_once() -> None:
    sent = warp_probs(ROWS, PLAIN)
    once, twice = (tally_of(sent, TOLD, batches=n).arrays["sent-settings"] for n in (1, 2))
    np.testing.assert_array_equal(once, twice)
    free = [tally_of(sent, PLAIN, batches=n).arrays["sent-settings"] for n in (1, 2)]
    assert (free[0] != free[1]).any()


def test_settings_are_told_apart_by_their_texts() -> None:
    for told in (PLAIN, TOLD, SamplingParams(top_p=1.0)):
        texts = [text for text, _ in other_settings(told)]
        assert len(set(texts)) == len(texts)
        assert told not in [setting for _, setting in other_settings(told)]
