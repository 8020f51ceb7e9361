"""What a completion server answers: token ids wherever it puts them, and what it counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specverify.errors import InvalidEmissionError

__all__ = ["counts_of", "token_ids"]


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
    if isinstance(timings, Mapping) and "draft_n" in timings:  # llama-server
        return int(timings.get("draft_n_accepted", 0)), int(timings["draft_n"])
    metrics = (answer.get("metrics") or {}).get("speculative_decoding")
    if isinstance(metrics, Mapping):  # vLLM
        return int(metrics["num_accepted_draft_tokens"]), int(metrics["num_draft_tokens"])
    meta = answer["choices"][0].get("meta_info") or answer.get("meta_info")
    if isinstance(meta, Mapping) and "spec_num_correct_drafts" in meta:  # SGLang
        return int(meta["spec_num_correct_drafts"]), int(meta["spec_num_proposed_drafts"])
    return None
