"""Batched verifiers: each block among strangers, whose rows must not leak."""

from __future__ import annotations

import numpy as np

from specverify.audit.forms import Form, Framework
from specverify.results import Verdict
from specverify.sampler.batched import verify_blocks

BATCHED = {"form": Form.BATCHED, "framework": Framework.NUMPY}


def right(target_probs, draft_probs, draft_tokens, rng: np.random.Generator):
    return verify_blocks(target_probs, draft_probs, draft_tokens, rng)


def leaks_between_rows(target_probs, draft_probs, draft_tokens, rng: np.random.Generator):
    """Every row's last token is drawn by the rows of its neighbour."""
    emitted, n_accepted = verify_blocks(target_probs, draft_probs, draft_tokens, rng)
    rows = np.arange(len(emitted))
    strangers = np.roll(emitted[rows, n_accepted], 1)
    emitted[rows, n_accepted] = strangers
    return emitted, n_accepted


def writes(target_probs, draft_probs, draft_tokens, rng: np.random.Generator):
    result = verify_blocks(target_probs, draft_probs, draft_tokens, rng)
    target_probs[:] = 0
    return result


def without_batch(target_probs, draft_probs, draft_tokens, rng: np.random.Generator):
    return verify_blocks(target_probs, draft_probs, draft_tokens, rng).emitted[0]


def ragged(target_probs, draft_probs, draft_tokens, rng: np.random.Generator):
    return [list(range(1 + row)) for row in range(len(target_probs))]


def fails(target_probs, draft_probs, draft_tokens, rng: np.random.Generator):
    raise ValueError("no")


def test_a_right_batch_passes(small_audit) -> None:
    result = small_audit(right, **BATCHED)
    assert (result.verdict, result.summary.efficiency) == (Verdict.PASS, Verdict.PASS)


def test_rows_that_leak_are_seen(small_audit) -> None:
    assert small_audit(leaks_between_rows, **BATCHED).summary.law is Verdict.FAIL


def test_misbehaviour_is_an_error_with_its_input(small_audit) -> None:
    for implementation, text in (
        (writes, "target_probs"),
        (without_batch, "shape"),
        (ragged, "emitted list that is no array; integer ids of shape"),
        (fails, "(called in the form batched, with numpy arrays)"),
    ):
        result = small_audit(implementation, **BATCHED)
        assert result.verdict is Verdict.ERROR
        assert any(text in check.message and check.case for check in result.checks)


def with_lengths(target_probs, draft_probs, draft_tokens, rng, draft_lengths):
    return verify_blocks(target_probs, draft_probs, draft_tokens, rng, draft_lengths=draft_lengths)


def bonus_from_the_padding(target_probs, draft_probs, draft_tokens, rng, draft_lengths):
    """A short row's bonus is drawn where the longest one's would be."""
    gamma = draft_tokens.shape[1]
    emitted, kept = with_lengths(target_probs, draft_probs, draft_tokens, rng, draft_lengths)
    for row in np.flatnonzero((kept == draft_lengths) & (draft_lengths < gamma)):
        law = target_probs[row, gamma]
        emitted[row, kept[row]] = rng.choice(len(law), p=law / law.sum())
    return emitted, kept


def test_a_row_that_is_shorter_than_the_batch_keeps_its_law(small_audit) -> None:
    settings = BATCHED | {"gammas": (2,)}
    assert small_audit(with_lengths, **settings).verdict is Verdict.PASS
    assert small_audit(bonus_from_the_padding, **settings).summary.law is Verdict.FAIL
    traced = small_audit(bonus_from_the_padding, **settings, mode="exact", checks=("exact",))
    assert traced.summary.law is Verdict.FAIL
