"""The models that transformers runs in each mode, beside our own laws of the same weights."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from specverify.adapters.references import pair_source
from specverify.adapters.transformers_calls import library, quiet
from specverify.adapters.transformers_laws import Model
from specverify.errors import InvalidInputError
from specverify.models.pairs import Source, load_pair
from specverify.models.transformers_model import TransformersModel

if TYPE_CHECKING:
    from specverify.models.gpt import GPTModel

__all__ = [
    "RANDOM",
    "VOCABULARIES",
    "Models",
    "load_models",
    "prepared",
    "random_size",
    "translated",
]

RANDOM = "random-"
"""``random-3``: a pair of random one-layer models of three tokens, small enough to be traced."""

VOCABULARIES = ("overlapping", "subset")
"""The draft's, where it has a tokeniser of its own: with tokens of its own, or with none."""

_SEEDS = (1, 2)
_WIDTH, _HEADS, _LENGTH, _SPREAD = 8, 2, 64, 0.3
_MISSING = 7
"""Every so many of the target's tokens is missing from another vocabulary."""
_LETTER = 0x100


@dataclass(frozen=True, kw_only=True)
class Models:
    """What runs, and what it is compared with.

    Attributes:
        name: Of the pair.
        target: The target as transformers runs it.
        assistant: The draft as transformers runs it; None where nothing drafts.
        exact_target: The target in float64, ids to logits.
        vocab_size: Tokens of the target.
        exact_draft: The draft in float64; None where its law is not a function of the text.
        draft_name: Of the draft, where it has one.
        codec: Text to ids, where the pair has a tokeniser.
        tokenizers: Target's and draft's tokenisers, where they differ.
        ids: The draft's id of each of the target's tokens, where they differ; -1 for none.
        unknown: The draft's id for such a token.
        arguments: What ``generate`` must be told to draft so.
        deepest: Module that runs in the target's own passes alone, where the draft is a part of it.
        drafts_a_call: Tokens that a call of the draft drafts.
    """

    name: str
    target: Any
    assistant: Any
    exact_target: Model
    vocab_size: int
    exact_draft: Model | None = None
    draft_name: str | None = None
    codec: Any = None
    tokenizers: tuple[Any, Any] | None = None
    ids: tuple[int, ...] = ()
    unknown: int = 0
    arguments: Mapping[str, Any] = field(default_factory=dict)
    deepest: Any = None
    drafts_a_call: int = 1


def load_models(pair: Source | tuple[Source, Source], draft: Source | None, dtype: str) -> Models:
    """A pair with one vocabulary: ours in float64, and as transformers loads it.

    Args:
        pair: ``"tiny"``, ``"random-3"``, or what ``load_pair`` takes.
        draft: Which draft.
        dtype: Dtype that transformers computes in.
    """
    load = library().AutoModelForCausalLM.from_pretrained
    source = pair if isinstance(pair, tuple) else _source(pair)
    exact = load_pair(source, draft=draft, dtype="float64")
    with quiet():
        loaded = [load(str(s), dtype=dtype) for s in (exact.target_source, exact.draft_source)]
    target, assistant = (prepared(model) for model in loaded)
    return Models(
        name=str(pair) if isinstance(pair, str) else exact.name,
        target=target,
        assistant=assistant,
        exact_target=exact.target,  # type: ignore[arg-type]
        exact_draft=exact.draft,  # type: ignore[arg-type]
        vocab_size=exact.target.vocab_size,
        draft_name=str(getattr(exact.draft_source, "name", exact.draft_source)),
        codec=exact.tokenizer,
    )


def translated(models: Models, vocabulary: str, *, prune: bool = True) -> Models:
    """The same pair, with a draft that has a vocabulary and a tokeniser of its own.

    Tokens are single characters. The draft's are the target's in reverse order, some left out; an
    overlapping vocabulary has three more, one of which stands for what is unknown.

    Args:
        models: The pair; its draft must be a GPT-2.
        vocabulary: One of :data:`VOCABULARIES`.
        prune: Whether the library prunes the draft, as it does where it samples.
    """
    size = models.vocab_size
    names = [" ", *(chr(_LETTER + i) for i in range(1, size))]
    kept = [i for i in reversed(range(size)) if not i or i % _MISSING]
    kept = kept[1:] if len(kept) == size else kept
    own = [names[i] for i in kept] + (["?", "!", "#"] if vocabulary == "overlapping" else [])
    unknown = own.index("?" if vocabulary == "overlapping" else " ")
    assistant = _with_rows(models.assistant, kept, len(own))
    tokenizers = _tokenizer(names, " "), _tokenizer(own, own[unknown])
    # A copy in float64, made before the library prunes what it is handed.
    exact_draft: Model | None = TransformersModel(copy.deepcopy(assistant).double())
    if prune:
        _prune(assistant, tokenizers, size)
    elif vocabulary == "overlapping":
        # A draft that the target lacks is read as the target's unknown token; the draft goes on
        # from its own, so that what follows is no function of the text.
        exact_draft = None
    return Models(
        name=models.name,
        draft_name=models.draft_name,
        target=models.target,
        assistant=assistant,
        exact_target=models.exact_target,
        exact_draft=exact_draft,
        vocab_size=size,
        tokenizers=tokenizers,
        ids=tuple(kept.index(i) if i in kept else -1 for i in range(size)),
        unknown=unknown,
    )


def random_size(pair: Any) -> int | None:
    """Tokens of a random pair; None for another one."""
    size = str(pair).removeprefix(RANDOM)
    if size == str(pair):
        return None
    if not size.isdecimal() or int(size) < 2:
        raise InvalidInputError("pair", f"needs at least two tokens as in random-3, got {pair!r}")
    return int(size)


def _source(pair: Source) -> Source:
    size = random_size(pair)
    if size is None:
        return pair_source(pair)
    from specverify.models.corpus import default_cache_dir
    from specverify.models.weights import save_gpt

    place = default_cache_dir() / f"random-pair-{size}"
    for seed, name in zip(_SEEDS, ("target", "draft"), strict=True):
        if not (place / name / "config.json").is_file():
            save_gpt(_random_gpt(size, seed), place / name)
    return place


def _random_gpt(vocab_size: int, seed: int) -> GPTModel:
    """One layer, far enough from uniform."""
    from specverify.models.gpt import GPTModel

    generator = torch.Generator().manual_seed(seed)
    model = GPTModel(vocab_size, _WIDTH, _HEADS, 1, _LENGTH, generator=generator)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=_SPREAD)
    return model


def prepared(model: Any) -> Any:
    """Ready to be driven: nothing ends a completion but its length, unless a request says so."""
    model.generation_config.eos_token_id = None
    model.generation_config.bos_token_id = None
    model.generation_config.pad_token_id = None
    return model.eval()


def _with_rows(assistant: Any, kept: list[int], size: int) -> Any:
    """The draft with these rows of its embedding, and new rows behind them."""
    made = copy.deepcopy(assistant)
    old = made.get_input_embeddings().weight.detach()
    made.resize_token_embeddings(size, mean_resizing=False)
    generator = torch.Generator().manual_seed(_SEEDS[0])
    more = torch.randn(size - len(kept), old.shape[1], generator=generator)
    with torch.no_grad():
        rows = torch.cat([old[kept], more.to(old.dtype) * old.std()])
        made.get_input_embeddings().weight.copy_(rows)
        made.get_output_embeddings().weight.copy_(rows)
    return made


def _prune(assistant: Any, tokenizers: tuple[Any, Any], vocab_size: int) -> None:
    """What the first ``generate`` of a pair does; it draws random numbers, no later one does."""
    from transformers.generation.candidate_generator import AssistantVocabTranslatorCache

    with torch.random.fork_rng(devices=[]):
        AssistantVocabTranslatorCache.get_translator(
            *tokenizers, vocab_size, assistant_model=assistant, assistant_prune_lm_head=True
        )


def _tokenizer(names: list[str], unknown: str) -> Any:
    """One token a character."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    ids = {name: i for i, name in enumerate(names)}
    made = Tokenizer(models.WordLevel(ids, unk_token=unknown))
    made.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    made.decoder = decoders.Fuse()
    fast = library().PreTrainedTokenizerFast
    return fast(tokenizer_object=made, clean_up_tokenization_spaces=False)
