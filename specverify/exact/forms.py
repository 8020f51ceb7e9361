"""Monotone functions of one uniform, in closed form where there is one.

A form maps ``v`` in (0, 1), with ``e = -ln v``:

- ``U``: ``shift + scale * v`` (uniforms),
- ``E``: ``shift + scale * e`` (exponentials),
- ``L``: ``shift + scale * ln e`` (Gumbel variables, negated),
- ``P``: ``scale * e**shift`` (powers of exponentials: exponential races),
- ``Q``: ``scale * v**shift`` (powers of uniforms),

followed by a chain of increasing or decreasing steps for whatever has no form of its own.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np

__all__ = ["ChainStep", "Form", "forward", "increasing", "inverse"]

# (operation, constant): add, multiply, power, raise_to (max with), lower_to (min with), log, exp.
ChainStep: TypeAlias = tuple[str, float]


class Form(NamedTuple):
    """A monotone function of one uniform.

    Attributes:
        kind: One of ``U E L P Q``.
        shift: Additive constant; the exponent for ``P`` and ``Q``.
        scale: Factor, not zero.
        chain: Steps applied afterwards, in order.
    """

    kind: str
    shift: float
    scale: float
    chain: tuple[ChainStep, ...] = ()


def increasing(form: Form) -> bool:
    """Whether the function increases with ``v``."""
    kind, shift, scale, chain = form
    sign = {"U": scale, "E": -scale, "L": -scale, "P": -shift * scale, "Q": shift * scale}[kind]
    for operation, constant in chain:
        if operation in ("multiply", "power") and constant < 0:
            sign = -sign
    return sign > 0


def forward(form: Form, v: Any) -> Any:
    """Values at ``v`` (an array in [0, 1]), float64."""
    kind, shift, scale, chain = form
    with np.errstate(all="ignore"):
        v = np.asarray(v, dtype=np.float64)
        if kind == "U":
            y = shift + scale * v
        elif kind == "Q":
            y = scale * v**shift
        else:
            e = np.abs(np.log(v))
            if kind == "E":
                y = shift + scale * e
            elif kind == "L":
                y = shift + scale * np.log(e)
            else:
                y = scale * e**shift
        for operation, constant in chain:
            y = _apply(operation, constant, y)
    return y


def inverse(form: Form, y: Any) -> Any:
    """``v`` at which the value is ``y``; outside of (0, 1) where ``y`` is not attained."""
    kind, shift, scale, chain = form
    with np.errstate(all="ignore"):
        y = np.asarray(y, dtype=np.float64)
        for operation, constant in reversed(chain):
            y = _undo(operation, constant, y)
        if kind == "U":
            return (y - shift) / scale
        if kind == "E":
            return np.exp(-np.maximum((y - shift) / scale, 0.0))
        if kind == "L":
            return np.exp(-np.exp((y - shift) / scale))
        ratio = y / scale
        power = np.where(ratio > 0, ratio ** (1 / shift), 0.0 if shift > 0 else np.inf)
        return np.exp(-power) if kind == "P" else power


def _apply(operation: str, constant: float, y: Any) -> Any:
    if operation == "add":
        return y + constant
    if operation == "multiply":
        return y * constant
    if operation == "power":
        return y**constant
    if operation == "raise_to":
        return np.maximum(y, constant)
    if operation == "lower_to":
        return np.minimum(y, constant)
    return np.log(y) if operation == "log" else np.exp(y)


def _undo(operation: str, constant: float, y: Any) -> Any:
    if operation == "add":
        return y - constant
    if operation == "multiply":
        return y / constant
    if operation == "power":
        never = 0.0 if constant > 0 else np.inf
        return np.where(y > 0, y ** (1 / constant), never)
    if operation == "raise_to":
        return np.where(y > constant, y, -np.inf)
    if operation == "lower_to":
        return np.where(y < constant, y, np.inf)
    if operation == "log":
        return np.exp(y)
    return np.where(y > 0, np.log(y), -np.inf)
