"""What a function's signature and code tell: its form, its framework, where a generator goes."""

from __future__ import annotations

import dis
import functools
import importlib.util
import inspect
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

from specverify.audit.forms import Form, Framework
from specverify.errors import InvalidInputError

__all__ = [
    "find_form",
    "find_framework",
    "find_generator",
    "parameters_of",
    "refuse_other_order",
    "takes",
    "unwrapped",
]

_GENERATOR_NAMES = ("generator", "rng", "gen", "random_state")
_BLOCK = ("target_probs", "draft_probs", "draft_tokens")
_LOOP = ("prompt", "target_step", "draft_step", "gamma", "max_new_tokens")
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_FRAMEWORKS = ("torch", "numpy")
# A helper's helper's helper may be what calls numpy; a whole library is not read for it.
_DEPTH = 4


def parameters_of(function: Any) -> dict[str, inspect.Parameter]:
    """A callable's parameters by name, of a torch module its ``forward``'s; none if untold."""
    try:
        shown = function if inspect.isclass(function) else getattr(function, "forward", function)
        return dict(inspect.signature(shown).parameters)
    except (TypeError, ValueError):
        return {}


def takes(function: Any, parameter: str) -> bool:
    """Whether a function has a parameter of this name."""
    return parameter in parameters_of(function)


def unwrapped(implementation: Any) -> Any:
    """What is behind decorators and ``functools.partial``, as far as they tell."""
    found = implementation
    while isinstance(found := inspect.unwrap(found), functools.partial):
        found = found.func
    return found


def find_form(implementation: Any, name: str) -> Form:
    """How an implementation is called, from its signature.

    Args:
        implementation: A callable or an engine.
        name: What the user calls it.

    Raises:
        InvalidInputError: If it cannot be told.
    """
    if hasattr(implementation, "sample") and hasattr(implementation, "describe"):
        return Form.GENERATE
    parameters = parameters_of(implementation)
    if {"target_step", "draft_step"} & set(parameters):
        return Form.DECODE
    if "draft_lengths" in parameters:
        return Form.BATCHED
    if "draft_tokens" in parameters:
        return Form.VERIFY
    options = [
        p for p in parameters.values() if p.kind is p.KEYWORD_ONLY and p.default is not p.empty
    ]
    taken = len(parameters) - len(options)
    if taken >= 6:
        return Form.DECODE
    if taken in (3, 4):
        return Form.VERIFY
    raise InvalidInputError(
        "form",
        f"cannot be told from the signature of {name} ({', '.join(parameters) or 'unknown'}); "
        "say verify, batched, decode or generate",
    )


def refuse_other_order(implementation: Any, form: Form) -> None:
    """Refuse a function with our parameters in an order in which it is not called.

    Raises:
        InvalidInputError: If the names of the form's arguments are all there, but elsewhere.
    """
    names = _LOOP if form is Form.DECODE else _BLOCK
    parameters = parameters_of(implementation)
    first = [name for name, p in parameters.items() if p.kind in _POSITIONAL][: len(names)]
    if set(names) <= set(parameters) and tuple(first) != names:
        raise InvalidInputError(
            "target",
            f"takes ({', '.join(parameters)}); the form {form} is called by position with "
            f"({', '.join(names)}, generator)",
        )


def find_framework(function: Callable[..., Any]) -> Framework:
    """Which arrays a function takes: from annotations, else from what its code and file use."""
    hints = " ".join(str(p.annotation) for p in parameters_of(function).values())
    if "torch" in hints or "Tensor" in hints:
        return Framework.TORCH
    if any(word in hints for word in ("numpy", "np.", "NDArray", "ndarray")):
        return Framework.NUMPY
    code = unwrapped(function)
    if not hasattr(code, "__globals__"):  # an object that can be called
        code = inspect.unwrap(type(code).__call__)
    code = getattr(code, "__func__", code)  # of a method
    namespace = getattr(code, "__globals__", {})
    used = set(_used(code, set(), _DEPTH))
    if len(used) != 1:
        used = {getattr(value, "__name__", "") for value in namespace.values()}
    if "torch" not in used and "numpy" in used:
        return Framework.NUMPY
    return Framework.TORCH if importlib.util.find_spec("torch") else Framework.NUMPY


def find_generator(function: Callable[..., Any], positional: int) -> str | None:
    """Name of a function's generator parameter.

    Args:
        function: What is called.
        positional: Arguments that come before it.

    Returns:
        The name; ``"*"`` for the last positional one, None where there is none.
    """
    parameters = parameters_of(function)
    for name in _GENERATOR_NAMES:
        if name in parameters:
            return name
    ordered = [p for p in parameters.values() if p.kind in _POSITIONAL]
    if len(ordered) <= positional:
        return None
    default = ordered[positional].default
    return "*" if default is None or default is inspect.Parameter.empty else None


def _used(function: Any, seen: set[Any], depth: int) -> Iterator[str]:
    """Which of the frameworks the code of a function and of its helpers refers to."""
    if not isinstance(function, FunctionType) or function in seen:
        return
    seen.add(function)
    for operation, name in _references(function.__code__):
        if operation == "IMPORT_NAME":
            yield from _root(name)
            continue
        value = function.__globals__.get(name)
        root = value.__name__ if isinstance(value, ModuleType) else _home(value)
        yield from _root(root)
        if depth and not list(_root(root)):
            yield from _used(value, seen, depth - 1)


def _references(code: CodeType) -> Iterator[tuple[str, str]]:
    for step in dis.get_instructions(code):
        if step.opname in ("IMPORT_NAME", "LOAD_GLOBAL"):
            yield step.opname, str(step.argval)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _references(inner)


def _home(value: Any) -> str:
    return str(getattr(value, "__module__", None) or type(value).__module__)


def _root(name: str) -> Iterator[str]:
    root = name.partition(".")[0]
    if root in _FRAMEWORKS:
        yield root
