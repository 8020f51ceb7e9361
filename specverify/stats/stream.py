"""Evidence from tokens whose contexts, and hence laws, all differ.

Every token brings its own laws (``views.TokenViews``). Bets on known wrong laws multiply their
ratios; bets on the unknown learn histograms of the probability integral transform in three orders
of the vocabulary, since one order alone can miss a bug by more than a factor of 100.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from specverify.errors import InvalidInputError
from specverify.stats._check import Floats, Ints
from specverify.stats.bets import log_wealth, tempered
from specverify.stats.histogram import HistogramBets
from specverify.stats.naming import UNKNOWN, posterior_shares
from specverify.stats.static_bets import CAPS, DILUTIONS, leak_log_factors
from specverify.stats.views import ORDERS, Bools, TokenViews

__all__ = ["StreamBets"]

_ODDS = np.exp(np.array([-2.0, -1.0, -0.5, -0.2, -0.1, 0.1, 0.2, 0.5, 1.0, 2.0]))
_BINS = (4, 16, 64)
_NAMED_SHARE = 0.5


class StreamBets:
    """Bets that are updated token by token or in chunks, and can be stored and resumed.

    Args:
        names: Names of the known wrong laws, in the order of ``TokenViews.ratios``.
        groups: Number of labels of tokens. A bug at one position of the block only is found
            several times sooner when tokens are labelled by position: every label has bets of
            its own beside the common ones.
        tolerance: Total variation from the target's law that is forgiven.

    Raises:
        InvalidInputError: If ``groups`` is below 1 or the tolerance not in [0, 1).
    """

    def __init__(
        self, names: tuple[str, ...] = (), *, groups: int = 1, tolerance: float = 0.0
    ) -> None:
        if groups < 1:
            raise InvalidInputError("groups", f"must be at least 1, got {groups}")
        if not 0 <= tolerance < 1:
            raise InvalidInputError("tolerance", f"must lie in [0, 1), got {tolerance}")
        self.names = names
        self._groups, self._tolerance = groups, tolerance
        self._scopes = range(-1, groups if groups > 1 else 0)  # -1: all tokens
        self._histograms = {
            f"{scope}:{order}:{bins}": HistogramBets(bins, tolerance=tolerance)
            for scope in self._scopes
            for order in range(len(ORDERS))
            for bins in _BINS
        }
        self._caps = CAPS if tolerance else (np.inf,)
        self._owners, self._weights = self._prior()
        self._log_e = np.zeros(len(self._weights))
        self._impossible = 0
        self.n = 0

    @property
    def log_e(self) -> float:
        """Logarithm of the e-value so far; ``inf`` after an impossible token (no tolerance)."""
        if self._impossible and not self._tolerance:
            return np.inf
        return float(log_wealth(self._log_e, self._weights))

    @property
    def shares(self) -> dict[str, float]:
        """Posterior share of each known law and of ``naming.UNKNOWN``."""
        weighted = self._log_e + np.log(self._weights)
        names = {-1: UNKNOWN} | dict(enumerate(self.names))
        return posterior_shares(
            {
                name: float(np.logaddexp.reduce(weighted[self._owners == index], initial=-np.inf))
                for index, name in names.items()
            }
        )

    def update(self, views: TokenViews, groups: Any = None) -> Floats:
        """Bet on more tokens.

        Args:
            views: The tokens, in order.
            groups: Label of each, int shape ``(n,)``; all 0 when None.

        Returns:
            ``log_e`` after each of them, shape ``(n,)``.

        Raises:
            InvalidInputError: If labels or names do not fit.
        """
        labels = np.zeros(len(views), dtype=np.int64) if groups is None else np.asarray(groups)
        if labels.shape != (len(views),) or np.any((labels < 0) | (labels >= self._groups)):
            raise InvalidInputError("groups", f"must be {len(views)} labels in [0, {self._groups})")
        if views.names != self.names:
            raise InvalidInputError("views", f"holds laws {views.names}, not {self.names}")
        columns = [self._scope_steps(views, labels, scope) for scope in self._scopes]
        if self._tolerance:
            columns.append(leak_log_factors(views.impossible, self._tolerance))
        steps = np.concatenate(columns, axis=1)
        path = self._log_e + np.cumsum(steps, axis=0)
        broken = self._impossible + np.cumsum(views.impossible) > 0
        log_e = log_wealth(path, self._weights)
        if len(views):
            self._log_e = path[-1]
        self._impossible += int(views.impossible.sum())
        self.n += len(views)
        return log_e if self._tolerance else np.where(broken, np.inf, log_e)

    def state(self) -> dict[str, Any]:
        """Everything that ``restore`` needs, as plain JSON values."""
        return {
            "n": self.n,
            "impossible": self._impossible,
            "log_e": self._log_e.tolist(),
            "histograms": {key: bets.counts.tolist() for key, bets in self._histograms.items()},
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from what ``state`` gave, on an object made with the same arguments."""
        self.n, self._impossible = int(state["n"]), int(state["impossible"])
        self._log_e = np.array(state["log_e"], dtype=np.float64)
        for key, counts in state["histograms"].items():
            self._histograms[key].counts[:] = counts

    def _prior(self) -> tuple[Ints, Floats]:
        """Law that each bet is about (-1: none) and its weight, scope after scope."""
        owners, weights = [], []
        other = len(ORDERS) * sum(self._histograms[f"-1:0:{bins}"].size for bins in _BINS)
        named = _NAMED_SHARE / max(len(self.names), 1)
        for scope in self._scopes:
            variants = [w for _, w in self._variants(scope) for _ in self.names]
            owners += list(range(len(self.names))) * (len(variants) // max(len(self.names), 1))
            owners += [-1] * (len(_ODDS) + other)
            weights += [
                named * weight / sum(w for _, w in self._variants(scope)) for weight in variants
            ]
            weights += [0.2 / len(_ODDS)] * len(_ODDS) + [0.3 / other] * other
        if self._tolerance:
            owners, weights = [*owners, -1, -1, -1], [*weights, 0.02, 0.02, 0.02]
        total = np.array(weights)
        return np.array(owners, dtype=np.int64), total / total.sum()

    def _variants(self, scope: int) -> list[tuple[tuple[float, float], float]]:
        """(dilution, cap) and weight; a label of its own needs no dilution."""
        mixes = DILUTIONS if scope < 0 else DILUTIONS[:1]
        return [((mix, cap), weight) for mix, weight in mixes for cap in self._caps]

    def _scope_steps(self, views: TokenViews, labels: Ints, scope: int) -> Floats:
        """Logarithms of the factors of one scope's bets, shape ``(n, bets)``; 0 elsewhere."""
        inside = ~views.impossible & ((labels == scope) | (scope < 0))
        columns = [self._named_steps(views, inside, scope), self._odds_steps(views, inside)]
        for order in range(len(ORDERS)):
            spans = views.intervals[inside, order]
            columns += [self._histograms[f"{scope}:{order}:{bins}"].update(spans) for bins in _BINS]
        steps = np.zeros((len(views), sum(part.shape[1] for part in columns)))
        steps[inside] = np.concatenate(columns, axis=1)
        return steps

    def _named_steps(self, views: TokenViews, inside: Bools, scope: int) -> Floats:
        ratios, columns = views.ratios[inside], []
        for (mix, cap), _ in self._variants(scope):
            # Without a look at the whole vocabulary, any ratio from 0 to the cap is possible.
            low, high = np.array(1 - mix), np.array(np.inf)
            factors = (1 - mix) + mix * ratios
            columns.append(tempered(factors, low, high, cap=cap, tolerance=self._tolerance))
        return np.log(np.concatenate(columns, axis=1))

    def _odds_steps(self, views: TokenViews, inside: Bools) -> Floats:
        """Bets that target exceeds draft more, or less, often than it should."""
        chances = views.gain_chances[inside, None]
        divisor = 1 + chances * (_ODDS - 1)
        low, high = np.minimum(_ODDS, 1) / divisor, np.maximum(_ODDS, 1) / divisor
        factors = np.where(views.gains[inside, None], _ODDS, 1.0) / divisor
        return np.log(tempered(factors, low, high, cap=np.inf, tolerance=self._tolerance))
