"""Emitted lengths and accepted drafts of a block against the standard rule's exact laws."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from specverify.audit.chains import accepted_pmf
from specverify.audit.evidence import Evidence, Stratum, detectable_tv, weigh
from specverify.audit.scenarios import Scenario
from specverify.audit.schemes import (
    SCHEMES,
    STANDARD,
    Scheme,
    block_stratum,
    length_stratum,
    mean_length,
)
from specverify.audit.tally import Tally
from specverify.audit.terms import Terms
from specverify.results import CheckResult, Family, Finding, Verdict

__all__ = ["check_acceptance", "check_length", "fitting_scheme", "reports_finding", "tests"]


def tests(scenario: Scenario) -> int:
    """Tests that length and acceptance make, and the other schemes where they do not fit."""
    return 2 + len(SCHEMES)


def check_length(scenario: Scenario, tally: Tally, terms: Terms) -> CheckResult:
    """Emitted lengths of first blocks against their exact law, and tokens/pass against its mean.

    Args:
        scenario: The rows.
        tally: The counts.
        terms: Terms of this look.

    Returns:
        ``length[scenario]``; fails where the standard rule is not followed.
    """
    outcomes = _outcomes(tally, scenario)
    lengths = length_stratum(STANDARD, scenario, outcomes.sum(axis=0))
    evidence = weigh([lengths], confidence=terms.confidence)
    measured, error = _mean(outcomes.sum(axis=0))
    expected = mean_length(STANDARD, scenario)
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
        message=f"tokens/pass {measured:.4f} +- {error:.4f}, standard rule {expected:.4f}",
    )


def check_acceptance(scenario: Scenario, tally: Tally, terms: Terms) -> CheckResult:
    """Accepted over tested drafts at each position against ``1 - TV`` of the rows there.

    A position counts as tested when every draft before it was accepted.

    Args:
        scenario: The rows.
        tally: The counts.
        terms: Terms of this look.

    Returns:
        ``acceptance[scenario]``; fails where the standard rule is not followed.
    """
    accepted = _outcomes(tally, scenario).sum(axis=1)
    tested = accepted[::-1].cumsum()[::-1]
    survival = np.maximum(accepted_pmf(scenario.chain, scenario.gamma)[::-1].cumsum()[::-1], 0)
    strata, measured, expected = [], [], []
    for position in range(scenario.gamma):
        reached = survival[position] > 1e-12
        rate = float(survival[position + 1] / survival[position]) if reached else 0.0
        hits, trials = int(tested[position + 1]), int(tested[position])
        slack = min(max(rate, 1e-7), 1 - 1e-7)
        strata.append(Stratum(np.array([hits, trials - hits]), np.array([slack, 1 - slack])))
        measured.append(hits / trials if trials else None)
        expected.append(rate)
    evidence = weigh(strata, confidence=terms.confidence)
    first = "none tested" if measured[0] is None else f"{measured[0]:.4f}"
    return _result(
        "acceptance",
        scenario,
        evidence,
        terms,
        params={"accepted_over_tested": measured, "one_minus_tv": expected},
        message=f"first draft accepted {first}, 1 - TV {expected[0]:.4f}",
    )


def fitting_scheme(
    scenarios: Sequence[Scenario], tallies: Mapping[str, Tally], terms: Terms
) -> Scheme | None:
    """First scheme that no scenario speaks against; None where every one is refuted."""
    for scheme in SCHEMES:
        worst = min(
            (
                weigh([block_stratum(scheme, s, _outcomes(tallies[s.name], s))]).p_value
                for s in scenarios
                if s.name in tallies
            ),
            default=1.0,
        )
        if terms.adjusted(worst) > terms.false_alarm:
            return scheme
    return None


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


def _outcomes(tally: Tally, scenario: Scenario) -> NDArray[np.int64]:
    """First blocks by accepted drafts and emitted tokens, shape ``(gamma + 1, gamma + 2)``.

    Where bonus tokens occur, a block's last token is no accepted draft, whatever its id: a wrong
    residual may draw the rejected draft again, and that must not count as acceptance.
    """
    gamma = scenario.gamma
    seen = tally.table("blocks", (gamma + 1, gamma + 2))
    if not seen[:, gamma + 1].any():
        return seen
    outcomes = np.zeros_like(seen)
    for length in range(1, gamma + 2):
        column = seen[:, length].copy()
        column[length - 1] += column[length:].sum()
        column[length:] = 0
        outcomes[:, length] = column
    return outcomes


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
    seen = Verdict.PASS if evidence.n else Verdict.INCONCLUSIVE
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
