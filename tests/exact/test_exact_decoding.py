"""Whole decode loops: traced from end to end, and composed from block laws."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from specverify.errors import InvalidInputError
from specverify.exact.composition import compose_decode_law
from specverify.exact.decoding import (
    check_exact_decode,
    exact_decode_law,
    judge_completions,
)
from specverify.models.tabular import TabularModel
from specverify.sampler.decode import autoregressive_decode, speculative_decode
from specverify.sampler.verify import speculative_verify

RNG = np.random.default_rng(11)
TARGET = TabularModel.random(2, 1, RNG)
DRAFT = TARGET.perturbed(RNG, 0.6)
SIZES: dict[str, Any] = {"prompt": (1,), "gamma": 2, "max_new_tokens": 3}


@pytest.mark.parametrize("framework", ["torch", "numpy"])
def test_the_reference_loop_is_lossless(framework: Any) -> None:
    found = check_exact_decode(speculative_decode, TARGET, DRAFT, framework=framework, **SIZES)
    assert found.tv.high < 1e-12
    assert found.law.complete
    assert len(found.law.probabilities) == 8


def test_plain_decoding_is_lossless() -> None:
    def plain(prompt: Any, target: Any, draft: Any, gamma: int, n: int, generator: Any) -> Any:
        return autoregressive_decode(prompt, target, n, generator)

    assert check_exact_decode(plain, TARGET, DRAFT, **SIZES).tv.high < 1e-12


def test_an_early_end_is_part_of_the_law() -> None:
    def ends(*args: Any) -> Any:
        return speculative_decode(*args, eos_token_id=0)

    found = check_exact_decode(ends, TARGET, DRAFT, framework="numpy", eos_token_id=0, **SIZES)
    assert found.tv.high < 1e-12
    assert (0,) in found.law.probabilities
    # Without the declaration, completions that stop early count against the loop.
    undeclared = check_exact_decode(ends, TARGET, DRAFT, framework="numpy", **SIZES)
    assert undeclared.invalid_mass > 0.1


def test_a_loop_that_skips_the_first_test_is_seen() -> None:
    """A7 of the catalogue: the first token has the draft's law."""

    def unverified(prompt: Any, target: Any, draft: Any, gamma: int, n: int, generator: Any) -> Any:
        first = int(generator.choice(2, p=draft(prompt)))
        rest = [*prompt.tolist(), first]
        tokens = [first]
        while len(tokens) < n:
            tokens.append(int(generator.choice(2, p=target(np.array(rest)))))
            rest.append(tokens[-1])
        return tokens

    found = check_exact_decode(unverified, TARGET, DRAFT, framework="numpy", **SIZES)
    expected = 0.5 * np.abs(TARGET.next_probs((1,)) - DRAFT.next_probs((1,))).sum()
    assert found.position == 0
    assert math.isclose(found.by_length[0].low, float(expected), abs_tol=1e-12)


@pytest.mark.parametrize("framework", ["torch", "numpy"])
def test_composition_agrees_with_tracing_the_loop(framework: Any) -> None:
    composed = compose_decode_law(speculative_verify, TARGET, DRAFT, framework=framework, **SIZES)
    traced = exact_decode_law(speculative_decode, TARGET, DRAFT, framework=framework, **SIZES)
    assert composed.probabilities.keys() == traced.probabilities.keys()
    for tokens, mass in traced.probabilities.items():
        assert math.isclose(composed.probabilities[tokens], mass, abs_tol=1e-14)
    assert composed.runs < traced.runs / 3


def test_composition_reaches_longer_texts() -> None:
    rng = np.random.default_rng(5)
    target = TabularModel.random(3, 2, rng)
    draft = target.perturbed(rng, 0.5)
    law = compose_decode_law(
        speculative_verify, target, draft, prompt=(0,), gamma=2, max_new_tokens=6, framework="numpy"
    )
    found = judge_completions(law, target, prompt=(0,), length=6)
    assert len(law.probabilities) == 3**6
    assert found.tv.high < 1e-12


def test_a_biased_block_makes_a_biased_text() -> None:
    def biased(target: Any, draft: Any, tokens: Any, generator: Any) -> Any:
        emitted, n = speculative_verify(target, draft, tokens, generator)
        if n < len(tokens):
            emitted[-1:] = torch.multinomial(target[n], 1, generator=generator)
        return emitted

    law = compose_decode_law(biased, TARGET, DRAFT, **SIZES)
    found = judge_completions(law, TARGET, prompt=(1,), length=3)
    assert found.position == 0
    assert found.tv.low > 0.01


def test_unfit_arguments_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="gamma"):
        exact_decode_law(speculative_decode, TARGET, DRAFT, **(SIZES | {"gamma": 0}))
    with pytest.raises(InvalidInputError, match="draft"):
        exact_decode_law(speculative_decode, TARGET, TabularModel.random(3, 1, RNG), **SIZES)
