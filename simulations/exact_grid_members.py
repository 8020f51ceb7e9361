"""What is run on the grid, and how far each member lies from what it must be."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias
from unittest import mock

import numpy as np
from exact_grid_cells import Cell

from specverify.bugs import CONTROLS, LOSSY, ZOO, Bug, Effect, Kind
from specverify.bugs.batches import StagedBatch, batch_law
from specverify.bugs.catalog import temperature
from specverify.bugs.laws import block_law, emitted_law, exact_tv, law_distance, target_law
from specverify.bugs.scenes import PROMPT, Scene, rows_scene
from specverify.bugs.staged import Rows
from specverify.exact import ExactLaw, TracedGenerator, enumerate_law
from specverify.exact.blocks import check_exact
from specverify.exact.calling import Framework
from specverify.exact.composition import compose_decode_law
from specverify.exact.decoding import check_exact_decode, judge_completions
from specverify.models.tabular import TabularModel
from specverify.sampler.batched import verify_blocks
from specverify.sampler.decode import speculative_decode
from specverify.sampler.verify import speculative_verify

LOSSLESS, AGREEMENT = 1e-12, 1e-9
# The zoo completes every block by enumeration too, which takes longer than all the rest.
COMPLETED_BLOCKS = 100
# Batches are enumerated jointly, so that only small ones are.
LARGEST_BATCH_VOCAB = 3
# CPU seconds of one loop in one cell: a loop that loses its first token decodes one more.
LOOP_SECONDS = 900.0


@dataclass(frozen=True, kw_only=True)
class Found:
    """What one member did in one cell: its distance, its deviation from what it must be.

    Where not every path was explored, what was found may lie below the expected law, and nowhere
    above it: the deviation is then what does.
    """

    tv: float
    deviation: float
    paths: int
    explored: float = 1.0


Check: TypeAlias = Callable[[Cell], Found | None]
"""What a member does in a cell; None where it is not run there."""


@dataclass(frozen=True, kw_only=True)
class Member:
    """Something on the grid.

    Attributes:
        name: What the report calls it.
        role: ``reference``, ``control``, ``bug`` or ``lossy``.
        check: Runs it in a cell.
    """

    name: str
    role: str
    check: Check

    @property
    def tolerance(self) -> float:
        """Largest deviation allowed."""
        return LOSSLESS if self.role in ("reference", "control") else AGREEMENT


# --- what must be lossless


def block_check(verify: Any, **options: Any) -> Check:
    def check(cell: Cell) -> Found:
        found = check_exact(verify, cell.block, **options)
        return Found(tv=found.tv.low, deviation=found.tv.high, paths=found.law.paths)

    return check


def loop_check(framework: Framework) -> Check:
    def check(cell: Cell) -> Found:
        found = check_exact_decode(
            lambda *args: speculative_decode(*args, eos_token_id=cell.eos),
            *cell.models,
            prompt=PROMPT,
            gamma=cell.gamma,
            max_new_tokens=cell.length,
            framework=framework,
            eos_token_id=cell.eos,
        )
        return Found(tv=found.tv.low, deviation=found.tv.high, paths=found.law.paths)

    return check


def composed_check(cell: Cell) -> Found:
    """The suite's loop over ``gamma + 1`` tokens, block by block, on models of order 1."""
    models = tuple(TabularModel(model.table[0]) for model in cell.models)
    length = cell.gamma + 1
    law = compose_decode_law(
        speculative_verify,
        *models,
        prompt=PROMPT,
        gamma=cell.gamma,
        max_new_tokens=length,
        framework="numpy",
    )
    found = judge_completions(law, models[0], prompt=PROMPT, length=length)
    return Found(tv=found.tv.low, deviation=found.tv.high, paths=law.paths)


REFERENCES: Mapping[str, Check] = {
    "speculative_verify, numpy": block_check(speculative_verify, framework="numpy"),
    "speculative_verify, torch": block_check(speculative_verify, framework="torch"),
    "verify_blocks, numpy": block_check(verify_blocks, form="batched", framework="numpy"),
    "verify_blocks, torch": block_check(verify_blocks, form="batched", framework="torch"),
    "speculative_decode, numpy": loop_check("numpy"),
    "speculative_decode, torch": loop_check("torch"),
    "speculative_decode, composed": composed_check,
}


# --- what must be off by as much as the zoo says


def zoo_block(bug: Bug) -> Check:
    verifier: Any = bug.callable

    def check(cell: Cell) -> Found:
        found = check_exact(verifier, cell.block, framework="numpy")
        law = block_law(verifier, cell.target, cell.draft)
        off = [law_distance(found.law.probabilities, law)]
        if cell.target.shape[1] ** len(cell.target) <= COMPLETED_BLOCKS:
            expected = exact_tv(bug, rows_scene(cell.target, cell.draft))
            off += [abs(found.tv.low - expected), abs(found.tv.high - expected)]
        if bug.row_law is not None:
            first = bug.row_law(cell.target[:1], cell.draft[:1])[0]
            closed = float(np.maximum(cell.target[0] - first, 0.0).sum())
            off.append(abs(found.by_length[0].low - closed))
        return Found(tv=found.tv.low, deviation=max(off), paths=found.law.paths)

    return check


def zoo_loop(bug: Bug) -> Check:
    def check(cell: Cell) -> Found:
        scene = cell.scene
        law, expected = traced_loop(bug, scene), emitted_law(bug, scene)
        off = law_distance(law.probabilities, expected)
        if not law.complete:
            found = law.probabilities.items()
            off = math.fsum(max(mass - expected.get(tokens, 0.0), 0.0) for tokens, mass in found)
        far = law_distance(expected, target_law(bug, scene))
        explored = 1.0 - law.unexplored_mass
        return Found(tv=far, deviation=off + law.exception_mass, paths=law.paths, explored=explored)

    return check


def traced_loop(bug: Bug, scene: Scene) -> ExactLaw:
    """The law of a decoder's completions on a scene."""
    generator = TracedGenerator()
    request = scene.request()
    return enumerate_law(
        lambda: bug.callable(
            PROMPT,
            lambda tokens: request.target_next(tuple(tokens.tolist())),
            lambda tokens: request.draft_next(tuple(tokens.tolist())),
            scene.gamma,
            scene.length,
            generator,
            eos_token_id=scene.eos_token_id,
        )[0],
        max_seconds=LOOP_SECONDS,
    )


def zoo_batch(bug: Bug) -> Check:
    """Two rows of a batch, with one and two drafts, enumerated jointly."""
    verifier: Any = bug.callable

    def check(cell: Cell) -> Found | None:
        vocab = cell.target.shape[1]
        if cell.gamma != 2 or vocab > LARGEST_BATCH_VOCAB:
            return None
        target, draft = cell.target, cell.draft
        batch = (
            Rows(target=target[:1], draft=draft[:1], bonus=target[1]),
            Rows(target=target[:2], draft=draft[:2], bonus=target[2]),
        )
        found = enumerate_law(lambda: batch_run(bug, batch))
        expected, right = batch_law(verifier, batch), batch_law(StagedBatch(), batch)
        off = law_distance(found.probabilities, expected) + found.exception_mass
        return Found(tv=law_distance(expected, right), deviation=off, paths=found.paths)

    return check


def batch_run(bug: Bug, batch: tuple[Rows, ...]) -> Any:
    """A batch through the bug's callable, each row continued by its own target."""
    generator = TracedGenerator()
    gamma, vocab = max(len(rows.draft) for rows in batch), len(batch[0].bonus)
    target, draft = np.zeros((len(batch), gamma + 1, vocab)), np.zeros((len(batch), gamma, vocab))
    tokens = np.zeros((len(batch), gamma), dtype=np.int64)
    lengths = np.array([len(rows.draft) for rows in batch])
    for row, rows in enumerate(batch):
        n = lengths[row]
        target[row, :n], target[row, n], draft[row, :n] = rows.target, rows.bonus, rows.draft
        tokens[row, :n] = [generator.choice(vocab, p=law) for law in rows.draft]
    emitted, _ = bug.callable(target, draft, tokens, generator, draft_lengths=lengths)
    texts = []
    for rows, ids in zip(batch, emitted.tolist(), strict=True):
        kept = [token for token in ids if token >= 0]
        rest = [*rows.target, rows.bonus][len(kept) :]
        texts.append((*kept, *(int(generator.choice(vocab, p=law)) for law in rest)))
    return tuple(texts)


def exposed(check: Check) -> Check:
    """The one bug that draws from a hidden generator, with that generator traced."""

    def checked(cell: Cell) -> Found | None:
        with mock.patch.object(temperature, "_HIDDEN", TracedGenerator()):
            return check(cell)

    return checked


def must_be_right(found: Check) -> Check:
    """A control's deviation is its distance from the target too."""

    def check(cell: Cell) -> Found | None:
        result = found(cell)
        return (
            None if result is None else replace(result, deviation=max(result.tv, result.deviation))
        )

    return check


_CHECKS = {Kind.VERIFY: zoo_block, Kind.DECODE: zoo_loop, Kind.BATCHED: zoo_batch}


def members() -> Iterator[Member]:
    """Every reference and control, and everything that changes the law."""
    for name, check in REFERENCES.items():
        yield Member(name=name, role="reference", check=check)
    for bug in (*CONTROLS.values(), *ZOO.values(), *LOSSY.values()):
        control = bug.name in CONTROLS
        if bug.kind not in _CHECKS or not (control or bug.effect is Effect.LAW):
            continue
        check = _CHECKS[bug.kind](bug)
        if bug.name == "hard_coded_temperature":
            check = exposed(check)
        check = must_be_right(check) if control else check
        yield Member(name=bug.name, role=str(bug.role), check=check)
