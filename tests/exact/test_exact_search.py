"""Counterexamples: found where there is a bias, small, and the same every time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from specverify.distributions import residual_distribution
from specverify.errors import UnsupportedRandomness
from specverify.exact.blocks import exact_verify_tv
from specverify.exact.search import find_counterexample
from specverify.sampler.verify import speculative_verify


def resample_from_target(target: Any, draft: Any, tokens: Any, generator: Any) -> Any:
    for place, token in enumerate(tokens):
        if not generator.random() < target[place, token] / draft[place, token]:
            return [*tokens[:place], generator.choice(target.shape[1], p=target[place])]
    return [*tokens, generator.choice(target.shape[1], p=target[-1])]


def bonus_row_before(target: Any, draft: Any, tokens: Any, generator: Any) -> Any:
    for place, token in enumerate(tokens.tolist()):
        if torch.rand(1, generator=generator).item() >= target[place, token] / draft[place, token]:
            last = residual_distribution(target[place], draft[place])
            drawn = torch.multinomial(last, 1, generator=generator)
            return torch.cat([tokens[:place], drawn])
    return torch.cat([tokens, torch.multinomial(target[-2], 1, generator=generator)])


def test_the_reference_has_none() -> None:
    assert find_counterexample(speculative_verify, framework="numpy", max_examples=30) is None


def test_a_bias_shrinks_to_two_tokens_and_one_draft() -> None:
    found = find_counterexample(resample_from_target, framework="numpy")
    assert found is not None
    assert found.target_probs.shape == (2, 2)
    assert found.draft_probs.shape == (1, 2)
    assert max(map(max, found.target_weights + found.draft_weights)) <= 2
    assert found.position == 0
    tv = exact_verify_tv(resample_from_target, found.target_probs, found.draft_probs)
    assert tv.low == found.tv > 0


def test_torch_code_is_searched_too() -> None:
    found = find_counterexample(bonus_row_before, max_vocab=3, max_gamma=1)
    assert found is not None
    assert found.position == 1
    assert found.target_probs.shape == (2, 2)


def test_the_same_seed_gives_the_same_case() -> None:
    first, second = (find_counterexample(resample_from_target, framework="numpy") for _ in "12")
    assert first == second


def test_the_snippet_fails_as_the_case_does() -> None:
    found = find_counterexample(resample_from_target, framework="numpy")
    assert found is not None
    with pytest.raises(AssertionError, match="TvBounds"):
        exec(found.snippet, {})


def test_what_cannot_be_traced_is_refused() -> None:
    def noisy(target: Any, draft: Any, tokens: Any, generator: Any) -> Any:
        return [int(np.argmax(generator.normal(size=2)))]

    with pytest.raises(UnsupportedRandomness, match="normal"):
        find_counterexample(noisy, framework="numpy")
