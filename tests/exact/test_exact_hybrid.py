"""Blocks of given drafts at any vocabulary: against full enumeration, closed forms and mutants."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from specverify.audit.rows import zipf
from specverify.bugs import CONTROLS, ZOO
from specverify.distributions import residual_distribution, total_variation
from specverify.errors import InvalidInputError, UnsupportedRandomness
from specverify.exact import ReplayDivergence, TracedGenerator, enumerate_law
from specverify.exact.conformance import check_conformance, exact_one_draft_law
from specverify.exact.hybrid import exact_conditional_law, standard_conditional_law
from specverify.sampler.batched import verify_blocks
from specverify.sampler.verify import speculative_verify

RNG = np.random.default_rng(12)
SMALL = RNG.dirichlet(np.ones(6), 3), RNG.dirichlet(np.ones(6), 2)
LARGE = tuple(rows[:, 0] for rows in zipf(3000)(RNG, 4))
TARGET, DRAFT = LARGE[0], LARGE[1][:3]


def enumerated(verify: Any, drafts: tuple[int, ...]) -> dict[Any, float]:
    generator = TracedGenerator()

    def run() -> Any:
        target, draft = SMALL[0].copy(), SMALL[1].copy()
        return verify(target, draft, np.array(drafts), generator)[0]

    return dict(enumerate_law(run).probabilities)


CALLABLES = {
    "reference": speculative_verify,
    **{
        name: (CONTROLS | ZOO)[name].callable
        for name in (
            *("reversed_inversion", "rescaled_uniform", "exponential_race", "sample_and_match"),
            *("no_bonus", "block_verification", "closed_accept_test", "accept_target_probability"),
            *("resample_from_target", "bonus_from_draft", "reused_uniform", "shared_uniform"),
            *("rejected_kept", "id_beyond_vocabulary"),
        )
    },
}


@pytest.mark.parametrize("name", CALLABLES)
def test_the_conditional_law_is_that_of_full_enumeration(name: str) -> None:
    for drafts in ((0, 3), (5, 5), (2, 1)):
        law = exact_conditional_law(CALLABLES[name], *SMALL, drafts)
        expected = enumerated(CALLABLES[name], drafts)
        for emitted, mass in expected.items():
            if max(emitted) < 6:
                assert math.isclose(law.rows[emitted[:-1]][emitted[-1]], mass, abs_tol=1e-14)
        total = math.fsum(float(row.sum()) for row in law.rows.values())
        assert math.isclose(total + law.invalid_mass, 1.0, abs_tol=1e-12)


@pytest.mark.parametrize("framework", ["torch", "numpy"])
@pytest.mark.parametrize("form", ["verify", "batched"])
def test_the_references_conform_at_a_large_vocabulary(framework: Any, form: Any) -> None:
    verify = speculative_verify if form == "verify" else verify_blocks
    options = {"framework": framework, "form": form}
    found = check_conformance(
        verify, TARGET, DRAFT, generator=np.random.default_rng(1), drafts=2, **options
    )
    assert found.conforms
    # A handful of runs in place of thousands of paths. Batches draw from a long row in two steps,
    # which is followed token by token.
    few = 100 if form == "verify" else 2 * TARGET.shape[1]
    assert max(law.paths for law in found.laws) < few


def test_float32_rows_conform_within_their_rounding() -> None:
    rows = torch.tensor(TARGET, dtype=torch.float32), torch.tensor(DRAFT, dtype=torch.float32)
    generator = np.random.default_rng(1)
    assert check_conformance(speculative_verify, *rows, generator=generator, drafts=2).conforms


def test_a_wrong_residual_deviates_by_its_closed_form() -> None:
    verify, drafts = ZOO["resample_from_target"].callable, (1, 4, 9)
    law = exact_conditional_law(verify, TARGET, DRAFT, drafts)
    expected, reached = 0.0, 1.0
    for place, token in enumerate(drafts):
        accept = min(1.0, TARGET[place, token] / DRAFT[place, token])
        residual = residual_distribution(TARGET[place], DRAFT[place])
        apart = float(total_variation(np.asarray(residual), TARGET[place]))
        expected += reached * (1 - accept) * apart
        reached *= accept
    distance = law.distance(standard_conditional_law(TARGET, DRAFT, drafts))
    assert expected > 1e-3
    assert math.isclose(distance, expected, abs_tol=1e-12)


@pytest.mark.parametrize("name", ["resample_from_target", "bonus_from_draft", "ratio_swapped"])
def test_bugs_do_not_conform(name: str) -> None:
    verify, generator = ZOO[name].callable, np.random.default_rng(2)
    found = check_conformance(verify, TARGET, DRAFT, generator=generator, drafts=4)
    assert not found.conforms


def test_another_lossless_rule_does_not_conform_either() -> None:
    """Which is why agreement is no verdict on the law, nor disagreement."""
    verify, generator = CONTROLS["sample_and_match"].callable, np.random.default_rng(2)
    found = check_conformance(verify, TARGET, DRAFT, generator=generator, drafts=2)
    assert not found.conforms
    # Its first token has the target's law whatever the drafts are.
    assert float(total_variation(found.first_token, TARGET[0])) < 1e-12


def test_the_first_token_is_estimated_with_the_drafts_noise_alone() -> None:
    generator = np.random.default_rng(3)
    found = check_conformance(speculative_verify, *SMALL, generator=generator, drafts=150)
    assert float(total_variation(found.first_token, SMALL[0][0])) < 0.1
    assert math.isclose(float(found.first_token.sum()), 1.0)


def test_one_draft_is_exact() -> None:
    rows = TARGET[:2, :120], DRAFT[:1, :120]
    target, draft = (r / r.sum(axis=-1, keepdims=True) for r in rows)
    for verify in (speculative_verify, CONTROLS["sample_and_match"].callable):
        found = exact_one_draft_law(verify, target, draft)
        assert found.tv.high < 1e-12
    wrong = ZOO["resample_from_target"]
    assert wrong.row_law is not None
    expected = float(total_variation(wrong.row_law(target[:1], draft)[0], target[0]))
    found = exact_one_draft_law(wrong.callable, target, draft)
    assert math.isclose(found.first_token_tv, expected, abs_tol=1e-12)
    assert math.isclose(found.tv.low, expected, abs_tol=1e-12)
    assert found.paths < 12 * 120


def test_one_draft_sees_a_wrong_bonus_exactly() -> None:
    target, draft = RNG.dirichlet(np.ones(30), 2), RNG.dirichlet(np.ones(30), 1)
    found = exact_one_draft_law(ZOO["bonus_from_draft"].callable, target, draft)
    accepted = float(np.minimum(target[0], draft[0]).sum())
    expected = accepted * float(total_variation(target[1], draft[0]))
    assert found.first_token_tv < 1e-12
    assert math.isclose(found.tv.low, expected, abs_tol=1e-12)
    assert math.isclose(found.tv.high, expected, abs_tol=1e-12)


def _shifted(target: Any, draft: Any, tokens: Any, generator: Any) -> Any:
    return [(int(generator.choice(6, p=target[0])) + 1) % 6]


def _then_flips(target: Any, draft: Any, tokens: Any, generator: Any) -> Any:
    last = int(generator.choice(6, p=target[0]))
    return [last, int(generator.random() < 0.5)]


@pytest.mark.parametrize("verify", [_shifted, _then_flips])
def test_a_draw_that_is_not_emitted_last_is_refused(verify: Any) -> None:
    with pytest.raises(UnsupportedRandomness, match="not what the function emits last"):
        exact_conditional_law(verify, *SMALL, (0, 0))


def test_hidden_state_is_noticed() -> None:
    calls = iter(range(100))
    with pytest.raises(ReplayDivergence):
        exact_conditional_law(lambda target, draft, tokens: [next(calls)], *SMALL, (0, 0))


def test_exceptions_keep_their_mass() -> None:
    def fragile(target: Any, draft: Any, tokens: Any, generator: Any) -> Any:
        if generator.random() < 0.25:
            raise ValueError("no residual")
        return speculative_verify(target, draft, tokens, generator)[0]

    law = exact_conditional_law(fragile, *SMALL, (0, 3))
    assert law.exceptions == {"ValueError: no residual": 0.25}
    assert law.distance(standard_conditional_law(*SMALL, (0, 3))) > 0.1


def test_unfit_arguments_are_the_caller_s_mistake() -> None:
    with pytest.raises(InvalidInputError, match="draft_tokens"):
        exact_conditional_law(speculative_verify, *SMALL, (0,))
    with pytest.raises(InvalidInputError, match="target_probs"):
        exact_conditional_law(speculative_verify, SMALL[0][:, :3], SMALL[1][:, :3], (0, 0))
    with pytest.raises(InvalidInputError, match="drafts"):
        check_conformance(speculative_verify, *SMALL, generator=RNG, drafts=0)
    with pytest.raises(InvalidInputError, match="one row"):
        exact_one_draft_law(speculative_verify, *SMALL)
