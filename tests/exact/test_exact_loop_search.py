"""Counterexamples of decode loops: none for right ones, the smallest for known bugs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from specverify.bugs import ZOO
from specverify.exact.loop_search import LoopCounterexample, find_loop_counterexample
from specverify.sampler.decode import speculative_decode

BINDING = "from specverify.bugs import ZOO\ndecode = ZOO['first_token_lost'].callable"


def found_in(decode: Any, **options: Any) -> LoopCounterexample | None:
    return find_loop_counterexample(decode, binding=BINDING, framework="numpy", **options)


@pytest.fixture(scope="module")
def lost() -> LoopCounterexample:
    """The smallest case of a loop that loses its first token."""
    found = found_in(ZOO["first_token_lost"].callable)
    assert found is not None
    return found


def test_a_right_loop_has_none() -> None:
    assert found_in(speculative_decode, max_examples=20) is None


def test_a_lost_token_shows_on_one_draft_and_one_token(lost: LoopCounterexample) -> None:
    assert (lost.gamma, lost.max_new_tokens, lost.position) == (1, 1, 0)
    assert np.shape(lost.target_weights) == np.shape(lost.draft_weights) == (2, 2)
    assert 0 < lost.tv <= 1
    assert lost == found_in(ZOO["first_token_lost"].callable)


def test_its_snippet_fails_and_passes_a_right_loop(lost: LoopCounterexample) -> None:
    with pytest.raises(AssertionError, match="TvBounds"):
        exec(lost.snippet, {})
    right = "from specverify import speculative_decode as decode"
    exec(lost.snippet.replace(BINDING, right), {})


def test_a_bias_that_needs_two_tokens_is_not_found_on_one() -> None:
    def late(prompt: Any, target_step: Any, draft_step: Any, gamma: int, n: int, rng: Any) -> Any:
        tokens, _ = speculative_decode(prompt, target_step, draft_step, gamma, 1, rng)
        return [*tokens, *[0] * (n - 1)]

    found = found_in(late)
    assert found is not None
    assert (found.max_new_tokens, found.position) == (2, 1)
