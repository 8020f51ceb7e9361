"""Counters: what an honest report holds, and what each wrong one breaks."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from specverify.bugs import ZOO, Kind
from specverify.bugs.counters import PassRecord, Report, broken_identities, count, leading_run
from specverify.bugs.runs import KNOWN_RUN, identities_broken_by

ALPHA, GAMMA = 0.7, 4
COUNTERS = [bug for bug in ZOO.values() if bug.kind is Kind.COUNTER]
RUN = KNOWN_RUN


def expected_reports(counter) -> dict[str, float]:
    """Mean counters of one pass at constant alpha, by enumeration of the accept flags."""
    means: dict[str, float] = {}
    for flags in product((True, False), repeat=GAMMA):
        mass = float(np.prod([ALPHA if flag else 1 - ALPHA for flag in flags]))
        size = leading_run(flags) + 1
        laws = np.full((size, 2), 0.5)
        record = PassRecord(flags=flags, emitted=(0,) * size, kept=size, laws=laws)
        report = counter([record])
        for name in ("passes", "drafted", "tested", "accepted", "emitted"):
            means[name] = means.get(name, 0.0) + mass * getattr(report, name)
    return means


def test_the_honest_count() -> None:
    report = count(RUN)
    assert (report.passes, report.drafted, report.tested) == (3, 6, 5)
    assert (report.accepted, report.emitted) == (3, 5)
    assert report.acceptance == pytest.approx(0.5)
    assert report.acceptance_rate == pytest.approx(0.6)
    assert report.tokens_per_pass == pytest.approx(5 / 3)
    np.testing.assert_allclose(np.exp(report.logprobs), [0.5, 0.7, 0.4, 0.3, 0.2])


def test_log_probabilities_at_another_temperature() -> None:
    found = np.exp(count(RUN, temperature=0.5).logprobs)
    np.testing.assert_allclose(found[:2], [0.25 / 0.38, 0.49 / 0.54])


def test_an_empty_run() -> None:
    report = count([])
    assert report == Report(passes=0, drafted=0, tested=0, accepted=0, emitted=0, logprobs=())
    assert report.acceptance == report.acceptance_rate == report.tokens_per_pass == 0.0


@pytest.mark.parametrize("bug", COUNTERS, ids=str)
def test_every_wrong_counter_is_seen(bug) -> None:
    assert identities_broken_by(bug)


def test_the_honest_count_breaks_nothing() -> None:
    assert broken_identities(count(RUN, temperature=0.7), RUN, temperature=0.7) == []


def test_impossible_totals_are_seen_in_the_report_alone() -> None:
    twice = broken_identities(ZOO["bonus_counted_twice"].callable(RUN), RUN)
    assert "emitted <= accepted + passes" in twice
    all_accepted = ZOO["corrections_as_accepted"].callable(RUN[:1])
    assert "accepted <= tested <= drafted" in broken_identities(all_accepted, RUN[:1])


def test_tokens_per_pass_at_alpha_seven_tenths() -> None:
    honest = expected_reports(count)
    assert honest["emitted"] == pytest.approx(2.7731)
    assert honest["accepted"] / honest["tested"] == pytest.approx(ALPHA)
    assert expected_reports(ZOO["bonus_not_counted"].callable)["emitted"] == pytest.approx(1.7731)
    assert expected_reports(ZOO["bonus_counted_twice"].callable)["emitted"] == pytest.approx(3.7731)


def test_acceptance_at_alpha_seven_tenths() -> None:
    honest = expected_reports(count)
    assert honest["accepted"] / honest["drafted"] == pytest.approx(0.443, abs=5e-4)
    untested = expected_reports(ZOO["untested_counted"].callable)
    assert untested["accepted"] / untested["tested"] == pytest.approx(0.443, abs=5e-4)


def test_the_raw_mask_reports_alpha_for_the_accepted_share() -> None:
    """On P1, alpha = .7 whatever the drafts: accepted / drafted reads .70 in place of .443."""
    rng = np.random.default_rng(0)
    target, draft = np.tile([0.5, 0.3, 0.2], (GAMMA + 1, 1)), np.tile([0.2, 0.3, 0.5], (GAMMA, 1))
    verify = ZOO["raw_mask_counted"].callable
    n = 4000
    reported = prefix = 0
    for tokens in rng.choice(3, size=(n, GAMMA), p=draft[0]):
        emitted, n_accepted = verify(target, draft, tokens, rng)
        reported += n_accepted
        prefix += len(emitted) - 1
    # Standard errors .0036 and .0065: five of them are a false alarm of 6e-7 each.
    assert reported / (n * GAMMA) == pytest.approx(0.70, abs=0.018)
    assert prefix / (n * GAMMA) == pytest.approx(0.4433, abs=0.033)
