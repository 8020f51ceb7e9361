"""Rows of a batch that see each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from specverify.bugs.base import Bug, Kind, Stage
from specverify.bugs.batches import BatchRow, StagedBatch, each_row
from specverify.bugs.draws import Draws
from specverify.bugs.staged import STANDARD, Block, Rows


def _one_offset(entries: Sequence[BatchRow], draws: Draws) -> list[Block]:
    """Every row is cut where the first one was: its own accept tests are thrown away."""
    first = STANDARD.block(entries[0].rows, entries[0].drafts, draws)
    blocks = [first]
    for entry in entries[1:]:
        kept = min(first[1], len(entry.drafts))
        law = STANDARD.final_law(entry.rows, entry.drafts, kept)
        blocks.append(([*entry.drafts[:kept], draws.token(law)], kept))
    return blocks


SHARED_OFFSET = Bug(
    name="shared_offset",
    kind=Kind.BATCHED,
    stage=Stage.BATCH,
    mathematics="all rows advance by the number of drafts that the first one accepted",
    expected_check="rows of unequal acceptance",
    reference="mlx-vlm#1144, mlx-vlm#1155",
    callable=StagedBatch(rule=_one_offset),
    blind="a batch of one; the first row",
    scene="batch",
)


def _equal_strides(entries: Sequence[BatchRow]) -> list[BatchRow]:
    """The flat buffer of all target rows is read with one stride, the longest row's."""
    flat = np.concatenate([[*entry.rows.target, entry.rows.bonus] for entry in entries])
    stride = max(len(entry.drafts) for entry in entries) + 1
    seen = []
    for index, entry in enumerate(entries):
        places = np.minimum(index * stride + np.arange(len(entry.drafts) + 1), len(flat) - 1)
        laws = flat[places]
        rows = entry.rows._replace(target=laws[:-1], bonus=laws[-1])
        seen.append(replace(entry, rows=rows))
    return seen


ROW_ORDER = Bug(
    name="row_order",
    kind=Kind.BATCHED,
    stage=Stage.BATCH,
    mathematics="ragged target rows are laid out by length and read with one stride",
    expected_check="rows with disjoint supports, unequal gamma",
    reference="vllm#14645",
    callable=StagedBatch(view=_equal_strides),
    blind="the same gamma in every row; a batch of one",
    scene="batch",
)


def _padding_kept(entries: Sequence[BatchRow], draws: Draws) -> list[Block]:
    """Padding (-1, which reads the last id) passes the test that it never had."""
    widest = max(len(entry.drafts) for entry in entries)
    blocks = []
    for entry, (ids, n_accepted) in zip(entries, each_row(entries, draws), strict=True):
        missing = widest - len(entry.drafts)
        if n_accepted == len(entry.drafts) and missing:
            last = entry.rows.bonus.shape[-1] - 1
            ids = [*ids[:-1], *[last] * missing, ids[-1]]
            n_accepted = widest
        blocks.append((ids, n_accepted))
    return blocks


PADDING_ACCEPTED = Bug(
    name="padding_accepted",
    kind=Kind.BATCHED,
    stage=Stage.BATCH,
    mathematics="the -1 that pads a short row counts as accepted drafts",
    expected_check="emitted at most drafts + 1",
    reference="flashinfer#879",
    callable=StagedBatch(rule=_padding_kept),
    blind="the same gamma in every row",
    scene="batch",
)


def _rolled_draft(entries: Sequence[BatchRow]) -> list[BatchRow]:
    """Row ``b`` is scored with the draft laws of row ``b - 1``."""
    others = [entries[-1], *entries[:-1]]
    return [
        replace(entry, rows=_draft_from(entry.rows, other.rows))
        for entry, other in zip(entries, others, strict=True)
    ]


def _draft_from(rows: Rows, other: Rows) -> Rows:
    available = other.draft[[min(i, len(other.draft) - 1) for i in range(len(rows.draft))]]
    return rows._replace(draft=available)


DRAFT_OF_NEIGHBOUR = Bug(
    name="draft_of_neighbour",
    kind=Kind.BATCHED,
    stage=Stage.BATCH,
    mathematics="q gathered from the row before after a reordering of the batch",
    expected_check="rows with disjoint supports",
    reference="TensorRT-LLM#12588",
    callable=StagedBatch(view=_rolled_draft),
    blind="a batch of one; equal rows",
    scene="batch",
)
