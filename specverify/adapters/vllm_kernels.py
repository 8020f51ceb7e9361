"""Triton kernels run by this package: their own Python text, over a stand-in of the language.

A :class:`Kernel` is put in the place of a kernel of a loaded module. On a :class:`Device` it runs
program by program over :mod:`specverify.adapters.vllm_language`, or many programs in lockstep
(:mod:`specverify.adapters.vllm_lockstep`), else in Triton's interpreter.
Under the exact tracer the programs of a request wait until somebody looks at its row: what a
stranger in the batch draws then multiplies no paths.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from specverify.adapters.vllm_language import LANGUAGE, Pick, program
from specverify.adapters.vllm_lockstep import LOCKSTEP, run_in_lockstep
from specverify.adapters.vllm_memory import Memory, Pointer
from specverify.exact.tokens import UnreadToken
from specverify.exact.torch_shadow import cells_of, contents, memory, new_tensor

__all__ = ["Device", "Kernel", "Launches", "own_kernels", "plain_rows"]

_TILE = "BLOCK_SIZE"

_LANES, _FEWEST = 65536, 4
"""Most elements of the tiles of programs in lockstep, and the fewest programs that it pays for."""


class Kernel:
    """A kernel, or a function that kernels call.

    Args:
        original: What ``triton.jit`` made of it.
    """

    launches: Launches | None = None
    """Where kernels are launched at present; None for Triton's interpreter."""

    def __init__(self, original: Any) -> None:
        self.original, self.fn = original, original.fn
        self.arg_names: list[str] = list(original.arg_names)

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        launches = Kernel.launches
        if launches is None:
            launch: Callable[..., None] = self.original[grid]
            return launch
        return lambda *args, **more: launches.launch(self, grid, args, more)

    def __call__(self, *args: Any, **more: Any) -> Any:
        """Called by another kernel in Triton's interpreter."""
        return self.original(*args, **more)


def own_kernels(module: ModuleType) -> None:
    """Put a :class:`Kernel` in the place of every kernel of a loaded module."""
    for name, value in list(vars(module).items()):
        if _is_kernel(value):
            setattr(module, name, Kernel(value))


def _is_kernel(value: Any) -> bool:
    jitted = hasattr(value, "fn") and hasattr(value, "arg_names")
    return jitted and not isinstance(value, Kernel | type)


class Device:
    """Runs kernels; their translated text is kept from call to call.

    Args:
        replaced: Functions that kernels call, by name, and what stands for them: under the tracer
            the random number generators, whose numbers become random values.
        lockstep: Whether programs may run in lockstep: not where memory holds random values.
    """

    def __init__(
        self, replaced: Mapping[str, Callable[..., Any]] | None = None, *, lockstep: bool = False
    ) -> None:
        self._replaced, self.lockstep = replaced or {}, lockstep
        self._functions: dict[tuple[Any, int], FunctionType] = {}

    @contextmanager
    def running(self, tile: int, requests: int | None = None) -> Iterator[Launches]:
        """Kernels are launched here until the block ends.

        Args:
            tile: Most elements of a tile: a wider one would hold nothing but padding.
            requests: Where given, the programs of a request wait until its row is looked at.
        """
        Kernel.launches = launches = Launches(self, tile, requests)
        try:
            yield launches
        finally:
            Kernel.launches = None

    def function(self, fn: Any, language: SimpleNamespace = LANGUAGE) -> FunctionType:
        """A kernel's text with a language of this package in the place of Triton's."""
        key = fn, id(language)
        if key not in self._functions:
            names = {n: fn.__globals__[n] for n in fn.__code__.co_names if n in fn.__globals__}
            scope = {name: self._translated(name, value, language) for name, value in names.items()}
            scope["__builtins__"] = builtins
            made = FunctionType(fn.__code__, scope, fn.__name__, fn.__defaults__)
            made.__kwdefaults__ = fn.__kwdefaults__
            self._functions[key] = made
        return self._functions[key]

    def _translated(self, name: str, value: Any, language: SimpleNamespace) -> Any:
        if name in self._replaced:
            return self._replaced[name]
        if isinstance(value, Kernel) or _is_kernel(value):
            return self.function(value.fn, language)
        if isinstance(value, ModuleType):
            return language
        return value.value if type(value).__name__ == "constexpr" else value


class Launches:
    """The launches of one call and the memory that they share.

    Args:
        device: Translates the kernels.
        tile: Most elements of a tile.
        requests: Number of requests, among whom the programs of every grid are shared out along its
            first axis, each the writer of its own cells; or None to run every launch at once.
    """

    def __init__(self, device: Device, tile: int, requests: int | None) -> None:
        self._device, self._tile, self._requests = device, tile, requests
        self._memories: dict[tuple[int, int], tuple[Tensor, Memory]] = {}
        self._waiting: list[tuple[Callable[..., None], int, int, dict[str, Any]]] = []
        self._ran: set[int] = set()

    def launch(
        self, kernel: Kernel, grid: Sequence[int], args: Sequence[Any], more: Mapping[str, Any]
    ) -> None:
        """Run every program of a grid, or put them off."""
        given = dict(zip(kernel.arg_names, args, strict=False))
        given |= {name: value for name, value in more.items() if name in kernel.arg_names}
        if _TILE in given:
            given[_TILE] = min(given[_TILE], self._tile)
        ready = {name: self._argument(value) for name, value in given.items()}
        wide, high = (*grid, 1)[:2]
        together = _LANES // given.get(_TILE, 1)
        if self._requests is not None:
            function = self._device.function(kernel.fn)
            self._waiting.append((function, wide // self._requests, high, ready))
        elif self._device.lockstep and min(together, wide * high) >= _FEWEST:
            function = self._device.function(kernel.fn, LOCKSTEP)
            run_in_lockstep(function, (wide, high), ready, most=together)
        else:
            _run(self._device.function(kernel.fn), range(wide), high, ready)

    def rows(self, emitted: Tensor, counts: Tensor | None = None) -> Tensor:
        """Ids that kernels wrote, a row a request, int64, shape ``(requests, width)``.

        Args:
            emitted: Where they wrote them.
            counts: Where they wrote how many of a row count; -1 stands in the place of the others.
        """
        if self._requests is None and self._held(emitted).dtype != object:
            return plain_rows(emitted, counts)
        cells = np.empty(tuple(emitted.shape), dtype=object)
        for row, place in np.ndindex(cells.shape):
            find = partial(self._cell, emitted, counts, (row, place))
            cells[row, place] = UnreadToken.deferred(find, "a kernel's token")
        return new_tensor(cells, torch.int64)

    def _cell(
        self, emitted: Tensor, counts: Tensor | None, where: tuple[int, int]
    ) -> UnreadToken | int:
        row, place = where
        if self._requests is not None and row not in self._ran:
            self._ran.add(row)
            for function, share, high, ready in self._waiting:
                _run(function, range(row * share, (row + 1) * share), high, ready)
        if counts is not None and place >= self._held(counts)[row]:
            return -1
        cell = self._held(emitted)[row * emitted.shape[1] + place]
        if isinstance(cell, Pick):
            return cell.token()
        return cell if type(cell) is UnreadToken else int(cell)

    def _held(self, tensor: Tensor) -> Any:
        return self._memories[tensor.data_ptr(), tensor.numel()][1].cells

    def _argument(self, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        key = value.data_ptr(), value.numel()
        if key not in self._memories:
            # The tensor is kept, so that its address is not given to another one.
            self._memories[key] = value, _memory(value)
        return Pointer(self._memories[key][1])


def plain_rows(emitted: Tensor, counts: Tensor | None = None) -> Tensor:
    """What :meth:`Launches.rows` gives, of tensors without random values."""
    if counts is not None:
        emitted = torch.where(torch.arange(emitted.shape[1]) < counts[:, None], emitted, -1)
    return emitted.to(torch.int64)


def _run(function: Callable[..., None], wide: range, high: int, ready: dict[str, Any]) -> None:
    with np.errstate(all="ignore"):
        for program[0] in wide:
            for program[1] in range(high):
                function(**ready)


def _memory(tensor: Tensor) -> Memory:
    flat = tensor.view(-1) if tensor.is_contiguous() else _stretch(tensor)
    real = memory(flat)
    return Memory(real if cells_of(flat) is None else contents(flat), real.dtype)


def _stretch(tensor: Tensor) -> Tensor:
    """Memory from a tensor's first element to its last, gaps included."""
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    size = 1 + sum((length - 1) * stride for length, stride in pairs)
    return torch.as_strided(tensor, (size,), (1,), tensor.storage_offset())
