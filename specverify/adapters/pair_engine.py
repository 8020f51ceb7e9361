"""What engines have in common whose weights are a pair of ours."""

from __future__ import annotations

from specverify.audit.forms import TargetLaw
from specverify.errors import InvalidInputError
from specverify.models.law import ModelLaw
from specverify.models.pairs import Pair

__all__ = ["PairEngine"]


class PairEngine:
    """An engine on a pair that is also here, in float64, as ``_exact``."""

    _exact: Pair

    def reference(self) -> TargetLaw:
        """The target's law, from our float64 evaluation of the same weights."""
        return ModelLaw(self._exact.target)  # type: ignore[arg-type]

    def encode(self, text: str) -> list[int]:
        """Ids of a text, to write prompts with.

        Raises:
            InvalidInputError: If the pair came without a tokeniser.
        """
        if self._exact.tokenizer is None:
            raise InvalidInputError("pair", f"{self._exact.name} has no tokeniser")
        return self._exact.tokenizer.encode(text)
