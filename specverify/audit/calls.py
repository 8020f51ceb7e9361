"""Calling an implementation on copies, and reading what comes back without trusting it."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from specverify._arrays import is_torch
from specverify.audit.forms import Framework
from specverify.audit.targets import Target
from specverify.errors import (
    ImplementationError,
    ImplementationRaisedError,
    InvalidEmissionError,
    UnsupportedRandomness,
)

__all__ = [
    "RowSource",
    "guarded",
    "ids_to_framework",
    "invoke",
    "read_count",
    "read_tokens",
    "split_result",
    "to_framework",
]

Guard = Callable[[], AbstractContextManager[None]]

_OF_WRONG_ARGUMENTS = (AttributeError, TypeError, ValueError, IndexError)


def to_framework(values: Any, framework: Framework) -> Any:
    """A fresh array of the framework's kind.

    Probabilities become float64 numpy or float32 torch: torch code is written for float32 rows.
    """
    array = np.array(values)
    if framework is Framework.NUMPY:
        return array
    import torch

    return torch.tensor(array, dtype=torch.float32 if array.dtype.kind == "f" else torch.int64)


def ids_to_framework(ids: Sequence[int], framework: Framework) -> Any:
    """A fresh array of whole numbers; quicker than :func:`to_framework`, once for every call."""
    if framework is Framework.NUMPY:
        return np.array(ids, dtype=np.int64)
    import torch

    return torch.tensor(ids, dtype=torch.int64)


class RowSource:
    """Rows to hand over, always as copies: an implementation never sees the originals.

    Args:
        rows: Probabilities, shape ``(positions, contexts, vocab)``.
        framework: Which arrays to hand over.

    Attributes:
        handed: All rows as they are handed over, rounded to the framework's dtype.
    """

    def __init__(self, rows: Any, framework: Framework) -> None:
        self._framework = framework
        self.handed = to_framework(rows, framework)
        _, self._contexts, vocab_size = rows.shape
        self._flat = self.handed.reshape(-1, vocab_size)

    def pick(self, start: int, contexts: Sequence[int]) -> Any:
        """Rows from the position ``start`` on, shape ``(len(contexts), vocab)``.

        Args:
            start: Position of the first row.
            contexts: Context of each; no matter where there is only one.
        """
        if self._contexts == 1:
            rows = self._flat[start : start + len(contexts)]
            return rows.copy() if self._framework is Framework.NUMPY else rows.clone()
        places = [(start + i) * self._contexts + context for i, context in enumerate(contexts)]
        return self._flat[ids_to_framework(places, self._framework)]


def invoke(target: Target, arguments: tuple[Any, ...], generator: Any, **more: Any) -> Any:
    """Call the implementation, handing the generator over in the way that it takes one."""
    if target.generator is None:
        return target.implementation(*arguments, **more)
    if target.generator == "*":
        return target.implementation(*arguments, generator, **more)
    return target.implementation(*arguments, **{target.generator: generator}, **more)


def guarded(call: Callable[[], Any], target: Target | None = None) -> Any:
    """Run ``call``; whatever the audited code raises becomes an ``ImplementationRaisedError``.

    What the tracer left behind in the code's state, and ordinary calls meet, is no fault of it:
    ``UnsupportedRandomness`` is passed on.

    Args:
        call: Calls the audited code.
        target: What is called; where arguments may have been of a wrong kind, the error says which
            they were.
    """
    try:
        return call()
    except (ImplementationError, UnsupportedRandomness, KeyboardInterrupt):
        raise
    except BaseException as error:  # SystemExit too: the audited code must not end the audit
        frames = traceback.extract_tb(error.__traceback__)
        where = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
        text = f"{type(error).__name__}: {error}".rstrip(": ")
        how = _called(target) if target and isinstance(error, _OF_WRONG_ARGUMENTS) else ""
        raise ImplementationRaisedError(f"raised {text}{where}{how}") from error


def _called(target: Target) -> str:
    form = getattr(target.implementation, "form", target.form)  # of a batch behind one block
    return f" (called in the form {form}, with {target.framework} arrays)"


def split_result(result: Any) -> tuple[Any, Any]:
    """``(emitted, extra)`` from what was returned: a pair, or the emitted tokens alone."""
    if isinstance(result, tuple) and len(result) == 2:
        return result[0], result[1]
    if hasattr(result, "emitted"):
        return result.emitted, getattr(result, "n_accepted", None)
    return result, None


def read_tokens(emitted: Any, most: int, vocab_size: int) -> list[int]:
    """Emitted ids as a list of ints.

    Args:
        emitted: What the implementation returned: array, tensor or sequence, one axis.
        most: Largest allowed number; the smallest is 1.
        vocab_size: Ids lie below it.

    Raises:
        InvalidEmissionError: If number, type or range are wrong.
    """
    tokens = _as_list(emitted)
    if not 1 <= len(tokens) <= most:
        raise InvalidEmissionError(
            f"emitted {len(tokens)} tokens {_short(tokens)}, allowed are 1 to {most}: accepted "
            "drafts, and a correction or bonus token"
        )
    for token in tokens:
        if type(token) is not int:
            raise InvalidEmissionError(f"emitted {token!r}, which is not an integer id")
        if not 0 <= token < vocab_size:
            padding = len(tokens) > 1 and token == tokens[-1] == -1
            more = f" in {_short(tokens)}: a single block is not padded" if padding else ""
            raise InvalidEmissionError(f"emitted id {token} outside [0, {vocab_size}){more}")
    return tokens


def read_count(n_accepted: Any, gamma: int) -> int | None:
    """The reported number of accepted drafts, if one is reported.

    Raises:
        InvalidEmissionError: If it is not an integer, or negative, or above ``gamma + 1``.
    """
    if n_accepted is None:
        return None
    value = n_accepted.item() if hasattr(n_accepted, "item") else n_accepted
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidEmissionError(f"n_accepted is {n_accepted!r}, not an integer")
    if not 0 <= value <= gamma + 1:
        raise InvalidEmissionError(f"n_accepted is {value} for {gamma} drafts")
    return value


def _as_list(emitted: Any) -> list[Any]:
    if hasattr(emitted, "tolist"):
        if getattr(emitted, "ndim", 1) != 1:
            shape = tuple(emitted.shape)
            raise InvalidEmissionError(f"emitted has shape {shape}, one axis is expected")
        return list(emitted.tolist())
    if isinstance(emitted, list | tuple):
        axes = [getattr(entry, "ndim", 0) for entry in emitted]
        if isinstance(emitted, tuple) and 0 < sum(map(bool, axes)) < len(axes):
            raise InvalidEmissionError(
                f"returned {len(axes)} values: the tokens alone are expected, or a pair, with "
                "n_accepted or a trace"
            )
        return [_as_id(entry) for entry in emitted]
    raise InvalidEmissionError(
        f"returned {type(emitted).__name__} where emitted tokens are expected"
    )


def _as_id(entry: Any) -> Any:
    if not is_torch(entry) and not isinstance(entry, np.generic):
        return entry
    if (size := int(np.prod(entry.shape))) != 1:
        raise InvalidEmissionError(f"emitted a list in which one entry holds {size} values")
    return entry.item()


def _short(tokens: list[Any]) -> str:
    text = str(tokens[:12])
    return text if len(tokens) <= 12 else f"{text[:-1]}, ...]"
