"""Decode loops over step functions: one sequence, or many that accept unequally."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from specverify._arrays import is_torch, namespace, to_numpy
from specverify.distributions import check_distribution
from specverify.errors import InvalidInputError
from specverify.sampler.checks import check_decode_request
from specverify.sampler.draws import Generator, sample_categorical
from specverify.sampler.protocols import StepFunction
from specverify.sampler.trace import BlockTrace, DecodeTrace
from specverify.sampler.verify import speculative_verify

__all__ = [
    "BatchStepFunction",
    "autoregressive_decode",
    "batch_step",
    "speculative_decode",
    "speculative_decode_batch",
]

BatchStepFunction: TypeAlias = Callable[[Sequence[Any]], Any]
"""Maps contexts, each of its own length, to their next tokens' laws, shape ``(n, vocab)``."""


def speculative_decode(
    prompt: Any,
    target_step: StepFunction,
    draft_step: StepFunction,
    gamma: int,
    max_new_tokens: int,
    generator: Generator = None,
    *,
    eos_token_id: int | None = None,
    shrink_gamma: bool = False,
) -> tuple[Any, DecodeTrace]:
    """Decode one completion speculatively; its law is the target's.

    Args:
        prompt: Ids, shape ``(t,)``: tensor, numpy array or sequence. Step functions are handed
            contexts of the same kind; for a plain sequence, of the generator's (torch by default).
        target_step: The target's step function.
        draft_step: The draft's, over the same vocabulary.
        gamma: Tokens drafted in an iteration, at least 1.
        max_new_tokens: Length of the completion, unless it ends by itself.
        generator: ``torch.Generator`` or ``numpy.random.Generator``, as the laws are.
        eos_token_id: Token that ends the completion, which keeps it; what a block holds beyond is
            dropped.
        shrink_gamma: Whether to draft no more than the completion has room for beside the
            correction or bonus. By default the last block may be longer and is cut.

    Returns:
        The new ids (prompt excluded), of the contexts' kind, and the trace.

    Raises:
        InvalidInputError: If an argument is out of range or a step function's law is unusable.

    References:
        Leviathan et al. (2023), arXiv:2211.17192, section 2.1.
    """
    row = _Row(prompt, max_new_tokens, generator)
    steps = batch_step(target_step), batch_step(draft_step)
    _run([row], steps, (gamma, shrink_gamma), eos_token_id)
    return row.completion(), row.trace()


def speculative_decode_batch(
    prompts: Sequence[Any],
    target_step: BatchStepFunction,
    draft_step: BatchStepFunction,
    gamma: int,
    max_new_tokens: int,
    generators: Sequence[Generator] | None = None,
    *,
    eos_token_id: int | None = None,
    shrink_gamma: bool = False,
) -> list[tuple[Any, DecodeTrace]]:
    """Decode several completions side by side, each with its own generator.

    Rows accept unequal numbers of drafts and end at different times; those that ended drop out of
    the calls. The draft is called up to ``gamma`` times an iteration, the target once, on
    ``gamma + 1`` contexts of each row. Every row equals its own :func:`speculative_decode`.

    Args:
        prompts: Prompts, each of its own length.
        target_step: The target's batched step function; see :func:`batch_step`.
        draft_step: The draft's.
        gamma: Tokens drafted in an iteration, at least 1.
        max_new_tokens: Length of each completion, unless it ends by itself.
        generators: One a row.
        eos_token_id: Token that ends a completion.
        shrink_gamma: As for :func:`speculative_decode`.

    Returns:
        ``(tokens, trace)`` of each row.

    Raises:
        InvalidInputError: If an argument is out of range, the numbers of prompts and generators
            differ, or a step function's laws are unusable.
    """
    sources = [None] * len(prompts) if generators is None else generators
    if len(sources) != len(prompts):
        raise InvalidInputError(
            "generators", f"needs one a prompt ({len(prompts)}), got {len(sources)}"
        )
    rows = [
        _Row(prompt, max_new_tokens, source)
        for prompt, source in zip(prompts, sources, strict=True)
    ]
    _run(rows, (target_step, draft_step), (gamma, shrink_gamma), eos_token_id)
    return [(row.completion(), row.trace()) for row in rows]


def autoregressive_decode(
    prompt: Any,
    target_step: StepFunction,
    max_new_tokens: int,
    generator: Generator = None,
    *,
    eos_token_id: int | None = None,
) -> Any:
    """Decode one completion token by token: the baseline.

    Args:
        prompt: Ids, shape ``(t,)``, as for :func:`speculative_decode`.
        target_step: The target's step function.
        max_new_tokens: Length of the completion, unless it ends by itself.
        generator: ``torch.Generator`` or ``numpy.random.Generator``, as the laws are.
        eos_token_id: Token that ends the completion, which keeps it.

    Returns:
        The new ids (prompt excluded), of the contexts' kind.

    Raises:
        InvalidInputError: If an argument is out of range or the step function's law is unusable.
    """
    check_decode_request(1, max_new_tokens)
    row = _Row(prompt, max_new_tokens, generator)
    step = batch_step(target_step)
    while row.remaining:
        laws = _laws("target_step", step, [row.context()])
        row.take([int(sample_categorical(laws[0], generator))], eos_token_id)
    return row.completion()


def batch_step(step: StepFunction) -> BatchStepFunction:
    """Step function for many contexts, made from one for a single context.

    Args:
        step: Maps a context, shape ``(t,)``, to a law, shape ``(vocab,)``.

    Returns:
        Maps ``n`` contexts to laws, shape ``(n, vocab)``.
    """

    def stacked(contexts: Sequence[Any]) -> Any:
        laws = [step(context) for context in contexts]
        return namespace(laws[0]).stack(laws)

    return stacked


class _Row:
    """A sequence under way."""

    def __init__(self, prompt: Any, max_new_tokens: int, generator: Generator) -> None:
        self.tokens = _prompt_ids(prompt)
        self.prompt_length = len(self.tokens)
        self.remaining = max_new_tokens
        self.generator = generator
        self.wanted = 0
        self.proposed: list[int] = []
        self.draft_laws: list[Any] = []
        self.blocks: list[BlockTrace] = []
        self._as_array = _array_maker(prompt, generator)

    def context(self, drafts: int | None = None) -> Any:
        """The tokens so far with the first ``drafts`` proposed ones (all by default)."""
        return self._as_array(self.tokens + self.proposed[:drafts])

    def begin_block(self, gamma: int, shrink: bool) -> None:
        self.wanted = min(gamma, self.remaining - 1) if shrink else gamma
        self.proposed, self.draft_laws = [], []

    def propose(self, law: Any) -> None:
        self.proposed.append(int(sample_categorical(law, self.generator)))
        self.draft_laws.append(law)

    def verify(self, target_laws: Any, eos_token_id: int | None) -> None:
        xp, device = namespace(target_laws), getattr(target_laws, "device", None)
        drafts = xp.asarray(self.proposed, dtype=xp.int64, device=device)
        draft_laws = xp.stack(self.draft_laws) if self.draft_laws else target_laws[:0]
        block, n_accepted = speculative_verify(
            target_laws, draft_laws, drafts, self.generator, validate=False
        )
        emitted = tuple(block.tolist())
        kept = self.take(emitted, eos_token_id)
        self.blocks.append(BlockTrace(tuple(self.proposed), n_accepted, emitted, kept))

    def take(self, emitted: Sequence[int], eos_token_id: int | None) -> int:
        """Append what the completion has room for, up to an end; say how much that was."""
        kept = list(emitted[: self.remaining])
        self.remaining -= len(kept)
        if eos_token_id in kept:
            del kept[kept.index(eos_token_id) + 1 :]
            self.remaining = 0
        self.tokens += kept
        return len(kept)

    def completion(self) -> Any:
        """The new tokens."""
        return self._as_array(self.tokens[self.prompt_length :])

    def trace(self) -> DecodeTrace:
        return DecodeTrace(tuple(self.blocks))


def _run(
    rows: Sequence[_Row],
    steps: tuple[BatchStepFunction, BatchStepFunction],
    drafting: tuple[int, bool],
    eos_token_id: int | None,
) -> None:
    target_step, draft_step = steps
    gamma, shrink = drafting
    for row in rows:
        check_decode_request(gamma, row.remaining)
    while live := [row for row in rows if row.remaining]:
        for row in live:
            row.begin_block(gamma, shrink)
        _draft(live, draft_step)
        contexts = [row.context(n) for row in live for n in range(row.wanted + 1)]
        laws, start = _laws("target_step", target_step, contexts), 0
        for row in live:
            _check_vocabularies(laws, row.draft_laws)
            row.verify(laws[start : start + row.wanted + 1], eos_token_id)
            start += row.wanted + 1


def _draft(rows: Sequence[_Row], draft_step: BatchStepFunction) -> None:
    while short := [row for row in rows if len(row.proposed) < row.wanted]:
        laws = _laws("draft_step", draft_step, [row.context() for row in short])
        for row, law in zip(short, laws, strict=True):
            row.propose(law)


def _laws(argument: str, step: BatchStepFunction, contexts: Sequence[Any]) -> Any:
    laws = step(contexts)
    if laws.ndim != 2 or laws.shape[0] != len(contexts):
        raise InvalidInputError(
            argument, f"needs one law a context, ({len(contexts)}, vocab), got {tuple(laws.shape)}"
        )
    check_distribution(argument, laws)
    return laws


def _check_vocabularies(target_laws: Any, draft_laws: Sequence[Any]) -> None:
    sizes = target_laws.shape[-1], draft_laws[0].shape[-1] if draft_laws else None
    if sizes[1] is not None and sizes[0] != sizes[1]:
        raise InvalidInputError(
            "draft_step", f"has a vocabulary of {sizes[1]} tokens, but target_step's has {sizes[0]}"
        )


def _prompt_ids(prompt: Any) -> list[int]:
    ids = to_numpy(prompt)
    if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
        raise InvalidInputError(
            "prompt", f"needs integer ids of shape (t,), got {ids.dtype} of shape {ids.shape}"
        )
    return [int(token) for token in ids]


def _array_maker(prompt: Any, generator: Generator) -> Callable[[list[int]], Any]:
    as_numpy = isinstance(prompt, np.ndarray) or isinstance(generator, np.random.Generator)
    if as_numpy and not is_torch(prompt):
        return lambda ids: np.asarray(ids, dtype=np.int64)
    import torch

    device = prompt.device if is_torch(prompt) else None
    return lambda ids: torch.tensor(ids, dtype=torch.int64, device=device)
