"""``assert_lossless``: one call in any test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from specverify.results import AuditResult, Verdict
from specverify.testing.enumeration import Enumeration
from specverify.testing.evidence import Evidence
from specverify.testing.failures import InconclusiveError, NotLosslessError
from specverify.testing.messages import audit_failure, exact_failure, open_question
from specverify.testing.naming import display_name
from specverify.testing.options import Options
from specverify.testing.searching import search
from specverify.testing.session import FALSE_ALARM, active_session

__all__ = ["LosslessReport", "assert_lossless", "check_lossless", "judge_enumeration"]


@dataclass(frozen=True, kw_only=True)
class LosslessReport:
    """What a pass rests on.

    Attributes:
        name: Name of the implementation.
        mode: ``exact`` (laws enumerated) or ``statistical`` (samples).
        tv: Largest total variation distance that is left open, over what was looked at: rounding
            where exact, an upper confidence bound a token (95 % over the audit) where statistical.
        looked_at: Cases or scenarios.
        searched: Cases drawn at random besides, in the search for a counterexample.
        why_statistical: Why the exact way was not taken, else None.
        false_alarm: Level of the statistical audit, else None.
    """

    name: str
    mode: Literal["exact", "statistical"]
    tv: float
    looked_at: tuple[str, ...]
    searched: int = 0
    why_statistical: str | None = None
    false_alarm: float | None = None


def assert_lossless(
    verify: Callable[..., Any],
    *,
    form: str = "verify",
    framework: str | None = None,
    gammas: Sequence[int] | None = None,
    mode: str = "auto",
    tolerance: float | None = None,
    false_alarm: float = FALSE_ALARM,
    budget: str | None = None,
    seed: int = 0,
) -> LosslessReport:
    """Assert that an implementation emits exactly the target's law.

    Where the code can be traced its law is enumerated on a fixed list of small cases, and a
    counterexample is searched for among random ones; no sampling noise is involved. Other code
    is sampled.

    Args:
        verify: The implementation, e.g. ``verify(target_probs, draft_probs, draft_tokens,
            generator) -> (emitted, n_accepted)`` with rows of shape ``(gamma + 1, vocab)`` and
            ``(gamma, vocab)``.
        form: ``verify``, ``batched`` (a leading batch axis) or ``decode`` (a whole loop).
        framework: ``torch`` or ``numpy``; found from the signature and its module when None.
        gammas: Block sizes; the suite's own when None.
        mode: ``exact``, ``statistical``, or ``auto``: exact where possible.
        tolerance: Exact: deviation to forgive, rounding when None. Statistical: largest total
            variation a pass may leave open, 0.05 when None.
        false_alarm: Probability that a correct implementation fails by chance (statistical).
        budget: The most to spend: ``"60s"``, ``"200k"`` (paths, or calls); no limit when None.
        seed: Seed of every draw and of the search.

    Returns:
        What the pass rests on.

    Raises:
        NotLosslessError: If the law deviates, or the code raises or returns nonsense.
        InconclusiveError: If the budget ended first.
        UnsupportedRandomness: In exact mode, if the code cannot be traced.
        InvalidInputError: If an argument is unusable.
    """
    __tracebackhide__ = True
    options = Options(
        form=form,
        framework=framework,
        gammas=None if gammas is None else tuple(gammas),
        mode=mode,
        tolerance=tolerance,
        budget=budget,
        seed=seed,
    )
    return check_lossless(verify, options, lambda: false_alarm)


def check_lossless(
    verify: Callable[..., Any], options: Options, next_level: Callable[[], float]
) -> LosslessReport:
    """As :func:`assert_lossless`, with settings already read.

    Args:
        verify: The implementation.
        options: Settings.
        next_level: Level of the audit by samples, asked for when there is one.

    Raises:
        NotLosslessError: If the law deviates.
        InconclusiveError: If the budget ended first.
    """
    __tracebackhide__ = True
    evidence = Evidence(verify, options, next_level)
    try:
        report = _judge(evidence)
    except (NotLosslessError, InconclusiveError) as error:
        verdict = Verdict.FAIL if isinstance(error, NotLosslessError) else Verdict.INCONCLUSIVE
        _record(evidence, verdict, getattr(error, "tv", None))
        raise
    _record(evidence, Verdict.PASS, report.tv)
    return report


def _judge(evidence: Evidence) -> LosslessReport:
    __tracebackhide__ = True
    law = evidence.law
    if isinstance(law, AuditResult):
        return _judge_samples(evidence, law)
    searched = judge_enumeration(evidence, law)
    return LosslessReport(
        name=display_name(evidence.implementation),
        mode="exact",
        tv=law.tv,
        looked_at=tuple(result.name for result in law.results),
        searched=searched,
    )


def judge_enumeration(evidence: Evidence, law: Enumeration) -> int:
    """Judge enumerated cases, and search for a counterexample besides.

    Args:
        evidence: The implementation.
        law: Its cases.

    Returns:
        Cases that were drawn at random.

    Raises:
        NotLosslessError: If a case deviates.
        InconclusiveError: If the budget ended first.
    """
    __tracebackhide__ = True
    if law.failed:
        found = search(evidence, law.dtype)
        text = exact_failure(evidence, law, found)
        raise NotLosslessError(text, tv=law.worst.check.tv.low, position=law.position)
    if law.open:
        raise InconclusiveError(open_question(evidence))
    found = search(evidence, law.dtype)
    if found.counterexample is not None:
        worst = found.counterexample
        text = exact_failure(evidence, law, found)
        raise NotLosslessError(text, tv=worst.tv, position=worst.position)
    return found.cases


def _judge_samples(evidence: Evidence, result: AuditResult) -> LosslessReport:
    __tracebackhide__ = True
    if result.verdict in (Verdict.FAIL, Verdict.ERROR):
        raise audit_failure(evidence, result)
    if result.verdict is not Verdict.PASS:
        raise InconclusiveError(open_question(evidence))
    bounds = [c.tv.high for c in result.checks if c.name.startswith("token[") and c.tv]
    return LosslessReport(
        name=display_name(evidence.implementation),
        mode="statistical",
        tv=max(bound for bound in bounds if bound is not None),
        looked_at=tuple(dict.fromkeys(str(c.params["scenario"]) for c in result.checks)),
        why_statistical=evidence.why_statistical,
        false_alarm=evidence.level,
    )


def _record(evidence: Evidence, verdict: Verdict, tv: float | None) -> None:
    session = active_session()
    if session is not None:
        session.entries.append(evidence.record("lossless", verdict) | {"tv": tv})
