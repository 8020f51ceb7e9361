"""What tracing one scenario came to: the record that a tally carries to whoever judges it."""

from __future__ import annotations

import msgspec

__all__ = [
    "BIASED",
    "DISCARDED",
    "GATE",
    "LARGE",
    "LOSSLESS",
    "OPEN",
    "REFUSED",
    "ExactRecord",
]

GATE = 1e-6
"""A larger distance is no rounding, not even where float64 rows are verified in float32."""

BIASED, LOSSLESS = "biased", "lossless"
DISCARDED, LARGE, OPEN, REFUSED = "discarded", "large", "open", "refused"


class ExactRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What tracing one scenario came to.

    Attributes:
        outcome: ``lossless`` or ``biased`` (proved), ``open`` (the paths that were left out could
            decide), ``large`` (too many paths to try), ``refused`` (cannot be traced), or
            ``discarded`` (a sample of the real calls does not follow the traced law).
        reason: Why nothing is claimed, else empty.
        remark: What else is known of a failure.
        low: Certified lower bound of the total variation.
        high: Certified upper bound.
        position: First position, from 0, at which the law surely deviates, if any.
        length: Tokens that were asked for or compared.
        whole: Whether these are all that the scenario asks for.
        dtype: Floating dtype of the rows.
        tolerance: Deviation that rounding in this dtype explains.
        paths: Random paths accounted for.
        explored: Their probability.
        exceptions: Probability of each exception.
        invalid_mass: Probability of tokens that no completion may have.
        mean_emitted: Expected tokens of a block.
        length_tv: Distance of the emitted length's law from the standard rule's, for blocks whose
            every path was explored.
        fits: Known bugs with this very law; None where they were not compared.
        n: Ordinary completions that the law was confirmed by.
        p_value: Their p-value under it.
        seconds: CPU time of the tracing.
        deceived: Whether two runs with the same choices differed, or ordinary completions did not
            follow the law: proofs of other scenarios mean nothing then.
    """

    outcome: str
    reason: str = ""
    remark: str = ""
    low: float = 0.0
    high: float = 1.0
    position: int | None = None
    length: int = 0
    whole: bool = True
    dtype: str = "float64"
    tolerance: float = 0.0
    paths: int = 0
    explored: float = 0.0
    exceptions: dict[str, float] = {}
    invalid_mass: float = 0.0
    mean_emitted: float | None = None
    length_tv: float | None = None
    fits: tuple[str, ...] | None = None
    n: int = 0
    p_value: float | None = None
    seconds: float = 0.0
    deceived: bool = False

    @property
    def conclusive(self) -> bool:
        """Whether the scenario needs no samples of its law."""
        return self.outcome == BIASED or (self.outcome == LOSSLESS and self.whole)
