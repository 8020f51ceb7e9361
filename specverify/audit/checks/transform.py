"""Checks of an engine: probability-integral transforms of its tokens, and its passes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from specverify.audit.checks.fit import Fit
from specverify.audit.drafts import draft_numbers
from specverify.audit.engines import MICRO, ORDERS, EngineScenario
from specverify.audit.evidence import (
    Evidence,
    Stratum,
    detectable_tv,
    tolerant_detectable_tv,
    tolerant_p_value,
    weigh,
)
from specverify.audit.explanations import EXPLANATIONS
from specverify.audit.sent_settings import likely_setting
from specverify.audit.tally import Tally
from specverify.audit.terms import Terms
from specverify.audit.tiers import Tier, outlook, told
from specverify.results import CheckResult, Diagnosis, Family, Finding, Interval, Verdict
from specverify.stats import context as bets
from specverify.stats.bets import capped_e_value
from specverify.stats.naming import name_alternative
from specverify.stats.tails import normal_isf, normal_sf
from specverify.theory.expected_tokens import expected_accepted_tokens

__all__ = [
    "EFFICIENCY_TESTS",
    "LAW_TESTS",
    "check_pairs",
    "check_passes",
    "check_transform",
    "engine_scheme_finding",
]

LAW_TESTS = 3 * len(ORDERS)
"""All positions pooled, each position's own histogram, and neighbours: in every order."""

EFFICIENCY_TESTS = len(EXPLANATIONS)

_FITS = 0.01
"""Level under which an explanation of the passes is not named."""
_CONFIDENCE = 0.95
_ROUNDING = 0.5
"""Passes that are granted whatever the arithmetic."""


def check_transform(
    scenario: EngineScenario, tally: Tally, terms: Terms, *, bet: bets.Evidence
) -> CheckResult:
    """Whether every token follows its conditional law: its transform is uniform in every order.

    Args:
        scenario: The setting.
        tally: The counts.
        terms: Terms of this look.
        bet: Evidence of the bets on transforms.

    Returns:
        ``token[scenario]``; the total variation is that of the transform's cells, pooled over
        positions and contexts.
    """
    counts = _counted(tally, "transform", (scenario.length, len(ORDERS), 1))
    pooled = [weigh([_uniform(c)], confidence=terms.confidence) for c in counts.sum(axis=0)]
    apart = [weigh([_uniform(c) for c in counts[:, i]]) for i in range(len(ORDERS))]
    worst = min((*pooled, *apart), key=lambda evidence: evidence.p_value)
    p_value = worst.p_value
    impossible = tally.total("impossible")
    tolerant = terms.tolerance > 0
    if impossible and not tolerant:
        p_value = 0.0
    n, done = int(counts[:, 1].sum()), int(counts[0, 1].sum())
    widest = max(pooled, key=lambda evidence: evidence.tv.high or 0.0)
    tv = terms.widened(widest.tv)
    doubt = min(len(ORDERS) * evidence.chi_square_p for evidence in (*pooled, *apart))
    fit = Fit.of([_uniform(c) for c in counts[:, 0]], terms)
    found = detectable_tv(n, max(widest.dof, 1), terms.level, power=terms.power)
    if tolerant:
        p_value, found = _tolerant([_uniform(c) for c in counts.sum(axis=0)], terms)
    verdict = fit.judged(terms.verdict(p_value, doubt, tv, log_e=bet.log_e, tolerant=tolerant))
    tier = Tier.BOTH if counts[:, -1].any() else Tier.TARGET
    return CheckResult(
        name=f"token[{scenario.name}]",
        family=Family.LAW,
        verdict=verdict,
        params=scenario.params()
        | _seen(worst, impossible, terms)
        | fit.params()
        | told(tier, bet, terms),
        n=n,
        statistic=worst.chi_square,
        p_value=p_value,
        e_value=capped_e_value(bet.log_e),
        p_adjusted=terms.adjusted(p_value, bet.log_e, tolerant=tolerant),
        tv=tv,
        detectable_tv=found if n else None,
        power=terms.power,
        message=_message(verdict, tv, found, impossible)
        + (fit.text or outlook(verdict, terms, done, log_e=bet.log_e, tv=tv))
        + f" ({tier})",
        diagnosis=_where(counts, bet, likely_setting(tally, scenario.sampling))
        if verdict is Verdict.FAIL
        else None,
        replay=terms.replay(scenario.name),
        case=tally.cases.get("impossible"),
    )


def _seen(worst: Evidence, impossible: int, terms: Terms) -> dict[str, Any]:
    """What the check of tokens tells of the order that looks worst."""
    return {
        "dof": worst.dof,
        "chi_square_p": worst.chi_square_p,
        "orders": list(ORDERS),
        "impossible_tokens": impossible,
        "allowed_tv": terms.tv,
    }


def check_pairs(
    scenario: EngineScenario, tally: Tally, terms: Terms, *, bet: bets.Evidence
) -> CheckResult:
    """Whether neighbouring tokens' transforms are independent.

    Returns:
        ``joint[scenario]``.
    """
    tables = _counted(tally, "transform-pairs", (len(ORDERS), 1, 1))
    # The later token given the earlier one's cell: a token that ends a text has no successor.
    seen = [weigh([_uniform(row) for row in t], confidence=terms.confidence) for t in tables]
    worst = min(seen, key=lambda evidence: evidence.p_value)
    doubt = min(len(seen) * evidence.chi_square_p for evidence in seen)
    p_value, tolerant = worst.p_value, terms.tolerance > 0
    found = detectable_tv(worst.n, max(worst.dof, 1), terms.level, power=terms.power)
    if tolerant:
        # Both tokens of a pair may be off; and each token but the ends takes part in two pairs.
        p_value, found = _tolerant([_given_earlier(t) for t in tables], terms, sharing=2)
    judged = terms.verdict(p_value, doubt, log_e=bet.log_e, tolerant=tolerant)
    failed = judged is Verdict.FAIL
    tier = Tier.BOTH if tables[-1].any() else Tier.TARGET
    done = worst.n // max(1, scenario.length - 1)
    text = "neighbouring tokens are not drawn independently given their laws"
    return CheckResult(
        name=f"joint[{scenario.name}]",
        family=Family.LAW,
        verdict=judged if worst.n else Verdict.SKIP,
        params=scenario.params()
        | {"dof": worst.dof, "chi_square_p": worst.chi_square_p}
        | told(tier, bet, terms),
        n=worst.n,
        statistic=worst.chi_square,
        p_value=p_value,
        e_value=capped_e_value(bet.log_e),
        p_adjusted=terms.adjusted(p_value, bet.log_e, tolerant=tolerant),
        tv=terms.widened(worst.tv),
        detectable_tv=found if worst.n else None,
        power=terms.power,
        message=(text if failed else f"pairs: {found:.3g} would have been found")
        + outlook(judged, terms, done, log_e=bet.log_e)
        + f" ({tier})",
        diagnosis=Diagnosis(text=text) if failed else None,
        replay=terms.replay(scenario.name),
        version=2,  # 1 asked for pairs of uniform cells, which texts that end do not have
    )


def _tolerant(strata: list[Stratum], terms: Terms, *, sharing: int = 1) -> tuple[float, float]:
    """p-value of known cells up to the tolerance, and the distance that it would find."""
    forgiven = sharing * terms.tolerance
    p_value = min(tolerant_p_value(s, forgiven, sharing=sharing) for s in strata)
    n, cells = strata[0].n, len(strata[0].probs)
    found = tolerant_detectable_tv(
        n, cells, terms.level, tolerance=forgiven, sharing=sharing, power=terms.power
    )
    return p_value, found


def check_passes(scenario: EngineScenario, tally: Tally, terms: Terms) -> CheckResult:
    """Target passes against what the standard rule expects of these very texts.

    Returns:
        ``length[scenario]``; skipped where passes or the draft's law are unknown.
    """
    totals, expected = tally.get("passes"), tally.get("passes-expected")
    if totals is None or expected is None or not totals[0]:
        return _drafts_alone(scenario, draft_numbers(tally))
    passes, tokens, overlap = (int(total) for total in totals[:3])
    mean, variance = (float(moment) / MICRO for moment in expected[0])
    p_value = pass_p_value(passes, mean, variance, slack=_slack(terms, tokens))
    # The slack grants whatever the tolerance may change: the p-value holds within it.
    adjusted = terms.adjusted(p_value, tolerant=True)
    failed = adjusted <= terms.false_alarm
    spread = normal_isf((1 - _CONFIDENCE) / 2) * math.sqrt(variance)
    alpha, gamma = overlap / MICRO / tokens, int(np.flatnonzero(tally.arrays["gamma"])[0])
    low, high = tokens / (mean + spread), tokens / max(mean - spread, 1e-9)
    numbers = {
        "tokens_per_pass": tokens / passes,
        "expected_tokens_per_pass": tokens / mean,
        "expected_low": low,
        "expected_high": high,
        "alpha": alpha,
        "gamma": gamma,
        "iid_tokens_per_pass": float(expected_accepted_tokens(alpha, gamma)),
        "passes": passes,
        **draft_numbers(tally),
    }
    return CheckResult(
        name=f"length[{scenario.name}]",
        family=Family.EFFICIENCY,
        verdict=Verdict.FAIL if failed else Verdict.PASS,
        params=scenario.params() | numbers,
        n=passes,
        statistic=(passes - mean) / math.sqrt(variance) if variance else None,
        p_value=p_value,
        p_adjusted=adjusted,
        message=f"tokens/pass {tokens / passes:.4f}, expected of these texts {tokens / mean:.4f} "
        f"({low:.4f} to {high:.4f}); alpha {alpha:.4f}, i.i.d. formula "
        f"{numbers['iid_tokens_per_pass']:.4f}",
        replay=terms.replay(scenario.name),
    )


def _drafts_alone(scenario: EngineScenario, numbers: dict[str, Any]) -> CheckResult:
    """The check where nobody knows how many passes to expect: it fails if nothing was drafted."""
    verdict, message = Verdict.SKIP, "passes or the draft's law are unknown"
    if numbers:
        verdict = Verdict.PASS if numbers["drafted"] else Verdict.FAIL
        message = (
            f"{numbers['drafted']} drafted, {numbers['accepted']} accepted; "
            "how many to expect is unknown"
        )
    return CheckResult(
        name=f"length[{scenario.name}]",
        family=Family.EFFICIENCY,
        verdict=verdict,
        params=scenario.params() | numbers,
        n=numbers.get("drafted", 0),
        message=message,
    )


def pass_p_value(passes: int, mean: float, variance: float, *, slack: float = _ROUNDING) -> float:
    """Two-sided normal p-value of a number of passes, so many of them granted."""
    excess = max(0.0, abs(passes - mean) - slack)
    return 2 * normal_sf(excess / math.sqrt(max(variance, 1e-12)))


def engine_scheme_finding(tallies: Iterable[Tally], terms: Terms) -> Finding | None:
    """What explains the passes of every setting, where the standard rule does not.

    An explanation is named only if it fits: the best one, at an ordinary level. That another is
    not refuted at the audit's own tiny level is no reason to name it.
    """
    seen = [t for t in tallies if t.total("passes")]
    fits = [_fit(seen, which, terms) for which in range(len(EXPLANATIONS))]
    if terms.adjusted(fits[0], tolerant=True) > terms.false_alarm:
        return None
    best = int(np.argmax(fits))
    if fits[best] > _FITS / len(EXPLANATIONS):
        explanation = EXPLANATIONS[best]
        return Finding(code=explanation.code, text=explanation.text, data={"p_value": fits[best]})
    text = "passes follow neither the standard rule nor a known deviation from it"
    return Finding(code="unknown-scheme", text=text)


def _slack(terms: Terms, tokens: int) -> float:
    # Greedy drafts leave passes no spread at all, and rounding takes the other of two near ties.
    return _ROUNDING + terms.tolerance * tokens


def _fit(tallies: list[Tally], which: int, terms: Terms) -> float:
    """Smallest p-value of one explanation, corrected for the number of settings."""
    values = []
    for tally in tallies:
        passes, tokens = (int(total) for total in tally.arrays["passes"][:2])
        moments = tally.arrays["passes-expected"][which] / MICRO
        values.append(pass_p_value(passes, *moments, slack=_slack(terms, tokens)))
    return min([1.0, *(value * len(values) for value in values)])


def _counted(tally: Tally, name: str, shape: tuple[int, ...]) -> np.ndarray:
    # A table made here, of another shape, would be in the way of the shards to come.
    counts = tally.get(name)
    return np.zeros(shape, dtype=np.int64) if counts is None else counts


def _uniform(counts: np.ndarray) -> Stratum:
    return Stratum(counts, np.full(len(counts), 1 / len(counts)))


def _given_earlier(table: np.ndarray) -> Stratum:
    """Pairs as one table whose later cells are uniform, whatever the earlier ones' counts."""
    rows, size = table.sum(axis=1), table.shape[1]
    if not table.any():
        return _uniform(table.reshape(-1))
    return Stratum(table.reshape(-1), np.repeat(rows / rows.sum() / size, size))


def _message(verdict: Verdict, tv: Interval, found: float, impossible: int) -> str:
    if impossible:
        return f"{impossible} tokens that the target never emits"
    if verdict is Verdict.FAIL:
        return f"total variation about {tv.estimate:.3g} over the transform's cells"
    bound = "unknown" if tv.high is None else f"at most {tv.high:.3g}"
    return f"total variation {bound} over cells; {found:.3g} would have been found"


def _where(counts: np.ndarray, bet: bets.Evidence, setting: str | None) -> Diagnosis:
    seen: list[Evidence] = [weigh([_uniform(c) for c in orders]) for orders in counts]
    broken = [i for i, evidence in enumerate(seen) if evidence.p_value * len(seen) <= 1e-4]
    position = broken[0] if broken else None
    where = "over all positions together" if position is None else f"at position {position}"
    naming = name_alternative(bet.shares)
    known = [naming.consistent_with, *naming.siblings] if naming.consistent_with else []
    like = f"; consistent with {' or '.join(map(str, known[:3]))}" if known else ""
    if setting is not None:
        like += f"; the tokens look drawn under {setting}"
    return Diagnosis(
        text=f"the law breaks {where} of the completion{like}",
        consistent_with=naming.consistent_with,
        stage=None if setting is None else "parameters",
        position=position,
        siblings=naming.siblings if known else (),
    )
