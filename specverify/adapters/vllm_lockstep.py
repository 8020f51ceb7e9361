"""Programs of a Triton kernel in lockstep: its text runs once for many of them.

A scalar of the kernel is an array of shape ``(programs, 1)``, a block one of ``(programs, lanes)``,
and what all programs have in common may be left to broadcasting. Where programs part, because they
decide on an ``if`` or a loop's length in different ways, what they wrote is taken back, and each
party begins again alone. Only for memory without random values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from specverify.adapters.vllm_language import LANGUAGE, Cells, PartedError, Value, program, raw
from specverify.adapters.vllm_memory import Memory, Pointer

__all__ = ["LOCKSTEP", "run_in_lockstep"]

_written: list[tuple[Memory, Cells, Cells]] = []
"""What the programs that run have overwritten: places and what they held, first to last."""


def run_in_lockstep(
    function: Callable[..., None], grid: tuple[int, int], ready: Mapping[str, Any], *, most: int
) -> None:
    """Run all programs of a grid, of which none may read what another one writes.

    Args:
        function: A kernel's text over :data:`LOCKSTEP`.
        grid: Number of programs along both axes.
        ready: Arguments, tensors as pointers.
        most: Programs that run together, at least 1.
    """
    numbers = np.indices(grid, dtype=np.int32).reshape(2, -1, 1)
    waiting = [numbers[:, first : first + most] for first in range(0, numbers.shape[1], most)]
    while waiting:
        group = waiting.pop()
        program[:2] = group
        _written.clear()
        try:
            with np.errstate(all="ignore"):
                function(**ready)
        except PartedError as parted:
            for memory, places, held in reversed(_written):
                memory.cells[places] = held
            parties = (parted.wanted == wanted for wanted in np.unique(parted.wanted))
            waiting += [group[:, party] for party in parties]


def _load(pointer: Pointer, mask: Any = None, other: Any = None) -> Value:
    places = np.asarray(pointer.places)
    return Value(pointer.memory.gather(places, raw(mask), raw(other)))


def _store(pointer: Pointer, value: Any, mask: Any = None) -> None:
    allowed = True if mask is None else raw(mask)
    places, values, chosen = np.broadcast_arrays(pointer.places, raw(value), allowed)
    memory, wanted = pointer.memory, places[chosen]
    if wanted.size:
        memory.check(int(wanted.min()), int(wanted.max()))
        _written.append((memory, wanted, memory.cells[wanted]))
        memory.cells[wanted] = values[chosen]


def _max(value: Value, axis: int = 0, *, return_indices: bool = False) -> Any:
    largest = Value(value.data.max(axis=-1, keepdims=True))
    return (largest, _argmax(value)) if return_indices else largest


def _argmax(value: Value, axis: int = 0) -> Value:
    return Value(value.data.argmax(axis=-1, keepdims=True).astype(np.int32))


LOCKSTEP = SimpleNamespace(
    **vars(LANGUAGE)
    | {
        "program_id": lambda axis: Value(program[axis]),
        "load": _load,
        "store": _store,
        "where": lambda chosen, left, right: Value(np.where(raw(chosen), raw(left), raw(right))),
        "max": _max,
        "argmax": _argmax,
        "sum": lambda value, axis=0: Value(value.data.sum(axis=-1, keepdims=True)),
    }
)
"""Stands for ``tl`` and for the library of device functions."""
