"""Third-party verification steps, traced exactly and compared with samples of the same code.

Each case draws its drafts, calls the library, and returns the emitted tokens. Its exact law is
found by the tracer, or refused by name; the same callable, run with real randomness 200,000 times,
must then agree with that law by a chi-square test. Only what is installed is run; reports are
merged by name, so that every library may live in an environment of its own.

Usage: python simulations/exact_libraries.py [--only LIBRARY ...] [--samples N] [--out DIRECTORY]
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import importlib.util
import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from specverify.errors import UnsupportedRandomness
from specverify.exact import ExactLaw, enumerate_law
from specverify.exact.completion import completed_excess
from specverify.stats.goodness import pooled_chi_square

DEFAULT_OUTPUT = Path(__file__).resolve().parent.parent / "reports"
SEED, LEVEL, SAMPLES = 11, 1e-6, 200_000
# The libraries compute in float32.
ROUNDING = 1e-6
VOCAB, GAMMA = 3, 2

# Rows that differ by position: identical ones would hide a row that is off by one.
TARGET = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.25, 0.15, 0.6]])
DRAFT = torch.tensor([[0.2, 0.3, 0.5], [0.55, 0.25, 0.2]])

Block: TypeAlias = list[int]
Run: TypeAlias = Callable[[int], list[Block]]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One function of a library.

    Attributes:
        package: What pip installs.
        module: What it is imported as.
        function: What is audited.
        make: Imports it and returns ``run(batch)``, which verifies that many blocks.
        batch: Blocks in a call when sampling; the tracer takes one.
    """

    package: str
    module: str
    function: str
    make: Callable[[], Run]
    batch: int = 1

    @property
    def name(self) -> str:
        """What the report calls it."""
        return f"{self.package}: {self.function}"


def load(module: str) -> Any:
    """A module of an audited library, which need not be there."""
    return importlib.import_module(module)


def drafts(batch: int) -> Tensor:
    """Drafted ids, shape ``(batch, gamma)``."""
    rows = [torch.multinomial(row.expand(batch, -1), 1) for row in DRAFT]
    return torch.cat(rows, dim=1)


class RowsModel:
    """A causal model whose logits depend on the position alone."""

    def __init__(self, rows: Tensor) -> None:
        self._logits = rows.log()

    def __call__(self, ids: Tensor, **options: Any) -> Any:
        """Logits of each position, shape ``(batch, len, vocab)``."""
        return SimpleNamespace(logits=self._logits[: ids.shape[1]].expand(len(ids), -1, -1))


def tile(rows: Tensor, batch: int) -> Tensor:
    return rows.log().expand(batch, -1, -1)


def flashspec_step() -> Run:
    rejection_step = load("flashspec.sampling.rejection").rejection_step

    def run(batch: int) -> list[Block]:
        tokens = drafts(batch)
        found = rejection_step(tokens, tile(DRAFT, batch), tile(TARGET, batch))
        pairs = zip(tokens.tolist(), found.tolist(), strict=True)
        return [[*ids[:accepted], last] for ids, (accepted, last) in pairs]

    return run


def flashspec_sample() -> Run:
    rejection_sample = load("flashspec.sampling.rejection").rejection_sample

    def run(batch: int) -> list[Block]:
        tokens = drafts(batch)
        rows = tile(DRAFT, batch), tile(TARGET[:-1], batch)
        emitted, _, _ = rejection_sample(tokens, *rows, tokens, GAMMA)
        # It leaves the bonus token to its caller.
        return [[token for token in ids if token >= 0] for ids in emitted.tolist()]

    return run


def economize_verify() -> Run:
    verifier = object.__new__(load("economize.decoding.verifiers").RejectionVerifier)
    selector = load("economize.decoding.selectors").TopPSampler(temperature=1.0, top_p=1.0)
    history = torch.zeros(8, dtype=torch.int64)

    def run(batch: int) -> list[Block]:
        tokens = drafts(batch)[0].tolist()
        accepted, last = verifier.verify(TARGET.log(), tokens, DRAFT, selector, history, 1)
        return [[*tokens[:accepted], last]]

    return run


def economize_batch() -> Run:
    draft_of = load("economize.decoding.protocols").Draft
    verifier = object.__new__(load("economize.decoding.verifiers").RejectionVerifier)
    selector = load("economize.decoding.selectors").TopPSampler(temperature=1.0, top_p=1.0)

    def run(batch: int) -> list[Block]:
        tokens = drafts(batch)
        draft = draft_of(tokens, [GAMMA] * batch, None, DRAFT.expand(batch, -1, -1))
        history = torch.zeros(batch, 8, dtype=torch.int64)
        found = verifier.verify_batch(tile(TARGET, batch), draft, selector, history, [1] * batch)
        rows = zip(tokens.tolist(), *(part.tolist() for part in found), strict=True)
        return [[*ids[:accepted], last] for ids, accepted, last in rows]

    return run


def seqspec_standard() -> Run:
    step = load("seqspecdecod.standard_sd").standard_speculative_step

    models, start = (RowsModel(DRAFT), RowsModel(TARGET)), torch.zeros(1, 1, dtype=torch.int64)

    def run(batch: int) -> list[Block]:
        heat = {"draft_temperature": 1.0, "target_temperature": 1.0}
        emitted, _, _ = step(*models, start, gamma=GAMMA, **heat)
        return [emitted[0, 1:].tolist()]

    return run


def rotalabs_rejection() -> Run:
    rejection_sample = load("rotalabs_accel.speculative").rejection_sample

    def run(batch: int) -> list[Block]:
        emitted: Block = []
        for place, token in enumerate(drafts(1)[0].tolist()):
            odds = TARGET[place, token], DRAFT[place, token], torch.tensor(token)
            accepted, chosen = rejection_sample(*odds, TARGET[place].log())
            emitted.append(int(chosen))
            if not accepted:
                return [emitted]
        return [[*emitted, int(torch.multinomial(TARGET[-1], 1))]]

    return run


def specdec_verify() -> Run:
    decoder = object.__new__(load("specdec.decoder").SpecDecoder)
    decoder.device, decoder.big_model, decoder.small_model = (
        "cpu",
        RowsModel(TARGET),
        RowsModel(DRAFT),
    )
    start = torch.zeros(1, 1, dtype=torch.int64)

    def run(batch: int) -> list[Block]:
        tokens, rows = decoder.generate_small(start, GAMMA)
        return [decoder.verify(start, tokens, rows)]

    return run


CASES = (
    Case(
        package="flashspec",
        module="flashspec",
        function="rejection_step",
        make=flashspec_step,
        batch=1000,
    ),
    Case(
        package="flashspec",
        module="flashspec",
        function="rejection_sample",
        make=flashspec_sample,
        batch=1000,
    ),
    Case(
        package="economize",
        module="economize",
        function="RejectionVerifier.verify_batch",
        make=economize_batch,
        batch=1000,
    ),
    Case(
        package="economize",
        module="economize",
        function="RejectionVerifier.verify",
        make=economize_verify,
    ),
    Case(
        package="sequential-speculative-decoding",
        module="seqspecdecod",
        function="standard_speculative_step",
        make=seqspec_standard,
    ),
    Case(
        package="rotalabs-accel",
        module="rotalabs_accel",
        function="rejection_sample",
        make=rotalabs_rejection,
    ),
    Case(package="specdec", module="specdec", function="SpecDecoder.verify", make=specdec_verify),
)


def sampled(run: Run, *, samples: int, batch: int) -> Counter[tuple[int, ...]]:
    """How often each block came out of real runs."""
    torch.manual_seed(SEED)
    counts: Counter[tuple[int, ...]] = Counter()
    for _ in range(samples // batch):
        counts.update(map(tuple, run(batch)))
    return counts


def agreement(law: ExactLaw, counts: Counter[tuple[int, ...]]) -> dict[str, Any]:
    """Chi-square of samples against the exact law; an outcome outside of it is a disagreement."""
    outcomes = sorted(law.probabilities)
    observed = np.array([counts[outcome] for outcome in outcomes])
    probs = np.array([law.probabilities[outcome] for outcome in outcomes])
    test = pooled_chi_square(observed, probs / probs.sum())
    outside = counts.total() - int(observed.sum())
    agrees = outside == 0 and test.p_value >= LEVEL
    return {
        "samples": counts.total(),
        "statistic": test.statistic,
        "dof": test.dof,
        "p_value": test.p_value,
        "outside": outside,
        "agrees": agrees,
    }


def audit_case(case: Case, samples: int) -> dict[str, Any]:
    """One row of the table."""
    versions = {name: importlib.metadata.version(name) for name in (case.package, "torch")}
    row: dict[str, Any] = {"library": case.package, "function": case.function, "versions": versions}
    run = case.make()
    try:
        law = enumerate_law(lambda: run(1)[0])
    except UnsupportedRandomness as error:
        return row | {"verdict": "refused", "reason": f"{error}"}
    excess = completed_excess(
        law.probabilities, lambda s: TARGET[len(s)].double().numpy(), GAMMA + 1
    )
    low = excess + law.exception_mass
    start = time.process_time()
    row |= agreement(law, sampled(run, samples=samples, batch=case.batch))
    return row | {
        "tv_low": low,
        "tv_high": min(1.0, low + law.unexplored_mass),
        "paths": law.paths,
        "seconds_traced": round(law.seconds, 2),
        "seconds_sampled": round(time.process_time() - start, 1),
        "verdict": "biased" if low > ROUNDING else "lossless" if law.complete else "open",
    }


def markdown(rows: dict[str, dict[str, Any]]) -> str:
    """The report for people."""
    lines = [
        "# Third-party verifiers, traced exactly",
        "",
        f"V = {VOCAB}, gamma = {GAMMA}, float32, rows that differ by position; biased above",
        f"{ROUNDING:g}. `agreement`: chi-square of real runs of the same code against the exact",
        f"law, level {LEVEL:g}, seed {SEED}.",
        "",
        "| function | versions | TV | paths | CPU s | verdict | samples | agreement |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, row in sorted(rows.items()):
        versions = ", ".join(row["versions"].values())
        if row["verdict"] == "refused":
            lines.append(f"| {name} | {versions} | - | - | - | refused: {row['reason']} | - | - |")
            continue
        word = "agrees" if row["agrees"] else "DISAGREES"
        lines.append(
            f"| {name} | {versions} | {row['tv_low']:.1e} | {row['paths']} | "
            f"{row['seconds_traced']} | {row['verdict']} | {row['samples']} | "
            f"{word}, p = {row['p_value']:.2g} |"
        )
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> dict[str, dict[str, Any]]:
    """Run what is installed and merge it into the reports."""
    parser = argparse.ArgumentParser(description="Trace third-party verifiers and sample them.")
    parser.add_argument("--only", nargs="*", default=[], help="packages by name")
    parser.add_argument("--samples", type=int, default=SAMPLES, help="real runs of each function")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUTPUT, help="directory of the reports")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    report = options.out / "exact_libraries.json"
    rows: dict[str, dict[str, Any]] = json.loads(report.read_text()) if report.exists() else {}
    for case in CASES:
        if options.only and case.package not in options.only:
            continue
        if importlib.util.find_spec(case.module) is None:
            print(f"missing: pip install {case.package}", file=sys.stderr)
            continue
        rows[case.name] = audit_case(case, options.samples)
        print(case.name, json.dumps(rows[case.name]), file=sys.stderr, flush=True)
        options.out.mkdir(parents=True, exist_ok=True)
        report.write_text(json.dumps(rows, indent=1, sort_keys=True) + "\n")
        (options.out / "exact_libraries.md").write_text(markdown(rows))
    return rows


if __name__ == "__main__":
    main()
