"""Everything in reports/ that comes from studies and figures, made again: `make report`.

Runs the studies that take seconds, and draws. The long ones are read from their committed JSON:
each says in its own file how it is run. The same sources give the same bytes.

Usage: python simulations/make_report.py [--draw-only] [--out DIR]
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from pathlib import Path

from specverify.report.explorer import render_explorer
from specverify.report.figures import FIGURES, drawn_or_reason
from specverify.report.page import render_page
from specverify.report.plots.save import save
from specverify.report.studies import read_studies

SCRIPTS = Path(__file__).resolve().parent
REPORTS = SCRIPTS.parent / "reports"
QUICK_STUDIES = (
    "batch_crossover",
    "document_b_simulator",
    "emitted_length",
    "evidence_paths",
    "finite_length_bias",
    "gamma_policies",
    "heterogeneity",
    "sampled_blocks",
    "speedup_vs_theory",
)


def run_studies(folder: Path) -> None:
    """Run each quick study in a process of its own, as its usage says."""
    for name in QUICK_STUDIES:
        started = time.monotonic()
        script, output = SCRIPTS / f"{name}.py", folder / f"{name}.json"
        subprocess.run([sys.executable, script, output], check=True, stdout=subprocess.DEVNULL)
        print(f"{name}.json, {time.monotonic() - started:.1f} s", flush=True)


def draw(folder: Path) -> int:
    """Draw every figure and write the pages; returns how many figures could not be drawn."""
    studies = read_studies(folder)
    missing = 0
    for kind in FIGURES:
        figure, reason = drawn_or_reason(kind, studies)
        if figure is None:
            missing += 1
            print(f"no {kind.name}: {reason}", file=sys.stderr)
            continue
        print(", ".join(path.name for path in save(figure, folder / kind.name)), flush=True)
    for name, page in {"studies": render_page([], studies), "explorer": render_explorer()}.items():
        (folder / f"{name}.html").write_text(page, encoding="utf-8")
        print(f"{name}.html", flush=True)
    return missing


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--draw-only", action="store_true", help="take the studies as they are")
    parser.add_argument("--out", type=Path, default=REPORTS, help="folder to write into")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.out.resolve() != REPORTS:
        for path in REPORTS.glob("*.json"):
            shutil.copy(path, options.out)
    if not options.draw_only:
        run_studies(options.out)
    return 1 if draw(options.out) else 0


if __name__ == "__main__":
    sys.exit(main())
