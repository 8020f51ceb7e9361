"""Drafts that do not come from the law they are scored with."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np

from specverify._arrays import FloatArray
from specverify.bugs.base import Bug, Kind, Stage
from specverify.bugs.draws import Draws
from specverify.bugs.loops import Blocks, NextProbs, Proposal, Request, StagedDecoder
from specverify.bugs.staged import normalised
from specverify.distributions import acceptance_probabilities, one_hot, residual_distribution
from specverify.warping import SamplingParams, warp_probs


def _rejection_law(target: FloatArray, draft: FloatArray, proposal: FloatArray) -> FloatArray:
    """Law of a position whose draft comes from ``proposal`` and is scored with ``draft``."""
    kept = proposal * acceptance_probabilities(target, draft)
    lost = np.maximum(1 - kept.sum(axis=-1, keepdims=True), 0)  # rounding may pass 1
    return np.asarray(kept + lost * residual_distribution(target, draft))


def _argmax(law: FloatArray) -> FloatArray:
    return np.asarray(one_hot(law.argmax(axis=-1), law.shape[-1]))


ARGMAX_DRAFT = Bug(
    name="argmax_draft",
    kind=Kind.DECODE,
    stage=Stage.DRAFT,
    mathematics="draft = argmax q, scored with the soft q in place of a one-hot one",
    expected_check="first marginal, acceptance",
    reference="speculative-sampling (jaymody)#3, transformers#33534",
    callable=StagedDecoder(proposal=_argmax),
    row_law=lambda target, draft: _rejection_law(target, draft, _argmax(draft)),
    blind="one-hot q",
    scene="P1",
)


def _best_beam(decoder: StagedDecoder, request: Request, blocks: Blocks, _: Draws) -> Proposal:
    """The likeliest block of the draft, as a wide enough beam search finds it."""
    context = decoder.draft_context(request.prompt, blocks)
    vocab_size = request.draft_next(context).shape[-1]
    best: tuple[float, list[int], FloatArray] | None = None
    for beam in product(range(vocab_size), repeat=request.gamma):
        rows = np.array([request.draft_next((*context, *beam[:i])) for i in range(len(beam))])
        score = float(np.prod(rows[np.arange(len(beam)), beam]))
        if best is None or score > best[0]:
            best = score, list(beam), rows
    assert best is not None
    return best[1:]


BEAM_DRAFT = Bug(
    name="beam_draft",
    kind=Kind.DECODE,
    stage=Stage.DRAFT,
    mathematics="the beam-search block argmax prod q, scored as if drawn from q",
    expected_check="joint",
    reference="ml-recurrent-drafter#6",
    callable=StagedDecoder(draft=_best_beam),
    blind="one-hot q",
    scene="M3",
)


def _bfloat16(law: FloatArray) -> FloatArray:
    """Rounded to eight significant bits, as bfloat16 stores it, and normalised."""
    mantissa, exponent = np.frexp(law)
    return normalised(np.ldexp(np.round(mantissa * 256) / 256, exponent))


DRAFT_IN_BFLOAT16 = Bug(
    name="draft_in_bfloat16",
    kind=Kind.DECODE,
    stage=Stage.NUMERICS,
    mathematics="drafts drawn from q rounded to bf16, scored with q in full precision",
    expected_check="exact law",
    reference="DeepSpec#31",
    callable=StagedDecoder(proposal=_bfloat16),
    row_law=lambda target, draft: _rejection_law(target, draft, _bfloat16(draft)),
    blind="any sample below about 1e6 tokens",
    scene="P1",
)


def _cooler(law: FloatArray) -> FloatArray:
    return warp_probs(law, SamplingParams(temperature=0.7))


DRAFT_TEMPERATURE = Bug(
    name="draft_temperature",
    kind=Kind.DECODE,
    stage=Stage.PARAMETERS,
    mathematics="drafts drawn at T = 0.7, scored with q at T = 1",
    expected_check="first marginal, acceptance",
    callable=StagedDecoder(proposal=_cooler),
    row_law=lambda target, draft: _rejection_law(target, draft, _cooler(draft)),
    blind="uniform q",
    scene="P1",
)


def _top_two(law: FloatArray) -> FloatArray:
    return warp_probs(law, SamplingParams(top_k=2))


DRAFT_TOP_K = Bug(
    name="draft_top_k",
    kind=Kind.DECODE,
    stage=Stage.PARAMETERS,
    mathematics="drafts drawn from the top 2 of q, scored with the whole q",
    expected_check="first marginal, acceptance",
    callable=StagedDecoder(proposal=_top_two),
    row_law=lambda target, draft: _rejection_law(target, draft, _top_two(draft)),
    blind="two tokens",
    scene="P1",
)

_CONFIDENT = 0.5


def _padded(decoder: StagedDecoder, request: Request, blocks: Blocks, draws: Draws) -> Proposal:
    """Stops drafting where q is unsure; the places left over hold -1, which reads the last id."""
    context = decoder.draft_context(request.prompt, blocks)
    proposed: list[int] = []
    rows = [request.draft_next(context)]
    while len(proposed) < request.gamma and rows[-1].max() >= _CONFIDENT:
        proposed.append(draws.token(rows[-1]))
        rows.append(request.draft_next((*context, *proposed)))
    missing = request.gamma - len(proposed)
    laws = (rows + [rows[-1]] * missing)[: request.gamma]
    return proposed + [-1] * missing, np.array(laws)


def _reads_placeholders(request: Request) -> Request:
    """Models that read -1 as their last id."""
    size = len(request.target_next(request.prompt))

    def lenient(model: NextProbs) -> NextProbs:
        return lambda context: model(tuple(token % size for token in context))

    return replace(
        request,
        target_next=lenient(request.target_next),
        draft_next=lenient(request.draft_next),
    )


PLACEHOLDER_DRAFT = Bug(
    name="placeholder_draft",
    kind=Kind.DECODE,
    stage=Stage.DRAFT,
    mathematics="a draft that ends early is padded with -1, and the padding is verified too",
    expected_check="support",
    reference="vllm#40768, vllm#46899",
    callable=StagedDecoder(draft=_padded, prepare=_reads_placeholders),
    blind="drafts of full length",
    scene="M3",
)
