"""The tiny pair: the same every time, with laws that an audit can see something in."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from specverify.distributions import acceptance_rate
from specverify.models.pairs import Pair, load_pair
from specverify.models.tiny import write_tiny_pair


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return load_pair(write_tiny_pair(tmp_path_factory.mktemp("tiny")), dtype="float64")


def test_it_is_the_same_every_time(pair: Pair, tmp_path: Path) -> None:
    again = load_pair(write_tiny_pair(tmp_path), dtype="float64")
    other = load_pair(write_tiny_pair(tmp_path / "other", seed=1), dtype="float64")
    ids = torch.arange(8)
    assert torch.equal(pair.target(ids), again.target(ids))
    assert not torch.allclose(pair.target(ids), other.target(ids))


def test_files_that_are_there_are_kept(tmp_path: Path) -> None:
    first = (write_tiny_pair(tmp_path) / "target" / "model.safetensors").read_bytes()
    write_tiny_pair(tmp_path, seed=5)
    assert (tmp_path / "target" / "model.safetensors").read_bytes() == first


def test_its_laws_are_worth_an_audit(pair: Pair) -> None:
    ids = torch.randint(32, (64, 12), generator=torch.Generator().manual_seed(0))
    target = pair.target(ids).softmax(-1).flatten(0, 1)
    draft = pair.draft(ids).softmax(-1).flatten(0, 1)
    rates = torch.stack([acceptance_rate(t, d) for t, d in zip(target, draft, strict=True)])
    assert 0.5 < rates.mean() < 0.9
    entropy = -(target * target.log()).sum(-1)
    assert entropy.mean() > 1.0
    # Rows differ by context: identical ones would hide every row that is read off by one.
    assert (target[1:] - target[:-1]).abs().sum(-1).min() > 0.05
