"""The exact law of an engine's completions, on the smallest model that it runs.

Whole generations of a real model have too many paths; those of a pair of a few tokens have some
hundred, and go through the same code. The record is that of any traced scenario.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, TypeAlias

import msgspec
import numpy as np

from specverify.audit.confirming import LEVEL, confirm
from specverify.audit.engines import TRACED_PROMPT
from specverify.audit.exact_record import (
    BIASED,
    DISCARDED,
    GATE,
    LOSSLESS,
    OPEN,
    REFUSED,
    ExactRecord,
)
from specverify.audit.tally import Tally
from specverify.audit.targets import Target
from specverify.errors import SpecVerifyError
from specverify.exact import enumerate_law, tv_bounds
from specverify.exact.law import ExactLaw
from specverify.warping import SamplingParams

__all__ = ["examine", "search_tally", "with_record"]

_SECONDS, _SEARCH_SECONDS = 60.0, 5.0
_SIZES = [(v, n, g) for n in (1, 2, 3) for v in (2, 3, 4) for g in (1, 2) if g <= n]
"""Tokens, length and drafts of a case, from small to large: the first that deviates is shown."""

_ALONE = {
    LOSSLESS: "only in batches: decoded alone, the completions follow the law exactly",
    BIASED: "alone as well as in batches",
}
"""What it means for a wrong batch that a completion decoded alone is right, or is not."""

Masses: TypeAlias = Mapping[tuple[int, ...], float]


def examine(
    engine: Any, length: int, *, max_seconds: float = _SECONDS
) -> tuple[ExactRecord, ExactLaw | None]:
    """Trace an engine's completions of a prompt of two tokens, at temperature 1.

    Args:
        engine: A small one, with ``complete`` and ``reference``; where it decodes batches and does
            wrong, what ``alone()`` returns is traced too.
        length: New tokens.
        max_seconds: Time that it may take, each time.

    Returns:
        The record, not yet confirmed, and the law that it speaks of, if any.
    """
    record, law = _traced(engine, length, max_seconds)
    if record.outcome == BIASED and hasattr(engine, "alone"):
        alone, _ = _traced(engine.alone(), length, max_seconds)
        record = msgspec.structs.replace(record, remark=_ALONE.get(alone.outcome, ""))
    return record, law


def _traced(engine: Any, length: int, max_seconds: float) -> tuple[ExactRecord, ExactLaw | None]:
    started, plain = time.process_time(), SamplingParams()
    try:
        law = enumerate_law(
            lambda: tuple(engine.complete(TRACED_PROMPT, length, plain)), max_seconds=max_seconds
        )
    except SpecVerifyError as error:
        return ExactRecord(outcome=REFUSED, reason=f"cannot be traced: {error}"), None
    expected = _expected(engine, length)
    tv = tv_bounds(law, expected)
    outcome = BIASED if tv.low > GATE else LOSSLESS if tv.high <= GATE else OPEN
    record = ExactRecord(
        outcome=outcome,
        reason="" if outcome != OPEN else f"{law.paths:,} paths were explored",
        low=tv.low,
        high=tv.high,
        position=_position(law.probabilities, expected, length),
        length=length,
        tolerance=GATE,  # engines sample in float32, whatever their weights are
        paths=law.paths,
        explored=max(1.0 - law.unexplored_mass, 0.0),
        exceptions=dict(list(law.exceptions.items())[:3]),
        fits=_fitting(engine, law, length) if outcome == BIASED else None,
        seconds=time.process_time() - started,
    )
    return record, law


def _fitting(engine: Any, law: ExactLaw, length: int) -> tuple[str, ...] | None:
    """Known bugs of decode loops with this law; None where the draft's law is not known."""
    info, one = engine.describe(), np.zeros((1, 1), dtype=np.int64)
    draft = getattr(engine, "draft_probs", lambda *_: None)
    told = draft(list(TRACED_PROMPT), one, SamplingParams())
    if told is None or info.gamma is None or law.unexplored_mass > GATE:
        return None
    from specverify.bugs.matching import fitting_loops
    from specverify.bugs.scenes import Scene

    target = engine.reference().probs
    scene = Scene(
        name="smallest",
        target_next=lambda context: _next(target, context, info.vocab_size),
        draft_next=lambda context: _next(draft, context, info.vocab_size),
        gamma=info.gamma,
        length=length,
        vocab_size=info.vocab_size,
        eos_token_id=info.eos,
        prompt=TRACED_PROMPT,
    )
    return tuple(fitting_loops(scene, law.probabilities))


def _next(probs: Any, context: Sequence[int], vocab_size: int) -> Any:
    """The next token's law; any will do after an id beyond the vocabulary, as one bug emits."""
    inside = [min(token, vocab_size - 1) for token in context]
    return probs(inside, np.zeros((1, 1), dtype=np.int64), SamplingParams())[0, 0]


def with_record(
    tally: Tally, record: ExactRecord, law: ExactLaw | None, outcomes: Sequence[tuple[int, ...]]
) -> Tally:
    """The counts of ordinary completions, with the record that they confirm.

    Args:
        tally: Counts of these completions.
        record: What tracing came to.
        law: The law that it speaks of.
        outcomes: The completions.
    """
    if law is not None and tally.error is not None:
        text = "an ordinary call went wrong"
        record = msgspec.structs.replace(record, outcome=REFUSED, reason=text)
    elif law is not None:
        p_value = confirm(law, outcomes)
        record = msgspec.structs.replace(record, n=len(outcomes), p_value=p_value)
        if p_value < LEVEL:
            text = f"{len(outcomes)} ordinary completions do not follow the traced law"
            record = msgspec.structs.replace(record, outcome=DISCARDED, reason=text)
    tally.note("exact", msgspec.to_builtins(record))
    return tally


def search_tally(target: Target) -> Tally:
    """A tally that holds the smallest case on which an engine deviates, if one does."""
    tally = Tally()
    for vocab_size, length, gamma in _SIZES:
        engine = target.implementation.smallest(vocab_size, gamma)
        record, law = examine(engine, length, max_seconds=_SEARCH_SECONDS)
        if law is not None and record.outcome == BIASED:
            size = {"vocab_size": vocab_size, "gamma": gamma, "max_new_tokens": length}
            tally.note(
                "counterexample", _case(target, size, record, law, _expected(engine, length))
            )
            break
    return tally


def _expected(engine: Any, length: int) -> Masses:
    """The law that the completions ought to follow; an end token ends one."""
    info, prompt = engine.describe(), list(TRACED_PROMPT)
    tokens = np.array(list(product(range(info.vocab_size), repeat=length)))
    rows = engine.reference().probs(prompt, tokens, SamplingParams())
    chances = np.take_along_axis(rows, tokens[..., None], axis=-1)[..., 0].cumprod(axis=1)
    masses: dict[tuple[int, ...], float] = {}
    for text, mass in zip(tokens.tolist(), chances, strict=True):
        end = text.index(info.eos) + 1 if info.eos in text else length
        masses[tuple(text[:end])] = float(mass[end - 1])
    return masses


def _position(found: Masses, expected: Masses, length: int) -> int | None:
    """First position up to which the completions have another law."""
    for size in range(1, length + 1):
        excess: dict[tuple[int, ...], float] = {}
        for masses, sign in ((found, 1.0), (expected, -1.0)):
            for text, mass in masses.items():
                excess[text[:size]] = excess.get(text[:size], 0.0) + sign * mass
        if sum(max(value, 0.0) for value in excess.values()) > GATE:
            return size - 1
    return None


def _case(
    target: Target, size: dict[str, int], record: ExactRecord, law: ExactLaw, expected: Masses
) -> dict[str, Any]:
    texts = sorted(set(expected) | set(law.probabilities))
    laws = [
        {"tokens": t, "expected": expected.get(t, 0.0), "found": law.probabilities.get(t, 0.0)}
        for t in map(tuple, texts)
    ]
    case: dict[str, Any] = {"kind": "counterexample", "form": str(target.form)}
    case |= (
        {"prompt": list(TRACED_PROMPT)}
        | size
        | {"tv": record.low, "position": record.position, "laws": laws}
    )
    if target.spec is not None:
        case["snippet"] = _SNIPPET.format(spec=target.spec, prompt=list(TRACED_PROMPT), **size)
    return case


_SNIPPET = """\
from specverify import SamplingParams, enumerate_law
from specverify.audit.forms import Form
from specverify.audit.targets import resolve

engine = resolve({spec!r}, form=Form.GENERATE).implementation.smallest({vocab_size}, {gamma})
law = enumerate_law(
    lambda: tuple(engine.complete({prompt}, {max_new_tokens}, SamplingParams()))
)
print(law.probabilities, law.exceptions)
"""
