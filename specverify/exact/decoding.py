"""The exact law of whole decode loops on models whose conditional laws are known."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from specverify._arrays import FloatArray
from specverify.errors import InvalidInputError
from specverify.exact.blocks import ExactCheck, judge, scenario_law
from specverify.exact.calling import Framework, VerifyForm, takes_generator, traced_generator
from specverify.exact.law import ExactLaw, enumerate_law
from specverify.exact.scenario import BlockScenario, NextTokenModel

__all__ = ["check_exact_decode", "compose_decode_law", "exact_decode_law", "judge_completions"]


def exact_decode_law(
    decode: Callable[..., Any],
    target: NextTokenModel,
    draft: NextTokenModel,
    *,
    prompt: Sequence[int],
    gamma: int,
    max_new_tokens: int,
    framework: Framework = "torch",
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
        budget: Options of :func:`enumerate_law`.

    Returns:
        The law of the tuple of new tokens.

    Raises:
        UnsupportedRandomness: If the loop cannot be traced.
        InvalidInputError: If the vocabularies differ or a number is not positive.
    """
    _check_numbers(gamma=gamma, max_new_tokens=max_new_tokens)
    if target.vocab_size != draft.vocab_size:
        raise InvalidInputError("draft", f"vocabulary of {draft.vocab_size}")
    generator = (traced_generator(framework),) if takes_generator(decode, 5) else ()
    steps = _step(target, framework), _step(draft, framework)

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


def compose_decode_law(
    verify: Callable[..., Any],
    target: NextTokenModel,
    draft: NextTokenModel,
    *,
    prompt: Sequence[int],
    gamma: int,
    max_new_tokens: int,
    form: VerifyForm = "verify",
    framework: Framework = "torch",
    **budget: Any,
) -> ExactLaw:
    """Exact law of the standard loop around a block verifier, one block law for each context.

    The loop is the suite's: draft ``gamma`` tokens, verify, append what is emitted, cut at
    ``max_new_tokens``. Contexts that the models do not tell apart share their block law, so that a
    loop costs a few blocks instead of every path through all of them.

    Args:
        verify: A block verifier that keeps no state between blocks.
        target: Target model.
        draft: Draft model.
        prompt: Tokens before the completion.
        gamma: Drafts in a block.
        max_new_tokens: Tokens in a completion.
        form: ``"verify"`` or ``"batched"``.
        framework: Arrays and generator to hand over.
        budget: Options of :func:`enumerate_law`, for each block.

    Returns:
        The law of the completion; ``paths``, ``runs`` and ``seconds`` are totals over the blocks.

    Raises:
        UnsupportedRandomness: If the verifier cannot be traced.
        InvalidInputError: If the vocabularies differ or a number is not positive.
    """
    _check_numbers(gamma=gamma, max_new_tokens=max_new_tokens)
    order = max(target.order, draft.order)
    start = tuple(int(token) for token in prompt)
    blocks: dict[tuple[int, ...], ExactLaw] = {}

    def block_after(tokens: tuple[int, ...]) -> ExactLaw:
        context = (start + tokens)[-order:] if order else ()
        if context not in blocks:
            scenario = BlockScenario.from_models(target, draft, prompt=context, gamma=gamma)
            law = scenario_law(verify, scenario, form=form, framework=framework, **budget)
            blocks[context] = law.map(lambda outcome: outcome[0])
        return blocks[context]

    open_texts: list[dict[tuple[int, ...], list[float]]] = [{} for _ in range(max_new_tokens + 1)]
    open_texts[0][()] = [1.0]
    lost, raised = list[float](), dict[str, list[float]]()
    for length in range(max_new_tokens):
        for tokens, masses in open_texts[length].items():
            law, mass = block_after(tokens), math.fsum(masses)
            lost.append(mass * law.unexplored_mass)
            for message, chance in law.exceptions.items():
                raised.setdefault(message, []).append(mass * chance)
            for emitted, chance in law.probabilities.items():
                if not emitted:
                    raised.setdefault("a block emitted nothing", []).append(mass * chance)
                    continue
                longer = (tokens + emitted)[:max_new_tokens]
                open_texts[len(longer)].setdefault(longer, []).append(mass * chance)
    return ExactLaw(
        probabilities={text: math.fsum(m) for text, m in open_texts[-1].items()},
        paths=sum(law.paths for law in blocks.values()),
        runs=sum(law.runs for law in blocks.values()),
        unexplored_mass=math.fsum(lost),
        exceptions={message: math.fsum(masses) for message, masses in raised.items()},
        slack=max_new_tokens * max(law.slack for law in blocks.values()),
        seconds=math.fsum(law.seconds for law in blocks.values()),
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


def _step(model: NextTokenModel, framework: Framework) -> Callable[[Any], Any]:
    """A step function that gives a copy of the row after the tokens so far."""
    if framework == "numpy":
        return lambda tokens: np.array(model.next_probs(np.asarray(tokens).tolist()))
    import torch

    return lambda tokens: torch.from_numpy(np.array(model.next_probs(tokens.tolist())))


def _tokens(prompt: Sequence[int], framework: Framework) -> Any:
    array = np.asarray(list(prompt), dtype=np.int64)
    if framework == "numpy":
        return array
    import torch

    return torch.from_numpy(array)


def _check_numbers(**numbers: int) -> None:
    for name, value in numbers.items():
        if value < 1:
            raise InvalidInputError(name, f"must be at least 1, got {value}")
