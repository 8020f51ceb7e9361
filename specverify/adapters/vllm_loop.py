"""A decode loop of vLLM's second model runner: its own drafts, verification and random numbers.

Draft and target are step functions; around them stand vLLM's kernels, called as its speculator and
its sampler call them: every draw is keyed by the request's one seed and the position before the
token that is drawn. Whatever two draws of a text have in common so shows in the law of the text.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from specverify.adapters.step_models import Step, StepRows
from specverify.adapters.vllm import Compared, Rows, tile_of
from specverify.adapters.vllm_files import load_sampler
from specverify.adapters.vllm_kernels import Device, Kernel
from specverify.adapters.vllm_v2 import Streams, load_rejection_sample, seeds
from specverify.errors import InvalidInputError

__all__ = ["VllmLoopV2"]

_BLOCK = 1024
"""Tokens of a block of the drafting kernel; here there is one block."""


class VllmLoopV2:
    """Rounds of drafting and verification at temperature 1, one request.

    Args:
        method: ``standard`` or ``block`` (verification of whole blocks).

    Raises:
        MissingDependencyError: If vllm or triton is not installed.
        InvalidInputError: If ``method`` is neither.
    """

    def __init__(self, *, method: str = "standard") -> None:
        if method not in ("standard", "block"):
            raise InvalidInputError("method", f"must be standard or block: {method!r}")
        self._verify = load_rejection_sample()
        self._gumbel = load_sampler("v1/worker/gpu/sample/gumbel.py")._gumbel_sample_kernel
        self._block, self._device = method == "block", Device(lockstep=True)
        self._run = Compared(Streams().functions(), together=True)

    def __call__(
        self, prompt: Tensor, target_step: Step, draft_step: Step, gamma: int, max_new_tokens: int
    ) -> tuple[Tensor, list[dict[str, Any]]]:
        """New ids, prompt excluded, and what each round proposed, accepted and emitted."""
        models = StepRows(target_step), StepRows(draft_step)
        vocab = models[1](prompt[None]).shape[-1]
        if vocab > _BLOCK:
            raise InvalidInputError("draft_step", f"at most {_BLOCK} tokens, got {vocab}")

        rounds: list[dict[str, Any]] = []

        def sample(rows: Rows) -> Tensor:
            ids, seed = prompt, seeds(1)
            rounds.clear()
            while len(ids) < len(prompt) + max_new_tokens:
                drafts, cache = self._drafts(ids, models[1], gamma, seed, rows)
                logits = models[0](torch.cat([ids, drafts])[None])[0, -gamma - 1 :]
                emitted = self._verified(ids, drafts, logits, cache, seed, rows)
                told = {"proposed": drafts.tolist(), "emitted": emitted.tolist()}
                rounds.append(told | {"n_accepted": len(emitted) - 1})
                ids = torch.cat([ids, emitted])
            return ids[len(prompt) :][:max_new_tokens]

        return self._run(sample, (1, gamma, vocab)), rounds

    def _drafts(
        self, ids: Tensor, draft: StepRows, gamma: int, seed: Tensor, rows: Rows
    ) -> tuple[Tensor, Tensor]:
        """Drafted ids, and the logits that they were drawn from."""
        cache, start = torch.zeros(1, gamma, draft(ids[None]).shape[-1]), len(ids)
        for step in range(gamma):
            logits = draft(ids[None])[0, -1:].float().contiguous()
            token = self._drawn(logits, cache, step, seed, len(ids) - 1, rows)
            ids = torch.cat([ids, token])
        return ids[start:], cache

    def _drawn(
        self, logits: Tensor, cache: Tensor, step: int, seed: Tensor, pos: int, rows: Rows
    ) -> Tensor:
        """One draft, as ``gumbel_sample`` draws it for a vocabulary of one block."""
        best, largest = torch.full((1, 1), -1), torch.zeros(1, 1)
        source = logits, logits.stride(0)
        where = torch.zeros(1, dtype=torch.int32), seed, torch.tensor([pos]), torch.ones(1)
        with self._drafting(logits.shape[-1]):
            self._gumbel[(1, 1)](
                *(best, 1, largest, 1),
                *(cache, cache.stride(0), cache.stride(1), torch.tensor(step)),
                *source,
                *source,
                *where,
                logits.shape[-1],
                BLOCK_SIZE=_BLOCK,
                IS_DRAFTING=True,
                APPLY_TEMPERATURE=True,
                USE_FP64=False,
                PER_TOKEN_COL=False,
            )
        return torch.tensor([int(rows(best)[0, 0])])

    def _drafting(self, vocab: int) -> AbstractContextManager[Any]:
        """Where drafts are drawn: never in Triton's interpreter, which refuses a mask there."""
        if Kernel.launches is None:
            return self._device.running(tile_of(vocab))
        return nullcontext()

    def _verified(
        self, ids: Tensor, drafts: Tensor, logits: Tensor, cache: Tensor, seed: Tensor, rows: Rows
    ) -> Tensor:
        """What a block emits."""
        count = len(drafts) + 1
        places, request = torch.arange(count, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
        found = self._verify(
            logits.float().contiguous(),
            cache,
            torch.cat([ids[-1:], drafts]),
            torch.tensor([0, count], dtype=torch.int32),
            places.to(torch.int64) + len(ids) - 1,
            request,
            request.repeat(count),
            places,
            torch.ones(1),
            seed,
            len(drafts),
            use_block_verification=self._block,
        )
        emitted = [int(token) for token in rows(*found)[0]]
        return torch.tensor([token for token in emitted if token >= 0])
