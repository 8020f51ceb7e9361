"""How implementations are called under the tracer: fresh arrays, a traced generator."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from specverify.errors import InvalidInputError
from specverify.exact.numpy_draws import TracedGenerator

__all__ = ["Framework", "VerifyForm", "block_call", "fresh", "takes_generator", "traced_generator"]

Framework: TypeAlias = Literal["torch", "numpy"]
VerifyForm: TypeAlias = Literal["verify", "batched"]


def traced_generator(framework: Framework) -> Any:
    """A generator to hand to code of that framework inside an enumeration.

    Raises:
        InvalidInputError: If the framework is neither.
    """
    if framework == "numpy":
        return TracedGenerator()
    if framework != "torch":
        raise InvalidInputError("framework", f"must be 'torch' or 'numpy', got {framework!r}")
    import torch

    return torch.Generator()


def fresh(array: NDArray[Any], framework: Framework) -> Any:
    """A copy that the callee may write into, as numpy or torch."""
    copy = array.copy()
    if framework == "numpy":
        return copy
    import torch

    return torch.from_numpy(copy)


def takes_generator(function: Callable[..., Any], before: int) -> bool:
    """Whether ``function`` takes one more positional argument after ``before``."""
    try:
        inspect.signature(function).bind(*(None,) * (before + 1))
    except (TypeError, ValueError):
        return False
    return True


def block_call(
    verify: Callable[..., Any], *, form: VerifyForm, framework: Framework, dtype: str
) -> Callable[[NDArray[Any], NDArray[Any], tuple[int, ...]], Any]:
    """``call(target_rows, draft_rows, drafts) -> (emitted, n_accepted or None)`` for one block.

    Args:
        verify: The implementation.
        form: ``"verify"`` for one block, ``"batched"`` for a batch (of one block here).
        framework: Arrays and generator to hand over.
        dtype: Floating dtype of the rows.

    Raises:
        InvalidInputError: If ``form`` is unknown.
    """
    if form not in ("verify", "batched"):
        raise InvalidInputError("form", f"must be 'verify' or 'batched', got {form!r}")
    generator = (traced_generator(framework),) if takes_generator(verify, 3) else ()
    batched = form == "batched"

    def call(target: NDArray[Any], draft: NDArray[Any], drafts: tuple[int, ...]) -> Any:
        tokens = np.asarray(drafts, dtype=np.int64)
        arrays = (target.astype(dtype, copy=False), draft.astype(dtype, copy=False), tokens)
        given = [fresh(array[None] if batched else array, framework) for array in arrays]
        returned = verify(*given, *generator)
        return _first_row(returned) if batched else _pair(returned)

    return call


def _pair(returned: Any) -> Any:
    if isinstance(returned, tuple) and len(returned) == 2:
        return returned
    return returned, None


def _first_row(returned: Any) -> Any:
    emitted, accepted = _pair(returned)
    return emitted[0], None if accepted is None else accepted[0]
