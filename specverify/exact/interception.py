"""Where the draws of numpy, python and torch are turned to the tape, and turned back."""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FunctionType, ModuleType
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


def _held_generators(fn: Any, depth: int = 4) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Real generators that a function's closures, defaults or module hold, as state readers."""
    for name, value in _held_values(fn):
        if isinstance(value, TracedGenerator):
            continue
        if isinstance(value, np.random.Generator):
            yield f"the numpy generator {name!r}", _reader(value.bit_generator, "state")
        elif isinstance(value, np.random.RandomState):
            yield f"the numpy generator {name!r}", _reader(value, "get_state")
        elif isinstance(value, random.Random):
            yield f"the generator {name!r}", _reader(value, "getstate")
        elif isinstance(value, FunctionType) and depth and value is not fn:
            yield from _held_generators(value, depth - 1)


def _reader(generator: Any, name: str) -> Callable[[], Any]:
    def read() -> Any:
        state = getattr(generator, name)
        return repr(state() if callable(state) else state)

    return read


def _held_values(fn: Any) -> Iterator[tuple[str, Any]]:
    function = getattr(fn, "__func__", fn)
    if not isinstance(function, FunctionType):
        return
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # an empty cell: a name not assigned yet
            continue
    yield from ((name, value) for name, value in (function.__kwdefaults__ or {}).items())
    yield from (("a default", value) for value in function.__defaults__ or ())
    for name in function.__code__.co_names:
        if name in function.__globals__:
            yield name, function.__globals__[name]
