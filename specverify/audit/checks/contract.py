"""The interface: tokens of the right kind, inputs left alone, answers that a seed fixes."""

from __future__ import annotations

from specverify.audit.suites import AnyScenario
from specverify.audit.tally import Tally
from specverify.audit.terms import Terms
from specverify.results import CheckResult, Family, Verdict

__all__ = ["check_counts", "check_interface", "check_reproducible", "skipped"]


def check_interface(scenario: AnyScenario, tally: Tally, terms: Terms) -> CheckResult:
    """Whether every call came back with allowed tokens and wrote into no argument.

    Returns:
        ``interface[scenario]``: ``error`` with the offending input, else ``pass``.
    """
    error = tally.error
    seen = Verdict.PASS if tally.total("calls") else Verdict.SKIP
    return CheckResult(
        name=f"interface[{scenario.name}]",
        family=Family.CONTRACT,
        verdict=Verdict.ERROR if error is not None else seen,
        params=scenario.params() | ({} if error is None else {"error": error["type"]}),
        n=tally.total("calls"),
        message="numbers, types and ranges of tokens hold; inputs untouched"
        if error is None
        else error["message"],
        replay=terms.replay(scenario.name),
        case=None if error is None else error["case"],
    )


def check_reproducible(scenario: AnyScenario, tally: Tally, terms: Terms) -> CheckResult:
    """Whether the same seed and input give the same answer.

    Returns:
        ``reproducible[scenario]``; a failure is a finding and no breach of the law.
    """
    repeats = tally.table("repeats", (2,))
    same, different = int(repeats[0]), int(repeats[1])
    seen = Verdict.PASS if same else Verdict.SKIP
    return CheckResult(
        name=f"reproducible[{scenario.name}]",
        family=Family.CONTRACT,
        verdict=Verdict.FAIL if different else seen,
        params=scenario.params(),
        n=same + different,
        message=f"{different} of {same + different} answers changed under an equal seed"
        if different
        else "equal seeds, equal answers",
        replay=terms.replay(scenario.name),
        case=tally.cases.get("not-reproducible"),
    )


def check_counts(scenario: AnyScenario, tally: Tally, terms: Terms) -> CheckResult:
    """Whether the accepted drafts reported beside a block are those that it shows.

    The counted drafts stand at the block's beginning, and one token follows them: a correction or
    a bonus (none after a block whose drafts were all accepted, where there is no bonus).

    Returns:
        ``counts[scenario]``; a failure breaks no law, and every rate made from the counts.
    """
    fitting, broken = (int(count) for count in tally.table("reports-broken", (2,)))
    return CheckResult(
        name=f"counts[{scenario.name}]",
        family=Family.CONTRACT,
        verdict=Verdict.FAIL if broken else Verdict.PASS if fitting else Verdict.SKIP,
        params=scenario.params(),
        n=fitting + broken,
        message=f"{broken} of {fitting + broken} blocks do not show the accepted drafts reported"
        if broken
        else "blocks show the accepted drafts reported",
        replay=terms.replay(scenario.name),
    )


def skipped(scenario: AnyScenario, reason: str) -> CheckResult:
    """The one check of a scenario that the implementation cannot be run in."""
    return CheckResult(
        name=f"token[{scenario.name}]",
        family=Family.LAW,
        verdict=Verdict.SKIP,
        params=scenario.params(),
        message=f"not run: {reason}",
    )
