"""What every rendering of an audit shows, as text pieces without layout."""

from __future__ import annotations

from specverify.report.numbers import MISSING, count, decimal, interval, probability, scalar
from specverify.report.tables import Table
from specverify.results import AuditResult, CheckResult, Verdict

__all__ = [
    "PROBLEMS",
    "check_table",
    "explanation",
    "problems",
    "target_line",
    "totals",
    "verdicts",
]

# The order in which people want to read them.
_ORDER = (
    Verdict.ERROR,
    Verdict.FAIL,
    Verdict.XPASS,
    Verdict.INCONCLUSIVE,
    Verdict.XFAIL,
    Verdict.PASS,
    Verdict.SKIP,
)
PROBLEMS = frozenset({Verdict.ERROR, Verdict.FAIL, Verdict.XPASS, Verdict.INCONCLUSIVE})


def ordered(checks: tuple[CheckResult, ...]) -> list[CheckResult]:
    """Checks with the ones to read first in front; otherwise in the order they ran."""
    return sorted(checks, key=lambda check: _ORDER.index(check.verdict))


def problems(result: AuditResult) -> list[CheckResult]:
    """The checks that need an explanation."""
    return [check for check in ordered(result.checks) if check.verdict in PROBLEMS]


def explanation(check: CheckResult) -> list[str]:
    """What there is to say about a check beyond its numbers, one line each."""
    lines = [check.message] if check.message else []
    diagnosis = check.diagnosis
    if diagnosis is not None:
        lines.append(diagnosis.text)
        lines += [
            f"{label}: {value}"
            for label, value in (
                ("position", None if diagnosis.position is None else str(diagnosis.position)),
                ("stage", diagnosis.stage),
                ("consistent with", diagnosis.consistent_with),
                ("fits nearly as well", ", ".join(diagnosis.siblings) or None),
            )
            if value is not None
        ]
    if check.case:
        lines.append(f"input: {_shortened(scalar(check.case))}")
    return lines


def check_table(result: AuditResult) -> Table:
    """One row a check: verdict, name, observations, p-value, distance and what would be caught."""
    headers = ["verdict", "check", "n", "p adjusted", "TV [interval]", "detectable TV", "position"]
    rows = [_row(check) for check in ordered(result.checks)]
    shown = [i for i in range(len(headers)) if i < 2 or any(row[i] != MISSING for row in rows)]
    return Table(
        headers=[headers[i] for i in shown],
        rows=[[row[i] for i in shown] for row in rows],
        right=frozenset(
            place for place, i in enumerate(shown) if headers[i] in ("n", "p adjusted")
        ),
    )


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
    shown = [f"{key} {scalar(value)}" for key, value in target.items() if value is not None]
    return f"{name} ({', '.join(shown)})" if shown else name


def totals(result: AuditResult) -> str:
    """``12 checks: 10 pass, 2 fail; seed 0; ...``."""
    numbers = [
        f"{amount} {verdict}"
        for verdict in _ORDER
        if (amount := sum(check.verdict is verdict for check in result.checks))
    ]
    parts = [f"{len(result.checks)} checks: {', '.join(numbers) or 'nothing ran'}"]
    parts.append(f"seed {result.seed}")
    if result.error_budget:
        parts.append(f"error budget: {scalar(result.error_budget)}")
    if result.timing:
        parts.append(f"timing: {scalar(result.timing)}")
    return "; ".join(parts)


def _row(check: CheckResult) -> list[str]:
    p_value = check.p_value if check.p_adjusted is None else check.p_adjusted
    detectable = decimal(check.detectable_tv)
    if check.detectable_tv is not None and check.power is not None:
        detectable += f" at {check.power:.0%}"
    diagnosis = check.diagnosis
    position = None if diagnosis is None else diagnosis.position
    return [
        str(check.verdict),
        check.name,
        count(check.n),
        probability(p_value),
        interval(check.tv),
        detectable,
        MISSING if position is None else str(position),
    ]


def _shortened(text: str, limit: int = 300) -> str:
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
