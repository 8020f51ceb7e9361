"""LitGPT's round and loop: told when missing; run where it is installed."""

from __future__ import annotations

import importlib.util
import sys
from types import SimpleNamespace

import pytest
import torch

from specverify.adapters.litgpt import LitGPT, LitGPTRound, _Cached
from specverify.adapters.litgpt_engine import LitGPTEngine
from specverify.audit.targets import registered
from specverify.errors import InvalidInputError, MissingDependencyError
from specverify.warping import SamplingParams

TARGET = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.25, 0.15, 0.6]])
INSTALLED = pytest.mark.skipif(
    importlib.util.find_spec("litgpt") is None, reason="LitGPT comes with `make engines`"
)


@pytest.mark.parametrize("adapter", [LitGPT, LitGPTRound, LitGPTEngine])
def test_a_missing_package_is_named(adapter: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "litgpt", None)
    with pytest.raises(MissingDependencyError, match=r"specdec-verify\[litgpt\]"):
        adapter()


@pytest.mark.parametrize("settings", [{"gamma": 0}, {"vocab_size": 1}])
def test_settings_out_of_range_are_refused(settings: dict[str, int]) -> None:
    with pytest.raises(InvalidInputError, match="must be at least"):
        LitGPTEngine(**settings)


def test_the_loop_is_audited_unless_the_round_is_asked_for() -> None:
    assert registered()["litgpt"][:2] == ("decode", "verify")


def test_the_cache_forgets_what_is_written_over() -> None:
    seen: list[list[int]] = []

    def step(ids: torch.Tensor) -> torch.Tensor:
        seen.append(ids.tolist())
        return TARGET[len(ids) % 3]

    model = _Cached(step)
    model(torch.tensor([[1, 2, 0]]), torch.arange(3))
    rows = model(torch.tensor([[0]]), torch.tensor([1]))
    assert seen[-1] == [1, 0]
    torch.testing.assert_close(rows[0].exp(), TARGET[[2]])


def test_a_position_that_nobody_wrote_is_seen() -> None:
    seen: list[list[int]] = []

    def step(ids: torch.Tensor) -> torch.Tensor:
        seen.append(ids.tolist())
        return TARGET[0]

    model = _Cached(step)
    model(torch.tensor([[1]]), torch.tensor([0]))
    model(torch.tensor([[2]]), torch.tensor([2]))
    assert seen[-1] == [1, -1, 2]


def test_given_drafts_stand_in_place_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = torch.tensor([1])
    own = lambda logits, **_: (drawn, logits)  # noqa: E731
    library = SimpleNamespace(sample=own)

    def play(speculative_k: int, **_: object) -> torch.Tensor:
        drafts = [library.sample(None)[0] for _ in range(speculative_k)]
        return torch.cat([*drafts, library.sample(None)[0]])

    library.speculative_decoding = play
    monkeypatch.setitem(sys.modules, "litgpt.generate.speculative_decoding", library)
    emitted = LitGPTRound()(TARGET, TARGET[:-1], torch.tensor([2, 0]))
    assert emitted.tolist() == [2, 0, 1]
    assert library.sample is own


@INSTALLED
def test_equal_rows_accept_every_draft() -> None:
    emitted = LitGPTRound()(TARGET, TARGET[:-1], torch.tensor([2, 0]))
    assert emitted[:2].tolist() == [2, 0]
    assert len(emitted) == 3


@INSTALLED
@pytest.mark.parametrize("length", [1, 2, 7])
def test_the_loop_returns_as_many_tokens_as_are_asked_for(length: int) -> None:
    tokens = LitGPT()(torch.tensor([1, 0]), lambda ids: TARGET[0], lambda ids: TARGET[1], 3, length)
    assert len(tokens) == length


@INSTALLED
def test_completions_are_repeated_by_their_seed() -> None:
    engine = LitGPTEngine()
    first, again = (engine.sample([1, 2], 3, 5, SamplingParams(), 3).tokens for _ in range(2))
    assert first.shape == (3, 5)
    assert (first == again).all()


@INSTALLED
def test_what_it_lacks_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="min_p"):
        LitGPTEngine().sample([1], 1, 2, SamplingParams(min_p=0.1), 0)
