"""Kernels whose programs run in lockstep leave what they leave one after another, to the bit."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from specverify.adapters import vllm_lockstep
from specverify.adapters.vllm_kernels import Device, Kernel

tl: Any = ModuleType("tl")  # the language that the kernels below are written in


class Jitted:
    """What ``triton.jit`` leaves of a function, as far as it matters here."""

    def __init__(self, fn: Any) -> None:
        self.fn, self.arg_names = fn, list(inspect.signature(fn).parameters)


def _left(fn: Any, tensors: list[Tensor], grid: tuple[int, ...], *, lockstep: bool, **more: Any):
    """The tensors after a launch, and how often the kernel's text was run."""
    copies, runs = [tensor.clone() for tensor in tensors], 0
    device = Device(lockstep=lockstep)
    plain = device.function

    def counted(*arguments: Any) -> Callable[..., None]:
        function = plain(*arguments)

        def run(**given: Any) -> None:
            nonlocal runs
            runs += 1
            function(**given)

        return run

    device.function = counted  # type: ignore[method-assign,assignment]
    with device.running(64) as launches:
        launches.launch(Kernel(Jitted(fn)), grid, copies, more)
    return copies, runs


def _compare(fn: Any, tensors: list[Tensor], grid: tuple[int, ...], **more: Any) -> int:
    """How often the text was run in lockstep, once both ways have left the same."""
    apart, alone = _left(fn, tensors, grid, lockstep=False, **more)
    together, runs = _left(fn, tensors, grid, lockstep=True, **more)
    for one, other in zip(apart, together, strict=True):
        assert torch.equal(one, other)
    assert any(not torch.equal(one, old) for one, old in zip(apart, tensors, strict=True))
    assert runs < alone
    return runs


def softmax_kernel(out_ptr, best_ptr, x_ptr, width, BLOCK_SIZE):  # type: ignore[no-untyped-def]
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + row * width + lanes, mask=lanes < width, other=float("-inf"))
    largest, index = tl.max(x, axis=0, return_indices=True)
    shares = tl.exp(x - largest)
    shares = tl.where(largest > float("-inf"), shares / tl.sum(shares, axis=0), 0.0)
    tl.store(out_ptr + row * width + lanes, shares, mask=lanes < width)
    tl.store(best_ptr + row, tl.minimum(index, width - 1) + tl.argmax(x, axis=0))


def test_blocks_are_loaded_reduced_and_stored() -> None:
    x = torch.randn(6, 37, generator=torch.Generator().manual_seed(0))
    out, best = torch.zeros(6, 37), torch.zeros(6, dtype=torch.int32)
    assert _compare(softmax_kernel, [out, best, x], (6,), width=37, BLOCK_SIZE=64) == 1


def counting_kernel(out_ptr, length_ptr, x_ptr):  # type: ignore[no-untyped-def]
    row = tl.program_id(0)
    tl.store(out_ptr + row, tl.load(out_ptr + row) + 1)
    if tl.load(x_ptr + row) < 0:
        return
    stopped = False
    for step in range(tl.load(length_ptr + row)):
        if not stopped:
            stopped = tl.load(x_ptr + row) > step and step > 1
            tl.store(out_ptr + row, tl.load(out_ptr + row) + (10 if stopped else 100))


COUNTING = [
    torch.zeros(28, dtype=torch.int64),
    torch.tensor([4, 0, 3, 4, 2, 4, 4]).repeat(4),
    torch.tensor([5, 1, -1, 0, 9, 3, 5]).repeat(4),
]


def test_programs_part_where_they_decide_differently() -> None:
    assert _compare(counting_kernel, COUNTING, (28,)) > 1


def test_what_parting_programs_wrote_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    class Forgetful(list):  # type: ignore[type-arg]
        def __reversed__(self) -> Any:
            return iter(())

    monkeypatch.setattr(vllm_lockstep, "_written", Forgetful())
    with pytest.raises(AssertionError):
        _compare(counting_kernel, COUNTING, (28,))


def test_both_axes_of_a_grid_are_gone_through() -> None:
    def numbers(out_ptr, high):  # type: ignore[no-untyped-def]
        row, column = tl.program_id(0), tl.program_id(1)
        tl.store(out_ptr + row * high + column, 10 * row + column)

    out = torch.full((4, 3), -1, dtype=torch.int32)
    assert _compare(numbers, [out], (4, 3), high=3) == 1


def test_uniforms_are_drawn_for_every_program() -> None:
    def uniforms(out_ptr, seed_ptr):  # type: ignore[no-untyped-def]
        row = tl.program_id(0)
        tl.store(out_ptr + row, tl.rand(tl.load(seed_ptr + row), row))

    seeds = torch.randint(-(2**62), 2**62, (9,), generator=torch.Generator().manual_seed(1))
    assert _compare(uniforms, [torch.zeros(9), seeds], (9,)) == 1


def test_memory_outside_of_a_tensor_is_not_touched() -> None:
    def copies(out_ptr, x_ptr):  # type: ignore[no-untyped-def]
        row = tl.program_id(0)
        tl.store(out_ptr + row, tl.load(x_ptr + row, mask=row < 3, other=0.0))

    with (
        pytest.raises(IndexError, match="cells 0 to 4 of a tensor of 4"),
        Device(lockstep=True).running(8) as launches,
    ):
        launches.launch(Kernel(Jitted(copies)), (5,), (torch.zeros(4), torch.zeros(3)), {})
