"""What every rendering of an audit shows, as text pieces without layout."""

from __future__ import annotations

from specverify.report.numbers import MISSING, count, decimal, interval, probability, scalar
from specverify.report.tables import Table, records_table
from specverify.results import AuditResult, CheckResult, Diagnosis, Family, Verdict

__all__ = [
    "VERDICT_ORDER",
    "acceptance_table",
    "check_table",
    "circumstances",
    "conclusion",
    "explanation",
    "legend",
    "problems",
    "reproduction",
    "target_line",
    "totals",
    "verdicts",
]

# The order in which people want to read them.
VERDICT_ORDER = (
    Verdict.ERROR,
    Verdict.FAIL,
    Verdict.XPASS,
    Verdict.INCONCLUSIVE,
    Verdict.XFAIL,
    Verdict.PASS,
    Verdict.SKIP,
)
_SNIPPET = "snippet"
_PROBLEMS = frozenset({Verdict.ERROR, Verdict.FAIL, Verdict.XPASS, Verdict.INCONCLUSIVE})


def ordered(checks: tuple[CheckResult, ...]) -> list[CheckResult]:
    """Checks with the ones to read first in front; otherwise in the order they ran."""
    law_first = sorted(checks, key=lambda check: check.family is Family.EFFICIENCY)
    return sorted(law_first, key=lambda check: VERDICT_ORDER.index(check.verdict))


def problems(result: AuditResult) -> list[CheckResult]:
    """The checks that need an explanation: those of the gravest kind that there is.

    An audit that stops at a failure leaves other checks inconclusive; that is no news. Nor is a
    slower scheme in an audit that passes: it is a finding.
    """
    found = [check for check in ordered(result.checks) if check.verdict in _PROBLEMS]
    if result.verdict is Verdict.PASS:
        found = [check for check in found if check.family is not Family.EFFICIENCY]
    grave = [check for check in found if check.verdict is not Verdict.INCONCLUSIVE]
    return grave or found


def conclusion(result: AuditResult) -> list[str]:
    """What to read first: the headline, and what a deviating speed means for the verdict."""
    lines = [result.summary.headline]
    if result.verdict is Verdict.PASS and result.summary.efficiency is Verdict.FAIL:
        lines.append(
            "the speed is not that of the standard rule: a finding, not a failure"
            " (unless the audit is told to expect standard)"
        )
    return lines


def explanation(check: CheckResult) -> list[str]:
    """What there is to say about a check beyond its numbers, one line each."""
    lines = [check.message] if check.message else []
    if check.diagnosis is not None:
        lines += _diagnosis(check.diagnosis)
    case = {key: value for key, value in (check.case or {}).items() if key != _SNIPPET}
    if case:
        lines.append(f"input: {_shortened(scalar(case))}")
    return list(dict.fromkeys(lines))  # a diagnosis may repeat the message


def reproduction(check: CheckResult) -> str:
    """Python code that shows the failure, to be pasted into a test; empty where there is none."""
    snippet = (check.case or {}).get(_SNIPPET)
    return snippet.rstrip() if isinstance(snippet, str) else ""


def _diagnosis(diagnosis: Diagnosis) -> list[str]:
    """Its sentence, and whatever the sentence does not say."""
    position = None if diagnosis.position is None else f"position {diagnosis.position}"
    facts = {
        "where": position,
        "stage": diagnosis.stage,
        "consistent with": diagnosis.consistent_with,
        "fits nearly as well": ", ".join(diagnosis.siblings) or None,
    }
    untold = [
        f"{label}: {fact}" for label, fact in facts.items() if fact and fact not in diagnosis.text
    ]
    return [diagnosis.text, *untold]


def check_table(result: AuditResult) -> Table:
    """One row a check: verdict, name, observations, p-value, distance and what would be caught.

    Passed checks of the interface have no numbers and are counted by :func:`totals` alone.
    """
    headers = ["verdict", "check", "n", "p", "TV [interval]", "detectable", "position"]
    rows = [_row(check) for check in ordered(result.checks) if _has_a_row(check)]
    shown = [i for i in range(len(headers)) if i < 2 or any(row[i] != MISSING for row in rows)]
    return Table(
        headers=[headers[i] for i in shown],
        rows=[[row[i] for i in shown] for row in rows],
        right=frozenset(
            place for place, i in enumerate(shown) if headers[i] in ("n", "p", "detectable")
        ),
    )


def legend(result: AuditResult) -> str:
    """What the columns of :func:`check_table` mean."""
    powers = {check.power for check in result.checks if check.power is not None}
    power = "/".join(f"{value:.0%}" for value in sorted(powers)) or "the stated power"
    return (
        "p: corrected for every check of the audit; TV: total variation from the expected law, and"
        f" its interval; detectable: smallest TV found with probability {power}; position: first"
        " one, from 0, where the law breaks"
    )


def acceptance_table(result: AuditResult) -> Table | None:
    """Acceptance and tokens per pass by scenario, where they were counted.

    A scenario that an audit did not come to has no pass, and no row.
    """
    records = [
        {"scenario": name, **numbers}
        for name, numbers in result.acceptance.items()
        if isinstance(numbers, dict) and numbers.get("tokens_per_pass") != 0
    ]
    keys = dict.fromkeys(key for record in records for key in record)
    filled = [{key: record.get(key) for key in keys} for record in records]
    return records_table(filled) if filled else None


def verdicts(result: AuditResult) -> list[tuple[str, str]]:
    """The verdicts side by side: the whole, the law, the efficiency, the contract."""
    summary = result.summary
    return [
        ("overall", str(result.verdict)),
        ("law", str(summary.law)),
        ("efficiency", str(summary.efficiency)),
        ("contract", str(summary.contract)),
    ]


def target_line(result: AuditResult) -> str:
    """What was audited, e.g. ``sampler.py:verify (form verify, framework torch)``."""
    target = dict(result.target)
    name = scalar(target.pop("name", "?"))
    for key in ("spec", "fingerprint"):  # for programs: the name once more, and a hash
        target.pop(key, None)
    shown = [f"{key} {scalar(value)}" for key, value in target.items() if value is not None]
    return f"{name} ({', '.join(shown)})" if shown else name


def totals(result: AuditResult) -> str:
    """``12 checks: 10 pass, 2 fail``, contract checks included."""
    numbers = [
        f"{amount} {verdict}"
        for verdict in VERDICT_ORDER
        if (amount := sum(check.verdict is verdict for check in result.checks))
    ]
    return f"{len(result.checks)} checks: {', '.join(numbers) or 'nothing ran'}"


def circumstances(result: AuditResult) -> list[str]:
    """What a reader needs to run it again or to trust it, one line each."""
    lines = [f"run {result.run_id}, {result.status}, seed {result.seed}, {result.started}"]
    named = {"error budget": result.error_budget, "timing": result.timing}
    return lines + [f"{name}: {scalar(values)}" for name, values in named.items() if values]


def _has_a_row(check: CheckResult) -> bool:
    return check.family is not Family.CONTRACT or check.verdict is not Verdict.PASS


def _row(check: CheckResult) -> list[str]:
    p_value = check.p_value if check.p_adjusted is None else check.p_adjusted
    diagnosis = check.diagnosis
    position = None if diagnosis is None else diagnosis.position
    return [
        str(check.verdict),
        check.name,
        count(check.n),
        probability(p_value),
        interval(check.tv),
        decimal(check.detectable_tv),
        MISSING if position is None else str(position),
    ]


def _shortened(text: str, limit: int = 300) -> str:
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
