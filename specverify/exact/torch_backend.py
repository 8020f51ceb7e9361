"""Torch under the tracer: a dispatch mode for operators, patched methods where values leave.

Operators are sorted once: random ones (by torch's own tag, so that none is missed), uninitialised
memory (poisoned, so that any use of it shows), views (ordinary), and the rest, which is run
symbolically only where a tensor has symbolic cells.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from specverify.exact.lifting import request_lift
from specverify.exact.numpy_arrays import SymbolicArray
from specverify.exact.reals import SymbolicReal
from specverify.exact.tape import active_tape, refuse
from specverify.exact.tokens import UnreadToken
from specverify.exact.torch_draws import draw
from specverify.exact.torch_ops import apply_symbolic
from specverify.exact.torch_shadow import (
    any_shadows,
    cells_of,
    contents,
    forget,
    is_symbolic,
    settle,
)

__all__ = ["TorchSession", "torch_interception"]

_RANDOM, _EMPTY, _VIEW, _SCALAR, _PLAIN, _COMPOSITE = range(6)
_EMPTIES = frozenset({"empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided"})
_ALIASES = frozenset({"lift_fresh", "alias", "detach", "_unsafe_view", "_reshape_alias"})
_POISON = -(2**62)


class _Tracer(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Turns random operators to the tape and keeps track of what they produced."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._sorted: dict[Any, tuple[int, str]] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # the guard against compilation costs more than the operators traced here

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        sort, name = self._sorted.get(func) or self._sort(func)
        if sort == _COMPOSITE:
            with self:
                return func.decompose(*args, **kwargs)
        if sort == _PLAIN and not any_shadows():
            return func(*args, **kwargs)
        if sort == _VIEW or active_tape() is None:
            return func(*args, **kwargs)
        if sort == _RANDOM:
            return draw(func, name, args, kwargs)
        if sort == _EMPTY:
            return _poisoned(func(*args, **kwargs))
        if not _touches_symbols(args, kwargs):
            return func(*args, **kwargs)
        if sort == _SCALAR:
            settle(args[0])
            if is_symbolic(args[0]):
                refuse("Tensor.item", "of a random real, inside a compiled operator")
            return func(*args, **kwargs)
        return apply_symbolic(func, name, args, kwargs)

    def _sort(self, func: Any) -> tuple[int, str]:
        name = func.overloadpacket.__name__
        sort = _PLAIN
        if func.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd):
            # In inference mode alone these come here whole: `Tensor.to` would look like a view.
            sort = _COMPOSITE
        elif torch.Tag.nondeterministic_seeded in func.tags:
            sort = _RANDOM
        elif name in _EMPTIES:
            sort = _EMPTY
        elif func.is_view or name in _ALIASES:
            sort = _VIEW
        elif name == "_local_scalar_dense":
            sort = _SCALAR
        self._sorted[func] = sort, name
        return sort, name


def _touches_symbols(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    for arg in (*args, *kwargs.values()) if kwargs else args:
        if isinstance(arg, torch.Tensor):
            if is_symbolic(arg):
                return True
        elif isinstance(arg, list | tuple):
            for item in arg:
                if isinstance(item, torch.Tensor) and is_symbolic(item):
                    return True
    return False


def _poisoned(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dtype.is_floating_point:
        tensor.fill_(float("nan"))
    elif tensor.dtype == torch.int64:
        tensor.fill_(_POISON)
    return tensor


# --- where a value leaves the tensor

_METHODS = ("item", "tolist", "numpy", "__array__", "__float__", "__int__", "__bool__")
_MORE_METHODS = ("__index__", "__format__", "__complex__")
_original: dict[str, Callable[..., Any]] = {
    name: getattr(torch.Tensor, name) for name in (*_METHODS, *_MORE_METHODS)
}


def _only_cell(tensor: torch.Tensor) -> Any:
    """The one cell of a one-element tensor, or None where it is concrete."""
    if not any_shadows() or tensor.numel() != 1:
        return None
    cells = cells_of(tensor)
    cell = None if cells is None else cells.item()
    if type(cell) is UnreadToken:
        settle(tensor)
        return None
    return cell


def _item(self: torch.Tensor) -> Any:
    cell = _only_cell(self)
    return _original["item"](self) if cell is None else cell


def _float(self: torch.Tensor) -> float:
    cell = _only_cell(self)
    if cell is not None:
        request_lift("float")
    return float(_original["__float__"](self))


def _int(self: torch.Tensor) -> int:
    cell = _only_cell(self)
    return int(_original["__int__"](self)) if cell is None else int(cell)


def _bool(self: torch.Tensor) -> bool:
    cell = _only_cell(self)
    return bool(_original["__bool__"](self)) if cell is None else True


def _tolist(self: torch.Tensor) -> Any:
    if any_shadows():
        settle(self) if not self.dtype.is_floating_point else None
        if is_symbolic(self):
            return contents(self).tolist()
    return _original["tolist"](self)


def _array(name: str) -> Callable[..., Any]:
    def method(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if any_shadows():
            settle(self) if not self.dtype.is_floating_point else None
            if is_symbolic(self):
                return contents(self).view(SymbolicArray)
        return _original[name](self, *args, **kwargs)

    return method


def _guarded(name: str) -> Callable[..., Any]:
    def method(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if any_shadows():
            settle(self)
            if is_symbolic(self):
                refuse(f"Tensor.{name}", "of a random real")
        return _original[name](self, *args, **kwargs)

    return method


def _patches() -> dict[str, Callable[..., Any]]:
    patches: dict[str, Callable[..., Any]] = {
        "item": _item,
        "tolist": _tolist,
        "__float__": _float,
        "__int__": _int,
        "__bool__": _bool,
    }
    patches |= {name: _array(name) for name in ("numpy", "__array__")}
    patches |= {name: _guarded(name) for name in _MORE_METHODS}
    return patches


def _constructor(original: Callable[..., Any]) -> Callable[..., Any]:
    """``torch.tensor`` and ``torch.as_tensor`` of data that holds symbolic values."""

    def construct(data: Any, *args: Any, **kwargs: Any) -> Any:
        if active_tape() is not None and _holds_symbols(data):
            from specverify.exact.torch_moves import from_nested

            return from_nested(data, kwargs.get("dtype"), kwargs.get("device"))
        return original(data, *args, **kwargs)

    return construct


def _holds_symbols(data: Any) -> bool:
    if type(data) is list or type(data) is tuple:
        return any(_holds_symbols(item) for item in data)
    return type(data) in (SymbolicReal, UnreadToken, SymbolicArray)


def _refuse_seeding(*args: Any, **kwargs: Any) -> Any:
    if active_tape() is not None:
        refuse("torch.manual_seed", "the code seeds the global generator: its draws are constants")
    return _seed(*args, **kwargs)


_seed = torch.manual_seed


class TorchSession:
    """What the enumeration needs between paths."""

    def forget(self) -> None:
        """Drop the symbolic cells of the path before."""
        forget()

    def default_state(self) -> bytes:
        """State of torch's default generator."""
        with _disable_current_modes():
            return bytes(_original["numpy"](torch.default_generator.get_state()).tobytes())


def _eager() -> AbstractContextManager[Any]:
    """Compiled functions run as they were written; nothing is compiled before dynamo is loaded."""
    if "torch._dynamo" not in sys.modules:
        return nullcontext()
    stance: AbstractContextManager[Any] = torch.compiler.set_stance("force_eager")
    return stance


@contextmanager
def torch_interception() -> Iterator[TorchSession]:
    """Intercept torch until the block ends."""
    functions = {"tensor": torch.tensor, "as_tensor": torch.as_tensor}
    try:
        for name, method in _patches().items():
            setattr(torch.Tensor, name, method)
        for name, function in functions.items():
            setattr(torch, name, _constructor(function))
        torch.manual_seed = _refuse_seeding
        with _eager(), _Tracer():
            yield TorchSession()
    finally:
        forget()
        torch.manual_seed = _seed
        for name, function in functions.items():
            setattr(torch, name, function)
        for name, method in _original.items():
            setattr(torch.Tensor, name, method)
