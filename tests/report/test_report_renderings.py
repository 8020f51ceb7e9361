"""Every rendering of an audit says its verdicts, numbers, findings and diagnosis."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
import pytest

from specverify.errors import InvalidInputError, UnknownTargetError
from specverify.report.jsonout import read_result, render_json
from specverify.report.junit import render_junit
from specverify.report.markdown import render_markdown
from specverify.report.text import render_text
from specverify.results import AuditResult, Verdict

RENDERINGS = [render_text, render_json, render_markdown, render_junit]


@pytest.mark.parametrize("render", RENDERINGS)
def test_every_rendering_tells_what_broke(
    render: Callable[[AuditResult], str], failing_audit: AuditResult
) -> None:
    text = render(failing_audit).replace("\\", "")
    for said in ("fail", "tokens[markov-v8]", "resample-from-target", "abs-residual", "residual"):
        assert said in text
    assert text.endswith("\n")


@pytest.mark.parametrize("render", [render_text, render_markdown])
def test_a_failure_shows_its_numbers(
    render: Callable[[AuditResult], str], failing_audit: AuditResult
) -> None:
    text = render(failing_audit).replace("\\", "")
    for said in (
        "20,000",
        "3.7e-119",
        "0.097 [0.090, 0.104]",
        "0.013",
        "probability 95%",
        "where: position 1",
    ):
        assert said in text
    assert "no-bonus-token" in text


@pytest.mark.parametrize("render", RENDERINGS)
def test_an_audit_without_checks_renders(
    render: Callable[[AuditResult], str], empty_audit: AuditResult
) -> None:
    assert "inconclusive" in render(empty_audit)


def test_a_pass_shows_what_it_would_have_caught(passing_audit: AuditResult) -> None:
    text = render_text(passing_audit)
    assert "0.013" in text
    assert "smallest TV found with probability 95%" in text


def test_failures_come_first(failing_audit: AuditResult) -> None:
    text = render_text(failing_audit)
    table = text[text.index("verdict  check") :]
    assert table.index("tokens[") < table.index("length[") < table.index("determinism")


def test_nothing_of_a_diagnosis_is_told_twice(failing_audit: AuditResult) -> None:
    failed = failing_audit.checks[1]
    assert failed.diagnosis is not None
    told = msgspec.structs.replace(
        failed.diagnosis, text="breaks at position 1, consistent with resample-from-target"
    )
    check = msgspec.structs.replace(failed, diagnosis=told)
    text = render_text(msgspec.structs.replace(failing_audit, checks=(check,)))
    assert text.count("resample-from-target") == 1
    assert "where:" not in text
    assert "fits nearly as well: abs-residual" in text


def test_what_to_read_first_stands_last(failing_audit: AuditResult) -> None:
    assert render_text(failing_audit).endswith(failing_audit.summary.headline + "\n")


def test_passed_checks_of_the_interface_are_only_counted(failing_audit: AuditResult) -> None:
    text = render_text(failing_audit)
    assert "interface" not in text
    assert "4 checks: 1 fail, 2 pass, 1 skip" in text


def test_other_checks_that_a_failure_left_open_are_no_news(failing_audit: AuditResult) -> None:
    half = msgspec.structs.replace(
        failing_audit.checks[0], verdict=Verdict.INCONCLUSIVE, message="more samples needed"
    )
    checks = (half, *failing_audit.checks[1:])
    text = render_text(msgspec.structs.replace(failing_audit, checks=checks))
    assert "more samples needed" not in text
    alone = render_text(msgspec.structs.replace(failing_audit, checks=(half,)))
    assert "more samples needed" in alone


def test_the_law_is_explained_before_the_speed(failing_audit: AuditResult) -> None:
    slow = msgspec.structs.replace(
        failing_audit.checks[0], verdict=Verdict.FAIL, message="too few tokens"
    )
    checks = (slow, *failing_audit.checks[1:])
    text = render_text(msgspec.structs.replace(failing_audit, checks=checks))
    assert text.index("residual") < text.index("too few tokens")


@pytest.mark.parametrize("render", [render_text, render_markdown])
def test_a_slower_scheme_is_a_finding_in_an_audit_that_passes(
    render: Callable[[AuditResult], str], passing_audit: AuditResult
) -> None:
    slow = msgspec.structs.replace(
        passing_audit.checks[0], verdict=Verdict.FAIL, message="too few tokens"
    )
    summary = msgspec.structs.replace(passing_audit.summary, efficiency=Verdict.FAIL)
    audit = msgspec.structs.replace(passing_audit, checks=(slow,), summary=summary)
    assert "a finding, not a failure" in render(audit)
    assert "too few tokens" not in render(audit)
    assert "a finding, not a failure" not in render(passing_audit)


def test_piped_text_is_plain(failing_audit: AuditResult) -> None:
    text = render_text(failing_audit)
    assert text.isascii()
    assert all(line == line.rstrip() for line in text.splitlines())


@pytest.mark.parametrize("width", [40, 80])
def test_a_terminal_is_never_overrun(width: int, failing_audit: AuditResult) -> None:
    drawn = render_text(failing_audit, width=width, color=True)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", drawn).splitlines()
    assert max(map(len, lines)) <= width


def test_json_comes_back_as_it_was(failing_audit: AuditResult, tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(render_json(failing_audit))
    assert read_result(tmp_path) == read_result(tmp_path / "result.json") == failing_audit


def test_json_has_no_nan(failing_audit: AuditResult) -> None:
    broken = msgspec.structs.replace(failing_audit, timing={"seconds": float("nan")})
    assert json.loads(render_json(broken), parse_constant=pytest.fail)["timing"] == {
        "seconds": None
    }


def test_reading_says_what_is_wrong(failing_audit: AuditResult, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    with pytest.raises(UnknownTargetError, match="no such file"):
        read_result(tmp_path)
    path.write_text("{}")
    with pytest.raises(InvalidInputError, match=r"is not a result\.json"):
        read_result(path)
    path.write_text(render_json(msgspec.structs.replace(failing_audit, schema_version=999)))
    with pytest.raises(InvalidInputError, match="schema version 999"):
        read_result(path)


def test_markdown_tables_keep_their_columns(failing_audit: AuditResult) -> None:
    check = msgspec.structs.replace(failing_audit.checks[0], name="length[a|b]")
    text = render_markdown(msgspec.structs.replace(failing_audit, checks=(check,)))
    _, _, table = text.partition("### Checks\n\n")
    rows = table.partition("\n\n")[0].splitlines()
    assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) == 1
    assert len(rows) == 3


def test_junit_counts_what_it_holds(failing_audit: AuditResult) -> None:
    suites = ET.fromstring(render_junit(failing_audit))
    (suite,) = suites
    assert suite.attrib["tests"] == str(len(suite.findall("testcase"))) == "5"
    assert suite.attrib["failures"] == str(len(suite.findall("testcase/failure"))) == "2"
    assert suite.attrib["skipped"] == str(len(suite.findall("testcase/skipped"))) == "1"
    assert suite.attrib["errors"] == "0"


def test_junit_of_a_pass_has_no_failure_for_a_finding(passing_audit: AuditResult) -> None:
    slow, *others = passing_audit.checks
    slow = msgspec.structs.replace(slow, verdict=Verdict.FAIL, message="slower than the rule")
    checks = (slow, *others)
    (suite,) = ET.fromstring(render_junit(msgspec.structs.replace(passing_audit, checks=checks)))
    assert (suite.attrib["failures"], suite.attrib["skipped"]) == ("0", "2")
    skipped = suite.find("testcase/skipped")
    assert skipped is not None
    assert skipped.attrib["message"] == "fail: slower than the rule"
    failed = msgspec.structs.replace(passing_audit, checks=checks, verdict=Verdict.FAIL)
    (suite,) = ET.fromstring(render_junit(failed))
    assert suite.attrib["failures"] == "2"


def test_a_scenario_that_an_audit_did_not_come_to_has_no_row(failing_audit: AuditResult) -> None:
    untouched = {"tokens_per_pass": 0.0, "one_minus_tv": [0.7, 0.6]}
    acceptance = failing_audit.acceptance | {"never-run": untouched}
    result = msgspec.structs.replace(failing_audit, acceptance=acceptance)
    for render in (render_text, render_markdown):
        assert "markov-v8" in render(result)
        assert "never-run" not in render(result)


@pytest.mark.parametrize(
    ("verdict", "tag"),
    [
        (Verdict.PASS, None),
        (Verdict.XFAIL, None),
        (Verdict.FAIL, "failure"),
        (Verdict.XPASS, "failure"),
        (Verdict.ERROR, "error"),
        (Verdict.INCONCLUSIVE, "error"),
    ],
)
def test_junit_is_red_when_the_exit_code_is(
    verdict: Verdict, tag: str | None, passing_audit: AuditResult
) -> None:
    audit = msgspec.structs.replace(passing_audit, verdict=verdict)
    case = ET.fromstring(render_junit(audit)).find(".//testcase[@name='verdict']")
    assert case is not None
    assert [child.tag for child in case] == ([tag] if tag else [])


def test_junit_survives_characters_that_xml_cannot_hold(failing_audit: AuditResult) -> None:
    broken = msgspec.structs.replace(
        failing_audit.checks[1], message="\x00 <&> \ud800", verdict=Verdict.ERROR
    )
    audit = msgspec.structs.replace(failing_audit, checks=(broken,))
    error = ET.fromstring(render_junit(audit)).find(".//error")
    assert error is not None
    assert "<&>" in error.attrib["message"]


@pytest.mark.parametrize("code", ["verify = 1\n\nassert verify == 2", "```\n````\n# a fence"])
def test_code_is_shown_as_it_is(code: str, failing_audit: AuditResult) -> None:
    check = msgspec.structs.replace(failing_audit.checks[1], case={"snippet": code, "tv": 0.25})
    audit = msgspec.structs.replace(failing_audit, checks=(check,))
    text = render_text(audit, width=20)
    assert "\n".join(line[4:] for line in text.splitlines()).count(code) == 1
    marked = render_markdown(audit)
    assert "\n".join(line[2:] for line in marked.splitlines()).count(code) == 1
    fences = [line.strip() for line in marked.splitlines() if line.strip().endswith("`python")]
    assert len(fences) == 1
    assert fences[0].removesuffix("python") not in code
    for rendered in (text, marked):
        assert "snippet" not in rendered
        assert "tv 0.25" in " ".join(rendered.split())
