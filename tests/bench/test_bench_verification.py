"""What verification is timed on, the peers beside it, and what its curves are held against."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from specverify.bench import verification
from specverify.bench.blocks import (
    Cell,
    DrawnBlocks,
    copy_of_last_rows,
    verify_laws,
    verify_logits,
)
from specverify.bench.timing import Size, Spread
from specverify.bench.verification_curves import Curve
from specverify.bench.verification_peers import LUCIDRAINS, TRANSFORMERS, VLLM, peers

CELL = Cell(20, 6, 3)


def test_rows_of_more_than_two_gigabytes_are_left_out_and_named() -> None:
    assert Cell(32_000, 1024).bytes == 1024 * 9 * 32_000 * 4
    assert not Cell(32_000, 1024).too_large
    cells, left_out = verification._cells(Size(thorough=True))
    assert all(cell.bytes <= 2**31 for cell in cells)
    assert "V = 128000, gamma 4, batch 1024: left out, 4.7 GB" in left_out
    assert "V = 32000, gamma 4, batch 1024, float64: left out" in left_out
    assert verification._cells(Size())[1] == ""


def test_logits_and_laws_are_the_same_blocks() -> None:
    logits, laws = DrawnBlocks.logits(CELL), DrawnBlocks.laws(CELL)
    torch.testing.assert_close(logits.target.softmax(-1), laws.target)
    torch.testing.assert_close(logits.draft.softmax(-1), laws.draft)
    assert torch.equal(logits.tokens, laws.tokens)
    found, expected = verify_logits(logits), verify_laws(laws)
    assert torch.equal(found.emitted, expected.emitted)
    assert DrawnBlocks.laws(Cell(20, 6, double=True)).target.dtype == torch.float64


def test_the_copy_reads_the_rows_of_the_last_token(monkeypatch) -> None:
    laws, copied = DrawnBlocks.laws(CELL), []
    job = copy_of_last_rows(laws)
    select = torch.index_select

    def seen(rows, dim, index, *, out):
        copied.append(select(rows, dim, index, out=out).clone())

    monkeypatch.setattr(torch, "index_select", seen)
    job()
    shapes = [tuple(rows.shape) for rows in copied]
    assert shapes == [(6, 20), (6, 20)]
    assert all((row == laws.target[b]).all(-1).any() for b, row in enumerate(copied[0]))


@pytest.mark.parametrize(
    ("logits", "alpha", "rows"), [(False, 1, 1), (False, 0, 2), (True, 1, 7), (True, 0, 2)]
)
def test_rows_that_must_be_read(logits, alpha, rows) -> None:
    assert Curve("V", "", [CELL], logits).numbers(alpha) == pytest.approx([rows * 6 * 20])


def test_the_rows_that_must_be_read_are_those_that_are(monkeypatch) -> None:
    """With one acceptance rate at every place; 5 standard errors, false alarm 6e-7."""
    cell = Cell(2, 4000, 3)
    rows = torch.tensor([0.3, 0.7]).log(), torch.tensor([0.8, 0.2]).log()
    target, draft = rows[0].expand(4000, 4, 2), rows[1].expand(4000, 3, 2)
    generator = torch.Generator().manual_seed(1)
    tokens = torch.multinomial(draft.exp().reshape(-1, 2), 1, generator=generator).view(4000, 3)
    n = verify_logits(DrawnBlocks(target, draft, tokens, generator)).n_accepted
    read = torch.where(n == 3, 7, 2 * (n + 1)).double() * 2
    (expected,) = Curve("V", "", [cell], True).numbers(0.5)
    assert abs(float(read.sum()) - expected) < 5 * float(read.std()) * 4000**0.5
    (other,) = Curve("V", "", [cell], True).numbers(0.6)
    assert abs(float(read.sum()) - other) > 5 * float(read.std()) * 4000**0.5


def test_peers_that_are_not_installed_are_named() -> None:
    logits = DrawnBlocks.logits(CELL)
    jobs, missing = peers(logits)
    assert TRANSFORMERS in jobs
    assert jobs[TRANSFORMERS].blocks == 6
    jobs[TRANSFORMERS].run()
    for name, said in ((LUCIDRAINS, missing), (VLLM, peers(logits, DrawnBlocks.laws(CELL))[1])):
        assert name in jobs or f"{name} left out: " in said


def test_the_loop_is_timed_from_the_targets_logits_on(monkeypatch) -> None:
    calls: list[str] = []

    def speculative_decoding(net, small_net, prompt, seq_len, gamma):
        ids = prompt
        for _ in range(gamma):
            scores, _ = small_net(ids, cache=None)
            assert scores.shape == (6, 1, 20)
            ids = torch.cat([ids, scores.argmax(-1)], dim=1)
            calls.append("draft")
        assert net(ids, cache=None)[0].shape == (6, gamma + 1, 20)
        calls.append("verified")

    module = ModuleType("speculative_decoding.speculative_decoding")
    module.speculative_decoding = speculative_decoding
    monkeypatch.setitem(sys.modules, "speculative_decoding", ModuleType("speculative_decoding"))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    job = peers(DrawnBlocks.logits(CELL))[0][LUCIDRAINS]
    job.run()
    assert calls == [*["draft"] * 3, "verified"]
    calls.clear()
    job.rest()
    assert calls == ["draft"] * 3


SAMPLER = """
import vllm.envs as envs
from vllm.logger import init_logger
from vllm.model_executor.layers.spec_decode_base_sampler import Base
from vllm.platforms import current_platform

class RejectionSampler(Base):
    def __call__(self, target, bonus, draft, tokens):
        assert draft.shape[1] + 1 == target.shape[1]
        assert bonus.shape == (len(tokens), 1)
        self.num_accepted_tokens += len(tokens)
        self.done.append(current_platform.simple_compile_backend)
"""
BASE = """
class Base:
    done = []
    def __init__(self, use_flashinfer):
        pass
"""


def vllm_in(folder: Path, monkeypatch, files: dict[str, str]) -> None:
    layers = folder / "vllm" / "model_executor" / "layers"
    layers.mkdir(parents=True)
    # Its own start would fail: it needs what is not installed.
    (folder / "vllm" / "__init__.py").write_text("raise ImportError")
    for name, text in files.items():
        (layers / name).write_text(text)
    monkeypatch.syspath_prepend(str(folder))


def test_an_old_vllm_is_loaded_without_the_rest_of_it(tmp_path, monkeypatch) -> None:
    files = {"rejection_sampler.py": SAMPLER, "spec_decode_base_sampler.py": BASE}
    vllm_in(tmp_path, monkeypatch, files)
    before = {name for name in sys.modules if name.startswith("vllm")}
    job = peers(DrawnBlocks.logits(CELL), DrawnBlocks.laws(CELL))[0][VLLM]
    job.run()
    assert {name for name in sys.modules if name.startswith("vllm")} == before
    assert job.blocks == 6


def test_a_vllm_of_kernels_alone_is_left_out(tmp_path, monkeypatch) -> None:
    vllm_in(tmp_path, monkeypatch, {})
    jobs, missing = peers(DrawnBlocks.logits(CELL), DrawnBlocks.laws(CELL))
    assert VLLM not in jobs
    assert "kernels for a GPU alone" in missing


@pytest.mark.parametrize(("found", "holds"), [(20.0, True), (19.9, False)])
def test_marks_are_what_was_asked(found, holds) -> None:
    ratios = {
        f"{TRANSFORMERS} over ours": Spread(found, found, found, 7),
        "ours over the copy": Spread(3.1, 3.0, 3.2, 7),
    }
    first, copy = verification._asked(verification.LAWS, ratios)
    assert (first.measured, first.holds) == (f"{found:.1f}x", holds)
    assert (copy.measured, copy.holds) == ("3.10x", False)
    (logits,) = verification._asked(verification.LOGITS, ratios)
    assert logits.holds
    assert "from logits: at least 3x" in logits.mark
