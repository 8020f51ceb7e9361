"""Where the draws of numpy, python and torch are turned to the tape, and turned back."""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from specverify.exact import lifting
from specverify.exact.numpy_draws import LEGACY, TracedGenerator
from specverify.exact.python_draws import LIFTED_MATH, PYTHON_RANDOM
from specverify.exact.tape import refuse

__all__ = ["Session", "interception"]

_PATCHED: tuple[tuple[ModuleType, dict[str, Any]], ...] = (
    (np.random, LEGACY),
    (random, PYTHON_RANDOM),
    (math, LIFTED_MATH),
)


class Session:
    """One enumeration's interception.

    Attributes:
        lifts: Modules in which ``float`` was replaced.
    """

    def __init__(self) -> None:
        self.lifts = lifting.Lifts()
        self._torch: Any = None
        self._watched: list[tuple[str, Callable[[], Any], Any]] = []

    def begin_path(self) -> None:
        """Forget the random tensors of the path before."""
        if self._torch is not None:
            self._torch.forget()

    def watch(self, name: str, state: Callable[[], Any]) -> None:
        """Notice when a generator that is not traced advances."""
        self._watched.append((name, state, state()))

    def check_untouched(self) -> None:
        """Refuse if a real generator has advanced: some draw was not intercepted."""
        for name, state, before in self._watched:
            if state() != before:
                refuse(name, "advanced: a draw was not intercepted")

    def use_torch(self, stack: ExitStack) -> None:
        """Intercept torch where it is loaded."""
        if "torch" not in sys.modules:
            return
        from specverify.exact.torch_backend import torch_interception

        self._torch = stack.enter_context(torch_interception())
        self.watch("torch's default generator", self._torch.default_state)


_open: Session | None = None


@contextmanager
def interception(fn: Callable[..., Any]) -> Iterator[Session]:
    """Intercept every source of randomness that ``fn`` may use; nested uses share one interception.

    Args:
        fn: The callable that will run; generators that its closures hold are watched.
    """
    global _open
    if _open is not None:
        yield _open
        return
    session = Session()
    with ExitStack() as stack:
        _watch_globals(session)
        for name, generator in _held_generators(fn):
            session.watch(name, generator)
        stack.enter_context(_replaced(fn))
        session.use_torch(stack)
        stack.callback(session.lifts.undo)
        lifting.current_lifts = session.lifts
        _open = session
        try:
            yield session
            session.check_untouched()
        finally:
            _open = None
            lifting.current_lifts = None


def _watch_globals(session: Session) -> None:
    get_state = np.random.get_state
    session.watch("numpy.random's global generator", lambda: _digest(get_state(legacy=False)))
    session.watch("random's global generator", random.getstate)


def _digest(state: Any) -> tuple[bytes, int]:
    inner = state["state"]
    return inner["key"].tobytes(), inner["pos"]


@contextmanager
def _replaced(fn: Any) -> Iterator[None]:
    undo: list[tuple[dict[str, Any], str, Any]] = []
    new = {
        id(getattr(module, name)): function
        for module, names in _PATCHED
        for name, function in names.items()
    }
    for namespace, name in _bound_elsewhere(new, str(getattr(fn, "__module__", ""))):
        undo.append((namespace, name, namespace[name]))
        namespace[name] = new[id(namespace[name])]
    for module, names in _PATCHED:
        for name, function in names.items():
            undo.append((vars(module), name, getattr(module, name)))
            setattr(module, name, function)
    try:
        yield
    finally:
        for namespace, name, value in reversed(undo):
            namespace[name] = value


_LIBRARIES = ("numpy", "scipy", "torch", "sympy", "specverify.exact", "random", "math")
_scanned: set[str] = set()
_bound: list[tuple[dict[str, Any], str]] = []


def _bound_elsewhere(new: dict[int, Any], own: str) -> list[tuple[dict[str, Any], str]]:
    """Names that an earlier import bound to replaced functions.

    A module is searched once, when it is first seen; the caller's own each time, since it may still
    grow.
    """
    for module_name in sys.modules.keys() - _scanned | {own, "__main__"}:
        module = sys.modules.get(module_name)
        first = module_name not in _scanned
        _scanned.add(module_name)
        if not isinstance(module, ModuleType) or module_name.startswith(_LIBRARIES):
            continue
        hits = [(vars(module), n) for n, value in list(vars(module).items()) if id(value) in new]
        _bound.extend(hit for hit in hits if first or hit not in _bound)
    return [(names, name) for names, name in _bound if id(names.get(name)) in new]


def _held_generators(fn: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Real generators that a callable reaches by its closures, defaults, module or attributes."""
    seen: set[int] = set()
    level: list[tuple[str, Any]] = [("the function", fn)]
    for _ in range(_DEPTH):
        deeper: list[tuple[str, Any]] = []
        for name, value in level:
            if id(value) in seen or isinstance(value, TracedGenerator):
                continue
            seen.add(id(value))
            reader = _state_reader(value)
            if reader is None:
                deeper.extend(_held_values(value))
            else:
                yield f"the generator {name!r}", reader
        level = deeper


_DEPTH = 6


def _state_reader(value: Any) -> Callable[[], Any] | None:
    if isinstance(value, np.random.Generator):
        return lambda: repr(value.bit_generator.state)
    if isinstance(value, np.random.RandomState):
        return lambda: repr(value.get_state())
    if isinstance(value, random.Random):
        return value.getstate
    return None


def _held_values(value: Any) -> Iterator[tuple[str, Any]]:
    """What a function, method or object holds."""
    if isinstance(value, MethodType):
        yield from (("self", value.__self__), ("the function", value.__func__))
    elif isinstance(value, partial):
        yield from (("the function", value.func), *(("an argument", a) for a in value.args))
        yield from value.keywords.items()
    elif isinstance(value, FunctionType):
        yield from _held_by_function(value)
    elif not isinstance(value, type | ModuleType) and hasattr(value, "__dict__"):
        yield from list(vars(value).items())
        yield from _methods(type(value))


def _methods(kind: type) -> Iterator[tuple[str, Any]]:
    """Functions of a class of the audited code: they may draw from a global of their module."""
    for base in kind.__mro__:
        if not base.__module__.startswith((*_LIBRARIES, "builtins")):
            yield from ((n, v) for n, v in vars(base).items() if isinstance(v, FunctionType))


def _held_by_function(function: FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # an empty cell: a name not assigned yet
            continue
    yield from (function.__kwdefaults__ or {}).items()
    yield from (("a default", value) for value in function.__defaults__ or ())
    for name in function.__code__.co_names:
        if name in function.__globals__:
            yield name, function.__globals__[name]
