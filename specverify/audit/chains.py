"""Laws of completions whose tokens form a Markov chain with a row for every position.

A context is the last tokens of a text, as many as the rows look back: none, one or more. Everything
that a correct implementation emits, and how many drafts it accepts, follows exactly from the rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from specverify.distributions import acceptance_rate, check_distribution
from specverify.errors import InvalidInputError

__all__ = ["Chain", "accepted_pmf", "marginals", "pair_law", "path_law", "path_laws"]

Floats = NDArray[np.float64]
_Number = TypeVar("_Number", int, NDArray[np.int64])


@dataclass(frozen=True, eq=False)
class Chain:
    """Target and draft rows by position and context.

    A context is numbered by its tokens as the digits of a number in base ``vocab``, the last one
    the least.

    Attributes:
        target: Target rows, shape ``(positions, contexts, vocab)``; ``contexts`` is
            ``vocab**order`` for rows that look ``order`` tokens back, 1 for none.
        draft: Draft rows, same shape.
        start: Context before the first position.
    """

    target: Floats
    draft: Floats
    start: int = 0

    def __post_init__(self) -> None:
        shape = self.target.shape
        if self.target.ndim != 3 or shape[1] != shape[2] ** _order(shape[1], shape[2]):
            raise InvalidInputError(
                "target", f"needs shape (positions, vocab**order, vocab), got {shape}"
            )
        if self.draft.shape != self.target.shape:
            raise InvalidInputError(
                "draft", f"shape {self.draft.shape} differs from target's {self.target.shape}"
            )
        if not 0 <= self.start < self.contexts:
            raise InvalidInputError("start", f"is no context of {self.contexts}: {self.start}")
        check_distribution("target", self.target)
        check_distribution("draft", self.draft)

    @property
    def vocab_size(self) -> int:
        """Number of tokens."""
        return int(self.target.shape[2])

    @property
    def contexts(self) -> int:
        """Number of contexts."""
        return int(self.target.shape[1])

    @property
    def order(self) -> int:
        """Number of tokens that a row looks back."""
        return _order(self.contexts, self.vocab_size)

    def after(self, context: _Number, token: _Number) -> _Number:
        """Context after ``token``, which follows ``context``; of arrays elementwise."""
        return (context * self.vocab_size + token) % self.contexts

    def context(self, tokens: Iterable[int]) -> int:
        """Context after the first tokens of a completion."""
        return reduce(self.after, tokens, self.start)

    def trail(self, start: int, tokens: NDArray[np.int64]) -> NDArray[np.int64]:
        """Contexts along texts.

        Args:
            start: Context before them.
            tokens: The texts, shape ``(n, length)``.

        Returns:
            The context before each token, and the one after the last: ``(n, length + 1)``.
        """
        contexts = [np.full(len(tokens), start, dtype=np.int64)]
        for column in tokens.T:
            contexts.append(self.after(contexts[-1], column))
        return np.column_stack(contexts)

    @cached_property
    def acceptance(self) -> Floats:
        """Probability that a draft token is accepted, shape ``(positions, contexts)``."""
        rates: Floats = acceptance_rate(self.target, self.draft)
        return rates


def marginals(chain: Chain, length: int) -> Floats:
    """Law of each context under the target, shape ``(length, contexts)``."""
    laws = np.zeros((length, chain.contexts))
    laws[0, chain.start] = 1.0
    for position in range(1, length):
        moved = _moved(laws[position - 1], chain.target[position - 1])
        laws[position] = moved if chain.contexts > 1 else 1.0
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
    before = marginals(chain, position + 1)[position]
    later = _merge(chain.target[position + 1], classes[position + 1], size)
    if chain.contexts == 1:
        earlier = before @ chain.target[position]
        return np.outer(_merge(earlier[None], classes[position], size)[0], later[0])
    between = _moved(before, chain.target[position])
    joint = np.zeros((size, size))
    earlier_token = np.arange(chain.contexts) % chain.vocab_size
    np.add.at(joint, classes[position][earlier_token], between[:, None] * later)
    return joint


def path_law(chain: Chain, length: int) -> Floats:
    """Joint law of the first ``length`` tokens, shape ``(vocab,) * length`` flattened."""
    law, contexts = np.ones(1), np.array([chain.start])
    for position in range(length):
        law = (law[:, None] * chain.target[position, contexts]).reshape(-1)
        contexts = chain.after(contexts[:, None], np.arange(chain.vocab_size)).reshape(-1)
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
    reached[chain.start if context is None else context] = 1.0
    survival = [1.0]
    for position in range(gamma):
        reached = _moved(reached, kept[position])
        survival.append(float(reached.sum()))
    steps: Floats = np.diff(np.array([0.0, *survival[::-1]]))[::-1]
    pmf: Floats = np.maximum(steps, 0.0)
    return pmf


def _order(contexts: int, vocab: int) -> int:
    """Tokens that a context holds, rounded up where ``contexts`` is no power of ``vocab``."""
    order = 0
    while vocab > 1 and vocab**order < contexts:
        order += 1
    return order


def _moved(reached: Floats, rows: Floats) -> Floats:
    """Mass of each context after one more token: the oldest token is forgotten.

    Args:
        reached: Mass of each context before it, shape ``(contexts,)``.
        rows: Mass of the token after each context, shape ``(contexts, vocab)``.
    """
    contexts, vocab = rows.shape
    if contexts == 1:
        return np.array([(reached @ rows).sum()])
    oldest, tables = reached.reshape(vocab, -1), rows.reshape(vocab, -1, vocab)
    kept = range(contexts // vocab)
    return np.concatenate([oldest[:, rest] @ tables[:, rest] for rest in kept])


def _merge(rows: Floats, classes: NDArray[np.int64], size: int) -> Floats:
    merged = np.zeros((len(rows), size))
    np.add.at(merged.T, classes, rows.T)
    return merged
