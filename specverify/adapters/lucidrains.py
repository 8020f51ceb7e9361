"""The loop of `speculative-decoding`, alone over step functions, and with the library's own models.

Everything is drawn from torch's global generator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from specverify.adapters.loading import load_module
from specverify.adapters.step_models import Step, StepRows
from specverify.audit.forms import Completions, EngineInfo, TargetLaw
from specverify.errors import InvalidInputError
from specverify.models.law import ModelLaw
from specverify.warping import SamplingParams, warp_logits

__all__ = ["BatchedLoopAlone", "LoopAlone", "LucidrainsEngine"]

_PACKAGE = "speculative-decoding"
_MODULE = "speculative_decoding.speculative_decoding"
_EVERY_TOKEN = 0.0
"""Share of the vocabulary that its filter leaves out."""

_SIZES = {"dim": 16, "depth": 1, "heads": 2, "dim_head": 8}
_SEED, _SPREAD, _HEAD, _BIAS, _DRAFT_NOISE = 2, 1.5, 1.5, 0.1, 0.4
_TOLERANCE = 1e-4
"""Total variation that float32 may make from float64 at these sizes."""


class LoopAlone:
    """``speculative_decoding`` over step functions, at temperature 1, without its filter.

    Raises:
        MissingDependencyError: If speculative-decoding is not installed.
    """

    rows = 1

    def __init__(self) -> None:
        self._decode = load_module(_MODULE, _PACKAGE).speculative_decoding

    def __call__(
        self, prompt: Tensor, target_step: Step, draft_step: Step, gamma: int, max_new_tokens: int
    ) -> Tensor:
        """New ids, prompt excluded."""
        prompts = prompt.expand(self.rows, -1)
        length = len(prompt) + max_new_tokens
        models = _Cached(target_step), _Cached(draft_step)
        tokens, _ = self._decode(*models, prompts, length, gamma=gamma, filter_thres=_EVERY_TOKEN)
        first: Tensor = tokens[0]
        return first


class BatchedLoopAlone(LoopAlone):
    """The same with one prompt in four rows, of which one is returned."""

    rows = 4


class _Cached:
    """A model whose cache holds the ids that were read: what the loop does to it is seen."""

    def __init__(self, step: Step) -> None:
        self._rows = StepRows(step)

    def __call__(
        self, ids: Tensor, *, seq_start_pos: Tensor, cache: Any = None, return_cache: bool = True
    ) -> Any:
        """Logits of what the cache lacks, shape ``(batch, t, vocab)``, and the longer cache."""
        read = ids[:, :0] if cache is None else cache[0][:, 0, :, 0]
        new = ids.shape[1] - read.shape[1]
        read = torch.cat([read, ids[:, -new:]], dim=1)
        rows = zip(read, seq_start_pos.tolist(), strict=True)
        logits = [self._rows(row[None, start:])[0, -new:] for row, start in rows]
        # Padding that is read itself has logits that nobody looks at.
        logits = [pad(found, (0, 0, new - len(found), 0)) for found in logits]
        return torch.stack(logits), (read[:, None, :, None], None)


class LucidrainsEngine:
    """``speculative_decoding`` on a pair of the library's own ``Decoder``, with drawn weights.

    A temperature and a top-k are its own; other filters, which it lacks, are put on its models'
    logits.

    Args:
        batch: Completions that are decoded together, at least 1.
        gamma: Drafted tokens in a pass, at least 1.
        vocab_size: Tokens of its models, at least 2.

    Raises:
        InvalidInputError: If a setting is out of its range.
        MissingDependencyError: If speculative-decoding is not installed.

    Attributes:
        target: Its target, a ``Decoder`` in float32.
    """

    def __init__(self, *, batch: int = 1, gamma: int = 3, vocab_size: int = 8) -> None:
        least_values = {"batch": (batch, 1), "gamma": (gamma, 1), "vocab_size": (vocab_size, 2)}
        for name, (value, least) in least_values.items():
            if value < least:
                raise InvalidInputError(name, f"must be at least {least}, got {value}")
        self._library = load_module(_MODULE, _PACKAGE)
        self._batch, self._gamma, self._vocab = batch, gamma, vocab_size
        self.target, self._draft = self._pair(torch.float32)
        self._exact = self._pair(torch.float64)

    def describe(self) -> EngineInfo:
        """Version and settings."""
        return EngineInfo(
            name="speculative-decoding with its own Decoder",
            version=metadata.version(_PACKAGE),
            randomness="global torch generator",
            vocab_size=self._vocab,
            gamma=self._gamma,
            tolerance=_TOLERANCE,
            quick=True,
            details={"batch": self._batch, "weights": f"drawn, seed {_SEED}"} | _SIZES,
        )

    def sample(
        self,
        prompt: Sequence[int],
        n: int,
        max_new_tokens: int,
        sampling: SamplingParams,
        seed: int,
    ) -> Completions:
        """Decode completions, ``batch`` at a time.

        Args:
            prompt: Ids, at least one.
            n: Number of completions.
            max_new_tokens: Length of each.
            sampling: Temperature and filters.
            seed: Seed of torch's global generator, which is restored afterwards.

        Returns:
            The completions; the target's passes where each is decoded alone.
        """
        ids = torch.tensor([[int(token) for token in prompt]])
        decoded, passes = [], []
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            for start in range(0, n, self._batch):
                rows = ids.expand(min(self._batch, n - start), -1)
                found, calls = self._decode(rows, max_new_tokens, sampling)
                decoded.append(found)
                passes.append(calls)
        alone = self._batch == 1
        return Completions(
            tokens=torch.cat(decoded).numpy(), passes=np.array(passes) if alone else None
        )

    def reference(self) -> TargetLaw:
        """The target's law: its own Decoder in float64, on texts without padding or cache."""
        return ModelLaw(self._exact[0])

    def draft_probs(
        self, prompt: Sequence[int], tokens: NDArray[np.int64], sampling: SamplingParams
    ) -> NDArray[np.float64]:
        """The draft's law along completions, with arguments and shape of ``TargetLaw.probs``."""
        return ModelLaw(self._exact[1]).probs(prompt, tokens, sampling)

    def smallest(self, vocab_size: int = 2, gamma: int = 1) -> LucidrainsEngine:
        """The same on models of a few tokens, two completions together at most, to be traced."""
        return LucidrainsEngine(batch=min(self._batch, 2), gamma=gamma, vocab_size=vocab_size)

    def alone(self) -> LucidrainsEngine:
        """The same, one completion at a time."""
        return LucidrainsEngine(gamma=self._gamma, vocab_size=self._vocab)

    def complete(
        self, prompt: Sequence[int], max_new_tokens: int, sampling: SamplingParams
    ) -> list[int]:
        """One completion, decoded beside others of the same prompt, from the global generator."""
        rows = torch.tensor([list(prompt)]).expand(self._batch, -1)
        tokens: list[int] = self._decode(rows, max_new_tokens, sampling)[0][0].tolist()
        return tokens

    def _decode(
        self, rows: Tensor, max_new_tokens: int, sampling: SamplingParams
    ) -> tuple[Tensor, int]:
        settings, warped = _settings(sampling, self._vocab)
        target, draft = (_Filtered(model, warped) for model in (self.target, self._draft))
        length = rows.shape[1] + max_new_tokens
        found, _ = self._library.speculative_decoding(
            target, draft, rows, length, gamma=self._gamma, **settings
        )
        return found, target.calls

    def _pair(self, dtype: torch.dtype) -> tuple[Any, Any]:
        """Target and draft; the draft is the target with noise on every weight."""
        generator = torch.Generator().manual_seed(_SEED)
        target, draft = (
            self._library.Decoder(num_tokens=self._vocab, **_SIZES).eval() for _ in "td"
        )
        with torch.no_grad():
            for name, weight in target.named_parameters():
                size = _spread(name, weight)
                if size:  # gains of norms stay one
                    weight.copy_(size * torch.randn(weight.shape, generator=generator))
            draft.load_state_dict(target.state_dict())
            for weight in draft.parameters():
                noise = torch.randn(weight.shape, generator=generator)
                weight.add_(_DRAFT_NOISE * weight.abs().mean() * noise)
        return target.to(dtype), draft.to(dtype)


def _spread(name: str, weight: Tensor) -> float:
    """Standard deviation of a drawn weight; 0 for what is not drawn."""
    if weight.ndim == 1:
        return _BIAS if name.endswith("bias") else 0.0
    if name.startswith("token_emb"):
        return 1.0
    return (_HEAD if name.startswith("to_logits") else _SPREAD) * float(weight.shape[1] ** -0.5)


class _Filtered:
    """A model whose logits are filtered, and whose calls are counted."""

    def __init__(self, model: Callable[..., Any], sampling: SamplingParams) -> None:
        self._model, self._sampling = model, sampling
        self.calls = 0

    def __call__(self, *arguments: Any, **more: Any) -> Any:
        self.calls += 1
        logits, cache = self._model(*arguments, **more)
        plain = self._sampling == SamplingParams()
        return (logits if plain else warp_logits(logits, self._sampling).log()), cache


def _settings(sampling: SamplingParams, vocab: int) -> tuple[dict[str, float], SamplingParams]:
    """Settings of the call, and what its models do to their logits before."""
    if sampling.top_p is not None or sampling.min_p is not None:
        return {"filter_thres": _EVERY_TOKEN}, sampling
    kept = min(sampling.top_k or vocab, vocab)
    # It keeps the share that is not left out, rounded up.
    filtered = 1 - (kept - 0.5) / vocab
    return {"filter_thres": filtered, "temperature": sampling.temperature}, SamplingParams()
