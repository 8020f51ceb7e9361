"""Emitted lengths and accepted drafts of a block against the standard rule's exact laws."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from specverify.audit.evidence import Evidence, Stratum, detectable_tv, weigh
from specverify.audit.scenarios import Scenario
from specverify.audit.schemes import (
    BLOCK_SCHEMES,
    STANDARD,
    Scheme,
    block_strata,
    length_strata,
    mean_length,
)
from specverify.audit.tally import Tally
from specverify.audit.terms import Terms
from specverify.results import CheckResult, Family, Finding, Verdict

__all__ = [
    "block_outcomes",
    "check_acceptance",
    "check_length",
    "fitting_scheme",
    "reports_finding",
    "tests",
    "unpredicted",
]


_EXPECTED = {True: "one_minus_tv", False: "expected_acceptance"}

_SLACK = 1e-7
"""Probability left to what is certain: a rounded ratio may reject where the exact one is 1."""


def tests(scenario: Scenario) -> int:
    """Tests that length and acceptance make, and the other schemes where they do not fit."""
    return 2 + len(BLOCK_SCHEMES)


def check_length(
    scenario: Scenario, tally: Tally, terms: Terms, *, scheme: Scheme = STANDARD
) -> CheckResult:
    """Emitted lengths of first blocks against their exact law, and tokens/pass against its mean.

    Args:
        scenario: The rows.
        tally: The counts.
        terms: Terms of this look.
        scheme: What is expected.

    Returns:
        ``length[scenario]``; fails where that scheme is not followed.
    """
    outcomes = block_outcomes(tally, scenario)
    evidence = weigh(length_strata(scheme, scenario, outcomes), confidence=terms.confidence)
    measured, error = _mean(outcomes.sum(axis=(0, 1)))
    expected = mean_length(scheme, scenario, outcomes)
    return _result(
        "length",
        scenario,
        evidence,
        terms,
        params={
            "tokens_per_pass": measured,
            "standard_error": error,
            "expected_tokens_per_pass": expected,
        },
        message=f"tokens/pass {measured:.4f} +- {error:.4f}, {_rule(scheme)} {expected:.4f}",
    )


def check_acceptance(
    scenario: Scenario, tally: Tally, terms: Terms, *, scheme: Scheme = STANDARD
) -> CheckResult:
    """Accepted over tested drafts at each position against ``1 - TV`` of the rows there.

    A position counts as tested when every draft before it was accepted. Under another scheme than
    the standard rule the share follows from that scheme.

    Args:
        scenario: The rows.
        tally: The counts.
        terms: Terms of this look.
        scheme: What is expected.

    Returns:
        ``acceptance[scenario]``; fails where that scheme is not followed.
    """
    accepted = block_outcomes(tally, scenario).sum(axis=2)
    tested = accepted[:, ::-1].cumsum(axis=1)[:, ::-1]
    strata, expected = [], np.zeros(scenario.gamma)
    for context in np.flatnonzero(tested[:, 0]):
        for position, rate in enumerate(_rates(scheme, scenario, int(context))):
            hits, trials = tested[context, position + 1], tested[context, position]
            chance = min(max(rate, _SLACK), 1 - _SLACK)
            strata.append(Stratum(np.array([hits, trials - hits]), np.array([chance, 1 - chance])))
            expected[position] += rate * trials
    evidence = weigh(strata, confidence=terms.confidence)
    trials = tested.sum(axis=0)
    measured = [_ratio(trials[i + 1], trials[i]) for i in range(scenario.gamma)]
    rates = [_ratio(expected[i], trials[i]) for i in range(scenario.gamma)]
    message = "no draft was tested"
    if measured[0] is not None:
        expectation = "1 - TV" if scheme is STANDARD else _rule(scheme)
        message = f"first draft accepted {measured[0]:.4f}, {expectation} {rates[0]:.4f}"
    return _result(
        "acceptance",
        scenario,
        evidence,
        terms,
        params={"accepted_over_tested": measured, _EXPECTED[scheme is STANDARD]: rates},
        message=message,
    )


def unpredicted(scenario: Scenario, scheme: Scheme) -> CheckResult:
    """The one check where a scheme's predictions are too long to compute."""
    return CheckResult(
        name=f"length[{scenario.name}]",
        family=Family.EFFICIENCY,
        verdict=Verdict.SKIP,
        params=scenario.params(),
        message=f"too many drafted blocks to say how long {_rule(scheme)} makes them",
    )


def fitting_scheme(
    scenarios: Sequence[Scenario], tallies: Mapping[str, Tally], terms: Terms
) -> Scheme | None:
    """The scheme that fits best: the standard one unless refuted; None where every one is."""
    fits = [
        min(
            (
                weigh(block_strata(scheme, s, block_outcomes(tallies[s.name], s))).p_value
                for s in scenarios
                if s.name in tallies and scheme.applies(s)
            ),
            default=0.0,
        )
        for scheme in BLOCK_SCHEMES
    ]
    if terms.adjusted(fits[0]) > terms.false_alarm:
        return STANDARD
    best = int(np.argmax(fits))
    return BLOCK_SCHEMES[best] if terms.adjusted(fits[best]) > terms.false_alarm else None


def reports_finding(tallies: Mapping[str, Tally]) -> Finding | None:
    """What the reported ``n_accepted`` counts, where it is not the accepted drafts."""
    counts = sum(
        (t.arrays["reports"] for t in tallies.values() if "reports" in t.arrays),
        start=np.zeros(3, dtype=np.int64),
    )
    right, emitted, other = (int(count) for count in counts)
    data = {"accepted_drafts": right, "emitted_tokens": emitted, "neither": other}
    if emitted and not other:
        return Finding(
            code="accepted-counts-corrections",
            text="n_accepted counts corrections too (it equals the emitted length), so "
            "accepted / drafted overstates the acceptance rate",
            data=data,
        )
    if other or emitted:
        return Finding(
            code="accepted-count-differs",
            text="n_accepted is not the number of leading emitted tokens that are drafts",
            data=data,
        )
    return None


def block_outcomes(tally: Tally, scenario: Scenario) -> NDArray[np.int64]:
    """Blocks by context, accepted drafts and emitted tokens.

    Where bonus tokens occur, a block's last token is no accepted draft, whatever its id: a wrong
    residual may draw the rejected draft again, and that must not count as acceptance.

    Returns:
        Counts, shape ``(contexts, gamma + 1, gamma + 2)``.
    """
    gamma = scenario.gamma
    seen = tally.table("blocks", (scenario.chain.contexts, gamma + 1, gamma + 2))
    if not seen[..., gamma + 1].any():
        return seen
    outcomes = seen.copy()
    for length in range(1, gamma + 1):
        outcomes[:, length - 1, length] += outcomes[:, length:, length].sum(axis=1)
        outcomes[:, length:, length] = 0
    return outcomes


def _rule(scheme: Scheme) -> str:
    return "standard rule" if scheme is STANDARD else scheme.code.replace("-", " ")


def _rates(scheme: Scheme, scenario: Scenario, context: int) -> list[float]:
    """Acceptance probability at each position of a block, once it is reached."""
    pmf = scheme.outcome_law(scenario, context).sum(axis=1)
    survival = pmf[::-1].cumsum()[::-1]
    return [
        float(survival[i + 1] / survival[i]) if survival[i] > 1e-12 else 0.0
        for i in range(scenario.gamma)
    ]


def _ratio(part: float, whole: float) -> float | None:
    return float(part / whole) if whole else None


def _mean(lengths: NDArray[np.int64]) -> tuple[float, float]:
    n, values = max(1, int(lengths.sum())), np.arange(len(lengths))
    mean = float(lengths @ values) / n
    variance = float(lengths @ (values - mean) ** 2) / n
    return mean, math.sqrt(variance / n)


def _result(
    check: str,
    scenario: Scenario,
    evidence: Evidence,
    terms: Terms,
    *,
    params: dict[str, object],
    message: str,
) -> CheckResult:
    adjusted = terms.adjusted(evidence.p_value)
    failed = adjusted <= terms.false_alarm
    found = detectable_tv(evidence.n, max(evidence.dof, 1), terms.level, power=terms.power)
    seen = Verdict.PASS if evidence.n else Verdict.SKIP
    return CheckResult(
        name=f"{check}[{scenario.name}]",
        family=Family.EFFICIENCY,
        verdict=Verdict.FAIL if failed else seen,
        params=scenario.params() | params | {"dof": evidence.dof},
        n=evidence.n,
        statistic=evidence.chi_square,
        p_value=evidence.p_value,
        p_adjusted=adjusted,
        tv=evidence.tv,
        detectable_tv=found if evidence.n else None,
        power=terms.power,
        message=message,
        replay=terms.replay(scenario.name),
    )
