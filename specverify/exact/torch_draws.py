"""Torch's random operators, on the tape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from specverify.exact.reals import exponential, uniform
from specverify.exact.tape import active_tape, refuse
from specverify.exact.tokens import UnreadToken, draw_below, draw_index, normalised
from specverify.exact.torch_shadow import (
    contents,
    filled_tensor,
    is_symbolic,
    memory,
    new_tensor,
    write,
)

__all__ = ["draw"]


def draw(func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of one random operator.

    Raises:
        UnsupportedRandomness: If the operator is not followed, or writes through ``out=``.
    """
    if "out" in kwargs:
        refuse(f"torch.{name}", "with out=")
    _check_generator(kwargs.get("generator"))
    handler = _DRAWS.get(name)
    if handler is not None:
        return handler(func, args, kwargs)
    if _dropout(func, args, kwargs) == 0.0:
        if any(isinstance(arg, torch.Tensor) and is_symbolic(arg) for arg in args):
            refuse(f"torch.{name}", "of random values")
        return func(*args, **kwargs)
    refuse(f"torch.{name}", "is a random operator that is not followed")


def _check_generator(generator: torch.Generator | None) -> None:
    """Two generators in one state give the same numbers, and so does one that is reseeded."""
    tape = active_tape()
    if generator is None or tape is None:
        return
    known = tape.stream_states.get(id(generator))
    seed = generator.initial_seed()
    if known is None:
        state = memory(generator.get_state()).tobytes()
        for other in tape.stream_states.values():
            if other[2] == state:
                refuse("torch.Generator", "two generators in the same state give the same numbers")
        tape.stream_states[id(generator)] = (generator, seed, state)
    elif known[1] != seed:
        refuse("torch.Generator.manual_seed", "the code seeds its generator between draws")


def _dropout(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> float | None:
    """Attention and dropout kernels count as random; without dropout they are not."""
    for index, argument in enumerate(func._schema.arguments):
        if argument.name in ("dropout_p", "p", "train"):
            given = kwargs.get(argument.name, argument.default_value)
            value = args[index] if index < len(args) else given
            if argument.name == "train":
                return 0.0 if value is False else None
            if argument.name == "dropout_p" and value is not None:
                return float(value)
    return None


def _dtype(kwargs: dict[str, Any], like: torch.Tensor | None = None) -> torch.dtype:
    dtype = kwargs.get("dtype")
    if dtype is None:
        dtype = like.dtype if like is not None else torch.get_default_dtype()
    assert isinstance(dtype, torch.dtype)
    return dtype


def _rand(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    cells = filled_tensor(args[0], lambda: uniform("torch.rand"))
    return new_tensor(cells, _dtype(kwargs), kwargs.get("device"))


def _rand_like(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    cells = filled_tensor(args[0].shape, lambda: uniform("torch.rand_like"))
    return new_tensor(cells, _dtype(kwargs, args[0]), args[0].device)


def _uniform(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    tensor = args[0]
    low = float(args[1] if len(args) > 1 else kwargs.get("from", 0.0))
    high = float(args[2] if len(args) > 2 else kwargs.get("to", 1.0))
    return _target(
        func, tensor, filled_tensor(tensor.shape, lambda: uniform("uniform_", low, high))
    )


def _exponential(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    tensor = args[0]
    rate = float(args[1] if len(args) > 1 else kwargs.get("lambd", 1.0))
    cells = filled_tensor(tensor.shape, lambda: exponential("exponential_", 1.0 / rate))
    return _target(func, tensor, cells)


def _target(func: Any, tensor: torch.Tensor, cells: Any) -> torch.Tensor:
    """In place for ``uniform_`` and the like, else (their functional forms) a new tensor."""
    if func.overloadpacket.__name__.endswith("_"):
        return write(tensor, cells)
    return new_tensor(cells, tensor.dtype, tensor.device)


def _multinomial(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    probs, count = args[0], args[1]
    replacement = args[2] if len(args) > 2 else kwargs.get("replacement", False)
    if is_symbolic(probs):
        refuse("torch.multinomial", "with random probabilities")
    rows = memory(probs).reshape(-1, probs.shape[-1]).tolist()
    picks = np.empty((len(rows), count), dtype=object)
    for row, weights in enumerate(rows):
        for column in range(count):
            token = UnreadToken(normalised(weights, "torch.multinomial"), "torch.multinomial")
            if not replacement and count > 1:
                weights[token.read()] = 0.0
            picks[row, column] = token
    return new_tensor(picks.reshape((*probs.shape[:-1], count)), torch.int64, probs.device)


def _bernoulli(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    tensor = args[0]
    given = args[1] if len(args) > 1 else kwargs.get("p")
    own = func.overloadpacket.__name__ == "bernoulli" and given is None
    probs = tensor if own else (0.5 if given is None else given)
    if isinstance(probs, torch.Tensor) and is_symbolic(probs):
        refuse("torch.bernoulli", "with random probabilities")
    chances = contents(probs) if isinstance(probs, torch.Tensor) else np.asarray(float(probs))
    flat = np.broadcast_to(chances, tuple(tensor.shape)).ravel().tolist()
    bits = [1 - draw_index((float(chance), 1.0 - float(chance)), "bernoulli") for chance in flat]
    cells = np.asarray(bits, dtype=object).reshape(tuple(tensor.shape))
    return _target(func, tensor, cells)


def _randint(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    low, high, shape = args if len(args) == 3 else (0, *args)
    cells = filled_tensor(shape, lambda: low + draw_below(high - low, "torch.randint"))
    return new_tensor(cells, kwargs.get("dtype") or torch.int64, kwargs.get("device"))


def _randperm(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    left, order = list(range(args[0])), []
    while left:
        order.append(left.pop(draw_index((1.0 / len(left),) * len(left), "torch.randperm")))
    return torch.tensor(order, dtype=kwargs.get("dtype") or torch.int64)


_DRAWS: dict[str, Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]] = {
    "rand": _rand,
    "rand_like": _rand_like,
    "uniform_": _uniform,
    "uniform": _uniform,
    "exponential_": _exponential,
    "exponential": _exponential,
    "multinomial": _multinomial,
    "bernoulli": _bernoulli,
    "bernoulli_": _bernoulli,
    "randint": _randint,
    "randperm": _randperm,
}
