"""Verification functions of small libraries on the package index, one class each.

What drafts by itself is in :mod:`specverify.adapters.small_loops`. A library is imported when its
class is called for: the object made is then the function that is audited. Where a library takes no
generator, it draws from torch's global one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from specverify.adapters.loading import load_file, load_module

__all__ = [
    "Economize",
    "EconomizeBatch",
    "Flashspec",
    "FlashspecBatch",
    "NaiveSpeculate",
    "RotalabsAccel",
    "Specdec",
]


class Flashspec:
    """``rejection_step`` of flashspec, which takes log-probabilities; one block.

    Raises:
        MissingDependencyError: If flashspec is not installed.
    """

    def __init__(self) -> None:
        self._step = load_module("flashspec.sampling.rejection", "flashspec").rejection_step

    def __call__(
        self, target_probs: Tensor, draft_probs: Tensor, draft_tokens: Tensor, generator: Any = None
    ) -> tuple[list[int], int]:
        """Emitted ids and the number of accepted drafts."""
        rows = draft_probs.log()[None], target_probs.log()[None]
        found = self._step(draft_tokens[None], *rows, generator=generator)[0]
        accepted, last = found.tolist()
        return [*draft_tokens[:accepted].tolist(), last], accepted


class FlashspecBatch(Flashspec):
    """The same on a batch of blocks."""

    def __call__(
        self, target_probs: Tensor, draft_probs: Tensor, draft_tokens: Tensor, generator: Any = None
    ) -> tuple[Any, Any]:
        """Emitted ids, padded with -1, and accepted drafts of each row."""
        rows = draft_probs.log(), target_probs.log()
        found = self._step(draft_tokens, *rows, generator=generator)
        return _padded(draft_tokens, found[:, 0], found[:, 1]), found[:, 0]


class Economize:
    """``RejectionVerifier.verify`` of economize; one block.

    It draws from a generator that its selector keeps: that one takes over the state of the one
    that is given, and gives it back.

    Raises:
        MissingDependencyError: If economize is not installed.
    """

    def __init__(self) -> None:
        verifier = load_module("economize.decoding.verifiers", "economize").RejectionVerifier
        selectors = load_module("economize.decoding.selectors", "economize")
        self._draft = load_module("economize.decoding.protocols", "economize").Draft
        self._verifier = object.__new__(verifier)  # no models: they play no part here
        self._selector = selectors.TopPSampler(temperature=1.0, top_p=1.0)

    def __call__(
        self, target_probs: Tensor, draft_probs: Tensor, draft_tokens: Tensor, generator: Any = None
    ) -> tuple[Any, Any]:
        """Emitted ids and the number of accepted drafts."""
        drafts = draft_tokens.tolist()
        history = torch.zeros(len(drafts) + 2, dtype=torch.int64)
        block = target_probs.log(), drafts, draft_probs
        with self._drawing_from(generator):
            accepted, last = self._verifier.verify(*block, self._selector, history, 1)
        return [*drafts[:accepted], int(last)], int(accepted)

    @contextmanager
    def _drawing_from(self, generator: Any) -> Iterator[None]:
        own = self._selector.generator_for(torch.device("cpu"))
        if generator is not None:
            own.set_state(generator.get_state())
        yield
        if generator is not None:
            generator.set_state(own.get_state())


class EconomizeBatch(Economize):
    """``RejectionVerifier.verify_batch``; a batch of blocks."""

    def __call__(
        self, target_probs: Tensor, draft_probs: Tensor, draft_tokens: Tensor, generator: Any = None
    ) -> tuple[Any, Any]:
        """Emitted ids, padded with -1, and accepted drafts of each row."""
        batch, gamma = draft_tokens.shape
        draft = self._draft(draft_tokens, [gamma] * batch, None, draft_probs)
        history = torch.zeros(batch, gamma + 2, dtype=torch.int64)
        rows = target_probs.log()
        with self._drawing_from(generator):
            found = self._verifier.verify_batch(rows, draft, self._selector, history, [1] * batch)
        accepted, last = found
        return _padded(draft_tokens, accepted, last), accepted


class RotalabsAccel:
    """``rejection_sample`` of rotalabs-accel, which judges one draft; one block.

    It is called draft by draft until one is rejected; the bonus token is drawn here.

    Raises:
        MissingDependencyError: If rotalabs-accel is not installed.
    """

    def __init__(self) -> None:
        module = load_module("rotalabs_accel.speculative", "rotalabs-accel")
        self._rejection_sample = module.rejection_sample

    def __call__(
        self, target_probs: Tensor, draft_probs: Tensor, draft_tokens: Tensor
    ) -> list[int]:
        """Emitted ids."""
        emitted: list[int] = []
        for place, token in enumerate(draft_tokens):
            odds = target_probs[place, token], draft_probs[place, token], token
            accepted, chosen = self._rejection_sample(*odds, target_probs[place].log())
            emitted.append(int(chosen))
            if not accepted:
                return emitted
        return [*emitted, int(torch.multinomial(target_probs[-1], 1))]


class NaiveSpeculate:
    """``speculative_sampling`` of naive-speculate; one block.

    Raises:
        MissingDependencyError: If naive-speculate is not installed.
    """

    def __init__(self) -> None:
        # One file is loaded alone: the package itself needs a newer Python and a model library.
        module = load_file("naive_speculate", "speculate/utils.py", "naive-speculate")
        self._sample = module.speculative_sampling

    def __call__(
        self, target_probs: Tensor, draft_probs: Tensor, draft_tokens: Tensor
    ) -> tuple[list[int], int]:
        """Emitted ids and the number of accepted drafts."""
        accepted, last = self._sample(target_probs, draft_probs, draft_tokens)
        return [*draft_tokens[: int(accepted)].tolist(), int(last)], int(accepted)


class Specdec:
    """``SpecDecoder.verify`` of specdec over a model that gives the target rows; one block.

    Raises:
        MissingDependencyError: If specdec is not installed.
    """

    def __init__(self) -> None:
        self._decoder = object.__new__(load_module("specdec.decoder", "specdec").SpecDecoder)
        self._decoder.device = "cpu"

    def __call__(
        self, target_probs: Tensor, draft_probs: Tensor, draft_tokens: Tensor
    ) -> list[int]:
        """Emitted ids."""
        logits = target_probs.log()[None]
        self._decoder.big_model = lambda ids: SimpleNamespace(logits=logits)
        start = torch.zeros(1, 1, dtype=torch.int64)
        rows = [row[None] for row in draft_probs]
        return list(self._decoder.verify(start, draft_tokens.tolist(), rows))


def _padded(draft_tokens: Tensor, accepted: Tensor, last: Tensor) -> Tensor:
    """Accepted drafts, then the last token, then -1."""
    places = torch.arange(draft_tokens.shape[1] + 1)
    emitted = torch.nn.functional.pad(draft_tokens, (0, 1), value=-1)
    emitted = torch.where(places < accepted[:, None], emitted, -1)
    return torch.where(places == accepted[:, None], last[:, None], emitted)
