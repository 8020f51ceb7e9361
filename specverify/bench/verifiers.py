"""Two verifiers as people write them in torch, audited by path: the first is right."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["planted", "right"]


def right(target_probs: Any, draft_probs: Any, draft_tokens: Any, generator: Any) -> Any:
    """The standard rule."""
    return _verified(target_probs, draft_probs, draft_tokens, generator)


def planted(target_probs: Any, draft_probs: Any, draft_tokens: Any, generator: Any) -> Any:
    """The bonus token is drawn from the last draft row."""
    rows = torch.cat([target_probs[:-1], draft_probs[-1:]])
    return _verified(rows, draft_probs, draft_tokens, generator)


def _verified(target: Any, draft: Any, tokens: Any, generator: Any) -> Any:
    places = torch.arange(len(tokens))
    uniforms = torch.rand(len(tokens), generator=generator, dtype=target.dtype)
    passed = uniforms < target[places, tokens] / draft[places, tokens]
    n = int(passed.int().cumprod(0).sum())
    last = target[n] if n == len(tokens) else (target[n] - draft[n]).clamp(min=0)
    return torch.cat([tokens[:n], torch.multinomial(last, 1, generator=generator)])
