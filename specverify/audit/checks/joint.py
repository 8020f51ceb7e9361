"""Joint law of a completion: whole where it has few outcomes, else by neighbouring tokens."""

from __future__ import annotations

import numpy as np

from specverify.audit.cells import merge, token_cells
from specverify.audit.chains import pair_law, path_laws
from specverify.audit.checks.fit import Fit, fine_cells
from specverify.audit.counting import MAX_PATHS, pair_classes
from specverify.audit.evidence import Stratum, detectable_tv, point_mass_tv, weigh
from specverify.audit.scenarios import Scenario
from specverify.audit.tally import Tally
from specverify.audit.terms import Terms
from specverify.audit.tiers import Tier, outlook, told
from specverify.results import CheckResult, Diagnosis, Family, Interval, Verdict
from specverify.stats import context as stats
from specverify.stats.bets import capped_e_value

__all__ = ["applies", "check_joint", "tests"]

_MAX_CELLS = 64


def applies(scenario: Scenario) -> bool:
    """Whether a completion has tokens to be joint."""
    return scenario.length > 1


def tests(scenario: Scenario) -> int:
    """Tests that the check makes."""
    whole = scenario.vocab_size**scenario.length <= MAX_PATHS
    return 1 if whole else scenario.length - 1


def check_joint(
    scenario: Scenario, tally: Tally, terms: Terms, *, bet: stats.Evidence
) -> CheckResult:
    """Compare the joint law with the product of the target's rows.

    Args:
        scenario: The rows.
        tally: The counts of all looks so far.
        terms: Terms of this look.
        bet: Evidence of the bets on completions or pairs.

    Returns:
        ``joint[scenario]``.
    """
    tables = _tables(scenario, tally, terms.n)
    seen = [weigh([table], confidence=terms.confidence) for table in tables]
    worst = min(range(len(seen)), key=lambda i: seen[i].p_value) if seen else None
    evidence = weigh([]) if worst is None else seen[worst]
    fit = Fit.of(_fine_strata(scenario, tally), terms)
    doubt = min((len(seen) * e.chi_square_p for e in seen), default=1.0)
    verdict = fit.judged(terms.verdict(evidence.p_value, doubt, log_e=bet.log_e))
    failed = verdict is Verdict.FAIL
    whole = len(tables) == 1
    found = detectable_tv(evidence.n, max(evidence.dof, 1), terms.level, power=terms.power)
    what = "whole completions" if whole else f"tokens {worst} and {(worst or 0) + 1}"
    return CheckResult(
        name=f"joint[{scenario.name}]",
        family=Family.LAW,
        verdict=verdict if seen else Verdict.INCONCLUSIVE,
        params=scenario.params()
        | {"counted": what, "dof": evidence.dof, "chi_square_p": evidence.chi_square_p}
        | fit.params()
        | told(Tier.BOTH, bet, terms),
        n=evidence.n,
        statistic=evidence.chi_square,
        p_value=evidence.p_value,
        e_value=capped_e_value(bet.log_e),
        p_adjusted=terms.adjusted(evidence.p_value, bet.log_e),
        tv=terms.widened(evidence.tv) if evidence.n else _point_mass(scenario, tally, terms),
        detectable_tv=found if evidence.n else None,
        power=terms.power,
        message=(
            f"{what}: total variation about {evidence.tv.estimate or 0.0:.3g}"
            if failed
            else f"{what}: {found:.3g} would have been found"
        )
        + (fit.text or outlook(verdict, terms, evidence.n, log_e=bet.log_e))
        + f" ({Tier.BOTH})",
        diagnosis=Diagnosis(text=f"the joint law of {what} is not the target's")
        if failed
        else None,
        replay=terms.replay(scenario.name),
    )


def _point_mass(scenario: Scenario, tally: Tally, terms: Terms) -> Interval | None:
    """The distance where the target has one completion alone; None where it has more."""
    paths = tally.get("path")
    if paths is None:
        return None
    law, _ = path_laws(scenario.chain, scenario.length)
    if np.count_nonzero(law) > 1:
        return None
    n = int(paths.sum())
    wrong = n - int(paths[law.argmax()])
    return terms.widened(point_mass_tv(wrong, n, confidence=terms.confidence))


def _tables(scenario: Scenario, tally: Tally, n: int) -> list[Stratum]:
    paths, pairs = tally.get("path"), tally.get("pairs")
    if paths is not None:
        law, draft = path_laws(scenario.chain, scenario.length)
        cells = token_cells(law, draft, n, max_cells=_MAX_CELLS)
        return [Stratum(merge(paths, cells).astype(np.int64), merge(law, cells))]
    if pairs is None:
        return []
    classes = pair_classes(scenario)
    return [
        _pooled(pairs[i].reshape(-1), pair_law(scenario.chain, i, classes).reshape(-1), n)
        for i in range(scenario.length - 1)
    ]


def _fine_strata(scenario: Scenario, tally: Tally) -> list[Stratum]:
    """Whole completions; neighbouring pairs share tokens and are no independent strata."""
    paths = tally.get("path")
    return [] if paths is None else [fine_cells(paths, *path_laws(scenario.chain, scenario.length))]


def _pooled(counts: np.ndarray, law: np.ndarray, n: int) -> Stratum:
    padded = np.zeros(len(counts))
    padded[: len(law)] = law
    cells = token_cells(padded, padded, n)
    return Stratum(merge(counts, cells).astype(np.int64), merge(padded, cells))
