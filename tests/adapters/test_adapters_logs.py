"""Engine logs: one invented run in every format, and doctored ones that break each identity.

The run: 50 steps, gamma 3, 150 drafted, 90 accepted; 10, 10, 10, 20 steps accepted 0, 1, 2, 3.
"""

from __future__ import annotations

import json

import pytest

from specverify.adapters.logs.identities import broken, check_identities
from specverify.adapters.logs.pooling import pooled
from specverify.adapters.logs.reading import read_records
from specverify.adapters.logs.record import SpeculationRecord, count_tested, rates
from specverify.errors import InvalidInputError
from specverify.theory.expected_tokens import expected_accepted_tokens

VLLM = (
    "INFO 07-01 10:00:00 [metrics.py:96] SpecDecoding metrics: Mean acceptance length: 2.80, "
    "Accepted throughput: 9.00 tokens/s, Drafted throughput: 15.00 tokens/s, Accepted: 90 tokens, "
    "Drafted: 150 tokens, Per-position acceptance rate: 0.800, 0.600, 0.400, "
    "Avg Draft acceptance rate: 60.0%"
)
VLLM_OLD = (
    "Speculative metrics: Draft acceptance rate: 0.600, System efficiency: 0.700, Number of "
    "speculative tokens: 3, Number of accepted tokens: 90, Number of draft tokens: 150, Number of "
    "emitted tokens: 140."
)
_COUNTER = 'vllm:spec_decode_num_{name}{{engine="0",model_name="a, \\"b\\""{more}}} {value}'
METRICS = "\n".join(
    [
        "# HELP vllm:spec_decode_num_drafts_total Number of drafts.",
        "# TYPE vllm:spec_decode_num_drafts_total counter",
        _COUNTER.format(name="drafts_total", more="", value="50.0"),
        _COUNTER.format(name="drafts_created", more="", value="1.7e+09"),
        _COUNTER.format(name="draft_tokens_total", more="", value="150.0"),
        _COUNTER.format(name="accepted_tokens_total", more="", value="90.0"),
        *(
            _COUNTER.format(
                name="accepted_tokens_per_pos_total", more=f',position="{place}"', value=value
            )
            for place, value in [(2, "20.0"), (0, "40.0"), (1, "30.0")]
        ),
        _COUNTER.format(
            name="accepted_tokens_per_pos_created", more=',position="0"', value="1.7e+09"
        ),
        'vllm:num_requests_running{engine="0"} 3.0',
    ]
)
REQUEST = {
    "mean_acceptance_length": 2.8,
    "draft_acceptance_rate": 0.6,
    "acceptance_histogram": [10, 10, 10, 20],
    "num_spec_steps": 50,
    "num_accepted_draft_tokens": 90,
    "num_draft_tokens": 150,
    "num_spec_tokens": 3,
}
DETAILED = REQUEST | {
    "per_step_accepted": [0] * 10 + [1] * 10 + [2] * 10 + [3] * 20,
    "per_step_drafted": [3] * 50,
}
SGLANG = (
    "Decode batch, #running-req: 1, #token: 512, token usage: 0.00, accept len: 2.80, accept rate: "
    "0.60, cuda graph: True, gen throughput (token/s): 101.2, #queue-req: 0"
)
META = {
    "completion_tokens": 140,
    "spec_accept_rate": 0.6,
    "spec_accept_length": 2.8,
    "spec_verify_ct": 50,
    "spec_num_correct_drafts": 90,
    "spec_num_proposed_drafts": 150,
    "spec_correct_drafts_histogram": [10, 10, 10, 20],
}
TENSORRT = {
    "numDraftTokens": 150,
    "numAcceptedTokens": 90,
    "numRequestsWithDraftTokens": 50,
    "acceptanceLength": 2.8,
}
LLAMA = (
    "slot print_timing: id 0 | task 0 | draft acceptance = 0.60000 (   90 accepted /   150 "
    "generated), mean acceptance length =  2.80, acceptance rate per position = (0.800, 0.600, "
    "0.400)"
)
LLAMA_OLD = "draft acceptance rate = 0.60000 (   90 accepted /   150 generated)"
TIMINGS = {"predicted_n": 140, "draft_n": 150, "draft_n_accepted": 90}
STUDIO = {
    "total_draft_tokens_count": 150,
    "accepted_draft_tokens_count": 90,
    "rejected_draft_tokens_count": 60,
}
TEXTS = {
    "vllm-log": VLLM,
    "vllm-log-old": VLLM_OLD,
    "vllm-metrics": METRICS,
    "vllm-request": json.dumps({"metrics": {"speculative_decoding": REQUEST}}),
    "sglang-log": SGLANG,
    "sglang-request": json.dumps({"text": "", "meta_info": META}, indent=2),
    "tensorrt-llm": json.dumps({"iter": 1, "specDecodingStats": TENSORRT}),
    "llama.cpp": json.dumps({"content": "", "timings": TIMINGS}),
    "llama.cpp-log": LLAMA,
    "llama.cpp-log-old": LLAMA_OLD,
    "lm-studio": json.dumps({"stats": STUDIO}),
}
BY_POSITION = {"vllm-log", "vllm-metrics", "vllm-request", "sglang-request", "llama.cpp-log"}
COUNTS_STEPS = BY_POSITION | {"vllm-log-old", "tensorrt-llm"}


def one(text: str) -> SpeculationRecord:
    (record,) = read_records(text)
    return record


@pytest.mark.parametrize("source", TEXTS)
def test_every_format_tells_the_same_run_or_says_that_it_cannot(source) -> None:
    record = one(TEXTS[source])
    assert record.source == source
    found = rates(record)
    assert found.accepted_over_drafted == pytest.approx(0.6)
    if source == "sglang-log":
        assert (record.accepted, record.drafted, record.steps) == (None, None, None)
    else:
        assert (record.accepted, record.drafted) == (90, 150)
        assert record.steps == (50 if source in COUNTS_STEPS else None)
    if source in BY_POSITION:
        assert record.gamma == 3
        assert found.marginal_by_position == pytest.approx((0.8, 0.6, 0.4))
        assert found.conditional == pytest.approx(90 / 120)
        assert found.conditional_by_position == pytest.approx((0.8, 0.75, 2 / 3))
    else:
        assert found.marginal_by_position is found.conditional is None
        assert found.conditional_by_position is None
        assert record.cannot_tell
    if source in COUNTS_STEPS | {"sglang-log"}:
        assert found.tokens_per_step == pytest.approx(2.8)
        assert expected_accepted_tokens(found.alpha_if_constant, 3) == pytest.approx(2.8)
    else:
        assert found.tokens_per_step is found.alpha_if_constant is None


@pytest.mark.parametrize("source", TEXTS)
def test_a_sound_record_breaks_nothing(source) -> None:
    record = one(TEXTS[source])
    assert broken(record) == ()
    assert source == "sglang-log" or any(found.holds for found in check_identities(record))


def changed(found: dict, **changes) -> str:
    return json.dumps(found | changes)


DOCTORED = {
    "sum h[j] = steps": changed(REQUEST, acceptance_histogram=[11, 10, 10, 20]),
    "sum j h[j] = accepted": changed(META, spec_correct_drafts_histogram=[10, 11, 9, 20]),
    "by-step lists sum to the totals": changed(DETAILED, per_step_accepted=[0] * 20 + [3] * 29),
    "mean length = 1 + accepted/steps": changed(TENSORRT, acceptanceLength=1.8),
    "mean length = 1 + sum of marginal rates": VLLM.replace("length: 2.80", "length: 1.80"),
    "mean length = tokens/steps": changed(META, completion_tokens=150),
    "rate = accepted/drafted": LLAMA_OLD.replace("0.60000", "0.75000"),
    "0 <= accepted <= drafted": changed(TIMINGS, draft_n_accepted=151),
    "drafted <= gamma steps": changed(REQUEST, num_draft_tokens=151, draft_acceptance_rate=0.596),
    "accepted + rejected = drafted": changed(STUDIO, rejected_draft_tokens_count=61),
    "marginal rates never rise": METRICS.replace(" 30.0", " 45.0"),
    "marginal rates sum to accepted/steps": METRICS.replace(" 90.0", " 92.0"),
    "efficiency = emitted/(steps (gamma+1))": VLLM_OLD.replace("0.700", "0.500"),
}


@pytest.mark.parametrize("identity", DOCTORED)
def test_a_doctored_record_is_reported(identity) -> None:
    record = one(DOCTORED[identity])
    names = [found.name for found in broken(record)]
    assert identity in names
    assert all(found.text for found in broken(record))


def test_every_identity_has_its_doctored_record() -> None:
    assert [found.name for found in check_identities(one(VLLM))] == list(DOCTORED)


def test_the_length_of_older_versions_is_recognised() -> None:
    (found,) = broken(one(DOCTORED["mean length = 1 + accepted/steps"]))
    assert "without its last token" in found.text


def test_keys_are_read_in_any_order_and_nan_is_unknown() -> None:
    head, positions = VLLM.split(", Per-position acceptance rate: ")
    start, _, fields = head.partition("metrics: ")
    fields_back = ", ".join(reversed(fields.split(", ")))
    values, _, average = positions.partition(", Avg")
    turned = f"{start}metrics: Avg{average}, Per-position acceptance rate: {values}, {fields_back}"
    assert one(turned) == one(VLLM)
    idle = (
        "SpecDecoding metrics: Mean acceptance length: nan, Accepted: 0 tokens, Drafted: 0 tokens, "
        "Per-position acceptance rate: nan, nan, nan, Avg Draft acceptance rate: nan%"
    )
    record = one(idle)
    assert (record.mean_length, record.rate, record.marginal) == (None, None, None)
    assert (record.accepted, record.drafted, record.steps) == (0, 0, None)
    assert rates(record).accepted_over_drafted is None
    assert broken(record) == ()


def test_short_drafts_leave_the_conditional_rate_open() -> None:
    """A step that drafted 1 of 3 and accepted it looks like a rejection in a histogram."""
    short = REQUEST | {"num_draft_tokens": 140, "draft_acceptance_rate": 90 / 140}
    assert rates(one(json.dumps(short))).conditional is None
    detailed = short | {
        "per_step_accepted": DETAILED["per_step_accepted"],
        "per_step_drafted": [3] * 10 + [2] * 10 + [3] * 30,
    }
    record = one(json.dumps(detailed))
    assert broken(record) == ()
    assert count_tested(record) == 10 * 1 + 10 * 2 + 10 * 3 + 20 * 3
    shorter = [1] * 10 + [1] * 10 + [3] * 30  # here the second ten were fully accepted
    record = one(json.dumps(detailed | {"per_step_drafted": shorter, "num_draft_tokens": 110}))
    assert count_tested(record) == 10 * 1 + 10 * 1 + 10 * 3 + 20 * 3


def test_a_log_with_short_drafts_counts_steps_by_its_length() -> None:
    line = VLLM.replace("Drafted: 150", "Drafted: 141").replace("60.0%", "63.8%")
    record = one(line)
    assert record.steps == 50
    assert "mean length" in record.derived["steps"]
    assert broken(record) == ()
    assert rates(record).conditional is None


def test_the_prefills_token_may_lengthen_sglangs_mean() -> None:
    record = one(changed(META, completion_tokens=141, spec_accept_length=2.82))
    assert broken(record) == ()
    assert rates(record).tokens_per_step == pytest.approx(2.8)


def test_a_mixed_log_is_read_line_by_line_and_pooled() -> None:
    lines = ["starting", VLLM, "{not json", TEXTS["llama.cpp"], VLLM.replace("0.400", "0.300")]
    records = read_records("\n".join(lines))
    assert [record.label for record in records] == ["line 2", "line 4", "line 5"]
    (pool,) = pooled(records)
    assert (pool.source, pool.steps, pool.accepted, pool.gamma) == ("vllm-log", 100, 180, 3)
    assert pool.marginal == pytest.approx((0.8, 0.6, 0.35))


def test_counters_are_not_added_up_and_engines_are_kept_apart() -> None:
    both = METRICS + "\n" + METRICS.replace('engine="0"', 'engine="1"').replace(" 50.0", " 60.0")
    first, second = read_records(both)
    assert (first.steps, second.steps) == (50, 60)
    assert "engine 1" in second.label
    assert pooled([first, second]) == []


@pytest.mark.parametrize("text", ["", "nothing here", "[1, 2]", '{"a": {"b": null}}'])
def test_a_text_without_speculation_is_refused(text) -> None:
    with pytest.raises(InvalidInputError, match="text: has no line, object or metric"):
        read_records(text)


@pytest.mark.parametrize("value", [None, "90", True, 1.5, float("inf")])
def test_values_of_the_wrong_kind_are_unknown(value) -> None:
    record = one(json.dumps(STUDIO | {"accepted_draft_tokens_count": value}))
    assert record.accepted is None
    assert rates(record).accepted_over_drafted is None
