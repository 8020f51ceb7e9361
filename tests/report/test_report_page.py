"""The HTML page: any number of audits, everything escaped, nothing from outside."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from specverify.errors import MissingDependencyError
from specverify.report.figures import FIGURES
from specverify.report.page import render_page
from specverify.report.studies import read_studies
from specverify.results import AuditResult, Finding, Verdict

REPORTS = Path(__file__).resolve().parents[2] / "reports"
HOSTILE = "</td><script>alert(1)</script>\x00\ud800 $\\frac$ {{ 7 * 7 }} '\"&"
_ENDS = ("", "_low", "_high")
VOID = {"meta", "br", "img", "input", "link", "hr"}


class Document(HTMLParser):
    """Tags that close in order, identifiers, and whatever could reach outside."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.references: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            assert not name.startswith("on")
            if name == "id":
                self.ids.append(value or "")
            elif name.endswith(("src", "href")) or name in ("action", "data", "srcset"):
                self.references.append(value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "title"} & set(self.open):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def renamed(audit: AuditResult, name: str, **changes: object) -> AuditResult:
    target = {**audit.target, "name": name}
    return msgspec.structs.replace(audit, target=target, **changes)


def test_no_audit_says_what_to_do() -> None:
    document = Document(render_page([]))
    assert "No audit was given" in document.text
    assert "specverify audit TARGET" in document.text


def test_one_audit_tells_its_story_in_order(failing_audit: AuditResult) -> None:
    text = Document(render_page([failing_audit])).text
    told = [
        failing_audit.summary.headline,
        "Verdicts",
        "no-bonus-token",
        "the law breaks at the correction token",
        "consistent with: resample-from-target",
        "draft_tokens 1 2",
        "How sure",
        "3.7e-119",
        "seed 7",
    ]
    places = [text.index(said) for said in told]
    assert places == sorted(places)


def test_the_worst_is_read_first(
    failing_audit: AuditResult, passing_audit: AuditResult, empty_audit: AuditResult
) -> None:
    audits = [
        renamed(passing_audit, "fine"),
        renamed(empty_audit, "open"),
        renamed(failing_audit, "broken"),
    ]
    text = Document(render_page(audits)).text
    assert text.index("broken") < text.index("open") < text.index("fine")
    assert "3 audits: 1 fail, 1 inconclusive, 1 pass" in text


def test_five_hundred_audits(failing_audit: AuditResult, passing_audit: AuditResult) -> None:
    finding = Finding(code="shared", text="The same everywhere.")
    summary = msgspec.structs.replace(passing_audit.summary, findings=(finding,))
    law = msgspec.structs.replace(failing_audit.checks[1], verdict=Verdict.PASS)
    audits = [
        renamed(passing_audit, f"kernel-{i}", summary=summary, checks=(law,)) for i in range(480)
    ]
    audits += [renamed(failing_audit, f"broken-{i}") for i in range(20)]
    page = render_page(audits)
    document = Document(page)
    for name in ("kernel-0", "kernel-479", "broken-19"):
        assert name in document.text
    assert page.count("The same everywhere.") == 1
    assert "and 472 more" in document.text
    assert "460 more audits are in the table" in document.text
    assert "470 audits that leave less open are not drawn" in document.text
    assert len(page) < 3_000_000
    assert len(document.ids) == len(set(document.ids))


def test_hostile_text_is_text(failing_audit: AuditResult) -> None:
    check = msgspec.structs.replace(
        failing_audit.checks[1], name=HOSTILE, message=HOSTILE, case={HOSTILE: HOSTILE}
    )
    summary = msgspec.structs.replace(
        failing_audit.summary, headline=HOSTILE, findings=(Finding(code=HOSTILE, text=HOSTILE),)
    )
    audit = renamed(failing_audit, HOSTILE, checks=(check,), summary=summary, argv=(HOSTILE,))
    page = render_page([audit, audit], unreadable=[HOSTILE])
    document = Document(page)
    assert "script" not in document.tags
    assert "{{ 7 * 7 }}" in document.text
    assert "\x00" not in page
    page.encode("utf-8")


def test_nothing_comes_from_outside(failing_audit: AuditResult) -> None:
    page = render_page([failing_audit], read_studies(REPORTS))
    document = Document(page)
    assert not {"script", "iframe", "object", "embed", "link"} & set(document.tags)
    assert all(reference.startswith(("#", "data:image/png")) for reference in document.references)
    assert re.findall(r"url\((?!#)", page) == []
    assert "@import" not in page
    assert "default-src 'none'" in page
    assert len(document.ids) == len(set(document.ids))
    missing = {ref[1:] for ref in document.references if ref[0] == "#"} - set(document.ids)
    assert missing == set()
    assert document.tags.count("svg") == len(FIGURES) + 1


def test_missing_studies_are_named() -> None:
    text = Document(render_page([], {})).text
    for kind in FIGURES:
        assert kind.title in text
    assert "the study power was not run (no power.json)" in text


def test_the_term_to_blame_is_shown_with_its_size() -> None:
    row = {"gamma": 2, "inside": False, "to_blame": "cache <b>", "to_blame_factor": 0.8251}
    row |= {f"{key}{end}": 1.5 for key in ("speedup", "predicted_speedup") for end in _ENDS}
    text = Document(render_page([], {"gpt_pair_times": {"rows": [row], "command": "x"}})).text
    assert "to blame factor 2 1.5 1.5 no cache <b> 0.8251" in text


def test_the_same_audits_give_the_same_page(failing_audit: AuditResult) -> None:
    assert render_page([failing_audit]) == render_page([failing_audit])


def test_without_the_libraries_it_says_which_extra(
    failing_audit: AuditResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("specverify.report.plots")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    text = Document(render_page([failing_audit], {})).text
    assert text.count("specdec-verify[report]") == 2  # the bounds, and the map that needs no study
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(MissingDependencyError, match=r"specdec-verify\[report\]"):
        render_page([failing_audit])


@pytest.mark.parametrize("verdict", list(Verdict))
def test_every_verdict_has_its_look(verdict: Verdict, passing_audit: AuditResult) -> None:
    page = render_page([msgspec.structs.replace(passing_audit, verdict=verdict)])
    assert f'class="verdict {verdict}"' in page
    assert f".verdict.{verdict}" in page
