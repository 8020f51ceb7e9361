"""Decode loops: the reference passes, loops with one defect fail at the right place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from specverify.bugs import CONTROLS, ZOO, Kind
from specverify.bugs.loops import StagedDecoder
from specverify.results import Family, Verdict
from specverify.sampler.decode import autoregressive_decode, speculative_decode


@pytest.fixture(scope="module")
def decode_audit(small_audit):
    def run(target, **settings):
        return small_audit(target, **({"framework": "numpy", "form": "decode"} | settings))

    return run


@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_the_reference_passes(decode_audit, framework) -> None:
    result = decode_audit(speculative_decode, framework=framework, gammas=(3,))
    assert result.verdict is Verdict.PASS
    assert result.summary.efficiency is Verdict.PASS
    assert result.summary.findings == ()


def test_plain_decoding_is_lossless_and_has_no_passes_to_judge(decode_audit) -> None:
    def plain(prompt, target_step, draft_step, gamma, max_new_tokens, generator):
        return autoregressive_decode(prompt, target_step, max_new_tokens, generator)

    result = decode_audit(plain, gammas=(1, 2, 3))
    assert result.verdict is Verdict.PASS
    assert result.summary.efficiency is Verdict.SKIP


def _swapped(prompt, target_step, draft_step, gamma, max_new_tokens, generator):
    return speculative_decode(prompt, draft_step, target_step, gamma, max_new_tokens, generator)


def _stale(prompt, target_step, draft_step, gamma, max_new_tokens, generator):
    """The target sees the prompt alone: right for one token, then blind."""
    size = len(prompt)
    return speculative_decode(
        prompt, lambda c: target_step(c[:size]), draft_step, gamma, max_new_tokens, generator
    )


@pytest.mark.parametrize(("loop", "position"), [(_swapped, 0), (_stale, 1)])
def test_a_wrong_loop_fails_where_it_goes_wrong(decode_audit, loop, position) -> None:
    result = decode_audit(loop, gammas=(3,), tv=0.03)
    assert result.verdict is Verdict.FAIL
    failed = [c for c in result.checks if c.family is Family.LAW and c.verdict is Verdict.FAIL]
    assert failed[0].name == "token[markov]"
    assert failed[0].diagnosis.position == position


def test_a_draft_with_the_wrong_law_fails(decode_audit) -> None:
    result = decode_audit(ZOO["argmax_draft"].callable, gammas=(3,))
    assert result.verdict is Verdict.FAIL


def test_lengths_are_exact(decode_audit) -> None:
    def overshoots(prompt, target_step, draft_step, gamma, max_new_tokens, generator):
        return speculative_decode(
            prompt, target_step, draft_step, gamma, max_new_tokens + 1, generator
        )

    def keeps_prompt(*arguments):
        tokens, _ = speculative_decode(*arguments)
        return np.concatenate([arguments[0], tokens])

    over = decode_audit(overshoots, gammas=(3,))
    assert over.verdict is Verdict.ERROR
    assert "returned 7 tokens for 6 asked" in over.summary.headline
    assert (
        "the prompt seems to be included"
        in decode_audit(keeps_prompt, gammas=(3,)).summary.headline
    )


def test_a_trace_that_tells_another_story_is_a_finding(decode_audit) -> None:
    def liar(*arguments):
        tokens, trace = speculative_decode(*arguments)
        told = [
            {"proposed": t.proposed, "n_accepted": t.n_accepted + 1, "emitted": t.emitted[::-1]}
            for t in trace
        ]
        return tokens, told

    result = decode_audit(liar, gammas=(3,))
    assert result.verdict is Verdict.PASS
    codes = {finding.code for finding in result.summary.findings}
    assert "trace-differs" in codes


def test_a_loop_that_drafts_less_than_asked_is_not_as_fast_as_the_rule(decode_audit) -> None:
    def hesitant(prompt, target_step, draft_step, gamma, max_new_tokens, generator):
        drafted = max(1, gamma - 1)
        return speculative_decode(
            prompt, target_step, draft_step, drafted, max_new_tokens, generator
        )

    result = decode_audit(hesitant, gammas=(1, 3))
    assert result.verdict is Verdict.PASS
    assert result.summary.efficiency is Verdict.FAIL
    assert [finding.code for finding in result.summary.findings] == ["other-draft-length"]
    failed = {c.name for c in result.checks if c.verdict is Verdict.FAIL}
    assert failed == {"drafted[markov]"}


def _told(change):
    """The reference, whose trace is told otherwise."""

    def decode(prompt, target_step, draft_step, gamma, max_new_tokens, generator):
        tokens, trace = speculative_decode(
            prompt, target_step, draft_step, gamma, max_new_tokens, generator
        )
        return tokens, change([(list(t.proposed), t.n_accepted, list(t.emitted)) for t in trace])

    return decode


def _entry(proposed, n_accepted, emitted):
    return {"proposed": proposed, "n_accepted": n_accepted, "emitted": emitted}


@pytest.mark.parametrize(
    ("change", "codes"),
    [
        (lambda trace: [_entry(len(x), n, len(e)) for x, n, e in trace], set()),
        (lambda trace: [_entry(x, [True] * n, e) for x, n, e in trace], set()),
        (lambda trace: [_entry(x, n, [*e, -1]) for x, n, e in trace], {"trace-differs"}),
        (
            lambda trace: [_entry([], 0, [t for *_, e in trace for t in e])],
            set(),
        ),
    ],
    ids=["counts", "flags", "padded", "one entry"],
)
def test_a_trace_of_another_kind_is_no_error(decode_audit, change, codes) -> None:
    result = decode_audit(_told(change), gammas=(3,))
    assert result.verdict is Verdict.PASS
    assert {finding.code for finding in result.summary.findings} == codes


def test_a_trace_may_leave_out_the_token_of_the_prefill(decode_audit) -> None:
    """The prompt's own pass gives the first token, and no round did."""

    def prefills(prompt, target_step, draft_step, gamma, max_new_tokens, generator):
        arguments = (target_step, draft_step, gamma)
        first = autoregressive_decode(prompt, target_step, 1, generator)
        if max_new_tokens == 1:
            return first, []
        text = np.concatenate([prompt, first])
        rest, trace = speculative_decode(text, *arguments, max_new_tokens - 1, generator)
        return np.concatenate([first, rest]), trace

    result = decode_audit(prefills, gammas=(3,))
    assert (result.verdict, result.summary.efficiency) == (Verdict.PASS, Verdict.PASS)
    assert result.summary.findings == ()


def _runs_on(
    prompt, target_step, draft_step, gamma, max_new_tokens, generator, *, eos_token_id=None
):
    """Takes an end-of-sequence token and forgets about it."""
    return speculative_decode(prompt, target_step, draft_step, gamma, max_new_tokens, generator)


def test_ends_inside_a_block(decode_audit) -> None:
    right = decode_audit(speculative_decode, gammas=(3,), checks=("token[eos]", "joint[eos]"))
    assert right.verdict is Verdict.PASS
    wrong = decode_audit(_runs_on, gammas=(3,))
    failed = [c.name for c in wrong.checks if c.verdict is Verdict.FAIL]
    assert "token[eos]" in failed
    assert "token[markov]" not in failed


def test_a_loop_that_knows_no_end_is_not_asked_for_one(decode_audit) -> None:
    def loop(prompt, target_step, draft_step, gamma, max_new_tokens, generator):
        return speculative_decode(prompt, target_step, draft_step, gamma, max_new_tokens, generator)

    result = decode_audit(loop, gammas=(3,))
    assert result.verdict is Verdict.PASS
    (skip,) = (c for c in result.checks if c.name == "token[eos]")
    assert skip.verdict is Verdict.SKIP
    assert "no parameter eos_token_id" in skip.message


_BACK_TWO = ("*[order-2]",)


def test_a_target_state_that_keeps_rejected_drafts_fails_two_tokens_back(decode_audit) -> None:
    loop = ZOO["recurrent_state_untrimmed"].callable
    wrong = decode_audit(loop, checks=_BACK_TWO)
    assert wrong.summary.law is Verdict.FAIL
    failed = next(c for c in wrong.checks if c.name == "token[order-2]")
    assert failed.verdict is Verdict.FAIL
    assert failed.diagnosis.position >= 1
    # What is wrong is the token before the last: models that look one back do not see it.
    assert decode_audit(loop, checks=("*[markov]",)).verdict is Verdict.PASS


@pytest.mark.parametrize("bug", ["draft_cache_reset", "stale_draft_cache"])
def test_a_draft_state_that_lost_tokens_is_slow_and_lossless(decode_audit, bug) -> None:
    result = decode_audit(ZOO[bug].callable, checks=_BACK_TWO)
    assert result.summary.law is Verdict.PASS
    assert result.summary.efficiency is Verdict.FAIL
    rule = next(c for c in result.checks if c.name == "rule[order-2]")
    assert rule.diagnosis.stage == "accept"


_DOCUMENT_B = f"{Path(__file__).parents[2] / 'simulations' / 'document_b_decoder.py'}:decode"
_DECODERS = {bug.name: bug.callable for bug in CONTROLS.values() if bug.kind is Kind.DECODE}


@pytest.mark.parametrize("name", ["reference", "staged", "document-b", *_DECODERS])
def test_loops_that_are_right_pass_two_tokens_back(decode_audit, name) -> None:
    known = {"reference": speculative_decode, "staged": StagedDecoder(), "document-b": _DOCUMENT_B}
    framework = "torch" if name == "document-b" else "numpy"
    loop = (known | _DECODERS)[name]
    result = decode_audit(loop, framework=framework, checks=_BACK_TWO)
    assert result.summary.law is Verdict.PASS
    follows = name in ("reference", "staged", "shrinking_gamma")
    assert (result.summary.efficiency is not Verdict.FAIL) is follows
