"""Draws of numpy's generators and legacy functions, on the tape."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from specverify.exact.numpy_arrays import filled, has_symbols
from specverify.exact.reals import exponential, gumbel, uniform
from specverify.exact.tape import active_tape, refuse
from specverify.exact.tokens import draw_below, draw_index, normalised

__all__ = ["LEGACY", "TracedGenerator"]

# Bound before they are replaced.
_BITS, _BIT_GENERATOR = np.random.PCG64, np.random.BitGenerator
# What numpy allows the sum of ``p`` to be off by.
_CHOICE_TOLERANCE = float(np.sqrt(np.finfo(np.float64).eps))


def _shape(size: Any) -> tuple[int, ...]:
    if size is None:
        return ()
    return (int(size),) if np.ndim(size) == 0 else tuple(int(n) for n in size)


def _drawn(size: Any, draw: Callable[[], Any]) -> Any:
    """One draw without a size, else an array, of no dimensions for the size ``()`` too."""
    return draw() if size is None else filled(_shape(size), draw)


def _random(size: Any = None, dtype: Any = None, out: Any = None) -> Any:
    if out is not None:
        refuse("Generator.random", "with out=")
    return _drawn(size, lambda: uniform("random"))


def _uniform(low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
    if np.ndim(low) or np.ndim(high):
        refuse("uniform", "with arrays as bounds")
    return _drawn(size, lambda: uniform("uniform", float(low), float(high)))


def _exponential(scale: Any = 1.0, size: Any = None) -> Any:
    if np.ndim(scale):
        return _exponential(1.0, np.shape(scale) if size is None else size) * scale
    return _drawn(size, lambda: exponential("exponential", float(scale)))


def _standard_exponential(size: Any = None, *args: Any, **kwargs: Any) -> Any:
    return _exponential(1.0, size)


def _gumbel(loc: Any = 0.0, scale: float = 1.0, size: Any = None) -> Any:
    shape = np.shape(loc) or None if size is None else size
    noise = _drawn(shape, lambda: gumbel("gumbel", 0.0, float(scale)))
    return noise + loc if np.ndim(loc) else noise + float(loc)


def _choice_probs(count: int, p: Any) -> tuple[float, ...]:
    if p is None:
        return (1.0 / count,) * count
    if has_symbols(p):
        refuse("choice", "with random probabilities")
    array = np.asarray(p)
    probs = array.tolist()
    if len(probs) != count:
        raise ValueError("a and p must have same size")
    total = sum(probs)
    if not min(probs) >= 0:
        raise ValueError("Probabilities are not non-negative")
    if total == 1.0:
        return tuple(probs)
    if not abs(total - 1.0) <= max(_CHOICE_TOLERANCE, math.sqrt(np.finfo(array.dtype).eps)):
        raise ValueError("Probabilities do not sum to 1.")
    return tuple([value / total for value in probs])


def _choice(
    a: Any,
    size: Any = None,
    replace: bool = True,
    p: Any = None,
    axis: int = 0,
    shuffle: bool = True,
) -> Any:
    whole = isinstance(a, int | np.integer)
    population = None if whole else np.asarray(a)
    probs = _choice_probs(int(a) if population is None else len(population), p)
    if size is None:
        index = draw_index(probs, "choice")
        return np.int64(index) if population is None else population[index]
    picks: list[int] = []
    for _ in range(int(np.prod(_shape(size)))):
        picks.append(draw_index(probs, "choice"))
        if not replace:
            probs = _without(probs, picks[-1])
    indices = np.asarray(picks, dtype=np.int64).reshape(_shape(size))
    return indices if population is None else population[indices]


def _without(probs: tuple[float, ...], taken: int) -> tuple[float, ...]:
    left = [0.0 if index == taken else value for index, value in enumerate(probs)]
    return normalised(left, "choice") if sum(left) > 0 else tuple(left)


def _multinomial(n: int, pvals: Any, size: Any = None) -> Any:
    if has_symbols(pvals):
        refuse("multinomial", "with random probabilities")
    weights = np.asarray(pvals, dtype=np.float64)
    if weights.ndim != 1 or size is not None:
        refuse("multinomial", "of several rows or with size=")
    # The last category takes what the others leave, as in numpy.
    rest = 1.0 - float(weights[:-1].sum())
    if rest < -1e-12:
        raise ValueError("sum(pvals[:-1]) > 1.0")
    probs = normalised([*weights[:-1].tolist(), max(rest, 0.0)], "multinomial")
    counts = np.zeros(weights.size, dtype=np.int64)
    for _ in range(int(n)):
        counts[draw_index(probs, "multinomial")] += 1
    return counts


def _integers(
    low: int,
    high: int | None = None,
    size: Any = None,
    dtype: Any = np.int64,
    endpoint: bool = False,
) -> Any:
    start, stop = (0, int(low)) if high is None else (int(low), int(high))
    count = stop - start + int(endpoint)
    if count <= 0:
        raise ValueError("low >= high")
    shape = _shape(size)
    picks = [start + draw_below(count, "integers") for _ in range(int(np.prod(shape)))]
    return (
        np.asarray(picks, dtype=dtype).reshape(shape) if shape else np.dtype(dtype).type(picks[0])
    )


def _binomial(n: int, p: Any, size: Any = None) -> Any:
    if int(n) != 1 or size is not None or np.ndim(p):
        refuse("binomial", "with n > 1, several p or size=")
    return 1 - draw_index((float(p), 1.0 - float(p)), "binomial")


def _permutation(x: Any, *args: Any) -> Any:
    items = np.arange(x) if isinstance(x, int | np.integer) else np.asarray(x)
    return items[_choice(len(items), len(items), False)]


class TracedGenerator(np.random.Generator):
    """A ``numpy.random.Generator`` whose draws go to the tape; give it to the code under trace.

    Every generator built by ``numpy.random.default_rng`` during an enumeration is one of these.

    Args:
        seed: Ignored outside of an enumeration; refused inside, where a fixed seed would turn the
            draws into constants.
    """

    def __init__(self, seed: Any = None) -> None:
        super().__init__(_BITS(0))
        tape = active_tape()
        if isinstance(seed, _BIT_GENERATOR):
            refuse("Generator", "a bit generator built by the code is not followed")
        if tape is not None and seed is not None:
            refuse("default_rng", f"the code seeds it with {seed!r}: its draws are constants")

    def __getattribute__(self, name: str) -> Any:
        if name in _GENERATOR:
            if active_tape() is None:
                refuse(f"Generator.{name}", "of a traced generator, outside of an enumeration")
            return _GENERATOR[name]
        if name.startswith("__"):
            return object.__getattribute__(self, name)
        if name == "spawn":
            return lambda count: [TracedGenerator() for _ in range(count)]
        refuse(f"Generator.{name}", "is not followed")


_GENERATOR: dict[str, Any] = {
    "random": _random,
    "uniform": _uniform,
    "exponential": _exponential,
    "standard_exponential": _standard_exponential,
    "gumbel": _gumbel,
    "choice": _choice,
    "multinomial": _multinomial,
    "integers": _integers,
    "binomial": _binomial,
    "permutation": _permutation,
}


def _default_rng(seed: Any = None) -> Any:
    return seed if isinstance(seed, TracedGenerator) else TracedGenerator(seed)


def _rand(*shape: int) -> Any:
    return _random(shape or None)


def _refused(name: str) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        refuse(f"numpy.random.{name}", "is not followed")

    return call


def _legacy() -> dict[str, Any]:
    followed = {
        "random": _random,
        "random_sample": _random,
        "ranf": _random,
        "sample": _random,
        "rand": _rand,
        "uniform": _uniform,
        "exponential": _exponential,
        "standard_exponential": _standard_exponential,
        "gumbel": _gumbel,
        "choice": _choice,
        "multinomial": _multinomial,
        "randint": _integers,
        "binomial": _binomial,
        "permutation": _permutation,
        "default_rng": _default_rng,
        "Generator": TracedGenerator,
    }
    kept = ("get_state", "BitGenerator", "SeedSequence", "test")
    names = [
        name
        for name, value in vars(np.random).items()
        if name[0] != "_" and callable(value) and name not in kept
    ]
    return {name: followed.get(name) or _refused(name) for name in names}


# Replacements for the functions of ``numpy.random``; what is not followed refuses.
LEGACY: dict[str, Any] = _legacy()
