"""Language models given by a table: small enough that every law is known exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, Self

import numpy as np

from specverify._arrays import Array, FloatArray
from specverify.distributions import acceptance_rate, check_distribution, one_hot
from specverify.errors import InvalidInputError

__all__ = ["PAD_TOKEN", "StepFunction", "TabularModel"]

PAD_TOKEN = 0
"""Token that stands before the beginning: shorter contexts are padded with it on the left."""

StepFunction = Callable[[Any], Any]
"""Maps a 1-D context of token ids to the law of the next token, shape ``(vocab,)``."""


class TabularModel:
    """An n-gram model: the next token's law is a table row chosen by the last ``order`` tokens.

    A context shorter than ``order`` is padded on the left with token 0 (``PAD_TOKEN``), so the
    model is defined for every context, the empty one included.

    Args:
        table: Conditional laws, shape ``(V,) * order + (V,)``; kept as read-only float64.
        order: Number of tokens of context, 0 for a context-free model; from the shape by default.

    Raises:
        InvalidInputError: If the shape does not fit or a row is not a distribution.
    """

    def __init__(self, table: Array, order: int | None = None) -> None:
        rows = np.array(table, dtype=np.float64)
        wanted = rows.ndim - 1 if order is None else order
        if wanted < 0 or rows.ndim != wanted + 1 or len(set(rows.shape)) != 1:
            raise InvalidInputError(
                "table", f"shape {rows.shape} is not (V,) * order + (V,) with order {wanted}"
            )
        check_distribution("table", rows)
        rows.flags.writeable = False
        self._table = rows

    @property
    def table(self) -> FloatArray:
        """Conditional laws, shape ``(V,) * order + (V,)``, read-only float64."""
        return self._table

    @property
    def vocab_size(self) -> int:
        """Number of tokens ``V``."""
        return int(self._table.shape[-1])

    @property
    def order(self) -> int:
        """Number of tokens of context that matter."""
        return self._table.ndim - 1

    def next_probs(self, context: Iterable[int]) -> FloatArray:
        """Law of the token after ``context``.

        Args:
            context: Token ids, any length; only the last ``order`` matter.

        Returns:
            Probabilities, float64, shape ``(V,)``: a read-only view of the table's row.

        Raises:
            InvalidInputError: If one of those ids is outside ``[0, V)``.
        """
        row: FloatArray = self._table[self._state(context)]
        return row

    def step(self, framework: Literal["torch", "numpy"] = "torch") -> StepFunction:
        """Step function of the model: 1-D context in, law of the next token out, float64.

        Args:
            framework: Kind of array that the step function returns. The context may be of any
                kind; the returned array is a copy that the caller may write to.

        Raises:
            InvalidInputError: If the framework is not known.
        """
        if framework == "numpy":
            return lambda context: self.next_probs(context).copy()
        if framework != "torch":
            raise InvalidInputError("framework", f"must be 'torch' or 'numpy', got {framework!r}")
        import torch

        table = torch.from_numpy(self._table.copy())
        return lambda context: table[self._state(context)].clone()

    @classmethod
    def random(
        cls, vocab_size: int, order: int, rng: np.random.Generator, *, concentration: float = 1.0
    ) -> Self:
        """A model whose rows are independent symmetric Dirichlet draws.

        Args:
            vocab_size: Number of tokens, at least 1.
            order: Tokens of context, at least 0.
            rng: Source of randomness.
            concentration: Dirichlet parameter; smaller is more peaked.

        Raises:
            InvalidInputError: If a number is out of range.
        """
        if vocab_size < 1:
            raise InvalidInputError("vocab_size", f"must be at least 1, got {vocab_size}")
        if order < 0:
            raise InvalidInputError("order", f"must be at least 0, got {order}")
        return cls(_dirichlet((vocab_size,) * order, vocab_size, rng, concentration))

    def perturbed(
        self, rng: np.random.Generator, strength: float = 0.3, *, concentration: float = 1.0
    ) -> Self:
        """A draft for this model: every row mixed with an independent Dirichlet draw.

        Args:
            rng: Source of randomness.
            strength: Weight of the noise in [0, 1]; a row's acceptance rate is
                ``1 - strength * TV(row, noise)``.
            concentration: Dirichlet parameter of the noise; smaller disagrees more.

        Raises:
            InvalidInputError: If the strength is outside [0, 1].
        """
        if not 0 <= strength <= 1:
            raise InvalidInputError("strength", f"must lie in [0, 1], got {strength}")
        noise = _dirichlet(self._table.shape[:-1], self.vocab_size, rng, concentration)
        return type(self)((1 - strength) * self._table + strength * noise)

    def with_acceptance(self, rng: np.random.Generator, acceptance: float) -> Self:
        """A draft whose acceptance rate ``sum min(target, draft)`` is the same in every row.

        Each row moves in a random direction; where that cannot disagree enough it moves towards
        the row's least likely token, the direction that can disagree most.

        Args:
            rng: Source of randomness.
            acceptance: Wanted rate in [0, 1].

        Raises:
            InvalidInputError: If it is outside [0, 1], or below a row's smallest probability,
                which no draft can reach.
        """
        if not 0 <= acceptance <= 1:
            raise InvalidInputError("acceptance", f"must lie in [0, 1], got {acceptance}")
        floor = float(self._table.min(axis=-1).max())
        if acceptance < floor:
            raise InvalidInputError(
                "acceptance", f"no draft of this model is below {floor:.6g}, got {acceptance}"
            )
        noise = _dirichlet(self._table.shape[:-1], self.vocab_size, rng, 0.3)
        farthest = one_hot(self._table.argmin(axis=-1), self.vocab_size)
        agrees = acceptance_rate(self._table, noise)[..., None] > acceptance
        direction = np.where(agrees, farthest, noise)
        reach = 1 - acceptance_rate(self._table, direction)[..., None]
        weight = np.divide(1 - acceptance, reach, out=np.zeros_like(reach), where=reach > 0)
        return type(self)((1 - weight) * self._table + weight * direction)

    def _state(self, context: Iterable[int]) -> tuple[int, ...]:
        if self.order == 0:
            return ()
        recent: Any = context if hasattr(context, "__getitem__") else tuple(context)
        tail = tuple(int(token) for token in recent[-self.order :])
        if any(not 0 <= token < self.vocab_size for token in tail):
            raise InvalidInputError(
                "context", f"token ids must lie in [0, {self.vocab_size}), got {list(tail)}"
            )
        return (PAD_TOKEN,) * (self.order - len(tail)) + tail


def _dirichlet(
    shape: tuple[int, ...], vocab_size: int, rng: np.random.Generator, concentration: float
) -> FloatArray:
    if not concentration > 0:
        raise InvalidInputError("concentration", f"must be positive, got {concentration}")
    draws: FloatArray = rng.dirichlet(np.full(vocab_size, concentration), size=shape)
    return draws
