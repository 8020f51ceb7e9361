"""Kernels over the stand-in of Triton's language: what they compute, and their exact law."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from specverify.adapters.vllm_kernels import Device, Kernel, own_kernels, plain_rows
from specverify.adapters.vllm_language import LANGUAGE, Largest, Value
from specverify.errors import UnsupportedRandomness
from specverify.exact.blocks import exact_verify_tv
from specverify.exact.law import enumerate_law
from specverify.exact.reals import uniform
from specverify.exact.tape import active_tape

tl: Any = ModuleType("tl")  # the language that the kernels below are written in


class Jitted:
    """What ``triton.jit`` leaves of a function, as far as it matters here."""

    def __init__(self, fn: Any) -> None:
        self.fn, self.arg_names = fn, list(inspect.signature(fn).parameters)


def _accepts(target_ptr, draft_ptr, place, u):  # type: ignore[no-untyped-def]
    draft = tl.load(draft_ptr + place)
    return draft > 0 and tl.load(target_ptr + place) / draft >= u


accepts = Jitted(_accepts)


def verify_kernel(  # type: ignore[no-untyped-def]
    out_ptr, target_ptr, draft_ptr, tokens_ptr, uniforms_ptr, noise_ptr, vocab, BLOCK_SIZE, SUBTRACT
):
    """One draft a request, by the standard rule; without SUBTRACT corrections are the target's."""
    request = tl.program_id(0)
    token = tl.load(tokens_ptr + request)
    lanes = tl.arange(0, BLOCK_SIZE)
    mask = lanes < vocab
    row = request * vocab
    target = tl.load(target_ptr + row + lanes, mask=mask, other=0.0)
    draft = tl.load(draft_ptr + row + lanes, mask=mask, other=0.0)
    left = tl.maximum(target - draft, 0.0) if SUBTRACT else target
    score = left * tl.load(noise_ptr + row + lanes, mask=mask, other=0.0)
    best, index = tl.max(tl.where(mask, score, float("-inf")), axis=0, return_indices=True)
    corrected = tl.minimum(0 + index, vocab - 1) if best > float("-inf") else 0
    if accepts(target_ptr, draft_ptr, row + token, tl.load(uniforms_ptr + request)):
        tl.store(out_ptr + request, token)
    else:
        tl.store(out_ptr + request, corrected)


def _verifier(*, subtract: bool) -> Any:
    """A verifier of one draft that emits no bonus token, its batch of two requests alike."""
    kernel, device = Kernel(Jitted(verify_kernel)), Device()

    def verify(target_probs: Any, draft_probs: Any, draft_tokens: Any) -> Any:
        vocab = draft_probs.shape[-1]
        target, draft = target_probs[:1].repeat(2, 1), draft_probs.repeat(2, 1)
        tokens, out = draft_tokens.repeat(2), torch.full((2, 1), -1)
        noise = torch.empty(2, vocab).exponential_().reciprocal()
        traced = 2 if active_tape() is not None else None
        with device.running(8, traced) as launches:
            rows = (out, target, draft, tokens, torch.rand(2), noise, vocab)
            kernel[(2,)](*rows, BLOCK_SIZE=1024, SUBTRACT=subtract, num_warps=4)
            return launches.rows(out)[0]

    return verify


TARGET = np.array([[0.1, 0.2, 0.3, 0.15, 0.25], [0.2, 0.2, 0.2, 0.2, 0.2]], dtype=np.float32)
DRAFT = np.array([[0.3, 0.1, 0.1, 0.3, 0.2]], dtype=np.float32)


def _tv(*, subtract: bool) -> Any:
    rows = torch.from_numpy(TARGET), torch.from_numpy(DRAFT)
    return exact_verify_tv(_verifier(subtract=subtract), *rows)


def test_a_kernel_is_traced_exactly_and_its_broken_twin_is_found() -> None:
    assert _tv(subtract=True).high < 1e-6
    accepted = np.minimum(TARGET[0], DRAFT[0])
    wrong = accepted + (1 - accepted.sum()) * TARGET[0]
    expected = 0.5 * np.abs(wrong - TARGET[0]).sum()
    assert _tv(subtract=False).low == pytest.approx(expected, abs=1e-6)


def test_ordinary_calls_follow_the_traced_law() -> None:
    # A two-sided normal bound at 5 standard errors: false alarms below 1e-6 a token.
    torch.manual_seed(3)
    verify, n = _verifier(subtract=True), 4000
    rows = torch.from_numpy(TARGET), torch.from_numpy(DRAFT)
    drafts = torch.multinomial(rows[1][0], n, replacement=True)
    emitted = [int(verify(*rows, draft[None])) for draft in drafts]
    found = np.bincount(emitted, minlength=5) / n
    assert (np.abs(found - TARGET[0]) < 5 * np.sqrt(TARGET[0] * (1 - TARGET[0]) / n)).all()


def test_programs_wait_until_their_row_is_looked_at() -> None:
    rows = torch.from_numpy(TARGET), torch.from_numpy(DRAFT)
    verify = _verifier(subtract=True)
    law = enumerate_law(lambda: verify(*rows, torch.tensor([0])))
    # One accept test and one race: two runs, not those of the other request as well.
    assert law.runs == 2
    assert law.paths == 1 + (TARGET[0] > DRAFT[0]).sum()


def test_memory_outside_of_a_tensor_is_not_read() -> None:
    def reads(x_ptr):  # type: ignore[no-untyped-def]
        tl.load(x_ptr + 3)

    with (
        pytest.raises(IndexError, match="cells 3 to 3 of a tensor of 3"),
        Device().running(8) as launches,
    ):
        launches.launch(Kernel(Jitted(reads)), (1,), (torch.zeros(3),), {})


def test_tensors_with_gaps_are_read_by_their_strides() -> None:
    def copies(out_ptr, x_ptr, stride):  # type: ignore[no-untyped-def]
        tl.store(out_ptr + tl.program_id(0), tl.load(x_ptr + tl.program_id(0) * stride))

    column, out = torch.arange(12).reshape(3, 4)[:, 1], torch.zeros(3, dtype=torch.int64)
    with Device().running(8) as launches:
        launches.launch(Kernel(Jitted(copies)), (3,), (out, column, 4), {})
    assert out.tolist() == [1, 5, 9]


def test_a_modules_kernels_are_replaced() -> None:
    module: Any = ModuleType("sampler")
    module.kernel, module.number, module.kind = Jitted(verify_kernel), 3, Jitted
    own_kernels(module)
    assert isinstance(module.kernel, Kernel)
    assert (module.number, module.kind) == (3, Jitted)


def test_rows_are_padded_beyond_their_count() -> None:
    emitted, counts = torch.tensor([[4, 7, 9], [1, 2, 3]]), torch.tensor([1, 3])
    assert plain_rows(emitted, counts).tolist() == [[4, -1, -1], [1, 2, 3]]


def test_uniforms_are_philox_as_published() -> None:
    # The first word of Philox 4x32-10 of zeros: Salmon et al. (2011), known-answer tests.
    word = 0x6627E8D5
    expected = np.float32(word) * np.float32(4.6566127342e-10)
    found = LANGUAGE.rand(Value(np.int64(0)), Value(np.int64(0)))
    assert found.data == expected
    assert found.data.dtype == np.float32


def test_dtypes_are_those_of_the_language() -> None:
    half = Value(np.float32(0.5))
    assert (half / 3).data.dtype == np.float32
    assert (1 - half).data.dtype == np.float32
    assert (Value(np.uint32(1 << 31)) << 1).data == 0
    assert LANGUAGE.where(half > 0, 1.0, half).data.dtype == np.float32
    assert LANGUAGE.zeros((), np.int64).data == 0


def test_what_is_not_known_of_a_largest_value_is_refused() -> None:
    def compares() -> bool:
        return bool(Largest([uniform("u"), 0.5]) > 0.0)

    with pytest.raises(UnsupportedRandomness, match=r"tl\.max"):
        enumerate_law(compares)
