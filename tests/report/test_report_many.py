"""Several audits as text, JSON, Markdown and JUnit, and how they are found."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
import pytest

from specverify.cli.report import rendered, rendered_all
from specverify.errors import InvalidInputError, UnknownTargetError
from specverify.report.jsonout import render_json, render_json_list
from specverify.report.junit import render_junit
from specverify.report.markdown import render_markdown_overview
from specverify.report.overview import headline, labels, law_bound
from specverify.report.runs import read_runs
from specverify.report.text import render_text_overview
from specverify.results import AuditResult, CheckResult, Verdict

Audits = list[AuditResult]


@pytest.fixture
def audits(
    passing_audit: AuditResult, failing_audit: AuditResult, empty_audit: AuditResult
) -> Audits:
    return [passing_audit, failing_audit, empty_audit]


@pytest.mark.parametrize("render", [render_text_overview, render_markdown_overview])
def test_the_worst_comes_first_and_all_are_counted(
    render: Callable[[Sequence[AuditResult]], str], audits: Audits
) -> None:
    text = render(audits).replace("*", "")
    rows = [line for line in text.splitlines() if "my" in line and "file.py" in line]
    verdicts = [next(word for word in row.split() if word in set(Verdict)) for row in rows[:3]]
    assert verdicts == [Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.PASS]
    assert "3 audits: 1 fail, 1 inconclusive, 1 pass" in text


def test_markdown_tells_the_problems_of_many_and_stays_short(failing_audit: AuditResult) -> None:
    text = render_markdown_overview([failing_audit] * 500)
    assert text.count("### ") == 20
    assert "480 more of these are in the table" in text
    assert "resample-from-target" in text
    assert len(text.encode()) < 1_000_000  # what a job summary may hold


def test_nothing_is_no_error() -> None:
    assert "no audit was given" in render_text_overview([])
    assert "no audit was given" in render_markdown_overview([])
    assert json.loads(render_json_list([])) == []
    assert ET.fromstring(render_junit()).attrib["tests"] == "0"


def test_junit_has_a_suite_for_each(audits: Audits) -> None:
    suites = ET.fromstring(render_junit(*audits))
    assert len(suites) == 3
    for name in ("tests", "failures", "errors", "skipped"):
        assert int(suites.attrib[name]) == sum(int(suite.attrib[name]) for suite in suites)
    assert int(suites.attrib["tests"]) == len(suites.findall(".//testcase"))


def test_junit_of_five_hundred(failing_audit: AuditResult) -> None:
    suites = ET.fromstring(render_junit(*[failing_audit] * 500))
    assert suites.attrib["failures"] == "1000"


def test_json_is_a_list_of_all(audits: Audits) -> None:
    back = msgspec.json.decode(render_json_list(audits), type=list[AuditResult])
    assert back == audits


def test_one_audit_is_shown_in_full(failing_audit: AuditResult) -> None:
    for form in ("text", "json", "md", "junit", "html"):
        assert rendered_all([failing_audit], form) == rendered(failing_audit, form)
    with pytest.raises(InvalidInputError, match="pdf"):
        rendered_all([], "pdf")


def test_a_name_that_several_share_is_told_apart(audits: Audits) -> None:
    other = msgspec.structs.replace(audits[0], target={"name": "other"})
    assert labels([other, *audits[:2]]) == [
        "other",
        *(f"my|file.py:verify ({a.run_id})" for a in audits[:2]),
    ]
    assert headline([other]) == other.summary.headline


def test_the_bound_is_that_of_the_check_that_leaves_most_open(failing_audit: AuditResult) -> None:
    found = law_bound(failing_audit)
    assert found == failing_audit.checks[1]
    assert found.tv is not None
    wide = msgspec.structs.replace(found.tv, estimate=0.0, low=0.0, high=0.5)
    loose: CheckResult = msgspec.structs.replace(found, verdict=Verdict.PASS, tv=wide)
    both = msgspec.structs.replace(failing_audit, checks=(loose, found))
    assert law_bound(both) == found  # a deviation that is there before one that may be
    tiny = msgspec.structs.replace(found.tv, estimate=1e-17, low=1e-17, high=1e-17)
    proved = msgspec.structs.replace(found, verdict=Verdict.PASS, tv=tiny)
    unproved = msgspec.structs.replace(loose, verdict=Verdict.SKIP)
    passed = msgspec.structs.replace(failing_audit, checks=(proved, loose, unproved))
    assert law_bound(passed) == loose
    assert law_bound(msgspec.structs.replace(failing_audit, checks=(loose,))) == loose
    assert law_bound(msgspec.structs.replace(failing_audit, checks=())) is None


def test_runs_are_found_below_a_folder(audits: Audits, tmp_path: Path) -> None:
    for name, audit in zip("abc", audits, strict=True):
        (tmp_path / name).mkdir()
        (tmp_path / name / "result.json").write_text(render_json(audit))
    (tmp_path / "measure").mkdir()
    (tmp_path / "measure" / "result.json").write_text('{"speedup": 2}')
    runs = read_runs([tmp_path])
    assert runs.results == audits
    assert len(runs.unreadable) == 1
    assert "measure" in runs.unreadable[0]
    named = read_runs([tmp_path / "b", tmp_path / "a" / "result.json"])
    assert named.results == [audits[1], audits[0]]
    with pytest.raises(InvalidInputError, match=r"is not a result\.json"):
        read_runs([tmp_path / "measure"])
    with pytest.raises(UnknownTargetError, match="no such file"):
        read_runs([tmp_path / "nowhere"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(UnknownTargetError, match=r"no result\.json in or below"):
        read_runs([tmp_path / "empty"])
