"""MLX-LM: told when missing; its generator on our weights where it is installed."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

import numpy as np
import pytest
from first_tokens import PLAIN, PROMPT, first_token_law, first_token_p_value

from specverify.adapters.filter_orders import OrderedLaw
from specverify.adapters.mlx_lm import MlxLmEngine
from specverify.audit.explanations import draft_variants, expected_passes
from specverify.audit.schemes import SCHEMES
from specverify.audit.targets import resolve
from specverify.errors import InvalidInputError, MissingDependencyError
from specverify.warping import SamplingParams

FALSE_ALARM = 1e-6  # of each statistical test below; all seeds are fixed

installed = pytest.mark.skipif(
    importlib.util.find_spec("mlx_lm") is None, reason="MLX-LM comes with `make engines`"
)


@pytest.fixture(scope="module")
def engine() -> MlxLmEngine:
    return MlxLmEngine()


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlx.core", None)
    with pytest.raises(MissingDependencyError, match=r"specdec-verify\[mlx-lm\]"):
        resolve("mlx-lm")


def test_a_block_needs_a_draft() -> None:
    with pytest.raises(InvalidInputError, match="gamma: must be at least 1, got 0"):
        resolve("mlx-lm:gamma=0")


@installed
@pytest.mark.parametrize("sampling", [PLAIN, SamplingParams(0.8, 40, 0.9), SamplingParams(1.3, 5)])
def test_the_first_token_follows_the_target(engine: MlxLmEngine, sampling: SamplingParams) -> None:
    law = first_token_law(engine.reference(), sampling)
    assert first_token_p_value(engine, law, 400, sampling=sampling) > FALSE_ALARM
    # The negative control: the draft's law is not what comes out.
    wrong = engine.draft_probs(PROMPT, np.zeros((1, 1), np.int64), sampling)[0, 0]
    assert first_token_p_value(engine, wrong, 400, sampling=sampling) < FALSE_ALARM


@installed
def test_passes_follow_sample_and_match(engine: MlxLmEngine) -> None:
    drawn = engine.sample(PROMPT, 60, 10, PLAIN, seed=3)
    draft = engine.draft_probs(PROMPT, drawn.tokens, PLAIN)
    target = engine.reference().probs(PROMPT, drawn.tokens, PLAIN)
    laws = draft_variants(draft, draft, PLAIN)
    found = list(expected_passes(drawn.tokens, target, laws, engine.describe().gamma))
    schemes = [scheme.code for scheme in SCHEMES]
    mean, variance = found[schemes.index("sample-and-match")]
    assert drawn.passes is not None
    assert abs(drawn.passes.sum() - mean) < 4.9 * np.sqrt(variance)
    mean, variance = found[schemes.index("standard")]
    assert abs(drawn.passes.sum() - mean) > 4.9 * np.sqrt(variance)


class Counted:
    """One of MLX-LM's models, and how often it was called."""

    def __init__(self, model: Any) -> None:
        self.model, self.layers, self.calls = model, model.layers, 0

    def __call__(self, *arguments: Any, **more: Any) -> Any:
        self.calls += 1
        return self.model(*arguments, **more)


@installed
@pytest.mark.parametrize("length", [1, 5, 12])
def test_counts_are_those_of_the_models_calls(length: int) -> None:
    engine = MlxLmEngine(gamma=3)
    target, draft = engine._models = [Counted(model) for model in engine._models]
    drawn = engine.sample(PROMPT, 4, length, SamplingParams(temperature=0.5), seed=2)
    # Each model reads a completion's prompt in a call of its own.
    assert drawn.passes.sum() == target.calls - 4  # type: ignore[union-attr]
    assert drawn.drafted.sum() == draft.calls - 4  # type: ignore[union-attr]
    assert 0 <= drawn.accepted.sum() <= drawn.drafted.sum()  # type: ignore[union-attr]


@installed
def test_a_seed_fixes_the_text(engine: MlxLmEngine) -> None:
    first, again, other = (engine.sample(PROMPT, 3, 8, PLAIN, seed).tokens for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


@installed
def test_greedy_is_the_most_probable_token(engine: MlxLmEngine) -> None:
    drawn = engine.sample(PROMPT, 1, 8, SamplingParams(temperature=0.0), seed=0)
    law = OrderedLaw(engine._exact.target, ()).probs(PROMPT, drawn.tokens, PLAIN)
    np.testing.assert_array_equal(drawn.tokens[0], law[0].argmax(-1))
