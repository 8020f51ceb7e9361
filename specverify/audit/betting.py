"""Evidence that may be looked at after every shard: bets against the target's law, from counts.

Each token that is counted at a position after a context multiplies the wealth of that place's bets
by a factor whose mean, given everything drawn before it, is one if the token follows the target's
row. A correct implementation of any scheme emits such tokens (blocks are completed), so the product
over places is a test martingale whatever else happens between them: Ville's inequality bounds the
probability that it ever reaches ``1 / level`` by ``level``. Averages of such products are ones too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from specverify.audit.alternatives import known_paths, known_rows
from specverify.audit.arms import arms_log_e
from specverify.audit.chains import pair_law, path_laws
from specverify.audit.counting import pair_classes, paths_are_counted
from specverify.audit.engines import BINS, PAIR_BINS, EngineScenario
from specverify.audit.ratios import ratio_log_e
from specverify.audit.scenarios import Scenario
from specverify.audit.suites import AnyScenario
from specverify.audit.tally import Tally
from specverify.stats.context import ContextBets, Evidence
from specverify.stats.multiplicity import average_log_e
from specverify.stats.naming import UNKNOWN, posterior_shares
from specverify.stats.pair_bets import pair_log_e
from specverify.stats.static_bets import StaticBets, named_bets

__all__ = ["JOINT", "TOKEN", "ScenarioBets", "averaged", "bets_for", "families", "together"]

Counts: TypeAlias = NDArray[np.int64]

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
        return _TransformBets(tolerance)
    return _ChainBets(scenario, tolerance)


class _ChainBets:
    """Made when there is something to bet on: known bugs' laws take long to work out."""

    def __init__(self, scenario: Scenario, tolerance: float) -> None:
        self._scenario, self._tolerance = scenario, tolerance

    @cached_property
    def _unknown(self) -> _Places:
        return _Places(self._scenario, self._tolerance)

    @cached_property
    def _known(self) -> _KnownRows:
        return _KnownRows(self._scenario, self._tolerance)

    @cached_property
    def _joint(self) -> list[ContextBets]:
        return _joint_bets(self._scenario, self._tolerance)

    def evidence(self, tally: Tally) -> dict[str, Evidence]:
        """Evidence of tokens given the token before, and of whole completions or pairs."""
        counts, names = tally.get("token"), families(self._scenario)
        if counts is None:
            return {name: _nothing() for name in names}
        unknown = self._unknown.evidence(counts)
        found = {TOKEN: self._known.beside(unknown, counts)}
        return found | ({JOINT: self._joint_evidence(tally)} if JOINT in names else {})

    def _joint_evidence(self, tally: Tally) -> Evidence:
        paths, pairs = tally.get("path"), tally.get("pairs")
        if paths is not None:
            return self._joint[0].evidence(paths)
        if pairs is None:
            return _nothing()
        # Completions are drawn one after another from one law, so that each table is a stream of
        # its own; the tables share tokens, hence the average and no product.
        tables = zip(self._joint, pairs, strict=True)
        return averaged([bets.evidence(table.reshape(-1)) for bets, table in tables])


class _Places:
    """Bets on the unknown at each position after each context."""

    def __init__(self, scenario: Scenario, tolerance: float) -> None:
        chain = scenario.chain
        self._bets = {
            (position, context): ContextBets(
                chain.target[position, context],
                chain.draft[position, context],
                tolerance=tolerance,
            )
            for position in range(scenario.length)
            for context in range(chain.contexts)
        }

    def evidence(self, counts: Counts) -> Evidence:
        """Evidence in counts of shape ``(length, contexts, vocab)``."""
        places = [(int(i), int(j)) for i, j in np.argwhere(counts.any(axis=2))]
        return together([self._bets[place].evidence(counts[place]) for place in places])


class _KnownRows:
    """Bets that one known bug is at work at every place: its ratios multiply over all of them."""

    def __init__(self, scenario: Scenario, tolerance: float) -> None:
        laws, target = known_rows(scenario), scenario.chain.target
        self._bets: dict[tuple[int, int], StaticBets] = {}
        for i, j in np.ndindex(scenario.length, scenario.chain.contexts):
            rows = {name: law[i, j] for name, law in laws.items()}
            self._bets[i, j] = named_bets(target[i, j], rows, tolerance=tolerance)
        first = self._bets[0, 0]
        self._names, self._owners, self._weights = first.names, first.owners, first.weights

    def beside(self, unknown: Evidence, counts: Counts) -> Evidence:
        """Average of these bets and of those on the unknown, which have half of the money."""
        if not self._names:
            return unknown
        gains = np.zeros(len(self._weights))
        for place, bets in self._bets.items():
            tokens = np.flatnonzero(counts[place])
            gains += counts[place][tokens] @ bets.log_factors(tokens)
        # Impossible tokens are proof already; here they tell the bugs apart that explain them.
        weighted = gains + np.log(self._weights)
        by_name = {
            name: float(logsumexp(weighted[self._owners == index]))
            for index, name in enumerate(self._names)
        }
        rest = unknown.log_e if np.isfinite(unknown.log_e) else -np.inf
        known = float(logsumexp(weighted))
        log_e = unknown.log_e if unknown.log_e == np.inf else average_log_e([known, rest])
        shares = posterior_shares(by_name | {UNKNOWN: rest})
        return replace(unknown, log_e=log_e, shares=shares)


class _TransformBets:
    """Bets of an engine: under the target's law the transforms are uniform whatever came before."""

    def __init__(self, tolerance: float) -> None:
        self._cells = ContextBets(np.full(BINS, 1 / BINS), tolerance=tolerance)
        self._later = np.full(PAIR_BINS, 1 / PAIR_BINS)
        self._exact = not tolerance

    def evidence(self, tally: Tally) -> dict[str, Evidence]:
        """Evidence of the transforms of tokens, and of neighbouring pairs of them."""
        if tally.get("arms") is not None:
            # Nothing forgives here: what a tolerance would, the bound on the distance does.
            log_e = arms_log_e(tally) if self._exact else 0.0
            return {TOKEN: replace(_nothing(), log_e=log_e), JOINT: _nothing()}
        counts, pairs = tally.get("transform"), tally.get("transform-pairs")
        if counts is None or pairs is None:
            return {TOKEN: _nothing(), JOINT: _nothing()}
        pooled = [self._cells.evidence(table) for table in counts.sum(axis=0)]
        by_order = counts.swapaxes(0, 1)
        apart = [together([self._cells.evidence(c) for c in order]) for order in by_order]
        token = self._beside_known(averaged([*pooled, *apart]), tally)
        if self._exact and tally.total("impossible"):
            token = replace(token, log_e=np.inf, impossible=tally.total("impossible"))
        return {TOKEN: token, JOINT: self._joint_evidence(pairs)}

    def _beside_known(self, unknown: Evidence, tally: Tally) -> Evidence:
        """Half on known bugs, where the draft's law is known, and half on the unknown."""
        known = ratio_log_e(tally) if self._exact else {}
        if not known:
            return unknown
        prior = np.log(len(known))
        shares = {name: value - prior for name, value in known.items()} | {UNKNOWN: unknown.log_e}
        log_e = average_log_e([average_log_e(list(known.values())), unknown.log_e])
        return replace(unknown, log_e=log_e, shares=posterior_shares(shares))

    def _joint_evidence(self, pairs: Counts) -> Evidence:
        # Pairs of one completion overlap: the bet is on the later token, given the earlier one. It
        # learns from counts, which cannot be made tolerant of laws that are off.
        log_e = [pair_log_e(table, self._later) for table in pairs if self._exact]
        return replace(_nothing(), n=int(pairs[0].sum()), log_e=average_log_e(log_e))


def _joint_bets(scenario: Scenario, tolerance: float) -> list[ContextBets]:
    chain, length = scenario.chain, scenario.length
    if length < 2:
        return []
    if paths_are_counted(scenario):
        target, draft = path_laws(chain, length)
        bets = ContextBets(
            target,
            draft,
            alternatives=known_paths(scenario),
            tolerance=tolerance,
        )
        return [bets]
    classes = pair_classes(scenario)
    size = int(classes.max()) + 1
    laws = [pair_law(chain, position, classes) for position in range(length - 1)]
    return [ContextBets(law.reshape(size * size), tolerance=tolerance) for law in laws]


def together(seen: Sequence[Evidence]) -> Evidence:
    """Evidence of places: average of the product over them and of their mean.

    The product finds a bug that is everywhere, the mean one that is at a single place.
    """
    log_e = [evidence.log_e for evidence in seen]
    product = sum(np.logaddexp(_POCKET, _POCKET + value) for value in log_e)
    return _summed(seen, average_log_e([float(product), average_log_e(log_e)]))


def averaged(seen: Sequence[Evidence]) -> Evidence:
    """Evidence of bets that watch the same tokens: their mean."""
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
