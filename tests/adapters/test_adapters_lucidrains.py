"""The loop of `speculative-decoding`: told when missing; run where it is installed."""

from __future__ import annotations

import importlib.util
import sys

import numpy as np
import pytest
import torch

from specverify.adapters.lucidrains import (
    BatchedLoopAlone,
    LoopAlone,
    LucidrainsEngine,
    _Cached,
    _settings,
)
from specverify.errors import InvalidInputError, MissingDependencyError
from specverify.warping import SamplingParams

TARGET = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.25, 0.15, 0.6]])
INSTALLED = pytest.mark.skipif(
    importlib.util.find_spec("speculative_decoding") is None,
    reason="speculative-decoding comes with `make engines`",
)


@pytest.mark.parametrize("adapter", [LoopAlone, BatchedLoopAlone, LucidrainsEngine])
def test_a_missing_package_is_named(adapter: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "speculative_decoding", None)
    with pytest.raises(MissingDependencyError, match=r"specdec-verify\[speculative-decoding\]"):
        adapter()


@pytest.mark.parametrize("settings", [{"batch": 0}, {"gamma": 0}])
def test_settings_out_of_range_are_refused(settings: dict[str, int]) -> None:
    with pytest.raises(InvalidInputError, match="must be at least 1, got 0"):
        LucidrainsEngine(**settings)


def test_a_cache_holds_what_was_read_and_padding_is_left_out() -> None:
    seen: list[list[int]] = []

    def step(ids: torch.Tensor) -> torch.Tensor:
        seen.append(ids.tolist())
        return TARGET[len(ids) % 3]

    model = _Cached(step)
    ids, starts = torch.tensor([[2, 1, 0], [1, 1, 2]]), torch.tensor([0, 1])
    _logits, (read, _) = model(ids, seq_start_pos=starts)
    assert read[:, 0, :, 0].tolist() == ids.tolist()
    assert [1, 2] in seen
    assert [1, 1, 2] not in seen
    spoilt = read.clone()
    spoilt[0, 0, 1, 0] = 0
    model(torch.tensor([[2, 1, 0, 1], [1, 1, 2, 0]]), seq_start_pos=starts, cache=(spoilt, None))
    assert [2, 0, 0, 1] in seen


@pytest.mark.parametrize("kept", [1, 3, 8])
def test_a_top_k_is_the_share_that_it_keeps(kept: int) -> None:
    settings, warped = _settings(SamplingParams(temperature=0.7, top_k=kept), 8)
    assert warped.is_plain
    assert settings["temperature"] == 0.7
    assert np.ceil((1 - settings["filter_thres"]) * 8) == kept


def test_other_filters_are_put_on_the_models() -> None:
    asked = SamplingParams(temperature=0.7, top_p=0.9)
    settings, warped = _settings(asked, 8)
    assert warped == asked
    assert "temperature" not in settings


@INSTALLED
@pytest.mark.parametrize("adapter", [LoopAlone, BatchedLoopAlone])
def test_the_loop_returns_as_many_tokens_as_are_asked_for(adapter: type) -> None:
    tokens = adapter()(torch.tensor([1, 0]), lambda _: TARGET[0], lambda _: TARGET[1], 3, 5)
    assert len(tokens) == 5


@INSTALLED
def test_its_decoder_reads_the_padding_of_a_batch() -> None:
    """Why batches are biased: a row that is padded on the left has another law than alone."""
    decoder = LucidrainsEngine().smallest().target
    text = torch.tensor([[1, 0, 1]])
    padded = torch.cat([torch.zeros(1, 1, dtype=torch.int64), text], dim=1)
    with torch.no_grad():
        alone = decoder(text)[0, -1].softmax(-1)
        beside = decoder(padded, seq_start_pos=torch.tensor([1]))[0, -1].softmax(-1)
    assert 0.5 * float((alone - beside).abs().sum()) > 0.01


@INSTALLED
def test_completions_are_repeated_by_their_seed() -> None:
    engine = LucidrainsEngine(batch=2)
    first, again = (engine.sample([1, 2], 5, 4, SamplingParams(), 3) for _ in range(2))
    np.testing.assert_array_equal(first.tokens, again.tokens)
    assert first.tokens.shape == (5, 4)
    assert first.passes is None
    assert LucidrainsEngine().sample([1], 2, 4, SamplingParams(), 0).passes.min() >= 1
