"""``specverify report RUN`` shows a finished audit in every format."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from typer.testing import CliRunner

from specverify.cli.main import app
from specverify.report.jsonout import render_json
from specverify.results import AuditResult, CheckResult, Family, RunStatus, Summary, Verdict


@pytest.fixture
def run(tmp_path: Path) -> Path:
    result = AuditResult(
        run_id="a",
        status=RunStatus.COMPLETE,
        verdict=Verdict.PASS,
        started="2026-01-01T00:00:00+00:00",
        ended="2026-01-01T00:00:01+00:00",
        argv=(),
        seed=0,
        environment={},
        target={"name": "reference"},
        error_budget={},
        checks=(CheckResult(name="token[mixed]", family=Family.LAW, verdict=Verdict.PASS, n=5),),
        acceptance={},
        timing={},
        summary=Summary(
            law=Verdict.PASS,
            efficiency=Verdict.PASS,
            contract=Verdict.PASS,
            headline="All is well.",
        ),
    )
    (tmp_path / "result.json").write_text(render_json(result))
    return tmp_path


def shown(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["report", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_text(run: Path) -> None:
    assert "All is well." in shown(run)
    assert "token[mixed]" in shown(run / "result.json")


def test_json(run: Path) -> None:
    for arguments in (["--json"], ["--format", "json"]):
        assert json.loads(shown(run, *arguments)) == json.loads((run / "result.json").read_text())


def test_markdown_and_junit(run: Path) -> None:
    assert shown(run, "--format", "md").startswith("## Audit of reference")
    assert ET.fromstring(shown(run, "--format", "junit")).tag == "testsuites"


@pytest.mark.parametrize(
    "arguments",
    [["nosuch"], [".", "--format", "pdf"], ["no", "--html", "result.json/x"]],
)
def test_mistakes_exit_2(arguments: list[str], run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(run)
    result = CliRunner().invoke(app, ["report", *arguments])
    assert result.exit_code == 2
    assert arguments[-1].partition("/")[0] in result.stderr
    assert result.stdout == ""


def test_studies_without_a_page_are_refused(run: Path) -> None:
    result = CliRunner().invoke(app, ["report", str(run), "--studies", str(run)])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--studies: are shown on a page" in result.stderr


def test_several_runs_at_a_glance_and_as_one_page(run: Path, tmp_path: Path) -> None:
    other = tmp_path / "runs" / "other"
    other.mkdir(parents=True)
    (other / "result.json").write_bytes((run / "result.json").read_bytes())
    page = tmp_path / "pages" / "all.html"
    text = shown(run, tmp_path / "runs", "--html", page)
    assert "2 audits: 2 pass" in text
    assert page.read_text().count("token[mixed]") == 2
    assert len(json.loads(shown(run, other, "--json"))) == 2


def test_a_page_of_studies_alone(tmp_path: Path) -> None:
    (tmp_path / "power.json").write_text('{"study": "power", "rows": []}')
    page = tmp_path / "studies.html"
    assert shown("--html", page, "--studies", tmp_path) == ""
    assert "power.json does not hold" in page.read_text()
    result = CliRunner().invoke(app, ["report"])
    assert result.exit_code == 2
    assert "name at least one audit" in result.stderr
