"""How the verification steps of third-party libraries are called: one function a case.

Each case draws its drafts, calls the library, and returns the emitted tokens of a batch of blocks.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import torch
from torch import Tensor

VOCAB, GAMMA = 3, 2

# Rows that differ by position: identical ones would hide a row that is off by one.
TARGET = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.25, 0.15, 0.6]])
DRAFT = torch.tensor([[0.2, 0.3, 0.5], [0.55, 0.25, 0.2]])

Block: TypeAlias = list[int]
Run: TypeAlias = Callable[[int], list[Block]]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One function of a library.

    Attributes:
        package: What pip installs.
        module: What it is imported as.
        function: What is audited.
        make: Imports it and returns ``run(batch)``, which verifies that many blocks.
        batch: Blocks in a call when sampling; the tracer takes one.
    """

    package: str
    module: str
    function: str
    make: Callable[[], Run]
    batch: int = 1

    @property
    def name(self) -> str:
        """What the report calls it."""
        return f"{self.package}: {self.function}"


def load(module: str) -> Any:
    """A module of an audited library, which need not be there."""
    return importlib.import_module(module)


def load_alone(package: str, path: str) -> Any:
    """One file of a package whose ``__init__`` does not run on this python."""
    found = importlib.util.find_spec(package)
    assert found is not None
    assert found.submodule_search_locations is not None
    file = Path(next(iter(found.submodule_search_locations))) / path
    spec = importlib.util.spec_from_file_location(f"{package}_alone", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def drafts(batch: int) -> Tensor:
    """Drafted ids, shape ``(batch, gamma)``."""
    rows = [torch.multinomial(row.expand(batch, -1), 1) for row in DRAFT]
    return torch.cat(rows, dim=1)


class RowsModel:
    """A causal model whose logits depend on the position alone."""

    def __init__(self, rows: Tensor) -> None:
        self._logits = rows.log()

    def __call__(self, ids: Tensor, **options: Any) -> Any:
        """Logits of each position, shape ``(batch, len, vocab)``; the last row is repeated."""
        places = torch.arange(ids.shape[1]).clamp(max=len(self._logits) - 1)
        return SimpleNamespace(logits=self._logits[places].expand(len(ids), -1, -1))


class PairModel(RowsModel):
    """The same, returning its logits and a cache."""

    def __call__(self, ids: Tensor, **options: Any) -> Any:
        """Logits of each position and nothing cached."""
        return super().__call__(ids).logits, None


class CachedModel(RowsModel):
    """The same, returning its logits and a cache of the length of the text."""

    def __call__(self, ids: Tensor, **options: Any) -> Any:
        """Logits of each position, shape ``(batch, len, vocab)``, and a cache of that length."""
        kept = torch.zeros(len(ids), 1, ids.shape[1], 1)
        return super().__call__(ids).logits, (kept, None)


def tile(rows: Tensor, batch: int) -> Tensor:
    return rows.log().expand(batch, -1, -1)


def flashspec_step() -> Run:
    rejection_step = load("flashspec.sampling.rejection").rejection_step

    def run(batch: int) -> list[Block]:
        tokens = drafts(batch)
        found = rejection_step(tokens, tile(DRAFT, batch), tile(TARGET, batch))
        pairs = zip(tokens.tolist(), found.tolist(), strict=True)
        return [[*ids[:accepted], last] for ids, (accepted, last) in pairs]

    return run


def flashspec_sample() -> Run:
    rejection_sample = load("flashspec.sampling.rejection").rejection_sample

    def run(batch: int) -> list[Block]:
        tokens = drafts(batch)
        rows = tile(DRAFT, batch), tile(TARGET[:-1], batch)
        emitted, _, _ = rejection_sample(tokens, *rows, tokens, GAMMA)
        # It leaves the bonus token to its caller.
        return [[token for token in ids if token >= 0] for ids in emitted.tolist()]

    return run


def economize_verify() -> Run:
    verifier = object.__new__(load("economize.decoding.verifiers").RejectionVerifier)
    selector = load("economize.decoding.selectors").TopPSampler(temperature=1.0, top_p=1.0)
    history = torch.zeros(8, dtype=torch.int64)

    def run(batch: int) -> list[Block]:
        tokens = drafts(batch)[0].tolist()
        accepted, last = verifier.verify(TARGET.log(), tokens, DRAFT, selector, history, 1)
        return [[*tokens[:accepted], last]]

    return run


def economize_batch() -> Run:
    draft_of = load("economize.decoding.protocols").Draft
    verifier = object.__new__(load("economize.decoding.verifiers").RejectionVerifier)
    selector = load("economize.decoding.selectors").TopPSampler(temperature=1.0, top_p=1.0)

    def run(batch: int) -> list[Block]:
        tokens = drafts(batch)
        draft = draft_of(tokens, [GAMMA] * batch, None, DRAFT.expand(batch, -1, -1))
        history = torch.zeros(batch, 8, dtype=torch.int64)
        found = verifier.verify_batch(tile(TARGET, batch), draft, selector, history, [1] * batch)
        rows = zip(tokens.tolist(), *(part.tolist() for part in found), strict=True)
        return [[*ids[:accepted], last] for ids, accepted, last in rows]

    return run


def seqspec_standard() -> Run:
    step = load("seqspecdecod.standard_sd").standard_speculative_step

    models, start = (RowsModel(DRAFT), RowsModel(TARGET)), torch.zeros(1, 1, dtype=torch.int64)

    def run(batch: int) -> list[Block]:
        heat = {"draft_temperature": 1.0, "target_temperature": 1.0}
        emitted, _, _ = step(*models, start, gamma=GAMMA, **heat)
        return [emitted[0, 1:].tolist()]

    return run


def rotalabs_rejection() -> Run:
    rejection_sample = load("rotalabs_accel.speculative").rejection_sample

    def run(batch: int) -> list[Block]:
        emitted: Block = []
        for place, token in enumerate(drafts(1)[0].tolist()):
            odds = TARGET[place, token], DRAFT[place, token], torch.tensor(token)
            accepted, chosen = rejection_sample(*odds, TARGET[place].log())
            emitted.append(int(chosen))
            if not accepted:
                return [emitted]
        return [[*emitted, int(torch.multinomial(TARGET[-1], 1))]]

    return run


def specdec_verify() -> Run:
    decoder = object.__new__(load("specdec.decoder").SpecDecoder)
    decoder.device, decoder.big_model, decoder.small_model = (
        "cpu",
        RowsModel(TARGET),
        RowsModel(DRAFT),
    )
    start = torch.zeros(1, 1, dtype=torch.int64)

    def run(batch: int) -> list[Block]:
        tokens, rows = decoder.generate_small(start, GAMMA)
        return [decoder.verify(start, tokens, rows)]

    return run


def naive_sampling() -> Run:
    speculative_sampling = load_alone("naive_speculate", "speculate/utils.py").speculative_sampling

    def run(batch: int) -> list[Block]:
        tokens = drafts(1)[0]
        accepted, last = speculative_sampling(TARGET, DRAFT, tokens)
        return [[*tokens[: int(accepted)].tolist(), int(last)]]

    return run


def mini_infer_step() -> Run:
    step = load("mini_infer.speculative.verifier").speculative_step
    models, start = (PairModel(TARGET), PairModel(DRAFT)), torch.zeros(1, 1, dtype=torch.int64)

    def run(batch: int) -> list[Block]:
        return [step(*models, start, k_draft=GAMMA, temperature=1.0)[0]]

    return run


def lucidrains_decoding() -> Run:
    decode = load("speculative_decoding").speculative_decoding
    models, start = (CachedModel(TARGET), CachedModel(DRAFT)), torch.zeros(1, 1, dtype=torch.int64)

    def run(batch: int) -> list[Block]:
        # A whole loop: it goes on until there are enough tokens, whatever it accepts.
        emitted, _ = decode(*models, start, 2 + GAMMA, gamma=GAMMA, filter_thres=0.0)
        return [emitted[0].tolist()]

    return run


_LARGE = 1000
CASES = tuple(
    Case(package=package, module=module, function=function, make=make, batch=batch)
    for package, module, function, make, batch in (
        ("flashspec", "flashspec", "rejection_step", flashspec_step, _LARGE),
        ("flashspec", "flashspec", "rejection_sample", flashspec_sample, _LARGE),
        ("economize", "economize", "RejectionVerifier.verify_batch", economize_batch, _LARGE),
        ("economize", "economize", "RejectionVerifier.verify", economize_verify, 1),
        (
            "sequential-speculative-decoding",
            "seqspecdecod",
            "standard_speculative_step",
            seqspec_standard,
            1,
        ),
        ("rotalabs-accel", "rotalabs_accel", "rejection_sample", rotalabs_rejection, 1),
        ("specdec", "specdec", "SpecDecoder.verify", specdec_verify, 1),
        ("naive-speculate", "naive_speculate", "speculative_sampling", naive_sampling, 1),
        ("mini-infer", "mini_infer", "speculative_step", mini_infer_step, 1),
        (
            "speculative-decoding",
            "speculative_decoding",
            "speculative_decoding",
            lucidrains_decoding,
            1,
        ),
    )
)
