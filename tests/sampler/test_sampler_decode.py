"""Decode loops over step functions: lengths, ends, traces, batches, refusals."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from specverify.errors import InvalidInputError
from specverify.models.tabular import TabularModel
from specverify.sampler.decode import (
    autoregressive_decode,
    batch_step,
    speculative_decode,
    speculative_decode_batch,
)

RNG = np.random.default_rng(7)
TARGET = TabularModel.random(5, 1, RNG)
DRAFT = TARGET.perturbed(RNG, 0.6)
STEPS = {kind: (TARGET.step(kind), DRAFT.step(kind)) for kind in ("torch", "numpy")}


def generator(kind: str, seed: int):
    if kind == "numpy":
        return np.random.default_rng(seed)
    return torch.Generator().manual_seed(seed)


def prompt(kind: str, *ids: int):
    return np.array(ids) if kind == "numpy" else torch.tensor(ids)


def plain_speculation(ids, steps, gamma, length, source):
    """The same algorithm once more, written straight down: the oracle of the loop."""
    target_step, draft_step = steps
    out = list(ids)
    while len(out) < len(ids) + length:
        drafts, laws = [], []
        for _ in range(gamma):
            laws.append(draft_step(out + drafts))
            drafts.append(int(torch.multinomial(laws[-1], 1, generator=source)))
        for n, token in enumerate(drafts):
            target = target_step(out)
            if float(torch.rand(1, generator=source)) < float(target[token] / laws[n][token]):
                out.append(token)
                continue
            excess = (target - laws[n]).clamp(min=0)
            out.append(int(torch.multinomial(excess, 1, generator=source)))
            break
        else:
            out.append(int(torch.multinomial(target_step(out), 1, generator=source)))
    return out[len(ids) : len(ids) + length]


@pytest.mark.parametrize("gamma", [1, 3])
@pytest.mark.parametrize("seed", range(5))
def test_equals_the_algorithm_written_straight_down(gamma, seed) -> None:
    ours, _ = speculative_decode(
        prompt("torch", 2, 3), *STEPS["torch"], gamma, 15, generator("torch", seed)
    )
    expected = plain_speculation([2, 3], STEPS["torch"], gamma, 15, generator("torch", seed))
    assert ours.tolist() == expected


@pytest.mark.parametrize("kind", ["torch", "numpy"])
@pytest.mark.parametrize("shrink", [False, True])
@pytest.mark.parametrize("length", [0, 1, 2, 13])
def test_exact_lengths_and_the_trace(kind, shrink, length) -> None:
    tokens, trace = speculative_decode(
        prompt(kind, 1),
        *STEPS[kind],
        4,
        length,
        generator(kind, 3),
        shrink_gamma=shrink,
    )
    assert type(tokens) is type(prompt(kind, 1))
    assert len(tokens) == length
    joined = [token for block in trace for token in block.emitted[: block.kept]]
    assert joined == tokens.tolist()
    for block in trace:
        assert block.emitted[: block.n_accepted] == block.proposed[: block.n_accepted]
        assert len(block.emitted) == block.n_accepted + 1
    if shrink:
        assert all(block.kept == len(block.emitted) for block in trace)
    else:
        assert all(len(block.proposed) == 4 for block in trace)


@pytest.mark.parametrize("kind", ["torch", "numpy"])
def test_an_end_inside_a_block_drops_the_rest(kind) -> None:
    ends = 0
    for seed in range(20):
        whole, _ = speculative_decode(prompt(kind, 0), *STEPS[kind], 4, 12, generator(kind, seed))
        cut, trace = speculative_decode(
            prompt(kind, 0), *STEPS[kind], 4, 12, generator(kind, seed), eos_token_id=2
        )
        ids = whole.tolist()
        expected = ids[: ids.index(2) + 1] if 2 in ids else ids
        assert cut.tolist() == expected
        assert trace.kept == len(expected)
        ends += trace[-1].kept < len(trace[-1].emitted) and expected[-1] == 2
    assert ends > 3, "no end fell inside a block"


def test_the_baseline_stops_at_the_end_and_at_the_length() -> None:
    for kind in ("torch", "numpy"):
        ids = autoregressive_decode(prompt(kind, 0), STEPS[kind][0], 30, generator(kind, 0))
        assert len(ids) == 30
        cut = autoregressive_decode(
            prompt(kind, 0), STEPS[kind][0], 30, generator(kind, 0), eos_token_id=4
        )
        assert cut.tolist() == ids.tolist()[: ids.tolist().index(4) + 1]


def test_the_baseline_draws_as_multinomial_does() -> None:
    source = generator("torch", 9)
    out = [1]
    for _ in range(6):
        out.append(int(torch.multinomial(STEPS["torch"][0](out), 1, generator=source)))
    ids = autoregressive_decode(prompt("torch", 1), STEPS["torch"][0], 6, generator("torch", 9))
    assert ids.tolist() == out[1:]


def test_the_target_as_its_own_draft_accepts_everything() -> None:
    step = STEPS["torch"][0]
    _, trace = speculative_decode(prompt("torch", 0), step, step, 3, 40, generator("torch", 0))
    assert trace.acceptance == 1
    assert trace.tokens_per_pass == 4


def test_contexts_are_of_the_prompts_kind() -> None:
    kinds = []

    def step(context):
        kinds.append(type(context))
        return np.full(3, 1 / 3)

    speculative_decode([0], step, step, 1, 2, np.random.default_rng(0))
    speculative_decode(np.array([0]), step, step, 1, 2)
    assert set(kinds) == {np.ndarray}
    kinds.clear()
    tokens, _ = speculative_decode(
        [0], lambda c: torch.full((3,), 1 / 3), step_as_torch(kinds), 1, 2
    )
    assert set(kinds) == {torch.Tensor}
    assert isinstance(tokens, torch.Tensor)


def step_as_torch(kinds):
    def step(context):
        kinds.append(type(context))
        return torch.full((3,), 1 / 3)

    return step


@pytest.mark.parametrize("kind", ["torch", "numpy"])
@pytest.mark.parametrize("shrink", [False, True])
def test_every_row_of_a_batch_equals_its_own_decode(kind, shrink) -> None:
    prompts = [prompt(kind, *range(n)) for n in (1, 3, 2, 1, 1)]
    options = {"eos_token_id": 4, "shrink_gamma": shrink}
    rows = speculative_decode_batch(
        prompts,
        *(batch_step(step) for step in STEPS[kind]),
        3,
        14,
        [generator(kind, seed) for seed in range(5)],
        **options,
    )
    for seed, (row, trace) in enumerate(rows):
        alone, alone_trace = speculative_decode(
            prompts[seed], *STEPS[kind], 3, 14, generator(kind, seed), **options
        )
        assert row.tolist() == alone.tolist()
        assert trace == alone_trace
    assert len({trace.passes for _, trace in rows}) > 1, "rows accepted alike"


def test_a_batch_calls_the_target_once_an_iteration() -> None:
    calls = []
    target = batch_step(STEPS["numpy"][0])

    def counted(contexts):
        calls.append(len(contexts))
        return target(contexts)

    rows = speculative_decode_batch(
        [[0], [1]],
        counted,
        batch_step(STEPS["numpy"][1]),
        2,
        9,
        [np.random.default_rng(seed) for seed in (0, 1)],
    )
    assert len(calls) == max(trace.passes for _, trace in rows)
    assert calls[0] == 6


def test_an_empty_batch() -> None:
    assert speculative_decode_batch([], batch_step(len), batch_step(len), 2, 3) == []


UNIFORM = np.full(3, 1 / 3)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"gamma": 0}, "gamma: must be at least 1, got 0"),
        ({"max_new_tokens": -1}, "max_new_tokens: must be at least 0, got -1"),
        ({"prompt": [[0]]}, r"prompt: needs integer ids of shape \(t,\)"),
        ({"prompt": [0.5]}, r"prompt: needs integer ids of shape \(t,\), got float64"),
        ({"draft": np.full(4, 0.25)}, "draft_step: has a vocabulary of 4 tokens, but .* has 3"),
        ({"target": np.array([0.5, 0.6, 0.0])}, "target_step: a row does not sum to one"),
        ({"draft": np.array([np.nan, 0.5, 0.5])}, "draft_step: has NaN"),
        ({"draft": np.full((1, 3), 1 / 3)}, r"draft_step: needs one law a context, \(1, vocab\)"),
        ({"generator": torch.Generator()}, "generator: draws for torch"),
    ],
)
def test_refuses(changes, problem) -> None:
    with pytest.raises(InvalidInputError, match=problem):
        speculative_decode(
            np.asarray(changes.get("prompt", [0])),
            lambda _: changes.get("target", UNIFORM),
            lambda _: changes.get("draft", UNIFORM),
            changes.get("gamma", 2),
            changes.get("max_new_tokens", 3),
            changes.get("generator", np.random.default_rng(0)),
        )


def test_refuses_another_number_of_generators() -> None:
    step = batch_step(STEPS["numpy"][0])
    with pytest.raises(InvalidInputError, match=r"generators: needs one a prompt \(2\), got 1"):
        speculative_decode_batch([[0], [1]], step, step, 1, 1, [np.random.default_rng(0)])
