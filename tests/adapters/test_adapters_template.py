"""The documented template of an adapter works as it is written."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from specverify.audit.config import AuditConfig, Budget
from specverify.audit.run import audit
from specverify.audit.targets import registered, resolve
from specverify.results import Verdict

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "engines.md"


@pytest.fixture
def template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The template in a distribution of its own, found by its entry point."""
    blocks = dict(re.findall(r"```(python|toml)\n(.*?)```", DOCUMENT.read_text(), re.DOTALL))
    (tmp_path / "my_adapter.py").write_text(blocks["python"])
    group, line = re.search(r'entry-points\."(.*?)"\]\n(.*)', blocks["toml"]).groups()
    record = tmp_path / "my_adapter-1.0.dist-info"
    record.mkdir()
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: my-adapter\nVersion: 1.0\n")
    (record / "entry_points.txt").write_text(f"[{group}]\n{line.replace(chr(34), '')}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_adapter", raising=False)
    return blocks["python"]


def test_it_is_short(template: str) -> None:
    assert len(template.splitlines()) < 60


def test_it_is_found_by_its_entry_point_and_takes_settings(template: str) -> None:
    assert "my-engine" in registered()
    assert resolve("my-engine:gamma=2").implementation.describe().gamma == 2


def test_an_audit_passes_it(template: str) -> None:
    config = AuditConfig(tv=0.5, isolation="inline", budget=Budget(calls=40))
    summary = audit("my-engine", config=config).summary
    assert summary.law is not Verdict.FAIL
    assert summary.efficiency is not Verdict.FAIL
    assert "misbehaved" not in summary.headline


def test_an_audit_sees_a_template_that_answers_too_little(
    template: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = resolve("my-engine").implementation.__class__.sample

    def short(self, prompt, n, max_new_tokens, sampling, seed):  # type: ignore[no-untyped-def]
        return sample(self, prompt, n - 1, max_new_tokens, sampling, seed)

    monkeypatch.setattr(sys.modules["my_adapter"].MyEngine, "sample", short)
    config = AuditConfig(isolation="inline", budget=Budget(calls=40))
    assert audit("my-engine", config=config).summary.contract is Verdict.ERROR
