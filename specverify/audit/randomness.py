"""Generators of either framework, and the global ones, seeded and put back."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from specverify.audit.forms import Framework

__all__ = ["global_generators_kept", "make_generator", "seed_global_generators"]


def make_generator(framework: Framework, seed: int) -> Any:
    """A ``torch.Generator`` on the CPU, or a ``numpy.random.Generator``.

    Args:
        framework: Which of the two.
        seed: Seed below ``2**63``.
    """
    if framework is Framework.NUMPY:
        return np.random.default_rng(seed)
    import torch

    return torch.Generator().manual_seed(seed)


def seed_global_generators(seed: int) -> None:
    """Seed python's, numpy's and (if loaded) torch's global generators."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 - the audited code may draw from this very one
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(seed)


@contextmanager
def global_generators_kept() -> Iterator[None]:
    """Put the global generators back as they were."""
    python_state, numpy_state = random.getstate(), np.random.get_state()  # noqa: NPY002
    torch = sys.modules.get("torch")
    torch_state = torch.get_rng_state() if torch is not None else None
    try:
        yield
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)  # noqa: NPY002
        if torch is not None and torch_state is not None:
            torch.set_rng_state(torch_state)
