"""Torch's number of threads for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import torch

__all__ = ["one_thread", "torch_threads"]


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Run torch's operators on so many threads, and restore the caller's number after.

    Args:
        count: Threads, at least one.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def one_thread() -> AbstractContextManager[None]:
    """One thread: small models gain nothing from more, and sums in one order can be repeated."""
    return torch_threads(1)
