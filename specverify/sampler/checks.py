"""What a block must look like before it is verified."""

from __future__ import annotations

from typing import Any

from specverify._arrays import Array, namespace
from specverify.distributions import check_distribution
from specverify.errors import InvalidInputError

__all__ = [
    "block_lengths",
    "check_block_laws",
    "check_block_shapes",
    "check_decode_request",
    "check_lengths",
    "check_token_ids",
    "live_rows",
]


def check_block_shapes(
    target_probs: Array, draft_probs: Array, draft_tokens: Array, *, batched: bool
) -> None:
    """Refuse blocks whose shapes or dtypes do not fit together; reads no values.

    Raises:
        InvalidInputError: Naming the argument that does not fit.
    """
    _one_library(target_probs, draft_probs, draft_tokens)
    dims = 3 if batched else 2
    layout = "(batch, gamma + 1, vocab)" if batched else "(gamma + 1, vocab)"
    shape = tuple(target_probs.shape)
    if len(shape) != dims or shape[-2] == 0:
        raise InvalidInputError("target_probs", f"needs shape {layout}, got {shape}")
    if shape[-1] == 0:
        raise InvalidInputError("target_probs", f"empty vocabulary, shape {shape}")
    block = (*shape[:-2], shape[-2] - 1)
    _expect("draft_probs", draft_probs, (*block, shape[-1]), shape)
    _expect("draft_tokens", draft_tokens, block, shape)
    if not namespace(draft_tokens).isdtype(draft_tokens.dtype, "integral"):
        raise InvalidInputError("draft_tokens", f"needs integer ids, got {_name(draft_tokens)}")


def check_block_laws(target_probs: Array, draft_probs: Array, draft_tokens: Array) -> None:
    """Refuse rows that are no distributions and ids outside the vocabulary.

    Raises:
        InvalidInputError: Naming the argument that does not fit.
    """
    check_distribution("target_probs", target_probs)
    check_distribution("draft_probs", draft_probs)
    check_token_ids("draft_tokens", draft_tokens, target_probs.shape[-1])


def check_token_ids(argument: str, tokens: Array, vocab_size: int) -> None:
    """Refuse ids outside ``[0, vocab_size)``.

    Raises:
        InvalidInputError: Naming the argument and the first id that does not fit.
    """
    outside = tokens[(tokens < 0) | (tokens >= vocab_size)]
    if 0 not in outside.shape:
        raise InvalidInputError(
            argument, f"ids must lie in [0, {vocab_size}), got {int(outside.reshape(-1)[0])}"
        )


def block_lengths(draft_tokens: Any, draft_lengths: Any) -> Any:
    """Drafts of each block, int64, shape ``(batch,)``, or None for all of them.

    Raises:
        InvalidInputError: If the shape or the dtype does not fit.
    """
    if draft_lengths is None:
        return None
    xp, batch = namespace(draft_tokens), draft_tokens.shape[0]
    lengths = xp.asarray(draft_lengths, device=getattr(draft_tokens, "device", None))
    if tuple(lengths.shape) != (batch,):
        raise InvalidInputError(
            "draft_lengths", f"needs shape ({batch},), got {tuple(lengths.shape)}"
        )
    if batch and not xp.isdtype(lengths.dtype, "integral"):
        raise InvalidInputError("draft_lengths", f"needs integers, got {lengths.dtype}")
    return xp.astype(lengths, xp.int64)


def check_lengths(lengths: Any, gamma: int) -> None:
    """Refuse lengths outside ``[0, gamma]``.

    Raises:
        InvalidInputError: Naming the argument.
    """
    if bool(namespace(lengths).any((lengths < 0) | (lengths > gamma))):
        raise InvalidInputError("draft_lengths", f"must lie in [0, {gamma}], got {lengths}")


def live_rows(lengths: Any, rows: int) -> Any:
    """Which of its rows each block uses, bool, shape ``(batch, rows)``: the first ``lengths``."""
    places = namespace(lengths).arange(rows, device=getattr(lengths, "device", None))
    return places < lengths[:, None]


def check_decode_request(gamma: int, max_new_tokens: int) -> None:
    """Refuse a block length below 1 or a negative number of tokens.

    Raises:
        InvalidInputError: Naming the argument.
    """
    if gamma < 1:
        raise InvalidInputError("gamma", f"must be at least 1, got {gamma}")
    if max_new_tokens < 0:
        raise InvalidInputError("max_new_tokens", f"must be at least 0, got {max_new_tokens}")


def _one_library(*arrays: Any) -> None:
    try:
        namespace(*arrays)
    except TypeError as error:
        names = ", ".join(type(array).__name__ for array in arrays)
        raise InvalidInputError(
            "target_probs", f"needs arrays of one library, numpy or torch, got {names}"
        ) from error


def _expect(
    argument: str, array: Array, wanted: tuple[int, ...], target_shape: tuple[int, ...]
) -> None:
    if tuple(array.shape) != wanted:
        raise InvalidInputError(
            argument,
            f"needs shape {wanted} beside target_probs of shape {target_shape}, "
            f"got {tuple(array.shape)}",
        )


def _name(array: Array) -> str:
    return str(array.dtype).rpartition(".")[2]
