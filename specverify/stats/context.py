"""Evidence against the law of one fixed context, as a function of the counts alone.

A mixture of three kinds of bets: on known wrong laws, each diluted with the law under test; on
simple tilts of the law (more or less mass where target exceeds draft, a sharper or flatter law);
and Dirichlet bets that learn the cells' true law from the data. All are the same in every order of
the observations: counts of shards may be merged and looked at whenever somebody wants to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln

from specverify._memory import keep_freed_memory
from specverify.errors import InvalidInputError
from specverify.stats._check import Floats, Ints, as_counts, as_probs, check_rng
from specverify.stats.bets import RESERVE, log_wealth
from specverify.stats.learning import CONCENTRATIONS, imagined_law, learning_steps, learnt
from specverify.stats.naming import UNKNOWN, posterior_shares
from specverify.stats.partitions import standard_partitions
from specverify.stats.static_bets import leak_bets, named_bets, tilt_bets

__all__ = ["ContextBets", "Evidence"]

Bools: TypeAlias = NDArray[np.bool_]

# Shares of what is bet; simulations/power.py shows what they buy.
_NAMED_SHARE, _TILT_SHARE, _LEARNING_SHARE = 0.80, 0.06, 0.14


@dataclass(frozen=True, eq=False)
class Evidence:
    """Evidence against a law.

    Attributes:
        log_e: Logarithm of the e-value: alarm at ``log(1 / level)``. ``inf`` after an impossible
            token; ``bets.capped_e_value`` makes it a number for JSON.
        n: Observations.
        impossible: Observations of tokens of probability zero.
        shares: Posterior share of each known law, and of ``naming.UNKNOWN``; see
            ``naming.name_alternative``.
    """

    log_e: float
    n: int
    impossible: int
    shares: dict[str, float]


class ContextBets:
    """The bets against one law.

    Args:
        target_probs: The law under test, shape ``(vocab,)``.
        draft_probs: The draft's law there, same shape; adds bets by target/draft.
        alternatives: Known wrong laws by name, each of the same shape.
        tolerance: Total variation from the law that is forgiven (bf16 logits alone are off by
            about 5e-3). Above 0 the learning bets are left out, since they cannot be made
            tolerant as a function of counts, and a token of probability zero is strong evidence
            instead of proof.

    Raises:
        InvalidInputError: If a law is no distribution, shapes differ or the tolerance is not in
            [0, 1).
    """

    def __init__(
        self,
        target_probs: Floats,
        draft_probs: Floats | None = None,
        *,
        alternatives: Mapping[str, Floats] | None = None,
        tolerance: float = 0.0,
    ) -> None:
        if not 0 <= tolerance < 1:
            raise InvalidInputError("tolerance", f"must lie in [0, 1), got {tolerance}")
        keep_freed_memory()
        self._law = as_probs("target_probs", target_probs)
        draft = None if draft_probs is None else as_probs("draft_probs", draft_probs)
        laws = {
            name: as_probs(f"alternatives[{name!r}]", law)
            for name, law in (alternatives or {}).items()
        }
        for name, law in [("draft_probs", draft), *laws.items()]:
            if law is not None and law.shape != self._law.shape:
                raise InvalidInputError(
                    str(name), f"needs shape {self._law.shape}, got {law.shape}"
                )
        self._tolerance = tolerance
        self._partitions = standard_partitions(self._law, draft)
        self._learning = [] if tolerance else self._partitions
        self._named = named_bets(self._law, laws, tolerance=tolerance)
        self._tilts = tilt_bets(self._law, self._partitions, tolerance=tolerance)
        self._static = [self._named, self._tilts]
        if tolerance:
            self._static.append(leak_bets(self._law, tolerance=tolerance))
        self._weights = self._prior()

    @property
    def vocab_size(self) -> int:
        """Number of tokens."""
        return len(self._law)

    def evidence(self, counts: Ints) -> Evidence:
        """Evidence in the counts of all observations so far.

        Args:
            counts: Occurrences of each token, shape ``(vocab,)``.

        Raises:
            InvalidInputError: If the counts do not fit.
        """
        seen = as_counts("counts", counts, self.vocab_size)
        occurred = np.flatnonzero(seen > 0)
        impossible = int(seen[occurred][self._law[occurred] == 0].sum())
        bets = self._log_e(seen, occurred)
        proven = impossible > 0 and self._tolerance == 0
        return Evidence(
            log_e=np.inf if proven else float(log_wealth(bets, self._weights)),
            n=int(seen.sum()),
            impossible=impossible,
            shares=self._shares(bets, int(seen.sum()), impossible),
        )

    def path(self, tokens: Ints, *, earlier: Ints | None = None) -> Floats:
        """Evidence after every single token, for whoever watches all the time.

        Args:
            tokens: Token ids in order, shape ``(n,)``.
            earlier: Counts of the tokens before, shape ``(vocab,)``.

        Returns:
            ``log_e`` after each token, shape ``(n,)``; the last equals that of ``evidence`` on
            all counts.

        Raises:
            InvalidInputError: If a token lies outside the vocabulary or the counts do not fit.
        """
        ids = np.asarray(tokens, dtype=np.int64)
        if ids.ndim != 1 or (len(ids) and not 0 <= ids.min() <= ids.max() < self.vocab_size):
            raise InvalidInputError("tokens", f"must be ids in [0, {self.vocab_size}) on one axis")
        start = np.zeros(self.vocab_size, dtype=np.int64) if earlier is None else earlier
        start = as_counts("earlier", start, self.vocab_size)
        steps = [bets.log_factors(ids) for bets in self._static]
        possible = self._law[ids] > 0
        steps += [learning_steps(ids, possible, start, part) for part in self._learning]
        running = np.cumsum(np.concatenate(steps, axis=1), axis=0) + self._log_e(
            start, np.flatnonzero(start)
        )
        log_e = log_wealth(running, self._weights)
        if self._tolerance == 0:
            broken = np.cumsum(~possible) + start[self._law == 0].sum() > 0
            log_e = np.where(broken, np.inf, log_e)
        return log_e

    def imagined_law(self, rng: np.random.Generator) -> Floats:
        """A law as the bets imagine one, drawn by their weights; the law itself for the reserve.

        An audit of tokens from such laws tells how often a right engine is alarmed within so many
        tokens, far more exactly than counting alarms does: it is the mean of ``1 / e`` at the
        alarm, 0 where there is none (likelihood ratio identity).

        Args:
            rng: Source of the choice.

        Raises:
            InvalidInputError: If ``rng`` is no generator.

        References:
            Siegmund (1976), Annals of Statistics 4(4), on importance sampling of sequential tests.
        """
        check_rng(rng)
        if rng.random() < RESERVE or not len(self._weights):
            return self._law
        bet = int(rng.choice(len(self._weights), p=self._weights))
        for bets in self._static:
            if bet < len(bets.weights):
                factors = np.exp(bets.log_factors(np.arange(self.vocab_size))[:, bet])
                return np.where(self._law > 0, self._law * factors, 0.0)
            bet -= len(bets.weights)
        part = self._learning[bet // len(CONCENTRATIONS)]
        return imagined_law(self._law, part, bet % len(CONCENTRATIONS), rng)

    def _log_e(self, counts: Ints, seen: Ints) -> Floats:
        """Logarithm of every bet's wealth, without the proof by impossible tokens."""
        often = counts[seen].astype(np.float64)
        # Sums over the tokens that occurred: a vocabulary of 50,257 is walked once, not per bet.
        static = [often @ bets.log_factors(seen) for bets in self._static]
        return np.concatenate([*static, *(learnt(seen, often, part) for part in self._learning)])

    def _prior(self) -> Floats:
        """Weights of all bets; a kind that has none leaves its share to the others."""
        count = len(self._learning) * len(CONCENTRATIONS)
        weights = np.concatenate(
            [
                _NAMED_SHARE * self._named.weights,
                *(_TILT_SHARE * bets.weights for bets in self._static[1:]),
                np.full(count, _LEARNING_SHARE / max(count, 1)),
            ]
        )
        normalised: Floats = weights / weights.sum()
        return normalised

    def _shares(self, bets: Floats, n: int, impossible: int) -> dict[str, float]:
        weighted = bets + np.log(self._weights)
        known, other = np.split(weighted, [len(self._named.weights)])
        totals = np.full(len(self._named.names), -np.inf)
        np.logaddexp.at(totals, self._named.owners, known)
        by_name = dict(zip(self._named.names, totals.tolist(), strict=True))
        unknown = float(np.logaddexp.reduce(other, initial=-np.inf))
        if impossible and not self._tolerance:
            # The other bets say nothing on these tokens; a leak of unknown rate, spread evenly
            # over the tokens that have no probability, is what the known laws compete with.
            outside = int(np.count_nonzero(self._law == 0))
            unknown += float(betaln(impossible + 1, n - impossible + 1))
            unknown -= impossible * float(np.log(outside))
        return posterior_shares(by_name | {UNKNOWN: unknown})
