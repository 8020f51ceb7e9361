"""Evidence that may be looked at after every shard: bets against the target's law, from counts.

Each token that is counted at a position after a context multiplies the wealth of that place's bets
by a factor whose mean, given everything drawn before it, is one if the token follows the target's
row. A correct implementation of any scheme emits such tokens (blocks are completed), so the product
over places is a test martingale whatever else happens between them: Ville's inequality bounds the
probability that it ever reaches ``1 / level`` by ``level``. Averages of such products are ones too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

import numpy as np

from specverify.audit.chains import Chain, pair_law, path_law
from specverify.audit.counting import pair_classes, paths_are_counted
from specverify.audit.engines import BINS, ORDERS, EngineScenario
from specverify.audit.scenarios import Scenario
from specverify.audit.suites import AnyScenario
from specverify.audit.tally import Tally
from specverify.stats.context import ContextBets, Evidence
from specverify.stats.multiplicity import average_log_e
from specverify.stats.naming import UNKNOWN

__all__ = ["JOINT", "TOKEN", "ScenarioBets", "bets_for", "families"]

TOKEN, JOINT = "token", "joint"
"""Names of the checks that the two families of bets belong to."""

_POCKET = np.log(0.5)
"""Half of the money of each place stays in the pocket: places without a bug cost a factor of two
at most, however many there are."""


class ScenarioBets(Protocol):
    """The bets of one scenario."""

    def evidence(self, tally: Tally) -> dict[str, Evidence]:
        """Evidence of each family in everything counted so far."""


def families(scenario: AnyScenario) -> tuple[str, ...]:
    """Families of bets that a scenario has, by the name of their check."""
    return (TOKEN,) if scenario.length < 2 else (TOKEN, JOINT)


@lru_cache(maxsize=256)
def bets_for(scenario: AnyScenario, *, tolerance: float = 0.0) -> ScenarioBets:
    """The bets of a scenario, made once.

    Args:
        scenario: Its laws.
        tolerance: Total variation from the target's law that is forgiven.
    """
    if isinstance(scenario, EngineScenario):
        return _TransformBets(scenario, tolerance)
    return _ChainBets(scenario, tolerance)


class _ChainBets:
    def __init__(self, scenario: Scenario, tolerance: float) -> None:
        chain = scenario.chain
        self._scenario = scenario
        self._places = {
            (position, context): ContextBets(
                chain.target[position, context],
                chain.draft[position, context],
                tolerance=tolerance,
            )
            for position in range(scenario.length)
            for context in range(chain.contexts)
        }
        self._joint = _joint_bets(scenario, tolerance)

    def evidence(self, tally: Tally) -> dict[str, Evidence]:
        """Evidence of tokens given the token before, and of whole completions or pairs."""
        found = {TOKEN: self._token_evidence(tally)}
        if self._joint:
            found[JOINT] = self._joint_evidence(tally)
        return found

    def _token_evidence(self, tally: Tally) -> Evidence:
        counts = tally.get("token")
        if counts is None:
            return _nothing()
        return _together(
            [
                self._places[int(position), int(context)].evidence(counts[position, context])
                for position, context in np.argwhere(counts.any(axis=2))
            ]
        )

    def _joint_evidence(self, tally: Tally) -> Evidence:
        paths, pairs = tally.get("path"), tally.get("pairs")
        if paths is not None:
            return self._joint[0].evidence(paths)
        if pairs is None:
            return _nothing()
        # Completions are drawn one after another from one law, so that each table is a stream of
        # its own; the tables share tokens, hence the average and no product.
        seen = [
            bets.evidence(table.reshape(-1)) for bets, table in zip(self._joint, pairs, strict=True)
        ]
        return _averaged(seen)


class _TransformBets:
    """Bets of an engine: under the target's law the transforms are uniform whatever came before."""

    def __init__(self, scenario: EngineScenario, tolerance: float) -> None:
        self._cells = ContextBets(np.full(BINS, 1 / BINS), tolerance=tolerance)
        self._tolerance = tolerance
        self._orders = len(ORDERS)

    def evidence(self, tally: Tally) -> dict[str, Evidence]:
        """Evidence of the transforms of tokens, and of neighbouring pairs of them."""
        counts, pairs = tally.get("transform"), tally.get("transform-pairs")
        if counts is None or pairs is None:
            return {TOKEN: _nothing()}
        pooled = [self._cells.evidence(table) for table in counts.sum(axis=0)]
        apart = [_together([self._cells.evidence(c) for c in counts[:, i]]) for i in range(3)]
        neighbours = ContextBets(
            np.full(pairs[0].size, 1 / pairs[0].size), tolerance=self._tolerance
        )
        joint = [neighbours.evidence(table.reshape(-1)) for table in pairs]
        return {TOKEN: _averaged([*pooled, *apart]), JOINT: _averaged(joint)}


def _joint_bets(scenario: Scenario, tolerance: float) -> list[ContextBets]:
    chain, length = scenario.chain, scenario.length
    if length < 2:
        return []
    if paths_are_counted(scenario):
        drafted = Chain(target=chain.draft, draft=chain.target, start=chain.start)
        return [
            ContextBets(path_law(chain, length), path_law(drafted, length), tolerance=tolerance)
        ]
    classes = pair_classes(scenario)
    size = int(classes.max()) + 1
    laws = [pair_law(chain, position, classes) for position in range(length - 1)]
    return [ContextBets(law.reshape(size * size), tolerance=tolerance) for law in laws]


def _together(seen: Sequence[Evidence]) -> Evidence:
    """Average of the product over places and of their mean: a bug everywhere, or at one place."""
    log_e = [evidence.log_e for evidence in seen]
    product = sum(np.logaddexp(_POCKET, _POCKET + value) for value in log_e)
    return _summed(seen, average_log_e([float(product), average_log_e(log_e)]))


def _averaged(seen: Sequence[Evidence]) -> Evidence:
    return _summed(seen, average_log_e([evidence.log_e for evidence in seen]))


def _summed(seen: Sequence[Evidence], log_e: float) -> Evidence:
    return Evidence(
        log_e=log_e,
        n=sum(evidence.n for evidence in seen),
        impossible=sum(evidence.impossible for evidence in seen),
        shares={UNKNOWN: 1.0},
    )


def _nothing() -> Evidence:
    return Evidence(log_e=0.0, n=0, impossible=0, shares={UNKNOWN: 1.0})
