"""Verification as other libraries do it, where they are installed.

What is not installed, or has no code for tensors on the host, is left out, and said so.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from specverify.adapters.loading import load_file, load_module
from specverify.bench.blocks import DrawnBlocks
from specverify.bench.timing import Job
from specverify.errors import MissingDependencyError

__all__ = ["LUCIDRAINS", "TRANSFORMERS", "VLLM", "PeerJob", "peers"]

TRANSFORMERS = "transformers, block by block"
LUCIDRAINS = "speculative-decoding"
VLLM = "vLLM's PyTorch path"
_ONE_BY_ONE = 32  # blocks of a batch
_NUMBERS = 2**23  # of a row of each block of a batch: these make several copies


class PeerJob(NamedTuple):
    """What to time.

    Attributes:
        run: Verifies the blocks.
        blocks: How many.
        rest: What ``run`` does besides, to be taken off.
    """

    run: Job
    blocks: int
    rest: Job | None = None


def peers(logits: DrawnBlocks, laws: DrawnBlocks | None = None) -> tuple[dict[str, PeerJob], str]:
    """Jobs of the peers that are there, by name, and a line about those that are not.

    Args:
        logits: Scores of some blocks; none need be of ``laws``.
        laws: Probabilities of some blocks, for peers that take those; None for those that take
            scores.
    """
    makers: dict[str, Callable[[], PeerJob]] = {TRANSFORMERS: partial(_transformers, logits)}
    if laws is None:
        makers[LUCIDRAINS] = partial(_lucidrains, _some(logits))
    else:
        makers[VLLM] = partial(_vllm, _some(laws))
    jobs, missing = {}, []
    for name, make in makers.items():
        try:
            jobs[name] = make()
        except MissingDependencyError as error:
            missing.append(f"{name} left out: {error.package} is not installed")
        except FileNotFoundError:
            missing.append(f"{name} left out: the installed version has kernels for a GPU alone")
    return jobs, "; ".join(missing)


def _some(blocks: DrawnBlocks) -> DrawnBlocks:
    return blocks.first(max(1, _NUMBERS // blocks.target.shape[-1]))


def _transformers(blocks: DrawnBlocks) -> PeerJob:
    """``_speculative_sampling``, which takes the logits of one block."""
    function = load_module("transformers.generation.utils", "transformers")._speculative_sampling
    some = blocks.first(_ONE_BY_ONE)
    gamma = some.tokens.shape[1]

    def run() -> None:
        for tokens, draft, target in zip(some.tokens, some.draft, some.target, strict=True):
            function(tokens[None], draft[None], gamma, target[None])

    return PeerJob(run, len(some.tokens))


class _Drafted(Exception):
    """Everything is drafted."""


def _lucidrains(blocks: DrawnBlocks) -> PeerJob:
    """A round of ``speculative_decoding``, less its drafting; with its own default filter."""
    decode = load_module("speculative_decoding.speculative_decoding", "speculative-decoding")
    batch, gamma = blocks.tokens.shape
    prompt = torch.zeros(batch, 1, dtype=torch.int64)

    def cache(length: int) -> tuple[Tensor, None]:
        return blocks.target.new_zeros(batch, 1, length, 1), None

    def small(ids: Tensor, **_: Any) -> tuple[Tensor, Any]:
        place = ids.shape[1] - 1
        return blocks.draft[:, place : place + 1], cache(place + 1)

    def run(verify: bool) -> None:
        def large(ids: Tensor, **_: Any) -> tuple[Tensor, Any]:
            if not verify:
                raise _Drafted
            return blocks.target, cache(ids.shape[1])

        try:
            decode.speculative_decoding(large, small, prompt, 2, gamma=gamma)
        except _Drafted:
            return

    return PeerJob(partial(run, True), batch, partial(run, False))


def _vllm(blocks: DrawnBlocks) -> PeerJob:
    """The sampler that vLLM had up to 0.9, which takes probabilities; not compiled."""
    sampler = _vllm_module().RejectionSampler(use_flashinfer=False)
    for count in ("num_accepted_tokens", "num_emitted_tokens"):
        setattr(sampler, count, torch.tensor(0))

    def run() -> None:
        bonus = torch.multinomial(blocks.target[:, -1], 1)
        sampler(blocks.target, bonus, blocks.draft, blocks.tokens)

    return PeerJob(run, len(blocks.tokens))


def _vllm_module() -> Any:
    """The sampler's file, over stand-ins of what it imports from the rest of vLLM."""
    folder, base = "model_executor/layers", "spec_decode_base_sampler"
    platform = SimpleNamespace(simple_compile_backend="eager")
    spec = find_spec("vllm")
    if spec is None:
        raise MissingDependencyError("vllm", "vllm")
    package: dict[str, Any] = {"__spec__": spec, "__path__": []}
    with _stand_ins(
        {
            "vllm": package,
            "vllm.envs": {"VLLM_USE_FLASHINFER_SAMPLER": False},
            "vllm.logger": {"init_logger": logging.getLogger},
            "vllm.platforms": {"current_platform": platform},
            "vllm.model_executor": {"__path__": []},
            "vllm.model_executor.layers": {"__path__": []},
        }
    ) as add:
        add(f"vllm.model_executor.layers.{base}", load_file("vllm", f"{folder}/{base}.py", "vllm"))
        return load_file("vllm", f"{folder}/rejection_sampler.py", "vllm")


@contextmanager
def _stand_ins(contents: dict[str, dict[str, Any]]) -> Iterator[Callable[[str, ModuleType], None]]:
    """Modules with these contents, and whatever is added; all are taken away again."""
    before = {}

    def add(name: str, module: ModuleType) -> None:
        before[name] = sys.modules.get(name)
        sys.modules[name] = module

    try:
        for name, values in contents.items():
            add(name, ModuleType(name))
            vars(sys.modules[name]).update(values)
        yield add
    finally:
        for name, module in before.items():
            del sys.modules[name]
            if module is not None:
                sys.modules[name] = module
