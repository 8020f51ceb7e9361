"""What known bugs would make a scenario's completions look like: laws to bet on.

Blocks are completed by calling the implementation again with the rows that follow, so a bug acts at
every position. Any law is a valid thing to bet on: where an exact one would cost too much, each
token's marginal law stands in for the joint one.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from specverify.audit.counting import paths_are_counted
from specverify.audit.forms import Form
from specverify.audit.scenarios import Scenario
from specverify.bugs import ZOO
from specverify.bugs.staged import Coupling, Rows, StagedVerifier

__all__ = ["known_paths", "known_rows"]

Floats: TypeAlias = NDArray[Any]
_SAME = 1e-4
"""Laws nearer than this to the target's are no alternative."""


@cache
def known_paths(scenario: Scenario) -> dict[str, Floats]:
    """Joint law of a whole completion under each known bug that changes it.

    Args:
        scenario: One whose completions are counted whole, of the verify or the batched form.

    Returns:
        Laws by the bug's name, each of shape ``(vocab**length,)``; empty for other scenarios.
    """
    if not _block_form(scenario) or not paths_are_counted(scenario):
        return {}
    right = _path_law(StagedVerifier(), scenario)
    laws = {name: _path_law(bug, scenario) for name, bug in _bugs()}
    return {name: law for name, law in laws.items() if np.abs(law - right).sum() > 2 * _SAME}


@cache
def known_rows(scenario: Scenario) -> dict[str, Floats]:
    """Law of each token at each position after each context under every known bug.

    Returns:
        Laws by the bug's name, each of shape ``(length, contexts, vocab)``; contexts that a bug
        never reaches keep the target's row.
    """
    if not _block_form(scenario):
        return {}
    chain, length = scenario.chain, scenario.length
    if paths_are_counted(scenario):
        rows = {name: _rows_of(law, scenario) for name, law in known_paths(scenario).items()}
    elif chain.contexts == 1:
        found = ((name, _marginal_rows(bug, scenario)) for name, bug in _bugs())
        rows = {name: law for name, law in found if law is not None}
    else:
        return {}
    right = chain.target[:length]
    return {n: law for n, law in rows.items() if np.abs(law - right).sum(axis=2).max() > 2 * _SAME}


def _block_form(scenario: Scenario) -> bool:
    return scenario.form in (Form.VERIFY, Form.BATCHED)


def _bugs() -> Iterator[tuple[str, StagedVerifier]]:
    """Members whose stages say everything: no loop and no emission of their own."""
    for bug in ZOO.values():
        verifier, standard = bug.callable, StagedVerifier()
        if not isinstance(verifier, StagedVerifier) or not _stays_inside(verifier):
            continue
        if type(verifier).block is StagedVerifier.block and verifier.emit is standard.emit:
            yield bug.name, verifier


def _stays_inside(verifier: StagedVerifier) -> bool:
    """Whether every law that is drawn from has the vocabulary's size."""
    row = np.full((1, 3), 1 / 3)
    seen = verifier.view(Rows(row, row, row[0]))
    laws = [verifier.residual(seen.target, seen.draft, np.zeros(1, dtype=np.int64))]
    laws += [] if verifier.bonus is None else [verifier.bonus(seen)]
    return all(law.shape[-1] == 3 for law in laws)


def _path_law(verifier: StagedVerifier, scenario: Scenario) -> Floats:
    """Blocks follow each other until the completion is full; the last one is cut."""
    chain, length, vocab = scenario.chain, scenario.length, scenario.vocab_size
    # starts[t]: probability of each text of t tokens after which a block begins.
    starts = [np.zeros(vocab**t) for t in range(length)]
    starts[0][:] = 1.0
    whole = np.zeros(vocab**length)
    for t in range(length):
        mass = starts[t].reshape(-1, chain.contexts) if t else starts[t].reshape(1, 1)
        contexts = range(chain.contexts) if t else [chain.start]
        for column, context in enumerate(contexts):
            for block in _block_laws(verifier, scenario, t, context):
                texts = np.multiply.outer(mass[:, column], block)
                full = np.zeros((*mass.shape, len(block)))
                full[:, column] = texts
                end = t + round(np.log(len(block)) / np.log(vocab))
                if end < length:
                    starts[end] += full.reshape(-1)
                else:
                    whole += full.reshape(vocab**length, -1).sum(axis=1)
    return whole


def _block_laws(
    verifier: StagedVerifier, scenario: Scenario, start: int, context: int
) -> list[Floats]:
    """Laws of the emitted ids of one block, by their number from 1: shapes ``(vocab**k,)``."""
    gamma, vocab = scenario.gamma, scenario.vocab_size
    drafts = np.indices((vocab,) * gamma).reshape(gamma, -1).T
    rows, chance = _rows(scenario, start, context, drafts)
    seen = verifier.view(rows)
    accept = verifier.accept(seen.target, seen.draft)
    kept = np.take_along_axis(accept, drafts[..., None], axis=-1)[..., 0]
    made_from = verifier.residual_view(seen)
    corrections = verifier.residual(made_from.target, made_from.draft, drafts)
    reached = np.cumprod(kept, axis=1)
    if verifier.coupling is Coupling.BLOCK:
        reached = np.minimum.accumulate(kept, axis=1)
    reached = np.concatenate([np.ones((len(drafts), 1)), reached], axis=1)
    laws = []
    for k in range(gamma):
        lost = (reached[:, k] - reached[:, k + 1])[:, None] * corrections[:, k]
        if verifier.coupling is Coupling.RESIDUAL:
            lost = reached[:, k, None] * _inverted(kept[:, k], corrections[:, k])
        joint = (chance[:, None] * lost).reshape(vocab**k, -1, vocab)
        laws.append(joint.sum(axis=1).reshape(-1))
    full = chance * reached[:, gamma]
    if verifier.bonus is None:
        laws[-1] = laws[-1] + full
        return laws
    laws.append((full[:, None] * verifier.bonus(seen)).reshape(-1))
    return laws


def _rows(
    scenario: Scenario, start: int, context: int, drafts: NDArray[np.int64]
) -> tuple[Rows, Floats]:
    """The rows of a block along each path of drafts, and the probability of the path."""
    chain, gamma = scenario.chain, scenario.gamma
    contexts = chain.trail(context, drafts)
    positions = start + np.arange(gamma + 1)
    target = chain.target[positions, contexts]
    draft = chain.draft[positions[:-1], contexts[:, :-1]]
    chance = np.take_along_axis(draft, drafts[..., None], axis=-1)[..., 0].prod(axis=1)
    return Rows(target[:, :-1], draft, target[:, -1]), chance


def _inverted(kept: Floats, law: Floats) -> Floats:
    """Mass of each correction where the uniform that rejected a draft inverts its law."""
    edges = np.concatenate([np.zeros((len(law), 1)), law.cumsum(axis=1)], axis=1)
    mass: Floats = np.diff(np.maximum(edges - kept[:, None], 0.0), axis=1)
    return mass


def _rows_of(law: Floats, scenario: Scenario) -> Floats:
    """Conditional laws of each token, given the one before where that matters."""
    chain, length, vocab = scenario.chain, scenario.length, scenario.vocab_size
    rows = chain.target[:length].copy()
    for position in range(length):
        before = chain.contexts if position else 1
        table = law.reshape(vocab**position, vocab, -1).sum(axis=2)
        table = table.reshape(-1, before, vocab).sum(axis=0)
        mass = table.sum(axis=1)
        places = np.flatnonzero(mass > 0)
        contexts = places if position else [chain.start]
        rows[position, contexts] = table[places] / mass[places, None]
    return rows


def _marginal_rows(verifier: StagedVerifier, scenario: Scenario) -> Floats | None:
    """Marginal law of each token; None where a block's stages are coupled."""
    if verifier.coupling is Coupling.BLOCK:
        return None
    chain, gamma, length = scenario.chain, scenario.gamma, scenario.length
    law = np.zeros((length, 1, scenario.vocab_size))
    begins = np.zeros(length + gamma + 2)
    begins[0] = 1.0
    for start in range(length):
        rows = Rows(
            chain.target[start : start + gamma, 0],
            chain.draft[start : start + gamma, 0],
            chain.target[start + gamma, 0],
        )
        weight = begins[start]
        for offset, (kept, lost) in enumerate(_stages(verifier, rows)):
            if start + offset < length:
                law[start + offset, 0] += weight * (kept + lost)
            begins[start + offset + 1] += weight * float(lost.sum())
            weight *= float(kept.sum())
        begins[start + offset + 1] += weight
    return law


def _stages(verifier: StagedVerifier, rows: Rows) -> Iterator[tuple[Floats, Floats]]:
    """Mass of each token as an accepted draft and as what ends a block, along a block."""
    seen = verifier.view(rows)
    accept = verifier.accept(seen.target, seen.draft)
    made_from = verifier.residual_view(seen)
    nothing = np.zeros(len(rows.bonus))
    for i, draft in enumerate(rows.draft):
        kept = draft * accept[i]
        tokens = np.full(len(rows.draft), int(np.argmax(draft)))
        law = verifier.residual(made_from.target, made_from.draft, tokens)[i]
        lost = float(draft.sum() - kept.sum()) * law
        if verifier.coupling is Coupling.RESIDUAL:
            lost = _averaged_inversion(accept[i], draft, law)
        yield kept, lost
    if verifier.bonus is not None:
        yield nothing, verifier.bonus(seen)


def _averaged_inversion(accept: Floats, draft: Floats, law: Floats) -> Floats:
    """:func:`_inverted` averaged over drafts, in one pass over the sorted acceptances."""
    order = np.argsort(accept, kind="stable")
    levels = accept[order]
    mass = np.concatenate([[0.0], draft[order].cumsum()])
    moment = np.concatenate([[0.0], (draft[order] * levels).cumsum()])
    edges = np.concatenate([[0.0], law.cumsum()])
    below = np.searchsorted(levels, edges, side="right")
    lost: Floats = np.diff(edges * mass[below] - moment[below])
    return np.maximum(lost, 0.0)
