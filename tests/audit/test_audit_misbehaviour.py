"""Implementations that crash, hang or return nonsense: a verdict with its input, not our crash."""

from __future__ import annotations

import os
import time

import numpy as np
import pytest

from specverify.audit.config import AuditConfig
from specverify.audit.run import audit
from specverify.audit.verdicts import exit_code
from specverify.errors import UnknownTargetError
from specverify.results import Verdict

HERE = __file__


def _first(target_probs: np.ndarray) -> np.ndarray:
    return target_probs[0].argmax(keepdims=True)


def raises(target_probs, draft_probs, draft_tokens, generator):
    raise RuntimeError("out of luck")


def too_many(target_probs, draft_probs, draft_tokens, generator):
    return np.zeros(len(draft_tokens) + 2, dtype=int)


def none_at_all(target_probs, draft_probs, draft_tokens, generator):
    return np.zeros(0, dtype=int)


def out_of_range(target_probs, draft_probs, draft_tokens, generator):
    return np.array([target_probs.shape[-1]])


def negative(target_probs, draft_probs, draft_tokens, generator):
    return [-1]


def fractions(target_probs, draft_probs, draft_tokens, generator):
    return np.array([0.5])


def not_tokens(target_probs, draft_probs, draft_tokens, generator):
    return {"tokens": [0]}


def wrong_count(target_probs, draft_probs, draft_tokens, generator):
    return _first(target_probs), len(draft_tokens) + 2


def mutates(target_probs, draft_probs, draft_tokens, generator):
    target_probs[0] = 0
    return np.array([0])


def leaves(target_probs, draft_probs, draft_tokens, generator):
    raise SystemExit(3)


def aborts(target_probs, draft_probs, draft_tokens, generator):
    os.abort()


def hangs(target_probs, draft_probs, draft_tokens, generator):
    while True:
        time.sleep(0.01)


def hungry(target_probs, draft_probs, draft_tokens, generator):
    return np.ones(10**10)


def of_a_batch(target_probs, draft_probs, draft_tokens, generator):
    batch, _, _ = draft_probs.shape
    return np.zeros((batch, 1), dtype=int)


def padded(target_probs, draft_probs, draft_tokens, generator):
    return [0, -1, -1]


def three_values(target_probs, draft_probs, draft_tokens, generator):
    return draft_tokens[:0], 0, _first(target_probs)[0]


def nested(target_probs, draft_probs, draft_tokens, generator):
    import torch

    return [torch.zeros(2, dtype=torch.int64)]


INLINE = {
    raises: ("ImplementationRaisedError", "raised RuntimeError: out of luck at "),
    leaves: ("ImplementationRaisedError", "raised SystemExit: 3"),
    too_many: ("InvalidEmissionError", "emitted 5 tokens"),
    none_at_all: ("InvalidEmissionError", "emitted 0 tokens"),
    out_of_range: ("InvalidEmissionError", "outside [0, "),
    negative: ("InvalidEmissionError", "emitted id -1"),
    fractions: ("InvalidEmissionError", "0.5, which is not an integer"),
    not_tokens: ("InvalidEmissionError", "returned dict"),
    wrong_count: ("InvalidEmissionError", "n_accepted is 5 for 3 drafts"),
    of_a_batch: ("ImplementationRaisedError", "(called in the form verify, with numpy arrays)"),
    padded: ("InvalidEmissionError", "in [0, -1, -1]: a single block is not padded"),
    three_values: (
        "InvalidEmissionError",
        "returned 3 values: the tokens alone are expected",
    ),
    nested: ("InvalidEmissionError", "one entry holds 2 values"),
    mutates: ("InputMutatedError", "wrote into its argument target_probs"),
}


def _error(result):
    assert result.verdict is Verdict.ERROR
    assert result.summary.contract is Verdict.ERROR
    assert exit_code(result) == 1
    (check,) = (c for c in result.checks if c.verdict is Verdict.ERROR)
    assert check.message in result.summary.headline
    return check


@pytest.mark.parametrize("function", INLINE, ids=lambda f: f.__name__)
def test_misbehaviour_is_a_verdict_with_its_input(small_audit, function) -> None:
    check = _error(small_audit(function, framework="numpy", gammas=(3,)))
    kind, text = INLINE[function]
    assert check.params["error"] == kind
    assert text in check.message
    assert len(check.case["draft_tokens"]) == 3
    assert np.shape(check.case["target_probs"])[0] == 4


@pytest.mark.parametrize("function", [raises, out_of_range], ids=lambda f: f.__name__)
def test_misbehaviour_is_a_verdict_where_laws_are_only_traced(small_audit, function) -> None:
    check = _error(small_audit(function, framework="numpy", gammas=(3,), mode="exact"))
    assert INLINE[function][1] in check.message


def _audit_here(name: str, **settings) -> object:
    config = AuditConfig(framework="numpy", gammas=(3,), tv=0.1, **settings)
    return audit(f"{HERE}:{name}", config=config)


@pytest.mark.parametrize(
    ("name", "text", "settings"),
    [
        ("aborts", "ended with signal SIGABRT", {}),
        ("hangs", "did not return within 0.5 s", {"time_limit": 0.5}),
        ("hungry", "MemoryError", {"memory_limit": 2**30}),
    ],
)
@pytest.mark.parametrize("workers", [1, 2])
def test_a_worker_may_die_without_harm(name, text, settings, workers) -> None:
    """A single one is a process of its own; several are forked from a nursery."""
    check = _error(_audit_here(name, workers=workers, **settings))
    assert text in check.message
    assert len(check.case["draft_tokens"]) == 3


def test_a_hang_in_this_process_is_interrupted(small_audit) -> None:
    check = _error(small_audit(hangs, framework="numpy", gammas=(3,), time_limit=0.2))
    assert check.params["error"] == "ImplementationTimeoutError"


def test_what_was_sampled_before_an_error_is_reported(small_audit) -> None:
    from specverify.sampler.verify import speculative_verify

    calls = iter(range(10**9))

    def late(target_probs, draft_probs, draft_tokens, generator):
        if next(calls) > 1500:
            raise RuntimeError("too late")
        return speculative_verify(target_probs, draft_probs, draft_tokens, generator)

    result = small_audit(late, framework="numpy", gammas=(3,))
    _error(result)
    assert sum(check.n for check in result.checks if check.name.startswith("token[")) > 1000


def test_a_target_that_cannot_be_loaded_is_the_users_mistake(tmp_path) -> None:
    with pytest.raises(UnknownTargetError, match="no such file"):
        audit(f"{tmp_path}/nothing.py:verify")
    broken = tmp_path / "broken.py"
    broken.write_text("import nowhere_to_be_found\n")
    with pytest.raises(UnknownTargetError, match="cannot be imported: ModuleNotFoundError"):
        audit(f"{broken}:verify")


def test_printing_does_not_disturb_a_worker(tmp_path) -> None:
    noisy = tmp_path / "noisy.py"
    noisy.write_text(
        "import os\n"
        "from specverify.sampler.verify import speculative_verify\n"
        "def verify(target_probs, draft_probs, draft_tokens, generator):\n"
        "    os.write(1, b'hello')\n"
        "    return speculative_verify(target_probs, draft_probs, draft_tokens, generator)\n"
    )
    config = AuditConfig(framework="numpy", gammas=(3,), tv=0.1, workers=2)
    two = audit(f"{noisy}:verify", config=config)
    inline = audit(
        f"{noisy}:verify",
        config=AuditConfig(framework="numpy", gammas=(3,), tv=0.1, isolation="inline"),
    )
    assert two.verdict is Verdict.PASS
    # Workers and processes change nothing: every count is the same.
    assert [c.statistic for c in two.checks] == [c.statistic for c in inline.checks]
