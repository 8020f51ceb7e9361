"""assert_lossless: exact where it can be, samples where it cannot, and what a failure says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import verifiers_for_tests as kernels

from specverify.bugs import ZOO
from specverify.bugs.loops import StagedDecoder
from specverify.errors import InvalidInputError, UnsupportedRandomness
from specverify.sampler.batched import verify_blocks
from specverify.sampler.decode import speculative_decode
from specverify.sampler.verify import speculative_verify
from specverify.testing import InconclusiveError, NotLosslessError, assert_lossless
from specverify.testing.naming import command
from specverify.testing.options import Options


def test_a_right_verifier_passes_exactly() -> None:
    report = assert_lossless(kernels.right)
    assert report.mode == "exact"
    assert report.tv < 1e-12
    assert report.searched > 0
    assert report.why_statistical is None
    assert len(report.looked_at) == len(set(report.looked_at)) == 12


def test_torch_code_passes_exactly() -> None:
    report = assert_lossless(speculative_verify, framework="torch", gammas=[1])
    assert (report.mode, report.tv < 1e-12) == ("exact", True)


def test_code_for_float32_rows_gets_them() -> None:
    def single(target: torch.Tensor, draft: torch.Tensor, tokens: torch.Tensor, g: Any) -> Any:
        return speculative_verify(target + torch.zeros(1).expand(1), draft, tokens, g)

    def strict(target: torch.Tensor, draft: torch.Tensor, tokens: torch.Tensor, g: Any) -> Any:
        if target.dtype != torch.float32:
            raise TypeError("float32 rows, please")
        return single(target, draft, tokens, g)

    assert 0 < assert_lossless(strict, gammas=[1]).tv < 1e-6


def test_a_keyword_only_generator_is_handed_over() -> None:
    assert assert_lossless(kernels.keyword_only, gammas=[1]).mode == "exact"


@pytest.mark.parametrize(
    ("form", "code"), [("decode", speculative_decode), ("batched", verify_blocks)]
)
def test_other_forms_pass(form: str, code: Any) -> None:
    report = assert_lossless(code, form=form, framework="numpy", gammas=[1])
    assert (report.mode, report.tv < 1e-12) == ("exact", True)


def test_what_leaks_from_row_to_row_is_seen() -> None:
    leaking = kernels.residual_of_first_row
    with pytest.raises(NotLosslessError, match="in row 1 of two") as caught:
        assert_lossless(leaking, form="batched", framework="numpy", gammas=[1])
    assert "none of 60 drawn batches of one deviates" in str(caught.value)


def test_samples_of_a_batched_verifier_are_batches() -> None:
    leaking = kernels.opaque_residual_of_first_row
    with pytest.raises(NotLosslessError, match="not enumerated: cannot be traced"):
        assert_lossless(leaking, form="batched", framework="numpy", gammas=[2])
    fine = assert_lossless(
        verify_blocks, form="batched", framework="numpy", gammas=[2], mode="statistical"
    )
    assert (fine.mode, 0.005 < fine.tv <= 0.05) == ("statistical", True)


def test_a_failure_tells_all() -> None:
    with pytest.raises(NotLosslessError) as caught:
        assert_lossless(kernels.from_target)
    text = str(caught.value)
    assert "the law breaks at position 0" in text
    assert "stage: residual; consistent with resample_from_target" in text
    assert "smallest counterexample found (V = 2, gamma = 1, total variation 0.25)" in text
    assert "verifiers_for_tests.py:from_target --form verify --seed 0" in text
    assert caught.value.position == 0
    assert caught.value.tv is not None
    assert caught.value.tv > 0.1


def test_the_snippet_in_the_text_shows_the_bias() -> None:
    with pytest.raises(NotLosslessError) as caught:
        assert_lossless(kernels.from_target, gammas=[1])
    lines = str(caught.value).partition("to paste into a test:")[2].partition("repeat it")[0]
    snippet = "\n".join(line[4:] for line in lines.splitlines())
    with pytest.raises(AssertionError, match="TvBounds"):
        exec(snippet, {})


def test_the_command_audits_in_the_same_mode() -> None:
    assert " --mode " not in str(command(kernels.from_target, Options()))
    assert "--mode exact --seed 3" in str(
        command(kernels.from_target, Options(mode="exact", seed=3))
    )


def test_a_bias_late_in_the_block_is_placed() -> None:
    with pytest.raises(NotLosslessError) as caught:
        assert_lossless(kernels.late_bias)
    assert caught.value.position == 2


def test_a_biased_loop_fails() -> None:
    def greedy(prompt: Any, target_step: Any, draft_step: Any, gamma: int, n: int, g: Any) -> Any:
        tokens = list(prompt)
        for _ in range(n):
            tokens.append(int(np.argmax(target_step(np.array(tokens)))))
        return tokens[len(prompt) :]

    with pytest.raises(NotLosslessError, match="bind it to a name"):
        assert_lossless(greedy, form="decode", framework="numpy", gammas=[1])


@pytest.mark.parametrize("gamma", [1, 2])
def test_a_loop_whose_state_keeps_rejected_drafts_fails(gamma: int) -> None:
    name = "recurrent_state_untrimmed"
    told = f"of the completion .*stage: cache; consistent with {name}"
    with pytest.raises(NotLosslessError, match=told):
        assert_lossless(ZOO[name].callable, form="decode", framework="numpy", gammas=[gamma])
    fine = assert_lossless(StagedDecoder(), form="decode", framework="numpy", gammas=[gamma])
    assert fine.tv < 1e-12


def test_an_exception_is_a_failure_and_named() -> None:
    with pytest.raises(NotLosslessError, match="IndexError: empty slice"):
        assert_lossless(kernels.raises, gammas=[1])


def test_an_exception_of_the_tracer_is_no_failure() -> None:
    def checks_type(target: Any, draft: Any, tokens: Any, rng: Any) -> Any:
        if type(rng.random()) is not float:
            raise TypeError("no float")
        return kernels.right(target, draft, tokens, rng)

    with pytest.raises(UnsupportedRandomness, match="never outside it"):
        assert_lossless(checks_type, framework="numpy", mode="exact", gammas=[1])


def test_untraceable_code_is_sampled_and_the_reason_given() -> None:
    report = assert_lossless(kernels.opaque, gammas=[8])
    assert report.mode == "statistical"
    assert 0.005 < report.tv <= 0.05
    assert "bit_generator" in str(report.why_statistical)
    assert report.false_alarm == 1e-6


def test_untraceable_code_with_a_bias_fails() -> None:
    with pytest.raises(NotLosslessError, match="consistent with resample_from_target") as caught:
        assert_lossless(kernels.opaque_from_target, gammas=[2])
    assert "not enumerated: cannot be traced" in str(caught.value)


def test_exact_mode_refuses_what_it_cannot_trace() -> None:
    with pytest.raises(UnsupportedRandomness, match="bit_generator"):
        assert_lossless(kernels.opaque, mode="exact")


def test_a_spent_budget_is_no_pass() -> None:
    with pytest.raises(InconclusiveError, match="within 20"):
        assert_lossless(kernels.right, mode="exact", budget="20")
    with pytest.raises(InconclusiveError, match="within 500"):
        assert_lossless(kernels.opaque, budget="500", gammas=[2])


def test_a_bias_found_within_the_budget_fails() -> None:
    with pytest.raises(NotLosslessError):
        assert_lossless(kernels.from_target, mode="exact", budget="20")


@pytest.mark.parametrize(
    ("argument", "value"),
    [("mode", "fast"), ("form", "engine"), ("framework", "jax"), ("gammas", []), ("tolerance", 2.0),
     ("seed", -1), ("budget", "much")],
)  # fmt: skip
def test_unusable_arguments_are_named(argument: str, value: Any) -> None:
    with pytest.raises(InvalidInputError, match=argument):
        assert_lossless(kernels.right, **{argument: value})
