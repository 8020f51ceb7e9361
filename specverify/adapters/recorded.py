"""Completions that somebody recorded, as JSON Lines, Parquet or NPZ: audited without the engine.

A record is one completion:

``prompt``, ``tokens``: ids. ``temperature``, ``top_k``, ``top_p``, ``min_p``: the sampling setting,
temperature 1 without filters by default. ``accepted``, ``drafted``, ``passes``: counters, where
known. ``target_probs``, ``draft_probs``: the laws of each token, shape ``(length, vocab)``, where
the recording has them; otherwise ``reference`` names the model that they are evaluated from.

JSON Lines and Parquet hold a record a row. NPZ holds arrays of these names with a leading axis;
``prompt`` and ``tokens`` are padded with -1 at their ends.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specverify.errors import InvalidInputError, MissingDependencyError, UnknownTargetError
from specverify.warping import SamplingParams

__all__ = ["SUFFIXES", "Recording", "read_recordings"]

SUFFIXES = (".jsonl", ".parquet", ".npz")
_COUNTERS = ("accepted", "drafted", "passes")
_LAWS = ("target_probs", "draft_probs")
_SAMPLING = ("temperature", "top_k", "top_p", "min_p")


@dataclass(frozen=True, kw_only=True, eq=False)
class Recording:
    """Completions under one sampling setting.

    Attributes:
        sampling: Temperature and filters.
        prompts: Ids before each completion.
        tokens: New ids, int64, shape ``(n, length)``, padded with -1 after an end.
        counters: Accepted, drafted and passes of each completion, shape ``(n,)``, where known.
        laws: ``target_probs`` and ``draft_probs`` of each token, shape ``(n, length, vocab)``,
            where recorded; rows after an end are zero.
    """

    sampling: SamplingParams
    prompts: tuple[tuple[int, ...], ...]
    tokens: NDArray[np.int64]
    counters: Mapping[str, NDArray[np.int64]]
    laws: Mapping[str, NDArray[np.float64]]

    def describe(self) -> dict[str, Any]:
        """Setting, length and number of completions, JSON-compatible."""
        settings = {name: getattr(self.sampling, name) for name in _SAMPLING}
        available, length = self.tokens.shape
        return settings | {"length": int(length), "available": int(available)}


def read_recordings(path: Path) -> tuple[Recording, ...]:
    """Read a file; completions are grouped by their sampling setting, in order of appearance.

    Args:
        path: A file with one of :data:`SUFFIXES`.

    Raises:
        UnknownTargetError: If there is no such file.
        InvalidInputError: If a record is not what it must be; the message names its number.
        MissingDependencyError: If Parquet is read without package pyarrow.
    """
    if not path.is_file():
        raise UnknownTargetError("target", f"no such file: {path}")
    readers = {".jsonl": _json_lines, ".parquet": _parquet, ".npz": _npz}
    groups: dict[SamplingParams, list[dict[str, Any]]] = {}
    for number, record in enumerate(readers[path.suffix](path), start=1):
        try:
            sampling, checked = _checked(record)
        except (InvalidInputError, TypeError, ValueError) as error:
            raise InvalidInputError("target", f"record {number} of {path}: {error}") from error
        groups.setdefault(sampling, []).append(checked)
    if not groups:
        raise InvalidInputError("target", f"{path} holds no completions")
    return tuple(_grouped(sampling, records) for sampling, records in groups.items())


def _json_lines(path: Path) -> Iterator[Mapping[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                yield json.loads(line)
            except ValueError as error:
                raise InvalidInputError("target", f"line {number} of {path}: {error}") from error


def _parquet(path: Path) -> Iterator[Mapping[str, Any]]:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise MissingDependencyError("pyarrow", "parquet") from error
    for batch in parquet.ParquetFile(path).iter_batches():
        yield from batch.to_pylist()


def _npz(path: Path) -> Iterator[Mapping[str, Any]]:
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    for name in ("prompt", "tokens"):
        if name not in arrays:
            raise InvalidInputError("target", f"{path} has no array {name!r}")
    for row in range(len(arrays["tokens"])):
        record = {name: values[row] for name, values in arrays.items()}
        for name in ("prompt", "tokens"):
            record[name] = record[name][record[name] >= 0]
        yield record


def _checked(record: Any) -> tuple[SamplingParams, dict[str, Any]]:
    if not isinstance(record, Mapping):
        raise InvalidInputError("record", f"must be an object, got {type(record).__name__}")
    unknown = set(record) - {"prompt", "tokens", *_COUNTERS, *_LAWS, *_SAMPLING}
    if unknown:
        raise InvalidInputError("record", f"has unknown fields {', '.join(sorted(unknown))}")
    found: dict[str, Any] = {
        "prompt": _ids(record, "prompt", least=1),
        "tokens": _ids(record, "tokens", least=0),
    }
    for name in _COUNTERS:
        if record.get(name) is not None:
            found[name] = _count(record, name)
    for name in _LAWS:
        if record.get(name) is not None:
            found[name] = _law(record[name], name, len(found["tokens"]))
    return _sampling(record), found


def _ids(record: Mapping[str, Any], name: str, *, least: int) -> tuple[int, ...]:
    values = record.get(name)
    if values is None or isinstance(values, str):
        raise InvalidInputError(name, f"must be a list of ids, got {values!r}")
    ids = np.asarray(values)
    if ids.ndim != 1 or len(ids) < least or (len(ids) and ids.dtype.kind not in "iu"):
        raise InvalidInputError(name, f"must be a list of at least {least} ids, got {values!r}")
    if len(ids) and ids.min() < 0:
        raise InvalidInputError(name, f"must hold ids from 0, got {int(ids.min())}")
    return tuple(int(token) for token in ids)


def _count(record: Mapping[str, Any], name: str) -> int:
    value = record[name]
    if int(value) != value or value < 0:
        raise InvalidInputError(name, f"must be a count, got {value!r}")
    return int(value)


def _law(values: Any, name: str, length: int) -> NDArray[np.float64]:
    law = np.asarray(values, dtype=np.float64)
    if law.ndim != 2 or len(law) < length:
        raise InvalidInputError(name, f"needs a row a token ({length}), got shape {law.shape}")
    law = law[:length]
    if not np.allclose(law.sum(axis=1), 1.0, atol=1e-4) or (law < 0).any():
        raise InvalidInputError(name, "has a row that is no distribution")
    normalised: NDArray[np.float64] = law / law.sum(axis=1, keepdims=True)
    return normalised


def _sampling(record: Mapping[str, Any]) -> SamplingParams:
    given = {name: record[name] for name in _SAMPLING if record.get(name) is not None}
    kinds = {"top_k": int}
    settings = {name: kinds.get(name, float)(value) for name, value in given.items()}
    if not settings.get("top_k", 1):
        del settings["top_k"]  # engines write 0 for no limit
    return SamplingParams(**settings)  # type: ignore[arg-type]


def _grouped(sampling: SamplingParams, records: list[dict[str, Any]]) -> Recording:
    n, length = len(records), max(1, *(len(record["tokens"]) for record in records))
    tokens = np.full((n, length), -1, np.int64)
    for row, record in enumerate(records):
        tokens[row, : len(record["tokens"])] = record["tokens"]
    # A counter or a law that a record lacks would make sums that mean nothing: all or none.
    counters = {
        name: np.array([record[name] for record in records], np.int64)
        for name in _COUNTERS
        if all(name in record for record in records)
    }
    laws = {
        name: _stacked([record[name] for record in records], length)
        for name in _LAWS
        if all(name in record for record in records)
    }
    prompts = tuple(record["prompt"] for record in records)
    return Recording(
        sampling=sampling, prompts=prompts, tokens=tokens, counters=counters, laws=laws
    )


def _stacked(laws: list[NDArray[np.float64]], length: int) -> NDArray[np.float64]:
    vocab = {law.shape[1] for law in laws if len(law)}
    if len(vocab) > 1:
        raise InvalidInputError("target", f"has laws over {sorted(vocab)} tokens")
    stacked = np.zeros((len(laws), length, max(vocab, default=1)))
    for row, law in enumerate(laws):
        stacked[row, : len(law)] = law
    return stacked
