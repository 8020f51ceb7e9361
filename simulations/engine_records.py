"""What the published audit keeps of an audit's result, and its table for people."""

from __future__ import annotations

import json
from typing import Any

from engine_faults import faults_table

__all__ = ["confirmed", "markdown", "summarise"]

_HEAD = (
    "engine",
    "version",
    "law",
    "exact TV",
    "TV at most",
    "efficiency",
    "tokens/pass (expected)",
    "accepted",
    "finding",
    "s",
)


def summarise(result: dict[str, Any]) -> dict[str, Any]:
    """A record of one ``result.json``.

    Args:
        result: Content of the file.

    Returns:
        Verdicts; the largest total variation that was found exactly, and the largest bound of the
        sampled scenarios; tokens per pass of each scenario; findings, and the failing checks.
    """
    law = [check for check in result["checks"] if check["family"] == "law" and check["tv"]]
    exact = [c["tv"]["low"] for c in law if c["name"].startswith("exact[") and _decided(c)]
    found = (c["tv"]["high"] for c in law if c["name"].startswith("token["))
    bounds = [bound for bound in found if bound is not None]
    passes = {
        name: (found["tokens_per_pass"], found.get("expected_tokens_per_pass"))
        for name, found in (result["acceptance"] or {}).items()
        if found.get("tokens_per_pass")
    }
    summary = result["summary"]
    return {
        "law": summary["law"],
        "efficiency": summary["efficiency"],
        "contract": summary["contract"],
        "headline": summary["headline"],
        "exact_tv": max(exact, default=None),
        "exact_scenarios": len(exact),
        "tv_bound": max(bounds, default=None),
        "tokens_per_pass": passes,
        "drafts": {
            name: (found["accepted"], found["drafted"])
            for name, found in (result["acceptance"] or {}).items()
            if "drafted" in found
        },
        "accepted": _accepted(result["acceptance"] or {}),
        "findings": summary["findings"],
        "failing": [_failing(check) for check in result["checks"] if _failed(check)],
        "seconds": round(result["timing"]["wall"], 1),
        "python": result["environment"]["python"],
        "packages": result["environment"]["packages"],
        "details": result["target"].get("details"),
    }


def confirmed(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """What both of two audits under independent seeds fail, by name of the check."""
    names = [{check["name"] for check in record["failing"]} for record in (first, second)]
    return {
        "law": second["law"],
        "efficiency": second["efficiency"],
        "headline": second["headline"],
        "checks_failing_twice": sorted(names[0] & names[1]),
    }


def markdown(records: dict[str, dict[str, Any]]) -> str:
    """The table, each audit's command, and every failure with its smallest case."""
    wrong = {name: record for name, record in records.items() if "expect" in record}
    records = {name: record for name, record in records.items() if name not in wrong}
    lines = [
        "# Released engines, audited",
        "",
        "Written by `make engines`. Exact TV: the largest total variation among the scenarios that",
        "were traced path by path; TV at most: the largest bound among the sampled scenarios.",
        "Tokens a pass: of the first scenario, beside what its laws make one expect. Accepted: the",
        "share of its drafts, by position where the accept decisions are seen. Where nothing is",
        "expected (-), efficiency says no more than that something was drafted. A failure is a",
        "fault only where an audit under another seed failed the same checks; error: an ordinary",
        "call went wrong.",
        "",
        f"| {' | '.join(_HEAD)} |",
        f"|{'---|' * len(_HEAD)}",
        *(f"| {' | '.join(_cells(name, record))} |" for name, record in records.items()),
        *faults_table(wrong),
        "",
        "## Commands",
        "",
    ]
    for name, record in records.items():
        lines += [f"- {name}: `{record['install']}`, then `{record['command']}`"]
    for name, record in records.items():
        lines += _fault(name, record)
    return "\n".join(lines) + "\n"


def _cells(name: str, record: dict[str, Any]) -> list[str]:
    if "problem" in record:
        return [name, record["version"] or "-", "not run", *["-"] * 5, record["problem"], "-"]
    again = record.get("again")
    misbehaved = record.get("contract") == "error"
    twice = "" if again is None else f" (again: {again['law']} and {again['efficiency']})"
    codes = ["misbehaved"] if misbehaved else []
    found = "; ".join([*codes, *(finding["code"] for finding in record["findings"])])
    found = found or (record["headline"] if record["failing"] else "-")
    passes = next(iter(record["tokens_per_pass"].values()), None)
    accepted: list[float] = next(iter(record["accepted"].values()), [])
    return [
        name,
        record["version"],
        "error" if misbehaved and record["law"] not in ("pass", "fail") else record["law"],
        _number(record["exact_tv"], ".1e"),
        _number(record["tv_bound"], ".4f"),
        record["efficiency"],
        "-" if passes is None else f"{passes[0]:.4f} ({_number(passes[1], '.4f')})",
        " ".join(f"{share:.2f}" for share in accepted) or "-",
        found + twice,
        f"{record['seconds']:.0f}",
    ]


def _accepted(acceptance: dict[str, Any]) -> dict[str, list[float]]:
    """Share of the drafts that were accepted in each scenario: by position, or in all."""
    shares = {
        name: found.get("accepted_over_tested")
        or [found.get("accepted_over_drafted", found.get("alpha"))]
        for name, found in acceptance.items()
    }
    return {name: found for name, found in shares.items() if None not in found}


def _fault(name: str, record: dict[str, Any]) -> list[str]:
    if not record.get("failing"):
        return []
    lines = ["", f"## {name} {record['version']}", "", record["headline"], ""]
    lines += [f"- {finding['code']}: {finding['text']}" for finding in record["findings"]]
    if "again" in record:
        names = ", ".join(record["again"]["checks_failing_twice"]) or "none"
        lines += ["", f"Failing under another seed too: {names}."]
    for check in record["failing"][:3]:
        lines += ["", f"`{check['name']}`: {check['message']}"]
        if check["case"] is not None:
            lines += ["", "```json", json.dumps(check["case"]), "```"]
    return lines


def _failing(check: dict[str, Any]) -> dict[str, Any]:
    kept = ("name", "verdict", "message", "diagnosis", "tv", "p_value", "n", "case", "replay")
    return {key: check[key] for key in kept}


def _failed(check: dict[str, Any]) -> bool:
    return check["verdict"] in ("fail", "error")


def _decided(check: dict[str, Any]) -> bool:
    return check["verdict"] in ("pass", "fail")


def _number(value: float | None, shape: str) -> str:
    return "-" if value is None else format(value, shape)
