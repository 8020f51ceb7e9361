"""The smallest case on which a decode loop is biased, found by drawing cases and shrinking one."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from specverify.exact.blocks import ExactCheck
from specverify.exact.calling import Framework
from specverify.exact.decoding import check_exact_decode
from specverify.exact.search import Judged, normalised, smallest, weighted_row
from specverify.models.tabular import TabularModel

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = ["LoopCounterexample", "find_loop_counterexample"]

PROMPT = (1, 0)
"""One token more than the models look at: a loop that looks at the first is seen."""

_VOCAB = 2
_SIZES = ((1, 1), (1, 2), (2, 2), (1, 3), (2, 3))
"""Drafts and tokens asked for, the smallest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopCounterexample:
    """A case on which the law of completions is not the target's.

    Attributes:
        target_weights: Whole weights of the target's rows, one row for each token before.
        draft_weights: Whole weights of the draft's rows.
        gamma: Drafted tokens in a pass.
        max_new_tokens: Tokens asked for.
        tv: Exact total variation distance (a lower bound of it where the budget ended).
        position: First deviating position of the completion, 0-based.
        snippet: Python code that shows it, to be pasted into a test.
    """

    target_weights: tuple[tuple[int, ...], ...]
    draft_weights: tuple[tuple[int, ...], ...]
    gamma: int
    max_new_tokens: int
    tv: float
    position: int
    snippet: str


def find_loop_counterexample(
    decode: Callable[..., Any],
    *,
    binding: str,
    framework: Framework = "torch",
    dtype: str = "float64",
    tolerance: float = 1e-12,
    max_examples: int = 60,
    max_cases: int = 200,
    seed: int = 0,
    **budget: Any,
) -> LoopCounterexample | None:
    """Search two-token models for a case above the tolerance, and shrink it.

    Loops that draft little and are asked for little come first, so that the first size with a
    deviation is the smallest. The same seed gives the same case.

    Args:
        decode: ``decode(prompt, target_step, draft_step, gamma, max_new_tokens[, generator])``.
        binding: Statement of the snippet after which ``decode`` is the loop.
        framework: Arrays and generator to hand over.
        dtype: Floating dtype of the rows.
        tolerance: Deviation to forgive.
        max_examples: Cases to draw, over all sizes.
        max_cases: Cases to enumerate, those of the shrinking included.
        seed: Seed of the search.
        budget: Options of ``enumerate_law``, for each case.

    Returns:
        The smallest case found, or None if every case drawn was exact.

    Raises:
        UnsupportedRandomness: If the loop cannot be traced.
        MissingDependencyError: If Hypothesis is not installed.
    """
    options: dict[str, Any] = {"framework": framework, "dtype": dtype, "tolerance": tolerance}

    def check(case: Any) -> ExactCheck:
        target, draft = (TabularModel(normalised(weights)) for weights in case[:2])
        asked = {"prompt": PROMPT, "gamma": case[2], "max_new_tokens": case[3]}
        return check_exact_decode(decode, target, draft, **asked, **options, **budget)

    judged = Judged(check, max_cases)
    for size in _SIZES:
        cases = partial(_cases, *size)
        case = smallest(judged, cases, math.ceil(max_examples / len(_SIZES)), seed)
        if case is not None:
            return _told(case, check(case), options, binding)
    return None


def _cases(gamma: int, length: int) -> SearchStrategy[Any]:
    from hypothesis import strategies as st

    table = st.tuples(*[weighted_row(_VOCAB)] * _VOCAB)
    return st.tuples(table, table, st.just(gamma), st.just(length))


def _told(
    case: Any, found: ExactCheck, options: dict[str, Any], binding: str
) -> LoopCounterexample:
    target, draft, gamma, length = case
    assert found.position is not None
    return LoopCounterexample(
        target_weights=target,
        draft_weights=draft,
        gamma=gamma,
        max_new_tokens=length,
        tv=found.tv.low,
        position=found.position,
        snippet=_snippet(case, found.tv.low, options, binding),
    )


def _snippet(case: Any, tv: float, options: dict[str, Any], binding: str) -> str:
    """Python code that fails where a loop deviates."""
    target, draft, gamma, length = case
    more = "".join(f", {key}={value!r}" for key, value in options.items())
    return "\n".join(
        [
            "import numpy as np",
            "from specverify import TabularModel, check_exact_decode",
            binding,
            "",
            "def model(weights):",
            "    rows = np.array(weights, dtype=float)",
            "    return TabularModel(rows / rows.sum(axis=-1, keepdims=True))",
            "",
            f"target, draft = model({_lists(target)}), model({_lists(draft)})",
            f"asked = dict(prompt={list(PROMPT)}, gamma={gamma}, max_new_tokens={length}{more})",
            "found = check_exact_decode(decode, target, draft, **asked)",
            f"assert found.position is None, found.tv  # {tv:.6g} when it was found",
        ]
    )


def _lists(weights: Any) -> list[list[int]]:
    return [list(row) for row in weights]
