"""The main job in about a minute: five audits and one measurement, each with its known outcome.

Audits the reference sampler, document B's decoder, a planted bug and the installed transformers
(its verification function, and its assisted generation on the shipped GPT pair), and measures that
pair. Writes a ``result.json`` for each, and exits 0 only when every outcome is as it must be.

Usage: python simulations/demo.py [--out DIR]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from specverify.audit.config import AuditConfig
from specverify.audit.forms import Form
from specverify.audit.progress import Progress
from specverify.audit.run import audit
from specverify.cli.measure import measurement_record, measurement_row, measurement_sentence
from specverify.cli.progress import Report, progress
from specverify.cli.shell import note, say, say_records
from specverify.models.measure import PairMeasurement, measure_pair
from specverify.models.pairs import load_pair
from specverify.report.jsonout import render_json
from specverify.results import AuditResult, Verdict

ROOT = Path(__file__).resolve().parent.parent
SEED = 0
GAMMA = 4


@dataclass(frozen=True, kw_only=True)
class Case:
    """An audit whose outcome is known.

    Attributes:
        name: Folder of its result.
        target: What is audited.
        form: How it is called.
        law: What the audit must say of the law.
        finding: Code of a finding that it must make, if any.
        tv: Largest total variation that a pass may leave open.
    """

    name: str
    target: str
    form: Form
    law: Verdict = Verdict.PASS
    finding: str | None = None
    tv: float = 0.05

    def is_as_it_must_be(self, result: AuditResult) -> bool:
        """Whether the audit came out right."""
        codes = {finding.code for finding in result.summary.findings}
        return result.summary.law is self.law and (self.finding is None or self.finding in codes)


CASES = (
    Case(name="reference", target="reference", form=Form.VERIFY),
    Case(
        name="document-b",
        target=f"{ROOT / 'simulations' / 'document_b_decoder.py'}:verify",
        form=Form.VERIFY,
        finding="no-bonus-token",
        tv=0.1,
    ),
    Case(
        name="planted-bug",
        target=f"{ROOT / 'tests' / 'planted' / 'biased.py'}:resample_from_target",
        form=Form.VERIFY,
        law=Verdict.FAIL,
    ),
    Case(name="transformers-verify", target="transformers", form=Form.VERIFY, tv=0.1),
    # A completion of real models takes milliseconds: fewer of them, hence a wider bound.
    Case(name="transformers-generate", target="transformers", form=Form.GENERATE, tv=0.2),
)


def run_case(case: Case, show: Report) -> AuditResult:
    """Audit one target, with progress."""

    def report(state: Progress) -> None:
        if state.stage == "sample":
            show(f"{case.name}, look {state.look + 1}", state.done, state.total, state.scenario)

    config = AuditConfig(form=case.form, tv=case.tv, workers=os.cpu_count() or 1)
    return audit(case.target, config=config, seed=SEED, progress=report, argv=sys.argv)


def row(case: Case, result: AuditResult, seconds: float) -> dict[str, str]:
    """One line of the closing table."""
    findings = [finding.code for finding in result.summary.findings]
    positions = [c.diagnosis.position for c in result.checks if c.diagnosis is not None]
    broken = [str(position) for position in positions if position is not None]
    return {
        "audit": case.name,
        "law": str(result.summary.law),
        "must": str(case.law),
        "speed": str(result.summary.efficiency),
        "breaks at": broken[0] if broken else "-",
        "findings": ", ".join(findings) or "-",
        "seconds": f"{seconds:.0f}",
        "as it must": "yes" if case.is_as_it_must_be(result) else "NO",
    }


def write(out: Path, name: str, text: str) -> None:
    """Write one result into its own folder."""
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "result.json").write_text(text, encoding="utf-8")


def run_audits(out: Path) -> bool:
    """Run every case, write its result, show the table; whether all came out right."""
    rows = []
    with progress() as show:
        for case in CASES:
            started = time.monotonic()
            result = run_case(case, show)
            write(out, case.name, render_json(result))
            rows.append(row(case, result, time.monotonic() - started))
    say_records(rows, title="audits")
    return all(line["as it must"] == "yes" for line in rows)


def run_measurement(out: Path) -> PairMeasurement:
    """Measure the shipped pair and show it beside the prediction."""
    note("measuring the shipped pair")
    result = measure_pair(load_pair(), gamma=GAMMA, max_new_tokens=64, rounds=2, seed=SEED)
    write(out, "measure", json.dumps(measurement_record(result), indent=2) + "\n")
    say("")
    say_records([measurement_row(result)], title="shipped GPT pair (95 % bounds in brackets)")
    say(measurement_sentence(result))
    return result


def is_plausible(result: PairMeasurement) -> bool:
    """Whether the count lies within twice the 95 % bounds of its prediction.

    A right sampler leaves them once in ten thousand machines; rounding differs between machines,
    and with it what a seed draws.
    """
    prediction, count = result.predicted_tokens_per_pass, result.tokens_per_pass
    return abs(count.value - prediction.value) <= prediction.high - prediction.low


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "demo")
    out = parser.parse_args().out
    fine = run_audits(out) & is_plausible(run_measurement(out))
    say("")
    say(f"results: {out}/*/result.json (`specverify report {out / 'reference'}` shows one again)")
    say("every outcome is as it must be" if fine else "SOME OUTCOME IS NOT AS IT MUST BE")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
