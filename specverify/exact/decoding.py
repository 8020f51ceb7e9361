"""The exact law of whole decode loops on models whose conditional laws are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from specverify._arrays import FloatArray
from specverify.errors import InvalidInputError
from specverify.exact.blocks import ExactCheck, judge
from specverify.exact.calling import Framework, takes_generator, traced_generator
from specverify.exact.law import ExactLaw, enumerate_law
from specverify.exact.scenario import NextTokenModel

__all__ = ["check_exact_decode", "check_numbers", "exact_decode_law", "judge_completions"]


def exact_decode_law(
    decode: Callable[..., Any],
    target: NextTokenModel,
    draft: NextTokenModel,
    *,
    prompt: Sequence[int],
    gamma: int,
    max_new_tokens: int,
    framework: Framework = "torch",
    dtype: str = "float64",
    **budget: Any,
) -> ExactLaw:
    """Exact law of the tokens that a decode loop returns.

    Args:
        decode: ``decode(prompt, target_step, draft_step, gamma, max_new_tokens[, generator])``;
            returns the new tokens, or them and a trace.
        target: Target model.
        draft: Draft model over the same vocabulary.
        prompt: Tokens before the completion, at least one.
        gamma: Drafts in an iteration, at least 1.
        max_new_tokens: Tokens to ask for, at least 1.
        framework: Arrays and generator to hand over.
        dtype: Floating dtype of the rows that the step functions give.
        budget: Options of :func:`enumerate_law`.

    Returns:
        The law of the tuple of new tokens.

    Raises:
        UnsupportedRandomness: If the loop cannot be traced.
        InvalidInputError: If the vocabularies differ or a number is not positive.
    """
    check_numbers(gamma=gamma, max_new_tokens=max_new_tokens)
    if target.vocab_size != draft.vocab_size:
        raise InvalidInputError("draft", f"vocabulary of {draft.vocab_size}")
    generator = (traced_generator(framework),) if takes_generator(decode, 5) else ()
    steps = _step(target, framework, dtype), _step(draft, framework, dtype)

    def run() -> Any:
        start = _tokens(prompt, framework)
        returned = decode(start, *steps, gamma, max_new_tokens, *generator)
        pair = isinstance(returned, tuple) and len(returned) == 2
        return returned[0] if pair and not isinstance(returned[0], int | np.integer) else returned

    return enumerate_law(run, **budget)


def check_exact_decode(
    decode: Callable[..., Any],
    target: NextTokenModel,
    draft: NextTokenModel,
    *,
    prompt: Sequence[int],
    gamma: int,
    max_new_tokens: int,
    tolerance: float = 1e-12,
    eos_token_id: int | None = None,
    **options: Any,
) -> ExactCheck:
    """Exact verdict on a decode loop: its completions against the target's joint law.

    Args:
        decode: As for :func:`exact_decode_law`.
        target: Target model.
        draft: Draft model.
        prompt: Tokens before the completion.
        gamma: Drafts in an iteration.
        max_new_tokens: Tokens asked for; any other number counts against the loop.
        tolerance: Deviation to forgive.
        eos_token_id: A completion may end early with this token, if given.
        options: As for :func:`exact_decode_law`.

    Raises:
        UnsupportedRandomness: If the loop cannot be traced.
        InvalidInputError: As :func:`exact_decode_law`.
    """
    law = exact_decode_law(
        decode,
        target,
        draft,
        prompt=prompt,
        gamma=gamma,
        max_new_tokens=max_new_tokens,
        **options,
    )
    return judge_completions(
        law,
        target,
        prompt=prompt,
        length=max_new_tokens,
        tolerance=tolerance,
        eos_token_id=eos_token_id,
    )


def judge_completions(
    law: ExactLaw,
    target: NextTokenModel,
    *,
    prompt: Sequence[int],
    length: int,
    tolerance: float = 1e-12,
    eos_token_id: int | None = None,
) -> ExactCheck:
    """Compare a law of completions with the target's joint law.

    Args:
        law: Law of tuples of new tokens.
        target: Target model.
        prompt: Tokens before the completion.
        length: Tokens in a completion.
        tolerance: Deviation to forgive.
        eos_token_id: A completion may end early with this token, if given.
    """
    start = tuple(int(token) for token in prompt)

    def valid(tokens: Any) -> bool:
        if not isinstance(tokens, tuple) or not all(
            isinstance(token, int) and 0 <= token < target.vocab_size for token in tokens
        ):
            return False
        ended = bool(tokens) and tokens[-1] == eos_token_id
        inside = eos_token_id is not None and eos_token_id in tokens[:-1]
        return not inside and (len(tokens) == length or (ended and len(tokens) < length))

    def row(prefix: tuple[int, ...]) -> FloatArray:
        return target.next_probs(start + prefix)

    return judge(law, row, length=length, valid=valid, tolerance=tolerance)


def _step(model: NextTokenModel, framework: Framework, dtype: str) -> Callable[[Any], Any]:
    """A step function that gives a copy of the row after the tokens so far."""

    def row(tokens: Any) -> Any:
        return np.array(model.next_probs(tokens.tolist()), dtype=dtype)

    if framework == "numpy":
        return lambda tokens: row(np.asarray(tokens))
    import torch

    return lambda tokens: torch.from_numpy(row(tokens))


def _tokens(prompt: Sequence[int], framework: Framework) -> Any:
    array = np.asarray(list(prompt), dtype=np.int64)
    if framework == "numpy":
        return array
    import torch

    return torch.from_numpy(array)


def check_numbers(**numbers: int) -> None:
    """Refuse numbers below 1.

    Raises:
        InvalidInputError: Naming the first.
    """
    for name, value in numbers.items():
        if value < 1:
            raise InvalidInputError(name, f"must be at least 1, got {value}")
