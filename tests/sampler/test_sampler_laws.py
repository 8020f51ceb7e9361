"""Emitted tokens against the target's law: chi-square with fixed seeds, each beside a known bug.

Level 1e-6: under fixed seeds nothing is random from run to run; the level says how unlucky a new
numpy or torch, whose streams may differ, would have to be to fail a correct sampler.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from specverify.models.gpt import GPTModel
from specverify.models.step import model_step
from specverify.models.tabular import TabularModel
from specverify.sampler.batched import verify_blocks, verify_blocks_from_uniforms
from specverify.sampler.cached import decode_cached
from specverify.sampler.decode import speculative_decode
from specverify.sampler.draws import sample_categorical
from specverify.sampler.verify import speculative_verify
from specverify.theory.block_law import block_law
from specverify.theory.completion_law import completion_law
from specverify.warping import SamplingParams

LEVEL = 1e-6
TARGET = np.array([[0.5, 0.3, 0.2, 0.0], [0.1, 0.2, 0.3, 0.4], [0.7, 0.1, 0.1, 0.1]])
DRAFT = np.array([[0.2, 0.2, 0.3, 0.3], [0.4, 0.3, 0.2, 0.1]])


def p_value(outcomes: list[tuple[int, ...]], law: dict[tuple[int, ...], float]) -> float:
    """Chi-square p-value; an outcome that the law excludes gives 0."""
    counts = dict.fromkeys(law, 0)
    for outcome in outcomes:
        if outcome not in counts:
            return 0.0
        counts[outcome] += 1
    expected = np.array(list(law.values())) * len(outcomes)
    assert expected.min() >= 5, "cells too small for chi-square"
    return float(chisquare(list(counts.values()), expected, sum_check=False).pvalue)


def emitted_rows(emitted) -> list[tuple[int, ...]]:
    return [tuple(token for token in row if token >= 0) for row in emitted.tolist()]


def drawn_blocks(kind: str, n: int, seed: int):
    target, draft = np.broadcast_to(TARGET, (n, 3, 4)), np.broadcast_to(DRAFT, (n, 2, 4))
    if kind == "torch":
        generator = torch.Generator().manual_seed(seed)
        target, draft = torch.from_numpy(target.copy()), torch.from_numpy(draft.copy())
    else:
        generator = np.random.default_rng(seed)
    return target, draft, sample_categorical(draft, generator), generator


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_batched_blocks_follow_the_joint_law(kind) -> None:
    emitted, _ = verify_blocks(*drawn_blocks(kind, 100_000, 1))
    assert p_value(emitted_rows(emitted), block_law(TARGET, DRAFT)) > LEVEL


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_a_draft_law_one_row_off_is_seen(kind) -> None:
    target, draft, tokens, generator = drawn_blocks(kind, 100_000, 1)
    wrong = draft[:, [1, 0]]
    emitted, _ = verify_blocks(target, wrong, tokens, generator)
    assert p_value(emitted_rows(emitted), block_law(TARGET, DRAFT)) < LEVEL


def test_one_uniform_for_both_choices_is_seen() -> None:
    target, draft, tokens, generator = drawn_blocks("numpy", 100_000, 1)
    drawn = generator.random((len(target), 2))
    emitted, _ = verify_blocks_from_uniforms(
        target, draft, tokens, accept_uniforms=drawn, token_uniforms=drawn[:, 0]
    )
    assert p_value(emitted_rows(emitted), block_law(TARGET, DRAFT)) < LEVEL


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_single_blocks_follow_the_joint_law(kind) -> None:
    target, draft, tokens, generator = drawn_blocks(kind, 2500, 2)
    outcomes = [
        tuple(speculative_verify(*block, generator, validate=False)[0].tolist())
        for block in zip(target, draft, tokens, strict=True)
    ]
    assert p_value(outcomes, block_law(TARGET, DRAFT)) > LEVEL


RNG = np.random.default_rng(5)
MODEL = TabularModel.random(3, 1, RNG, concentration=3.0)
WEAK = MODEL.perturbed(RNG, 0.7)
LENGTH = 3


def completion_cells(model: TabularModel) -> dict[tuple[int, ...], float]:
    joint = completion_law(model.next_probs, [0], LENGTH, model.vocab_size)
    return {index: float(mass) for index, mass in np.ndenumerate(joint)}


def decoded(target_step, draft_step, n: int) -> list[tuple[int, ...]]:
    generator = np.random.default_rng(6)
    return [
        tuple(speculative_decode([0], target_step, draft_step, 2, LENGTH, generator)[0].tolist())
        for _ in range(n)
    ]


def test_completions_follow_the_targets_joint_law() -> None:
    outcomes = decoded(MODEL.step("numpy"), WEAK.step("numpy"), 1000)
    assert p_value(outcomes, completion_cells(MODEL)) > LEVEL


def test_a_target_read_without_its_last_token_is_seen() -> None:
    step = MODEL.step("numpy")
    outcomes = decoded(lambda ids: step(ids[:-1]), WEAK.step("numpy"), 1000)
    assert p_value(outcomes, completion_cells(MODEL)) < LEVEL


def tiny_gpt(seed: int) -> GPTModel:
    model = GPTModel(4, 8, 2, 1, 12, generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        for weights in model.parameters():
            weights.mul_(4)
    return model.eval()


GPT, GPT_DRAFT = tiny_gpt(0), tiny_gpt(1)
COOL = SamplingParams(temperature=0.8, top_k=3)


@pytest.fixture(scope="module")
def gpt_completions() -> list[tuple[int, ...]]:
    generator = np.random.default_rng(8)
    options = {"gamma": 2, "max_new_tokens": 2, "sampling": COOL, "generator": generator}
    return [tuple(decode_cached(GPT, GPT_DRAFT, [0, 1], **options)[0].tolist()) for _ in range(800)]


def gpt_cells(sampling: SamplingParams) -> dict[tuple[int, ...], float]:
    step = model_step(GPT, sampling=sampling)
    joint = completion_law(lambda ids: step(list(ids)).double().numpy(), [0, 1], 2, 4)
    return {index: float(mass) for index, mass in np.ndenumerate(joint) if mass > 0}


def test_cached_completions_of_a_gpt_follow_its_law(gpt_completions) -> None:
    assert p_value(gpt_completions, gpt_cells(COOL)) > LEVEL


def test_another_temperature_is_seen(gpt_completions) -> None:
    assert p_value(gpt_completions, gpt_cells(SamplingParams(temperature=1.3, top_k=3))) < LEVEL
