"""Deliberately wrong settings of the real llama.cpp, told apart: law, efficiency, configuration."""

from __future__ import annotations

import importlib.util

import pytest

from specverify.adapters.llama_faults import FAULTS
from specverify.audit.config import AuditConfig
from specverify.audit.run import audit
from specverify.errors import InvalidInputError
from specverify.results import AuditResult, Verdict

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("xllamacpp") is None,
    reason="xllamacpp is not installed: its wheels are for Linux on x86_64",
)


def audited(wrong: str | None) -> AuditResult:
    target = "llama-cpp:mode=probabilistic,gamma=3,slots=8"
    text = target if wrong is None else f"{target},wrong={wrong}"
    return audit(text, config=AuditConfig(tv=0.1, isolation="inline"))


def test_every_fault_is_expected_below() -> None:
    told = {"temperature", "top-k", "draft-off", "shuffled-draft", "other-vocabulary"}
    assert set(FAULTS) == told


def test_the_right_settings_pass() -> None:
    summary = audited(None).summary
    assert (summary.law, summary.efficiency) == (Verdict.PASS, Verdict.PASS)
    assert summary.findings == ()


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ("temperature", "drawn under temperature 0.8 in place of 1"),
        ("top-k", "drawn under top-k 3 in place of none"),
    ],
)
def test_settings_that_were_not_sent_break_the_law(wrong: str, text: str) -> None:
    result = audited(wrong)
    assert result.summary.law is Verdict.FAIL
    assert text in result.summary.headline
    found = [c.diagnosis for c in result.checks if c.verdict is Verdict.FAIL and c.diagnosis]
    assert any(diagnosis.stage == "parameters" for diagnosis in found)


@pytest.mark.parametrize(
    ("wrong", "codes"),
    [
        ("draft-off", ["no-speculation", "nothing-drafted"]),
        ("shuffled-draft", ["unknown-scheme"]),
    ],
)
def test_a_draft_that_is_off_or_poor_costs_speed_alone(wrong: str, codes: list[str]) -> None:
    summary = audited(wrong).summary
    assert (summary.law, summary.efficiency) == (Verdict.PASS, Verdict.FAIL)
    assert [finding.code for finding in summary.findings] == codes


def test_a_draft_of_another_vocabulary_is_a_mistake_of_the_settings() -> None:
    with pytest.raises(InvalidInputError, match=r"llama\.cpp started without speculation"):
        audited("other-vocabulary")
