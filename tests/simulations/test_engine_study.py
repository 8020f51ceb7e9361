"""The published audit of engines: what it keeps, what it runs again, and that it resumes."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "simulations"))

import engines
from engine_faults import told_as
from engine_records import confirmed, markdown, summarise
from engine_table import ENGINES

from specverify.audit.config import AuditConfig, Budget
from specverify.audit.run import audit


@pytest.fixture(scope="module")
def sound() -> dict:  # type: ignore[type-arg]
    config = AuditConfig(isolation="inline", budget=Budget(calls=3000))
    return summarise(json.loads(msgspec.json.encode(audit("reference", config=config))))


def test_a_sound_implementation_has_its_exact_total_variation(sound: dict) -> None:  # type: ignore[type-arg]
    assert sound["law"] != "fail"
    assert sound["failing"] == []
    assert sound["exact_scenarios"] > 0
    assert 0 <= sound["exact_tv"] < 1e-6
    first = next(iter(sound["accepted"].values()))
    assert first
    assert all(0 < share < 1 for share in first)


def test_failures_of_both_seeds_are_kept_and_told() -> None:
    check = {"name": "token[plain]", "message": "off", "case": {"token": 3}}
    other = check | {"name": "joint[plain]"}
    first = record_of([check, other])
    first["again"] = confirmed(first, record_of([check]))
    assert first["again"]["checks_failing_twice"] == ["token[plain]"]
    text = markdown({"engine": first})
    assert "Failing under another seed too: token[plain]." in text
    assert '{"token": 3}' in text
    assert "biased (again: fail and pass)" in text
    assert "| 2.0000 (2.1000) | 0.75 0.50 |" in text


def test_a_call_that_went_wrong_is_no_open_question() -> None:
    cases = {"wrong": ("inconclusive", "error"), "open": ("inconclusive", "pass")}
    cases["both"] = ("fail", "error")
    records = {
        name: record_of([]) | {"law": law, "contract": contract}
        for name, (law, contract) in cases.items()
    }
    text = markdown(records)
    assert "| wrong | 1 | error |" in text
    assert "| open | 1 | inconclusive |" in text
    assert "| both | 1 | fail |" in text
    assert text.count("misbehaved; biased") == 2


def record_of(failing: list) -> dict:  # type: ignore[type-arg]
    return {
        "version": "1",
        "law": "fail",
        "efficiency": "pass",
        "headline": "biased",
        "exact_tv": 0.1,
        "tv_bound": None,
        "tokens_per_pass": {"plain": (2.0, 2.1)},
        "accepted": {"plain": [0.75, 0.5]},
        "findings": [{"code": "biased", "text": "it is biased"}],
        "failing": failing,
        "seconds": 3.0,
        "install": "pip install it",
        "command": "specverify audit it",
    }


def test_wrong_settings_are_told_by_what_their_audit_says() -> None:
    refused = {"refused": "error: draft: no", "exit_code": 2, "expect": "configuration"}
    law = record_of([]) | {"exit_code": 1, "expect": "law"}
    slow = law | {"law": "pass", "efficiency": "fail", "expect": "efficiency"}
    missed = slow | {"efficiency": "pass", "headline": "law exact", "findings": []}
    records = {
        name: {"command": f"specverify audit {name}"} | record
        for name, record in {"a": refused, "b": law, "c": slow, "d": missed}.items()
    }
    kinds = [told_as(record) for record in records.values()]
    assert kinds == ["configuration", "law", "efficiency", "nothing"]
    text = markdown(records)
    assert "| a | configuration | configuration | 2 | error: draft: no |" in text
    assert "| b | law | law | 1 | biased |" in text
    assert "| d | efficiency | nothing | 1 | law exact |" in text
    assert "## b 1" not in text  # a wrong setting is no fault of the engine


def test_settings_that_are_refused_are_a_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = replace(ENGINES[0], target="llama-cpp:gamma=0", options=(), expect="configuration")
    monkeypatch.setattr(engines, "environment", lambda *_: Path(sys.executable))
    monkeypatch.setattr(engines, "_version", lambda *_: "1")
    found = engines.record(entry, tmp_path)
    assert (found["exit_code"], found["told"]) == (2, "configuration")
    assert "gamma: must be at least 1, got 0" in found["refused"]
    right = engines.record(replace(entry, expect=None), tmp_path)
    assert "exit code 2" in right["problem"]


def test_what_has_a_record_is_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    def record(entry, folder):  # type: ignore[no-untyped-def]
        ran.append(entry.name)
        return record_of([])

    monkeypatch.setattr(engines, "record", record)
    names = [entry.name for entry in ENGINES[:2]]
    there = ["--out", str(tmp_path)]
    engines.main(["--only", names[0], *there])
    engines.main(["--only", *names, *there])
    assert ran == names
    engines.main(["--only", names[0], "--again", *there])
    assert ran == [*names, names[0]]
    assert set(json.loads((tmp_path / "engines.json").read_text())) == set(names)


def test_what_cannot_be_installed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(entry, folder):  # type: ignore[no-untyped-def]
        raise RuntimeError("no wheel")

    monkeypatch.setattr(engines, "environment", refuse)
    found = engines.record(ENGINES[0], tmp_path)
    assert found["problem"] == "no wheel"
    assert "no wheel" in markdown({ENGINES[0].name: found})
