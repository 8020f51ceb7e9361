"""Block verification cut into stages, so that a bug's file states its defect and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from specverify._arrays import FloatArray, IntArray
from specverify.bugs.draws import Draws, SampledDraws, invert
from specverify.distributions import acceptance_probabilities, residual_distribution

__all__ = [
    "PAD",
    "STANDARD",
    "Block",
    "Coupling",
    "Rows",
    "StagedVerifier",
    "normalised",
    "remembering",
    "replaced",
    "standard_bonus",
]

PAD = -1

AcceptStage: TypeAlias = Callable[[FloatArray, FloatArray], FloatArray]
ResidualStage: TypeAlias = Callable[[FloatArray, FloatArray, IntArray], FloatArray]
Block: TypeAlias = tuple[list[int], int]


class Rows(NamedTuple):
    """The laws of one block, any leading axes.

    Attributes:
        target: Target rows at the draft positions, shape ``(..., gamma, vocab)``.
        draft: Draft rows, same shape.
        bonus: Target row after the last draft, shape ``(..., vocab)``.
    """

    target: FloatArray
    draft: FloatArray
    bonus: FloatArray


class Coupling(Enum):
    """Which uniforms are one and the same."""

    NONE = "every draw has its own"
    BLOCK = "one accept uniform for all positions"
    RESIDUAL = "the accept uniform inverts the residual"


def normalised(weights: FloatArray) -> FloatArray:
    """Weights over the last axis made a law; a row without mass becomes uniform."""
    total = weights.sum(axis=-1, keepdims=True)
    empty = total <= 0
    law: FloatArray = np.where(empty, 1 / weights.shape[-1], weights / np.where(empty, 1, total))
    return law


def _unchanged(rows: Rows) -> Rows:
    return rows


def _standard_residual(target: FloatArray, draft: FloatArray, _tokens: IntArray) -> FloatArray:
    return np.asarray(residual_distribution(target, draft))


def standard_bonus(rows: Rows) -> FloatArray:
    """The target's row after the last draft."""
    return rows.bonus


def _standard_emission(tokens: list[int], n_accepted: int, final: int | None) -> Block:
    return [*tokens[:n_accepted], *([] if final is None else [final])], n_accepted


@dataclass(frozen=True, kw_only=True)
class StagedVerifier:
    """A block verifier whose stages can be replaced one by one; the default is the standard rule.

    Attributes:
        view: The rows as the implementation sees them (parameters, row indices, masks).
        accept: Acceptance probability of every token, from aligned rows ``(..., vocab)``.
        residual: Law of the correction, from aligned rows and the rejected tokens ``(...)``.
        residual_view: The rows that the residual is made from, where they differ.
        bonus: Law of the bonus token; None for none.
        emit: Emitted ids and reported count from drafts, accepted prefix and last token.
        coupling: Which uniforms are shared.

    References:
        Leviathan et al. (2023), arXiv:2211.17192, algorithm 1.
    """

    view: Callable[[Rows], Rows] = _unchanged
    accept: AcceptStage = acceptance_probabilities
    residual: ResidualStage = _standard_residual
    residual_view: Callable[[Rows], Rows] = _unchanged
    bonus: Callable[[Rows], FloatArray] | None = standard_bonus
    emit: Callable[[list[int], int, int | None], Block] = _standard_emission
    coupling: Coupling = Coupling.NONE

    def __call__(
        self,
        target_probs: FloatArray,
        draft_probs: FloatArray,
        draft_tokens: IntArray,
        generator: np.random.Generator,
    ) -> tuple[Any, Any]:
        """Verify one block, or a batch of blocks.

        Args:
            target_probs: Target rows, shape ``(gamma + 1, vocab)``, or with a leading batch axis.
            draft_probs: Draft rows, shape ``(gamma, vocab)``, likewise.
            draft_tokens: Drafted ids, shape ``(gamma,)``, likewise.
            generator: Source of randomness.

        Returns:
            Emitted ids and the count of accepted drafts; for a batch, ids ``(batch, gamma + 1)``
            padded with -1 and counts ``(batch,)``.
        """
        rows = Rows(target_probs[..., :-1, :], draft_probs, target_probs[..., -1, :])
        if draft_tokens.ndim == 2:
            vectorised = type(self).block is StagedVerifier.block
            verify = self._batch if vectorised else self._one_by_one
            return verify(rows, draft_tokens, generator)
        return self.block(rows, draft_tokens.tolist(), SampledDraws(generator))

    def block(self, rows: Rows, tokens: list[int], draws: Draws) -> Block:
        """Verify one block with the given draws: sampled or enumerated."""
        seen = self.view(rows)
        accept = self.accept(seen.target, seen.draft)
        gamma = len(tokens)
        uniform: Any = draws.uniform() if self.coupling is Coupling.BLOCK else None
        for i, token in enumerate(tokens):
            if self.coupling is not Coupling.BLOCK:
                uniform = draws.uniform()
            if not uniform < float(accept[i, token]):
                law = self._corrections(seen, np.asarray(tokens))[i]
                shared = self.coupling is Coupling.RESIDUAL
                final = invert(uniform, law) if shared else draws.token(law)
                return self.emit(tokens, i, final)
        if self.bonus is None:
            return self.emit(tokens, gamma, None)
        return self.emit(tokens, gamma, draws.token(self.bonus(seen)))

    def accepted(self, rows: Rows, tokens: list[int], draws: Draws) -> int:
        """Length of the accepted prefix, each test with a uniform of its own."""
        accept = self.accept(rows.target, rows.draft)
        for i, token in enumerate(tokens):
            if not draws.uniform() < float(accept[i, token]):
                return i
        return len(tokens)

    def final_law(self, rows: Rows, tokens: list[int], n_accepted: int) -> FloatArray:
        """Law of the token after ``n_accepted`` drafts: of the correction, or of the bonus."""
        if n_accepted == len(tokens):
            return standard_bonus(rows) if self.bonus is None else self.bonus(rows)
        law: FloatArray = self._corrections(rows, np.asarray(tokens))[n_accepted]
        return law

    def row_law(self, target: FloatArray, draft: FloatArray) -> FloatArray:
        """Law of a reached draft position, where the residual does not depend on the token.

        Args:
            target: Target rows, shape ``(..., vocab)``.
            draft: Draft rows, same shape.

        Returns:
            ``draft * accept + (1 - sum(draft * accept)) * residual``, same shape.
        """
        one = Rows(target[..., None, :], draft[..., None, :], target)
        seen = self.view(one)
        kept = draft * self.accept(seen.target, seen.draft)[..., 0, :]
        correction = self._corrections(seen, np.zeros((*kept.shape[:-1], 1), dtype=int))
        lost = np.maximum(1 - kept.sum(axis=-1, keepdims=True), 0)  # rounding may pass 1
        law: FloatArray = kept + lost * correction[..., 0, :]
        return law

    def _corrections(self, seen: Rows, tokens: IntArray) -> FloatArray:
        made_from = self.residual_view(seen)
        return self.residual(made_from.target, made_from.draft, tokens)

    def _batch(
        self, rows: Rows, tokens: IntArray, generator: np.random.Generator
    ) -> tuple[IntArray, IntArray]:
        """The same stages, vectorised over blocks."""
        seen = self.view(rows)
        accept = np.take_along_axis(
            self.accept(seen.target, seen.draft), tokens[..., None], axis=-1
        )[..., 0]
        shape = accept.shape[:-1] + ((1,) if self.coupling is Coupling.BLOCK else accept.shape[-1:])
        uniforms = np.broadcast_to(generator.random(shape), accept.shape)
        prefix = np.logical_and.accumulate(uniforms < accept, axis=-1).sum(axis=-1)
        final = self._finals(seen, tokens, prefix, uniforms, generator)
        return self._emit_batch(tokens, prefix, final)

    def _finals(
        self,
        seen: Rows,
        tokens: IntArray,
        prefix: IntArray,
        uniforms: FloatArray,
        generator: np.random.Generator,
    ) -> IntArray:
        at = np.minimum(prefix, tokens.shape[-1] - 1)[:, None]
        laws = np.take_along_axis(self._corrections(seen, tokens), at[..., None], axis=-2)[:, 0]
        points = generator.random(len(tokens))
        full = prefix == tokens.shape[-1]
        if self.coupling is Coupling.RESIDUAL:
            points = np.where(full, points, np.take_along_axis(uniforms, at, axis=-1)[:, 0])
        if self.bonus is None:
            return np.where(full, PAD, _invert_rows(points, laws))
        return _invert_rows(points, np.where(full[:, None], self.bonus(seen), laws))

    def _emit_batch(
        self, tokens: IntArray, prefix: IntArray, final: IntArray
    ) -> tuple[IntArray, IntArray]:
        if self.emit is _standard_emission:
            return _emit_standard(tokens, prefix, final), prefix
        emitted = np.full((len(tokens), tokens.shape[-1] + 1), PAD)
        counts = np.empty(len(tokens), dtype=np.int64)
        for row, (drafts, n, last) in enumerate(zip(tokens.tolist(), prefix, final, strict=True)):
            ids, counts[row] = self.emit(drafts, int(n), None if last == PAD else int(last))
            emitted[row, : len(ids)] = ids
        return emitted, counts

    def _one_by_one(
        self, rows: Rows, tokens: IntArray, generator: np.random.Generator
    ) -> tuple[IntArray, IntArray]:
        emitted = np.full((len(tokens), tokens.shape[-1] + 1), PAD)
        counts = np.empty(len(tokens), dtype=np.int64)
        draws = SampledDraws(generator)
        for row, drafts in enumerate(tokens.tolist()):
            laws = Rows(rows.target[row], rows.draft[row], rows.bonus[row])
            ids, counts[row] = self.block(laws, drafts, draws)
            emitted[row, : len(ids)] = ids
        return emitted, counts


def _emit_standard(tokens: IntArray, prefix: IntArray, final: IntArray) -> IntArray:
    places = np.arange(tokens.shape[-1] + 1)
    drafts = np.pad(tokens, ((0, 0), (0, 1)), constant_values=PAD)
    kept = np.where(places < prefix[:, None], drafts, PAD)
    return np.where(places == prefix[:, None], final[:, None], kept)


def _invert_rows(points: FloatArray, laws: FloatArray) -> IntArray:
    edges = np.cumsum(laws, axis=-1)
    drawn = (points[:, None] * edges[:, -1:] >= edges).sum(axis=-1)
    return np.asarray(np.minimum(drawn, laws.shape[-1] - 1))


def replaced(rows: Rows, change: Callable[[FloatArray], FloatArray]) -> Rows:
    """The rows with ``change`` applied to the target's, the bonus row included."""
    return rows._replace(target=change(rows.target), bonus=change(rows.bonus))


STANDARD = StagedVerifier()
"""The rule of the paper."""


def remembering(verifier: StagedVerifier) -> StagedVerifier:
    """The verifier, whose stages work out what they were asked before only once.

    Enumerating its law asks the same of them on every path.
    """
    bonus = None if verifier.bonus is None else _remembered(verifier.bonus)
    return replace(
        verifier,
        view=_remembered(verifier.view),
        accept=_remembered(verifier.accept),
        residual=_remembered(verifier.residual),
        residual_view=_remembered(verifier.residual_view),
        bonus=bonus,
    )


def _remembered(stage: Callable[..., Any]) -> Callable[..., Any]:
    known: dict[tuple[bytes, ...], Any] = {}

    def remembered(*arguments: Any) -> Any:
        # A stage is given rows, or arrays of one shape.
        arrays = (part for one in arguments for part in (one if isinstance(one, Rows) else (one,)))
        key = tuple(array.tobytes() for array in arrays)
        if key not in known:
            known[key] = stage(*arguments)
        return known[key]

    return remembered
