"""The public strategies: what they draw is usable, the edges come up, failures shrink."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

from specverify.distributions import acceptance_rate, check_distribution
from specverify.errors import InvalidInputError
from specverify.models.tabular import TabularModel
from specverify.strategies import (
    blocks,
    disjoint_pairs,
    distribution_pairs,
    distributions,
    near_equal_pairs,
    sampling_params,
    tabular_rows,
    uniforms,
)
from specverify.warping import SamplingParams

SETTINGS = settings(max_examples=2000, derandomize=True, database=None)


@given(distributions((1, 9)))
def test_distributions(probs) -> None:
    check_distribution("probs", probs, tolerance=1e-12)
    assert probs.dtype == np.float64
    assert 1 <= len(probs) <= 9


@given(distributions(5, zeros=False), distribution_pairs(5, zeros=False))
def test_without_zeros(probs, pair) -> None:
    assert len(probs) == 5
    assert (probs > 0).all()
    assert (np.stack(pair) > 0).all()


@given(distribution_pairs((1, 6)))
def test_pairs_share_a_vocabulary(pair) -> None:
    target, draft = pair
    check_distribution("target_probs", target, tolerance=1e-12)
    check_distribution("draft_probs", draft, tolerance=1e-12)
    assert target.shape == draft.shape
    assert target is not draft


@pytest.mark.parametrize(
    "edge",
    [
        lambda p, q: (p == 0).any() and (q > 0).all(),
        lambda p, q: (q == 0).any() and (p > 0).all(),
        lambda p, q: p.max() == 1,
        lambda p, q: len(p) > 2 and len(set(p)) < len(p) and len(set(p)) > 1,
        lambda p, q: (p == q).all(),
        lambda p, q: 0 < np.abs(p - q).max() < 1e-15,
        lambda p, q: 1e-6 < np.abs(p - q).max() < 1e-3,
        lambda p, q: acceptance_rate(p, q) == 0,
    ],
    ids=["zero-target", "zero-draft", "one-hot", "ties", "equal", "an-ulp", "near", "disjoint"],
)
def test_the_edges_come_up(edge) -> None:
    find(distribution_pairs(), lambda pair: bool(edge(*pair)), settings=SETTINGS)


@given(disjoint_pairs())
def test_disjoint_pairs_share_no_token(pair) -> None:
    target, draft = pair
    check_distribution("target_probs", target)
    check_distribution("draft_probs", draft)
    assert not ((target > 0) & (draft > 0)).any()


@given(near_equal_pairs())
def test_near_equal_pairs_differ_a_little(pair) -> None:
    target, draft = pair
    assert 0 < np.abs(target - draft).max() < 2e-3
    check_distribution("draft_probs", draft, tolerance=1e-12)


@given(blocks((1, 5), (0, 3)))
def test_blocks_could_have_been_drawn(block) -> None:
    gamma, vocab = block.draft_probs.shape
    assert block.target_probs.shape == (gamma + 1, vocab)
    assert block.draft_tokens.shape == (gamma,)
    assert block.draft_tokens.dtype == np.int64
    assert (block.draft_probs[np.arange(gamma), block.draft_tokens] > 0).all()


@given(tabular_rows((1, 3), (0, 2)))
def test_tables_make_models(table) -> None:
    model = TabularModel(table)
    assert model.vocab_size == table.shape[-1]


@given(sampling_params(), sampling_params(greedy=False))
def test_sampling_params(params, warm) -> None:
    assert isinstance(params, SamplingParams)
    assert warm.temperature > 0


@given(uniforms((2, 3)))
def test_uniforms(values) -> None:
    assert values.shape == (2, 3)
    assert ((values >= 0) & (values < 1)).all()


def test_failures_shrink_to_round_numbers() -> None:
    target, draft = find(
        distribution_pairs(), lambda pair: acceptance_rate(*pair) < 0.7, settings=SETTINGS
    )
    assert len(target) == 2
    weights = np.concatenate([target, draft])
    np.testing.assert_allclose(weights * 12, np.round(weights * 12), atol=1e-12)
    assert find(sampling_params(), lambda _: True, settings=SETTINGS) == SamplingParams()


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: distributions(0), "vocab_size: must be a number or range of at least 1, got 0"),
        (lambda: distributions((4, 2)), r"vocab_size: .* got \(4, 2\)"),
        (lambda: distributions(max_weight=0), "max_weight: must be at least 1, got 0"),
        (lambda: distribution_pairs(max_weight=0), "max_weight"),
        (lambda: disjoint_pairs(1), "vocab_size: .* at least 2"),
        (lambda: near_equal_pairs((1, 3)), "vocab_size: .* at least 2"),
        (lambda: blocks(gamma=-1), "gamma: .* at least 0"),
        (lambda: tabular_rows(order=-1), "order: .* at least 0"),
    ],
)
def test_refuses(make, problem) -> None:
    with pytest.raises(InvalidInputError, match=problem):
        make()


def test_the_strategies_compose() -> None:
    assert isinstance(distributions() | distributions(3), st.SearchStrategy)
