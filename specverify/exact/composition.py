"""The exact law of the suite's decode loop around a verifier, composed of block laws."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

from specverify.exact.blocks import scenario_law
from specverify.exact.calling import Framework, VerifyForm
from specverify.exact.decoding import check_numbers
from specverify.exact.law import ExactLaw
from specverify.exact.scenario import BlockScenario, NextTokenModel

__all__ = ["compose_decode_law"]


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
    check_numbers(gamma=gamma, max_new_tokens=max_new_tokens)
    order = max(target.order, draft.order)
    start = tuple(int(token) for token in prompt)
    options: dict[str, Any] = {"form": form, "framework": framework, **budget}

    @cache
    def block_after(context: tuple[int, ...]) -> ExactLaw:
        scenario = BlockScenario.from_models(target, draft, prompt=context, gamma=gamma)
        return scenario_law(verify, scenario, **options).map(lambda outcome: outcome[0])

    texts = _Texts(max_new_tokens)
    for tokens, mass in texts.unfinished():
        context = (start + tokens)[-order:] if order else ()
        texts.grow(tokens, mass, block_after(context))
    return texts.law()


class _Texts:
    """Masses of the texts that a loop has got to, by length; blocks make them longer.

    Args:
        length: Tokens in a finished text; what a block emits beyond is cut off.
    """

    def __init__(self, length: int) -> None:
        self.length = length
        self._by_length: list[dict[tuple[int, ...], list[float]]] = [{} for _ in range(length + 1)]
        self._by_length[0][()] = [1.0]
        self._lost: list[float] = []
        self._raised: dict[str, list[float]] = {}
        self._blocks: dict[int, ExactLaw] = {}

    def unfinished(self) -> Iterator[tuple[tuple[int, ...], float]]:
        """Texts still too short with their masses, the shortest first; they may grow meanwhile."""
        for level in self._by_length[:-1]:
            for tokens, masses in level.items():
                yield tokens, math.fsum(masses)

    def grow(self, tokens: tuple[int, ...], mass: float, block: ExactLaw) -> None:
        """Continue a text by a block."""
        self._blocks[id(block)] = block
        self._lost.append(mass * block.unexplored_mass)
        for message, chance in block.exceptions.items():
            self._raised.setdefault(message, []).append(mass * chance)
        for emitted, chance in block.probabilities.items():
            if not emitted:
                self._raised.setdefault("a block emitted nothing", []).append(mass * chance)
                continue
            longer = (tokens + emitted)[: self.length]
            self._by_length[len(longer)].setdefault(longer, []).append(mass * chance)

    def law(self) -> ExactLaw:
        """Law of the finished texts; costs are totals over the blocks."""
        blocks = self._blocks.values()
        return ExactLaw(
            probabilities={text: math.fsum(m) for text, m in self._by_length[-1].items()},
            paths=sum(law.paths for law in blocks),
            runs=sum(law.runs for law in blocks),
            unexplored_mass=math.fsum(self._lost),
            exceptions={message: math.fsum(masses) for message, masses in self._raised.items()},
            slack=self.length * max(law.slack for law in blocks),
            seconds=math.fsum(law.seconds for law in blocks),
        )
