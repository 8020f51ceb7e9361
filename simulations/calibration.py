"""Do the statistics keep what they promise? False alarms, coverage and power, counted.

Every rate stands with its exact (Clopper-Pearson) 95 % interval. The e-processes are told the
zoo's laws and are watched after every single token. Each study has a seed of its own, so one can
be redone alone (``--study NAME``; its result is merged into the report) and the number of
processes changes nothing. ``--quick`` takes a minute and proves that the studies run; it writes no
report unless it is told where to.

Usage: python simulations/calibration.py [--quick] [--study NAME] [--workers N] [OUTPUT.json]
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import cache, partial
from typing import Any

import numpy as np
from scipy import stats
from studies import Asked, Report, Rows, Setting

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
from specverify.stats.views import TokenViews, view_context

SEED, LEVELS = 20261129, (1e-3, 1e-4)
VOCABS = (8, 128, 4096, 50257)
ASKED, MOST_ALARMS = 10_000, {1e-3: 4, 1e-4: 1}


def rate(hits: int, runs: int, **about: Any) -> dict[str, Any]:
    low, high = clopper_pearson(hits, runs)
    return {**about, "hits": hits, "runs": runs, "rate": hits / runs, "low": low, "high": high}


def draw(law: Any, size: int, rng: np.random.Generator) -> Any:
    """Tokens from a law; rounding at the end of its edges never makes an excluded one."""
    edges = np.cumsum(law)
    return np.searchsorted(edges, rng.random(size) * edges[-1], side="right")


@cache
def zoo_names() -> tuple[str, ...]:
    """Bugs of the zoo whose closed-form law is one on the vocabulary."""
    target, draft = zipf_pair(50, np.random.default_rng(0))
    laws = {name: bug.row_law(target, draft) for name, bug in ZOO.items() if bug.row_law}
    return tuple(name for name, law in laws.items() if abs(np.sum(law) - 1) < 1e-9)


def zoo_laws(target: Any, draft: Any) -> dict[str, Any]:
    laws = {"draft_emitted": draft}
    for name in zoo_names():
        row_law = ZOO[name].row_law
        assert row_law is not None
        laws[name] = row_law(target, draft)
    return laws


def chi_square_level(setting: Setting) -> Rows:
    """False alarms of Pearson's test at 1e-3, raw and pooled to 10."""
    rows, rng = [], setting.rng()
    for size, n in ((128, 1000), (4096, 1000), (50257, 10_000)):
        target, _ = zipf_pair(size, rng)
        runs = 300 if setting.quick else 5000
        found = setting.spread(partial(_chi_squares, target, n), runs)
        raw, pooled = (sum(part) for part in zip(*found, strict=True))
        rows.append(rate(raw, runs, vocab=size, n=n, cells="raw"))
        rows.append(rate(pooled, runs, vocab=size, n=n, cells="pooled to 10"))
    return rows


def _chi_squares(target: Any, n: int, runs: int, rng: np.random.Generator) -> tuple[int, int]:
    raw = pooled = 0
    cells = pool_cells(target, n)
    for _ in range(runs):
        counts = np.bincount(draw(target, n, rng), minlength=len(target))
        raw += float(stats.chi2.sf(pearson(counts, n * target), len(target) - 1)) <= 1e-3
        pooled += pooled_chi_square(counts, target, cells=cells).p_value <= 1e-3
    return raw, pooled


def repeated_looks(setting: Setting) -> Rows:
    """What looking again and again does to a chi-square test at 1e-3."""
    target, _ = zipf_pair(128, setting.rng())
    runs, rows = 300 if setting.quick else 2000, []
    for looks in (1, 10, 100):
        alarms = sum(setting.spread(partial(_looks, target, looks), runs))
        rows.append(rate(alarms, runs, looks=looks))
    return rows


def _looks(target: Any, looks: int, runs: int, rng: np.random.Generator) -> int:
    cells = [pool_cells(target, 100 * (look + 1)) for look in range(looks)]
    alarms = 0
    for _ in range(runs):
        counts = np.cumsum(rng.multinomial(100, target, size=looks), axis=0)
        alarms += any(_alarm(c, ids, target) for c, ids in zip(counts, cells, strict=True))
    return alarms


def _alarm(counts: Any, cells: Any, law: Any) -> bool:
    observed, expected = cell_sums(counts, cells), counts.sum() * cell_sums(law, cells)
    statistic = pearson(observed, expected)
    return statistic >= _chi_square_bar(len(observed) - 1)


@cache
def _chi_square_bar(dof: int) -> float:
    return float(stats.chi2.isf(1e-3, dof))


def watched_contexts(setting: Setting) -> Rows:
    """Right engines on one context, watched after every token."""
    rows, rng = [], setting.rng()
    audits, tokens = (200, 200) if setting.quick else (40_000, 500)
    for size in VOCABS:
        target, draft = zipf_pair(size, rng)
        bets = ContextBets(target, draft, alternatives=zoo_laws(target, draft))
        best = setting.spread(partial(_context_audits, bets, target, tokens), audits)
        rows += _watched(best, vocab=size, tokens=tokens, contexts="one")
    return rows


def _context_audits(
    bets: ContextBets, law: Any, tokens: int, audits: int, rng: np.random.Generator
) -> list[float]:
    drawn = draw(law, audits * tokens, rng).reshape(audits, tokens)
    return [float(bets.path(ids).max()) for ids in drawn]


def watched_streams(setting: Setting) -> Rows:
    """Right engines whose every token comes from a context drawn at random, at each vocabulary."""
    rows, rng = [], setting.rng()
    audits, tokens, contexts = (40, 50, 5) if setting.quick else (10_000, 300, 40)
    for size in VOCABS:
        pool = [zipf_pair(size, rng) for _ in range(contexts)]
        best = setting.spread(partial(_mixed_audits, pool, tokens), audits)
        rows += _watched(best, vocab=size, tokens=tokens, contexts=f"{contexts} mixed, 3 labels")
    return rows


def watched_pair(setting: Setting) -> Rows:
    """Right engines on the shipped pair: contexts are texts that its target wrote."""
    texts, length = (2, 8) if setting.quick else (16, 64)
    audits, tokens = (40, 50) if setting.quick else (10_000, 300)
    pool = pair_contexts(texts, length, setting.rng())
    best = setting.spread(partial(_mixed_audits, pool, tokens), audits)
    about = f"{len(pool)} of the shipped pair, 3 labels"
    return _watched(best, vocab=len(pool[0][0]), tokens=tokens, contexts=about)


def pair_contexts(texts: int, length: int, rng: np.random.Generator) -> list[tuple[Any, Any]]:
    """Float64 laws of the shipped target and draft after every prefix of sampled texts."""
    import torch

    from specverify.models.law import ModelLaw
    from specverify.models.measure import PROMPTS
    from specverify.models.pairs import load_pair
    from specverify.warping import SamplingParams

    pair = load_pair(dtype="float64")
    assert pair.tokenizer is not None
    prompt = pair.tokenizer.encode(PROMPTS[0])
    laws = [ModelLaw(model) for model in (pair.target, pair.draft)]  # type: ignore[arg-type]
    written = np.zeros((texts, 0), dtype=np.int64)
    with torch.inference_mode():
        for _ in range(length):
            # The last row of a longer text is the law of the token that comes next.
            longer = np.pad(written, ((0, 0), (0, 1)))
            rows = laws[0].probs(prompt, longer, SamplingParams())[:, -1]
            tokens = [draw(law, 1, rng) for law in rows]
            written = np.concatenate([written, tokens], axis=1)
        both = [law.probs(prompt, written, SamplingParams()) for law in laws]
    target, draft = (rows.reshape(texts * length, -1) for rows in both)
    return list(zip(target, draft, strict=True))


def _mixed_audits(
    pool: list[tuple[Any, Any]], tokens: int, audits: int, rng: np.random.Generator
) -> list[float]:
    """Highest evidence of each audit; tokens are viewed context by context, for all audits."""
    contexts = rng.integers(0, len(pool), size=audits * tokens)
    order, often = np.argsort(contexts, kind="stable"), np.bincount(contexts, minlength=len(pool))
    views: list[TokenViews] = []
    for (target, draft), times in zip(pool, often, strict=True):
        ids, laws = draw(target, times, rng), zoo_laws(target, draft)
        views.append(view_context(target, ids, draft_probs=draft, alternatives=laws))
    names, labels, best = views[0].names, np.arange(tokens) % 3, []
    where = np.argsort(order, kind="stable").reshape(audits, tokens)
    fields = ("intervals", "gains", "gain_chances", "ratios", "impossible")
    table = {field: np.concatenate([getattr(view, field) for view in views]) for field in fields}
    for rows in where:
        seen = TokenViews(**{field: table[field][rows] for field in fields}, names=names)
        best.append(float(StreamBets(names, groups=3).update(seen, labels).max()))
    return best


def _watched(best: list[list[float]], **about: Any) -> Rows:
    highest = np.concatenate(best)
    return [
        rate(int(np.sum(highest >= -math.log(level))), len(highest), level=level, **about)
        for level in LEVELS
    ]


def false_alarm_rates(setting: Setting) -> Rows:
    """The rates that ``watched_contexts`` counts, by importance sampling: audits of laws that the
    bets imagine, each alarm weighed by 1 / e. Bounds are 95 % of the normal law.
    """
    rows, rng = [], setting.rng()
    laws, tokens = (40, 200) if setting.quick else (1000, 500)
    for size in VOCABS:
        target, draft = zipf_pair(size, rng)
        bets = ContextBets(target, draft, alternatives=zoo_laws(target, draft))
        found = np.concatenate(setting.spread(partial(_weighed_alarms, bets, tokens), laws))
        reach = 1.96 * found.std(axis=0) / math.sqrt(laws)
        for level, mean, half in zip(LEVELS, found.mean(axis=0), reach, strict=True):
            about = {"level": level, "vocab": size, "tokens": tokens, "laws": laws}
            mean, half = float(mean), float(half)
            rows.append({**about, "rate": mean, "low": mean - half, "high": mean + half})
    return rows


def _weighed_alarms(bets: ContextBets, tokens: int, laws: int, rng: np.random.Generator) -> Any:
    """Mean of 1 / e at the alarm over four audits of each law, shape ``(laws, levels)``."""
    means = np.zeros((laws, len(LEVELS)))
    for row in means:
        for ids in draw(bets.imagined_law(rng), 4 * tokens, rng).reshape(4, tokens):
            path = bets.path(ids)
            for index, level in enumerate(LEVELS):
                alarms = np.flatnonzero(path >= -math.log(level))
                row[index] += math.exp(-path[alarms[0]]) / 4 if len(alarms) else 0.0
    return means


def distances(setting: Setting) -> Rows:
    """Power at the detectable distance, and coverage of the upper bound there."""
    rows, n, runs, rng = [], 20_000, 500 if setting.quick else 20_000, setting.rng()
    for cells in (2, 16, 128):
        law = np.full(cells, 1 / cells)
        tv = detectable_tv(n, cells, 1e-3, 0.95)
        wrong = law * (1 + 2 * tv * np.where(np.arange(cells) % 2, 1.0, -1.0))
        counts = rng.multinomial(n, wrong, size=runs)
        found = ((counts - n * law) ** 2 / (n * law)).sum(axis=1)
        power = int(np.sum(found >= stats.chi2.isf(1e-3, cells - 1)))
        rows.append(rate(power, runs, cells=cells, tv=tv, what="power, stated 0.95"))
        bounded = found[: runs // 2]
        covered = sum(tv_upper_bound(float(one), cells - 1, n) >= tv for one in bounded)
        about = {"cells": cells, "tv": tv, "what": "coverage of the 95 % upper bound"}
        rows.append(rate(covered, len(bounded), **about))
    return rows


def acceptance(setting: Setting) -> Rows:
    """Right engines whose alpha varies by round: lengths, hazards and intervals."""
    runs = 100 if setting.quick else 10_000
    found = np.sum(setting.spread(_acceptances, runs), axis=0).tolist()
    return [rate(hits, runs, what=what) for hits, what in zip(found, ACCEPTANCE, strict=True)]


ACCEPTANCE = (
    "false alarms at 1e-3: hazard",
    "false alarms at 1e-3: length by round",
    "false alarms at 1e-3: length, pooled alpha",
    "coverage of 95 %: clustered by prompt",
    "coverage of 95 %: naive binomial",
)


def _acceptances(runs: int, rng: np.random.Generator) -> Any:
    """How often each of ``ACCEPTANCE`` happened."""
    each = [(*_length_alarms(rng), *_intervals_cover(rng)) for _ in range(runs)]
    return np.sum(each, axis=0)


def _length_alarms(rng: np.random.Generator, rounds: int = 2000, gamma: int = 4) -> Iterable[bool]:
    alphas = rng.beta(8, 2, size=rounds)
    powers = alphas[:, None] ** np.arange(gamma + 1)
    pmfs = powers * np.append(np.tile(1 - alphas, (gamma, 1)), np.ones((1, rounds)), axis=0).T
    lengths = (rng.random(rounds)[:, None] > np.cumsum(pmfs, axis=1)[:, :-1]).sum(axis=1)
    tested = np.minimum(lengths + 1, gamma)
    flags, mask = (np.arange(gamma) < ends[:, None] for ends in (lengths, tested))
    chances = np.tile(alphas[:, None], gamma)[mask]
    mean = lengths.sum() / tested.sum()
    pooled = mean ** np.arange(gamma + 1) * np.append(np.full(gamma, 1 - mean), 1.0)
    tests = (
        acceptance_test(flags[mask], chances),
        emitted_length_test(lengths, pmfs),
        emitted_length_test(lengths, pooled),
    )
    return [test.p_value <= 1e-3 for test in tests]


def _intervals_cover(rng: np.random.Generator, clusters: int = 60) -> Iterable[bool]:
    """Prompts of unequal rates around 0.8 and of unequal lengths."""
    prompts = rng.beta(8, 2, size=clusters)
    trials = rng.integers(50, 150, size=clusters)
    accepted = rng.binomial(trials, prompts)
    _, low, high = clustered_interval(accepted.astype(float), trials.astype(float))
    naive = clopper_pearson(int(accepted.sum()), int(trials.sum()))
    return [low <= 0.8 <= high, naive[0] <= 0.8 <= naive[1]]


STUDIES = (
    chi_square_level,
    repeated_looks,
    watched_contexts,
    watched_streams,
    watched_pair,
    distances,
    acceptance,
    false_alarm_rates,
)


def asked(content: Mapping[str, Any]) -> Asked:
    """What was asked of a study, what was measured, and whether that is enough."""
    lines: Asked = []
    for name in ("watched_contexts", "watched_streams", "watched_pair"):
        for row in content.get(name, []):
            most = MOST_ALARMS[row["level"]]
            what = f"V = {row['vocab']}, {row['contexts']}, level {row['level']:g}: at most {most}"
            hits, runs = row["hits"], row["runs"]
            bound = f"{hits} of {runs:,}, rate <= {row['high']:.2e} (95 %)"
            lines.append((f"{what} alarms in 10,000", bound, hits * ASKED <= most * runs))
    for row in content.get("false_alarm_rates", []):
        most = MOST_ALARMS[row["level"]]
        about = f"V = {row['vocab']}, level {row['level']:g}: {most} alarms in 10,000 expected"
        measured = f"{ASKED * row['rate']:.3g} ({_per_asked(row)})"
        lines.append((about, measured, ASKED * row["rate"] <= most))
    for row in content.get("distances", []):
        near = 0.02 if row["what"].startswith("power") else 0.01
        about = f"{row['what']}, {row['cells']} cells: 0.95 within {near}"
        lines.append((about, _interval(row), abs(row["rate"] - 0.95) <= near))
    for row in content.get("acceptance", []):
        if "clustered" in row["what"]:
            kept = 0.94 <= row["rate"] <= 0.96
            lines.append((f"{row['what']}: 0.94 to 0.96", _interval(row), kept))
    return lines


def _per_asked(row: dict[str, Any]) -> str:
    return f"{ASKED * row['low']:.3g} to {ASKED * row['high']:.3g}"


def _interval(row: dict[str, Any]) -> str:
    return f"{row['rate']:.4f} ({row['low']:.4f} to {row['high']:.4f})"


REPORT = Report(
    "calibration",
    __doc__ or "",
    SEED,
    STUDIES,
    asked,
    {},
    {"watched_contexts": 2, "false_alarm_rates": 2},
)

if __name__ == "__main__":
    REPORT.main()
