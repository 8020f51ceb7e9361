"""``float(u)`` and names bound before the tracer came: replaced where the audited code uses them.

``float`` must return a float, so a symbolic real cannot pass through it. The first time that
audited code calls it on one, the name is replaced in that code's module for the rest of the
enumeration, and the path is run again.
"""

from __future__ import annotations

import builtins
import sys
from typing import Any, NoReturn

import numpy as np

from specverify.exact.reals import SymbolicReal
from specverify.exact.tape import audited_location, refuse

__all__ = ["LiftRequest", "Lifts", "request_lift"]


class LiftRequest(BaseException):
    """Run this path again with ``float`` replaced; no ``except Exception`` catches it."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        super().__init__("float() of a symbolic real")
        self.namespace = namespace


class _LiftedMeta(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, builtins.float)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, builtins.float)


class _LiftedFloat(builtins.float, metaclass=_LiftedMeta):
    """Stands in for ``float``: keeps symbolic reals, converts everything else."""

    dtype = np.dtype(np.float64)

    def __new__(cls, value: Any = 0.0) -> Any:
        if type(value) is not SymbolicReal and hasattr(value, "item") and hasattr(value, "shape"):
            value = value.item() if value.shape in ((), (1,)) else value
        return value if type(value) is SymbolicReal else builtins.float(value)


class Lifts:
    """Namespaces in which ``float`` is replaced, and how to put it back."""

    def __init__(self) -> None:
        self._namespaces: dict[int, dict[str, Any]] = {}
        self.pending: LiftRequest | None = None

    def __contains__(self, namespace: dict[str, Any]) -> bool:
        return id(namespace) in self._namespaces

    def __bool__(self) -> bool:
        return bool(self._namespaces)

    def grant(self) -> None:
        """Replace ``float`` in the module that asked, unless the module defines its own."""
        assert self.pending is not None
        namespace, self.pending = self.pending.namespace, None
        self._namespaces[id(namespace)] = namespace
        namespace.setdefault("float", _LiftedFloat)

    def undo(self) -> None:
        """Put every namespace back as it was."""
        for namespace in self._namespaces.values():
            if namespace.get("float") is _LiftedFloat:
                del namespace["float"]
        self._namespaces.clear()


current_lifts: Lifts | None = None


def request_lift(operation: str) -> NoReturn:
    """Ask for ``float`` to be lifted where it was called, or refuse if that was tried already."""
    caller = sys._getframe(2).f_globals
    lifts = current_lifts
    if (
        lifts is None
        or caller in lifts
        or str(caller.get("__name__")).split(".")[0]
        in (
            "numpy",
            "torch",
            "math",
        )
    ):
        refuse(operation, f"a symbolic random value is needed as a number ({audited_location()})")
    lifts.pending = LiftRequest(caller)
    raise lifts.pending
