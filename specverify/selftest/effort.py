"""How many observations each method needs on a member's own scene."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from specverify._arrays import FloatArray
from specverify.bugs import Bug, Kind
from specverify.bugs.laws import Laws, both_laws
from specverify.bugs.registry import members
from specverify.bugs.scenes import SCENES
from specverify.distributions import total_variation
from specverify.selftest.settings import LEVEL
from specverify.stats.context import ContextBets
from specverify.stats.power import noncentrality
from specverify.stats.synthetic import zipf_pair

__all__ = ["Efforts", "efforts", "fixed_n", "large_vocab_median"]

_POWER = 0.9
_GROWTH = 1.05
_START = 0.05
_MOST = 100.0
_BLIND = 1e-12


class Efforts(NamedTuple):
    """Observations until a defect is seen at the level of the self-test.

    Attributes:
        median: Of the e-process, looked at whenever the counts have grown by a twentieth.
        oracle: Of a bet on the very law, in expectation.
        fixed_n: Of one chi-square test on all outcomes, for a power of 90 %.
    """

    median: float
    oracle: float
    fixed_n: float


def efforts(bug: Bug, rng: np.random.Generator, *, runs: int) -> Efforts | None:
    """What the member's law on its own scene costs to tell from the right one.

    Outcomes are whole blocks, completions or batches. The e-process is told the laws of all known
    members on that scene.

    Args:
        bug: The member.
        rng: Source of the simulated observations.
        runs: Runs behind the median.

    Returns:
        None where the law is right or there is none.
    """
    if bug.kind is Kind.COUNTER:
        return None
    laws = _laws_on(bug.kind, bug.scene)
    if bug.name not in laws:
        return None
    right, wrong = laws[_RIGHT], laws[bug.name]
    if float(total_variation(right, wrong)) < _BLIND:
        return None
    oracle = _pair(bug).samples(LEVEL)
    median = _median_alarm(_bets(bug.kind, bug.scene), wrong, rng, (oracle, runs))
    return Efforts(median=median, oracle=oracle, fixed_n=fixed_n(right, wrong))


def fixed_n(right: FloatArray, wrong: FloatArray, *, level: float = LEVEL) -> float:
    """Observations at which one test has a power of 90 %, by its noncentral law.

    The test is Pearson's on every outcome that the right law allows, beside an alarm at the first
    one that it excludes.

    Args:
        right: The law under test, shape ``(outcomes,)``.
        wrong: The law that is observed, same shape.
        level: Level of the test.
    """
    allowed = right > 0
    excluded = float(wrong[~allowed].sum())
    waiting = math.inf
    if excluded > 0:
        waiting = 1.0 if excluded >= 1 else math.log(1 - _POWER) / math.log1p(-excluded)
    lean = float(np.sum((wrong[allowed] - right[allowed]) ** 2 / right[allowed]))
    cells = int(allowed.sum())
    if cells < 2 or lean <= 0:
        return math.ceil(waiting) if waiting < math.inf else math.inf
    return float(math.ceil(min(waiting, noncentrality(cells, level, _POWER) / lean)))


def large_vocab_median(
    bug: Bug, rng: np.random.Generator, *, vocab_size: int, runs: int
) -> float | None:
    """Median tokens to an alarm on one row of a large vocabulary; None without a closed-form law.

    Args:
        bug: The member.
        rng: Source of the observations.
        vocab_size: Number of tokens.
        runs: Runs behind the median.
    """
    if bug.row_law is None:
        return None
    target, draft = zipf_pair(vocab_size, np.random.default_rng(vocab_size))
    law = np.asarray(bug.row_law(target, draft), dtype=np.float64)
    if abs(law.sum() - 1) > 1e-9 or float(total_variation(law, target)) < _BLIND:
        return None
    bets = ContextBets(target, draft, alternatives={bug.name: law})
    oracle = Laws(dict(enumerate(law)), dict(enumerate(target))).samples(LEVEL)
    return _median_alarm(bets, law, rng, (oracle, runs))


_RIGHT = ""


def _pair(bug: Bug) -> Laws:
    return both_laws(bug, SCENES.get(bug.scene, SCENES["P1"]))


@cache
def _laws_on(kind: Kind, scene: str) -> dict[str, NDArray[np.float64]]:
    """Laws of the members that live on a scene, over the outcomes that any of them gives."""
    pairs = {
        bug.name: _pair(bug)
        for bug in members().values()
        if bug.kind is kind and bug.scene == scene
    }
    right = next(iter(pairs.values())).right
    outcomes = sorted({*right, *(key for pair in pairs.values() for key in pair.emitted)}, key=repr)
    laws = {name: pair.emitted for name, pair in pairs.items()} | {_RIGHT: right}
    return {
        name: _normalised([law.get(outcome, 0.0) for outcome in outcomes])
        for name, law in laws.items()
    }


@cache
def _bets(kind: Kind, scene: str) -> ContextBets:
    laws = dict(_laws_on(kind, scene))
    right = laws.pop(_RIGHT)
    wrong = {n: law for n, law in laws.items() if float(total_variation(law, right)) >= _BLIND}
    return ContextBets(right, alternatives=wrong)


def _normalised(masses: Sequence[float]) -> NDArray[np.float64]:
    law = np.array(masses)
    total: NDArray[np.float64] = law / law.sum()
    return total


def _median_alarm(
    bets: ContextBets, law: FloatArray, rng: np.random.Generator, size: tuple[float, int]
) -> float:
    oracle, runs = size
    return float(np.median([_alarm(bets, law, rng, oracle) for _ in range(runs)]))


def _alarm(bets: ContextBets, law: FloatArray, rng: np.random.Generator, oracle: float) -> float:
    """Observations at the first look that alarms; infinite where none does in good time."""
    n = max(1, round(_START * oracle))
    counts = rng.multinomial(n, law)
    while bets.evidence(counts).log_e < -math.log(LEVEL):
        if n > _MOST * oracle:
            return math.inf
        more = max(1, math.ceil((_GROWTH - 1) * n))
        counts, n = counts + rng.multinomial(more, law), n + more
    return float(n)
