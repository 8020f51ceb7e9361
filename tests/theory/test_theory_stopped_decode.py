"""The law of a run that stops at N tokens: by hand, by enumeration, and its biases."""

from __future__ import annotations

import itertools
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specverify.errors import InvalidInputError
from specverify.theory.emitted_length import emitted_length_pmf
from specverify.theory.expected_tokens import expected_accepted_tokens
from specverify.theory.stopped_decode import stopped_decode_law


def by_enumeration(pmf, total: int):
    """Every sequence of block lengths until the total is reached."""
    law = defaultdict(float)
    for lengths in itertools.product(range(1, len(pmf) + 1), repeat=total):
        totals = np.cumsum(lengths)
        rounds = int(np.argmax(totals >= total)) + 1
        law[rounds, totals[rounds - 1]] += np.prod([pmf[n - 1] for n in lengths])
    return law


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(1, 5))
def test_joint_law_is_the_enumeration(seed, longest, total) -> None:
    pmf = np.random.default_rng(seed).dirichlet(np.ones(longest))
    law = stopped_decode_law(pmf, total)
    assert law.joint.sum() == pytest.approx(1, abs=1e-12)
    for (rounds, tokens), mass in by_enumeration(pmf, total).items():
        assert law.joint[rounds, tokens - total] == pytest.approx(mass, abs=1e-12)


def test_by_hand() -> None:
    """Blocks of 1 or 2 with probability 1/2, until 2 tokens: {2}, {1, 1}, {1, 2}."""
    law = stopped_decode_law([0.5, 0.5], 2)
    np.testing.assert_allclose(law.joint, [[0, 0], [0.5, 0], [0.25, 0.25]])
    np.testing.assert_array_equal(law.tokens, [2, 3])
    assert law.rounds() == pytest.approx((1.5, 0.5))
    assert law.tokens_per_round().mean == pytest.approx(0.5 * 2 + 0.25 * 1 + 0.25 * 1.5)
    assert law.tokens_per_round(whole_last_round=False).mean == pytest.approx(1.5)
    speedup = law.speedup(num_draft=2, draft_time=1, target_time=2)
    assert speedup == pytest.approx((0.5 * 1.0 + 0.5 * 0.5, 0.25))


def test_the_last_round_biases_the_ratio_and_the_bias_fades() -> None:
    pmf = emitted_length_pmf(0.8, 4)
    limit = expected_accepted_tokens(0.8, 4)
    laws = [stopped_decode_law(pmf, n) for n in (20, 100, 500)]
    above = [law.tokens_per_round().mean - limit for law in laws]
    below = [limit - law.tokens_per_round(whole_last_round=False).mean for law in laws]
    assert above == sorted(above, reverse=True)
    assert min(above) > 0
    assert min(below) > 0
    # Wald: the ratio of expectations has no bias.
    tokens = float(laws[0].joint.sum(axis=0) @ laws[0].tokens)
    assert tokens / laws[0].rounds().mean == pytest.approx(limit, rel=1e-12)


def test_degenerate_blocks() -> None:
    law = stopped_decode_law(emitted_length_pmf(1.0, 4), 12)
    assert law.rounds() == (3.0, 0.0)
    assert law.tokens_per_round() == (5.0, 0.0)
    assert stopped_decode_law([1.0], 7).rounds() == (7.0, 0.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: stopped_decode_law([0.5, 0.6], 3), "length_pmf: must sum to one"),
        (lambda: stopped_decode_law([1.5, -0.5], 3), "length_pmf: must lie in"),
        (lambda: stopped_decode_law([1.0], 0), "total_tokens: must be at least 1, got 0"),
        (lambda: stopped_decode_law([1.0], 1.5), "total_tokens: must be an integer, got 1.5"),
        (
            lambda: stopped_decode_law([1.0], 3).speedup(num_draft=2, draft_time=-1, target_time=1),
            "draft_time: must be finite and at least 0, got -1",
        ),
        (
            lambda: stopped_decode_law([1.0], 3).speedup(num_draft=2, draft_time=1, target_time=0),
            "target_time: must be finite and above 0, got 0",
        ),
    ],
)
def test_bad_arguments_are_named(call, message) -> None:
    with pytest.raises(InvalidInputError, match=message):
        call()
