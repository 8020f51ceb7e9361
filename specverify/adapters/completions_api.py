"""Completion servers: requests that leave nothing to defaults; ids and counts of answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from specverify.errors import InvalidEmissionError
from specverify.warping import SamplingParams

__all__ = ["completion_request", "counts_of", "spaced_seeds", "token_ids"]


def completion_request(
    prompt: Sequence[int], max_new_tokens: int, sampling: SamplingParams
) -> dict[str, Any]:
    """A request that spells out every sampling field: no default of the server creeps in.

    Args:
        prompt: Ids.
        max_new_tokens: Length.
        sampling: Temperature and filters; the server applies them in this library's order.
    """
    return {
        "prompt": [int(token) for token in prompt],
        "max_tokens": max_new_tokens,
        "temperature": float(sampling.temperature),
        "top_k": sampling.top_k or 0,
        "top_p": 1.0 if sampling.top_p is None else float(sampling.top_p),
        "min_p": 0.0 if sampling.min_p is None else float(sampling.min_p),
        "samplers": ["temperature", "top_k", "top_p", "min_p"],
        "repeat_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "logprobs": 1,  # brings the ids; the values are not used
    }


def spaced_seeds(seed: int, count: int, stride: int) -> list[int]:
    """Seeds at least ``stride`` apart: servers give choice ``i`` of a request the seed plus ``i``.

    Args:
        seed: Source of them.
        count: How many.
        stride: Choices of one request.
    """
    blocks = np.random.SeedSequence(seed).generate_state(count, np.uint32) // (2 * stride)
    return [int(block) * stride for block in blocks]


def token_ids(choice: Mapping[str, Any]) -> list[int]:
    """Ids of one choice: never text that would have to be tokenised again.

    Args:
        choice: Member of ``choices``.

    Raises:
        InvalidEmissionError: If the answer holds no ids.
    """
    for place in ("token_ids", "tokens", "output_ids"):  # vLLM, llama-server, SGLang
        found = choice.get(place)
        if isinstance(found, list) and all(isinstance(token, int) for token in found):
            return [int(token) for token in found]
    content = (choice.get("logprobs") or {}).get("content")
    if isinstance(content, list) and all("id" in entry for entry in content):
        return [int(entry["id"]) for entry in content]
    raise InvalidEmissionError(
        f"the server's answer holds no token ids (keys {', '.join(sorted(choice))})"
    )


def counts_of(answer: Mapping[str, Any]) -> tuple[int, int] | None:
    """Accepted and drafted tokens of an answer with one choice; None where it does not count.

    Args:
        answer: The whole answer.
    """
    if len(answer["choices"]) != 1:
        return None  # the counters are the request's and not the choice's
    timings = answer.get("timings")
    if isinstance(timings, Mapping) and "predicted_n" in timings:  # llama-server
        # It leaves the counts out where nothing was drafted.
        return int(timings.get("draft_n_accepted", 0)), int(timings.get("draft_n", 0))
    metrics = (answer.get("metrics") or {}).get("speculative_decoding")
    if isinstance(metrics, Mapping):  # vLLM
        return int(metrics["num_accepted_draft_tokens"]), int(metrics["num_draft_tokens"])
    meta = answer["choices"][0].get("meta_info") or answer.get("meta_info")
    if isinstance(meta, Mapping) and "spec_num_correct_drafts" in meta:  # SGLang
        return int(meta["spec_num_correct_drafts"]), int(meta["spec_num_proposed_drafts"])
    return None
