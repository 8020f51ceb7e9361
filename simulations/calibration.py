"""Do the statistics keep what they promise? False alarms, coverage and power, counted.

Every rate stands with its exact (Clopper-Pearson) 95 % interval. The e-processes are watched after
every single token. ``--quick`` takes seconds and proves that the study runs; the committed report
is the full study's.

Usage: python simulations/calibration.py [--quick] [OUTPUT.json]
"""

from __future__ import annotations

import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from specverify.bugs.registry import ZOO
from specverify.stats.cells import cell_sums, pool_cells
from specverify.stats.context import ContextBets
from specverify.stats.goodness import pearson, pooled_chi_square
from specverify.stats.hazard import acceptance_test
from specverify.stats.intervals import clopper_pearson, clustered_interval
from specverify.stats.lengths import emitted_length_test
from specverify.stats.power import detectable_tv, tv_upper_bound
from specverify.stats.stream import StreamBets
from specverify.stats.synthetic import zipf_pair
from specverify.stats.views import view_tokens

DEFAULT_OUTPUT = Path(__file__).resolve().parent.parent / "reports" / "calibration.json"
SEED, LEVELS = 31, (1e-3, 1e-4)
KNOWN = ("resample_from_target", "abs_residual", "accept_below_target", "temperature_on_target")


def rate(hits: int, runs: int, **about: Any) -> dict[str, Any]:
    low, high = clopper_pearson(hits, runs)
    return {**about, "hits": hits, "runs": runs, "rate": hits / runs, "low": low, "high": high}


def known_laws(target: Any, draft: Any) -> dict[str, Any]:
    laws = {"draft_emitted": draft}
    for name in KNOWN:
        row_law = ZOO[name].row_law
        assert row_law is not None
        laws[name] = row_law(target, draft)
    return laws


def chi_square_level(rng: np.random.Generator, quick: bool) -> list[dict[str, Any]]:
    """False alarms of Pearson's test at 1e-3, raw and pooled to 10."""
    rows = []
    for size, n in ((128, 1000), (4096, 1000), (50257, 10_000)):
        target, _ = zipf_pair(size, rng)
        runs = 300 if quick else 5000
        raw = pooled = 0
        for _ in range(runs):
            counts = rng.multinomial(n, target)
            raw += float(stats.chi2.sf(pearson(counts, n * target), size - 1)) <= 1e-3
            pooled += pooled_chi_square(counts, target).p_value <= 1e-3
        rows.append(rate(raw, runs, vocab=size, n=n, cells="raw"))
        rows.append(rate(pooled, runs, vocab=size, n=n, cells="pooled to 10"))
    return rows


def repeated_looks(rng: np.random.Generator, quick: bool) -> list[dict[str, Any]]:
    """What looking again and again does to a chi-square test at 1e-3."""
    target, _ = zipf_pair(128, rng)
    runs, rows = 300 if quick else 2000, []
    for looks in (1, 10, 100):
        cells = [pool_cells(target, 100 * (look + 1)) for look in range(looks)]
        alarms = 0
        for _ in range(runs):
            counts = np.cumsum(rng.multinomial(100, target, size=looks), axis=0)
            alarms += any(_alarm(c, ids, target) for c, ids in zip(counts, cells, strict=True))
        rows.append(rate(alarms, runs, looks=looks))
    return rows


def _alarm(counts: Any, cells: Any, law: Any) -> bool:
    observed, expected = cell_sums(counts, cells), counts.sum() * cell_sums(law, cells)
    statistic = pearson(observed, expected)
    return bool(statistic >= stats.chi2.isf(1e-3, len(observed) - 1))


def watched_contexts(rng: np.random.Generator, quick: bool) -> list[dict[str, Any]]:
    """Right engines on one context, watched after every token."""
    rows = []
    audits, tokens = (200, 200) if quick else (10_000, 500)
    for size in (8, 128, 4096, 50257):
        target, draft = zipf_pair(size, rng)
        bets = ContextBets(target, draft, alternatives=known_laws(target, draft))
        edges = np.cumsum(target)
        best = np.empty(audits)
        for audit in range(audits):
            ids = np.searchsorted(edges, rng.random(tokens) * edges[-1], side="right")
            best[audit] = bets.path(ids).max()
        rows += _watched(best, vocab=size, tokens=tokens, contexts="one")
    return rows


def watched_streams(rng: np.random.Generator, quick: bool) -> list[dict[str, Any]]:
    """Right engines whose every token has a context of its own, watched after every token."""
    audits, tokens, size = (50, 100, 128) if quick else (2000, 300, 128)
    pool = [zipf_pair(size, rng) for _ in range(300)]
    targets, drafts = (np.array(laws) for laws in zip(*pool, strict=True))
    wrong: dict[str, list[Any]] = {name: [] for name in known_laws(*pool[0])}
    for pair in pool:
        for name, law in known_laws(*pair).items():
            wrong[name].append(law)
    tables = {name: np.array(laws) for name, laws in wrong.items()}
    edges = np.cumsum(targets, axis=1)
    best = np.empty(audits)
    for audit in range(audits):
        rows = rng.integers(0, len(pool), size=tokens)
        ids = (edges[rows] < rng.random(tokens)[:, None]).sum(axis=1).clip(max=size - 1)
        laws = {name: table[rows] for name, table in tables.items()}
        views = view_tokens(targets[rows], ids, draft_probs=drafts[rows], alternatives=laws)
        best[audit] = StreamBets(tuple(laws), groups=3).update(views, np.arange(tokens) % 3).max()
    return _watched(best, vocab=size, tokens=tokens, contexts="300 mixed, 3 labels")


def _watched(best: Any, **about: Any) -> list[dict[str, Any]]:
    return [
        rate(int(np.sum(best >= -math.log(level))), len(best), level=level, **about)
        for level in LEVELS
    ]


def distances(rng: np.random.Generator, quick: bool) -> list[dict[str, Any]]:
    """Power at the detectable distance, and coverage of the upper bound there."""
    rows, n, runs = [], 20_000, 500 if quick else 10_000
    for cells in (2, 16, 128):
        law = np.full(cells, 1 / cells)
        tv = detectable_tv(n, cells, 1e-3, 0.95)
        wrong = law * (1 + 2 * tv * np.where(np.arange(cells) % 2, 1.0, -1.0))
        counts = rng.multinomial(n, wrong, size=runs)
        found = ((counts - n * law) ** 2 / (n * law)).sum(axis=1)
        power = int(np.sum(found >= stats.chi2.isf(1e-3, cells - 1)))
        rows.append(rate(power, runs, cells=cells, tv=tv, what="power, stated 0.95"))
        bounded = found[: runs // 5]
        covered = sum(tv_upper_bound(float(one), cells - 1, n) >= tv for one in bounded)
        about = {"cells": cells, "tv": tv, "what": "coverage of the 95 % upper bound"}
        rows.append(rate(covered, len(bounded), **about))
    return rows


def acceptance(rng: np.random.Generator, quick: bool) -> list[dict[str, Any]]:
    """Right engines whose alpha varies by round: lengths, hazards and intervals."""
    runs, gamma, rounds = 100 if quick else 2000, 4, 2000
    hits = dict.fromkeys(("hazard", "length by round", "length, pooled alpha"), 0)
    covered = {"clustered by prompt": 0, "naive binomial": 0}
    for _ in range(runs):
        alphas = rng.beta(8, 2, size=rounds)
        powers = alphas[:, None] ** np.arange(gamma + 1)
        pmfs = powers * np.append(np.tile(1 - alphas, (gamma, 1)), np.ones((1, rounds)), axis=0).T
        lengths = (rng.random(rounds)[:, None] > np.cumsum(pmfs, axis=1)[:, :-1]).sum(axis=1)
        tested = np.minimum(lengths + 1, gamma)
        flags = np.arange(gamma) < lengths[:, None]
        mask = np.arange(gamma) < tested[:, None]
        chances = np.tile(alphas[:, None], gamma)[mask]
        hits["hazard"] += acceptance_test(flags[mask], chances).p_value <= 1e-3
        hits["length by round"] += emitted_length_test(lengths, pmfs).p_value <= 1e-3
        mean = lengths.sum() / tested.sum()
        pooled = mean ** np.arange(gamma + 1) * np.append(np.full(gamma, 1 - mean), 1.0)
        hits["length, pooled alpha"] += emitted_length_test(lengths, pooled).p_value <= 1e-3
        prompts = rng.beta(8, 2, size=60)
        trials = rng.integers(50, 150, size=60)
        accepted = rng.binomial(trials, prompts)
        _, low, high = clustered_interval(accepted.astype(float), trials.astype(float))
        covered["clustered by prompt"] += low <= 0.8 <= high
        low, high = clopper_pearson(int(accepted.sum()), int(trials.sum()))
        covered["naive binomial"] += low <= 0.8 <= high
    rows = [rate(count, runs, what=f"false alarms at 1e-3: {k}") for k, count in hits.items()]
    return rows + [rate(c, runs, what=f"coverage of 95 %: {k}") for k, c in covered.items()]


STUDIES = (
    chi_square_level,
    repeated_looks,
    watched_contexts,
    watched_streams,
    distances,
    acceptance,
)


def main(output: Path, *, quick: bool) -> None:
    content: dict[str, Any] = {"study": "calibration", "quick": quick, "seed": SEED, "seconds": {}}
    generators = np.random.default_rng(SEED).spawn(len(STUDIES))
    for study, rng in zip(STUDIES, generators, strict=True):
        begin = time.perf_counter()
        content[study.__name__] = study(rng, quick)
        content["seconds"][study.__name__] = round(time.perf_counter() - begin, 1)
        print(study.__name__, f"{content['seconds'][study.__name__]} s", flush=True)
        for row in content[study.__name__]:
            print("  ", {k: f"{v:.4g}" if isinstance(v, float) else v for k, v in row.items()})
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    arguments = [argument for argument in sys.argv[1:] if argument != "--quick"]
    main(Path(arguments[0]) if arguments else DEFAULT_OUTPUT, quick="--quick" in sys.argv)
