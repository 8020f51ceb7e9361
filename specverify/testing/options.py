"""How an implementation is to be looked at: one frozen value, checked when it is made."""

from __future__ import annotations

from dataclasses import dataclass

from specverify.audit.config import Budget
from specverify.audit.forms import Framework
from specverify.errors import InvalidInputError

__all__ = ["EXACT_GAMMAS", "Options"]

EXACT_GAMMAS = (1, 2)
"""Block sizes that are enumerated when none are asked for."""

_MODES = ("auto", "exact", "statistical")
_FORMS = ("verify", "batched", "decode")


@dataclass(frozen=True, kw_only=True)
class Options:
    """Settings of a conformance check.

    Attributes:
        form: ``verify``, ``batched`` or ``decode``.
        framework: ``torch`` or ``numpy``; found from the signature and its module when None.
        gammas: Block sizes; None for the suite's own.
        mode: ``auto``, ``exact`` or ``statistical``.
        tolerance: Exact: deviation to forgive (rounding, by dtype, when None). Statistical: largest
            total variation that a pass may leave open (0.05 when None).
        budget: The most to spend, ``"60s"`` or ``"200k"`` (paths, or calls); None for no limit.
        seed: Seed of every draw and of the search.
    """

    form: str = "verify"
    framework: str | None = None
    gammas: tuple[int, ...] | None = None
    mode: str = "auto"
    tolerance: float | None = None
    budget: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        _one_of("mode", self.mode, _MODES)
        _one_of("form", self.form, _FORMS)
        if self.framework is not None:
            _one_of("framework", self.framework, tuple(Framework))
        if self.gammas is not None and not (self.gammas and min(self.gammas) >= 1):
            raise InvalidInputError("gammas", f"must be positive numbers, got {self.gammas}")
        if self.tolerance is not None and not 0 < self.tolerance < 1:
            raise InvalidInputError("tolerance", f"must lie in (0, 1), got {self.tolerance}")
        if self.seed < 0:
            raise InvalidInputError("seed", f"must not be negative, got {self.seed}")
        _ = self.limits

    @property
    def limits(self) -> Budget:
        """The budget, read."""
        return Budget() if self.budget is None else Budget.parse(self.budget)


def _one_of(argument: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InvalidInputError(argument, f"must be one of {', '.join(allowed)}; got {value!r}")
