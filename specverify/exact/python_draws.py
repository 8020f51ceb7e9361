"""Draws of python's ``random`` module, and ``math`` on symbolic reals."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from specverify.exact import scalars
from specverify.exact.reals import SymbolicReal, exponential, uniform
from specverify.exact.tape import refuse
from specverify.exact.tokens import draw_below, draw_index, normalised

__all__ = ["LIFTED_MATH", "PYTHON_RANDOM"]


def _random() -> Any:
    return uniform("random.random")


def _uniform(a: float, b: float) -> Any:
    return uniform("random.uniform", a, b)


def _expovariate(lambd: float = 1.0) -> Any:
    return exponential("random.expovariate", 1.0 / lambd)


def _below(count: int, label: str) -> int:
    if count <= 0:
        raise ValueError(f"empty range for {label}")
    return draw_below(count, label)


def _choice(seq: Sequence[Any]) -> Any:
    if not len(seq):
        raise IndexError("Cannot choose from an empty sequence")
    return seq[_below(len(seq), "random.choice")]


def _choices(
    population: Sequence[Any], weights: Any = None, *, cum_weights: Any = None, k: int = 1
) -> list[Any]:
    if cum_weights is not None:
        weights = [right - left for left, right in pairwise([0, *cum_weights])]
    weights = [1.0] * len(population) if weights is None else list(weights)
    if len(weights) != len(population):
        raise ValueError("The number of weights does not match the population")
    probs = normalised(weights, "random.choices")
    return [population[draw_index(probs, "random.choices")] for _ in range(k)]


def _randint(a: int, b: int) -> int:
    return a + _below(b - a + 1, "random.randint")


def _randrange(start: int, stop: int | None = None, step: int = 1) -> int:
    steps = range(start) if stop is None else range(start, stop, step)
    return steps[_below(len(steps), "random.randrange")]


def _refused(name: str) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        refuse(f"random.{name}", "is not followed")

    return call


_FOLLOWED: dict[str, Callable[..., Any]] = {
    "random": _random,
    "uniform": _uniform,
    "expovariate": _expovariate,
    "choice": _choice,
    "choices": _choices,
    "randint": _randint,
    "randrange": _randrange,
}

# Replacements for the functions of ``random``: those bound to its hidden generator.
PYTHON_RANDOM: dict[str, Callable[..., Any]] = {
    name: _FOLLOWED.get(name) or _refused(name)
    for name, value in vars(random).items()
    if name[0].islower() and isinstance(getattr(value, "__self__", None), random.Random)
    if name != "getstate"
}


def _lifted(original: Callable[..., Any], symbolic: Callable[[Any], Any]) -> Callable[..., Any]:
    def call(value: Any, *rest: Any) -> Any:
        if type(value) is SymbolicReal:
            if rest:
                return symbolic(value) / original(*rest)
            return symbolic(value)
        return original(value, *rest)

    return call


# Replacements for ``math``'s functions: the same on numbers, symbolic on symbolic reals.
LIFTED_MATH: dict[str, Callable[..., Any]] = {
    name: _lifted(getattr(math, name), symbolic)
    for name, symbolic in {
        "log": scalars.log,
        "log1p": scalars.log1p,
        "log2": scalars.log2,
        "exp": scalars.exp,
        "sqrt": scalars.sqrt,
        "isnan": scalars.isnan,
        "isinf": scalars.isinf,
        "isfinite": scalars.isfinite,
    }.items()
}
