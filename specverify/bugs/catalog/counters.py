"""A right run, reported wrongly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from specverify.bugs.base import Bug, Effect, Kind, Stage
from specverify.bugs.counters import PassRecord, Report, count, logprobs

Records = Sequence[PassRecord]


def _no_last_token(records: Records, *, temperature: float = 1.0) -> Report:
    """Accepted drafts alone."""
    honest = count(records, temperature=temperature)
    return replace(honest, emitted=honest.accepted)


BONUS_NOT_COUNTED = Bug(
    name="bonus_not_counted",
    kind=Kind.COUNTER,
    stage=Stage.COUNTERS,
    mathematics="emitted tokens lack the last token of every pass",
    expected_check="tokens/pass, identities",
    reference="vllm#17908, sglang#11823",
    effect=Effect.COUNTS,
    callable=_no_last_token,
    scene="run",
)


def _last_token_twice(records: Records, *, temperature: float = 1.0) -> Report:
    honest = count(records, temperature=temperature)
    return replace(honest, emitted=honest.emitted + honest.passes)


BONUS_COUNTED_TWICE = Bug(
    name="bonus_counted_twice",
    kind=Kind.COUNTER,
    stage=Stage.COUNTERS,
    mathematics="the last token of every pass is counted twice",
    expected_check="tokens/pass, identities",
    reference="vllm#17908, sglang#11823",
    effect=Effect.COUNTS,
    callable=_last_token_twice,
    scene="run",
)


def _all_tested(records: Records, *, temperature: float = 1.0) -> Report:
    honest = count(records, temperature=temperature)
    return replace(honest, tested=honest.drafted)


UNTESTED_COUNTED = Bug(
    name="untested_counted",
    kind=Kind.COUNTER,
    stage=Stage.COUNTERS,
    mathematics="drafts after a rejection count as tested",
    expected_check="acceptance rate against alpha",
    reference="llama.cpp#14104",
    effect=Effect.COUNTS,
    callable=_all_tested,
    blind="runs without a rejection before the last draft",
    scene="run",
)


def _successes_alone(records: Records, *, temperature: float = 1.0) -> Report:
    honest = count(records, temperature=temperature)
    counted = count([record for record in records if record.n_accepted], temperature=temperature)
    return replace(counted, emitted=honest.emitted, logprobs=honest.logprobs)


FAILURES_LEFT_OUT = Bug(
    name="failures_left_out",
    kind=Kind.COUNTER,
    stage=Stage.COUNTERS,
    mathematics="passes that accept nothing are not counted",
    expected_check="acceptance rate against alpha, identities",
    reference="llama.cpp#25818",
    effect=Effect.COUNTS,
    callable=_successes_alone,
    blind="runs in which every pass accepts",
    scene="run",
)


def _nothing(records: Records, *, temperature: float = 1.0) -> Report:
    honest = count(records, temperature=temperature)
    return replace(honest, passes=0, drafted=0, tested=0, accepted=0, emitted=0)


ALL_COUNTERS_ZERO = Bug(
    name="all_counters_zero",
    kind=Kind.COUNTER,
    stage=Stage.COUNTERS,
    mathematics="every counter is 0",
    expected_check="identities",
    reference="TensorRT-LLM#17082",
    effect=Effect.COUNTS,
    callable=_nothing,
    scene="run",
)


def _past_the_end(records: Records, *, temperature: float = 1.0) -> Report:
    honest = count(records, temperature=temperature)
    return replace(honest, emitted=sum(len(record.emitted) for record in records))


TOKENS_PAST_EOS_COUNTED = Bug(
    name="tokens_past_eos_counted",
    kind=Kind.COUNTER,
    stage=Stage.COUNTERS,
    mathematics="emitted tokens include those past the end of the text",
    expected_check="count",
    reference="sglang#39826",
    effect=Effect.COUNTS,
    callable=_past_the_end,
    blind="texts that end with their last block",
    scene="run",
)


def _at_temperature_one(records: Records, *, temperature: float = 1.0) -> Report:
    honest = count(records, temperature=temperature)
    return replace(honest, logprobs=logprobs(records, temperature=1.0))


RAW_LOGPROBS = Bug(
    name="raw_logprobs",
    kind=Kind.COUNTER,
    stage=Stage.COUNTERS,
    mathematics="log probabilities at T = 1 of tokens drawn at another T",
    expected_check="analytic log probability at T != 1",
    reference="vllm#30846",
    effect=Effect.COUNTS,
    callable=_at_temperature_one,
    blind="T = 1",
    scene="run",
)


def _sure_of_drafts(records: Records, *, temperature: float = 1.0) -> Report:
    """Accepted drafts are reported as certain."""
    honest = count(records, temperature=temperature)
    values = iter(honest.logprobs)
    reported = [
        0.0 if place < record.n_accepted else value
        for record in records
        for place, value in zip(range(record.kept), values, strict=False)
    ]
    return replace(honest, logprobs=tuple(reported))


LOGPROBS_ZERO = Bug(
    name="logprobs_zero",
    kind=Kind.COUNTER,
    stage=Stage.COUNTERS,
    mathematics="speculated tokens are reported with log probability 0",
    expected_check="analytic log probability",
    reference="llama.cpp",
    effect=Effect.COUNTS,
    callable=_sure_of_drafts,
    blind="a one-hot target",
    scene="run",
)


def _all_accepted(records: Records, *, temperature: float = 1.0) -> Report:
    honest = count(records, temperature=temperature)
    return replace(honest, accepted=honest.emitted)


CORRECTIONS_AS_ACCEPTED = Bug(
    name="corrections_as_accepted",
    kind=Kind.COUNTER,
    stage=Stage.COUNTERS,
    mathematics="accepted = emitted tokens: corrections and bonus count too",
    expected_check="acceptance rate against alpha, identities",
    reference="classic",
    effect=Effect.COUNTS,
    callable=_all_accepted,
    scene="run",
)
