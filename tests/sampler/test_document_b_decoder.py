"""Document B's decoder: its law is the target's, and it has the habits that an audit must name."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from specverify.exact import enumerate_law
from specverify.models.gpt import GPTModel
from specverify.models.tabular import TabularModel
from specverify.theory.block_law import block_law
from specverify.theory.completion_law import completion_law

PATH = Path(__file__).resolve().parents[2] / "simulations" / "document_b_decoder.py"
GENERATOR = torch.Generator()


@pytest.fixture(scope="module")
def document_b():
    spec = importlib.util.spec_from_file_location("document_b_decoder", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


class Letters:
    """A tokeniser of single letters."""

    def __init__(self, eos_token_id: int | None = None) -> None:
        self.eos_token_id = eos_token_id

    def encode(self, text: str) -> list[int]:
        return [ord(letter) - ord("a") for letter in text]

    def decode(self, ids: list[int]) -> str:
        return "".join(chr(ord("a") + token) for token in ids)


class Counted:
    """A model that counts its calls."""

    def __init__(self, seed: int, vocab_size: int = 6) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.model = GPTModel(vocab_size, 8, 2, 1, 64, generator=generator)
        with torch.no_grad():
            for weights in self.model.parameters():
                weights.mul_(4)
        self.vocab_size, self.calls = vocab_size, 0

    def __call__(self, ids: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.model(ids)


def decoder_of(document_b, eos_token_id: int | None = None):
    return document_b.SpeculativeDecoder(Counted(1), Counted(2), Letters(eos_token_id), "cpu")


TARGET = np.array([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7], [0.7, 0.1, 0.2]])
DRAFT = np.array([[0.2, 0.2, 0.6], [0.4, 0.4, 0.2]])


def block_of(document_b):
    target, draft = torch.from_numpy(TARGET), torch.from_numpy(DRAFT)

    def run() -> tuple[int, ...]:
        tokens = torch.multinomial(draft, 1, generator=GENERATOR)[:, 0]
        return tuple(document_b.verify(target, draft, tokens, GENERATOR)[0].tolist())

    return run


def distance(ours, law) -> float:
    gaps = [abs(ours.get(key, 0.0) - law.get(key, 0.0)) for key in {*ours, *law}]
    return 0.5 * float(sum(gaps))


def test_a_block_has_the_standard_law_without_its_bonus(document_b) -> None:
    ours = enumerate_law(block_of(document_b)).probabilities
    assert distance(ours, block_law(TARGET, DRAFT, bonus=False)) < 1e-12
    assert distance(ours, block_law(TARGET, DRAFT)) > 0.1


def test_a_completion_has_the_targets_law(document_b) -> None:
    rng = np.random.default_rng(0)
    target = TabularModel.random(2, 1, rng)
    draft, other = target.perturbed(rng, 0.6), TabularModel.random(2, 1, rng)

    def run() -> tuple[int, ...]:
        steps = target.step(), draft.step()
        return tuple(document_b.decode(torch.tensor([0]), *steps, 2, 3, GENERATOR)[0].tolist())

    ours = enumerate_law(run).probabilities
    for model, agrees in [(target, True), (other, False)]:
        law = dict(np.ndenumerate(completion_law(model.next_probs, [0], 3, 2)))
        assert (distance(ours, law) < 1e-12) is agrees


def test_counts_corrections_as_accepted(document_b) -> None:
    step = TabularModel(np.array([1.0, 0.0])).step()
    wrong = TabularModel(np.array([0.0, 1.0])).step()
    tokens, trace = document_b.decode(torch.tensor([0]), step, wrong, 3, 4, GENERATOR)
    assert tokens.tolist() == [0] * 4
    assert [(block.proposed, block.n_accepted, block.emitted) for block in trace] == [
        ((1, 1, 1), 1, (0,))
    ] * 4


def test_no_bonus_when_all_are_accepted(document_b) -> None:
    step = TabularModel(np.array([0.5, 0.5])).step()
    tokens, trace = document_b.decode(torch.tensor([0]), step, step, 3, 7, GENERATOR)
    assert [len(block.emitted) for block in trace] == [3, 3, 3]
    assert [block.kept for block in trace] == [3, 3, 1]
    assert len(tokens) == 7


def test_generates_text_and_may_overshoot(document_b) -> None:
    overshoots = set()
    for seed in range(10):
        decoder = decoder_of(document_b)
        text, stats = document_b.speculative_generate(
            decoder, "ab", 10, 4, generator=torch.Generator().manual_seed(seed)
        )
        assert text.startswith("ab")
        assert stats["drafted"] == 4 * stats["rounds"]
        assert stats["accepted"] == len(text) - 2
        overshoots.add(len(text) - 12)
        assert decoder.target_model.calls == stats["rounds"]
        assert decoder.draft_model.calls == 5 * stats["rounds"], "four to draft, one to verify"
    assert min(overshoots) >= 0
    assert max(overshoots) > 0


def test_stops_at_the_end_of_the_text(document_b) -> None:
    ended = 0
    for seed in range(10):
        generator = torch.Generator().manual_seed(seed)
        text, _ = document_b.speculative_generate(
            decoder_of(document_b, 3), "ab", 30, generator=generator
        )
        plain = document_b.standard_generate(
            decoder_of(document_b, 3), "ab", 30, generator=generator
        )
        for whole in (text, plain):
            assert "d" not in whole[:-1]
            ended += whole.endswith("d")
    assert ended > 5


def test_the_baseline_has_the_length_asked_for(document_b) -> None:
    decoder = decoder_of(document_b)
    assert len(document_b.standard_generate(decoder, "abc", 9)) == 12
    assert decoder.target_model.calls == 9


def test_a_temperature_of_zero_breaks_it(document_b) -> None:
    with pytest.raises((RuntimeError, ZeroDivisionError)):
        document_b.speculative_generate(decoder_of(document_b), "ab", temperature=0.0)


def test_refuses_unequal_vocabularies(document_b) -> None:
    with pytest.raises(AssertionError, match="6 and 7 tokens"):
        document_b.SpeculativeDecoder(Counted(1), Counted(2, 7), Letters(), "cpu")
