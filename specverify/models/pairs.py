"""Target and draft together: the shipped pair, one from a directory, or any two of transformers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import torch

from specverify.errors import InvalidInputError, MissingDependencyError, UnknownTargetError
from specverify.models.gpt import GPTModel
from specverify.models.transformers_model import TransformersModel
from specverify.models.weights import CONFIG_FILE, WEIGHTS_FILE, load_gpt
from specverify.sampler.protocols import CachedModel

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["SHIPPED", "Pair", "TextCodec", "load_model", "load_pair", "shipped_directory"]

SHIPPED = "shipped"
_TARGET = "target"
_TOKENIZER_FILE = "tokenizer.json"
Source: TypeAlias = str | Path


class TextCodec(Protocol):
    """Text to ids and back."""

    def encode(self, text: str) -> list[int]:
        """Ids of a text."""

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids."""

    def vocabulary(self) -> dict[str, int]:
        """Every token's id."""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two models over one vocabulary.

    Attributes:
        name: What it was loaded by.
        target: The model whose law counts.
        draft: The model that proposes.
        tokenizer: Text to ids and back, where one was found.
        target_source: Directory or hub id of the target.
        draft_source: Directory or hub id of the draft.
    """

    name: str
    target: CachedModel
    draft: CachedModel
    tokenizer: TextCodec | None
    target_source: Source
    draft_source: Source


def shipped_directory() -> Path:
    """Where the weights that come with the package are."""
    return Path(__file__).parent / "weights"


def load_pair(
    name: Source | tuple[Source, Source] = SHIPPED,
    *,
    draft: Source | None = None,
    dtype: str | torch.dtype = torch.float32,
) -> Pair:
    """Load a target, its draft and their tokeniser.

    Args:
        name: ``"shipped"``; a directory as ``specverify train`` writes it; or a target and a draft,
            each a directory of the Hugging Face layout or a hub id such as ``"gpt2-medium"``.
        draft: With a directory: which of its drafts, the first by name by default. With one
            target: its draft.
        dtype: Dtype to compute in, also by name.

    Raises:
        UnknownTargetError: If a directory or draft is not there, or the hub cannot be reached.
        InvalidInputError: If the vocabularies differ, or the dtype is no floating one.
        MissingDependencyError: If transformers is needed and not installed.
    """
    kind = _dtype(dtype)
    target_source, draft_source, tokenizer_source = _sources(name, draft)
    target, draft_model = load_model(target_source, kind), load_model(draft_source, kind)
    if target.vocab_size != draft_model.vocab_size:
        raise InvalidInputError(
            "draft",
            f"{draft_source} has {draft_model.vocab_size} tokens, "
            f"but the target {target_source} has {target.vocab_size}",
        )
    tokenizer = _tokenizer(tokenizer_source or target_source)
    if tokenizer_source is None:
        _check_same_tokens(tokenizer, _tokenizer(draft_source), draft_source)
    return Pair(
        name=str(name) if isinstance(name, str | Path) else " + ".join(map(str, name)),
        target=target,
        draft=draft_model,
        tokenizer=tokenizer,
        target_source=target_source,
        draft_source=draft_source,
    )


def load_model(source: Source, dtype: torch.dtype = torch.float32) -> GPTModel | TransformersModel:
    """Load one model: a GPT-2 of this machine as our own, anything else through transformers.

    Args:
        source: Directory of the Hugging Face layout, or hub id.
        dtype: Dtype to compute in.

    Raises:
        UnknownTargetError: If it is neither here nor on a reachable hub.
        InvalidInputError: If the files do not fit together.
        MissingDependencyError: If transformers is needed and not installed.
    """
    config = Path(source) / CONFIG_FILE
    if config.is_file() and (Path(source) / WEIGHTS_FILE).is_file():
        try:
            kind = json.loads(config.read_text("utf-8")).get("model_type")
        except ValueError as error:
            raise InvalidInputError("name", f"{config} is not JSON: {error}") from None
        if kind == "gpt2":
            return load_gpt(source, dtype=dtype)
    from_pretrained = _transformers("AutoModelForCausalLM").from_pretrained
    return TransformersModel(_fetch(from_pretrained, source, dtype=dtype))


def _sources(
    name: Source | tuple[Source, Source], draft: Source | None
) -> tuple[Source, Source, Source | None]:
    """Target, draft, and where their common tokeniser is, if they have one."""
    if isinstance(name, tuple | list):
        if len(name) != 2 or draft is not None:
            raise InvalidInputError("name", f"needs one target and one draft, got {name!r}")
        return name[0], name[1], None
    place = shipped_directory() if name == SHIPPED else Path(name)
    if (place / _TARGET).is_dir():
        return place / _TARGET, _choose_draft(place, draft), place
    if draft is not None:
        return name, draft, None
    raise UnknownTargetError(
        "name", f"{place} has no {_TARGET}/ directory; to load two models, name the draft, too"
    )


def _choose_draft(place: Path, draft: Source | None) -> Path:
    found = {p.parent.name: p for p in place.glob(f"*/{WEIGHTS_FILE}") if p.parent.name != _TARGET}
    if draft is None and found:
        return found[min(found)].parent
    if str(draft) not in found:
        wanted = "a draft" if draft is None else repr(str(draft))
        raise UnknownTargetError("draft", f"{place} has not {wanted}, only {sorted(found)}")
    return found[str(draft)].parent


def _dtype(dtype: str | torch.dtype) -> torch.dtype:
    kind = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if not isinstance(kind, torch.dtype) or not kind.is_floating_point:
        raise InvalidInputError("dtype", f"must be a floating dtype, got {dtype!r}")
    return kind


def _tokenizer(source: Source) -> TextCodec | None:
    file = Path(source) / _TOKENIZER_FILE
    if file.is_file():
        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            raise MissingDependencyError("tokenizers", "torch") from error
        return _FileCodec(Tokenizer.from_file(str(file)))
    if Path(source).is_dir() and not list(Path(source).glob("*token*")):
        return None
    return _HubCodec(_fetch(_transformers("AutoTokenizer").from_pretrained, source))


def _check_same_tokens(
    target: TextCodec | None, draft: TextCodec | None, draft_source: Source
) -> None:
    # Equal sizes do not make equal vocabularies, and ids that mean other text make a useless draft.
    if target is None or draft is None:
        return
    if target.vocabulary() != draft.vocabulary():
        raise InvalidInputError("draft", f"{draft_source} has another tokeniser than the target")


def _transformers(name: str) -> Any:
    try:
        import transformers
    except ImportError as error:
        raise MissingDependencyError("transformers", "hf") from error
    return getattr(transformers, name)


def _fetch(from_pretrained: Callable[..., Any], source: Source, **arguments: Any) -> Any:
    try:
        return from_pretrained(str(source), **arguments)
    except OSError as error:
        raise UnknownTargetError(
            "name",
            f"{str(source)!r} is no model directory on this machine and could not be had from "
            f"the model hub: {str(error).splitlines()[0]}",
        ) from error


class _FileCodec:
    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text).ids)

    def decode(self, ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode([int(i) for i in ids]))

    def vocabulary(self) -> dict[str, int]:
        return dict(self._tokenizer.get_vocab())


class _HubCodec:
    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text))

    def decode(self, ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode([int(i) for i in ids]))

    def vocabulary(self) -> dict[str, int]:
        return dict(self._tokenizer.get_vocab())
