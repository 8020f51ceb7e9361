"""The exact law of one block of a verifier, and its distance from the target's."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from specverify._arrays import is_torch
from specverify.exact.calling import Framework, VerifyForm, block_call
from specverify.exact.completion import completed_excess
from specverify.exact.law import ExactLaw, Order, TvBounds, enumerate_law
from specverify.exact.scenario import BlockScenario
from specverify.exact.tape import active_tape

__all__ = ["ExactCheck", "check_exact", "exact_block_law", "exact_verify_tv", "scenario_law"]

_PAD = -1
# Largest deviation that rounding explains, by dtype of the rows.
_ROUNDING = {"float64": 1e-12, "float32": 1e-6}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactCheck:
    """An exact verdict on one scenario.

    Attributes:
        law: The law that was found.
        tv: Bounds of the total variation distance from the target over the longest text compared.
        by_length: The same for the first 1, 2, ... tokens.
        position: First position (0-based) at which the law surely deviates, or None.
        invalid_mass: Probability of tokens outside the vocabulary or of a wrong number of tokens.
        tolerance: Deviation that rounding explains.
        mean_emitted: Expected number of tokens emitted at a time.
    """

    law: ExactLaw
    tv: TvBounds
    by_length: tuple[TvBounds, ...]
    position: int | None
    invalid_mass: float
    tolerance: float
    mean_emitted: float

    @property
    def lossless(self) -> bool | None:
        """True or False where proved, None where the budget left it open."""
        if self.tv.low > self.tolerance:
            return False
        return True if self.tv.high <= self.tolerance else None


def exact_block_law(
    verify: Callable[..., Any],
    target_probs: Any,
    draft_probs: Any,
    *,
    form: VerifyForm = "verify",
    framework: Framework | None = None,
    **budget: Any,
) -> ExactLaw:
    """Exact law of what a verifier emits on one block, drafts drawn from ``draft_probs``.

    Args:
        verify: ``verify(target_probs, draft_probs, draft_tokens[, generator])``.
        target_probs: Target rows, shape ``(gamma + 1, vocab)``, numpy or torch.
        draft_probs: Draft rows, shape ``(gamma, vocab)``.
        form: ``"verify"``, or ``"batched"`` for a verifier with a leading batch axis.
        framework: What to hand over; that of ``target_probs`` by default.
        budget: Options of :func:`enumerate_law`.

    Returns:
        The law of the emitted tuple.

    Raises:
        UnsupportedRandomness: If the verifier cannot be traced.
        InvalidInputError: If the rows do not fit.
    """
    scenario = BlockScenario.from_rows(target_probs, draft_probs)
    framework = framework or ("torch" if is_torch(target_probs) else "numpy")
    dtype = _dtype_name(target_probs)
    law = scenario_law(verify, scenario, form=form, framework=framework, dtype=dtype, **budget)
    return law.map(lambda outcome: outcome[0])


def exact_verify_tv(
    verify: Callable[..., Any], target_probs: Any, draft_probs: Any, **options: Any
) -> TvBounds:
    """Bounds of the exact total variation distance of a verifier from the target.

    The emitted tokens, continued by the target up to ``gamma + 1``, are compared with the target's
    joint law; every lossless scheme has distance zero.

    Args:
        verify: As for :func:`exact_block_law`.
        target_probs: Target rows, shape ``(gamma + 1, vocab)``.
        draft_probs: Draft rows, shape ``(gamma, vocab)``.
        options: As for :func:`exact_block_law`.

    Returns:
        Lower and upper bound, equal up to rounding where every path was explored.

    Raises:
        UnsupportedRandomness: If the verifier cannot be traced.
        InvalidInputError: If the rows do not fit.
    """
    options.setdefault("framework", "torch" if is_torch(target_probs) else "numpy")
    options.setdefault("dtype", _dtype_name(target_probs))
    scenario = BlockScenario.from_rows(target_probs, draft_probs)
    return check_exact(verify, scenario, **options).tv


def check_exact(
    verify: Callable[..., Any],
    scenario: BlockScenario,
    *,
    form: VerifyForm = "verify",
    framework: Framework = "torch",
    dtype: str = "float64",
    tolerance: float | None = None,
    **budget: Any,
) -> ExactCheck:
    """Exact verdict on a block verifier in one scenario: total variation and first deviation.

    Args:
        verify: ``verify(target_probs, draft_probs, draft_tokens[, generator])``.
        scenario: The laws of the block.
        form: ``"verify"`` or ``"batched"``.
        framework: Arrays and generator to hand over.
        dtype: Floating dtype of the rows handed over, ``"float64"`` or ``"float32"``.
        tolerance: Deviation to forgive; 1e-12 for float64 and 1e-6 for float32 by default.
        budget: Options of :func:`enumerate_law`.

    Raises:
        UnsupportedRandomness: If the verifier cannot be traced.
        ReplayDivergence: If it keeps state between calls.
    """
    law = scenario_law(verify, scenario, form=form, framework=framework, dtype=dtype, **budget)
    emitted = law.map(lambda outcome: outcome[0])
    return judge(
        emitted,
        scenario.target,
        length=scenario.gamma + 1,
        valid=lambda tokens: _valid(tokens, scenario),
        tolerance=_ROUNDING.get(dtype, 1e-2) if tolerance is None else tolerance,
    )


def scenario_law(
    verify: Callable[..., Any],
    scenario: BlockScenario,
    *,
    form: VerifyForm = "verify",
    framework: Framework = "torch",
    dtype: str = "float64",
    order: Order = "depth",
    **budget: Any,
) -> ExactLaw:
    """Law of ``(emitted, n_accepted)`` in one scenario; the suite draws the drafts on the tape."""
    call = block_call(verify, form=form, framework=framework, dtype=dtype)
    drafts_of = _drafter(scenario)

    def run() -> Any:
        drafts = drafts_of()
        emitted, accepted = call(*scenario.block(drafts), drafts)
        return emitted, accepted

    law = enumerate_law(run, order=order, **budget)
    return law.map(_normal)


def judge(
    law: ExactLaw,
    target: Callable[[tuple[int, ...]], Any],
    *,
    length: int,
    valid: Callable[[Any], bool],
    tolerance: float,
) -> ExactCheck:
    """Compare a law of emitted tuples, continued by the target, with the target's."""
    sound = {tokens: mass for tokens, mass in law.probabilities.items() if valid(tokens)}
    invalid = math.fsum(m for tokens, m in law.probabilities.items() if tokens not in sound)
    wrong = invalid + law.exception_mass
    bounds = []
    for count in range(1, length + 1):
        excess = completed_excess(sound, target, count) + wrong
        low = min(max(excess - law.slack, 0.0), 1.0)
        bounds.append(TvBounds(low, min(excess + law.unexplored_mass + law.slack, 1.0)))
    position = next((k for k, bound in enumerate(bounds) if bound.low > tolerance), None)
    return ExactCheck(
        law=law,
        tv=bounds[-1],
        by_length=tuple(bounds),
        position=position,
        invalid_mass=invalid,
        tolerance=tolerance,
        mean_emitted=_mean_length(sound),
    )


def _mean_length(emitted: Mapping[tuple[int, ...], float]) -> float:
    total = math.fsum(emitted.values())
    return math.fsum(len(t) * m for t, m in emitted.items()) / total if total else math.nan


def _drafter(scenario: BlockScenario) -> Callable[[], tuple[int, ...]]:
    rows: dict[tuple[int, ...], tuple[float, ...]] = {}

    def draw() -> tuple[int, ...]:
        tape = active_tape()
        assert tape is not None
        drafts: tuple[int, ...] = ()
        for _ in range(scenario.gamma):
            row = rows.get(drafts)
            if row is None:
                row = rows[drafts] = tuple(np.asarray(scenario.draft(drafts)).tolist())
            drafts = (*drafts, row.index(1.0) if 1.0 in row else tape.choose(row, "draft"))
        return drafts

    return draw


def _normal(outcome: Any) -> tuple[Any, Any]:
    """Emitted tokens as a flat tuple without padding."""
    emitted, accepted = outcome
    tokens = emitted if isinstance(emitted, tuple) else (emitted,)
    while len(tokens) == 1 and isinstance(tokens[0], tuple):
        tokens = tokens[0]
    while tokens and tokens[-1] == _PAD:
        tokens = tokens[:-1]
    return tokens, accepted


def _valid(tokens: Any, scenario: BlockScenario) -> bool:
    return 1 <= len(tokens) <= scenario.gamma + 1 and all(
        isinstance(token, int) and 0 <= token < scenario.vocab_size for token in tokens
    )


def _dtype_name(array: Any) -> str:
    return str(array.dtype).rpartition(".")[2]
