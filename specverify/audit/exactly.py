"""The exact way through one scenario, in the worker that also samples.

:func:`traced_tally` traces a law, and believes it only where ordinary completions follow it. What
becomes of it is an :class:`~specverify.audit.exact_record.ExactRecord`: the tally carries it in
``cases["exact"]`` as a mapping, a ledger keeps it as it keeps any shard, and
:mod:`specverify.audit.checks.exact` makes the check ``exact[scenario]`` of it. The smallest case
that a failure shows on lies in ``cases["counterexample"]``
(:mod:`specverify.audit.counterexamples` tells its keys).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec
import numpy as np

from specverify.audit.chains import Chain
from specverify.audit.confirming import LEVEL, confirm
from specverify.audit.decoding import EOS, prompt_of
from specverify.audit.exact_record import (
    BIASED,
    DISCARDED,
    GATE,
    LARGE,
    LOSSLESS,
    OPEN,
    REFUSED,
    ExactRecord,
)
from specverify.audit.forms import Form
from specverify.audit.observer import Observer
from specverify.audit.scenarios import Scenario
from specverify.audit.schemes import STANDARD
from specverify.audit.signatures import takes
from specverify.audit.tally import Tally
from specverify.audit.targets import Target
from specverify.audit.tracing import (
    handed_dtype,
    paths_expected,
    tabular_pair,
    trace,
    traced_length,
)
from specverify.errors import SpecVerifyError
from specverify.exact.blocks import ExactCheck
from specverify.exact.law import ExactLaw
from specverify.exact.tape import ReplayDivergence

__all__ = ["examine", "first_rows", "too_large", "traced_tally"]

Draw: TypeAlias = Callable[[int], tuple[Tally, list[tuple[int, ...]]]]

_MOST_EXPECTED, _MOST_PATHS, _SECONDS = 6_000, 8_000, 4.0
_GLANCE_VOCAB, _GLANCE_PATHS, _GLANCE_SECONDS = 64, 400, 1.0
_NAMING_PATHS, _NAMING_LOOP_PATHS = 100, 300
_LEAST_MASS = 1e-18
"""Paths less likely than this are left out: a loop that chance alone ends has such for ever."""


def too_large(scenario: Scenario) -> bool:
    """Whether a scenario has so many paths that a glance at the likeliest must do."""
    return paths_expected(scenario) > _MOST_EXPECTED


def examine(
    target: Target, scenario: Scenario, observer: Observer
) -> tuple[ExactRecord, ExactLaw | None]:
    """Trace one scenario; whatever goes wrong there is no error of the audited code.

    Args:
        target: The implementation.
        scenario: The rows.
        observer: Told of every call.

    Returns:
        The record, not yet confirmed, and the law that it speaks of, if any.
    """
    started = time.process_time()
    if too_large(scenario) and scenario.vocab_size > _GLANCE_VOCAB:
        return ExactRecord(outcome=LARGE, reason=_about(scenario)), None
    paths, seconds = (_MOST_PATHS, _SECONDS)
    if too_large(scenario):
        paths, seconds = _GLANCE_PATHS, _GLANCE_SECONDS
    try:
        limits = {"max_paths": paths, "max_seconds": seconds, "min_mass": _LEAST_MASS}
        check = trace(target, scenario, observer, **limits)
    except SpecVerifyError as error:
        deceived = isinstance(error, ReplayDivergence)
        text = f"cannot be traced: {error}"
        return ExactRecord(outcome=REFUSED, reason=text, deceived=deceived), None
    except Exception as error:  # the tracer's own: its limits are no fault of the code
        text = f"the tracer failed: {type(error).__name__}: {error}"
        return ExactRecord(outcome=REFUSED, reason=text), None
    record = _record(target, scenario, check)
    return msgspec.structs.replace(record, seconds=time.process_time() - started), check.law


def traced_tally(target: Target, scenario: Scenario, observer: Observer, draw: Draw) -> Tally:
    """Trace one scenario, and confirm what was found by ordinary completions.

    Args:
        target: The implementation.
        scenario: The rows.
        observer: Told of every call.
        draw: Gives ordinary completions of a length, with their counts.

    Returns:
        The counts of these completions (none where nothing is claimed), and the record.
    """
    tally = Tally()
    if scenario.eos is not None and not takes(target.implementation, EOS):
        tally.note("skipped", {"reason": f"it has no parameter {EOS}"})
        return tally
    record, law = examine(target, scenario, observer)
    if law is not None and record.outcome in (LOSSLESS, BIASED):
        drawn, outcomes = draw(record.length)
        if drawn.error is not None or record.whole:
            tally = drawn
        if tally.error is None:
            record = _confirmed(record, law, outcomes, scenario)
        else:
            text = "an ordinary call went wrong"
            record = msgspec.structs.replace(record, outcome=REFUSED, reason=text)
    tally.note("exact", msgspec.to_builtins(record))
    return tally


def _confirmed(
    record: ExactRecord, law: ExactLaw, outcomes: list[tuple[int, ...]], scenario: Scenario
) -> ExactRecord:
    """The record, discarded where ordinary completions do not follow its law."""
    p_value = confirm(_as_sampled(law, scenario, record.length), outcomes)
    record = msgspec.structs.replace(record, n=len(outcomes), p_value=p_value)
    if p_value < LEVEL:
        text = (
            f"{len(outcomes)} ordinary completions do not follow the traced law (p = {p_value:.2g})"
        )
        return msgspec.structs.replace(record, outcome=DISCARDED, reason=text, deceived=True)
    if law.exception_mass > GATE:
        message = next(iter(law.exceptions))
        text = f"{message!r} was raised under the tracer and in no ordinary call"
        return msgspec.structs.replace(record, outcome=REFUSED, reason=text)
    return record


def _record(target: Target, scenario: Scenario, check: ExactCheck) -> ExactRecord:
    law, length = check.law, traced_length(scenario)
    outcome, reason = OPEN, ""
    if check.tv.low > GATE:
        outcome = BIASED
    elif check.tv.high <= GATE:
        outcome = LOSSLESS
    else:
        reason = f"{law.paths:,} paths hold {1 - law.unexplored_mass:.3g} of the probability"
        if too_large(scenario):
            outcome, reason = LARGE, f"{_about(scenario)}; {reason}"
    return ExactRecord(
        outcome=outcome,
        reason=reason,
        low=check.tv.low,
        high=check.tv.high,
        position=next((k for k, tv in enumerate(check.by_length) if tv.low > GATE), None),
        length=length,
        whole=length == scenario.length,
        dtype=handed_dtype(target),
        tolerance=check.tolerance,
        paths=law.paths,
        explored=max(1.0 - law.unexplored_mass, 0.0),
        exceptions=dict(list(law.exceptions.items())[:3]),
        invalid_mass=check.invalid_mass,
        mean_emitted=None if np.isnan(check.mean_emitted) else check.mean_emitted,
        length_tv=_length_tv(law, scenario),
        fits=_fits(law, scenario) if outcome == BIASED else None,
    )


def _about(scenario: Scenario) -> str:
    return f"some {paths_expected(scenario):.2g} paths"


def _length_tv(law: ExactLaw, scenario: Scenario) -> float | None:
    """Distance of the emitted length's law from the standard rule's."""
    if scenario.form is Form.DECODE or law.unexplored_mass > GATE:
        return None
    chain = scenario.chain
    expected = STANDARD.outcome_law(scenario, chain.start).sum(axis=0)
    found = np.zeros(len(expected))
    for tokens, mass in law.probabilities.items():
        found[min(len(tokens), len(expected) - 1)] += mass
    return float(np.maximum(found - expected, 0).sum())


def _fits(law: ExactLaw, scenario: Scenario) -> tuple[str, ...] | None:
    """Known bugs with this law, where their own laws are quickly enumerated."""
    if law.unexplored_mass > GATE:
        return None
    if scenario.form is Form.DECODE:
        return _fitting_loops(law, scenario)
    if paths_expected(scenario) > _NAMING_PATHS or scenario.chain.contexts > 1:
        return None
    from specverify.bugs.matching import FoundLaw, fitting_bugs

    target, draft = first_rows(scenario.chain, scenario.gamma)
    return tuple(fitting_bugs([FoundLaw(target, draft, law.probabilities)]))


def _fitting_loops(law: ExactLaw, scenario: Scenario) -> tuple[str, ...] | None:
    if paths_expected(scenario) > _NAMING_LOOP_PATHS:
        return None
    from specverify.bugs.matching import fitting_loops
    from specverify.bugs.scenes import Scene

    models = scenario.models or scenario.chain
    target, draft = tabular_pair(models)
    scene = Scene(
        name=scenario.name,
        target_next=target.next_probs,
        draft_next=draft.next_probs,
        gamma=scenario.gamma,
        length=traced_length(scenario),
        vocab_size=scenario.vocab_size,
        eos_token_id=scenario.eos,
        prompt=tuple(prompt_of(scenario)),
    )
    return tuple(fitting_loops(scene, law.probabilities))


def first_rows(chain: Chain, gamma: int) -> tuple[Any, Any]:
    """Target and draft rows of the first block, where they depend on the position alone."""
    return chain.target[: gamma + 1, 0], chain.draft[:gamma, 0]


def _as_sampled(law: ExactLaw, scenario: Scenario, length: int) -> ExactLaw:
    """The law of what a sampler keeps: ended texts are padded with their end."""
    eos = scenario.eos
    if eos is None:
        return law
    return law.map(lambda tokens: (*tokens, *[eos] * (length - len(tokens))))
