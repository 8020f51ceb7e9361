"""Exceptions that occur under the tracer only: a limit of the tracer, and no fault of the code."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from specverify.audit.calls import invoke, to_framework
from specverify.audit.randomness import (
    global_generators_kept,
    make_generator,
    seed_global_generators,
)
from specverify.audit.targets import Target
from specverify.errors import UnsupportedRandomness
from specverify.exact.blocks import ExactCheck
from specverify.exact.calling import Framework, fresh
from specverify.testing.cases import BlockCase, DecodeCase

__all__ = ["Trial", "block_trial", "confirm_exceptions", "decode_trial"]

Trial: TypeAlias = Callable[[np.random.Generator, Any], object]
"""One ordinary call: draws its drafts from the first, hands the second to the code."""

_MOST_CALLS = 2_000
# Calls in which an exception of that mass fails to occur with probability e ** -20.
_NATS = 20.0


def confirm_exceptions(check: ExactCheck, trial: Trial, target: Target) -> None:
    """Call the code without the tracer until it raises as well.

    Args:
        check: What was traced; nothing is done where no exception occurred.
        trial: One ordinary call on the same case.
        target: The implementation.

    Raises:
        UnsupportedRandomness: If it never raises although it should have.
    """
    mass = check.law.exception_mass
    if mass <= check.tolerance:
        return
    calls = min(_MOST_CALLS, math.ceil(_NATS / mass))
    rng = np.random.default_rng(0)
    with global_generators_kept():
        seed_global_generators(0)
        generator = make_generator(target.framework, 0)
        for _ in range(calls):
            try:
                trial(rng, generator)
            except Exception:
                return
    message = next(iter(check.law.exceptions))
    raise UnsupportedRandomness(
        target.name, target.name, f"raises {message!r} under the tracer and never outside it"
    )


def block_trial(target: Target, case: BlockCase, form: str, dtype: str) -> Trial:
    """An ordinary call on one block."""
    scenario, framework = case.scenario, _framework(target)

    def trial(rng: np.random.Generator, generator: Any) -> object:
        drafts: tuple[int, ...] = ()
        for _ in range(scenario.gamma):
            row = scenario.draft(drafts)
            drafts = (*drafts, int(rng.choice(len(row), p=row)))
        rows = [side.astype(dtype) for side in scenario.block(drafts)]
        given = [*rows, np.array(drafts, dtype=np.int64)]
        arrays = [fresh(a[None] if form == "batched" else a, framework) for a in given]
        return invoke(target, tuple(arrays), generator)

    return trial


def decode_trial(target: Target, case: DecodeCase) -> Trial:
    """An ordinary run of a loop."""
    framework = _framework(target)

    def trial(rng: np.random.Generator, generator: Any) -> object:
        steps = case.target.step(framework), case.draft.step(framework)
        prompt = to_framework(list(case.prompt), target.framework)
        return invoke(target, (prompt, *steps, case.gamma, case.max_new_tokens), generator)

    return trial


def _framework(target: Target) -> Framework:
    return "torch" if target.framework == "torch" else "numpy"
