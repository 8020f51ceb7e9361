"""An audit as JUnit XML, for continuous integration servers.

A test case a check, and one more, ``verdict``, that is red exactly when the audit's exit code is
not zero. Checks that are inconclusive, or fail as declared, are skipped tests with a reason; so is
a finding: a check that fails in an audit that passes, such as the speed of a lossless scheme.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree as ET

from specverify.report.characters import printable
from specverify.report.content import explanation, target_line
from specverify.results import AuditResult, CheckResult, Verdict

__all__ = ["render_junit"]

_TAGS = {
    Verdict.FAIL: "failure",
    Verdict.XPASS: "failure",
    Verdict.ERROR: "error",
    Verdict.INCONCLUSIVE: "skipped",
    Verdict.SKIP: "skipped",
    Verdict.XFAIL: "skipped",
}
_PASSES = (Verdict.PASS, Verdict.XFAIL)


def render_junit(*results: AuditResult) -> str:
    """Render audits as JUnit XML, a suite each, with its declaration, ending in a newline."""
    suites = ET.Element("testsuites", {"name": "specverify"})
    suites.extend(map(_suite, results))
    suites.attrib.update(_counts(list(suites.iter("testcase"))))
    ET.indent(suites)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(suites, encoding="unicode")}\n'


def _suite(result: AuditResult) -> ET.Element:
    passes = result.verdict in _PASSES
    cases = [_check_case(check, finding=passes) for check in result.checks]
    cases.append(_verdict_case(result))
    about = {"name": printable(target_line(result)), "timestamp": result.started}
    suite = ET.Element("testsuite", about | _counts(cases))
    suite.extend(cases)
    return suite


def _counts(cases: Sequence[ET.Element]) -> dict[str, str]:
    counts = {
        "tests": len(cases),
        "failures": sum(case.find("failure") is not None for case in cases),
        "errors": sum(case.find("error") is not None for case in cases),
        "skipped": sum(case.find("skipped") is not None for case in cases),
    }
    return {name: str(value) for name, value in counts.items()}


def _check_case(check: CheckResult, *, finding: bool) -> ET.Element:
    case = ET.Element(
        "testcase", {"classname": f"specverify.{check.family}", "name": printable(check.name)}
    )
    if check.verdict in _TAGS:
        tag = "skipped" if finding else _TAGS[check.verdict]
        _outcome(case, tag, check.verdict, explanation(check))
    return case


def _verdict_case(result: AuditResult) -> ET.Element:
    case = ET.Element("testcase", {"classname": "specverify", "name": "verdict"})
    if result.verdict in (Verdict.FAIL, Verdict.XPASS):
        _outcome(case, "failure", result.verdict, [result.summary.headline])
    elif result.verdict not in _PASSES:
        _outcome(case, "error", result.verdict, [result.summary.headline])
    return case


def _outcome(case: ET.Element, tag: str, verdict: Verdict, lines: list[str]) -> None:
    reason = lines[0] if lines else str(verdict)
    element = ET.SubElement(
        case, tag, {"type": str(verdict), "message": printable(f"{verdict}: {reason}")}
    )
    element.text = printable("\n".join(lines))
