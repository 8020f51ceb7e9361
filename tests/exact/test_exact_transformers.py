"""The released transformers under the tracer: its verification step, and whole generations."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

from specverify.exact import ExactLaw, enumerate_law, tv_bounds
from specverify.exact.blocks import check_exact
from specverify.exact.scenario import BlockScenario

transformers = pytest.importorskip("transformers")

PROMPT = torch.tensor([[1, 2]])
# The library computes its sampling distributions in float32.
ROUNDING = 1e-6


def verify_step(target: Any, draft: Any, tokens: Any) -> Any:
    from transformers.generation.utils import _speculative_sampling

    ids = torch.cat([torch.zeros(1, dtype=torch.int64), tokens])[None]
    emitted, accepted = _speculative_sampling(
        ids, draft.log()[None], len(tokens), target.log()[None]
    )
    return emitted[0], accepted


@pytest.mark.parametrize(("vocab", "gamma"), [(2, 1), (3, 2), (4, 2)])
def test_its_verification_step_is_lossless(vocab: int, gamma: int) -> None:
    rng = np.random.default_rng([vocab, gamma])
    scenario = BlockScenario.from_rows(
        rng.dirichlet(np.ones(vocab), gamma + 1), rng.dirichlet(np.ones(vocab), gamma)
    )
    assert check_exact(verify_step, scenario).tv.high < 1e-12
    assert check_exact(verify_step, scenario, dtype="float32").lossless


def test_its_ensemble_weight_is_lossy_by_design() -> None:
    """With weight w the emitted law mixes in the draft; the tracer must not miss it."""
    from transformers.generation.utils import _speculative_sampling

    def ensemble(target: Any, draft: Any, tokens: Any) -> Any:
        ids = torch.cat([torch.zeros(1, dtype=torch.int64), tokens])[None]
        return _speculative_sampling(
            ids, draft.log()[None], len(tokens), target.log()[None], assistant_ensemble_weight=0.5
        )

    target = np.array([[0.5, 0.3, 0.2]] * 2)
    draft = np.array([[0.2, 0.3, 0.5]])
    found = check_exact(ensemble, BlockScenario.from_rows(target, draft))
    # The first token's law is w p + (1 - w) q, at half the distance of the draft.
    assert abs(found.by_length[0].low - 0.15) < 1e-12


@pytest.fixture(scope="module")
def pair() -> tuple[Any, Any]:
    def model(seed: int) -> Any:
        config = transformers.GPT2Config(
            vocab_size=3, n_positions=16, n_embd=8, n_layer=1, n_head=2, eos_token_id=None
        )
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            made = transformers.GPT2LMHeadModel(config).double().eval()
            with torch.no_grad():
                for parameter in made.parameters():
                    parameter.add_(torch.randn_like(parameter) * 0.3)
        return made

    return model(1), model(2)


def generated(pair: tuple[Any, Any], assisted: bool, **options: Any) -> ExactLaw:
    """Law of two new tokens of ``generate``; state that a run changes is put back."""
    target, assistant = pair
    settings = copy.deepcopy(assistant.generation_config)
    settings.num_assistant_tokens = 1
    settings.num_assistant_tokens_schedule = "constant"
    settings.assistant_confidence_threshold = 0.0

    def run() -> Any:
        assistant.generation_config = copy.deepcopy(settings)
        extra = {"assistant_model": assistant} if assisted else {}
        completion = target.generate(
            PROMPT,
            attention_mask=torch.ones_like(PROMPT),
            do_sample=True,
            max_new_tokens=2,
            pad_token_id=0,
            **extra,
            **options,
        )
        return completion[0, PROMPT.shape[1] :]

    return enumerate_law(run)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "options",
    [{"top_k": 0}, {"top_k": 2, "temperature": 0.7}, {"top_k": 0, "repetition_penalty": 1.5}],
    ids=["plain", "top-k", "penalty"],
)
def test_assisted_generation_has_the_law_of_plain_generation(pair: Any, options: Any) -> None:
    plain, assisted = (generated(pair, flag, **options) for flag in (False, True))
    assert assisted.complete
    assert tv_bounds(assisted, plain.probabilities).high < ROUNDING
    assert assisted.paths > plain.paths


@pytest.mark.filterwarnings("ignore")
def test_plain_generation_has_the_law_of_the_model(pair: Any) -> None:
    with torch.no_grad():
        first = pair[0](PROMPT).logits[0, -1].softmax(-1).tolist()
    law = generated(pair, False, top_k=0).map(lambda tokens: tokens[0])
    assert tv_bounds(law, dict(enumerate(first))).high < ROUNDING
    # Negative control: the assistant's own law is another.
    with torch.no_grad():
        other = pair[1](PROMPT).logits[0, -1].softmax(-1).tolist()
    assert tv_bounds(law, dict(enumerate(other))).low > 0.01
