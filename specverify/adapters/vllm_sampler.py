"""Settings that vLLM's two rejection samplers share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from specverify.errors import InvalidInputError

__all__ = ["VllmSampler"]


class VllmSampler(ABC):
    """A rejection sampler of vLLM under chosen settings.

    Args:
        method: One of ``methods``: ``standard``, ``block`` (verification of whole blocks) where
            there is one, or vLLM's lossy ``synthetic`` and ``fly``.
        drafts: ``sampled``, or ``given`` for drafts without probabilities, as n-gram drafting has.
        greedy: Whether a request whose target rows are all one-hot has temperature 0.
        rate: Probability that ``synthetic`` accepts a draft.
        window: Drafts that must be accepted after one that ``fly`` lets through.
        entropy: Least entropy of a row at which ``fly`` does so, in nats.

    Raises:
        MissingDependencyError: If vllm or triton is not installed.
        InvalidInputError: If ``method`` or ``drafts`` is none of these.
    """

    methods: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        *,
        method: str = "standard",
        drafts: str = "sampled",
        greedy: bool = False,
        rate: float = 0.7,
        window: int = 1,
        entropy: float = 0.3,
    ) -> None:
        if method not in self.methods:
            known = ", ".join(self.methods)
            raise InvalidInputError("method", f"must be one of {known}: {method!r}")
        if drafts not in ("sampled", "given"):
            raise InvalidInputError("drafts", f"must be sampled or given: {drafts!r}")
        self._method, self._given, self._greedy = method, drafts == "given", greedy
        self._rate, self._window, self._entropy = rate, window, entropy
        self._load()

    @abstractmethod
    def _load(self) -> None:
        """Load the sampler and what runs its kernels."""
