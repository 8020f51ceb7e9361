"""In inference mode torch hands composite operators over whole: they are followed all the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from specverify.exact import enumerate_law
from specverify.exact.blocks import exact_verify_tv

TARGET = np.array([[0.5, 0.5], [0.0, 1.0]])
DRAFT = np.array([[0.2, 0.8]])


def verify(
    target_probs: torch.Tensor, draft_probs: torch.Tensor, draft_tokens: torch.Tensor
) -> tuple[torch.Tensor, int]:
    count = draft_tokens.shape[0]
    places = torch.arange(count)
    ratio = target_probs[places, draft_tokens] / draft_probs[places, draft_tokens]
    accepted = int((torch.rand(count) < ratio).long().cumprod(0).sum())
    weights = target_probs[accepted].clone()
    if accepted < count:
        weights = (weights - draft_probs[accepted]).clamp(min=0)
    return torch.cat([draft_tokens[:accepted], torch.multinomial(weights, 1)]), accepted


def against_other_drafts(
    target_probs: torch.Tensor, draft_probs: torch.Tensor, draft_tokens: torch.Tensor
) -> tuple[torch.Tensor, int]:
    return verify(target_probs, torch.ones_like(draft_probs) / 2, draft_tokens)


@pytest.mark.parametrize(("function", "distance"), [(verify, 0.0), (against_other_drafts, 0.3)])
def test_a_verifier_in_inference_mode(function: Callable[..., Any], distance: float) -> None:
    plain = exact_verify_tv(function, TARGET, DRAFT, framework="torch")
    found = exact_verify_tv(torch.inference_mode()(function), TARGET, DRAFT, framework="torch")
    assert found == plain
    assert found.low == pytest.approx(distance, abs=1e-9)


@pytest.mark.parametrize(
    "copy",
    [
        lambda u: u.to(torch.float64),
        lambda u: u.expand(2, 2).t().reshape(4),
        lambda u: u.flip(0).contiguous(),
        lambda u: u.type(torch.float64).flatten(),
    ],
)
def test_what_looks_like_a_view_and_copies(copy: Callable[[torch.Tensor], torch.Tensor]) -> None:
    @torch.inference_mode()
    def draw() -> bool:
        return bool(copy(torch.rand(2))[0] < 0.25)

    law = enumerate_law(draw)
    assert law.probabilities == {True: 0.25, False: 0.75}
