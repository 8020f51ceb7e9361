"""Recorded completions: read from every format, judged as an engine's, refused where malformed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyarrow import Table, parquet

from specverify.adapters.recorded import Recording, read_recordings
from specverify.audit.config import AuditConfig
from specverify.audit.run import audit
from specverify.errors import InvalidInputError, UnknownTargetError
from specverify.models.law import ModelLaw
from specverify.models.pairs import Pair, load_pair
from specverify.models.tiny import write_tiny_pair
from specverify.results import AuditResult, Verdict
from specverify.sampler.decode import speculative_decode
from specverify.warping import SamplingParams

Records = list[dict[str, Any]]
PROMPT, LENGTH, GAMMA = (3, 1, 4), 6, 3


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_pair(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def pair(directory: Path) -> Pair:
    return load_pair(directory, dtype="float64")


def drawn(pair: Pair, n: int, *, temperature: float = 1.0, seed: int = 0) -> Records:
    """Texts of the reference decoder on a law that is fixed by the position: quick, and exact."""
    ids = np.zeros((1, LENGTH), np.int64)
    sampling = SamplingParams(temperature)
    target, draft = (
        ModelLaw(model).probs(PROMPT, ids, sampling)[0] for model in (pair.target, pair.draft)
    )
    rng = np.random.default_rng(seed)
    records = []
    for _ in range(n):
        tokens, trace = speculative_decode(
            np.zeros(1, np.int64),
            lambda text: target[min(len(text) - 1, LENGTH - 1)],
            lambda text: draft[min(len(text) - 1, LENGTH - 1)],
            GAMMA,
            LENGTH,
            rng,
        )
        records.append(
            {
                "prompt": list(PROMPT),
                "tokens": [int(token) for token in tokens][-LENGTH:],
                "passes": len(trace),
                "target_probs": target,
                "draft_probs": draft,
            }
        )
    return records


def as_json_lines(records: Records, path: Path) -> Path:
    lines = [json.dumps(record, default=lambda a: a.tolist()) for record in records]
    path.write_text("\n".join(lines) + "\n\n")
    return path


def as_npz(records: Records, path: Path) -> Path:
    arrays = {name: np.array([record[name] for record in records]) for name in records[0]}
    np.savez(path, **arrays)
    return path


def as_parquet(records: Records, path: Path) -> Path:
    rows = [{k: v.tolist() if hasattr(v, "tolist") else v for k, v in r.items()} for r in records]
    parquet.write_table(Table.from_pylist(rows), path)
    return path


def run(path: Path, **settings: Any) -> AuditResult:
    text = ",".join(f"{key}={value}" for key, value in settings.items())
    return audit(f"{path}#{text}" if text else str(path), config=AuditConfig(tv=0.1))


def verdicts(result: AuditResult) -> tuple[Verdict, Verdict]:
    return result.summary.law, result.summary.efficiency


@pytest.mark.parametrize(
    ("write", "suffix"), [(as_json_lines, "jsonl"), (as_npz, "npz"), (as_parquet, "parquet")]
)
def test_right_samples_pass_in_every_format(
    pair: Pair, tmp_path: Path, write: Callable[[Records, Path], Path], suffix: str
) -> None:
    path = write(drawn(pair, 700), tmp_path / f"samples.{suffix}")
    result = run(path, gamma=GAMMA)
    assert verdicts(result) == (Verdict.PASS, Verdict.PASS), result.summary.headline
    token = next(check for check in result.checks if check.name == "token[recorded-0]")
    assert token.n == 700 * LENGTH  # nothing on record is left out, nothing is counted twice


def test_wrong_samples_fail(pair: Pair, tmp_path: Path) -> None:
    """The negative control: texts of another temperature, under the laws of temperature 1."""
    right, wrong = drawn(pair, 700), drawn(pair, 700, temperature=0.7)
    mixed = [w | {"target_probs": r["target_probs"]} for r, w in zip(right, wrong, strict=True)]
    assert run(as_npz(mixed, tmp_path / "a.npz")).summary.law is Verdict.FAIL


def test_lost_passes_are_seen(pair: Pair, tmp_path: Path) -> None:
    records = [r | {"passes": LENGTH} for r in drawn(pair, 700)]
    result = run(as_npz(records, tmp_path / "a.npz"), gamma=GAMMA)
    assert verdicts(result) == (Verdict.PASS, Verdict.FAIL)


def test_laws_come_from_a_reference_model(directory: Path, pair: Pair, tmp_path: Path) -> None:
    law, rng = ModelLaw(pair.target), np.random.default_rng(5)
    rows: Records = []
    for first in range(2):
        prompt = (first, 1, 2)
        tokens = np.zeros((400, 3), np.int64)
        for position in range(3):  # drawn from the model itself, token by token
            probs = law.probs(prompt, tokens, SamplingParams())[:, position]
            tokens[:, position] = (probs.cumsum(-1) < rng.random((400, 1))).sum(-1)
        rows += [{"prompt": list(prompt), "tokens": row.tolist()} for row in tokens]
    path = as_json_lines([rows[i] for i in rng.permutation(len(rows))], tmp_path / "a.jsonl")
    assert run(path, reference=directory).summary.law is Verdict.PASS
    draft = directory / "draft"
    assert run(path, reference=draft).summary.law is Verdict.FAIL


def test_settings_are_told_apart(tmp_path: Path) -> None:
    records = [{"prompt": [0], "tokens": [1, 2], "temperature": t} for t in (1.0, 0.5, 1.0)]
    records[2] |= {"top_k": 0, "tokens": [4]}
    first, second = read_recordings(as_json_lines(records, tmp_path / "a.jsonl"))
    assert isinstance(first, Recording)
    assert (first.sampling, second.sampling) == (SamplingParams(), SamplingParams(0.5))
    np.testing.assert_array_equal(first.tokens, [[1, 2], [4, -1]])
    assert first.describe()["available"] == 2


@pytest.mark.parametrize(
    ("record", "match"),
    [
        ({"tokens": [1]}, "record 2 .*prompt: must be a list of ids, got None"),
        ({"prompt": [1], "tokens": [0.5]}, r"tokens: must be a list of at least 0 ids"),
        ({"prompt": [1], "tokens": [-2]}, "tokens: must hold ids from 0, got -2"),
        ({"prompt": [], "tokens": [1]}, "prompt: must be a list of at least 1 ids"),
        ({"prompt": "a b", "tokens": [1]}, "prompt: must be a list of ids, got 'a b'"),
        ({"prompt": [1], "tokens": [1], "passes": -1}, "passes: must be a count, got -1"),
        ({"prompt": [1], "tokens": [1], "temprature": 1}, "unknown fields temprature"),
        ({"prompt": [1], "tokens": [1], "temperature": -1}, "temperature"),
        ({"prompt": [1], "tokens": [1], "target_probs": [[0.5, 0.4]]}, "is no distribution"),
        ({"prompt": [1], "tokens": [1, 1], "target_probs": [[1.0]]}, r"a row a token \(2\)"),
    ],
)
def test_a_malformed_record_is_named(record: dict[str, Any], match: str, tmp_path: Path) -> None:
    path = as_json_lines([{"prompt": [0], "tokens": [1]}, record], tmp_path / "a.jsonl")
    with pytest.raises(InvalidInputError, match=match):
        read_recordings(path)


def test_a_file_that_cannot_be_judged(pair: Pair, tmp_path: Path) -> None:
    with pytest.raises(UnknownTargetError, match="no such file"):
        run(tmp_path / "a.jsonl")
    (tmp_path / "a.jsonl").write_text("")
    with pytest.raises(InvalidInputError, match="holds no completions"):
        run(tmp_path / "a.jsonl")
    (tmp_path / "a.jsonl").write_text("{")
    with pytest.raises(InvalidInputError, match="line 1 of"):
        run(tmp_path / "a.jsonl")
    path = as_json_lines([{"prompt": [0], "tokens": [1]}], tmp_path / "b.jsonl")
    with pytest.raises(InvalidInputError, match="reference: names the model"):
        run(path)
    big = as_json_lines([{"prompt": [0], "tokens": [99]}], tmp_path / "c.jsonl")
    with pytest.raises(InvalidInputError, match="holds id 99, outside the law's 32 tokens"):
        run(big, reference=Path(str(pair.target_source)).parent)
