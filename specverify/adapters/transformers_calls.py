"""How transformers is called: seeded, quietly, its passes counted, its verified rows overheard."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from specverify.audit.forms import Handed
from specverify.errors import MissingDependencyError
from specverify.warping import SamplingParams

__all__ = [
    "Calls",
    "Overheard",
    "batch_rows",
    "library",
    "mtp_layers",
    "quiet",
    "sampling_arguments",
    "seeded",
]

_LONGER = 3
"""Tokens by which the last prompt of a batch is longer."""


class Calls:
    """Counts a module's forward calls while it is entered; those of no module are none."""

    def __init__(self, module: torch.nn.Module | None) -> None:
        self._module = module
        self.n = 0

    def __enter__(self) -> Calls:
        if self._module is not None:
            self._hook = self._module.register_forward_pre_hook(self._count)
        return self

    def __exit__(self, *_: object) -> None:
        if self._module is not None:
            self._hook.remove()

    def _count(self, *_: object) -> None:
        self.n += 1


class Overheard:
    """Keeps what the library's verification of a block is handed, while it is entered.

    The function itself is called with what it was called with. Drafts without logits (prompt
    lookup) do not go through it.

    Args:
        prompt_length: Tokens before a completion.

    Attributes:
        row: Completion that is being generated.
    """

    def __init__(self, prompt_length: int) -> None:
        self._blocks: list[tuple[int, int, NDArray[np.int64], _Rows, _Rows]] = []
        self._prompt_length = prompt_length
        self.row = 0

    def __enter__(self) -> Overheard:
        from transformers.generation import utils

        self._verify: Callable[..., Any] = utils._speculative_sampling
        utils._speculative_sampling = self._listen
        return self

    def __exit__(self, *_: object) -> None:
        from transformers.generation import utils

        utils._speculative_sampling = self._verify

    def _listen(self, ids: Any, draft: Any, length: int, target: Any, **more: Any) -> Any:
        # The function may change what it is handed: copies first.
        rows = [logits[0].double().softmax(-1).numpy() for logits in (target, draft)]
        found = self._verify(ids, draft, length, target, **more)
        tested = int(found[1]) + 1  # what stands behind the first rejection was drafted in vain
        start = ids.shape[1] - length - self._prompt_length
        block = ids[0, ids.shape[1] - length :].numpy()
        self._blocks.append((self.row, start, block[:tested], rows[0][:tested], rows[1][:tested]))
        return found

    def handed(self) -> Handed | None:
        """Everything that was overheard; None where nothing was."""
        if not self._blocks:
            return None
        entries = [_entries(*block) for block in self._blocks]
        names = ("rows", "positions", "drafts", "target_probs", "draft_probs")
        return Handed(**{n: np.concatenate([e[i] for e in entries]) for i, n in enumerate(names)})


_Rows = NDArray[np.float64]


def _entries(
    row: int, start: int, drafts: NDArray[np.int64], target: _Rows, draft: _Rows
) -> tuple[NDArray[Any], ...]:
    """One entry for each tested draft; the bonus token's row has none."""
    n = len(drafts)
    return np.full(n, row), start + np.arange(n), drafts, target[:n], draft[:n]


def batch_rows(prompt: Sequence[int], batch: int) -> tuple[Tensor, Tensor]:
    """The prompt once or, in a batch, in all rows but the last, whose prompt is longer.

    Args:
        prompt: Ids.
        batch: Rows.

    Returns:
        Ids, padded on the left, and their mask, each of shape ``(batch, length)``.
    """
    row = torch.tensor([int(token) for token in prompt])
    if batch == 1:
        return row[None], torch.ones_like(row)[None]
    more = torch.tensor(np.resize(row.numpy(), len(row) + _LONGER))
    padded = torch.cat([torch.zeros(_LONGER, dtype=torch.int64), row])
    ids = torch.cat([padded.expand(batch - 1, -1), more[None]])
    mask = torch.ones_like(ids)
    mask[:-1, :_LONGER] = 0
    return ids, mask


def sampling_arguments(sampling: SamplingParams, max_new_tokens: int) -> dict[str, Any]:
    """Every sampling field spelled out: the library's defaults (top-k 50) must not creep in."""
    length = {"max_new_tokens": max_new_tokens, "min_new_tokens": None}
    if sampling.temperature == 0:
        return {**length, "do_sample": False}
    return {
        **length,
        "do_sample": True,
        "temperature": float(sampling.temperature),
        "top_k": sampling.top_k or 0,
        "top_p": 1.0 if sampling.top_p is None else float(sampling.top_p),
        "min_p": sampling.min_p,
    }


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Start torch's global generator from a seed, and put it back afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


@contextmanager
def mtp_layers(layers: Any) -> Iterator[None]:
    """While entered, ``generate`` is given these layers for multi-token prediction.

    By itself it reads them from the target's checkpoint in every call, after it has drawn random
    numbers that they replace.

    Args:
        layers: The library's ``MtpModel``; None changes nothing.
    """
    if layers is None:
        yield
        return
    kind = type(layers)
    read = kind.__dict__["from_pretrained"]
    kind.from_pretrained = staticmethod(lambda *_, **__: layers)
    try:
        yield
    finally:
        kind.from_pretrained = read


@contextmanager
def quiet() -> Iterator[None]:
    """No progress bars and no advice about generation settings while we drive the library."""
    logging = library().utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def library() -> Any:
    """The module.

    Raises:
        MissingDependencyError: If transformers is not installed.
    """
    try:
        import transformers
    except ImportError as error:
        raise MissingDependencyError("transformers", "hf") from error
    return transformers
