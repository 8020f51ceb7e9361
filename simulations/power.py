"""How many tokens until an alarm at 1e-3? The e-process, its parts, and the best fixed-n test.

Medians over runs, with distribution-free 95 % bounds of the median. ``oracle`` knows the wrong law;
``zoo`` is told the zoo's laws; ``left out`` is told all but the one at work (and its twins);
``alone`` is told none; ``trace`` sees draft ids, accept decisions and corrections, counted in
rounds, and is told no bug. ``fixed n`` is what a chi-square test of the best number of cells needs
for a power of 90 %, by its noncentral law.

Usage: python simulations/power.py [--quick] [--study NAME] [OUTPUT.json]
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from specverify.bugs.registry import ZOO
from specverify.distributions import (
    acceptance_probabilities,
    residual_distribution,
    total_variation,
)
from specverify.stats.cells import cell_sums, pool_cells
from specverify.stats.context import ContextBets
from specverify.stats.partitions import standard_partitions
from specverify.stats.power import noncentrality
from specverify.stats.synthetic import zipf_pair
from specverify.stats.trace import TraceBets
from specverify.warping import SamplingParams, warp_probs

DEFAULT_OUTPUT = Path(__file__).resolve().parent.parent / "reports" / "power.json"
SEED, LEVEL, VOCAB, SMALL_VOCAB = 37, 1e-3, 50257, 128
BAR = -math.log(LEVEL)
STUDIED = (
    "resample_from_target",
    "abs_residual",
    "accept_below_target",
    "draft_emitted",
    "temperature_on_target",
    "draft_temperature",
    "top_k_on_target",
    "argmax_draft",
    "reused_uniform",
)
MOST_TOKENS, MOST_ROUNDS = 40_000, 400


def zoo_laws(target: Any, draft: Any) -> dict[str, Any]:
    """Every closed-form law of the zoo here that is a law on the vocabulary and not the target."""
    laws = {"draft_emitted": draft}
    for name, bug in ZOO.items():
        if bug.row_law is None:
            continue
        law = np.asarray(bug.row_law(target, draft), dtype=np.float64)
        if abs(law.sum() - 1) < 1e-9 and float(total_variation(law, target)) > 1e-9:
            laws[name] = law
    return laws


def median(values: list[int]) -> dict[str, float]:
    """Median with order-statistic bounds of 95 %."""
    ranked, n = sorted(values), len(values)
    low = int(stats.binom.ppf(0.025, n, 0.5))
    high = min(int(stats.binom.isf(0.025, n, 0.5)), n - 1)
    return {"median": ranked[n // 2], "low": ranked[low], "high": ranked[high], "runs": n}


def first_alarm(path: Callable[[Any, Any], Any], law: Any, rng: np.random.Generator) -> int:
    """Tokens until the path passes the bar; one more than the most where it does not."""
    edges, counts, n, chunk = np.cumsum(law), np.zeros(len(law), dtype=np.int64), 0, 64
    while n < MOST_TOKENS:
        ids = np.searchsorted(edges, rng.random(chunk) * edges[-1], side="right")
        alarms = np.flatnonzero(path(ids, counts) >= BAR)
        if len(alarms):
            return n + int(alarms[0]) + 1
        counts += np.bincount(ids, minlength=len(law))
        n, chunk = n + chunk, min(2 * chunk, 4096)
    return MOST_TOKENS + 1


def oracle_path(law: Any, target: Any) -> Callable[[Any, Any], Any]:
    with np.errstate(divide="ignore"):
        gains = np.log(law) - np.log(target)
    return lambda ids, earlier: earlier[earlier > 0] @ gains[earlier > 0] + np.cumsum(gains[ids])


def bets_path(bets: ContextBets) -> Callable[[Any, Any], Any]:
    return lambda ids, earlier: bets.path(ids, earlier=earlier)


def best_fixed_n(law: Any, target: Any, draft: Any) -> int:
    """Least n at which a chi-square test has a power of 90 %, over five widths of cells by rank and
    the cells by target/draft; -1 if none does below 1e8.
    """
    best = math.inf
    for part in standard_partitions(target, draft)[:2]:
        lean = chi_square_distance(law, target, part.cells(np.arange(len(target))))
        needed = noncentrality(len(part.probs), LEVEL, 0.9) / max(lean, 1e-30)
        best = min(best, max(math.ceil(needed), math.ceil(10 / part.probs.min())))
    for width in (2, 16, 128, 1024, None):
        n = 20
        while n < min(best, 10**8):
            cells = pool_cells(target, n, max_cells=width)
            dof = int(cells.max())
            lean = n * chi_square_distance(law, target, cells)
            if dof and stats.ncx2.sf(stats.chi2.isf(LEVEL, dof), dof, lean) >= 0.9:
                best = n
            n = math.ceil(n * 1.05)
    return int(best) if best < 10**8 else -1


def chi_square_distance(law: Any, target: Any, cells: Any) -> float:
    right, wrong = cell_sums(target, cells), cell_sums(law, cells)
    return float(np.sum((wrong - right) ** 2 / right))


def structural(rng: np.random.Generator, quick: bool) -> list[dict[str, Any]]:
    """Tokens to an alarm at a large vocabulary."""
    target, draft = zipf_pair(VOCAB, rng)
    laws, runs, rows = zoo_laws(target, draft), 15 if quick else 200, []
    alone = ContextBets(target, draft)
    told = ContextBets(target, draft, alternatives=laws)
    for name in STUDIED:
        law = laws[name]
        others = {k: v for k, v in laws.items() if float(total_variation(v, law)) > 1e-6}
        paths = {
            "oracle": oracle_path(law, target),
            "zoo": bets_path(told),
            "left out": bets_path(ContextBets(target, draft, alternatives=others)),
            "alone": bets_path(alone),
        }
        row: dict[str, Any] = {"bug": name, "tv": float(total_variation(law, target))}
        for variant, path in paths.items():
            row[variant] = median([first_alarm(path, law, rng) for _ in range(runs)])
        row["fixed n"] = best_fixed_n(law, target, draft)
        row["zoo over oracle"] = row["zoo"]["median"] / row["oracle"]["median"]
        rows.append(row)
        print("  ", summary(row), flush=True)
    return rows


def stages(target: Any, draft: Any) -> dict[str, tuple[Any, Any, Any]]:
    """Draft law, accept probabilities and correction law of bugs as an engine runs them."""
    accept, residual = acceptance_probabilities(target, draft), residual_distribution(target, draft)
    cool = warp_probs(target, SamplingParams(temperature=0.9))
    believed = warp_probs(draft, SamplingParams(temperature=0.9))
    gap = np.abs(target - draft)
    shifted = (acceptance_probabilities(target, believed), residual_distribution(target, believed))
    cooled = (acceptance_probabilities(cool, draft), residual_distribution(cool, draft))
    return {
        "resample from target": (draft, accept, target),
        "absolute residual": (draft, accept, gap / gap.sum()),
        "accept min(1, p)": (draft, target, residual),
        "draft emitted": (draft, np.ones_like(draft), residual),
        "T = 0.9 on target": (draft, *cooled),
        "T = 0.9 on draft": (draft, *shifted),
    }


def traced(rng: np.random.Generator, quick: bool) -> list[dict[str, Any]]:
    """Rounds to an alarm where the accept trace is visible."""
    target, draft = zipf_pair(VOCAB, rng)
    bets, runs, rows = TraceBets(target, draft), 5 if quick else 200, []
    for name, engine in stages(target, draft).items():
        rounds = [traced_alarm(bets, engine, rng) for _ in range(runs)]
        rows.append({"bug": name, "rounds": median(rounds)})
        print("  ", rows[-1], flush=True)
    return rows


def traced_alarm(bets: TraceBets, engine: tuple[Any, Any, Any], rng: np.random.Generator) -> int:
    draft, accept, residual = engine
    tables = np.zeros((3, len(draft)), dtype=np.int64)
    edges = np.cumsum(draft), np.cumsum(residual)
    for done in range(1, MOST_ROUNDS + 1):
        token = int(np.searchsorted(edges[0], rng.random() * edges[0][-1], side="right"))
        if rng.random() < accept[token]:
            tables[0, token] += 1
        else:
            correction = np.searchsorted(edges[1], rng.random() * edges[1][-1], side="right")
            tables[1, token] += 1
            tables[2, int(correction)] += 1
        if bets.evidence(*tables).log_e >= BAR:
            return done
    return MOST_ROUNDS + 1


def subtle(rng: np.random.Generator, quick: bool) -> list[dict[str, Any]]:
    """Small deviations at a small vocabulary, looked at whenever the counts have grown by 3 %."""
    target, draft = zipf_pair(SMALL_VOCAB, rng)
    laws, runs, rows = zoo_laws(target, draft), 5 if quick else 100, []
    top = target * (1 + 1e-3 / (1 - target.max()))
    top[np.argmax(target)] = target.max() - 1e-3
    spread = target * (1 + 2e-3 * (2 * (rng.permutation(SMALL_VOCAB) % 2) - 1))
    wrong = {
        "T = 0.98 on target": warp_probs(target, SamplingParams(temperature=0.98)),
        "draft_in_bfloat16": laws["draft_in_bfloat16"],
        "tv 1e-3 on the top token": top / top.sum(),
        "tv 1e-3 spread": spread / spread.sum(),
    }
    told = ContextBets(target, draft, alternatives=laws | wrong)
    for name, law in wrong.items():
        row: dict[str, Any] = {"bug": name, "tv": float(total_variation(law, target))}
        row["zoo"] = median([counted_alarm(told, law, rng) for _ in range(runs)])
        row["fixed n"] = best_fixed_n(law, target, draft)
        rows.append(row)
        print("  ", row, flush=True)
    return rows


def counted_alarm(bets: ContextBets, law: Any, rng: np.random.Generator) -> int:
    counts, n = rng.multinomial(1000, law), 1000
    while bets.evidence(counts).log_e < BAR and n < 10**8:
        more = math.ceil(0.03 * n)
        counts, n = counts + rng.multinomial(more, law), n + more
    return n


def speed(rng: np.random.Generator, quick: bool) -> list[dict[str, Any]]:
    """Tokens and contexts a second of one core's time (other work on the machine not counted)."""
    rows = []
    target, draft = zipf_pair(SMALL_VOCAB, rng)
    bets = ContextBets(target, draft, alternatives=zoo_laws(target, draft))
    tokens = rng.choice(SMALL_VOCAB, size=10**6 if quick else 10**7, p=target)
    begin = time.process_time()
    bets.evidence(np.bincount(tokens, minlength=SMALL_VOCAB))
    seconds = time.process_time() - begin
    rows.append({"what": "tokens/s, one context, V = 128", "value": len(tokens) / seconds})
    target, draft = zipf_pair(VOCAB, rng)
    counts = rng.multinomial(1000, target)
    laws = zoo_laws(target, draft)
    for known in ({}, laws):
        times = []
        for _ in range(5 if quick else 40):
            begin = time.process_time()
            ContextBets(target, draft, alternatives=known).evidence(counts)
            times.append(time.process_time() - begin)
        about = f"contexts/s, V = 50257, {len(known)} known laws, 1000 tokens each"
        rows.append({"what": about, "value": 1 / float(np.median(times))})
    times, rows_at = [], rng.choice(VOCAB, size=8, p=target)
    for _ in range(3 if quick else 20):
        begin = time.process_time()
        view_one_each(target, draft, rows_at)
        times.append((time.process_time() - begin) / len(rows_at))
    rows.append({"what": "token views/s, V = 50257", "value": 1 / float(np.median(times))})
    for row in rows:
        print("  ", row, flush=True)
    return rows


def view_one_each(target: Any, draft: Any, tokens: Any) -> None:
    from specverify.stats.views import view_tokens

    tile = (len(tokens), 1)
    view_tokens(np.tile(target, tile), tokens, draft_probs=np.tile(draft, tile))


def summary(row: dict[str, Any]) -> dict[str, Any]:
    return {k: v["median"] if isinstance(v, dict) else v for k, v in row.items()}


STUDIES = (structural, traced, subtle, speed)


def main(output: Path, *, quick: bool, only: str | None) -> None:
    content: dict[str, Any] = {"study": "power", "level": LEVEL, "quick": quick, "seed": SEED}
    if only and output.exists():
        content = json.loads(output.read_text())
    generators = np.random.default_rng(SEED).spawn(len(STUDIES))
    for study, rng in zip(STUDIES, generators, strict=True):
        if only not in (None, study.__name__):
            continue
        begin = time.perf_counter()
        print(study.__name__, flush=True)
        content[study.__name__] = study(rng, quick)
        print(f"  {time.perf_counter() - begin:.1f} s", flush=True)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Tokens until an alarm, written to a report.")
    parser.add_argument("output", nargs="?", type=Path, default=DEFAULT_OUTPUT)
    parser.add_argument("--quick", action="store_true", help="few runs, about a minute")
    names = [study.__name__ for study in STUDIES]
    parser.add_argument("--study", choices=names, help="redo one, keep the report's others")
    options = parser.parse_args()
    main(options.output, quick=options.quick, only=options.study)
