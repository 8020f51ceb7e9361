"""Counts of a trace: what was drafted, tested, accepted and kept."""

from __future__ import annotations

from specverify.sampler.trace import BlockTrace, DecodeTrace

BLOCKS = (
    BlockTrace((1, 2, 3), 3, (1, 2, 3, 0), 4),
    BlockTrace((1, 2, 3), 0, (5,), 1),
    BlockTrace((1, 2, 3), 1, (1, 4), 1),
    BlockTrace((), 0, (7,), 0),
)


def test_drafts_after_a_rejection_were_never_tested() -> None:
    assert [block.n_tested for block in BLOCKS] == [3, 1, 2, 0]


def test_counts() -> None:
    trace = DecodeTrace(BLOCKS)
    assert (trace.passes, trace.drafted, trace.tested, trace.accepted) == (4, 9, 6, 4)
    assert (trace.emitted, trace.kept) == (8, 6)
    assert trace.acceptance == 4 / 6
    assert trace.tokens_per_pass == 2


def test_is_a_sequence_of_blocks() -> None:
    trace = DecodeTrace(BLOCKS)
    assert len(trace) == 4
    assert tuple(trace) == BLOCKS
    assert trace[1] is BLOCKS[1]
    assert trace[1:3] == BLOCKS[1:3]


def test_nothing_has_no_rates() -> None:
    assert DecodeTrace(()).acceptance is None
    assert DecodeTrace(()).tokens_per_pass is None
    assert DecodeTrace(BLOCKS[3:]).acceptance is None
