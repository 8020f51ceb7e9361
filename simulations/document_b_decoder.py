"""Document B's decoder, as an example to audit: a handbook chapter's loop over two causal models.

It does what that chapter does, in our own code, with all its habits:

- a round whose drafts are all accepted earns no bonus token;
- ``accepted`` (and ``n_accepted`` below) counts corrections, too: ``accepted / drafted`` overstates
  the acceptance rate;
- the last round's tail is kept: a text may be longer than ``max_tokens``;
- the draft evaluates each position twice, once to draft and once to verify;
- a temperature of 0 divides by zero.

None of them bends the law of the tokens. An audit says so, and finds the missing bonus::

    specverify audit simulations/document_b_decoder.py:decode --form decode
    specverify audit simulations/document_b_decoder.py:verify --form verify

Usage: python simulations/document_b_decoder.py [PROMPT]   (decodes with the shipped pair)
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from specverify.sampler.trace import BlockTrace

DEFAULT_PROMPT = "To be, or not to be"


class SpeculativeDecoder:
    """A target, its draft and the tokeniser of both.

    Args:
        draft_model: Maps ids of shape ``(1, t)`` to logits ``(1, t, vocab)``, or to an object with
            ``logits``.
        target_model: The same for the target.
        tokenizer: Has ``encode(text) -> ids``, ``decode(ids) -> text`` and perhaps
            ``eos_token_id``.
        device: Where the models are.
    """

    def __init__(
        self, draft_model: Any, target_model: Any, tokenizer: Any, device: str | torch.device
    ) -> None:
        sizes = [_vocab_size(model) for model in (draft_model, target_model)]
        assert sizes[0] == sizes[1], f"one tokeniser for both: {sizes[0]} and {sizes[1]} tokens"
        self.draft_model, self.target_model = draft_model, target_model
        self.tokenizer, self.device = tokenizer, device
        self.eos_token_id: int | None = getattr(tokenizer, "eos_token_id", None)

    def encode(self, text: str) -> Tensor:
        """Ids of a text, shape ``(t,)``."""
        return torch.tensor(self.tokenizer.encode(text), dtype=torch.int64, device=self.device)

    def draft_tokens(
        self,
        ids: Tensor,
        num_draft: int,
        temperature: float = 1.0,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Draft ``num_draft`` tokens after ``ids``, one at a time."""
        start = len(ids)
        for _ in range(num_draft):
            law = _laws(self.draft_model, ids, temperature)[-1]
            ids = torch.cat([ids, torch.multinomial(law, 1, generator=generator)])
        return ids[start:]

    def verify_tokens(
        self, ids: Tensor, drafts: Tensor, temperature: float = 1.0
    ) -> tuple[Tensor, Tensor]:
        """Laws of both models at each drafted position, target first, ``(num_draft, vocab)``."""
        whole = torch.cat([ids, drafts])
        places = slice(len(ids) - 1, len(whole) - 1)
        target = _laws(self.target_model, whole, temperature)[places]
        # Once more, although drafting has just computed them.
        return target, _laws(self.draft_model, whole, temperature)[places]

    @staticmethod
    def accept_reject(
        drafts: Tensor,
        target_probs: Tensor,
        draft_probs: Tensor,
        generator: torch.Generator | None = None,
    ) -> list[int]:
        """Accepted drafts and, where one was rejected, its correction; never a bonus token."""
        emitted: list[int] = []
        for position, token in enumerate(drafts.tolist()):
            target, draft = target_probs[position], draft_probs[position]
            if torch.rand(1, generator=generator).item() < (target[token] / draft[token]).item():
                emitted.append(token)
                continue
            residual = torch.clamp(target - draft, min=0)
            emitted.append(int(torch.multinomial(residual, 1, generator=generator)))
            break
        return emitted


def speculative_generate(
    decoder: SpeculativeDecoder,
    prompt: str,
    max_tokens: int = 50,
    num_draft: int = 4,
    temperature: float = 1.0,
    *,
    generator: torch.Generator | None = None,
) -> tuple[str, dict[str, int]]:
    """Generate at least ``max_tokens`` tokens, or up to the end of the text.

    Returns:
        Prompt and completion as text, and the counts ``rounds``, ``drafted`` and ``accepted``.
    """
    ids = decoder.encode(prompt)
    goal = len(ids) + max_tokens
    stats = {"rounds": 0, "drafted": 0, "accepted": 0}
    ended = False
    while len(ids) < goal and not ended:
        drafts = decoder.draft_tokens(ids, num_draft, temperature, generator)
        laws = decoder.verify_tokens(ids, drafts, temperature)
        emitted = decoder.accept_reject(drafts, *laws, generator)
        stats["rounds"] += 1
        stats["drafted"] += num_draft
        stats["accepted"] += len(emitted)
        if decoder.eos_token_id in emitted:
            emitted, ended = emitted[: emitted.index(decoder.eos_token_id) + 1], True
        ids = torch.cat([ids, ids.new_tensor(emitted)])
    return decoder.tokenizer.decode(ids.tolist()), stats


def standard_generate(
    decoder: SpeculativeDecoder,
    prompt: str,
    max_tokens: int = 50,
    temperature: float = 1.0,
    *,
    generator: torch.Generator | None = None,
) -> str:
    """Generate with the target alone: the baseline of the speedup."""
    ids = decoder.encode(prompt)
    for _ in range(max_tokens):
        law = _laws(decoder.target_model, ids, temperature)[-1]
        ids = torch.cat([ids, torch.multinomial(law, 1, generator=generator)])
        if int(ids[-1]) == decoder.eos_token_id:
            break
    return str(decoder.tokenizer.decode(ids.tolist()))


def decode(
    prompt: Tensor,
    target_step: Callable[[Tensor], Tensor],
    draft_step: Callable[[Tensor], Tensor],
    gamma: int,
    max_new_tokens: int,
    generator: torch.Generator | None = None,
) -> tuple[Tensor, list[BlockTrace]]:
    """Decode over step functions with the same rule: the suite's decoder form.

    The tail beyond ``max_new_tokens`` is cut here, since that form asks for exact lengths.
    """
    ids, trace = prompt, []
    goal = len(prompt) + max_new_tokens
    while len(ids) < goal:
        context = ids
        for _ in range(gamma):
            drawn = torch.multinomial(draft_step(context), 1, generator=generator)
            context = torch.cat([context, drawn])
        drafts = context[len(ids) :]
        contexts = [context[: len(ids) + n] for n in range(gamma)]
        target, draft = (torch.stack([*map(step, contexts)]) for step in (target_step, draft_step))
        emitted = SpeculativeDecoder.accept_reject(drafts, target, draft, generator)
        kept = min(len(emitted), goal - len(ids))
        ids = torch.cat([ids, ids.new_tensor(emitted)])
        trace.append(BlockTrace(tuple(drafts.tolist()), len(emitted), tuple(emitted), kept))
    return ids[len(prompt) : goal], trace


def verify(
    target_probs: Tensor,
    draft_probs: Tensor,
    draft_tokens: Tensor,
    generator: torch.Generator | None = None,
) -> tuple[Tensor, int]:
    """Verify one block with the same rule: the suite's verifier form; the last row is not used."""
    emitted = SpeculativeDecoder.accept_reject(
        draft_tokens, target_probs[:-1], draft_probs, generator
    )
    return draft_tokens.new_tensor(emitted), len(emitted)


def _laws(model: Any, ids: Tensor, temperature: float) -> Tensor:
    """The model's laws after each of ``ids``, shape ``(t, vocab)``."""
    with torch.no_grad():
        output = model(ids.unsqueeze(0))
    logits: Tensor = getattr(output, "logits", output)[0]
    return torch.softmax(logits.float() / temperature, dim=-1)


def _vocab_size(model: Any) -> int:
    return int(getattr(model, "config", model).vocab_size)


def main(prompt: str = DEFAULT_PROMPT) -> None:
    from specverify.models.pairs import load_pair

    pair = load_pair()
    decoder = SpeculativeDecoder(pair.draft, pair.target, pair.tokenizer, "cpu")
    generator = torch.Generator().manual_seed(0)
    text, stats = speculative_generate(decoder, prompt, generator=generator)
    print(text)
    print(stats)


if __name__ == "__main__":
    main(*sys.argv[1:])
