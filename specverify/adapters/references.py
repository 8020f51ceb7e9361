"""The model that completions are compared with, from the name that a user gives it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specverify.errors import InvalidInputError, UnknownTargetError

if TYPE_CHECKING:
    from specverify.models.pairs import Pair

__all__ = ["TINY", "Reference", "load_reference", "pair_source"]

TINY = "tiny"


@dataclass(frozen=True)
class Reference:
    """A target in float64, with its pair where it came as one.

    Attributes:
        target: Maps ids to logits.
        pair: Target and draft; None where a single model was named.
    """

    target: Any
    pair: Pair | None

    def encode(self, text: str) -> list[int]:
        """Ids of a text.

        Raises:
            InvalidInputError: If there is no tokeniser.
        """
        if self.pair is None or self.pair.tokenizer is None:
            raise InvalidInputError("reference", "has no tokeniser")
        return self.pair.tokenizer.encode(text)


def pair_source(name: str | Path) -> str | Path:
    """What ``load_pair`` takes for a name: the tiny pair is written when it is first asked for."""
    if name != TINY:
        return name
    from specverify.models.corpus import default_cache_dir
    from specverify.models.tiny import write_tiny_pair

    return write_tiny_pair(default_cache_dir() / "tiny-pair")


def load_reference(name: str) -> Reference:
    """Load ``tiny``, ``shipped``, a directory of a pair, or one model by directory or hub id.

    Raises:
        UnknownTargetError: If it cannot be found.
    """
    import torch

    from specverify.models.pairs import SHIPPED, load_model, load_pair

    source = pair_source(name)
    if source == SHIPPED or (Path(source) / "target").is_dir():
        pair = load_pair(source, dtype="float64")
        return Reference(pair.target, pair)
    try:
        return Reference(load_model(source, torch.float64), None)
    except UnknownTargetError as error:
        raise UnknownTargetError("reference", f"{name}: {error}") from error
