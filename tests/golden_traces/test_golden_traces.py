"""The seeded traces of the teaching module, token by token, and the figures beside them."""

from __future__ import annotations

import pytest
import torch

from specverify import (
    acceptance_rate,
    residual_distribution,
    speculative_decode,
    speculative_verify,
)

TARGET = torch.tensor([0.5, 0.3, 0.15, 0.05])
DRAFT = torch.tensor([0.4, 0.4, 0.15, 0.05])


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_verify_with_seed_0() -> None:
    emitted, n_accepted = speculative_verify(
        TARGET.expand(3, 4), DRAFT.expand(2, 4), torch.tensor([0, 1]), seeded(0)
    )
    assert emitted.tolist() == [0, 0]
    assert n_accepted == 1


def test_decode_with_seed_1() -> None:
    target = torch.tensor([0.4, 0.25, 0.15, 0.1, 0.06, 0.04])
    draft = torch.tensor([0.3, 0.3, 0.2, 0.1, 0.06, 0.04])
    tokens, trace = speculative_decode(
        torch.tensor([0]), lambda _: target, lambda _: draft, 4, 12, seeded(1)
    )
    assert tokens.tolist() == [0, 0, 2, 0, 0, 3, 2, 1, 0, 0, 0, 4]
    assert [(entry.proposed, entry.n_accepted, entry.emitted) for entry in trace] == [
        ((0, 0, 2, 0), 4, (0, 0, 2, 0, 0)),
        ((3, 2, 1, 1), 3, (3, 2, 1, 0)),
        ((0, 0, 4, 1), 3, (0, 0, 4, 0)),
    ]


def test_another_seed_gives_another_trace() -> None:
    laws = [torch.tensor([0.4, 0.25, 0.15, 0.1, 0.06, 0.04])] * 2
    runs = [
        speculative_decode(
            torch.tensor([0]), lambda _: laws[0], lambda _: laws[1], 4, 12, seeded(seed)
        )[0].tolist()
        for seed in (1, 2)
    ]
    assert runs[0] != runs[1]


def test_alpha_by_hand() -> None:
    target = torch.tensor([0.5, 0.3, 0.2])
    good, bad = torch.tensor([0.45, 0.35, 0.2]), torch.tensor([0.1, 0.1, 0.8])
    assert float(acceptance_rate(TARGET, DRAFT)) == pytest.approx(0.9)
    assert float(acceptance_rate(target, good)) == pytest.approx(0.95)
    assert float(acceptance_rate(target, bad)) == pytest.approx(0.4)


def test_accept_or_resample_gives_the_target_back() -> None:
    target, draft = torch.tensor([0.5, 0.2, 0.2, 0.1]), torch.tensor([0.2, 0.4, 0.3, 0.1])
    alpha = acceptance_rate(target, draft)
    emitted = torch.minimum(target, draft) + (1 - alpha) * residual_distribution(target, draft)
    torch.testing.assert_close(emitted, target, atol=1e-6, rtol=0)
    torch.testing.assert_close(
        residual_distribution(TARGET, DRAFT), torch.tensor([1.0, 0, 0, 0]), atol=1e-6, rtol=0
    )
