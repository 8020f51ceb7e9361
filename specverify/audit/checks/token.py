"""Law of each token given the one before, at every position of a completion."""

from __future__ import annotations

import numpy as np

from specverify.audit.cells import merge, token_cells
from specverify.audit.chains import marginals
from specverify.audit.checks.fit import Fit, fine_cells
from specverify.audit.evidence import Evidence, Stratum, detectable_tv, point_mass_tv, weigh
from specverify.audit.scenarios import Scenario
from specverify.audit.tally import Tally
from specverify.audit.terms import Terms
from specverify.audit.tiers import Tier, outlook, told
from specverify.results import CheckResult, Diagnosis, Family, Interval, Verdict
from specverify.stats import context as stats
from specverify.stats.bets import capped_e_value

__all__ = ["check_tokens", "position_strata", "tests"]


def tests(scenario: Scenario) -> int:
    """Tests that the check makes: all positions together, and each alone."""
    return 1 if scenario.length == 1 else 2


def position_strata(scenario: Scenario, tally: Tally, n: int) -> list[list[Stratum]]:
    """Strata of each position: one for each context that is expected often enough.

    Args:
        scenario: The rows.
        tally: The counts.
        n: Completions planned, which fix the cells.

    Returns:
        For each position its strata.
    """
    counts = tally.get("token")
    if counts is None:
        return [[] for _ in range(scenario.length)]
    expected = n * marginals(scenario.chain, scenario.length)
    return [
        [
            stratum
            for context in range(scenario.chain.contexts)
            if (stratum := _stratum(scenario, counts, position, context, expected)) is not None
        ]
        for position in range(scenario.length)
    ]


def _stratum(
    scenario: Scenario,
    counts: np.ndarray,
    position: int,
    context: int,
    expected: np.ndarray,
) -> Stratum | None:
    target = scenario.chain.target[position, context]
    draft = scenario.chain.draft[position, context]
    cells = token_cells(target, draft, expected[position, context])
    if cells.max() == 0:
        return None
    return Stratum(merge(counts[position, context], cells).astype(np.int64), merge(target, cells))


def check_tokens(
    scenario: Scenario, tally: Tally, terms: Terms, *, bet: stats.Evidence
) -> CheckResult:
    """Compare every token's law with the target's row.

    A correct implementation completes blocks so that token ``i`` given the tokens before it has
    exactly the target's law, whatever its scheme; the contexts of the chain are strata.

    Args:
        scenario: The rows.
        tally: The counts of all looks so far.
        terms: Terms of this look.
        bet: Evidence of the bets on tokens.

    Returns:
        ``token[scenario]``.
    """
    by_position = position_strata(scenario, tally, terms.n)
    together = weigh([s for strata in by_position for s in strata], confidence=terms.confidence)
    alone = [weigh(strata) for strata in by_position]
    p_value = _combined(together, alone)
    impossible = tally.total("impossible")
    if impossible and not terms.tolerance:
        p_value = 0.0
    tv = terms.widened(together.tv if together.dof else _point_mass(scenario, tally, terms))
    doubt = min(together.chi_square_p, *(len(alone) * e.chi_square_p for e in alone))
    fit = Fit.of(_fine_strata(scenario, tally), terms)
    verdict = fit.judged(terms.verdict(p_value, doubt, tv, log_e=bet.log_e))
    done = tally.total("token") // scenario.length
    found = detectable_tv(together.n, max(together.dof, 1), terms.level, power=terms.power)
    return CheckResult(
        name=f"token[{scenario.name}]",
        family=Family.LAW,
        verdict=verdict,
        params=scenario.params()
        | {
            "dof": together.dof,
            "chi_square_p": together.chi_square_p,
            "p_by_position": [evidence.p_value for evidence in alone],
            "impossible_tokens": impossible,
            "allowed_tv": terms.tv,
        }
        | fit.params()
        | told(Tier.BOTH, bet, terms),
        n=tally.total("token"),
        statistic=together.chi_square,
        p_value=p_value,
        e_value=capped_e_value(bet.log_e),
        p_adjusted=terms.adjusted(p_value, bet.log_e),
        tv=tv,
        detectable_tv=found if together.n else None,
        power=terms.power,
        message=_message(verdict, tv, found, impossible)
        + (fit.text or outlook(verdict, terms, done, log_e=bet.log_e, tv=tv))
        + f" ({Tier.BOTH})",
        diagnosis=_where(scenario, tally, alone) if verdict is Verdict.FAIL else None,
        replay=terms.replay(scenario.name),
        case=tally.cases.get("impossible"),
    )


def _fine_strata(scenario: Scenario, tally: Tally) -> list[Stratum]:
    counts, chain = tally.get("token"), scenario.chain
    if counts is None:
        return []
    return [
        fine_cells(counts[i, j], chain.target[i, j], chain.draft[i, j])
        for i, j in np.argwhere(counts.any(axis=2))
    ]


def _combined(together: Evidence, alone: list[Evidence]) -> float:
    if len(alone) == 1:
        return together.p_value
    return min(1.0, 2 * min(together.p_value, len(alone) * min(e.p_value for e in alone)))


def _point_mass(scenario: Scenario, tally: Tally, terms: Terms) -> Interval:
    """Every row has one token."""
    wrong, n = tally.total("impossible"), tally.total("token")
    return point_mass_tv(wrong, max(1, n), confidence=terms.confidence)


def _message(verdict: Verdict, tv: Interval, found: float, impossible: int) -> str:
    if impossible:
        return f"{impossible} tokens that the target never emits"
    if verdict is Verdict.FAIL:
        return f"total variation about {tv.estimate:.3g} from the target's law"
    bound = "unknown" if tv.high is None else f"at most {tv.high:.3g}"
    return f"total variation {bound}; {found:.3g} would have been found"


def _where(scenario: Scenario, tally: Tally, alone: list[Evidence]) -> Diagnosis:
    impossible = tally.get("impossible")
    broken = [i for i, evidence in enumerate(alone) if evidence.chi_square_p * len(alone) <= 1e-4]
    if impossible is not None and impossible.any():
        broken.append(int(np.flatnonzero(impossible)[0]))
    position = min(broken) if broken else None
    where = "over all positions together" if position is None else f"at position {position}"
    return Diagnosis(text=f"the law breaks {where}", position=position)
