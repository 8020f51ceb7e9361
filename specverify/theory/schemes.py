"""Lossless schemes that differ in how often they accept and in whether they earn a bonus token.

All of them emit the target's law; their block lengths tell them apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specverify._arrays import to_numpy
from specverify.distributions import acceptance_rate
from specverify.errors import InvalidInputError
from specverify.theory.emitted_length import emitted_length_moments, emitted_length_pmf

__all__ = ["SCHEMES", "Scheme", "match_rate"]


def match_rate(target_probs: ArrayLike, draft_probs: ArrayLike) -> NDArray[np.float64]:
    """Probability ``sum target * draft`` that independent draws from the two coincide.

    It is also the acceptance rate of the rule "accept the draft token x with probability
    ``target(x)``, else draw from the target without x": given x, both keep x with probability
    ``target(x)`` and otherwise emit from the target without x.

    Args:
        target_probs: Probabilities, shape ``(..., vocab)``.
        draft_probs: Probabilities, same shape.

    Returns:
        Rates in [0, 1], shape ``(...)``; never above ``acceptance_rate``.
    """
    rate: NDArray[np.float64] = np.sum(np.multiply(target_probs, draft_probs), axis=-1)
    return rate


@dataclass(frozen=True)
class Scheme:
    """A way of drafting and verifying that leaves the target's law as it is.

    Attributes:
        name: Stable identifier.
        acceptance: Probability that a draft token is kept, from target and draft rows
            ``(..., vocab)``.
        bonus: Whether a fully accepted block earns one more token.
        text: The rule in words.
    """

    name: str
    acceptance: Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]
    bonus: bool
    text: str

    def length_pmf(self, target_probs: Any, draft_probs: Any) -> NDArray[np.float64]:
        """Law of the tokens that one block emits under fixed rows.

        Args:
            target_probs: Probabilities, shape ``(gamma + 1, vocab)``; ``(gamma, vocab)`` will do,
                since the bonus row does not bear on the length.
            draft_probs: Probabilities, shape ``(gamma, vocab)``.

        Returns:
            Probabilities of 1, 2, ... tokens, shape ``(gamma + 1,)``, or ``(gamma,)`` without
            bonus.

        Raises:
            InvalidInputError: If the shapes do not fit.
        """
        target, draft = to_numpy(target_probs), to_numpy(draft_probs)
        if draft.ndim != 2 or target.ndim != 2 or len(target) not in (len(draft), len(draft) + 1):
            raise InvalidInputError(
                "target_probs", f"shape {target.shape} does not fit draft_probs' {draft.shape}"
            )
        rates = self.acceptance(target[: len(draft)], draft)
        return emitted_length_pmf(np.clip(rates, 0, 1), bonus=self.bonus)

    def expected_length(self, target_probs: Any, draft_probs: Any) -> float:
        """Expected tokens of one block under fixed rows; arguments as ``length_pmf``."""
        return emitted_length_moments(self.length_pmf(target_probs, draft_probs))[0]


SCHEMES: Mapping[str, Scheme] = MappingProxyType(
    {
        scheme.name: scheme
        for scheme in (
            Scheme("standard", acceptance_rate, True, "accept with min(1, p/q), bonus token"),
            Scheme("no-bonus", acceptance_rate, False, "accept with min(1, p/q), no bonus token"),
            Scheme(
                "sample-and-match",
                match_rate,
                True,
                "keep drafting while the target's own draw equals the draft token, or accept x "
                "with probability p(x): the same law; bonus token",
            ),
            Scheme(
                "sample-and-match-no-bonus",
                match_rate,
                False,
                "the same without bonus token",
            ),
        )
    }
)
