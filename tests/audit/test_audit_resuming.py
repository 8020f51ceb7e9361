"""Audits that are taken up again: from a ledger that is named, or from the user's cache."""

from __future__ import annotations

import dataclasses
import os
import time
from pathlib import Path

import msgspec
import pytest

from specverify.audit.config import AuditConfig, Budget
from specverify.audit.ledger import Ledger, read_ledger
from specverify.audit.progress import Progress
from specverify.audit.run import audit
from specverify.audit.storage import Storage
from specverify.audit.tally import Tally
from specverify.errors import InvalidInputError
from specverify.results import AuditResult, RunStatus, Verdict
from specverify.sampler.verify import speculative_verify

SMALL = AuditConfig(mode="statistical", framework="numpy", gammas=(3,), tv=0.1, isolation="inline")


def interrupted_after(completions: int):
    def tell(event: Progress) -> None:
        if event.stage == "sample" and event.done >= completions:
            raise KeyboardInterrupt

    return tell


def lasting(result: AuditResult) -> AuditResult:
    """The result without dates, durations and its name."""
    return msgspec.structs.replace(result, run_id="", started="", ended="", timing={})


def test_an_interrupted_audit_ends_as_an_undisturbed_one(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    undisturbed = audit(speculative_verify, config=SMALL)
    first = audit(speculative_verify, config=SMALL, ledger=path, progress=interrupted_after(1000))
    assert first.status is RunStatus.INTERRUPTED
    assert first.summary.headline.startswith("interrupted; the same command resumes it; ")
    assert first.timing["resumed"] == {"shards": 0, "completions": 0}
    events: list[Progress] = []
    second = audit(speculative_verify, config=SMALL, ledger=path, progress=events.append)
    (resumed,) = (event for event in events if event.stage == "resume")
    assert resumed.done == second.timing["resumed"]["completions"] == 1000
    assert lasting(second) == lasting(undisturbed)


def test_a_complete_audit_is_judged_again_without_sampling(tmp_path: Path) -> None:
    calls = []

    def counted(target_probs, draft_probs, draft_tokens, generator):
        calls.append(1)
        return speculative_verify(target_probs, draft_probs, draft_tokens, generator)

    first = audit(counted, config=SMALL, ledger=tmp_path / "ledger")
    assert len(calls) == first.timing["calls"] > 1000
    calls.clear()
    again = audit(counted, config=SMALL, ledger=tmp_path / "ledger")
    assert not calls
    assert again.timing["resumed"]["shards"] > 0
    assert lasting(again) == lasting(first)
    fresh = audit(counted, config=SMALL, ledger=Storage(path=tmp_path / "ledger", fresh=True))
    assert len(calls) == first.timing["calls"]
    assert lasting(fresh) == lasting(first)


def test_a_doctored_count_changes_the_result(tmp_path: Path) -> None:
    """What is judged again is the ledger, and nothing that is remembered elsewhere."""
    path = tmp_path / "ledger"
    first = audit(speculative_verify, config=SMALL, ledger=path)
    header, shards = read_ledger(path)
    tally = Tally.decode(shards[0].tally)
    tally.arrays["token"] *= 2
    doctored = msgspec.structs.replace(shards[0], tally=tally.encode())
    path.unlink()
    ledger = Ledger(path, header)
    for shard in (doctored, *shards[1:]):
        ledger.append(shard)
    ledger.close()
    again = audit(speculative_verify, config=SMALL, ledger=path)
    changed = [a.name for a, b in zip(first.checks, again.checks, strict=True) if a != b]
    assert f"token[{shards[0].scenario}]" in changed
    assert all(shards[0].scenario in name for name in changed)


def test_a_time_budget_counts_the_seconds_of_earlier_runs(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    few = dataclasses.replace(SMALL, budget=Budget(calls=3000))
    audit(speculative_verify, config=few, ledger=path)
    header, shards = read_ledger(path)
    path.unlink()
    ledger = Ledger(path, header)
    for number, shard in enumerate(shards):
        ledger.append(msgspec.structs.replace(shard, arrived=100.0 * (number + 1)))
    ledger.close()
    for seconds, counted in ((150.0, 2), (250.0, 3)):
        config = dataclasses.replace(SMALL, budget=Budget(seconds=seconds))
        result = audit(speculative_verify, config=config, ledger=path)
        assert result.timing["stopped"] == "budget"
        assert result.timing["wall"] >= 100.0 * len(shards)
        assert sum(check.replay["shards"] for check in result.checks if "token[" in check.name) == (
            counted
        )


def test_a_larger_budget_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    few = dataclasses.replace(SMALL, budget=Budget(calls=1000))
    assert audit(speculative_verify, config=few, ledger=path).verdict is Verdict.INCONCLUSIVE
    more = audit(speculative_verify, config=SMALL, ledger=path)
    assert more.timing["resumed"]["shards"] > 0
    assert lasting(more) == lasting(audit(speculative_verify, config=SMALL))


def test_an_error_is_tried_again_when_an_audit_is_taken_up(tmp_path: Path) -> None:
    path, broken = tmp_path / "ledger", [True]
    calls = []

    def sometimes(target_probs, draft_probs, draft_tokens, generator):
        calls.append(1)
        if broken[0] and len(calls) > 800:
            raise RuntimeError("out of luck")
        return speculative_verify(target_probs, draft_probs, draft_tokens, generator)

    for _ in range(2):
        failed = audit(sometimes, config=SMALL, ledger=path)
        assert failed.verdict is Verdict.ERROR
        kept = {(shard.scenario, shard.shard) for shard in read_ledger(path)[1]}
        assert kept
        (error,) = (check for check in failed.checks if check.verdict is Verdict.ERROR)
        assert len(error.case["draft_tokens"]) == 3
        assert (error.params["scenario"], error.replay["shards"] - 1) not in kept
    broken[0] = False
    assert lasting(audit(sometimes, config=SMALL, ledger=path)).verdict is Verdict.PASS


def test_what_cannot_be_told_apart_is_not_recorded(tmp_path: Path) -> None:
    scope: dict = {}
    exec("def verify(target_probs, draft_probs, draft_tokens, generator): return [0]", scope)
    verify = scope["verify"]
    verify.__module__ = "nowhere"
    with pytest.raises(InvalidInputError, match="no source file"):
        audit(verify, config=SMALL, ledger=tmp_path / "ledger")
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInputError, match="cannot write"):
        audit(speculative_verify, config=SMALL, ledger=tmp_path / "file" / "ledger")


def test_a_ledger_in_the_cache_lives_until_the_audit_is_complete(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    runs = tmp_path / "specverify" / "runs"
    audit(speculative_verify, config=SMALL, ledger=Storage(), progress=interrupted_after(1000))
    assert len(list(runs.iterdir())) == 1
    held = Ledger(next(runs.iterdir()), read_ledger(next(runs.iterdir()))[0])
    beside = audit(speculative_verify, config=SMALL, ledger=Storage())
    assert beside.timing["resumed"]["shards"] == 0  # unrecorded, not refused
    held.close()
    after = audit(speculative_verify, config=SMALL, ledger=Storage())
    assert after.timing["resumed"]["completions"] == 1000
    assert list(runs.iterdir()) == []
    (tmp_path / "specverify" / "runs").rmdir()
    (tmp_path / "specverify" / "runs").write_text("not a folder")
    assert lasting(audit(speculative_verify, config=SMALL, ledger=Storage())) == lasting(after)


def test_ledgers_that_nobody_came_back_for_are_removed(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    runs = tmp_path / "specverify" / "runs"
    runs.mkdir(parents=True)
    month = 30 * 24 * 3600
    for name, age in (("old", month + 60), ("recent", month - 3600)):
        (runs / name).write_text(name)
        os.utime(runs / name, times=2 * (time.time() - age,))
    few = dataclasses.replace(SMALL, budget=Budget(calls=100))
    audit(speculative_verify, config=few, ledger=Storage())
    assert [left.name for left in runs.iterdir()] == ["recent"]
