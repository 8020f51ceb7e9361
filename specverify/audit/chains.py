"""Laws of completions whose tokens form a Markov chain with a row for every position.

Rows that do not depend on the token before are the special case of one context. Everything that a
correct implementation emits, and how many drafts it accepts, follows exactly from these rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from specverify.distributions import acceptance_rate, check_distribution
from specverify.errors import InvalidInputError

__all__ = ["Chain", "accepted_pmf", "marginals", "pair_law", "path_law", "path_laws"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Chain:
    """Target and draft rows by position and by the token before.

    Attributes:
        target: Target rows, shape ``(positions, contexts, vocab)``; ``contexts`` is 1 (the token
            before does not matter) or ``vocab``.
        draft: Draft rows, same shape.
        start: Token before the first position.
    """

    target: Floats
    draft: Floats
    start: int = 0

    def __post_init__(self) -> None:
        if self.target.ndim != 3 or self.target.shape[1] not in (1, self.target.shape[2]):
            raise InvalidInputError(
                "target", f"needs shape (positions, 1 or vocab, vocab), got {self.target.shape}"
            )
        if self.draft.shape != self.target.shape:
            raise InvalidInputError(
                "draft", f"shape {self.draft.shape} differs from target's {self.target.shape}"
            )
        check_distribution("target", self.target)
        check_distribution("draft", self.draft)

    @property
    def vocab_size(self) -> int:
        """Number of tokens."""
        return int(self.target.shape[2])

    @property
    def contexts(self) -> int:
        """Number of contexts: 1, or the vocabulary's size."""
        return int(self.target.shape[1])

    def context(self, previous: int) -> int:
        """Index of the row's context after the token ``previous``."""
        return previous if self.contexts > 1 else 0

    @cached_property
    def acceptance(self) -> Floats:
        """Probability that a draft token is accepted, shape ``(positions, contexts)``."""
        rates: Floats = acceptance_rate(self.target, self.draft)
        return rates


def marginals(chain: Chain, length: int) -> Floats:
    """Law of each context under the target, shape ``(length, contexts)``."""
    laws = np.zeros((length, chain.contexts))
    laws[0, chain.context(chain.start)] = 1.0
    for position in range(1, length):
        token_law = laws[position - 1] @ chain.target[position - 1]
        laws[position] = token_law if chain.contexts > 1 else 1.0
    return laws


def pair_law(chain: Chain, position: int, classes: NDArray[np.int64]) -> Floats:
    """Joint law of two neighbouring tokens, merged into classes.

    Args:
        chain: The rows.
        position: Position of the earlier token.
        classes: Class of each token at each position, shape ``(positions, vocab)``.

    Returns:
        Probabilities, shape ``(n_classes, n_classes)``.
    """
    size = int(classes.max()) + 1
    earlier = marginals(chain, position + 1)[position] @ chain.target[position]
    later = _merge(chain.target[position + 1], classes[position + 1], size)
    if chain.contexts == 1:
        return np.outer(_merge(earlier[None], classes[position], size)[0], later[0])
    joint = np.zeros((size, size))
    np.add.at(joint, classes[position], earlier[:, None] * later)
    return joint


def path_law(chain: Chain, length: int) -> Floats:
    """Joint law of the first ``length`` tokens, shape ``(vocab,) * length`` flattened."""
    law: Floats = chain.target[0, chain.context(chain.start)]
    for position in range(1, length):
        rows = chain.target[position]
        last = law.reshape(-1, chain.vocab_size)
        law = (last[:, :, None] * rows[None]).reshape(-1)
    return law


def path_laws(chain: Chain, length: int) -> tuple[Floats, Floats]:
    """:func:`path_law` under the target, and the same of the draft's rows."""
    drafted = Chain(target=chain.draft, draft=chain.target, start=chain.start)
    return path_law(chain, length), path_law(drafted, length)


def accepted_pmf(
    chain: Chain, gamma: int, *, context: int | None = None, matching: bool = False
) -> Floats:
    """Law of the number of accepted drafts in a block that starts at the first row.

    Args:
        chain: The rows.
        gamma: Drafted tokens.
        context: Context of the first row; that of the chain's start when None.
        matching: Probability that a drafted ``x`` is accepted: ``min(1, target/draft)`` of the
            standard rule, or ``target(x)`` of sample-and-match.

    Returns:
        Probabilities of 0 to ``gamma`` accepted drafts.

    References:
        Leviathan et al. (2023), arXiv:2211.17192, section 3.1, there for a constant rate.
    """
    kept = chain.target * chain.draft if matching else np.minimum(chain.target, chain.draft)
    reached = np.zeros(chain.contexts)
    reached[chain.context(chain.start) if context is None else context] = 1.0
    survival = [1.0]
    for position in range(gamma):
        tokens = reached @ kept[position]
        reached = tokens if chain.contexts > 1 else np.array([tokens.sum()])
        survival.append(float(reached.sum()))
    steps: Floats = np.diff(np.array([0.0, *survival[::-1]]))[::-1]
    pmf: Floats = np.maximum(steps, 0.0)
    return pmf


def _merge(rows: Floats, classes: NDArray[np.int64], size: int) -> Floats:
    merged = np.zeros((len(rows), size))
    np.add.at(merged.T, classes, rows.T)
    return merged
