"""Verifiers as somebody else might write them in torch: two right ones, the others with one defect.

The command-line tests audit this file as ``tests/planted/biased.py:NAME``. It imports nothing of
the suite. Every function maps target rows ``(gamma + 1, vocab)``, draft rows ``(gamma, vocab)`` and
drafted ids ``(gamma,)`` to the emitted ids and the number of accepted drafts.
"""

from __future__ import annotations

import torch


def _normalised(weights: torch.Tensor) -> torch.Tensor:
    total = weights.sum(dim=-1, keepdim=True)
    return torch.where(total > 0, weights / total.clamp_min(1e-30), torch.ones_like(weights))


def _residual(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    excess = (p - q).clamp_min(0)
    return _normalised(excess) if float(excess.sum()) > 0 else p


def _draw(law: torch.Tensor, generator: torch.Generator | None) -> int:
    return int(torch.multinomial(law, 1, generator=generator))


def _accepted(
    target_probs: torch.Tensor,
    draft_probs: torch.Tensor,
    draft_tokens: torch.Tensor,
    generator: torch.Generator | None,
) -> int:
    for i, token in enumerate(draft_tokens.tolist()):
        ratio = target_probs[i, token] / draft_probs[i, token]
        if torch.rand(1, generator=generator).item() >= ratio.item():
            return i
    return len(draft_tokens)


def correct(
    target_probs: torch.Tensor,
    draft_probs: torch.Tensor,
    draft_tokens: torch.Tensor,
    generator: torch.Generator | None = None,
) -> tuple[list[int], int]:
    """The standard rule."""
    n = _accepted(target_probs, draft_probs, draft_tokens, generator)
    full = n == len(draft_tokens)
    law = target_probs[n] if full else _residual(target_probs[n], draft_probs[n])
    return [*draft_tokens[:n].tolist(), _draw(law, generator)], n


def correct_without_bonus(
    target_probs: torch.Tensor,
    draft_probs: torch.Tensor,
    draft_tokens: torch.Tensor,
    generator: torch.Generator | None = None,
) -> tuple[list[int], int]:
    """Right law, one token a full block fewer."""
    n = _accepted(target_probs, draft_probs, draft_tokens, generator)
    if n == len(draft_tokens):
        return draft_tokens.tolist(), n
    law = _residual(target_probs[n], draft_probs[n])
    return [*draft_tokens[:n].tolist(), _draw(law, generator)], n


def resample_from_target(
    target_probs: torch.Tensor,
    draft_probs: torch.Tensor,
    draft_tokens: torch.Tensor,
    generator: torch.Generator | None = None,
) -> tuple[list[int], int]:
    """Draws the correction from the target, not from the residual."""
    n = _accepted(target_probs, draft_probs, draft_tokens, generator)
    return [*draft_tokens[:n].tolist(), _draw(target_probs[n], generator)], n


def abs_residual(
    target_probs: torch.Tensor,
    draft_probs: torch.Tensor,
    draft_tokens: torch.Tensor,
    generator: torch.Generator | None = None,
) -> tuple[list[int], int]:
    """Takes the absolute difference where the positive part is meant."""
    n = _accepted(target_probs, draft_probs, draft_tokens, generator)
    law = target_probs[n]
    if n < len(draft_tokens):
        law = _normalised((target_probs[n] - draft_probs[n]).abs())
    return [*draft_tokens[:n].tolist(), _draw(law, generator)], n


def q_row_off(
    target_probs: torch.Tensor,
    draft_probs: torch.Tensor,
    draft_tokens: torch.Tensor,
    generator: torch.Generator | None = None,
) -> tuple[list[int], int]:
    """Reads the draft's row of the position before (the last one for the first)."""
    return correct(target_probs, draft_probs.roll(1, dims=0), draft_tokens, generator)


def bonus_from_q(
    target_probs: torch.Tensor,
    draft_probs: torch.Tensor,
    draft_tokens: torch.Tensor,
    generator: torch.Generator | None = None,
) -> tuple[list[int], int]:
    """Draws the bonus token from the draft's last row."""
    rows = torch.cat([target_probs[:-1], draft_probs[-1:]])
    return correct(rows, draft_probs, draft_tokens, generator)


def temperature_one_side(
    target_probs: torch.Tensor,
    draft_probs: torch.Tensor,
    draft_tokens: torch.Tensor,
    generator: torch.Generator | None = None,
) -> tuple[list[int], int]:
    """Applies a temperature of 0.8 to the target once more."""
    return correct(_normalised(target_probs ** (1 / 0.8)), draft_probs, draft_tokens, generator)


def reused_uniform(
    target_probs: torch.Tensor,
    draft_probs: torch.Tensor,
    draft_tokens: torch.Tensor,
    generator: torch.Generator | None = None,
) -> tuple[list[int], int]:
    """Inverts the residual's distribution function at the uniform that rejected the draft."""
    for i, token in enumerate(draft_tokens.tolist()):
        u = torch.rand(1, generator=generator)
        if u.item() >= (target_probs[i, token] / draft_probs[i, token]).item():
            edges = _residual(target_probs[i], draft_probs[i]).cumsum(dim=0)
            final = int((u >= edges[:-1]).sum())
            return [*draft_tokens[:i].tolist(), final], i
    n = len(draft_tokens)
    return [*draft_tokens.tolist(), _draw(target_probs[n], generator)], n
