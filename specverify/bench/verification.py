"""Blocks verified a second: ours in batches, transformers' function block by block, a bare copy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch

from specverify.bench.timing import (
    Asked,
    Job,
    Measurement,
    Size,
    Spread,
    alternate,
    exponent,
    ratio,
)
from specverify.models.threads import one_thread
from specverify.sampler.batched import verify_blocks
from specverify.sampler.from_logits import verify_blocks_from_logits

__all__ = ["verification"]

GAMMA = 4
MARKED = (32_000, 256)
_PEER_BLOCKS = 32  # of a batch: it takes them one by one
_LARGEST = 2**29  # numbers in the four arrays together: two gigabytes
OURS, LOGITS = "ours, from probabilities", "ours, from logits"
PEER, COPY = "transformers", "copy of two rows"


def verification(size: Size) -> Iterator[Measurement]:
    """Microseconds a block, one thread."""
    with one_thread():
        for vocab in _vocabularies(size):
            for batch in (1, 8) if size.quick else (1, 256, 1024) if size.thorough else (1, 256):
                if batch * vocab * (4 * GAMMA + 2) <= _LARGEST:
                    yield _one_setting(vocab, batch, size)
        yield _curve("V", [(v, 32) for v in _powers(size, 10, 16)], size)
        yield _curve("batch", [(4096, b) for b in _powers(size, 3, 8)], size)


def _vocabularies(size: Size) -> Sequence[int]:
    if size.quick:
        return (50, 5000)
    return (1000, 32_000, 128_000) if size.thorough else (1000, 32_000)


def _powers(size: Size, first: int, last: int) -> list[int]:
    return [2**k for k in range(first, first + 3 if size.quick else last + 1)]


class _Blocks:
    """Logits and laws of a batch, with drafts drawn from the draft."""

    def __init__(self, vocab: int, batch: int) -> None:
        self.generator = torch.Generator().manual_seed(vocab)
        target = 2 * torch.randn(batch, GAMMA + 1, vocab, generator=self.generator)
        noise = torch.randn(batch, GAMMA, vocab, generator=self.generator)
        self.logits = target, target[:, :GAMMA] + noise / 2
        self.laws = tuple(scores.softmax(-1) for scores in self.logits)
        flat = self.laws[1].flatten(0, 1)
        self.tokens = torch.multinomial(flat, 1, generator=self.generator).view(batch, GAMMA)

    def from_probabilities(self) -> Any:
        target, draft = self.laws
        return verify_blocks(target, draft, self.tokens, self.generator, validate=False)

    def from_logits(self) -> Any:
        return verify_blocks_from_logits(*self.logits, self.tokens, self.generator, validate=False)

    def peer(self, function: Any) -> None:
        target, draft = self.logits
        for b in range(min(_PEER_BLOCKS, len(self.tokens))):
            one = slice(b, b + 1)
            function(self.tokens[one], draft[one], GAMMA, target[one])

    def copy(self) -> Job:
        """Copies the two rows that the rule must read, into memory that is there already."""
        n = self.from_probabilities().n_accepted
        rows = torch.arange(len(n))
        flat = [laws.flatten(0, 1) for laws in self.laws]
        places = rows * (GAMMA + 1) + n, rows * GAMMA + n.clamp(max=GAMMA - 1)
        room = [torch.empty(len(n), laws.shape[-1]) for laws in flat]

        def job() -> None:
            for laws, place, out in zip(flat, places, room, strict=True):
                torch.index_select(laws, 0, place, out=out)

        return job


def _one_setting(vocab: int, batch: int, size: Size) -> Measurement:
    blocks = _Blocks(vocab, batch)
    jobs: dict[str, Job] = {OURS: blocks.from_probabilities, LOGITS: blocks.from_logits}
    function = _peer()
    if function is not None:
        jobs[PEER] = partial(blocks.peer, function)
    jobs[COPY] = blocks.copy()
    counts = {name: min(_PEER_BLOCKS, batch) if name == PEER else batch for name in jobs}
    repeats = max(1, 64 // batch)
    found = alternate({name: _repeated(job, repeats) for name, job in jobs.items()}, size.runs)
    each = {
        name: [1e6 * seconds / counts[name] / repeats for seconds in values]
        for name, values in found.items()
    }
    ratios = {"ours over the copy": ratio(each[OURS], each[COPY])}
    if function is not None:
        ratios["transformers over ours, from probabilities"] = ratio(each[PEER], each[OURS])
        ratios["transformers over ours, from logits"] = ratio(each[PEER], each[LOGITS])
    return Measurement(
        what=f"V = {vocab}, gamma {GAMMA}, batch {batch}",
        unit="us a block",
        sides={name: Spread.of(values) for name, values in each.items()},
        ratios=ratios,
        asked=_asked(ratios) if (vocab, batch) == MARKED else (),
        note="" if function is not None else "transformers is not installed",
    )


def _asked(ratios: dict[str, Spread]) -> list[Asked]:
    marks = {
        "transformers over ours, from probabilities": 20.0,
        "transformers over ours, from logits": 3.0,
    }
    lines = [
        Asked(f"{name}: at least {mark:g}x", f"{ratios[name].median:.1f}x", value >= mark)
        for name, mark in marks.items()
        if name in ratios
        for value in [ratios[name].median]
    ]
    copy = ratios["ours over the copy"].median
    return [*lines, Asked("ours over the copy: at most 3x", f"{copy:.2f}x", copy <= 3)]


def _curve(name: str, settings: Sequence[tuple[int, int]], size: Size) -> Measurement:
    sides = {}
    for vocab, batch in settings:
        blocks = _Blocks(vocab, batch)
        found = alternate({"ours": _repeated(blocks.from_probabilities, 4)}, size.runs)["ours"]
        sides[f"{name} = {vocab if name == 'V' else batch}"] = Spread.of(
            [1e6 * seconds / 4 for seconds in found]
        )
    sizes = [vocab if name == "V" else batch for vocab, batch in settings]
    slope = exponent(sizes, [side.median for side in sides.values()])
    held = f"batch {settings[0][1]}" if name == "V" else f"V = {settings[0][0]}"
    return Measurement(
        what=f"cost of a batch against {name}, {held}, from probabilities",
        unit="us a call",
        sides=sides,
        note=f"fitted exponent {slope:.2f}; in theory at most 1",
    )


def _repeated(job: Job, times: int) -> Job:
    def run() -> None:
        for _ in range(times):
            job()

    return run


def _peer() -> Any:
    try:
        from transformers.generation import utils
    except ImportError:
        return None
    return utils._speculative_sampling
